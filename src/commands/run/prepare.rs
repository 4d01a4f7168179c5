//! Work on an open store before the run: preconditioning, a fresh roofline.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use ringfall_config::{Plan, RooflineFrom};
use ringfall_core::clock::Nanos;
use ringfall_core::error::SetupError;
use ringfall_core::units::{BLOCK_BYTES, GIB, MIB, gib};
use ringfall_engine::load::LoadError;
use ringfall_engine::ring::Polling;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::{Machine, Overdue, ProgressLine, human};
use ringfall_model::facts::{Measured, PreconditionReport, Roofline};
use ringfall_running::blocktrace::BlockTrace;
use ringfall_running::group::Group;
use ringfall_running::precondition::{PreconditionPlan, precondition};
use ringfall_running::saturate::{SaturateError, SaturateSettings, Watcher, find};
use ringfall_running::store::Store;

use super::settings::pinned_cores;
use crate::progress::time_left;

/// Bytes that a fresh roofline is measured on, at most.
const FRESH_RANGE_BYTES: u64 = 4 * GIB;
/// Memory of its buffers.
const FRESH_BUFFER_BYTES: u64 = 256 * MIB;
/// Time limit of the fresh roofline, seconds. A drive of 100 MB/s writes its range in 45 s.
const FRESH_TIME_LIMIT_S: u32 = 300;
/// Capacities written by default: the second pass finds the drive as the first left it.
const CAPACITIES: u64 = 2;
/// Interval of the checks on preconditioning's progress.
const PRECONDITION_LOOK: Duration = Duration::from_millis(100);

/// Describes the progress of preallocation, and the time left at the pace so far.
pub(super) fn space_given(done_bytes: u64, all_bytes: u64, elapsed: Nanos) -> String {
    let left = time_left(elapsed.as_secs_f64(), done_bytes, all_bytes);
    format!("preallocating: {} of {}{left}", human(done_bytes), human(all_bytes))
}

/// Results of the preparation.
#[derive(Default)]
pub(super) struct Prepared {
    pub precondition: Option<PreconditionReport>,
    pub roofline: Option<(String, Roofline)>,
}

/// Work that the plan asks for before the run.
pub(super) struct Preparation<'a> {
    pub plan: &'a Plan,
    pub store: &'a Store,
    pub interrupt: &'a Interrupt,
    pub told: &'a mut ProgressLine,
    /// The other ranks, if there are some.
    pub group: Option<&'a Group>,
}

/// Starts tracing the block layer below the store.
pub(super) fn trace(store: &Store, told: &mut ProgressLine) -> Result<BlockTrace, String> {
    let device = Machine::look(store.path()).device;
    let device = device.ok_or_else(|| "there is no block device below the store".to_owned());
    let trace = device.and_then(|device| BlockTrace::start(&device.name, &device.numbers));
    if let Err(why) = &trace {
        told.tell(&format!("warning: the block layer is not traced: {why}"));
    }
    trace
}

impl Preparation<'_> {
    /// Does all of the work that is asked for.
    pub(super) fn carry_out(mut self) -> Result<Prepared, LoadError> {
        let mut prepared = Prepared::default();
        if self.plan.is_preconditioned {
            prepared.precondition = Some(self.fill()?);
        }
        tell_population(self.plan, self.store, self.told);
        if self.plan.roofline == Some(RooflineFrom::Fresh) && !self.interrupt.is_set() {
            let roofline = self.fresh()?;
            prepared.roofline = roofline.map(|roofline| ("fresh".to_owned(), roofline));
        }
        Ok(prepared)
    }

    fn fill(&mut self) -> Result<PreconditionReport, LoadError> {
        let Preparation { plan, store, interrupt, told, .. } = self;
        let capacity = store.capacity_bytes();
        let bytes = match plan.precondition_bytes {
            0 => capacity * CAPACITIES,
            bytes => bytes,
        };
        let began = Instant::now();
        let report = precondition_all(
            store,
            &PreconditionPlan {
                bytes,
                range_bytes: capacity,
                until: plan.precondition_until,
                cpus: cores(plan, plan.precondition_threads),
                seed: plan.seed,
            },
            interrupt,
            &mut |done, of| {
                let left = time_left(began.elapsed().as_secs_f64(), done, of);
                told.show_if_due(|| {
                    format!("preconditioning: {:.2} of {:.2} GiB{left}", gib(done), gib(of))
                });
            },
        )?;
        let state = match (report.interrupted, report.steady) {
            (true, _) => ", interrupted",
            (false, true) => ", steady",
            (false, false) => "",
        };
        told.tell(&format!(
            "preconditioned: {:.2} GiB in {:.1} s, {:.3} GiB/s{state}; none of it counts",
            gib(report.bytes),
            report.seconds,
            gib(report.bytes) / report.seconds.max(1e-9)
        ));
        Ok(report)
    }

    /// The limits of the drive. Ranks load it together, as each alone would find what the others
    /// leave it; rank 0 then has the limits of all.
    fn fresh(&mut self) -> Result<Option<Roofline>, LoadError> {
        let Preparation { plan, store, interrupt, told, group } = self;
        // What there is of a roofline is of one drive.
        let [drive] = &store.drives[..] else { return Ok(None) };
        let io_bytes = plan.io_size_bytes;
        let settings = SaturateSettings {
            range_bytes: drive.capacity_bytes().min(FRESH_RANGE_BYTES),
            io_bytes: (io_bytes.min(256 << 10), io_bytes.max(4 << 20)),
            depth_max: 1024,
            buffer_bytes_max: FRESH_BUFFER_BYTES,
            cpus: cores(plan, 0),
            polling: Polling::None,
            read_percents: vec![100, 0],
            iops: false,
            small_pages: false,
            usual: None,
            seed: plan.seed,
            time_limit_s: Some(FRESH_TIME_LIMIT_S),
        };
        drive.file.give(settings.range_bytes / BLOCK_BYTES)?;
        let machine = Machine::look(drive.path());
        let live = &mut Live { told, began: Instant::now() };
        let found = find(&drive.file, &settings, machine, interrupt, live, *group);
        let is_whole = settings.range_bytes == drive.capacity_bytes();
        if is_whole && found.is_ok() {
            drive.file.all_written();
        }
        match found {
            Ok(Some(roofline)) => {
                let of = match roofline.ranks.len() {
                    0 => String::new(),
                    ranks => format!(" of {ranks} ranks together"),
                };
                let limit = |percent| roofline.bandwidth(percent).unwrap_or(0.0) / GIB as f64;
                told.tell(&format!(
                    "roofline{of}: read {:.3} GiB/s, write {:.3} GiB/s, found in {:.1} s",
                    limit(100),
                    limit(0),
                    roofline.seconds
                ));
                Ok(Some(roofline))
            }
            // The run then ends at once: as interrupted, or as another rank has failed.
            Ok(None) | Err(SaturateError::Interrupted | SaturateError::Ranks(_)) => Ok(None),
            Err(SaturateError::Load(error)) => Err(error),
        }
    }
}

