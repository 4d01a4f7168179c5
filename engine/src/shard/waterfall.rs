//! Making room: carries out what `placement` decides, one step at a time.

use std::rc::Rc;

use super::data_path::{Content, TransferSpec};
use super::measure::{Direction, VictimCounts};
use super::message::{Answer, GateName, Message};
use super::operation::shard_gone;
use super::{Shard, Turn};
use crate::buffer::Urgency;
use crate::error::{IoError, Operation};
use crate::key::{EntryKey, ShardId, Tier};
use crate::placement::{Admission, AdmitState, Ask, Enter, ForOther, Grant, Victim};

/// Demotions make room that somebody waits for.
const DEMOTION_URGENCY: Urgency = Urgency::HIGHEST;

/// An entry that was moved down a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demotion {
    /// Which.
    pub key: EntryKey,
    /// Its size.
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
}

impl HeldGrant<'_> {
    pub(super) fn tier(&self) -> Tier {
        self.grant().tier
    }

    fn grant(&self) -> &Grant {
        self.grant.as_ref().expect("taken only by into_inner")
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
    /// Room for an entry, physically free. `None`: larger than the last tier.
    pub(super) async fn admit<'a>(
        self: &'a Rc<Self>,
        state: &mut AdmitState,
    ) -> Result<Option<HeldGrant<'a>>, IoError> {
        let _waiting = self.measure.wait(&self.clock);
        loop {
            self.note_waiting();
            let Some(grant) = self.promise(state).await? else { return Ok(None) };
            let mut held = HeldGrant { shard: self, grant: Some(grant) };
            if self.enter(&mut held).await {
                return Ok(Some(held));
            }
            drop(held);
            state.begin_again();
        }
    }

    async fn promise(self: &Rc<Self>, state: &mut AdmitState) -> Result<Option<Grant>, IoError> {
        let mut baton: Option<Turn> = None;
        loop {
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
                    drop(baton);
                    return Ok(Some(grant));
                }
                Admission::Refused { .. } => return Ok(None),
                Admission::Evict(victim) => self.let_go(victim),
                Admission::AskShard { shard, ask } => self.ask_for_room(shard, ask).await?,
                Admission::NeedBaton(tier) => {
                    let now = self.clock.now();
                    baton = Some(self.take_turn(GateName::Baton(tier), now).await);
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
        let mut door: Option<Turn> = None;
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
                    let now = self.clock.now();
                    door = Some(self.take_turn(GateName::Door(tier), now).await);
                }
                Enter::Wait => changed.await,
            }
        }
    }

    /// Has the steps taken that tiers are due: beside whatever this shard does, and also when the
    /// writer that needs one is dropped.
    fn grow_where_due(self: &Rc<Self>) {
        loop {
            let due = self.placement.borrow_mut().take_growth();
            let Some(growth) = due else { return };
            let shard = Rc::clone(self);
            self.spawn(async move {
                let taken = shard.shared.ground(&growth).take(growth.step).await;
                let now = shard.clock.now();
                shard.place(|placement| placement.end_growth(growth, taken, now));
                shard.grow_where_due();
            });
        }
    }

    async fn ask_for_room(self: &Rc<Self>, shard: ShardId, ask: Ask) -> Result<(), IoError> {
        let (id, answer) = self.asks.open();
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
            ForOther::Demote(victim) => self.let_go(victim),
            ForOther::Freed { deleted_entries, segments } => {
                self.place(|placement| placement.return_segments(segments));
                let bytes = before.bytes - self.counts(Tier::Storage).bytes;
                let counts = VictimCounts { entries: deleted_entries, bytes };
                self.measure.eviction(Tier::Storage, counts, None, None, self.clock.now());
            }
        }
    }

    /// A victim was chosen: send it down, or count it as deleted.
    fn let_go(self: &Rc<Self>, victim: Victim) {
        if victim.to.is_none() {
            let counts = VictimCounts { entries: 1, bytes: victim.bytes };
            self.measure.eviction(victim.from, counts, None, None, self.clock.now());
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
        let held = match self.admit(&mut state).await {
            Ok(Some(held)) => held,
            Ok(None) => {
                self.measure.record(self.clock.now(), |metrics| metrics.refused_entries += 1);
                self.place(|placement| placement.move_failed(victim.id));
                return;
            }
            Err(_counted) => {
                self.place(|placement| placement.move_failed(victim.id));
                return;
            }
        };
        assert!(held.tier() == Tier::Storage, "only storage lies below host memory");
        let data = self.placement.borrow().data(victim.id).clone();
        let source = data.expect("an entry above storage has its bytes in memory");
        if let Content::Hollow(memory) = &self.path.config.content {
            memory.copy(victim.bytes).await;
        }
        let to = held.tier();
        let extents = held.grant().extents.clone();
        let spec = TransferSpec {
            direction: Direction::Write,
            name: self.content_name(victim.key, victim.version),
            bytes: victim.bytes,
            extents: extents.as_slice(),
            urgency: DEMOTION_URGENCY,
            source: Some(source),
        };
        let result = self.transfer(spec).await;
        let now = self.clock.now();
        match result {
            Ok(done) => {
                let grant = held.into_inner();
                let moved = self.place(|p| p.finish_move(victim.id, grant, None, now));
                if moved {
                    let counts = VictimCounts { entries: 1, bytes: victim.bytes };
                    let (read, write) = (Some(done.copy_ns), Some(done.times.total_ns));
                    self.measure.eviction(victim.from, counts, read, write, now);
                    if let Some(watcher) = &*self.on_demotion.borrow() {
                        let (key, bytes, from) = (victim.key, victim.bytes, victim.from);
                        watcher(Demotion { key, bytes, from, to });
                    }
                }
            }
            Err(_counted) => self.place(|placement| placement.move_failed(victim.id)),
        }
    }
}
