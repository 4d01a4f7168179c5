use std::path::Path;

use proptest::prelude::*;
use ringfall_core::units::{GIB, MIB};
use ringfall_workloads::WorkloadConfig;

use super::*;

/// Command line of a run, without the rest of the program's.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    run: RunArgs,
}

/// Settings that a command line gives, the program's name and `run` first.
pub(crate) fn run_args<'a>(words: impl Iterator<Item = &'a str>) -> RunArgs {
    let words: Vec<&str> = words.filter(|word| *word != "run").collect();
    match <Line as clap::Parser>::try_parse_from(&words) {
        Ok(line) => line.run,
        Err(error) => panic!("{words:?} is no command line of a run: {error}"),
    }
}

pub(super) fn facts() -> Facts {
    Facts {
        cores: 4,
        memory_available_bytes: Some(8 * GIB + 4096),
        room: ringfall_host::Room::unknown(4),
        is_simulated: false,
        rank: None,
        unix_s: 1_738_367_999,
        random_seed: 77,
    }
}

pub(super) fn typed(line: &str) -> Options {
    let args = ["ringfall", "run"].into_iter().chain(line.split_whitespace());
    run_args(args).options
}

fn file(text: &str) -> Result<ConfigFile, InputError> {
    ConfigFile::parse("my.yaml".into(), text.into())
}

fn plan(line: &str) -> Plan {
    resolve(&typed(line), None, &facts()).unwrap()
}

pub(super) fn plan_on(line: &str, facts: &Facts) -> Plan {
    resolve(&typed(line), None, facts).unwrap()
}

pub(super) fn complaint_on(line: &str, facts: &Facts) -> String {
    resolve(&typed(line), None, facts).unwrap_err().to_string()
}

fn complaint(line: &str) -> String {
    resolve(&typed(line), None, &facts()).unwrap_err().to_string()
}

#[test]
fn a_wrong_value_is_complained_of_once_and_not_for_what_follows_from_it() {
    let too_large = "--precondition --precondition-size-gb 1e9";
    for line in ["--io-size 0", "--io-size 5000", "--queue-depth 0", "--shards 0", too_large] {
        let error = resolve(&typed(line), None, &facts()).unwrap_err();
        assert_eq!(error.sentences.len(), 1, "{line}: {error}");
    }
}

#[test]
fn the_default_page_names_every_key_and_nothing_else() {
    let defaults = file(&defaults_page()).unwrap().options;
    assert_eq!(defaults.given(), Options::KEYS);
    assert_eq!(defaults, Options::defaults());
    assert_eq!(defaults.changed(), [""; 0]);
}

#[test]
fn the_committed_page_of_defaults_is_that_of_the_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/default.yaml");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(
        committed == defaults_page(),
        "config/default.yaml is old: cargo run -- config --defaults > config/default.yaml"
    );
    assert!(committed.lines().all(|line| line.chars().count() <= 100), "a line is too long");
}

#[test]
fn every_setting_says_what_it_is() {
    for setting in SETTINGS {
        let (key, summary) = (setting.key, setting.summary());
        assert!(summary.split(' ').count() >= 2 && !summary.ends_with('.'), "{key}: {summary}");
        assert!(setting.details().iter().all(|text| text.ends_with('.')), "{key}");
        let is_named = setting.choices().iter().any(|(name, _)| name == setting.default);
        assert!(setting.choices().is_empty() || is_named, "{key}: {}", setting.default);
        let without_meaning = setting.choices().iter().any(|(_, meaning)| meaning.is_empty());
        assert!(!without_meaning, "{key} has a value of which nothing is said");
    }
}

#[test]
fn the_help_names_flags_and_the_page_of_defaults_names_keys() {
    let words = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        text.split(|c| !is_part(c)).map(str::to_owned).collect::<Vec<_>>()
    };
    for setting in SETTINGS {
        let help = format!("{} {}", setting.summary(), setting.details().join(" "));
        let is_key = |word: &String| SETTINGS.iter().any(|one| one.key == *word);
        let keys = words(&help).into_iter().filter(|word| word.contains('_') && is_key(word));
        assert_eq!(keys.collect::<Vec<_>>(), [""; 0], "--help of {}", setting.flag());
    }
    let page = words(&defaults_page());
    for flag in SETTINGS.iter().map(Setting::flag) {
        // The head of the page explains what a flag is by this one.
        let expected = usize::from(flag == "--num-users");
        let found = page.iter().filter(|word| **word == flag).count();
        assert_eq!(found, expected, "{flag} in the page of defaults, which names keys");
    }
    let text = "End the run after --max-requests or --duration; see --help";
    assert_eq!(
        super::table::keys_for_flags(text),
        "End the run after max_requests or `duration`; see --help"
    );
}

