//! Permits that belong to the whole engine, handed from shard to shard by urgency.
//!
//! Plain atomics, no lock: whoever can't have a permit publishes how urgent its best waiter is, and
//! whoever gives one back hands it to the most urgent shard. Nothing here blocks or sends: the
//! caller that gets a `ShardId` back must send that shard the message "one permit is yours".

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use crate::key::ShardId;

/// The word of a shard where nobody waits.
pub const NOBODY: u64 = u64::MAX;

/// Result of publishing a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Published {
    /// A message will bring the permit.
    Waiting,
    /// A permit was free after all and is now the caller's: give it to the best local waiter, then
    /// publish the next one.
    Acquired,
}

/// N permits for all shards. Urgency is a word, smaller is more urgent; equal words go to the
/// lowest shard.
///
/// The rules for a shard: after each change of its best local waiter it calls `publish`, also with
/// `NOBODY`. A permit that comes by message belongs to the best local waiter at that moment; with
/// no waiter left it is released again. After a permit arrived either way it publishes anew.
#[derive(Debug)]
pub struct SharedGate {
    available: AtomicI64,
    waiting: Box<[AtomicU64]>,
}

impl SharedGate {
    /// A gate of `permits` for `shards` shards.
    pub fn new(permits: u32, shards: u16) -> Self {
        Self::with_available(i64::from(permits), shards)
    }

    /// A gate nobody ever waits at.
    pub fn unbounded(shards: u16) -> Self {
        Self::with_available(i64::MAX / 2, shards)
    }

    fn with_available(available: i64, shards: u16) -> Self {
        let waiting = (0..shards).map(|_| AtomicU64::new(NOBODY)).collect();
        SharedGate { available: AtomicI64::new(available), waiting }
    }

    /// Takes a permit if one is free. A free permit means that nobody waits, so none is overtaken.
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        self.available
            .fetch_update(SeqCst, SeqCst, |available| (available > 0).then(|| available - 1))
            .is_ok()
    }

    /// Whether a permit is free at this moment.
    pub fn is_free(&self) -> bool {
        self.available.load(SeqCst) > 0
    }

    /// Permits that are free at this moment.
    pub fn available(&self) -> i64 {
        self.available.load(SeqCst)
    }

    /// Says how urgent the best local waiter of `shard` is; `NOBODY` withdraws.
    ///
    /// Stores first and looks for a free permit second, `release` adds first and looks for waiters
    /// second: one of the two must see the other, so no wakeup is lost.
    pub fn publish(&self, shard: ShardId, urgency: u64) -> Published {
        let word = &self.waiting[shard.index()];
        word.store(urgency, SeqCst);
        if urgency == NOBODY || !self.try_acquire() {
            return Published::Waiting;
        }
        // If a releaser has claimed the word meanwhile, its permit comes by message besides this
        // one: two permits, each accounted for, the second for the next waiter or given back.
        word.compare_exchange(urgency, NOBODY, SeqCst, SeqCst).ok();
        Published::Acquired
    }

    /// Gives a permit back. `Some(shard)`: it now belongs to that shard; tell it.
    #[must_use]
    pub fn release(&self) -> Option<ShardId> {
        loop {
            if let Some(shard) = self.claim_most_urgent() {
                return Some(shard);
            }
            self.available.fetch_add(1, SeqCst);
            // Someone may have published between the look and the addition, and found none free.
            if self.waiting.iter().all(|word| word.load(SeqCst) == NOBODY) || !self.try_acquire() {
                return None;
            }
        }
    }

    fn claim_most_urgent(&self) -> Option<ShardId> {
        loop {
            let loaded = self.waiting.iter().map(|word| word.load(SeqCst)).enumerate();
            let (index, urgency) = loaded.min_by_key(|&(index, urgency)| (urgency, index))?;
            if urgency == NOBODY {
                return None;
            }
            if self.waiting[index].compare_exchange(urgency, NOBODY, SeqCst, SeqCst).is_ok() {
                return Some(shard_id(index));
            }
        }
    }
}

/// The shard at `index` of a per-shard array.
pub(super) fn shard_id(index: usize) -> ShardId {
    ShardId(u16::try_from(index).expect("per-shard arrays are made from a u16 count"))
}
