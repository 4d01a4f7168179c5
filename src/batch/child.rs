//! One job as a child process.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ringfall_core::held::HeldDirectory;
use ringfall_host::exit::Exit;
use ringfall_host::files;
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};

use super::job::{Job, Outcome};
use super::late::{Deed, Lateness, Limits};

/// The variable that tells a job whose child it is.
const PARENT: &str = "RINGFALL_BATCH_PID";
/// Longest wait for a job that was told to end because the batch ends by an error.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// Interval of the checks whether it has ended.
const END_LOOK: Duration = Duration::from_millis(20);
/// The end of a log, in which the reason of a failure is looked for.
const LOG_END_BYTES: u64 = 4096;

/// Has this process told to end (SIGTERM) when the batch that started it dies. Does nothing in one
/// that no batch started.
///
/// # Errors
/// When the batch has died already: nobody waits for what this process would do.
pub fn end_with_parent() -> std::io::Result<()> {
    let Ok(parent) = std::env::var(PARENT) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let is_there = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
    // A process that a job starts inherits the variable, and its parent is the job.
    let is_of_a_job = !is_there && Path::new(&format!("/proc/{parent}")).exists();
    match is_there || is_of_a_job {
        true => Ok(()),
        false => Err(std::io::Error::other("the batch that this job belongs to has ended")),
    }
}

/// Files of a job.
pub(super) fn output_of(directory: &Path, job: &Job) -> PathBuf {
    directory.join(format!("{}.json", job.name))
}

pub(super) fn log_of(directory: &Path, job: &Job) -> PathBuf {
    directory.join(format!("{}.log", job.name))
}

/// A job that runs.
pub(super) struct Running {
    /// Its place in the batch.
    pub(super) place: usize,
    child: Child,
    began: Instant,
    output: PathBuf,
    log: PathBuf,
    lateness: Lateness,
}

/// End of a job's process.
pub(super) enum End {
    /// By itself.
    Of(Outcome),
    /// Because it was told to; it counts as not run. With the last error that it printed: that its
    /// data is left behind, perhaps.
    Interrupted(Option<String>),
}

impl Running {
    /// Starts the job in a process group of its own, which a terminal's Ctrl-C does not reach.
    ///
    /// # Errors
    /// Its log can't be written, or no process can be started.
    pub(super) fn start(
        program: &Path,
        directory: &Path,
        place: usize,
        job: &Job,
        (stdin, limits): (File, Limits),
    ) -> Result<Running> {
        let (output, log) = (output_of(directory, job), log_of(directory, job));
        let unwritable = || format!("cannot write the log {}", log.display());
        let part_of = |path: &Path| path.strip_prefix(directory).unwrap_or(path).to_path_buf();
        let (result, printed) = (part_of(&output), part_of(&log));
        let parent = printed.parent().unwrap_or(Path::new(""));
        let held = HeldDirectory::open(directory).and_then(|held| held.below(parent, true));
        let held = held.with_context(unwritable)?;
        // What an earlier attempt left must not be taken for this one's.
        match held.remove(result.file_name().unwrap_or_default()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("the old result {} can't be removed", output.display());
                return Err(error).context(what);
            }
            _ => {}
        }
        let printed = files::begin_in(&held, printed.file_name().unwrap_or_default());
        let printed = printed.with_context(unwritable)?;
        let told = printed.try_clone().with_context(unwritable)?;
        let child = Command::new(program)
            .arg0("ringfall")
            .args(&job.arguments)
            .arg("--output")
            .arg(&output)
            .env(PARENT, std::process::id().to_string())
            .stdin(stdin)
            .stdout(printed)
            .stderr(told)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let lateness = Lateness::new(job.expected_s, limits);
        Ok(Running { place, child, began: Instant::now(), output, log, lateness })
    }

    /// Time since it began, seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Tells it, and all that it started, to end in order.
    ///
    /// # Errors
    /// The kernel refuses the signal.
    pub(super) fn interrupt(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        match group.map(|group| kill_process_group(group, signal)) {
            // It has ended in this moment.
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(error).context("cannot signal a job to end"),
        }
    }

    /// Ends one that takes far longer than expected and does nothing any more.
    ///
    /// # Errors
    /// The kernel refuses the signal.
    pub(super) fn end_if_stuck(&mut self) -> Result<()> {
        let (seconds, id) = (self.seconds(), self.child.id());
        match self.lateness.judge(seconds, || moved_bytes(id)) {
            Deed::Bear => Ok(()),
            Deed::Tell => self.signal(Signal::TERM),
            Deed::Kill => self.signal(Signal::KILL),
        }
    }

    /// End of the process, once it has ended.
    ///
    /// # Errors
    /// The kernel does not know the process.
    pub(super) fn end(&mut self, was_told: bool) -> Result<Option<End>> {
        let status = self.child.try_wait().context("cannot wait for a job")?;
        Ok(status.map(|status| self.end_of(status, was_told)))
    }

    fn end_of(&self, status: ExitStatus, was_told: bool) -> End {
        let seconds = self.seconds();
        let is_interrupted = status.code() == Some(i32::from(Exit::Interrupted.status()))
            || status.signal().is_some();
        if was_told && is_interrupted {
            return End::Interrupted(last_error(&log_end(&self.log)).map(str::to_owned));
        }
        let has_result = std::fs::metadata(&self.output).is_ok_and(|file| file.len() > 0);
        if status.success() && has_result {
            return End::Of(Outcome::Done { seconds });
        }
        let log = log_end(&self.log);
        let said = last_error(&log).or_else(|| last_line(&log));
        let said = said.map(|text| format!(": {text}")).unwrap_or_default();
        if let Some(stuck) = self.lateness.told() {
            return End::Of(Outcome::Failed { seconds, why: format!("{stuck}{said}") });
        }
        let how = match (status.code(), status.signal()) {
            (Some(0), _) => "it wrote no result".to_owned(),
            (Some(130), _) => "it was interrupted (exit status 130)".to_owned(),
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("it was killed by signal {signal}"),
            (None, None) => "it ended without a status".to_owned(),
        };
        End::Of(Outcome::Failed { seconds, why: format!("{how}{said}") })
    }
}

