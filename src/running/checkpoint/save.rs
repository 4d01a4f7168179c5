//! A checkpoint on its way to its target: each thread makes a chunk's content and gives it to a
//! mover, which stores it while the next is made. With four chunks of 32 MiB the memory is 128 MiB
//! however large the checkpoint is.
//!
//! The other way, everything made before anything is stored, needs memory for the whole checkpoint;
//! it is here to be compared with.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::named;
use ringfall_core::units::MIB;
use ringfall_engine::buffer::{Chunk, ChunkPool};

use super::layout::{Layout, Schedule, one_run};
use super::meter::{Doing, Meter, Transfer};
use super::target::{ChunkPlace, Moved, Mover, Target, TargetError};
use crate::threads::{locked, on_threads};

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

named! {
/// When content is made.
#[derive(ValueEnum)]
pub enum Way {
    /// While earlier content is being stored
    Stream = "stream",
    /// All of it before anything is stored, which takes memory for the whole checkpoint
    GenerateFirst = "generate-first",
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
    fn pool(&self, count: u32) -> Result<ChunkPool, TargetError> {
        let bytes = usize::try_from(self.chunk_bytes).unwrap_or(usize::MAX);
        ChunkPool::new(bytes, count).map_err(|error| {
            let mib = u64::from(count).saturating_mul(self.chunk_bytes / MIB);
            let what = format!("no memory for {count} chunks, {mib} MiB: {}", error.what());
            TargetError::new(what, "lower --buffers or --chunk-mib, or free memory")
        })
    }

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
    pub fn all(layout: &Layout) -> Vec<FileWork> {
        let files = layout.files.iter().enumerate();
        files
            .map(|(file, of)| FileWork { file, missing: one_run(of.chunks()), goes_on: false })
            .collect()
    }

    /// Number of chunks that are missing.
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
    /// Number of the training step after which it was made, from 1.
    pub step: u32,
    /// When it began, since the training job began.
    pub began: Nanos,
    /// Chunks stored at the target.
    pub transfer: Transfer,
    /// Bytes that an earlier save had stored.
    pub found_bytes: u64,
    /// From the first moment until all content was taken over from the training job, which may go
    /// on then; of a job's save, for how long training stood still because of it.
    pub stall: Nanos,
    /// From the first moment until every file had its final name, durable where that was asked for.
    pub stored: Nanos,
}

/// Bytes that are still to be stored.
pub fn missing_bytes<'a>(layout: &Layout, missing: impl IntoIterator<Item = &'a FileWork>) -> u64 {
    let bytes_of = |work: &FileWork| {
        let plan = &layout.files[work.file].plan;
        // The file's last chunk may be a short one.
        let place = |chunk: u64| (chunk * plan.chunk_bytes).min(plan.bytes);
        work.missing.iter().map(|run| place(run.end) - place(run.start)).sum::<u64>()
    };
    missing.into_iter().map(bytes_of).sum()
}

/// A target, and all that moving chunks there takes.
pub struct Stream<'a, T: Target> {
    /// The directory or object store.
    pub target: &'a T,
    /// Threads, memory and how many files are written at the same time.
    pub settings: &'a SaveSettings,
    /// Counts the bytes that are moved, for a progress line.
    pub meter: &'a Meter,
    /// Whether to end early.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// One chunk: its file in the layout, and its number in that.
pub(super) type Task = (usize, u64);

/// State that the threads of a stream share.
pub(super) struct Crew<'a, T: Target> {
    pub(super) on: &'a Stream<'a, T>,
    pub(super) layout: &'a Layout,
    schedule: Mutex<Schedule>,
    is_over: AtomicBool,
}

impl<'a, T: Target> Crew<'a, T> {
    pub(super) fn new(on: &'a Stream<'a, T>, layout: &'a Layout, schedule: Schedule) -> Self {
        Crew { on, layout, schedule: Mutex::new(schedule), is_over: AtomicBool::new(false) }
    }

    fn is_to_stop(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || (self.on.stop)()
    }

    pub(super) fn next_task(&self) -> Option<Task> {
        if self.is_to_stop() {
            return None;
        }
        locked(&self.schedule).next_chunk()
    }

    /// Place of a chunk in its file.
    pub(super) fn place(&self, task: Task) -> ChunkPlace {
        let (file, index) = task;
        let chunk_bytes = self.on.settings.stream.chunk_bytes;
        let (offset_bytes, length_bytes) = self.layout.files[file].piece(index, chunk_bytes);
        ChunkPlace { offset_bytes, length_bytes, tag: tag_of(task) }
    }

