//! The places that a store was asked for: what is there, how much of it may be used, and the data
//! file that is made there.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfall_core::drive::Preallocate;
use ringfall_core::error::SetupError;
use ringfall_core::units::{BLOCK_BYTES, MIB, gib};
use ringfall_engine::device::{CacheDir, DataFile, RawDevice};
use ringfall_engine::engine::SEGMENT_BYTES_MIN;
use ringfall_host::remedy::told_io;
use ringfall_host::{human, human_apart, interrupt};

use super::{Place, StoreDrive, StoreError, StoreRequest, no_file, random_name};
use crate::layouts::{TierFiles, TierLayout};

/// Part of the free space that `--storage-capacity-gb 0` takes.
const AUTO_CAPACITY_PERCENT: u64 = 95;
/// Space left for the file system's own metadata: extents, journal.
pub const METADATA_SLACK_BYTES: u64 = 16 * MIB;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Capacity {
    pub(super) bytes: u64,
    /// Capacity asked for, where less is available.
    pub(super) wanted_bytes: Option<u64>,
    /// Whether the limit of file sizes leaves less than the file systems have.
    pub(super) is_file_limited: bool,
}

/// A place for data, and what may be used of it.
pub(super) struct Found {
    place: FoundPlace,
    /// As the user would name it.
    name: String,
    usable_bytes: u64,
    /// Bytes taken when no size is given.
    auto_bytes: u64,
    /// The file system, which others of these places may be on too.
    file_system: Option<u64>,
    /// Whether the limit of file sizes leaves less than the file system has.
    is_file_limited: bool,
}

enum FoundPlace {
    Directory(CacheDir),
    Device(RawDevice, File),
    #[cfg(test)]
    Nowhere,
}

/// Refuses a place that is one of the earlier ones by another name.
pub(super) fn refuse_twice(path: &Path, earlier: &[PathBuf]) -> Result<(), StoreError> {
    let inode = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let own = inode(path);
    match earlier.iter().find(|other| own.is_some() && inode(other) == own) {
        None => Ok(()),
        Some(other) => Err(StoreError::Short(format!(
            "--cache-dir: {} and {} are one place by two names: name each drive once",
            other.display(),
            path.display()
        ))),
    }
}

pub(super) fn find_directory(path: &Path) -> Result<Found, StoreError> {
    let directory = CacheDir::open(path)?;
    interrupt::leave_nothing_of(directory.made());
    let usable_bytes = directory.free_bytes()?.saturating_sub(METADATA_SLACK_BYTES);
    Ok(Found {
        name: directory.path().display().to_string(),
        usable_bytes,
        auto_bytes: part_of(usable_bytes, AUTO_CAPACITY_PERCENT),
        file_system: std::fs::metadata(directory.path()).ok().map(|metadata| metadata.dev()),
        is_file_limited: false,
        place: FoundPlace::Directory(directory),
    })
}

pub(super) fn find_device(request: &StoreRequest, path: &Path) -> Result<Found, StoreError> {
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
        is_file_limited: false,
        place: FoundPlace::Device(device, file),
    })
}

/// Directories on one file system share what it has free.
pub(super) fn share_file_systems(found: &mut [Found]) {
    let systems: Vec<Option<u64>> = found.iter().map(|place| place.file_system).collect();
    for place in found {
        let Some(own) = place.file_system else { continue };
        let sharers = systems.iter().filter(|system| **system == Some(own)).count() as u64;
        place.usable_bytes /= sharers;
        place.auto_bytes /= sharers;
    }
}

/// No data file can be longer than the limit of file sizes (`ulimit -f`), if there is one.
pub(super) fn heed_file_limit(found: &mut [Found], limit_bytes: Option<u64>) {
    let Some(limit_bytes) = limit_bytes else { return };
    let limit_bytes = limit_bytes / BLOCK_BYTES * BLOCK_BYTES;
    for place in found {
        if place.file_system.is_some() && place.usable_bytes > limit_bytes {
            place.usable_bytes = limit_bytes;
            place.auto_bytes = place.auto_bytes.min(limit_bytes);
            place.is_file_limited = true;
        }
    }
}

/// The blocks of each place, in proportion to what may be used of it.
pub(super) fn divide(blocks: u64, found: &[Found], is_auto: bool) -> Vec<u64> {
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
    /// Makes the data file, which has no space yet.
    pub(super) fn make(
        self,
        request: &StoreRequest,
        capacity_blocks: u64,
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
        let file = Arc::new(file.leaving(kept_free_bytes));
        Ok(StoreDrive { place, file, capacity_blocks })
    }
}

