//! Writing the JSON result.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// Writes the document to `out` as text, without a newline at its end.
///
/// All that is written of a result goes through here: each other type of writer, and each other
/// way of formatting, would have the compiler make the code of all its types once more.
pub fn write_text(document: &impl Serialize, out: &mut dyn Write) -> std::io::Result<()> {
    Ok(serde_json::to_writer_pretty(out, document)?)
}

/// Writes the document to `path` as [`ringfall_host::write_output`] does.
pub fn write_json(document: &impl Serialize, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, &line_of(document)?)
}

/// Writes the document to `path` as [`ringfall_host::write_output_unsynced`] does.
pub fn write_json_unsynced(document: &impl Serialize, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output_unsynced(path, &line_of(document)?)
}

/// Text of the document, with a newline at its end.
fn line_of(document: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    write_text(document, &mut text)?;
    text.push(b'\n');
    Ok(text)
}
