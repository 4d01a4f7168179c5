//! Quick's runs on the drive, each beside the same one simulated: the first, and those that search
//! for the answer where it misses the rule.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringfall_config::Plan;
use ringfall_core::clock::Nanos;
use ringfall_core::units::gib;
use ringfall_host::free_bytes;
use ringfall_model::facts::quotient;
use ringfall_model::{Code, Document, RunResult, Warning};
use ringfall_report::quick::{
    AVERAGE_LOADS_MIN, CONFIRMED_TO, LOADS_MIN, QuickPoint, QuickTry, missed_from_s, others_used,
    users_between,
};
use ringfall_running::run::LoadsEnough;

use super::speed::{fitted, too_quick};
use super::{Found, GENERATION_FLAG, Times, Trials, measured};

/// Flag of users who ask again at once.
const GENERATION_NONE: &str = "--generation-mode=none";
/// Largest number of runs on the drive.
const RUNS_MAX: usize = 3;
/// Longest wait for the space of the run before, which a file system may free some seconds later.
const FREED_WITHIN: Duration = Duration::from_secs(15);

/// Run of so many users on the drive.
pub(super) struct DriveRun {
    /// Flags of its load.
    load: Vec<String>,
    /// Times that it was to take; its window may have ended earlier.
    times: Times,
    pub(super) plan: Plan,
    pub(super) result: RunResult,
    /// Its figures beside those of the same run simulated on the drive of the curve.
    pub(super) figures: QuickTry,
}

/// Curve of a drive as quick as its runs showed.
pub(super) struct Settled {
    pub(super) found: Found,
    /// Runs in their order.
    pub(super) runs: Vec<DriveRun>,
    /// The drive's speed as a multiple of its limits.
    pub(super) speed: f64,
    /// Error of a further run.
    pub(super) failure: Option<String>,
}

impl Settled {
    /// Number of users to run next: those whom the curve serves, unless about as many were run, or
    /// the last run can't be judged.
    fn next_users(&self) -> Option<u32> {
        let users = self.found.tried();
        let is_near = |run: &DriveRun| {
            let tried = run.figures.measured.users;
            tried <= users && users_between(tried, users + 1).is_none()
        };
        let is_over = self.runs.len() == RUNS_MAX
            || self.runs.iter().any(is_near)
            || self.runs.last().is_some_and(|run| !run.is_judged());
        (!is_over).then_some(users)
    }
}

/// Run on the drive that is to be made.
struct Expected {
    times: Times,
    plan: Plan,
    predicted: QuickPoint,
}

