//! Layouts in which inference engines keep KV cache, measured on a drive: their objects stored as
//! each engine stores them, and prefixes fetched again.
//!
//! Lives here: how long, with which workers, and what the outcome comes to. Not here: which objects
//! and operations a layout has (`ringfall_workloads::layout`), and who carries the operations out
//! (`ringfall_engine::files`).

mod native;
mod replay;
mod steps;
mod tier;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfall_core::error::SetupError;
use ringfall_core::held::HeldDirectory;
use ringfall_core::units::gib;
use ringfall_engine::engine::EngineError;
use ringfall_engine::files::{
    FaultCause, FileFault, FileLoad, FileOutcome, FilePass, FileWorkers, StepKind, run, run_passes,
};
use ringfall_host::interrupt::Interrupt;
use ringfall_host::{Machine, human};
use ringfall_model::facts::{EngineLimits, LayoutPhase, LayoutRun, OperationFigures};
use ringfall_workloads::layout::{EngineWorkers, LayoutPlan, LayoutWork, OURS_IN_FLIGHT, shuffled};

use rustix::fs::syncfs;

pub use replay::{Replay, ReplayOutcome};

use crate::remedy::remedy;
use crate::saturate::Counted;
use steps::{empty, forgetting, request};
pub use tier::{TierFiles, TierLayout};

/// Stores take at most so many times as long as fetches.
const STORE_TIMES: u32 = 4;
/// Prefixes that are stored at least, however long that takes.
const PREFIXES_MIN: u64 = 2;
/// Most workers of a layout, however much memory there is.
const WORKERS_MAX: u64 = 4_096;
/// Largest object that a worker has a buffer for, bytes.
pub const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// Share of the requests below which their mean number in flight is told.
const IN_FLIGHT_SHARE: f64 = 0.75;
/// Threads that make files, or have the kernel forget them.
const NAME_THREADS: usize = 4;

/// Settings of a comparison.
#[derive(Clone, Debug)]
pub struct LayoutBench<'a> {
    /// Machine with the drive, whose counters tell whether fetches came from it.
    pub machine: &'a Machine,
    /// Duration of the fetches of each layout.
    pub each: Duration,
    /// Space that each layout's objects may take, bytes.
    pub space_bytes: u64,
    /// Number of empty files that are there before each layout that has a file for each object.
    pub populate_objects: u64,
    /// Memory for the workers' buffers, bytes.
    pub memory_bytes: u64,
    /// Random seed of contents and of the order of fetches.
    pub seed: u64,
    /// Set when a signal ends the comparison.
    pub interrupt: &'a Interrupt,
}

