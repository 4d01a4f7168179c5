//! A ring for a plain thread that does nothing but I/O: as many lanes as I/Os in flight, each with
//! a buffer of its own, no executor, no table that grows. For saturation and preconditioning.

#![allow(unsafe_code, reason = "pushing entries whose buffers the ring owns until it has drained")]

use std::os::fd::RawFd;
use std::sync::Once;

use io_uring::cqueue::EntryMarker as Answer;
use io_uring::squeue::EntryMarker as Entry;
use io_uring::{IoUring, cqueue};

use super::batch::is_batch;
use super::command::{CommandTarget, Commands, command_span_bytes};
use super::dialect::{AskedIo, Dialect, Files};
use super::op::{IoKind, IoRequest};
use super::patience::Patience;
use super::poll_queue::has_poll_queue;
use super::probe::{check_polled_commands, setup_failure};
use super::setup::{CommandSetup, RingConfig, RingSetup, SQ_THREAD_IDLE_MS};
use super::slot::SlotToken;
use crate::buffer::{Mapping, MemoryPlace, SMALL_PAGES};
use crate::clock::{Nanos, monotonic_now};
use crate::error::{NvmeStatus, SetupError};

/// Most entries of a submission queue (`IORING_MAX_ENTRIES`).
const ENTRIES_MAX: u32 = 1 << 15;
/// Most NVMe commands of a ring in flight: as many have room in its completion queue, which is
/// twice as large as the submission queue.
const COMMANDS_MAX: u64 = 1 << 16;
/// Looks at a full submission queue before each further one is paused for: the kernel's thread
/// takes microseconds when it is awake.
const FULL_QUEUE_YIELDS: u32 = 1_000;

/// Who looks for work and for completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// System calls and interrupts.
    #[default]
    None,
    /// A kernel thread takes submissions without system calls (`IORING_SETUP_SQPOLL`); it costs a
    /// core.
    Submission,
    /// Completions are polled for on the device (`IORING_SETUP_IOPOLL`); needs poll queues
    /// (`nvme.poll_queues`) and costs this thread's core.
    Completion,
}

/// One I/O of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneIo {
    /// Which lane, and so which buffer.
    pub lane: u32,
    /// Whether the device is read into the lane's buffer or written from it.
    pub kind: IoKind,
    /// Where on the device, a multiple of 4 KiB.
    pub offset_bytes: u64,
    /// How much, a multiple of 4 KiB, at most the lane's buffer.
    pub length_bytes: u32,
}

/// The ring, its buffers and its registered file. All I/O is done when it is dropped. `D` is how
/// the kernel is asked for it.
pub struct LaneRing<D: Dialect = Files> {
    ring: IoUring<D::Entry, D::Answer>,
    dialect: D,
    memory: Mapping,
    buffer_bytes: usize,
    lanes: u32,
    has_registered_buffers: bool,
    busy: Vec<bool>,
    in_flight: u32,
    patience: Patience,
}

impl LaneRing {
    /// Makes a ring on this thread, which must be the one to drive it. The buffers hold zeros.
    ///
    /// # Errors
    /// When the kernel, its limits or the memory do not allow it; the message has the remedy.
    pub fn new(
        file: RawFd,
        lanes: u32,
        buffer_bytes: usize,
        polling: Polling,
    ) -> Result<LaneRing, SetupError> {
        let memory = lane_memory(lanes, buffer_bytes)?;
        let mut setup: RingSetup = set_up(lanes, polling)?;
        register_file(&mut setup, file)?;
        // SAFETY: the mapping lives in the same struct as the ring, whose `Drop` waits until
        // nothing is in flight; the kernel holds registered pages whatever is unmapped.
        let registered =
            unsafe { setup.register_buffers(memory.as_ptr(), memory.len(), buffer_bytes) };
        let dialect = Files::new(&[file], setup.features, setup.registered_span_bytes);
        // Without it each I/O pins its pages: slower, not wrong.
        Ok(LaneRing::over((setup, dialect), memory, (lanes, buffer_bytes), registered.is_ok()))
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
        let entries = ENTRIES_MAX.min(commands as u32);
        LaneRing::with_entries(entries, target, (lanes, buffer_bytes), polling)
    }

