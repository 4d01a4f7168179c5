//! Content of a given length that can be reduced to a given degree on purpose, so that storage that
//! deduplicates or compresses can be tested honestly. By default it can't be reduced.
//!
//! Each byte follows from the content's name, its length and its place, so any part can be made
//! again alone and compared. What must not live here: where content is stored, and what it looks
//! like to others.

use super::{BLOCK_LENGTH, ContentName, VerifyMode, VerifyReport, fill, fill_for_device, verify};
use crate::units::BLOCK_BYTES;

/// Unit that is repeated whole, bytes: it is found as a duplicate at its own size and at each
/// smaller power of two that storage looks for duplicates in.
const DUPLICATE_BYTES: u64 = 64 << 10;
/// Blocks of a unit.
const UNIT_BLOCKS: u64 = DUPLICATE_BYTES / BLOCK_BYTES;
/// Unit that is compressible by itself, bytes: the smallest that storage compresses.
const SECTOR_BYTES: usize = 512;
const SECTORS: usize = BLOCK_LENGTH / SECTOR_BYTES;
/// Bytes that a compressor spends on a sector besides its random bytes: one match of zeros. zstd
/// spends about 2 (its sequences are alike and cost next to nothing), LZ4 about 6 (a token, an
/// offset, two lengths of more than 15).
const MATCH_BYTES: f64 = 3.0;

/// Highest ratios that may be asked for; a sector keeps 16 random bytes at the least, by which a
/// sampled verification knows it.
pub const DEDUPE_RATIO_MAX: f64 = 1000.0;
/// Highest compression ratio that may be asked for: a sector keeps at least 16 random bytes.
pub const COMPRESS_RATIO_MAX: f64 = 16.0;

/// Reducibility of content by deduplication and compression. By default it can't be reduced.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Bytes per byte that differs from all others, 1 to [`DEDUPE_RATIO_MAX`].
    pub dedupe_ratio: f64,
    /// Bytes per byte that is left of them when each 4 KiB are compressed, 1 to
    /// [`COMPRESS_RATIO_MAX`].
    pub compress_ratio: f64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { dedupe_ratio: 1.0, compress_ratio: 1.0 }
    }
}

impl Shape {
    /// Whether both ratios are in bounds.
    #[inline]
    pub fn is_possible(&self) -> bool {
        (1.0..=DEDUPE_RATIO_MAX).contains(&self.dedupe_ratio)
            && (1.0..=COMPRESS_RATIO_MAX).contains(&self.compress_ratio)
    }

    /// Random bytes of each 4 KiB.
    #[inline]
    fn kept_bytes(&self) -> usize {
        if self.compress_ratio <= 1.0 {
            return BLOCK_LENGTH;
        }
        let spent = MATCH_BYTES * SECTORS as f64;
        let kept = (BLOCK_BYTES as f64 / self.compress_ratio - spent).round();
        (kept.max(0.0) as usize).clamp(SECTORS * 16, BLOCK_LENGTH)
    }
}

/// The content of one name, of a given length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NamedContent {
    name: ContentName,
    /// Units that differ; unit `u` is the same as unit `u mod unique_units`.
    unique_units: u64,
    is_repeating: bool,
    /// Random bytes of each block; zeros end each sector.
    kept_bytes: usize,
}

impl NamedContent {
    /// The content of that name, so long in all.
    ///
    /// # Panics
    /// On a shape that is not possible: a bug of the caller.
    #[inline]
    pub fn new(name: ContentName, bytes: u64, shape: &Shape) -> NamedContent {
        assert!(shape.is_possible(), "{shape:?} was checked before");
        let units = bytes.div_ceil(DUPLICATE_BYTES).max(1);
        let unique_units = match shape.dedupe_ratio {
            1.0 => units,
            ratio => ((units as f64 / ratio).round() as u64).clamp(1, units),
        };
        NamedContent {
            name,
            unique_units,
            is_repeating: unique_units < units,
            kept_bytes: shape.kept_bytes(),
        }
    }

    /// The name from which the content is made.
    pub fn name(&self) -> ContentName {
        self.name
    }

    /// Fills a buffer with the content from `offset_bytes` on, a multiple of 4 KiB as the buffer's
    /// length is. Allocates nothing.
    pub fn fill(&self, buffer: &mut [u8], offset_bytes: u64) {
        if self.is_plain() {
            return fill_for_device(buffer, &self.name, offset_bytes / BLOCK_BYTES);
        }
        let mut offset = offset_bytes;
        let mut rest = buffer;
        while !rest.is_empty() {
            let (part, after) = rest.split_at_mut(unit_rest(offset, rest.len()));
            fill(part, &self.name, self.source_block(offset / BLOCK_BYTES));
            self.end_sectors(part);
            offset += part.len() as u64;
            rest = after;
        }
    }

