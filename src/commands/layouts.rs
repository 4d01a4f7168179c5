//! `ringfall layouts`: how inference engines keep KV cache on storage, as a list, and compared on a
//! drive; and a recording of an engine's calls, replayed on one.

mod replay;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ringfall_config::object_store::Place;
use ringfall_config::{Facts, InputError, Options, Places, resolve};
use ringfall_core::error::SetupError;
use ringfall_core::units::{GIB, MIB, gib};
use ringfall_engine::device::{CacheDir, is_block_device};
use ringfall_host::exit::Exit;
use ringfall_host::files::unguessable;
use ringfall_host::interrupt::{Interrupt, leave_nothing_of};
use ringfall_host::{Machine, ProgressLine, Room, free_bytes, human, human_apart, takes_direct_io};
use ringfall_model::facts::Roofline;
use ringfall_model::write_json;
use ringfall_report::show::{LAYOUTS_VERSION, LayoutsReport, layouts_list, layouts_page};
use ringfall_running::layouts::{LayoutBench, LayoutError, OBJECT_BYTES_MAX};
use ringfall_running::store::METADATA_SLACK_BYTES;
use ringfall_workloads::layout::{
    EngineLayout, LayoutOption, LayoutOptions, LayoutPlan, LayoutWork,
};
use serde::Serialize;

use super::answer::{Answer, Work};
use super::run::check_output_writable;
use super::{both, is_stdout, print, print_json, saturate, tell_error, text_stream, write_form};
use crate::cli::{Command, LayoutsArgs, LayoutsCommand, LayoutsCompareArgs, NATIVE, SaturateArgs};
use crate::remedy::told;

/// Least and most space in which the drive's limits are searched, GiB.
const LIMITS_GIB: (f64, f64) = (0.125, 2.0);
/// Time of that search as a multiple of the fetches of a layout.
const LIMITS_TIMES: f64 = 4.0;
/// Share of the memory that is left that buffers may take, and where nothing says how much that is.
const BUFFER_SHARE: u64 = 2;
const BUFFER_BYTES: u64 = GIB;

/// Lists the layouts, compares them, or replays a recording.
pub fn run(args: &LayoutsArgs) -> Result<Exit> {
    match &args.command {
        None => print(&layouts_list()),
        Some(LayoutsCommand::Compare(args)) => compare(args),
        Some(LayoutsCommand::Replay(args)) => replay::run(args),
    }
}

fn compare(args: &LayoutsCompareArgs) -> Result<Exit> {
    super::refuse_launcher("layouts compare")?;
    let args = &LayoutsCompareArgs { cache_dir: directory(&args.cache_dir)?, ..args.clone() };
    let file = args.json.as_deref().filter(|output| !is_stdout(output));
    if let Some(output) = file {
        check_output_writable("--json", output)?;
    }
    check_place(&args.cache_dir)?;
    let is_direct = takes_direct_io(&std::path::absolute(&args.cache_dir)?) != Some(false);
    let compared = compared(args, is_direct)?;
    check_room(args)?;
    let interrupt = super::interrupt()?;
    let _answer = Answer::to(work("comparison", &args.cache_dir), &interrupt);
    let Some(limits) = drive_limits(args, is_direct, &interrupt)? else {
        return Ok(interrupted());
    };
    let mut place = CacheDir::open(&args.cache_dir)?;
    leave_nothing_of(place.made());
    let found = measured(args, compared, limits, &mut place, &interrupt);
    let removed = place.remove();
    let output = Output { json: args.json.as_deref(), quiet: args.quiet };
    output.told(found, removed, layouts_page, LayoutsReport::failed)
}

fn interrupted() -> Exit {
    ringfall_host::stderr::tell(format_args!("interrupted: nothing was written"));
    Exit::Interrupted
}

/// Work of that name in a directory, for whoever ends it by a signal.
fn work(name: &'static str, place: &Path) -> Work {
    Work {
        name,
        keeps: ", without figures",
        places: vec![place.to_owned()],
        output: None,
        left: "the next run there deletes it",
    }
}

/// Outputs that figures go to.
struct Output<'a> {
    json: Option<&'a Path>,
    quiet: bool,
}