    /// Its completion queue must have room for all commands in flight.
    fn with_entries(
        entries: u32,
        target: CommandTarget,
        (lanes, buffer_bytes): (u32, usize),
        polling: Polling,
    ) -> Result<LaneRing<Commands>, SetupError> {
        let memory = lane_memory(lanes, buffer_bytes)?;
        let mut setup: CommandSetup = set_up(entries, polling)?;
        register_file(&mut setup, target.file)?;
        let command_bytes = target.command_bytes_max.into();
        let span_bytes = command_span_bytes(buffer_bytes as u64, command_bytes) as usize;
        // SAFETY: as in `new`.
        let registered = unsafe { setup.register_spans(memory.as_ptr(), memory.len(), span_bytes) };
        let dialect = Commands::new(&[target], setup.features, setup.registered_span_bytes);
        let is_registered = registered.is_ok() && target.takes_registered;
        Ok(LaneRing::over((setup, dialect), memory, (lanes, buffer_bytes), is_registered))
    }
}

/// Memory for so many buffers of that size.
fn lane_memory(lanes: u32, buffer_bytes: usize) -> Result<Mapping, SetupError> {
    assert!(lanes > 0 && buffer_bytes > 0 && buffer_bytes.is_multiple_of(4096));
    let memory = Mapping::new(buffer_bytes * lanes as usize, true)?;
    if memory.make_huge() == Some(false) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| tracing::warn!("{SMALL_PAGES}"));
    }
    Ok(memory)
}

/// A ring on which work and completions are looked for that way.
fn set_up<S: Entry, C: Answer>(
    entries: u32,
    polling: Polling,
) -> Result<RingSetup<S, C>, SetupError> {
    let built = match polling {
        Polling::None => {
            return RingSetup::sized(RingConfig { entries, ..RingConfig::default() });
        }
        Polling::Submission => IoUring::builder().setup_sqpoll(SQ_THREAD_IDLE_MS).build(entries),
        Polling::Completion => IoUring::builder().setup_iopoll().build(entries),
    };
    let ring = built.map_err(|error| setup_failure(error.raw_os_error().unwrap_or(0)))?;
    Ok(RingSetup::plain(ring))
}

fn register_file<S: Entry, C: Answer>(
    setup: &mut RingSetup<S, C>,
    file: RawFd,
) -> Result<(), SetupError> {
    setup.register_file(file).map_err(|error| {
        SetupError::new(
            format!("the file can't be registered with io_uring: {error}"),
            "raise the file descriptor limit with `ulimit -n 65536`",
        )
    })
}

impl<D: Dialect> LaneRing<D> {
    fn over(
        (setup, dialect): (RingSetup<D::Entry, D::Answer>, D),
        memory: Mapping,
        (lanes, buffer_bytes): (u32, usize),
        has_registered_buffers: bool,
    ) -> LaneRing<D> {
        LaneRing {
            ring: setup.ring,
            dialect,
            memory,
            buffer_bytes,
            lanes,
            has_registered_buffers,
            busy: vec![false; lanes as usize],
            in_flight: 0,
            patience: Patience::default(),
        }
    }

    /// Number of I/Os submitted and not yet completed, all lanes together.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether the buffers are registered with the kernel, and I/Os name them so.
    #[must_use]
    pub fn has_registered_buffers(&self) -> bool {
        self.has_registered_buffers
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
    #[must_use]
    pub fn region(&self) -> (*mut u8, usize) {
        (self.memory.as_ptr(), self.buffer_bytes * self.lanes as usize)
    }

    /// Queues one I/O on an idle lane, and hands over what is queued once that is a batch: 4 I/Os,
    /// and a quarter of those in flight. What is less waits for [`LaneRing::submit_and_wait`] or
    /// [`LaneRing::look`].
    ///
    /// # Errors
    /// What `io_uring_enter` says when the submission queue had to be emptied first, or `ETIMEDOUT`
    /// when nobody has emptied it for [`SILENCE_MAX`](super::SILENCE_MAX); the lane then stays
    /// idle. An I/O of which some commands are queued by then completes, with that errno.
    ///
    /// # Panics
    /// When the lane is busy or the I/O does not fit its buffer.
    pub fn push(&mut self, io: LaneIo) -> std::io::Result<()> {
        let lane = io.lane as usize;
        assert!(!self.busy[lane] && io.length_bytes as usize <= self.buffer_bytes);
        let start = lane * self.buffer_bytes;
        let pointer = self.memory.range_ptr(start, io.length_bytes as usize);
        let place = MemoryPlace { pointer, region_offset: Some(start) };
        let LaneIo { kind, offset_bytes, length_bytes, .. } = io;
        let request = IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 };
        let asked = AskedIo { file: 0, request, place: Some(place) };
        let token = SlotToken(u64::from(io.lane));
        let (ring, patience) = (&mut self.ring, &mut self.patience);
        let (mut refusal, mut refused) = (Ok(()), 0);
        self.dialect.encode(&asked, token, |mut entry| {
            entry.set_user_data(token.0);
            // SAFETY: the buffer belongs to this ring, which gives it to nobody while the lane is
            // busy and waits for it in `Drop`.
            if refused > 0 || unsafe { ring.submission().push(&entry) }.is_err() {
                if refused == 0 {
                    refusal = queue_when_empty(ring, patience, &entry);
                }
                refused += u32::from(refusal.is_err());
            }
        });
        if refused > 0 {
            self.unqueued(token, refused, refusal)?;
        }
        self.busy[lane] = true;
        self.in_flight += 1;
        if is_batch(self.ring.submission().len(), self.in_flight) {
            // What the kernel does not take now it takes at the next wait, which says why.
            let _later = self.ring.submit();
        }
        Ok(())
    }

