//! Drives side by side: how one address of the storage tier names a drive and a place on it.
//!
//! Each drive has a range of addresses of its own, 2^40 blocks (4 PiB) long, whatever its size. So
//! extents of two drives never touch and no I/O crosses from one to the next, nobody needs a table
//! to tell whose an address is, and the addresses of the first drive are its own offsets.

use crate::units::{BLOCK_BYTES, TIB};

/// Most drives that one engine stores on: a set of them is one word.
pub const DRIVES_MAX: usize = 64;
/// Largest part of one drive that is used, bytes: its range of addresses.
pub const DRIVE_BYTES_MAX: u64 = BLOCKS_A_DRIVE * BLOCK_BYTES;

const BLOCKS_A_DRIVE: u64 = 1 << 40;

const _: () = assert!(DRIVE_BYTES_MAX == 4096 * TIB);
const _: () = assert!(u64::MAX / DRIVE_BYTES_MAX >= DRIVES_MAX as u64);

/// Operation on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoKind {
    /// Device to buffer.
    Read,
    /// Buffer to device.
    Write,
    /// `fdatasync`: everything written before it survives a power cut.
    Flush,
}

/// Way in which a file gets its space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preallocate {
    /// Reserved in steps, each before it is needed, so that what is not used stays free for others.
    /// The first write to a block is as with `Reserve`.
    Grow,
    /// Reserved before the run: the first write to a block still converts it in the metadata of the
    /// file system, about 30 % of write bandwidth on ext4.
    Reserve,
    /// Written with zeros before anything is measured.
    Write,
}

/// Whether a written entry is flushed before it counts as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// `fdatasync` after each entry, shared by entries that end together.
    Flush,
    /// Left to the device.
    None,
}

/// Index of a drive, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct DriveId(pub u16);

impl DriveId {
    /// The drive of that place in a list; `index` < [`DRIVES_MAX`].
    pub fn at(index: usize) -> DriveId {
        assert!(index < DRIVES_MAX, "drive {index} of at most {DRIVES_MAX}");
        DriveId(index as u16)
    }

    /// As an index into per-drive arrays.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The address of its first block.
    pub fn first_block(self) -> u64 {
        u64::from(self.0) * BLOCKS_A_DRIVE
    }

    /// The address of its first byte.
    pub fn first_byte(self) -> u64 {
        self.first_block() * BLOCK_BYTES
    }

    /// The drive of a block's address, and the block's number on it.
    pub fn of_block(block: u64) -> (DriveId, u64) {
        (DriveId((block / BLOCKS_A_DRIVE) as u16), block % BLOCKS_A_DRIVE)
    }

    /// The drive of a byte's address, and the byte's offset on it.
    pub fn of_byte(offset_bytes: u64) -> (DriveId, u64) {
        (DriveId((offset_bytes / DRIVE_BYTES_MAX) as u16), offset_bytes % DRIVE_BYTES_MAX)
    }
}

/// A set of drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveSet(u64);

impl DriveSet {
    /// Adds a drive to the set; one that is in it already changes nothing.
    pub fn insert(&mut self, drive: DriveId) {
        self.0 |= 1 << drive.index();
    }

    /// Number of drives that share the addresses.
    pub fn len(self) -> u64 {
        u64::from(self.0.count_ones())
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the drive is in it.
    pub fn contains(self, drive: DriveId) -> bool {
        self.0 >> drive.index() & 1 == 1
    }

    /// Its drives, from the first on.
    pub fn iter(self) -> impl Iterator<Item = DriveId> {
        (0..DRIVES_MAX).map(DriveId::at).filter(move |&drive| self.contains(drive))
    }

    /// The drive that it has alone, if it has one drive.
    pub fn only(self) -> Option<DriveId> {
        (self.0.count_ones() == 1).then(|| DriveId::at(self.0.trailing_zeros() as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_drive_and_the_first_drives_are_plain_offsets() {
        assert_eq!(DriveId::of_byte(123 * BLOCK_BYTES), (DriveId(0), 123 * BLOCK_BYTES));
        for drive in [DriveId(0), DriveId(1), DriveId::at(DRIVES_MAX - 1)] {
            assert_eq!(DriveId::of_block(drive.first_block() + 7), (drive, 7));
            let byte = drive.first_byte() + DRIVE_BYTES_MAX - 1;
            assert_eq!(DriveId::of_byte(byte), (drive, DRIVE_BYTES_MAX - 1));
        }
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set = DriveSet::default();
        assert_eq!(set.only(), None);
        set.insert(DriveId(63));
        assert_eq!(set.only(), Some(DriveId(63)));
        set.insert(DriveId(2));
        assert_eq!((set.only(), set.contains(DriveId(1))), (None, false));
        assert_eq!(set.iter().collect::<Vec<_>>(), [DriveId(2), DriveId(63)]);
    }
}
