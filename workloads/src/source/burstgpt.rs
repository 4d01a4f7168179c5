//! Traces in CSV, one request a row, columns found by the names in the header; and the columns of
//! BurstGPT.

use std::io::BufRead;

use csv_core::ReadRecordResult;

use super::lines::{Line, Lines, next_row, too_long};
use super::{Row, Rows, Skipped, seconds_as_ns, shown, whole_tokens};
use crate::error::Error;
use crate::key::PART_MAX;
use crate::rng::mix64;

/// Columns believed of a file; the published ones have 6 and 8.
const COLUMNS_MAX: usize = 64;

/// Columns of a trace, where its header says they are.
pub trait Columns: Copy + Send + Sized {
    /// First line that such a trace has, as a sentence.
    const WANTED: &str;

    /// The columns that this header names; none where one of them is missing.
    fn find(header: &Fields) -> Option<Self>;

    /// The request of a row.
    ///
    /// # Errors
    /// A field is missing or not what it should be: which, and what it is.
    fn row(self, fields: &Fields) -> Result<Row, String>;
}

/// Columns of a BurstGPT trace, where its header says they are; sessions are not in all files.
#[derive(Clone, Copy, Debug)]
pub struct BurstGptColumns {
    timestamp: usize,
    request: usize,
    response: usize,
    session: Option<usize>,
}

/// A file of rows with these columns.
pub struct CsvRows<R, C> {
    lines: Lines<R>,
    columns: C,
    fields: Fields,
    skipped: Skipped,
}

/// A file of BurstGPT rows.
pub type BurstGpt<R> = CsvRows<R, BurstGptColumns>;

impl<R: BufRead, C: Columns> CsvRows<R, C> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is not that of such a trace.
    pub fn new(reader: R) -> Result<Self, Error> {
        let mut lines = Lines::new(reader);
        let mut fields = Fields::default();
        let columns = read_header(&mut lines, &mut fields, C::WANTED, C::find)?;
        Ok(CsvRows { lines, columns, fields, skipped: Skipped::default() })
    }
}

/// Where the columns are, by the first line; `wanted` says what that line should be.
pub(super) fn read_header<R: BufRead, C>(
    lines: &mut Lines<R>,
    fields: &mut Fields,
    wanted: &str,
    columns: impl FnOnce(&Fields) -> Option<C>,
) -> Result<C, Error> {
    match lines.next()? {
        None => Err(Error::new(format!("it is empty; {wanted}"))),
        Some((_, Line::TooLong)) => Err(Error::new(format!("line 1: {}; {wanted}", too_long()))),
        Some((_, Line::Whole(line))) => fields
            .split(line)
            .ok()
            .and_then(|()| columns(fields))
            .ok_or_else(|| Error::new(format!("line 1 is {}; {wanted}", shown(line)))),
    }
}

impl<R: BufRead + Send, C: Columns> Rows for CsvRows<R, C> {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        let (fields, columns) = (&mut self.fields, self.columns);
        next_row(&mut self.lines, &mut self.skipped, |line| {
            fields.split(line)?;
            columns.row(fields)
        })
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

impl Columns for BurstGptColumns {
    const WANTED: &str = "a BurstGPT trace begins with a header that names the columns Timestamp, \
                          Request tokens and Response tokens";

    fn find(header: &Fields) -> Option<BurstGptColumns> {
        Some(BurstGptColumns {
            timestamp: header.find("Timestamp")?,
            request: header.find("Request tokens")?,
            response: header.find("Response tokens")?,
            session: header.find("Session ID"),
        })
    }

    fn row(self, fields: &Fields) -> Result<Row, String> {
        let session = self.session.and_then(|column| fields.get(column)).map(<[u8]>::trim_ascii);
        Ok(Row {
            timestamp_ns: seconds_as_ns("Timestamp", fields.number("Timestamp", self.timestamp)?)?,
            session: session.filter(|name| !name.is_empty()).map(name_hash),
            context_tokens: fields.tokens("Request tokens", self.request)?,
            generate_tokens: fields.tokens("Response tokens", self.response)?,
            ..Row::default()
        })
    }
}

/// A session's name as a number of a key's width. Among a million sessions, two share one with a
/// probability of 4e-7.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    let folded = name.chunks(8).fold(name.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix64(hash ^ u64::from_le_bytes(word))
    });
    mix64(folded) & PART_MAX
}

/// The fields of one CSV line.
pub struct Fields {
    /// Kept from line to line: building its tables takes many times as long as reading a line.
    reader: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Default for Fields {
    fn default() -> Fields {
        // The reader's own default has no tables, and reads nothing.
        Fields { reader: csv_core::Reader::new(), bytes: Vec::new(), ends: Vec::new() }
    }
}

impl Fields {
    pub(super) fn split(&mut self, line: &[u8]) -> Result<(), String> {
        self.bytes.resize(line.len() + 1, 0);
        self.ends.resize(COLUMNS_MAX, 0);
        self.reader.reset();
        let (mut read, mut wrote, mut ended) = (0, 0, 0);
        loop {
            // An empty input tells the reader that the line is over.
            let (result, bytes_in, bytes_out, ends_out) = self.reader.read_record(
                &line[read..],
                &mut self.bytes[wrote..],
                &mut self.ends[ended..],
            );
            (read, wrote, ended) = (read + bytes_in, wrote + bytes_out, ended + ends_out);
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(format!("it has more than {COLUMNS_MAX} columns"));
                }
            }
        }
        self.ends.truncate(ended);
        Ok(())
    }

    /// Which field is `name`, in any case.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        (0..self.ends.len()).find(|&at| {
            let field = self.get(at).unwrap_or_default().trim_ascii();
            field.eq_ignore_ascii_case(name.as_bytes())
        })
    }

    /// The field of this column, of which `name` is told where the line ends before it.
    pub(super) fn named(&self, name: &str, column: usize) -> Result<&[u8], String> {
        let field = self.get(column).ok_or_else(|| format!("it has no {name}"))?;
        Ok(field.trim_ascii())
    }

    pub(super) fn number(&self, name: &str, column: usize) -> Result<f64, String> {
        let field = self.named(name, column)?;
        let text = std::str::from_utf8(field).ok();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| format!("{name} is {}, not a number", shown(field)))
    }

    pub(super) fn tokens(&self, name: &str, column: usize) -> Result<u32, String> {
        whole_tokens(name, self.number(name, column)?)
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(begin..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line is read alike after any other one, also after one that is not whole.
    #[test]
    fn a_line_s_fields_do_not_depend_on_the_lines_before_it() {
        let many = "x,".repeat(COLUMNS_MAX + 1);
        let lines = [
            "1,2,3",
            "\"one, with a comma\",\"and \"\"quotes\"\"\",",
            "\"never closed,1",
            "\u{feff}a,b",
            "",
            &many,
            " a , b\r",
            "\"a\"b,\"",
            ",",
        ];
        let seen = |fields: &mut Fields, line: &str| {
            let split = fields.split(line.as_bytes());
            let all = (0..fields.ends.len()).filter_map(|at| fields.get(at).map(<[u8]>::to_vec));
            split.map(|()| all.collect::<Vec<_>>())
        };
        let mut kept = Fields::default();
        for before in lines {
            for line in lines {
                let _before = seen(&mut kept, before);
                let alone = seen(&mut Fields::default(), line);
                assert_eq!(seen(&mut kept, line), alone, "{line:?} after {before:?}");
            }
        }
        assert_eq!(seen(&mut kept, lines[1]).unwrap()[1], b"and \"quotes\"");
    }
}
