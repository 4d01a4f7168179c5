//! All that `discover` says: the machine, the place, what was tried, advice, and the flags of every
//! workload.

use ringfall_config::Plan;
use ringfall_core::facts::RingFeatures;
use ringfall_core::named;
use ringfall_host::survey::{Disk, Survey, Throttle};
use ringfall_host::{counted, escape};
use serde::Serialize;

use super::machine::{Engine, Machine, Place};
use super::workload::{Asked, Invocation, WORKLOADS, invocations};

/// Cores that advice on interrupts names.
const CORES_NAMED: usize = 8;

/// Findings and recommendations of `discover`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Discovery {
    /// Version of ringfall that made the report.
    pub version: &'static str,
    /// Everything that was found out about the machine.
    pub machine: Survey,
    /// Default engine settings of a run here.
    pub engine: Engine,
    /// The place recommended for the data.
    pub place: Place,
    /// Whether files there take I/O past the page cache (O_DIRECT), without which nothing runs;
    /// null where that could not be tried.
    pub takes_direct_io: Option<bool>,
    /// Outcome of trying to use io_uring.
    pub io_uring: IoUring,
    /// Size of the KV cache of the model that was asked about.
    pub kv: KvSize,
    /// Recommended changes to the machine's configuration, the most important first.
    pub advice: Vec<Advice>,
    /// The invocations of each workload, with the reason for each flag.
    pub workloads: Vec<Invocation>,
}

/// Size of a model's KV cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct KvSize {
    /// Name of the model.
    pub model: String,
    /// Size of the KV cache of a token, bytes.
    pub token_bytes: u64,
    /// Mean size of a simulated user's turn, bytes.
    pub turn_bytes: u64,
}

impl KvSize {
    /// Sizes of a plan's model and users.
    pub fn of(plan: &Plan) -> KvSize {
        let workload = plan.workload_config();
        KvSize {
            model: plan.model.clone(),
            token_bytes: workload.entry_bytes(1),
            turn_bytes: workload.turn_bytes_mean(),
        }
    }

    /// Number of users one turn of each of whom fits in so many bytes.
    pub fn users_in(&self, bytes: u64) -> u64 {
        bytes / self.turn_bytes.max(1)
    }
}

named! {
/// Importance of the advice.
#[derive(PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Nothing runs, or what is measured is not the drive.
    Needed = "needed",
    /// Figures would be lower, or could not be compared with others'.
    Matters = "matters",
}
}

/// Something that should be configured differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Advice {
    /// Importance of the advice.
    pub weight: Weight,
    /// Setting found, and why it should change: one sentence or two.
    pub what: String,
    /// The command that changes it; null where there is none. Most of them need root, and last
    /// until the next start of the machine.
    pub command: Option<String>,
}

/// Outcome of making a ring, registering the buffers of all shards with it, and having it complete
/// a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct IoUring {
    /// Whether a ring could be made and completed a request.
    pub works: bool,
    /// Reason why io_uring does not work, a sentence; null where it does.
    pub error: Option<String>,
    /// Mode in which completions are delivered: `DEFER_TASKRUN`, `COOP_TASKRUN` or `plain`.
    pub completions: Option<&'static str>,
    /// Memory that was to be registered, bytes.
    pub buffer_bytes: u64,
    /// Whether it could be registered; without that each I/O pins its pages.
    pub buffers_registered: Option<bool>,
}

impl IoUring {
    /// A trial that succeeded with so many bytes of buffers, and whether they were registered.
    pub fn works(features: RingFeatures, buffers_registered: bool, buffer_bytes: u64) -> IoUring {
        IoUring {
            works: true,
            error: None,
            completions: Some(completions(features)),
            buffer_bytes,
            buffers_registered: Some(buffers_registered),
        }
    }

    /// A trial with so many bytes of buffers that failed; the error is a sentence.
    pub fn failed(error: String, buffer_bytes: u64) -> IoUring {
        IoUring { error: Some(error), buffer_bytes, ..IoUring::default() }
    }
}

fn completions(features: RingFeatures) -> &'static str {
    match features {
        RingFeatures { defer_taskrun: true, .. } => "DEFER_TASKRUN",
        RingFeatures { coop_taskrun: true, .. } => "COOP_TASKRUN",
        _ => "plain",
    }
}

impl Discovery {
    /// Draws the conclusions. `tried` is what came of trying io_uring and O_DIRECT.
    pub fn of(
        survey: Survey,
        asked: &Asked,
        machine: &Machine,
        engine: Engine,
        tried: (IoUring, Option<bool>),
        kv: KvSize,
    ) -> Discovery {
        let (io_uring, takes_direct_io) = tried;
        let directory = machine.place.directory.display().to_string();
        let direct = (takes_direct_io == Some(false)).then_some(directory.as_str());
        let workloads = WORKLOADS.iter().flat_map(|row| invocations(row.0, asked, machine));
        Discovery {
            version: env!("CARGO_PKG_VERSION"),
            advice: advise(&survey, &machine.place, engine, &io_uring, direct),
            place: machine.place.clone(),
            workloads: workloads.collect(),
            machine: survey,
            engine,
            kv,
            takes_direct_io,
            io_uring,
        }
    }
}

