//! Writing a device full before it is measured: a fresh drive is faster than one in use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfall_engine::device::DataFile;
use ringfall_engine::load::{Access, Load, LoadError, LoadPlan};
use ringfall_engine::ring::Polling;

use ringfall_config::{PRECONDITION_THREAD_BYTES, Until};
use ringfall_host::Overdue;
use ringfall_model::facts::PreconditionReport;
use ringfall_model::facts::steady::steady_mean;

/// Size of the writes: a drive's full speed, whole erase units soon.
const IO_BYTES: u32 = 1 << 20;
/// Writes in flight, for each thread.
const DEPTH_A_THREAD: u32 = 16;

const _: () = assert!(PRECONDITION_THREAD_BYTES == IO_BYTES as u64 * DEPTH_A_THREAD as u64);
/// Interval at which progress is reported and rounds are checked.
const LOOK: Duration = Duration::from_millis(100);
/// A round, when the end is by measure: so much of the capacity, but no shorter than a second, so
/// that five rounds see more than the drive's write cache.
const ROUNDS_A_CAPACITY: u64 = 10;
const ROUND_MIN: Duration = Duration::from_secs(1);

/// Parameters of a preconditioning, as planned.
#[derive(Clone, Debug)]
pub struct PreconditionPlan {
    /// Bytes to write, at most.
    pub bytes: u64,
    /// They go to the first so many bytes, in order, again and again.
    pub range_bytes: u64,
    /// Condition that ends preconditioning.
    pub until: Until,
    /// A thread for each, on that core.
    pub cpus: Vec<Option<usize>>,
    /// Random seed of the content that is written.
    pub seed: u64,
}

/// Writes.
///
/// # Errors
/// An I/O failed, or it could not begin.
pub fn precondition(
    file: &Arc<DataFile>,
    plan: &PreconditionPlan,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PreconditionReport, LoadError> {
    // Each thread has a part of the range of its own, which must hold an I/O.
    let threads = plan.cpus.len().min((plan.range_bytes / u64::from(IO_BYTES)).max(1) as usize);
    let io_bytes = IO_BYTES.min(u32::try_from(plan.range_bytes).unwrap_or(u32::MAX));
    let io_bytes = (io_bytes / 4096).max(1) * 4096;
    let bytes = plan.bytes / u64::from(io_bytes) * u64::from(io_bytes);
    let load = Load::start(
        file,
        &LoadPlan {
            read_percent: 0,
            io_bytes,
            depth: DEPTH_A_THREAD * threads.max(1) as u32,
            range_bytes: plan.range_bytes,
            access: Access::Sequential,
            polling: Polling::None,
            cpus: plan.cpus[..threads].to_vec(),
            bytes_max: Some(bytes),
            seed: plan.seed,
            small_pages: false,
        },
    )?;
    let overdue = Overdue::new(format!("the drive of {} to write", file.path().display()));
    let (began, mut seen) = (Instant::now(), 0);
    let round_bytes = (plan.range_bytes / ROUNDS_A_CAPACITY).max(1);
    let mut report = PreconditionReport::default();
    let mut mark = (began, 0);
    while !load.is_over() && !report.interrupted {
        std::thread::sleep(LOOK);
        let done = load.progress().1;
        progress(done, bytes);
        if std::mem::replace(&mut seen, done) != done {
            overdue.moves();
        }
        report.interrupted = interrupted();
        let elapsed = mark.0.elapsed();
        if elapsed >= ROUND_MIN && done - mark.1 >= round_bytes {
            report.rounds_bytes_per_s.push((done - mark.1) as f64 / elapsed.as_secs_f64());
            mark = (Instant::now(), done);
            report.steady = steady_mean(&report.rounds_bytes_per_s).is_some();
            if plan.until == Until::Steady && report.steady && done >= plan.range_bytes {
                break;
            }
        }
    }
    report.bytes = load.progress().1;
    load.stop()?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}
