//! Text of the metrics, in Prometheus's format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>) and in OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use ringfall_core::clock::SECOND;
use ringfall_host::escape;

use super::look::{BOUNDS_NS, LatencyBuckets};
use super::table::{FAMILIES, Family, FamilyKind, Seen};

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

/// Text of all metrics.
pub fn text(seen: &Seen<'_>, format: TextFormat) -> String {
    let mut text = String::new();
    for family in FAMILIES {
        let name = match format {
            TextFormat::Plain => family.sample_name(),
            TextFormat::OpenMetrics => family.name.to_owned(),
        };
        let kind = format.kind(family.kind);
        text.push_str(&format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help));
        if let (TextFormat::OpenMetrics, Some(unit)) = (format, family.unit) {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        (family.samples)(seen, &mut Samples { family, text: &mut text });
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
    family: &'static Family,
    text: &'a mut String,
}

impl Samples<'_> {
    /// Writes a sample with that number.
    pub fn number(&mut self, labels: &[Label<'_>], value: u64) {
        self.line(&self.family.sample_name(), labels, &value.to_string());
    }

    /// Writes a sample with a time.
    pub fn time(&mut self, labels: &[Label<'_>], ns: u64) {
        self.line(&self.family.sample_name(), labels, &seconds(ns.into()));
    }

    /// Writes the samples of a histogram.
    pub fn latencies(&mut self, labels: &[Label<'_>], latencies: &LatencyBuckets) {
        let name = self.family.name;
        let bucket = format!("{name}_bucket");
        for (bound_ns, count) in BOUNDS_NS.into_iter().zip(latencies.at_most()) {
            let bound = seconds(bound_ns.into());
            self.line(&bucket, &[labels, &[label("le", &bound)]].concat(), &count.to_string());
        }
        let total = latencies.total.to_string();
        self.line(&bucket, &[labels, &[label("le", "+Inf")]].concat(), &total);
        self.line(&format!("{name}_sum"), labels, &seconds(latencies.sum_ns));
        self.line(&format!("{name}_count"), labels, &total);
    }

    fn line(&mut self, name: &str, labels: &[Label<'_>], value: &str) {
        let labels: Vec<String> = labels
            .iter()
            .map(|label| format!("{}=\"{}\"", label.name, escape::prometheus(label.value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        self.text.push_str(&format!("{name}{labels} {value}\n"));
    }
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
