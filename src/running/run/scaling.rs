//! The autoscaler's ears and hands: the shards' seconds added up for it, its decisions carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_workloads::autoscale::{Autoscaler, Conclusion, Decision, Latencies, Sample};
use serde::{Deserialize, Serialize};

use super::over_ranks::OverRanks;
use super::timeline::Timeline;
use super::{RunSettings, Start};
use crate::driver::{RequestNews, ShardStatus};

/// Latencies as the engine keeps them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencySet(#[serde(with = "crate::group::sent")] pub Histogram);

impl Latencies for LatencySet {
    fn add(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn count(&self) -> u64 {
        self.0.count()
    }

    fn quantile_ns(&self, q: f64) -> Option<u64> {
        self.0.quantile_ns(q)
    }

    fn count_at_most(&self, limit_ns: u64) -> u64 {
        self.0.count_at_most(limit_ns)
    }
}

pub(super) struct Scaling {
    pub(super) seconds: Seconds,
    decider: Decider,
    /// Users of this process in each second observed.
    users: Vec<u32>,
}

enum Decider {
    /// This process, for itself.
    Alone(Box<Judge>),
    /// Rank 0, for all ranks.
    Group(Box<OverRanks>),
}

/// An autoscaler, and what ends it early.
pub(super) struct Judge {
    pub(super) autoscaler: Autoscaler<LatencySet>,
    /// Requests that may still end before the run does.
    requests_left: u64,
}

impl Judge {
    /// That may see so many requests end.
    pub(super) fn new(autoscaler: Autoscaler<LatencySet>, requests_max: Option<u64>) -> Judge {
        Judge { autoscaler, requests_left: requests_max.unwrap_or(u64::MAX) }
    }

    /// Counts a second's requests, and observes it unless it is one that does not count.
    pub(super) fn observe(&mut self, sample: &Sample<LatencySet>, counts: bool) -> Decision {
        let decision = match counts {
            true => self.autoscaler.observe(sample),
            false => Decision::Hold,
        };
        let ended: u64 = sample.classes.iter().map(Latencies::count).sum();
        self.requests_left = self.requests_left.saturating_sub(ended);
        if self.requests_left == 0 { Decision::Stop } else { decision }
    }
}

impl Scaling {
    /// Creates the scaling that the settings ask for; none when the number of users is fixed.
    pub(super) fn of(settings: &RunSettings) -> Option<Scaling> {
        let bounds = settings.autoscale?;
        let requests_max = settings.autoscale_requests_max;
        let decider = match &settings.start {
            Start::Together(group) => {
                let group = Arc::clone(group);
                Decider::Group(Box::new(OverRanks::new(group, bounds, requests_max)))
            }
            Start::WhenReady | Start::AtUnix(_) => {
                Decider::Alone(Box::new(Judge::new(Autoscaler::new(bounds), requests_max)))
            }
        };
        let seconds = Seconds::of(usize::from(settings.shards), settings.has_storage);
        Some(Scaling { seconds, decider, users: Vec::new() })
    }

    /// Observes the seconds that all shards have reported, so long into the window; the last
    /// decision that is not to hold.
    pub(super) fn decide(&mut self, timeline: &Timeline, elapsed: Nanos) -> Decision {
        match &mut self.decider {
            Decider::Alone(judge) => {
                let mut decision = Decision::Hold;
                while decision == Decision::Hold
                    && let Some((_, sample)) = self.seconds.next(timeline)
                {
                    self.users.push(judge.autoscaler.users());
                    decision = judge.observe(&sample, true);
                }
                decision
            }
            Decider::Group(ranks) => {
                while let Some((index, sample)) = self.seconds.next(timeline) {
                    self.users.push(ranks.users());
                    ranks.add(index, sample);
                }
                ranks.decide(elapsed / SECOND)
            }
        }
    }

