//! A checkpoint read back and compared with what was written; and what an unfinished one still
//! lacks, found in the same way.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::fill::VerifyMode;
use ringfall_core::metrics::Histogram;
use ringfall_engine::buffer::ChunkPool;

use super::layout::{BadBlock, Layout, Schedule, one_run};
use super::meter::{Doing, Meter};
use super::save::{FileWork, StreamError, StreamSettings, on_threads};
use super::target::{ChunkPlace, Mover, Presence, Target, TargetError, Version};

/// Bad blocks that are named; all are counted.
const NAMED_MAX: usize = 16;

/// Outcome of a restore.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Number of bytes read from the checkpoint.
    pub bytes: u64,
    /// Duration of the restore.
    pub elapsed: Nanos,
    /// Blocks of 4 KiB compared.
    pub blocks_checked: u64,
    /// Number of compared blocks that differed from what was written.
    pub blocks_bad: u64,
    /// The first bad block of each chunk, of the first 16 chunks that have one.
    pub bad: Vec<BadBlock>,
    /// Latency of each chunk, from the request until it was there.
    pub chunk_latency: Histogram,
    /// Bytes read in each second.
    pub seconds: Vec<u64>,
}

/// Reads and compares a published checkpoint.
///
/// # Errors
/// A file is missing or of another length, or can't be read.
pub fn restore<T: Target>(
    target: &T,
    layout: &Layout,
    settings: &StreamSettings,
    verify: VerifyMode,
    meter: &Meter,
    (step, stop): (u32, &(dyn Fn() -> bool + Sync)),
) -> Result<Restored, StreamError> {
    let total = layout.files.iter().map(|file| file.plan.bytes).sum();
    let began = meter.begin(Doing::Restoring, step, total);
    let mut reads = Vec::new();
    for (number, file) in layout.files.iter().enumerate() {
        check_length(target, &file.plan.name, file.plan.bytes)?;
        let pieces = file.plan.bytes.div_ceil(settings.chunk_bytes);
        reads.push((number, one_run(pieces)));
    }
    let restored = Mutex::new(Restored::default());
    let look = |file: usize, offset: u64, bytes: &[u8]| {
        let found = layout.files[file].verify(verify, bytes, offset);
        let mut restored = restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.bytes += bytes.len() as u64;
        restored.blocks_checked += found.blocks_checked;
        restored.blocks_bad += found.blocks_bad;
        if restored.bad.len() < NAMED_MAX {
            restored.bad.extend(found.first_bad);
        }
    };
    let reader = Reader { target, layout, version: Version::Published, settings, meter, stop };
    let latency = reader.read(reads, &look)?;
    let mut restored = restored.into_inner().unwrap_or_else(PoisonError::into_inner);
    restored.bad.sort_by(|a, b| (&a.file, a.offset_bytes).cmp(&(&b.file, b.offset_bytes)));
    restored.elapsed = monotonic_now().saturating_sub(began);
    restored.chunk_latency = latency;
    restored.seconds = meter.seconds();
    Ok(restored)
}

fn check_length<T: Target>(target: &T, name: &str, wanted: u64) -> Result<(), TargetError> {
    let missing = |what: String| {
        let remedy = "write the checkpoint again; `ringfall checkpoint write --resume` writes only \
                      what is missing of an unfinished one";
        TargetError::new(what, remedy)
    };
    match target.presence(name)? {
        Presence::Published { bytes } if bytes == wanted => Ok(()),
        Presence::Published { bytes } => Err(missing(format!(
            "{name} in {} has {bytes} bytes instead of {wanted}",
            target.name()
        ))),
        Presence::Draft { .. } | Presence::Parts { .. } | Presence::Absent => {
            Err(missing(format!("{name} is missing in {}", target.name())))
        }
    }
}

/// Finds the chunks that an unfinished checkpoint still lacks: published files are taken as they
/// are, the drafts of others are read and compared, and chunks with any bad block are missing.
/// Parts of a draft that can't be read are taken as they are where they have the length of their
/// chunk.
///
/// # Errors
/// A published file has another length, or a draft can't be read.
pub fn missing<T: Target>(
    target: &T,
    layout: &Layout,
    settings: &StreamSettings,
    meter: &Meter,
    (step, stop): (u32, &(dyn Fn() -> bool + Sync)),
) -> Result<Vec<FileWork>, StreamError> {
    let mut works: Vec<FileWork> = Vec::new();
    let mut reads = Vec::new();
    let mut draft_bytes = 0;
    let mut good = BTreeSet::new();
    for (number, file) in layout.files.iter().enumerate() {
        let chunks = file.chunks();
        let (mut goes_on, mut there) = (false, 0);
        match target.presence(&file.plan.name)? {
            Presence::Published { .. } => {
                check_length(target, &file.plan.name, file.plan.bytes)?;
                target.forget_draft(&file.plan.name)?;
                continue;
            }
            Presence::Draft { bytes } if bytes <= file.plan.bytes => {
                goes_on = true;
                there =
                    if bytes == file.plan.bytes { chunks } else { bytes / file.plan.chunk_bytes };
                draft_bytes += bytes;
            }
            Presence::Parts { parts } => {
                goes_on = true;
                let is_whole = |&(part, bytes): &(u64, u64)| {
                    part < chunks && file.piece(part, file.plan.chunk_bytes).1 as u64 == bytes
                };
                good.extend(parts.into_iter().filter(is_whole).map(|(part, _)| (number, part)));
            }
            Presence::Draft { .. } | Presence::Absent => {}
        }
        reads.push((number, one_run(there)));
        works.push(FileWork { file: number, missing: one_run(chunks), goes_on });
    }
    meter.begin(Doing::Looking, step, draft_bytes);
    let good = Mutex::new(good);
    let look = |file: usize, offset: u64, bytes: &[u8]| {
        let of = &layout.files[file];
        if of.verify(VerifyMode::Full, bytes, offset).blocks_bad == 0 {
            let chunk = (file, offset / of.plan.chunk_bytes);
            good.lock().unwrap_or_else(PoisonError::into_inner).insert(chunk);
        }
    };
    // Chunks as they were written, so that whole ones are good or missing.
    let chunk_bytes = layout.files.first().map_or(settings.chunk_bytes, |f| f.plan.chunk_bytes);
    let settings = StreamSettings { chunk_bytes, ..*settings };
    let version = Version::Draft;
    Reader { target, layout, version, settings: &settings, meter, stop }.read(reads, &look)?;
    let good = good.into_inner().unwrap_or_else(PoisonError::into_inner);
    for work in &mut works {
        let chunks = layout.files[work.file].chunks();
        let of_file = good.range((work.file, 0)..(work.file, chunks)).map(|(_, chunk)| *chunk);
        work.missing = runs_without(of_file, chunks);
    }
    Ok(works)
}

