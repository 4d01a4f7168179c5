//! Under a launcher of many processes, and on a terminal of its own.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::Scratch;

/// Variables by which a launcher is known.
const LAUNCHERS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// Output of a run on a terminal.
fn on_a_terminal(scratch: &Scratch, variables: &[(&str, &str)]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let terminal = || -> OwnedFd { rustix::fs::open(&*name, flags, Mode::empty()).unwrap() };
    let mut command = scratch.run_command(&["--ranks", "off"]);
    for name in LAUNCHERS.iter().chain(&["NO_COLOR", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"]) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).env("TERM", "xterm");
    command.stdout(Stdio::from(terminal())).stderr(Stdio::from(terminal()));
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    let mut master = std::fs::File::from(master);
    // When the last of its ends is closed, reading from the terminal fails.
    while let Ok(length @ 1..) = master.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
    }
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&shown));
    // The terminal itself begins each line in the first column.
    String::from_utf8(shown).unwrap().replace("\r\n", "\n")
}

#[test]
fn under_a_launcher_lines_are_plain_even_on_a_terminal() {
    let scratch = Scratch::new("launcher");
    let shown = on_a_terminal(&scratch, &[]);
    assert!(shown.contains('\x1b') && shown.contains('\r'), "{shown:?}");
    for variables in [
        &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")][..],
        &[("PMI_RANK", "0"), ("PMI_SIZE", "2")],
        &[("PMIX_RANK", "3")],
        &[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")],
    ] {
        let shown = on_a_terminal(&scratch, variables);
        assert!(!shown.contains(['\x1b', '\r']), "{variables:?}: {shown:?}");
        assert!(shown.contains("Results over"), "{variables:?}: {shown:?}");
    }
}
