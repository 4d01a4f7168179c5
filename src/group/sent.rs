//! Histograms in the form in which ranks exchange them.

use ringfall_engine::metrics::Histogram;
use serde::{Deserialize, Serialize};

/// A histogram as ranks send it: the counters as HDR V2 in base64, and what these lack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentHistogram {
    hdr_v2: String,
    /// The exact sum, which a number of JSON may not hold.
    sum_ns: String,
    max_ns: u64,
}

impl SentHistogram {
    /// For sending; none when nothing was recorded.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<SentHistogram> {
        let max_ns = histogram.max_ns()?;
        Some(SentHistogram {
            hdr_v2: histogram.to_base64_v2(),
            sum_ns: histogram.sum_ns().to_string(),
            max_ns,
        })
    }

    /// As it was sent.
    ///
    /// # Errors
    /// Description of the damaged part.
    pub fn histogram(&self) -> Result<Histogram, String> {
        let sum_ns = self.sum_ns.parse().map_err(|_| format!("{:?} is no sum", self.sum_ns))?;
        let mut histogram =
            Histogram::from_base64_v2(&self.hdr_v2, sum_ns).map_err(|error| error.to_string())?;
        match histogram.set_max_ns(self.max_ns) {
            true => Ok(histogram),
            false => Err(format!("{} ns is not the largest it holds", self.max_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_arrives_as_it_was_sent_or_is_damaged() {
        assert_eq!(SentHistogram::of(&Histogram::new()), None);
        let mut sent = Histogram::new();
        [5, 9_000_001, 77_777_777].into_iter().for_each(|ns| sent.record(ns));
        let wire = SentHistogram::of(&sent).unwrap();
        assert_eq!(wire.histogram().unwrap(), sent);
        let damaged = SentHistogram { max_ns: 99, ..wire.clone() };
        assert!(damaged.histogram().unwrap_err().contains("99 ns"));
        let damaged = SentHistogram { sum_ns: "x".to_owned(), ..wire };
        assert!(damaged.histogram().unwrap_err().contains("no sum"));
    }
}
