//! The shards' threads: started, told, watched, joined.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flume::{Receiver, Sender};
use ringfall_engine::clock::{Nanos, SECOND, monotonic_now};
use ringfall_engine::error::SetupError;
use ringfall_engine::key::ShardId;
use ringfall_engine::load::LoadError;
use ringfall_engine::shard::executor::{Executor, Vitals};
use ringfall_engine::shard::{ShardFacts, ShardSpec};
use ringfall_workloads::Workload;
use ringfall_workloads::source::SourceRequest;

use super::watchdog::{Verdict, Watchdog, WatchdogFigures};
use crate::driver::{Command, Inbound, Notice, ShardPlan, shard_main};

/// Opening touches the shard's part of the CPU tier: minutes for a terabyte.
const OPEN_PATIENCE: Duration = Duration::from_secs(3600);

/// Why a run can't go on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A shard could not be opened.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// What was done with the device before the run failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A shard ended before it was told to.
    #[error("shard {shard} ended early: {reason}")]
    Ended {
        /// Which.
        shard: u16,
        /// What is known.
        reason: String,
    },
    /// A shard does not answer.
    #[error(
        "shard {shard} has shown no sign of life for {age_s} s (its thread: {thread}): look at dmesg \
         for a stuck device"
    )]
    Stuck {
        /// Which.
        shard: u16,
        /// Since when, seconds.
        age_s: u64,
        /// What the kernel says of its thread.
        thread: String,
    },
}

/// Seed of a shard: what is needed besides its place in the fleet.
pub struct ShardSeed {
    /// Engine half.
    pub spec: ShardSpec,
    /// Users.
    pub workload: Workload,
    /// Whether allocation permits bound anything.
    pub max_concurrent_allocs: bool,
    /// Rows of a trace, if requests come from one.
    pub rows: Option<Receiver<SourceRequest>>,
    /// Whether an autoscaler listens.
    pub autoscaled: bool,
    /// Core to sit on, if pinned.
    pub cpu: Option<usize>,
}

/// Running shards.
pub struct Fleet {
    executors: Vec<Executor<()>>,
    inboxes: Arc<Vec<Sender<Inbound>>>,
    notices: Receiver<Notice>,
    watchdog: Watchdog,
}

