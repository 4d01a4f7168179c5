//! Several drives in one run: what goes where, what is told of each, and what becomes of a run when
//! one of them fails.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, data_bytes, ended_well, finish, output, text, wait_until,
};

/// `--cache-dir` for two directories.
fn two(scratch: &Scratch) -> String {
    format!("{},{}", scratch.file("a").display(), scratch.file("b").display())
}

fn bytes(drive: &Value) -> u64 {
    drive["read"]["bytes"].as_u64().unwrap() + drive["write"]["bytes"].as_u64().unwrap()
}

#[test]
fn two_drives_share_the_load_and_each_has_a_row() {
    for layout in ["stripe", "whole"] {
        let scratch = Scratch::new("two-drives");
        let places = two(&scratch);
        let html = scratch.file("page.html");
        let more = ["--cache-dir", &places, "--placement", layout, "--duration", "1"];
        let more = [&more[..], &["--html-output", html.to_str().unwrap()]].concat();
        let output = ended_well(scratch.run(&more));
        let told = text(&output);
        assert!(told.contains("drives, GiB/s") && told.contains("/a,"), "{told}");
        let json = scratch.json();
        let ours = &json["ringfall"];
        let drives = ours["drives"].as_array().unwrap();
        assert_eq!(drives.len(), 2);
        let moved: u64 = drives.iter().map(bytes).sum();
        let io = &ours["io"];
        let all = io["read"]["bytes"].as_u64().unwrap() + io["write"]["bytes"].as_u64().unwrap();
        assert_eq!(moved, all, "{layout}");
        for (drive, name) in drives.iter().zip(["a", "b"]) {
            assert!(drive["path"].as_str().unwrap().ends_with(name), "{drive}");
            let share = drive["share"].as_f64().unwrap();
            assert!((0.2..0.8).contains(&share), "{layout}: {drive}");
            // Each by what its file system has free at the moment: half, but for a block or two.
            let capacity = drive["capacity_bytes"].as_u64().unwrap();
            assert!(capacity.abs_diff(256 << 20) < 8 << 20, "{drive}");
            assert_eq!((&drive["errors"], &drive["failed_s"]), (&0.into(), &Value::Null));
        }
        assert_eq!(ours["verify"]["blocks_bad"], 0);
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(page.contains("<h2>Drives</h2>"));
        assert!(data_bytes(&scratch.file("a")) == 0 && data_bytes(&scratch.file("b")) == 0);
    }
}

/// Cuts the data file of a drive while the run reads and writes it.
fn cut(directory: &Path) {
    wait_until("the drive is in use", || data_bytes(directory) >= 128 << 20);
    let file = OpenOptions::new().write(true).open(directory.join("ringfall.kv")).unwrap();
    file.set_len(0).unwrap();
}

