//! Space that a tier takes while it is used, in steps: how large a step is, how one is taken, and
//! the thread that takes them beside the shards.
//!
//! A step is begun before the space is needed (`placement` says when), so that a write seldom waits
//! for one. It is taken on a thread of its own, because it blocks: `fallocate` waits for the writes
//! in flight on the file, and giving a range its memory zeroes it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use crate::clock::Nanos;
use crate::error::SetupError;
use crate::units::{GIB, MIB};

/// A step is an eighth of what is there already: few steps for a large tier, since each makes
/// writers wait for a moment, and at most an eighth of what a run uses lies idle.
const SHARE: u64 = 8;
/// A small tier takes no more than this part of itself in one step, so that several runs can begin
/// side by side on a small file system.
const SMALL_SHARE: u64 = 16;

/// Sizes of the steps in which a tier grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    least_bytes: u64,
    most_bytes: u64,
}

impl Steps {
    /// Storage: 1 GiB at least, half of which lasts 80 ms at 6 GiB/s, many times as long as ext4
    /// and XFS take to reserve it; 64 GiB at most.
    pub const STORAGE: Steps = Steps { least_bytes: GIB, most_bytes: 64 * GIB };
    /// Host memory: 64 MiB at least, 1 GiB at most, which is zeroed in a fraction of a second.
    pub const MEMORY: Steps = Steps { least_bytes: 64 * MIB, most_bytes: GIB };

    /// The next step of a tier that has `have_bytes` and may come to hold `limit_bytes`: a multiple
    /// of `unit_bytes` ≥ 1, or all that is left.
    pub fn step_bytes(self, have_bytes: u64, limit_bytes: u64, unit_bytes: u64) -> u64 {
        let least = self.least_bytes.min(limit_bytes / SMALL_SHARE);
        let step = (have_bytes / SHARE).clamp(least, self.most_bytes).max(1);
        step.next_multiple_of(unit_bytes).min(limit_bytes.saturating_sub(have_bytes))
    }
}

/// Source of a tier's space.
pub trait Space: Send + Sync + Debug {
    /// Bytes that may be taken now without taking what is to be left to others; none: nothing says.
    fn left_bytes(&self) -> Option<u64>;

    /// Takes `length_bytes` more from `offset_bytes` on; a refusal leaves nothing taken.
    ///
    /// # Errors
    /// Why it can't be had, for a person: what comes after "because".
    fn take(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), String>;
}

/// A step to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceStep {
    /// Bytes there are already, without a hole: where the step begins.
    pub have_bytes: u64,
    /// Bytes that there should be after the step, counted from the same start as `have_bytes`.
    pub want_bytes: u64,
    /// Unit of what is taken, bytes, ≥ 1: a multiple of it, unless it is all that is wanted.
    pub unit_bytes: u64,
}

/// Takes as much of the step as can be had: what others leave, and half of it as long as it is
/// refused. How much that was, > 0.
///
/// # Errors
/// Not even one unit could be had; why.
pub fn take_step(space: &dyn Space, step: SpaceStep) -> Result<u64, String> {
    let SpaceStep { have_bytes, want_bytes, unit_bytes } = step;
    let mut refusal = None;
    let mut piece = want_bytes;
    loop {
        if let Some(left) = space.left_bytes()
            && left < piece
        {
            piece = left / unit_bytes * unit_bytes;
            refusal.get_or_insert_with(|| {
                format!("only {} MiB more may be taken without crowding others out", left / MIB)
            });
        }
        if piece == 0 {
            return Err(refusal.unwrap_or_else(|| "there is no more of it".to_owned()));
        }
        match space.take(have_bytes, piece) {
            Ok(()) => return Ok(piece),
            Err(why) => {
                refusal.get_or_insert(why);
                piece = piece / 2 / unit_bytes * unit_bytes;
            }
        }
    }
}

struct Job {
    step: SpaceStep,
    answer: flume::Sender<Result<u64, String>>,
}

