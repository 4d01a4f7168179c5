//! Layouts of inference engines: the list of them, and a comparison on one drive.

use ringfall_model::facts::{LayoutPhase, LayoutRun};
use ringfall_workloads::layout::{EngineLayout, LayoutOption, LayoutOptions};
use serde::Serialize;

use super::prose::wrapped;
use super::table::{Cell, Table, UNKNOWN, digits, percent};

/// Version of the form of [`LayoutsReport`].
pub const LAYOUTS_VERSION: u32 = 1;
/// Share of the drive's limit from which on the drive limits.
const DRIVE_SHARE: f64 = 0.9;
/// Share of the drive's limit from which on it was not the limit.
const VARIED_FROM: f64 = 1.1;
/// Note on limits that were exceeded.
const VARIED: &str = "the drive's speed varied: a layout moved over 10 % more than the limit that \
                      was measured before, so shares of it say little; measure again when nothing \
                      else uses the drive";
/// Share of the operations' time from which on those on names limit, or syncing does.
const TIME_SHARE: f64 = 0.3;
/// Share of the cores, or of the threads, that are busy where the processor limits.
const CPU_SHARE: f64 = 0.85;
/// Operations that move no bytes but those of names.
const NAME_OPERATIONS: [&str; 7] = ["stat", "mkdir", "open", "create", "close", "rename", "unlink"];

/// Layouts compared on one drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayoutsReport {
    /// 1; also tells such a file from others.
    pub ringfall_layouts: u32,
    /// Version of ringfall that measured.
    pub version: &'static str,
    /// Directory on the drive.
    pub place: String,
    /// Name and model of the drive; null where there is none below the directory.
    pub drive: Option<String>,
    /// Type of the file system.
    pub file_system: Option<String>,
    /// Number of cores that the process may use.
    pub cores: u32,
    /// Name of the model whose KV cache is stored.
    pub model: String,
    /// Number of ranks among which tensor parallelism divides the model.
    pub tensor_parallel: u64,
    /// Number of tokens of a prefix.
    pub prefix_tokens: u64,
    /// Duration of the fetches of each layout, s; stores take at most four times as long.
    pub seconds_each: f64,
    /// Space that the objects of one layout may take, GiB.
    pub space_gib: f64,
    /// Number of empty files that were in the directory before each layout that has a file for each
    /// object.
    pub populate_objects: u64,
    /// Random seed of contents and of the order of fetches.
    pub seed: u64,
    /// Bandwidth of large reads that bypass the page cache, measured before, GiB/s; null where it
    /// was not.
    pub read_limit_gib_per_s: Option<f64>,
    /// Bandwidth of large writes that bypass the page cache, measured before, GiB/s; null where it
    /// was not.
    pub write_limit_gib_per_s: Option<f64>,
    /// Layouts in the order in which they were measured.
    pub layouts: Vec<LayoutRow>,
    /// Sentences that a reader of the figures must know.
    pub notes: Vec<String>,
}

/// A layout that was measured, and what limited it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayoutRow {
    /// Figures of the layout.
    #[serde(flatten)]
    pub run: LayoutRun,
    /// Rate of useful bytes of fetches as a share of the drive's read limit; null where either is
    /// unknown.
    pub fetch_share: Option<f64>,
    /// The same of stores, until they were on the drive, and the write limit.
    pub store_share: Option<f64>,
    /// Reason why fetches were not faster: `the drive`, `names` (opens and renames), `processor`,
    /// `fsync`, or the workers, each with one operation at a time; null where none were measured.
    pub fetch_limit: Option<String>,
    /// The same of stores.
    pub store_limit: Option<String>,
}

impl LayoutsReport {
    /// Adds a layout that was measured.
    pub fn add(&mut self, run: LayoutRun) {
        let share = |rate: Option<f64>, limit: Option<f64>| Some(rate? / limit?);
        let fetched = run.fetch.as_ref().and_then(|fetch| fetch.useful_gib_per_s);
        let fetch_share = share(fetched, self.read_limit_gib_per_s);
        let store_share = share(run.durable_gib_per_s, self.write_limit_gib_per_s);
        if [fetch_share, store_share].into_iter().flatten().any(|share| share > VARIED_FROM)
            && !self.notes.iter().any(|note| note == VARIED)
        {
            self.notes.push(VARIED.to_owned());
        }
        let limit = |phase: &LayoutPhase, share| limit(phase, share, self.cores);
        self.layouts.push(LayoutRow {
            fetch_limit: run.fetch.as_ref().map(|fetch| limit(fetch, fetch_share)),
            store_limit: (run.store.prefixes > 0).then(|| limit(&run.store, store_share)),
            run,
            fetch_share,
            store_share,
        });
    }

