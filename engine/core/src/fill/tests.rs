//! Properties of content as a whole: the same on every path, unique, incompressible, unchanging.

use super::*;

fn name(seed: u64, key: u128, version: u32) -> ContentName {
    ContentName { seed, key: EntryKey(key), version }
}

fn content(name: &ContentName, first_block: u64, blocks: usize) -> Vec<u8> {
    let mut buffer = vec![0; blocks * BLOCK_LENGTH];
    fill(&mut buffer, name, first_block);
    buffer
}

#[test]
fn blocks_do_not_depend_on_what_is_filled_around_them() {
    let name = name(1, 2, 3);
    let whole = content(&name, 10, 8);
    for block in 0..8 {
        let alone = content(&name, 10 + block as u64, 1);
        assert_eq!(alone, whole[block * BLOCK_LENGTH..][..BLOCK_LENGTH]);
    }
}

/// A generator for tests: `splitmix64` from a printed seed.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(xoshiro::GOLDEN);
        crate::key::mix64(self.0)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn name(&mut self) -> ContentName {
        let key = u128::from(self.next()) << 64 | u128::from(self.next());
        name(self.next(), key, self.next() as u32)
    }
}

#[test]
fn every_supported_path_equals_the_portable_one() {
    let supported = Implementation::ALL.into_iter().filter(|path| path.is_supported());
    for path in supported {
        let mut stream = Stream(0x5eed);
        for case in 0..300 {
            let name = stream.name();
            let blocks = stream.below(6);
            let first_block = stream.next() % (BLOCKS_MAX - 5);
            // Odd addresses too, and a byte either side that must stay as it was.
            let start = 1 + stream.below(64);
            let length = blocks * BLOCK_LENGTH;
            let mut buffer = vec![0xa5; start + length + 1];
            let mut expected = buffer.clone();
            let inside = start..start + length;
            fill_with(path, &mut buffer[inside.clone()], &name, first_block);
            fill_with(Implementation::Portable, &mut expected[inside.clone()], &name, first_block);
            assert!(buffer == expected, "{path:?} differs in case {case}");
            for checker in [path, Implementation::Portable] {
                let content = &buffer[inside.clone()];
                let report = verify_with(checker, VerifyMode::Full, content, &name, first_block);
                assert_eq!((report.blocks_checked, report.blocks_bad), (blocks as u64, 0));
            }
        }
    }
}

#[test]
fn the_best_path_is_supported_and_named() {
    assert!(Implementation::best().is_supported());
    assert_eq!(implementation(), Implementation::best().name());
    let faster =
        Implementation::ALL.iter().rev().take_while(|path| **path != Implementation::best());
    assert_eq!(faster.filter(|path| path.is_supported()).count(), 0);
}

/// First bytes of the golden block, made by a separate program from the definition.
const GOLDEN_HEAD: [u8; 16] = [
    0xde, 0xff, 0x4a, 0x10, 0xed, 0xec, 0x0b, 0x1e, 0x90, 0x29, 0x09, 0x5e, 0x73, 0x17, 0xe1, 0x1c,
];
/// Its last bytes.
const GOLDEN_TAIL: [u8; 16] = [
    0xfb, 0x2c, 0x6d, 0x4b, 0x22, 0x97, 0x7b, 0x08, 0x97, 0x88, 0x02, 0xf9, 0x96, 0xb7, 0xfd, 0xed,
];
/// The FNV-1a hash of all of it.
const GOLDEN_FNV1A: u64 = 0x92aa_275b_c3e7_afdb;

#[test]
fn content_of_a_name_never_changes() {
    // Data files and traces of other runs are checked against this: a change of these bytes is a
    // change of the format.
    let block = content(&name(42, 7 << 64 | 9, 3), 11, 1);
    assert_eq!(block[..16], GOLDEN_HEAD);
    assert_eq!(block[BLOCK_LENGTH - 16..], GOLDEN_TAIL);
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    assert_eq!(block.iter().fold(0xcbf2_9ce4_8422_2325, fold), GOLDEN_FNV1A);
}

