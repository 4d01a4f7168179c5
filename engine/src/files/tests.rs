use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::content::Marks;
use super::course::Course;
use super::*;
use crate::clock::Nanos;
use crate::error::SetupError;
use crate::held::HeldDirectory;
use crate::ring::PathOp;

const BOTH: [FileWorkers; 2] = [FileWorkers::Calls { threads: 3 }, FileWorkers::Ring { depth: 3 }];

/// A scratch directory, removed on drop.
struct Scratch {
    path: PathBuf,
    directory: HeldDirectory,
}

impl Scratch {
    fn new(name: &str, workers: FileWorkers) -> Scratch {
        let way = if matches!(workers, FileWorkers::Calls { .. }) { "calls" } else { "ring" };
        let name = format!("ringfall-files-{}-{name}-{way}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let directory = HeldDirectory::make(&path).unwrap();
        Scratch { path, directory }
    }

    fn run(&self, load: &FileLoad, requests: Vec<FileRequest>) -> FileOutcome {
        let mut requests = requests.into_iter();
        let stop = AtomicBool::new(false);
        run(&self.directory, load, &mut || requests.next(), &stop).unwrap()
    }

    /// Whether a file holds just the object that [`store`] stores, block by block.
    fn holds(&self, object: u64, bytes: u64) -> bool {
        let path = path_of(object);
        let content = std::fs::read(self.path.join(&path)).unwrap();
        let marks = Marks::new(7, &draft_of(&path));
        content.len() as u64 == bytes && marks.are_in(&content, 0)
    }

    fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _cleanup = std::fs::remove_dir_all(&self.path);
    }
}

fn load(workers: FileWorkers) -> FileLoad {
    FileLoad { workers, in_flight: 2, largest_bytes: 64 << 10, seed: 7 }
}

fn request(scripts: Vec<FileScript>) -> FileRequest {
    let tile = |script| FileTile { scripts: vec![script] };
    FileRequest { tiles: scripts.into_iter().map(tile).collect() }
}

fn open(path: &str, how: OpenHow, direct: bool) -> FileStep {
    FileStep::Open { path: path.into(), how, direct }
}

const NEW: OpenHow = OpenHow::Create { exclusive: true, truncate: true };

fn make_directories(path: &str) -> FileStep {
    FileStep::MakeDirectories { path: path.into() }
}

fn stat(path: &str, ends_if_found: bool) -> FileStep {
    FileStep::Stat { path: path.into(), ends_if_found }
}

fn write(bytes: u64) -> FileStep {
    FileStep::Write { offset_bytes: 0, bytes }
}

fn rename(from: &str, to: &str) -> FileStep {
    FileStep::Rename { from: from.into(), to: to.into() }
}

fn path_of(object: u64) -> String {
    format!("m/{:02}/x/{object}", object % 3)
}

fn draft_of(path: &str) -> String {
    format!("{path}.tmp")
}

/// Stored as a store does that publishes by a rename.
fn store(object: u64, bytes: u64, direct: bool) -> FileScript {
    let (directory, path) = (format!("m/{:02}/x", object % 3), path_of(object));
    let draft = draft_of(&path);
    let steps = vec![
        stat(&path, true),
        make_directories(&directory),
        open(&draft, NEW, direct),
        write(bytes),
        FileStep::Close,
        rename(&draft, &path),
    ];
    FileScript { steps }
}

fn fetch(object: u64, bytes: u64, direct: bool) -> FileScript {
    let read = FileStep::Read { offset_bytes: 0, bytes };
    let open = open(&path_of(object), OpenHow::Read, direct);
    FileScript { steps: vec![open, read, FileStep::Close] }
}

/// Kind of step, cause, number and first path of each fault.
fn faults(outcome: &FileOutcome) -> Vec<(StepKind, FaultCause, u64, &str)> {
    let all = outcome.faults.iter();
    all.map(|fault| (fault.step, fault.cause, fault.count, &*fault.first_path)).collect()
}

