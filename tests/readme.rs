//! The README's promises that a test can hold.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use ringfall::cli::Cli;

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

/// Error of `clap` for a command of the README, as if it were typed; none if it is accepted.
fn refusal(command: &str) -> Option<clap::Error> {
    Cli::command().try_get_matches_from(command.split_whitespace()).err()
}

/// Whether a line, or what stands quoted in the text, is a command of this program.
fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("ringfall ") else { return false };
    // What the program prints first begins so too: its name and version.
    !rest.starts_with(|c: char| c.is_ascii_digit())
}

/// The commands of this program in the fenced blocks, each from its name on: without a path or a
/// launcher before it, without a remark behind it, without `...` for flags that are left out.
fn fenced_commands(readme: &str) -> Vec<String> {
    let is_subcommand =
        |word: &str| Cli::command().get_subcommands().any(|one| one.get_name() == word);
    let blocks = readme.split("```").skip(1).step_by(2);
    let mut found = Vec::new();
    for line in blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let line = line.split(" # ").next().unwrap_or_default().trim();
        let line = line.strip_prefix("target/release/").unwrap_or(line);
        let command = if is_command(line) {
            Some(line)
        } else {
            // Behind a launcher, or in what the program prints as the next step.
            let names = line.match_indices(" ringfall ");
            let mut behind = names.map(|(place, _)| &line[place + 1..]);
            behind.find(|rest| rest.split_whitespace().nth(1).is_some_and(is_subcommand))
        };
        let words = command.into_iter().flat_map(str::split_whitespace);
        let command = words.filter(|word| *word != "...").collect::<Vec<_>>().join(" ");
        found.extend(Some(command).filter(|command| !command.is_empty()));
    }
    found
}

#[test]
fn every_command_in_a_block_of_the_readme_is_understood() {
    let commands = fenced_commands(include_str!("../README.md"));
    for command in &commands {
        if let Some(error) = refusal(command) {
            panic!("{command}\n{error}");
        }
    }
    // One that is not found is not tried: there are this many, so that a change of the README's
    // form can't silence this test.
    assert!(commands.len() >= 28, "only {} commands: {commands:#?}", commands.len());
}

#[test]
fn a_wrong_flag_in_a_block_is_found_wherever_it_stands() {
    let block = "```\nringfall 0.1.0  seed 1\nmpirun -n 2 ringfall run --model tiny-1b \\\n  \
                 --no-such-flag 1\n```\ntext\n```\n  next   ringfall report a --outputt b\n\
                 target/release/ringfall nothing   # a remark\n```\n";
    let commands = fenced_commands(block);
    let expected = [
        "ringfall run --model tiny-1b --no-such-flag 1",
        "ringfall report a --outputt b",
        "ringfall nothing",
    ];
    assert_eq!(commands, expected);
    assert!(commands.iter().all(|command| refusal(command).is_some()));
}

#[test]
fn every_command_quoted_in_the_text_of_the_readme_is_understood() {
    let readme = include_str!("../README.md");
    let text = readme.split("```").step_by(2);
    let quoted = text.flat_map(|part| part.split('`').skip(1).step_by(2));
    let mut tried = 0;
    for command in quoted.filter(|quoted| is_command(quoted)) {
        tried += 1;
        let command = command.trim_end_matches("...");
        // A sentence about a flag leaves out the rest of the command.
        let is_left_out = |error: &clap::Error| {
            matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::DisplayHelp
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            )
        };
        if let Some(error) = refusal(command).filter(|error| !is_left_out(error)) {
            panic!("{command}\n{error}");
        }
    }
    assert!(tried >= 30, "only {tried} commands are quoted");
}

/// Long flags of a command and of those below it, other names included.
fn flags_of(command: &clap::Command, flags: &mut BTreeSet<String>) {
    for argument in command.get_arguments() {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        let names = argument.get_long().into_iter().chain(aliases);
        flags.extend(names.map(|name| format!("--{name}")));
    }
    for one in command.get_subcommands() {
        flags_of(one, flags);
    }
}

#[test]
fn every_flag_of_the_readme_is_a_flag_of_a_command() {
    let readme = include_str!("../README.md");
    // Of cargo, fio, mpirun, srun and MLPerf Storage's harness.
    let of_others = [
        "--cpus-per-task",
        "--direct-io",
        "--exclusive",
        "--features",
        "--hosts",
        "--iomem_align",
        "--kill-on-bad-exit",
        "--kvcache-bin-path",
        "--mca",
        "--no-default-features",
        "--nodes",
        "--ntasks-per-node",
        "--num-processes",
        "--release",
        "--systemname",
        "--time",
        "--workspace",
    ];
    // Of the scripts in `tools`, whose commands stand in the table of comparisons.
    let of_tools = ["--blocks", "--depths", "--dir", "--mb-per-s", "--ops", "--pairs"];
    let mut flags: BTreeSet<String> = ["--help".to_owned()].into();
    flags_of(&Cli::command(), &mut flags);
    let words = readme.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let is_flag = |word: &&str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let mut named = 0;
    for flag in words.filter(is_flag) {
        named += 1;
        let is_known = of_others.contains(&flag) || of_tools.contains(&flag);
        assert!(is_known || flags.contains(flag), "{flag} is a flag of no command");
    }
    assert!(named > 100, "only {named} flags are named");
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
