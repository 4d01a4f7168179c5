//! Limit of a run: the resource of which more, or for which less need, would have made its
//! requests faster, by the figures of its document.
//!
//! In this order: there is no finding on a run that ended early, that had no drive, whose load a
//! search changed or in which too few requests finished. Users whose requests took next to none of
//! their time, in no queue and of a drive that was idle half of the time, asked for no more. A
//! drive that is known to be full limits whatever else is waited for: space and permits come free
//! as fast as it is. A quota on CPU time that took most of the requests' time decides next, then
//! waits for space, because they spoil all other figures: those for full tiers and for tiers that
//! grow alike, from a quarter of the service time on, or from half of it where the drive was busy
//! all the time and its limits are unknown. They count as storage I/O instead where room came free
//! as fast as the drive wrote what was to leave. Otherwise the largest part of the time in which
//! requests were served decides, waiting for a turn left aside: that follows from the others. Where
//! it is reading and writing, the drive's limits (`--roofline`), its queue and its counters tell
//! bandwidth from I/Os that are too few, and waits for queue places from a depth that is too small.
//! A simulated run is simulated again with more of each resource, and that of which more makes its
//! requests fastest limits it.

use ringfall_core::key::Tier;
use ringfall_core::named;
use ringfall_host::counted;
use serde::{Deserialize, Serialize};

use super::Document;
use super::evidence::{Evidence, is_trace};
use crate::deep_queue::may_be_full;
use crate::full::is_full;
use crate::health::SAMPLES_MIN;
use crate::simulation::{Binding, percent};
use crate::warnings::{LONGER_WARMUP, SPACE_SHARE_TOLD};

/// Fewest finished requests of which the time is told.
const REQUESTS_MIN: u64 = SAMPLES_MIN;
/// Share of the window in which the device had nothing to do from which on it can't be full.
const IDLE_SHARE: f64 = 0.1;
/// Share of the service time from which on waits for space limit a run whose drive may have been
/// saturated.
const SPACE_SHARE_DOMINANT: f64 = 0.5;
/// Share of the service time from which on waits for room that the drive made are told.
const ROOM_SHARE_TOLD: f64 = 0.05;
/// Share of the time of storage I/O from which on waits for places in the queue limit a run.
const PLACE_SHARE_TOLD: f64 = 0.25;
/// Share of the users' time that their requests took below which nothing held them up.
const SERVED_OF_USERS_MIN: f64 = 0.05;
/// Share of what the drive can do up to which there is room for more users.
const USED_HALF: f64 = 0.5;
/// Share of all bytes below which storage did too little to be judged.
const STORAGE_BYTES_MIN: f64 = 0.05;

named! {
/// Resource that limited a run, as far as its figures can tell.
#[derive(Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Nothing that the figures can tell.
    None = "none",
    /// Room in a tier that is full, or grows.
    Space = "space",
    /// The drive's bandwidth.
    Bandwidth = "storage bandwidth",
    /// The number of I/Os that the drive serves in a second.
    Iops = "storage IOPS",
    /// The time of each I/O, its transfer as well as the drive's latency: too few were in flight to
    /// fill the drive.
    Latency = "I/O time",
    /// The number of I/Os that the drive serves at a time.
    Parallelism = "drive parallelism",
    /// The drive, of which it is not known whether it was full.
    Storage = "storage",
    /// The queue depth that was allowed.
    QueueDepth = "queue depth",
    /// The number of threads that moved the files of an engine's layout.
    LayoutThreads = "layout threads",
    /// The number of requests that were served at a time.
    ServingSlots = "serving slots",
    /// Copies in memory.
    Memory = "memory copies",
    /// Permits to allocate (`--max-concurrent-allocs`).
    Permits = "allocation permits",
    /// The processor.
    Processor = "processor",
    /// The time that simulated users take to generate tokens.
    Generation = "generation",
    /// Recomputation of what was no longer stored.
    Recomputation = "recomputation",
    /// The users, who asked for no more.
    Users = "users",
}
}

/// Finding on what limited a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RunLimit {
    /// Resource that limited the run.
    pub kind: LimitKind,
    /// The finding as a sentence without its full stop, with the number that shows it.
    pub told: String,
    /// Flag that may help, with its value or after the direction of the change (`more --shards`);
    /// null when none does.
    pub flag_to_try: Option<String>,
}

