//! Layers of settings to a plan: merge, work out what is `auto`, check every value.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfall_engine::units::{GIB, KIB, MIB};
use ringfall_workloads::model::{MODELS, ModelSpec};

use super::Options;
use super::nearest::nearest;
use super::values::{Auto, Size};
use super::{
    Arrival, ConfigFile, DEFAULTS, Facts, GenerationMode, InputError, Origin, Phases, Plan,
    PreconditionAsked, PreconditionUntil, RooflineFrom, Traffic, compact_utc,
};

/// `--cpu-mem-gb auto` is at most this.
const CPU_AUTO_BYTES_MAX: u64 = 32 * GIB;
/// ... and in steps of this, so that it prints short.
const CPU_AUTO_STEP_BYTES: u64 = 64 * MIB;
/// `--max-inflight-requests auto` is at most this.
const INFLIGHT_AUTO_MAX: i64 = 500;
/// `--queue-depth auto`: a shard, and all shards together.
const QUEUE_DEPTH_AUTO: i64 = 64;
const QUEUE_DEPTH_ALL_MAX: i64 = 1_024;
/// `--io-buffer-mb auto` is at most this, unless one I/O a shard needs more.
const IO_BUFFER_AUTO_BYTES_MAX: u64 = GIB;
const IO_SIZE_BYTES_MIN: u64 = 4 * KIB;
const IO_SIZE_BYTES_MAX: u64 = 64 * MIB;
/// Longest duration and ramp-up: a day.
const SECONDS_MAX: i64 = 86_400;
const USERS_MAX: i64 = 100_000;
const SHARDS_MAX: i64 = 1_024;

/// Trials that a person may ask for: more say nothing that these don't.
const TRIALS_MAX: i64 = 1_000;
/// Settings that say nothing about what is simulated or how large it is: with these alone, a run
/// is still the demo.
const NOT_WORKLOAD: &[&str] = &[
    "cache_dir",
    "destroy_device_contents",
    "durability",
    "enable_latency_tracing",
    "fail_on_health",
    "fio_output",
    "html_output",
    "io_buffer_mb",
    "io_size",
    "json",
    "log_level",
    "output",
    "performance_profile",
    "pin",
    "preallocate",
    "precondition",
    "precondition_size_gb",
    "precondition_threads",
    "precondition_until",
    "queue_depth",
    "quiet",
    "roofline",
    "seed",
    "shards",
    "trials",
    "verify",
    "xlsx_output",
];

/// The demo: what a laptop does in half a minute without being filled or worn (a few GiB).
fn demo() -> Options {
    Options {
        model: Some("tiny-1b".into()),
        num_users: Some(8),
        duration: Some(30),
        cpu_mem_gb: Some(Auto::Given(0.5)),
        storage_capacity_gb: Some(4.0),
        arrival: Some(Arrival::Closed),
        generation_mode: Some(GenerationMode::Fast),
        ..Options::default()
    }
}

/// Works out the plan of a run.
///
/// # Errors
/// Every value that is out of bounds or contradicts another, each with what to do.
pub fn resolve(
    typed: &Options,
    file: Option<&ConfigFile>,
    facts: &Facts,
) -> Result<Plan, InputError> {
    let defaults = ConfigFile::parse("the built-in defaults".into(), DEFAULTS.into())?.options;
    let from_file = file.map(|file| file.options.clone()).unwrap_or_default();
    let asked = typed.given().into_iter().chain(from_file.given());
    let is_demo = asked.into_iter().all(|key| NOT_WORKLOAD.contains(&key));
    let layers = [
        (Origin::CommandLine, typed.clone()),
        (Origin::File, from_file),
        (Origin::Demo, if is_demo { demo() } else { Options::default() }),
        (Origin::Default, defaults),
    ];
    let mut origins = BTreeMap::new();
    let mut settings = Options::default();
    for (origin, layer) in layers {
        for key in layer.given() {
            origins.entry(key).or_insert(origin);
        }
        settings = settings.over(layer);
    }
    // A logical run is one on no machine in particular.
    let logical = settings.io_trace_log.as_ref().is_some_and(|path| path.as_os_str() != "none");
    let facts = &if logical { facts.of_no_machine() } else { facts.clone() };
    let mut check = Check { origins, file, sentences: Vec::new() };
    let plan = check.plan(settings, facts, is_demo);
    match plan {
        Some(plan) if check.sentences.is_empty() => Ok(Plan { origins: check.origins, ..plan }),
        _ => Err(InputError { sentences: check.sentences }),
    }
}

