//! A ring for a plain thread that does nothing but I/O: as many lanes as I/Os in flight, each with
//! a buffer of its own, no executor, no table that grows. For saturation and preconditioning.

#![allow(unsafe_code, reason = "pushing entries whose buffers the ring owns until it has drained")]

use std::os::fd::RawFd;
use std::sync::Once;

use super::batch::is_batch;
use super::command::{CommandTarget, Commands, command_span_bytes};
use super::dialect::{AskedIo, Dialect, Files};
use super::op::{IoKind, IoRequest};
use super::patience::WAIT_MAX;
use super::poll_queue::has_poll_queue;
use super::probe::check_polled_commands;
use super::raw::RawRing;
use super::setup::{Polling, RingConfig, RingSetup, span_bytes};
use super::slot::SlotToken;
use crate::buffer::{Mapping, MemoryPlace, SMALL_PAGES};
use crate::clock::{Nanos, monotonic_now};
use crate::error::{SetupError, errno_text};

/// Most entries of a submission queue (`IORING_MAX_ENTRIES`).
const ENTRIES_MAX: u32 = 1 << 15;
/// Most NVMe commands of a ring in flight: as many have room in its completion queue, which is
/// twice as large as the submission queue.
const COMMANDS_MAX: u64 = 1 << 16;
/// One I/O of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneIo {
    /// Which lane, and so which buffer.
    pub lane: u32,
    /// Whether the device is read into the lane's buffer or written from it.
    pub kind: IoKind,
    /// Where on the device, a multiple of 4 KiB.
    pub offset_bytes: u64,
    /// Bytes to move, a multiple of 4 KiB, at most the lane's buffer.
    pub length_bytes: u32,
}

/// The ring, its buffers and its registered file. All I/O is done when it is dropped. `D` is how
/// the kernel is asked for it.
pub struct LaneRing<D: Dialect = Files> {
    raw: RawRing<D>,
    dialect: D,
    memory: Mapping,
    buffer_bytes: usize,
    has_registered_buffers: bool,
    huge_buffers: Option<bool>,
    busy: Vec<bool>,
    in_flight: u32,
}

impl LaneRing {
    /// Makes a ring on this thread, which must be the one to drive it. The buffers hold zeros.
    pub fn new(
        file: RawFd,
        lanes: u32,
        buffer_bytes: usize,
        polling: Polling,
    ) -> Result<LaneRing, SetupError> {
        LaneRing::of_files(file, lanes, buffer_bytes, polling, lane_memory)
    }

    /// The same with buffers in pages of 4 KiB, as most programs have them.
    pub fn in_small_pages(
        file: RawFd,
        lanes: u32,
        buffer_bytes: usize,
        polling: Polling,
    ) -> Result<LaneRing, SetupError> {
        let small = |bytes| Ok((Mapping::small(bytes)?, Some(false)));
        LaneRing::of_files(file, lanes, buffer_bytes, polling, small)
    }

    fn of_files(
        file: RawFd,
        lanes: u32,
        buffer_bytes: usize,
        polling: Polling,
        memory: fn(usize) -> LaneMemory,
    ) -> Result<LaneRing, SetupError> {
        // Registered in pieces that no buffer straddles.
        let span = span_bytes(buffer_bytes);
        let config = RingConfig { entries: lanes, polling };
        let files =
            |setup: &RingSetup| Files::new(&[file], setup.features, setup.registered_span_bytes);
        LaneRing::over(config, file, (lanes, buffer_bytes, span), memory, files)
    }
}

impl LaneRing<Commands> {
    /// The same for NVMe commands to a namespace, whose character device stays open for as long as
    /// the ring. An I/O that is more than one command takes is several, and completes with the last
    /// of them.
    ///
    /// # Errors
    /// As [`LaneRing::new`], when so many I/Os are more commands than a ring has room for, and
    /// when completions are to be polled for by a kernel that crashes over it.
    pub fn commanding(
        target: CommandTarget,
        lanes: u32,
        buffer_bytes: usize,
        polling: Polling,
    ) -> Result<LaneRing<Commands>, SetupError> {
        if polling == Polling::Completion {
            check_polled_commands()?;
        }
        let command_bytes = target.command_bytes_max as usize;
        let commands = u64::from(lanes) * buffer_bytes.div_ceil(command_bytes) as u64;
        if commands > COMMANDS_MAX {
            return Err(SetupError::new(
                format!(
                    "{lanes} I/Os of {buffer_bytes} bytes in flight are {commands} NVMe commands, \
                     and a thread can have {COMMANDS_MAX}"
                ),
                "choose smaller I/Os, fewer of them in flight, or more threads",
            ));
        }
        let config = RingConfig { entries: ENTRIES_MAX.min(commands as u32), polling };
        LaneRing::with_entries(config, target, (lanes, buffer_bytes))
    }

