//! Writing the JSON result.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// Writes the document to `path`, whole or not at all: by a temporary file beside it. What is there
/// and is no plain file (a device, a pipe) is written to and never replaced.
///
/// # Errors
/// What the file system says.
pub fn write_json(document: &impl Serialize, path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    // A link's target is replaced, not the link.
    let target = std::fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if path.exists() && !path.is_file() {
        let text = serde_json::to_string_pretty(document)? + "\n";
        return crate::host::write_output(path, text.as_bytes());
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = std::io::BufWriter::new(std::fs::File::create(&temporary)?);
        serde_json::to_writer_pretty(&mut file, document)?;
        file.write_all(b"\n")?;
        file.into_inner()?.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _leftover = std::fs::remove_file(&temporary);
    }
    written
}
