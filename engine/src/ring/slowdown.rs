//! Completions held back until a drawn latency has passed, so that a drive looks slower to everyone
//! who waits for it: an I/O keeps its place and its buffer until then.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::slot::SlotToken;
use crate::clock::Nanos;
use crate::key::mix64;
use crate::model::LatencySpread;

/// Least latencies of a ring's reads and writes, and the completions that they hold back.
pub(super) struct Slowdown {
    latencies: LatencySpread,
    seed: u64,
    drawn: Cell<u64>,
    /// Least latency of the I/O in each slot.
    least: RefCell<Vec<Nanos>>,
    /// By when they are due.
    held: RefCell<BTreeMap<(Nanos, SlotToken), i32>>,
}

impl Slowdown {
    pub(super) fn new(latencies: LatencySpread, seed: u64) -> Slowdown {
        let (least, held) = (RefCell::default(), RefCell::default());
        Slowdown { latencies, seed, drawn: Cell::new(0), least, held }
    }

    /// Draws the latency of an I/O that is pushed; a flush has none.
    pub(super) fn draw(&self, token: SlotToken, is_transfer: bool) {
        let latency = match is_transfer {
            true => {
                let number = self.drawn.replace(self.drawn.get() + 1);
                self.latencies.at(mix64(mix64(self.seed) ^ number))
            }
            false => Nanos::ZERO,
        };
        let least = &mut *self.least.borrow_mut();
        least.resize(least.len().max(token.index() + 1), Nanos::ZERO);
        least[token.index()] = latency;
    }

    /// Holds back the completion of an I/O that was handed over at `submitted`.
    pub(super) fn hold(&self, token: SlotToken, result: i32, submitted: Nanos) {
        let due = submitted + self.least.borrow()[token.index()];
        self.held.borrow_mut().insert((due, token), result);
    }

    /// The next completion that is due at `now`.
    pub(super) fn next_due(&self, now: Nanos) -> Option<(SlotToken, i32)> {
        let mut held = self.held.borrow_mut();
        let first = held.first_entry().filter(|first| first.key().0 <= now)?;
        let ((_, token), result) = first.remove_entry();
        Some((token, result))
    }

    /// Whether it holds anything back.
    pub(super) fn holds_any(&self) -> bool {
        !self.held.borrow().is_empty()
    }

    /// Time from `now` until the next completion is due, or `longest` where that is sooner.
    pub(super) fn at_most(&self, longest: Option<Duration>, now: Nanos) -> Option<Duration> {
        let held = self.held.borrow();
        let Some(((due, _), _)) = held.first_key_value() else { return longest };
        let left = Duration::from_nanos(due.saturating_sub(now).as_ns());
        Some(longest.map_or(left, |longest| longest.min(left)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::os::fd::AsRawFd;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::buffer::{BufferPool, Ticket, Tickets};
    use crate::clock::{Clock, MILLISECOND};
    use crate::ring::{Completion, IoFuture, IoKind, IoRequest, Ring, RingConfig, RingSetup};

    const IOS: u64 = 8;

    fn at(offset_bytes: u64, kind: IoKind) -> IoRequest {
        let length_bytes = if kind == IoKind::Flush { 0 } else { 4096 };
        IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 }
    }

    /// Completion of an I/O that has ended.
    fn completion(mut io: IoFuture<Ticket>) -> Completion {
        match Pin::new(&mut io).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((completion, _)) => completion,
            Poll::Pending => panic!("nothing is in flight"),
        }
    }

    /// Writes and reads of a file through a slowed ring, and at last a flush.
    fn completions(seed: u64, latencies: LatencySpread) -> Vec<Completion> {
        let name = format!("ringfall-slowdown-{}-{seed}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let config = RingConfig { entries: 16, ..RingConfig::default() };
        let ring = Ring::over(RingSetup::new(config).unwrap(), &[file.as_raw_fd()], Clock::Os);
        let ring = ring.slowed_by(latencies, seed);
        let tickets = Tickets::new(BufferPool::new(4096, IOS as u32).unwrap(), IOS as u32);
        let mut completions = Vec::new();
        for kind in [IoKind::Write, IoKind::Read] {
            let push = |io| ring.push(at(io * 4096, kind), tickets.take());
            let ios: Vec<_> = (0..IOS).map(push).collect();
            assert!(tickets.take().is_none(), "each keeps its place in the queue");
            while ring.in_flight() > 0 {
                ring.wait(None);
            }
            completions.extend(ios.into_iter().map(completion));
        }
        let flush = ring.push(at(0, IoKind::Flush), None);
        while ring.in_flight() > 0 {
            ring.wait(None);
        }
        completions.push(completion(flush));
        // What is held back when the ring ends is given back.
        drop(ring.push(at(0, IoKind::Read), tickets.take()));
        drop(ring);
        assert_eq!((0..IOS).filter_map(|_| tickets.take()).count() as u64, IOS);
        std::fs::remove_file(path).unwrap();
        completions
    }

    #[test]
    fn no_read_or_write_completes_before_its_latency_has_passed() {
        let latencies = LatencySpread { median: 5 * MILLISECOND, p99: 20 * MILLISECOND };
        let completions = completions(7, latencies);
        let (transfers, flush) = completions.split_at(2 * IOS as usize);
        for (number, completion) in transfers.iter().enumerate() {
            assert_eq!(completion.result, 4096);
            let took = completion.completed.saturating_sub(completion.submitted);
            let drawn = latencies.at(mix64(mix64(7) ^ number as u64));
            assert!(took >= drawn && drawn >= 4 * MILLISECOND, "{number}: {took:?} {drawn:?}");
        }
        assert_eq!(flush[0].result, 0);
    }
}
