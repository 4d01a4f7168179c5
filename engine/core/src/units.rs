//! Sizes and alignment: the one place that knows what a block is.

/// 1 KiB in bytes.
pub const KIB: u64 = 1 << 10;
/// 1 MiB in bytes.
pub const MIB: u64 = 1 << 20;
/// 1 GiB in bytes.
pub const GIB: u64 = 1 << 30;
/// 1 TiB in bytes.
pub const TIB: u64 = 1 << 40;

/// Unit of storage allocation, of content generation and of O_DIRECT alignment: 4 KiB, the page
/// size and the logical block of every NVMe format in common use (512-byte formats divide it).
pub const BLOCK_BYTES: u64 = 4096;

const _: () = assert!(BLOCK_BYTES.is_power_of_two());

/// Blocks that hold `bytes`, rounded up.
pub const fn blocks_for(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}

/// `bytes` rounded up to whole blocks.
pub const fn round_up_to_block(bytes: u64) -> u64 {
    blocks_for(bytes) * BLOCK_BYTES
}

/// Bytes as GiB, for reports.
#[expect(clippy::cast_precision_loss, reason = "a report figure: 2^53 bytes is 8 PiB")]
pub fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_up_and_exact_on_the_boundary() {
        assert_eq!(blocks_for(0), 0);
        assert_eq!(blocks_for(1), 1);
        assert_eq!(blocks_for(4096), 1);
        assert_eq!(round_up_to_block(4097), 8192);
    }
}
