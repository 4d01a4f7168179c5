//! An engine whose shards have threads of their own: started, asked, stopped.

use std::rc::Rc;
use std::sync::Arc;

use flume::{Receiver, RecvTimeoutError, Sender};

use super::builder::EngineBuilder;
use super::entries::{Entries, Pending};
use super::error::{EngineError, SettingsError};
use super::place::Opened;
use super::served::{Inbound, Served, Statistics, serve_shard};
use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;
use crate::key::ShardId;
use crate::placement::SharedBudgets;
use crate::shard::ShardFacts;
use crate::shard::executor::Executor;

/// Longest wait for a shard to open. It touches its part of the CPU tier: minutes for a terabyte.
const OPEN_PATIENCE: Nanos = Nanos::from_secs(3600);
/// Longest wait for operations under way when the engine stops, all together: the kernel gives an
/// NVMe command 30 s, and tries again after a reset.
const DRAIN_PATIENCE: Nanos = Nanos::from_secs(120);
/// Longest wait for the threads to end, all together: a ring that ends waits up to 30 s for a
/// device that is silent.
const JOIN_PATIENCE: Nanos = Nanos::from_secs(40);

/// A running storage engine: entries by key, in host memory and on storage, on a thread and an
/// io_uring for each shard.
///
/// An entry has a key and a size. Its content is made from the seed, the key and a version, and is
/// checked when it is read: the engine stores what a benchmark needs and not what a caller has.
/// Dropped, it stops as by [`Engine::stop`], and what it could not delete is logged.
///
/// ```
/// use ringfall_engine::engine::Engine;
/// use ringfall_engine::key::EntryKey;
/// use ringfall_engine::shard::{ReadOutcome, WriteOutcome};
/// use ringfall_engine::tier::Tier;
///
/// # let directory = std::env::temp_dir().join(format!("ringfall-doc-{}", std::process::id()));
/// let engine = Engine::builder().directory(directory).storage_bytes(8 << 20).start()?;
/// let entries = engine.entries();
/// let written = entries.write(EntryKey(7), 300_000)?;
/// assert!(matches!(written, WriteOutcome::Written { tier: Tier::Storage, .. }));
/// assert!(matches!(entries.read(EntryKey(7))?, ReadOutcome::Hit { bytes: 300_000, .. }));
/// assert!(entries.remove(EntryKey(7))?);
/// assert_eq!(entries.read(EntryKey(7))?, ReadOutcome::Miss);
/// engine.stop()?;
/// # Ok::<(), ringfall_engine::engine::EngineError>(())
/// ```
pub struct Engine {
    entries: Entries,
    facts: Vec<ShardFacts>,
    executors: Vec<Executor<()>>,
    budgets: Arc<SharedBudgets>,
    /// The drives; taken when it has stopped.
    opened: Option<Vec<Opened>>,
}

impl Engine {
    /// The settings of an engine, to be started with [`EngineBuilder::start`].
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    pub(super) fn start(builder: EngineBuilder) -> Result<Engine, EngineError> {
        builder.check()?;
        let mut opened = Vec::new();
        for drive in &builder.drives {
            let place = drive.place.as_ref().ok_or(SettingsError::Place)?;
            opened.push(place.open(builder.preallocate)?);
        }
        if opened.is_empty() {
            return Err(SettingsError::Place.into());
        }
        let files: Vec<_> = opened.iter().map(|drive| Arc::clone(&drive.file)).collect();
        // Before the first of them is written, which can take minutes.
        builder.open_namespaces(&files)?;
        for (drive, bytes) in opened.iter().zip(builder.drive_sizes()) {
            drive.prepare(bytes)?;
        }
        let specs = builder.specs(&files)?;
        let budgets = Arc::clone(&specs[0].blueprint.shared.budgets);
        let (senders, inboxes): (Vec<Sender<Inbound>>, Vec<Receiver<Inbound>>) =
            specs.iter().map(|_| flume::unbounded()).unzip();
        let mesh = Arc::new(senders);
        let is_bounded = builder.allocations_max.is_some();
        let mut engine = Engine {
            entries: Entries::new(Arc::clone(&mesh)),
            facts: Vec::new(),
            executors: Vec::new(),
            budgets,
            opened: Some(opened),
        };
        let mut opening = Vec::new();
        for (index, (spec, inbox)) in specs.into_iter().zip(inboxes).enumerate() {
            let (ready, is_ready) = flume::bounded(1);
            let cpu = builder.cpus.as_ref().map(|cpus| cpus[index % cpus.len()]);
            let (name, mesh) = (format!("ringfall-{index}"), Arc::clone(&mesh));
            let main = move || serve_shard(spec, is_bounded, mesh, inbox, ready);
            engine.executors.push(Executor::spawn(&name, cpu, Arc::default(), main)?);
            opening.push(is_ready);
        }
        for (index, is_ready) in opening.iter().enumerate() {
            engine.facts.push(await_open(index, is_ready)?);
        }
        Ok(engine)
    }

