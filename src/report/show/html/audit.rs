//! The page of an audit: a table of runs, then each finding with its computation.

use std::path::Path;

use ringfall_foreign::audit::{Audit, Finding, Level};

use super::markup::Html;
use crate::show::audit::{rates, value_of};
use crate::show::table::Table;

/// Inputs of a finding that the page shows; the JSON has all.
const INPUTS_SHOWN: usize = 400;

/// Writes an audit as a page.
pub fn write_audit_html(audit: &Audit, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(audit).as_bytes())
}

fn page(audit: &Audit) -> String {
    let paths: Vec<String> = audit.paths.iter().map(|path| path.display().to_string()).collect();
    let read = &audit.read;
    let mut html = Html::new("Audit", "Audit of results");
    html.sub(&format!(
        "{} · {} rank files, {} logs, {} skipped",
        paths.join(", "),
        read.rank_files,
        read.logs,
        read.skipped
    ));
    html.paragraph(
        "Bytes that were counted until the last request had ended, divided by the time until the \
         stop signal, give a higher rate than there was. The bounds are from the slowest request \
         and from the log.",
    );
    for run in &audit.runs {
        let division = run.division.as_ref().map(|division| format!("{division} · "));
        html.heading(&format!("{}{}", division.unwrap_or_default(), run.path.display()));
        html.table(&rates(run));
    }
    for (title, level) in [("Findings", Level::Finding), ("Notes", Level::Note)] {
        let found: Vec<&Finding> = audit.findings.iter().filter(|f| f.level == level).collect();
        if !found.is_empty() {
            html.heading(title);
            (1..).zip(found).for_each(|(number, finding)| one(&mut html, number, finding));
        }
    }
    if !audit.skipped.is_empty() {
        html.heading("Skipped");
        let told = audit.skipped.iter();
        html.notes(told.map(|skipped| format!("{}: {}", skipped.path.display(), skipped.why)));
    }
    if !audit.passed_over.is_empty() {
        html.heading("Passed over");
        html.notes(audit.passed_over.iter().map(ToString::to_string));
    }
    html.end(&format!("Made by ringfall {}.", audit.ringfall_version))
}

fn one(html: &mut Html, number: usize, finding: &Finding) {
    let mut title = finding.kind.name().chars();
    let first = title.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    html.subheading(&format!("{number}. {first}{}", title.as_str()));
    html.sub(&finding.run.display().to_string());
    html.paragraph_of("said", &finding.sentence);
    html.begin_details(&format!("Computed: {}", finding.formula));
    html.paragraph(&format!("Weight {:.3}: {}.", finding.weight, finding.weight_is));
    let inputs = Table::of(finding.inputs.iter().take(INPUTS_SHOWN))
        .text("file", |input| input.file.display().to_string())
        .text("key", |input| input.key.as_str())
        .count("value", value_of);
    html.table(&inputs.done());
    if finding.inputs.len() > INPUTS_SHOWN {
        let left = finding.inputs.len() - INPUTS_SHOWN;
        html.paragraph(&format!("… and {left} more, which the JSON has."));
    }
    html.end_details();
}
