//! Layers of settings to a plan: merge, work out what is `auto`, check every value.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfall_engine::units::{GIB, MIB};
use ringfall_workloads::model::{MODELS, ModelSpec};

use super::RooflineFrom;
use super::depth::{Depth, SEARCH_WARMUP_S};
use super::nearest::nearest;
use super::needs::Lack;
use super::options::SETTINGS;
use super::page::defaults_page;
use super::values::{Auto, Size};
use super::{
    Arrival, ConfigFile, Cores, Facts, GenerationMode, InputError, Options, Origin, PhaseMode,
    Plan, PreconditionAsked, Rank, Ranks, Settings, Word, WorkloadSection,
};

/// Farthest that a start may lie ahead, s: a day.
const START_AHEAD_MAX_S: u64 = 86_400;

/// The demo: what a laptop does in half a minute without being filled or worn (a few GiB).
fn demo() -> Options {
    Options {
        model: Some("tiny-1b".into()),
        num_users: Some(8),
        duration: Some(30),
        cpu_mem_gb: Some(Auto::Given(0.5)),
        storage_capacity_gb: Some(4.0),
        arrival: Some(Word(Arrival::Closed)),
        generation_mode: Some(Word(GenerationMode::Fast)),
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
    let defaults = ConfigFile::parse("the built-in defaults".into(), defaults_page())?.options;
    let from_file = file.map(|file| file.options.clone()).unwrap_or_default();
    let mut asked = typed.given().into_iter().chain(from_file.given());
    let is_demo = asked.all(|key| SETTINGS.iter().any(|one| one.key == key && one.keeps_demo));
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
    settings.xlsx_output = settings.xlsx_output.map(sheet_path);
    // A logical run is one on no machine in particular.
    let logical = settings.io_trace_log.as_ref().is_some_and(|path| path.as_os_str() != "none");
    let mut facts = if logical { facts.of_no_machine() } else { facts.clone() };
    facts.rank = facts.rank.filter(|_| settings.ranks != Some(Ranks::Off));
    let told = file.map(|file| file.told.clone()).unwrap_or_default();
    let mut check = Check { origins, file, sentences: Vec::new(), told };
    let plan = check.plan(settings, &facts, is_demo);
    match plan {
        Some(plan) if check.sentences.is_empty() => {
            Ok(Plan { origins: check.origins, told: check.told, ..plan })
        }
        _ => Err(InputError { sentences: check.sentences }),
    }
}

/// Where the table goes: CSV at that name with `.csv` added, unless it says which of the two it is,
/// as the reference has it. Devices (`/dev/stdout`) have no endings.
fn sheet_path(path: PathBuf) -> PathBuf {
    let says = path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| {
        ["xlsx", "csv"].iter().any(|known| ending.eq_ignore_ascii_case(known))
    });
    if says || path.as_os_str() == "none" || path.starts_with("/dev") {
        return path;
    }
    let mut name = path.into_os_string();
    name.push(".csv");
    name.into()
}

