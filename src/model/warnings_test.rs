use ringfall_config::PhaseMode;
use ringfall_core::error::{ErrorKind, IoError, Operation};
use ringfall_core::facts::{RingFeatures, ShardFacts};
use ringfall_core::metrics::{DriveMetrics, Histogram};
use ringfall_core::units::GIB;
use ringfall_host::survey::Throttle;
use ringfall_host::{BlockDelta, ChainLink, DeviceFacts, MountFacts, human};
use ringfall_workloads::autoscale::{
    Act, Answer, CapacityAnswer, Conclusion, Entry, Mode, Part, QosAnswer, QosBreak, StepResult,
};
use ringfall_workloads::layout::{EngineLayout, LayoutOptions, LayoutPlan};
use ringfall_workloads::source::ValidationTrace;

use super::*;
use crate::facts::{
    BlockTraceFigures, DriveAccount, DriveOutcome, FeedFigures, FileCounts, FileFailures,
    GpuOutcome, GpuTransferOutcome, Looks, SimulationFigures, TierShortage, TimelineSecond,
};
use crate::testing::{busy, drive_answer, link, nothing, read_from, roofline};
use crate::{NO_DRIVE, NO_DRIVE_SOURCE, SimulationReport};

fn codes(result: &RunResult) -> Vec<Code> {
    let of_reads = [Code::ReadsCached, Code::ReadsUnseen, Code::MemoryBacked];
    let all = warnings_of(result).into_iter().map(|warning| warning.code);
    all.filter(|code| of_reads.contains(code)).collect()
}

#[test]
fn a_run_that_was_stopped_for_a_while_says_so() {
    let mut result = busy();
    let told = |result: &RunResult| {
        let warnings = warnings_of(result).into_iter();
        let mut of_it = warnings.filter(|one| [Code::Stalls, Code::StoodStill].contains(&one.code));
        of_it.next().map(|one| (one.code, one.text))
    };
    assert_eq!(told(&result), None);
    // The watchdog was stopped with it.
    let gap_s = result.window.seconds / 4.0;
    result.watchdog.overdue_max_ns = (gap_s * 1e9) as u64;
    let (code, text) = told(&result).unwrap();
    assert_eq!((code, text.contains("25 % of the window")), (Code::StoodStill, true), "{text}");
    // One that took in all of it is no reason to call entries large.
    result.watchdog.overdue_max_ns = (result.window.seconds * 1.23e9) as u64;
    result.requests = RequestStats::default();
    assert!(told(&result).unwrap().1.contains("10.0 s, 100 % of the window"), "{result:?}");
    let none = warnings_of(&result).into_iter().find(|one| one.code == Code::NothingCompleted);
    assert_eq!(none.unwrap().text, "no request finished");
    // Entries were said to be too large for the time given, and more of it was proposed.
    result.interrupted = true;
    let none = warnings_of(&result).into_iter().find(|one| one.code == Code::NothingCompleted);
    let none = none.unwrap();
    assert_eq!(none.text, "no request finished before a signal ended the run");
    assert_eq!(none.flag_to_try, None);
    result.interrupted = false;
    result.watchdog.overdue_max_ns = 0;
    result.watchdog.stalls = 2;
    assert_eq!(told(&result).unwrap().0, Code::Stalls);
}

/// Writes that failed, which the kernel counts, were told as somebody else's use of the device.
#[test]
fn failed_ios_are_no_use_by_others() {
    let is_told = |failed: u64, more_bytes: u64| {
        let mut result = busy();
        let io_bytes = u64::from(result.plan.io_size_bytes);
        let error = IoError {
            kind: ErrorKind::Media,
            operation: Operation::Write,
            tier: Tier::Storage,
            file: "kv".to_owned(),
            offset_bytes: 0,
            length_bytes: io_bytes,
            errno: 5,
        };
        (0..failed).for_each(|_| result.engine.record_error(&error));
        result.kernel.as_mut().unwrap().write_bytes += more_bytes;
        let mut warnings = warnings_of(&result).into_iter();
        warnings.any(|one| one.code == Code::KernelDisagrees)
    };
    let io_bytes = u64::from(busy().plan.io_size_bytes);
    let failed = GIB / io_bytes;
    assert!(!is_told(0, 0) && is_told(0, GIB), "{io_bytes}");
    assert!(!is_told(failed, GIB) && is_told(failed, 2 * GIB), "{io_bytes}");
}