impl Trials<'_> {
    /// Users that the drive serves by simulation, as many of whom are run on it, and simulated
    /// again at the speed that this shows, until what is served is what was run, or there is no
    /// time. None when it was interrupted before the first run had ended.
    pub(super) fn settled(&self, has_time: impl Fn(Times) -> bool) -> Result<Option<Settled>> {
        let Some(found) = self.found([].into_iter())? else { return Ok(None) };
        let mut settled = Settled { found, runs: Vec::new(), speed: 1.0, failure: None };
        while let Some(users) = settled.next_users() {
            let device = self.device_at(settled.speed);
            let at_speed = Trials { device: &device, ..*self };
            let is_first = settled.runs.is_empty();
            let has_time = |times| is_first || has_time(times);
            // What is known without a further run stands.
            match at_speed.on_drive(users, &settled.found.curve, has_time) {
                Ok(Some(run)) => settled.runs.push(run),
                Ok(None) if is_first => return Ok(None),
                Ok(None) => break,
                Err(error) if is_first => return Err(error),
                Err(error) => {
                    let failure = format!("a further run, of {users} users, failed: {error:#}");
                    settled.failure = Some(failure);
                    break;
                }
            }
            if !self.settle(&mut settled)? {
                break;
            }
        }
        Ok(Some(settled))
    }

    /// Simulates the curve and the runs at the speed that the runs show; false when it was
    /// interrupted, which changes nothing, or the runs tell nothing.
    fn settle(&self, settled: &mut Settled) -> Result<bool> {
        let runs = &settled.runs;
        if !runs.iter().all(DriveRun::is_judged) {
            return Ok(false);
        }
        let speed = fitted(|speed| {
            let runs = runs.iter().zip(self.predicted(runs, speed)?);
            let off = runs.map(|(run, predicted)| {
                too_quick(&QuickTry { measured: run.figures.measured.clone(), predicted })
            });
            Ok(off.sum())
        })?;
        let told = |speed: f64| format!("{speed:.2} times as quick as its limits");
        if told(speed) != told(settled.speed) {
            let speed = told(speed);
            self.quick.tell(&format!("simulating a drive {speed}, as the runs showed…"));
        }
        let device = self.device_at(speed);
        let tried = runs.iter().map(|run| run.figures.measured.users);
        let found = Trials { device: &device, ..*self }.found(tried)?;
        let predicted = self.predicted(runs, speed)?;
        let Some(found) = found.filter(|_| !self.interrupt.is_set()) else { return Ok(false) };
        (settled.found, settled.speed) = (found, speed);
        for (run, predicted) in settled.runs.iter_mut().zip(predicted) {
            run.figures.predicted = predicted;
        }
        Ok(true)
    }

    /// The runs simulated on a drive so many times as quick as its limits.
    fn predicted(&self, runs: &[DriveRun], speed: f64) -> Result<Vec<QuickPoint>> {
        let device = self.device_at(speed);
        let trials = Trials { device: &device, ..*self };
        runs.iter().map(|run| trials.predicted_of(&run.load, run.times, &run.result)).collect()
    }

    /// A run simulated that ended on the drive with this result: as long as it was there, unless it
    /// ended early and has too few loads by then.
    fn predicted_of(&self, load: &[String], times: Times, had: &RunResult) -> Result<QuickPoint> {
        let window_s = had.window.seconds.ceil() as u64;
        let shorter = (window_s < times.window_s)
            .then(|| self.expected_in(load, Times { window_s, ..times }))
            .transpose()?
            .filter(|expected| expected.predicted.loads >= AVERAGE_LOADS_MIN);
        let expected = shorter.map_or_else(|| self.expected_in(load, times), Ok)?;
        let is_without_pauses = load.iter().any(|flag| flag == GENERATION_NONE);
        Ok(QuickPoint { is_without_pauses, ..expected.predicted })
    }

    /// Runs so many users of the curve on the drive, for as long as it takes to judge the run,
    /// beside the same run simulated; none when it was interrupted, or has no time.
    pub(super) fn on_drive(
        &self,
        users: u32,
        curve: &[QuickPoint],
        has_time: impl Fn(Times) -> bool,
    ) -> Result<Option<DriveRun>> {
        let quick = self.quick;
        let mut load = quick.load(users, self.space_bytes, self.depth);
        let mut expected = self.expected(&load)?;
        let is_without_pauses = expected.predicted.loads < LOADS_MIN;
        if is_without_pauses {
            load.retain(|flag| !flag.starts_with(GENERATION_FLAG));
            load.push(GENERATION_NONE.to_owned());
            expected = self.expected(&load)?;
        }
        let Expected { times, plan, predicted } = expected;
        let is_full = || free_bytes(&quick.place).is_some_and(|free| free < self.space_bytes);
        let until = Instant::now() + FREED_WITHIN;
        // Where there is no room in the end, the run says so.
        let is_awaited = || Instant::now() < until && !self.interrupt.is_set() && is_full();
        if !wait_while(is_awaited, || has_time(times)) {
            return Ok(None);
        }
        quick.tell(&format!(
            "{} on the drive in {:.2} GiB, {} s…",
            ringfall_host::counted(users.into(), "user"),
            gib(self.space_bytes),
            times.warmup_s + times.window_s
        ));
        let point = curve.iter().find(|point| point.users == users);
        let p95_s = point.and_then(|point| point.load_p95_s);
        let enough = missed_from_s(&predicted, p95_s, quick.args.slo.load_p95_s)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .and_then(|time| u64::try_from(time.as_nanos()).ok())
            .map(|ns| LoadsEnough { loads: AVERAGE_LOADS_MIN, time: Nanos::from_ns(ns) });
        let result = measured(&plan, quick.command_line.clone(), enough, self.interrupt)?;
        if self.interrupt.is_set() {
            return Ok(None);
        }
        let ended_s = times.window_s.saturating_sub(result.window.seconds.ceil() as u64);
        if ended_s > 0 {
            quick.tell(&format!(
                "ended {ended_s} s early: its loads have taken so long that they miss the rule, \
                 whatever follows"
            ));
        }
        let predicted = self.predicted_of(&load, times, &result)?;
        let is_without_pauses = predicted.is_without_pauses;
        let measured = QuickPoint { is_without_pauses, ..QuickPoint::of(&Document::of(&result)) };
        let figures = QuickTry { measured, predicted };
        Ok(Some(DriveRun { load, times, plan, result, figures }))
    }

    /// The run of a load on the drive, for as long as it takes to judge it or may take, and what it
    /// is to bring.
    fn expected(&self, load: &[String]) -> Result<Expected> {
        let usual = self.expected_in(load, self.quick.times())?;
        match self.quick.longer_times(usual.predicted.loads) {
            Some(longer) => self.expected_in(load, longer),
            None => Ok(usual),
        }
    }

    /// The run of a load on the drive for so long, and what it is to bring.
    fn expected_in(&self, load: &[String], times: Times) -> Result<Expected> {
        let plan = self.quick.plan(load.to_vec(), times)?;
        let predicted = QuickPoint::of(&Document::of(&self.simulated(&plan)?));
        Ok(Expected { times, plan, predicted })
    }
}

