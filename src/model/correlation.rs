//! Do two series tell the same story? Ours of each second, and the kernel's counters read about a
//! second apart: how they go together, by how much they differ, and by how much one lags.

use ringfall_core::key::Tier;
use serde::{Deserialize, Serialize};

use crate::facts::{KernelSecond, TimelineSecond};

/// Seconds that are needed to say anything.
const SECONDS_MIN: usize = 5;
/// Lags looked at, s, and their step: completions are counted by both, so that a lag of more than
/// the sampling's own is a mistake somewhere.
const LAG_MAX_S: f64 = 2.0;
const LAG_STEP_S: f64 = 0.1;

/// Agreement between the engine's bytes per second and the kernel's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Correlation {
    /// Number of seconds that were compared.
    pub seconds: usize,
    /// Pearson's r of the bytes in each second, reads and writes together; null when one of the two
    /// series is constant.
    pub pearson_r: Option<f64>,
    /// The engine's bytes divided by the kernel's, in the seconds that were compared.
    pub ratio: Option<f64>,
    /// Lag of the kernel's series behind the engine's at which the two agree best, s.
    pub lag_s: f64,
    /// Pearson's r of the two series at the lag `lag_s`.
    pub pearson_r_at_lag: Option<f64>,
}

/// Correlates the seconds that both series have; `None` with fewer than five.
pub(crate) fn correlate(ours: &[TimelineSecond], kernel: &[KernelSecond]) -> Option<Correlation> {
    let kernel = cumulative(kernel);
    // A last second that is shorter says nothing about a whole one.
    let whole: Vec<(f64, f64)> = ours
        .iter()
        .filter(|second| second.seconds > 0.999)
        .map(|second| {
            let storage = &second.tiers[Tier::Storage.index()];
            (second.end_s, (storage.read.bytes + storage.write.bytes) as f64)
        })
        .collect();
    let pairs = |lag_s: f64| -> Vec<(f64, f64)> {
        let by = |time_s: f64| bytes_at(&kernel, time_s + lag_s);
        let kernel_of = |end_s: f64| Some(by(end_s)? - by(end_s - 1.0)?);
        whole.iter().filter_map(|&(end_s, bytes)| Some((bytes, kernel_of(end_s)?))).collect()
    };
    let now = pairs(0.0);
    if now.len() < SECONDS_MIN {
        return None;
    }
    let steps = (LAG_MAX_S / LAG_STEP_S) as i32;
    let best = (-steps..=steps)
        .filter_map(|step| {
            let lag_s = f64::from(step) * LAG_STEP_S;
            let shifted = pairs(lag_s);
            // Fewer seconds would fit better by chance.
            let enough = shifted.len() + 2 * LAG_MAX_S as usize >= now.len();
            Some((lag_s, pearson(&shifted).filter(|_| enough)?))
        })
        // Among equals the smallest lag.
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.abs().total_cmp(&a.0.abs())));
    let sum = |pick: fn(&(f64, f64)) -> f64| now.iter().map(pick).sum::<f64>();
    let (engine, device) = (sum(|pair| pair.0), sum(|pair| pair.1));
    Some(Correlation {
        seconds: now.len(),
        pearson_r: pearson(&now),
        ratio: (device > 0.0).then(|| engine / device),
        lag_s: best.map_or(0.0, |(lag_s, _)| lag_s),
        pearson_r_at_lag: best.map(|(_, r)| r),
    })
}

/// Times of the kernel's readings, and the bytes that it had counted by then.
fn cumulative(kernel: &[KernelSecond]) -> Vec<(f64, f64)> {
    let begin = kernel.first().map(|second| (second.end_s - second.seconds, 0.0));
    let mut bytes = 0.0;
    let rest = kernel.iter().map(|second| {
        bytes += (second.delta.read_bytes + second.delta.write_bytes) as f64;
        (second.end_s, bytes)
    });
    begin.into_iter().chain(rest).collect()
}

