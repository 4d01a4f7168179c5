//! The loop: which jobs run, how they ended, what is left.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ringfall_config::InputError;
use ringfall_core::held::HeldDirectory;
use ringfall_host::exit::Exit;

use super::child::{End, Running};
use super::job::{Batch, Ended, Job, Outcome};
use super::journal::{self, Plan};
use super::lock::Lock;
use super::screen::{self, Screen, duration_text};
use super::unusable;

/// Interval of the checks whether a job has ended.
const PERIOD: Duration = Duration::from_millis(20);
/// Longest wait for jobs that were told to end; they give up by themselves a little before, but for
/// what the kernel holds.
const END_MAX: Duration = Duration::from_secs(33);
/// Jobs of a batch: more than a person has time for.
const JOBS_MAX: usize = 100_000;
/// Longest name: the file systems' limit, with room for endings.
const NAME_BYTES_MAX: usize = 240;

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
    pub fn failed(&self) -> usize {
        self.outcomes.iter().flatten().count() - self.done()
    }

    /// Jobs that are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.outcomes.iter().flatten().filter(|outcome| **outcome == Outcome::Done).count()
    }

    /// Exit status of a command that runs the batch.
    pub fn exit(&self) -> Exit {
        match (self.is_interrupted, self.failed()) {
            (true, _) => Exit::Interrupted,
            (false, 0) => Exit::Done,
            (false, _) => Exit::Failed,
        }
    }
}

impl Batch {
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
        let missing: Vec<&Path> =
            self.directory.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        let lock = self.lock(is_interrupted, screen).inspect_err(|_| {
            for made in &missing {
                let _stays_if_it_holds_anything = std::fs::remove_dir(made);
            }
        })?;
        let is_continued = journal::keep(&self.directory, &Plan::of(&self.what, &self.jobs))?;
        let is_done = |job: &Job| is_continued && journal::is_done(&self.directory, job);
        let outcomes: Vec<_> =
            self.jobs.iter().map(|job| is_done(job).then_some(Outcome::Done)).collect();
        let waiting = (0..outcomes.len()).rev().filter(|place| outcomes[*place].is_none());
        let waiting = waiting.collect();
        let (running, expected_s, taken_s) = (Vec::new(), 0.0, 0.0);
        let report = Report { outcomes, is_interrupted: false };
        let mut work =
            Work { batch: self, rows, running, report, waiting, expected_s, taken_s, lock };
        work.tell_outlook(screen);
        for place in 0..self.jobs.len() {
            work.tell_ended(place, None, screen);
        }
        let was_told = work.go(is_interrupted, screen);
        screen.clear();
        work.report.is_interrupted = was_told?;
        Ok(work.report)
    }

    /// Makes the directory and takes its lock.
    fn lock(&self, is_interrupted: &dyn Fn() -> bool, screen: &mut Screen) -> Result<Lock> {
        HeldDirectory::make(&self.directory).map_err(|error| {
            unusable(&format!("cannot create {}", self.directory.display()), error)
        })?;
        Lock::take(&self.directory, is_interrupted, &mut || {
            screen.tell("waiting until the batch here, or the jobs of one that was killed, end…");
        })
    }

    /// Checks the number of jobs and their names, which are the caller's duty.
    fn check(&self) -> Result<()> {
        if self.jobs.len() > JOBS_MAX {
            let what = format!("{} jobs, and at most {JOBS_MAX} are run", self.jobs.len());
            return Err(InputError::new(what).into());
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for Job { name, .. } in &self.jobs {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-=".contains(c);
            let is_part = |part: &str| {
                part.chars().all(is_plain)
                    && !part.starts_with('.')
                    && (1..=NAME_BYTES_MAX).contains(&part.len())
            };
            ensure!(name.split('/').all(is_part), "{name:?} can't be the name of a job's files");
            ensure!(names.insert(name), "two jobs have the name {name}");
        }
        Ok(())
    }
}

struct Work<'a> {
    batch: &'a Batch,
    /// Makes the table's lines.
    rows: &'a mut dyn FnMut(&Ended<'_>) -> Vec<String>,
    /// Jobs that run; they have ended before the lock is given back.
    running: Vec<Running<'a>>,
    /// Outcomes so far; none: the job has not run, or has to run again.
    report: Report,
    /// Places of jobs that have yet to begin, the last first.
    waiting: Vec<usize>,
    /// Expected and actual duration of the jobs that were done in this run, seconds.
    expected_s: f64,
    taken_s: f64,
    lock: Lock,
}

