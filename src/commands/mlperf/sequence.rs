//! `ringfall mlperf run`: the whole sequence, alone or as a rank of a launch.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ringfall_config::{Rank, Ranks};
use ringfall_foreign::mlperf::NOT_CLOSED;
use ringfall_foreign::mlperf::aggregate::{Added, Shape, add_up};
use ringfall_foreign::mlperf::metadata::{Departures, Facts, metadata};
use ringfall_foreign::mlperf::options::{Workload, rule};
use ringfall_foreign::mlperf::sequence::Sequence;
use ringfall_foreign::mlperf::tree::{
    Owner, PAGE, SUMMARY, log_of, metadata_of, new_run, state_directory, unfinished_run,
};
use ringfall_host::escape::terminal;
use ringfall_host::exit::Exit;
use ringfall_host::{files, host_name};
use ringfall_model::document::ResultFile;
use ringfall_model::metrics::WALL_CLOCK;
use ringfall_model::write_json;
use ringfall_report::show::{mlperf_text, write_mlperf_html};

use super::rank::own_of;
use super::report::{read, shown};
use super::team::Team;
use crate::batch::{Batch, Ended, Job, Outcome, Screen, duration_text};
use crate::cli::{Command, MlperfArgs, MlperfCommand, MlperfRunArgs};
use crate::commands::run::or_tell_ranks;
use crate::commands::{
    TEXT_WIDTH, command_of, interrupt, metric_figure, plan_of, print, write_form,
};

/// Runs the sequence, adds it up, and shows it.
///
/// # Errors
/// Arguments that can't be run, or files that can't be written. A failed trial is no error.
pub(super) fn run(args: &MlperfRunArgs, command_line: &[String]) -> Result<Exit> {
    let prepared = prepare(args, command_line);
    if args.dry_run {
        return print(&prepared?.outlook());
    }
    let rank = Rank::for_command(Ranks::Directory, &args.results_dir.join("result.json"))?;
    let prepared = or_tell_ranks(rank.as_ref(), prepared)?;
    let owner = &prepared.owner;
    let interrupt = interrupt()?;
    let team = Team::gather(&owner.results, rank.as_ref(), &interrupt)?;
    let jobs = |run: &Path| prepared.jobs(run, team.flags());
    let run = team.agree_on(|| choose(owner, args.resume), jobs)?;
    let quiet = args.quiet || !team.leads();
    if !quiet {
        for sentence in told(&prepared.sequence) {
            ringfall_host::stderr::tell(format_args!("note: {}", terminal(&sentence)));
        }
    }
    let batch = Batch::new("mlperf run", state_directory(&run, team.rank()), jobs(&run));
    let mut screen = Screen::new(quiet);
    let report = batch.run(&|| team.is_over(), &mut screen, &mut row)?;
    if report.is_interrupted {
        return Ok(ended_early(&team));
    }
    team.wait_for_all();
    let failed = report.failed() > 0;
    if team.leads() {
        let added = prepared.added(&run, team.size(), &batch, &report.outcomes);
        let written = prepared.write(&run, team.size(), &batch, &added);
        written.and(prepared.show(&run, &added))?;
        if added.summary.partial_failure {
            return Ok(Exit::Failed);
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// A sequence that can be run.
struct Prepared<'a> {
    args: &'a MlperfRunArgs,
    command_line: &'a [String],
    sequence: Sequence,
    cache: PathBuf,
    owner: Owner,
    /// Whether no trial preconditions.
    is_bounded: bool,
    baseline: Option<Added>,
}

fn prepare<'a>(args: &'a MlperfRunArgs, command_line: &'a [String]) -> Result<Prepared<'a>> {
    let sequence = sequence_of(args)?;
    let cache = absolute(&args.cache_dir)?;
    let owner = owner_of(args, &sequence)?;
    let is_bounded = check(&sequence, &cache)?;
    let baseline = args.baseline.as_deref().map(|path| read(path, command_line)).transpose()?;
    Ok(Prepared { args, command_line, sequence, cache, owner, is_bounded, baseline })
}

/// Says how it can go on.
fn ended_early(team: &Team) -> Exit {
    let how = "the same command with --resume continues the run";
    let (what, exit) = match team.failure() {
        Some(why) => (format!("the run ended early: {why}; {how}"), Exit::Failed),
        None => (format!("the run was interrupted; {how}"), Exit::Interrupted),
    };
    team.end_early();
    super::super::tell(&[what]);
    exit
}

fn sequence_of(args: &MlperfRunArgs) -> Result<Sequence> {
    let changed = [
        args.model.clone(),
        args.num_users.clone(),
        args.duration.clone(),
        args.gpu_mem_gb.clone(),
        args.cpu_mem_gb.clone(),
        args.max_concurrent_allocs.clone(),
        args.generation_mode.clone(),
    ];
    let mut workloads: Vec<Workload> = Vec::new();
    for rule in args.options.iter().filter_map(|number| rule(*number)) {
        if workloads.iter().any(|workload| workload.rule == rule) {
            refuse!("--options names option {} twice; give each once", rule.number);
        }
        workloads.push(Workload::of(rule, &changed));
    }
    Ok(Sequence {
        workloads,
        trials: args.trials,
        seed_base: args.seed_base,
        start_delay_s: args.delays.start_delay,
        end_delay_s: args.delays.end_delay,
        option_delay_s: args.inter_option_delay,
        config: args.config.as_deref().map(absolute).transpose()?,
        more: args.more.clone(),
    })
}

/// The path from the root, as trials are given it.
fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).context("the current directory is not known")?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => refuse!("{} is not UTF-8, and trials can't be given it", path.display()),
    }
}