/// Sector hashes are exact here: 128 bits of the sector itself, which is its first two words, since
/// equal sectors have equal first words and the converse chance at 2^18 sectors is 2^-93.
#[test]
fn no_sector_repeats_across_blocks_entries_versions_and_seeds() {
    const SECTOR: usize = 512;
    let mut seen = std::collections::HashSet::new();
    let mut sectors = 0;
    let mut buffer = vec![0; 16 * BLOCK_LENGTH];
    for seed in 0..4 {
        for key in 0..32u128 {
            for version in 0..4 {
                // Neighbouring keys in either half, and a block range far from the start.
                for (key, first) in [(key + 1, 0), (key << 64, 0), (key + 1, 1 << 40)] {
                    fill(&mut buffer, &name(seed, key, version), first);
                    for sector in buffer.as_chunks::<SECTOR>().0 {
                        let (head, _) = sector.split_first_chunk::<16>().unwrap();
                        seen.insert(u128::from_le_bytes(*head));
                        sectors += 1;
                    }
                }
            }
        }
    }
    assert_eq!(sectors, 4 * 32 * 4 * 3 * 128);
    assert_eq!(seen.len(), sectors);
}

#[test]
fn no_word_of_content_repeats_anywhere() {
    // Stronger than sectors: 2^20 aligned u64 of neighbouring names; chance of a pair 3e-8.
    let mut words: Vec<u64> = Vec::new();
    for version in 0..64 {
        let content = content(&name(1, 1, version), 0, 32);
        words.extend(content.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    }
    assert_eq!(words.len(), 1 << 20);
    words.sort_unstable();
    assert_eq!(words.windows(2).filter(|pair| pair[0] == pair[1]).count(), 0);
}

#[test]
fn zstd_gains_nothing_even_with_long_matches() {
    let mut data = Vec::new();
    for version in 0..4 {
        data.extend(content(&name(0, 0, version), 0, 512));
    }
    for level in [1, 3, 12] {
        let packed = zstd::bulk::compress(&data, level).unwrap();
        let ratio = data.len() as f64 / packed.len() as f64;
        assert!(ratio <= 1.001, "level {level}: {ratio}");
    }
}

#[test]
fn bytes_are_uniform_at_every_place_of_a_step() {
    // Chi-square with 255 degrees of freedom: mean 255, sigma 22.6; six sigma, both ways. By place,
    // so that one bad lane cannot hide; names are consecutive, as a run's are.
    let mut counts = vec![[0u32; 256]; xoshiro::STEP_BYTES];
    for key in 0..64 {
        let content = content(&name(9, key, 0), 0, 64);
        for step in content.as_chunks::<{ xoshiro::STEP_BYTES }>().0 {
            for (count, byte) in counts.iter_mut().zip(step) {
                count[usize::from(*byte)] += 1;
            }
        }
    }
    let expected = f64::from(64 * 64 * 64) / 256.0;
    for (place, counts) in counts.iter().enumerate() {
        let terms = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected);
        let chi_square: f64 = terms.sum();
        assert!((120.0..390.0).contains(&chi_square), "place {place}: {chi_square}");
    }
}

#[test]
fn first_bytes_of_consecutive_blocks_are_uniform() {
    // The head is all that sampling sees, and comes straight from the seeding.
    let mut ones = [0u32; 128];
    let blocks = 1 << 14;
    let content = content(&name(0, 0, 0), 0, blocks);
    for block in content.as_chunks::<BLOCK_LENGTH>().0 {
        let (head, _) = block.split_first_chunk::<16>().unwrap();
        let head = u128::from_le_bytes(*head);
        for (bit, ones) in ones.iter_mut().enumerate() {
            *ones += (head >> bit & 1) as u32;
        }
    }
    // Binomial(16384, 1/2): sigma 64; six sigma.
    assert!(ones.iter().all(|&n| n.abs_diff(1 << 13) < 384), "{ones:?}");
}

