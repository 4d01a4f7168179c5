//! The words of an admission: what is asked, what is promised, what is to be done next. Plain
//! values;
//! `admission` decides them, and whoever runs a shard carries them out.

use super::entry::EntryId;
use super::extent::ExtentList;
use super::pool::SegmentLease;
use super::watermark::below;
use crate::key::{EntryKey, ShardId, Tier};

/// Progress of the admission of one write or one move.
#[derive(Debug)]
pub struct AdmitState {
    pub(super) bytes: u64,
    pub(super) tier: Tier,
    /// The first tier that was to be tried.
    top: Tier,
    /// Not this one, and none below it.
    pub(super) stop: Option<Tier>,
    pub(super) baton: Option<Tier>,
    pub(super) evicting: bool,
}

impl AdmitState {
    /// A new write of `bytes` ≥ 1: any tier, fastest first.
    pub fn new(bytes: u64) -> Self {
        Self::from_tier(bytes, Tier::Gpu)
    }

    /// The move of a victim: the tiers below the one it leaves. None when there is none: a storage
    /// victim is gone already.
    pub fn for_victim(victim: &Victim) -> Option<Self> {
        Some(Self::from_tier(victim.bytes, below(victim.from)?))
    }

    /// The way up of an entry that is in `from`: the tiers above it, fastest first. None when there
    /// is none.
    pub fn for_promotion(bytes: u64, from: Tier) -> Option<Self> {
        let stop = Some(from);
        (from != Tier::Gpu).then(|| AdmitState { stop, ..Self::from_tier(bytes, Tier::Gpu) })
    }

    fn from_tier(bytes: u64, tier: Tier) -> Self {
        assert!(bytes > 0, "an entry holds at least one byte");
        AdmitState { bytes, tier, top: tier, stop: None, baton: None, evicting: false }
    }

    /// Begins anew below `tier`, which has promised room and has none in fact; its grant has been
    /// given back.
    pub fn pass_over(&mut self, tier: Tier) {
        self.top = below(tier).unwrap_or(Tier::Storage);
        self.begin_again();
    }

    /// Begins anew, after `Enter::Withdrawn`.
    pub fn begin_again(&mut self) {
        assert!(self.baton.is_none(), "a grant comes after the baton was given back");
        self.tier = self.top;
        self.evicting = false;
    }

    /// The caller got the permit of `SharedBudgets::baton(tier)` for this admission.
    pub fn baton_acquired(&mut self, tier: Tier) {
        assert!(self.baton.is_none(), "an admission holds one baton at a time");
        self.baton = Some(tier);
        self.evicting = false;
    }

    /// The baton to give back by `SharedBudgets::baton(tier).release()`: to be asked after
    /// `Granted`, `Refused` and `ReleaseBaton`, and when the admission is given up.
    #[must_use]
    pub fn take_baton(&mut self) -> Option<Tier> {
        self.baton.take()
    }
}

/// Next step of an admission.
#[must_use]
#[derive(Debug)]
pub enum Admission {
    /// The space is promised. Give back the baton, if held.
    Granted(Grant),
    /// An own entry had to go. Above storage: send it down, beside this admission or within it, and
    /// call again at once. From storage it has been deleted.
    Evict(Victim),
    /// Another shard is to make room: send it `ask`, await its answer, call again.
    AskShard {
        /// Whom to ask.
        shard: ShardId,
        /// Request to send.
        ask: Ask,
    },
    /// Get this tier's baton, say `baton_acquired`, call again.
    NeedBaton(Tier),
    /// This tier is full of pinned entries, the next one is to be tried: give back the baton, call
    /// again.
    ReleaseBaton(Tier),
    /// Storage is full, and none of its entries ever leaves: give back the baton, if held.
    Full,
    /// No tier can ever hold it. `limit_bytes` is the size of storage; 0 for a promotion, when no
    /// tier above has room for it. Give back the baton, if held.
    Refused {
        /// The largest entry that could be held.
        limit_bytes: u64,
    },
    /// All of storage is pinned, or more space is on its way: keep the baton, await the `Room`
    /// wakeup, call again.
    Wait(Tier),
}

/// Space promised for one entry. It is turned into an entry by `insert_writing` or `finish_move`,
/// or given back by `cancel`; dropped, its space is lost for the run.
#[must_use]
#[derive(Debug)]
pub struct Grant {
    /// The tier in which space is promised.
    pub tier: Tier,
    /// The entry's size in bytes.
    pub bytes: u64,
    /// Where on storage; empty for another tier.
    pub extents: ExtentList,
    pub(super) entered: bool,
}

/// Whether an entry's space is free by now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Enter {
    /// It is taken for this entry: allocate it.
    Entered,
    /// Others wait, or there is none yet: get the permit of `SharedBudgets::door(tier)`, call again
    /// with it, and release it once entered.
    NeedDoor,
    /// With the door's permit in hand: await the `Door` wakeup, call again.
    Wait,
    /// The tier has become smaller than what was promised of it: give the grant back by `cancel`,
    /// and ask for admission anew.
    Withdrawn,
}

/// An entry that must leave its tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Victim {
    /// Its place. It counts as pinned until `finish_move` or `move_failed`. From storage: gone.
    pub id: EntryId,
    /// Key by which callers know the evicted entry.
    pub key: EntryKey,
    /// Its size in bytes.
    pub bytes: u64,
    /// Which write of the shard made the evicted entry; see
    /// [`EntryView::version`](super::EntryView).
    pub version: u32,
    /// The tier it leaves.
    pub from: Tier,
    /// The tier to try first below; None: it has been deleted.
    pub to: Option<Tier>,
}

/// Request of one shard to another for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Where room is needed.
    pub tier: Tier,
    /// Room needed, bytes: above storage the size of the entry, on storage what the asker lacks.
    pub need_bytes: u64,
    /// Blocks that are to leave storage whether or not there is room.
    pub excess_blocks: u64,
}

/// Answer of the asked shard's placement.
#[derive(Debug)]
#[must_use]
pub enum ForOther {
    /// There is room by now, or nothing to evict here: just answer.
    Nothing,
    /// Answer at once, then send this one down.
    Demote(Victim),
    /// Storage: entries deleted, and segments taken out of the shard's use: `return_segments`, then
    /// answer.
    Freed {
        /// Number of entries deleted.
        deleted_entries: u64,
        /// The segments to return; may be empty.
        segments: Vec<SegmentLease>,
    },
}
