//! The autoscaler's ears and hands: the shards' seconds added up for it, its decisions carried out.

use std::collections::BTreeMap;

use ringfall_engine::clock::SECOND;
use ringfall_engine::metrics::Histogram;
use ringfall_engine::tier::Tier;
use ringfall_workloads::autoscale::{
    Autoscaler, Conclusion, Decision, Latencies, Sample, TimeShares,
};

use super::RunSettings;
use super::timeline::Timeline;
use crate::driver::Interval;

/// Latencies as the engine keeps them.
#[derive(Clone, Debug, Default)]
pub struct LatencySet(pub Histogram);

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
}

/// An autoscaler at work.
pub(super) struct Scaling {
    autoscaler: Autoscaler<LatencySet>,
    /// By second of the window; removed once observed.
    requests: BTreeMap<u64, Requests>,
    /// Seconds that each shard has reported.
    reported: Vec<u64>,
    /// Requests that waited to be served when each shard reported last.
    queued: Vec<u64>,
    /// Seconds observed.
    observed: u64,
    /// Requests that may still end before the run does.
    requests_left: u64,
    /// Users in each second observed.
    users: Vec<u32>,
}

#[derive(Default)]
struct Requests {
    classes: [LatencySet; 3],
    tokens: u64,
    time: TimeShares,
}

impl Scaling {
    /// Of a run's settings; none when its users stay.
    pub(super) fn of(settings: &RunSettings) -> Option<Scaling> {
        let shards = usize::from(settings.shards);
        Some(Scaling {
            autoscaler: Autoscaler::new(settings.autoscale?),
            requests: BTreeMap::new(),
            reported: vec![0; shards],
            queued: vec![0; shards],
            observed: 0,
            requests_left: settings.autoscale_requests_max.unwrap_or(u64::MAX),
            users: Vec::new(),
        })
    }

    /// A shard reported: how many seconds are over, its requests' seconds, and how many requests
    /// wait to be served.
    pub(super) fn add(
        &mut self,
        shard: usize,
        seconds: u64,
        intervals: Vec<Interval>,
        queued: u64,
    ) {
        self.queued[shard] = queued;
        self.reported[shard] = self.reported[shard].max(seconds);
        for interval in intervals {
            let sum = self.requests.entry(interval.index).or_default();
            for (sum, one) in sum.classes.iter_mut().zip(&interval.classes) {
                sum.0.merge(one);
            }
            sum.tokens += interval.tokens;
            sum.time.add(&interval.time);
        }
    }

    /// Observes the seconds that all shards have reported; the last decision that is not to hold.
    pub(super) fn decide(&mut self, timeline: &Timeline) -> Decision {
        let complete = self.reported.iter().copied().min().unwrap_or(0);
        let mut decision = Decision::Hold;
        while self.observed < complete && decision == Decision::Hold {
            self.users.push(self.autoscaler.users());
            let sample = self.sample(self.observed, timeline);
            self.requests.remove(&self.observed);
            self.observed += 1;
            decision = self.autoscaler.observe(&sample);
            let ended: u64 = sample.classes.iter().map(Latencies::count).sum();
            self.requests_left = self.requests_left.saturating_sub(ended);
        }
        if self.requests_left == 0 { Decision::Stop } else { decision }
    }

    fn sample(&self, index: u64, timeline: &Timeline) -> Sample<LatencySet> {
        let mut sample: Sample<LatencySet> = Sample { length_ns: SECOND, ..Sample::default() };
        sample.requests_queued = self.queued.iter().sum();
        if let Some(second) = timeline.seconds().get(index as usize) {
            let storage = &second.tiers[Tier::Storage.index()];
            sample.storage_bytes = storage.iter().map(|direction| direction.bytes).sum();
            sample.tier_bytes = second.tiers.iter().flatten().map(|d| d.bytes).sum();
            for (set, direction) in [&mut sample.read, &mut sample.write].into_iter().zip(storage) {
                if let Some(latency) = direction.latency() {
                    set.0.merge(latency);
                }
            }
            sample.storage_waits_ns = second.storage_waits_ns;
            let sets = [&mut sample.read_device, &mut sample.write_device];
            for (set, device) in sets.into_iter().zip(&second.storage_device) {
                device.iter().for_each(|device| set.0.merge(device));
            }
        }
        if let Some(requests) = self.requests.get(&index) {
            sample.classes = requests.classes.clone();
            sample.tokens = requests.tokens;
            sample.time = requests.time;
        }
        sample
    }

    /// What came out, and the users of each second.
    pub(super) fn conclude(self) -> (Conclusion, Vec<u32>) {
        (self.autoscaler.conclude(), self.users)
    }
}
