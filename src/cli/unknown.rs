//! Complaints about flags that the command they were typed for does not have.

use std::ffi::OsString;

use clap::{Arg, Command};
use ringfall_config::nearest::nearest;

/// Complaint about an unknown flag: it suggests flags of the command that was typed, or else names
/// the command that has this flag; none where neither is known.
pub(super) fn complaint(typed: &str, program: &Command, args: &[OsString]) -> Option<String> {
    let name = typed.strip_prefix("--")?.split('=').next()?.replace('_', "-");
    let (mut command, mut path) = (program, program.get_name().to_owned());
    for word in args.iter().skip(1) {
        let Some(below) = command.find_subcommand(word) else { break };
        command = below;
        path = format!("{path} {}", below.get_name());
    }
    let meant = suggested(&name, command);
    if !meant.is_empty() {
        let meant = meant.join(" or ");
        return Some(format!(
            "unknown flag {typed}; did you mean {meant}? (`{path} --help` lists all)"
        ));
    }
    let owner = owner(&name, program, program.get_name())?;
    Some(format!(
        "--{name} is a flag of `{owner}`, and `{path}` does not take it; `{path} --help` lists \
         what it takes"
    ))
}

/// Flags of the command that may be meant: those that begin like that, else the one that is spelt
/// most alike, else those that have it as a word, as --cache-dir has `dir`.
fn suggested(name: &str, command: &Command) -> Vec<String> {
    let flags_with = |is_it: &dyn Fn(&str) -> bool| -> Vec<String> {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let meant = shown.filter(|arg| names(arg).any(is_it));
        meant.filter_map(Arg::get_long).map(|flag| format!("--{flag}")).collect()
    };
    let begun = flags_with(&|known| !name.is_empty() && known.starts_with(name));
    if !begun.is_empty() {
        return begun;
    }
    match nearest(name, command.get_arguments().flat_map(names)) {
        Some(near) => flags_with(&|known| known == near),
        None => flags_with(&|known| known.split('-').any(|word| word == name)),
    }
}

/// The first command with a flag of that name, as it is typed.
fn owner(name: &str, command: &Command, path: &str) -> Option<String> {
    command.get_subcommands().filter(|below| !below.is_hide_set()).find_map(|below| {
        let path = format!("{path} {}", below.get_name());
        let has_it = below.get_arguments().flat_map(names).any(|known| known == name);
        if has_it { Some(path) } else { owner(name, below, &path) }
    })
}

/// Long names of an argument, without their dashes.
fn names(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default())
}
