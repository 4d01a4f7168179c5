//! The loop: which jobs run, how they ended, what is left.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringfall_config::InputError;
use ringfall_core::held::HeldDirectory;

use super::child::{End, Running, log_of, output_of};
use super::job::{Ended, Job, Outcome};
use super::journal::{Journal, Plan};
use super::late::Limits;
use super::locks::Locks;
use super::screen::{Screen, Standing, duration_text};

/// This executable, also when its file has been replaced since it was started.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Interval of the checks whether a job has ended.
const PERIOD: Duration = Duration::from_millis(20);
/// Jobs of a batch: more than a person has time for.
const JOBS_MAX: usize = 100_000;
/// Longest name: the file systems' limit, with room for endings.
const NAME_BYTES_MAX: usize = 240;

/// Jobs to be run in a directory.
pub struct Batch {
    /// The command that they belong to, for the journal: `sweep`.
    pub what: String,
    /// Where results, logs and the journal are; made if it is not there.
    pub directory: PathBuf,
    /// The jobs in the order in which they begin.
    pub jobs: Vec<Job>,
    /// Largest number of jobs that run at the same time, at least 1. Jobs on a real drive disturb
    /// each other.
    pub at_once: usize,
    /// Executable that is run: this program.
    pub(super) program: PathBuf,
    /// When a job counts as one that hangs.
    pub(super) limits: Limits,
}

/// Outcome of a batch.
#[derive(Debug)]
pub struct Report {
    /// Outcome of each job, in the order of the jobs; none where it did not run, or was
    /// interrupted.
    pub outcomes: Vec<Option<Outcome>>,
    /// Whether it was told to end before all jobs had.
    pub is_interrupted: bool,
}

impl Report {
    /// Number of jobs that failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.outcomes.iter().flatten().filter(|outcome| !outcome.is_done()).count()
    }

    /// Jobs that are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.outcomes.iter().flatten().filter(|outcome| outcome.is_done()).count()
    }
}

impl Batch {
    /// Jobs that run one after the other.
    #[must_use]
    pub fn new(what: impl Into<String>, directory: impl Into<PathBuf>, jobs: Vec<Job>) -> Batch {
        let (what, directory) = (what.into(), directory.into());
        let (program, limits) = (PathBuf::from(THIS_PROGRAM), Limits::default());
        Batch { what, directory, jobs, at_once: 1, program, limits }
    }

    /// Expected duration of all jobs together, seconds.
    #[must_use]
    pub fn expected_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.expected_s).sum::<f64>() / self.at_once.max(1) as f64
    }

    /// Runs the jobs that are not done yet, until all have ended or `is_interrupted` says so.
    /// `rows` makes the table's lines of each that has ended, also of those that had before. To be
    /// called by a thread that lives as long as the program: jobs end with the one that began them.
    ///
    /// # Errors
    /// The directory holds another batch or can't be used, or no process can be started: what was
    /// done until then is kept. A job that fails is none.
    pub fn run(
        &self,
        is_interrupted: &dyn Fn() -> bool,
        screen: &mut Screen,
        rows: &mut dyn FnMut(&Ended<'_>) -> Vec<String>,
    ) -> Result<Report> {
        self.check()?;
        HeldDirectory::make(&self.directory)
            .with_context(|| format!("cannot create {}", self.directory.display()))?;
        let locks = Locks::take(&self.directory, is_interrupted, &mut || {
            screen.tell("waiting until the jobs of the batch that was killed here have ended…");
        })?;
        let (journal, ended) = Journal::open(&self.directory, &Plan::of(&self.what, &self.jobs))?;
        let state = State::of(self, &ended);
        let mut work = Work { batch: self, locks, journal, running: Vec::new(), state };
        work.tell_outlook(screen);
        for place in 0..self.jobs.len() {
            work.tell_ended(place, true, screen, rows);
        }
        let was_told = work.go(is_interrupted, screen, rows);
        screen.clear();
        Ok(Report { is_interrupted: was_told?, outcomes: work.state.outcomes })
    }

    /// Checks the number of jobs and their names, which are the caller's duty.
    fn check(&self) -> Result<()> {
        if self.jobs.len() > JOBS_MAX {
            let what = format!("{} jobs, and at most {JOBS_MAX} are run", self.jobs.len());
            return Err(InputError::new(what).into());
        }
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, Job { name, .. }) in self.jobs.iter().enumerate() {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-=".contains(c);
            let is_part = |part: &str| {
                part.chars().all(is_plain)
                    && !part.starts_with('.')
                    && (1..=NAME_BYTES_MAX).contains(&part.len())
            };
            ensure!(name.split('/').all(is_part), "{name:?} can't be the name of a job's files");
            let twin = places.insert(name, place);
            ensure!(twin.is_none(), "two jobs have the name {name}");
        }
        Ok(())
    }
}

/// Has a result on the disk before the journal says that it is there.
fn sync(result: &Path) -> Result<()> {
    let synced = File::open(result).and_then(|file| file.sync_all());
    synced.with_context(|| format!("the result {} can't be kept", result.display()))
}

/// State of the jobs.
struct State {
    /// By place; none: it has not run, or has to run again.
    outcomes: Vec<Option<Outcome>>,
    /// Places of jobs that have yet to begin, the last first.
    waiting: Vec<usize>,
    /// Expected and actual duration of the jobs that ended in this run, seconds.
    expected_s: f64,
    taken_s: f64,
}

