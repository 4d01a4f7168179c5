//! Facts of a machine that decide the flags: memory, a GPU, and the place for the data.

use std::path::{Path, PathBuf};

use ringfall_core::units::{GIB, gib};
use serde::Serialize;

use ringfall_host::survey::{Disk, FileSystem, Survey};

/// Mount points that administrators keep for this, the better first.
const USUAL: [&str; 2] = ["/mnt/nvme", "/mnt/ssd"];
/// A file system with less free space than this is not recommended: no model's entries would fit.
const FREE_BYTES_MIN: u64 = 4 * GIB;
/// Name of the directory that is proposed at a mount point.
const DIRECTORY: &str = "ringfall-kv";

/// Memory that a workload can have, and where it can keep data.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Size of main memory, GiB.
    pub memory_gib: f64,
    /// Memory that a process can have now, GiB.
    pub memory_room_gib: f64,
    /// Memory of the GPU that a GPU tier can have, GiB; or why there can be no GPU tier.
    pub gpu_gib: Result<f64, String>,
    /// Whether host memory stands in for that GPU.
    pub is_gpu_emulated: bool,
    /// Whether every run has a GPU tier, as `--gpu-mem-gb` is given for all.
    pub is_gpu_in_all: bool,
    /// Where the data goes.
    pub place: Place,
}

/// Default engine settings of a run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Engine {
    /// Number of shards, a thread each.
    pub shards: u32,
    /// I/Os in flight for each shard.
    pub queue_depth: u32,
    /// Size of the largest I/O, bytes.
    pub io_bytes: u64,
    /// Memory for I/O buffers, bytes.
    pub buffer_bytes: u64,
}

/// A place for the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Place {
    /// The directory; it need not be there yet.
    pub directory: PathBuf,
    /// Why this one: a sentence.
    pub reason: String,
    /// Whether it was given, and not chosen.
    pub is_given: bool,
    /// Mount point of the file system that it is on; null when that is not known.
    pub mount_point: Option<String>,
    /// Space that is free there, bytes.
    pub free_bytes: Option<u64>,
}

impl Machine {
    /// Extracts the facts from `survey`; the data goes to `given`, or where this machine does best.
    pub fn of(survey: &Survey, given: Option<&Path>) -> Machine {
        let gib_of = |bytes: Option<u64>| bytes.map_or(0.0, gib);
        let memory = &survey.memory;
        let room = memory.room_bytes.or(memory.available_bytes);
        Machine {
            memory_gib: gib_of(memory.total_bytes),
            memory_room_gib: gib_of(room),
            gpu_gib: Err(why_no_gpu(survey)),
            is_gpu_emulated: false,
            is_gpu_in_all: false,
            place: Place::of(survey, given),
        }
    }

    /// The same with host memory standing in for a GPU: that many GiB of it, or, when nothing is
    /// said, an eighth of what a process can have. What is said is a flag that every run gets.
    #[must_use]
    pub fn with_emulated_gpu(self, gib: Option<f64>) -> Machine {
        let is_gpu_in_all = gib.is_some_and(|gib| gib > 0.0);
        let gib = gib.unwrap_or_else(|| half_gib(self.memory_room_gib / 8.0).max(0.5));
        Machine { gpu_gib: Ok(gib), is_gpu_emulated: true, is_gpu_in_all, ..self }
    }
}

/// In halves of a GiB, rounded down, so that it prints short.
pub(super) fn half_gib(gib: f64) -> f64 {
    (gib * 2.0).floor() / 2.0
}

/// Reason why the survey alone knows of no memory for a GPU tier, which callers that ask the driver
/// replace.
fn why_no_gpu(survey: &Survey) -> String {
    match survey.gpus.iter().find(|gpu| gpu.computes()) {
        None => "this machine has no GPU with a driver that computes".to_owned(),
        Some(gpu) => format!(
            "there is a GPU ({}), but nothing is known of its memory",
            gpu.model.as_deref().unwrap_or(&gpu.vendor)
        ),
    }
}

impl Place {
    /// The given directory, one of the usual ones, or one on the best file system.
    pub fn of(survey: &Survey, given: Option<&Path>) -> Place {
        if let Some(given) = given {
            let reason = "it was given with --cache-dir".to_owned();
            return Place::at(survey, given.to_owned(), reason, true);
        }
        let is_usual = |path: &&&str| {
            let mut systems = survey.file_systems.iter();
            systems.any(|system| system.mount_point == ***path && system.is_writable)
        };
        if let Some(usual) = USUAL.iter().find(is_usual) {
            let reason = format!("a file system is mounted at {usual}, and can be written");
            return Place::at(survey, Path::new(usual).join(DIRECTORY), reason, false);
        }
        let candidates = survey.file_systems.iter().filter(|system| is_candidate(survey, system));
        match candidates.max_by_key(|system| rank(survey, system)) {
            Some(best) => {
                let directory = match best.mount_point.as_str() {
                    // Nobody but root makes directories in the root.
                    "/" => Path::new("/var/tmp").join(DIRECTORY),
                    point => Path::new(point).join(DIRECTORY),
                };
                Place::at(survey, directory, told(survey, best), false)
            }
            None => Place {
                directory: std::env::temp_dir().join(DIRECTORY),
                reason: "no file system on a drive has 4 GiB free and can be written here: name a \
                         directory with --cache-dir"
                    .to_owned(),
                ..Place::default()
            },
        }
    }

