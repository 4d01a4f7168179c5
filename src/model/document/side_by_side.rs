//! Results of ranks as one: they measured at the same time, so that counts add up and times do not.

use std::collections::BTreeMap;

use super::Document;
use super::depth::QueueDepthReport;
use super::drives::{DiskCounters, KernelCounters};
use super::engine::KernelSecondReport;
use super::figure::{Added, Max, Sum};
use super::list::{ByName, Rows, Timeline};
use super::merge::{Inputs, Merge};
use super::ours::{CostReport, RooflineReport};
use super::summary::ThroughputSecond;
use super::timeline::SecondReport;
use crate::autoscaling::{AutoscalerReport, AutoscalingRow, AutoscalingSummary};
use crate::facts::BlockTraceFigures;

/// The machine that a rank ran on and the device below its data, as the results name them.
pub type Place = (String, String);

/// Combined state of ranks beyond what adds up field by field, built one document at a time.
#[derive(Debug, Default)]
pub(super) struct Together {
    window: Option<(f64, f64)>,
    warmup_seconds: Sum<f64>,
    drain_seconds: Sum<f64>,
    seconds: BTreeMap<u64, SecondReport>,
    /// For each device of each machine, the counts of the rank that saw most of it.
    devices: BTreeMap<Place, Seen>,
    /// Counts of ranks whose device has no kernel counters.
    unknown: Vec<Seen>,
    /// For each machine, the cost of the rank that was throttled most: its ranks are in one cgroup,
    /// whose counts are those of all of them.
    costs: BTreeMap<String, CostReport>,
    /// Findings of the rank that decided for all, under our key and the reference's two.
    autoscaling: Option<Autoscaling>,
    /// Findings of a search that was made for all ranks together.
    queue_depth: Option<QueueDepthReport>,
    /// The limits that all ranks know that know any; none where they differ.
    limits: Option<Option<RooflineReport>>,
}

type Autoscaling = (Option<AutoscalerReport>, Rows<AutoscalingRow>, Option<AutoscalingSummary>);

/// A rank's view of a device.
#[derive(Debug)]
struct Seen {
    bytes: u64,
    kernel: Option<KernelCounters>,
    series: Timeline<KernelSecondReport>,
    chain: ByName<DiskCounters>,
    trace: Added<BlockTraceFigures>,
}

impl Seen {
    /// Combines two views of one device: the counts of the rank that saw more of it, since each saw
    /// what all of them did, and the trace of either.
    fn or(self, other: Seen) -> Seen {
        let (most, least) = if self.bytes >= other.bytes { (self, other) } else { (other, self) };
        let trace = if most.trace.is_unknown() { least.trace } else { most.trace };
        Seen { trace, ..most }
    }
}

