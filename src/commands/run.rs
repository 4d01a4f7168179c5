//! `ringfall run`: from a plan to a result.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use ringfall_engine::clock::{Nanos, SECOND, monotonic_now};
use ringfall_engine::device::is_block_device;
use ringfall_engine::load::LoadError;
use ringfall_engine::shard::ShardFacts;
use ringfall_engine::tier::Tier;
use ringfall_workloads::WorkloadConfig;
use ringfall_workloads::source::ValidationTrace;

use crate::blocktrace::BlockTrace;
use crate::config::{self, InputError, Plan, RooflineFrom, Traffic};
use crate::escape::terminal_path;
use crate::exit::Exit;
use crate::facts::{
    KernelSecond, TierState, TimelineDirection, TimelineSecond, TimelineTier, WatchdogReport,
    Window,
};
use crate::host::{
    BlockCounters, BlockDelta, Cost, CostSnapshot, Launcher, Machine, is_strange_pipe, is_watched,
    open_to_write,
};
use crate::interrupt::Interrupt;
use crate::results::{Document, REFUSED_SHARE_MAX, RunResult, judge, warnings_of, write_json};
use crate::run::{self, Ending, Load, Observer, Phase, Progress, RunOutcome, WatchdogFigures};
use crate::saturate::Roofline;
use crate::show::progress::ProgressLine;
use crate::show::{
    Banner, Named, Style, fio_job, print_banner, print_summary, write_html, write_sheet,
};
use crate::source::{self, OpenSource, Reading, SourceFacts};
use crate::store::{Place, Store};

mod document;
mod prepare;
mod ranks;
mod settings;
pub(super) mod simulated;
use document::{begun_unix_s, document_of};
use prepare::{Prepared, Told};
pub(super) use settings::cores_near;
mod trials;

/// Runs the plan and writes its results.
///
/// # Errors
/// When the run could not begin or could not go on, or its results could not be written.
pub fn run(plan: &Plan, command_line: Vec<String>) -> Result<Exit> {
    let interrupt = || Interrupt::install().context("no handler for Ctrl-C can be installed");
    if plan.io_trace_log.is_some() {
        return simulated::logical(plan, command_line);
    }
    if plan.trials > 1 {
        return trials::run(plan, command_line, &interrupt);
    }
    check_outputs(plan)?;
    check_device_may_be_destroyed(plan)?;
    tell_advice(plan);
    // Before the handler is there, Ctrl-C ends the reading with the process.
    let sources = Sources::open(plan, &Reading::new(|| false, !plan.quiet))?;
    let result = measure(plan, sources, command_line, &interrupt()?, !plan.quiet)?;
    let document = document_of(&result.0);
    let written = write_results(plan, &document);
    // What was measured is shown also when it could not be kept.
    unless_reader_left(show(plan, &result.0, &document))?;
    written?;
    result.1?;
    Ok(exit_of(&result.0))
}

/// Says what of the plan can't be met as it may have been meant.
fn tell_advice(plan: &Plan) {
    super::tell(&config::advice(plan));
}

/// What a run reads before it begins.
struct Sources {
    opened: OpenSource,
    validation: Option<ValidationTrace>,
    roofline: Option<(String, Roofline)>,
}

impl Sources {
    fn open(plan: &Plan, reading: &Reading) -> Result<Sources> {
        let validation = source::open_validation(plan, reading)?;
        if let (Traffic::ShareGpt { path, .. }, false) = (&plan.traffic, plan.quiet) {
            // A large one takes a minute to count.
            unless_reader_left(
                writeln!(output(plan), "reading {}…", terminal_path(path)).map_err(Into::into),
            )?;
        }
        let roofline = match &plan.roofline {
            Some(RooflineFrom::File(path)) => {
                Some((path.display().to_string(), Roofline::read(path)?))
            }
            Some(RooflineFrom::Fresh) | None => None,
        };
        let opened = source::open(plan, reading)?;
        let files = opened.facts.files.iter().map(Path::new);
        let mut inputs: Vec<&Path> = files.chain(plan.validation_trace.as_deref()).collect();
        // A raw device, that is.
        inputs.extend(plan.cache_dir.as_deref());
        if let Some(RooflineFrom::File(path)) = &plan.roofline {
            inputs.push(path);
        }
        for (flag, output) in all_outputs(plan) {
            super::refuse_input(flag, output, inputs.iter().copied())?;
        }
        Ok(Sources { opened, validation, roofline })
    }
}

