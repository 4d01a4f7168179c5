//! The entries of one shard: pins, LRU order, removal, and the sums that must hold.

use std::sync::Arc;

use super::allocator::SpaceFigures;
use super::entry::{EntryId, EntryState, EntryView, Slot, Table};
use super::extent::{Extent, ExtentList};
use super::lru::LruList;
use super::shared::{NO_TAIL, SharedBudgets};
use super::spaces::Spaces;
use super::spread::Room;
use super::step::Grant;
use super::watermark::UPPER_COUNT;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::key::{EntryKey, ShardId, TIER_COUNT, Tier};
use crate::units::BLOCK_BYTES;

/// Entries of one shard in one tier, and those that left it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TierCounts {
    /// Entries that a lookup finds here, those being written or moved away included.
    pub entries: u64,
    /// Sum of the sizes of these entries, bytes.
    pub bytes: u64,
    /// Entries evicted from here: sent down, or deleted from storage.
    pub evicted_entries: u64,
    /// Sum of the sizes of the evicted entries, bytes.
    pub evicted_bytes: u64,
    /// Evicted entries that were lost because the move down failed or the tier below can never hold
    /// them.
    pub lost_entries: u64,
    /// Entries that were found here when somebody asked for their removal.
    pub removed_entries: u64,
}

impl TierCounts {
    /// Adds the counts of another shard for the same tier.
    pub fn add(&mut self, other: TierCounts) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.evicted_entries += other.evicted_entries;
        self.evicted_bytes += other.evicted_bytes;
        self.lost_entries += other.lost_entries;
        self.removed_entries += other.removed_entries;
    }
}

/// One shard's share of the ledgers, recomputed from its entries by `check_sums`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LocalSums {
    /// Bytes this shard has committed, by tier above storage.
    pub committed_bytes: [u64; UPPER_COUNT],
    /// Bytes whose space it takes, by tier above storage.
    pub used_bytes: [u64; UPPER_COUNT],
    /// Storage blocks in its segments.
    pub leased_blocks: u64,
    /// Storage blocks of its entries and grants.
    pub used_blocks: u64,
}

/// Why a shard is to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeReason {
    /// Its request that got `Admission::Wait` should ask again.
    Room,
    /// Its request that got `Enter::Wait` for this tier should ask again.
    Door(Tier),
}

/// A message to send: the request on `shard` that waits should try again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Wakeup {
    /// Where it waits; this may be the shard itself.
    pub shard: ShardId,
    /// Why the request there can now go on.
    pub reason: WakeReason,
}

/// Placement of one shard. `D` is the handle of an entry's bytes in its tier; it is dropped with
/// the entry, and so should be what frees them (`Rc` where readers keep it across an await).
pub struct Placement<D> {
    pub(super) shared: Arc<SharedBudgets>,
    pub(super) shard: ShardId,
    pub(super) table: Table<D>,
    pub(super) lists: [LruList; TIER_COUNT],
    pub(super) spaces: Spaces,
    /// Blocks that wait for each drive, or are on their way.
    pub(super) waiting_blocks: Box<[u64]>,
    /// Kept between admissions, to spare their memory.
    pub(super) rooms: Vec<Room>,
    pub(super) parts: Vec<u64>,
    pub(super) counts: [TierCounts; TIER_COUNT],
    /// Granted but not inserted: committed, entered, and storage blocks.
    pub(super) granted_bytes: [u64; UPPER_COUNT],
    pub(super) entered_bytes: [u64; UPPER_COUNT],
    pub(super) granted_blocks: u64,
    pub(super) wake_room: bool,
    pub(super) wake_door: [bool; UPPER_COUNT],
    /// Tiers that should get more space.
    pub(super) wants_growth: [bool; TIER_COUNT],
    shown_tails: [Nanos; TIER_COUNT],
    shown_free_segments: u64,
    newest_stamp: Nanos,
    next_version: u32,
}

