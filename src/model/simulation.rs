//! `ringfall.simulation`: what a simulated run knows that a real one has to guess.

use ringfall_config::{Arrival, Traffic};
use ringfall_core::metrics::{Histogram, TierMetrics};
use ringfall_core::named;
use serde::{Deserialize, Serialize};

use crate::facts::SimulationFigures;
use crate::figures::figure::{OfRun, OverTime, Same, shapes};
use crate::figures::merge::figures;
use crate::full::Evicted;
use crate::warnings::SPACE_SHARE_TOLD;
use crate::{RunResult, deep_queue};

shapes!(Binding, IoTraceReport);

/// From this share of the time on, a resource counts as used up.
const BUSY_SHARE: f64 = 0.9;
/// From this share of the time on, a drive whose places or slots are waited for is used up: more of
/// these brings little.
const NEARLY_BUSY_SHARE: f64 = 0.8;
/// The same where its queue is full, or where requests wait for room or permits: three times its
/// bandwidth or IOPS brought 16 to 124 % in such runs, three times the depth or the space -24 to
/// 30 %, twice the permits -15 to 18 %. Where they wait for permits, also of the time in which the
/// queues are filled: before, the tiers above storage took all.
const BUSY_SHARE_BEHIND_QUEUE: f64 = 0.75;
/// From this share of the time on, a drive that works longer because its queue is deep is held up
/// by that: a shallow queue would bring 1.4 times as much.
const SLOWED_SHARE: f64 = 0.3;
/// From this share of the time on, that is told where the drive is what limits a run.
const SLOWED_SHARE_TOLD: f64 = 0.05;
/// From this share of the queues' places on, users who wait for I/Os wait for these: each of a few
/// users fills one queue, and not all the time. Three times the depth made such a run twice as
/// fast, three times the users 1.15 times. Requests that wait for slots would wait for places in
/// slots of their own: three times the depth brought 15 to 103 %, three times the slots 2 to 33 %.
const FILLED_SHARE: f64 = 0.75;
/// The same where requests wait for permits, whose holders wait for the I/Os: without a bound on
/// them such runs did at most 9 % more above this share, and mostly 39 to 248 % more below.
const FILLED_SHARE_BEHIND_PERMITS: f64 = 0.5;
/// From this share of the time on, what a drive has left is less than what it gives.
const HALF_BUSY_SHARE: f64 = 0.5;
/// From this share of a request's time on, waiting for a serving slot counts.
const QUEUED_SHARE: f64 = 0.1;
/// The same where requests arrive at set times and none are left over at the end: as many are
/// served as arrive, and with more slots they wait for each other in the drive instead.
const QUEUED_SHARE_PACED: f64 = 0.5;
/// From this share of the users' time on, what they wait for is what holds them up.
const WAITING_SHARE: f64 = 0.5;

named! {
/// Bottleneck of a run: the resource of which more would make it faster, before anything else.
#[derive(Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The drive is busy all the time.
    Drive = "drive",
    /// The drive is busy all the time, mostly with I/Os too small for its bandwidth.
    DriveIops = "drive IOPS",
    /// The drive is slower with so many I/Os in flight.
    DeepQueue = "deep queue",
    /// I/Os wait because the drive already serves as many as it can at once.
    DriveParallelism = "drive parallelism",
    /// The cores copy all the time, or users wait for copies more than for anything else.
    Memory = "memory copies",
    /// Something is copied between host and GPU memory all the time.
    GpuLink = "GPU link",
    /// As many I/Os are in flight as the queue depth allows.
    QueueDepth = "queue depth",
    /// As many I/Os are in flight as `--io-buffer-mb` has buffers for.
    IoBuffers = "I/O buffers",
    /// Requests wait for one of the `--max-inflight-requests` serving slots.
    ServingSlots = "serving slots",
    /// Users wait for I/Os, but too few are in flight to fill the drive: the time of each counts,
    /// its transfer as well as the drive's latency.
    DriveLatency = "I/O time",
    /// The users ask for no more: their requests arrive at set times, or thinking and generating
    /// take up the time between them.
    Users = "users",
}
}

impl Binding {
    /// Whether the drive has no more to give as it is used.
    #[must_use]
    pub fn is_drive(self) -> bool {
        match self {
            Binding::Drive
            | Binding::DriveIops
            | Binding::DeepQueue
            | Binding::DriveParallelism => true,
            Binding::Memory
            | Binding::GpuLink
            | Binding::QueueDepth
            | Binding::IoBuffers
            | Binding::ServingSlots
            | Binding::DriveLatency
            | Binding::Users => false,
        }
    }
}