/// Runs the plan once: what was measured, and whether cleaning up worked.
fn measure(
    plan: &Plan,
    sources: Sources,
    command_line: Vec<String>,
    interrupt: &Interrupt,
    with_banner: bool,
) -> Result<(RunResult, Result<()>)> {
    let workload = Arc::new(plan.workload_config());
    let mut settings = settings::engine(plan);
    settings.start = ranks::start(plan, settings.start)?;
    let mut teller = Teller::new(plan, &workload, interrupt);
    teller.with_banner = with_banner;
    let Sources { opened, validation, roofline } = sources;
    let load = Load { config: workload, source: opened.workload, rows: opened.rows };
    let outcome = run::run(&settings, load, interrupt, &mut teller)?;
    let block_trace = teller.trace.take().map(|trace| trace.and_then(BlockTrace::finish));
    unless_reader_left(
        teller.progress.as_mut().map_or(Ok(()), ProgressLine::finish).map_err(Into::into),
    )?;
    let (mut result, cleaned) = result_of(plan, command_line, &teller, outcome);
    result.source = opened.facts;
    result.validation = validation;
    result.block_trace = block_trace;
    result.roofline = result.roofline.or(roofline);
    result.warnings = warnings_of(&result);
    Ok((result, cleaned))
}

/// A reader that has seen enough (`| head`) is no failure: the results are in their file.
fn unless_reader_left(told: Result<()>) -> Result<()> {
    match told {
        Err(error)
            if error.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
                == Some(std::io::ErrorKind::BrokenPipe) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Files that the run writes, by flag.
pub(super) fn all_outputs(plan: &Plan) -> impl Iterator<Item = (&'static str, &Path)> {
    let log = plan.io_trace_log.as_deref().map(|path| ("--io-trace-log", path));
    outputs(plan).chain(log)
}

/// Where results go, by flag.
fn outputs(plan: &Plan) -> impl Iterator<Item = (&'static str, &Path)> {
    let more = [
        ("--xlsx-output", &plan.xlsx_output),
        ("--html-output", &plan.html_output),
        ("--fio-output", &plan.fio_output),
    ];
    let more = more.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    std::iter::once(("--output", plan.output.as_path())).chain(more)
}

/// Two results in one file: the second would overwrite the first.
pub(super) fn check_outputs_apart(outputs: &[(&str, &Path)]) -> Result<(), InputError> {
    for (place, (flag, path)) in outputs.iter().enumerate() {
        let mut others = outputs[place + 1..].iter();
        if let Some((other, _)) = others.find(|(_, other)| super::is_same_file(path, other)) {
            let what = format!("{flag} and {other} are the same file, {}", path.display());
            return Err(InputError::new(what));
        }
    }
    Ok(())
}

/// Results that can't be written are found before the run, not after it.
fn check_outputs(plan: &Plan) -> Result<()> {
    check_outputs_apart(&all_outputs(plan).collect::<Vec<_>>())?;
    all_outputs(plan).try_for_each(|(flag, path)| check_output_writable(flag, path))
}

/// Writes all that was asked for; the first failure is told when all was tried.
fn write_results(plan: &Plan, document: &Document) -> Result<()> {
    let told = |path: &Path| format!("the results can't be written to {}", path.display());
    let json = write_json(document, &plan.output).with_context(|| told(&plan.output));
    let sheet = plan
        .xlsx_output
        .as_deref()
        .map_or(Ok(()), |path| write_sheet(document, path).with_context(|| told(path)));
    let page = plan.html_output.as_deref().map_or(Ok(()), |path| {
        let named = Named { name: plan.output.display().to_string(), document: document.clone() };
        write_html(&[named], path).with_context(|| told(path))
    });
    let job = plan
        .fio_output
        .as_deref()
        .map_or(Ok(()), |path| write_fio_job(document, path).with_context(|| told(path)));
    json.and(sheet).and(page).and(job)
}

/// Writes the run as a fio job.
pub(super) fn write_fio_job(document: &Document, path: &Path) -> Result<()> {
    let nothing = || "; the run did no I/O that fio could repeat\n".to_owned();
    let job = fio_job(document).unwrap_or_else(nothing);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    Ok(std::fs::write(path, job)?)
}

/// A flag that is missing is a mistake of usage, found before anything is opened.
fn check_device_may_be_destroyed(plan: &Plan) -> Result<()> {
    let device = plan.cache_dir.as_deref().filter(|path| is_block_device(path));
    match device {
        Some(path) if !plan.destroy_device_contents => Err(InputError {
            sentences: vec![format!(
                "--cache-dir {} is a block device, and a run would write over it: give \
                 --destroy-device-contents if nothing on it is needed",
                path.display()
            )],
        }
        .into()),
        _ => Ok(()),
    }
}

pub(super) fn check_output_writable(flag: &str, path: &Path) -> Result<()> {
    let remedy = format!("give {flag} a file in a directory that you may write to");
    let told = || format!("the results can't be written to {}: {remedy}", path.display());
    anyhow::ensure!(!path.is_dir(), "{} is a directory: {remedy}", path.display());
    if is_strange_pipe(path) {
        return Err(InputError::new(format!(
            "{flag} {} is a named pipe, whose reader may be gone when the results are there: give \
             a plain file, or /dev/stdout for a pipe",
            path.display()
        ))
        .into());
    }
    if path.exists() && !path.is_file() {
        open_to_write(path).with_context(told)?;
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(told)?;
    let probe = parent.join(format!(".ringfall-probe-{}", std::process::id()));
    std::fs::write(&probe, b"").with_context(told)?;
    std::fs::remove_file(&probe).with_context(told)
}

fn exit_of(result: &RunResult) -> Exit {
    if result.interrupted {
        return Exit::Interrupted;
    }
    let failed = result.failure.is_some()
        || !result.errors.is_empty()
        || result.engine.verify.blocks_bad > 0
        || result.requests.refused_share() > REFUSED_SHARE_MAX
        || result.population_failed > 0;
    let unhealthy = result.plan.fail_on_health && judge(result).overall_status == "FAIL";
    if failed || unhealthy { Exit::Failed } else { Exit::Done }
}

fn show(plan: &Plan, result: &RunResult, document: &Document) -> Result<()> {
    if plan.json {
        super::print_json(document)?;
    }
    if !plan.quiet {
        let mut out = output(plan);
        print_summary(&mut *out, style(plan), result)?;
        let mut label = "results";
        for (_, path) in outputs(plan) {
            writeln!(out, "  {label:<12} {}", terminal_path(path))?;
            label = "";
        }
    }
    Ok(())
}

/// What people read goes to standard output, unless the JSON does.
fn output(plan: &Plan) -> Box<dyn Write> {
    if plan.json { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) }
}

fn is_terminal(plan: &Plan) -> bool {
    match plan.json {
        true => is_watched(&std::io::stderr()),
        false => is_watched(&std::io::stdout()),
    }
}

fn style(plan: &Plan) -> Style {
    Style::for_output(is_terminal(plan))
}

/// Longest run whose kernel counters are read four times a second: the results stay small.
const FINE_SAMPLING_MAX_S: u64 = 600;

/// Tells the user, and samples what the machine says at the window's edges.
struct Teller<'a> {
    plan: &'a Plan,
    token_bytes: u64,
    with_banner: bool,
    progress: Option<ProgressLine<Box<dyn Write>>>,
    interrupt: &'a Interrupt,
    /// Where progress of the preallocation goes, and when that began.
    giving_space: Option<(Told, Nanos)>,
    prepared: Prepared,
    trace: Option<Result<BlockTrace, String>>,
    machine: Machine,
    facts: Vec<ShardFacts>,
    storage_bytes: u64,
    /// Readings of the kernel's counters, a quarter of a second apart; in a long run a second.
    series: Vec<(Nanos, BlockCounters)>,
    before: Option<(Option<BlockCounters>, Option<CostSnapshot>)>,
    after: Option<(Option<BlockCounters>, Option<CostSnapshot>, u64)>,
    /// The counters of every device below the store, at the window's two edges.
    chain: [Vec<Option<BlockCounters>>; 2],
}

impl<'a> Teller<'a> {
    fn new(plan: &'a Plan, workload: &WorkloadConfig, interrupt: &'a Interrupt) -> Teller<'a> {
        let live = is_terminal(plan);
        Teller {
            plan,
            token_bytes: workload.model.bytes_per_token().unwrap_or(0) / workload.tensor_parallel,
            with_banner: !plan.quiet,
            progress: (!plan.quiet).then(|| ProgressLine::new(output(plan), live)),
            interrupt,
            giving_space: None,
            prepared: Prepared::default(),
            trace: None,
            machine: Machine::default(),
            facts: Vec::new(),
            storage_bytes: 0,
            series: Vec::new(),
            before: None,
            after: None,
            chain: Default::default(),
        }
    }

    /// Reads the kernel's counters, often enough to lay them over our seconds.
    fn sample(&mut self, now: Nanos) {
        let period = match self.plan.duration_s {
            0..=FINE_SAMPLING_MAX_S => SECOND / 4,
            _ => SECOND,
        };
        let due = self.series.last().is_none_or(|(last, _)| now >= last + period);
        if due && let Some(counters) = self.counters() {
            self.series.push((now, counters));
        }
    }

    /// What the kernel counted between each two readings.
    fn kernel_seconds(&self) -> Vec<KernelSecond> {
        let Some((begin, _)) = self.series.first().copied() else { return Vec::new() };
        let seconds = |ns: Nanos| ns as f64 / SECOND as f64;
        let rows = self.series.windows(2).map(|pair| {
            let ((before, from), (after, to)) = (pair[0], pair[1]);
            KernelSecond {
                end_s: seconds(after - begin),
                seconds: seconds(after - before),
                delta: BlockDelta::between("", from, to),
                in_flight: to.in_flight,
            }
        });
        rows.collect()
    }

    fn chain_counters(&self) -> Vec<Option<BlockCounters>> {
        let links = &self.machine.device_chain;
        links.iter().map(|link| BlockCounters::read(&link.numbers)).collect()
    }

    /// What the kernel counted in the window, for every device below the store.
    fn chain_deltas(&self) -> Vec<BlockDelta> {
        let [before, after] = &self.chain;
        let pairs = before.iter().zip(after).zip(&self.machine.device_chain);
        pairs
            .filter_map(|((before, after), link)| {
                Some(BlockDelta::between(&link.name, (*before)?, (*after)?))
            })
            .collect()
    }

    fn counters(&self) -> Option<BlockCounters> {
        BlockCounters::read(&self.machine.device.as_ref()?.numbers)
    }
}

