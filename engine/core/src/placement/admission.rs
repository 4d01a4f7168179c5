//! The waterfall: who gets in, who must leave, and where storage space comes from.

use super::entry::{EntryId, EntryState};
use super::extent::ExtentList;
use super::pool::{Lot, SegmentLease};
use super::spread::Room;
use super::state::Placement;
use super::step::{Admission, AdmitState, Ask, Enter, ForOther, Grant, Victim};
use super::watermark::below;
use crate::key::Tier;
use crate::units::{BLOCK_BYTES, blocks_for};

/// Most times that an entry's place is sought anew because another shard took some of it: each time
/// one of them has got on.
const DIVISIONS_MAX: u32 = 8;

impl<D> Placement<D> {
    /// The next step of an admission. Each call is one O(1) step; the caller loops.
    pub fn admit(&mut self, request: &mut AdmitState) -> Admission {
        let admission = loop {
            let tier = request.tier;
            let step = if request.stop == Some(tier) {
                Some(Admission::Refused { limit_bytes: 0 })
            } else if tier == Tier::Storage {
                Some(self.admit_to_storage(request))
            } else if self.shared.skips(tier, request.bytes) {
                None
            } else {
                self.admit_above(tier, request)
            };
            if let Some(admission) = step {
                break admission;
            }
            request.tier = below(tier).expect("storage always answers");
            request.evicting = false;
            if request.baton == Some(tier) {
                break Admission::ReleaseBaton(tier);
            }
        };
        self.settle();
        admission
    }

    /// None: this tier has no room, and nothing in it may be evicted.
    fn admit_above(&mut self, tier: Tier, request: &mut AdmitState) -> Option<Admission> {
        let bytes = request.bytes;
        if request.baton != Some(tier) {
            assert!(request.baton.is_none(), "a baton is given back before the next is needed");
            let at_once = self.shared.baton(tier).is_free() && self.shared.try_commit(tier, bytes);
            return Some(match at_once {
                true => self.grant_above(tier, bytes),
                false => Admission::NeedBaton(tier),
            });
        }
        // While it waited for the baton room may have come; once it evicts, it goes to the target.
        if (!request.evicting || self.shared.at_target(tier, bytes))
            && self.shared.try_commit(tier, bytes)
        {
            return Some(self.grant_above(tier, bytes));
        }
        request.evicting = true;
        match self.shared.oldest_shard(tier) {
            Some(shard) if shard == self.shard => {
                let victim = self.begin_evict(tier).expect("the tail shown is the list's");
                Some(Admission::Evict(victim))
            }
            Some(shard) => {
                let ask = Ask { tier, need_bytes: bytes, excess_blocks: 0 };
                Some(Admission::AskShard { shard, ask })
            }
            None if self.shared.try_commit(tier, bytes) => Some(self.grant_above(tier, bytes)),
            None => None,
        }
    }

    fn grant_above(&mut self, tier: Tier, bytes: u64) -> Admission {
        self.granted_bytes[tier.index()] += bytes;
        Admission::Granted(Grant { tier, bytes, extents: ExtentList::default(), entered: false })
    }

    fn admit_to_storage(&mut self, request: &mut AdmitState) -> Admission {
        let blocks = self.shared.entry_blocks(request.bytes);
        let limit_bytes = self.shared.capacity_bytes(Tier::Storage);
        if blocks * BLOCK_BYTES > limit_bytes {
            return Admission::Refused { limit_bytes };
        }
        let holds_baton = request.baton == Some(Tier::Storage);
        let excess_blocks = self.shared.excess_blocks(blocks, request.evicting);
        if excess_blocks == 0
            && (holds_baton || self.shared.baton(Tier::Storage).is_free())
            && let Some(grant) = self.try_storage(request.bytes)
        {
            return Admission::Granted(grant);
        }
        if !holds_baton {
            return Admission::NeedBaton(Tier::Storage);
        }
        if excess_blocks > 0 {
            request.evicting = true;
            if let Some(admission) =
                self.evict_oldest(Ask { tier: Tier::Storage, need_bytes: 0, excess_blocks })
            {
                return admission;
            }
            // All that is left is pinned: there may be room all the same.
            if let Some(grant) = self.try_storage(request.bytes) {
                return Admission::Granted(grant);
            }
        }
        // Nobody's entry has to go for space that is only on its way.
        if self.shared.can_grow(Tier::Storage) {
            self.wants_growth[Tier::Storage.index()] = true;
            // Announce first, look again second, as below.
            self.shared.wait_for_room(self.shard);
            if let Some(grant) = self.try_storage(request.bytes) {
                return Admission::Granted(grant);
            }
            if self.shared.can_grow(Tier::Storage) {
                return Admission::Wait(Tier::Storage);
            }
        }
        if let Some(admission) = self.make_storage_room(blocks) {
            return admission;
        }
        if self.shared.keeps_all() {
            return Admission::Full;
        }
        // Announce first, look again second; the others show a change first and look for a waiter
        // second: one of the two sees the other.
        self.shared.wait_for_room(self.shard);
        if let Some(grant) = self.try_storage(request.bytes) {
            return Admission::Granted(grant);
        }
        self.make_storage_room(blocks).unwrap_or(Admission::Wait(Tier::Storage))
    }