impl State {
    /// Takes over what is done and whose result is still there.
    fn of(batch: &Batch, ended: &BTreeMap<String, Outcome>) -> State {
        let outcome_of = |job: &Job| {
            let outcome = ended.get(&job.name).filter(|outcome| outcome.is_done())?;
            let result = std::fs::metadata(output_of(&batch.directory, job)).ok()?;
            (result.len() > 0).then(|| outcome.clone())
        };
        let outcomes: Vec<Option<Outcome>> = batch.jobs.iter().map(outcome_of).collect();
        let waiting = (0..outcomes.len()).rev().filter(|place| outcomes[*place].is_none());
        State { waiting: waiting.collect(), outcomes, expected_s: 0.0, taken_s: 0.0 }
    }
}

/// A batch that runs.
struct Work<'a> {
    batch: &'a Batch,
    locks: Locks,
    journal: Journal,
    running: Vec<Running>,
    state: State,
}

impl Work<'_> {
    fn tell_outlook(&self, screen: &mut Screen) {
        let (all, waiting) = (self.batch.jobs.len(), self.state.waiting.len());
        let before = match all - waiting {
            0 => String::new(),
            done => format!(", {done} of them done before"),
        };
        let time = match waiting {
            0 => "nothing is left to run".to_owned(),
            _ => format!("about {}", duration_text(self.left_s())),
        };
        let directory = self.batch.directory.display();
        screen.tell(&format!("{all} runs{before}: {time}; results in {directory}"));
    }

    /// Expected duration of the rest, seconds, scaled by how long the finished jobs took against
    /// what was expected of them.
    fn left_s(&self) -> f64 {
        let State { waiting, expected_s, taken_s, .. } = &self.state;
        let factor = if *expected_s > 0.0 { taken_s / expected_s } else { 1.0 };
        let of = |place: usize| self.batch.jobs[place].expected_s * factor;
        let waiting_s: f64 = waiting.iter().map(|place| of(*place)).sum();
        let running = self.running.iter().map(|job| (of(job.place) - job.seconds()).max(0.0));
        let (running_s, longest_s) =
            running.fold((0.0, 0.0_f64), |(sum, longest), left| (sum + left, longest.max(left)));
        ((waiting_s + running_s) / self.batch.at_once.max(1) as f64).max(longest_s)
    }

    fn standing(&self, is_ending: bool) -> Standing {
        let ended = self.state.outcomes.iter().flatten();
        let done = ended.clone().filter(|outcome| outcome.is_done()).count();
        let name = |job: &Running| self.batch.jobs[job.place].name.clone();
        Standing {
            jobs: self.batch.jobs.len(),
            done,
            failed: ended.count() - done,
            running: self.running.iter().map(|job| (name(job), job.seconds())).collect(),
            left_s: self.left_s(),
            is_ending,
        }
    }

    /// Until all have ended, or it was told to end: whether it was.
    fn go(
        &mut self,
        is_interrupted: &dyn Fn() -> bool,
        screen: &mut Screen,
        rows: &mut dyn FnMut(&Ended<'_>) -> Vec<String>,
    ) -> Result<bool> {
        let mut was_told = false;
        loop {
            if is_interrupted() && !std::mem::replace(&mut was_told, true) {
                self.running.iter().try_for_each(Running::interrupt)?;
                if !self.running.is_empty() {
                    screen.answer();
                }
            }
            while !was_told && self.running.len() < self.batch.at_once.max(1) {
                let Some(place) = self.state.waiting.pop() else { break };
                self.start(place)?;
            }
            if self.running.is_empty() {
                // A signal that came when nothing was left to do ended nothing.
                return Ok(was_told && self.state.outcomes.iter().any(Option::is_none));
            }
            self.running.iter_mut().try_for_each(Running::end_if_stuck)?;
            self.reap(was_told, screen, rows)?;
            screen.show(|| self.standing(was_told));
            std::thread::sleep(PERIOD);
        }
    }

    fn start(&mut self, place: usize) -> Result<()> {
        let Batch { program, directory, jobs, limits, .. } = self.batch;
        let stdin = self.locks.for_job()?;
        let job = &jobs[place];
        self.running.push(Running::start(program, directory, place, job, (stdin, *limits))?);
        Ok(())
    }

    /// Takes out those that have ended.
    fn reap(
        &mut self,
        was_told: bool,
        screen: &mut Screen,
        rows: &mut dyn FnMut(&Ended<'_>) -> Vec<String>,
    ) -> Result<()> {
        let mut at = 0;
        while at < self.running.len() {
            let Some(end) = self.running[at].end(was_told)? else {
                at += 1;
                continue;
            };
            let place = self.running.swap_remove(at).place;
            let job = &self.batch.jobs[place];
            let outcome = match end {
                End::Of(outcome) => outcome,
                End::Interrupted(error) => {
                    // It runs again, and its log is written anew then.
                    if let Some(error) = error {
                        screen.insist(&format!("error: {}: {error}", job.name));
                    }
                    continue;
                }
            };
            if outcome.is_done() {
                sync(&output_of(&self.batch.directory, job))?;
            }
            self.journal.add(&job.name, &outcome)?;
            if outcome.is_done() {
                self.state.expected_s += job.expected_s;
                self.state.taken_s += outcome.seconds();
            }
            self.state.outcomes[place] = Some(outcome);
            self.tell_ended(place, false, screen, rows);
        }
        Ok(())
    }

    fn tell_ended(
        &self,
        place: usize,
        is_from_before: bool,
        screen: &mut Screen,
        rows: &mut dyn FnMut(&Ended<'_>) -> Vec<String>,
    ) {
        let Some(outcome) = &self.state.outcomes[place] else { return };
        let job = &self.batch.jobs[place];
        let directory: &Path = &self.batch.directory;
        let (output, log) = (output_of(directory, job), log_of(directory, job));
        let lines = rows(&Ended { job, place, outcome, output, log, is_from_before });
        screen.lines(&lines);
    }
}