impl Observer for Teller<'_> {
    fn giving_space(&mut self, done_bytes: u64, all_bytes: u64) {
        let plan = self.plan;
        let (told, since) = self.giving_space.get_or_insert_with(|| {
            let out = (!plan.quiet).then(|| output(plan));
            (Told::new(out, is_terminal(plan)), monotonic_now())
        });
        told.progress(&prepare::space_given(done_bytes, all_bytes, monotonic_now() - *since));
    }

    fn prepare(&mut self, store: &Store) -> Result<(), LoadError> {
        if let Some((mut told, _)) = self.giving_space.take() {
            told.forget();
        }
        let out = (!self.plan.quiet).then(|| output(self.plan));
        let mut told = Told::new(out, is_terminal(self.plan));
        self.prepared = prepare::prepare(self.plan, store, self.interrupt, &mut told)?;
        if self.plan.latency_tracing && !self.interrupt.is_set() {
            self.trace = Some(prepare::trace(store, &mut told));
        }
        Ok(())
    }

    fn opened(&mut self, store: &Store, facts: &[ShardFacts]) {
        let directory: PathBuf = store.path().to_path_buf();
        self.machine = Machine::look(&directory);
        self.facts = facts.to_vec();
        self.storage_bytes = store.capacity_bytes();
        if !self.with_banner {
            return;
        }
        let mount = self.machine.mount.as_ref();
        let device = self.machine.device.as_ref();
        let raw = "raw device".to_owned();
        let file_system = match store.place {
            Place::Directory(_) => mount.map(|m| &m.file_system),
            Place::Device(_) => Some(&raw),
        };
        let below = [file_system, device.map(|d| &d.name)];
        let banner = Banner {
            plan: self.plan,
            directory: directory.display().to_string(),
            below: below.into_iter().flatten().cloned().collect::<Vec<_>>().join(" on "),
            storage_bytes: self.storage_bytes,
            buffer_bytes: facts.iter().map(|facts| facts.buffer_bytes).sum(),
            token_bytes: self.token_bytes,
            reclaimed_bytes: store.reclaimed_bytes(),
        };
        // A closed pipe must not end a run whose results go to a file.
        let _told = print_banner(&mut *output(self.plan), style(self.plan), &banner);
    }

    fn window_began(&mut self) {
        self.sample(monotonic_now());
        self.chain[0] = self.chain_counters();
        self.before = Some((self.counters(), CostSnapshot::now()));
    }

    fn window_ended(&mut self) {
        self.after = Some((self.counters(), CostSnapshot::now(), monotonic_now()));
        self.chain[1] = self.chain_counters();
        if let Some(Ok(trace)) = &mut self.trace {
            trace.end();
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if progress.phase == Phase::Measure {
            self.sample(monotonic_now());
        }
        if let Some(line) = &mut self.progress {
            // As for the banner.
            let _told = line.show(monotonic_now(), progress);
        }
    }
}

