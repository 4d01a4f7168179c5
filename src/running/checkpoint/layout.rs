//! Which bytes of a checkpoint are where: shards in files, files in chunks, and the order in which
//! chunks go out.

use std::collections::VecDeque;
use std::iter::{Flatten, Peekable};
use std::ops::Range;
use std::vec::IntoIter;

use ringfall_core::fill::{ContentName, NamedContent, Shape, VerifyMode};
use ringfall_core::key::EntryKey;
use ringfall_core::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use super::target::FilePlan;

/// Description of a checkpoint, stored beside it as `checkpoint.json`; determines its whole layout
/// and content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Tells such a file from others; always [`FORMAT`].
    pub format: String,
    /// Version of the format; 1.
    pub version: u32,
    /// Random seed of the content.
    pub seed: u64,
    /// Step of the training job at which it was saved; a part of the content's name.
    pub step: u32,
    /// Bytes of each rank's shard, rank 0 first; 0 for a rank that stores nothing.
    pub shard_bytes: Vec<u64>,
    /// Whether all shards are in one file, in the order of their ranks.
    pub shared_file: bool,
    /// Length of the chunks in which it is written, bytes.
    pub chunk_bytes: u64,
    /// Deduplication ratio that the content was given on purpose.
    pub dedupe_ratio: f64,
    /// Compression ratio that the content was given on purpose.
    pub compress_ratio: f64,
}

/// Value of [`Manifest::format`], which identifies a `checkpoint.json`.
pub const FORMAT: &str = "ringfall-checkpoint";
/// The value of [`Manifest::version`] in the layout that this program writes.
pub const FORMAT_VERSION: u32 = 1;
/// Ranks that a checkpoint may have.
pub const RANKS_MAX: u32 = 65_536;
/// Longest checkpoint, bytes: 1 EiB.
pub const BYTES_MAX: u64 = 1 << 60;

impl Manifest {
    /// Checks values that others may have written.
    ///
    /// # Errors
    /// Returns the first problem, as a sentence without a full stop.
    pub fn check(&self) -> Result<(), String> {
        let total = self.shard_bytes.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
        let block = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES);
        if self.format != FORMAT || self.version != FORMAT_VERSION {
            return Err(format!(
                "it is of the format {:?}, version {}, and not of {FORMAT:?}, version \
                 {FORMAT_VERSION}",
                self.format, self.version
            ));
        }
        if !total.is_some_and(|total| (1..=BYTES_MAX).contains(&total))
            || self.shard_bytes.len() > RANKS_MAX as usize
            || !self.shard_bytes.iter().all(|bytes| block(*bytes))
        {
            return Err("its shards have impossible lengths".to_owned());
        }
        if self.chunk_bytes == 0 || !block(self.chunk_bytes) || self.chunk_bytes > 1 << 40 {
            return Err(format!("chunks of {} bytes are impossible", self.chunk_bytes));
        }
        match self.shape().is_possible() {
            true => Ok(()),
            false => Err("its ratios are impossible".to_owned()),
        }
    }

    /// Data reduction that the content allows.
    pub fn shape(&self) -> Shape {
        Shape { dedupe_ratio: self.dedupe_ratio, compress_ratio: self.compress_ratio }
    }

    /// Bytes of all shards.
    pub fn total_bytes(&self) -> u64 {
        self.shard_bytes.iter().sum()
    }
}

/// A rank's part of a checkpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shard {
    /// Number of the rank whose part this is, from 0.
    pub rank: u32,
    /// Where in its file, bytes.
    pub offset_bytes: u64,
    /// Its length, bytes, not 0.
    pub bytes: u64,
    content: NamedContent,
}

/// One large file and the shards in it, in order and without gaps.
#[derive(Clone, PartialEq, Debug)]
pub struct LayoutFile {
    /// Name and length of the file, and the length of its chunks.
    pub plan: FilePlan,
    /// The ranks' parts in the file, at least one.
    pub shards: Vec<Shard>,
}

/// The files of a checkpoint, with the place of each rank's part.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    /// The large files, at least one.
    pub files: Vec<LayoutFile>,
}

/// A block that is not what was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct BadBlock {
    /// Name of the file that holds the block.
    pub file: String,
    /// Where in the file, bytes.
    pub offset_bytes: u64,
    /// Number of the rank whose part holds the block.
    pub rank: u32,
    /// Its number within the shard.
    pub block: u64,
}

/// Outcome of verifying a part of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Number of 4 KiB blocks compared with what was written.
    pub blocks_checked: u64,
    /// Number of compared blocks that differed from what was written.
    pub blocks_bad: u64,
    /// The first of them.
    pub first_bad: Option<BadBlock>,
}

