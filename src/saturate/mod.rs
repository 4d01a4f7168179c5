//! Finding the device's limits with nothing but I/O: plain pinned threads, the engine's rings.
//!
//! What lives here: which load is tried when, for how long, and what it came to. What must not: how
//! a load is made (`engine/load`), how the answer is shown.

mod device_model;
mod roofline;
mod search;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfall_engine::device::DataFile;
use ringfall_engine::load::{Access, Load, LoadError, LoadFigures, LoadPlan};
use ringfall_engine::ring::{Polling, probe_polling};
use ringfall_engine::units::GIB;

use crate::host::Machine;
use crate::interrupt::Interrupt;
use crate::precondition::steady::{self, WINDOW, steady_mean};
use crate::precondition::{PreconditionPlan, Until, precondition};
pub use device_model::device_yaml;
pub use roofline::{Best, Limit, Measured, ROOFLINE_VERSION, Roofline};
use search::{Bounds, Goal, Point, Search, Step};

/// What is looked for.
#[derive(Clone, Debug)]
pub struct SaturateSettings {
    /// The first so many bytes are used.
    pub range_bytes: u64,
    /// Smallest and largest I/O, bytes.
    pub io_bytes: (u32, u32),
    /// Largest depth over all threads.
    pub depth_max: u32,
    /// Memory for buffers, bytes.
    pub buffer_bytes_max: u64,
    /// A thread for each, on that core.
    pub cpus: Vec<Option<usize>>,
    /// Who polls.
    pub polling: Polling,
    /// Directions and mixes: percent of the I/Os that read.
    pub read_percents: Vec<u32>,
    /// Whether I/Os a second are looked for too.
    pub iops: bool,
    /// Of offsets.
    pub seed: u64,
}

/// Ramp-up of a probe, and its rounds: enough to tell 2 % on a steady device.
const PROBE: Pace =
    Pace { ramp: Duration::from_millis(100), round: Duration::from_millis(100), rounds_max: 12 };
/// Of the answer.
const CONFIRM: Pace =
    Pace { ramp: Duration::from_millis(200), round: Duration::from_millis(400), rounds_max: 40 };

/// Between two looks at what is done.
const SAMPLING: Duration = Duration::from_millis(10);

struct Pace {
    ramp: Duration,
    round: Duration,
    rounds_max: usize,
}

/// Told what is being done.
pub trait Watcher {
    /// A load was measured.
    fn measured(&mut self, read_percent: u32, measured: &Measured, confirmed: bool);
    /// The range is being written.
    fn preparing(&mut self, done_bytes: u64, of_bytes: u64);
}

/// Why no answer was found.
#[derive(Debug, thiserror::Error)]
pub enum SaturateError {
    /// The load failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A signal.
    #[error("interrupted before the limits were found; nothing was written")]
    Interrupted,
}

/// Finds the limits of the device below `file`.
///
/// # Errors
/// An I/O failed, or somebody interrupted.
pub fn find(
    file: &Arc<DataFile>,
    settings: &SaturateSettings,
    machine: Machine,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<Roofline, SaturateError> {
    let began = Instant::now();
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |age| age.as_secs_f64());
    let bench = Bench { file, settings, interrupt };
    bench.prepare(watcher)?;
    // Not before something is there to read: the kernel answers for what was never written.
    probe_polling(file.raw_fd(), settings.polling).map_err(LoadError::from)?;
    let mut limits = Vec::new();
    for &read_percent in &settings.read_percents {
        let bandwidth = bench.search(Goal::Bandwidth, read_percent, watcher)?;
        let iops = match settings.iops {
            true => Some(bench.search(Goal::Iops, read_percent, watcher)?),
            false => None,
        };
        limits.push(Limit { read_percent, bandwidth, iops });
    }
    Ok(Roofline {
        ringfall_roofline: ROOFLINE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_s,
        machine,
        range_bytes: settings.range_bytes,
        threads: settings.cpus.len() as u32,
        polling: polling_name(settings.polling).to_owned(),
        steady_rule: steady::RULE.to_owned(),
        seconds: began.elapsed().as_secs_f64(),
        limits,
    })
}

fn polling_name(polling: Polling) -> &'static str {
    match polling {
        Polling::None => "none",
        Polling::Submission => "submission",
        Polling::Completion => "completion",
    }
}

