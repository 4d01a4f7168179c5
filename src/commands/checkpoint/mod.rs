//! `ringfall checkpoint`: writes, reads, trains and compares.

mod place;
mod plan;
pub(super) mod result;
mod screen;
mod table;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_core::units::GIB;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::{Room, counted, human};
use ringfall_model::write_json_unsynced;
use ringfall_running::checkpoint::{
    Begin, Commit, Layout, Manifest, Meter, SaveSettings, Saved, Stream, StreamError, Target,
    TargetError, Trained, Training, Way, find, restore, train,
};

use crate::cli::{
    CheckpointArgs, CheckpointCommand, CheckpointCompareArgs, CheckpointReadArgs,
    CheckpointRunArgs, CheckpointWriteArgs, JobArgs, StreamArgs,
};
use place::{AnyTarget, with_target};
use plan::{manifest, stream_settings};
use result::{CheckpointResult, Restore, Save};
use screen::show_progress;

use super::answer::{Answer, Work};
use super::memory::reset_peak_memory;
use super::run::check_output_writable;
use super::{interrupt, tell_error, write_form, write_result};

/// Writes, reads, trains or compares, as asked.
pub fn run(args: &CheckpointArgs) -> Result<Exit> {
    match &args.command {
        CheckpointCommand::Write(args) => write(args),
        CheckpointCommand::Read(args) => read(args),
        CheckpointCommand::Run(args) => train_for_a_while(args),
        CheckpointCommand::Compare(args) => compare(args),
    }
}

struct Session<'a> {
    stream: &'a StreamArgs,
    interrupt: Interrupt,
    meter: Meter,
    /// Answers signals until the work has ended.
    answer: Answer,
}

/// Fate of what is left behind, by the command: a part of a sentence.
const LEFT_BY_WRITE: &str = "what is complete there stays: --resume goes on from it";
const LEFT_BY_READ: &str = "reading has changed nothing there";
const LEFT_BY_OTHERS: &str = "the next one there begins anew with --overwrite";
/// Interval of the checks for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Wait for work to end after a signal before what was measured is written; soon after, the process
/// is ended.
const KEPT_AFTER: Duration = Duration::from_secs(20);

impl<'a> Session<'a> {
    fn begin(stream: &'a StreamArgs, left: &'static str) -> Result<Session<'a>> {
        if let Some(output) = &stream.output {
            check_output_writable("--output", output)?;
        }
        let interrupt = interrupt()?;
        reset_peak_memory();
        let work = Work {
            name: "checkpoint",
            keeps: "",
            places: vec![stream.target.clone()],
            output: stream.output.clone(),
            left,
        };
        let answer = Answer::to(work, &interrupt);
        Ok(Session { stream, interrupt, meter: Meter::default(), answer })
    }

    /// Does something. If it has not ended some time after a signal, as on a drive that takes long
    /// for what is in flight, `keep` writes what was measured until then, and says whether there
    /// was anything.
    fn keeping<R>(
        &self,
        keep: impl FnOnce() -> Result<bool> + Send,
        work: impl FnOnce() -> R,
    ) -> R {
        let wait = |ended: &Receiver<()>| {
            while !self.interrupt.is_set() {
                if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
            if ended.recv_timeout(KEPT_AFTER) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            match keep() {
                Ok(true) => self.answer.note_written(),
                Ok(false) => {}
                Err(error) => tell_error(format_args!("{error:#}")),
            }
        };
        beside("keep", wait, work)
    }

    /// Does something with a stream to that target while its progress is shown.
    fn watched<T: Target, R>(
        &self,
        target: &T,
        settings: &SaveSettings,
        work: impl FnOnce(&Stream<'_, T>) -> R,
    ) -> R {
        let stop = || self.interrupt.is_set();
        let on = Stream { target, settings, meter: &self.meter, stop: &stop };
        if self.stream.quiet {
            return work(&on);
        }
        let show = |ended: &Receiver<()>| show_progress(&self.meter, &self.interrupt, ended);
        beside("progress", show, || work(&on))
    }
}

/// Does some work while a thread of that name does other work, until it is told that the first has
/// ended.
fn beside<R>(name: &str, other: impl FnOnce(&Receiver<()>) + Send, work: impl FnOnce() -> R) -> R {
    let (end, ended) = channel();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(format!("ringfall-{name}"));
        // The work is done without it too.
        if let Err(error) = thread.spawn_scoped(scope, move || other(&ended)) {
            tracing::warn!("no thread ({name}) can be started beside the work: {error}");
        }
        let result = work();
        drop(end);
        result
    })
}

/// Settings and manifest of a job's checkpoint; nothing where the list of models is shown instead.
fn planned(
    stream: &StreamArgs,
    job: &JobArgs,
    way: Way,
) -> Result<Option<(SaveSettings, Manifest)>> {
    if job.model.as_deref() == Some("list") {
        super::print(&plan::models_page())?;
        return Ok(None);
    }
    let (stream, files_at_once) = (stream_settings(stream)?, job.files_at_once);
    let settings = SaveSettings { stream, files_at_once, durable: !job.no_fsync, way };
    let manifest = manifest(job, stream.chunk_bytes)?;
    check_memory(&manifest, way)?;
    Ok(Some((settings, manifest)))
}

