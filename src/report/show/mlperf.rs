//! A run of the MLPerf sequence on the terminal: what the harness's summary says of each option,
//! and what all ranks and trials come to together.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_foreign::mlperf::options::rule;
use ringfall_foreign::mlperf::published::{EXPECTATIONS_SOURCE, hold};
use ringfall_foreign::mlperf::summary::{Merged, OptionSummary, Summary};
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_model::document::LatencyMsMax;
use ringfall_model::metrics::Metric;

use super::prose::prose;

const WIDTH: usize = 80;

/// A run, and perhaps another to compare it with.
#[derive(Clone, Copy, Debug)]
pub struct MlperfRun<'a> {
    /// Directory of the run that is shown.
    pub path: &'a Path,
    /// Summary of the run.
    pub summary: &'a Summary,
    /// Another run to compare it with, its directory first; none when it stands alone.
    pub baseline: Option<(&'a Path, &'a Summary)>,
}

/// As people call an option.
pub(super) fn title(option: &OptionSummary) -> String {
    let details = &option.ringfall;
    let rule = rule(option.option).map_or(String::new(), |rule| rule.title.to_owned());
    match (&details.model, details.users) {
        (Some(model), Some(users)) => format!("{rule} (ran: {model}, {users} users a rank)"),
        _ => rule,
    }
}

/// A number of things: `1 rank`, `2 ranks`.
pub(super) fn counted(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// A figure to four digits; a dash where there is none.
pub(super) fn figure(value: Option<f64>) -> String {
    match value.filter(|value| value.is_finite()) {
        None => "–".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => {
            // Between −300 and 300 for any finite value that is not zero.
            let digits = value.abs().log10().floor() as i32;
            format!("{value:.*}", usize::try_from(3 - digits).unwrap_or(0).min(6))
        }
    }
}

/// Percentiles of an exactly merged histogram: P50, P95, P99, ms.
pub(super) fn percentiles(latency: Option<&LatencyMsMax>) -> [Option<f64>; 3] {
    latency.map_or([None; 3], |latency| {
        let all = &latency.percentiles;
        [all.p50.known(), all.p95.known(), all.p99.known()]
    })
}

/// A kind of latency: its title, and where it is.
pub(super) type LatencyRow = (&'static str, fn(&Merged) -> Option<&LatencyMsMax>);

/// The latencies that are shown.
pub(super) const LATENCIES: [LatencyRow; 6] = [
    ("request, storage I/O", |merged| merged.storage_io_ms.as_ref()),
    ("request, end to end", |merged| merged.end_to_end_ms.as_ref()),
    ("storage read, entry", |merged| merged.storage_read_ms.as_ref()),
    ("  of that, device", |merged| merged.storage_read_device_ms.as_ref()),
    ("storage write, entry", |merged| merged.storage_write_ms.as_ref()),
    ("  of that, device", |merged| merged.storage_write_device_ms.as_ref()),
];

/// The report of an MLPerf Storage run as text for a terminal.
#[must_use]
pub fn mlperf_text(run: &MlperfRun<'_>) -> String {
    let summary = run.summary;
    let mut page = String::new();
    let _infallible = writeln!(
        page,
        "{}\n{} on {}, {} of each option\n",
        terminal_path(run.path),
        counted(summary.total_ranks, "rank"),
        counted(summary.host_count, "host"),
        counted(summary.trials_per_option, "trial")
    );
    let _infallible = writeln!(
        page,
        "  {:<29}{:>10}{:>10}{:>12}{:>15}",
        "as the harness adds up", "read", "write", "tokens/s", "P95, request"
    );
    let _infallible =
        writeln!(page, "  {:<29}{:>10}{:>10}{:>12}{:>15}", "", "GiB/s", "GiB/s", "", "I/O, ms");
    for option in summary.options.values() {
        let _infallible = writeln!(
            page,
            "  {:<29}{:>10}{:>10}{:>12}{:>15}",
            format!("option {}", option.option),
            figure(Some(option.aggregated_read_bandwidth_gbps)),
            figure(Some(option.aggregated_write_bandwidth_gbps)),
            figure(Some(option.aggregated_avg_throughput_tokens_per_sec)),
            figure(Some(option.aggregated_p95_latency_ms))
        );
    }
    for option in summary.options.values() {
        exact(&mut page, option);
    }
    if let Some((path, baseline)) = run.baseline {
        compared(&mut page, path, summary, baseline);
    }
    page.push('\n');
    for (place, why) in &summary.trial_failures {
        prose(&mut page, &format!("  failed: {}: ", terminal(place)), why, WIDTH);
    }
    if let Some(departures) = summary.ringfall.departures.as_ref().filter(|all| !all.is_empty()) {
        prose(&mut page, "  not as the rules have it: ", &departures.join(", "), WIDTH);
    }
    prose(&mut page, "  note: ", &summary.ringfall.division, WIDTH);
    page
}

/// All ranks and trials of an option together.
fn exact(page: &mut String, option: &OptionSummary) {
    let _infallible = writeln!(page, "\noption {}: {}", option.option, terminal(&title(option)));
    let details = &option.ringfall;
    if let Some(merged) = &details.merged {
        let _infallible = writeln!(
            page,
            "  all ranks and trials: read {} GiB/s, write {} GiB/s, {} tokens/s",
            figure(merged.read_gib_per_s),
            figure(merged.write_gib_per_s),
            figure(merged.tokens_per_s)
        );
        let _infallible = writeln!(
            page,
            "  {:<29}{:>10}{:>10}{:>12}{:>15}",
            "latency, ms, merged exactly", "P50", "P95", "P99", "count"
        );
        for (title, pick) in LATENCIES {
            let latency = pick(merged);
            let [p50, p95, p99] = percentiles(latency).map(figure);
            let count = latency.and_then(|latency| latency.count.known()).unwrap_or(0);
            let _infallible = writeln!(page, "  {title:<29}{p50:>10}{p95:>10}{p99:>12}{count:>15}");
        }
    }
    if let Some(cv) = details.trials_cv {
        let _infallible =
            writeln!(page, "  tokens/s of the trials lie {:.1} % apart (CV)", cv * 100.0);
    }
    if !option.cpu_tier_ranks.is_empty() {
        let ranks = option.cpu_tier_ranks.len();
        let what = "results held no entry on storage at their end: the CPU tier held all";
        prose(page, "  note: ", &format!("{ranks} {what}"), WIDTH);
    }
    if option.partial_failure {
        let missing = option.missing_files.len();
        let _infallible = writeln!(page, "  {missing} results are missing");
    }
    if let Some(departures) = details.departures.as_ref().filter(|all| !all.is_empty()) {
        prose(page, "  not as the rules have it: ", &departures.join(", "), WIDTH);
    }
    for note in &details.notes {
        prose(page, "  note: ", note, WIDTH);
    }
}

/// Writes the ratios of both runs, beside those published of two systems.
fn compared(page: &mut String, path: &Path, summary: &Summary, baseline: &Summary) {
    let _infallible = writeln!(page, "\ncompared with {}", terminal_path(path));
    for held in hold(summary, baseline) {
        let title = Metric::by_key(held.expectation.metric).map_or("", |metric| metric.title);
        let ratio = held.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.2}×"));
        let _infallible = writeln!(
            page,
            "  option {}  {title:<34}{ratio:>8}  published: {:.2}×",
            held.option, held.expectation.ratio
        );
    }
    prose(page, "  published: ", EXPECTATIONS_SOURCE, WIDTH);
}
