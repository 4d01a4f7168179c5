//! The most memory that this process has held, which the kernel counts in two places.

use ringfall_engine::buffer::{reserved_peak_bytes, reset_reserved_peak};
use ringfall_host::{peak_rss_bytes, reset_peak_rss};

/// Highest resident memory and the most reserved huge pages, together, since the process began or
/// [`reset_peak_memory`], bytes; none where the kernel doesn't say.
pub(super) fn peak_memory_bytes() -> Option<u64> {
    Some(peak_rss_bytes()?.saturating_add(reserved_peak_bytes()))
}

/// Has [`peak_memory_bytes`] count from now on, as far as the kernel does.
pub(super) fn reset_peak_memory() {
    reset_peak_rss();
    reset_reserved_peak();
}