impl std::fmt::Display for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

figures! {
/// Figures that only a simulated run can report.
pub struct SimulationReport {
    /// Name of the simulated drive.
    pub device: Same<String>,
    /// Where the figures of the simulated drive come from.
    pub source: Same<String>,
    /// Share of the window in which the drive was busy, from 0 to 1.
    pub drive_busy_share: OverTime<f64>,
    /// Share of the window in which I/Os waited because the drive already served as many as it can
    /// at once, from 0 to 1.
    pub drive_crowded_share: OverTime<f64>,
    /// Share of the window in which a core was busy copying, from 0 to 1; that of the busiest
    /// shard, since a user's requests are served by one.
    pub memory_busy_share: OverTime<f64>,
    /// Share of the window in which data was copied between host and GPU memory, from 0 to 1; null
    /// without a GPU tier.
    pub gpu_link_busy_share: OverTime<f64>,
    /// Resource that limited the run.
    pub binds: Same<Binding>,
    /// Why `binds` is considered the limit, as a sentence.
    pub because: Same<String>,
    /// The logical trace that was written; null when none was asked for, and in merged results:
    /// each wrote its own.
    pub io_trace: OfRun<IoTraceReport>,
}
}

/// Name of the drive of a run that has none, whose I/Os take next to no time: a logical run.
pub const NO_DRIVE: &str = "none";
/// Where its figures come from, by which it is told from a described drive of that name.
pub const NO_DRIVE_SOURCE: &str = "every I/O takes 1 µs";

/// Whether a run had no drive, not even a described one.
pub fn is_without_drive(result: &RunResult) -> bool {
    result.simulation.as_ref().is_some_and(SimulationReport::is_without_drive)
}

/// A logical trace that the run wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct IoTraceReport {
    /// Name of the file that the trace was written to.
    pub file: String,
    /// Number of operations in the trace.
    pub rows: u64,
}

impl SimulationReport {
    /// Whether there was no drive, not even a described one. Merged results say so too, when all of
    /// them had none.
    pub fn is_without_drive(&self) -> bool {
        let is = |known: &Same<String>, wanted| known.as_ref().is_some_and(|text| text == wanted);
        is(&self.device, NO_DRIVE) && is(&self.source, NO_DRIVE_SOURCE)
    }

    /// Name of the simulated drive; merged results of different drives have none of their own.
    #[must_use]
    pub fn device_name(&self) -> &str {
        self.device.as_ref().map_or("several drives", String::as_str)
    }

    /// Sentence that warns that the figures are those of a simulation.
    #[must_use]
    pub fn told(&self) -> String {
        match self.is_without_drive() {
            true => "this run is a logical trace: no drive moved a byte, so its rates and \
                     latencies say nothing about any storage"
                .to_owned(),
            false => format!(
                "this run was simulated with the device description {}: no drive moved a byte, \
                 and its figures are those of a model",
                self.device_name()
            ),
        }
    }

    /// The report of a run on that drive.
    #[must_use]
    pub fn of(
        (device, source): (String, String),
        figures: SimulationFigures,
        io_trace: Option<IoTraceReport>,
        result: &RunResult,
    ) -> SimulationReport {
        let (binds, mut because) = binding(figures, result);
        if result.plan.enable_autoscaling {
            // It tried few users and many, and neither had these figures.
            because.push_str(", over all steps of the search");
        }
        SimulationReport {
            device: Same::of(device),
            source: Same::of(source),
            drive_busy_share: OverTime::of(figures.drive_busy_share),
            drive_crowded_share: OverTime::of(figures.drive_crowded_share),
            memory_busy_share: OverTime::of(figures.memory_busy_share),
            gpu_link_busy_share: OverTime::maybe(
                (result.plan.gpu_memory_bytes > 0).then_some(figures.gpu_link_busy_share),
            ),
            binds: Same::of(binds),
            because: Same::of(because),
            io_trace: OfRun::maybe(io_trace),
        }
    }
}

