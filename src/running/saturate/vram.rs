//! The limits of the ways between GPU memory, host memory and a drive.

use std::time::Duration;

use ringfall_config::Until;
use ringfall_core::facts::GpuFacts;
use ringfall_engine::load::{LoadError, VramEnds, VramFigures, VramPlan, VramWay, measure_vram};
use ringfall_host::Machine;
use ringfall_host::interrupt::Interrupt;
use serde::Serialize;

use super::SaturateError;
use crate::precondition::{PreconditionPlan, precondition};

/// Layout of the file.
pub const VRAM_LIMITS_VERSION: u32 = 1;

/// Smallest I/O that is tried, bytes: half a chunk of GPU memory has eight of them.
const IO_BYTES_MIN: u32 = 128 << 10;
/// From one size to the next, and from one depth to the next.
const STEP: u32 = 4;
/// Depths that are tried on each thread.
const DEPTHS: [u32; 3] = [2, 8, 32];
/// Left out of each measurement at its beginning, as a part of it.
const RAMP_PART: u32 = 4;
/// Time without anything ended in which a measurement is given up: many times what any drive takes.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Loads that are tried, and the part of the file that they use.
#[derive(Clone, Debug)]
pub struct VramSettings {
    /// The first so many bytes of the file are used; they are written first.
    pub range_bytes: u64,
    /// Smallest and largest I/O, bytes.
    pub io_bytes: (u32, u32),
    /// Largest depth over all threads.
    pub depth_max: u32,
    /// Number of threads that submit I/Os and copies, at most `depth_max`.
    pub threads: u32,
    /// Memory for buffers, and as much of the GPU's, bytes.
    pub buffer_bytes_max: u64,
    /// Length of each measurement.
    pub seconds_each: f64,
    /// Random seed of the offsets.
    pub seed: u64,
}

/// Told what was measured.
pub type VramWatcher<'a> = &'a mut dyn FnMut(&str, &VramPoint);

/// The limits of all ways.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VramLimits {
    /// 1; also tells such a file from others.
    pub ringfall_vram_limits: u32,
    /// Version of ringfall that measured.
    pub version: &'static str,
    /// When it began, seconds since 1970.
    pub unix_s: f64,
    /// The machine on which it ran.
    pub machine: Machine,
    /// Backend: `cuda` or `emulated`.
    pub backend: &'static str,
    /// Whether the figures are a GPU's; else they are those of host memory that stands in for it.
    pub is_gpu: bool,
    /// Version of the CUDA interface of the driver; null without one.
    pub driver: Option<String>,
    /// Name of the GPU.
    pub device: String,
    /// Bytes of the file that were used.
    pub range_bytes: u64,
    /// Number of threads that submitted I/Os and copies.
    pub threads: u32,
    /// Length of each measurement, s, of which the first quarter does not count.
    pub seconds_each: f64,
    /// Whether host memory was page-locked for the GPU.
    pub is_page_locked: bool,
    /// Why nothing was measured past host memory; null where something was.
    pub why_not_gds: Option<String>,
    /// Whether it was interrupted, so that ways are missing.
    pub interrupted: bool,
    /// Error that ended the search, so that ways are missing; null where nothing did.
    pub failure: Option<String>,
    /// The ways, one row each.
    pub ways: Vec<VramWayLimits>,
}

/// The limits of one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VramWayLimits {
    /// Name of the way, such as `storage to VRAM, gds`.
    pub way: &'static str,
    /// The point with the most bytes a second.
    pub best: VramPoint,
    /// Everything that was measured this way, in the order in which it was tried.
    pub points: Vec<VramPoint>,
}

/// Result of one load of a way.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VramPoint {
    /// Size of each I/O or copy, bytes.
    pub io_bytes: u32,
    /// Number of I/Os or copies in flight, all threads together.
    pub depth: u32,
    /// Bandwidth, bytes a second.
    pub bytes_per_s: f64,
    /// Median time of one, µs; null where none ended in the measurement.
    pub latency_p50_us: Option<f64>,
    /// 99th percentile of the same, µs.
    pub latency_p99_us: Option<f64>,
}

