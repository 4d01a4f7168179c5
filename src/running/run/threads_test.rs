//! A shard that ends while the others go on.

use std::convert::Infallible;
use std::sync::Arc;

use ringfall_core::clock::SECOND;
use ringfall_core::drive::{Durability, Preallocate};
use ringfall_core::facts::ShardFacts;
use ringfall_core::key::ShardId;
use ringfall_core::units::MIB;
use ringfall_engine::engine::Engine;
use ringfall_engine::load::LoadError;
use ringfall_host::Scratch;
use ringfall_workloads::config::{Arrival, GenerationMode, Persona, WorkloadConfig};
use ringfall_workloads::source::Source;

use super::*;
use crate::driver::RequestCounts;
use crate::run::conduct::{Shards, conduct};
use crate::run::{Assignment, LoadsEnough, shard_plans};
use crate::store::StoreRequest;

struct Nobody;

impl Observer for Nobody {
    fn giving_space(&mut self, _: u64, _: u64) {}

    fn prepare(&mut self, _: &Store) -> Result<(), LoadError> {
        Ok(())
    }
    fn gpu_direct(&mut self, _: Result<(), String>) {}
    fn opened(&mut self, _: &Store, _: &[ShardFacts]) {}
    fn window_began(&mut self) {}
    fn window_ended(&mut self) {}
    fn kept(&mut self, _: RunOutcome) {}
    fn progress(&mut self, _: &Progress<'_>) {}
}

/// Shards of which the second ends by itself, once requests have been measured.
struct Dying<'a> {
    threads: Option<Threads<'a>>,
    is_dead: bool,
    /// Merged results, once all threads have reported.
    outcome: Option<RunOutcome>,
}

impl Shards for Dying<'_> {
    type Broken = Infallible;

    fn sight(&mut self, phase: Phase) -> Result<Sight, Infallible> {
        let over = || Sight { is_done: true, ..Sight::default() };
        Ok(self.threads.as_mut().map_or_else(over, |threads| threads.sight(phase)))
    }

    fn obey(&mut self, order: Order) -> Result<(), Infallible> {
        match order {
            // They run already.
            Order::Open | Order::Precondition | Order::Assemble => {}
            Order::Report { ending, window } => {
                let threads = self.threads.take().expect("they report once");
                self.outcome = Some(threads.outcome(ending, window));
            }
            order => self.threads.as_mut().expect("they run").obey(order),
        }
        Ok(())
    }

    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), Infallible> {
        let threads = self.threads.as_mut().expect("they run");
        if threads.shards.iter().all(|shard| shard.status.requests.completed > 0) && !self.is_dead {
            threads.fleet.end_one(1);
            self.is_dead = true;
        }
        threads.pass_time(phase, until);
        Ok(())
    }
}

fn settings(directory: &std::path::Path) -> RunSettings {
    RunSettings {
        engine: Engine::builder().durability(Durability::None).requests_max(Some(8)),
        store: StoreRequest {
            places: vec![directory.to_owned()],
            capacity_bytes: 64 * MIB,
            shards: 2,
            preallocate: Preallocate::Reserve,
            ..StoreRequest::default()
        },
        has_storage: true,
        shards: 2,
        io_size_bytes: MIB,
        queue_depth: 4,
        io_buffer_bytes: 8 * MIB,
        seed: 5,
        duration: 300 * SECOND,
        ..RunSettings::default()
    }
}

/// Users who read and write all the time, their store, and the threads that serve them.
fn launched(settings: &RunSettings, interrupt: &Interrupt) -> (Store, Fleet) {
    let persona =
        Persona { context_tokens: [8, 16], generation_tokens: [1, 9], think_time_s: [0.01, 0.02] };
    let config = Arc::new(WorkloadConfig {
        num_users: 8,
        personas: vec![persona],
        arrival: Arrival::Closed,
        generation_mode: GenerationMode::None,
        prefix_caching: false,
        ..WorkloadConfig::default()
    });
    let store = Store::open(&settings.store, &mut |_, _| true).unwrap();
    let assignment = Assignment { config, source: Source::Synthetic, rows: None };
    let plans = shard_plans(settings, &assignment, vec![None; 2], &store, None).unwrap();
    let (fleet, _facts) = Fleet::start(plans, interrupt).unwrap();
    (store, fleet)
}