impl Together {
    /// Starts with ranks that measured from `window.0` to `window.1`, s since 1970; `None` where no
    /// rank measured.
    pub(super) fn new(window: Option<(f64, f64)>) -> Together {
        Together { window, ..Together::default() }
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
        let host = ours.rank.as_ref().map(|rank| rank.host.clone()).unwrap_or_default();
        let most = self.costs.entry(host).or_insert_with(|| (*ours.cost).clone());
        if most.cpu_throttled_s.known() < ours.cost.cpu_throttled_s.known() {
            *most = (*ours.cost).clone();
        }
        let kernel = ours.device.kernel.clone();
        let bytes = kernel.as_ref().map_or(0, |kernel| {
            let (read, written) = (kernel.read_bytes.known(), kernel.write_bytes.known());
            read.unwrap_or(0).saturating_add(written.unwrap_or(0))
        });
        let seen = Seen {
            bytes,
            kernel,
            series: std::mem::take(&mut ours.device.series),
            chain: std::mem::take(&mut ours.device.chain),
            trace: std::mem::take(&mut ours.block_trace),
        };
        match place {
            // It stays, so that what is not known is not made up.
            None => self.unknown.push(seen),
            Some(place) => {
                let seen = match self.devices.remove(&place) {
                    Some(there) => there.or(seen),
                    None => seen,
                };
                self.devices.insert(place, seen);
            }
        }
        // What is one for all is there once; what each found for itself is merged.
        if let Some(found) = ours.queue_depth.take_if(|found| !found.ranks.is_unknown()) {
            self.queue_depth.get_or_insert(found);
        }
        if let Some(limits) = ours.roofline.take() {
            let is_same = |known: &RooflineReport| known.is_of_the_same_search(&limits);
            self.limits = Some(match self.limits.take() {
                None => Some(limits),
                Some(known) => known.filter(is_same),
            });
        }
        // One rank decides for all; ranks that decide each for itself have found nothing together.
        let summary = &mut document.summary;
        let found = (
            ours.autoscaler.take(),
            std::mem::take(&mut summary.autoscaling_stats),
            summary.autoscaling_summary.take(),
        );
        let is_of_all = found.0.as_ref().is_some_and(|found| !found.ranks.is_unknown());
        if self.autoscaling.is_none() && is_of_all {
            self.autoscaling = Some(found);
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
        if self.queue_depth.is_some() {
            ours.queue_depth = self.queue_depth;
        }
        let costs: Vec<_> = self.costs.values().collect();
        let throttled = CostReport::merged(&costs, &Inputs::default());
        ours.cost.cpu_quota_periods = throttled.cpu_quota_periods;
        ours.cost.cpu_throttled_periods = throttled.cpu_throttled_periods;
        ours.cost.cpu_throttled_s = throttled.cpu_throttled_s;
        let bytes = ours.io.read.bytes.known().zip(ours.io.write.bytes.known());
        ours.roofline = self.limits.flatten().map(|limits| {
            let rates = bytes.zip(span_s).filter(|&(_, seconds)| seconds > 0.0);
            limits.used(rates.map(|((read, written), seconds)| {
                (read as f64 / seconds, written as f64 / seconds)
            }))
        });
        merged.throughput_timeline = ThroughputSecond::of(&merged.ringfall.timeline);
        let mut seen: Vec<Seen> = self.devices.into_values().chain(self.unknown).collect();
        let device = &mut merged.ringfall.device;
        let kernels: Vec<_> = seen.iter().map(|one| &one.kernel).collect();
        device.kernel = Merge::merged(&kernels, &Inputs::default());
        // Moments and places of several devices are not those of one.
        if let [only] = &mut seen[..] {
            device.series = std::mem::take(&mut only.series);
            device.chain = std::mem::take(&mut only.chain);
            merged.ringfall.block_trace = std::mem::take(&mut only.trace);
        }
        seen.len() > 1
    }
}

impl Document {
    /// Where this rank ran; none where the kernel did not count for it.
    pub fn place(&self) -> Option<Place> {
        let rank = self.ringfall.rank.as_ref()?;
        let device = self.ringfall.device.kernel.as_ref()?.device.as_ref()?;
        Some((rank.host.clone(), device.clone()))
    }

    /// Start and end of the window, s since 1970; none where nothing was measured.
    pub fn span(&self) -> Option<(f64, f64)> {
        let start = self.ringfall.window.start_unix_s.known()?;
        let seconds = self.seconds().filter(|&seconds| seconds > 0.0)?;
        Some((start, start + seconds))
    }
}

/// From the first start to the last end, s since 1970; none where nothing was measured.
pub fn common_window(documents: &[&Document]) -> Option<(f64, f64)> {
    let spans = documents.iter().filter_map(|document| document.span());
    spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// Adds the seconds of a rank by the wall clock, figure by figure. What can't be added up, such as
/// the percentiles of a second, is null.
fn add_seconds(seconds: &mut BTreeMap<u64, SecondReport>, document: &Document, start_s: f64) {
    let Some((began_s, _)) = document.span() else { return };
    for row in document.ringfall.timeline.iter() {
        // A row that does not say when it was is in no second.
        let Some((end_s, length_s)) = row.end_s.known().zip(row.seconds.known()) else { continue };
        // The second in which most of the row lies.
        let middle_s = began_s - start_s + end_s - length_s / 2.0;
        let index = middle_s.max(0.0) as u64;
        let there = seconds.get(&index);
        let rows: Vec<&SecondReport> = there.into_iter().chain([row]).collect();
        let sum = SecondReport::merged(&rows, &Inputs::default());
        seconds.insert(index, sum);
    }
}

fn ended(seconds: BTreeMap<u64, SecondReport>) -> Timeline<SecondReport> {
    let ended = |(index, row): (u64, SecondReport)| SecondReport {
        end_s: Max::maybe(row.seconds.known().map(|length_s| index as f64 + length_s)),
        ..row
    };
    seconds.into_iter().map(ended).collect()
}
