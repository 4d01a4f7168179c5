//! Settings of a run by which runs of two systems are matched.

use std::fmt;

use ringfall_config::{PRESETS, Preset};
use serde::Serialize;

use crate::Document;

/// MiB of a GiB.
const MIB_PER_GIB: f64 = 1024.0;
/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// Largest CPU tier that a file name is believed, GiB (`--cpu-mem-gb`'s bound).
const CPU_MEMORY_GIB_MAX: f64 = 131_072.0;

/// The settings by which published results are told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Configuration {
    /// CPU tier, MiB: an integer, so that configurations can be keys.
    pub cpu_memory_mib: u64,
    /// Model whose KV cache is simulated.
    pub model: String,
    /// Number of simulated users.
    pub users: u64,
    /// Prefill writes at once, 0: unbounded (`qd` in file names, though no queue depth).
    pub max_concurrent_allocs: u64,
    /// Waiting for generated tokens: none, fast or realistic.
    pub generation_mode: String,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cpu{}GB qd{} gen{} users{}",
            self.model,
            self.cpu_memory_gib(),
            self.max_concurrent_allocs,
            self.generation_mode,
            self.users
        )
    }
}

impl Configuration {
    /// Capacity of the CPU tier, GiB.
    pub fn cpu_memory_gib(&self) -> f64 {
        self.cpu_memory_mib as f64 / MIB_PER_GIB
    }

    /// Reads a result's name, `…_MODEL_cpuNGB_qdN_genMODE_usersN.json`, where something that tells
    /// trials apart may follow the users (`_trial3`). `None` when the name is no such one.
    pub fn from_file_name(name: &str) -> Option<Configuration> {
        let name = name.rsplit(['/', '\\']).next()?;
        let name = name.strip_suffix(".json").unwrap_or(name);
        let (before, settings) = name.rsplit_once("_cpu")?;
        let model = before.rsplit('_').next().filter(|model| !model.is_empty())?;
        let (cpu, settings) = settings.split_once("GB_qd")?;
        let (allocs, settings) = settings.split_once("_gen")?;
        let (mode, settings) = settings.split_once("_users")?;
        let digits = settings.bytes().take_while(u8::is_ascii_digit).count();
        let (users, trial) = settings.split_at(digits);
        let gib: f64 = cpu.parse().ok()?;
        let known = (0.0..=CPU_MEMORY_GIB_MAX).contains(&gib)
            && !mode.is_empty()
            && (trial.is_empty() || trial.starts_with(['_', '-', '.']));
        known.then_some(())?;
        Some(Configuration {
            // Bounded above; a share of a MiB is no difference.
            cpu_memory_mib: (gib * MIB_PER_GIB).round() as u64,
            model: model.to_owned(),
            users: users.parse().ok()?,
            max_concurrent_allocs: allocs.parse().ok()?,
            generation_mode: mode.to_owned(),
        })
    }

    /// Parses the name of a result: a whole configuration, or a published invocation.
    pub fn from_name(name: &str) -> Option<Configuration> {
        Configuration::from_file_name(name).or_else(|| Configuration::from_invocation(name))
    }

    /// The published invocation that a result is named after: `MODEL_stress_trialN.json`,
    /// `MODEL_tput_trialN.json`, and those of the results summary with `mlperf` in the model's
    /// place and the host's name before the trial. `None` when the name is no such one.
    pub fn from_invocation(name: &str) -> Option<Configuration> {
        let name = name.rsplit(['/', '\\']).next()?;
        let name = name.strip_suffix(".json").unwrap_or(name);
        let mut words = name.split('_');
        let (first, second) = (words.next()?, words.next()?);
        let first = first.strip_suffix("-instruct").unwrap_or(first);
        let second = if second == "tput" { "throughput" } else { second };
        let is_trial = |word: &str| word.starts_with("trial");
        // A host's name may stand between `mlperf_stress` and the trial.
        let known = words.next().is_none_or(is_trial) || first == "mlperf";
        let named = |name: &str| name.rsplit_once('-') == Some((first, second));
        let preset = PRESETS.iter().find(|preset| known && named(preset.name))?;
        Some(Configuration::from_preset(preset))
    }

