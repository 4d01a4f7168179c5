//! Facts that were counted, timed and found, as plain values: by the second, by the request, by the
//! cache, by the watchdog, by the kernel; a device's limits. A driver fills those that add up, a
//! run merges them, results are made of all.
//!
//! Not here: how facts are measured, interpreted or written.

use std::collections::BTreeMap;

mod block_layer;
mod cache;
mod depth;
mod drive;
mod drive_log;
mod files;
mod gpu;
mod layouts;
mod limits;
mod objects;
mod precondition;
mod replay;
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
pub use cache::{CacheStats, HIT_RATES_APART, Looks};
pub use depth::{DepthFigures, DepthReason, DepthStep, TriedDepth, best_depth, tried_depths};
pub use drive::{DriveOutcome, SlowDrive, bytes_by_drive, metrics_by_drive, slow_drives};
pub(crate) use drive::{busy_ns, moved_bytes};
pub use drive_log::{DriveAccount, DriveAnswer};
pub use files::{FileCounts, FileFailures, FileOperations};
pub use gpu::{GpuBacking, GpuOutcome, GpuTransferOutcome};
pub use layouts::{EngineLimits, LayoutPhase, LayoutRun, OperationFigures};
pub(crate) use limits::share_of_limits;
pub use limits::{
    Best, Bursts, Limit, Measured, ROOFLINE_VERSION, RankOfLimits, Roofline, SUNK_SHARE, Together,
    Usual,
};
pub use objects::{EndpointCounts, ObjectCounts, RetryCounts};
pub use precondition::PreconditionReport;
pub use replay::{CallsInFlight, ReplayLatency, ReplayedOperations};
pub use requests::{RequestSample, RequestStats, SAMPLES_MAX, class_index};
pub use run::RunFigures;
pub use shortage::TierShortage;
pub use simulation::SimulationFigures;
pub use source::{FeedFigures, SourceFacts};
pub use survival::{Quantile, ShareWithin, Survival};
pub use timeline::{TimelineDirection, TimelineSecond, TimelineTier};
pub use window::{KernelSecond, TierState, WatchdogReport, Window};

/// Counts that belong together and add up part by part.
pub trait Adds: Clone {
    /// The counts of both; none where they are of different things.
    #[must_use]
    fn plus(self, other: &Self) -> Option<Self>;
}

/// Declares a struct of counts that add up with `+=` under their names.
#[macro_export]
macro_rules! summed {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$field += other.$field;)*
            }
        }
    };
}
use summed;

/// Sum of the counts of each key, at most the largest number.
pub(crate) fn counts_by_key<K: Ord>(counts: impl Iterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for (key, count) in counts {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
    sums
}

/// `part / whole`; `None` when there is nothing to divide by: a figure that was not measured.
#[expect(clippy::cast_precision_loss, reason = "a report figure")]
pub fn quotient(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