impl Fleet {
    /// Starts a thread for each seed and waits until all are open.
    ///
    /// # Errors
    /// The first shard's that could not be opened.
    pub fn start(seeds: Vec<ShardSeed>) -> Result<(Fleet, Vec<ShardFacts>), FleetError> {
        let count = seeds.len();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| flume::unbounded::<Inbound>()).unzip();
        let inboxes = Arc::new(senders);
        let (notice_sender, notices) = flume::unbounded();
        let vitals: Vec<Arc<Vitals>> = (0..count).map(|_| Arc::default()).collect();
        let mut executors = Vec::with_capacity(count);
        for ((index, seed), inbox) in seeds.into_iter().enumerate().zip(receivers) {
            let plan = ShardPlan {
                spec: seed.spec,
                workload: seed.workload,
                max_concurrent_allocs: seed.max_concurrent_allocs,
                rows: seed.rows,
                autoscaled: seed.autoscaled,
                mesh: Arc::clone(&inboxes),
            };
            let notices = notice_sender.clone();
            let name = format!("ringfall-{index}");
            executors.push(Executor::spawn(
                &name,
                seed.cpu,
                Arc::clone(&vitals[index]),
                move || shard_main(plan, inbox, notices),
            )?);
        }
        drop(notice_sender);
        let watchdog = Watchdog::new(vitals);
        let mut fleet = Fleet { executors, inboxes, notices, watchdog };
        match fleet.await_open(count) {
            Ok(facts) => Ok((fleet, facts)),
            // The thread itself may know why it ended.
            Err(FleetError::Ended { .. }) => Err(fleet.join().err().unwrap_or_else(|| {
                FleetError::Ended { shard: 0, reason: "its thread ended while opening".to_owned() }
            })),
            Err(error) => Err(error),
        }
    }

    fn await_open(&mut self, count: usize) -> Result<Vec<ShardFacts>, FleetError> {
        let deadline = Instant::now() + OPEN_PATIENCE;
        let mut facts: Vec<Option<ShardFacts>> = vec![None; count];
        while facts.iter().any(Option::is_none) {
            match self.notices.recv_deadline(deadline) {
                Ok(Notice::Ready(id, Ok(shard_facts))) => facts[id.index()] = Some(shard_facts),
                Ok(Notice::Ready(_, Err(error))) => return Err(error.into()),
                Ok(_) => {}
                Err(_) => {
                    let shard = facts.iter().position(Option::is_none).unwrap_or(0) as u16;
                    let reason = "it never opened".to_owned();
                    return Err(FleetError::Ended { shard, reason });
                }
            }
        }
        Ok(facts.into_iter().flatten().collect())
    }

    fn len(&self) -> usize {
        self.inboxes.len()
    }

    /// Tells every shard.
    pub fn tell(&self, command: Command) {
        for inbox in self.inboxes.iter() {
            // One that has ended is found by `watch` or `join`.
            let _sent = inbox.send(Inbound::Command(command));
        }
    }

    /// The next notice, if one comes within `patience`.
    #[must_use]
    pub fn next_notice(&self, patience: Duration) -> Option<Notice> {
        self.notices.recv_timeout(patience).ok()
    }

    /// Looks at every heartbeat; wakes and reports shards that miss theirs.
    ///
    /// # Errors
    /// A shard that is stuck for good, or that ended.
    pub fn watch(&mut self) -> Result<(), FleetError> {
        let now = monotonic_now();
        for index in 0..self.len() {
            let shard = index as u16;
            match self.watchdog.look(index, now) {
                Verdict::Alive => {}
                Verdict::Stalled { age_ns } => {
                    let (age_ms, thread) = (age_ns / 1_000_000, self.thread_state(shard));
                    tracing::warn!(shard, age_ms, thread, "no heartbeat: waking it");
                    self.poke(index);
                    self.watchdog.interrupt(index);
                }
                Verdict::Late => self.poke(index),
                Verdict::StillStalled => {
                    self.poke(index);
                    self.watchdog.interrupt(index);
                }
                Verdict::Stuck { age_ns } => {
                    return Err(self.stuck(shard, age_ns));
                }
            }
            if self.inboxes[index].is_disconnected() {
                let reason = "its thread is gone; an earlier message says why".to_owned();
                return Err(FleetError::Ended { shard, reason });
            }
        }
        Ok(())
    }

    /// That shard has not come back.
    #[must_use]
    pub fn stuck(&self, shard: u16, age_ns: Nanos) -> FleetError {
        FleetError::Stuck { shard, age_s: age_ns / SECOND, thread: self.thread_state(shard) }
    }

    fn thread_state(&self, shard: u16) -> String {
        self.watchdog.thread_state(usize::from(shard))
    }

    fn poke(&self, index: usize) {
        let _sent = self.inboxes[index].send(Inbound::Command(Command::Poke));
    }

    /// Measures heartbeat gaps from now on: opening a shard blocks its thread.
    pub fn forget_gaps(&self) {
        self.watchdog.forget_gaps();
    }

    /// What the watchdog has seen.
    #[must_use]
    pub fn watchdog_figures(&self) -> WatchdogFigures {
        self.watchdog.figures()
    }

    /// Ends the threads and waits for them.
    ///
    /// # Errors
    /// A shard that panicked.
    pub fn join(self) -> Result<(), FleetError> {
        self.tell(Command::Exit);
        let mut first_failure = Ok(());
        for (index, executor) in self.executors.into_iter().enumerate() {
            if let Err(reason) = executor.join()
                && first_failure.is_ok()
            {
                first_failure = Err(FleetError::Ended { shard: ShardId(index as u16).0, reason });
            }
        }
        first_failure
    }
}