impl Discovery {
    /// Place whose drive a first command can measure: another one where this is in memory; none
    /// where no drive is known.
    #[must_use]
    pub fn place_to_try(&self) -> Option<Place> {
        match self.place.memory(&self.machine) {
            None => Some(self.place.clone()),
            Some(_) => on_a_drive(&self.machine),
        }
    }
}

/// Place on a drive of this machine; none where none is known.
fn on_a_drive(survey: &Survey) -> Option<Place> {
    Some(Place::of(survey, None)).filter(|place| place.mount_point.is_some())
}

/// All advice for runs at this place, the most important first. `direct` is its directory where
/// files do not take O_DIRECT.
fn advise(
    survey: &Survey,
    place: &Place,
    engine: Engine,
    ring: &IoUring,
    direct: Option<&str>,
) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut add = |weight, what, command| all.push(Advice { weight, what, command });
    if let Some(error) = &ring.error {
        add(Weight::Needed, format!("io_uring can't be used: {error}"), None);
    }
    if let Some(directory) = direct {
        let what = format!(
            "files in {directory} do not take O_DIRECT: no run can measure the drive there; name \
             another directory"
        );
        add(Weight::Needed, what, None);
    }
    if let Some(memory) = place.memory(survey) {
        let other = on_a_drive(survey).map_or("a directory on a drive".to_owned(), |other| {
            format!("another place, such as {}", other.directory.display())
        });
        let what = format!(
            "{} is in memory ({}), so that no run measures a drive there; name {other}",
            place.directory.display(),
            memory.kind
        );
        add(Weight::Needed, what, None);
    }
    for throttle in &survey.limits.throttles {
        let (what, command) = throttled(survey, throttle);
        add(Weight::Needed, what, Some(command));
    }
    if ring.buffers_registered == Some(false) {
        let what = format!(
            "the kernel does not register {} MiB of I/O buffers: each I/O then pins its pages, \
             which costs time",
            ring.buffer_bytes >> 20
        );
        add(Weight::Matters, what, Some("ulimit -l unlimited".to_owned()));
    }
    for drive in place.drives(survey) {
        if let Some((what, command)) = scheduled(drive) {
            add(Weight::Matters, what, Some(command));
        }
        if let Some(what) = interrupted_apart(drive, engine.shards) {
            add(Weight::Matters, what, None);
        }
    }
    all
}

/// Advice on a cgroup's limit, and the command that lifts it.
fn throttled(survey: &Survey, throttle: &Throttle) -> (String, String) {
    let disk = survey.disks.iter().find(|disk| disk.facts.numbers == throttle.numbers);
    let name = disk.map_or(throttle.numbers.as_str(), |disk| disk.facts.name.as_str());
    let what = format!(
        "a cgroup limits {name} ({} in {}): the limit would be measured instead of the drive",
        throttle.limit, throttle.file
    );
    let key = throttle.limit.split('=').next().unwrap_or_default();
    let line = match throttle.file.ends_with("io.max") {
        true => format!("{} {key}=max", throttle.numbers),
        false => format!("{} 0", throttle.numbers),
    };
    let file = escape::shell(&throttle.file);
    (what, format!("echo {} | sudo tee {file}", escape::shell(&line)))
}

/// Advice on a fast drive whose requests are ordered for it, and the command that ends that.
fn scheduled(drive: &Disk) -> Option<(String, String)> {
    let (name, scheduler) = (&drive.facts.name, drive.facts.scheduler.as_deref()?);
    let is_fast = matches!(drive.kind.as_str(), "nvme" | "virtio");
    let has_none = drive.schedulers.iter().any(|one| one == "none");
    (is_fast && has_none && scheduler != "none").then(|| {
        let what = format!(
            "{name} has the scheduler {scheduler}: it orders requests that the drive orders \
             better itself, under a lock"
        );
        let file = escape::shell(&format!("/sys/block/{name}/queue/scheduler"));
        (what, format!("echo none | sudo tee {file}"))
    })
}

/// Advice on shards that the drive does not interrupt: they are woken by way of a core that it
/// does. Shards are pinned to the latter first, so this concerns those for which there are too few.
fn interrupted_apart(drive: &Disk, shards: u32) -> Option<String> {
    let cores = &drive.interrupted_cores;
    if cores.is_empty() || cores.len() >= shards as usize {
        return None;
    }
    let mut named: Vec<String> = cores.iter().take(CORES_NAMED).map(usize::to_string).collect();
    if cores.len() > CORES_NAMED {
        named.push("…".to_owned());
    }
    Some(format!(
        "{} interrupts {} only ({}), and a run has {}; where few I/Os are in flight, --shards {} \
         may be faster",
        drive.facts.name,
        counted(cores.len() as u64, "core"),
        named.join(", "),
        counted(shards.into(), "shard"),
        cores.len()
    ))
}