/// Why a comparison ended early.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// Workers could not begin.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The engine of ringfall's own data file could not go on.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A call on the directory failed, outside of what is measured.
    #[error("{what} failed: {error}; {}", remedy(error))]
    Directory {
        /// Attempt that failed, a part of a sentence.
        what: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// An operation failed, and then what had been stored could not be removed.
    #[error("{layout}: {why}")]
    Failed {
        /// Name of the layout.
        layout: &'static str,
        /// Sentence about the operation.
        why: String,
    },
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> LayoutError {
    move |error| LayoutError::Directory { what, error }
}

impl LayoutBench<'_> {
    /// Number of a layout's prefixes that fit in the space.
    pub fn prefixes(&self, plan: &LayoutPlan) -> u64 {
        self.space_bytes / plan.prefix_bytes()
    }

    /// Measures a layout in the directory, which is empty again afterwards; none where a signal
    /// ended that. `tell` is given what is being done, a part of a sentence.
    ///
    /// # Errors
    /// [`LayoutError`]. A failed operation is none: the outcome tells it.
    pub fn measure(
        &self,
        directory: &HeldDirectory,
        plan: &LayoutPlan,
        limits: EngineLimits,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<LayoutRun>, LayoutError> {
        let measured = self.stored_and_fetched(directory, plan, limits, tell);
        let removed = directory.clear().map_err(failed("removing what was stored"));
        // What failed first is told, whether or not the rest could be removed.
        let found = measured?;
        if let (Err(_), Some(LayoutRun { layout, failure: Some(why), .. })) = (&removed, &found) {
            return Err(LayoutError::Failed { layout, why: why.clone() });
        }
        removed?;
        Ok(found.filter(|_| !self.interrupt.is_set()))
    }

    fn stored_and_fetched(
        &self,
        directory: &HeldDirectory,
        plan: &LayoutPlan,
        limits: EngineLimits,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<LayoutRun>, LayoutError> {
        if self.populate_objects > 0 && plan.has_file_each() {
            tell("making files");
            self.populate(directory, plan)?;
        }
        tell("storing");
        let mut notes = Vec::new();
        let load = self.load(plan, LayoutWork::Store, limits, self.prefixes(plan), &mut notes);
        let (prefixes, stored) = self.store(directory, plan, &load, limits)?;
        let began = Instant::now();
        let settled = settle(directory).map_err(failed("writing the page cache to the drive"));
        let settle_s = began.elapsed().as_secs_f64();
        // What failed first is told.
        if stored.faults.is_empty() {
            settled?;
        }
        // A bucket that is not full is not written: what counts is what went to the drive.
        let part = plan.useful_bytes() as f64 / plan.prefix_bytes() as f64;
        let useful_gib = gib(stored.written_bytes) * part;
        let mut store = phase(&load, &stored, useful_gib);
        if plan.stores_buckets() {
            // A request wrote buckets, which were full at its turn.
            store.prefixes = plan.whole_prefixes(prefixes);
            (store.p50_ms, store.p99_ms) = (None, None);
            notes.push(
                "stores have no latency of a prefix: it is in the engine's memory when its put \
                 returns, and is written with others when they fill a bucket"
                    .to_owned(),
            );
        }
        let mut found = LayoutRun {
            layout: plan.layout().name(),
            limits,
            changed_options: plan.options().changed(),
            objects_per_prefix: plan.objects_per_prefix(),
            object_bytes: plan.objects(0).first().map_or(0, |object| object.bytes),
            prefix_bytes: plan.prefix_bytes(),
            useful_bytes: plan.useful_bytes(),
            durable_gib_per_s: rate(useful_gib, store.seconds + settle_s),
            store,
            settle_s,
            prefixes: plan.whole_prefixes(prefixes),
            fetch: None,
            failure: stored.faults.first().map(|fault| told("storing", fault)),
            notes,
        };
        if found.failure.is_some() || self.interrupt.is_set() {
            return Ok(Some(found));
        }
        tell("fetching");
        let (stored, notes) = (found.prefixes, &mut found.notes);
        let load = self.load(plan, LayoutWork::Load, limits, stored, notes);
        let before = Counted::now(self.machine, false);
        let fetched = self.fetch(directory, plan, &load, limits, found.prefixes)?;
        let after = Counted::now(self.machine, false);
        let told_cold = |(before, after): (Counted, Counted)| {
            before.warning(&after, self.machine, fetched.read_bytes)
        };
        found.notes.extend(before.zip(after).and_then(told_cold));
        found.failure = fetched.faults.first().map(|fault| told("fetching", fault));
        let useful_gib = gib(fetched.requests.count() * plan.useful_bytes());
        let fetch = phase(&load, &fetched, useful_gib);
        if found.failure.is_none() {
            found.notes.extend(few_in_flight("stores", &found.store));
            found.notes.extend(few_in_flight("fetches", &fetch));
        }
        found.fetch = Some(fetch);
        Ok(Some(found))
    }

    /// Makes empty files with names of the layout's objects, as of prefixes that nobody fetches.
    fn populate(&self, directory: &HeldDirectory, plan: &LayoutPlan) -> Result<(), LayoutError> {
        let objects = (self.prefixes(plan)..).flat_map(|prefix| plan.objects(prefix));
        let mut requests = objects.take(self.populate_objects as usize).map(|one| empty(one.path));
        let outcome =
            run(directory, &self.by_names(), &mut || requests.next(), self.interrupt.flag())?;
        if let Some(fault) = outcome.faults.first() {
            let (layout, why) = (plan.layout().name(), told("making files", fault));
            return Err(LayoutError::Failed { layout, why });
        }
        settle(directory).map_err(failed("writing the page cache to the drive"))
    }

    /// Threads for work on names alone.
    fn by_names(&self) -> FileLoad {
        FileLoad {
            workers: FileWorkers::Calls { threads: NAME_THREADS },
            in_flight: NAME_THREADS,
            largest_bytes: 4096,
            seed: self.seed,
        }
    }

    /// Workers for that direction: the engine's, or many in flight; no more than so many prefixes
    /// have work for, and than memory has buffers for.
    fn load(
        &self,
        plan: &LayoutPlan,
        work: LayoutWork,
        limits: EngineLimits,
        prefixes: u64,
        notes: &mut Vec<String>,
    ) -> FileLoad {
        // Parts of a request that are worked on side by side.
        let (mut largest_bytes, mut parts) = (0, 1);
        for request in (0..prefixes).map(|prefix| plan.request(work, prefix)) {
            largest_bytes = largest_bytes.max(request.largest_bytes());
            let scripts = request.tiles.iter().map(|tile| tile.scripts.len() as u64);
            parts = parts.max(match limits {
                EngineLimits::Theirs => scripts.filter(|scripts| *scripts > 0).count() as u64,
                // An object's lookup is a script of its own.
                EngineLimits::Ours => scripts.sum::<u64>().min(plan.objects_per_prefix()),
            });
        }
        let (own, is_queue) = match (limits, plan.workers(work)) {
            (EngineLimits::Theirs, EngineWorkers::Threads(threads)) => (threads, false),
            (EngineLimits::Theirs, EngineWorkers::Queue(depth)) => (depth, true),
            (EngineLimits::Ours, _) => (OURS_IN_FLIGHT, true),
        };
        let have_buffers = (self.memory_bytes / largest_bytes.max(1)).clamp(1, WORKERS_MAX);
        let in_flight = match limits {
            EngineLimits::Theirs => plan.requests(),
            // One more, so that the queue stays full where one request ends and the next begins.
            EngineLimits::Ours => own.min(have_buffers).div_ceil(parts) + 1,
        };
        let in_flight = in_flight.min(prefixes).max(1);
        let wanted = own.min(in_flight * parts);
        let count = wanted.min(have_buffers);
        if count < wanted && limits == EngineLimits::Theirs {
            let buffers = human(largest_bytes);
            notes.push(format!(
                "only {count} of the {wanted} workers that would have work: there is no memory for \
                 more buffers of {buffers}"
            ));
        }
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        FileLoad {
            workers: match is_queue {
                true => FileWorkers::Ring { depth: size(count) },
                false => FileWorkers::Calls { threads: size(count) },
            },
            in_flight: size(in_flight),
            largest_bytes,
            seed: self.seed,
        }
    }

    /// Stores prefixes until the space is full or the time is over; their number.
    fn store(
        &self,
        directory: &HeldDirectory,
        plan: &LayoutPlan,
        load: &FileLoad,
        limits: EngineLimits,
    ) -> Result<(u64, FileOutcome), LayoutError> {
        let most = self.prefixes(plan);
        // The time begins with the first request, when the workers have their buffers.
        let (mut prefix, mut until) = (0, None);
        let mut next = || {
            let until = *until.get_or_insert_with(|| Instant::now() + self.each * STORE_TIMES);
            while prefix < most {
                let is_enough =
                    prefix >= PREFIXES_MIN && plan.whole_prefixes(prefix) >= PREFIXES_MIN;
                if is_enough && Instant::now() >= until {
                    return None;
                }
                prefix += 1;
                // None where it fills no bucket.
                if let Some(request) = request(plan, LayoutWork::Store, limits, prefix - 1) {
                    return Some(request);
                }
            }
            None
        };
        let outcome = run(directory, load, &mut next, self.interrupt.flag())?;
        Ok((prefix, outcome))
    }

    /// Fetches prefixes for the time, each once a pass, in random order; before each pass the
    /// kernel forgets them.
    fn fetch(
        &self,
        directory: &HeldDirectory,
        plan: &LayoutPlan,
        load: &FileLoad,
        limits: EngineLimits,
        prefixes: u64,
    ) -> Result<FileOutcome, LayoutError> {
        let mut pass = 0;
        let outcome = run_passes(
            directory,
            load,
            &mut |measured| {
                let left = self.each.saturating_sub(measured);
                if left.is_zero() {
                    return Ok(None);
                }
                self.forget(directory, plan, prefixes)?;
                let order = shuffled(prefixes, self.seed, pass).into_iter().enumerate();
                pass += 1;
                let until = Instant::now() + left;
                let goes_on =
                    move |(place, _): &(usize, u64)| *place == 0 || Instant::now() < until;
                let load = move |(_, prefix)| request(plan, LayoutWork::Load, limits, prefix);
                let requests: FilePass<'_> = Box::new(order.take_while(goes_on).filter_map(load));
                Ok(Some(requests))
            },
            self.interrupt.flag(),
        );
        Ok(outcome?)
    }

    /// Has the kernel forget the files of these prefixes.
    fn forget(
        &self,
        directory: &HeldDirectory,
        plan: &LayoutPlan,
        prefixes: u64,
    ) -> Result<(), SetupError> {
        let objects = (0..prefixes).flat_map(|prefix| plan.objects(prefix));
        let paths: BTreeSet<Arc<str>> = objects.map(|object| object.path).collect();
        let mut requests = paths.into_iter().map(forgetting);
        run(directory, &self.by_names(), &mut || requests.next(), self.interrupt.flag())?;
        Ok(())
    }
}

/// Has a file system write what the page cache holds to the drive.
fn settle(directory: &HeldDirectory) -> io::Result<()> {
    Ok(syncfs(directory.to_read()?)?)
}

/// Sentence about the first operation that failed, with the next step.
fn told(what: &str, fault: &FileFault) -> String {
    let next = match fault.cause {
        FaultCause::Errno(errno) => remedy(&io::Error::from_raw_os_error(errno)),
        FaultCause::Short => "nothing else may change these files meanwhile",
    };
    format!("{what} ended early: {fault}; {next}")
}

/// Sentence about work that had fewer requests in flight than it may have.
fn few_in_flight(work: &str, phase: &LayoutPhase) -> Option<String> {
    let (mean, most) = (phase.requests_in_flight?, phase.requests);
    (mean < IN_FLIGHT_SHARE * most as f64).then(|| {
        format!(
            "{work} had {mean:.1} of {most} requests in flight on average, as each pass over the \
             prefixes begins and ends with fewer: more --space has longer passes"
        )
    })
}

fn rate(amount: f64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| amount / seconds)
}

/// Figures of work that moved so many GiB of KV cache.
fn phase(load: &FileLoad, outcome: &FileOutcome, useful_gib: f64) -> LayoutPhase {
    let seconds = outcome.elapsed_ns as f64 / 1e9;
    let bytes = outcome.read_bytes + outcome.written_bytes;
    let cpu_s = outcome.cpu_ns as f64 / 1e9;
    let (workers, is_queue) = match load.workers {
        FileWorkers::Calls { threads } => (threads, false),
        FileWorkers::Ring { depth } => (depth, true),
    };
    let ms = |quantile| outcome.requests.quantile_ns(quantile).map(|ns| ns as f64 / 1e6);
    let figures = |kind: StepKind| {
        let latency = outcome.step(kind);
        (latency.count() > 0).then(|| OperationFigures {
            name: kind.name(),
            count: latency.count(),
            p50_us: latency.quantile_ns(0.5).map(|ns| ns as f64 / 1e3),
            total_s: latency.sum_ns() as f64 / 1e9,
        })
    };
    LayoutPhase {
        workers: workers as u64,
        is_queue,
        requests: load.in_flight as u64,
        requests_in_flight: rate(outcome.requests.sum_ns() as f64 / 1e9, seconds),
        seconds,
        prefixes: outcome.requests.count(),
        bytes,
        useful_gib_per_s: rate(useful_gib, seconds),
        operations_per_s: rate(outcome.steps() as f64, seconds),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        cpu_s_per_gib: rate(cpu_s, gib(bytes)),
        cpu_cores: rate(cpu_s, seconds),
        operations: StepKind::ALL.into_iter().filter_map(figures).collect(),
    }
}

#[cfg(test)]
mod tests;
