//! Lines of a recording, read ahead up to the end of a call that begins a thread: the thread may be
//! seen before.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use super::call::ended;
use crate::error::Error;
use crate::source::lines::{Line, Lines};

/// Most memory for lines that are read ahead, bytes.
const AHEAD_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// Memory of a line, besides its text, and of an end, bytes: about 120.
const LINE_BYTES: usize = 128;

/// Lines with those behind them, as far as was looked.
pub(super) struct Ahead<R> {
    lines: Lines<R>,
    /// Lines that were read ahead, by number; none: one that is too long.
    ahead: VecDeque<(u64, Option<Vec<u8>>)>,
    /// The line given last, if it was read ahead.
    current: Option<Vec<u8>>,
    bytes: usize,
    /// Lines ahead that end such calls, with what they return, by thread.
    ends: BTreeMap<u32, VecDeque<(u64, Option<u32>)>>,
    is_end: fn(&str) -> bool,
}

impl<R: BufRead> Ahead<R> {
    /// Lines that are read ahead up to the end of a call of that kind.
    pub(super) fn new(lines: Lines<R>, is_end: fn(&str) -> bool) -> Ahead<R> {
        let (ahead, ends) = (VecDeque::new(), BTreeMap::new());
        Ahead { lines, ahead, current: None, bytes: 0, ends, is_end }
    }

    /// The next line and its number, from 1.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Line<'_>)>, Error> {
        let Some((number, line)) = self.ahead.pop_front() else { return self.lines.next() };
        self.bytes -= line.as_ref().map_or(0, Vec::len);
        if self.ahead.is_empty() {
            (self.ends, self.bytes) = (BTreeMap::new(), 0);
        }
        self.current = line;
        Ok(Some((number, self.current.as_deref().map_or(Line::TooLong, Line::Whole))))
    }

    /// Number that the call returns that a thread began in the line of that number; none where it
    /// failed, or doesn't end within the lines that memory is meant for.
    pub(super) fn answer(&mut self, thread: u32, begun: u64) -> Result<Option<u32>, Error> {
        loop {
            let ends = self.ends.get_mut(&thread);
            if let Some((at, answer)) = ends.and_then(VecDeque::pop_front) {
                if at > begun {
                    return Ok(answer);
                }
            } else if self.bytes >= AHEAD_BYTES_MAX || !self.look()? {
                return Ok(None);
            }
        }
    }

    /// Reads one line ahead; whether there was one.
    fn look(&mut self) -> Result<bool, Error> {
        let Some((number, line)) = self.lines.next()? else { return Ok(false) };
        let line = match line {
            Line::Whole(line) => Some(line.to_vec()),
            Line::TooLong => None,
        };
        self.bytes += line.as_ref().map_or(0, Vec::len) + LINE_BYTES;
        let text = line.as_deref().and_then(|line| std::str::from_utf8(line).ok());
        if let Some((thread, answer)) = text.and_then(|text| ended(text, self.is_end)) {
            self.ends.entry(thread).or_default().push_back((number, answer));
        }
        self.ahead.push_back((number, line));
        Ok(true)
    }
}
