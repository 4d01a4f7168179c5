//! A run of the MLPerf sequence on the terminal: what the harness's summary says of each option,
//! and what all ranks and trials come to together.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_foreign::mlperf::options::rule;
use ringfall_foreign::mlperf::published::{EXPECTATIONS_SOURCE, Held, hold};
use ringfall_foreign::mlperf::summary::{Merged, OptionSummary, Summary};
use ringfall_host::counted;
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_model::metrics::Metric;

use super::prose::wrapped;
use super::table::{Medium, Table, UNKNOWN, figure, times};

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

/// A figure to four digits; a dash where there is none.
fn told(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(UNKNOWN.to_owned(), figure)
}

/// The options as the harness adds them up.
pub(super) fn overview(summary: &Summary) -> Table {
    Table::of(summary.options.values())
        .only(Medium::Terminal)
        .text("as the harness adds up", |option| format!("option {}", option.option))
        .only(Medium::Page)
        .text("option", |option| format!("{}: {}", option.option, title(option)))
        .everywhere()
        .number("read, GiB/s", figure, |option| option.aggregated_read_bandwidth_gbps)
        .number("write, GiB/s", figure, |option| option.aggregated_write_bandwidth_gbps)
        .number("tokens/s", figure, |option| option.aggregated_avg_throughput_tokens_per_sec)
        .only(Medium::Page)
        .number("storage tokens/s", figure, |option| {
            option.aggregated_storage_throughput_tokens_per_sec
        })
        .everywhere()
        .number("request I/O P95, ms", figure, |option| option.aggregated_p95_latency_ms)
        .only(Medium::Page)
        .number("entry read P95, ms", figure, |option| option.aggregated_storage_read_p95_ms)
        .number("of that, device", figure, |option| option.aggregated_device_read_p95_ms)
        .count("results missing", |option| option.missing_files.len())
        .done()
}

pub(super) fn latencies(merged: &Merged) -> Table {
    let rows = [
        ("request, storage I/O", &merged.storage_io_ms),
        ("request, end to end", &merged.end_to_end_ms),
        ("storage read, entry", &merged.storage_read_ms),
        ("  of that, device", &merged.storage_read_device_ms),
        ("storage write, entry", &merged.storage_write_ms),
        ("  of that, device", &merged.storage_write_device_ms),
    ];
    Table::of(rows.map(|(title, latency)| (title, latency.as_ref())))
        .text("latency, ms, merged exactly", |(title, _)| title)
        .number("P50", figure, |(_, latency)| latency?.percentiles.p50.known())
        .number("P95", figure, |(_, latency)| latency?.percentiles.p95.known())
        .number("P99", figure, |(_, latency)| latency?.percentiles.p99.known())
        .count("count", |(_, latency)| {
            latency.and_then(|latency| latency.count.known()).unwrap_or(0)
        })
        .done()
}

/// The ratios of two runs, beside those published of two systems.
pub(super) fn ratios(all: &[Held]) -> Table {
    Table::of(all)
        .text("option", |held| held.option)
        .text("figure to go by", |held| Metric::title_of(held.expectation.metric))
        .only(Medium::Page)
        .number("this", figure, |held| held.values[0])
        .number("other", figure, |held| held.values[1])
        .everywhere()
        .number("this ÷ other", times, Held::ratio)
        .number("fast ÷ slow, published", times, |held| held.expectation.ratio)
        .done()
}

/// The report of an MLPerf Storage run as text for a terminal.
pub fn mlperf_text(run: &MlperfRun<'_>) -> String {
    let summary = run.summary;
    let mut page = String::new();
    let _infallible = writeln!(
        page,
        "{}\n{} on {}, {} of each option\n",
        terminal_path(run.path),
        counted(summary.total_ranks.into(), "rank"),
        counted(summary.host_count.into(), "host"),
        counted(summary.trials_per_option.into(), "trial")
    );
    page.push_str(&overview(summary).page());
    for option in summary.options.values() {
        exact(&mut page, option);
    }
    if let Some((path, baseline)) = run.baseline {
        compared(&mut page, path, summary, baseline);
    }
    page.push('\n');
    for (place, why) in &summary.trial_failures {
        wrapped(&mut page, &format!("  failed: {}: ", terminal(place)), why);
    }
    if let Some(departures) = summary.ringfall.departures.as_ref().filter(|all| !all.is_empty()) {
        wrapped(&mut page, "  not as the rules have it: ", &departures.join(", "));
    }
    wrapped(&mut page, "  note: ", &summary.ringfall.division);
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
            told(merged.read_gib_per_s),
            told(merged.write_gib_per_s),
            told(merged.tokens_per_s)
        );
        page.push_str(&latencies(merged).page());
    }
    if let Some(cv) = details.trials_cv {
        let _infallible =
            writeln!(page, "  tokens/s of the trials lie {:.1} % apart (CV)", cv * 100.0);
    }
    if !option.cpu_tier_ranks.is_empty() {
        let ranks = option.cpu_tier_ranks.len();
        let what = "results held no entry on storage at their end: the CPU tier held all";
        wrapped(page, "  note: ", &format!("{ranks} {what}"));
    }
    if option.partial_failure {
        let missing = option.missing_files.len();
        let _infallible = writeln!(page, "  {missing} results are missing");
    }
    if let Some(departures) = details.departures.as_ref().filter(|all| !all.is_empty()) {
        wrapped(page, "  not as the rules have it: ", &departures.join(", "));
    }
    for note in &details.notes {
        wrapped(page, "  note: ", note);
    }
}

/// Writes the ratios of both runs, beside those published of two systems.
fn compared(page: &mut String, path: &Path, summary: &Summary, baseline: &Summary) {
    let _infallible = writeln!(page, "\ncompared with {}", terminal_path(path));
    page.push_str(&ratios(&hold(summary, baseline)).page());
    wrapped(page, "  published: ", EXPECTATIONS_SOURCE);
}