impl RunLimit {
    /// Finding on the run of that document, which may be that there is none.
    pub fn of(document: &Document) -> RunLimit {
        let mut limit = none(document).unwrap_or_else(|| found(&Evidence::of(document)));
        limit.flag_to_try = limit.flag_to_try.and_then(|flag| flag_in_place(flag, document));
        limit
    }
}

/// Largest I/O, as a configuration names it.
const LARGEST_IO: &str = "64MiB";
/// Remedies that change how many requests come at once, where nothing else decides that.
const MORE_USERS: &str = "more --num-users";
const FEWER_USERS: &str = "fewer --num-users";
/// Remedy of a drive that takes few I/Os at a time or a second, unless they are as large as can be.
const LARGER_IOS: &str = "a larger --io-size";
/// Remedy where the processor is short.
const MORE_SHARDS: &str = "more --shards";
/// Remedy of requests that wait for each other's allocations.
const NO_PERMITS: &str = "--max-concurrent-allocs 0";
/// Remedy of a drive that could have worked on more I/Os at a time.
const LARGER_DEPTH: &str = "a larger --queue-depth";
/// Remedy of an engine with few threads.
const MORE_THREADS: &str = "more threads in --layout-option";
/// Remedy of full tiers above storage.
const LARGER_GPU_TIER: &str = "a larger --gpu-mem-gb";
const LARGER_CPU_TIER: &str = "a larger --cpu-mem-gb";
/// Remedy of a full storage tier, and of what is no longer in it.
const LARGER_STORAGE: &str = "a larger --storage-capacity-gb";

/// The remedy that takes the place of `flag` in that run; none where users and times follow from a
/// trace, or where the setting is at its bound.
fn flag_in_place(flag: String, document: &Document) -> Option<String> {
    let config = document.ringfall.config.as_ref();
    let setting = |key: &str| config.and_then(|config| config.settings.get(key)?.as_str());
    let at_a_rate = match &*flag {
        MORE_USERS => "a higher --request-rate",
        FEWER_USERS => "a lower --request-rate",
        // An I/O of an engine's layout is a file of the engine's.
        LARGER_IOS => {
            let is_of_files = setting("layout").is_some_and(|layout| layout != "native");
            return (!is_of_files && setting("io_size") != Some(LARGEST_IO)).then_some(flag);
        }
        MORE_THREADS => return (setting("engine_limits") != Some("ours")).then_some(flag),
        _ => return Some(flag),
    };
    let source = config.and_then(|config| config.source.as_deref());
    let is_traced = source.is_some_and(is_trace);
    let rate = config.and_then(|config| config.request_rate_per_s);
    let has_rate = rate.is_some_and(|rate| rate > 0.0);
    (!is_traced).then(|| if has_rate { at_a_rate.to_owned() } else { flag })
}

fn limit(kind: LimitKind, told: String, flag_to_try: Option<&str>) -> RunLimit {
    RunLimit { kind, told, flag_to_try: flag_to_try.map(str::to_owned) }
}

/// Why there is no finding; none where there may be one.
fn none(document: &Document) -> Option<RunLimit> {
    let ours = &document.ringfall;
    let finished = document.summary.total_requests.known().unwrap_or(0);
    let none = |told: &str| Some(limit(LimitKind::None, told.to_owned(), None));
    if ours.window.failure.as_ref().is_some() {
        return none("the run failed, and its figures end there");
    }
    if ours.window.interrupted.known() == Some(true) {
        return none("the run was interrupted, and its figures end there");
    }
    if ours.autoscaler.is_some() {
        return none("a search changed the number of users, and its answer stands below");
    }
    if document.is_without_drive() || document.is_without_storage() {
        return none("the run had no drive that could have limited it");
    }
    if let Some(memory) = ours.machine.memory() {
        let limited = match ours.machine.throttles.is_empty() {
            true => "and no drive limited the run",
            false => "where a cgroup's limit stood in for a drive's",
        };
        return none(&format!("the data was in memory ({memory}), {limited}"));
    }
    if finished < REQUESTS_MIN {
        let requests = counted(finished, "request");
        let told = format!("{requests} finished, and at least {REQUESTS_MIN} are needed to tell");
        return Some(limit(LimitKind::None, told, Some("a longer --duration")));
    }
    let simulation = ours.simulation.as_ref().filter(|run| run.binds.is_unknown())?;
    let why = simulation.because.as_ref().map_or("the runs differ in that", String::as_str);
    none(&format!("what limited the simulation is not known: {why}"))
}

