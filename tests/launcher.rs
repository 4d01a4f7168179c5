//! Under a launcher of many processes, and on a terminal of its own.

use crate::support::Scratch;
use crate::support::terminal::Terminal;

/// Variables by which a launcher is known.
const LAUNCHERS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// Output of a run on a terminal.
fn on_a_terminal(scratch: &Scratch, variables: &[(&str, &str)]) -> String {
    let mut command = scratch.run_command(&["--ranks", "off"]);
    for name in LAUNCHERS.iter().chain(&["NO_COLOR", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"]) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).env("TERM", "xterm");
    let terminal = Terminal::open();
    let mut child = terminal.start(command);
    let shown = terminal.read_to_end();
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
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
