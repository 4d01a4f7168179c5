//! State of the whole engine rather than of a shard: budgets, storage space, turns. Atomics only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::gate::{SharedGate, shard_id};
use super::growth::Lack;
use super::pool::StoragePool;
use super::spread::{EntryLayout, Spread};
use super::watermark::{StorageEviction, UPPER_COUNT, Watermarks, below};
use crate::clock::Nanos;
use crate::drive::{DRIVES_MAX, DriveId};
use crate::key::{ShardId, TIER_COUNT, Tier};
use crate::units::{BLOCK_BYTES, blocks_for};

/// The stamp of a shard that has nothing to evict.
pub(super) const NO_TAIL: Nanos = Nanos::MAX;
/// In a waiter word: nobody.
const NO_WAITER: u64 = u64::MAX;

/// Budgets of an engine.
#[derive(Clone, Copy, Debug)]
pub struct BudgetConfig {
    /// Shards, at least one.
    pub shards: u16,
    /// Size of the GPU tier in bytes; 0: none.
    pub gpu_bytes: u64,
    /// Size of the CPU tier in bytes; 0: none.
    pub cpu_bytes: u64,
    /// Size of the storage tier in blocks.
    pub storage_blocks: u64,
    /// Blocks of a segment, the step in which storage is leased to shards; at least one.
    pub segment_blocks: u64,
    /// Blocks of which an entry on storage takes a multiple; at least one.
    pub slot_blocks: u64,
    /// Fill rules of the tiers.
    pub watermarks: Watermarks,
}

/// The part of one drive in the storage tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveBudget {
    /// Its size in blocks.
    pub blocks: u64,
    /// Blocks of it that have space already, rounded down to whole segments; by default all.
    pub grown_blocks: u64,
}

/// The two ledgers of a tier above storage, in bytes.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Bytes that may be committed: those there are, while no more memory can be had.
    pub(super) capacity: AtomicU64,
    /// The capacity that the tier was to have.
    pub(super) wanted: u64,
    /// Bytes that may be used: memory that is there already. Changed by one shard at a time
    /// (`begin_growth`).
    pub(super) grown: AtomicU64,
    /// Bytes in the tier once all moves begun and all writes granted are complete.
    committed: AtomicU64,
    /// Bytes that take space in the tier now.
    pub(super) used: AtomicU64,
}

impl Ledger {
    fn new(capacity: u64, grown: u64) -> Ledger {
        Ledger {
            capacity: AtomicU64::new(capacity),
            wanted: capacity,
            grown: AtomicU64::new(grown.min(capacity)),
            committed: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    fn capacity(&self) -> u64 {
        self.capacity.load(SeqCst)
    }
}

/// Notes of a shard for the others, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Board {
    /// Last use of its oldest evictable entry in each tier.
    tails: [AtomicU64; TIER_COUNT],
    /// Wholly free segments it holds.
    free_segments: AtomicU64,
}

/// Budgets of the whole engine, shared by its shards.
#[derive(Debug)]
pub struct SharedBudgets {
    shards: u16,
    watermarks: Watermarks,
    pub(super) ledgers: [Ledger; UPPER_COUNT],
    /// Number of lost drives.
    losses: AtomicU64,
    /// One a drive, at least one.
    pub(super) pools: Box<[StoragePool]>,
    pub(super) spread: Spread,
    slot_blocks: u64,
    /// Blocks of storage that are granted, or hold entries.
    stored_blocks: AtomicU64,
    boards: Box<[Board]>,
    batons: [SharedGate; TIER_COUNT],
    doors: [SharedGate; UPPER_COUNT],
    /// The shard whose baton holder waits for something to become evictable on storage.
    room_waiter: AtomicU64,
    /// The shard whose door holder waits for physical space.
    door_waiters: [AtomicU64; UPPER_COUNT],
    /// Whether a shard takes a step for the tier, which lies above storage.
    pub(super) is_growing: [AtomicBool; UPPER_COUNT],
    pub(super) lacks: [Lack; UPPER_COUNT],
    /// Whether any tier was ever refused space.
    pub(super) is_lacking: AtomicBool,
}

impl SharedBudgets {
    /// The budgets of an engine that holds nothing yet, whose tiers have all of their space.
    pub fn new(config: &BudgetConfig) -> Arc<Self> {
        let drive = DriveBudget { blocks: config.storage_blocks, grown_blocks: u64::MAX };
        Self::on_drives(config, u64::MAX, &[drive], EntryLayout::default(), 1)
    }

