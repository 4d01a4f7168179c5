//! `ringfall quick`: how many users a drive serves, in a few minutes. The drive's limits are
//! measured, a curve over numbers of users is simulated from them, and a run on the drive confirms
//! it.

mod limits;
mod on_drive;
mod space;
mod speed;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow};
use ringfall_config::{DeviceFile, Facts, InputError, Places, Plan, compact_utc};
use ringfall_core::units::{GIB, MIB, gib};
use ringfall_engine::device::{CacheDir, is_block_device};
use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::survey::{Root, Survey};
use ringfall_host::{Room, free_bytes, host_name, human, write_output};
use ringfall_model::{Document, RunResult, write_json};
use ringfall_report::quick::{
    CHECK_S_MIN, LOADS_WANTED, QUICK_VERSION, QuickPoint, QuickReport, QuickTry, Served,
    USERS_FLAG, is_load_quick, is_reuse_enough, is_reuse_sure, space_flag, users_between,
};
use ringfall_report::show::{quick_page, write_quick_html};
use ringfall_running::saturate::{RUN_DEPTHS, device_yaml, run_depth};
use ringfall_running::store::temporary_directory;

use limits::{MIXED_READ_PERCENT, Varied, limits_of, throttled};
use on_drive::{Settled, kernel_share};
use space::FirstSpace;

use super::run::{check_outputs, measured, simulated, system_disk};
use super::{run_args, saturate, write_form};
use crate::cli::{Command, QuickArgs, SaturateArgs};
use crate::prometheus::answer_text;
use crate::remedy::told_chain;

/// Space of the measured run where none is given: what a minute bears.
const SPACE_BYTES: u64 = 6 * GIB;
/// Space of the measured run as a multiple of the largest entry: at least, and where none is given.
const SPACE_ENTRIES: [f64; 2] = [1.25, 2.0];
/// Steps of the space that was not asked for, which read well.
const SPACE_STEP_BYTES: u64 = 256 * MIB;
/// Largest space in which the limits are searched, GiB: more would only take longer to fill.
const LIMITS_GIB_MAX: f64 = 4.0;
/// Percentage of the free space that is used at most: others write there too, and a file system
/// that is nearly full is slow.
const FREE_PERCENT: u64 = 90;
/// Requests that a simulated run is to have, so that its P95 is of more than a few; and the time in
/// which a user asks for one, s, about that of generating its answer.
const SIMULATED_REQUESTS: u64 = 800;
const REQUEST_S: u64 = 8;
/// I/Os of a simulated run are so many times as large as a real one's, and as many times fewer are
/// in flight, where these are many: the drive's time for an entry is the same, and the simulation
/// takes a fourth.
const SIMULATED_IOS: u32 = 4;
/// Flag of the pace at which answers are generated, up to its value.
const GENERATION_FLAG: &str = "--generation-mode=";
/// Window of a simulated run, s.
const SIMULATED_S: [u64; 2] = [300, 7_200];
/// Multiple of `--time` by which such a run has to end.
const FURTHER_RUNS_TIMES: f64 = 3.0;
/// Longest run that is simulated for the length of the check, s.
const CHECK_S_MAX: u64 = 7_200;
/// Speeds of the drives on which the check is simulated besides, as shares above that of the runs.
const CHECK_SPEEDS: [f64; 8] = [-8e-4, -6e-4, -4e-4, -2e-4, 2e-4, 4e-4, 6e-4, 8e-4];
/// Largest number of users that is tried.
const USERS_MAX: u32 = 4_096;

/// Measures, and answers.
///
/// # Errors
/// A flag or the place is wrong, the drive fails, or the answer can't be written.
pub fn run(args: &QuickArgs, command_line: Vec<String>) -> Result<Exit> {
    answered(args, command_line, "--output")
}