fn found(of: &Evidence) -> RunLimit {
    let served = of.served_share();
    let share = |part: f64| percent(part / served);
    if let Some((binds, because)) = &of.simulated {
        return simulated(of, *binds, because);
    }
    if asked_for_no_more(of) {
        // Much of its time may go without its bandwidth being used.
        let drive = busy(of).or_else(|| used(of)).map(|drive| format!(", and {drive}"));
        let told = format!(
            "requests took less than 5 % of the users' time, who asked for no more{}",
            drive.unwrap_or_default()
        );
        return limit(LimitKind::Users, told, Some(MORE_USERS));
    }
    if of.is_drive_full() {
        return storage(of);
    }
    if let Some(throttled) = &of.cpu_throttled {
        return limit(LimitKind::Processor, throttled.clone(), None);
    }
    let follows = of.room_waits_follow();
    let is_saturated = may_be_saturated(of);
    let space_from = if is_saturated { SPACE_SHARE_DOMINANT } else { SPACE_SHARE_TOLD };
    if of.growth / served >= space_from && of.growth >= of.space {
        let told = format!(
            "requests waited {} of their service time while the tiers took memory and space for \
             the first time",
            share(of.growth)
        );
        return limit(LimitKind::Space, told, Some(LONGER_WARMUP));
    }
    if of.space / served >= space_from && !follows {
        return space(of, &share(of.space));
    }
    // Who waits for the drive to make room waits for the drive.
    let space_by_drive = if is_saturated || follows { of.space } else { 0.0 };
    let parts = [
        (LimitKind::Space, of.space - space_by_drive),
        (LimitKind::Generation, of.generation),
        (LimitKind::Recomputation, of.recomputation),
        (LimitKind::Permits, of.permits),
        (LimitKind::Processor, of.rest),
    ];
    let first = (LimitKind::Storage, of.storage + space_by_drive);
    let (kind, part) =
        parts.into_iter().fold(first, |most, one| if one.1 > most.1 { one } else { most });
    let share = share(part);
    match kind {
        LimitKind::Space => space(of, &share),
        LimitKind::Generation => generation(of, &share),
        LimitKind::Recomputation => {
            let told = format!(
                "requests spent {share} of their service time recomputing what was not stored"
            );
            limit(kind, told, Some(LARGER_STORAGE))
        }
        LimitKind::Permits => {
            let told = format!(
                "requests waited {share} of their service time for permits{}",
                used(of).map(|used| format!(", and {used}")).unwrap_or_default()
            );
            limit(kind, told, Some(NO_PERMITS))
        }
        LimitKind::Processor => {
            let told = format!(
                "requests spent {share} of their service time neither in I/O nor in a wait that is \
                 counted: the processor is short"
            );
            limit(kind, told, Some(MORE_SHARDS))
        }
        _ => storage(of),
    }
}

/// Whether nothing but the users kept the load as it was. Few requests in service may be all that
/// there are slots for, or all that the drive can serve.
fn asked_for_no_more(of: &Evidence) -> bool {
    let is_served_little = of.served_of_users.is_some_and(|share| share < SERVED_OF_USERS_MIN);
    is_served_little && !of.is_queued() && has_half_left(of)
}

/// Whether nothing is known to have used more than half of what the drive can do, or of what a
/// cgroup allows it.
fn has_half_left(of: &Evidence) -> bool {
    let used = [of.roofline_share.or(of.utilisation), of.throttle_share];
    used.into_iter().flatten().all(|used| used <= USED_HALF)
}

/// Whether a cgroup limits the drive, and it is not known how much of that was used.
fn may_be_throttled(of: &Evidence) -> bool {
    of.throttled.is_some() && of.throttle_share.is_none()
}

/// Whether the drive may have had no more to give. One that was busy all the time may be full where
/// its limits are unknown.
fn may_be_saturated(of: &Evidence) -> bool {
    let is_busy = may_be_full(of.utilisation);
    is_busy && (of.is_queue_full || (of.roofline_share.is_none() && of.utilisation.is_some()))
}

