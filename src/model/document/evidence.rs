//! Figures of a document that the finding on its run's limit (`limit`) follows from.

use std::collections::BTreeSet;

use ringfall_core::units::gib;

use super::Document;
use super::engine::{EvictionReport, EvictionsReport, WaitsReport};
use super::figure::Derived;
use super::latency::LatencyMsMax;
use crate::full::{CpuQuota, Descent, DeviceCounts, Evicted, ThrottleUse, is_full};
use crate::simulation::{Alternative, Binding, FASTER_MIN};
use crate::{Code, SimulationReport};

/// Share of the requests' time from which on waiting for a turn counts.
const QUEUED_SHARE: f64 = 0.1;

/// Figures of a run that tell what limited it. Shares of the requests' time are of all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub queue: f64,
    /// Waits for room in full tiers.
    pub space: f64,
    /// Waits for tiers that took memory and space for the first time.
    pub growth: f64,
    pub storage: f64,
    pub generation: f64,
    pub recomputation: f64,
    pub permits: f64,
    pub rest: f64,
    /// Share of the bytes that all tiers moved that storage did.
    pub storage_bytes_share: Option<f64>,
    /// Share of the drive's limits that the run used.
    pub roofline_share: Option<f64>,
    /// Whether the device's queue was full all the time.
    pub is_queue_full: bool,
    /// Share of the window in which the device had something to do.
    pub utilisation: Option<f64>,
    /// Limit of a cgroup on the drives' I/O that was used most, in words.
    pub throttled: Option<String>,
    /// Share of that limit that the run used.
    pub throttle_share: Option<f64>,
    /// Whether a turn loads its context once and then generates, as in serving: the time of the
    /// loads is asked for, which a run without generation would not show.
    pub loads_once: bool,
    /// Resource that bound a simulated run, and why.
    pub simulated: Option<(Binding, String)>,
    /// Whether a deeper queue made the requests of a simulated run faster.
    pub has_deeper_queue: bool,
    /// Whether more requests waited at the end than are served at a time.
    pub has_backlog: bool,
    /// Entries that the tiers were emptied of.
    pub evicted: Evicted,
    /// Share of the time of operations on storage, those that make room among them, in which they
    /// waited for places in the queue; none where it is not known.
    pub queue_place_share: Option<f64>,
    /// Whether the few threads of an engine's layout take what is in the queue.
    pub has_layout_threads: bool,
    /// Limit of a cgroup on CPU time that held the run back, in words.
    pub cpu_throttled: Option<String>,
    /// Share of the users' time that their requests took once they were served, but for that of
    /// requests which did not finish; none where it is not known.
    pub served_of_users: Option<f64>,
}

