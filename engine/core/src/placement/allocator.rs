//! The extent allocator of one shard on one drive: which blocks of its leased segments are free.
//!
//! Free space is of two kinds: wholly free segments, in a bitmap, and free extents inside partly
//! used segments, in size classes of two levels as in TLSF (Masmano et al. 2004). A free extent
//! never crosses a segment's border: so a segment is known to be wholly free the moment its last
//! block is, and can be handed to another shard in O(1). An allocation does cross borders, since
//! adjacent pieces are joined in its list. Freeing joins with both neighbours at once.
//! Every step is O(1) for each piece it makes or frees.

use hashbrown::HashTable;

#[cfg(test)]
use super::extent::ExtentList;
use super::extent::{Extent, ExtentListBuilder};
use super::lru::{INDEX_LIMIT, Linked, LruList, Neighbours};
use super::segment_set::SegmentSet;
use crate::drive::DriveId;
use crate::key::mix64;

/// Each power of two of sizes is split in 2^4 classes: a good fit wastes at most 1/16 in search
/// range, as in the TLSF paper's recommendation of 4 or 5.
const SPLIT_BITS: u32 = 4;
const SPLIT: usize = 1 << SPLIT_BITS;
/// Powers of two that can occur: sizes below 2^SPLIT_BITS share the first row.
const ROWS: usize = (u64::BITS - SPLIT_BITS + 1) as usize;

/// Space figures of one shard, for reports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpaceFigures {
    /// Blocks in leased segments.
    pub leased_blocks: u64,
    /// Blocks in leased segments that hold no entry.
    pub free_blocks: u64,
    /// Pieces the free space is in; a wholly free segment counts as one.
    pub free_extents: u64,
    /// Blocks of the largest free piece within one segment.
    pub largest_free_blocks: u64,
    /// Extents of everything allocated.
    pub live_extents: u64,
    /// Number of segments that the shard has leased from the engine's space.
    pub leased_segments: u64,
    /// Wholly free segments among them.
    pub free_segments: u64,
}

struct Node {
    extent: Extent,
    links: Neighbours,
}

impl Linked for Node {
    fn links(&mut self) -> &mut Neighbours {
        &mut self.links
    }
}

/// Segments of a page: a shard's segments lie together, far from the first.
const PAGE: usize = 256;

/// Records of the segments by number, in pages that exist where a segment was leased.
#[derive(Default)]
struct Segments(Vec<Option<Box<[Segment; PAGE]>>>);

impl Segments {
    fn get(&self, number: u64) -> Segment {
        let index = usize::try_from(number).expect("segment numbers index memory");
        let page = self.0.get(index / PAGE).and_then(Option::as_ref);
        page.map_or_else(Segment::default, |page| page[index % PAGE])
    }

    fn get_mut(&mut self, number: u64) -> &mut Segment {
        let index = usize::try_from(number).expect("segment numbers index memory");
        if self.0.len() <= index / PAGE {
            self.0.resize_with(index / PAGE + 1, || None);
        }
        let page = self.0[index / PAGE].get_or_insert_with(|| Box::new([Segment::default(); PAGE]));
        &mut page[index % PAGE]
    }
}

/// Record of a segment. `blocks` 0: not leased.
#[derive(Clone, Copy, Default)]
struct Segment {
    blocks: u64,
    used: u64,
}

/// Free space of one shard on one drive. Inside, blocks are counted from the drive's first.
pub(super) struct ExtentAllocator {
    segment_blocks: u64,
    /// The address of the drive's first block.
    first_block: u64,
    segments: Segments,
    whole: SegmentSet,
    nodes: Vec<Node>,
    spare_nodes: Vec<u32>,
    by_start: HashTable<u32>,
    by_end: HashTable<u32>,
    lists: Box<[LruList]>,
    row_bitmap: u64,
    class_bitmaps: [u16; ROWS],
    leased_segments: u64,
    leased_blocks: u64,
    free_blocks: u64,
    live_extents: u64,
}

