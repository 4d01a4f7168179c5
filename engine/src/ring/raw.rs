//! The io_uring under every ring of this module: pushing entries, entering the kernel, reaping.
//!
//! The front ends say who owns the memory behind a token and what its completion means. What the
//! kernel may answer is dealt with here, in one way for all of them:
//!
//! | answer of an enter | what it means | what follows |
//! |---|---|---|
//! | a number | so many entries are the kernel's now | each completes |
//! | `EINTR`, `ETIME` | a signal came, or the time is over | the caller looks around |
//! | `EAGAIN`, `EBUSY` | no memory, or no room for completions | the next enter tries again |
//! | any other errno | a refusal, for good | see below |
//!
//! A caller that wanted to sleep has slept a millisecond before the next try. After a refusal,
//! whatever the kernel has not taken completes with that errno, and so does whatever is pushed
//! later; what it has taken still completes as it will.
//!
//! A device that completes nothing is another matter. After a minute of it [`RawRing::wait`] says
//! `ETIMEDOUT`, and can be called again; a ring that ends gives up after half a minute, and then
//! its memory is leaked rather than freed under the device.

#![allow(unsafe_code, reason = "pushing entries whose memory the front ends own")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::squeue::EntryMarker as _;
use io_uring::{IoUring, cqueue, opcode, types};

use super::dialect::Dialect;
use super::doorbell::Doorbell;
use super::entrance::{Entrance, GETEVENTS, SQ_WAKEUP};
use super::patience::{LAST_SILENCE_MAX, PAUSE, Patience, SILENCE_MAX};
use crate::clock::monotonic_now;

/// Token of the poll of a doorbell, which no I/O has.
const DOORBELL: u64 = u64::MAX;

/// Purpose of an enter, besides handing over what is queued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    HandOver,
    /// Has the kernel look for completions once.
    Look,
    /// Sleeps until something has completed, so long at the most.
    Sleep(Option<Duration>),
}

/// An io_uring, and what was pushed and has not been reaped.
///
/// `begins` is called with the token of each entry right before the kernel can have it, oldest
/// first, and with that of an entry which the kernel refuses.
pub(super) struct RawRing<D: Dialect> {
    /// Before the ring, whose number it gives back.
    entrance: Entrance,
    ring: IoUring<D::Entry, D::Answer>,
    /// Whether a kernel thread takes the entries: they are the kernel's from the push on.
    has_thread: bool,
    /// Entries that the kernel has not taken, oldest first, by their tokens.
    untaken: VecDeque<u64>,
    /// Number of them, the oldest, that an enter has offered to the kernel.
    begun: usize,
    /// The youngest of them: the submission queue has no place for these yet.
    waiting: VecDeque<D::Entry>,
    /// Entries that the kernel has taken and not completed, the doorbell's poll too.
    in_kernel: u32,
    /// Whether the kernel is asked to tell of the doorbell.
    pub(super) hears_doorbell: bool,
    /// The errno with which the kernel refused to take any more; 0 while it takes them.
    refusal: i32,
    patience: Patience,
    /// Calls of `io_uring_enter` so far, with those that a submission thread that was awake made
    /// needless.
    pub(super) enters: u64,
}

impl<D: Dialect> RawRing<D> {
    /// Takes over a ring of this thread, which must be the one to drive it.
    pub(super) fn new(ring: IoUring<D::Entry, D::Answer>) -> RawRing<D> {
        RawRing {
            entrance: Entrance::of(&ring),
            has_thread: ring.params().is_setup_sqpoll(),
            ring,
            untaken: VecDeque::new(),
            begun: 0,
            waiting: VecDeque::new(),
            in_kernel: 0,
            hears_doorbell: false,
            refusal: 0,
            patience: Patience::default(),
            enters: 0,
        }
    }

    /// Whether the thread enters the kernel by the ring's number.
    pub(super) fn is_registered(&self) -> bool {
        self.entrance.is_registered()
    }

