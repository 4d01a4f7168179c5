//! A real run: the store opened, prepared and given to the shards' threads, which are led through
//! the phases; at the end everything is added up, and what is to be deleted is handed out.

use std::convert::Infallible;

use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::error::SetupError;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::remedy::told_setup;
use ringfall_host::{Overdue, escape};

use super::cleanup::Cleanup;
use super::conduct::{Shards, conduct};
use super::fleet::{Fleet, FleetError};
use super::phases::{Ending, Order, Phase, Sight};
use super::threads::Threads;
use super::{Assignment, Observer, RunOutcome, RunSettings, gpu_direct, milestones, shard_plans};
use crate::source::Feed;
use crate::store::{Store, StoreError, StoreRequest};

/// A run from open to results.
///
/// # Errors
/// When it could not begin. A shard that dies or gets stuck later ends the run as failed, with what
/// the others measured.
pub fn run(
    settings: &RunSettings,
    assignment: Assignment,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, FleetError> {
    let stage = Stage::Given(Given { assignment, observer });
    let mut run = RealRun { settings, interrupt, stage, refusal: None };
    let Ok(_over) = conduct(settings.phase_plan(), &mut run);
    match (run.refusal, run.stage) {
        (Some(refusal), _) => Err(refusal),
        (None, Stage::Over(outcome)) => Ok(*outcome),
        (None, _) => unreachable!("the last order of every run is to report"),
    }
}

struct RealRun<'a> {
    settings: &'a RunSettings,
    interrupt: &'a Interrupt,
    stage: Stage<'a>,
    /// Why it could not begin.
    refusal: Option<FleetError>,
}

enum Stage<'a> {
    /// Nothing is open.
    Given(Given<'a>),
    /// The store is open.
    Open(Given<'a>, Store),
    /// The shards run.
    Running(Box<Threads<'a>>),
    /// It ends before it has begun; the store, where there is one.
    Unbegun(Option<Store>),
    /// Everything is added up.
    Over(Box<RunOutcome>),
}

/// Inputs of a run that its threads need.
struct Given<'a> {
    assignment: Assignment,
    observer: &'a mut dyn Observer,
}

impl<'a> RealRun<'a> {
    /// Carries out `order`, moving to the next stage. If that fails, nothing has begun, and the
    /// store deletes what it has made as it is dropped.
    fn advance(&mut self, order: &Order) -> Result<(), FleetError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Unbegun(None));
        self.stage = match (order, stage) {
            (Order::Open, Stage::Given(given)) => {
                match open_store(self.settings, self.interrupt, given.observer) {
                    Err(StoreError::Left(left)) if self.interrupt.is_set() => {
                        let left = escape::terminal(&told_setup(&left));
                        ringfall_host::stderr::tell(format_args!("error: {left}"));
                        Stage::Unbegun(None)
                    }
                    // It was not waited for.
                    Err(_) if self.interrupt.is_set() => Stage::Unbegun(None),
                    opened => Stage::Open(given, opened?),
                }
            }
            (Order::Precondition, Stage::Open(given, store)) => {
                given.observer.prepare(&store)?;
                Stage::Open(given, store)
            }
            (Order::Assemble, Stage::Open(given, store)) => self.assemble(given, store)?,
            _ => unreachable!("{order:?} comes at another stage"),
        };
        Ok(())
    }

    /// Starts the shards' threads.
    fn assemble(&self, given: Given<'a>, store: Store) -> Result<Stage<'a>, FleetError> {
        let (settings, Given { mut assignment, observer }) = (self.settings, given);
        let direct = gpu_direct::open(settings, &store, observer)?;
        let (feed, rows) = match assignment.rows.take() {
            None => (None, vec![None; usize::from(settings.shards)]),
            Some(rows) => {
                let (feed, rows) = Feed::start(rows, settings.shards).map_err(|error| {
                    SetupError::new(
                        format!("no thread can be started to read the trace: {error}"),
                        "raise the limit on threads (ulimit -u)",
                    )
                })?;
                (Some(feed), rows.into_iter().map(Some).collect())
            }
        };
        let plans = shard_plans(settings, &assignment, rows, &store, direct)?;
        let _overdue = Overdue::new("the shards to start".to_owned());
        let (fleet, facts) = match Fleet::start(plans, self.interrupt) {
            // Nothing was measured, and that is what the results say.
            Err(FleetError::Interrupted) => return Ok(Stage::Unbegun(Some(store))),
            started => started?,
        };
        milestones::opened(settings, &store, &facts);
        observer.opened(&store, &facts);
        let places = settings.places(store.drives.len(), &facts);
        let users = (!assignment.source.is_rows()).then_some(assignment.config.num_users);
        let threads =
            Threads::new(settings, self.interrupt, observer, store, fleet, feed, users, places);
        Ok(Stage::Running(Box::new(threads)))
    }

    /// Adds up what the threads measured, and hands out their data to be deleted.
    fn report(&self, stage: Stage<'a>, ending: Ending, window: (Nanos, Nanos)) -> RunOutcome {
        let store = match stage {
            Stage::Running(threads) => {
                let outcome = threads.outcome(ending, window);
                self.settings.start.ended(&outcome.ending);
                return outcome;
            }
            Stage::Open(_, store) => Some(store),
            Stage::Unbegun(store) => store,
            Stage::Given(_) => None,
            Stage::Over(_) => unreachable!("a run reports once"),
        };
        let mut outcome = RunOutcome { ending, window, ..RunOutcome::default() };
        outcome.figures.objects = store.as_ref().and_then(Store::object_counts);
        outcome.figures.files = store.as_ref().and_then(Store::file_counts);
        outcome.cleanup =
            store.map(|store| Cleanup::new(store, &outcome.ending, self.interrupt, true));
        outcome
    }
}