impl Layout {
    /// Lays out the checkpoint of a valid manifest; names are below `prefix`, which is empty or
    /// ends in `/`.
    pub fn new(manifest: &Manifest, prefix: &str) -> Layout {
        let ranks = manifest.shard_bytes.len();
        let shards = manifest.shard_bytes.iter().zip(0_u32..).filter(|(bytes, _)| **bytes > 0);
        let mut shards = shards.map(|(&bytes, rank)| {
            let name = ContentName {
                seed: manifest.seed,
                key: EntryKey(u128::from(rank)),
                version: manifest.step,
            };
            let content = NamedContent::new(name, bytes, &manifest.shape());
            Shard { rank, offset_bytes: 0, bytes, content }
        });
        let file = |name: String, bytes: u64, shards: Vec<Shard>| LayoutFile {
            plan: FilePlan { name, bytes, chunk_bytes: manifest.chunk_bytes },
            shards,
        };
        if manifest.shared_file {
            let mut end = 0;
            let placed = |shard: Shard| {
                let offset_bytes = end;
                end += shard.bytes;
                Shard { offset_bytes, ..shard }
            };
            let shards: Vec<Shard> = shards.by_ref().map(placed).collect();
            let name = format!("{prefix}all-{ranks}-ranks.ckpt");
            return Layout { files: vec![file(name, end, shards)] };
        }
        let files = shards.map(|shard| {
            let name = format!("{prefix}rank-{:05}-of-{ranks:05}.ckpt", shard.rank);
            file(name, shard.bytes, vec![shard])
        });
        Layout { files: files.collect() }
    }
}

impl LayoutFile {
    /// Chunks of the file.
    pub fn chunks(&self) -> u64 {
        self.plan.bytes.div_ceil(self.plan.chunk_bytes)
    }

    /// Where a chunk begins and how long it is, bytes, when the file is cut in such pieces.
    pub fn piece(&self, index: u64, piece_bytes: u64) -> (u64, usize) {
        let offset = index * piece_bytes;
        let length = piece_bytes.min(self.plan.bytes - offset);
        (offset, usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Fills a buffer with the file's content from an offset on; both are multiples of 4 KiB.
    pub fn fill(&self, buffer: &mut [u8], offset_bytes: u64) {
        let mut rest = buffer;
        for (shard, start, length) in self.parts(offset_bytes, rest.len()) {
            let (part, after) = rest.split_at_mut(length);
            shard.content.fill(part, start);
            rest = after;
        }
        assert!(rest.is_empty(), "the buffer ends in the file");
    }

    /// Compares a buffer with the file's content from an offset on.
    #[must_use]
    pub fn verify(&self, mode: VerifyMode, buffer: &[u8], offset_bytes: u64) -> Verified {
        let mut all = Verified::default();
        let mut rest = buffer;
        for (shard, start, length) in self.parts(offset_bytes, rest.len()) {
            let (part, after) = rest.split_at(length);
            let report = shard.content.verify(mode, part, start);
            all.blocks_checked += report.blocks_checked;
            all.blocks_bad += report.blocks_bad;
            if let (None, Some(block)) = (&all.first_bad, report.first_bad_block) {
                all.first_bad = Some(BadBlock {
                    file: self.plan.name.clone(),
                    offset_bytes: shard.offset_bytes + block * BLOCK_BYTES,
                    rank: shard.rank,
                    block,
                });
            }
            rest = after;
        }
        all
    }

    /// The shards that a range of the file covers, each with where it begins in the shard and its
    /// length.
    fn parts(
        &self,
        offset_bytes: u64,
        length: usize,
    ) -> impl Iterator<Item = (&Shard, u64, usize)> {
        let end = offset_bytes + length as u64;
        let first =
            self.shards.partition_point(|shard| shard.offset_bytes + shard.bytes <= offset_bytes);
        self.shards[first..].iter().map_while(move |shard| {
            let start = offset_bytes.max(shard.offset_bytes);
            let stop = end.min(shard.offset_bytes + shard.bytes);
            let length = usize::try_from(stop.checked_sub(start)?).unwrap_or(usize::MAX);
            (length > 0).then_some((shard, start - shard.offset_bytes, length))
        })
    }
}

/// The first `end` chunks, in one run.
pub(super) fn one_run(end: u64) -> Vec<Range<u64>> {
    std::iter::once(0..end).collect()
}

/// Chunks in the order in which they go out: of so many files in turn, as ranks that save at the
/// same time do.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Files whose turn it is in this order, and behind them those to come.
    files: VecDeque<FileChunks>,
    at_once: usize,
}

/// A file's number, and its chunks that are to be moved, in order; at least one.
type FileChunks = (usize, Peekable<Flatten<IntoIter<Range<u64>>>>);

impl Schedule {
    /// Schedules the given chunks of each file, `at_once` files at a time (≥ 1).
    pub fn new(
        files: impl IntoIterator<Item = (usize, Vec<Range<u64>>)>,
        at_once: u32,
    ) -> Schedule {
        let some = |(file, runs): (usize, Vec<Range<u64>>)| {
            let mut chunks = runs.into_iter().flatten().peekable();
            chunks.peek().is_some().then_some((file, chunks))
        };
        let files = files.into_iter().filter_map(some).collect();
        Schedule { files, at_once: at_once.max(1) as usize }
    }

