//! Checks of the settings: one sentence for each combination that is forbidden or is not what it
//! seems. No check changes a setting.

use std::path::PathBuf;

use ringfall_core::units::{GIB, MIB};
use ringfall_workloads::config::USERS_MAX;
use ringfall_workloads::layout::LayoutOption;

use super::depth::{Depth, SEARCH_WARMUP_S};
use super::figures::USERS_SERVED_MAX;
use super::names::Names;
use super::rules::{CONFLICTS, IDLE, Idle, OF_DRIVES, OF_STORAGE};
use super::values::{Gib, Size};
use super::{
    Facts, GpuTransfer, Named, Options, Origin, Part, Plan, Ranks, RooflineFrom, Settings, Shared,
    WorkloadSection,
};

/// Farthest that a start may lie ahead, s: a day.
const START_AHEAD_MAX_S: u64 = 86_400;

/// Collects what is wrong, and what is to be told.
pub(super) struct Check<'a> {
    pub(super) names: &'a Names<'a>,
    /// Whole sentences about what is wrong: with any of them there is no run.
    pub(super) sentences: Vec<String>,
    /// Whole sentences about what has no effect, or another than it seems.
    pub(super) told: Vec<String>,
}

impl<'a> std::ops::Deref for Check<'a> {
    type Target = Names<'a>;

    fn deref(&self) -> &Names<'a> {
        self.names
    }
}