/// Outcome of something that was done; nothing where it was interrupted, which is told.
fn finished<R>(
    outcome: Result<R, StreamError>,
    interrupted: impl FnOnce() -> String,
) -> Result<Option<R>> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(StreamError::Interrupted) => {
            ringfall_host::stderr::tell(format_args!("interrupted: {}", interrupted()));
            Ok(None)
        }
        Err(StreamError::Target(error)) => Err(failed(error)),
    }
}

fn write(args: &CheckpointWriteArgs) -> Result<Exit> {
    let Some((settings, manifest)) = planned(&args.stream, &args.job, args.way)? else {
        return Ok(Exit::Done);
    };
    let begin = match (args.resume, args.overwrite) {
        (true, _) => Begin::Resume,
        (_, true) => Begin::Overwrite,
        _ => Begin::Fresh,
    };
    let target = AnyTarget::open(&args.stream, false)?;
    let session = Session::begin(&args.stream, LEFT_BY_WRITE)?;
    let (written, mut result) = with_target!(&target, target => {
        let written = session.watched(target, &settings, |on| {
            Commit { on, manifest: &manifest, prefix: "" }.write(begin)
        });
        (written, CheckpointResult::of("write", target, &manifest, &settings))
    });
    let interrupted = || {
        let moved = human(session.meter.progress().moved_bytes);
        format!(
            "{moved} of the checkpoint were stored now; no file has its final name before it is \
             whole, and `ringfall checkpoint write --resume` with the same flags goes on"
        )
    };
    let Some(saved) = finished(written, interrupted)? else { return Ok(Exit::Interrupted) };
    result.saves.push(Save::of(result.target.clone(), settings.way, &saved));
    finish(&session, &result)
}

fn read(args: &CheckpointReadArgs) -> Result<Exit> {
    let stream = stream_settings(&args.stream)?;
    let target = AnyTarget::open(&args.stream, true)?;
    let manifest = with_target!(&target, target => find(target, "")).map_err(failed)?;
    let session = Session::begin(&args.stream, LEFT_BY_READ)?;
    let settings = SaveSettings { stream, files_at_once: 1, durable: true, way: Way::Stream };
    let layout = Layout::new(&manifest, "");
    let (restored, mut result) = with_target!(&target, target => {
        let restored = session.watched(target, &settings, |on| {
            restore(on, &layout, args.verify.0, manifest.step)
        });
        (restored, CheckpointResult::of("read", target, &manifest, &settings))
    });
    let interrupted = || "the checkpoint was not read whole".to_owned();
    let Some(restored) = finished(restored, interrupted)? else { return Ok(Exit::Interrupted) };
    result.restores.push(Restore::of(&restored));
    finish(&session, &result)
}

fn train_for_a_while(args: &CheckpointRunArgs) -> Result<Exit> {
    let Some((settings, manifest)) = planned(&args.stream, &args.job, args.way)? else {
        return Ok(Exit::Done);
    };
    let target = AnyTarget::open(&args.stream, false)?;
    with_target!(&target, target => train_on(target, args, &manifest, &settings))
}

fn train_on<T: Target>(
    target: &T,
    args: &CheckpointRunArgs,
    manifest: &Manifest,
    settings: &SaveSettings,
) -> Result<Exit> {
    let training = Training {
        interval: Duration::from_secs_f64(args.interval),
        duration: Duration::from_secs(args.duration.into()),
        mode: args.save_mode,
        restore_every: args.restore_every,
        keep: args.keep,
        verify: args.verify.0,
        overwrite: args.overwrite,
        leave_last: args.leave_last,
    };
    let session = Session::begin(&args.stream, LEFT_BY_OTHERS)?;
    let so_far = Mutex::new(Trained::default());
    let result_of = |trained: &Trained| {
        let mut result = CheckpointResult::of("run", target, manifest, settings);
        result.trained(trained, &training, settings.way);
        result
    };
    let keep = || {
        let trained = so_far.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if trained.saves.is_empty() || args.stream.output.is_none() {
            return Ok(false);
        }
        let result = result_of(&Trained { is_interrupted: true, ..trained });
        // The drive may be what the work waits for.
        let write = |path: &Path| write_json_unsynced(&result, path);
        write_form(args.stream.output.as_deref(), "the result", write).map(|()| true)
    };
    let ended = session.keeping(keep, || {
        session.watched(target, settings, |on| train(on, manifest, &training, &so_far))
    });
    let trained = so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ended {
        Ok(()) => {}
        Err(StreamError::Interrupted) => {
            return Err(anyhow::anyhow!("interrupted before anything was saved"));
        }
        Err(StreamError::Target(error)) => {
            // The saves before it were measured all the same.
            if !trained.saves.is_empty() {
                let mut result = result_of(&trained);
                result.end_early(&error);
                if let Err(also) = finish(&session, &result) {
                    tell_error(format_args!("{also:#}"));
                }
            }
            return Err(failed(error));
        }
    }
    let result = result_of(&trained);
    let exit = finish(&session, &result)?;
    Ok(if trained.is_interrupted { Exit::Interrupted } else { exit })
}

