//! Totals of a shard's requests inside the measurement window, and by second of it.

use std::cell::RefCell;

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::metrics::Histogram;
use ringfall_model::facts::{CacheStats, Looks, RequestStats};
use ringfall_model::summed;
use ringfall_workloads::autoscale::TimeShares;
use ringfall_workloads::contract::{Nanos as SinceStart, RequestRecord};

use super::Driver;

/// Totals of a shard's requests inside the measurement window.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Times and tokens of the requests that finished in the window, and how many did not.
    pub requests: RequestStats,
    /// Cache hits and misses of the requests.
    pub cache: CacheStats,
    /// Waiting for an allocation permit.
    pub allocation_wait: Histogram,
    /// By second of the window.
    pub seconds: Vec<RequestSecond>,
}

summed! {
/// One second of a shard's requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestSecond {
    /// Number of requests that finished in this second.
    pub completed: u64,
    /// Number of tokens generated for the requests that finished in this second.
    pub tokens: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
}
}

summed! {
/// Counts of the requests that ended in the window so far, of a shard or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that finished without a failed step.
    pub completed: u64,
    /// Requests with a step whose I/O failed.
    pub failed: u64,
    /// Requests whose entry was larger than the whole last tier.
    pub refused: u64,
    /// Number of tokens generated for the completed requests.
    pub generated_tokens: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Looks for an entry that another request left, by whether they found it.
    pub reuse: Looks,
    /// Time that the completed requests waited to be served, all together, ns.
    pub queued_ns: u128,
    /// Time that they waited for room in tiers that were full, ns.
    pub room_ns: u128,
    /// Time that they waited for permits to allocate, ns.
    pub permit_ns: u128,
    /// Time that they spent on storage I/O, ns.
    pub storage_io_ns: u128,
    /// Requests that loaded what was there before them.
    pub loads: u64,
    /// Time that their loads took, all together, ns.
    pub load_ns: u128,
}
}

impl RequestCounts {
    /// Counts of those requests and of their reads.
    pub fn of(requests: &RequestStats, cache: &CacheStats) -> RequestCounts {
        RequestCounts {
            completed: requests.completed(),
            failed: requests.failed,
            refused: requests.refused,
            generated_tokens: requests.generated_tokens,
            hits: cache.hits,
            misses: cache.misses,
            reuse: cache.reuse,
            queued_ns: requests.queued.sum_ns(),
            room_ns: requests.room.sum_ns(),
            permit_ns: requests.permit.sum_ns(),
            storage_io_ns: requests.storage_io.sum_ns(),
            loads: requests.load.count(),
            load_ns: requests.load.sum_ns(),
        }
    }
}

/// One second of a shard's requests, as the autoscaler wants it.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Which second of the window, from 0.
    pub index: u64,
    /// Intended arrival to end, by class.
    pub classes: [Histogram; 3],
    /// Number of tokens generated for the requests that finished in the interval.
    pub tokens: u64,
    /// Where the time went.
    pub time: TimeShares,
    /// Time in which each request loaded what was there before it.
    pub load: Histogram,
    /// Time that each request spent on storage I/O.
    pub storage_io: Histogram,
    /// Reads of earlier turns that found them.
    pub turns_found: u64,
    /// Reads of earlier turns that did not find them.
    pub turns_missed: u64,
}

/// News of a shard's requests for the autoscaler.
#[derive(Clone, Debug, Default)]
pub struct RequestNews {
    /// Seconds in which requests ended that it has not been told of.
    pub intervals: Vec<Interval>,
    /// Ages of the requests that have not ended, by class; empty unless it judges by them.
    pub open: [Histogram; 3],
}

impl Totals {
    pub(super) fn second(&mut self, index: usize) -> &mut RequestSecond {
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, RequestSecond::default());
        }
        &mut self.seconds[index]
    }
}

impl RequestSecond {
    /// Adds the seconds of a shard to those of others.
    pub fn add(sums: &mut Vec<RequestSecond>, seconds: &[RequestSecond]) {
        sums.resize(sums.len().max(seconds.len()), RequestSecond::default());
        for (sum, second) in sums.iter_mut().zip(seconds) {
            *sum += *second;
        }
    }
}

/// Reports come this long after a second is over, so that it surely is.
const TICK_LAG: Nanos = Nanos::from_ms(2);

impl Driver {
    /// Counts of the requests that ended in the window so far.
    pub fn request_counts(&self) -> RequestCounts {
        let totals = self.totals.borrow();
        RequestCounts::of(&totals.requests, &totals.cache)
    }

