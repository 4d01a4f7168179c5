//! Inputs made of others: bytes, numbers, words, lines and pieces changed at random.

use std::io::{Cursor, Read, Write};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Longest input that is made.
const BYTES_MAX: usize = 1 << 20;
/// Changes to one input, at most.
const CHANGES_MAX: u32 = 6;
/// Numbers at which something ends.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "-0",
    "0.5",
    "1e308",
    "1e309",
    "-1e308",
    "1e-320",
    "255",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "NaN",
    ".inf",
];
/// Pieces with a meaning in one of the formats.
const WORDS: [&str; 42] = [
    " <unfinished ...>\n",
    "<... ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ",",
    ":",
    ": ",
    "\n",
    "\r\n",
    "\t",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "&a ",
    "*a",
    "<<: *a",
    "- ",
    "? ",
    "!!binary ",
    "|",
    ">",
    "#",
    "---\n",
    "...\n",
    "\u{feff}",
    "\u{0}",
    "\u{fffd}",
    "&#0;",
    "<!DOCTYPE a [",
    "]]>",
    "<row>",
    "r=\"XFD1048576\"",
    "Filename",
];

/// Makes inputs, the same ones from the same seed.
pub struct Mutator {
    random: Xoshiro256PlusPlus,
    is_archive: bool,
}

impl Mutator {
    pub fn new(reader: &str, seed: u64) -> Mutator {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Mutator { random, is_archive: reader == "spreadsheet" }
    }

    /// An input like those.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let input = self.one_of(corpus).to_vec();
        // Most changes to a compressed file only spoil its checksum: change what is inside.
        let inside = self.is_archive && self.random.random_bool(0.9);
        let changed = match inside.then(|| self.changed_inside(&input, corpus)).flatten() {
            Some(changed) => changed,
            None => self.changed(input, corpus),
        };
        changed[..changed.len().min(BYTES_MAX)].to_vec()
    }

    /// One part of an archive changed; `None`: it is none.
    fn changed_inside(&mut self, input: &[u8], corpus: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut parts = parts(input)?;
        let other = parts_of(self.one_of(corpus));
        if parts.is_empty() {
            return None;
        }
        let place = self.random.random_range(0..parts.len());
        let others: Vec<Vec<u8>> = other.into_iter().map(|(_, bytes)| bytes).collect();
        let bytes = std::mem::take(&mut parts[place].1);
        parts[place].1 = self.changed(bytes, &others);
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in &parts {
            let stored = zip::write::SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored);
            archive.start_file(name.as_str(), stored).ok()?;
            archive.write_all(bytes).ok()?;
        }
        Some(archive.finish().ok()?.into_inner())
    }

    fn changed(&mut self, mut bytes: Vec<u8>, others: &[Vec<u8>]) -> Vec<u8> {
        for _ in 0..self.random.random_range(1..=CHANGES_MAX) {
            self.change(&mut bytes, others);
            bytes.truncate(BYTES_MAX);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let (from, to) = self.range(bytes.len());
        match self.random.random_range(0..12) {
            0 if from < bytes.len() => bytes[from] ^= 1 << self.random.random_range(0..8),
            1 if from < bytes.len() => bytes[from] = self.random.random(),
            2 => drop(bytes.drain(from..to)),
            3 => bytes.truncate(from),
            // Once more, elsewhere or in place of something.
            4 => {
                let piece = bytes[from..to].to_vec();
                let (at, end) = self.range(bytes.len());
                bytes.splice(at..end, piece);
            }
            // Very often: depth and length.
            5 => {
                let times = 1 << self.random.random_range(0..12);
                let piece = bytes[from..to.min(from + 64)].repeat(times);
                bytes.splice(from..from, piece);
            }
            6 if !others.is_empty() => {
                let other = self.one_of(others).to_vec();
                let (at, end) = self.range(other.len());
                bytes.splice(from..to, other[at..end].iter().copied());
            }
            7 => {
                let word = WORDS[self.random.random_range(0..WORDS.len())];
                bytes.splice(from..from, word.bytes());
            }
            8 => self.swap_lines(bytes),
            9 => {
                let times = 1 << self.random.random_range(0..17);
                let word = ["[", "{\"a\":", "- ", "(", "\"", "a,", "\n", "<a>"];
                let word = word[self.random.random_range(0..word.len())].repeat(times);
                bytes.splice(from..from, word.into_bytes());
            }
            _ => self.replace_number(bytes),
        }
    }

    /// A number in the text by one at which something ends.
    fn replace_number(&mut self, bytes: &mut Vec<u8>) {
        let (from, _) = self.range(bytes.len());
        let digit = |byte: &u8| byte.is_ascii_digit();
        let Some(start) = bytes[from..].iter().position(digit).map(|at| from + at) else { return };
        let inside = |byte: &u8| !byte.is_ascii_digit() && *byte != b'.';
        let end = bytes[start..].iter().position(inside).map_or(bytes.len(), |at| start + at);
        let number = NUMBERS[self.random.random_range(0..NUMBERS.len())];
        bytes.splice(start..end, number.bytes());
    }

    fn swap_lines(&mut self, bytes: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
        if lines.len() > 1 {
            let (a, b) = (self.random.random_range(0..lines.len()), lines.len() - 1);
            let b = self.random.random_range(0..=b);
            lines.swap(a, b);
            *bytes = lines.concat();
        }
    }

    /// A piece of so many bytes: mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.random.random_range(0..=length);
        let most = (length - from).min(1 << self.random.random_range(0..10));
        (from, from + self.random.random_range(0..=most))
    }

    fn one_of<'a>(&mut self, inputs: &'a [Vec<u8>]) -> &'a [u8] {
        &inputs[self.random.random_range(0..inputs.len())]
    }
}

fn parts_of(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    parts(archive).unwrap_or_default()
}

/// The parts of an archive by name; `None`: it is none.
fn parts(archive: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(archive)).ok()?;
    let mut parts = Vec::new();
    for place in 0..archive.len() {
        let part = archive.by_index(place).ok()?;
        let name = part.name().ok()?.into_owned();
        let mut bytes = Vec::new();
        part.take(BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
        parts.push((name, bytes));
    }
    Some(parts)
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let corpus = [b"a: 1\nb: [2, 3]\n".to_vec(), b"{\"c\": 4}".to_vec()];
    let inputs = |seed| {
        let mut mutator = Mutator::new("device", seed);
        (0..1000).map(|_| mutator.next(&corpus)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}
