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
