//! The eleven workloads by name, and the invocations that each of them makes on a machine.

use serde::{Deserialize, Serialize};

use super::machine::{Machine, half_gib};

/// Declares the workloads: name, other names of the reference's wrapper, and what each is.
macro_rules! workloads {
    ($count:literal: $($workload:ident = $name:literal or $others:expr, $what:literal;)*) => {
        /// A workload that a suite can run, which chooses its flags for the machine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
        #[serde(into = "String", try_from = "String")]
        pub enum Workload {
            $(#[doc = $what] $workload,)*
        }

        /// All of them: name, other names of the reference's wrapper, and what each is.
        pub const WORKLOADS: [(Workload, &str, &[&str], &str); $count] =
            [$((Workload::$workload, $name, &$others, $what),)*];
    };
}

workloads! { 12:
    GpuOnly = "gpu-only" or ["gpu"], "the whole cache in GPU memory";
    CpuOnly = "cpu-only" or ["cpu"], "the whole cache in host memory";
    StorageOnly = "storage-only" or ["storage"], "the whole cache on storage";
    GpuCpu = "gpu-cpu" or ["gpu+cpu"], "GPU and host memory, without storage";
    CpuStorage = "cpu-storage" or ["cpu+storage"], "host memory and storage, many users";
    GpuCpuStorage = "gpu-cpu-storage" or ["gpu+cpu+storage", "three-tier"],
        "all three tiers, many users";
    StorageSaturation = "storage-saturation" or ["saturation"],
        "many users on storage, with hardly any host memory";
    Production = "production" or ["realistic"], "all tiers, moderate load";
    Autoscale = "autoscale" or ["autoscaling", "qos-autoscale"],
        "the most users at 80 % saturation of the storage tier";
    CapacityAutoscale = "capacity-autoscale" or ["capacity"],
        "the drive's peak throughput under a large model";
    MlperfSubmission = "mlperf_submission" or ["mlperf", "mlperf-submission"],
        "the three invocations that were found to tell drives apart";
    MlperfThroughput70b = "mlperf_throughput_70b" or ["mlperf-70b-throughput"],
        "a fourth: the large model with 4 GiB of host memory; not part of all";
}

impl From<Workload> for String {
    fn from(workload: Workload) -> String {
        workload.name().to_owned()
    }
}

impl TryFrom<String> for Workload {
    type Error = String;

    fn try_from(name: String) -> Result<Workload, String> {
        Workload::by_name(&name).ok_or_else(|| format!("{name:?} is not a workload"))
    }
}

impl Workload {
    /// Name of the workload on the command line.
    pub fn name(self) -> &'static str {
        WORKLOADS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// Description of the workload, in a few words.
    pub fn summary(self) -> &'static str {
        WORKLOADS.iter().find(|row| row.0 == self).map_or("", |row| row.3)
    }

    /// Whether `all` stands for it too: it does for those that the reference's wrapper runs.
    pub fn is_in_all(self) -> bool {
        self != Workload::MlperfThroughput70b
    }

    /// The workload of a name, in any case, with `-` and `_` alike.
    pub fn by_name(name: &str) -> Option<Workload> {
        let same =
            |a: &str, b: &str| a.replace('_', "-").eq_ignore_ascii_case(&b.replace('_', "-"));
        let found = WORKLOADS.iter().find(|(_, own, others, _)| {
            same(own, name) || others.iter().any(|other| same(other, name))
        });
        found.map(|row| row.0)
    }
}

/// Parameters of the workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The model whose cache is simulated.
    pub model: String,
    /// Length of the runs that compare tiers, s.
    pub tier_s: u32,
    /// Length of the run that saturates storage, s.
    pub saturation_s: u32,
    /// Length of the run with a moderate load, s.
    pub production_s: u32,
    /// Longest time of the searches, s.
    pub autoscale_s: u32,
    /// Users of the moderate load; none: 50.
    pub users: Option<u32>,
    /// Users of the high load; none: by memory.
    pub users_high: Option<u32>,
    /// Documents to retrieve from; none: no retrieval.
    pub rag_documents: Option<u32>,
    /// Size of the storage tier where there is one, GiB; none: 95 % of the free space.
    pub storage_gib: Option<f64>,
}

impl Default for Asked {
    fn default() -> Self {
        Asked {
            model: "llama3.1-8b".to_owned(),
            tier_s: 120,
            saturation_s: 180,
            production_s: 180,
            autoscale_s: 300,
            users: None,
            users_high: None,
            rag_documents: None,
            storage_gib: None,
        }
    }
}

/// A flag of `ringfall run`, and why it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Flag {
    /// The flag as it is typed, such as `--num-users`.
    pub flag: String,
    /// Its value; null for a switch.
    pub value: Option<String>,
    /// Why: a sentence without a full stop.
    pub reason: String,
}

