//! A file of content, written for others to store, and compared again.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ringfall_core::fill::{NamedContent, VerifyMode, VerifyReport};
use ringfall_core::units::MIB;
use ringfall_host::files::Spot;
use ringfall_host::open_plain;

use super::DatagenError;

/// Made at a time, bytes.
const CHUNK_BYTES: u64 = 8 * MIB;

/// Writes a file, a multiple of 4 KiB long, which gets its name when it is whole and durable;
/// makes the directories that are missing on its path.
///
/// # Errors
/// It is there already and may not be replaced; it can't be written; it was told to end.
pub fn write_file(
    path: &Path,
    content: &NamedContent,
    bytes: u64,
    overwrite: bool,
    tell: &dyn Fn(u64) -> bool,
) -> Result<(), DatagenError> {
    let failed = |error| DatagenError::file(format!("can't write {}", path.display()), error);
    let taken = || {
        let what = format!("{} already exists", path.display());
        DatagenError::Lacks(match path.is_file() {
            true => format!("{what}: give --overwrite to replace it, or another name"),
            false => format!("{what}, and is not a file: give another name"),
        })
    };
    if path.exists() && !(overwrite && path.is_file()) {
        return Err(taken());
    }
    let spot = Spot::make(path).map_err(failed)?;
    let draft = spot.begin().map_err(failed)?;
    in_chunks(bytes, tell, |part, offset| {
        content.fill(part, offset);
        draft.file().write_all(part).map_err(failed)
    })?;
    if overwrite {
        return draft.publish(spot.name()).map_err(failed);
    }
    draft.publish_new(spot.name()).map_err(|error| match error.kind() {
        // Another has taken the name meanwhile.
        ErrorKind::AlreadyExists => taken(),
        _ => failed(error),
    })
}

/// Compares a file with content of that length.
///
/// # Errors
/// It has another length, or can't be read; it was told to end.
pub fn verify_file(
    path: &Path,
    content: &NamedContent,
    bytes: u64,
    tell: &dyn Fn(u64) -> bool,
) -> Result<VerifyReport, DatagenError> {
    let failed = |error| DatagenError::file(format!("can't read {}", path.display()), error);
    let file = open_plain(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length != bytes {
        return Err(DatagenError::Lacks(format!(
            "{} has {length} bytes and not {bytes}: give the --size-gib with which it was written",
            path.display()
        )));
    }
    let mut all = VerifyReport::default();
    in_chunks(bytes, tell, |part, offset| {
        file.read_exact_at(part, offset).map_err(failed)?;
        let report = content.verify(VerifyMode::Full, part, offset);
        all.blocks_checked += report.blocks_checked;
        all.blocks_bad += report.blocks_bad;
        all.first_bad_block = all.first_bad_block.or(report.first_bad_block);
        Ok(())
    })?;
    Ok(all)
}

/// Does the same with each chunk of so many bytes, in order: a buffer of its length, and its
/// offset. `tell` is told how far it is, and says whether to go on.
fn in_chunks(
    bytes: u64,
    tell: &dyn Fn(u64) -> bool,
    mut each: impl FnMut(&mut [u8], u64) -> Result<(), DatagenError>,
) -> Result<(), DatagenError> {
    let mut buffer = vec![0; CHUNK_BYTES.min(bytes) as usize];
    let mut offset = 0;
    while offset < bytes {
        let part = &mut buffer[..CHUNK_BYTES.min(bytes - offset) as usize];
        each(part, offset)?;
        offset += part.len() as u64;
        if !tell(offset) {
            return Err(DatagenError::Interrupted);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ringfall_core::fill::{ContentName, Shape};
    use ringfall_core::key::EntryKey;
    use ringfall_host::Scratch;

    use super::*;

    /// Both of two writers at once had written it.
    #[test]
    fn a_name_that_is_taken_meanwhile_stays_the_others() {
        let directory = Scratch::new("taken");
        let path = directory.join("file");
        let name = ContentName { seed: 1, key: EntryKey(0), version: 0 };
        let shape = Shape { dedupe_ratio: 1.0, compress_ratio: 1.0 };
        let content = NamedContent::new(name, 4096, &shape);
        let meanwhile = |_: u64| {
            std::fs::write(&path, "theirs").unwrap();
            true
        };
        let error = write_file(&path, &content, 4096, false, &meanwhile).unwrap_err();
        assert!(matches!(error, DatagenError::Lacks(_)), "{error}");
        assert!(error.to_string().contains("already exists: give --overwrite"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(&*directory).unwrap().count(), 1);
        write_file(&path, &content, 4096, true, &meanwhile).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
        // As for every other output.
        let below = directory.join("missing/too/file");
        write_file(&below, &content, 4096, false, &|_| true).unwrap();
        assert_eq!(std::fs::metadata(&below).unwrap().len(), 4096);
    }
}
