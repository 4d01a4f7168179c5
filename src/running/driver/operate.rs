//! One operation of the engine for the workload: what it was, how it ended, who is told.

use std::rc::Rc;

use futures_util::future::join_all;
use ringfall_core::clock::Nanos;
use ringfall_core::key::{EntryKey, ShardId, Tier};
use ringfall_engine::shard::{ReadOutcome, WriteMode, WriteOutcome};
use ringfall_workloads::contract::{Key, Outcome, Purpose, Scope, StepTimes};

use super::Driver;
use crate::iotrace::{TracePhase, TraceRow, TraceWriter};

impl Driver {
    fn home(&self, key: Key, scope: Scope) -> ShardId {
        match scope {
            Scope::Own => self.shard.id(),
            Scope::Shared => EntryKey(key.0).home_shard(self.shard.shards()),
        }
    }

    /// Reads so many times; the outcome and the times taken, the waits for room being those in a
    /// faster tier. Each read counts when it ends: a step of many reads may begin in the window and
    /// end after it.
    pub(super) async fn read(
        &self,
        (key, scope): (Key, Scope),
        (purpose, has_prompt): (Purpose, bool),
        times: u32,
    ) -> (Outcome, StepTimes) {
        let home = self.home(key, scope);
        let (begun, mut room) = (self.clock.now(), Nanos::ZERO);
        let taken = |room: Nanos| StepTimes {
            io_ns: (self.clock.now() - begun).saturating_sub(room).as_ns(),
            room_ns: room.as_ns(),
            permit_ns: 0,
        };
        // Each begins when the one before has ended.
        let mut next = begun;
        for reads_done in 0..times {
            let read = self.shard.read_from(next, home, EntryKey(key.0));
            let is_look = reads_done == 0;
            let outcome = match read.await {
                ReadOutcome::Hit { bytes, tier, times } => {
                    room += times.room;
                    next = times.ended;
                    self.log(key, false, tier, purpose, bytes);
                    let hit = (Outcome::Hit, bytes);
                    self.count_read((purpose, has_prompt), hit, is_look, next);
                    continue;
                }
                ReadOutcome::Miss => {
                    let missed = (Outcome::Miss { reads_done: 0 }, 0);
                    self.count_read((purpose, has_prompt), missed, is_look, self.clock.now());
                    Outcome::Miss { reads_done }
                }
                ReadOutcome::Failed(_) => Outcome::Failed,
            };
            return (outcome, taken(room));
        }
        (Outcome::Hit, taken(room))
    }

