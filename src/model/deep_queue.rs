//! Queues that were full all the time, deeper than the drive needs: what they add is latency.

use ringfall_core::facts::buffers_a_shard;

use super::RunResult;
use crate::facts::DepthReason;

/// A queue is full when, on average, this share of its places is in use.
const FULL_SHARE: f64 = 0.8;
/// Share of the window in which the device had nothing to do above which no queue was always full.
const IDLE_SHARE_MAX: f64 = 0.05;
/// It is deep when the median I/O takes this many times as long as the fastest: an I/O that finds a
/// drive at rest is no slower than that.
const QUEUED_TIMES: f64 = 8.0;

/// I/Os that may be in flight, of all shards and drives together: places without a buffer are none.
/// A simulated run has what the plan says of buffers on each drive, a real one on all together.
pub(super) fn places(result: &RunResult, is_simulated: bool) -> u64 {
    let plan = &result.plan;
    let drives = result.drives.len().max(1) as u64;
    let bytes = plan.io_buffer_bytes / if is_simulated { 1 } else { drives };
    let io_bytes = u64::from(plan.io_size_bytes);
    let depth = buffers_a_shard(bytes, plan.shards, io_bytes, result.depth());
    u64::from(depth) * u64::from(plan.shards) * drives
}

/// Whether the queues' depth, rather than the memory of the buffers, bounds the I/Os in flight of a
/// simulated run.
pub(super) fn has_buffers_for_all(result: &RunResult) -> bool {
    places(result, true) >= queues(result) * u64::from(result.depth())
}

/// Queues of all shards: one on each drive.
fn queues(result: &RunResult) -> u64 {
    u64::from(result.plan.shards) * result.drives.len().max(1) as u64
}

/// Flag to try when the queue was deep: no search can run beside the autoscaler, and a search that
/// was cut short needs more time rather than a second search.
pub(super) fn flag_to_try(result: &RunResult) -> &'static str {
    match result.queue_depth.as_ref().map(|found| found.reason) {
        _ if result.plan.enable_autoscaling => "lower --queue-depth",
        None => "--queue-depth auto",
        Some(DepthReason::NoAnswer) => "lower --queue-depth",
        Some(_) => "longer --warmup",
    }
}

/// Whether a device that was busy for that share of the window may have had a full queue all the
/// time; so it may where nothing is known.
pub(super) fn may_be_full(utilisation: Option<f64>) -> bool {
    utilisation.is_none_or(|busy| busy >= 1.0 - IDLE_SHARE_MAX)
}

/// Text of the warning about a deep queue that was always full; `None` where it was not, or where a
/// search has chosen its depth.
pub(super) fn told(result: &RunResult) -> Option<String> {
    let found = result.queue_depth.as_ref().map(|found| found.reason);
    if matches!(found, Some(DepthReason::Knee | DepthReason::StillRises))
        || result.objects.is_some()
        || result.files.is_some()
    {
        return None;
    }
    let places = places(result, result.simulation.is_some());
    let is_single = places <= queues(result);
    let places = places as f64;
    let mut latency = result.engine.io_read.latency.clone();
    latency.merge(&result.engine.io_write.latency);
    let seconds = result.window.seconds;
    if is_single || seconds <= 0.0 || !may_be_full(utilisation(result)) {
        return None;
    }
    let ms = |quantile| latency.quantile_ns(quantile).map(|ns| ns as f64 / 1e6);
    let (fastest_ms, median_ms) = (ms(0.0).filter(|&ms| ms > 0.0)?, ms(0.5)?);
    let in_flight = latency.sum_ns() as f64 / 1e9 / seconds;
    let per_s = latency.count() as f64 / seconds;
    let is_deep = in_flight >= FULL_SHARE * places && median_ms >= QUEUED_TIMES * fastest_ms;
    is_deep.then(|| {
        format!(
            "the queue was full all the time, with {in_flight:.0} of {places:.0} I/Os in flight: a \
             single I/O took {median_ms:.2} ms (P50), where the fastest took {fastest_ms:.2} ms. \
             That is depth ÷ rate ({places:.0} ÷ {per_s:.0} per second = {:.2} ms): a smaller \
             depth may reach nearly the same bandwidth at less latency",
            places / per_s * 1e3
        )
    })
}

