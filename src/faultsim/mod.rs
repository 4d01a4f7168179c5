//! Whole systems, small and on a simulated clock, whose drive goes wrong in ways drawn from a seed.
//!
//! Everything is real but the clock and the drive: users, placement, the data path with its bytes and
//! their verification. After each run every sum must hold, nothing may be held, and what the engine
//! reports must be what the drive did, to the byte.

mod check;
mod scenario;
mod stranger;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_engine::clock::{MILLISECOND, Nanos, SECOND};
use ringfall_engine::device::{FlawCounts, SimDrive};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::shard::Content;
use ringfall_engine::shard::local::VirtualTime;
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::BLOCK_BYTES;

use crate::coordinator::{BEGIN, World, WorldParts};
use check::AtStop;
use scenario::Scenario;
use stranger::Strangers;

/// No run of these sizes takes so many steps: one that does hangs.
const STEPS_MAX: u64 = 5_000_000;
/// Longest pause between two interferences.
const PAUSE_MAX: Nanos = 100 * MILLISECOND;

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct FaultRun {
    /// What the drive did wrong.
    pub flaws: FlawCounts,
    /// Requests that finished.
    pub requests: u64,
    /// Operations that were dropped half-way.
    pub cancelled: u64,
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

fn one(seed: u64) -> Result<FaultRun, String> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let scenario = Scenario::draw(&mut rng);
    let world = build(&scenario)?;
    let mut run =
        Run { strangers: Strangers::new(rng.random()), scenario: &scenario, world, rng, steps: 0 };
    run.phases()
}

fn build(scenario: &Scenario) -> Result<World, String> {
    let time = VirtualTime::starting_at(BEGIN);
    let settings = &scenario.settings;
    let drive = SimDrive::flawed(
        scenario.model,
        time.clock(),
        settings.storage_capacity_bytes / BLOCK_BYTES,
        scenario.rates,
        scenario.settings.seed,
    );
    let cpu = CpuPool::new(settings.cpu_capacity_bytes).map_err(|error| error.to_string())?;
    cpu.populate(0, 1).map_err(|error| error.to_string())?;
    let parts = WorldParts {
        time,
        drive,
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

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    strangers: Strangers,
    rng: Xoshiro256PlusPlus,
    steps: u64,
}

impl Run<'_> {
    fn phases(&mut self) -> Result<FaultRun, String> {
        for driver in &self.world.drivers {
            let driver = Rc::clone(driver);
            self.world.runtime.spawn(Box::pin(async move {
                let _refused_or_failed = driver.populate_all().await;
            }));
        }
        if let Some(until) = self.scenario.populates_for_ns {
            self.run_until(BEGIN + until)?;
            return self.shut_down();
        }
        self.run_until(Nanos::MAX)?;
        if self.world.runtime.task_count() > 0 {
            return Err("writing the population never ends".to_owned());
        }
        let origin = self.world.time.now();
        let end = origin + self.scenario.run_ns;
        // The measurement's window is open already; this one is the requests'.
        self.world.start_clocks(origin, (origin, Nanos::MAX));
        while self.world.time.now() < end {
            self.interfere();
            let pause = self.rng.random_range(0..PAUSE_MAX);
            self.run_until((self.world.time.now() + pause).min(end))?;
            check::nobody_is_forgotten(&self.world)?;
        }
        self.shut_down()
    }

    /// Stops it in the middle of everything, or lets what has begun end first: then it must end by
    /// itself, without being told that there is no use in waiting.
    fn shut_down(&mut self) -> Result<FaultRun, String> {
        let at_stop = AtStop::of(&self.world);
        self.world.drivers.iter().for_each(|driver| driver.stop(Nanos::MAX));
        self.strangers.stop();
        if self.scenario.ends_gently {
            self.run_until(Nanos::MAX)?;
            check::nothing_waits(&self.world)?;
        }
        self.world.drivers.iter().for_each(|driver| driver.shard().stop());
        self.run_until(Nanos::MAX)?;
        self.check(&at_stop)
    }

    fn check(&self, at_stop: &AtStop) -> Result<FaultRun, String> {
        check::at_rest(&self.world, self.scenario, at_stop)?;
        let flaws = self.world.drive.flaws().unwrap_or_default();
        check::report_tells_what_happened(&self.world, self.scenario, &flaws)?;
        self.strangers.check()?;
        Ok(FaultRun {
            flaws,
            requests: self.world.drivers.iter().map(|driver| driver.completed()).sum(),
            cancelled: self.strangers.cancelled(),
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
        let now_s = (self.world.time.now() - BEGIN) as f64 / SECOND as f64;
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
        let (mut flaws, mut cancelled, mut requests) = (Vec::new(), 0, 0);
        for seed in 0..300 {
            match run(seed) {
                Ok(run) => {
                    let FlawCounts { damaged_ios, late, stalls, overtaken, .. } = run.flaws;
                    let short: u64 = run.flaws.short.iter().sum();
                    flaws.push([run.flaws.failures(), short, damaged_ios, late, stalls, overtaken]);
                    cancelled += run.cancelled;
                    requests += run.requests;
                }
                Err(what) => panic!("seed {seed}: {what}\nagain: ringfall faults --seeds {seed}"),
            }
        }
        for kind in 0..6 {
            let often: u64 = flaws.iter().map(|counts| counts[kind]).sum();
            assert!(often > 50, "kind {kind} of flaw happened {often} times");
        }
        assert!(cancelled > 300 && requests > 3_000, "they did next to nothing");
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        for seed in [3, 77] {
            let (once, again) = (run(seed).unwrap(), run(seed).unwrap());
            assert_eq!((once.steps, once.flaws), (again.steps, again.flaws));
        }
    }
}
