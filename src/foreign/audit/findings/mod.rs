//! The findings of one run: each file holds a subject, each function one kind of finding, made from
//! facts and in sober words. What a figure means is said; what anybody intended is not.

mod kernel;
mod outcome;
mod ranks;
mod settings;
mod summary;
mod time;

use super::finding::{AuditSettings, Finding, Input, Kind, Level};
use super::leaf::{Group, Leaf};

pub(super) fn of_run(leaf: &Leaf, settings: &AuditSettings) -> Vec<Finding> {
    let mut found = Vec::new();
    for group in &leaf.groups {
        found.extend(time::counted_after_the_run(leaf, group));
        found.extend(time::longer_than_the_run(leaf, group));
        found.extend(time::rate_is_not_bytes_by_time(leaf, group));
        found.extend(ranks::contradicting(leaf, group));
        found.extend(ranks::unchecked(leaf, group));
        found.extend(ranks::lost(leaf, group));
        found.extend(ranks::several_files(leaf, group));
        found.extend(ranks::without_storage(leaf, group));
        found.extend(ranks::spread(leaf, group));
        found.extend(ranks::impossible(leaf, group));
        found.extend(ranks::targets_missed(leaf, group));
        found.extend(ranks::health_failed(leaf, group));
        found.extend(outcome::simulated(leaf, group));
        found.extend(outcome::interrupted(leaf, group));
        found.extend(outcome::requests_failed(leaf, group));
        found.extend(outcome::blocks_bad(leaf, group));
        found.extend(summary::differs(leaf, group));
        found.extend(settings::fsync_too_fast(leaf, group));
        found.extend(kernel::above_the_drive(leaf, group, settings));
        found.extend(kernel::of_trials(leaf, group));
    }
    found.extend(kernel::of_run(leaf));
    found.extend(settings::preloaded(leaf));
    found.extend(settings::changed(leaf));
    found
}

fn about(leaf: &Leaf, group: Option<&Group>, kind: Kind, level: Level) -> Finding {
    Finding {
        kind,
        level,
        weight: 0.0,
        weight_is: "nothing is in question",
        run: leaf.path.clone(),
        group: group.map(|group| group.label.clone()),
        sentence: String::new(),
        formula: String::new(),
        inputs: Vec::<Input>::new(),
        result: None,
        at_least: None,
        at_most: None,
        unit: "",
    }
}

/// A number as a reader compares it: three digits or more that count, a count whole.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size.fract() == 0.0 && size < 1e15 => format!("{value:.0}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A number of places, in words.
fn places(count: usize) -> String {
    match count {
        1 => "one place".to_owned(),
        count => format!("{count} places"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A range of shares, `26.9 to 32.3 %`; the upper bound may be unknown.
fn percents(at_least: f64, at_most: Option<f64>) -> String {
    match at_most {
        Some(at_most) if percent(at_least) == percent(at_most) => percent(at_least),
        Some(at_most) => format!("{:.1} to {:.1} %", at_least * 100.0, at_most * 100.0),
        None => format!("at least {:.1} %", at_least * 100.0),
    }
}
