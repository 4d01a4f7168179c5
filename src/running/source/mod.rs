//! Opening what requests come from: files, directories, patterns, compressed or not; datasets read
//! before the run, traces read beside it by a thread of their own, so that no shard ever waits for
//! a file. What must not live here: the formats (`workloads/source`).

mod feed;
mod files;
mod reading;
mod recorded;
mod spool;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfall_workloads::source::tokenizer::{CountTokens, Tokenizer, estimate};
use ringfall_workloads::source::{
    IoTrace, Open, Pace, ReplayObject, ReplayedRows, Row, Rows, ShareGptLimits, SideBySide,
    Skipped, Stream, StreamSettings, TraceFormat, ValidationTrace, objects_read_first,
    read_sharegpt, read_validation,
};
use ringfall_workloads::{Error, Source};

use files::Stamps;

pub use feed::{Feed, ROWS_AHEAD, RowReader};
pub use files::open as open_file;
pub use reading::Reading;
pub use recorded::RecordedTrace;

#[cfg(not(feature = "tokenizer"))]
use ringfall_config::Part;
use ringfall_config::{Arrival, BURST_TRACE, InputError, Plan, TraceKind, Traffic};
use ringfall_host::Room;
use ringfall_model::facts::SourceFacts;

/// Where a run's requests come from, ready to go.
pub struct OpenSource {
    /// Source that the shards' workloads draw from.
    pub workload: Source,
    /// The rows of a trace.
    pub rows: Option<RowReader>,
    /// Facts about the trace's or dataset's files, for the report.
    pub facts: SourceFacts,
}

/// Opens what the plan names.
///
/// # Errors
/// The file can't be read or is not what it should be; which, where, and why.
pub fn open(plan: &Plan, reading: &Reading) -> Result<OpenSource, InputError> {
    let reading = &reading.repeated();
    match &plan.traffic {
        Traffic::Drawn => Ok(OpenSource {
            workload: Source::Synthetic,
            rows: None,
            facts: SourceFacts::default(),
        }),
        Traffic::ShareGpt { path } => open_dataset(plan, path, reading),
        Traffic::Trace { kind, path } => open_trace(plan, *kind, path, reading),
    }
}

/// Reads a dataset's conversations, all of them.
fn open_dataset(plan: &Plan, path: &Path, reading: &Reading) -> Result<OpenSource, InputError> {
    let limits = ShareGptLimits {
        conversations_max: plan.max_conversations,
        count_tokens: counting(plan.tokenizer)?,
        context_tokens_max: plan.workload.dataset_context_tokens_max,
        generate_tokens_max: plan.workload.dataset_generate_tokens_max,
        memory_bytes_max: memory_for_lists(),
    };
    let wrong = |what: String| wrong("--dataset-path", path, what);
    let reader = files::open(path, reading).map_err(wrong)?;
    let (dataset, skipped) =
        read_sharegpt(reader, &limits).map_err(|error| wrong(error.to_string()))?;
    let facts = SourceFacts {
        files: vec![path.display().to_string()],
        conversations: Some(u64::from(dataset.len())),
        turns: Some(dataset.turns_in_all()),
        digest: Some(dataset.digest()),
        skipped,
        ..SourceFacts::default()
    };
    Ok(OpenSource { workload: Source::Dataset(Arc::new(dataset)), rows: None, facts })
}

/// The function that counts tokens as a tokenizer does.
fn counting(tokenizer: Tokenizer) -> Result<CountTokens, InputError> {
    match tokenizer {
        #[cfg(feature = "tokenizer")]
        Tokenizer::Cl100k => Ok(|text| bpe_openai::cl100k_base().count(text)),
        #[cfg(not(feature = "tokenizer"))]
        Tokenizer::Cl100k => Err(InputError::new(Part::Tokenizer.refusal())),
        Tokenizer::Estimate => Ok(estimate),
    }
}

