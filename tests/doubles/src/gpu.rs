//! GPU memory that goes wrong as planned, around another's: jobs that are refused, that fail, that
//! find wrong bytes, that end late, devices that are lost. For tests.
//!
//! The engine must survive any of these, of any job, at any time, and whatever is dropped
//! meanwhile.

#![allow(unsafe_code, reason = "passing a job on to the memory around which this is")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use ringfall_engine::clock::Clock;
use ringfall_engine::error::{ErrorKind, SetupError};
use ringfall_engine::fill::ContentName;
use ringfall_engine::key::mix64;
use ringfall_engine::tier::gpu::{
    Bell, GpuFacts, GpuFault, GpuMemory, GpuQueue, GpuWork, JobId, Piece, WorkDone,
};
use ringfall_engine::tier::pages::PageLocker;
use ringfall_engine::units::BLOCK_BYTES;

/// Flaw of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GpuFlaw {
    /// It does not begin.
    Refused,
    /// It fails when it is done.
    Failed,
    /// A comparison finds the first block to be another one; no effect on other work.
    WrongBytes,
    /// It ends, but only at the so manieth look.
    Late(u32),
    /// From now on every job fails.
    Lost,
}

/// When something goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GpuFlawPlan {
    /// Never.
    Never,
    /// With the job of that number, from 0.
    Nth(u64, GpuFlaw),
    /// With every so manieth job.
    Every(u64, GpuFlaw),
    /// At random, by this seed: of a thousand jobs so many are refused, fail, find wrong bytes, end
    /// late.
    Random {
        /// Names the sequence.
        seed: u64,
        /// Refused.
        refused: u16,
        /// Failed.
        failed: u16,
        /// With wrong bytes.
        wrong: u16,
        /// Late.
        late: u16,
    },
}

impl GpuFlawPlan {
    fn flaw(self, number: u64) -> Option<GpuFlaw> {
        match self {
            GpuFlawPlan::Never => None,
            GpuFlawPlan::Nth(nth, flaw) => (number == nth).then_some(flaw),
            GpuFlawPlan::Every(every, flaw) => number.is_multiple_of(every.max(1)).then_some(flaw),
            GpuFlawPlan::Random { seed, refused, failed, wrong, late } => {
                let random = mix64(seed ^ mix64(number.wrapping_add(1)));
                let polls = 1 + (random >> 32) as u32 % 20;
                let flaws = [
                    (refused, GpuFlaw::Refused),
                    (failed, GpuFlaw::Failed),
                    (wrong, GpuFlaw::WrongBytes),
                    (late, GpuFlaw::Late(polls)),
                ];
                let (mut draw, mut chosen) = (random % 1_000, None);
                for (permille, flaw) in flaws {
                    let permille = u64::from(permille);
                    if chosen.is_none() && draw < permille {
                        chosen = Some(flaw);
                    }
                    draw = draw.saturating_sub(permille);
                }
                chosen
            }
        }
    }
}

/// Counters of the flaws.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GpuFlawCounts {
    /// Jobs begun or refused.
    pub jobs: u64,
    /// Jobs that did not begin or failed.
    pub failed: u64,
    /// Blocks that were found to be wrong.
    pub wrong_blocks: u64,
    /// Jobs that ended late.
    pub late: u64,
}

#[derive(Debug, Default)]
struct Shared {
    jobs: AtomicU64,
    failed: AtomicU64,
    wrong_blocks: AtomicU64,
    late: AtomicU64,
    is_lost: AtomicU64,
}

/// GPU memory whose jobs go wrong as a plan says, around another's; for tests.
#[derive(Debug)]
pub struct FaultyMemory {
    inner: Arc<dyn GpuMemory>,
    plan: Arc<Mutex<GpuFlawPlan>>,
    shared: Arc<Shared>,
}

impl FaultyMemory {
    /// Has `inner` go wrong by `plan`.
    pub fn new(inner: Arc<dyn GpuMemory>, plan: GpuFlawPlan) -> Arc<FaultyMemory> {
        Arc::new(FaultyMemory { inner, plan: Arc::new(Mutex::new(plan)), shared: Arc::default() })
    }

    /// Sets the flaws from now on.
    pub fn set_plan(&self, plan: GpuFlawPlan) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Flaws that it has shown so far.
    pub fn counts(&self) -> GpuFlawCounts {
        GpuFlawCounts {
            jobs: self.shared.jobs.load(Relaxed),
            failed: self.shared.failed.load(Relaxed),
            wrong_blocks: self.shared.wrong_blocks.load(Relaxed),
            late: self.shared.late.load(Relaxed),
        }
    }
}

impl PageLocker for FaultyMemory {}