    /// The given directory, one of the usual ones, or the system's temporary directory: what may be
    /// written without asking.
    pub fn usual(survey: &Survey, given: Option<&Path>) -> Place {
        let best = Place::of(survey, given);
        if best.is_given || USUAL.iter().any(|path| best.directory.starts_with(path)) {
            return best;
        }
        let directory = std::env::temp_dir().join(DIRECTORY);
        let reason = format!(
            "nothing is mounted at {} or {}, and no directory was given with -c; `ringfall \
             discover` recommends {}",
            USUAL[0],
            USUAL[1],
            best.directory.display()
        );
        Place::at(survey, directory, reason, false)
    }

    /// Drives below it; none where its file system is not known.
    pub fn drives<'a>(&self, survey: &'a Survey) -> Vec<&'a Disk> {
        let is_its = |system: &&FileSystem| self.mount_point.as_ref() == Some(&system.mount_point);
        survey.file_systems.iter().rfind(is_its).map_or(Vec::new(), |own| survey.drives_of(own))
    }

    /// Its file system, where that is in memory.
    #[must_use]
    pub fn memory<'a>(&self, survey: &'a Survey) -> Option<&'a FileSystem> {
        let mount_point = self.mount_point.as_ref()?;
        let mut all = survey.file_systems.iter();
        all.rfind(|system| system.mount_point == *mount_point).filter(|own| own.is_in_memory())
    }

    fn at(survey: &Survey, directory: PathBuf, reason: String, is_given: bool) -> Place {
        let absolute = std::path::absolute(&directory).unwrap_or_else(|_| directory.clone());
        let system = survey.file_system_of(&absolute);
        Place {
            mount_point: system.map(|system| system.mount_point.clone()),
            free_bytes: system.and_then(|system| system.free_bytes),
            directory,
            reason,
            is_given,
        }
    }
}

fn is_candidate(survey: &Survey, system: &FileSystem) -> bool {
    system.is_writable
        && !system.is_in_memory()
        && !system.is_remote()
        && system.free_bytes >= Some(FREE_BYTES_MIN)
        && system
            .disk
            .as_ref()
            .and_then(|name| survey.disk(name))
            .is_some_and(|disk| !matches!(disk.kind.as_str(), "loop" | "zram") && !disk.read_only)
}

/// The greater, the better: local NVMe, not the system's own drive, solid, the most free space.
fn rank(survey: &Survey, system: &FileSystem) -> (bool, bool, bool, Option<u64>) {
    let drives = survey.drives_of(system);
    let all = |is: fn(&Disk) -> bool| !drives.is_empty() && drives.iter().all(|drive| is(drive));
    let of_system = survey.file_systems.iter().find(|system| system.mount_point == "/");
    let is_system =
        of_system.is_some_and(|root| root.drives.iter().any(|drive| system.drives.contains(drive)));
    let is_nvme =
        all(|drive| drive.kind == "nvme" && drive.facts.transport.as_deref() != Some("tcp"));
    (is_nvme, !is_system, all(|drive| drive.facts.rotational != Some(true)), system.free_bytes)
}

fn told(survey: &Survey, system: &FileSystem) -> String {
    let drives = survey.drives_of(system);
    let what = match drives.as_slice() {
        [] => "a drive".to_owned(),
        [one] => {
            let model =
                one.facts.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default();
            format!("{} ({}{model})", one.facts.name, one.kind)
        }
        several => {
            let names: Vec<&str> = several.iter().map(|drive| drive.facts.name.as_str()).collect();
            names.join(", ")
        }
    };
    let free = system.free_bytes.map_or(0.0, gib);
    let order = rank(survey, system);
    let why = match order {
        (true, true, ..) => "the local NVMe drive with the most free space that does not hold /",
        (true, false, ..) => "the local NVMe drive with the most free space, though / is on it too",
        (false, true, ..) => "the drive with the most free space that does not hold /",
        (false, false, ..) => "the only kind of drive here with free space, though / is on it too",
    };
    format!("{} on {what} has {free:.1} GiB free: {why}", system.mount_point)
}
