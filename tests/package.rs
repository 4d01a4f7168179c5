//! Packages that `tools/package` makes of the program, installed and run where nothing else is.

use std::process::Command;

use crate::support::{Scratch, output, skipped, text};
use crate::tidy::root;

#[test]
fn the_wheel_and_the_archive_install_and_measure() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("packages", "python3 is not installed");
    }
    let scratch = Scratch::new("package");
    let version = env!("CARGO_PKG_VERSION");
    for (kind, begin) in [("archive", "linux-"), ("wheel", "py3-none-manylinux_2_")] {
        let made = scratch.file(kind);
        let mut command = Command::new(root().join("tools/package"));
        command.args(["--program", env!("CARGO_BIN_EXE_ringfall"), "--only", kind, "--check"]);
        command.arg("--out").arg(&made).arg("--dir").arg(&scratch.path);
        command.stdin(std::process::Stdio::null());
        let packed = output(command);
        let told = text(&packed);
        assert_eq!(packed.status.code(), Some(0), "{told}");
        let last = told.lines().last().unwrap_or_default();
        match last.contains("not checked") {
            true => skipped("packages", last),
            false => assert!(last.ends_with(&format!("and ran: ringfall {version}")), "{told}"),
        }
        let mut names = std::fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().file_name());
        let name = names.next().unwrap().display().to_string();
        assert!(name.starts_with(&format!("ringfall-{version}-{begin}")), "{name}");
        assert_eq!(names.next(), None, "one file a package");
    }
}
