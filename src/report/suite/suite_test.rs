use std::path::Path;

use ringfall_core::facts::RingFeatures;
use ringfall_core::units::{GIB, MIB};
use ringfall_host::DeviceFacts;
use ringfall_host::survey::{Disk, FileSystem, Gpu, Survey, Throttle};

use super::*;

fn engine() -> Engine {
    Engine { shards: 4, queue_depth: 64, io_bytes: MIB, buffer_bytes: 256 * MIB }
}

fn system(mount_point: &str, disk: &str, free_gib: u64) -> FileSystem {
    FileSystem {
        mount_point: mount_point.to_owned(),
        kind: "ext4".to_owned(),
        disk: Some(disk.to_owned()),
        drives: vec![disk.to_owned()],
        size_bytes: Some(1000 * GIB),
        free_bytes: Some(free_gib * GIB),
        is_writable: true,
        ..FileSystem::default()
    }
}

fn disk(name: &str, kind: &str) -> Disk {
    let facts = DeviceFacts {
        name: name.to_owned(),
        numbers: format!("259:{}", name.len()),
        size_bytes: Some(1000 * GIB),
        rotational: Some(false),
        ..DeviceFacts::default()
    };
    Disk { facts, kind: kind.to_owned(), ..Disk::default() }
}

fn survey() -> Survey {
    let mut survey = Survey {
        kernel: Some("6.8.0-31-generic".to_owned()),
        disks: vec![disk("sda", "scsi"), disk("nvme0n1", "nvme"), disk("nvme10n1", "nvme")],
        file_systems: vec![
            system("/", "sda", 900),
            system("/data", "nvme0n1", 100),
            system("/big disk", "nvme10n1", 500),
            FileSystem { kind: "tmpfs".into(), free_bytes: Some(GIB << 20), ..system("/x", "", 0) },
        ],
        ..Survey::default()
    };
    survey.memory.total_bytes = Some(64 * GIB);
    survey.memory.available_bytes = Some(60 * GIB);
    survey
}

fn flags(invocation: &Invocation) -> String {
    invocation.arguments()[1..].join(" ")
}

fn one(workload: Workload, machine: &Machine) -> Invocation {
    invocations(workload, &Asked::default(), machine).remove(0)
}

#[test]
fn the_data_goes_to_the_largest_local_nvme_drive_unless_a_place_is_given() {
    let survey = survey();
    let place = Place::of(&survey, None);
    assert_eq!(place.directory, Path::new("/big disk/ringfall-kv"));
    assert!(place.reason.contains("500.0 GiB free"), "{}", place.reason);
    assert_eq!(place.mount_point.as_deref(), Some("/big disk"));
    let modest = Place::usual(&survey, None);
    assert_eq!(modest.directory, std::env::temp_dir().join("ringfall-kv"));
    assert!(modest.reason.contains("recommends /big disk/ringfall-kv"), "{}", modest.reason);
    let mut usual = survey.clone();
    usual.file_systems.push(system("/mnt/ssd", "sda", 5));
    assert_eq!(Place::usual(&usual, None).directory, Path::new("/mnt/ssd/ringfall-kv"));
    let given = Place::of(&survey, Some(Path::new("/data/mine")));
    assert!(given.is_given && given.mount_point.as_deref() == Some("/data"));
    let only_root = Survey { file_systems: vec![system("/", "sda", 9)], ..survey.clone() };
    assert_eq!(Place::of(&only_root, None).directory, Path::new("/var/tmp/ringfall-kv"));
    let none = Survey { file_systems: vec![system("/", "sda", 1)], ..survey };
    assert!(Place::of(&none, None).reason.contains("name a directory"));
}

