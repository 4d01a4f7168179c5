//! Reading of an answer: one whose figures can't be is refused here, so that whoever shows it or
//! holds a check against it need not look.

use std::collections::BTreeMap;
use std::path::Path;

use ringfall_model::document::{FileProblem, read_bytes};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{QUICK_VERSION, QuickReport};

/// Parts of an answer that are no figures of a drive.
const NO_FIGURES: [&str; 3] = ["machine", "seed", "start_unix_s"];
/// Largest possible figure by the end of its name, which has its unit: the first that fits. A run
/// takes hours, and its loads no longer.
const LARGEST: [(&str, f64); 6] = [
    ("kernel_share", 1e12),
    ("_share", 1.0),
    ("_per_s", 1e6),
    ("_s", 86_400.0),
    ("speed", 100.0),
    ("", 1e12),
];
/// Largest ratio of the ends of an interval by chance: that of a load P95 has about 1.8.
const CHANCE_TIMES_MAX: f64 = 50.0;

impl QuickReport {
    /// Reads a report.
    ///
    /// # Errors
    /// The file can't be read, is none of this version, or has a figure that can't be.
    pub fn read(path: &Path) -> Result<QuickReport, FileProblem> {
        let bytes = read_bytes(path).map_err(|what| FileProblem::new(path, what))?;
        let report: QuickReport = serde_json::from_slice(&bytes).map_err(|error| {
            FileProblem::new(path, format!("this is no answer of `ringfall quick`: {error}"))
        })?;
        if report.ringfall_quick != QUICK_VERSION {
            let what = format!(
                "this answer has version {}, and {QUICK_VERSION} is known",
                report.ringfall_quick
            );
            return Err(FileProblem::new(path, what));
        }
        if let Some(what) = report.impossible() {
            let what = format!(
                "{what}: this answer was changed after its run, or is damaged; measure again with \
                 `ringfall quick`"
            );
            return Err(FileProblem::new(path, what));
        }
        // By the rules of this version.
        Ok(report.judged())
    }

    /// Whether a file is such a report. A pipe can be read but once, and is taken for none.
    pub fn is_in(path: &Path) -> bool {
        let bytes = path.is_file().then(|| read_bytes(path).ok()).flatten();
        let keys = bytes
            .and_then(|bytes| serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&bytes).ok());
        keys.is_some_and(|keys| keys.contains_key("ringfall_quick"))
    }

    /// Clause on a figure that can't be; none where all can.
    fn impossible(&self) -> Option<String> {
        if let Some(what) = serde_json::to_value(self).ok().and_then(|all| beyond("", &all)) {
            return Some(what);
        }
        let runs = self.runs().flat_map(|run| [run.measured.users, run.predicted.users]);
        let simulated = self.curve.iter().chain(&self.check_predicted).chain(&self.check_repeated);
        if runs.chain(simulated.map(|point| point.users)).any(|users| users == 0) {
            return Some("it has figures of 0 users".to_owned());
        }
        if !self.curve.is_sorted_by(|one, next| one.users < next.users) {
            return Some("the users of its `curve` do not rise".to_owned());
        }
        if self.users == Some(0) && self.verdict.starts_with("good for") {
            return Some("`users` is 0, and its `verdict` is good for some".to_owned());
        }
        if [self.load_p95_s, self.space_gib, self.turn_gib].contains(&0.0) {
            return Some("`load_p95_s`, `space_gib` or `turn_gib` is 0".to_owned());
        }
        let figures = self.figures(&self.measured, true);
        let wide = figures.iter().find(|figure| {
            let times = figure.interval.map_or(1.0, |interval| interval.high / interval.low);
            times.is_nan() || times > CHANCE_TIMES_MAX
        })?;
        Some(format!(
            "the simulations of its check, `check_predicted` and `check_repeated`, differ in the \
             {} by more than chance explains",
            wide.name
        ))
    }
}

/// Clause on the first figure below 0, or above what such a one can be; none where there is none.
fn beyond(path: &str, value: &Value) -> Option<String> {
    match value {
        Value::Object(parts) => parts.iter().find_map(|(name, part)| match path {
            "" if NO_FIGURES.contains(&name.as_str()) => None,
            "" => beyond(name, part),
            path => beyond(&format!("{path}.{name}"), part),
        }),
        Value::Array(rows) => {
            let mut rows = rows.iter().enumerate();
            rows.find_map(|(index, row)| beyond(&format!("{path}.{index}"), row))
        }
        Value::Number(number) => {
            let (_, most) = LARGEST.iter().find(|(end, _)| path.ends_with(end))?;
            let is_possible = number.as_f64().is_some_and(|value| (0.0..=*most).contains(&value));
            (!is_possible).then(|| format!("`{path}` is {number}, and can be 0 to {most}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;
    use serde_json::json;

    use super::super::QuickTry;
    use super::super::tests::report;
    use super::*;

    /// Reading of an answer in which a place has another value.
    fn read(report: &QuickReport, change: Option<(&str, Value)>) -> Result<QuickReport, String> {
        let scratch = Scratch::new("quick-read");
        let path = scratch.join("q.json");
        let mut answer = serde_json::to_value(report).unwrap();
        if let Some((place, value)) = change {
            *answer.pointer_mut(place).unwrap_or_else(|| panic!("no {place}")) = value;
        }
        std::fs::write(&path, answer.to_string()).unwrap();
        QuickReport::read(&path).map_err(|problem| problem.to_string())
    }

    /// They were printed, and an interval from one of them excused any check.
    #[test]
    fn an_answer_with_a_figure_that_can_t_be_is_refused() {
        let mut whole = report(4, 4);
        let point = whole.check_predicted.clone().unwrap();
        whole.check_repeated = vec![point.clone(); 8];
        whole.earlier = vec![QuickTry { measured: point.clone(), predicted: point }];
        assert_eq!(read(&whole, None).unwrap(), whole);
        assert_eq!(read(&report(0, 0), None).unwrap(), report(0, 0));
        for (place, value, told) in [
            ("/curve/2/load_p95_s", json!(-1.0), "`curve.2.load_p95_s` is -1.0, and can be 0 to"),
            ("/measured/reuse_share", json!(1.1), "is 1.1, and can be 0 to 1: this answer was"),
            ("/limits/read_gib_per_s", json!(1e308), "is 1e+308, and can be 0 to 1000000"),
            ("/check_s", json!(u64::MAX), "`check_s` is 18446744073709551615, and can be"),
            ("/speed", json!(1e9), "`speed` is 1000000000.0, and can be 0 to 100"),
            ("/earlier/0/measured/users", json!(0), "it has figures of 0 users"),
            ("/curve/1/users", json!(4), "the users of its `curve` do not rise"),
            ("/space_gib", json!(0.0), "`space_gib` or `turn_gib` is 0"),
            ("/users", json!(0), "`users` is 0, and its `verdict` is good for some"),
            ("/check_repeated/3/load_p95_s", json!(1e308), "`check_repeated.3.load_p95_s` is"),
            ("/check_repeated/3/load_p95_s", json!(5e3), "differ in the load P95 by more than"),
        ] {
            let problem = read(&whole, Some((place, value))).unwrap_err();
            assert!(problem.contains(told) && problem.contains("measure again"), "{problem}");
        }
        // By chance P95s differ by less.
        assert!(read(&whole, Some(("/check_repeated/3/load_p95_s", json!(2.0)))).is_ok());
        // Others used the drive; any number may be a seed.
        for (place, value) in [("/kernel_share", json!(4.68)), ("/seed", json!(u64::MAX))] {
            assert!(read(&whole, Some((place, value))).is_ok(), "{place}");
        }
    }
}
