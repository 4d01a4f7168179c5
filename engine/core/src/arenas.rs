//! Addresses that `malloc` reserves.

#![allow(
    unsafe_code,
    reason = "a setting of the C library for which no crate of ours has a function"
)]

/// Bounds the number of `malloc`'s arenas. Each reserves 64 MiB of addresses for the threads that
/// use it: where addresses are limited (`ulimit -v`), those of many threads would leave none for
/// stacks and buffers. Only glibc has them.
pub fn bound_arenas(most: u8) {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes a setting of the allocator, which any thread may do at any time. It
    // answers 0 for a setting that it does not know; then everything is as it was.
    let _is_known = unsafe { libc::mallopt(libc::M_ARENA_MAX, i32::from(most)) };
    #[cfg(not(target_env = "gnu"))]
    let _ = most;
}
