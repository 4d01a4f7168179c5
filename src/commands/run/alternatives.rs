//! Search for what limits a simulated run: it is simulated again with more of each resource that
//! its requests used, and that of which more makes them fastest does.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;
use ringfall_config::{DeviceFile, Plan};
use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_host::counted;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::facts::SimulationFigures;
use ringfall_model::health::SAMPLES_MIN;
use ringfall_model::{Alternative, Alternatives, Binding, RunResult};

use super::simulated::run;

/// Steps of a run up to which all of it is simulated again, a second each at most; of a longer one,
/// as much of its window as has so many.
const STEPS_MAX: u64 = 2_000_000;
/// The same where tiers are bounded, which may fill only late in the window.
const STEPS_MAX_WITH_TIERS: u64 = 8_000_000;
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

/// Simulates the run of that result with more of each resource that its requests used, or says why
/// that would tell nothing.
///
/// # Errors
/// Those of a run.
pub(super) fn alternatives(
    result: &RunResult,
    device: &DeviceFile,
    figures: &SimulationFigures,
    interrupt: &Interrupt,
) -> Result<Result<Alternatives, String>> {
    if let Some(why) = why_none(result) {
        return Ok(Err(why));
    }
    let again = Again::of(result, device, figures);
    let (mut candidates, mut plan) = (again.candidates(), again.plan.clone());
    let share = window_share(result);
    let mut mean_ns = result.requests.mean_time_ns();
    if share < 1.0 {
        let window_s = ((plan.duration_s as f64 * share) as u64).max(1);
        candidates.iter_mut().for_each(|one| one.plan.duration_s = window_s);
        plan.duration_s = window_s;
        mean_ns = mean_of(&plan, device, interrupt)?;
    }
    let means = all_means(&candidates, interrupt)?;
    if interrupt.is_set() {
        return Ok(Err("an interrupt ended the search for it".to_owned()));
    }
    let Some(mean_ns) = mean_ns else {
        return Ok(Err(format!("no request finished in the first {} s", plan.duration_s)));
    };
    let tried = candidates.into_iter().zip(means).filter_map(|(one, ns)| {
        let Candidate { resource, with, .. } = one;
        Some(Alternative { resource, with, times_faster: mean_ns / ns? })
    });
    Ok(Ok(Alternatives { tried: tried.collect(), window_s: plan.duration_s }))
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
    let gone = files.find(|path| !Path::new(path).is_file())?;
    Some(format!("{gone} can't be read a second time"))
}

/// Part of the window that is simulated again, from 0 to 1.
fn window_share(result: &RunResult) -> f64 {
    let (engine, plan) = (&result.engine, &result.plan);
    let ios = engine.io_read.latency.count() + engine.io_write.latency.count();
    let steps = ios + result.workload.arrived / ARRIVALS_A_STEP;
    let bounded_bytes = [plan.cpu_memory_bytes, plan.gpu_memory_bytes, plan.storage_capacity_bytes];
    let is_bounded = bounded_bytes.iter().any(|&bytes| bytes > 0);
    let steps_max = if is_bounded { STEPS_MAX_WITH_TIERS } else { STEPS_MAX };
    (steps_max as f64 / steps.max(1) as f64).min(1.0)
}

/// Mean times of the requests of each run, ns, in their order; none of a run that failed.
fn all_means(candidates: &[Candidate], interrupt: &Interrupt) -> Result<Vec<Option<f64>>> {
    let is_large = candidates.iter().any(|one| one.plan.users >= USERS_MANY);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = if is_large { 1 } else { cores.min(candidates.len()) };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = candidates.get(place) else { return found };
            found.push((place, mean_of(&one.plan, &one.device, interrupt)));
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
    found.into_iter().map(|(_, mean)| mean).collect()
}

