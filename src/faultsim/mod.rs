//! Whole systems, small and on a simulated clock, whose drive goes wrong in ways drawn from a seed.
//!
//! Everything is real but the clock, the drive and the GPU: users, placement, the data path with
//! its bytes and their verification. After each run every sum must hold, nothing may be held, and
//! what the engine reports must be what drive and GPU did, to the byte.

mod check;
mod scenario;
mod stranger;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_engine::clock::Nanos;
use ringfall_engine::device::{FlawCounts, SimDrive};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::shard::Content;
use ringfall_engine::shard::local::VirtualTime;
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::tier::gpu::faulty::{FaultyMemory, GpuFlawCounts};
use ringfall_engine::units::BLOCK_BYTES;

use crate::run::{
    BEGIN, ERRORS_MAX, Order, Phase, PhasePlan, SILENCE_MAX, Shards, Sight, World, WorldParts,
    conduct,
};
use check::AtStop;
use scenario::{Scenario, time_within};
use stranger::Strangers;

/// No run of these sizes takes so many steps: one that does hangs.
const STEPS_MAX: u64 = 5_000_000;
/// Longest pause between two interferences.
const PAUSE_MAX: Nanos = Nanos::from_ms(100);

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct FaultRun {
    /// What the drive did wrong.
    pub flaws: FlawCounts,
    /// What the GPU tier did wrong.
    pub gpu_flaws: GpuFlawCounts,
    /// Number of requests that finished without a failed step.
    pub requests: u64,
    /// Operations that were dropped half-way.
    pub cancelled: u64,
    /// Drives that were given up.
    pub lost_drives: u64,
    /// Steps of the simulation.
    pub steps: u64,
}

/// Runs the system of that seed.
///
/// # Errors
/// What did not hold, in a sentence.
pub fn run(seed: u64) -> Result<FaultRun, String> {
    match catch_unwind(AssertUnwindSafe(|| one(seed))) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it panicked: {}", text.unwrap_or("no message")))
        }
    }
}

/// Tells the draws of which spawned task runs at once from all others of a seed.
const SPAWN_STREAM: u64 = 0x5350_4157_4e00_0000;

fn one(seed: u64) -> Result<FaultRun, String> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut scenario = Scenario::draw(&mut rng);
    let gpu = scenario.open_gpu()?;
    let world = build(&scenario)?;
    // Of a stream of its own, so that the system of a seed stays what it is.
    let mut order = Xoshiro256PlusPlus::seed_from_u64(seed ^ SPAWN_STREAM);
    world.runtime.draw_order_of_spawns(move || order.random());
    let mut faulty = Faulty {
        strangers: Strangers::new(rng.random()),
        scenario: &scenario,
        world,
        gpu,
        rng,
        steps: 0,
        is_still: false,
        at_stop: AtStop::of_nothing(),
    };
    let plan = PhasePlan {
        start_delay: Nanos::ZERO,
        gathers: false,
        warmup: Nanos::ZERO,
        duration: scenario.runs_for,
        ends_when_exhausted: false,
        errors_max: ERRORS_MAX,
        silence_max: SILENCE_MAX,
    };
    conduct(plan, &mut faulty)?;
    faulty.shut_down()
}

fn build(scenario: &Scenario) -> Result<World, String> {
    let time = VirtualTime::starting_at(BEGIN);
    let settings = &scenario.settings;
    let drive = |(index, bytes): (usize, &u64)| {
        let (model, blocks) = (scenario.model, bytes / BLOCK_BYTES);
        let seed = settings.seed.wrapping_add(index as u64);
        SimDrive::flawed(model, time.clock(), blocks, scenario.rates, seed)
    };
    let drives = scenario.drives_bytes.iter().enumerate().map(drive).collect();
    let cpu = CpuPool::new(scenario.cpu_bytes).map_err(|error| error.to_string())?;
    cpu.populate(0, 1).map_err(|error| error.to_string())?;
    let parts = WorldParts {
        time,
        drives,
        drives_bytes: scenario.drives_bytes.clone(),
        cpu,
        content: Box::new(|| Content::Real),
        verify: VerifyMode::Full,
    };
    let world = World::new(settings, &scenario.load, parts).map_err(|error| error.to_string())?;
    for driver in &world.drivers {
        driver.shard().measure().open(BEGIN, Nanos::MAX);
    }
    Ok(world)
}

