//! Size of the batches in which a plain thread that replaces I/Os as they complete hands them over.
//!
//! All that completed together at once is bad where the queue is deep: it went out 11 I/Os a system
//! call at 32 in flight, and at 0.83 of the rate of fio, which hands over each by itself. One at a
//! time is a system call for each, and was slow whenever the machine was. Reads of 4 KiB from a
//! virtio drive, by one process that changed the rule every 30 ms for 4 s, thousands a second: a
//! run while the virtual machine's host was slow, and one while it was fast.
//!
//! | in flight | one by one | four and a quarter | eight and a quarter | all at once |
//! |---|---|---|---|---|
//! | 8 | 16, 49 | 28, 49 | 38, 48 | 37, 48 |
//! | 16 | 22, 65 | 33, 65 | 40, 63 | 44, 60 |
//! | 32 | 45, 75 | 51, 73 | 54, 69 | 53, 63 |
//! | 64 | 44, 82 | 63, 80 | 61, 80 | 58, 74 |
//! | 128 | 50, 87 | 69, 84 | 60, 84 | 61, 86 |

/// Fewer are not worth a system call of their own.
const LEAST: usize = 4;
/// No more than this part of what is in flight is kept from the device, as a divisor.
const SHARE: usize = 4;

/// Whether so many I/Os that have not been handed over, of those in flight, are a batch.
#[inline]
pub(super) fn is_batch(kept: usize, in_flight: u32) -> bool {
    kept >= LEAST.max(in_flight as usize / SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_quarter_of_a_deep_queue_and_four_of_a_shallow_one() {
        let least = |in_flight| (0..=in_flight as usize).find(|&kept| is_batch(kept, in_flight));
        assert_eq!([1, 3].map(least), [None, None], "so few are handed over by the next wait");
        assert_eq!([4, 16, 19].map(least), [Some(4), Some(4), Some(4)]);
        assert_eq!([32, 128, 4096].map(least), [Some(8), Some(32), Some(1024)]);
    }
}
