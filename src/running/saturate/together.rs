//! Several drives at once, each with the load that was best for it alone: what they come to, and
//! what holds them back where that is less than their sum.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use ringfall_engine::device::DataFile;
use ringfall_engine::load::LoadPlan;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::shared_port;
use ringfall_model::facts::{Best, Limit, Measured, Roofline, Together};

use super::measure::{CONFIRM, RoundPace, all_huge, plan, reach, sum};
use super::search::Point;
use super::{SaturateError, SaturateSettings, Watcher};

/// Duration of a measurement.
const PACE: RoundPace = RoundPace { rounds_max: 20, ..CONFIRM };
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
        // Every drive was measured for the same percentages, in the same order.
        let bests: Vec<&Measured> =
            alone.iter().map(|drive| &drive.limits[index].bandwidth.best).collect();
        let plans = plans(&alone, &bests, settings, read_percent);
        let drives: Vec<(&Arc<DataFile>, LoadPlan)> = files.iter().zip(plans).collect();
        let is_enough = |rounds: &[f64]| PACE.is_enough(rounds, until);
        let reached = reach(&drives, &PACE, &is_enough, interrupt, watcher)?;
        let mut total = sum(&reached);
        let each_bytes_per_s = std::mem::take(&mut total.ranks_bytes_per_s);
        watcher.measured(read_percent, &total, true);
        let sum_alone_bytes_per_s: f64 = bests.iter().map(|best| best.bytes_per_s).sum();
        let bytes_per_s = total.bytes_per_s;
        let cpu_ns = reached.iter().map(|one| one.cpu_ns).sum::<u64>();
        let cpu_share = cpu_share(&drives, cpu_ns, total.seconds);
        rows.push(Together {
            read_percent,
            bytes_per_s,
            each_bytes_per_s,
            sum_alone_bytes_per_s,
            times_one: bytes_per_s * bests.len() as f64 / sum_alone_bytes_per_s.max(1.0),
            cpu_share,
            bound_by: bound_by(bytes_per_s / sum_alone_bytes_per_s.max(1.0), cpu_share, &alone),
        });
        let bandwidth =
            Best { best: total.clone(), knee: total, probes: Vec::new(), settled: true };
        limits.push(Limit { read_percent, bandwidth, ..Limit::default() });
    }
    let warnings: BTreeSet<&String> = alone.iter().flat_map(|drive| &drive.warnings).collect();
    let all = Roofline {
        range_bytes: alone.iter().map(|drive| drive.range_bytes).sum(),
        range_left_bytes: alone.iter().map(|drive| drive.range_left_bytes).sum(),
        seconds: alone.iter().map(|drive| drive.seconds).sum::<f64>()
            + began.elapsed().as_secs_f64(),
        time_limit_s: settings.time_limit_s,
        huge_pages: all_huge(alone.iter().map(|drive| drive.huge_pages)),
        warnings: warnings.into_iter().cloned().collect(),
        limits,
        together: rows,
        ..alone[0].clone()
    };
    Ok(Roofline { drives: alone, ..all })
}

/// The best load of each drive, from cores of its own as far as there are enough.
fn plans(
    alone: &[Roofline],
    bests: &[&Measured],
    settings: &SaturateSettings,
    read_percent: u32,
) -> Vec<LoadPlan> {
    let cores = &settings.cpus;
    let each = (cores.len() / bests.len().max(1)).max(1);
    let of_drive = |(index, (best, drive)): (usize, (&&Measured, &Roofline))| {
        let point = Point { io_bytes: best.io_bytes, depth: best.depth };
        let threads = each.min(best.depth.max(1) as usize);
        let core = |thread: usize| cores[(index * each + thread) % cores.len().max(1)];
        LoadPlan {
            cpus: (0..threads).map(core).collect(),
            seed: settings.seed.wrapping_add(index as u64),
            ..plan(settings, point, read_percent, drive.range_bytes)
        }
    };
    bests.iter().zip(alone).enumerate().map(of_drive).collect()
}

/// Share of the time that the threads' cores were busy.
fn cpu_share(drives: &[(&Arc<DataFile>, LoadPlan)], cpu_ns: u64, seconds: f64) -> f64 {
    let cores: BTreeSet<Option<usize>> =
        drives.iter().flat_map(|(_, plan)| plan.cpus.iter().copied()).collect();
    (cpu_ns as f64 / (seconds * 1e9 * cores.len().max(1) as f64).max(1.0)).min(1.0)
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