/// Time in which at least one step was being taken for a tier, by whichever shard.
///
/// One word, so that a shard reads it whole while others change it: in the high byte the number of
/// steps under way, and below it the time that has passed, ns, less the time now while there are
/// any (modulo 2⁵⁶ ns, which are two years).
#[derive(Debug, Default)]
pub struct GrowthTime(AtomicU64);

impl GrowthTime {
    const STEP: u64 = 1 << 56;
    const TIME: u64 = Self::STEP - 1;

    /// Notes that a step begins now.
    pub fn begin(&self, now: Nanos) {
        self.change(|word| match word / Self::STEP {
            0 => (word.wrapping_sub(now.as_ns()) & Self::TIME) + Self::STEP,
            _ => word + Self::STEP,
        });
    }

    /// Notes that a step which began before ends now.
    pub fn end(&self, now: Nanos) {
        self.change(|word| match word / Self::STEP {
            1 => word.wrapping_add(now.as_ns()) & Self::TIME,
            _ => word - Self::STEP,
        });
    }

    /// Time up to now in which steps were taken.
    pub fn until(&self, now: Nanos) -> Nanos {
        let word = self.0.load(SeqCst);
        Nanos::from_ns(match word / Self::STEP {
            0 => word,
            _ => word.wrapping_add(now.as_ns()) & Self::TIME,
        })
    }

    fn change(&self, next: impl Fn(u64) -> u64) {
        let always = |word| Some(next(word));
        let _before = self.0.fetch_update(SeqCst, SeqCst, always);
    }
}

/// Where the steps of one tier are taken.
#[derive(Clone, Debug)]
pub enum Ground {
    /// Nowhere: the tier has all of its space.
    Whole,
    /// At once, by the caller: for simulations and tests.
    Inline(Arc<dyn Space>),
    /// By a thread, one step after the other.
    Thread(Helper),
}

/// A thread that takes steps; it ends when the last clone of this is dropped.
#[derive(Clone)]
pub struct Helper(flume::Sender<Job>);

impl Debug for Helper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Helper")
    }
}

