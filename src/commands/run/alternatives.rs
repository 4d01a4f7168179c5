//! Search for what limits a simulated run: it is simulated again with more of each resource that
//! its requests used, and that of which more makes them fastest does.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;
use ringfall_config::{DeviceFile, Plan, Traffic};
use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_host::counted;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::facts::{Looks, SimulationFigures};
use ringfall_model::health::SAMPLES_MIN;
use ringfall_model::{Alternative, Alternatives, Binding, RunResult};
use ringfall_workloads::layout::LayoutPlan;

use super::simulated::run;

/// Steps of a run up to which all of it is simulated again, a second each at most; of a longer one,
/// as much of its window as has so many.
const STEPS_MAX: f64 = 2e6;
/// The same where tiers are bounded, which may fill only late in the window.
const STEPS_MAX_WITH_TIERS: f64 = 8e6;
/// Requests that are only counted as they arrive in the time of one I/O.
const ARRIVALS_A_STEP: u64 = 32;
/// Users from which on two simulations at a time would take too much memory.
const USERS_MANY: u32 = 10_000;

/// A run with more of one resource.
struct Candidate {
    resource: Binding,
    with: String,
    plan: Plan,
    device: DeviceFile,
}

/// Figures by which a run is held against another.
struct Outcome {
    /// Mean time of its requests, ns.
    mean_ns: f64,
    completed: u64,
    earlier_turns: Looks,
}

impl Outcome {
    /// Those of a run; none where it failed or was interrupted, or no request finished.
    fn of(result: &RunResult) -> Option<Outcome> {
        let is_whole = result.failure.is_none() && !result.interrupted;
        let mean_ns = result.requests.mean_time_ns().filter(|ns| is_whole && *ns > 0.0)?;
        let completed = result.requests.completed();
        Some(Outcome { mean_ns, completed, earlier_turns: result.cache.earlier_turns() })
    }
}

/// Simulates the run of that result with more of each resource that its requests used, or says why
/// that would tell nothing. One that can't be simulated is left out.
///
/// # Errors
/// The run itself can't be simulated again.
pub(super) fn alternatives(
    result: &RunResult,
    device: &DeviceFile,
    figures: &SimulationFigures,
    interrupt: &Interrupt,
) -> Result<Result<Alternatives, String>> {
    if let Some(why) = why_none(result) {
        return Ok(Err(why));
    }
    let Some(share) = window_share(result) else {
        return Ok(Err("its warm-up is too long to be simulated again".to_owned()));
    };
    let again = Again::of(result, device, figures);
    let (mut candidates, mut plan) = (again.candidates(), again.plan.clone());
    if share < 1.0 {
        plan.duration_s = ((plan.duration_s as f64 * share) as u64).max(1);
        candidates.iter_mut().for_each(|one| one.plan.duration_s = plan.duration_s);
    }
    // The warm-up of a run that searched its depth in it had others.
    let base = match share < 1.0 || result.queue_depth.is_some() {
        true => Outcome::of(&run(&plan, device, Vec::new(), interrupt)?),
        false => Outcome::of(result),
    };
    let outcomes = all_outcomes(&candidates, interrupt);
    if interrupt.is_set() {
        return Ok(Err("an interrupt ended the search for it".to_owned()));
    }
    let window_s = plan.duration_s;
    let Some(base) = base.filter(|base| base.completed >= SAMPLES_MIN) else {
        return Ok(Err(format!(
            "less than {SAMPLES_MIN} requests finished in the first {window_s} s, which are \
             simulated again"
        )));
    };
    let tried: Vec<Alternative> = candidates
        .into_iter()
        .zip(outcomes)
        .filter_map(|(one, outcome)| Some(held_against(&base, one, &outcome?)))
        .collect();
    Ok(match tried.is_empty() {
        true => Err("no simulation with more of a resource came to its end".to_owned()),
        false => Ok(Alternatives { tried, window_s, requests: base.completed }),
    })
}

fn held_against(base: &Outcome, candidate: Candidate, outcome: &Outcome) -> Alternative {
    let Candidate { resource, mut with, .. } = candidate;
    let turns = [outcome, base].map(|one| one.earlier_turns);
    // Runs that find less of what was stored read less.
    if turns[0].are_apart(turns[1]) {
        let [is, was] =
            turns.map(|turns| format!("{:.0} %", turns.hit_rate().unwrap_or(0.0) * 100.0));
        with.push_str(&format!(" (finding {is} of earlier turns in place of {was})"));
    }
    Alternative { resource, with, times_faster: base.mean_ns / outcome.mean_ns }
}

