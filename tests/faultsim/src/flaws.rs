//! Flaws of a simulated drive, drawn from a seed, and its content without them, so that its errors
//! can be told from the engine's.
//!
//! The engine must survive failing, short, empty, late and reordered I/Os, a drive that stalls for
//! seconds, blocks that were damaged on the way and blocks that went elsewhere. Data moves when an
//! I/O ends, so that access to a buffer or an extent before that is found out.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_core::clock::{MICROSECOND, MILLISECOND, Nanos, SECOND};
use ringfall_core::drive::IoKind;
use ringfall_core::units::BLOCK_BYTES;
use ringfall_engine::device::SimMedium;
use ringfall_engine::ring::IoRequest;

/// Rates of the flaws, I/Os in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlawRates {
    /// Fails with an errno that means it.
    pub failing: u32,
    /// Fails with `EAGAIN` or `EINTR`.
    pub transient: u32,
    /// Transfers a part, in whole blocks.
    pub short: u32,
    /// Transfers nothing and says so.
    pub empty: u32,
    /// Takes up to two seconds longer.
    pub late: u32,
    /// All that come after it wait up to three seconds.
    pub stalling: u32,
    /// A write with a bit flipped on the way.
    pub corrupt: u32,
    /// Goes to other blocks than asked for.
    pub misdirected: u32,
    /// Up to a millisecond more for every I/O, so that later ones overtake it.
    pub is_reordering: bool,
}

/// Flaw of one I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    Errno(i32),
    /// So many bytes, whole blocks.
    Short(u32),
    Empty,
    /// Which byte of it, and which bit.
    Corrupt(u32, u8),
    /// Where it goes instead.
    Misdirected(u64),
}

/// Flaws that the drive had, of I/Os that somebody still waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlawCounts {
    /// I/Os that failed for good, by what they were and errno.
    pub failed: Vec<(IoKind, i32, u64)>,
    /// Reads and writes of nothing.
    pub empty: [u64; 2],
    /// Reads and writes that moved a part.
    pub short: [u64; 2],
    /// Blocks read that were not what had been written there.
    pub wrong_blocks: u64,
    /// Bytes read, by I/Os that said so.
    pub read_bytes: u64,
    /// Bytes written, by I/Os that said so.
    pub written_bytes: u64,
    /// I/Os that were damaged or went elsewhere, whether or not anybody ever saw.
    pub damaged_ios: u64,
    /// I/Os that took up to two seconds longer.
    pub late: u64,
    /// Times that the whole drive stood still.
    pub stalls: u64,
    /// I/Os that ended after one that was submitted later.
    pub overtaken: u64,
}

impl FlawCounts {
    /// Adds what another drive's flaws did.
    pub fn add(&mut self, other: &FlawCounts) {
        for &(kind, errno, count) in &other.failed {
            self.add_failed(kind, errno, count);
        }
        for direction in 0..2 {
            self.empty[direction] += other.empty[direction];
            self.short[direction] += other.short[direction];
        }
        self.wrong_blocks += other.wrong_blocks;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.damaged_ios += other.damaged_ios;
        self.late += other.late;
        self.stalls += other.stalls;
        self.overtaken += other.overtaken;
    }

    fn add_failed(&mut self, kind: IoKind, errno: i32, more: u64) {
        let known = |row: &&mut (IoKind, i32, u64)| (row.0, row.1) == (kind, errno);
        match self.failed.iter_mut().find(known) {
            Some((_, _, count)) => *count += more,
            None => self.failed.push((kind, errno, more)),
        }
    }

    /// I/Os that failed for good.
    pub fn failures(&self) -> u64 {
        self.failed.iter().map(|(_, _, count)| count).sum()
    }
}

/// Errnos that mean it, of a read and of a write.
const READ_ERRNOS: [i32; 3] = [libc::EIO, libc::ENODATA, libc::ETIMEDOUT];
const WRITE_ERRNOS: [i32; 3] = [libc::EIO, libc::ENOSPC, libc::EREMOTEIO];

pub(super) struct FlawedMedium {
    content: Vec<u8>,
    /// Content of a drive without flaws. Damage is a difference from it: a write that went
    /// elsewhere may by chance have left, or found, the very bytes that belong there, and no reader
    /// could tell.
    right: Vec<u8>,
    rates: FlawRates,
    is_dead: bool,
    /// Whether I/Os on other memory than the shards' buffers fail.
    reaches_buffers_only: bool,
    /// Flaws of the I/Os in flight, by number.
    drawn: HashMap<u64, Flaw>,
    /// The latest submitted of those that have ended.
    latest_ended: u64,
    rng: Xoshiro256PlusPlus,
    counts: FlawCounts,
}