impl<D> Placement<D> {
    /// The empty placement of `shard`.
    pub fn new(shared: Arc<SharedBudgets>, shard: ShardId) -> Self {
        assert!(shard.0 < shared.shards(), "shard {} of {}", shard.0, shared.shards());
        let drives = shared.drives();
        let spaces = Spaces::new(drives, shared.segment_blocks());
        Placement {
            shared,
            shard,
            table: Table::new(),
            lists: [LruList::new(); TIER_COUNT],
            spaces,
            waiting_blocks: vec![0; drives].into_boxed_slice(),
            rooms: Vec::new(),
            parts: Vec::new(),
            counts: [TierCounts::default(); TIER_COUNT],
            granted_bytes: [0; UPPER_COUNT],
            entered_bytes: [0; UPPER_COUNT],
            granted_blocks: 0,
            wake_room: false,
            wake_door: [false; UPPER_COUNT],
            wants_growth: [false; TIER_COUNT],
            shown_tails: [NO_TAIL; TIER_COUNT],
            shown_free_segments: 0,
            newest_stamp: Nanos::ZERO,
            next_version: 1,
        }
    }

    /// The budgets it shares.
    pub fn shared(&self) -> &Arc<SharedBudgets> {
        &self.shared
    }

    /// The entry of `key`, in whatever phase.
    pub fn lookup(&self, key: EntryKey) -> Option<EntryView> {
        self.table.find(key).map(|id| self.table.view(id))
    }

    /// The entry at `id`, which the caller has pinned or has just looked up.
    pub fn view(&self, id: EntryId) -> EntryView {
        self.table.view(id)
    }

    /// Where the bytes of `id` lie on storage; empty when it is in another tier.
    pub fn extents(&self, id: EntryId) -> &ExtentList {
        &self.table[id].extents
    }

    /// The handle of its bytes.
    pub fn data(&self, id: EntryId) -> &D {
        self.table[id].data.as_ref().expect("an entry has data until its slot is freed")
    }

    /// Number of entries that a lookup can find.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether a lookup can find none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters of the shard's entries in `tier`.
    pub fn counts(&self, tier: Tier) -> TierCounts {
        self.counts[tier.index()]
    }

    /// Free space and fragmentation of its segments. O(free extents): for reports.
    pub fn space(&self) -> SpaceFigures {
        self.spaces.figures()
    }

    /// Keeps eviction off the entry until `unpin`. A `Moving` entry may be pinned and read where it
    /// was.
    pub fn pin(&mut self, id: EntryId) {
        let slot = &mut self.table[id];
        assert!(slot.state != EntryState::Dead, "a removed entry can't be pinned");
        slot.pins += 1;
        let tier = slot.tier;
        if self.table.is_listed(id) {
            self.lists[tier.index()].remove(&mut self.table.links, id.0);
            self.show_tail(tier);
        }
    }

    /// Ends one pin. With the last one the entry becomes the most recently used of its tier as of
    /// `now`, or, if it was removed meanwhile, is freed.
    pub fn unpin(&mut self, id: EntryId, now: Nanos) {
        let Slot { tier, state, .. } = self.table[id];
        self.drop_pin(id, now);
        match state {
            EntryState::Dead => self.settle(),
            // No space came free.
            EntryState::Writing | EntryState::Resident | EntryState::Moving => self.show_tail(tier),
        }
    }

    /// Adds the entry whose write was granted and has entered, pinned by its writer. An older entry
    /// of this key is removed first. `data` is the handle of the space the bytes go to.
    pub fn insert_writing(&mut self, key: EntryKey, grant: Grant, data: D, now: Nanos) -> EntryId {
        assert!(grant.entered, "an entry is inserted after its space was entered");
        self.tick(now);
        if let Some(old) = self.table.find(key) {
            self.kill(old);
        }
        let version = self.next_version;
        self.next_version = version.wrapping_add(1).max(1);
        let Grant { tier, bytes, extents, .. } = grant;
        self.forget_grant(tier, bytes, extents.blocks());
        self.counts[tier.index()].entries += 1;
        self.counts[tier.index()].bytes += bytes;
        let id = self.table.insert(Slot {
            key,
            bytes,
            stamp: self.newest_stamp,
            extents,
            data: Some(data),
            version,
            pins: 1,
            tier,
            state: EntryState::Writing,
        });
        self.settle();
        id
    }

    /// The bytes are there: the entry can be read, and the writer's pin ends.
    pub fn write_done(&mut self, id: EntryId, now: Nanos) {
        let slot = &mut self.table[id];
        assert!(matches!(slot.state, EntryState::Writing | EntryState::Dead), "not being written");
        if slot.state == EntryState::Writing {
            slot.state = EntryState::Resident;
            self.drop_if_lost(id);
        }
        self.drop_pin(id, now);
        self.settle();
    }

