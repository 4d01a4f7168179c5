//! Making a ring: the best flags this kernel takes, registered files and buffers.

#![allow(unsafe_code, reason = "registering memory with the kernel")]

use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::{IoUring, cqueue, squeue};

use super::probe::{RingFeatures, setup_failure};
use crate::error::SetupError;
use crate::units::GIB;

/// Most bytes the kernel registers as one buffer (`io_buffer_validate`, SZ_1G).
const REGISTERED_BUFFER_MAX_BYTES: u64 = GIB;

/// Who looks for work and for completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// System calls and interrupts.
    #[default]
    None,
    /// A kernel thread takes submissions without system calls (`IORING_SETUP_SQPOLL`); it spins
    /// while there are any, which costs a core.
    Submission,
    /// Completions are polled for on the drive (`IORING_SETUP_IOPOLL`): nothing but reads and
    /// writes of O_DIRECT files, and nobody rings for them. Needs poll queues (`nvme.poll_queues`)
    /// and costs this thread's core.
    Completion,
}

impl Polling {
    /// The kernel's word for it; none where nobody polls.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Polling::None => None,
            Polling::Submission => Some("SQPOLL"),
            Polling::Completion => Some("IOPOLL"),
        }
    }
}

/// Purpose and size of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingConfig {
    /// Submission queue entries; rounded up to a power of two by the kernel. The completion queue
    /// has twice as many.
    pub entries: u32,
    /// Who looks for work and for completions.
    pub polling: Polling,
}

/// Time that the kernel's submission thread spins before it sleeps, ms.
const SQ_THREAD_IDLE_MS: u32 = 100;

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

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> RingSetup<S, C> {
    /// As [`RingSetup::new`], with entries of the size that the type says.
    ///
    /// # Errors
    /// As [`RingSetup::new`], and when this kernel has no such entries.
    pub fn sized(config: RingConfig) -> Result<RingSetup<S, C>, SetupError> {
        let plain = RingFeatures { passthrough: S::BUILD_FLAGS != 0, ..RingFeatures::default() };
        // SQPOLL and IOPOLL exclude DEFER_TASKRUN: completions are posted as they come, or by the
        // look that finds them.
        let ways = match config.polling {
            Polling::None => &[
                RingFeatures { defer_taskrun: true, ..plain },
                RingFeatures { coop_taskrun: true, ..plain },
                plain,
            ][..],
            Polling::Submission => &[RingFeatures { submission_thread: true, ..plain }],
            Polling::Completion => &[RingFeatures { polled: true, ..plain }],
        };
        let mut features = ways[0];
        let mut ring = build(features, config.entries);
        for &older in &ways[1..] {
            // What the kernel does not know of is done without.
            if matches!(&ring, Err(error) if error.raw_os_error() == Some(libc::EINVAL)) {
                features = older;
                ring = build(features, config.entries);
            }
        }
        let ring = ring.map_err(|error: std::io::Error| match config.polling.name() {
            Some(name) => SetupError::Polling { name, reason: error.to_string() },
            None => setup_failure(error.raw_os_error().unwrap_or(0)),
        })?;
        Ok(RingSetup { ring, features, registered_span_bytes: 0 })
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
        // SAFETY: what the caller promises.
        unsafe { self.register_spans(start, bytes, span_bytes(buffer_bytes)) }
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
        let piece = |offset| libc::iovec {
            iov_base: start.wrapping_add(offset).cast(),
            iov_len: span.min(bytes - offset),
        };
        let vectors: Vec<_> = (0..bytes).step_by(span).map(piece).collect();
        // SAFETY: the caller keeps the region mapped for the ring's life.
        unsafe { self.ring.submitter().register_buffers(&vectors)? };
        self.registered_span_bytes = span;
        self.features.registered_buffers = true;
        Ok(())
    }

    /// Registers the data files of all drives, numbered from 0.
    ///
    /// # Errors
    /// The kernel's refusal; the ring then has no file.
    pub fn register_files(&mut self, files: &[RawFd]) -> std::io::Result<()> {
        self.ring.submitter().register_files(files)?;
        self.features.registered_file = true;
        Ok(())
    }

    /// Features that the ring was set up with.
    pub fn features(&self) -> RingFeatures {
        self.features
    }
}

/// Bytes of a registered piece such that no buffer straddles two.
pub(super) fn span_bytes(buffer_bytes: usize) -> usize {
    (REGISTERED_BUFFER_MAX_BYTES as usize / buffer_bytes).max(1) * buffer_bytes
}

/// Attempts at a ring: Linux 6.18 takes a large ring's pages in bulk, which fails for a moment
/// where the page cache has nearly all memory.
const BUILDS_MAX: u32 = 5;
/// Pause between two attempts, in which the kernel frees pages.
const BUILD_PAUSE: Duration = Duration::from_millis(10);

/// A ring with the flags of these features, all of which came after `SUBMIT_ALL` (5.18).
fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    features: RingFeatures,
    entries: u32,
) -> std::io::Result<IoUring<S, C>> {
    let mut builder = IoUring::builder();
    if features.defer_taskrun {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    }
    if features.coop_taskrun {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    if features.submission_thread {
        builder.setup_sqpoll(SQ_THREAD_IDLE_MS);
    }
    if features.polled {
        builder.setup_iopoll();
    }
    if features != (RingFeatures { passthrough: features.passthrough, ..Default::default() }) {
        builder.setup_submit_all();
    }
    let mut built = builder.build(entries);
    for _ in 1..BUILDS_MAX {
        if !matches!(&built, Err(error) if error.raw_os_error() == Some(libc::ENOMEM)) {
            break;
        }
        std::thread::sleep(BUILD_PAUSE);
        built = builder.build(entries);
    }
    built
}
