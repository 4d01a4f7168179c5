//! The page of a suite: its table, and what is to be said about each run.

use std::path::Path;

use super::markup::Html;
use crate::show::suite::{remarks, whole};
use crate::suite::SuiteTable;

/// Writes the page.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_suite_html(suite: &SuiteTable, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(suite).as_bytes())
}

fn page(suite: &SuiteTable) -> String {
    let mut html = Html::new("Suite", "Suite");
    let against = suite.baseline.as_ref().map(|path| format!(" · baseline: {}", path.display()));
    let host = suite.host.as_deref().unwrap_or_default();
    html.sub(&format!("{host}{}", against.unwrap_or_default()));
    html.table(&whole(suite));
    for row in &suite.rows {
        let remarks = remarks(row);
        if !remarks.is_empty() {
            html.heading(&row.name);
            html.paragraph(&row.title);
            html.notes(remarks.into_iter().map(|(head, text)| format!("{head}: {text}")));
        }
    }
    html.end(concat!("Made by ringfall ", env!("CARGO_PKG_VERSION"), "."))
}