/// Opens a trace and reads its first request; of a logical trace, what it has to find as well.
fn open_trace(
    plan: &Plan,
    kind: TraceKind,
    path: &Path,
    reading: &Reading,
) -> Result<OpenSource, InputError> {
    let flag = match kind {
        TraceKind::BurstGpt => "--burst-trace-path",
        TraceKind::Mooncake => "--mooncake-trace",
        TraceKind::Recorded => "--trace",
        TraceKind::Io(_) => "--replay-trace",
    };
    if kind == TraceKind::BurstGpt && path == Path::new(BURST_TRACE) && !path.exists() {
        return Err(InputError::new(format!(
            "--use-burst-trace: there is no {BURST_TRACE} here, which is the trace when no other \
             is named: give --burst-trace-path"
        )));
    }
    let opened = match kind {
        TraceKind::BurstGpt => OpenedTrace::of_format(TraceFormat::BurstGpt, path, reading),
        TraceKind::Mooncake => OpenedTrace::of_format(TraceFormat::Mooncake, path, reading),
        TraceKind::Io(tiers) => OpenedTrace::of_operations(tiers, path, reading),
        TraceKind::Recorded => OpenedTrace::recorded(path, plan.users, reading),
    };
    let OpenedTrace { paths, open, streams, format } =
        opened.map_err(|what| wrong(flag, path, what))?;
    let stamps = Stamps::look(&paths);
    let pace = match (plan.request_rate_per_s, plan.trace_speedup) {
        (rate, _) if rate > 0.0 => {
            Pace::Rate { per_s: rate, poisson: plan.arrival == Arrival::Poisson }
        }
        (_, 0.0) => Pace::NoGaps,
        (_, speedup) => Pace::Recorded { speedup },
    };
    let settings = StreamSettings {
        pace,
        cycles: plan.replay_cycles,
        requests_max: plan.max_requests.unwrap_or(0),
        users: plan.users,
        seed: plan.seed,
    };
    let operations = match kind {
        TraceKind::Io(tiers) => Some(read_operations(path, &paths, tiers, reading)?),
        _ => None,
    };
    let facts = SourceFacts {
        operations: operations.as_ref().map(|(count, _)| *count),
        populated: operations.as_ref().map(|(_, objects)| {
            (objects.len() as u64, objects.iter().map(|object| object.bytes).sum())
        }),
        files: paths.iter().map(|path| path.display().to_string()).collect(),
        format,
        ..SourceFacts::default()
    };
    let mut stream = Stream::new(open, streams, settings);
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
    reading.end();
    let rows = Some(RowReader::new(first, stream, facts.operations, stamps));
    let block_tokens = format.and_then(TraceFormat::block_tokens).unwrap_or(0);
    let workload = match operations {
        Some((_, objects)) => Source::Operations(objects.into()),
        None => Source::Rows { block_tokens },
    };
    Ok(OpenSource { workload, rows, facts })
}

/// A trace of which nothing but its beginning has been read.
struct OpenedTrace {
    paths: Vec<PathBuf>,
    /// Opens the rows of each of the streams.
    open: Open,
    /// Number of streams that follow each other, each with a clock of its own.
    streams: usize,
    /// Format of the requests; none for operations.
    format: Option<TraceFormat>,
}

impl OpenedTrace {
    /// A trace of a format that was named.
    fn of_format(
        format: TraceFormat,
        path: &Path,
        reading: &Reading,
    ) -> Result<OpenedTrace, String> {
        let opened = OpenedTrace::by_file(path, reading, move |reader| format.rows(reader))?;
        Ok(OpenedTrace { format: Some(format), ..opened })
    }

    /// A trace of operations.
    fn of_operations(
        tiers: ReplayedRows,
        path: &Path,
        reading: &Reading,
    ) -> Result<OpenedTrace, String> {
        OpenedTrace::by_file(path, reading, move |reader| {
            Ok(Box::new(IoTrace::new(reader, tiers)?))
        })
    }

    /// One stream for each file, whose rows are those of `rows_of`.
    fn by_file(
        path: &Path,
        reading: &Reading,
        rows_of: impl Fn(Box<dyn BufRead + Send>) -> Result<Box<dyn Rows>, Error> + Send + 'static,
    ) -> Result<OpenedTrace, String> {
        let paths = files::expand(path, &files::TRACE_ENDINGS)?;
        let (to_open, beside) = (paths.clone(), reading.clone());
        let open: Open = Box::new(move |n| {
            let name = to_open[n].display().to_string();
            let named = |what: String| Error::new(format!("{name}: {what}"));
            let reader = files::open(&to_open[n], &beside).map_err(named)?;
            let rows = rows_of(reader).map_err(|error| named(error.to_string()))?;
            Ok(Box::new(NamedRows { name, rows }))
        });
        Ok(OpenedTrace { streams: paths.len(), paths, open, format: None })
    }

    /// A trace of a format that is recognised: one stream for all files. Where they have one
    /// session after the other, up to `users` of them take place at once.
    fn recorded(path: &Path, users: u32, reading: &Reading) -> Result<OpenedTrace, String> {
        let first = RecordedTrace::open(path, None, reading).map_err(|error| {
            // Who asks names the path too.
            let text = error.to_string();
            let name = format!("{}: ", path.display());
            text.strip_prefix(&name).unwrap_or(&text).to_owned()
        })?;
        let (format, paths) = (first.format(), first.files().to_vec());
        let (path, beside) = (path.to_path_buf(), reading.clone());
        let open: Open = Box::new(move |_| {
            let trace = RecordedTrace::open(&path, Some(format), &beside)?;
            let rows: Box<dyn Rows> = match format.is_by_session() {
                true => Box::new(SideBySide::new(Box::new(trace), users as usize)),
                false => Box::new(trace),
            };
            Ok(rows)
        });
        Ok(OpenedTrace { paths, open, streams: 1, format: Some(format) })
    }
}

/// Part of the machine's memory that may remember what a file lists, percent: the run comes after.
const LISTS_PERCENT_MAX: u64 = 25;
/// The same where nothing says how much memory there is, and the most anywhere: what a trace of 20
/// million entries takes.
const LISTS_BYTES_MAX: u64 = 1 << 30;

