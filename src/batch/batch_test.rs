//! Batches of small shell scripts that stand for ringfall.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::job::Limits;
use super::lock::Lock;
use super::{Batch, Ended, Job, Outcome, Report, Screen};

/// A directory of the test's own, gone when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("ringfall-batch-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _there_may_be_none = std::fs::remove_dir_all(&path);
        Directory(path)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _tidied = std::fs::remove_dir_all(&self.0);
    }
}

/// A job: the shell's script, for which `$1` is `--output`, `$2` the result.
fn job(name: &str, script: &str) -> Job {
    Job::new(name, ["-c", script, name], 1.0)
}

/// A script that notes that it ran, and writes a result.
const WORKS: &str = r#"echo "$0" >> "$(dirname "$2")/ran"; echo '{}' > "$2""#;

fn batch(directory: &Directory, jobs: Vec<Job>) -> Batch {
    Batch { program: PathBuf::from("/bin/sh"), ..Batch::new("test", &directory.0, jobs) }
}

fn quiet() -> Screen {
    Screen::new(true)
}

/// Runs it to its end: the report, and a word for each row of the table.
fn run(batch: &Batch) -> (anyhow::Result<Report>, Vec<String>) {
    let mut rows = Vec::new();
    let report = batch.run(&|| false, &mut quiet(), &mut |ended: &Ended<'_>| {
        let before = if ended.took_s.is_none() { " before" } else { "" };
        let how = if *ended.outcome == Outcome::Done { "done" } else { "failed" };
        rows.push(format!("{} {how}{before}", ended.job.name));
        Vec::new()
    });
    (report, rows)
}

/// A writer whose text can be read.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn told(result: anyhow::Result<Report>) -> String {
    result.map_or_else(|error| error.to_string(), |report| format!("{report:?}"))
}

#[test]
fn a_failing_job_is_recorded_and_does_not_end_the_rest() {
    let directory = Directory::new("failing");
    let wrong = "echo heard; echo 'error: no space' >&2; exit 1";
    let jobs = vec![
        job("a", WORKS),
        job("b", wrong),
        job("deeper/silent", "echo nothing"),
        job("killed", "kill -9 $$"),
        job("c", WORKS),
    ];
    let (report, rows) = run(&batch(&directory, jobs));
    let report = report.unwrap();
    assert_eq!(rows, ["a done", "b failed", "deeper/silent failed", "killed failed", "c done"]);
    assert_eq!((report.done(), report.failed(), report.is_interrupted), (2, 3, false));
    let all = format!("{report:?}");
    for why in ["exit status 1: no space", "it wrote no result", "killed by signal 9"] {
        assert!(all.contains(why), "{why}: {all}");
    }
    assert_eq!(directory.read("b.log"), "heard\nerror: no space\n");
    assert_eq!(directory.read("deeper/silent.log"), "nothing\n");
    assert_eq!(directory.read("a.json"), "{}\n");
}

/// One run that hung stopped a suite for ever.
#[test]
fn a_job_that_hangs_is_ended_and_the_next_one_runs() {
    let directory = Directory::new("hanging");
    let heedless = "trap '' TERM; while :; do sleep 0.05; done";
    let mut jobs = vec![job("hangs", "exec sleep 1000"), job("heedless", heedless)];
    jobs.iter_mut().for_each(|job| job.expected_s = 0.0);
    jobs.push(Job { expected_s: 1_000.0, ..job("c", WORKS) });
    let limits = Limits { factor: 1.0, more_s: 0.1, end_s: 2.0 };
    let (report, rows) = run(&Batch { limits, ..batch(&directory, jobs) });
    assert_eq!(rows, ["hangs failed", "heedless failed", "c done"]);
    let all = format!("{:?}", report.unwrap());
    assert!(all.contains("it was told to end\""), "{all}");
    assert!(all.contains("killed when it did not"), "{all}");
}

