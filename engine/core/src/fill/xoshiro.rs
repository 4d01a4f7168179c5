//! The content's definition: eight interleaved xoshiro256++ (Blackman, Vigna 2019) a block.
//!
//! Everything is in arrays of eight lanes, whole array by whole array. LLVM 22 makes no NEON of
//! that, so this is the slow path; `simd.rs` computes exactly this.

use super::{BLOCK_LENGTH, Block, ContentName};
use crate::key::mix64;

/// Generators a block. Fixed by the format, whatever the CPU: one AVX-512 register.
pub(super) const LANES: usize = 8;
/// Bytes that the lanes put out in one step: lane 0's u64 first, little-endian.
pub(super) const STEP_BYTES: usize = LANES * 8;

/// Increment of `splitmix64` (2^64 / golden ratio, odd).
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The multipliers of [`mix64`], for the vector paths.
#[cfg(target_arch = "x86_64")]
pub(super) const MIX_FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// The shifts of [`mix64`], for the vector paths.
#[cfg(target_arch = "x86_64")]
pub(super) const MIX_SHIFTS: [u32; 3] = [30, 27, 31];
/// First digits of pi: makes the third word of a lane's state differ from the first; as it is not
/// zero, no lane can start in the all-zero state that xoshiro never leaves.
pub(super) const THIRD_WORD: u64 = 0x243f_6a88_85a3_08d3;
/// Next digits of pi: makes the fourth word differ from the second.
pub(super) const FOURTH_WORD: u64 = 0x1319_8a2e_0370_7344;
/// Further digits of pi: the starts of the two hashes of a name.
const HASH_STARTS: [u64; 2] = [0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

const _: () = assert!(BLOCK_LENGTH.is_multiple_of(STEP_BYTES));
const _: () = assert!(GOLDEN % 2 == 1);

/// A content name hashed to 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NameHash {
    /// Feeds the first and third word of every lane.
    pub(super) low: u64,
    /// Feeds the second and fourth word.
    pub(super) high: u64,
}

impl NameHash {
    /// Each step is a bijection of what it absorbs: names that differ in one field never collide.
    pub(super) fn of(name: &ContentName) -> NameHash {
        let absorb = |hash: u64, word: u64| mix64(hash.wrapping_add(GOLDEN) ^ word);
        let key_low = name.key.0 as u64;
        let key_high = (name.key.0 >> 64) as u64;
        let [low, high] = HASH_STARTS.map(|start| {
            let words = [name.seed, key_low, key_high, u64::from(name.version)];
            words.into_iter().fold(start, absorb)
        });
        NameHash { low, high }
    }

    /// Where lane 0 of a block stands in the two `splitmix64` sequences; lane `l` is `l` further.
    #[inline]
    pub(super) fn positions(self, block: u64) -> (u64, u64) {
        let offset = block.wrapping_mul(LANES as u64).wrapping_mul(GOLDEN);
        (self.low.wrapping_add(offset), self.high.wrapping_add(offset))
    }
}

/// One word of the state of every generator.
type Word = [u64; LANES];

/// The eight generators, word by word.
struct Lanes([Word; 4]);

#[inline]
fn zip(a: Word, b: Word, operation: impl Fn(u64, u64) -> u64) -> Word {
    std::array::from_fn(|lane| operation(a[lane], b[lane]))
}

impl Lanes {
    #[inline]
    fn new(hash: NameHash, block: u64) -> Lanes {
        let (low, high) = hash.positions(block);
        let mut words = [[0; LANES]; 4];
        for lane in 0..LANES {
            let state = lane_state(low, high, lane as u64);
            for (word, value) in words.iter_mut().zip(state) {
                word[lane] = value;
            }
        }
        Lanes(words)
    }

    #[inline]
    fn step(&mut self) -> [u64; LANES] {
        let [s0, s1, s2, s3] = self.0;
        // Operation by operation, not lane by lane: fills 1.2 times as fast (x86-64, LLVM 22).
        let xor = |a, b| zip(a, b, |a, b| a ^ b);
        let rotate = |a: Word, by| a.map(|a| a.rotate_left(by));
        let output = zip(rotate(zip(s0, s3, u64::wrapping_add), 23), s0, u64::wrapping_add);
        let shifted = s1.map(|s1| s1 << 17);
        let s2 = xor(s2, s0);
        let s3 = xor(s3, s1);
        self.0 = [xor(s0, s3), xor(s1, s2), xor(s2, shifted), rotate(s3, 45)];
        output
    }
}