    /// Takes note that the last so many entries of an I/O could not be queued.
    #[cold]
    fn unqueued(
        &self,
        token: SlotToken,
        entries: u32,
        refusal: std::io::Result<()>,
    ) -> std::io::Result<()> {
        let errno = refusal.as_ref().err().and_then(std::io::Error::raw_os_error);
        let errno = errno.unwrap_or(libc::EIO);
        let ended = (0..entries).find_map(|_| self.dialect.answered(token, -errno));
        // Where it has not ended, others of its commands are in flight on its buffer.
        ended.map_or(Ok(()), |_| refusal)
    }

    /// Submits what is queued and waits until something has completed, a second at the most.
    ///
    /// # Errors
    /// What `io_uring_enter` says, other than "again"; `ETIMEDOUT` when nothing has completed for
    /// [`SILENCE_MAX`](super::SILENCE_MAX) although I/Os are in flight.
    pub fn submit_and_wait(&mut self) -> std::io::Result<()> {
        self.patience.enter(&self.ring, usize::from(self.in_flight > 0))
    }

    /// Submits what is queued and lets the kernel look for completions once.
    fn enter_without_waiting(&mut self) -> std::io::Result<()> {
        /// `IORING_ENTER_GETEVENTS` of io_uring_enter(2): what makes a polled ring poll.
        const GETEVENTS: u32 = 1;
        /// `IORING_ENTER_SQ_WAKEUP`: the kernel's thread sleeps once it had nothing to take.
        const WAKEUP: u32 = 2;
        let queue = self.ring.submission();
        let (queued, sleeps) = (queue.len() as u32, queue.need_wakeup());
        drop(queue);
        let flags = if sleeps { GETEVENTS | WAKEUP } else { GETEVENTS };
        // SAFETY: the entries in the queue refer to this ring's own buffers; no argument is given.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, flags, None) }.map(|_| ())
    }

    /// Submits what is queued and looks for completions once, without waiting.
    ///
    /// # Errors
    /// What `io_uring_enter` says, other than "again" or "busy", which a later look settles.
    pub fn look(&mut self) -> std::io::Result<()> {
        match self.enter_without_waiting() {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ETIME)
                ) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// A completed I/O: its lane, and bytes moved or a negative errno, in whose place an NVMe
    /// status can be ([`NvmeStatus::errno`](crate::error::NvmeStatus::errno)).
    pub fn next_completion(&mut self) -> Option<(u32, i32)> {
        loop {
            let entry: cqueue::Entry = self.ring.completion().next()?.into();
            let token = SlotToken(entry.user_data());
            let lane = token.0 as u32;
            assert!(lane < self.lanes && self.busy[lane as usize], "a completion comes once");
            self.patience.heard();
            let Some(result) = self.dialect.answered(token, entry.result()) else { continue };
            self.busy[lane as usize] = false;
            self.in_flight -= 1;
            return Some((lane, result));
        }
    }
}

/// Puts an entry in the submission queue, which is full and emptied first. The memory that it names
/// must be as [`LaneRing::push`] has it.
#[cold]
fn queue_when_empty<S: Entry, C: Answer>(
    ring: &mut IoUring<S, C>,
    patience: &mut Patience,
    entry: &S,
) -> std::io::Result<()> {
    let mut tries = 0;
    loop {
        // An I/O can be more commands than the queue has places; and with a kernel thread the
        // places come free when it has looked. Not `squeue_wait`, which has no bound: that thread
        // may be gone.
        patience.enter(ring, 0)?;
        // SAFETY: as in `push`, the one caller.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        tries += 1;
        match tries < FULL_QUEUE_YIELDS {
            true => std::thread::yield_now(),
            false => patience.again()?,
        }
    }
}