#[test]
fn tiers_that_a_workload_excludes_are_not_asked_for() {
    let machine = Machine { gpu_gib: Ok(80.0), ..Machine::of(&survey(), None) };
    let text = |workload| flags(&one(workload, &machine));
    let gpu_only = text(Workload::GpuOnly);
    assert!(gpu_only.contains("--gpu-mem-gb 80 --cpu-mem-gb 0 --disable-storage"), "{gpu_only}");
    assert!(!gpu_only.contains("--cache-dir"));
    let cpu_only = text(Workload::CpuOnly);
    assert!(cpu_only.contains("--cpu-mem-gb 30 --disable-storage"), "{cpu_only}");
    assert!(!cpu_only.contains("--gpu-mem-gb"));
    let storage_only = text(Workload::StorageOnly);
    assert!(storage_only.contains("--cpu-mem-gb 0 --cache-dir /big disk/ringfall-kv"));
    let gpu_cpu = text(Workload::GpuCpu);
    assert!(gpu_cpu.contains("--gpu-mem-gb 80 --cpu-mem-gb 30 --disable-storage"), "{gpu_cpu}");
    let cpu_storage = text(Workload::CpuStorage);
    assert!(cpu_storage.contains("--num-users 300 --cpu-mem-gb 7.5 --cache-dir"), "{cpu_storage}");
    assert!(text(Workload::Production).contains("--gpu-mem-gb 80"));
}

#[test]
fn without_a_gpu_it_is_said_what_is_left_out_and_what_cannot_be_run() {
    let machine = Machine::of(&survey(), None);
    for workload in [Workload::GpuOnly, Workload::GpuCpu, Workload::GpuCpuStorage] {
        let invocation = one(workload, &machine);
        let why = invocation.impossible.unwrap();
        assert!(why.contains("no GPU") && why.contains("--gpu-backend emulated"), "{why}");
        assert!(invocation.flags.is_empty());
    }
    for workload in [Workload::Production, Workload::Autoscale] {
        let invocation = one(workload, &machine);
        assert!(invocation.left_out.as_ref().unwrap().contains("GPU tier is left out"));
        assert!(!flags(&invocation).contains("--gpu-mem-gb"));
    }
    let mut with_gpu = survey();
    let driver = Some("nvidia".to_owned());
    with_gpu.gpus.push(Gpu { model: Some("H100".into()), driver, ..Gpu::default() });
    let why = Machine::of(&with_gpu, None).gpu_gib.unwrap_err();
    assert!(why.contains("H100") && why.contains("nothing is known"), "{why}");
}

#[test]
fn host_memory_stands_in_for_a_gpu_where_it_is_asked_to_and_is_named_as_such() {
    let machine = Machine::of(&survey(), None).with_emulated_gpu(Some(0.25));
    for workload in [Workload::GpuOnly, Workload::GpuCpu, Workload::GpuCpuStorage] {
        let invocation = one(workload, &machine);
        assert_eq!(invocation.impossible, None);
        assert!(flags(&invocation).contains("--gpu-mem-gb 0.25"), "{}", flags(&invocation));
        assert!(invocation.title.ends_with("(the GPU is emulated in host memory)"));
    }
    assert_eq!(one(Workload::Production, &machine).left_out, None);
    // The flag that says how much goes to every run.
    let storage = one(Workload::StorageOnly, &machine).title;
    assert_eq!(storage, "the whole cache on storage, beside a GPU tier emulated in host memory");
    let unsaid = Machine::of(&survey(), None).with_emulated_gpu(None);
    assert!(!one(Workload::StorageOnly, &unsaid).title.contains("emulated"));
    assert!(flags(&one(Workload::GpuOnly, &unsaid)).contains("--gpu-mem-gb 7.5"));
}

#[test]
fn the_fourth_published_invocation_runs_when_it_is_named() {
    let machine = Machine::of(&survey(), None);
    let fourth = flags(&one(Workload::by_name("mlperf_throughput_70b").unwrap(), &machine));
    let wanted = "--num-users 20 --cpu-mem-gb 4 --max-concurrent-allocs 4";
    assert!(fourth.contains("llama3.1-70b-instruct") && fourth.contains(wanted), "{fourth}");
    let in_all = WORKLOADS.iter().filter(|row| row.0.is_in_all());
    assert_eq!(in_all.count(), 11, "as many as the reference's wrapper has");
}

