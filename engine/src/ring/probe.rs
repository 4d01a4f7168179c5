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
    /// Buffers registered with the kernel, so that pages are not pinned for each I/O.
    pub registered_buffers: bool,
    /// The data file registered, so that its reference count is not touched for each I/O.
    pub registered_file: bool,
}

/// Kernel release, as `uname -r`.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The sentence for a failed `io_uring_setup`.
pub(super) fn setup_failure(errno: i32) -> SetupError {
    let release = kernel_release();
    match errno {
        libc::ENOSYS => SetupError::new(
            format!("this kernel ({release}) has no io_uring"),
            "use Linux 6.1 or newer (5.19 works, slower)",
        ),
        libc::EPERM | libc::EACCES => SetupError::new(
            "io_uring is forbidden here",
            "set `sysctl kernel.io_uring_disabled=0`; in a container, allow io_uring_setup, \
             io_uring_enter and io_uring_register in its seccomp profile (Docker: \
             --security-opt seccomp=unconfined)",
        ),
        libc::ENOMEM => SetupError::new(
            "the locked-memory limit is too small for an io_uring",
            "raise it with `ulimit -l unlimited` (systemd: LimitMEMLOCK=infinity)",
        ),
        libc::EMFILE | libc::ENFILE => SetupError::new(
            "no file descriptor left for an io_uring",
            "raise the limit with `ulimit -n 65536`, or lower --shards",
        ),
        libc::EINVAL => SetupError::new(
            format!("this kernel ({release}) refuses our io_uring set-up"),
            "use Linux 6.1 or newer (5.19 works, slower), or lower --queue-depth",
        ),
        _ => SetupError::new(
            format!("io_uring_setup failed: {}", std::io::Error::from_raw_os_error(errno)),
            "look the errno up in io_uring_setup(2)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_likely_errno_names_its_remedy() {
        for (errno, word) in [
            (libc::ENOSYS, "6.1"),
            (libc::EPERM, "io_uring_disabled"),
            (libc::ENOMEM, "ulimit -l"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EINVAL, "--queue-depth"),
            (libc::EIO, "io_uring_setup(2)"),
        ] {
            let text = setup_failure(errno).to_string();
            assert!(text.contains(word), "{errno}: {text}");
        }
    }
}
