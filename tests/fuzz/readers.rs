//! Readers under test: each reader of files by the path that the program takes, and what follows
//! it.

use std::path::Path;

use ringfall::batch::{Batch, Ended, Job, Screen};
use ringfall::cli::{self, Command};
use ringfall_config::{
    ConfigFile, DeviceFile, Facts, MeetsBy, Named as _, Options, Plan, render, resolve,
};
use ringfall_core::fill::VerifyMode;
use ringfall_foreign::audit::{AuditSettings, audit};
use ringfall_foreign::mlperf::metadata::Departures;
use ringfall_foreign::mlperf::tree::metadata_of;
use ringfall_host::{MemoryRoom, Room};
use ringfall_model::document::ResultFile;
use ringfall_model::merge::merge;
use ringfall_model::spread::spreads;
use ringfall_report::analysis::collection::Collection;
use ringfall_report::analysis::compare::compare;
use ringfall_report::analysis::pairs::{Dimension, groups, matched};
use ringfall_report::quick::QuickReport;
use ringfall_report::show::{
    Named, audit_page, beside_page, fio_job, quick_page, write_audit_csv, write_audit_html,
    write_html, write_quick_html, write_roofline_html, write_sheet,
};
use ringfall_report::suite::SavedSuite;
use ringfall_running::checkpoint;
use ringfall_running::checkpoint::{FileTarget, Io, Layout};
use ringfall_running::group::{Party, Session, Topic};
#[cfg(feature = "objects")]
use ringfall_running::objects::{ProfileFiles, UploadRecord, meaning};
use ringfall_running::saturate::{device_yaml, read_roofline};
use ringfall_running::source;
use ringfall_running::source::{Reading, RecordedTrace};
use ringfall_workloads::recording::{Order, Part};
use ringfall_workloads::source::Rows as _;
use ringfall_workloads::trace::TraceFigures;

/// Rows of a trace that are read: then it goes on alike.
const ROWS_MAX: usize = 2_000;

/// A reader of files.
pub struct Reader {
    pub name: &'static str,
    /// The name that its file has, which may say how it is to be read.
    file: &'static str,
    read: fn(&Path) -> Result<String, String>,
}

impl Reader {
    /// Reads this input; returns the outcome or the error as text.
    pub fn read(&self, directory: &Path, input: &[u8]) -> String {
        let path = directory.join(self.file);
        std::fs::write(&path, input).unwrap();
        let outcome = (self.read)(&path).unwrap_or_else(|error| format!("error: {error}"));
        // The same on every machine, and beginning with what tells it from others.
        outcome.replace(&*directory.to_string_lossy(), "")
    }
}

pub const READERS: [Reader; 26] = [
    Reader { name: "results", file: "x_m_cpu0GB_qd0_gennone_users5.json", read: results },
    Reader { name: "configuration", file: "x.yaml", read: configuration },
    Reader { name: "device", file: "x.yaml", read: device },
    Reader { name: "quick", file: "x.json", read: quick },
    Reader { name: "roofline", file: "x.json", read: roofline },
    Reader { name: "spreadsheet", file: "x.xlsx", read: collection },
    Reader { name: "table", file: "x.csv", read: collection },
    Reader { name: "burst_trace", file: "x.csv", read: |path| traffic("--burst-trace-path", path) },
    Reader { name: "block_trace", file: "x.jsonl", read: |path| traffic("--mooncake-trace", path) },
    Reader { name: "prompt_blocks", file: "x.jsonl", read: prompt_blocks },
    Reader { name: "operations", file: "x.csv", read: |path| traffic("--replay-trace", path) },
    Reader { name: "recording", file: "x.strace", read: recording },
    Reader { name: "dataset", file: "x.json", read: |path| traffic("--dataset-path", path) },
    Reader { name: "validation", file: "x.csv", read: validation },
    Reader { name: "compressed", file: "x.csv", read: compressed },
    Reader { name: "bpftrace", file: "x.txt", read: bpftrace },
    Reader { name: "iostat", file: "x_iostat.log", read: iostat },
    Reader { name: "audit", file: "x.json", read: audited },
    Reader { name: "metadata", file: "x.json", read: metadata },
    Reader { name: "profile", file: "credentials", read: profile },
    Reader { name: "answer", file: "x.xml", read: answer },
    Reader { name: "checkpoint", file: "checkpoint.json", read: checkpoint },
    Reader { name: "suite", file: "suite.plan", read: suite },
    Reader { name: "journal", file: "batch.journal", read: journal },
    Reader { name: "ranks", file: "rank_0.card", read: ranks },
    Reader { name: "upload", file: "x.upload.json", read: upload },
];

