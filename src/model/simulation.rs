//! `ringfall.simulation`: what a simulated run knows that a real one has to guess.

use ringfall_core::named;
use serde::{Deserialize, Serialize};

use crate::RunResult;
use crate::facts::SimulationFigures;
use crate::figures::figure::{OfRun, OverTime, Same, shapes};
use crate::figures::merge::figures;

shapes!(Alternative, Binding, IoTraceReport);

/// From this share of the time on that a drive is busy, its bandwidth rather than the time of each
/// I/O limits.
const BUSY_SHARE: f64 = 0.5;
/// Requests below which another seed often names another resource: of six seeds with 240 to 490
/// requests, three did.
const REQUESTS_FEW: u64 = 1_000;
/// From so many times the speed on, more of a resource makes requests faster.
pub(crate) const FASTER_MIN: f64 = 1.05;

named! {
/// Bottleneck of a simulated run: the resource of which more makes its requests faster, before any
/// other.
#[derive(Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Bytes that the drive moves a second.
    Drive = "drive bandwidth",
    /// I/Os that the drive serves a second.
    DriveIops = "drive IOPS",
    /// The drive is slower with so many I/Os in flight.
    DeepQueue = "deep queue",
    /// I/Os that the drive serves at a time.
    DriveParallelism = "drive parallelism",
    /// Time of each I/O, its transfer as well as the drive's latency: too few are in flight to fill
    /// the drive.
    DriveLatency = "I/O time",
    /// Bytes that a core copies a second.
    Memory = "memory copies",
    /// Bytes that are copied a second between host and GPU memory.
    GpuLink = "GPU link",
    /// I/Os that may be in flight (`--queue-depth`).
    QueueDepth = "queue depth",
    /// I/Os that `--io-buffer-mb` has buffers for.
    IoBuffers = "I/O buffers",
    /// Threads that move the files of an engine's layout (`--layout`).
    LayoutThreads = "layout threads",
    /// Requests that are served at a time (`--max-inflight-requests`).
    ServingSlots = "serving slots",
    /// Permits to allocate (`--max-concurrent-allocs`).
    Permits = "allocation permits",
    /// Shards, each of which has a core and a queue.
    Shards = "shards",
    /// Capacity of the GPU tier.
    GpuTier = "GPU tier",
    /// Capacity of the CPU tier.
    CpuTier = "CPU tier",
    /// Capacity of the storage tier.
    StorageTier = "storage tier",
    /// Tokens that are generated a second.
    Generation = "generation",
    /// Tokens that are computed again a second where they were not found.
    Recomputation = "recomputation",
    /// None of these: requests spend their time on each of them, or on none.
    Users = "users",
}
}

impl std::fmt::Display for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Runs with more of one resource each, simulated beside another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alternatives {
    /// Each with its gain.
    pub tried: Vec<Alternative>,
    /// Beginning of the window that all of them had, s.
    pub window_s: u64,
    /// Number of requests that finished in it without more of anything.
    pub requests: u64,
}

/// A run that had more of one resource, simulated beside another with the same users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Alternative {
    /// Resource of which it had more.
    pub resource: Binding,
    /// Difference from the other run, in words that follow "with".
    pub with: String,
    /// Mean time of the other run's requests ÷ that of its own, each from intended arrival to end.
    pub times_faster: f64,
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
    /// Resource that limited the run: that of the alternative with the fastest requests, where the
    /// bandwidth of a drive that was idle half of the time counts as the time of its I/Os; null
    /// where none was simulated.
    pub binds: Same<Binding>,
    /// Why `binds` is considered the limit, or why none is named, as a sentence.
    pub because: Same<String>,
    /// The same run with more of one resource, each that its requests used; null where none was
    /// simulated.
    pub alternatives: Same<Vec<Alternative>>,
    /// Beginning of the window that the alternatives and the run beside them had, s: of a long run
    /// a part; null without alternatives.
    pub alternatives_window_s: Same<u64>,
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
    pub fn device_name(&self) -> &str {
        self.device.as_ref().map_or("several drives", String::as_str)
    }

    /// Sentence that warns that the figures are those of a simulation.
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
    pub fn of(
        (device, source): (String, String),
        figures: SimulationFigures,
        io_trace: Option<IoTraceReport>,
        alternatives: Result<Alternatives, String>,
        result: &RunResult,
    ) -> SimulationReport {
        let (alternatives, why_none) = match alternatives {
            Ok(alternatives) => (alternatives, None),
            Err(why) => (Alternatives::default(), Some(why)),
        };
        let Alternatives { tried, window_s, requests } = alternatives;
        let shares = (figures.drive_busy_share, figures.drive_crowded_share);
        let bound = bound(&tried, shares);
        let because = bound.as_ref().map(|(_, because)| {
            let part = match window_s < result.plan.duration_s {
                true => format!("by its first {window_s} s, "),
                false => String::new(),
            };
            let few = match requests < REQUESTS_FEW {
                true => format!(
                    "; of {requests} requests, so that another --seed or a longer --duration may \
                     tell otherwise"
                ),
                false => String::new(),
            };
            format!("{part}{because}{few}")
        });
        let window_s = (!tried.is_empty()).then_some(window_s);
        SimulationReport {
            device: Same::of(device),
            source: Same::of(source),
            drive_busy_share: OverTime::of(figures.drive_busy_share),
            drive_crowded_share: OverTime::of(figures.drive_crowded_share),
            memory_busy_share: OverTime::of(figures.memory_busy_share),
            gpu_link_busy_share: OverTime::maybe(
                (result.plan.gpu_memory_bytes > 0).then_some(figures.gpu_link_busy_share),
            ),
            binds: Same::maybe(bound.as_ref().map(|(binds, _)| *binds)),
            because: Same::maybe(because.or(why_none)),
            alternatives: Same::maybe((!tried.is_empty()).then_some(tried)),
            alternatives_window_s: Same::maybe(window_s),
            io_trace: OfRun::maybe(io_trace),
        }
    }
}

