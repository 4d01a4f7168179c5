//! Opening what requests come from: files, directories, patterns, compressed or not; datasets read
//! before the run, traces read beside it by a thread of their own, so that no shard ever waits for
//! a file. What must not live here: the formats (`workloads/source`).

mod feed;
mod files;

use std::sync::Arc;

use ringfall_workloads::Source;
use ringfall_workloads::source::{
    BurstGpt, Mooncake, Pace, Rows, ShareGptLimits, Skipped, SourceRequest, Stream, StreamSettings,
    ValidationTrace, read_sharegpt, read_validation,
};

pub use feed::{Feed, FeedFigures};

use crate::config::{Arrival, InputError, Plan, Tokenizer, TraceKind, Traffic};

/// Where a run's requests come from, ready to go.
pub struct OpenSource {
    /// What the shards' workloads are told.
    pub workload: Source,
    /// The rows of a trace.
    pub rows: Option<OpenTrace>,
    /// What was found.
    pub facts: SourceFacts,
}

/// A trace whose first request has been read already: it is one.
pub struct OpenTrace {
    /// That request.
    pub first: SourceRequest,
    /// The others.
    pub stream: Stream,
}

/// What was found where requests come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceFacts {
    /// Files, in the order read.
    pub files: Vec<String>,
    /// Conversations of a dataset.
    pub conversations: Option<u64>,
    /// Their turns.
    pub turns: Option<u64>,
    /// What of a dataset was skipped.
    pub skipped: Skipped,
}

/// Opens what the plan names.
///
/// # Errors
/// The file can't be read or is not what it should be; which, where, and why.
pub fn open(plan: &Plan) -> Result<OpenSource, InputError> {
    match &plan.traffic {
        Traffic::Drawn => Ok(OpenSource {
            workload: Source::Synthetic,
            rows: None,
            facts: SourceFacts::default(),
        }),
        Traffic::ShareGpt { path, conversations_max, tokenizer } => {
            let limits = ShareGptLimits {
                conversations_max: *conversations_max,
                tokenizer: match tokenizer {
                    Tokenizer::Cl100k => ringfall_workloads::source::tokenizer::Tokenizer::Cl100k,
                    Tokenizer::Estimate => {
                        ringfall_workloads::source::tokenizer::Tokenizer::Estimate
                    }
                },
                context_tokens_max: plan.workload.dataset_context_tokens_max,
                generate_tokens_max: plan.workload.dataset_generate_tokens_max,
            };
            let wrong = |what: String| wrong("--dataset-path", path, what);
            let reader = files::open(path).map_err(wrong)?;
            let (dataset, skipped) =
                read_sharegpt(reader, &limits).map_err(|error| wrong(error.to_string()))?;
            let facts = SourceFacts {
                files: vec![path.display().to_string()],
                conversations: Some(u64::from(dataset.len())),
                turns: Some(dataset.turns_in_all()),
                skipped,
            };
            Ok(OpenSource { workload: Source::Dataset(Arc::new(dataset)), rows: None, facts })
        }
        Traffic::Trace { kind, path, speedup, cycles } => {
            let flag = match kind {
                TraceKind::BurstGpt => "--burst-trace-path",
                TraceKind::Mooncake => "--mooncake-trace",
            };
            let paths = files::expand(path).map_err(|what| wrong(flag, path, what))?;
            let pace = match (plan.request_rate_per_s, speedup) {
                (rate, _) if rate > 0.0 => {
                    Pace::Rate { per_s: rate, poisson: plan.arrival == Arrival::Poisson }
                }
                (_, 0.0) => Pace::NoGaps,
                (_, speedup) => Pace::Recorded { speedup: *speedup },
            };
            let settings = StreamSettings {
                pace,
                cycles: *cycles,
                requests_max: plan.max_requests.unwrap_or(0),
                users: plan.users,
                seed: plan.seed,
            };
            let facts = SourceFacts {
                files: paths.iter().map(|path| path.display().to_string()).collect(),
                ..SourceFacts::default()
            };
            let (kind, count) = (*kind, paths.len());
            let open = move |n: usize| -> Result<Box<dyn Rows>, ringfall_workloads::Error> {
                let named = |what: String| {
                    ringfall_workloads::Error::new(format!("{}: {what}", paths[n].display()))
                };
                let reader = files::open(&paths[n]).map_err(named)?;
                Ok(match kind {
                    TraceKind::BurstGpt => {
                        let rows = BurstGpt::new(reader).map_err(|e| named(e.to_string()))?;
                        Box::new(rows)
                    }
                    TraceKind::Mooncake => Box::new(Mooncake::new(reader)),
                })
            };
            let mut stream = Stream::new(Box::new(open), count, settings);
            let first = stream
                .next_request()
                .map_err(|error| {
                    let text = error.to_string();
                    // Errors of opening name the file already.
                    match facts.files.iter().any(|file| text.starts_with(file.as_str())) {
                        true => InputError::new(format!("{flag} {text}")),
                        false => wrong(flag, path, text),
                    }
                })?
                .ok_or_else(|| wrong(flag, path, "it has no request".to_owned()))?;
            Ok(OpenSource {
                workload: Source::Rows,
                rows: Some(OpenTrace { first, stream }),
                facts,
            })
        }
    }
}

/// Reads the trace to compare with, if one is given.
///
/// # Errors
/// As [`open`].
pub fn open_validation(plan: &Plan) -> Result<Option<ValidationTrace>, InputError> {
    let Some(path) = &plan.validation_trace else { return Ok(None) };
    let wrong = |what: String| wrong("--validation-trace", path, what);
    let reader = files::open(path).map_err(wrong)?;
    read_validation(reader).map(Some).map_err(|error| wrong(error.to_string()))
}

fn wrong(flag: &str, path: &std::path::Path, what: String) -> InputError {
    InputError::new(format!("{flag} {}: {what}", path.display()))
}
