//! Checkpoints by the real binary: written, restored, interrupted, gone on with, damaged.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, assert_valid_as, ended_well, finish, output, skipped, spawn, text,
    wait_until,
};

/// `ringfall checkpoint WHAT DIR more`, without progress.
fn command(scratch: &Scratch, what: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["checkpoint", what]).arg(scratch.store());
    command.args(more).current_dir(&scratch.path);
    command
}

fn checkpoint(scratch: &Scratch, what: &str, more: &[&str]) -> Output {
    output(command(scratch, what, more))
}

/// The same, which succeeds; its JSON.
fn done(scratch: &Scratch, what: &str, more: &[&str]) -> Value {
    ended_well(checkpoint(scratch, what, &[more, &["--output", "result.json"]].concat()));
    let json =
        serde_json::from_slice(&std::fs::read(scratch.file("result.json")).unwrap()).unwrap();
    assert_valid_as("checkpoint", &json);
    json
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// 40 MiB of 3 ranks, in chunks of 1 MiB.
const SMALL: [&str; 6] = ["--size-gib", "0.0390625", "--ranks", "3", "--chunk-mib", "1"];

#[test]
fn what_is_written_is_restored_to_the_last_byte() {
    for more in [&[][..], &["--shared-file"], &["--io", "buffered", "--no-fsync"]] {
        let scratch = Scratch::new("checkpoint");
        let written = done(&scratch, "write", &[&SMALL[..], more].concat());
        let save = &written["saves"][0];
        assert_eq!(save["bytes"], 40 << 20);
        assert!(save["stall_s"].as_f64() <= save["durable_s"].as_f64(), "{save}");
        let seconds = save["bytes_by_second"].as_array().unwrap();
        let moved: u64 = seconds.iter().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(moved, 40 << 20);
        let names = names(&scratch.store());
        let expected = match more.first() {
            Some(&"--shared-file") => vec!["all-3-ranks.ckpt", "checkpoint.json"],
            _ => vec![
                "checkpoint.json",
                "rank-00000-of-00003.ckpt",
                "rank-00001-of-00003.ckpt",
                "rank-00002-of-00003.ckpt",
            ],
        };
        assert_eq!(names, expected);
        let read = done(&scratch, "read", &["--chunk-mib", "2"]);
        let restore = &read["restores"][0];
        assert_eq!((&restore["bytes"], &restore["blocks_bad"]), (&(40 << 20).into(), &0.into()));
        assert_eq!(restore["blocks_checked"], 10 << 10);
    }
}

#[test]
fn figures_that_the_page_cache_had_a_part_in_say_so() {
    for (io, is_cached) in [("direct", false), ("buffered", true)] {
        let scratch = Scratch::new("checkpoint-cached");
        let written = done(&scratch, "write", &[&SMALL[..], &["--io", io]].concat());
        let read = done(&scratch, "read", &["--io", io]);
        assert_eq!(written["through_page_cache"], is_cached, "{io}");
        assert_eq!(read["through_page_cache"], is_cached, "{io}");
        let store = scratch.store();
        let words = ["checkpoint", "read", store.to_str().unwrap(), "--io", io];
        let told = std::process::Command::new(env!("CARGO_BIN_EXE_ringfall"))
            .args(words)
            .output()
            .unwrap();
        let page = String::from_utf8(told.stdout).unwrap();
        assert_eq!(page.contains("page cache   --io buffered"), is_cached, "{page}");
        let told = page.lines().skip_while(|line| !line.starts_with("  page cache")).take(2);
        assert!(told.into_iter().all(|line| line.chars().count() <= 80), "{page}");
    }
}

#[test]
fn every_way_stores_the_same_bytes() {
    let (one, other) = (Scratch::new("stream"), Scratch::new("first"));
    done(&one, "write", &SMALL);
    done(&other, "write", &[&SMALL[..], &["--way", "generate-first", "--threads", "3"]].concat());
    for name in names(&one.store()) {
        let bytes = |scratch: &Scratch| std::fs::read(scratch.store().join(&name)).unwrap();
        assert!(bytes(&one) == bytes(&other), "{name}");
    }
}

#[test]
fn a_damaged_block_is_named() {
    let scratch = Scratch::new("damaged");
    done(&scratch, "write", &SMALL);
    let path = scratch.store().join("rank-00001-of-00003.ckpt");
    let file = std::fs::File::options().write(true).read(true).open(&path).unwrap();
    let at = (7 << 20) + 5 * 4096 + 77;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    file.sync_all().unwrap();
    let words = ["1 block of 4 KiB", "block 1797 of rank 1", "offset 7360512", "rank-00001"];
    assert_fails(&checkpoint(&scratch, "read", &[]), 1, &words);
    // The head of the block is whole.
    done(&scratch, "read", &["--verify", "sample"]);
    file.set_len(4096).unwrap();
    let words = ["rank-00001-of-00003.ckpt", "has 4096 bytes instead of"];
    assert_fails(&checkpoint(&scratch, "read", &[]), 1, &words);
    std::fs::remove_file(&path).unwrap();
    assert_fails(&checkpoint(&scratch, "read", &[]), 1, &["rank-00001-of-00003.ckpt is missing"]);
}

#[test]
fn what_is_no_checkpoint_is_told_from_one() {
    let scratch = Scratch::new("none");
    assert_fails(&checkpoint(&scratch, "read", &[]), 2, &["is not a directory"]);
    std::fs::create_dir(scratch.store()).unwrap();
    let words = ["there is no checkpoint in", "checkpoint.json is missing"];
    assert_fails(&checkpoint(&scratch, "read", &[]), 2, &words);
    let manifest = scratch.store().join("checkpoint.json");
    for (content, word) in [
        (&b"{}"[..], "describes no checkpoint"),
        (b"\xff\x00", "describes no checkpoint"),
        (b"{\"format\": \"x\"}", "describes no checkpoint"),
    ] {
        std::fs::write(&manifest, content).unwrap();
        assert_fails(&checkpoint(&scratch, "read", &[]), 2, &[word]);
        // Nothing of anybody else's is written over.
        assert_fails(&checkpoint(&scratch, "write", &SMALL), 2, &[word]);
    }
    std::fs::remove_file(&manifest).unwrap();
    std::fs::write(scratch.store().join("rank-00001-of-00003.ckpt"), "mine").unwrap();
    let words = ["rank-00001-of-00003.ckpt", "belongs to no checkpoint"];
    assert_fails(&checkpoint(&scratch, "write", &SMALL), 2, &words);
    assert_fails(
        &checkpoint(&scratch, "write", &[&SMALL[..], &["--overwrite"]].concat()),
        2,
        &words,
    );
}

#[test]
fn a_checkpoint_is_not_written_over_unless_that_is_wanted() {
    let scratch = Scratch::new("twice");
    done(&scratch, "write", &SMALL);
    let words = ["holds a checkpoint already", "--overwrite"];
    assert_fails(&checkpoint(&scratch, "write", &SMALL), 2, &words);
    let whole = done(&scratch, "write", &[&SMALL[..], &["--resume"]].concat());
    assert_eq!(
        (&whole["saves"][0]["bytes"], &whole["saves"][0]["found_bytes"]),
        (&0.into(), &(40 << 20).into())
    );
    let other = ["--size-gib", "0.01", "--chunk-mib", "1"];
    let words = ["is another one: 0.039 GiB (ranks: 3) instead of 0.010 GiB (ranks: 1)"];
    assert_fails(&checkpoint(&scratch, "write", &[&other[..], &["--resume"]].concat()), 2, &words);
    done(&scratch, "write", &[&other[..], &["--overwrite"]].concat());
    assert_eq!(names(&scratch.store()), ["checkpoint.json", "rank-00000-of-00001.ckpt"]);
}

/// Stopped by a signal or killed, a save leaves no file under its final name that is not whole, and
/// the next goes on with what is there.
#[test]
fn an_interrupted_save_goes_on_where_it_was() {
    for signal in [Signal::INT, Signal::KILL] {
        let scratch = Scratch::new("interrupted");
        let big = ["--size-gib", "2", "--ranks", "4", "--chunk-mib", "4", "--files-at-once", "2"];
        let child = spawn(command(&scratch, "write", &big));
        let is_begun = || {
            let part = scratch.store().join("rank-00000-of-00004.ckpt.part");
            let whole = scratch.store().join("rank-00000-of-00004.ckpt");
            part.exists() || whole.exists()
        };
        wait_until("the save has begun", is_begun);
        std::thread::sleep(std::time::Duration::from_millis(50));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = finish(child);
        let was_whole = ended.status.success();
        if signal == Signal::INT && !was_whole {
            assert_fails(&ended, 130, &["interrupted", "--resume"]);
        }
        if !was_whole {
            let words = ["holds an unfinished checkpoint", "--resume"];
            assert_fails(&checkpoint(&scratch, "write", &big), 2, &words);
            assert_fails(&checkpoint(&scratch, "read", &[]), 2, &["is not finished", "--resume"]);
        }
        for name in names(&scratch.store()).iter().filter(|name| name.ends_with(".ckpt")) {
            let length = std::fs::metadata(scratch.store().join(name)).unwrap().len();
            assert_eq!(length, 512 << 20, "{name} has its final name and is not whole");
        }
        let resumed = done(&scratch, "write", &[&big[..], &["--resume"]].concat());
        let save = &resumed["saves"][0];
        let moved = save["bytes"].as_u64().unwrap() + save["found_bytes"].as_u64().unwrap();
        assert_eq!(moved, 2 << 30, "{save}");
        assert!(!names(&scratch.store()).iter().any(|name| name.ends_with(".part")));
        let read = done(&scratch, "read", &[]);
        assert_eq!(read["restores"][0]["blocks_bad"], 0);
        assert_eq!(read["restores"][0]["bytes"], 2_u64 << 30);
    }
}

#[test]
fn a_training_job_saves_restores_and_cleans_up() {
    let scratch = Scratch::new("training");
    let more = ["--duration", "1", "--interval", "0.1", "--keep", "2"];
    let result = done(&scratch, "run", &[&SMALL[..], &more].concat());
    let (saves, restores) = (result["saves"].as_array(), result["restores"].as_array());
    let (saves, restores) = (saves.unwrap(), restores.unwrap());
    assert!(!saves.is_empty() && saves.len() == restores.len(), "{result}");
    assert!(restores.iter().all(|restore| restore["blocks_bad"] == 0));
    let training = &result["training"];
    assert!(training["computed_s"].as_f64().unwrap() <= training["elapsed_s"].as_f64().unwrap());
    assert_eq!(names(&scratch.store()), [""; 0]);
    done(&scratch, "run", &[&SMALL[..], &more, &["--leave-last", "--restore-every", "0"]].concat());
    let left = names(&scratch.store());
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(names(&scratch.store().join(&left[0])).contains(&"checkpoint.json".to_owned()));
}

/// Computing went on until the interval was over, and one more save began after the job's time.
#[test]
fn a_job_neither_computes_nor_begins_a_save_after_its_duration() {
    // An hour is longer than a test may take; the second save would begin at 1.5 s.
    for interval in ["3600", "0.75"] {
        let scratch = Scratch::new("training-duration");
        let more = ["--duration", "1", "--interval", interval];
        let result = done(&scratch, "run", &[&SMALL[..], &more].concat());
        assert_eq!(result["saves"].as_array().unwrap().len(), 1, "{interval}: {result}");
    }
}

/// Measurements were lost together with the file.
#[test]
fn a_result_that_can_t_be_written_is_shown() {
    let commands: [(&str, &[&str]); 3] = [
        ("write", &[]),
        ("run", &["--duration", "1", "--interval", "0"]),
        ("compare", &["--trials", "1"]),
    ];
    for (what, more) in commands {
        let scratch = Scratch::new("full-output");
        let full = ["--output", "/dev/full", "--json"];
        let ended = checkpoint(&scratch, what, &[&SMALL[..], more, &full].concat());
        let words = ["the result can't be written to /dev/full: No space left"];
        assert_fails(&ended, 1, &words);
        assert_fails(&ended, 1, &["checkpoint of 0.04 GiB, 3 ranks, a file for each rank"]);
        let shown: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_valid_as("checkpoint", &shown);
        assert!(!shown["saves"].as_array().unwrap().is_empty(), "{what}: {shown}");
    }
}

/// The time until its last save was given for all of it.
#[test]
fn an_interrupted_job_computed_no_longer_than_it_lasted() {
    let scratch = Scratch::new("training-interrupted");
    let more = ["--duration", "60", "--interval", "60", "--output", "o.json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["checkpoint", "run"]).arg(scratch.store()).args(SMALL).args(more);
    command.current_dir(scratch.file("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let result: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("o.json")).unwrap()).unwrap();
    let of = |key: &str| result["training"][key].as_f64().unwrap();
    let (computed_s, elapsed_s) = (of("computed_s"), of("elapsed_s"));
    assert!(computed_s > 0.5 && computed_s <= elapsed_s, "{computed_s} of {elapsed_s} s");
}

#[test]
fn an_interrupted_job_says_what_it_did_and_leaves_nothing() {
    let scratch = Scratch::new("job-interrupted");
    let more = ["--duration", "100", "--interval", "0.1", "--output", "result.json"];
    let child = spawn(command(&scratch, "run", &[&SMALL[..], &more].concat()));
    wait_until("the job has saved", || scratch.store().join("slot-0/checkpoint.json").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = finish(child);
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended));
    let result: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("result.json")).unwrap()).unwrap();
    assert_eq!(result["training"]["interrupted"], true);
    assert_eq!(names(&scratch.store()), [""; 0]);
}

/// It was told and kept as an interrupted one, without a word of why.
#[test]
fn a_job_that_fails_is_no_interrupted_one() {
    let scratch = Scratch::new("job-fails");
    std::fs::create_dir(scratch.store()).unwrap();
    // A file where the second save's directory is to be.
    std::fs::write(scratch.store().join("slot-0"), "theirs").unwrap();
    let more = ["--duration", "100", "--interval", "0", "--output", "result.json"];
    let ended = checkpoint(&scratch, "run", &[&SMALL[..], &more].concat());
    assert_fails(&ended, 1, &["; ended early", "note: the job ended early: ", "slot-0"]);
    assert!(!text(&ended).contains("interrupted"), "{}", text(&ended));
    let result: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("result.json")).unwrap()).unwrap();
    assert_valid_as("checkpoint", &result);
    assert_eq!(result["training"]["interrupted"], false);
    assert_eq!(result["saves"].as_array().map(Vec::len), Some(1), "{result}");
    let told = result["warnings"].to_string();
    assert!(told.contains("the job ended early: ") && told.contains("slot-0"), "{told}");
}

