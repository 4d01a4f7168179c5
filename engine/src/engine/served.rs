//! The life of a shard on a thread of its own: what it is asked, and by whom.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use flume::{Receiver, Sender};

use crate::clock::{MILLISECOND, Nanos, monotonic_now};
use crate::error::{IoError, SetupError};
use crate::key::{EntryKey, ShardId, TIER_COUNT, Tier};
use crate::metrics::Metrics;
use crate::placement::{Shortage, SpaceFigures, TierCounts};
use crate::shard::executor::{hear, sleep_until, spawn_local};
use crate::shard::{
    Gauges, Links, LocalTask, Message, Shard, ShardFacts, ShardSpec, WriteMode, WriteOutcome,
    open_shard,
};

/// Between two looks at whether everything has ended: nothing rings a bell for the last of it.
const LOOK: Nanos = MILLISECOND;

/// Entry of a shard's inbox. Each asker waits for its answer, and other shards send at most one
/// message for each operation they have in flight: that bounds the inbox.
pub(super) enum Inbound {
    /// From another shard.
    Message(Message),
    /// From outside.
    Ask(Request),
    /// Take nothing more from outside; answer when what was taken has ended.
    Drain(Sender<()>),
    /// End the thread.
    End,
}

/// Request from outside, which sends its answer itself.
pub(super) type Request = Box<dyn FnOnce(Rc<Served>) -> LocalTask + Send>;

/// Counters of an engine, or of one of its shards, since it started, and the content of its tiers.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Counters and latencies of all shards.
    pub metrics: Box<Metrics>,
    /// Content of each tier, by [`crate::key::Tier::index`].
    pub tiers: [TierCounts; TIER_COUNT],
    /// The storage space of each shard.
    pub space: Vec<SpaceFigures>,
    /// Number of I/Os submitted and not yet completed, all shards together.
    pub in_flight: u32,
    /// Failures, the first hundred of each shard.
    pub errors: Vec<IoError>,
    /// Tiers that got less space than they were to have.
    pub shortages: Vec<Shortage>,
}

impl Statistics {
    pub(super) fn add(&mut self, shard: Statistics) {
        self.metrics.merge(&shard.metrics);
        for (sum, one) in self.tiers.iter_mut().zip(shard.tiers) {
            sum.add(one);
        }
        self.space.extend(shard.space);
        self.in_flight += shard.in_flight;
        self.errors.extend(shard.errors);
    }
}

struct Mesh(Arc<Vec<Sender<Inbound>>>);

impl Links for Mesh {
    fn send(&self, to: ShardId, message: Message) -> bool {
        self.0[to.index()].send(Inbound::Message(message)).is_ok()
    }
}

/// Opens a shard on this executor and serves it until it is told to end.
pub(super) async fn serve_shard(
    spec: ShardSpec,
    allocations_are_bounded: bool,
    mesh: Arc<Vec<Sender<Inbound>>>,
    inbox: Receiver<Inbound>,
    ready: Sender<Result<ShardFacts, SetupError>>,
) {
    let shard = match open_shard(spec, Box::new(Mesh(mesh))) {
        Ok((shard, facts)) => {
            shard.measure().open(monotonic_now(), Nanos::MAX);
            // Who does not wait any more has given up, and will say so by ending it.
            let _heard = ready.send(Ok(facts));
            shard
        }
        Err(error) => {
            let _heard = ready.send(Err(error));
            return;
        }
    };
    let served = Rc::new(Served { shard, allocations_are_bounded, running: Cell::new(0) });
    let mut is_draining = false;
    while let Ok(inbound) = hear(inbox.recv_async()).await {
        match inbound {
            Inbound::Message(message) => {
                // Nobody serves requests here, so no permit for one ever comes.
                let is_request_permit = served.shard.deliver(message);
                assert!(!is_request_permit, "a permit came that nobody asked for");
            }
            // Dropped unanswered, it tells the asker that the engine has stopped.
            Inbound::Ask(_) | Inbound::Drain(_) if is_draining => {}
            Inbound::Ask(request) => spawn_local(Rc::clone(&served).serve(request)),
            Inbound::Drain(answer) => {
                is_draining = true;
                let served = Rc::clone(&served);
                spawn_local(async move {
                    served.drained().await;
                    // Who does not wait any more does not want to know.
                    let _heard = answer.send(());
                });
            }
            Inbound::End => break,
        }
    }
    served.shard.stop();
    while served.shard.in_flight() > 0 {
        sleep_until(monotonic_now() + LOOK).await;
    }
    served.shard.close();
}

/// A shard with what the outside has asked of it.
pub(super) struct Served {
    pub(super) shard: Rc<Shard>,
    allocations_are_bounded: bool,
    /// Requests of the outside under way.
    running: Cell<u64>,
}

impl Served {
    async fn serve(self: Rc<Self>, request: Request) {
        self.running.set(self.running.get() + 1);
        request(Rc::clone(&self)).await;
        self.running.set(self.running.get() - 1);
        // Seconds are for reports of runs: kept here, they would grow for as long as it lives.
        drop(self.shard.measure().take_seconds(monotonic_now(), Gauges::default()));
    }

    /// Writes an entry of this shard, when it may allocate.
    pub(super) async fn write(&self, key: EntryKey, bytes: u64, mode: WriteMode) -> WriteOutcome {
        let shard = &self.shard;
        let _permit = match self.allocations_are_bounded {
            true => Some(shard.allocation_permit().await),
            false => None,
        };
        shard.write(shard.id(), key, bytes, mode).await
    }

    async fn drained(&self) {
        let shard = &self.shard;
        while self.running.get() > 0 || shard.moves() > 0 || shard.in_flight() > 0 {
            sleep_until(monotonic_now() + LOOK).await;
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        let shard = &self.shard;
        Statistics {
            metrics: shard.measure().snapshot(),
            tiers: Tier::ALL.map(|tier| shard.counts(tier)),
            space: vec![shard.space()],
            in_flight: shard.in_flight(),
            errors: shard.measure().errors_ever(),
            shortages: Vec::new(),
        }
    }
}
