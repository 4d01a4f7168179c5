//! Histograms in the form in which ranks exchange them, as a module of serde's `with`: the counters
//! as HDR V2 in base64, and what these lack; none where nothing was recorded.

use ringfall_core::metrics::Histogram;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
struct Encoded {
    hdr_v2: String,
    /// The exact sum, which a number of JSON may not hold.
    sum_ns: String,
    max_ns: u64,
}

/// Encodes a histogram.
///
/// # Errors
/// The serializer's own.
pub fn serialize<S: Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    let encoded = histogram.max_ns().map(|max_ns| Encoded {
        hdr_v2: histogram.to_base64_v2(),
        sum_ns: histogram.sum_ns().to_string(),
        max_ns,
    });
    encoded.serialize(to)
}

/// Decodes a histogram.
///
/// # Errors
/// It is damaged.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
    let encoded = Option::<Encoded>::deserialize(from)?;
    let Some(Encoded { hdr_v2, sum_ns, max_ns }) = encoded else { return Ok(Histogram::new()) };
    let sum_ns = sum_ns.parse().map_err(|_| D::Error::custom(format!("{sum_ns:?} is no sum")))?;
    let mut histogram = Histogram::from_base64_v2(&hdr_v2, sum_ns).map_err(D::Error::custom)?;
    match histogram.set_max_ns(max_ns) {
        true => Ok(histogram),
        false => Err(D::Error::custom(format!("{max_ns} ns is not the largest it holds"))),
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
        assert!(of_max.contains("99 ns"), "{of_max}");
        let of_sum = of_damaged(&format!("\"{}\"", sent.0.sum_ns()), "\"x\"");
        assert!(of_sum.contains("no sum"), "{of_sum}");
    }
}
