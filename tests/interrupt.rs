//! Signals: results are written, nothing is left behind, the status says so.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Scratch, data_bytes, ended_well, finish, insist, spawn, spawn_to, text, wait_until,
};

#[test]
fn ctrl_c_writes_the_results_cleans_up_and_says_130() {
    // Under `nohup` a hang-up is ignored, and by every child too.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let hang_up = (ignored & 1 == 0).then_some(Signal::HUP);
    for signal in [Signal::INT, Signal::TERM].into_iter().chain(hang_up) {
        let scratch = Scratch::new("interrupt");
        let child = scratch.start(&["--duration", "100"]);
        wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
        // Into the measurement: the moment is of no importance to what must hold.
        std::thread::sleep(std::time::Duration::from_millis(700));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = finish(child);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        let json = scratch.json();
        assert_eq!(json.pointer("/ringfall/window/interrupted"), Some(&true.into()));
        assert_eq!(scratch.leftovers(), [""; 0]);
    }
}

/// Entries that were on their way were told to be too large, or their I/O to have failed.
#[test]
fn a_signal_while_entries_are_written_beforehand_is_no_failure_of_theirs() {
    let scratch = Scratch::new("interrupt-population");
    let slowly = ["--decode-only", "--io-size", "4KiB", "--queue-depth", "1", "--shards", "1"];
    let child = scratch.start(&slowly);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = finish(child);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert_eq!(scratch.json()["ringfall"]["errors"]["population_failed"], 0, "{told}");
    assert!(!told.contains("could not be written"), "{told}");
    assert!(told.contains("no request finished before a signal ended the run"), "{told}");
}

#[test]
fn a_second_signal_ends_the_run_at_once_with_what_was_written_so_far() {
    let scratch = Scratch::new("interrupted-twice");
    let begin = || {
        let child = scratch.start(&["--duration", "100"]);
        wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
        std::thread::sleep(std::time::Duration::from_millis(700));
        (Pid::from_child(&child), child)
    };
    let (pid, child) = begin();
    kill_process(pid, Signal::INT).unwrap();
    // Written before what is in flight has ended.
    wait_until("the first has the results written", || scratch.file("result.json").exists());
    // It may have ended by itself meanwhile.
    let _told = kill_process(pid, Signal::TERM);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(scratch.json().pointer("/ringfall/window/interrupted"), Some(&true.into()));

    // As a terminal and a wrapper that passes it on tell: both are there before it can do anything
    // about the first, and the second ended the process with its files left behind.
    let (pid, child) = begin();
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(scratch.json().pointer("/ringfall/window/interrupted"), Some(&true.into()));
    assert_eq!(scratch.leftovers(), [""; 0]);
}

