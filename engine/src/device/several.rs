//! Any devices side by side, as one: for simulations and tests. Real drives share a shard's ring
//! ([`super::FileDevice`]).

use std::rc::Rc;

use super::{Device, DeviceFuture};
use crate::buffer::Ticket;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::ring::IoRequest;

/// Several devices that a shard uses as one, each under its drive's number.
pub struct SeveralDrives(Box<[Rc<dyn Device>]>);

impl SeveralDrives {
    /// Joins them in the order of their numbers; there is at least one.
    pub fn new(drives: Vec<Rc<dyn Device>>) -> SeveralDrives {
        assert!(!drives.is_empty(), "a device has at least one drive");
        SeveralDrives(drives.into_boxed_slice())
    }
}

impl Device for SeveralDrives {
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture {
        let (drive, offset_bytes) = DriveId::of_byte(request.offset_bytes);
        self.0[drive.index()].submit(IoRequest { offset_bytes, ..request }, ticket)
    }

    fn kick(&self) {
        self.0.iter().for_each(|drive| drive.kick());
    }

    fn close(&self) {
        self.0.iter().for_each(|drive| drive.close());
    }

    fn in_flight(&self) -> u32 {
        self.0.iter().map(|drive| drive.in_flight()).sum()
    }

    fn oldest_in_flight(&self) -> Option<Nanos> {
        self.0.iter().filter_map(|drive| drive.oldest_in_flight()).min()
    }

    fn name(&self) -> &str {
        self.0[0].name()
    }

    fn place(&self, offset_bytes: u64) -> (String, u64) {
        let (drive, offset_bytes) = DriveId::of_byte(offset_bytes);
        (self.0[drive.index()].name().to_owned(), offset_bytes)
    }

    fn first_touch_bytes(&self, start_block: u64, blocks: u64) -> u64 {
        let (drive, block) = DriveId::of_block(start_block);
        self.0[drive.index()].first_touch_bytes(block, blocks)
    }
}
