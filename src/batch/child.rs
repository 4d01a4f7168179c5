//! One job as a child process.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ringfall_core::held::HeldDirectory;
use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;
use ringfall_host::{files, interrupt};
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};

use super::job::{Batch, Limits, Outcome};
use super::journal::{has_result, mark};
use super::{duration_text, unusable};

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

pub(super) struct Running<'a> {
    batch: &'a Batch,
    /// Its place in the batch.
    pub(super) place: usize,
    /// Directory of its files.
    held: HeldDirectory,
    child: Child,
    began: Instant,
    /// When it was told to end because it was late, seconds, and a sentence about that.
    late: Option<(f64, String)>,
    /// Sentence for a second signal, which ends the job by [`end_with_parent`].
    _at_second: Arc<str>,
}

/// End of a job's process.
pub(super) enum End {
    /// By itself.
    Of(Outcome),
    /// Because it was told to; it counts as not run. With the last error that it printed: that its
    /// data is left behind, perhaps.
    Interrupted(Option<String>),
}

impl Running<'_> {
    /// Starts the job in a process group of its own, which a terminal's Ctrl-C does not reach.
    pub(super) fn start(batch: &Batch, place: usize, stdin: File) -> Result<Running<'_>> {
        let job = &batch.jobs[place];
        let (output, log) = (job.output(&batch.directory), job.log(&batch.directory));
        let unwritable =
            |error| unusable(&format!("cannot write the log {}", log.display()), error);
        let (parent, name) = job.place();
        let held = HeldDirectory::open(&batch.directory).and_then(|held| held.below(parent, true));
        let held = held.map_err(unwritable)?;
        files::begin_in(&held, mark(name)).map_err(unwritable)?;
        // What an earlier attempt left must not be taken for this one's.
        held.remove_if_there(format!("{name}.json"))
            .with_context(|| format!("the old result {} can't be removed", output.display()))?;
        let printed = files::begin_in(&held, format!("{name}.log")).map_err(unwritable)?;
        let told = printed.try_clone().map_err(unwritable)?;
        let child = Command::new(&batch.program)
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
            .with_context(|| format!("cannot start {}", batch.program.display()))?;
        let began = Instant::now();
        let at_second: Arc<str> = format!(
            "{} (process {}) is told to end as well, and {} says what it leaves behind",
            job.name,
            child.id(),
            terminal_path(&log)
        )
        .into();
        interrupt::add_to_second(&at_second);
        Ok(Running { batch, place, held, child, began, late: None, _at_second: at_second })
    }

    /// Leaves it alone, killed as soon as the kernel lets go of it; its process.
    pub(super) fn abandon(self) -> u32 {
        let _it_may_have_ended = self.signal(Signal::KILL);
        // Its end is not waited for.
        let mut job = std::mem::ManuallyDrop::new(self);
        let _has_ended = job.child.try_wait();
        job.child.id()
    }

    /// Time since it began, seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Tells it, and all that it started, to end in order.
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

    /// Tells a job to end that takes far longer than expected, which the sentence returned says,
    /// and kills it where it does not.
    pub(super) fn end_if_late(&mut self) -> Result<Option<String>> {
        let (seconds, Limits { factor, more_s, end_s }) = (self.seconds(), self.batch.limits);
        let job = &self.batch.jobs[self.place];
        match &mut self.late {
            Some((told_s, why)) if seconds >= *told_s + end_s => {
                *told_s = f64::INFINITY;
                why.push_str(", and killed when it did not");
                self.signal(Signal::KILL)?;
            }
            None if job.is_bounded && seconds >= job.expected_s * factor + more_s => {
                let why = format!(
                    "it had not ended after {}, where about {} were expected: it was told to end",
                    duration_text(seconds),
                    duration_text(job.expected_s)
                );
                self.late = Some((seconds, why.clone()));
                self.interrupt()?;
                return Ok(Some(why));
            }
            _ => {}
        }
        Ok(None)
    }

    /// End of the process, once it has ended.
    ///
    /// # Errors
    /// The kernel does not know the process, or the mark of one that is done can't be removed.
    pub(super) fn end(&mut self, was_told: bool) -> Result<Option<End>> {
        let Some(status) = self.child.try_wait().context("cannot wait for a job")? else {
            return Ok(None);
        };
        let (job, directory) = (&self.batch.jobs[self.place], &self.batch.directory);
        let (output, log) = (job.output(directory), job.log(directory));
        let end = self.end_of(status, was_told, &output, &log);
        if let End::Of(Outcome::Done) = end {
            let removed = self.held.remove(mark(job.place().1));
            removed.with_context(|| format!("the result {} can't be kept", output.display()))?;
        }
        Ok(Some(end))
    }

    fn end_of(&self, status: ExitStatus, was_told: bool, output: &Path, log: &Path) -> End {
        let is_interrupted = status.code() == Some(i32::from(Exit::Interrupted.status()))
            || status.signal().is_some();
        if was_told && is_interrupted {
            return End::Interrupted(last_error(&log_end(log)).map(str::to_owned));
        }
        let how = match (status.code(), status.signal(), &self.late) {
            (Some(0), ..) if has_result(output) => return End::Of(Outcome::Done),
            (.., Some((_, why))) => why.clone(),
            (Some(0), ..) => "it wrote no result".to_owned(),
            (Some(130), ..) => "it was interrupted (exit status 130)".to_owned(),
            (Some(code), ..) => format!("exit status {code}"),
            (None, Some(signal), _) => format!("it was killed by signal {signal}"),
            (None, None, _) => "it ended without a status".to_owned(),
        };
        let log = log_end(log);
        let said = last_error(&log).or_else(|| last_line(&log));
        let said = said.map(|text| format!(": {text}")).unwrap_or_default();
        End::Of(Outcome::Failed(format!("{how}{said}")))
    }
}

impl Drop for Running<'_> {
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