#[test]
fn a_value_at_each_end_of_a_range_is_taken_and_one_beyond_is_not() {
    // As the declarations state them, in the help's words: a range that the type can't hold, or a
    // check that uses other bounds than the help names, fails here.
    let mut checked = 0;
    for setting in SETTINGS.iter().filter(|setting| setting.key != "seed") {
        let Some(range) = setting.range() else { continue };
        let Some((low, high)) = range.split_once(" to ") else { continue };
        let high = high.split(' ').next().unwrap();
        let (Ok(low), Ok(high)) = (low.parse::<i64>(), high.parse::<i64>()) else { continue };
        for (value, is_fine) in [(low, true), (high, true), (low - 1, false), (high + 1, false)] {
            let typed = file(&format!("{}: {value}\n", setting.key)).unwrap().options;
            let mut wrong = Vec::new();
            let mut all = typed.over(Options::defaults());
            all.work_out(&facts());
            Settings::of(&all, &mut |key, what| wrong.push(format!("{key} {what}"))).unwrap();
            let about_it = format!("{} {value} is out of bounds", setting.key);
            let is_told = wrong.iter().any(|what| what.starts_with(&about_it));
            assert_eq!(wrong.is_empty(), is_fine, "{} {value}: {wrong:?}", setting.key);
            assert_eq!(is_told, !is_fine, "{} {value}: {wrong:?}", setting.key);
        }
        checked += 1;
    }
    assert!(checked > 15, "{checked} settings have a range of numbers");
}

#[test]
fn the_workload_section_is_the_workloads_own_defaults() {
    let defaults = file(&defaults_page()).unwrap().options;
    assert_eq!(defaults.workload.unwrap(), WorkloadSection::default());
    let config = plan("--num-users 100 --seed 1").workload_config();
    assert_eq!(config, WorkloadConfig::default());
}

#[test]
fn the_defaults_are_those_of_the_reference() {
    let plan = plan("--num-users 100");
    assert_eq!((plan.model.as_str(), plan.users, plan.duration_s), ("llama3.1-8b", 100, 60));
    assert_eq!(plan.cpu_memory_bytes, 4 * GIB, "half of what is available");
    assert_eq!((plan.gpu_memory_bytes, plan.storage_capacity_bytes), (0, 0));
    assert_eq!((plan.max_inflight_requests, plan.max_concurrent_allocs), (100, None));
    assert_eq!((plan.shards, plan.queue_depth, plan.io_size_bytes), (4, 64, 1 << 20));
    assert_eq!(plan.io_buffer_bytes, 256 * MIB);
    assert_eq!((plan.seed, plan.origins["seed"]), (42, Origin::Default));
    assert_eq!(plan.output.to_str(), Some("results/ringfall-20250131T235959Z.json"));
    assert_eq!(
        (plan.disable_multi_turn, plan.disable_prefix_caching, plan.pin),
        (false, false, true)
    );
    assert!(!plan.demo);
}