impl Output<'_> {
    /// Writes and shows the figures of work whose files are removed by now, and the sentence
    /// that `failed` has about what went wrong.
    fn told<R: Serialize>(
        &self,
        found: Result<Option<R>>,
        removed: Result<(), SetupError>,
        page: fn(&R) -> String,
        failed: fn(&R) -> Option<String>,
    ) -> Result<Exit> {
        let report = match found {
            Ok(Some(report)) => report,
            Ok(None) => {
                removed.err().into_iter().for_each(|left| tell_error(told(&left)));
                return Ok(interrupted());
            }
            Err(error) => return both(Err(error), removed.map_err(Into::into)),
        };
        let file = self.json.filter(|output| !is_stdout(output));
        let written = write_form(file, "the figures", |path| write_json(&report, path));
        // What was found is shown also when it could not be kept.
        match self.json.is_some_and(is_stdout) {
            true => print_json(&report)?,
            false if self.quiet => Exit::Done,
            false => print(&page(&report))?,
        };
        both(written, removed.map_err(Into::into))?;
        let Some(failed) = failed(&report) else { return Ok(Exit::Done) };
        // Elsewhere the page has it.
        if self.quiet {
            tell_error(failed);
        }
        Ok(Exit::Failed)
    }
}

/// Whether the figures go to standard output.
fn is_json(args: &LayoutsCompareArgs) -> bool {
    args.json.as_deref().is_some_and(is_stdout)
}

/// The directory that was typed, also as a file's URL.
fn directory(typed: &Path) -> Result<PathBuf, InputError> {
    match typed.to_str().map(Place::parse) {
        None => Ok(typed.to_path_buf()),
        Some(Ok(Place::Path(path))) => Ok(path),
        Some(Ok(Place::Objects(url))) => refuse!(
            "--cache-dir {url} is an object store, and engines keep files: give a directory on the \
             drive to measure, or measure the object store with `ringfall saturate {url}`"
        ),
        Some(Err(what)) => refuse!("--cache-dir can't be used: {what}"),
    }
}

/// Checks the place before anything is made there.
fn check_place(place: &Path) -> Result<(), InputError> {
    if is_block_device(place) {
        refuse!(
            "--cache-dir {} is a block device, and engines keep files: give a directory on its \
             file system",
            place.display()
        );
    }
    CacheDir::check(place).map_err(|error| {
        InputError::new(format!("--cache-dir: {error}: give a directory on the drive to measure"))
    })
}

/// Refuses more space than is free, when what a comparison that was killed left there is deleted.
fn check_room(args: &LayoutsCompareArgs) -> Result<()> {
    CacheDir::reclaim_in(&args.cache_dir)?;
    match free_bytes(&args.cache_dir).and_then(|free_bytes| lacking(args, free_bytes)) {
        Some(what) => refuse!("{what}"),
        None => Ok(()),
    }
}

/// Sentence on the space that is too little where so much is free; none where it is enough for the
/// layouts and for the search for the drive's limits.
fn lacking(args: &LayoutsCompareArgs, free_bytes: u64) -> Option<String> {
    let bytes = |gib: f64| (gib * GIB as f64) as u64;
    let needed_bytes = bytes(args.space.0.max(LIMITS_GIB.0)).saturating_add(METADATA_SLACK_BYTES);
    (free_bytes < needed_bytes).then(|| {
        let (free, needed) = human_apart(free_bytes, needed_bytes);
        format!(
            "--space {}: {} has {free} free, and the comparison needs {needed}: free space there, \
             or give --cache-dir another directory",
            human(bytes(args.space.0)),
            args.cache_dir.display()
        )
    })
}

/// Layouts to compare for a model.
struct Compared {
    /// Name of the model.
    model: String,
    plans: Vec<LayoutPlan>,
    /// Bytes of a prefix where ringfall's own data file is among them.
    native_bytes: Option<u64>,
}

