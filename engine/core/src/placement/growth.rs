//! Tiers that take their space while they are used: when a step is due, and what became of it.
//!
//! A step is due as soon as less than half of one is left, so that writers seldom wait for it, and
//! whenever somebody does wait. One shard at a time takes a step for a tier. When none can be had,
//! the tier is as large as it is from then on, and eviction goes on inside it; a step is tried
//! again every few seconds, and with the first that is had the tier may grow as before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::pool::StoragePool;
use super::shared::{Ledger, SharedBudgets};
use super::state::Placement;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::key::Tier;
use crate::space::{SpaceStep, Steps};
use crate::units::BLOCK_BYTES;

/// Unit in which host memory is taken: a huge page.
const MEMORY_UNIT_BYTES: u64 = 2 << 20;
/// A tier that was refused a step is tried again after so long. Space that somebody else held for
/// a while, as a copy of files does, is missed for a few seconds at the most; and a refused step
/// costs a dozen system calls, on a thread beside the shards.
const RETRY_AFTER: Nanos = Nanos::from_secs(5);
/// A time that does not come, ns.
const NEVER: u64 = u64::MAX;

/// A step for a tier: take it, then say `end_growth`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Growth {
    /// The tier that is to get more space.
    pub tier: Tier,
    /// Drive that is to get it, for storage; the first drive, for another tier.
    pub drive: DriveId,
    /// Space there is, and space to take.
    pub step: SpaceStep,
}

/// A tier that got less space than it was to have, for a while or to the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// The tier that is too small.
    pub tier: Tier,
    /// Capacity that the tier might have reached, bytes.
    pub wanted_bytes: u64,
    /// Capacity when the tier was last refused a step, bytes.
    pub given_bytes: u64,
    /// Since when: the first refusal.
    pub at: Nanos,
    /// When it began to grow again; none: it did not, or was refused again.
    pub until: Option<Nanos>,
    /// Why: what comes after "because".
    pub why: String,
}

/// Shortage of space of one tier or drive. Changed only by the holder of the right to take its
/// steps.
#[derive(Debug)]
pub(super) struct Lack {
    first: OnceLock<Shortage>,
    given_bytes: AtomicU64,
    /// When it began to grow again, ns, or `NEVER`.
    ended_at: AtomicU64,
    /// When a step is to be tried again, ns; `NEVER` where none was refused, or one is being tried.
    retry_at: AtomicU64,
}

impl Default for Lack {
    fn default() -> Self {
        Lack {
            first: OnceLock::new(),
            given_bytes: AtomicU64::new(0),
            ended_at: AtomicU64::new(NEVER),
            retry_at: AtomicU64::new(NEVER),
        }
    }
}

impl Lack {
    fn shortage(&self) -> Option<Shortage> {
        let ended_at = self.ended_at.load(SeqCst);
        Some(Shortage {
            given_bytes: self.given_bytes.load(SeqCst),
            until: (ended_at != NEVER).then(|| Nanos::from_ns(ended_at)),
            ..self.first.get()?.clone()
        })
    }

    fn begin(&self, shortage: Shortage) {
        self.given_bytes.store(shortage.given_bytes, SeqCst);
        self.ended_at.store(NEVER, SeqCst);
        self.retry_at.store((shortage.at + RETRY_AFTER).as_ns(), SeqCst);
        self.first.get_or_init(|| shortage);
    }

    fn end(&self, now: Nanos) {
        if self.first.get().is_some() && self.ended_at.load(SeqCst) == NEVER {
            self.ended_at.store(now.as_ns(), SeqCst);
        }
    }

    /// Whether a step is to be tried again now; then the caller alone may do so, or says
    /// `put_off`.
    fn claim_retry(&self, now: Nanos) -> bool {
        let retry_at = self.retry_at.load(SeqCst);
        let is_due = retry_at <= now.as_ns();
        is_due && self.retry_at.compare_exchange(retry_at, NEVER, SeqCst, SeqCst).is_ok()
    }

    fn put_off(&self, now: Nanos) {
        self.retry_at.store(now.as_ns(), SeqCst);
    }
}

