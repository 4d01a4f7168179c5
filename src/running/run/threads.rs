//! The shards' threads of a real run, as the phases see them: what they have sent, whether they
//! live, and what everybody is told meanwhile.

use std::time::Duration;

use ringfall_core::clock::{MILLISECOND, Nanos, monotonic_now};
use ringfall_core::drive::DriveId;
use ringfall_core::key::Tier;
use ringfall_engine::shard::Second;
use ringfall_host::Overdue;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::remedy::told_io;
use ringfall_model::facts::RunFigures;
use ringfall_workloads::autoscale::Decision;

use super::cleanup::Cleanup;
use super::depth::{TunerOrder, Tuning};
use super::fleet::{Fleet, JOIN_PATIENCE};
use super::phases::{Ending, Order, Phase, Sight};
use super::scaling::Scaling;
use super::start::Awaited;
use super::store_watch::StoreWatch;
use super::waiting::WaitLog;
use super::{Observer, Progress, RunOutcome, RunSettings, Timeline, milestones};
use crate::driver::{Notice, ShardCommand, ShardOutcome, ShardStatus};
use crate::source::Feed;
use crate::store::Store;

/// Interval at which the run checks its threads.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the threads of an interrupted run to end, all together.
const INTERRUPTED_JOIN_PATIENCE: Nanos = Nanos::from_secs(5);
/// Longest wait for the shards' reports when nobody waits for their I/Os any more.
const REPORT_PATIENCE: Nanos = Nanos::from_secs(5);
/// Longest wait for the shards' partial results when the run ends early.
const KEEP_PATIENCE: Nanos = Nanos::from_ms(300);

pub(super) struct Threads<'a> {
    interrupt: &'a Interrupt,
    observer: &'a mut dyn Observer,
    store: Store,
    fleet: Fleet,
    shards: Vec<Shard>,
    timeline: Timeline,
    scaling: Option<Scaling>,
    has_answer: bool,
    feed: Option<Feed>,
    /// Users there are now; none when requests come from a trace.
    users: Option<u32>,
    start: Awaited,
    /// The search for a queue depth, while the run warms up; and what it is made of.
    tuner: Option<Tuning>,
    /// I/Os for which each queue has buffers.
    places: u32,
    settings: &'a RunSettings,
    /// Start of the window, once it is known.
    window_began: Option<Nanos>,
    /// End of the window, once it is over.
    window_ended: Option<Nanos>,
    /// Number of times that partial results were requested, which numbers the requests.
    keeps: u32,
    /// The first shard that was lost, or what happened to the store.
    failure: Option<String>,
    /// Looks whether the store is still there; a stuck mount holds up nobody else.
    store_watch: StoreWatch,
    /// Drives that have failed, and when that was noticed.
    lost_drives: Vec<(usize, Nanos)>,
    /// The phase, and since when.
    phase: (Phase, Nanos),
    wait_log: WaitLog,
}

#[derive(Default)]
struct Shard {
    status: ShardStatus,
    /// Entries of the population that failed, once it is written.
    populated: Option<u64>,
    report: Option<Box<ShardOutcome>>,
    /// Partial results from when the run ended early.
    kept: Option<Box<ShardOutcome>>,
}

