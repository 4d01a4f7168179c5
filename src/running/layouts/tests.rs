use ringfall_core::clock::MILLISECOND;
use ringfall_core::model::LatencySpread;
use ringfall_engine::device::CacheDir;
use ringfall_host::{Scratch, takes_direct_io};
use ringfall_workloads::layout::{EngineLayout, LayoutOptions};
use ringfall_workloads::model::built_in;
use ringfall_workloads::recording::{Order, Part, Recording};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

/// Prefixes of 512 tokens of a small model, 12 MiB each; buckets of Mooncake hold 500 objects.
pub(super) fn plan(layout: EngineLayout) -> LayoutPlan {
    let mut options = [LayoutOptions::of(layout)];
    if layout == EngineLayout::Mooncake {
        LayoutOptions::apply(&mut options, ["chunk_tokens=16"]).unwrap();
    }
    // Not every file system of a test takes O_DIRECT.
    let _none_has_it = LayoutOptions::apply(&mut options, ["direct=no"]);
    let [options] = options;
    let spec = built_in("tiny-1b").expect("a built-in model");
    LayoutPlan::new(options, "tiny-1b", &spec, 1, 512).unwrap()
}

fn with_bench(each: Duration, work: impl FnOnce(&LayoutBench<'_>, &HeldDirectory)) {
    let scratch = Scratch::new("layouts-measured");
    let mut place = CacheDir::open(&scratch.join("place")).unwrap();
    let directory = place.make_directory("0a").unwrap();
    let interrupt = Interrupt::install().unwrap();
    let bench = LayoutBench {
        machine: &Machine::default(),
        each,
        space_bytes: 100 << 20,
        populate_objects: 0,
        memory_bytes: 256 << 20,
        seed: 7,
        interrupt: &interrupt,
    };
    work(&bench, &directory);
    place.remove().unwrap();
    assert_eq!(std::fs::read_dir(&*scratch).unwrap().count(), 0);
}

#[test]
fn every_layout_is_stored_fetched_and_removed_by_either_kind_of_workers() {
    with_bench(Duration::from_millis(20), |bench, directory| {
        for layout in EngineLayout::ALL {
            for limits in [EngineLimits::Theirs, EngineLimits::Ours] {
                let (plan, mut told) = (plan(layout), Vec::new());
                let mut tell = |what: &str| told.push(what.to_owned());
                let run = bench.measure(directory, &plan, limits, &mut tell).unwrap().unwrap();
                let name = layout.name();
                assert_eq!(run.failure, None, "{name}, {limits:?}");
                assert_eq!(told, ["storing", "fetching"]);
                let fetch = run.fetch.as_ref().expect("it was fetched");
                assert!(run.prefixes >= 1 && fetch.prefixes >= 1, "{name}: {run:?}");
                // Those of a bucket's prefixes were counted as one, and its time as a prefix's.
                assert_eq!(run.store.prefixes, run.prefixes, "{name}");
                assert_eq!(run.store.p99_ms.is_none(), plan.stores_buckets(), "{name}");
                let count = |phase: &LayoutPhase, name: &str| {
                    let of_kind = phase.operations.iter().find(|one| one.name == name);
                    of_kind.map_or(0, |one| one.count)
                };
                // Of each prefix all that it has was read.
                assert!(fetch.bytes >= fetch.prefixes * plan.useful_bytes(), "{name}: {fetch:?}");
                assert!(count(fetch, "read") > 0 && count(&run.store, "write") > 0, "{name}");
                assert_eq!(count(&run.store, "rename") > 0, layout.renames_files(), "{name}");
                let syncs = layout == EngineLayout::Mlperf;
                assert_eq!(count(&run.store, "fsync") > 0, syncs, "{name}");
                let inside = std::fs::read_dir(directory.path()).unwrap();
                assert_eq!(inside.count(), 0, "{name}: its files are left");
            }
        }
    });
}

#[test]
fn the_own_data_file_is_stored_fetched_and_removed() {
    with_bench(Duration::from_millis(20), |bench, directory| {
        if takes_direct_io(directory.path()) == Some(false) {
            return;
        }
        let (prefix_bytes, mut told) = (12 << 20, Vec::new());
        let mut tell = |what: &str| told.push(what.to_owned());
        let run = bench.measure_native(directory, prefix_bytes, 3, &mut tell).unwrap().unwrap();
        assert_eq!((run.failure.clone(), told), (None, vec!["storing".into(), "fetching".into()]));
        let fetch = run.fetch.expect("it was fetched");
        assert!((2..=8).contains(&run.prefixes) && fetch.prefixes >= 1, "{fetch:?}");
        assert_eq!(run.store.bytes, run.prefixes * prefix_bytes);
        assert_eq!(fetch.bytes, fetch.prefixes * prefix_bytes);
        assert_eq!((fetch.workers, fetch.requests, fetch.is_queue), (63, 6, true));
        assert!(fetch.p50_ms > Some(0.0) && run.durable_gib_per_s > Some(0.0));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    });
}

#[test]
fn a_directory_is_populated_with_empty_files_of_the_layout() {
    with_bench(Duration::from_millis(10), |bench, directory| {
        let bench = LayoutBench { populate_objects: 50, ..bench.clone() };
        for layout in EngineLayout::ALL {
            let plan = plan(layout);
            let mut there = 0;
            let mut tell = |what: &str| {
                if what == "storing" {
                    there = names_below(directory.path());
                }
            };
            let run = bench.measure(directory, &plan, EngineLimits::Theirs, &mut tell);
            assert_eq!(run.unwrap().unwrap().failure, None, "{}", layout.name());
            assert_eq!(there, if plan.has_file_each() { 50 } else { 0 }, "{}", layout.name());
        }
    });
}

/// Number of files in a directory and in those below it.
fn names_below(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|entry| if entry.is_dir() { names_below(&entry) } else { 1 }).sum()
}

