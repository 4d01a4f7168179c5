//! `ringfall.histograms`: the histograms that percentiles and summed times are worked out from, and
//! that merge exactly.

use std::collections::BTreeMap;
use std::path::Path;

use ringfall_core::key::{TIER_COUNT, Tier};
use ringfall_core::metrics::Histogram;
use serde::{Deserialize, Serialize};

use super::Document;
use super::merge::{Inputs, Merge};
use super::read::FileProblem;
use crate::RunResult;

/// Evictions by the tiers from and to, in the order of `Tier::index` of the first; then those that
/// pass the CPU tier by.
const EVICTION_PAIRS: [&str; TIER_COUNT + 1] =
    ["gpu_to_cpu", "cpu_to_storage", "storage_to_none", "gpu_to_storage"];
/// The requests from intended arrival to end, by QoS class, the most urgent first.
pub const CLASSES: [&str; 3] =
    ["end_to_end_interactive", "end_to_end_responsive", "end_to_end_batch"];
/// The ages of the requests that had not ended when the window closed, in the same order.
pub const UNFINISHED: [&str; 3] =
    ["unfinished_interactive", "unfinished_responsive", "unfinished_batch"];

/// A histogram of latencies that merges exactly with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct EncodedHistogram {
    /// Number of values in the histogram.
    pub count: u64,
    /// Exact sum of the values, ns, as a string of digits, since it may be larger than a JSON
    /// number can hold.
    pub sum_ns: String,
    /// Exact largest value, ns, of values up to 1 h; null in results of versions that did not keep
    /// it. Of results merged with such ones, the largest value of its bucket.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// The values in ns as an HDR histogram (V2 format, base64), from 1 µs to 1 h with 3
    /// significant digits.
    pub hdr_v2: String,
}

impl EncodedHistogram {
    /// Encodes a histogram; `None` when it is empty.
    pub fn of(histogram: &Histogram) -> Option<EncodedHistogram> {
        (histogram.count() > 0).then(|| EncodedHistogram {
            count: histogram.count(),
            sum_ns: histogram.sum_ns().to_string(),
            max_ns: histogram.max_ns(),
            hdr_v2: histogram.to_base64_v2(),
        })
    }

    /// Decodes the histogram.
    ///
    /// # Errors
    /// Returns a message that says which part is damaged.
    pub fn decode(&self) -> Result<Histogram, String> {
        let sum: u128 = self
            .sum_ns
            .parse()
            .map_err(|_| format!("its `sum_ns` is not a number: {:?}", self.sum_ns))?;
        let mut histogram =
            Histogram::from_base64_v2(&self.hdr_v2, sum).map_err(|error| error.to_string())?;
        if let Some(max_ns) = self.max_ns
            && !histogram.set_max_ns(max_ns)
        {
            return Err(format!("its `max_ns` is {max_ns}, which is not the largest it holds"));
        }
        let count = self.count;
        if histogram.count() != count {
            return Err(format!("its `count` is {count}, but it holds {}", histogram.count()));
        }
        // No latency is longer than what 64 bits of nanoseconds hold; also keeps sums far from
        // overflow.
        if sum > u128::from(count) * u128::from(u64::MAX) {
            return Err(format!("a sum of {sum} ns is impossible for {count} events"));
        }
        Ok(histogram)
    }
}

/// Histograms by their names, as a document holds them; null where nothing was measured. One that
/// can't be understood as such is kept as it is, and told when it is needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EncodedHistograms(Option<BTreeMap<String, Option<Stored>>>);

/// A histogram as it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Whole(EncodedHistogram),
    Damaged(serde_json::Value),
}

impl Stored {
    fn decode(&self) -> Result<Histogram, String> {
        match self {
            Stored::Whole(encoded) => encoded.decode(),
            Stored::Damaged(value) => {
                // Says which part is missing or of another type.
                let encoded: Result<EncodedHistogram, _> = EncodedHistogram::deserialize(value);
                encoded.map_err(|error| error.to_string())?.decode()
            }
        }
    }
}

impl EncodedHistograms {
    /// The histogram of that name; none when nothing was measured, or it is damaged.
    pub fn decoded(&self, name: &str) -> Option<Histogram> {
        self.0.as_ref()?.get(name)?.as_ref()?.decode().ok()
    }

    /// Number of values in the histogram of that name; none when nothing was measured.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.0.as_ref()?.get(name)?.as_ref()? {
            Stored::Whole(encoded) => Some(encoded.count),
            Stored::Damaged(_) => None,
        }
    }
}

impl Merge for EncodedHistograms {
    const RULE: &'static str = "derived";

    fn merged(_: &[&Self], _: &Inputs) -> Self {
        EncodedHistograms::default()
    }
}

/// Histograms by their names, to work with. One that is not here was not recorded by one of the
/// results: without it the rest would not be the whole.
#[derive(Clone, Debug, Default)]
pub struct Histograms(BTreeMap<String, Histogram>);

