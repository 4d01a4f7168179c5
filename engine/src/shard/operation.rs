//! Reading and writing whole entries, here or on the shard that owns them.

use std::cell::Cell;
use std::rc::Rc;

use super::data_path::{Content, Orphans, TransferDone, TransferSpec};
use super::gpu_path::GpuTask;
use super::measure::Direction;
use super::message::{Answer, AskOrigin, GateName, Message};
use super::notify::yield_now;
use super::turns::TurnPermit;
use super::waterfall::HeldGrant;
use super::{EntryData, OperationTimes, ReadOutcome, STEP_BYTES, Shard, WriteMode, WriteOutcome};
use crate::clock::Nanos;
use crate::error::{ErrorKind, IoError, Operation};
use crate::fill::{ContentName, NamedContent};
use crate::key::{EntryKey, ShardId, Tier};
use crate::placement::{AdmitState, EntryId, EntryState, EntryView};
use crate::tier::cpu::CpuEntry;
use crate::units::{BLOCK_BYTES, round_up_to_block};

/// Device time of moving an entry's bytes, and when it ended.
#[derive(Clone, Copy)]
pub(super) struct Moved {
    device: Nanos,
    /// When it ended, where that is known without a look at the clock.
    ended: Option<Nanos>,
}

impl Moved {
    fn in_memory(device: Nanos) -> Moved {
        Moved { device, ended: None }
    }
}

impl Shard {
    /// Reads the whole entry `key` of shard `home`, checking it as configured.
    #[inline]
    pub async fn read(self: &Rc<Self>, home: ShardId, key: EntryKey) -> ReadOutcome {
        self.read_from(self.clock.now(), home, key).await
    }

    /// The same for a caller that knows when the read began, a moment on this shard's clock that
    /// has passed: one that reads many entries, each as soon as the one before has ended.
    ///
    /// The shard that asks counts the read, from `begun` until it has the answer: the way to
    /// another shard and back, and the time for which that shard was late, are part of it.
    pub async fn read_from(
        self: &Rc<Self>,
        begun: Nanos,
        home: ShardId,
        key: EntryKey,
    ) -> ReadOutcome {
        if home == self.id {
            let outcome = self.read_here(key, begun).await;
            if let ReadOutcome::Hit { tier, bytes, times } = outcome {
                self.measure.operation(tier, Direction::Read, bytes, times);
            }
            return outcome;
        }
        let (ask, answer) = self.asks.open(AskOrigin { begun, bytes: 0 });
        if !self.links.send(home, Message::Read { ask, from: self.id, key }) {
            return ReadOutcome::Failed(shard_gone(home, Operation::Read));
        }
        match answer.await {
            Answer::Read(outcome) => outcome,
            other => unreachable!("a read was asked, not {other:?}"),
        }
    }

    /// Whether shard `home` has the entry `key`, once writes of it that came before have ended.
    /// Nothing is read, and the entry may leave at any time after.
    pub async fn holds(self: &Rc<Self>, home: ShardId, key: EntryKey) -> bool {
        if home == self.id {
            return self.arrived(key).await.is_some();
        }
        let (ask, answer) = self.asks.open(AskOrigin::default());
        if !self.links.send(home, Message::Look { ask, from: self.id, key }) {
            // A shard that has ended has nothing.
            return false;
        }
        match answer.await {
            Answer::Look(is_there) => is_there,
            other => unreachable!("a look was asked, not {other:?}"),
        }
    }

    /// Writes the whole entry `key` of `bytes` ≥ 1 on shard `home`, evicting for it as needed.
    #[inline]
    pub async fn write(
        self: &Rc<Self>,
        home: ShardId,
        key: EntryKey,
        bytes: u64,
        mode: WriteMode,
    ) -> WriteOutcome {
        self.write_from(self.clock.now(), home, (key, bytes), mode).await
    }

