//! The page of a run of the MLPerf sequence: each option as the harness adds it up, with all ranks
//! and trials merged exactly, beside what others published.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_foreign::mlperf::published::{
    EXPECTATIONS, EXPECTATIONS_SOURCE, PublishedRun, RUNS, RUNS_SOURCE, hold,
};
use ringfall_foreign::mlperf::summary::{OptionSummary, Summary};
use ringfall_host::escape;
use ringfall_model::metrics::Metric;

use super::STYLE;
use crate::show::MlperfRun;
use crate::show::mlperf::{LATENCIES, counted, figure, percentiles, title};

/// Writes the page.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_mlperf_html(run: &MlperfRun<'_>, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(run).as_bytes())
}

fn page(run: &MlperfRun<'_>) -> String {
    let summary = run.summary;
    let name = escape::html(&format!("MLPerf Storage KV cache, run {}", summary.run_datetime));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{name}</title><style>{STYLE}</style></head>\
         <body><main>\n<h1>{name}</h1>\
         <div class=\"sub\">{} on {} · {} of each option · {}</div>\n<p><b>{}</b></p>\n",
        counted(summary.total_ranks, "rank"),
        counted(summary.host_count, "host"),
        counted(summary.trials_per_option, "trial"),
        escape::html(&run.path.display().to_string()),
        escape::html(&summary.ringfall.division)
    );
    departures(&mut html, "This run is", summary.ringfall.departures.as_deref());
    failures(&mut html, summary);
    overview(&mut html, summary);
    for option in summary.options.values() {
        of_option(&mut html, option, summary);
    }
    expected(&mut html, run);
    let _infallible = writeln!(
        html,
        "<footer>Made by ringfall {}. GiB and GiB/s throughout. As the harness adds up: rates are \
         summed over ranks and averaged over trials, and a P95 is the largest of all ranks and \
         trials. Merged exactly: bytes and tokens of all ranks and trials over their time, \
         percentiles of merged histograms.</footer></main></body></html>",
        escape::html(&summary.ringfall.version)
    );
    html
}

fn departures(html: &mut String, who: &str, departures: Option<&[String]>) {
    let text = match departures {
        None => return,
        Some([]) => format!("{who} as the rules have it."),
        Some(all) => format!("{who} not as the rules have it: {}.", all.join(", ")),
    };
    let _infallible = writeln!(html, "<p>{}</p>", escape::html(&text));
}

fn failures(html: &mut String, summary: &Summary) {
    if summary.trial_failures.is_empty() {
        return;
    }
    html.push_str("<p class=\"bad\">Trials that failed, or lack results:</p><ul class=\"notes\">");
    for (place, why) in &summary.trial_failures {
        let line = escape::html(&format!("{place}: {why}"));
        let _infallible = write!(html, "<li>{line}</li>");
    }
    html.push_str("</ul>\n");
}

/// A table's head: columns of numbers after the first.
fn head(html: &mut String, first: &str, columns: &[&str]) {
    let _infallible = write!(html, "<div class=\"wide\"><table><tr><th>{first}</th>");
    for column in columns {
        let _infallible = write!(html, "<th class=\"n\">{column}</th>");
    }
    html.push_str("</tr>");
}

fn row(html: &mut String, first: &str, cells: &[String], is_ours: bool) {
    let class = if is_ours { " class=\"differs\"" } else { "" };
    let _infallible = write!(html, "<tr{class}><td>{}</td>", escape::html(first));
    for cell in cells {
        let _infallible = write!(html, "<td class=\"n\">{}</td>", escape::html(cell));
    }
    html.push_str("</tr>");
}

