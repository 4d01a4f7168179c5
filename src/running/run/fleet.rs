//! The shards' threads: started, told, watched, joined.

use std::sync::Arc;
use std::time::Duration;

use flume::{Receiver, Sender};
use ringfall_core::clock::{Nanos, SECOND, monotonic_now};
use ringfall_core::error::SetupError;
use ringfall_core::facts::ShardFacts;
use ringfall_engine::load::LoadError;
use ringfall_engine::shard::EngineShared;
use ringfall_engine::shard::executor::{Executor, JoinError, Vitals};
use ringfall_host::interrupt::Interrupt;

use super::phases::Phase;
use super::watchdog::{Hold, Watchdog};
use crate::driver::{Inbound, Notice, ShardCommand, ShardPlan, shard_main};
use crate::store::StoreError;

/// Interval at which the shards are checked while they open.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the threads to end, all together: a ring that ends waits up to 30 s for a
/// device that is silent.
pub(super) const JOIN_PATIENCE: Nanos = Nanos::from_secs(40);

/// Why a run can't go on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A shard could not be opened.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Work on the device before the run failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A shard ended before it was told to.
    #[error("shard {shard} ended early: {reason}")]
    Ended {
        /// Which.
        shard: u16,
        /// Cause, as far as it is known.
        reason: String,
    },
    /// A shard does not answer.
    #[error("shard {shard} has shown no sign of life for {silent_s} s: {hold}")]
    Stuck {
        /// Which.
        shard: u16,
        /// Since when, seconds.
        silent_s: u64,
        /// State of its thread.
        hold: Hold,
    },
    /// Somebody asked the run to end before it had begun.
    #[error("interrupted before the run began")]
    Interrupted,
}

/// The threads of the shards, from when all are open until they are joined.
pub struct Fleet {
    executors: Vec<Executor<()>>,
    inboxes: Arc<Vec<Sender<Inbound>>>,
    notices: Receiver<Notice>,
    /// Looks for signs of life of every shard.
    pub watchdog: Watchdog,
    /// State that the shards share.
    pub shared: Arc<EngineShared>,
    /// Shards from which nothing is to be expected any more.
    lost: Vec<bool>,
}

