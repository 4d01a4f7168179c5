//! From combinations to runs: each checked before anything runs, named so that `ringfall compare`
//! finds it, and in an order in which drift looks like noise.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_config::values::{Auto, Seconds, Seed};
use ringfall_config::{
    ConfigFile, DeviceFile, Facts, InputError, Named as _, Options, PRESET_DURATION_S, Plan,
};

use super::space::{Point, check_allowed};
use crate::batch::Job;
use crate::cli::{SweepArgs, SweepSpace};
use crate::commands::run::{check_device_may_be_destroyed, simulated};
use crate::commands::{file_of, is_bounded, run_args};

/// The seed when none is given: as in the published recommendations, and the same each time, so
/// that the same command continues what it began.
pub(super) const SEED_DEFAULT: u64 = 42;
/// Settings by which `compare` tells the runs of one collection apart.
const OF_A_CONFIGURATION: [&str; 5] =
    ["model", "cpu_mem_gb", "num_users", "max_concurrent_allocs", "generation_mode"];
/// Sentences about wrong combinations that are told.
const WRONG_SHOWN: usize = 8;
/// Time that a run takes besides its load, seconds: to begin, and to remove its data.
const REAL_START_S: f64 = 2.0;
/// Time that a simulated run takes to begin, and time of each of its I/Os, seconds: about three
/// times an I/O of `ringfall simulate` on an idle core.
const SIMULATED_START_S: f64 = 0.1;
const SIMULATED_IO_S: f64 = 3e-6;

#[derive(Clone, Debug)]
pub(super) struct SweepRun {
    /// Varied settings with their values in this run.
    pub(super) point: Point,
    /// Its place among the described drives, if there are any.
    pub(super) device: Option<usize>,
    /// From 1.
    pub(super) trial: u32,
    pub(super) job: Job,
}

/// A described drive and what its results are filed under.
pub(super) struct Described {
    /// The file, as typed.
    pub(super) path: PathBuf,
    pub(super) file: DeviceFile,
    /// A name that no other has, fit for a directory.
    pub(super) label: String,
}

impl Described {
    /// Reads the files.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Described>, InputError> {
        let mut all: Vec<Described> = Vec::new();
        for path in paths {
            let stem = plain(&path.file_stem().unwrap_or_default().to_string_lossy());
            let alike = all.iter().filter(|other| other.path.file_stem() == path.file_stem());
            let label = match alike.count() {
                0 => stem,
                before => format!("{stem}-{}", before + 1),
            };
            all.push(Described { path: path.clone(), file: DeviceFile::read(path)?, label });
        }
        Ok(all)
    }
}