impl<'a> Threads<'a> {
    pub(super) fn new(
        settings: &'a RunSettings,
        interrupt: &'a Interrupt,
        observer: &'a mut dyn Observer,
        store: Store,
        fleet: Fleet,
        feed: Option<Feed>,
        users: Option<u32>,
        places: u32,
    ) -> Threads<'a> {
        let store_watch = StoreWatch::start(store.files());
        Threads {
            interrupt,
            observer,
            store,
            fleet,
            shards: (0..settings.shards).map(|_| Shard::default()).collect(),
            timeline: Timeline::default(),
            scaling: Scaling::of(settings),
            has_answer: false,
            feed,
            users,
            start: Awaited::new(settings.start.clone()),
            tuner: None,
            places,
            settings,
            window_began: None,
            window_ended: None,
            keeps: 0,
            failure: None,
            store_watch,
            lost_drives: Vec::new(),
            phase: (Phase::Populate, monotonic_now()),
            wait_log: WaitLog::of(settings),
        }
    }

    /// Whether it holds for every shard from which something is to be expected.
    fn all(&self, holds: impl Fn(&Shard) -> bool) -> bool {
        let mut shards = self.shards.iter().enumerate();
        shards.all(|(index, shard)| self.fleet.is_lost(index) || holds(shard))
    }

    fn status(&self) -> ShardStatus {
        let first = ShardStatus { exhausted: true, ..ShardStatus::default() };
        self.shards.iter().fold(first, |sum, shard| sum.and(&shard.status))
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Ready(..) => {}
            Notice::Populated(id, failed) => self.shards[id.index()].populated = Some(failed),
            Notice::Tick(id, status, seconds, news) => {
                milestones::tick(id, &status);
                let over = seconds.last().map_or(0, |second| second.index + 1);
                self.add_seconds(seconds);
                if let Some(scaling) = &mut self.scaling {
                    scaling.seconds.add(id.index(), over, *news, &status);
                }
                self.shards[id.index()].status = *status;
            }
            Notice::Interval(_, interval) => {
                if let Some(tuner) = &mut self.tuner {
                    tuner.add(&interval);
                }
            }
            Notice::Kept(id, number, mut report) => {
                // They come once, also to one who waits for them no more.
                self.add_seconds(std::mem::take(&mut report.seconds));
                // A late answer to an earlier question has less than there is now.
                if number == self.keeps {
                    self.shards[id.index()].kept = Some(report);
                }
            }
            Notice::Drained(id, mut report) => {
                self.add_seconds(std::mem::take(&mut report.seconds));
                self.shards[id.index()].report = Some(report);
            }
        }
    }

    fn add_seconds(&mut self, seconds: Vec<Second>) {
        self.observer.seconds(&seconds);
        self.timeline.add(seconds);
    }

    /// Lets the autoscaler decide, if there is one.
    fn scale(&mut self) {
        let Some(scaling) = &mut self.scaling else { return };
        let elapsed =
            self.window_began.map_or(Nanos::ZERO, |began| monotonic_now().saturating_sub(began));
        match scaling.decide(&self.timeline, elapsed) {
            Decision::Hold => {}
            Decision::Users(users) if self.users == Some(users) => {}
            Decision::Users(users) => {
                self.users = Some(users);
                tracing::info!("the autoscaler goes on with {users} users");
                self.fleet.tell(ShardCommand::SetUsers(users));
            }
            Decision::Stop => self.has_answer = true,
        }
    }

    /// Carries out what the search for a queue depth wants done by now.
    fn tune(&mut self) {
        let alive = (0..self.shards.len()).filter(|index| !self.fleet.is_lost(*index)).count();
        let Some(tuner) = &mut self.tuner else { return };
        while let Some(order) = tuner.next(monotonic_now(), alive) {
            if let TunerOrder::Depth(depth) = order {
                tracing::info!("trying queue depth {depth}");
            }
            self.fleet.tell(ShardCommand::Tune(order));
            if let Some(figures) = tuner.figures() {
                let of = figures.ranks.map_or(String::new(), |ranks| format!(" of {ranks} ranks"));
                tracing::info!("queue depth {}{of}: {}", figures.chosen, figures.told());
            }
        }
    }

    fn check_store(&mut self, phase: Phase) {
        while let Some((index, error)) = self.store_watch.news() {
            if phase == Phase::Drain {
                continue;
            }
            let id = DriveId::at(index);
            if self.settings.outlives_drives && self.store.drives.len() > 1 {
                let _is_news = self.fleet.shared.budgets.lose_drive(id);
            } else if !self.fleet.shared.budgets.is_lost(id) {
                self.failure.get_or_insert(format!("stopped: {}", told_io(&error)));
            }
        }
    }

    /// Notes drives that have failed, and ends the run where it is not to go on without them.
    fn check_drives(&mut self) {
        if self.fleet.shared.budgets.losses() == self.lost_drives.len() as u64 {
            return;
        }
        let now = monotonic_now();
        for (index, drive) in self.store.drives.iter().enumerate() {
            let is_known = self.lost_drives.iter().any(|(known, _)| *known == index);
            if is_known || !self.fleet.shared.budgets.is_lost(DriveId::at(index)) {
                continue;
            }
            self.lost_drives.push((index, now));
            // What the shards have said of errors is of before: their next tick leaves its out.
            self.shards.iter_mut().for_each(|shard| shard.status.errors = 0);
            let path = drive.path().display();
            if self.settings.outlives_drives {
                let others = match self.lost_drives.len() < self.store.drives.len() {
                    true => ", and the run goes on with the others",
                    false => "",
                };
                tracing::warn!("drive {path} failed: what was on it is lost{others}");
            } else {
                self.failure.get_or_insert(format!(
                    "stopped: drive {path} failed, with one I/O error after the other: look at \
                     dmesg and the drive's SMART log, or give --on-device-failure continue to go \
                     on with the other drives"
                ));
            }
        }
        if self.lost_drives.len() == self.store.drives.len() {
            self.failure.get_or_insert("stopped: every drive has failed: look at dmesg".to_owned());
        }
    }

    /// Takes notices until it holds for all shards, for so long at most.
    fn take_until(&mut self, holds: impl Fn(&Shard) -> bool, patience: Nanos) {
        let deadline = monotonic_now() + patience;
        while !self.all(&holds) && monotonic_now() < deadline {
            if let Some(notice) = self.fleet.next_notice(LOOK) {
                self.take(notice);
            }
        }
    }

    /// Hands over what was measured so far, as that kind of end.
    fn keep(&mut self, ending: Ending) {
        let (Some(began), Some(window_end)) = (self.window_began, self.window_ended) else {
            return;
        };
        if !self.settings.keeps_early {
            return;
        }
        self.shards.iter_mut().for_each(|shard| shard.kept = None);
        self.keeps += 1;
        self.fleet.tell(ShardCommand::Keep(self.keeps));
        self.take_until(|shard| shard.kept.is_some(), KEEP_PATIENCE);
        let outcome = self.snapshot(ending, (began, window_end), |shard| shard.kept.take());
        self.observer.kept(outcome);
    }

    /// Adds up the results of the shards that have reported, and the state of the run.
    fn snapshot(
        &mut self,
        ending: Ending,
        window: (Nanos, Nanos),
        report: impl Fn(&mut Shard) -> Option<Box<ShardOutcome>>,
    ) -> RunOutcome {
        let figures = RunFigures {
            feed: self.feed.as_ref().map(Feed::figures),
            queue_depth: self.tuner.as_ref().and_then(|tuner| tuner.figures().cloned()),
            watchdog: self.fleet.watchdog.figures(),
            population_failed: self.shards.iter().filter_map(|shard| shard.populated).sum(),
            shortfalls: self.fleet.shared.shortfalls(),
            objects: self.store.object_counts(),
            files: self.store.file_counts(),
            ..RunFigures::default()
        };
        let mut outcome = RunOutcome {
            figures,
            lost_drives: self.lost_drives.clone(),
            shortages: self.fleet.shared.budgets.shortages(),
            ending,
            window,
            ..RunOutcome::default()
        };
        for (index, shard) in (0..).zip(&mut self.shards) {
            if let Some(report) = report(shard) {
                outcome.add(*report, self.settings.core_of(index), &mut self.timeline);
            }
        }
        outcome.conclude(self.scaling.as_ref(), self.timeline.clone());
        outcome
    }

    /// Adds up what all of them measured, ends them, and hands out their data to be deleted.
    pub(super) fn outcome(mut self, ending: Ending, window: (Nanos, Nanos)) -> RunOutcome {
        let overdue = Overdue::new("the shards to end".to_owned());
        let has_reported = |shard: &Shard| shard.report.is_some();
        if !self.all(has_reported) {
            // Those that live, but whose I/Os do not end, have measured something so far.
            self.fleet.tell(ShardCommand::Report);
            self.take_until(has_reported, REPORT_PATIENCE);
        }
        let silent: Vec<String> = (self.shards.iter().enumerate())
            .filter(|(_, shard)| shard.report.is_none())
            .map(|(index, _)| index.to_string())
            .collect();
        let is_interrupted = ending == Ending::Interrupted;
        let mut outcome = self.snapshot(ending, window, |shard| shard.report.take());
        let patience = if is_interrupted { INTERRUPTED_JOIN_PATIENCE } else { JOIN_PATIENCE };
        let joined = self.fleet.join(patience);
        drop(overdue);
        // A thread's ring ends with it, and that waits for the I/Os in flight. Whether they had
        // reported tells nothing: those that were interrupted before they began never do.
        let is_at_rest = joined.is_ok();
        match joined {
            // Who interrupts does not wait for a slow drive, and it is no failure.
            Err(error) if is_interrupted => tracing::info!("{error}"),
            Err(error) if !matches!(outcome.ending, Ending::Failed(_)) => {
                outcome.ending = Ending::Failed(error.to_string());
            }
            // The first failure counts.
            _ => {}
        }
        if let (Ending::Failed(sentence), false) = (&mut outcome.ending, silent.is_empty()) {
            sentence.push_str(&format!(
                "; the figures of shard {} are missing, except for the seconds they had reported",
                silent.join(", ")
            ));
        }
        outcome.cleanup =
            Some(Cleanup::new(self.store, &outcome.ending, self.interrupt, is_at_rest));
        outcome
    }

    /// Bytes of all tiers that have space, while a step is being taken.
    fn space_awaited(&self) -> Option<u64> {
        let budgets = &self.fleet.shared.budgets;
        let grown = || Tier::ALL.into_iter().map(|tier| budgets.grown_bytes(tier)).sum();
        budgets.is_taking_space().then(grown)
    }

    /// Whether every shard from which something is to be expected has done what the phase asks for.
    fn is_done(&self, phase: Phase) -> bool {
        match phase {
            Phase::Open | Phase::Precondition | Phase::Assemble => true,
            Phase::Populate => self.all(|shard| shard.populated.is_some()),
            Phase::Drain => self.all(|shard| shard.report.is_some()),
            Phase::Gather | Phase::WarmUp | Phase::Measure | Phase::Report => false,
        }
    }

    /// Takes a snapshot of the threads' state.
    pub(super) fn sight(&self, phase: Phase) -> Sight {
        let status = self.status();
        let feed_failure = || self.feed.as_ref().and_then(|feed| feed.figures().failure);
        // Neither what is read from the trace nor the other ranks matter when the run is ending.
        let outer_failure = match phase {
            Phase::Drain => None,
            _ => feed_failure().or_else(|| self.start.failure()),
        };
        Sight {
            now: monotonic_now(),
            is_done: self.is_done(phase),
            begins: self.start.begins,
            is_exhausted: status.exhausted,
            is_interrupted: self.interrupt.is_set(),
            has_answer: self.has_answer
                || self.settings.loads_enough.is_some_and(|loads| loads.are_in(&status.requests)),
            is_taking_space: self.fleet.shared.budgets.is_taking_space(),
            errors: status.errors,
            in_flight: status.in_flight,
            operations: status.operations,
            is_unheard: self.fleet.is_unheard(),
            ended: status.ended,
            failure: self.failure.clone().or(outer_failure),
            ..Sight::default()
        }
    }

    /// Carries out what a run is told while its threads run.
    pub(super) fn obey(&mut self, order: Order) {
        match order {
            Order::Open | Order::Precondition | Order::Assemble | Order::Report { .. } => {
                unreachable!("the threads run from being assembled to being reported on: {order:?}")
            }
            Order::Populate => self.fleet.tell(ShardCommand::Populate),
            Order::Start { origin, window } => {
                self.window_began = Some(window.0);
                self.fleet.watchdog.count_within(window.0, window.1);
                let drives = self.store.drives.len();
                self.tuner = self.settings.tuner(drives, self.places, (origin, window.0));
                self.fleet.tell(ShardCommand::Start { origin, window });
            }
            Order::BeginWindow => {
                // Its time is over by now: it says so, if it had not come to an end.
                self.tune();
                self.observer.window_began();
            }
            Order::Stop { window_end } => {
                let window_began = self.window_began.unwrap_or(window_end);
                self.fleet.watchdog.count_within(window_began, window_end);
                self.fleet.tell(ShardCommand::Stop { window_end });
                self.observer.window_ended();
                self.window_ended = Some(window_end);
            }
            Order::Keep { ending } => self.keep(ending),
        }
    }

    /// Takes what the shards have sent, watches over them, shows progress.
    pub(super) fn pass_time(&mut self, phase: Phase, until: Nanos) {
        let now = monotonic_now();
        if self.phase.0 != phase {
            let (before, since) = std::mem::replace(&mut self.phase, (phase, now));
            milestones::phase_over(before, now.saturating_sub(since), &self.status());
        }
        self.start.look(phase);
        let left = until.saturating_sub(now);
        let due = self.tuner.as_ref().map_or(Nanos::MAX, Tuning::due).saturating_sub(now);
        let patience = left.min(due).max(MILLISECOND).as_duration();
        let mut next = self.fleet.next_notice(LOOK.min(patience));
        while let Some(notice) = next {
            self.take(notice);
            next = self.fleet.next_notice(Duration::ZERO);
        }
        if let Some(error) = self.fleet.watch(phase) {
            // As it happens: the run's own end may take a while.
            let kept = match self.window_began {
                Some(began) if began <= now => ", and what the others measured is kept",
                _ => "",
            };
            tracing::error!("{error}, while {phase}; the run ends{kept}");
            self.failure.get_or_insert(error.to_string());
        }
        self.check_store(phase);
        self.check_drives();
        if phase == Phase::WarmUp {
            self.tune();
        }
        if phase == Phase::Measure {
            self.scale();
        }
        let status = self.status();
        // A shard that is not heard does not say what has ended since: the watchdog sees to it.
        let (waiting, is_logged) = match self.fleet.is_unheard() {
            true => (None, false),
            false => self.wait_log.look(monotonic_now(), &status, self.space_awaited()),
        };
        if let Some(waiting) = waiting.filter(|_| is_logged) {
            tracing::warn!("{waiting}, while {phase}");
        }
        self.observer.progress(&Progress {
            phase,
            left: if until == Nanos::MAX { until } else { left },
            elapsed: now - self.phase.1,
            status,
            timeline: &self.timeline,
            budgets: &self.fleet.shared.budgets,
            users: self.users,
            awaits: &self.start.awaits(),
            waiting,
            is_interrupted: self.interrupt.is_set(),
        });
    }
}

#[cfg(test)]
#[path = "threads_test.rs"]
mod tests;
