//! `saturate`, `--precondition` and `--roofline`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, assert_valid_as, data_bytes, ended_well, finish, output, spawn, text,
    wait_until,
};

fn saturate(scratch: &Scratch, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["saturate", "--size-gb", "0.125", "--output"]).arg(limits(scratch));
    command.arg("--cache-dir").arg(scratch.store()).args(more);
    command.current_dir(&scratch.path).stdin(Stdio::null());
    command
}

fn limits(scratch: &Scratch) -> PathBuf {
    scratch.file("limits.json")
}

fn read(path: &PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Checks what holds of every search, cut short or not, on a device of any speed.
fn assert_sound(found: &Value) {
    assert_valid_as("limits", found);
    for limit in found["limits"].as_array().unwrap() {
        for goal in ["bandwidth", "iops"].into_iter().filter(|goal| !limit[goal].is_null()) {
            let best = &limit[goal]["best"];
            let (rate, iops) = (best["bytes_per_s"].as_f64(), best["iops"].as_f64());
            let (rate, iops) = (rate.unwrap(), iops.unwrap());
            assert!(
                rate > 0.0 && (iops * best["io_bytes"].as_f64().unwrap() / rate - 1.0).abs() < 1e-6
            );
            let at = |key: &str| best[key].as_f64().unwrap();
            let (p50_us, p99_us) = (at("latency_p50_us"), at("latency_p99_us"));
            assert!(p50_us > 0.0 && p50_us <= p99_us, "{best}");
            // Little's law: the I/Os in flight, which are no more than the depth, are their rate
            // times their mean latency, and a median is at most twice its mean. Twice that, since
            // an I/O may have begun before the interval in which it is counted.
            let most_us = 2.0 * 2.0 * at("depth") / iops * 1e6;
            assert!(p50_us <= most_us, "{p50_us} µs, of at most {most_us}: {best}");
            let knee = &limit[goal]["knee"];
            assert!(knee["depth"].as_u64() >= Some(1) && knee["depth"].as_u64() <= Some(8));
            let probes = limit[goal]["probes"].as_array().unwrap();
            let point = |load: &Value| (load["io_bytes"].clone(), load["depth"].clone());
            assert!(probes.iter().any(|probe| point(probe) == point(knee)), "{probes:?}");
            let value = if goal == "iops" { "iops" } else { "bytes_per_s" };
            assert!(knee[value].as_f64() <= best[value].as_f64(), "{knee} and {best}");
            assert_eq!(probes[0]["depth"], 1, "{probes:?}");
        }
    }
}

#[test]
fn limits_are_found_and_a_run_is_held_against_them() {
    let scratch = Scratch::new("limits");
    let page = scratch.file("limits.html");
    // The least that the six searches wait for takes longer, whatever the device: they are cut.
    let small = ["--time-limit", "4", "--io-size-min", "64k", "--depth-max", "8"];
    let outputs = ["--device-output", "drive.yaml", "--html-output", page.to_str().unwrap()];
    let output_of = ended_well(output(saturate(&scratch, &[&small[..], &outputs].concat())));
    assert!(text(&output_of).contains("s of the 4 s of --time-limit"), "{}", text(&output_of));
    assert!(text(&output_of).contains("The search for"), "{}", text(&output_of));
    assert!(text(&output_of).contains("for KV       llama3.1-8b, 4096 tokens = 0.5 GiB"));
    assert!(!scratch.store().exists());
    let found = read(&limits(&scratch));
    assert_eq!(found["time_limit_s"], 4);
    let bytes = |key: &str| found[key].as_u64().unwrap();
    assert_eq!(bytes("range_bytes") + bytes("range_left_bytes"), 128 << 20);
    assert!(bytes("range_bytes") >= 4 << 20);
    let limits_found = found["limits"].as_array().unwrap();
    let directions: Vec<u64> =
        limits_found.iter().map(|l| l["read_percent"].as_u64().unwrap()).collect();
    assert_eq!(directions, [100, 0, 50]);
    let settled = |goal| limits_found.iter().all(|limit| limit[goal]["settled"] == true);
    assert!(!(settled("bandwidth") && settled("iops")), "{found}");
    assert_sound(&found);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("<svg") && !html.contains("<script") && !html.contains("http"));
    assert!(html.contains("The time limit ended the search"));
    a_run_is_held_against(&scratch);
}