    /// Runs a thread for each item.
    ///
    /// # Errors
    /// The first failure; it was told to end before everything was moved.
    pub(super) fn run<I: Send>(
        &self,
        items: impl IntoIterator<Item = I>,
        work: impl Fn(I) -> Result<(), StreamError> + Sync,
    ) -> Result<(), StreamError> {
        // One that can't go on must not leave the others to finish for nothing.
        let fails = |_: &StreamError| self.is_over.store(true, Ordering::Relaxed);
        on_all(items, |item| work(item).inspect_err(fails))?;
        let progress = self.on.meter.progress();
        if self.is_to_stop() && progress.moved_bytes < progress.total_bytes {
            return Err(StreamError::Interrupted);
        }
        Ok(())
    }

    /// Waits until one more chunk is moved, and counts it.
    pub(super) fn wait(&self, mover: &mut T::Mover) -> Result<(Task, Option<Chunk>), StreamError> {
        let Moved { tag, outcome, began, ended } = mover.wait()?;
        let chunk = outcome?;
        let task = task_of(tag);
        self.on.meter.moved(self.place(task).length_bytes as u64, began, ended);
        Ok((task, chunk))
    }
}

/// Drafts or stored files that are open, each opened by whoever needs it first.
pub(super) struct Opened<V>(Vec<Mutex<Option<Arc<V>>>>);

impl<V> Opened<V> {
    pub(super) fn new(layout: &Layout) -> Opened<V> {
        Opened(layout.files.iter().map(|_| Mutex::new(None)).collect())
    }

    pub(super) fn get(
        &self,
        file: usize,
        open: impl FnOnce() -> Result<V, TargetError>,
    ) -> Result<Arc<V>, TargetError> {
        let mut slot = locked(&self.0[file]);
        if let Some(opened) = &*slot {
            return Ok(Arc::clone(opened));
        }
        Ok(Arc::clone(slot.insert(Arc::new(open()?))))
    }

    fn take(&self, file: usize) -> Option<Arc<V>> {
        locked(&self.0[file]).take()
    }
}

/// A save under way.
struct Work<'a, T: Target> {
    crew: Crew<'a, T>,
    drafts: Opened<T::Draft>,
    goes_on: Vec<bool>,
    /// Chunks of each file that are not stored.
    left: Vec<AtomicU64>,
}

/// Stores what is missing of a checkpoint.
///
/// # Errors
/// The first failure. What was stored is kept as drafts, where the target can do that.
pub fn save<T: Target>(
    on: &Stream<'_, T>,
    layout: &Layout,
    missing: &[FileWork],
    step: u32,
) -> Result<Saved, StreamError> {
    let began = on.meter.begin(Doing::Saving, step, missing_bytes(layout, missing));
    let files = layout.files.len();
    let mut goes_on = vec![false; files];
    let left: Vec<AtomicU64> = (0..files).map(|_| AtomicU64::new(0)).collect();
    for work in missing {
        goes_on[work.file] = work.goes_on;
        left[work.file].store(work.chunks(), Ordering::Relaxed);
    }
    let tasks = missing.iter().map(|work| (work.file, work.missing.clone()));
    let schedule = Schedule::new(tasks, on.settings.files_at_once);
    let crew = Crew::new(on, layout, schedule);
    let work = Work { crew, drafts: Opened::new(layout), goes_on, left };
    // A draft of which nothing is missing only lacks its name.
    let mut whole = missing.iter().filter(|work| work.chunks() == 0);
    let result = whole.try_for_each(|one| work.publish(one.file)).and_then(|()| work.run());
    let abandoned = work.abandon_rest();
    // Only the first failure counts.
    result?;
    abandoned?;
    Ok(Saved {
        step,
        transfer: on.meter.transfer(),
        stall: on.meter.last_made().saturating_sub(began),
        stored: monotonic_now().saturating_sub(began),
        ..Saved::default()
    })
}

