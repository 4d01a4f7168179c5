//! Encoding of an I/O for the kernel, and the meaning of its answer. Each way is a type of its own,
//! so that the usual one costs an I/O nothing.

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
    /// Operation, and the bytes of the file that it concerns.
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

/// A file of a ring, as the kernel is told which.
pub(super) enum NamedFile {
    /// By the number under which it is registered.
    Number(u32),
    Descriptor(RawFd),
}

/// The entry for an I/O. Memory of a region that is registered in pieces of `span_bytes` is named
/// by its piece; the pages of any other are pinned for this I/O.
#[inline]
pub(super) fn file_entry(
    file: &NamedFile,
    request: IoRequest,
    place: Option<&MemoryPlace>,
    span_bytes: Option<usize>,
) -> squeue::Entry {
    let (offset, length) = (request.offset_bytes, request.length_bytes);
    macro_rules! build {
        ($fd:expr) => {{
            let Some(place) = place.filter(|_| request.kind != IoKind::Flush) else {
                return opcode::Fsync::new($fd).flags(types::FsyncFlags::DATASYNC).build();
            };
            let (pointer, write) = (place.pointer, request.kind == IoKind::Write);
            match span_bytes.zip(place.region_offset) {
                Some((span, start)) => {
                    let index = (start / span) as u16;
                    match write {
                        true => opcode::WriteFixed::new($fd, pointer, length, index)
                            .offset(offset)
                            .build(),
                        false => opcode::ReadFixed::new($fd, pointer, length, index)
                            .offset(offset)
                            .build(),
                    }
                }
                None if write => opcode::Write::new($fd, pointer, length).offset(offset).build(),
                None => opcode::Read::new($fd, pointer, length).offset(offset).build(),
            }
        }};
    }
    match *file {
        NamedFile::Number(number) => build!(types::Fixed(number)),
        NamedFile::Descriptor(descriptor) => build!(types::Fd(descriptor)),
    }
}

/// Reads and writes of files: an entry an I/O.
pub struct Files {
    descriptors: Box<[RawFd]>,
    has_registered_files: bool,
    /// Bytes of memory that one registered buffer spans; none where none is registered.
    registered_span_bytes: Option<usize>,
}

impl Files {
    /// For these files, in the order in which they were registered, with what the kernel gave the
    /// ring.
    pub(super) fn new(
        descriptors: &[RawFd],
        features: RingFeatures,
        registered_span_bytes: usize,
    ) -> Files {
        Files {
            descriptors: descriptors.into(),
            has_registered_files: features.registered_file,
            registered_span_bytes: features.registered_buffers.then_some(registered_span_bytes),
        }
    }
}

impl Dialect for Files {
    type Entry = squeue::Entry;
    type Answer = cqueue::Entry;

    #[inline]
    fn encode(&self, asked: &AskedIo, _token: SlotToken, mut push: impl FnMut(squeue::Entry)) {
        let AskedIo { file, request, place } = asked;
        assert!(place.is_some() || request.kind == IoKind::Flush, "it moves some memory");
        let file = match self.has_registered_files {
            true => NamedFile::Number(*file as u32),
            false => NamedFile::Descriptor(self.descriptors[*file]),
        };
        push(file_entry(&file, *request, place.as_ref(), self.registered_span_bytes));
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