    fn make_storage_room(&mut self, blocks: u64) -> Option<Admission> {
        let need_bytes = self.lack_blocks(blocks) * BLOCK_BYTES;
        let ask = Ask { tier: Tier::Storage, need_bytes, excess_blocks: 0 };
        // Space that lies idle with another shard comes before anyone's entry.
        if let Some(shard) = self.shared.richest_shard(self.shard) {
            return Some(Admission::AskShard { shard, ask });
        }
        if self.shared.keeps_all() { None } else { self.evict_oldest(ask) }
    }

    /// Has the oldest entry of storage leave; none where all are pinned.
    fn evict_oldest(&mut self, ask: Ask) -> Option<Admission> {
        match self.shared.oldest_shard(Tier::Storage)? {
            shard if shard == self.shard => {
                let victim = self.begin_evict(Tier::Storage).expect("the tail shown is the list's");
                Some(Admission::Evict(victim))
            }
            shard => Some(Admission::AskShard { shard, ask }),
        }
    }

    /// Blocks that the pools must have for an entry of `blocks` to find its place, at most.
    fn lack_blocks(&self, blocks: u64) -> u64 {
        let shared = &self.shared;
        // Which drive will have room for all of it is not known yet.
        if shared.drives() > 1 && shared.spread.is_whole(blocks, shared.largest_drive_blocks()) {
            return blocks;
        }
        let alive = (0..shared.drives()).filter(|&drive| !shared.pools[drive].is_lost());
        let free: u64 = alive.map(|drive| self.spaces.on(drive).free_blocks()).sum();
        blocks.saturating_sub(free)
    }

    fn try_storage(&mut self, bytes: u64) -> Option<Grant> {
        let blocks = self.shared.entry_blocks(bytes);
        let is_had = match self.shared.drives() {
            1 => {
                self.parts.clear();
                self.parts.push(blocks);
                self.lease_for(0, blocks)
            }
            _ => self.divide(blocks),
        };
        if !is_had {
            return None;
        }
        let extents = self.spaces.allocate(&self.parts);
        self.granted_blocks += blocks;
        self.shared.store_blocks(extents.blocks());
        Some(Grant { tier: Tier::Storage, bytes, extents, entered: true })
    }

    /// Finds each drive's part, and leases what it takes for it.
    fn divide(&mut self, blocks: u64) -> bool {
        for _ in 0..DIVISIONS_MAX {
            self.rooms.clear();
            for (index, pool) in self.shared.pools.iter().enumerate() {
                let is_lost = pool.is_lost();
                let own_blocks = self.spaces.on(index).free_blocks();
                self.rooms.push(Room {
                    capacity: pool.capacity_blocks(),
                    free: if is_lost { 0 } else { own_blocks + pool.available_blocks() },
                    to_come: pool.blocks_to_come(),
                    waiting: self.waiting_blocks[index],
                });
            }
            if !self.shared.spread.divide(blocks, &self.rooms, &mut self.parts) {
                return false;
            }
            // What was leased for a division that another shard was ahead of stays for the next.
            if (0..self.parts.len()).all(|drive| self.lease_for(drive, self.parts[drive])) {
                return true;
            }
        }
        false
    }

    /// Whether this shard has so many blocks free on that drive, with what it can lease.
    fn lease_for(&mut self, drive: usize, blocks: u64) -> bool {
        let lack_blocks = blocks.saturating_sub(self.spaces.on(drive).free_blocks());
        if lack_blocks == 0 {
            return true;
        }
        let Some(lot) = self.shared.pools[drive].try_lease(lack_blocks) else { return false };
        self.take_lot(drive, lot);
        self.foresee(Tier::Storage);
        true
    }

    fn take_lot(&mut self, drive: usize, lot: Lot) {
        let pool = &self.shared.pools[drive];
        let space = self.spaces.on_mut(drive);
        for _ in 0..lot.full {
            let part = u64::from(self.shard.0);
            let number = pool.claim_number(part, u64::from(self.shared.shards()));
            space.add_segment(number, pool.segment_blocks());
        }
        if lot.short {
            space.add_segment(pool.short_number(), pool.short_blocks());
        }
    }

    /// Makes segments free for all shards.
    pub fn return_segments(&mut self, segments: Vec<SegmentLease>) {
        for lease in &segments {
            self.shared.pools[lease.drive.index()].put_back(lease);
        }
        self.wake_room |= !segments.is_empty();
    }