impl Flag {
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.flag).chain(self.value.as_deref())
    }
}

/// One run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Invocation {
    /// Name of the run, fit for a file.
    pub name: String,
    /// Name of the workload.
    pub workload: Workload,
    /// Description of the run, in a few words.
    pub title: String,
    /// Flags of `ringfall run`.
    pub flags: Vec<Flag>,
    /// Length of its measurement, s.
    pub duration_s: u32,
    /// Part of the workload that this machine leaves out, and why: a sentence.
    pub left_out: Option<String>,
    /// Why it can't be run here at all: a sentence. Its flags are then empty.
    pub impossible: Option<String>,
}

impl Invocation {
    /// The arguments of its run, `run` the first.
    pub fn arguments(&self) -> Vec<String> {
        let words = self.flags.iter().flat_map(Flag::words);
        std::iter::once("run").chain(words).map(str::to_owned).collect()
    }
}

/// Users of the moderate load: what the reference's wrapper found to work on most machines.
const USERS: u32 = 50;
/// Users of the high load for each GiB of memory, and their bounds (the reference's wrapper).
const USERS_A_GIB: f64 = 10.0;
const USERS_HIGH_MIN: f64 = 50.0;
const USERS_HIGH_MAX: f64 = 300.0;
/// Host memory that is small on purpose, GiB: with none at all requests queue up so far that their
/// latencies say nothing (the reference found a queueing factor of 25,942, and 20 times less with
/// this), and nearly all reads reach the drive all the same.
const CPU_BUFFER_GIB: f64 = 4.0;
/// Random seed of all of them, so that results of two machines can be compared.
const SEED: u32 = 42;
/// The large model of the reference's wrapper.
const LARGE_MODEL: &str = "llama3.1-70b-instruct";
const LARGE_MODEL_WHY: &str = "a large model: 320 KiB a token, 2.5 times as much as llama3.1-8b";
/// Length of the invocations that were published, s.
const PUBLISHED_S: u32 = 300;

/// An invocation that was published.
struct PublishedRun {
    name: &'static str,
    model: &'static str,
    users: u32,
    cpu_gib: f64,
    allocations: u32,
}

const fn published(
    name: &'static str,
    model: &'static str,
    users: u32,
    cpu_gib: f64,
    allocations: u32,
) -> PublishedRun {
    PublishedRun { name, model, users, cpu_gib, allocations }
}

/// The reference's wrapper has these three.
const SUBMISSION: [PublishedRun; 3] = [
    published("mlperf_stress_8b", "llama3.1-8b", 200, 0.0, 16),
    published("mlperf_throughput_8b", "llama3.1-8b", 100, CPU_BUFFER_GIB, 0),
    published("mlperf_stress_70b", LARGE_MODEL, 70, 0.0, 4),
];
/// It once had a fourth, of the large model with a CPU tier: the recommended invocation.
const FOURTH: PublishedRun = published("mlperf_throughput_70b", LARGE_MODEL, 20, CPU_BUFFER_GIB, 4);

/// Makes the invocations of workloads.
struct Maker<'a> {
    asked: &'a Asked,
    machine: &'a Machine,
}

/// The invocations of a workload on a machine, in the order in which they are run.
pub fn invocations(workload: Workload, asked: &Asked, machine: &Machine) -> Vec<Invocation> {
    let maker = Maker { asked, machine };
    let mut all = maker.all(workload);
    for invocation in &mut all {
        maker.limit_storage(invocation);
        let has_gpu = invocation.flags.iter().any(|flag| flag.flag == "--gpu-mem-gb");
        invocation.title.push_str(match (has_gpu, machine.is_gpu_in_all) {
            (true, _) if machine.is_gpu_emulated => " (the GPU is emulated in host memory)",
            (false, true) => ", beside a GPU tier emulated in host memory",
            _ => "",
        });
    }
    all
}

fn flag(flag: &'static str, value: impl ToString, reason: impl Into<String>) -> Flag {
    Flag { flag: flag.to_owned(), value: Some(value.to_string()), reason: reason.into() }
}

fn switch(flag: &'static str, reason: impl Into<String>) -> Flag {
    Flag { flag: flag.to_owned(), value: None, reason: reason.into() }
}

