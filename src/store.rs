//! Where the run keeps its data: directories and devices, capacity, data files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfall_engine::device::{
    CacheDir, DataFile, ObjectIo, Preallocate, RawDevice, is_block_device,
};
use ringfall_engine::engine::SEGMENT_BYTES_MIN;
use ringfall_engine::error::SetupError;
use ringfall_engine::units::{BLOCK_BYTES, MIB, gib};

use crate::objects::ObjectCounts;
#[cfg(feature = "objects")]
use crate::objects::{
    ObjectError, ObjectOptions, ObjectUrl, OpenError, TierError, TierIo, TierObjects,
};
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
    /// There is less room than asked for, and no less is wanted, or the place is not one for a run:
    /// a sentence.
    #[error("{0}")]
    Short(String),
}

#[cfg(feature = "objects")]
impl From<TierError> for StoreError {
    fn from(error: TierError) -> StoreError {
        match error {
            TierError::Open(OpenError::Refused(error)) => refused(&error).into(),
            TierError::Open(OpenError::Threads(_)) => {
                SetupError::new(error.to_string(), "raise the limit on processes (ulimit -u)")
                    .into()
            }
            TierError::Open(OpenError::Interrupted { .. }) => {
                SetupError::new(error.to_string(), "look whether its address is right").into()
            }
            // What was typed can't be meant, or not there.
            TierError::Open(OpenError::Options(_)) | TierError::NotEmpty { .. } => {
                StoreError::Short(error.to_string())
            }
        }
    }
}

/// What a store refuses for good.
#[cfg(feature = "objects")]
fn refused(error: &ObjectError) -> SetupError {
    SetupError::new(error.what(), error.cause.to_string())
}

/// What is asked of the store.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// `--cache-dir`, a directory or device on each drive; none: a fresh directory under the
    /// system's temp.
    pub places: Vec<PathBuf>,
    /// Whether a raw device may be written over.
    pub destroy_device_contents: bool,
    /// What it may come to hold; 0: 95 % of what is free, or the whole raw devices.
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

/// A fresh directory with as much space as may be had, taken as it is needed.
impl Default for StoreRequest {
    fn default() -> StoreRequest {
        StoreRequest {
            places: Vec::new(),
            destroy_device_contents: false,
            capacity_bytes: 0,
            capacity_flag: "--storage-capacity-gb",
            is_strict: false,
            free_percent_max: None,
            shards: 1,
            preallocate: Preallocate::Grow,
        }
    }
}

/// Where a store is.
#[derive(Debug)]
pub enum Place {
    /// A locked directory; the data file in it is ours to delete.
    Directory(CacheDir),
    /// A claimed block device, written over.
    Device(RawDevice),
    /// A prefix in an object store.
    #[cfg(feature = "objects")]
    Objects(Arc<TierObjects>),
    /// Nowhere: there is no storage tier.
    Nowhere,
}

/// One drive of a store.
pub struct StoreDrive {
    /// The directory, block device or object store that the drive's data is in.
    pub place: Place,
    /// Shared by all shards.
    pub file: Arc<DataFile>,
    /// What it may come to hold, blocks.
    pub capacity_blocks: u64,
}

impl StoreDrive {
    /// The directory or device, as the user would name it.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Directory(directory) => directory.path(),
            Place::Device(device) => device.path(),
            #[cfg(feature = "objects")]
            Place::Objects(objects) => objects.path(),
            Place::Nowhere => Path::new("none"),
        }
    }

    /// What it may come to hold, bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * BLOCK_BYTES
    }
}

/// An open store, on one or several drives.
pub struct Store {
    /// Its drives, at least one.
    pub drives: Vec<StoreDrive>,
    /// The capacity that was asked for, bytes, when there is less room.
    pub wanted_bytes: Option<u64>,
    /// Bytes freed by deleting what dead runs had left.
    pub reclaimed_bytes: u64,
}

