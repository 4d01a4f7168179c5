//! The page of an audit: a table of runs, then each finding with its computation.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_foreign::audit::{Audit, Finding, GroupReport, LeafReport, Level, Value};
use ringfall_host::escape;

use super::STYLE;
use crate::show::audit::{number, percents, range};

/// Inputs of a finding that the page shows; the JSON has all.
const INPUTS_SHOWN: usize = 400;

/// Writes the page.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_audit_html(audit: &Audit, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(audit).as_bytes())
}

fn page(audit: &Audit) -> String {
    let paths: Vec<String> = audit.paths.iter().map(|path| shown(path)).collect();
    let read = &audit.read;
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>Audit</title><style>{STYLE}</style></head>\
         <body><main>\n<h1>Audit of results</h1><div class=\"sub\">{} · {} rank files, {} logs, {} \
         skipped</div>\n",
        paths.join(", "),
        read.rank_files,
        read.logs,
        read.skipped
    );
    html.push_str(
        "<p>Bytes that were counted until the last request had ended, divided by the time until \
         the stop signal, give a higher rate than there was. The bounds are from the slowest \
         request and from the log.</p>\n",
    );
    for run in &audit.runs {
        runs(&mut html, run);
    }
    for (title, level) in [("Findings", Level::Finding), ("Notes", Level::Note)] {
        let found: Vec<&Finding> = audit.findings.iter().filter(|f| f.level == level).collect();
        if !found.is_empty() {
            let _infallible = writeln!(html, "<h2>{title}</h2>");
            let numbered = (1..).zip(found);
            numbered.for_each(|(number, finding)| one(&mut html, number, finding));
        }
    }
    if !audit.skipped.is_empty() {
        html.push_str("<h2>Skipped</h2><ul class=\"notes\">");
        for skipped in &audit.skipped {
            let why = escape::html(&skipped.why);
            let _infallible = write!(html, "<li>{}: {why}</li>", shown(&skipped.path));
        }
        html.push_str("</ul>\n");
    }
    if !audit.passed_over.is_empty() {
        html.push_str("<h2>Passed over</h2><ul class=\"notes\">");
        for others in &audit.passed_over {
            let _infallible = write!(html, "<li>{}</li>", escape::html(&others.to_string()));
        }
        html.push_str("</ul>\n");
    }
    let _infallible = writeln!(
        html,
        "<footer>Made by ringfall {}.</footer></main></body></html>",
        audit.ringfall_version
    );
    html
}

fn shown(path: &Path) -> String {
    escape::html(&path.to_string_lossy())
}

fn runs(html: &mut String, run: &LeafReport) {
    let division = run.division.as_deref().map(|division| format!("{} · ", escape::html(division)));
    let has_models = run.groups.iter().any(|group| group.model.is_some() || group.users.is_some());
    let model = if has_models { "<th>model</th>" } else { "" };
    let _infallible = write!(
        html,
        "<h2>{}{}</h2><div class=\"wide\"><table><tr><th>option</th>{model}\
         <th class=\"n\">files</th><th></th><th class=\"n\">reported, GiB/s</th>\
         <th class=\"n\">over the real time</th><th class=\"n\">overstated</th>\
         <th>requests within target</th></tr>",
        division.unwrap_or_default(),
        shown(&run.path)
    );
    for group in &run.groups {
        rows(html, group, has_models);
    }
    html.push_str("</table></div>\n");
}

/// `has_models`: the table has a column for them.
fn rows(html: &mut String, group: &GroupReport, has_models: bool) {
    let targets: Vec<String> = group
        .targets
        .iter()
        .map(|row| format!("{} {:.1} %", row.class, row.compliance * 100.0))
        .collect();
    let model = group.model.as_deref().unwrap_or_default();
    let model = match &group.users {
        Some(users) => format!("{model}, {users} users"),
        None => model.to_owned(),
    };
    let expected = group.ranks_expected.max(group.ranks_read);
    let first = [
        escape::html(&group.label),
        escape::html(&model),
        format!("{} of {expected}", group.ranks_read),
        targets.join(", "),
    ];
    for (place, (direction, rate)) in
        [("read", group.read), ("write", group.write)].into_iter().enumerate()
    {
        let [label, model, files, targets] =
            if place == 0 { first.clone() } else { Default::default() };
        let model = if has_models { format!("<td>{model}</td>") } else { String::new() };
        let cells = rate.map_or(["–".to_owned(), "–".to_owned(), "–".to_owned()], |rate| {
            [number(rate.reported_gib_per_s), range(rate), percents(rate.overstatement())]
        });
        let _infallible = write!(
            html,
            "<tr><td>{label}</td>{model}<td class=\"n\">{files}</td><td>{direction}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td>{targets}</td></tr>",
            cells[0], cells[1], cells[2]
        );
    }
}

fn one(html: &mut String, number: usize, finding: &Finding) {
    let mut title = finding.kind.title().chars();
    let first = title.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let _infallible = write!(
        html,
        "<h3>{number}. {first}{}</h3><div class=\"sub\">{}</div><p class=\"said\">{}</p>\
         <details><summary>Computed: {}</summary>",
        title.as_str(),
        shown(&finding.run),
        escape::html(&finding.sentence),
        escape::html(&finding.formula)
    );
    let _infallible = write!(
        html,
        "<p>Weight {:.3}: {}.</p><div class=\"wide\"><table><tr><th>file</th><th>key</th>\
         <th class=\"n\">value</th></tr>",
        finding.weight, finding.weight_is
    );
    for input in finding.inputs.iter().take(INPUTS_SHOWN) {
        let value = match &input.value {
            Value::Number(number) => format!("{number} {}", input.unit),
            Value::Text(text) => escape::html(text),
        };
        let _infallible = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{value}</td></tr>",
            shown(&input.file),
            escape::html(&input.key)
        );
    }
    html.push_str("</table></div>");
    if finding.inputs.len() > INPUTS_SHOWN {
        let left = finding.inputs.len() - INPUTS_SHOWN;
        let _infallible = write!(html, "<p>… and {left} more, which the JSON has.</p>");
    }
    html.push_str("</details>\n");
}