    /// The same, with a storage tier on one or several drives, whose sizes are those of `drives`
    /// and not of `config`. Parts of an entry on several drives are multiples of `unit_blocks` ≥ 1.
    ///
    /// # Panics
    /// Without drives, or with more than [`DRIVES_MAX`].
    pub fn on_drives(
        config: &BudgetConfig,
        grown_cpu_bytes: u64,
        drives: &[DriveBudget],
        layout: EntryLayout,
        unit_blocks: u64,
    ) -> Arc<Self> {
        assert!(config.shards > 0, "an engine has at least one shard");
        assert!((1..=DRIVES_MAX).contains(&drives.len()), "{} drives", drives.len());
        assert!(unit_blocks > 0, "a part of an entry holds at least one block");
        assert!(config.slot_blocks > 0, "a slot holds at least one block");
        let pool = |drive: &DriveBudget| {
            StoragePool::new(drive.blocks, config.segment_blocks, drive.grown_blocks)
        };
        let board = |_| Board {
            tails: std::array::from_fn(|_| AtomicU64::new(NO_TAIL.as_ns())),
            free_segments: AtomicU64::new(0),
        };
        Arc::new(SharedBudgets {
            shards: config.shards,
            watermarks: config.watermarks,
            ledgers: [
                Ledger::new(config.gpu_bytes, u64::MAX),
                Ledger::new(config.cpu_bytes, grown_cpu_bytes),
            ],
            losses: AtomicU64::new(0),
            pools: drives.iter().map(pool).collect(),
            spread: Spread { layout, unit_blocks },
            slot_blocks: config.slot_blocks,
            stored_blocks: AtomicU64::new(0),
            boards: (0..config.shards).map(board).collect(),
            batons: std::array::from_fn(|_| SharedGate::new(1, config.shards)),
            doors: std::array::from_fn(|_| SharedGate::new(1, config.shards)),
            room_waiter: AtomicU64::new(NO_WAITER),
            door_waiters: std::array::from_fn(|_| AtomicU64::new(NO_WAITER)),
            is_growing: std::array::from_fn(|_| AtomicBool::new(false)),
            lacks: Default::default(),
            is_lacking: AtomicBool::new(false),
        })
    }

    /// Number of shards that share the space.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// Who evicts from `tier`: one permit. The holder loops over `Placement::admit`.
    pub fn baton(&self, tier: Tier) -> &SharedGate {
        &self.batons[tier.index()]
    }

    /// Who waits for physical space in `tier`, which lies above storage: one permit.
    pub fn door(&self, tier: Tier) -> &SharedGate {
        &self.doors[tier.index()]
    }

    /// Size of `tier` in bytes: what it may come to hold.
    pub fn capacity_bytes(&self, tier: Tier) -> u64 {
        match self.ledgers.get(tier.index()) {
            Some(ledger) => ledger.capacity(),
            None => self.storage_blocks() * BLOCK_BYTES,
        }
    }

    /// Whether no entry leaves storage to make room.
    pub(super) fn keeps_all(&self) -> bool {
        self.watermarks.storage == StorageEviction::Never
    }

    /// Whether an entry of so many bytes that was refused found storage full, of which nothing ever
    /// leaves; else it is larger than all of it.
    pub fn is_full_for(&self, bytes: u64) -> bool {
        self.keeps_all() && self.entry_blocks(bytes) <= self.storage_blocks()
    }

    /// Blocks that must leave storage before one of `blocks` is stored, by its rule.
    pub(super) fn excess_blocks(&self, blocks: u64, is_evicting: bool) -> u64 {
        let (capacity, stored) = (self.storage_blocks(), self.stored_blocks.load(SeqCst));
        self.watermarks.storage.excess(capacity, stored, blocks, is_evicting)
    }

