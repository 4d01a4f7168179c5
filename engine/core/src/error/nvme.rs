//! Status of an NVMe command that was passed to the drive as it is, where no block layer turns the
//! status into an errno.

use super::ErrorKind;

/// Added to a status where an errno is expected. No errno is this large (`MAX_ERRNO` is 4095), and
/// both fit a completion's result.
const ERRNO_BASE: i32 = 1 << 16;
/// Status code and its type; above them are the bits "more" and "do not retry" and a retry delay.
const STATUS_MASK: i32 = 0x7ff;

/// A status: the status code in the low 8 bits, its type in the next 3 (NVM
/// Express Base Specification 2.0, figures 93 to 98).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NvmeStatus(u16);

impl NvmeStatus {
    /// That of a completion's positive result, as the kernel hands it on.
    pub fn of_result(result: i32) -> NvmeStatus {
        NvmeStatus((result & STATUS_MASK) as u16)
    }

    /// Whether the command did all it was to.
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// The status that a number in the place of an errno stands for; none where it is an errno.
    pub const fn of_errno(errno: i32) -> Option<NvmeStatus> {
        match errno.wrapping_sub(ERRNO_BASE) {
            status @ 0..=STATUS_MASK => Some(NvmeStatus(status as u16)),
            _ => None,
        }
    }

    /// A positive number for the places of errnos, which is none: 65,536 and the status.
    pub const fn errno(self) -> i32 {
        ERRNO_BASE + self.0 as i32
    }

    /// Name of the status in the specification, or of its type where it has no name there.
    pub const fn name(self) -> &'static str {
        self.meaning().0
    }

    /// By which its failures are counted, beside those of the block layer: as that would have told
    /// of them (`nvme_error_status` of Linux) where its errnos tell the kinds apart.
    pub const fn kind(self) -> ErrorKind {
        self.meaning().1
    }

    const fn meaning(self) -> (&'static str, ErrorKind) {
        match self.0 {
            0x000 => ("successful completion", ErrorKind::Other),
            0x001 => ("invalid command opcode", ErrorKind::Unsupported),
            0x002 => ("invalid field in command", ErrorKind::Unsupported),
            0x004 => ("data transfer error", ErrorKind::Media),
            0x005 => ("aborted due to power loss", ErrorKind::Gone),
            0x006 => ("internal error", ErrorKind::Media),
            0x007 => ("abort requested", ErrorKind::Timeout),
            0x008 => ("aborted due to submission queue deletion", ErrorKind::Timeout),
            0x00b => ("invalid namespace or format", ErrorKind::Gone),
            0x00c => ("command sequence error", ErrorKind::Media),
            0x01c => ("sanitize failed", ErrorKind::Media),
            0x01d => ("sanitize in progress", ErrorKind::Media),
            0x020 => ("namespace is write protected", ErrorKind::Permission),
            0x021 => ("command interrupted", ErrorKind::Media),
            0x022 => ("transient transport error", ErrorKind::Timeout),
            0x080 => ("LBA out of range", ErrorKind::Truncated),
            0x081 => ("capacity exceeded", ErrorKind::NoSpace),
            0x082 => ("namespace not ready", ErrorKind::Gone),
            0x083 => ("reservation conflict", ErrorKind::Permission),
            0x084 => ("format in progress", ErrorKind::Gone),
            0x180 => ("conflicting attributes", ErrorKind::Unsupported),
            0x181 => ("invalid protection information", ErrorKind::Unsupported),
            0x182 => ("attempted write to read only range", ErrorKind::Permission),
            0x280 => ("write fault", ErrorKind::Media),
            0x281 => ("unrecovered read error", ErrorKind::Media),
            0x282 => ("end-to-end guard check error", ErrorKind::Media),
            0x283 => ("end-to-end application tag check error", ErrorKind::Media),
            0x284 => ("end-to-end reference tag check error", ErrorKind::Media),
            0x285 => ("compare failure", ErrorKind::Media),
            0x286 => ("access denied", ErrorKind::Permission),
            0x287 => ("deallocated or unwritten logical block", ErrorKind::Media),
            0x300 => ("internal path error", ErrorKind::Media),
            0x301 => ("asymmetric access persistent loss", ErrorKind::Gone),
            0x302 => ("asymmetric access inaccessible", ErrorKind::Gone),
            0x303 => ("asymmetric access transition", ErrorKind::Timeout),
            0x360 => ("controller pathing error", ErrorKind::Gone),
            0x370 => ("host pathing error", ErrorKind::Gone),
            0x371 => ("command aborted by host", ErrorKind::Timeout),
            other => Self::of_type(other >> 8),
        }
    }

    /// Name and kind of a status without a name of its own, by its type (Base Specification, figure
    /// 93).
    const fn of_type(status_type: u16) -> (&'static str, ErrorKind) {
        match status_type {
            0 => ("generic command status", ErrorKind::Other),
            1 => ("command specific status", ErrorKind::Other),
            2 => ("media or data integrity error", ErrorKind::Media),
            3 => ("path related status", ErrorKind::Other),
            7 => ("vendor specific status", ErrorKind::Other),
            _ => ("reserved status", ErrorKind::Other),
        }
    }
}

/// Describes a positive errno, or an NVMe status in its place ([`NvmeStatus::errno`]).
pub fn errno_text(errno: i32) -> String {
    match NvmeStatus::of_errno(errno) {
        Some(status) => status.to_string(),
        None => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

impl std::fmt::Display for NvmeStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (NVMe status {:#05x})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_goes_through_the_place_of_an_errno_and_back() {
        for code in 0..=0x7ff {
            let status = NvmeStatus::of_result(code);
            let errno = status.errno();
            assert_eq!(NvmeStatus::of_errno(errno), Some(status));
            assert_eq!(ErrorKind::of_errno(errno), status.kind(), "{status}");
            assert!(!status.name().is_empty());
        }
        for errno in [i32::MIN, -1, 0, libc::EIO, 4095, ERRNO_BASE - 1, ERRNO_BASE + 0x800] {
            assert_eq!(NvmeStatus::of_errno(errno), None, "{errno}");
        }
    }

    #[test]
    fn what_is_said_beside_a_status_does_not_change_it() {
        let read_error = NvmeStatus::of_result(0x281);
        for bits in [0x4000, 0x2000, 0x6000, 0x0800, 0x7800] {
            assert_eq!(NvmeStatus::of_result(0x281 | bits), read_error, "{bits:#x}");
        }
        assert_eq!(read_error.to_string(), "unrecovered read error (NVMe status 0x281)");
        assert_eq!(read_error.kind(), ErrorKind::Media);
        assert_eq!(NvmeStatus::of_result(0x80).to_string(), "LBA out of range (NVMe status 0x080)");
        assert_eq!(NvmeStatus::of_result(0x781).name(), "vendor specific status");
    }
}