/// Why the run can't be held against another, if so.
fn why_none(result: &RunResult) -> Option<String> {
    let completed = result.requests.completed();
    let mut files = result.source.files.iter();
    if result.plan.enable_autoscaling {
        return Some("a search changed the number of users".to_owned());
    }
    if result.plan.is_without_storage {
        return Some("the run had no storage".to_owned());
    }
    if result.interrupted || result.failure.is_some() {
        return Some("the run ended early".to_owned());
    }
    if completed < SAMPLES_MIN {
        let requests = counted(completed, "request");
        return Some(format!("{requests} finished, and at least {SAMPLES_MIN} are needed"));
    }
    let gone = files.find(|path| !Path::new(path).exists())?;
    Some(format!("{gone} can't be read a second time"))
}

/// Part of the window that is simulated again behind the whole warm-up, from 0 to 1; none where the
/// warm-up leaves too little.
fn window_share(result: &RunResult) -> Option<f64> {
    let (engine, plan) = (&result.engine, &result.plan);
    let ios = engine.io_read.latency.count() + engine.io_write.latency.count();
    let of_window = (ios + result.workload.arrived / ARRIVALS_A_STEP) as f64;
    // It has as much in each second as the window.
    let of_warmup = of_window * plan.warmup_s as f64 / plan.duration_s.max(1) as f64;
    let bounded_bytes = [plan.cpu_memory_bytes, plan.gpu_memory_bytes, plan.storage_capacity_bytes];
    let is_bounded = bounded_bytes.iter().any(|&bytes| bytes > 0);
    let steps_max = if is_bounded { STEPS_MAX_WITH_TIERS } else { STEPS_MAX };
    let left = steps_max - of_warmup;
    (left >= of_window.min(steps_max / 2.0)).then(|| (left / of_window.max(1.0)).min(1.0))
}

/// Outcome of each run, in their order; none of one that can't be simulated or has none.
fn all_outcomes(candidates: &[Candidate], interrupt: &Interrupt) -> Vec<Option<Outcome>> {
    // Each reads its trace or data set anew, and holds it.
    let is_large = |one: &Candidate| {
        one.plan.users >= USERS_MANY || !matches!(one.plan.traffic, Traffic::Drawn)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = if candidates.iter().any(is_large) { 1 } else { cores.min(candidates.len()) };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = candidates.get(place) else { return found };
            let result = run(&one.plan, &one.device, Vec::new(), interrupt);
            // More than a setting can have is no alternative.
            found.push((place, result.ok().as_ref().and_then(Outcome::of)));
        }
    };
    let mut found = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.flatten().collect::<Vec<_>>()
    });
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

fn has_any(waits: &Histogram) -> bool {
    waits.sum_ns() > 0
}

/// A run that is to be simulated again.
struct Again<'a> {
    result: &'a RunResult,
    device: &'a DeviceFile,
    figures: &'a SimulationFigures,
    /// Its plan, which shows and writes nothing.
    plan: Plan,
}