/// 100 requests a second, first come, first served at 70 a second, for 3 s: the survivors' P95
/// and the estimate agree within 10 %, and the truth is far above both.
#[test]
fn an_overloaded_queue_is_warned_of_where_survivors_and_estimate_agree() {
    let mut result = nothing();
    let (window_ns, mut truth) = (3_000_000_000, Histogram::new());
    let class = class_index(Class::Interactive);
    for n in 0..300 {
        let (arrived_ns, ended_ns) = (n * 10_000_000, (n + 1) * 1_000_000_000 / 70);
        truth.record(ended_ns - arrived_ns);
        match ended_ns <= window_ns {
            true => result.requests.end_to_end[class].record(ended_ns - arrived_ns),
            false => result.requests.record_unfinished(Class::Interactive, window_ns - arrived_ns),
        }
    }
    let all = result.requests.latency_of_all(Class::Interactive);
    let p95 = all.quantile(0.95).unwrap();
    let survivors_ns = result.requests.end_to_end[class].quantile_ns(0.95).unwrap();
    let truth_ns = truth.quantile_ns(0.95).unwrap();
    let (estimate_ns, bound_ns) = (p95.estimate_ns.unwrap(), p95.at_least_ns);
    assert!(estimate_ns.abs_diff(survivors_ns) < survivors_ns / 10, "{p95:?} {survivors_ns}");
    assert!(estimate_ns < truth_ns * 3 / 4 && bound_ns <= truth_ns, "{p95:?} {truth_ns}");
    let warnings = warnings_of(&result);
    let told = warnings.iter().find(|one| one.code == Code::Unfinished).unwrap();
    let (lost, of) = (all.unfinished(), all.unfinished() + all.finished());
    let bound_s = Nanos::from_ns(bound_ns).as_secs_f64();
    let words = format!(
        "requests had not finished: {lost} of {of} interactive (P95 of all ≥ {bound_s:.2} s)"
    );
    assert_eq!(told.text, words);
}

