//! The real binary in a directory of its own.

#[cfg(feature = "objects")]
pub mod s3;
pub mod terminal;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use boon::{Compiler, SchemaIndex, Schemas};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Patience with a run: many times what the longest takes on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// A scratch directory, removed on drop.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("ringfall-test-{}-{number}-{name}", std::process::id());
        // No store may lie below root's home, where the sources may well be.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let temporary = std::env::temp_dir();
        let parent = if target.starts_with("/root") { &temporary } else { target };
        let path = parent.join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Scratch { path }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where runs keep their data.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub fn json(&self) -> Value {
        let text = std::fs::read(self.file("result.json")).expect("the run wrote its results");
        let document = serde_json::from_slice(&text).expect("the results are JSON");
        assert_valid(&document);
        document
    }

    /// `ringfall run` with a small workload, then `more`.
    pub fn run_command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["run", "--model", "tiny-1b", "--users", "6", "--duration", "2"]);
        command.args(["--cpu-mem-gb", "0", "--storage-capacity-gb", "0.5", "--seed", "7"]);
        command.args(["--generation-mode", "none", "--arrival", "closed", "--queue-depth", "8"]);
        command.args(["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml")]);
        command.arg("--cache-dir").arg(self.store());
        command.arg("--output").arg(self.file("result.json"));
        command.args(more);
        command.current_dir(&self.path).stdin(Stdio::null());
        command
    }

    pub fn run(&self, more: &[&str]) -> Output {
        output(self.run_command(more))
    }

    pub fn start(&self, more: &[&str]) -> Child {
        spawn(self.run_command(more))
    }

    /// Names of the files left in the directory besides the results.
    pub fn leftovers(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "result.json").collect()
    }
}

/// Names a file in which a run of the tests collects what it skipped, a line each.
const SKIPPED_LIST: &str = "RINGFALL_SKIPPED_LIST";

/// Says why a test can't be made here, also where nobody sees what a test that passes prints.
pub fn skipped(name: &str, why: &str) {
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("skipped: {name}: {why}");
    if let Some(list) = std::env::var_os(SKIPPED_LIST) {
        append_line(Path::new(&list), &format!("{name}: {why}"));
    }
}

/// One write to the end: lines of tests beside each other stay whole.
fn append_line(path: &Path, line: &str) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn what_is_skipped_is_kept_a_line_each() {
    let scratch = Scratch::new("skipped");
    let list = scratch.file("list");
    append_line(&list, "zram: it needs root");
    append_line(&list, "xfs: mkfs.xfs is missing");
    let kept = std::fs::read_to_string(&list).unwrap();
    assert_eq!(kept, "zram: it needs root\nxfs: mkfs.xfs is missing\n");
    let ci = include_str!("../../.ci/run");
    assert!(ci.contains(&format!("export {SKIPPED_LIST}=")), "{SKIPPED_LIST} is not read");
}

/// Every run's result is held against the published schema.
pub fn assert_valid(document: &Value) {
    static SCHEMA: OnceLock<(Schemas, SchemaIndex)> = OnceLock::new();
    let (schemas, schema) = SCHEMA.get_or_init(|| {
        let text = include_str!("../../config/results.schema.json");
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        let location = "results.schema.json";
        compiler.add_resource(location, serde_json::from_str(text).unwrap()).unwrap();
        let schema = compiler.compile(location, &mut schemas).unwrap();
        (schemas, schema)
    });
    if let Err(wrong) = schemas.validate(document, *schema) {
        panic!("{wrong:#}");
    }
}

/// Holds what a command wrote against the schema of that name, as the program prints it.
pub fn assert_valid_as(name: &str, document: &Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["schema", name]);
    let printed = output(command);
    assert_eq!(printed.status.code(), Some(0), "{name}: {}", text(&printed));
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let schema = serde_json::from_slice(&printed.stdout).unwrap();
    compiler.add_resource(name, schema).unwrap();
    let schema = compiler.compile(name, &mut schemas).unwrap();
    if let Err(wrong) = schemas.validate(document, schema) {
        panic!("{name}: {wrong:#}");
    }
}

#[test]
fn a_result_that_is_not_of_the_schema_is_refused() {
    let wrong = std::panic::catch_unwind(|| assert_valid(&serde_json::json!({"summary": 1})));
    let told = *wrong.unwrap_err().downcast::<String>().unwrap();
    assert!(told.contains("summary"), "{told}");
    let other = serde_json::json!({"format": 1});
    assert!(std::panic::catch_unwind(|| assert_valid_as("checkpoint", &other)).is_err());
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _cleanup = std::fs::remove_dir_all(&self.path);
    }
}

pub fn output(command: Command) -> Output {
    finish(spawn(command))
}

/// Starts it with its output piped. It dies with the thread of its test: a test that fails, or is
/// killed, leaves nothing behind that goes on running.
pub fn spawn(command: Command) -> Child {
    spawn_to(command, Stdio::piped())
}

/// The same with its standard output elsewhere.
pub fn spawn_to(mut command: Command, stdout: Stdio) -> Child {
    let dies_with_us =
        || rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(dies_with_us) };
    command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_run_ends_with_the_test_that_started_it() {
    let scratch = Scratch::new("orphan");
    let command = scratch.run_command(&["--duration", "100"]);
    let store = scratch.store();
    let mut child = std::thread::spawn(move || {
        let child = spawn(command);
        wait_until("the run has its data file", || data_bytes(&store) > 0);
        child
    })
    .join()
    .unwrap();
    // Nobody kills it here: the end of the thread does.
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
}

/// Interrupts it again and again until it has ended and been waited for, as somebody does who wants
/// it to end at once: signals that come soon after the first are taken for the same.
pub fn insist(child: &Child) -> std::thread::JoinHandle<()> {
    let pid = Pid::from_child(child);
    std::thread::spawn(move || {
        while kill_process(pid, Signal::INT).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

/// Copies the program. Not by this process: what another test starts meanwhile has the copy open
/// for writing until it has begun, and what is open for writing can't be started.
pub fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_ringfall")).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Waits for the end, but not for ever: a run that hangs is a failed test.
pub fn finish(mut child: Child) -> Output {
    // Read meanwhile: a pipe holds 64 KiB, and a result may be longer.
    let out = child.stdout.take().map(read_to_end);
    let err = child.stderr.take().map(read_to_end);
    let ended = status_of(&mut child);
    let read = |of: Option<JoinHandle<Vec<u8>>>| of.map(|of| of.join().unwrap());
    let [stdout, stderr] = [out, err].map(|of| read(of).unwrap_or_default());
    let hangs = ended.is_none();
    let output = Output { status: ended.unwrap_or_else(|| child.wait().unwrap()), stdout, stderr };
    assert!(!hangs, "the run hangs: {}", text(&output));
    output
}

fn read_to_end(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// The status with which a program ends; none where it does not, and is killed.
fn status_of(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() <= PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    None
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes of the data file that are allocated; 0 when it is not there.
pub fn data_bytes(store: &Path) -> u64 {
    std::fs::metadata(store.join("ringfall.kv")).map_or(0, |metadata| metadata.len())
}

pub fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The output of a run, which ended with status 0.
#[track_caller]
pub fn ended_well(output: Output) -> Output {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    output
}

/// The run failed as it should: status, every word in the message, no panic, no backtrace.
pub fn assert_fails(output: &Output, status: i32, words: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains("panicked") && !text.contains("stack backtrace"), "{text}");
}
