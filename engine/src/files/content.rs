//! Content of objects, cheap enough to make for every write: a worker's buffer is filled once, and
//! the first bytes of each 4 KiB block in a file are the file's and the block's own. So no two
//! blocks are equal, and no drive or file system can keep two of them as one.

use crate::key::mix64;
use crate::units::BLOCK_BYTES;

/// Bytes at the beginning of each block that name it.
const MARK_BYTES: u64 = 16;

/// Marks of one file's blocks.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    file: u64,
}

struct MarkPart {
    mark: [u8; MARK_BYTES as usize],
    /// The part begins there in the mark.
    from: usize,
    /// The part begins there in the buffer.
    at: usize,
    length: usize,
}

impl Marks {
    /// Marks of the file that is written by this path.
    pub fn new(seed: u64, path: &str) -> Marks {
        Marks { file: path.bytes().fold(mix64(seed), |file, byte| mix64(file ^ u64::from(byte))) }
    }

    /// Marks the blocks of a buffer that holds the file from `offset_bytes` on.
    pub fn write(self, buffer: &mut [u8], offset_bytes: u64) {
        for part in self.parts(offset_bytes, buffer.len() as u64) {
            let mark = &part.mark[part.from..][..part.length];
            buffer[part.at..][..part.length].copy_from_slice(mark);
        }
    }

    /// Whether a buffer holds the file's blocks, read from `offset_bytes` of its file on.
    #[cfg(test)]
    pub(super) fn are_in(self, buffer: &[u8], offset_bytes: u64) -> bool {
        self.parts(offset_bytes, buffer.len() as u64)
            .all(|part| buffer[part.at..][..part.length] == part.mark[part.from..][..part.length])
    }

    /// Parts of marks that lie in a range of the file.
    fn parts(self, offset: u64, length: u64) -> impl Iterator<Item = MarkPart> {
        let end = offset + length;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let part = move |block: u64| {
            let start = block * BLOCK_BYTES;
            let (from, to) = (start.max(offset), (start + MARK_BYTES).min(end));
            MarkPart {
                mark: self.mark(block),
                from: (from - start) as usize,
                at: (from - offset) as usize,
                length: to.saturating_sub(from) as usize,
            }
        };
        // A range that begins behind a mark has nothing of it.
        blocks.map(part).filter(|part| part.length > 0)
    }

    fn mark(self, block: u64) -> [u8; MARK_BYTES as usize] {
        let mut mark = [0; MARK_BYTES as usize];
        let (file, own) = mark.split_at_mut(8);
        file.copy_from_slice(&self.file.to_le_bytes());
        own.copy_from_slice(&mix64(self.file.wrapping_add(block)).to_le_bytes());
        mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However a file is cut into writes, it is the same file, and reads may be cut otherwise.
    #[test]
    fn marks_belong_to_the_file_and_not_to_the_cuts() {
        let marks = Marks::new(7, "a");
        let mut whole = vec![0; 3 * 4096 + 100];
        marks.write(&mut whole, 0);
        for cut in [1, 8, 15, 16, 17, 4095, 4096, 4100, 8192, 12_288, 12_300] {
            let mut parts = vec![0; whole.len()];
            let (before, after) = parts.split_at_mut(cut);
            marks.write(before, 0);
            marks.write(after, cut as u64);
            assert!(marks.are_in(&whole[cut..], cut as u64), "{cut}");
            assert_eq!(parts, whole, "{cut}");
        }
    }

    #[test]
    fn another_file_block_or_seed_is_told_apart() {
        let (one, other) = (Marks::new(7, "a"), Marks::new(7, "b"));
        let mut bytes = vec![0; 8192];
        assert!(!one.are_in(&bytes, 0));
        one.write(&mut bytes, 0);
        assert!(one.are_in(&bytes, 0) && one.are_in(&bytes[4096..], 4096));
        assert!(!other.are_in(&bytes, 0) && !one.are_in(&bytes[4096..], 0));
        assert!(!Marks::new(8, "a").are_in(&bytes, 0));
        assert_ne!(bytes[..16], bytes[4096..4112]);
    }
}