/// A share in whole percent, as people read it.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn binding(figures: SimulationFigures, result: &RunResult) -> (Binding, String) {
    let busy = percent(figures.drive_busy_share);
    let (in_flight, places) = io_places(result);
    let queued = of_request_time(result, result.requests.queued.sum_ns());
    let is_deep = in_flight >= BUSY_SHARE * places;
    let is_waited_for = figures.drive_crowded_share >= BUSY_SHARE || queued >= QUEUED_SHARE;
    let [room, permits] = [&result.requests.room, &result.requests.permit];
    let is_for_permits = is_waited_for_in(result, permits);
    let filled_from = match is_for_permits {
        true => FILLED_SHARE_BEHIND_PERMITS,
        false => FILLED_SHARE,
    };
    let is_filled = in_flight >= filled_from * places;
    let busy_from = match is_waited_for {
        _ if is_for_permits && is_filled => BUSY_SHARE_BEHIND_QUEUE * (in_flight / places).min(1.0),
        _ if is_deep || is_for_permits || is_waited_for_in(result, room) => BUSY_SHARE_BEHIND_QUEUE,
        true => NEARLY_BUSY_SHARE,
        false => BUSY_SHARE,
    };
    if figures.drive_slowed_share >= SLOWED_SHARE {
        let slowed = percent(figures.drive_slowed_share);
        let why = format!(
            "the drive was busy {busy} of the time, and a shallower queue would have saved it \
             {slowed} of the time"
        );
        return (Binding::DeepQueue, why);
    }
    if figures.drive_busy_share >= busy_from {
        let (binds, mut why) = drive_binding(&figures);
        if is_for_permits {
            why.push_str(", and requests waited for permits until its I/Os had ended");
        }
        return (binds, why);
    }
    let only = if figures.drive_busy_share < HALF_BUSY_SHARE { " only" } else { "" };
    let drive = format!("the drive was busy {busy} of the time{only}");
    if figures.drive_crowded_share >= BUSY_SHARE {
        let crowded = percent(figures.drive_crowded_share);
        let why = format!("{drive}; I/Os waited {crowded} of the time for it to take them");
        return (Binding::DriveParallelism, why);
    }
    if figures.memory_busy_share >= BUSY_SHARE {
        let busy = percent(figures.memory_busy_share);
        return (Binding::Memory, format!("a core was busy copying {busy} of the time"));
    }
    if figures.gpu_link_busy_share >= BUSY_SHARE {
        let busy = percent(figures.gpu_link_busy_share);
        let why = format!("{drive}; the link to the GPUs was busy {busy} of the time");
        return (Binding::GpuLink, why);
    }
    // More of them would only wait in the drive.
    let drive_places = figures.drive_places as f64;
    if is_deep && drive_places > 0.0 && in_flight >= BUSY_SHARE * drive_places {
        let why = format!(
            "{drive}; {in_flight:.1} I/Os were in flight, and it serves {drive_places:.0} at a time"
        );
        return (Binding::DriveParallelism, why);
    }
    if is_deep {
        return depth_binding(&drive, result);
    }
    let is_queued = queued >= if is_paced(result) { QUEUED_SHARE_PACED } else { QUEUED_SHARE };
    let found = match is_queued {
        true => {
            let why = format!(
                "{drive}; requests waited {} of their time for one of {} serving slots",
                percent(queued),
                result.plan.max_inflight_requests
            );
            (Binding::ServingSlots, why)
        }
        false => users_binding(&drive, result),
    };
    let has_drive_places = drive_places == 0.0 || places < drive_places;
    let is_room_made = is_waited_for_in(result, room) && Evicted::of(result).are_written();
    let is_for_places = match found.0 {
        Binding::DriveLatency => true,
        Binding::ServingSlots => !is_room_made || is_for_permits,
        _ => false,
    };
    if is_for_places && is_filled && has_drive_places {
        return depth_binding(&drive, result);
    }
    match found.0 {
        Binding::ServingSlots if is_room_made => room_binding(&drive, &figures),
        _ => found,
    }
}

/// Queues, or their buffers, that are full.
fn depth_binding(drive: &str, result: &RunResult) -> (Binding, String) {
    let (in_flight, places) = io_places(result);
    let (binds, of) = match has_buffers_for_all(result) {
        true => (Binding::QueueDepth, "all shards"),
        false => (Binding::IoBuffers, "the buffers of all shards"),
    };
    let why = format!(
        "{drive}; {in_flight:.1} of at most {places:.0} I/Os were in flight, of {of} together"
    );
    (binds, why)
}

