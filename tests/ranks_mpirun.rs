//! Ranks that `mpirun` of Open MPI starts; with the feature `mpi` they meet by MPI too
//! (`tools/mpi-check`).

use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ranks::{is_sum_of_ranks, json, merge, result_of};
use crate::support::{Scratch, finish, output, skipped, spawn, text, wait_until};

/// Four ranks of this machine, if there is an Open MPI to start them.
fn mpirun(scratch: &Scratch, name: &str, more: &[&str]) -> Option<Command> {
    let version = Command::new("mpirun").arg("--version").output();
    if !version.is_ok_and(|output| text(&output).contains("Open MPI")) {
        skipped(name, "mpirun of Open MPI is missing");
        return None;
    }
    let run = scratch.run_command(more);
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--allow-run-as-root", "--oversubscribe", "-n", "4"]);
    mpirun.arg(run.get_program()).args(run.get_args()).current_dir(&scratch.path);
    Some(mpirun)
}

/// By what ranks can meet in this build.
fn meetings() -> &'static [&'static str] {
    if cfg!(feature = "mpi") { &["directory", "mpi"] } else { &["directory"] }
}

fn complete(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
}

#[test]
fn ranks_that_open_mpi_starts_measure_together_and_become_one_result() {
    for meeting in meetings() {
        let scratch = Scratch::new("mpirun");
        let name = "ranks started by Open MPI";
        let Some(command) = mpirun(&scratch, name, &["--ranks", meeting]) else { return };
        let output = output(command);
        complete(&output);
        assert!(text(&output).contains("4 ranks side by side"), "{}", text(&output));
        let merged = scratch.json();
        is_sum_of_ranks(&scratch, &merged, 4);
        assert!(merged["ringfall"]["merged"]["launch"]["name"].is_string());
        assert_eq!(merge(&scratch).1["summary"], merged["summary"]);
        let left = std::fs::read_dir(&scratch.path).unwrap();
        let hidden = left.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".ringfall")
        });
        assert_eq!(hidden.count(), 0, "nothing is left of the meeting");
    }
}

/// Process of a rank that `mpirun` has started.
fn pid_of(mpirun: u32, rank: u32) -> Option<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{mpirun}/task/{mpirun}/children"));
    children.ok()?.split_whitespace().find_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
        let is_it = environment.split(|&byte| byte == 0).any(|one| one == wanted.as_bytes());
        is_it.then(|| Pid::from_raw(pid.parse().ok()?)).flatten()
    })
}

fn read_bytes(mpirun: u32, rank: u32) -> u64 {
    let Some(pid) = pid_of(mpirun, rank) else { return 0 };
    let io = std::fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero()));
    let io = io.unwrap_or_default();
    let read = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    read.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

#[test]
fn a_rank_of_open_mpi_that_is_killed_ends_the_job_and_the_others_keep_what_they_measured() {
    for meeting in meetings() {
        let scratch = Scratch::new("mpirun-killed");
        let name = "a killed rank of Open MPI";
        let more = ["--ranks", meeting, "--duration", "80"];
        let Some(command) = mpirun(&scratch, name, &more) else { return };
        let job = spawn(command);
        // Reads come with requests: each has served some.
        let has_read = |rank| read_bytes(job.id(), rank) > 100 << 20;
        wait_until("all ranks have measured", || (0..4).all(has_read));
        let victim = pid_of(job.id(), 1).expect("rank 1 runs");
        kill_process(victim, Signal::KILL).unwrap();
        let killed = std::time::Instant::now();
        let output = finish(job);
        assert!(killed.elapsed().as_secs() < 30, "{}", text(&output));
        assert_ne!(output.status.code(), Some(0), "{}", text(&output));
        for rank in [0, 2, 3] {
            let document = result_of(&scratch, rank);
            assert!(document["requests_completed"].as_u64() > Some(0), "{meeting}: {rank}");
            let window = &document["ringfall"]["window"];
            let is_told = window["failure"].is_string() || window["interrupted"] == true;
            assert!(is_told && window["seconds"].as_f64() < Some(60.0), "{window}");
        }
        let (shown, merged) = merge(&scratch);
        assert!(shown.contains("3 of 4 ranks side by side"), "{shown}");
        let launch = &merged["ringfall"]["merged"]["launch"];
        assert_eq!((&launch["partial"], &launch["missing"]), (&true.into(), &vec![1].into()));
    }
}

#[test]
fn trials_of_ranks_are_merged_by_trial_and_then_together() {
    let scratch = Scratch::new("mpirun-trials");
    let more = ["--trials", "2", "--duration", "1"];
    let Some(command) = mpirun(&scratch, "trials of ranks", &more) else { return };
    complete(&output(command));
    let by_itself = scratch.json();
    let trials: Vec<Value> =
        (1..=2).map(|trial| json(&scratch.file(&format!("result_trial{trial}.json")))).collect();
    let requests = |document: &Value| document["requests_completed"].as_u64().unwrap();
    assert_eq!(requests(&by_itself), trials.iter().map(requests).sum::<u64>());
    assert!(trials.iter().all(|one| one["ringfall"]["merged"]["launch"]["size"] == 4));
    let about = &by_itself["ringfall"]["merged"];
    assert_eq!((&about["trials_asked"], about["inputs"].as_array().unwrap().len()), (&2.into(), 2));
    // From the ranks' own files it is the same.
    let (shown, merged) = merge(&scratch);
    assert!(shown.contains("2 trials of 4 ranks each"), "{shown}");
    assert_eq!(merged["summary"], by_itself["summary"]);
}