/// The ways in the order in which they are measured, and what they are called.
const WAYS: [(VramWay, &str); 8] = [
    (VramWay::HostToVram, "host to VRAM"),
    (VramWay::VramToHost, "VRAM to host"),
    (VramWay::ReadBuffered, "storage to VRAM, pinned"),
    (VramWay::ReadDirect, "storage to VRAM, gds"),
    (VramWay::WriteBuffered, "VRAM to storage, pinned"),
    (VramWay::WriteDirect, "VRAM to storage, gds"),
    (VramWay::Fill, "content made in VRAM"),
    (VramWay::Check, "content compared in VRAM"),
];

/// GPU memory that the search needs, bytes.
pub fn vram_bytes(settings: &VramSettings) -> u64 {
    let needs =
        |point: &(u32, u32)| u64::from(settings.threads) * u64::from(point.0) * u64::from(point.1);
    points(settings).iter().map(needs).max().unwrap_or(0)
}

/// Measurements that the search takes, with or without a way past host memory.
pub fn vram_measurements(settings: &VramSettings, is_direct: bool) -> u32 {
    (points(settings).len() * if is_direct { WAYS.len() } else { WAYS.len() - 2 }) as u32
}

/// Sizes, and depths of each thread, that are tried: the largest size whatever the steps.
fn points(settings: &VramSettings) -> Vec<(u32, u32)> {
    let (least, most) = settings.io_bytes;
    let first = least.max(IO_BYTES_MIN).min(most);
    let sizes = std::iter::successors(Some(first), |&size| {
        (size < most).then(|| size.saturating_mul(STEP).min(most))
    });
    let depth_max = (settings.depth_max / settings.threads).max(1);
    let fits = |size: u32, depth: u32| {
        let bytes = u64::from(size) * u64::from(depth) * u64::from(settings.threads);
        depth == 1 || bytes <= settings.buffer_bytes_max
    };
    let mut points = Vec::new();
    for size in sizes {
        let depths = DEPTHS.iter().map(|depth| (*depth).min(depth_max));
        for depth in depths.filter(|depth| fits(size, *depth)) {
            if !points.contains(&(size, depth)) {
                points.push((size, depth));
            }
        }
        if points.iter().all(|point| point.0 != size) {
            points.push((size, 1));
        }
    }
    points
}

/// Writes the range once and measures every way; those that were measured to their end go to
/// `limits`. Returns the error that ended the search after the first way, if any.
///
/// # Errors
/// An I/O or a copy failed, or somebody interrupted, before there was anything.
pub fn vram_limits(
    ends: &VramEnds,
    settings: &VramSettings,
    interrupt: &Interrupt,
    watcher: VramWatcher<'_>,
    limits: &mut VramLimits,
) -> Result<Option<LoadError>, SaturateError> {
    let plan = PreconditionPlan {
        bytes: settings.range_bytes,
        range_bytes: settings.range_bytes,
        until: Until::Bytes,
        cpus: vec![None; settings.threads as usize],
        seed: settings.seed,
    };
    precondition(&ends.file, &plan, &|| interrupt.is_set(), &mut |_, _| {})?;
    if interrupt.is_set() {
        return Err(SaturateError::Interrupted);
    }
    let mut is_page_locked = true;
    for (way, name) in WAYS {
        let is_direct = matches!(way, VramWay::ReadDirect | VramWay::WriteDirect);
        if is_direct && ends.direct.is_none() {
            continue;
        }
        let mut measured = Vec::new();
        for (io_bytes, depth) in points(settings) {
            let each = Duration::from_secs_f64(settings.seconds_each);
            let plan = VramPlan {
                way,
                io_bytes,
                depth,
                threads: settings.threads,
                range_bytes: settings.range_bytes,
                ramp: each / RAMP_PART,
                window: each - each / RAMP_PART,
                seed: settings.seed,
                silence_max: SILENCE_MAX,
            };
            let figures = match measure_vram(ends, &plan, &|| interrupt.is_set()) {
                Err(_) if limits.ways.is_empty() && interrupt.is_set() => {
                    return Err(SaturateError::Interrupted);
                }
                Err(error) if limits.ways.is_empty() => return Err(error.into()),
                Err(error) => return Ok(Some(error)),
                Ok(_) if interrupt.is_set() => return Ok(None),
                Ok(figures) => figures,
            };
            is_page_locked &= figures.is_page_locked;
            let point = VramPoint::of(&plan, &figures);
            watcher(name, &point);
            measured.push(point);
        }
        let best = measured.iter().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let best = best.cloned().unwrap_or_default();
        limits.ways.push(VramWayLimits { way: name, best, points: measured });
        limits.is_page_locked = is_page_locked;
    }
    Ok(None)
}