/// The runs of 0 to `end` in which none of these numbers are, which come in order.
fn runs_without(numbers: impl Iterator<Item = u64>, end: u64) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let mut start = 0;
    for number in numbers.chain(std::iter::once(end)) {
        if start < number {
            runs.push(start..number);
        }
        start = number + 1;
    }
    runs
}

/// Reads pieces of files on several threads.
struct Reader<'a, T: Target> {
    target: &'a T,
    layout: &'a Layout,
    version: Version,
    settings: &'a StreamSettings,
    meter: &'a Meter,
    stop: &'a (dyn Fn() -> bool + Sync),
}

type Look<'a> = &'a (dyn Fn(usize, u64, &[u8]) + Sync);

impl<T: Target> Reader<'_, T> {
    /// Reads those pieces of those files, each of the settings' chunk, and shows them to `look`.
    fn read(
        &self,
        reads: Vec<(usize, Vec<Range<u64>>)>,
        look: Look<'_>,
    ) -> Result<Histogram, StreamError> {
        let mut stored = Vec::new();
        stored.resize_with(self.layout.files.len(), || None);
        let schedule = Mutex::new(Schedule::new(reads, self.settings.threads));
        let stored = Mutex::new(stored);
        let is_over = AtomicBool::new(false);
        let next = || {
            if is_over.load(Ordering::Relaxed) || (self.stop)() {
                return None;
            }
            schedule.lock().unwrap_or_else(PoisonError::into_inner).next_chunk()
        };
        let open = |file: usize| -> Result<Arc<T::Stored>, StreamError> {
            let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
            let slot: &mut Option<Arc<T::Stored>> = &mut stored[file];
            if slot.is_none() {
                let name = &self.layout.files[file].plan.name;
                *slot = Some(Arc::new(self.target.open(name, self.version)?));
            }
            Ok(Arc::clone(slot.as_ref().expect("just opened")))
        };
        let histograms = on_threads(0..self.settings.threads, |thread| {
            let result = self.work(thread, &next, &open, look);
            if result.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            result
        })?;
        if (self.stop)() && next_is_left(&schedule) {
            return Err(StreamError::Interrupted);
        }
        let mut all = Histogram::new();
        histograms.iter().for_each(|one| all.merge(one));
        Ok(all)
    }

    fn work(
        &self,
        thread: u32,
        next: &dyn Fn() -> Option<(usize, u64)>,
        open: &dyn Fn(usize) -> Result<Arc<T::Stored>, StreamError>,
        look: Look<'_>,
    ) -> Result<Histogram, StreamError> {
        let pool: ChunkPool = self.settings.pool_of(thread)?;
        let mut mover = self.target.mover(&pool)?;
        let mut latency = Histogram::new();
        // What is in flight, by its tag.
        let mut flying: Vec<Option<(usize, u64, usize)>> = vec![None; pool.count() as usize];
        let mut is_dry = false;
        loop {
            while !is_dry && let Some(chunk) = pool.take() {
                let Some((file, index)) = next() else {
                    is_dry = true;
                    break;
                };
                let of = &self.layout.files[file];
                let (offset_bytes, length_bytes) = of.piece(index, self.settings.chunk_bytes);
                let tag = flying.iter().position(Option::is_none).expect("one for each chunk");
                flying[tag] = Some((file, offset_bytes, length_bytes));
                let place = ChunkPlace { offset_bytes, length_bytes, tag: tag as u64 };
                mover.read(&open(file)?, place, chunk);
            }
            if mover.in_flight() == 0 {
                return Ok(latency);
            }
            let moved = mover.wait()?;
            let flight = flying[moved.tag as usize].take();
            let (file, offset, length) = flight.expect("it was in flight");
            let chunk = moved.outcome?.expect("a read returns its chunk");
            latency.record(moved.ended.saturating_sub(moved.began).as_ns());
            self.meter.moved(length as u64, moved.ended);
            look(file, offset, &chunk.bytes()[..length]);
        }
    }
}

fn next_is_left(schedule: &Mutex<Schedule>) -> bool {
    schedule.lock().unwrap_or_else(PoisonError::into_inner).next_chunk().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_is_not_there() {
        let missing = |there: &[u64], end| runs_without(there.iter().copied(), end);
        assert_eq!(missing(&[], 3), one_run(3));
        assert_eq!(missing(&[0, 1, 2], 3), []);
        assert_eq!(missing(&[1], 3), [0..1, 2..3]);
        assert_eq!(missing(&[0, 3, 4], 8), [1..3, 5..8]);
    }
}
