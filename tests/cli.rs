//! Mistyped command lines.

use std::process::{Command, Stdio};

use crate::support::{Scratch, assert_fails, ended_well, finish, output, spawn_to, text};

fn ringfall(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(args);
    output(command)
}

#[test]
fn wrong_flags_are_told_with_the_remedy() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "--num-usrs", "5"], &["unknown flag --num-usrs; did you mean --num-users?"]),
        (&["run", "--users", "0"], &["--num-users 0 is out of bounds: 1 to 100000"]),
        (&["run", "--users", "many"], &["invalid value 'many' for '--num-users <N>'"]),
        (
            &["run", "--config", "/no/such/file.yaml"],
            &["--config /no/such/file.yaml: No such file or directory"],
        ),
        (&["saturate", "/mnt/a", "--cache-dir", "/mnt/b"], &["name the place once"]),
        (&["run", "--duration", "5 parsecs"], &["not a time such as 90, 90s, 5m or 1h"]),
        (&["nonsense"], &["unrecognized subcommand 'nonsense'"]),
    ];
    for (args, words) in cases {
        assert_fails(&ringfall(args), 2, words);
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for (args, word) in [
        (&["--help"][..], "Usage: ringfall <COMMAND>"),
        (&["--help"], "Start here:"),
        (&["run", "-h"], "--num-users <N>"),
        (&["run", "--help"], "--object-endpoint <URL,...>"),
        (&["--version"], concat!("ringfall ", env!("CARGO_PKG_VERSION"))),
    ] {
        let output = ringfall(args);
        assert_eq!(output.status.code(), Some(0));
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains(word), "{args:?}: {told}");
    }
}

/// Help, a suite's plan and the table of a sweep were lost, with status 0.
#[test]
fn standard_output_that_can_t_be_written_is_told_once() {
    let scratch = Scratch::new("full-stdout");
    let device = concat!("--device=", env!("CARGO_MANIFEST_DIR"), "/config/devices/fast-nvme.yaml");
    let small = [device, "--model=tiny-1b", "--duration=5"];
    let simulate = [&["simulate"][..], &small, &["--output=s.json"]].concat();
    let sweep = [&["sweep", "--vary=num-users=1,2", "--results=r"][..], &small].concat();
    for args in [
        &["--help"][..],
        &["help", "run"],
        &["run", "--help"],
        &["--version"],
        &["config"],
        &["suite", "--dry-run", "-c", "store"],
        &simulate[..],
        &sweep[..],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(args).current_dir(&scratch.path).stdin(Stdio::null());
        let ended = finish(spawn_to(command, full.into()));
        assert_fails(&ended, 1, &["error: standard output: No space left on device"]);
        let told = text(&ended);
        assert_eq!(told.matches("No space left").count(), 1, "{args:?}: {told}");
        assert!(!told.contains("lines left out"), "{args:?}: {told}");
    }
}

#[test]
fn every_command_has_completions_and_a_man_page() {
    let help = String::from_utf8(ringfall(&["--help"]).stdout).unwrap();
    // Those that the help lists, each indented by two.
    let listed = |line: &&str| line.starts_with("  ") && !line.trim_start().starts_with('-');
    let words = help.lines().filter(listed).filter_map(|line| {
        let word = line.get(2..)?.split(' ').next()?;
        (!word.is_empty()).then_some(word)
    });
    let commands: Vec<&str> = words.collect();
    assert!(commands.contains(&"quick") && commands.contains(&"man"), "{commands:?}");
    // A script is longer than what a pipe holds until it is read.
    let printed =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ringfall")).args(args).output().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let printed = ended_well(printed(&["completions", shell]));
        let script = String::from_utf8(printed.stdout).unwrap();
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}: {script}");
        assert!(script.contains("storage-capacity-gb"), "{shell}: {script}");
    }
    let scratch = Scratch::new("man");
    let directory = scratch.file("share/man1");
    ended_well(ringfall(&["man", &directory.display().to_string()]));
    for command in commands {
        let page = directory.join(format!("ringfall-{command}.1"));
        let page = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(page.contains(&format!(".TH ringfall-{command} 1")), "{command}: {page}");
    }
    // Commands below others have pages, too; hidden ones have none.
    assert!(directory.join("ringfall-checkpoint-write.1").exists());
    assert!(!directory.join("ringfall-replay.1").exists());
    let page = String::from_utf8(printed(&["man"]).stdout).unwrap();
    assert_eq!(page, std::fs::read_to_string(directory.join("ringfall.1")).unwrap());
    let forbidden = ringfall(&["man", "/proc/no-such-directory"]);
    assert_fails(&forbidden, 1, &["man pages can't be written to /proc/no-such-directory"]);
    assert_fails(&ringfall(&["completions", "dos"]), 2, &["'dos'", "bash"]);
}

#[test]
fn the_seed_is_fixed_unless_one_is_drawn_and_the_result_says_which() {
    let printed = |args: &[&str]| String::from_utf8(ringfall(args).stdout).unwrap();
    assert!(printed(&["config"]).contains("\nseed: 42\n"));
    assert!(printed(&["config", "--seed", "random"]).contains("\nseed: random  # now "));
    // The directory is an argument here, and sizes and times have units.
    let scratch = Scratch::new("seed");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["run", "./store", "--model", "tiny-1b", "--users", "2", "--max-requests", "2"]);
    command.args(["--duration", "20s", "--cpu-mem-gb", "0", "--storage-capacity-gb", "512MiB"]);
    command.args(["--generation-mode", "none", "--seed", "random", "--output", "result.json"]);
    command.args(["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml")]);
    command.current_dir(&scratch.path).stdin(Stdio::null());
    let ran = ended_well(output(command));
    let seed = scratch.json()["seed"].as_u64().unwrap();
    assert!(text(&ran).contains(&format!("seed {seed}\n")), "{seed}: {}", text(&ran));
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    // script(1) gives the run a terminal; where it is missing this can't be tried.
    let scratch = Scratch::new("colour");
    let on_a_terminal = |no_colour: &str| {
        let line = format!(
            "{} run --model tiny-1b --users 2 --max-requests 2 --duration 20 --cpu-mem-gb 0 \
             --storage-capacity-gb 0.5 --generation-mode none --config {}/tests/small.yaml \
             --cache-dir store --output result.json",
            env!("CARGO_BIN_EXE_ringfall"),
            env!("CARGO_MANIFEST_DIR"),
        );
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        command.env("NO_COLOR", no_colour).env("TERM", "xterm").env_remove("RUST_LOG");
        command.current_dir(&scratch.path).stdin(Stdio::null());
        output(command)
    };
    if Command::new("script").arg("--version").output().is_err() {
        return crate::support::skipped("colours", "script(1) is not installed");
    }
    // Escapes that colour end in "m"; those that clear the progress line don't.
    let is_coloured = |told: &str| {
        told.split("\u{1b}[").skip(1).any(|rest| {
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
        })
    };
    let (wanted, refused) = (on_a_terminal(""), on_a_terminal("1"));
    for ended in [&wanted, &refused] {
        assert_eq!(ended.status.code(), Some(0), "{}", text(ended));
    }
    assert!(is_coloured(&text(&wanted)), "{}", text(&wanted));
    assert!(!is_coloured(&text(&refused)), "{}", text(&refused));
    // And none of it where there is no terminal.
    let plain = scratch.run(&["--max-requests", "2", "--duration", "20"]);
    assert!(!text(&plain).contains('\u{1b}'), "{}", text(&plain));
}
