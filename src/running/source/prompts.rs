//! Traces that name the blocks of their prompts, read from their first file to their last.

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use ringfall_config::InputError;
use ringfall_workloads::source::{BlockFormat, Row, Rows, Skipped};

use super::reading::Reading;
use super::{NamedRows, files};

/// Beginning of a trace by which its format is recognised, bytes.
const BEGIN_BYTES: u64 = 1 << 16;

/// A trace that names the blocks of its prompts; its rows come in the order of its files.
pub struct PromptTrace {
    format: BlockFormat,
    paths: Vec<PathBuf>,
    next_file: usize,
    reading: Reading,
    current: Box<dyn Rows>,
    skipped: Skipped,
}

impl PromptTrace {
    /// Opens a file, a directory of files or those of a pattern, and recognises their format by the
    /// first one where none is given.
    ///
    /// # Errors
    /// A file can't be read, or the first row is of no format that names blocks.
    pub fn open(
        path: &Path,
        format: Option<BlockFormat>,
        reading: &Reading,
    ) -> Result<PromptTrace, InputError> {
        let wrong =
            |path: &Path, what: String| InputError::new(format!("{}: {what}", path.display()));
        let paths = files::expand(path, &files::BLOCK_ENDINGS).map_err(|what| wrong(path, what))?;
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
                BlockFormat::recognise(&begin).map_err(|error| wrong(first, error.to_string()))?
            }
        };
        let rows = format.rows(Cursor::new(begin).chain(reader));
        let current = Box::new(NamedRows { name: first.display().to_string(), rows });
        let reading = reading.clone();
        let skipped = Skipped::default();
        Ok(PromptTrace { format, next_file: 1, paths, reading, current, skipped })
    }

    /// The format of all of its files.
    #[must_use]
    pub fn format(&self) -> BlockFormat {
        self.format
    }

    /// Its files, in the order in which they are read.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The next request; none at the end.
    ///
    /// # Errors
    /// A file can't be read; it is named.
    pub fn next_row(&mut self) -> Result<Option<Row>, InputError> {
        loop {
            let row = self.current.next_row();
            let row = row.map_err(|error| InputError::new(error.to_string()))?;
            if row.is_some() {
                return Ok(row);
            }
            let Some(next) = self.paths.get(self.next_file) else { return Ok(None) };
            self.skipped = self.skipped();
            let name = next.display().to_string();
            let reader = files::open(next, &self.reading)
                .map_err(|what| InputError::new(format!("{name}: {what}")))?;
            self.current = Box::new(NamedRows { name, rows: self.format.rows(reader) });
            self.next_file += 1;
        }
    }

    /// Rows that did not parse so far; the first is named with its file.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        let (mut all, mut own) = (self.skipped.clone(), self.current.skipped().clone());
        if let (Some(first), Some(path)) = (&mut own.first, self.paths.get(self.next_file - 1)) {
            *first = format!("{}: {first}", path.display());
        }
        all.merge(&own);
        all
    }
}
