//! Counters of a shard, and when they count: only what finishes inside the measurement window.

use std::cell::RefCell;

use crate::clock::{Clock, Nanos, SECOND};
use crate::drive::DriveId;
use crate::error::IoError;
use crate::fill::VerifyReport;
use crate::key::{TIER_COUNT, Tier};
use crate::metrics::{CoarseLatencies, Gauges, Histogram, Metrics};
use crate::ring::{Completion, IoKind};

use super::interval::IoInterval;
use super::message::OperationTimes;

/// Entries that left a tier together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VictimCounts {
    /// Number of entries that left the tier.
    pub entries: u64,
    /// Sum of the sizes of these entries, bytes.
    pub bytes: u64,
}

/// Time that moving an entry to the tier below took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveTimes {
    /// Wait for the lower tier to have room.
    pub room: Nanos,
    /// Read from the upper tier.
    pub read: Nanos,
    /// Write to the lower tier.
    pub write: Nanos,
}

/// Direction of an operation on a whole entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Entry to caller.
    Read,
    /// Caller to entry.
    Write,
}

/// One tier in one direction over one second.
#[derive(Clone, Debug, Default)]
pub struct SecondDirection {
    /// Storage: bytes whose I/O completed in this second. CPU: bytes of operations that ended.
    pub bytes: u64,
    /// Number of reads or writes of whole entries that ended in this second.
    pub operations: u64,
    /// Their latencies; none where nothing ended, to spare its memory.
    pub latency: Option<Box<Histogram>>,
}

/// One second of a shard.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// Which second of the window, from 0.
    pub index: u64,
    /// By [`Tier::index`]: read, write.
    pub tiers: [[SecondDirection; 2]; TIER_COUNT],
    /// Entries moved to or from the storage device, demotions too, by the time from their first
    /// submit to their last completion: read, write; none where nothing ended.
    pub storage_device: [Option<Box<Histogram>>; 2],
    /// Time that entries waited for the storage device, all together, ns: for their tier to have
    /// room, and for a buffer or a queue place for their first I/O. Divided by the length it is the
    /// mean number of entries that waited.
    pub storage_waits_ns: u64,
    /// Single I/Os: read, write.
    pub io: [CoarseLatencies; 2],
    /// Gauges at its end.
    pub gauges: Gauges,
    /// Number of I/Os that failed in this second.
    pub errors: u64,
}

impl Second {
    /// Adds the latencies of its operations to the window's.
    fn add_to(&self, metrics: &mut Metrics) {
        for (tier, [read, write]) in metrics.tiers.iter_mut().zip(&self.tiers) {
            for (direction, second) in [(&mut tier.read, read), (&mut tier.write, write)] {
                if let Some(latency) = &second.latency {
                    direction.total.merge(latency);
                }
            }
        }
    }
}

#[derive(Debug)]
struct Inner {
    start: Nanos,
    end: Nanos,
    metrics: Box<Metrics>,
    second: Second,
    /// When that second ends.
    second_end: Nanos,
    /// Finished seconds that nobody has collected: at most one a second of the run.
    finished: Vec<Second>,
    /// Failures ever, inside the window or not: an error never goes unseen.
    errors_ever: Vec<IoError>,
    error_count_ever: u64,
    /// I/Os and operations that ended ever, well or not.
    ended_ever: u64,
    /// Entries that wait for the storage device, and until when they are accounted for.
    waiting: u32,
    waits_until: Nanos,
    /// I/Os of the span that somebody looks at, if anybody does.
    interval: Option<Box<IoInterval>>,
    /// I/Os of the window that had their ticket at once: where they would have waited for a place
    /// in the queue, and for a buffer. Most do, and a number is less work than a histogram.
    never_waited: [u64; 2],
}

/// Failures kept whole; more are counted only.
const ERRORS_KEPT: usize = 100;

/// The shard's measuring. Recording is O(1) and allocates only at a second's first event.
#[derive(Debug)]
pub struct Measure {
    inner: RefCell<Inner>,
}

