//! Content of blocks: made from their names, checked against them.
//!
//! A 4 KiB block is named by the run's seed, its entry's key, the entry's version and its number
//! within the entry. Its bytes are the outputs of eight xoshiro256++ generators, seeded from that
//! name and nothing else, taken in turn: any block can be made again alone, in any order, on any
//! CPU, byte for byte. What must not live here: where blocks are stored, when they are checked.
//!
//! *Why nothing repeats.* The name is hashed to 2 × 64 bits; lane `l` of block `b` starts from two
//! bijections of those bits plus `8 b + l`, so within an entry no two lanes of any two blocks start
//! alike, and two entries, versions or seeds share a lane only if 128 hashed bits agree (for 2^40
//! lanes ever started: chance 2^-49). Equal starts apart, a repeated 512-byte sector would need
//! eight lanes to agree for eight outputs.
//!
//! *Critique.* This is not cryptographic: who knows the code can predict the content. Nothing here
//! defends against a device built to cheat this benchmark. There is no NEON path: on aarch64 the
//! portable one runs, whose speed there has not been measured.

mod shaped;
mod simd;
mod verify;
mod xoshiro;

use std::sync::OnceLock;

pub use shaped::{COMPRESS_RATIO_MAX, DEDUPE_RATIO_MAX, NamedContent, Shape};
pub use verify::{VerifyMode, VerifyReport, verify, verify_with};

use crate::key::EntryKey;
use crate::named;
use crate::units::BLOCK_BYTES;
use xoshiro::NameHash;

const BLOCK_LENGTH: usize = BLOCK_BYTES as usize;

type Block = [u8; BLOCK_LENGTH];

/// Blocks of an entry are numbered below this (2^61: 8 EiB of blocks), so that `8 b + l` fits.
pub const BLOCKS_MAX: u64 = 1 << 61;

/// Inputs that determine an entry's content, apart from the block number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContentName {
    /// Random seed of the run; another seed gives other content.
    pub seed: u64,
    /// Key of the entry that the content belongs to.
    pub key: EntryKey,
    /// Number of times that the entry has been rewritten.
    pub version: u32,
}

named! {
/// A way to compute the same bytes; the slowest one first.
#[derive(Hash)]
pub enum Implementation {
    /// Plain Rust: every CPU, and the reference for the others.
    Portable = "portable",
    /// x86-64 with AVX2: two registers of four lanes.
    Avx2 = "avx2",
    /// x86-64 with AVX-512 F and DQ (rotate and 64-bit multiply): one register of eight lanes.
    Avx512 = "avx512",
}
}

impl Implementation {
    /// Whether this CPU can run it.
    pub fn is_supported(self) -> bool {
        match self {
            Implementation::Portable => true,
            Implementation::Avx2 => simd::has_avx2(),
            Implementation::Avx512 => simd::has_avx512(),
        }
    }

    /// The fastest this CPU can run, found out once.
    pub fn best() -> Implementation {
        static BEST: OnceLock<Implementation> = OnceLock::new();
        *BEST.get_or_init(|| {
            let fastest = Self::ALL.into_iter().rev().find(|candidate| candidate.is_supported());
            fastest.unwrap_or(Implementation::Portable)
        })
    }
}

/// Name of the implementation that [`fill`] and [`verify`] use on this CPU.
pub fn implementation() -> &'static str {
    Implementation::best().name()
}

/// Fills `buffer` with the blocks `first_block..` of the entry's content.
///
/// `buffer` is a whole number of 4 KiB blocks (of any alignment), all numbered below
/// [`BLOCKS_MAX`]; anything else is a mistake of the caller and panics. Allocates nothing.
pub fn fill(buffer: &mut [u8], name: &ContentName, first_block: u64) {
    fill_with(Implementation::best(), buffer, name, first_block);
}

/// [`fill`] for a buffer that a device reads next, and this CPU does not: past the caches where
/// that is possible (AVX-512, a buffer aligned to 64 bytes), which spares reading each line before
/// it is overwritten. Same bytes.
pub fn fill_for_device(buffer: &mut [u8], name: &ContentName, first_block: u64) {
    const LINE_BYTES: usize = 64;
    /// Smaller buffers are used again while they are in the cache, and a store past it would wait
    /// for memory.
    const STREAM_BYTES_MIN: usize = 32 << 10;
    let aligned = buffer.as_ptr().align_offset(LINE_BYTES) == 0;
    let is_small = buffer.len() < STREAM_BYTES_MIN;
    if Implementation::best() != Implementation::Avx512 || !aligned || is_small {
        return fill(buffer, name, first_block);
    }
    let (blocks, rest) = buffer.as_chunks_mut::<BLOCK_LENGTH>();
    assert!(rest.is_empty(), "content is made in whole blocks of 4 KiB");
    assert_range(blocks.len(), first_block);
    simd::stream_blocks_avx512(blocks, NameHash::of(name), first_block);
}

/// [`fill`] by a given implementation, which this CPU must support (panics otherwise).
pub fn fill_with(
    implementation: Implementation,
    buffer: &mut [u8],
    name: &ContentName,
    first_block: u64,
) {
    let (blocks, rest) = buffer.as_chunks_mut::<BLOCK_LENGTH>();
    assert!(rest.is_empty(), "content is made in whole blocks of 4 KiB");
    assert_range(blocks.len(), first_block);
    let hash = NameHash::of(name);
    match implementation {
        Implementation::Portable => xoshiro::fill_blocks(blocks, hash, first_block),
        Implementation::Avx2 => simd::fill_blocks_avx2(blocks, hash, first_block),
        Implementation::Avx512 => simd::fill_blocks_avx512(blocks, hash, first_block),
    }
}

/// The two words to which a name hashes, from which every block of its entry is made: for devices
/// that make the same blocks.
pub fn name_words(name: &ContentName) -> (u64, u64) {
    let NameHash { low, high } = NameHash::of(name);
    (low, high)
}

/// The block numbers of a call must not leave the range that keeps lanes apart.
fn assert_range(block_count: usize, first_block: u64) {
    assert!(first_block < BLOCKS_MAX, "block numbers are below 2^61");
    assert!(block_count as u64 <= BLOCKS_MAX - first_block, "block numbers are below 2^61");
}

#[cfg(test)]
mod tests;