/// Three notes of four lines each said the same of each class.
#[test]
fn the_unfinished_of_all_classes_are_one_warning_in_seconds() {
    let mut result = nothing();
    for class in [Class::Interactive, Class::Batch] {
        (0..3).for_each(|_| result.requests.record_unfinished(class, 12_000_000_000));
    }
    let mut told = warnings_of(&result).into_iter().filter(|one| one.code == Code::Unfinished);
    let text = told.next().unwrap().text;
    assert_eq!(told.next(), None);
    for part in ["finished: 3 of 3 interactive (P95 of all ≥ 1", " s), 3 of 3 batch (≥ 1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn reads_that_no_device_served_are_told() {
    let mut result = busy();
    let bytes = result.engine.io_read.bytes;
    let read = |result: &mut RunResult, bytes| {
        if let Some(kernel) = &mut result.kernel {
            kernel.read_bytes = bytes;
        }
    };
    read(&mut result, bytes);
    assert_eq!(codes(&result), []);
    read(&mut result, bytes / 2);
    assert_eq!(codes(&result), [Code::ReadsCached]);
    // The disk below a loop device read nothing: its file is in the page cache.
    read(&mut result, bytes);
    result.machine.device_chain =
        vec![link("loop0", "loop", None), link("sda", "disk", Some("loop0"))];
    let kernel = result.kernel.clone().unwrap();
    let of = |device: &str, read_bytes| ringfall_host::BlockDelta {
        device: device.to_owned(),
        read_bytes,
        ..kernel.clone()
    };
    result.kernel_chain = vec![of("loop0", bytes), of("sda", 0)];
    assert_eq!(codes(&result), [Code::ReadsCached]);
    result.kernel = None;
    let on = |result: &mut RunResult, file_system: &str| {
        let file_system = file_system.to_owned();
        result.machine.mount = Some(MountFacts { file_system, ..MountFacts::default() });
    };
    on(&mut result, "nfs4");
    assert_eq!(codes(&result), [Code::ReadsUnseen]);
    let mut commands = result.clone();
    commands.facts = vec![shard_of_commands()];
    assert_eq!(codes(&commands), []);
    on(&mut result, "tmpfs");
    assert_eq!(codes(&result), [Code::MemoryBacked]);
}

fn shard_of_commands() -> ShardFacts {
    let ring = RingFeatures { passthrough: true, ..RingFeatures::default() };
    ShardFacts { ring, ..shard(&[]) }
}

/// A shard that lacks these.
fn shard(shortfalls: &[&str]) -> ShardFacts {
    ShardFacts {
        ring: RingFeatures::default(),
        huge_pages: false,
        buffer_bytes: 0,
        gpu_reaches_buffers: None,
        shortfalls: shortfalls.iter().map(|&text| text.to_owned()).collect(),
    }
}

/// Histograms of a queue of 128 places that is always full, of a drive whose fastest I/O takes a
/// hundredth of the usual one.
fn fill_the_queue(result: &mut RunResult) {
    let latency = &mut result.engine.io_read.latency;
    *latency = Histogram::new();
    latency.record(200_000);
    (0..64_000).for_each(|_| latency.record(20_000_000));
    if let Some(kernel) = &mut result.kernel {
        kernel.busy_ms = (result.window.seconds * 1e3) as u64;
    }
}

/// Twenty seconds, in each of which storage read less than in the one before.
fn falling() -> Vec<TimelineSecond> {
    let of = |second: u32| {
        let mut row = TimelineSecond { seconds: 1.0, ..TimelineSecond::default() };
        row.end_s = f64::from(second);
        row.tiers[Tier::Storage.index()].read.bytes = GIB / u64::from(second);
        row
    };
    (1..=20).map(of).collect()
}

fn gpu(backing: Option<GpuBacking>, why_not: Option<&str>) -> Option<GpuOutcome> {
    let left_out = GpuOutcome::left_out(GIB, "it is in use".to_owned());
    Some(GpuOutcome { backing, why_not: why_not.map(str::to_owned), ..left_out })
}

fn searched(conclusive: bool, users: u32) -> Option<Conclusion> {
    let broke = QosBreak {
        users: 1,
        part: Some(Part::StorageRead),
        saturation: Some(2.0),
        largest_part: "storage",
        largest_share: 0.9,
    };
    Some(Conclusion {
        mode: Mode::Qos,
        initial_users: 1,
        conclusive,
        reason: "the run ended first".to_owned(),
        answer: Answer::Qos(QosAnswer { users, confirmed: conclusive, broke: Some(broke) }),
        entries: vec![Entry {
            result: StepResult { users: 1, bytes_per_s: 1.0, ..StepResult::default() },
            act: if conclusive { Act::Stop } else { Act::Hold },
        }],
    })
}

#[test]
fn the_note_on_space_tells_the_users_of_a_search_and_none_of_a_drive_full_by_a_cgroup() {
    let mut result = busy();
    let most_ns = result.requests.end_to_end_all().max_ns().unwrap();
    result.requests.room.record(most_ns);
    let told = |result: &RunResult| {
        let short = warnings_of(result).into_iter().find(|one| one.code == Code::SpaceShort);
        short.map(|warning| warning.text)
    };
    let users = format!("for {} user", result.plan.users);
    assert!(told(&result).unwrap().contains(&users), "{:?}", told(&result));
    // The 4 that it began with were told.
    let mut found = searched(true, 256).unwrap();
    found.entries[0].result.users = 256;
    result.autoscale = Some(found);
    assert!(told(&result).unwrap().contains("for 256 users"), "{:?}", told(&result));
    limit_to(&mut result, 1_000);
    assert_eq!(told(&result), None, "{:?}", result.throttle());
}

fn drives(result: &mut RunResult) {
    result.drives = ["/a", "/b"]
        .map(|path| DriveOutcome { path: path.to_owned(), ..DriveOutcome::default() })
        .to_vec();
    result.engine.drives = vec![DriveMetrics::default(); 2];
    let drives = result.drives.iter_mut().zip(&mut result.figures.engine.drives);
    for ((drive, metrics), latency_us) in drives.zip([1_000, 9_000]) {
        (0..50).for_each(|_| metrics.read.add(1 << 20, 1 << 20, latency_us * 1_000));
        let busy_ms = latency_us / 5;
        drive.kernel = Some(BlockDelta { busy_ms, ..read_from(&drive.path, 50 << 20) });
    }
}

/// Has a cgroup limit the reads of the run's drive.
fn limit_to(result: &mut RunResult, bytes_per_s: u64) {
    let (numbers, file) = ("8:0".to_owned(), "io.max".to_owned());
    let kernel = result.kernel.clone().unwrap();
    let link = ChainLink { numbers: numbers.clone(), ..link(&kernel.device, "disk", None) };
    result.machine.device_chain = vec![link];
    result.machine.throttles =
        vec![Throttle { numbers, file, limit: format!("rbps={bytes_per_s}"), is_changed: false }];
    result.kernel_chain = vec![kernel];
}

/// "The figures are of that limit rather than of the drive", of 18.6 GiB/s that were never reached.
#[test]
fn a_limit_of_a_cgroup_is_told_with_its_use() {
    for (bytes_per_s, told) in [
        (GIB / 10, "100 % of which the run used: the figures are of that limit rather than of the"),
        (GIB / 6, "60 % of which the run used on average"),
    ] {
        let mut result = busy();
        limit_to(&mut result, bytes_per_s);
        let warnings = warnings_of(&result);
        let of_it = warnings.iter().find(|one| one.code == Code::DriveThrottled).unwrap();
        let limit = human(bytes_per_s);
        let words = format!("a cgroup limits reads of nvme0n1 to {limit}/s, {told}");
        assert!(of_it.text.starts_with(&words), "{}", of_it.text);
    }
    let mut result = busy();
    limit_to(&mut result, GIB);
    assert!(warnings_of(&result).iter().all(|one| one.code != Code::DriveThrottled));
    // Each of two drives moved 64 % of what it was allowed to.
    limit_to(&mut result, GIB / 10);
    let second = ChainLink { numbers: "8:16".to_owned(), ..link("sdb", "disk", None) };
    let limit = Throttle { numbers: "8:16".to_owned(), ..result.machine.throttles[0].clone() };
    result.machine.device_chain.push(second);
    result.machine.throttles.push(limit);
    result.kernel_chain = vec![read_from("nvme0n1", GIB * 64 / 100), read_from("sdb", GIB / 2)];
    result.engine.io_read.bytes = GIB * 114 / 100;
    let used = result.throttle().unwrap();
    assert!((used.share.unwrap() - 0.64).abs() < 0.01 && used.told.contains("nvme0n1"), "{used:?}");
    // Others read as much again from a disk: what is beyond the engine's bytes is theirs.
    result.kernel_chain = vec![read_from("nvme0n1", 2 * GIB), read_from("sdb", 0)];
    result.engine.io_read.bytes = GIB / 2;
    assert!((result.throttle().unwrap().share.unwrap() - 0.5).abs() < 0.01);
}

/// A drive that met heat and an error of its media.
fn account(result: &mut RunResult) {
    let device = "nvme0n1".to_owned();
    result.drive_accounts = vec![DriveAccount { device, answer: Ok(drive_answer()) }];
}

/// A drive that is short of spare blocks and has stopped to write.
fn warned(result: &mut RunResult) {
    account(result);
    if let Ok(answer) = &mut result.drive_accounts[0].answer {
        answer.after.health.critical_warning = Some(0b1001);
    }
}

#[test]
fn a_drive_warns_of_its_condition_in_words() {
    let mut result = busy();
    warned(&mut result);
    let all = warnings_of(&result);
    let text = &all.iter().find(|one| one.code == Code::DriveWarns).unwrap().text;
    let words = "warns after the run that it has too few spare blocks left, and that its media can \
                 only be read: ";
    assert!(text.contains(words), "{text}");
}

#[test]
fn what_a_drive_counted_before_the_run_is_no_warning_of_it() {
    let told = |result: &RunResult| -> Vec<String> {
        let of_drives = [Code::DriveHot, Code::DriveMediaErrors];
        let all = warnings_of(result).into_iter().filter(|one| of_drives.contains(&one.code));
        all.map(|one| one.text).collect()
    };
    let mut result = busy();
    account(&mut result);
    let texts = told(&result);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("drive nvme0n1 slowed down 2 times against its heat (63 °C"));
    assert!(texts[1].starts_with("drive nvme0n1 counted 1 media error that it could not correct"));
    if let Ok(answer) = &mut result.drive_accounts[0].answer {
        answer.before = answer.after.clone();
    }
    assert_eq!(told(&result), [""; 0]);
}

