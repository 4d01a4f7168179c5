//! The queue depth that was searched for, on the page.

use ringfall_model::document::DepthStepReport;
use ringfall_model::figures::figure::Fact;

use super::markup::Html;
use super::{Named, shown};
use crate::show::table::Table;

/// A section for the page; nothing where there was no search.
pub(super) fn section(html: &mut Html, results: &[Named]) {
    let found = |named: &Named| named.document.ringfall.queue_depth.as_ref().is_some();
    if !results.iter().any(found) {
        return;
    }
    html.heading("Queue depth");
    html.paragraph(
        "What the search tried during the warm-up, and what it chose for the measurement: I/Os in \
         flight at most, each shard on each drive.",
    );
    for named in results {
        let Some(found) = named.document.ringfall.queue_depth.as_ref() else { continue };
        let name = if results.len() == 1 { "" } else { &*named.name };
        html.paragraph(&format!("{name} {}: {}.", found.chosen, found.text));
        html.table(&steps(&found.steps));
    }
}

fn steps(steps: &[DepthStepReport]) -> Table {
    let ms = |us: Fact<f64>| us.known().map(|us| us / 1e3);
    Table::of(steps)
        .text("depth", |step| step.depth.to_string())
        .number("GiB/s", shown, |step| step.gib_per_s.known())
        .number("I/Os per s", shown, |step| step.per_s.known())
        .number("in flight", shown, |step| step.in_flight.known())
        .number("P50, ms", shown, |step| ms(step.latency_p50_us))
        .number("P99, ms", shown, |step| ms(step.latency_p99_us))
        .number("wait for a place, ms", shown, |step| ms(step.wait_mean_us))
        .done()
}