impl Work<'_> {
    fn tell_outlook(&self, screen: &mut Screen) {
        let (all, waiting) = (self.batch.jobs.len(), self.waiting.len());
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
        let factor = if self.expected_s > 0.0 { self.taken_s / self.expected_s } else { 1.0 };
        let of = |place: usize| self.batch.jobs[place].expected_s * factor;
        let waiting_s: f64 = self.waiting.iter().map(|place| of(*place)).sum();
        let running = self.running.iter().map(|job| (of(job.place) - job.seconds()).max(0.0));
        let (running_s, longest_s) =
            running.fold((0.0, 0.0_f64), |(sum, longest), left| (sum + left, longest.max(left)));
        ((waiting_s + running_s) / self.batch.at_once.max(1) as f64).max(longest_s)
    }

    fn line(&self, is_ending: bool) -> String {
        let counts = [self.report.done(), self.report.failed()];
        let name = |job: &Running<'_>| self.batch.jobs[job.place].name.as_str();
        let running: Vec<_> = self.running.iter().map(|job| (name(job), job.seconds())).collect();
        let left_s = (!is_ending).then(|| self.left_s());
        screen::line(self.batch.jobs.len(), counts, &running, left_s)
    }

    /// Until all have ended, or it was told to end: whether it was.
    fn go(&mut self, is_interrupted: &dyn Fn() -> bool, screen: &mut Screen) -> Result<bool> {
        let mut told_at: Option<Instant> = None;
        loop {
            if told_at.is_none() && is_interrupted() {
                told_at = Some(Instant::now());
                self.running.iter().try_for_each(Running::interrupt)?;
                if !self.running.is_empty() {
                    screen.answer();
                }
            }
            let was_told = told_at.is_some();
            while !was_told && self.running.len() < self.batch.at_once.max(1) {
                let Some(place) = self.waiting.pop() else { break };
                self.running.push(Running::start(self.batch, place, self.lock.for_job()?)?);
            }
            if self.running.is_empty() {
                // A signal that came when nothing was left to do ended nothing.
                return Ok(was_told && self.report.outcomes.iter().any(Option::is_none));
            }
            if told_at.is_some_and(|told_at| told_at.elapsed() >= END_MAX) {
                self.leave(screen);
                return Ok(true);
            }
            for job in &mut self.running {
                if let Some(why) = job.end_if_late()? {
                    let name = &self.batch.jobs[job.place].name;
                    screen.insist(&format!("warning: {name}: {why}"));
                }
            }
            self.reap(was_told, screen)?;
            screen.show(|| self.line(was_told));
            std::thread::sleep(PERIOD);
        }
    }

    /// Leaves alone those that did not end although they were told to.
    fn leave(&mut self, screen: &mut Screen) {
        for job in self.running.drain(..) {
            let (name, process) = (&self.batch.jobs[job.place].name, job.abandon());
            screen.insist(&format!(
                "warning: {name} has not ended: the kernel holds it (process {process}) until its \
                 drive answers; the next run in its directory removes the data that it left"
            ));
        }
    }

    /// Takes out those that have ended.
    fn reap(&mut self, was_told: bool, screen: &mut Screen) -> Result<()> {
        let mut at = 0;
        while at < self.running.len() {
            let Some(end) = self.running[at].end(was_told)? else {
                at += 1;
                continue;
            };
            let ended = self.running.swap_remove(at);
            let (place, took_s) = (ended.place, ended.seconds());
            let job = &self.batch.jobs[place];
            match end {
                // It runs again, and its log is written anew then.
                End::Interrupted(None) => {}
                End::Interrupted(Some(error)) => {
                    screen.insist(&format!("error: {}: {error}", job.name));
                }
                End::Of(outcome) => {
                    if outcome == Outcome::Done {
                        self.expected_s += job.expected_s;
                        self.taken_s += took_s;
                    }
                    self.report.outcomes[place] = Some(outcome);
                    self.tell_ended(place, Some(took_s), screen);
                }
            }
        }
        Ok(())
    }

    fn tell_ended(&mut self, place: usize, took_s: Option<f64>, screen: &mut Screen) {
        let Some(outcome) = &self.report.outcomes[place] else { return };
        let (job, directory) = (&self.batch.jobs[place], &self.batch.directory);
        let (output, log) = (job.output(directory), job.log(directory));
        let lines = (self.rows)(&Ended { job, place, outcome, output, log, took_s });
        screen.lines(&lines);
    }
}
