//! Lines of a file of unknown kind, in bounded memory.

use std::io::{BufRead, Read as _};

use super::{Row, Skipped, shown};
use crate::error::Error;

/// Longest line kept; a row of any known trace is far shorter.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;
/// A line that goes on for longer than this is no line: whatever is read is not a file of lines.
const PASSED_BYTES_MAX: u64 = 256 << 20;

/// Lines that may follow each other without one that can be used, and their bytes: a few seconds of
/// reading. A file with more of them is not what its reader takes it for, or was made to be read
/// for ever: a few kilobytes, compressed, unfold to gigabytes of nothing.
const UNUSABLE_LINES_MAX: u64 = 10_000_000;
const UNUSABLE_BYTES_MAX: u64 = 1 << 30;

/// Byte order mark that spreadsheets and editors begin a file of UTF-8 with.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) struct Lines<R> {
    reader: R,
    line_bytes_max: usize,
    number: u64,
    buffer: Vec<u8>,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line<'a> {
    /// Its bytes.
    Whole(&'a [u8]),
    /// Longer than the longest that is kept, [`LINE_BYTES_MAX`] unless its reader says otherwise:
    /// passed over.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Lines::up_to(LINE_BYTES_MAX, reader)
    }

    /// Lines of which those up to this length are kept.
    pub(crate) fn up_to(line_bytes_max: usize, reader: R) -> Self {
        Lines { reader, line_bytes_max, number: 0, buffer: Vec::new() }
    }

    /// The line given last with all that follows it, as one.
    pub(crate) fn with_rest(&mut self) -> Result<Line<'_>, Error> {
        self.buffer.push(b'\n');
        let room = (self.line_bytes_max + 1).saturating_sub(self.buffer.len()) as u64;
        let rest = self.reader.by_ref().take(room).read_to_end(&mut self.buffer);
        let number = self.number;
        rest.map_err(|error| {
            Error::new(format!("reading it failed behind line {number}: {error}"))
        })?;
        let is_whole = self.buffer.len() <= self.line_bytes_max;
        Ok(if is_whole { Line::Whole(&self.buffer) } else { Line::TooLong })
    }

    /// The next line and its number, from 1; a byte order mark is no part of the first.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Line<'_>)>, Error> {
        self.buffer.clear();
        let (mut any, mut too_long) = (false, false);
        let mut line_bytes = 0u64;
        loop {
            let number = self.number + 1;
            let chunk = self.reader.fill_buf().map_err(|error| {
                Error::new(format!("reading it failed at line {number}: {error}"))
            })?;
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            line_bytes += part.len() as u64;
            if line_bytes > PASSED_BYTES_MAX {
                return Err(Error::new(format!(
                    "line {number} has no end within {} MiB: it is not a file of lines",
                    PASSED_BYTES_MAX >> 20
                )));
            }
            too_long |= self.buffer.len() + part.len() > self.line_bytes_max;
            if !too_long {
                self.buffer.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        if too_long {
            return Ok(Some((self.number, Line::TooLong)));
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        if self.number == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some((self.number, Line::Whole(&self.buffer))))
    }
}

/// The next row that parses; lines of nothing are passed over, what does not parse is counted.
pub(crate) fn next_row<R: BufRead>(
    lines: &mut Lines<R>,
    skipped: &mut Skipped,
    mut parse: impl FnMut(&[u8]) -> Result<Row, String>,
) -> Result<Option<Row>, Error> {
    let mut unusable = Unusable::default();
    while let Some((number, line)) = lines.next()? {
        unusable.pass(number, &line)?;
        match line {
            Line::TooLong => skipped.count(number, too_long),
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => match parse(line) {
                Ok(row) => return Ok(Some(row)),
                Err(why) => skipped.count(number, || unread(line, &why)),
            },
        }
    }
    Ok(None)
}

/// Lines since the last one that could be used.
#[derive(Default)]
pub(crate) struct Unusable {
    lines: u64,
    bytes: u64,
}

impl Unusable {
    /// One more, until it turns out to be of use.
    pub(crate) fn pass(&mut self, number: u64, line: &Line<'_>) -> Result<(), Error> {
        self.lines += 1;
        self.bytes += match line {
            Line::Whole(line) => line.len() as u64,
            Line::TooLong => LINE_BYTES_MAX as u64,
        };
        if self.lines <= UNUSABLE_LINES_MAX && self.bytes <= UNUSABLE_BYTES_MAX {
            return Ok(());
        }
        Err(Error::new(format!(
            "the {} lines up to line {number} ({} MiB) hold no row that can be used, and reading \
             stops after {UNUSABLE_LINES_MAX} such lines or {} MiB; check the file, or remove them",
            self.lines,
            self.bytes >> 20,
            UNUSABLE_BYTES_MAX >> 20
        )))
    }
}

pub(crate) fn unread(line: &[u8], why: &str) -> String {
    format!("{why}; the line is {}", shown(line))
}

/// Why a line is not read.
pub(crate) fn too_long() -> String {
    format!("it is longer than {LINE_BYTES_MAX} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_come_in_bounded_memory() {
        let mut text = b"one\r\n\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 10 << 20));
        text.extend(b"\nlast");
        let mut lines = Lines::new(std::io::BufReader::with_capacity(4096, &text[..]));
        assert_eq!(lines.next().unwrap(), Some((1, Line::Whole(b"one"))));
        assert_eq!(lines.next().unwrap(), Some((2, Line::Whole(b""))));
        assert_eq!(lines.next().unwrap(), Some((3, Line::TooLong)));
        assert!(lines.buffer.capacity() <= 2 * LINE_BYTES_MAX);
        assert_eq!(lines.next().unwrap(), Some((4, Line::Whole(b"last"))));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_line_is_read_on_to_the_end_as_far_as_one_may_be_long() {
        let text = b"{\n1\n}\n";
        for (bytes_max, expected) in [(6, Line::Whole(&text[..])), (5, Line::TooLong)] {
            let mut lines = Lines::up_to(bytes_max, &text[..]);
            assert_eq!(lines.next().unwrap(), Some((1, Line::Whole(b"{"))));
            assert_eq!(lines.with_rest().unwrap(), expected, "{bytes_max}");
        }
    }

    #[test]
    fn lines_of_no_use_end_before_their_file_does() {
        let wide = [b'x'].repeat(200 << 10);
        let wide = Line::Whole(&wide);
        let (mut long, mut many) = (Unusable::default(), Unusable::default());
        let error = (1..).find_map(|number| long.pass(number, &wide).err()).unwrap().to_string();
        assert!(error.contains("1024 MiB") && long.lines < 6_000, "{error}");
        let empty = Line::Whole(b"");
        let error = (1..).find_map(|number| many.pass(number, &empty).err()).unwrap().to_string();
        assert!(error.contains("up to line 10000001 (0 MiB)"), "{error}");
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        let endless = std::io::BufReader::with_capacity(1 << 20, std::io::repeat(0));
        let error = Lines::new(endless).next().unwrap_err().to_string();
        assert!(error.contains("line 1 has no end"), "{error}");
    }
}
