//! Layers of settings to a plan: merge, work out what is `auto`, check every value, derive what
//! follows, and check that together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfall_workloads::model::{MODELS, ModelSpec};

use super::bounds::with_cpu_tier_that_fits;
use super::check::Check;
use super::derive::{Given, derive};
use super::layout;
use super::names::Names;
use super::nearest::nearest;
use super::options::SETTINGS;
use super::values::{Auto, Gib, Seconds};
use super::{
    Arrival, ConfigFile, DecodeReads, Facts, GenerationMode, HistoryReads, InputError, Options,
    Origin, Plan, Ranks, Settings, Word,
};

/// The demo: what a laptop does in half a minute without being filled or worn (a few GiB).
fn demo() -> Options {
    Options {
        model: Some("tiny-1b".into()),
        num_users: Some(8),
        duration: Some(Seconds(30)),
        cpu_mem_gb: Some(Auto::Given(Gib(0.5))),
        storage_capacity_gb: Some(Gib(4.0)),
        arrival: Some(Word(Arrival::Closed)),
        generation_mode: Some(Word(GenerationMode::Fast)),
        ..Options::default()
    }
}

/// Defaults of what is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    /// Those of the reference.
    Reference,
    /// Those of a run that asks about a drive: a few users wait for their answers and load their
    /// context once a turn, no CPU tier stands before it, and the space is bounded.
    Own,
}

/// Space of a run with [`Defaults::Own`], GiB: of llama3.1-8b about one turn of each of 100 users.
const OWN_SPACE_GIB: f64 = 64.0;
/// Users of a run with [`Defaults::Own`]: about as many as a drive of 1 GiB/s serves with
/// llama3.1-8b, where 100 measure the queue before any drive.
const OWN_USERS: i64 = 8;

/// The defaults of [`Defaults::Own`] that the given settings leave a meaning.
fn own(given: &Options) -> Options {
    let has_rate = given.request_rate.is_some_and(|rate| rate > 0.0);
    let is_paced = (has_rate && given.dataset_path.is_some())
        || given.use_burst_trace == Some(true)
        || given.mooncake_trace.is_some()
        || given.trace.is_some()
        || given.replay_trace.is_some();
    Options {
        num_users: Some(OWN_USERS),
        decode_reads: Some(Word(DecodeReads::Once)),
        history_reads: Some(Word(HistoryReads::Last)),
        arrival: (!is_paced).then_some(Word(Arrival::Closed)),
        cpu_mem_gb: Some(Auto::Given(Gib(0.0))),
        storage_capacity_gb: (given.disable_storage != Some(true)).then_some(Gib(OWN_SPACE_GIB)),
        ..Options::default()
    }
}

/// Works out the plan of a run with the reference's defaults.
///
/// # Errors
/// As [`resolve_with`].
pub fn resolve(
    typed: &Options,
    file: Option<&ConfigFile>,
    facts: &Facts,
) -> Result<Plan, InputError> {
    resolve_with(Defaults::Reference, typed, file, facts)
}

/// Works out the plan of a run.
///
/// # Errors
/// Every value that is out of bounds or contradicts another, each with what to do.
pub fn resolve_with(
    defaults: Defaults,
    typed: &Options,
    file: Option<&ConfigFile>,
    facts: &Facts,
) -> Result<Plan, InputError> {
    let from_file = file.map(|file| file.options.clone()).unwrap_or_default();
    let mut asked = typed.given().into_iter().chain(from_file.given());
    let says_nothing = asked.all(|key| SETTINGS.iter().any(|one| one.key == key && one.keeps_demo));
    let is_demo = says_nothing && defaults == Defaults::Reference;
    let layers = [
        (Origin::CommandLine, typed.clone()),
        (Origin::File, from_file),
        (Origin::Demo, if is_demo { demo() } else { Options::default() }),
        (Origin::Own, if defaults == Defaults::Own { own(typed) } else { Options::default() }),
        (Origin::Default, Options::defaults()),
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
    facts.rank = facts.rank.filter(|_| settings.ranks != Some(Word(Ranks::Off)));
    if let Some(rank) = &facts.rank {
        facts = rank.share_of(&facts);
    }
    let mut names = Names { origins, file };
    let (found, mut sentences) = model(&settings, &names);
    // What has no model is told, and comes to no plan: any stands in for it until then.
    let (name, model_spec) = found.unwrap_or_else(|| (String::new(), MODELS[0].1.clone()));
    let typed = Options { model: Some(name), ..settings };
    let mut effective = typed.clone();
    let name = typed.model.as_deref().unwrap_or_default();
    let fitted = layout::planned(&typed, name, &model_spec, &names).and_then(|plan| {
        let keys = plan.as_ref().map(|plan| layout::fit(plan, &mut effective, &names));
        let keys = keys.transpose()?.unwrap_or_default();
        Ok((plan, keys))
    });
    let (layout_plan, keys) = fitted.unwrap_or_else(|what| {
        sentences.push(what);
        (None, Vec::new())
    });
    for key in keys.into_iter().chain(effective.work_out(&facts)) {
        names.compute(key);
    }
    let checked = Settings::of(&effective, &mut |key, what| {
        sentences.push(format!("{} {what}", names.name_of(key)));
    });
    let (Some(asked), Some(workload)) = (checked, typed.workload.clone()) else {
        return Err(InputError { sentences });
    };
    let (settings, rank) = (asked.clone(), facts.rank.clone());
    let demo = is_demo;
    let given = Given { settings, model_spec, layout_plan, workload, rank, demo, typed, effective };
    let mut plan = derive(given, &mut names);
    let told = file.map(|file| file.told.clone()).unwrap_or_default();
    let mut check = Check { names: &names, sentences, told };
    check.plan(&asked, &plan, &facts);
    if check.sentences.is_empty() {
        plan = with_cpu_tier_that_fits(&names, plan, &facts);
        check.told.append(&mut plan.told);
        check.fits(&plan, &facts);
    }
    let Check { sentences, told, .. } = check;
    match sentences.is_empty() {
        true => Ok(Plan { origins: names.origins, told, ..plan }),
        false => Err(InputError { sentences }),
    }
}

/// The model that is named, by its whole name, which replaces what was typed; and what is wrong
/// with it or with models of one's own.
fn model(settings: &Options, names: &Names<'_>) -> (Option<(String, ModelSpec)>, Vec<String>) {
    let own = settings.models.clone().unwrap_or_default();
    let wrong = own.iter().filter_map(|(name, spec)| {
        let error = spec.bytes_per_token().err()?;
        Some(format!("{} {name}: {error}", names.name_of("models")))
    });
    let mut sentences: Vec<String> = wrong.collect();
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
    let model = name.and_then(|name| Some((name.to_owned(), (*known.get(name)?).clone())));
    if model.is_none() {
        sentences.push(format!("{} {}", names.name_of("model"), unknown_model(&wanted, &known)));
    }
    (model, sentences)
}

fn unknown_model(wanted: &str, known: &BTreeMap<&str, &ModelSpec>) -> String {
    let names: Vec<&str> = known.keys().copied().collect();
    let hint = nearest(wanted, names.iter().copied())
        .map_or(String::new(), |near| format!("did you mean {near}? "));
    format!("{wanted:?} is not a known model; {hint}known: {}", names.join(", "))
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