/// Collects what is wrong.
pub(super) struct Check<'a> {
    pub(super) origins: BTreeMap<&'static str, Origin>,
    pub(super) file: Option<&'a ConfigFile>,
    sentences: Vec<String>,
}

impl Check<'_> {
    /// How the user knows a setting: as a flag, or by file and line.
    pub(super) fn name_of(&self, key: &str) -> String {
        match (self.origins.get(key), self.file) {
            (Some(Origin::File), Some(file)) => match file.line_of(key) {
                Some(line) => format!("{}, line {line}: {key}", file.name),
                None => format!("{}: {key}", file.name),
            },
            _ => format!("--{}", key.replace('_', "-")),
        }
    }

    pub(super) fn wrong(&mut self, key: &str, what: impl std::fmt::Display) {
        let sentence = format!("{} {what}", self.name_of(key));
        self.complain(sentence);
    }

    /// A whole sentence about what is wrong.
    pub(super) fn complain(&mut self, sentence: String) {
        self.sentences.push(sentence);
    }

    /// A whole number within bounds, both included.
    pub(super) fn whole(
        &mut self,
        key: &'static str,
        value: Option<i64>,
        low: i64,
        high: i64,
    ) -> i64 {
        let value = value.unwrap_or(low);
        if !(low..=high).contains(&value) {
            self.wrong(key, format_args!("{value} is out of bounds: {low} to {high}"));
        }
        value.clamp(low, high)
    }

    /// GiB as bytes, within bounds.
    fn gib(&mut self, key: &'static str, value: f64, high_gib: u32) -> u64 {
        let high = f64::from(high_gib);
        if !(0.0..=high).contains(&value) {
            self.wrong(key, format_args!("{value} is out of bounds: 0 to {high_gib} (GiB)"));
            return 0;
        }
        // Within 2^53, where every whole number of bytes is exact; a fraction of a byte is cut.
        (value * GIB as f64) as u64
    }

    /// A whole number, or `auto`, which is noted as worked out.
    pub(super) fn auto<T: Copy>(&mut self, key: &'static str, value: Option<Auto<T>>, or: T) -> T {
        match value.and_then(Auto::given) {
            Some(value) => value,
            None => {
                self.origins.insert(key, Origin::Computed);
                or
            }
        }
    }

    /// A path; `auto` is none.
    pub(super) fn path(&mut self, key: &'static str, value: Option<&PathBuf>) -> Option<PathBuf> {
        match value {
            Some(path) if path.as_os_str() != "auto" => {
                if path.as_os_str().is_empty() {
                    self.wrong(key, "is empty: give a path, or leave it out");
                }
                Some(path.clone())
            }
            _ => {
                self.origins.insert(key, Origin::Computed);
                None
            }
        }
    }

    fn model(&mut self, settings: &Options) -> Option<(String, ModelSpec)> {
        let own = settings.models.clone().unwrap_or_default();
        for (name, spec) in &own {
            if let Err(error) = spec.bytes_per_token() {
                self.wrong("models", format_args!("{name}: {error}"));
            }
        }
        let wanted = settings.model.clone().unwrap_or_default();
        let known: BTreeMap<&str, &ModelSpec> = MODELS
            .iter()
            .map(|(name, spec)| (*name, spec))
            .chain(own.iter().map(|(name, spec)| (name.as_str(), spec)))
            .collect();
        // `llama3.1-70b` is `llama3.1-70b-instruct` when no other begins so.
        let mut begins = known.keys().filter(|name| {
            name.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('-'))
        });
        let only = begins.next().filter(|_| begins.next().is_none());
        let name = if known.contains_key(wanted.as_str()) { wanted.as_str() } else { only? };
        Some((name.to_owned(), (*known.get(name)?).clone()))
    }

    fn unknown_model(&mut self, settings: &Options) {
        let wanted = settings.model.clone().unwrap_or_default();
        let mut names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
        names.extend(settings.models.iter().flatten().map(|(name, _)| name.as_str()));
        let hint = nearest(&wanted, names.iter().copied())
            .map_or(String::new(), |near| format!("did you mean {near}? "));
        let list = names.join(", ");
        self.wrong("model", format_args!("{wanted:?} is not a known model; {hint}known: {list}"));
    }

    pub(super) fn phases(&mut self, settings: &Options) -> Phases {
        match (settings.prefill_only, settings.decode_only) {
            (Some(true), Some(true)) => {
                let other = self.name_of("decode_only");
                self.wrong("prefill_only", format_args!("and {other} exclude each other"));
                Phases::Both
            }
            (Some(true), _) => Phases::PrefillOnly,
            (_, Some(true)) => Phases::DecodeOnly,
            _ => Phases::Both,
        }
    }

    fn gpu(&mut self, settings: &Options) -> (u64, u32, u32) {
        let gpus = self.whole("num_gpus", settings.num_gpus, 1, 1_024);
        let parallel = self.whole("tensor_parallel", settings.tensor_parallel, 1, 1_024);
        if parallel > gpus {
            let other = self.name_of("num_gpus");
            self.wrong(
                "tensor_parallel",
                format_args!("{parallel} is more than the GPUs there are: raise {other} ({gpus})"),
            );
        }
        let bytes = self.gib("gpu_mem_gb", settings.gpu_mem_gb.unwrap_or(0.0), 65_536);
        if bytes > 0 {
            let value = settings.gpu_mem_gb.unwrap_or(0.0);
            self.wrong(
                "gpu_mem_gb",
                format_args!(
                    "{value}: this version has no GPU tier; give 0, and the memory to \
                     --cpu-mem-gb if a faster tier is wanted"
                ),
            );
        }
        (bytes * gpus.unsigned_abs(), gpus as u32, parallel as u32)
    }

    /// Two results in one file: the second would overwrite the first.
    fn outputs_differ(&mut self, settings: &Options) {
        let keys = ["output", "xlsx_output", "html_output", "fio_output", "io_trace_log"];
        let paths = [
            &settings.output,
            &settings.xlsx_output,
            &settings.html_output,
            &settings.fio_output,
            &settings.io_trace_log,
        ];
        for (place, key) in keys.iter().enumerate() {
            let Some(path) = self.optional_path(key, paths[place]) else { continue };
            if self.file.is_some_and(|file| path.as_os_str() == file.name.as_str()) {
                let same = path.display();
                self.wrong(key, format_args!("{same} would overwrite the configuration"));
            }
            for other in place + 1..keys.len() {
                if path.as_os_str() != "auto" && paths[other].as_ref() == Some(&path) {
                    let flag = self.name_of(keys[other]);
                    let same = path.display();
                    self.wrong(key, format_args!("and {flag} are the same file, {same}"));
                }
            }
        }
    }

    fn io(&mut self, settings: &Options, shards: i64) -> (u32, u32, u64) {
        let Size(io_size) = settings.io_size.unwrap_or(Size(MIB));
        let whole_blocks = io_size % IO_SIZE_BYTES_MIN == 0;
        if !(IO_SIZE_BYTES_MIN..=IO_SIZE_BYTES_MAX).contains(&io_size) || !whole_blocks {
            let size = Size(io_size);
            self.wrong(
                "io_size",
                format_args!("{size} is out of bounds: 4KiB to 64MiB, a multiple of 4KiB"),
            );
        }
        let io_size = io_size.clamp(IO_SIZE_BYTES_MIN, IO_SIZE_BYTES_MAX);
        let share = QUEUE_DEPTH_AUTO.min(QUEUE_DEPTH_ALL_MAX / shards).max(1);
        let depth = self.auto("queue_depth", settings.queue_depth, share);
        let depth = self.whole("queue_depth", Some(depth), 1, 4_096);
        let least = io_size * shards.unsigned_abs();
        let needed = (least * depth.unsigned_abs()).min(IO_BUFFER_AUTO_BYTES_MAX).max(least);
        let auto_mib = i64::try_from(needed.div_ceil(MIB)).unwrap_or(i64::MAX);
        let mib = self.auto("io_buffer_mb", settings.io_buffer_mb, auto_mib);
        let bytes = self.whole("io_buffer_mb", Some(mib), 1, 1 << 20).unsigned_abs() * MIB;
        if bytes < least {
            self.wrong(
                "io_buffer_mb",
                format_args!(
                    "{mib} is too little: {shards} shards need one I/O of {} each, {} MiB",
                    Size(io_size),
                    least.div_ceil(MIB)
                ),
            );
        }
        // At most 64 MiB and 4,096: both fit.
        (io_size as u32, depth as u32, bytes)
    }

    /// `None` only after a complaint: without a model there is no plan to check the rest of.
    fn plan(&mut self, mut settings: Options, facts: &Facts, demo: bool) -> Option<Plan> {
        let (model, model_spec) = match self.model(&settings) {
            Some(known) => known,
            None => {
                self.unknown_model(&settings);
                let (name, spec) = &MODELS[0];
                ((*name).to_owned(), spec.clone())
            }
        };
        let users = self.whole("num_users", settings.num_users, 1, USERS_MAX);
        let duration_s = self.whole("duration", settings.duration, 1, SECONDS_MAX);
        let warmup_s = self.whole("warmup", settings.warmup, 0, SECONDS_MAX);
        let traffic = self.traffic(&settings);
        let (arrival, request_rate_per_s) = self.arrival(&settings, &traffic);
        let max_requests = self.whole("max_requests", settings.max_requests, 0, i64::MAX);
        let shards = self.auto("shards", settings.shards, i64::from(facts.cores.clamp(1, 1_024)));
        let shards = self.whole("shards", Some(shards), 1, SHARDS_MAX);
        let autoscaler = self.autoscaler(&settings, &traffic, arrival, (users, shards));
        // The autoscaler's users come later, a trace's are in the trace.
        let users_unknown = autoscaler.is_some() || matches!(traffic, Traffic::Trace { .. });
        let inflight = if users_unknown { INFLIGHT_AUTO_MAX } else { users.min(INFLIGHT_AUTO_MAX) };
        let inflight = self.auto("max_inflight_requests", settings.max_inflight_requests, inflight);
        let inflight = self.whole("max_inflight_requests", Some(inflight), 1, USERS_MAX);
        let allocs =
            self.whole("max_concurrent_allocs", settings.max_concurrent_allocs, 0, 1_000_000);
        let (gpu_memory_bytes, gpus, tensor_parallel) = self.gpu(&settings);
        let cpu_memory_bytes = self.cpu_memory(&settings, facts);
        let storage_gib = settings.storage_capacity_gb.unwrap_or(0.0);
        let storage_capacity_bytes = self.gib("storage_capacity_gb", storage_gib, 1 << 22);
        if settings.promotion.is_some_and(|promotion| promotion == super::Promotion::OnHit) {
            self.wrong("promotion", "on-hit is not in this version; leave it out");
        }
        let (io_size_bytes, queue_depth, io_buffer_bytes) = self.io(&settings, shards);
        let seed = self.auto("seed", settings.seed, facts.random_seed);
        let seed_drawn = self.origins.get("seed") == Some(&Origin::Computed);
        let cache_dir = self.path("cache_dir", settings.cache_dir.as_ref());
        let output = self.path("output", settings.output.as_ref()).unwrap_or_else(|| {
            format!("results/ringfall-{}.json", compact_utc(facts.unix_s)).into()
        });
        let trials = self.outputs_and_trials(&settings);
        settings.model = Some(model.clone());
        let plan = Plan {
            model,
            model_spec,
            users: autoscaler.map_or(users as u32, |autoscaler| autoscaler.initial_users),
            duration_s: duration_s.unsigned_abs(),
            warmup_s: warmup_s.unsigned_abs(),
            gpu_memory_bytes,
            cpu_memory_bytes,
            gpus,
            tensor_parallel,
            cache_dir,
            destroy_device_contents: settings.destroy_device_contents?,
            storage_capacity_bytes,
            generation_mode: settings.generation_mode?,
            performance_profile: settings.performance_profile?,
            multi_turn: !settings.disable_multi_turn?,
            prefix_caching: !settings.disable_prefix_caching?,
            phases: self.phases(&settings),
            arrival,
            request_rate_per_s,
            rag_documents: self.rag(&settings),
            validation_trace: self.optional_path("validation_trace", &settings.validation_trace),
            traffic,
            autoscaler,
            max_requests: (max_requests > 0).then_some(max_requests.unsigned_abs()),
            max_concurrent_allocs: (allocs > 0).then_some(allocs as u32),
            max_inflight_requests: inflight as u32,
            seed,
            seed_drawn,
            durability: settings.durability?,
            verify: settings.verify?,
            promotion: settings.promotion?,
            preallocate: settings.preallocate?,
            precondition: self.precondition(&settings),
            roofline: self.optional_path("roofline", &settings.roofline).map(|path| {
                match path.to_str() {
                    Some("fresh") => RooflineFrom::Fresh,
                    _ => RooflineFrom::File(path),
                }
            }),
            shards: shards as u16,
            pin: settings.pin?,
            io_size_bytes,
            queue_depth,
            io_buffer_bytes,
            trials: trials as u32,
            fio_output: self.optional_path("fio_output", &settings.fio_output).or_else(|| {
                let beside = settings.enable_latency_tracing == Some(true);
                beside.then(|| output.with_extension("fio"))
            }),
            latency_tracing: settings.enable_latency_tracing?,
            output,
            xlsx_output: self.optional_path("xlsx_output", &settings.xlsx_output),
            html_output: self.optional_path("html_output", &settings.html_output),
            io_trace_log: self.optional_path("io_trace_log", &settings.io_trace_log),
            trace_epoch: settings.trace_epoch?,
            fail_on_health: settings.fail_on_health?,
            quiet: settings.quiet?,
            json: settings.json?,
            log_level: settings.log_level?,
            demo,
            workload: settings.workload.clone()?,
            origins: BTreeMap::new(),
            settings,
        };
        self.whole_plan(&plan, facts);
        Some(plan)
    }

    /// What only the whole plan shows, if nothing else is wrong with it.
    fn whole_plan(&mut self, plan: &Plan, facts: &Facts) {
        if self.sentences.is_empty()
            && let Err(error) = plan.workload_config().validate()
        {
            self.sentences.push(format!("workload: {error}"));
        }
        if self.sentences.is_empty() {
            self.fits(plan, facts);
        }
    }

    fn cpu_memory(&mut self, settings: &Options, facts: &Facts) -> u64 {
        let half = facts.memory_available_bytes.unwrap_or(0) / 2;
        let auto_bytes = half.min(CPU_AUTO_BYTES_MAX) / CPU_AUTO_STEP_BYTES * CPU_AUTO_STEP_BYTES;
        let auto_gib = auto_bytes as f64 / GIB as f64;
        let cpu_gib = self.auto("cpu_mem_gb", settings.cpu_mem_gb, auto_gib);
        self.gib("cpu_mem_gb", cpu_gib, 131_072)
    }

    /// How many trials, and whether each output can be written and is one of its own.
    fn outputs_and_trials(&mut self, settings: &Options) -> i64 {
        self.outputs_differ(settings);
        let gz = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "gz");
        if let Some(path) = settings.io_trace_log.as_ref().filter(gz) {
            let path = path.display();
            self.wrong("io_trace_log", format_args!("{path}: give it the ending .csv or .csv.zst"));
        }
        let trials = self.whole("trials", settings.trials, 1, TRIALS_MAX);
        for (key, path) in
            [("xlsx_output", &settings.xlsx_output), ("html_output", &settings.html_output)]
        {
            if trials > 1 && self.optional_path(key, path).is_some() {
                let flag = self.name_of("trials");
                self.wrong(
                    key,
                    format_args!(
                        "does not go with {flag} {trials}: each trial keeps its JSON, of which \
                         `ringfall report` makes a page or a workbook"
                    ),
                );
            }
        }
        trials
    }

    fn precondition(&mut self, settings: &Options) -> Option<PreconditionAsked> {
        let size_gib = settings.precondition_size_gb.unwrap_or(0.0);
        let bytes = self.gib("precondition_size_gb", size_gib, 1 << 22);
        let threads =
            self.whole("precondition_threads", settings.precondition_threads, 0, SHARDS_MAX);
        if size_gib > 0.0 && bytes < MIB {
            self.wrong("precondition_size_gb", format_args!("{size_gib:?}: give a MiB at least"));
        }
        let is_asked = settings.precondition?;
        let until = settings.precondition_until?;
        let asked = [
            ("precondition_size_gb", bytes > 0),
            ("precondition_threads", threads > 0),
            ("precondition_until", until != PreconditionUntil::Size),
        ];
        for (key, _) in asked.into_iter().filter(|(_, more)| *more) {
            let given = matches!(self.origins.get(key), Some(Origin::CommandLine | Origin::File));
            if given && !is_asked {
                self.wrong(key, "says nothing without it: give --precondition too");
            }
        }
        is_asked.then_some(PreconditionAsked { bytes, threads: threads as u32, until })
    }
}

impl Plan {
    /// The settings with every `auto` replaced by what it came to.
    #[must_use]
    pub fn effective(&self) -> Options {
        let mib = |bytes: u64| Auto::Given(i64::try_from(bytes / MIB).unwrap_or(i64::MAX));
        Options {
            max_inflight_requests: Some(Auto::Given(i64::from(self.max_inflight_requests))),
            seed: Some(Auto::Given(self.seed)),
            cpu_mem_gb: Some(Auto::Given(self.cpu_memory_bytes as f64 / GIB as f64)),
            shards: Some(Auto::Given(i64::from(self.shards))),
            queue_depth: Some(Auto::Given(i64::from(self.queue_depth))),
            io_buffer_mb: Some(mib(self.io_buffer_bytes)),
            output: Some(self.output.clone()),
            ..self.settings.clone()
        }
    }
}
