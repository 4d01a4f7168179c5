//! The page of a run of the MLPerf sequence: each option as the harness adds it up, with all ranks
//! and trials merged exactly, beside what others published.

use std::path::Path;

use ringfall_foreign::mlperf::published::{
    EXPECTATIONS, EXPECTATIONS_SOURCE, PublishedFigures, PublishedRun, RUNS, RUNS_SOURCE, hold,
};
use ringfall_foreign::mlperf::summary::{OptionSummary, Summary};
use ringfall_host::counted;
use ringfall_model::metrics::Metric;

use super::markup::Html;
use crate::show::MlperfRun;
use crate::show::mlperf::{latencies, overview, ratios, title};
use crate::show::table::{Mark, Table, figure, times};

/// Name of the run among the published ones, and its division.
const THIS_RUN: &str = "this run";

/// Writes a run of the sequence as a page.
pub fn write_mlperf_html(run: &MlperfRun<'_>, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(run).as_bytes())
}

fn page(run: &MlperfRun<'_>) -> String {
    let summary = run.summary;
    let name = format!("MLPerf Storage KV cache, run {}", summary.run_datetime);
    let mut html = Html::new(&name, &name);
    html.sub(&format!(
        "{} on {} · {} of each option · {}",
        counted(summary.total_ranks.into(), "rank"),
        counted(summary.host_count.into(), "host"),
        counted(summary.trials_per_option.into(), "trial"),
        run.path.display()
    ));
    html.paragraph_of("said", &summary.ringfall.division);
    departures(&mut html, "This run is", summary.ringfall.departures.as_deref());
    if !summary.trial_failures.is_empty() {
        html.paragraph_of("bad", "Trials that failed, or lack results:");
        html.notes(summary.trial_failures.iter().map(|(place, why)| format!("{place}: {why}")));
    }
    html.heading("As the harness adds up");
    html.table(&overview(summary));
    html.paragraph(&format!(
        "Below, each option stands among published results: {RUNS_SOURCE}. They are of the \
         reference's engine, which counts bytes after the end of its time (`ringfall audit` says \
         how much that is), and of clients of all sizes; runs of the open division chose their own \
         parameters. A run that is not as the rules have it can't be compared with them."
    ));
    for option in summary.options.values() {
        of_option(&mut html, option, summary);
    }
    expected(&mut html, run);
    html.end(&format!(
        "Made by ringfall {}. GiB and GiB/s throughout. As the harness adds up: rates are summed \
         over ranks and averaged over trials, and a P95 is the largest of all ranks and trials. \
         Merged exactly: bytes and tokens of all ranks and trials over their time, percentiles of \
         merged histograms.",
        summary.ringfall.version
    ))
}

fn departures(html: &mut Html, who: &str, departures: Option<&[String]>) {
    match departures {
        None => {}
        Some([]) => html.paragraph(&format!("{who} as the rules have it.")),
        Some(all) => {
            html.paragraph(&format!("{who} not as the rules have it: {}.", all.join(", ")));
        }
    }
}

