//! The life of a shard's thread in a real run.

use std::rc::Rc;
use std::sync::Arc;

use flume::{Receiver, Sender};
use ringfall_core::clock::{Clock, SECOND};
use ringfall_core::error::SetupError;
use ringfall_core::facts::ShardFacts;
use ringfall_core::key::{ShardId, Tier};
use ringfall_core::metrics::Gauges;
use ringfall_engine::shard::{IoInterval, Shard, executor, open_shard};
use ringfall_workloads::contract::Outcome;

use super::Driver;
use super::real::{
    Inbound, MeshLinks, Notice, ShardCommand, ShardOutcome, ShardPlan, ShardStatus, TunerOrder,
};
use super::turns::either;

/// Entries written at once while populating: enough to keep any queue full.
const POPULATE_AT_ONCE: usize = 64;

/// Runs one shard from opening to exit. Returns when told to, or when the run is gone. `mesh`: the
/// inboxes of all shards, its own too.
pub async fn shard_main(
    plan: ShardPlan,
    mesh: Arc<Vec<Sender<Inbound>>>,
    inbox: Receiver<Inbound>,
    notices: Sender<Notice>,
) {
    let id = plan.spec.id;
    let rows = plan.rows.clone();
    let (driver, facts) = match open(plan, mesh) {
        Ok(opened) => opened,
        Err(error) => {
            // Nobody to tell when the run is gone.
            let _sent = notices.send(Notice::Ready(id, Err(error)));
            return;
        }
    };
    let _sent = notices.send(Notice::Ready(id, Ok(facts)));
    executor::spawn_local(Rc::clone(&driver).run_clock());
    if let Some(rows) = rows {
        executor::spawn_local(Rc::clone(&driver).run_feed(rows));
    }
    executor::spawn_local(Rc::clone(&driver).tick(id, notices.clone()));
    while let Ok(inbound) = executor::hear(inbox.recv_async()).await {
        match inbound {
            Inbound::Message(message) => {
                if driver.shard().deliver(message) {
                    driver.slot_granted();
                }
            }
            Inbound::Command(ShardCommand::Populate) => {
                let (driver, notices) = (Rc::clone(&driver), notices.clone());
                executor::spawn_local(async move {
                    let failed = driver.populate_all().await;
                    let _sent = notices.send(Notice::Populated(id, failed));
                });
            }
            Inbound::Command(ShardCommand::Start { origin, window }) => {
                driver.shard().measure().open(window.0, window.1);
                driver.start(origin, window);
            }
            Inbound::Command(ShardCommand::Stop { window_end }) => {
                driver.shard().measure().close(window_end);
                driver.stop(window_end);
                driver.shard().stop();
                let (driver, notices) = (Rc::clone(&driver), notices.clone());
                executor::spawn_local(async move {
                    driver.drain().await;
                    let report = Box::new(driver.report());
                    let _sent = notices.send(Notice::Drained(id, report));
                });
            }
            Inbound::Command(ShardCommand::Report) => {
                let _sent = notices.send(Notice::Drained(id, Box::new(driver.report())));
            }
            Inbound::Command(ShardCommand::Keep(number)) => {
                let _sent = notices.send(Notice::Kept(id, number, Box::new(driver.report())));
            }
            Inbound::Command(ShardCommand::SetUsers(users)) => driver.set_users(users),
            Inbound::Command(ShardCommand::Tune(order)) => {
                if let Some(interval) = driver.tune(order) {
                    let _sent = notices.send(Notice::Interval(id, Box::new(interval)));
                }
            }
            Inbound::Command(ShardCommand::Exit) => break,
        }
    }
    driver.shard().close();
}

fn open(
    plan: ShardPlan,
    mesh: Arc<Vec<Sender<Inbound>>>,
) -> Result<(Rc<Driver>, ShardFacts), SetupError> {
    let (shard, facts) = open_shard(plan.spec, Box::new(MeshLinks(mesh)))?;
    let spawn = Box::new(executor::spawn_local);
    let permits = plan.max_concurrent_allocs;
    let driver = Driver::new(shard, plan.workload, Clock::Os, spawn, permits, plan.autoscaled);
    Ok((driver, facts))
}

impl Driver {
    /// Runs the workload's clock until [`Driver::stop`].
    async fn run_clock(self: Rc<Self>) {
        while !self.is_stopped() {
            let poked = self.poke.notified();
            self.work_off_due();
            match self.next_deadline() {
                Some(deadline) => either(executor::sleep_until(deadline), poked).await,
                None => poked.await,
            }
        }
    }

