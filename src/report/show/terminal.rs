//! Text for the terminal: the banner before a run, the summary after it. One screen, 80 columns.

use std::fmt::Write as _;
use std::io::Write;

use ringfall_config::{Named as _, Plan};
use ringfall_core::key::Tier;
use ringfall_core::units::gib;
use ringfall_host::remedy::told_io;
use ringfall_host::{counted, escape};
use ringfall_model::cold::ColdVerdict;
use ringfall_model::document::{DriveDirection, DriveReport, RequestsReport};
use ringfall_model::facts::{Bucket, GpuOutcome, TierShortage, quotient};
use ringfall_model::sla::COMPLIANCE;
use ringfall_model::source::ValidationTraceStats;
use ringfall_model::{Code, Document, RunResult, Warning, autoscaling, is_without_drive};

use super::latency::{latencies, short_ms};
use super::table::{Table, fixed};
use super::who::who;
use super::{depth, gpu, prose, short, table, total, verdict};

/// Whether to colour. Colour never carries meaning alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Escape sequences may be written.
    pub colour: bool,
}

impl Style {
    /// Colour on a terminal only, and not where NO_COLOR is set to anything but nothing
    /// (<https://no-color.org>).
    #[must_use]
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
    #[must_use]
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
    writeln!(
        out,
        "  engine    {}{}, I/O {} KiB × {}, {} MiB of buffers",
        counted(plan.shards.into(), "shard"),
        if plan.pin { " (pinned)" } else { "" },
        plan.io_size_bytes / 1024,
        depth::planned(plan),
        banner.buffer_bytes >> 20,
    )?;
    writeln!(
        out,
        "            durability {}, verify {}, preallocate {}{}{}",
        plan.durability.name(),
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

/// Writes the banner.
///
/// # Errors
/// Returns the error of the writer.
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
        gpu::banner_lines(out, style, plan, gpu)?;
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
        let text = "A small demonstration run. For a real one: --cache-dir DIR on the drive, \
                    --users N,\n  --model NAME, --cpu-mem-gb 0, --storage-capacity-gb 0 (all of \
                    it), --duration 300,\n  --generation-mode none";
        writeln!(out, "  {}", style.bold(text))?;
    }
    out.flush()
}

/// Writes the summary.
///
/// # Errors
/// Returns the error of the writer.
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
    let mut text = String::new();
    // Writing to a String can't fail.
    let _infallible = match result.plan.details {
        true => in_full(&mut text, style, result, document),
        false => short::summary(&mut text, style, result, document),
    };
    text
}

/// Writes everything (`--details`).
fn in_full(
    text: &mut String,
    style: Style,
    result: &RunResult,
    document: &Document,
) -> std::fmt::Result {
    heading(text, style, result, "")?;
    verdict::limit(text, document)?;
    storage(text, style, result, document)?;
    source(text, result, document)?;
    let hit_rate = percent(document.ringfall.cache.look_hit_rate.known(), 1);
    writeln!(text, "  service      {}   hit rate {hit_rate}", service(result, document))?;
    verdict::served(text, document)?;
    verdict::time(text, document)?;
    verdict::metrics(text, document)?;
    latencies(text, style, result, document)?;
    tiers(text, result)?;
    within_target(text, document)?;
    if let Some(health) = document.summary.cache_stats.storage_health.as_ref() {
        verdict::health(text, style, health)?;
    }
    depth::line(text, result)?;
    cost(text, document)?;
    device(text, result, document, Detail::Whole)?;
    limits(text, document)?;
    checks(text, style, result)?;
    warnings(text, style, result, Detail::Whole)
}

/// Amount of text on whether a run can be trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Every sentence.
    Whole,
    /// Where something is wrong the sentence that says so, and else the figure alone.
    Short,
}

/// A number with so many decimals; a dash where it is unknown.
fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// A share as a percentage; a dash where it is unknown.
fn percent(share: Option<f64>, decimals: usize) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.decimals$} %", share * 100.0))
}