/// A loop device whose file is in memory.
fn memory_below_a_loop() -> Vec<ChainLink> {
    vec![link("loop0", "loop", None), link("tmpfs", "memory", Some("loop0"))]
}

fn simulated(device: &str, source: &str, run: &RunResult) -> SimulationReport {
    let named = (device.to_owned(), source.to_owned());
    SimulationReport::of(named, SimulationFigures::default(), None, Err(String::new()), run)
}

#[test]
fn a_simulated_run_says_so_first_and_names_the_description() {
    let mut result = busy();
    for (device, source, words) in [
        ("nvme", "measured", "simulated with the device description nvme"),
        (NO_DRIVE, NO_DRIVE_SOURCE, "a logical trace"),
    ] {
        result.simulation = Some(simulated(device, source, &result));
        let first = warnings_of(&result).into_iter().next().unwrap();
        assert_eq!(first.code, Code::Simulated);
        assert!(first.text.contains(words), "{}", first.text);
        assert!(first.text.contains("no drive moved a byte"), "{}", first.text);
    }
}

/// Change to a run that raises a warning: the run had none of that name before.
type Raise = fn(&mut RunResult);

/// A change of a run for each code that its figures can raise.
const RAISED: &[(Code, Raise)] = &[
    (Code::KernelDisagrees, |run| run.kernel.as_mut().unwrap().read_bytes *= 9),
    (Code::KernelDisagrees, |run| run.kernel.as_mut().unwrap().write_bytes = 1),
    (Code::ReadsCached, |run| run.kernel.as_mut().unwrap().read_bytes = 1),
    (Code::ReadsUnseen, |run| run.kernel = None),
    (Code::DeepQueue, fill_the_queue),
    (Code::NotSteady, |run| run.timeline = falling()),
    (Code::NotTraced, |run| run.block_trace = Some(Err("no bpftrace".to_owned()))),
    (Code::TraceLost, |run| {
        let trace = BlockTraceFigures { lost_events: 3, ..BlockTraceFigures::default() };
        run.block_trace = Some(Ok(trace));
    }),
    (Code::FilesLeft, |run| {
        let failed = FileFailures { name: "unlink".to_owned(), count: 3, ..Default::default() };
        let failures = vec![FileFailures { name: "read".to_owned(), ..Default::default() }, failed];
        run.figures.files = Some(FileCounts { failures, ..FileCounts::default() });
    }),
    (Code::FirstTouch, |run| run.engine.first_touch_bytes = run.engine.io_write.bytes),
    (Code::DriveFailed, |run| {
        run.drives = vec![DriveOutcome { failed_s: Some(1.0), ..DriveOutcome::default() }];
    }),
    (Code::DriveSlow, drives),
    (Code::DriveHot, account),
    (Code::DriveWarns, warned),
    (Code::DriveMediaErrors, account),
    (Code::DriveThrottled, |run| {
        let (numbers, file) = ("254:0".to_owned(), "/io.max".to_owned());
        run.machine.throttles =
            vec![Throttle { numbers, file, limit: "rbps=1048576".to_owned(), is_changed: false }];
    }),
    (Code::Unfinished, |run| {
        (0..30).for_each(|_| run.requests.record_unfinished(Class::Batch, 5_000_000_000));
    }),
    (Code::UnfinishedSampled, |run| run.workload.users_a_sample = 20),
    (Code::Backlog, |run| run.workload.queued_at_end = u64::MAX),
    (Code::SkippedRows, |run| run.source.skipped.rows = 1),
    (Code::SkippedRows, |run| {
        let mut feed = FeedFigures::default();
        feed.skipped.rows = 1;
        run.feed = Some(feed);
    }),
    (Code::DisorderedRows, |run| {
        run.feed = Some(FeedFigures { disordered: 1, ..FeedFigures::default() });
    }),
    (Code::TraceChanged, |run| {
        run.feed =
            Some(FeedFigures { changed: Some("a.csv".to_owned()), ..FeedFigures::default() });
    }),
    (Code::SkippedValidationRows, |run| {
        let mut recording = ValidationTrace::default();
        recording.skipped.rows = 1;
        run.validation = Some(recording);
    }),
    (Code::Autoscaler, |run| run.autoscale = searched(false, 1)),
    (Code::AutoscalerNone, |run| run.autoscale = searched(true, 0)),
    (Code::OpenAutoscaling, |run| {
        run.plan.arrival = Arrival::Open;
        run.plan.enable_autoscaling = true;
    }),
    (Code::GpuLeftOut, |run| run.gpu = gpu(None, Some("it is in use"))),
    (Code::GpuSmaller, |run| {
        run.gpu = gpu(Some(GpuBacking::Real(GpuKind::Cuda)), Some("it is in use"));
    }),
    (Code::GpuNotDirect, |run| {
        let mut outcome = gpu(Some(GpuBacking::Real(GpuKind::Cuda)), None);
        if let Some(outcome) = &mut outcome {
            let why_not_direct = Some("there is no libcufile.so.0".to_owned());
            outcome.transfer =
                Some(GpuTransferOutcome { is_direct: false, why_not_direct, warns: true });
        }
        run.gpu = outcome;
    }),
    (Code::GpuEmulated, |run| run.gpu = gpu(Some(GpuBacking::Real(GpuKind::Emulated)), None)),
    (Code::GpuPassedOver, |run| {
        run.gpu = gpu(Some(GpuBacking::Simulated), None);
        run.engine.counts.passed_over_entries = 1;
    }),
    (Code::TierLowered, |run| {
        run.shortages = vec![TierShortage {
            tier: Tier::Cpu,
            wanted_bytes: 2,
            given_bytes: 1,
            since_s: None,
            until_s: None,
            why: "memory is short".to_owned(),
        }];
    }),
    (Code::Refused, |run| run.requests.refused = 1),
    (Code::Refused, |run| run.engine.refused_entries = 1),
    (Code::StorageFull, |run| {
        run.engine.counts.unstored_entries = 1;
        let options = LayoutOptions::of(EngineLayout::Vllm);
        let plan = LayoutPlan::new(options, "tiny-1b", &run.plan.model_spec, 1, 16);
        run.plan.layout_plan = Some(plan.unwrap());
    }),
    (Code::SpaceShort, |run| {
        let most_ns = run.requests.end_to_end_all().max_ns().unwrap();
        run.requests.room.record(most_ns);
    }),
    (Code::TiersGrew, |run| {
        let most_ns = run.requests.end_to_end_all().max_ns().unwrap();
        run.requests.room.record(most_ns);
        run.engine.waits.growth = run.engine.waits.room.clone();
        run.engine.waits.growth.record(most_ns);
    }),
    (Code::CpuThrottled, |run| {
        run.cost.cpu_quota_cores = Some(0.5);
        run.cost.cpu_throttled_s = Some(f64::from(run.plan.shards) * run.window.seconds * 0.05);
        (run.cost.cpu_quota_periods, run.cost.cpu_throttled_periods) = (Some(100), Some(5));
    }),
    (Code::TraceOverlaps, |run| {
        let path = "trace.jsonl".into();
        run.plan.traffic = Traffic::Trace { kind: TraceKind::BurstGpt, path };
        run.plan.trace_speedup = 0.0;
        run.engine.evictions[Tier::Storage.index()].entries = 1;
    }),
    (Code::MissesFree, |run| run.cache.reuse = Looks { found: 9, missed: 11 }),
    (Code::MissesFree, |run| {
        run.plan.phases = PhaseMode::DecodeOnly;
        run.cache.own = Looks { found: 210, missed: 790 };
    }),
    (Code::Population, |run| run.population_failed = 1),
    (Code::PopulationEvicted, |run| run.source.populated = Some((1, u64::MAX))),
    (Code::RooflineDevice, |run| {
        let mut limits = roofline(1e15, 1e15);
        limits.machine.device = Some(DeviceFacts::default());
        run.roofline = Some(("limits.json".to_owned(), limits));
    }),
    (Code::RooflineDoubtful, |run| {
        run.roofline = Some(("limits.json".to_owned(), roofline(1e15, 1e15)));
    }),
    (Code::RooflineExceeded, |run| {
        run.roofline = Some(("limits.json".to_owned(), roofline(1.0, 1.0)));
    }),
    (Code::StoodStill, |run| run.watchdog.overdue_max_ns = 9_000_000_000),
    (Code::Stalls, |run| run.watchdog.stalls = 1),
    (Code::Engine, |run| run.facts = vec![shard(&["no huge pages"])]),
    (Code::LatencyInjected, |run| {
        let (median, p99) = (Nanos::from_ms(1), Nanos::from_ms(20));
        run.plan.injected = Some(LatencySpread { median, p99 });
    }),
    (Code::MemoryBacked, |run| {
        let file_system = "tmpfs".to_owned();
        run.machine.mount = Some(MountFacts { file_system, ..MountFacts::default() });
    }),
    (Code::MemoryBacked, |run| run.machine.device_chain = memory_below_a_loop()),
    (Code::Simulated, |run| run.simulation = Some(simulated("nvme", "measured", run))),
    (Code::Simulated, |run| {
        run.simulation = Some(simulated(NO_DRIVE, NO_DRIVE_SOURCE, run));
    }),
    (Code::NothingCompleted, |run| run.requests = RequestStats::default()),
];

