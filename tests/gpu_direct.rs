//! Bytes between GPU memory and storage past host memory, host memory that GPUs reach, and what the
//! driver says of theirs: by stand-ins for the libraries.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::gpu::{THREE_TIERS, assert_three_tiers, codes, fake_driver, library_called, number};
use crate::support::{
    Scratch, assert_fails, ended_well, finish, output, skipped, spawn, text, wait_until,
};

/// A directory with stand-ins for the driver and for cuFile, under the first of the names by which
/// each is looked for, so that real ones are not found.
fn libraries(scratch: &Scratch) -> PathBuf {
    fake_driver(scratch);
    library_called("libcufile.so", scratch, &data("fake_cufile.c"))
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn command(scratch: &Scratch, libraries: &Path, modes: (&str, &str), more: &[&str]) -> Command {
    let more = [&THREE_TIERS[..], more].concat();
    let mut command = scratch.run_command(&more);
    command.env("LD_LIBRARY_PATH", libraries).env("FAKE_CUDA", modes.0);
    command.env("FAKE_CUFILE", modes.1);
    command
}

fn run_with(scratch: &Scratch, libraries: &Path, modes: (&str, &str), more: &[&str]) -> Output {
    output(command(scratch, libraries, modes, more))
}

/// Bytes between GPU memory and storage: direct ones, read and written, and all others.
fn moves(json: &Value) -> [f64; 3] {
    let of = |way: &str| number(json, &format!("/ringfall/gpu_moves/{way}_bytes"));
    let buffered = of("buffered_read") + of("buffered_write");
    [of("direct_read"), of("direct_write"), buffered]
}

const GDS: [&str; 4] = ["--gpu-backend", "cuda", "--gpu-transfer", "gds"];

#[test]
fn bytes_go_past_host_memory_and_every_one_of_them_is_right() {
    let scratch = Scratch::new("gds");
    let libraries = libraries(&scratch);
    let two = ["--num-gpus", "2", "--promotion", "on-hit"];
    for (mode, more) in [("works", &[][..]), ("works", &two), ("short", &[]), ("unregistered", &[])]
    {
        let ran = run_with(&scratch, &libraries, ("works", mode), &[&GDS[..], more].concat());
        assert_eq!(ran.status.code(), Some(0), "{mode}: {}", text(&ran));
        let json = scratch.json();
        assert_three_tiers(&json);
        let gpu = &json["ringfall"]["gpu"];
        assert_eq!((&gpu["transfer"], &gpu["why_not_gds"]), (&"gds".into(), &Value::Null));
        let [read, written, buffered] = moves(&json);
        // Entries pass the CPU tier on their way down, which has them written from there.
        assert!(read > 0.0 && buffered == 0.0, "{mode}: {read} {written} {buffered}");
        let shown = text(&ran).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("bypasses host memory (gds)"), "{}", text(&ran));
    }
    // With no CPU tier what leaves GPU memory is written from there.
    let more = [&GDS[..], &["--cpu-mem-gb", "0"]].concat();
    ended_well(run_with(&scratch, &libraries, ("works", "works"), &more));
    let [read, written, buffered] = moves(&scratch.json());
    assert!(read > 0.0 && written > 0.0 && buffered == 0.0, "{read} {written} {buffered}");
    assert_eq!(number(&scratch.json(), "/ringfall/verify/blocks_bad"), 0.0);
    // Where it is installed and works it is used unasked, and not where it is not wanted.
    for (way, is_direct) in [("auto", true), ("pinned", false)] {
        let more = ["--gpu-backend", "cuda", "--cpu-mem-gb", "0", "--gpu-transfer", way];
        ended_well(run_with(&scratch, &libraries, ("works", "works"), &more));
        let json = scratch.json();
        let [_, written, buffered] = moves(&json);
        assert_eq!((written > 0.0, buffered == 0.0), (is_direct, is_direct), "{way}");
        assert_eq!(json["ringfall"]["gpu"]["why_not_gds"], Value::Null);
    }
}

