//! What this kernel can do, and the hint when it can't.

use crate::error::SetupError;

/// Set-up flags the ring got, for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingFeatures {
    /// `SINGLE_ISSUER` + `DEFER_TASKRUN` + `TASKRUN_FLAG` (6.1): completions are worked off when
    /// this thread asks, not by interrupting it.
    pub defer_taskrun: bool,
    /// `COOP_TASKRUN` + `TASKRUN_FLAG` (5.19), where `DEFER_TASKRUN` is not there.
    pub coop_taskrun: bool,
    /// `SQPOLL`: a kernel thread takes submissions, so that handing one over is no system call.
    pub submission_thread: bool,
    /// `IOPOLL`: the thread looks for completions on the drive instead of being interrupted.
    pub polled: bool,
    /// Entries of 128 bytes and answers of 32 (`SQE128`, `CQE32`): what it takes are NVMe commands.
    pub passthrough: bool,
    /// The ring registered with its thread, so that entering the kernel looks up no descriptor.
    pub registered_ring: bool,
    /// Buffers registered with the kernel, so that pages are not pinned for each I/O.
    pub registered_buffers: bool,
    /// The data files registered, so that its reference count is not touched for each I/O.
    pub registered_file: bool,
}

/// Kernel release, as `uname -r`.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether this process may make a ring, ask it what it can do, and enter it. glommio panics where
/// it may not.
///
/// # Errors
/// io_uring is missing, forbidden, or out of some resource.
pub fn check_allowed() -> Result<(), SetupError> {
    let failed = |error: std::io::Error| setup_failure(error.raw_os_error().unwrap_or(0));
    let ring = io_uring::IoUring::new(2).map_err(failed)?;
    ring.submitter().register_probe(&mut io_uring::Probe::new()).map_err(failed)?;
    ring.submit().map_err(failed)?;
    Ok(())
}

/// The error for a failed `io_uring_setup`.
pub(super) fn setup_failure(errno: i32) -> SetupError {
    SetupError::Ring { errno, release: kernel_release() }
}