#[test]
fn one_request_or_entry_is_told_in_the_singular() {
    let told = |change: Raise| {
        let mut run = busy();
        change(&mut run);
        warnings_of(&run).into_iter().map(|one| one.text).collect::<Vec<_>>().join("\n")
    };
    for (change, words) in [
        (
            (|run| run.requests.record_unfinished(Class::Batch, 5_000_000_000)) as Raise,
            "1 of 2 batch (P95 of all",
        ),
        (|run| run.requests.refused = 1, "1 request ("),
        (|run| run.engine.refused_entries = 1, "1 entry could not be stored"),
        (|run| run.population_failed = 1, "1 entry could not be written"),
        (|run| run.source.skipped.rows = 1, "skipped 1 row that"),
    ] {
        assert!(told(change).contains(words), "{words}: {}", told(change));
    }
}

/// Requests of the users found queued without end in a run with as many, which serves one of each.
#[test]
fn a_search_of_users_who_do_not_wait_names_its_request_slots() {
    let mut run = busy();
    run.plan.arrival = Arrival::Open;
    run.plan.enable_autoscaling = true;
    run.plan.max_inflight_requests = 321;
    let warnings = warnings_of(&run);
    let told = warnings.iter().find(|one| one.code == Code::OpenAutoscaling).unwrap();
    let words = "served up to 321 requests at a time, and a run to try its answer needs \
                 --max-inflight-requests 321";
    assert!(told.text.contains(words), "{}", told.text);
}

