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

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something is wrong with the directory or device.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// There is less room than asked for, and no less is wanted: a sentence.
    #[error("{0}")]
    Short(String),
}

/// What is asked of the store.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// `--cache-dir`; none: a fresh directory under the system's temp.
    pub cache_dir: Option<PathBuf>,
    /// Whether a raw device may be written over.
    pub destroy_device_contents: bool,
    /// What it may come to hold; 0: 95 % of what is free, or the whole raw device.
    pub capacity_bytes: u64,
    /// The flag that asks for it.
    pub capacity_flag: &'static str,
    /// Whether less than asked for is refused, where a file that grows would do with it.
    pub is_strict: bool,
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
    /// Nowhere: there is no storage tier.
    Nowhere,
}

/// An open store.
pub struct Store {
    /// Where it is.
    pub place: Place,
    /// Shared by all shards.
    pub file: Arc<DataFile>,
    /// Whole capacity, which a file that grows may come to have.
    pub capacity_blocks: u64,
    /// The capacity that was asked for, bytes, when there is less room.
    pub wanted_bytes: Option<u64>,
    /// Bytes freed by deleting what dead runs had left.
    pub reclaimed_bytes: u64,
}

impl Store {
    /// Opens the directory, reclaims what a dead run left, and makes the data file with all of
    /// its space, or the first step of it; or claims the raw device. While space is written,
    /// `goes_on` is told the bytes done and all of them, and says whether to go on.
    ///
    /// # Errors
    /// Each thing that can be wrong with the directory or device, and too little space: says how
    /// much.
    pub fn open(
        request: &StoreRequest,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Store, StoreError> {
        let mut reclaimed_bytes = 0;
        let path = request.cache_dir.clone().unwrap_or_else(|| {
            reclaimed_bytes = reclaim_fresh();
            fresh_directory()
        });
        let Opened { place, file, path, capacity, kept_free_bytes } = match is_block_device(&path) {
            true => open_device(request, &path)?,
            false => open_directory(request, &path)?,
        };
        let capacity_bytes = capacity.bytes;
        let capacity_blocks = capacity_bytes / BLOCK_BYTES;
        let shown = path.display().to_string();
        let file = DataFile::new(file, path, request.preallocate).map_err(|error| {
            SetupError::new(format!("can't look at {shown}: {error}"), "try again")
        })?;
        let file = file.leaving(kept_free_bytes);
        let mut goes_on = |done_bytes| goes_on(done_bytes, capacity_blocks * BLOCK_BYTES);
        file.prepare_watched(capacity_blocks, &mut goes_on).map_err(|error| {
            let (gib, flag) = (gib(capacity_bytes), request.capacity_flag);
            let what = format!("{shown} can't take the {gib:.2} GiB of {flag}");
            SetupError::new(what, told_io(&error))
        })?;
        if let Place::Directory(directory) = &place {
            reclaimed_bytes += directory.reclaimed_bytes();
        }
        let (file, wanted_bytes) = (Arc::new(file), capacity.wanted_bytes);
        Ok(Store { place, file, capacity_blocks, wanted_bytes, reclaimed_bytes })
    }

    /// No store, for a run without a storage tier: no directory is made and no drive touched.
    ///
    /// # Errors
    /// The kernel gives no file of memory.
    pub fn nowhere() -> Result<Store, StoreError> {
        let file = DataFile::of_no_blocks().map_err(|error| {
            let what = format!("the kernel gives no file of memory: {error}");
            SetupError::new(what, "raise the limit on open files (ulimit -n)")
        })?;
        let (place, file) = (Place::Nowhere, Arc::new(file));
        Ok(Store { place, file, capacity_blocks: 0, wanted_bytes: None, reclaimed_bytes: 0 })
    }

    /// The directory or device, as the user would name it; `none` when there is no storage tier.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Directory(directory) => directory.path(),
            Place::Device(device) => device.path(),
            Place::Nowhere => Path::new("none"),
        }
    }

    /// Deletes what it made.
    ///
    /// # Errors
    /// What could not be deleted.
    pub fn remove(self) -> Result<(), SetupError> {
        match self.place {
            Place::Directory(directory) => directory.remove(),
            Place::Device(_) | Place::Nowhere => Ok(()),
        }
    }

    /// Whole capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * BLOCK_BYTES
    }
}

struct Opened {
    place: Place,
    file: File,
    path: PathBuf,
    capacity: Capacity,
    /// Free space that the steps of a file that grows leave to others.
    kept_free_bytes: u64,
}

/// What the store may come to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Capacity {
    bytes: u64,
    /// What was asked for, where there is less.
    wanted_bytes: Option<u64>,
}

/// What may be used of a place.
struct Usable<'a> {
    bytes: u64,
    /// Part of it that is taken when no size is given.
    auto_percent: u64,
    /// Whether less than asked for will do.
    may_be_less: bool,
    place: &'a dyn std::fmt::Display,
}

fn open_directory(request: &StoreRequest, path: &Path) -> Result<Opened, StoreError> {
    let mut directory = CacheDir::open(path)?;
    let usable_bytes = directory.free_bytes()?.saturating_sub(METADATA_SLACK_BYTES);
    let usable = Usable {
        bytes: usable_bytes,
        auto_percent: AUTO_CAPACITY_PERCENT,
        // What is reserved or written before the run is wanted whole.
        may_be_less: request.preallocate == Preallocate::Grow,
        place: &directory.path().display(),
    };
    let capacity = capacity(request, &usable)?;
    // A size that nobody gave leaves others the rest of what was free, whoever takes it first.
    let kept_free_bytes = match request.capacity_bytes {
        0 => METADATA_SLACK_BYTES + (usable_bytes - part_of(usable_bytes, AUTO_CAPACITY_PERCENT)),
        _ => METADATA_SLACK_BYTES,
    };
    let (file, path) = directory.create_data_file()?;
    Ok(Opened { place: Place::Directory(directory), file, path, capacity, kept_free_bytes })
}