/// A drive that is busy, by its bandwidth or by the number of its I/Os.
fn drive_binding(figures: &SimulationFigures) -> (Binding, String) {
    let mut why = format!("the drive was busy {} of the time", percent(figures.drive_busy_share));
    if figures.drive_slowed_share >= SLOWED_SHARE_TOLD {
        let slowed = percent(figures.drive_slowed_share);
        why.push_str(&format!(", {slowed} of it only because its queue was deep"));
    }
    match figures.drive_iops_share >= figures.drive_busy_share / 2.0 {
        true => (Binding::DriveIops, format!("{why}, mostly with I/Os too small to fill it")),
        false => (Binding::Drive, why),
    }
}

/// Requests in service wait for room that the drive makes by writing, and others for their slots:
/// in slots of their own these would wait for the same room. What the drive was short of for most
/// of the time is what made it slow; short of nothing, its I/Os take too long.
fn room_binding(drive: &str, figures: &SimulationFigures) -> (Binding, String) {
    let (busy, crowded) = (figures.drive_busy_share, figures.drive_crowded_share);
    if busy.max(crowded) < WAITING_SHARE {
        let why = format!(
            "{drive}; requests waited for the room that its I/Os make, too few at a time to fill it"
        );
        return (Binding::DriveLatency, why);
    }
    if crowded > busy {
        let why = format!(
            "{drive}; I/Os waited {} of the time for it to take them, and requests for the room \
             that they make",
            percent(crowded)
        );
        return (Binding::DriveParallelism, why);
    }
    let (binds, why) = drive_binding(figures);
    (binds, format!("{why}, and requests waited for the room that it makes"))
}

/// Whether the queues' depth, rather than the memory of the buffers, bounds the I/Os in flight.
fn has_buffers_for_all(result: &RunResult) -> bool {
    deep_queue::places(result, true) >= deep_queue::queues(result) * u64::from(result.depth())
}

/// Mean number of I/Os in flight (Little's law), and its limit: of as many queues as requests can
/// be in service, since the I/Os of an entry go to one.
fn io_places(result: &RunResult) -> (f64, f64) {
    let engine = &result.engine;
    let waited_ns = engine.io_read.latency.sum_ns() + engine.io_write.latency.sum_ns();
    let window_ns = (result.window.seconds * 1e9).max(1.0);
    // It is not yet said in the result that it is one of a simulation.
    let plan = &result.plan;
    let has_users = !matches!(plan.traffic, Traffic::Trace { .. })
        && plan.arrival == Arrival::Closed
        && !plan.enable_autoscaling;
    let users = if has_users { plan.users } else { u32::MAX };
    let served = users.min(plan.max_inflight_requests);
    let used_share = (f64::from(served) / deep_queue::queues(result) as f64).min(1.0);
    (waited_ns as f64 / window_ns, deep_queue::places(result, true) as f64 * used_share)
}

/// A share of all that requests took.
fn of_request_time(result: &RunResult, ns: u128) -> f64 {
    let total: u128 = result.requests.end_to_end.iter().map(|class| class.sum_ns()).sum();
    if total > 0 { ns as f64 / total as f64 } else { 0.0 }
}

/// Whether these waits take so much of the time in which requests are served that it is told.
fn is_waited_for_in(result: &RunResult, waits: &Histogram) -> bool {
    let waited = of_request_time(result, waits.sum_ns());
    let served = 1.0 - of_request_time(result, result.requests.queued.sum_ns());
    waited > 0.0 && waited >= SPACE_SHARE_TOLD * served
}

/// Whether requests arrive at set times, whatever was served.
fn is_paced(result: &RunResult) -> bool {
    let plan = &result.plan;
    match &plan.traffic {
        Traffic::Trace { .. } => plan.trace_speedup > 0.0 || plan.request_rate_per_s > 0.0,
        _ => plan.arrival != Arrival::Closed,
    }
}