/// Start of one lane: two mixes make four words, because seeding would otherwise be a fifth of the
/// time. xoshiro is linear, so words related by a rotation stay so only in its hidden state: the
/// output adds words that are independent.
#[inline]
fn lane_state(low: u64, high: u64, lane: u64) -> [u64; 4] {
    let offset = lane.wrapping_mul(GOLDEN);
    let first = mix64(low.wrapping_add(offset));
    let second = mix64(high.wrapping_add(offset));
    let third = first.rotate_left(32) ^ THIRD_WORD;
    let fourth = second.rotate_left(32) ^ FOURTH_WORD;
    [first, second, third, fourth]
}

/// The `++` scrambler.
#[inline]
fn first_output(s0: u64, s3: u64) -> u64 {
    s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0)
}

/// Bytes that [`block_head`] makes.
pub(super) const HEAD_BYTES: usize = 16;

/// The first 16 bytes of a block, without the rest: the first outputs of lanes 0 and 1.
#[inline]
pub(super) fn block_head(hash: NameHash, block: u64) -> [u8; HEAD_BYTES] {
    let (low, high) = hash.positions(block);
    let mut head = [0; HEAD_BYTES];
    for (lane, bytes) in head.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let [s0, _, _, s3] = lane_state(low, high, lane as u64);
        *bytes = first_output(s0, s3).to_le_bytes();
    }
    head
}

pub(super) fn fill_blocks(blocks: &mut [Block], hash: NameHash, first_block: u64) {
    for (block, number) in blocks.iter_mut().zip(first_block..) {
        let mut lanes = Lanes::new(hash, number);
        for step in block.as_chunks_mut::<STEP_BYTES>().0 {
            for (bytes, word) in step.as_chunks_mut::<8>().0.iter_mut().zip(lanes.step()) {
                *bytes = word.to_le_bytes();
            }
        }
    }
}

/// Whether a block holds exactly the content of its name. Compares without branching per step:
/// a good block is the rule, a bad one may take as long.
pub(super) fn block_matches(block: &Block, hash: NameHash, number: u64) -> bool {
    let mut lanes = Lanes::new(hash, number);
    let mut difference = [0; LANES];
    for step in block.as_chunks::<STEP_BYTES>().0 {
        let expected = lanes.step();
        for (lane, bytes) in step.as_chunks::<8>().0.iter().enumerate() {
            difference[lane] |= expected[lane] ^ u64::from_le_bytes(*bytes);
        }
    }
    difference == [0; LANES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::EntryKey;
    use rand::Rng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn generator(state: [u64; 4]) -> Xoshiro256PlusPlus {
        let mut seed = [0; 32];
        for (bytes, word) in seed.as_chunks_mut::<8>().0.iter_mut().zip(state) {
            *bytes = word.to_le_bytes();
        }
        Xoshiro256PlusPlus::from_seed(seed)
    }

    /// The definition again, lane by lane, with somebody else's generator.
    #[test]
    fn a_block_is_eight_generators_of_the_published_algorithm_taken_in_turn() {
        let hash = NameHash::of(&ContentName { seed: 3, key: EntryKey(5), version: 7 });
        for number in [0, 1, 1000, (1 << 61) - 1] {
            let mut block = [0; BLOCK_LENGTH];
            fill_blocks(std::slice::from_mut(&mut block), hash, number);
            let (low, high) = hash.positions(number);
            for lane in 0..LANES {
                let mut generator = generator(lane_state(low, high, lane as u64));
                for step in 0..BLOCK_LENGTH / STEP_BYTES {
                    let at = step * STEP_BYTES + lane * 8;
                    assert_eq!(block[at..at + 8], generator.next_u64().to_le_bytes());
                }
            }
            assert_eq!(block[..HEAD_BYTES], block_head(hash, number));
            assert!(block_matches(&block, hash, number));
        }
    }

    #[test]
    fn every_field_of_a_name_and_every_bit_of_a_key_changes_both_hashes() {
        let name = ContentName { seed: 0, key: EntryKey(0), version: 0 };
        let mut names = vec![name];
        names.extend((0..64).map(|bit| ContentName { seed: 1 << bit, ..name }));
        names.extend((0..128).map(|bit| ContentName { key: EntryKey(1 << bit), ..name }));
        names.extend((0..32).map(|bit| ContentName { version: 1 << bit, ..name }));
        let hashes: Vec<NameHash> = names.iter().map(NameHash::of).collect();
        for (i, one) in hashes.iter().enumerate() {
            for other in &hashes[..i] {
                assert_ne!(one.low, other.low);
                assert_ne!(one.high, other.high);
            }
        }
    }
}