#[test]
fn objects_are_stored_once_and_fetched() {
    for (workers, direct) in [(BOTH[0], false), (BOTH[0], true), (BOTH[1], false), (BOTH[1], true)]
    {
        let scratch = Scratch::new(&format!("store-{direct}"), workers);
        let requests = |of: &dyn Fn(u64) -> FileScript| -> Vec<FileRequest> {
            (0..5).map(|first| request((first * 4..first * 4 + 4).map(of).collect())).collect()
        };
        let bytes = 40_960;
        let stored = scratch.run(&load(workers), requests(&|object| store(object, bytes, direct)));
        assert_eq!(faults(&stored), [], "{workers:?}");
        assert_eq!(stored.written_bytes, 20 * bytes);
        assert!((0..20).all(|object| scratch.holds(object, bytes)));
        assert_eq!((stored.requests.count(), stored.requests_failed), (5, 0));
        for kind in StepKind::ALL {
            let expected = match kind {
                StepKind::Open | StepKind::Read => 0,
                StepKind::Sync | StepKind::DontNeed | StepKind::Link | StepKind::Unlink => 0,
                _ => 20,
            };
            assert_eq!(stored.step(kind).count(), expected, "{kind:?}");
        }
        assert!(stored.elapsed_ns > 0 && stored.cpu_ns > 0 && stored.steps() == 120);
        assert!(!scratch.has("m/01/x/4.tmp"));
        let again = scratch.run(&load(workers), requests(&|object| store(object, bytes, direct)));
        assert_eq!((again.steps(), again.requests.count()), (20, 5));
        let fetched = scratch.run(&load(workers), requests(&|object| fetch(object, bytes, direct)));
        assert_eq!(faults(&fetched), [], "{workers:?}");
        assert_eq!((fetched.read_bytes, fetched.step(StepKind::Read).count()), (20 * bytes, 20));
        assert_eq!(fetched.requests.count(), 5);
    }
}

#[test]
fn a_missing_object_and_a_short_one_are_told_apart() {
    for workers in BOTH {
        let scratch = Scratch::new("told", workers);
        scratch.run(&load(workers), vec![request((0..4).map(|n| store(n, 8192, false)).collect())]);
        let place = |n: u64| scratch.path.join(path_of(n));
        std::fs::remove_file(place(3)).unwrap();
        let file = std::fs::File::options().write(true).open(place(1)).unwrap();
        file.set_len(5000).unwrap();
        let requests = (0..4).map(|n| request(vec![fetch(n, 8192, false)])).collect();
        let outcome = scratch.run(&load(workers), requests);
        let mut found = faults(&outcome);
        found.sort_unstable();
        assert_eq!(
            found,
            [
                (StepKind::Open, FaultCause::Errno(libc::ENOENT), 1, "m/00/x/3"),
                (StepKind::Read, FaultCause::Short, 1, "m/01/x/1"),
            ]
        );
        assert_eq!((outcome.requests.count(), outcome.requests_failed), (2, 2));
    }
}

#[test]
fn a_script_that_fails_leaves_no_file_and_the_others_of_its_tile_go_on() {
    for workers in BOTH {
        let scratch = Scratch::new("fails", workers);
        std::fs::write(scratch.path.join("left.tmp"), b"theirs").unwrap();
        std::fs::create_dir_all(scratch.path.join("taken/by")).unwrap();
        let long = "n".repeat(256);
        let made = |draft: &str, last: FileStep| {
            vec![open(draft, NEW, false), write(100), FileStep::Close, last]
        };
        let enoent = FaultCause::Errno(libc::ENOENT);
        let scripts = [
            made("a.tmp", rename("a.tmp", "nowhere/a")),
            made("b.tmp", rename("b.tmp", "taken")),
            made("left.tmp", rename("left.tmp", "c")),
            made(&long, rename(&long, "d")),
            vec![make_directories("left.tmp/x")],
            made("f.tmp", rename("f.tmp", "f")),
        ];
        let scripts = scripts.into_iter().map(|steps| FileScript { steps }).collect();
        let tile = FileRequest { tiles: vec![FileTile { scripts }] };
        let outcome = scratch.run(&load(workers), vec![tile]);
        assert_eq!(
            faults(&outcome),
            [
                (StepKind::Rename, enoent, 1, "a.tmp"),
                (StepKind::Rename, FaultCause::Errno(libc::EISDIR), 1, "b.tmp"),
                (StepKind::Create, FaultCause::Errno(libc::EEXIST), 1, "left.tmp"),
                (StepKind::Create, FaultCause::Errno(libc::ENAMETOOLONG), 1, &*long),
                (StepKind::MakeDirectories, FaultCause::Errno(libc::ENOTDIR), 1, "left.tmp/x"),
            ]
        );
        assert_eq!((outcome.requests.count(), outcome.requests_failed), (0, 1));
        let names = std::fs::read_dir(&scratch.path).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        assert_eq!(names, ["f", "left.tmp", "taken"]);
        assert_eq!(std::fs::read(scratch.path.join("left.tmp")).unwrap(), b"theirs");
    }
}

