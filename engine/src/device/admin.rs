//! Commands that ask an NVMe drive about itself, Identify and Get Log Page. No other leaves here:
//! none of them changes anything on the drive.

#![allow(unsafe_code, reason = "ioctls of the NVMe driver, which no crate has")]

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;

use crate::error::{NvmeStatus, PassthroughFault};

/// `NVME_IOCTL_ID` of linux/nvme_ioctl.h: `_IO('N', 0x40)`.
const NVME_IOCTL_ID: u32 = 0x4e40;
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`, whose 72 bytes are in bits
/// 16 to 29.
const NVME_IOCTL_ADMIN_CMD: u32 = 0xc048_4e41;
/// Number of the namespace that stands for the whole drive.
const WHOLE_DRIVE: u32 = u32::MAX;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<AdminCommand>() as u32 == NVME_IOCTL_ADMIN_CMD >> 16 & 0x3fff);
const _: () = assert!(offset_of!(AdminCommand, address) == 24);
const _: () = assert!(offset_of!(AdminCommand, data_bytes) == 36);
const _: () = assert!(offset_of!(AdminCommand, words_10_to_15) == 40);
const _: () = assert!(offset_of!(AdminCommand, timeout_ms) == 64);

/// The positive errno of an error that has one.
pub(super) fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// The number that an open namespace has at its controller.
pub(super) fn namespace_number(file: &File) -> Result<u32, PassthroughFault> {
    // SAFETY: the request takes no argument.
    let number = unsafe { libc::ioctl(file.as_raw_fd(), NVME_IOCTL_ID as _) };
    // The kernel returns the number itself; errors are the negative results.
    let failed = || errno_of(&io::Error::last_os_error());
    u32::try_from(number)
        .map_err(|_negative| PassthroughFault::of_errno("asking for its number", failed()))
}

/// A question to a drive, which it answers with a page of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// Name of the command in the specification.
    name: &'static str,
    opcode: u8,
    namespace: u32,
    /// Dword 10 of the command.
    word_10: u32,
}

impl Question {
    /// Identify (NVM Express Base Specification 2.0, 5.17), with the structure that it returns
    /// (CNS) and the namespace that it is about; 0 where it is about none.
    pub(super) const fn identify(structure: u32, namespace: u32) -> Question {
        Question { name: "Identify", opcode: 6, namespace, word_10: structure }
    }

    /// Get Log Page (the same, 5.16) of the whole drive: the first `bytes` of that page, a multiple
    /// of 4 of at most 256 KiB.
    pub(super) const fn log_page(page: u8, bytes: usize) -> Question {
        // NUMDL: dwords, less one, in the upper half.
        let dwords = bytes as u32 / 4 - 1;
        let word_10 = page as u32 | dwords << 16;
        Question { name: "Get Log Page", opcode: 2, namespace: WHOLE_DRIVE, word_10 }
    }

    /// Asks the drive that a file leads to; waits for its answer.
    pub(super) fn ask<const BYTES: usize>(
        self,
        file: &File,
    ) -> Result<[u8; BYTES], PassthroughFault> {
        let mut answer = [0_u8; BYTES];
        // Without a time of its own, the command has the driver's: one that ran out of it would
        // have the driver reset the drive.
        let mut command = AdminCommand {
            opcode: self.opcode,
            namespace: self.namespace,
            address: answer.as_mut_ptr().expose_provenance() as u64,
            data_bytes: BYTES as u32,
            words_10_to_15: [self.word_10, 0, 0, 0, 0, 0],
            ..AdminCommand::default()
        };
        // SAFETY: the kernel reads the command and writes its result, and writes so many bytes at
        // its address; both are this function's own and outlive the call, which waits for the
        // drive.
        let status =
            unsafe { libc::ioctl(file.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &raw mut command) };
        let fault = |errno| Err(PassthroughFault::of_errno(self.name, errno));
        match status {
            0 => Ok(answer),
            1.. => fault(NvmeStatus::of_result(status).errno()),
            _ => fault(errno_of(&io::Error::last_os_error())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_log_page_is_asked_for_in_dwords() {
        let question = Question::log_page(0xc0, 512);
        assert_eq!((question.opcode, question.namespace), (2, u32::MAX));
        assert_eq!(question.word_10, 127 << 16 | 0xc0);
        assert_eq!(Question::identify(1, 0).word_10, 1);
    }

    #[test]
    fn a_file_that_is_no_drive_refuses_every_question() {
        let path = std::env::temp_dir().join(format!("ringfall-admin-{}", std::process::id()));
        std::fs::write(&path, "data").unwrap();
        for path in [Path::new("/dev/null"), &path] {
            let file = File::open(path).unwrap();
            for question in [Question::identify(1, 0), Question::log_page(2, 512)] {
                let fault = question.ask::<512>(&file).unwrap_err();
                let PassthroughFault::Command { name, .. } = &fault else { panic!("{fault:?}") };
                assert_eq!(*name, question.name);
            }
            let fault = namespace_number(&file).unwrap_err();
            assert!(fault.to_string().contains("asking for its number"));
        }
        std::fs::remove_file(path).unwrap();
    }
}
