//! Making a ring: the best flags this kernel takes, registered files and buffers.

#![allow(unsafe_code, reason = "registering memory with the kernel")]

use std::os::fd::RawFd;

use io_uring::{IoUring, cqueue, squeue};

use super::probe::{RingFeatures, setup_failure};
use crate::error::SetupError;
use crate::units::GIB;

/// Most bytes the kernel registers as one buffer (`io_buffer_validate`, SZ_1G).
const REGISTERED_BUFFER_MAX_BYTES: u64 = GIB;

/// What a ring is made for.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingConfig {
    /// Submission queue entries; rounded up to a power of two by the kernel. The completion queue
    /// has twice as many.
    pub entries: u32,
    /// Whether a kernel thread takes submissions (`IORING_SETUP_SQPOLL`). It spins while there are
    /// any, which costs a core.
    pub submission_thread: bool,
    /// Whether completions are polled for on the drive (`IORING_SETUP_IOPOLL`): nothing but reads
    /// and writes of O_DIRECT files, and nobody rings for them. Excludes `submission_thread`.
    pub polled: bool,
}

/// How long the kernel's submission thread spins before it sleeps, ms.
pub(super) const SQ_THREAD_IDLE_MS: u32 = 100;

/// A ring fresh from the kernel, before it moves into the reactor. Its entries are of the usual
/// size, or larger.
pub struct RingSetup<S = squeue::Entry, C = cqueue::Entry>
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    pub(super) ring: IoUring<S, C>,
    pub(super) features: RingFeatures,
    /// Bytes a registered buffer spans, so that a region offset gives its index.
    pub(super) registered_span_bytes: usize,
}

/// One for NVMe commands, whose entries hold them and whose answers hold the drive's.
pub type CommandSetup = RingSetup<squeue::Entry128, cqueue::Entry32>;

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> std::fmt::Debug for RingSetup<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingSetup").field("features", &self.features).finish_non_exhaustive()
    }
}

impl RingSetup {
    /// Makes a ring on this thread, which must be the one to drive it (`SINGLE_ISSUER`), with the
    /// best flags the kernel takes, tried from the newest down.
    ///
    /// # Errors
    /// When io_uring is missing, forbidden or out of a resource.
    pub fn new(config: RingConfig) -> Result<RingSetup, SetupError> {
        RingSetup::sized(config)
    }
}

impl CommandSetup {
    /// The same for NVMe commands.
    ///
    /// # Errors
    /// As [`RingSetup::new`], and when this kernel has no such entries.
    pub fn commands(config: RingConfig) -> Result<CommandSetup, SetupError> {
        let mut setup = RingSetup::sized(config)?;
        setup.features.passthrough = true;
        Ok(setup)
    }
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> RingSetup<S, C> {
    /// As [`RingSetup::new`], with entries of any size.
    pub(super) fn sized(config: RingConfig) -> Result<RingSetup<S, C>, SetupError> {
        if config.submission_thread {
            return RingSetup::with_submission_thread(config.entries);
        }
        if config.polled {
            return RingSetup::polled(config.entries);
        }
        let mut features = RingFeatures { defer_taskrun: true, ..RingFeatures::default() };
        let best = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(config.entries.next_power_of_two() * 2)
            .build(config.entries);
        let ring = match best {
            Ok(ring) => ring,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                features = RingFeatures { coop_taskrun: true, ..RingFeatures::default() };
                IoUring::builder()
                    .setup_coop_taskrun()
                    .setup_taskrun_flag()
                    .setup_submit_all()
                    .build(config.entries)
                    .or_else(|_| {
                        features = RingFeatures::default();
                        IoUring::builder().build(config.entries)
                    })
                    .map_err(|e| setup_failure(e.raw_os_error().unwrap_or(0)))?
            }
            Err(error) => return Err(setup_failure(error.raw_os_error().unwrap_or(0))),
        };
        Ok(RingSetup { ring, features, registered_span_bytes: 0 })
    }