impl Evidence {
    /// Collects those of a document.
    pub fn of(document: &Document) -> Evidence {
        let (ours, stats) = (&document.ringfall, &document.summary.cache_stats);
        let time = &ours.served.time;
        let part = |share: &Derived<Option<f64>>| share.known().unwrap_or(0.0);
        let [read, written] =
            [stats.tier_storage_kv_bytes_read_gb, stats.tier_storage_kv_bytes_written_gb];
        let of_storage = read.known().zip(written.known()).map(|(read, written)| read + written);
        let all = ours.cache.moved_read_bytes.known().zip(ours.cache.moved_write_bytes.known());
        let all = all.map(|(read, written)| gib(read.saturating_add(written)));
        let (room, growth) = (part(&time.space_share), growth_share(&ours.waits));
        let throttle = throttle(document);
        let served = (1.0 - part(&time.queue_share)).max(f64::EPSILON);
        let has_bound = |quota: &CpuQuota| quota.has_bound(part(&time.generation_share) / served);
        let simulated =
            |run: &SimulationReport| Some((run.binds.known()?, run.because.as_ref()?.clone()));
        Evidence {
            queue: part(&time.queue_share),
            space: room * (1.0 - growth),
            growth: room * growth,
            storage: part(&time.storage_share),
            generation: part(&time.generation_share),
            recomputation: part(&time.recompute_share),
            permits: part(&time.permit_share),
            rest: part(&time.rest_share),
            storage_bytes_share: of_storage
                .zip(all.filter(|&all| all > 0.0))
                .map(|(storage, all)| storage / all),
            roofline_share: ours.roofline.as_ref().and_then(|roofline| roofline.share.known()),
            is_queue_full: ours.warnings.iter().any(|warning| warning.code == Code::DeepQueue),
            utilisation: ours
                .device
                .utilisation
                .known()
                .or(ours.simulation.as_ref().and_then(occupied)),
            throttle_share: throttle.as_ref().and_then(|throttle| throttle.share),
            throttled: throttle.map(|throttle| throttle.told),
            loads_once: loads_once(document),
            simulated: ours.simulation.as_ref().and_then(simulated),
            has_deeper_queue: ours.simulation.as_ref().is_some_and(|run| {
                let tried = run.alternatives.as_ref().into_iter().flatten();
                let is_deeper = |one: &Alternative| {
                    one.resource == Binding::QueueDepth && one.times_faster >= FASTER_MIN
                };
                tried.into_iter().any(is_deeper)
            }),
            has_backlog: ours.warnings.iter().any(|warning| warning.code == Code::Backlog),
            evicted: evicted(&ours.evictions),
            queue_place_share: queue_place_share(document),
            has_layout_threads: ours.files.as_ref().is_some_and(|files| files.limits == "theirs"),
            cpu_throttled: cpu_quota(document).filter(has_bound).map(|of| of.told()),
            served_of_users: served_of_users(document),
        }
    }

    /// Whether the drive had no more to give, by its own limits or by those of a cgroup.
    pub fn is_drive_full(&self) -> bool {
        is_full([self.roofline_share, self.throttle_share])
    }

    /// Whether requests waited long for their turn, or ever more of them.
    pub fn is_queued(&self) -> bool {
        self.queue >= QUEUED_SHARE || self.has_backlog
    }

    /// Share of the requests' time in which they were served.
    pub fn served_share(&self) -> f64 {
        (1.0 - self.queue).max(f64::EPSILON)
    }

    /// Whether requests that waited for room waited for something else in truth.
    pub fn room_waits_follow(&self) -> bool {
        self.evicted.room_waits_follow(self.simulated.as_ref().map(|(binds, _)| *binds))
    }
}

/// Limit of a cgroup on the drives' I/O that was used most; none where there is none. Of several
/// hosts with the same limits the mean counts.
fn throttle(document: &Document) -> Option<ThrottleUse> {
    let ours = &document.ringfall;
    let rows = ours.merged.as_ref().map_or(&[][..], |merged| &merged.hosts);
    let hosts: BTreeSet<&str> = rows.iter().map(|row| row.host.as_str()).collect();
    let seconds = ours.window.seconds.known()? * hosts.len().max(1) as f64;
    let moved_bytes = [ours.io.read.bytes.known()?, ours.io.write.bytes.known()?];
    let counts = ours.device.chain.iter().filter_map(|disk| {
        Some(DeviceCounts {
            device: disk.device.as_ref()?,
            bytes: [disk.read_bytes.known()?, disk.write_bytes.known()?],
            ios: [disk.reads.known()?, disk.writes.known()?],
        })
    });
    let counts: Vec<_> = counts.collect();
    ThrottleUse::most(&ours.machine, &counts, moved_bytes, seconds)
}

/// Share of the window in which a simulated drive was busy, or took no more I/Os.
fn occupied(run: &SimulationReport) -> Option<f64> {
    let crowded = run.drive_crowded_share.known().unwrap_or(0.0);
    Some(run.drive_busy_share.known()?.max(crowded))
}

fn evicted(evictions: &EvictionsReport) -> Evicted {
    let entries = |row: &EvictionReport| row.entries.known().unwrap_or(0);
    let EvictionsReport { gpu_to_cpu, gpu_to_storage, cpu_to_storage, storage_to_none } = evictions;
    Evicted {
        gpu: entries(gpu_to_cpu).saturating_add(entries(gpu_to_storage)),
        cpu: entries(cpu_to_storage),
        storage: entries(storage_to_none),
        descent: descent(&[cpu_to_storage, gpu_to_storage]),
    }
}