#[test]
fn an_asynchronous_save_goes_on_beside_training() {
    let scratch = Scratch::new("asynchronous");
    for way in ["stream", "generate-first"] {
        let more = ["--duration", "2", "--interval", "0.3", "--save-mode", "async", "--way", way];
        let result = done(&scratch, "run", &[&SMALL[..], &more].concat());
        assert_eq!(result["training"]["save_mode"], "async");
        let saves = result["saves"].as_array().unwrap();
        assert!(saves.len() > 1, "{result:#}");
        let number = |value: &Value| value.as_f64().unwrap();
        for (save, next) in saves.iter().zip(&saves[1..]) {
            assert_eq!(save["way"], way);
            // Training goes on before the save has ended, and the next one waits for its end.
            assert!(
                number(&next["began_s"]) >= number(&save["began_s"]) + number(&save["durable_s"])
            );
        }
        let restores = result["restores"].as_array().unwrap();
        assert_eq!(restores.len(), saves.len());
        assert!(restores.iter().all(|restore| restore["blocks_bad"] == 0), "{result:#}");
        let (computed, elapsed) =
            (&result["training"]["computed_s"], &result["training"]["elapsed_s"]);
        assert!(number(computed) <= number(elapsed), "{result:#}");
        assert_eq!(names(&scratch.store()), [""; 0]);
    }
}

