//! Refusals of a store, and checks that nothing of anybody else's is touched.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, copy_program, data_bytes, ended_well, finish, output, skipped, text,
    wait_until,
};

#[test]
fn a_directory_in_use_is_refused_and_the_other_run_is_not_disturbed() {
    let scratch = Scratch::new("in-use");
    let first = scratch.start(&["--duration", "4"]);
    wait_until("the first run has its data file", || data_bytes(&scratch.store()) > 0);
    let second = scratch.run(&["--output", "second.json"]);
    assert_fails(&second, 1, &["in use by another run", "--cache-dir"]);
    ended_well(finish(first));
}

#[test]
fn too_little_space_says_how_much_is_missing() {
    let scratch = Scratch::new("space");
    let words = ["has room for", "less than the", "--storage-capacity-gb"];
    let much = ["--storage-capacity-gb", "1000000"];
    let reserved = scratch.run(&[&much[..], &["--preallocate", "reserve"]].concat());
    assert_fails(&reserved, 1, &words);
    let strict = scratch.run(&[&much[..], &["--strict"]].concat());
    assert_fails(&strict, 2, &words);
    assert_fails(&strict, 2, &["--strict refuses"]);
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_storage_tier_that_may_be_smaller_is_and_says_so() {
    let scratch = Scratch::new("smaller");
    let output =
        ended_well(scratch.run(&["--storage-capacity-gb", "1000000", "--max-requests", "3"]));
    assert!(text(&output).contains("the storage tier holds"), "{}", text(&output));
    let ours = &scratch.json()["ringfall"];
    let shortage = &ours["shortages"][0];
    assert_eq!((&shortage["tier"], &shortage["since_s"]), (&"storage".into(), &Value::Null));
    assert_eq!(shortage["wanted_bytes"], 1_000_000_u64 << 30);
    assert_eq!(shortage["given_bytes"], ours["config"]["storage_capacity_bytes"]);
    assert!(ours["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "tier_lowered"));
}

/// A step that needs space and is refused, here by a limit of file sizes that is set while the run
/// goes on, lowers the limit of the tier; entries are evicted inside it, and nothing fails.
#[test]
fn a_step_that_is_refused_while_the_run_goes_on_lowers_the_tier() {
    let scratch = Scratch::new("lowered");
    let run = scratch.start(&["--duration", "4", "--shards", "2", "--verify", "full", "--details"]);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    let limit = Rlimit { current: Some(96 << 20), maximum: Some(96 << 20) };
    prlimit(Some(Pid::from_child(&run)), Resource::Fsize, limit).unwrap();
    let output = ended_well(finish(run));
    // The terminal breaks its lines.
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("instead of 512.0 MiB since"), "{said}");
    assert!(said.contains("because the limit of file sizes (ulimit -f) allows no more"), "{said}");
    let ours = &scratch.json()["ringfall"];
    let shortage = &ours["shortages"][0];
    assert_eq!(shortage["tier"], "storage");
    assert!(shortage["since_s"].is_number(), "{shortage}");
    // Halves of a step are tried: no more than the least one, 4 MiB a segment, is left out.
    let given = shortage["given_bytes"].as_u64().unwrap();
    assert!(given <= 96 << 20 && given > 88 << 20, "{given}");
    assert_eq!(ours["config"]["storage_capacity_bytes"], given);
    assert_eq!(ours["errors"]["by_kind"].as_array().map(Vec::len), Some(0), "{ours}");
    assert_eq!(ours["verify"]["blocks_bad"], 0);
    assert_eq!(scratch.leftovers(), [""; 0]);
}

/// It ended with all requests refused, and with the advice to raise the capacity.
#[test]
fn a_limit_of_file_sizes_is_named_before_anything_is_measured() {
    let scratch = Scratch::new("file-limit");
    let limited = |limit: &str, more: &[&str]| {
        let ringfall = scratch.run_command(more);
        let mut limited = Command::new("bash");
        limited.args(["-c", &format!("ulimit -f {limit}; exec \"$0\" \"$@\"")]);
        limited.arg(ringfall.get_program()).args(ringfall.get_args()).current_dir(&scratch.path);
        output(limited)
    };
    let words = ["too little", "raise the limit of file sizes (ulimit -f)"];
    assert_fails(&limited("1000", &[]), 1, &words);
    let words = ["may hold 19.5 MiB", "raise the limit of file sizes (ulimit -f)"];
    assert_fails(&limited("20000", &["--preallocate", "reserve"]), 1, &words);
    assert_eq!(scratch.leftovers(), [""; 0]);
    ended_well(limited("98304", &["--duration", "1"]));
    let shortage = &scratch.json()["ringfall"]["shortages"][0];
    assert_eq!(
        (&shortage["given_bytes"], &shortage["since_s"]),
        (&(96 << 20).into(), &Value::Null)
    );
    let told = scratch.json()["ringfall"]["warnings"].to_string();
    assert!(told.contains("the limit of file sizes (ulimit -f) allows no more"), "{told}");
}

/// Limits that left a run some threads, but none for its executors, ended it with a panic; those
/// that left none for io_uring had it say that the run was stopping.
#[test]
fn a_limit_of_threads_is_named_wherever_it_is_met() {
    if !rustix::process::getuid().is_root() {
        return skipped("a limit of threads", "it needs root, to have a user of its own");
    }
    // A user of whom nothing else runs, in a place that it can reach.
    let place = std::env::temp_dir().join(format!("ringfall-threads-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    let binary = place.join("ringfall");
    copy_program(&binary);
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml");
    std::fs::copy(configuration, place.join("small.yaml")).unwrap();
    let outputs: Vec<_> = (5..=12)
        .map(|limit| {
            let mut command = Command::new("bash");
            command.args(["-c", &format!("ulimit -u {limit}; exec \"$0\" \"$@\"")]).arg(&binary);
            command.args(["run", "--model", "tiny-1b", "--users", "4", "--duration", "1"]);
            command.args(["--cpu-mem-gb", "0", "--storage-capacity-gb", "0.2", "--shards", "2"]);
            command.args(["--generation-mode", "none", "--arrival", "closed"]);
            command.args(["--config", "small.yaml", "--cache-dir", "c", "--output", "o.json"]);
            command.current_dir(&place).uid(65_532).gid(65_532);
            output(command)
        })
        .collect();
    std::fs::remove_dir_all(&place).unwrap();
    for ended in &outputs {
        let said = text(ended);
        assert!(!said.contains("panicked") && !said.contains("was stopping"), "{said}");
        assert!(ended.status.success() || said.contains("ulimit -u"), "{said}");
    }
    assert_fails(&outputs[0], 1, &["no thread can be started", "ulimit -u"]);
}

#[test]
fn a_directory_without_permission_is_told() {
    let scratch = Scratch::new("read-only");
    let forbidden = scratch.file("forbidden");
    std::fs::create_dir(&forbidden).unwrap();
    std::fs::set_permissions(&forbidden, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut command;
    if rustix::process::getuid().is_root() {
        // Permissions mean nothing to root: run as nobody, from a place that nobody can reach.
        let reachable =
            std::env::temp_dir().join(format!("ringfall-nobody-{}", std::process::id()));
        std::fs::create_dir_all(&reachable).unwrap();
        let binary = reachable.join("ringfall");
        copy_program(&binary);
        let closed = reachable.join("closed");
        std::fs::create_dir_all(&closed).unwrap();
        let open = reachable.join("open");
        std::fs::create_dir_all(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
        command = Command::new(&binary);
        command.uid(65_534).gid(65_534).current_dir(&open);
        command.args(["run", "--duration", "1", "--output", "r.json"]);
        command.arg("--cache-dir").arg(&closed);
        let output = output(command);
        std::fs::remove_dir_all(&reachable).unwrap();
        assert_fails(&output, 1, &["Permission denied", "permissions"]);
    } else {
        let directory = forbidden.display().to_string();
        let output = scratch.run(&["--cache-dir", &directory]);
        assert_fails(&output, 1, &["Permission denied", "permissions"]);
    }
}

#[test]
fn a_locked_memory_limit_too_small_for_anything_is_told() {
    let scratch = Scratch::new("memlock");
    let ringfall = scratch.run_command(&[]);
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -l 64; exec \"$0\" \"$@\""]);
    limited.arg(ringfall.get_program()).args(ringfall.get_args()).current_dir(&scratch.path);
    assert_fails(&output(limited), 1, &["locked-memory limit is 64 KiB", "ulimit -l"]);
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_path_through_a_file_and_results_that_cannot_be_written_are_told() {
    let scratch = Scratch::new("paths");
    std::fs::write(scratch.file("plain"), b"theirs").unwrap();
    let through = scratch.file("plain").join("x").display().to_string();
    assert_fails(&scratch.run(&["--cache-dir", &through]), 1, &["Not a directory"]);
    let plain = scratch.file("plain").display().to_string();
    assert_fails(&scratch.run(&["--cache-dir", &plain]), 1, &["is not a directory"]);
    assert_fails(&scratch.run(&["--output", &through]), 1, &["can't be written", "--output"]);
    assert_eq!(std::fs::read(scratch.file("plain")).unwrap(), b"theirs");
}

#[test]
fn results_for_a_device_go_to_it_and_never_replace_it() {
    use std::os::unix::fs::FileTypeExt;
    let scratch = Scratch::new("device");
    // A link, so that even a faulty program could only replace the link.
    let full = scratch.file("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let output = scratch.run(&["--duration", "1", "--output", "full"]);
    assert_fails(&output, 1, &["can't be written", "No space left", "storage"]);
    assert!(std::fs::symlink_metadata(&full).unwrap().is_symlink());
    assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn files_beside_the_store_survive() {
    let scratch = Scratch::new("beside");
    std::fs::create_dir(scratch.store()).unwrap();
    let theirs = scratch.store().join("theirs.kv");
    std::fs::write(&theirs, b"theirs").unwrap();
    ended_well(scratch.run(&["--duration", "1"]));
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    let names: Vec<_> = std::fs::read_dir(scratch.store()).unwrap().collect();
    assert_eq!(names.len(), 1, "the run's own files are gone");
}

/// As in a container whose seccomp profile leaves io_uring out: Docker's answers with 1, Podman's
/// with 38, as a kernel without io_uring does.
#[test]
fn without_io_uring_a_run_says_why_and_what_to_do_before_it_writes_anything() {
    let scratch = Scratch::new("no-io-uring");
    let launcher = scratch.file("no_io_uring");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/no_io_uring.c");
    let built = Command::new("cc").arg("-o").arg(&launcher).arg(source).output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let run = scratch.run_command(&[]);
    let words = ["io_uring is forbidden here", "seccomp=unconfined", "io_uring_disabled=0"];
    for errno in ["1", "38"] {
        let mut forbidden = Command::new(&launcher);
        forbidden.arg(errno).arg(run.get_program()).args(run.get_args());
        forbidden.current_dir(&scratch.path).stdin(std::process::Stdio::null());
        assert_fails(&output(forbidden), 1, &words);
        assert_eq!(data_bytes(&scratch.store()), 0);
        assert!(!scratch.file("result.json").exists());
    }
}
