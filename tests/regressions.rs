//! Bugs of the past, a test each, named after the bug: what did harm once is done again with the
//! real binary.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{
    Scratch, data_bytes, ended_well, finish, output, skipped, spawn, text, wait_until,
};

fn ringfall(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(args).current_dir(directory).stdin(Stdio::null()).output().unwrap()
}

/// A result whose model has this name, as `r.json`.
fn result_of_model(scratch: &Scratch, model: &str) {
    let result = include_str!("fuzz/corpus/results/simulated.json");
    let mut result: Value = serde_json::from_str(result).unwrap();
    result["ringfall"]["config"]["model"] = model.into();
    std::fs::write(scratch.file("r.json"), result.to_string()).unwrap();
}

/// Page that `ringfall report` makes of the result.
fn report(scratch: &Scratch, output: &str) -> String {
    ended_well(ringfall(&scratch.path, &["report", "r.json", "--output", output]));
    std::fs::read_to_string(scratch.file(output)).unwrap()
}

/// Nothing that a terminal obeys, or that changes the order of what it shows.
fn assert_plain(shown: &str) {
    let is_harmful = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2066}".contains(c);
    assert!(!shown.chars().any(is_harmful), "{shown:?}");
}

#[test]
fn a_line_break_in_a_models_name_became_keys_of_the_fio_job() {
    let scratch = Scratch::new("fio-injection");
    result_of_model(&scratch, "tiny");
    let lines = |job: String| -> Vec<String> {
        // As fio reads: lines of at most 4095 bytes.
        let pieces = job.as_bytes().split_inclusive(|&byte| byte == b'\n' || byte == b'\r');
        let pieces = pieces.flat_map(|line| line.chunks(4095));
        let lines = pieces.map(|piece| String::from_utf8_lossy(piece).trim().to_owned());
        lines.filter(|line| !line.is_empty() && !line.starts_with([';', '#'])).collect()
    };
    let harmless = lines(report(&scratch, "x.fio"));
    assert!(harmless.iter().any(|line| line == "[ringfall]"), "{harmless:?}");
    let long = format!("{}\nexec_prerun=id", "x".repeat(4_096));
    let longer = format!("{}exec_prerun=id", " ".repeat(4_095));
    for model in
        ["x\n[global]\nexec_prerun=id", "x\r[a]\rexec_prerun=id", "${HOME}`id`", &long, &longer]
    {
        result_of_model(&scratch, model);
        assert_eq!(lines(report(&scratch, "x.fio")), harmless, "{model:?}");
    }
}

#[test]
fn log_lines_to_a_pipe_had_colour_codes() {
    let scratch = Scratch::new("log-colour");
    let ended =
        ended_well(scratch.run(&["--log-level", "trace", "--max-requests", "4", "--quiet"]));
    let logged = String::from_utf8(ended.stderr).unwrap();
    assert!(logged.contains(" TRACE "), "a run that is told to logs something: {logged:?}");
    assert_plain(&logged);
}

/// One in three of such runs never ended: small I/Os, no flushes, nothing left in flight.
#[test]
fn a_shard_spun_for_ever_after_its_last_io() {
    let scratch = Scratch::new("spin");
    for seed in ["1", "2", "3", "4", "5"] {
        let shape = ["--duration", "1", "--io-size", "4k", "--durability", "none"];
        let more = ["--preallocate", "write", "--users", "8", "--seed", seed];
        ended_well(scratch.run(&[&shape[..], &more[..]].concat()));
    }
}

/// A thread that is off its core for longer than its executor's preemption timer, in its very first
/// pass, went to sleep with its shard not begun; nothing ever woke it, and nothing was said. strace
/// makes it so: the third call of each thread arms the timer, and returns 20 ms late.
#[test]
fn a_shard_slept_for_ever_before_it_began() {
    let late = ["-f", "-o", "/dev/null", "-e", "trace=io_uring_enter", "-e"];
    let third = "inject=io_uring_enter:delay_exit=20000:when=3";
    let traced = |command: &Command| {
        let mut traced = Command::new("strace");
        traced.args(late).arg(third).arg(command.get_program()).args(command.get_args());
        traced
    };
    if !traced(&Command::new("true")).output().is_ok_and(|ended| ended.status.success()) {
        return skipped("a shard that sleeps before it begins", "strace can't trace here");
    }
    let scratch = Scratch::new("first-pass");
    ended_well(output(traced(&scratch.run_command(&["--duration", "1", "--shards", "2"]))));
}

#[test]
fn a_directory_named_with_a_slash_at_its_end_hung() {
    let scratch = Scratch::new("slash");
    let directory = format!("{}/", scratch.file("other").display());
    ended_well(scratch.run(&["--duration", "1", "--cache-dir", &directory]));
}

