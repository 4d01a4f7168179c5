//! Where an engine keeps its data: what is opened when it starts and given back when it stops.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::EngineError;
use crate::device::{CacheDir, DataFile, Preallocate};
use crate::error::SetupError;
use crate::units::BLOCK_BYTES;

#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A directory, for a file that the engine makes.
    Directory(PathBuf),
    /// A file of the caller's, prepared.
    File(Arc<DataFile>),
}

#[derive(Clone, Debug)]
pub(super) struct Drive {
    /// Where; none for whoever brings the devices along.
    pub(super) place: Option<Place>,
    /// Its size, if it was given.
    pub(super) bytes: Option<u64>,
}

pub(super) struct Opened {
    pub(super) file: Arc<DataFile>,
    /// The directory that it was made in; none for a file of the caller's.
    directory: Option<CacheDir>,
}

impl Place {
    /// Opens it; [`Opened::prepare`] gives it its space.
    pub(super) fn open(&self, preallocate: Preallocate) -> Result<Opened, EngineError> {
        let path = match self {
            Place::File(file) => return Ok(Opened { file: Arc::clone(file), directory: None }),
            Place::Directory(path) => path,
        };
        let mut directory = CacheDir::open(path)?;
        let (file, path) = directory.create_data_file()?;
        let file = DataFile::new(file, path.clone(), preallocate).map_err(|error| {
            SetupError::Directory {
                doing: "look at",
                path,
                errno: error.raw_os_error().unwrap_or(0),
                reason: error.to_string(),
            }
        })?;
        Ok(Opened { file: Arc::new(file), directory: Some(directory) })
    }
}

impl Opened {
    /// Gives so many bytes of the file their space, unless the caller has.
    pub(super) fn prepare(&self, storage_bytes: u64) -> Result<(), EngineError> {
        match self.directory {
            Some(_) => Ok(self.file.prepare(storage_bytes / BLOCK_BYTES)?),
            None => Ok(()),
        }
    }

    /// Deletes what was made for the engine.
    pub(super) fn remove(self) -> Result<(), SetupError> {
        self.directory.map_or(Ok(()), CacheDir::remove)
    }
}