#[test]
fn sizes_and_times_may_have_units_on_the_command_line_and_in_a_file() {
    let plain = plan("--duration 300 --warmup 10 --storage-capacity-gb 6 --cpu-mem-gb 0.5");
    let units = "--duration 5m --warmup 10s --storage-capacity-gb 6GiB --cpu-mem-gb 512MiB";
    assert_eq!(values(&plain), values(&plan(units)));
    let file = file("duration: 5m\nwarmup: 10s\nstorage_capacity_gb: 6GiB\ncpu_mem_gb: 512MiB\n");
    let from_file = resolve(&Options::default(), Some(&file.unwrap()), &facts()).unwrap();
    assert_eq!(values(&plain), values(&from_file));
    // What is printed is as it always was.
    let page = render(&plan(units));
    for line in ["duration: 300 ", "warmup: 10 ", "storage_capacity_gb: 6.0 ", "cpu_mem_gb: 0.5 "] {
        assert!(page.lines().any(|printed| printed.starts_with(line)), "{line}: {page}");
    }
    let told = complaint("--storage-capacity-gb 5000TiB --object-timeout 2h --duration 25h");
    for part in ["--storage-capacity-gb 5120000 is", "--object-timeout 7200", "--duration 90000"] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_random_seed_is_drawn_and_printed() {
    let drawn = plan("--seed random");
    assert_eq!((drawn.seed, drawn.origins["seed"]), (77, Origin::Computed));
    assert!(render(&drawn).contains("seed: random  # now 77\n"));
    // Its word in configurations that were printed before.
    let file = file("seed: auto\n").unwrap();
    assert_eq!(resolve(&Options::default(), Some(&file), &facts()).unwrap().seed, 77);
}

#[test]
fn a_search_for_the_depth_has_its_time_its_buffers_and_no_autoscaler() {
    let found = plan("--users 9 --queue-depth auto --warmup 5");
    assert_eq!((found.queue_depth, found.depth_search, found.warmup_s), (64, Some(64), 20));
    assert!(found.told.iter().any(|told| told.contains("20 s before")), "{:?}", found.told);
    let small = plan("--users 9 --queue-depth auto --warmup 60 --io-size 4k");
    assert_eq!((small.queue_depth, small.depth_search, small.warmup_s), (256, Some(64), 60));
    assert_eq!((small.io_buffer_bytes, small.told.len()), (4 * MIB, 0));
    let usual = plan("--users 9 --queue-depth standard");
    assert_eq!((usual.queue_depth, usual.depth_search, usual.warmup_s), (64, None, 0));
    let wrong = resolve(&typed("--queue-depth auto --enable-autoscaling"), None, &facts());
    assert!(wrong.unwrap_err().to_string().contains("cannot be combined"));
    let wrong = resolve(&typed("--queue-depth auto --disable-storage"), None, &facts());
    assert!(wrong.unwrap_err().to_string().contains("--queue-depth has no effect"));
}

#[test]
fn what_a_storage_tier_would_not_see_is_refused() {
    let wrong = |line: &str| resolve(&typed(line), None, &facts()).unwrap_err().to_string();
    const WAYS: [&str; 3] = ["--sqpoll", "--iopoll", "--nvme-passthrough"];
    const SLOWED: &str = "--inject-latency 5ms";
    for flag in WAYS.into_iter().chain([SLOWED, "--dedupe-ratio 2", "--compress-ratio 2"]) {
        let told = wrong(&format!("{flag} --disable-storage"));
        assert!(told.contains(&format!("{} has no effect", flag.split(' ').next().unwrap())));
    }
    for flag in WAYS.into_iter().chain([SLOWED]) {
        let told = wrong(&format!("{flag} --cache-dir s3://bucket/runs --storage-capacity-gb 8"));
        let flag = flag.split(' ').next().unwrap();
        assert!(told.contains(&format!("{flag} works with a drive")), "{told}");
    }
    let told = wrong(&format!("{SLOWED} --gpu-mem-gb 1"));
    assert!(told.contains("past host memory: give --gpu-transfer pinned"), "{told}");
    for latency in ["2ms,3ms", "p50=3ms,p99=2ms", "61s"] {
        let told = wrong(&format!("--inject-latency {latency}"));
        assert!(told.contains("give a time up to 60s"), "{latency}: {told}");
    }
    assert!(wrong("--iopoll --sqpoll").contains("--iopoll and --sqpoll cannot be combined"));
}

#[test]
fn many_cores_share_depth_and_buffers() {
    let facts = Facts { cores: 96, ..facts() };
    let plan = resolve(&typed("--users 9"), None, &facts).unwrap();
    assert_eq!((plan.shards, plan.queue_depth), (96, 10));
    assert_eq!(plan.io_buffer_bytes, 960 * MIB);
    let plan = resolve(&typed("--users 9 --io-size 64MiB"), None, &facts).unwrap();
    assert_eq!(plan.io_buffer_bytes, 96 * 64 * MIB, "one I/O a shard at least");
}

#[test]
fn a_bare_run_is_the_demo_and_any_size_makes_it_real() {
    for line in ["", "--quiet --seed 3 --output a.json", "--cache-dir /x --shards 1"] {
        let plan = plan(line);
        assert!(plan.demo && plan.duration_s == 30, "{line}");
        assert!(plan.storage_capacity_bytes > 0 && plan.storage_capacity_bytes <= 8 * GIB);
    }
    for line in ["--users 5", "--duration 5", "--storage-capacity-gb 0", "--arrival open"] {
        let plan = plan(line);
        assert!(!plan.demo && plan.model == "llama3.1-8b", "{line}");
    }
    assert_eq!(plan("").origins["num_users"], Origin::Demo);
}

#[test]
fn a_plain_directory_has_defaults_of_its_own_that_any_flag_overrides() {
    let own = |line: &str| resolve_with(Defaults::Own, &typed(line), None, &facts()).unwrap();
    let plan = own("--users 5");
    assert_eq!((plan.arrival, plan.cpu_memory_bytes), (Arrival::Closed, 0));
    assert_eq!((plan.storage_capacity_bytes, plan.demo), (64 * GIB, false));
    assert_eq!(plan.origins["arrival"], Origin::Own);
    let given = own("--users 5 --arrival open --cpu-mem-gb 1 --storage-capacity-gb 2");
    assert_eq!((given.arrival, given.cpu_memory_bytes), (Arrival::Open, GIB));
    assert_eq!(given.storage_capacity_bytes, 2 * GIB);
    // Without flags it was 30 s of a small model, and with one of them 100 users.
    let bare = own("");
    assert_eq!((bare.demo, &*bare.model, bare.users), (false, "llama3.1-8b", 8));
    assert_eq!((own("--duration 5").users, plan.users), (8, 5));
    assert_eq!(bare.decode_reads, DecodeReads::Once);
    assert_eq!(bare.history_reads, HistoryReads::Last);
    // A rate that has no effect changes nothing.
    assert_eq!(own("--request-rate 5").arrival, Arrival::Closed);
    // A trace has arrivals of its own, and no storage needs no space.
    assert_eq!(own("--replay-trace a.csv").arrival, Arrival::Open);
    assert_eq!(own("--disable-storage --gpu-mem-gb 1").storage_capacity_bytes, 0);
}

#[test]
fn the_command_line_wins_over_the_file_over_the_defaults() {
    let file = file("num_users: 7\nduration: 9\nworkload:\n  system_prompts: 5\n").unwrap();
    let plan = resolve(&typed("--num-users 8"), Some(&file), &facts()).unwrap();
    assert_eq!((plan.users, plan.duration_s, plan.warmup_s), (8, 9, 0));
    assert_eq!(plan.workload.system_prompts, 5);
    assert_eq!(plan.workload.personas, WorkloadSection::default().personas);
    let origin = |key| plan.origins[key];
    assert_eq!(origin("num_users"), Origin::CommandLine);
    assert_eq!(origin("duration"), Origin::File);
    assert_eq!(origin("warmup"), Origin::Default);
    assert_eq!(origin("cpu_mem_gb"), Origin::Computed);
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
    for (text, line, near) in [
        ("num_users: 3\nnum_user: 4\n", 2, "num_users"),
        ("\n\ncpu_mem: 4\n", 3, "cpu_mem_gb"),
        ("workload:\n  system_prompt: 3\n", 2, "system_prompts"),
        (
            "workload:\n  personas:\n    a: {context_token: [1, 2], generation_tokens: [1, 2], \
             think_time_s: [1, 2]}\n",
            3,
            "context_tokens",
        ),
        ("models:\n  m: {num_layer: 4}\n", 2, "num_layers"),
    ] {
        let error = file(text).unwrap_err().to_string();
        assert!(error.contains(&format!("my.yaml, line {line}")), "{error}");
        assert!(error.contains(&format!("did you mean {near:?}")), "{error}");
    }
}

#[test]
fn a_wrong_type_is_named_with_its_line() {
    for (text, line, key, what) in [
        ("a: 1\n", 1, "\"a\"", "unknown key"),
        ("seed: 1\nnum_users: many\n", 2, "num_users", "not a whole number"),
        ("num_users: 1.5\n", 1, "num_users", "not a whole number"),
        ("\nstorage_capacity_gb: x\n", 2, "storage_capacity_gb", "not a size such as 6, 6GiB"),
        ("duration: long\n", 1, "duration", "not a time such as 90, 90s"),
        ("warmup: 500ms\n", 1, "warmup", "not a whole number of seconds"),
        ("cpu_mem_gb: lots\n", 1, "cpu_mem_gb", "neither a number that fits here nor \"auto\""),
        ("io_size: 1.5M\n", 1, "io_size", "not a size"),
        ("quiet: maybe\n", 1, "quiet", "neither true nor false"),
        ("verify: some\n", 1, "verify", "some"),
        ("model: [a]\n", 1, "model", "single value"),
        ("workload:\n  think_jitter: [1, x]\n", 2, "think_jitter", "not a number"),
        ("workload:\n  think_jitter: [1]\n", 2, "think_jitter", "list of 2 values is needed"),
        ("workload:\n  think_jitter: [1, 2, 3]\n", 2, "think_jitter", "and this one has 3"),
        ("workload:\n  think_jitter: -1 # s\n", 2, "think_jitter: a list", "(found: -1)"),
        ("workload:\n  rag: {top_k: many}\n", 2, "top_k: not a whole", "(found: many)"),
        ("num_users: 1\nnum_users: 2\n", 2, "num_users: duplicate", "remove one of them"),
        ("seed: 1\n---\nseed: 2\n", 3, "seed: a second document", "remove the line"),
        ("num_users: 1e3\n", 1, "num_users: not a whole number", "digits alone, such as 1000"),
        ("{seed: 1, num_users: 1e3}\n", 1, "num_users: not a whole number", "digits alone"),
        ("workload:\n  limits: {users_max: 1e3}\n", 2, "users_max: not a whole number", ""),
        ("cpu_mem_gb:\n  .nan\n", 2, "cpu_mem_gb: not a number", "give a finite one"),
        ("workload:\n  think_jitter:\n    - x\n", 3, "think_jitter: not a number", ""),
    ] {
        let error = file(text).unwrap_err().to_string();
        for part in [&format!("my.yaml, line {line}"), key, what] {
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
    for text in ["- a", "just words", "a: [", "\t- :", "&a [*a]", "{"] {
        assert!(file(text).is_err(), "{text:?}");
    }
    assert_eq!(file("").unwrap().options, Options::default());
}

#[test]
fn numbers_of_a_file_may_be_hexadecimal_and_those_with_units_may_have_an_exponent() {
    let options = file("num_users: 0x10\nduration: 1e2\nseed: 0x10\n").unwrap().options;
    assert_eq!((options.num_users, options.duration), (Some(16), Some(values::Seconds(100))));
    assert_eq!(options.seed, Some(values::Seed::Given(16)));
}

#[test]
fn bounds_name_the_flag_the_value_and_the_bounds() {
    for (line, parts) in [
        ("--num-users 0", ["--num-users 0", "1 to 100000"]),
        ("--users 100001", ["--num-users 100001", "1 to 100000"]),
        ("--duration -5", ["--duration -5", "1 to 86400"]),
        ("--cpu-mem-gb nan", ["--cpu-mem-gb NaN", "0 to 131072"]),
        ("--cpu-mem-gb -1", ["--cpu-mem-gb -1", "0 to 131072"]),
        ("--storage-capacity-gb inf", ["--storage-capacity-gb inf", "out of bounds"]),
        ("--io-size 5000", ["--io-size 5000", "multiple of 4KiB"]),
        ("--io-size 0", ["--io-size 0", "4KiB to 64MiB"]),
        ("--queue-depth 0", ["--queue-depth 0", "1 to 4096"]),
        ("--shards 2000", ["--shards 2000", "1 to 1024"]),
        ("--io-buffer-mb 1", ["--io-buffer-mb 1", "4 MiB"]),
        ("--tensor-parallel 2", ["--tensor-parallel 2", "--num-gpus (1)"]),
        ("--prefill-only --decode-only", ["--prefill-only", "--decode-only"]),
        (
            "--decode-only --enable-autoscaling --num-users 1 --shards 2 --cpu-mem-gb 0",
            ["--num-users 1", "or --shards 1"],
        ),
        (
            "--decode-only --enable-autoscaling --num-users 1 --shards 1 --cpu-mem-gb 4",
            ["--enable-autoscaling would ask storage for nothing", "--cpu-mem-gb 0"],
        ),
        (
            "--disable-storage --enable-autoscaling --cpu-mem-gb 4 --autoscaler-mode qos",
            ["--disable-storage leaves nothing to search by", "slo or capacity"],
        ),
        ("--gpu-devices 0,x", ["--gpu-devices 0,x", "nvidia-smi -L"]),
        ("--num-gpus 2 --gpu-devices 1,1", ["--gpu-devices 1,1", "twice"]),
        ("--num-gpus 2 --gpu-devices 1", ["--gpu-devices 1", "--num-gpus (2)"]),
        ("--arrival poisson", ["--arrival poisson", "--request-rate"]),
        ("--request-rate -1", ["--request-rate -1", "out of bounds"]),
        ("--burst-trace-path x", ["--burst-trace-path", "--use-burst-trace"]),
        ("--mooncake-trace x --dataset-path y", ["--dataset-path", "cannot be combined"]),
        ("--mooncake-trace x --decode-only", ["--decode-only", "--mooncake-trace"]),
        ("--trace x --mooncake-trace y", ["--trace", "cannot be combined"]),
        ("--trace x --decode-only", ["--decode-only", "--trace"]),
        ("--mooncake-trace x --arrival closed", ["--arrival closed", "own arrival times"]),
        ("--dataset-path x --request-rate 5 --arrival closed", ["--request-rate 5", "closed"]),
        ("--trace-speedup -1", ["--trace-speedup -1", "out of bounds"]),
        ("--replay-cycles -1", ["--replay-cycles -1", "out of bounds"]),
        ("--enable-rag --rag-num-docs 0", ["--rag-num-docs 0", "at least 1"]),
        (
            "--enable-rag --decode-only --rag-ingestion beside",
            ["--rag-ingestion beside", "--decode-only"],
        ),
        ("--target-saturation 1.5", ["--target-saturation 1.5", "out of bounds"]),
        ("--target-saturation nan", ["--target-saturation NaN", "out of bounds"]),
        ("--enable-autoscaling --mooncake-trace x", ["--enable-autoscaling", "--trace-speedup"]),
        ("--output a --html-output a", ["--output", "--html-output are the same file, a"]),
        ("--trials 2 --html-output a.html", ["--html-output and --trials", "`ringfall report`"]),
        ("--model llama3-8b", ["llama3-8b", "did you mean llama3.1-8b"]),
        ("--model gpt", ["\"gpt\"", "tiny-1b"]),
        ("--max-requests -1", ["--max-requests -1", "0 to"]),
    ] {
        let error = complaint(line);
        assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
    }
    let both = complaint("--num-users 0 --duration 0");
    assert!(both.contains("--num-users") && both.contains("--duration"), "{both}");
}

#[test]
fn what_has_no_effect_is_taken_and_told() {
    for (line, parts) in [
        ("--users 3 --request-rate 5", ["--request-rate 5 has no effect", "--arrival poisson"]),
        (
            "--use-burst-trace --burst-trace-path x --dataset-path y",
            ["--use-burst-trace has no effect", "--dataset-path"],
        ),
        ("--users 3 --num-gpus 3 --tensor-parallel 3", ["--tensor-parallel 3", "power of two"]),
        ("--users 3 --precondition-threads 4", ["--precondition-threads has", "--precondition"]),
        ("--users 3 --precondition-size-gb 2", ["--precondition-size-gb has", "no effect"]),
    ] {
        let plan = plan(line);
        let told = advice(&plan);
        let is_told = told.iter().any(|told| parts.iter().all(|part| told.contains(part)));
        assert!(is_told, "{line}: {told:?}");
        assert_eq!((plan.request_rate_per_s, plan.max_requests), (0.0, None), "{line}");
        assert!(!matches!(plan.traffic, Traffic::Trace { .. }), "{line}");
    }
    assert!(advice(&plan("--users 3 --num-gpus 8 --tensor-parallel 8")).is_empty());
    assert_eq!(plan("--enable-autoscaling --target-saturation 0").target_saturation, 0.0);
    assert!(!plan("--precondition-threads 4").is_preconditioned);
}

#[test]
fn a_burst_trace_is_looked_for_where_the_reference_looks_for_it() {
    let path_of = |line: &str| match plan(line).traffic {
        Traffic::Trace { kind: TraceKind::BurstGpt, path, .. } => path,
        other => panic!("{other:?}"),
    };
    assert_eq!(path_of("--use-burst-trace"), Path::new("BurstGPT/data/BurstGPT_1.csv"));
    assert_eq!(path_of("--use-burst-trace --burst-trace-path x"), Path::new("x"));
}

/// They were taken without a word, and two results that differed in them alone were told apart.
#[test]
fn a_setting_that_another_one_must_make_work_is_told_without_it() {
    for (flags, other) in [
        ("--rag-num-docs 5", "--enable-rag"),
        ("--rag-ingestion before", "--enable-rag"),
        ("--autoscaler-mode slo --generation-mode none", "--enable-autoscaling"),
        ("--target-saturation 0.5", "--enable-autoscaling"),
        ("--trace-speedup 2", "--mooncake-trace x"),
        ("--replay-cycles 2", "--use-burst-trace --burst-trace-path x"),
        ("--trace-classes", "--mooncake-trace x"),
        ("--trace-classes", "--trace x"),
        ("--replay-tiers all", "--replay-trace x"),
        ("--max-conversations 5", "--dataset-path x"),
        ("--tokenizer cl100k", "--dataset-path x"),
        ("--gpu-backend emulated", "--gpu-mem-gb 1"),
        ("--gpu-devices 0", "--gpu-mem-gb 1"),
        ("--placement whole", "--cache-dir a,b"),
        ("--on-device-failure continue", "--cache-dir a,b"),
        ("--promotion on-hit --cpu-mem-gb 0", "--gpu-mem-gb 1"),
        ("--trace-epoch now", "--io-trace-log x.csv"),
        ("--precondition-size-gb 1", "--precondition"),
        ("--precondition-threads 2", "--precondition"),
        ("--precondition-until steady", "--precondition"),
    ] {
        let flag = flags.split_whitespace().next().unwrap();
        let is_told = |line: &str| {
            let told = advice(&plan(line));
            told.iter().any(|told| told.starts_with(&format!("{flag} has no effect")))
        };
        let alone = format!("--users 3 {flags}");
        assert!(is_told(&alone), "{alone}: {:?}", advice(&plan(&alone)));
        let both = format!("{alone} {other}");
        assert!(!is_told(&both), "{both}: {:?}", advice(&plan(&both)));
    }
    for (line, flag) in [
        ("--mooncake-trace x --trace-speedup 2 --request-rate 5", "--trace-speedup"),
        ("--enable-autoscaling --autoscaler-mode capacity --target-saturation 0.5", "--target"),
        ("--gpu-mem-gb 1 --gpu-backend emulated --gpu-devices 0", "--gpu-devices"),
        ("--disable-storage --preallocate reserve", "--preallocate has no effect with --disable"),
        ("--disable-storage --durability none", "--durability has no effect with --disable"),
    ] {
        let told = advice(&plan(line));
        let is_told = told.iter().any(|told| told.starts_with(flag) && told.contains("no effect"));
        assert!(is_told, "{line}: {told:?}");
    }
    let told = advice(&plan("--users 3 --preallocate reserve --durability none"));
    assert!(!told.iter().any(|told| told.contains("no effect")), "{told:?}");
    // A described machine has drives and GPUs of its own.
    let line = "--users 3 --placement whole --gpu-backend none --promotion on-hit --cpu-mem-gb 0";
    let described = Facts { is_simulated: true, ..facts() };
    let told = advice(&resolve(&typed(line), None, &described).unwrap());
    assert!(!told.iter().any(|told| told.contains("no effect")), "{told:?}");
    // A configuration that was printed names every setting.
    let of_file = |yaml: &str| {
        let file = file(yaml).unwrap();
        advice(&resolve(&typed("--users 3"), Some(&file), &facts()).unwrap())
    };
    assert_eq!(of_file("rag_num_docs: 10\n"), Vec::<String>::new());
    assert!(of_file("rag_num_docs: 5\n")[0].contains("line 1: rag_num_docs has no effect"));
}

#[test]
fn a_million_users_can_only_be_simulated() {
    let described = facts().of_no_machine();
    let resolved = |line: &str, facts: &Facts| resolve(&typed(line), None, facts);
    let many = "--users 1000000 --cpu-mem-gb 0";
    assert_eq!(resolved(many, &described).unwrap().users, 1_000_000);
    for (line, facts) in [(many, facts()), ("--users 1000001", described)] {
        let told = resolved(line, &facts).unwrap_err().to_string();
        assert!(told.contains("is out of bounds: 1 to 1000"), "{line}: {told}");
    }
}

#[test]
fn latency_targets_that_generating_an_answer_passes_are_refused() {
    let slo = "--enable-autoscaling --autoscaler-mode slo";
    let told = resolve(&typed(slo), None, &facts()).unwrap_err().to_string();
    for part in ["can't be met by any drive", "interactive is 50 ms", "--generation-mode none"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    plan(&format!("{slo} --generation-mode none"));
    plan("--enable-autoscaling --autoscaler-mode qos");
}

/// The rule of `quick` was one that no search of a run could take.
#[test]
fn a_search_by_slo_takes_targets_of_storage_and_others_refuse_them() {
    let slo = "--enable-autoscaling --autoscaler-mode slo --slo";
    // The targets of the classes, which generation passes, do not hold then.
    let found = plan(&format!("{slo} load-p95=500ms"));
    assert_eq!(found.slo, Some(ServedRule { load_p95_s: 0.5, reuse_share: 0.7 }));
    assert_eq!((found.saturation_max(), found.target_saturation), (1.0, 0.8));
    assert_eq!(plan("--slo none").slo, None);
    let only = "--slo is for --enable-autoscaling with --autoscaler-mode slo";
    for (line, part) in [
        ("--slo reuse=70%", only),
        ("--enable-autoscaling --slo reuse=70%", only),
        ("--enable-autoscaling --autoscaler-mode capacity --slo reuse=70%", only),
        (&*format!("{slo} ttft=1s"), "is no target: give load-p95=TIME"),
    ] {
        let told = resolve(&typed(line), None, &facts()).unwrap_err().to_string();
        assert!(told.contains(part), "{line}: {told}");
    }
    let told = advice(&plan(&format!("{slo} reuse=70% --target-saturation 0.5")));
    assert!(told.iter().any(|told| told.contains("--target-saturation has no effect with --slo")));
}

#[test]
fn the_autoscaler_goes_with_a_number_of_requests_and_its_users_wait_unless_they_are_told_not_to() {
    let most = plan("--enable-autoscaling --max-requests 5");
    // It is the run that ends; no user has a share of them, as users come and go.
    assert_eq!((most.max_requests, most.workload_config().max_requests), (Some(5), 0));
    assert_eq!(most.arrival, Arrival::Closed);
    assert!(advice(&most).is_empty(), "nobody set it");
    let open = plan("--enable-autoscaling --arrival open");
    assert_eq!(open.arrival, Arrival::Open);
    assert!(advice(&open).is_empty());
    assert_eq!(plan("--users 3").arrival, Arrival::Open);
}

#[test]
fn own_limits_and_steps_hold() {
    let of = |line: &str, yaml: &str| {
        let file = file(&format!("workload: {{{yaml}}}\n")).unwrap();
        resolve(&typed(line), Some(&file), &facts()).map_err(|error| error.to_string())
    };
    let limits = "limits: {users_max: 10, duration_s_max: 5, cpu_mem_gb_max: 1.5}";
    of("--users 10 --duration 5 --cpu-mem-gb 1.5", limits).unwrap();
    for (line, parts) in [
        ("--users 11 --duration 5 --cpu-mem-gb 1", ["--num-users 11", "users_max allows, 10"]),
        ("--users 1 --duration 6 --cpu-mem-gb 1", ["--duration 6", "duration_s_max allows, 5"]),
        ("--users 1 --duration 5 --cpu-mem-gb 2", ["--cpu-mem-gb 2", "cpu_mem_gb_max allows, 1.5"]),
    ] {
        let error = of(line, limits).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
    }
    let scaled = "--enable-autoscaling --users";
    let range = "autoscaler: {users_min: 4, users_max: 8}";
    assert_eq!(of(&format!("{scaled} 2"), range).unwrap().users, 4);
    assert_eq!(of(&format!("{scaled} 20"), range).unwrap().users, 8);
    for (yaml, part) in [
        ("autoscaler: {users_min: 9, users_max: 8}", "users_min is 9"),
        ("autoscaler: {scale_up_factor: 1}", "scale_up_factor is 1"),
        ("autoscaler: {scale_down_factor: .nan}", "scale_down_factor is NaN"),
        ("qos_targets_ms: {batch: [5, 4, 6, 7]}", "qos_targets_ms.batch"),
        ("limits: {users_max: 2}", "--num-users 3 is more"),
        ("saturation_targets: {read_p95_ms: 0}", "saturation_targets.read_p95_ms is 0"),
        ("saturation_targets: {write_p95_ms: .inf}", "saturation_targets.write_p95_ms is inf"),
        ("saturation_targets: {queue_depth: 0}", "saturation_targets.queue_depth is 0"),
    ] {
        let error = of("--users 3", yaml).unwrap_err();
        assert!(error.contains(part), "{yaml}: {error}");
    }
}

#[test]
fn a_value_out_of_bounds_in_a_file_is_named_with_its_line() {
    let file = file("model: tiny-1b\nnum_users: 0\n").unwrap();
    let error = resolve(&typed(""), Some(&file), &facts()).unwrap_err().to_string();
    assert!(error.contains("my.yaml, line 2: num_users 0"), "{error}");
}

#[test]
fn models_can_be_added_and_shortened() {
    let text = "model: own\nmodels:\n  own: {num_layers: 2, hidden_dim: 64, num_heads: 4, \
                kv_heads: 4, dtype: fp8}\n";
    let own = resolve(&typed(""), Some(&file(text).unwrap()), &facts()).unwrap();
    assert_eq!(own.model_spec.bytes_per_token(), Ok(2 * 64 * 2));
    assert_eq!(plan("--model llama3.1-70b").model, "llama3.1-70b-instruct");
    let text = text.replace("num_layers: 2", "num_layers: 0");
    let error = resolve(&typed(""), Some(&file(&text).unwrap()), &facts()).unwrap_err();
    assert!(error.to_string().contains("own"), "{error}");
}

#[test]
fn a_gpu_stands_for_the_prefill_speed_of_the_model() {
    let speed = |line: &str| plan(line).prefill_tokens_per_s;
    assert_eq!(speed("--prefill-tokens-per-s 1e4"), 10_000.0);
    let one = speed("--model llama3.1-8b --prefill-tokens-per-s h100");
    assert_eq!(one, 30_791.0, "half of 989 TFLOP/s at 2 operations for each of 8.03 G parameters");
    let eight = "--num-gpus 8 --tensor-parallel 8 --prefill-tokens-per-s H100";
    assert!((speed(eight) / one - 8.0).abs() < 1e-3);
    let text = "model: own\nprefill_tokens_per_s: h100\nmodels:\n  own: {num_layers: 2, \
                hidden_dim: 64, num_heads: 4, kv_heads: 4, dtype: fp8}\n";
    let error = resolve(&typed(""), Some(&file(text).unwrap()), &facts()).unwrap_err().to_string();
    assert!(error.contains("prefill-tokens-per-s h100 has no speed here"), "{error}");
    let text = text.replace("dtype", "active_parameters: 1000000000, dtype");
    let own = resolve(&typed(""), Some(&file(&text).unwrap()), &facts()).unwrap();
    assert_eq!(own.prefill_tokens_per_s, 247_250.0);
}

#[test]
fn nonsense_in_the_workload_section_is_named() {
    let file = file("workload:\n  prefix_probability: 2\n").unwrap();
    let error = resolve(&typed(""), Some(&file), &facts()).unwrap_err().to_string();
    assert!(error.contains("prefix_probability is 2"), "{error}");
}

/// Formats a plan without the origins of its values, for comparison.
fn values(plan: &Plan) -> String {
    let origins = std::collections::BTreeMap::new();
    let (typed, effective) = (Options::default(), Options::default());
    format!("{:?}", Plan { origins, typed, effective, demo: false, ..plan.clone() })
}

#[test]
fn the_printed_configuration_reads_back_as_the_same_plan() {
    for line in [
        "",
        "--num-users 5",
        "--model llama3.1-70b --disable-multi-turn --io-size 128k --cpu-mem-gb 1.25 --seed 5",
        "--seed 18446744073709551615 --pin=false --cache-dir /mnt/a:b#c --output yes --users 3",
        "--seed random --users 3 --duration 5m --storage-capacity-gb 6GiB",
        "--shards 3 --queue-depth 7 --io-buffer-mb 9 --verify full --prefill-only --quiet",
    ] {
        let before = plan(line);
        let page = render(&before);
        let again = file(&page).unwrap_or_else(|error| panic!("{error}\n{page}"));
        let after = resolve(&Options::default(), Some(&again), &facts()).unwrap();
        assert_eq!(values(&before), values(&after), "{page}");
        assert_eq!(
            before.origins["seed"] == Origin::Computed,
            after.origins["seed"] == Origin::Computed
        );
        let comments = |text: &str| text.lines().filter(|line| line.contains("# ")).count();
        assert!(comments(&page) >= comments(&defaults_page()), "the comments are kept");
    }
}

#[test]
fn own_personas_and_models_survive_printing() {
    let text = "models:\n  own: {num_layers: 2, hidden_dim: 64, num_heads: 4, kv_heads: 4, \
                dtype: fp8}\n  on: {num_layers: 2, hidden_dim: 64, num_heads: 4, dtype: int8, \
                mla: {kv_lora_rank: 8, qk_rope_head_dim: 4}}\nworkload:\n  personas:\n    \
                me: {context_tokens: [1, 2], generation_tokens: [3, 4], think_time_s: [0, 1.5]}\n";
    let before = resolve(&typed("--model on"), Some(&file(text).unwrap()), &facts()).unwrap();
    let page = render(&before);
    let again = file(&page).unwrap_or_else(|error| panic!("{error}\n{page}"));
    let after = resolve(&Options::default(), Some(&again), &facts()).unwrap();
    assert_eq!(values(&before), values(&after));
    assert_eq!(after.workload.personas.len(), 1);
    assert!(page.contains("num_users: 100\n"), "{page}");
}

#[test]
fn the_printed_configuration_says_where_values_came_from() {
    let page = render(&plan("--num-users 5"));
    assert!(page.contains("num_users: 5  # command line\n"), "{page}");
    assert!(page.contains("cpu_mem_gb: auto  # now 4.0\n"), "{page}");
    assert!(page.contains("duration: 60\n"), "{page}");
    let demo = render(&plan(""));
    assert!(demo.contains("num_users: 8  # the demo's\n"));
    // A bare `ringfall run` was named, which is `ringfall quick`.
    assert!(
        demo.starts_with("# Settings of the small demonstration that `ringfall run`"),
        "{demo}"
    );
}

proptest! {
    #[test]
    fn any_numbers_give_a_plan_within_bounds_or_a_complaint(
        users in any::<i64>(), depth in -10i64..10_000, shards in -2i64..2_000,
        buffer in -5i64..100_000, size in any::<u32>(), memory in any::<f64>(),
    ) {
        use crate::values::{Auto, Gib, Mib, Size};
        let options = Options {
            num_users: Some(users),
            queue_depth: Some(Depth::Given(depth)),
            shards: Some(Auto::Given(shards)),
            io_buffer_mb: Some(Auto::Given(Mib(buffer))),
            io_size: Some(Size(u64::from(size))),
            cpu_mem_gb: Some(Auto::Given(Gib(memory))),
            ..Options::default()
        };
        match resolve(&options, None, &facts()) {
            Ok(plan) => {
                prop_assert!((1..=100_000).contains(&plan.users));
                prop_assert!(plan.io_buffer_bytes
                    >= u64::from(plan.io_size_bytes) * u64::from(plan.shards));
                prop_assert!(plan.io_size_bytes % 4096 == 0);
            }
            Err(error) => prop_assert!(!error.sentences.is_empty()),
        }
    }
}

#[test]
fn a_table_of_another_ending_is_csv_as_in_the_reference() {
    for (typed, path) in [
        ("a.txt", "a.txt.csv"),
        ("r/a", "r/a.csv"),
        ("a.xlsx", "a.xlsx"),
        ("a.CSV", "a.CSV"),
        ("/dev/stdout", "/dev/stdout"),
    ] {
        let options = Options { xlsx_output: Some(typed.into()), ..Options::default() };
        let plan = resolve(&options, None, &facts()).unwrap();
        assert_eq!(plan.xlsx_output.as_deref(), Some(std::path::Path::new(path)), "{typed}");
    }
}
