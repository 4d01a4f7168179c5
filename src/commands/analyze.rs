//! `ringfall compare` of two collections: what differs between two systems over all configurations
//! that both have run.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::exit::Exit;
use ringfall_model::metrics::{DEVICE_READ, DEVICE_TOTAL, Metric};
use ringfall_report::analysis::best::{Best, best};
use ringfall_report::analysis::collection::{Collection, LeftOut};
use ringfall_report::analysis::over_pairs::Overall;
use ringfall_report::analysis::pairs;
use ringfall_report::analysis::pairs::{Dimension, Group, Order, Pair};
use ringfall_report::show::table::{Table, times};
use serde::Serialize;

use super::{print, print_json, wrapped};
use crate::cli::TableArgs;

/// Groupings that are shown without asking.
const GROUPINGS: [&[Dimension]; 4] =
    [&[], &[Dimension::CpuMemory], &[Dimension::Model], &[Dimension::Users]];
/// The one that JSON also has: all three together.
const CELLS: [Dimension; 3] = [Dimension::CpuMemory, Dimension::Model, Dimension::Users];

/// Reads both collections and prints how they differ.
pub fn run(fast: &Path, slow: &Path, args: &TableArgs) -> Result<Exit> {
    let fast = Collection::read(fast)?;
    let slow = Collection::read(slow)?;
    let all = pairs::matched(&fast, &slow);
    if all.is_empty() {
        let first = |side: &Collection| {
            let first = side.runs.first().and_then(|run| run.configuration.as_ref());
            first.map_or("not said".to_owned(), ToString::to_string)
        };
        refuse!(
            "no configuration was run on both: {} has {} (the first: {}), {} has {} (the first: \
             {}); give results of the same model, users, CPU memory, allocs and generation mode",
            fast.path.display(),
            pairs::configurations(&fast),
            first(&fast),
            slow.path.display(),
            pairs::configurations(&slow),
            first(&slow)
        );
    }
    let overall = Overall::of(&all);
    let matched: Vec<Pair> = all.into_iter().filter(Pair::is_of_one_load).collect();
    let groups = grouped(&matched, args);
    if args.json {
        return print_json(&AnalysisReport {
            fast: System::of(fast),
            slow: System::of(slow),
            conclusion: overall.conclusion,
            is_comparable: overall.is_comparable,
            cautions: overall.cautions,
            matched_configurations: matched.len(),
            groups,
            best: best(&matched),
        });
    }
    let mut page = String::new();
    heading(&mut page, "fast", &fast);
    heading(&mut page, "slow", &slow);
    let conclude = |page: &mut String| wrapped(page, "conclusion ", &overall.conclusion);
    if !overall.is_comparable {
        conclude(&mut page);
    }
    for caution in &overall.cautions {
        wrapped(&mut page, "CAUTION    ", caution);
    }
    if overall.is_comparable {
        let text = format!(
            "{} configurations were run on both. Ratios are fast ÷ slow, trials averaged first; CV \
             is the spread over a group's configurations; a win is a pair in which fast is better.",
            matched.len()
        );
        wrapped(&mut page, "", &text);
        for group in &groups {
            table(&mut page, group, args.details);
        }
        if args.by.is_empty() {
            best_page(&mut page, &matched);
        }
        page.push('\n');
        conclude(&mut page);
    }
    print(&page)
}

fn grouped(matched: &[Pair], args: &TableArgs) -> Vec<Group> {
    let of = |by: &[Dimension]| {
        let mut groups = pairs::groups(matched, by);
        let order = match by {
            [Dimension::Model] => Order::StorageThroughput,
            _ => Order::Name,
        };
        args.sort.unwrap_or(order).sort(&mut groups);
        groups
    };
    if !args.by.is_empty() {
        return of(&args.by);
    }
    let all = GROUPINGS.iter().map(|by| (by, of(by)));
    // A single group has all pairs, of which there is a table already.
    let told = all.filter(|(by, groups)| args.json || by.is_empty() || groups.len() > 1);
    let mut groups: Vec<Group> = told.flat_map(|(_, groups)| groups).collect();
    if args.json {
        groups.extend(of(&CELLS));
    }
    groups
}