#[test]
fn misses_that_cost_nothing_are_told_with_the_hit_rate() {
    let told = |run: &RunResult| {
        let mut all = warnings_of(run).into_iter().filter(|one| one.code == Code::MissesFree);
        all.next().map(|one| one.text)
    };
    let mut run = busy();
    run.plan.phases = PhaseMode::DecodeOnly;
    run.cache.own = Looks { found: 210, missed: 790 };
    let text = told(&run).unwrap();
    for part in ["only 21.0 % of 1000 looks", "costs no time"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Its own entry, which a request has just written, is none of what can be missed.
    run.plan.phases = PhaseMode::Both;
    assert_eq!(told(&run), None);
    for (found, missed) in [(500, 500), (2, 9), (1_000, 0), (0, 0)] {
        run.cache.reuse = Looks { found, missed };
        assert_eq!(told(&run), None, "{found} found, {missed} missed");
    }
    run.cache.reuse = Looks { found: 0, missed: 500 };
    assert!(told(&run).is_some());
    // Those that the reference counts by its definition.
    run.plan.workload.history_counts_queued_turns = true;
    assert_eq!(told(&run), None);
}

#[test]
fn what_the_limits_came_with_is_told_in_one_warning() {
    let told = |limits: Roofline| {
        let mut result = busy();
        result.roofline = Some(("limits.json".to_owned(), limits));
        let warnings = warnings_of(&result).into_iter();
        let doubtful = warnings.filter(|one| one.code == Code::RooflineDoubtful);
        doubtful.map(|one| one.text).collect::<Vec<String>>()
    };
    let mut limits = roofline(1e15, 1e15);
    limits.limits.iter_mut().for_each(|limit| limit.bandwidth.best.steady = true);
    assert_eq!(told(limits.clone()), [""; 0]);
    limits.warnings = vec!["a cache served the reads".to_owned()];
    limits.limits[1].bandwidth.best.steady = false;
    assert_eq!(
        told(limits),
        ["the limits in limits.json are in doubt: a cache served the reads; the bandwidth at 0 % \
          reads was not steady"]
    );
}

#[test]
fn each_shortfall_of_the_shards_is_told_once() {
    let mut result = busy();
    result.facts = vec![shard(&["no huge pages"]), shard(&["no huge pages", "few locked pages"])];
    result.shortfalls = vec!["part of the tier".to_owned(), "no huge pages".to_owned()];
    let told = warnings_of(&result).into_iter().filter(|one| one.code == Code::Engine);
    let texts: Vec<String> = told.map(|one| one.text).collect();
    assert_eq!(texts, ["few locked pages", "no huge pages", "part of the tier"]);
}

#[test]
fn every_code_of_a_run_is_raised_by_what_it_stands_for_and_by_nothing_else() {
    let all = |run: &RunResult| {
        let warnings = warnings_of(run).into_iter();
        warnings.map(|warning| (warning.code, warning.text)).collect::<Vec<_>>()
    };
    let before = all(&busy());
    let mut raised = Vec::new();
    for (code, change) in RAISED {
        let mut run = busy();
        change(&mut run);
        let after = all(&run);
        assert!(before.iter().all(|(known, _)| known != code), "{code} is there without a cause");
        let told = after.iter().find(|(known, _)| known == code);
        assert!(told.is_some_and(|(_, text)| !text.is_empty()), "{code} is not raised: {after:?}");
        raised.push(code);
    }
    for code in Code::OF_RUN {
        assert!(raised.contains(&code), "{code} is declared, and nothing here raises it");
    }
}

/// "0 users" was the answer of a search that had not come to its end, as if the fewest had been too
/// many.
#[test]
fn a_search_that_ended_early_without_a_number_has_no_answer() {
    for (conclusive, users) in [(true, Some(0)), (false, None)] {
        let mut result = busy();
        result.autoscale = searched(conclusive, 0);
        let report = crate::autoscaling::report(&result).unwrap();
        assert_eq!(report.qos_users.known(), users);
        assert_eq!(report.qos_none_because.as_ref().is_some(), conclusive);
        let warnings = warnings_of(&result);
        let has = |code: Code| warnings.iter().any(|warning| warning.code == code);
        assert_eq!((has(Code::AutoscalerNone), has(Code::Autoscaler)), (conclusive, !conclusive));
    }
}

/// A longer run was to be tried of a search whose every step was at the peak.
#[test]
fn more_time_is_not_suggested_where_throughput_does_not_rise_with_users() {
    for (flat_from, act, arrival, flag) in [
        (None, Act::Stop, Arrival::Open, Some("longer --duration")),
        (Some(1), Act::Stop, Arrival::Open, Some("--arrival closed")),
        (Some(4), Act::Stop, Arrival::Closed, None),
        (Some(1), Act::Hold, Arrival::Open, Some("longer --duration")),
    ] {
        let mut result = busy();
        result.plan.arrival = arrival;
        let answer = Answer::Capacity(Some(CapacityAnswer {
            peak_bytes_per_s: 1.0,
            peak_users: 1,
            knee_bytes_per_s: 1.0,
            peak_tokens_per_s: 1.0,
            flat_from,
            usl: None,
            confirmed: false,
        }));
        let mut found = searched(false, 1).unwrap();
        found.entries[0].act = act;
        result.autoscale = Some(Conclusion { mode: Mode::Capacity, answer, ..found });
        let warnings = warnings_of(&result);
        let told = warnings.iter().find(|one| one.code == Code::Autoscaler).unwrap();
        assert_eq!(told.flag_to_try.as_deref(), flag, "{flat_from:?} {act:?}");
    }
}