#[test]
fn the_large_model_is_not_said_to_have_the_largest_entries() {
    use ringfall_workloads::model::MODELS;
    let bytes = |name: &str| {
        let (_, spec) = MODELS.iter().find(|(known, _)| *known == name).unwrap();
        spec.bytes_per_token().unwrap()
    };
    let large = bytes("llama3.1-70b-instruct");
    assert_eq!((large, 2 * large), (320 << 10, 5 * bytes("llama3.1-8b")));
    assert!(bytes("llama2-7b") > large);
    let machine = Machine::of(&survey(), None);
    let all = WORKLOADS.iter().flat_map(|row| invocations(row.0, &Asked::default(), &machine));
    for flag in all.flat_map(|invocation| invocation.flags) {
        assert!(!flag.reason.contains("largest"), "{}: {}", flag.flag, flag.reason);
    }
}

#[test]
fn what_is_asked_for_is_what_is_run() {
    let machine = Machine::of(&survey(), None);
    let asked = Asked {
        model: "tiny-1b".to_owned(),
        users: Some(7),
        users_high: Some(5),
        rag_documents: Some(3),
        storage_gib: Some(0.5),
        tier_s: 9,
        ..Asked::default()
    };
    let first = |workload| flags(&invocations(workload, &asked, &machine)[0]);
    let text = first(Workload::CpuStorage);
    assert!(text.starts_with("--model tiny-1b --duration 9 --num-users 7"), "{text}");
    assert!(text.ends_with("--enable-rag --rag-num-docs 3 --seed 42"), "{text}");
    assert!(text.contains("/ringfall-kv --storage-capacity-gb 0.5"), "{text}");
    assert!(!first(Workload::CpuOnly).contains("--storage-capacity-gb"));
    let published = invocations(Workload::MlperfSubmission, &asked, &machine);
    let models: Vec<String> = published.iter().map(flags).collect();
    assert_eq!(models.len(), 3);
    assert!(models.iter().all(|text| !text.contains("tiny-1b") && !text.contains("--enable-rag")));
    assert!(models[0].contains("--num-users 200 --cpu-mem-gb 0 --max-concurrent-allocs 16"));
    assert!(models[2].contains("llama3.1-70b-instruct --duration 300 --num-users 70"));
}

#[test]
fn workloads_go_by_the_names_of_the_reference() {
    for (workload, name, others, _) in WORKLOADS {
        assert_eq!((workload.name(), Workload::by_name(name)), (name, Some(workload)));
        for other in others {
            assert_eq!(Workload::by_name(&other.to_uppercase()), Some(workload));
        }
    }
    assert_eq!(Workload::by_name("cpu_only"), Some(Workload::CpuOnly));
    assert_eq!(Workload::by_name("cpuonly"), None);
}

fn told(
    survey: &Survey,
    ring: IoUring,
    takes_direct_io: Option<bool>,
) -> Vec<(Weight, String, String)> {
    let machine = Machine::of(survey, Some(Path::new("/big disk/kv")));
    let tried = (ring, takes_direct_io);
    let kv = KvSize::default();
    let found = Discovery::of(survey.clone(), &Asked::default(), &machine, engine(), tried, kv);
    let all = found.advice.into_iter();
    all.map(|one| (one.weight, one.what, one.command.unwrap_or_default())).collect()
}