/// Share of the window in which the device had something to do: by the kernel, or by the simulation
/// of it, which is busy as well where it can't take more I/Os at a time; none where neither knows.
fn utilisation(result: &RunResult) -> Option<f64> {
    if let Some(simulation) = &result.simulation {
        let crowded = simulation.drive_crowded_share.known();
        return simulation.drive_busy_share.known().zip(crowded).map(|(busy, full)| busy.max(full));
    }
    let kernel = result.kernel.as_ref()?;
    Some(kernel.busy_ms as f64 / 1e3 / result.window.seconds)
}

#[cfg(test)]
mod tests {
    use ringfall_host::BlockDelta;

    use super::*;
    use crate::SimulationReport;
    use crate::facts::{DriveOutcome, SimulationFigures};
    use crate::testing::{busy, depth, nothing};

    /// I/Os of which the first took `fastest_us` and the others `usual_us`, as many as fill that
    /// many places.
    fn run(places: u64, fastest_us: u64, usual_us: u64) -> RunResult {
        let mut result = nothing();
        let ios = (result.window.seconds * 1e6) as u64 * places / usual_us;
        result.engine.io_read.latency.record(fastest_us * 1_000);
        (1..ios).for_each(|_| result.engine.io_read.latency.record(usual_us * 1_000));
        result
    }

    #[test]
    fn a_queue_that_is_full_and_deep_is_told_with_littles_law() {
        let full = run(128, 200, 20_000);
        assert_eq!((full.plan.shards, full.plan.queue_depth), (2, 64));
        let text = told(&full).unwrap();
        for part in ["128 of 128", "20.0", "depth ÷ rate (128 ÷ 6400 per second = 20.00 ms)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Half full; or full, of a drive that takes as long without a queue.
        assert_eq!(told(&run(64, 200, 20_000)), None);
        assert_eq!(told(&run(128, 4_000, 20_000)), None);
        assert_eq!(told(&nothing()), None);
        // The kernel saw the drive idle for a sixth of the time.
        for (busy_ms, is_told) in [(8_500, false), (9_600, true)] {
            let mut run = run(128, 200, 20_000);
            run.kernel = busy().kernel.map(|kernel| BlockDelta { busy_ms, ..kernel });
            assert_eq!(told(&run).is_some(), is_told, "{busy_ms}");
        }
        // "Bound by drive latency: the drive was busy 82 % of the time only" stood beside it.
        for (busy, crowded, is_told) in [(0.82, 0.0, false), (0.99, 0.0, true), (0.1, 0.99, true)] {
            let mut run = run(128, 200, 20_000);
            let figures = SimulationFigures {
                drive_busy_share: busy,
                drive_crowded_share: crowded,
                ..SimulationFigures::default()
            };
            let named = ("nvme".to_owned(), "measured".to_owned());
            run.simulation =
                Some(SimulationReport::of(named, figures, None, Err(String::new()), &run));
            assert_eq!(told(&run).is_some(), is_told, "{busy} {crowded}");
        }
        // Fewer buffers than places: those are full.
        let mut small = run(16, 200, 20_000);
        small.plan.io_buffer_bytes = 16 << 20;
        assert!(told(&small).unwrap().contains("16 of 16"));
        // As many bytes are for each drive where they are simulated, for both together elsewhere.
        small.drives = vec![DriveOutcome::default(), DriveOutcome::default()];
        assert_eq!([false, true].map(|simulated| places(&small, simulated)), [16, 32]);
    }

    #[test]
    fn what_is_advised_can_be_done() {
        let mut result = run(128, 200, 20_000);
        assert_eq!(flag_to_try(&result), "--queue-depth auto");
        result.queue_depth = Some(depth(64, DepthReason::OutOfTime));
        assert_eq!(flag_to_try(&result), "longer --warmup");
        result.queue_depth = Some(depth(64, DepthReason::TooFewIos));
        assert_eq!(flag_to_try(&result), "longer --warmup");
        result.queue_depth = None;
        result.plan.enable_autoscaling = true;
        assert_eq!(flag_to_try(&result), "lower --queue-depth");
    }
}
