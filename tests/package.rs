//! Packages that `tools/package` makes of the program, installed and run where nothing else is.

use std::path::Path;
use std::process::Command;

use crate::support::{Scratch, output, skipped, text};
use crate::tidy::root;

#[test]
fn the_packages_install_and_measure() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("packages", "python3 is not installed");
    }
    let scratch = Scratch::new("package");
    let version = env!("CARGO_PKG_VERSION");
    for (kind, begin) in [
        ("archive", format!("ringfall-{version}-linux-")),
        ("wheel", format!("ringfall-{version}-py3-none-manylinux_2_")),
        ("deb", format!("ringfall_{version}_")),
        ("rpm", format!("ringfall-{version}-1.")),
        ("image", format!("ringfall-image-{version}-")),
    ] {
        let made = scratch.file(kind);
        let mut command = Command::new(root().join("tools/package"));
        command.args(["--program", env!("CARGO_BIN_EXE_ringfall"), "--only", kind, "--check"]);
        command.arg("--out").arg(&made).arg("--dir").arg(&scratch.path);
        command.stdin(std::process::Stdio::null());
        let packed = output(command);
        let told = text(&packed);
        assert_eq!(packed.status.code(), Some(0), "{told}");
        let skips = |line: &&str| line.contains("skipped: ");
        if let Some(why) = told.lines().find(skips) {
            skipped("packages", why);
            continue;
        }
        let last = told.lines().last().unwrap_or_default();
        match last.contains("not checked") {
            true => skipped("packages", last),
            false => assert!(last.ends_with(&format!("and ran: ringfall {version}")), "{told}"),
        }
        let mut names = std::fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().file_name());
        let name = names.next().unwrap().display().to_string();
        assert!(name.starts_with(&begin), "{name}");
        assert_eq!(names.next(), None, "one file a package");
        check_units(kind, &made.join(name));
    }
}

/// The packages of distributions have systemd's units, and nothing that would enable them.
fn check_units(kind: &str, package: &Path) {
    let lister = match kind {
        "deb" => ["dpkg-deb", "--contents"],
        "rpm" => ["rpm", "-qlp"],
        _ => return,
    };
    let Ok(listed) = Command::new(lister[0]).arg(lister[1]).arg(package).output() else {
        return skipped("units in packages", &format!("{} is not installed", lister[0]));
    };
    let listed = text(&listed);
    let of_systemd = listed.lines().filter_map(|line| line.split_once("/usr/lib/systemd/"));
    let mut units: Vec<&str> = of_systemd.map(|(_, unit)| unit).collect();
    units.retain(|unit| !unit.is_empty() && !unit.ends_with('/'));
    let nightly = ["system/ringfall-nightly.service", "system/ringfall-nightly.timer"];
    assert_eq!(units, nightly, "{listed}");
}
