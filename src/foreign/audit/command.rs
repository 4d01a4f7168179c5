//! The commands that a run's metadata records, and where their parameters differ from the published
//! table of the harness's options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{at, read, text};
use super::preload::preloads;
use crate::mlperf::options::{FLAGS, is_alike, rule};
use crate::mlperf::tree::trial_of;
use crate::mlperf::{SEED_BASE, TRIAL_DELAY_S};

/// Parameter of the wrapper that is the same for all options.
const SEED: &str = "seed-base";
/// Parameters of the wrapper that are wherever the run was.
const PLACES: [&str; 3] = ["rank-output-base", "rank-cache-base", "config"];
/// Parameters of the wrapper that are not given as a rule.
const DELAYS: [&str; 2] = ["start-delay", "end-delay"];

/// A parameter that differs from the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) name: String,
    /// As recorded; none: it is not in the command.
    pub(super) is: Option<String>,
    /// As in the table; none: the table has no such parameter.
    pub(super) table: Option<String>,
}

impl Changed {
    /// Distance of a number from the table's, as a share of the larger one; 1 where a word differs
    /// or one of the two is not there.
    pub(super) fn distance(&self) -> f64 {
        let number = |text: Option<&str>| {
            let number: f64 = text?.parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number)
        };
        match (number(self.is.as_deref()), number(self.table.as_deref())) {
            (Some(is), Some(table)) if is.max(table) > 0.0 => (is - table).abs() / is.max(table),
            _ => 1.0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recorded {
    pub(super) key: String,
    pub(super) option: u32,
    pub(super) trial: u32,
    pub(super) preloads: Vec<String>,
    pub(super) changed: Vec<Changed>,
    /// Ranks that it started (`-n`), and hosts that they were on (`-host`).
    pub(super) ranks: Option<u64>,
    pub(super) hosts: Option<u64>,
    pub(super) start_delay_s: Option<f64>,
    pub(super) model: Option<String>,
    pub(super) users: Option<String>,
}

/// Commands and settings recorded in a run's metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metadata {
    /// The file, as it is shown.
    pub(super) file: PathBuf,
    pub(super) commands: Vec<Recorded>,
    /// Libraries in `args.mpi_params`, which each command should repeat.
    pub(super) preloads: Vec<String>,
    /// `closed`, `open` or `whatif`.
    pub(super) mode: Option<String>,
}

impl Metadata {
    /// The command of a trial.
    pub(super) fn command(&self, option: Option<u32>, trial: u32) -> Option<&Recorded> {
        self.commands.iter().find(|one| Some(one.option) == option && one.trial == trial)
    }
}

/// Reads the metadata at `path`, which is shown as `file`.
pub(super) fn read_metadata(path: &Path, file: PathBuf) -> Result<Metadata, String> {
    let metadata = read(path)?;
    let started = metadata.get("command_output_files").and_then(Value::as_array);
    let commands = started.into_iter().flatten().enumerate().filter_map(|(place, files)| {
        let key = format!("command_output_files.{place}.command");
        recorded(&key, files.get("command").and_then(text)?)
    });
    let params = at(&metadata, "args.mpi_params").map(texts).unwrap_or_default();
    Ok(Metadata {
        file,
        commands: commands.collect(),
        preloads: preloads(params.into_iter().flat_map(str::split_whitespace)),
        mode: at(&metadata, "args.mode").and_then(text).map(str::to_owned),
    })
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        one => text(one).into_iter().collect(),
    }
}

/// The command, if it starts ranks of a trial.
fn recorded(key: &str, command: &str) -> Option<Recorded> {
    let words: Vec<&str> = command.split_whitespace().collect();
    // Of the harness, and of `ringfall mlperf run`.
    let wrapper = words.iter().position(|word| word.ends_with("mlperf_wrapper.py"));
    let wrapper = wrapper.or_else(|| {
        let at = words.windows(2).position(|pair| pair == ["mlperf", "rank"])?;
        Some(at + 1)
    })?;
    let (launcher, program) = words.split_at(wrapper);
    let parameters = parameters(&program[1..]);
    let get = |name: &str| parameters.get(name).map(String::as_str);
    let (_, option, trial) = trial_of(Path::new(get("rank-output-base")?))?;
    let after = |names: &[&str]| {
        let at = launcher.iter().position(|word| names.contains(word))?;
        launcher.get(at + 1).copied()
    };
    let hosts = after(&["-host", "--host", "--hosts"]).map(|hosts| hosts.split(',').count() as u64);
    Some(Recorded {
        key: key.to_owned(),
        option,
        trial,
        preloads: preloads(words.iter().copied()),
        changed: changed(option, &parameters),
        ranks: after(&["-n", "-np"]).and_then(|ranks| ranks.parse().ok()),
        hosts,
        start_delay_s: get("start-delay")
            .and_then(|delay| delay.parse().ok())
            .filter(|delay: &f64| (0.0..=86_400.0).contains(delay)),
        model: get("model").map(str::to_owned),
        users: get("num-users").map(str::to_owned),
    })
}

