//! Reads, writes and flushes as NVMe commands, which the kernel hands to the drive as they are:
//! their bytes, the cutting of what is larger than one, and what the drive's answers mean.

use std::cell::RefCell;
use std::os::fd::RawFd;

use io_uring::{cqueue, opcode, squeue, types};

use super::dialect::{AskedIo, Dialect};
use super::op::{IoKind, IoRequest};
use super::probe::RingFeatures;
use super::slot::SlotToken;
use crate::error::NvmeStatus;
use crate::units::BLOCK_BYTES;

/// `NVME_URING_CMD_IO` of linux/nvme_ioctl.h: `_IOWR('N', 0x80, struct nvme_uring_cmd)`, whose
/// 72 bytes are in bits 16 to 29.
const NVME_URING_CMD_IO: u32 = 0xc048_4e80;
/// Opcodes of the NVM command set (NVM Command Set Specification 1.0, figure 19).
const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;

/// Facts that a ring must know of a namespace to which it sends commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandTarget {
    /// Its open character device, which stays open for as long as the ring.
    pub file: RawFd,
    /// The namespace's number at its controller.
    pub namespace: u32,
    /// Size of a logical block as a power of two, bytes: 9 to 12.
    pub block_shift: u32,
    /// Most that one command moves, bytes: a multiple of 4 KiB, at most 65,536 blocks.
    pub command_bytes_max: u32,
    /// Whether its commands may name registered memory.
    pub takes_registered: bool,
}

/// A part of an I/O that is one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    offset_bytes: u64,
    length_bytes: u32,
    /// Where in the I/O's memory.
    start_bytes: u32,
}

/// The commands that a read or write becomes, in the order of their addresses; at least one.
fn pieces(request: IoRequest, command_bytes_max: u32) -> impl Iterator<Item = Piece> {
    let length_bytes = request.length_bytes;
    (0..length_bytes).step_by(command_bytes_max as usize).map(move |start_bytes| Piece {
        offset_bytes: request.offset_bytes + u64::from(start_bytes),
        length_bytes: command_bytes_max.min(length_bytes - start_bytes),
        start_bytes,
    })
}

/// Bytes of one registered buffer, such that few commands straddle two and none is of more memory
/// than a command may be: Linux 6.1 counts the pages up to the end of a registered buffer, and
/// refuses a command of more of them than the drive takes segments.
pub fn command_span_bytes(io_bytes: u64, command_bytes_max: u64) -> u64 {
    match command_bytes_max / io_bytes {
        0 => command_bytes_max,
        ios => ios * io_bytes,
    }
}

/// `struct nvme_uring_cmd`, at the place of a large entry that holds 80 bytes.
fn command_bytes(target: &CommandTarget, kind: IoKind, address: u64, piece: Piece) -> [u8; 80] {
    let mut bytes = [0; 80];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(4, &target.namespace.to_le_bytes());
    let opcode = match kind {
        // Of all that was written before it; no block is named.
        IoKind::Flush => {
            put(0, &[FLUSH]);
            return bytes;
        }
        IoKind::Write => WRITE,
        IoKind::Read => READ,
    };
    let first_block = piece.offset_bytes >> target.block_shift;
    // The number of blocks is 0's based in the lower half of command word 12.
    let blocks = (piece.length_bytes >> target.block_shift) - 1;
    put(0, &[opcode]);
    put(24, &address.to_le_bytes());
    put(36, &piece.length_bytes.to_le_bytes());
    // Command words 10 and 11.
    put(40, &first_block.to_le_bytes());
    put(48, &blocks.to_le_bytes());
    bytes
}

/// Progress of an I/O whose commands are in flight.
#[derive(Clone, Copy, Default)]
struct Progress {
    commands: u32,
    length_bytes: u32,
    has_begun: bool,
    /// Result of the first command that failed, a negative number; 0 while none has.
    failure: i32,
}

/// NVMe commands to the character devices of namespaces.
pub struct Commands {
    targets: Box<[CommandTarget]>,
    has_registered_files: bool,
    /// Bytes of memory that one registered buffer spans; none where none is registered.
    registered_span_bytes: Option<usize>,
    /// By the slots' index.
    under_way: RefCell<Vec<Progress>>,
}

impl Commands {
    /// For these namespaces, in the order in which their files were registered, with what the
    /// kernel gave the ring.
    pub(super) fn new(
        targets: &[CommandTarget],
        features: RingFeatures,
        registered_span_bytes: usize,
    ) -> Commands {
        for target in targets {
            let block_bytes = 1 << target.block_shift;
            assert!(BLOCK_BYTES.is_multiple_of(block_bytes), "our blocks are whole ones of it");
            let most_bytes = u64::from(target.command_bytes_max);
            assert!(most_bytes > 0 && most_bytes.is_multiple_of(BLOCK_BYTES));
            assert!(most_bytes / block_bytes <= 1 << 16, "16 bits number the blocks");
        }
        Commands {
            targets: targets.into(),
            has_registered_files: features.registered_file,
            registered_span_bytes: features.registered_buffers.then_some(registered_span_bytes),
            under_way: RefCell::default(),
        }
    }