impl Default for Measure {
    fn default() -> Self {
        Measure {
            inner: RefCell::new(Inner {
                start: Nanos::MAX,
                end: Nanos::MAX,
                metrics: Box::default(),
                second: Second::default(),
                second_end: Nanos::MAX,
                finished: Vec::new(),
                errors_ever: Vec::new(),
                error_count_ever: 0,
                ended_ever: 0,
                waiting: 0,
                waits_until: Nanos::ZERO,
                interval: None,
                never_waited: [0; 2],
            }),
        }
    }
}

impl Measure {
    /// Sets the window `start..end`. Nothing before `start` counts.
    pub fn open(&self, start: Nanos, end: Nanos) {
        let inner = &mut *self.inner.borrow_mut();
        inner.start = start;
        inner.end = end;
        *inner.metrics = Metrics::default();
        inner.never_waited = [0; 2];
        inner.second = Second::default();
        inner.second_end = start.saturating_add(SECOND);
        inner.finished.clear();
    }

    /// Moves the window's end to `end`, if that is earlier.
    pub fn close(&self, end: Nanos) {
        let inner = &mut *self.inner.borrow_mut();
        inner.end = inner.end.min(end);
    }

    /// Whether an event at `now` counts.
    pub fn counts(&self, now: Nanos) -> bool {
        let inner = self.inner.borrow();
        inner.start <= now && now < inner.end
    }

    /// Changes the window's counters, if `now` is inside.
    pub fn record(&self, now: Nanos, change: impl FnOnce(&mut Metrics)) {
        let inner = &mut *self.inner.borrow_mut();
        if inner.start <= now && now < inner.end {
            change(&mut inner.metrics);
        }
    }

    /// One I/O ended, having moved `bytes`, of which `entry_bytes` belong to an entry. `drive`:
    /// which of several.
    pub fn io(
        &self,
        kind: IoKind,
        drive: Option<DriveId>,
        bytes: u64,
        entry_bytes: u64,
        completion: Completion,
    ) {
        let now = completion.completed;
        let latency = now.saturating_sub(completion.submitted);
        let inner = &mut *self.inner.borrow_mut();
        if kind != IoKind::Flush
            && let Some(interval) = &mut inner.interval
        {
            interval.bytes += bytes;
            interval.latency.record(latency.as_ns());
        }
        if !inner.ended(now) {
            return;
        }
        let metrics = match kind {
            IoKind::Read => &mut inner.metrics.io_read,
            IoKind::Write => &mut inner.metrics.io_write,
            IoKind::Flush => &mut inner.metrics.io_flush,
        };
        metrics.add(bytes, entry_bytes, latency.as_ns());
        if let Some(drive) = drive {
            let metrics = inner.metrics.drive(drive.index());
            let metrics = match kind {
                IoKind::Read => &mut metrics.read,
                IoKind::Write => &mut metrics.write,
                IoKind::Flush => &mut metrics.flush,
            };
            metrics.add(bytes, entry_bytes, latency.as_ns());
        }
        let direction = match kind {
            IoKind::Read => Direction::Read,
            IoKind::Write => Direction::Write,
            IoKind::Flush => return,
        };
        let second = &mut inner.second;
        second.tiers[Tier::Storage.index()][direction as usize].bytes += bytes;
        second.io[direction as usize].record(latency);
    }