/// Readers that do harm, to see that it is seen.
const HARMFUL: [Reader; 6] = [
    Reader { name: "test_fine", file: "x", read: |_| Ok("fine".to_owned()) },
    Reader { name: "test_panics", file: "x", read: |_| panic!("as told") },
    Reader { name: "test_aborts", file: "x", read: |_| std::process::abort() },
    Reader { name: "test_overflows", file: "x", read: |_| Ok(deep(1).to_string()) },
    Reader { name: "test_devours", file: "x", read: |_| Ok(devoured().to_string()) },
    Reader {
        name: "test_hangs",
        file: "x",
        read: |_| loop {
            std::thread::park();
        },
    },
];

/// The reader of this name.
pub fn reader(name: &str) -> Option<&'static Reader> {
    READERS.iter().chain(&HARMFUL).find(|reader| reader.name == name)
}

fn deep(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 512]);
    if depth == 0 { 0 } else { deep(depth + 1) + room[1] }
}

fn devoured() -> u8 {
    // Twice as much as may be.
    let bytes = std::hint::black_box(vec![1u8; 2 << 30]);
    bytes[bytes.len() / 2]
}

fn said(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

fn results(path: &Path) -> Result<String, String> {
    let mut outcome = String::new();
    let file = ResultFile::read(path);
    match &file {
        Ok(file) => {
            let spread = spreads(&[&file.document, &file.document]).len();
            let merged = merge(&[file.clone(), file.clone()], &[], &[]).map_err(|e| said(&e));
            let compared = compare(vec![file.clone()], vec![file.clone()]).map_err(|e| said(&e));
            outcome += &format!(
                "{:?} {spread} {:?} {:?}",
                file.kind(),
                merged.err(),
                compared.map(|found| found.rows.len())
            );
        }
        Err(error) => outcome += &said(error),
    }
    let document = match ResultFile::read_ours(path) {
        Ok(file) => file.document,
        Err(error) => return Ok(format!("{outcome}; {error}")),
    };
    let job = fio_job(&document).unwrap_or_default();
    let lines: Vec<&str> = job.lines().filter(|line| !line.starts_with(';')).collect();
    let sections = lines.iter().filter(|line| line.starts_with('[')).count();
    assert!(sections <= 1 && !job.contains('\r'), "the job has sections of its own: {job}");
    let error = |error: std::io::Error| error.to_string();
    let named = [Named { name: "x".to_owned(), document }];
    write_sheet(&named, &path.with_extension("csv")).map_err(error)?;
    write_sheet(&named, &path.with_extension("xlsx")).map_err(error)?;
    write_html(&named, &path.with_extension("html")).map_err(error)?;
    Ok(format!("{outcome}; whole, {} lines", lines.len()))
}

fn suite(path: &Path) -> Result<String, String> {
    let directory = path.parent().ok_or("the scratch directory has no file")?;
    let saved = SavedSuite::read(directory).map_err(|error| said(&error))?;
    let saved = saved.ok_or("there is a plan")?;
    assert!(saved.differences(&saved).is_empty());
    let other = SavedSuite { host: None, more_flags: Vec::new(), ..saved.clone() };
    let _shown = saved.differences(&other);
    Ok(format!("{} workloads, {} runs", saved.workloads.len().min(3), saved.invocations.len()))
}

/// A batch that goes on, and is told to end before it begins anything.
fn journal(path: &Path) -> Result<String, String> {
    let directory = path.parent().ok_or("the scratch directory has no file")?;
    std::fs::write(directory.join("a.json"), "{}").map_err(|error| said(&error))?;
    let jobs = vec![Job::new("a", ["run"], 1.0), Job::new("b", ["run", "--users", "5"], 2.0)];
    let batch = Batch::new("sweep", directory, jobs);
    let rows = &mut |ended: &Ended<'_>| vec![format!("{} {:?}", ended.job.name, ended.outcome)];
    let report = batch.run(&|| true, &mut Screen::new(true), rows);
    let report = report.map_err(|error| format!("{error:#}"))?;
    Ok(format!("{} done, {} failed", report.done(), report.failed()))
}

/// Rank 1 sees what rank 0 shows: its card, and a word.
fn ranks(path: &Path) -> Result<String, String> {
    let common = path.parent().ok_or("the scratch directory has no file")?;
    let board = common.join(".ringfall-ranks-of-2");
    std::fs::create_dir_all(&board).map_err(|error| said(&error))?;
    for name in ["rank_0.card", "rank_0.word"] {
        std::fs::copy(path, board.join(name)).map_err(|error| said(&error))?;
    }
    let party = Party { rank: 1, size: 2, host: "node".to_owned() };
    let session = Session::open(MeetsBy::Directory(common), None, party)?;
    let group = session.join().map_err(|error| said(&error))?;
    group.ready();
    let looks = std::cell::Cell::new(0);
    let is_over = || looks.replace(looks.get() + 1) > 0;
    let heard = group.hear_first::<serde_json::Value>(Topic("word"), &is_over);
    let _when = (group.begins(), group.awaits(), group.failure());
    drop(group);
    Ok(format!("{:?}", heard.is_ok()))
}

fn checkpoint(path: &Path) -> Result<String, String> {
    let directory = path.parent().ok_or("the scratch directory has no file")?;
    let target = FileTarget::open(directory, Io::Direct, true).map_err(|error| said(&error))?;
    let manifest = checkpoint::find(&target, "").map_err(|error| said(&error))?;
    let layout = Layout::new(&manifest, "");
    let bytes: u64 = layout.files.iter().map(|file| file.plan.bytes).sum();
    assert_eq!(bytes, manifest.total_bytes());
    for file in layout.files.iter().take(16) {
        // The last chunk, whose place is the hardest to work out.
        let (offset, length) = file.piece(file.chunks() - 1, file.plan.chunk_bytes);
        assert_eq!(offset + length as u64, file.plan.bytes);
        let mut block = [0; 4096];
        file.fill(&mut block, file.plan.bytes - 4096);
        let found = file.verify(VerifyMode::Full, &block, file.plan.bytes - 4096);
        assert_eq!((found.blocks_checked, found.blocks_bad), (1, 0));
    }
    Ok(format!("{} files", layout.files.len().min(2)))
}

/// As no machine in particular.
fn facts() -> Facts {
    let memory =
        MemoryRoom { bytes: 8 << 30, shared_bytes: 8 << 30, source: "the test".to_owned() };
    Facts {
        cores: 4,
        memory_available_bytes: Some(8 << 30),
        room: Room { memory: Some(memory), cores: 4, open_files_max: Some(65_536) },
        is_simulated: false,
        rank: None,
        unix_s: 1_700_000_000,
        random_seed: 1,
    }
}

fn configuration(path: &Path) -> Result<String, String> {
    let file = ConfigFile::read(path).map_err(|error| said(&error))?;
    let command = typed(&["ringfall", "run"])?;
    let plan = resolve(&command, Some(&file), &facts()).map_err(|error| said(&error))?;
    let page = render(&plan);
    let again = ConfigFile::parse("again".to_owned(), page.clone())
        .unwrap_or_else(|error| panic!("what is printed can't be read: {error}\n{page}"));
    let same = resolve(&command, Some(&again), &facts())
        .unwrap_or_else(|error| panic!("what is printed means something else: {error}\n{page}"));
    assert_eq!(plan.typed.model, same.typed.model, "{page}");
    assert_eq!(plan.typed.models.is_some(), same.typed.models.is_some(), "{page}");
    Ok(format!("{} {:?} {:?}", plan.arrival.name(), plan.traffic.name(), plan.enable_autoscaling))
}

fn typed(words: &[&str]) -> Result<Options, String> {
    match cli::parse(words.iter().map(Into::into)).map(|cli| cli.command) {
        Ok(Command::Run(args)) => Ok(args.settings().options),
        other => Err(format!("{other:?}")),
    }
}

/// The plan of a run with this flag, whose value is the file.
fn plan(flag: &str, path: &Path) -> Result<Plan, String> {
    let path = path.to_str().ok_or("the scratch directory's name is no text")?;
    let mut words = vec!["ringfall", "run", flag, path];
    if flag == "--burst-trace-path" {
        words.push("--use-burst-trace");
    }
    resolve(&typed(&words)?, None, &facts()).map_err(|error| said(&error))
}

/// Reads to the end, without a word.
fn reading() -> Reading {
    Reading::new(|| false, false)
}

fn traffic(flag: &str, path: &Path) -> Result<String, String> {
    let plan = plan(flag, path)?;
    let opened = source::open(&plan, &reading()).map_err(|error| said(&error))?;
    let mut outcome = format!("{} skipped", opened.facts.skipped.rows);
    if let Some(mut rows) = opened.rows {
        // A replay goes on for ever; when it begins again, all rows have been seen.
        let next = |_| (rows.figures().cycles == 0).then(|| rows.next_row(3)).flatten();
        let count = (0..ROWS_MAX).map_while(next).count();
        let figures = rows.figures();
        outcome += &format!(
            " {} rows, {} skipped, {:?}",
            count.min(2),
            figures.skipped.rows,
            figures.failure
        );
    }
    Ok(outcome)
}

/// Traces whose format is recognised.
fn prompt_blocks(path: &Path) -> Result<String, String> {
    let mut trace = RecordedTrace::open(path, None, &reading()).map_err(|error| said(&error))?;
    let mut figures = TraceFigures::new(trace.format(), vec![1, 100], 1 << 24);
    for _ in 0..ROWS_MAX {
        let Some(row) = trace.next_row().map_err(|error| said(&error))? else { break };
        figures.add(&row).map_err(|error| said(&error))?;
    }
    let (reuse, tokens) = (&figures.reuse, figures.input_tokens.sum);
    assert!(reuse.found_with(1) <= reuse.found_with(100));
    assert!(reuse.found_unbounded() <= tokens, "{} of {tokens}", reuse.found_unbounded());
    let requests = figures.input_tokens.numbers.min(2);
    Ok(format!("{} {requests} requests, {} skipped", trace.format().name(), trace.skipped().rows))
}

/// A recording of an engine's calls up to their order: below the directory that all files have in
/// common, and all of it.
fn recording(path: &Path) -> Result<String, String> {
    let mut outcome = String::new();
    for below in [None, Some("/")] {
        let part = match Part::read(source::open_file(path, &reading())?, below) {
            Ok(part) => part,
            Err(error) => {
                outcome += &said(&error);
                continue;
            }
        };
        outcome += &format!("{} {} ", part.skipped.rows.min(2), part.untold.min(2));
        let order = Order::of(&part).map_err(|error| said(&error))?;
        let lanes: Vec<usize> = order.lanes.iter().map(Vec::len).collect();
        assert_eq!(lanes.iter().sum::<usize>(), part.operations.len());
        let before = (part.files_before.len().min(3), part.directories_before.len().min(3));
        outcome += &format!("{:?} {before:?}; ", lanes.iter().map(|lane| lane.min(&9)));
    }
    Ok(outcome)
}

fn validation(path: &Path) -> Result<String, String> {
    let plan = plan("--validation-trace", path)?;
    let trace = source::open_validation(&plan, &reading()).map_err(|error| said(&error))?;
    let rate = trace.map(|trace| trace.hit_rate());
    assert!(rate.is_none_or(|rate| (0.0..=1.0).contains(&rate)), "{rate:?}");
    Ok(format!("{}", rate.is_some()))
}

fn compressed(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let ending = if bytes.starts_with(b"\x28\xb5\x2f\xfd") { "csv.zst" } else { "csv.gz" };
    let path = path.with_extension(ending);
    std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    traffic("--burst-trace-path", &path)
}

fn device(path: &Path) -> Result<String, String> {
    let file = DeviceFile::read(path).map_err(|error| said(&error))?;
    assert!(!file.name.chars().chain(file.source.chars()).any(char::is_control));
    Ok(format!("{} {}", file.model.is_duplex, file.model.write_cache.bytes > 0))
}

fn quick(path: &Path) -> Result<String, String> {
    let report = QuickReport::read(path).map_err(|problem| problem.to_string())?;
    let page = quick_page(&report, None, path) + &beside_page(&report, &report);
    let error = |error: std::io::Error| error.to_string();
    write_quick_html(&report, Some(&report), path, &path.with_extension("html")).map_err(error)?;
    Ok(format!("{} {}", page.lines().count() > 10, report.judge().is_empty()))
}

fn roofline(path: &Path) -> Result<String, String> {
    let roofline = read_roofline(path).map_err(|error| said(&error))?;
    let error = |error: std::io::Error| error.to_string();
    write_roofline_html(&roofline, &path.with_extension("html")).map_err(error)?;
    let text = device_yaml(&roofline)?;
    match DeviceFile::parse("device", &text) {
        Ok(_) => Ok("a device".to_owned()),
        Err(error) => Ok(format!("no device: {error}")),
    }
}

fn iostat(path: &Path) -> Result<String, String> {
    let rates = ringfall_foreign::iostat::read_rates(path).map_err(|error| said(&error))?;
    assert!(0.0 <= rates.read_mb_per_s && rates.read_mb_per_s <= rates.total_mb_per_s);
    assert!(rates.total_mb_per_s.is_finite());
    Ok(format!("{rates:?}"))
}

fn collection(path: &Path) -> Result<String, String> {
    let collection = Collection::read(path).map_err(|error| said(&error))?;
    let pairs = matched(&collection, &collection);
    let groups = groups(&pairs, &[Dimension::CpuMemory, Dimension::Model, Dimension::Users]);
    Ok(format!("{} {} {}", collection.runs.len(), pairs.len(), groups.len()))
}

fn bpftrace(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let figures = ringfall_running::blocktrace::read_output(&String::from_utf8_lossy(&bytes))?;
    Ok(format!("{} {}", figures.heat.len(), figures.read.sizes.len()))
}

/// A run all of whose files are the input: results, summary, metadata, log, counters.
fn audited(path: &Path) -> Result<String, String> {
    let error = |error: std::io::Error| error.to_string();
    let run = path.with_file_name("run");
    let rank = run.join("option_1/trial_0/rank_0");
    std::fs::create_dir_all(&rank).map_err(error)?;
    let input = std::fs::read(path).map_err(error)?;
    for file in [
        run.join("summary.json"),
        run.join("kv_cache_x_metadata.json"),
        run.join("kvcache_opt1_trial0.stderr.log"),
        run.join("single.json"),
        run.join("iostat.txt"),
        rank.join("kvcache_results_20260712_182112.json"),
    ] {
        std::fs::write(file, &input).map_err(error)?;
    }
    let settings =
        AuditSettings { drive_read_mb_per_s: Some(100.0), drive_write_mb_per_s: Some(100.0) };
    let found = audit(std::slice::from_ref(&run), &settings);
    let page = audit_page(&found, true);
    assert!(!page.contains('\u{1b}'), "the terminal is told what to do: {page}");
    assert!(found.findings.iter().all(|finding| finding.weight.is_finite()));
    let json = serde_json::to_string(&found).map_err(|e| said(&e))?;
    write_audit_html(&found, &path.with_extension("html")).map_err(error)?;
    write_audit_csv(&found, &path.with_extension("csv")).map_err(error)?;
    let kinds: Vec<_> = found.findings.iter().map(|finding| finding.kind).collect();
    Ok(format!("{:?} {kinds:?} {}", found.read, !json.is_empty()))
}

/// Reads a run's record of its departures from MLPerf's rules.
fn metadata(path: &Path) -> Result<String, String> {
    let error = |error: std::io::Error| error.to_string();
    let run = path.with_file_name("run");
    std::fs::create_dir_all(&run).map_err(error)?;
    std::fs::copy(path, metadata_of(&run)).map_err(error)?;
    let departures = Departures::read(&run).ok_or("it says nothing of departures")?;
    Ok(format!("{} {}", departures.of_all.len(), departures.by_option.len()))
}

/// The files that AWS's tools share, both the input.
#[cfg(feature = "objects")]
fn profile(path: &Path) -> Result<String, String> {
    let files = ProfileFiles { credentials: path.to_path_buf(), config: path.to_path_buf() };
    let found = ["default", "lab"].map(|name| files.read(name).map(|profile| profile.is_some()));
    let [default, lab] = found;
    Ok(format!("{} {}", default?, lab?))
}

/// Reads the refusal of an object store.
#[cfg(feature = "objects")]
fn answer(path: &Path) -> Result<String, String> {
    let body = std::fs::read(path).map_err(|error| error.to_string())?;
    let told = [400, 403, 404, 503].map(|status| meaning(status, &body).to_string());
    // What is told is escaped where it is told, and the server may say as much as it likes.
    Ok(told.join(" ").chars().take(200).collect())
}

/// Reads a save's record of an upload that did not end.
#[cfg(feature = "objects")]
fn upload(path: &Path) -> Result<String, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    UploadRecord::read(&text).map(|record| record.parts.len().to_string())
}

#[cfg(not(feature = "objects"))]
fn upload(_path: &Path) -> Result<String, String> {
    Err("built without object stores".to_owned())
}

#[cfg(not(feature = "objects"))]
fn profile(_path: &Path) -> Result<String, String> {
    Err("built without object stores".to_owned())
}

#[cfg(not(feature = "objects"))]
fn answer(_path: &Path) -> Result<String, String> {
    Err("built without object stores".to_owned())
}