    /// The number of the registered buffer that the memory is in, whole.
    fn registered(
        &self,
        target: &CommandTarget,
        region_offset: Option<usize>,
        length: u32,
    ) -> Option<u16> {
        let (span, start) = (self.registered_span_bytes?, region_offset?);
        let index = start / span;
        let is_whole = (start + length as usize - 1) / span == index;
        (target.takes_registered && is_whole).then_some(index as u16)
    }

    fn entry(&self, file: usize, bytes: [u8; 80], registered: Option<u16>) -> squeue::Entry128 {
        let built = match self.has_registered_files {
            true => opcode::UringCmd80::new(types::Fixed(file as u32), NVME_URING_CMD_IO),
            false => opcode::UringCmd80::new(types::Fd(self.targets[file].file), NVME_URING_CMD_IO),
        };
        built.cmd(bytes).buf_index(registered).build()
    }
}

impl Dialect for Commands {
    type Entry = squeue::Entry128;
    type Answer = cqueue::Entry32;

    fn encode(&self, asked: &AskedIo, token: SlotToken, mut push: impl FnMut(squeue::Entry128)) {
        let (target, request) = (&self.targets[asked.file], asked.request);
        let is_flush = request.kind == IoKind::Flush;
        let length_bytes = if is_flush { 0 } else { request.length_bytes };
        let commands = length_bytes.div_ceil(target.command_bytes_max).max(1);
        {
            let mut under_way = self.under_way.borrow_mut();
            let places = under_way.len().max(token.index() + 1);
            under_way.resize(places, Progress::default());
            under_way[token.index()] = Progress { commands, length_bytes, ..Progress::default() };
        }
        if is_flush {
            let whole = Piece { offset_bytes: 0, length_bytes: 0, start_bytes: 0 };
            push(self.entry(asked.file, command_bytes(target, IoKind::Flush, 0, whole), None));
            return;
        }
        let place = asked.place.as_ref().expect("a read or write has memory");
        for piece in pieces(request, target.command_bytes_max) {
            let start = piece.start_bytes as usize;
            let address = place.pointer.addr() + start;
            let region_offset = place.region_offset.map(|offset| offset + start);
            let registered = self.registered(target, region_offset, piece.length_bytes);
            let bytes = command_bytes(target, request.kind, address as u64, piece);
            push(self.entry(asked.file, bytes, registered));
        }
    }

    fn begins(&self, token: SlotToken) -> bool {
        let mut under_way = self.under_way.borrow_mut();
        !std::mem::replace(&mut under_way[token.index()].has_begun, true)
    }

    /// A command moves all of its bytes or fails: there are no short transfers.
    fn answered(&self, token: SlotToken, result: i32) -> Option<i32> {
        let mut under_way = self.under_way.borrow_mut();
        let progress = &mut under_way[token.index()];
        assert!(progress.commands > 0, "a completion comes once");
        progress.commands -= 1;
        if progress.failure == 0 {
            progress.failure = failure_of(result);
        }
        let ended =
            if progress.failure < 0 { progress.failure } else { progress.length_bytes as i32 };
        (progress.commands == 0).then_some(ended)
    }
}

