//! Results of ranks as one: they measured at the same time, so that counts add up and times do not.

use std::collections::BTreeMap;

use super::Document;
use super::depth::QueueDepthReport;
use super::engine::{KernelCounters, KernelSecondReport};
use super::figure::{OfRun, Same, Sum};
use super::list::Timeline;
use super::merge::{Inputs, Merge};
use super::ours::RooflineReport;
use super::summary::ThroughputSecond;
use super::timeline::{SecondReport, SecondTier, SecondTierDirection};
use crate::results::autoscaling::{AutoscalerReport, AutoscalingRow, AutoscalingSummary};

/// The machine that a rank ran on and the device below its data, as the results name them.
pub type Place = (String, String);

/// What ranks are together beyond what adds up field by field: taken in one document at a time.
#[derive(Debug)]
pub(super) struct Together {
    window: Option<(f64, f64)>,
    warmup_seconds: Sum<f64>,
    drain_seconds: Sum<f64>,
    seconds: BTreeMap<u64, SecondReport>,
    /// Of each device of each machine what the rank counted that saw most of it.
    devices: BTreeMap<Place, Seen>,
    /// Of ranks whose device the kernel did not count for.
    unknown: Vec<Seen>,
    /// What the rank found that decided for all, under our key and the reference's two.
    autoscaling: Option<Autoscaling>,
    /// What the search found that was one for all ranks.
    queue_depth: OfRun<QueueDepthReport>,
    /// The limits that all ranks know that know any; none where they differ.
    limits: Option<Option<RooflineReport>>,
}

type Autoscaling = (OfRun<AutoscalerReport>, Same<Vec<AutoscalingRow>>, OfRun<AutoscalingSummary>);

/// What a rank saw of a device.
#[derive(Debug)]
struct Seen {
    bytes: u64,
    kernel: Option<KernelCounters>,
    series: Timeline<KernelSecondReport>,
}

impl Together {
    /// Of ranks that measured from `window.0` to `window.1`, s since 1970; none where none
    /// measured.
    pub(super) fn new(window: Option<(f64, f64)>) -> Together {
        Together {
            window,
            warmup_seconds: Sum::default(),
            drain_seconds: Sum::default(),
            seconds: BTreeMap::new(),
            devices: BTreeMap::new(),
            unknown: Vec::new(),
            autoscaling: None,
            queue_depth: OfRun::default(),
            limits: None,
        }
    }

    /// Takes what it needs of a document out of it.
    pub(super) fn take(&mut self, document: &mut Document) {
        let start_s = self.window.map_or(0.0, |(start, _)| start);
        add_seconds(&mut self.seconds, document, start_s);
        let place = document.place();
        let ours = &mut document.ringfall;
        let longer = |known: &mut Sum<f64>, one: Sum<f64>| {
            let both = [known.known(), one.known()];
            *known = Sum::maybe(both.into_iter().flatten().reduce(f64::max));
        };
        longer(&mut self.warmup_seconds, ours.window.warmup_seconds);
        longer(&mut self.drain_seconds, ours.window.drain_seconds);
        ours.timeline = Timeline::default();
        document.throughput_timeline = Timeline::default();
        let kernel = ours.device.kernel.clone();
        let bytes = kernel.as_ref().map_or(0, |kernel| {
            let (read, written) = (kernel.read_bytes.known(), kernel.write_bytes.known());
            read.unwrap_or(0).saturating_add(written.unwrap_or(0))
        });
        let seen = Seen { bytes, kernel, series: std::mem::take(&mut ours.device.series) };
        match place {
            // It stays, so that what is not known is not made up.
            None => self.unknown.push(seen),
            Some(place) => match self.devices.get_mut(&place) {
                Some(there) if there.bytes >= bytes => {}
                _ => drop(self.devices.insert(place, seen)),
            },
        }
        let is_of_all = ours.queue_depth.as_ref().is_some_and(|found| found.ranks.is_some());
        if self.queue_depth.is_unknown() && is_of_all {
            self.queue_depth = std::mem::take(&mut ours.queue_depth);
        }
        if let Some(limits) = ours.roofline.as_ref() {
            let is_same = |known: &RooflineReport| known.is_of_the_same_search(limits);
            self.limits = Some(match self.limits.take() {
                None => Some(limits.clone()),
                Some(known) => known.filter(is_same),
            });
        }
        // One rank decides for all; ranks that decide each for itself have found nothing together.
        let is_of_all = ours.autoscaler.as_ref().is_some_and(|found| found.ranks.is_some());
        if self.autoscaling.is_none() && is_of_all {
            let summary = &mut document.summary;
            self.autoscaling = Some((
                std::mem::take(&mut ours.autoscaler),
                std::mem::take(&mut summary.autoscaling_stats),
                std::mem::take(&mut summary.autoscaling_summary),
            ));
        }
    }

