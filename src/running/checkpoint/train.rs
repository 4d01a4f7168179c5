//! A training job as storage sees it: it computes, saves a checkpoint, and now and then restores
//! one, as after a failure. It waits for a save until that is durable, or computes beside it as
//! soon as all content has been taken over.

use std::sync::Mutex;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use clap::ValueEnum;
use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::fill::VerifyMode;
use ringfall_core::named;

use super::commit::{Begin, Commit, remove};
use super::layout::{Layout, Manifest};
use super::meter::Doing;
use super::restore::{Restored, restore};
use super::save::{Saved, Stream, StreamError};
use super::target::{Target, TargetError};
use crate::threads::locked;

/// Interval between two checks whether to end.
const LOOK: Duration = Duration::from_millis(20);

named! {
/// Length of the pause in training for each save.
#[derive(ValueEnum)]
pub enum SaveMode {
    /// Until the checkpoint is durable
    Sync = "sync",
    /// Until all content has been taken over; the next save, or the end of the job, waits for the
    /// rest
    Async = "async",
}
}

/// Settings of the training job.
#[derive(Clone, Debug)]
pub struct Training {
    /// Computing between two saves.
    pub interval: Duration,
    /// Computing ends and no save but the first begins after that.
    pub duration: Duration,
    /// For how much of a save training stands still.
    pub mode: SaveMode,
    /// A restore after so many saves; 0: none.
    pub restore_every: u32,
    /// Checkpoints that are kept while the job goes on, ≥ 1.
    pub keep: u32,
    /// Extent of the comparison of a restored checkpoint.
    pub verify: VerifyMode,
    /// Whether an existing checkpoint may be removed.
    pub overwrite: bool,
    /// The last checkpoint stays when the job ends.
    pub leave_last: bool,
}

/// Outcome of a job.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    /// All saves of the job, in order.
    pub saves: Vec<Saved>,
    /// All restores of the job, in order.
    pub restores: Vec<Restored>,
    /// Time in which it computed.
    pub computed: Nanos,
    /// From its beginning to its end, without removing what it wrote.
    pub elapsed: Nanos,
    /// Whether it was told to end.
    pub is_interrupted: bool,
}

