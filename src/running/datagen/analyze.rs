//! Reducibility of data, as storage would find it: duplicate blocks, compressibility, entropy.
//!
//! Blocks of each size are counted from the beginning of each file; a rest that fills no block is
//! left out. Compression is that of units on their own, as storage does it: a copy elsewhere in
//! the file is a duplicate, and no gain of a compressor with a long window.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfall_core::key::mix64;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::DatagenError;
use super::digests::{Counted, Digests};
use super::source::{Item, Reader};
use crate::threads::{locked, on_threads};

/// Read at a time, bytes, unless a block is larger; a power of two.
const CHUNK_BYTES: u64 = 1 << 20;
/// Unit that is compressed by itself, bytes.
pub const PACKED_UNIT_BYTES: usize = 64 << 10;
/// As the reference's analysis of its data, and as fast as storage compresses in passing.
const ZSTD_LEVEL: i32 = 1;
const BYTE_VALUES: usize = 256;

/// Settings of an analysis.
#[derive(Clone, Debug)]
pub struct AnalyzeSettings {
    /// Sizes of blocks, bytes: powers of two from 512 to 16 MiB, smallest first.
    pub block_bytes: Vec<u64>,
    /// Memory for digests, bytes.
    pub memory_bytes: u64,
    /// Reads everything as often as it takes to count exactly.
    pub exact: bool,
    /// Part of the data that is compressed and whose entropy is measured, percent.
    pub sample_percent: u32,
    /// Number of threads that read and analyze, 1 or more.
    pub threads: u32,
}

/// Duplicates among blocks of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DuplicateFigures {
    /// Size of a block, bytes.
    pub block_bytes: u64,
    /// Blocks in the data.
    pub blocks: u64,
    /// Blocks that differ from all others; an estimate where the count is not exact.
    pub distinct: u64,
    /// Blocks over distinct blocks; 1 where none repeats, null where there is no block.
    pub dedupe_ratio: Option<f64>,
    /// Number of blocks that hold nothing but zeros.
    pub zeros: u64,
    /// Whether every block was counted, and not a sample.
    pub exact: bool,
    /// Part of the blocks that the count is based on, 1 in so many at the least.
    pub sampled_one_in: u64,
    /// Standard error of the estimate of distinct blocks, percent; 0 where it is exact.
    pub distinct_error_percent: f64,
}

/// Compressibility of the sampled part of the data, unit by unit, and its entropy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PackedFigures {
    /// Unit that was compressed by itself, bytes.
    pub unit_bytes: usize,
    /// Bytes that were compressed.
    pub bytes: u64,
    /// Bytes over compressed bytes with zstd, level 1; a unit that grows is counted as it is.
    pub zstd_ratio: Option<f64>,
    /// The same with LZ4.
    pub lz4_ratio: Option<f64>,
    /// Entropy of single bytes, bits a byte; 8 where all values are as frequent.
    pub entropy_bits: Option<f64>,
}

/// Results of an analysis, all files together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Files, or streams of content.
    pub files: usize,
    /// Number of bytes in these files or streams.
    pub bytes: u64,
    /// Times that everything was read.
    pub passes: u64,
    /// Duplicates by block size, smallest first.
    pub duplicates: Vec<DuplicateFigures>,
    /// Compressibility of a sample of the data, and its entropy.
    pub packed: PackedFigures,
}

#[derive(Default)]
struct Counts {
    zeros: Vec<u64>,
    bytes: u64,
    zstd_bytes: u64,
    lz4_bytes: u64,
    /// Number of times that each value of a byte has come.
    values: Vec<u64>,
}

impl Counts {
    fn new(sizes: usize) -> Counts {
        Counts { zeros: vec![0; sizes], values: vec![0; BYTE_VALUES], ..Counts::default() }
    }

    fn add(&mut self, other: &Counts) {
        let add = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        add(&mut self.zeros, &other.zeros);
        add(&mut self.values, &other.values);
        self.bytes += other.bytes;
        self.zstd_bytes += other.zstd_bytes;
        self.lz4_bytes += other.lz4_bytes;
    }
}