/// The system as the phases see it: what goes wrong with it happens while time passes.
struct Faulty<'a> {
    scenario: &'a Scenario,
    world: World,
    gpu: Option<Arc<FaultyMemory>>,
    strangers: Strangers,
    rng: Xoshiro256PlusPlus,
    steps: u64,
    /// Nothing can happen any more by itself.
    is_still: bool,
    at_stop: AtStop,
}

impl Shards for Faulty<'_> {
    type Broken = String;

    fn sight(&mut self, phase: Phase) -> Result<Sight, String> {
        let now = self.world.time.now();
        let measures = self.world.drivers.iter().map(|driver| driver.shard().measure());
        let (errors, ended) = measures.fold((0, 0), |(errors, ended), measure| {
            (errors + measure.error_count_ever(), ended + measure.ended_ever())
        });
        // A system that is stopped in the middle of its population is one that is interrupted then.
        let populates_until = self.scenario.populates_for.map(|length| BEGIN + length);
        let is_cut_short = phase == Phase::Populate && populates_until.is_some_and(|at| now >= at);
        let is_over = phase == Phase::Populate && self.is_still && populates_until.is_none();
        if is_over && self.world.runtime.task_count() > 0 {
            return Err("writing the population never ends".to_owned());
        }
        Ok(Sight {
            now,
            is_populated: self.is_still && populates_until.is_none(),
            is_drained: self.is_still,
            is_interrupted: is_cut_short,
            errors,
            in_flight: self.world.drivers.iter().map(|driver| driver.shard().in_flight()).sum(),
            operations: self.world.drivers.iter().map(|driver| driver.operations()).sum(),
            ended,
            ..Sight::default()
        })
    }

    fn obey(&mut self, order: Order) -> Result<(), String> {
        self.is_still = false;
        match order {
            Order::Populate => {
                for driver in &self.world.drivers {
                    let driver = Rc::clone(driver);
                    self.world.runtime.spawn(Box::pin(async move {
                        let _refused_or_failed = driver.populate_all().await;
                    }));
                }
            }
            // The measurement's window is open already; this one is the requests'.
            Order::Start { origin, .. } => self.world.start_clocks(origin, (origin, Nanos::MAX)),
            Order::BeginWindow => {}
            Order::Stop { .. } => {
                self.at_stop = AtStop::of(&self.world);
                self.world.drivers.iter().for_each(|driver| driver.stop(Nanos::MAX));
                self.strangers.stop();
            }
        }
        Ok(())
    }

    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), String> {
        match phase {
            // It never gathers.
            Phase::Populate | Phase::Gather => {
                let until = self.scenario.populates_for.map_or(until, |length| BEGIN + length);
                self.run_until(until)?;
                self.is_still = true;
            }
            Phase::WarmUp => self.run_until(until)?,
            Phase::Measure => {
                self.interfere();
                if let Some((drive, at)) = self.scenario.dies
                    && self.world.time.now() >= BEGIN + at
                {
                    self.world.drives[drive].die();
                }
                let pause = time_within(&mut self.rng, Nanos::ZERO..PAUSE_MAX);
                self.run_until((self.world.time.now() + pause).min(until))?;
                check::nobody_is_forgotten(&self.world)?;
            }
            Phase::Drain => {
                // What has begun ends by itself, without being told that there is no use in
                // waiting; or it is told so in the middle of everything.
                if self.scenario.ends_gently {
                    self.run_until(Nanos::MAX)?;
                }
                self.is_still = true;
            }
        }
        Ok(())
    }
}