/// Writes how long it was and how it ended, and `more` behind that.
pub(super) fn heading(
    text: &mut String,
    style: Style,
    result: &RunResult,
    more: &str,
) -> std::fmt::Result {
    let seconds = result.window.seconds;
    let state = match (result.interrupted, &result.failure) {
        (true, _) => " (interrupted)",
        (false, Some(_)) => " (failed)",
        (false, None) => "",
    };
    let heading = style.heading(&format!("Results over {seconds:.1} s{state}"));
    writeln!(text, "\n{heading}{more}")
}

/// Writes what a search, a replay or a trace came to; nothing of simulated users.
pub(super) fn source(
    text: &mut String,
    result: &RunResult,
    document: &Document,
) -> std::fmt::Result {
    for (label, line) in autoscaling::lines(result) {
        writeln!(text, "  {label:<12} {}", escape::terminal(&line))?;
    }
    if let Some((operations, (objects, bytes))) =
        result.source.operations.zip(result.source.populated)
    {
        writeln!(text, "  replayed     {} of {operations} operations", result.workload.arrived)?;
        let (gib, failed) = (gib(bytes), result.population_failed);
        let but = if failed > 0 { format!(", but for {failed}") } else { String::new() };
        writeln!(
            text,
            "               {} ({gib:.2} GiB) written before{but}",
            counted(objects, "entry")
        )?;
    }
    let (hits, misses) = (result.workload.block_hits, result.workload.block_misses);
    if let Some(rate) = document.ringfall.source.block_hit_rate.known() {
        writeln!(text, "  blocks       {:.2} % found ({hits} of {})", rate * 100.0, hits + misses)?;
    }
    recorded(text, document)
}

/// Rates at which requests were served, and how many.
pub(super) fn service(result: &RunResult, document: &Document) -> String {
    let summary = &document.summary;
    let per_second = number(summary.requests_per_second.known(), 2);
    let rates = match result.source.operations {
        Some(_) => format!("{per_second} operations/s"),
        None => {
            let tokens = number(summary.avg_throughput_tokens_per_sec.known(), 1);
            format!("{tokens} tokens/s   {per_second} requests/s")
        }
    };
    format!("{rates}   {} served", result.requests.completed())
}

/// Writes the bytes that storage moved, and the simulated part of them. Without a drive nothing
/// moved, so storage can't have held anything up.
pub(super) fn storage(
    text: &mut String,
    style: Style,
    result: &RunResult,
    document: &Document,
) -> std::fmt::Result {
    let (engine, io) = (&result.engine, &document.ringfall.io);
    let rates =
        [io.read.bandwidth_gib_per_s, io.write.bandwidth_gib_per_s].map(|rate| rate.known());
    let (read, written) = (engine.io_read.bytes, engine.io_write.bytes);
    if is_without_drive(result) {
        let (asked, (read, written)) = (gib(read + written), (gib(read), gib(written)));
        let sentence = format!(
            "no drive: {asked:.1} GiB asked for ({read:.1} read, {written:.1} written), none moved"
        );
        verdict::labelled(text, "storage", &sentence)?;
    } else {
        let both = rates[0].zip(rates[1]).map(|(read, write)| read + write);
        let total = style.bold(&format!("{} GiB/s", number(both, 3)));
        let is_uneven = result.warnings.iter().any(|warning| warning.code == Code::NotSteady);
        let (mark, gap) = if is_uneven { (", unsteady", "  ") } else { ("", "   ") };
        writeln!(
            text,
            "  storage      {total}{mark}{gap}read {}{gap}write {}{gap}({:.1} GiB moved)",
            number(rates[0], 3),
            number(rates[1], 3),
            gib(read + written)
        )?;
    }
    let Some(simulation) = &result.simulation else { return Ok(()) };
    if !is_without_drive(result) {
        writeln!(text, "  simulated    {}", escape::terminal(&simulation.device.to_string()))?;
        let (binds, why) = (&simulation.binds, &simulation.because);
        remark(text, Style { colour: false }, &format!("bound by {binds}: {why}"))?;
    }
    if let Some(trace) = simulation.io_trace.as_ref() {
        let file = escape::terminal(&trace.file);
        writeln!(text, "  trace        {} rows in {file}", trace.rows)?;
    }
    Ok(())
}

