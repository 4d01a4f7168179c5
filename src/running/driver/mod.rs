//! Glues the two crates on one shard: the workload's actions become engine calls, the engine's
//! outcomes become the workload's events. What a request does next is decided by the workload, and
//! where an entry goes by the engine. What is decided here is whose request is served next: the
//! most urgent one first, over all shards of the engine, as its class and arrival say.

mod feed;
mod ledger;
mod operate;
mod real;
mod shard_main;
mod totals;
mod turns;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;

use ringfall_core::clock::{Clock, Nanos};
use ringfall_core::placement::{NOBODY, Published, SharedGate};
use ringfall_engine::shard::{GateName, Notify, Shard};
use ringfall_workloads::Workload;
use ringfall_workloads::autoscale::Mode;
use ringfall_workloads::contract::{
    Action, Event, Nanos as SinceStart, Outcome, Purpose, RequestEnd, RequestId, Scope, StepTimes,
};

use crate::iotrace::TraceWriter;
use ledger::Ledger;
pub use real::{
    Inbound, MeshLinks, Notice, ShardCommand, ShardOutcome, ShardPlan, ShardStatus, TunerOrder,
};
pub use shard_main::shard_main;
pub use totals::{Interval, RequestCounts, RequestNews, RequestSecond, Totals};

/// Runs a task beside the others of the shard.
pub type Spawn = Box<dyn Fn(std::pin::Pin<Box<dyn Future<Output = ()>>>)>;

/// One shard's users, and the requests it is serving for them.
pub struct Driver {
    shard: Rc<Shard>,
    workload: RefCell<Workload>,
    clock: Clock,
    /// The workload's time 0 on the engine's clock; nothing is done before. `MAX`: not begun.
    origin: Cell<Nanos>,
    spawn: Spawn,
    /// Tasks that are being begun, each inside of the one before.
    nested: Cell<u32>,
    /// Events that the workload is being told of, each because of the one before.
    events: Cell<u32>,
    /// Lists for what follows from an event, to be used again: one for each under way at once.
    spare_actions: RefCell<Vec<Vec<Action>>>,
    requests: std::sync::Arc<SharedGate>,
    /// Requests and operations under way.
    ledger: Ledger,
    /// Entries of the population written or given up, and all of them.
    populated: Cell<(u64, u64)>,
    waits: RefCell<BinaryHeap<Reverse<(SinceStart, RequestId)>>>,
    totals: RefCell<Box<Totals>>,
    /// Requests under way that began with a system prompt.
    prompted: RefCell<BTreeSet<RequestId>>,
    window: Cell<(Nanos, Nanos)>,
    stopped: Cell<bool>,
    /// Rings when the next deadline may have come nearer.
    pub(super) poke: Notify,
    pub(super) idle: Notify,
    /// Rings when there is nothing left to do, so that the run ends then and not a second later.
    pub(super) spent: Notify,
    max_concurrent_allocs: bool,
    /// The seconds not yet reported to the autoscaler; none when there is no autoscaler.
    intervals: Option<RefCell<Vec<Interval>>>,
    /// Whether the autoscaler judges by the requests that are open, too.
    tells_open: bool,
    /// Told of every operation.
    log: RefCell<Option<Rc<TraceWriter>>>,
}

impl Driver {
    /// A driver that has not begun. `autoscaled`: the mode of the autoscaler, if there is one.
    pub fn new(
        shard: Rc<Shard>,
        workload: Workload,
        clock: Clock,
        spawn: Spawn,
        max_concurrent_allocs: bool,
        autoscaled: Option<Mode>,
    ) -> Rc<Driver> {
        let requests = shard.shared().requests.clone();
        Rc::new(Driver {
            shard,
            workload: RefCell::new(workload),
            clock,
            origin: Cell::new(Nanos::MAX),
            spawn,
            nested: Cell::new(0),
            events: Cell::new(0),
            spare_actions: RefCell::default(),
            requests,
            ledger: Ledger::default(),
            populated: Cell::default(),
            waits: RefCell::default(),
            totals: RefCell::default(),
            prompted: RefCell::default(),
            window: Cell::new((Nanos::MAX, Nanos::MAX)),
            stopped: Cell::new(false),
            poke: Notify::default(),
            idle: Notify::default(),
            spent: Notify::default(),
            max_concurrent_allocs,
            intervals: autoscaled.map(|_| RefCell::default()),
            tells_open: autoscaled == Some(Mode::Slo),
            log: RefCell::default(),
        })
    }

