//! Access to the entries of a running engine, from any thread.

use std::rc::Rc;
use std::sync::Arc;

use flume::{Receiver, RecvTimeoutError, Sender};

use super::error::EngineError;
use super::served::{Inbound, Served};
use crate::clock::{Nanos, monotonic_now};
use crate::key::{EntryKey, ShardId};
use crate::shard::{LocalTask, ReadOutcome, WriteMode, WriteOutcome};

/// Reads, writes and removes entries of an [`super::Engine`]. Clones are the same access.
#[derive(Clone)]
pub struct Entries {
    inboxes: Arc<Vec<Sender<Inbound>>>,
}

/// An answer on its way. Dropped, the operation still ends; nobody hears how.
#[must_use]
pub struct Pending<T> {
    shard: ShardId,
    answer: Receiver<T>,
}

impl<T> Pending<T> {
    /// Blocks until it is there.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] when the engine ends first.
    pub fn wait(self) -> Result<T, EngineError> {
        self.answer.recv().map_err(|_gone| EngineError::Stopped { shard: self.shard })
    }

    /// Blocks until it is there, or until `deadline` (`CLOCK_MONOTONIC`): then there is none, and
    /// it can be waited for again. A device that has died may never answer.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] when the engine ends first.
    pub fn wait_until(&self, deadline: Nanos) -> Result<Option<T>, EngineError> {
        let left = deadline.saturating_sub(monotonic_now()).as_duration();
        match self.answer.recv_timeout(left) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(EngineError::Stopped { shard: self.shard }),
        }
    }
}

impl Entries {
    pub(super) fn new(inboxes: Arc<Vec<Sender<Inbound>>>) -> Entries {
        Entries { inboxes }
    }

    /// Writes an entry of `bytes` ≥ 1, in place of one that has its key; waits until it is written.
    ///
    /// # Errors
    /// An entry of no bytes; an engine that has stopped. A failed I/O is an outcome.
    pub fn write(&self, key: EntryKey, bytes: u64) -> Result<WriteOutcome, EngineError> {
        self.begin_write(key, bytes, WriteMode::Replace)?.wait()
    }

    /// Reads an entry whole, checking its content as the engine was told to; waits until it is
    /// read.
    ///
    /// # Errors
    /// An engine that has stopped. A failed I/O and a missing entry are outcomes.
    pub fn read(&self, key: EntryKey) -> Result<ReadOutcome, EngineError> {
        self.begin_read(key)?.wait()
    }

    /// Forgets an entry; whether there was one.
    ///
    /// # Errors
    /// An engine that has stopped.
    pub fn remove(&self, key: EntryKey) -> Result<bool, EngineError> {
        let remove = move |served: Rc<Served>| async move { served.shard.remove(key) };
        self.ask(self.home(key), remove)?.wait()
    }

    /// Makes all that is on storage survive a power cut, for engines that do not flush each entry.
    /// Entries in host memory are not written by it.
    ///
    /// # Errors
    /// An engine that has stopped, or the first flush that failed.
    pub fn flush(&self) -> Result<(), EngineError> {
        for answer in self.ask_all(|served| async move { served.shard.flush().await })? {
            answer.wait()??;
        }
        Ok(())
    }

    /// Begins to write an entry of `bytes` ≥ 1: many may be begun before the first has ended.
    ///
    /// # Errors
    /// An entry of no bytes; an engine that has stopped.
    pub fn begin_write(
        &self,
        key: EntryKey,
        bytes: u64,
        mode: WriteMode,
    ) -> Result<Pending<WriteOutcome>, EngineError> {
        if bytes == 0 {
            return Err(EngineError::EmptyEntry);
        }
        self.ask(self.home(key), move |served| async move { served.write(key, bytes, mode).await })
    }

    /// Begins to read an entry.
    ///
    /// # Errors
    /// An engine that has stopped.
    pub fn begin_read(&self, key: EntryKey) -> Result<Pending<ReadOutcome>, EngineError> {
        self.ask(self.home(key), move |served| async move {
            served.shard.read(served.shard.id(), key).await
        })
    }

    fn home(&self, key: EntryKey) -> ShardId {
        key.home_shard(self.shards())
    }

    fn shards(&self) -> u16 {
        // Made from a u16 count of shards.
        self.inboxes.len() as u16
    }

    fn send<T>(
        &self,
        shard: ShardId,
        inbound: impl FnOnce(Sender<T>) -> Inbound,
    ) -> Result<Pending<T>, EngineError> {
        let (sender, answer) = flume::bounded(1);
        let sent = self.inboxes[shard.index()].send(inbound(sender));
        sent.map_err(|_| EngineError::Stopped { shard })?;
        Ok(Pending { shard, answer })
    }

    /// Has a shard do something on its own thread.
    fn ask<F>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Rc<Served>) -> F + Send + 'static,
    ) -> Result<Pending<F::Output>, EngineError>
    where
        F: Future<Output: Send> + 'static,
    {
        self.send(shard, |sender| {
            Inbound::Ask(Box::new(move |served: Rc<Served>| -> LocalTask {
                Box::pin(async move {
                    // Who does not wait any more does not want to know.
                    let _heard = sender.send(work(served).await);
                })
            }))
        })
    }

    /// Has each shard do something on its own thread.
    pub(super) fn ask_all<F>(
        &self,
        work: impl FnOnce(Rc<Served>) -> F + Clone + Send + 'static,
    ) -> Result<Vec<Pending<F::Output>>, EngineError>
    where
        F: Future<Output: Send> + 'static,
    {
        (0..self.shards()).map(|index| self.ask(ShardId(index), work.clone())).collect()
    }

    /// Has each shard take nothing more from outside, and answer when what it took has ended.
    pub(super) fn drain_all(&self) -> Result<Vec<Pending<()>>, EngineError> {
        (0..self.shards()).map(|index| self.send(ShardId(index), Inbound::Drain)).collect()
    }

    pub(super) fn end_all(&self) {
        for inbox in self.inboxes.iter() {
            // One that has ended needs no telling.
            let _sent = inbox.send(Inbound::End);
        }
    }
}