/// A command's result as that of an I/O: 0 when it did all it was to, a negative number in the
/// place of an errno otherwise.
fn failure_of(result: i32) -> i32 {
    match result {
        0 => 0,
        1.. => match NvmeStatus::of_result(result) {
            // Bits beside a status of 0 say nothing of a failure.
            status if status.is_success() => 0,
            status => -status.errno(),
        },
        // How the driver ends what it gives up when it resets the controller.
        errno if errno == -libc::EINTR => -libc::ETIMEDOUT,
        errno => errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Buffer, BufferPool, MemoryPlace};
    use crate::clock::{Clock, Nanos};
    use crate::ring::{CommandSetup, Completion, Ring, RingConfig};
    use crate::units::{KIB, MIB};
    use proptest::prelude::*;
    use std::task::{Context, Poll, Waker};

    const TARGET: CommandTarget = CommandTarget {
        file: 7,
        namespace: 0x0102_0304,
        block_shift: 9,
        command_bytes_max: 256 << 10,
        takes_registered: true,
    };

    fn commands(target: CommandTarget, span: Option<usize>) -> Commands {
        let features = RingFeatures { registered_buffers: span.is_some(), ..Default::default() };
        Commands::new(&[target], features, span.unwrap_or(0))
    }

    fn request(kind: IoKind, offset_bytes: u64, length_bytes: u32) -> IoRequest {
        IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 }
    }

    /// The fields of the kernel's structure, as linux/nvme_ioctl.h has it.
    #[test]
    fn a_command_has_its_fields_where_the_kernel_looks_for_them() {
        #[repr(C)]
        struct UringCmd {
            opcode: u8,
            flags: u8,
            reserved: u16,
            nsid: u32,
            cdw2: u32,
            cdw3: u32,
            metadata: u64,
            addr: u64,
            metadata_len: u32,
            data_len: u32,
            cdw10: u32,
            cdw11: u32,
            cdw12: u32,
            cdw13: u32,
            cdw14: u32,
            cdw15: u32,
            timeout_ms: u32,
            reserved2: u32,
        }
        assert_eq!(size_of::<UringCmd>() as u32, NVME_URING_CMD_IO >> 16 & 0x3fff);
        assert_eq!(NVME_URING_CMD_IO & 0xffff, u32::from(b'N') << 8 | 0x80);
        let piece = Piece { offset_bytes: 0x1234_5678_9000, length_bytes: 8192, start_bytes: 0 };
        let bytes = command_bytes(&TARGET, IoKind::Write, 0x7fff_1234_5000, piece);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(bytes[std::mem::offset_of!(UringCmd, opcode)], 1);
        assert_eq!(word(std::mem::offset_of!(UringCmd, nsid)), 0x0102_0304);
        assert_eq!(long(std::mem::offset_of!(UringCmd, addr)), 0x7fff_1234_5000);
        assert_eq!(word(std::mem::offset_of!(UringCmd, data_len)), 8192);
        assert_eq!(word(std::mem::offset_of!(UringCmd, cdw10)), 0x1a2b_3c48);
        assert_eq!(word(std::mem::offset_of!(UringCmd, cdw11)), 0x9);
        assert_eq!(word(std::mem::offset_of!(UringCmd, cdw12)), 15, "16 blocks of 512 bytes");
        let others = bytes.iter().enumerate().filter(|(at, _)| {
            let named = [0..1, 4..8, 24..32, 36..52];
            !named.iter().any(|range| range.contains(at))
        });
        assert_eq!(others.map(|(_, byte)| u32::from(*byte)).sum::<u32>(), 0);
        let read = command_bytes(&TARGET, IoKind::Read, 0, piece);
        assert_eq!((read[0], &read[40..]), (2, &bytes[40..]));
        let large = CommandTarget { block_shift: 12, ..TARGET };
        assert_eq!(command_bytes(&large, IoKind::Read, 0, piece)[48], 1, "2 blocks of 4 KiB");
        let flush = command_bytes(&TARGET, IoKind::Flush, 0x1000, piece);
        assert_eq!(
            (flush[0], flush[4..8].to_vec(), flush[8..].iter().max()),
            (0, vec![4, 3, 2, 1], Some(&0))
        );
    }

    proptest! {
        /// Every byte is in one command, in order, and none is larger than a command may be.
        #[test]
        fn an_io_is_cut_into_commands_without_gap_or_overlap(
            start_block in 0u64..1 << 40,
            blocks in 1u32..16_384,
            most_shift in 0u32..9,
        ) {
            let most = (BLOCK_BYTES as u32) << most_shift;
            let length = blocks * BLOCK_BYTES as u32;
            let offset = start_block * BLOCK_BYTES;
            let mut done = 0;
            for piece in pieces(request(IoKind::Read, offset, length), most) {
                prop_assert_eq!(piece.start_bytes, done);
                prop_assert_eq!(piece.offset_bytes, offset + u64::from(done));
                prop_assert!(piece.length_bytes > 0 && piece.length_bytes <= most);
                done += piece.length_bytes;
                prop_assert!(piece.length_bytes == most || done == length, "only the last is less");
            }
            prop_assert_eq!(done, length);
        }
    }

    #[test]
    fn an_io_ends_when_its_last_command_has_with_the_first_failure() {
        let commands = commands(TARGET, None);
        let place =
            MemoryPlace { pointer: std::ptr::without_provenance_mut(4096), region_offset: None };
        let (token, other) = (SlotToken(3), SlotToken(1 << 32));
        let mut pushed = 0;
        let asked =
            AskedIo { file: 0, request: request(IoKind::Write, 0, 1 << 20), place: Some(place) };
        let read_error = NvmeStatus::of_result(0x281);
        for (results, ended) in [
            ([0, 0, 0, 0], 1 << 20),
            ([0, 0x4281, 0x80, 0], -read_error.errno()),
            ([-libc::EINTR, 0x281, 0, 0], -libc::ETIMEDOUT),
            ([0, 0, 0, -libc::ENODEV], -libc::ENODEV),
        ] {
            commands.encode(&asked, token, |_| pushed += 1);
            let flush = AskedIo { file: 0, request: request(IoKind::Flush, 0, 0), place: None };
            commands.encode(&flush, other, |_| pushed += 1);
            assert_eq!([token, token, other].map(|io| commands.begins(io)), [true, false, true]);
            assert_eq!(results[..3].map_answers(&commands, token), [None, None, None]);
            assert_eq!(commands.answered(other, 0), Some(0), "a flush moves nothing");
            assert_eq!(commands.answered(token, results[3]), Some(ended));
        }
        assert_eq!(pushed, 4 * 5);
    }

    trait MapAnswers {
        fn map_answers(&self, commands: &Commands, token: SlotToken) -> Vec<Option<i32>>;
    }

    impl MapAnswers for [i32] {
        fn map_answers(&self, commands: &Commands, token: SlotToken) -> Vec<Option<i32>> {
            self.iter().map(|result| commands.answered(token, *result)).collect()
        }
    }

    /// The null device takes any command and does nothing, from Linux 6.7 on.
    #[test]
    fn a_ring_of_commands_completes_ios_that_are_many_commands() {
        let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let target = CommandTarget {
            file: std::os::fd::AsRawFd::as_raw_fd(&file),
            command_bytes_max: 4096,
            ..TARGET
        };
        let pool = BufferPool::new(64 << 10, 3).unwrap();
        // Fewer entries than one I/O has commands: the rest waits in the ring.
        let config = RingConfig { entries: 8, ..RingConfig::default() };
        let setup = CommandSetup::sized(config).unwrap();
        let ring = Ring::commanding(setup, &[target], Clock::Os);
        let mut asleep = Context::from_waker(Waker::noop());
        let whole = request(IoKind::Read, 0, 64 << 10);
        let mut reads = [0, 1].map(|_| Box::pin(ring.push(whole, pool.take())));
        // Nobody waits for it: its buffer is free when the last of its commands has ended.
        drop(ring.push(whole, pool.take()));
        let mut flush = Box::pin(ring.push(request(IoKind::Flush, 0, 0), None));
        assert_eq!((ring.in_flight(), pool.free_count()), (4, 0));
        while ring.in_flight() > 0 {
            ring.wait(None);
        }
        assert_eq!(pool.free_count(), 1);
        let ended = |polled: Poll<(Completion, Option<Buffer>)>| match polled {
            Poll::Ready((completion, _)) => completion,
            Poll::Pending => panic!("nothing is in flight"),
        };
        let flushed = ended(flush.as_mut().poll(&mut asleep)).result;
        let expected = if flushed == 0 { 64 << 10 } else { flushed };
        assert!(flushed == 0 || flushed == -libc::EOPNOTSUPP, "{flushed}");
        for read in &mut reads {
            let read = ended(read.as_mut().poll(&mut asleep));
            assert_eq!(read.result, expected);
            assert!(Nanos::ZERO < read.submitted && read.submitted <= read.completed);
        }
        assert_eq!(pool.free_count(), 3);
    }

    #[test]
    fn memory_is_named_as_registered_only_where_one_piece_holds_all_of_it() {
        let span = 64 << 10;
        let spans = commands(TARGET, Some(span));
        let index = |commands: &Commands, start| commands.registered(&TARGET, start, 8192);
        assert_eq!(index(&spans, Some(0)), Some(0));
        assert_eq!(index(&spans, Some(3 * span - 8192)), Some(2));
        assert_eq!(index(&spans, Some(3 * span - 4096)), None, "it would straddle two");
        assert_eq!(index(&spans, None), None, "it is not the pool's");
        assert_eq!(index(&commands(TARGET, None), Some(0)), None);
        let old = CommandTarget { takes_registered: false, ..TARGET };
        assert_eq!(spans.registered(&old, Some(0), 8192), None);
    }

    #[test]
    fn a_registered_piece_for_commands_is_whole_ios_or_a_whole_command() {
        assert_eq!(command_span_bytes(128 * KIB, 256 * KIB), 256 * KIB);
        assert_eq!(command_span_bytes(96 * KIB, 256 * KIB), 192 * KIB);
        assert_eq!(command_span_bytes(256 * KIB, 256 * KIB), 256 * KIB);
        assert_eq!(command_span_bytes(4 * MIB, 256 * KIB), 256 * KIB);
    }

    #[test]
    fn every_result_of_a_command_is_success_or_a_failure_that_can_be_named() {
        assert_eq!(failure_of(0), 0);
        for result in (1..0x8000).filter(|result| result & 0x7ff != 0) {
            let errno = -failure_of(result);
            assert_eq!(NvmeStatus::of_errno(errno), Some(NvmeStatus::of_result(result)));
        }
        for errno in [libc::EAGAIN, libc::ENODEV, libc::EINVAL, libc::EACCES] {
            assert_eq!(failure_of(-errno), -errno);
        }
    }
}