#[test]
fn what_keeps_a_run_from_measuring_the_drive_is_told_with_its_command() {
    let works = || IoUring::works(RingFeatures::default(), true, 256 * MIB);
    assert_eq!(told(&survey(), works(), Some(true)), []);
    assert_eq!(told(&survey(), works(), None), []);
    let file = "/sys/fs/cgroup/x y/io.max".to_owned();
    let throttle =
        Throttle { numbers: "259:8".into(), file, limit: "rbps=1".to_owned(), is_changed: false };
    let mut limited = survey();
    limited.limits.throttles.push(throttle);
    let unregistered = IoUring::works(RingFeatures::default(), false, 256 * MIB);
    let refused = IoUring::failed("io_uring is forbidden here".to_owned(), 256 * MIB);
    let cases = [
        (survey(), refused, None, Weight::Needed, "io_uring is forbidden here", ""),
        (survey(), unregistered, None, Weight::Matters, "256 MiB of I/O", "ulimit -l unlimited"),
        (survey(), works(), Some(false), Weight::Needed, "in /big disk/kv do not take", ""),
        (
            limited.clone(),
            works(),
            Some(true),
            Weight::Needed,
            "a cgroup limits nvme10n1 (rbps=1 in ",
            "echo '259:8 rbps=max' | sudo tee '/sys/fs/cgroup/x y/io.max'",
        ),
    ];
    for (survey, ring, direct, weight, what, command) in cases {
        let told = told(&survey, ring, direct);
        assert!(told.len() == 1 && told[0].1.contains(what), "{told:?}");
        assert_eq!((told[0].0, told[0].2.as_str()), (weight, command));
    }
    let unregistered = IoUring::works(RingFeatures::default(), false, 256 * MIB);
    let both = told(&limited, unregistered, Some(true));
    assert_eq!(both.iter().map(|one| one.0).collect::<Vec<_>>(), [Weight::Needed, Weight::Matters]);
}

/// The scheduler and the interrupts of a drive were facts for experts alone.
#[test]
fn the_scheduler_and_the_interrupts_of_the_place_s_drive_are_told() {
    let told = |change: fn(&mut Disk)| {
        let mut survey = survey();
        // The drive below `/big disk`, then one that the data is not on.
        change(&mut survey.disks[2]);
        change(&mut survey.disks[1]);
        told(&survey, IoUring::works(RingFeatures::default(), true, 256 * MIB), Some(true))
    };
    let all = told(|disk| {
        disk.facts.scheduler = Some("mq-deadline".to_owned());
        disk.schedulers = vec!["none".to_owned(), "mq-deadline".to_owned()];
        disk.interrupted_cores = vec![0, 2];
    });
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].1.starts_with("nvme10n1 has the scheduler mq-deadline"), "{all:?}");
    assert_eq!(all[0].2, "echo none | sudo tee /sys/block/nvme10n1/queue/scheduler");
    let apart = "nvme10n1 interrupts 2 cores only (0, 2), and a run has 4 shards";
    assert!(all[1].1.starts_with(apart) && all[1].1.contains("--shards 2"), "{all:?}");
    let none = told(|disk| {
        disk.facts.scheduler = Some("none".to_owned());
        disk.schedulers = vec!["none".to_owned()];
        disk.interrupted_cores = vec![0, 1, 2, 3];
    });
    assert_eq!(none, []);
    assert_eq!(told(|disk| disk.facts.scheduler = Some("bfq".to_owned())), [], "no other");
}

fn saved(asked: Asked, more: &[&str]) -> SavedSuite {
    let machine = Machine::of(&survey(), None);
    let workloads = vec![Workload::CpuOnly, Workload::GpuOnly];
    let runs = workloads.iter().flat_map(|one| invocations(*one, &asked, &machine)).collect();
    let more = more.iter().map(|word| (*word).to_owned()).collect();
    SavedSuite::new(Some("host".into()), asked, workloads, (None, more), runs)
}