impl<T: Target> Work<'_, T> {
    fn run(&self) -> Result<(), StreamError> {
        let settings = self.crew.on.settings;
        match settings.way {
            Way::Stream => self.crew.run(0..settings.stream.threads, |thread| self.stream(thread)),
            Way::GenerateFirst => {
                let made = self.make_all()?.into_iter().zip(0_u32..);
                self.crew.run(made, |((pool, made), thread)| {
                    let mut made = made.into_iter();
                    self.store(&pool, thread, || made.next().filter(|_| !self.crew.is_to_stop()))
                })
            }
        }
    }

    fn fill(&self, task: Task, chunk: &mut Chunk) {
        let ChunkPlace { offset_bytes, length_bytes, .. } = self.crew.place(task);
        let file = &self.crew.layout.files[task.0];
        file.fill(&mut chunk.bytes_mut()[..length_bytes], offset_bytes);
        self.crew.on.meter.made(length_bytes as u64);
    }

    /// Makes and stores chunks until there are no more.
    fn stream(&self, thread: u32) -> Result<(), StreamError> {
        let pool = self.crew.on.settings.stream.pool_of(thread)?;
        self.store(&pool, thread, || {
            let task = self.crew.next_task()?;
            let mut chunk = pool.take_wait();
            // The wait for a chunk may have been long.
            if self.crew.is_to_stop() {
                return None;
            }
            self.fill(task, &mut chunk);
            Some((task, chunk))
        })
    }

    /// Makes everything: for each thread its pool and its chunks.
    #[expect(clippy::type_complexity, reason = "named nowhere else")]
    fn make_all(&self) -> Result<Vec<(ChunkPool, Vec<(Task, Chunk)>)>, StreamError> {
        let chunks: u64 = self.left.iter().map(|left| left.load(Ordering::Relaxed)).sum();
        let stream = &self.crew.on.settings.stream;
        let each = chunks.div_ceil(u64::from(stream.threads));
        let each = u32::try_from(each).unwrap_or(u32::MAX).max(1);
        on_all(0..stream.threads, |_| {
            let pool = stream.pool(each)?;
            let mut made = Vec::new();
            while let Some(mut chunk) = pool.take()
                && let Some(task) = self.crew.next_task()
            {
                self.fill(task, &mut chunk);
                made.push((task, chunk));
            }
            Ok((pool, made))
        })
    }

    /// Stores chunks as they come, as many at a time as a stream has memory for.
    fn store(
        &self,
        pool: &ChunkPool,
        thread: u32,
        mut next: impl FnMut() -> Option<(Task, Chunk)>,
    ) -> Result<(), StreamError> {
        let mut mover = self.crew.on.target.mover(pool)?;
        let at_once = self.crew.on.settings.stream.buffers_of(thread) as usize;
        loop {
            while mover.in_flight() >= at_once {
                self.finish_one(&mut mover)?;
            }
            let Some((task, chunk)) = next() else { break };
            mover.write(&self.draft(task.0)?, self.crew.place(task), chunk);
        }
        while mover.in_flight() > 0 {
            self.finish_one(&mut mover)?;
        }
        Ok(())
    }

    fn finish_one(&self, mover: &mut T::Mover) -> Result<(), StreamError> {
        let ((file, _), _) = self.crew.wait(mover)?;
        match self.left[file].fetch_sub(1, Ordering::AcqRel) {
            1 => self.publish(file),
            _ => Ok(()),
        }
    }

    fn draft(&self, file: usize) -> Result<Arc<T::Draft>, TargetError> {
        let plan = &self.crew.layout.files[file].plan;
        self.drafts.get(file, || self.crew.on.target.create(plan, self.goes_on[file]))
    }

    fn publish(&self, file: usize) -> Result<(), StreamError> {
        let Stream { target, settings, .. } = self.crew.on;
        let draft = self.draft(file)?;
        target.publish(&draft, settings.durable)?;
        self.drafts.take(file);
        Ok(())
    }

    /// Ends the drafts that have no name; the first failure of all of them.
    fn abandon_rest(&self) -> Result<(), TargetError> {
        let drafts = (0..self.left.len()).filter_map(|file| self.drafts.take(file));
        let ended = drafts.map(|draft| self.crew.on.target.abandon(&draft));
        ended.fold(Ok(()), Result::and)
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

/// Runs one thread for each item, and returns what they return.
fn on_all<I: Send, R: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> Result<R, StreamError> + Sync,
) -> Result<Vec<R>, StreamError> {
    let refused = |error| {
        let what = format!("no thread can be started: {error}");
        TargetError::new(what, "give fewer --threads, or raise ulimit -u").into()
    };
    let mut results = on_threads("ringfall-stream", items, work, refused);
    // What the others say when one has failed is not why.
    results.sort_by_key(|result| matches!(result, Err(StreamError::Interrupted)));
    results.into_iter().collect()
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