    /// The next chunk: file and number.
    pub fn next_chunk(&mut self) -> Option<(usize, u64)> {
        let (file, mut chunks) = self.files.pop_front()?;
        let chunk = chunks.next()?;
        if chunks.peek().is_some() {
            let last = (self.at_once - 1).min(self.files.len());
            self.files.insert(last, (file, chunks));
        }
        Some((file, chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn manifest(shard_bytes: &[u64], shared_file: bool) -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            seed: 1,
            step: 2,
            shard_bytes: shard_bytes.to_vec(),
            shared_file,
            chunk_bytes: 16 << 10,
            dedupe_ratio: 1.0,
            compress_ratio: 1.0,
        }
    }

    #[test]
    fn a_shared_file_holds_the_same_shards_as_a_file_each() {
        let shards = [24 << 10, 0, 4 << 10, 40 << 10];
        let apart = Layout::new(&manifest(&shards, false), "");
        let names: Vec<&str> = apart.files.iter().map(|file| &file.plan.name[..]).collect();
        let expected =
            ["rank-00000-of-00004.ckpt", "rank-00002-of-00004.ckpt", "rank-00003-of-00004.ckpt"];
        assert_eq!(names, expected);
        let shared = Layout::new(&manifest(&shards, true), "step-1/");
        assert_eq!(shared.files.len(), 1);
        let all = &shared.files[0];
        assert_eq!((&all.plan.name[..], all.plan.bytes), ("step-1/all-4-ranks.ckpt", 68 << 10));
        let mut one_by_one = Vec::new();
        for file in &apart.files {
            let mut bytes = vec![0; file.plan.bytes as usize];
            file.fill(&mut bytes, 0);
            one_by_one.extend(bytes);
        }
        let mut together = vec![0; 68 << 10];
        for index in 0..all.chunks() {
            let (offset, length) = all.piece(index, all.plan.chunk_bytes);
            all.fill(&mut together[offset as usize..][..length], offset);
        }
        assert_eq!(together, one_by_one);
        together[(28 << 10) + 4096] ^= 1;
        let found = all.verify(VerifyMode::Full, &together[16 << 10..], 16 << 10);
        assert_eq!((found.blocks_checked, found.blocks_bad), (13, 1));
        let bad = found.first_bad.unwrap();
        assert_eq!((bad.rank, bad.block, bad.offset_bytes), (3, 1, 32 << 10));
    }

    #[test]
    fn chunks_of_several_files_go_out_in_turn_and_each_once() {
        let files =
            [(0, vec![0..2, 3..3, 7..8]), (1, vec![]), (2, vec![5..6, 9..9]), (3, one_run(2))];
        let mut schedule = Schedule::new(files, 2);
        let order: Vec<_> = std::iter::from_fn(|| schedule.next_chunk()).collect();
        assert_eq!(order, [(0, 0), (2, 5), (0, 1), (3, 0), (0, 7), (3, 1)]);
    }

    #[test]
    fn a_manifest_of_strange_values_is_refused() {
        let good = manifest(&[4096], false);
        assert_eq!(good.check(), Ok(()));
        let wrong = [
            Manifest { format: "x".into(), ..good.clone() },
            Manifest { version: 2, ..good.clone() },
            Manifest { shard_bytes: vec![], ..good.clone() },
            Manifest { shard_bytes: vec![5], ..good.clone() },
            Manifest { shard_bytes: vec![1 << 63, 1 << 63], ..good.clone() },
            Manifest { chunk_bytes: 0, ..good.clone() },
            Manifest { chunk_bytes: 5, ..good.clone() },
            Manifest { dedupe_ratio: 0.0, ..good.clone() },
            Manifest { compress_ratio: f64::INFINITY, ..good },
        ];
        for manifest in wrong {
            assert!(manifest.check().is_err(), "{manifest:?}");
        }
    }
}
