//! Entering the kernel by the number under which a thread has registered its ring, where the kernel
//! gives it one: it then looks up no descriptor, whose count of references all threads share.

#![allow(unsafe_code, reason = "system calls that the io_uring crate makes by descriptor alone")]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::{IoUring, cqueue, squeue, types};

/// `IORING_ENTER_GETEVENTS` of io_uring_enter(2): have the kernel run what waits for this thread,
/// and look for completions.
pub(super) const GETEVENTS: u32 = 1 << 0;
/// `IORING_ENTER_SQ_WAKEUP`: the kernel's submission thread sleeps once it had nothing to take.
pub(super) const SQ_WAKEUP: u32 = 1 << 1;
/// `IORING_ENTER_EXT_ARG`: the argument is a [`Longest`].
const EXT_ARG: u32 = 1 << 3;
/// `IORING_ENTER_REGISTERED_RING`: the descriptor is a number that the thread has registered.
const REGISTERED_RING: u32 = 1 << 4;
/// `IORING_REGISTER_RING_FDS` of io_uring_register(2), Linux 5.18.
const REGISTER_RING_FDS: u32 = 20;
/// `IORING_UNREGISTER_RING_FDS`.
const UNREGISTER_RING_FDS: u32 = 21;

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RingUpdate {
    /// The number; all ones to have the kernel choose one.
    offset: u32,
    reserved: u32,
    /// The ring's descriptor.
    data: u64,
}

/// `struct io_uring_getevents_arg`, without a mask of signals.
#[repr(C)]
struct Longest {
    sigmask: u64,
    sigmask_bytes: u32,
    reserved: u32,
    /// Address of the time after which the wait ends with `ETIME`.
    time: u64,
}

/// The way into the kernel of one ring. Stays on the thread that made it, which the kernel knows
/// the number of.
#[derive(Debug)]
pub(super) struct Entrance {
    ring: RawFd,
    /// None where the kernel gave none: the descriptor does as well, a little more slowly.
    number: Option<u32>,
    _thread: PhantomData<*const ()>,
}

impl Entrance {
    /// Registers a ring of this thread, which outlives the answer. A thread has 16 numbers; further
    /// rings of it, those of an older kernel and those whose submissions a kernel thread takes,
    /// which are seldom entered, go by their descriptor.
    pub(super) fn of<S, C>(ring: &IoUring<S, C>) -> Entrance
    where
        S: squeue::EntryMarker,
        C: cqueue::EntryMarker,
    {
        let descriptor = ring.as_raw_fd();
        let mut update = RingUpdate { offset: u32::MAX, reserved: 0, data: descriptor as u64 };
        let is_entered = !ring.params().is_setup_sqpoll();
        let is_registered = is_entered && register(descriptor, REGISTER_RING_FDS, &mut update);
        let number = is_registered.then_some(update.offset);
        Entrance { ring: descriptor, number, _thread: PhantomData }
    }

    /// Whether the kernel gave the ring a number.
    pub(super) fn is_registered(&self) -> bool {
        self.number.is_some()
    }

    /// Hands over the oldest `queued` entries and waits for `wanted` completions, for `longest` at
    /// the most; the number of entries that the kernel took.
    pub(super) fn enter(
        &self,
        queued: u32,
        wanted: u32,
        flags: u32,
        longest: Option<Duration>,
    ) -> io::Result<usize> {
        let time = longest.map(types::Timespec::from);
        let longest = time.as_ref().map(|time| Longest {
            sigmask: 0,
            sigmask_bytes: 0,
            reserved: 0,
            time: (&raw const *time) as u64,
        });
        let (argument, bytes, extended) = match &longest {
            Some(longest) => (&raw const *longest, size_of::<Longest>(), EXT_ARG),
            None => (std::ptr::null(), 0, 0),
        };
        let (ring, by_number) = match self.number {
            Some(number) => (number, REGISTERED_RING),
            None => (self.ring as u32, 0),
        };
        let flags = flags | extended | by_number;
        // SAFETY: the owner of the ring keeps what the queued entries refer to until they complete;
        // the argument and the time that it points to outlive the call.
        let taken = unsafe {
            libc::syscall(libc::SYS_io_uring_enter, ring, queued, wanted, flags, argument, bytes)
        };
        usize::try_from(taken).map_err(|_negative| io::Error::last_os_error())
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        if let Some(offset) = self.number {
            // Or the ring would live on until its thread ends.
            let mut update = RingUpdate { offset, reserved: 0, data: 0 };
            let _is_known = register(self.ring, UNREGISTER_RING_FDS, &mut update);
        }
    }
}

/// Whether the kernel took one update of the thread's registered rings.
fn register(ring: RawFd, what: u32, update: &mut RingUpdate) -> bool {
    // SAFETY: the kernel reads and writes one update, of which the pointer is, during the call.
    let taken =
        unsafe { libc::syscall(libc::SYS_io_uring_register, ring, what, &raw mut *update, 1) };
    taken == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::opcode;

    /// One thread, as the kernel counts numbers by thread.
    #[test]
    fn a_ring_is_entered_by_number_or_by_descriptor_and_gives_its_number_back() {
        // More than a thread has numbers for: none may leak.
        for _ in 0..40 {
            let mut ring = IoUring::new(4).unwrap();
            let entrance = Entrance::of(&ring);
            use_it(&mut ring, &entrance);
            assert!(entrance.is_registered() || !has_numbers(), "a number was not given back");
        }
        let mut many: Vec<_> = (0..20).map(|_| IoUring::new(4).unwrap()).collect();
        let entrances: Vec<_> = many.iter().map(Entrance::of).collect();
        assert!(entrances.iter().any(|entrance| !entrance.is_registered()), "20 of 16");
        for (ring, entrance) in many.iter_mut().zip(&entrances) {
            use_it(ring, entrance);
        }
    }

    fn has_numbers() -> bool {
        let ring = IoUring::new(4).unwrap();
        let mut update =
            RingUpdate { offset: u32::MAX, reserved: 0, data: ring.as_raw_fd() as u64 };
        let given = register(ring.as_raw_fd(), REGISTER_RING_FDS, &mut update);
        given && register(ring.as_raw_fd(), UNREGISTER_RING_FDS, &mut update)
    }

    fn use_it(ring: &mut IoUring, entrance: &Entrance) {
        let nothing = || opcode::Nop::new().build().user_data(7);
        // SAFETY: the entries refer to no memory.
        unsafe { ring.submission().push(&nothing()) }.unwrap();
        assert_eq!(entrance.enter(1, 0, 0, None).unwrap(), 1);
        // SAFETY: as above.
        unsafe { ring.submission().push(&nothing()) }.unwrap();
        assert_eq!(entrance.enter(1, 1, GETEVENTS, None).unwrap(), 1);
        assert_eq!(entrance.enter(0, 0, GETEVENTS, None).unwrap(), 0);
        assert_eq!(ring.completion().map(|entry| entry.user_data()).collect::<Vec<_>>(), [7, 7]);
        let silence = entrance.enter(0, 1, GETEVENTS, Some(Duration::from_millis(1)));
        assert_eq!(silence.unwrap_err().raw_os_error(), Some(libc::ETIME));
    }
}
