//! A checkpoint on its way to its target: each thread makes a chunk's content and gives it to a
//! mover, which stores it while the next is made. With four chunks of 32 MiB the memory is 128 MiB
//! however large the checkpoint is.
//!
//! The other way, everything made before anything is stored, needs memory for the whole checkpoint;
//! it is here to be compared with.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::metrics::Histogram;
use ringfall_core::units::MIB;
use ringfall_engine::buffer::{Chunk, ChunkPool};

use super::layout::{Layout, Schedule, one_run};
use super::meter::{Doing, Meter};
use super::target::{ChunkPlace, Mover, Target, TargetError};

/// Why there is no checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamError {
    /// The target, or the memory for chunks, failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// It was told to end.
    #[error("interrupted")]
    Interrupted,
}

/// When content is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Way {
    /// While earlier content is being stored
    Stream,
    /// All of it before anything is stored, which takes memory for the whole checkpoint
    GenerateFirst,
}

impl Way {
    /// As it is given on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Stream => "stream",
            Way::GenerateFirst => "generate-first",
        }
    }
}

/// Threads and memory of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSettings {
    /// Threads that make and move chunks, ≥ 1.
    pub threads: u32,
    /// Chunks in memory, over all threads; at least one for each.
    pub buffers: u32,
    /// Length of a chunk, bytes.
    pub chunk_bytes: u64,
}

impl StreamSettings {
    /// Chunks of one thread, ≥ 1.
    fn buffers_of(&self, thread: u32) -> u32 {
        let rest = u32::from(thread < self.buffers % self.threads);
        (self.buffers / self.threads + rest).max(1)
    }

    /// Memory for one thread's chunks.
    ///
    /// # Errors
    /// There is too little of it.
    pub(super) fn pool(&self, count: u32) -> Result<ChunkPool, TargetError> {
        let bytes = usize::try_from(self.chunk_bytes).unwrap_or(usize::MAX);
        ChunkPool::new(bytes, count).map_err(|error| {
            let mib = u64::from(count).saturating_mul(self.chunk_bytes / MIB);
            let what = format!("no memory for {count} chunks, {mib} MiB: {}", error.what());
            TargetError::new(what, "lower --buffers or --chunk-mib, or free memory")
        })
    }

    /// The pool of a thread of that number.
    pub(super) fn pool_of(&self, thread: u32) -> Result<ChunkPool, TargetError> {
        self.pool(self.buffers_of(thread))
    }
}

/// Chunks of a file that are to be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileWork {
    /// Number of the file in the layout.
    pub file: usize,
    /// The chunks that are missing: runs of them, in order.
    pub missing: Vec<Range<u64>>,
    /// Whether there is a draft to go on with.
    pub goes_on: bool,
}

impl FileWork {
    /// All of every file.
    #[must_use]
    pub fn all(layout: &Layout) -> Vec<FileWork> {
        let files = layout.files.iter().enumerate();
        files
            .map(|(file, of)| FileWork { file, missing: one_run(of.chunks()), goes_on: false })
            .collect()
    }

    /// Number of chunks that are missing.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.missing.iter().map(|run| run.end - run.start).sum()
    }
}

/// Settings of a save.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaveSettings {
    /// Threads that make and move chunks, and the memory for them.
    pub stream: StreamSettings,
    /// Files that are written at the same time.
    pub files_at_once: u32,
    /// Whether it is durable when it ends.
    pub durable: bool,
    /// When content is made.
    pub way: Way,
}

/// Outcome of a save.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// Number of bytes stored at the target.
    pub bytes: u64,
    /// From the first moment until all content was taken over from the training job, which may go
    /// on then.
    pub stall: Nanos,
    /// From the first moment until every file had its final name, durable where that was asked for.
    pub stored: Nanos,
    /// Latency of each chunk, from being given to the target until it was stored.
    pub chunk_latency: Histogram,
    /// Bytes stored in each second.
    pub seconds: Vec<u64>,
}

/// Bytes that are still to be stored.
#[must_use]
pub fn missing_bytes(layout: &Layout, missing: &[FileWork]) -> u64 {
    let bytes_of = |work: &FileWork| {
        let plan = &layout.files[work.file].plan;
        // The file's last chunk may be a short one.
        let place = |chunk: u64| (chunk * plan.chunk_bytes).min(plan.bytes);
        work.missing.iter().map(|run| place(run.end) - place(run.start)).sum::<u64>()
    };
    missing.iter().map(bytes_of).sum()
}

/// One chunk's number within the layout.
type Task = (usize, u64);

/// All that the threads share.
struct Work<'a, T: Target> {
    target: &'a T,
    layout: &'a Layout,
    settings: &'a SaveSettings,
    meter: &'a Meter,
    stop: &'a (dyn Fn() -> bool + Sync),
    schedule: Mutex<Schedule>,
    drafts: Vec<Mutex<Option<Arc<T::Draft>>>>,
    goes_on: Vec<bool>,
    /// Chunks of each file that are not stored.
    left: Vec<AtomicU64>,
    is_over: AtomicBool,
}