/// Nothing is used up: do users wait for the answers, or the answers for users?
fn users_binding(drive: &str, result: &RunResult) -> (Binding, String) {
    let plan = &result.plan;
    let is_paced = is_paced(result);
    let (waiting, slots) = (result.workload.queued_at_end, plan.max_inflight_requests);
    if is_paced && waiting > u64::from(slots) {
        let why = format!(
            "{drive}; requests arrive at set times, faster than they were served: at the end \
             {waiting} waited for one of {slots} serving slots"
        );
        return (Binding::ServingSlots, why);
    }
    if is_paced {
        let why =
            format!("{drive}; requests arrive at set times, and no faster than they were served");
        return (Binding::Users, why);
    }
    let requests = &result.requests;
    // Room that the drive makes by writing is waited for as its I/Os are, and so are the permits
    // that others hold meanwhile.
    let is_room_made = Evicted::of(result).are_written();
    let room_ns = if is_room_made { requests.room.sum_ns() } else { 0 };
    let permit_ns = requests.permit.sum_ns();
    let io = match (is_room_made, permit_ns) {
        (true, 0) => "I/O and the room that it makes",
        (false, 0) => "I/O",
        (true, _) => "permits, I/O and the room that it makes",
        (false, _) => "permits and I/O",
    };
    let waited_ns = requests.storage_io.sum_ns() + room_ns + permit_ns;
    let waiting = match &plan.traffic {
        // Nobody thinks: the next request begins when one has ended. And how long the autoscaler's
        // users were there is not known here.
        Traffic::Trace { .. } => of_request_time(result, waited_ns),
        _ if plan.enable_autoscaling => of_request_time(result, waited_ns),
        _ => {
            let users_ns = f64::from(plan.users) * result.window.seconds * 1e9;
            // What unfinished requests waited for is not known.
            let unfinished_ns: u128 = requests.unfinished.iter().map(Histogram::sum_ns).sum();
            let waited_ns = waited_ns as f64;
            waited_ns / (users_ns - unfinished_ns as f64).max(waited_ns).max(1.0)
        }
    };
    if waiting < WAITING_SHARE {
        let why = format!(
            "{drive}; users waited {} of their time for {io} and copies, and thought, generated or \
             waited for other things in the rest",
            percent(waiting)
        );
        return (Binding::Users, why);
    }
    let [memory @ .., storage] = &result.engine.tiers;
    let of = |tier: &TierMetrics| tier.read.total.sum_ns() + tier.write.total.sum_ns();
    if memory.iter().map(of).sum::<u128>() > of(storage) + room_ns + permit_ns {
        let why = format!(
            "{drive}; users waited {} of their time, mostly for copies in memory",
            percent(waiting)
        );
        return (Binding::Memory, why);
    }
    let why = format!(
        "{drive}; users waited {} of their time for {io}, too few at a time to fill it",
        percent(waiting)
    );
    (Binding::DriveLatency, why)
}

#[cfg(test)]
mod tests {
    use ringfall_core::clock::Nanos;
    use ringfall_core::key::Tier;
    use ringfall_workloads::contract::Class;

    use super::*;
    use crate::testing::{busy, nothing};

    #[test]
    fn what_bound_a_search_is_told_of_all_its_steps() {
        let mut result = nothing();
        let because = |result: &RunResult| {
            let named = ("nvme".to_owned(), "measured".to_owned());
            let report = SimulationReport::of(named, SimulationFigures::default(), None, result);
            report.because.as_ref().cloned().unwrap()
        };
        let alone = because(&result);
        result.plan.enable_autoscaling = true;
        let searched = because(&result);
        assert!(!alone.contains("search"), "{alone}");
        assert!(searched.ends_with(", over all steps of the search"), "{searched}");
    }

    /// More depth was proposed to a run whose buffers were fewer, and more users to one whose entry
    /// had one queue of eight.
    #[test]
    fn io_buffers_bound_a_run_as_the_depth_of_the_queues_in_use_does() {
        let mut result = busy();
        result.window.seconds = 0.01;
        result.plan.arrival = Arrival::Closed;
        (result.plan.shards, result.plan.users) = (4, 8);
        (result.plan.io_size_bytes, result.plan.io_buffer_bytes) = (1 << 20, 4 << 20);
        result.plan.queue_depth = 64;
        assert_eq!(io_places(&result).1, 4.0);
        assert!(!has_buffers_for_all(&result));
        result.plan.io_buffer_bytes = 256 << 20;
        assert_eq!(io_places(&result).1, 256.0);
        assert!(has_buffers_for_all(&result));
        result.plan.users = 1;
        assert_eq!(io_places(&result).1, 64.0);
        // Requests that arrive at set times were held against the queues of all shards, too.
        (result.plan.arrival, result.plan.max_inflight_requests) = (Arrival::Open, 2);
        assert_eq!(io_places(&result).1, 128.0);
    }

    /// Fewer users were proposed to a drive with a quarter of its bandwidth in use.
    #[test]
    fn a_drive_that_many_small_ios_fill_is_not_out_of_bandwidth() {
        let of = |drive_iops_share| {
            let figures = SimulationFigures {
                drive_busy_share: 0.99,
                drive_iops_share,
                ..SimulationFigures::default()
            };
            binding(figures, &nothing()).0
        };
        assert_eq!((of(0.9), of(0.1)), (Binding::DriveIops, Binding::Drive));
    }