/// All runs of the sweep in their order.
pub(super) fn runs(
    args: &SweepArgs,
    points: &[Point],
    devices: &[Described],
) -> Result<Vec<SweepRun>, InputError> {
    let asked = Asked::of(args, points)?;
    let facts = if devices.is_empty() { Facts::look() } else { Facts::look().of_no_machine() };
    let mut wrong: BTreeSet<String> = BTreeSet::new();
    for (key, value) in points.iter().flatten().collect::<BTreeSet<_>>() {
        let flag = key.replace('_', "-");
        let alone = run_args([format!("--{flag}={value}")]).err();
        let alone = alone.into_iter().flat_map(|error| error.sentences);
        wrong.extend(alone.map(|text| format!("--vary {flag}: {text}")));
    }
    let mut planned = Vec::new();
    let well_typed = if wrong.is_empty() { points } else { &[] };
    for point in well_typed {
        match asked.plan(point, &facts, devices) {
            Ok(plan) => planned.push((point, plan)),
            Err(error) => wrong.extend(error.sentences),
        }
    }
    if !wrong.is_empty() {
        let all = wrong.len();
        let mut sentences: Vec<String> = wrong.into_iter().take(WRONG_SHOWN).collect();
        if all > sentences.len() {
            sentences.push(format!("and {} more of this kind", all - sentences.len()));
        }
        return Err(InputError { sentences });
    }
    let systems: Vec<Option<usize>> = match devices.len() {
        0 => vec![None],
        all => (0..all).map(Some).collect(),
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(asked.seed);
    let mut runs = Vec::new();
    for trial in 1..=asked.trials {
        let mut block: Vec<SweepRun> = Vec::new();
        for (point, (options, plan)) in &planned {
            for device in &systems {
                let described = device.map(|place| &devices[place]);
                let job = asked.job(point, options, plan, described, trial, devices.len() > 1);
                block.push(SweepRun { point: (*point).clone(), device: *device, trial, job });
            }
        }
        shuffle(&mut block, &mut random);
        runs.extend(block);
    }
    Ok(runs)
}

/// Settings of the sweep besides the combinations.
struct Asked {
    /// Settings that are the same in all runs, as flags.
    base: Vec<String>,
    config: Option<PathBuf>,
    file: Option<ConfigFile>,
    trials: u32,
    seed: u64,
    is_seed_varied: bool,
}

impl Asked {
    fn of(args: &SweepArgs, points: &[Point]) -> Result<Asked, InputError> {
        let varied: BTreeSet<&str> = points.iter().flatten().map(|(key, _)| *key).collect();
        let file = file_of(&args.run)?;
        let in_file = file.as_ref().map(|file| file.options.clone()).unwrap_or_default();
        for key in in_file.given() {
            check_allowed(key)?;
        }
        let given = args.run.typed()?;
        for key in &given.given() {
            check_allowed(key)?;
            if varied.contains(key) {
                let flag = key.replace('_', "-");
                refuse!("--{flag} is given and varied: leave one of the two out");
            }
        }
        let typed = given.trials.or(in_file.trials).unwrap_or(1);
        // The bounds of the setting itself.
        let trials = u32::try_from(typed).ok().filter(|trials| (1..=1_000).contains(trials));
        let Some(trials) = trials else {
            refuse!("--trials {typed} is out of bounds: give 1 to 1000");
        };
        let is_seed_varied = varied.contains("seed");
        if is_seed_varied && trials > 1 && !args.device.is_empty() {
            let what = "--vary seed and --trials can't be combined on described drives, where a \
                        trial is a run with another seed: leave one of the two out";
            return Err(InputError::new(what));
        }
        let seed = match given.seed.or(in_file.seed) {
            Some(Seed::Given(seed)) => seed,
            Some(Seed::Random) => refuse!(
                "--seed random can't be used in a sweep, which the same command continues: give a \
                 number, or leave it out"
            ),
            None => SEED_DEFAULT,
        };
        let mut options = given;
        if args.space == Some(SweepSpace::Presets) && !varied.contains("duration") {
            let usual = Some(Seconds(PRESET_DURATION_S));
            options.duration = options.duration.or(in_file.duration).or(usual);
        }
        // A trial is a run of its own here, whatever the file says.
        (options.trials, options.seed) = (in_file.trials.map(|_| 1), None);
        (options.details, options.quiet) = (None, None);
        let config = args.run.config.clone();
        Ok(Asked { base: flags(&options)?, config, file, trials, seed, is_seed_varied })
    }

    /// The flags of a combination, without seed and trial.
    fn flags(&self, point: &Point) -> Vec<String> {
        let varied =
            point.iter().map(|(key, value)| format!("--{}={value}", key.replace('_', "-")));
        self.base.iter().cloned().chain(varied).collect()
    }

    /// The plan of a combination, and its settings as typed.
    ///
    /// # Errors
    /// Describes an invalid combination; a value that is out of bounds by itself is reported
    /// without the combination.
    fn plan(
        &self,
        point: &Point,
        facts: &Facts,
        devices: &[Described],
    ) -> Result<(Options, Plan), InputError> {
        let mut options = run_args(self.flags(point))?.options;
        options.seed = options.seed.or(Some(Seed::Given(self.seed)));
        let plan = ringfall_config::resolve(&options, self.file.as_ref(), facts).and_then(|plan| {
            match devices {
                [] => check_device_may_be_destroyed(&plan)?,
                _ => simulated::refuse_what_needs_a_drive(&plan)?,
            }
            for device in devices {
                simulated::refuse_files_on_several(&plan, &device.file)?;
            }
            Ok(plan)
        });
        let plan = plan.map_err(|mut error| {
            // What is wrong whatever the others are is said as if it were alone.
            let of = |(key, value): &(&str, String)| format!("{}={value}", key.replace('_', "-"));
            let combination = point.iter().map(of).collect::<Vec<_>>().join(", ");
            for sentence in &mut error.sentences {
                let is_alone = |(key, _): &(&str, String)| {
                    sentence.starts_with(&format!("--{} ", key.replace('_', "-")))
                        && sentence.contains("out of bounds")
                };
                if !point.iter().any(is_alone) {
                    sentence.push_str(&format!(" (with {combination})"));
                }
            }
            error
        })?;
        Ok((options, plan))
    }

    fn job(
        &self,
        point: &Point,
        options: &Options,
        plan: &Plan,
        device: Option<&Described>,
        trial: u32,
        is_of_several: bool,
    ) -> Job {
        let mut arguments = match device {
            None => vec!["run".to_owned()],
            Some(device) => {
                vec!["simulate".to_owned(), format!("--device={}", device.path.display())]
            }
        };
        if let Some(config) = &self.config {
            arguments.push(format!("--config={}", config.display()));
        }
        arguments.extend(self.flags(point));
        if !self.is_seed_varied {
            // A simulated run with the same seed would be the same run.
            let offset = if device.is_some() { u64::from(trial - 1) } else { 0 };
            arguments.push(format!("--seed={}", self.seed.wrapping_add(offset)));
        }
        let label = device.filter(|_| is_of_several).map(|device| device.label.as_str());
        let mut name = collection_of(point, label).map_or(String::new(), |name| name + "/");
        name.push_str(&file_name(options, plan));
        if self.trials > 1 {
            name.push_str(&format!("_trial{trial}"));
        }
        let is_bounded = is_bounded(plan);
        Job { is_bounded, ..Job::new(name, arguments, expected_s(plan, device)) }
    }
}

/// Settings as they would be typed.
fn flags(options: &Options) -> Result<Vec<String>, InputError> {
    let typed = serde_json::to_value(options)
        .map_err(|error| InputError::new(format!("a value can't be passed on: {error}")))?;
    let flag = |key: &str| {
        // Words as they are, all else as JSON has it, which is how it is typed too.
        let value = &typed[key];
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("--{}={text}", key.replace('_', "-"))
    };
    Ok(options.given().into_iter().map(flag).collect())
}

/// The directory of the results that belong together: what `compare` does not tell runs apart by,
/// as far as it is varied.
pub(super) fn collection_of(point: &Point, device: Option<&str>) -> Option<String> {
    let others = point.iter().filter(|(key, _)| !OF_A_CONFIGURATION.contains(key));
    let others = others.map(|(key, value)| plain(&format!("{}={value}", key.replace('_', "-"))));
    let parts: Vec<String> = device.map(str::to_owned).into_iter().chain(others).collect();
    (!parts.is_empty()).then(|| parts.join("_"))
}

/// As published results are named: `MODEL_cpuNGB_qdN_genMODE_usersN`.
fn file_name(options: &Options, plan: &Plan) -> String {
    let cpu = match options.cpu_mem_gb {
        Some(Auto::Given(gib)) => gib.0.to_string(),
        // What it comes to differs from time to time.
        Some(Auto::Auto) | None => "auto".to_owned(),
    };
    plain(&format!(
        "{}_cpu{cpu}GB_qd{}_gen{}_users{}",
        plan.model,
        plan.max_concurrent_allocs.unwrap_or(0),
        plan.generation_mode.name(),
        plan.users
    ))
}

/// Only what is plain in a file's name.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-=".contains(c);
    let plain: String = text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let plain = plain.trim_start_matches(['.', '_']);
    if plain.is_empty() { "_".to_owned() } else { plain.to_owned() }
}

