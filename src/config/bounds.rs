//! Checks of a plan's demands against the machine before anything is opened: memory, threads, open
//! files, and preparation that serves no purpose.

use ringfall_core::units::{GIB, gib};

use ringfall_host::{ARENAS_ADDRESSES, MemoryRoom, counted, human};
use ringfall_workloads::PopulationEstimate;
use ringfall_workloads::layout::{LayoutOption, LayoutPlan, OURS_IN_FLIGHT};

use super::auto::CPU_STEP_BYTES;
use super::check::Check;
use super::names::Names;
use super::values::{Auto, Gib};
use super::{Facts, GpuBackend, LayoutLimits, Origin, PhaseMode, Plan, Traffic};
use crate::PRECONDITION_THREAD_BYTES;

/// Memory of a shard of a real run beside its buffers, bytes: its histograms, executor, rings and
/// stack. Measured, peak RSS with `--io-size 4k --queue-depth 1`: 48, 227, 388 and 456 MiB for 2,
/// 64, 256 and 512 shards that serve 500 users, 98 MiB for 256 that serve one.
const SHARD_BYTES: u64 = 3 << 20;
/// The same of a simulated one. Measured: 8 shards take 54 MiB more than one.
const SHARD_SIMULATED_BYTES: u64 = 8 << 20;
/// Addresses that a thread takes, bytes: its stack, 2 MiB in most, and its guard pages.
const THREAD_ADDRESSES: u64 = 3 << 20;
/// Threads of a shard: its own, and one of its executor's for what blocks.
const SHARD_THREADS: u64 = 2;
/// Threads that the program has besides: two of its own, and those for signals, answers, notices,
/// space, memory and directories. Measured: 8.
const OTHER_THREADS: u64 = 12;
/// Shards for each core. Measured on 2 cores: 10 s runs of 256 and of 512 shards end after 12 to
/// 15 s, without a stall.
const SHARDS_A_CORE_MAX: u64 = 256;
/// Descriptors of a shard: four rings, two event counters, its bell. Measured: 7.
const SHARD_FILES: u64 = 8;
/// Descriptors that the program has besides: data and result files, standard streams, pipes.
const OTHER_FILES: u64 = 64;
/// Memory of an entry in the engine's index, bytes: more does not compile there.
const ENTRY_BYTES: u64 = 200;
/// A preparation that writes the tiers over so many times serves no purpose: all but the last round
/// is gone when the measurement begins.
const REWRITES_MAX: u64 = 10;

/// Something that takes memory.
struct Part {
    /// The setting, as the user knows it.
    name: String,
    bytes: u64,
    what: String,
    remedy: String,
}

impl Part {
    fn new(name: String, bytes: u64, what: impl Into<String>, remedy: impl Into<String>) -> Part {
        Part { name, bytes, what: what.into(), remedy: remedy.into() }
    }
}

/// Reduces a CPU tier to the memory that the rest of the run and other processes leave; the plan as
/// it is if the requested size fits. If not even the rest of the run fits, that is the error, and
/// the tier is left as it is.
pub(super) fn with_cpu_tier_that_fits(names: &Names<'_>, mut plan: Plan, facts: &Facts) -> Plan {
    let Some(room) = facts.room.memory.as_ref() else { return plan };
    let parts = names.parts(&plan, facts);
    let mut others = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
    let (wanted_bytes, most) = (plan.cpu_memory_bytes, room.tier_bytes_max());
    let fits = others.saturating_add(wanted_bytes) <= most;
    if fits || facts.is_simulated || plan.strict {
        return plan;
    }
    if room.is_address_space() {
        let threads = u64::from(plan.shards) * SHARD_THREADS + OTHER_THREADS;
        others += threads * THREAD_ADDRESSES + ARENAS_ADDRESSES;
    }
    if others > room.asked_bytes_max() {
        return plan;
    }
    let given_bytes = most.saturating_sub(others) / CPU_STEP_BYTES * CPU_STEP_BYTES;
    let left = human(room.bytes - most);
    // Nobody asked for a size that was worked out.
    if names.origin("cpu_mem_gb") != Some(Origin::Computed) {
        let typed = format!("{} {}", names.name_of("cpu_mem_gb"), gib(wanted_bytes));
        let forced = match facts.room.lacks(others.saturating_add(wanted_bytes)) {
            None => "--strict takes all of it",
            Some(_) => "--strict makes this an error",
        };
        plan.told.push(format!(
            "{typed} is more than this machine has to give, {room}: {left} are left to others, the \
             rest of the run needs {}, and the CPU tier takes {}; {forced}",
            human(others),
            human(given_bytes)
        ));
        let why = format!("this machine has {room} to give, of which {left} are left to others");
        plan.cpu_memory_wanted = Some((wanted_bytes, why));
    }
    plan.settings.cpu_memory_bytes = given_bytes;
    plan.effective.cpu_mem_gb = Some(Auto::Given(Gib(gib(given_bytes))));
    plan
}

