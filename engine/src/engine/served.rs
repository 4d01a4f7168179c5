//! The life of a shard on a thread of its own: what it is asked, and by whom.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use flume::{Receiver, Sender};

use crate::buffer::Urgency;
use crate::clock::{MILLISECOND, Nanos, monotonic_now};
use crate::error::{IoError, SetupError};
use crate::key::{EntryKey, ShardId, TIER_COUNT, Tier};
use crate::metrics::Metrics;
use crate::placement::{SpaceFigures, TierCounts};
use crate::shard::executor::{hear, sleep_until, spawn_local};
use crate::shard::{
    Gauges, Links, Message, ReadOutcome, Shard, ShardFacts, ShardSpec, WriteMode, WriteOutcome,
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
    /// End the thread.
    End,
}

/// Request from outside.
pub(super) enum Request {
    Write {
        key: EntryKey,
        bytes: u64,
        mode: WriteMode,
        urgency: Urgency,
        answer: Sender<WriteOutcome>,
    },
    Read {
        key: EntryKey,
        urgency: Urgency,
        answer: Sender<ReadOutcome>,
    },
    Remove {
        key: EntryKey,
        answer: Sender<bool>,
    },
    Flush {
        answer: Sender<Result<(), IoError>>,
    },
    Statistics {
        answer: Sender<ShardStatistics>,
    },
    QueueDepth {
        depth: u32,
        answer: Sender<()>,
    },
    /// Take nothing more from outside; answer when what was taken has ended.
    Drain {
        answer: Sender<()>,
    },
}

/// One shard's part of [`super::Statistics`].
pub(super) struct ShardStatistics {
    pub(super) metrics: Box<Metrics>,
    pub(super) tiers: [TierCounts; TIER_COUNT],
    pub(super) space: SpaceFigures,
    pub(super) in_flight: u32,
    pub(super) errors: Vec<IoError>,
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
    let served = Rc::new(Served {
        shard,
        allocations_are_bounded,
        running: Cell::new(0),
        is_draining: Cell::new(false),
    });
    while let Ok(inbound) = hear(inbox.recv_async()).await {
        match inbound {
            Inbound::Message(message) => {
                // Nobody serves requests here, so no permit for one ever comes.
                let is_request_permit = served.shard.deliver(message);
                assert!(!is_request_permit, "a permit came that nobody asked for");
            }
            // Dropped unanswered, it tells the asker that the engine has stopped.
            Inbound::Ask(_refused) if served.is_draining.get() => {}
            Inbound::Ask(request) => {
                served.is_draining.set(matches!(request, Request::Drain { .. }));
                spawn_local(Rc::clone(&served).serve(request));
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

struct Served {
    shard: Rc<Shard>,
    allocations_are_bounded: bool,
    /// Requests of the outside under way.
    running: Cell<u64>,
    is_draining: Cell<bool>,
}

impl Served {
    async fn serve(self: Rc<Self>, request: Request) {
        if let Request::Drain { answer } = request {
            self.drained().await;
            // Who does not wait any more does not want to know; so with every answer.
            let _heard = answer.send(());
            return;
        }
        self.running.set(self.running.get() + 1);
        let (shard, home) = (&self.shard, self.shard.id());
        match request {
            Request::Write { key, bytes, mode, urgency, answer } => {
                let _permit = match self.allocations_are_bounded {
                    true => Some(shard.allocation_permit(urgency).await),
                    false => None,
                };
                let _heard = answer.send(shard.write(home, key, bytes, urgency, mode).await);
            }
            Request::Read { key, urgency, answer } => {
                let _heard = answer.send(shard.read(home, key, urgency).await);
            }
            Request::Remove { key, answer } => {
                let _heard = answer.send(shard.remove(key));
            }
            Request::Flush { answer } => {
                let _heard = answer.send(shard.flush().await);
            }
            Request::Statistics { answer } => {
                let _heard = answer.send(self.statistics());
            }
            Request::QueueDepth { depth, answer } => {
                shard.set_queue_depth(depth);
                let _heard = answer.send(());
            }
            Request::Drain { .. } => unreachable!("answered above"),
        }
        self.running.set(self.running.get() - 1);
        // Seconds are for reports of runs: kept here, they would grow for as long as it lives.
        drop(shard.measure().take_seconds(monotonic_now(), Gauges::default()));
    }

    async fn drained(&self) {
        let shard = &self.shard;
        while self.running.get() > 0 || shard.moves() > 0 || shard.in_flight() > 0 {
            sleep_until(monotonic_now() + LOOK).await;
        }
    }

    fn statistics(&self) -> ShardStatistics {
        let shard = &self.shard;
        ShardStatistics {
            metrics: shard.measure().snapshot(),
            tiers: Tier::ALL.map(|tier| shard.counts(tier)),
            space: shard.space(),
            in_flight: shard.in_flight(),
            errors: shard.measure().errors_ever(),
        }
    }
}