    /// Shard of the engine that the driver's requests are served by.
    pub fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    /// Begins the workload at `origin` on the engine's clock and counts what ends in `window`.
    pub fn start(self: &Rc<Self>, origin: Nanos, window: (Nanos, Nanos)) {
        assert_eq!(self.origin.get(), Nanos::MAX, "a workload begins once");
        assert!(!self.stopped.get(), "nothing begins after the end");
        assert!(origin <= window.0 && window.0 <= window.1, "{origin:?}, {window:?}");
        self.origin.set(origin);
        self.window.set(window);
        self.workload.borrow_mut().start(SinceStart::ZERO);
        self.poke.notify_all();
        self.tell_if_exhausted();
    }

    /// Counts what has arrived by a sample of the users, if that is much: somebody waits for the
    /// end, and [`Driver::stop`] comes next.
    pub fn count_by_sample(&self) {
        self.workload.borrow_mut().count_by_sample();
    }

    /// No new requests; those under way end at their next step.
    pub fn stop(&self, window_end: Nanos) {
        assert!(!self.stopped.replace(true), "a driver stops once");
        let (start, end) = self.window.get();
        self.window.set((start, end.min(window_end)));
        self.note_unfinished();
        let now = self.workload_now();
        self.workload.borrow_mut().stop(now);
        let _waiting = self.requests.publish(self.shard.id(), NOBODY);
        self.poke.notify_all();
    }

    /// Changes how many users there are, over all shards.
    pub fn set_users(self: &Rc<Self>, total_users: u32) {
        let now = self.workload_now();
        self.workload.borrow_mut().set_users(total_users, now);
        self.poke.notify_all();
    }

    /// Operations of the engine still running for this driver.
    pub fn operations(&self) -> u32 {
        self.ledger.operations()
    }

    /// Steps of requests that will end: waits and operations under way.
    pub fn steps_under_way(&self) -> usize {
        self.waits.borrow().len() + self.ledger.awaited() as usize
    }

    /// Requests being served here.
    pub fn serving(&self) -> u32 {
        self.ledger.serving()
    }

    /// Whether [`Driver::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Requests completed in the window.
    pub fn completed(&self) -> u64 {
        self.totals.borrow().requests.completed()
    }

    /// Requests that ended so far, in the window or not, well or not.
    pub fn ended_ever(&self) -> u64 {
        self.ledger.ended()
    }

    /// Looks into the workload.
    pub fn with_workload<T>(&self, look: impl FnOnce(&Workload) -> T) -> T {
        look(&self.workload.borrow())
    }

    /// Whether nothing is left to do, now or later; false before it begins.
    pub fn is_exhausted(&self) -> bool {
        self.origin.get() != Nanos::MAX
            && self.serving() == 0
            && self.workload.borrow().is_exhausted()
    }

    pub(super) fn tell_if_exhausted(&self) {
        if self.is_exhausted() {
            self.spent.notify_all();
        }
    }

    /// A slot of the engine-wide request gate was handed to this shard.
    pub fn slot_granted(self: &Rc<Self>) {
        let waiting = self.workload.borrow().queue_head().is_some();
        match waiting && !self.stopped.get() {
            true => self.serve_next(),
            false => self.give_slot_back(),
        }
        self.fill_slots();
    }

    fn workload_now(&self) -> SinceStart {
        self.since_start(self.clock.now())
    }

