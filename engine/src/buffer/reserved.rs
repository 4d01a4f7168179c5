//! Account of the memory in reserved huge pages (`vm.nr_hugepages`), which the kernel counts in no
//! process's resident set.

use std::sync::atomic::{AtomicU64, Ordering};

/// Account of all mappings of this process.
pub(super) static RESERVED: Reserved = Reserved::new();

/// Most bytes that this process has held in reserved huge pages since it began, or since
/// [`reset_reserved_peak`].
pub fn reserved_peak_bytes() -> u64 {
    RESERVED.peak_bytes.load(Ordering::Relaxed)
}

/// Has [`reserved_peak_bytes`] begin again with what is held now.
pub fn reset_reserved_peak() {
    RESERVED.reset();
}

/// Bytes that are held, and the most that were at a time.
#[derive(Debug)]
pub(super) struct Reserved {
    held_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Reserved {
    const fn new() -> Reserved {
        Reserved { held_bytes: AtomicU64::new(0), peak_bytes: AtomicU64::new(0) }
    }

    /// Counts a mapping, whose pages nobody else gets from now on.
    pub(super) fn take(&self, bytes: usize) {
        let bytes = bytes as u64;
        let held_bytes = self.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(held_bytes, Ordering::Relaxed);
    }

    /// Counts a mapping no longer.
    pub(super) fn give_back(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    fn reset(&self) {
        self.peak_bytes.store(self.held_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mapping, PageKind};
    use super::*;

    #[test]
    fn the_most_that_was_held_is_kept_until_it_is_reset() {
        let reserved = Reserved::new();
        let peak = || reserved.peak_bytes.load(Ordering::Relaxed);
        reserved.take(5);
        reserved.take(3);
        reserved.give_back(5);
        reserved.take(1);
        assert_eq!(peak(), 8);
        reserved.reset();
        assert_eq!(peak(), 4);
        reserved.take(1);
        assert_eq!(peak(), 5);
    }

    /// They were left out of a process's peak where a machine has them.
    #[test]
    fn a_mapping_in_reserved_pages_is_counted() {
        let mapping = Mapping::new(1, true).unwrap();
        // Other tests have mappings of their own.
        let is_counted = reserved_peak_bytes() >= mapping.len() as u64;
        assert!(is_counted || mapping.page_kind() == PageKind::Transparent);
    }
}
