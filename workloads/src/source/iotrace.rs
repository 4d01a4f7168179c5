//! Logical traces: operations on entries, as `ringfall run --io-trace-log` writes them, and the
//! reference benchmark. Columns by name: `Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase`.
//!
//! Strict, unlike the other traces: an operation left out would change what the next ones find.

use std::collections::BTreeSet;
use std::io::BufRead;

use super::burstgpt::{Fields, name_hash, read_header};
use super::lines::{Line, Lines, Unusable, too_long};
use super::{Row, Rows, Skipped, seconds_as_ns, shown};
use crate::error::Error;
use crate::key::PART_MAX;
use crate::rng::mix64;

const WANTED: &str = "a logical trace begins with the header \
                      Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase";
/// Largest object believed, bytes: a TiB.
const BYTES_MAX: u64 = 1 << 40;

/// Which operations are replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayedRows {
    /// Those that reached storage (`Tier-2`), evictions to it included.
    Storage,
    /// Those that were asked for, in whichever tier they were found; evictions are the engine's
    /// own.
    Asked,
}

/// An operation on an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The entry's size, > 0.
    pub bytes: u64,
    /// A write, or a read.
    pub is_write: bool,
    /// Part of generating, or of what comes before.
    pub is_decode: bool,
}

/// An entry that is read before it is written: it must be there before the replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayObject {
    /// The user that replays the entry's operations, as in [`super::SourceRequest::user`].
    pub user: u64,
    /// Size of the entry, bytes.
    pub bytes: u64,
}

/// Which "user" replays the operations on a key.
pub(super) fn user_of_key(key_hash: u64) -> u64 {
    mix64(key_hash ^ mix64(0)) & PART_MAX
}

#[derive(Clone, Copy, Debug)]
struct Columns {
    timestamp: usize,
    operation: usize,
    bytes: usize,
    tier: usize,
    key: usize,
    phase: usize,
}

/// A file of operations.
pub struct IoTrace<R> {
    lines: Lines<R>,
    columns: Columns,
    fields: Fields,
    rows: ReplayedRows,
}

impl<R: BufRead> IoTrace<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is not that of a logical trace.
    pub fn new(reader: R, rows: ReplayedRows) -> Result<Self, Error> {
        let mut lines = Lines::new(reader);
        let mut fields = Fields::default();
        let columns = read_header(&mut lines, &mut fields, WANTED, columns)?;
        Ok(IoTrace { lines, columns, fields, rows })
    }
}

fn columns(fields: &Fields) -> Option<Columns> {
    Some(Columns {
        timestamp: fields.find("Timestamp")?,
        operation: fields.find("Operation")?,
        bytes: fields.find("Object_Size_Bytes")?,
        tier: fields.find("Tier")?,
        key: fields.find("Key")?,
        phase: fields.find("Phase")?,
    })
}

impl<R: BufRead + Send> Rows for IoTrace<R> {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        let mut unusable = Unusable::default();
        while let Some((number, line)) = self.lines.next()? {
            unusable.pass(number, &line)?;
            let parsed = match line {
                Line::TooLong => Err(too_long()),
                Line::Whole(line) if line.trim_ascii().is_empty() => continue,
                Line::Whole(line) => {
                    let split = self.fields.split(line);
                    split.and_then(|()| row(&self.fields, self.columns, self.rows))
                }
            };
            match parsed {
                Ok(Some(row)) => return Ok(Some(row)),
                Ok(None) => {}
                Err(why) => return Err(Error::new(format!("line {number}: {why}"))),
            }
        }
        Ok(None)
    }

    /// None: every row counts.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

/// `None`: a row that is not replayed.
fn row(fields: &Fields, columns: Columns, rows: ReplayedRows) -> Result<Option<Row>, String> {
    let text = |name: &str, column: usize| -> Result<&[u8], String> {
        let field = fields.get(column).ok_or_else(|| format!("it has no {name}"))?.trim_ascii();
        if field.is_empty() { Err(format!("{name} is empty")) } else { Ok(field) }
    };
    let one_of = |name: &str, column: usize, known: &[&str]| -> Result<usize, String> {
        let field = text(name, column)?;
        let found = known.iter().position(|word| field.eq_ignore_ascii_case(word.as_bytes()));
        found.ok_or_else(|| format!("{name} is {}, not one of {}", shown(field), known.join(", ")))
    };
    let time = text("Timestamp", columns.timestamp)?;
    let seconds: Option<f64> = std::str::from_utf8(time).ok().and_then(|text| text.parse().ok());
    let seconds = seconds.ok_or_else(|| format!("Timestamp is {}, not a number", shown(time)))?;
    let timestamp_ns = seconds_as_ns("Timestamp", seconds)?;
    let is_write = one_of("Operation", columns.operation, &["Read", "Write"])? == 1;
    let size = text("Object_Size_Bytes", columns.bytes)?;
    let bytes: Option<u64> = std::str::from_utf8(size).ok().and_then(|text| text.parse().ok());
    let bytes = bytes.filter(|bytes| (1..=BYTES_MAX).contains(bytes)).ok_or_else(|| {
        format!("Object_Size_Bytes is {}, not a number from 1 to {BYTES_MAX}", shown(size))
    })?;
    let tier = one_of("Tier", columns.tier, &["Tier-0", "Tier-1", "Tier-2"])?;
    let phase = one_of("Phase", columns.phase, &["Prefill", "Decode", "Evict"])?;
    let key = text("Key", columns.key)?;
    let is_replayed = match rows {
        ReplayedRows::Storage => tier == 2,
        ReplayedRows::Asked => phase != 2,
    };
    Ok(is_replayed.then(|| Row {
        timestamp_ns,
        session: Some(name_hash(key)),
        operation: Some(Operation { bytes, is_write, is_decode: phase == 1 }),
        ..Row::default()
    }))
}

