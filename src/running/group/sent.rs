//! Histograms in the form in which ranks exchange them, as a module of serde's `with`: that of the
//! results; none where nothing was recorded.

use ringfall_core::metrics::Histogram;
use ringfall_model::document::EncodedHistogram;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Encodes a histogram, or that there is none.
pub fn serialize<S: Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    EncodedHistogram::of(histogram).serialize(to)
}

/// Decodes what was encoded so.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
    match Option::<EncodedHistogram>::deserialize(from)? {
        Some(encoded) => encoded.decode().map_err(D::Error::custom),
        None => Ok(Histogram::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Sent(#[serde(with = "super")] Histogram);

    #[test]
    fn a_histogram_arrives_as_it_was_sent_or_is_damaged() {
        let mut sent = Sent(Histogram::new());
        assert_eq!(serde_json::to_string(&sent).unwrap(), "null");
        assert_eq!(serde_json::from_str::<Sent>("null").unwrap(), sent);
        [5, 9_000_001, 77_777_777].into_iter().for_each(|ns| sent.0.record(ns));
        let wire = serde_json::to_string(&sent).unwrap();
        assert_eq!(serde_json::from_str::<Sent>(&wire).unwrap(), sent);
        let of_damaged = |from: &str, to: &str| {
            let damaged = wire.replace(from, to);
            assert_ne!(damaged, wire);
            serde_json::from_str::<Sent>(&damaged).unwrap_err().to_string()
        };
        let of_max =
            of_damaged(&format!("\"max_ns\":{}", sent.0.max_ns().unwrap()), "\"max_ns\":99");
        assert!(of_max.contains("`max_ns` is 99"), "{of_max}");
        let of_sum = of_damaged(&format!("\"{}\"", sent.0.sum_ns()), "\"x\"");
        assert!(of_sum.contains("`sum_ns` is not a number"), "{of_sum}");
    }
}