    /// Sentences about the layouts that could not be measured to their end; none where all were.
    pub fn failed(&self) -> Option<String> {
        let failed = self.layouts.iter().filter_map(|LayoutRow { run, .. }| {
            let failure = run.failure.as_ref()?;
            Some(format!("{}, {}: {failure}", run.layout, run.limits.name()))
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    }
}

/// Reason why work was not faster, a few words.
fn limit(phase: &LayoutPhase, share: Option<f64>, cores: u32) -> String {
    let most_cores = match phase.is_queue {
        true => f64::from(cores),
        // A thread takes one core at most.
        false => f64::from(cores).min(phase.workers as f64),
    };
    if share.is_some_and(|share| share >= DRIVE_SHARE) {
        return "the drive".to_owned();
    }
    if phase.time_share(&["fsync"]) > TIME_SHARE {
        return "fsync".to_owned();
    }
    if phase.time_share(&NAME_OPERATIONS) > TIME_SHARE {
        return "names".to_owned();
    }
    if phase.cpu_cores.is_some_and(|busy| busy >= CPU_SHARE * most_cores) {
        return "processor".to_owned();
    }
    match (phase.is_queue, phase.workers) {
        (true, depth) => format!("{depth} in flight"),
        (false, threads) => format!("{threads} × QD1"),
    }
}

/// The layouts with their options and defaults, on one screen.
pub fn layouts_list() -> String {
    let mut table = Table::of(LayoutOption::ALL).text("option", LayoutOption::name);
    for layout in EngineLayout::ALL {
        let told = move |option: LayoutOption| {
            let value = LayoutOptions::of(layout).value(option);
            value.map_or(UNKNOWN.to_owned(), |value| option.told(value))
        };
        table = table.count(layout.name(), move |option| Cell::Text(told(option)));
    }
    let mut page = table.done().page();
    page.push('\n');
    for layout in EngineLayout::ALL {
        wrapped(&mut page, &format!("  {:<11}  ", layout.name()), layout.unit());
    }
    page.push('\n');
    for option in LayoutOption::ALL {
        wrapped(&mut page, &format!("  {:<13}  ", option.name()), option.meaning());
    }
    // With the usual margin of two, the table would be wider than a terminal of 80 columns.
    page.lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// A comparison as tables of fetches and of stores, with what limited each layout.
pub fn layouts_page(report: &LayoutsReport) -> String {
    let mut page = String::new();
    let mut head = |head: &str, text: String| wrapped(&mut page, &format!("{head:<9}"), &text);
    let LayoutsReport { model, tensor_parallel, prefix_tokens, place, .. } = report;
    let on = [report.file_system.as_deref(), report.drive.as_deref()];
    let on: Vec<&str> = on.into_iter().flatten().collect();
    head("place", format!("{place} ({})", on.join(" on ")));
    head("prefix", format!("{prefix_tokens} tokens of {model}, tensor parallel {tensor_parallel}"));
    if report.populate_objects > 0 {
        let made = format!("{} empty files before each layout of files", report.populate_objects);
        head("populated", made);
    }
    let told = |rate: Option<f64>| rate.map_or(UNKNOWN.to_owned(), |rate| digits(rate, 3));
    let [reads, writes] = [report.read_limit_gib_per_s, report.write_limit_gib_per_s].map(told);
    head("limits", format!("of the drive: reads {reads} GiB/s, writes {writes} GiB/s"));
    let rows = || report.layouts.iter();
    let changed = rows().filter(|row| !row.run.changed_options.is_empty());
    let changed = changed
        .map(|LayoutRow { run, .. }| format!("{} {}", run.layout, run.changed_options.join(" ")));
    let mut changed: Vec<String> = changed.collect();
    changed.dedup();
    if !changed.is_empty() {
        head("options", changed.join("; "));
    }
    page.push_str("\nfetches, cold\n");
    page.push_str(&phase_table(rows().filter_map(|row| {
        let phase = row.run.fetch.as_ref()?;
        let (rate, limit) = (phase.useful_gib_per_s, row.fetch_limit.as_deref());
        Some(PhaseRow { run: &row.run, phase, rate, share: row.fetch_share, limit })
    })));
    page.push_str("\nstores, until they are on the drive\n");
    page.push_str(&phase_table(rows().map(|row| {
        let (rate, limit) = (row.run.durable_gib_per_s, row.store_limit.as_deref());
        PhaseRow { run: &row.run, phase: &row.run.store, rate, share: row.store_share, limit }
    })));
    let legend = "GiB/s are KV bytes, each token's once, without padding; s/GiB is CPU time; drive \
                  is the share of its limit; QD1: a thread has one system call at a time";
    page.push('\n');
    wrapped(&mut page, "  ", legend);
    for LayoutRow { run, .. } in rows() {
        let name = format!("{}, {}", run.layout, run.limits.name());
        for told in run.failure.iter().chain(&run.notes) {
            wrapped(&mut page, "  note: ", &format!("{name}: {told}"));
        }
    }
    for note in &report.notes {
        wrapped(&mut page, "  note: ", note);
    }
    page
}

/// A line of a table.
#[derive(Clone, Copy)]
struct PhaseRow<'a> {
    run: &'a LayoutRun,
    phase: &'a LayoutPhase,
    /// Useful bytes, GiB/s.
    rate: Option<f64>,
    share: Option<f64>,
    limit: Option<&'a str>,
}

fn phase_table<'a>(rows: impl Iterator<Item = PhaseRow<'a>>) -> String {
    let three = |value: f64| digits(value, 3);
    Table::of(rows)
        .text("layout", |row| row.run.layout)
        .text("limits", |row| row.run.limits.name())
        .number("GiB/s", three, |row| row.rate)
        .count("ops/s", |row| row.phase.operations_per_s)
        .number("P50, ms", three, |row| row.phase.p50_ms)
        .number("P99, ms", three, |row| row.phase.p99_ms)
        .number("s/GiB", three, |row| row.phase.cpu_s_per_gib)
        .number("drive", percent, |row| row.share)
        .text("limited by", |row| row.limit)
        .done()
        .page()
}

#[cfg(test)]
mod tests {
    use ringfall_model::facts::{EngineLimits, OperationFigures};

