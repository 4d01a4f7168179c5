//! Text of the metrics against the table, the page and the dashboard.

use std::collections::{BTreeMap, BTreeSet};

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_engine::shard::{Direction, Second};
use ringfall_model::facts::RunFigures;
use ringfall_report::quick::QuickReport;
use ringfall_running::driver::RequestCounts;
use serde_json::Value;

use super::look::{BOUNDS_NS, RunLook};
use super::table::{ANSWER_FAMILIES, FAMILIES, Family, FamilyKind, RunFamily, RunIdentity, Seen};
use super::text::{TextFormat, answer_text, text};

const FORMATS: [TextFormat; 2] = [TextFormat::Plain, TextFormat::OpenMetrics];

fn told(look: &RunLook, model: &str, format: TextFormat) -> String {
    let identity = RunIdentity { seed: 7, model: model.to_owned(), rank: Some(3) };
    text(&Seen { identity: &identity, look }, format)
}

fn latencies(ns: &[u64]) -> Option<Box<Histogram>> {
    let mut histogram = Histogram::new();
    ns.iter().for_each(|&ns| histogram.record(ns));
    Some(Box::new(histogram))
}

/// A second in which that many bytes were read from storage, in as many reads as there are
/// latencies.
fn second(bytes: u64, ns: &[u64]) -> Second {
    let mut second = Second { errors: 1, storage_waits_ns: SECOND.as_ns(), ..Second::default() };
    let read = &mut second.tiers[Tier::Storage.index()][Direction::Read as usize];
    read.bytes = bytes;
    read.operations = ns.len() as u64;
    read.latency = latencies(ns);
    second.storage_device[Direction::Read as usize] = latencies(ns);
    ns.iter().for_each(|&ns| second.io[0].record(Nanos::from_ns(ns)));
    second
}

/// The samples of a text by their names and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name, value.parse().unwrap())
    });
    samples.collect()
}

/// Names that the samples of a metric may have.
fn sample_names<S>(family: &Family<S>) -> BTreeSet<String> {
    let own = family.sample_name();
    match family.kind {
        FamilyKind::Histogram => {
            ["_bucket", "_sum", "_count"].map(|ending| format!("{own}{ending}")).into()
        }
        _ => [own].into(),
    }
}

#[test]
fn every_metric_is_named_by_the_conventions_and_explained() {
    assert_named_by_the_conventions(FAMILIES);
    assert_named_by_the_conventions(ANSWER_FAMILIES);
}

fn assert_named_by_the_conventions<S>(families: &[Family<S>]) {
    let names: BTreeSet<&str> = families.iter().map(|family| family.name).collect();
    assert_eq!(names.len(), families.len(), "each name is given once");
    for Family { name, unit, help, .. } in families {
        let is_plain =
            name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
        assert!(name.starts_with("ringfall_") && is_plain, "{name}");
        for ending in ["_total", "_info", "_count", "_sum", "_bucket"] {
            assert!(!name.ends_with(ending), "{name}: the kind adds the ending");
        }
        assert!(unit.is_none_or(|unit| name.ends_with(&format!("_{unit}"))), "{name}");
        // Both formats have escapes for these in explanations: none is needed.
        assert!(help.ends_with('.') && !help.contains(['\\', '"', '\n', '|']), "{name}: {help}");
    }
}

#[test]
fn each_metric_is_explained_once_and_its_samples_stand_below() {
    for format in FORMATS {
        let text = told(&RunLook::unbegun(), "m", format);
        let mut families = FAMILIES.iter();
        let mut family: Option<&RunFamily> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let next = families.next().unwrap();
                let name = match format {
                    TextFormat::Plain => next.sample_name(),
                    TextFormat::OpenMetrics => next.name.to_owned(),
                };
                assert_eq!(rest, format!("{name} {}", next.help));
                family = Some(next);
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert!(sample_names(family.unwrap()).contains(name), "{line}");
            }
        }
        assert!(families.next().is_none());
        assert_eq!(text.matches("# TYPE ").count(), FAMILIES.len());
        let with_units = FAMILIES.iter().filter(|family| family.unit.is_some()).count();
        let is_open = format == TextFormat::OpenMetrics;
        assert_eq!(text.matches("# UNIT ").count(), if is_open { with_units } else { 0 });
        assert_eq!(text.ends_with("\n# EOF\n"), is_open);
        let kinds = ["# TYPE ringfall_build info\n", "# TYPE ringfall_phase stateset\n"];
        assert!(kinds.iter().all(|kind| text.contains(kind) == is_open), "{text}");
    }
}