    /// An I/O that ended had waited so long for its ticket: for a buffer, where those are fewer
    /// than the places in the queue, or else for a place.
    #[inline]
    pub(super) fn ticket_wait(&self, wait: Nanos, for_buffer: bool, now: Nanos) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(interval) = &mut inner.interval {
            interval.waits += wait;
        }
        if now < inner.start || now >= inner.end {
            return;
        }
        if wait == Nanos::ZERO {
            inner.never_waited[usize::from(for_buffer)] += 1;
            return;
        }
        let waits = &mut inner.metrics.waits;
        let waits = if for_buffer { &mut waits.buffer } else { &mut waits.queue_place };
        waits.record(wait.as_ns());
    }

    /// The I/Os since this was called last, and whether those to come are kept for the next call.
    /// None when nobody had asked for them.
    #[must_use]
    pub fn take_interval(&self, now: Nanos, goes_on: bool) -> Option<IoInterval> {
        let inner = &mut *self.inner.borrow_mut();
        let next = goes_on.then(|| Box::new(IoInterval::beginning(now)));
        let mut interval = *std::mem::replace(&mut inner.interval, next)?;
        interval.length = now.saturating_sub(interval.began);
        Some(interval)
    }

    /// An entry was moved to or from the storage device, whoever asked for it.
    pub fn transfer(&self, direction: Direction, device: Nanos, now: Nanos) {
        let inner = &mut *self.inner.borrow_mut();
        if inner.start <= now && now < inner.end {
            inner.roll(now);
            let latency = &mut inner.second.storage_device[direction as usize];
            latency.get_or_insert_default().record(device.as_ns());
        }
    }

    /// An entry waits for the storage device until the answer is dropped.
    pub fn wait<'a>(&'a self, clock: &'a Clock) -> Waiting<'a> {
        let inner = &mut *self.inner.borrow_mut();
        inner.account(clock.now());
        inner.waiting += 1;
        Waiting { measure: self, clock }
    }

    /// An operation on an entry of `bytes` ended. The wait for room has a figure of its own, and is
    /// no part of the operation's latency. That is counted in its second, and in the window when
    /// the second is over.
    pub fn operation(&self, tier: Tier, direction: Direction, bytes: u64, times: OperationTimes) {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.ended(times.ended) {
            return;
        }
        let tier_metrics = &mut inner.metrics.tiers[tier.index()];
        let metrics = match direction {
            Direction::Read => &mut tier_metrics.read,
            Direction::Write => &mut tier_metrics.write,
        };
        metrics.entry_bytes += bytes;
        let total = times.total.saturating_sub(times.room);
        metrics.device.record(times.device.as_ns());
        metrics.host.record(total.saturating_sub(times.device).as_ns());
        let second = &mut inner.second.tiers[tier.index()][direction as usize];
        second.operations += 1;
        second.latency.get_or_insert_default().record(total.as_ns());
        if tier != Tier::Storage {
            second.bytes += bytes;
        }
    }

    /// Entries left a tier, for another, which took `times`, or for good.
    pub fn eviction(
        &self,
        (from, to): (Tier, Option<Tier>),
        counts: VictimCounts,
        times: Option<MoveTimes>,
        now: Nanos,
    ) {
        self.record(now, |metrics| {
            let row = match (from, to) {
                (Tier::Gpu, Some(Tier::Storage)) => &mut metrics.evictions_gpu_to_storage,
                _ => &mut metrics.evictions[from.index()],
            };
            row.entries += counts.entries;
            row.bytes += counts.bytes;
            if let Some(times) = times {
                row.room.record(times.room.as_ns());
                row.read.record(times.read.as_ns());
                row.write.record(times.write.as_ns());
            }
        });
    }

    /// Entries were lost with a drive.
    pub fn lost(&self, counts: VictimCounts, now: Nanos) {
        self.record(now, |metrics| {
            metrics.counts.lost_entries += counts.entries;
            metrics.counts.lost_bytes += counts.bytes;
        });
    }

    /// Counts a comparison of content.
    pub(super) fn verified(&self, report: &VerifyReport, now: Nanos) {
        self.record(now, |metrics| {
            metrics.verify.blocks_checked += report.blocks_checked;
            metrics.verify.blocks_bad += report.blocks_bad;
        });
    }

    /// An I/O failed: counted in the window, and kept whatever the time.
    pub fn error(&self, error: &IoError, now: Nanos) {
        {
            let inner = &mut *self.inner.borrow_mut();
            inner.second.errors += 1;
            inner.error_count_ever += 1;
            inner.ended_ever += 1;
            if inner.errors_ever.len() < ERRORS_KEPT {
                inner.errors_ever.push(error.clone());
            }
        }
        self.record(now, |metrics| metrics.record_error(error));
    }

    /// Ends the seconds that are over at `now`, noting how things stand, and hands them out.
    #[must_use]
    pub fn take_seconds(&self, now: Nanos, gauges: Gauges) -> Vec<Second> {
        let inner = &mut *self.inner.borrow_mut();
        inner.account(now);
        for second in &mut inner.finished {
            second.gauges = gauges;
        }
        std::mem::take(&mut inner.finished)
    }

    /// All seconds up to the window's end, the last, shorter one too.
    #[must_use]
    pub fn take_all_seconds(&self, now: Nanos, gauges: Gauges) -> Vec<Second> {
        let mut seconds = self.take_seconds(now, gauges);
        let inner = &mut *self.inner.borrow_mut();
        let whole = inner.start.saturating_add(inner.second.index * SECOND);
        if inner.start <= now && whole < inner.end.min(now) {
            inner.second.gauges = gauges;
            // None comes twice, whoever asks again.
            inner.second_end = inner.second_end.saturating_add(SECOND);
            let last = inner.end_second();
            seconds.push(last);
        }
        seconds
    }

    /// Failures since the shard began.
    pub fn error_count_ever(&self) -> u64 {
        self.inner.borrow().error_count_ever
    }

    /// I/Os and operations that ended since the shard began, well or not: a figure that stands
    /// still while there is work is the mark of a hang.
    pub fn ended_ever(&self) -> u64 {
        self.inner.borrow().ended_ever
    }

    /// The window's counters so far.
    pub fn snapshot(&self) -> Box<Metrics> {
        let inner = self.inner.borrow();
        let mut metrics = inner.metrics.clone();
        inner.second.add_to(&mut metrics);
        let [queue_place, buffer] = inner.never_waited;
        metrics.waits.queue_place.record_n(0, queue_place);
        metrics.waits.buffer.record_n(0, buffer);
        metrics
    }

    /// Errors since the shard began, at most 100 of them.
    pub fn errors_ever(&self) -> Vec<IoError> {
        self.inner.borrow().errors_ever.clone()
    }
}

