//! Making room: carries out what `placement` decides, one step at a time.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use super::data_path::{Content, TransferSpec};
use super::executor::hear;
use super::gpu_path::GpuTask;
use super::measure::{Direction, MoveTimes, VictimCounts};
use super::message::{Answer, AskOrigin, GateName, Message};
use super::operation::shard_gone;
use super::{EntryData, Shard, TurnPermit};
use crate::clock::Nanos;
use crate::error::{IoError, Operation};
use crate::key::{EntryKey, ShardId, TIER_COUNT, Tier};
use crate::placement::{Admission, AdmitState, Ask, Enter, ForOther, Grant, Placement, Victim};

/// An entry that was moved to another tier: down to make room, or up after a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// Key of the entry that was moved.
    pub key: EntryKey,
    /// Size of the entry, bytes.
    pub bytes: u64,
    /// Where it was read.
    pub from: Tier,
    /// Where it was written.
    pub to: Tier,
}

/// A grant that gives itself back when its operation is dropped.
pub(super) struct HeldGrant<'a> {
    shard: &'a Rc<Shard>,
    grant: Option<Grant>,
    wait: Option<RoomWait>,
}

/// Wait for a tier to have room.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoomWait {
    /// Time at which it ended.
    pub until: Nanos,
    /// Part of it in which the tier took more space, for the first time.
    pub growth: Nanos,
}

impl HeldGrant<'_> {
    pub(super) fn tier(&self) -> Tier {
        self.grant().tier
    }

    /// The wait for it; none where there was room at once.
    pub(super) fn wait(&self) -> Option<RoomWait> {
        self.wait
    }

    fn grant(&self) -> &Grant {
        self.grant.as_ref().expect("taken only by into_inner")
    }

    /// Takes memory for its entry, if it is above storage. None when there is none in fact.
    pub(super) fn allocate(&self) -> Option<EntryData> {
        let (tier, bytes) = (self.grant().tier, self.grant().bytes);
        let shard = self.shard;
        if tier == Tier::Storage || matches!(shard.path.config.content, Content::Hollow(_)) {
            return Some(EntryData::Elsewhere);
        }
        if tier == Tier::Cpu {
            let entry = shard.shared.cpu.allocate(bytes);
            return Some(EntryData::Host(Rc::new(RefCell::new(entry))));
        }
        let space = shard.gpu_space.as_ref().expect("a tier of no memory grants nothing");
        space.allocate(bytes).map(EntryData::Gpu)
    }

    pub(super) fn into_inner(mut self) -> Grant {
        self.grant.take().expect("taken only here")
    }
}

impl Drop for HeldGrant<'_> {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.shard.place(|placement| placement.cancel(grant));
        }
    }
}

