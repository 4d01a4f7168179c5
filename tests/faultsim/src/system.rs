//! Whole systems, small and on a simulated clock, whose drive goes wrong in ways drawn from a seed.
//!
//! Everything is real but the clock, the drive and the GPU: the phases of the run, users,
//! placement, the data path with its bytes and their verification. After each run every sum must
//! hold, nothing may be held, what the engine reports must be what drive and GPU did, to the byte,
//! and the phases must have kept their promises (`promises`).

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_core::clock::Nanos;
use ringfall_core::fill::VerifyMode;
use ringfall_core::key::ShardId;
use ringfall_core::units::BLOCK_BYTES;
use ringfall_doubles::{FaultyMemory, GpuFlaw, GpuFlawCounts, GpuFlawPlan};
use ringfall_engine::device::SimDrive;
use ringfall_engine::shard::Content;
use ringfall_engine::shard::timers::Timers;
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_running::driver::Driver;
use ringfall_running::run::{
    BEGIN, ERRORS_MAX, Ending, Order, Phase, PhasePlan, SILENCE_MAX, Shards, Sight, World,
    WorldParts, conduct,
};

use crate::check::{self, AtStop};
use crate::fate::What;
use crate::flaws::{FlawCounts, FlawedMedium};
use crate::promises::Diary;
use crate::scenario::{Scenario, time_within};
use crate::stranger::Strangers;
use crate::way::Way;

/// No run of these sizes takes so many steps: one that does hangs.
const STEPS_MAX: u64 = 5_000_000;
/// Longest pause between two interferences.
const PAUSE_MAX: Nanos = Nanos::from_ms(100);

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct FaultRun {
    /// Flaws that the drives showed.
    pub flaws: FlawCounts,
    /// Flaws that the GPU tier showed.
    pub gpu_flaws: GpuFlawCounts,
    /// Whether its GPU was lost.
    pub is_gpu_lost: bool,
    /// Bytes read and written between GPU memory and the drives past host memory.
    pub direct_bytes: [u64; 2],
    /// Number of requests that finished without a failed step in the measurement window.
    pub requests: u64,
    /// Operations that were dropped half-way.
    pub cancelled: u64,
    /// Drives that were given up.
    pub lost_drives: u64,
    /// Steps of the simulation.
    pub steps: u64,
    /// Why the run ended.
    pub ending: Ending,
    /// Whether what was measured was handed over before everything had ended.
    pub is_kept: bool,
    /// Phases in which something happened to the run from outside: an interruption, a failure, a
    /// drive or a shard that was lost.
    pub incidents: Vec<Phase>,
}

/// Runs the system of that seed.
///
/// # Errors
/// Describes the promise that did not hold, in a sentence.
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
    let (gpu, way) = scenario.open_gpu()?;
    let (world, media) = build(&scenario)?;
    // Of a stream of its own, so that the system of a seed stays what it is.
    let mut order = Xoshiro256PlusPlus::seed_from_u64(seed ^ SPAWN_STREAM);
    world.runtime.draw_order_of_spawns(move || order.random());
    let drivers = world.drivers.len();
    let mut faulty = Faulty {
        strangers: Strangers::new(rng.random()),
        scenario: &scenario,
        world,
        media,
        gpu,
        way,
        is_gpu_lost: false,
        rng,
        steps: 0,
        phase: (Phase::Open, BEGIN),
        to_come: Vec::new(),
        failure: None,
        lost: vec![false; drivers],
        has_happened: vec![false; scenario.fate.incidents.len()],
        unpopulated: Rc::new(RefCell::new(vec![true; drivers])),
        diary: Diary::default(),
        at_stop: AtStop::default(),
    };
    conduct(faulty.plan(), &mut faulty)?;
    faulty.shut_down()
}

/// The drives' content with its flaws, in their order.
type Media = Vec<Rc<RefCell<FlawedMedium>>>;

fn build(scenario: &Scenario) -> Result<(World, Media), String> {
    let time = Timers::starting_at(BEGIN);
    let settings = &scenario.settings;
    let medium = |(index, bytes): (usize, &u64)| {
        let seed = settings.seed.wrapping_add(index as u64);
        let medium = FlawedMedium::new(bytes / BLOCK_BYTES, scenario.rates, seed);
        Rc::new(RefCell::new(medium))
    };
    let media: Media = scenario.drives_bytes.iter().enumerate().map(medium).collect();
    let drive = |medium: &Rc<RefCell<FlawedMedium>>| {
        SimDrive::new(scenario.model, time.clock(), Some(Rc::clone(medium) as _))
    };
    let drives = media.iter().map(drive).collect();
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
    let world =
        World::new(settings, &scenario.assignment, parts).map_err(|error| error.to_string())?;
    for driver in &world.drivers {
        driver.shard().measure().open(BEGIN, Nanos::MAX);
    }
    Ok((world, media))
}