    use super::*;

    fn phase(operations: &[(&'static str, f64)]) -> LayoutPhase {
        let figures = |(name, total_s): &(&'static str, f64)| OperationFigures {
            name,
            count: 10,
            p50_us: Some(5.0),
            total_s: *total_s,
        };
        LayoutPhase {
            workers: 4,
            is_queue: false,
            requests: 8,
            requests_in_flight: Some(7.5),
            seconds: 5.0,
            prefixes: 40,
            bytes: 40 << 28,
            useful_gib_per_s: Some(2.0),
            operations_per_s: Some(192.0),
            p50_ms: Some(123.4),
            p99_ms: Some(456.7),
            cpu_s_per_gib: Some(0.25),
            cpu_cores: Some(0.5),
            operations: operations.iter().map(figures).collect(),
        }
    }

    #[test]
    fn what_limits_follows_from_the_drive_the_operations_and_the_processor() {
        let reads = [("read", 9.0), ("open", 1.0)];
        let busy = LayoutPhase { cpu_cores: Some(1.9), ..phase(&reads) };
        let queue = LayoutPhase { is_queue: true, workers: 64, ..phase(&reads) };
        for (phase, share, expected) in [
            (phase(&reads), Some(0.95), "the drive"),
            (phase(&[("write", 5.0), ("fsync", 4.0)]), Some(0.5), "fsync"),
            (phase(&[("read", 5.0), ("open", 2.0), ("rename", 2.0)]), Some(0.5), "names"),
            (busy, None, "processor"),
            (phase(&reads), Some(0.5), "4 × QD1"),
            (queue, Some(0.5), "64 in flight"),
        ] {
            assert_eq!(limit(&phase, share, 2), expected);
        }
    }

    #[test]
    fn the_list_fits_on_a_screen() {
        let page = layouts_list();
        assert!(page.lines().count() <= 30, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        for part in ["chunk_tokens", "lmcache-raw", "fsync", "vLLM fs tier", "yes", "–"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_comparison_has_a_line_a_layout_and_its_notes() {
        let run = |layout, limits, failure: Option<&str>| LayoutRun {
            layout,
            limits,
            changed_options: vec!["requests=8".to_owned()],
            objects_per_prefix: 8,
            object_bytes: 32 << 20,
            prefix_bytes: 256 << 20,
            useful_bytes: 256 << 20,
            store: phase(&[("write", 9.0), ("close", 1.0)]),
            settle_s: 1.0,
            durable_gib_per_s: Some(1.5),
            prefixes: 16,
            fetch: failure.is_none().then(|| phase(&[("read", 9.0), ("open", 1.0)])),
            failure: failure.map(str::to_owned),
            notes: Vec::new(),
        };
        let mut report = LayoutsReport {
            ringfall_layouts: LAYOUTS_VERSION,
            version: "0",
            place: "/mnt/kv".to_owned(),
            drive: Some("vda".to_owned()),
            file_system: Some("ext4".to_owned()),
            cores: 2,
            model: "llama3.1-8b".to_owned(),
            tensor_parallel: 1,
            prefix_tokens: 2_048,
            seconds_each: 5.0,
            space_gib: 4.0,
            populate_objects: 1_000,
            seed: 42,
            read_limit_gib_per_s: Some(2.1),
            write_limit_gib_per_s: None,
            layouts: Vec::new(),
            notes: vec!["of all".to_owned()],
        };
        report.add(run("lmcache-raw", EngineLimits::Theirs, None));
        report.add(run("llmd", EngineLimits::Ours, Some("storing ended early")));
        assert_eq!(report.failed().unwrap(), "llmd, ours: storing ended early");
        let page = layouts_page(&report);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        for part in [
            "/mnt/kv (ext4 on vda)",
            "reads 2.10 GiB/s, writes – GiB/s",
            "95.2 % the drive",
            "1000 empty files before",
            "1.50",
            "options  lmcache-raw requests=8; llmd requests=8",
            "llmd, ours: storing ended early",
            "note: of all",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
