//! A device in memory: keeps what is written, or nothing at all (to measure ourselves).
//!
//! I/Os complete at the next `kick` after they were submitted, in order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ringfall_engine::buffer::Ticket;
use ringfall_engine::clock::{Clock, Nanos};
use ringfall_engine::device::{Device, DeviceFuture, DeviceSlots};
use ringfall_engine::ring::{IoKind, IoRequest, SlotToken, Slots};
use ringfall_engine::units::BLOCK_BYTES;

/// A device in memory, which keeps what is written or, as the null device, nothing.
pub struct MemoryDevice {
    slots: Rc<DeviceSlots>,
    /// `None`: the null device.
    content: Option<RefCell<Vec<u8>>>,
    queue: RefCell<VecDeque<(SlotToken, i32)>>,
    clock: Clock,
}

impl MemoryDevice {
    /// A device of `blocks` that keeps its content.
    pub fn new(blocks: u64, clock: Clock) -> MemoryDevice {
        let bytes = usize::try_from(blocks * BLOCK_BYTES).expect("a test device fits in memory");
        MemoryDevice { content: Some(RefCell::new(vec![0; bytes])), ..MemoryDevice::null(clock) }
    }

    /// A device that forgets what is written and reads nothing.
    pub fn null(clock: Clock) -> MemoryDevice {
        MemoryDevice { slots: Slots::new(), content: None, queue: RefCell::default(), clock }
    }

    /// Flips the lowest bit of the byte at `offset_bytes`, as silent corruption would; the null
    /// device has none.
    pub fn flip_bit(&self, offset_bytes: u64) {
        if let Some(content) = &self.content {
            content.borrow_mut()[offset_bytes as usize] ^= 1;
        }
    }

    /// Cuts the device off at `blocks`: reads past it see the end of the file.
    pub fn truncate(&self, blocks: u64) {
        if let Some(content) = &self.content {
            content.borrow_mut().truncate((blocks * BLOCK_BYTES) as usize);
        }
    }

    fn transfer(&self, request: IoRequest, ticket: Option<&mut Ticket>) -> i32 {
        let (Some(content), Some(ticket)) = (&self.content, ticket) else {
            return request.length_bytes as i32;
        };
        let content = &mut *content.borrow_mut();
        let start = (request.offset_bytes as usize).min(content.len());
        let end = (start + request.length_bytes as usize).min(content.len());
        let (from, length) = (request.buffer_offset as usize, end - start);
        let buffer = &mut ticket.buffer_mut().bytes_mut()[from..from + length];
        match request.kind {
            IoKind::Read => buffer.copy_from_slice(&content[start..end]),
            IoKind::Write => content[start..end].copy_from_slice(buffer),
            IoKind::Flush => {}
        }
        length as i32
    }
}

impl Device for MemoryDevice {
    fn submit(&self, request: IoRequest, mut ticket: Option<Ticket>) -> DeviceFuture {
        let result = self.transfer(request, ticket.as_mut());
        let (token, future) = self.slots.insert(ticket, Nanos::ZERO);
        self.queue.borrow_mut().push_back((token, result));
        future
    }

    fn kick(&self) {
        let mut now = None;
        loop {
            let Some((token, result)) = self.queue.borrow_mut().pop_front() else { break };
            // One look at the clock for all: they take no time.
            let now = *now.get_or_insert_with(|| self.clock.now());
            self.slots.handed_over(token, now);
            self.slots.complete(token, result, now);
        }
    }

    fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    fn name(&self) -> &str {
        "memory"
    }

    fn first_touch_bytes(&self, _start_block: u64, _blocks: u64) -> u64 {
        0
    }
}
