//! The waterfall: who gets in, who must leave, and where storage space comes from.

use super::entry::{EntryId, EntryState};
use super::extent::ExtentList;
use super::pool::{Lot, SegmentLease};
use super::state::Placement;
use super::step::{Admission, AdmitState, Ask, Enter, ForOther, Grant, Victim};
use super::watermark::below;
use crate::key::Tier;
use crate::units::{BLOCK_BYTES, blocks_for};

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
                Some(Admission::AskShard { shard, ask: Ask { tier, need_bytes: bytes } })
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
        let blocks = blocks_for(request.bytes);
        let limit_blocks = self.shared.pool.capacity_blocks();
        if blocks > limit_blocks {
            return Admission::Refused { limit_bytes: limit_blocks * BLOCK_BYTES };
        }
        let holds_baton = request.baton == Some(Tier::Storage);
        if (holds_baton || self.shared.baton(Tier::Storage).is_free())
            && let Some(grant) = self.try_storage(request.bytes)
        {
            return Admission::Granted(grant);
        }
        if !holds_baton {
            return Admission::NeedBaton(Tier::Storage);
        }
        // Nobody's entry has to go for space that is only on its way.
        if self.shared.pool.can_grow() {
            self.wants_growth[Tier::Storage.index()] = true;
            // Announce first, look again second, as below.
            self.shared.wait_for_room(self.shard);
            if let Some(grant) = self.try_storage(request.bytes) {
                return Admission::Granted(grant);
            }
            if self.shared.pool.can_grow() {
                return Admission::Wait(Tier::Storage);
            }
        }
        if let Some(admission) = self.make_storage_room(blocks) {
            return admission;
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
        let lack_blocks = blocks.saturating_sub(self.allocator.free_blocks());
        let ask = Ask { tier: Tier::Storage, need_bytes: lack_blocks * BLOCK_BYTES };
        // Space that lies idle with another shard comes before anyone's entry.
        if let Some(shard) = self.shared.richest_shard(self.shard) {
            return Some(Admission::AskShard { shard, ask });
        }
        match self.shared.oldest_shard(Tier::Storage)? {
            shard if shard == self.shard => {
                let victim = self.begin_evict(Tier::Storage).expect("the tail shown is the list's");
                Some(Admission::Evict(victim))
            }
            shard => Some(Admission::AskShard { shard, ask }),
        }
    }

    fn try_storage(&mut self, bytes: u64) -> Option<Grant> {
        let blocks = blocks_for(bytes);
        let lack_blocks = blocks.saturating_sub(self.allocator.free_blocks());
        if lack_blocks > 0 {
            let lot = self.shared.pool.try_lease(lack_blocks)?;
            self.take_lot(lot);
            self.foresee(Tier::Storage);
        }
        let extents = self.allocator.allocate(blocks).expect("so many blocks are free");
        self.granted_blocks += blocks;
        Some(Grant { tier: Tier::Storage, bytes, extents, entered: true })
    }

    fn take_lot(&mut self, lot: Lot) {
        let pool = &self.shared.pool;
        for _ in 0..lot.full {
            let part = u64::from(self.shard.0);
            let number = pool.claim_number(part, u64::from(self.shared.shards()));
            self.allocator.add_segment(number, pool.segment_blocks());
        }
        if lot.short {
            self.allocator.add_segment(pool.short_number(), pool.short_blocks());
        }
    }

    /// Makes segments free for all shards.
    pub fn return_segments(&mut self, segments: Vec<SegmentLease>) {
        for lease in &segments {
            self.shared.pool.put_back(lease);
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
            self.lists[tier.index()].remove(&mut self.table.slots, id.0);
            let slot = &mut self.table[id];
            slot.state = EntryState::Moving;
            slot.pins += 1;
            self.shared.uncommit(tier, bytes);
        }
        self.settle();
        Some(Victim { id, key, bytes, version, from: tier, to })
    }

    /// What an asked shard does, after a look whether the need still stands. Storage: it deletes
    /// its oldest entries until a segment is free or another shard's tail is older.
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
        let mut found_blocks = self.shared.pool.available_blocks();
        if found_blocks >= need_blocks {
            return ForOther::Nothing;
        }
        while self.allocator.free_segments() == 0
            && self.shared.oldest_shard(Tier::Storage) == Some(self.shard)
        {
            let victim = self.begin_evict(Tier::Storage).expect("the tail shown is the list's");
            assert!(victim.to.is_none(), "storage is the last tier");
            deleted_entries += 1;
        }
        while found_blocks < need_blocks
            && let Some((number, blocks)) = self.allocator.take_back_segment()
        {
            let start_block = number * self.shared.pool.segment_blocks();
            segments.push(SegmentLease { number, start_block, blocks });
            found_blocks += blocks;
        }
        self.settle();
        ForOther::Freed { deleted_entries, segments }
    }
}