#[test]
fn what_stands_in_for_a_gpu_has_a_way_past_the_buffers_too_and_is_no_gpu() {
    let scratch = Scratch::new("gds-emulated");
    let more = ["--gpu-backend", "emulated", "--gpu-transfer", "gds", "--cpu-mem-gb", "0"];
    let ran = ended_well(run_with(&scratch, &scratch.path, ("works", "works"), &more));
    let json = scratch.json();
    let [read, written, buffered] = moves(&json);
    assert!(read > 0.0 && written > 0.0 && buffered == 0.0, "{read} {written} {buffered}");
    assert_eq!(number(&json, "/ringfall/verify/blocks_bad"), 0.0);
    assert_eq!(json["ringfall"]["gpu"]["is_gpu"], false);
    assert!(text(&ran).contains("not a GPU's"), "{}", text(&ran));
}

#[test]
fn where_it_does_not_work_the_run_goes_by_way_of_buffers_and_says_why() {
    let scratch = Scratch::new("gds-not");
    let libraries = libraries(&scratch);
    for (mode, words) in [
        ("compat", "the kernel module nvidia-fs is not loaded"),
        ("absent", "of the nvidia-fs module"),
        ("garbage", "brought 1 of 256 blocks wrong"),
    ] {
        let ran = run_with(&scratch, &libraries, ("works", mode), &GDS);
        assert_eq!(ran.status.code(), Some(0), "{mode}: {}", text(&ran));
        let json = scratch.json();
        let gpu = &json["ringfall"]["gpu"];
        assert_eq!(gpu["transfer"], "pinned");
        let why = gpu["why_not_gds"].as_str().unwrap();
        assert!(why.contains(words), "{why}");
        assert!(codes(&json).contains(&"gpu_not_direct"), "{:?}", codes(&json));
        let [read, written, buffered] = moves(&json);
        assert!(read + written == 0.0 && buffered > 0.0, "{read} {written} {buffered}");
        let told = text(&ran).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("through buffers (pinned)"), "{told}");
    }
    let strict = [&GDS[..], &["--strict"]].concat();
    let ran = run_with(&scratch, &libraries, ("works", "compat"), &strict);
    assert_fails(&ran, 1, &["--gpu-transfer gds", "nvidia-fs", "--gpu-transfer pinned"]);
    // Not installed, it is worth a warning to who asked for it.
    std::fs::remove_file(libraries.join("libcufile.so")).unwrap();
    for (way, warns) in [("gds", true), ("auto", false)] {
        let more = ["--gpu-backend", "cuda", "--gpu-transfer", way];
        ended_well(run_with(&scratch, &libraries, ("works", "works"), &more));
        let json = scratch.json();
        let why = json["ringfall"]["gpu"]["why_not_gds"].as_str().unwrap();
        assert!(why.contains("not installed") || warns, "{why}");
        assert_eq!(codes(&json).contains(&"gpu_not_direct"), warns, "{way}");
    }
}

#[test]
fn a_library_that_never_answers_does_not_hold_the_run_up() {
    let scratches = ["deaf", "hang"].map(|mode| (mode, Scratch::new(mode)));
    let run = |(mode, scratch): &(&str, Scratch)| {
        run_with(scratch, &libraries(scratch), ("works", mode), &GDS)
    };
    std::thread::scope(|scope| {
        let [deaf, hang] = scratches.each_ref().map(|one| scope.spawn(move || run(one)));
        // Before it has touched anything, the run goes on without it.
        ended_well(deaf.join().unwrap());
        let why = scratches[0].1.json()["ringfall"]["gpu"]["why_not_gds"].to_string();
        assert!(why.contains("cuFile did not start within 10 s"), "{why}");
        // What may still be written to is used by nobody else.
        let words = ["did not finish a trial write and read within 10 s", "--gpu-transfer pinned"];
        assert_fails(&hang.join().unwrap(), 1, &words);
    });
}