/// Writes all drives at once, each its share, with as many threads each as one would have.
fn precondition_all(
    store: &Store,
    all: &PreconditionPlan,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PreconditionReport, LoadError> {
    let part = |bytes: u64, of: u64| {
        let part = u128::from(bytes) * u128::from(of) / u128::from(all.range_bytes.max(1));
        part as u64 / BLOCK_BYTES * BLOCK_BYTES
    };
    let done: Vec<AtomicU64> = store.drives.iter().map(|_| AtomicU64::new(0)).collect();
    let gives_up = AtomicBool::new(false);
    let write = |index: usize| -> Result<PreconditionReport, LoadError> {
        let drive = &store.drives[index];
        let overdue = Overdue::new(format!("the space of {}", drive.path().display()));
        drive.file.give(drive.capacity_blocks)?;
        drop(overdue);
        let own = PreconditionPlan {
            bytes: match store.drives.len() {
                1 => all.bytes,
                _ => part(all.bytes, drive.capacity_bytes()),
            },
            range_bytes: drive.capacity_bytes(),
            seed: all.seed.wrapping_add(index as u64),
            ..all.clone()
        };
        let is_over = || interrupt.is_set() || gives_up.load(Ordering::Relaxed);
        let report = precondition(&drive.file, &own, &is_over, &mut |bytes, _| {
            done[index].store(bytes, Ordering::Relaxed);
        })?;
        if report.bytes >= own.range_bytes {
            drive.file.all_written();
        }
        Ok(report)
    };
    let write = &write;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for index in 0..store.drives.len() {
            let builder = std::thread::Builder::new().name("ringfall-fill".to_owned());
            match builder.spawn_scoped(scope, move || write(index)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gives_up.store(true, Ordering::Relaxed);
                    return Err(SetupError::NoThread { reason: error.to_string() }.into());
                }
            }
        }
        while threads.iter().any(|thread| !thread.is_finished()) {
            let bytes = done.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
            progress(bytes, all.bytes);
            std::thread::sleep(PRECONDITION_LOOK);
        }
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let reports = joined.collect::<Result<Vec<_>, _>>()?;
        Ok(reports.into_iter().reduce(PreconditionReport::and).unwrap_or_default())
    })
}

/// Announces the population to be written, and how much of it the tiers hold: a size of 0 is known
/// only now.
fn tell_population(plan: &Plan, store: &Store, told: &mut ProgressLine) {
    let estimate = plan.workload_config().population_estimate();
    if estimate.entries == 0 {
        return;
    }
    let memory_bytes = plan.cpu_memory_bytes.saturating_add(plan.gpu_memory_bytes);
    let held = store.capacity_bytes().saturating_add(memory_bytes);
    let more = match estimate.bytes > held {
        true => format!("; the tiers hold {}, so that the first are evicted again", human(held)),
        false => String::new(),
    };
    told.tell(&format!(
        "writing about {} in {} entries before the measurement{more}",
        human(estimate.bytes),
        estimate.entries
    ));
}

fn cores(plan: &Plan, threads: u32) -> Vec<Option<usize>> {
    let near = pinned_cores(plan).unwrap_or_default();
    let count = match threads {
        0 => usize::from(plan.shards),
        threads => threads as usize,
    };
    (0..count).map(|index| near.get(index % near.len().max(1)).copied()).collect()
}

struct Live<'a> {
    told: &'a mut ProgressLine,
    began: Instant,
}

impl Live<'_> {
    /// Tells that, and the time left: most drives need less.
    fn progress(&mut self, what: &str) {
        let left_s = f64::from(FRESH_TIME_LIMIT_S) - self.began.elapsed().as_secs_f64();
        self.told.show_if_due(|| {
            format!("roofline: {what}, at most {:.0} s left", left_s.max(0.0).ceil())
        });
    }
}

impl Watcher for Live<'_> {
    fn measured(&mut self, read_percent: u32, measured: &Measured, _confirmed: bool) {
        self.progress(&format!(
            "{read_percent} % read, {} KiB × {} deep: {:.2} GiB/s",
            measured.io_bytes >> 10,
            measured.depth,
            measured.bytes_per_s / GIB as f64
        ));
    }

    fn preparing(&mut self, done_bytes: u64, of_bytes: u64) {
        self.progress(&format!(
            "writing first, {:.2} of {:.2} GiB",
            gib(done_bytes),
            gib(of_bytes)
        ));
    }
}