#[test]
fn a_plan_is_read_back_as_it_was_written_and_damage_is_named() {
    let directory = std::env::temp_dir().join(format!("ringfall-suite-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    assert_eq!(SavedSuite::read(&directory).unwrap(), None);
    let suite = saved(Asked::default(), &["--shards", "1"]);
    let path = SavedSuite::path(&directory);
    ringfall_model::write_json(&suite, &path).unwrap();
    assert_eq!(SavedSuite::read(&directory).unwrap().unwrap(), suite);
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to, word) in [
        ("\"ringfall_suite\": 1", "\"ringfall_suite\": 9", "layout 9"),
        ("\"cpu-only\"", "\"cpu-x\"", "is not a workload"),
        ("{", "[", "is not the plan of a suite"),
    ] {
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = SavedSuite::read(&directory).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("suite.plan"), "{error}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn suites_that_were_asked_for_differently_are_told_apart_by_their_flags() {
    let one = saved(Asked::default(), &[]);
    assert!(one.differences(&one).is_empty());
    let asked = Asked { tier_s: 9, users: Some(3), ..Asked::default() };
    let told = one.differences(&saved(asked, &["--pin", "off"]));
    assert_eq!(told, ["-t (120 and 9)", "-u (not given and 3)", "flags after -- ( and --pin off)"]);
}

/// The P95 of a single read stood where the run's own table has a dash.
#[test]
fn a_row_has_no_p95_of_few_reads() {
    use ringfall_core::key::Tier;
    use ringfall_model::Document;
    let runs =
        invocations(Workload::MlperfSubmission, &Asked::default(), &Machine::of(&survey(), None));
    let place = FIGURES.iter().position(|(key, ..)| *key == "storage_read_device_p95_ms").unwrap();
    let mut result = ringfall_model::testing::busy();
    let of = |result: &ringfall_model::RunResult| {
        Row::of(&runs[0], &End::Done, Some(&Document::of(result)), None).figures[place]
    };
    let reads = &mut result.engine.tiers[Tier::Storage.index()].read.device;
    *reads = Default::default();
    (0..9).for_each(|_| reads.record(1_000_000));
    assert_eq!(of(&result), None);
    result.engine.tiers[Tier::Storage.index()].read.device.record(1_000_000);
    assert!(of(&result).is_some());
}

#[test]
fn a_row_holds_the_verdict_of_the_result_and_what_was_published() {
    use ringfall_model::Document;
    let machine = Machine::of(&survey(), None);
    let runs = invocations(Workload::MlperfSubmission, &Asked::default(), &machine);
    let mut result = ringfall_model::testing::busy();
    result.plan.model = "llama3.1-8b".to_owned();
    (result.plan.users, result.plan.cpu_memory_bytes) = (200, 0);
    result.plan.settings.max_concurrent_allocs = Some(16);
    result.plan.settings.generation_mode = ringfall_config::GenerationMode::None;
    result.plan.settings.arrival = ringfall_config::Arrival::Closed;
    let document = Document::of(&result);
    let row = Row::of(&runs[0], &End::Done, Some(&document), Some(&document));
    let health = ringfall_model::judge(&result);
    assert_eq!(row.verdict.name(), &*health.overall_status);
    assert_eq!(row.criteria, Some((health.passed_count, health.total_count)));
    assert_eq!(row.why.len(), health.total_count - health.passed_count);
    assert_eq!(row.figures.len(), FIGURES.len());
    assert!(row.go_by.iter().all(|one| one.ratio == Some(1.0)) && !row.go_by.is_empty());
    let published: Vec<_> = row.published.iter().map(|one| (one.preset, one.published)).collect();
    assert_eq!(published, [("mlperf-stress", 2.62), ("mlperf-stress", 2.43)]);
    assert!(row.published.iter().all(|one| one.here == Some(1.0)));
    let failed = Row::of(&runs[0], &End::Failed("it broke".into()), Some(&document), None);
    assert_eq!((failed.verdict, failed.why[0].as_str()), (Verdict::Error, "it broke"));
    assert!(failed.figures.iter().any(Option::is_some), "what was measured is kept");
    assert!(!row.is_gpu_emulated);
    // "Requests Refused <= 1%: 0.89" read as met, and as the reason of the error.
    result.requests.refused = 25;
    let refused = Document::of(&result);
    let failed = Row::of(&runs[0], &End::Failed("it broke".into()), Some(&refused), None);
    assert!(failed.why.contains(&"Requests Refused <= 1%: 89.3 %".to_owned()), "{:?}", failed.why);
    let none = Row::of(&runs[0], &End::NotRun, None, None);
    assert_eq!((none.verdict, none.criteria), (Verdict::NotRun, None));
    let gpu = invocations(Workload::GpuOnly, &Asked::default(), &machine);
    let impossible = Row::of(&gpu[0], &End::NotRun, None, None);
    assert_eq!(impossible.verdict, Verdict::Impossible);
    assert!(impossible.why[0].contains("no GPU"));
}
