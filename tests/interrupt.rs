//! Signals: results are written, nothing is left behind, the status says so.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Scratch, data_bytes, finish, text, wait_until};

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

    // Both are there before it can do anything about the first: nothing is waited for.
    let (pid, child) = begin();
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
}

#[test]
fn what_a_killed_run_left_is_reclaimed_by_the_next() {
    let scratch = Scratch::new("killed");
    let mut child = scratch.start(&["--duration", "100"]);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(data_bytes(&scratch.store()) > 0, "kill -9 leaves the data file");
    let output = scratch.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("reclaimed"), "{}", text(&output));
    assert_eq!(data_bytes(&scratch.store()), 0);
}
