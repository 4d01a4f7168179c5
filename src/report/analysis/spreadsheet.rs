//! The rows of an .xlsx file. What it may unpack to, declare and hold is bounded before anything is
//! allocated for it: a spreadsheet of a few kilobytes can ask for all of a machine's memory.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;

use calamine::{DataRef, Reader, Xlsx};

use ringfall_model::document::FileProblem;

use super::collection::Row;

/// Bytes that all parts of a spreadsheet may unpack to: 80 times the reference's larger one. What a
/// reader makes of a byte of styles may be fifty.
const UNPACKED_BYTES_MAX: u64 = 32 << 20;
/// Rows and cells that are kept, and bytes of their texts: a shared text is copied to every cell.
const ROWS_MAX: usize = 200_000;
const CELLS_MAX: usize = 2_000_000;
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Bytes of the shortest shared text (`<si/>`): a part can't hold more texts than that allows.
const SHARED_TEXT_BYTES_MIN: u64 = 5;

/// The first sheet whose first row `is_wanted`, as rows with their numbers from 1; none if there is
/// no such sheet.
pub(super) fn rows(
    path: &Path,
    bytes: Vec<u8>,
    is_wanted: fn(&Row) -> bool,
) -> Result<Option<BTreeMap<u64, Row>>, FileProblem> {
    let unreadable = |what: &str| {
        FileProblem::new(path, format!("this is not a readable .xlsx spreadsheet: {what}"))
    };
    check_parts(&bytes).map_err(|what| unreadable(&what))?;
    // What was made to have right checksums around nonsense can still make the reader panic.
    std::panic::catch_unwind(|| sheets(bytes, is_wanted))
        .unwrap_or_else(|_| Err("its reader gave up".to_owned()))
        .map_err(|what| unreadable(&what))
}

/// Unpacks each part once, within a bound. The reader below has no bound; it finds a wrong checksum
/// only after having read all of a part; and it makes room for as many shared texts as are declared
/// before it reads the first, which ends the program where there is no such room.
fn check_parts(bytes: &[u8]) -> Result<(), String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
    let mut left = UNPACKED_BYTES_MAX;
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|error| error.to_string())?;
        let name = part.name().map_err(|error| error.to_string())?.into_owned();
        let mut content = Vec::new();
        // One byte more tells what fits from what does not; what the entry says of its size may
        // lie.
        let read = part.take(left + 1).read_to_end(&mut content);
        read.map_err(|error| format!("its part {name:?} is damaged: {error}"))?;
        left = left.checked_sub(content.len() as u64).ok_or_else(|| {
            format!(
                "it unpacks to more than {} MiB; copy the table alone to a new spreadsheet, or to \
                 a .csv file",
                UNPACKED_BYTES_MAX >> 20
            )
        })?;
        if name.to_ascii_lowercase().ends_with("sharedstrings.xml") {
            check_declared(&content)?;
        }
    }
    Ok(())
}

/// Whether the number of shared texts that is declared can be true. `texts`: the whole part, in
/// whichever encoding.
fn check_declared(texts: &[u8]) -> Result<(), String> {
    // UTF-16 of such a name has a zero beside each letter.
    let ascii = texts.iter().filter(|byte| byte.is_ascii() && **byte != 0);
    let plain: String = ascii.copied().map(char::from).collect();
    let most = texts.len() as u64 / SHARED_TEXT_BYTES_MIN;
    for value in plain.split("uniqueCount").skip(1) {
        let value = value.trim_start_matches(|c: char| c.is_whitespace() || "=\"'+".contains(c));
        let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
        let declared = &value[..end];
        if end > 0 && declared.parse().map_or(true, |count: u64| count > most) {
            return Err(format!(
                "it declares {declared} shared texts, and its {} KiB can hold at most {most}",
                texts.len() >> 10
            ));
        }
    }
    Ok(())
}

fn sheets(
    bytes: Vec<u8>,
    is_wanted: fn(&Row) -> bool,
) -> Result<Option<BTreeMap<u64, Row>>, String> {
    let unreadable = |error: calamine::XlsxError| error.to_string();
    let mut workbook: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).map_err(unreadable)?;
    for sheet in workbook.sheet_names() {
        // Cell by cell: a table of all cells up to the last one could be made arbitrarily large.
        let mut kept = Kept::default();
        let mut cells = workbook.worksheet_cells_reader(&sheet).map_err(unreadable)?;
        while let Some(cell) = cells.next_cell().map_err(unreadable)? {
            let (row, column) = cell.get_position();
            if let Some(text) = text_of(cell.get_value()) {
                kept.add(row, column, text).map_err(|what| format!("{sheet:?} {what}"))?;
            }
        }
        if kept.rows.first_key_value().is_some_and(|(_, header)| is_wanted(header)) {
            return Ok(Some(kept.rows));
        }
    }
    Ok(None)
}

/// A cell as text; none: an empty one.
fn text_of(value: &DataRef<'_>) -> Option<String> {
    Some(match value {
        DataRef::Empty => return None,
        // An error in a cell (#DIV/0!) is a figure that could not be computed.
        DataRef::Error(_) => String::new(),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Float(number) => number.to_string(),
        DataRef::Int(number) => number.to_string(),
        DataRef::Bool(truth) => truth.to_string(),
        // A date or a duration: shown as it is, and no figure of a run.
        other => format!("{other:?}"),
    })
}

#[derive(Default)]
struct Kept {
    rows: BTreeMap<u64, Row>,
    cells: usize,
    text_bytes: usize,
}

impl Kept {
    fn add(&mut self, row: u32, column: u32, text: String) -> Result<(), String> {
        self.cells += 1;
        self.text_bytes += text.len();
        self.rows.entry(u64::from(row) + 1).or_default().insert(column, text);
        let too_many = [
            ("rows", self.rows.len(), ROWS_MAX),
            ("cells", self.cells, CELLS_MAX),
            ("bytes of text", self.text_bytes, TEXT_BYTES_MAX),
        ];
        match too_many.into_iter().find(|(_, count, most)| count > most) {
            Some((what, _, most)) => {
                Err(format!("has more than {most} {what}; give a part of its rows"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_count_is_believed_only_if_the_part_can_hold_so_many() {
        let head = |count: &str| format!("<sst uniqueCount = {count}><si/><si/></sst>");
        for good in ["\"2\"", "'2'", "\"\"", "\"x\"", "2"] {
            check_declared(head(good).as_bytes()).unwrap();
        }
        for bad in ["\"4294967295\"", "'99'", "\" +99999999999999999999\"", "\"9"] {
            let text = head(bad);
            let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let twice = format!("<!-- uniqueCount=\"1\" -->{text}");
            for text in [text.as_bytes(), &wide, twice.as_bytes()] {
                let error = check_declared(text);
                let error = if bad == "\"9" && error.is_ok() { continue } else { error };
                assert!(error.unwrap_err().contains("shared texts"), "{bad}");
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_sheet_is_bounded() {
        let mut kept = Kept::default();
        let text = "x".repeat(1 << 20);
        let error = (0..).find_map(|row| kept.add(row, 0, text.clone()).err()).unwrap();
        assert!(error.contains("bytes of text") && kept.rows.len() < 100, "{error}");
        let mut kept = Kept::default();
        let error = (0..).find_map(|row| kept.add(row, 0, String::new()).err()).unwrap();
        assert!(error.contains("more than 200000 rows"), "{error}");
    }
}