#[test]
fn an_io_past_host_memory_that_never_ends_does_not_keep_an_interrupted_run() {
    let scratch = Scratch::new("gds-hangs");
    let modes = ("works", "hang_later");
    let mut command = command(&scratch, &libraries(&scratch), modes, &GDS);
    let hangs = scratch.file("hangs");
    command.env("FAKE_CUFILE_HANGS", &hangs);
    let run = spawn(command);
    wait_until("an I/O hangs", || hangs.exists());
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let ran = finish(run);
    assert_eq!(ran.status.code(), Some(130), "{}", text(&ran));
    let json = scratch.json();
    assert_eq!(json.pointer("/ringfall/window/interrupted"), Some(&true.into()));
}

#[test]
fn a_search_that_an_io_past_host_memory_holds_up_ends_with_what_it_has_measured() {
    let scratch = Scratch::new("vram-hangs");
    let libraries = libraries(&scratch);
    let (hangs, limits) = (scratch.file("hangs"), scratch.file("vram.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["saturate", "--target", "vram", "--gpu-backend", "cuda", "--time-limit", "5"]);
    command.args(["--size-gb", "0.0625", "--io-size-max", "128k", "--depth-max", "4"]);
    command.args(["--threads", "2", "--cache-dir"]).arg(scratch.store());
    command.arg("--output").arg(&limits).current_dir(&scratch.path);
    command.env("LD_LIBRARY_PATH", &libraries).env("FAKE_CUDA", "works");
    command.env("FAKE_CUFILE", "hang_later").env("FAKE_CUFILE_HANGS", &hangs);
    let search = spawn(command);
    wait_until("an I/O hangs", || hangs.exists());
    kill_process(Pid::from_child(&search), Signal::INT).unwrap();
    let ran = finish(search);
    assert_eq!(ran.status.code(), Some(130), "{}", text(&ran));
    let limits: Value = serde_json::from_slice(&std::fs::read(&limits).unwrap()).unwrap();
    assert_eq!(limits["interrupted"], true);
    assert!(limits["ways"].as_array().unwrap().len() >= 2, "{limits}");
    let why = limits["failure"].as_str().unwrap();
    assert!(why.contains("I/Os between GPU memory and storage has ended"), "{why}");
}

#[test]
fn an_io_that_fails_on_the_way_is_an_io_error_of_the_run() {
    let scratch = Scratch::new("gds-fails");
    let libraries = libraries(&scratch);
    for mode in ["fails", "refuses"] {
        let more = [&GDS[..], &["--cpu-mem-gb", "0"]].concat();
        let ran = run_with(&scratch, &libraries, ("works", mode), &more);
        assert_fails(&ran, 1, &["Input/output error"]);
        let json = scratch.json();
        let rows = json["ringfall"]["errors"]["by_kind"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["errno"] == libc_eio()), "{mode}: {rows:?}");
    }
}

fn libc_eio() -> i32 {
    rustix::io::Errno::IO.raw_os_error()
}

#[test]
fn host_memory_is_page_locked_for_the_gpus_where_that_can_be_done() {
    let scratch = Scratch::new("locked");
    let driver = fake_driver(&scratch);
    let cuda = ["--gpu-backend", "cuda", "--gpu-transfer", "pinned"];
    for (mode, locks) in [("works", true), ("unlocked", false), ("few_pages", true)] {
        let ran = run_with(&scratch, &driver, (mode, "works"), &cuda);
        assert_eq!(ran.status.code(), Some(0), "{mode}: {}", text(&ran));
        let json = scratch.json();
        assert_three_tiers(&json);
        let of = |what: &str| number(&json, &format!("/ringfall/gpu_moves/host_{what}_bytes"));
        assert_eq!(of("locked") > 0.0, locks, "{mode}");
        let warnings = json["ringfall"]["warnings"].to_string();
        // Told once, also when it is memory that the tier takes while the run goes on.
        let times = warnings.matches("part of the CPU tier is not page-locked").count();
        assert_eq!(times, usize::from(mode != "works"), "{mode}: {warnings}");
        assert!(mode == "works" || of("pageable") > 0.0, "{mode}");
    }
}

#[test]
fn memory_that_runs_out_on_the_way_fails_what_needed_it_and_loses_no_results() {
    let scratch = Scratch::new("starved");
    let driver = fake_driver(&scratch);
    let more = ["--gpu-backend", "cuda", "--gpu-transfer", "pinned"];
    let ran = run_with(&scratch, &driver, ("starved", "works"), &more);
    assert_fails(&ran, 1, &["error 2"]);
    let json = scratch.json();
    let rows = json["ringfall"]["errors"]["by_kind"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["kind"] == "resources"), "{rows:?}");
    assert!(number(&json, "/summary/total_requests") > 0.0);
    assert_eq!(number(&json, "/ringfall/verify/blocks_bad"), 0.0);
}