    /// The bytes could not be written: the entry is removed, and the writer's pin ends. No I/O on
    /// its space may be in flight any more.
    pub fn write_failed(&mut self, id: EntryId) {
        let state = self.table[id].state;
        assert!(matches!(state, EntryState::Writing | EntryState::Dead), "not being written");
        if state == EntryState::Writing {
            self.kill(id);
        }
        self.drop_pin(id, Nanos::ZERO);
        self.settle();
    }

    /// Removes the entry of `key`: no lookup finds it any more, its space is free once the last pin
    /// ends. Whether there was one.
    pub fn remove(&mut self, key: EntryKey) -> bool {
        let found = self.table.find(key);
        if let Some(id) = found {
            self.counts[self.table[id].tier.index()].removed_entries += 1;
            self.kill(id);
            self.settle();
        }
        found.is_some()
    }

    /// The move of a victim is complete: it lives in the grant's tier from now on, its bytes behind
    /// `data`, and what it took above is free. It becomes the most recently used of that tier as of
    /// `now`: its true last use would keep the order by age exact, but would cost a search. False
    /// when it was removed meanwhile; then the grant is given back and `data` dropped.
    pub fn finish_move(&mut self, id: EntryId, grant: Grant, data: D, now: Nanos) -> bool {
        assert!(grant.entered, "an entry moves after its space was entered");
        let alive = self.table[id].state != EntryState::Dead;
        if alive {
            assert!(self.table[id].state == EntryState::Moving, "only a victim moves");
            let Grant { tier, bytes, extents, .. } = grant;
            self.forget_grant(tier, bytes, extents.blocks());
            let slot = &mut self.table[id];
            assert!(slot.bytes == bytes, "a move keeps the size");
            let from = std::mem::replace(&mut slot.tier, tier);
            slot.extents = extents;
            slot.data = Some(data);
            slot.state = EntryState::Resident;
            self.unuse(from, bytes);
            self.recount(from, tier, bytes);
            self.drop_if_lost(id);
        } else {
            self.cancel_quietly(grant);
        }
        self.drop_pin(id, now);
        self.settle();
        alive
    }

    /// The bytes of an entry that its caller has pinned are in the grant's tier too, which lies
    /// above: from now on it lives there, behind `data`, and what it took below is free. False when
    /// it was removed or has moved from `from` meanwhile, or when others read it from storage: then
    /// the grant is given back and `data` dropped. The caller's pin stays.
    pub fn finish_promotion(&mut self, id: EntryId, from: Tier, grant: Grant, data: D) -> bool {
        assert!(grant.entered, "an entry moves after its space was entered");
        assert!(grant.tier < from, "a promotion leads up");
        let slot = &self.table[id];
        assert!(slot.pins > 0, "the entry is pinned by whoever moves it");
        // Readers of memory hold it themselves; those of storage know nothing but where it was.
        let is_free = from != Tier::Storage || slot.pins == 1;
        let may_move = slot.state == EntryState::Resident && slot.tier == from && is_free;
        if may_move {
            let Grant { tier, bytes, extents, .. } = grant;
            self.forget_grant(tier, bytes, extents.blocks());
            let slot = &mut self.table[id];
            assert!(slot.bytes == bytes, "a move keeps the size");
            slot.tier = tier;
            slot.data = Some(data);
            let old = std::mem::replace(&mut slot.extents, extents);
            if from == Tier::Storage {
                self.free_extents(&old);
            } else {
                self.shared.uncommit(from, bytes);
                self.unuse(from, bytes);
            }
            self.recount(from, tier, bytes);
        } else {
            self.cancel_quietly(grant);
        }
        self.settle();
        may_move
    }

    /// The move of a victim failed, or no tier below can hold it: it is lost.
    pub fn move_failed(&mut self, id: EntryId) {
        let slot = &self.table[id];
        let tier = slot.tier;
        if slot.state != EntryState::Dead {
            assert!(slot.state == EntryState::Moving, "only a victim moves");
            self.counts[tier.index()].lost_entries += 1;
            self.kill(id);
        }
        // It was in no list, and held no storage: the other shards see no change.
        self.drop_pin(id, Nanos::ZERO);
    }

