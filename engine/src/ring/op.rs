//! One I/O, as it is asked for.

pub use crate::drive::IoKind;

/// One I/O: `length_bytes` at `offset_bytes` of the device, from or to the ticket's buffer
/// starting at `buffer_offset`. All three multiples of 4 KiB; zeros for a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// Whether the I/O is a read, a write or a flush.
    pub kind: IoKind,
    /// Where on the device.
    pub offset_bytes: u64,
    /// Number of bytes to transfer.
    pub length_bytes: u32,
    /// Where in the buffer.
    pub buffer_offset: u32,
}