impl ExtentAllocator {
    /// An allocator for that drive that owns nothing yet. `segment_blocks` ≥ 1.
    pub(super) fn new(drive: DriveId, segment_blocks: u64) -> Self {
        assert!(segment_blocks > 0, "a segment holds at least one block");
        ExtentAllocator {
            segment_blocks,
            first_block: drive.first_block(),
            segments: Segments::default(),
            whole: SegmentSet::default(),
            nodes: Vec::new(),
            spare_nodes: Vec::new(),
            by_start: HashTable::new(),
            by_end: HashTable::new(),
            lists: vec![LruList::new(); ROWS * SPLIT].into_boxed_slice(),
            row_bitmap: 0,
            class_bitmaps: [0; ROWS],
            leased_segments: 0,
            leased_blocks: 0,
            free_blocks: 0,
            live_extents: 0,
        }
    }

    /// Adds segment `number`, of `blocks` ≤ `segment_blocks` (only a drive's last one is short).
    pub(super) fn add_segment(&mut self, number: u64, blocks: u64) {
        assert!(blocks > 0 && blocks <= self.segment_blocks, "segment {number}: {blocks} blocks");
        let segment = self.segments.get_mut(number);
        assert!(segment.blocks == 0, "segment {number} is leased already");
        *segment = Segment { blocks, used: 0 };
        self.whole.insert(number);
        self.leased_segments += 1;
        self.leased_blocks += blocks;
        self.free_blocks += blocks;
    }

    /// Gives up the wholly free segment with the highest number: `(number, blocks)`.
    pub(super) fn take_back_segment(&mut self) -> Option<(u64, u64)> {
        let number = self.whole.last()?;
        self.whole.remove(number);
        let blocks = std::mem::take(&mut self.segment_mut(number).blocks);
        self.leased_segments -= 1;
        self.leased_blocks -= blocks;
        self.free_blocks -= blocks;
        Some((number, blocks))
    }

    pub(super) fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    pub(super) fn free_segments(&self) -> u64 {
        self.whole.count()
    }

    pub(super) fn used_blocks(&self) -> u64 {
        self.leased_blocks - self.free_blocks
    }

    pub(super) fn live_extents(&self) -> u64 {
        self.live_extents
    }

    /// For reports: looks through all free extents for the largest.
    pub(super) fn figures(&self) -> SpaceFigures {
        let whole = [self.whole.first(), self.whole.last()].into_iter().flatten();
        let pieces = self.by_start.iter().map(|&id| self.nodes[id as usize].extent.blocks);
        SpaceFigures {
            leased_blocks: self.leased_blocks,
            free_blocks: self.free_blocks,
            free_extents: self.by_start.len() as u64 + self.whole.count(),
            largest_free_blocks: whole
                .map(|number| self.segment(number).blocks)
                .chain(pieces)
                .max()
                .unwrap_or(0),
            live_extents: self.live_extents,
            leased_segments: self.leased_segments,
            free_segments: self.whole.count(),
        }
    }

    /// Places for nodes, in use or spare.
    #[cfg(test)]
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// As [`Self::allocate_into`], in a list of its own. None exactly when fewer are free.
    #[cfg(test)]
    pub(super) fn allocate(&mut self, blocks: u64) -> Option<ExtentList> {
        let mut list = ExtentListBuilder::default();
        let is_had = self.allocate_into(&mut list, blocks);
        is_had.then(|| list.finish())
    }

    /// Adds `blocks` ≥ 1 free blocks to a list, in one extent where a good fit exists, else in the
    /// largest pieces first. False, with nothing added, exactly when fewer are free.
    pub(super) fn allocate_into(&mut self, list: &mut ExtentListBuilder, blocks: u64) -> bool {
        assert!(blocks > 0, "an allocation holds at least one block");
        if blocks > self.free_blocks {
            return false;
        }
        let before = list.len();
        let mut need = blocks;
        // The last segment is had from the pieces, the best of which may not be the first.
        while need > self.segment_blocks
            && let Some(number) = self.whole.first()
        {
            need -= self.push(list, self.segment_extent(number), need);
        }
        while need > 0 {
            let piece = match self.good_fit(need) {
                Some(id) => self.nodes[id as usize].extent,
                None => self.largest_piece(need).expect("free blocks are in some piece"),
            };
            need -= self.push(list, piece, need);
        }
        // None joins one of another drive, whose addresses never touch.
        self.live_extents += (list.len() - before) as u64;
        true
    }