    /// Its completion queue must have room for all commands in flight.
    fn with_entries(
        config: RingConfig,
        target: CommandTarget,
        (lanes, buffer_bytes): (u32, usize),
    ) -> Result<LaneRing<Commands>, SetupError> {
        let command_bytes = target.command_bytes_max.into();
        let span = command_span_bytes(buffer_bytes as u64, command_bytes) as usize;
        let sizes = (lanes, buffer_bytes, span);
        let mut ring = LaneRing::over(config, target.file, sizes, lane_memory, |setup| {
            Commands::new(&[target], setup.features, setup.registered_span_bytes)
        })?;
        ring.has_registered_buffers &= target.takes_registered;
        Ok(ring)
    }
}

/// Memory for buffers, and whether it is in huge pages; none where the kernel does not say.
type LaneMemory = Result<(Mapping, Option<bool>), SetupError>;

/// So much memory, in huge pages where there are any.
fn lane_memory(bytes: usize) -> LaneMemory {
    let memory = Mapping::new(bytes, true)?;
    let is_huge = memory.make_huge();
    if is_huge == Some(false) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| tracing::warn!("{SMALL_PAGES}"));
    }
    Ok((memory, is_huge))
}

impl<D: Dialect> LaneRing<D> {
    /// A ring on one file whose memory is registered in pieces of `span` bytes.
    fn over(
        config: RingConfig,
        file: RawFd,
        (lanes, buffer_bytes, span): (u32, usize, usize),
        memory: fn(usize) -> LaneMemory,
        dialect: impl FnOnce(&RingSetup<D::Entry, D::Answer>) -> D,
    ) -> Result<LaneRing<D>, SetupError> {
        assert!(lanes > 0 && buffer_bytes > 0 && buffer_bytes.is_multiple_of(4096));
        let (memory, huge_buffers) = memory(buffer_bytes * lanes as usize)?;
        let mut setup: RingSetup<D::Entry, D::Answer> = RingSetup::sized(config)?;
        setup.register_files(&[file]).map_err(|error| {
            SetupError::new(
                format!("the file can't be registered with io_uring: {error}"),
                "raise the file descriptor limit with `ulimit -n 65536`",
            )
        })?;
        // SAFETY: the mapping lives in the same struct as the ring, whose `Drop` waits until
        // nothing is in flight; the kernel holds registered pages whatever is unmapped.
        let registered = unsafe { setup.register_spans(memory.as_ptr(), memory.len(), span) };
        Ok(LaneRing {
            dialect: dialect(&setup),
            raw: RawRing::new(setup.ring),
            memory,
            buffer_bytes,
            // Without it each I/O pins its pages: slower, not wrong.
            has_registered_buffers: registered.is_ok(),
            huge_buffers,
            busy: vec![false; lanes as usize],
            in_flight: 0,
        })
    }

    /// Number of I/Os submitted and not yet completed, all lanes together.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether the buffers are registered with the kernel, and I/Os name them so.
    pub fn has_registered_buffers(&self) -> bool {
        self.has_registered_buffers
    }

    /// Whether the buffers are in huge pages; none where the kernel does not say (before 6.1).
    pub fn huge_buffers(&self) -> Option<bool> {
        self.huge_buffers
    }

    /// The buffer of a lane that has no I/O in flight.
    ///
    /// # Panics
    /// When it has: the kernel owns the buffer then.
    pub fn buffer(&mut self, lane: u32) -> &mut [u8] {
        assert!(!self.busy[lane as usize], "the kernel owns the buffer of a busy lane");
        let pointer = self.memory.range_ptr(lane as usize * self.buffer_bytes, self.buffer_bytes);
        // SAFETY: the range is inside the mapping (`range_ptr` checks), each lane's is its own, no
        // I/O on it is in flight, and `self` is borrowed for as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.buffer_bytes) }
    }

