//! Where the run keeps its data: directory, capacity, data file, geometry.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfall_engine::device::{CacheDir, DataFile, Preallocate, RawDevice, is_block_device};
use ringfall_engine::engine::SEGMENT_BYTES_MIN;
use ringfall_engine::error::SetupError;
use ringfall_engine::units::{BLOCK_BYTES, MIB, gib};

use crate::remedy::told_io;

/// Part of the free space that `--storage-capacity-gb 0` takes.
const AUTO_CAPACITY_PERCENT: u64 = 95;
/// Space left for the file system's own metadata: extents, journal.
const METADATA_SLACK_BYTES: u64 = 16 * MIB;

/// What is asked of the store.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// `--cache-dir`; none: a fresh directory under the system's temp.
    pub cache_dir: Option<PathBuf>,
    /// Whether a raw device may be written over.
    pub destroy_device_contents: bool,
    /// 0: 95 % of what is free, or the whole raw device.
    pub capacity_bytes: u64,
    /// The flag that asks for it.
    pub capacity_flag: &'static str,
    /// At most this part of the free space, percent; for a run that was not asked for a size.
    pub free_percent_max: Option<u64>,
    /// How many shards will share it.
    pub shards: u16,
    /// How the data file gets its space.
    pub preallocate: Preallocate,
}

/// Where a store is.
#[derive(Debug)]
pub enum Place {
    /// A locked directory; the data file in it is ours to delete.
    Directory(CacheDir),
    /// A claimed block device, written over.
    Device(RawDevice),
}

/// An open store.
pub struct Store {
    /// Where it is.
    pub place: Place,
    /// Shared by all shards.
    pub file: Arc<DataFile>,
    /// Whole capacity.
    pub capacity_blocks: u64,
}

impl Store {
    /// Opens the directory, reclaims what a dead run left, and makes the data file with all of
    /// its space; or claims the raw device. While space is written, `goes_on` is told the bytes
    /// done and all of them, and says whether to go on.
    ///
    /// # Errors
    /// Each thing that can be wrong with the directory or device, and too little space: says how
    /// much.
    pub fn open(
        request: &StoreRequest,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Store, SetupError> {
        let path = request.cache_dir.clone().unwrap_or_else(fresh_directory);
        let (place, file, path, capacity_bytes) = match is_block_device(&path) {
            true => open_device(request, &path)?,
            false => open_directory(request, &path)?,
        };
        let capacity_blocks = capacity_bytes / BLOCK_BYTES;
        let shown = path.display().to_string();
        let file = DataFile::new(file, path, request.preallocate).map_err(|error| {
            SetupError::new(format!("can't look at {shown}: {error}"), "try again")
        })?;
        let mut goes_on = |done_bytes| goes_on(done_bytes, capacity_blocks * BLOCK_BYTES);
        file.prepare_watched(capacity_blocks, &mut goes_on).map_err(|error| {
            let (gib, flag) = (gib(capacity_bytes), request.capacity_flag);
            let what = format!("{shown} can't take the {gib:.2} GiB of {flag}");
            SetupError::new(what, told_io(&error))
        })?;
        Ok(Store { place, file: Arc::new(file), capacity_blocks })
    }

    /// The directory or device, as the user would name it.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Directory(directory) => directory.path(),
            Place::Device(device) => device.path(),
        }
    }

    /// Bytes freed by deleting what a dead run had left.
    #[must_use]
    pub fn reclaimed_bytes(&self) -> u64 {
        match &self.place {
            Place::Directory(directory) => directory.reclaimed_bytes(),
            Place::Device(_) => 0,
        }
    }

    /// Deletes what it made.
    ///
    /// # Errors
    /// What could not be deleted.
    pub fn remove(self) -> Result<(), SetupError> {
        match self.place {
            Place::Directory(directory) => directory.remove(),
            Place::Device(_) => Ok(()),
        }
    }

    /// Whole capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * BLOCK_BYTES
    }
}