    /// Whether the kernel takes no more entries.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal != 0
    }

    /// Whether entries are to be handed over.
    pub(super) fn has_untaken(&self) -> bool {
        !self.untaken.is_empty() && self.refusal == 0
    }

    /// Number of entries that no enter has offered to the kernel.
    #[inline]
    pub(super) fn fresh(&self) -> usize {
        self.untaken.len() - self.begun
    }

    /// Whether the kernel has work for this thread that only an enter does.
    pub(super) fn has_flags(&mut self) -> bool {
        let queue = self.ring.submission();
        let sleeps = self.has_thread && !queue.is_empty() && queue.need_wakeup();
        sleeps || queue.taskrun() || queue.cq_overflow()
    }

    /// Queues an entry; none overtakes another.
    ///
    /// # Safety
    /// The memory and the file that the entry names must stay until the token is reaped, or for
    /// ever where [`RawRing::drain`] says false.
    // Once for all I/O: left to itself the compiler calls it.
    #[inline(always)]
    pub(super) unsafe fn push(
        &mut self,
        token: u64,
        mut entry: D::Entry,
        mut begins: impl FnMut(u64),
    ) {
        entry.set_user_data(token);
        self.untaken.push_back(token);
        if self.refusal != 0 {
            self.begin(self.untaken.len(), begins);
        } else if !self.waiting.is_empty() || !self.queue(&entry, &mut begins) {
            self.waiting.push_back(entry);
        }
    }

    /// Puts the oldest entry that has no place in the submission queue there; false when it is
    /// full.
    #[inline(always)]
    fn queue(&mut self, entry: &D::Entry, begins: &mut impl FnMut(u64)) -> bool {
        let mut queue = self.ring.submission();
        if queue.is_full() {
            return false;
        }
        if self.has_thread {
            // The kernel may have it before we look again.
            self.in_kernel += 1;
            let token = self.untaken.pop_front();
            token.into_iter().filter(|token| *token != DOORBELL).for_each(begins);
        }
        // SAFETY: what the caller of `push` promises. After a refusal, which the reaping of tokens
        // follows, nothing in the queue is handed over any more.
        unsafe { queue.push(entry) }.is_ok()
    }

    /// Asks the kernel to complete when the doorbell rings, unless it is asked already.
    pub(super) fn hear(&mut self, doorbell: &Doorbell) {
        if self.refusal == 0 && !self.hears_doorbell {
            self.hears_doorbell = true;
            let fd = types::Fd(doorbell.fd().as_raw_fd());
            let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
            // SAFETY: the entry refers to no memory. A poll whose descriptor was closed never
            // completes, and nobody waits for it.
            unsafe { self.push(DOORBELL, poll.into(), |_| {}) };
        }
    }

    pub(super) fn hand_over(&mut self, begins: impl FnMut(u64)) {
        self.enter(Purpose::HandOver, begins);
    }

    /// Hands over what is queued and has the kernel look for completions once, without sleeping: a
    /// ring that is polled finds them in no other way.
    pub(super) fn look(&mut self, begins: impl FnMut(u64)) {
        self.enter(Purpose::Look, begins);
    }

    /// Hands over what is queued and sleeps until something has completed, the doorbell rings where
    /// it is heard, a signal comes or `longest` is over. Does not sleep while entries are left for
    /// which the submission queue had no place, nor when there is nothing to wait for.
    ///
    /// # Errors
    /// `ETIMEDOUT` when nothing has completed for [`SILENCE_MAX`] although the kernel has I/Os.
    pub(super) fn wait(
        &mut self,
        longest: Option<Duration>,
        begins: impl FnMut(u64),
    ) -> io::Result<()> {
        if self.enter(Purpose::Sleep(longest), begins) {
            std::thread::sleep(longest.map_or(PAUSE, |longest| longest.min(PAUSE)));
        }
        match self.is_silent_for(SILENCE_MAX) {
            true => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
            false => Ok(()),
        }
    }

    /// Whether nothing has completed by now, and for that long, although the kernel has I/Os.
    fn is_silent_for(&mut self, most: Duration) -> bool {
        self.has_ios()
            && self.ring.completion().is_empty()
            && self.patience.looked_in_vain(monotonic_now()) > most
    }

    /// Whether the kernel has entries that are to complete.
    fn has_ios(&self) -> bool {
        self.in_kernel > u32::from(self.hears_doorbell)
    }

    /// Enters the kernel; whether it could do nothing, so that asking again at once is vain.
    fn enter(&mut self, purpose: Purpose, mut begins: impl FnMut(u64)) -> bool {
        self.enters += 1;
        let mut queued = 0;
        if self.refusal == 0 {
            while let Some(entry) = self.waiting.pop_front() {
                if !self.queue(&entry, &mut begins) {
                    self.waiting.push_front(entry);
                    break;
                }
            }
            queued = self.ring.submission().len();
            if !self.has_thread {
                self.begin(queued, &mut begins);
            }
        }
        let entered = self.system_call(queued as u32, purpose);
        self.settle(entered, begins)
    }

    fn system_call(&mut self, queued: u32, purpose: Purpose) -> io::Result<usize> {
        let queue = self.ring.submission();
        // Deferred work is only run by an enter that asks for completions.
        let owes = queue.taskrun() || queue.cq_overflow();
        let sleeps = self.has_thread && queue.need_wakeup();
        drop(queue);
        if self.has_thread && purpose == Purpose::HandOver && !owes && !sleeps {
            return Ok(0);
        }
        let has_some = queued > 0 || self.in_kernel > 0;
        let (wanted, longest) = match purpose {
            // Not asleep while others could go out; and after a refusal an enter may fail at once.
            Purpose::Sleep(longest) if has_some && self.waiting.is_empty() && self.refusal == 0 => {
                (1, longest)
            }
            _ => (0, None),
        };
        let asks = owes || purpose != Purpose::HandOver;
        let flags = if asks { GETEVENTS } else { 0 } | if sleeps { SQ_WAKEUP } else { 0 };
        self.entrance.enter(queued, wanted, flags, longest)
    }

    /// Takes note of the kernel's answer; see the module.
    fn settle(&mut self, entered: io::Result<usize>, begins: impl FnMut(u64)) -> bool {
        match entered.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
            Ok(taken) if !self.has_thread => {
                let taken = taken.min(self.begun);
                drop(self.untaken.drain(..taken));
                self.begun -= taken;
                self.in_kernel += taken as u32;
            }
            Ok(_) | Err(libc::EINTR | libc::ETIME) => {}
            Err(libc::EAGAIN | libc::EBUSY) => return true,
            Err(errno) => self.refuse(errno, begins),
        }
        self.refusal != 0
    }

    /// The kernel is given no more entries.
    pub(super) fn refuse(&mut self, errno: i32, begins: impl FnMut(u64)) {
        if self.refusal == 0 {
            self.refusal = errno;
            self.waiting.clear();
            self.begin(self.untaken.len(), begins);
        }
    }

    /// Has the oldest `count` entries begun that the kernel has not taken.
    fn begin(&mut self, count: usize, begins: impl FnMut(u64)) {
        if count > self.begun {
            let fresh = self.untaken.range(self.begun..count).copied();
            fresh.filter(|token| *token != DOORBELL).for_each(begins);
            self.begun = count;
        }
    }

    /// A completed entry: its token, and its result or a negative errno.
    #[inline]
    pub(super) fn reap(&mut self) -> Option<(u64, i32)> {
        loop {
            let (token, result) = match self.ring.completion().next() {
                Some(answer) => {
                    let answer: cqueue::Entry = answer.into();
                    self.in_kernel -= 1;
                    (answer.user_data(), answer.result())
                }
                None if self.refusal != 0 => {
                    let token = self.untaken.pop_front()?;
                    self.begun -= 1;
                    (token, -self.refusal)
                }
                None => return None,
            };
            if token != DOORBELL {
                self.patience.heard();
                return Some((token, result));
            }
            self.hears_doorbell = false;
        }
    }

    /// Ends all I/O: hands over what is queued once, has whatever the kernel does not take complete
    /// with `ECANCELED`, and calls `ended` for each completion until the kernel has nothing left.
    ///
    /// False when the device was silent for half a minute: what it has must be leaked.
    pub(super) fn drain(&mut self, begins: impl FnMut(u64), ended: impl FnMut(u64, i32)) -> bool {
        self.drain_for(LAST_SILENCE_MAX, begins, ended)
    }

    fn drain_for(
        &mut self,
        most: Duration,
        mut begins: impl FnMut(u64),
        mut ended: impl FnMut(u64, i32),
    ) -> bool {
        if self.refusal == 0 {
            self.hand_over(&mut begins);
            self.refuse(libc::ECANCELED, begins);
        }
        self.patience.heard();
        loop {
            while let Some((token, result)) = self.reap() {
                ended(token, result);
            }
            if !self.has_ios() {
                self.release_files();
                return true;
            }
            self.look(|_| {});
            if self.is_silent_for(most) {
                tracing::error!(
                    in_flight = self.in_kernel,
                    "the device has completed nothing for {} s; the memory of what is in flight \
                     is leaked",
                    most.as_secs()
                );
                return false;
            }
            if self.ring.completion().is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Gives the registered files back. The kernel ends a ring in the background, and a file system
    /// can't be unmounted while it holds a file there.
    pub(super) fn release_files(&self) {
        // It can only fail for want of a registered file: then there is nothing to give back.
        let _released = self.ring.submitter().unregister_files();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Files, RingConfig, RingSetup};
    use io_uring::squeue;

    fn ring(entries: u32) -> RawRing<Files> {
        RawRing::new(RingSetup::new(RingConfig { entries, ..RingConfig::default() }).unwrap().ring)
    }

    fn push(ring: &mut RawRing<Files>, token: u64, entry: squeue::Entry, begun: &mut Vec<u64>) {
        // SAFETY: the entries refer to no memory.
        unsafe { ring.push(token, entry, |token| begun.push(token)) };
    }

    fn nothing() -> squeue::Entry {
        opcode::Nop::new().build()
    }

    /// Completes when the descriptor has something to read.
    fn poll(fd: &impl AsRawFd) -> squeue::Entry {
        opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLIN as u32).build()
    }

    fn reaped(ring: &mut RawRing<Files>) -> Vec<(u64, i32)> {
        std::iter::from_fn(|| ring.reap()).collect()
    }

    #[test]
    fn entries_for_which_the_queue_has_no_place_follow_in_order_and_none_is_slept_over() {
        let (mut ring, mut begun, mut all) = (ring(2), Vec::new(), Vec::new());
        (0..7).for_each(|token| push(&mut ring, token, nothing(), &mut begun));
        assert_eq!((ring.fresh(), begun.len()), (7, 0), "no enter has offered them");
        for begins in [2, 4, 6, 7] {
            ring.wait(None, |token| begun.push(token)).unwrap();
            assert_eq!((begun.len(), ring.fresh()), (begins, 7 - begins));
            all.extend(reaped(&mut ring));
        }
        assert_eq!(begun, Vec::from_iter(0..7));
        assert_eq!(all, Vec::from_iter((0..7).map(|token| (token, 0))));
        ring.wait(None, |_| panic!("nothing is queued")).unwrap();
        assert_eq!(ring.enters, 5, "there was nothing to wait for");
    }

    #[test]
    fn a_refusal_ends_what_the_kernel_has_not_taken_and_what_comes_later_and_no_more() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (mut ring, mut begun) = (ring(2), Vec::new());
        push(&mut ring, 9, poll(&reader), &mut begun);
        ring.hand_over(|token| begun.push(token));
        (0..5).for_each(|token| push(&mut ring, token, nothing(), &mut begun));
        let refused = Err(io::Error::from_raw_os_error(libc::ENXIO));
        assert!(ring.settle(refused, |token| begun.push(token)), "a sleep would be in vain");
        assert!(ring.is_refused() && !ring.has_untaken() && ring.fresh() == 0);
        push(&mut ring, 5, nothing(), &mut begun);
        let expected: Vec<_> = (0..=5).map(|token| (token, -libc::ENXIO)).collect();
        assert_eq!(reaped(&mut ring), expected);
        assert_eq!(begun, [9, 0, 1, 2, 3, 4, 5], "each is known to have begun, once");
        drop(writer);
        while ring.has_ios() {
            ring.wait(None, |_| {}).unwrap();
            assert!(
                reaped(&mut ring).iter().all(|(token, result)| (*token, *result > 0) == (9, true))
            );
        }
        assert!(ring.drain(|_| {}, |_, _| panic!("all has ended")));
    }

    #[test]
    fn what_passes_by_itself_loses_nothing() {
        let (mut ring, mut begun) = (ring(4), Vec::new());
        (0..3).for_each(|token| push(&mut ring, token, nothing(), &mut begun));
        ring.begin(3, |token| begun.push(token));
        for (errno, is_vain) in
            [(libc::EINTR, false), (libc::ETIME, false), (libc::EAGAIN, true), (libc::EBUSY, true)]
        {
            let answer = Err(io::Error::from_raw_os_error(errno));
            assert_eq!(ring.settle(answer, |_| panic!("they have begun")), is_vain);
            assert!(ring.has_untaken());
        }
        ring.wait(None, |_| panic!("they have begun")).unwrap();
        assert_eq!((reaped(&mut ring).len(), ring.has_untaken()), (3, false));
    }

    #[test]
    fn a_device_that_is_silent_for_a_minute_is_told_until_it_completes_something() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut ring = ring(2);
        let mut minute = Patience::default();
        for second in 0..=60 {
            minute.looked_in_vain(second * crate::clock::SECOND);
        }
        push(&mut ring, 1, poll(&reader), &mut Vec::new());
        let millisecond = Some(Duration::from_millis(1));
        ring.wait(millisecond, |_| {}).unwrap();
        ring.patience = minute;
        let silent = ring.wait(millisecond, |_| {}).unwrap_err();
        assert_eq!(silent.raw_os_error(), Some(libc::ETIMEDOUT));
        assert!(!ring.is_refused(), "it may wake up");
        drop(writer);
        assert!(ring.wait(None, |_| {}).is_ok() && reaped(&mut ring).len() == 1);
        ring.wait(millisecond, |_| {}).unwrap();
    }

    #[test]
    fn a_ring_that_ends_cancels_what_is_left_and_gives_a_silent_device_up() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let (mut ring, mut begun, mut ended) = (ring(2), Vec::new(), Vec::new());
        push(&mut ring, 0, nothing(), &mut begun);
        push(&mut ring, 1, poll(&reader), &mut begun);
        push(&mut ring, 2, nothing(), &mut begun);
        let was_drained = ring.drain_for(
            Duration::from_millis(5),
            |token| begun.push(token),
            |token, result| ended.push((token, result)),
        );
        assert!(!was_drained, "nobody writes to the pipe");
        assert_eq!((begun, ended), (vec![0, 1, 2], vec![(0, 0), (2, -libc::ECANCELED)]));
    }

    #[test]
    fn the_poll_of_a_doorbell_is_nobodys_io() {
        let doorbell = Doorbell::new().unwrap();
        let mut ring = ring(2);
        ring.hear(&doorbell);
        ring.hear(&doorbell);
        assert_eq!(ring.fresh(), 1, "it is heard once");
        ring.wait(Some(Duration::from_millis(1)), |_| panic!("no I/O begins")).unwrap();
        assert!(ring.hears_doorbell && !ring.has_ios() && ring.reap().is_none());
        doorbell.sleep(|doorbell| {
            doorbell.ring();
            ring.wait(None, |_| {}).unwrap();
        });
        assert!(ring.reap().is_none() && !ring.hears_doorbell);
        ring.hear(&doorbell);
        assert!(ring.drain(|_| {}, |_, _| panic!("it is no I/O")), "nobody waits for it");
    }
}
