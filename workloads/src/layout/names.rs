//! Names of objects after each engine's pattern, with digests of our own of the same length.

use crate::rng::mix64;

/// Increment between the states of a digest: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// 64 bits that follow from the numbers, the same on every machine.
pub(super) fn digest64(numbers: &[u64]) -> u64 {
    numbers.iter().fold(STEP, |state, number| mix64(state.wrapping_add(STEP) ^ mix64(*number)))
}

/// Digest of a chunk's tokens and all before them, 64 hexadecimal digits.
pub(super) fn chunk_digest(prefix: u64, unit: u64) -> String {
    (0..4).map(|part| format!("{:016x}", digest64(&[prefix, unit, part]))).collect()
}

/// Number that LMCache names a rank by. All ranks are on one machine.
pub(super) fn lmcache_rank(rank: u64, ranks: u64) -> u64 {
    ranks << 24 | rank << 16 | ranks << 8 | rank
}

/// Directory of vLLM's files of one model and rank; the digest stands for its configuration.
pub(super) fn vllm_root(model: &str, rank: u64) -> String {
    let bytes: Vec<u64> = model.bytes().map(u64::from).collect();
    let digest = digest64(&bytes) >> 16;
    format!("{}_{digest:012x}_r{rank}", model.replace('/', "_"))
}

/// Path of one of its files: directories of three and of two digits of its digest.
pub(super) fn vllm_path(root: &str, digest: &str) -> String {
    let (three, two) = (&digest[..3], &digest[3..5]);
    format!("{root}/{three}/{two}_g0/{digest}.bin")
}

/// Directory that a path lies in; none for a plain name.
pub(super) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}