/// The system as the phases see it: what goes wrong with it happens while time passes.
struct Faulty<'a> {
    scenario: &'a Scenario,
    world: World,
    media: Media,
    gpu: Option<Arc<FaultyMemory>>,
    way: Option<Way>,
    is_gpu_lost: bool,
    strangers: Strangers,
    rng: Xoshiro256PlusPlus,
    steps: u64,
    /// The phase, and when it began.
    phase: (Phase, Nanos),
    /// Sequels of incidents, and when they come.
    to_come: Vec<(Nanos, Sequel)>,
    /// Why the run can't go on.
    failure: Option<String>,
    /// Shards from which nothing is expected any more.
    lost: Vec<bool>,
    has_happened: Vec<bool>,
    /// Shards whose population is not written.
    unpopulated: Rc<RefCell<Vec<bool>>>,
    diary: Diary,
    at_stop: AtStop,
}

/// Later consequence of an incident.
#[derive(Clone, Copy, Debug)]
enum Sequel {
    /// Another interruption.
    Interrupt,
    /// The drives answer again, and no shard is stuck.
    Answer,
    /// The watchdog gives a shard up.
    GiveUp(u16),
}

impl Shards for Faulty<'_> {
    type Broken = String;

    fn sight(&mut self, phase: Phase) -> Result<Sight, String> {
        let now = self.world.time.now();
        if self.phase.0 != phase {
            self.phase = (phase, now);
        }
        self.diary.look();
        let drivers = &self.world.drivers;
        let shards = drivers.iter().map(|driver| driver.shard());
        let (errors, ended) = shards.fold((0, 0), |(errors, ended), shard| {
            (errors + shard.error_count(), ended + shard.measure().ended_ever())
        });
        let mut is_unheard = drivers.iter().zip(&self.lost).map(|(driver, is_lost)| {
            let id = driver.shard().id();
            self.world.stuck[id.index()] && !is_lost
        });
        Ok(Sight {
            now,
            is_done: self.is_done(phase, now),
            is_exhausted: drivers.iter().all(|driver| driver.is_exhausted()),
            is_interrupted: self.diary.is_interrupted(),
            errors,
            in_flight: drivers.iter().map(|driver| driver.shard().in_flight()).sum(),
            operations: drivers.iter().map(|driver| driver.operations()).sum(),
            is_unheard: is_unheard.any(|is_it| is_it),
            ended,
            failure: self.failure.clone(),
            ..Sight::default()
        })
    }

    fn obey(&mut self, order: Order) -> Result<(), String> {
        self.diary.order(self.world.time.now(), &order);
        match order {
            Order::Open | Order::Precondition | Order::Assemble | Order::Report { .. } => {}
            Order::Populate => self.populate(),
            Order::Start { origin, window } => {
                for (index, driver) in self.awake() {
                    for row in self.scenario.fate.rows.iter().flat_map(|rows| &rows[index]) {
                        driver.supply(row.clone());
                    }
                    if self.scenario.fate.rows.is_some() {
                        driver.supply_end();
                    }
                    // The engine is measured from the beginning: this window is the requests'.
                    driver.start(origin, window);
                }
            }
            Order::BeginWindow => {}
            Order::Stop { window_end } => {
                let awake: Vec<_> = self.awake().map(|(_, driver)| Rc::clone(driver)).collect();
                for driver in awake {
                    self.stop(&driver, window_end);
                }
                self.strangers.stop();
            }
            Order::Keep { .. } => {
                let ended = self.world.drivers.iter().map(|driver| driver.ended_ever());
                self.diary.keep(ended.collect());
            }
        }
        Ok(())
    }

    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), String> {
        if phase == Phase::Measure {
            self.interfere();
        }
        self.strike(phase)?;
        let pause = time_within(&mut self.rng, Nanos::ZERO..PAUSE_MAX);
        let deadline = (self.world.time.now() + pause).min(until).min(self.next_incident(phase));
        self.run_until(deadline)?;
        self.strike(phase)?;
        if phase == Phase::Measure {
            check::nobody_is_forgotten(&self.world)?;
        }
        Ok(())
    }
}

