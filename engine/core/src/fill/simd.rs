//! `xoshiro.rs` in x86-64 vectors, chosen at run time; on other CPUs these fall back to it.
//!
//! The step and the seeding are macros: a helper function would need the same target features and
//! would be called, with its vectors passed through memory, wherever it is not inlined.
#![allow(unsafe_code, reason = "vector loads and stores, and calls that need a CPU feature")]

#[cfg(not(target_arch = "x86_64"))]
pub(super) use elsewhere::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::*;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    use crate::fill::Block;
    use crate::fill::xoshiro::{FOURTH_WORD, GOLDEN, NameHash, STEP_BYTES, THIRD_WORD};
    use crate::fill::xoshiro::{MIX_FACTORS, MIX_SHIFTS};

    const SHIFT_1: u32 = MIX_SHIFTS[0];
    const SHIFT_2: u32 = MIX_SHIFTS[1];
    const SHIFT_3: u32 = MIX_SHIFTS[2];

    /// Distance of each lane from lane 0 in the `splitmix64` sequences of a block.
    const LANE_OFFSETS: [i64; 8] = {
        let mut offsets = [0; 8];
        let mut lane = 0;
        while lane < offsets.len() {
            offsets[lane] = GOLDEN.wrapping_mul(lane as u64).cast_signed();
            lane += 1;
        }
        offsets
    };

    /// Whether this CPU has what the `_avx2` functions use (std caches the answer).
    pub(in crate::fill) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
    }

    /// Whether this CPU has what the `_avx512` functions use (std caches the answer).
    pub(in crate::fill) fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
    }

    /// [`crate::fill::xoshiro::fill_blocks`]; panics without AVX2.
    pub(in crate::fill) fn fill_blocks_avx2(blocks: &mut [Block], hash: NameHash, first: u64) {
        assert!(has_avx2(), "this CPU has no AVX2");
        // SAFETY: the one feature that the function needs was checked above.
        unsafe { fill_avx2(blocks, hash, first) }
    }

    /// [`crate::fill::xoshiro::fill_blocks`]; panics without AVX-512 F and DQ.
    pub(in crate::fill) fn fill_blocks_avx512(blocks: &mut [Block], hash: NameHash, first: u64) {
        assert!(has_avx512(), "this CPU has no AVX-512");
        // SAFETY: the two features that the function needs were checked above.
        unsafe { fill_avx512::<false>(blocks, hash, first) }
    }

    /// As [`fill_blocks_avx512`], past the caches; panics also when `blocks` is not 64-byte
    /// aligned.
    pub(in crate::fill) fn stream_blocks_avx512(blocks: &mut [Block], hash: NameHash, first: u64) {
        assert!(has_avx512(), "this CPU has no AVX-512");
        assert!(blocks.as_ptr().cast::<__m512i>().is_aligned(), "a streamed buffer is aligned");
        // SAFETY: the two features and the alignment that the function needs were checked above.
        unsafe { fill_avx512::<true>(blocks, hash, first) };
    }

    /// [`crate::fill::xoshiro::block_matches`]; panics without AVX2.
    pub(in crate::fill) fn block_matches_avx2(block: &Block, hash: NameHash, number: u64) -> bool {
        assert!(has_avx2(), "this CPU has no AVX2");
        // SAFETY: the one feature that the function needs was checked above.
        unsafe { matches_avx2(block, hash, number) }
    }

    /// [`crate::fill::xoshiro::block_matches`]; panics without AVX-512 F and DQ.
    pub(in crate::fill) fn block_matches_avx512(
        block: &Block,
        hash: NameHash,
        number: u64,
    ) -> bool {
        assert!(has_avx512(), "this CPU has no AVX-512");
        // SAFETY: the two features that the function needs were checked above.
        unsafe { matches_avx512(block, hash, number) }
    }

    /// `mix64` of eight lanes.
    macro_rules! mix_avx512 {
        ($x:expr) => {{
            let x = $x;
            let x = _mm512_xor_si512(x, _mm512_srli_epi64::<SHIFT_1>(x));
            let x = _mm512_mullo_epi64(x, _mm512_set1_epi64(MIX_FACTORS[0].cast_signed()));
            let x = _mm512_xor_si512(x, _mm512_srli_epi64::<SHIFT_2>(x));
            let x = _mm512_mullo_epi64(x, _mm512_set1_epi64(MIX_FACTORS[1].cast_signed()));
            _mm512_xor_si512(x, _mm512_srli_epi64::<SHIFT_3>(x))
        }};
    }

    /// The four words of all eight lanes at the start of a block.
    macro_rules! seed_avx512 {
        ($hash:expr, $number:expr) => {{
            let (low, high) = $hash.positions($number);
            let [o0, o1, o2, o3, o4, o5, o6, o7] = LANE_OFFSETS;
            let offsets = _mm512_setr_epi64(o0, o1, o2, o3, o4, o5, o6, o7);
            let low = _mm512_add_epi64(_mm512_set1_epi64(low.cast_signed()), offsets);
            let high = _mm512_add_epi64(_mm512_set1_epi64(high.cast_signed()), offsets);
            let (first, second) = (mix_avx512!(low), mix_avx512!(high));
            let third = _mm512_set1_epi64(THIRD_WORD.cast_signed());
            let fourth = _mm512_set1_epi64(FOURTH_WORD.cast_signed());
            (
                first,
                second,
                _mm512_xor_si512(_mm512_rol_epi64::<32>(first), third),
                _mm512_xor_si512(_mm512_rol_epi64::<32>(second), fourth),
            )
        }};
    }

    /// One step of all eight lanes; evaluates to their output.
    macro_rules! step_avx512 {
        ($s0:ident, $s1:ident, $s2:ident, $s3:ident) => {{
            /// Truth table of a three-way exclusive or.
            const XOR3: i32 = 0x96;
            let sum = _mm512_rol_epi64::<23>(_mm512_add_epi64($s0, $s3));
            let output = _mm512_add_epi64(sum, $s0);
            let shifted = _mm512_slli_epi64::<17>($s1);
            let mixed = _mm512_xor_si512($s3, $s1);
            let next1 = _mm512_ternarylogic_epi64::<XOR3>($s1, $s2, $s0);
            $s2 = _mm512_ternarylogic_epi64::<XOR3>($s2, $s0, shifted);
            $s0 = _mm512_xor_si512($s0, mixed);
            $s1 = next1;
            $s3 = _mm512_rol_epi64::<45>(mixed);
            output
        }};
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    fn fill_avx512<const STREAM: bool>(blocks: &mut [Block], hash: NameHash, first_block: u64) {
        for (block, number) in blocks.iter_mut().zip(first_block..) {
            let (mut s0, mut s1, mut s2, mut s3) = seed_avx512!(hash, number);
            for bytes in block.as_chunks_mut::<STEP_BYTES>().0 {
                let output = step_avx512!(s0, s1, s2, s3);
                if STREAM {
                    // SAFETY: `bytes` is 64 bytes, borrowed exclusively, and the caller checked
                    // that the first is aligned, hence all are.
                    unsafe { _mm512_stream_si512(bytes.as_mut_ptr().cast(), output) };
                } else {
                    // SAFETY: `bytes` is 64 bytes, borrowed exclusively; no alignment is asked.
                    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), output) };
                }
            }
        }
        if STREAM {
            // Streamed stores are weakly ordered: whoever is told of the buffer next must see them.
            _mm_sfence();
        }
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    fn matches_avx512(block: &Block, hash: NameHash, number: u64) -> bool {
        /// Truth table of `a | (b ^ c)`.
        const OR_XOR: i32 = 0xf6;
        let (mut s0, mut s1, mut s2, mut s3) = seed_avx512!(hash, number);
        let mut difference = _mm512_setzero_si512();
        for bytes in block.as_chunks::<STEP_BYTES>().0 {
            let expected = step_avx512!(s0, s1, s2, s3);
            // SAFETY: `bytes` is 64 borrowed bytes; no alignment is asked.
            let found = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
            difference = _mm512_ternarylogic_epi64::<OR_XOR>(difference, expected, found);
        }
        _mm512_test_epi64_mask(difference, difference) == 0
    }

    /// `x` × `factor` in four 64-bit lanes, of the 32-bit multiplies that AVX2 has.
    macro_rules! multiply_avx2 {
        ($x:expr, $factor:expr) => {{
            let x = $x;
            let factor = _mm256_set1_epi64x($factor.cast_signed());
            let factor_high = _mm256_set1_epi64x(($factor >> 32).cast_signed());
            let cross = _mm256_add_epi64(
                _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), factor),
                _mm256_mul_epu32(x, factor_high),
            );
            _mm256_add_epi64(_mm256_mul_epu32(x, factor), _mm256_slli_epi64::<32>(cross))
        }};
    }

    /// `mix64` of four lanes.
    macro_rules! mix_avx2 {
        ($x:expr) => {{
            const SHIFTS: [i32; 3] = [SHIFT_1 as i32, SHIFT_2 as i32, SHIFT_3 as i32];
            let x = $x;
            let x = _mm256_xor_si256(x, _mm256_srli_epi64::<{ SHIFTS[0] }>(x));
            let x = multiply_avx2!(x, MIX_FACTORS[0]);
            let x = _mm256_xor_si256(x, _mm256_srli_epi64::<{ SHIFTS[1] }>(x));
            let x = multiply_avx2!(x, MIX_FACTORS[1]);
            _mm256_xor_si256(x, _mm256_srli_epi64::<{ SHIFTS[2] }>(x))
        }};
    }

    /// A rotation of four lanes to the left.
    macro_rules! rotate_avx2 {
        ($x:expr, $by:literal) => {{
            let x = $x;
            _mm256_or_si256(_mm256_slli_epi64::<$by>(x), _mm256_srli_epi64::<{ 64 - $by }>(x))
        }};
    }

    /// The four words of lanes `$lane..$lane + 4` at the start of a block.
    macro_rules! seed_avx2 {
        ($hash:expr, $number:expr, $lane:literal) => {{
            let (low, high) = $hash.positions($number);
            let offsets = _mm256_setr_epi64x(
                LANE_OFFSETS[$lane],
                LANE_OFFSETS[$lane + 1],
                LANE_OFFSETS[$lane + 2],
                LANE_OFFSETS[$lane + 3],
            );
            let low = _mm256_add_epi64(_mm256_set1_epi64x(low.cast_signed()), offsets);
            let high = _mm256_add_epi64(_mm256_set1_epi64x(high.cast_signed()), offsets);
            let (first, second) = (mix_avx2!(low), mix_avx2!(high));
            let third = _mm256_set1_epi64x(THIRD_WORD.cast_signed());
            let fourth = _mm256_set1_epi64x(FOURTH_WORD.cast_signed());
            (
                first,
                second,
                _mm256_xor_si256(rotate_avx2!(first, 32), third),
                _mm256_xor_si256(rotate_avx2!(second, 32), fourth),
            )
        }};
    }

    /// One step of four lanes; evaluates to their output.
    macro_rules! step_avx2 {
        ($s0:ident, $s1:ident, $s2:ident, $s3:ident) => {{
            let output = _mm256_add_epi64(rotate_avx2!(_mm256_add_epi64($s0, $s3), 23), $s0);
            let shifted = _mm256_slli_epi64::<17>($s1);
            $s2 = _mm256_xor_si256($s2, $s0);
            $s3 = _mm256_xor_si256($s3, $s1);
            $s1 = _mm256_xor_si256($s1, $s2);
            $s0 = _mm256_xor_si256($s0, $s3);
            $s2 = _mm256_xor_si256($s2, shifted);
            $s3 = rotate_avx2!($s3, 45);
            output
        }};
    }

    #[target_feature(enable = "avx2")]
    fn fill_avx2(blocks: &mut [Block], hash: NameHash, first_block: u64) {
        for (block, number) in blocks.iter_mut().zip(first_block..) {
            let (mut a0, mut a1, mut a2, mut a3) = seed_avx2!(hash, number, 0);
            let (mut b0, mut b1, mut b2, mut b3) = seed_avx2!(hash, number, 4);
            for [low, high] in block.as_chunks_mut::<{ STEP_BYTES / 2 }>().0.as_chunks_mut().0 {
                let output = step_avx2!(a0, a1, a2, a3);
                // SAFETY: `low` is 32 bytes, borrowed exclusively; no alignment is asked.
                unsafe { _mm256_storeu_si256(low.as_mut_ptr().cast(), output) };
                let output = step_avx2!(b0, b1, b2, b3);
                // SAFETY: `high` is 32 bytes, borrowed exclusively; no alignment is asked.
                unsafe { _mm256_storeu_si256(high.as_mut_ptr().cast(), output) };
            }
        }
    }

    #[target_feature(enable = "avx2")]
    fn matches_avx2(block: &Block, hash: NameHash, number: u64) -> bool {
        let (mut a0, mut a1, mut a2, mut a3) = seed_avx2!(hash, number, 0);
        let (mut b0, mut b1, mut b2, mut b3) = seed_avx2!(hash, number, 4);
        let mut difference = _mm256_setzero_si256();
        for [low, high] in block.as_chunks::<{ STEP_BYTES / 2 }>().0.as_chunks().0 {
            let expected = step_avx2!(a0, a1, a2, a3);
            // SAFETY: `low` is 32 borrowed bytes; no alignment is asked.
            let found = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
            difference = _mm256_or_si256(difference, _mm256_xor_si256(expected, found));
            let expected = step_avx2!(b0, b1, b2, b3);
            // SAFETY: `high` is 32 borrowed bytes; no alignment is asked.
            let found = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
            difference = _mm256_or_si256(difference, _mm256_xor_si256(expected, found));
        }
        _mm256_testz_si256(difference, difference) == 1
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use crate::fill::xoshiro;

    /// No x86-64, no AVX2.
    pub(in crate::fill) fn has_avx2() -> bool {
        false
    }

    /// No x86-64, no AVX-512.
    pub(in crate::fill) fn has_avx512() -> bool {
        false
    }

    pub(in crate::fill) use xoshiro::block_matches as block_matches_avx2;
    pub(in crate::fill) use xoshiro::block_matches as block_matches_avx512;
    pub(in crate::fill) use xoshiro::fill_blocks as fill_blocks_avx2;
    pub(in crate::fill) use xoshiro::fill_blocks as fill_blocks_avx512;
    pub(in crate::fill) use xoshiro::fill_blocks as stream_blocks_avx512;
}
