//! The terminal's table of latencies, and that with the requests that had not finished.

use std::fmt::Write as _;

use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_model::document::{QuantileMs, RequestsReport};
use ringfall_model::{Document, RunResult, is_without_drive};

use super::gpu;
use super::terminal::Style;

/// Nanoseconds as ms, or nothing to tell.
fn ms(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| short_ms(ns as f64 / 1e6))
}

/// Milliseconds, with as many decimals as say something.
pub(super) fn short_ms(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 1000.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

/// A row of the table; none of a histogram in which nothing was recorded.
pub(super) fn latency_row(text: &mut String, name: &str, histogram: &Histogram) {
    if histogram.count() == 0 {
        return;
    }
    let q = |quantile| ms(histogram.quantile_ns(quantile));
    let _infallible = writeln!(
        text,
        "  {name:<21}{:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        histogram.count(),
        histogram.mean_ns().map_or("-".to_owned(), |ns| short_ms(ns / 1e6)),
        q(0.5),
        q(0.95),
        q(0.99),
        ms(histogram.max_ns()),
    );
}

/// The table of latencies. Where there is no drive, what the tiers took is what the program took to
/// work it out: nobody's latency, and left out.
pub(super) fn latencies(
    text: &mut String,
    style: Style,
    result: &RunResult,
    document: &Document,
) -> std::fmt::Result {
    let title = format!(
        "  {:<21}{:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "latency, ms", "count", "mean", "P50", "P95", "P99", "max"
    );
    writeln!(text, "{}", style.bold(&title))?;
    if !is_without_drive(result) {
        of_the_tiers(text, result);
    }
    latency_row(text, "request, end to end", &result.requests.end_to_end_all());
    for (name, class) in
        ["  interactive", "  responsive", "  batch"].iter().zip(&result.requests.end_to_end)
    {
        latency_row(text, name, class);
    }
    unfinished(text, style, document.ringfall.requests.as_ref())
}

fn of_the_tiers(text: &mut String, result: &RunResult) {
    let engine = &result.engine;
    let storage = engine.tier(Tier::Storage);
    latency_row(text, "storage read, entry", &storage.read.total);
    latency_row(text, "  of that, device", &storage.read.device);
    latency_row(text, "storage write, entry", &storage.write.total);
    latency_row(text, "  of that, device", &storage.write.device);
    latency_row(text, "single I/O, read", &engine.io_read.latency);
    latency_row(text, "single I/O, write", &engine.io_write.latency);
    gpu::latency_rows(text, engine.tier(Tier::Gpu), result.gpu.as_ref());
    latency_row(text, "CPU tier read, entry", &engine.tier(Tier::Cpu).read.total);
    latency_row(text, "CPU tier write, entry", &engine.tier(Tier::Cpu).write.total);
    latency_row(text, "load of a context", &result.requests.load);
    latency_row(text, "request, storage I/O", &result.requests.storage_io);
}

/// Latencies with the requests taken into account that had not finished; nothing without any.
fn unfinished(
    text: &mut String,
    style: Style,
    requests: Option<&RequestsReport>,
) -> std::fmt::Result {
    let Some(requests) = requests.filter(|requests| requests.all.unfinished > 0) else {
        return Ok(());
    };
    let title = format!(
        "  {:<24}{:>9} {:>9} {:>9} {:>9} {:>9}",
        "with unfinished, ms", "finished", "unfin.", "P50", "P95", "P99"
    );
    writeln!(text, "{}", style.bold(&title))?;
    let told = |known: &Option<QuantileMs>| {
        known.as_ref().map_or("-".to_owned(), |known| known.told(short_ms))
    };
    for (name, all) in requests.rows() {
        let (p50, p95, p99) = (told(&all.p50), told(&all.p95), told(&all.p99));
        let (finished, unfinished) = (all.finished, all.unfinished);
        let name = match name {
            "all" => "all requests, estimated".to_owned(),
            class => format!("  {class}"),
        };
        if finished + unfinished > 0 {
            writeln!(text, "  {name:<24}{finished:>9} {unfinished:>9} {p50:>9} {p95:>9} {p99:>9}")?;
        }
    }
    Ok(())
}