impl Maker<'_> {
    fn users(&self) -> Flag {
        match self.asked.users {
            Some(users) => flag("--num-users", users, "as asked for with -u"),
            None => flag("--num-users", USERS, "a moderate load for most machines"),
        }
    }

    /// Never fewer than the moderate load has.
    fn users_high(&self) -> Flag {
        let least = self.asked.users.unwrap_or(USERS);
        match self.asked.users_high {
            Some(users) if users >= least => flag("--num-users", users, "as asked for with -U"),
            Some(users) => {
                let why = format!("{users} is fewer than the moderate load has: as many as that");
                flag("--num-users", least, why)
            }
            None => {
                let memory = self.machine.memory_gib;
                let users = (memory * USERS_A_GIB).clamp(USERS_HIGH_MIN, USERS_HIGH_MAX) as u32;
                let why = format!(
                    "a high load: {USERS_A_GIB:.0} for each of {memory:.1} GiB of memory, at least \
                     {USERS_HIGH_MIN:.0} and at most {USERS_HIGH_MAX:.0}"
                );
                flag("--num-users", users.max(least), why)
            }
        }
    }

    fn cpu_large(&self) -> Flag {
        let room = self.machine.memory_room_gib;
        let why = format!("half of the {room:.1} GiB of memory that a process can have now");
        flag("--cpu-mem-gb", half_gib(room / 2.0), why)
    }

    fn cpu_small(&self) -> Flag {
        let room = self.machine.memory_room_gib;
        let why = format!(
            "an eighth of the {room:.1} GiB of memory that a process can have now, so that entries \
             go on to storage"
        );
        flag("--cpu-mem-gb", half_gib(room / 8.0).max(1.0), why)
    }

    fn cpu_buffer(&self) -> Flag {
        let room = half_gib(self.machine.memory_room_gib / 2.0);
        let why = "a small buffer: nearly all reads still reach the drive, and requests do not \
                   queue up as far as without it";
        flag("--cpu-mem-gb", CPU_BUFFER_GIB.min(room), why)
    }

    fn no_cpu(&self, why: &str) -> Flag {
        flag("--cpu-mem-gb", 0, why)
    }

    fn no_storage(&self) -> Flag {
        switch("--disable-storage", "entries that fit in no other tier are dropped, and counted")
    }

    fn cache_dir(&self) -> Flag {
        let place = &self.machine.place;
        // A comma would separate two drives.
        let path = place.directory.display().to_string().replace(',', "\\,");
        flag("--cache-dir", path, place.reason.clone())
    }

    /// As large as asked for, in runs that have a storage tier.
    fn limit_storage(&self, invocation: &mut Invocation) {
        let place = invocation.flags.iter().position(|flag| flag.flag == "--cache-dir");
        if let (Some(gib), Some(place)) = (self.asked.storage_gib, place) {
            let limit = flag("--storage-capacity-gb", gib, "as asked for");
            invocation.flags.insert(place + 1, limit);
        }
    }

    /// Flags with which all runs of one length and model begin.
    fn base(duration_s: u32, model: &str, why: &str) -> Vec<Flag> {
        vec![flag("--model", model, why), flag("--duration", duration_s, "seconds of measurement")]
    }

    fn no_generation(&self) -> Flag {
        flag("--generation-mode", "none", "tokens take no time: nothing but storage is waited for")
    }

    fn seed(&self) -> Flag {
        flag("--seed", SEED, "the same requests on every machine")
    }

    fn retrieval(&self) -> Vec<Flag> {
        match self.asked.rag_documents {
            Some(documents) => vec![
                switch("--enable-rag", "as asked for with -R"),
                flag("--rag-num-docs", documents, "documents to retrieve from"),
            ],
            None => Vec::new(),
        }
    }

    fn invocation(workload: Workload, duration_s: u32, flags: Vec<Flag>) -> Invocation {
        Invocation {
            name: workload.name().to_owned(),
            workload,
            title: workload.summary().to_owned(),
            flags,
            duration_s,
            left_out: None,
            impossible: None,
        }
    }

    /// A run of the model that was asked for, in which tokens take their time.
    fn made(&self, workload: Workload, duration_s: u32, flags: Vec<Flag>) -> Invocation {
        let why = "the model whose cache is simulated";
        let mut all = Maker::base(duration_s, &self.asked.model, why);
        all.extend(flags);
        all.push(flag("--generation-mode", "realistic", "30 ms a token, as a GPU would take"));
        all.extend(self.retrieval());
        all.push(self.seed());
        Maker::invocation(workload, duration_s, all)
    }

    /// The same with a GPU tier, told after the users: without one there is nothing of it left to
    /// run.
    fn needs_gpu(&self, workload: Workload, duration_s: u32, mut flags: Vec<Flag>) -> Invocation {
        match &self.machine.gpu_gib {
            Ok(gib) => {
                flags.insert(1, self.gpu(*gib));
                self.made(workload, duration_s, flags)
            }
            Err(why) => Invocation {
                impossible: Some(format!(
                    "it needs a GPU tier: {why}; `ringfall suite ... -- --gpu-backend emulated` \
                     has host memory stand in for one"
                )),
                ..Maker::invocation(workload, duration_s, Vec::new())
            },
        }
    }

    /// The same with a GPU tier, told first: without one the other tiers are run all the same.
    fn wants_gpu(&self, workload: Workload, duration_s: u32, mut flags: Vec<Flag>) -> Invocation {
        let left_out = match &self.machine.gpu_gib {
            Ok(gib) => {
                flags.insert(0, self.gpu(*gib));
                None
            }
            Err(why) => Some(format!("the GPU tier is left out: {why}")),
        };
        Invocation { left_out, ..self.made(workload, duration_s, flags) }
    }

    /// The invocations of a workload, before what all of them have in common.
    fn all(&self, workload: Workload) -> Vec<Invocation> {
        let Asked { tier_s, saturation_s, production_s, autoscale_s, .. } = *self.asked;
        let (duration_s, flags) = match workload {
            Workload::GpuOnly => {
                let cpu = self.no_cpu("no tier but the GPU's");
                (tier_s, vec![self.users(), cpu, self.no_storage()])
            }
            Workload::CpuOnly | Workload::GpuCpu => {
                (tier_s, vec![self.users(), self.cpu_large(), self.no_storage()])
            }
            Workload::StorageOnly => {
                let cpu = self.no_cpu("no tier but storage: every read reaches the drive");
                (tier_s, vec![self.users(), cpu, self.cache_dir()])
            }
            Workload::CpuStorage | Workload::GpuCpuStorage => {
                (tier_s, vec![self.users_high(), self.cpu_small(), self.cache_dir()])
            }
            Workload::StorageSaturation => {
                (saturation_s, vec![self.users_high(), self.cpu_buffer(), self.cache_dir()])
            }
            Workload::Production => {
                (production_s, vec![self.users(), self.cpu_large(), self.cache_dir()])
            }
            Workload::Autoscale => (autoscale_s, self.autoscaled()),
            Workload::CapacityAutoscale => return vec![self.capacity()],
            Workload::MlperfSubmission => {
                return SUBMISSION.map(|row| self.published(workload, &row)).into();
            }
            Workload::MlperfThroughput70b => return vec![self.published(workload, &FOURTH)],
        };
        vec![match workload {
            Workload::GpuOnly | Workload::GpuCpu | Workload::GpuCpuStorage => {
                self.needs_gpu(workload, duration_s, flags)
            }
            Workload::Production | Workload::Autoscale => {
                self.wants_gpu(workload, duration_s, flags)
            }
            _ => self.made(workload, duration_s, flags),
        }]
    }

    fn autoscaled(&self) -> Vec<Flag> {
        vec![
            flag("--num-users", 20, "the search begins with these"),
            self.cpu_small(),
            switch("--enable-autoscaling", "users are added until the target is reached"),
            flag("--autoscaler-mode", "qos", "what is looked for: users at a saturation"),
            flag("--target-saturation", "0.8", "leaves headroom for bursts"),
            self.cache_dir(),
        ]
    }

    /// Without retrieval, as in the reference's wrapper: its model is not the one asked for.
    fn capacity(&self) -> Invocation {
        let duration_s = self.asked.autoscale_s;
        let mut flags = Maker::base(duration_s, LARGE_MODEL, LARGE_MODEL_WHY);
        flags.extend([
            flag("--num-users", 10, "the search begins with these, for a gentle rise"),
            self.cpu_buffer(),
            switch("--enable-autoscaling", "users are added until throughput rises no more"),
            flag("--autoscaler-mode", "capacity", "what is looked for: the highest throughput"),
            self.cache_dir(),
            self.no_generation(),
            self.seed(),
        ]);
        Maker::invocation(Workload::CapacityAutoscale, duration_s, flags)
    }

    fn published(&self, workload: Workload, row: &PublishedRun) -> Invocation {
        let metrics = match row.cpu_gib > 0.0 {
            true => "storage throughput is the metric to go by with it",
            false => "decode bytes read and wall-clock throughput are the metrics to go by",
        };
        let mut flags = Maker::base(PUBLISHED_S, row.model, "as published");
        flags.extend([
            flag("--num-users", row.users, "as published"),
            flag("--cpu-mem-gb", row.cpu_gib, metrics),
            flag("--max-concurrent-allocs", row.allocations, "as published"),
            self.cache_dir(),
            self.no_generation(),
            self.seed(),
        ]);
        let large = if row.model == LARGE_MODEL { "large model" } else { "8B model" };
        let what = if row.cpu_gib > 0.0 { "storage throughput" } else { "storage stress" };
        Invocation {
            name: row.name.to_owned(),
            title: format!("{what}, {large}, as published"),
            ..Maker::invocation(workload, PUBLISHED_S, flags)
        }
    }

    fn gpu(&self, gib: f64) -> Flag {
        match self.machine.is_gpu_emulated {
            true => {
                flag("--gpu-mem-gb", gib, "host memory that stands in for a GPU's, as asked for")
            }
            false => flag("--gpu-mem-gb", half_gib(gib), "the memory that the GPU has to give"),
        }
    }
}
