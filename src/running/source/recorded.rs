//! Traces of a format that is recognised, read from their first file to their last.

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use ringfall_workloads::Error;
use ringfall_workloads::source::{Row, Rows, Skipped, TraceFormat};

use super::reading::Reading;
use super::{NamedRows, files};

/// Beginning of a trace by which its format is recognised, bytes.
const BEGIN_BYTES: u64 = 1 << 16;

/// A recorded trace; its rows come in the order of its files.
pub struct RecordedTrace {
    format: TraceFormat,
    paths: Vec<PathBuf>,
    next_file: usize,
    reading: Reading,
    current: Box<dyn Rows>,
    skipped: Skipped,
}

impl RecordedTrace {
    /// Opens a file, a directory of files or those of a pattern, and recognises their format by the
    /// first one where none is given.
    ///
    /// # Errors
    /// A file can't be read, or the first row is of no known format.
    pub fn open(
        path: &Path,
        format: Option<TraceFormat>,
        reading: &Reading,
    ) -> Result<RecordedTrace, Error> {
        let wrong = |path: &Path, what: String| Error::new(format!("{}: {what}", path.display()));
        let paths =
            files::expand(path, &files::RECORDED_ENDINGS).map_err(|what| wrong(path, what))?;
        let Some(first) = paths.first() else {
            return Err(wrong(path, "it has no file".to_owned()));
        };
        let mut reader = files::open(first, reading).map_err(|what| wrong(first, what))?;
        let mut begin = Vec::new();
        let read = reader.by_ref().take(BEGIN_BYTES).read_to_end(&mut begin);
        read.map_err(|error| wrong(first, format!("reading it failed at its start: {error}")))?;
        let format = match format {
            Some(format) => format,
            None => {
                TraceFormat::recognise(&begin).map_err(|error| wrong(first, error.to_string()))?
            }
        };
        let rows = format.rows(Cursor::new(begin).chain(reader));
        let rows = rows.map_err(|error| wrong(first, error.to_string()))?;
        let current = Box::new(NamedRows { name: first.display().to_string(), rows });
        let reading = reading.clone();
        let skipped = Skipped::default();
        Ok(RecordedTrace { format, next_file: 1, paths, reading, current, skipped })
    }

    /// The format of all of its files.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Its files, in the order in which they are read.
    pub fn files(&self) -> &[PathBuf] {
        &self.paths
    }
}

impl Rows for RecordedTrace {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        loop {
            if let Some(row) = self.current.next_row()? {
                return Ok(Some(row));
            }
            let Some(next) = self.paths.get(self.next_file) else { return Ok(None) };
            let skipped = self.skipped();
            let name = next.display().to_string();
            let named = |what: String| Error::new(format!("{name}: {what}"));
            let reader = files::open(next, &self.reading).map_err(named)?;
            let rows = self.format.rows(reader).map_err(|error| named(error.to_string()))?;
            self.current = Box::new(NamedRows { name, rows });
            self.skipped = skipped;
            self.next_file += 1;
        }
    }

    /// Rows that did not parse so far; the first is named with its file.
    fn skipped(&self) -> Skipped {
        let (mut all, mut own) = (self.skipped.clone(), self.current.skipped());
        if let (Some(first), Some(path)) = (&mut own.first, self.paths.get(self.next_file - 1)) {
            *first = format!("{}: {first}", path.display());
        }
        all.merge(&own);
        all
    }
}