    /// Says how many bytes wait for `drive` on this shard, or are on their way: what is written
    /// next keeps away from a drive that lags behind the others.
    pub fn note_waiting(&mut self, drive: DriveId, bytes: u64) {
        self.waiting_blocks[drive.index()] = bytes / BLOCK_BYTES;
    }

    /// Drops every entry of which something lies on `drive`, which is lost: no lookup finds it any
    /// more; what is being written there is dropped as soon as it has been. How many that were, and
    /// their bytes. O(entries).
    pub fn drop_drive(&mut self, drive: DriveId) -> (u64, u64) {
        // One that is being written is dropped when it has been.
        let is_there = |slot: &Slot<D>| {
            let on = |extent: &Extent| DriveId::of_block(extent.start_block).0 == drive;
            slot.state == EntryState::Resident && slot.extents.as_slice().iter().any(on)
        };
        let (mut entries, mut bytes) = (0, 0);
        for index in 0..self.table.slots.len() {
            if is_there(&self.table.slots[index]) {
                entries += 1;
                bytes += self.table.slots[index].bytes;
                self.counts[Tier::Storage.index()].lost_entries += 1;
                self.kill(EntryId(index as u32));
            }
        }
        self.wake_room = true;
        self.settle();
        (entries, bytes)
    }

    /// Drops an entry that has been written in part to a drive that was lost meanwhile.
    fn drop_if_lost(&mut self, id: EntryId) {
        if self.shared.losses() == 0 {
            return;
        }
        let extents = self.table[id].extents.as_slice().iter();
        let lost = |extent: &Extent| self.shared.is_lost(DriveId::of_block(extent.start_block).0);
        if extents.clone().any(lost) {
            self.counts[Tier::Storage.index()].lost_entries += 1;
            self.kill(id);
        }
    }

    /// The next message that the steps so far call for. To be asked until None after each batch of
    /// steps.
    pub fn take_wakeup(&mut self) -> Option<Wakeup> {
        if std::mem::take(&mut self.wake_room)
            && let Some(shard) = self.shared.take_room_waiter()
        {
            return Some(Wakeup { shard, reason: WakeReason::Room });
        }
        for tier in [Tier::Gpu, Tier::Cpu] {
            if std::mem::take(&mut self.wake_door[tier.index()])
                && let Some(shard) = self.shared.take_door_waiter(tier)
            {
                return Some(Wakeup { shard, reason: WakeReason::Door(tier) });
            }
        }
        None
    }

    /// Recomputes every sum from the entries and panics where one differs. O(entries).
    pub fn check_sums(&self) -> LocalSums {
        let mut sums = LocalSums {
            committed_bytes: self.granted_bytes,
            used_bytes: self.entered_bytes,
            leased_blocks: self.spaces.leased_blocks(),
            used_blocks: self.granted_blocks,
        };
        let mut counts = [(0u64, 0u64); TIER_COUNT];
        let mut evictable = [0u32; TIER_COUNT];
        let mut extents = 0;
        let slots = self.table.slots.iter().zip(&self.table.links);
        for (slot, links) in slots.filter(|(slot, _)| slot.data.is_some()) {
            let tier = slot.tier.index();
            assert!(slot.evictable() == links.attached(), "{:?}: list and pins", slot.key);
            evictable[tier] += u32::from(slot.evictable());
            if slot.state != EntryState::Dead {
                counts[tier].0 += 1;
                counts[tier].1 += slot.bytes;
            }
            sums.used_blocks += slot.extents.blocks();
            extents += slot.extents.as_slice().len() as u64;
            if slot.tier != Tier::Storage {
                sums.used_bytes[tier] += slot.bytes;
                if matches!(slot.state, EntryState::Writing | EntryState::Resident) {
                    sums.committed_bytes[tier] += slot.bytes;
                }
            }
        }
        for tier in Tier::ALL {
            let at = tier.index();
            assert_eq!((self.counts[at].entries, self.counts[at].bytes), counts[at], "{tier:?}");
            assert_eq!(self.lists[at].count(), evictable[at], "{tier:?}: list");
        }
        assert_eq!(sums.used_blocks, self.spaces.used_blocks(), "storage blocks");
        assert!(extents <= self.spaces.live_extents(), "extents");
        // What the other shards see is what there is.
        assert_eq!(self.shown_free_segments, self.spaces.free_segments(), "shown segments");
        assert_eq!(self.shown_tails, Tier::ALL.map(|tier| self.tail(tier)), "shown tails");
        sums
    }