/// Answers, in the file that a flag of that name would give.
fn answered(args: &QuickArgs, command_line: Vec<String>, output_flag: &str) -> Result<Exit> {
    super::refuse_launcher("quick")?;
    let facts = Facts::look();
    let (unix_s, seed) = (facts.unix_s, args.seed.number_or(facts.random_seed));
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("results/quick-{}.json", compact_utc(unix_s))));
    let page = args.html_output.as_deref().map(|path| ("--html-output", path));
    let metrics = args.metrics_file.as_deref().map(|path| ("--metrics-file", path));
    let outputs: Vec<_> =
        [(output_flag, &*output)].into_iter().chain(page).chain(metrics).collect();
    let _made = MadeDirectories::before(outputs.iter().map(|(_, path)| *path));
    check_outputs(&outputs)?;
    for (flag, path) in outputs {
        super::refuse_input(flag, path, args.beside.iter().map(PathBuf::as_path))?;
    }
    let other = args.beside.as_deref().map(QuickReport::read).transpose();
    let other = other.map_err(|problem| InputError::new(format!("--beside {problem}")))?;
    let place = place(args);
    check_place(&place)?;
    let missing = system_disk::missing(&place);
    let is_alike = |other: &&QuickReport| args.space.is_none() && other.model == args.model;
    let beside_gib = other.as_ref().filter(is_alike).map(|other| other.space_gib);
    let quick = Quick { args, command_line, place, missing, seed, unix_s, beside_gib };
    // What is wrong with the settings is told before anything is measured.
    let plan = quick.plan(quick.load(1, SPACE_BYTES, RUN_DEPTHS[1]), quick.times())?;
    CacheDir::reclaim_in(&quick.place).map_err(|error| with_own_argument(error.into()))?;
    let space = quick.space(plan.workload_config().turn_bytes()[1])?;
    super::tell(quick.missing.as_slice());
    let interrupt = super::interrupt()?;
    let Some(report) = quick.report(space, &interrupt).map_err(with_own_argument)? else {
        ringfall_host::stderr::tell(format_args!(
            "interrupted: there is no answer yet, and nothing was written"
        ));
        return Ok(Exit::Interrupted);
    };
    let written = write_form(Some(&output), "the answer", |path| write_json(&report, path));
    let numbered = |other| report.told_from(other, 2);
    let shown = other.as_ref().map_or_else(|| report.clone(), numbered);
    let other = other.map(|other| other.told_from(&report, 1));
    let page = write_form(args.html_output.as_deref(), "the page", |path| {
        write_quick_html(&shown, other.as_ref(), &output, path)
    });
    let metrics = write_form(args.metrics_file.as_deref(), "the metrics", |path| {
        write_output(path, answer_text(&report).as_bytes())
    });
    super::show(&report, args.json, args.quiet, || {
        let mut text = quick_page(&shown, other.as_ref(), &output);
        if written.is_ok() {
            text.push_str(&format!("  answer     {}\n", terminal_path(&output)));
        }
        if let Some(path) = args.html_output.as_deref().filter(|_| page.is_ok()) {
            text.push_str(&format!("             {}\n", terminal_path(path)));
        }
        text
    })?;
    written.and(page).and(metrics)?;
    if report.check_predicted.is_none() {
        ringfall_host::stderr::tell(format_args!(
            "interrupted: the answer stands, without the length of its check and what that is \
             to show"
        ));
    }
    Ok(interrupt.exit_or(Exit::Done))
}

/// Answers for the drive of a temporary directory, as `ringfall run` without flags does.
///
/// # Errors
/// As [`run`].
pub fn in_temporary_directory(command_line: Vec<String>) -> Result<Exit> {
    let place = temporary_directory()?;
    let temporary = std::env::temp_dir();
    ringfall_host::stderr::tell(format_args!(
        "no DIR is given: this answers for the drive of {}; `ringfall quick DIR` does for another",
        terminal_path(&temporary)
    ));
    let Some(place) = place.to_str() else {
        refuse!(
            "the directory for temporary files (TMPDIR), {}, has a name that is not UTF-8: set \
             TMPDIR to another",
            terminal_path(&temporary)
        );
    };
    match super::command_of(["quick", place].map(str::to_owned))? {
        // `ringfall run --output` would be the run with the defaults of the reference.
        Some(Command::Quick(args)) => answered(&args, command_line, "`ringfall quick --output`"),
        _ => refuse!("{} can't be given as a DIR: set TMPDIR to another", temporary.display()),
    }
}

