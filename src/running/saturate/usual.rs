//! Bandwidth that a run is to expect: of I/Os of its size, with as many in flight as it has, and
//! over some time rather than in the best moment.

use std::time::{Duration, Instant};

use ringfall_core::units::MIB;
use ringfall_model::facts::{Limit, Usual};

use super::measure::RoundPace;
use super::search::Point;
use super::{Bench, SaturateError, Watcher};

/// Part of the time of the whole search that is left for this.
pub(super) const USUAL_SHARE: f64 = 0.3;
/// Rounds in which every load has a window.
const ROUNDS: u32 = 4;
/// One window.
const WINDOW: RoundPace = RoundPace {
    ramp: Duration::from_millis(50),
    round: Duration::from_millis(250),
    rounds_max: 1,
    tail: Duration::ZERO,
};
/// I/Os of 1 MiB in flight on a shard: at least, and at most, which is the depth of a run without
/// `--queue-depth`.
pub const RUN_DEPTHS: [u32; 2] = [4, 64];
/// Most I/Os in flight of a run without `--queue-depth`, all shards together.
const RUN_DEPTH_ALL: u64 = 1_024;

/// Depth of the runs whose bandwidth is measured: one shard alone has the depth of the limits in
/// flight, and all shards together more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDepth {
    /// Every shard has the depth of the limits.
    OfLimits,
    /// Every shard has the depth of a run without `--queue-depth`.
    Standard,
}

/// I/Os of 1 MiB in flight with which the limits are reached, within what a shard of a run may
/// have.
#[must_use]
pub fn run_depth(limits: &[Limit]) -> u32 {
    let in_flight_bytes = limits.iter().map(|limit| {
        let best = &limit.bandwidth.best;
        u64::from(best.io_bytes) * u64::from(best.depth)
    });
    let depth = in_flight_bytes.max().unwrap_or(0).div_ceil(MIB);
    u32::try_from(depth).unwrap_or(u32::MAX).clamp(RUN_DEPTHS[0], RUN_DEPTHS[1])
}

impl Bench<'_> {
    /// Measures the bandwidth that runs are to expect, until `until` at the latest, but for one
    /// window of each load.
    pub(super) fn usual(
        &self,
        limits: &mut [Limit],
        depth: RunDepth,
        until: Option<Instant>,
        watcher: &mut dyn Watcher,
    ) -> Result<(), SaturateError> {
        let points = self.usual_points(run_depth(limits), depth);
        let loads: Vec<(usize, Point)> = (0..limits.len())
            .flat_map(|limit| points.iter().map(move |point| (limit, *point)))
            .collect();
        let mut windows = vec![Vec::new(); loads.len()];
        let round = WINDOW.shortest() * loads.len() as u32;
        for number in 0..ROUNDS {
            if number > 0 && until.is_some_and(|until| Instant::now() + round > until) {
                break;
            }
            for ((limit, point), rates) in loads.iter().zip(&mut windows) {
                let percent = limits[*limit].read_percent;
                let (measured, _) = self.measure_alone(*point, percent, &WINDOW, None, watcher)?;
                rates.push(measured.bytes_per_s);
            }
        }
        for ((limit, point), rates) in loads.iter().zip(&windows) {
            limits[*limit].usual.push(usual_of(*point, rates));
        }
        Ok(())
    }

    /// Loads of one shard alone and of all together, where these differ.
    fn usual_points(&self, shard_depth: u32, depth: RunDepth) -> Vec<Point> {
        let settings = self.settings;
        let io_bytes = (MIB as u32).clamp(settings.io_bytes.0, settings.io_bytes.1);
        let threads = settings.cpus.len() as u64;
        let deep = match depth {
            RunDepth::OfLimits => u64::from(shard_depth) * threads,
            RunDepth::Standard => (u64::from(RUN_DEPTHS[1]) * threads).min(RUN_DEPTH_ALL),
        };
        let point = |ios: u64| {
            let in_flight = (ios * MIB).min(settings.buffer_bytes_max).min(self.range_bytes);
            let ios = (in_flight / u64::from(io_bytes)).clamp(1, settings.depth_max.into());
            // At most `depth_max`.
            Point { io_bytes, depth: ios as u32 }
        };
        let mut points = vec![point(u64::from(shard_depth)), point(deep)];
        points.dedup();
        points
    }
}

fn usual_of(point: Point, rates: &[f64]) -> Usual {
    Usual {
        in_flight_bytes: u64::from(point.io_bytes) * u64::from(point.depth),
        bytes_per_s: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
        bytes_per_s_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        bytes_per_s_max: rates.iter().copied().fold(0.0, f64::max),
    }
}
