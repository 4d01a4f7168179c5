//! One entry's metadata, and the slab and index that hold them.

use hashbrown::HashTable;

use super::extent::ExtentList;
use super::lru::{INDEX_LIMIT, Neighbours};
use crate::clock::Nanos;
use crate::key::{EntryKey, Tier};

/// Place of an entry in its shard's slab. Valid while the entry is resident or the holder has it
/// pinned; afterwards the number is used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntryId(pub(super) u32);

/// The phase an entry is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryState {
    /// Its first bytes are on their way: not to be read yet.
    Writing,
    /// To be read from its tier.
    Resident,
    /// Going down a tier; to be read from where it was.
    Moving,
    /// Removed; kept until its last user lets go. Never found by a lookup.
    Dead,
}

/// View of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryView {
    /// Place of the entry in its shard's slab; valid while the entry is resident or pinned.
    pub id: EntryId,
    /// Key by which callers know the entry.
    pub key: EntryKey,
    /// The tier it is to be read from.
    pub tier: Tier,
    /// Its size in bytes.
    pub bytes: u64,
    /// Which write of this shard made it: no two entries of one key have the same.
    pub version: u32,
    /// State of the entry: being written, resident, being moved, or removed.
    pub state: EntryState,
}

/// An entry. `D` is what its tier keeps of it: a buffer's handle, for instance.
pub(super) struct Slot<D> {
    pub(super) key: EntryKey,
    pub(super) bytes: u64,
    pub(super) stamp: Nanos,
    pub(super) extents: ExtentList,
    pub(super) data: Option<D>,
    pub(super) version: u32,
    pub(super) pins: u32,
    pub(super) tier: Tier,
    pub(super) state: EntryState,
}

/// Memory that one entry takes besides its data handle, bytes: the slot, its share of the index (a
/// u32 and a control byte at a load of at least 7/16), and the free extent it may leave behind (a
/// node and two index shares). At most 200 bytes.
const METADATA_BYTES: usize = {
    let index_share = (size_of::<u32>() + 1) * 16 / 7;
    let free_extent =
        size_of::<super::extent::Extent>() + size_of::<Neighbours>() + 2 * index_share;
    size_of::<Slot<()>>() + size_of::<Neighbours>() + index_share + free_extent
};
const _: () = assert!(METADATA_BYTES <= 200);
const _: () = assert!(size_of::<Slot<Box<()>>>() <= 104);

impl<D> Slot<D> {
    /// Whether eviction may take it.
    pub(super) fn evictable(&self) -> bool {
        self.state == EntryState::Resident && self.pins == 0
    }
}

/// Slab and index. A free slot has no data, is Dead, unpinned, and in `spare`.
pub(super) struct Table<D> {
    pub(super) slots: Vec<Slot<D>>,
    /// Links of each slot, beside the slots: a use of an entry touches the links of its neighbours,
    /// eight of which share a cache line, and not the neighbours themselves.
    pub(super) links: Vec<Neighbours>,
    spare: Vec<u32>,
    index: HashTable<u32>,
}

impl<D> Table<D> {
    pub(super) fn new() -> Self {
        Table { slots: Vec::new(), links: Vec::new(), spare: Vec::new(), index: HashTable::new() }
    }

    /// Entries that a lookup can find.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn find(&self, key: EntryKey) -> Option<EntryId> {
        let found = self.index.find(key.hash64(), |&id| self.slots[id as usize].key == key);
        found.map(|&id| EntryId(id))
    }

    /// Adds an entry whose key is not in the index.
    pub(super) fn insert(&mut self, slot: Slot<D>) -> EntryId {
        let hash = slot.key.hash64();
        let id = match self.spare.pop() {
            Some(id) => {
                debug_assert!(!self.links[id as usize].attached(), "a free slot is on no list");
                self.slots[id as usize] = slot;
                id
            }
            None => {
                let id = u32::try_from(self.slots.len()).expect("a shard has < 2^32 entries");
                assert!(id < INDEX_LIMIT, "a shard has too many entries");
                self.slots.push(slot);
                self.links.push(Neighbours::detached());
                id
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, id, |&id| slots[id as usize].key.hash64());
        EntryId(id)
    }

    /// Takes the entry's name out of the index; the slot stays.
    pub(super) fn unindex(&mut self, id: EntryId) {
        let hash = self[id].key.hash64();
        let found = self.index.find_entry(hash, |&other| other == id.0);
        found.expect("a live entry is in the index").remove();
    }

    pub(super) fn is_listed(&self, id: EntryId) -> bool {
        self.links[id.0 as usize].attached()
    }

    /// Makes the slot free for another entry.
    pub(super) fn release(&mut self, id: EntryId) {
        self.spare.push(id.0);
    }

    pub(super) fn view(&self, id: EntryId) -> EntryView {
        let Slot { key, tier, bytes, version, state, .. } = self[id];
        EntryView { id, key, tier, bytes, version, state }
    }
}

impl<D> std::ops::Index<EntryId> for Table<D> {
    type Output = Slot<D>;

    fn index(&self, id: EntryId) -> &Slot<D> {
        &self.slots[id.0 as usize]
    }
}

impl<D> std::ops::IndexMut<EntryId> for Table<D> {
    fn index_mut(&mut self, id: EntryId) -> &mut Slot<D> {
        &mut self.slots[id.0 as usize]
    }
}