    /// Reports once a second until the run is gone.
    async fn tick(self: Rc<Self>, id: ShardId, notices: Sender<Notice>) {
        let mut told_exhausted = false;
        loop {
            let spent = self.spent.notified();
            // It may have rung when nobody listened yet.
            if told_exhausted || !self.is_exhausted() {
                either(executor::sleep_until(self.next_tick()), spent).await;
            }
            told_exhausted |= self.is_exhausted();
            let now = self.clock.now();
            let shard = self.shard();
            let seconds = shard.measure().take_seconds(now, self.gauges());
            let (status, news) = (Box::new(self.status()), Box::new(self.take_news()));
            let tick = Notice::Tick(id, status, seconds, news);
            if notices.send(tick).is_err() {
                return;
            }
        }
    }

    /// I/Os in flight and bytes held at this moment.
    pub fn gauges(&self) -> Gauges {
        let shard = self.shard();
        let held_bytes = Tier::ALL.map(|tier| shard.counts(tier).bytes);
        Gauges { in_flight: shard.in_flight(), held_bytes }
    }

    /// Requests waiting to be served.
    fn queued(&self) -> u64 {
        let mut workload = self.workload.borrow_mut();
        workload.count_arrivals(self.workload_now());
        workload.queue_len()
    }

    /// This shard at a glance.
    pub fn status(&self) -> ShardStatus {
        let (populated, population) = self.populated.get();
        ShardStatus {
            queued: self.queued(),
            serving: self.serving(),
            in_flight: self.shard().in_flight(),
            oldest_io: self.shard().oldest_in_flight(),
            operations: self.operations(),
            exhausted: self.is_exhausted(),
            requests: self.request_counts(),
            errors: self.shard().error_count(),
            ended: self.shard().measure().ended_ever(),
            populated,
            population,
            held: Tier::ALL.map(|tier| self.shard().counts(tier)),
        }
    }

    /// Carries out an order of the search for a queue depth; the I/Os of the interval that it ends.
    pub fn tune(&self, order: TunerOrder) -> Option<IoInterval> {
        if let TunerOrder::Depth(depth) = order {
            self.shard().set_queue_depth(depth);
        }
        let (now, begins) = (self.clock.now(), order == TunerOrder::Begin);
        let interval = self.shard().measure().take_interval(now, begins);
        (order == TunerOrder::End).then(|| interval.unwrap_or_default())
    }

    /// Writes the population, many entries at once; how many failed.
    pub async fn populate_all(self: &Rc<Self>) -> u64 {
        let items: Vec<_> = self.with_workload(|workload| workload.population().collect());
        self.populated.set((0, items.len() as u64));
        let items = Rc::new(std::cell::RefCell::new(items.into_iter()));
        let failed = Rc::new(std::cell::Cell::new(0u64));
        let running = Rc::new(std::cell::Cell::new(POPULATE_AT_ONCE));
        let all_done = Rc::new(ringfall_engine::shard::Notify::default());
        for _ in 0..POPULATE_AT_ONCE {
            let (driver, items, failed) = (Rc::clone(self), Rc::clone(&items), Rc::clone(&failed));
            let (running, all_done) = (Rc::clone(&running), Rc::clone(&all_done));
            (self.spawn)(Box::pin(async move {
                loop {
                    let next = items.borrow_mut().next();
                    let Some(item) = next.filter(|_| !driver.is_stopped()) else { break };
                    let outcome = driver.populate(item.key, item.scope, item.bytes).await;
                    // Those that a stop cut off were not tried to the end.
                    if outcome != Outcome::Written && !driver.is_stopped() {
                        failed.set(failed.get() + 1);
                    }
                    let (done, of) = driver.populated.get();
                    driver.populated.set((done + 1, of));
                }
                running.set(running.get() - 1);
                all_done.notify_all();
            }));
        }
        loop {
            let done = all_done.notified();
            if running.get() == 0 {
                return failed.get();
            }
            done.await;
        }
    }

    /// Waits until nothing of this driver and its shard is in flight.
    async fn drain(&self) {
        loop {
            let idle = self.idle.notified();
            let shard: &Shard = self.shard();
            if self.operations() == 0 && shard.in_flight() == 0 && shard.moves() == 0 {
                return;
            }
            // Moves and I/O ring no bell of the driver's: look again soon.
            let soon = self.clock.now() + SECOND / 100;
            either(idle, executor::sleep_until(soon)).await;
        }
    }

    /// All that it measured.
    pub fn report(&self) -> ShardOutcome {
        let shard = self.shard();
        let measure = shard.measure();
        // A drive may have been lost since the shard last had anything to do.
        shard.heed_losses();
        ShardOutcome {
            metrics: measure.snapshot(),
            totals: self.totals(),
            workload: self.with_workload(|workload| workload.stats()),
            seconds: measure.take_all_seconds(self.clock.now(), self.gauges()),
            errors: measure.errors_ever(),
            tiers: Tier::ALL.map(|tier| shard.counts(tier)),
            space: shard.space(),
        }
    }
}