impl<'a> Again<'a> {
    fn of(
        result: &'a RunResult,
        device: &'a DeviceFile,
        figures: &'a SimulationFigures,
    ) -> Again<'a> {
        let mut plan = result.plan.clone();
        plan.quiet = true;
        plan.io_trace_log = None;
        plan.validation_trace = None;
        (plan.queue_depth, plan.depth_search) = (result.depth(), None);
        Again { result, device, figures, plan }
    }

    /// Runs with more of each resource that its requests used.
    fn candidates(&self) -> Vec<Candidate> {
        let mut all = self.with_faster_drive();
        all.extend(self.with_deeper_queue());
        all.extend(self.with_more_threads());
        all.extend(self.with_faster_machine());
        all.extend(self.with_larger_tiers());
        all
    }

    /// The run with that change, if its requests used the resource.
    fn candidate(
        &self,
        is_used: bool,
        resource: Binding,
        with: String,
        change: impl Fn(&mut Plan, &mut DeviceFile),
    ) -> Option<Candidate> {
        is_used.then(|| {
            let (mut plan, mut device) = (self.plan.clone(), self.device.clone());
            change(&mut plan, &mut device);
            Candidate { resource, with, plan, device }
        })
    }

    fn with_faster_drive(&self) -> Vec<Candidate> {
        let of = if self.device.drives > 1 { "the drives'" } else { "the drive's" };
        let figures = self.figures;
        let is_busy = figures.drive_busy_share > 0.0;
        let places = self.device.model.parallel_ios;
        let faster = [
            self.candidate(
                is_busy,
                Binding::Drive,
                format!("twice {of} bandwidth"),
                |_, device| {
                    let model = &mut device.model;
                    for direction in [&mut model.read, &mut model.write] {
                        direction.bytes_per_s *= 2.0;
                        if let Some(deep) = &mut direction.deep {
                            deep.bytes_per_s *= 2.0;
                        }
                        if let Some(in_burst) = &mut direction.burst_bytes_per_s {
                            *in_burst *= 2.0;
                        }
                    }
                    model.both_bytes_per_s = model.both_bytes_per_s.map(|rate| rate * 2.0);
                    model.write_cache.bytes_per_s *= 2.0;
                },
            ),
            self.candidate(
                figures.drive_iops_share > 0.0,
                Binding::DriveIops,
                format!("twice {of} IOPS"),
                |_, device| {
                    device.model.read.ios_per_s *= 2.0;
                    device.model.write.ios_per_s *= 2.0;
                },
            ),
            self.candidate(
                is_busy,
                Binding::DriveLatency,
                format!("half {of} latency"),
                |_, device| {
                    let model = &mut device.model;
                    for direction in [&mut model.read, &mut model.write] {
                        direction.latency = direction.latency / 2;
                        direction.latency_p99 = direction.latency_p99 / 2;
                    }
                    model.flush = model.flush / 2;
                },
            ),
            self.candidate(
                figures.drive_crowded_share > 0.0,
                Binding::DriveParallelism,
                format!("{} I/Os served at a time in place of {places}", u64::from(places) * 2),
                |_, device| device.model.parallel_ios = places.saturating_mul(2),
            ),
        ];
        faster.into_iter().flatten().collect()
    }

    fn with_deeper_queue(&self) -> Vec<Candidate> {
        let depth = self.plan.queue_depth;
        let deeper = depth.saturating_mul(2);
        let waits = &self.result.engine.waits;
        let is_waited_for = has_any(&waits.queue_place) || has_any(&waits.buffer);
        let has_buffers = self.result.has_buffers_for_queues();
        let more = self.candidate(
            is_waited_for && has_buffers,
            Binding::QueueDepth,
            format!("a queue depth of {deeper}"),
            |plan, _| {
                plan.queue_depth = deeper;
                plan.io_buffer_bytes *= 2;
            },
        );
        let buffers = self.candidate(
            is_waited_for && !has_buffers,
            Binding::IoBuffers,
            "twice the memory for I/O buffers".to_owned(),
            |plan, _| plan.io_buffer_bytes *= 2,
        );
        let model = &self.device.model;
        let knees = [&model.read, &model.write].map(|direction| direction.deep);
        let knee_bytes = knees.into_iter().flatten().map(|deep| deep.from_bytes).min();
        let a_place = u64::from(self.plan.io_size_bytes) * u64::from(self.plan.shards);
        let shallow = knee_bytes.map_or(u32::MAX, |bytes| {
            u32::try_from(bytes / a_place.max(1)).unwrap_or(u32::MAX).max(1)
        });
        let fewer = self.candidate(
            shallow < depth && self.figures.drive_slowed_share > 0.0,
            Binding::DeepQueue,
            format!("a queue depth of {shallow}"),
            |plan, _| plan.queue_depth = shallow,
        );
        [more, buffers, fewer].into_iter().flatten().collect()
    }

    fn with_more_threads(&self) -> Option<Candidate> {
        self.candidate(
            self.figures.files_waiting_mean > 0.0,
            Binding::LayoutThreads,
            "twice the threads that move files".to_owned(),
            |plan, _| {
                let layout = plan.layout_plan.take();
                plan.layout_plan = layout.map(LayoutPlan::with_twice_the_workers);
            },
        )
    }

    fn with_faster_machine(&self) -> Vec<Candidate> {
        let requests = &self.result.requests;
        let (slots, permits) =
            (self.plan.max_inflight_requests, self.plan.max_concurrent_allocs.unwrap_or(0));
        let twice = |what: &str| format!("twice {what}");
        let copies = self.figures.memory_busy_share > 0.0;
        let faster = [
            self.candidate(
                copies,
                Binding::Memory,
                twice("the cores' speed at copying"),
                |_, device| device.memory_bytes_per_s *= 2.0,
            ),
            self.candidate(
                self.figures.gpu_link_busy_share > 0.0,
                Binding::GpuLink,
                twice("the speed of copies to and from the GPUs"),
                |_, device| {
                    device.gpu.link_bytes_per_s *= 2.0;
                    device.gpu.memory_bytes_per_s *= 2.0;
                },
            ),
            // As deep together as before.
            self.candidate(
                copies && self.plan.queue_depth > 1,
                Binding::Shards,
                format!("{} shards", u64::from(self.plan.shards) * 2),
                |plan, _| {
                    plan.shards = plan.shards.saturating_mul(2);
                    plan.queue_depth /= 2;
                },
            ),
            self.candidate(
                has_any(&requests.queued) || self.result.workload.queued_at_end > 0,
                Binding::ServingSlots,
                format!("{} serving slots", u64::from(slots) * 2),
                |plan, _| plan.max_inflight_requests = slots.saturating_mul(2),
            ),
            self.candidate(
                has_any(&requests.permit),
                Binding::Permits,
                format!("{} permits to allocate", u64::from(permits) * 2),
                |plan, _| plan.max_concurrent_allocs = Some(permits.saturating_mul(2)),
            ),
            self.candidate(
                has_any(&requests.generation),
                Binding::Generation,
                twice("the speed of generation"),
                |plan, _| {
                    plan.workload.generation_fast_ms /= 2.0;
                    plan.workload.generation_realistic_ms /= 2.0;
                },
            ),
            self.candidate(
                has_any(&requests.recompute),
                Binding::Recomputation,
                twice("the speed of computing what was not found"),
                |plan, _| plan.prefill_tokens_per_s *= 2.0,
            ),
        ];
        faster.into_iter().flatten().collect()
    }

    /// A tier that emptied itself was too small for something.
    fn with_larger_tiers(&self) -> Vec<Candidate> {
        let is_emptied = |tier| self.result.engine.evicted_entries(tier) > 0;
        let with = |name: &str| format!("twice the space in the {name} tier");
        let tiers = [
            self.candidate(is_emptied(Tier::Gpu), Binding::GpuTier, with("GPU"), |plan, device| {
                plan.gpu_memory_bytes *= 2;
                device.gpu.capacity_bytes = device.gpu.capacity_bytes.map(|bytes| bytes * 2);
            }),
            self.candidate(is_emptied(Tier::Cpu), Binding::CpuTier, with("CPU"), |plan, _| {
                plan.cpu_memory_bytes *= 2;
            }),
            self.candidate(
                is_emptied(Tier::Storage) && self.plan.storage_capacity_bytes > 0,
                Binding::StorageTier,
                with("storage"),
                |plan, _| plan.storage_capacity_bytes *= 2,
            ),
        ];
        tiers.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use ringfall_config::{Facts, resolve};

    use super::*;
    use crate::commands::run::simulated::explained;
    use crate::commands::run_args;

    /// A drive without parallel places, whose latency is most of an I/O's time.
    const DEVICE: &str = "name: far\n\
                          read: {mb_per_s: 5000, iops: 1000000, latency_us: 20000}\n\
                          write: {mb_per_s: 5000, iops: 1000000, latency_us: 20000}\n";

    fn ran(more: &str) -> RunResult {
        run_with(&format!("--io-size 8MiB --queue-depth 4 {more}"))
    }

    fn run_with(more: &str) -> RunResult {
        let line = format!(
            "--model tiny-1b --num-users 4 --arrival closed --shards 1 --cpu-mem-gb 0 --quiet \
             --generation-mode none --duration 60 {more}"
        );
        let options = run_args(line.split_whitespace().map(str::to_owned)).unwrap().options;
        let plan = resolve(&options, None, &Facts::look().of_no_machine()).unwrap();
        let device = DeviceFile::parse("far.yaml", DEVICE).unwrap();
        explained(&plan, &device, Vec::new(), &Interrupt::install().unwrap()).unwrap()
    }

    fn tried(result: &RunResult) -> Vec<Binding> {
        let report = result.simulation.as_ref().unwrap();
        report.alternatives.as_ref().into_iter().flatten().map(|one| one.resource).collect()
    }

    #[test]
    fn more_is_tried_of_what_requests_used() {
        let result = ran("");
        assert_eq!(tried(&result), [Binding::Drive, Binding::DriveLatency, Binding::QueueDepth]);
        let result = ran("--generation-mode fast --max-inflight-requests 2");
        let expected = [
            Binding::Drive,
            Binding::DriveLatency,
            Binding::QueueDepth,
            Binding::ServingSlots,
            Binding::Generation,
        ];
        assert_eq!(tried(&result), expected);
    }

    /// A file of 6 MiB takes 1.3 ms and the drive's latency of 20 ms, which one thread waits for
    /// file by file.
    #[test]
    fn threads_of_a_layout_bind_where_files_wait_for_them() {
        let with = |threads: u32| {
            let options =
                format!("chunk_tokens=256,load_threads={threads},store_threads={threads}");
            run_with(&format!("--layout vllm --layout-option {options}"))
        };
        let [one, two] = [1, 2].map(with);
        let report = one.simulation.as_ref().unwrap();
        assert_eq!(report.binds.known(), Some(Binding::LayoutThreads), "{:?}", report.because);
        assert!(report.drive_busy_share.known().is_some_and(|busy| busy < 0.1), "{report:?}");
        let latency = |result: &RunResult| result.engine.io_read.latency.quantile_ns(0.5);
        assert!(latency(&one).is_some_and(|ns| (20_000_000..22_000_000).contains(&ns)));
        let mean_ns = |result: &RunResult| result.requests.mean_time_ns().unwrap();
        let times_faster = mean_ns(&one) / mean_ns(&two);
        assert!(times_faster > 1.5, "{times_faster}");
        // The other run is the one that was tried.
        let tried = report.alternatives.as_ref().unwrap();
        let tried = tried.iter().find(|one| one.resource == Binding::LayoutThreads).unwrap();
        assert!((tried.times_faster - times_faster).abs() < 1e-9, "{tried:?}");
        assert_eq!(with(1).files, one.files);
    }

    /// Beside 5 points here, tables had 3 points and chance.
    #[test]
    fn a_run_that_finds_less_than_by_chance_is_told() {
        let with = |looks, found| {
            let of = |found| Outcome {
                mean_ns: 1e6,
                completed: 20,
                earlier_turns: Looks { found, missed: looks - found },
            };
            let (resource, device) = (Binding::Drive, DeviceFile::parse("d", DEVICE).unwrap());
            let (with, plan) = ("more".to_owned(), ran("").plan);
            let more = Candidate { resource, with, plan, device };
            held_against(&of(looks / 2), more, &of(found)).with
        };
        assert_eq!(
            with(1_000_000, 460_000),
            "more (finding 46 % of earlier turns in place of 50 %)"
        );
        assert_eq!(with(1_000_000, 480_000), "more");
        assert_eq!(with(20, 12), "more");
    }

    #[test]
    fn the_same_run_has_the_same_alternatives() {
        let [one, other] = [ran(""), ran("")].map(|result| result.simulation);
        assert_eq!(one, other);
    }

    #[test]
    fn nothing_is_tried_of_a_run_that_another_can_t_be_held_against() {
        assert_eq!(tried(&ran("--max-requests 19")), []);
        let result = ran("--duration 20");
        let device = DeviceFile::parse("far.yaml", DEVICE).unwrap();
        let figures = SimulationFigures { drive_busy_share: 0.5, ..SimulationFigures::default() };
        let tried = |change: fn(&mut RunResult)| {
            let mut result = result.clone();
            change(&mut result);
            let interrupt = Interrupt::install().unwrap();
            alternatives(&result, &device, &figures, &interrupt)
                .unwrap()
                .map_or(0, |all| all.tried.len())
        };
        assert!(tried(|_| ()) > 0);
        assert_eq!(tried(|result| result.plan.enable_autoscaling = true), 0);
        assert_eq!(tried(|result| result.interrupted = true), 0);
        assert_eq!(tried(|result| result.source.files = vec!["/no/trace.csv".to_owned()]), 0);
        assert_eq!(tried(|result| result.failure = Some("an I/O failed".to_owned())), 0);
    }

    /// A part of the warm-up, too, was left out, and the window was another one.
    #[test]
    fn the_warm_up_is_whole_and_the_window_as_long_as_the_steps_allow() {
        let mut result = ran("--duration 20");
        assert_eq!(window_share(&result), Some(1.0));
        result.workload.arrived = 4 * STEPS_MAX as u64 * ARRIVALS_A_STEP;
        let share = window_share(&result).unwrap();
        assert!((share - 0.25).abs() < 0.01, "{share}");
        result.plan.warmup_s = 2;
        let behind_warm_up = window_share(&result).unwrap();
        assert!((behind_warm_up - 0.15).abs() < 0.01, "{behind_warm_up}");
        result.plan.warmup_s = 20;
        assert_eq!(window_share(&result), None);
    }
}