impl Shard {
    /// Room for an entry, physically free. `None`: larger than the last tier, or that one is full
    /// and nothing leaves it.
    ///
    /// `seen`: the time, where the caller knows it, for what happens before there is a wait.
    pub(super) async fn admit<'a>(
        self: &'a Rc<Self>,
        state: &mut AdmitState,
        seen: Option<Nanos>,
    ) -> Result<Option<HeldGrant<'a>>, IoError> {
        let seen = Cell::new(seen);
        let mut admitting = std::pin::pin!(self.admit_in_turn(state, &seen));
        let mut waiting = None;
        let admitted = std::future::poll_fn(|cx| {
            let polled = admitting.as_mut().poll(cx);
            // Most find room at once: the clock is looked at for those that don't.
            if polled.is_pending() {
                seen.set(None);
                waiting
                    .get_or_insert_with(|| (self.measure.wait(&self.clock), self.growth_times()));
            }
            polled
        });
        let mut admitted = admitted.await;
        if let (Ok(Some(held)), Some((waiting, before))) = (&mut admitted, waiting) {
            let (until, tier) = (waiting.end(), held.tier().index());
            let growth = self.shared.growth_times[tier].until(until).saturating_sub(before[tier]);
            held.wait = Some(RoomWait { until, growth });
        }
        admitted
    }

    /// Time so far in which each tier took more space.
    fn growth_times(&self) -> [Nanos; TIER_COUNT] {
        let now = self.clock.now();
        self.shared.growth_times.each_ref().map(|time| time.until(now))
    }

    async fn admit_in_turn<'a>(
        self: &'a Rc<Self>,
        state: &mut AdmitState,
        seen: &Cell<Option<Nanos>>,
    ) -> Result<Option<HeldGrant<'a>>, IoError> {
        loop {
            self.note_waiting();
            let Some(grant) = self.promise(state, seen).await? else { return Ok(None) };
            let mut held = HeldGrant { shard: self, grant: Some(grant), wait: None };
            if self.enter(&mut held).await {
                return Ok(Some(held));
            }
            drop(held);
            state.begin_again();
        }
    }

    /// The same, with the memory that its tier has for it.
    pub(super) async fn admit_with_memory<'a>(
        self: &'a Rc<Self>,
        state: &mut AdmitState,
        mut seen: Option<Nanos>,
    ) -> Result<Option<(HeldGrant<'a>, EntryData)>, IoError> {
        loop {
            let Some(held) = self.admit(state, seen.take()).await? else { return Ok(None) };
            if let Some(data) = held.allocate() {
                return Ok(Some((held, data)));
            }
            // Blocks that lie idle elsewhere, or a reader that still holds what has moved.
            let (tier, now) = (held.tier(), self.clock.now());
            drop(held);
            self.measure.record(now, |metrics| metrics.counts.passed_over_entries += 1);
            state.pass_over(tier);
        }
    }

    async fn promise(
        self: &Rc<Self>,
        state: &mut AdmitState,
        seen: &Cell<Option<Nanos>>,
    ) -> Result<Option<Grant>, IoError> {
        let mut baton: Option<TurnPermit> = None;
        loop {
            self.heed_stop(Operation::Write, Tier::Storage)?;
            // From before the look: a task that is spawned may run at once, and a step of growth be
            // over before anybody waits for it.
            let changed = self.changed.notified();
            let step = self.try_place(
                |placement| placement.admit(state),
                |step| !matches!(step, Admission::Wait(_) | Admission::NeedBaton(_)),
            );
            self.grow_where_due();
            match step {
                Admission::Granted(grant) => {
                    // It is asked for again if the grant turns out to be worth nothing.
                    let _returned = state.take_baton();
                    drop(baton);
                    return Ok(Some(grant));
                }
                Admission::Refused { .. } | Admission::Full => return Ok(None),
                Admission::Evict(victim) => self.let_go(victim, seen.get()),
                Admission::AskShard { shard, ask } => self.ask_for_room(shard, ask).await?,
                Admission::NeedBaton(tier) => {
                    baton = Some(self.take_turn(GateName::Baton(tier)).await);
                    state.baton_acquired(tier);
                }
                Admission::ReleaseBaton(_tier) => {
                    let _returned = state.take_baton();
                    baton = None;
                }
                Admission::Wait(_tier) => changed.await,
            }
        }
    }

    /// Whether its space is taken; not when the promise was withdrawn.
    async fn enter(self: &Rc<Self>, held: &mut HeldGrant<'_>) -> bool {
        let mut door: Option<TurnPermit> = None;
        let tier = held.tier();
        loop {
            // As in `promise`.
            let changed = self.changed.notified();
            let grant = held.grant.as_mut().expect("taken only by into_inner");
            let step = self.try_place(
                |placement| placement.enter(grant, door.is_some()),
                |step| matches!(step, Enter::Entered),
            );
            self.grow_where_due();
            match step {
                Enter::Entered => return true,
                Enter::Withdrawn => return false,
                Enter::NeedDoor => {
                    door = Some(self.take_turn(GateName::Door(tier)).await);
                }
                Enter::Wait => changed.await,
            }
        }
    }

    /// Has the steps taken that tiers are due: beside whatever this shard does, and also when the
    /// writer that needs one is dropped.
    fn grow_where_due(self: &Rc<Self>) {
        loop {
            let due = {
                let mut placement = self.placement.borrow_mut();
                let retry = |p: &mut Placement<EntryData>| {
                    p.may_retry().then(|| p.take_retry(self.clock.now())).flatten()
                };
                placement.take_growth().or_else(|| retry(&mut placement))
            };
            let Some(growth) = due else { return };
            let shard = Rc::clone(self);
            let tier = growth.tier.index();
            shard.shared.growth_times[tier].begin(shard.clock.now());
            self.spawn(async move {
                let taken = hear(shard.shared.ground(&growth).take(growth.step)).await;
                let now = shard.clock.now();
                shard.shared.growth_times[tier].end(now);
                shard.place(|placement| placement.end_growth(growth, taken, now));
                shard.grow_where_due();
            });
        }
    }

    async fn ask_for_room(self: &Rc<Self>, shard: ShardId, ask: Ask) -> Result<(), IoError> {
        let (id, answer) = self.asks.open(AskOrigin::default());
        if !self.links.send(shard, Message::Evict { ask: id, from: self.id, need: ask }) {
            return Err(shard_gone(shard, Operation::Write));
        }
        match answer.await {
            Answer::Evicted => Ok(()),
            other => unreachable!("room was asked for, not {other:?}"),
        }
    }

    /// Does for another shard what `placement` says.
    pub(super) fn make_room_for_other(self: &Rc<Self>, need: Ask) {
        let before = self.counts(Tier::Storage);
        match self.place(|placement| placement.evict_for_other(need)) {
            ForOther::Nothing => {}
            ForOther::Demote(victim) => self.let_go(victim, None),
            ForOther::Freed { deleted_entries, segments } => {
                self.place(|placement| placement.return_segments(segments));
                let bytes = before.bytes - self.counts(Tier::Storage).bytes;
                let counts = VictimCounts { entries: deleted_entries, bytes };
                let now = self.clock.now();
                self.measure.eviction((Tier::Storage, None), counts, None, now);
            }
        }
    }

    /// A victim was chosen: send it down, or count it as deleted at the time that was `seen`.
    fn let_go(self: &Rc<Self>, victim: Victim, seen: Option<Nanos>) {
        if victim.to.is_none() {
            let counts = VictimCounts { entries: 1, bytes: victim.bytes };
            let now = seen.unwrap_or_else(|| self.clock.now());
            self.measure.eviction((victim.from, None), counts, None, now);
            return;
        }
        self.moves.set(self.moves.get() + 1);
        let shard = Rc::clone(self);
        // A task of its own: the writer that needed the room may be dropped, the move may not.
        self.spawn(async move {
            shard.demote(victim).await;
            shard.moves.set(shard.moves.get() - 1);
            shard.changed.notify_all();
        });
    }

    async fn demote(self: &Rc<Self>, victim: Victim) {
        let Some(mut state) = AdmitState::for_victim(&victim) else {
            unreachable!("a victim that moves has a tier below");
        };
        let begun = self.clock.now();
        let (held, data) = match self.admit_with_memory(&mut state, Some(begun)).await {
            Ok(Some(room)) => room,
            Ok(None) => {
                self.count_refused(victim.bytes);
                self.place(|placement| placement.move_failed(victim.id));
                return;
            }
            Err(_counted) => {
                self.place(|placement| placement.move_failed(victim.id));
                return;
            }
        };
        let room = held.wait().map_or(begun, |wait| wait.until).saturating_sub(begun);
        let to = held.tier();
        let result = match to {
            Tier::Storage => self.move_to_storage(&victim, &held).await,
            Tier::Cpu | Tier::Gpu => self.move_to_host(&victim, &data).await,
        };
        let now = self.clock.now();
        match result {
            Ok((read, write)) => {
                let grant = held.into_inner();
                let moved = self.place(|p| p.finish_move(victim.id, grant, data, now));
                if moved {
                    let counts = VictimCounts { entries: 1, bytes: victim.bytes };
                    let times = Some(MoveTimes { room, read, write });
                    self.measure.eviction((victim.from, Some(to)), counts, times, now);
                    self.tell_transition(victim.key, victim.bytes, victim.from, to);
                }
            }
            Err(_counted) => self.place(|placement| placement.move_failed(victim.id)),
        }
    }

    /// Writes a victim to the blocks of its grant: what reading it took, and the whole.
    async fn move_to_storage(
        &self,
        victim: &Victim,
        held: &HeldGrant<'_>,
    ) -> Result<(Nanos, Nanos), IoError> {
        if let Content::Hollow(hollow) = &self.path.config.content {
            match victim.from {
                Tier::Gpu => hollow.gpu_link.copy(victim.bytes).await,
                Tier::Cpu | Tier::Storage => hollow.host.copy(victim.bytes).await,
            }
        }
        let begun = self.clock.now();
        let source = self.placement.borrow().data(victim.id).clone();
        let extents = held.grant().extents.clone();
        let spec = TransferSpec {
            direction: Direction::Write,
            content: self.named_content(victim.key, victim.version, victim.bytes),
            bytes: victim.bytes,
            extents: extents.as_slice(),
            source,
            sink: EntryData::Elsewhere,
        };
        let done = self.transfer(&spec).await?;
        Ok((done.copy, self.clock.now() - begun))
    }

    /// Copies a victim from GPU memory to host memory: the device's time, and the whole.
    async fn move_to_host(
        &self,
        victim: &Victim,
        to: &EntryData,
    ) -> Result<(Nanos, Nanos), IoError> {
        let begun = self.clock.now();
        if let Content::Hollow(hollow) = &self.path.config.content {
            hollow.gpu_link.copy(victim.bytes).await;
            let copied = self.clock.now() - begun;
            return Ok((copied, copied));
        }
        let view = self.placement.borrow().view(victim.id);
        let (EntryData::Gpu(from), EntryData::Host(to)) = (self.data_of(&view), to) else {
            unreachable!("above host memory lies GPU memory, and nothing else")
        };
        let device = self.run_jobs(&view, &from, GpuTask::ToHost(to)).await?;
        Ok((device, self.clock.now() - begun))
    }

    /// Tells whoever listens of an entry that has changed its tier.
    pub(super) fn tell_transition(&self, key: EntryKey, bytes: u64, from: Tier, to: Tier) {
        if let Some(watcher) = &*self.on_transition.borrow() {
            watcher(Transition { key, bytes, from, to });
        }
    }
}
