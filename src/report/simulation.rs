//! `ringfall.simulation`: what a simulated run knows that a real one has to guess.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RunResult;
use crate::coordinator::SimulationFigures;

/// From this share of the time on, a resource counts as used up.
const BUSY_SHARE: f64 = 0.9;
/// From this share of a request's time on, waiting for a serving slot counts.
const QUEUED_SHARE: f64 = 0.1;

/// What a run is bound by: more of it, and only of it, would make the run faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The drive is busy all the time.
    Drive,
    /// The cores copy all the time.
    Memory,
    /// Requests wait for one of `--max-inflight-requests`.
    ServingSlots,
    /// I/Os are too few at a time to fill the drive: its latency is what counts.
    DriveLatency,
    /// The users ask for no more.
    Users,
}

impl Binding {
    /// As a table says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Binding::Drive => "drive",
            Binding::Memory => "memory copies",
            Binding::ServingSlots => "serving slots",
            Binding::DriveLatency => "drive latency",
            Binding::Users => "users",
        }
    }
}

/// A simulated run's own part of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulationReport {
    /// Name of the drive.
    pub device: String,
    /// Where its numbers are from.
    pub source: String,
    /// Share of the window in which the drive was busy.
    pub drive_busy_share: f64,
    /// Share of the window in which a core copied, the mean over the shards.
    pub memory_busy_share: f64,
    /// What the run was bound by.
    pub binds: Binding,
    /// Why that is thought to be so.
    pub because: String,
    /// The logical trace; null: none was asked for.
    pub io_trace: Option<IoTraceReport>,
}

/// A logical trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoTraceReport {
    /// The file.
    pub file: String,
    /// Operations in it.
    pub rows: u64,
}

impl SimulationReport {
    /// The report of a run on that drive.
    #[must_use]
    pub fn of(
        (device, source): (String, String),
        figures: SimulationFigures,
        io_trace: Option<IoTraceReport>,
        result: &RunResult,
    ) -> SimulationReport {
        let (binds, because) = binding(figures, result);
        SimulationReport {
            device,
            source,
            drive_busy_share: figures.drive_busy_share,
            memory_busy_share: figures.memory_busy_share,
            binds,
            because,
            io_trace,
        }
    }
}

fn binding(figures: SimulationFigures, result: &RunResult) -> (Binding, String) {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if figures.drive_busy_share >= BUSY_SHARE {
        let busy = percent(figures.drive_busy_share);
        return (Binding::Drive, format!("the drive was busy {busy} of the time"));
    }
    if figures.memory_busy_share >= BUSY_SHARE {
        let busy = percent(figures.memory_busy_share);
        return (Binding::Memory, format!("each core copied {busy} of the time"));
    }
    let requests = &result.requests;
    let total: u128 = requests.end_to_end.iter().map(|class| class.sum_ns()).sum();
    let share = |ns: u128| if total > 0 { ns as f64 / total as f64 } else { 0.0 };
    let queued = share(requests.queued.sum_ns());
    let drive =
        format!("the drive was busy {} of the time only", percent(figures.drive_busy_share));
    if queued >= QUEUED_SHARE {
        let why = format!(
            "{drive}; requests waited {} of their time for one of {} serving slots",
            percent(queued),
            result.plan.max_inflight_requests
        );
        return (Binding::ServingSlots, why);
    }
    let storage = result.engine.io_read.bytes + result.engine.io_write.bytes > 0;
    let waiting = share(requests.storage_io.sum_ns());
    if storage && waiting >= 0.5 {
        let why = format!(
            "{drive}; requests spent {} of their time in I/O, too few at a time to fill it",
            percent(waiting)
        );
        return (Binding::DriveLatency, why);
    }
    let why = format!(
        "{drive}; requests spent {} of their time generating and thinking time lay between them",
        percent(share(requests.generation.sum_ns()))
    );
    (Binding::Users, why)
}
