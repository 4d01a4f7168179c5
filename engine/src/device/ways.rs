//! Addresses that the I/Os of one transfer have, for devices that know entries by more than the
//! addresses of their blocks ([`super::Device::open_entry`]): the number of its way, and below it a
//! block's place in the entry.

use super::objects::{ObjectName, ObjectPart};
use crate::placement::Extent;

/// Bits of an address that say which block of its entry is meant: entries have less than 64 GiB.
const PLACE_BITS: u32 = 24;
/// Most ways to entries that a shard has open at a time. All addresses are the first drive's.
const WAYS_MAX: usize = u16::MAX as usize;
const NOWHERE: u64 = WAYS_MAX as u64;

/// A way to an entry, open for one transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// None: nothing is stored there.
    pub(crate) entry: Option<u64>,
    pub(crate) entry_blocks: u64,
    pub(crate) transfer: u64,
}

impl Way {
    pub(crate) fn part(self, name: ObjectName) -> ObjectPart {
        ObjectPart { name, entry_blocks: self.entry_blocks, transfer: self.transfer }
    }
}

/// The ways of a shard, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    open: Vec<Option<Way>>,
    free: Vec<usize>,
}

impl Ways {
    /// Addresses of the new way; those of none, where there are too many or the entry is too large.
    pub(crate) fn open(&mut self, way: Way) -> Extent {
        let fits = way.entry_blocks < 1 << PLACE_BITS;
        let number = fits.then(|| self.number(way)).flatten().unwrap_or(NOWHERE);
        Extent { start_block: number << PLACE_BITS, blocks: way.entry_blocks }
    }

    /// Number of the new way; none where there are too many.
    fn number(&mut self, way: Way) -> Option<u64> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.open.len() == WAYS_MAX => return None,
            None => {
                self.open.push(None);
                self.open.len() - 1
            }
        };
        self.open[number] = Some(way);
        Some(number as u64)
    }

    /// The way of an address, and the block of its entry.
    pub(crate) fn of(&self, block: u64) -> (Option<Way>, u64) {
        let (number, place) = (block >> PLACE_BITS, block & ((1 << PLACE_BITS) - 1));
        (self.open.get(number as usize).copied().flatten(), place)
    }

    pub(crate) fn close(&mut self, extent: Extent) {
        let number = (extent.start_block >> PLACE_BITS) as usize;
        if self.open.get_mut(number).is_some_and(|way| way.take().is_some()) {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ways_than_there_can_be_or_a_larger_entry_lead_nowhere() {
        let mut ways = Ways::default();
        let way = Way { entry: Some(1), entry_blocks: 1, transfer: 2 };
        let at = |number: u64| Extent { start_block: number << PLACE_BITS, blocks: 1 };
        assert!((0..WAYS_MAX as u64).all(|number| ways.open(way) == at(number)));
        assert_eq!(ways.open(way), at(NOWHERE));
        ways.close(at(NOWHERE));
        ways.close(at(3));
        let large = Way { entry_blocks: 1 << PLACE_BITS, ..way };
        assert_eq!(ways.open(large).start_block, at(NOWHERE).start_block);
        assert_eq!([ways.open(way), ways.open(way)], [at(3), at(NOWHERE)]);
        assert!(ways.of(at(NOWHERE).start_block).0.is_none());
    }
}