/// The result, and whether cleaning up worked.
fn result_of(
    plan: &Plan,
    command_line: Vec<String>,
    teller: &Teller<'_>,
    outcome: RunOutcome,
) -> (RunResult, Result<()>) {
    let ended = monotonic_now();
    let (before, after) = (teller.before.as_ref(), teller.after.as_ref());
    let kernel_seconds = teller.kernel_seconds();
    let kernel = before.zip(after).and_then(|(before, after)| {
        let name = &teller.machine.device.as_ref()?.name;
        Some(BlockDelta::between(name, before.0?, after.0?))
    });
    let cost = before.zip(after).and_then(|(before, after)| Some(before.1?.until(&after.1?)));
    let seconds = (outcome.window.1 - outcome.window.0) as f64 / SECOND as f64;
    let capacities = [plan.gpu_memory_bytes, plan.cpu_memory_bytes, teller.storage_bytes];
    let tiers = Tier::ALL.map(|tier| TierState {
        entries: outcome.tiers[tier.index()].entries,
        used_bytes: outcome.tiers[tier.index()].bytes,
        capacity_bytes: capacities[tier.index()],
    });
    let timeline = timeline_of(plan, &outcome);
    let result = RunResult {
        plan: plan.clone(),
        command_line,
        machine: teller.machine.clone(),
        launcher: Launcher::look(),
        window: Window {
            start_unix_s: begun_unix_s(outcome.window.0),
            seconds,
            warmup_seconds: plan.warmup_s as f64,
            drain_seconds: after.map_or(0.0, |after| (ended - after.2) as f64 / SECOND as f64),
        },
        interrupted: outcome.ending == Ending::Interrupted,
        failure: match outcome.ending {
            Ending::Failed(sentence) => Some(sentence),
            Ending::Complete | Ending::Interrupted => None,
        },
        engine: *outcome.metrics,
        requests: outcome.totals.requests,
        cache: outcome.totals.cache,
        tiers,
        timeline,
        allocation_wait: outcome.totals.allocation_wait,
        workload: outcome.workload,
        autoscale: outcome.autoscale,
        source: SourceFacts::default(),
        feed: outcome.feed,
        validation: None,
        space: outcome.space,
        facts: teller.facts.clone(),
        errors: outcome.errors,
        population_failed: outcome.population_failed,
        watchdog: watchdog_report(outcome.watchdog),
        kernel,
        kernel_chain: teller.chain_deltas(),
        kernel_seconds,
        block_trace: None,
        simulation: None,
        precondition: teller.prepared.precondition.clone(),
        roofline: teller.prepared.roofline.clone(),
        cost: cost.unwrap_or_else(|| Cost {
            peak_rss_bytes: crate::host::peak_rss_bytes(),
            ..Cost::default()
        }),
        warnings: Vec::new(),
    };
    (result, outcome.cleanup.map_err(anyhow::Error::from))
}

