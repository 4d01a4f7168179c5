//! Figures of a run so far, as plain sums: a copy is all that the threads which publish them need.

use std::sync::{Mutex, PoisonError};

use ringfall_core::clock::Nanos;
use ringfall_core::key::{TIER_COUNT, Tier};
use ringfall_core::metrics::Histogram;
use ringfall_engine::shard::{Direction, Second};
use ringfall_model::facts::RunFigures;
use ringfall_running::driver::{RequestCounts, ShardStatus};
use ringfall_running::run::{Phase, Progress};

/// Upper bounds of the buckets of latencies, ns: from those of memory to those of a drive that
/// hangs, three in each power of ten.
pub const BOUNDS_NS: [u64; 22] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
    100_000_000_000,
];

/// Latencies by [`BOUNDS_NS`], to the resolution of the histograms that they come from (0.1 %, or
/// 512 ns).
#[derive(Clone, Copy, Debug, Default)]
pub struct LatencyBuckets {
    /// Events of each bucket alone.
    counts: [u64; BOUNDS_NS.len()],
    /// All events, those above the last bound too.
    pub total: u64,
    /// Sum of the latencies, ns.
    pub sum_ns: u128,
}

impl LatencyBuckets {
    fn add(&mut self, latencies: &Histogram) {
        for (top_ns, count) in latencies.buckets() {
            self.total += count;
            let bucket = BOUNDS_NS.partition_point(|&bound_ns| bound_ns < top_ns);
            if let Some(sum) = self.counts.get_mut(bucket) {
                *sum += count;
            }
        }
        self.sum_ns += latencies.sum_ns();
    }

    /// Number of events of at most each of [`BOUNDS_NS`].
    pub fn at_most(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }
}

/// Reads or writes of entries in one tier.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierSums {
    /// Storage: bytes whose I/O completed. Above: bytes of the entries whose operation finished.
    pub bytes: u64,
    /// Number of entries read or written.
    pub operations: u64,
    /// Latencies of these operations.
    pub latency: LatencyBuckets,
}

/// Figures of a run so far. Sums are of its measurement window, and never fall.
#[derive(Clone, Debug)]
pub struct RunLook {
    /// Phase that the run is in.
    pub phase: Phase,
    /// Time since the phase began.
    pub elapsed: Nanos,
    /// Time until the phase ends; `MAX` where nobody knows.
    pub left: Nanos,
    /// State of the shards at their last reports, but for their requests.
    pub status: ShardStatus,
    /// Requests that ended in the measurement window.
    pub requests: RequestCounts,
    /// Users there are now; none when requests come from a trace, or before they begin.
    pub users: Option<u32>,
    /// Capacity of each tier, bytes.
    pub capacity_bytes: [u64; TIER_COUNT],
    /// Whether each tier is smaller than it was to be.
    pub is_short: [bool; TIER_COUNT],
    /// Number of drives that have failed.
    pub drives_lost: u64,
    /// Number of I/Os that failed.
    pub errors: u64,
    /// Time that entries waited for the storage device, all together, ns.
    pub storage_waits_ns: u64,
    tiers: [[TierSums; 2]; TIER_COUNT],
    device: [LatencyBuckets; 2],
    ios: [u64; 2],
}

impl RunLook {
    /// A run that has not begun.
    pub fn unbegun() -> RunLook {
        RunLook {
            phase: Phase::Open,
            elapsed: Nanos::ZERO,
            left: Nanos::MAX,
            status: ShardStatus::default(),
            requests: RequestCounts::default(),
            users: None,
            capacity_bytes: [0; TIER_COUNT],
            is_short: [false; TIER_COUNT],
            drives_lost: 0,
            errors: 0,
            storage_waits_ns: 0,
            tiers: Default::default(),
            device: Default::default(),
            ios: [0; 2],
        }
    }

    /// Adds seconds of a shard.
    pub fn add(&mut self, seconds: &[Second]) {
        for second in seconds {
            self.errors += second.errors;
            self.storage_waits_ns = self.storage_waits_ns.saturating_add(second.storage_waits_ns);
            for (sums, tier) in self.tiers.iter_mut().flatten().zip(second.tiers.iter().flatten()) {
                sums.bytes += tier.bytes;
                sums.operations += tier.operations;
                tier.latency.iter().for_each(|latency| sums.latency.add(latency));
            }
            for (sums, device) in self.device.iter_mut().zip(&second.storage_device) {
                device.iter().for_each(|latency| sums.add(latency));
            }
            for (sum, ios) in self.ios.iter_mut().zip(&second.io) {
                *sum += ios.counts().iter().map(|&count| u64::from(count)).sum::<u64>();
            }
        }
    }

    /// Takes the state of the shards and of the tiers.
    pub fn see(&mut self, progress: &Progress<'_>) {
        let budgets = progress.budgets;
        self.phase = progress.phase;
        self.elapsed = progress.elapsed;
        self.left = progress.left;
        self.status = progress.status;
        self.requests = progress.status.requests;
        self.users = progress.users;
        self.capacity_bytes = Tier::ALL.map(|tier| budgets.capacity_bytes(tier));
        let short = budgets.shortages();
        let is_short = |tier| short.iter().any(|short| short.tier == tier && short.until.is_none());
        self.is_short = Tier::ALL.map(is_short);
        self.drives_lost = budgets.losses();
    }

    /// Takes the figures of a run that is over, in which nothing is under way any more.
    pub fn end(&mut self, figures: &RunFigures) {
        self.phase = Phase::Report;
        (self.elapsed, self.left) = (Nanos::ZERO, Nanos::MAX);
        self.requests = RequestCounts::of(&figures.requests, &figures.cache);
        let ShardStatus { queued, serving, in_flight, operations, .. } = &mut self.status;
        (*queued, *serving, *in_flight, *operations) = (0, 0, 0, 0);
    }

    /// Reads or writes of entries in a tier.
    pub fn tier(&self, tier: Tier, direction: Direction) -> &TierSums {
        &self.tiers[tier.index()][direction as usize]
    }

    /// Entries moved to or from the storage device, by the time that the device took.
    pub fn device(&self, direction: Direction) -> &LatencyBuckets {
        &self.device[direction as usize]
    }

    /// Number of single I/Os on the storage device.
    pub fn ios(&self, direction: Direction) -> u64 {
        self.ios[direction as usize]
    }
}

/// The newest look of a run. The run's thread and those that publish hold its lock for a copy.
pub struct LastLook(Mutex<RunLook>);

impl LastLook {
    /// Holds a first look.
    pub fn new(look: &RunLook) -> LastLook {
        LastLook(Mutex::new(look.clone()))
    }

    /// Takes the place of the look before.
    pub fn set(&self, look: &RunLook) {
        // Whoever panicked did so outside of a copy: the look is whole.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = look.clone();
    }

    /// Copies the newest look.
    pub fn get(&self) -> RunLook {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
