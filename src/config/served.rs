//! Rule by which users count as served, on what storage can answer for.

use std::str::FromStr;

use super::values::seconds;

/// Targets of storage: the time that it adds before the first token, and the share of earlier turns
/// that it still has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedRule {
    /// Largest P95 of the time in which a request loads what was there before it, s.
    pub load_p95_s: f64,
    /// Smallest share of earlier turns that are found when they are looked for, 0 to 1.
    pub reuse_share: f64,
}

impl ServedRule {
    /// Longest load that a rule may allow, s.
    pub const LOAD_S_MAX: f64 = 3_600.0;
}

impl Default for ServedRule {
    /// A second before the first token is what interactive use bears (as in MLPerf Inference, whose
    /// interactive scenarios allow 0.45 to 2 s for all of it), and a cache that has lost more than
    /// a third of what it is for is too small.
    fn default() -> ServedRule {
        ServedRule { load_p95_s: 1.0, reuse_share: 0.7 }
    }
}

impl FromStr for ServedRule {
    type Err = String;

    fn from_str(text: &str) -> Result<ServedRule, String> {
        let mut rule = ServedRule::default();
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        for (index, part) in parts.iter().enumerate() {
            let is_same = |other: &&&str| target(other) == target(part);
            if let Some(other) = parts[..index].iter().find(is_same) {
                return Err(format!("{other} and {part} are the same target: give one of them"));
            }
            match part.split_once('=') {
                Some(("load-p95", value)) => rule.load_p95_s = load_s(value)?,
                Some(("reuse", value)) => rule.reuse_share = share(value)?,
                _ => {
                    return Err(format!(
                        "{part:?} is no target: give load-p95=TIME, reuse=SHARE or both, such as \
                         load-p95=1s,reuse=70%"
                    ));
                }
            }
        }
        Ok(rule)
    }
}

/// The target's name in a part such as `reuse=70%`.
fn target(part: &str) -> &str {
    part.split_once('=').map_or(part, |(name, _)| name)
}

/// A time such as `500ms`, `1.5s` or `2`, in seconds.
fn load_s(text: &str) -> Result<f64, String> {
    let value = seconds(text).ok().filter(|value| *value > 0.0 && *value <= ServedRule::LOAD_S_MAX);
    value.ok_or_else(|| {
        format!("load-p95={text} is no time such as 500ms or 1s, above 0 and at most 1 h")
    })
}

/// A share such as `70%` or `0.7`.
fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    let value = value.ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| format!("reuse={text} is no share such as 70% or 0.7"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_their_units_and_what_is_left_out_keeps_its_default() {
        let rule = |load_p95_s, reuse_share| Ok(ServedRule { load_p95_s, reuse_share });
        assert_eq!("load-p95=500ms,reuse=90%".parse(), rule(0.5, 0.9));
        assert_eq!("reuse=0.5".parse(), rule(1.0, 0.5));
        assert_eq!(" load-p95=2 ".parse(), rule(2.0, 0.7));
        for wrong in [
            "",
            "load-p95",
            "load-p95=",
            "load-p95=-1s",
            "load-p95=inf",
            "reuse=70",
            "reuse=-1%",
            "p95=1s",
            "load-p95=NaN",
            "load-p95=2h",
            "reuse=%",
        ] {
            let error = wrong.parse::<ServedRule>().unwrap_err();
            assert!(error.contains("such as"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_target_that_is_given_twice_is_refused_with_both_values() {
        for (twice, told) in [
            ("load-p95=1s,load-p95=2s", "load-p95=1s and load-p95=2s are the same target"),
            ("reuse=70%, load-p95=1s, reuse=70%", "reuse=70% and reuse=70% are the same target"),
        ] {
            let error = twice.parse::<ServedRule>().unwrap_err();
            assert!(error.contains(told), "{twice}: {error}");
        }
    }
}