#[test]
fn a_batch_run_again_does_what_is_not_done() {
    let directory = Directory::new("again");
    // A result may be there although the job failed.
    let once = r#"echo '{}' > "$2"; [ -e "$2.tried" ] || { touch "$2.tried"; exit 1; }"#;
    let jobs = vec![job("a", WORKS), job("b", once), job("c", WORKS), job("d/e", WORKS)];
    let batch = batch(&directory, jobs);
    let (first, _) = run(&batch);
    assert_eq!(first.unwrap().failed(), 1);
    std::fs::remove_file(directory.0.join("c.json")).unwrap();
    // As if the machine had died while the result was being written.
    std::fs::write(directory.0.join("d/e.json"), "{").unwrap();
    let (second, rows) = run(&batch);
    assert_eq!(second.unwrap().done(), 4);
    assert_eq!(rows, ["a done before", "b done", "c done", "d/e done"]);
    assert_eq!([directory.read("ran"), directory.read("d/ran")], ["a\nc\nc\n", "d/e\nd/e\n"]);
    let (third, rows) = run(&batch);
    assert_eq!(third.unwrap().done(), 4);
    assert_eq!(rows, ["a done before", "b done before", "c done before", "d/e done before"]);
}

#[test]
fn another_plan_is_refused_with_what_differs() {
    let directory = Directory::new("plan");
    let first = batch(&directory, vec![job("a", WORKS), job("b", WORKS)]);
    assert_eq!(run(&first).0.unwrap().done(), 2);
    let other = |jobs| told(run(&batch(&directory, jobs)).0);
    let changed = other(vec![job("a", "exit 0"), job("c", WORKS)]);
    for part in ["a had `echo", ", and now has `exit 0`", "c is new", "b is gone"] {
        assert!(changed.contains(part), "{part}: {changed}");
    }
    let both = other(vec![job("a", "exit 0"), job("b", "exit 0")]);
    assert!(both.contains("a and 1 more had `echo"), "{both}");
    let turned = other(vec![job("b", WORKS), job("a", WORKS)]);
    assert!(turned.contains("the jobs are in another order"), "{turned}");
    let mut of_other = batch(&directory, first.jobs.clone());
    of_other.what = "suite".to_owned();
    assert!(told(run(&of_other).0).contains("begun by `ringfall test`"));
    let journal = directory.0.join("batch.journal");
    let text = std::fs::read_to_string(&journal).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    std::fs::write(&journal, text.replacen(version, "0.0.1", 1)).unwrap();
    let older = told(run(&first).0);
    assert!(older.contains(&format!("begun by version 0.0.1, and this is {version}")), "{older}");
    std::fs::write(&journal, "{}\n").unwrap();
    assert!(told(run(&first).0).contains("this is no journal of a batch"));
    assert_eq!(directory.read("ran"), "a\nb\n");
}

#[test]
fn what_is_told_to_end_ends_in_order_and_runs_again() {
    let directory = Directory::new("told");
    // It ends with 130 when told, as a run does, the second time by itself.
    let script = r#"trap 'echo ended; exit 130' TERM; : > "$2.begun"
        [ -e "$2.again" ] && { echo '{}' > "$2"; exit 0; }
        touch "$2.again"; while :; do sleep 0.01; done"#;
    let batch = batch(&directory, vec![job("a", script), job("b", WORKS)]);
    let begun = directory.0.join("a.json.begun");
    let report = batch.run(&|| begun.exists(), &mut quiet(), &mut |_| Vec::new()).unwrap();
    assert!(report.is_interrupted);
    assert_eq!(report.outcomes, [None, None]);
    // A shell may say what became of its own children before.
    assert!(directory.read("a.log").ends_with("ended\n"));
    assert_eq!(directory.read("batch.journal").lines().count(), 1);
    let (report, rows) = run(&batch);
    assert_eq!((report.unwrap().done(), rows.len()), (2, 2));
}

