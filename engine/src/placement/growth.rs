//! Tiers that take their space while they are used: when a step is due, and what became of it.
//!
//! A step is due as soon as less than half of one is left, so that writers seldom wait for it, and
//! whenever somebody does wait. One shard at a time takes a step for a tier. When none can be had,
//! the tier is as large as it is from then on, and eviction goes on inside it.

use std::sync::atomic::Ordering::SeqCst;

use super::shared::SharedBudgets;
use super::state::Placement;
use crate::clock::Nanos;
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
    /// Of storage, blocks; rounded down to whole segments.
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

impl SharedBudgets {
    /// Tiers that have become smaller than they were to be.
    #[must_use]
    pub fn shortages(&self) -> Vec<Shortage> {
        self.shortages.iter().filter_map(|shortage| shortage.get().cloned()).collect()
    }

    /// Bytes of `tier` that have space by now.
    #[must_use]
    pub fn grown_bytes(&self, tier: Tier) -> u64 {
        match self.ledgers.get(tier.index()) {
            Some(ledger) => ledger.grown.load(SeqCst),
            None => self.pool.grown_blocks() * BLOCK_BYTES,
        }
    }

    fn can_grow(&self, tier: Tier) -> bool {
        match self.ledgers.get(tier.index()) {
            Some(ledger) => ledger.grown.load(SeqCst) < ledger.capacity.load(SeqCst),
            None => self.pool.can_grow(),
        }
    }

    fn idle_bytes(&self, tier: Tier) -> u64 {
        match self.ledgers.get(tier.index()) {
            Some(ledger) => ledger.grown.load(SeqCst).saturating_sub(ledger.used.load(SeqCst)),
            None => self.pool.available_blocks() * BLOCK_BYTES,
        }
    }

    fn next_step(&self, tier: Tier) -> Step {
        let (have_bytes, limit_bytes) = (self.grown_bytes(tier), self.capacity_bytes(tier));
        let (steps, unit_bytes) = match tier {
            Tier::Storage => (Steps::STORAGE, self.pool.segment_blocks() * BLOCK_BYTES),
            Tier::Gpu | Tier::Cpu => (Steps::MEMORY, MEMORY_UNIT_BYTES),
        };
        let want_bytes = steps.step_bytes(have_bytes, limit_bytes, unit_bytes);
        Step { have_bytes, want_bytes, unit_bytes }
    }

    /// Whether a step is due before anybody waits.
    fn is_nearly_out(&self, tier: Tier) -> bool {
        self.can_grow(tier) && self.idle_bytes(tier) < self.next_step(tier).want_bytes / 2
    }

    /// The right to take a step for `tier`, if one can be taken and nobody else does.
    fn begin_growth(&self, tier: Tier) -> Option<Growth> {
        if !self.can_grow(tier) || self.is_growing[tier.index()].swap(true, SeqCst) {
            return None;
        }
        // Whoever waits for a step has seen that one can be taken, after it had said that it waits:
        // so the step that makes this false wakes it, and the right held for a moment harms nobody.
        if !self.can_grow(tier) {
            self.is_growing[tier.index()].store(false, SeqCst);
            return None;
        }
        Some(Growth { tier, step: self.next_step(tier) })
    }

    fn grow(&self, growth: Growth, taken_bytes: u64) {
        let to_bytes = growth.step.have_bytes + taken_bytes;
        match self.ledgers.get(growth.tier.index()) {
            Some(ledger) => ledger.grown.store(to_bytes, SeqCst),
            None => self.pool.grow_to(to_bytes / BLOCK_BYTES),
        }
    }

    fn stop_growing(&self, tier: Tier, why: String, at: Nanos) {
        let (wanted_bytes, given_bytes) = (self.capacity_bytes(tier), self.grown_bytes(tier));
        match self.ledgers.get(tier.index()) {
            Some(ledger) => ledger.capacity.store(given_bytes, SeqCst),
            None => self.pool.stop_growing(),
        }
        let shortage = Shortage { tier, wanted_bytes, given_bytes, at, why };
        let is_first = self.shortages[tier.index()].set(shortage).is_ok();
        assert!(is_first, "{}: a tier stops growing once", tier.name());
    }
}

impl<D> Placement<D> {
    /// Notes when a tier will soon be out of space that is there.
    pub(super) fn foresee(&mut self, tier: Tier) {
        self.wants_growth[tier.index()] |= self.shared.is_nearly_out(tier);
    }

    /// A step to take for a tier. To be asked until None after each `admit` and `enter`, before
    /// anything is awaited.
    pub fn take_growth(&mut self) -> Option<Growth> {
        for tier in Tier::ALL {
            if std::mem::take(&mut self.wants_growth[tier.index()])
                && let Some(growth) = self.shared.begin_growth(tier)
            {
                return Some(growth);
            }
        }
        None
    }

    /// The step came to `taken` bytes, or to nothing, for that reason: then the tier is as large as
    /// it is from `now` on. To be followed by `take_wakeup` and `take_growth`.
    pub fn end_growth(&mut self, growth: Growth, taken: Result<u64, String>, now: Nanos) {
        let tier = growth.tier;
        match taken {
            Ok(bytes) => self.shared.grow(growth, bytes),
            Err(why) => self.shared.stop_growing(tier, why, now),
        }
        // First what came, then the right to the next step, then who waits: whoever says that it
        // waits after that finds either the space or the right.
        self.shared.is_growing[tier.index()].store(false, SeqCst);
        match self.wake_door.get_mut(tier.index()) {
            Some(wake_door) => *wake_door = true,
            None => self.wake_room = true,
        }
        self.foresee(tier);
    }
}