    /// Gives an extent of this drive back. Panics when any of it is free already: that is our own
    /// bug.
    pub(super) fn free(&mut self, extent: Extent) {
        self.live_extents -= 1;
        let mut start = extent.start_block - self.first_block;
        let end = start + extent.blocks;
        while start < end {
            let number = start / self.segment_blocks;
            let border = (number + 1) * self.segment_blocks;
            let blocks = border.min(end) - start;
            self.free_within(number, Extent { start_block: start, blocks });
            start += blocks;
        }
    }

    /// Takes the first `limit` blocks of the free `piece` and returns how many that were.
    fn push(&mut self, list: &mut ExtentListBuilder, piece: Extent, limit: u64) -> u64 {
        let taken = Extent { start_block: piece.start_block, blocks: piece.blocks.min(limit) };
        let number = piece.start_block / self.segment_blocks;
        if piece == self.segment_extent(number) {
            self.whole.remove(number);
        } else {
            self.remove_node(self.find_start(piece.start_block).expect("the piece is free"));
        }
        if taken.blocks < piece.blocks {
            let rest = piece.blocks - taken.blocks;
            self.insert_node(Extent { start_block: taken.end_block(), blocks: rest });
        }
        self.segment_mut(number).used += taken.blocks;
        self.free_blocks -= taken.blocks;
        let start_block = self.first_block + taken.start_block;
        list.push(Extent { start_block, ..taken });
        taken.blocks
    }

    fn free_within(&mut self, number: u64, extent: Extent) {
        let segment = self.segment(number);
        let whole = self.segment_extent(number);
        assert!(extent.end_block() <= whole.end_block(), "{extent:?} is outside segment {number}");
        assert!(segment.used >= extent.blocks, "{extent:?} was free already");
        assert!(self.find_start(extent.start_block).is_none(), "{extent:?} was free already");
        assert!(self.find_end(extent.end_block()).is_none(), "{extent:?} was free already");
        self.segment_mut(number).used -= extent.blocks;
        self.free_blocks += extent.blocks;
        let mut joined = extent;
        if extent.start_block > whole.start_block
            && let Some(before) = self.find_end(extent.start_block)
        {
            joined.start_block = self.nodes[before as usize].extent.start_block;
            joined.blocks += self.remove_node(before);
        }
        if extent.end_block() < whole.end_block()
            && let Some(after) = self.find_start(extent.end_block())
        {
            joined.blocks += self.remove_node(after);
        }
        assert!((joined == whole) == (segment.used == extent.blocks), "{extent:?}: sums differ");
        if joined == whole {
            self.whole.insert(number);
        } else {
            self.insert_node(joined);
        }
    }

    fn segment(&self, number: u64) -> Segment {
        self.segments.get(number)
    }

    fn segment_mut(&mut self, number: u64) -> &mut Segment {
        self.segments.get_mut(number)
    }

    fn segment_extent(&self, number: u64) -> Extent {
        Extent { start_block: number * self.segment_blocks, blocks: self.segment(number).blocks }
    }

    /// A free extent of at least `need` blocks from the class that surely fits, else the head of
    /// the class `need` itself falls in, if that happens to fit.
    fn good_fit(&self, need: u64) -> Option<u32> {
        let (row, column) = class_of(round_up_to_class(need));
        let columns = self.class_bitmaps[row] & (u16::MAX << column);
        let found = if columns != 0 {
            Some((row, columns.trailing_zeros() as usize))
        } else {
            // A shift by 64 would be for the last row, after which there is none.
            let rows = self.row_bitmap & u64::MAX.checked_shl(row as u32 + 1).unwrap_or(0);
            let row = rows.trailing_zeros() as usize;
            (rows != 0).then(|| (row, self.class_bitmaps[row].trailing_zeros() as usize))
        };
        let (row, column) = found.unwrap_or_else(|| class_of(need));
        let id = self.lists[row * SPLIT + column].oldest()?;
        (self.nodes[id as usize].extent.blocks >= need).then_some(id)
    }