impl FlawedMedium {
    pub(super) fn new(blocks: u64, rates: FlawRates, seed: u64) -> FlawedMedium {
        let bytes = usize::try_from(blocks * BLOCK_BYTES).expect("a test's drive fits in memory");
        FlawedMedium {
            content: vec![0; bytes],
            right: vec![0; bytes],
            rates,
            is_dead: false,
            reaches_buffers_only: false,
            drawn: HashMap::new(),
            latest_ended: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            counts: FlawCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> &FlawCounts {
        &self.counts
    }

    fn happens(&mut self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.rng.random_range(0..1_000) < of_thousand
    }

    fn pick(&mut self, from: [i32; 3]) -> i32 {
        from[self.rng.random_range(0..from.len())]
    }

    fn length(&mut self, from: Nanos, to: Nanos) -> Nanos {
        Nanos::from_ns(self.rng.random_range(from.as_ns()..to.as_ns()))
    }

    /// Fails every I/O from now on.
    pub(super) fn die(&mut self) {
        self.is_dead = true;
    }

    /// Fails every I/O on other memory than the shards' buffers that begins from now on: whose
    /// memory it is was lost.
    pub(super) fn lose_other_memory(&mut self) {
        self.reaches_buffers_only = true;
    }

    /// Draws the flaw of an I/O.
    fn draw(&mut self, request: IoRequest) -> Flaw {
        if self.is_dead {
            return Flaw::Errno(libc::EIO);
        }
        let rates = self.rates;
        let blocks = request.length_bytes / BLOCK_BYTES as u32;
        if self.happens(rates.failing) {
            let errnos = if request.kind == IoKind::Read { READ_ERRNOS } else { WRITE_ERRNOS };
            return Flaw::Errno(self.pick(errnos));
        }
        if self.happens(rates.transient) {
            return Flaw::Errno(if self.rng.random() { libc::EAGAIN } else { libc::EINTR });
        }
        if request.kind == IoKind::Flush {
            return Flaw::None;
        }
        if self.happens(rates.empty) {
            return Flaw::Empty;
        }
        if blocks > 1 && self.happens(rates.short) {
            return Flaw::Short(self.rng.random_range(1..blocks) * BLOCK_BYTES as u32);
        }
        if request.kind == IoKind::Write && self.happens(rates.corrupt) {
            let byte = self.rng.random_range(0..request.length_bytes);
            return Flaw::Corrupt(byte, self.rng.random_range(0..8));
        }
        if self.happens(rates.misdirected) {
            let last = self.content.len() as u64 / BLOCK_BYTES - u64::from(blocks);
            let block = self.rng.random_range(0..=last);
            if block * BLOCK_BYTES != request.offset_bytes {
                return Flaw::Misdirected(block * BLOCK_BYTES);
            }
        }
        Flaw::None
    }

    /// Does what is left of the I/O, into or out of its buffer; what the kernel would say.
    /// `is_live`: somebody waits for it.
    fn end(
        &mut self,
        request: IoRequest,
        flaw: Flaw,
        buffer: Option<&mut [u8]>,
        is_live: bool,
    ) -> i32 {
        if let Flaw::Errno(errno) = flaw {
            return self.fail(request.kind, errno, is_live);
        }
        // A flush has none.
        let Some(buffer) = buffer else { return 0 };
        let direction = usize::from(request.kind == IoKind::Write);
        let length = match flaw {
            Flaw::Empty => {
                self.counts.empty[direction] += u64::from(is_live);
                return 0;
            }
            Flaw::Short(bytes) => {
                self.counts.short[direction] += u64::from(is_live);
                bytes
            }
            _ => request.length_bytes,
        };
        let buffer = &mut buffer[request.buffer_offset as usize..][..length as usize];
        let bytes = u64::from(length);
        match request.kind {
            IoKind::Read => {
                let wrong = self.read(request.offset_bytes, flaw, buffer);
                if is_live {
                    self.counts.wrong_blocks += wrong;
                    self.counts.read_bytes += bytes;
                }
            }
            IoKind::Write => {
                self.write(request.offset_bytes, flaw, buffer);
                self.counts.written_bytes += if is_live { bytes } else { 0 };
            }
            IoKind::Flush => {}
        }
        // At most 64 MiB.
        length as i32
    }

    fn fail(&mut self, kind: IoKind, errno: i32, is_live: bool) -> i32 {
        let is_transient = matches!(errno, libc::EAGAIN | libc::EINTR);
        if is_live && !is_transient {
            self.counts.add_failed(kind, errno, 1);
        }
        -errno
    }

    /// Returns how many blocks are not what the reader should get.
    fn read(&mut self, offset_bytes: u64, flaw: Flaw, buffer: &mut [u8]) -> u64 {
        let from = match flaw {
            Flaw::Misdirected(elsewhere) => {
                self.counts.damaged_ios += 1;
                elsewhere
            }
            _ => offset_bytes,
        };
        buffer.copy_from_slice(&self.content[from as usize..][..buffer.len()]);
        let right = &self.right[offset_bytes as usize..][..buffer.len()];
        let block = BLOCK_BYTES as usize;
        buffer.chunks(block).zip(right.chunks(block)).filter(|(got, right)| got != right).count()
            as u64
    }

    fn write(&mut self, offset_bytes: u64, flaw: Flaw, buffer: &[u8]) {
        let place = match flaw {
            Flaw::Misdirected(elsewhere) => {
                self.counts.damaged_ios += 1;
                elsewhere
            }
            _ => offset_bytes,
        };
        self.right[offset_bytes as usize..][..buffer.len()].copy_from_slice(buffer);
        self.content[place as usize..][..buffer.len()].copy_from_slice(buffer);
        if let Flaw::Corrupt(byte, bit) = flaw {
            self.counts.damaged_ios += 1;
            self.content[(offset_bytes + u64::from(byte)) as usize] ^= 1 << bit;
        }
    }
}

impl SimMedium for FlawedMedium {
    fn delays(&mut self) -> (Nanos, Nanos) {
        let rates = self.rates;
        let mut late = match rates.is_reordering {
            true => self.length(Nanos::ZERO, MILLISECOND),
            false => Nanos::ZERO,
        };
        if self.happens(rates.late) {
            self.counts.late += 1;
            late += self.length(MICROSECOND, 2 * SECOND);
        }
        let mut stall = Nanos::ZERO;
        if self.happens(rates.stalling) {
            self.counts.stalls += 1;
            stall = self.length(MILLISECOND, 3 * SECOND);
        }
        (late, stall)
    }

    fn begin(&mut self, number: u64, request: IoRequest, is_on_buffer: bool) {
        let drawn = self.draw(request);
        let is_lost = self.reaches_buffers_only && !is_on_buffer;
        self.drawn.insert(number, if is_lost { Flaw::Errno(libc::EIO) } else { drawn });
    }

    fn finish(
        &mut self,
        number: u64,
        request: IoRequest,
        memory: Option<&mut [u8]>,
        is_live: bool,
    ) -> i32 {
        self.counts.overtaken += u64::from(number < self.latest_ended);
        self.latest_ended = self.latest_ended.max(number);
        let flaw = self.drawn.remove(&number).expect("an I/O ends once, after it has begun");
        self.end(request, flaw, memory, is_live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: IoKind, block: u64, blocks: u32) -> IoRequest {
        let length_bytes = blocks * BLOCK_BYTES as u32;
        IoRequest { kind, offset_bytes: block * BLOCK_BYTES, length_bytes, buffer_offset: 0 }
    }

    #[test]
    fn the_drive_knows_what_it_got_wrong() {
        let mut medium = FlawedMedium::new(16, FlawRates::default(), 1);
        let mut buffer = vec![7u8; 4 * BLOCK_BYTES as usize];
        let (write, read) = (request(IoKind::Write, 4, 4), request(IoKind::Read, 4, 4));
        let whole = write.length_bytes as i32;
        assert_eq!(medium.end(write, Flaw::None, Some(&mut buffer), true), whole);
        assert_eq!(medium.end(read, Flaw::None, Some(&mut buffer), true), whole);
        assert_eq!(medium.counts().wrong_blocks, 0);
        // One block damaged, then all read from elsewhere.
        medium.end(write, Flaw::Corrupt(5_000, 3), Some(&mut buffer), true);
        medium.end(read, Flaw::None, Some(&mut buffer), true);
        assert_eq!(medium.counts().wrong_blocks, 1);
        assert_eq!(buffer[5_000], 7 ^ 8);
        medium.end(read, Flaw::Misdirected(0), Some(&mut buffer), true);
        assert_eq!(medium.counts().wrong_blocks, 5);
        // Nobody waits: nobody can notice.
        medium.end(read, Flaw::Misdirected(0), Some(&mut buffer), false);
        assert_eq!(medium.counts().wrong_blocks, 5);
        // Written again, all is well, but for what then lands on it.
        buffer.fill(9);
        medium.end(write, Flaw::None, Some(&mut buffer), true);
        let other = request(IoKind::Write, 0, 2);
        medium.end(other, Flaw::Misdirected(7 * BLOCK_BYTES), Some(&mut buffer), true);
        medium.end(read, Flaw::None, Some(&mut buffer), true);
        assert_eq!(medium.counts().wrong_blocks, 5, "the same bytes are no damage");
        buffer.fill(8);
        medium.end(other, Flaw::Misdirected(7 * BLOCK_BYTES), Some(&mut buffer), true);
        medium.end(read, Flaw::None, Some(&mut buffer), true);
        assert_eq!(medium.counts().wrong_blocks, 6);
        assert_eq!(medium.end(read, Flaw::Errno(5), Some(&mut buffer), true), -5);
        assert_eq!(medium.end(read, Flaw::Short(4096), Some(&mut buffer), true), 4096);
        let counts = medium.counts();
        assert_eq!((&counts.failed[..], counts.short), (&[(IoKind::Read, 5, 1)][..], [1, 0]));
    }
}