impl<D: Dialect> Drop for LaneRing<D> {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if let Err(error) = self.submit_and_wait() {
                // Unmapping under a device that still writes could corrupt memory; leaking can't.
                tracing::error!(%error, "io_uring did not drain; its buffers are leaked");
                let nothing = Mapping::new(4096, false);
                if let Ok(nothing) = nothing {
                    std::mem::forget(std::mem::replace(&mut self.memory, nothing));
                }
                return;
            }
            while self.next_completion().is_some() {}
        }
        // The kernel ends a ring in the background; the file is to be free when this returns.
        let _closing_anyway = self.ring.submitter().unregister_files();
    }
}

/// How long a polled read may take before polling counts as not working, s.
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
    let name = match polling {
        Polling::None => return Ok(()),
        Polling::Submission => "SQPOLL",
        Polling::Completion => "IOPOLL",
    };
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
    ring.push(io).map_err(|error| error.to_string())?;
    let deadline = monotonic_now() + PROBE_PATIENCE;
    loop {
        // Never blocking: a device that can't be polled may never complete.
        let entered = ring.enter_without_waiting();
        if let Some((_, result)) = ring.next_completion() {
            return match result {
                0.. => Ok(()),
                errno => Err(reason_of(-errno)),
            };
        }
        let why = match entered {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {
                error.to_string()
            }
            _ if monotonic_now() > deadline => "a read did not complete in 2 s".to_owned(),
            _ => {
                std::thread::yield_now();
                continue;
            }
        };
        // The read may complete whenever it likes: its buffer must outlive this process's interest.
        std::mem::forget(ring);
        return Err(why);
    }
}

/// What an errno, or an NVMe status in its place, says of a read that was tried.
fn reason_of(errno: i32) -> String {
    match NvmeStatus::of_errno(errno) {
        Some(status) => status.to_string(),
        None => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ring.push(io).unwrap();
            kept.push(ring.ring.submission().len());
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
        LaneRing::with_entries(16, target, (2, 64 << 10), Polling::None).unwrap()
    }

    #[test]
    fn an_io_that_is_many_commands_completes_once_and_its_lane_is_used_again() {
        let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let mut ring = null_ring(&file);
        assert!(ring.has_registered_buffers());
        let mut results = Vec::new();
        for kind in [IoKind::Read, IoKind::Write] {
            for lane in 0..2 {
                ring.push(LaneIo { lane, kind, offset_bytes: 0, length_bytes: 64 << 10 }).unwrap();
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
        let start = ring.buffer_bytes;
        let pointer = ring.memory.range_ptr(start, start);
        let place = MemoryPlace { pointer, region_offset: Some(start) };
        let request = IoRequest {
            kind: IoKind::Write,
            offset_bytes: 0,
            length_bytes: 64 << 10,
            buffer_offset: 0,
        };
        let asked = AskedIo { file: 0, request, place: Some(place) };
        let token = SlotToken(1);
        let refusal = || Err(std::io::Error::from_raw_os_error(libc::ETIMEDOUT));
        ring.dialect.encode(&asked, token, |_| {});
        assert!(ring.unqueued(token, 16, refusal()).is_err(), "nothing is in flight");
        let mut taken = 0;
        let ring_queue = &mut ring.ring;
        ring.dialect.encode(&asked, token, |mut entry| {
            entry.set_user_data(token.0);
            if taken < 3 {
                taken += 1;
                // SAFETY: the buffer is lane 1's, which is busy until all three have ended.
                unsafe { ring_queue.submission().push(&entry) }.unwrap();
            }
        });
        ring.unqueued(token, 13, refusal()).unwrap();
        (ring.busy[1], ring.in_flight) = (true, 1);
        let completion = loop {
            ring.submit_and_wait().unwrap();
            if let Some(completion) = ring.next_completion() {
                break completion;
            }
        };
        assert_eq!(completion, (1, -libc::ETIMEDOUT));
        assert_eq!(ring.in_flight(), 0);
    }

    #[test]
    fn more_commands_than_a_ring_has_room_for_are_refused_and_no_fewer() {
        let setup: CommandSetup = set_up(ENTRIES_MAX, Polling::None).unwrap();
        assert!(u64::from(setup.ring.params().cq_entries()) >= COMMANDS_MAX);
        let error = match LaneRing::commanding(TARGET, 16_385, 16 << 10, Polling::None) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it took 65,540 commands"),
        };
        assert!(error.contains("65540 NVMe commands") && error.contains("smaller I/Os"), "{error}");
    }
}
