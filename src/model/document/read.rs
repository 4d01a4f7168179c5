//! Reading one JSON result: ringfall's or the reference benchmark's, and saying what is wrong with
//! anything else.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::open_plain;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::{Map, Value};

use super::{Agreed, CacheStatsReport, ConfigReport, Document, SCHEMA_VERSION, Summary, damage};
use crate::figures::figure::Part;

/// A file that is not what it should be: named, with what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", terminal_path(path), terminal(what))]
pub struct FileProblem {
    /// Path of the file, as it was given or found.
    pub path: PathBuf,
    /// Problem with the file, and the remedy.
    pub what: String,
}

impl FileProblem {
    /// A problem with `path`.
    pub fn new(path: &Path, what: impl Into<String>) -> FileProblem {
        FileProblem { path: path.to_owned(), what: what.into() }
    }
}

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
    /// Path of the file, as it was given or found.
    pub path: PathBuf,
    /// The result, read into the program's own shape.
    pub document: Document,
}

impl ResultFile {
    /// Reads a result.
    ///
    /// # Errors
    /// When the file can't be read, is no JSON, or is not a result.
    pub fn read(path: &Path) -> Result<ResultFile, FileProblem> {
        let bytes = read_bytes(path).map_err(|what| FileProblem::new(path, what))?;
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Eof => {
                    format!("the JSON ends too early ({error}): the file was cut off")
                }
                _ => format!("this is not JSON ({error}); give a result that a run wrote"),
            };
            FileProblem::new(path, what)
        })?;
        ResultFile::from_json(path, value)
    }

    /// Reads a result of ringfall, one run or several merged.
    ///
    /// # Errors
    /// As [`ResultFile::read`], and when it is the reference benchmark's.
    pub fn read_ours(path: &Path) -> Result<ResultFile, FileProblem> {
        let file = ResultFile::read(path)?;
        if file.kind() == Kind::Reference {
            let what = "this result holds only the reference benchmark's figures (it has no \
                        `ringfall`); give a result of `ringfall run`";
            return Err(FileProblem::new(path, what));
        }
        Ok(file)
    }

    /// The result that `value`, said to be from `path`, is.
    ///
    /// # Errors
    /// When it is not a result.
    pub fn from_json(path: &Path, value: Value) -> Result<ResultFile, FileProblem> {
        let foreign = |what: &str| {
            let what = format!(
                "{what}; give a JSON result that `ringfall run` or the reference benchmark wrote \
                 with --output"
            );
            Err(FileProblem::new(path, what))
        };
        let Value::Object(object) = value else {
            return foreign("this is JSON, but not an object");
        };
        match object.get("ringfall") {
            None => {}
            Some(Value::Object(ours)) => match ours.get("schema_version").and_then(Value::as_u64) {
                Some(version) if version == u64::from(SCHEMA_VERSION) => {}
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
        if object.contains_key("ringfall_roofline") {
            return foreign("these are a drive's limits, which `--roofline` takes");
        }
        if !object.get("summary").is_some_and(Value::is_object) {
            return foreign("this is JSON, but not a benchmark result: it has no `summary`");
        }
        let document = if object.contains_key("ringfall") {
            whole_document(&Value::Object(object)).map_err(|what| FileProblem::new(path, what))?
        } else {
            reference(object)
        };
        Ok(ResultFile { path: path.to_owned(), document })
    }

    /// Whether it is one run of ringfall, several merged, or a run of the reference benchmark.
    pub fn kind(&self) -> Kind {
        let ours = &self.document.ringfall;
        match (ours.schema_version.known(), &ours.merged) {
            (None, _) => Kind::Reference,
            (Some(_), Some(_)) => Kind::Merged,
            (Some(_), None) => Kind::Run,
        }
    }

    /// The file, as it is shown.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The JSON files of a directory that may hold results, in the order of their names: not hidden
/// ones, and not those that `is_other` knows by their names.
pub fn json_files(
    directory: &Path,
    is_other: fn(&str) -> bool,
) -> Result<Vec<PathBuf>, FileProblem> {
    files(directory, |name| name.ends_with(".json") && !is_other(name))
}

/// The files of a directory whose names are wanted, in their order, without the hidden ones.
pub fn files(
    directory: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, FileProblem> {
    let unreadable = |error: std::io::Error| FileProblem::new(directory, error.to_string());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && is_wanted(&name) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// A result of ringfall; a sentence where a figure of it is damaged.
fn whole_document(value: &Value) -> Result<Document, String> {
    Document::deserialize(value).map_err(|error| {
        let wrong = error.to_string();
        match &damage::place::<Document>(value, &wrong)[..] {
            "" => format!("this result is damaged: {wrong}; run it again"),
            place => format!("`{place}` of this result is damaged: {wrong}; run it again"),
        }
    })
}

/// A result of the reference benchmark: of its figures those that are ours. A figure that has
/// another form there is not one of them, and is unknown.
fn reference(mut object: Map<String, Value>) -> Document {
    let part = |object: &mut Map<String, Value>, name: &str| match object.remove(name) {
        Some(Value::Object(part)) => part,
        _ => Map::new(),
    };
    let recorded = ConfigReport::recorded(&object);
    let mut summary = part(&mut object, "summary");
    let stats = part(&mut summary, "cache_stats");
    let mut document: Document = fitting(object, |key| Document::NAMES.contains(&key));
    document.ringfall.config = recorded.map(Agreed::of).unwrap_or_default();
    document.summary = Part(fitting(summary, |key| Summary::NAMES.contains(&key)));
    document.summary.cache_stats =
        Part(fitting(stats, |key| CacheStatsReport::NAMES.contains(&key) || key.ends_with("_ms")));
    document
}

/// Keeps the figures of the object that fit the type, each judged by itself.
fn fitting<T: Default + DeserializeOwned>(
    object: Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> T {
    let known = object.into_iter().filter(|(key, _)| is_known(key)).map(whole);
    let mut known = Value::Object(known.collect());
    // Most results have every figure in our form, and are read once.
    if let Ok(read) = T::deserialize(&known) {
        return read;
    }
    let fits = |key: &String, value: &mut Value| {
        let alone = std::iter::once((key.as_str(), &*value));
        T::deserialize(MapDeserializer::<_, serde_json::Error>::new(alone)).is_ok()
    };
    if let Value::Object(figures) = &mut known {
        figures.retain(fits);
    }
    T::deserialize(&known).unwrap_or_default()
}

/// Counts that were written as 30.0 are whole numbers.
fn whole((key, value): (String, Value)) -> (String, Value) {
    /// From here on not every whole number is a double.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && (0.0..=WHOLE_MAX).contains(&number) => {
            (key, Value::from(number as u64))
        }
        _ => (key, value),
    }
}

/// Largest file that is read: hundreds of times the largest result (six arrays of at most 100,000
/// numbers, and a day's timeline).
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The bytes of a plain file.
///
/// # Errors
/// A sentence: it can't be read, is none, is empty or impossibly large.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("this is not a plain file; give a file that a run wrote".to_owned());
    }
    if metadata.len() == 0 {
        return Err("the file is empty: the run that wrote it did not finish".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("{} bytes are more than any result has", metadata.len()));
    }
    let mut bytes = Vec::new();
    let read = open_plain(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(document: Value) -> Result<ResultFile, String> {
        ResultFile::from_json(Path::new("a.json"), document).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_a_result_is_told_apart() {
        let version = SCHEMA_VERSION;
        for (document, word) in [
            (json!([1]), "not an object"),
            (json!({ "a": 1 }), "no `summary`"),
            (json!({ "ringfall_roofline": 1 }), "a drive's limits"),
            (json!({ "summary": 3 }), "no `summary`"),
            (json!({ "summary": {}, "ringfall": 3 }), "not an object"),
            (json!({ "summary": {}, "ringfall": {} }), "schema_version"),
            (json!({ "ringfall": { "schema_version": version } }), "no `summary`"),
            (json!({ "summary": {}, "ringfall": { "schema_version": 99 } }), "version 99"),
            (
                json!({ "summary": { "total_tokens": "many" },
                        "ringfall": { "schema_version": version } }),
                "`summary.total_tokens` of this result is damaged: invalid type: string \"many\"",
            ),
            (
                json!({ "summary": { "elapsed_time": 2 }, "ringfall": {
                    "requests": { "all": { "p95": { "estimate_ms": "x" } } },
                    "schema_version": version } }),
                "`ringfall.requests.all.p95.estimate_ms` of this result is damaged",
            ),
            (
                json!({ "summary": {}, "ringfall": {
                    "autoscaler": { "curve": [{}, { "users": 1.5 }] },
                    "schema_version": version } }),
                "`ringfall.autoscaler.curve.1.users` of this result is damaged",
            ),
        ] {
            let error = result(document).unwrap_err();
            assert!(error.starts_with("a.json: ") && error.contains(word), "{error}");
        }
        assert_eq!(result(json!({ "summary": {} })).unwrap().kind(), Kind::Reference);
        let ringfall = json!({ "schema_version": version, "merged": {} });
        let merged = json!({ "summary": {}, "ringfall": ringfall });
        assert_eq!(result(merged).unwrap().kind(), Kind::Merged);
    }

    #[test]
    fn the_reference_s_figures_are_read_where_they_are_ours_and_are_unknown_otherwise() {
        let document = result(json!({
            "requests_completed": 8.0,
            "total_tokens_generated": "many",
            "throughput_timeline": [{ "second": 1 }],
            "end_to_end_latencies": [0.5, 1],
            "summary": {
                "total_tokens": 30, "elapsed_time": 2,
                "end_to_end_latency_ms": { "mean": 3.5, "p95": 7 },
                "autoscaling_stats": [{ "step": 1 }],
                "qos_metrics": { "interactive": 1 },
                "cache_stats": {
                    "cache_hits": 5, "storage_health": "good", "note": "x",
                    "storage_read_device_p95_ms": 2.5, "cpu_read_p95_ms": "n/a" } } }))
        .unwrap()
        .document;
        assert_eq!(document.requests_completed.known(), Some(8));
        assert_eq!(document.total_tokens_generated.known(), None);
        assert!(document.throughput_timeline.is_empty());
        assert_eq!(*document.end_to_end_latencies, [0.5, 1.0]);
        let summary = &document.summary;
        assert_eq!(
            (summary.total_tokens.known(), summary.total_requests.known()),
            (Some(30), None)
        );
        assert_eq!(summary.elapsed_time.known(), Some(2.0));
        let latency = summary.end_to_end_latency_ms.as_ref().unwrap();
        assert_eq!((latency.p95.known(), latency.p999.known()), (Some(7.0), None));
        assert!(summary.autoscaling_stats.is_empty() && summary.qos_metrics.is_unknown());
        let stats = &summary.cache_stats;
        assert_eq!((stats.cache_hits.known(), stats.cache_misses.known()), (Some(5), None));
        assert!(stats.storage_health.is_unknown());
        assert_eq!(stats.latencies_ms.get("storage_read_device_p95_ms"), Some(2.5));
        assert_eq!(stats.latencies_ms.get("cpu_read_p95_ms"), None);
    }

    #[test]
    fn recorded_arguments_of_the_reference_are_its_configuration() {
        let of = |args: Value| result(json!({ "summary": {}, "args": args })).unwrap();
        let args = json!({ "model": "m", "num_users": 7, "cpu_mem_gb": 0.5, "duration": 300,
                           "max_concurrent_allocs": 0, "generation_mode": "none" });
        let file = of(args.clone());
        assert_eq!(file.kind(), Kind::Reference);
        let config = file.document.ringfall.config.as_ref().unwrap();
        assert_eq!((config.model.as_deref(), config.num_users), (Some("m"), Some(7)));
        assert_eq!((config.cpu_memory_bytes, config.duration_s), (Some(1 << 29), Some(300)));
        assert_eq!(config.max_concurrent_allocs, None);
        for missing in ["model", "num_users", "cpu_mem_gb", "generation_mode"] {
            let mut args = args.clone();
            args.as_object_mut().unwrap().remove(missing);
            assert!(of(args).document.ringfall.config.as_ref().is_none(), "{missing}");
        }
    }
}