/// Tells in which tier there was too little space.
fn space(of: &Evidence, share: &str) -> RunLimit {
    let (tier, flag) = match of.evicted.tier_waited_for() {
        Some(Tier::Gpu) => {
            ("the full GPU tier, which is emptied to the tier below", LARGER_GPU_TIER)
        }
        Some(Tier::Cpu) => ("the full CPU tier, which is emptied to the drive", LARGER_CPU_TIER),
        Some(Tier::Storage) => (
            "the full storage tier, which shows the capacity rather than the drive",
            LARGER_STORAGE,
        ),
        None => ("a full tier, which shows the capacity rather than the drive", LARGER_STORAGE),
    };
    let told = format!("requests waited {share} of their service time for space in {tier}");
    limit(LimitKind::Space, told, Some(flag))
}

/// Time in which the drive had something to do, as the end of a sentence; none where it is unknown.
fn busy(of: &Evidence) -> Option<String> {
    let busy = of.utilisation?;
    Some(format!("the drive was busy {} of the time", percent(busy.min(1.0))))
}

/// Use of the drive, and what limits it from outside, as the end of a sentence; none where nothing
/// is known of it.
fn used(of: &Evidence) -> Option<String> {
    let of_limits = |share| format!("the drive was used to {} of its limit", percent(share));
    // The kernel does not count the time for which a cgroup holds I/Os back as the drive's.
    let of_cgroup =
        |share: f64| format!("the drive was used to {} of what its cgroup allows", percent(share));
    let is_cgroup_closest = of.throttle_share > of.roofline_share.or(of.utilisation);
    let used = match (of.roofline_share, of.throttle_share) {
        (_, Some(share)) if is_cgroup_closest => Some(of_cgroup(share)),
        (share, _) => share.map(of_limits).or_else(|| busy(of)),
    };
    let is_told = is_cgroup_closest || may_be_throttled(of) || is_full([of.throttle_share, None]);
    let throttled = of.throttled.clone().filter(|_| is_told);
    let parts: Vec<String> = used.into_iter().chain(throttled).collect();
    (!parts.is_empty()).then(|| parts.join(", and "))
}

/// Tells what the drive could have done while so much of the service time went to generation.
fn generation(of: &Evidence, share: &str) -> RunLimit {
    let told = format!(
        "requests waited {share} of their service time for generated tokens{}",
        used(of).map(|used| format!(", and {used}")).unwrap_or_default()
    );
    if !has_bandwidth_left(of) {
        // Loads that wait for each other without generation between them are another question.
        let is_idle = of.utilisation.is_some_and(|busy| busy <= USED_HALF);
        let flag = match of.loads_once {
            true => (is_idle && !of.is_queued()).then_some(MORE_USERS),
            false => Some("--generation-mode none"),
        };
        return limit(LimitKind::Generation, told, flag);
    }
    let told = format!(
        "{told}: by its bandwidth it could serve more users, given the space, but whether their \
         loads would stay quick is another question (`ringfall quick` or --autoscaler-mode slo \
         answers it)"
    );
    limit(LimitKind::Generation, told, Some(MORE_USERS))
}

/// Whether at least half of the drive's bandwidth was left, as far as its use is known. A drive
/// that is busy does not do all it can: it has rather more left than that.
fn has_bandwidth_left(of: &Evidence) -> bool {
    // Entries in memory say nothing of the drive, nor does its time where a cgroup holds it back.
    let is_in_memory = of.storage_bytes_share.is_some_and(|bytes| bytes < STORAGE_BYTES_MIN);
    let is_known = of.roofline_share.or(of.utilisation).is_some() && !may_be_throttled(of);
    is_known && !is_in_memory && !of.is_queued() && has_half_left(of)
}