    pub(super) fn store_blocks(&self, blocks: u64) {
        self.stored_blocks.fetch_add(blocks, SeqCst);
    }

    pub(super) fn unstore_blocks(&self, blocks: u64) {
        let before = self.stored_blocks.fetch_sub(blocks, SeqCst);
        assert!(before >= blocks, "stored blocks fell below zero");
    }

    /// Blocks that an entry of so many bytes takes on storage.
    pub(super) fn entry_blocks(&self, bytes: u64) -> u64 {
        blocks_for(bytes).next_multiple_of(self.slot_blocks)
    }

    /// Bytes that will be in `tier`, above storage, once all that has begun is complete.
    pub fn committed_bytes(&self, tier: Tier) -> u64 {
        self.ledgers[tier.index()].committed.load(SeqCst)
    }

    /// Bytes whose space in `tier`, above storage, is taken now.
    pub fn used_bytes(&self, tier: Tier) -> u64 {
        self.ledgers[tier.index()].used.load(SeqCst)
    }

    /// Storage blocks in segments that no shard holds.
    pub fn unleased_blocks(&self) -> u64 {
        self.pools.iter().map(StoragePool::available_blocks).sum()
    }

    pub(super) fn segment_blocks(&self) -> u64 {
        self.pools[0].segment_blocks()
    }

    /// Number of drives, lost ones included.
    pub fn drives(&self) -> usize {
        self.pools.len()
    }

    /// Whether there was ever to be a storage tier; it may have lost its drives since.
    pub fn has_storage(&self) -> bool {
        self.pools.iter().any(|pool| pool.wanted_blocks() > 0)
    }

    /// Nothing is stored on `drive` from now on, and nothing read from it; the tier is smaller by
    /// it. Each shard is to drop what it has there by `Placement::drop_drive`. Whether that is
    /// news.
    pub fn lose_drive(&self, drive: DriveId) -> bool {
        let is_news = self.pools[drive.index()].lose();
        self.losses.fetch_add(u64::from(is_news), SeqCst);
        is_news
    }

    /// Number of lost drives.
    pub fn losses(&self) -> u64 {
        self.losses.load(SeqCst)
    }

    /// Whether the drive is lost.
    pub fn is_lost(&self, drive: DriveId) -> bool {
        self.pools[drive.index()].is_lost()
    }

    /// Blocks that storage may come to hold.
    fn storage_blocks(&self) -> u64 {
        self.pools.iter().map(StoragePool::capacity_blocks).sum()
    }

    /// Blocks that the largest drive may come to hold.
    pub(super) fn largest_drive_blocks(&self) -> u64 {
        self.pools.iter().map(StoragePool::capacity_blocks).max().unwrap_or(0)
    }

    /// Blocks that nobody holds and that one entry of `blocks` could have.
    pub(super) fn available_for(&self, blocks: u64) -> u64 {
        let alive = self.pools.iter().filter(|pool| !pool.is_lost());
        let available = alive.map(StoragePool::available_blocks);
        match self.spread.is_whole(blocks, self.largest_drive_blocks()) {
            true => available.max().unwrap_or(0),
            false => available.sum(),
        }
    }

    /// The shard with the oldest evictable entry of `tier`; among equals the lowest.
    pub fn oldest_shard(&self, tier: Tier) -> Option<ShardId> {
        let tails = self.boards.iter().map(|board| board.tails[tier.index()].load(SeqCst));
        let (index, stamp) = tails.enumerate().min_by_key(|&(index, stamp)| (stamp, index))?;
        (stamp != NO_TAIL.as_ns()).then(|| shard_id(index))
    }

    /// Another shard than `me` that holds a wholly free segment: the one with most.
    pub(super) fn richest_shard(&self, me: ShardId) -> Option<ShardId> {
        let counts = self.boards.iter().map(|board| board.free_segments.load(SeqCst));
        let others = counts.enumerate().filter(|&(index, count)| index != me.index() && count > 0);
        others.max_by_key(|&(_, count)| count).map(|(index, _)| shard_id(index))
    }

