//! Terminal text of a run's outcome: the metrics to go by, where the time went, and the
//! requirements of the profile on storage.

use std::fmt::Write as _;

use ringfall_config::PUBLISHED_SYSTEMS;
use ringfall_host::counted;
use ringfall_model::Document;
use ringfall_model::configuration::Configuration;
use ringfall_model::health::{Criterion, Health, Measure};
use ringfall_model::limit::RunLimit;
use ringfall_model::metrics::Metric;
use ringfall_model::published::preset_of;
use ringfall_model::trust::headlines;

use super::terminal::{Style, wrapped};

/// Columns before what a label stands for.
const LABEL: usize = 15;

/// A label and its text, which goes on below its own beginning.
pub(super) fn labelled(text: &mut String, label: &str, sentence: &str) -> std::fmt::Result {
    wrapped(text, Style { colour: false }, &format!("  {label:<12} "), LABEL, sentence)
}

/// Writes the sums over all requests.
pub(super) fn served(text: &mut String, document: &Document) -> std::fmt::Result {
    let served = &document.ringfall.served;
    let mean = |tokens: Option<f64>| tokens.map_or("-".to_owned(), |mean| format!("{mean:.0}"));
    if let Some(tokens @ 1..) = document.summary.total_tokens.known() {
        let (context, made) = (&served.context_tokens_mean, &served.generated_tokens_mean);
        writeln!(
            text,
            "               {tokens} tokens in all; mean request: {} of context, {} generated",
            mean(context.known()),
            mean(made.known()),
        )?;
    }
    Ok(())
}

/// Writes where the time of the requests went.
pub(super) fn time(text: &mut String, document: &Document) -> std::fmt::Result {
    let Some(rows) = document.ringfall.served.time.rows() else { return Ok(()) };
    let share = |(name, share): (&str, f64)| format!("{name} {:.0} %", share * 100.0);
    // What a request never met says nothing; the storage is what the run is about.
    let is_told = |row: &(&str, f64)| row.0 == "storage" || row.1 >= 0.005;
    let shares: Vec<String> = rows.into_iter().filter(is_told).map(share).collect();
    labelled(text, "time went to", &shares.join(", "))
}

/// Writes the resource that limited the run, and what shows it.
pub(super) fn limit(text: &mut String, document: &Document) -> std::fmt::Result {
    let limit = RunLimit::of(document);
    let flag = limit.flag_to_try.map_or(String::new(), |flag| format!(" [try {flag}]"));
    labelled(text, "verdict", &format!("{}: {}{flag}", limit.kind.name(), limit.told))
}

/// The primary metrics, which to go by in this configuration, and why.
pub(super) fn metrics(text: &mut String, document: &Document) -> std::fmt::Result {
    for headline in headlines(document) {
        let title = headline.metric.title;
        let (name, unit) = title.rsplit_once(", ").unwrap_or((title, ""));
        let value = figure(headline.value);
        match headline.advice {
            Some(advice) => {
                let sentence = format!("{name} {value} {unit}: {}", advice.why);
                labelled(text, advice.trust.word(), &sentence)?;
            }
            None => labelled(text, "metric", &format!("{name} {value} {unit}"))?,
        }
    }
    published(text, document)
}

/// Writes the ratios published of two drives in this configuration, if there are any.
fn published(text: &mut String, document: &Document) -> std::fmt::Result {
    let is_measured = !headlines(document).is_empty();
    let configuration = Configuration::from_result(document).filter(|_| is_measured);
    let Some(preset) = configuration.as_ref().and_then(preset_of) else { return Ok(()) };
    for (key, ratio) in preset.published {
        let title = Metric::by_key(key).map_or(*key, |metric| metric.title);
        let (name, _) = title.rsplit_once(", ").unwrap_or((title, ""));
        let sentence = format!(
            "{name} of {PUBLISHED_SYSTEMS} differed {ratio:.2}× ({}); `ringfall compare` sets two \
             results beside that",
            preset.name
        );
        labelled(text, "published", &sentence)?;
    }
    Ok(())
}

/// The verdict, and every criterion with what was measured.
pub(super) fn health(text: &mut String, style: Style, verdict: &Health) -> std::fmt::Result {
    let status = match &*verdict.overall_status {
        "FAIL" => style.warn("FAIL"),
        other => other.to_owned(),
    };
    match verdict.total_count {
        0 => writeln!(text, "  health       {status}: {}", verdict.why_no_data())?,
        total => {
            writeln!(text, "  health       {status}, passed {} of {total}", verdict.passed_count)?;
        }
    }
    for criterion in &verdict.criteria {
        let word = if criterion.passed { "met:" } else { "not met:" };
        line(text, word, criterion)?;
    }
    for criterion in &verdict.too_few {
        line(text, "too few to judge:", criterion)?;
    }
    Ok(())
}

/// A criterion with what was measured, and on how many samples.
fn line(text: &mut String, word: &str, criterion: &Criterion) -> std::fmt::Result {
    let (before, colour) = (" ".repeat(LABEL), false);
    let before = format!("{before}{word:<8} ");
    let sentence = format!("{}: {}", criterion.name, measured(criterion));
    wrapped(text, Style { colour }, &before, before.len(), &sentence)
}

/// Text of a criterion's measured value, with its unit and number of samples; a ratio as a
/// percentage, like its name.
pub(super) fn measured(criterion: &Criterion) -> String {
    let actual = match (&criterion.actual, &*criterion.unit) {
        (Measure::Number(ratio), "ratio") => format!("{:.1} %", ratio * 100.0),
        (actual, unit) => format!("{actual} {unit}"),
    };
    match criterion.samples {
        Some(samples) => format!("{actual} of {}", counted(samples, "sample")),
        None => actual,
    }
}

/// A value to four digits that count.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 999.95 => format!("{value:.0}"),
        size if size >= 99.995 => format!("{value:.1}"),
        size if size >= 9.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