    /// The same for a caller that knows when the write began, as [`Shard::read_from`].
    pub async fn write_from(
        self: &Rc<Self>,
        begun: Nanos,
        home: ShardId,
        (key, bytes): (EntryKey, u64),
        mode: WriteMode,
    ) -> WriteOutcome {
        if home == self.id {
            let outcome = self.write_here((key, bytes), mode, begun).await;
            if let WriteOutcome::Written { tier, times } = outcome {
                self.measure.operation(tier, Direction::Write, bytes, times);
            }
            return outcome;
        }
        let (ask, answer) = self.asks.open(AskOrigin { begun, bytes });
        let from = self.id;
        if !self.links.send(home, Message::Write { ask, from, key, bytes, mode }) {
            return WriteOutcome::Failed(shard_gone(home, Operation::Write));
        }
        match answer.await {
            Answer::Write(outcome) => outcome,
            other => unreachable!("a write was asked, not {other:?}"),
        }
    }

    /// Forgets an entry of this shard; whether there was one.
    pub fn remove(&self, key: EntryKey) -> bool {
        self.place(|placement| placement.remove(key))
    }

    /// Has the shard `home` forget an entry, if it is there; over at once here, soon elsewhere.
    pub fn forget(&self, home: ShardId, key: EntryKey) {
        if home == self.id {
            let _was_there = self.remove(key);
        } else {
            // A shard that has ended has forgotten all.
            let _delivered = self.links.send(home, Message::Remove { key });
        }
    }

    /// A permit to allocate, in the order of asking.
    pub async fn allocation_permit(self: &Rc<Self>) -> TurnPermit {
        self.take_turn(GateName::Allocation).await
    }

    pub(super) async fn read_here(self: &Rc<Self>, key: EntryKey, begun: Nanos) -> ReadOutcome {
        let Some(mut view) = self.arrived(key).await else { return ReadOutcome::Miss };
        let mut room = Nanos::ZERO;
        let mut rise = None;
        if self.promotes && view.tier != Tier::Gpu {
            let asked = self.clock.now();
            rise = match self.room_above(&view).await {
                Ok(rise) => rise,
                Err(error) => return ReadOutcome::Failed(error),
            };
            room = self.clock.now() - asked;
            // The entry may have moved meanwhile, or gone.
            let Some(now_there) = self.arrived(key).await else { return ReadOutcome::Miss };
            let is_same = (now_there.version, now_there.tier) == (view.version, view.tier);
            rise = rise.filter(|_| is_same);
            view = now_there;
        }
        // Frees nothing, so that nobody who waits need look again.
        self.placement.borrow_mut().pin(view.id);
        let pin = Pin { shard: self, id: view.id, ended: Cell::new(None) };
        let sink = rise.as_ref().map_or(EntryData::Elsewhere, |(_, data)| data.clone());
        let result = match view.tier {
            Tier::Storage => self.read_storage(&view, sink).await,
            Tier::Cpu => self.read_memory(&view, sink).await.map(Moved::in_memory),
            Tier::Gpu => self.work_in_gpu(&view, GpuTask::Check).await.map(Moved::in_memory),
        };
        if let (Ok(_), Some((held, data))) = (&result, rise) {
            self.finish_rise(&view, held, data);
        }
        match result {
            Ok(Moved { device, ended }) => {
                let ended = ended.unwrap_or_else(|| self.clock.now());
                pin.ended.set(Some(ended));
                let total = ended.saturating_sub(begun);
                let times = OperationTimes { total, device, room, ended };
                ReadOutcome::Hit { tier: view.tier, bytes: view.bytes, times }
            }
            Err(error) => ReadOutcome::Failed(error),
        }
    }

    /// The entry of `key`, once writes of it that came before have ended.
    #[inline]
    pub(super) async fn arrived(&self, key: EntryKey) -> Option<EntryView> {
        self.heed_losses();
        // Nearly always it is there.
        let found = self.placement.borrow().lookup(key);
        match found {
            Some(view) if view.state != EntryState::Writing => Some(view),
            _ => self.arrival(key).await,
        }
    }

    async fn arrival(&self, key: EntryKey) -> Option<EntryView> {
        loop {
            let changed = self.changed.notified();
            let found = self.placement.borrow().lookup(key);
            match found {
                // A write that came before is waiting for room: it counts as before.
                None if self.arriving.contains(key) => changed.await,
                // On its way in: it will be there, or gone, when its writer is done.
                Some(view) if view.state == EntryState::Writing => changed.await,
                found => return found,
            }
        }
    }