    /// More users were proposed to a drive of which a depth of 4 would have made 2.4 times as much.
    #[test]
    fn a_drive_that_a_deep_queue_slows_down_is_bound_by_that() {
        let of = |drive_busy_share, drive_slowed_share| {
            let figures = SimulationFigures {
                drive_busy_share,
                drive_slowed_share,
                ..SimulationFigures::default()
            };
            binding(figures, &nothing())
        };
        let [slowed, busy, fast] = [of(0.84, 0.63), of(0.99, 0.2), of(0.99, 0.01)];
        assert_eq!((slowed.0, busy.0), (Binding::DeepQueue, Binding::Drive));
        assert_eq!(busy.1, format!("{}, 20 % of it only because its queue was deep", fast.1));
    }

    /// More places were proposed to drives of which three times the bandwidth brought three times
    /// as much.
    #[test]
    fn a_drive_that_is_nearly_busy_and_waited_for_is_used_up() {
        let of = |drive_busy_share, drive_crowded_share| {
            let figures = SimulationFigures {
                drive_busy_share,
                drive_crowded_share,
                ..SimulationFigures::default()
            };
            binding(figures, &nothing()).0
        };
        assert_eq!((of(0.85, 0.95), of(0.7, 0.95)), (Binding::Drive, Binding::DriveParallelism));
        assert_ne!(of(0.85, 0.0), Binding::Drive);
    }

    /// A larger CPU tier was proposed to requests of which a faster drive served half as many more.
    #[test]
    fn a_drive_that_is_nearly_busy_while_room_is_waited_for_is_used_up() {
        let of = |room_ms, write_ms| {
            let mut result = busy();
            result.plan.arrival = Arrival::Closed;
            result.plan.users = 1;
            result.window.seconds = 0.1;
            let most_ns = result.requests.end_to_end_all().max_ns().unwrap();
            (0..3).for_each(|_| result.requests.room.record(most_ns));
            let row = &mut result.engine.evictions[Tier::Cpu.index()];
            row.room.record(Nanos::from_ms(room_ms).as_ns());
            row.write.record(Nanos::from_ms(write_ms).as_ns());
            let at = |drive_busy_share| {
                let figures =
                    SimulationFigures { drive_busy_share, ..SimulationFigures::default() };
                binding(figures, &result)
            };
            [at(0.77), at(0.5)]
        };
        let [nearly, idle] = of(20, 80);
        assert_eq!((nearly.0, idle.0), (Binding::Drive, Binding::DriveLatency), "{idle:?}");
        assert!(idle.1.contains("for I/O and the room that it makes, too few"), "{idle:?}");
        // Room in storage comes free as the I/Os end that hold it.
        let [nearly, idle] = of(80, 20);
        assert_eq!((nearly.0, idle.0), (Binding::Drive, Binding::Users), "{idle:?}");
    }

    /// More permits were proposed where they brought nothing: those who held them waited for the
    /// drive, or for places in its queues.
    #[test]
    fn permits_are_waited_for_as_long_as_their_holders_wait() {
        let of = |drive_busy_share, in_flight_share: f64| {
            let mut result = busy();
            result.plan.arrival = Arrival::Closed;
            (result.plan.shards, result.plan.users, result.plan.queue_depth) = (1, 1, 10);
            let window_ns = Nanos::from_ns_f64(result.window.seconds * 1e9).as_ns();
            let total: u128 = result.requests.end_to_end.iter().map(Histogram::sum_ns).sum();
            result.requests.permit.record((total as f64 * 0.7) as u64);
            result.requests.storage_io.record(window_ns);
            result.engine.io_read.latency = Histogram::new();
            result.engine.io_write.latency = Histogram::new();
            result
                .engine
                .io_write
                .latency
                .record((window_ns as f64 * 10.0 * in_flight_share) as u64);
            let drive_iops_share = drive_busy_share;
            let figures = SimulationFigures {
                drive_busy_share,
                drive_iops_share,
                ..SimulationFigures::default()
            };
            binding(figures, &result)
        };
        for (busy, in_flight, wanted) in [
            (0.78, 0.1, Binding::DriveIops),
            (0.7, 0.1, Binding::DriveLatency),
            // The tiers above storage took what was written in a part of the time.
            (0.6, 0.6, Binding::DriveIops),
            (0.1, 0.6, Binding::QueueDepth),
            (0.1, 0.4, Binding::DriveLatency),
        ] {
            let (binds, why) = of(busy, in_flight);
            assert_eq!(binds, wanted, "{busy} {in_flight}: {why}");
        }
        let told = "mostly with I/Os too small to fill it, and requests waited for permits until \
                    its I/Os had ended";
        assert!(of(0.6, 0.6).1.ends_with(told), "{:?}", of(0.6, 0.6));
    }