impl GpuMemory for FaultyMemory {
    fn facts(&self) -> &GpuFacts {
        self.inner.facts()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn open_queue(&self, clock: Clock, bell: Bell) -> Result<Box<dyn GpuQueue>, SetupError> {
        Ok(Box::new(FaultyQueue {
            inner: self.inner.open_queue(clock, bell)?,
            plan: Arc::clone(&self.plan),
            shared: Arc::clone(&self.shared),
            flawed: RefCell::default(),
            waiting: RefCell::default(),
        }))
    }
}

type Ended = (JobId, Result<WorkDone, GpuFault>);

struct FaultyQueue {
    inner: Box<dyn GpuQueue>,
    plan: Arc<Mutex<GpuFlawPlan>>,
    shared: Arc<Shared>,
    /// Jobs to which something is to happen when they end.
    flawed: RefCell<Vec<(JobId, GpuFlaw)>>,
    /// Ended, to be told after so many looks.
    waiting: RefCell<VecDeque<(u32, Ended)>>,
}

fn fault(kind: ErrorKind, what: &str) -> GpuFault {
    GpuFault { kind, device: "faulty GPU".to_owned(), what: what.to_owned() }
}

impl GpuQueue for FaultyQueue {
    unsafe fn submit(&self, work: &GpuWork, pieces: &[Piece]) -> Result<JobId, GpuFault> {
        let number = self.shared.jobs.fetch_add(1, Relaxed);
        let plan = *self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let flaw = match self.shared.is_lost.load(Relaxed) {
            0 => plan.flaw(number),
            _ => Some(GpuFlaw::Lost),
        };
        let is_check = matches!(work, GpuWork::Check { .. });
        match flaw {
            Some(GpuFlaw::Refused) => {
                self.shared.failed.fetch_add(1, Relaxed);
                return Err(fault(ErrorKind::Resources, "out of launch resources"));
            }
            Some(GpuFlaw::Lost) => {
                self.shared.is_lost.store(1, Relaxed);
                self.shared.failed.fetch_add(1, Relaxed);
                return Err(fault(ErrorKind::Gone, "the device is lost"));
            }
            Some(GpuFlaw::WrongBytes) if is_check => {
                // SAFETY: as promised to this call.
                return unsafe { self.check_against_another(work, pieces) };
            }
            _ => {}
        }
        // SAFETY: as promised to this call.
        let id = unsafe { self.inner.submit(work, pieces) }?;
        if let Some(flaw @ (GpuFlaw::Failed | GpuFlaw::Late(_))) = flaw {
            self.flawed.borrow_mut().push((id, flaw));
        }
        Ok(id)
    }

    fn reap(&self, ended: &mut dyn FnMut(JobId, Result<WorkDone, GpuFault>)) {
        let (mut flawed, mut waiting) = (self.flawed.borrow_mut(), self.waiting.borrow_mut());
        self.inner.reap(&mut |id, result| {
            let place = flawed.iter().position(|(flawed, _)| *flawed == id);
            let (looks, result) = match place.map(|place| flawed.swap_remove(place).1) {
                Some(GpuFlaw::Failed) => {
                    self.shared.failed.fetch_add(1, Relaxed);
                    (0, Err(fault(ErrorKind::Media, "an uncorrectable memory error")))
                }
                Some(GpuFlaw::Late(looks)) => {
                    self.shared.late.fetch_add(1, Relaxed);
                    (looks, result)
                }
                _ => (0, result),
            };
            waiting.push_back((looks, (id, result)));
        });
        waiting.retain_mut(|(looks, job)| {
            let is_due = *looks == 0;
            *looks = looks.saturating_sub(1);
            if is_due {
                ended(job.0, job.1.clone());
            }
            !is_due
        });
    }

    fn finish(&self) {
        self.inner.finish();
    }

    fn must_be_polled(&self) -> bool {
        true
    }
}

impl FaultyQueue {
    /// Has the first block compared with another entry's, and the rest as it should be.
    ///
    /// # Safety
    /// As for [`GpuQueue::submit`].
    unsafe fn check_against_another(
        &self,
        work: &GpuWork,
        pieces: &[Piece],
    ) -> Result<JobId, GpuFault> {
        let GpuWork::Check { name, first_block, mode } = *work else {
            unreachable!("the caller has looked")
        };
        let other = ContentName { version: name.version.wrapping_add(1), ..name };
        let first = pieces.first().map(|piece| Piece { length_bytes: BLOCK_BYTES, ..*piece });
        let work = GpuWork::Check { name: other, first_block, mode };
        // SAFETY: a part of what was promised to this call.
        let id = unsafe { self.inner.submit(&work, first.as_slice()) }?;
        self.shared.wrong_blocks.fetch_add(1, Relaxed);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_flaws_come_about_as_often_as_asked() {
        let plan = GpuFlawPlan::Random { seed: 5, refused: 10, failed: 20, wrong: 30, late: 40 };
        let flaws: Vec<GpuFlaw> = (0..100_000).filter_map(|number| plan.flaw(number)).collect();
        let count = |of: fn(&GpuFlaw) -> bool| flaws.iter().filter(|flaw| of(flaw)).count();
        // Binomial(100000, p): five sigma.
        for (seen, expected) in [
            (count(|flaw| *flaw == GpuFlaw::Refused), 1_000),
            (count(|flaw| *flaw == GpuFlaw::Failed), 2_000),
            (count(|flaw| *flaw == GpuFlaw::WrongBytes), 3_000),
            (count(|flaw| matches!(flaw, GpuFlaw::Late(_))), 4_000),
        ] {
            assert!(seen.abs_diff(expected) < 320, "{seen} of {expected}");
        }
    }
}