    /// Room for an entry in a faster tier. The entry is not pinned the while: what makes room may
    /// have to evict it.
    async fn room_above<'a>(
        self: &'a Rc<Self>,
        view: &EntryView,
    ) -> Result<Option<(HeldGrant<'a>, EntryData)>, IoError> {
        let Some(mut state) = AdmitState::for_promotion(view.bytes, view.tier) else {
            return Ok(None);
        };
        self.admit_with_memory(&mut state, None).await
    }

    /// An entry that was read is in its faster tier too: there it stays.
    fn finish_rise(&self, view: &EntryView, held: HeldGrant<'_>, data: EntryData) {
        let (to, grant) = (held.tier(), held.into_inner());
        if self.place(|p| p.finish_promotion(view.id, view.tier, grant, data)) {
            let now = self.clock.now();
            self.measure.record(now, |metrics| {
                let row = &mut metrics.promotions[view.tier.index()][to.index()];
                row.entries += 1;
                row.bytes += view.bytes;
            });
            self.tell_transition(view.key, view.bytes, view.tier, to);
        }
    }

    async fn read_storage(&self, view: &EntryView, sink: EntryData) -> Result<Moved, IoError> {
        let mut moved = self.transfer_storage(view, Direction::Read, sink).await?;
        if matches!(self.path.config.content, Content::Hollow(_)) {
            self.land_hollow(view).await;
            moved.ended = None;
        }
        Ok(moved)
    }

    /// Moves the bytes read to the model's GPU, where there is one.
    async fn land_hollow(&self, view: &EntryView) {
        if let Content::Hollow(hollow) = &self.path.config.content
            && self.shared.budgets.capacity_bytes(Tier::Gpu) > 0
        {
            hollow.gpu_link.copy(view.bytes).await;
        }
    }

    async fn transfer_storage(
        &self,
        view: &EntryView,
        direction: Direction,
        sink: EntryData,
    ) -> Result<Moved, IoError> {
        // Most lie in one piece, which is a fraction of a list to carry about.
        let (only, several);
        let one = self.placement.borrow().extents(view.id).only();
        let extents = match one {
            Some(extent) => {
                only = extent;
                std::slice::from_ref(&only)
            }
            None => {
                several = self.placement.borrow().extents(view.id).clone();
                several.as_slice()
            }
        };
        let spec = TransferSpec {
            direction,
            content: self.named_content(view.key, view.version, view.bytes),
            bytes: view.bytes,
            extents,
            source: EntryData::Elsewhere,
            sink,
        };
        let TransferDone { device, ended, .. } = self.transfer(&spec).await?;
        Ok(Moved { device, ended })
    }

    /// Reads an entry in host memory; how long its bytes took.
    async fn read_memory(&self, view: &EntryView, sink: EntryData) -> Result<Nanos, IoError> {
        if let Content::Hollow(hollow) = &self.path.config.content {
            let begun = self.clock.now();
            hollow.host.copy(view.bytes).await;
            self.land_hollow(view).await;
            return Ok(self.clock.now() - begun);
        }
        let EntryData::Host(entry) = self.data_of(view) else {
            unreachable!("an entry in the CPU tier is in host memory")
        };
        let content = self.named_content(view.key, view.version, view.bytes);
        let bytes = round_up_to_block(view.bytes) as usize;
        let (mut done, mut device) = (0, Nanos::ZERO);
        while done < bytes {
            self.heed_stop(Operation::Read, Tier::Cpu)?;
            let length = STEP_BYTES.min(bytes - done);
            self.path.before_work(length as u64);
            device += self.read_piece(&entry.borrow(), &content, done, length)?;
            done += length;
            self.breathe(done).await;
        }
        device += match sink {
            EntryData::Gpu(above) => self.run_jobs(view, &above, GpuTask::FromHost(&entry)).await?,
            EntryData::Host(_) | EntryData::Elsewhere => self.land_host(view, &entry).await?,
        };
        Ok(device)
    }

    /// Reads a piece and checks it; returns the time of the reading.
    fn read_piece(
        &self,
        entry: &CpuEntry,
        content: &NamedContent,
        offset: usize,
        length: usize,
    ) -> Result<Nanos, IoError> {
        let before = self.clock.now();
        entry.read_through(offset, length);
        let now = self.clock.now();
        // From the cache: the piece was read just now.
        let report = entry.check(offset, length, content, self.path.config.verify);
        self.measure.verified(&report, now);
        match report.first_bad_block {
            None => Ok(now - before),
            Some(block) => {
                let error = memory_corrupt(Tier::Cpu, "host memory", block);
                self.measure.error(&error, now);
                Err(error)
            }
        }
    }

    /// Ends work on memory, and waits for room, when the engine is stopping, as transfers end at
    /// their next I/O: an entry may be many GiB, and a drain is to take no longer than what is in
    /// flight. On purpose, hence not counted as a failure.
    pub(super) fn heed_stop(&self, operation: Operation, tier: Tier) -> Result<(), IoError> {
        match self.path.stopping.get() {
            false => Ok(()),
            true => Err(IoError {
                kind: ErrorKind::Cancelled,
                operation,
                tier,
                file: String::new(),
                offset_bytes: 0,
                length_bytes: 0,
                errno: libc::ECANCELED,
            }),
        }
    }

    /// Lets the other tasks go on, once every MiB of work.
    pub(super) async fn breathe(&self, done: usize) {
        if done.is_multiple_of(1 << 20) {
            yield_now().await;
        }
    }

    /// Counts an entry that no tier can hold, or that found storage full.
    pub(super) fn count_refused(&self, bytes: u64) {
        let is_full = self.shared.budgets.is_full_for(bytes);
        self.measure.record(self.clock.now(), |metrics| match is_full {
            true => metrics.counts.unstored_entries += 1,
            false => metrics.refused_entries += 1,
        });
    }

    fn refuse(&self, bytes: u64) -> WriteOutcome {
        let budgets = &self.shared.budgets;
        self.count_refused(bytes);
        match budgets.has_storage() {
            true if budgets.is_full_for(bytes) => WriteOutcome::StorageFull,
            true => WriteOutcome::Refused { limit_bytes: budgets.capacity_bytes(Tier::Storage) },
            false => WriteOutcome::DroppedWithoutStorage,
        }
    }

    pub(super) async fn write_here(
        self: &Rc<Self>,
        (key, bytes): (EntryKey, u64),
        mode: WriteMode,
        begun: Nanos,
    ) -> WriteOutcome {
        self.heed_losses();
        loop {
            let changed = self.changed.notified();
            if self.arriving.contains(key) {
                changed.await;
                continue;
            }
            let found = self.placement.borrow().lookup(key);
            match found {
                None => break,
                Some(view) if view.state == EntryState::Writing => changed.await,
                Some(_) if mode == WriteMode::IfAbsent => return WriteOutcome::AlreadyThere,
                Some(_) => {
                    self.remove(key);
                    break;
                }
            }
        }
        self.arriving.insert(key);
        let arriving = Arriving { shard: self, key };
        let mut state = AdmitState::new(bytes);
        let (grant, data) = match self.admit_with_memory(&mut state, Some(begun)).await {
            Ok(Some(room)) => room,
            Ok(None) => return self.refuse(bytes),
            Err(error) => return WriteOutcome::Failed(error),
        };
        let wait = grant.wait();
        let admitted = wait.map_or(begun, |wait| wait.until);
        self.measure.record(admitted, |metrics| {
            metrics.waits.room.record((admitted - begun).as_ns());
            if let Some(growth) = wait.map(|wait| wait.growth).filter(|&time| time > Nanos::ZERO) {
                metrics.waits.growth.record(growth.min(admitted - begun).as_ns());
            }
        });
        let tier = grant.tier();
        let grant = grant.into_inner();
        let id = self.place(|p| p.insert_writing(key, grant, data, admitted));
        drop(arriving);
        let writing = Writing { shard: self, id };
        let view = self.placement.borrow().view(id);
        let result = match tier {
            Tier::Storage => {
                let nowhere = EntryData::Elsewhere;
                self.transfer_storage(&view, Direction::Write, nowhere).await
            }
            Tier::Cpu => self.write_memory(&view).await.map(Moved::in_memory),
            Tier::Gpu => self.work_in_gpu(&view, GpuTask::Fill).await.map(Moved::in_memory),
        };
        match result {
            Ok(Moved { device, ended }) => {
                std::mem::forget(writing);
                let ended = ended.unwrap_or_else(|| self.clock.now());
                self.place(|placement| placement.write_done(id, ended));
                let room = admitted.saturating_sub(begun);
                let total = ended.saturating_sub(begun);
                let times = OperationTimes { total, device, room, ended };
                WriteOutcome::Written { tier, times }
            }
            Err(error) => WriteOutcome::Failed(error),
        }
    }

    /// Makes a new entry in host memory; how long its bytes took.
    async fn write_memory(&self, view: &EntryView) -> Result<Nanos, IoError> {
        if let Content::Hollow(hollow) = &self.path.config.content {
            let begun = self.clock.now();
            hollow.host.copy(view.bytes).await;
            return Ok(self.clock.now() - begun);
        }
        let EntryData::Host(entry) = self.data_of(view) else {
            unreachable!("an entry in the CPU tier is in host memory")
        };
        let content = self.named_content(view.key, view.version, view.bytes);
        let bytes = round_up_to_block(view.bytes) as usize;
        let (mut done, mut device) = (0, Nanos::ZERO);
        while done < bytes {
            self.heed_stop(Operation::Write, Tier::Cpu)?;
            let length = STEP_BYTES.min(bytes - done);
            self.path.before_work(length as u64);
            let before = self.clock.now();
            entry.borrow_mut().make(done, length, &content);
            device += self.clock.now() - before;
            done += length;
            self.breathe(done).await;
        }
        Ok(device)
    }

    #[inline]
    pub(super) fn content_name(&self, key: EntryKey, version: u32) -> ContentName {
        ContentName { seed: self.seed, key, version }
    }

    #[inline]
    pub(super) fn named_content(&self, key: EntryKey, version: u32, bytes: u64) -> NamedContent {
        NamedContent::new(self.content_name(key, version), bytes, &self.shape)
    }
}

