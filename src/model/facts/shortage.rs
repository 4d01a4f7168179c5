//! A tier that got less space than it was to have.

use std::fmt;

use ringfall_core::key::Tier;

use ringfall_host::human_apart;

/// Which tier, how much less, since when and why.
#[derive(Clone, Debug, PartialEq)]
pub struct TierShortage {
    /// The tier that was smaller than asked for.
    pub tier: Tier,
    /// Bytes that it was to hold.
    pub wanted_bytes: u64,
    /// Bytes that it could hold from then on.
    pub given_bytes: u64,
    /// Since when, s after the start of the measurement window (negative: before it); none: since
    /// the run began.
    pub since_s: Option<f64>,
    /// When it began to grow again, by the same clock; none: it did not.
    pub until_s: Option<f64>,
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
        let (given, wanted) = human_apart(self.given_bytes, self.wanted_bytes);
        let verb = if self.until_s.is_some() { "held" } else { "holds" };
        write!(f, "the {tier} {verb} {given} instead of {wanted}")?;
        if let Some(since_s) = self.since_s {
            write!(f, " since {}", Moment(since_s))?;
        }
        if let Some(until_s) = self.until_s {
            write!(f, " until it could grow again {}", Moment(until_s))?;
        }
        write!(f, ", because {}", self.why)
    }
}

/// A time in a sentence, s after the start of the measurement.
struct Moment(f64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            before if before < 0.0 => write!(f, "{:.1} s before the measurement", -before),
            into => write!(f, "{into:.1} s into the measurement"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;

    use super::*;

    #[test]
    fn the_sentence_has_both_sizes_the_time_and_the_reason() {
        let mut shortage = TierShortage {
            tier: Tier::Storage,
            wanted_bytes: 100 * GIB,
            given_bytes: 40 * GIB,
            since_s: Some(12.34),
            until_s: None,
            why: "the file system gave no more".to_owned(),
        };
        let text = "the storage tier holds 40.0 GiB instead of 100.0 GiB since 12.3 s into the \
                    measurement, because the file system gave no more";
        assert_eq!(shortage.to_string(), text);
        shortage.given_bytes = 4_613_734_400;
        shortage.wanted_bytes = 4_624_220_160;
        let text = shortage.to_string();
        assert!(text.contains("holds 4.30 GiB instead of 4.31 GiB since"), "{text}");
        shortage.wanted_bytes = shortage.given_bytes + 4096;
        let text = shortage.to_string();
        assert!(text.contains("holds 4.296875 GiB instead of 4.296879 GiB"), "{text}");
        (shortage.given_bytes, shortage.wanted_bytes) = (40 * GIB, 100 * GIB);
        shortage.since_s = Some(-3.0);
        assert!(shortage.to_string().contains("since 3.0 s before the measurement, because"));
        shortage.until_s = Some(30.0);
        let text = shortage.to_string();
        assert!(text.contains("storage tier held 40.0 GiB"), "{text}");
        assert!(text.contains("until it could grow again 30.0 s into the measurement"), "{text}");
        (shortage.since_s, shortage.until_s) = (None, None);
        assert!(shortage.to_string().contains("100.0 GiB, because the file"));
    }
}