    fn recount(&mut self, from: Tier, to: Tier, bytes: u64) {
        let counts = &mut self.counts[from.index()];
        counts.entries -= 1;
        counts.bytes -= bytes;
        let counts = &mut self.counts[to.index()];
        counts.entries += 1;
        counts.bytes += bytes;
    }

    /// Time never runs backwards here, so that each list stays in the order of its stamps.
    fn tick(&mut self, now: Nanos) {
        self.newest_stamp = self.newest_stamp.max(now);
    }

    fn drop_pin(&mut self, id: EntryId, now: Nanos) {
        self.tick(now);
        let slot = &mut self.table[id];
        assert!(slot.pins > 0, "an entry is unpinned as often as it was pinned");
        slot.pins -= 1;
        if slot.pins > 0 {
            return;
        }
        match slot.state {
            EntryState::Resident => {
                slot.stamp = self.newest_stamp;
                let tier = slot.tier;
                self.lists[tier.index()].push_newest(&mut self.table.links, id.0);
            }
            EntryState::Dead => self.free_slot(id),
            EntryState::Writing | EntryState::Moving => {
                panic!("the writer or mover of an entry holds a pin of its own")
            }
        }
    }

    /// Removes an entry that lookups can find.
    pub(super) fn kill(&mut self, id: EntryId) {
        self.table.unindex(id);
        let slot = &mut self.table[id];
        let (tier, bytes, pins) = (slot.tier, slot.bytes, slot.pins);
        let state = std::mem::replace(&mut slot.state, EntryState::Dead);
        assert!(state != EntryState::Dead, "an entry is removed once");
        if self.table.is_listed(id) {
            self.lists[tier.index()].remove(&mut self.table.links, id.0);
        }
        // A victim on its way was taken off the ledger when its move began.
        if state != EntryState::Moving && tier != Tier::Storage {
            self.shared.uncommit(tier, bytes);
        }
        self.counts[tier.index()].entries -= 1;
        self.counts[tier.index()].bytes -= bytes;
        if pins == 0 {
            self.free_slot(id);
        }
    }

    fn free_slot(&mut self, id: EntryId) {
        let slot = &mut self.table[id];
        let (tier, bytes) = (slot.tier, slot.bytes);
        let extents = std::mem::take(&mut slot.extents);
        drop(slot.data.take());
        if tier == Tier::Storage {
            self.free_extents(&extents);
        } else {
            self.unuse(tier, bytes);
        }
        self.table.release(id);
    }

    pub(super) fn free_extents(&mut self, extents: &ExtentList) {
        self.spaces.free(extents);
        self.shared.unstore_blocks(extents.blocks());
        self.wake_room = true;
    }

    pub(super) fn unuse(&mut self, tier: Tier, bytes: u64) {
        self.shared.unuse(tier, bytes);
        self.wake_door[tier.index()] = true;
    }

    /// Shows the other shards what changed.
    pub(super) fn settle(&mut self) {
        Tier::ALL.into_iter().for_each(|tier| self.show_tail(tier));
        let free = self.spaces.free_segments();
        let shown = std::mem::replace(&mut self.shown_free_segments, free);
        if free != shown {
            self.shared.set_free_segments(self.shard, free);
            // What came free has woken them. What was leased for a division that another shard was
            // ahead of has not.
            self.wake_room |= free > shown;
        }
    }

    /// Age of a tier's oldest entry that can be evicted.
    fn tail(&self, tier: Tier) -> Nanos {
        let oldest = self.lists[tier.index()].oldest();
        oldest.map_or(NO_TAIL, |id| self.table.slots[id as usize].stamp)
    }

    /// Shows them the age of a tier's oldest entry: all that changes when one is only read.
    fn show_tail(&mut self, tier: Tier) {
        let tail = self.tail(tier);
        let shown = std::mem::replace(&mut self.shown_tails[tier.index()], tail);
        if tail != shown {
            self.shared.set_tail(self.shard, tier, tail);
            self.wake_room |= tier == Tier::Storage && shown == NO_TAIL;
        }
    }
}
