//! Abilities of this kernel, and the hint where one is missing.

use crate::error::SetupError;
pub use crate::facts::RingFeatures;

/// Kernel release, as `uname -r`.
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

/// Whether NVMe commands may be polled for here. Linux 6.1 ends in a general protection fault when
/// two rings poll one queue of a drive: one takes for an I/O what the other has made a callback of.
/// Linux 6.6 polls by the request (`nvme: improved uring polling`). No trial can tell.
///
/// # Errors
/// The kernel is older, or its release can't be understood.
pub fn check_polled_commands() -> Result<(), SetupError> {
    let release = kernel_release();
    match version(&release) {
        Some(version) if version >= POLLED_COMMANDS_SINCE => Ok(()),
        _ => Err(SetupError::new(
            format!(
                "NVMe commands can't be polled for here: kernels before Linux 6.6 can crash when \
                 they do (this one is {release})"
            ),
            "use Linux 6.6 or newer, or do without IOPOLL or without passthrough",
        )),
    }
}

/// First kernel that polls for NVMe commands without a fault.
const POLLED_COMMANDS_SINCE: (u32, u32) = (6, 6);

/// The first two numbers of a release such as `6.1.0-56-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

const IO_URING_SINCE: (u32, u32) = (5, 1);

/// The error for a failed `io_uring_setup`. A container's seccomp filter may answer like a kernel
/// that does not know the call; where the kernel does, that is a refusal.
pub(super) fn setup_failure(errno: i32) -> SetupError {
    let release = kernel_release();
    let is_known = version(&release) >= Some(IO_URING_SINCE);
    let is_refused = errno == libc::ENOSYS && is_known && is_filtered();
    SetupError::Ring { errno: if is_refused { libc::EPERM } else { errno }, release }
}

/// Whether a seccomp filter may answer this process's system calls in place of the kernel.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_by_its_numbers() {
        let is_enough = |release| version(release).is_some_and(|it| it >= POLLED_COMMANDS_SINCE);
        let releases = ["6.6", "6.12.117+deb12-amd64", "7.0-rc1", "10.0.1"];
        assert_eq!(releases.map(is_enough), [true; 4]);
        let releases = ["6.5.13", "6.1.0-56-amd64", "5.19", "6", "next", ""];
        assert_eq!(releases.map(is_enough), [false; 6]);
    }
}
