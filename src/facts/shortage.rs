//! A tier that got less space than it was to have.

use std::fmt;

use ringfall_engine::tier::Tier;

use crate::host::human;

/// Which tier, how much less, since when and why.
#[derive(Clone, Debug, PartialEq)]
pub struct TierShortage {
    /// The tier.
    pub tier: Tier,
    /// Bytes that it was to hold.
    pub wanted_bytes: u64,
    /// Bytes that it could hold from then on.
    pub given_bytes: u64,
    /// Since when, s after the start of the measurement window (negative: before it); none: since
    /// the run began.
    pub since_s: Option<f64>,
    /// Why: what comes after "because".
    pub why: String,
}

impl fmt::Display for TierShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = match self.tier {
            Tier::Gpu => "GPU tier",
            Tier::Cpu => "CPU tier",
            Tier::Storage => "storage tier",
        };
        let (given, wanted) = (human(self.given_bytes), human(self.wanted_bytes));
        write!(f, "the {tier} holds {given} instead of {wanted}")?;
        match self.since_s {
            None => {}
            Some(since_s) if since_s < 0.0 => {
                write!(f, " since {:.1} s before the measurement", -since_s)?;
            }
            Some(since_s) => write!(f, " since {since_s:.1} s into the measurement")?,
        }
        write!(f, ", because {}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfall_engine::units::GIB;

    #[test]
    fn the_sentence_has_both_sizes_the_time_and_the_reason() {
        let mut shortage = TierShortage {
            tier: Tier::Storage,
            wanted_bytes: 100 * GIB,
            given_bytes: 40 * GIB,
            since_s: Some(12.34),
            why: "the file system gave no more".to_owned(),
        };
        let text = "the storage tier holds 40.0 GiB instead of 100.0 GiB since 12.3 s into the \
                    measurement, because the file system gave no more";
        assert_eq!(shortage.to_string(), text);
        shortage.since_s = Some(-3.0);
        assert!(shortage.to_string().contains("since 3.0 s before the measurement, because"));
        shortage.since_s = None;
        assert!(shortage.to_string().contains("100.0 GiB, because the file"));
    }
}
