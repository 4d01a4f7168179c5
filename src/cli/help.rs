//! Help of the program: its commands in groups, those that one starts with first.

use clap::Command;
use ringfall_report::show::prose::prose;

/// Groups of commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Start here", &["quick", "run", "saturate", "compare", "report", "discover"]),
    ("Plan", &["simulate", "sweep", "suite"]),
    ("Other", &["mlperf", "audit", "checkpoint", "datagen", "merge", "config", "schema"]),
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
            prose(&mut entry, &format!("  {name:<10}  "), gist, columns);
            page.push_str(&entry.replacen(name, &format!("{literal}{name}{literal:#}"), 1));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{page}\n{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    command.help_template(template)
}