impl Inner {
    /// Counts something that ended; whether it ended in the window.
    #[inline]
    fn ended(&mut self, now: Nanos) -> bool {
        self.ended_ever += 1;
        let is_inside = self.start <= now && now < self.end;
        if is_inside {
            self.roll(now);
        }
        is_inside
    }

    /// Closes seconds up to the one that `now` is in.
    #[inline]
    fn roll(&mut self, now: Nanos) {
        if now >= self.second_end {
            self.roll_on(now);
        }
    }

    /// Closes at least the second under way, unless the window is over.
    #[cold]
    fn roll_on(&mut self, now: Nanos) {
        let index = (now.min(self.end) - self.start) / SECOND;
        while self.second.index < index {
            self.add_waits(self.start + (self.second.index + 1) * SECOND);
            let ended = self.end_second();
            self.finished.push(ended);
        }
        self.second_end = self.start.saturating_add((self.second.index + 1) * SECOND);
    }

    /// Begins the next second; the one that was under way, which the window's counters have then.
    fn end_second(&mut self) -> Second {
        let next = Second { index: self.second.index + 1, ..Second::default() };
        let ended = std::mem::replace(&mut self.second, next);
        ended.add_to(&mut self.metrics);
        ended
    }

    /// Brings the time waited up to `now`.
    fn account(&mut self, now: Nanos) {
        self.roll(now);
        self.add_waits(now);
    }

    /// Adds the time that entries waited until then to the second under way.
    fn add_waits(&mut self, until: Nanos) {
        let from = self.waits_until.max(self.start);
        let waited = until.min(self.end).saturating_sub(from);
        self.second.storage_waits_ns += u64::from(self.waiting) * waited.as_ns();
        self.waits_until = self.waits_until.max(until);
    }
}

/// An entry that waits for the storage device.
#[derive(Debug)]
pub struct Waiting<'a> {
    measure: &'a Measure,
    clock: &'a Clock,
}

impl Waiting<'_> {
    /// Ends it; when that was.
    pub(super) fn end(self) -> Nanos {
        let now = self.account();
        std::mem::forget(self);
        now
    }

    fn account(&self) -> Nanos {
        let inner = &mut *self.measure.inner.borrow_mut();
        let now = self.clock.now();
        inner.account(now);
        inner.waiting -= 1;
        now
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.account();
    }
}

#[cfg(test)]
#[path = "measure_test.rs"]
mod tests;