#[test]
fn an_asynchronous_job_that_is_interrupted_cleans_up() {
    let scratch = Scratch::new("asynchronous-interrupted");
    let more = ["--duration", "100", "--interval", "0.1", "--output", "result.json"];
    let more = [&SMALL[..], &more, &["--save-mode", "async", "--keep", "2"]].concat();
    let child = spawn(command(&scratch, "run", &more));
    wait_until("the job has saved", || scratch.store().join("slot-0/checkpoint.json").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = finish(child);
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended));
    assert_eq!(names(&scratch.store()), [""; 0]);
}

#[test]
fn the_ways_are_compared_side_by_side_and_leave_nothing() {
    let scratch = Scratch::new("ways");
    let more = ["--size-gib", "0.25", "--chunk-mib", "2", "--trials", "2"];
    let result = done(&scratch, "compare", &more);
    let memory = |way: &str| {
        let saves = result["saves"].as_array().unwrap();
        let of_way = saves.iter().filter(|save| save["way"] == way);
        let bytes: Vec<u64> = of_way.map(|save| save["peak_rss_bytes"].as_u64().unwrap()).collect();
        assert_eq!(bytes.len(), 2, "{result}");
        bytes.into_iter().max().unwrap()
    };
    // 8 MiB of chunks, and 256 MiB of them.
    assert!(memory("stream") < 64 << 20, "{result}");
    assert!(memory("generate-first") > 256 << 20, "{result}");
    assert_eq!(names(&scratch.store()), [""; 0]);
}