fn supported() -> impl Iterator<Item = Implementation> {
    Implementation::ALL.into_iter().filter(|path| path.is_supported())
}

#[test]
fn full_verification_finds_one_flipped_bit_anywhere() {
    let name = name(1, 2, 3);
    let good = content(&name, 5, 2);
    for path in supported() {
        for bit in 0..2 * BLOCK_LENGTH * 8 {
            let mut bad = [0; 2 * BLOCK_LENGTH];
            bad.copy_from_slice(&good);
            bad[bit / 8] ^= 1 << (bit % 8);
            let report = verify_with(path, VerifyMode::Full, &bad, &name, 5);
            let first = 5 + (bit / 8 / BLOCK_LENGTH) as u64;
            let expected =
                VerifyReport { blocks_checked: 2, blocks_bad: 1, first_bad_block: Some(first) };
            assert_eq!(report, expected, "{path:?}, bit {bit}");
        }
    }
}

#[test]
fn both_modes_find_misdirected_stale_foreign_and_unwritten_blocks() {
    let right = name(1, 2, 3);
    let wrong = [
        content(&right, 101, 4),
        content(&name(1, 2, 2), 100, 4),
        content(&name(1, 3, 3), 100, 4),
        content(&name(2, 2, 3), 100, 4),
        vec![0; 4 * BLOCK_LENGTH],
    ];
    for path in supported() {
        for mode in [VerifyMode::Sample, VerifyMode::Full] {
            for (case, wrong) in wrong.iter().enumerate() {
                let report = verify_with(path, mode, wrong, &right, 100);
                let expected =
                    VerifyReport { blocks_checked: 4, blocks_bad: 4, first_bad_block: Some(100) };
                assert_eq!(report, expected, "{path:?}, {mode:?}, case {case}");
            }
            let mut torn = content(&right, 100, 4);
            torn[2 * BLOCK_LENGTH..].copy_from_slice(&wrong[1][2 * BLOCK_LENGTH..]);
            let report = verify_with(path, mode, &torn, &right, 100);
            assert_eq!((report.blocks_bad, report.first_bad_block), (2, Some(102)));
        }
    }
}

#[test]
fn sampling_looks_at_sixteen_bytes_and_off_at_none() {
    let name = name(1, 2, 3);
    let mut buffer = content(&name, 0, 1);
    buffer[16] ^= 1;
    assert_eq!(verify(VerifyMode::Sample, &buffer, &name, 0).blocks_bad, 0);
    buffer[15] ^= 1;
    assert_eq!(verify(VerifyMode::Sample, &buffer, &name, 0).blocks_bad, 1);
    assert_eq!(verify(VerifyMode::Off, &buffer, &name, 0), VerifyReport::default());
}

#[test]
#[should_panic(expected = "whole blocks")]
fn half_a_block_is_a_mistake() {
    fill(&mut [0; BLOCK_LENGTH / 2], &name(0, 0, 0), 0);
}

#[test]
#[should_panic(expected = "below 2^61")]
fn a_block_number_that_would_wrap_is_a_mistake() {
    fill(&mut [0; 2 * BLOCK_LENGTH], &name(0, 0, 0), BLOCKS_MAX - 1);
}

#[test]
fn content_for_a_device_is_the_same_content_at_any_alignment() {
    let name = ContentName { seed: 5, key: EntryKey(77), version: 3 };
    let mut space = vec![0u8; 3 * 4096 + 128];
    let (mut expected, start) = (vec![0u8; 3 * 4096], space.as_ptr().align_offset(64));
    fill(&mut expected, &name, 9);
    for shift in [0, 1, 32, 64] {
        space.fill(0);
        fill_for_device(&mut space[start + shift % 64..][..3 * 4096], &name, 9);
        assert_eq!(&space[start + shift % 64..][..3 * 4096], &expected[..]);
    }
}
