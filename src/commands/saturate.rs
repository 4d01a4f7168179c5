//! `ringfall saturate`: the device's limits, as a table, a file and a page.

mod objects;
#[cfg(feature = "objects")]
mod sweep;
mod vram;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringfall_config::object_store::Place;
use ringfall_config::{Cores, Facts, InputError, Places, Rank, compact_utc};
use ringfall_core::drive::Preallocate;
use ringfall_core::error::SetupError;
use ringfall_core::units::{BLOCK_BYTES, GIB, MIB, gib};
use ringfall_engine::device::is_block_device;
use ringfall_engine::ring::Polling;
use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::{Machine, ProgressLine, Room, human, write_output};
use ringfall_model::document::ResultFile;
use ringfall_model::facts::{Measured, Roofline};
use ringfall_model::write_json;
use ringfall_report::show::{direction, io_size, roofline_text, write_roofline_html};
use ringfall_running::group::Group;
use ringfall_running::run::FleetError;
use ringfall_running::saturate::{
    RunDepth, SaturateError, SaturateSettings, Watcher, device_yaml, find, together,
};
use ringfall_running::store::{Store, StoreError, StoreRequest};
use serde::Serialize;

use super::answer::{Answer, Work};
use super::run::{
    self, GIVE_OUTPUT, LEAVE_PATIENCE, Launch, check_passthrough, cores_near, or_tell_ranks,
    share_below, system_disk,
};
use super::{both, interrupt, none_of, tell_error, text_stream, write_form};
use crate::cli::{SaturateArgs, SaturateTarget};
use crate::remedy::{told, told_chain};

/// The result of a search, a part of a sentence.
const LIMITS: &str = "the limits";
/// Largest and smallest I/O that may be asked for, bytes.
const IO_BYTES: (u64, u64) = (BLOCK_BYTES, 64 * MIB);
/// Most I/Os in flight that may be asked for.
const DEPTH_MAX: u32 = 16_384;
const SIZE_GIB_MAX: f64 = 4_194_304.0;
/// Longest search that may be asked for, s: a day, as for a run.
const TIME_LIMIT_S_MAX: u32 = 86_400;

/// Finds the limits, and writes and shows them.
pub fn run(args: &SaturateArgs) -> Result<Exit> {
    if args.what == SaturateTarget::Vram {
        return vram::run(args);
    }
    if args.gpu_backend.is_some() {
        refuse!("--gpu-backend is for GPU memory: add --target vram, or leave it out");
    }
    match objects::target(args)? {
        #[cfg(feature = "objects")]
        Some(Place::Objects(url)) => sweep::run(args, &url),
        #[cfg(not(feature = "objects"))]
        Some(Place::Objects(_)) => refuse!("{}", ringfall_config::Part::Objects.refusal()),
        Some(Place::Path(path)) => {
            let cache_dir = Some(Places(vec![path]));
            run_on_drives(&SaturateArgs { target: None, cache_dir, ..args.clone() })
        }
        None => run_on_drives(args),
    }
}

fn run_on_drives(args: &SaturateArgs) -> Result<Exit> {
    let output = output(args, "roofline");
    let rank = Rank::for_command(args.ranks.0, &output)?;
    or_tell_ranks(rank.as_ref(), check_all(args, rank.as_ref(), &output))?;
    let missing = places(args)?.iter().find_map(|place| system_disk::missing(place));
    super::tell(missing.as_slice());
    let interrupt = interrupt()?;
    let _answer = Answer::to(work(args)?, &interrupt);
    let launch = rank.as_ref().map_or(Ok(None), |rank| Launch::of(rank, GIVE_OUTPUT))?;
    let group = launch.as_ref().map(Launch::join).transpose()?;
    let usual = args.device_output.is_some().then_some(RunDepth::Standard);
    let found = search(args, rank.as_ref(), group.as_deref(), usual, &interrupt);
    if let Some(group) = &group {
        leave(group, &found, interrupt.is_set());
    }
    if let Some(launch) = launch {
        launch.close(found.is_ok() && !interrupt.is_set());
    }
    let Some(roofline) = found? else {
        return Ok(interrupt.exit_or(Exit::Done));
    };
    let written = write_outputs(args, &roofline, &output);
    show(args, &roofline, roofline_text, &output, written)?;
    Ok(interrupt.exit_or(Exit::Done))
}