/// The time of a pass was over before its workers had their buffers: one prefix was in flight.
#[test]
fn prefixes_are_in_flight_side_by_side_however_long_workers_take_to_begin() {
    with_bench(Duration::from_millis(20), |bench, directory| {
        let large = LayoutBench { memory_bytes: 1 << 30, ..bench.clone() };
        let plan = plan(EngineLayout::Llmd);
        let run = large.measure(directory, &plan, EngineLimits::Theirs, &mut |_| {});
        let fetch = run.unwrap().unwrap().fetch.expect("it was fetched");
        assert!(fetch.requests_in_flight > Some(1.0), "{fetch:?}");
    });
}

#[test]
fn workers_are_as_many_as_memory_has_buffers_for() {
    with_bench(Duration::from_millis(10), |bench, _directory| {
        let small = LayoutBench { memory_bytes: 40 << 20, ..bench.clone() };
        let mut notes = Vec::new();
        // Objects of 6 MiB.
        let plan = plan(EngineLayout::Llmd);
        let (theirs, ours) = (EngineLimits::Theirs, EngineLimits::Ours);
        let load = small.load(&plan, LayoutWork::Load, theirs, 100, &mut notes);
        assert_eq!(load.workers, FileWorkers::Calls { threads: 6 });
        assert!(notes[0].starts_with("only 6 of the 16 workers that would"), "{notes:?}");
        let load = small.load(&plan, LayoutWork::Load, ours, 100, &mut notes);
        assert_eq!((load.workers, load.in_flight), (FileWorkers::Ring { depth: 6 }, 4));
        assert_eq!(notes.len(), 1);
    });
}

/// 64 workers and 8 requests were told where 4 prefixes have 8 objects.
#[test]
fn workers_and_requests_are_no_more_than_prefixes_have_work_for() {
    with_bench(Duration::from_millis(10), |bench, _directory| {
        let (plan, mut notes) = (plan(EngineLayout::Llmd), Vec::new());
        assert_eq!((plan.objects_per_prefix(), plan.requests()), (2, 8));
        for (limits, prefixes, count, requests) in [
            (EngineLimits::Theirs, 100, 16, 8),
            (EngineLimits::Theirs, 4, 8, 4),
            (EngineLimits::Ours, 4, 8, 4),
            (EngineLimits::Ours, 100, 42, 22),
        ] {
            let load = bench.load(&plan, LayoutWork::Load, limits, prefixes, &mut notes);
            assert_eq!((load.workers.count(), load.in_flight), (count, requests), "{limits:?}");
        }
        assert!(notes.is_empty(), "{notes:?}");
    });
}

#[test]
fn a_layout_that_can_t_be_stored_says_why_and_leaves_nothing() {
    with_bench(Duration::from_millis(10), |bench, directory| {
        // A directory in the place of the first object.
        let plan = plan(EngineLayout::Mlperf);
        let taken = directory.path().join(&*plan.objects(0)[0].path);
        std::fs::create_dir(taken).unwrap();
        let run = bench.measure(directory, &plan, EngineLimits::Theirs, &mut |_| {});
        let run = run.unwrap().expect("nothing interrupts it");
        let why = run.failure.expect("one object can't be made");
        assert!(why.starts_with("storing ended early: create failed for conv_0_"), "{why}");
        assert!(why.contains("; give a file"), "{why}");
        assert_eq!(run.fetch, None);
    });
}