fn open_device(request: &StoreRequest, path: &Path) -> Result<Opened, StoreError> {
    if !request.destroy_device_contents {
        let error = SetupError::new(
            format!("{} is a block device, and a run would write over all of it", path.display()),
            "give --destroy-device-contents if nothing on it is needed",
        );
        return Err(error.into());
    }
    let (device, file) = RawDevice::open(path)?;
    let usable = Usable {
        bytes: device.bytes(),
        auto_percent: 100,
        may_be_less: false,
        place: &device.path().display(),
    };
    let capacity = capacity(request, &usable)?;
    let path = device.path().to_path_buf();
    Ok(Opened { place: Place::Device(device), file, path, capacity, kept_free_bytes: 0 })
}

fn part_of(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

fn capacity(request: &StoreRequest, usable: &Usable<'_>) -> Result<Capacity, StoreError> {
    let (flag, place) = (request.capacity_flag, usable.place);
    let mut wanted = match request.capacity_bytes {
        0 => part_of(usable.bytes, usable.auto_percent),
        bytes => bytes,
    };
    if let Some(limit) = request.free_percent_max {
        wanted = wanted.min(part_of(usable.bytes, limit));
    }
    if wanted > usable.bytes && (request.is_strict || !usable.may_be_less) {
        let what = format!(
            "{place} has room for {:.2} GiB, {:.2} GiB less than the {:.2} GiB of {flag}",
            gib(usable.bytes),
            gib(wanted - usable.bytes),
            gib(wanted)
        );
        let remedy =
            format!("free space there, lower {flag}, or give --cache-dir another directory");
        return Err(match usable.may_be_less {
            true => {
                StoreError::Short(format!("{what}, and --strict refuses to do with less: {remedy}"))
            }
            false => SetupError::new(what, remedy).into(),
        });
    }
    let bytes = wanted.min(usable.bytes);
    let least = u64::from(request.shards) * SEGMENT_BYTES_MIN;
    if bytes < least {
        let error = SetupError::new(
            format!("{place} offers {:.4} GiB for the storage tier, too little", gib(bytes)),
            format!("free space there, or ask for at least {:.4} GiB with {flag}", gib(least)),
        );
        return Err(error.into());
    }
    let wanted_bytes = (wanted > bytes).then_some(wanted);
    Ok(Capacity { bytes: bytes / BLOCK_BYTES * BLOCK_BYTES, wanted_bytes })
}

/// What a run makes that is not told where; its name is known again when the run has died.
const FRESH_PREFIX: &str = "ringfall-";

fn fresh_directory() -> PathBuf {
    std::env::temp_dir().join(format!("{FRESH_PREFIX}{}", std::process::id()))
}

/// Deletes what runs that were not told where, and died, left: bytes freed.
fn reclaim_fresh() -> u64 {
    CacheDir::reclaim_dead(&std::env::temp_dir(), |name| {
        let number = name.strip_prefix(FRESH_PREFIX).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
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
            is_strict: false,
            free_percent_max: None,
            shards: 2,
            preallocate: Preallocate::Reserve,
        }
    }

    fn usable(bytes: u64, may_be_less: bool) -> Usable<'static> {
        Usable { bytes, auto_percent: 95, may_be_less, place: &"x" }
    }

    #[test]
    fn capacity_is_exact_or_says_what_is_missing() {
        let of = |request: &StoreRequest, bytes| capacity(request, &usable(bytes, false));
        let all = |bytes| Capacity { bytes, wanted_bytes: None };
        assert_eq!(of(&request(3 * GIB), 10 * GIB).unwrap(), all(3 * GIB));
        let auto = of(&request(0), 10 * GIB).unwrap().bytes;
        assert!(auto > 9 * GIB && auto < 10 * GIB && auto.is_multiple_of(BLOCK_BYTES));
        let error = of(&request(12 * GIB), 10 * GIB).unwrap_err().to_string();
        assert!(error.contains("room for 10.00 GiB") && error.contains("2.00 GiB less"), "{error}");
        assert!(of(&request(0), MIB).is_err());
        let demo = StoreRequest { free_percent_max: Some(25), ..request(4 * GIB) };
        assert_eq!(of(&demo, 8 * GIB).unwrap(), all(2 * GIB));
    }

    #[test]
    fn a_file_that_grows_does_with_less_unless_that_is_refused() {
        let asked = request(12 * GIB);
        let less = Capacity { bytes: 10 * GIB, wanted_bytes: Some(12 * GIB) };
        assert_eq!(capacity(&asked, &usable(10 * GIB, true)).unwrap(), less);
        let strict = StoreRequest { is_strict: true, ..asked };
        let error = capacity(&strict, &usable(10 * GIB, true)).unwrap_err();
        assert!(matches!(error, StoreError::Short(_)), "{error:?}");
        assert!(error.to_string().contains("--strict refuses"), "{error}");
        let enough = capacity(&strict, &usable(12 * GIB, true)).unwrap();
        assert_eq!(enough, Capacity { bytes: 12 * GIB, wanted_bytes: None });
    }
}