impl Names<'_> {
    /// Lists the parts of the run that take memory.
    fn parts(&self, plan: &Plan, facts: &Facts) -> Vec<Part> {
        let shards = u64::from(plan.shards);
        let shard_bytes = if facts.is_simulated { SHARD_SIMULATED_BYTES } else { SHARD_BYTES };
        let shards_name = format!("{} {shards}", self.name_of("shards"));
        let prompts_name = self.name_in_workload("system_prompts", plan.workload.system_prompts);
        let prompts_bytes = plan.workload_config().prompts_bytes(u32::from(plan.shards));
        let prompts_what = "for the prompts' lengths, on every shard";
        let mut parts = vec![
            Part::new(shards_name, shards * shard_bytes, "for all shards", "give fewer shards"),
            Part::new(prompts_name, prompts_bytes, prompts_what, "give fewer"),
            self.population(plan),
        ];
        if facts.is_simulated {
            return parts;
        }
        let (buffers_bytes, buffers_what) = buffers(plan);
        // Otherwise it gets what the others leave.
        if plan.strict {
            let others = buffers_bytes + shards * SHARD_BYTES;
            let most = facts.room.memory.as_ref().map_or(0, MemoryRoom::asked_bytes_max);
            // One digit, rounded down: what is said must fit.
            let most_gib = (most.saturating_sub(others) / (GIB / 10)) as f64 / 10.0;
            let name = format!("{} {}", self.name_of("cpu_mem_gb"), gib(plan.cpu_memory_bytes));
            let remedy = format!("give {most_gib} or less, or auto");
            parts.push(Part::new(name, plan.cpu_memory_bytes, "for the CPU tier", remedy));
        }
        if plan.gpu_backend == GpuBackend::Emulated {
            let each = gib(plan.gpu_memory_bytes_each);
            let name = format!("{} {each}", self.name_of("gpu_mem_gb"));
            let what = "to stand in for the GPUs'";
            parts.push(Part::new(name, plan.gpu_memory_bytes, what, "give less"));
        }
        let (name, remedy) = (self.name_of("io_buffer_mb"), "lower it, --io-size or --shards");
        parts.push(Part::new(name, buffers_bytes, buffers_what, remedy));
        parts
    }

    fn population(&self, plan: &Plan) -> Part {
        let estimate = plan.workload_config().population_estimate();
        // What does not fit the tiers is not in the index either.
        let mean_bytes = (estimate.bytes / estimate.entries.max(1)).max(1);
        let most = tiers_bytes(plan).map_or(u64::MAX, |bytes| bytes / mean_bytes);
        let index_bytes = estimate.entries.min(most).saturating_mul(ENTRY_BYTES);
        let remedy = match is_mostly_documents(&estimate) {
            false => "give fewer, or fewer users",
            true => "give fewer documents, or raise workload.rag.chunk_tokens",
        };
        let name = self.name_of_population(plan, &estimate);
        let what = format!("to list {} entries", estimate.entries);
        Part::new(name, estimate.list_bytes.saturating_add(index_bytes), what, remedy)
    }

    /// The setting that decides most of what is written before the measurement, and its value.
    fn name_of_population(&self, plan: &Plan, estimate: &PopulationEstimate) -> String {
        let count = plan.workload.decode_only_entries_per_user;
        match is_mostly_documents(estimate) {
            false => self.name_in_workload("decode_only_entries_per_user", count),
            true => format!("{} {}", self.name_of("rag_num_docs"), plan.rag_documents),
        }
    }
}

