//! Loads, measured: how long, and what they come to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfall_core::metrics::Histogram;
use ringfall_core::units::GIB;
use ringfall_engine::device::DataFile;
use ringfall_engine::load::{Access, Load, LoadError, LoadPlan};
use ringfall_host::interrupt::Interrupt;
use ringfall_model::facts::steady::steady_mean;
use ringfall_model::facts::{Limit, Measured};
use serde::{Deserialize, Serialize};

use super::search::Point;
use super::{Bench, SaturateError, SaturateSettings, Watcher};

/// Ramp-up of a probe, and its rounds: enough to tell 2 % on a steady device.
pub(super) const PROBE: RoundPace = RoundPace {
    ramp: Duration::from_millis(100),
    round: Duration::from_millis(100),
    rounds_max: 12,
    tail: Duration::ZERO,
};
/// Ramp-up and rounds of the final measurement of the best load.
pub(super) const CONFIRM: RoundPace = RoundPace {
    ramp: Duration::from_millis(200),
    round: Duration::from_millis(400),
    rounds_max: 40,
    tail: Duration::ZERO,
};

/// Between two looks at what is done.
const SAMPLING: Duration = Duration::from_millis(10);

/// Duration of a measurement.
#[derive(Clone, Copy)]
pub(super) struct RoundPace {
    /// Before the first round.
    pub ramp: Duration,
    /// A round, whose rate is compared with those of the others.
    pub round: Duration,
    /// Rounds at the most, steady or not.
    pub rounds_max: usize,
    /// After the last round.
    pub tail: Duration,
}

impl RoundPace {
    /// All rounds, the most that is measured.
    pub fn longest(&self) -> Duration {
        self.ramp + self.round * self.rounds_max as u32
    }

    /// One round, the least that is measured.
    pub fn shortest(&self) -> Duration {
        self.ramp + self.round
    }