#[test]
fn a_name_from_a_configuration_adds_no_line_and_no_label() {
    let hostile = "a\",b=\"\\\nringfall_users 7";
    let lines = |model: &str| told(&RunLook::unbegun(), model, TextFormat::Plain).lines().count();
    assert_eq!(lines(hostile), lines("m"));
    let text = told(&RunLook::unbegun(), hostile, TextFormat::Plain);
    let model = r#"model="a\",b=\"\\\nringfall_users 7",rank="3"} 1"#;
    assert!(text.lines().any(|line| line.ends_with(model)), "{text}");
}

#[test]
fn latencies_are_counted_up_to_each_bound() {
    let mut look = RunLook::unbegun();
    look.add(&[second(4096, &[5_000, 60_000, 60_000, 3_000_000, 400_000_000_000])]);
    let text = told(&look, "m", TextFormat::Plain);
    let samples = samples(&text);
    for name in ["ringfall_tier_read_seconds", "ringfall_storage_device_read_seconds"] {
        let tier = if name.contains("tier") { "tier=\"storage\"," } else { "" };
        for (bound, count) in [("0.00001", 1.0), ("0.00005", 1.0), ("0.0001", 3.0), ("0.005", 4.0)]
        {
            let key = format!("{name}_bucket{{{tier}le=\"{bound}\"}}");
            assert_eq!(samples.get(key.as_str()), Some(&count), "{key}: {text}");
        }
        assert_eq!(samples[format!("{name}_bucket{{{tier}le=\"100.0\"}}").as_str()], 4.0);
        assert_eq!(samples[format!("{name}_bucket{{{tier}le=\"+Inf\"}}").as_str()], 5.0);
    }
    assert_eq!(samples["ringfall_tier_read_seconds_count{tier=\"storage\"}"], 5.0);
    assert_eq!(samples["ringfall_tier_read_seconds_sum{tier=\"storage\"}"], 400.003125);
    assert_eq!(samples["ringfall_tier_reads_total{tier=\"storage\"}"], 5.0);
    assert_eq!(samples["ringfall_storage_read_ios_total"], 5.0);
    assert_eq!(samples["ringfall_storage_wait_seconds_total"], 1.0);
    assert!(BOUNDS_NS.is_sorted());
}

#[test]
fn what_is_summed_never_falls_while_a_run_goes_on() {
    let summed: BTreeSet<String> = FAMILIES
        .iter()
        .filter(|family| matches!(family.kind, FamilyKind::Counter | FamilyKind::Histogram))
        .flat_map(sample_names)
        .collect();
    let mut look = RunLook::unbegun();
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    let mut figures = RunFigures::default();
    for step in 0..6_u64 {
        match step {
            // Its threads are gone, and the last report of a shard came late.
            5 => look.end(&figures),
            step => {
                look.add(&[second(step << 20, &[step * 1_000_000])]);
                figures.cache.hits += step;
                figures.requests.failed += 1;
                look.requests = RequestCounts::of(&figures.requests, &figures.cache);
            }
        }
        let text = told(&look, "m", TextFormat::Plain);
        for (name, value) in samples(&text) {
            let is_summed = name.split('{').next().is_some_and(|name| summed.contains(name));
            let last = before.insert(name.to_owned(), value).unwrap_or(0.0);
            assert!(!is_summed || value >= last, "{name}: {value} after {last}");
        }
    }
    assert_eq!(before["ringfall_tier_read_bytes_total{tier=\"storage\"}"], f64::from(10 << 20));
    assert_eq!(before["ringfall_requests_finished_total{outcome=\"failed\"}"], 5.0);
    assert_eq!(before["ringfall_cache_reads_total{result=\"hit\"}"], 10.0);
    assert_eq!(before["ringfall_phase{ringfall_phase=\"report\"}"], 1.0);
}

fn row<S>(family: &Family<S>) -> String {
    format!("| `{}` | {} |", family.sample_name(), family.help)
}