    /// A larger CPU tier was proposed to requests that waited for slots while those in service
    /// waited for its entries to be written: three times the tier brought 1 to 10 % where three
    /// times the bandwidth brought 57 to 77 %.
    #[test]
    fn slots_do_not_bind_requests_that_wait_for_the_drive_to_make_room() {
        let of = |room_ms, write_ms, drive_busy_share, drive_crowded_share| {
            let mut result = busy();
            result.plan.arrival = Arrival::Closed;
            result.plan.users = 1;
            result.window.seconds = 0.1;
            let total: u128 = result.requests.end_to_end.iter().map(Histogram::sum_ns).sum();
            let part = |share: f64| (total as f64 * share) as u64;
            result.requests.queued.record(part(0.4));
            result.requests.room.record(part(0.5));
            let row = &mut result.engine.evictions[Tier::Cpu.index()];
            row.room.record(Nanos::from_ms(room_ms).as_ns());
            row.write.record(Nanos::from_ms(write_ms).as_ns());
            let figures = SimulationFigures {
                drive_busy_share,
                drive_crowded_share,
                ..SimulationFigures::default()
            };
            binding(figures, &result)
        };
        for (busy, crowded, wanted, told) in [
            (0.74, 0.0, Binding::Drive, "74 % of the time, and requests waited for the room"),
            (0.07, 0.84, Binding::DriveParallelism, "I/Os waited 84 % of the time"),
            (0.17, 0.2, Binding::DriveLatency, "the room that its I/Os make, too few"),
        ] {
            let (binds, why) = of(20, 80, busy, crowded);
            assert!(binds == wanted && why.contains(told), "{binds:?}: {why}");
            // Storage has too little room for what is to be written.
            assert_eq!(of(80, 20, busy, crowded).0, Binding::ServingSlots);
        }
    }

    /// A larger queue depth was proposed where it brought nothing.
    #[test]
    fn a_drive_that_is_nearly_busy_behind_a_full_queue_is_used_up() {
        let mut result = nothing();
        result.plan.arrival = Arrival::Closed;
        (result.plan.shards, result.plan.users, result.plan.queue_depth) = (1, 4, 1);
        (0..10).for_each(|_| result.engine.io_read.latency.record(1_000_000_000));
        assert_eq!((result.window.seconds, io_places(&result).1), (10.0, 1.0));
        let of = |drive_busy_share| {
            binding(SimulationFigures { drive_busy_share, ..Default::default() }, &result).0
        };
        assert_eq!((of(0.78), of(0.7)), (Binding::Drive, Binding::QueueDepth));
    }

    /// More users were proposed to four, of whom two shared a queue of depth 1, with 1.73 of 2 I/Os
    /// in flight: three times the depth made them twice as fast.
    #[test]
    fn queues_that_users_fill_most_of_the_time_bind_them() {
        let of = |in_flight: u64| {
            let mut result = busy();
            result.plan.arrival = Arrival::Closed;
            (result.plan.shards, result.plan.users, result.plan.queue_depth) = (1, 1, 10);
            result.engine.io_read.latency = Histogram::new();
            result.engine.io_write.latency = Histogram::new();
            let window_ns = Nanos::from_ns_f64(result.window.seconds * 1e9).as_ns();
            result.requests.storage_io.record(window_ns);
            (0..in_flight).for_each(|_| result.engine.io_read.latency.record(window_ns));
            result.engine.tiers[Tier::Storage.index()].read.total.record(window_ns);
            binding(SimulationFigures::default(), &result)
        };
        let expected = (Binding::QueueDepth, Binding::DriveLatency);
        assert_eq!((of(8).0, of(5).0), expected, "{:?}", of(8));
    }