    /// Autoscaler's conclusion, where this process decided, and the users of each second.
    pub(super) fn conclude(&self) -> (Option<Conclusion>, Vec<u32>) {
        let conclusion = match &self.decider {
            Decider::Alone(judge) => Some(judge.autoscaler.conclude()),
            Decider::Group(ranks) => ranks.conclude(),
        };
        (conclusion, self.users.clone())
    }
}

/// The shards' seconds, until they are taken.
#[derive(Default)]
pub(super) struct Seconds {
    /// Whether the run has a storage tier, whose throughput is judged then.
    has_storage: bool,
    /// By second of the window; removed once taken.
    requests: BTreeMap<u64, Sample<LatencySet>>,
    reported: Vec<u64>,
    /// Requests that waited to be served, and that were served, when each shard reported last.
    open: Vec<(u64, u32)>,
    /// Ages of each shard's open requests at that moment, by class.
    ages: Vec<[Histogram; 3]>,
    /// Seconds taken.
    taken: u64,
}

impl Seconds {
    fn of(shards: usize, has_storage: bool) -> Seconds {
        let (reported, open) = (vec![0; shards], vec![(0, 0); shards]);
        let ages = vec![<[Histogram; 3]>::default(); shards];
        Seconds { has_storage, reported, open, ages, ..Seconds::default() }
    }

    /// A shard reported: how many seconds are over, news of its requests, and how it stands.
    pub(super) fn add(
        &mut self,
        shard: usize,
        seconds: u64,
        news: RequestNews,
        status: &ShardStatus,
    ) {
        self.open[shard] = (status.queued, status.serving);
        self.reported[shard] = self.reported[shard].max(seconds);
        self.ages[shard] = news.open;
        for interval in news.intervals {
            let sum = self.requests.entry(interval.index).or_default();
            for (sum, one) in sum.classes.iter_mut().zip(&interval.classes) {
                sum.0.merge(one);
            }
            sum.tokens += interval.tokens;
            sum.time.add(&interval.time);
            let context = &mut sum.context;
            context.load.0.merge(&interval.load);
            context.storage_io.0.merge(&interval.storage_io);
            context.turns_found += interval.turns_found;
            context.turns_missed += interval.turns_missed;
        }
    }

    /// The drive was busy for so long in that second.
    pub(super) fn add_busy(&mut self, index: u64, busy: Nanos) {
        self.requests.entry(index).or_default().drive_busy_ns = Some(busy.as_ns());
    }

    /// The next second that all shards have reported.
    fn next(&mut self, timeline: &Timeline) -> Option<(u64, Sample<LatencySet>)> {
        let index = self.taken;
        if index >= self.reported.iter().copied().min().unwrap_or(0) {
            return None;
        }
        self.taken += 1;
        let mut sample = self.requests.remove(&index).unwrap_or_default();
        sample.length_ns = SECOND.as_ns();
        sample.requests_queued = self.open.iter().map(|open| open.0).sum();
        sample.requests_served = self.open.iter().map(|open| u64::from(open.1)).sum();
        for ages in &self.ages {
            for (sum, one) in sample.open.iter_mut().zip(ages) {
                sum.0.merge(one);
            }
        }
        if let Some(second) = timeline.seconds().get(index as usize) {
            let bytes = second.row.tiers.each_ref().map(|tier| tier.read.bytes + tier.write.bytes);
            sample.storage_bytes = bytes[Tier::Storage.index()];
            sample.judged_bytes = match self.has_storage {
                true => sample.storage_bytes,
                false => bytes.iter().sum(),
            };
            let set =
                |latency: Option<&Histogram>| LatencySet(latency.cloned().unwrap_or_default());
            [sample.read, sample.write] = second.latencies(Tier::Storage).map(set);
            let devices = second.storage_device.each_ref().map(Option::as_deref);
            [sample.read_device, sample.write_device] = devices.map(set);
            sample.storage_waits_ns = second.storage_waits_ns;
        }
        Some((index, sample))
    }
}
