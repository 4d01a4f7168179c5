use ringfall_config::{Plan, Traffic};
use ringfall_core::error::{ErrorKind, IoError, Operation};
use ringfall_core::key::Tier;
use ringfall_core::metrics::{DriveMetrics, Histogram};
use ringfall_core::units::GIB;
use ringfall_host::DeviceFacts;
use ringfall_model::facts::{DriveAccount, DriveOutcome, TimelineSecond};
use ringfall_model::testing::{busy, drive_answer, judged, nothing};
use ringfall_model::{Code, Document, RunResult, Warning, warnings_of};
use ringfall_workloads::contract::Class;
use ringfall_workloads::layout::{EngineLayout, LayoutOptions, LayoutPlan};
use ringfall_workloads::model::built_in;
use ringfall_workloads::source::read_validation;

use super::*;

fn summary(style: Style, result: &RunResult) -> String {
    let mut result = result.clone();
    result.plan.details = true;
    super::terminal::summary(style, &result, &Document::of(&result))
}

fn short(result: &RunResult) -> String {
    assert!(!result.plan.details);
    super::terminal::summary(Style { colour: false }, result, &Document::of(result))
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn banner(plan: &Plan, place: &str) -> String {
    let banner = Banner {
        plan,
        directory: place.into(),
        below: place.into(),
        storage_bytes: 0,
        buffer_bytes: 0,
        token_bytes: 0,
        gpu: None,
        shortages: &[],
        reclaimed_bytes: 0,
    };
    let mut shown = Vec::new();
    print_banner(&mut shown, Style { colour: false }, &banner).unwrap();
    String::from_utf8(shown).unwrap()
}

/// "durability flush" was said of layouts whose engines flush nothing.
#[test]
fn the_banner_leaves_durability_to_an_engine_s_layout() {
    let mut plan = busy().plan;
    assert!(banner(&plan, "/d").contains("  durability flush, verify"));
    let (spec, options) = (built_in("tiny-1b").unwrap(), LayoutOptions::of(EngineLayout::Vllm));
    plan.layout_plan = Some(LayoutPlan::new(options, "tiny-1b", &spec, 1, 512).unwrap());
    assert!(!banner(&plan, "/d").contains("durability"));
}

#[test]
fn names_in_the_banner_and_the_summary_are_not_obeyed() {
    let hostile = "\u{1b}[31mx\n\u{9b}2J\u{202e}\r";
    let mut result = busy();
    result.plan.model = hostile.into();
    result.plan.traffic = Traffic::ShareGpt { path: hostile.into() };
    result.failure = Some(hostile.into());
    let kernel = result.kernel.as_mut().unwrap();
    kernel.device = hostile.into();
    result.warnings = warnings_of(&result);
    result.warnings.push(Warning {
        code: Code::named("x".into()),
        text: hostile.into(),
        flag_to_try: Some(hostile.into()),
    });
    let style = Style { colour: false };
    let shown = summary(style, &result) + &short(&result) + &banner(&result.plan, hostile);
    assert!(shown.matches("\\u{1b}[31mx").count() >= 6, "{shown}");
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{shown:?}");
}

#[test]
fn a_suite_s_rows_mark_an_emulated_gpu_tier_and_explain_the_mark() {
    let flags: Vec<crate::suite::Flag> = Vec::new();
    let invocation = crate::suite::Invocation {
        name: "mlperf_throughput_8b".to_owned(),
        workload: crate::suite::Workload::StorageOnly,
        title: "on storage".to_owned(),
        flags,
        duration_s: 60,
        left_out: None,
        impossible: None,
    };
    let row = |codes: &[Code], loads: u64| {
        let mut result = judged();
        (result.cache.multi_turn_hits, result.cache.multi_turn_misses) = (3, 1);
        result.requests.load = Histogram::new();
        (0..loads).for_each(|_| result.requests.load.record(250_000_000));
        let warning =
            |code: &Code| Warning { code: code.clone(), text: String::new(), flag_to_try: None };
        result.warnings = codes.iter().map(warning).collect();
        let document = Document::of(&result);
        crate::suite::Row::of(&invocation, &crate::suite::End::Done, Some(&document), None)
    };
    let (plain, marked) = (row(&[Code::Engine], 10), row(&[Code::GpuEmulated], 10));
    // Nine loads have no P95.
    let few = suite_row(&row(&[], 9));
    assert!(few.ends_with("–  75.0 %"), "{few}");
    let told = "* with a GPU tier emulated in host memory";
    // It was "PASS 3/3" on tmpfs.
    let memory = suite_row(&row(&[Code::MemoryBacked], 10));
    assert!(memory.contains(" memory, not a drive "), "{memory}");
    for (row, want, is_told) in [
        (plain, "  mlperf_throughput_8b  none ", false),
        (marked, "  mlperf_throughput_8b* none ", true),
    ] {
        assert!(suite_row(&row).starts_with(want), "{}", suite_row(&row));
        assert!(suite_row(&row).chars().count() <= 80);
        assert!(suite_row(&row).ends_with("250 ms  75.0 %"), "{}", suite_row(&row));
        assert!(suite_head().ends_with("load P95   reuse"), "{}", suite_head());
        let table = crate::suite::SuiteTable::new(None, None, vec![row]);
        assert_eq!(suite_page(&table).contains(told), is_told);
    }
}

/// A run that ran was counted as not run, and criteria that an error has below it as its reasons.
#[test]
fn a_suite_counts_runs_without_data_as_done_and_tells_criteria_from_errors() {
    let row = |verdict, why: &[&str]| crate::suite::Row {
        name: "cpu-only".to_owned(),
        verdict,
        why: why.iter().map(|&why| why.to_owned()).collect(),
        ..Default::default()
    };
    let error = ["exit status 1: it broke", "Requests Refused <= 1%: 89.3 %"];
    let rows = vec![
        row(crate::suite::Verdict::NoData, &[]),
        row(crate::suite::Verdict::NotRun, &[]),
        row(crate::suite::Verdict::Error, &error),
    ];
    let page = suite_page(&crate::suite::SuiteTable::new(None, None, rows));
    let counts = "1 done, 1 ended with an error, 0 not possible here, 1 not run";
    let words: Vec<&str> = page.split_whitespace().collect();
    assert!(words.join(" ").ends_with(counts), "{page}");
    assert!(page.contains("      because    exit status 1: it broke\n"), "{page}");
    assert!(!page.contains("Requests Refused"), "{page}");
}

#[test]
fn the_summary_fits_a_screen_of_80_columns() {
    let mut result = judged();
    let writes = &mut result.engine.tiers[Tier::Storage.index()].write.device;
    *writes = Default::default();
    writes.record(1_281_000_000);
    let error = IoError {
        kind: ErrorKind::Media,
        operation: Operation::Read,
        tier: Tier::Storage,
        file: "/a/long/path/to/some/directory/of/the/cache/data-0.kv".into(),
        offset_bytes: 1 << 40,
        length_bytes: 1 << 20,
        errno: 5,
    };
    result.engine.record_error(&error);
    result.errors.push(error);
    result.failure = Some("stopped after 1000 I/O errors".into());
    result.engine.first_touch_bytes = 2 * GIB;
    result.workload.queued_at_end = 1_000_000;
    result.warnings = warnings_of(&result);
    assert!(result.warnings.len() >= 2, "{:?}", result.warnings);
    let plain = summary(Style { colour: false }, &result);
    for line in plain.lines() {
        assert!(line.chars().count() <= 80, "{line:?} in\n{plain}");
    }
    assert!(plain.lines().count() <= 64, "{plain}");
    assert!(!plain.contains('\x1b'));
    for part in [
        "GiB/s",
        "tokens/s",
        "P95",
        "mean",
        "hit rate",
        "kernel",
        "interactive",
        "dmesg",
        "9 tokens in all; mean request: 10 of context, 3 generated",
        "time went to space 2 %, storage 2 %, other 97 %",
        "decode bytes read",
        "wall-clock throughput 0.900 tokens/s",
        "storage throughput 3000 tokens/s",
        "reuse        earlier turns 4 of 4 found, shared prompts 4 of 4 found, own\n",
        "               entries read 12 times\n",
        "GiB a turn × 4 users = 2.8 GiB; the tiers hold 4.0 GiB",
        "PASS by the reference's criteria, passed 3 of 3",
        "met:     Cache Hit Rate > 30%: 83.3 % of 24 samples",
        "too few to judge: Storage Tier Write Device P95 < 500ms: 1281.00\n",
    ] {
        assert!(plain.contains(part), "{part} in\n{plain}");
    }
    let coloured = summary(Style { colour: true }, &result);
    assert!(coloured.contains('\x1b'));
    assert!(!summary(Style { colour: false }, &nothing()).is_empty());
}

#[test]
fn the_short_summary_says_first_what_limited_the_run_and_fits_25_lines() {
    let mut result = judged();
    (0..20).for_each(|_| result.requests.record_unfinished(Class::Batch, 60_000_000_000));
    result.warnings = warnings_of(&result);
    assert!(!result.warnings.is_empty());
    let plain = short(&result);
    for line in plain.lines() {
        assert!(line.chars().count() <= 80, "{line:?} in\n{plain}");
    }
    assert!(plain.lines().count() <= 25, "{plain}");
    assert!(
        plain.lines().nth(2).unwrap().starts_with("  verdict      none: 3 requests"),
        "{plain}"
    );
    let words = flat(&plain);
    for part in [
        "load of a context",
        "store of an entry",
        "KV I/O of a request",
        "request, all ≥ 6",
        "3 completed 20 unfinished",
        "reuse earlier turns 4 of 4 found, shared prompts 4 of 4 found",
        "GiB a turn × 4 users = 2.8 GiB; the tiers hold 4.0 GiB",
        "kernel nvme0n1 counted 3.00 GiB, ringfall 3.00 GiB (+0.00 %)",
        "cold reads 100.0 % of bytes read reached the device",
        "verified 0 blocks, 0 bad",
        "note: requests had not finished: 20 of 21 batch (P95 of all ≥ 6",
        "[try --arrival closed]",
    ] {
        assert!(words.contains(part), "{part} in\n{plain}");
    }
    for part in ["hit rate", "go by", "health", "single I/O", "interactive"] {
        assert!(!plain.contains(part), "{part} in\n{plain}");
    }
    // What is wrong is told whole, and what was asked for is shown.
    result.kernel.as_mut().unwrap().read_bytes = GIB / 2;
    result.plan.fail_on_health = true;
    let words = flat(&short(&result));
    let cold = Document::of(&result).ringfall.device.cold_reads.as_ref().unwrap().told.clone();
    assert!(
        words.contains(&flat(&cold)) && words.contains("health PASS by the reference's"),
        "{words}"
    );
}

/// "0.45 GiB one turn of each of 1 user" repeated the figure before it.
#[test]
fn the_space_of_a_single_user_is_told_once() {
    let mut result = judged();
    result.plan.users = 1;
    let words = flat(&short(&result));
    assert!(words.contains("GiB a turn; the tiers hold 4.0 GiB"), "{words}");
    assert!(!words.contains("1 user"), "{words}");
}

/// P95 and P99 of nine loads were printed with three digits each: both were the longest load.
#[test]
fn percentiles_of_fewer_than_ten_values_are_not_printed() {
    let mut result = judged();
    result.requests.load = Histogram::new();
    (1..=9).for_each(|ms| result.requests.load.record(ms * 1_000_000));
    let rows = |result: &RunResult| {
        [short(result), summary(Style { colour: false }, result)].map(|text| {
            let row = text.lines().find(|line| line.starts_with("  load of a context"));
            flat(row.unwrap_or_else(|| panic!("no such row in\n{text}")))
        })
    };
    let [few, few_in_full] = rows(&result);
    assert!(few.contains(" ms – – 9.00 ms 9"), "{few}");
    assert!(few_in_full.contains(" – – 9.00"), "{few_in_full}");
    result.requests.load.record(10_000_000);
    for row in rows(&result) {
        assert!(!row.contains('–'), "{row}");
    }
}

/// They stood nowhere that people read, beside a health that passed.
#[test]
fn requests_that_failed_are_counted_beside_those_that_were_served() {
    let mut result = busy();
    let shown = |result: &RunResult| {
        let document = Document::of(result);
        let page = html::page_of(&[Named { name: "a".to_owned(), document }]);
        (flat(&short(result)), flat(&summary(Style { colour: false }, result)), page)
    };
    let (plain, whole, page) = shown(&result);
    assert!(!plain.contains(" failed") && !whole.contains(" failed"), "{plain}");
    assert!(!page.contains("requests that failed"));
    result.requests.failed = 74;
    let (plain, whole, page) = shown(&result);
    for text in [&plain, &whole] {
        assert!(text.contains("74 failed; they count in no throughput"), "{text}");
    }
    assert!(page.contains("requests that failed"));
}

#[test]
fn the_short_summary_sets_each_direction_beside_the_drive_s_limit() {
    let mut result = busy();
    let limits = ringfall_model::testing::roofline(1e9, 2e9);
    result.roofline = Some(("limits.json".to_owned(), limits));
    let told = "drive limit 21.5 % of it used: read 11 % of 0.931, write 11 % of 1.863 GiB/s \
                (limits.json)";
    assert!(flat(&short(&result)).contains(told), "{}", short(&result));
}

#[test]
fn unfinished_requests_stand_beside_the_finished_ones() {
    let mut result = busy();
    let plain = summary(Style { colour: false }, &result);
    assert!(!plain.contains("unfin."), "{plain}");
    (0..30).for_each(|_| result.requests.record_unfinished(Class::Batch, 60_000_000_000));
    result.warnings = warnings_of(&result);
    let plain = summary(Style { colour: false }, &result);
    for line in plain.lines() {
        assert!(line.chars().count() <= 80, "{line:?} in\n{plain}");
    }
    for part in ["unfin.", "≥ 6", "batch 100 / 3 %", "30 of 31 batch"] {
        assert!(plain.contains(part), "{part} in\n{plain}");
    }
}

#[test]
fn of_a_recording_only_what_it_has_is_printed() {
    let style = Style { colour: false };
    let printed = |mut result: RunResult, recording: &str| {
        result.validation = Some(read_validation(recording.as_bytes()).unwrap());
        let plain = summary(style, &result);
        let lines = plain.lines().skip_while(|line| !line.contains("validation"));
        lines.take(3).map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let bare = printed(busy(), "cache_hit\n1\n");
    assert!(bare.starts_with("validation   does not agree: recorded hit rate 100.0 %"), "{bare}");
    assert!(bare.contains("\n1 recorded request\n"), "{bare}");
    let whole = "cache_hit,context_tokens,generation_tokens,read_bytes,write_bytes\n\
                 1,300,50,4000,500\n0,100,50,4000,500\n";
    let whole = printed(busy(), whole).replace('\n', " ");
    let told = "2 recorded requests; mean: 200.0 tokens of context, 50.0 tokens generated; 8.0 \
                bytes read per byte written";
    assert!(whole.contains(told), "{whole}");
    let some = printed(busy(), "cache_hit,generation_tokens\n1,50\n");
    assert!(some.contains("\n1 recorded request; mean: 50.0 tokens generated\n"), "{some}");
    let none = printed(nothing(), "cache_hit\n0\n").replace('\n', " ");
    let told = "nothing to compare: recorded hit rate 0.0 %, and this run read nothing";
    assert!(none.contains(told), "{none}");
}

/// A run on two drives of 4 MiB each, on NUMA nodes 0 and 1: so many bytes of each are remote.
pub(super) fn on_two_nodes(remote_bytes: [Option<u64>; 2]) -> RunResult {
    let mut result = busy();
    let drive = |node: u32, remote_bytes| DriveOutcome {
        path: format!("/drive{node}"),
        device: Some(DeviceFacts { numa_node: Some(node), ..DeviceFacts::default() }),
        remote_bytes,
        ..DriveOutcome::default()
    };
    result.drives = vec![drive(0, remote_bytes[0]), drive(1, remote_bytes[1])];
    result.engine.drives = vec![DriveMetrics::default(); 2];
    for drive in &mut result.engine.drives {
        (0..4).for_each(|_| drive.read.add(1 << 20, 1 << 20, 1_000));
    }
    result
}

#[test]
fn bytes_that_cross_between_numa_nodes_are_told_by_drive() {
    let style = Style { colour: false };
    let plain = summary(style, &on_two_nodes([Some(0), Some(3 << 20)]));
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "NUMA bytes from or to shards on other nodes: /drive0 (node 0) 0.0 %, /drive1 \
                (node 1) 75.0 %";
    assert!(plain.contains(told), "{plain}");
    // Not known is not said, and is not zero.
    let unknown = on_two_nodes([None; 2]);
    assert!(!summary(style, &unknown).contains("NUMA"));
    assert_eq!(Document::of(&unknown).ringfall.drives[1].remote_bytes, None);
}

/// A run on a drive that tells of itself and one that does not.
pub(super) fn with_drive_logs() -> RunResult {
    let mut result = busy();
    let account = |device: &str, answer| DriveAccount { device: device.to_owned(), answer };
    let why = "it is not an NVMe drive".to_owned();
    result.drive_accounts = vec![account("nvme0n1", Ok(drive_answer())), account("vda", Err(why))];
    result
}

#[test]
fn the_drives_own_logs_are_among_the_details() {
    let result = with_drive_logs();
    let plain = summary(Style { colour: false }, &result);
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    let words = flat(&plain);
    for part in [
        "drive log nvme0n1: counted 2.38 GiB read and 4.77 GiB written (kernel 1.00 and 2.00) in",
        "a write amplification of 1.25",
        "drive log vda: not told by this drive (it is not an NVMe drive)",
    ] {
        assert!(words.contains(part), "{part} in\n{plain}");
    }
    assert!(!short(&result).contains("drive log"));
    assert!(!summary(Style { colour: false }, &busy()).contains("drive log"));
}

#[test]
fn a_drive_that_collapses_is_marked_beside_its_bandwidth() {
    let mut result = busy();
    result.warnings = warnings_of(&result);
    let of = |result: &RunResult| {
        let document = Document::of(result);
        let page = html::page_of(&[Named { name: "a".to_owned(), document }]);
        (summary(Style { colour: false }, result), page)
    };
    let (plain, page) = of(&result);
    assert!(!plain.contains("unsteady") && !page.contains("unsteady"));
    result.timeline = (1..=10u32)
        .map(|end_s| {
            let mut second = TimelineSecond { seconds: 1.0, ..TimelineSecond::default() };
            second.end_s = f64::from(end_s);
            second.gauges.in_flight = 64;
            let read = &mut second.tiers[Tier::Storage.index()].read;
            read.bytes = if end_s > 6 { GIB / 100 } else { GIB };
            second
        })
        .collect();
    result.warnings = warnings_of(&result);
    let (plain, page) = of(&result);
    let headline = plain.lines().find(|line| line.starts_with("  storage  ")).unwrap();
    assert!(headline.contains(" GiB/s, unsteady  read "), "{headline}");
    assert!(headline.chars().count() <= 80, "{headline}");
    assert!(page.contains("storage read (unsteady)"));
    for shown in [plain.split_whitespace().collect::<Vec<_>>().join(" "), page] {
        assert!(shown.contains("1.000, 1.000, 1.000, 0.010, 0.010 GiB/s in its fifths"), "{shown}");
    }
}

#[test]
fn a_published_invocation_shows_what_was_published_of_it() {
    let mut result = busy();
    let preset = ringfall_config::Preset::by_name("llama3.1-8b-stress").unwrap();
    result.plan.model = preset.model.to_owned();
    result.plan.cpu_memory_bytes = 0;
    result.plan.num_users = preset.users;
    result.plan.users = preset.users;
    result.plan.max_concurrent_allocs = None;
    result.plan.generation_mode = ringfall_config::GenerationMode::None;
    let style = Style { colour: false };
    let shown = flat(&summary(style, &result));
    let wanted = "published wall-clock throughput of drives of 14,000 and about 3,000 MB/s \
                  differed 2.70× (llama3.1-8b-stress)";
    assert!(shown.contains(wanted), "{shown}");
    result.plan.max_concurrent_allocs = Some(2);
    assert!(!summary(style, &result).contains("published"));
}
