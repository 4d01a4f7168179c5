//! Where the run keeps its data: directories and devices, capacity, data files.

mod found;

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

#[cfg(feature = "objects")]
use ringfall_config::object_store::{ObjectOptions, ObjectUrl};
use ringfall_core::drive::Preallocate;
use ringfall_core::error::SetupError;
use ringfall_core::units::BLOCK_BYTES;
#[cfg(feature = "objects")]
use ringfall_core::units::gib;
use ringfall_engine::device::{
    CacheDir, DataFile, MadeFiles, ObjectIo, RawDevice, is_block_device,
};
#[cfg(feature = "objects")]
use ringfall_engine::engine::SEGMENT_BYTES_MIN;
use ringfall_host::Overdue;
use ringfall_host::files::unguessable;
use ringfall_host::remedy::{setup_remedy, told_setup};
use ringfall_model::facts::{FileCounts, ObjectCounts};

use crate::layouts::{TierFiles, TierLayout};
#[cfg(feature = "objects")]
use crate::objects::{ObjectError, OpenError, TierObjects};
pub use found::METADATA_SLACK_BYTES;
use found::{
    Capacity, capacity, divide, find_device, find_directory, heed_file_limit, refuse_twice,
    share_file_systems,
};

/// Interval between checks whether to go on waiting for deletions.
const LOOK: Duration = Duration::from_millis(100);

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
    /// Error of deleting what an opening that was given up had made.
    #[error(transparent)]
    Left(SetupError),
}

#[cfg(feature = "objects")]
impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> StoreError {
        match error {
            OpenError::Refused(error) => refused(&error).into(),
            OpenError::Threads(_) => {
                SetupError::new(error.to_string(), "raise the limit on processes (ulimit -u)")
                    .into()
            }
            OpenError::Interrupted { .. } => {
                SetupError::new(error.to_string(), "look whether its address is right").into()
            }
            // What was typed can't be meant.
            OpenError::Options(what) => StoreError::Short(what),
        }
    }
}

/// Converts a permanent refusal of the object store.
#[cfg(feature = "objects")]
fn refused(error: &ObjectError) -> SetupError {
    SetupError::new(error.what(), error.cause.to_string())
}

/// Parameters of the store.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// `--cache-dir`, a directory or device on each drive; none: a fresh directory under the
    /// system's temp.
    pub places: Vec<PathBuf>,
    /// Whether a raw device may be written over.
    pub destroy_device_contents: bool,
    /// Capacity, bytes; 0: 95 % of the free space, or the whole raw devices.
    pub capacity_bytes: u64,
    /// Flag that sets the capacity.
    pub capacity_flag: &'static str,
    /// Whether less than asked for is refused, where a file that grows would do with it.
    pub is_strict: bool,
    /// At most this part of the free space, percent; for a run that was not asked for a size.
    pub free_percent_max: Option<u64>,
    /// Number of shards that share the store.
    pub shards: u16,
    /// Allocation of the data file's space.
    pub preallocate: Preallocate,
    /// Whether each place is an NVMe namespace that takes commands in place of reads and writes;
    /// one that takes none is found out before anything else is written.
    pub nvme_passthrough: bool,
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
            nvme_passthrough: false,
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
    /// Files as an engine keeps them, in a locked directory.
    Files(TierFiles, CacheDir),
    /// A prefix in an object store.
    #[cfg(feature = "objects")]
    Objects(TierObjects),
    /// Nowhere: there is no storage tier.
    Nowhere,
}

/// One drive of a store.
pub struct StoreDrive {
    /// The directory, block device or object store that the drive's data is in.
    pub place: Place,
    /// Shared by all shards.
    pub file: Arc<DataFile>,
    /// Capacity of the drive, blocks.
    pub capacity_blocks: u64,
}

impl StoreDrive {
    /// The directory or device, as the user would name it.
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Directory(directory) | Place::Files(_, directory) => directory.path(),
            Place::Device(device) => device.path(),
            #[cfg(feature = "objects")]
            Place::Objects(objects) => objects.path(),
            Place::Nowhere => Path::new("none"),
        }
    }

    /// The files that an engine's layout has made, where it has that.
    fn made_files(&self) -> Option<Weak<MadeFiles>> {
        match &self.place {
            Place::Files(_, directory) => Some(directory.made()),
            _ => None,
        }
    }

    /// Capacity of all drives, bytes.
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
    /// Whether the limit of file sizes (`ulimit -f`) leaves less room than the file systems have.
    pub is_file_limited: bool,
    /// Bytes freed by deleting what dead runs had left.
    pub reclaimed_bytes: u64,
}

