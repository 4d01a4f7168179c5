//! Finding the device's limits with nothing but I/O: plain pinned threads, the engine's rings.
//!
//! What lives here: which load is tried when, for how long, and what it came to. What must not: how
//! a load is made (`engine/load`), how the answer is shown.

mod device_model;
mod roofline;
mod search;
mod time;
mod together;

use std::cell::Cell;
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
use time::{Budget, Share};
pub use together::{Together, together};

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
    /// Seconds that it may take, with writing the range; none: as long as it needs.
    pub time_limit_s: Option<u32>,
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

impl Pace {
    /// One round, the least that is measured.
    fn shortest(&self) -> Duration {
        self.ramp + self.round
    }
}

/// Told what is being done.
pub trait Watcher {
    /// A load was measured.
    fn measured(&mut self, read_percent: u32, measured: &Measured, confirmed: bool);
    /// The range is being written.
    fn preparing(&mut self, done_bytes: u64, of_bytes: u64);
    /// A measurement goes on: nothing is new but the time.
    fn waiting(&mut self) {}
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
    let limit = settings.time_limit_s.map(|seconds| Duration::from_secs(u64::from(seconds)));
    let budget = Budget { began, limit };
    let mut bench = Bench { file, settings, interrupt, range_bytes: settings.range_bytes };
    bench.range_bytes = bench.prepare(&budget, watcher)?;
    // Not before something is there to read: the kernel answers for what was never written.
    probe_polling(file.raw_fd(), settings.polling).map_err(LoadError::from)?;
    let mut limits = Vec::new();
    let mut searches_left = settings.read_percents.len() as u32 * if settings.iops { 2 } else { 1 };
    let mut share = || {
        let share = budget.share(Instant::now(), searches_left);
        searches_left -= 1;
        share
    };
    for &read_percent in &settings.read_percents {
        let bandwidth = bench.search(Goal::Bandwidth, read_percent, share(), watcher)?;
        let iops = match settings.iops {
            true => Some(bench.search(Goal::Iops, read_percent, share(), watcher)?),
            false => None,
        };
        limits.push(Limit { read_percent, bandwidth, iops });
    }
    Ok(Roofline {
        ringfall_roofline: ROOFLINE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_s,
        machine,
        range_bytes: bench.range_bytes,
        threads: settings.cpus.len() as u32,
        polling: polling_name(settings.polling).to_owned(),
        steady_rule: steady::RULE.to_owned(),
        seconds: began.elapsed().as_secs_f64(),
        time_limit_s: settings.time_limit_s,
        range_left_bytes: settings.range_bytes - bench.range_bytes,
        limits,
        together: Vec::new(),
        drives: Vec::new(),
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
    /// What was written, and is used.
    range_bytes: u64,
}

impl Bench<'_> {
    /// Writes the whole range once: what was never written is not read from the device. Returns how
    /// much of it there was time for, at least the largest I/O.
    fn prepare(&self, budget: &Budget, watcher: &mut dyn Watcher) -> Result<u64, SaturateError> {
        let plan = PreconditionPlan {
            bytes: self.settings.range_bytes,
            range_bytes: self.settings.range_bytes,
            until: Until::Bytes,
            cpus: self.settings.cpus.clone(),
            seed: self.settings.seed,
        };
        let (until, written) = (budget.writing_until(), Cell::new(0));
        let range_bytes_min = u64::from(self.settings.io_bytes.1).min(plan.range_bytes);
        let is_over = || {
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            self.interrupt.is_set() || (is_late && written.get() >= range_bytes_min)
        };
        let report = precondition(self.file, &plan, &is_over, &mut |done, of| {
            written.set(done);
            watcher.preparing(done, of);
        })?;
        if self.interrupt.is_set() {
            return Err(SaturateError::Interrupted);
        }
        // Writes go in order and those in flight are waited for: so much from the start on is
        // there.
        Ok(if report.interrupted { report.bytes.min(plan.range_bytes) } else { plan.range_bytes })
    }

    fn search(
        &self,
        goal: Goal,
        read_percent: u32,
        share: Option<Share>,
        watcher: &mut dyn Watcher,
    ) -> Result<Best, SaturateError> {
        let bounds = Bounds {
            io_bytes: self.settings.io_bytes,
            depth_max: self.settings.depth_max,
            in_flight_bytes_max: self.settings.buffer_bytes_max,
            range_bytes: self.range_bytes,
            threads: self.settings.cpus.len() as u32,
        };
        let value = |measured: &Measured| match goal {
            Goal::Bandwidth => measured.bytes_per_s,
            Goal::Iops => measured.iops,
        };
        let mut search = Search::new(goal, bounds);
        let (mut probes, mut confirmed, mut settled) = (Vec::new(), Vec::new(), true);
        loop {
            let step = search.step();
            let (point, pace, list) = match step {
                Step::Probe(point) => (point, &PROBE, &mut probes),
                Step::Confirm(point) => (point, &CONFIRM, &mut confirmed),
                Step::Done => break,
            };
            let allows = |share: Share| share.allows(step, Instant::now(), pace.shortest());
            // Without a first load there is no answer: it is measured however late it is.
            if search.has_begun() && !share.is_none_or(allows) {
                settled = false;
                search.cut();
                continue;
            }
            let until = share.map(|share| share.until);
            let load = self.plan(point, read_percent);
            let (measured, is_whole) = self.measure(&load, pace, until, watcher)?;
            settled &= is_whole;
            watcher.measured(read_percent, &measured, matches!(step, Step::Confirm(_)));
            search.observe(value(&measured));
            list.push(measured);
        }
        // Where there was no time to measure the best for longer, its probe is what is known.
        let known = if confirmed.is_empty() { &probes } else { &confirmed };
        let best = known.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
        let best = best.cloned().unwrap_or_default();
        let knee = search.knee();
        let at = |probe: &&Measured| {
            knee.is_some_and(|knee| probe.io_bytes == knee.io_bytes && probe.depth == knee.depth)
        };
        let knee = probes.iter().find(at).cloned().unwrap_or_default();
        Ok(Best { best, knee, probes, settled })
    }

    fn plan(&self, point: Point, read_percent: u32) -> LoadPlan {
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

    /// What a load comes to, and whether it was measured for as long as it should be.
    fn measure(
        &self,
        plan: &LoadPlan,
        pace: &Pace,
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
        let is_whole = is_enough(rounds.len(), is_steady);
        Ok((measured(plan, &figures, slope(&samples), is_steady), is_whole))
    }
}

/// Rise a second of the least-squares line through a count, sampled over time. Where the samples
/// begin and end in the bursts of a device that works in bursts matters by the square of a burst's
/// share of the time; with last minus first it would matter by that share itself.
fn slope(samples: &[(Instant, u64)]) -> f64 {
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
