//! `ringfall analyze`: what differs between two systems over all configurations both have run.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::{percent, print, print_json};
use crate::analysis::collection::Collection;
use crate::analysis::pairs::{self, Dimension, Group, Pair};
use crate::cli::AnalyzeArgs;
use crate::config::InputError;
use crate::escape::{terminal, terminal_path};
use crate::exit::Exit;
use crate::results::metrics::Metric;

/// Groupings that are shown without asking.
const GROUPINGS: [&[Dimension]; 4] =
    [&[], &[Dimension::CpuMemory], &[Dimension::Model], &[Dimension::Users]];
/// The one that JSON also has: all three together.
const CELLS: [Dimension; 3] = [Dimension::CpuMemory, Dimension::Model, Dimension::Users];

/// Reads both collections and prints how they differ.
///
/// # Errors
/// When a file can't be understood, or nothing was run on both.
pub fn run(args: &AnalyzeArgs) -> Result<Exit> {
    let fast = Collection::read(&args.fast)?;
    let slow = Collection::read(&args.slow)?;
    let matched = pairs::matched(&fast, &slow);
    if matched.is_empty() {
        let first = |side: &Collection| {
            side.runs.first().map(|run| run.configuration.to_string()).unwrap_or_default()
        };
        return Err(InputError::new(format!(
            "no configuration was run on both: {} has {} (the first: {}), {} has {} (the first: \
             {}); give results of the same model, users, CPU memory, allocs and generation mode",
            fast.path.display(),
            pairs::configurations(&fast),
            first(&fast),
            slow.path.display(),
            pairs::configurations(&slow),
            first(&slow)
        ))
        .into());
    }
    let groups = grouped(&matched, args);
    if args.json {
        return print_json(&document(&fast, &slow, &matched, &groups));
    }
    print(&page(&fast, &slow, &matched, &groups, args.all_metrics))
}

fn grouped(matched: &[Pair], args: &AnalyzeArgs) -> Vec<Group> {
    if !args.by.is_empty() {
        return pairs::groups(matched, &args.by);
    }
    let mut groups: Vec<Group> =
        GROUPINGS.iter().flat_map(|by| pairs::groups(matched, by)).collect();
    if args.json {
        groups.extend(pairs::groups(matched, &CELLS));
    }
    groups
}

fn document(fast: &Collection, slow: &Collection, matched: &[Pair], groups: &[Group]) -> Value {
    let side = |side: &Collection| {
        json!({
            "path": side.path,
            "runs": side.runs.len(),
            "configurations": pairs::configurations(side),
            "left_out": side.left_out,
        })
    };
    json!({
        "fast": side(fast),
        "slow": side(slow),
        "matched_configurations": matched.len(),
        "groups": groups,
    })
}

fn page(
    fast: &Collection,
    slow: &Collection,
    matched: &[Pair],
    groups: &[Group],
    all_metrics: bool,
) -> String {
    let mut page = String::new();
    for (name, side) in [("fast", fast), ("slow", slow)] {
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
    }
    let _infallible = writeln!(
        page,
        "{} configurations were run on both. Ratios are fast ÷ slow, trials averaged first; CV is \
         the spread\nover a group's configurations; a win is a pair in which fast is better.",
        matched.len()
    );
    for group in groups {
        let _infallible = writeln!(
            page,
            "\n{:<36} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8}",
            terminal(&group.label),
            "pairs",
            "ratio of",
            "mean of",
            "wins",
            "CV fast",
            "CV slow"
        );
        let _infallible = writeln!(page, "{:<36} {:>6} {:>9} {:>9}", "", "", "means", "ratios");
        for row in &group.rows {
            let Some(metric) = Metric::by_key(row.metric) else { continue };
            if !(all_metrics || metric.headline) {
                continue;
            }
            let _infallible = writeln!(
                page,
                "  {:<34} {:>6} {:>9} {:>9} {:>8} {:>8} {:>8}",
                metric.title,
                row.pairs,
                ratio(row.ratio_of_means),
                ratio(row.mean_of_ratios),
                percent(row.win_rate),
                percent(row.fast_cv),
                percent(row.slow_cv)
            );
        }
    }
    page
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.2}×"))
}