impl Store {
    /// Opens the directories, reclaims what a dead run left, and makes the data files with all of
    /// their space, or the first step of it; or claims the raw devices. While space is written,
    /// `goes_on` is told the bytes done and all of them, and says whether to go on.
    ///
    /// # Errors
    /// Each thing that can be wrong with a directory or device, a device that takes no NVMe
    /// commands and is to, and too little space: says how much. Where `goes_on` says no, only what
    /// could not be deleted then is of interest: [`StoreError::Left`].
    pub fn open(
        request: &StoreRequest,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Store, StoreError> {
        let overdue = Overdue::new("the storage to be opened".to_owned());
        let mut reclaimed_bytes = 0;
        let paths = match &request.places[..] {
            [] => {
                reclaimed_bytes = reclaim_fresh();
                vec![fresh_directory()?]
            }
            paths => paths.to_vec(),
        };
        let mut found = Vec::new();
        for (place, path) in paths.iter().enumerate() {
            // A link may lead to what has just been made.
            refuse_twice(path, &paths[..place])?;
            found.push(match is_block_device(path) {
                true => find_device(request, path)?,
                false => find_directory(path)?,
            });
        }
        share_file_systems(&mut found);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
        heed_file_limit(&mut found, limit.current);
        let capacity = capacity(request, &found)?;
        let parts = divide(capacity.bytes / BLOCK_BYTES, &found, request.capacity_bytes == 0);
        let made = found.into_iter().zip(parts).map(|(place, blocks)| place.make(request, blocks));
        let drives = made.collect::<Result<Vec<StoreDrive>, StoreError>>()?;
        if request.nvme_passthrough {
            // All of them before the first is written, which can take minutes.
            let open = |drive: &StoreDrive| drive.file.open_namespace(drive.capacity_bytes());
            drives.iter().try_for_each(open)?;
        }
        let (all_bytes, mut before_bytes) = (capacity.bytes, 0);
        for drive in &drives {
            let mut is_wanted = true;
            let mut goes_on = |done_bytes| {
                overdue.moves();
                is_wanted = goes_on(before_bytes + done_bytes, all_bytes);
                is_wanted
            };
            if let Err(error) = drive.prepare(request, &mut goes_on) {
                return Err(match remove(drives) {
                    Err(left) if !is_wanted => StoreError::Left(left),
                    cleaned => error_beside(error, cleaned).into(),
                });
            }
            if let Place::Directory(directory) = &drive.place {
                reclaimed_bytes += directory.reclaimed_bytes();
            }
            before_bytes += drive.capacity_bytes();
        }
        let Capacity { wanted_bytes, is_file_limited, .. } = capacity;
        Ok(Store { drives, wanted_bytes, is_file_limited, reclaimed_bytes })
    }

    /// A store of files as an engine keeps them: opens the directory, reclaims what a dead run
    /// left, and starts the engine's threads.
    ///
    /// # Errors
    /// Each thing that can be wrong with a directory, too little space, or no threads.
    pub fn in_layout(request: &StoreRequest, layout: &TierLayout) -> Result<Store, StoreError> {
        let overdue = Overdue::new("the storage to be opened".to_owned());
        let (reclaimed_bytes, path) = match &request.places[..] {
            [] => (reclaim_fresh(), fresh_directory()?),
            [path, ..] => (0, path.clone()),
        };
        if is_block_device(&path) {
            return Err(StoreError::Short(format!(
                "--cache-dir {} is a block device, and engines keep files: give a directory on its \
                 file system",
                path.display()
            )));
        }
        let found = vec![find_directory(&path)?];
        let Capacity { bytes, wanted_bytes, .. } = capacity(request, &found)?;
        overdue.moves();
        let made = found.into_iter().map(|place| place.make_files(layout, bytes / BLOCK_BYTES));
        let drives = made.collect::<Result<Vec<StoreDrive>, StoreError>>()?;
        let Some(StoreDrive { place: Place::Files(_, directory), .. }) = drives.first() else {
            unreachable!("it was made for files")
        };
        let reclaimed_bytes = reclaimed_bytes + directory.reclaimed_bytes();
        Ok(Store { drives, wanted_bytes, is_file_limited: false, reclaimed_bytes })
    }

    /// No store, for a run without a storage tier: no directory is made and no drive touched.
    ///
    /// # Errors
    /// The kernel can't make a file in memory.
    pub fn nowhere() -> Result<Store, StoreError> {
        Store::without_file(Place::Nowhere, 0)
    }

    /// A store in a prefix of an object store, which must be empty. While it has not answered,
    /// `goes_on` says whether to go on.
    ///
    /// # Errors
    /// It is not empty, refuses, or can't be reached, or it was not waited for any longer.
    #[cfg(feature = "objects")]
    pub fn in_objects(
        url: &ObjectUrl,
        options: &ObjectOptions,
        capacity_bytes: u64,
        shards: u16,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Store, StoreError> {
        let least = u64::from(shards) * SEGMENT_BYTES_MIN;
        if capacity_bytes < least {
            let told = format!(
                "--storage-capacity-gb is too little for {shards} shards: give at least {:.4}GiB",
                gib(least)
            );
            return Err(StoreError::Short(told));
        }
        let (objects, found) = TierObjects::open(url, options, goes_on)?;
        if let Some(name) = found {
            return Err(StoreError::Short(format!(
                "{url} is not empty (it holds {name}, for one): give --cache-dir a prefix that \
                 nothing uses, such as {url}/ringfall, or remove what a run that was killed has \
                 left there"
            )));
        }
        Store::without_file(Place::Objects(objects), capacity_bytes / BLOCK_BYTES)
    }

    fn without_file(place: Place, capacity_blocks: u64) -> Result<Store, StoreError> {
        let drives = vec![StoreDrive { place, file: no_file()?, capacity_blocks }];
        Ok(Store { drives, wanted_bytes: None, is_file_limited: false, reclaimed_bytes: 0 })
    }

    /// The engine's view of the object store or of an engine's files, where there are such.
    pub fn object_io(&self) -> Option<Arc<dyn ObjectIo>> {
        if let Place::Files(files, _) = &self.drives[0].place {
            return Some(Arc::new(files.clone()));
        }
        #[cfg(feature = "objects")]
        if let Place::Objects(objects) = &self.drives[0].place {
            return Some(Arc::new(objects.clone()));
        }
        None
    }

    /// Counts of operations on the files of an engine's layout, where there are such.
    pub fn file_counts(&self) -> Option<FileCounts> {
        match &self.drives[0].place {
            Place::Files(files, _) => Some(files.counts()),
            _ => None,
        }
    }

    /// Counts of requests to the object store, where there is one.
    pub fn object_counts(&self) -> Option<ObjectCounts> {
        #[cfg(feature = "objects")]
        if let Place::Objects(objects) = &self.drives[0].place {
            return Some(objects.counts());
        }
        None
    }

    /// Whether there is a storage tier.
    pub fn is_somewhere(&self) -> bool {
        !self.drives.iter().any(|drive| matches!(drive.place, Place::Nowhere))
    }

    /// The directory or device of the first drive, as the user would name it; `none` when there is
    /// no storage tier.
    pub fn path(&self) -> &Path {
        self.drives[0].path()
    }

    /// The directories and devices, as the user would name them.
    pub fn paths(&self) -> String {
        let paths = self.drives.iter().map(|drive| drive.path().display().to_string());
        paths.collect::<Vec<_>>().join(", ")
    }

    /// The data files, one a drive.
    pub fn files(&self) -> Vec<Arc<DataFile>> {
        self.drives.iter().map(|drive| Arc::clone(&drive.file)).collect()
    }

    /// Capacity of each drive, bytes.
    pub fn sizes_bytes(&self) -> Vec<u64> {
        self.drives.iter().map(StoreDrive::capacity_bytes).collect()
    }

    /// Deletes the files or objects that the store made.
    ///
    /// # Errors
    /// All files that are left behind, or another failure; the rest is deleted nevertheless.
    pub fn remove(self) -> Result<(), SetupError> {
        remove(self.drives)
    }

    /// Whether it is in files, which have to be deleted.
    pub fn is_in_files(&self) -> bool {
        self.drives
            .iter()
            .any(|drive| matches!(drive.place, Place::Directory(_) | Place::Files(..)))
    }

    /// As [`Store::remove`], but waits no longer than that for files, which is asked anew while it
    /// waits: the kernel lets nobody go who deletes a file of a device that does not answer. As
    /// long as the many files of an engine's layout become fewer, it goes on. An object store has
    /// bounds of its own.
    ///
    /// # Errors
    /// Fails if something could not be deleted, or is not deleted yet.
    pub fn remove_within(self, patience: &dyn Fn() -> Duration) -> Result<(), SetupError> {
        if !self.is_in_files() {
            return self.remove();
        }
        let paths = self.paths();
        let made: Vec<_> = self.drives.iter().filter_map(StoreDrive::made_files).collect();
        let removed_files =
            || made.iter().filter_map(Weak::upgrade).map(|made| made.removed_files()).sum::<u64>();
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
        let (mut progressed, mut before) = (Instant::now(), 0);
        while progressed.elapsed() < patience() {
            match removed.recv_timeout(LOOK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let gone = removed_files();
            if gone > before {
                (progressed, before) = (Instant::now(), gone);
            }
        }
        Err(SetupError::new(
            format!(
                "the data in {paths} is not deleted yet, and nothing of it was for {} s: the \
                 device may not answer",
                progressed.elapsed().as_secs()
            ),
            "look at dmesg; what remains is deleted by the next run there, or by hand",
        ))
    }

    /// Whole capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.sizes_bytes().iter().sum()
    }
}

/// An error, and after it that of cleaning up.
fn error_beside(first: SetupError, cleaned: Result<(), SetupError>) -> SetupError {
    match cleaned {
        Ok(()) => first,
        Err(also) => {
            SetupError::new(format!("{}; {}", told_setup(&first), also.what()), setup_remedy(&also))
        }
    }
}

/// A file that holds nothing, where data is elsewhere.
fn no_file() -> Result<Arc<DataFile>, SetupError> {
    let made = DataFile::of_no_blocks().map_err(|error| {
        let what = format!("cannot create a file in memory: {error}");
        SetupError::new(what, "raise the limit on open files (ulimit -n)")
    });
    made.map(Arc::new)
}

/// Deletes the files or objects that were made on those drives.
fn remove(drives: Vec<StoreDrive>) -> Result<(), SetupError> {
    let removed = drives.into_iter().map(|drive| match drive.place {
        Place::Directory(directory) => directory.remove(),
        Place::Files(files, directory) => {
            files.end();
            directory.remove()
        }
        #[cfg(feature = "objects")]
        Place::Objects(objects) => objects.remove_all().map_err(|error| refused(&error)),
        Place::Device(_) | Place::Nowhere => Ok(()),
    });
    removed.filter_map(Result::err).reduce(SetupError::with).map_or(Ok(()), Err)
}

/// Prefix of a directory made without `--cache-dir`; identifies leftovers of runs that died.
const FRESH_PREFIX: &str = "ringfall-";

/// Digits that nobody can guess, for a directory's name.
fn random_name() -> Result<String, SetupError> {
    unguessable().map_err(|error| {
        let what = format!("the system gives no random name for a directory: {error}");
        SetupError::new(what, "look whether /dev/urandom can be read")
    })
}

/// A fresh directory under the system's temporary directory, which is not made yet; what runs that
/// died left there is deleted first.
///
/// # Errors
/// There is no such directory, or no random name can be drawn.
pub fn temporary_directory() -> Result<PathBuf, SetupError> {
    reclaim_fresh();
    fresh_directory()
}

/// Others may write to the system's temporary directory too: nobody can have made it before.
fn fresh_directory() -> Result<PathBuf, SetupError> {
    let temporary = std::env::temp_dir();
    check_temporary(&temporary)?;
    // One that begins with `-` or names a store would be taken for that where it is typed.
    let temporary = std::path::absolute(temporary).map_err(|error| {
        SetupError::new(format!("the current directory can't be told: {error}"), "go to another")
    })?;
    let name = format!("{FRESH_PREFIX}{}-{}", std::process::id(), random_name()?);
    Ok(temporary.join(name))
}

/// An empty name would be that of the current directory, and one that is missing a mistake.
fn check_temporary(temporary: &Path) -> Result<(), SetupError> {
    let told = match std::fs::metadata(temporary) {
        Ok(found) if found.is_dir() => return Ok(()),
        _ if temporary.as_os_str().is_empty() => "has an empty name".to_owned(),
        Ok(_) => format!("is no directory: {}", temporary.display()),
        Err(error) => format!("can't be used: {}: {error}", temporary.display()),
    };
    Err(SetupError::new(
        format!("the directory for temporary files (TMPDIR) {told}"),
        "set TMPDIR to a directory that is there, or name one for the data",
    ))
}

/// Deletes what runs that were not told where, and died, left: bytes freed.
fn reclaim_fresh() -> u64 {
    CacheDir::reclaim_dead(&std::env::temp_dir(), |name| {
        let own = name.strip_prefix(FRESH_PREFIX).unwrap_or_default();
        let (number, unguessable) = own.split_once('-').unwrap_or((own, ""));
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && unguessable.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