#[test]
fn content_that_can_be_reduced_is_verified_as_strictly() {
    let scratch = Scratch::new("reducible");
    let ratios = ["--dedupe-ratio", "3", "--compress-ratio", "2"];
    done(&scratch, "write", &[&SMALL[..], &ratios].concat());
    done(&scratch, "read", &[]);
    let path = scratch.store().join("rank-00002-of-00003.ckpt");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    // Among the zeros that end a sector.
    file.write_all_at(&[1], 12_287).unwrap();
    file.sync_all().unwrap();
    assert_fails(&checkpoint(&scratch, "read", &[]), 1, &["block 2 of rank 2"]);
}

#[test]
fn what_does_not_fit_is_told_before_or_leaves_nothing_half_done() {
    let scratch = Scratch::new("space");
    let much = ["--size-gib", "1000000"];
    let words = ["has room for", "less than the checkpoint needs", "free space there"];
    assert_fails(&checkpoint(&scratch, "write", &much), 1, &words);
    let huge = [&much[..], &["--way", "generate-first"]].concat();
    assert_fails(&checkpoint(&scratch, "write", &huge), 2, &["takes as much memory"]);
    // A limit of file sizes is met where the space would end.
    let ringfall = command(&scratch, "write", &SMALL);
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$0\" \"$@\""]);
    limited.arg(ringfall.get_program()).args(ringfall.get_args()).current_dir(&scratch.path);
    let words = ["can't reserve 0.01 GiB for", "File too large", "ulimit -f"];
    assert_fails(&output(limited), 1, &words);
    assert!(!names(&scratch.store()).iter().any(|name| name.contains(".ckpt")));
}