/// A piece of an item, which one thread reads at once.
struct Piece {
    item: usize,
    offset: u64,
    length: usize,
}

/// Pieces that are to be read, with their numbers.
type Pieces<'a> = Box<dyn Iterator<Item = (u64, Piece)> + Send + 'a>;

fn pieces(items: &[Item], chunk_bytes: u64) -> Pieces<'_> {
    let of_item = move |(item, bytes): (usize, u64)| {
        (0..bytes.div_ceil(chunk_bytes)).map(move |index| {
            let offset = index * chunk_bytes;
            Piece { item, offset, length: chunk_bytes.min(bytes - offset) as usize }
        })
    };
    Box::new((0_u64..).zip(items.iter().map(Item::bytes).enumerate().flat_map(of_item)))
}

/// Analyzes data. `tell` is told the bytes read of all that are to be read, and says whether to go
/// on.
///
/// # Errors
/// Something can't be read; it was told to end.
///
/// # Panics
/// On sizes of blocks that are no powers of two: a bug of the caller.
pub fn analyze(
    items: &[Item],
    settings: &AnalyzeSettings,
    tell: &(dyn Fn(u64, u64) -> bool + Sync),
) -> Result<Analysis, DatagenError> {
    assert!(settings.block_bytes.iter().all(|size| size.is_power_of_two() && *size >= 512));
    let bytes: u64 = items.iter().map(Item::bytes).sum();
    let passes = passes(bytes, settings);
    let chunk_bytes = settings.block_bytes.iter().copied().fold(CHUNK_BYTES, u64::max);
    let mut counted = vec![Counted::default(); settings.block_bytes.len()];
    let mut counts = Counts::new(settings.block_bytes.len());
    for pass in 0..passes {
        let one = Pass {
            items,
            settings,
            sets: sets(settings),
            pass: (pass, passes),
            chunk_bytes,
            pieces: Mutex::new(pieces(items, chunk_bytes)),
            done_bytes: AtomicU64::new(pass * bytes),
            all_bytes: bytes * passes,
            tell,
        };
        let found = one.run()?;
        if pass == 0 {
            counts = found;
        }
        for (sum, set) in counted.iter_mut().zip(&one.sets) {
            let one = set.counted();
            sum.blocks += one.blocks;
            sum.distinct += one.distinct;
            sum.known += one.known;
            sum.sampled_bits = sum.sampled_bits.max(one.sampled_bits);
        }
    }
    let blocks = |size: &u64| items.iter().map(|item| item.bytes() / size).sum::<u64>();
    let sizes = settings.block_bytes.iter().zip(counted).zip(&counts.zeros);
    let duplicates =
        sizes.map(|((size, counted), zeros)| figures(*size, counted, blocks(size), *zeros));
    let duplicates = duplicates.collect();
    Ok(Analysis { files: items.len(), bytes, passes, duplicates, packed: packed(&counts) })
}

/// A set for each size of block: a smaller block has so many more digests.
fn sets(settings: &AnalyzeSettings) -> Vec<Digests> {
    let weight = |size: u64| 1.0 / size as f64;
    let all: f64 = settings.block_bytes.iter().copied().map(weight).sum();
    let part = |size: u64| settings.memory_bytes as f64 * weight(size) / all;
    settings.block_bytes.iter().map(|size| Digests::new(part(*size) as u64)).collect()
}

/// Times that everything is read so that each time a part of the digests fits.
fn passes(bytes: u64, settings: &AnalyzeSettings) -> u64 {
    if !settings.exact {
        return 1;
    }
    let sets = sets(settings);
    let needed = settings.block_bytes.iter().zip(&sets);
    let needed = needed.map(|(size, set)| (bytes / size).div_ceil(set.capacity()));
    needed.max().unwrap_or(1).max(1)
}

