//! Labels of metrics.

/// The value of a label, to stand between double quotes in Prometheus's text format or in
/// OpenMetrics: it says the same, and can neither end the label nor the line.
#[must_use]
pub fn prometheus(text: &str) -> String {
    // The three characters that both formats know escapes for; any other may stand raw.
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
