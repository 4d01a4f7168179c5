//! Text for the terminal: the banner before a run, the summary after it. One screen, 80 columns.

use std::io::Write;

use ringfall_config::{Named as _, Plan};
use ringfall_core::key::Tier;
use ringfall_core::units::gib;
use ringfall_host::remedy::told_io;
use ringfall_host::{counted, escape, human_time};
use ringfall_model::cold::ColdVerdict;
use ringfall_model::document::{DriveDirection, DriveReport, RequestsOfClass, RequestsReport};
use ringfall_model::facts::{Bucket, GpuOutcome, TierShortage, quotient};
use ringfall_model::sla::COMPLIANCE;
use ringfall_model::source::ValidationTraceStats;
use ringfall_model::{Code, Document, RunResult, Warning, is_without_drive};

use super::table::{Table, fixed};
use super::who::who;
use super::{gpu, prose, table, total};

/// Columns before what a label stands for.
pub(super) const LABEL: usize = 15;

/// Whether to colour. Colour never carries meaning alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Escape sequences may be written.
    pub colour: bool,
}

impl Style {
    /// No colour.
    pub(super) const PLAIN: Style = Style { colour: false };

    /// Colour on a terminal only, and not where NO_COLOR is set to anything but nothing
    /// (<https://no-color.org>).
    pub fn for_output(is_terminal: bool) -> Style {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style { colour: is_terminal && !is_refused }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn heading(self, text: &str) -> String {
        self.paint("1;36", text)
    }

    /// Text in the colour of a warning, where colours are wanted.
    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// Facts for the banner: the workload, its place, and the resources it will use.
pub struct Banner<'a> {
    /// Plan of the run that begins.
    pub plan: &'a Plan,
    /// Directory of the data.
    pub directory: String,
    /// File system and device below it, as far as known.
    pub below: String,
    /// Size of the storage tier.
    pub storage_bytes: u64,
    /// Memory of the I/O buffers, all shards.
    pub buffer_bytes: u64,
    /// KV bytes of a token.
    pub token_bytes: u64,
    /// Bytes freed that a dead run had left.
    pub reclaimed_bytes: u64,
    /// Tiers that are smaller than asked for.
    pub shortages: &'a [TierShortage],
    /// The GPU tier that was asked for.
    pub gpu: Option<&'a GpuOutcome>,
}

/// Shards, I/Os and buffers, and how the data is kept.
fn print_engine(out: &mut dyn Write, banner: &Banner<'_>) -> std::io::Result<()> {
    let plan = banner.plan;
    let depth = plan.queue_depth;
    let depth = match plan.depth_search {
        // The layout's threads, or its ring, do one each.
        _ if plan.layout_plan.is_some() => format!("{depth} objects asked for at a time each"),
        Some(_) => format!("up to {depth} deep each (the warm-up finds how deep)"),
        None => format!("{depth} deep each"),
    };
    writeln!(
        out,
        "  engine    {}{}, I/O {} KiB × {}, {} MiB of buffers",
        counted(plan.shards.into(), "shard"),
        if plan.pin { " (pinned)" } else { "" },
        plan.io_size_bytes / 1024,
        depth,
        banner.buffer_bytes >> 20,
    )?;
    let durability = match plan.layout_plan {
        // Its engine decides.
        Some(_) => String::new(),
        None => format!("durability {}, ", plan.durability.name()),
    };
    writeln!(
        out,
        "            {durability}verify {}, preallocate {}{}{}",
        plan.verify.name(),
        plan.preallocate.name(),
        if plan.iopoll { ", completions polled" } else { "" },
        if plan.nvme_passthrough { ", NVMe passthrough" } else { "" },
    )
}

/// Writes how far storage can reduce the content, where that is not as usual.
fn print_content(out: &mut dyn Write, plan: &Plan) -> std::io::Result<()> {
    let (dedupe, compress) = (plan.dedupe_ratio, plan.compress_ratio);
    if dedupe > 1.0 || compress > 1.0 {
        writeln!(out, "  content   deduplicable {dedupe} : 1, compressible {compress} : 1")?;
    }
    Ok(())
}

/// Writes what is run, before it begins.
pub fn print_banner(out: &mut dyn Write, style: Style, banner: &Banner<'_>) -> std::io::Result<()> {
    let plan = banner.plan;
    let title = format!("ringfall {}", env!("CARGO_PKG_VERSION"));
    writeln!(out, "{}  seed {}", style.heading(&title), plan.seed)?;
    writeln!(
        out,
        "  workload  {}, {}{}, {} s{}",
        escape::terminal(&plan.model),
        escape::terminal(&who(plan)),
        // A replay generates nothing.
        match plan.replay_trace {
            Some(_) => String::new(),
            None => format!(", generation {}", plan.generation_mode.name()),
        },
        plan.duration_s,
        if plan.warmup_s > 0 { format!(" after {} s", plan.warmup_s) } else { String::new() },
    )?;
    writeln!(
        out,
        "  tiers     GPU {:.1} GiB, CPU {:.1} GiB, storage {:.1} GiB ({} KiB a token)",
        gib(plan.gpu_memory_bytes),
        gib(plan.cpu_memory_bytes),
        gib(banner.storage_bytes),
        banner.token_bytes / 1024,
    )?;
    if let Some(gpu) = banner.gpu {
        out.write_all(gpu::banner_lines(style, plan, gpu).as_bytes())?;
    }
    for shortage in banner.shortages {
        writeln!(out, "            {}", style.warn(&escape::terminal(&shortage.to_string())))?;
    }
    if plan.is_without_storage {
        writeln!(out, "  storage   left out: entries that fit in no other tier are dropped")?;
    } else {
        let (directory, below) = (&banner.directory, &banner.below);
        let (directory, below) = (escape::terminal(directory), escape::terminal(below));
        match below.is_empty() {
            // What is there can't be told of a directory that is gone, or that nobody may look at.
            true => writeln!(out, "  storage   {directory} (its file system can't be read)")?,
            false => writeln!(out, "  storage   {directory} ({below})")?,
        }
    }
    print_engine(out, banner)?;
    print_content(out, plan)?;
    if let Some(rank) = &plan.rank {
        writeln!(out, "  rank      {}", escape::terminal(&rank.to_string()))?;
    }
    if banner.reclaimed_bytes > 0 {
        let freed = gib(banner.reclaimed_bytes);
        writeln!(out, "  reclaimed {freed:.1} GiB that an earlier run had left there")?;
    }
    if plan.demo {
        let text = "A small demonstration run. For a real one: ringfall run DIR, a directory on \
                    the drive,\n  with --users N, --model NAME, --duration 5m and \
                    --generation-mode none";
        writeln!(out, "  {}", style.bold(text))?;
    }
    out.flush()
}

/// Writes what a run came to, after it.
pub fn print_summary(
    out: &mut dyn Write,
    style: Style,
    result: &RunResult,
    document: &Document,
) -> std::io::Result<()> {
    out.write_all(summary(style, result, document).as_bytes())?;
    out.flush()
}

/// `document` is that of the result.
pub(super) fn summary(style: Style, result: &RunResult, document: &Document) -> String {
    let mut summary = Summary { text: String::new(), style, result, document };
    match result.plan.details {
        true => summary.in_full(),
        false => summary.in_short(),
    }
    summary.text
}

/// A number with so many decimals; a dash where it is unknown.
fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// A share as a percentage; a dash where it is unknown.
fn percent(share: Option<f64>, decimals: usize) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.decimals$} %", share * 100.0))
}

