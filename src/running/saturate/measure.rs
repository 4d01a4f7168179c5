//! One load, measured: how long, and what it comes to.

use std::time::{Duration, Instant};

use ringfall_core::units::GIB;
use ringfall_engine::load::{Access, Load, LoadFigures, LoadPlan};
use ringfall_model::facts::Measured;
use ringfall_model::facts::steady::{WINDOW, steady_mean};

use super::search::Point;
use super::{Bench, SaturateError, Watcher};

/// Ramp-up of a probe, and its rounds: enough to tell 2 % on a steady device.
pub(super) const PROBE: RoundPace = RoundPace {
    ramp: Duration::from_millis(100),
    round: Duration::from_millis(100),
    rounds_max: 12,
};
/// Ramp-up and rounds of the final measurement of the best load.
pub(super) const CONFIRM: RoundPace = RoundPace {
    ramp: Duration::from_millis(200),
    round: Duration::from_millis(400),
    rounds_max: 40,
};

/// Between two looks at what is done.
const SAMPLING: Duration = Duration::from_millis(10);

/// Duration of a measurement.
pub(super) struct RoundPace {
    /// Before the first round.
    pub ramp: Duration,
    /// A round, whose rate is compared with those of the others.
    pub round: Duration,
    /// Rounds at the most, steady or not.
    pub rounds_max: usize,
}

impl RoundPace {
    /// One round, the least that is measured.
    pub fn shortest(&self) -> Duration {
        self.ramp + self.round
    }
}

impl Bench<'_> {
    pub(super) fn plan(&self, point: Point, read_percent: u32) -> LoadPlan {
        LoadPlan {
            read_percent,
            io_bytes: point.io_bytes,
            depth: point.depth,
            range_bytes: self.range_bytes,
            access: Access::Random,
            polling: self.settings.polling,
            cpus: self.settings.cpus.clone(),
            bytes_max: None,
            seed: self.settings.seed,
        }
    }

    /// Measures a load of this process alone; also returns whether it was measured for as long as
    /// it should be.
    pub(super) fn measure_alone(
        &self,
        plan: &LoadPlan,
        pace: &RoundPace,
        until: Option<Instant>,
        watcher: &mut dyn Watcher,
    ) -> Result<(Measured, bool), SaturateError> {
        let load = Load::start(self.file, plan)?;
        std::thread::sleep(pace.ramp);
        load.open_window();
        let (mut rounds, mut is_steady) = (Vec::new(), false);
        // I/Os alone: bytes are counted a moment later.
        let mut mark = (Instant::now(), load.progress().0);
        let first = mark.1;
        let mut samples = vec![mark];
        let is_late = || until.is_some_and(|until| Instant::now() + pace.round > until);
        let is_enough = |rounds: usize, is_steady| rounds >= pace.rounds_max || is_steady;
        // A rate of nothing is no measurement: however slow the device, one I/O is waited for.
        while !load.is_over()
            && (mark.1 == first || !(is_enough(rounds.len(), is_steady) || is_late()))
        {
            while mark.0.elapsed() + SAMPLING < pace.round {
                std::thread::sleep(SAMPLING);
                samples.push((Instant::now(), load.progress().0));
            }
            std::thread::sleep(pace.round.saturating_sub(mark.0.elapsed()));
            if self.interrupt.is_set() {
                load.stop()?;
                return Err(SaturateError::Interrupted);
            }
            watcher.waiting();
            let now = (Instant::now(), load.progress().0);
            let seconds = now.0.duration_since(mark.0).as_secs_f64();
            rounds.push((now.1 - mark.1) as f64 / seconds);
            mark = now;
            samples.push(now);
            is_steady = rounds.len() >= WINDOW && steady_mean(&rounds).is_some();
        }
        let figures = load.stop()?;
        self.add_reads(&figures);
        let is_whole = is_enough(rounds.len(), is_steady);
        Ok((measured(plan, &figures, slope(&samples), is_steady), is_whole))
    }
}

/// Rise a second of the least-squares line through a count, sampled over time. Where the samples
/// begin and end in the bursts of a device that works in bursts matters by the square of a burst's
/// share of the time; with last minus first it would matter by that share itself.
pub(super) fn slope(samples: &[(Instant, u64)]) -> f64 {
    let Some(&(began, first)) = samples.first() else { return 0.0 };
    let points = || {
        samples
            .iter()
            .map(|&(at, done)| (at.duration_since(began).as_secs_f64(), (done - first) as f64))
    };
    let n = samples.len() as f64;
    let sum = points().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x_mean, y_mean) = (sum.0 / n, sum.1 / n);
    let (xy, xx) = points().fold((0.0, 0.0), |(xy, xx), (x, y)| {
        (xy + (x - x_mean) * (y - y_mean), xx + (x - x_mean) * (x - x_mean))
    });
    if xx > 0.0 { xy / xx } else { 0.0 }
}

fn measured(plan: &LoadPlan, figures: &LoadFigures, iops: f64, steady: bool) -> Measured {
    let seconds = (figures.window_ns as f64 / 1e9).max(1e-9);
    let bytes = figures.bytes() as f64;
    let mut latency = figures.read.latency.clone();
    latency.merge(&figures.write.latency);
    let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
    Measured {
        io_bytes: plan.io_bytes,
        depth: plan.depth,
        bytes_per_s: iops * f64::from(plan.io_bytes),
        iops,
        latency_p50_us: us(0.5),
        latency_p99_us: us(0.99),
        cpu_s_per_gib: figures.cpu_ns as f64 / 1e9 / (bytes / GIB as f64).max(1e-9),
        steady,
        seconds,
        ranks_bytes_per_s: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_do_not_show_in_the_rate() {
        let began = Instant::now();
        for phase_ms in (0..100u64).step_by(7) {
            // 50 at once, ten times a second; looked at for two seconds.
            let at = |ms: u64| (began + Duration::from_millis(ms), (ms + phase_ms) / 100 * 50);
            let samples: Vec<_> = (0..=200).map(|tick| at(tick * 10)).collect();
            let rate = slope(&samples);
            assert!((rate / 500.0 - 1.0).abs() < 0.01, "{rate}");
        }
        assert_eq!(slope(&[]), 0.0);
        assert_eq!(slope(&[(began, 3)]), 0.0);
    }
}
