//! The space of one shard on all drives: an allocator for each.

use super::allocator::{ExtentAllocator, SpaceFigures};
use super::extent::{ExtentList, ExtentListBuilder};
use super::pool::SegmentLease;
use crate::drive::DriveId;

/// See the module. There is at least one drive.
pub(super) struct Spaces(Box<[ExtentAllocator]>);

impl Spaces {
    pub(super) fn new(drives: usize, segment_blocks: u64) -> Spaces {
        let allocator = |index| ExtentAllocator::new(DriveId::at(index), segment_blocks);
        Spaces((0..drives).map(allocator).collect())
    }

    pub(super) fn on(&self, drive: usize) -> &ExtentAllocator {
        &self.0[drive]
    }

    pub(super) fn on_mut(&mut self, drive: usize) -> &mut ExtentAllocator {
        &mut self.0[drive]
    }

    fn sum(&self, of: impl Fn(&ExtentAllocator) -> u64) -> u64 {
        self.0.iter().map(of).sum()
    }

    pub(super) fn used_blocks(&self) -> u64 {
        self.sum(ExtentAllocator::used_blocks)
    }

    pub(super) fn leased_blocks(&self) -> u64 {
        self.sum(|drive| drive.used_blocks() + drive.free_blocks())
    }

    pub(super) fn free_segments(&self) -> u64 {
        self.sum(ExtentAllocator::free_segments)
    }

    pub(super) fn live_extents(&self) -> u64 {
        self.sum(ExtentAllocator::live_extents)
    }

    /// So many blocks of each drive, which are free there.
    pub(super) fn allocate(&mut self, parts: &[u64]) -> ExtentList {
        let mut list = ExtentListBuilder::default();
        for (drive, &blocks) in self.0.iter_mut().zip(parts).filter(|(_, blocks)| **blocks > 0) {
            assert!(drive.allocate_into(&mut list, blocks), "so many blocks are free");
        }
        list.finish()
    }

    pub(super) fn free(&mut self, list: &ExtentList) {
        for &extent in list.as_slice() {
            let (drive, _) = DriveId::of_block(extent.start_block);
            self.0[drive.index()].free(extent);
        }
    }

    /// Gives up a wholly free segment, of the first drive that has one.
    pub(super) fn take_back_segment(&mut self) -> Option<SegmentLease> {
        self.0.iter_mut().enumerate().find_map(|(index, drive)| {
            let (number, blocks) = drive.take_back_segment()?;
            Some(SegmentLease { drive: DriveId::at(index), number, blocks })
        })
    }

    /// For reports: looks through all free extents for the largest.
    pub(super) fn figures(&self) -> SpaceFigures {
        self.0.iter().map(ExtentAllocator::figures).fold(SpaceFigures::default(), |sum, one| {
            SpaceFigures {
                leased_blocks: sum.leased_blocks + one.leased_blocks,
                free_blocks: sum.free_blocks + one.free_blocks,
                free_extents: sum.free_extents + one.free_extents,
                largest_free_blocks: sum.largest_free_blocks.max(one.largest_free_blocks),
                live_extents: sum.live_extents + one.live_extents,
                leased_segments: sum.leased_segments + one.leased_segments,
                free_segments: sum.free_segments + one.free_segments,
            }
        })
    }
}