#[test]
fn a_drive_that_fails_is_named_and_the_run_goes_on_without_it() {
    let scratch = Scratch::new("drive-fails");
    let places = two(&scratch);
    let whole = ["--placement", "whole", "--preallocate", "reserve", "--duration", "4"];
    let go_on = ["--cache-dir", &places, "--on-device-failure", "continue"];
    let child = scratch.start(&[&whole[..], &go_on].concat());
    cut(&scratch.file("b"));
    let output = finish(child);
    // It is not what was to be measured, and says so by its status.
    assert_fails(&output, 1, &["/b failed", "the run goes on"]);
    let json = scratch.json();
    let ours = &json["ringfall"];
    assert_eq!(ours["window"]["failure"], Value::Null, "{}", ours["window"]);
    assert!(ours["window"]["seconds"].as_f64().unwrap() > 3.9);
    let drives = ours["drives"].as_array().unwrap();
    assert_eq!(drives[0]["failed_s"], Value::Null);
    assert!(drives[1]["failed_s"].is_number(), "{}", drives[1]);
    let warnings = ours["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "drive_failed"), "{warnings:?}");
    // The other one works to the end.
    let last = ours["timeline"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["errors"], 0, "{last}");
    assert!(last["tiers"]["storage"]["read"]["bytes"].as_u64() > Some(0), "{last}");
}

#[test]
fn a_drive_that_fails_ends_the_run_unless_asked_otherwise() {
    let scratch = Scratch::new("drive-stops");
    let places = two(&scratch);
    let child =
        scratch.start(&["--cache-dir", &places, "--preallocate", "reserve", "--duration", "60"]);
    cut(&scratch.file("b"));
    assert_fails(&finish(child), 1, &["stopped", "ringfall.kv"]);
    let json = scratch.json();
    assert!(json["ringfall"]["window"]["failure"].is_string());
}

#[test]
fn a_comma_in_a_path_is_asked_about_and_can_be_said() {
    let scratch = Scratch::new("comma");
    let odd = scratch.file("a,b");
    std::fs::create_dir(&odd).unwrap();
    let typed = odd.display().to_string();
    assert_fails(&scratch.run(&["--cache-dir", &typed]), 2, &["comma", "a\\,b"]);
    let escaped = typed.replace(',', "\\,");
    ended_well(scratch.run(&["--cache-dir", &escaped, "--duration", "1"]));
    let drives = scratch.json()["ringfall"]["drives"].clone();
    assert_eq!(drives.as_array().unwrap().len(), 1);
    assert_eq!(drives[0]["path"], typed);
    let twice = format!("{escaped},{escaped}/");
    assert_fails(&scratch.run(&["--cache-dir", &twice]), 2, &["--cache-dir names", "twice"]);
    let more = ["--cache-dir", &two(&scratch), "--roofline", "fresh"];
    assert_fails(&scratch.run(&more), 2, &["--roofline fresh works with one drive"]);
}

#[test]
fn saturate_measures_each_drive_alone_and_all_together() {
    let scratch = Scratch::new("saturate-drives");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["saturate", "--size-gb", "0.05", "--no-iops", "--time-limit", "3"]);
    command.args(["--output", "limits.json", "--cache-dir", &two(&scratch)]);
    command.current_dir(&scratch.path).stdin(Stdio::null());
    let output = ended_well(output(command));
    assert!(text(&output).contains("2 drives: "), "{}", text(&output));
    let limits = std::fs::read(scratch.file("limits.json")).unwrap();
    let limits: Value = serde_json::from_slice(&limits).unwrap();
    assert_eq!(limits["drives"].as_array().unwrap().len(), 2);
    for (row, limit) in limits["together"].as_array().unwrap().iter().zip(0..) {
        let each = row["each_bytes_per_s"].as_array().unwrap();
        let sum: f64 = each.iter().map(|rate| rate.as_f64().unwrap()).sum();
        let all = row["bytes_per_s"].as_f64().unwrap();
        assert!(each.len() == 2 && all > 0.0 && (sum / all - 1.0).abs() < 1e-6, "{row}");
        assert_eq!(limits["limits"][limit]["bandwidth"]["best"]["bytes_per_s"], all);
        // Two directories of one disk.
        let why = row["bound_by"].as_str().unwrap();
        assert!(["the drives", "the CPU", "the disk"].iter().any(|w| why.starts_with(w)), "{why}");
    }
    // A run is held against what all of them do.
    let places = two(&scratch);
    let more = ["--cache-dir", &places, "--roofline", "limits.json", "--duration", "1"];
    ended_well(scratch.run(&more));
    assert!(scratch.json()["ringfall"]["roofline"]["share"].as_f64() > Some(0.0));
}

#[test]
fn four_described_drives_do_four_times_as_much_as_one() {
    let device = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/slow-vmfs.yaml");
    let described = std::fs::read_to_string(device).unwrap();
    let moved = |drives: u32| {
        let scratch = Scratch::new("described-drives");
        std::fs::write(scratch.file("d.yaml"), format!("{described}\ndrives: {drives}\n")).unwrap();
        let line = "simulate --device d.yaml --seed 7 --num-users 60 --duration 20 --shards 4 \
                    --cpu-mem-gb 0 --generation-mode none --arrival closed --quiet --output \
                    result.json --model tiny-1b";
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(line.split_whitespace()).current_dir(&scratch.path).stdin(Stdio::null());
        ended_well(output(command));
        let json = scratch.json();
        let io = &json["ringfall"]["io"];
        let rows = json["ringfall"]["drives"].as_array().unwrap().len();
        assert_eq!(rows, if drives == 1 { 0 } else { drives as usize });
        io["read"]["bytes"].as_u64().unwrap() + io["write"]["bytes"].as_u64().unwrap()
    };
    let (one, four) = (moved(1), moved(4));
    let times = four as f64 / one as f64;
    assert!((3.5..=4.1).contains(&times), "{one} and {four} bytes: {times}");
}
