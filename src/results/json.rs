//! Writing the JSON result.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// Writes the document to `out` as text, without a newline at its end.
///
/// All that is written of a result goes through here: each other type of writer, and each other
/// way of formatting, would have the compiler make the code of all its types once more.
///
/// # Errors
/// What `out` says.
pub fn write_text(document: &impl Serialize, out: &mut dyn Write) -> std::io::Result<()> {
    Ok(serde_json::to_writer_pretty(out, document)?)
}

/// Writes the document to `path`, whole or not at all: by a temporary file beside it. What is there
/// and is no plain file (a device, a pipe) is written to and never replaced.
///
/// # Errors
/// What the file system says.
pub fn write_json(document: &impl Serialize, path: &Path) -> std::io::Result<()> {
    write_whole(path, &|out| {
        write_text(document, out)?;
        out.write_all(b"\n")
    })
}

/// Writes what `write` gives to `path`, as [`write_json`] says.
fn write_whole(
    path: &Path,
    write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    // A link's target is replaced, not the link.
    let target = std::fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if path.exists() && !path.is_file() {
        let mut text = Vec::new();
        write(&mut text)?;
        return crate::host::write_output(path, &text);
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = std::io::BufWriter::new(std::fs::File::create(&temporary)?);
        write(&mut file)?;
        file.into_inner()?.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _leftover = std::fs::remove_file(&temporary);
    }
    written
}