    /// Start and length of all buffers together, for registration with a GPU; they stay where they
    /// are for as long as the ring.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.memory.as_ptr(), self.buffer_bytes * self.busy.len())
    }

    /// Queues one I/O on an idle lane, and hands over what is queued once that is a batch: 4 I/Os,
    /// and a quarter of those in flight. What is less waits for [`LaneRing::submit_and_wait`] or
    /// [`LaneRing::look`]. One that the kernel refuses completes with its errno.
    ///
    /// # Panics
    /// When the lane is busy or the I/O does not fit its buffer.
    pub fn push(&mut self, io: LaneIo) {
        let lane = io.lane as usize;
        assert!(!self.busy[lane] && io.length_bytes as usize <= self.buffer_bytes);
        let start = lane * self.buffer_bytes;
        let pointer = self.memory.range_ptr(start, io.length_bytes as usize);
        let place = MemoryPlace { pointer, region_offset: Some(start) };
        let LaneIo { kind, offset_bytes, length_bytes, .. } = io;
        let request = IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 };
        let asked = AskedIo { file: 0, request, place: Some(place) };
        let (token, raw) = (SlotToken(u64::from(io.lane)), &mut self.raw);
        self.dialect.encode(&asked, token, |entry| {
            // SAFETY: the buffer belongs to this ring, which gives it to nobody while the lane is
            // busy and waits for it in `Drop`.
            unsafe { raw.push(token.0, entry, |_| {}) };
        });
        self.busy[lane] = true;
        self.in_flight += 1;
        if is_batch(self.raw.fresh(), self.in_flight) {
            self.raw.hand_over(|_| {});
        }
    }

    /// Submits what is queued and waits until something has completed, a second at the most.
    ///
    /// # Errors
    /// `ETIMEDOUT` when nothing has completed for [`SILENCE_MAX`](super::SILENCE_MAX) although I/Os
    /// are in flight.
    pub fn submit_and_wait(&mut self) -> std::io::Result<()> {
        self.raw.wait(Some(WAIT_MAX), |_| {})
    }

    /// Submits what is queued and looks for completions once, without waiting.
    pub fn look(&mut self) {
        self.raw.look(|_| {});
    }

    /// A completed I/O: its lane, and bytes moved or a negative errno, in whose place an NVMe
    /// status can be ([`NvmeStatus::errno`](crate::error::NvmeStatus::errno)).
    pub fn next_completion(&mut self) -> Option<(u32, i32)> {
        loop {
            let (token, result) = self.raw.reap()?;
            let lane = token as usize;
            assert!(self.busy[lane], "a completion comes once");
            let Some(result) = self.dialect.answered(SlotToken(token), result) else { continue };
            self.busy[lane] = false;
            self.in_flight -= 1;
            return Some((lane as u32, result));
        }
    }
}

impl<D: Dialect> Drop for LaneRing<D> {
    fn drop(&mut self) {
        if !self.raw.drain(|_| {}, |_, _| {}) {
            // Unmapping under a device that still writes could corrupt memory; leaking can't.
            if let Ok(nothing) = Mapping::new(4096, false) {
                std::mem::forget(std::mem::replace(&mut self.memory, nothing));
            }
        }
    }
}

/// Time that a polled read may take before polling counts as not working.
const PROBE_PATIENCE: Nanos = Nanos::from_secs(2);

/// Finds out whether a way of polling works on this file, or for NVMe commands to the namespace
/// whose block device it is: one real read of its first 4 KiB.
///
/// # Errors
/// When it does not: why, and what would help.
pub fn probe_polling(
    file: RawFd,
    namespace: Option<CommandTarget>,
    polling: Polling,
) -> Result<(), SetupError> {
    let Some(name) = polling.name() else { return Ok(()) };
    let failed = |reason: String| SetupError::Polling { name, reason };
    if polling == Polling::Completion && has_poll_queue(file) == Some(false) {
        // Linux before 6.14 does such I/O by interrupt, and says nothing of it.
        return Err(failed("the drive has no queue for polled I/O".to_owned()));
    }
    let read = match namespace {
        None => read_once(LaneRing::new(file, 1, 4096, polling)?),
        Some(target) => read_once(LaneRing::commanding(target, 1, 4096, polling)?),
    };
    read.map_err(failed)
}

