//! Refusals of a store, and checks that nothing of anybody else's is touched.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, copy_program, data_bytes, finish, output, text, wait_until,
};

#[test]
fn system_directories_are_refused() {
    let scratch = Scratch::new("system");
    for directory in ["/", "/etc", "/usr/x", "/proc", "/sys", "/dev", "/boot", "/tmp/../etc"] {
        let output = scratch.run(&["--cache-dir", directory]);
        assert_fails(&output, 1, &["belongs to the system", "--cache-dir"]);
    }
}

#[test]
fn a_directory_in_use_is_refused_and_the_other_run_is_not_disturbed() {
    let scratch = Scratch::new("in-use");
    let first = scratch.start(&["--duration", "4"]);
    wait_until("the first run has its data file", || data_bytes(&scratch.store()) > 0);
    let second = scratch.run(&["--output", "second.json"]);
    assert_fails(&second, 1, &["in use by another run", "--cache-dir"]);
    let first = finish(first);
    assert_eq!(first.status.code(), Some(0), "{}", crate::support::text(&first));
}

#[test]
fn too_little_space_says_how_much_is_missing() {
    let scratch = Scratch::new("space");
    let words = ["has room for", "GiB less", "--storage-capacity-gb"];
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
    let output = scratch.run(&["--storage-capacity-gb", "1000000", "--max-requests", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("the storage tier holds"), "{}", text(&output));
    let ours = &scratch.json()["ringfall"];
    let shortage = &ours["shortages"][0];
    assert_eq!((&shortage["tier"], &shortage["since_s"]), (&"storage".into(), &Value::Null));
    assert_eq!(shortage["wanted_bytes"], 1_000_000_u64 << 30);
    assert_eq!(shortage["given_bytes"], ours["config"]["storage_capacity_bytes"]);
    assert!(ours["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "tier_lowered"));
}

/// A step that needs space and is refused by the file system, here by a limit of file sizes, lowers
/// the limit of the tier; entries are evicted inside it, and nothing fails.
#[test]
fn a_step_that_is_refused_while_the_run_goes_on_lowers_the_tier() {
    let scratch = Scratch::new("lowered");
    let ringfall = scratch.run_command(&["--duration", "4", "--shards", "2", "--verify", "full"]);
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 98304; exec \"$0\" \"$@\""]);
    limited.arg(ringfall.get_program()).args(ringfall.get_args()).current_dir(&scratch.path);
    let output = output(limited);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    // The terminal breaks its lines.
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("instead of 512.0 MiB since"), "{said}");
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

#[test]
fn a_full_file_system_is_told_and_leaves_nothing_behind() {
    let scratch = Scratch::new("full");
    // A file size limit is met where the space would end: while the file gets its space.
    let ringfall = scratch.run_command(&["--preallocate", "reserve"]);
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 20000; exec \"$0\" \"$@\""]);
    limited.arg(ringfall.get_program()).args(ringfall.get_args()).current_dir(&scratch.path);
    assert_fails(&output(limited), 1, &["ringfall.kv", "File too large", "free space"]);
    assert_eq!(scratch.leftovers(), [""; 0]);
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
    let output = scratch.run(&["--duration", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", crate::support::text(&output));
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    let names: Vec<_> = std::fs::read_dir(scratch.store()).unwrap().collect();
    assert_eq!(names.len(), 1, "the run's own files are gone");
}

/// As in a container whose seccomp profile leaves io_uring out, and on a kernel built without it.
#[test]
fn without_io_uring_a_run_says_why_and_what_to_do_before_it_writes_anything() {
    let scratch = Scratch::new("no-io-uring");
    let launcher = scratch.file("no_io_uring");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/no_io_uring.c");
    let built = Command::new("cc").arg("-o").arg(&launcher).arg(source).output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let run = scratch.run_command(&[]);
    for (errno, words) in [
        ("1", ["io_uring is forbidden here", "io_uring_disabled=0", "seccomp=unconfined"]),
        ("38", ["has no io_uring", "this kernel", "use Linux 6.1 or newer"]),
    ] {
        let mut forbidden = Command::new(&launcher);
        forbidden.arg(errno).arg(run.get_program()).args(run.get_args());
        forbidden.current_dir(&scratch.path).stdin(std::process::Stdio::null());
        assert_fails(&output(forbidden), 1, &words);
        assert_eq!(data_bytes(&scratch.store()), 0);
        assert!(!scratch.file("result.json").exists());
    }
}
