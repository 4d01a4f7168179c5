//! The queue depth that was searched for, on the page.

use std::fmt::Write;

use ringfall_host::escape;
use ringfall_model::document::DepthStepReport;

use super::{Named, shown};

/// A section for the page; nothing where there was no search.
pub(super) fn section(html: &mut String, results: &[Named]) {
    let found = |named: &Named| named.document.ringfall.queue_depth.as_ref().is_some();
    if !results.iter().any(found) {
        return;
    }
    html.push_str(
        "<h2>Queue depth</h2><p>What the search tried during the warm-up, and what it chose for \
         the measurement: I/Os in flight at most, each shard on each drive.</p>",
    );
    for named in results {
        let Some(found) = named.document.ringfall.queue_depth.as_ref() else { continue };
        let name = if results.len() == 1 { "" } else { &*named.name };
        let _infallible = write!(
            html,
            "<p>{} <b>{}</b>: {}.</p><div class=\"wide\"><table><tr><th>depth</th>\
             <th>GiB/s</th><th>I/Os per s</th><th>in flight</th><th>P50, ms</th><th>P99, ms</th>\
             <th>wait for a place, ms</th></tr>",
            escape::html(name),
            found.chosen,
            escape::html(&found.text.to_string())
        );
        found.steps.iter().for_each(|step| row(html, step));
        html.push_str("</table></div>\n");
    }
}

fn row(html: &mut String, step: &DepthStepReport) {
    let _infallible = write!(html, "<tr><th>{}</th>", step.depth);
    let ms = [step.latency_p50_us, step.latency_p99_us, step.wait_mean_us]
        .map(|us| us.map(|us| us / 1e3));
    for value in [step.gib_per_s, step.per_s, step.in_flight].into_iter().chain(ms) {
        let value = value.known().map_or("–".to_owned(), shown);
        let _infallible = write!(html, "<td>{value}</td>");
    }
    html.push_str("</tr>");
}
