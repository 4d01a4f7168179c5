//! How a ring says to the kernel what an I/O asks for, and what an answer means. A type of its own
//! for each way, so that the usual one costs an I/O nothing.

use std::os::fd::RawFd;

use io_uring::{cqueue, opcode, squeue, types};

use super::op::{IoKind, IoRequest};
use super::probe::RingFeatures;
use super::slot::SlotToken;
use crate::buffer::MemoryPlace;

/// One I/O, as the ring was asked for it.
pub struct AskedIo {
    /// Number of the file, which is one of the ring's.
    pub file: usize,
    /// What to do with which bytes of the file.
    pub request: IoRequest,
    /// Its memory; none for a flush.
    pub place: Option<MemoryPlace>,
}

/// A way of asking the kernel for I/O.
pub trait Dialect: 'static {
    /// Entry of the submission queue.
    type Entry: squeue::EntryMarker;
    /// Entry of the completion queue.
    type Answer: cqueue::EntryMarker;

    /// The entries that the I/O of that token becomes, at least one, in their order.
    fn encode(&self, asked: &AskedIo, token: SlotToken, push: impl FnMut(Self::Entry));

    /// Takes note that one of its entries is handed over; whether it is the first.
    fn begins(&self, token: SlotToken) -> bool;

    /// Takes note of an answer to one of its entries; the result of the I/O, bytes or a negative
    /// number in the place of an errno, once all of them are answered.
    fn answered(&self, token: SlotToken, result: i32) -> Option<i32>;
}

/// Reads and writes of files: an entry an I/O.
pub struct Files {
    descriptors: Box<[RawFd]>,
    features: RingFeatures,
    registered_span_bytes: usize,
}

impl Files {
    /// For these files, in the order in which they were registered, with what the kernel gave the
    /// ring.
    pub(super) fn new(
        descriptors: &[RawFd],
        features: RingFeatures,
        registered_span_bytes: usize,
    ) -> Files {
        Files { descriptors: descriptors.into(), features, registered_span_bytes }
    }
}

impl Dialect for Files {
    type Entry = squeue::Entry;
    type Answer = cqueue::Entry;

    #[inline]
    fn encode(&self, asked: &AskedIo, _token: SlotToken, mut push: impl FnMut(squeue::Entry)) {
        let AskedIo { file, request, place } = asked;
        let (fd, number) = (types::Fd(self.descriptors[*file]), types::Fixed(*file as u32));
        if request.kind == IoKind::Flush {
            return push(if self.features.registered_file {
                opcode::Fsync::new(number).flags(types::FsyncFlags::DATASYNC).build()
            } else {
                opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
            });
        }
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let place = place.as_ref().expect("a read or write has memory");
        let pointer = place.pointer;
        // Memory that is not the pool's is not registered: its pages are pinned for this I/O.
        let registered = place.region_offset.filter(|_| self.features.registered_buffers);
        let write = request.kind == IoKind::Write;
        macro_rules! build {
            ($fd:expr) => {
                if let Some(region_offset) = registered {
                    let index = (region_offset / self.registered_span_bytes) as u16;
                    if write {
                        opcode::WriteFixed::new($fd, pointer, length, index).offset(offset).build()
                    } else {
                        opcode::ReadFixed::new($fd, pointer, length, index).offset(offset).build()
                    }
                } else if write {
                    opcode::Write::new($fd, pointer, length).offset(offset).build()
                } else {
                    opcode::Read::new($fd, pointer, length).offset(offset).build()
                }
            };
        }
        push(if self.features.registered_file { build!(number) } else { build!(fd) });
    }

    #[inline]
    fn begins(&self, _token: SlotToken) -> bool {
        true
    }

    #[inline]
    fn answered(&self, _token: SlotToken, result: i32) -> Option<i32> {
        Some(result)
    }
}