/// Two systems over all configurations that both have run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnalysisReport {
    /// The first system, whose values are divided by those of the second.
    fast: System,
    /// The second system, by whose values those of the first are divided.
    slow: System,
    /// Which of the two systems is better, by how much and over how many configurations; or why
    /// that can't be told.
    conclusion: String,
    /// Whether any configuration was run on both with the same load.
    is_comparable: bool,
    /// Reasons that the ratios say less than they seem to, each with the number of configurations.
    cautions: Vec<String>,
    /// Number of configurations that both have run, without those of which the loads differ.
    matched_configurations: usize,
    /// Ratios of every metric over groups of these configurations.
    groups: Vec<Group>,
    /// The configurations that tell the two systems furthest apart.
    best: Vec<Best>,
}

/// The runs of one system that were compared.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct System {
    /// The directory or spreadsheet that the runs were read from.
    path: PathBuf,
    /// Number of runs that count.
    runs: usize,
    /// Number of different configurations among them.
    configurations: usize,
    /// Results that are no complete single run, and why they were left out.
    left_out: Vec<LeftOut>,
    /// Number of runs whose configuration is that of the published invocation in their name.
    named_after_a_published_invocation: usize,
    /// Number of runs of which nothing says what was run.
    configuration_not_said: usize,
    /// Number of runs with a file of iostat's beside them.
    with_iostat: usize,
    /// Number of runs that were simulated, in which no drive moved a byte.
    simulated: usize,
}

impl System {
    fn of(side: Collection) -> System {
        System {
            configurations: pairs::configurations(&side),
            runs: side.runs.len(),
            path: side.path,
            left_out: side.left_out,
            named_after_a_published_invocation: side.by_invocation,
            configuration_not_said: side.unnamed,
            with_iostat: side.with_iostat,
            simulated: side.simulated,
        }
    }
}

/// Writes the heading of a collection: its size, omitted runs and assumptions.
fn heading(page: &mut String, name: &str, side: &Collection) {
    let _infallible = writeln!(
        page,
        "{name}  {}: {} runs of {} configurations",
        terminal_path(&side.path),
        side.runs.len(),
        pairs::configurations(side)
    );
    for left_out in &side.left_out {
        let path = terminal_path(&left_out.path);
        let _infallible = writeln!(page, "      without {path}: {}", left_out.why);
    }
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            wrapped(page, "      ", &format!("{count} {what}"));
        }
    };
    note(side.by_invocation, "are taken to be the published invocations that they are named after");
    note(
        side.unnamed,
        "do not say what was run and are taken to be one configuration: neither recorded \
         arguments nor names like …_MODEL_cpuNGB_qdN_genMODE_usersN.json",
    );
    note(side.with_iostat, "have iostat's output beside them");
    note(side.simulated, "were simulated: no drive moved a byte, and their figures are a model's");
}

fn table(page: &mut String, group: &Group, all_metrics: bool) {
    let _infallible = writeln!(
        page,
        "\n{:<36} {:>6} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
        terminal(&group.label),
        "pairs",
        "ratio of",
        "mean of",
        "median",
        "wins",
        "CV fast",
        "CV slow"
    );
    let _infallible =
        writeln!(page, "{:<36} {:>6} {:>8} {:>8} {:>8}", "", "", "means", "ratios", "of those");
    for row in &group.rows {
        let Some(metric) = Metric::by_key(row.metric) else { continue };
        if !(all_metrics || metric.headline || [DEVICE_READ, DEVICE_TOTAL].contains(&row.metric)) {
            continue;
        }
        let _infallible = writeln!(
            page,
            "  {:<34} {:>6} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
            metric.title,
            row.pairs,
            ratio(row.ratio_of_means),
            ratio(row.mean_of_ratios),
            ratio(row.median_of_ratios),
            percent(row.win_rate),
            percent(row.fast_cv),
            percent(row.slow_cv)
        );
    }
}

/// The configuration of each model that shows most, by a metric to go by in it.
fn best_page(page: &mut String, matched: &[Pair]) {
    let best = best(matched);
    if best.is_empty() {
        return;
    }
    let what = |row: &Best| {
        let configuration = &row.configuration;
        format!(
            "{}, CPU {} GiB, {} users, allocs {}",
            configuration.model,
            configuration.cpu_memory_gib(),
            configuration.users,
            configuration.max_concurrent_allocs
        )
    };
    let title = |row: &Best| Metric::title_of(row.metric);
    let table = Table::of(&best)
        .text("best of a model, generation none", what)
        .text("by a metric to go by there", title)
        .number("ratio", times, |row| row.ratio)
        .count("of", |row| row.of)
        .widths(&[52, 32, 6, 5]);
    let _infallible = write!(page, "\n{}", table.done().page());
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.2}×"))
}

fn percent(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.1} %", value * 100.0))
}