/// Directories that were missing on the way to files that may not come to be: those that are empty
/// at the end are deleted.
struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    fn before<'a>(files: impl Iterator<Item = &'a Path>) -> MadeDirectories {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing = files.flat_map(|file| file.ancestors().skip(1).take_while(is_missing));
        MadeDirectories(missing.map(Path::to_path_buf).collect())
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // One that holds anything stays.
            let _removed = std::fs::remove_dir(directory);
        }
    }
}

/// The directory that was given, or the best one, of which it is told why.
fn place(args: &QuickArgs) -> PathBuf {
    if let Some(given) = &args.directory {
        return given.clone();
    }
    let survey = Survey::look(&Root::machine(), Some(&Room::look()));
    let place = super::machine_of(&survey, None).place;
    if !args.quiet {
        let directory = terminal_path(&place.directory);
        ringfall_host::stderr::tell(format_args!(
            "no DIR is given: {directory} ({})",
            place.reason
        ));
    }
    place.directory
}

/// The directory as `ringfall run` takes it, which refuses a bare name where there is none of that
/// name: this command removes what it made.
fn place_of_run(place: &Path) -> String {
    let place = place.display();
    match place.to_string().contains('/') {
        true => place.to_string(),
        false => format!("./{place}"),
    }
}

/// Checks the place before anything is made there.
fn check_place(place: &Path) -> Result<(), InputError> {
    if is_block_device(place) {
        let place = place.display();
        refuse!(
            "{place} is a block device, and `ringfall quick` measures in a directory: give a DIR \
             on its file system, or find its limits with `ringfall saturate {place}`"
        );
    }
    if place.is_file() {
        refuse!("{} is a file: give a DIR, on the file system to measure", place.display());
    }
    CacheDir::check(place).map_err(|error| {
        InputError::new(format!("{error}: give another DIR, on the file system to measure"))
    })
}

/// The error with DIR, which this command takes, in the place of the flag that runs take.
fn with_own_argument(error: anyhow::Error) -> anyhow::Error {
    let told = told_chain(&error);
    match told.contains("--cache-dir") {
        true => anyhow!(told.replace("--cache-dir", "DIR")),
        false => error,
    }
}

/// Space of the measured run, bytes.
#[derive(Clone, Copy)]
struct Space {
    least_bytes: u64,
    most_bytes: u64,
    /// Whether all of it is used, also on a drive that takes longer to fill it.
    is_fixed: bool,
    first: FirstSpace,
}

/// Space in which the limits are searched, GiB.
fn limits_gib(space: Space) -> f64 {
    gib(space.most_bytes).min(LIMITS_GIB_MAX)
}

/// Warm-up and window of a run, s.
#[derive(Clone, Copy)]
struct Times {
    warmup_s: u64,
    window_s: u64,
}

impl Times {
    /// Whether a further run that begins its warm-up after so many seconds ends in time, where the
    /// answer is to take `time_s`.
    fn end_by(self, begin_s: f64, time_s: u64) -> bool {
        let run_s = (self.warmup_s + self.window_s) as f64;
        begin_s + run_s <= time_s as f64 * FURTHER_RUNS_TIMES
    }
}

/// A measurement.
struct Quick<'a> {
    args: &'a QuickArgs,
    command_line: Vec<String>,
    place: PathBuf,
    /// Warning that the place is made on the system's own disk.
    missing: Option<String>,
    /// Seed of all of its runs.
    seed: u64,
    /// When it began.
    unix_s: u64,
    /// Space of the answer that this one is to stand beside, GiB, where it is for the same model;
    /// none where the space was asked for.
    beside_gib: Option<f64>,
}

