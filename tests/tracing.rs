//! `--enable-latency-tracing` and the fio job. The trace needs root and bpftrace; where they are
//! missing, what is tested is that the run says so and goes on.

use std::process::Command;

use serde_json::Value;

use crate::support::{Scratch, ended_well, output, skipped, text};

#[test]
fn a_trace_counts_what_the_kernel_counts_or_the_run_says_why_not() {
    let scratch = Scratch::new("traced");
    let page = scratch.file("page.html");
    let flags = ["--enable-latency-tracing", "--html-output", page.to_str().unwrap()];
    let ran = scratch.run(&[&flags[..], &["--duration", "4"]].concat());
    let said = text(&ran);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(scratch.file("result.fio").exists());
    let ours = scratch.json()["ringfall"].clone();
    let codes: Vec<&str> =
        ours["warnings"].as_array().unwrap().iter().filter_map(|w| w["code"].as_str()).collect();
    if ours["block_trace"].is_null() {
        assert!(codes.contains(&"not_traced") && said.contains("is not traced"), "{said}");
        let why = said.lines().find(|line| line.contains("is not traced"));
        return skipped("a trace of the block layer", why.unwrap_or(&said));
    }
    let trace = &ours["block_trace"];
    let bytes = |value: &Value| value.as_u64().unwrap() as f64;
    let traced = bytes(&trace["read"]["bytes"]) + bytes(&trace["write"]["bytes"]);
    let kernel = &ours["device"]["kernel"];
    let counted = bytes(&kernel["read_bytes"]) + bytes(&kernel["write_bytes"]);
    // The trace also sees the moments before and after the window, and other tests' I/O there.
    assert!(traced >= 0.95 * counted && counted > 0.0, "{traced} of {counted}");
    let direction = &trace["read"];
    let count = |field: &str| -> u64 {
        direction[field].as_array().unwrap().iter().map(|b| b["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(count("sizes"), direction["requests"].as_u64().unwrap());
    assert!(count("depth") > 100 && count("issue_to_complete_us") > 0, "{direction}");
    assert!(!trace["heat"].as_array().unwrap().is_empty());
    let document = scratch.json();
    // The same counts under the reference's own key.
    let buckets = document.pointer("/device_latency_tracing/d2c_read_us/buckets").unwrap();
    let references: u64 =
        buckets.as_array().unwrap().iter().map(|b| b["count"].as_u64().unwrap()).sum();
    assert_eq!(references, count("issue_to_complete_us"));
    let job = std::fs::read_to_string(scratch.file("result.fio")).unwrap();
    assert_eq!(document["fio_workload"].as_str(), Some(job.as_str()));
    assert!(said.contains("block layer"), "{said}");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Block layer") && html.contains("Positions on the device"));
}

#[test]
fn without_bpftrace_the_run_goes_on_and_says_so() {
    let scratch = Scratch::new("untraced");
    let mut command = scratch.run_command(&["--enable-latency-tracing"]);
    command.env("PATH", "/nowhere");
    let ran = ended_well(output(command));
    assert!(text(&ran).contains("bpftrace is not installed"), "{}", text(&ran));
    let result = scratch.json();
    assert!(result["ringfall"]["block_trace"].is_null());
    assert!(result.get("device_latency_tracing").is_none() && result.get("fio_workload").is_none());
}

#[test]
fn fio_takes_the_job_of_a_run_also_from_its_json() {
    let scratch = Scratch::new("fio-job");
    let job = scratch.file("job.fio");
    ended_well(scratch.run(&["--fio-output", job.to_str().unwrap()]));
    let again = scratch.file("again.fio");
    let mut report = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    report.arg("report").arg(scratch.file("result.json")).arg("--output").arg(&again);
    assert_eq!(output(report).status.code(), Some(0));
    assert_eq!(std::fs::read(&job).unwrap(), std::fs::read(&again).unwrap());
    let mut fio = Command::new("fio");
    fio.arg("--parse-only").arg(&job).env("FILENAME", scratch.file("data"));
    match fio.output() {
        Err(error) => skipped("fio's opinion of the job", &error.to_string()),
        Ok(parsed) => assert!(parsed.status.success(), "{}", text(&parsed)),
    }
}