impl Drop for Running {
    /// Only when the batch ends by an error: a job must not outlive it.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _it_ends_by_itself = self.interrupt();
            let told = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && told.elapsed() < END_PATIENCE {
                std::thread::sleep(END_LOOK);
            }
            // One that the kernel holds fast dies when it lets go, whether it is waited for or not.
            let _has_ended = self.signal(Signal::KILL);
            let _reaped = self.child.try_wait();
        }
    }
}

/// A second of a processor counts as so many bytes: a tenth of a core is life, and what a run that
/// stands still uses is a hundredth at the most.
const BYTES_A_CPU_SECOND: f64 = (1 << 20) as f64 / 30.0;

/// Bytes that the process has read from storage and written to it so far, with its time on
/// processors as bytes: a simulated run moves none. None where the kernel does not count it.
fn moved_bytes(id: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/io")).ok()?;
    let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    let (read, written): (u64, u64) = (of("read_bytes:")?, of("write_bytes:")?);
    let times = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may hold anything; user and system time are the 12th and 13th after.
    let mut times = times.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    let ticks_a_second = rustix::param::clock_ticks_per_second();
    let cpu_s = (user + system) as f64 / ticks_a_second as f64;
    Some(read.saturating_add(written).saturating_add(computed_bytes(cpu_s)))
}

/// Time on processors, as bytes.
fn computed_bytes(cpu_s: f64) -> u64 {
    (cpu_s * BYTES_A_CPU_SECOND) as u64
}

/// The end of a log; nothing of one that can't be read.
fn log_end(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(LOG_END_BYTES)))?;
        let mut end = Vec::new();
        file.take(LOG_END_BYTES).read_to_end(&mut end)?;
        Ok::<_, std::io::Error>(end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The last line that says what was wrong.
fn last_error(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| line.trim().strip_prefix("error: "))
}

fn last_line(log: &str) -> Option<&str> {
    log.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// A process that ends with the test.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _it_may_be_gone = self.0.kill();
            let _reaped = self.0.wait();
        }
    }

    fn shell(script: &str) -> Process {
        let mut command = Command::new("/bin/sh");
        Process(command.args(["-c", script]).stdin(Stdio::null()).spawn().unwrap())
    }

    #[test]
    fn a_process_that_only_computes_shows_life_and_one_that_sleeps_none() {
        let (computes, sleeps) = (shell("while :; do :; done"), shell("exec sleep 1000"));
        let moved = |process: &Process| moved_bytes(process.0.id()).unwrap();
        let (slept_before, before) = (moved(&sleeps), moved(&computes));
        // On a busy machine a fifth of a second on a processor takes far longer.
        let began = Instant::now();
        while moved(&computes) < before + computed_bytes(0.2) {
            assert!(began.elapsed() < Duration::from_secs(90), "it is not seen to compute");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(moved(&sleeps) < slept_before + computed_bytes(0.2));
    }

    #[test]
    fn a_tenth_of_a_core_is_life_and_a_hundredth_is_none() {
        // The first step that is more than bearing it, if each second takes that share of a core.
        let judged = |share: f64| {
            let mut lateness = Lateness::new(100.0, Limits::default());
            let steps = (900..4_000_u32).map(|second| {
                let seconds = f64::from(second);
                lateness.judge(seconds, || Some(computed_bytes(seconds * share)))
            });
            steps.fold(Deed::Bear, |first, step| if first == Deed::Bear { step } else { first })
        };
        assert_eq!(judged(0.11), Deed::Bear);
        assert_eq!(judged(0.01), Deed::Tell);
    }
}
