//! Warning before a run that may take much of the system's own disk: a mount that is missing, or
//! the default of all that is free.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringfall_config::{Plan, Preallocate};
use ringfall_core::units::GIB;
use ringfall_host::{free_bytes, human};

use super::ranks::{FREE_PERCENT, storage_share_bytes};

/// Least space of which a run warns, bytes: a tier of half that size leaves most systems enough.
const WARNED_BYTES_MIN: u64 = 16 * GIB;

/// Sentence about the first directory of the plan that is on the file system of `/`; none where
/// none is, or where it is there and little of it can be taken.
pub(super) fn warning(plan: &Plan) -> Option<String> {
    if plan.is_without_storage || plan.object_url().is_some() {
        return None;
    }
    let root = std::fs::metadata("/").ok()?.dev();
    let on_root = |place: &&PathBuf| device_below(place) == Some(root);
    let place = plan.cache_dirs.iter().find(on_root)?;
    let free = free_bytes(place)?;
    let bytes = match plan.storage_capacity_bytes {
        0 => match storage_share_bytes(plan) {
            0 => free / 100 * FREE_PERCENT,
            share => share,
        },
        bytes => bytes.min(free),
    };
    match bytes >= WARNED_BYTES_MIN {
        true => Some(sentence(place, place.exists(), bytes, plan.preallocate)),
        false => missing(place),
    }
}

/// Sentence about a directory that is missing, where it would be made on the file system of `/`:
/// whatever little is taken there, another drive is measured than the one that was meant. None for
/// temporary files, which are meant to be there.
pub(in crate::commands) fn missing(place: &Path) -> Option<String> {
    let root = std::fs::metadata("/").ok()?.dev();
    let is_temporary = place.starts_with(std::env::temp_dir());
    let is_made_there = !is_temporary && !place.exists() && device_below(place) == Some(root);
    is_made_there.then(|| format!("{}: is the drive to be measured mounted?", made_there(place)))
}

/// Number of the device of the file system that a directory is on, or would be made on.
fn device_below(place: &Path) -> Option<u64> {
    let place = std::path::absolute(place).ok()?;
    let there = place.ancestors().find(|path| path.exists())?;
    Some(std::fs::metadata(there).ok()?.dev())
}

fn sentence(place: &Path, is_there: bool, bytes: u64, preallocate: Preallocate) -> String {
    let place = match is_there {
        true => format!("{} is on the system's own disk (the file system of /)", place.display()),
        false => made_there(place),
    };
    let takes = match preallocate {
        Preallocate::Grow => "may take",
        Preallocate::Reserve => "reserves",
        Preallocate::Write => "first writes",
    };
    let bytes = human(bytes);
    format!(
        "{place}: the run {takes} {bytes} there, and frees it at its end; name a directory on the \
         drive to be measured, or give a smaller --storage-capacity-gb"
    )
}

fn made_there(place: &Path) -> String {
    format!("{} does not exist, and is made on the system's own disk (/)", place.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount that was missing had the run take most of the system's disk without a word.
    #[test]
    fn the_space_on_the_system_s_disk_is_named_and_when_it_is_taken() {
        let place = Path::new("/mnt/nvme/kv");
        let told = |is_there, preallocate| sentence(place, is_there, 66 * GIB, preallocate);
        let written = told(false, Preallocate::Write);
        for part in [
            "/mnt/nvme/kv does not exist",
            "first writes 66.0 GiB",
            "frees it at its end",
            "--storage-capacity-gb",
        ] {
            assert!(written.contains(part), "{part}: {written}");
        }
        let grown = told(true, Preallocate::Grow);
        assert!(grown.contains("is on the system's own disk") && grown.contains("may take 66.0"));
    }

    #[test]
    fn a_directory_that_is_missing_is_on_the_device_of_the_nearest_one_above() {
        let root = std::fs::metadata("/").unwrap().dev();
        assert_eq!(device_below(Path::new("/no-such-directory/kv")), Some(root));
        assert_ne!(device_below(Path::new("/proc")), Some(root));
        let told = missing(Path::new("/no-such-directory/kv")).unwrap_or_default();
        assert!(told.starts_with("/no-such-directory/kv does not exist"), "{told}");
        assert_eq!(missing(Path::new("/")), None);
        assert_eq!(missing(&std::env::temp_dir().join("no-such-directory")), None);
        // A run that takes little was silent.
        let flags = ["--cache-dir=/no-such-directory/kv", "--storage-capacity-gb=6GiB"];
        let args = crate::commands::run_args(flags.map(str::to_owned)).unwrap();
        assert_eq!(warning(&crate::commands::plan_of(&args).unwrap()), Some(told));
    }
}