    pub(super) fn set_tail(&self, shard: ShardId, tier: Tier, stamp: Nanos) {
        self.boards[shard.index()].tails[tier.index()].store(stamp.as_ns(), SeqCst);
    }

    pub(super) fn set_free_segments(&self, shard: ShardId, count: u64) {
        self.boards[shard.index()].free_segments.store(count, SeqCst);
    }

    /// Whether entries of `bytes` pass over `tier` (above storage).
    pub(super) fn skips(&self, tier: Tier, bytes: u64) -> bool {
        self.watermarks.skips(self.ledgers[tier.index()].capacity(), bytes)
    }

    /// Whether the tier is down to where eviction for `bytes` ends.
    pub(super) fn at_target(&self, tier: Tier, bytes: u64) -> bool {
        let ledger = &self.ledgers[tier.index()];
        let target = self.watermarks.target(ledger.capacity(), bytes);
        ledger.committed.load(SeqCst).saturating_add(bytes) <= target
    }

    /// Adds to `committed` if it stays within the capacity.
    pub(super) fn try_commit(&self, tier: Tier, bytes: u64) -> bool {
        let ledger = &self.ledgers[tier.index()];
        add_within(&ledger.committed, bytes, ledger.capacity())
    }

    pub(super) fn uncommit(&self, tier: Tier, bytes: u64) {
        let before = self.ledgers[tier.index()].committed.fetch_sub(bytes, SeqCst);
        assert!(before >= bytes, "{}: committed fell below zero", tier.name());
    }

    /// Whether more is committed than the tier can hold, because it has become smaller meanwhile.
    pub(super) fn is_overcommitted(&self, tier: Tier) -> bool {
        let ledger = &self.ledgers[tier.index()];
        ledger.committed.load(SeqCst) > ledger.capacity()
    }

    /// Adds to `used` if it stays within what is there.
    pub(super) fn try_use(&self, tier: Tier, bytes: u64) -> bool {
        let ledger = &self.ledgers[tier.index()];
        add_within(&ledger.used, bytes, ledger.grown.load(SeqCst))
    }

    pub(super) fn unuse(&self, tier: Tier, bytes: u64) {
        let before = self.ledgers[tier.index()].used.fetch_sub(bytes, SeqCst);
        assert!(before >= bytes, "{}: used fell below zero", tier.name());
    }

    /// The next tier below `tier` that exists and does not skip `bytes`.
    pub(super) fn next_below(&self, tier: Tier, bytes: u64) -> Option<Tier> {
        let mut next = below(tier)?;
        while next != Tier::Storage && self.skips(next, bytes) {
            next = below(next)?;
        }
        Some(next)
    }

    pub(super) fn wait_for_room(&self, shard: ShardId) {
        self.room_waiter.store(u64::from(shard.0), SeqCst);
    }

    pub(super) fn wait_at_door(&self, tier: Tier, shard: ShardId) {
        self.door_waiters[tier.index()].store(u64::from(shard.0), SeqCst);
    }

    /// The shard to wake, at most once for each time it waited.
    pub(super) fn take_room_waiter(&self) -> Option<ShardId> {
        take_waiter(&self.room_waiter)
    }

    pub(super) fn take_door_waiter(&self, tier: Tier) -> Option<ShardId> {
        take_waiter(&self.door_waiters[tier.index()])
    }
}

fn add_within(counter: &AtomicU64, bytes: u64, capacity: u64) -> bool {
    counter
        .fetch_update(SeqCst, SeqCst, |before| {
            before.checked_add(bytes).filter(|&after| after <= capacity)
        })
        .is_ok()
}

fn take_waiter(word: &AtomicU64) -> Option<ShardId> {
    if word.load(SeqCst) == NO_WAITER {
        return None;
    }
    u16::try_from(word.swap(NO_WAITER, SeqCst)).ok().map(ShardId)
}