impl Faulty<'_> {
    fn plan(&self) -> PhasePlan {
        let fate = &self.scenario.fate;
        PhasePlan {
            start_delay: Nanos::ZERO,
            gathers: false,
            warmup: fate.warmup,
            duration: self.scenario.runs_for,
            ends_when_exhausted: fate.ends_when_exhausted,
            errors_max: ERRORS_MAX,
            silence_max: if fate.has_silence() { fate.silence_max } else { SILENCE_MAX },
        }
    }

    /// The shards that are not stuck, by index.
    fn awake(&self) -> impl Iterator<Item = (usize, &Rc<Driver>)> {
        let all = self.world.drivers.iter().enumerate();
        all.filter(|(_, driver)| !self.world.stuck[driver.shard().id().index()])
    }

    /// Whether what the phase asks for is done, as a real run sees it.
    fn is_done(&self, phase: Phase, now: Nanos) -> bool {
        let expected = || (0..self.lost.len()).filter(|&index| !self.lost[index]);
        match phase {
            Phase::Open | Phase::Precondition | Phase::Assemble | Phase::Report => {
                now >= self.phase.1 + self.scenario.fate.takes(phase)
            }
            Phase::Populate => expected().all(|index| !self.unpopulated.borrow()[index]),
            Phase::Drain => expected().all(|index| {
                let driver = &self.world.drivers[index];
                let shard = driver.shard();
                driver.operations() == 0 && shard.in_flight() == 0 && shard.moves() == 0
            }),
            Phase::Gather | Phase::WarmUp | Phase::Measure => false,
        }
    }

    fn populate(&self) {
        for (index, driver) in self.awake() {
            let (driver, unpopulated) = (Rc::clone(driver), Rc::clone(&self.unpopulated));
            self.world.runtime.spawn(Box::pin(async move {
                let _refused_or_failed = driver.populate_all().await;
                unpopulated.borrow_mut()[index] = false;
            }));
        }
    }

    /// Stops a shard: what has begun ends by itself, without being told that there is no use in
    /// waiting; or it is told so in the middle of everything.
    fn stop(&mut self, driver: &Driver, window_end: Nanos) {
        self.at_stop.add(driver);
        driver.stop(window_end);
        if !self.scenario.ends_gently {
            driver.shard().stop();
        }
    }

    /// When something happens from outside, if the phase goes on until then.
    fn next_incident(&self, phase: Phase) -> Nanos {
        let now = self.world.time.now();
        let of_phase = self.scenario.fate.incidents.iter().filter(|one| one.phase == phase);
        let starts = of_phase.map(|one| self.phase.1 + one.after).filter(|&at| at > now);
        let sequels = self.to_come.iter().map(|(at, _)| *at);
        starts.chain(sequels).min().unwrap_or(Nanos::MAX)
    }

    /// Lets happen what is due.
    fn strike(&mut self, phase: Phase) -> Result<(), String> {
        let now = self.world.time.now();
        if let Some((drive, at)) = self.scenario.dies
            && now >= BEGIN + at
        {
            self.media[drive].borrow_mut().die();
        }
        if self.scenario.gpu_lost_after.is_some_and(|after| now >= BEGIN + after) {
            self.lose_gpu();
        }
        for (index, incident) in self.scenario.fate.incidents.iter().enumerate() {
            let is_due = incident.phase == phase && now >= self.phase.1 + incident.after;
            if is_due && !std::mem::replace(&mut self.has_happened[index], true) {
                self.diary.incident(phase, incident.what);
                self.befall(phase, incident.what)?;
            }
        }
        let losses = self.world.engine.shared().budgets.losses();
        if losses == self.world.drives.len() as u64 && self.failure.is_none() {
            // As a real run does.
            self.fail("every drive has failed".to_owned());
        }
        let (due, later): (Vec<_>, Vec<_>) =
            self.to_come.iter().copied().partition(|(at, _)| *at <= now);
        self.to_come = later;
        due.into_iter().try_for_each(|(_, sequel)| self.follow(phase, sequel))
    }

    /// From now on every job of the GPU fails, and every I/O on its memory that begins.
    fn lose_gpu(&mut self) {
        self.is_gpu_lost = true;
        let lost = GpuFlawPlan::Every(1, GpuFlaw::Lost);
        self.gpu.iter().for_each(|gpu| gpu.set_plan(lost));
        self.media.iter().for_each(|medium| medium.borrow_mut().lose_other_memory());
    }

    /// From now on nothing reaches that shard: no message, no completion of an I/O, no moment at
    /// which something of its users is due. As a thread that is stuck it goes on when that ends.
    fn hold(&mut self, shard: ShardId) {
        self.world.stuck[shard.index()] = true;
        self.world.engine.set_deaf(shard, true);
        self.world.drives.iter().for_each(|drive| drive.fall_silent(shard.index()));
    }

    /// Lets every drive answer that has fallen silent; shards that are stuck do not hear it.
    fn answer(&self) {
        for drive in &self.world.drives {
            drive.answer();
            let stuck = self.world.stuck.iter().enumerate().filter(|(_, is_stuck)| **is_stuck);
            stuck.for_each(|(shard, _)| drive.fall_silent(shard));
        }
    }

    /// Lets everything reach every shard again, and every drive answer.
    fn let_go(&mut self) {
        for driver in &self.world.drivers {
            self.world.engine.set_deaf(driver.shard().id(), false);
        }
        self.world.stuck.fill(false);
        self.answer();
    }

    fn befall(&mut self, phase: Phase, what: What) -> Result<(), String> {
        let now = self.world.time.now();
        match what {
            What::Interrupt { again_after } => {
                self.to_come.extend(again_after.map(|after| (now + after, Sequel::Interrupt)));
                self.diary.interrupt(now, phase)?;
            }
            What::Failure => self.fail(format!("something was lost while {phase}")),
            What::DriveDies(drive) => self.media[drive].borrow_mut().die(),
            What::DriveFallsSilent(drive, lasts) => {
                self.world.drives[drive].fall_silent_for_all();
                self.to_come.extend(lasts.map(|lasts| (now + lasts, Sequel::Answer)));
            }
            What::ShardIsStuck(shard, told_after) => {
                self.hold(ShardId(shard));
                self.to_come.push((now + told_after, Sequel::GiveUp(shard)));
            }
        }
        Ok(())
    }

    fn follow(&mut self, phase: Phase, sequel: Sequel) -> Result<(), String> {
        match sequel {
            Sequel::Interrupt => self.diary.interrupt(self.world.time.now(), phase)?,
            // A shard that is stuck stays it: its thread is another's business.
            Sequel::Answer => self.answer(),
            Sequel::GiveUp(shard) => {
                self.lost[usize::from(shard)] = true;
                self.fail(format!("shard {shard} has shown no sign of life, while {phase}"));
            }
        }
        Ok(())
    }

    fn fail(&mut self, sentence: String) {
        self.diary.failure(self.world.time.now(), &sentence);
        self.failure.get_or_insert(sentence);
    }

    /// Lets everything that was held up go on, and ends it; then every sum must hold.
    fn shut_down(&mut self) -> Result<FaultRun, String> {
        let now = self.world.time.now();
        let drivers = self.world.drivers.clone();
        for driver in drivers.iter().filter(|driver| !driver.is_stopped()) {
            self.stop(driver, now);
        }
        self.strangers.stop();
        self.let_go();
        if self.scenario.ends_gently {
            self.run_until(Nanos::MAX)?;
            check::nothing_waits(&self.world)?;
        }
        drivers.iter().for_each(|driver| driver.shard().stop());
        self.run_until(Nanos::MAX)?;
        check::at_rest(&self.world, self.scenario, &self.at_stop)?;
        let mut flaws = FlawCounts::default();
        self.media.iter().for_each(|medium| flaws.add(medium.borrow().counts()));
        let gpu_flaws = self.gpu.as_ref().map(|gpu| gpu.counts()).unwrap_or_default();
        check::report_tells_what_happened(&self.world, self.scenario, &flaws, &gpu_flaws)?;
        self.strangers.check()?;
        let errors = drivers.iter().map(|driver| driver.shard().measure().error_count_ever()).sum();
        let ended: Vec<u64> = drivers.iter().map(|driver| driver.ended_ever()).collect();
        self.diary.check(&self.scenario.fate, ERRORS_MAX, errors, &ended)?;
        Ok(FaultRun {
            flaws,
            gpu_flaws,
            is_gpu_lost: self.is_gpu_lost,
            direct_bytes: check::direct_bytes(&self.world),
            requests: drivers.iter().map(|driver| driver.completed()).sum(),
            cancelled: self.strangers.cancelled(),
            lost_drives: self.world.engine.shared().budgets.losses(),
            steps: self.steps,
            ending: self.diary.report()?.0.clone(),
            is_kept: self.diary.has_kept(),
            incidents: self.diary.incidents().iter().map(|(phase, _)| *phase).collect(),
        })
    }

    /// Interferes as people and programs do with a running system.
    fn interfere(&mut self) {
        match self.rng.random_range(0..4) {
            0 => self.strangers.come(&self.world, self.scenario),
            1 if self.scenario.cancels => self.strangers.cancel_one(&self.world),
            2 if self.scenario.fate.rows.is_none() => {
                let most = self.scenario.assignment.config.num_users * 2;
                let users = self.rng.random_range(1..=most);
                self.awake().for_each(|(_, driver)| driver.set_users(users));
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
        if let Some(way) = &self.way {
            way.carry(&self.world);
        }
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
#[path = "system_test.rs"]
mod tests;