    /// Access to its entries. Cheap to clone, and for any thread.
    pub fn entries(&self) -> Entries {
        self.entries.clone()
    }

    /// Facts about each shard when it opened: ring features, buffers, and what was less than asked
    /// for.
    pub fn facts(&self) -> &[ShardFacts] {
        &self.facts
    }

    /// Counters since the engine started, and the present content of its tiers.
    ///
    /// # Errors
    /// A shard that has ended.
    pub fn statistics(&self) -> Result<Statistics, EngineError> {
        let answers = self.entries.ask_all(|served| async move { served.statistics() })?;
        let shortages = self.budgets.shortages();
        let mut statistics = Statistics { shortages, ..Statistics::default() };
        for answer in answers {
            statistics.add(answer.wait()?);
        }
        Ok(statistics)
    }

    /// Has each shard keep at most `depth` I/Os in flight on each drive from now on: at least 1 and
    /// no more than [`EngineBuilder::queue_depth`], for which its rings and buffers were made.
    ///
    /// # Errors
    /// A shard that has ended.
    pub fn set_queue_depth(&self, depth: u32) -> Result<(), EngineError> {
        let set = move |served: Rc<Served>| async move { served.shard.set_queue_depth(depth) };
        let answers = self.entries.ask_all(set)?;
        answers.into_iter().try_for_each(Pending::wait)
    }

    /// Ends it: operations under way end first, later ones are refused with
    /// [`EngineError::Stopped`]. Then the threads end, and the files it made are deleted.
    ///
    /// # Errors
    /// A shard that panicked or whose thread does not end, or a file that could not be deleted.
    pub fn stop(mut self) -> Result<(), EngineError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), EngineError> {
        let Some(opened) = self.opened.take() else { return Ok(()) };
        // A shard that has panicked or whose device is silent does not answer; joining it says why.
        if let Ok(drained) = self.entries.drain_all() {
            let deadline = monotonic_now() + DRAIN_PATIENCE;
            for answer in drained {
                let _drained_or_not = answer.wait_until(deadline);
            }
        }
        self.entries.end_all();
        let mut first_failure = Ok(());
        let deadline = monotonic_now() + JOIN_PATIENCE;
        for (index, executor) in self.executors.drain(..).enumerate() {
            if let Err(error) = executor.join_until(deadline)
                && first_failure.is_ok()
            {
                let (shard, reason) = (ShardId(index as u16), error.to_string());
                first_failure = Err(EngineError::Ended { shard, reason });
            }
        }
        let removed: Vec<_> = opened.into_iter().map(Opened::remove).collect();
        first_failure?;
        Ok(removed.into_iter().collect::<Result<(), _>>()?)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::warn!(%error, "the engine did not stop as it should");
        }
    }
}

fn await_open(
    index: usize,
    is_ready: &Receiver<Result<ShardFacts, SetupError>>,
) -> Result<ShardFacts, EngineError> {
    match is_ready.recv_timeout(OPEN_PATIENCE.as_duration()) {
        Ok(facts) => Ok(facts?),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let reason = "it never opened".to_owned();
            Err(EngineError::Ended { shard: ShardId(index as u16), reason })
        }
    }
}