#[test]
fn the_page_lists_every_metric_and_no_other() {
    let rows: Vec<String> =
        FAMILIES.iter().map(row).chain(ANSWER_FAMILIES.iter().map(row)).collect();
    let page = include_str!("README.md").lines();
    let listed: Vec<&str> = page.filter(|line| line.starts_with("| `ringfall_")).collect();
    assert_eq!(
        listed,
        rows,
        "the tables of src/prometheus/README.md are to be:\n{}",
        rows.join("\n")
    );
}

#[test]
fn an_answer_has_its_figures_in_base_units_and_none_that_it_does_not_know() {
    let small = include_str!("../../tests/fuzz/corpus/quick/small.json");
    let mut answer: QuickReport = serde_json::from_str(small).unwrap();
    answer.limits.read_gib_per_s = 1.5;
    answer.served_by_speed.users = 9;
    answer.served_by_space.users = 7;
    answer.measured.users = 7;
    answer.measured.reuse_share = Some(0.75);
    answer.place = "a\"} 1\nringfall_quick_users 99".to_owned();
    let text = answer_text(&answer);
    let known = samples(&text);
    assert_eq!(known["ringfall_quick_users"], 7.0);
    assert_eq!(known["ringfall_quick_read_limit_bytes_per_second"], f64::from(3 << 29));
    assert_eq!(known["ringfall_quick_load_p95_seconds"], 1.124456462);
    assert_eq!(known["ringfall_quick_reuse_ratio"], 0.75);
    assert_eq!(known.len(), ANSWER_FAMILIES.len(), "{text}");
    answer.measured.load_p95_s = None;
    answer.measured.reuse_share = None;
    assert_eq!(samples(&answer_text(&answer)).len(), ANSWER_FAMILIES.len() - 2);
}

#[test]
fn an_answer_is_confirmed_as_its_verdict_says() {
    let small = include_str!("../../tests/fuzz/corpus/quick/small.json");
    let mut answer: QuickReport = serde_json::from_str(small).unwrap();
    answer.curve[0].load_p95_s = Some(0.5);
    answer.curve[0].reuse_share = Some(1.0);
    let mut confirmed = |users: u32, loads: u64, kernel_share: f64| {
        answer.served_by_speed.users = users;
        answer.served_by_space.users = users;
        answer.measured.loads = loads;
        answer.measured.load_p95_s = Some(0.5);
        answer.predicted.load_p95_s = Some(0.5);
        answer.kernel_share = Some(kernel_share);
        answer.verdict = answer.judge();
        samples(&answer_text(&answer))["ringfall_quick_is_confirmed"]
    };
    assert_eq!(confirmed(1, 100, 1.0), 1.0);
    // Too few loads to judge by, and a drive that others used.
    assert_eq!(confirmed(1, 2, 1.0), 0.0);
    assert_eq!(confirmed(1, 100, 1.3), 0.0);
    // Nobody is served, which too few loads do not cast doubt on.
    assert_eq!(confirmed(0, 2, 1.0), 1.0);
}

fn texts<'a>(document: &'a Value, key: &str) -> Vec<&'a str> {
    match document {
        Value::Object(map) => {
            let own = map.get(key).and_then(Value::as_str);
            own.into_iter().chain(map.values().flat_map(|value| texts(value, key))).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| texts(item, key)).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_dashboard_names_metrics_and_labels_that_there_are() {
    let dashboard: Value = serde_json::from_str(include_str!("../../config/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 8);
    assert!(panels.iter().all(|panel| !texts(panel, "expr").is_empty()));
    let text = told(&RunLook::unbegun(), "m", TextFormat::Plain);
    let names: BTreeSet<String> = FAMILIES.iter().flat_map(sample_names).collect();
    let mut expressions = texts(&dashboard, "expr");
    expressions.extend(texts(&dashboard["templating"], "query"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut named = BTreeSet::new();
    for expression in expressions {
        for word in expression.split(|c| !is_part(c)).filter(|word| word.starts_with("ringfall_")) {
            assert!(names.contains(word), "{word} is no metric: {expression}");
            named.insert(word);
        }
        // `tier="storage"`, as it stands in the text.
        let labels = expression.split(['{', '}', ',', '(', ')']).map(str::trim);
        for label in labels.filter(|label| label.contains("=\"") && !label.contains('$')) {
            assert!(text.contains(label), "no sample has {label}: {expression}");
        }
    }
    assert!(named.len() >= 12, "{named:?}");
}