/// Memory of the I/O buffers, bytes, and what it is for. Whoever moves an engine's files or objects
/// has a copy of each, and each thread that passes the page cache by has an I/O of its own besides.
fn buffers(plan: &Plan) -> (u64, &'static str) {
    let own_bytes = plan.io_buffer_bytes;
    if plan.layout_plan.is_none() && plan.object_url().is_none() {
        return (own_bytes, "for I/O buffers");
    }
    let direct = |layout: &&LayoutPlan| layout.options().value(LayoutOption::Direct) == Some(1);
    let threads =
        plan.layout_plan.as_ref().filter(direct).map_or(0, |layout| match plan.engine_limits {
            LayoutLimits::Theirs => layout.entry_threads_all(),
            LayoutLimits::Ours => OURS_IN_FLIGHT,
        });
    let direct_bytes = threads * u64::from(plan.io_size_bytes);
    (own_bytes.saturating_mul(2).saturating_add(direct_bytes), "for I/O buffers and their copies")
}

impl Check<'_> {
    /// Checks that the machine can provide what `plan` takes.
    pub(super) fn fits(&mut self, plan: &Plan, facts: &Facts) {
        self.memory_fits(plan, facts);
        self.preconditioning_fits(plan, facts);
        if !facts.is_simulated {
            self.shards_fit(plan, facts);
        }
        self.entries_fit(plan);
        self.population_is_of_use(plan);
        self.requests_outlast_the_ramp(plan);
    }

    fn memory_fits(&mut self, plan: &Plan, facts: &Facts) {
        let parts = self.parts(plan, facts);
        let needed = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
        let Some(room) = facts.room.lacks(needed) else { return };
        let Some(largest) = parts.iter().max_by_key(|part| part.bytes) else { return };
        let others = match needed - largest.bytes {
            0 => String::new(),
            rest => format!(", and the rest of the run {}", human(rest)),
        };
        self.sentences.push(format!(
            "{} needs {} of memory {}{others}; this machine has {room} to give: {}",
            largest.name,
            human(largest.bytes),
            largest.what,
            largest.remedy
        ));
    }

    /// Preconditioning is over when the tiers are made: its memory does not add to theirs.
    fn preconditioning_fits(&mut self, plan: &Plan, facts: &Facts) {
        let threads = if plan.is_preconditioned { plan.precondition_threads } else { 0 };
        let needed = u64::from(threads) * PRECONDITION_THREAD_BYTES;
        if let Some(room) = facts.room.lacks(needed) {
            let what = format!(
                "{threads} needs {} of memory for I/O buffers; this machine has {room} to give: \
                 give fewer, or 0 for one per shard",
                human(needed)
            );
            self.wrong("precondition_threads", what);
        }
    }

    fn shards_fit(&mut self, plan: &Plan, facts: &Facts) {
        let (shards, cores) = (u64::from(plan.shards), u64::from(facts.room.cores));
        let most = cores * SHARDS_A_CORE_MAX;
        if shards > most {
            let what = format!(
                "{shards} is more than {cores} cores can keep going, {most} \
                 ({SHARDS_A_CORE_MAX} per core): give {most} or fewer; auto is one per core"
            );
            self.wrong("shards", what);
        }
        let files = shards * SHARD_FILES + OTHER_FILES;
        if let Some(limit) = facts.room.open_files_max.filter(|limit| files > *limit) {
            let what = format!(
                "{shards} takes about {files} open files, and this process may have {limit}: \
                 raise the limit with `ulimit -n {files}`, or give fewer shards"
            );
            self.wrong("shards", what);
        }
    }

    /// A tier that can't hold the smallest entry serves no request at all.
    fn entries_fit(&mut self, plan: &Plan) {
        if plan.is_without_storage && plan.cpu_memory_bytes.max(plan.gpu_memory_bytes) == 0 {
            let cpu = self.name_of("cpu_mem_gb");
            self.wrong("disable_storage", format_args!("leaves no tier at all: give {cpu} 8, say"));
        }
        let Some((smallest, largest, held)) = entries_and_room(plan) else { return };
        let (key, tiers, that) = match plan.is_without_storage {
            true => ("disable_storage", "leaves tiers of", " that"),
            false => ("storage_capacity_gb", "of", ""),
        };
        if smallest > held {
            let what = format!(
                "{tiers} {}{that} can't hold even the smallest entry of {}, {}: no request could \
                 be served; give at least {}, which its largest takes",
                human(held),
                plan.model,
                human(smallest),
                human(largest),
            );
            self.wrong(key, what);
        }
    }

    /// Checks that the population is not mostly evicted again before the measurement.
    fn population_is_of_use(&mut self, plan: &Plan) {
        let Some((bytes, held)) = written_and_held(plan) else { return };
        if bytes / REWRITES_MAX <= held {
            return;
        }
        let estimate = plan.workload_config().population_estimate();
        let name = self.name_of_population(plan, &estimate);
        let flag = self.name_of("storage_capacity_gb");
        let remedy = match is_mostly_documents(&estimate) {
            false => format!("lower it or {}, or raise {flag}", self.name_of("num_users")),
            true => {
                let share = held as f64 / bytes as f64;
                let most = (f64::from(plan.rag_documents) * share).max(1.0) as u64;
                format!(
                    "give about {most}, raise {flag}, or keep only the newest with \
                     workload.rag.max_documents: {most}"
                )
            }
        };
        self.sentences.push(format!(
            "{name} would write about {} before the measurement, and the tiers hold {}: nearly all \
             of it would be evicted again; {remedy}",
            human(bytes),
            human(held)
        ));
    }

    /// Requests that are all made before anything is measured.
    fn requests_outlast_the_ramp(&mut self, plan: &Plan) {
        let (Some(most), Traffic::Drawn | Traffic::ShareGpt { .. }) =
            (plan.max_requests, &plan.traffic)
        else {
            return;
        };
        let arriving = plan.workload_config().arrivals_estimate(plan.warmup_s).unwrap_or(0.0);
        if arriving >= most as f64 && most > 0 {
            let ramp = format!("{} {}", self.name_of("warmup"), plan.warmup_s);
            let what = format!(
                "{most} is reached before anything is measured: about {arriving:.0} requests \
                 arrive in the {ramp} s of warm-up; raise it above that, or lower the warm-up"
            );
            self.wrong("max_requests", what);
        }
    }
}

