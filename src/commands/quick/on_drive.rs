//! Quick's runs on the drive, each beside the same one simulated: the first, and those that search
//! for the answer where it misses the rule.

use std::mem::replace;
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
    AVERAGE_LOADS_MIN, CONFIRMED_TO, LOADS_MIN, QuickPoint, QuickReport, QuickTry, missed_from_s,
};
use ringfall_running::run::LoadsEnough;

use super::{GENERATION_FLAG, Times, Trials, measured};

/// Largest number of runs on the drive after the first one.
const FURTHER_RUNS_MAX: usize = 2;
/// Longest wait for the space of the run before, which a file system may free some seconds later.
const FREED_WITHIN: Duration = Duration::from_secs(15);

/// Run of so many users on the drive.
pub(super) struct DriveRun {
    pub(super) plan: Plan,
    pub(super) result: RunResult,
    pub(super) figures: QuickTry,
}

/// Run on the drive that is to be made.
struct Expected {
    times: Times,
    plan: Plan,
    predicted: QuickPoint,
}

impl Trials<'_> {
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
            load.push(format!("{GENERATION_FLAG}none"));
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
        let window_s = result.window.seconds.ceil() as u64;
        let predicted = match window_s < times.window_s {
            false => predicted,
            true => {
                quick.tell(&format!(
                    "ended {} s early: its loads have taken so long that they miss the rule, \
                     whatever follows",
                    times.window_s - window_s
                ));
                let shorter = self.expected_in(&load, Times { window_s, ..times })?.predicted;
                // On a drive quicker than simulated it has too few loads to judge the run by.
                if shorter.loads < AVERAGE_LOADS_MIN { predicted } else { shorter }
            }
        };
        let paced = |point| QuickPoint { is_without_pauses, ..point };
        let figures = QuickTry {
            measured: paced(QuickPoint::of(&Document::of(&result))),
            predicted: paced(predicted),
        };
        Ok(Some(DriveRun { plan, result, figures }))
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

    /// Makes further runs, for as long as the answer needs them and there is time, after the
    /// report's first one; leaves the warnings of the one that the answer rests on.
    pub(super) fn further_runs(
        &self,
        report: &mut QuickReport,
        first: DriveRun,
        has_time: impl Fn(Times) -> bool,
    ) -> Result<()> {
        let notes = |run: &DriveRun| (run.figures.measured.users, self.notes(&run.result));
        let (mut all_notes, mut failure) = (vec![notes(&first)], None);
        self.refine(report)?;
        while report.earlier.len() < FURTHER_RUNS_MAX
            && let Some(users) = report.next_try()
        {
            // The answer so far stands.
            let run = match self.on_drive(users, &report.curve, &has_time) {
                Ok(Some(run)) => run,
                Ok(None) => break,
                Err(error) => {
                    failure = Some(format!("a further run, of {users} users, failed: {error:#}"));
                    break;
                }
            };
            all_notes.push(notes(&run));
            let measured = replace(&mut report.measured, run.figures.measured);
            let predicted = replace(&mut report.predicted, run.figures.predicted);
            report.earlier.push(QuickTry { measured, predicted });
            report.kernel_share = kernel_share(&run.result);
            self.refine(report)?;
        }
        let users = report.deciding_users();
        let of_deciding = all_notes.into_iter().rfind(|(of, _)| *of == users);
        report.notes =
            of_deciding.into_iter().flat_map(|(_, notes)| notes).chain(failure).collect();
        Ok(())
    }

    /// Warnings of a run on the drive.
    fn notes(&self, result: &RunResult) -> Vec<String> {
        notes(self.quick.missing.as_ref(), &result.warnings, kernel_share(result))
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
/// rather than the load that was put on it; the verdict has those of memory and of others there.
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