/// Layouts that the flags ask for.
fn compared(args: &LayoutsCompareArgs, is_direct: bool) -> Result<Compared> {
    // The model may be the beginning of a name.
    let typed = Options { model: Some(args.model.clone()), ..Options::default() };
    let plan = resolve(&typed, None, &Facts::look().of_no_machine())?;
    let is_chosen =
        |layout: &str| args.layout.is_empty() || args.layout.iter().any(|name| name == layout);
    let chosen = EngineLayout::ALL.into_iter().filter(|layout| is_chosen(layout.name()));
    let mut options: Vec<LayoutOptions> = chosen.map(LayoutOptions::of).collect();
    let has_direct = |options: &LayoutOptions| options.value(LayoutOption::Direct).is_some();
    let wrong = |error| InputError::new(format!("--layout-option {error}"));
    if !is_direct && options.iter().any(has_direct) {
        LayoutOptions::apply(&mut options, ["direct=no"]).map_err(wrong)?;
    }
    let typed = args.layout_option.iter().map(String::as_str);
    LayoutOptions::apply(&mut options, typed).map_err(wrong)?;
    for (option, why) in [
        (LayoutOption::Evict, "evicts nothing"),
        (LayoutOption::Selective, "stores each prefix once"),
    ] {
        if options.iter().any(|one| one.value(option) != one.layout().default_of(option)) {
            let name = option.name();
            refuse!("--layout-option {name} has no effect on a comparison, which {why}");
        }
    }
    let space_bytes = (args.space.0 * GIB as f64) as u64;
    let too_little = |name: &str, prefix_bytes: u64| {
        InputError::new(format!(
            "--space {} is too little for the layout {name}: a prefix takes {}, and a few of them \
             are needed; give more, or fewer --prefix-tokens",
            human(space_bytes),
            human(prefix_bytes)
        ))
    };
    let planned = options.into_iter().map(|options| -> Result<LayoutPlan> {
        let (spec, ranks) = (&plan.model_spec, args.tensor_parallel);
        let planned = LayoutPlan::new(options, &plan.model, spec, ranks, args.prefix_tokens);
        let planned = planned.map_err(|error| InputError::new(error.to_string()))?;
        let prefixes = space_bytes / planned.prefix_bytes();
        if prefixes < 2 || planned.whole_prefixes(prefixes) < 1 {
            return Err(too_little(planned.layout().name(), planned.prefix_bytes()).into());
        }
        let largest_bytes = planned.request(LayoutWork::Store, prefixes - 1).largest_bytes();
        if largest_bytes > OBJECT_BYTES_MAX {
            refuse!(
                "the layout {} writes {} at once, and buffers have {} at most: give fewer \
                 --prefix-tokens or a smaller chunk_tokens with --layout-option",
                planned.layout().name(),
                human(largest_bytes),
                human(OBJECT_BYTES_MAX)
            );
        }
        Ok(planned)
    });
    let plans = planned.collect::<Result<Vec<LayoutPlan>>>()?;
    let token_bytes = plan.model_spec.bytes_per_token()?;
    let native_bytes =
        (is_direct && is_chosen(NATIVE)).then(|| args.prefix_tokens.saturating_mul(token_bytes));
    if let Some(bytes) = native_bytes.filter(|bytes| space_bytes / bytes < 2) {
        return Err(too_little(NATIVE, bytes).into());
    }
    Ok(Compared { model: plan.model.clone(), plans, native_bytes })
}

/// Limits of the drive, as far as they are known.
struct DriveLimits {
    roofline: Option<Roofline>,
    notes: Vec<String>,
}

impl DriveLimits {
    /// Bandwidth at that percentage of reads, GiB/s.
    fn gib_per_s(&self, read_percent: u32) -> Option<f64> {
        Some(self.roofline.as_ref()?.bandwidth(read_percent)? / GIB as f64)
    }
}

/// Measures the drive's limits; none where a signal ended that.
fn drive_limits(
    args: &LayoutsCompareArgs,
    is_direct: bool,
    interrupt: &Interrupt,
) -> Result<Option<DriveLimits>> {
    if !is_direct {
        let note = "the file system takes no O_DIRECT: all layouts go through the page cache, as \
                    vLLM does there, native is left out, and the drive's limits are unknown";
        return Ok(Some(DriveLimits { roofline: None, notes: vec![note.to_owned()] }));
    }
    let roofline = saturate::limits(&limits_args(args, buffer_bytes())?, interrupt)?;
    Ok(roofline
        .map(|roofline| DriveLimits { notes: roofline.warnings.clone(), roofline: Some(roofline) }))
}