/// Limits of one drive, which are not written; none where a signal ended the search, which is for
/// the caller to tell.
pub(super) fn limits(args: &SaturateArgs, interrupt: &Interrupt) -> Result<Option<Roofline>> {
    check(args)?;
    check_place(args, None)?;
    let _answer = Answer::to(work(args)?, interrupt);
    search(args, None, None, Some(RunDepth::OfLimits), interrupt)
}

/// The search, as its interruption is spoken of.
fn work(args: &SaturateArgs) -> Result<Work> {
    Ok(Work {
        name: "search",
        keeps: ", without limits",
        places: places(args)?,
        output: None,
        left: "the next search there deletes it",
    })
}

/// The file with the limits: the one asked for, or one of this kind and time.
fn output(args: &SaturateArgs, kind: &str) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        PathBuf::from(format!("results/{kind}-{}.json", compact_utc(Facts::look().unix_s)))
    })
}

/// Writes all that was asked for; the first failure is told when all was tried.
fn write_outputs(args: &SaturateArgs, roofline: &Roofline, output: &Path) -> Result<()> {
    let (page, device) = (args.html_output.as_deref(), args.device_output.as_deref());
    let limits = write_form(Some(output), LIMITS, |path| write_json(roofline, path));
    let page = write_form(page, LIMITS, |path| write_roofline_html(roofline, path));
    let device = device.map_or(Ok(()), |path| {
        let text = device_yaml(roofline).map_err(anyhow::Error::msg)?;
        write_form(Some(path), LIMITS, |path| write_output(path, text.as_bytes()))
    });
    limits.and(page).and(device)
}

/// Checks everything that can be checked before anything is opened.
fn check_all(args: &SaturateArgs, rank: Option<&Rank>, output: &Path) -> Result<()> {
    let read_percents = check(args)?;
    check_outputs(args, output)?;
    let both = read_percents.contains(&100) && read_percents.contains(&0);
    if args.device_output.is_some() && !both {
        refuse!("--device-output needs reads and writes: include 100 and 0 in --read-percent");
    }
    Ok(check_place(args, rank)?)
}

/// Whether ranks that search together can use the place that is named.
fn check_place(args: &SaturateArgs, rank: Option<&Rank>) -> Result<(), InputError> {
    let places = places(args)?;
    check_passthrough(&places, args.nvme_passthrough)?;
    if rank.is_some() && places.len() > 1 {
        let what = "--cache-dir: ranks measure one drive together: name one, or give --ranks off \
                    and measure several from one process";
        return Err(InputError::new(what));
    }
    match rank.zip(places.first()).and_then(|(rank, path)| rank.can_t_share(path)) {
        Some(what) => refuse!("--cache-dir {what}"),
        None => Ok(()),
    }
}

/// All ranks leave when the search is over; on a failure the others hear of it.
fn leave(group: &Group, found: &Result<Option<Roofline>>, is_interrupted: bool) {
    match found {
        // It has said so, and that is to stay.
        Ok(_) if is_interrupted => {}
        Ok(_) => {
            if group.rank() == 0 {
                group.see_off(LEAVE_PATIENCE);
            }
            group.leave();
        }
        Err(error) => group.fail(&told_chain(error)),
    }
}