fn overview(html: &mut String, summary: &Summary) {
    html.push_str("<h2>As the harness adds up</h2>");
    let columns = [
        "read, GiB/s",
        "write, GiB/s",
        "tokens/s",
        "storage tokens/s",
        "P95 of a request's storage I/O, ms",
        "P95 of an entry's read, ms",
        "of that, device",
        "results missing",
    ];
    head(html, "option", &columns);
    for option in summary.options.values() {
        let figures = [
            option.aggregated_read_bandwidth_gbps,
            option.aggregated_write_bandwidth_gbps,
            option.aggregated_avg_throughput_tokens_per_sec,
            option.aggregated_storage_throughput_tokens_per_sec,
            option.aggregated_p95_latency_ms,
            option.aggregated_storage_read_p95_ms,
            option.aggregated_device_read_p95_ms,
        ];
        let mut cells: Vec<String> = figures.iter().map(|value| figure(Some(*value))).collect();
        cells.push(option.missing_files.len().to_string());
        row(html, &format!("{}: {}", option.option, title(option)), &cells, false);
    }
    html.push_str("</table></div>\n");
    let _infallible = writeln!(
        html,
        "<p>Below, each option stands among published results: {}. They are of the reference's \
         engine, which counts bytes after the end of its time (`ringfall audit` says how much that \
         is), and of clients of all sizes; runs of the open division chose their own parameters. A \
         run that is not as the rules have it can't be compared with them.</p>",
        escape::html(RUNS_SOURCE)
    );
}

fn of_option(html: &mut String, option: &OptionSummary, summary: &Summary) {
    let details = &option.ringfall;
    let name = format!("Option {}: {}", option.option, title(option));
    let _infallible = writeln!(html, "<h2>{}</h2>", escape::html(&name));
    departures(html, "It is", details.departures.as_deref());
    if !option.cpu_tier_ranks.is_empty() {
        let count = option.cpu_tier_ranks.len();
        let _infallible = writeln!(
            html,
            "<p class=\"bad\">{count} results held no entry on storage at their end.</p>"
        );
    }
    if let Some(merged) = &details.merged {
        let cards = [
            (figure(merged.read_gib_per_s), "read, GiB/s"),
            (figure(merged.write_gib_per_s), "write, GiB/s"),
            (figure(merged.tokens_per_s), "tokens/s"),
            (figure(merged.storage_tokens_per_s), "storage tokens/s"),
            (figure(merged.decode_gib_per_s), "read in decode, GiB/s"),
            (figure(merged.hit_rate.map(|rate| rate * 100.0)), "% of reads found"),
            (figure(merged.seconds), "s in all trials"),
        ];
        html.push_str("<p>All ranks and trials, merged exactly:</p><div class=\"cards\">");
        for (value, label) in cards {
            let _infallible =
                write!(html, "<div class=\"card\"><b>{value}</b><span>{label}</span></div>");
        }
        html.push_str("</div>");
        head(html, "latency, ms", &["P50", "P95", "P99", "count"]);
        for (title, pick) in LATENCIES {
            let latency = pick(merged);
            let mut cells = percentiles(latency).map(figure).to_vec();
            let count = latency.and_then(|latency| latency.count.known()).unwrap_or(0);
            cells.push(count.to_string());
            row(html, title, &cells, false);
        }
        html.push_str("</table></div>\n");
    }
    trials(html, option);
    for note in &details.notes {
        let _infallible = writeln!(html, "<p>{}</p>", escape::html(note));
    }
    published(html, option, summary);
}

fn trials(html: &mut String, option: &OptionSummary) {
    let cv = option
        .ringfall
        .trials_cv
        .map_or(String::new(), |cv| format!(" Their tokens/s lie {:.1} % apart (CV).", cv * 100.0));
    let _infallible = writeln!(html, "<h3>Trials</h3><p>Sums over ranks.{cv}</p>");
    let columns = ["ranks", "read, GiB/s", "write, GiB/s", "tokens/s", "P95 of storage I/O, ms"];
    head(html, "trial", &columns);
    for trial in &option.ringfall.trials {
        let mut cells = vec![trial.ranks.to_string()];
        let figures =
            [trial.read_gib_per_s, trial.write_gib_per_s, trial.tokens_per_s, trial.p95_ms];
        cells.extend(figures.iter().map(|value| figure(Some(*value))));
        row(html, &trial.trial.to_string(), &cells, false);
    }
    html.push_str("</table></div>\n");
}