impl Quick<'_> {
    fn tell(&self, what: &str) {
        if !self.args.quiet {
            ringfall_host::stderr::tell(format_args!("{what}"));
        }
    }

    /// Time of the search for the drive's limits, s.
    fn limits_s(&self) -> u64 {
        self.args.time * 2 / 5
    }

    /// Times of the measured run, unless it is to be longer.
    fn times(&self) -> Times {
        Times { warmup_s: self.args.time / 12, window_s: self.args.time / 3 }
    }

    /// Times of the measured run where its usual ones bring so few loads that it can't be judged:
    /// as long as is needed, or bearable; none where they bring enough.
    fn longer_times(&self, loads: u64) -> Option<Times> {
        let Times { warmup_s, window_s } = self.times();
        let longer_s = (window_s * LOADS_WANTED).div_ceil(loads.max(1)).min(self.args.time);
        (window_s < longer_s).then_some(Times { warmup_s, window_s: longer_s })
    }

    /// All of it; none when it was interrupted.
    fn report(&self, space: Space, interrupt: &Interrupt) -> Result<Option<QuickReport>> {
        let began = Instant::now();
        let Some(roofline) = saturate::limits(&self.limits_args(space)?, interrupt)? else {
            return Ok(None);
        };
        let yaml = device_yaml(&roofline).map_err(anyhow::Error::msg)?;
        let device = DeviceFile::parse("the drive's limits", &yaml)?;
        let limits = limits_of(&roofline)?;
        let varied = Varied::of(&roofline);
        let space_bytes = self.filled(space, limits.write_gib_per_s);
        let depth = run_depth(&roofline.limits);
        let filling_s = gib(space_bytes) / limits.write_gib_per_s.max(1e-9);
        let trials = Trials { quick: self, device: &device, interrupt, space_bytes, depth };
        self.tell("simulating numbers of users on a drive of these limits…");
        let has_time =
            |times: Times| times.end_by(began.elapsed().as_secs_f64() + filling_s, self.args.time);
        let Some(Settled { found, runs, speed, failure }) = trials.settled(has_time)? else {
            return Ok(None);
        };
        let Some(last) = runs.last() else { return Ok(None) };
        let plan = &last.plan;
        let mut earlier: Vec<QuickTry> = runs.iter().map(|run| run.figures.clone()).collect();
        let Some(QuickTry { measured, predicted }) = earlier.pop() else { return Ok(None) };
        let rule = self.args.slo;
        let mut report = QuickReport {
            ringfall_quick: QUICK_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            place: place_of_run(&self.place),
            drive: device.name.clone(),
            host: Some(host_name()),
            machine: Some(last.result.machine.clone()),
            start_unix_s: self.unix_s as f64,
            model: self.args.model.clone(),
            seed: self.seed,
            load_p95_s: rule.load_p95_s,
            reuse_share: rule.reuse_share,
            space_gib: gib(space_bytes),
            turn_gib: gib(plan.workload_config().turn_bytes_mean()),
            entry_gib_max: Some(gib(plan.workload_config().turn_bytes()[1])),
            time_s: Some(self.args.time),
            check_s: None,
            check_predicted: None,
            check_repeated: Vec::new(),
            limits,
            doubt: varied.as_ref().map(Varied::told),
            limits_deviation: varied.as_ref().map(Varied::deviation),
            speed: Some(speed),
            served_by_speed: found.by_speed,
            served_by_space: found.by_space,
            curve: found.curve,
            earlier,
            measured,
            predicted,
            kernel_share: kernel_share(&last.result),
            run: ["run".to_owned(), place_of_run(&self.place)]
                .into_iter()
                .chain(self.load(plan.users, space_bytes, depth))
                .collect(),
            notes: Vec::new(),
            verdict: String::new(),
            users: None,
        };
        let written_bytes = self.written_bytes(limits.write_gib_per_s);
        let of_space = space.first.told(space_bytes, written_bytes);
        let users = report.deciding_users();
        let deciding = runs.iter().rfind(|run| run.figures.measured.users == users);
        let of_run = deciding.map(|run| run.notes(self.missing.as_ref())).unwrap_or_default();
        let of_cgroup = throttled(&last.result.machine, &roofline);
        report.notes = of_run.into_iter().chain(of_cgroup).chain(failure).chain(of_space).collect();
        let users = report.checked_users();
        let device = trials.device_at(speed);
        let (check_s, predicted) = Trials { device: &device, ..trials }.check(users)?;
        let repeated = CHECK_SPEEDS.map(|apart| {
            let device = trials.device_at(speed * (1.0 + apart));
            Trials { device: &device, ..trials }.check_in(users, check_s)
        });
        let repeated = repeated.into_iter().collect::<Result<Vec<QuickPoint>>>()?;
        // All is measured by now: an interrupt only leaves the check with its least length, and
        // without a prediction.
        if !interrupt.is_set() {
            (report.check_s, report.check_predicted) = (Some(check_s), Some(predicted));
            report.check_repeated = repeated;
        }
        Ok(Some(report.judged()))
    }

    /// Space that may be used, where the largest entry has so many bytes.
    fn space(&self, entry_bytes: u64) -> Result<Space, InputError> {
        let free_bytes = free_bytes(&self.place);
        let most_bytes = free_bytes.map_or(u64::MAX, |free| free / 100 * FREE_PERCENT);
        let [least, usual] = SPACE_ENTRIES.map(|entries| (entry_bytes as f64 * entries) as u64);
        // Whole MiB, as the command of the check has them.
        let whole_bytes = |gib: f64| (gib * GIB as f64) as u64 / MIB * MIB;
        let other_bytes = self.beside_gib.map(whole_bytes);
        let beside_bytes = other_bytes.filter(|bytes| (least..=most_bytes).contains(bytes));
        let given_bytes = self.args.space.map(|given| whole_bytes(given.0));
        let fixed_bytes = given_bytes.or(beside_bytes);
        let usual_bytes = SPACE_BYTES.max(usual);
        let wanted_bytes = fixed_bytes.unwrap_or(usual_bytes.min(most_bytes));
        let (place, model) = (self.place.display(), &self.args.model);
        let too_little = format!(
            "too little for entries of {model}, the largest of which take {}",
            human(entry_bytes)
        );
        let free = human(free_bytes.unwrap_or(0));
        let most = format!("{place} has {free} free, of which at most {FREE_PERCENT} % are used");
        if most_bytes < least {
            refuse!(
                "{most}, {too_little}: free {} there, or give another DIR or a smaller --model",
                human((least - most_bytes) / FREE_PERCENT * 100)
            );
        }
        if wanted_bytes < least {
            refuse!(
                "--space {}: {too_little}: give {} at least, or a smaller --model",
                human(wanted_bytes),
                human(least)
            );
        }
        if wanted_bytes > most_bytes {
            // Not rounded up, as what is told must be taken.
            let most_gib = (gib(most_bytes) * 100.0).floor() / 100.0;
            refuse!(
                "--space {}: {most}, as others may write there, and a file system that is nearly \
                 full is slow: give --space {most_gib:.2}GiB or less, free space there, or give \
                 another DIR",
                human(wanted_bytes)
            );
        }
        let first = FirstSpace {
            bytes: given_bytes.or(other_bytes).unwrap_or(usual_bytes),
            is_of_other: other_bytes.is_some(),
            room_bytes: most_bytes,
        };
        let is_fixed = fixed_bytes.is_some();
        Ok(Space { least_bytes: least, most_bytes: wanted_bytes, is_fixed, first })
    }

    /// Space of the measured run: what was asked for or the other answer has, or else what the
    /// drive writes in a sixth of the time.
    fn filled(&self, space: Space, write_gib_per_s: f64) -> u64 {
        if space.is_fixed {
            return space.most_bytes;
        }
        let written_bytes = self.written_bytes(write_gib_per_s);
        let bytes = space.most_bytes.min(written_bytes) / SPACE_STEP_BYTES * SPACE_STEP_BYTES;
        bytes.max(space.least_bytes.div_ceil(MIB) * MIB)
    }

    /// Bytes that a drive of that speed writes in a sixth of the time.
    fn written_bytes(&self, write_gib_per_s: f64) -> u64 {
        (write_gib_per_s * self.args.time as f64 / 6.0 * GIB as f64) as u64
    }

    /// The search for limits, in the same space.
    fn limits_args(&self, space: Space) -> Result<SaturateArgs, InputError> {
        let size_gib = limits_gib(space);
        let words = [
            "saturate".to_owned(),
            format!("--time-limit={}", self.limits_s()),
            format!("--size-gb={size_gib}"),
            // Entries are moved in large I/Os, and loads run beside stores.
            "--no-iops".to_owned(),
            format!("--read-percent=100,0,{MIXED_READ_PERCENT}"),
        ];
        let Some(Command::Saturate(args)) = super::command_of(words)? else {
            unreachable!("these are flags of saturate")
        };
        let cache_dir = Some(Places(vec![self.place.clone()]));
        let (quiet, json) = (self.args.quiet, self.args.json);
        Ok(SaturateArgs { cache_dir, quiet, json, ..args })
    }

    /// Flags of a run that put this load on the drive.
    fn load(&self, users: u32, space_bytes: u64, depth: u32) -> Vec<String> {
        vec![
            format!("--model={}", self.args.model),
            format!("{USERS_FLAG}{users}"),
            space_flag(gib(space_bytes)),
            format!("--seed={}", self.seed),
            "--cpu-mem-gb=0".to_owned(),
            "--arrival=closed".to_owned(),
            format!("{GENERATION_FLAG}realistic"),
            "--decode-reads=once".to_owned(),
            "--history-reads=last".to_owned(),
            "--preallocate=write".to_owned(),
            format!("--queue-depth={depth}"),
        ]
    }

    /// The plan of a run that puts this load on the drive, with its warm-up and window.
    fn plan(&self, load: Vec<String>, times: Times) -> Result<Plan, InputError> {
        let Times { warmup_s, window_s } = times;
        let mut flags = load;
        flags.push("--quiet".to_owned());
        flags.push(format!("--warmup={warmup_s}"));
        flags.push(format!("--duration={window_s}"));
        flags.push("--output=/dev/null".to_owned());
        let mut args = run_args(flags)?;
        args.options.cache_dir = Some(Places(vec![self.place.clone()]));
        super::plan_of(&args)
    }
}

