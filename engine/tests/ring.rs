//! The ring itself, on a real file: full queues, dropped futures, short reads, errnos.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(unsafe_code, reason = "registering the pool's memory")]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ringfall_engine::buffer::{AlignedBytes, Buffer, BufferPool, Lender, Ticket, Tickets};
use ringfall_engine::clock::{Clock, monotonic_now};
use ringfall_engine::ring::{
    Completion, Doorbell, IoFuture, IoKind, IoRequest, Parker, Ring, RingConfig, RingSetup,
};

struct Bed {
    ring: Option<Ring<Buffer>>,
    pool: BufferPool,
    file: File,
    path: PathBuf,
}

const BLOCKS: u64 = 64;

impl Bed {
    fn new(name: &str, entries: u32, buffers: u32) -> Bed {
        let unique = format!("ring-{}-{name}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        let file = options.open(&path).unwrap();
        file.set_len(BLOCKS * 4096).unwrap();
        let pool = BufferPool::new(4096, buffers).unwrap();
        let mut setup = RingSetup::new(RingConfig { entries, ..RingConfig::default() }).unwrap();
        let (start, bytes) = pool.region();
        // SAFETY: the pool is a field declared after the ring, hence dropped after it.
        unsafe { setup.register_buffers(start, bytes, 4096).unwrap() };
        setup.register_files(&[file.as_raw_fd()]).unwrap();
        let ring = Ring::over(setup, &[file.as_raw_fd()], Clock::Os);
        Bed { ring: Some(ring), pool, file, path }
    }

    fn ring(&self) -> &Ring<Buffer> {
        self.ring.as_ref().unwrap()
    }

    fn push(&self, kind: IoKind, block: u64, fill: u8) -> IoFuture<Buffer> {
        let mut buffer = self.pool.take().unwrap();
        buffer.bytes_mut().fill(fill);
        let offset_bytes = block * 4096;
        let request = IoRequest { kind, offset_bytes, length_bytes: 4096, buffer_offset: 0 };
        self.ring().push(request, Some(buffer))
    }

    fn finish(&self, mut future: IoFuture<Buffer>) -> (Completion, Buffer) {
        loop {
            match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready((completion, owned)) => return (completion, owned.unwrap()),
                Poll::Pending => self.ring().wait(None),
            }
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop(self.ring.take());
        let _cleanup = std::fs::remove_file(&self.path);
    }
}

#[test]
fn more_ios_than_both_queues_hold_all_complete() {
    // 4 entries to submit, 8 to complete; 64 I/Os pushed before anything is reaped.
    let bed = Bed::new("full", 4, 64);
    let writes: Vec<_> =
        (0..BLOCKS).map(|block| bed.push(IoKind::Write, block, block as u8 + 1)).collect();
    for write in writes {
        assert_eq!(bed.finish(write).0.result, 4096);
    }
    let reads: Vec<_> = (0..BLOCKS).map(|block| bed.push(IoKind::Read, block, 0)).collect();
    for (block, read) in reads.into_iter().enumerate() {
        let (completion, owned) = bed.finish(read);
        assert_eq!(completion.result, 4096);
        assert!(completion.completed >= completion.submitted);
        assert!(owned.bytes().iter().all(|&byte| byte == block as u8 + 1), "block {block}");
    }
    assert_eq!(bed.ring().in_flight(), 0);
}

/// Entering the kernel for each batch of tasks cost more than it brought where few I/Os are in
/// flight.
#[test]
fn what_is_queued_goes_out_with_the_sleep_or_after_a_second_pass() {
    let bed = Bed::new("passes", 64, 64);
    let ring = bed.ring();
    let mut reads: Vec<_> = (0..3).map(|block| bed.push(IoKind::Read, block, 0)).collect();
    ring.poll();
    assert_eq!(ring.enters(), 0, "it waits for what the tasks that run next ask for");
    reads.push(bed.push(IoKind::Read, 3, 0));
    ring.poll();
    assert_eq!(ring.enters(), 1, "tasks still run: all of it is handed over");
    while let Some(read) = reads.pop() {
        assert_eq!(bed.finish(read).0.result, 4096);
    }
    let before = ring.enters();
    let read = bed.push(IoKind::Read, 4, 0);
    ring.poll();
    ring.wait(None);
    assert_eq!(ring.enters(), before + 1, "handed over and awaited in one call");
    assert_eq!(bed.finish(read).0.result, 4096);
}

/// A bell that rang while the thread was awake, one that rings while it sleeps, and a time.
#[test]
fn a_ring_sleeps_until_an_io_completes_the_doorbell_rings_or_the_time_is_over() {
    let bed = Bed::new("park", 8, 8);
    let (ring, doorbell) = (bed.ring(), Doorbell::new().unwrap());
    let park = |longest| {
        let mut slept = None;
        doorbell.sleep(|doorbell| {
            let now = monotonic_now();
            slept = Some((now, ring.park(doorbell, now, longest)));
        });
        slept
    };
    let read = bed.push(IoKind::Read, 0, 0);
    let mut sleeps = Vec::new();
    while ring.in_flight() > 0 {
        sleeps.extend(park(None));
    }
    let Completion { result, submitted, completed } = bed.finish(read).0;
    assert_eq!(result, 4096);
    assert_eq!((submitted, completed), (sleeps[0].0, sleeps[sleeps.len() - 1].1), "looked at once");
    let ringer = std::sync::Arc::clone(&doorbell);
    let ringer = std::thread::spawn(move || (0..1_000).for_each(|_| ringer.ring()));
    while !doorbell.take() {
        park(None);
    }
    ringer.join().unwrap();
    let (before, longest) = (monotonic_now(), std::time::Duration::from_millis(5));
    while (monotonic_now() - before).as_duration() < longest {
        park(Some(longest));
        // What the other thread rang last may have come only now.
        let _rang = doorbell.take();
    }
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_dropped_future_keeps_its_buffer_from_the_pool_until_the_kernel_is_done() {
    let bed = Bed::new("dropped", 8, 8);
    let futures: Vec<_> = (0..8).map(|block| bed.push(IoKind::Write, block, 7)).collect();
    drop(futures);
    assert_eq!(bed.pool.free_count(), 0, "nothing was reaped: the kernel may read every buffer");
    while bed.ring().in_flight() > 0 {
        bed.ring().wait(None);
    }
    assert_eq!(bed.pool.free_count(), 8);
}

#[test]
fn a_ring_dropped_with_work_in_flight_waits_for_it() {
    let mut bed = Bed::new("shutdown", 8, 8);
    let futures: Vec<_> = (0..8).map(|block| bed.push(IoKind::Write, block, 9)).collect();
    drop(bed.ring.take());
    drop(futures);
    assert_eq!(bed.pool.free_count(), 8);
    assert!(std::fs::read(&bed.path).unwrap()[..8 * 4096].iter().all(|&byte| byte == 9));
}

#[test]
fn the_end_of_the_file_and_errnos_come_back_as_they_are() {
    let bed = Bed::new("errno", 8, 8);
    let past_the_end = bed.push(IoKind::Read, BLOCKS + 3, 0);
    assert_eq!(bed.finish(past_the_end).0.result, 0);
    let mut buffer = bed.pool.take().unwrap();
    buffer.bytes_mut().fill(0);
    // Beyond what a file offset can be.
    let offset_bytes = 1 << 63;
    let nowhere =
        IoRequest { kind: IoKind::Read, offset_bytes, length_bytes: 4096, buffer_offset: 0 };
    let future = bed.ring().push(nowhere, Some(buffer));
    assert_eq!(bed.finish(future).0.result, -libc::EINVAL);
}

/// Memory of somebody else's, that begins with as many bytes as a buffer has.
struct Library(AlignedBytes);

impl Lender for Library {
    fn show(&self, offset: usize, length: usize, look: &mut dyn FnMut(&[u8])) {
        let bytes = &self.0.bytes()[offset..];
        look(&bytes[..length.min(bytes.len())]);
    }
}

#[test]
fn a_write_takes_its_bytes_from_where_they_were_lent_and_keeps_them_until_it_ends() {
    let bed = Bed::new("lent", 8, 1);
    let setup = RingSetup::new(RingConfig { entries: 8, ..RingConfig::default() }).unwrap();
    let ring: Ring<Ticket> = Ring::over(setup, &[bed.file.as_raw_fd()], Clock::Os);
    let tickets = Tickets::new(BufferPool::new(8192, 1).unwrap(), 1);
    let cx = &mut Context::from_waker(Waker::noop());
    let Poll::Ready(mut ticket) = Pin::new(&mut tickets.acquire()).poll(cx) else {
        panic!("a place is free")
    };
    ticket.buffer_mut().bytes_mut().fill(1);
    let mut library = AlignedBytes::zeroed(3 * 4096);
    (0..3).for_each(|block| library.bytes_mut()[block * 4096..][..4096].fill(block as u8 + 5));
    let library = Rc::new(Library(library));
    assert!(!ticket.lend(Rc::clone(&library) as Rc<dyn Lender>, 512, 4096), "not from a page on");
    assert!(!ticket.lend(Rc::clone(&library) as Rc<dyn Lender>, 8192, 8192), "not side by side");
    assert!(ticket.lend(Rc::clone(&library) as Rc<dyn Lender>, 4096, 8192));
    // The second half of what was lent, as a write that was cut short goes on.
    let request =
        IoRequest { kind: IoKind::Write, offset_bytes: 0, length_bytes: 4096, buffer_offset: 4096 };
    let future = ring.push(request, Some(ticket));
    drop(future);
    assert_eq!(Rc::strong_count(&library), 2, "the kernel may still read it");
    while ring.in_flight() > 0 {
        ring.wait(None);
    }
    assert_eq!(Rc::strong_count(&library), 1);
    assert!(std::fs::read(&bed.path).unwrap()[..4096].iter().all(|&byte| byte == 7));
}

#[test]
fn a_flush_needs_no_buffer() {
    let bed = Bed::new("flush", 8, 1);
    let request =
        IoRequest { kind: IoKind::Flush, offset_bytes: 0, length_bytes: 0, buffer_offset: 0 };
    let mut future = bed.ring().push(request, None);
    bed.ring().wait(None);
    let cx = &mut Context::from_waker(Waker::noop());
    let Poll::Ready((completion, None)) = Pin::new(&mut future).poll(cx) else { panic!() };
    assert_eq!(completion.result, 0);
}
