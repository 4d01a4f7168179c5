//! Reads from an invalid command line where the other ranks of its launch wait, so that they can be
//! told.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use clap::ValueEnum;
use ringfall_config::{Options, Ranks, Word};

use super::RunArgs;
use super::mlperf::RESULTS_DIR;

/// Settings that decide where ranks meet, for a command that they carry out together; none for
/// another.
pub fn meant_anyway(typed: &[String]) -> Option<RunArgs> {
    let words: Vec<&str> = typed.iter().skip(1).map(String::as_str).collect();
    let value = |flag: &str| value_of(&words, flag);
    let output = match &words[..] {
        ["mlperf", "rank", ..] => {
            Some(PathBuf::from(value("--rank-output-base")?).join("result.json"))
        }
        ["mlperf", "run", ..] => return Some(meant_by_a_sequence(value("--results-dir"))),
        ["saturate", ..] => Some(value("--output").unwrap_or("results/limits.json").into()),
        ["run" | "replay", ..] => value("--output").map(PathBuf::from),
        // Without a subcommand it is a run.
        [first, ..] if first.starts_with('-') => value("--output").map(PathBuf::from),
        _ => return None,
    };
    let word = |text: &str| <Word<Ranks> as ValueEnum>::from_str(text, true).ok();
    let ranks = value("--ranks").and_then(word);
    // Those that the harness starts never meet by MPI.
    let ranks = ranks.or((words[0] == "mlperf").then_some(Word(Ranks::Directory)));
    // A time that can't be understood is one all the same.
    let start_at = value("--start-at").map(|time| i64::from_str(time).unwrap_or(0));
    Some(RunArgs {
        config: value("--config").map(PathBuf::from),
        options: Options { output, ranks, start_at, ..Options::default() },
        ..RunArgs::default()
    })
}

/// Error of a command line in one line, without the help that follows.
pub fn gist(wrong: &str) -> String {
    let help = ["\n\nUsage:", "\n\nFor more information"];
    let end = help.iter().filter_map(|help| wrong.find(help)).min().unwrap_or(wrong.len());
    let lines = wrong[..end].lines().map(str::trim).filter(|line| !line.is_empty());
    lines.fold(String::new(), |told, line| match told.chars().last() {
        None => line.to_owned(),
        Some(':') => format!("{told} {line}"),
        Some(_) => format!("{told}; {line}"),
    })
}

/// The ranks of a sequence meet in the directory of its results, whatever its trials are told.
fn meant_by_a_sequence(results: Option<&str>) -> RunArgs {
    let output = Path::new(results.unwrap_or(RESULTS_DIR)).join("result.json");
    let (output, ranks) = (Some(output), Some(Word(Ranks::Directory)));
    RunArgs { options: Options { output, ranks, ..Options::default() }, ..RunArgs::default() }
}

fn value_of<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    words.iter().enumerate().rev().find_map(|(at, word)| match word.split_once('=') {
        Some((name, value)) => (name == flag).then_some(value),
        None => (*word == flag).then(|| words.get(at + 1).copied()).flatten(),
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
        assert_eq!((run.options.ranks, run.options.start_at), (Some(Word(Ranks::Directory)), None));
        let last = of("ringfall --output=a/r.json --wrong --output b/r.json --config c").unwrap();
        assert_eq!((last.options.output, last.config), (Some("b/r.json".into()), Some("c".into())));
        assert_eq!(of("ringfall run --wrong --start-at 99").unwrap().options.start_at, Some(99));
        assert_eq!(of("ringfall run --wrong").unwrap().options.output, None);
        let rank = of("ringfall mlperf rank --wrong --rank-output-base trial_0").unwrap();
        assert_eq!(rank.options.output, Some("trial_0/result.json".into()));
        assert_eq!(rank.options.ranks, Some(Word(Ranks::Directory)));
        let sequence =
            of("ringfall mlperf run --num-users 0 --results-dir r -- --ranks off").unwrap();
        assert_eq!(sequence.options.output, Some("r/result.json".into()));
        assert_eq!(sequence.options.ranks, Some(Word(Ranks::Directory)));
        let usual = of("ringfall mlperf run --wrong -- --start-at 99").unwrap();
        assert_eq!(usual.options.output, Some("results/mlperf/result.json".into()));
        assert_eq!(usual.options.start_at, None);
        for alone in ["ringfall", "ringfall mlperf rank --wrong", "ringfall merge --output x"] {
            assert!(of(alone).is_none(), "{alone}");
        }
    }
    #[test]
    fn the_gist_of_what_is_wrong_is_one_line_without_usage() {
        let told = |more: &[&str]| {
            let words = ["ringfall", "mlperf", "run"].iter().chain(more).map(Into::into);
            match super::super::parse(words) {
                Err(super::super::Stop::Wrong(text)) => gist(&text),
                other => panic!("{other:?}"),
            }
        };
        let tip = "tip: to pass '--bogus' as a value, use '-- --bogus'";
        let unknown = format!("unexpected argument '--bogus' found; {tip}");
        assert_eq!(told(&["--bogus", "1"]), unknown);
        let missing = "the following required arguments were not provided: --cache-dir <DIR>";
        assert_eq!(told(&[]), missing);
        assert_eq!(gist("--num-users 0 is less than 1"), "--num-users 0 is less than 1");
        assert_eq!(gist(""), "");
    }
}