/// Simulated runs.
struct Trials<'a> {
    quick: &'a Quick<'a>,
    device: &'a DeviceFile,
    interrupt: &'a Interrupt,
    space_bytes: u64,
    /// I/Os in flight on a shard.
    depth: u32,
}

/// Users that the simulated drive serves.
struct Found {
    curve: Vec<QuickPoint>,
    by_speed: Served,
    by_space: Served,
}

impl Found {
    /// Users that are tried on the drive: those whom it serves by simulation, and one where it
    /// serves nobody.
    fn tried(&self) -> u32 {
        self.by_speed.users.min(self.by_space.users).max(1)
    }
}

impl Trials<'_> {
    /// The drive, so many times as quick as its limits.
    fn device_at(&self, speed: f64) -> DeviceFile {
        DeviceFile { model: self.device.model.times_as_quick(speed), ..self.device.clone() }
    }

    /// Users that the drive's speed and the space serve, and the figures of those and of these
    /// others; none when it was interrupted.
    fn found(&self, others: impl Iterator<Item = u32>) -> Result<Option<Found>> {
        let rule = self.quick.args.slo;
        let mut curve: Vec<QuickPoint> = Vec::new();
        let by_speed = self.search(&mut curve, |point| {
            point.load_p95_s.is_none_or(|load| is_load_quick(load, rule.load_p95_s))
        })?;
        let by_space = self.search(&mut curve, |point| is_reuse_sure(point, rule.reuse_share))?;
        let Some((by_speed, by_space)) = by_speed.zip(by_space) else { return Ok(None) };
        let mut found = Found { curve, by_speed, by_space };
        self.doubt(&mut found)?;
        for users in others.chain([found.tried()]) {
            self.add_to(&mut found.curve, users)?;
        }
        Ok((!self.interrupt.is_set()).then_some(found))
    }

    /// Largest number of users that `is_served`, by doubling and halving; none when it was
    /// interrupted. What is tried goes to `curve`, and what is there already is not tried again.
    fn search(
        &self,
        curve: &mut Vec<QuickPoint>,
        is_served: impl Fn(&QuickPoint) -> bool,
    ) -> Result<Option<Served>> {
        let mut served = 0;
        let mut too_many: Option<u32> = None;
        loop {
            let next = match too_many {
                None => Some((served * 2).max(1)).filter(|_| served < USERS_MAX),
                Some(most) => users_between(served, most),
            };
            let Some(users) = next else { break };
            if self.interrupt.is_set() {
                return Ok(None);
            }
            let at = self.add_to(curve, users)?;
            match is_served(&curve[at]) {
                true => served = users,
                false => too_many = Some(users),
            }
        }
        Ok(Some(Served { users: served, is_largest_tried: too_many.is_none() }))
    }

    /// Place in the curve of so many users, whose figures are added where they are not there yet.
    fn add_to(&self, curve: &mut Vec<QuickPoint>, users: u32) -> Result<usize> {
        let at = curve.partition_point(|point| point.users < users);
        if curve.get(at).is_none_or(|point| point.users != users) {
            curve.insert(at, self.point(users)?);
        }
        Ok(at)
    }

    /// Figures of so many users: with as much space as they take, but for what they find again in
    /// the space of the measured run.
    fn point(&self, users: u32) -> Result<QuickPoint> {
        let requests_s = SIMULATED_REQUESTS * REQUEST_S / u64::from(users);
        let window_s = requests_s.clamp(SIMULATED_S[0], SIMULATED_S[1]);
        let times = Times { warmup_s: window_s / 5, window_s };
        let unbounded = QuickPoint::of(&Document::of(&self.coarse(users, PLENTY_BYTES, times)?));
        let reuse_share = self.coarse(users, self.space_bytes, times)?.cache.reuse_share();
        Ok(QuickPoint { reuse_share, ..unbounded })
    }

    /// Worsens the figures of as many users as are served until the check of an answer for them is
    /// to bear it out: it is shorter than what the curve is of, and begins empty. A single user
    /// stays, as there is nobody to leave out.
    fn doubt(&self, found: &mut Found) -> Result<()> {
        let rule = self.quick.args.slo;
        let is_slow = |point: &QuickPoint| {
            point.load_p95_s.is_some_and(|load| !is_load_quick(load, rule.load_p95_s))
        };
        loop {
            let users = found.by_speed.users.min(found.by_space.users);
            if users <= 1 || self.interrupt.is_set() {
                return Ok(());
            }
            let (_, check) = self.check(users)?;
            let share = check.reuse_share;
            let is_lost = share.is_some_and(|share| !is_reuse_enough(share, rule.reuse_share));
            if !is_slow(&check) && !is_lost {
                return Ok(());
            }
            let at = self.add_to(&mut found.curve, users)?;
            let is_served =
                |point: &&QuickPoint| !is_slow(point) && is_reuse_sure(point, rule.reuse_share);
            let fewer = found.curve[..at].iter().rev().find(is_served);
            let fewer =
                Served { users: fewer.map_or(0, |point| point.users), is_largest_tried: false };
            let point = &mut found.curve[at];
            if is_slow(&check) {
                (point.load_p95_s, found.by_speed) = (check.load_p95_s, fewer);
            }
            if is_lost {
                (point.reuse_share, found.by_space) = (share, fewer);
            }
        }
    }

    /// Time that the check of an answer of so many users takes, s, and what it is to bring.
    fn check(&self, users: u32) -> Result<(u64, QuickPoint)> {
        let check_s = needed_s(|window_s| {
            let run = self.run_empty(users, window_s)?;
            let requests = &run.requests;
            Ok(requests.load.count().min(requests.completed()))
        })?;
        Ok((check_s, self.check_in(users, check_s)?))
    }

    /// Figures that the check of an answer that takes so long is to bring.
    fn check_in(&self, users: u32, check_s: u64) -> Result<QuickPoint> {
        let check = self.run_empty(users, check_s.max(CHECK_S_MIN).next_multiple_of(60))?;
        Ok(QuickPoint::of(&Document::of(&check)))
    }

    /// A run from its beginning.
    fn run_empty(&self, users: u32, window_s: u64) -> Result<RunResult> {
        self.coarse(users, self.space_bytes, Times { warmup_s: 0, window_s })
    }

    /// A run of large I/Os, which takes less time to simulate.
    fn coarse(&self, users: u32, space_bytes: u64, times: Times) -> Result<RunResult> {
        let mut plan = self.quick.plan(self.quick.load(users, space_bytes, self.depth), times)?;
        // As few in flight as the drive needs would be too few, were they fewer.
        let fits = |ios: &u32| {
            plan.queue_depth.is_multiple_of(*ios) && plan.queue_depth >= ios * RUN_DEPTHS[0]
        };
        let ios = (1..=SIMULATED_IOS).rev().find(fits).unwrap_or(1);
        plan.io_size_bytes *= ios;
        plan.queue_depth /= ios;
        self.simulated(&plan)
    }

    fn simulated(&self, plan: &Plan) -> Result<RunResult> {
        simulated::run(plan, self.device, Vec::new(), self.interrupt)
    }
}