/// An empty table was shown, took the place of an earlier one, and nothing said why.
#[test]
fn an_interrupted_table_of_simulations_is_told_and_replaces_no_other() {
    let scratch = Scratch::new("interrupted-table");
    std::fs::write(scratch.file("table.json"), "an earlier one").unwrap();
    let device = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/fast-nvme.yaml");
    let words = "simulate --what-if-users 20,50 --duration 80000 --output table.json --device";
    let words = words.split_whitespace().chain([device]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(words).current_dir(&scratch.path).stdin(Stdio::null());
    let child = spawn(command);
    let catches = |mask: &str| u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0;
    wait_until("a signal is caught", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.lines().filter_map(|line| line.strip_prefix("SigCgt:")).any(catches)
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = finish(child);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("interrupted: no simulation had ended"), "{told}");
    assert_eq!(std::fs::read(scratch.file("table.json")).unwrap(), b"an earlier one");
}

/// It left the data file and the lock file behind, and said nothing.
#[test]
fn a_second_signal_deletes_the_data_and_says_that_it_ended_the_process() {
    let scratch = Scratch::new("interrupted-insisting");
    // Nobody reads the results: after the first signal they are waited with, the data still there.
    let (reader, writer) = full_pipe();
    let more = ["--duration", "100", "--quiet", "--output", "/dev/stdout"];
    let child = spawn_to(scratch.run_command(&more), writer.into());
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    let insisting = insist(&child);
    let output = finish(child);
    insisting.join().unwrap();
    drop(reader);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let told = text(&output);
    assert!(told.contains("a second signal ended the process at once"), "{told}");
    assert!(!told.contains("could not be deleted"), "{told}");
    assert_eq!(scratch.leftovers(), [""; 0], "{told}");
}

/// It said that it was interrupted, and ended with 0.
#[test]
fn a_checkpoint_whose_page_nobody_reads_ends_with_130_when_it_is_interrupted() {
    let scratch = Scratch::new("interrupted-page");
    let (reader, writer) = full_pipe();
    let words = "checkpoint write store --size-gib 0.0078125 --ranks 2 --chunk-mib 1 --output \
                 result.json";
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(words.split_whitespace()).current_dir(&scratch.path);
    let child = spawn_to(command, writer.into());
    wait_until("the result is written", || scratch.file("result.json").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = finish(child);
    drop(reader);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
}

/// They ended with 0.
#[test]
fn figures_that_nobody_reads_end_with_130_when_they_are_interrupted() {
    let repository = env!("CARGO_MANIFEST_DIR");
    let device = format!("--device={repository}/config/devices/fast-nvme.yaml");
    let trace = format!("{repository}/tests/data/mooncake_part.jsonl");
    let users = ["simulate", "--what-if-users=1,2", "--duration=1", "--output=written", &device];
    for words in [&users[..], &["trace", "info", "--json=written", &trace]] {
        let scratch = Scratch::new(&format!("interrupted-{}", words[0]));
        let (reader, writer) = full_pipe();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(words).current_dir(&scratch.path);
        let child = spawn_to(command, writer.into());
        wait_until("the figures are written", || scratch.file("written").exists());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let output = finish(child);
        drop(reader);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    }
}

/// It ended with 0, and nothing said why the check had no length.
#[test]
fn an_answer_whose_check_is_not_simulated_to_its_end_stands_and_says_so() {
    let scratch = Scratch::new("interrupted-check");
    // Nobody reads the answer, so that the signal comes before the end in any case.
    let (reader, writer) = full_pipe();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("quick").arg(scratch.store()).args(["--time=15s", "--space=1GiB", "--quiet"]);
    command.args(["--model=tiny-1b", "--output=q.json", "--json"]).current_dir(&scratch.path);
    let child = spawn_to(command, writer.into());
    // Of the search for limits, then of the run.
    for _ in 0..2 {
        wait_until("there is a data file", || data_bytes(&scratch.store()) > 0);
        wait_until("its data is deleted", || !scratch.store().exists());
    }
    // A moment earlier there would be no answer.
    std::thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = finish(child);
    drop(reader);
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(130), "{told}");
    let answer = std::fs::read(scratch.file("q.json")).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    let is_cut_short = answer["check_predicted"].is_null();
    assert_eq!(told.contains("interrupted: the answer stands"), is_cut_short, "{told}");
}

/// It said twice that nothing was written, and left an empty directory.
#[test]
fn an_interrupted_search_for_an_answer_leaves_nothing_and_says_so_once() {
    let scratch = Scratch::new("interrupted-answer");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("quick").arg(scratch.store()).args(["--time=15s", "--space=1GiB"]);
    command.arg("--model=tiny-1b").current_dir(&scratch.path);
    let child = spawn(command);
    wait_until("there is a data file", || data_bytes(&scratch.store()) > 0);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = finish(child);
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert_eq!(told.matches("nothing was written").count(), 1, "{told}");
    assert_eq!(std::fs::read_dir(&scratch.path).unwrap().count(), 0, "{told}");
}

/// A pipe that takes nothing more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn what_a_killed_run_left_is_reclaimed_by_the_next() {
    let scratch = Scratch::new("killed");
    let mut child = scratch.start(&["--duration", "100"]);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(data_bytes(&scratch.store()) > 0, "kill -9 leaves the data file");
    let output = ended_well(scratch.run(&[]));
    assert!(text(&output).contains("reclaimed"), "{}", text(&output));
    assert_eq!(data_bytes(&scratch.store()), 0);
}
