//! Tiers that take their space while they are used: when a step is due, and what became of it.
//!
//! A step is due as soon as less than half of one is left, so that writers seldom wait for it, and
//! whenever somebody does wait. One shard at a time takes a step for a tier. When none can be had,
//! the tier is as large as it is from then on, and eviction goes on inside it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::pool::StoragePool;
use super::shared::{Ledger, SharedBudgets};
use super::state::Placement;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::key::Tier;
use crate::space::{Step, Steps};
use crate::units::BLOCK_BYTES;

/// What is taken of host memory is a multiple of a huge page.
const MEMORY_UNIT_BYTES: u64 = 2 << 20;

/// What the tiers have of their space at first. By default all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grown {
    /// Of the CPU tier, bytes.
    pub cpu_bytes: u64,
    /// Of storage on one drive, blocks; rounded down to whole segments.
    pub storage_blocks: u64,
}

impl Default for Grown {
    fn default() -> Self {
        Grown { cpu_bytes: u64::MAX, storage_blocks: u64::MAX }
    }
}

/// A step for a tier: take it, then say `end_growth`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Growth {
    /// Which.
    pub tier: Tier,
    /// Of storage, which drive; of another tier, the first.
    pub drive: DriveId,
    /// What to take.
    pub step: Step,
}

/// A tier that got less space than it was to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// Which.
    pub tier: Tier,
    /// What it might have come to hold, bytes.
    pub wanted_bytes: u64,
    /// What it may hold since, bytes.
    pub given_bytes: u64,
    /// Since when.
    pub at: Nanos,
    /// Why: what comes after "because".
    pub why: String,
}

/// What grows: a tier above storage, or a drive of storage.
#[derive(Clone, Copy)]
enum Grower<'a> {
    Tier(Tier, &'a Ledger),
    Drive(DriveId, &'a StoragePool),
}

impl Grower<'_> {
    fn can_grow(self) -> bool {
        match self {
            Grower::Tier(_, ledger) => ledger.grown.load(SeqCst) < ledger.capacity.load(SeqCst),
            Grower::Drive(_, pool) => pool.can_grow(),
        }
    }

    fn grown_bytes(self) -> u64 {
        match self {
            Grower::Tier(_, ledger) => ledger.grown.load(SeqCst),
            Grower::Drive(_, pool) => pool.grown_blocks() * BLOCK_BYTES,
        }
    }

    fn idle_bytes(self) -> u64 {
        match self {
            Grower::Tier(_, ledger) => {
                ledger.grown.load(SeqCst).saturating_sub(ledger.used.load(SeqCst))
            }
            Grower::Drive(_, pool) => pool.available_blocks() * BLOCK_BYTES,
        }
    }

    fn next_step(self) -> Step {
        let have_bytes = self.grown_bytes();
        let (steps, limit_bytes, unit_bytes) = match self {
            Grower::Tier(_, ledger) => {
                (Steps::MEMORY, ledger.capacity.load(SeqCst), MEMORY_UNIT_BYTES)
            }
            Grower::Drive(_, pool) => {
                let limit_bytes = pool.capacity_blocks() * BLOCK_BYTES;
                (Steps::STORAGE, limit_bytes, pool.segment_blocks() * BLOCK_BYTES)
            }
        };
        let want_bytes = steps.step_bytes(have_bytes, limit_bytes, unit_bytes);
        Step { have_bytes, want_bytes, unit_bytes }
    }

    /// Whether a step is due before anybody waits.
    fn is_nearly_out(self) -> bool {
        self.can_grow() && self.idle_bytes() < self.next_step().want_bytes / 2
    }
}

impl SharedBudgets {
    /// Tiers that have become smaller than they were to be; storage as often as one of its drives
    /// has.
    #[must_use]
    pub fn shortages(&self) -> Vec<Shortage> {
        let upper = self.shortages.iter();
        let all = upper.chain(self.pools.iter().map(|pool| &pool.shortage));
        all.filter_map(|shortage| shortage.get().cloned()).collect()
    }

    /// Bytes of `tier` that have space by now.
    #[must_use]
    pub fn grown_bytes(&self, tier: Tier) -> u64 {
        self.growers(tier).map(Grower::grown_bytes).sum()
    }

    /// Whether more space may come for `tier`.
    pub(super) fn can_grow(&self, tier: Tier) -> bool {
        self.growers(tier).any(Grower::can_grow)
    }