    /// The configuration that the runs of a preset have, whatever their length.
    pub fn from_preset(preset: &Preset) -> Configuration {
        Configuration {
            cpu_memory_mib: u64::from(preset.cpu_memory_gib) * 1024,
            model: preset.model.to_owned(),
            users: preset.users.into(),
            max_concurrent_allocs: preset.max_concurrent_allocs.into(),
            generation_mode: "none".to_owned(),
        }
    }

    /// Reads the configuration that a result of ringfall holds. `None` when it holds none.
    pub fn from_result(document: &Document) -> Option<Configuration> {
        let config = document.ringfall.config.as_ref()?;
        Some(Configuration {
            cpu_memory_mib: config.cpu_memory_bytes?.div_ceil(MIB),
            model: config.model.clone()?,
            users: config.num_users?.into(),
            max_concurrent_allocs: config.max_concurrent_allocs.unwrap_or(0).into(),
            generation_mode: config.generation_mode.clone()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use ringfall_config::Named as _;

    use super::*;
    use crate::testing::nothing;

    #[test]
    fn published_names_are_read_with_and_without_trials() {
        let name = "results/mlperf_v3_storage_llama3.1-70b-instruct_cpu4GB_qd16_gennone_users200";
        let want = Configuration {
            cpu_memory_mib: 4096,
            model: "llama3.1-70b-instruct".into(),
            users: 200,
            max_concurrent_allocs: 16,
            generation_mode: "none".into(),
        };
        for end in [".json", "_trial2.json", "-3.json", ""] {
            let read = Configuration::from_file_name(&format!("{name}{end}"));
            assert_eq!(read.as_ref(), Some(&want), "{end}");
        }
        let half = Configuration::from_file_name("x_tiny-1b_cpu0.5GB_qd0_genfast_users1.json");
        assert_eq!(half.map(|c| c.cpu_memory_mib), Some(512));
    }

    #[test]
    fn results_named_after_a_published_invocation_are_that_one() {
        let of = |name: &str| Configuration::from_name(name).map(|c| c.to_string());
        let stress = Some("llama3.1-8b cpu0GB qd0 gennone users200".to_owned());
        for name in ["r/llama3.1-8b_stress_trial1.json", "llama3.1-8b_stress.json"] {
            assert_eq!(of(name), stress, "{name}");
        }
        let tput = Some("llama3.1-70b-instruct cpu4GB qd4 gennone users20".to_owned());
        assert_eq!(of("llama3.1-70b_tput_trial3.json"), tput);
        assert_eq!(of("llama3.1-70b-instruct_throughput_trial3.json"), tput);
        let of_host = Some("llama3.1-8b cpu0GB qd16 gennone users200".to_owned());
        assert_eq!(of("mlperf_stress_host_a_trial2.json"), of_host);
        for other in ["llama3.1-8b_stress_hot.json", "opt_stress_trial1.json", "stress.json", "_"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn other_names_are_not_guessed_at() {
        for name in [
            "",
            "result.json",
            "_cpu0GB_qd0_gennone_users5.json",
            "m_cpuNaNGB_qd0_gennone_users5.json",
            "m_cpu-1GB_qd0_gennone_users5.json",
            "m_cpu0GB_qd_gennone_users5.json",
            "m_cpu0GB_qd0_gen_users5.json",
            "m_cpu0GB_qd0_gennone_users.json",
            "m_cpu0GB_qd0_gennone_users5x.json",
            "m_cpu0GB_qd0_gennone_users99999999999999999999999.json",
        ] {
            assert_eq!(Configuration::from_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_result_of_ringfall_says_it_itself() {
        let mut result = nothing();
        result.plan.model = "tiny-1b".to_owned();
        (result.plan.users, result.plan.cpu_memory_bytes) = (6, 4 << 30);
        result.plan.max_concurrent_allocs = None;
        let mode = result.plan.generation_mode.name();
        let read = Configuration::from_result(&Document::of(&result)).unwrap();
        let name = format!("a_tiny-1b_cpu4GB_qd0_gen{mode}_users6.json");
        assert_eq!(Some(read), Configuration::from_file_name(&name));
        assert_eq!(Configuration::from_result(&Document::default()), None);
    }
}