/// Reads the first 4 KiB on a fresh ring, or says why that failed.
fn read_once<D: Dialect>(mut ring: LaneRing<D>) -> Result<(), String> {
    let io = LaneIo { lane: 0, kind: IoKind::Read, offset_bytes: 0, length_bytes: 4096 };
    ring.push(io);
    let deadline = monotonic_now() + PROBE_PATIENCE;
    while monotonic_now() <= deadline {
        // Never blocking: a device that can't be polled may never complete.
        ring.look();
        match ring.next_completion() {
            Some((_, 0..)) => return Ok(()),
            Some((_, errno)) => return Err(errno_text(-errno)),
            None => std::thread::yield_now(),
        }
    }
    // The read may complete whenever it likes: its buffer must outlive this process's interest.
    std::mem::forget(ring);
    Err("a read did not complete in 2 s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::CommandSetup;
    use std::os::fd::AsRawFd;

    #[test]
    fn lanes_are_handed_over_in_batches_before_the_wait() {
        let name = format!("ringfall-lanes-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [7; 4096]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let mut ring = LaneRing::new(file.as_raw_fd(), 12, 4096, Polling::None).unwrap();
        let mut kept = Vec::new();
        for lane in 0..12 {
            let io = LaneIo { lane, kind: IoKind::Read, offset_bytes: 0, length_bytes: 4096 };
            ring.push(io);
            kept.push(ring.raw.fresh());
        }
        assert_eq!(kept, [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0]);
        while ring.in_flight() > 0 {
            ring.submit_and_wait().unwrap();
            while let Some((lane, result)) = ring.next_completion() {
                assert_eq!((result, ring.buffer(lane)[4095]), (4096, 7));
            }
        }
        std::fs::remove_file(path).unwrap();
    }

    const TARGET: CommandTarget = CommandTarget {
        file: -1,
        namespace: 1,
        block_shift: 9,
        command_bytes_max: 4096,
        takes_registered: true,
    };

    /// The null device takes any command and does nothing, from Linux 6.7 on.
    fn null_ring(file: &std::fs::File) -> LaneRing<Commands> {
        let target = CommandTarget { file: file.as_raw_fd(), ..TARGET };
        // 32 commands: the completion queue has room for them, and the submission queue for half.
        let config = RingConfig { entries: 16, ..RingConfig::default() };
        LaneRing::with_entries(config, target, (2, 64 << 10)).unwrap()
    }

    #[test]
    fn an_io_that_is_many_commands_completes_once_and_its_lane_is_used_again() {
        let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let mut ring = null_ring(&file);
        assert!(ring.has_registered_buffers());
        let mut results = Vec::new();
        for kind in [IoKind::Read, IoKind::Write] {
            for lane in 0..2 {
                ring.push(LaneIo { lane, kind, offset_bytes: 0, length_bytes: 64 << 10 });
            }
            let mut completed = Vec::new();
            while ring.in_flight() > 0 {
                ring.submit_and_wait().unwrap();
                while let Some((lane, result)) = ring.next_completion() {
                    completed.push(lane);
                    results.push(result);
                }
            }
            completed.sort_unstable();
            assert_eq!(completed, [0, 1]);
        }
        assert_eq!(results, [results[0]; 4]);
        assert!([64 << 10, -libc::EOPNOTSUPP].contains(&results[0]), "{results:?}");
    }

    #[test]
    fn an_io_of_which_some_commands_are_queued_ends_with_the_errno_of_the_others() {
        let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let mut ring = null_ring(&file);
        let (kind, length_bytes) = (IoKind::Write, 64 << 10);
        let start = ring.buffer_bytes;
        let pointer = ring.memory.range_ptr(start, start);
        let place = Some(MemoryPlace { pointer, region_offset: Some(start) });
        let request = IoRequest { kind, offset_bytes: 0, length_bytes, buffer_offset: 0 };
        let (mut pushed, raw) = (0, &mut ring.raw);
        ring.dialect.encode(&AskedIo { file: 0, request, place }, SlotToken(1), |entry| {
            if pushed == 3 {
                raw.hand_over(|_| {});
                raw.refuse(libc::ENXIO, |_| {});
            }
            pushed += 1;
            // SAFETY: the buffer is lane 1's, which is busy until all of them have ended.
            unsafe { raw.push(1, entry, |_| {}) };
        });
        (ring.busy[1], ring.in_flight) = (true, 1);
        let completion = loop {
            ring.submit_and_wait().unwrap();
            if let Some(completion) = ring.next_completion() {
                break completion;
            }
        };
        assert!([-libc::ENXIO, -libc::EOPNOTSUPP].contains(&completion.1), "{completion:?}");
        assert_eq!((completion.0, ring.in_flight()), (1, 0));
        // And so does whatever is asked for later.
        ring.push(LaneIo { lane: 0, kind, offset_bytes: 0, length_bytes });
        assert_eq!(ring.next_completion(), Some((0, -libc::ENXIO)));
    }

    #[test]
    fn more_commands_than_a_ring_has_room_for_are_refused_and_no_fewer() {
        let config = RingConfig { entries: ENTRIES_MAX, ..RingConfig::default() };
        let setup = CommandSetup::sized(config).unwrap();
        assert!(u64::from(setup.ring.params().cq_entries()) >= COMMANDS_MAX);
        let error = match LaneRing::commanding(TARGET, 16_385, 16 << 10, Polling::None) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it took 65,540 commands"),
        };
        assert!(error.contains("65540 NVMe commands") && error.contains("smaller I/Os"), "{error}");
    }
}