/// Stores what is missing of a checkpoint.
///
/// # Errors
/// The first failure. What was stored is kept as drafts, where the target can do that.
pub fn save<T: Target>(
    target: &T,
    layout: &Layout,
    missing: &[FileWork],
    settings: &SaveSettings,
    meter: &Meter,
    (step, stop): (u32, &(dyn Fn() -> bool + Sync)),
) -> Result<Saved, StreamError> {
    let began = meter.begin(Doing::Saving, step, missing_bytes(layout, missing));
    let files = layout.files.len();
    let mut goes_on = vec![false; files];
    let left: Vec<AtomicU64> = (0..files).map(|_| AtomicU64::new(0)).collect();
    for work in missing {
        goes_on[work.file] = work.goes_on;
        left[work.file].store(work.chunks(), Ordering::Relaxed);
    }
    let tasks = missing.iter().map(|work| (work.file, work.missing.clone()));
    let work = Work {
        target,
        layout,
        settings,
        meter,
        stop,
        schedule: Mutex::new(Schedule::new(tasks, settings.files_at_once)),
        drafts: (0..files).map(|_| Mutex::new(None)).collect(),
        goes_on,
        left,
        is_over: AtomicBool::new(false),
    };
    // A draft of which nothing is missing only lacks its name.
    let whole = missing.iter().filter(|work| work.chunks() == 0);
    let mut result = whole.into_iter().try_for_each(|one| work.publish(one.file));
    let mut saved = Saved::default();
    if result.is_ok() {
        result = work.run(&mut saved);
    }
    work.abandon_rest(&mut result);
    result?;
    saved.bytes = meter.progress().moved_bytes;
    saved.stall = meter.last_made().saturating_sub(began);
    saved.stored = monotonic_now().saturating_sub(began);
    saved.seconds = meter.seconds();
    Ok(saved)
}

impl<T: Target> Work<'_, T> {
    fn run(&self, saved: &mut Saved) -> Result<(), StreamError> {
        let threads = self.settings.stream.threads;
        let made = match self.settings.way {
            Way::Stream => (0..threads).map(|_| None).collect(),
            Way::GenerateFirst => self.make_all()?.into_iter().map(Some).collect::<Vec<_>>(),
        };
        let numbered = made.into_iter().zip(0_u32..);
        let histograms = on_threads(numbered, |(made, thread)| {
            let result = match made {
                None => self.stream(thread),
                Some(made) => self.store(made, thread),
            };
            // One that can't go on must not leave the others to finish for nothing.
            if result.is_err() {
                self.is_over.store(true, Ordering::Relaxed);
            }
            result
        })?;
        histograms.iter().for_each(|one| saved.chunk_latency.merge(one));
        match self.is_to_stop() {
            true if self.left.iter().any(|left| left.load(Ordering::Relaxed) > 0) => {
                Err(StreamError::Interrupted)
            }
            _ => Ok(()),
        }
    }

    fn is_to_stop(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || (self.stop)()
    }

    fn next_task(&self) -> Option<Task> {
        if self.is_to_stop() {
            return None;
        }
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner).next_chunk()
    }

    fn fill(&self, (file, index): Task, chunk: &mut Chunk) {
        let of = &self.layout.files[file];
        let (offset, length) = of.piece(index, of.plan.chunk_bytes);
        of.fill(&mut chunk.bytes_mut()[..length], offset);
        self.meter.made(length as u64);
    }

    /// Makes and stores chunks until there are no more.
    fn stream(&self, thread: u32) -> Result<Histogram, StreamError> {
        let pool = self.settings.stream.pool_of(thread)?;
        let mut mover = self.target.mover(&pool)?;
        let mut latency = Histogram::new();
        while let Some(task) = self.next_task() {
            let mut chunk = loop {
                if let Some(chunk) = pool.take() {
                    break chunk;
                }
                match mover.in_flight() {
                    0 => break pool.take_wait(),
                    _ => self.finish_one(&mut mover, &mut latency)?,
                }
            };
            // The wait for a chunk may have been long.
            if self.is_to_stop() {
                break;
            }
            self.fill(task, &mut chunk);
            self.give(&mut mover, task, chunk)?;
        }
        self.drain(mover, latency)
    }

    /// Makes everything: for each thread its pool and its chunks.
    #[expect(clippy::type_complexity, reason = "named nowhere else")]
    fn make_all(&self) -> Result<Vec<(ChunkPool, Vec<(Task, Chunk)>)>, StreamError> {
        let chunks: u64 = self.left.iter().map(|left| left.load(Ordering::Relaxed)).sum();
        let threads = self.settings.stream.threads;
        let each = u32::try_from(chunks.div_ceil(u64::from(threads))).unwrap_or(u32::MAX).max(1);
        on_threads(0..threads, |_| {
            let pool = self.settings.stream.pool(each)?;
            let mut made = Vec::new();
            while let Some(mut chunk) = pool.take()
                && let Some(task) = self.next_task()
            {
                self.fill(task, &mut chunk);
                made.push((task, chunk));
            }
            Ok((pool, made))
        })
    }

    /// Stores what was made, as many chunks at a time as a stream would.
    fn store(
        &self,
        (pool, made): (ChunkPool, Vec<(Task, Chunk)>),
        thread: u32,
    ) -> Result<Histogram, StreamError> {
        let mut mover = self.target.mover(&pool)?;
        let mut latency = Histogram::new();
        let at_once = self.settings.stream.buffers_of(thread) as usize;
        for (task, chunk) in made {
            while mover.in_flight() >= at_once {
                self.finish_one(&mut mover, &mut latency)?;
            }
            if self.is_to_stop() {
                break;
            }
            self.give(&mut mover, task, chunk)?;
        }
        self.drain(mover, latency)
    }

    fn give(
        &self,
        mover: &mut T::Mover,
        (file, index): Task,
        chunk: Chunk,
    ) -> Result<(), StreamError> {
        let draft = self.draft(file)?;
        let of = &self.layout.files[file];
        let (offset_bytes, length_bytes) = of.piece(index, of.plan.chunk_bytes);
        let place = ChunkPlace { offset_bytes, length_bytes, tag: tag_of((file, index)) };
        mover.write(&draft, place, chunk);
        Ok(())
    }

    fn drain(&self, mut mover: T::Mover, mut latency: Histogram) -> Result<Histogram, StreamError> {
        while mover.in_flight() > 0 {
            self.finish_one(&mut mover, &mut latency)?;
        }
        Ok(latency)
    }

    fn finish_one(&self, mover: &mut T::Mover, latency: &mut Histogram) -> Result<(), StreamError> {
        let moved = mover.wait()?;
        moved.outcome?;
        let (file, index) = task_of(moved.tag);
        let of = &self.layout.files[file];
        let (_, length) = of.piece(index, of.plan.chunk_bytes);
        latency.record(moved.ended.saturating_sub(moved.began).as_ns());
        self.meter.moved(length as u64, moved.ended);
        match self.left[file].fetch_sub(1, Ordering::AcqRel) {
            1 => self.publish(file),
            _ => Ok(()),
        }
    }

    /// The draft of a file, begun by whoever needs it first.
    fn draft(&self, file: usize) -> Result<Arc<T::Draft>, StreamError> {
        let mut draft = self.drafts[file].lock().unwrap_or_else(PoisonError::into_inner);
        if draft.is_none() {
            let plan = &self.layout.files[file].plan;
            *draft = Some(Arc::new(self.target.create(plan, self.goes_on[file])?));
        }
        Ok(Arc::clone(draft.as_ref().expect("just made")))
    }

    fn publish(&self, file: usize) -> Result<(), StreamError> {
        let draft = self.draft(file)?;
        self.target.publish(&draft, self.settings.durable)?;
        *self.drafts[file].lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Ends the drafts that have no name; only the first failure counts.
    fn abandon_rest(&self, result: &mut Result<(), StreamError>) {
        for draft in &self.drafts {
            let draft = draft.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(draft) = draft
                && let Err(error) = self.target.abandon(&draft, true)
                && result.is_ok()
            {
                *result = Err(error.into());
            }
        }
    }
}