/// Collects what is wrong.
pub(super) struct Check<'a> {
    pub(super) origins: BTreeMap<&'static str, Origin>,
    pub(super) file: Option<&'a ConfigFile>,
    sentences: Vec<String>,
    told: Vec<String>,
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

    /// A whole sentence about what has no effect, or another than it seems.
    pub(super) fn tell(&mut self, sentence: String) {
        self.told.push(sentence);
    }

    /// The model that is named; its whole name replaces what was typed. None after a complaint.
    fn model(&mut self, settings: &mut Options) -> Option<ModelSpec> {
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
        let only = begins.next().filter(|_| begins.next().is_none()).copied();
        let name = Some(wanted.as_str()).filter(|name| known.contains_key(name)).or(only);
        let Some((name, spec)) = name.and_then(|name| Some((name, *known.get(name)?))) else {
            self.unknown_model(&wanted, &own);
            return None;
        };
        settings.model = Some(name.to_owned());
        Some(spec.clone())
    }

    fn unknown_model(&mut self, wanted: &str, own: &BTreeMap<String, ModelSpec>) {
        let mut names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
        names.extend(own.keys().map(String::as_str));
        let hint = nearest(wanted, names.iter().copied())
            .map_or(String::new(), |near| format!("did you mean {near}? "));
        let list = names.join(", ");
        self.wrong("model", format_args!("{wanted:?} is not a known model; {hint}known: {list}"));
    }

    fn phases(&mut self, settings: &Settings) -> PhaseMode {
        match (settings.prefill_only, settings.decode_only) {
            (true, true) => {
                let other = self.name_of("decode_only");
                self.wrong("prefill_only", format_args!("and {other} cannot be combined"));
                PhaseMode::Both
            }
            (true, false) => PhaseMode::PrefillOnly,
            (false, true) => PhaseMode::DecodeOnly,
            (false, false) => PhaseMode::Both,
        }
    }

    /// Complains about ways of polling that do not go together.
    fn polling(&mut self, settings: &Settings) {
        let others = [("sqpoll", settings.sqpoll), ("nvme_passthrough", settings.nvme_passthrough)];
        for (key, _) in others.into_iter().filter(|(_, is_given)| *is_given && settings.iopoll) {
            let other = self.name_of(key);
            self.wrong("iopoll", format_args!("and {other} cannot be combined"));
        }
    }

    /// Complains about GPUs that do not go together; the numbers of those to use.
    fn gpu(&mut self, settings: &Settings) -> Option<Vec<u32>> {
        let (gpus, parallel) = (settings.gpus, settings.tensor_parallel);
        if parallel > gpus {
            let other = self.name_of("num_gpus");
            self.wrong(
                "tensor_parallel",
                format_args!("{parallel} is more than the number of GPUs: raise {other} ({gpus})"),
            );
        }
        let is_reducible = settings.dedupe_ratio > 1.0 || settings.compress_ratio > 1.0;
        if is_reducible && settings.gpu_memory_bytes_each > 0 {
            let key = if settings.dedupe_ratio > 1.0 { "dedupe_ratio" } else { "compress_ratio" };
            let other = self.name_of("gpu_mem_gb");
            self.wrong(
                key,
                format_args!(
                    "cannot be combined with {other}: GPUs make content that cannot be reduced"
                ),
            );
        }
        let list = settings.gpu_devices.trim();
        if list == "auto" {
            return None;
        }
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
            self.wrong(
                "gpu_devices",
                format_args!("{list} does not name as many GPUs as {other} ({gpus})"),
            );
        }
        Some(indices)
    }

    /// Two results in one file: the second would overwrite the first.
    fn outputs_differ(&mut self, settings: &Settings) {
        let outputs = settings.written();
        for (place, &(key, path)) in outputs.iter().enumerate() {
            if self.file.is_some_and(|file| path.as_os_str() == file.name.as_str()) {
                let same = path.display();
                self.wrong(key, format_args!("{same} would overwrite the configuration"));
            }
            for (other, _) in outputs[place + 1..].iter().filter(|(_, two)| *two == path) {
                let flag = self.name_of(other);
                let same = path.display();
                self.wrong(key, format_args!("and {flag} are the same file, {same}"));
            }
        }
    }

    /// The buffers hold one I/O of each shard at least.
    fn buffers_suffice(&mut self, settings: &Settings) {
        let (shards, io_size) = (settings.shards, u64::from(settings.io_size_bytes));
        let least = io_size * u64::from(shards);
        if settings.io_buffer_bytes < least {
            self.wrong(
                "io_buffer_mb",
                format_args!(
                    "{} is too little: {shards} shards need one I/O of {} each, {} MiB",
                    settings.io_buffer_bytes / MIB,
                    Size(io_size),
                    least.div_ceil(MIB)
                ),
            );
        }
    }

    /// `None` only after a complaint.
    fn plan(&mut self, mut typed: Options, facts: &Facts, demo: bool) -> Option<Plan> {
        let model_spec = self.model(&mut typed);
        let mut rank = facts.rank.as_ref().map(Rank::of);
        let facts = &rank.as_ref().map_or_else(|| facts.clone(), |rank| rank.share_of(facts));
        let mut effective = typed.clone();
        for key in effective.work_out(facts) {
            self.origins.insert(key, Origin::Computed);
        }
        let mut settings = Settings::of(&effective, &mut |key, what| self.wrong(key, what))?;
        let seed_drawn = self.origins.get("seed") == Some(&Origin::Computed);
        if let Some(rank) = &mut rank {
            self.rank(rank, &mut settings, seed_drawn);
        }
        self.starts_in_time(&settings, facts);
        let traffic = self.traffic(&settings);
        self.arrival(&mut settings, &traffic);
        let workload = typed.workload.clone()?;
        self.judging(&settings, &workload);
        let autoscaler = self.autoscaler(&mut settings, &traffic);
        let autoscaler = autoscaler.map(|autoscaler| autoscaler.within(&workload.autoscaler));
        self.polling(&settings);
        let gpu_indices = self.gpu(&settings);
        self.buffers_suffice(&settings);
        self.outputs_and_trials(&settings);
        self.drives(&settings);
        if settings.latency_tracing && settings.fio_output.is_none() {
            settings.fio_output = Some(settings.output.with_extension("fio"));
        }
        let phases = self.phases(&settings);
        let rag_documents = self.rag(&settings, phases);
        let precondition = self.precondition(&settings, &typed);
        self.needs(&settings, &typed);
        self.objects(&settings);
        self.idle(&settings, &typed, facts);
        let (queue_depth, depth_search) = self.queue_depth(&mut settings, autoscaler.is_some());
        let mut plan = Plan {
            model_spec: model_spec?,
            queue_depth,
            depth_search,
            users: autoscaler.map_or(settings.num_users, |autoscaler| autoscaler.initial_users),
            gpu_memory_bytes: settings.gpu_memory_bytes_each * u64::from(settings.gpus),
            gpu_indices,
            phases,
            rag_documents,
            traffic,
            autoscaler,
            seed_drawn,
            precondition,
            rank,
            demo,
            workload,
            cpu_memory_wanted: None,
            told: Vec::new(),
            origins: BTreeMap::new(),
            settings,
            typed,
            effective,
        };
        self.whole_plan(&mut plan, facts);
        Some(plan)
    }

    /// The depth that rings are made for; where it is searched for, what is taken if that fails.
    fn queue_depth(&mut self, settings: &mut Settings, scales: bool) -> (u32, Option<u32>) {
        let (shards, io_size) = (i64::from(settings.shards), u64::from(settings.io_size_bytes));
        // Within the bounds of the setting, or below those of a search.
        let narrow = |depth: i64| u32::try_from(depth).unwrap_or(1).max(1);
        let depth = narrow(settings.depth.built_for(shards, io_size));
        let search = (settings.depth == Depth::Auto).then(|| narrow(Depth::standard(shards)));
        if search.is_some() && scales {
            let other = self.name_of("enable_autoscaling");
            self.wrong(
                "queue_depth",
                format_args!(
                    "auto and {other} cannot be combined: the depth would be tuned for the initial \
                     users and limit those added later; give a number"
                ),
            );
        }
        let least = SEARCH_WARMUP_S;
        if search.is_some() && settings.warmup_s < least {
            let (name, other) = (self.name_of("queue_depth"), self.name_of("warmup"));
            let asked = settings.warmup_s;
            self.tell(format!(
                "{name} auto needs {least} s before the measurement to find the depth: the warm-up \
                 lasts that long, and not {asked} s as {other} says"
            ));
            settings.warmup_s = least;
        }
        (depth, search)
    }

    /// The targets, the autoscaler's steps and the limits of one's own.
    fn judging(&mut self, settings: &Settings, workload: &WorkloadSection) {
        if let Some(what) = workload.judging_is_wrong() {
            self.complain(format!("workload: {what}"));
        }
        for (key, what) in workload.limits.passed(settings) {
            self.wrong(key, what);
        }
    }

    /// Gives a rank what is its own.
    fn rank(&mut self, rank: &mut Rank, settings: &mut Settings, is_seed_drawn: bool) {
        if let Some(what) = rank.is_misplaced(settings) {
            self.wrong("cache_dir", what);
        }
        if settings.ranks == Ranks::Mpi && !cfg!(feature = "mpi") {
            self.wrong("ranks", super::rank::NO_MPI);
        }
        rank.place(settings, is_seed_drawn);
        if rank.cores == Cores::Crowded {
            settings.pin = false;
        }
        if rank.meeting().is_none() && settings.start_at_unix_s.is_none() {
            let why = match rank.several() {
                None => "the launcher does not say how many there are",
                Some(_) => "their results do not go to a directory where they could meet",
            };
            self.tell(format!(
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
        self.wrong(
            "start_at",
            format_args!(
                "{start} is {what}: give a time within the next {START_AHEAD_MAX_S} s, such as \
                 that of `date -d '+2 minutes' +%s`"
            ),
        );
    }

    /// What only the whole plan shows, if nothing else is wrong with it.
    fn whole_plan(&mut self, plan: &mut Plan, facts: &Facts) {
        if self.sentences.is_empty()
            && let Err(error) = plan.workload_config().validate()
        {
            self.sentences.push(format!("workload: {error}"));
        }
        if self.sentences.is_empty() {
            self.fits(plan, facts);
        }
    }

    /// What was given and has no effect as the rest stands. A configuration that was printed names
    /// every setting: of a file's, those that are not the default are told.
    fn idle(&mut self, settings: &Settings, typed: &Options, facts: &Facts) {
        for setting in SETTINGS {
            let is_asked = match self.origins.get(setting.key) {
                Some(Origin::CommandLine) => true,
                Some(Origin::File) => !setting.is_default(typed),
                _ => false,
            };
            if is_asked && let Some(why) = (setting.idle)(settings, facts) {
                let name = self.name_of(setting.key);
                self.tell(format!("{name} has no effect {why}"));
            }
        }
    }

    /// What is asked of storage that is left out, or is no drive.
    fn needs(&mut self, settings: &Settings, typed: &Options) {
        for setting in SETTINGS {
            let Some(lack) = (setting.needs)(settings) else { continue };
            if setting.is_default(typed) {
                continue;
            }
            match lack {
                Lack::Storage => {
                    let other = self.name_of("disable_storage");
                    let what = format!("has no effect with {other}: leave one of them out");
                    self.wrong(setting.key, what);
                }
                Lack::Drive(url) => self.wrong(
                    setting.key,
                    format_args!("works with a drive, not with an object store ({url})"),
                ),
            }
        }
    }

    /// Whether each output can be written, is one of its own, and goes with the trials.
    fn outputs_and_trials(&mut self, settings: &Settings) {
        self.outputs_differ(settings);
        let gz = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "gz");
        if let Some(path) = settings.io_trace_log.as_ref().filter(gz) {
            let path = path.display();
            self.wrong("io_trace_log", format_args!("{path}: give it the ending .csv or .csv.zst"));
        }
        let trials = settings.trials;
        let pages =
            [("xlsx_output", &settings.xlsx_output), ("html_output", &settings.html_output)];
        for (key, _) in pages.into_iter().filter(|(_, path)| trials > 1 && path.is_some()) {
            let flag = self.name_of("trials");
            self.wrong(
                key,
                format_args!(
                    "cannot be combined with {flag} {trials}: each trial keeps its own JSON, from \
                     which `ringfall report` makes a page or a workbook"
                ),
            );
        }
    }

    /// What is measured or traced of one drive only.
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

    fn precondition(&mut self, settings: &Settings, typed: &Options) -> Option<PreconditionAsked> {
        let bytes = settings.precondition_bytes;
        let size_gib = typed.precondition_size_gb.unwrap_or_default();
        // Not by the bytes: a size that is out of bounds, which was told, counts as none.
        if size_gib > 0.0 && size_gib < MIB as f64 / GIB as f64 {
            self.wrong("precondition_size_gb", format_args!("{size_gib:?}: give at least 1 MiB"));
        }
        let (threads, until) = (settings.precondition_threads, settings.precondition_until);
        settings.is_preconditioned.then_some(PreconditionAsked { bytes, threads, until })
    }
}
