//! The page of a suite: its table, and what is to be said about each run.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_host::escape;

use super::STYLE;
use crate::show::suite::remarks;
use crate::suite::{FIGURES, Row, Table, Verdict};

/// Names that are told apart at a glance are not broken.
const ONE_LINE: &str = " style=\"white-space: nowrap\"";

/// Writes the page.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_suite_html(table: &Table, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(table).as_bytes())
}

fn page(table: &Table) -> String {
    let host = table.host.as_deref().map(escape::html).unwrap_or_default();
    let against = table
        .baseline
        .as_ref()
        .map(|path| format!(" · baseline: {}", escape::html(&path.to_string_lossy())));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>Suite</title><style>{STYLE}</style></head>\
         <body><main>\n<h1>Suite</h1><div class=\"sub\">{host}{}</div>\n<div class=\"wide\"><table>\
         <tr><th>run</th><th>verdict</th><th class=\"n\">criteria met</th>",
        against.unwrap_or_default()
    );
    for (_, title, _) in FIGURES {
        let _infallible = write!(html, "<th class=\"n\">{}</th>", escape::html(title));
    }
    html.push_str("<th class=\"n\">dropped</th></tr>\n");
    table.rows.iter().for_each(|row| line(&mut html, row));
    html.push_str("</table></div>\n");
    for row in &table.rows {
        about(&mut html, row);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _infallible =
        writeln!(html, "<footer>Made by ringfall {version}.</footer></main></body></html>");
    html
}

fn line(html: &mut String, row: &Row) {
    let class = match row.verdict {
        Verdict::Pass => " class=\"good\"",
        Verdict::Fail | Verdict::Error => " class=\"bad\"",
        Verdict::NoData | Verdict::Impossible | Verdict::NotRun => "",
    };
    let criteria = row.criteria.map_or("–".to_owned(), |(met, all)| format!("{met} of {all}"));
    let (title, name) = (escape::html(&row.title), escape::html(&row.name));
    let _infallible = write!(
        html,
        "<tr><td title=\"{title}\"{ONE_LINE}>{name}</td><td{class}{ONE_LINE}>{}</td>\
         <td class=\"n\">{criteria}</td>",
        row.verdict.name()
    );
    for (value, (.., digits)) in row.figures.iter().zip(FIGURES) {
        let text = value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
        let _infallible = write!(html, "<td class=\"n\">{text}</td>");
    }
    let dropped = row.dropped_entries.map_or("–".to_owned(), |count| count.to_string());
    let _infallible = writeln!(html, "<td class=\"n\">{dropped}</td></tr>");
}

fn about(html: &mut String, row: &Row) {
    let lines = remarks(row);
    if lines.is_empty() {
        return;
    }
    let (name, title) = (escape::html(&row.name), escape::html(&row.title));
    let _infallible = write!(html, "<h2>{name}</h2><p>{title}</p><ul class=\"notes\">");
    for (head, text) in lines {
        let _infallible = write!(html, "<li>{head}: {}</li>", escape::html(&text));
    }
    html.push_str("</ul>\n");
}