#[test]
fn a_directory_without_permission_or_with_another_writer_is_told() {
    let scratch = Scratch::new("forbidden");
    std::fs::create_dir(scratch.store()).unwrap();
    std::fs::set_permissions(scratch.store(), PermissionsExt::from_mode(0o555)).unwrap();
    let mut forbidden = command(&scratch, "write", &SMALL);
    if rustix::process::getuid().is_root() {
        // Permissions mean nothing to root: run as nobody.
        forbidden.uid(65_534).gid(65_534);
        let binary = Path::new(env!("CARGO_BIN_EXE_ringfall"));
        let reachable = Command::new("true").uid(65_534).current_dir(&scratch.path).status();
        if reachable.is_err() || !binary.exists() {
            skipped("forbidden checkpoint", "nobody can't reach the tests' directory");
            return;
        }
    }
    assert_fails(&output(forbidden), 1, &["Permission denied", "check its owner and permissions"]);
    std::fs::set_permissions(scratch.store(), PermissionsExt::from_mode(0o755)).unwrap();
    let long = ["--size-gib", "1", "--duration", "100", "--interval", "0", "--restore-every", "0"];
    let mut other = spawn(command(&scratch, "run", &long));
    wait_until("the other saves", || scratch.store().join("slot-1").exists());
    let words = ["is in use by another ringfall", "wait for it to end"];
    assert_fails(&checkpoint(&scratch, "write", &SMALL), 1, &words);
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn flags_that_cannot_be_meant_are_told() {
    let scratch = Scratch::new("flags");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--model", "llama9"], &["--model \"llama9\" is not a known model", "--parameters"]),
        (&["--model", "llama3.1-8b", "--size-gib", "1"], &["--model", "--size-gib"]),
        (&["--size-gib", "0"], &["not a size in GiB"]),
        (&["--size-gib", "nan"], &["not a size in GiB"]),
        (&["--chunk-mib", "0"], &["--chunk-mib"]),
        (&["--dedupe-ratio", "0.5"], &["--dedupe-ratio 0.5 is out of bounds: 1 to 1000"]),
        (
            &["--parameters", "1e6", "--ranks", "8", "--tensor-parallel", "3"],
            &["--ranks 8 can't be divided into groups of --tensor-parallel 3"],
        ),
        (&["--resume", "--overwrite"], &["--resume", "--overwrite"]),
    ];
    for (more, words) in cases {
        assert_fails(&checkpoint(&scratch, "write", more), 2, words);
    }
    let list = checkpoint(&scratch, "write", &["--model", "list"]);
    assert!(text(&list).contains("llama3.1-405b") && list.status.success(), "{}", text(&list));
    assert!(!scratch.store().exists());
}