impl Histograms {
    pub(super) fn of(result: &RunResult) -> Histograms {
        let (engine, requests) = (&result.engine, &result.requests);
        let mut all = BTreeMap::new();
        let mut put = |name: String, histogram: &Histogram| {
            all.insert(name, histogram.clone());
        };
        for tier in Tier::ALL {
            let metrics = engine.tier(tier);
            for (direction, metrics) in [("read", &metrics.read), ("write", &metrics.write)] {
                let name = format!("{}_{direction}", tier.name());
                put(format!("{name}_total"), &metrics.total);
                put(format!("{name}_device"), &metrics.device);
                put(format!("{name}_host"), &metrics.host);
            }
        }
        put("io_read".into(), &engine.io_read.latency);
        put("io_write".into(), &engine.io_write.latency);
        put("io_flush".into(), &engine.io_flush.latency);
        let ended = CLASSES.iter().zip(&requests.end_to_end);
        for (name, histogram) in ended.chain(UNFINISHED.iter().zip(&requests.unfinished)) {
            put((*name).to_owned(), histogram);
        }
        put("storage_io".into(), &requests.storage_io);
        put("request_room".into(), &requests.room);
        put("request_permit".into(), &requests.permit);
        put("context_load".into(), &requests.load);
        put("generation".into(), &requests.generation);
        put("recompute".into(), &requests.recompute);
        put("prefill".into(), &requests.prefill);
        put("decode".into(), &requests.decode);
        let waits = &engine.waits;
        put("wait_room".into(), &waits.room);
        put("wait_growth".into(), &waits.growth);
        put("wait_buffer".into(), &waits.buffer);
        put("wait_queue_place".into(), &waits.queue_place);
        put("wait_allocation_permit".into(), &result.allocation_wait);
        put("wait_request_queue".into(), &requests.queued);
        let rows = engine.evictions.iter().chain([&engine.evictions_gpu_to_storage]);
        for (name, row) in EVICTION_PAIRS.iter().zip(rows) {
            put(format!("evict_{name}_room"), &row.room);
            put(format!("evict_{name}_read"), &row.read);
            put(format!("evict_{name}_write"), &row.write);
        }
        Histograms(all)
    }

    /// Those of a document, said to be from `path`.
    ///
    /// # Errors
    /// When it has none, or one is damaged.
    pub fn read(document: &Document, path: &Path) -> Result<Histograms, FileProblem> {
        let Some(stored) = &document.ringfall.histograms.0 else {
            let what = "it has no histograms (`ringfall.histograms`), only percentiles, which \
                        can't be merged; give results of `ringfall run`";
            return Err(FileProblem::new(path, what));
        };
        let decoded = stored.iter().map(|(name, stored)| {
            let histogram = match stored {
                None => Histogram::new(),
                Some(stored) => stored.decode().map_err(|what| {
                    let what = format!("the histogram `{name}` is damaged: {what}; run it again");
                    FileProblem::new(path, what)
                })?,
            };
            Ok((name.clone(), histogram))
        });
        Ok(Histograms(decoded.collect::<Result<_, FileProblem>>()?))
    }

    /// Adds another result's: what only one of the two has is left out.
    pub fn add(&mut self, other: &Histograms) {
        self.0.retain(|name, _| other.0.contains_key(name));
        for (name, mine) in &mut self.0 {
            if let Some(theirs) = other.0.get(name) {
                mine.merge(theirs);
            }
        }
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Histogram> {
        self.0.get(name)
    }

    /// All of those as one; `None` when one is not there.
    pub fn sum(&self, names: &[&str]) -> Option<Histogram> {
        names.iter().try_fold(Histogram::new(), |mut all, name| {
            all.merge(self.get(name)?);
            Some(all)
        })
    }

    /// As a document holds them.
    pub(super) fn encoded(&self) -> EncodedHistograms {
        let encoded = |(name, histogram): (&String, &Histogram)| {
            (name.clone(), EncodedHistogram::of(histogram).map(Stored::Whole))
        };
        EncodedHistograms(Some(self.0.iter().map(encoded).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::document::{ResultFile, SCHEMA_VERSION};

    #[test]
    fn damaged_histograms_are_named() {
        let mut histogram = Histogram::new();
        histogram.record(1_000_000);
        let good = histogram.to_base64_v2();
        let cut = &good[..good.len() / 2];
        let path = Path::new("a.json");
        let error_of = |document: Value| {
            let document = ResultFile::from_json(path, document).unwrap().document;
            Histograms::read(&document, path).unwrap_err().to_string()
        };
        for (value, word) in [
            (json!({ "count": 1, "sum_ns": "5", "hdr_v2": cut }), "read_total"),
            (json!({ "count": 2, "sum_ns": "5", "hdr_v2": good }), "count"),
            (json!({ "count": 1, "sum_ns": 5, "hdr_v2": good }), "a string"),
            (json!({ "count": 1, "sum_ns": "x", "hdr_v2": good }), "sum_ns"),
            (json!({ "count": 1, "sum_ns": u128::MAX.to_string(), "hdr_v2": good }), "impossible"),
            (json!({ "count": 1, "sum_ns": "5" }), "hdr_v2"),
            (json!({ "count": 1, "sum_ns": "5", "max_ns": 7, "hdr_v2": good }), "max_ns"),
            (json!(7), "EncodedHistogram"),
        ] {
            let error = error_of(json!({ "summary": {}, "ringfall": {
                "schema_version": SCHEMA_VERSION,
                "histograms": { "storage_read_total": value } } }));
            assert!(error.contains("storage_read_total") && error.contains(word), "{error}");
        }
        assert!(error_of(json!({ "summary": {} })).contains("no histograms"));
    }
}
