//! The drives of one entry, each moved at its own pace.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::buffer::{Acquire, Ticket, Tickets};
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

impl Lane {
    /// A ticket for its next I/O, and how long it was waited for; none while there is none.
    #[inline]
    pub(super) fn take_ticket(
        &mut self,
        tickets: &Rc<Tickets>,
        cx: &mut Context<'_>,
        mut look: impl FnMut() -> Nanos,
    ) -> Option<(Ticket, Nanos)> {
        if self.acquire.is_none() {
            // Most need not wait, and then there is nothing to keep.
            if let Some(ticket) = tickets.take() {
                return Some((ticket, Nanos::ZERO));
            }
        }
        let (acquire, since) = self.acquire.get_or_insert_with(|| (tickets.acquire(), None));
        let Poll::Ready(ticket) = Pin::new(acquire).poll(cx) else {
            since.get_or_insert_with(look);
            return None;
        };
        let wait = since.map_or(Nanos::ZERO, |since| look() - since);
        self.acquire = None;
        Some((ticket, wait))
    }
}

/// The lanes of an entry: without an allocation where there is one.
pub(super) struct Lanes {
    first: Lane,
    others: Vec<Lane>,
}

impl Lanes {
    #[inline]
    pub(super) fn of(extents: &[Extent], blocks: u64) -> Lanes {
        if let [only] = extents {
            let (drive, _) = DriveId::of_block(only.start_block);
            let left = only.blocks.min(blocks);
            let first = Lane { drive, extent: (0, 0), next_block: 0, left, acquire: None };
            return Lanes { first, others: Vec::new() };
        }
        Lanes::of_several(extents, blocks)
    }

    fn of_several(extents: &[Extent], blocks: u64) -> Lanes {
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