    /// Totals of the finished requests.
    pub fn totals(&self) -> Box<Totals> {
        self.totals.borrow().clone()
    }

    /// A request that ended after the window and before [`Driver::stop`] was unfinished at its end.
    pub(super) fn note_late(&self, record: &RequestRecord) {
        if let Some(end) = self.window_end()
            && !self.stopped.get()
            && record.arrived < end
            && record.finished >= end
        {
            let mut totals = self.totals.borrow_mut();
            totals.requests.record_unfinished(record.class, (end - record.arrived).as_ns());
        }
    }

    /// The window is over: what arrived in it and has not ended counts with its age at its end.
    pub(super) fn note_unfinished(&self) {
        let Some(end) = self.window_end() else { return };
        let ages = self.ages_of_unfinished(end);
        let unfinished = &mut self.totals.borrow_mut().requests.unfinished;
        unfinished.iter_mut().zip(&ages).for_each(|(all, ages)| all.merge(ages));
    }

    /// Ages, at `end`, of the requests that arrived before it and have not ended, by class.
    fn ages_of_unfinished(&self, end: SinceStart) -> [Histogram; 3] {
        let mut ages: [Histogram; 3] = Default::default();
        let mut workload = self.workload.borrow_mut();
        workload.unfinished(self.workload_now(), end, &mut |class, arrivals, times| {
            let ages = &mut ages[class as usize];
            ages.record_all(arrivals.iter().map(|arrived| (end - *arrived).as_ns()), times);
        });
        ages
    }

    /// The window's end on the workload's clock; none when it is not known, or nothing began.
    fn window_end(&self) -> Option<SinceStart> {
        let (origin, (start, end)) = (self.origin.get(), self.window.get());
        (origin != Nanos::MAX && end != Nanos::MAX && start < end).then(|| self.since_start(end))
    }

    /// Changes that second of what the autoscaler is told, if there is one.
    pub(super) fn in_interval(&self, index: usize, change: impl FnOnce(&mut Interval)) {
        let Some(intervals) = &self.intervals else { return };
        let (mut intervals, index) = (intervals.borrow_mut(), index as u64);
        if intervals.last().is_none_or(|last| last.index != index) {
            intervals.push(Interval { index, ..Interval::default() });
        }
        if let Some(interval) = intervals.last_mut() {
            change(interval);
        }
    }
}

impl Interval {
    /// Adds a request that ended in it.
    pub(super) fn add(&mut self, record: &RequestRecord) {
        let total_ns = record.finished.saturating_sub(record.arrived).as_ns();
        let queue_ns = record.started.saturating_sub(record.arrived).as_ns();
        self.classes[record.class as usize].record(total_ns);
        self.storage_io.record(record.storage_io_ns);
        if let Some(load_ns) = record.load_ns {
            self.load.record(load_ns);
        }
        self.tokens += u64::from(record.generated_tokens);
        let not_storage_ns = record.generation_ns + record.recompute_ns;
        self.time.add(&TimeShares {
            queue_ns,
            storage_ns: total_ns.saturating_sub(queue_ns + not_storage_ns),
            generation_ns: record.generation_ns,
            total_ns,
        });
    }
}

impl Driver {
    /// Hands out what the autoscaler has not seen yet. O(users + requests) where it judges by open
    /// requests.
    pub fn take_news(&self) -> RequestNews {
        let intervals = self.intervals.as_ref().map(RefCell::take).unwrap_or_default();
        let open = match self.tells_open {
            true => self.ages_of_unfinished(self.workload_now()),
            false => Default::default(),
        };
        RequestNews { intervals, open }
    }

    /// When to report next, on the engine's clock: just after a second of the window is over.
    pub(super) fn next_tick(&self) -> Nanos {
        let now = self.clock.now();
        match self.window.get() {
            (start, _) if start <= now => start + ((now - start) / SECOND + 1) * SECOND + TICK_LAG,
            (start, _) => start.saturating_add(SECOND + TICK_LAG).min(now + SECOND),
        }
    }

    /// Changes the totals, if `at` (the workload's clock) is inside the window.
    pub(super) fn record(&self, at: SinceStart, change: impl FnOnce(&mut Totals, usize)) {
        let (start, end) = self.window.get();
        let at = self.moment(at);
        if start <= at && at < end {
            change(&mut self.totals.borrow_mut(), ((at - start) / SECOND) as usize);
        }
    }
}