impl Shards for RealRun<'_> {
    type Broken = Infallible;

    fn sight(&mut self, phase: Phase) -> Result<Sight, Infallible> {
        if let Stage::Running(threads) = &mut self.stage {
            return Ok(threads.sight(phase));
        }
        let is_unbegun = matches!(self.stage, Stage::Unbegun(_));
        Ok(Sight {
            now: monotonic_now(),
            // Each order is carried out before it is looked again.
            is_done: true,
            is_interrupted: self.interrupt.is_set() || (is_unbegun && self.refusal.is_none()),
            failure: self.refusal.as_ref().map(ToString::to_string),
            ..Sight::default()
        })
    }

    fn obey(&mut self, order: Order) -> Result<(), Infallible> {
        milestones::order(&order);
        match (order, &mut self.stage) {
            (Order::Report { ending, window }, stage) => {
                let stage = std::mem::replace(stage, Stage::Unbegun(None));
                self.stage = Stage::Over(Box::new(self.report(stage, ending, window)));
            }
            (order, Stage::Running(threads)) => threads.obey(order),
            (order, _) => self.refusal = self.advance(&order).err(),
        }
        Ok(())
    }

    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), Infallible> {
        match &mut self.stage {
            Stage::Running(threads) => threads.pass_time(phase, until),
            _ => unreachable!("a run whose shards don't run waits for nothing"),
        }
        Ok(())
    }
}

/// The store that a run asks for, unless it is interrupted meanwhile.
fn open_store(
    settings: &RunSettings,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Store, StoreError> {
    let request = StoreRequest { shards: settings.shards, ..settings.store.clone() };
    match (settings.has_storage, &settings.objects, &settings.layout) {
        (false, ..) => Store::nowhere(),
        #[cfg(feature = "objects")]
        (true, Some((url, options)), _) => {
            let bytes = settings.store.capacity_bytes;
            let goes_on = &mut || !interrupt.is_set();
            Store::in_objects(url, options, bytes, settings.shards, goes_on)
        }
        // Without the feature such a place is refused with the other settings.
        (true, _, Some(layout)) => Store::in_layout(&request, layout),
        (true, _, None) => Store::open(&request, &mut |done_bytes, all_bytes| {
            observer.giving_space(done_bytes, all_bytes);
            !interrupt.is_set()
        }),
    }
}
