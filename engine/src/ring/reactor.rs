//! Submitting in batches, reaping, and the bell that wakes an executor.

#![allow(unsafe_code, reason = "pushing entries whose buffers the slot table owns")]

use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};

use super::op::{IoKind, IoRequest};
use super::probe::RingFeatures;
use super::setup::RingSetup;
use super::slot::{IoFuture, SlotToken, Slots};
use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::error::SetupError;

/// Registered number of the data file.
const DATA_FILE: u32 = 0;

/// The eventfd that the kernel counts up when completions are ready.
#[derive(Debug)]
pub struct CompletionBell(OwnedFd);

impl CompletionBell {
    /// The descriptor, to read 8 bytes from.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

/// A ring and its in-flight table. `B` is what an I/O owns until its completion; it lends the
/// buffer through `B: AsRef<Buffer>`.
pub struct Ring<B: 'static> {
    ring: RefCell<IoUring>,
    slots: Rc<Slots<B>>,
    file: RawFd,
    features: RingFeatures,
    registered_span_bytes: usize,
    clock: Clock,
    bell: CompletionBell,
    /// Entries were pushed since the last submit.
    dirty: Cell<bool>,
    /// Set while `turn` runs: waking a task may come back here.
    turning: Cell<bool>,
}

impl<B: AsRef<Buffer> + 'static> Ring<B> {
    /// Takes over a ring made on this thread. `file` is used when it could not be registered.
    ///
    /// # Errors
    /// When no eventfd can be had or registered.
    pub fn new(setup: RingSetup, file: RawFd, clock: Clock) -> Result<Ring<B>, SetupError> {
        let failed = |error: std::io::Error| {
            SetupError::new(
                format!("no eventfd for the io_uring: {error}"),
                "raise the file descriptor limit with `ulimit -n 65536`",
            )
        };
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        setup.ring.submitter().register_eventfd(bell.as_raw_fd()).map_err(failed)?;
        Ok(Ring {
            ring: RefCell::new(setup.ring),
            slots: Slots::new(),
            file,
            features: setup.features,
            registered_span_bytes: setup.registered_span_bytes,
            clock,
            bell: CompletionBell(bell),
            dirty: Cell::new(false),
            turning: Cell::new(false),
        })
    }

    /// What the ring got.
    #[must_use]
    pub fn features(&self) -> RingFeatures {
        self.features
    }

    /// The bell to await.
    #[must_use]
    pub fn bell(&self) -> &CompletionBell {
        &self.bell
    }

    /// I/Os not completed.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    /// Queues one I/O; `owned` belongs to the slot table until it completes.
    pub fn push(&self, request: IoRequest, owned: Option<B>) -> IoFuture<B> {
        let entry = self.encode(request, owned.as_ref().map(AsRef::as_ref));
        let (token, future) = self.slots.insert(owned, self.clock.now());
        let entry = entry.user_data(token.0);
        loop {
            // SAFETY: the buffer is owned by the slot until the completion carrying this token,
            // and the pool that it came from outlives the ring (see `Drop`).
            let pushed = unsafe { self.ring.borrow_mut().submission().push(&entry) };
            if pushed.is_ok() {
                break;
            }
            // The submission queue is full: hand it over, which empties it.
            self.submit();
        }
        self.dirty.set(true);
        future
    }

    fn encode(&self, request: IoRequest, buffer: Option<&Buffer>) -> squeue::Entry {
        if request.kind == IoKind::Flush {
            return if self.features.registered_file {
                opcode::Fsync::new(types::Fixed(DATA_FILE))
                    .flags(types::FsyncFlags::DATASYNC)
                    .build()
            } else {
                opcode::Fsync::new(types::Fd(self.file)).flags(types::FsyncFlags::DATASYNC).build()
            };
        }
        let buffer = buffer.expect("a read or write has a buffer");
        let end = request.buffer_offset as usize + request.length_bytes as usize;
        assert!(end <= buffer.bytes().len(), "an I/O stays inside its buffer");
        let pointer = buffer.as_ptr().wrapping_add(request.buffer_offset as usize);
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let write = request.kind == IoKind::Write;
        macro_rules! build {
            ($fd:expr) => {
                if self.features.registered_buffers {
                    let index = (buffer.region_offset() / self.registered_span_bytes) as u16;
                    if write {
                        opcode::WriteFixed::new($fd, pointer, length, index).offset(offset).build()
                    } else {
                        opcode::ReadFixed::new($fd, pointer, length, index).offset(offset).build()
                    }
                } else if write {
                    opcode::Write::new($fd, pointer, length).offset(offset).build()
                } else {
                    opcode::Read::new($fd, pointer, length).offset(offset).build()
                }
            };
        }
        if self.features.registered_file {
            build!(types::Fixed(DATA_FILE))
        } else {
            build!(types::Fd(self.file))
        }
    }

    fn submit(&self) {
        self.dirty.set(false);
        let result = self.ring.borrow().submit();
        match result {
            Ok(_) => {}
            // EBUSY: the completion queue overflowed, reaping comes first. EAGAIN, EINTR: again.
            Err(error) => match error.raw_os_error() {
                Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) => self.dirty.set(true),
                other => unreachable!("io_uring_enter on our own ring: errno {other:?}"),
            },
        }
        if self.dirty.get() {
            self.reap();
        }
    }

    /// Hands over what was pushed and works off what has completed. O(completions); no system
    /// call when there is nothing to do.
    pub fn turn(&self) {
        if self.turning.replace(true) {
            return;
        }
        loop {
            // The bell would ring for completions that this loop is about to see.
            self.ring.borrow_mut().completion().disable_eventfd();
            let needs_enter = {
                let mut ring = self.ring.borrow_mut();
                let queue = ring.submission();
                self.dirty.get() || queue.taskrun() || queue.cq_overflow() || !queue.is_empty()
            };
            if needs_enter {
                self.submit();
            }
            let reaped = self.reap();
            self.ring.borrow_mut().completion().enable_eventfd();
            // DEFER_TASKRUN works off a bounded number an enter; the flag says when more waits.
            let more = {
                let mut ring = self.ring.borrow_mut();
                let taskrun = ring.submission().taskrun();
                taskrun || !ring.completion().is_empty()
            };
            if !more && reaped == 0 {
                break;
            }
        }
        self.turning.set(false);
    }

    /// Blocks until at least one I/O has completed, then works off what has. For plain threads.
    ///
    /// # Errors
    /// What `io_uring_enter` reports; `EINTR` is retried.
    pub fn wait(&self) -> std::io::Result<()> {
        if self.in_flight() == 0 {
            return Ok(());
        }
        loop {
            self.dirty.set(false);
            let result = self.ring.borrow().submit_and_wait(1);
            match result {
                Ok(_) => break,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => break,
                Err(error) => return Err(error),
            }
        }
        self.turn();
        Ok(())
    }

    fn reap(&self) -> u32 {
        let mut reaped = 0;
        let mut now = None;
        loop {
            // Not held across `complete`, which wakes tasks that may push.
            let Some(entry) = self.ring.borrow_mut().completion().next() else { break };
            // One clock read a batch: completions reaped together are seen together.
            let now = *now.get_or_insert_with(|| self.clock.now());
            self.slots.complete(SlotToken(entry.user_data()), entry.result(), now);
            reaped += 1;
        }
        reaped
    }
}

impl<B: 'static> Ring<B> {
    /// Gives the registered file back when nothing is in flight. The kernel ends a ring in the
    /// background, and a file system can't be unmounted while it holds a file there.
    pub fn release_file(&self) {
        if self.features.registered_file && self.slots.pending() == 0 {
            // It can only fail for want of a registered file: then there is nothing to give back.
            let _released = self.ring.borrow().submitter().unregister_files();
        }
    }
}

impl<B: 'static> Drop for Ring<B> {
    fn drop(&mut self) {
        // The kernel may still write to buffers that the table owns: wait for every one.
        while self.slots.pending() > 0 {
            let result = self.ring.borrow().submit_and_wait(1);
            if let Err(error) = result
                && !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
            {
                // Freeing the buffers now could corrupt memory; leaking them can't.
                tracing::error!(%error, "io_uring did not drain; its buffers are leaked");
                std::mem::forget(Rc::clone(&self.slots));
                return;
            }
            loop {
                let Some(entry) = self.ring.borrow_mut().completion().next() else { break };
                let now = self.clock.now();
                self.slots.complete(SlotToken(entry.user_data()), entry.result(), now);
            }
        }
        self.release_file();
    }
}