type Opened = (Place, File, PathBuf, u64);

fn open_directory(request: &StoreRequest, path: &Path) -> Result<Opened, SetupError> {
    let mut directory = CacheDir::open(path)?;
    let usable_bytes = directory.free_bytes()?.saturating_sub(METADATA_SLACK_BYTES);
    let capacity_bytes =
        capacity(request, usable_bytes, AUTO_CAPACITY_PERCENT, &directory.path().display())?;
    let (file, path) = directory.create_data_file()?;
    Ok((Place::Directory(directory), file, path, capacity_bytes))
}

fn open_device(request: &StoreRequest, path: &Path) -> Result<Opened, SetupError> {
    if !request.destroy_device_contents {
        return Err(SetupError::new(
            format!("{} is a block device, and a run would write over all of it", path.display()),
            "give --destroy-device-contents if nothing on it is needed",
        ));
    }
    let (device, file) = RawDevice::open(path)?;
    let capacity_bytes = capacity(request, device.bytes(), 100, &device.path().display())?;
    let path = device.path().to_path_buf();
    Ok((Place::Device(device), file, path, capacity_bytes))
}

fn capacity(
    request: &StoreRequest,
    usable_bytes: u64,
    auto_percent: u64,
    place: &dyn std::fmt::Display,
) -> Result<u64, SetupError> {
    let flag = request.capacity_flag;
    let percent = |percent: u64| (u128::from(usable_bytes) * u128::from(percent) / 100) as u64;
    let mut wanted = match request.capacity_bytes {
        0 => percent(auto_percent),
        bytes => bytes,
    };
    if let Some(limit) = request.free_percent_max {
        wanted = wanted.min(percent(limit));
    }
    if wanted > usable_bytes {
        return Err(SetupError::new(
            format!(
                "{place} has room for {:.2} GiB, {:.2} GiB less than the {:.2} GiB of {flag}",
                gib(usable_bytes),
                gib(wanted - usable_bytes),
                gib(wanted)
            ),
            format!("free space there, lower {flag}, or give --cache-dir another directory"),
        ));
    }
    let least = u64::from(request.shards) * SEGMENT_BYTES_MIN;
    if wanted < least {
        return Err(SetupError::new(
            format!("{place} offers {:.4} GiB for the storage tier, too little", gib(wanted)),
            format!("free space there, or ask for at least {:.4} GiB with {flag}", gib(least)),
        ));
    }
    Ok(wanted / BLOCK_BYTES * BLOCK_BYTES)
}

fn fresh_directory() -> PathBuf {
    std::env::temp_dir().join(format!("ringfall-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfall_engine::units::GIB;

    fn request(capacity_bytes: u64) -> StoreRequest {
        StoreRequest {
            cache_dir: None,
            destroy_device_contents: false,
            capacity_bytes,
            capacity_flag: "--storage-capacity-gb",
            free_percent_max: None,
            shards: 2,
            preallocate: Preallocate::Reserve,
        }
    }

    #[test]
    fn capacity_is_exact_or_says_what_is_missing() {
        assert_eq!(capacity(&request(3 * GIB), 10 * GIB, 95, &"x").unwrap(), 3 * GIB);
        let auto = capacity(&request(0), 10 * GIB, 95, &"x").unwrap();
        assert!(auto > 9 * GIB && auto < 10 * GIB && auto.is_multiple_of(BLOCK_BYTES));
        let error = capacity(&request(12 * GIB), 10 * GIB, 95, &"x").unwrap_err().to_string();
        assert!(error.contains("room for 10.00 GiB") && error.contains("2.00 GiB less"), "{error}");
        assert!(capacity(&request(0), MIB, 95, &"x").is_err());
        let demo = StoreRequest { free_percent_max: Some(25), ..request(4 * GIB) };
        assert_eq!(capacity(&demo, 8 * GIB, 95, &"x").unwrap(), 2 * GIB);
    }
}
