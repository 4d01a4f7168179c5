//! What a store refuses, and that nothing of anybody else's is touched.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{Scratch, assert_fails, data_bytes, finish, output, wait_until};

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
    let output = scratch.run(&["--storage-capacity-gb", "1000000"]);
    assert_fails(&output, 1, &["has room for", "GiB less", "--storage-capacity-gb"]);
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_full_file_system_is_told_and_leaves_nothing_behind() {
    let scratch = Scratch::new("full");
    // A file size limit is met where the space would end: while the file gets its space.
    let ringfall = scratch.run_command(&[]);
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
        std::fs::copy(env!("CARGO_BIN_EXE_ringfall"), &binary).unwrap();
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