#[test]
fn each_request_has_its_latency_and_a_load_that_is_stopped_begins_no_more() {
    for workers in BOTH {
        let scratch = Scratch::new("stopped", workers);
        let many = FileLoad { in_flight: 7, ..load(workers) };
        let look = || {
            let steps = [vec![stat("x", false)], vec![]];
            request(steps.map(|steps| FileScript { steps }).into())
        };
        let outcome = scratch.run(&many, (0..500).map(|_| look()).collect());
        assert_eq!((outcome.requests.count(), outcome.steps()), (500, 500));
        let (stop, mut asked) = (AtomicBool::new(false), 0);
        let mut next = || {
            asked += 1;
            stop.store(asked == 20, Ordering::Relaxed);
            Some(look())
        };
        let outcome = run(&scratch.directory, &many, &mut next, &stop).unwrap();
        assert_eq!(outcome.requests.count() + outcome.requests_stopped, 20);
        assert!(outcome.requests_stopped > 0 && outcome.requests_failed == 0);
        assert_eq!(asked, 20);
    }
}

#[test]
fn passes_follow_one_another_until_a_request_fails() {
    for workers in BOTH {
        let scratch = Scratch::new("passes", workers);
        scratch.run(&load(workers), vec![request((0..4).map(|n| store(n, 8192, false)).collect())]);
        let stop = AtomicBool::new(false);
        let (mut first, mut measured) = (0, Vec::new());
        // The third pass asks for objects that are not there.
        let mut passes = |so_far: Duration| {
            measured.push(so_far);
            let objects = first..first + 2;
            first += 2;
            let requests = objects.map(|n| request(vec![fetch(n, 8192, false)]));
            let pass: FilePass<'_> = Box::new(requests);
            Ok(Some(pass))
        };
        let outcome = run_passes(&scratch.directory, &load(workers), &mut passes, &stop).unwrap();
        assert!(measured[0].is_zero() && measured.is_sorted(), "{measured:?}");
        assert_eq!(measured.len(), 3, "none follows the one that failed");
        assert_eq!((outcome.requests.count(), outcome.requests_failed), (4, 2));
        assert!(outcome.elapsed_ns > measured[2].as_nanos() as u64);
        let refused = || SetupError::new("no pass", "none");
        let mut passes = |_so_far: Duration| Err::<Option<FilePass<'_>>, _>(refused());
        let error = run_passes(&scratch.directory, &load(workers), &mut passes, &stop).unwrap_err();
        assert_eq!(error, refused());
    }
}

#[test]
fn a_request_that_makes_no_sense_ends_the_load_with_the_reason() {
    for workers in BOTH {
        let scratch = Scratch::new("senseless", workers);
        let requests = vec![
            request(vec![store(1, 4096, true)]),
            request(vec![store(2, 5000, true)]),
            request(vec![store(3, 4096, true)]),
        ];
        let mut requests = requests.into_iter();
        let one = FileLoad { in_flight: 1, ..load(workers) };
        let stop = AtomicBool::new(false);
        let error = run(&scratch.directory, &one, &mut || requests.next(), &stop).unwrap_err();
        assert!(error.to_string().contains("a write of 5000 bytes at offset 0"), "{error}");
        assert_eq!(requests.len(), 1, "none is asked for behind it");
        assert!(scratch.has("m/01/x/1") && !scratch.has("m/02/x/2"));
    }
}

/// Answers one script's operations as told, and tells which they were.
fn answers(steps: Vec<FileStep>, results: &[i32]) -> (Vec<PathOp>, FileOutcome) {
    let mut course = Course::new(Some(7), FileScript { steps });
    let (mut buffer, mut outcome) = (vec![0; 64 << 10], FileOutcome::default());
    let (mut asked, mut results) = (Vec::new(), results.iter());
    while let Some(op) = course.next(&mut buffer) {
        course.begins(Nanos::ZERO);
        asked.push(op);
        let result = *results.next().expect("no more was to be asked for");
        course.done(result, Nanos::ZERO, &mut outcome);
    }
    assert_eq!(results.next(), None, "{asked:?}");
    (asked, outcome)
}