impl VramPoint {
    fn of(plan: &VramPlan, figures: &VramFigures) -> VramPoint {
        let ended = &figures.ended;
        let us = |quantile: f64| ended.latency.quantile_ns(quantile).map(|ns| ns as f64 / 1e3);
        VramPoint {
            io_bytes: plan.io_bytes,
            depth: plan.depth * plan.threads,
            bytes_per_s: ended.bytes as f64 * 1e9 / (figures.window_ns.max(1)) as f64,
            latency_p50_us: us(0.5),
            latency_p99_us: us(0.99),
        }
    }
}

impl VramLimits {
    /// Limits without a way, of this GPU.
    pub fn of(facts: &GpuFacts, machine: Machine, settings: &VramSettings, unix_s: f64) -> Self {
        let device = facts.devices.first().map(|device| device.name.clone());
        VramLimits {
            ringfall_vram_limits: VRAM_LIMITS_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            unix_s,
            machine,
            backend: facts.kind.name(),
            is_gpu: facts.kind == ringfall_core::facts::GpuKind::Cuda,
            driver: facts.driver.clone(),
            device: device.unwrap_or_default(),
            range_bytes: settings.range_bytes,
            threads: settings.threads,
            seconds_each: settings.seconds_each,
            ..VramLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn points_stay_within_the_buffers_and_every_size_is_tried() {
        let settings = VramSettings {
            range_bytes: 1 << 30,
            io_bytes: (4096, 4 << 20),
            depth_max: 16,
            threads: 2,
            buffer_bytes_max: 64 << 20,
            seconds_each: 1.0,
            seed: 1,
        };
        let tried = points(&settings);
        assert_eq!(tried.len(), 8, "{tried:?}");
        let sizes = |most: u32| {
            let settings = VramSettings { io_bytes: (4096, most), ..settings.clone() };
            points(&settings).iter().map(|point| point.0).collect::<BTreeSet<u32>>()
        };
        assert_eq!(sizes(4 << 20), BTreeSet::from([128 << 10, 512 << 10, 2 << 20, 4 << 20]));
        assert_eq!(sizes(768 << 10), BTreeSet::from([128 << 10, 512 << 10, 768 << 10]));
        assert_eq!(sizes(64 << 10), BTreeSet::from([64 << 10]));
        assert!(tried.contains(&(128 << 10, 8)) && tried.contains(&(2 << 20, 2)), "{tried:?}");
        assert!(vram_bytes(&settings) <= 64 << 20);
        let tight = VramSettings { buffer_bytes_max: 1 << 20, ..settings.clone() };
        assert!(points(&tight).contains(&(2 << 20, 1)), "{:?}", points(&tight));
        let one = VramSettings { io_bytes: (4096, 4096), depth_max: 1, ..settings };
        assert_eq!(points(&one), [(4096, 1)]);
        assert_eq!((vram_measurements(&one, true), vram_measurements(&one, false)), (8, 6));
    }
}