/// Text of a recording's other figures, as far as it has them.
fn recording(stats: &ValidationTraceStats) -> String {
    let of = |value: Option<f64>, what: &str| value.map(|value| format!("{value:.1} {what}"));
    let means = [
        of(stats.context_tokens_mean, "tokens of context"),
        of(stats.generation_tokens_mean, "tokens generated"),
    ];
    let means: Vec<String> = means.into_iter().flatten().collect();
    let means = (!means.is_empty()).then(|| format!("mean: {}", means.join(", ")));
    let ratio = of(stats.read_write_ratio, "bytes read per byte written");
    let parts = [Some(counted(stats.total_requests, "recorded request")), means, ratio];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The end of the octave that the 99th percentile lies in.
fn p99_us(buckets: &[Bucket]) -> Option<u64> {
    let all = total(buckets.iter().map(|bucket| bucket.count));
    let mut so_far = 0u64;
    let mut buckets = buckets.iter().filter(|_| all > 0);
    let holding = buckets.find(|bucket| {
        so_far = so_far.saturating_add(bucket.count);
        so_far as f64 >= 0.99 * all as f64
    });
    holding.map(|bucket| bucket.high.saturating_add(1))
}

/// Lines of a sentence of any length after what stands before it, broken between words to fit the
/// screen; the lines after the first begin at column `indent`.
pub(super) fn wrapped(style: Style, before: &str, indent: usize, sentence: &str) -> String {
    let (mut text, mut before) = (String::new(), before.to_owned());
    for line in prose::lines(sentence, (before.chars().count(), indent), prose::WIDTH) {
        text.push_str(&format!("{before}{}\n", style.warn(&line)));
        before = " ".repeat(indent);
    }
    text
}

/// A summary in the making, and the run that it is of.
pub(super) struct Summary<'a> {
    pub text: String,
    pub style: Style,
    /// Result of the run; its plan decides how much is written.
    pub result: &'a RunResult,
    /// Document of the result.
    pub document: &'a Document,
}

