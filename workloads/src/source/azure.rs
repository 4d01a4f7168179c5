//! Azure's CSV of LLM inference, as <https://github.com/Azure/AzurePublicDataset> describes the
//! traces of 2023 and 2024 and the multimodal one of 2025: one request a row, columns found by the
//! names in the header.

use std::io::BufRead;

use super::burstgpt::{Fields, read_header};
use super::calendar::instant_ns;
use super::lines::{Lines, next_row};
use super::{Row, Rows, Skipped};
use crate::error::Error;

const WANTED: &str = "an Azure trace begins with a header that names the columns TIMESTAMP, \
                      ContextTokens and GeneratedTokens";

/// Where the header says the columns are. That of the images of a multimodal request is left out:
/// their tokens are no text, and how many they are is not told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    timestamp: usize,
    context: usize,
    generated: usize,
}

/// A file of Azure's rows.
pub(super) struct Azure<R> {
    lines: Lines<R>,
    columns: Columns,
    fields: Fields,
    skipped: Skipped,
}

impl<R: BufRead> Azure<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is not that of an Azure trace.
    pub(super) fn new(reader: R) -> Result<Self, Error> {
        let mut lines = Lines::new(reader);
        let mut fields = Fields::default();
        let columns = read_header(&mut lines, &mut fields, WANTED, columns)?;
        Ok(Azure { lines, columns, fields, skipped: Skipped::default() })
    }
}

/// Where the columns are in this header; none where one of them is missing.
pub(super) fn columns(fields: &Fields) -> Option<Columns> {
    Some(Columns {
        timestamp: fields.find("TIMESTAMP")?,
        context: fields.find("ContextTokens")?,
        generated: fields.find("GeneratedTokens")?,
    })
}

impl<R: BufRead + Send> Rows for Azure<R> {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        let (fields, columns) = (&mut self.fields, self.columns);
        next_row(&mut self.lines, &mut self.skipped, |line| {
            fields.split(line)?;
            row(fields, columns)
        })
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

fn row(fields: &Fields, columns: Columns) -> Result<Row, String> {
    Ok(Row {
        timestamp_ns: instant_ns("TIMESTAMP", fields.named("TIMESTAMP", columns.timestamp)?)?,
        context_tokens: fields.tokens("ContextTokens", columns.context)?,
        generate_tokens: fields.tokens("GeneratedTokens", columns.generated)?,
        ..Row::default()
    })
}