/// The directory of all is synced, too.
#[test]
fn injected_latencies_are_in_each_operation_of_a_replay() {
    let lines = "1 100.0 open(\"/kv/a\", O_RDWR|O_CREAT) = 3</kv/a> <0.0001>\n\
                 1 100.1 write(3</kv/a>, \"\", 10) = 10 <0.0001>\n\
                 1 100.2 fsync(4</kv>) = 0 <0.0001>\n\
                 2 100.3 stat(\"/kv\", 0x7) = 0 <0.0001>\n\
                 2 100.4 unlink(\"/kv/b\") = -1 ENOENT (No such file or directory) <0.0001>\n";
    let injected = Some(LatencySpread { median: 3 * MILLISECOND, p99: 3 * MILLISECOND });
    // Openings failed at the soft limit.
    let most = getrlimit(Resource::Nofile).maximum;
    let half = Rlimit { current: Some(most.unwrap_or(1 << 20) / 2), maximum: most };
    setrlimit(Resource::Nofile, half).unwrap();
    let outcome = replayed(lines, injected);
    assert_eq!((outcome.differing, outcome.first_differing), (0, None));
    assert_eq!(getrlimit(Resource::Nofile).current, most);
    assert_eq!((outcome.in_flight.most, outcome.recorded_in_flight.most), (1, 1));
    let names: Vec<&str> = outcome.operations.iter().map(|one| one.name).collect();
    assert_eq!(names, ["stat", "create", "write", "fsync", "unlink"]);
    assert!(outcome.operations.iter().all(|one| one.replayed.p50_us >= Some(3_000.0)));
}

/// They were those of the opening, whatever calls said.
#[test]
fn writes_have_the_flags_that_calls_give_and_change() {
    let outcome = replayed(
        "1 100.0 open(\"/kv/a\", O_RDWR|O_CREAT|O_APPEND) = 3</kv/a> <0.0001>\n\
         1 100.1 write(3</kv/a>, \"\", 10) = 10 <0.0001>\n\
         1 100.2 fcntl(3</kv/a>, F_SETFL, O_RDWR) = 0 <0.0001>\n\
         1 100.3 pwrite64(3</kv/a>, \"\", 10, 0) = 10 <0.0001>\n\
         1 100.4 pwritev2(3</kv/a>, [{iov_base=\"\", iov_len=10}], 1, 0, RWF_DSYNC|RWF_APPEND) \
         = 10 <0.0001>\n\
         1 100.5 preadv2(3</kv/a>, [{iov_base=\"\", iov_len=90}], 1, 0, RWF_HIPRI) = 20 \
         <0.0001>\n",
        None,
    );
    assert_eq!((outcome.differing, outcome.first_differing), (0, None));
}

/// That of the first lane was named, a consequence of the other's or not.
#[test]
fn the_operation_that_is_named_is_the_first_that_ended_otherwise() {
    let outcome = replayed(
        "1 100.0 open(\"/kv/a\", O_RDWR|O_CREAT|O_EXCL) = 3</kv/a> <0.0001>\n\
         1 100.1 clone(flags=CLONE_FILES|CLONE_THREAD) = 2 <0.0001>\n\
         2 100.2 pread64(3</kv/a>, \"\", 20, 0) = 20 <0.0001>\n\
         2 100.3 mkdir(\"/kv/d\", 0777) = 0 <0.0001>\n\
         1 100.4 rmdir(\"/kv/d\") = 0 <0.0001>\n\
         1 100.5 pread64(3</kv/a>, \"\", 30, 0) = 30 <0.0001>\n",
        None,
    );
    let first = "read of an open file: it moved 0 bytes in place of 20".to_owned();
    assert_eq!((outcome.differing, outcome.first_differing), (2, Some(first)));
}

/// Outcome of a recording of calls below `/kv`, without its gaps.
fn replayed(lines: &str, injected: Option<LatencySpread>) -> ReplayOutcome {
    let mut found = None;
    with_bench(Duration::from_millis(10), |bench, directory| {
        let part = Part::of(Recording::read(lines.as_bytes()).unwrap(), Some("/kv")).unwrap();
        let order = Order::of(&part).unwrap();
        let replay = Replay {
            part: &part,
            order: &order,
            speed: None,
            injected,
            is_direct: false,
            seed: 7,
            interrupt: bench.interrupt,
        };
        assert_eq!(replay.set_up(directory).unwrap(), None);
        found = replay.run(directory, bench.machine).unwrap();
        directory.clear().unwrap();
    });
    found.expect("nothing interrupts it")
}