/// Without a terminal nothing was said, and the data that a job left was named in its log alone.
#[test]
fn a_signal_is_answered_without_a_terminal_and_what_a_job_leaves_is_named() {
    let directory = Directory::new("answered");
    let script = r#"trap 'echo "error: the data in /d is left behind"; exit 130' TERM
        : > "$2.begun"; while :; do sleep 0.01; done"#;
    let batch = batch(&directory, vec![job("a", script)]);
    let begun = directory.0.join("a.json.begun");
    let ended = |is_live| {
        let _there_may_be_none = std::fs::remove_file(&begun);
        let (table, kept) = (Box::new(Shared::default()), Shared::default());
        let errors = Box::new(kept.clone());
        let mut screen = Screen::to(table, Box::new(Shared::default()), errors, is_live);
        let report = batch.run(&|| begun.exists(), &mut screen, &mut |_| Vec::new()).unwrap();
        assert!(report.is_interrupted);
        kept.text()
    };
    let left = "error: a: the data in /d is left behind\n";
    let answer = "ending what runs, within 30 s (a second signal ends it at once)\n";
    assert_eq!(ended(false), format!("{answer}{left}"));
    // On a terminal the line that is rewritten says it.
    assert_eq!(ended(true), left);
}

#[test]
fn two_batches_do_not_share_a_directory() {
    let directory = Directory::new("locked");
    std::fs::create_dir(&directory.0).unwrap();
    let lock = Lock::take(&directory.0, &|| false, &mut || {}).unwrap();
    let batch = batch(&directory, vec![job("a", WORKS)]);
    let refused = told(batch.run(&|| true, &mut quiet(), &mut |_| Vec::new()));
    assert!(refused.contains("another batch is working in"), "{refused}");
    // A process that is just being started has copies of all descriptors; that of the lock keeps
    // nobody out.
    let _copy = lock.for_job().unwrap();
    drop(lock);
    // The lock of a batch that was killed stays with its jobs until they have ended.
    let of_job = std::fs::File::open(directory.0.join(".batch.lock")).unwrap();
    of_job.lock().unwrap();
    let of_job = Cell::new(Some(of_job));
    let taken = Lock::take(&directory.0, &|| false, &mut || drop(of_job.take()));
    assert!(taken.is_ok() && of_job.take().is_none());
    drop(taken);
    assert_eq!(run(&batch).0.unwrap().done(), 1);
}

#[test]
fn as_many_run_at_once_as_may() {
    let directory = Directory::new("at-once");
    let meets = |other: &str| {
        format!(
            r#": > "$2.here"; n=0; while [ ! -e "$(dirname "$2")/{other}.json.here" ]; do
            n=$((n+1)); [ $n -lt 2000 ] || exit 1; sleep 0.01; done; echo '{{}}' > "$2""#
        )
    };
    let jobs = vec![job("a", &meets("b")), job("b", &meets("a")), job("c", WORKS)];
    let batch = Batch { at_once: 2, ..batch(&directory, jobs) };
    assert!((batch.expected_s() - 1.5).abs() < 1e-9);
    assert_eq!(run(&batch).0.unwrap().done(), 3);
}

#[test]
fn the_screen_says_what_it_takes_and_the_table_grows() {
    let directory = Directory::new("screen");
    let (table, progress) = (Shared::default(), Shared::default());
    let [table_kept, errors] = [&table, &progress].map(|kept| Box::new(kept.clone()));
    let mut screen = Screen::to(table_kept, Box::new(progress.clone()), errors, true);
    let jobs = vec![job("a", WORKS), job("b", "exit 3")];
    let report = batch(&directory, jobs).run(&|| false, &mut screen, &mut |ended| {
        vec![format!("row\u{1b}[2J {} {}", ended.place, ended.job.name)]
    });
    assert_eq!(report.unwrap().failed(), 1);
    assert_eq!(table.text(), "row\\u{1b}[2J 0 a\nrow\\u{1b}[2J 1 b\n");
    let told = progress.text();
    assert!(told.starts_with("2 runs: about 2 s; results in "), "{told}");
    assert!(told.contains("\r0 of 2 done | 2 s left | a 0 s") && told.ends_with("\r\x1b[J"));
}

#[test]
fn names_that_are_no_file_names_are_refused() {
    let directory = Directory::new("names");
    for name in ["", "../a", ".hidden", "a b", "/a", "a//b", "a/.b"] {
        let refused = told(run(&batch(&directory, vec![job(name, WORKS)])).0);
        assert!(refused.contains("can't be the name"), "{name}: {refused}");
    }
    let twice = vec![job("a", WORKS), job("a", WORKS)];
    assert!(told(run(&batch(&directory, twice)).0).contains("two jobs have the name a"));
    assert!(!Path::new(&directory.0).exists());
}
