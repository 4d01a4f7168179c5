//! `ringfall compare`: how two results differ, how sure that is, and what to go by.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use ringfall_config::{InputError, PUBLISHED_SYSTEMS};
use ringfall_host::escape::terminal;
use ringfall_host::exit::Exit;
use ringfall_model::metrics::Metric;
use ringfall_model::stats::Interval;
use ringfall_report::analysis::compare::{Basis, Comparison, Row, compare};
use ringfall_report::show::table::{Table, figure, times};

use super::merge::read_all;
use super::{print, print_json, wrapped};
use crate::cli::CompareArgs;

/// Reads both sides and prints how they differ.
///
/// # Errors
/// When a file can't be understood.
pub fn run(args: &CompareArgs) -> Result<Exit> {
    if args.files.len() == 1 {
        let what = "one result is given: give the one to compare it with too, or several of each \
                    with --baseline and --candidate";
        return Err(InputError::new(what).into());
    }
    let side = |given: &[PathBuf], at: usize| match args.files.get(at) {
        Some(file) => vec![file.clone()],
        None => given.to_vec(),
    };
    let baseline = read_all(&side(&args.baseline, 0))?;
    let candidate = read_all(&side(&args.candidate, 1))?;
    let comparison = compare(baseline, candidate)?;
    if args.json {
        return print_json(&comparison);
    }
    print(&page(&comparison, args.all_metrics))
}

fn page(comparison: &Comparison, all_metrics: bool) -> String {
    let mut page = String::new();
    for (name, files) in [("baseline", &comparison.baseline), ("candidate", &comparison.candidate)]
    {
        let _infallible = writeln!(page, "{name:<10} {}", terminal(&files.join(" ")));
    }
    for caution in &comparison.cautions {
        wrapped(&mut page, "CAUTION    ", caution);
    }
    let rows = comparison.rows.iter();
    let rows = rows.filter_map(|row| Some((Metric::by_key(row.metric)?, row)));
    let table = Table::of(rows.filter(|(metric, _)| all_metrics || metric.headline))
        .text("", |(metric, _)| metric.title)
        .number("baseline", figure, |(_, row)| row.baseline)
        .number("candidate", figure, |(_, row)| row.candidate)
        .number("ratio", times, |(_, row)| row.ratio)
        .text("  95 % interval", |(_, row)| format!("  {}", interval(row)))
        .widths(&[34, 9, 9, 7])
        .done();
    let _infallible = writeln!(page, "\n{}", table.page());
    for advice in &comparison.trust {
        let word = advice.trust.name();
        let title = Metric::by_key(advice.metric).map_or(advice.metric, |metric| metric.title);
        wrapped(&mut page, &format!("{word:<10} "), &format!("{title}: {}", advice.told()));
    }
    for row in &comparison.published {
        let title = Metric::by_key(row.metric).map_or(row.metric, |metric| metric.title);
        let here = row.here.map_or("–".to_owned(), |here| format!("{here:.2}×"));
        let text = format!(
            "{}: {title} {:.2}× for {PUBLISHED_SYSTEMS}; here {here}",
            row.preset, row.published
        );
        wrapped(&mut page, "published  ", &text);
    }
    for difference in
        comparison.configuration_differences.iter().chain(&comparison.machine_differences)
    {
        wrapped(&mut page, "differs    ", &difference.to_string());
    }
    for cold in &comparison.cold_reads {
        wrapped(&mut page, "cold reads ", &format!("{}: {}", cold.side, cold.reads.told));
    }
    for note in &comparison.notes {
        wrapped(&mut page, "note       ", note);
    }
    page
}

fn interval(row: &Row) -> String {
    match (row.interval, row.no_interval) {
        (Some(Interval { low, high }), _) => {
            let basis = row.basis.map_or("", Basis::name);
            format!("{low:.2} .. {high:.2} ({basis})  {}", row.verdict.text())
        }
        (None, why) => format!("none: {}", why.unwrap_or_default()),
    }
}
