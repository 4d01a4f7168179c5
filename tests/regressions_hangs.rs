//! Runs that did not end, a test each, named after what held them up.

use std::fs::File;
#[cfg(feature = "objects")]
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action, tcflow};

use crate::support::terminal::Terminal;
use crate::support::{Scratch, assert_fails, data_bytes, finish, spawn, text, wait_until};

/// A terminal whose output was stopped (Ctrl-S).
fn stopped_terminal() -> Terminal {
    let terminal = Terminal::open();
    tcflow(&terminal.end, Action::OOff).unwrap();
    terminal
}

/// A run that writes to it.
fn start_on(terminal: &Terminal, scratch: &Scratch, more: &[&str]) -> Child {
    let mut command = scratch.run_command(more);
    command.args(["--ranks", "off"]);
    terminal.start(command)
}

#[test]
fn a_stopped_terminal_held_up_the_run() {
    for trials in ["1", "2"] {
        let scratch = Scratch::new("stopped-terminal");
        let terminal = stopped_terminal();
        let more = ["--duration", "1", "--trials", trials];
        let mut child = start_on(&terminal, &scratch, &more);
        wait_until("the results are written", || scratch.file("result.json").exists());
        let has_store = || scratch.leftovers().iter().any(|name| name == "store");
        wait_until("the data is deleted", || !has_store());
        // The program then waits until somebody reads the page.
        std::thread::sleep(Duration::from_secs(3));
        assert!(child.try_wait().unwrap().is_none());
        tcflow(&terminal.end, Action::OOn).unwrap();
        let shown = terminal.read_to_end();
        assert_eq!(finish(child).status.code(), Some(0));
        let (banner, page) = (shown.find("workload  tiny-1b"), shown.find("results      "));
        assert!(banner.is_some() && page > banner, "{shown}");
    }
}

#[test]
fn a_stopped_terminal_held_up_the_first_signal() {
    let scratch = Scratch::new("stopped-signal");
    let terminal = stopped_terminal();
    let child = start_on(&terminal, &scratch, &["--duration", "1000"]);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = finish(child);
    assert_eq!(ended.status.code(), Some(130));
    assert_eq!(scratch.json().pointer("/ringfall/window/interrupted"), Some(&true.into()));
    assert_eq!(scratch.leftovers(), [""; 0]);
}

/// `--output /dev/fd/N` waited for the terminal, and no signal but SIGKILL ended that.
#[test]
fn results_to_a_stopped_terminal_held_up_the_end() {
    let scratch = Scratch::new("stopped-output");
    let terminal = stopped_terminal();
    let mut command = scratch.run_command(&["--duration", "1", "--quiet"]);
    command.args(["--output", "/dev/stdout"]);
    command.stdout(terminal.end.try_clone().unwrap()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    // Long enough for it to wait for the terminal.
    std::thread::sleep(Duration::from_secs(4));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = finish(child);
    assert_fails(&ended, 130, &["can't be written to /dev/stdout", "nobody reads it"]);
    assert_eq!(scratch.leftovers(), [""; 0]);
}

/// It asked for an answer three times, a minute each, and no signal but SIGKILL ended it.
#[cfg(feature = "objects")]
#[test]
fn an_object_store_that_never_answers_held_up_the_first_signal() {
    use crate::objects::command;
    // The kernel accepts for it.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", server.local_addr().unwrap());
    let scratch = Scratch::new("silent-store");
    let run = ["run", "--model", "tiny-1b", "--cpu-mem-gb", "0", "--storage-capacity-gb", "0.5"];
    let sweep = ["saturate", "s3://bucket/silent"];
    for args in [&[&run[..], &["--cache-dir", "s3://bucket/silent"]].concat(), &sweep[..]] {
        let mut command = command(&scratch, args);
        command.args(["--object-endpoint", &endpoint, "--output", "result.json"]);
        let mut child = spawn(command);
        let mut told = String::new();
        let mut shown = BufReader::new(child.stderr.take().unwrap());
        while !told.contains("waiting for s3://bucket/silent to answer") {
            let read = shown.read_line(&mut told).unwrap();
            assert!(read > 0, "{told}");
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let ended = finish(child);
        assert_eq!(ended.status.code(), Some(130), "{told}{}", text(&ended));
    }
}

#[test]
fn no_file_that_is_read_first_is_waited_for_without_a_writer() {
    let scratch = Scratch::new("pipe-first");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, scratch.file("pipe"), FileType::Fifo, mode, 0).unwrap();
    let lines: [&[&str]; 4] = [
        &["simulate", "--device", "pipe"],
        // It was opened twice, and waited for twice.
        &["run", "--config", "pipe"],
        &["trace", "info", "pipe"],
        &["trace", "plan", "no-trace", "--device", "pipe"],
    ];
    let started = lines.map(|line| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(line).current_dir(&scratch.path);
        spawn(command)
    });
    for child in started {
        let ended = finish(child);
        assert_fails(&ended, 2, &["nobody has written for 5 s"]);
        let waits = text(&ended).matches("waiting for the writer of").count();
        assert_eq!(waits, 1, "{}", text(&ended));
    }
}

#[test]
fn a_configuration_in_a_pipe_is_read_once_though_it_is_wrong() {
    let scratch = Scratch::new("pipe-wrong");
    let path = scratch.file("config.yaml");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
    let own = path.clone();
    let writer = std::thread::spawn(move || {
        use std::io::Write as _;
        File::options().write(true).open(own).unwrap().write_all(b"no_such_key: 1\n").unwrap();
    });
    let ended = scratch.run(&["--config", path.to_str().unwrap()]);
    writer.join().unwrap();
    assert_fails(&ended, 2, &["no_such_key"]);
    assert!(!text(&ended).contains("waiting for the writer of"), "{}", text(&ended));
}
