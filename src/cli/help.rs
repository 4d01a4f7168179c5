//! Help of the program: its commands in groups, those that one starts with first; and that of a
//! command whose flags stand in groups, of which `--help=GROUP` shows one.

use std::ffi::OsString;

use clap::{Arg, Command};
use ringfall_report::show::prose::prose;

/// Groups of commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Start here", &["quick", "run", "saturate", "compare", "report", "discover"]),
    ("Plan", &["layouts", "trace", "simulate", "sweep", "suite"]),
    (
        "Other",
        &["mlperf", "audit", "checkpoint", "datagen", "config", "schema", "completions", "man"],
    ),
];

/// The program with a help that lists its commands in groups, so many columns wide.
pub(super) fn in_groups(command: Command, columns: usize) -> Command {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut page = String::new();
    for (heading, names) in GROUPS {
        page.push_str(&format!("\n{header}{heading}:{header:#}\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            // The rest is in the command's own help.
            let gist = about.split([':', ';']).next().unwrap_or_default();
            let mut entry = String::new();
            prose(&mut entry, &format!("  {name:<11}  "), gist, columns);
            page.push_str(&entry.replacen(name, &format!("{literal}{name}{literal:#}"), 1));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{page}\n{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    command.help_template(template).mut_subcommands(with_groups_named)
}

/// The headings that a command's flags stand below, in the order of its help.
fn headings(command: &Command) -> Vec<String> {
    let mut headings: Vec<String> = Vec::new();
    for heading in command.get_arguments().filter_map(Arg::get_help_heading) {
        if headings.iter().all(|known| known != heading) {
            headings.push(heading.to_owned());
        }
    }
    headings
}

/// The headings as `--help=GROUP` takes them.
fn names(headings: &[String]) -> String {
    headings.iter().map(|heading| heading.to_lowercase()).collect::<Vec<_>>().join(", ")
}

/// The command with a help that ends with the names of its groups, where it has several.
fn with_groups_named(command: Command) -> Command {
    let headings = headings(&command);
    if headings.len() < 2 {
        return command;
    }
    let own = command.get_after_help().map(|own| format!("{own}\n\n")).unwrap_or_default();
    let end = format!(
        "{own}`ringfall {} --help=GROUP` explains one group of flags alone: {}",
        command.get_name(),
        names(&headings)
    );
    command.after_help(end)
}

/// Turns `--help=GROUP` among the arguments, after the command's name, into `--help`, and hides
/// that command's other flags. The beginning of a group's name is enough.
///
/// # Errors
/// There is no such group: a sentence.
pub(super) fn of_one_group(command: Command, args: &mut [OsString]) -> Result<Command, String> {
    let [_, name, flags @ ..] = args else { return Ok(command) };
    let name = name.to_string_lossy();
    let Some(own) = command.find_subcommand(&*name) else { return Ok(command) };
    let mut flags = flags.iter_mut().take_while(|arg| arg.as_os_str() != "--");
    let asked = flags.find_map(|arg| {
        let group = arg.to_str()?.strip_prefix("--help=")?.to_lowercase();
        *arg = "--help".into();
        Some(group)
    });
    let Some(asked) = asked else { return Ok(command) };
    let headings = headings(own);
    let is_it = |heading: &&String| heading.to_lowercase().starts_with(&asked);
    let mut found = headings.iter().filter(is_it);
    match (found.next(), found.next()) {
        (Some(heading), None) => Ok(command.mut_subcommand(&*name, |own| {
            let own = own.help_template("{all-args}{after-help}");
            own.mut_args(|arg| {
                let is_shown = arg.get_help_heading().is_some_and(|of_arg| of_arg == heading);
                if is_shown { arg } else { arg.hide(true) }
            })
        })),
        _ if headings.is_empty() => {
            Err(format!("--help={asked}: the flags of `ringfall {name}` stand in no groups"))
        }
        _ => Err(format!(
            "--help={asked}: give one of the groups of `ringfall {name}`: {}",
            names(&headings)
        )),
    }
}