impl Ground {
    /// Starts a thread of that name. It does not keep `space` alive.
    pub fn thread(name: &str, space: Weak<dyn Space>) -> Result<Ground, SetupError> {
        let (jobs, inbox) = flume::unbounded::<Job>();
        let work = move || {
            while let Ok(job) = inbox.recv() {
                let Some(space) = space.upgrade() else { break };
                // A shard that has ended meanwhile needs no answer.
                let _heard = job.answer.send(take_step(&*space, job.step));
            }
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let failed = |error: std::io::Error| {
            SetupError::new(
                format!("no thread can be started for {name}: {error}"),
                "raise the limit on threads (ulimit -u)",
            )
        };
        started.map_err(failed)?;
        Ok(Ground::Thread(Helper(jobs)))
    }

    /// Takes as much of the step as can be had, as [`take_step`].
    ///
    /// # Errors
    /// Nothing could be had; why.
    pub async fn take(&self, step: SpaceStep) -> Result<u64, String> {
        match self {
            Ground::Whole => Err("all of it has been given out".to_owned()),
            Ground::Inline(space) => take_step(&**space, step),
            Ground::Thread(Helper(jobs)) => {
                let gone = || "the thread that takes it has ended".to_owned();
                let (answer, answered) = flume::bounded(1);
                jobs.send(Job { step, answer }).map_err(|_| gone())?;
                answered.recv_async().await.map_err(|_| gone())?
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Has so much, tells so much of it, and notes what was asked.
    #[derive(Debug)]
    struct Fake {
        has_bytes: u64,
        told_bytes: Option<u64>,
        asked: Mutex<Vec<(u64, u64)>>,
    }

    impl Fake {
        fn new(has_bytes: u64, told_bytes: Option<u64>) -> Fake {
            Fake { has_bytes, told_bytes, asked: Mutex::default() }
        }
    }

    impl Space for Fake {
        fn left_bytes(&self) -> Option<u64> {
            self.told_bytes
        }

        fn take(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), String> {
            self.asked.lock().unwrap().push((offset_bytes, length_bytes));
            if offset_bytes + length_bytes <= self.has_bytes { Ok(()) } else { Err("full".into()) }
        }
    }

    #[test]
    fn steps_grow_with_the_tier_and_are_small_where_it_is() {
        let step = |have, limit| Steps::STORAGE.step_bytes(have, limit, MIB);
        assert_eq!(step(0, 1000 * GIB), GIB);
        assert_eq!(step(80 * GIB, 1000 * GIB), 10 * GIB);
        assert_eq!(step(4000 * GIB, 9000 * GIB), 64 * GIB);
        assert_eq!(step(0, 64 * MIB), 4 * MIB);
        assert_eq!(step(60 * MIB + 1, 64 * MIB), 4 * MIB - 1, "what is left, not a multiple");
        assert_eq!(step(64 * MIB, 64 * MIB), 0);
        assert_eq!(step(0, 8 * MIB), MIB, "a unit at least");
        assert_eq!(Steps::MEMORY.step_bytes(0, 32 * GIB, 2 * MIB), 64 * MIB);
        assert_eq!(Steps::MEMORY.step_bytes(30 * GIB, 32 * GIB, 2 * MIB), GIB);
    }

    #[test]
    fn steps_side_by_side_count_their_time_once() {
        let (time, at) = (GrowthTime::default(), Nanos::from_secs);
        let until = |now: u64| time.until(at(now));
        assert_eq!(until(5), Nanos::ZERO);
        time.begin(at(10));
        assert_eq!(until(12), at(2), "while a step is taken");
        time.begin(at(13));
        time.end(at(14));
        assert_eq!(until(15), at(5));
        time.end(at(16));
        assert_eq!((until(16), until(100)), (at(6), at(6)));
        time.begin(at(100));
        time.end(at(103));
        assert_eq!(until(200), at(9));
    }

    #[test]
    fn a_step_that_is_refused_is_halved_down_to_a_unit() {
        let step = SpaceStep { have_bytes: 100, want_bytes: 64, unit_bytes: 4 };
        let enough = Fake::new(1000, None);
        assert_eq!(take_step(&enough, step), Ok(64));
        let short = Fake::new(112, None);
        assert_eq!(take_step(&short, step), Ok(8));
        assert_eq!(*short.asked.lock().unwrap(), [(100, 64), (100, 32), (100, 16), (100, 8)]);
        let full = Fake::new(100, None);
        assert_eq!(take_step(&full, step), Err("full".to_owned()));
        assert_eq!(full.asked.lock().unwrap().last(), Some(&(100, 4)));
    }

    #[test]
    fn what_is_to_be_left_to_others_is_not_even_tried() {
        let step = SpaceStep { have_bytes: 0, want_bytes: 64, unit_bytes: 4 };
        let told = Fake::new(1000, Some(30));
        assert_eq!(take_step(&told, step), Ok(28));
        assert_eq!(*told.asked.lock().unwrap(), [(0, 28)]);
        let nothing = Fake::new(1000, Some(3));
        assert!(take_step(&nothing, step).unwrap_err().contains("only 0 MiB more"));
        assert!(nothing.asked.lock().unwrap().is_empty());
    }

    #[test]
    fn the_thread_takes_steps_and_does_not_outlive_the_space() {
        let space: Arc<dyn Space> = Arc::new(Fake::new(112, None));
        let ground = Ground::thread("test-space", Arc::downgrade(&space)).unwrap();
        let step = SpaceStep { have_bytes: 100, want_bytes: 64, unit_bytes: 4 };
        let wait = |ground: &Ground| {
            let Ground::Thread(Helper(jobs)) = ground else { unreachable!("a thread") };
            let (answer, answered) = flume::bounded(1);
            jobs.send(Job { step, answer }).ok()?;
            answered.recv().ok()
        };
        assert_eq!(wait(&ground), Some(Ok(8)));
        drop(space);
        assert_eq!(wait(&ground), None, "it has ended");
    }
}