/// This run among those of the published table, the most read for each rank first.
fn published(html: &mut String, option: &OptionSummary, summary: &Summary) {
    let place = option.option.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    let Some(place) = place.filter(|place| *place < 3) else { return };
    html.push_str("<h3>Among the published results</h3>");
    let columns = [
        "division",
        "hosts",
        "ranks",
        "read, GiB/s",
        "read a rank",
        "write, GiB/s",
        "tokens/s",
        "P95 of storage I/O, ms",
    ];
    head(html, "system", &columns);
    let a_rank = |read: f64, ranks: u32| read / f64::from(ranks.max(1));
    let own = a_rank(option.aggregated_read_bandwidth_gbps, summary.total_ranks);
    let mut runs: Vec<&PublishedRun> = RUNS.iter().collect();
    let key = |run: &PublishedRun| a_rank(run.options[place].read_gib_per_s, run.ranks);
    runs.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let mut is_shown = false;
    for run in runs {
        if !is_shown && key(run) < own {
            own_row(html, option, summary, own);
            is_shown = true;
        }
        let figures = run.options[place];
        let cells = [
            run.division.to_owned(),
            run.hosts.to_string(),
            run.ranks.to_string(),
            figure(Some(figures.read_gib_per_s)),
            figure(Some(key(run))),
            figure(Some(figures.write_gib_per_s)),
            figure(Some(figures.tokens_per_s)),
            figure(Some(figures.p95_ms)),
        ];
        row(html, &format!("{}, {}", run.organization, run.system), &cells, false);
    }
    if !is_shown {
        own_row(html, option, summary, own);
    }
    html.push_str("</table></div>\n");
}

fn own_row(html: &mut String, option: &OptionSummary, summary: &Summary, a_rank: f64) {
    let cells = [
        "this run".to_owned(),
        summary.host_count.to_string(),
        summary.total_ranks.to_string(),
        figure(Some(option.aggregated_read_bandwidth_gbps)),
        figure(Some(a_rank)),
        figure(Some(option.aggregated_write_bandwidth_gbps)),
        figure(Some(option.aggregated_avg_throughput_tokens_per_sec)),
        figure(Some(option.aggregated_p95_latency_ms)),
    ];
    row(html, "this run", &cells, true);
}

/// Writes the published ratio of two systems, and that of this run and the baseline.
fn expected(html: &mut String, run: &MlperfRun<'_>) {
    let _infallible = writeln!(
        html,
        "<h2>Two systems</h2><p>Which figure tells two systems apart depends on the CPU tier. \
         Published: {}.</p>",
        escape::html(EXPECTATIONS_SOURCE)
    );
    let name = |key: &str| Metric::by_key(key).map_or("", |metric| metric.title).to_owned();
    let Some((path, baseline)) = run.baseline else {
        head(html, "CPU tier", &["figure to go by", "fast ÷ slow, published"]);
        for one in EXPECTATIONS {
            let cells = [name(one.metric), format!("{:.2}×", one.ratio)];
            row(html, &format!("{} GiB", one.cpu_mem_gib), &cells, false);
        }
        html.push_str(
            "</table></div>\n<p>With `--baseline RUN`, the run of another system stands beside \
             this one here.</p>\n",
        );
        return;
    };
    let other = escape::html(&path.display().to_string());
    let _infallible = writeln!(html, "<p>This run, and {other}:</p>");
    let columns = ["figure to go by", "this", "other", "this ÷ other", "fast ÷ slow, published"];
    head(html, "option", &columns);
    for held in hold(run.summary, baseline) {
        let ratio = held.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.2}×"));
        let cells = [
            name(held.expectation.metric),
            figure(held.values[0]),
            figure(held.values[1]),
            ratio,
            format!("{:.2}×", held.expectation.ratio),
        ];
        row(html, &held.option.to_string(), &cells, true);
    }
    html.push_str("</table></div>\n");
}