#[test]
fn whatever_goes_wrong_the_file_is_closed_and_the_draft_removed() {
    let steps = || vec![open("a.tmp", NEW, false), write(1000), FileStep::Sync, FileStep::Close];
    let (eio, enospc) = (-libc::EIO, -libc::ENOSPC);
    for (results, step) in [
        (vec![-libc::EMFILE], StepKind::Create),
        (vec![0, enospc, 0, 0], StepKind::Write),
        (vec![0, 600, enospc, 0, 0], StepKind::Write),
        (vec![0, 600, -libc::EINTR, 400, eio, 0, 0], StepKind::Sync),
        // The descriptor is gone all the same.
        (vec![0, 1000, 0, eio, 0], StepKind::Close),
    ] {
        let (asked, outcome) = answers(steps(), &results);
        let found = faults(&outcome);
        assert!(found.len() == 1 && found[0].0 == step && found[0].3 == "a.tmp", "{found:?}");
        let closes = asked.iter().filter(|op| **op == PathOp::Close).count();
        let removes = matches!(asked.last(), Some(PathOp::Unlink { path }) if &**path == "a.tmp");
        let was_made = step != StepKind::Create;
        assert_eq!((closes, removes), (usize::from(was_made), was_made), "{asked:?}");
    }
    let (_, outcome) = answers(steps(), &[0, 0, eio, eio]);
    assert_eq!(
        faults(&outcome),
        [
            (StepKind::Write, FaultCause::Short, 1, "a.tmp"),
            (StepKind::Close, FaultCause::Errno(libc::EIO), 1, "a.tmp"),
            (StepKind::Unlink, FaultCause::Errno(libc::EIO), 1, "a.tmp"),
        ]
    );
}

/// Slots of others may be in it.
#[test]
fn a_file_that_was_not_begun_anew_is_left_where_a_write_fails() {
    let keep = OpenHow::Create { exclusive: false, truncate: false };
    let steps = vec![open("slots", keep, false), write(100), FileStep::Close];
    let (asked, outcome) = answers(steps, &[0, -libc::EIO, 0]);
    assert_eq!(asked.last(), Some(&PathOp::Close), "{asked:?}");
    assert_eq!(faults(&outcome), [(StepKind::Write, FaultCause::Errno(libc::EIO), 1, "slots")]);
}

#[test]
fn what_is_left_of_a_short_transfer_is_asked_for_from_where_it_ended() {
    let steps = vec![
        open("a", OpenHow::Create { exclusive: false, truncate: false }, false),
        FileStep::Write { offset_bytes: 128, bytes: 1000 },
        FileStep::Close,
    ];
    let (asked, outcome) = answers(steps, &[0, 600, -libc::EINTR, 400, 0]);
    let place = |op: &PathOp| match op {
        PathOp::Move { offset_bytes, buffer_offset, length_bytes, .. } => {
            Some((*offset_bytes, *buffer_offset, *length_bytes))
        }
        _ => None,
    };
    let places: Vec<_> = asked.iter().filter_map(place).collect();
    assert_eq!(places, [(128, 0, 1000), (728, 600, 400), (728, 600, 400)]);
    assert_eq!((outcome.written_bytes, outcome.step(StepKind::Write).count()), (1000, 1));
}

#[test]
fn a_file_system_without_o_direct_ends_the_load() {
    let steps = vec![open("a.tmp", NEW, true), write(4096), FileStep::Close];
    let (asked, outcome) = answers(steps, &[-libc::EINVAL, 0]);
    assert!(outcome.refuses_direct);
    assert_eq!(asked.last(), Some(&PathOp::Unlink { path: "a.tmp".into() }));
    let shm =
        std::path::Path::new("/dev/shm").join(format!("ringfall-files-{}", std::process::id()));
    let Ok(directory) = HeldDirectory::make(&shm) else { return };
    for workers in BOTH {
        let again = OpenHow::Create { exclusive: false, truncate: true };
        let steps = vec![open("a.tmp", again, true), write(4096), FileStep::Close];
        let mut once = Some(request(vec![FileScript { steps }]));
        let stop = AtomicBool::new(false);
        let ran = run(&directory, &load(workers), &mut || once.take(), &stop);
        // Newer kernels' tmpfs takes it.
        let is_refused = matches!(ran, Err(SetupError::NoDirectIo { .. }));
        assert!(is_refused != shm.join("a.tmp").exists(), "{ran:?}");
    }
    std::fs::remove_dir_all(shm).unwrap();
}

#[test]
fn directories_on_the_way_are_looked_for_upward_and_made_downward() {
    let enoent = -libc::ENOENT;
    let make = |path: &str| PathOp::MakeDirectory { path: path.into() };
    let look = |path: &str| PathOp::Stat { path: path.into() };
    let asked = |results: &[i32]| answers(vec![make_directories("a/bc/d")], results).0;
    assert_eq!(asked(&[0]), [look("a/bc/d")]);
    assert_eq!(
        asked(&[enoent, enoent, 0, 0, -libc::EEXIST]),
        [look("a/bc/d"), look("a/bc"), look("a"), make("a/bc"), make("a/bc/d")]
    );
    assert_eq!(asked(&[enoent, enoent, enoent, 0, 0, 0]).last(), Some(&make("a/bc/d")));
    let (_, outcome) = answers(vec![make_directories("a")], &[enoent, -libc::EROFS]);
    assert_eq!(outcome.faults[0].cause, FaultCause::Errno(libc::EROFS));
}