fn figures(block_bytes: u64, counted: Counted, blocks: u64, zeros: u64) -> DuplicateFigures {
    let exact = counted.sampled_bits == 0;
    let ratio = (counted.distinct > 0.0).then(|| counted.blocks / counted.distinct);
    let distinct = match exact {
        true => counted.known,
        false => ratio.map_or(0, |ratio| (blocks as f64 / ratio).round() as u64),
    };
    /// Flajolet 1990: the standard error of adaptive sampling, times the root of the sample.
    const ADAPTIVE_ERROR: f64 = 1.2;
    let error = ADAPTIVE_ERROR / (counted.known.max(1) as f64).sqrt() * 100.0;
    DuplicateFigures {
        block_bytes,
        blocks,
        distinct,
        dedupe_ratio: ratio,
        zeros,
        exact,
        sampled_one_in: 1 << counted.sampled_bits,
        distinct_error_percent: if exact { 0.0 } else { error },
    }
}

fn packed(counts: &Counts) -> PackedFigures {
    let ratio = |packed: u64| (packed > 0).then(|| counts.bytes as f64 / packed as f64);
    let all: u64 = counts.values.iter().sum();
    let entropy = counts.values.iter().filter(|count| **count > 0).map(|count| {
        let part = *count as f64 / all as f64;
        -part * part.log2()
    });
    PackedFigures {
        unit_bytes: PACKED_UNIT_BYTES,
        bytes: counts.bytes,
        zstd_ratio: ratio(counts.zstd_bytes),
        lz4_ratio: ratio(counts.lz4_bytes),
        // Of one value alone it is 0, and not -0.
        entropy_bits: (all > 0).then(|| entropy.sum::<f64>().max(0.0)),
    }
}

struct Pass<'a> {
    items: &'a [Item],
    settings: &'a AnalyzeSettings,
    sets: Vec<Digests>,
    /// Only digests of this part of so many count.
    pass: (u64, u64),
    chunk_bytes: u64,
    /// Those that no thread has taken.
    pieces: Mutex<Pieces<'a>>,
    done_bytes: AtomicU64,
    all_bytes: u64,
    tell: &'a (dyn Fn(u64, u64) -> bool + Sync),
}

impl Pass<'_> {
    fn run(&self) -> Result<Counts, DatagenError> {
        let refused = |error| {
            let what = format!("no thread can be started ({error}): give fewer --threads");
            DatagenError::Lacks(what)
        };
        let threads = 0..self.settings.threads;
        let mut all = Counts::new(self.settings.block_bytes.len());
        for result in on_threads("ringfall-analyze", threads, |_| self.work(), refused) {
            all.add(&result?);
        }
        Ok(all)
    }

    fn work(&self) -> Result<Counts, DatagenError> {
        let mut counts = Counts::new(self.settings.block_bytes.len());
        let mut reader = Reader::default();
        let mut buffer = vec![0; self.chunk_bytes as usize];
        let mut packers = Packers::new()?;
        let mut digests = Vec::new();
        let zeros: Vec<u128> =
            self.settings.block_bytes.iter().map(|s| xxh3_128(&vec![0; *s as usize])).collect();
        loop {
            let next = locked(&self.pieces).next();
            let Some((number, Piece { item, offset, length })) = next else { return Ok(counts) };
            let bytes = &mut buffer[..length];
            reader.read((item, &self.items[item]), offset, bytes)?;
            for (index, size) in self.settings.block_bytes.iter().enumerate() {
                digests.clear();
                for digest in bytes.chunks_exact(*size as usize).map(xxh3_128) {
                    counts.zeros[index] += u64::from(digest == zeros[index]);
                    // Bits that choose neither the part nor the slot.
                    if (digest >> 32) as u64 % self.pass.1 == self.pass.0 {
                        digests.push(digest);
                    }
                }
                self.sets[index].add(&mut digests);
            }
            if self.pass.0 == 0 && mix64(number) % 100 < u64::from(self.settings.sample_percent) {
                packers.add(bytes, &mut counts)?;
            }
            self.told(length as u64)?;
        }
    }

    fn told(&self, bytes: u64) -> Result<(), DatagenError> {
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match (self.tell)(done, self.all_bytes) {
            true => Ok(()),
            false => Err(DatagenError::Interrupted),
        }
    }
}

/// Compresses unit by unit, and counts the values of bytes.
struct Packers {
    zstd: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
}

