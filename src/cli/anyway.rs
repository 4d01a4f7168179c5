//! What can still be read of a command line that is wrong: where the other ranks of its launch
//! wait, so that they can be told.

use std::path::PathBuf;
use std::str::FromStr as _;

use clap::ValueEnum as _;

use super::RunArgs;
use crate::config::{Options, Ranks};

/// Shortest beginning of a flag that is taken for it, with its dashes.
const BEGINNING_MIN: usize = 5;

/// Of a command that ranks carry out together, what decides where they meet; none of another.
#[must_use]
pub fn meant_anyway(typed: &[String]) -> Option<RunArgs> {
    let words: Vec<&str> = typed.iter().skip(1).map(String::as_str).collect();
    let value = |flag: &str| value_of(&words, flag);
    let output = match &words[..] {
        ["mlperf", "rank", ..] => {
            Some(PathBuf::from(value("--rank-output-base")?).join("result.json"))
        }
        ["saturate", ..] => Some(value("--output").unwrap_or("results/limits.json").into()),
        ["run" | "replay", ..] => value("--output").map(PathBuf::from),
        // Without a subcommand it is a run.
        [first, ..] if first.starts_with('-') => value("--output").map(PathBuf::from),
        _ => return None,
    };
    let ranks = value("--ranks").and_then(|ranks| Ranks::from_str(ranks, true).ok());
    // Those that the harness starts never meet by MPI.
    let ranks = ranks.or((words[0] == "mlperf").then_some(Ranks::Directory));
    // A time that can't be understood is one all the same.
    let start_at = value("--start-at").map(|time| i64::from_str(time).unwrap_or(0));
    Some(RunArgs {
        config: value("--config").map(PathBuf::from),
        options: Options { output, ranks, start_at, ..Options::default() },
        ..RunArgs::default()
    })
}

/// The value that was given last for a flag, or for the beginning of its name.
fn value_of<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let is_it =
        |name: &str| name == flag || (name.len() >= BEGINNING_MIN && flag.starts_with(name));
    words.iter().enumerate().rev().find_map(|(at, word)| match word.split_once('=') {
        Some((name, value)) => is_it(name).then_some(value),
        None => is_it(word).then(|| words.get(at + 1).copied()).flatten(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<RunArgs> {
        let typed: Vec<String> = line.split(' ').map(str::to_owned).collect();
        meant_anyway(&typed)
    }

    #[test]
    fn where_ranks_meet_is_read_although_the_rest_is_wrong() {
        let run = of("ringfall run --num-userz 3 --output a/r.json --ranks directory").unwrap();
        assert_eq!(run.options.output, Some("a/r.json".into()));
        assert_eq!((run.options.ranks, run.options.start_at), (Some(Ranks::Directory), None));
        let last = of("ringfall --output=a/r.json --wrong --outp b/r.json --config c").unwrap();
        assert_eq!((last.options.output, last.config), (Some("b/r.json".into()), Some("c".into())));
        assert_eq!(of("ringfall run --wrong --start-at 99").unwrap().options.start_at, Some(99));
        assert_eq!(of("ringfall run --wrong").unwrap().options.output, None);
        let rank = of("ringfall mlperf rank --wrong --rank-output-base trial_0").unwrap();
        assert_eq!(rank.options.output, Some("trial_0/result.json".into()));
        assert_eq!(rank.options.ranks, Some(Ranks::Directory));
        for alone in ["ringfall", "ringfall mlperf rank --wrong", "ringfall merge --output x"] {
            assert!(of(alone).is_none(), "{alone}");
        }
    }
}