fn owner_of(args: &MlperfRunArgs, sequence: &Sequence) -> Result<Owner> {
    let owner = Owner {
        results: absolute(&args.results_dir)?,
        organization: args.orgname.clone(),
        system: args.systemname.clone().unwrap_or_else(host_name),
        model: sequence.workloads.first().map_or(String::new(), |one| one.model().to_owned()),
    };
    match owner.misnamed() {
        None => Ok(owner),
        Some((flag, name)) => refuse!(
            "{flag} {name:?} can't be the name of a directory of results: give letters, digits, \
             `.`, `_` and `-`"
        ),
    }
}

/// Refuses, before the first trial, arguments that a trial would refuse. Whether the time of each
/// trial is bounded.
fn check(sequence: &Sequence, cache: &Path) -> Result<bool> {
    let mut is_bounded = true;
    for trial in sequence.all().filter(|trial| trial.number == 0) {
        let arguments = sequence.arguments(&trial, Path::new("/run"), cache);
        match command_of(arguments)? {
            Some(Command::Mlperf(MlperfArgs { command: MlperfCommand::Rank(rank) })) => {
                is_bounded &= super::super::is_bounded(&plan_of(&own_of(&rank, 0, 0).0)?);
            }
            Some(_) => {}
            None => refuse!("the flags after `--` ask for help; `ringfall run --help` gives it"),
        }
    }
    Ok(is_bounded)
}

/// Lists the departures from the benchmark's rules.
fn told(sequence: &Sequence) -> Vec<String> {
    let of_option = |workload: &Workload| {
        (format!("option {} is not", workload.rule.number), workload.departures())
    };
    let of_options = sequence.workloads.iter().map(of_option);
    let all = std::iter::once(("not".to_owned(), sequence.departures())).chain(of_options);
    let departed = all.filter(|(_, departures)| !departures.is_empty());
    let sentences = departed.map(|(what, departures)| {
        format!("{what} as the rules have it: {}", departures.join(", "))
    });
    std::iter::once(NOT_CLOSED.to_owned()).chain(sentences).collect()
}

/// The run's directory: a new one, or that of the run to continue.
fn choose(owner: &Owner, resume: bool) -> Result<PathBuf> {
    let runs = owner.runs();
    let told = || format!("{} can't be used", runs.display());
    if !resume {
        return new_run(&runs, ringfall_config::Facts::look().unix_s).with_context(told);
    }
    match unfinished_run(&runs).with_context(told)? {
        Some(run) => Ok(run),
        None => refuse!(
            "--resume: {} holds no run that was begun and has not ended; leave the flag out to \
             begin one",
            runs.display()
        ),
    }
}

/// The table's line of a trial that ended: this rank's figures.
fn row(ended: &Ended<'_>) -> Vec<String> {
    let name = &ended.job.name;
    if let Outcome::Failed(why) = ended.outcome {
        return vec![format!("{name}  failed: {why}; {} has all", ended.log.display())];
    }
    let document = match ResultFile::read(&ended.output) {
        Ok(file) => file.document,
        Err(problem) => return vec![format!("{name}  {problem}")],
    };
    let figure = |key| metric_figure(&document, key);
    let before = if ended.took_s.is_none() { ", done before" } else { "" };
    vec![format!(
        "{name}  read {} GiB/s, write {} GiB/s, {} tokens/s{before}",
        figure("storage_read_bandwidth_gib_per_s"),
        figure("storage_write_bandwidth_gib_per_s"),
        figure(WALL_CLOCK),
    )]
}