    /// Whether rounds of so many bytes a second are enough, until `until` at the latest. A rate of
    /// nothing is no measurement: however slow the device, one I/O is waited for.
    pub fn is_enough(&self, rounds: &[f64], until: Option<Instant>) -> bool {
        let is_late = || until.is_some_and(|until| Instant::now() + self.round > until);
        let is_whole = rounds.len() >= self.rounds_max || steady_mean(rounds).is_some();
        rounds.iter().any(|rate| *rate > 0.0) && (is_whole || is_late())
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reached {
    pub io_bytes: u32,
    pub depth: u32,
    /// I/Os a second of each round, and over all of them.
    pub rounds: Vec<f64>,
    pub iops: f64,
    pub bytes: u64,
    pub cpu_ns: u64,
    pub window_ns: u64,
    /// Bytes read from its beginning to its end.
    #[serde(skip)]
    pub all_read_bytes: u64,
    /// Whether the buffers were in huge pages, where the kernel says.
    #[serde(skip)]
    pub huge_buffers: Option<bool>,
    #[serde(with = "crate::group::sent")]
    pub latency: Histogram,
}

struct Watched<'a> {
    load: Load,
    plan: &'a LoadPlan,
    /// I/Os done by the time; bytes are counted a moment later.
    samples: Vec<(Instant, u64)>,
    /// Sample at the end of the last round.
    mark: usize,
    rounds: Vec<f64>,
}

impl<'a> Watched<'a> {
    fn start(file: &Arc<DataFile>, plan: &'a LoadPlan) -> Result<Watched<'a>, LoadError> {
        let (load, samples, rounds) = (Load::start(file, plan)?, Vec::new(), Vec::new());
        Ok(Watched { load, plan, samples, mark: 0, rounds })
    }

    fn open(&mut self) {
        self.load.open_window();
        self.sample();
    }

    fn sample(&mut self) {
        self.samples.push((Instant::now(), self.load.progress().0));
    }

    /// Ends a round; its bytes a second.
    fn round(&mut self) -> f64 {
        self.sample();
        let last = self.samples.len() - 1;
        let (from, to) = (self.samples[self.mark], self.samples[last]);
        let iops = (to.1 - from.1) as f64 / to.0.duration_since(from.0).as_secs_f64().max(1e-9);
        self.mark = last;
        self.rounds.push(iops);
        iops * f64::from(self.plan.io_bytes)
    }

    fn end(self) -> Result<Reached, LoadError> {
        let figures = self.load.stop()?;
        let bytes = figures.bytes();
        let mut latency = figures.read.latency;
        latency.merge(&figures.write.latency);
        Ok(Reached {
            io_bytes: self.plan.io_bytes,
            depth: self.plan.depth,
            rounds: self.rounds,
            iops: slope(&self.samples),
            bytes,
            cpu_ns: figures.cpu_ns,
            window_ns: figures.window_ns,
            all_read_bytes: figures.all_read_bytes,
            huge_buffers: figures.huge_buffers,
            latency,
        })
    }
}

/// Measures loads at the same time, until the rounds of all of them, in bytes a second, are enough.
pub(super) fn reach(
    loads: &[(&Arc<DataFile>, LoadPlan)],
    pace: &RoundPace,
    is_enough: &dyn Fn(&[f64]) -> bool,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<Vec<Reached>, SaturateError> {
    let started = loads.iter().map(|(file, plan)| Watched::start(file, plan));
    let mut watched = started.collect::<Result<Vec<_>, LoadError>>()?;
    std::thread::sleep(pace.ramp);
    watched.iter_mut().for_each(Watched::open);
    let (mut rounds, mut ends): (Vec<f64>, _) = (Vec::new(), Instant::now());
    let is_over = |watched: &[Watched<'_>]| watched.iter().any(|one| one.load.is_over());
    while !interrupt.is_set() && !is_enough(&rounds) && !is_over(&watched) {
        // Where this thread was late, the next round is still one.
        ends = (ends + pace.round).max(Instant::now() + pace.round / 2);
        while Instant::now() + SAMPLING < ends {
            std::thread::sleep(SAMPLING);
            watched.iter_mut().for_each(Watched::sample);
        }
        std::thread::sleep(ends.saturating_duration_since(Instant::now()));
        watcher.waiting();
        rounds.push(watched.iter_mut().map(Watched::round).sum());
    }
    std::thread::sleep(pace.tail);
    let reached = watched.into_iter().map(Watched::end).collect::<Result<Vec<_>, LoadError>>()?;
    if interrupt.is_set() { Err(SaturateError::Interrupted) } else { Ok(reached) }
}

/// Adds up loads that ran at the same time: those of ranks, or of drives.
pub(super) fn sum(all: &[Reached]) -> Measured {
    let mut latency = Histogram::new();
    all.iter().for_each(|one| latency.merge(&one.latency));
    let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
    let rate = |one: &Reached, iops: f64| iops * f64::from(one.io_bytes);
    let longest = all.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
    let round =
        |at: usize| all.iter().filter_map(|one| Some(rate(one, *one.rounds.get(at)?))).sum::<f64>();
    let rounds: Vec<f64> = (0..longest).map(round).collect();
    let each: Vec<f64> = all.iter().map(|one| rate(one, one.iops)).collect();
    let bytes: u64 = all.iter().map(|one| one.bytes).sum();
    let cpu_ns: u64 = all.iter().map(|one| one.cpu_ns).sum();
    Measured {
        io_bytes: all.iter().map(|one| one.io_bytes).max().unwrap_or(0),
        depth: all.iter().map(|one| one.depth).sum(),
        bytes_per_s: each.iter().sum(),
        iops: all.iter().map(|one| one.iops).sum(),
        latency_p50_us: us(0.5),
        latency_p99_us: us(0.99),
        cpu_s_per_gib: cpu_ns as f64 / 1e9 / (bytes as f64 / GIB as f64).max(1e-9),
        steady: steady_mean(&rounds).is_some(),
        seconds: all.iter().map(|one| one.window_ns).max().unwrap_or(0) as f64 / 1e9,
        ranks_bytes_per_s: each,
    }
}

/// Whether all of these buffers are in huge pages; none where the kernel does not say so of one,
/// unless another is known not to be.
pub(super) fn all_huge(mut buffers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    buffers.try_fold(true, |all, is_huge| Some(all && is_huge?))
}

/// Load of a point, on the first so many bytes.
pub(super) fn plan(
    settings: &SaturateSettings,
    point: Point,
    read_percent: u32,
    range_bytes: u64,
) -> LoadPlan {
    LoadPlan {
        read_percent,
        io_bytes: point.io_bytes,
        depth: point.depth,
        range_bytes,
        access: Access::Random,
        polling: settings.polling,
        cpus: settings.cpus.clone(),
        bytes_max: None,
        seed: settings.seed,
        small_pages: false,
    }
}

impl Bench<'_> {
    pub(super) fn plan(&self, point: Point, read_percent: u32) -> LoadPlan {
        plan(self.settings, point, read_percent, self.range_bytes)
    }

    /// Measures a load of this process, and counts what it reads.
    pub(super) fn reach(
        &self,
        plan: LoadPlan,
        pace: &RoundPace,
        is_enough: &dyn Fn(&[f64]) -> bool,
        watcher: &mut dyn Watcher,
    ) -> Result<Vec<Reached>, SaturateError> {
        let reached = reach(&[(self.file, plan)], pace, is_enough, self.interrupt, watcher)?;
        let read_bytes = reached.iter().map(|one| one.all_read_bytes).sum::<u64>();
        self.read_bytes.set(self.read_bytes.get() + read_bytes);
        let buffers = reached.iter().map(|one| one.huge_buffers);
        self.huge_pages.set(all_huge(buffers.chain([self.huge_pages.get()])));
        Ok(reached)
    }

    /// Measures a load of this process alone; also returns whether it was measured for as long as
    /// it should be.
    pub(super) fn measure_alone(
        &self,
        point: Point,
        read_percent: u32,
        pace: &RoundPace,
        until: Option<Instant>,
        watcher: &mut dyn Watcher,
    ) -> Result<(Measured, bool), SaturateError> {
        let is_enough = |rounds: &[f64]| pace.is_enough(rounds, until);
        let reached = self.reach(self.plan(point, read_percent), pace, &is_enough, watcher)?;
        let measured = Measured { ranks_bytes_per_s: Vec::new(), ..sum(&reached) };
        let rounds = reached.iter().map(|one| one.rounds.len()).sum::<usize>();
        let is_whole = measured.steady || rounds >= pace.rounds_max;
        Ok((measured, is_whole))
    }
}

impl Bench<'_> {
    /// Whether the best reads are tried with buffers in small pages too.
    pub(super) fn tries_small_pages(&self) -> bool {
        self.settings.small_pages && self.group.is_none() && self.file.command_target().is_none()
    }

    /// Probes the best reads with buffers in pages of 4 KiB, until `until` at the latest; nothing
    /// where they were in such pages.
    pub(super) fn small_pages(
        &self,
        limits: &mut [Limit],
        until: Option<Instant>,
        watcher: &mut dyn Watcher,
    ) -> Result<(), SaturateError> {
        let has_time = until.is_none_or(|until| Instant::now() + PROBE.shortest() <= until);
        let is_tried = self.tries_small_pages() && self.huge_pages.get() == Some(true) && has_time;
        let reads = limits.iter_mut().find(|limit| limit.read_percent == 100);
        let Some(reads) = reads.filter(|_| is_tried) else { return Ok(()) };
        let best = &reads.bandwidth.best;
        let point = Point { io_bytes: best.io_bytes, depth: best.depth };
        let plan = LoadPlan { small_pages: true, ..self.plan(point, 100) };
        let is_enough = |rounds: &[f64]| PROBE.is_enough(rounds, until);
        let reached = self.reach(plan, &PROBE, &is_enough, watcher)?;
        // Those of all other loads are.
        self.huge_pages.set(Some(true));
        let measured = Measured { ranks_bytes_per_s: Vec::new(), ..sum(&reached) };
        reads.in_small_pages = Some(measured);
        Ok(())
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

#[cfg(test)]
mod tests {
    use ringfall_model::facts::steady::WINDOW;

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

    #[test]
    fn what_loads_reach_at_the_same_time_adds_up() {
        let of = |iops: f64, ms: u64| {
            let mut latency = Histogram::new();
            (0..10).for_each(|_| latency.record(ms * 1_000_000));
            Reached {
                io_bytes: 1 << 20,
                depth: 2,
                rounds: vec![iops; WINDOW],
                iops,
                bytes: 1 << 30,
                cpu_ns: 5_000_000,
                window_ns: 800_000_000,
                all_read_bytes: 0,
                huge_buffers: None,
                latency,
            }
        };
        let idle = Reached { rounds: vec![0.0; WINDOW], ..Reached::default() };
        let measured = sum(&[of(100.0, 2), of(50.0, 6), idle]);
        assert_eq!((measured.io_bytes, measured.depth), (1 << 20, 4));
        assert_eq!((measured.iops, measured.bytes_per_s), (150.0, 150.0 * 1_048_576.0));
        assert_eq!(measured.ranks_bytes_per_s, [104_857_600.0, 52_428_800.0, 0.0]);
        assert!(measured.steady && (measured.cpu_s_per_gib - 0.005).abs() < 1e-9);
        assert!((measured.latency_p50_us / 2_000.0 - 1.0).abs() < 0.01, "{measured:?}");
        assert!((measured.latency_p99_us / 6_000.0 - 1.0).abs() < 0.01, "{measured:?}");
        // Bytes are added up, not I/Os.
        let small = Reached { io_bytes: 4096, ..of(256.0, 1) };
        assert_eq!(sum(&[of(1.0, 1), small]).bytes_per_s, 2.0 * 1_048_576.0);
        // Rounds that are steady for each alone, and not together.
        let rising = |from: f64| Reached {
            io_bytes: 4096,
            rounds: (0..WINDOW).map(|round| from + 30.0 * round as f64).collect(),
            ..Reached::default()
        };
        assert!(!sum(&[rising(50.0), rising(10.0)]).steady);
    }

    #[test]
    fn buffers_are_in_huge_pages_where_the_kernel_says_so_of_all() {
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(all_huge([yes, yes].into_iter()), yes);
        assert_eq!(all_huge([yes, no].into_iter()), no);
        assert_eq!(all_huge([no, None].into_iter()), no);
        assert_eq!(all_huge([yes, None].into_iter()), None);
    }

    #[test]
    fn a_measurement_ends_steady_or_late_but_not_without_an_io() {
        let (even, idle) = ([5.0; WINDOW], [0.0; 3]);
        let (past, now) = (Some(Instant::now()), None);
        assert!(PROBE.is_enough(&even, now) && !PROBE.is_enough(&even[1..], now));
        assert!(PROBE.is_enough(&even[..1], past) && !PROBE.is_enough(&idle, past));
        let rising: Vec<f64> = (0..PROBE.rounds_max).map(|round| round as f64).collect();
        assert!(PROBE.is_enough(&rising, now) && !PROBE.is_enough(&rising[..11], now));
    }
}