/// Taker of space: a tier above storage, or a drive of storage.
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

    /// Whatever it was refused.
    fn next_step(self) -> SpaceStep {
        let have_bytes = self.grown_bytes();
        let (steps, limit_bytes, unit_bytes) = match self {
            Grower::Tier(_, ledger) => (Steps::MEMORY, ledger.wanted, MEMORY_UNIT_BYTES),
            Grower::Drive(_, pool) => {
                let limit_bytes = pool.wanted_blocks() * BLOCK_BYTES;
                (Steps::STORAGE, limit_bytes, pool.segment_blocks() * BLOCK_BYTES)
            }
        };
        let want_bytes = steps.step_bytes(have_bytes, limit_bytes, unit_bytes);
        SpaceStep { have_bytes, want_bytes, unit_bytes }
    }

    /// It has so much now, and may come to have all that was wanted.
    fn grow_to(self, bytes: u64) {
        match self {
            Grower::Tier(_, ledger) => {
                ledger.grown.store(bytes, SeqCst);
                ledger.capacity.store(ledger.wanted, SeqCst);
            }
            Grower::Drive(_, pool) => pool.grow_to(bytes / BLOCK_BYTES),
        }
    }

    /// Makes the present space all that it may have.
    fn stop_growing(self) {
        match self {
            Grower::Tier(_, ledger) => ledger.capacity.store(ledger.grown.load(SeqCst), SeqCst),
            Grower::Drive(_, pool) => pool.stop_growing(),
        }
    }

    fn is_lost(self) -> bool {
        match self {
            Grower::Tier(..) => false,
            Grower::Drive(_, pool) => pool.is_lost(),
        }
    }

    /// Whether a step is due before anybody waits.
    fn is_nearly_out(self) -> bool {
        self.can_grow() && self.idle_bytes() < self.next_step().want_bytes / 2
    }
}

impl SharedBudgets {
    /// Tiers that were smaller than they were to be, for a while or to the end; storage as often as
    /// one of its drives was.
    pub fn shortages(&self) -> Vec<Shortage> {
        let upper = self.lacks.iter();
        let all = upper.chain(self.pools.iter().map(|pool| &pool.lack));
        all.filter_map(Lack::shortage).collect()
    }

    /// Whether a step is being taken at this moment, for any tier.
    pub fn is_taking_space(&self) -> bool {
        let mut growers = Tier::ALL.into_iter().flat_map(|tier| self.growers(tier));
        growers.any(|grower| self.is_growing(grower).load(SeqCst))
    }

    /// Bytes of `tier` that have space by now.
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
        Some(Self::growth(grower))
    }

    /// The right to try a step again that was refused, if it is time to.
    fn begin_retry(&self, grower: Grower<'_>, now: Nanos) -> Option<Growth> {
        let lack = self.lack(grower);
        if grower.is_lost() || !lack.claim_retry(now) {
            return None;
        }
        // A look of `begin_growth` may hold the right for a moment: what can't grow needs no step.
        if self.is_growing(grower).swap(true, SeqCst) {
            lack.put_off(now);
            return None;
        }
        Some(Self::growth(grower))
    }

    fn growth(grower: Grower<'_>) -> Growth {
        let (tier, drive) = match grower {
            Grower::Tier(tier, _) => (tier, DriveId::default()),
            Grower::Drive(drive, _) => (Tier::Storage, drive),
        };
        Growth { tier, drive, step: grower.next_step() }
    }

    fn lack(&self, grower: Grower<'_>) -> &Lack {
        match grower {
            Grower::Tier(tier, _) => &self.lacks[tier.index()],
            Grower::Drive(drive, _) => &self.pools[drive.index()].lack,
        }
    }

    fn grower(&self, growth: Growth) -> Grower<'_> {
        match self.ledgers.get(growth.tier.index()) {
            Some(ledger) => Grower::Tier(growth.tier, ledger),
            None => Grower::Drive(growth.drive, &self.pools[growth.drive.index()]),
        }
    }

    fn stop_growing(&self, growth: Growth, why: String, at: Nanos) {
        let (tier, grower) = (growth.tier, self.grower(growth));
        let wanted_bytes = self.capacity_bytes(tier);
        grower.stop_growing();
        let given_bytes = self.capacity_bytes(tier);
        let shortage = Shortage { tier, wanted_bytes, given_bytes, at, until: None, why };
        self.lack(grower).begin(shortage);
        self.is_lacking.store(true, SeqCst);
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

    /// Whether a tier was ever refused a step: only then is `take_retry` worth a look at the clock.
    pub fn may_retry(&self) -> bool {
        self.shared.is_lacking.load(SeqCst)
    }

    /// A step to try again for a tier that was refused one some seconds ago; to be asked where
    /// `take_growth` has none, and ended as its steps are.
    pub fn take_retry(&mut self, now: Nanos) -> Option<Growth> {
        let shared = &self.shared;
        let of = |tier| shared.growers(tier).find_map(|grower| shared.begin_retry(grower, now));
        Tier::ALL.into_iter().find_map(of)
    }

    /// The step came to `taken` bytes, or to nothing, for that reason: then the tier is as large as
    /// it is until a step is tried again. To be followed by `take_wakeup` and `take_growth`.
    pub fn end_growth(&mut self, growth: Growth, taken: Result<u64, String>, now: Nanos) {
        let tier = growth.tier;
        let grower = self.shared.grower(growth);
        match taken {
            Ok(bytes) => {
                grower.grow_to(growth.step.have_bytes + bytes);
                self.shared.lack(grower).end(now);
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