/// A simulated run on the drive that was written, and a real one beside the limits.
fn a_run_is_held_against(scratch: &Scratch) {
    let mut simulated = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    simulated.args(["simulate", "--device", "drive.yaml", "--model", "tiny-1b", "--duration", "5"]);
    simulated.args(["--num-users", "8", "--output", "simulated.json"]).current_dir(&scratch.path);
    ended_well(output(simulated));
    let ran = ended_well(scratch.run(&["--roofline", limits(scratch).to_str().unwrap()]));
    assert!(text(&ran).contains("drive limit"), "{}", text(&ran));
    let result = scratch.json();
    let roofline = &result["ringfall"]["roofline"];
    let part = |direction: &str| {
        let rate = result["ringfall"]["io"][direction]["bandwidth_gib_per_s"].as_f64().unwrap();
        rate / roofline[format!("{direction}_gib_per_s")].as_f64().unwrap()
    };
    let share = roofline["share"].as_f64().unwrap();
    assert!((share - part("read") - part("write")).abs() < 1e-9, "{roofline}");
}

#[test]
fn a_search_that_has_the_time_leaves_nothing() {
    let scratch = Scratch::new("limits-whole");
    // One load to try and to measure until steady.
    let one = ["--read-percent", "100", "--no-iops", "--depth-max", "1", "--time-limit", "600"];
    let sizes = ["--io-size-min", "64k", "--io-size-max", "64k", "--size-gb", "0.0625"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("saturate").args(one).args(sizes).arg("--output").arg(limits(&scratch));
    command.arg("--cache-dir").arg(scratch.store()).stdin(Stdio::null());
    let output_of = ended_well(output(command));
    assert!(!text(&output_of).contains("The search for"), "{}", text(&output_of));
    let found = read(&limits(&scratch));
    assert_eq!(
        (&found["range_bytes"], &found["range_left_bytes"]),
        (&(64 << 20).into(), &0.into())
    );
    let search = &found["limits"][0]["bandwidth"];
    assert_eq!((&search["settled"], search["probes"].as_array().unwrap().len()), (&true.into(), 1));
    // Measured once more, until steady.
    assert_ne!(search["best"]["seconds"], search["probes"][0]["seconds"]);
    assert_sound(&found);
}

/// A file that did not take the limits cost the table, and the files after it.
#[test]
fn limits_that_can_t_be_written_are_shown_and_all_files_are_tried() {
    let small = ["--no-iops", "--depth-max", "1", "--time-limit", "3", "--size-gb", "0.0625"];
    let sizes = ["--io-size-min", "64k", "--io-size-max", "64k"];
    for (full, others) in [
        ("--output", [("--html-output", "limits.html"), ("--device-output", "drive.yaml")]),
        ("--html-output", [("--output", "other.json"), ("--device-output", "drive.yaml")]),
    ] {
        let scratch = Scratch::new("limits-full");
        let mut command = saturate(&scratch, &[&small[..], &sizes].concat());
        command.args([full, "/dev/full"]);
        command.args(others.iter().flat_map(|(flag, file)| [flag, file]));
        let ended = output(command);
        assert_fails(&ended, 1, &["the limits can't be written to /dev/full: No space left"]);
        let page = String::from_utf8_lossy(&ended.stdout);
        assert!(page.contains("read, bandwidth") && page.contains("write, bandwidth"), "{page}");
        assert!(!page.contains("  limits       "), "{full}: {page}");
        for (flag, file) in others {
            assert!(scratch.file(file).exists(), "{flag} was not tried");
        }
    }
}

#[test]
fn what_can_not_be_saturated_is_said_before_anything_is_made() {
    let scratch = Scratch::new("limits-wrong");
    for (flags, words) in [
        (&["--io-size-min", "5000"][..], &["--io-size-min", "multiple of 4 KiB"][..]),
        (&["--io-size-min", "1m", "--io-size-max", "4k"], &["larger than --io-size-max"]),
        (&["--read-percent", "101"], &["--read-percent 101"]),
        (&["--depth-max", "0"], &["--depth-max is 0"]),
        (&["--threads", "0"], &["--threads takes 1 to 1024"]),
        (&["--mix-of", "none.json"], &["--mix-of", "none.json"]),
        (&["--sqpoll", "--iopoll"], &["--iopoll"]),
        (&["--nvme-passthrough", "--cache-dir", "."], &["--nvme-passthrough", "is no drive"]),
        (&["--size-gb=-1"], &["--size-gb is -1"]),
        (&["--size-gb", "0.001"], &["--size-gb is 0.001", "--io-size-max"]),
        (&["--time-limit", "0"], &["--time-limit is 0", "1 to 86400 seconds"]),
        (&["--time-limit", "86401"], &["--time-limit is 86401", "1 to 86400 seconds"]),
        (&["--html-output", "store/ringfall.kv"], &["--html-output", "give to their data"]),
        (&["--device-output", "store/ringfall.lock"], &["--device-output", "give to their data"]),
    ] {
        assert_fails(&output(saturate(&scratch, flags)), 2, words);
        assert!(!scratch.store().exists() && !limits(&scratch).exists(), "{flags:?}");
    }
    let sentence = output(saturate(&scratch, &["--size-gb", "4000000"]));
    assert_fails(&sentence, 1, &["less than the 3.8 PiB of --size-gb"]);
}

#[test]
fn an_interrupted_search_cleans_up() {
    let scratch = Scratch::new("limits-interrupted");
    let command = saturate(&scratch, &[]);
    let child = spawn(command);
    wait_until("the file is there", || data_bytes(&scratch.store()) > 0);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = finish(child);
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended));
    assert!(!scratch.store().exists() && !limits(&scratch).exists());
}