impl Fleet {
    /// Starts a thread for each plan, of which there is at least one, and waits until all are open.
    ///
    /// # Errors
    /// The first shard's that could not be opened, or that gets nowhere; an interruption.
    pub fn start(
        plans: Vec<ShardPlan>,
        interrupt: &Interrupt,
    ) -> Result<(Fleet, Vec<ShardFacts>), FleetError> {
        let count = plans.len();
        let shared = Arc::clone(&plans[0].spec.blueprint.shared);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| flume::unbounded::<Inbound>()).unzip();
        let inboxes = Arc::new(senders);
        let (notice_sender, notices) = flume::unbounded();
        let vitals: Vec<Arc<Vitals>> = (0..count).map(|_| Arc::default()).collect();
        let mut executors = Vec::with_capacity(count);
        for ((index, plan), inbox) in plans.into_iter().enumerate().zip(receivers) {
            let (mesh, notices) = (Arc::clone(&inboxes), notice_sender.clone());
            let name = format!("ringfall-{index}");
            executors.push(Executor::spawn(
                &name,
                plan.cpu,
                Arc::clone(&vitals[index]),
                move || shard_main(plan, mesh, inbox, notices),
            )?);
        }
        drop(notice_sender);
        let watchdog = Watchdog::new(vitals);
        let lost = vec![false; count];
        let mut fleet = Fleet { executors, inboxes, notices, watchdog, shared, lost };
        match fleet.await_open(count, interrupt) {
            // The thread itself may know why it ended.
            Err(ended @ FleetError::Ended { .. }) => {
                Err(fleet.join(JOIN_PATIENCE).err().unwrap_or(ended))
            }
            facts => Ok((fleet, facts?)),
        }
    }

    fn await_open(
        &mut self,
        count: usize,
        interrupt: &Interrupt,
    ) -> Result<Vec<ShardFacts>, FleetError> {
        let mut facts: Vec<Option<ShardFacts>> = vec![None; count];
        while facts.iter().any(Option::is_none) {
            match self.notices.recv_timeout(LOOK) {
                Ok(Notice::Ready(id, Ok(shard_facts))) => facts[id.index()] = Some(shard_facts),
                Ok(Notice::Ready(_, Err(error))) => return Err(error.into()),
                Ok(_) => continue,
                Err(_) => {}
            }
            if interrupt.is_set() {
                return Err(FleetError::Interrupted);
            }
            if let Some(error) = self.watch(Phase::Assemble) {
                // One that has ended may have said why just before.
                let mut said = self.notices.try_iter().filter_map(|notice| match notice {
                    Notice::Ready(_, Err(why)) => Some(why),
                    _ => None,
                });
                return Err(said.next().map_or(error, Into::into));
            }
        }
        Ok(facts.into_iter().flatten().collect())
    }

    /// Sends a command to every shard; one whose thread has ended does not hear it.
    pub fn tell(&self, command: ShardCommand) {
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

    /// Looks for a sign of life of every shard. The first that was lost since the last look, if any
    /// was: it is stuck for good, or has ended. `phase`: what the run is doing, for the log.
    #[must_use]
    pub fn watch(&mut self, phase: Phase) -> Option<FleetError> {
        let now = monotonic_now();
        (0..self.lost.len()).find_map(|index| {
            let error = (!self.lost[index]).then(|| self.watch_one(index, now, phase)).flatten();
            self.lost[index] |= error.is_some();
            error
        })
    }

    fn watch_one(&mut self, index: usize, now: Nanos, phase: Phase) -> Option<FleetError> {
        let shard = index as u16;
        if self.inboxes[index].is_disconnected() {
            let reason = "its thread is gone; an earlier message says why".to_owned();
            return Some(FleetError::Ended { shard, reason });
        }
        let verdict = self.watchdog.look(index, now)?;
        let (hold, silent_s) = (verdict.hold, verdict.silence / SECOND);
        if !verdict.is_stuck {
            // Shards that are being opened set up memory, which takes as long as it takes.
            if phase > Phase::Assemble {
                tracing::warn!(
                    "shard {shard} has shown no sign of life for {silent_s} s while {phase}: {hold}"
                );
            }
            return None;
        }
        Some(match hold {
            Hold::Gone => FleetError::Ended { shard, reason: hold.to_string() },
            _ => FleetError::Stuck { shard, silent_s, hold },
        })
    }

    /// Whether nothing is to be expected of that shard any more.
    pub fn is_lost(&self, index: usize) -> bool {
        self.lost[index]
    }

    /// Ends a shard's thread, as if it had ended by itself.
    #[cfg(test)]
    pub fn end_one(&self, index: usize) {
        let _sent = self.inboxes[index].send(Inbound::Command(ShardCommand::Exit));
    }

    /// Whether a shard from which something is to be expected shows no sign of life.
    pub fn is_unheard(&self) -> bool {
        (0..self.lost.len()).any(|index| !self.lost[index] && self.watchdog.is_stalled(index))
    }

    /// Ends the threads and waits for all of them together, for so long at the most. A thread that
    /// was lost is not waited for.
    ///
    /// # Errors
    /// A shard that panicked, or whose thread does not end.
    pub fn join(self, patience: Nanos) -> Result<(), FleetError> {
        self.tell(ShardCommand::Exit);
        let deadline = monotonic_now() + patience;
        let mut first_failure = Ok(());
        for (index, executor) in self.executors.into_iter().enumerate() {
            let bound = if self.lost[index] { monotonic_now() } else { deadline };
            let shard = index as u16;
            let failure = match executor.join_until(bound) {
                Ok(()) => continue,
                // It was told when it was lost.
                Err(JoinError::StillRuns) if self.lost[index] => continue,
                Err(error) => FleetError::Ended { shard, reason: error.to_string() },
            };
            first_failure = first_failure.and(Err(failure));
        }
        first_failure
    }
}
