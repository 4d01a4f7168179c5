//! Warning before a run that may take much of the system's own disk, and consent to that: a mount
//! is missing, or all that is free is taken by default.

use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringfall_config::{InputError, Origin, Plan, Preallocate};
use ringfall_core::units::GIB;
use ringfall_host::{free_bytes, human};

use super::ranks::{FREE_PERCENT, storage_share_bytes};
use crate::commands::tell;

/// Least space of which a run warns, bytes: a tier of half that size leaves most systems enough.
const WARNED_BYTES_MIN: u64 = 16 * GIB;

/// Tells what a run may take of the system's own disk. Where much of it is taken and nobody said
/// how much, somebody at a terminal is asked; elsewhere a run of a plain DIR is refused, and one of
/// the reference's command lines goes on, as scripts and harnesses start those.
///
/// # Errors
/// It is not to begin.
pub(super) fn heed(plan: &Plan, command_line: &[String]) -> Result<(), InputError> {
    tell(warning(plan).as_slice());
    let is_typed = command_line.get(1).is_some_and(|word| word == "run") && plan.rank.is_none();
    if is_agreed([plan], is_typed, true) {
        return Ok(());
    }
    refuse!(
        "the run did not begin, as nobody has agreed to what it may take of the system's own disk: \
         give its size, such as --storage-capacity-gb 10GiB, or a directory on the drive to be \
         measured"
    )
}

/// Whether the plans may take what they take of the system's own disk. Somebody is asked if
/// `may_ask`, on a terminal alone; `is_scripted`: command lines of the reference go on unasked.
pub(in crate::commands) fn is_agreed<'a>(
    plans: impl IntoIterator<Item = &'a Plan>,
    may_ask: bool,
    is_scripted: bool,
) -> bool {
    let is_terminal = || std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let is_asked = may_ask && is_terminal();
    let is_much = |plan: &&Plan| taken(plan).is_some_and(|taken| taken.is_much_of_the_system_s());
    let sizes = plans.into_iter().filter(is_much);
    let sizes = sizes.filter_map(|plan| plan.origins.get("storage_capacity_gb"));
    let all: Vec<Consent> = sizes.map(|size| consent(*size, is_asked, is_scripted)).collect();
    !all.contains(&Consent::Lacking) && (!all.contains(&Consent::Asked) || says_yes())
}

/// Consent that a run needs which takes much of the system's disk.
#[derive(Debug, PartialEq, Eq)]
enum Consent {
    Given,
    Asked,
    Lacking,
}

/// By where the run's size comes from.
fn consent(size: Origin, is_asked: bool, is_scripted: bool) -> Consent {
    match size {
        Origin::Default | Origin::Own if is_asked => Consent::Asked,
        Origin::Default if is_scripted => Consent::Given,
        Origin::Default | Origin::Own => Consent::Lacking,
        _ => Consent::Given,
    }
}

/// Asks on the terminal whether to go on.
fn says_yes() -> bool {
    ringfall_host::stderr::tell(format_args!("go on? Answer y to do so:"));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(&*answer.trim().to_lowercase(), "y" | "yes")
}

/// Space that a run may take in a directory.
pub(in crate::commands) struct Taken<'a> {
    place: &'a Path,
    /// Most that it may take, bytes.
    pub bytes: u64,
    is_on_root: bool,
}

impl Taken<'_> {
    /// Whether it is so much of the file system of `/` that somebody is to agree.
    pub fn is_much_of_the_system_s(&self) -> bool {
        self.is_on_root && self.bytes >= WARNED_BYTES_MIN
    }
}

/// Space that the plan takes in its first directory on the file system of `/`, or else in its
/// first; none where it takes none, or where that is unknown.
pub(in crate::commands) fn taken(plan: &Plan) -> Option<Taken<'_>> {
    if plan.is_without_storage || plan.object_url().is_some() {
        return None;
    }
    let root = std::fs::metadata("/").ok()?.dev();
    let on_root = |place: &&PathBuf| device_below(place) == Some(root);
    let root_place = plan.cache_dirs.iter().find(on_root);
    let place = root_place.or(plan.cache_dirs.first())?;
    let free = free_bytes(place)?;
    let bytes = match plan.storage_capacity_bytes {
        0 => match storage_share_bytes(plan) {
            0 => free / 100 * FREE_PERCENT,
            share => share,
        },
        bytes => bytes.min(free),
    };
    Some(Taken { place, bytes, is_on_root: root_place.is_some() })
}

/// Memory that the plan takes for its CPU tier and its buffers, bytes.
pub(in crate::commands) fn memory_bytes(plan: &Plan) -> u64 {
    plan.cpu_memory_bytes.saturating_add(plan.io_buffer_bytes)
}

/// Sentence about the first directory of the plan that is on the file system of `/`; none where
/// none is, or where it is there and little of it can be taken.
pub(super) fn warning(plan: &Plan) -> Option<String> {
    let taken = taken(plan).filter(|taken| taken.is_on_root)?;
    match taken.is_much_of_the_system_s() {
        true => Some(sentence(&taken, taken.place.exists(), plan.preallocate, memory_bytes(plan))),
        false => missing(taken.place),
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

fn sentence(
    taken: &Taken<'_>,
    is_there: bool,
    preallocate: Preallocate,
    memory_bytes: u64,
) -> String {
    let place = match is_there {
        true => {
            let place = taken.place.display();
            format!("{place} is on the system's own disk (the file system of /)")
        }
        false => made_there(taken.place),
    };
    let takes = match preallocate {
        Preallocate::Grow => "may take",
        Preallocate::Reserve => "reserves",
        Preallocate::Write => "first writes",
    };
    let (bytes, memory) = (human(taken.bytes), human(memory_bytes));
    format!(
        "{place}: the run {takes} {bytes} there, and {memory} of memory, and frees them at its \
         end; name a directory on the drive to be measured, or give a smaller --storage-capacity-gb"
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
        let taken = Taken { place, bytes: 66 * GIB, is_on_root: true };
        let told = |is_there, preallocate| sentence(&taken, is_there, preallocate, 12 * GIB);
        let written = told(false, Preallocate::Write);
        for part in [
            "/mnt/nvme/kv does not exist",
            "first writes 66.0 GiB",
            "and 12.0 GiB of memory, and frees them at its end",
            "--storage-capacity-gb",
        ] {
            assert!(written.contains(part), "{part}: {written}");
        }
        let grown = told(true, Preallocate::Grow);
        assert!(grown.contains("is on the system's own disk") && grown.contains("may take 66.0"));
    }

    /// A run or a suite took 95 % of the system's disk without asking.
    #[test]
    fn a_run_that_was_given_no_size_asks_and_scripts_of_the_reference_go_on() {
        for size in [Origin::Default, Origin::Own] {
            assert_eq!(consent(size, true, true), Consent::Asked);
            assert_eq!(consent(size, false, false), Consent::Lacking);
        }
        assert_eq!(consent(Origin::Own, false, true), Consent::Lacking);
        assert_eq!(consent(Origin::Default, false, true), Consent::Given);
        assert_eq!(consent(Origin::CommandLine, true, false), Consent::Given);
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
