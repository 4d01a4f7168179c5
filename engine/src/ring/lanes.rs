//! A ring for a plain thread that does nothing but I/O: as many lanes as I/Os in flight, each with
//! a buffer of its own, no executor, no table that grows. For saturation and preconditioning.

#![allow(unsafe_code, reason = "pushing entries whose buffers the ring owns until it has drained")]

use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, types};

use super::batch::is_batch;
use super::op::IoKind;
use super::patience::Patience;
use super::poll_queue::has_poll_queue;
use super::probe::setup_failure;
use super::setup::{RingConfig, RingSetup, SQ_THREAD_IDLE_MS};
use crate::buffer::Mapping;
use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;

/// Registered number of the file.
const FILE: types::Fixed = types::Fixed(0);
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

/// The ring, its buffers and its registered file. All I/O is done when it is dropped.
pub struct LaneRing {
    ring: IoUring,
    memory: Mapping,
    buffer_bytes: usize,
    lanes: u32,
    /// Buffers a registered piece of the memory holds; none where they are not registered.
    registered_span: Option<usize>,
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
        assert!(lanes > 0 && buffer_bytes > 0 && buffer_bytes.is_multiple_of(4096));
        let memory = Mapping::new(buffer_bytes * lanes as usize, true)?;
        let mut setup = match polling {
            Polling::None => {
                RingSetup::new(RingConfig { entries: lanes, ..RingConfig::default() })?
            }
            Polling::Submission => {
                let ring = IoUring::builder().setup_sqpoll(SQ_THREAD_IDLE_MS).build(lanes);
                RingSetup::plain(ring.map_err(|e| setup_failure(e.raw_os_error().unwrap_or(0)))?)
            }
            Polling::Completion => {
                let ring = IoUring::builder().setup_iopoll().build(lanes);
                RingSetup::plain(ring.map_err(|e| setup_failure(e.raw_os_error().unwrap_or(0)))?)
            }
        };
        setup.register_file(file).map_err(|error| {
            SetupError::new(
                format!("the file can't be registered with io_uring: {error}"),
                "raise the file descriptor limit with `ulimit -n 65536`",
            )
        })?;
        let bytes = buffer_bytes * lanes as usize;
        // SAFETY: the mapping lives in the same struct as the ring, whose `Drop` waits until
        // nothing is in flight; the kernel holds registered pages whatever is unmapped.
        let registered = unsafe { setup.register_buffers(memory.as_ptr(), bytes, buffer_bytes) };
        // Without it each I/O pins its pages: slower, not wrong.
        let registered_span = registered.is_ok().then_some(setup.registered_span_bytes);
        Ok(LaneRing {
            ring: setup.ring,
            memory,
            buffer_bytes,
            lanes,
            registered_span,
            busy: vec![false; lanes as usize],
            in_flight: 0,
            patience: Patience::default(),
        })
    }

    /// Number of I/Os submitted and not yet completed, all lanes together.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether the buffers are registered with the kernel.
    #[must_use]
    pub fn has_registered_buffers(&self) -> bool {
        self.registered_span.is_some()
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
    /// idle.
    ///
    /// # Panics
    /// When the lane is busy or the I/O does not fit its buffer.
    pub fn push(&mut self, io: LaneIo) -> std::io::Result<()> {
        let lane = io.lane as usize;
        assert!(!self.busy[lane] && io.length_bytes as usize <= self.buffer_bytes);
        let start = lane * self.buffer_bytes;
        let pointer = self.memory.range_ptr(start, io.length_bytes as usize);
        let entry = match (self.registered_span, io.kind) {
            (Some(span), IoKind::Read) => {
                opcode::ReadFixed::new(FILE, pointer, io.length_bytes, (start / span) as u16)
                    .offset(io.offset_bytes)
                    .build()
            }
            (Some(span), IoKind::Write) => {
                opcode::WriteFixed::new(FILE, pointer, io.length_bytes, (start / span) as u16)
                    .offset(io.offset_bytes)
                    .build()
            }
            (None, IoKind::Read) => {
                opcode::Read::new(FILE, pointer, io.length_bytes).offset(io.offset_bytes).build()
            }
            (None, IoKind::Write) => {
                opcode::Write::new(FILE, pointer, io.length_bytes).offset(io.offset_bytes).build()
            }
            (_, IoKind::Flush) => {
                opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build()
            }
        };
        let entry = entry.user_data(u64::from(io.lane));
        let mut tries = 0;
        loop {
            // SAFETY: the buffer belongs to this ring, which gives it to nobody while the lane is
            // busy and waits for it in `Drop`.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                break;
            }
            // At most `lanes` are in flight, and the queue has at least as many places; with a
            // kernel thread the places come free when it has looked. Not `squeue_wait`, which has
            // no bound: that thread may be gone.
            self.patience.enter(&self.ring, 0)?;
            tries += 1;
            match tries < FULL_QUEUE_YIELDS {
                true => std::thread::yield_now(),
                false => self.patience.again()?,
            }
        }
        self.busy[lane] = true;
        self.in_flight += 1;
        if is_batch(self.ring.submission().len(), self.in_flight) {
            // What the kernel does not take now it takes at the next wait, which says why.
            let _later = self.ring.submit();
        }
        Ok(())
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
        let queued = self.ring.submission().len() as u32;
        // SAFETY: the entries in the queue refer to this ring's own buffers; no argument is given.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GETEVENTS, None) }
            .map(|_| ())
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

    /// A completed I/O: its lane, and bytes moved or a negative errno.
    pub fn next_completion(&mut self) -> Option<(u32, i32)> {
        let entry = self.ring.completion().next()?;
        let lane = entry.user_data() as u32;
        assert!(lane < self.lanes && self.busy[lane as usize], "a completion comes once");
        self.busy[lane as usize] = false;
        self.in_flight -= 1;
        self.patience.heard();
        Some((lane, entry.result()))
    }
}

impl Drop for LaneRing {
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

/// Finds out whether a way of polling works on this file: one real read of its first 4 KiB.
///
/// # Errors
/// When it does not: why, and what would help.
pub fn probe_polling(file: RawFd, polling: Polling) -> Result<(), SetupError> {
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
    let mut ring = LaneRing::new(file, 1, 4096, polling)?;
    let io = LaneIo { lane: 0, kind: IoKind::Read, offset_bytes: 0, length_bytes: 4096 };
    ring.push(io).map_err(|error| failed(error.to_string()))?;
    let deadline = monotonic_now() + PROBE_PATIENCE;
    loop {
        // Never blocking: a device that can't be polled may never complete.
        let entered = ring.enter_without_waiting();
        if let Some((_, result)) = ring.next_completion() {
            return match result {
                0.. => Ok(()),
                errno => Err(failed(std::io::Error::from_raw_os_error(-errno).to_string())),
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
        return Err(failed(why));
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
}