    /// A wholly free segment that holds `need`, else the largest piece there is.
    fn largest_piece(&self, need: u64) -> Option<Extent> {
        // Only one segment can be short: either the lowest or the highest is a full one, if any is.
        let ends = [self.whole.first(), self.whole.last()].into_iter().flatten();
        let mut ends = ends.map(|number| self.segment_extent(number));
        if let Some(fitting) = ends.clone().find(|piece| piece.blocks >= need) {
            return Some(fitting);
        }
        let node = self.largest().map(|id| self.nodes[id as usize].extent);
        ends.next().into_iter().chain(node).max_by_key(|piece| piece.blocks)
    }

    /// A free extent of the highest class: within 1/16 of the largest.
    fn largest(&self) -> Option<u32> {
        let row = (u64::BITS - 1).checked_sub(self.row_bitmap.leading_zeros())? as usize;
        let column = (u16::BITS - 1 - self.class_bitmaps[row].leading_zeros()) as usize;
        self.lists[row * SPLIT + column].oldest()
    }

    fn insert_node(&mut self, extent: Extent) {
        let node = Node { extent, links: Neighbours::detached() };
        let id = match self.spare_nodes.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                let id = u32::try_from(self.nodes.len()).expect("a shard has < 2^32 free extents");
                assert!(id < INDEX_LIMIT, "a shard has too many free extents");
                self.nodes.push(node);
                id
            }
        };
        let nodes = &self.nodes;
        self.by_start.insert_unique(mix64(extent.start_block), id, |&id| {
            mix64(nodes[id as usize].extent.start_block)
        });
        self.by_end.insert_unique(mix64(extent.end_block()), id, |&id| {
            mix64(nodes[id as usize].extent.end_block())
        });
        let (row, column) = class_of(extent.blocks);
        self.lists[row * SPLIT + column].push_newest(&mut self.nodes, id);
        self.row_bitmap |= 1 << row;
        self.class_bitmaps[row] |= 1 << column;
    }

    /// Takes a free extent out of all indexes; its length.
    fn remove_node(&mut self, id: u32) -> u64 {
        let extent = self.nodes[id as usize].extent;
        let by_start = self.by_start.find_entry(mix64(extent.start_block), |&other| other == id);
        by_start.expect("a free extent is indexed by its start").remove();
        let by_end = self.by_end.find_entry(mix64(extent.end_block()), |&other| other == id);
        by_end.expect("a free extent is indexed by its end").remove();
        let (row, column) = class_of(extent.blocks);
        let list = &mut self.lists[row * SPLIT + column];
        list.remove(&mut self.nodes, id);
        if list.oldest().is_none() {
            self.class_bitmaps[row] &= !(1 << column);
            if self.class_bitmaps[row] == 0 {
                self.row_bitmap &= !(1 << row);
            }
        }
        self.spare_nodes.push(id);
        extent.blocks
    }

    fn find_start(&self, block: u64) -> Option<u32> {
        self.by_start
            .find(mix64(block), |&id| self.nodes[id as usize].extent.start_block == block)
            .copied()
    }

    fn find_end(&self, block: u64) -> Option<u32> {
        self.by_end
            .find(mix64(block), |&id| self.nodes[id as usize].extent.end_block() == block)
            .copied()
    }
}

/// Row and column of the class that holds extents of `blocks` ≥ 1.
fn class_of(blocks: u64) -> (usize, usize) {
    let power = blocks.ilog2();
    if power < SPLIT_BITS {
        return (0, blocks as usize);
    }
    let column = (blocks >> (power - SPLIT_BITS)) as usize & (SPLIT - 1);
    ((power - SPLIT_BITS + 1) as usize, column)
}

/// The smallest size from which on every extent of its class holds `blocks`.
fn round_up_to_class(blocks: u64) -> u64 {
    let power = blocks.ilog2();
    if power < SPLIT_BITS { blocks } else { blocks + (1 << (power - SPLIT_BITS)) - 1 }
}
