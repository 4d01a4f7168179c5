//! What a person reads: the banner before, the summary after. One screen, 80 columns.

use std::fmt::Write as _;
use std::io::Write;

use ringfall_engine::metrics::IoMetrics;
use ringfall_engine::tier::Tier;
use ringfall_engine::units::{GIB, gib};
use ringfall_workloads::contract::Class;

use super::latency::{latencies, ms};
use super::who::who;
use super::{depth, gpu, prose, total, verdict};
use crate::config::{Named as _, Plan};
use crate::escape;
use crate::facts::{Bucket, GpuOutcome, TierShortage, class_index, metrics_by_drive, quotient};
use crate::host::counted;
use crate::remedy::told_io;
use crate::results::cold::ColdReads;
use crate::results::correlation::correlate;
use crate::results::sla::{COMPLIANCE, Sla};
use crate::results::{Document, RunResult, Warning, autoscaling, health, is_without_drive, source};

/// What fits every terminal.
pub(super) const COLUMNS: usize = 80;

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

    pub(crate) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// What will run, where, and what it will use.
pub struct Banner<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Directory of the data.
    pub directory: String,
    /// What is below it: file system and device, as far as known.
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

/// What storage can make of the content, where that is not as usual.
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
/// What the writer says.
pub fn print_banner(out: &mut dyn Write, style: Style, banner: &Banner<'_>) -> std::io::Result<()> {
    let plan = banner.plan;
    let title = format!("ringfall {}", env!("CARGO_PKG_VERSION"));
    writeln!(out, "{}  seed {}", style.heading(&title), plan.seed)?;
    writeln!(
        out,
        "  workload  {}, {}, generation {}, {} s{}",
        escape::terminal(&plan.model),
        escape::terminal(&who(plan)),
        plan.generation_mode.name(),
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
        writeln!(out, "  storage   {directory} ({below})")?;
    }
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
        "            durability {}, verify {}, preallocate {}",
        plan.durability.name(),
        plan.verify.name(),
        plan.preallocate.name(),
    )?;
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
/// What the writer says.
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
    let _infallible = headline(&mut text, style, result)
        .and_then(|()| verdict::served(&mut text, document))
        .and_then(|()| verdict::metrics(&mut text, document))
        .and_then(|()| latencies(&mut text, style, result))
        .and_then(|()| tiers(&mut text, style, result, document))
        .and_then(|()| depth::line(&mut text, result))
        .and_then(|()| footing(&mut text, style, result));
    text
}

fn headline(text: &mut String, style: Style, result: &RunResult) -> std::fmt::Result {
    let seconds = result.window.seconds;
    writeln!(text)?;
    let state = match (result.interrupted, &result.failure) {
        (true, _) => " (interrupted)",
        (false, Some(_)) => " (failed)",
        (false, None) => "",
    };
    writeln!(text, "{}", style.heading(&format!("Results over {seconds:.1} s{state}")))?;
    storage(text, style, result)?;
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
    if let Some(rate) = quotient(hits, hits + misses) {
        writeln!(text, "  blocks       {:.2} % found ({hits} of {})", rate * 100.0, hits + misses)?;
    }
    recorded(text, result)?;
    let requests = &result.requests;
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    writeln!(
        text,
        "  service      {:.1} tokens/s   {:.2} requests/s   {} served   hit rate {}",
        per_second(requests.generated_tokens),
        per_second(requests.completed()),
        requests.completed(),
        result.cache.hit_rate().map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 100.0)),
    )
}