/// Something that a store might do to one of a few names.
#[derive(Clone, Copy, Debug)]
struct Deed {
    action: u8,
    /// Number of the name, and of a second one where the action takes two.
    one: usize,
    other: usize,
    bytes: u64,
}

fn deed() -> impl Strategy<Value = Deed> {
    let parts = (0..7_u8, 0..5_usize, 0..5_usize, 1..10_000_u64);
    parts.prop_map(|(action, one, other, bytes)| Deed { action, one, other, bytes })
}

/// The script of a deed, on names that no other tile uses.
fn script_of(tile: usize, deed: Deed) -> FileScript {
    let names = ["a", "b", "d/a", "d/e/b", "d"].map(|name| format!("{tile}/{name}"));
    let (one, other, bytes) = (names[deed.one].as_str(), names[deed.other].as_str(), deed.bytes);
    let (written, read) = (write(bytes), FileStep::Read { offset_bytes: 3, bytes });
    let file = |how, io| vec![open(one, how, false), io, FileStep::Close];
    let steps = match deed.action {
        0 => vec![stat(one, false)],
        1 => vec![make_directories(one)],
        2 => file(NEW, written),
        3 => file(OpenHow::Create { exclusive: false, truncate: bytes.is_multiple_of(2) }, written),
        4 => file(OpenHow::Read, read),
        5 => vec![rename(one, other)],
        _ => [vec![stat(one, true)], file(NEW, written), vec![rename(one, other)]].concat(),
    };
    FileScript { steps }
}

/// Paths below a directory, with the content of files.
fn tree(path: PathBuf) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let (mut found, mut open) = (BTreeMap::new(), VecDeque::from([path.clone()]));
    while let Some(directory) = open.pop_front() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap().path();
            let content = entry.is_file().then(|| std::fs::read(&entry).unwrap());
            if content.is_none() {
                open.push_back(entry.clone());
            }
            found.insert(entry.strip_prefix(&path).unwrap().to_path_buf(), content);
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The same names and sizes: what is between the marks of blocks is the worker's own.
    #[test]
    fn both_workers_leave_the_same_tree(
        tiles in proptest::collection::vec(proptest::collection::vec(deed(), 1..12), 1..4)
    ) {
        let results = BOTH.map(|workers| {
            let scratch = Scratch::new("same", workers);
            let tiles = tiles.iter().enumerate().map(|(tile, deeds)| {
                let begin = FileScript { steps: vec![make_directories(&tile.to_string())] };
                let scripts = deeds.iter().map(|deed| script_of(tile, *deed));
                FileTile { scripts: std::iter::once(begin).chain(scripts).collect() }
            });
            let requests = vec![FileRequest { tiles: tiles.collect() }];
            let outcome = scratch.run(&load(workers), requests);
            let sizes: BTreeMap<_, _> = tree(scratch.path.clone())
                .into_iter()
                .map(|(path, content)| (path, content.map(|content| content.len())))
                .collect();
            let mut faults: Vec<_> =
                outcome.faults.iter().map(|fault| (fault.step, fault.cause, fault.count)).collect();
            faults.sort_unstable();
            let counts = StepKind::ALL.map(|kind| outcome.step(kind).count());
            let bytes = (outcome.read_bytes, outcome.written_bytes);
            (sizes, faults, counts, bytes, outcome.requests_failed)
        });
        prop_assert_eq!(&results[0], &results[1]);
    }
}

#[test]
fn what_one_worker_stores_the_other_fetches() {
    let scratch = Scratch::new("other", BOTH[0]);
    let objects = || (0..4_u64).map(|n| n + 1);
    for (writer, reader, bytes) in [(BOTH[0], BOTH[1], 8192), (BOTH[1], BOTH[0], 8199)] {
        let stored = objects().map(|n| store(n + bytes, bytes, false)).collect();
        scratch.run(&load(writer), vec![request(stored)]);
        let fetched = objects().map(|n| fetch(n + bytes, bytes, false)).collect();
        let outcome = scratch.run(&load(reader), vec![request(fetched)]);
        assert_eq!((faults(&outcome), outcome.read_bytes), (vec![], 4 * bytes));
        assert!(objects().all(|n| scratch.holds(n + bytes, bytes)));
    }
}