/// Whether documents are the greater part of what is written before the measurement.
fn is_mostly_documents(estimate: &PopulationEstimate) -> bool {
    estimate.documents_bytes > estimate.bytes / 2
}

/// Capacity of all tiers together, bytes; none where the storage tier takes what the file system
/// has.
fn tiers_bytes(plan: &Plan) -> Option<u64> {
    if plan.is_without_storage {
        return Some(plan.cpu_memory_bytes.saturating_add(plan.gpu_memory_bytes));
    }
    let storage = Some(plan.storage_capacity_bytes).filter(|bytes| *bytes > 0)?;
    Some(storage.saturating_add(plan.cpu_memory_bytes).saturating_add(plan.gpu_memory_bytes))
}

/// Bytes that are written before the measurement, and bytes that the tiers hold, where the first is
/// the larger.
fn written_and_held(plan: &Plan) -> Option<(u64, u64)> {
    let bytes = plan.workload_config().population_estimate().bytes;
    tiers_bytes(plan).filter(|held| bytes > *held).map(|held| (bytes, held))
}

/// Smallest and largest entry of a turn, and what the last tier, or without storage the larger of
/// the others, holds, bytes; none where the sizes come from a file, or the capacity from what the
/// file system has.
fn entries_and_room(plan: &Plan) -> Option<(u64, u64, u64)> {
    let Traffic::Drawn = plan.traffic else { return None };
    let held = match plan.is_without_storage {
        true => plan.cpu_memory_bytes.max(plan.gpu_memory_bytes),
        false => plan.storage_capacity_bytes,
    };
    let [smallest, largest] = plan.workload_config().turn_bytes();
    (held > 0).then_some((smallest, largest, held))
}