/// Runs a job whose checkpoints are as the manifest says, at each step with other content. What it
/// has done is in `trained` as it does it.
///
/// # Errors
/// The first failure; to have been told to end is none.
pub fn train<T: Target>(
    on: &Stream<'_, T>,
    manifest: &Manifest,
    training: &Training,
    trained: &Mutex<Trained>,
) -> Result<(), StreamError> {
    let slots = vec![None; training.keep as usize + 1];
    let mut job = Job { on, manifest, training, began: monotonic_now(), slots, trained };
    let result = std::thread::scope(|scope| job.run(scope));
    locked(trained).elapsed = monotonic_now() - job.began;
    let cleaned = job.clean();
    match result {
        Ok(()) => cleaned?,
        Err(StreamError::Interrupted) => {
            locked(trained).is_interrupted = true;
            // It stays an interrupt.
            if let Err(error) = cleaned {
                tracing::error!("what was saved can't be removed: {error}");
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

struct Job<'a, T: Target> {
    on: &'a Stream<'a, T>,
    manifest: &'a Manifest,
    training: &'a Training,
    began: Nanos,
    /// Checkpoint stored or begun below each prefix: one more than is kept, so that the next is
    /// whole before the oldest goes.
    slots: Vec<Option<Manifest>>,
    trained: &'a Mutex<Trained>,
}

/// A save, on a thread of its own.
struct Beside<'scope> {
    manifest: Manifest,
    began: Nanos,
    /// For how long training has stood still because of it so far.
    stall: Nanos,
    thread: ScopedJoinHandle<'scope, Result<Saved, StreamError>>,
}

fn prefix(slot: usize) -> String {
    format!("slot-{slot}/")
}

impl<'a, T: Target> Job<'a, T> {
    /// Training stands still until a save is durable, or goes on beside it once all its content has
    /// been taken over; the next one waits for it then.
    fn run<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>) -> Result<(), StreamError> {
        let mut beside = None;
        for step in 1.. {
            let computed = self.compute(step, beside.is_some());
            self.join(beside.take())?;
            computed?;
            // A job that is shorter than its interval saves once.
            if step > 1 && self.is_over() {
                break;
            }
            let mut save = self.begin(scope, step)?;
            if self.training.mode == SaveMode::Async {
                // One that fails early takes over nothing any more.
                while !self.on.meter.wait_taken(LOOK) && !save.thread.is_finished() {}
            }
            save.stall = monotonic_now() - (self.began + save.began);
            beside = Some(save);
            if self.training.mode == SaveMode::Sync {
                self.join(beside.take())?;
            }
        }
        self.join(beside)
    }

    /// Whether no save is to begin any more; the job has lasted until now.
    fn is_over(&self) -> bool {
        let elapsed = monotonic_now() - self.began;
        locked(self.trained).elapsed = elapsed;
        elapsed.as_duration() >= self.training.duration
    }

    /// Time until the job is over.
    fn left(&self) -> Duration {
        self.training.duration.saturating_sub((monotonic_now() - self.began).as_duration())
    }

    /// The slot in which the checkpoint of that step is stored.
    fn slot_of(&self, step: u32) -> usize {
        step as usize % self.slots.len()
    }

    /// Begins a save on a thread of its own.
    fn begin<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'a>,
        step: u32,
    ) -> Result<Beside<'scope>, StreamError> {
        let (on, slot) = (self.on, self.slot_of(step));
        let manifest = Manifest { step, ..self.manifest.clone() };
        let how = if self.training.overwrite { Begin::Overwrite } else { Begin::Fresh };
        let began = on.meter.begin(Doing::Preparing, step, 0) - self.began;
        let of_thread = manifest.clone();
        let work = move || Commit { on, manifest: &of_thread, prefix: &prefix(slot) }.write(how);
        let builder = Builder::new().name("ringfall-save".to_owned());
        let thread = builder.spawn_scoped(scope, work).map_err(|error| {
            let what = format!("no thread can be started for a save: {error}");
            TargetError::new(what, "raise the limit on processes (ulimit -u)")
        })?;
        Ok(Beside { manifest, began, stall: Nanos::ZERO, thread })
    }

    /// Waits for a save to end; that, too, is a stall.
    fn join(&mut self, beside: Option<Beside<'_>>) -> Result<(), StreamError> {
        let Some(Beside { manifest, began, stall, thread }) = beside else { return Ok(()) };
        let (step, slot) = (manifest.step, self.slot_of(manifest.step));
        let from = monotonic_now();
        let written = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let is_ours = match &written {
            // What was there before is not ours to remove.
            Err(StreamError::Target(error)) => !error.is_input,
            _ => true,
        };
        if is_ours {
            self.slots[slot] = Some(manifest);
        }
        let stall = stall + (monotonic_now() - from);
        locked(self.trained).saves.push(Saved { began, stall, ..written? });
        // The oldest goes, and where it is time for it, the new one is restored.
        self.free((slot + 1) % self.slots.len())?;
        // Steps begin at 1: none is a multiple of 0.
        match step.is_multiple_of(self.training.restore_every) {
            true => self.restore(step, slot),
            false => Ok(()),
        }
    }

    fn compute(&mut self, step: u32, is_saving: bool) -> Result<(), StreamError> {
        let began = match is_saving {
            // What is shown and counted is the save.
            true => monotonic_now(),
            false => self.on.meter.begin(Doing::Computing, step, 0),
        };
        loop {
            let spent = monotonic_now() - began;
            let left = self.training.interval.saturating_sub(spent.as_duration()).min(self.left());
            if left.is_zero() {
                self.computed(spent);
                return Ok(());
            }
            if (self.on.stop)() {
                self.computed(spent);
                return Err(StreamError::Interrupted);
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Counts time in which it computed, until now.
    fn computed(&self, spent: Nanos) {
        let mut trained = locked(self.trained);
        trained.computed += spent;
        trained.elapsed = monotonic_now() - self.began;
    }

    fn restore(&mut self, step: u32, slot: usize) -> Result<(), StreamError> {
        let Some(manifest) = &self.slots[slot] else { return Ok(()) };
        let began = monotonic_now() - self.began;
        let layout = Layout::new(manifest, &prefix(slot));
        let restored = restore(self.on, &layout, self.training.verify, step)?;
        locked(self.trained).restores.push(Restored { began, ..restored });
        Ok(())
    }

    fn free(&mut self, slot: usize) -> Result<(), StreamError> {
        if let Some(manifest) = self.slots[slot].take() {
            remove(self.on.target, &manifest, &prefix(slot))?;
        }
        Ok(())
    }

    /// Removes what the job has stored, but for the last whole checkpoint where that is to stay.
    fn clean(&mut self) -> Result<(), StreamError> {
        let last = locked(self.trained).saves.last().map(|save| save.step);
        for slot in 0..self.slots.len() {
            let step = self.slots[slot].as_ref().map(|manifest| manifest.step);
            if !(self.training.leave_last && step.is_some() && step == last) {
                self.free(slot)?;
            }
        }
        Ok(())
    }
}