/// Names a chunk to a mover: a layout has at most 2^16 files, and a file of 2^60 bytes fewer than
/// 2^48 chunks of a block.
fn tag_of((file, index): Task) -> u64 {
    assert!(index < 1 << 48, "chunks are at least a block long");
    (file as u64) << 48 | index
}

fn task_of(tag: u64) -> Task {
    ((tag >> 48) as usize, tag & ((1 << 48) - 1))
}

/// Runs one thread for each item, and adds up what they return.
///
/// # Errors
/// The first thread's error.
pub(super) fn on_threads<I: Send, R: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> Result<R, StreamError> + Sync,
) -> Result<Vec<R>, StreamError> {
    let work = &work;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut first_failure = None;
        for item in items {
            let builder = std::thread::Builder::new().name("ringfall-stream".to_owned());
            match builder.spawn_scoped(scope, move || work(item)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let what = format!("no thread can be started: {error}");
                    let error = TargetError::new(what, "give fewer --threads, or raise ulimit -u");
                    first_failure = Some(error.into());
                    break;
                }
            }
        }
        let mut results = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(Ok(result)) => results.push(result),
                // What the others say when one has failed is not why.
                Ok(Err(error)) => match &first_failure {
                    None | Some(StreamError::Interrupted) => first_failure = Some(error),
                    Some(_) => {}
                },
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        first_failure.map_or(Ok(results), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_known_by_its_tag() {
        for task in [(0, 0), (65_535, (1 << 48) - 1), (3, 7)] {
            assert_eq!(task_of(tag_of(task)), task);
        }
    }

    #[test]
    fn buffers_are_divided_among_threads_and_each_has_one() {
        let settings = |threads, buffers| StreamSettings { threads, buffers, chunk_bytes: 4096 };
        let of = |settings: StreamSettings| -> Vec<u32> {
            (0..settings.threads).map(|thread| settings.buffers_of(thread)).collect()
        };
        assert_eq!(of(settings(2, 4)), [2, 2]);
        assert_eq!(of(settings(3, 4)), [2, 1, 1]);
        assert_eq!(of(settings(2, 1)), [1, 1]);
    }
}
