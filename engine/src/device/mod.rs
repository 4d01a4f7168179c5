//! The storage device: a trait, data files, namespaces, objects, and drives on a simulated clock.

mod admin;
mod ata;
mod directory;
mod file;
mod identify;
mod identity;
mod made_directory;
mod namespace;
mod objects;
mod pages;
mod polled;
mod raw;
mod several;
mod sim;
mod touched;
mod ways;

pub use crate::drive::Preallocate;
pub use crate::model::{DeviceModel, DeviceState, DirectionModel, WriteCacheModel};
pub use crate::nvme::nvme_block_device;
pub use crate::occupation::Occupation;
pub use ata::AtaPages;
pub use directory::{CacheDir, DATA_NAME, LOCK_NAME, MadeFiles};
pub use file::{DataFile, FileDevice};
pub use namespace::Namespace;
pub use objects::{
    ObjectDevice, ObjectDone, ObjectIo, ObjectName, ObjectOutcome, ObjectParker, ObjectPart,
    ObjectSpace,
};
pub use pages::DrivePages;
pub use polled::PolledDevice;
pub use raw::{RawDevice, is_block_device};
pub use several::SeveralDrives;
pub use sim::{OtherMemory, SimDevice, SimDrive, SimMedium};
pub use touched::TouchedRanges;
pub(crate) use ways::{Way, Ways};

use crate::buffer::Ticket;
use crate::clock::Nanos;
use crate::placement::Extent;
use crate::ring::{IoFuture, IoKind, IoRequest, Slots};

/// An I/O in flight on a device, with the ticket it holds.
pub type DeviceFuture = IoFuture<Ticket>;
/// The in-flight table of a device.
pub type DeviceSlots = Slots<Ticket>;

/// A block device as a shard sees it: one drive, or several side by side ([`crate::drive`]).
///
/// `submit` queues; what is queued is handed over by `kick`, or by what the shard's thread sleeps
/// in ([`crate::ring::Parker`]). An implementation owns the ticket from `submit` until it completes
/// the I/O, also when the future is dropped.
pub trait Device {
    /// Queues one I/O.
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture;

    /// Starts what is queued and collects what has completed. Cheap when there is nothing to do.
    fn kick(&self) {}

    /// Lets go of what it holds open, when nothing is in flight and nothing more will be asked.
    fn close(&self) {}

    /// I/Os not completed.
    fn in_flight(&self) -> u32;

    /// When the oldest of them was submitted, where the device knows that.
    fn oldest_in_flight(&self) -> Option<Nanos> {
        None
    }

    /// Name for messages; of several drives, the first's.
    fn name(&self) -> &str;

    /// Name for messages of the drive or object that holds an address, and the offset there.
    fn place(&self, offset_bytes: u64) -> (String, u64) {
        (self.name().to_owned(), offset_bytes)
    }

    /// Opens a way to an entry of so many blocks, which is written to those extents or was, where
    /// the device knows entries by more than the addresses of their blocks: the addresses for the
    /// I/Os of this one transfer. `None`: the extents are the addresses.
    fn open_entry(&self, _kind: IoKind, _extents: &[Extent], _blocks: u64) -> Option<Extent> {
        None
    }

    /// Closes a way that was opened, when nothing more is submitted to it.
    fn close_entry(&self, _way: Extent) {}

    /// Bytes among `start..start + blocks` being written for the first time since they were
    /// preallocated; remembers them as written. 0 where nothing is preallocated.
    fn first_touch_bytes(&self, _start_block: u64, _blocks: u64) -> u64 {
        0
    }
}
