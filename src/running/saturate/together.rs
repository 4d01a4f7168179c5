//! Several drives at once, each with the load that was best for it alone: what they come to, and
//! what holds them back where that is less than their sum.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfall_core::metrics::Histogram;
use ringfall_core::units::GIB;
use ringfall_engine::device::DataFile;
use ringfall_engine::load::{Access, Load, LoadFigures, LoadPlan};
use ringfall_host::interrupt::Interrupt;
use ringfall_host::shared_port;
use ringfall_model::facts::steady::{WINDOW, steady_mean};
use ringfall_model::facts::{Best, Limit, Measured, Roofline, Together};

use super::{SaturateError, SaturateSettings, Watcher};

/// Before it is measured.
const RAMP: Duration = Duration::from_millis(200);
/// One round, and most rounds.
const ROUND: Duration = Duration::from_millis(400);
const ROUNDS_MAX: usize = 20;
/// Share of the sum of the drives alone from which on nothing between them holds them back.
const ALL_SHARE: f64 = 0.95;
/// Share of the cores' time from which on it is they that do.
const CPU_SHARE: f64 = 0.9;

/// Measures all drives at once, until `until` at the latest, but for a round of each direction;
/// `alone` is what was found for each of `files` by itself.
///
/// # Errors
/// An I/O failed, or somebody interrupted.
pub fn together(
    files: &[Arc<DataFile>],
    alone: Vec<Roofline>,
    settings: &SaturateSettings,
    until: Option<Instant>,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<Roofline, SaturateError> {
    let (began, mut limits, mut rows) = (Instant::now(), Vec::new(), Vec::new());
    for (index, &read_percent) in settings.read_percents.iter().enumerate() {
        // An equal part of the time for each that is still to come.
        let parts = (settings.read_percents.len() - index) as u32;
        let until = until.map(|until| {
            let now = Instant::now();
            now + until.saturating_duration_since(now) / parts
        });
        let best = |roofline: &Roofline| {
            let limits = roofline.limits.iter();
            limits.clone().find(|limit| limit.read_percent == read_percent).cloned()
        };
        // Every drive was measured for the same percentages.
        let Some(bests) = alone.iter().map(best).collect::<Option<Vec<Limit>>>() else { continue };
        let bests: Vec<Measured> = bests.into_iter().map(|limit| limit.bandwidth.best).collect();
        let plans = plans(&alone, &bests, settings, read_percent);
        let (measured, each) = measure(files, &plans, until, interrupt, watcher)?;
        watcher.measured(read_percent, &measured.total, true);
        let sum_alone_bytes_per_s: f64 = bests.iter().map(|best| best.bytes_per_s).sum();
        let bytes_per_s = measured.total.bytes_per_s;
        let cpu_share = measured.cpu_share(&plans);
        rows.push(Together {
            read_percent,
            bytes_per_s,
            each_bytes_per_s: each,
            sum_alone_bytes_per_s,
            times_one: bytes_per_s * bests.len() as f64 / sum_alone_bytes_per_s.max(1.0),
            cpu_share,
            bound_by: bound_by(bytes_per_s / sum_alone_bytes_per_s.max(1.0), cpu_share, &alone),
        });
        let total = measured.total;
        let bandwidth =
            Best { best: total.clone(), knee: total, probes: Vec::new(), settled: true };
        limits.push(Limit { read_percent, bandwidth, iops: None });
    }
    let warnings: BTreeSet<&String> = alone.iter().flat_map(|drive| &drive.warnings).collect();
    let first = alone.first().cloned().unwrap_or_else(|| unreachable!("there are several drives"));
    Ok(Roofline {
        range_bytes: alone.iter().map(|drive| drive.range_bytes).sum(),
        range_left_bytes: alone.iter().map(|drive| drive.range_left_bytes).sum(),
        seconds: alone.iter().map(|drive| drive.seconds).sum::<f64>()
            + began.elapsed().as_secs_f64(),
        time_limit_s: settings.time_limit_s,
        warnings: warnings.into_iter().cloned().collect(),
        limits,
        together: rows,
        drives: alone,
        ..first
    })
}

/// The best load of each drive, from cores of its own as far as there are enough.
fn plans(
    alone: &[Roofline],
    bests: &[Measured],
    settings: &SaturateSettings,
    read_percent: u32,
) -> Vec<LoadPlan> {
    let cores = &settings.cpus;
    let each = (cores.len() / bests.len().max(1)).max(1);
    let plan = |(index, (best, drive)): (usize, (&Measured, &Roofline))| {
        let threads = each.min(best.depth.max(1) as usize);
        let core = |thread: usize| cores[(index * each + thread) % cores.len().max(1)];
        LoadPlan {
            read_percent,
            io_bytes: best.io_bytes,
            depth: best.depth,
            range_bytes: drive.range_bytes,
            access: Access::Random,
            polling: settings.polling,
            cpus: (0..threads).map(core).collect(),
            bytes_max: None,
            seed: settings.seed.wrapping_add(index as u64),
        }
    };
    bests.iter().zip(alone).enumerate().map(plan).collect()
}

struct Sum {
    total: Measured,
    cpu_ns: u64,
}

impl Sum {
    /// Share of the time that the threads' cores were busy.
    fn cpu_share(&self, plans: &[LoadPlan]) -> f64 {
        let mut cores: Vec<Option<usize>> =
            plans.iter().flat_map(|plan| plan.cpus.clone()).collect();
        cores.sort_unstable();
        cores.dedup();
        let window_ns = self.total.seconds * 1e9 * cores.len().max(1) as f64;
        (self.cpu_ns as f64 / window_ns.max(1.0)).min(1.0)
    }
}

/// All of them until their sum is steady; the sum, and the bandwidth of each.
fn measure(
    files: &[Arc<DataFile>],
    plans: &[LoadPlan],
    until: Option<Instant>,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<(Sum, Vec<f64>), SaturateError> {
    let loads: Vec<Load> = files
        .iter()
        .zip(plans)
        .map(|(file, plan)| Load::start(file, plan))
        .collect::<Result<_, _>>()?;
    std::thread::sleep(RAMP);
    loads.iter().for_each(Load::open_window);
    let done = |loads: &[Load]| -> Vec<u64> {
        loads
            .iter()
            .zip(plans)
            .map(|(load, plan)| load.progress().0 * u64::from(plan.io_bytes))
            .collect()
    };
    let (began, first) = (Instant::now(), done(&loads));
    let (mut rounds, mut mark, mut steady) =
        (Vec::new(), (began, first.iter().sum::<u64>()), false);
    let mut last = first.clone();
    let is_late = || until.is_some_and(|until| Instant::now() + ROUND > until);
    let is_enough = |rounds: &[f64], steady| {
        rounds.len() >= ROUNDS_MAX || steady || (!rounds.is_empty() && is_late())
    };
    while !is_enough(&rounds, steady) && !loads.iter().any(Load::is_over) {
        std::thread::sleep(ROUND);
        if interrupt.is_set() {
            for load in loads {
                load.stop()?;
            }
            return Err(SaturateError::Interrupted);
        }
        watcher.waiting();
        last = done(&loads);
        let now = (Instant::now(), last.iter().sum::<u64>());
        rounds.push((now.1 - mark.1) as f64 / now.0.duration_since(mark.0).as_secs_f64());
        mark = now;
        steady = rounds.len() >= WINDOW && steady_mean(&rounds).is_some();
    }
    let seconds = mark.0.duration_since(began).as_secs_f64().max(1e-9);
    let figures = loads.into_iter().map(Load::stop).collect::<Result<Vec<LoadFigures>, _>>()?;
    let each: Vec<f64> =
        last.iter().zip(&first).map(|(last, first)| (last - first) as f64 / seconds).collect();
    Ok((sum(plans, &figures, &each, (seconds, steady)), each))
}

fn sum(
    plans: &[LoadPlan],
    figures: &[LoadFigures],
    each: &[f64],
    (seconds, steady): (f64, bool),
) -> Sum {
    let mut latency = Histogram::new();
    for one in figures {
        latency.merge(&one.read.latency);
        latency.merge(&one.write.latency);
    }
    let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
    let bytes_per_s: f64 = each.iter().sum();
    let cpu_ns = figures.iter().map(|one| one.cpu_ns).sum();
    let iops = each.iter().zip(plans).map(|(rate, plan)| rate / f64::from(plan.io_bytes)).sum();
    let total = Measured {
        io_bytes: plans.iter().map(|plan| plan.io_bytes).max().unwrap_or(0),
        depth: plans.iter().map(|plan| plan.depth).sum(),
        bytes_per_s,
        iops,
        latency_p50_us: us(0.5),
        latency_p99_us: us(0.99),
        cpu_s_per_gib: cpu_ns as f64 / 1e9 / (bytes_per_s * seconds / GIB as f64).max(1e-9),
        steady,
        seconds,
        ranks_bytes_per_s: Vec::new(),
    };
    Sum { total, cpu_ns }
}

/// Names the bottleneck of drives that together reach this share of their sum alone.
fn bound_by(share: f64, cpu_share: f64, alone: &[Roofline]) -> String {
    if share >= ALL_SHARE {
        return "the drives".to_owned();
    }
    let lost = format!("{:.0} % of their sum alone", share * 100.0);
    if cpu_share >= CPU_SHARE {
        return format!("the CPU, whose cores are {:.0} % busy ({lost})", cpu_share * 100.0);
    }
    let disks: Option<Vec<&str>> = alone
        .iter()
        .map(|drive| drive.machine.device.as_ref().map(|device| &device.numbers[..]))
        .collect();
    let disks = disks.unwrap_or_default();
    if disks.windows(2).any(|pair| pair[0] == pair[1]) {
        return format!("the disk that they share ({lost})");
    }
    match shared_port(&disks) {
        Some(port) => format!("what lies between: they share the PCIe port {port} ({lost})"),
        None => format!("something that they share: memory, a NUMA link or a host below ({lost})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_how_many_times_one_and_why() {
        let row = Together {
            each_bytes_per_s: vec![1e9; 8],
            times_one: 7.24,
            bound_by: bound_by(0.905, 0.95, &[]),
            ..Together::default()
        };
        let text = "8 drives: 7.2 × one, bound by the CPU, whose cores are 95 % busy (90 % of \
                    their sum alone)";
        assert_eq!(row.sentence(), text);
        assert_eq!(bound_by(0.96, 1.0, &[]), "the drives");
        assert!(bound_by(0.5, 0.1, &[]).starts_with("something that they share"));
    }
}