/// Memory that remembering what a file lists may take, bytes.
fn memory_for_lists() -> u64 {
    let bytes = Room::look().memory_bytes().map(|bytes| bytes / 100 * LISTS_PERCENT_MAX);
    bytes.unwrap_or(LISTS_BYTES_MAX).min(LISTS_BYTES_MAX)
}

struct NamedRows {
    name: String,
    rows: Box<dyn Rows>,
}

impl Rows for NamedRows {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        self.rows.next_row().map_err(|error| Error::new(format!("{}: {error}", self.name)))
    }

    fn skipped(&self) -> Skipped {
        self.rows.skipped()
    }
}

/// Reads a logical trace once to its end: every row must be one, and what it reads before it writes
/// must be known.
fn read_operations(
    path: &Path,
    paths: &[PathBuf],
    tiers: ReplayedRows,
    reading: &Reading,
) -> Result<(u64, Vec<ReplayObject>), InputError> {
    let wrong = |what: String| wrong("--replay-trace", path, what);
    let [file] = paths else {
        return Err(wrong("it stands for several files: give one".to_owned()));
    };
    let reader = files::open(file, reading).map_err(wrong)?;
    let mut rows = IoTrace::new(reader, tiers).map_err(|error| wrong(error.to_string()))?;
    let found = objects_read_first(&mut rows, memory_for_lists())
        .map_err(|error| wrong(error.to_string()))?;
    if found.0 == 0 {
        let what =
            "none of its operations is one to replay (--replay-tiers all: those in any tier)";
        return Err(wrong(what.to_owned()));
    }
    Ok(found)
}

/// Reads the trace to compare with, if one is given.
///
/// # Errors
/// As [`open`].
pub fn open_validation(
    plan: &Plan,
    reading: &Reading,
) -> Result<Option<ValidationTrace>, InputError> {
    let Some(path) = &plan.validation_trace else { return Ok(None) };
    let wrong = |what: String| wrong("--validation-trace", path, what);
    let reader = files::open(path, &reading.repeated()).map_err(wrong)?;
    read_validation(reader).map(Some).map_err(|error| wrong(error.to_string()))
}

fn wrong(flag: &str, path: &Path, what: String) -> InputError {
    InputError::new(format!("{flag} {}: {what}", path.display()))
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    use super::*;

    /// Counts by OpenAI's own tokenizer (tiktoken, cl100k_base).
    #[test]
    fn counts_are_those_of_the_published_vocabulary() {
        let count = counting(Tokenizer::Cl100k).unwrap();
        for (text, tokens) in [
            ("hello world", 2),
            ("tiktoken is great!", 6),
            ("antidisestablishmentarianism", 6),
            ("2 + 2 = 4", 7),
            ("お誕生日おめでとう", 9),
            ("", 0),
        ] {
            assert_eq!(count(text), tokens, "{text}");
        }
    }
}

#[cfg(test)]
mod pipes {
    use ringfall_config::{Facts, Options, resolve};
    use ringfall_host::Scratch;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Rows of two passes over a trace in a pipe, and of one by whoever opens it later.
    fn rows_of(name: &str, text: &str, options: Options) -> [usize; 2] {
        let scratch = Scratch::new(name);
        let path = scratch.join("trace");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (own, text) = (path.clone(), text.to_owned());
        let writer = std::thread::spawn(move || std::fs::write(own, text).unwrap());
        let mut plan = resolve(&options, None, &Facts::look()).unwrap();
        if let Traffic::Trace { path: named, .. } = &mut plan.traffic {
            *named = path;
        }
        let reading = Reading::new(|| false, false);
        let counts = [plan.replay_cycles, 1].map(|cycles| {
            plan.replay_cycles = cycles;
            let mut rows = open(&plan, &reading).unwrap().rows.unwrap();
            let count = std::iter::from_fn(|| rows.next_row(1)).count();
            assert_eq!(rows.figures().failure, None);
            count
        });
        writer.join().unwrap();
        counts
    }

    /// "It is empty", it was told when it was opened again.
    #[test]
    fn a_trace_in_a_pipe_is_read_as_often_as_one_in_a_file() {
        let row = r#"{"timestamp": 0, "input_length": 9, "output_length": 9, "hash_ids": [1]}"#;
        let mooncake = format!("{row}\n{row}\n{row}\n");
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                     1,GPT-4,9,9,18,Conversation log\n2,GPT-4,9,9,18,Conversation log\n";
        let path = || Some(PathBuf::from("trace"));
        let twice = Options { replay_cycles: Some(2), ..Options::default() };
        let options = Options { mooncake_trace: path(), ..twice.clone() };
        assert_eq!(rows_of("pipe-mooncake", &mooncake, options), [6, 3]);
        let options = Options { trace: path(), ..twice.clone() };
        assert_eq!(rows_of("pipe-trace", &mooncake, options.clone()), [6, 3]);
        assert_eq!(rows_of("pipe-columns", burst, options), [4, 2]);
        let burst_trace_path = path();
        let options = Options { use_burst_trace: Some(true), burst_trace_path, ..twice };
        assert_eq!(rows_of("pipe-burst", burst, options), [4, 2]);
    }
}
