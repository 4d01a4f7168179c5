//! `ringfall mlperf rank`: one rank of a trial, as the harness's launcher starts it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ringfall_config::values::Seed;
use ringfall_config::{Facts, Places, Ranks, Word};
use ringfall_foreign::mlperf::place::{Place, results_in};
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::{Launcher, write_output};

use crate::cli::{RankArgs, RunArgs};
use crate::commands::run::refuse_data_name;
use crate::commands::{file_of, interrupt, plan_of, tell};
use crate::log_lines::log_to_stderr;

/// Interval at which a wait checks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);
/// Added to the name of a result that a later one replaces; the harness does not read it then.
const SUPERSEDED: &str = ".superseded";

/// Waits, runs and waits.
pub(super) fn run(args: &RankArgs, command_line: Vec<String>) -> Result<Exit> {
    let rank = Launcher::look().map_or(0, |launcher| launcher.rank);
    let (own, place) = own_of(args, rank, Facts::look().unix_s);
    let interrupt = interrupt()?;
    // What is wrong is said now, not after the wait.
    let ready = plan_of(&own).map(|plan| log_to_stderr(plan.log_level));
    let ready = ready.map_err(anyhow::Error::from);
    let second = args.run.options.output.as_deref();
    let second = second.map_or(Ok(()), |second| refuse_data_name("--output", second));
    if let Err(error) = ready.and(second).and_then(|()| set_aside(&place)) {
        tell_others(&own, &error, args.delays.start_delay, &interrupt);
        return Err(error);
    }
    if !wait(rank, "before", args.delays.start_delay, &interrupt) {
        return Ok(Exit::Interrupted);
    }
    // The machine may have changed meanwhile.
    let exit = super::super::run::run(&plan_of(&own)?, command_line)?;
    if let (Exit::Done, Some(second)) = (exit, &args.run.options.output) {
        put_second(&place.output, second)?;
    }
    match exit == Exit::Interrupted || wait(rank, "after", args.delays.end_delay, &interrupt) {
        true => Ok(exit),
        false => Ok(Exit::Interrupted),
    }
}

/// Has the other ranks hear why this one can't run. They are there when their own wait is over.
fn tell_others(own: &RunArgs, error: &anyhow::Error, delay_s: u64, interrupt: &Interrupt) {
    let rank = Launcher::look().filter(|launcher| launcher.size != Some(1));
    let Some(Launcher { rank, .. }) = rank else { return };
    let why = format!("{error:#}");
    if delay_s > 0 {
        let told = terminal(&why);
        ringfall_host::stderr::tell(format_args!(
            "rank {rank} can't run, and tells the others in {delay_s} s, when they begin: {told}"
        ));
    }
    if pause(delay_s, interrupt) {
        let file = file_of(own).ok().flatten();
        super::super::run::tell_ranks_that_wait(own, file.as_ref(), &why);
    }
}

pub(super) fn own_of(args: &RankArgs, rank: u32, unix_s: u64) -> (RunArgs, Place) {
    let (outputs, caches) = (&args.rank_output_base, &args.rank_cache_base);
    let place = Place::of(rank, outputs, caches, args.seed_base, unix_s);
    let mut own = args.run.clone();
    own.options.seed = Some(Seed::Given(place.seed));
    own.options.output = Some(place.output.clone());
    own.options.cache_dir = Some(Places(vec![place.cache_dir.clone()]));
    // The harness has mpirun go on when a rank fails: MPI would wait for that rank for ever.
    let of_file = file_of(&own).ok().flatten().and_then(|file| file.options.ranks);
    own.options.ranks.get_or_insert(of_file.unwrap_or(Word(Ranks::Directory)));
    (own, place)
}

/// Renames results of an earlier start: the harness would read one of them, by chance.
fn set_aside(place: &Place) -> Result<()> {
    let Some(directory) = place.output.parent() else { return Ok(()) };
    let told = || format!("{} can't be read", directory.display());
    for old in results_in(directory).with_context(told)? {
        let mut name = old.clone().into_os_string();
        name.push(SUPERSEDED);
        let name = PathBuf::from(name);
        std::fs::rename(&old, &name)
            .with_context(|| format!("{} can't be renamed", old.display()))?;
        let what = "an earlier result, which the harness might have taken for this run's, is now";
        tell(&[format!("{what} {}", terminal_path(&name))]);
    }
    Ok(())
}

/// The whole result in a second place: the same file where both are on one file system.
fn put_second(result: &Path, second: &Path) -> Result<()> {
    if std::fs::hard_link(result, second).is_ok() {
        return Ok(());
    }
    let copied = std::fs::read(result).and_then(|bytes| write_output(second, &bytes));
    copied.with_context(|| format!("--output {} can't be written", second.display()))
}

/// Waits; false when an interrupt came.
fn wait(rank: u32, when: &str, seconds: u64, interrupt: &Interrupt) -> bool {
    if seconds > 0 {
        ringfall_host::stderr::tell(format_args!("rank {rank} waits {seconds} s {when} the run"));
    }
    pause(seconds, interrupt)
}

/// Lets so much time pass; false when an interrupt came.
fn pause(seconds: u64, interrupt: &Interrupt) -> bool {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if interrupt.is_set() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
}