/// Keeps an entry from being evicted while it is read.
struct Pin<'a> {
    shard: &'a Rc<Shard>,
    id: EntryId,
    /// When the read ended, if it did.
    ended: Cell<Option<Nanos>>,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let now = self.ended.get().unwrap_or_else(|| self.shard.clock.now());
        self.shard.place(|placement| placement.unpin(self.id, now));
    }
}

/// A key whose write waits for room.
struct Arriving<'a> {
    shard: &'a Rc<Shard>,
    key: EntryKey,
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.shard.arriving.remove(self.key);
        self.shard.changed.notify_all();
    }
}

/// An entry whose bytes are on their way. Dropped: the write failed or was given up.
struct Writing<'a> {
    shard: &'a Rc<Shard>,
    id: EntryId,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let (shard, id) = (Rc::clone(self.shard), self.id);
        let orphans = shard.path.take_orphans();
        if orphans.is_empty() {
            shard.place(|placement| placement.write_failed(id));
            return;
        }
        // Writes to its blocks are still in flight: nobody may have them before those end.
        self.shard.spawn(async move {
            orphans.await_all().await;
            shard.place(|placement| placement.write_failed(id));
        });
    }
}

impl Orphans {
    /// Waits until the device is done with all of them.
    pub(super) async fn await_all(self) {
        for (writes, completed) in self.0 {
            for _ in 0..writes {
                completed.free_next().await;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) fn memory_corrupt(tier: Tier, memory: &str, block: u64) -> IoError {
    IoError {
        kind: ErrorKind::Corrupt,
        operation: Operation::Read,
        tier,
        file: memory.to_owned(),
        offset_bytes: block * BLOCK_BYTES,
        length_bytes: BLOCK_BYTES,
        errno: 0,
    }
}

pub(super) fn shard_gone(shard: ShardId, operation: Operation) -> IoError {
    IoError {
        kind: ErrorKind::ShardGone,
        operation,
        tier: Tier::Storage,
        file: format!("shard {}", shard.0),
        offset_bytes: 0,
        length_bytes: 0,
        errno: 0,
    }
}