/// Tells what of storage took so much of the service time.
fn storage(of: &Evidence) -> RunLimit {
    let served = of.served_share();
    let io = percent(of.storage / served);
    let took = format!("storage I/O took {io} of the requests' service time");
    if let Some(bytes) = of.storage_bytes_share.filter(|&bytes| bytes < STORAGE_BYTES_MIN) {
        let told = format!("{took}, but storage moved only {} of the bytes", percent(bytes));
        return limit(LimitKind::Memory, told, Some("--cpu-mem-gb 0"));
    }
    let has_waits = of.room_waits_follow() && of.space / served >= ROOM_SHARE_TOLD;
    let waits =
        has_waits.then(|| format!("waiting for it to make room {}", percent(of.space / served)));
    let parts: Vec<String> = [took].into_iter().chain(waits).chain(used(of)).collect();
    let told = parts.join(", and ");
    match (of.roofline_share, of.utilisation) {
        _ if of.is_drive_full() => limit(LimitKind::Bandwidth, told, Some(FEWER_USERS)),
        _ if of.is_queue_full && may_be_full(of.utilisation) => {
            let told = format!("{told}, its queue full all the time");
            let flag = if of.roofline_share.is_none() { "--roofline fresh" } else { FEWER_USERS };
            limit(LimitKind::Bandwidth, told, Some(flag))
        }
        // A drive that a cgroup holds back idles however many I/Os wait.
        _ if may_be_throttled(of) => limit(LimitKind::Storage, told, None),
        (None, busy) if busy.is_none_or(|busy| busy > 1.0 - IDLE_SHARE) => {
            limit(LimitKind::Storage, told, Some("--roofline"))
        }
        _ => match of.queue_place_share.filter(|&share| share >= PLACE_SHARE_TOLD) {
            Some(waited) => {
                let waited = percent(waited);
                let (kind, places, flag) = match of.has_layout_threads {
                    true => (LimitKind::LayoutThreads, "the layout's threads", MORE_THREADS),
                    false => (LimitKind::QueueDepth, "places in the queue", LARGER_DEPTH),
                };
                let told =
                    format!("{told}; {waited} of that I/O time went with waiting for {places}");
                limit(kind, told, Some(flag))
            }
            None => limit(LimitKind::Latency, told, Some(MORE_USERS)),
        },
    }
}

/// The finding of the simulation itself.
fn simulated(of: &Evidence, binds: Binding, because: &str) -> RunLimit {
    let is_busy = of.utilisation.is_some_and(|busy| busy > USED_HALF);
    let (kind, flag) = match binds {
        Binding::Drive => (LimitKind::Bandwidth, Some(FEWER_USERS)),
        Binding::DriveLatency if of.has_deeper_queue => (LimitKind::Latency, Some(LARGER_DEPTH)),
        Binding::DriveLatency => {
            (LimitKind::Latency, (!is_busy && !of.is_queued()).then_some(MORE_USERS))
        }
        Binding::DriveIops => (LimitKind::Iops, Some(LARGER_IOS)),
        Binding::DeepQueue => (LimitKind::QueueDepth, Some("--queue-depth auto")),
        Binding::DriveParallelism => (LimitKind::Parallelism, Some(LARGER_IOS)),
        Binding::QueueDepth => (LimitKind::QueueDepth, Some(LARGER_DEPTH)),
        Binding::IoBuffers => (LimitKind::QueueDepth, Some("a larger --io-buffer-mb")),
        Binding::LayoutThreads => (LimitKind::LayoutThreads, Some(MORE_THREADS)),
        Binding::ServingSlots => {
            (LimitKind::ServingSlots, Some("a higher --max-inflight-requests"))
        }
        Binding::Permits => (LimitKind::Permits, Some(NO_PERMITS)),
        Binding::Memory | Binding::GpuLink => (LimitKind::Memory, None),
        Binding::GpuTier => (LimitKind::Space, Some(LARGER_GPU_TIER)),
        Binding::CpuTier => (LimitKind::Space, Some(LARGER_CPU_TIER)),
        Binding::StorageTier => (LimitKind::Space, Some(LARGER_STORAGE)),
        Binding::Shards => (LimitKind::Processor, Some(MORE_SHARDS)),
        // Its sentence is of those in service alone.
        Binding::Generation if of.is_queued() => (LimitKind::Generation, None),
        Binding::Generation => {
            return generation(of, &percent(of.generation / of.served_share()));
        }
        Binding::Recomputation => (LimitKind::Recomputation, Some(LARGER_STORAGE)),
        // A drive that has little left serves more of them no better.
        Binding::Users => (LimitKind::Users, (!is_busy && !of.is_queued()).then_some(MORE_USERS)),
    };
    limit(kind, because.to_owned(), flag)
}

#[cfg(test)]
#[path = "limit_test.rs"]
mod tests;