/// The limits, with the other ranks where there are some; none where another rank has them, or a
/// signal ended the search.
fn search(
    args: &SaturateArgs,
    rank: Option<&Rank>,
    group: Option<&Group>,
    usual: Option<RunDepth>,
    interrupt: &Interrupt,
) -> Result<Option<Roofline>> {
    let cpus = cores(args, rank);
    let own = |path: PathBuf| rank.map(|rank| rank.own_directory(&path)).unwrap_or(path);
    let places: Vec<PathBuf> = places(args)?.into_iter().map(own).collect();
    let share_bytes = rank.zip(places.first()).map_or(0, |(rank, own)| share_below(rank, own));
    // Who asks for the limits alone tells what is missing without them.
    let is_part = usual == Some(RunDepth::OfLimits);
    let tell = || {
        if !is_part {
            tell_error(SaturateError::Interrupted)
        }
    };
    let mut stores = Vec::new();
    for place in places.iter().map(Some).chain(places.is_empty().then_some(None)) {
        let request = StoreRequest {
            places: place.into_iter().cloned().collect(),
            ..request(args, share_bytes, cpus.len())
        };
        let Some(store) = open(&request, &|| interrupt.is_set())? else {
            tell();
            group.into_iter().for_each(|group| group.fail("it was interrupted"));
            return Ok(None);
        };
        stores.push(store);
    }
    let settings = SaturateSettings {
        range_bytes: 0,
        io_bytes: (args.io_size_min.0 as u32, args.io_size_max.0 as u32),
        depth_max: args.depth_max,
        buffer_bytes_max: args.io_buffer_mb * MIB,
        cpus,
        polling: polling(args),
        read_percents: check(args)?,
        iops: !args.no_iops,
        // Nobody reads it in the answer of another command.
        small_pages: !is_part,
        usual,
        seed: args.seed,
        time_limit_s: args.time_limit,
    };
    let mut teller = Teller::new(args, rank.is_some_and(|rank| rank.launcher.rank > 0));
    let found = find_all(&stores, &settings, interrupt, &mut teller, group);
    let failed = stores.into_iter().map(Store::remove).filter_map(Result::err);
    let removed = failed.reduce(SetupError::with).map_or(Ok(()), Err);
    teller.progress.clear();
    match found {
        Err(SaturateError::Interrupted) => {
            tell();
            removed.as_ref().err().into_iter().for_each(|left| tell_error(told(left)));
            group.into_iter().for_each(|group| group.fail("it was interrupted"));
            Ok(None)
        }
        found => both(found.map_err(Into::into), removed.map_err(Into::into)),
    }
}

/// A store in a fresh directory, of the size that was asked for or of so many bytes.
fn request(args: &SaturateArgs, share_bytes: u64, threads: usize) -> StoreRequest {
    StoreRequest {
        destroy_device_contents: args.destroy_device_contents,
        capacity_bytes: match (args.size_gb * GIB as f64) as u64 {
            0 => share_bytes,
            bytes => bytes,
        },
        capacity_flag: "--size-gb",
        shards: threads as u16,
        preallocate: Preallocate::Reserve,
        nvme_passthrough: args.nvme_passthrough,
        ..StoreRequest::default()
    }
}