/// The bytes up to a moment, even between two readings.
fn bytes_at(points: &[(f64, f64)], time_s: f64) -> Option<f64> {
    let after = points.partition_point(|point| point.0 < time_s);
    let (t1, b1) = *points.get(after)?;
    let Some((t0, b0)) = after.checked_sub(1).map(|before| points[before]) else {
        // Readings begin a moment after the window does.
        return (t1 - time_s < 0.05).then_some(b1);
    };
    Some(b0 + (b1 - b0) * (time_s - t0) / (t1 - t0))
}

/// Pearson's product-moment correlation; none when one of the two never changes.
fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>() / n;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        xx += (a - x) * (a - x);
        yy += (b - y) * (b - y);
        xy += (a - x) * (b - y);
    }
    let r = xy / (xx * yy).sqrt();
    r.is_finite().then_some(r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read_from;

    fn ours(bytes: &[u64]) -> Vec<TimelineSecond> {
        let second = |(index, &bytes): (usize, &u64)| {
            let mut second =
                TimelineSecond { end_s: index as f64 + 1.0, seconds: 1.0, ..Default::default() };
            second.tiers[Tier::Storage.index()].read.bytes = bytes;
            second
        };
        bytes.iter().enumerate().map(second).collect()
    }

    /// Readings every 1.01 s of a device that moved `rate(t)` bytes a second.
    fn kernel(rate: impl Fn(f64) -> f64, until_s: f64) -> Vec<KernelSecond> {
        let moved = |from: f64, to: f64| {
            let steps = 1_000;
            let width = (to - from) / f64::from(steps);
            (0..steps).map(|n| rate(from + (f64::from(n) + 0.5) * width) * width).sum::<f64>()
        };
        let mut seconds = Vec::new();
        let mut begin = 0.0;
        while begin < until_s {
            let end = begin + 1.01;
            let delta = read_from("x", moved(begin, end).round() as u64);
            seconds.push(KernelSecond { end_s: end, seconds: 1.01, delta, in_flight: 1 });
            begin = end;
        }
        seconds
    }

    /// Bytes of each second.
    const LOAD: [u64; 12] = [
        5_000_000, 9_000_000, 3_000_000, 7_000_000, 7_000_000, 1_000_000, 8_000_000, 2_000_000,
        6_000_000, 9_000_000, 4_000_000, 5_000_000,
    ];

    fn rate(t: f64) -> f64 {
        LOAD.get(t.max(0.0) as usize).map_or(0.0, |&bytes| bytes as f64)
    }

    #[test]
    fn the_same_story_is_the_same_and_a_late_one_is_found_late() {
        let same = correlate(&ours(&LOAD), &kernel(rate, 12.0)).unwrap();
        assert!(same.pearson_r.unwrap() > 0.98, "{same:?}");
        assert!((same.ratio.unwrap() - 1.0).abs() < 0.02 && same.lag_s.abs() < 0.11, "{same:?}");
        let late = correlate(&ours(&LOAD), &kernel(|t| rate(t - 1.0), 14.0)).unwrap();
        assert!((late.lag_s - 1.0).abs() < 0.11, "{late:?}");
        assert!(late.pearson_r_at_lag.unwrap() > late.pearson_r.unwrap());
        let double = correlate(&ours(&LOAD), &kernel(|t| 2.0 * rate(t), 12.0)).unwrap();
        assert!((double.ratio.unwrap() - 0.5).abs() < 0.02, "{double:?}");
    }

    #[test]
    fn too_little_says_nothing_and_a_constant_has_no_correlation() {
        assert_eq!(correlate(&ours(&LOAD[..3]), &kernel(rate, 3.0)), None);
        assert_eq!(correlate(&ours(&LOAD), &[]), None);
        let flat = correlate(&ours(&[7; 9]), &kernel(|_| 7.0, 9.0)).unwrap();
        assert!(flat.pearson_r.is_none_or(|r| r.abs() <= 1.0), "{flat:?}");
        assert_eq!(pearson(&[(1.0, 5.0), (2.0, 5.0)]), None);
        assert_eq!(pearson(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), Some(1.0));
    }
}
