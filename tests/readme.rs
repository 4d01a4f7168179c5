//! The promises of the README, and of the pages that it points to, that a test can hold.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use ringfall::cli::Cli;

use super::tidy::root;

/// Pages for people: the README first, then those of every folder, each with its path.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join("README.md")];
    let folders = ["src", "engine", "workloads", "config", "tools", "benches", "tests"];
    open.extend(folders.map(|folder| root().join(folder)));
    while let Some(path) = open.pop() {
        if path.is_dir() && !path.ends_with("target") {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Texts in single backquotes outside the fenced blocks of a page.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split("```").step_by(2).flat_map(|part| part.split('`').skip(1).step_by(2))
}

#[test]
fn the_readme_is_a_front_page() {
    let lines = include_str!("../README.md").lines().count();
    assert!(lines <= 250, "{lines} lines: what is not for the first minutes goes to a room's page");
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let mut followed = 0;
    for (name, page) in pages() {
        let folder = root().join(&name).parent().map(Path::to_owned).unwrap();
        let ends = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in ends.filter(|link| !link.contains("://")) {
            followed += 1;
            assert!(folder.join(link).exists(), "{name} links to {link}, which is not there");
        }
    }
    assert!(followed >= 40, "only {followed} links");
}

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
pub fn refusal(command: &str) -> Option<clap::Error> {
    Cli::command().try_get_matches_from(command.split_whitespace()).err()
}

/// Whether a line, or what stands quoted in the text, is a command of this program.
fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("ringfall ") else { return false };
    // What the program prints first begins so too: its name and version.
    !rest.starts_with(|c: char| c.is_ascii_digit())
}

/// The commands of this program in the fenced blocks, each from its name on: without a path or a
/// launcher before it, without a remark or a redirection behind it, and without `...`, which stands
/// for flags that are left out.
fn fenced_commands(page: &str) -> Vec<String> {
    let is_subcommand =
        |word: &str| Cli::command().get_subcommands().any(|one| one.get_name() == word);
    let blocks = page.split("```").skip(1).step_by(2);
    let mut found = Vec::new();
    for line in blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let line = line.split(" # ").next().unwrap_or_default();
        let line = line.split(" > ").next().unwrap_or_default().trim();
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
fn every_command_in_a_block_of_a_page_is_understood() {
    let mut tried = 0;
    for (name, page) in pages() {
        for command in fenced_commands(&page) {
            tried += 1;
            if let Some(error) = refusal(&command) {
                panic!("{name}: {command}\n{error}");
            }
        }
    }
    // One that is not found is not tried: there are this many, so that a change of the pages' form
    // can't silence this test.
    assert!(tried >= 45, "only {tried} commands");
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
fn every_command_quoted_in_the_text_of_a_page_is_understood() {
    let pages = pages();
    let commands = pages
        .iter()
        .flat_map(|(name, page)| quoted(page).map(move |quoted| (name, quoted)))
        .filter(|(_, quoted)| is_command(quoted));
    let mut tried = 0;
    for (name, command) in commands {
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
            panic!("{name}: {command}\n{error}");
        }
    }
    assert!(tried >= 80, "only {tried} commands are quoted");
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
fn every_flag_of_a_page_is_a_flag_of_a_command() {
    // Of cargo and its tests, containers, fio, kubectl, mpirun, srun, systemctl, MLPerf Storage's
    // harness and the fault simulation.
    let of_others = "\
        --bench --benches --cap-add --cpus-per-task --direct-io --example --exclusive --features \
        --follow --for --hosts --iomem_align --kill-on-bad-exit --kvcache-bin-path --lib --mca \
        --no-default-features --nocapture --nodes --now --ntasks-per-node --num-processes \
        --release --security-opt --seeds --systemname --tests --time --timeout --user \
        --workspace";
    // Of the scripts in `tools`; the next test holds those of each command against its script.
    let of_tools = "\
        --check --dir --mb-per-s --of --only --ops --page --pairs --part --program --refill \
        --rounds --runs --seconds --shard --shared-buffers --target";
    let others: BTreeSet<&str> =
        [of_others, of_tools].iter().flat_map(|all| all.split(' ')).collect();
    let mut flags: BTreeSet<String> = ["--help".to_owned()].into();
    flags_of(&Cli::command(), &mut flags);
    let is_flag = |word: &&str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let mut named = 0;
    let mut unknown = BTreeSet::new();
    for (name, page) in pages() {
        let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
        for flag in words.filter(is_flag) {
            named += 1;
            if !others.contains(flag) && !flags.contains(flag) {
                unknown.insert(format!("{name}: {flag}"));
            }
        }
    }
    assert!(unknown.is_empty(), "flags of no command: {unknown:#?}");
    assert!(named > 500, "only {named} flags are named");
}

#[test]
fn every_tool_of_a_page_is_there_and_knows_its_flags() {
    let mut tried = 0;
    for (name, page) in pages() {
        let commands = quoted(&page).flat_map(|quoted| quoted.split(" -- "));
        let of_tools = commands.filter(|one| one.starts_with("tools/") && *one != "tools/");
        for command in of_tools {
            tried += 1;
            let words = command.split([' ', '[', ']', '=']);
            let tool = words.clone().next().unwrap();
            let script = std::fs::read_to_string(root().join(tool))
                .unwrap_or_else(|error| panic!("{name}: {tool}: {error}"));
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(script.contains(flag), "{name}: {flag} is no flag of {tool}");
            }
        }
    }
    assert!(tried >= 30, "only {tried} commands of tools");
}

/// It was 30 s of a small model, whose figures said nothing about a drive.
#[test]
fn a_bare_run_answers_for_the_drive_of_the_temporary_directory() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ringfall"));
    // Nothing can be made there: how it goes on is `quick`'s business.
    let output = command.arg("run").env("TMPDIR", "/proc").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let first = "no DIR is given: this answers for the drive of /proc; `ringfall quick";
    assert!(told.starts_with(first) && told.contains("give another DIR"), "{told}");
    assert_eq!(output.status.code(), Some(2), "{told}");
}