#[test]
fn a_trace_cut_to_nothing_while_it_is_read_hung_the_run() {
    let scratch = Scratch::new("cut-trace");
    let trace = scratch.file("trace.csv");
    let mut rows =
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n".to_owned();
    for second in 0..400_000 {
        rows.push_str(&format!("{second},ChatGPT,300,40,340,Conversation log\n"));
    }
    std::fs::write(&trace, rows).unwrap();
    let path = trace.to_str().unwrap();
    let source = ["--use-burst-trace", "--burst-trace-path", path, "--trace-speedup", "0"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args([
        "run",
        "--model",
        "tiny-1b",
        "--cpu-mem-gb",
        "0",
        "--storage-capacity-gb",
        "0.5",
    ]);
    command.args(source).args(["--duration", "4", "--io-size", "4k", "--generation-mode", "none"]);
    command.arg("--cache-dir").arg(scratch.store());
    command.arg("--output").arg(scratch.file("result.json")).current_dir(&scratch.path);
    let child = spawn(command);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    std::fs::OpenOptions::new().write(true).open(&trace).unwrap().set_len(100_000).unwrap();
    let ended = finish(child);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", text(&ended));
    assert!(scratch.json()["ringfall"]["window"].is_object(), "{}", text(&ended));
}

#[test]
fn escape_sequences_in_names_reached_the_terminal() {
    let scratch = Scratch::new("terminal-escape");
    let name = "\u{1b}[31m\u{9b}2J\nerror: forged \u{202e}.json";
    // In an error: a file that is not there, one that is no result, a flag.
    std::fs::write(scratch.file(name), "{\"x\": 1}").unwrap();
    for args in [
        &["merge", "\u{1b}[2Jnone.json", name][..],
        &["compare", name, name],
        &["report", name],
        &["analyze", name, name],
        &["simulate", "--device", name],
        &["run", "--config", name],
        &["run", "--burst-trace-path", "\u{1b}[31m\u{202e}"],
        &["run", "--\u{1b}[31m"],
        &["run", "--users", "\u{1b}[31m\u{7}"],
    ] {
        let ended = ringfall(&scratch.path, args);
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {}", text(&ended));
        assert_plain(&text(&ended));
        let forged = |line: &str| line.starts_with("error: forged");
        assert!(!text(&ended).lines().any(forged), "{args:?}: {}", text(&ended));
    }
    // In a page: the name of a file and of the machine's parts.
    let result = include_str!("fuzz/corpus/results/simulated.json");
    let mut result: Value = serde_json::from_str(result).unwrap();
    for (file, cpu) in [(name, "\u{1b}]0;owned\u{7}"), ("b.json", "\u{9b}31m")] {
        result["ringfall"]["machine"]["cpu_model"] = cpu.into();
        std::fs::write(scratch.file(file), result.to_string()).unwrap();
    }
    for args in [&["compare", name, "b.json"][..], &["compare", name, "b.json", "--json"]] {
        let ended = ended_well(ringfall(&scratch.path, args));
        assert_plain(&text(&ended));
        let visible = if args.len() == 3 { "\\u{9b}31m" } else { "\\u009b31m" };
        assert!(text(&ended).contains(visible), "{}", text(&ended));
    }
}

/// A step of growth could end before its writer waited for it: glommio runs a spawned task at once.
/// The run then stood still for ever with space to spare.
#[test]
fn arrivals_that_come_faster_than_they_are_drawn_kept_a_run_from_ending() {
    let scratch = Scratch::new("arrivals");
    let faster = ["--arrival", "poisson", "--request-rate", "1e7", "--duration", "1"];
    ended_well(scratch.run(&faster));
    let result = scratch.json();
    let queued = result["ringfall"]["source"]["queued_at_end"].as_u64().unwrap();
    assert!(queued > 100_000, "{queued}");
}

#[test]
fn a_run_of_few_words_said_nothing_of_its_failure() {
    let scratch = Scratch::new("silent");
    // Entries of up to 192 MiB, of which the tier holds those below 51 MiB.
    let config = scratch.file("large.yaml");
    let persona = "{context_tokens: [128, 8192], generation_tokens: [2, 3], think_time_s: [0, 1]}";
    std::fs::write(&config, format!("workload:\n  personas:\n    large: {persona}\n")).unwrap();
    let args = ["--quiet", "--storage-capacity-gb", "0.05", "--config", config.to_str().unwrap()];
    let ended = scratch.run(&args);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    assert!(text(&ended).contains("error: "), "{}", text(&ended));
}

#[test]
fn a_step_of_growth_that_is_over_at_once_still_wakes_its_writer() {
    let scratch = Scratch::new("growth");
    let config = scratch.file("entries.yaml");
    // Entries of 34 to 59 MiB in a tier of 128 MiB that grows by 8: each write waits for steps.
    std::fs::write(
        &config,
        "workload: {personas: {one: {context_tokens: [1500, 2500], generation_tokens: [1, 2], \
         think_time_s: [0.01, 0.02]}}}",
    )
    .unwrap();
    let config = config.display().to_string();
    for seed in ["1", "2", "3", "4"] {
        let ended = ended_well(scratch.run(&[
            "--config",
            &config,
            "--storage-capacity-gb",
            "0.125",
            "--preallocate",
            "grow",
            "--users",
            "4",
            "--max-requests",
            "6",
            "--duration",
            "60",
            "--seed",
            seed,
        ]));
        assert_eq!(scratch.json()["requests_completed"], 6, "{}", text(&ended));
    }
}

/// A line of advice on a full standard error was a panic, and the results were lost.
#[test]
fn a_full_standard_error_costs_no_results() {
    let scratch = Scratch::new("full-stderr");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    // Of this one something is told before the run: a tensor width that no model is split by.
    let mut command = scratch.run_command(&["--max-requests", "2", "--duration", "60"]);
    command.args(["--num-gpus", "3", "--tensor-parallel", "3"]);
    command.stdout(std::process::Stdio::null()).stderr(full);
    let status = command.status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(scratch.json()["requests_completed"], 2);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ringfall"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = command.arg("bogus").stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// `ringfall run 2>&1 | head` was a panic at the first log line after `head` had left.
#[test]
fn a_log_line_that_nobody_reads_costs_no_results() {
    let scratch = Scratch::new("log-without-reader");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // With --json the banner is the first that fails; the shards log lines after it.
    let more = ["--json", "--log-level", "trace", "--max-requests", "2", "--duration", "60"];
    let mut command = scratch.run_command(&more);
    let status = command.stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(scratch.json()["requests_completed"], 2);
}
