//! Is a buffer what was written there? Content is made again from its name and compared.

use super::xoshiro::{self, HEAD_BYTES, NameHash};
use super::{BLOCK_LENGTH, Block, ContentName, Implementation, assert_range, simd};

/// Share of the data read that is compared with the data written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum VerifyMode {
    /// Nothing.
    Off,
    /// The first 16 bytes of each 4 KiB block: finds a block that is another one, or an old one,
    /// or was never written; not a flipped bit further in.
    #[default]
    Sample,
    /// Every byte.
    Full,
}

/// Counters of a verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Number of 4 KiB blocks that were compared with what was written.
    pub blocks_checked: u64,
    /// Number of compared blocks that differed from what was written.
    pub blocks_bad: u64,
    /// Number within the entry of the first block that differed.
    pub first_bad_block: Option<u64>,
}

impl VerifyReport {
    /// Adds the comparison of later blocks.
    pub fn add(&mut self, later: VerifyReport) {
        self.blocks_checked += later.blocks_checked;
        self.blocks_bad += later.blocks_bad;
        self.first_bad_block = self.first_bad_block.or(later.first_bad_block);
    }
}

/// Compares `buffer` with the blocks `first_block..` of the entry's content.
///
/// `buffer` is a whole number of 4 KiB blocks (of any alignment), all numbered below
/// [`super::BLOCKS_MAX`]; anything else is a mistake of the caller and panics. Allocates nothing.
#[must_use]
pub fn verify(
    mode: VerifyMode,
    buffer: &[u8],
    name: &ContentName,
    first_block: u64,
) -> VerifyReport {
    verify_with(Implementation::best(), mode, buffer, name, first_block)
}

/// [`verify`] by a given implementation, which this CPU must support (panics otherwise).
#[must_use]
pub fn verify_with(
    implementation: Implementation,
    mode: VerifyMode,
    buffer: &[u8],
    name: &ContentName,
    first_block: u64,
) -> VerifyReport {
    let (blocks, rest) = buffer.as_chunks::<BLOCK_LENGTH>();
    assert!(rest.is_empty(), "content is verified in whole blocks of 4 KiB");
    assert_range(blocks.len(), first_block);
    let hash = NameHash::of(name);
    match mode {
        VerifyMode::Off => VerifyReport::default(),
        VerifyMode::Sample => sample(blocks, hash, first_block),
        VerifyMode::Full => match implementation {
            Implementation::Portable => check(blocks, first_block, |block, number| {
                xoshiro::block_matches(block, hash, number)
            }),
            Implementation::Avx2 => check(blocks, first_block, |block, number| {
                simd::block_matches_avx2(block, hash, number)
            }),
            Implementation::Avx512 => check(blocks, first_block, |block, number| {
                simd::block_matches_avx512(block, hash, number)
            }),
        },
    }
}

/// Heads loaded before any is compared. After a device has written the buffer each is a cache miss;
/// loads that do not wait for a comparison are under way together.
const HEADS_AT_ONCE: usize = 32;

fn sample(blocks: &[Block], hash: NameHash, first_block: u64) -> VerifyReport {
    let mut report = VerifyReport::default();
    for (group, first) in blocks.chunks(HEADS_AT_ONCE).zip((first_block..).step_by(HEADS_AT_ONCE)) {
        let mut heads = [[0; HEAD_BYTES]; HEADS_AT_ONCE];
        for (head, block) in heads.iter_mut().zip(group) {
            head.copy_from_slice(&block[..HEAD_BYTES]);
        }
        for (head, number) in heads[..group.len()].iter().zip(first..) {
            report.blocks_checked += 1;
            if *head != xoshiro::block_head(hash, number) {
                report.blocks_bad += 1;
                report.first_bad_block.get_or_insert(number);
            }
        }
    }
    report
}

fn check(
    blocks: &[Block],
    first_block: u64,
    matches: impl Fn(&Block, u64) -> bool,
) -> VerifyReport {
    let mut report =
        VerifyReport { blocks_checked: blocks.len() as u64, ..VerifyReport::default() };
    for (block, number) in blocks.iter().zip(first_block..) {
        if !matches(block, number) {
            report.blocks_bad += 1;
            report.first_bad_block.get_or_insert(number);
        }
    }
    report
}