#[test]
fn preconditioning_writes_what_it_says_and_none_of_it_counts() {
    let scratch = Scratch::new("precondition");
    let flags = ["--precondition", "--precondition-size-gb", "0.75", "--precondition-threads", "3"];
    let ran = ended_well(scratch.run(&flags));
    assert!(text(&ran).contains("preconditioned: 0.75 GiB"), "{}", text(&ran));
    let ours = &scratch.json()["ringfall"];
    assert_eq!(ours["precondition"]["bytes"].as_u64(), Some(768 << 20));
    assert_eq!(ours["io"]["first_touch_bytes"], 0, "every block had been written");
    let written = ours["device"]["engine_write_bytes"].as_u64().unwrap();
    let entries = ours["io"]["write"]["sizes"].as_object().unwrap().values();
    assert_eq!(entries.map(|size| size["bytes"].as_u64().unwrap()).sum::<u64>(), written);
    // By measure: at least one whole capacity, at most what was asked for.
    let flags = ["--precondition", "--precondition-until", "steady"];
    ended_well(scratch.run(&flags));
    let bytes = scratch.json()["ringfall"]["precondition"]["bytes"].as_u64().unwrap();
    assert!((512 << 20..=1 << 30).contains(&bytes), "{bytes}");
    let ran = ended_well(scratch.run(&["--precondition-until", "steady", "--max-requests", "1"]));
    let told = "--precondition-until has no effect without --precondition";
    assert!(text(&ran).contains(told), "{}", text(&ran));
    let garbage = scratch.file("result.json");
    assert_fails(
        &scratch.run(&["--roofline", garbage.to_str().unwrap()]),
        2,
        &["result.json", "ringfall saturate"],
    );
}