    /// More slots were proposed to requests whose I/Os kept 49 of 64 places in flight.
    #[test]
    fn slots_do_not_bind_requests_whose_ios_fill_most_of_the_queues() {
        let mut result = busy();
        result.plan.arrival = Arrival::Open;
        (result.plan.shards, result.plan.queue_depth) = (1, 10);
        let total: u128 = result.requests.end_to_end.iter().map(Histogram::sum_ns).sum();
        result.requests.queued.record((total as f64 * 0.6) as u64);
        let window_ns = Nanos::from_ns_f64(result.window.seconds * 1e9).as_ns();
        let mut of = |in_flight: u64| {
            result.engine.io_read.latency = Histogram::new();
            result.engine.io_write.latency = Histogram::new();
            (0..in_flight).for_each(|_| result.engine.io_read.latency.record(window_ns));
            binding(SimulationFigures::default(), &result)
        };
        let expected = (Binding::QueueDepth, Binding::ServingSlots);
        assert_eq!((of(8).0, of(7).0), expected, "{:?}", of(8));
    }

    /// A larger queue depth was proposed to a drive that served no more I/Os at a time.
    #[test]
    fn a_full_queue_is_as_deep_as_the_drive_has_places() {
        let mut result = nothing();
        result.plan.arrival = Arrival::Closed;
        (result.plan.shards, result.plan.users, result.plan.queue_depth) = (1, 4, 1);
        (0..10).for_each(|_| result.engine.io_read.latency.record(1_000_000_000));
        let of = |drive_places| {
            let figures = SimulationFigures { drive_places, ..SimulationFigures::default() };
            binding(figures, &result)
        };
        let [bound, deeper, any] = [of(1), of(2), of(0)];
        assert_eq!(bound.0, Binding::DriveParallelism);
        assert!(
            bound.1.ends_with("1.0 I/Os were in flight, and it serves 1 at a time"),
            "{bound:?}"
        );
        assert_eq!((deeper.0, any.0), (Binding::QueueDepth, Binding::QueueDepth));
    }

    /// Users whose requests were still waiting at the end were said to ask for no more.
    #[test]
    fn users_with_unfinished_requests_are_not_idle() {
        let mut result = busy();
        result.plan.arrival = Arrival::Closed;
        (result.plan.users, result.window.seconds) = (200, 100.0);
        assert_eq!(users_binding("", &result).0, Binding::Users);
        for _ in 0..200 {
            result.requests.record_unfinished(Class::Batch, 100_000_000_000);
        }
        assert_ne!(users_binding("", &result).0, Binding::Users);
    }

    /// More slots were proposed to requests that arrived at set times and were all served: each
    /// took longer with them.
    #[test]
    fn slots_bind_paced_requests_only_where_most_of_their_time_goes_to_waiting_for_one() {
        let mut result = busy();
        let total: u128 = result.requests.end_to_end.iter().map(Histogram::sum_ns).sum();
        let mut of = |arrival, share: f64| {
            result.plan.arrival = arrival;
            result.requests.queued = Histogram::new();
            result.requests.queued.record((total as f64 * share) as u64);
            binding(SimulationFigures::default(), &result).0
        };
        assert_eq!(of(Arrival::Closed, 0.2), Binding::ServingSlots);
        assert_ne!(of(Arrival::Poisson, 0.2), Binding::ServingSlots);
        assert_eq!(of(Arrival::Poisson, 0.6), Binding::ServingSlots);
    }

    #[test]
    fn requests_that_queue_up_did_have_to_wait() {
        let figures = SimulationFigures::default();
        let mut result = nothing();
        result.plan.arrival = Arrival::Open;
        let (binds, why) = binding(figures, &result);
        assert!(binds == Binding::Users && why.contains("no faster than they were"), "{why}");
        result.workload.queued_at_end = u64::from(result.plan.max_inflight_requests) + 3;
        let (binds, why) = binding(figures, &result);
        assert!(binds == Binding::ServingSlots && why.contains("times, faster than they"), "{why}");
    }

    /// "Busy 86 % of the time only" read as if the drive could do far more.
    #[test]
    fn a_drive_that_is_busy_most_of_the_time_is_not_busy_so_long_only() {
        let mut result = nothing();
        result.plan.arrival = Arrival::Open;
        let of = |drive_busy_share| {
            binding(SimulationFigures { drive_busy_share, ..Default::default() }, &result)
        };
        let (binds, why) = of(0.86);
        assert_eq!(binds, Binding::Users, "{why}");
        let told = "the drive was busy 86 % of the time; requests arrive at set times, and no \
                    faster than they were served";
        assert_eq!(why, told);
        assert!(of(0.3).1.starts_with("the drive was busy 30 % of the time only; "));
    }
}