/// Expected duration of a run, seconds. A simulated one takes as long as its I/Os, of which it has
/// at most as many as the drive can do.
fn expected_s(plan: &Plan, device: Option<&Described>) -> f64 {
    let load_s = (plan.duration_s + plan.warmup_s) as f64;
    match device {
        None => load_s + REAL_START_S,
        Some(device) => {
            let model = &device.file.model;
            let bytes_per_s = model.read.bytes_per_s.max(model.write.bytes_per_s);
            let ios = load_s * bytes_per_s / f64::from(plan.io_size_bytes.max(1));
            SIMULATED_START_S + ios * SIMULATED_IO_S
        }
    }
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], random: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        let below = last as u128 + 1;
        // The upper half of the product: at most `last`.
        let other = ((u128::from(random.next_u64()) * below) >> 64) as usize;
        items.swap(last, other);
    }
}

/// Directories of the results that belong together, in order.
pub(super) fn collections(runs: &[SweepRun], results: &Path) -> Vec<PathBuf> {
    let of = |run: &SweepRun| run.job.name.rsplit_once('/').map(|(name, _)| results.join(name));
    runs.iter().filter_map(of).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::super::space::{axis, points};
    use super::*;
    use crate::cli::{self, Command};

    fn asked(typed: &[&str], vary: &[&str]) -> Result<Vec<SweepRun>, InputError> {
        let typed = ["ringfall", "sweep"].iter().chain(typed).copied();
        let vary = vary.iter().flat_map(|vary| ["--vary", vary]);
        let cli = cli::parse(typed.chain(vary).map(Into::into)).unwrap();
        let Command::Sweep(args) = cli.command else { panic!("no sweep") };
        let axes: Result<Vec<_>, _> = args.vary.iter().map(|typed| axis(typed)).collect();
        let points = points(args.space, &axes?)?;
        runs(&args, &points, &Described::read(&args.device)?)
    }

    fn told(result: Result<Vec<SweepRun>, InputError>) -> String {
        result.map_or_else(|error| error.to_string(), |runs| format!("{runs:?}"))
    }

    const DEVICES: &str = "--device=config/devices/slow-vmfs.yaml,config/devices/fast-nvme.yaml";
    const BASE: [&str; 4] =
        ["--model=tiny-1b", "--generation-mode=none", "--cpu-mem-gb=0", "--duration=3"];

    #[test]
    fn runs_are_named_as_published_ones_and_pass_on_what_was_given() {
        let flags =
            [&BASE[..], &["--pin=false", "--trials", "2", "--quiet", "--io-size=64KiB"]].concat();
        let runs = asked(&flags, &["users=5,6"]).unwrap();
        let mut names: Vec<&str> = runs.iter().map(|run| run.job.name.as_str()).collect();
        names.sort_unstable();
        let of = |users: u32, trial: u32| {
            format!("tiny-1b_cpu0GB_qd0_gennone_users{users}_trial{trial}")
        };
        assert_eq!(names, [of(5, 1), of(5, 2), of(6, 1), of(6, 2)]);
        let first = runs.iter().find(|run| run.job.name == of(5, 1)).unwrap();
        let expected = "run --model=tiny-1b --duration=3 --generation-mode=none --cpu-mem-gb=0.0 \
                        --pin=false --io-size=64KiB --num-users=5 --seed=42";
        assert_eq!(first.job.arguments.join(" "), expected);
        assert!((first.job.expected_s - 5.0).abs() < 1e-9);
    }

    #[test]
    fn each_trial_is_a_block_of_its_own_order_that_the_seed_decides() {
        let order = |seed: &str| -> Vec<(u32, String)> {
            let flags = [&BASE[..], &["--trials=3", "--seed", seed]].concat();
            let runs = asked(&flags, &["users=1,2,3,4,5,6,7,8"]).unwrap();
            runs.iter().map(|run| (run.trial, run.point[0].1.clone())).collect()
        };
        let runs = order("1");
        let trials: Vec<u32> = runs.iter().map(|run| run.0).collect();
        assert_eq!(trials, [[1; 8], [2; 8], [3; 8]].concat());
        let block = |at: usize| runs[at * 8..][..8].iter().map(|run| &run.1).collect::<Vec<_>>();
        assert!(block(0) != block(1) || block(1) != block(2));
        for at in 0..3 {
            assert_eq!(block(at).into_iter().collect::<BTreeSet<_>>().len(), 8);
        }
        assert_eq!(runs, order("1"));
        assert_ne!(runs, order("2"));
    }

    #[test]
    fn what_analyze_does_not_tell_apart_has_a_directory_of_its_own() {
        let flags = [&BASE[..], &[DEVICES, "--trials=2"]].concat();
        let runs = asked(&flags, &["io-size=64KiB,1MiB"]).unwrap();
        let directories = collections(&runs, Path::new("r"));
        let names: Vec<String> = directories.iter().map(|d| d.display().to_string()).collect();
        let expected = ["fast-nvme_io-size=1MiB", "fast-nvme_io-size=64KiB"]
            .iter()
            .chain(&["slow-vmfs_io-size=1MiB", "slow-vmfs_io-size=64KiB"])
            .map(|name| format!("r/{name}"));
        assert_eq!(names, expected.collect::<Vec<_>>());
        // The same simulated run twice would be no second trial.
        let seeds = |trial| {
            let of = runs.iter().filter(|run| run.trial == trial);
            of.map(|run| run.job.arguments.last().cloned().unwrap()).collect::<BTreeSet<_>>()
        };
        assert_eq!((seeds(1).len(), seeds(2).len()), (1, 1));
        assert!(seeds(1) != seeds(2));
        assert!(asked(&[&BASE[..], &[DEVICES]].concat(), &["users=2,3"]).is_ok());
        let one =
            asked(&[&BASE[..], &["--device=config/devices/slow-vmfs.yaml"]].concat(), &["users=2"]);
        assert!(collections(&one.unwrap(), Path::new("r")).is_empty());
    }

    #[test]
    fn the_presets_last_as_long_as_published_and_one_preset_can_be_varied() {
        let length = |flags: &[&str], vary: &[&str]| {
            let runs = asked(flags, vary).unwrap();
            let is_length = |flag: &&String| flag.starts_with("--duration=");
            let of = |run: &SweepRun| run.job.arguments.iter().find(is_length).cloned();
            (runs.len(), of(&runs[0]))
        };
        let presets = ["--space=presets", "--cpu-mem-gb=0"];
        assert_eq!(length(&presets[..1], &[]), (6, Some("--duration=300".to_owned())));
        assert_eq!(length(&["--space=presets", "--duration=9"], &[]).1.unwrap(), "--duration=9");
        assert_eq!(length(&["--space=presets", "--duration=2m"], &[]).1.unwrap(), "--duration=120");
        assert!(told(asked(&presets, &[])).contains("--cpu-mem-gb is given and varied"));
        // A preset was accepted here and came to nothing.
        let one = length(&["--preset=llama3.1-8b-stress"], &["queue-depth=4,8"]);
        assert_eq!(one, (2, Some("--duration=300".to_owned())));
    }

    #[test]
    fn what_is_wrong_is_said_before_anything_runs() {
        let scratch = Scratch::new("sweep-several");
        let two = scratch.join("two.yaml");
        let one = std::fs::read_to_string("config/devices/slow-vmfs.yaml").unwrap();
        std::fs::write(&two, one + "drives: 2\n").unwrap();
        let two = format!("--device={}", two.display());
        for (flags, vary, why) in [
            (&["--users=5"][..], "users=6", "--num-users is given and varied"),
            (&["--output=a.json"], "users=6", "--output can't be used in a sweep"),
            (&["--seed=random"], "users=6", "--seed random can't be used in a sweep"),
            (&["--trials=0"], "users=6", "--trials 0 is out of bounds: give 1 to 1000"),
            (&[], "users=five", "--vary num-users: invalid value 'five'"),
            (&[], "users=6,0", "--num-users 0 is out of bounds"),
            (&[], "generation-mode=none,slow", "--vary generation-mode: "),
            (&["--prefill-only"], "decode-only=false,true", "(with decode-only=true)"),
            (&[DEVICES], "precondition=true", "has no effect in a simulated run"),
            (
                &[DEVICES, "--cache-dir=/a,/b"],
                "users=6",
                "--cache-dir has no effect in a simulated",
            ),
            (&[two.as_str()], "layout=native,vllm", "--layout vllm works with one drive"),
            (&[DEVICES, "--trials=2"], "seed=1,2", "can't be combined on described drives"),
        ] {
            let text = told(asked(flags, &[vary]));
            assert!(text.contains(why), "{flags:?} {vary}: {text}");
        }
        let many =
            told(asked(&["--prefill-only"], &["decode-only=true", "users=1,2,3,4,5,6,7,8,9"]));
        assert!(many.contains("and 1 more of this kind"), "{many}");
        let twice = told(asked(&["--model=tiny-1b"], &["users=0", "shards=1,2,3"]));
        assert_eq!(twice.matches("out of bounds").count(), 1, "{twice}");
    }
}