/// Mean time of the requests of that run, ns; none where it failed or was interrupted.
fn mean_of(plan: &Plan, device: &DeviceFile, interrupt: &Interrupt) -> Result<Option<f64>> {
    let result = run(plan, device, Vec::new(), interrupt)?;
    let is_whole = result.failure.is_none() && !result.interrupted;
    Ok(result.requests.mean_time_ns().filter(|ns| is_whole && *ns > 0.0))
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
        all.extend(self.with_faster_machine());
        all.extend(self.with_larger_tiers());
        all
    }

    /// The run on another device, if its requests used so much of that resource.
    fn on(
        &self,
        used: f64,
        resource: Binding,
        with: String,
        change: impl Fn(&mut DeviceFile),
    ) -> Option<Candidate> {
        let mut device = self.device.clone();
        change(&mut device);
        (used > 0.0).then(|| Candidate { resource, with, plan: self.plan.clone(), device })
    }

    /// The run with another plan, if its requests waited for that.
    fn planned(
        &self,
        is_waited_for: bool,
        resource: Binding,
        with: String,
        change: impl Fn(&mut Plan),
    ) -> Option<Candidate> {
        let mut plan = self.plan.clone();
        change(&mut plan);
        is_waited_for.then(|| Candidate { resource, with, plan, device: self.device.clone() })
    }

    fn with_faster_drive(&self) -> Vec<Candidate> {
        let of = if self.device.drives > 1 { "the drives'" } else { "the drive's" };
        let (busy, by_number) = (self.figures.drive_busy_share, self.figures.drive_iops_share);
        let places = self.device.model.parallel_ios;
        let faster = [
            self.on(busy, Binding::Drive, format!("twice {of} bandwidth"), |device| {
                let model = &mut device.model;
                for direction in [&mut model.read, &mut model.write] {
                    direction.bytes_per_s *= 2.0;
                    if let Some(deep) = &mut direction.deep {
                        deep.bytes_per_s *= 2.0;
                    }
                }
                model.both_bytes_per_s = model.both_bytes_per_s.map(|rate| rate * 2.0);
                model.write_cache.bytes_per_s *= 2.0;
            }),
            self.on(by_number, Binding::DriveIops, format!("twice {of} IOPS"), |device| {
                device.model.read.ios_per_s *= 2.0;
                device.model.write.ios_per_s *= 2.0;
            }),
            self.on(busy, Binding::DriveLatency, format!("half {of} latency"), |device| {
                let model = &mut device.model;
                for direction in [&mut model.read, &mut model.write] {
                    direction.latency = direction.latency / 2;
                    direction.latency_p99 = direction.latency_p99 / 2;
                }
                model.flush = model.flush / 2;
            }),
            self.on(
                self.figures.drive_crowded_share,
                Binding::DriveParallelism,
                format!("{} I/Os served at a time in place of {places}", u64::from(places) * 2),
                |device| device.model.parallel_ios = places.saturating_mul(2),
            ),
        ];
        faster.into_iter().flatten().collect()
    }

    fn with_deeper_queue(&self) -> Vec<Candidate> {
        let depth = self.plan.queue_depth;
        let deeper = depth.saturating_mul(2);
        let waits = &self.result.engine.waits;
        let waits = has_any(&waits.queue_place) || has_any(&waits.buffer);
        let more = match self.result.has_buffers_for_queues() {
            true => self.planned(
                waits,
                Binding::QueueDepth,
                format!("a queue depth of {deeper}"),
                |plan| {
                    plan.queue_depth = deeper;
                    plan.io_buffer_bytes *= 2;
                },
            ),
            false => {
                let with = "twice the memory for I/O buffers".to_owned();
                self.planned(waits, Binding::IoBuffers, with, |plan| plan.io_buffer_bytes *= 2)
            }
        };
        let model = &self.device.model;
        let knees = [&model.read, &model.write].map(|direction| direction.deep);
        let knee_bytes = knees.into_iter().flatten().map(|deep| deep.from_bytes).min();
        let shallow = knee_bytes.map(|bytes| {
            let a_place = u64::from(self.plan.io_size_bytes) * u64::from(self.plan.shards);
            u32::try_from(bytes / a_place.max(1)).unwrap_or(u32::MAX).max(1)
        });
        let fewer = shallow.filter(|&shallow| shallow < depth).and_then(|shallow| {
            let mut plan = self.plan.clone();
            plan.queue_depth = shallow;
            let with = format!("a queue depth of {shallow}");
            let device = self.device.clone();
            (self.figures.drive_slowed_share > 0.0).then_some(Candidate {
                resource: Binding::DeepQueue,
                with,
                plan,
                device,
            })
        });
        more.into_iter().chain(fewer).collect()
    }

    fn with_faster_machine(&self) -> Vec<Candidate> {
        let requests = &self.result.requests;
        let (slots, permits) =
            (self.plan.max_inflight_requests, self.plan.max_concurrent_allocs.unwrap_or(0));
        let twice = |what: &str| format!("twice {what}");
        let faster = [
            self.on(
                self.figures.memory_busy_share,
                Binding::Memory,
                twice("the cores' speed at copying"),
                |device| device.memory_bytes_per_s *= 2.0,
            ),
            self.on(
                self.figures.gpu_link_busy_share,
                Binding::GpuLink,
                twice("the speed of copies to and from the GPUs"),
                |device| {
                    device.gpu.link_bytes_per_s *= 2.0;
                    device.gpu.memory_bytes_per_s *= 2.0;
                },
            ),
            self.planned(
                self.figures.memory_busy_share > 0.0,
                Binding::Shards,
                format!("{} shards", u64::from(self.plan.shards) * 2),
                |plan| {
                    plan.shards = plan.shards.saturating_mul(2);
                    plan.io_buffer_bytes *= 2;
                },
            ),
            self.planned(
                has_any(&requests.queued) || self.result.workload.queued_at_end > 0,
                Binding::ServingSlots,
                format!("{} serving slots", u64::from(slots) * 2),
                |plan| plan.max_inflight_requests = slots.saturating_mul(2),
            ),
            self.planned(
                has_any(&requests.permit),
                Binding::Permits,
                format!("{} permits to allocate", u64::from(permits) * 2),
                |plan| plan.max_concurrent_allocs = Some(permits.saturating_mul(2)),
            ),
            self.planned(
                has_any(&requests.generation),
                Binding::Generation,
                twice("the speed of generation"),
                |plan| {
                    plan.workload.generation_fast_ms /= 2.0;
                    plan.workload.generation_realistic_ms /= 2.0;
                },
            ),
            self.planned(
                has_any(&requests.recompute),
                Binding::Recomputation,
                twice("the speed of computing what was not found"),
                |plan| plan.prefill_tokens_per_s *= 2.0,
            ),
        ];
        faster.into_iter().flatten().collect()
    }

    /// A tier that emptied itself was too small for something.
    fn with_larger_tiers(&self) -> Vec<Candidate> {
        let engine = &self.result.engine;
        let larger = |tier, resource, name, change: &dyn Fn(&mut Plan, &mut DeviceFile)| {
            let (mut plan, mut device) = (self.plan.clone(), self.device.clone());
            change(&mut plan, &mut device);
            let with = format!("twice the space in the {name} tier");
            let is_emptied = engine.evicted_entries(tier) > 0;
            is_emptied.then_some(Candidate { resource, with, plan, device })
        };
        let tiers = [
            larger(Tier::Gpu, Binding::GpuTier, "GPU", &|plan, device| {
                plan.gpu_memory_bytes *= 2;
                device.gpu.capacity_bytes = device.gpu.capacity_bytes.map(|bytes| bytes * 2);
            }),
            larger(Tier::Cpu, Binding::CpuTier, "CPU", &|plan, _| plan.cpu_memory_bytes *= 2),
            larger(Tier::Storage, Binding::StorageTier, "storage", &|plan, _| {
                plan.storage_capacity_bytes *= 2;
            }),
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
        let line = format!(
            "--model tiny-1b --num-users 4 --arrival closed --shards 1 --cpu-mem-gb 0 --quiet \
             --generation-mode none --duration 60 --io-size 8MiB --queue-depth 4 {more}"
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
        assert_eq!(tried(|result| result.source.files = vec!["/dev/null".to_owned()]), 0);
        assert_eq!(tried(|result| result.failure = Some("an I/O failed".to_owned())), 0);
    }
}
