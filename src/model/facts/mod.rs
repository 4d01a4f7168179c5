//! Facts that were counted, timed and found, as plain values: by the second, by the request, by the
//! cache, by the watchdog, by the kernel; a device's limits. A driver fills those that add up, a
//! run merges them, results are made of all.
//!
//! Not here: how facts are measured, interpreted or written.

mod block_layer;
mod cache;
mod depth;
mod drive;
mod gpu;
mod limits;
mod objects;
mod precondition;
mod requests;
mod run;
mod shortage;
mod simulation;
mod source;
pub mod steady;
mod survival;
mod timeline;
mod window;

pub use block_layer::{BlockDirection, BlockTraceFigures, Bucket, HeatCell, SizeCell};
pub use cache::{CacheStats, Looks};
pub use depth::{DepthFigures, DepthReason, DepthStep};
pub use drive::{DriveOutcome, bytes_by_drive, metrics_by_drive, slow_drives};
pub use gpu::{GpuBacking, GpuOutcome, GpuTransferOutcome};
pub use limits::{
    Best, Limit, Measured, ROOFLINE_VERSION, RankOfLimits, Roofline, SUNK_SHARE, Together,
};
pub use objects::{EndpointCounts, ObjectCounts, RetryCounts};
pub use precondition::PreconditionReport;
pub use requests::{RequestSample, RequestStats, SAMPLES_MAX, class_index};
pub use run::RunFigures;
pub use shortage::TierShortage;
pub use simulation::SimulationFigures;
pub use source::{FeedFigures, SourceFacts};
pub use survival::{Quantile, ShareWithin, Survival};
pub use timeline::{TimelineDirection, TimelineSecond, TimelineTier};
pub use window::{KernelSecond, TierState, WatchdogReport, Window};

/// `part / whole`; `None` when there is nothing to divide by: a figure that was not measured.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a report figure")]
pub fn quotient(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
