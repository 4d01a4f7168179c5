//! The drives of one entry, each moved at its own pace.

use crate::buffer::Acquire;
use crate::clock::Nanos;
use crate::drive::{DriveId, DriveSet};
use crate::placement::Extent;

/// The part of an entry that lies on one drive: its extents follow each other.
pub(super) struct Lane {
    pub(super) drive: DriveId,
    /// Next extent, and blocks of it done.
    pub(super) extent: (usize, u64),
    /// Number of the next block in the entry.
    pub(super) next_block: u64,
    /// Blocks not started.
    pub(super) left: u64,
    /// The next ticket, and since when it is waited for.
    pub(super) acquire: Option<(Acquire, Option<Nanos>)>,
}

/// The lanes of an entry: without an allocation where there is one.
pub(super) struct Lanes {
    first: Lane,
    others: Vec<Lane>,
}

impl Lanes {
    pub(super) fn of(extents: &[Extent], blocks: u64) -> Lanes {
        let mut lanes: Option<Lanes> = None;
        let mut next_block = 0;
        for (index, extent) in extents.iter().enumerate() {
            let (drive, _) = DriveId::of_block(extent.start_block);
            let blocks = extent.blocks.min(blocks - next_block);
            let fresh = Lane { drive, extent: (index, 0), next_block, left: blocks, acquire: None };
            next_block += blocks;
            match &mut lanes {
                None => lanes = Some(Lanes { first: fresh, others: Vec::new() }),
                Some(lanes) => {
                    let last = lanes.others.last_mut().unwrap_or(&mut lanes.first);
                    match last.drive == drive {
                        true => last.left += blocks,
                        false => lanes.others.push(fresh),
                    }
                }
            }
        }
        lanes.expect("an entry on storage has an extent")
    }

    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Lane {
        match index {
            0 => &mut self.first,
            _ => &mut self.others[index - 1],
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    pub(super) fn drives(&self) -> DriveSet {
        let mut drives = DriveSet::default();
        drives.insert(self.first.drive);
        self.others.iter().for_each(|lane| drives.insert(lane.drive));
        drives
    }
}
