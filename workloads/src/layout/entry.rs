//! A layout for entries of any length, which are moved part by part: each part is an object, and
//! what is left over at the end is a smaller one.

use std::ops::Range;
use std::sync::Arc;

use super::engine::EngineLayout;
use super::names::chunk_digest;
use super::operations::{EngineWorkers, ObjectScript};
use super::options::LayoutOption;
use super::plan::{CONVERSATION_MS, KvObject, LayoutPlan, LayoutWork, PAGE_BYTES};

/// Objects in flight where the engine's own limits are left aside.
pub const OURS_IN_FLIGHT: u64 = 64;

/// Part of an entry, an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryPart {
    /// Number of the entry, which no other has.
    pub entry: u64,
    /// Number of the part in the entry, from 0 on: of a chunk's, each rank has one.
    pub index: u64,
    /// Bytes of KV cache in it.
    pub bytes: u64,
    /// Number of its slot in its file, in a layout that has slots.
    pub slot: u64,
}

impl LayoutPlan {
    /// Bytes of KV cache in an object of a whole chunk; none where an object has all of a prefix.
    pub fn chunk_bytes(&self) -> Option<u64> {
        Some(self.options().value(LayoutOption::ChunkTokens)? * self.rank_token_bytes())
    }

    /// KV bytes of a token in the objects of all ranks that have any, with copies.
    pub fn entry_token_bytes(&self) -> u64 {
        self.writers() * self.rank_token_bytes()
    }

    /// Number of files that slots lie in.
    pub fn slot_files(&self) -> u64 {
        match self.layout() {
            EngineLayout::LmcacheRaw => 1,
            EngineLayout::Nixl => self.writers(),
            _ => 0,
        }
    }

    /// Number of the file that a part's slot lies in.
    pub fn slot_file(&self, index: u64) -> u64 {
        index % self.slot_files().max(1)
    }

    /// Number of tokens of a context of which all are stored or none: what is left at its end is
    /// dropped. 1 where all of it is stored.
    pub fn whole_tokens(&self) -> u32 {
        let tokens = self.options().value(LayoutOption::ChunkTokens);
        let tokens = tokens.filter(|_| !self.keeps_tail()).unwrap_or(1);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Number of threads for that direction, where it has threads of its own; else for both.
    pub fn entry_threads(&self, work: LayoutWork) -> u64 {
        let threads = |work| match self.workers(work) {
            EngineWorkers::Threads(count) | EngineWorkers::Queue(count) => count,
        };
        match self.shares_threads() {
            true => threads(LayoutWork::Load).max(threads(LayoutWork::Store)),
            false => threads(work),
        }
    }

    /// Number of threads for both directions together.
    pub fn entry_threads_all(&self) -> u64 {
        let of_loads = if self.shares_threads() { 0 } else { self.entry_threads(LayoutWork::Load) };
        self.entry_threads(LayoutWork::Store) + of_loads
    }

    /// Whether the same threads load and store. HiCache has one that fetches ahead, and one that
    /// backs up; LMCache's slots have some for either.
    pub fn shares_threads(&self) -> bool {
        !matches!(self.layout(), EngineLayout::Hicache | EngineLayout::LmcacheRaw)
    }

    /// Whether several workers move a request's objects; else one takes them all, in their order.
    pub fn divides_requests(&self) -> bool {
        self.turns_of(LayoutWork::Load, u64::MAX) > 1
    }

    /// Parts, among them that of `index`, which one worker takes in their order. Of HiCache's, in
    /// which each rank has workers of its own, those of a rank alone.
    pub fn turn_of(&self, work: LayoutWork, index: u64, parts: u64) -> Range<u64> {
        if self.layout() == EngineLayout::Hicache {
            return index % self.writers()..parts;
        }
        let turns = self.turns_of(work, parts);
        let turn = |turn| parts * turn / turns..parts * (turn + 1) / turns;
        (0..turns).map(turn).find(|turn| turn.contains(&index)).unwrap_or(index..index + 1)
    }

    fn turns_of(&self, work: LayoutWork, parts: u64) -> u64 {
        match self.layout() {
            EngineLayout::Lmcache => self.entry_threads(work).min(parts),
            EngineLayout::Llmd | EngineLayout::Nixl => parts,
            _ => 1,
        }
    }

    /// Operations that store a part of an entry.
    pub fn store_part(&self, part: EntryPart) -> ObjectScript {
        self.stored(&self.object(part))
    }

    /// Loads a part. With the first of a turn, all of that are looked up before.
    pub fn load_part(&self, part: EntryPart, turn: &Range<u64>) -> Vec<ObjectScript> {
        let looked_up = if part.index == turn.start { turn.clone() } else { 0..0 };
        let step = if self.layout() == EngineLayout::Hicache { self.writers() } else { 1 };
        let lookups = looked_up
            .step_by(step as usize)
            .filter_map(|index| self.looked_up(&self.object(EntryPart { index, ..part })));
        lookups.chain([self.loaded(&self.object(part))]).collect()
    }

    /// File that the part is, or lies in.
    pub fn path_of_part(&self, entry: u64, index: u64) -> Arc<str> {
        match self.layout() {
            EngineLayout::Mlperf => {
                format!("conv_{entry}_{CONVERSATION_MS}_turn_{}.npy", index + 1).into()
            }
            _ => {
                let (chunk, rank) = (index / self.writers(), index % self.writers());
                self.path(entry, &chunk_digest(entry, chunk), rank, 0).into()
            }
        }
    }

    /// Length of the longest name of a file or directory, bytes: it has the model's name in it.
    pub fn name_bytes_max(&self) -> usize {
        let path = self.path_of_part(u64::MAX, u64::MAX - 1);
        let temporary = self.temporary(&path);
        let paths = [Some(&path), temporary.as_ref()].into_iter().flatten();
        paths.flat_map(|path| path.split('/')).map(str::len).max().unwrap_or(0)
    }

    fn object(&self, part: EntryPart) -> KvObject {
        let path = self.path_of_part(part.entry, part.index);
        let slot_bytes = self.object_bytes(0).next_multiple_of(PAGE_BYTES);
        let offset_bytes =
            if self.has_slots() { self.slot_offset(part.slot, slot_bytes) } else { 0 };
        let (bytes, rank) = (part.bytes + self.header_bytes(), part.index % self.writers());
        KvObject { path, offset_bytes, bytes, rank }
    }
}