    /// Says it of the sum. Returns whether they used several devices.
    pub(super) fn tell(self, merged: &mut Document) -> bool {
        let span_s = self.window.map(|(start, end)| end - start);
        merged.summary.elapsed_time = Sum::maybe(span_s);
        let ours = &mut merged.ringfall;
        ours.window.seconds = Sum::maybe(span_s);
        ours.window.warmup_seconds = self.warmup_seconds;
        ours.window.drain_seconds = self.drain_seconds;
        ours.timeline = ended(self.seconds);
        if let Some((found, stats, summary)) = self.autoscaling {
            ours.autoscaler = found;
            merged.summary.autoscaling_stats = stats;
            merged.summary.autoscaling_summary = summary;
        }
        ours.queue_depth = self.queue_depth;
        let bytes = ours.io.read.bytes.known().zip(ours.io.write.bytes.known());
        ours.roofline = OfRun::maybe(self.limits.flatten().map(|limits| {
            let rates = bytes.zip(span_s).filter(|&(_, seconds)| seconds > 0.0);
            limits.used(rates.map(|((read, written), seconds)| {
                (read as f64 / seconds, written as f64 / seconds)
            }))
        }));
        merged.throughput_timeline = throughput(&merged.ringfall.timeline);
        let mut seen: Vec<Seen> = self.devices.into_values().chain(self.unknown).collect();
        let device = &mut merged.ringfall.device;
        let kernels: Vec<_> = seen.iter().map(|one| &one.kernel).collect();
        device.kernel = Merge::merged(&kernels, &Inputs::default());
        // Moments of several devices are not those of one.
        device.series = match &mut seen[..] {
            [only] => std::mem::take(&mut only.series),
            _ => Timeline::default(),
        };
        seen.len() > 1
    }
}

impl Document {
    /// Where this rank ran; none where the kernel did not count for it.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let rank = self.ringfall.rank.as_ref()?;
        let device = self.ringfall.device.kernel.as_ref()?.device.as_ref()?;
        Some((rank.host.clone(), device.clone()))
    }

    /// Start and end of the window, s since 1970; none where nothing was measured.
    #[must_use]
    pub fn span(&self) -> Option<(f64, f64)> {
        let start = self.ringfall.window.start_unix_s.known()?;
        let seconds = self.seconds().filter(|&seconds| seconds > 0.0)?;
        Some((start, start + seconds))
    }
}

/// From the first start to the last end, s since 1970; none where nothing was measured.
#[must_use]
pub fn common_window(documents: &[&Document]) -> Option<(f64, f64)> {
    let spans = documents.iter().filter_map(|document| document.span());
    spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// Adds the seconds of a rank by the wall clock. What can't be added up, such as the percentiles of
/// a second, is null.
fn add_seconds(seconds: &mut BTreeMap<u64, SecondReport>, document: &Document, start_s: f64) {
    let Some((began_s, _)) = document.span() else { return };
    for row in document.ringfall.timeline.iter() {
        // The second in which most of the row lies.
        let middle_s = began_s - start_s + row.end_s - row.seconds / 2.0;
        let index = middle_s.max(0.0) as u64;
        match seconds.get_mut(&index) {
            Some(sum) => sum.add(row),
            None => drop(seconds.insert(index, row.without_shares())),
        }
    }
}

fn ended(seconds: BTreeMap<u64, SecondReport>) -> Timeline<SecondReport> {
    let ended = |(index, row): (u64, SecondReport)| SecondReport {
        end_s: index as f64 + row.seconds,
        ..row
    };
    seconds.into_iter().map(ended).collect()
}

fn throughput(timeline: &Timeline<SecondReport>) -> Timeline<ThroughputSecond> {
    let mut tokens = 0_u64;
    let rows = timeline.iter().map(|second| {
        tokens = tokens.saturating_add(second.generated_tokens);
        ThroughputSecond {
            timestamp: second.end_s,
            throughput_tokens_per_sec: tokens as f64 / second.end_s.max(1e-6),
        }
    });
    rows.collect()
}

impl SecondReport {
    /// Without what can't be added up.
    fn without_shares(&self) -> SecondReport {
        let mut row = SecondReport { hit_rate: None, ..self.clone() };
        row.each_direction(|direction| {
            direction.latency_p50_us = None;
            direction.latency_p95_us = None;
            direction.latency_p99_us = None;
        });
        row
    }

    fn each_direction(&mut self, change: impl Fn(&mut SecondTierDirection)) {
        let tiers = &mut self.tiers;
        for tier in [&mut tiers.gpu, &mut tiers.cpu, &mut tiers.storage] {
            change(&mut tier.read);
            change(&mut tier.write);
        }
    }

    /// The same second of another rank.
    fn add(&mut self, other: &SecondReport) {
        self.seconds = self.seconds.max(other.seconds);
        let tiers = &mut self.tiers;
        for (sum, one) in [
            (&mut tiers.gpu, &other.tiers.gpu),
            (&mut tiers.cpu, &other.tiers.cpu),
            (&mut tiers.storage, &other.tiers.storage),
        ] {
            sum.add(one);
        }
        add_buckets(&mut self.io_read_buckets, &other.io_read_buckets);
        add_buckets(&mut self.io_write_buckets, &other.io_write_buckets);
        self.queue_depth = self.queue_depth.saturating_add(other.queue_depth);
        self.users = self.users.saturating_add(other.users);
        self.requests_completed = self.requests_completed.saturating_add(other.requests_completed);
        self.generated_tokens = self.generated_tokens.saturating_add(other.generated_tokens);
        self.errors = self.errors.saturating_add(other.errors);
    }
}

impl SecondTier {
    fn add(&mut self, other: &SecondTier) {
        for (sum, one) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            sum.bytes = sum.bytes.saturating_add(one.bytes);
            sum.operations = sum.operations.saturating_add(one.operations);
        }
        self.held_bytes = self.held_bytes.saturating_add(other.held_bytes);
    }
}

fn add_buckets(sum: &mut Vec<(u32, u32)>, other: &[(u32, u32)]) {
    let mut counts: BTreeMap<u32, u32> = sum.iter().copied().collect();
    for &(bucket, count) in other {
        let there = counts.entry(bucket).or_default();
        *there = there.saturating_add(count);
    }
    *sum = counts.into_iter().collect();
}
