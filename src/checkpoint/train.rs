//! A training job as storage sees it: it computes, saves a checkpoint, and now and then restores
//! one, as after a failure.

use std::time::Duration;

use ringfall_engine::clock::{Nanos, monotonic_now};
use ringfall_engine::fill::VerifyMode;

use super::commit::{Begin, Commit, Committed, remove};
use super::layout::{Layout, Manifest};
use super::meter::{Doing, Meter};
use super::restore::{Restored, restore};
use super::save::{SaveSettings, StreamError};
use super::target::Target;

/// How long one look at whether to end is away from the next.
const LOOK: Duration = Duration::from_millis(20);

/// What the job does.
#[derive(Clone, Debug)]
pub struct Training {
    /// Computing between two saves.
    pub interval: Duration,
    /// No save begins after that.
    pub duration: Duration,
    /// A restore after so many saves; 0: none.
    pub restore_every: u32,
    /// Checkpoints that are kept while the job goes on, ≥ 1.
    pub keep: u32,
    /// How much of a restored checkpoint is compared.
    pub verify: VerifyMode,
    /// What is there may be removed.
    pub overwrite: bool,
    /// The last checkpoint stays when the job ends.
    pub leave_last: bool,
}

/// One save of the job.
#[derive(Clone, Debug)]
pub struct TrainingSave {
    /// Number of the training step after which it was made, from 1.
    pub step: u32,
    /// When it began, since the job began.
    pub began: Nanos,
    /// What the save wrote, and in what time.
    pub committed: Committed,
}

/// One restore of the job.
#[derive(Clone, Debug)]
pub struct TrainingRestore {
    /// Which save it restored.
    pub step: u32,
    /// When it began, since the job began.
    pub began: Nanos,
    /// What the restore read and verified, and in what time.
    pub restored: Restored,
}

/// What a job did.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    /// All saves of the job, in order.
    pub saves: Vec<TrainingSave>,
    /// All restores of the job, in order.
    pub restores: Vec<TrainingRestore>,
    /// Time in which it computed.
    pub computed: Nanos,
    /// From its beginning to the end of its last save or restore.
    pub elapsed: Nanos,
    /// Whether it was told to end.
    pub is_interrupted: bool,
}

/// Runs a job whose checkpoints are as the manifest says, at each step with other content.
///
/// # Errors
/// The first failure; one that was told to end returns what it had done.
pub fn train<T: Target>(
    target: &T,
    manifest: &Manifest,
    training: &Training,
    settings: &SaveSettings,
    meter: &Meter,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Trained, StreamError> {
    let mut job = Job {
        target,
        manifest,
        training,
        settings,
        meter,
        stop,
        began: monotonic_now(),
        slots: vec![None; training.keep as usize + 1],
        trained: Trained::default(),
    };
    let result = job.run();
    let cleaned = job.clean();
    match result {
        Ok(()) => cleaned?,
        Err(StreamError::Interrupted) => {
            job.trained.is_interrupted = true;
            // It stays an interrupt.
            if let Err(error) = cleaned {
                tracing::error!("what was saved can't be removed: {error}");
            }
        }
        Err(error) => return Err(error),
    }
    Ok(job.trained)
}

struct Job<'a, T: Target> {
    target: &'a T,
    manifest: &'a Manifest,
    training: &'a Training,
    settings: &'a SaveSettings,
    meter: &'a Meter,
    stop: &'a (dyn Fn() -> bool + Sync),
    began: Nanos,
    /// What is stored below each prefix, or was begun there: one more than is kept, so that the
    /// next is whole before the oldest goes.
    slots: Vec<Option<Manifest>>,
    trained: Trained,
}

/// The prefix of a slot.
fn prefix(slot: usize) -> String {
    format!("slot-{slot}/")
}

impl<T: Target> Job<'_, T> {
    fn run(&mut self) -> Result<(), StreamError> {
        for step in 1.. {
            self.compute(step)?;
            let slot = step as usize % self.slots.len();
            self.save(step, slot)?;
            let oldest = (slot + 1) % self.slots.len();
            self.free(oldest)?;
            let every = self.training.restore_every;
            if every > 0 && step % every == 0 {
                self.restore(step, slot)?;
            }
            self.trained.elapsed = monotonic_now() - self.began;
            if self.trained.elapsed.as_duration() >= self.training.duration {
                break;
            }
        }
        Ok(())
    }

    fn compute(&mut self, step: u32) -> Result<(), StreamError> {
        let began = self.meter.begin(Doing::Computing, step, 0);
        loop {
            let spent = monotonic_now() - began;
            let left = self.training.interval.saturating_sub(spent.as_duration());
            if left.is_zero() {
                self.trained.computed += spent;
                return Ok(());
            }
            if (self.stop)() {
                self.trained.computed += spent;
                return Err(StreamError::Interrupted);
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn save(&mut self, step: u32, slot: usize) -> Result<(), StreamError> {
        let began = monotonic_now() - self.began;
        let manifest = Manifest { step, ..self.manifest.clone() };
        let prefix = prefix(slot);
        let commit = Commit {
            target: self.target,
            manifest: &manifest,
            prefix: &prefix,
            settings: self.settings,
            meter: self.meter,
            stop: self.stop,
        };
        let begin = if self.training.overwrite { Begin::Overwrite } else { Begin::Fresh };
        let written = commit.write(begin);
        let is_ours = match &written {
            // What was there before is not ours to remove.
            Err(StreamError::Target(error)) => !error.is_input,
            _ => true,
        };
        if is_ours {
            self.slots[slot] = Some(manifest);
        }
        self.trained.saves.push(TrainingSave { step, began, committed: written? });
        Ok(())
    }

    fn restore(&mut self, step: u32, slot: usize) -> Result<(), StreamError> {
        let Some(manifest) = &self.slots[slot] else { return Ok(()) };
        let began = monotonic_now() - self.began;
        let layout = Layout::new(manifest, &prefix(slot));
        let stream = &self.settings.stream;
        let until = (step, self.stop);
        let restored =
            restore(self.target, &layout, stream, self.training.verify, self.meter, until)?;
        self.trained.restores.push(TrainingRestore { step, began, restored });
        Ok(())
    }

    fn free(&mut self, slot: usize) -> Result<(), StreamError> {
        if let Some(manifest) = self.slots[slot].take() {
            remove(self.target, &manifest, &prefix(slot))?;
        }
        Ok(())
    }

    /// Removes what the job has stored, but for the last whole checkpoint where that is to stay.
    fn clean(&mut self) -> Result<(), StreamError> {
        let last = self.trained.saves.last().map(|save| save.step);
        for slot in 0..self.slots.len() {
            let step = self.slots[slot].as_ref().map(|manifest| manifest.step);
            if !(self.training.leave_last && step.is_some() && step == last) {
                self.free(slot)?;
            }
        }
        Ok(())
    }
}
