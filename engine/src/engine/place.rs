//! Where an engine keeps its data: what is opened when it starts and given back when it stops.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::{EngineError, SettingsError};
use crate::device::{CacheDir, DataFile, Preallocate, RawDevice};
use crate::error::SetupError;
use crate::units::BLOCK_BYTES;

/// Where to.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A directory, for a file that the engine makes.
    Directory(PathBuf),
    /// A block device, written over.
    Device(PathBuf),
    /// A file of the caller's, prepared.
    File(Arc<DataFile>),
}

/// A drive to store on.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    /// Where; none for whoever brings the devices along.
    pub(super) place: Option<Place>,
    /// Its size, if it was given.
    pub(super) bytes: Option<u64>,
}

/// Guard that is held as long as the engine runs.
enum Held {
    Directory(CacheDir),
    Device { _claim: RawDevice },
    Nothing,
}

/// An open place.
pub(super) struct Opened {
    pub(super) file: Arc<DataFile>,
    held: Held,
}

impl Place {
    /// Opens it, for so many bytes; [`Opened::prepare`] gives them their space.
    pub(super) fn open(
        &self,
        storage_bytes: u64,
        preallocate: Preallocate,
    ) -> Result<Opened, EngineError> {
        let (file, path, held) = match self {
            Place::File(file) => {
                return Ok(Opened { file: Arc::clone(file), held: Held::Nothing });
            }
            Place::Directory(path) => {
                let mut directory = CacheDir::open(path)?;
                let (file, path) = directory.create_data_file()?;
                (file, path, Held::Directory(directory))
            }
            Place::Device(path) => {
                let (device, file) = RawDevice::open(path)?;
                let device_bytes = device.bytes();
                if storage_bytes > device_bytes {
                    let bytes = storage_bytes;
                    return Err(SettingsError::StorageBeyondDevice { bytes, device_bytes }.into());
                }
                let path = device.path().to_path_buf();
                (file, path, Held::Device { _claim: device })
            }
        };
        let file = DataFile::new(file, path.clone(), preallocate).map_err(|error| {
            SetupError::Directory {
                doing: "look at",
                path,
                errno: error.raw_os_error().unwrap_or(0),
                reason: error.to_string(),
            }
        })?;
        Ok(Opened { file: Arc::new(file), held })
    }
}

impl Opened {
    /// Gives so many bytes of the file their space, unless the caller has.
    pub(super) fn prepare(&self, storage_bytes: u64) -> Result<(), EngineError> {
        match self.held {
            Held::Nothing => Ok(()),
            _ => Ok(self.file.prepare(storage_bytes / BLOCK_BYTES)?),
        }
    }

    /// Deletes what was made for the engine.
    pub(super) fn remove(self) -> Result<(), SetupError> {
        match self.held {
            Held::Directory(directory) => directory.remove(),
            Held::Device { .. } | Held::Nothing => Ok(()),
        }
    }
}
