//! One file a subcommand.

pub mod analyze;
pub mod compare;
pub mod merge;
pub mod report;
pub mod run;

use std::fmt::Write as _;
use std::io::Write;

use serde_json::Value;

use crate::analysis::metrics::Metric;
use crate::analysis::spread::Spread;
use crate::exit::Exit;

/// Writes a page to standard output; a reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> anyhow::Result<Exit> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("standard output"))
        }
        _ => Ok(Exit::Done),
    }
}

/// A value to four significant digits, which is more than any run repeats.
fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Between −300 and 300 for any finite value that is not zero.
    let digits = value.abs().log10().floor() as i32;
    format!("{value:.*}", usize::try_from(3 - digits).unwrap_or(0).min(12))
}

fn percent(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.1} %", value * 100.0))
}

/// The usual metrics over several results, a line each, beside those of the merged one.
fn spread_page(spreads: &[Spread], merged: Option<&Value>) -> String {
    let mut page = String::new();
    let head = if merged.is_some() { "merged" } else { "" };
    let _infallible = writeln!(
        page,
        "  {:<34} {:>10} {:>10} {:>10} {:>8} {head:>10}",
        "", "median", "min", "max", "CV"
    );
    for spread in spreads {
        let Some(metric) = Metric::by_key(spread.metric).filter(|metric| metric.headline) else {
            continue;
        };
        let whole = merged.and_then(|merged| metric.of(merged)).map(figure).unwrap_or_default();
        let _infallible = writeln!(
            page,
            "  {:<34} {:>10} {:>10} {:>10} {:>8} {whole:>10}",
            metric.title,
            figure(spread.median),
            figure(spread.min),
            figure(spread.max),
            percent(spread.cv)
        );
    }
    page
}