/// ZeRO's second stage: one rank saves the weights, all of them the optimizer's state.
#[test]
fn shards_are_those_of_the_job() {
    let scratch = Scratch::new("sharded");
    let job = ["--parameters", "4e6", "--ranks", "4", "--zero", "2", "--chunk-mib", "1"];
    let result = done(&scratch, "write", &job);
    assert!(result["total_bytes"].as_u64().unwrap() >= 56_000_000, "{result}");
    let lengths: Vec<u64> = (0..4)
        .map(|rank| scratch.store().join(format!("rank-{rank:05}-of-00004.ckpt")))
        .map(|path| std::fs::metadata(path).unwrap().len())
        .collect();
    let block = |bytes: u64| bytes.next_multiple_of(4096);
    assert_eq!(lengths, [20_000_000, 12_000_000, 12_000_000, 12_000_000].map(block));
    done(&scratch, "read", &[]);
}

/// They were told of --resume, which only `write` has.
#[test]
fn an_unfinished_save_of_a_job_or_a_comparison_is_begun_anew_with_overwrite() {
    for (what, place) in [("run", "slot-1"), ("compare", "compared")] {
        let scratch = Scratch::new("begun-anew");
        done(&scratch, "write", &SMALL);
        let unfinished = scratch.store().join(place);
        std::fs::create_dir(&unfinished).unwrap();
        std::fs::rename(
            scratch.store().join("checkpoint.json"),
            unfinished.join("checkpoint-unfinished.json"),
        )
        .unwrap();
        let more: &[&str] = match what {
            "run" => &["--duration", "1", "--interval", "0"],
            _ => &["--trials", "2"],
        };
        let more = [&SMALL[..], more].concat();
        let refused = checkpoint(&scratch, what, &more);
        assert_fails(&refused, 2, &["holds an unfinished checkpoint", "give --overwrite"]);
        assert!(!text(&refused).contains("--resume"), "{}", text(&refused));
        done(&scratch, what, &[&more[..], &["--overwrite"]].concat());
        assert!(!unfinished.exists(), "{what}");
    }
}