/// Opens the store; none where a signal ended that.
fn open(
    request: &StoreRequest,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Option<Store>, FleetError> {
    match Store::open(request, &mut |_, _| !is_interrupted()) {
        Err(error) if is_interrupted() => {
            if let StoreError::Left(left) = error {
                tell_error(told(&left));
            }
            Ok(None)
        }
        opened => Ok(Some(opened?)),
    }
}

/// Finds the limits of each drive alone; of several, then those of all at the same time. With a
/// group, those of the one drive that its ranks load together; none where another rank has them.
fn find_all(
    stores: &[Store],
    settings: &SaturateSettings,
    interrupt: &Interrupt,
    teller: &mut Teller,
    group: Option<&Group>,
) -> Result<Option<Roofline>, SaturateError> {
    let (began, mut alone) = (Instant::now(), Vec::new());
    for store in stores {
        let settings = SaturateSettings {
            range_bytes: store.capacity_bytes(),
            // As much for each drive alone as for all together.
            time_limit_s: match stores.len() as u32 {
                1 => settings.time_limit_s,
                drives => settings.time_limit_s.map(|seconds| (seconds / (drives + 1)).max(1)),
            },
            ..settings.clone()
        };
        let machine = Machine::look(store.path());
        teller.begin(&machine, store.path(), &settings, group.map_or(1, Group::size));
        if let Some(group) = group {
            group.ready();
        }
        alone.extend(find(&store.drives[0].file, &settings, machine, interrupt, teller, group)?);
        teller.progress.clear();
    }
    match alone.len() {
        0 | 1 => Ok(alone.pop()),
        drives => {
            let files: Vec<_> =
                stores.iter().map(|store| Arc::clone(&store.drives[0].file)).collect();
            teller.progress.tell(&format!("all {drives} drives at the same time"));
            let limit = settings.time_limit_s.map(|seconds| Duration::from_secs(seconds.into()));
            let until = limit.map(|limit| began + limit);
            together(&files, alone, settings, until, interrupt, teller).map(Some)
        }
    }
}

/// The directories and devices to measure; none: a fresh directory.
fn places(args: &SaturateArgs) -> Result<Vec<PathBuf>, InputError> {
    let Some(places) = &args.cache_dir else { return Ok(Vec::new()) };
    let wrong = |what| InputError::new(format!("--cache-dir {what}"));
    places.checked().map_err(wrong)
}

/// Whether each output can be written, and is a file of its own.
fn check_outputs(args: &SaturateArgs, output: &Path) -> Result<()> {
    let outputs = [
        ("--output", Some(output)),
        ("--html-output", args.html_output.as_deref()),
        ("--device-output", args.device_output.as_deref()),
    ];
    let outputs: Vec<(&str, &Path)> =
        outputs.into_iter().filter_map(|(flag, path)| Some((flag, path?))).collect();
    run::check_outputs(&outputs)?;
    for (flag, path) in outputs {
        let places = args.cache_dir.iter().flat_map(|places| &places.0).map(PathBuf::as_path);
        let inputs = args.mix_of.as_deref().into_iter().chain(places);
        super::refuse_input(flag, path, inputs)?;
    }
    Ok(())
}

/// Validates the arguments; returns the mixes to measure, in percent of I/Os that are reads.
fn check(args: &SaturateArgs) -> Result<Vec<u32>, InputError> {
    let mut wrong = out_of_bounds(args);
    let places = args.cache_dir.as_ref().map_or(&[][..], |places| &places.0);
    if args.device_output.is_some() && places.len() > 1 {
        wrong.push("--device-output describes one drive: name one with --cache-dir".to_owned());
    }
    if !args.destroy_device_contents && places.iter().any(|path| is_block_device(path)) {
        wrong.push(
            "--cache-dir is a block device, and it would be written over: give \
             --destroy-device-contents if nothing on it is needed"
                .to_owned(),
        );
    }
    for (flag, size) in [("--io-size-min", &args.io_size_min), ("--io-size-max", &args.io_size_max)]
    {
        if !(IO_BYTES.0..=IO_BYTES.1).contains(&size.0) || !size.0.is_multiple_of(BLOCK_BYTES) {
            wrong.push(format!("{flag} is {}: give a multiple of 4 KiB up to 64 MiB", size.0));
        }
    }
    if args.io_size_min.0 > args.io_size_max.0 {
        wrong.push("--io-size-min is larger than --io-size-max".to_owned());
    }
    if !(1..=DEPTH_MAX).contains(&args.depth_max) {
        wrong.push(format!("--depth-max is {}: give 1 to {DEPTH_MAX}", args.depth_max));
    }
    let buffers = args.io_buffer_mb.saturating_mul(MIB);
    if args.io_buffer_mb > 0 && buffers < args.io_size_min.0 {
        wrong.push(format!(
            "--io-buffer-mb is {}, less than one I/O of --io-size-min: give more",
            args.io_buffer_mb
        ));
    }
    let buffers = buffers.min(u64::from(args.depth_max).saturating_mul(args.io_size_max.0));
    if let Some(room) = Room::look().lacks(buffers) {
        wrong.push(format!(
            "--io-buffer-mb {} and --depth-max {} need {} of memory, and this machine has {room} \
             to give: lower one of them",
            args.io_buffer_mb,
            args.depth_max,
            human(buffers)
        ));
    }
    let size_bytes = (args.size_gb * GIB as f64) as u64;
    if args.size_gb > 0.0 && size_bytes < args.io_size_max.0 {
        wrong.push(format!(
            "--size-gb is {}, less than one I/O of --io-size-max: give more, or 0 for all that is \
             free",
            args.size_gb
        ));
    }
    if args.threads.is_some_and(|threads| !(1..=1024).contains(&threads)) {
        wrong.push("--threads takes 1 to 1024".to_owned());
    }
    let percents = read_percents(args, &mut wrong);
    none_of(wrong).map(|()| percents)
}

/// Sentences about the amounts of data, memory and time that can't be asked for.
fn out_of_bounds(args: &SaturateArgs) -> Vec<String> {
    let mut wrong = Vec::new();
    if !(0.0..=SIZE_GIB_MAX).contains(&args.size_gb) {
        wrong.push(format!("--size-gb is {}: give 0 to {SIZE_GIB_MAX}", args.size_gb));
    }
    if let Some(seconds) = args.time_limit.filter(|s| !(1..=TIME_LIMIT_S_MAX).contains(s)) {
        wrong.push(format!("--time-limit is {seconds}: give 1 to {TIME_LIMIT_S_MAX} seconds"));
    }
    if !(1..=1 << 20).contains(&args.io_buffer_mb) {
        wrong.push(format!("--io-buffer-mb is {}: give 1 to 1048576", args.io_buffer_mb));
    }
    wrong
}

/// Each percentage once, that of the run to mix like among them; what is wrong goes to `wrong`.
fn read_percents(args: &SaturateArgs, wrong: &mut Vec<String>) -> Vec<u32> {
    let mut percents = Vec::new();
    // A drive's description has whether reads and writes share a limit.
    let usual = if args.device_output.is_some() { &[100, 0, 50][..] } else { &[100, 0] };
    for &percent in args.read_percent.as_deref().unwrap_or(usual) {
        if percent > 100 {
            wrong.push(format!("--read-percent {percent}: give 0 to 100"));
        }
        if !percents.contains(&percent) {
            percents.push(percent);
        }
    }
    match args.mix_of.as_deref().map(mix_of) {
        Some(Ok(percent)) if !percents.contains(&percent) => percents.push(percent),
        Some(Err(why)) => wrong.push(format!("--mix-of {why}")),
        Some(Ok(_)) | None => {}
    }
    percents
}

/// Percent of a run's I/Os that read.
fn mix_of(path: &Path) -> Result<u32, String> {
    let document = ResultFile::read_ours(path).map_err(|problem| problem.to_string())?.document;
    let io = &document.ringfall.io;
    let counts = io.read.count.known().zip(io.write.count.known());
    let why = match counts.map(|(reads, writes)| (reads, reads.saturating_add(writes))) {
        None => "the result does not say how many I/Os the run did",
        Some((_, 0)) => "the run did no I/O",
        Some((reads, all)) => return Ok((reads as f64 * 100.0 / all as f64).round() as u32),
    };
    Err(format!("{}: {why}", path.display()))
}

/// A core for each thread; of a rank its own, none of them where there are fewer cores than ranks.
fn cores(args: &SaturateArgs, rank: Option<&Rank>) -> Vec<Option<usize>> {
    let places = args.cache_dir.as_ref().map_or(&[][..], |places| &places.0);
    let near = cores_near(places, rank.and_then(Rank::own_cpus)).unwrap_or_default();
    if rank.is_some_and(|rank| rank.cores == Cores::Crowded) {
        return vec![None; args.threads.unwrap_or(1) as usize];
    }
    let count = args.threads.map_or(near.len().max(1), |threads| threads as usize);
    (0..count).map(|index| near.get(index % near.len().max(1)).copied()).collect()
}

fn polling(args: &SaturateArgs) -> Polling {
    match (args.sqpoll, args.iopoll) {
        (true, _) => Polling::Submission,
        (_, true) => Polling::Completion,
        _ => Polling::None,
    }
}

/// Shows how far it is.
struct Teller {
    progress: ProgressLine,
    /// Whether NVMe commands are sent.
    is_passthrough: bool,
    /// When the time that the user gave is over.
    until: Option<Instant>,
    /// Text shown last, without the time left.
    shown: String,
}

impl Teller {
    fn new(args: &SaturateArgs, is_silent: bool) -> Teller {
        let limit = args.time_limit.map(|seconds| Duration::from_secs(u64::from(seconds)));
        let until = limit.map(|limit| Instant::now() + limit);
        Teller {
            progress: progress_line(args, is_silent),
            is_passthrough: args.nvme_passthrough,
            until,
            shown: String::new(),
        }
    }

    fn begin(&mut self, machine: &Machine, path: &Path, settings: &SaturateSettings, ranks: u32) {
        let device = machine.device.as_ref();
        let name = device.map_or("no block device", |device| device.name.as_str());
        let model = device.and_then(|device| device.model.as_deref()).unwrap_or("");
        self.progress.tell(&format!(
            "limits of {} ({name}{}{model}), {:.2} GiB of it, {} threads{}{}",
            path.display(),
            if model.is_empty() { "" } else { ", " },
            gib(settings.range_bytes),
            settings.cpus.len(),
            if ranks > 1 { format!(", on each of {ranks} ranks") } else { String::new() },
            if self.is_passthrough { ", NVMe passthrough" } else { "" }
        ));
    }

    /// Shows the progress, with the time left where there is a limit.
    fn show(&mut self, text: String) {
        self.shown = text;
        self.waiting();
    }
}

impl Watcher for Teller {
    fn measured(&mut self, read_percent: u32, measured: &Measured, confirmed: bool) {
        let what = if confirmed { "best of" } else { "trying" };
        self.show(format!(
            "{what} {}: {} × {} deep: {:.2} GiB/s, {:.0} IOPS",
            direction(read_percent),
            io_size(measured.io_bytes),
            measured.depth,
            measured.bytes_per_s / GIB as f64,
            measured.iops
        ));
    }

    fn preparing(&mut self, done_bytes: u64, of_bytes: u64) {
        let (done, of) = (gib(done_bytes), gib(of_bytes));
        self.show(format!("filling the range first: {done:.1} of {of:.1} GiB"));
    }

    fn waiting(&mut self) {
        let left = time_left(self.until, Instant::now());
        let line = format!("{}{left}", self.shown);
        self.progress.rewrite(&line);
    }
}

/// `, 12 s left`, where there is a limit.
fn time_left(until: Option<Instant>, now: Instant) -> String {
    until.map_or(String::new(), |until| {
        let left = until.saturating_duration_since(now).as_secs_f64().ceil();
        format!(", {left:.0} s left")
    })
}

fn progress_line(args: &SaturateArgs, is_silent: bool) -> ProgressLine {
    ProgressLine::new(text_stream(args.json), args.quiet || is_silent, None)
}

/// Shows what was measured, also where it was not `written`: the file is named only when all of
/// them could be. Returns the failure.
fn show<T: Serialize>(
    args: &SaturateArgs,
    limits: &T,
    table: fn(&T) -> String,
    output: &Path,
    written: Result<()>,
) -> Result<()> {
    super::show(limits, args.json, args.quiet, || match written {
        Ok(()) => format!("{}  limits       {}\n", table(limits), terminal_path(output)),
        Err(_) => table(limits),
    })?;
    written
}

#[cfg(test)]
mod tests {
    use ringfall_engine::device::DATA_NAME;
    use ringfall_host::Scratch;

    use super::*;

    /// It ended with status 1 and advice about worker threads of the kernel.
    #[test]
    fn a_signal_while_space_is_taken_interrupts_the_search() {
        let scratch = Scratch::new("interrupted");
        let place = scratch.join("store");
        let request = StoreRequest {
            places: vec![place.clone()],
            capacity_bytes: MIB,
            capacity_flag: "--size-gb",
            shards: 1,
            preallocate: Preallocate::Reserve,
            ..StoreRequest::default()
        };
        assert!(matches!(open(&request, &|| true), Ok(None)));
        assert!(!place.join(DATA_NAME).exists());
    }

    #[test]
    fn the_time_left_is_rounded_up_and_never_negative() {
        let now = Instant::now();
        assert_eq!(time_left(None, now), "");
        assert_eq!(time_left(Some(now + Duration::from_millis(11_200)), now), ", 12 s left");
        assert_eq!(time_left(Some(now), now + Duration::from_secs(9)), ", 0 s left");
    }
}