/// Sum of latencies; none where there are none.
fn sum_ms(latencies: &Derived<Option<LatencyMsMax>>) -> Option<f64> {
    let latencies = latencies.as_ref()?;
    Some(latencies.percentiles.mean.known()? * latencies.count.number()?)
}

/// Share of the waits for room in which the tier grew.
fn growth_share(waits: &WaitsReport) -> f64 {
    let sums = sum_ms(&waits.growth_ms).zip(sum_ms(&waits.room_ms).filter(|room| *room > 0.0));
    sums.map_or(0.0, |(growth, room)| (growth / room).min(1.0))
}

fn cpu_quota(document: &Document) -> Option<CpuQuota> {
    let (ours, cost) = (&document.ringfall, &document.ringfall.cost);
    let ranks = ours.merged.as_ref().map_or(1, |merged| merged.ranks.len().max(1));
    let shards = f64::from(ours.config.as_ref()?.shards?) * ranks as f64;
    Some(CpuQuota {
        cores: cost.cpu_quota_cores.known()?,
        periods: [cost.cpu_quota_periods.known()?, cost.cpu_throttled_periods.known()?],
        throttled_s: cost.cpu_throttled_s.known()?,
        shards_s: shards * ours.window.seconds.known()?,
    })
}

/// Operations ask for their places one after the other, so that each waits for one at a time.
fn queue_place_share(document: &Document) -> Option<f64> {
    let (ours, time) = (&document.ringfall, &document.ringfall.served.time);
    let of_requests_ms = time.total_s.known()? * time.storage_share.known()? * 1e3;
    let evictions = [&ours.evictions.cpu_to_storage, &ours.evictions.gpu_to_storage];
    let of_moves_ms: f64 = evictions.iter().filter_map(|row| sum_ms(&row.write_ms)).sum();
    let all_ms = Some(of_requests_ms + of_moves_ms).filter(|ms| *ms > 0.0)?;
    Some((sum_ms(&ours.waits.queue_place_ms)? / all_ms).min(1.0))
}

fn descent(rows: &[&EvictionReport]) -> Option<Descent> {
    let mut moved = rows.iter().filter(|row| row.entries.known() != Some(0));
    moved.try_fold(Descent::default(), |all, row| {
        Some(Descent {
            room_ms: all.room_ms + sum_ms(&row.room_ms)?,
            write_ms: all.write_ms + sum_ms(&row.write_ms)?,
        })
    })
}

/// Whether a source of that name is a trace.
pub(super) fn is_trace(source: &str) -> bool {
    !["synthetic", "sharegpt"].contains(&source)
}

/// Whether turns of that run load their context once and then generate.
pub(super) fn loads_once(document: &Document) -> bool {
    let setting = |key: &str| document.ringfall.config.as_ref()?.settings.get(key)?.as_str();
    setting("decode_reads") == Some("once") && setting("generation_mode") == Some("realistic")
}

/// Share of the users' time that requests of that run took once they were served; none of a trace,
/// whose requests come whoever is served.
pub(super) fn served_of_users(document: &Document) -> Option<f64> {
    let ours = &document.ringfall;
    let config = ours.config.as_ref()?;
    let is_traced = config.source.as_deref().is_some_and(is_trace);
    let users = f64::from(config.num_users.filter(|_| !is_traced)?);
    let (time, users_s) = (&ours.served.time, users * ours.window.seconds.known()?);
    let served_s = time.total_s.known()? * (1.0 - time.queue_share.known()?);
    let unfinished_s = ours.requests.as_ref().and_then(|requests| requests.all.unfinished_age_s);
    let known_s = (users_s - unfinished_s.unwrap_or(0.0)).max(served_s);
    (known_s > 0.0).then(|| served_s / known_s)
}
