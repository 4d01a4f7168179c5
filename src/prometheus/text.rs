//! Text of the metrics, in Prometheus's format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>) and in OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use ringfall_core::clock::SECOND;
use ringfall_host::escape;
use ringfall_report::quick::QuickReport;

use super::look::{BOUNDS_NS, LatencyBuckets};
use super::table::{ANSWER_FAMILIES, FAMILIES, Family, FamilyKind, Seen};

/// Format of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextFormat {
    /// Prometheus's own, which node_exporter reads from files.
    Plain,
    /// OpenMetrics, which knows units, states and facts besides.
    OpenMetrics,
}

impl TextFormat {
    /// Content type of a response in it.
    pub const fn content_type(self) -> &'static str {
        match self {
            TextFormat::Plain => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    const fn kind(self, kind: FamilyKind) -> &'static str {
        match (self, kind) {
            (_, FamilyKind::Counter) => "counter",
            (_, FamilyKind::Histogram) => "histogram",
            (_, FamilyKind::Gauge)
            | (TextFormat::Plain, FamilyKind::Info | FamilyKind::StateSet) => "gauge",
            (TextFormat::OpenMetrics, FamilyKind::Info) => "info",
            (TextFormat::OpenMetrics, FamilyKind::StateSet) => "stateset",
        }
    }
}

/// Text of all metrics of a run.
pub fn text(seen: &Seen<'_>, format: TextFormat) -> String {
    text_of(FAMILIES, format, |samples, to| samples(seen, to))
}

/// Text of all metrics of an answer of `ringfall quick`, for node_exporter.
pub fn answer_text(answer: &QuickReport) -> String {
    text_of(ANSWER_FAMILIES, TextFormat::Plain, |samples, to| samples(answer, to))
}

/// Text of these metrics, whose samples `write` writes.
fn text_of<S>(
    families: &[Family<S>],
    format: TextFormat,
    write: impl Fn(&S, &mut Samples<'_>),
) -> String {
    let mut text = String::new();
    for family in families {
        let sample_name = family.sample_name();
        let name: &str = match format {
            TextFormat::Plain => &sample_name,
            TextFormat::OpenMetrics => family.name,
        };
        let kind = format.kind(family.kind);
        text.push_str(&format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help));
        if let (TextFormat::OpenMetrics, Some(unit)) = (format, family.unit) {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        let mut samples = Samples { name: family.name, sample_name, text: &mut text };
        write(&family.samples, &mut samples);
    }
    if format == TextFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

/// Label of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    name: &'static str,
    value: &'a str,
}

/// A label of that name and value.
pub const fn label<'a>(name: &'static str, value: &'a str) -> Label<'a> {
    Label { name, value }
}

/// Writer of the samples of one family.
pub struct Samples<'a> {
    name: &'static str,
    /// Name of samples that have no ending of their own.
    sample_name: String,
    text: &'a mut String,
}

impl Samples<'_> {
    /// Writes a sample with that number.
    pub fn number(&mut self, labels: &[Label<'_>], value: u64) {
        self.sample(labels, &value.to_string());
    }

    /// Writes a sample with that figure.
    pub fn figure(&mut self, labels: &[Label<'_>], value: f64) {
        self.sample(labels, &value.to_string());
    }

    /// Writes a sample with a time.
    pub fn time(&mut self, labels: &[Label<'_>], ns: impl Into<u128>) {
        self.sample(labels, &seconds(ns.into()));
    }

    /// Writes the samples of a histogram.
    pub fn latencies(&mut self, labels: &[Label<'_>], latencies: &LatencyBuckets) {
        let name = self.name;
        let bucket = format!("{name}_bucket");
        for (bound_ns, count) in BOUNDS_NS.into_iter().zip(latencies.at_most()) {
            let bound = seconds(bound_ns.into());
            let labels = [labels, &[label("le", &bound)]].concat();
            push_sample(self.text, &bucket, &labels, &count.to_string());
        }
        let total = latencies.total.to_string();
        push_sample(self.text, &bucket, &[labels, &[label("le", "+Inf")]].concat(), &total);
        push_sample(self.text, &format!("{name}_sum"), labels, &seconds(latencies.sum_ns));
        push_sample(self.text, &format!("{name}_count"), labels, &total);
    }

    fn sample(&mut self, labels: &[Label<'_>], value: &str) {
        push_sample(self.text, &self.sample_name, labels, value);
    }
}

fn push_sample(text: &mut String, name: &str, labels: &[Label<'_>], value: &str) {
    let labels: Vec<String> = labels
        .iter()
        .map(|label| format!("{}=\"{}\"", label.name, escape::prometheus(label.value)))
        .collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", labels.join(",")),
    };
    text.push_str(&format!("{name}{labels} {value}\n"));
}

/// A time in seconds, to the nanosecond, with a decimal point: OpenMetrics wants one in bounds.
fn seconds(ns: u128) -> String {
    let second_ns = u128::from(SECOND.as_ns());
    let exact = format!("{}.{:09}", ns / second_ns, ns % second_ns);
    let text = exact.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_and_have_a_decimal_point() {
        for (ns, expected) in [
            (0, "0.0"),
            (1, "0.000000001"),
            (25_000, "0.000025"),
            (100_000_000_000, "100.0"),
            (1_500_000_000, "1.5"),
        ] {
            assert_eq!(seconds(ns), expected);
        }
    }
}