impl DriveRun {
    /// Whether it tells how quick the drive is: it has enough loads, and nobody else used the
    /// drive, which is none in memory.
    fn is_judged(&self) -> bool {
        self.figures.measured.loads >= AVERAGE_LOADS_MIN
            && others_used(kernel_share(&self.result)).is_none()
            && self.result.machine.in_memory().is_none()
    }

    /// Its warnings, after that of a place that was `missing`.
    pub(super) fn notes(&self, missing: Option<&String>) -> Vec<String> {
        notes(missing, &self.result.warnings, kernel_share(&self.result))
    }
}

/// Waits while something is awaited and there is time; whether there still is.
fn wait_while(is_awaited: impl Fn() -> bool, has_time: impl Fn() -> bool) -> bool {
    while has_time() {
        if !is_awaited() {
            return true;
        }
        thread::sleep(Duration::from_millis(100));
    }
    false
}

/// Bytes that the kernel counted on the drive, as a share of those that the run moved; none where
/// it has no counter.
pub(super) fn kernel_share(result: &RunResult) -> Option<f64> {
    let (kernel, engine) = (result.kernel.as_ref()?, &result.engine);
    quotient(kernel.read_bytes + kernel.write_bytes, engine.io_read.bytes + engine.io_write.bytes)
}

/// The warning of a place that was missing, and those of the measured run that concern the drive,
/// rather than the load that was put on it; the verdict has those of memory and of others there,
/// and a cgroup's limits are held against the drive's.
fn notes(missing: Option<&String>, warnings: &[Warning], kernel_share: Option<f64>) -> Vec<String> {
    // Others are told of in the verdict, and a few percent are the file system's own.
    let is_counted = kernel_share.is_some_and(|share| share >= 1.0 - CONFIRMED_TO);
    let is_told_elsewhere = |code: &Code| match code {
        Code::KernelDisagrees => is_counted,
        _ => matches!(
            code,
            Code::Unfinished
                | Code::Backlog
                | Code::MissesFree
                | Code::DeepQueue
                | Code::SpaceShort
                | Code::TiersGrew
                | Code::MemoryBacked
                | Code::DriveThrottled
        ),
    };
    let warnings = warnings.iter().filter(|warning| !is_told_elsewhere(&warning.code));
    missing.into_iter().chain(warnings.map(|warning| &warning.text)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The system's disk was measured for a minute, and its answer did not say so.
    #[test]
    fn an_answer_says_that_its_directory_was_made_on_the_system_s_disk() {
        let warning = |code, text: &str| Warning { code, text: text.to_owned(), flag_to_try: None };
        let warnings = [
            warning(Code::Backlog, "requests pile up"),
            warning(Code::DriveThrottled, "a cgroup limits reads"),
            warning(Code::KernelDisagrees, "the kernel counted more"),
        ];
        let missing = "/mnt/kv does not exist".to_owned();
        let told = [missing.as_str(), "the kernel counted more"];
        assert_eq!(notes(Some(&missing), &warnings, Some(0.5)), told);
        assert_eq!(notes(Some(&missing), &warnings, Some(1.1)), told[..1]);
        assert_eq!(notes(None, &warnings, None), told[1..]);
    }

    /// A run was held to have time before its wait for room.
    #[test]
    fn a_wait_for_room_counts_as_time() {
        let looks = Cell::new(0);
        let look = || looks.replace(looks.get() + 1);
        assert!(!wait_while(|| true, || look() < 2));
        assert!(wait_while(|| look() < 4, || true));
        assert_eq!(looks.get(), 5);
    }
}
