//! Bandwidth that a run is to expect: of I/Os of its size, with as many in flight as it has, and
//! over some time rather than in the best moment.

use std::time::{Duration, Instant};

use ringfall_core::units::MIB;
use ringfall_model::facts::{Limit, Usual};

use super::measure::RoundPace;
use super::search::Point;
use super::{Bench, SaturateError, SaturateSettings, Watcher};

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

/// Runs whose bandwidth is measured, beside that with the depth of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDepth {
    /// With the depth of the limits on every shard: all of them at once.
    OfLimits,
    /// Without `--queue-depth`: one shard alone, which has about as much with a queue so deep as
    /// all have together.
    Standard,
}

/// I/Os of 1 MiB in flight with which the limits are reached, within what a shard of a run may
/// have.
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
        let points = points(self.settings, self.range_bytes, run_depth(limits), depth);
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
}

/// The two loads, the shallower first, or one where they are the same.
fn points(
    settings: &SaturateSettings,
    range_bytes: u64,
    shard_depth: u32,
    depth: RunDepth,
) -> Vec<Point> {
    let deep = match depth {
        RunDepth::OfLimits => u64::from(shard_depth) * settings.cpus.len() as u64,
        RunDepth::Standard => RUN_DEPTHS[1].into(),
    };
    let io_bytes = (MIB as u32).clamp(settings.io_bytes.0, settings.io_bytes.1);
    let point = |ios: u64| {
        let in_flight_bytes = (ios * MIB).min(settings.buffer_bytes_max).min(range_bytes);
        let ios = (in_flight_bytes / u64::from(io_bytes)).clamp(1, settings.depth_max.into());
        // At most `depth_max`.
        Point { io_bytes, depth: ios as u32 }
    };
    let mut points = vec![point(shard_depth.into()), point(deep)];
    points.dedup();
    points
}

fn usual_of(point: Point, rates: &[f64]) -> Usual {
    Usual {
        in_flight_bytes: u64::from(point.io_bytes) * u64::from(point.depth),
        bytes_per_s: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
        bytes_per_s_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        bytes_per_s_max: rates.iter().copied().fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;
    use ringfall_engine::ring::Polling;
    use ringfall_model::facts::{Best, Measured};

    use super::*;

    fn settings(threads: usize) -> SaturateSettings {
        SaturateSettings {
            range_bytes: GIB,
            io_bytes: (4096, 4 << 20),
            depth_max: 1024,
            buffer_bytes_max: GIB,
            cpus: vec![None; threads],
            polling: Polling::None,
            read_percents: vec![100, 0],
            iops: false,
            small_pages: false,
            usual: Some(RunDepth::OfLimits),
            seed: 1,
            time_limit_s: None,
        }
    }

    #[test]
    fn loads_are_those_of_one_shard_and_of_a_whole_run() {
        let depths = |settings: &SaturateSettings, range_bytes, shard_depth, depth| {
            let points = points(settings, range_bytes, shard_depth, depth);
            assert!(points.iter().all(|point| point.io_bytes == 1 << 20), "{points:?}");
            points.iter().map(|point| point.depth).collect::<Vec<_>>()
        };
        let two = settings(2);
        assert_eq!(depths(&two, GIB, 4, RunDepth::OfLimits), [4, 8]);
        assert_eq!(depths(&two, GIB, 4, RunDepth::Standard), [4, 64]);
        assert_eq!(depths(&settings(1), GIB, 4, RunDepth::OfLimits), [4]);
        // No more in flight than there are buffers, or room in the range.
        let few = SaturateSettings { buffer_bytes_max: 6 * MIB, ..two.clone() };
        assert_eq!(depths(&few, GIB, 4, RunDepth::OfLimits), [4, 6]);
        assert_eq!(depths(&two, 2 * MIB, 4, RunDepth::OfLimits), [2]);
        let shallow = SaturateSettings { depth_max: 1, ..two };
        assert_eq!(depths(&shallow, GIB, 4, RunDepth::OfLimits), [1]);
    }

    #[test]
    fn a_run_has_the_bytes_in_flight_that_reach_the_limits() {
        let limit = |io_bytes, depth| {
            let best = Measured { io_bytes, depth, ..Measured::default() };
            Limit { bandwidth: Best { best, ..Best::default() }, ..Limit::default() }
        };
        assert_eq!(run_depth(&[limit(4 << 20, 4), limit(1 << 20, 8)]), 16);
        assert_eq!(run_depth(&[limit(256 << 10, 4)]), RUN_DEPTHS[0]);
        assert_eq!(run_depth(&[limit(4 << 20, 1024)]), RUN_DEPTHS[1]);
    }

    #[test]
    fn a_usual_bandwidth_is_the_mean_of_its_windows() {
        let usual = usual_of(Point { io_bytes: 1 << 20, depth: 8 }, &[3e9, 1e9, 2e9]);
        assert_eq!((usual.in_flight_bytes, usual.bytes_per_s), (8 * MIB, 2e9));
        assert_eq!((usual.bytes_per_s_min, usual.bytes_per_s_max), (1e9, 3e9));
    }
}
