//! Messages between the run's thread and the shards' threads of a real run.

use std::sync::Arc;

use flume::Sender;
use ringfall_core::clock::Nanos;
use ringfall_core::error::{IoError, SetupError};
use ringfall_core::facts::ShardFacts;
use ringfall_core::key::{ShardId, TIER_COUNT};
use ringfall_core::metrics::Metrics;
use ringfall_core::placement::{SpaceFigures, TierCounts};
use ringfall_engine::shard::{IoInterval, Links, Message, Second};
use ringfall_workloads::WorkloadStats;
use ringfall_workloads::autoscale::Mode;

use super::{RequestCounts, RequestNews, Totals};

/// Commands of the run to the driver of a shard.
#[derive(Clone, Copy, Debug)]
pub enum ShardCommand {
    /// Write what must be there before measuring; answer [`Notice::Populated`].
    Populate,
    /// Begin at `origin`, and count what ends in `window` (`CLOCK_MONOTONIC`).
    Start {
        /// The workload's time 0.
        origin: Nanos,
        /// Start and end of the measurement.
        window: (Nanos, Nanos),
    },
    /// No new requests; what is in flight ends; answer [`Notice::Drained`].
    Stop {
        /// The window ends here, if not before.
        window_end: Nanos,
    },
    /// Have so many users, all shards together.
    SetUsers(u32),
    /// Do what the search for a queue depth wants; answer [`Notice::Interval`] when one ends.
    Tune(TunerOrder),
    /// Answer [`Notice::Drained`] now, whatever is in flight: nobody waits for it any more.
    Report,
    /// Answer [`Notice::Kept`] with this number now, and go on.
    Keep(u32),
    /// End the thread.
    Exit,
}

/// Orders of the search for a queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunerOrder {
    /// Keep at most so many I/Os in flight on each drive, and forget the interval under way, if
    /// there is one.
    Depth(u32),
    /// An interval of I/Os begins.
    Begin,
    /// It ends.
    End,
}

/// Messages in a shard's inbox. Other shards send at most one for each operation they have in
/// flight, so the number of requests being served bounds it.
#[derive(Debug)]
pub enum Inbound {
    /// From the run.
    Command(ShardCommand),
    /// From another shard.
    Message(Message),
}

/// A shard at a glance, for progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardStatus {
    /// Number of requests that wait on this shard to be served.
    pub queued: u64,
    /// Requests being served here.
    pub serving: u32,
    /// Number of I/Os of this shard that are submitted and not yet completed.
    pub in_flight: u32,
    /// When the oldest of them was submitted, where that is known.
    pub oldest_io: Option<Nanos>,
    /// Operations of the engine under way for requests, those that wait for room included.
    pub operations: u32,
    /// Whether nothing is left to do, now or later.
    pub exhausted: bool,
    /// Requests that ended in the window.
    pub requests: RequestCounts,
    /// I/O errors so far, but for those of drives that have been given up.
    pub errors: u64,
    /// I/Os and operations that ended so far, well or not.
    pub ended: u64,
    /// Entries of the population that have been written or given up.
    pub populated: u64,
    /// Entries of the population; 0 before it is begun.
    pub population: u64,
    /// Entries that each tier holds, by [`Tier::index`](ringfall_core::key::Tier::index).
    pub held: [TierCounts; TIER_COUNT],
}

impl ShardStatus {
    /// Adds another shard's; what is true of both stays true.
    #[must_use]
    pub fn and(self, other: &ShardStatus) -> ShardStatus {
        let (mut requests, mut held) = (self.requests, self.held);
        requests += other.requests;
        for (sum, one) in held.iter_mut().zip(other.held) {
            sum.add(one);
        }
        ShardStatus {
            queued: self.queued + other.queued,
            serving: self.serving + other.serving,
            in_flight: self.in_flight + other.in_flight,
            oldest_io: [self.oldest_io, other.oldest_io].into_iter().flatten().min(),
            operations: self.operations + other.operations,
            exhausted: self.exhausted && other.exhausted,
            requests,
            errors: self.errors + other.errors,
            ended: self.ended + other.ended,
            populated: self.populated + other.populated,
            population: self.population + other.population,
            held,
        }
    }
}

/// All that a shard measured.
#[derive(Debug)]
pub struct ShardOutcome {
    /// The engine's counters over the window.
    pub metrics: Box<Metrics>,
    /// Totals of this shard's requests over the window.
    pub totals: Box<Totals>,
    /// Counters of the shard's workload over the window.
    pub workload: WorkloadStats,
    /// Seconds not sent before.
    pub seconds: Vec<Second>,
    /// Failures since the start, the first hundred.
    pub errors: Vec<IoError>,
    /// Contents of each tier at the end.
    pub tiers: [TierCounts; TIER_COUNT],
    /// The storage space at the end.
    pub space: SpaceFigures,
}

/// Messages of a shard's driver to the run.
#[derive(Debug)]
pub enum Notice {
    /// Open, or why not.
    Ready(ShardId, Result<ShardFacts, SetupError>),
    /// The population is written; entries that failed.
    Populated(ShardId, u64),
    /// Progress, once a second; news of the requests when there is an autoscaler.
    Tick(ShardId, Box<ShardStatus>, Vec<Second>, Box<RequestNews>),
    /// The I/Os of the interval that was asked for.
    Interval(ShardId, Box<IoInterval>),
    /// Partial results from when they were requested with this number; its seconds are not sent
    /// again.
    Kept(ShardId, u32, Box<ShardOutcome>),
    /// Stopped, nothing in flight.
    Drained(ShardId, Box<ShardOutcome>),
}

/// Description of a shard's thread.
pub struct ShardPlan {
    /// Description from which the engine opens the shard.
    pub spec: ringfall_engine::shard::ShardSpec,
    /// Users, or part of a trace, whose requests this shard serves.
    pub workload: ringfall_workloads::Workload,
    /// Whether `--max-concurrent-allocs` bounds anything.
    pub max_concurrent_allocs: bool,
    /// Rows of a trace, if requests come from one.
    pub rows: Option<flume::Receiver<ringfall_workloads::source::SourceRequest>>,
    /// Mode of the autoscaler, if one listens.
    pub autoscaled: Option<Mode>,
    /// Core to sit on, if pinned.
    pub cpu: Option<usize>,
}

/// Messages to other shards, by their inboxes.
pub struct MeshLinks(pub Arc<Vec<Sender<Inbound>>>);

impl Links for MeshLinks {
    fn send(&self, to: ShardId, message: Message) -> bool {
        self.0[to.index()].send(Inbound::Message(message)).is_ok()
    }
}
