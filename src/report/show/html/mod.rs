//! The HTML report: one file that opens offline, of one result or several laid over each other.
//! Pictures are SVG made here; there is no script and nothing to fetch.

mod audit;
mod axis;
mod bars;
mod block;
mod chart;
mod compare;
mod depth;
mod gpu;
mod head;
mod heat;
mod markup;
mod mlperf;
mod page;
mod parts;
mod quick;
mod ranks;
mod roofline;
mod suite;
mod verdict;
mod what_if;

use std::path::Path;

#[cfg(test)]
use ringfall_model::Document;

use super::Named;
use super::table::{UNKNOWN, digits};
pub use audit::write_audit_html;
pub use mlperf::write_mlperf_html;
pub use quick::write_quick_html;
pub use roofline::write_roofline_html;
pub use suite::{SuiteSource, write_suite_html};
pub use what_if::write_what_if_html;

/// Writes the report of these results.
pub fn write_html(results: &[Named], path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page::page(results).as_bytes())
}

#[cfg(test)]
pub(super) fn page_of(results: &[Named]) -> String {
    page::page(results)
}

/// A number as people read it: three digits that count.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 99_999.5 => format!("{value:.2e}"),
        size if size >= 0.0995 => digits(value, 3),
        size if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// The same; a dash where it is unknown.
fn or_dash(value: Option<f64>) -> String {
    value.map_or(UNKNOWN.to_owned(), shown)
}

#[cfg(test)]
mod tests;