    /// Takes the physical space of a grant as soon as it is free. On storage it always is.
    pub fn enter(&mut self, grant: &mut Grant, holds_door: bool) -> Enter {
        if grant.entered {
            return Enter::Entered;
        }
        let (tier, bytes) = (grant.tier, grant.bytes);
        if self.shared.is_overcommitted(tier) {
            return Enter::Withdrawn;
        }
        if !holds_door {
            if !self.shared.door(tier).is_free() || !self.shared.try_use(tier, bytes) {
                return Enter::NeedDoor;
            }
        } else if !self.shared.try_use(tier, bytes) {
            // As for room: announce, then look again.
            self.shared.wait_at_door(tier, self.shard);
            self.wants_growth[tier.index()] = true;
            if self.shared.is_overcommitted(tier) {
                return Enter::Withdrawn;
            }
            if !self.shared.try_use(tier, bytes) {
                return Enter::Wait;
            }
        }
        self.foresee(tier);
        self.entered_bytes[tier.index()] += bytes;
        grant.entered = true;
        Enter::Entered
    }

    /// Gives a grant back.
    pub fn cancel(&mut self, grant: Grant) {
        self.cancel_quietly(grant);
        self.settle();
    }

    pub(super) fn cancel_quietly(&mut self, grant: Grant) {
        let Grant { tier, bytes, extents, entered, .. } = grant;
        if tier == Tier::Storage {
            self.granted_blocks -= extents.blocks();
            self.free_extents(&extents);
            return;
        }
        self.granted_bytes[tier.index()] -= bytes;
        self.shared.uncommit(tier, bytes);
        if entered {
            self.entered_bytes[tier.index()] -= bytes;
            self.unuse(tier, bytes);
        }
    }

    /// A grant became an entry: its share of the ledgers is the entry's from now on.
    pub(super) fn forget_grant(&mut self, tier: Tier, bytes: u64, blocks: u64) {
        if tier == Tier::Storage {
            self.granted_blocks -= blocks;
        } else {
            self.granted_bytes[tier.index()] -= bytes;
            self.entered_bytes[tier.index()] -= bytes;
        }
    }

    /// Takes the least recently used entry of `tier` out: from storage it is deleted, above it
    /// begins to move, pinned for its mover. None when all are pinned.
    pub fn begin_evict(&mut self, tier: Tier) -> Option<Victim> {
        let id = EntryId(self.lists[tier.index()].oldest()?);
        let (key, bytes, version) = {
            let slot = &self.table[id];
            (slot.key, slot.bytes, slot.version)
        };
        let to = self.shared.next_below(tier, bytes);
        self.counts[tier.index()].evicted_entries += 1;
        self.counts[tier.index()].evicted_bytes += bytes;
        if tier == Tier::Storage {
            self.kill(id);
        } else {
            self.lists[tier.index()].remove(&mut self.table.links, id.0);
            let slot = &mut self.table[id];
            slot.state = EntryState::Moving;
            slot.pins += 1;
            self.shared.uncommit(tier, bytes);
        }
        self.settle();
        Some(Victim { id, key, bytes, version, from: tier, to })
    }

    /// Carries out another shard's request, after a look whether the need still stands. Storage: it
    /// deletes its oldest entries until a segment is free or another shard's tail is older.
    pub fn evict_for_other(&mut self, ask: Ask) -> ForOther {
        if ask.tier != Tier::Storage {
            if self.shared.at_target(ask.tier, ask.need_bytes) {
                return ForOther::Nothing;
            }
            return self.begin_evict(ask.tier).map_or(ForOther::Nothing, ForOther::Demote);
        }
        let need_blocks = blocks_for(ask.need_bytes);
        let mut deleted_entries = 0;
        let mut segments = Vec::new();
        let mut found_blocks = self.shared.available_for(need_blocks);
        if found_blocks >= need_blocks && ask.excess_blocks == 0 {
            return ForOther::Nothing;
        }
        let mut freed_blocks = 0;
        let leaves = |freed_blocks, free_segments| match ask.excess_blocks {
            0 => free_segments == 0,
            excess => freed_blocks < excess,
        };
        while !self.shared.keeps_all()
            && leaves(freed_blocks, self.spaces.free_segments())
            && self.shared.oldest_shard(Tier::Storage) == Some(self.shard)
        {
            let victim = self.begin_evict(Tier::Storage).expect("the tail shown is the list's");
            assert!(victim.to.is_none(), "storage is the last tier");
            freed_blocks += self.shared.entry_blocks(victim.bytes);
            deleted_entries += 1;
        }
        while found_blocks < need_blocks
            && let Some(lease) = self.spaces.take_back_segment()
        {
            // Where an entry must lie on one drive, what others get back is no help: all goes.
            let counts = self.shared.drives() == 1
                || !self.shared.spread.is_whole(need_blocks, self.shared.largest_drive_blocks());
            found_blocks += if counts { lease.blocks } else { 0 };
            segments.push(lease);
        }
        self.settle();
        ForOther::Freed { deleted_entries, segments }
    }
}