#[test]
fn the_results_say_what_the_driver_says_of_its_memory_and_who_holds_it() {
    const GIB: f64 = 1_073_741_824.0;
    let scratch = Scratch::new("nvml");
    let driver = fake_driver(&scratch);
    library_called("libnvidia-ml.so", &scratch, &data("fake_nvml.c"));
    let cuda = ["--gpu-backend", "cuda", "--gpu-transfer", "pinned"];
    ended_well(run_with(&scratch, &driver, ("works", "works"), &cuda));
    let json = scratch.json();
    let device = json.pointer("/ringfall/gpu/devices/0").unwrap();
    assert_eq!(number(device, "/driver_used_bytes"), 3.0 * GIB);
    assert_eq!(number(device, "/driver_used_by_run_bytes"), GIB);
    assert!(number(device, "/taken_bytes") >= number(&json, "/ringfall/gpu/capacity_bytes"));
    let ran = run_with(&scratch, &driver, ("full", "works"), &cuda);
    assert_fails(&ran, 2, &["GPU 0 (fake GPU) has 0.0 of 8.0 GiB free", "process 1 ("]);
    // Others, and not the process itself.
    assert_fails(&ran, 2, &["holds 2.0 GiB)"]);
}

#[test]
fn the_script_for_a_machine_with_a_gpu_runs_from_end_to_end() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("tools/gpu-check", "python3 is missing");
        return;
    }
    let scratch = Scratch::new("gpu-check");
    let libraries = libraries(&scratch);
    // By the name by which what is not ringfall looks for it.
    std::os::unix::fs::symlink("libcuda.so", libraries.join("libcuda.so.1")).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join("tools/gpu-check"));
    command.args(["--model", "tiny-1b", "--gib", "0.06", "--storage-gib", "0.5", "--seconds", "8"]);
    command.arg("--config").arg(root.join("tests/small.yaml"));
    command.args(["--ringfall", env!("CARGO_BIN_EXE_ringfall"), "--dir"]).arg(&scratch.path);
    command.args(["--out", "out", "bytes"]).current_dir(&scratch.path);
    command.env("LD_LIBRARY_PATH", &libraries).env("FAKE_CUDA", "works");
    ended_well(output(command));
    let summary = std::fs::read_to_string(scratch.file("out/summary.txt")).unwrap();
    assert!(summary.starts_with("GPU: fake GPU\n"), "{summary}");
    for name in ["bytes-resident", "bytes-demoted", "bytes-promoted"] {
        assert!(summary.contains(&format!("ok    {name}: ")), "{summary}");
        assert!(scratch.file(&format!("out/{name}.json")).exists());
    }
    assert!(scratch.file("out/machine.txt").exists() && !scratch.file("gpu-check-store").exists());
}