fn compare(args: &CheckpointCompareArgs) -> Result<Exit> {
    let planned = planned(&args.stream, &args.job, Way::GenerateFirst)?;
    let Some((settings, manifest)) = planned else { return Ok(Exit::Done) };
    let (target, beside) = AnyTarget::open_two(&args.stream, args.beside.as_deref())?;
    let session = Session::begin(&args.stream, LEFT_BY_OTHERS)?;
    let mut result = with_target!(&target, target => {
        CheckpointResult::of("compare", target, &manifest, &settings)
    });
    let mut rows = vec![(&target, Way::Stream), (&target, Way::GenerateFirst)];
    rows.extend(beside.as_ref().map(|beside| (beside, Way::Stream)));
    let begin = if args.overwrite { Begin::Overwrite } else { Begin::Fresh };
    for trial in 0..args.trials {
        // Each first in turn: none has the emptier drive by rule.
        let shift = trial as usize % rows.len();
        for index in 0..rows.len() {
            let (target, way) = rows[(index + shift) % rows.len()];
            reset_peak_memory();
            let settings = SaveSettings { way, ..settings };
            let (place, written) = with_target!(target, target => {
                (target.name(), save_and_remove(target, &session, &manifest, &settings, begin))
            });
            let interrupted = || "nothing was compared".to_owned();
            let Some(saved) = finished(written, interrupted)? else {
                return Ok(Exit::Interrupted);
            };
            result.saves.push(Save { step: trial + 1, ..Save::of(place, way, &saved) });
        }
    }
    for target in std::iter::once(&target).chain(&beside) {
        with_target!(target, target => result.count(target));
    }
    result.beside = beside.map(|beside| with_target!(&beside, beside => beside.name()));
    finish(&session, &result)
}

/// Below this a comparison keeps its checkpoints while it measures.
const COMPARED: &str = "compared/";

fn save_and_remove<T: Target>(
    target: &T,
    session: &Session<'_>,
    manifest: &Manifest,
    settings: &SaveSettings,
    begin: Begin,
) -> Result<Saved, StreamError> {
    let commit = |on: &Stream<'_, T>| Commit { on, manifest, prefix: COMPARED }.write(begin);
    let written = session.watched(target, settings, commit);
    match &written {
        // What was there before stays.
        Err(StreamError::Target(error)) if error.is_input => {}
        _ => ringfall_running::checkpoint::remove(target, manifest, COMPARED)?,
    }
    written
}

/// Shows and writes a result; the status says whether a signal came, and whether every block was
/// what it is to be.
///
/// # Errors
/// It can't be written, which is told after it was shown, or it can't be shown.
fn finish(session: &Session<'_>, result: &CheckpointResult) -> Result<Exit> {
    let stream = session.stream;
    let written = write_result(result, stream.output.as_deref());
    super::show(result, stream.json, stream.quiet, || table::page(result))?;
    let bad: u64 = result.restores.iter().map(|restore| restore.blocks_bad).sum();
    if bad > 0 {
        tell_bad(result, bad);
    }
    written?;
    Ok(session.interrupt.exit_or(if bad > 0 { Exit::Failed } else { Exit::Done }))
}

/// Says how many blocks were not what they are to be, and where the first one is.
fn tell_bad(result: &CheckpointResult, bad: u64) {
    let first = result.restores.iter().flat_map(|restore| &restore.bad_blocks).next();
    let first = first.map_or(String::new(), |bad| {
        format!(
            "; the first is block {} of rank {}, at offset {} of {}",
            bad.block, bad.rank, bad.offset_bytes, bad.file
        )
    });
    tell_error(format_args!(
        "{} of 4 KiB {} not what was written{first}: look at dmesg and the drive's SMART log, and \
         write the checkpoint again",
        counted(bad, "block"),
        if bad == 1 { "is" } else { "are" }
    ));
}

/// A checkpoint that is made whole before it is stored must fit in memory.
fn check_memory(manifest: &Manifest, way: Way) -> Result<()> {
    let bytes = manifest.total_bytes();
    match Room::look().lacks(bytes) {
        Some(memory) if way == Way::GenerateFirst => refuse!(
            "to make a checkpoint of {:.2} GiB before it is stored takes as much memory, and only \
             {} are left ({}): give a smaller checkpoint, or write it as a stream",
            bytes as f64 / GIB as f64,
            human(memory.bytes),
            memory.source
        ),
        _ => Ok(()),
    }
}

/// A target's error as the program's: what can't be meant has status 2.
fn failed(error: TargetError) -> anyhow::Error {
    match error.is_input {
        true => InputError::new(error.to_string()).into(),
        false => error.into(),
    }
}
