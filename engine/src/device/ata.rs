//! Commands that ask a SATA drive about itself, IDENTIFY DEVICE and READ LOG EXT, and the pages of
//! its answers. Neither can write: both only read by definition, their protocol has data come from
//! the drive, and the kernel is told the same direction, so that it hands no byte of ours on. READ
//! LOG EXT goes without features, one of which would reset statistics.

#![allow(unsafe_code, reason = "an ioctl of the kernel's SCSI layer, which no crate has")]

use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::admin::errno_of;
use super::pages::open_drive;
use crate::error::PassthroughFault;
use crate::nvme::block_directory;

/// `SG_IO` of scsi/sg.h, and its `SG_DXFER_FROM_DEV`.
const SG_IO: u32 = 0x2285;
const FROM_DRIVE: i32 = -3;
/// Beginning of ATA PASS-THROUGH (16), the SCSI command around an ATA command (SCSI / ATA
/// Translation, 12.2.3): the protocol is PIO data-in (4), and as many blocks (`BYT_BLOK`) as the
/// count says (`T_LENGTH` 2) come from the drive (`T_DIR`).
const PASS_THROUGH: [u8; 3] = [0x85, 4 << 1, 1 << 3 | 1 << 2 | 2];
/// Bit of its second byte for commands with fields of 48 bits.
const EXTENDED: u8 = 1;
const PAGE_BYTES: usize = 512;
/// Byte of IDENTIFY DEVICE data at which word 84 begins, which is valid where its upper 2 bits are
/// 01b, and the bit of its lower byte for General Purpose Logging.
const FEATURES: usize = 2 * 84;
const HAS_LOGS: u8 = 1 << 5;
/// Address of the log directory, which has the number of pages of each log in 2 bytes.
const DIRECTORY: u8 = 0;
/// Address of the Device Statistics log (ACS-4 revision 14, 9.5).
const STATISTICS: u8 = 4;
/// Its General Statistics, and the other pages that are read: General Errors, Temperature and Solid
/// State Device Statistics.
const GENERAL: u8 = 1;
const OTHERS: [u8; 3] = [4, 5, 7];

/// `struct sg_io_hdr` of scsi/sg.h, its pointers as addresses.
#[repr(C)]
#[derive(Default)]
struct Header {
    interface: i32,
    direction: i32,
    command_bytes: u8,
    sense_bytes_max: u8,
    pieces: u16,
    data_bytes: u32,
    data: usize,
    command: usize,
    sense: usize,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: usize,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_bytes: u8,
    host_status: u16,
    driver_status: u16,
    missing_bytes: i32,
    duration_ms: u32,
    info: u32,
}

const _: () = assert!(size_of::<Header>() == 88 && offset_of!(Header, status) == 64);

type Page = [u8; PAGE_BYTES];

/// Pages that a SATA drive has answered with, none of them understood yet.
#[derive(Clone, Debug)]
pub struct AtaPages {
    /// Answer to IDENTIFY DEVICE, of 256 words.
    pub identity: [u8; PAGE_BYTES],
    /// Pages of the Device Statistics log, each with its number in its third byte; those that the
    /// drive lacks are zero.
    pub statistics: Vec<[u8; PAGE_BYTES]>,
}

impl AtaPages {
    /// Whether the disk of these device numbers (`major:minor`) is one that is asked. Other SCSI
    /// disks are not: some USB bridges hang on a command that they do not know.
    pub fn are_there(device_numbers: &str) -> bool {
        let directory = block_directory(Path::new("/"), device_numbers);
        // The translation names this vendor for every ATA drive.
        fs::read_to_string(directory.join("device/vendor")).is_ok_and(|text| text.trim() == "ATA")
    }

    /// Reads the pages of the disk of this name below /dev and of these device numbers. Waits for
    /// the drive; nothing on it changes.
    ///
    /// # Errors
    /// The drive keeps no such log, this process may not ask it (which takes CAP_SYS_RAWIO), or it
    /// does not answer.
    pub fn read(name: &str, device_numbers: &str) -> Result<AtaPages, PassthroughFault> {
        let file = open_drive(name, device_numbers)?;
        AtaPages::by(|question| question.ask(&file))
    }

    /// A drive may count a question for what it lacks as an error: it is asked for what it has.
    fn by(
        mut ask: impl FnMut(Question) -> Result<Page, PassthroughFault>,
    ) -> Result<AtaPages, PassthroughFault> {
        let identity = ask(Question::identify())?;
        let [features, validity] = [identity[FEATURES], identity[FEATURES + 1]];
        if validity >> 6 != 1 || features & HAS_LOGS == 0 {
            return Err(PassthroughFault::NoStatistics);
        }
        let directory = ask(Question::log(DIRECTORY, 0))?;
        let at = 2 * usize::from(STATISTICS);
        let pages = u16::from_le_bytes([directory[at], directory[at + 1]]);
        if pages == 0 {
            return Err(PassthroughFault::NoStatistics);
        }
        let mut statistics = vec![ask(Question::log(STATISTICS, GENERAL))?];
        let there = OTHERS.into_iter().filter(|page| u16::from(*page) < pages);
        // Where one of these can't be had, nothing else is unknown.
        statistics.extend(there.filter_map(|page| ask(Question::log(STATISTICS, page)).ok()));
        Ok(AtaPages { identity, statistics })
    }
}