impl Packers {
    fn new() -> Result<Packers, DatagenError> {
        let failed = |error| DatagenError::Lacks(format!("zstd can't be set up: {error}"));
        let room = zstd::zstd_safe::compress_bound(PACKED_UNIT_BYTES)
            .max(lz4_flex::block::get_maximum_output_size(PACKED_UNIT_BYTES));
        Ok(Packers {
            zstd: zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?,
            packed: vec![0; room],
        })
    }

    fn add(&mut self, bytes: &[u8], counts: &mut Counts) -> Result<(), DatagenError> {
        for unit in bytes.chunks(PACKED_UNIT_BYTES) {
            let failed =
                |why: String| DatagenError::Lacks(format!("a unit can't be packed: {why}"));
            let zstd = self.zstd.compress_to_buffer(unit, &mut self.packed[..]);
            let zstd = zstd.map_err(|error| failed(error.to_string()))?;
            let lz4 = lz4_flex::block::compress_into(unit, &mut self.packed);
            let lz4 = lz4.map_err(|error| failed(error.to_string()))?;
            counts.bytes += unit.len() as u64;
            counts.zstd_bytes += zstd.min(unit.len()) as u64;
            counts.lz4_bytes += lz4.min(unit.len()) as u64;
        }
        // Four counts beside each other: equal bytes after each other would wait for one another.
        let mut values = [[0_u32; BYTE_VALUES]; 4];
        let (fours, rest) = bytes.as_chunks::<4>();
        for four in fours {
            for (counts, byte) in values.iter_mut().zip(four) {
                counts[usize::from(*byte)] += 1;
            }
        }
        rest.iter().for_each(|byte| values[0][usize::from(*byte)] += 1);
        for one in values {
            counts.values.iter_mut().zip(one).for_each(|(sum, count)| *sum += u64::from(count));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::fill::{ContentName, NamedContent, Shape};
    use ringfall_core::key::EntryKey;

    use super::*;

    fn settings() -> AnalyzeSettings {
        AnalyzeSettings {
            block_bytes: vec![512, 4096, 65_536],
            memory_bytes: 64 << 20,
            exact: false,
            sample_percent: 100,
            threads: 2,
        }
    }

    fn content(bytes: u64, shape: &Shape) -> Item {
        let name = ContentName { seed: 1, key: EntryKey(2), version: 3 };
        Item::Content { content: NamedContent::new(name, bytes, shape), bytes }
    }

    #[test]
    fn content_is_as_it_was_ordered() {
        let shape = Shape { dedupe_ratio: 3.0, compress_ratio: 2.0 };
        let found = analyze(&[content(24 << 20, &shape)], &settings(), &|_, _| true).unwrap();
        for size in &found.duplicates {
            assert!((size.dedupe_ratio.unwrap() / 3.0 - 1.0).abs() < 0.02, "{size:?}");
            assert!(size.exact && size.zeros == 0, "{size:?}");
        }
        assert!((found.packed.zstd_ratio.unwrap() / 2.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.packed.lz4_ratio.unwrap() / 2.0 - 1.0).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn several_passes_in_little_memory_count_what_one_does_in_much() {
        let shape = Shape { dedupe_ratio: 2.5, compress_ratio: 1.0 };
        let items = [content(16 << 20, &shape), content(1 << 20, &Shape::default())];
        let one = analyze(&items, &settings(), &|_, _| true).unwrap();
        let little = AnalyzeSettings { memory_bytes: 200 << 10, exact: true, ..settings() };
        let several = analyze(&items, &little, &|_, _| true).unwrap();
        assert!(several.passes > 2 && several.duplicates[0].exact, "{several:?}");
        assert_eq!(several.duplicates, one.duplicates);
        assert_eq!(several.packed, one.packed);
        let sampled = AnalyzeSettings { exact: false, ..little };
        let sampled = analyze(&items, &sampled, &|_, _| true).unwrap();
        assert!(!sampled.duplicates[0].exact && sampled.duplicates[0].sampled_one_in > 1);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let result = analyze(&[content(8 << 20, &Shape::default())], &settings(), &|_, _| false);
        assert!(matches!(result, Err(DatagenError::Interrupted)), "{result:?}");
    }
}
