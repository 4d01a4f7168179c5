//! A run's progress on a terminal.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::terminal::{Terminal, page};
use crate::support::{Scratch, text};

/// Moves back to the first of five lines.
const UP: &str = "\r\x1b[4A";

/// A run that no launcher has started, as far as it knows.
fn run_command(scratch: &Scratch, more: &[&str]) -> Command {
    let mut command = scratch.run_command(more);
    command.args(["--ranks", "off"]).env("TERM", "xterm");
    for name in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    command
}

/// All that a run shows on a terminal of that size.
fn shown(rows: u16, columns: u16, command: Command) -> String {
    let terminal = Terminal::open();
    terminal.resize(rows, columns);
    let mut child = terminal.start(command);
    let shown = terminal.read_to_end();
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}

/// Checks what is left when a run is over: its lines, of which none is live, and each begins where
/// a line begins.
fn assert_clean(shown: &str) {
    let page = page(shown);
    let end = page.iter().position(|line| line.starts_with("Results over"));
    let end = end.unwrap_or_else(|| panic!("no results: {shown:?}"));
    for line in &page[..end] {
        assert!(!line.contains(['█', '▁']) && !line.contains("running,"), "{line:?}: {page:#?}");
        let date = line.find(" INFO ").map(|_| line.starts_with("20"));
        assert_ne!(date, Some(false), "{line:?}: {page:#?}");
    }
}

#[test]
fn five_lines_are_kept_on_a_terminal_and_taken_away() {
    let scratch = Scratch::new("five-lines");
    // Log lines are written between them.
    let shown = shown(24, 80, run_command(&scratch, &["--log-level", "info"]));
    let measuring = shown.split_inclusive(UP).filter(|frame| frame.contains("\rmeasuring  "));
    let last = measuring.last().unwrap_or_else(|| panic!("{shown:?}"));
    let at = last.rfind("\rmeasuring").unwrap();
    let lines = page(&last[at..]);
    let begins = ["measuring", "read ", "read P50", "6 users, ", "storage "];
    assert_eq!(lines.len(), begins.len(), "{lines:#?}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin) && line.chars().count() < 80, "{lines:#?}");
    }
    assert!(shown.contains(" INFO "), "{shown:?}");
    assert_clean(&shown);
}

#[test]
fn one_line_is_kept_where_it_is_wanted_or_the_terminal_has_no_room_for_more() {
    let scratch = Scratch::new("one-line");
    let mut dumb = run_command(&scratch, &[]);
    dumb.env("TERM", "dumb");
    let wanted = run_command(&scratch, &["--progress", "line"]);
    for (rows, columns, command) in [
        (24, 80, wanted),
        (24, 80, dumb),
        (24, 40, run_command(&scratch, &[])),
        (11, 80, run_command(&scratch, &[])),
    ] {
        let shown = shown(rows, columns, command);
        assert!(shown.contains("\rmeasuring"), "{rows} × {columns}: {shown:?}");
        assert!(!shown.contains(UP), "{rows} × {columns}: {shown:?}");
        assert_clean(&shown);
    }
}

#[test]
fn a_pipe_gets_neither_one_line_that_is_rewritten_nor_five() {
    let scratch = Scratch::new("piped-progress");
    let piped = scratch.run(&["--progress", "auto"]);
    let text = text(&piped);
    assert!(piped.status.success() && !text.contains(['\x1b', '\r']), "{text:?}");
}

#[test]
fn a_terminal_that_becomes_narrow_shows_one_line_and_nothing_of_the_five() {
    let scratch = Scratch::new("narrower");
    let mut terminal = Terminal::open();
    terminal.resize(24, 80);
    let child = &mut terminal.start(run_command(&scratch, &["--duration", "1000"]));
    terminal.read_until(UP);
    terminal.resize(24, 40);
    terminal.read_until("\rmeasuring 9");
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
    let shown = terminal.read_to_end();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{shown:?}");
    for line in shown.split('\r').filter(|line| line.starts_with("measuring 9")) {
        assert!(line.chars().count() <= 39 + "\x1b[J".len(), "{line:?}");
    }
    assert_clean(&shown);
}