impl Check<'_> {
    pub(super) fn wrong(&mut self, key: &str, what: impl std::fmt::Display) {
        let sentence = format!("{} {what}", self.name_of(key));
        self.sentences.push(sentence);
    }

    /// Everything about the plan that depends on no machine. `asked` has each setting as it was
    /// asked for, before anything followed from the others.
    pub(super) fn plan(&mut self, asked: &Settings, plan: &Plan, facts: &Facts) {
        let settings = &plan.settings;
        let changed = plan.typed.changed();
        self.conflicts(&changed);
        self.rank(asked, plan);
        self.starts_in_time(settings, facts);
        self.users_can_be_served(plan, facts);
        self.traffic(asked);
        self.arrival(asked, plan);
        self.judging(settings, &plan.workload);
        self.autoscaler(plan);
        self.gpu(plan);
        self.buffers_suffice(settings);
        self.outputs(settings);
        self.drives(settings);
        self.rag(plan);
        self.precondition(&plan.typed);
        self.needs(settings, &changed);
        self.objects(settings);
        self.layout(plan);
        self.idle(settings, &changed, facts);
        self.queue_depth(asked, plan);
        if self.sentences.is_empty()
            && let Err(error) = plan.workload_config().validate()
        {
            self.sentences.push(format!("workload: {error}"));
        }
    }

    /// Settings that exclude each other.
    fn conflicts(&mut self, changed: &[&str]) {
        for (keys, other, why) in CONFLICTS {
            let is_changed = |key: &&&str| changed.contains(*key) && changed.contains(other);
            for key in keys.iter().filter(is_changed) {
                let other = self.name_of(other);
                self.wrong(key, format_args!("and {other} cannot be combined{why}"));
            }
        }
    }

    /// More users than a run has that moves data.
    fn users_can_be_served(&mut self, plan: &Plan, facts: &Facts) {
        if plan.users > USERS_SERVED_MAX && !facts.is_simulated {
            let what = format!(
                "{} is out of bounds: 1 to {USERS_SERVED_MAX} in a run that moves data, up to \
                 {USERS_MAX} in a simulated one",
                plan.users
            );
            self.wrong("num_users", what);
        }
    }

    /// GPUs that do not go together.
    fn gpu(&mut self, plan: &Plan) {
        let (gpus, parallel) = (plan.gpus, plan.tensor_parallel);
        if parallel > gpus {
            let other = self.name_of("num_gpus");
            let what =
                format!("{parallel} is more than the number of GPUs: raise {other} ({gpus})");
            self.wrong("tensor_parallel", what);
        }
        let has_gpus = plan.gpu_memory_bytes_each > 0;
        if plan.injected.is_some() && has_gpus && plan.gpu_transfer != GpuTransfer::Pinned {
            let other = self.name_of("gpu_transfer");
            let what = format!("cannot slow I/Os that go past host memory: give {other} pinned");
            self.wrong("inject_latency", what);
        }
        if plan.gpu_indices.is_some() {
            self.gpu_devices(plan.gpu_devices.trim(), gpus);
        }
    }

    /// The numbers of the GPUs to use, as a list.
    fn gpu_devices(&mut self, list: &str, gpus: u32) {
        let mut indices = Vec::new();
        for word in list.split(',').map(str::trim) {
            match word.parse::<u32>() {
                Ok(index) if !indices.contains(&index) => indices.push(index),
                Ok(_) => self.wrong("gpu_devices", format_args!("{list} names GPU {word} twice")),
                Err(_) => self.wrong(
                    "gpu_devices",
                    format_args!(
                        "{list}: {word:?} is not the number of a GPU: give numbers as `nvidia-smi \
                         -L` shows them, such as 0,1, or auto"
                    ),
                ),
            }
        }
        if indices.len() != gpus as usize {
            let other = self.name_of("num_gpus");
            let what = format!("{list} does not name as many GPUs as {other} ({gpus})");
            self.wrong("gpu_devices", what);
        }
    }

    /// Two results in one file, of which the second would overwrite the first, and endings of which
    /// nothing is known.
    fn outputs(&mut self, settings: &Settings) {
        let outputs = settings.written();
        for (place, &(key, path)) in outputs.iter().enumerate() {
            if self.names.file.is_some_and(|file| path.as_os_str() == file.name.as_str()) {
                let same = path.display();
                self.wrong(key, format_args!("{same} would overwrite the configuration"));
            }
            for (other, _) in outputs[place + 1..].iter().filter(|(_, two)| *two == path) {
                let flag = self.name_of(other);
                let same = path.display();
                self.wrong(key, format_args!("and {flag} are the same file, {same}"));
            }
        }
        let xlsx = |path: &&PathBuf| {
            path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xlsx"))
        };
        if let (Some(path), false) =
            (settings.xlsx_output.as_ref().filter(xlsx), Part::Workbooks.is_built())
        {
            let path = path.display();
            self.wrong("xlsx_output", format_args!("{path}: {}", Part::Workbooks.refusal()));
        }
        let gz = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "gz");
        if let Some(path) = settings.io_trace_log.as_ref().filter(gz) {
            let path = path.display();
            self.wrong("io_trace_log", format_args!("{path}: give it the ending .csv or .csv.zst"));
        }
    }

    /// The buffers hold one I/O of each shard at least.
    fn buffers_suffice(&mut self, settings: &Settings) {
        let (shards, io_size) = (settings.shards, u64::from(settings.io_size_bytes));
        let least = io_size * u64::from(shards);
        if settings.io_buffer_bytes < least {
            let what = format!(
                "{} is too little: {shards} shards need one I/O of {} each, {} MiB",
                settings.io_buffer_bytes / MIB,
                Size(io_size),
                least.div_ceil(MIB)
            );
            self.wrong("io_buffer_mb", what);
        }
    }

    /// A depth that is searched for, and the time that takes.
    fn queue_depth(&mut self, asked: &Settings, plan: &Plan) {
        if plan.depth_search.is_none() {
            return;
        }
        if plan.enable_autoscaling {
            let other = self.name_of("enable_autoscaling");
            let what = format!(
                "auto and {other} cannot be combined: the depth would be tuned for the initial \
                 users and limit those added later; give a number"
            );
            self.wrong("queue_depth", what);
        }
        if asked.warmup_s < SEARCH_WARMUP_S {
            let (name, other) = (self.name_of("queue_depth"), self.name_of("warmup"));
            self.told.push(format!(
                "{name} auto needs {SEARCH_WARMUP_S} s before the measurement to find the depth: \
                 the warm-up lasts that long, and not {} s as {other} says",
                asked.warmup_s
            ));
        }
    }

    /// The targets, the autoscaler's steps and the limits of one's own.
    fn judging(&mut self, settings: &Settings, workload: &WorkloadSection) {
        if let Some(what) = workload.judging_is_wrong() {
            self.sentences.push(format!("workload: {what}"));
        }
        for (key, what) in workload.limits.passed(settings) {
            self.wrong(key, what);
        }
    }

    /// Where a rank keeps its data, and how it meets the others.
    fn rank(&mut self, asked: &Settings, plan: &Plan) {
        let Some(rank) = &plan.rank else { return };
        if let Some(what) = rank.contradiction() {
            return self.sentences.push(what);
        }
        if let Some(what) = asked.cache_dirs.iter().find_map(|path| rank.can_t_share(path)) {
            self.wrong("cache_dir", what);
        }
        if plan.ranks == Ranks::Mpi && !Part::Mpi.is_built() {
            self.wrong("ranks", format_args!("mpi: {}", Part::Mpi.refusal()));
        }
        if rank.meeting().is_none() && plan.start_at_unix_s.is_none() {
            let why = match rank.several() {
                None => "the launcher does not say how many there are",
                Some(_) => "their results do not go to a directory where they could meet",
            };
            self.told.push(format!(
                "the ranks do not wait for each other, since {why}: give all of them --start-at to \
                 have them measure at the same time"
            ));
        }
    }

    /// A start in the past can't be met, and one that is far away is a slip.
    fn starts_in_time(&mut self, settings: &Settings, facts: &Facts) {
        let Some(start) = settings.start_at_unix_s.filter(|_| !facts.is_simulated) else { return };
        let now = facts.unix_s;
        let what = match start.checked_sub(now) {
            None | Some(0) => format!("{} s ago", now - start),
            Some(ahead) if ahead > START_AHEAD_MAX_S => format!("{ahead} s ahead"),
            Some(_) => return,
        };
        let what = format!(
            "{start} is {what}: give a time within the next {START_AHEAD_MAX_S} s, such as \
             that of `date -d '+2 minutes' +%s`"
        );
        self.wrong("start_at", what);
    }

    /// Reports settings that are asked for and have no effect as the rest stands.
    fn idle(&mut self, settings: &Settings, changed: &[&str], facts: &Facts) {
        let names = self.names;
        let is_asked = |key: &&&str| names.is_asked(key, changed.contains(*key));
        for key in Options::KEYS.iter().filter(is_asked) {
            let of_key = |row: &&Idle| row.0.contains(key) && row.1(settings, facts);
            if let Some((_, _, why)) = IDLE.iter().find(of_key) {
                self.told.push(format!("{} has no effect {why}", self.name_of(key)));
            }
        }
    }

    /// Refuses settings that need storage, or a drive, where there is none.
    fn needs(&mut self, settings: &Settings, changed: &[&str]) {
        let url = settings.object_url();
        for &key in changed {
            let needs_storage = match key {
                // A depth that is given has no effect without storage, and does no harm.
                "queue_depth" => settings.depth == Depth::Auto,
                _ => OF_STORAGE.contains(&key),
            };
            let needs_drive = match key {
                // Limits of an object store may come from a file.
                "roofline" => settings.roofline == Some(RooflineFrom::Fresh),
                // An engine's files have latencies of their own.
                "inject_latency" => true,
                _ => OF_DRIVES.contains(&key),
            };
            if settings.is_without_storage && needs_storage {
                let other = self.name_of("disable_storage");
                let what = format!("has no effect with {other}: leave one of them out");
                self.wrong(key, what);
            } else if let Some(url) = url.as_ref().filter(|_| needs_drive) {
                let what = format!("works with a drive, not with an object store ({url})");
                self.wrong(key, what);
            } else if settings.storage_layout.is_some() && OF_DRIVES.contains(&key) {
                let (other, layout) = (self.name_of("layout"), settings.storage_layout.name());
                let what = format!(
                    "works with ringfall's own data file, and {other} {layout} keeps the engine's \
                     files instead: leave one of them out"
                );
                self.wrong(key, what);
            }
        }
    }

    /// Refuses settings that don't go with an object store, or mean nothing without one.
    pub(super) fn objects(&mut self, settings: &Settings) {
        let Some(url) = settings.object_url() else {
            // A configuration that was printed names every setting, so one of a file may be idle.
            let typed = |key| self.origins.get(key) == Some(&Origin::CommandLine);
            if let Some(setting) = Shared::Objects.settings().find(|one| typed(one.key)) {
                let other = self.name_of("cache_dir");
                self.wrong(
                    setting.key,
                    format_args!(
                        "has no effect: {other} names no object store (s3://, az://, gs://)"
                    ),
                );
            }
            return;
        };
        if !Part::Objects.is_built() {
            self.wrong("cache_dir", format_args!("{url}: {}", Part::Objects.refusal()));
        }
        if settings.cache_dirs.len() > 1 {
            self.wrong("cache_dir", "names an object store beside others: name it alone");
        }
        if settings.storage_capacity_bytes == 0 && !settings.is_without_storage {
            let what = "is needed: an object store has no size of its own";
            self.wrong("storage_capacity_gb", what);
        }
        if let Err(what) = settings.object_options().check() {
            self.sentences.push(what);
        }
    }

    /// Refuses what doesn't go with an engine's layout.
    fn layout(&mut self, plan: &Plan) {
        if plan.layout_plan.is_none() {
            return;
        }
        let other = self.name_of("cache_dir");
        if let Some(url) = plan.object_url() {
            let what =
                format!("keeps files, and {other} {url} is an object store: name a directory");
            self.wrong("layout", what);
        } else if plan.cache_dirs.len() > 1 {
            let what = format!(
                "works with one directory, and {other} names {}: name one of them",
                plan.cache_dirs.len()
            );
            self.wrong("layout", what);
        }
        let is_selective = plan
            .layout_plan
            .as_ref()
            .is_some_and(|one| one.options().is_on(LayoutOption::Selective));
        if is_selective && plan.cpu_memory_bytes.max(plan.gpu_memory_bytes) > 0 {
            let [cpu, gpu] = ["cpu_mem_gb", "gpu_mem_gb"].map(|key| self.name_of(key));
            let what = format!(
                "selective decides what is stored at all, and memory tiers would keep what is not \
                 written to files: give {cpu} 0 and {gpu} 0, or leave it out"
            );
            self.wrong("layout_option", what);
        }
    }

    /// Refuses measurements and traces that work with one drive only.
    fn drives(&mut self, settings: &Settings) {
        let count = settings.cache_dirs.len();
        if count < 2 {
            return;
        }
        let what = format!("works with one drive, and {count} are named");
        if settings.roofline == Some(RooflineFrom::Fresh) {
            self.wrong("roofline", format_args!("fresh {what}"));
        }
        if settings.latency_tracing {
            self.wrong("enable_latency_tracing", what);
        }
    }

    fn precondition(&mut self, typed: &Options) {
        let Gib(size_gib) = typed.precondition_size_gb.unwrap_or_default();
        // Not by the bytes: a size that is out of bounds, which was told, counts as none.
        if size_gib > 0.0 && size_gib < MIB as f64 / GIB as f64 {
            self.wrong("precondition_size_gb", format_args!("{size_gib:?}: give at least 1 MiB"));
        }
    }
}