/// A question to a drive, which it answers with one page.
struct Question {
    /// Name of the ATA command.
    name: &'static str,
    /// The SCSI command around it: the count is in byte 6, LBA (7:0) in 8, LBA (15:8) in 10.
    command: [u8; 16],
}

impl Question {
    const fn identify() -> Question {
        let [pass, protocol, flags] = PASS_THROUGH;
        let command = [pass, protocol, flags, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xec, 0];
        Question { name: "IDENTIFY DEVICE", command }
    }

    /// READ LOG EXT (ACS-4 revision 14, 7.22) of a page of the log at that address.
    const fn log(address: u8, page: u8) -> Question {
        let [pass, protocol, flags] = PASS_THROUGH;
        let protocol = protocol | EXTENDED;
        let command = [pass, protocol, flags, 0, 0, 0, 1, 0, address, 0, page, 0, 0, 0, 0x2f, 0];
        Question { name: "READ LOG EXT", command }
    }

    /// Asks the drive that a file leads to; waits for its answer.
    fn ask(self, file: &File) -> Result<Page, PassthroughFault> {
        let (mut answer, mut sense) = ([0_u8; PAGE_BYTES], [0_u8; 64]);
        // Without a time of its own the command has the kernel's: one that ran out of it would have
        // the drive reset.
        let mut header = Header {
            interface: i32::from(b'S'),
            direction: FROM_DRIVE,
            command_bytes: self.command.len() as u8,
            sense_bytes_max: sense.len() as u8,
            data_bytes: PAGE_BYTES as u32,
            data: answer.as_mut_ptr().expose_provenance(),
            command: self.command.as_ptr().expose_provenance(),
            sense: sense.as_mut_ptr().expose_provenance(),
            ..Header::default()
        };
        // SAFETY: the kernel reads header and command and writes into header, answer and sense, no
        // further than the sizes say; all are this function's own and outlive the call, which waits
        // for the drive.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), SG_IO as _, &raw mut header) };
        if status < 0 {
            let errno = errno_of(&io::Error::last_os_error());
            return Err(PassthroughFault::of_errno(self.name, errno));
        }
        match header.fault() {
            None => Ok(answer),
            Some(reason) => Err(PassthroughFault::Command { name: self.name, reason }),
        }
    }
}

impl Header {
    /// Why a command that was sent brought no whole page; none where it did.
    fn fault(&self) -> Option<String> {
        let Header { status, host_status, missing_bytes, .. } = self;
        match (status, host_status, missing_bytes) {
            (0, 0, 0) => None,
            (0, 0, missing) => Some(format!("{missing} of {PAGE_BYTES} bytes did not come")),
            _ => Some(format!(
                "the drive or its adapter refused it (SCSI status {status}, host status \
                 {host_status})"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics of a drive with that word of features and so many pages of statistics, one of
    /// which it refuses, and the commands that it got.
    fn drive(
        features: u16,
        pages: u8,
        refused: u8,
    ) -> (Result<AtaPages, PassthroughFault>, Vec<[u8; 16]>) {
        let mut asked = Vec::new();
        let answers = AtaPages::by(|question| {
            asked.push(question.command);
            let mut page = [0; PAGE_BYTES];
            page[FEATURES..FEATURES + 2].copy_from_slice(&features.to_le_bytes());
            (page[2], page[8]) = (question.command[10], pages);
            match page[2] == refused {
                true => Err(PassthroughFault::NoStatistics),
                false => Ok(page),
            }
        });
        (answers, asked)
    }

    #[test]
    fn a_drive_is_asked_for_the_pages_that_it_has() {
        let (answers, asked) = drive(0x4020, 6, 4);
        let numbers: Vec<u8> = answers.unwrap().statistics.iter().map(|page| page[2]).collect();
        assert_eq!((numbers, asked.len()), (vec![1, 5], 5));
        assert_eq!(asked[0], [0x85, 8, 0x0e, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xec, 0]);
        assert_eq!(asked[1], [0x85, 9, 0x0e, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x2f, 0]);
        assert_eq!(asked[4], [0x85, 9, 0x0e, 0, 0, 0, 1, 0, 4, 0, 5, 0, 0, 0, 0x2f, 0]);
        for (features, pages, questions) in
            [(0x4000, 8, 1), (0x0020, 8, 1), (0xc020, 8, 1), (0x4020, 0, 2), (0x4020, 8, 3)]
        {
            let (answers, asked) = drive(features, pages, 1);
            assert_eq!(answers.unwrap_err(), PassthroughFault::NoStatistics);
            assert_eq!(asked.len(), questions, "{features:#x}");
        }
    }

    #[test]
    fn what_is_refused_or_cut_short_is_no_page() {
        let fault = |status, host_status, missing_bytes| {
            Header { status, host_status, missing_bytes, ..Header::default() }.fault()
        };
        assert_eq!(fault(0, 0, 0), None);
        assert_eq!(fault(0, 0, 512).as_deref(), Some("512 of 512 bytes did not come"));
        assert!(fault(2, 0, 0).is_some_and(|text| text.contains("(SCSI status 2, host status 0)")));
        assert!(fault(0, 3, 0).is_some_and(|text| text.contains("(SCSI status 0, host status 3)")));
        assert!(!AtaPages::are_there("7:0") && !AtaPages::are_there(""));
        let fault = Question::identify().ask(&File::open("/dev/null").unwrap()).unwrap_err();
        assert!(matches!(fault, PassthroughFault::Command { name: "IDENTIFY DEVICE", .. }));
    }
}