struct Bench<'a> {
    file: &'a Arc<DataFile>,
    settings: &'a SaturateSettings,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Writes the whole range once: what was never written is not read from the device.
    fn prepare(&self, watcher: &mut dyn Watcher) -> Result<(), SaturateError> {
        let plan = PreconditionPlan {
            bytes: self.settings.range_bytes,
            range_bytes: self.settings.range_bytes,
            until: Until::Bytes,
            cpus: self.settings.cpus.clone(),
            seed: self.settings.seed,
        };
        let report =
            precondition(self.file, &plan, &|| self.interrupt.is_set(), &mut |done, of| {
                watcher.preparing(done, of);
            })?;
        match report.interrupted {
            true => Err(SaturateError::Interrupted),
            false => Ok(()),
        }
    }

    fn search(
        &self,
        goal: Goal,
        read_percent: u32,
        watcher: &mut dyn Watcher,
    ) -> Result<Best, SaturateError> {
        let bounds = Bounds {
            io_bytes: self.settings.io_bytes,
            depth_max: self.settings.depth_max,
            in_flight_bytes_max: self.settings.buffer_bytes_max,
        };
        let mut search = Search::new(goal, bounds);
        let (mut probes, mut best) = (Vec::new(), Measured::default());
        loop {
            let (point, pace) = match search.step() {
                Step::Probe(point) => (point, &PROBE),
                Step::Confirm(point) => (point, &CONFIRM),
                Step::Done => break,
            };
            let measured = self.measure(point, read_percent, goal, pace)?;
            let confirmed = matches!(search.step(), Step::Confirm(_));
            watcher.measured(read_percent, &measured, confirmed);
            search.observe(match goal {
                Goal::Bandwidth => measured.bytes_per_s,
                Goal::Iops => measured.iops,
            });
            let value = |measured: &Measured| match goal {
                Goal::Bandwidth => measured.bytes_per_s,
                Goal::Iops => measured.iops,
            };
            match confirmed {
                true if value(&measured) > value(&best) => best = measured,
                true => {}
                false => probes.push(measured),
            }
        }
        let knee = search.knee();
        let at = |probe: &&Measured| {
            knee.is_some_and(|knee| probe.io_bytes == knee.io_bytes && probe.depth == knee.depth)
        };
        let knee = probes.iter().find(at).cloned().unwrap_or_default();
        Ok(Best { best, knee, probes })
    }

    fn measure(
        &self,
        point: Point,
        read_percent: u32,
        goal: Goal,
        pace: &Pace,
    ) -> Result<Measured, SaturateError> {
        let plan = LoadPlan {
            read_percent,
            io_bytes: point.io_bytes,
            depth: point.depth,
            range_bytes: self.settings.range_bytes,
            access: Access::Random,
            polling: self.settings.polling,
            cpus: self.settings.cpus.clone(),
            bytes_max: None,
            seed: self.settings.seed,
        };
        let load = Load::start(self.file, &plan)?;
        std::thread::sleep(pace.ramp);
        load.open_window();
        let (mut rounds, mut is_steady) = (Vec::new(), false);
        let mut mark = (Instant::now(), load.progress());
        let mut samples = vec![mark];
        while rounds.len() < pace.rounds_max && !is_steady && !load.is_over() {
            while mark.0.elapsed() + SAMPLING < pace.round {
                std::thread::sleep(SAMPLING);
                samples.push((Instant::now(), load.progress()));
            }
            std::thread::sleep(pace.round.saturating_sub(mark.0.elapsed()));
            if self.interrupt.is_set() {
                load.stop()?;
                return Err(SaturateError::Interrupted);
            }
            let now = (Instant::now(), load.progress());
            let seconds = now.0.duration_since(mark.0).as_secs_f64();
            let done = match goal {
                Goal::Bandwidth => now.1.1 - mark.1.1,
                Goal::Iops => now.1.0 - mark.1.0,
            };
            rounds.push(done as f64 / seconds);
            mark = now;
            samples.push(now);
            is_steady = rounds.len() >= WINDOW && steady_mean(&rounds).is_some();
        }
        let figures = load.stop()?;
        let rates =
            [slope(&samples, |progress| progress.0), slope(&samples, |progress| progress.1)];
        Ok(measured(point, &figures, rates, is_steady))
    }
}

/// Rise a second of the least-squares line through a count, sampled over time. Where the samples
/// begin and end in the bursts of a device that works in bursts matters by the square of a burst's
/// share of the time; with last minus first it would matter by that share itself.
fn slope(samples: &[(Instant, (u64, u64))], pick: fn((u64, u64)) -> u64) -> f64 {
    let Some(&(began, first)) = samples.first() else { return 0.0 };
    let points = || {
        samples.iter().map(|&(at, progress)| {
            let seconds = at.duration_since(began).as_secs_f64();
            (seconds, (pick(progress) - pick(first)) as f64)
        })
    };
    let n = samples.len() as f64;
    let sum = points().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x_mean, y_mean) = (sum.0 / n, sum.1 / n);
    let (xy, xx) = points().fold((0.0, 0.0), |(xy, xx), (x, y)| {
        (xy + (x - x_mean) * (y - y_mean), xx + (x - x_mean) * (x - x_mean))
    });
    if xx > 0.0 { xy / xx } else { 0.0 }
}

fn measured(
    point: Point,
    figures: &LoadFigures,
    [iops, bytes_per_s]: [f64; 2],
    steady: bool,
) -> Measured {
    let seconds = (figures.window_ns as f64 / 1e9).max(1e-9);
    let bytes = figures.bytes() as f64;
    let mut latency = figures.read.latency.clone();
    latency.merge(&figures.write.latency);
    let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
    Measured {
        io_bytes: point.io_bytes,
        depth: point.depth,
        bytes_per_s,
        iops,
        latency_p50_us: us(0.5),
        latency_p99_us: us(0.99),
        cpu_s_per_gib: figures.cpu_ns as f64 / 1e9 / (bytes / GIB as f64).max(1e-9),
        steady,
        seconds,
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
            let at = |ms: u64| (began + Duration::from_millis(ms), (0, (ms + phase_ms) / 100 * 50));
            let samples: Vec<_> = (0..=200).map(|tick| at(tick * 10)).collect();
            let rate = slope(&samples, |progress| progress.1);
            assert!((rate / 500.0 - 1.0).abs() < 0.01, "{rate}");
        }
        assert_eq!(slope(&[], |progress| progress.0), 0.0);
        assert_eq!(slope(&[(began, (3, 3))], |progress| progress.0), 0.0);
    }
}
