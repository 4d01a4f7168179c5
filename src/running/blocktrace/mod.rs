//! Trace of the kernel's block layer during a run: bpftrace counts in the kernel, a thread samples
//! the device's queue, and neither is asked anything while the run measures.
//!
//! Here: starting and ending the trace, and parsing its output. Not here: the engine's own
//! counters, or displaying anything.

mod parse;
mod script;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use parse::parse as read_output;
use ringfall_core::error::SetupError;
use ringfall_host::remedy::told_setup;
use ringfall_model::facts::{BlockTraceFigures, Bucket};

/// Oldest bpftrace whose language and JSON the script needs (`strncmp`, 0.10; keyed histograms in
/// JSON, 0.10).
const VERSION_MIN: (u32, u32) = (0, 10);
/// Longest wait until the probes are attached.
const ATTACH_PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for what it prints at the end.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Period of sampling the queue: ten thousand samples in 100 s, at negligible cost.
const QUEUE_PERIOD: Duration = Duration::from_millis(10);
/// Most that is read of the output.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// A trace that runs.
pub struct BlockTrace {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    queue: QueueSampler,
    device: String,
    began: Instant,
    ended: Option<Instant>,
}

/// Starts it so that it ends with this process, however that ends; a system without setpriv(1) has
/// to do without that.
fn spawn_bpftrace(script: &str) -> std::io::Result<Child> {
    let spawn = |program: &str, before: &[&str]| {
        Command::new(program)
            .args(before)
            .args(["-q", "-f", "json", "-e", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    match spawn("setpriv", &["--pdeathsig", "TERM", "bpftrace"]) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => spawn("bpftrace", &[]),
        child => child,
    }
}

impl BlockTrace {
    /// Starts tracing the disk `name` of these numbers (`major:minor`); returns when its probes are
    /// attached.
    ///
    /// # Errors
    /// A sentence with the remedy: the run can go on without.
    pub fn start(name: &str, numbers: &str) -> Result<BlockTrace, String> {
        check_version()?;
        if !std::path::Path::new("/sys/kernel/tracing/events/block").exists()
            && !std::path::Path::new("/sys/kernel/debug/tracing/events/block").exists()
        {
            return Err("the kernel's tracepoints can't be seen: as root, `mount -t tracefs \
                        tracefs /sys/kernel/tracing`"
                .to_owned());
        }
        let sectors = std::fs::read_to_string(format!("/sys/dev/block/{numbers}/size"))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        let script = numbers
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .zip(sectors)
            .map(|((major, minor), sectors)| script::script(major, minor, sectors))
            .ok_or_else(|| format!("the kernel describes no disk {name}"))?;
        let queue = QueueSampler::start(numbers)?;
        let mut child = spawn_bpftrace(&script)
            .map_err(|error| format!("bpftrace can't be started: {error}"))?;
        let (sender, lines) = channel();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (device, began) = (name.to_owned(), Instant::now());
        let mut trace =
            BlockTrace { child, lines, errors: None, queue, device, began, ended: None };
        // Either thread ends with what it reads.
        thread(move || {
            let Some(stdout) = stdout else { return };
            for line in BufReader::new(stdout.take(OUTPUT_BYTES_MAX)).lines() {
                // Nobody listening, or no text: the trace is over.
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        })?;
        trace.errors = Some(thread(move || {
            let mut text = String::new();
            if let Some(stderr) = stderr {
                // What is no text says nothing to anybody.
                let _read = stderr.take(OUTPUT_BYTES_MAX).read_to_string(&mut text);
            }
            text
        })?);
        if let Err(why) = trace.await_ready() {
            return Err(trace.explain(&why));
        }
        trace.began = Instant::now();
        Ok(trace)
    }

    fn await_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + ATTACH_PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(script::READY) => return Ok(()),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err("its probes were not attached within 30 s".to_owned());
                }
                Err(RecvTimeoutError::Disconnected) => return Err("it ended at once".to_owned()),
            }
        }
    }

    /// Why it does not run, in a sentence, with what it said itself.
    fn explain(mut self, why: &str) -> String {
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
        let said = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        if said.contains("root") || said.contains("permitted") || said.contains("ermission") {
            return "bpftrace needs root (or CAP_BPF and CAP_PERFMON): run as root".to_owned();
        }
        format!("bpftrace does not trace: {why} ({said})")
    }

    /// Ends the trace at this moment; what it counted is collected by [`BlockTrace::finish`].
    pub fn end(&mut self) {
        if self.ended.is_none() {
            self.ended = Some(Instant::now());
            self.queue.goes_on = None;
            let id = rustix::process::Pid::from_child(&self.child);
            // One that has died already says so when it is finished.
            let _sent = rustix::process::kill_process(id, rustix::process::Signal::INT);
        }
    }

    /// Ends the trace, if that has not been done, and reads what it counted.
    ///
    /// # Errors
    /// Returns a message if bpftrace printed anything but the expected figures.
    pub fn finish(mut self) -> Result<BlockTraceFigures, String> {
        self.end();
        let deadline = Instant::now() + END_PATIENCE;
        let mut text = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.explain("it did not print what it had counted within 10 s"));
                }
            }
        }
        if text.trim().is_empty() {
            return Err(self.explain("it printed nothing"));
        }
        let mut figures = parse::parse(&text)?;
        figures.device.clone_from(&self.device);
        let ended = self.ended.unwrap_or_else(Instant::now);
        figures.seconds = ended.duration_since(self.began).as_secs_f64();
        let [reads, writes] = self.queue.take();
        figures.read.depth = reads;
        figures.write.depth = writes;
        Ok(figures)
    }
}