    /// Reads the entries of a prefix that come before the first that is not there, all at once or
    /// one after the other. As inference engines do it, all are looked up before anything is read.
    pub(super) async fn read_prefix(
        &self,
        (keys, scope): (&[Key], Scope),
        (purpose, has_prompt): (Purpose, bool),
        at_once: bool,
    ) -> (Outcome, StepTimes) {
        let begun = self.clock.now();
        let mut found = 0;
        for key in keys {
            if !self.shard.holds(self.home(*key, scope), EntryKey(key.0)).await {
                break;
            }
            found += 1;
        }
        let (mut is_whole, mut is_failed) = (true, false);
        let (mut reads_done, mut room_ns) = (0, 0);
        let (sought, missing) = keys.split_at(found);
        for keys in sought.chunks(if at_once { keys.len() } else { 1 }) {
            let reads = keys.iter().map(|key| self.read((*key, scope), (purpose, has_prompt), 1));
            let reads = join_all(reads).await;
            for (outcome, _) in &reads {
                // One that was evicted since is missing, whatever was read behind it.
                is_whole &= *outcome == Outcome::Hit;
                is_failed |= *outcome == Outcome::Failed;
                reads_done += u32::from(is_whole);
            }
            room_ns += reads.iter().map(|(_, times)| times.room_ns).max().unwrap_or(0);
            if !is_whole {
                break;
            }
        }
        for _ in missing {
            let missed = (Outcome::Miss { reads_done: 0 }, 0);
            self.count_read((purpose, has_prompt), missed, true, self.clock.now());
        }
        let outcome = match (is_failed, is_whole && missing.is_empty()) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Hit,
            (false, false) => Outcome::Miss { reads_done },
        };
        let io_ns = (self.clock.now() - begun).as_ns().saturating_sub(room_ns);
        (outcome, StepTimes { io_ns, room_ns, permit_ns: 0 })
    }

    fn count_read(
        &self,
        (purpose, has_prompt): (Purpose, bool),
        (outcome, bytes): (Outcome, u64),
        is_look: bool,
        ended: Nanos,
    ) {
        self.record(self.since_start(ended), |totals, second| {
            let before = (totals.cache.hits, totals.cache.misses);
            totals.cache.record_read(purpose, 1, outcome, bytes, has_prompt);
            if is_look {
                totals.cache.record_look(purpose, outcome == Outcome::Hit);
            }
            let now = (totals.cache.hits, totals.cache.misses);
            if purpose == Purpose::History {
                self.in_interval(second, |interval| {
                    interval.turns_found += now.0 - before.0;
                    interval.turns_missed += now.1 - before.1;
                });
            }
            let second = totals.second(second);
            second.hits += now.0 - before.0;
            second.misses += now.1 - before.1;
        });
    }

    /// Writes an entry; the outcome and the times taken.
    pub(super) async fn write(
        &self,
        key: Key,
        scope: Scope,
        purpose: Purpose,
        bytes: u64,
    ) -> (Outcome, StepTimes) {
        let home = self.home(key, scope);
        let mut begun = self.clock.now();
        let bounded = self.max_concurrent_allocs
            && matches!(
                purpose,
                Purpose::Prefill | Purpose::History | Purpose::Rewrite | Purpose::Block
            );
        let mut permit_ns = 0;
        let _permit = match bounded {
            true => {
                let permit = self.shard.allocation_permit().await;
                let asked = std::mem::replace(&mut begun, self.clock.now());
                permit_ns = (begun - asked).as_ns();
                self.record(self.since_start(begun), |totals, _| {
                    totals.allocation_wait.record(permit_ns);
                });
                Some(permit)
            }
            false => None,
        };
        let mode = match purpose {
            Purpose::Prefix
            | Purpose::History
            | Purpose::Rag
            | Purpose::Block
            | Purpose::Populate => WriteMode::IfAbsent,
            _ => WriteMode::Replace,
        };
        let mut room = Nanos::ZERO;
        let named = (EntryKey(key.0), bytes);
        let is_passed_over = self.workload.borrow().passes_over(key, purpose);
        let written = match is_passed_over {
            true => None,
            false => Some(self.shard.write_from(begun, home, named, mode).await),
        };
        let outcome = match written {
            Some(WriteOutcome::Written { tier, times }) => {
                room = times.room;
                self.log(key, true, tier, purpose, bytes);
                self.count_write(purpose, bytes, times.ended);
                Outcome::Written
            }
            Some(WriteOutcome::AlreadyThere) => Outcome::Written,
            // Whoever looks for it misses it, as one that was evicted. The engine has counted it.
            Some(WriteOutcome::DroppedWithoutStorage) => Outcome::Written,
            None | Some(WriteOutcome::StorageFull) => Outcome::NotStored,
            Some(WriteOutcome::Refused { .. }) => Outcome::Refused,
            Some(WriteOutcome::Failed(_)) => Outcome::Failed,
        };
        if purpose == Purpose::Block && matches!(outcome, Outcome::Written | Outcome::NotStored) {
            self.record(self.workload_now(), |totals, second| {
                totals.cache.record_block_miss();
                totals.second(second).misses += 1;
            });
        }
        let io_ns = (self.clock.now() - begun).saturating_sub(room).as_ns();
        (outcome, StepTimes { io_ns, room_ns: room.as_ns(), permit_ns })
    }

    /// Writes entries, all at once or one after the other.
    pub(super) async fn write_all(
        &self,
        (entries, scope): (&[(Key, u64)], Scope),
        purpose: Purpose,
        at_once: bool,
    ) -> (Outcome, StepTimes) {
        let begun = self.clock.now();
        let (mut outcome, mut room_ns, mut permit_ns) = (Outcome::Written, 0, 0);
        for entries in entries.chunks(if at_once { entries.len() } else { 1 }) {
            let writes = entries.iter().map(|&(key, bytes)| self.write(key, scope, purpose, bytes));
            let writes = join_all(writes).await;
            let goes_on = |outcome| matches!(outcome, Outcome::Written | Outcome::NotStored);
            let not_written = writes.iter().find(|(outcome, _)| !goes_on(*outcome));
            room_ns += writes.iter().map(|(_, times)| times.room_ns).max().unwrap_or(0);
            permit_ns += writes.iter().map(|(_, times)| times.permit_ns).max().unwrap_or(0);
            if let Some((otherwise, _)) = not_written {
                outcome = *otherwise;
                break;
            }
        }
        let io_ns = (self.clock.now() - begun).as_ns().saturating_sub(room_ns + permit_ns);
        (outcome, StepTimes { io_ns, room_ns, permit_ns })
    }

    fn count_write(&self, purpose: Purpose, bytes: u64, ended: Nanos) {
        let now = self.since_start(ended);
        self.record(now, |totals, _| totals.cache.record_write(purpose, bytes));
        // Documents that are ingested beside the load during a warm-up were there before the
        // window, like those that are ingested before the load.
        if purpose == Purpose::Rag && self.moment(now) < self.window.get().0 {
            self.totals.borrow_mut().cache.record_ingested_before(bytes);
        }
    }

    /// Writes an entry that must be there before measuring begins.
    pub async fn populate(&self, key: Key, scope: Scope, bytes: u64) -> Outcome {
        let outcome = self.write(key, scope, Purpose::Populate, bytes).await.0;
        // What is written beforehand and shared by all is a chunk of a document.
        if outcome == Outcome::Written && scope == Scope::Shared {
            self.totals.borrow_mut().cache.record_ingested_before(bytes);
        }
        outcome
    }

    /// Lets a shared entry go.
    pub(super) fn forget(&self, key: Key) {
        self.shard.forget(self.home(key, Scope::Shared), EntryKey(key.0));
    }

    fn log(&self, key: Key, is_write: bool, tier: Tier, purpose: Purpose, bytes: u64) {
        let Some(log) = &*self.log.borrow() else { return };
        let phase = match purpose {
            Purpose::Decode | Purpose::Rewrite => TracePhase::Decode,
            // As the reference has it: only writes are prefill.
            Purpose::History | Purpose::Prefix | Purpose::Rag if !is_write => TracePhase::Decode,
            // Not part of the load: whoever replays it finds out what must be there.
            Purpose::Populate => return,
            _ => TracePhase::Prefill,
        };
        log.operation(self.clock.now(), TraceRow { key: key.0, is_write, tier, phase, bytes });
    }

    /// Has `log` told of every operation and every move between tiers from now on.
    pub fn log_to(&self, log: &Rc<TraceWriter>) {
        *self.log.borrow_mut() = Some(Rc::clone(log));
        let (log, clock) = (Rc::clone(log), self.clock.clone());
        self.shard.watch_transitions(Box::new(move |moved| {
            let now = clock.now();
            let row = TraceRow {
                key: moved.key.0,
                is_write: false,
                tier: moved.from,
                phase: TracePhase::Evict,
                bytes: moved.bytes,
            };
            let to = TraceRow { is_write: true, tier: moved.to, ..row };
            // What moves up was read by the hit that moves it.
            if moved.to < moved.from {
                log.operation(now, TraceRow { phase: TracePhase::Decode, ..to });
            } else {
                log.operation(now, row);
                log.operation(now, to);
            }
        }));
    }
}