/// Ways to write something.
impl Summary<'_> {
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a label and its text, which goes on below its own beginning.
    pub(super) fn labelled(&mut self, label: &str, sentence: &str) {
        self.wrapped(&format!("  {label:<12} "), LABEL, sentence);
    }

    /// Writes a sentence after what stands before it, the lines after the first from column
    /// `indent` on.
    pub(super) fn wrapped(&mut self, before: &str, indent: usize, sentence: &str) {
        self.text.push_str(&wrapped(Style::PLAIN, before, indent, sentence));
    }

    /// Writes a sentence in the colour of a warning.
    fn remark(&mut self, sentence: &str) {
        self.text.push_str(&wrapped(self.style, "  ", 4, sentence));
    }

    /// Writes a table with its head set apart.
    pub(super) fn table(&mut self, table: &Table) {
        let lines = table.lines();
        self.line(&self.style.bold(&lines[0]));
        lines[1..].iter().for_each(|line| self.line(line));
    }

    pub(super) fn warn(&self, text: &str) -> String {
        self.style.warn(text)
    }
}

impl Summary<'_> {
    /// Writes everything (`--details`).
    fn in_full(&mut self) {
        self.heading("");
        self.limit();
        self.storage();
        self.source();
        let hit_rate = percent(self.document.ringfall.cache.look_hit_rate.known(), 1);
        self.line(&format!("  service      {}   hit rate {hit_rate}", self.service()));
        self.failed();
        self.served();
        self.time();
        self.metrics();
        self.latencies();
        self.reuse();
        self.tiers();
        self.working_set();
        self.within_target();
        self.health();
        self.depth();
        self.cost();
        self.device();
        self.limits();
        self.verified();
        self.failures();
        self.warnings();
    }

    /// Writes how long it was and how it ended, and `more` behind that.
    pub(super) fn heading(&mut self, more: &str) {
        let seconds = self.result.window.seconds;
        let state = match (self.result.interrupted, &self.result.failure) {
            (true, _) => " (interrupted)",
            (false, Some(_)) => " (failed)",
            (false, None) => "",
        };
        let heading = self.style.heading(&format!("Results over {seconds:.1} s{state}"));
        self.line(&format!("\n{heading}{more}"));
    }

    /// Writes what a search, a replay or a trace came to; nothing of simulated users.
    pub(super) fn source(&mut self) {
        let result = self.result;
        self.search();
        if let Some((operations, (objects, bytes))) =
            result.source.operations.zip(result.source.populated)
        {
            let arrived = result.workload.arrived;
            self.line(&format!("  replayed     {arrived} of {operations} operations"));
            let (gib, failed) = (gib(bytes), result.population_failed);
            let but = if failed > 0 { format!(", but for {failed}") } else { String::new() };
            let entries = counted(objects, "entry");
            self.line(&format!("               {entries} ({gib:.2} GiB) written before{but}"));
        }
        if let Some(rate) = self.document.ringfall.source.block_hit_rate.known() {
            let (hits, misses) = (result.workload.block_hits, result.workload.block_misses);
            let (rate, all) = (rate * 100.0, hits + misses);
            self.line(&format!("  blocks       {rate:.2} % found ({hits} of {all})"));
        }
        self.recorded();
    }

    /// Rates at which requests were served, and how many.
    pub(super) fn service(&self) -> String {
        let summary = &self.document.summary;
        let per_second = number(summary.requests_per_second.known(), 2);
        let rates = match self.result.source.operations {
            Some(_) => format!("{per_second} operations/s"),
            None => {
                let tokens = number(summary.avg_throughput_tokens_per_sec.known(), 1);
                format!("{tokens} tokens/s   {per_second} requests/s")
            }
        };
        format!("{rates}   {} completed", self.result.requests.completed())
    }

    /// Writes how many requests failed, below those that were served; nothing where none did.
    pub(super) fn failed(&mut self) {
        let failed = self.result.requests.failed;
        if failed > 0 {
            let sentence = format!("{failed} failed; they count in no throughput and no latency");
            self.labelled("", &sentence);
        }
    }

    /// Writes the bytes that storage moved, and the simulated part of them. Without a drive nothing
    /// moved, so storage can't have held anything up.
    pub(super) fn storage(&mut self) {
        let result = self.result;
        let (engine, io) = (&result.engine, &self.document.ringfall.io);
        let (read, written) = (gib(engine.io_read.bytes), gib(engine.io_write.bytes));
        let moved = gib(engine.io_read.bytes + engine.io_write.bytes);
        if is_without_drive(result) {
            let sentence = format!(
                "no drive: {moved:.1} GiB asked for ({read:.1} read, {written:.1} written), none \
                 moved"
            );
            self.labelled("storage", &sentence);
        } else {
            let rates = [&io.read, &io.write].map(|one| one.bandwidth_gib_per_s.known());
            let both = rates[0].zip(rates[1]).map(|(read, write)| read + write);
            let total = self.style.bold(&format!("{} GiB/s", number(both, 3)));
            let is_uneven = result.warnings.iter().any(|warning| warning.code == Code::NotSteady);
            let (mark, gap) = if is_uneven { (", unsteady", "  ") } else { ("", "   ") };
            let [read, write] = rates.map(|rate| number(rate, 3));
            self.line(&format!(
                "  storage      {total}{mark}{gap}read {read}{gap}write {write}{gap}({moved:.1} \
                 GiB moved)"
            ));
        }
        let Some(simulation) = &result.simulation else { return };
        if !is_without_drive(result) {
            let device = escape::terminal(&simulation.device.to_string());
            self.line(&format!("  simulated    {device}"));
        }
        if let Some(trace) = simulation.io_trace.as_ref() {
            let file = escape::terminal(&trace.file);
            self.line(&format!("  trace        {} rows in {file}", trace.rows));
        }
    }

    /// Writes the comparison of the hit rate with a recorded one.
    fn recorded(&mut self) {
        let document = self.document;
        if let Some(validation) = document.ringfall.validation.as_ref() {
            let recorded =
                format!("recorded hit rate {:.1} %", validation.recorded_hit_rate * 100.0);
            let sentence = match (validation.passed, validation.relative_error) {
                (Some(passed), Some(error)) => {
                    let verdict = if passed { "agrees" } else { "does not agree" };
                    format!("{verdict}: {recorded}, off by {:.2} %", error * 100.0)
                }
                _ => format!("nothing to compare: {recorded}, and this run read nothing"),
            };
            self.labelled("validation", &sentence);
        }
        if let Some(compared) = document.validation.as_ref() {
            self.labelled("", &recording(&compared.trace_stats));
        }
    }

    /// Writes what each tier holds.
    pub(super) fn tiers(&mut self) {
        let result = self.result;
        for (tier, name) in Tier::ALL.into_iter().zip(["GPU tier", "CPU tier", "storage tier"]) {
            let state = result.tiers[tier.index()];
            if state.capacity_bytes > 0 {
                let backing = gpu::backing(tier, result.gpu.as_ref());
                let left = result.engine.evicted_entries(tier);
                self.line(&format!(
                    "  {name:<12} {}, {:.1} of {:.1} GiB, {left} evicted{backing}",
                    counted(state.entries, "entry"),
                    gib(state.used_bytes),
                    gib(state.capacity_bytes),
                ));
            }
        }
        if result.plan.is_without_storage {
            let dropped = result.engine.refused_entries;
            self.line(&format!(
                "  storage tier left out: {dropped} entries fitted in no tier and were dropped"
            ));
        }
    }

    /// Share of each class's requests within its target: of those that finished, as the reference
    /// has it, and of all.
    fn within_target(&mut self) {
        let document = self.document;
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let rows = document.ringfall.requests.as_ref().map(RequestsReport::rows);
        let class = |(name, all): &(&str, &RequestsOfClass)| {
            let of_all = all.within_target_told(percent)?;
            let of_finished = document.summary.share_within_target(name);
            let of_finished = of_finished.map_or("-".to_owned(), percent);
            Some(format!("{name} {of_finished} / {of_all} %"))
        };
        let classes: Vec<String> = rows.iter().flatten().filter_map(class).collect();
        if classes.is_empty() {
            return;
        }
        self.labelled("SLO met", &classes.join(", "));
        let goal = COMPLIANCE * 100.0;
        let legend = format!(
            "(share of finished requests / of all, a range where unfinished ones decide; goal \
             {goal:.0} %)"
        );
        self.labelled("", &legend);
    }

    /// Writes the queue depth that was searched for, and how it was found; nothing where there was
    /// no search.
    pub(super) fn depth(&mut self) {
        if let Some(found) = &self.result.queue_depth {
            let before = format!("  queue depth  {}: ", found.chosen);
            self.wrapped(&before, LABEL, &found.told());
        }
    }

    /// Writes the processor's time and the memory.
    fn cost(&mut self) {
        let cost = &self.document.ringfall.cost;
        let per_gib = cost.cpu_s_per_gib.known();
        let per_gib = per_gib.map_or("-".to_owned(), |cost| format!("{cost:.3} CPU-s/GiB"));
        let peak = cost.peak_rss_bytes.known();
        let peak = peak.map_or("-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        self.line(&format!("  cost         {per_gib}   peak RSS {peak}"));
    }

    /// Writes how much of the drive's limits the run used, where they are known.
    pub(super) fn limits(&mut self) {
        let ours = &self.document.ringfall;
        let Some(roofline) = &ours.roofline else { return };
        let of = |moved: Option<f64>, limit: Option<f64>| {
            let share = moved.zip(limit).map(|(moved, limit)| moved / limit);
            format!("{} of {}", percent(share, 0), number(limit, 3))
        };
        let (read, write) = (ours.io.read.bandwidth_gib_per_s, ours.io.write.bandwidth_gib_per_s);
        let sentence = format!(
            "{} of it used: read {}, write {} GiB/s ({})",
            percent(roofline.share.known(), 1),
            of(read.known(), roofline.read_gib_per_s.known()),
            of(write.known(), roofline.write_gib_per_s.known()),
            roofline.source,
        );
        self.labelled("drive limit", &sentence);
    }

    /// Writes what was verified, and how many errors there were.
    pub(super) fn verified(&mut self) {
        let engine = &self.result.engine;
        if !is_without_drive(self.result) {
            self.line(&format!(
                "  verified     {}, {} bad   first writes {:.1} GiB   errors {}",
                counted(engine.verify.blocks_checked, "block"),
                engine.verify.blocks_bad,
                gib(engine.first_touch_bytes),
                engine.error_count(),
            ));
        }
    }

    /// Writes what went wrong.
    pub(super) fn failures(&mut self) {
        for error in self.result.errors.iter().take(3) {
            self.remark(&format!("error: {}", told_io(error)));
        }
        if let Some(failure) = &self.result.failure {
            self.remark(&format!("failed: {failure}"));
        }
    }

    /// Writes the warnings.
    fn warnings(&mut self) {
        for Warning { text: sentence, flag_to_try, .. } in &self.result.warnings {
            let flag = flag_to_try.as_ref().map_or(String::new(), |f| format!(" [try {f}]"));
            self.remark(&format!("note: {sentence}{flag}"));
        }
    }

    /// Writes the table of several drives, and the share of bytes that crossed NUMA nodes by drive;
    /// nothing of that where it is unknown.
    fn drives(&mut self) {
        let drives = &self.document.ringfall.drives[..];
        let p95 = |one: &DriveDirection| one.latency_p95_us.map(|us| us / 1e3);
        let table = Table::of(drives)
            .text("drives, GiB/s", |drive| format!("  {}", prose::short_path(&drive.path)))
            .number("read", fixed(3), |drive| drive.read.gib_per_s)
            .number("write", fixed(3), |drive| drive.write.gib_per_s)
            .number("share", table::percent, |drive| drive.share)
            .number("depth", fixed(1), |drive| drive.mean_depth)
            .number("read P95", human_time, |drive| p95(&drive.read))
            .number("write P95", human_time, |drive| p95(&drive.write))
            .text("", |drive| {
                drive.failed_s.map_or(String::new(), |at| format!(" failed at {at:.1} s"))
            })
            .widths(&[20, 7, 8, 8, 6, 9, 10])
            .done();
        if drives.len() > 1 {
            self.text.push_str(&table.page());
        }
        let told = |drive: &DriveReport| {
            let (node, share) = (drive.numa_node?, drive.remote_share()?);
            let path = escape::terminal(&prose::short_path(&drive.path));
            Some(format!("{path} (node {node}) {}", percent(Some(share), 1)))
        };
        let remote: Vec<String> = drives.iter().filter_map(told).collect();
        if !remote.is_empty() {
            let sentence = format!("bytes from or to shards on other nodes: {}", remote.join(", "));
            self.labelled("NUMA", &sentence);
        }
    }

    /// Writes the kernel's counters beside the engine's; in short of what is as it should be the
    /// figure alone.
    pub(super) fn device(&mut self) {
        let (result, ours) = (self.result, &self.document.ringfall);
        let is_whole = result.plan.details;
        self.drives();
        let moved = result.engine.io_read.bytes + result.engine.io_write.bytes;
        if let Some(kernel) = &result.kernel {
            // Where the run moved nothing, a few sectors of the file system's are no disagreement.
            let ratio = ours.device.agreement.as_ref().and_then(|found| found.total_ratio);
            let ratio = ratio.filter(|_| moved > 0);
            let together = ours.device.correlation.as_ref().and_then(|found| found.pearson_r);
            let together = together.filter(|_| is_whole);
            let sentence = format!(
                "{} counted {:.2} GiB, ringfall {:.2} GiB{}{}",
                kernel.device,
                gib(kernel.read_bytes + kernel.write_bytes),
                gib(moved),
                ratio.map_or(String::new(), |r| format!(" ({:+.2} %)", (r - 1.0) * 100.0)),
                together.map_or(String::new(), |r| format!(", by the second r = {r:.3}")),
            );
            self.labelled("kernel", &sentence);
        }
        if let Some(objects) = &result.objects {
            self.labelled("object store", &objects.sentence());
        }
        if let Some(files) = &result.files {
            self.labelled("layout", &files.sentence());
        }
        if let Some(cold) = ours.device.cold_reads.as_ref() {
            let told = match (is_whole, cold.verdict, cold.reached_share) {
                (false, ColdVerdict::Reached, Some(share)) => {
                    let below = if cold.below.is_empty() { "" } else { "; a cache may lie below" };
                    format!("{} of bytes read reached the device{below}", percent(Some(share), 1))
                }
                _ => cold.told.clone(),
            };
            self.labelled("cold reads", &told);
        }
        for log in ours.device.drive_logs.iter().filter(|_| is_whole) {
            self.labelled("drive log", &log.told());
        }
        if let Some(trace) = ours.block_trace.as_ref() {
            for (name, direction) in [("read", &trace.read), ("write", &trace.write)] {
                let size = quotient(direction.bytes, direction.requests).unwrap_or(0.0);
                let p99_us = p99_us(&direction.issue_to_complete_us);
                self.line(&format!(
                    "  block layer  {name:<5} {} requests of {:.0} KiB, device mean {} ms, P99 < \
                     {} ms",
                    direction.requests,
                    size / 1024.0,
                    number(direction.latency_mean_us.map(|us| us / 1e3), 2),
                    number(p99_us.map(|us| us as f64 / 1e3), 2),
                ));
            }
        }
    }
}
