//! Pages of bytes in which an NVMe drive describes itself and counts what it has done.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::admin::{Question, errno_of};
use super::identify::{IDENTIFY_BYTES, identify_controller};
use super::namespace::no_device;
use crate::error::PassthroughFault;
use crate::nvme::numbers;

/// Supported Log Pages (NVM Express Base Specification 2.0, 5.16.1.1): 4 bytes for each page, whose
/// lowest bit says that the drive has it.
const SUPPORTED: u8 = 0;
/// Bytes that this page has for all 256 of them.
const SUPPORTED_BYTES: usize = 1024;
/// SMART / Health Information (the same, 5.16.1.3).
const HEALTH: u8 = 2;
/// SMART / Health Information Extended (OCP Datacenter NVMe SSD Specification 2.0, 4.8.6), at a
/// number that other makers may use for something else.
const EXTENDED: u8 = 0xc0;
/// Bytes of either.
const LOG_BYTES: usize = 512;
/// Byte of Identify Controller with the attributes of log pages (LPA), and the bit in it which says
/// that there is the list of those that the drive has.
const LOG_PAGE_ATTRIBUTES: usize = 261;
const HAS_SUPPORTED: u8 = 1 << 5;

/// Pages that a drive has answered with, none of them understood yet.
#[derive(Clone, Debug)]
pub struct DrivePages {
    /// Data structure of Identify Controller.
    pub controller: [u8; IDENTIFY_BYTES],
    /// Log page 02h, SMART / Health Information of the whole drive.
    pub health: [u8; LOG_BYTES],
    /// Log page C0h, which is any maker's own until its identifier was compared; none where the
    /// drive has none.
    pub extended: Option<[u8; LOG_BYTES]>,
}

impl DrivePages {
    /// Reads the pages of the drive that has the namespace of this name below /dev and of these
    /// device numbers (`major:minor`). Waits for the drive; nothing on it changes.
    ///
    /// # Errors
    /// It is no NVMe drive, this process may not ask it (which takes CAP_SYS_ADMIN), or it does not
    /// answer.
    pub fn read(name: &str, device_numbers: &str) -> Result<DrivePages, PassthroughFault> {
        // No other device is opened: that alone may wake a drive, or wait for a medium.
        if !name.starts_with("nvme") {
            return Err(PassthroughFault::NoKnownDrive);
        }
        DrivePages::of(&open_drive(name, device_numbers)?)
    }

    fn of(file: &File) -> Result<DrivePages, PassthroughFault> {
        let controller = identify_controller(file)?;
        let health = Question::log_page(HEALTH, LOG_BYTES).ask(file)?;
        // A drive counts a page that it lacks as an error of the host: one that has a list is not
        // asked for what is not in it. Where the page can't be had, nothing else is unknown.
        let is_there = match controller[LOG_PAGE_ATTRIBUTES] & HAS_SUPPORTED {
            0 => true,
            _ => Question::log_page(SUPPORTED, SUPPORTED_BYTES)
                .ask(file)
                .is_ok_and(|list| has_page(&list, EXTENDED)),
        };
        let ask = || Question::log_page(EXTENDED, LOG_BYTES).ask(file).ok();
        let extended = is_there.then(ask).flatten();
        Ok(DrivePages { controller, health, extended })
    }
}

/// Opens the block device of this name below /dev and of these device numbers, to read.
pub(super) fn open_drive(name: &str, device_numbers: &str) -> Result<File, PassthroughFault> {
    let path = Path::new("/dev").join(name);
    let file = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => no_device(&path),
        _ => PassthroughFault::of_errno("opening it", errno_of(&error)),
    })?;
    let is_it = file.metadata().is_ok_and(|opened| {
        opened.file_type().is_block_device() && numbers(opened.rdev()) == device_numbers
    });
    if !is_it {
        return Err(no_device(&path));
    }
    Ok(file)
}

/// Whether a page is among those that the drive has.
fn has_page(list: &[u8; SUPPORTED_BYTES], page: u8) -> bool {
    list[4 * usize::from(page)] & 1 > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_nvme_drive_is_asked() {
        for name in ["loop0", "vda", "dm-0", "zram0", ""] {
            let fault = DrivePages::read(name, "7:0").unwrap_err();
            assert_eq!(fault, PassthroughFault::NoKnownDrive);
        }
        let path = "/dev/nvme-of-no-machine".to_owned();
        let fault = DrivePages::read("nvme-of-no-machine", "259:0").unwrap_err();
        assert_eq!(fault, PassthroughFault::NoCharacterDevice { path });
    }

    #[test]
    fn a_file_that_is_no_drive_has_no_pages() {
        let fault = DrivePages::of(&File::open("/dev/null").unwrap()).unwrap_err();
        assert!(matches!(fault, PassthroughFault::Command { name: "Identify", .. }), "{fault:?}");
    }

    #[test]
    fn a_page_is_found_in_the_list_by_its_number() {
        let mut list = [0; SUPPORTED_BYTES];
        assert!(!has_page(&list, EXTENDED));
        list[4 * 0xc0] = 3;
        assert!(has_page(&list, EXTENDED) && !has_page(&list, 0xc1));
    }
}