    /// Compares a buffer with the content from `offset_bytes` on; both are multiples of 4 KiB. The
    /// number of the first bad block counts from the content's beginning.
    #[must_use]
    pub fn verify(&self, mode: VerifyMode, buffer: &[u8], offset_bytes: u64) -> VerifyReport {
        if self.is_plain() {
            return verify(mode, buffer, &self.name, offset_bytes / BLOCK_BYTES);
        }
        let mut all = VerifyReport::default();
        let mut offset = offset_bytes;
        let mut rest = buffer;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(unit_rest(offset, rest.len()));
            let (first, source) = (offset / BLOCK_BYTES, self.source_block(offset / BLOCK_BYTES));
            let mut report = match mode {
                VerifyMode::Full if self.kept_bytes < BLOCK_LENGTH => self.compare(part, source),
                // The head of a block is random whatever ends its sectors.
                _ => verify(mode, part, &self.name, source),
            };
            report.first_bad_block = report.first_bad_block.map(|bad| bad - source + first);
            all.add(report);
            offset += part.len() as u64;
            rest = after;
        }
        all
    }

    fn is_plain(&self) -> bool {
        !self.is_repeating && self.kept_bytes == BLOCK_LENGTH
    }

    fn source_block(&self, block: u64) -> u64 {
        let (unit, place) = (block / UNIT_BLOCKS, block % UNIT_BLOCKS);
        unit % self.unique_units * UNIT_BLOCKS + place
    }

    /// Zeros at the end of each sector, so that each 4 KiB keep as many random bytes as they are
    /// to: the sectors differ by a byte where it does not divide.
    fn end_sectors(&self, part: &mut [u8]) {
        if self.kept_bytes == BLOCK_LENGTH {
            return;
        }
        for (place, sector) in part.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            let place = place % SECTORS;
            let kept = (place + 1) * self.kept_bytes / SECTORS - place * self.kept_bytes / SECTORS;
            sector[kept..].fill(0);
        }
    }

    fn compare(&self, part: &[u8], source: u64) -> VerifyReport {
        let mut report = VerifyReport::default();
        let mut expected = [0; BLOCK_LENGTH];
        for (block, number) in part.chunks_exact(BLOCK_LENGTH).zip(source..) {
            fill(&mut expected, &self.name, number);
            self.end_sectors(&mut expected);
            report.blocks_checked += 1;
            if *block != expected {
                report.blocks_bad += 1;
                report.first_bad_block.get_or_insert(number);
            }
        }
        report
    }
}

/// Bytes to the end of the unit in which an offset lies, or to the end of the buffer.
fn unit_rest(offset_bytes: u64, buffer_bytes: usize) -> usize {
    let rest = DUPLICATE_BYTES - offset_bytes % DUPLICATE_BYTES;
    usize::try_from(rest).unwrap_or(buffer_bytes).min(buffer_bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::key::EntryKey;

    const NAME: ContentName = ContentName { seed: 3, key: EntryKey(5), version: 1 };
    const BYTES: u64 = 24 << 20;

    fn made(shape: &Shape, bytes: u64) -> Vec<u8> {
        let mut made = vec![0; bytes as usize];
        NamedContent::new(NAME, bytes, shape).fill(&mut made, 0);
        made
    }

    fn distinct(bytes: &[u8], size: usize) -> f64 {
        let blocks: HashSet<&[u8]> = bytes.chunks_exact(size).collect();
        (bytes.len() / size) as f64 / blocks.len() as f64
    }

    fn packed(bytes: &[u8], unit: usize) -> f64 {
        let sizes = bytes.chunks(unit).map(|unit| zstd::bulk::compress(unit, 1).unwrap().len());
        bytes.len() as f64 / sizes.sum::<usize>() as f64
    }

    #[test]
    fn by_default_nothing_repeats_and_nothing_shrinks() {
        let made = made(&Shape::default(), 4 << 20);
        assert!((distinct(&made, 512) - 1.0).abs() < f64::EPSILON);
        assert!((packed(&made, 64 << 10) - 1.0).abs() < 0.005);
    }

    #[test]
    fn ratios_are_what_was_asked_for() {
        for (dedupe_ratio, compress_ratio) in
            [(3.0, 2.0), (1.0, 2.0), (1.0, 1.5), (1.0, 4.0), (2.5, 1.0), (10.0, 3.0)]
        {
            let shape = Shape { dedupe_ratio, compress_ratio };
            let made = made(&shape, BYTES);
            for size in [512, 4096, 64 << 10] {
                let found = distinct(&made, size);
                assert!((found / dedupe_ratio - 1.0).abs() < 0.02, "{shape:?} {size}: {found}");
            }
            for unit in [4096, 64 << 10] {
                let found = packed(&made[..4 << 20], unit);
                assert!((found / compress_ratio - 1.0).abs() < 0.02, "{shape:?} {unit}: {found}");
            }
        }
    }

    #[test]
    fn any_part_can_be_made_alone_and_a_flipped_byte_is_found() {
        for shape in [
            Shape::default(),
            Shape { dedupe_ratio: 3.0, compress_ratio: 2.0 },
            Shape { dedupe_ratio: 2.0, compress_ratio: 1.0 },
            Shape { dedupe_ratio: 1.0, compress_ratio: 16.0 },
        ] {
            let bytes = 1 << 20;
            let whole = made(&shape, bytes);
            let content = NamedContent::new(NAME, bytes, &shape);
            let mut part = vec![0; 40 << 12];
            content.fill(&mut part, 100 << 12);
            assert_eq!(part, whole[100 << 12..140 << 12], "{shape:?}");
            for mode in [VerifyMode::Full, VerifyMode::Sample] {
                let report = content.verify(mode, &part, 100 << 12);
                assert_eq!((report.blocks_checked, report.blocks_bad), (40, 0), "{shape:?}");
            }
            // In the zeros too, where there are some.
            part[(17 << 12) + 511] ^= 1;
            let report = content.verify(VerifyMode::Full, &part, 100 << 12);
            assert_eq!((report.blocks_bad, report.first_bad_block), (1, Some(117)), "{shape:?}");
        }
    }

    #[test]
    fn ratios_out_of_bounds_are_not_possible() {
        let shape = |dedupe_ratio, compress_ratio| Shape { dedupe_ratio, compress_ratio };
        assert!(shape(1.0, 1.0).is_possible() && shape(1000.0, 16.0).is_possible());
        for wrong in [shape(0.9, 1.0), shape(1.0, 17.0), shape(f64::NAN, 1.0), shape(1.0, -1.0)] {
            assert!(!wrong.is_possible(), "{wrong:?}");
        }
    }
}
