//! A checkpoint read back and compared with what was written; and what an unfinished one still
//! lacks, found in the same way.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::fill::VerifyMode;

use super::layout::{BadBlock, Layout, Schedule, one_run};
use super::meter::{Doing, Transfer};
use super::save::{Crew, FileWork, Opened, SaveSettings, Stream, StreamError};
use super::target::{ChunkPlace, Mover, Presence, Target, TargetError, Version};
use crate::threads::locked;

/// Bad blocks that are named; all are counted.
const NAMED_MAX: usize = 16;

/// Outcome of a restore.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Step of the save that it restored.
    pub step: u32,
    /// When it began, since the training job began.
    pub began: Nanos,
    /// Chunks read from the checkpoint.
    pub transfer: Transfer,
    /// Duration of the restore.
    pub elapsed: Nanos,
    /// Blocks of 4 KiB compared.
    pub blocks_checked: u64,
    /// Number of compared blocks that differed from what was written.
    pub blocks_bad: u64,
    /// The first bad block of each chunk, of the first 16 chunks that have one.
    pub bad: Vec<BadBlock>,
}

/// Reads and compares a published checkpoint.
///
/// # Errors
/// A file is missing or of another length, or can't be read.
pub fn restore<T: Target>(
    on: &Stream<'_, T>,
    layout: &Layout,
    verify: VerifyMode,
    step: u32,
) -> Result<Restored, StreamError> {
    let total = layout.files.iter().map(|file| file.plan.bytes).sum();
    let began = on.meter.begin(Doing::Restoring, step, total);
    let mut reads = Vec::new();
    for (number, file) in layout.files.iter().enumerate() {
        check_length(on.target, &file.plan.name, file.plan.bytes)?;
        let pieces = file.plan.bytes.div_ceil(on.settings.stream.chunk_bytes);
        reads.push((number, one_run(pieces)));
    }
    let restored = Mutex::new(Restored::default());
    let look = |file: usize, offset: u64, bytes: &[u8]| {
        let found = layout.files[file].verify(verify, bytes, offset);
        let mut restored = locked(&restored);
        restored.blocks_checked += found.blocks_checked;
        restored.blocks_bad += found.blocks_bad;
        if restored.bad.len() < NAMED_MAX {
            restored.bad.extend(found.first_bad);
        }
    };
    read(on, layout, Version::Published, reads, &look)?;
    let mut restored = restored.into_inner().unwrap_or_else(PoisonError::into_inner);
    restored.bad.sort_by(|a, b| (&a.file, a.offset_bytes).cmp(&(&b.file, b.offset_bytes)));
    restored.step = step;
    restored.elapsed = monotonic_now().saturating_sub(began);
    restored.transfer = on.meter.transfer();
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

/// Finds the chunks that an unfinished checkpoint still lacks, whose chunks are those of the
/// settings: published files are taken as they are, the drafts of others are read and compared, and
/// chunks with any bad block are missing. Parts of a draft that can't be read are taken as they are
/// where they have the length of their chunk.
///
/// # Errors
/// A published file has another length, or a draft can't be read.
pub fn missing<T: Target>(
    on: &Stream<'_, T>,
    layout: &Layout,
    step: u32,
) -> Result<Vec<FileWork>, StreamError> {
    let mut works: Vec<FileWork> = Vec::new();
    let mut reads = Vec::new();
    let mut draft_bytes = 0;
    let mut good = BTreeSet::new();
    for (number, file) in layout.files.iter().enumerate() {
        let chunks = file.chunks();
        let (mut goes_on, mut there) = (false, 0);
        match on.target.presence(&file.plan.name)? {
            Presence::Published { .. } => {
                check_length(on.target, &file.plan.name, file.plan.bytes)?;
                on.target.forget_draft(&file.plan.name)?;
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
    on.meter.begin(Doing::Looking, step, draft_bytes);
    let good = Mutex::new(good);
    let look = |file: usize, offset: u64, bytes: &[u8]| {
        let of = &layout.files[file];
        if of.verify(VerifyMode::Full, bytes, offset).blocks_bad == 0 {
            let chunk = (file, offset / of.plan.chunk_bytes);
            locked(&good).insert(chunk);
        }
    };
    read(on, layout, Version::Draft, reads, &look)?;
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

type Look<'a> = &'a (dyn Fn(usize, u64, &[u8]) + Sync);

/// Reads those chunks of those files on several threads, and shows them to `look`.
fn read<T: Target>(
    on: &Stream<'_, T>,
    layout: &Layout,
    version: Version,
    chunks: Vec<(usize, Vec<Range<u64>>)>,
    look: Look<'_>,
) -> Result<(), StreamError> {
    let Stream { target, settings: SaveSettings { stream, .. }, .. } = on;
    let crew = Crew::new(on, layout, Schedule::new(chunks, stream.threads));
    let stored = Opened::new(layout);
    let open =
        |file: usize| stored.get(file, || target.open(&layout.files[file].plan.name, version));
    crew.run(0..stream.threads, |thread| {
        let pool = stream.pool_of(thread)?;
        let mut mover = target.mover(&pool)?;
        loop {
            while let Some(chunk) = pool.take()
                && let Some(task) = crew.next_task()
            {
                mover.read(&open(task.0)?, crew.place(task), chunk);
            }
            if mover.in_flight() == 0 {
                return Ok(());
            }
            let (task, chunk) = crew.wait(&mut mover)?;
            let chunk = chunk.expect("a read returns its chunk");
            let ChunkPlace { offset_bytes, length_bytes, .. } = crew.place(task);
            look(task.0, offset_bytes, &chunk.bytes()[..length_bytes]);
        }
    })
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
