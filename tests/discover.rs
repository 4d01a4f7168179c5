//! `ringfall discover` on the machine that the tests run on.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, text};

fn ringfall(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringfall")).args(arguments).output().unwrap()
}

fn discovered(scratch: &Scratch) -> Value {
    let directory = scratch.store().display().to_string();
    let output = ended_well(ringfall(&["discover", "--json", "-m", "tiny-1b", "-c", &directory]));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_machine_is_described_and_nothing_is_left_on_it() {
    let scratch = Scratch::new("discover");
    let found = discovered(&scratch);
    assert!(found["machine"]["processor"]["threads"].as_u64() > Some(0), "{found}");
    assert!(found["machine"]["memory"]["total_bytes"].as_u64() > Some(1 << 20));
    assert_eq!(found["io_uring"]["works"], true, "{}", found["io_uring"]);
    assert!(found["io_uring"]["buffers_registered"].is_boolean());
    let place = &found["place"];
    assert_eq!(
        (&place["is_given"], place["directory"].as_str()),
        (&Value::Bool(true), scratch.store().to_str())
    );
    let systems = found["machine"]["file_systems"].as_array().unwrap();
    assert!(systems.iter().any(|system| system["mount_point"] == place["mount_point"]));
    assert!(scratch.leftovers().is_empty(), "{:?}", scratch.leftovers());
}

#[test]
fn a_directory_can_be_named_by_itself() {
    let scratch = Scratch::new("discover-dir");
    let directory = scratch.store().display().to_string();
    let output = ended_well(ringfall(&["discover", &directory]));
    assert!(text(&output).contains(&format!("ringfall quick {directory}")), "{}", text(&output));
    assert_fails(&ringfall(&["discover", &directory, "-c", "x"]), 2, &["cannot be used with"]);
}

#[test]
fn every_recommended_command_is_one_that_run_takes() {
    let scratch = Scratch::new("discover-commands");
    let found = discovered(&scratch);
    let workloads = found["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 14, "eleven, one of three runs, and the fourth of these");
    for workload in workloads {
        let flags = workload["flags"].as_array().unwrap();
        if workload["impossible"].is_string() {
            assert!(flags.is_empty());
            continue;
        }
        let mut words = vec!["config"];
        for flag in flags {
            words.push(flag["flag"].as_str().unwrap());
            words.extend(flag["value"].as_str());
            assert!(flag["reason"].as_str().is_some_and(|why| why.len() > 5), "{flag}");
        }
        let output = ringfall(&words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output));
    }
}

/// It was 143 lines with ten commands, none of which said how much space to take.
#[test]
fn a_page_of_25_lines_says_what_to_try_first() {
    let scratch = Scratch::new("discover-short");
    let directory = scratch.store().display().to_string();
    let output = ended_well(ringfall(&["discover", "-m", "tiny-1b", "-c", &directory]));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.lines().count() <= 25, "{page}");
    for head in ["machine", "drive", "place", "engine", "fix", "size", "try", "more"] {
        assert!(page.lines().any(|line| line.starts_with(head)), "{head} is not in:\n{page}");
    }
    assert!(page.contains(&format!("ringfall quick {directory}\n")), "{page}");
    let (_, command) = page.split_once("ringfall run ").unwrap();
    let command = command.replace("\\\n", "");
    let flags = command.lines().next().unwrap();
    assert!(flags.contains("--storage-capacity-gb "), "{flags}");
    let words: Vec<&str> = ["config"].into_iter().chain(flags.split_whitespace()).collect();
    let taken = ringfall(&words);
    assert_eq!(taken.status.code(), Some(0), "{words:?}: {}", text(&taken));
}

#[test]
fn the_page_fits_a_terminal_and_a_wrong_model_is_refused() {
    let output = ended_well(ringfall(&["discover", "-c", "/tmp", "--details"]));
    let page = String::from_utf8(output.stdout).unwrap();
    for head in ["Processors", "Memory", "io_uring", "Disks", "File systems", "Why these flags"] {
        assert!(page.contains(head), "{head} is not in:\n{page}");
    }
    // Commands to be copied stay on one line; so do names that no line can hold.
    let is_prose = |line: &&str| !line.contains('/') && line.chars().count() > 80;
    assert_eq!(page.lines().filter(is_prose).collect::<Vec<_>>(), [""; 0]);
    assert_fails(&ringfall(&["discover", "-m", "lama3.1-8b"]), 2, &["lama3.1-8b", "did you mean"]);
}