/// A share in whole percent, as people read it.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The resource of which more brings most, and what shows it, by the shares of time in which the
/// drive was busy and in which it was crowded; none where nothing was tried.
pub(crate) fn bound(
    tried: &[Alternative],
    (busy, crowded): (f64, f64),
) -> Option<(Binding, String)> {
    let mut ordered: Vec<&Alternative> = tried.iter().collect();
    ordered.sort_by(|one, other| other.times_faster.total_cmp(&one.times_faster));
    let first = ordered.first()?;
    let drive = match crowded > busy {
        true => format!("I/Os waited {} of the time for the drive to take them", percent(crowded)),
        false => format!("the drive was busy {} of the time", percent(busy)),
    };
    if first.times_faster < FASTER_MIN {
        let why = format!(
            "no resource holds requests up by itself: the most, {:.2} times as fast, would be with \
             {}; {drive}",
            first.times_faster, first.with
        );
        return Some((Binding::Users, why));
    }
    let told: Vec<String> = ordered
        .iter()
        .take_while(|one| one.times_faster >= FASTER_MIN)
        .take(2)
        .map(|one| format!("{:.2} times as fast with {}", one.times_faster, one.with))
        .collect();
    let binds = match first.resource {
        Binding::Drive if busy.max(crowded) < BUSY_SHARE => Binding::DriveLatency,
        resource => resource,
    };
    Some((binds, format!("requests would be {}; {drive}", told.join(", and "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::nothing;

    fn report(alternatives: &[(Binding, &str, f64)]) -> SimulationReport {
        let figures = SimulationFigures { drive_busy_share: 0.4, ..SimulationFigures::default() };
        let named = ("nvme".to_owned(), "measured".to_owned());
        let of = |&(resource, with, times_faster): &(Binding, &str, f64)| Alternative {
            resource,
            with: with.to_owned(),
            times_faster,
        };
        let tried = alternatives.iter().map(of).collect();
        let mut result = nothing();
        result.plan.duration_s = 60;
        let alternatives = Alternatives { tried, window_s: 20, requests: 31 };
        SimulationReport::of(named, figures, None, Ok(alternatives), &result)
    }

    #[test]
    fn the_resource_of_which_more_brings_most_binds() {
        let depth = (Binding::QueueDepth, "a queue depth of 8", 1.5);
        let drive = (Binding::Drive, "twice the drive's bandwidth", 1.25);
        let latency = (Binding::DriveLatency, "half the drive's latency", 0.97);
        let report = report(&[drive, depth, latency]);
        assert_eq!(report.binds.known(), Some(Binding::QueueDepth));
        let told = "by its first 20 s, requests would be 1.50 times as fast with a queue depth of \
                    8, and 1.25 times \
                    as fast with twice the drive's bandwidth; the drive was busy 40 % of the \
                    time; of 31 requests, so that another --seed or a longer --duration may tell \
                    otherwise";
        assert_eq!(report.because.as_ref().unwrap(), told);
        assert_eq!(report.alternatives.as_ref().map(Vec::len), Some(3));
    }

    #[test]
    fn nothing_binds_by_itself_where_nothing_brings_much() {
        let report = report(&[(Binding::Drive, "twice the drive's bandwidth", 1.04)]);
        assert_eq!(report.binds.known(), Some(Binding::Users));
        let because = report.because.as_ref().unwrap();
        assert!(because.contains("1.04 times as fast, would be with twice the drive"), "{because}");
    }

    #[test]
    fn the_bandwidth_of_an_idle_drive_is_the_time_of_its_ios() {
        let twice = [Alternative {
            resource: Binding::Drive,
            with: "twice the drive's bandwidth".to_owned(),
            times_faster: 1.8,
        }];
        let of = |busy, crowded| bound(&twice, (busy, crowded)).unwrap();
        assert_eq!(of(0.2, 0.0).0, Binding::DriveLatency);
        assert_eq!(of(0.9, 0.0).0, Binding::Drive);
        let (binds, why) = of(0.2, 0.99);
        assert!(binds == Binding::Drive && why.contains("I/Os waited 99 % of the time"), "{why}");
    }

    #[test]
    fn what_binds_is_unknown_where_nothing_was_tried() {
        let report = report(&[]);
        assert!(report.binds.is_unknown() && report.because.is_unknown());
        assert!(report.alternatives.is_unknown() && report.alternatives_window_s.is_unknown());
        let named = ("nvme".to_owned(), "measured".to_owned());
        let figures = SimulationFigures::default();
        let why = Err("its trace can't be read twice".to_owned());
        let report = SimulationReport::of(named, figures, None, why, &nothing());
        assert!(report.binds.is_unknown());
        assert_eq!(report.because.as_ref().unwrap(), "its trace can't be read twice");
    }
}
