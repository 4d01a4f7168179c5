//! Axes: where a value lies, and which values get a mark.

/// A mark's value: as short as it is round.
fn mark(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{value:.0e}"),
        size if size >= 1e6 => format!("{}M", value / 1e6),
        size if size >= 1e4 => format!("{}k", value / 1e3),
        // Marks are multiples of a quarter of a power of ten: more digits are rounding.
        _ => format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// Steps of a logarithmic axis within a decade.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Number of steps in a decade.
const DECADE: i32 = STEPS.len() as i32;

/// Value of a step, counted from 1.
fn step(n: i32) -> f64 {
    STEPS[n.rem_euclid(DECADE) as usize] * 10f64.powi(n.div_euclid(DECADE))
}

/// The last step that is no larger than `value`, which is > 0.
fn step_below(value: f64) -> i32 {
    let first = value.log10().floor() as i32 * DECADE;
    (first..first + DECADE).rfind(|n| step(*n) <= value).unwrap_or(first)
}

/// A scale from values to a length.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    /// Text beside the axis.
    pub(super) label: String,
    /// Value and text of each mark.
    pub(super) marks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to a round number above `high`.
    pub(super) fn linear(label: &str, high: f64) -> Axis {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let magnitude = 10f64.powf((high / 4.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| high / step <= 5.0)
            .unwrap_or(10.0 * magnitude);
        let count = (high / step).ceil().max(1.0);
        let marks = (0..=count as u32).map(|n| f64::from(n) * step);
        let marks = marks.map(|value| (value, mark(value))).collect();
        Axis { low: 0.0, high: count * step, is_log: false, label: label.to_owned(), marks }
    }

    /// From 0 to exactly `high`.
    pub(super) fn linear_to(label: &str, high: f64) -> Axis {
        let mut axis = Axis::linear(label, high);
        axis.high = if high > 0.0 { high } else { 1.0 };
        let high = axis.high;
        axis.marks.retain(|(value, _)| *value <= high * 1.001);
        axis
    }

    /// From the step of 1, 2 or 5 at or below `low` to that at or above `high`, both > 0; beyond
    /// two decades the powers of ten alone have a mark.
    pub(super) fn log(label: &str, low: f64, high: f64) -> Axis {
        let fit = |value: f64, or: f64| if value.is_finite() && value > 0.0 { value } else { or };
        let (low, high) = (fit(low, 1.0), fit(high, 10.0));
        let first = step_below(low);
        let last = step_below(high);
        let last = if step(last) < high { last + 1 } else { last }.max(first + 1);
        let is_wide = last - first > 2 * DECADE;
        let marks = (first..=last).filter(|n| !is_wide || n % DECADE == 0).map(step);
        Axis {
            low: step(first),
            high: step(last),
            is_log: true,
            label: label.to_owned(),
            marks: marks.map(|value| (value, mark(value))).collect(),
        }
    }

    /// Percentiles as HDR histograms are drawn: by how rare the rest is, 1/(1 − q).
    pub(super) fn percentiles(highest: f64) -> Axis {
        let highest = highest.clamp(100.0, 1e6);
        let all = [(1.0, "0"), (2.0, "50"), (10.0, "90"), (20.0, "95"), (100.0, "99")];
        let rare = [(1e3, "99.9"), (1e4, "99.99"), (1e5, "99.999"), (1e6, "99.9999")];
        // On a long axis the texts of 90 and 95 % would touch.
        let is_apart = |value: f64| value != 10.0 || highest <= 1e4;
        let marks = all.into_iter().chain(rare);
        let marks = marks.filter(|(value, _)| *value <= highest && is_apart(*value));
        let marks = marks.map(|(value, text)| (value, format!("{text} %"))).collect();
        let label = "percentile".to_owned();
        Axis { low: 1.0, high: highest, is_log: true, label, marks }
    }

    /// Where a value lies, 0 to 1; what is beyond the ends lies at them.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.is_log {
            true => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_cover_their_values_with_a_few_round_marks() {
        for high in [0.0, 0.003, 1.0, 2.48, 7.0, 99.0, 12_345.0, f64::NAN, f64::INFINITY] {
            let axis = Axis::linear("", high);
            assert!((2..=7).contains(&axis.marks.len()), "{high}: {:?}", axis.marks);
            if high.is_finite() {
                assert!(axis.high >= high);
            }
            assert!((0.0..=1.0).contains(&axis.place(high)));
        }
        for (low, high) in [(0.001, 5.0), (1.0, 1.0), (0.0, 0.0), (3e-4, 7e6)] {
            let axis = Axis::log("", low, high);
            assert!(axis.marks.len() >= 2 && axis.place(low) >= 0.0 && axis.place(high) <= 1.0);
        }
        let axis = Axis::log("", 8.0, 64.0);
        let texts: Vec<&str> = axis.marks.iter().map(|mark| mark.1.as_str()).collect();
        assert_eq!(texts, ["5", "10", "20", "50", "100"], "no further than the points need");
        assert!(!Axis::percentiles(1e5).marks.iter().any(|mark| mark.1 == "90 %"));
        let axis = Axis::percentiles(1e4);
        assert_eq!(axis.marks.last().map(|mark| mark.1.as_str()), Some("99.99 %"));
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
    }
}
