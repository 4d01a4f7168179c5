//! Reading one JSON result: ringfall's or the reference benchmark's, and saying what is wrong with
//! anything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfall_engine::metrics::Histogram;
use serde_json::Value;

use super::FileProblem;

/// Version of the `ringfall` key that this version reads.
const SCHEMA_VERSION: u64 = crate::results::document::SCHEMA_VERSION as u64;

/// Whose result it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One run of ringfall.
    Run,
    /// Several runs of ringfall, merged.
    Merged,
    /// One run of the reference benchmark: no histograms, no configuration.
    Reference,
}

/// A result and where it came from.
#[derive(Clone, Debug)]
pub struct ResultFile {
    /// The file.
    pub path: PathBuf,
    /// What it holds: an object with at least the reference's `summary`.
    pub document: Value,
}

impl ResultFile {
    /// Reads a result.
    ///
    /// # Errors
    /// When the file can't be read, is no JSON, or is not a result.
    pub fn read(path: &Path) -> Result<ResultFile, FileProblem> {
        let bytes = read_bytes(path)?;
        let document = serde_json::from_slice(&bytes).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Eof => {
                    format!("the JSON ends too early ({error}): the file was cut off")
                }
                _ => format!("this is no JSON ({error}); give a result that a run wrote"),
            };
            FileProblem::new(path, what)
        })?;
        ResultFile::from_document(path, document)
    }

    /// The result that `document`, said to be from `path`, is.
    ///
    /// # Errors
    /// When it is not a result.
    pub fn from_document(path: &Path, document: Value) -> Result<ResultFile, FileProblem> {
        let foreign = |what: &str| {
            let what = format!(
                "{what}; give a JSON result that `ringfall run` or the reference benchmark wrote \
                 with --output"
            );
            Err(FileProblem::new(path, what))
        };
        if !document.is_object() {
            return foreign("this is JSON, but not an object");
        }
        if !document["summary"].is_object() {
            return foreign("this is JSON, but no benchmark result: it has no `summary`");
        }
        match document.get("ringfall") {
            None => {}
            Some(Value::Object(ours)) => match ours.get("schema_version").and_then(Value::as_u64) {
                Some(SCHEMA_VERSION) => {}
                Some(version) => {
                    let what = format!(
                        "its layout is version {version}, and this ringfall ({}) reads version \
                         {SCHEMA_VERSION}; use the ringfall that wrote it",
                        env!("CARGO_PKG_VERSION")
                    );
                    return Err(FileProblem::new(path, what));
                }
                None => return foreign("its `ringfall` key has no `schema_version`"),
            },
            Some(_) => return foreign("its `ringfall` key is not an object"),
        }
        Ok(ResultFile { path: path.to_owned(), document })
    }

    /// Whose it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.document.get("ringfall") {
            None => Kind::Reference,
            Some(ours) if ours.get("merged").is_some() => Kind::Merged,
            Some(_) => Kind::Run,
        }
    }

    /// The file, as it is shown.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// `ringfall.histograms`; those in which nothing was recorded are `None`.
    ///
    /// # Errors
    /// When there are none, or one is damaged.
    pub fn histograms(&self) -> Result<BTreeMap<String, Option<Histogram>>, FileProblem> {
        let place = self.document.pointer("/ringfall/histograms");
        let Some(object) = place.and_then(Value::as_object) else {
            let what = "it has no histograms (`ringfall.histograms`), only percentiles, which \
                        can't be merged; give results of `ringfall run`";
            return Err(FileProblem::new(&self.path, what));
        };
        let decoded = object.iter().map(|(name, value)| {
            let histogram = match value {
                Value::Null => None,
                value => Some(decode(value).map_err(|what| {
                    let what = format!("the histogram `{name}` is damaged: {what}; run it again");
                    FileProblem::new(&self.path, what)
                })?),
            };
            Ok((name.clone(), histogram))
        });
        decoded.collect()
    }
}

/// The bytes of a plain file, unless it is empty or impossibly large.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, FileProblem> {
    crate::results::document::read_bytes(path).map_err(|what| FileProblem::new(path, what))
}

fn decode(value: &Value) -> Result<Histogram, String> {
    let count = value["count"].as_u64().ok_or("it has no `count`")?;
    let sum = value["sum_ns"].as_str().and_then(|sum| sum.parse::<u128>().ok());
    let sum = sum.ok_or("its `sum_ns` is no number in quotes")?;
    let text = value["hdr_v2"].as_str().ok_or("it has no `hdr_v2`")?;
    let histogram = Histogram::from_base64_v2(text, sum).map_err(|error| error.to_string())?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(document: Value) -> Result<ResultFile, String> {
        ResultFile::from_document(Path::new("a.json"), document).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_a_result_is_told_apart() {
        for (document, word) in [
            (json!([1]), "not an object"),
            (json!({ "a": 1 }), "no `summary`"),
            (json!({ "summary": 3 }), "no `summary`"),
            (json!({ "summary": {}, "ringfall": 3 }), "not an object"),
            (json!({ "summary": {}, "ringfall": {} }), "schema_version"),
            (json!({ "summary": {}, "ringfall": { "schema_version": 99 } }), "version 99"),
        ] {
            let error = result(document).unwrap_err();
            assert!(error.starts_with("a.json: ") && error.contains(word), "{error}");
        }
        assert_eq!(result(json!({ "summary": {} })).unwrap().kind(), Kind::Reference);
        let ringfall = json!({ "schema_version": SCHEMA_VERSION, "merged": {} });
        let merged = json!({ "summary": {}, "ringfall": ringfall });
        assert_eq!(result(merged).unwrap().kind(), Kind::Merged);
    }

    #[test]
    fn damaged_histograms_are_named() {
        let mut histogram = Histogram::new();
        histogram.record(1_000_000);
        let good = histogram.to_base64_v2();
        let cut = &good[..good.len() / 2];
        for (value, word) in [
            (json!({ "count": 1, "sum_ns": "5", "hdr_v2": cut }), "read_total"),
            (json!({ "count": 2, "sum_ns": "5", "hdr_v2": good }), "count"),
            (json!({ "count": 1, "sum_ns": 5, "hdr_v2": good }), "sum_ns"),
            (json!({ "count": 1, "sum_ns": u128::MAX.to_string(), "hdr_v2": good }), "impossible"),
            (json!({ "count": 1, "sum_ns": "5" }), "hdr_v2"),
            (json!(7), "count"),
        ] {
            let document = json!({ "summary": {}, "ringfall": {
                "schema_version": SCHEMA_VERSION,
                "histograms": { "storage_read_total": value } } });
            let error = result(document).unwrap().histograms().unwrap_err().to_string();
            assert!(error.contains("storage_read_total") && error.contains(word), "{error}");
        }
        let none = result(json!({ "summary": {} })).unwrap().histograms().unwrap_err();
        assert!(none.to_string().contains("no histograms"));
    }
}