#[test]
fn a_shard_that_dies_fails_the_run_and_what_the_others_measured_is_kept() {
    let directory = Scratch::new("dying");
    let settings = settings(&directory);
    let interrupt = Interrupt::install().unwrap();
    let (store, fleet) = launched(&settings, &interrupt);
    let mut observer = Nobody;
    let threads =
        Threads::new(&settings, &interrupt, &mut observer, store, fleet, None, Some(8), 1);
    let mut shards = Dying { threads: Some(threads), is_dead: false, outcome: None };
    let Ok(_over) = conduct(settings.phase_plan(), &mut shards);
    let mut outcome = shards.outcome.expect("the last order is to report");
    outcome.cleanup.take().expect("there is a store").carry_out().unwrap();
    let Ending::Failed(why) = &outcome.ending else { panic!("it went on") };
    for part in ["shard 1 ended early", "the figures of shard 1 are missing"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let figures = &outcome.figures;
    assert!(figures.requests.completed() > 0 && figures.engine.io_write.bytes > 0);
    assert!(outcome.window.1 - outcome.window.0 < 100 * SECOND);
    assert!(figures.timeline.iter().any(|second| second.requests_completed > 0));
}

#[test]
fn a_lost_drive_does_not_forgive_the_errors_of_the_others() {
    let directory = Scratch::new("losing");
    let mut settings = settings(&directory);
    settings.store.places = vec![directory.join("a"), directory.join("b")];
    settings.outlives_drives = true;
    let interrupt = Interrupt::install().unwrap();
    let (store, fleet) = launched(&settings, &interrupt);
    let shared = Arc::clone(&fleet.shared);
    let mut observer = Nobody;
    let mut threads =
        Threads::new(&settings, &interrupt, &mut observer, store, fleet, None, Some(8), 1);
    let tick = |errors| {
        let status = ShardStatus { errors, ..ShardStatus::default() };
        Notice::Tick(ShardId(0), Box::new(status), Vec::new(), Box::default())
    };
    assert!(shared.budgets.lose_drive(DriveId::at(1)));
    threads.take(tick(1_300));
    threads.check_drives();
    // These were said before the shard knew of the loss.
    assert_eq!(threads.sight(Phase::Measure).errors, 0);
    // And these are of the drive that is left.
    threads.take(tick(999));
    assert_eq!(threads.sight(Phase::Measure).errors, 999);
    // Interrupted before they began: nobody has reported, and no I/O holds up who deletes the data.
    let outcome = threads.outcome(Ending::Interrupted, (Nanos::ZERO, Nanos::ZERO));
    outcome.cleanup.expect("there is a store").carry_out().unwrap();
}

#[test]
fn a_run_ends_with_loads_that_are_enough_in_number_and_time() {
    let directory = Scratch::new("enough-loads");
    let mut settings = settings(&directory);
    settings.loads_enough = Some(LoadsEnough { loads: 10, time: 4 * SECOND });
    let interrupt = Interrupt::install().unwrap();
    let (store, fleet) = launched(&settings, &interrupt);
    let mut observer = Nobody;
    let mut threads =
        Threads::new(&settings, &interrupt, &mut observer, store, fleet, None, Some(8), 1);
    let mut is_over = |shard, loads, seconds: u64| {
        let load_ns = u128::from((seconds * SECOND).as_ns());
        let requests = RequestCounts { loads, load_ns, ..RequestCounts::default() };
        let status = ShardStatus { requests, ..ShardStatus::default() };
        threads.take(Notice::Tick(ShardId(shard), Box::new(status), Vec::new(), Box::default()));
        threads.sight(Phase::Measure).has_answer
    };
    assert_eq!([is_over(0, 9, 4), is_over(0, 10, 3), is_over(1, 0, 1)], [false, false, true]);
    let outcome = threads.outcome(Ending::Interrupted, (Nanos::ZERO, Nanos::ZERO));
    outcome.cleanup.expect("there is a store").carry_out().unwrap();
}