/// The parameters of a program by name, the last of several; a flag alone is `true`.
fn parameters(words: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value),
            None => {
                let value = words.next_if(|next| !next.starts_with("--"));
                (flag, value.copied().unwrap_or("true"))
            }
        };
        found.insert(name.replace('_', "-"), value.to_owned());
    }
    found
}

fn changed(option: u32, parameters: &BTreeMap<String, String>) -> Vec<Changed> {
    let (seed, delay) = (SEED_BASE.to_string(), TRIAL_DELAY_S.to_string());
    let mut table: Vec<(&str, &str)> = match rule(option) {
        Some(rule) => FLAGS.into_iter().zip(rule.values).chain([(SEED, &*seed)]).collect(),
        None => Vec::new(),
    };
    let delays = DELAYS.into_iter().filter(|name| parameters.contains_key(*name));
    table.extend(delays.map(|name| (name, &*delay)));
    let differing = table.into_iter().filter_map(|(name, table)| {
        let is = parameters.get(name).cloned();
        let is_same = is.as_ref().is_some_and(|is| is_alike(is, table));
        let changed = Changed { name: name.to_owned(), is, table: Some(table.to_owned()) };
        (!is_same).then_some(changed)
    });
    let is_known = |name: &str| {
        name == SEED || [&FLAGS[..], &PLACES, &DELAYS].iter().any(|all| all.contains(&name))
    };
    let others = parameters
        .iter()
        .filter(|(name, _)| !is_known(name.as_str()))
        .map(|(name, value)| Changed { name: name.clone(), is: Some(value.clone()), table: None });
    differing.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTA: &str = "mpirun -n 20 -host h1:5,h2:5,h3:5,h4:5 --npernode 5 --bind-to none \
        --mca orte_abort_on_non_zero_status 0 /v/bin/python3 /r/kv_cache_benchmark/\
        mlperf_wrapper.py --rank-output-base /x/run/20260724/option_3/trial_2 --rank-cache-base \
        /c --seed-base 42 --config /r/config.yaml --model llama3.1-70b-instruct --num-users 70 \
        --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 0 --max-concurrent-allocs 4 \
        --generation-mode none";

    #[test]
    fn a_published_command_is_the_table_s() {
        let recorded = recorded("k", TTA).unwrap();
        assert_eq!((recorded.option, recorded.trial), (3, 2));
        assert_eq!((recorded.ranks, recorded.hosts), (Some(20), Some(4)));
        assert_eq!((recorded.changed, recorded.preloads), (vec![], vec![]));
    }

    #[test]
    fn a_command_of_ringfall_s_sequence_is_known_too() {
        let (_, flags) = TTA.split_once("mlperf_wrapper.py ").unwrap();
        let recorded = recorded("k", &format!("ringfall mlperf rank {flags}")).unwrap();
        assert_eq!((recorded.option, recorded.trial, recorded.changed), (3, 2, vec![]));
    }

    #[test]
    fn changed_missing_and_new_parameters_are_told_with_their_distance() {
        let command = TTA
            .replace("--duration 300", "--duration=60.0")
            .replace("--cpu-mem-gb 0", "--cpu-mem-gb 0.0 --disable-multi-turn --start-delay 9")
            .replace("--max-concurrent-allocs 4", "");
        let recorded = recorded("k", &command).unwrap();
        let told: Vec<_> = recorded
            .changed
            .iter()
            .map(|c| (c.name.as_str(), c.is.as_deref(), c.table.as_deref(), c.distance()))
            .collect();
        assert_eq!(
            told,
            [
                ("duration", Some("60.0"), Some("300"), 0.8),
                ("max-concurrent-allocs", None, Some("4"), 1.0),
                ("start-delay", Some("9"), Some("90"), 0.9),
                ("disable-multi-turn", Some("true"), None, 1.0),
            ]
        );
        assert_eq!(recorded.start_delay_s, Some(9.0));
    }

    #[test]
    fn what_starts_no_trial_is_no_command_of_one() {
        assert_eq!(recorded("k", "mpirun -n 2 python -c probe"), None);
        assert_eq!(recorded("k", "python mlperf_wrapper.py --rank-output-base /x"), None);
    }
}