/// Sentence about tiers that hold less than one entry for each simulated user: what can be read
/// again is less than was written, and requests may wait for space. None with an autoscaler, which
/// looks for a number of users.
fn little_space(plan: &Plan) -> Option<String> {
    let is_drawn = matches!(plan.traffic, Traffic::Drawn) && plan.phases != PhaseMode::DecodeOnly;
    let held = tiers_bytes(plan).filter(|_| is_drawn && !plan.enable_autoscaling)?;
    let mean = plan.workload_config().turn_bytes_mean();
    let wanted = mean.saturating_mul(plan.users.into());
    let is_own = plan.origins.get("storage_capacity_gb") == Some(&Origin::Own);
    let at_most = if is_own { "at most " } else { "" };
    (wanted > held).then(|| {
        format!(
            "{} with one entry of {} each take about {}, and the tiers hold {at_most}{}: earlier \
             turns may be gone before they are read again, and requests may wait for space; raise \
             --storage-capacity-gb, or give fewer users",
            counted(plan.users.into(), "user"),
            human(mean),
            human(wanted),
            human(held)
        )
    })
}

/// Sentences about what can't be met as it may have been meant; the run begins all the same.
pub fn advice(plan: &Plan) -> Vec<String> {
    let mut sentences = plan.told.clone();
    sentences.extend(closed_division(plan));
    if !plan.tensor_parallel.is_power_of_two() {
        sentences.push(format!(
            "--tensor-parallel {} is not a power of two: the run goes on, but few deployments \
             divide a model that way",
            plan.tensor_parallel
        ));
    }
    if let Some((smallest, largest, held)) = entries_and_room(plan)
        && largest > held
        && !plan.is_without_storage
    {
        sentences.push(format!(
            "entries of {} take {} to {}, and the storage tier holds {}: requests whose entry is \
             larger than that fail; raise --storage-capacity-gb to serve them all",
            plan.model,
            human(smallest),
            human(largest),
            human(held)
        ));
    }
    sentences.extend(little_space(plan));
    if let Some((bytes, held)) = written_and_held(plan) {
        sentences.push(format!(
            "about {} are written before the measurement, and the tiers hold {}: what was written \
             first is evicted again, and reads of it will miss",
            human(bytes),
            human(held)
        ));
    }
    if let (Some(most), 1..) = (plan.max_requests, plan.warmup_s) {
        sentences.push(format!(
            "--max-requests {most} counts from the start of the warm-up: requests that are made in \
             its {} s are not measured",
            plan.warmup_s
        ));
    }
    sentences
}

/// That another engine's results are none of the CLOSED division, where they would lie in a tree of
/// it: `closed/ORGANIZATION/results/SYSTEM/kv_cache/...`.
fn closed_division(plan: &Plan) -> Option<String> {
    let mut parts = plan.output.components().map(|part| part.as_os_str());
    let is_closed = parts.any(|part| part == "closed") && parts.any(|part| part == "kv_cache");
    is_closed.then(|| {
        format!(
            "--output {} lies in a tree of MLPerf Storage's CLOSED division, which allows the \
             reference benchmark's engine alone: this result can't be submitted there",
            plan.output.display()
        )
    })
}

#[cfg(test)]
#[path = "bounds_test.rs"]
mod tests;