    fn growers(&self, tier: Tier) -> impl Iterator<Item = Grower<'_>> {
        let upper = self.ledgers.get(tier.index()).map(|ledger| Grower::Tier(tier, ledger));
        let drives = self.pools.iter().enumerate().filter(move |_| upper.is_none());
        let drives = drives.map(|(index, pool)| Grower::Drive(DriveId::at(index), pool));
        upper.into_iter().chain(drives)
    }

    fn is_growing(&self, grower: Grower<'_>) -> &AtomicBool {
        match grower {
            Grower::Tier(tier, _) => &self.is_growing[tier.index()],
            Grower::Drive(drive, _) => &self.pools[drive.index()].is_growing,
        }
    }

    /// The right to take a step, if one can be taken and nobody else does.
    fn begin_growth(&self, grower: Grower<'_>) -> Option<Growth> {
        let is_growing = self.is_growing(grower);
        if !grower.can_grow() || is_growing.swap(true, SeqCst) {
            return None;
        }
        // Whoever waits for a step has seen that one can be taken, after it had said that it waits:
        // so the step that makes this false wakes it, and the right held for a moment harms nobody.
        if !grower.can_grow() {
            is_growing.store(false, SeqCst);
            return None;
        }
        let (tier, drive) = match grower {
            Grower::Tier(tier, _) => (tier, DriveId::default()),
            Grower::Drive(drive, _) => (Tier::Storage, drive),
        };
        Some(Growth { tier, drive, step: grower.next_step() })
    }

    fn grower(&self, growth: Growth) -> Grower<'_> {
        match self.ledgers.get(growth.tier.index()) {
            Some(ledger) => Grower::Tier(growth.tier, ledger),
            None => Grower::Drive(growth.drive, &self.pools[growth.drive.index()]),
        }
    }

    fn stop_growing(&self, growth: Growth, why: String, at: Nanos) {
        let tier = growth.tier;
        let wanted_bytes = self.capacity_bytes(tier);
        let shortage = match self.grower(growth) {
            Grower::Tier(_, ledger) => {
                ledger.capacity.store(ledger.grown.load(SeqCst), SeqCst);
                &self.shortages[tier.index()]
            }
            Grower::Drive(_, pool) => {
                pool.stop_growing();
                &pool.shortage
            }
        };
        let given_bytes = self.capacity_bytes(tier);
        let is_first = shortage.set(Shortage { tier, wanted_bytes, given_bytes, at, why }).is_ok();
        assert!(is_first, "{}: a tier stops growing once", tier.name());
    }
}

impl<D> Placement<D> {
    /// Notes where a tier will soon be out of space that is there.
    pub(super) fn foresee(&mut self, tier: Tier) {
        let growers = self.shared.growers(tier);
        let is_due = growers.map(Grower::is_nearly_out).fold(false, |any, due| any | due);
        self.wants_growth[tier.index()] |= is_due;
    }

    /// A step to take for a tier. To be asked until None after each `admit` and `enter`, before
    /// anything is awaited.
    pub fn take_growth(&mut self) -> Option<Growth> {
        for tier in Tier::ALL {
            if !self.wants_growth[tier.index()] {
                continue;
            }
            let shared = &self.shared;
            // First what is nearly out; where nothing is, somebody waits for whatever may come.
            let nearly = || shared.growers(tier).filter(|grower| grower.is_nearly_out());
            let any = || shared.growers(tier);
            let growth = match nearly().next() {
                Some(_) => nearly().find_map(|grower| shared.begin_growth(grower)),
                None => any().find_map(|grower| shared.begin_growth(grower)),
            };
            if growth.is_some() {
                return growth;
            }
            self.wants_growth[tier.index()] = false;
        }
        None
    }

    /// The step came to `taken` bytes, or to nothing, for that reason: then the tier is as large as
    /// it is from `now` on. To be followed by `take_wakeup` and `take_growth`.
    pub fn end_growth(&mut self, growth: Growth, taken: Result<u64, String>, now: Nanos) {
        let tier = growth.tier;
        let grower = self.shared.grower(growth);
        match taken {
            Ok(bytes) => {
                let to_bytes = growth.step.have_bytes + bytes;
                match grower {
                    Grower::Tier(_, ledger) => ledger.grown.store(to_bytes, SeqCst),
                    Grower::Drive(_, pool) => pool.grow_to(to_bytes / BLOCK_BYTES),
                }
            }
            Err(why) => self.shared.stop_growing(growth, why, now),
        }
        // First what came, then the right to the next step, then who waits: whoever says that it
        // waits after that finds either the space or the right.
        self.shared.is_growing(self.shared.grower(growth)).store(false, SeqCst);
        match self.wake_door.get_mut(tier.index()) {
            Some(wake_door) => *wake_door = true,
            None => self.wake_room = true,
        }
        self.foresee(tier);
    }
}