    /// A moment of the engine's clock on the workload's; its 0 for all that is before.
    fn since_start(&self, moment: Nanos) -> SinceStart {
        SinceStart::from_ns(moment.saturating_sub(self.origin.get()).as_ns())
    }

    /// A moment of the workload's clock on the engine's.
    fn moment(&self, since_start: SinceStart) -> Nanos {
        Nanos::from_ns(since_start.as_ns()).saturating_add(self.origin.get())
    }

    /// When something is due, on the engine's clock; none once it is stopped.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.stopped.get() || self.origin.get() == Nanos::MAX {
            return None;
        }
        if self.clock.now() < self.origin.get() {
            return Some(self.origin.get());
        }
        let wake = self.workload.borrow().next_wake();
        let wait = self.waits.borrow().peek().map(|Reverse((until, _))| *until);
        let next = [wake, wait].into_iter().flatten().min()?;
        Some(self.moment(next))
    }

    /// Does what is due.
    pub fn work_off_due(self: &Rc<Self>) {
        if self.clock.now() < self.origin.get() {
            return;
        }
        let now = self.workload_now();
        loop {
            let mut waits = self.waits.borrow_mut();
            let due = waits.peek_mut().filter(|wait| wait.0.0 <= now).map(PeekMut::pop);
            drop(waits);
            let Some(Reverse((_, request))) = due else { break };
            self.ledger.answer(request);
            let times = StepTimes::default();
            self.event(Event::StepDone { request, outcome: Outcome::Waited, times });
        }
        let due = self.workload.borrow().next_wake().is_some_and(|wake| wake <= now);
        if due {
            self.event(Event::Tick);
        }
        self.fill_slots();
    }

    /// Starts queued requests while the engine has slots.
    fn fill_slots(self: &Rc<Self>) {
        let acquires = || {
            self.requests.try_acquire()
                // A slot may come free between the try and the publishing.
                || self.publish_queue_head() == Published::Acquired
        };
        let waits = || self.workload.borrow().queue_head().is_some();
        while !self.stopped.get() && waits() && acquires() {
            self.serve_next();
        }
    }

    fn serve_next(self: &Rc<Self>) {
        self.ledger.serve();
        self.event(Event::SlotGranted);
    }

    /// Tells the other shards how urgent our most urgent queued request is.
    fn publish_queue_head(&self) -> Published {
        let word = match self.workload.borrow().queue_head() {
            // Class first, then arrival: 2 bits and 62 bits of nanoseconds (146 years).
            Some((class, arrived)) if !self.stopped.get() => {
                (class as u64) << 62 | (arrived.as_ns() & (u64::MAX >> 2))
            }
            _ => NOBODY,
        };
        self.requests.publish(self.shard.id(), word)
    }

    fn give_slot_back(self: &Rc<Self>) {
        if let Some(next) = self.requests.release() {
            if next == self.shard.id() {
                let driver = Rc::clone(self);
                self.begin(async move { driver.slot_granted() });
            } else {
                self.shard.hand_over(next, GateName::Request);
            }
        }
    }

    fn event(self: &Rc<Self>, event: Event) {
        let mut actions = self.spare_actions.borrow_mut().pop().unwrap_or_default();
        let events = self.events.get();
        self.events.set(events + 1);
        self.workload.borrow_mut().on_event(self.workload_now(), event, &mut actions);
        for action in actions.drain(..) {
            self.act(action);
        }
        self.spare_actions.borrow_mut().push(actions);
        self.events.set(events);
        // Once everything that follows from an event is carried out.
        if events == 0 && !self.stopped.get() {
            let (steps, serving) = (self.steps_under_way(), self.serving() as usize);
            assert_eq!(steps, serving, "steps under way, and requests being served");
        }
    }

    fn act(self: &Rc<Self>, action: Action) {
        match action {
            Action::Wait { request, until } => {
                self.ledger.step(request);
                self.waits.borrow_mut().push(Reverse((until, request)));
                self.poke.notify_all();
            }
            Action::Done { request, record } => {
                self.prompted.borrow_mut().remove(&request);
                self.note_late(&record);
                match record.end {
                    RequestEnd::Dropped => self.ledger.abandon(),
                    _ => self.ledger.done(request),
                }
                self.record(record.finished, |totals, index| {
                    totals.requests.record(&record);
                    if record.end == RequestEnd::Served {
                        let second = totals.second(index);
                        second.completed += 1;
                        second.tokens += u64::from(record.generated_tokens);
                        self.in_interval(index, |interval| interval.add(&record));
                    }
                });
                self.give_slot_back();
                self.poke.notify_all();
                self.idle.notify_all();
                self.tell_if_exhausted();
            }
            Action::Ingest { .. } | Action::Forget { .. } if self.stopped.get() => {}
            Action::Ingest { key, bytes } => {
                let driver = Rc::clone(self);
                self.ledger.begin_ingest();
                self.begin(async move {
                    let (outcome, _) = driver.write(key, Scope::Shared, Purpose::Rag, bytes).await;
                    driver.ledger.end_ingest();
                    match driver.stopped.get() {
                        true => driver.idle.notify_all(),
                        false => driver.event(Event::Ingested { outcome }),
                    }
                });
            }
            Action::Forget { key } => self.forget(key),
            // Stopping: the request goes no further, and its slot is of no use to anybody.
            Action::Read { .. }
            | Action::ReadPrefix { .. }
            | Action::Write { .. }
            | Action::WriteAll { .. }
                if self.stopped.get() =>
            {
                self.ledger.abandon();
                self.idle.notify_all();
            }
            Action::Read { request, key, scope, purpose, times } => {
                let driver = Rc::clone(self);
                let purpose = (purpose, self.note_prompt(request, purpose));
                self.begin_step(
                    request,
                    async move { driver.read((key, scope), purpose, times).await },
                );
            }
            Action::ReadPrefix { request, keys, scope, purpose, at_once } => {
                let driver = Rc::clone(self);
                let purpose = (purpose, self.note_prompt(request, purpose));
                self.begin_step(request, async move {
                    driver.read_prefix((&keys, scope), purpose, at_once).await
                });
            }
            Action::Write { request, key, scope, purpose, bytes } => {
                let driver = Rc::clone(self);
                self.begin_step(
                    request,
                    async move { driver.write(key, scope, purpose, bytes).await },
                );
            }
            Action::WriteAll { request, entries, scope, purpose, at_once } => {
                let driver = Rc::clone(self);
                self.begin_step(request, async move {
                    driver.write_all((&entries, scope), purpose, at_once).await
                });
            }
        }
    }

    /// Has a request's operation done, which ends its step.
    fn begin_step(
        self: &Rc<Self>,
        request: RequestId,
        operation: impl Future<Output = (Outcome, StepTimes)> + 'static,
    ) {
        let driver = Rc::clone(self);
        self.ledger.step(request);
        self.ledger.begin_operation();
        self.begin(async move {
            let (outcome, times) = operation.await;
            driver.step_done(request, outcome, times);
        });
    }

    /// Whether the request began with a system prompt, of which it is reading now.
    fn note_prompt(&self, request: RequestId, purpose: Purpose) -> bool {
        let mut prompted = self.prompted.borrow_mut();
        match purpose {
            Purpose::Prefix => {
                prompted.insert(request);
                true
            }
            _ => prompted.contains(&request),
        }
    }

    fn step_done(self: &Rc<Self>, request: RequestId, outcome: Outcome, times: StepTimes) {
        self.ledger.end_operation();
        self.ledger.answer(request);
        if self.stopped.get() {
            self.ledger.abandon();
            self.idle.notify_all();
            return;
        }
        self.event(Event::StepDone { request, outcome, times });
    }
}