impl Store {
    /// Opens the directories, reclaims what a dead run left, and makes the data files with all of
    /// their space, or the first step of it; or claims the raw devices. While space is written,
    /// `goes_on` is told the bytes done and all of them, and says whether to go on.
    ///
    /// # Errors
    /// Each thing that can be wrong with a directory or device, and too little space: says how
    /// much.
    pub fn open(
        request: &StoreRequest,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Store, StoreError> {
        let mut reclaimed_bytes = 0;
        let paths = match &request.places[..] {
            [] => {
                reclaimed_bytes = reclaim_fresh();
                vec![fresh_directory()]
            }
            paths => paths.to_vec(),
        };
        let mut found = Vec::new();
        for path in &paths {
            found.push(match is_block_device(path) {
                true => find_device(request, path)?,
                false => find_directory(path)?,
            });
        }
        share_file_systems(&mut found);
        let capacity = capacity(request, &found)?;
        let parts = divide(capacity.bytes / BLOCK_BYTES, &found, request.capacity_bytes == 0);
        let (all_bytes, mut before_bytes) = (capacity.bytes, 0);
        let mut drives = Vec::new();
        for (place, capacity_blocks) in found.into_iter().zip(parts) {
            let mut goes_on = |done_bytes| goes_on(before_bytes + done_bytes, all_bytes);
            let drive = place.prepare(request, capacity_blocks, &mut goes_on)?;
            if let Place::Directory(directory) = &drive.place {
                reclaimed_bytes += directory.reclaimed_bytes();
            }
            drives.push(drive);
            before_bytes += capacity_blocks * BLOCK_BYTES;
        }
        Ok(Store { drives, wanted_bytes: capacity.wanted_bytes, reclaimed_bytes })
    }

    /// No store, for a run without a storage tier: no directory is made and no drive touched.
    ///
    /// # Errors
    /// The kernel can't make a file in memory.
    pub fn nowhere() -> Result<Store, StoreError> {
        Store::without_file(Place::Nowhere, 0)
    }

    /// A store in a prefix of an object store, which must be empty. While it has not answered,
    /// `goes_on` is told for how long, and says whether to go on.
    ///
    /// # Errors
    /// It is not empty, refuses, or can't be reached, or it was not waited for any longer.
    #[cfg(feature = "objects")]
    pub fn in_objects(
        url: &ObjectUrl,
        options: &ObjectOptions,
        capacity_bytes: u64,
        shards: u16,
        goes_on: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Store, StoreError> {
        let least = u64::from(shards) * SEGMENT_BYTES_MIN;
        if capacity_bytes < least {
            let told = format!(
                "--storage-capacity-gb is too little for {shards} shards: give at least {:.4}",
                gib(least)
            );
            return Err(StoreError::Short(told));
        }
        let objects = TierObjects::open(url, options, goes_on)?;
        Store::without_file(Place::Objects(Arc::new(objects)), capacity_bytes / BLOCK_BYTES)
    }

    fn without_file(place: Place, capacity_blocks: u64) -> Result<Store, StoreError> {
        let file = DataFile::of_no_blocks().map_err(|error| {
            let what = format!("cannot create a file in memory: {error}");
            SetupError::new(what, "raise the limit on open files (ulimit -n)")
        })?;
        let drive = StoreDrive { place, file: Arc::new(file), capacity_blocks };
        Ok(Store { drives: vec![drive], wanted_bytes: None, reclaimed_bytes: 0 })
    }

    /// The engine's view of the object store, where there is one.
    #[must_use]
    pub fn object_io(&self) -> Option<Arc<dyn ObjectIo>> {
        #[cfg(feature = "objects")]
        if let Place::Objects(objects) = &self.drives[0].place {
            return Some(Arc::new(TierIo(Arc::clone(objects))));
        }
        None
    }

    /// What the object store was asked, where there is one.
    #[must_use]
    pub fn object_counts(&self) -> Option<ObjectCounts> {
        #[cfg(feature = "objects")]
        if let Place::Objects(objects) = &self.drives[0].place {
            return Some(objects.counts());
        }
        None
    }

    /// Whether there is a storage tier.
    #[must_use]
    pub fn is_somewhere(&self) -> bool {
        !self.drives.iter().any(|drive| matches!(drive.place, Place::Nowhere))
    }

    /// The directory or device of the first drive, as the user would name it; `none` when there is
    /// no storage tier.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.drives[0].path()
    }

    /// The directories and devices, as the user would name them.
    #[must_use]
    pub fn paths(&self) -> String {
        let paths: Vec<String> =
            self.drives.iter().map(|drive| drive.path().display().to_string()).collect();
        paths.join(", ")
    }

    /// The data files, one a drive.
    #[must_use]
    pub fn files(&self) -> Vec<Arc<DataFile>> {
        self.drives.iter().map(|drive| Arc::clone(&drive.file)).collect()
    }

    /// What each drive may come to hold, bytes.
    #[must_use]
    pub fn sizes_bytes(&self) -> Vec<u64> {
        self.drives.iter().map(StoreDrive::capacity_bytes).collect()
    }

    /// Deletes what it made.
    ///
    /// # Errors
    /// What could not be deleted, first of all; the rest is deleted nevertheless.
    pub fn remove(self) -> Result<(), SetupError> {
        let removed = self.drives.into_iter().map(|drive| match drive.place {
            Place::Directory(directory) => directory.remove(),
            #[cfg(feature = "objects")]
            Place::Objects(objects) => objects.remove_all().map_err(|error| refused(&error)),
            Place::Device(_) | Place::Nowhere => Ok(()),
        });
        // All of them, before the first error is returned.
        removed.collect::<Vec<_>>().into_iter().collect()
    }

    /// As [`Store::remove`], but waits no longer than that for files: the kernel lets nobody go who
    /// deletes a file of a device that does not answer. An object store has bounds of its own.
    ///
    /// # Errors
    /// What could not be deleted, or is not deleted yet.
    pub fn remove_within(self, patience: Duration) -> Result<(), SetupError> {
        let is_local = self.drives.iter().any(|drive| matches!(drive.place, Place::Directory(_)));
        if !is_local {
            return self.remove();
        }
        let paths = self.paths();
        let (sender, removed) = std::sync::mpsc::channel();
        let remove = move || {
            // Nobody hears it any more when it took too long.
            let _heard = sender.send(self.remove());
        };
        if let Err(error) = std::thread::Builder::new().name("ringfall-clean".into()).spawn(remove)
        {
            let what = format!("no thread can be started to delete the data in {paths}: {error}");
            return Err(SetupError::new(what, "delete it by hand"));
        }
        removed.recv_timeout(patience).unwrap_or_else(|_| {
            Err(SetupError::new(
                format!(
                    "the data in {paths} is not deleted yet after {} s: the device may not answer",
                    patience.as_secs()
                ),
                "look at dmesg; what remains is deleted by the next run there, or by hand",
            ))
        })
    }

    /// Whole capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.sizes_bytes().iter().sum()
    }
}