/// Time in which a run brings as many loads and finished requests as are wanted, s: `brought` has
/// the smaller of both numbers for a run of so many seconds.
///
/// # Errors
/// That of `brought`.
fn needed_s(brought: impl Fn(u64) -> Result<u64>) -> Result<u64> {
    let mut window_s = CHECK_S_MIN;
    loop {
        let had = brought(window_s)?;
        let needed_s = (window_s * LOADS_WANTED).div_ceil(had.max(1));
        if had >= LOADS_WANTED || window_s >= CHECK_S_MAX {
            return Ok(needed_s.min(CHECK_S_MAX));
        }
        window_s = (needed_s.div_ceil(60) * 60).min(CHECK_S_MAX);
    }
}

/// Space that no simulated run fills.
const PLENTY_BYTES: u64 = 1 << 46;

#[cfg(test)]
mod tests {
    use ringfall_core::error::SetupError;
    use ringfall_report::quick::RUN_DEFAULTS;

    use super::*;

    #[test]
    fn a_further_run_ends_within_three_times_the_time_or_is_not_made() {
        let [usual, long] = [20, 60].map(|window_s| Times { warmup_s: 5, window_s });
        let ends =
            [usual, long].map(|times| [70.0, 130.0].map(|begin_s| times.end_by(begin_s, 60)));
        assert_eq!(ends, [[true, true], [true, false]]);
        assert!(!usual.end_by(155.1, 60) && usual.end_by(155.0, 60));
    }