impl Found {
    /// Makes a directory for an engine's files, and starts its threads.
    pub(super) fn make_files(
        self,
        layout: &TierLayout,
        capacity_blocks: u64,
    ) -> Result<StoreDrive, StoreError> {
        let FoundPlace::Directory(mut directory) = self.place else {
            unreachable!("files are in a directory")
        };
        let inside = directory.make_directory(&random_name()?)?;
        let files = TierFiles::start(layout, &inside)?;
        Ok(StoreDrive { place: Place::Files(files, directory), file: no_file()?, capacity_blocks })
    }
}

impl StoreDrive {
    /// Gives the data file its space, or the first step of it.
    pub(super) fn prepare(
        &self,
        request: &StoreRequest,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), SetupError> {
        self.file.prepare_watched(self.capacity_blocks, goes_on).map_err(|error| {
            let (size, flag) = (human(self.capacity_bytes()), request.capacity_flag);
            let what = format!("{} can't take the {size} of {flag}", self.file.path().display());
            SetupError::new(what, told_io(&error))
        })
    }
}

fn part_of(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

pub(super) fn capacity(request: &StoreRequest, found: &[Found]) -> Result<Capacity, StoreError> {
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
    let is_file_limited = found.iter().any(|place| place.is_file_limited);
    let (has, free) = match is_file_limited {
        true => ("may hold", "raise the limit of file sizes (ulimit -f)"),
        false => ("has room for", "free space there"),
    };
    if wanted > usable_bytes && (request.is_strict || !may_be_less) {
        let lacking = human(wanted - usable_bytes);
        let (usable, wanted) = human_apart(usable_bytes, wanted);
        let what = format!("{place} {has} {usable}, {lacking} less than the {wanted} of {flag}");
        let remedy = format!("{free}, lower {flag}, or give --cache-dir another directory");
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
            format!("{free}, or ask for at least {:.4} GiB with {flag}", gib(least)),
        );
        return Err(error.into());
    }
    let wanted_bytes = (wanted > bytes).then_some(wanted);
    Ok(Capacity { bytes: bytes / BLOCK_BYTES * BLOCK_BYTES, wanted_bytes, is_file_limited })
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;

    use super::super::Store;
    use super::*;

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
            is_file_limited: false,
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
        assert!(error.contains("x and x and x has room for 9.0 GiB"), "{error}");
    }

    /// It was in use by another run, which was the same one.
    #[test]
    fn a_directory_and_a_link_to_it_are_one_place() {
        let root = ringfall_host::Scratch::new("one-place");
        let (there, link) = (root.join("a"), root.join("b"));
        std::os::unix::fs::symlink("a", &link).unwrap();
        let request = StoreRequest { places: vec![there, link], ..request(16 * MIB) };
        let error = Store::open(&request, &mut |_, _| true).err().unwrap().to_string();
        assert!(error.contains("a and ") && error.contains("one place by two names"), "{error}");
    }

    /// The line that names it was lost where a signal came while space was being taken.
    #[test]
    fn what_an_interrupted_opening_leaves_is_told() {
        let root = ringfall_host::Scratch::new("left-by-opening");
        let made = root.join("made");
        let request = StoreRequest {
            places: vec![made.clone()],
            preallocate: Preallocate::Write,
            ..request(16 * MIB)
        };
        // Nothing is left, and it is of no interest why it was not opened.
        let error = Store::open(&request, &mut |_, _| false).err().unwrap();
        assert!(!matches!(error, StoreError::Left(_)) && !made.exists(), "{error}");
        let opened = Store::open(&request, &mut |_, _| {
            std::fs::rename(&made, root.join("moved")).unwrap();
            // What is no directory can't be deleted as one.
            std::fs::write(&made, "").unwrap();
            false
        });
        let error = opened.err().unwrap();
        assert!(matches!(error, StoreError::Left(_)), "{error}");
        assert!(error.to_string().contains("made"), "{error}");
    }

    #[test]
    fn a_place_that_takes_no_commands_is_found_out_before_any_is_written() {
        let root = std::env::temp_dir().join(format!("ringfall-commands-{}", std::process::id()));
        let request = StoreRequest {
            places: vec![root.join("a"), root.join("b")],
            preallocate: Preallocate::Write,
            nvme_passthrough: true,
            ..request(16 * MIB)
        };
        let opened = Store::open(&request, &mut |_, _| panic!("it is written"));
        let error = opened.err().expect("no directory is a namespace").to_string();
        assert!(error.contains("NVMe passthrough does not work"), "{error}");
        std::fs::remove_dir(&root).expect("what was made there is deleted");
    }

    #[test]
    fn capacity_is_exact_or_says_what_is_missing() {
        let of = |request: &StoreRequest, bytes| capacity(request, &[found(bytes, 1)]);
        let all = |bytes| Capacity { bytes, wanted_bytes: None, is_file_limited: false };
        assert_eq!(of(&request(3 * GIB), 10 * GIB).unwrap(), all(3 * GIB));
        let auto = of(&request(0), 10 * GIB).unwrap().bytes;
        assert!(auto > 9 * GIB && auto < 10 * GIB && auto.is_multiple_of(BLOCK_BYTES));
        let error = of(&request(12 * GIB), 10 * GIB).unwrap_err().to_string();
        assert!(error.contains("room for 10.0 GiB") && error.contains("2.0 GiB less"), "{error}");
        assert!(of(&request(0), MIB).is_err());
        let demo = StoreRequest { free_percent_max: Some(25), ..request(4 * GIB) };
        assert_eq!(of(&demo, 8 * GIB).unwrap(), all(2 * GIB));
    }

    /// It had `0.10 GiB, 0.00 GiB less than the 0.10 GiB`.
    #[test]
    fn a_little_room_that_lacks_is_not_told_as_none() {
        let asked = request(100 * MIB + BLOCK_BYTES);
        let error = capacity(&asked, &[found(100 * MIB, 1)]).unwrap_err().to_string();
        let told = "x has room for 100.000 MiB, 4 KiB less than the 100.004 MiB of";
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn a_file_that_grows_does_with_less_unless_that_is_refused() {
        let asked = StoreRequest { preallocate: Preallocate::Grow, ..request(12 * GIB) };
        let (bytes, wanted_bytes) = (10 * GIB, Some(12 * GIB));
        let less = Capacity { bytes, wanted_bytes, is_file_limited: false };
        assert_eq!(capacity(&asked, &[found(10 * GIB, 1)]).unwrap(), less);
        let strict = StoreRequest { is_strict: true, ..asked };
        let error = capacity(&strict, &[found(10 * GIB, 1)]).unwrap_err();
        assert!(matches!(error, StoreError::Short(_)), "{error:?}");
        assert!(error.to_string().contains("--strict refuses"), "{error}");
        let enough = capacity(&strict, &[found(12 * GIB, 1)]).unwrap();
        let (bytes, wanted_bytes) = (12 * GIB, None);
        assert_eq!(enough, Capacity { bytes, wanted_bytes, is_file_limited: false });
    }

    #[test]
    fn no_file_is_longer_than_the_limit_of_file_sizes() {
        let of = |request: &StoreRequest, limit_bytes| {
            let mut places = [found(10 * GIB, 1), found(2 * GIB, 2)];
            heed_file_limit(&mut places, limit_bytes);
            capacity(request, &places)
                .map(|capacity| (capacity, divide(capacity.bytes / BLOCK_BYTES, &places, false)))
        };
        let asked = StoreRequest { preallocate: Preallocate::Grow, ..request(9 * GIB) };
        let (capacity, parts) = of(&asked, Some(3 * GIB + 1)).unwrap();
        let (bytes, wanted_bytes) = (5 * GIB, Some(9 * GIB));
        assert_eq!(capacity, Capacity { bytes, wanted_bytes, is_file_limited: true });
        assert_eq!(parts, [3 * GIB / BLOCK_BYTES, 2 * GIB / BLOCK_BYTES]);
        assert!(!of(&asked, Some(20 * GIB)).unwrap().0.is_file_limited);
        assert_eq!(of(&asked, None).unwrap().0.bytes, 9 * GIB);
        let error = of(&request(9 * GIB), Some(3 * GIB)).unwrap_err().to_string();
        assert!(error.contains("may hold 5.0 GiB, 4.0 GiB less"), "{error}");
        assert!(error.contains("raise the limit of file sizes (ulimit -f), lower"), "{error}");
    }
}