impl Drop for BlockTrace {
    fn drop(&mut self) {
        // All of these fail only for what has ended already.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Starts a thread of the trace.
fn thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, String> {
    let thread = std::thread::Builder::new().name("ringfall-trace".to_owned()).spawn(work);
    thread.map_err(|error| told_setup(&SetupError::NoThread { reason: error.to_string() }))
}

/// Looks at how many requests are in flight (`/sys/block/*/inflight`: reads, writes).
struct QueueSampler {
    /// Sampling ends when it is dropped.
    goes_on: Option<Sender<()>>,
    thread: Option<JoinHandle<[Vec<Bucket>; 2]>>,
}

impl QueueSampler {
    fn start(numbers: &str) -> Result<QueueSampler, String> {
        let (goes_on, ended) = channel::<()>();
        let path = format!("/sys/dev/block/{numbers}/inflight");
        let thread = thread(move || {
            // By octaves: none, 1, 2..3, 4..7 …
            let mut counts = [[0u64; 65]; 2];
            loop {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                for (counts, word) in counts.iter_mut().zip(text.split_whitespace()) {
                    if let Ok(depth) = word.parse::<u64>() {
                        counts[(64 - depth.leading_zeros()) as usize] += 1;
                    }
                }
                if ended.recv_timeout(QUEUE_PERIOD) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            counts.map(|counts| {
                let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
                let bucket = |(octave, &count): (usize, &u64)| {
                    let low = if octave == 0 { 0 } else { 1 << (octave - 1) };
                    Bucket { low, high: (2 * low).saturating_sub(1).max(low), count }
                };
                counts[..used].iter().enumerate().map(bucket).collect()
            })
        });
        Ok(QueueSampler { goes_on: Some(goes_on), thread: Some(thread?) })
    }

    fn take(&mut self) -> [Vec<Bucket>; 2] {
        self.goes_on = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn check_version() -> Result<(), String> {
    let output =
        Command::new("bpftrace").arg("--version").output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                "bpftrace is not installed: install the package bpftrace".to_owned()
            }
            _ => format!("bpftrace can't be started: {error}"),
        })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match version(&text) {
        Some(found) if found < VERSION_MIN => Err(format!(
            "bpftrace is {}.{}, and {}.{} is needed: install a newer one",
            found.0, found.1, VERSION_MIN.0, VERSION_MIN.1
        )),
        Some(_) => Ok(()),
        None => Err(format!("bpftrace does not report its version: {:?}", text.trim())),
    }
}

/// Parses a version such as `bpftrace v0.17.0`.
fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    let mut parts = number.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("bpftrace v0.17.0\n"), Some((0, 17)));
        assert_eq!(version("bpftrace v0.9\n"), Some((0, 9)));
        assert!(version("bpftrace v0.9\n") < Some(VERSION_MIN));
        assert_eq!(version("what?"), None);
        assert_eq!(version("bpftrace vx.y"), None);
    }

    #[test]
    fn a_queue_that_can_not_be_seen_has_no_depths() {
        let mut sampler = QueueSampler::start("9999:9999").unwrap();
        assert_eq!(sampler.take(), [vec![], vec![]]);
    }
}