    #[test]
    fn the_run_that_checks_an_answer_takes_its_directory() {
        for (place, expected) in [("kv", "./kv"), ("a/kv", "a/kv"), ("/mnt/kv", "/mnt/kv")] {
            assert_eq!(place_of_run(Path::new(place)), expected);
        }
    }

    #[test]
    fn the_check_leaves_out_what_a_run_with_a_directory_has_anyway() {
        let settings = |flags: &[&str]| {
            let words = ["./kv", "--model=tiny-1b"].iter().chain(flags);
            let args = run_args(words.map(|word| (*word).to_owned())).unwrap();
            let mut settings = super::super::plan_of(&args).unwrap().effective;
            // It is called after the second in which it was asked for.
            settings.output = None;
            serde_json::to_value(&settings).unwrap()
        };
        assert_eq!(settings(&RUN_DEFAULTS), settings(&[]));
    }

    /// Half of `--time 10m` brought 15 loads where 20 are needed.
    #[test]
    fn a_check_brings_what_it_is_judged_by_and_a_quarter_more() {
        let needed = |brought: fn(u64) -> u64| needed_s(|s| Ok(brought(s))).unwrap();
        // A load each 20 s, and none in the first half minute.
        let slow = |s: u64| (s - 30) / 20;
        assert_eq!(needed(slow), 536);
        assert!(slow(needed(slow)) >= LOADS_WANTED);
        assert_eq!(needed(|s| s), 25);
        assert_eq!(needed(|_| 0), CHECK_S_MAX);
    }

    /// Its remedy was a flag that the command does not take.
    #[test]
    fn a_place_that_is_refused_is_answered_with_the_argument_of_this_command() {
        for (place, what) in [
            ("/dev/full", "/dev/full belongs to the system: give another DIR"),
            ("/proc/x", "/proc/x belongs to the system: give another DIR"),
        ] {
            let told = check_place(Path::new(place)).unwrap_err().to_string();
            assert!(told.starts_with(what) && !told.contains("--cache-dir"), "{told}");
        }
        assert!(check_place(&std::env::temp_dir()).is_ok());
        let told = check_place(Path::new("/etc/passwd")).unwrap_err().to_string();
        assert!(told.starts_with("/etc/passwd is a file: give a DIR"), "{told}");
        let in_use = SetupError::StoreInUse { path: "/mnt/kv".into() };
        let told = with_own_argument(in_use.into()).to_string();
        assert!(told.contains("give DIR another directory"), "{told}");
    }
}
