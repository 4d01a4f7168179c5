//! The table of an audited run, and an audit on an 80-column terminal: that table for each run,
//! then what was found, the heaviest first.

use std::fmt::Write as _;

use ringfall_foreign::audit::{Audit, Finding, GroupReport, Input, LeafReport, Level, Rate, Value};
use ringfall_host::counted;
use ringfall_host::escape::{terminal, terminal_path};

use super::prose::wrapped;
use super::table::{Medium, Table, UNKNOWN};

/// Findings, notes and skipped files that are printed unless all are asked for.
const FINDINGS_SHOWN: usize = 12;
const NOTES_SHOWN: usize = 4;
const SKIPPED_SHOWN: usize = 8;
/// Runs whose table is printed unless all are asked for.
const RUNS_SHOWN: usize = 24;

/// The page; `all`: every run, finding, note and input.
pub fn audit_page(audit: &Audit, all: bool) -> String {
    let mut page = String::new();
    let runs = if all { audit.runs.len() } else { RUNS_SHOWN };
    for run in audit.runs.iter().take(runs) {
        let _infallible = writeln!(page, "{}", terminal_path(&run.path));
        let lines = rates(run).lines();
        let _infallible = writeln!(page, "{}", lines[0]);
        for (group, lines) in run.groups.iter().zip(lines[1..].chunks(2)) {
            if !is_short(group) {
                let _infallible = writeln!(page, "  {}", terminal(&group.label));
            }
            let _infallible = writeln!(page, "{}", lines.join("\n"));
            if !group.targets.is_empty() {
                let met: u64 = group.targets.iter().map(|row| row.met).sum();
                let files: u64 = group.targets.iter().map(|row| row.files).sum();
                let text = format!("{}; targets met {met} of {files}", within_target(group));
                wrapped(&mut page, &format!("{:<15}within target: ", ""), &text);
            }
        }
        page.push('\n');
    }
    left(&mut page, audit.runs.len(), runs, "runs");
    list(&mut page, audit, all);
    footer(&mut page, audit, all);
    page
}

fn left(page: &mut String, count: usize, shown: usize, what: &str) {
    if count > shown {
        let left = count - shown;
        let _infallible = writeln!(page, "  … and {left} more {what} (--all-findings shows all)\n");
    }
}

/// Whether a group's label fits into the table's first column on a terminal.
fn is_short(group: &GroupReport) -> bool {
    terminal(&group.label).chars().count() <= 12
}

/// Share of each class's requests within its target.
fn within_target(group: &GroupReport) -> String {
    let told = group.targets.iter();
    let told = told.map(|row| format!("{} {:.1} %", row.class, row.compliance * 100.0));
    told.collect::<Vec<_>>().join(", ")
}

/// A direction of a group, and the group's rate in it.
type Direction<'a> = (&'a GroupReport, &'static str, Option<Rate>);

fn directions(group: &GroupReport) -> [Direction<'_>; 2] {
    [(group, "read", group.read), (group, "write", group.write)]
}

/// The rates of a run's groups, a row for reads and one for writes.
pub(super) fn rates(run: &LeafReport) -> Table {
    // What is said of the whole group stands in its first row.
    let first = |of: fn(&GroupReport) -> String| {
        move |(group, direction, _): Direction<'_>| match direction {
            "read" => of(group),
            _ => String::new(),
        }
    };
    let rate = |of: fn(Rate) -> String| {
        move |(.., rate): Direction<'_>| rate.map_or(UNKNOWN.to_owned(), of)
    };
    let has_models = run.groups.iter().any(|group| group.model.is_some() || group.users.is_some());
    let mut table = Table::of(run.groups.iter().flat_map(directions))
        .only(Medium::Terminal)
        .text("", first(|group| if is_short(group) { group.label.clone() } else { String::new() }))
        .only(Medium::Page)
        .text("option", first(|group| group.label.clone()));
    if has_models {
        table = table.text("model", first(model));
    }
    table
        .count("files", first(|group| format!("{} of {}", group.ranks_read, expected(group))))
        .everywhere()
        .text("", |(_, direction, _)| direction)
        .only(Medium::Terminal)
        .count("files", first(|group| format!("{}/{}", group.ranks_read, expected(group))))
        .everywhere()
        .count("reported, GiB/s", rate(|rate| number(rate.reported_gib_per_s)))
        .count("over real time", rate(range))
        .count("overstated", rate(|rate| percents(rate.overstatement())))
        .only(Medium::Page)
        .text("requests within target", first(within_target))
        .widths(&[12, 6, 7, 16, 16, 16])
        .done()
}

fn expected(group: &GroupReport) -> u64 {
    group.ranks_expected.max(group.ranks_read)
}

fn model(group: &GroupReport) -> String {
    let model = group.model.as_deref().unwrap_or_default();
    match &group.users {
        Some(users) => format!("{model}, {users} users"),
        None => model.to_owned(),
    }
}

