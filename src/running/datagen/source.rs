//! Inputs of an analysis: files, below directories too, and content that is made on the spot.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use ringfall_core::fill::NamedContent;

use super::DatagenError;

/// Files that are analyzed at once; a tree of more is no data set.
const FILES_MAX: usize = 10_000_000;

/// One stream of bytes.
#[derive(Clone, Debug)]
pub enum Item {
    /// A file or block device.
    File {
        /// Its path.
        path: PathBuf,
        /// Its length when it was found.
        bytes: u64,
    },
    /// Content as it would be written.
    Content {
        /// It.
        content: NamedContent,
        /// Its length, a multiple of 4 KiB.
        bytes: u64,
    },
}

impl Item {
    /// Path of a file or block device; none for content that is generated.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Item::File { path, .. } => Some(path),
            Item::Content { .. } => None,
        }
    }

    /// Length of the item, bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Item::File { bytes, .. } | Item::Content { bytes, .. } => *bytes,
        }
    }
}

/// Reads items; keeps the file that it read last open.
#[derive(Debug, Default)]
pub(super) struct Reader {
    open: Option<(usize, File)>,
}

impl Reader {
    /// Fills a buffer from an offset of an item on, which it must hold.
    pub(super) fn read(
        &mut self,
        (number, item): (usize, &Item),
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), DatagenError> {
        let path = match item {
            Item::Content { content, .. } => {
                content.fill(buffer, offset);
                return Ok(());
            }
            Item::File { path, .. } => path,
        };
        self.open = self.open.take().filter(|(open, _)| *open == number);
        let (_, file) = match &mut self.open {
            Some(open) => open,
            none => none.insert((number, opened(path)?)),
        };
        file.read_exact_at(buffer, offset).map_err(|error| {
            let (length, path) = (buffer.len(), path.display());
            DatagenError::file(format!("can't read {length} bytes at {offset} of {path}"), error)
        })
    }
}

fn opened(path: &Path) -> Result<File, DatagenError> {
    File::open(path)
        .map_err(|error| DatagenError::file(format!("can't open {}", path.display()), error))
}

/// The files at and below those paths, in the order of their names; links inside directories are
/// not followed.
///
/// # Errors
/// A path is not there, may not be read, or is neither file, device nor directory.
pub fn items_of(paths: &[PathBuf]) -> Result<Vec<Item>, DatagenError> {
    let mut items = Vec::new();
    for path in paths {
        add(path, true, &mut items)?;
    }
    Ok(items)
}

fn add(path: &Path, is_named: bool, items: &mut Vec<Item>) -> Result<(), DatagenError> {
    let failed = |error| DatagenError::file(format!("can't look at {}", path.display()), error);
    let metadata = match is_named {
        true => std::fs::metadata(path),
        false => std::fs::symlink_metadata(path),
    };
    let metadata = metadata.map_err(failed)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            inside.push(entry.map_err(failed)?.path());
        }
        inside.sort();
        return inside.iter().try_for_each(|path| add(path, false, items));
    }
    let bytes = if kind.is_file() {
        metadata.len()
    } else if kind.is_block_device() && is_named {
        opened(path)?.seek(SeekFrom::End(0)).map_err(failed)?
    } else if is_named {
        let what = format!("{} is neither a file nor a directory", path.display());
        return Err(DatagenError::Lacks(format!("{what}: give data that can be read again")));
    } else {
        return Ok(());
    };
    if items.len() >= FILES_MAX {
        let what = format!("there are more than {FILES_MAX} files");
        return Err(DatagenError::Lacks(format!("{what}: give fewer paths")));
    }
    items.push(Item::File { path: path.to_path_buf(), bytes });
    Ok(())
}