fn watchdog_report(figures: WatchdogFigures) -> WatchdogReport {
    WatchdogReport {
        stalls: figures.stalls,
        nudges: figures.nudges,
        heartbeat_gap_max_ns: figures.heartbeat_gap_max_ns,
        heartbeats: figures.heartbeats,
    }
}

fn timeline_of(plan: &Plan, outcome: &RunOutcome) -> Vec<TimelineSecond> {
    let mut end_s = 0.0;
    let users_of = |index: usize| outcome.users.get(index).or(outcome.users.last()).copied();
    let rows = outcome.timeline.seconds().iter().enumerate().map(|(index, second)| {
        let seconds = second.length_ns as f64 / SECOND as f64;
        end_s += seconds;
        let direction = |tier: Tier, index: usize| {
            let figures = &second.tiers[tier.index()][index];
            let us = |place: usize| figures.quantiles_ns.map(|quantiles| quantiles[place] / 1_000);
            TimelineDirection {
                bytes: figures.bytes,
                operations: figures.operations,
                latency_p50_us: us(0),
                latency_p95_us: us(1),
                latency_p99_us: us(2),
            }
        };
        TimelineSecond {
            end_s,
            seconds,
            tiers: Tier::ALL
                .map(|tier| TimelineTier { read: direction(tier, 0), write: direction(tier, 1) }),
            io: second.io,
            gauges: second.gauges,
            users: users_of(index).unwrap_or(plan.users),
            requests_completed: second.requests.completed,
            generated_tokens: second.requests.tokens,
            hits: second.requests.hits,
            misses: second.requests.misses,
            errors: second.errors,
        }
    });
    rows.collect()
}
