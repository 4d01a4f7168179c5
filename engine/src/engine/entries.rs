//! Access to the entries of a running engine, from any thread.

use std::sync::Arc;

use flume::{Receiver, RecvTimeoutError, Sender};

use super::error::EngineError;
use super::served::{Inbound, Request};
use crate::buffer::Urgency;
use crate::clock::{Nanos, monotonic_now};
use crate::key::{EntryKey, ShardId};
use crate::shard::{ReadOutcome, WriteMode, WriteOutcome};

/// Urgency of operations whose caller names none: the middle class.
const URGENCY: Urgency = Urgency(1);

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
        self.begin_write(key, bytes, WriteMode::Replace, URGENCY)?.wait()
    }

    /// Reads an entry whole, checking its content as the engine was told to; waits until it is
    /// read.
    ///
    /// # Errors
    /// An engine that has stopped. A failed I/O and a missing entry are outcomes.
    pub fn read(&self, key: EntryKey) -> Result<ReadOutcome, EngineError> {
        self.begin_read(key, URGENCY)?.wait()
    }

    /// Forgets an entry; whether there was one.
    ///
    /// # Errors
    /// An engine that has stopped.
    pub fn remove(&self, key: EntryKey) -> Result<bool, EngineError> {
        self.ask(self.home(key), |answer| Request::Remove { key, answer })?.wait()
    }

    /// Makes all that is on storage survive a power cut, for engines that do not flush each entry.
    /// Entries in host memory are not written by it.
    ///
    /// # Errors
    /// An engine that has stopped, or the first flush that failed.
    pub fn flush(&self) -> Result<(), EngineError> {
        for answer in self.ask_all(|answer| Request::Flush { answer })? {
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
        urgency: Urgency,
    ) -> Result<Pending<WriteOutcome>, EngineError> {
        if bytes == 0 {
            return Err(EngineError::EmptyEntry);
        }
        let request = |answer| Request::Write { key, bytes, mode, urgency, answer };
        self.ask(self.home(key), request)
    }

    /// Begins to read an entry.
    ///
    /// # Errors
    /// An engine that has stopped.
    pub fn begin_read(
        &self,
        key: EntryKey,
        urgency: Urgency,
    ) -> Result<Pending<ReadOutcome>, EngineError> {
        self.ask(self.home(key), |answer| Request::Read { key, urgency, answer })
    }

    fn home(&self, key: EntryKey) -> ShardId {
        key.home_shard(self.shards())
    }

    fn shards(&self) -> u16 {
        // Made from a u16 count of shards.
        self.inboxes.len() as u16
    }

    fn ask<T>(
        &self,
        shard: ShardId,
        request: impl FnOnce(Sender<T>) -> Request,
    ) -> Result<Pending<T>, EngineError> {
        let (sender, answer) = flume::bounded(1);
        let inbound = Inbound::Ask(request(sender));
        let sent = self.inboxes[shard.index()].send(inbound);
        sent.map_err(|_| EngineError::Stopped { shard })?;
        Ok(Pending { shard, answer })
    }

    pub(super) fn ask_all<T>(
        &self,
        request: impl Fn(Sender<T>) -> Request,
    ) -> Result<Vec<Pending<T>>, EngineError> {
        (0..self.shards()).map(|index| self.ask(ShardId(index), &request)).collect()
    }

    pub(super) fn end_all(&self) {
        for inbox in self.inboxes.iter() {
            // One that has ended needs no telling.
            let _sent = inbox.send(Inbound::End);
        }
    }
}