/// Writes the comparison of the hit rate with a recorded one.
fn recorded(text: &mut String, document: &Document) -> std::fmt::Result {
    if let Some(validation) = document.ringfall.validation.as_ref() {
        let recorded = format!("recorded hit rate {:.1} %", validation.recorded_hit_rate * 100.0);
        let sentence = match (validation.passed, validation.relative_error) {
            (Some(passed), Some(error)) => {
                let verdict = if passed { "agrees" } else { "does not agree" };
                format!("{verdict}: {recorded}, off by {:.2} %", error * 100.0)
            }
            _ => format!("nothing to compare: {recorded}, and this run read nothing"),
        };
        verdict::labelled(text, "validation", &sentence)?;
    }
    if let Some(stats) = document.validation.as_ref().map(|compared| &compared.trace_stats) {
        verdict::labelled(text, "", &recording(stats))?;
    }
    Ok(())
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

/// Writes what each tier holds.
pub(super) fn tiers(text: &mut String, result: &RunResult) -> std::fmt::Result {
    for (tier, name) in Tier::ALL.into_iter().zip(["GPU tier", "CPU tier", "storage tier"]) {
        let state = result.tiers[tier.index()];
        if state.capacity_bytes > 0 {
            let backing = gpu::backing(tier, result.gpu.as_ref());
            let left = result.engine.evicted_entries(tier);
            writeln!(
                text,
                "  {name:<12} {}, {:.1} of {:.1} GiB, {left} evicted{backing}",
                counted(state.entries, "entry"),
                gib(state.used_bytes),
                gib(state.capacity_bytes),
            )?;
        }
    }
    if result.plan.is_without_storage {
        let dropped = result.engine.refused_entries;
        writeln!(
            text,
            "  storage tier left out: {dropped} entries fitted in no tier and were dropped"
        )?;
    }
    Ok(())
}

/// Share of each class's requests within its target: of those that finished, as the reference has
/// it, and of all.
fn within_target(text: &mut String, document: &Document) -> std::fmt::Result {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let mut classes = Vec::new();
    let rows = document.ringfall.requests.as_ref().map(RequestsReport::rows);
    for (name, all) in rows.iter().flatten() {
        if let Some(of_all) = all.within_target_told(percent) {
            let of_finished = document.summary.share_within_target(name);
            let of_finished = of_finished.map_or("-".to_owned(), percent);
            classes.push(format!("{name} {of_finished} / {of_all} %"));
        }
    }
    if classes.is_empty() {
        return Ok(());
    }
    verdict::labelled(text, "in target", &classes.join(", "))?;
    let goal = COMPLIANCE * 100.0;
    let legend = format!(
        "(share of finished requests / of all, a range where unfinished ones decide; goal \
         {goal:.0} %)"
    );
    verdict::labelled(text, "", &legend)
}

/// Writes the processor's time and the memory.
fn cost(text: &mut String, document: &Document) -> std::fmt::Result {
    let cost = &document.ringfall.cost;
    let per_gib = cost.cpu_s_per_gib.known();
    let peak = cost.peak_rss_bytes.known();
    writeln!(
        text,
        "  cost         {}   peak RSS {}",
        per_gib.map_or("-".to_owned(), |cost| format!("{cost:.3} CPU-s/GiB")),
        peak.map_or("-".to_owned(), |bytes| format!("{} MiB", bytes >> 20)),
    )
}

/// Writes how much of the drive's limits the run used, where they are known.
pub(super) fn limits(text: &mut String, document: &Document) -> std::fmt::Result {
    let ours = &document.ringfall;
    let Some(roofline) = &ours.roofline else { return Ok(()) };
    let of = |moved: Option<f64>, limit: Option<f64>| {
        let share = moved.zip(limit).map(|(moved, limit)| moved / limit);
        format!("{} of {}", percent(share, 0), number(limit, 3))
    };
    let (read, write) = (ours.io.read.bandwidth_gib_per_s, ours.io.write.bandwidth_gib_per_s);
    let sentence = format!(
        "{} of the drive's limit: read {}, write {} GiB/s ({})",
        percent(roofline.share.known(), 1),
        of(read.known(), roofline.read_gib_per_s.known()),
        of(write.known(), roofline.write_gib_per_s.known()),
        roofline.source,
    );
    verdict::labelled(text, "roofline", &sentence)
}

/// Writes what was verified and what went wrong.
pub(super) fn checks(text: &mut String, style: Style, result: &RunResult) -> std::fmt::Result {
    let engine = &result.engine;
    if !is_without_drive(result) {
        writeln!(
            text,
            "  verified     {}, {} bad   first touch {:.1} GiB   errors {}",
            counted(engine.verify.blocks_checked, "block"),
            engine.verify.blocks_bad,
            gib(engine.first_touch_bytes),
            engine.error_count(),
        )?;
    }
    for error in result.errors.iter().take(3) {
        remark(text, style, &format!("error: {}", told_io(error)))?;
    }
    match &result.failure {
        Some(failure) => remark(text, style, &format!("failed: {failure}")),
        None => Ok(()),
    }
}

/// Writes the warnings.
pub(super) fn warnings(
    text: &mut String,
    style: Style,
    result: &RunResult,
    detail: Detail,
) -> std::fmt::Result {
    for Warning { text: sentence, flag_to_try, .. } in &result.warnings {
        let flag = flag_to_try.as_ref().map_or(String::new(), |f| format!(" [try {f}]"));
        let note = match detail {
            Detail::Whole => format!("note: {sentence}{flag}"),
            Detail::Short => short::note(sentence, &flag),
        };
        remark(text, style, &note)?;
    }
    Ok(())
}

/// Writes the table of several drives.
fn drives(text: &mut String, drives: &[DriveReport]) -> std::fmt::Result {
    if drives.len() < 2 {
        return Ok(());
    }
    let p95 = |one: &DriveDirection| one.latency_p95_us.map(|us| us / 1e3);
    let table = Table::of(drives)
        .text("drives, GiB/s", |drive| format!("  {}", prose::short_path(&drive.path)))
        .number("read", fixed(3), |drive| drive.read.gib_per_s)
        .number("write", fixed(3), |drive| drive.write.gib_per_s)
        .number("share", table::percent, |drive| drive.share)
        .number("depth", fixed(1), |drive| drive.mean_depth)
        .number("read P95", short_ms, |drive| p95(&drive.read))
        .number("write P95", short_ms, |drive| p95(&drive.write))
        .text("", |drive| {
            drive.failed_s.map_or(String::new(), |at| format!(" failed at {at:.1} s"))
        })
        .widths(&[20, 7, 8, 8, 6, 9, 10])
        .done();
    text.push_str(&table.page());
    Ok(())
}

/// Writes the share of bytes that crossed NUMA nodes, by drive; nothing where it is unknown.
fn remote(text: &mut String, drives: &[DriveReport]) -> std::fmt::Result {
    let told = |drive: &DriveReport| {
        let (node, share) = (drive.numa_node?, drive.remote_share()?);
        let path = escape::terminal(&prose::short_path(&drive.path));
        Some(format!("{path} (node {node}) {}", percent(Some(share), 1)))
    };
    let all: Vec<String> = drives.iter().filter_map(told).collect();
    if all.is_empty() {
        return Ok(());
    }
    let sentence = format!("bytes from or to shards on other nodes: {}", all.join(", "));
    verdict::labelled(text, "NUMA", &sentence)
}

/// Writes the kernel's counters beside the engine's.
pub(super) fn device(
    text: &mut String,
    result: &RunResult,
    document: &Document,
    detail: Detail,
) -> std::fmt::Result {
    let ours = &document.ringfall;
    drives(text, &ours.drives)?;
    remote(text, &ours.drives)?;
    let moved = result.engine.io_read.bytes + result.engine.io_write.bytes;
    if let Some(kernel) = &result.kernel {
        // Where the run moved nothing, a few sectors of the file system's are no disagreement.
        let ratio = ours.device.agreement.as_ref().and_then(|found| found.total_ratio);
        let ratio = ratio.filter(|_| moved > 0);
        let together = ours.device.correlation.as_ref().and_then(|found| found.pearson_r);
        let together = together.filter(|_| detail == Detail::Whole);
        let sentence = format!(
            "{} counted {:.2} GiB, ringfall {:.2} GiB{}{}",
            kernel.device,
            gib(kernel.read_bytes + kernel.write_bytes),
            gib(moved),
            ratio.map_or(String::new(), |r| format!(" ({:+.2} %)", (r - 1.0) * 100.0)),
            together.map_or(String::new(), |r| format!(", by the second r = {r:.3}")),
        );
        verdict::labelled(text, "kernel", &sentence)?;
    }
    if let Some(objects) = &result.objects {
        verdict::labelled(text, "object store", &objects.sentence())?;
    }
    if let Some(cold) = ours.device.cold_reads.as_ref() {
        let told = match (detail, cold.verdict, cold.reached_share) {
            (Detail::Short, ColdVerdict::Reached, Some(share)) => {
                let below = if cold.below.is_empty() { "" } else { "; a cache may lie below" };
                format!("{} of bytes read reached the device{below}", percent(Some(share), 1))
            }
            _ => cold.told.clone(),
        };
        verdict::labelled(text, "cold reads", &told)?;
    }
    if let Some(trace) = ours.block_trace.as_ref() {
        for (name, direction) in [("read", &trace.read), ("write", &trace.write)] {
            let size = quotient(direction.bytes, direction.requests).unwrap_or(0.0);
            writeln!(
                text,
                "  block layer  {name:<5} {} requests of {:.0} KiB, device mean {} ms, P99 < {} ms",
                direction.requests,
                size / 1024.0,
                direction.latency_mean_us.map_or("-".to_owned(), |us| format!("{:.2}", us / 1e3)),
                p99_us(&direction.issue_to_complete_us)
                    .map_or("-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3)),
            )?;
        }
    }
    Ok(())
}

/// The end of the octave that the 99th percentile lies in.
fn p99_us(buckets: &[Bucket]) -> Option<u64> {
    let all = total(buckets.iter().map(|bucket| bucket.count));
    let mut so_far = 0u64;
    let mut holds = |bucket: &&Bucket| {
        so_far = so_far.saturating_add(bucket.count);
        so_far as f64 >= 0.99 * all as f64
    };
    (all > 0)
        .then(|| buckets.iter().find(|bucket| holds(bucket)))
        .flatten()
        .map(|bucket| bucket.high.saturating_add(1))
}

/// A sentence of any length, broken between words to fit the screen.
fn remark(text: &mut String, style: Style, sentence: &str) -> std::fmt::Result {
    wrapped(text, style, "  ", 4, sentence)
}

/// The same after what stands before it; the lines after the first begin at column `indent`.
pub(super) fn wrapped(
    text: &mut String,
    style: Style,
    before: &str,
    indent: usize,
    sentence: &str,
) -> std::fmt::Result {
    let mut before = before.to_owned();
    for line in prose::lines(sentence, (before.chars().count(), indent), prose::WIDTH) {
        writeln!(text, "{before}{}", style.warn(&line))?;
        before = " ".repeat(indent);
    }
    Ok(())
}
