//! ringfall's own data file measured as the layouts are: each prefix is an entry of an engine.

use std::collections::VecDeque;
use std::time::Instant;

use ringfall_core::clock::Nanos;
use ringfall_core::held::HeldDirectory;
use ringfall_core::key::EntryKey;
use ringfall_core::units::{MIB, gib};
use ringfall_engine::engine::{Engine, EngineError, Entries, Pending};
use ringfall_engine::files::{FileLoad, FileOutcome, FileWorkers, Stopwatch};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::shard::{Durability, ReadOutcome, WriteMode, WriteOutcome};
use ringfall_model::facts::{EngineLimits, LayoutPhase, LayoutRun};
use ringfall_workloads::layout::{OURS_IN_FLIGHT, shuffled};

use super::{LayoutBench, LayoutError, PREFIXES_MIN, STORE_TIMES, few_in_flight, phase, rate};

/// Size of an I/O, bytes.
const IO_BYTES: u64 = MIB;
/// Prefixes under way for each shard: one more, so that its queue stays full between two.
const PREFIXES_A_SHARD: u64 = 2;

/// An outcome of the engine's: how long a prefix took, or why it did not go well.
type Took = Result<Nanos, String>;

fn read_took(outcome: ReadOutcome) -> Took {
    match outcome {
        ReadOutcome::Hit { times, .. } => Ok(times.total),
        ReadOutcome::Miss => Err("a prefix that was stored is not there".to_owned()),
        ReadOutcome::Failed(error) => Err(error.to_string()),
    }
}

fn write_took(outcome: WriteOutcome) -> Took {
    match outcome {
        WriteOutcome::Written { times, .. } => Ok(times.total),
        WriteOutcome::Failed(error) => Err(error.to_string()),
        other => Err(format!("a prefix was not stored: {other:?}")),
    }
}

impl LayoutBench<'_> {
    /// Measures ringfall's own data file in the directory, which is empty again afterwards, with
    /// prefixes of so many bytes; none where a signal ended that.
    ///
    /// # Errors
    /// [`LayoutError`]. A failed I/O is none: the outcome tells it.
    pub fn measure_native(
        &self,
        directory: &HeldDirectory,
        prefix_bytes: u64,
        cores: u32,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<LayoutRun>, LayoutError> {
        let shards = u64::from(cores).clamp(1, OURS_IN_FLIGHT);
        let depth = OURS_IN_FLIGHT / shards;
        let engine = Engine::builder()
            .directory(directory.path().join("native"))
            .storage_bytes(self.space_bytes)
            // Shards and depth are at most 64.
            .shards(shards as u16)
            .queue_depth(depth as u32)
            .io_bytes(IO_BYTES)
            .durability(Durability::None)
            .verify(VerifyMode::Off)
            .seed(self.seed)
            .start()?;
        let found = self.moved_natively(&engine.entries(), prefix_bytes, shards, tell);
        let stopped = engine.stop();
        let found = found?;
        stopped?;
        Ok(found.filter(|_| !self.interrupt.is_set()))
    }

    fn moved_natively(
        &self,
        entries: &Entries,
        prefix_bytes: u64,
        shards: u64,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<LayoutRun>, LayoutError> {
        let most = self.space_bytes / prefix_bytes;
        let load = FileLoad {
            workers: FileWorkers::Ring { depth: (OURS_IN_FLIGHT / shards * shards) as usize },
            in_flight: (PREFIXES_A_SHARD * shards).min(most) as usize,
            largest_bytes: IO_BYTES,
            seed: self.seed,
        };
        let figures = |outcome: &FileOutcome| LayoutPhase {
            operations_per_s: rate(
                (outcome.requests.count() * prefix_bytes.div_ceil(IO_BYTES)) as f64,
                outcome.elapsed_ns as f64 / 1e9,
            ),
            ..phase(&load, outcome, gib(outcome.requests.count() * prefix_bytes))
        };
        tell("storing");
        let (mut stored, began) = (FileOutcome::default(), Instant::now());
        let until = began + self.each * STORE_TIMES;
        let prefixes =
            (0..most).take_while(|&prefix| prefix < PREFIXES_MIN || Instant::now() < until);
        let write = |key| entries.begin_write(key, prefix_bytes, WriteMode::Replace);
        let failed = self.move_prefixes(prefixes, &load, write, write_took, &mut stored)?;
        let settling = Instant::now();
        entries.flush()?;
        let settle_s = settling.elapsed().as_secs_f64();
        stored.written_bytes = stored.requests.count() * prefix_bytes;
        let store = figures(&stored);
        let mut run = LayoutRun {
            layout: "native",
            limits: EngineLimits::Ours,
            changed_options: Vec::new(),
            objects_per_prefix: 1,
            object_bytes: prefix_bytes,
            prefix_bytes,
            useful_bytes: prefix_bytes,
            durable_gib_per_s: rate(gib(stored.written_bytes), store.seconds + settle_s),
            prefixes: store.prefixes,
            store,
            settle_s,
            fetch: None,
            failure: failed.map(|why| format!("storing ended early: {why}")),
            notes: Vec::new(),
        };
        if run.failure.is_some() || self.interrupt.is_set() {
            return Ok(Some(run));
        }
        tell("fetching");
        let mut fetched = FileOutcome::default();
        let until = Instant::now() + self.each;
        let passes = (0..).flat_map(|pass| shuffled(run.prefixes, self.seed, pass));
        let prefixes =
            passes.enumerate().take_while(|(place, _)| *place == 0 || Instant::now() < until);
        let (prefixes, read) = (prefixes.map(|(_, prefix)| prefix), |key| entries.begin_read(key));
        let failed = self.move_prefixes(prefixes, &load, read, read_took, &mut fetched)?;
        fetched.read_bytes = fetched.requests.count() * prefix_bytes;
        let fetch = figures(&fetched);
        run.failure = failed.map(|why| format!("fetching ended early: {why}"));
        run.notes.extend(few_in_flight("stores", &run.store));
        run.notes.extend(few_in_flight("fetches", &fetch));
        run.fetch = Some(fetch);
        Ok(Some(run))
    }

    /// Has prefixes moved, so many at a time as the load says, until one fails: why. Those before
    /// are counted, with the time and the CPU time of all.
    fn move_prefixes<T>(
        &self,
        prefixes: impl Iterator<Item = u64>,
        load: &FileLoad,
        begin: impl Fn(EntryKey) -> Result<Pending<T>, EngineError>,
        took: impl Fn(T) -> Took,
        outcome: &mut FileOutcome,
    ) -> Result<Option<String>, EngineError> {
        let stopwatch = Stopwatch::start();
        let mut prefixes = prefixes.take_while(|_| !self.interrupt.is_set());
        let mut under_way = VecDeque::new();
        let failed = loop {
            while under_way.len() < load.in_flight
                && let Some(prefix) = prefixes.next()
            {
                under_way.push_back(begin(EntryKey(prefix.into()))?);
            }
            let Some(next) = under_way.pop_front() else { break None };
            match took(next.wait()?) {
                Ok(took) => outcome.requests.record(took.as_ns()),
                Err(why) => break Some(why),
            }
        };
        stopwatch.stop(outcome);
        Ok(failed)
    }
}