/// What the store may come to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Capacity {
    bytes: u64,
    /// What was asked for, where there is less.
    wanted_bytes: Option<u64>,
}

/// A place for data, and what may be used of it.
struct Found {
    place: FoundPlace,
    /// As the user would name it.
    name: String,
    usable_bytes: u64,
    /// What of it is taken when no size is given.
    auto_bytes: u64,
    /// The file system, which others of these places may be on too.
    file_system: Option<u64>,
}

enum FoundPlace {
    Directory(CacheDir),
    Device(RawDevice, File),
    #[cfg(test)]
    Nowhere,
}

fn find_directory(path: &Path) -> Result<Found, StoreError> {
    let directory = CacheDir::open(path)?;
    let usable_bytes = directory.free_bytes()?.saturating_sub(METADATA_SLACK_BYTES);
    Ok(Found {
        name: directory.path().display().to_string(),
        usable_bytes,
        auto_bytes: part_of(usable_bytes, AUTO_CAPACITY_PERCENT),
        file_system: std::fs::metadata(directory.path()).ok().map(|metadata| metadata.dev()),
        place: FoundPlace::Directory(directory),
    })
}

fn find_device(request: &StoreRequest, path: &Path) -> Result<Found, StoreError> {
    if !request.destroy_device_contents {
        let error = SetupError::new(
            format!("{} is a block device, and a run would write over all of it", path.display()),
            "give --destroy-device-contents if nothing on it is needed",
        );
        return Err(error.into());
    }
    let (device, file) = RawDevice::open(path)?;
    let bytes = device.bytes();
    Ok(Found {
        name: device.path().display().to_string(),
        usable_bytes: bytes,
        auto_bytes: bytes,
        file_system: None,
        place: FoundPlace::Device(device, file),
    })
}

/// Directories on one file system share what it has free.
fn share_file_systems(found: &mut [Found]) {
    let systems: Vec<Option<u64>> = found.iter().map(|place| place.file_system).collect();
    for place in found {
        let Some(own) = place.file_system else { continue };
        let sharers = systems.iter().filter(|system| **system == Some(own)).count() as u64;
        place.usable_bytes /= sharers;
        place.auto_bytes /= sharers;
    }
}

/// The blocks of each place, in proportion to what may be used of it.
fn divide(blocks: u64, found: &[Found], is_auto: bool) -> Vec<u64> {
    let weight = |place: &Found| if is_auto { place.auto_bytes } else { place.usable_bytes };
    let all: u128 = found.iter().map(|place| u128::from(weight(place))).sum();
    let part = |place| u128::from(blocks) * u128::from(weight(place)) / all.max(1);
    let mut parts: Vec<u64> = found.iter().map(|place| part(place) as u64).collect();
    // What rounding left over.
    let left = blocks - parts.iter().sum::<u64>();
    parts[0] += left;
    parts
}