impl Faulty<'_> {
    fn shut_down(&mut self) -> Result<FaultRun, String> {
        if self.scenario.ends_gently {
            check::nothing_waits(&self.world)?;
        }
        self.world.drivers.iter().for_each(|driver| driver.shard().stop());
        self.run_until(Nanos::MAX)?;
        check::at_rest(&self.world, self.scenario, &self.at_stop)?;
        let mut flaws = FlawCounts::default();
        for drive in self.world.drives.iter().filter_map(|drive| drive.flaws()) {
            flaws.add(&drive);
        }
        let gpu_flaws = self.gpu.as_ref().map(|gpu| gpu.counts()).unwrap_or_default();
        check::report_tells_what_happened(&self.world, self.scenario, &flaws, &gpu_flaws)?;
        self.strangers.check()?;
        Ok(FaultRun {
            flaws,
            gpu_flaws,
            requests: self.world.drivers.iter().map(|driver| driver.completed()).sum(),
            cancelled: self.strangers.cancelled(),
            lost_drives: self.world.shared.budgets.losses(),
            steps: self.steps,
        })
    }

    /// What people and programs do to a running system.
    fn interfere(&mut self) {
        match self.rng.random_range(0..4) {
            0 => self.strangers.come(&self.world, self.scenario),
            1 if self.scenario.cancels => self.strangers.cancel_one(&self.world),
            2 => {
                let most = self.scenario.load.config.num_users * 2;
                let users = self.rng.random_range(1..=most);
                self.world.drivers.iter().for_each(|driver| driver.set_users(users));
            }
            _ => {}
        }
    }

    /// Runs until that time, and until nothing more can happen then.
    fn run_until(&mut self, deadline: Nanos) -> Result<(), String> {
        while self.world.step_now() || self.world.advance(deadline) {
            self.count_step()?;
        }
        if deadline != Nanos::MAX {
            self.world.time.advance_to(deadline);
            while self.world.step_now() {
                self.count_step()?;
            }
        }
        Ok(())
    }

    fn count_step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps <= STEPS_MAX {
            return Ok(());
        }
        let now_s = (self.world.time.now() - BEGIN).as_secs_f64();
        Err(format!(
            "it still runs after {STEPS_MAX} steps, at {now_s:.6} s, with {} tasks",
            self.world.runtime.task_count()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_hundred_seeds_lose_nothing() {
        let (mut flaws, mut gpu_flaws, mut cancelled, mut requests, mut lost) =
            (Vec::new(), Vec::new(), 0, 0, 0);
        for seed in 0..300 {
            match run(seed) {
                Ok(run) => {
                    let FlawCounts { damaged_ios, late, stalls, overtaken, .. } = run.flaws;
                    let short: u64 = run.flaws.short.iter().sum();
                    flaws.push([run.flaws.failures(), short, damaged_ios, late, stalls, overtaken]);
                    let gpu = run.gpu_flaws;
                    gpu_flaws.push([gpu.failed, gpu.wrong_blocks, gpu.late]);
                    cancelled += run.cancelled;
                    requests += run.requests;
                    lost += run.lost_drives;
                }
                Err(what) => panic!("seed {seed}: {what}\nagain: ringfall faults --seeds {seed}"),
            }
        }
        for kind in 0..6 {
            let often: u64 = flaws.iter().map(|counts| counts[kind]).sum();
            assert!(often > 50, "kind {kind} of flaw happened {often} times");
        }
        for kind in 0..3 {
            let often: u64 = gpu_flaws.iter().map(|counts| counts[kind]).sum();
            assert!(often > 50, "kind {kind} of the GPU's flaws happened {often} times");
        }
        assert!(cancelled > 300 && requests > 3_000, "they did next to nothing");
        assert!(lost > 10, "only {lost} drives were given up");
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        for seed in [3, 77] {
            let (once, again) = (run(seed).unwrap(), run(seed).unwrap());
            assert_eq!((once.steps, once.flaws), (again.steps, again.flaws));
        }
    }
}