    /// One whose submissions a kernel thread takes. That excludes `DEFER_TASKRUN`: completions are
    /// posted as they come, and the bell rings for them.
    fn with_submission_thread(entries: u32) -> Result<RingSetup<S, C>, SetupError> {
        let ring = IoUring::builder()
            .setup_sqpoll(SQ_THREAD_IDLE_MS)
            .setup_submit_all()
            .setup_cqsize(entries.next_power_of_two() * 2)
            .build(entries)
            .map_err(|error| SetupError::Polling { name: "SQPOLL", reason: error.to_string() })?;
        let features = RingFeatures { submission_thread: true, ..RingFeatures::default() };
        Ok(RingSetup { ring, features, registered_span_bytes: 0 })
    }

    /// One that finds completions when [`super::Ring::poll`] looks for them. Without
    /// `DEFER_TASKRUN`: the look itself posts them, so there is no work to put off.
    fn polled(entries: u32) -> Result<RingSetup<S, C>, SetupError> {
        let ring = IoUring::builder()
            .setup_iopoll()
            .setup_submit_all()
            .setup_cqsize(entries.next_power_of_two() * 2)
            .build(entries)
            .map_err(|error| SetupError::Polling { name: "IOPOLL", reason: error.to_string() })?;
        let features = RingFeatures { polled: true, ..RingFeatures::default() };
        Ok(RingSetup { ring, features, registered_span_bytes: 0 })
    }

    /// Takes a ring as it is.
    pub(super) fn plain(ring: IoUring<S, C>) -> RingSetup<S, C> {
        RingSetup { ring, features: RingFeatures::default(), registered_span_bytes: 0 }
    }

    /// Registers the buffer region, in pieces that no buffer straddles.
    ///
    /// # Errors
    /// `ENOMEM` when the locked-memory limit is smaller: the caller shrinks the region and tries
    /// again, or says so.
    ///
    /// # Safety
    /// The region must stay mapped until the ring is dropped.
    pub unsafe fn register_buffers(
        &mut self,
        start: *mut u8,
        bytes: usize,
        buffer_bytes: usize,
    ) -> std::io::Result<()> {
        let buffers_per_span = (REGISTERED_BUFFER_MAX_BYTES as usize / buffer_bytes).max(1);
        // SAFETY: what the caller promises.
        unsafe { self.register_spans(start, bytes, buffers_per_span * buffer_bytes) }
    }

    /// Registers the buffer region in pieces of `span` bytes each, the last of what is left.
    ///
    /// # Errors
    /// As [`RingSetup::register_buffers`]; `EINVAL` when there are more than 16,384.
    ///
    /// # Safety
    /// The region must stay mapped until the ring is dropped.
    pub unsafe fn register_spans(
        &mut self,
        start: *mut u8,
        bytes: usize,
        span: usize,
    ) -> std::io::Result<()> {
        let mut vectors = Vec::new();
        let mut offset = 0;
        while offset < bytes {
            let length = span.min(bytes - offset);
            // SAFETY: `offset` < `bytes`, the length of the caller's region.
            let base = unsafe { start.add(offset) };
            vectors.push(libc::iovec { iov_base: base.cast(), iov_len: length });
            offset += length;
        }
        // SAFETY: the caller keeps the region mapped for the ring's life.
        unsafe { self.ring.submitter().register_buffers(&vectors)? };
        self.registered_span_bytes = span;
        self.features.registered_buffers = true;
        Ok(())
    }

    /// Registers the data file as number 0.
    ///
    /// # Errors
    /// What the kernel says; the ring then has no file.
    pub fn register_file(&mut self, file: RawFd) -> std::io::Result<()> {
        self.register_files(&[file])
    }

    /// Registers the data files of several drives, numbered from 0.
    ///
    /// # Errors
    /// What the kernel says; the ring then has no file.
    pub fn register_files(&mut self, files: &[RawFd]) -> std::io::Result<()> {
        self.ring.submitter().register_files(files)?;
        self.features.registered_file = true;
        Ok(())
    }

    /// What the ring got.
    #[must_use]
    pub fn features(&self) -> RingFeatures {
        self.features
    }
}
