//! `ringfall run --trials`: each result is kept, and the summary is what merging them gives.

use std::process::Command;

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, text};

fn read(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(scratch.file(name)).unwrap()).unwrap()
}

#[test]
fn trials_are_kept_and_summed_up_as_merge_does() {
    let scratch = Scratch::new("trials");
    let output =
        ended_well(scratch.run(&["--max-requests", "8", "--duration", "60", "--trials", "3"]));
    let page = text(&output);
    for words in ["trial 1 of 3", "trial 3 of 3", "result_trial3.json", "median", "CV"] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    assert_eq!(page.matches("ringfall 0.").count(), 1, "one banner: {page}");
    let summary = scratch.json();
    let trials: Vec<Value> =
        (1..=3).map(|trial| read(&scratch, &format!("result_trial{trial}.json"))).collect();
    let requests: u64 =
        trials.iter().map(|trial| trial["requests_completed"].as_u64().unwrap()).sum();
    assert_eq!(summary["requests_completed"].as_u64(), Some(requests));
    assert!(trials.iter().all(|trial| trial["seed"] == summary["seed"]));
    let merged = &summary["ringfall"]["merged"];
    assert_eq!(merged["inputs"].as_array().unwrap().len(), 3);
    assert_eq!(merged["trials_asked"], 3);
    assert!(merged["spread"][0]["median"].is_number());

    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["merge", "--output", "m.json"]).current_dir(&scratch.path);
    let inputs = (1..=3).map(|trial| format!("result_trial{trial}.json"));
    assert!(command.args(inputs).output().unwrap().status.success());
    let again = read(&scratch, "m.json");
    assert_eq!(again["ringfall"]["histograms"], summary["ringfall"]["histograms"]);
    assert_eq!(again["summary"], summary["summary"]);
}

/// Nothing of that trial was shown.
#[test]
fn a_trial_that_can_t_be_written_is_shown() {
    for full in [1, 2] {
        let scratch = Scratch::new("trials-full");
        let file = format!("result_trial{full}.json");
        std::os::unix::fs::symlink("/dev/full", scratch.file(&file)).unwrap();
        let more = ["--max-requests", "8", "--duration", "60", "--trials", "2", "--json"];
        let ended = scratch.run(&more);
        let told = format!("{file}: No space left");
        assert_fails(&ended, 1, &["  verified     ", &told]);
        // One document: the first trial's own, or the summary of the trials before the second.
        let shown: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(shown["requests_completed"], 8);
        let inputs = shown["ringfall"]["merged"]["inputs"].as_array().map(Vec::len);
        assert_eq!(inputs, (full == 2).then_some(1));
        assert!(!text(&ended).contains(&format!("trial {full} of 2")), "{}", text(&ended));
    }
}

#[test]
fn trials_that_can_t_be_kept_are_refused_before_the_first() {
    let scratch = Scratch::new("trials-refused");
    assert_fails(&scratch.run(&["--trials", "0"]), 2, &["trials", "0", "1"]);
    assert_fails(&scratch.run(&["--trials", "1001"]), 2, &["1001", "1000"]);
    let device = ["--trials", "2", "--output", "/dev/null"];
    assert_fails(&scratch.run(&device), 2, &["/dev/null", "plain file"]);
    std::fs::create_dir(scratch.file("result_trial2.json")).unwrap();
    assert_fails(&scratch.run(&["--trials", "2"]), 1, &["result_trial2.json", "directory"]);
    assert!(!scratch.file("result_trial1.json").exists());
}
