//! Extents: the runs of blocks an entry is stored in.

use std::rc::Rc;

/// A run of blocks, `blocks` ≥ 1, of one drive, that begins at the address `start_block`
/// ([`crate::drive`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// The address of its first block.
    pub start_block: u64,
    /// Its length in blocks.
    pub blocks: u64,
}

impl Extent {
    /// The block after its last.
    pub const fn end_block(self) -> u64 {
        self.start_block + self.blocks
    }
}

/// Number of extents that a list holds without a heap allocation.
const INLINE: usize = 2;

const UNUSED: Extent = Extent { start_block: 0, blocks: 0 };

/// The extents of one entry in the order of its bytes. Up to two lie inside, more on the heap.
///
/// A clone is a copy of the addresses for an I/O to use; the space is given back once, by the
/// placement.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ExtentList(Repr);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Repr {
    Inline {
        count: u8,
        extents: [Extent; INLINE],
    },
    /// Not copied by a clone, which an I/O makes.
    Heap(Rc<[Extent]>),
}

impl Default for Repr {
    fn default() -> Self {
        Repr::Inline { count: 0, extents: [UNUSED; INLINE] }
    }
}

impl ExtentList {
    /// All extents, in the order of the entry's bytes.
    pub fn as_slice(&self) -> &[Extent] {
        match &self.0 {
            Repr::Inline { count, extents } => &extents[..usize::from(*count)],
            Repr::Heap(extents) => extents,
        }
    }

    /// The extent, if there is one alone.
    pub fn only(&self) -> Option<Extent> {
        match &self.0 {
            Repr::Inline { count: 1, extents: [only, _] } => Some(*only),
            _ => None,
        }
    }

    /// Number of 4 KiB blocks in all extents together.
    pub fn blocks(&self) -> u64 {
        self.as_slice().iter().map(|extent| extent.blocks).sum()
    }

    /// Whether there is no extent: the entry is not on storage.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

/// Collects extents, joining a piece to the one before it where they touch.
#[derive(Default)]
pub(super) struct ExtentListBuilder {
    first: [Option<Extent>; INLINE],
    rest: Vec<Extent>,
}

impl ExtentListBuilder {
    pub(super) fn push(&mut self, extent: Extent) {
        let last = match (&mut self.first, self.rest.last_mut()) {
            (_, Some(last)) => Some(last),
            ([_, Some(last)] | [Some(last), None], None) => Some(last),
            ([None, None], None) => None,
        };
        match last {
            Some(last) if last.end_block() == extent.start_block => last.blocks += extent.blocks,
            _ => match self.first.iter_mut().find(|slot| slot.is_none()) {
                Some(slot) => *slot = Some(extent),
                None => self.rest.push(extent),
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        self.first.iter().flatten().count() + self.rest.len()
    }

    pub(super) fn finish(self) -> ExtentList {
        let inline = self.first.iter().flatten().copied();
        if self.rest.is_empty() {
            let mut extents = [UNUSED; INLINE];
            let mut count = 0u8;
            for (slot, extent) in extents.iter_mut().zip(inline) {
                *slot = extent;
                count += 1;
            }
            return ExtentList(Repr::Inline { count, extents });
        }
        ExtentList(Repr::Heap(inline.chain(self.rest).collect()))
    }
}
