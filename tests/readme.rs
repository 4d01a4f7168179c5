//! The README's promises that a test can hold.

#[test]
fn the_two_commands_are_there_and_ci_runs_the_tests_command() {
    let readme = include_str!("../README.md");
    let ci = include_str!("../.ci/run");
    for command in ["cargo run --release -- run", "cargo test --workspace"] {
        let line = readme.lines().any(|line| line.trim() == command);
        assert!(line, "{command} is not a line of the README");
    }
    assert!(ci.contains("cargo test --workspace"));
}

#[test]
fn every_flag_of_the_readme_is_a_flag_of_the_program() {
    let readme = include_str!("../README.md");
    let help = |command: &[&str]| {
        let mut ringfall = std::process::Command::new(env!("CARGO_BIN_EXE_ringfall"));
        let output = ringfall.args(command).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let help = [
        "run", "saturate", "simulate", "replay", "faults", "analyze", "compare", "merge", "report",
        "audit", "discover", "suite", "sweep",
    ]
    .map(|command| help(&[command]))
    .concat()
        + &["run", "shim", "report"].map(|command| help(&["mlperf", command])).concat()
        + &["write", "read", "run", "compare"].map(|what| help(&["checkpoint", what])).concat()
        + &["bench", "analyze", "write", "verify"].map(|what| help(&["datagen", what])).concat();
    let usage = readme.split("## How it compares").next().unwrap();
    let words = usage.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let flags: Vec<&str> = words
        .filter(|word| {
            word.strip_prefix("--").is_some_and(|name| !name.trim_matches('-').is_empty())
        })
        .collect();
    // Those of cargo, losetup, mpirun, srun and MLPerf Storage's harness.
    let others = [
        "--release",
        "--workspace",
        "--help",
        "--hosts",
        "--kvcache-bin-path",
        "--num-processes",
        "--direct-io",
        "--kill-on-bad-exit",
        "--mca",
        "--features",
        "--nodes",
        "--ntasks-per-node",
        "--cpus-per-task",
        "--no-default-features",
        "--exclusive",
        "--time",
    ];
    for flag in flags.iter().filter(|flag| !others.contains(flag)) {
        assert!(help.contains(*flag) || *flag == "--users", "{flag} is in the README only");
    }
    assert!(flags.len() > 10);
}

#[test]
fn a_bare_run_is_the_demonstration_that_the_readme_describes() {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_ringfall")).arg("config").output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    for line in ["num_users: 8", "duration: 30", "storage_capacity_gb: 4"] {
        assert!(page.lines().any(|l| l.starts_with(line)), "{line} is not in:\n{page}");
    }
}
