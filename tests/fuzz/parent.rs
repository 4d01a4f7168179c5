//! The process that makes inputs and watches a child read them.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::mutate::Mutator;
use super::{PATIENCE, child};
use crate::support::Scratch;

/// Inputs kept because the reader said something new about them.
const KEPT_MAX: usize = 4_096;
/// Longest input that is kept.
const KEPT_BYTES_MAX: usize = 1 << 18;

/// Defect that an input exposed in its reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Defect {
    /// It panicked: the message.
    Panic(String),
    /// Its process ended: how, and what it said last. Also when it wanted more memory than a
    /// gibibyte.
    Died(String),
    /// It did not answer in time, though it had a core.
    Hang,
}

/// Duration and seed of the fuzzing.
pub struct Plan {
    seconds: Duration,
    seed: u64,
}

impl Plan {
    /// `RINGFALL_FUZZ_SECONDS` (1) and `RINGFALL_FUZZ_SEED` (1).
    pub fn from_environment() -> Plan {
        let variable = |name| std::env::var(name).unwrap_or_else(|_| "1".to_owned());
        let seconds: f64 = variable("RINGFALL_FUZZ_SECONDS").parse().unwrap();
        let seed = variable("RINGFALL_FUZZ_SEED").parse().unwrap();
        Plan { seconds: Duration::from_secs_f64(seconds), seed }
    }
}

struct Reading {
    child: Child,
    socket: UnixStream,
    patience: Duration,
    said: PathBuf,
    _scratch: Scratch,
}

impl Reading {
    fn start(name: &str, patience: Duration) -> Reading {
        let scratch = Scratch::new(&format!("fuzz-{name}"));
        let said = scratch.file("said");
        let (socket, theirs) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(patience)).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["fuzz::a_child_process_reads", "--exact", "--nocapture"])
            .env(child::READER, name)
            .env(child::DIRECTORY, &scratch.path)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Reading { child, socket, patience, said, _scratch: scratch }
    }

    /// Passes this input to the reader; returns its answer.
    fn read(&mut self, input: &[u8]) -> Result<String, Defect> {
        self.exchange(input).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Defect::Hang,
            _ => {
                let status = self.child.wait().unwrap();
                let said = std::fs::read_to_string(&self.said).unwrap_or_default();
                Defect::Died(format!("{status}: {}", said.trim()))
            }
        })?
    }

    fn exchange(&mut self, input: &[u8]) -> std::io::Result<Result<String, Defect>> {
        let mut message = (input.len() as u32).to_le_bytes().to_vec();
        message.extend(input);
        let asked = Asked { at: Instant::now(), waited: self.waited_for_a_core() };
        self.socket.write_all(&message)?;
        let mut head = [0; 5];
        self.fill(&mut head, &asked)?;
        let [kind, length @ ..] = head;
        let mut text = vec![0; u32::from_le_bytes(length) as usize];
        self.fill(&mut text, &asked)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(if kind == b'.' { Ok(text) } else { Err(Defect::Panic(text)) })
    }
}

impl Reading {
    /// Reads so many bytes of an answer. A child that gets no core is not late: an hour of this
    /// runs at the lowest priority, beside whatever else a machine does.
    fn fill(&mut self, mut rest: &mut [u8], asked: &Asked) -> std::io::Result<()> {
        while !rest.is_empty() {
            match self.socket.read(rest) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => rest = &mut rest[read..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let starved = self.waited_for_a_core().saturating_sub(asked.waited);
                    let passed = asked.at.elapsed();
                    // Threads that hang may stand in each other's way.
                    let is_long = passed >= 20 * self.patience;
                    if is_long || passed.saturating_sub(starved) >= self.patience {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Time that the child's threads stood in line for a core, all together; zero where the kernel
    /// does not tell (`/proc/PID/task/TID/schedstat`: time on a core, time in line, turns).
    fn waited_for_a_core(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let of_task = |task: std::fs::DirEntry| -> Option<u64> {
            let figures = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            figures.split_whitespace().nth(1)?.parse().ok()
        };
        let waits = tasks.into_iter().flatten().flatten().filter_map(of_task);
        Duration::from_nanos(waits.sum())
    }
}

/// When an answer was asked for, and how long the child had been in line for a core by then.
struct Asked {
    at: Instant,
    waited: Duration,
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Fails only for one that has ended.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Answer of a fresh process to one input.
pub fn probe(name: &str, input: &[u8], patience: Duration) -> Result<String, Defect> {
    let mut reading = Reading::start(name, patience);
    let outcome = reading.read(input);
    if outcome.is_ok() {
        reading.socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(reading.child.wait().unwrap().success(), "it ends when there is no more input");
    }
    outcome
}

/// Inputs that are kept for a reader, by name.
pub fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Reads the corpus, and then what becomes of it.
pub fn fuzz(name: &str, plan: &Plan) {
    let mut reading = Reading::start(name, PATIENCE);
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    let mut is_read = false;
    for (path, input) in corpus(name) {
        match reading.read(&input) {
            Ok(outcome) => {
                is_read |= !outcome.starts_with("error: ");
                seen.insert(signature(&outcome))
            }
            Err(defect) => panic!("{name}: {} does harm: {defect:?}", path.display()),
        };
        kept.push(input);
    }
    assert!(is_read, "{name}: nothing in the corpus is read to its end: {seen:?}");
    println!("{name}: seed {}, {} s", plan.seed, plan.seconds.as_secs_f64());
    let mut mutator = Mutator::new(name, plan.seed);
    let deadline = Instant::now() + plan.seconds;
    let mut count = 0u64;
    while Instant::now() < deadline {
        let input = mutator.next(&kept);
        count += 1;
        let outcome = reading
            .read(&input)
            .unwrap_or_else(|defect| report(name, plan.seed, count, &input, &defect));
        let is_small = input.len() <= KEPT_BYTES_MAX && kept.len() < KEPT_MAX;
        if is_small && seen.insert(signature(&outcome)) {
            kept.push(input);
        }
    }
    println!("{name}: {count} inputs, {} outcomes", seen.len());
    assert!(count > 0, "{name}: no time for a single input");
}

/// Keeps the input and fails.
fn report(name: &str, seed: u64, count: u64, input: &[u8], defect: &Defect) -> ! {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{name}-{seed}-{count}"));
    std::fs::write(&path, input).unwrap();
    panic!(
        "{name}: input {count} of seed {seed} does harm: {defect:?}\nIt is kept as {0}. Copy it to \
         tests/fuzz/corpus/{name}/ under a telling name; then `cargo test --test main \
         fuzz::{name}` reads it first.",
        path.display()
    )
}

/// Letters of an outcome that tell it from others; further on stands more of the input.
const SIGNATURE_CHARS: usize = 60;

/// Beginning of an outcome, without the numbers and the quoted words that come from the input.
fn signature(outcome: &str) -> String {
    let mut text = String::new();
    let mut quoted = false;
    for c in outcome.chars() {
        match c {
            '"' | '`' => quoted = !quoted,
            c if !quoted && c.is_ascii_alphabetic() && text.len() < SIGNATURE_CHARS => text.push(c),
            _ => {}
        }
    }
    text
}