impl Found {
    /// Makes the data file, with its space or the first step of it.
    fn prepare(
        self,
        request: &StoreRequest,
        capacity_blocks: u64,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StoreDrive, StoreError> {
        let (place, file, path, kept_free_bytes) = match self.place {
            FoundPlace::Directory(mut directory) => {
                let (file, path) = directory.create_data_file()?;
                // A size that nobody gave leaves others the rest of what was free, whoever takes it
                // first.
                let left_bytes = match request.capacity_bytes {
                    0 => self.usable_bytes - self.auto_bytes,
                    _ => 0,
                };
                let kept_free_bytes = METADATA_SLACK_BYTES + left_bytes;
                (Place::Directory(directory), file, path, kept_free_bytes)
            }
            FoundPlace::Device(device, file) => {
                let path = device.path().to_path_buf();
                (Place::Device(device), file, path, 0)
            }
            #[cfg(test)]
            FoundPlace::Nowhere => unreachable!("no test prepares it"),
        };
        let shown = path.display().to_string();
        let file = DataFile::new(file, path, request.preallocate).map_err(|error| {
            SetupError::new(format!("can't look at {shown}: {error}"), "try again")
        })?;
        let file = file.leaving(kept_free_bytes);
        file.prepare_watched(capacity_blocks, goes_on).map_err(|error| {
            let (gib, flag) = (gib(capacity_blocks * BLOCK_BYTES), request.capacity_flag);
            let what = format!("{shown} can't take the {gib:.2} GiB of {flag}");
            SetupError::new(what, told_io(&error))
        })?;
        Ok(StoreDrive { place, file: Arc::new(file), capacity_blocks })
    }
}

fn part_of(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

fn capacity(request: &StoreRequest, found: &[Found]) -> Result<Capacity, StoreError> {
    let flag = request.capacity_flag;
    let names: Vec<&str> = found.iter().map(|place| &place.name[..]).collect();
    let place = names.join(" and ");
    let usable_bytes: u64 = found.iter().map(|place| place.usable_bytes).sum();
    // What is reserved or written before the run is wanted whole, and a device has what it has.
    let is_growing = |place: &Found| !matches!(place.place, FoundPlace::Device(..));
    let may_be_less = request.preallocate == Preallocate::Grow && found.iter().all(is_growing);
    let mut wanted = match request.capacity_bytes {
        0 => found.iter().map(|place| place.auto_bytes).sum(),
        bytes => bytes,
    };
    if let Some(limit) = request.free_percent_max {
        wanted = wanted.min(part_of(usable_bytes, limit));
    }
    if wanted > usable_bytes && (request.is_strict || !may_be_less) {
        let what = format!(
            "{place} has room for {:.2} GiB, {:.2} GiB less than the {:.2} GiB of {flag}",
            gib(usable_bytes),
            gib(wanted - usable_bytes),
            gib(wanted)
        );
        let remedy =
            format!("free space there, lower {flag}, or give --cache-dir another directory");
        return Err(match may_be_less {
            true => {
                StoreError::Short(format!("{what}, and --strict refuses to do with less: {remedy}"))
            }
            false => SetupError::new(what, remedy).into(),
        });
    }
    let bytes = wanted.min(usable_bytes);
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
        let preallocate = Preallocate::Reserve;
        StoreRequest { capacity_bytes, shards: 2, preallocate, ..StoreRequest::default() }
    }

    fn found(usable_bytes: u64, file_system: u64) -> Found {
        Found {
            place: FoundPlace::Nowhere,
            name: "x".to_owned(),
            usable_bytes,
            auto_bytes: part_of(usable_bytes, 95),
            file_system: Some(file_system),
        }
    }

    #[test]
    fn several_places_share_a_capacity_by_what_they_have_free() {
        let mut places = [found(3 * GIB, 1), found(6 * GIB, 2), found(6 * GIB, 2)];
        share_file_systems(&mut places);
        assert_eq!(capacity(&request(9 * GIB), &places).unwrap().bytes, 9 * GIB);
        let blocks = 3 * GIB / BLOCK_BYTES;
        assert_eq!(divide(3 * blocks, &places, false), [blocks; 3]);
        let parts = divide(10, &places, true);
        assert_eq!((parts.iter().sum::<u64>(), parts[1]), (10, 3));
        let error = capacity(&request(10 * GIB), &places).unwrap_err().to_string();
        assert!(error.contains("x and x and x has room for 9.00 GiB"), "{error}");
    }

    #[test]
    fn capacity_is_exact_or_says_what_is_missing() {
        let of = |request: &StoreRequest, bytes| capacity(request, &[found(bytes, 1)]);
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
        let asked = StoreRequest { preallocate: Preallocate::Grow, ..request(12 * GIB) };
        let less = Capacity { bytes: 10 * GIB, wanted_bytes: Some(12 * GIB) };
        assert_eq!(capacity(&asked, &[found(10 * GIB, 1)]).unwrap(), less);
        let strict = StoreRequest { is_strict: true, ..asked };
        let error = capacity(&strict, &[found(10 * GIB, 1)]).unwrap_err();
        assert!(matches!(error, StoreError::Short(_)), "{error:?}");
        assert!(error.to_string().contains("--strict refuses"), "{error}");
        let enough = capacity(&strict, &[found(12 * GIB, 1)]).unwrap();
        assert_eq!(enough, Capacity { bytes: 12 * GIB, wanted_bytes: None });
    }
}