impl Prepared<'_> {
    fn outlook(&self) -> String {
        let Prepared { sequence, cache, owner, .. } = self;
        let (mut page, run) = (String::new(), owner.runs().join("TIME"));
        for trial in sequence.all() {
            let arguments = sequence.arguments(&trial, &run, cache).join(" ");
            page.push_str(&format!("ringfall {arguments}\n"));
        }
        let seconds: f64 = sequence.all().map(|trial| sequence.expected_s(&trial)).sum();
        let (trials, time) = (sequence.all().count(), duration_text(seconds));
        page.push_str(&format!("\n{trials} runs, about {time}\n"));
        page.push_str(&textwrap::fill(&told(sequence).join("\n"), TEXT_WIDTH));
        page.push('\n');
        page
    }

    /// The trials of a run, each with those flags.
    fn jobs(&self, run: &Path, flags: &[&str]) -> Vec<Job> {
        let Prepared { sequence, cache, is_bounded, .. } = self;
        let job = |trial| {
            let mut arguments = sequence.arguments(&trial, run, cache);
            arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
            let expected_s = sequence.expected_s(&trial);
            Job { is_bounded: *is_bounded, ..Job::new(trial.name(), arguments, expected_s) }
        };
        sequence.all().map(job).collect()
    }

    /// Trials of a run, added up, with the reasons of those that failed.
    fn added(&self, run: &Path, ranks: u32, batch: &Batch, outcomes: &[Option<Outcome>]) -> Added {
        let options = self.sequence.workloads.iter().map(|workload| workload.rule.number);
        let shape = Shape { options: options.collect(), trials: self.sequence.trials, ranks };
        let mut added = add_up(run, &shape, self.command_line);
        Departures::of(&self.sequence).note(&mut added.summary);
        for (job, outcome) in batch.jobs.iter().zip(outcomes) {
            if let Some(Outcome::Failed(why)) = outcome {
                let failures = &mut added.summary.trial_failures;
                failures.entry(job.name.clone()).or_insert_with(|| why.clone());
            }
        }
        added
    }

    /// Writes what the harness writes, and the merged results. The summary comes last: a run that
    /// has one has ended.
    fn write(&self, run: &Path, ranks: u32, batch: &Batch, added: &Added) -> Result<()> {
        gather_logs(run, batch, ranks)?;
        let written = |path: &Path| format!("{} can't be written", path.display());
        for (path, document) in &added.merged {
            write_json(document, path).with_context(|| written(path))?;
        }
        let facts = Facts { run, cache: &self.cache, ranks, command_line: self.command_line };
        let path = metadata_of(run);
        let metadata = metadata(&self.sequence, &facts, &added.summary.ringfall);
        write_json(&metadata, &path).with_context(|| written(&path))?;
        let path = run.join(SUMMARY);
        write_json(&added.summary, &path).with_context(|| written(&path))
    }

    fn show(&self, run: &Path, added: &Added) -> Result<()> {
        let baseline = self.args.baseline.as_deref().zip(self.baseline.as_ref());
        let shown = shown(run, added, baseline);
        let page = Some(run.join(PAGE));
        let page = write_form(page.as_deref(), "the page", |path| write_mlperf_html(&shown, path));
        print(&mlperf_text(&shown))?;
        page
    }
}

/// Concatenates the output of all ranks, one log per trial, where the harness has it.
fn gather_logs(run: &Path, batch: &Batch, ranks: u32) -> Result<()> {
    for job in &batch.jobs {
        let path = log_of(run, &job.name);
        let written = || format!("{} can't be written", path.display());
        let mut log = files::begin(&path).with_context(written)?;
        for rank in 0..ranks {
            let own = job.log(&state_directory(run, rank));
            match std::fs::File::open(&own) {
                Ok(mut own) => drop(std::io::copy(&mut own, &mut log).with_context(written)?),
                // A rank that never began printed nothing.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let what = format!("{} can't be read", own.display());
                    return Err(error).context(what);
                }
            }
        }
    }
    Ok(())
}