/// A rate, GiB/s.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn range(rate: Rate) -> String {
    let [least, most] = [rate.at_least_gib_per_s, rate.at_most_gib_per_s];
    match (least.map(number), most.map(number)) {
        (Some(least), Some(most)) if least == most => most,
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (None, Some(most)) => format!("≤ {most}"),
        _ => "–".to_owned(),
    }
}

fn percents(bounds: (Option<f64>, Option<f64>)) -> String {
    // −0.0 of rounding is 0.
    let shown = |share: f64| format!("{:.1}", share.max(0.0) * 100.0);
    match (bounds.0.map(shown), bounds.1.map(shown)) {
        (Some(least), Some(most)) if least == most => format!("{least} %"),
        (Some(least), Some(most)) => format!("{least} to {most} %"),
        (Some(least), None) => format!("≥ {least} %"),
        _ => "–".to_owned(),
    }
}

fn list(page: &mut String, audit: &Audit, all: bool) {
    let (findings, notes): (Vec<&Finding>, Vec<&Finding>) =
        audit.findings.iter().partition(|finding| finding.level == Level::Finding);
    let several = audit.runs.len() > 1;
    for (title, found, few) in
        [("Findings", findings, FINDINGS_SHOWN), ("Notes", notes, NOTES_SHOWN)]
    {
        if found.is_empty() {
            continue;
        }
        let shown = if all { found.len() } else { few };
        let order = if title == "Findings" { ", the heaviest first" } else { "" };
        let _infallible = writeln!(page, "{title} ({}{order})", found.len());
        for (place, finding) in found.iter().take(shown).enumerate() {
            one(page, place + 1, finding, several, all);
        }
        left(page, found.len(), shown, &title.to_lowercase());
    }
}

fn one(page: &mut String, place: usize, finding: &Finding, several: bool, all: bool) {
    let head = format!("{place:>3}. ");
    wrapped(page, &head, &format!("{}.", finding.kind.name()));
    let indent = " ".repeat(head.len());
    if several {
        wrapped(page, &indent, &format!("In {}", finding.run.display()));
    }
    wrapped(page, &indent, &finding.sentence);
    if finding.level == Level::Finding || all {
        wrapped(page, &format!("{indent}Computed: "), &finding.formula);
        let weight = format!("{:.3}, {}", finding.weight, finding.weight_is);
        wrapped(page, &format!("{indent}Weight: "), &weight);
    }
    if all {
        for input in &finding.inputs {
            let (file, value) = (input.file.display(), value_of(input));
            let line = format!("{file}: {} = {}", input.key, value.trim_end());
            wrapped(page, &format!("{indent}- "), &line);
        }
    }
    page.push('\n');
}

/// Value of an input, with its unit.
pub(super) fn value_of(input: &Input) -> String {
    match &input.value {
        Value::Number(number) => format!("{number} {}", input.unit),
        Value::Text(text) => text.clone(),
    }
}

fn footer(page: &mut String, audit: &Audit, all: bool) {
    let read = &audit.read;
    wrapped(page, "Read      ", &what_was_read(audit));
    let others: Vec<String> = audit.passed_over.iter().map(ToString::to_string).collect();
    if !others.is_empty() {
        let text = format!("{}: no part of a run, and nothing of them was read", others.join(", "));
        wrapped(page, "Passed over ", &text);
    }
    let shown = if all { audit.skipped.len() } else { SKIPPED_SHOWN };
    for skipped in audit.skipped.iter().take(shown) {
        wrapped(page, "Skipped   ", &format!("{}: {}", skipped.path.display(), skipped.why));
    }
    if read.skipped > shown as u64 {
        let left = read.skipped - shown as u64;
        wrapped(page, "          ", &format!("… and {left} more"));
    }
}

/// `1 rank file, 2 logs; skipped none.` Kinds of file of which there were none are left out.
fn what_was_read(audit: &Audit) -> String {
    let read = &audit.read;
    let counts = [
        (read.rank_files, counted(read.rank_files, "rank file")),
        (read.summaries, counted(read.summaries, "summary")),
        (read.metadata, counted(read.metadata, "metadata file")),
        (read.logs, counted(read.logs, "log")),
        (read.iostat, counted(read.iostat, "iostat log")),
        (read.other_json, counted(read.other_json, "other JSON file")),
    ];
    let told = counts.into_iter().filter(|(count, _)| *count > 0).map(|(_, told)| told);
    let told = told.collect::<Vec<_>>().join(", ");
    let told = if told.is_empty() { "nothing" } else { &told };
    match read.skipped {
        0 if !audit.passed_over.is_empty() => format!("{told}."),
        0 => format!("{told}; skipped none."),
        skipped => format!("{told}; skipped {}.", counted(skipped, "file")),
    }
}