/// Memory of an entry that a trace names: its place among those known, and in the list of those
/// that must be there before, which may have grown to twice its length.
const OBJECT_BYTES: u64 = (2 * size_of::<u64>() + 2 * size_of::<ReplayObject>()) as u64;

/// Reads a whole trace: how many operations it has, and which entries it reads before it writes
/// them. `memory_bytes_max`: what remembering its entries may take.
///
/// # Errors
/// A row that is none: where, and why; or more entries than may be remembered.
pub fn objects_read_first(
    rows: &mut dyn Rows,
    memory_bytes_max: u64,
) -> Result<(u64, Vec<ReplayObject>), Error> {
    let (mut known, mut objects, mut count) = (BTreeSet::new(), Vec::new(), 0);
    let entries_max = memory_bytes_max / OBJECT_BYTES;
    while let Some(row) = rows.next_row()? {
        let (Some(key), Some(operation)) = (row.session, row.operation) else { continue };
        count += 1;
        if known.insert(key) && !operation.is_write {
            objects.push(ReplayObject { user: user_of_key(key), bytes: operation.bytes });
        }
        if known.len() as u64 > entries_max {
            return Err(Error::new(format!(
                "its first {count} operations name more than {entries_max} entries, which is what \
                 {} MiB of memory can remember; replay a part of it",
                memory_bytes_max >> 20
            )));
        }
    }
    Ok((count, objects))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n";

    fn read(text: &str, rows: ReplayedRows) -> Result<Vec<Row>, Error> {
        let mut trace = IoTrace::new(text.as_bytes(), rows)?;
        let mut all = Vec::new();
        while let Some(row) = trace.next_row()? {
            all.push(row);
        }
        Ok(all)
    }

    #[test]
    fn operations_are_read_as_they_are_written() {
        let text = format!(
            "{HEADER}1704067200.5,Write,4096,Tier-1,user_1,Prefill\n\
             1704067200.500001,Read,4096,Tier-1,user_1,Evict\r\n\
             1704067200.500001,Write,4096,Tier-2,user_1,Evict\n\n\
             1704067201,read,4096,tier-2,user_1,decode\n\
             1704067201,Read,100,Tier-2,\"other, one\",Prefill\n"
        );
        let storage = read(&text, ReplayedRows::Storage).unwrap();
        let operations: Vec<Operation> = storage.iter().filter_map(|row| row.operation).collect();
        assert_eq!(operations.len(), 3);
        assert!(operations[0].is_write && !operations[1].is_write && operations[1].is_decode);
        assert_eq!(storage[0].session, storage[1].session);
        assert_ne!(storage[0].session, storage[2].session);
        let asked = read(&text, ReplayedRows::Asked).unwrap();
        assert_eq!(asked.len(), 3);
        let mut trace = IoTrace::new(text.as_bytes(), ReplayedRows::Storage).unwrap();
        let (count, objects) = objects_read_first(&mut trace, 1 << 20).unwrap();
        assert_eq!((count, objects.len(), objects[0].bytes), (3, 1, 100));
        let mut trace = IoTrace::new(text.as_bytes(), ReplayedRows::Storage).unwrap();
        let error = objects_read_first(&mut trace, OBJECT_BYTES).unwrap_err().to_string();
        assert!(error.contains("more than 1 entries"), "{error}");
    }

    #[test]
    fn what_is_no_operation_is_named_with_its_line() {
        let good = "1,Write,4096,Tier-2,k,Prefill\n";
        for (row, word) in [
            ("x,Write,4096,Tier-2,k,Prefill", "Timestamp is \"x\""),
            ("-1,Write,4096,Tier-2,k,Prefill", "Timestamp"),
            ("nan,Write,4096,Tier-2,k,Prefill", "Timestamp"),
            ("1,Erase,4096,Tier-2,k,Prefill", "Operation is \"Erase\", not one of Read, Write"),
            ("1,Write,0,Tier-2,k,Prefill", "Object_Size_Bytes"),
            ("1,Write,1e3,Tier-2,k,Prefill", "Object_Size_Bytes"),
            ("1,Write,4096,NVMe,k,Prefill", "Tier is"),
            ("1,Write,4096,Tier-2,,Prefill", "Key is empty"),
            ("1,Write,4096,Tier-2,k,Load", "Phase is"),
            ("1,Write,4096", "it has no"),
        ] {
            let error = read(&format!("{HEADER}{good}{row}\n"), ReplayedRows::Asked).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("line 3") && error.contains(word), "{error}");
        }
        for text in ["", "a,b,c\n", "Timestamp,Operation\n"] {
            assert!(read(text, ReplayedRows::Asked).unwrap_err().to_string().contains("header"));
        }
    }
}