fn of_option(html: &mut Html, option: &OptionSummary, summary: &Summary) {
    let details = &option.ringfall;
    html.heading(&format!("Option {}: {}", option.option, title(option)));
    departures(html, "It is", details.departures.as_deref());
    if !option.cpu_tier_ranks.is_empty() {
        let count = option.cpu_tier_ranks.len();
        let told = format!("{count} results held no entry on storage at their end.");
        html.paragraph_of("bad", &told);
    }
    if let Some(merged) = &details.merged {
        html.paragraph("All ranks and trials, merged exactly:");
        let cards = [
            (merged.read_gib_per_s, "read, GiB/s"),
            (merged.write_gib_per_s, "write, GiB/s"),
            (merged.tokens_per_s, "tokens/s"),
            (merged.storage_tokens_per_s, "storage tokens/s"),
            (merged.decode_gib_per_s, "read in decode, GiB/s"),
            (merged.hit_rate.map(|rate| rate * 100.0), "% of reads found"),
            (merged.seconds, "s in all trials"),
        ];
        html.cards(figure, cards);
        html.table(&latencies(merged));
    }
    let cv = details
        .trials_cv
        .map_or(String::new(), |cv| format!(" Their tokens/s lie {:.1} % apart (CV).", cv * 100.0));
    html.subheading("Trials");
    html.paragraph(&format!("Sums over ranks.{cv}"));
    let trials = Table::of(&details.trials)
        .text("trial", |trial| trial.trial)
        .count("ranks", |trial| trial.ranks)
        .number("read, GiB/s", figure, |trial| trial.read_gib_per_s)
        .number("write, GiB/s", figure, |trial| trial.write_gib_per_s)
        .number("tokens/s", figure, |trial| trial.tokens_per_s)
        .number("P95 of storage I/O, ms", figure, |trial| trial.p95_ms);
    html.table(&trials.done());
    details.notes.iter().for_each(|note| html.paragraph(note));
    published(html, option, summary);
}

/// This run among those of the published table, the most read for each rank first.
fn published(html: &mut Html, option: &OptionSummary, summary: &Summary) {
    let place = option.option.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    let Some(place) = place.filter(|place| *place < 3) else { return };
    let ours = PublishedFigures {
        read_gib_per_s: option.aggregated_read_bandwidth_gbps,
        write_gib_per_s: option.aggregated_write_bandwidth_gbps,
        tokens_per_s: option.aggregated_avg_throughput_tokens_per_sec,
        p95_ms: option.aggregated_p95_latency_ms,
    };
    let mut runs = RUNS.clone();
    runs.push(PublishedRun {
        division: THIS_RUN,
        organization: "",
        system: THIS_RUN,
        hosts: summary.host_count,
        ranks: summary.total_ranks,
        options: [ours; 3],
    });
    let read_a_rank =
        |run: &PublishedRun| run.options[place].read_gib_per_s / f64::from(run.ranks.max(1));
    runs.sort_by(|a, b| read_a_rank(b).total_cmp(&read_a_rank(a)));
    html.subheading("Among the published results");
    let table = Table::of(&runs)
        .text("system", |run| match run.organization {
            "" => run.system.to_owned(),
            organization => format!("{organization}, {}", run.system),
        })
        .text("division", |run| run.division)
        .count("hosts", |run| run.hosts)
        .count("ranks", |run| run.ranks)
        .number("read, GiB/s", figure, |run| run.options[place].read_gib_per_s)
        .number("read a rank", figure, read_a_rank)
        .number("write, GiB/s", figure, |run| run.options[place].write_gib_per_s)
        .number("tokens/s", figure, |run| run.options[place].tokens_per_s)
        .number("P95 of storage I/O, ms", figure, |run| run.options[place].p95_ms)
        .marked(|run| if run.division == THIS_RUN { Mark::Differs } else { Mark::Plain });
    html.table(&table.done());
}

/// Writes the published ratio of two systems, and that of this run and the baseline.
fn expected(html: &mut Html, run: &MlperfRun<'_>) {
    html.heading("Two systems");
    html.paragraph(&format!(
        "Which figure tells two systems apart depends on the CPU tier. Published: \
         {EXPECTATIONS_SOURCE}."
    ));
    let Some((path, baseline)) = run.baseline else {
        let table = Table::of(&EXPECTATIONS)
            .text("CPU tier", |one| format!("{} GiB", one.cpu_mem_gib))
            .text("figure to go by", |one| Metric::title_of(one.metric))
            .number("fast ÷ slow, published", times, |one| one.ratio);
        html.table(&table.done());
        html.paragraph(
            "With `--baseline RUN`, the run of another system stands beside this one here.",
        );
        return;
    };
    html.paragraph(&format!("This run, and {}:", path.display()));
    html.table(&ratios(&hold(run.summary, baseline)));
}