/// Measures each layout in a directory for files; none where a signal ended that.
fn measured(
    args: &LayoutsCompareArgs,
    Compared { model, plans, native_bytes }: Compared,
    limits: DriveLimits,
    place: &mut CacheDir,
    interrupt: &Interrupt,
) -> Result<Option<LayoutsReport>> {
    let unique = unguessable().context("the system gives no random name for a directory")?;
    let directory = place.make_directory(&unique)?;
    let (room, machine) = (Room::look(), Machine::look(place.path()));
    let bench = LayoutBench {
        machine: &machine,
        each: Duration::from_secs_f64(args.seconds_each),
        space_bytes: (args.space.0 * GIB as f64) as u64,
        populate_objects: args.populate_objects,
        memory_bytes: buffer_bytes(),
        seed: args.seed.number_or(Facts::look().random_seed),
        interrupt,
    };
    let mut report = LayoutsReport {
        ringfall_layouts: LAYOUTS_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        place: args.cache_dir.display().to_string(),
        drive: machine.device.as_ref().map(|device| device.name.clone()),
        file_system: machine.mount.as_ref().map(|mount| mount.file_system.clone()),
        cores: room.cores,
        model,
        tensor_parallel: args.tensor_parallel,
        prefix_tokens: args.prefix_tokens,
        seconds_each: args.seconds_each,
        space_gib: gib(bench.space_bytes),
        populate_objects: args.populate_objects,
        seed: bench.seed,
        read_limit_gib_per_s: limits.gib_per_s(100),
        write_limit_gib_per_s: limits.gib_per_s(0),
        layouts: Vec::new(),
        notes: limits.notes,
    };
    let mut progress = ProgressLine::new(text_stream(is_json(args)), args.quiet, None);
    for (plan, limits) in
        plans.iter().flat_map(|plan| args.engine_limits.limits().iter().map(move |of| (plan, *of)))
    {
        let name = plan.layout().name();
        let mut tell = |doing: &str| {
            progress.rewrite(&format!("{name}, {}: {doing}…", limits.name()));
        };
        match bench.measure(&directory, plan, limits, &mut tell).map_err(with_setup)? {
            Some(run) => report.add(run),
            None => return Ok(None),
        }
    }
    if let Some(prefix_bytes) = native_bytes {
        let mut tell = |doing: &str| progress.rewrite(&format!("{NATIVE}: {doing}…"));
        let found = bench.measure_native(&directory, prefix_bytes, room.cores, &mut tell);
        match found.map_err(with_setup)? {
            Some(run) => report.add(run),
            None => return Ok(None),
        }
    }
    progress.clear();
    Ok(Some(report))
}

/// The error as the program tells it: an error of the engine by itself, in the program's words.
fn with_setup(error: LayoutError) -> anyhow::Error {
    match error {
        LayoutError::Setup(error) => error.into(),
        other => other.into(),
    }
}

/// Memory that buffers may take, bytes.
fn buffer_bytes() -> u64 {
    Room::look().memory_bytes().map_or(BUFFER_BYTES, |bytes| bytes / BUFFER_SHARE)
}

/// The search for the drive's limits, in large I/Os, with no more buffers than memory is meant for.
fn limits_args(args: &LayoutsCompareArgs, buffer_bytes: u64) -> Result<SaturateArgs, InputError> {
    let words = [
        "saturate".to_owned(),
        format!("--time-limit={:.0}", (args.seconds_each * LIMITS_TIMES).ceil()),
        format!("--size-gb={}", args.space.0.clamp(LIMITS_GIB.0, LIMITS_GIB.1)),
        "--no-iops".to_owned(),
        "--read-percent=100,0".to_owned(),
    ];
    let Some(Command::Saturate(found)) = super::command_of(words)? else {
        unreachable!("these are flags of saturate")
    };
    let cache_dir = Some(Places(vec![args.cache_dir.clone()]));
    let io_buffer_mb = found.io_buffer_mb.min(buffer_bytes / MIB).max(1);
    Ok(SaturateArgs { cache_dir, io_buffer_mb, quiet: args.quiet, json: is_json(args), ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with little memory was told to lower flags that a comparison does not have.
    #[test]
    fn the_drive_s_limits_are_searched_with_the_memory_there_is() {
        let words = ["layouts", "compare", "--cache-dir", "/mnt/kv"].map(str::to_owned);
        let Ok(Some(Command::Layouts(found))) = super::super::command_of(words) else {
            panic!("it is a comparison")
        };
        let Some(LayoutsCommand::Compare(args)) = found.command else { panic!("it compares") };
        let taken = |bytes| limits_args(&args, bytes).unwrap().io_buffer_mb;
        assert_eq!([16 * GIB, 20 * MIB, 1_000].map(taken), [256, 20, 1]);
    }

    /// The search for the drive's limits refused 500 MiB of 510, and 90 MiB of 140, in its own
    /// words: by the --size-gb that nobody had typed.
    #[test]
    fn space_that_is_not_there_is_refused_by_what_was_typed() {
        for (space, free_mib, needed) in [
            ("500MiB", 510, Some("516.0 MiB")),
            ("500MiB", 516, None),
            ("90MiB", 140, Some("144.0 MiB")),
            ("90MiB", 144, None),
        ] {
            let words = ["layouts", "compare", "--cache-dir=/d", "--space", space];
            let typed = crate::commands::command_of(words.map(str::to_owned)).unwrap();
            let Some(Command::Layouts(LayoutsArgs { command: Some(typed) })) = typed else {
                panic!("{typed:?}")
            };
            let LayoutsCommand::Compare(args) = typed else { panic!("{typed:?}") };
            let told = lacking(&args, free_mib * MIB);
            assert_eq!(told.is_some(), needed.is_some(), "{told:?}");
            let is_told = |needed| told.as_ref().is_some_and(|told| told.contains(needed));
            assert!(needed.is_none_or(is_told), "{told:?}");
        }
    }
}