/// What storage moved, and what of it was simulated. Without a drive nothing moved, and nothing of
/// it can have held anything up.
fn storage(text: &mut String, style: Style, result: &RunResult) -> std::fmt::Result {
    let (seconds, engine) = (result.window.seconds, &result.engine);
    let rate = |bytes: u64| if seconds > 0.0 { gib(bytes) / seconds } else { 0.0 };
    let (read, written) = (engine.io_read.bytes, engine.io_write.bytes);
    if is_without_drive(result) {
        let (asked, (read, written)) = (gib(read + written), (gib(read), gib(written)));
        let sentence = format!(
            "no drive: {asked:.1} GiB asked for ({read:.1} read, {written:.1} written), none moved"
        );
        verdict::labelled(text, "storage", &sentence)?;
    } else {
        let total = style.bold(&format!("{:.3} GiB/s", rate(read + written)));
        writeln!(
            text,
            "  storage      {total}   read {:.3}   write {:.3}   ({:.1} GiB moved)",
            rate(read),
            rate(written),
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

/// How the hit rate compares with a recorded one.
fn recorded(text: &mut String, result: &RunResult) -> std::fmt::Result {
    if let Some(validation) = source::validation(result) {
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
    if let Some(stats) = source::compared(result).map(|compared| compared.trace_stats) {
        verdict::labelled(text, "", &recording(&stats))?;
    }
    Ok(())
}

/// What a recording says besides its hit rate, as far as it has it.
fn recording(stats: &source::ValidationTraceStats) -> String {
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

fn tiers(
    text: &mut String,
    style: Style,
    result: &RunResult,
    document: &Document,
) -> std::fmt::Result {
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
    within_target(text, result, document)?;
    verdict::health(text, style, &health::judge(result))
}

/// Share of each class's requests within its target: of those that finished, as the reference has
/// it, and of all.
fn within_target(text: &mut String, result: &RunResult, document: &Document) -> std::fmt::Result {
    let Some(report) = document.ringfall.requests.as_ref() else { return Ok(()) };
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let mut classes = Vec::new();
    let slas = Sla::of(&result.plan.workload.qos_targets_ms);
    let of_classes = [&report.interactive, &report.responsive, &report.batch];
    for ((sla, class), of_class) in slas.iter().zip(Class::ALL).zip(of_classes) {
        if let Some(of_all) = of_class.within_target_told(percent) {
            let of_finished = sla.compliance(&result.requests.end_to_end[class_index(class)]);
            let of_finished = of_finished.map_or("-".to_owned(), percent);
            classes.push(format!("{} {of_finished} / {of_all} %", sla.class));
        }
    }
    if classes.is_empty() {
        return Ok(());
    }
    verdict::labelled(text, "in target", &classes.join(", "))?;
    let goal = COMPLIANCE * 100.0;
    let legend = format!("(of those finished / of all, a range if open; goal {goal:.0} %)");
    verdict::labelled(text, "", &legend)
}

fn footing(text: &mut String, style: Style, result: &RunResult) -> std::fmt::Result {
    let engine = &result.engine;
    let moved = engine.io_read.bytes + engine.io_write.bytes;
    let cost = &result.cost;
    let has_drive = !is_without_drive(result);
    let per_gib = cost.cpu_s_per_gib(moved).filter(|_| has_drive);
    writeln!(
        text,
        "  cost         {}   peak RSS {}",
        per_gib.map_or("-".to_owned(), |cost| format!("{cost:.3} CPU-s/GiB")),
        cost.peak_rss_bytes.map_or("-".to_owned(), |bytes| format!("{} MiB", bytes >> 20)),
    )?;
    device(text, result)?;
    if let Some((source, roofline)) = &result.roofline {
        let seconds = result.window.seconds;
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
        let share = roofline.share(rate(engine.io_read.bytes), rate(engine.io_write.bytes));
        let limit = |percent| {
            let limit = roofline.bandwidth(percent);
            limit.map_or("-".to_owned(), |bytes| format!("{:.3}", bytes / GIB as f64))
        };
        writeln!(
            text,
            "  roofline     {} of the device: read alone {}, write alone {} GiB/s ({source})",
            share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            limit(100),
            limit(0),
            source = escape::terminal(source),
        )?;
    }
    if has_drive {
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
    if let Some(failure) = &result.failure {
        remark(text, style, &format!("failed: {failure}"))?;
    }
    for Warning { text: sentence, flag_to_try, .. } in &result.warnings {
        let flag = flag_to_try.as_ref().map_or(String::new(), |f| format!(" [try {f}]"));
        remark(text, style, &format!("note: {sentence}{flag}"))?;
    }
    Ok(())
}

/// What each of several drives did.
fn drives(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let count = result.drives.len();
    if count < 2 {
        return Ok(());
    }
    writeln!(text, "  drives, GiB/s         read    write    share  depth  read P95  write P95")?;
    let seconds = result.window.seconds;
    let metrics = metrics_by_drive(&result.engine, count);
    let all_bytes: u64 = metrics.iter().map(|drive| drive.read.bytes + drive.write.bytes).sum();
    for (drive, metrics) in result.drives.iter().zip(&metrics) {
        let rate = |bytes: u64| if seconds > 0.0 { gib(bytes) / seconds } else { 0.0 };
        let share = quotient(metrics.read.bytes + metrics.write.bytes, all_bytes);
        let waited_ns = metrics.read.latency.sum_ns() + metrics.write.latency.sum_ns();
        let depth = if seconds > 0.0 { waited_ns as f64 / 1e9 / seconds } else { 0.0 };
        let p95 = |io: &IoMetrics| ms(io.latency.quantile_ns(0.95));
        writeln!(
            text,
            "    {:<19}{:>7.3} {:>8.3} {:>8} {depth:>6.1} {:>9} {:>10}{}",
            escape::terminal(&prose::short_path(&drive.path)),
            rate(metrics.read.bytes),
            rate(metrics.write.bytes),
            share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            p95(&metrics.read),
            p95(&metrics.write),
            drive.failed_s.map_or(String::new(), |at| format!("  failed at {at:.1} s")),
        )?;
    }
    Ok(())
}

/// What the kernel saw of it.
fn device(text: &mut String, result: &RunResult) -> std::fmt::Result {
    drives(text, result)?;
    let moved = result.engine.io_read.bytes + result.engine.io_write.bytes;
    if let Some(kernel) = &result.kernel {
        // Where the run moved nothing, a few sectors of the file system's are no disagreement.
        let counted_bytes = kernel.read_bytes + kernel.write_bytes;
        let ratio = quotient(moved, counted_bytes).filter(|_| moved > 0);
        let sentence = format!(
            "{} counted {:.2} GiB, ringfall {:.2} GiB{}{}",
            kernel.device,
            gib(counted_bytes),
            gib(moved),
            ratio.map_or(String::new(), |r| format!(" ({:+.2} %)", (r - 1.0) * 100.0)),
            correlate(&result.timeline, &result.kernel_seconds)
                .and_then(|found| found.pearson_r)
                .map_or(String::new(), |r| format!(", by the second r = {r:.3}")),
        );
        verdict::labelled(text, "kernel", &sentence)?;
    }
    if let Some(objects) = &result.objects {
        verdict::labelled(text, "object store", &objects.sentence())?;
    }
    if let Some(cold) = ColdReads::of_run(result) {
        verdict::labelled(text, "cold reads", &cold.told)?;
    }
    if let Some(Ok(trace)) = &result.block_trace {
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
    for line in prose::lines(sentence, (before.chars().count(), indent), COLUMNS) {
        writeln!(text, "{before}{}", style.warn(&line))?;
        before = " ".repeat(indent);
    }
    Ok(())
}
