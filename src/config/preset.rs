//! The invocations that the reference's authors recommend, by name, with the ratios that they
//! published for them.

use super::nearest::nearest;
use super::values::{Auto, Gib, Seconds};
use super::{GenerationMode, InputError, Options, Word};

/// A published invocation. Tokens take no time in any of them, and each runs for 300 s.
#[derive(Debug, PartialEq)]
pub struct Preset {
    /// Its name, which is also what its results were named after.
    pub name: &'static str,
    /// Model whose KV cache is simulated.
    pub model: &'static str,
    /// Capacity of the CPU tier, GiB.
    pub cpu_memory_gib: u32,
    /// Prefill writes at once; 0: any number.
    pub max_concurrent_allocs: u32,
    /// Number of simulated users.
    pub users: u32,
    /// Metrics, the primary ones first, and how many times as much the faster of the two published
    /// systems had of each.
    pub published: &'static [(&'static str, f64)],
}

/// The two systems that the ratios were published of.
pub const PUBLISHED_SYSTEMS: &str = "drives of 14,000 and about 3,000 MB/s";

/// Length of all of them, s.
pub const PRESET_DURATION_S: i64 = 300;
const DECODE: &str = "decode_bytes_read_gb";
const WALL: &str = "wall_clock_throughput_tokens_per_s";
const STORAGE: &str = "storage_throughput_tokens_per_s";

/// Six recommended by model (stress without a CPU tier, throughput with one of 4 GiB), and the two
/// options of the results summary. Metrics are keys of `results::metrics`.
pub const PRESETS: [Preset; 8] = [
    preset("llama2-7b-stress", "llama2-7b", (0, 0, 150), &[(WALL, 4.64)]),
    preset("llama2-7b-throughput", "llama2-7b", (4, 4, 200), &[(STORAGE, 2.34)]),
    preset("llama3.1-8b-stress", "llama3.1-8b", (0, 0, 200), &[(WALL, 2.70)]),
    preset("llama3.1-8b-throughput", "llama3.1-8b", (4, 0, 150), &[(STORAGE, 2.87)]),
    preset("llama3.1-70b-stress", "llama3.1-70b-instruct", (0, 0, 70), &[(WALL, 2.44)]),
    preset("llama3.1-70b-throughput", "llama3.1-70b-instruct", (4, 4, 20), &[(STORAGE, 3.25)]),
    preset("mlperf-stress", "llama3.1-8b", (0, 16, 200), &[(DECODE, 2.62), (WALL, 2.43)]),
    preset("mlperf-storage", "llama3.1-8b", (4, 0, 100), &[(STORAGE, 2.23), (DECODE, 2.06)]),
];

const fn preset(
    name: &'static str,
    model: &'static str,
    (cpu_memory_gib, max_concurrent_allocs, users): (u32, u32, u32),
    published: &'static [(&'static str, f64)],
) -> Preset {
    Preset { name, model, cpu_memory_gib, max_concurrent_allocs, users, published }
}

impl Preset {
    /// The preset of a name: `tput` stands for `throughput`, and the model may end in `-instruct`.
    ///
    /// # Errors
    /// There is none; the sentence names the nearest.
    pub fn by_name(name: &str) -> Result<&'static Preset, InputError> {
        let wanted = name.to_ascii_lowercase().replace('_', "-").replace("-instruct-", "-");
        let wanted = match wanted.strip_suffix("-tput") {
            Some(model) => format!("{model}-throughput"),
            None => wanted,
        };
        PRESETS.iter().find(|preset| preset.name == wanted).ok_or_else(|| {
            let names = PRESETS.iter().map(|preset| preset.name);
            let hint = nearest(&wanted, names)
                .map_or(String::new(), |near| format!("did you mean {near}? "));
            InputError::new(format!(
                "--preset {name:?} is not a known preset; {hint}`ringfall run --preset list` shows \
                 them"
            ))
        })
    }

    /// Whether it is one of the six that are recommended by model.
    pub fn is_of_a_model(&self) -> bool {
        !self.name.starts_with("mlperf-")
    }

    /// Its settings; all others are left alone.
    pub fn options(&self) -> Options {
        Options {
            model: Some(self.model.to_owned()),
            cpu_mem_gb: Some(Auto::Given(Gib(f64::from(self.cpu_memory_gib)))),
            max_concurrent_allocs: Some(i64::from(self.max_concurrent_allocs)),
            num_users: Some(i64::from(self.users)),
            duration: Some(Seconds(PRESET_DURATION_S)),
            generation_mode: Some(Word(GenerationMode::None)),
            ..Options::default()
        }
    }

    /// Its flags, as they would be typed, on two lines.
    pub fn flags(&self) -> String {
        format!(
            "--model {} --num-users {} --duration {PRESET_DURATION_S}\n  --cpu-mem-gb {} \
             --max-concurrent-allocs {} --generation-mode none",
            self.model, self.users, self.cpu_memory_gib, self.max_concurrent_allocs
        )
    }
}

/// All presets, a line each, and what they stand for.
pub fn presets_page() -> String {
    let mut page = "Presets: recommended invocations of the reference benchmark. Flags that are \
                    given too take\nprecedence.\n\n"
        .to_owned();
    for preset in &PRESETS {
        page.push_str(&format!("{}\n  {}\n", preset.name, preset.flags()));
        for (metric, ratio) in preset.published {
            page.push_str(&format!("  published: {ratio:.2} times as much {metric}\n"));
        }
    }
    page.push_str(&format!(
        "\nThe ratios were published of {PUBLISHED_SYSTEMS}. Run 3 to 5 trials (--trials 3) and\n\
         report the median. Without a CPU tier, storage throughput told the two apart only with\n\
         --max-concurrent-allocs 0 (2.60 times as much, 35 of 35 configurations); with 2 and 4 it\n\
         did not (1.06 and 1.07 times, 34 of 76). With a CPU tier of 4 GiB it did with any: 2.01,\n\
         2.21 and 2.32 times with 0, 2 and 4. A larger model takes fewer users, since each of its\n\
         requests takes more cache. `ringfall sweep --space presets` runs the six by model.\n"
    ));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::facts;
    use crate::{Facts, resolve};

    #[test]
    fn every_preset_is_a_run_and_flags_take_precedence() {
        let facts = Facts { memory_available_bytes: Some(64 << 30), ..facts() };
        for preset in &PRESETS {
            let typed = Options { num_users: Some(3), ..Options::default() };
            let plan = resolve(&typed.over(preset.options()), None, &facts).unwrap();
            assert_eq!((plan.users, plan.duration_s), (3, 300), "{}", preset.name);
            assert_eq!(plan.model, preset.model);
            assert_eq!(plan.cpu_memory_bytes, u64::from(preset.cpu_memory_gib) << 30);
            assert_eq!(plan.max_concurrent_allocs.unwrap_or(0), preset.max_concurrent_allocs);
            assert!(presets_page().contains(&preset.flags()));
        }
    }

    #[test]
    fn names_are_found_in_the_forms_that_people_type() {
        let of = |name| Preset::by_name(name).unwrap().name;
        assert_eq!(of("llama3.1-8b-stress"), "llama3.1-8b-stress");
        assert_eq!(of("LLAMA3.1-70B-instruct_tput"), "llama3.1-70b-throughput");
        assert_eq!(of("mlperf_storage"), "mlperf-storage");
        let error = Preset::by_name("llama3.1-8b-stres").unwrap_err().to_string();
        assert!(error.contains("did you mean llama3.1-8b-stress?"), "{error}");
        assert!(Preset::by_name("").is_err());
    }
}
