//! A recorded trace before any drive is measured: its tokens and sessions, and the hit rates of
//! caches of all sizes.

use ringfall_core::units::gib;
use ringfall_host::{counted, human, human_time};
use ringfall_workloads::source::{Skipped, TraceFormat};
use ringfall_workloads::trace::{Tally, TraceFigures};
use serde::Serialize;

use super::prose::wrapped;
use super::table::Table;
use crate::suite::KvSize;

/// Layout of the file.
const TRACE_VERSION: u32 = 1;
/// Lines of the page: a screen, as long as no more sizes are asked for than fit on it.
const LINES_MAX: usize = 25;
/// Columns of the bar of a cache that finds all that can be found.
const BAR: f64 = 40.0;

/// Trace that was read, and the model by which its blocks have a size.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TraceHead {
    /// Version of ringfall that read the trace.
    pub version: &'static str,
    /// Files of the trace, in the order in which they were read.
    pub files: Vec<String>,
    /// Format of the trace: `mooncake`, `qwen`, `sessions`, `burstgpt`, `azure` or `copilot`.
    pub format: &'static str,
    /// Number of rows, or of sessions or their requests, that could not be read.
    pub skipped_rows: u64,
    /// Place of the first of these, and why it could not be read; null without any.
    pub first_skipped: Option<String>,
    /// Number of tokens that a block of the trace stands for; null where the format does not name
    /// the blocks of prompts.
    pub block_tokens: Option<u32>,
    /// Name of the model whose KV cache the sizes in bytes are of.
    pub model: String,
    /// Size of the model's KV cache of a token, bytes.
    pub token_bytes: u64,
    /// Size of a cache that holds all distinct blocks, bytes; a partial block takes the space of a
    /// whole one. Null where no blocks are named.
    pub working_set_bytes: Option<u64>,
}

impl TraceHead {
    pub(super) fn of(
        figures: &TraceFigures,
        files: Vec<String>,
        skipped: Skipped,
        kv: &KvSize,
    ) -> TraceHead {
        let block_tokens = figures.format.block_tokens();
        let working_set_bytes = block_tokens.map(|tokens| {
            let block_bytes = kv.token_bytes * u64::from(tokens);
            figures.reuse.distinct_blocks().saturating_mul(block_bytes)
        });
        TraceHead {
            version: env!("CARGO_PKG_VERSION"),
            files,
            format: figures.format.name(),
            skipped_rows: skipped.rows,
            first_skipped: skipped.first,
            block_tokens,
            model: kv.model.clone(),
            token_bytes: kv.token_bytes,
            working_set_bytes,
        }
    }

    /// Size of a block, bytes; none where no blocks are named.
    pub(super) fn block_bytes(&self) -> Option<u64> {
        self.block_tokens.map(|tokens| self.token_bytes * u64::from(tokens))
    }

    /// Names the files and their format.
    pub(super) fn told(&self) -> String {
        let TraceHead { files, format, block_tokens, .. } = self;
        let first = files.first().map_or("", String::as_str);
        let more = match files.len() {
            1 => String::new(),
            count => format!("{}, the first ", counted(count as u64, "file")),
        };
        match block_tokens {
            Some(tokens) => format!("{more}{first} ({format}, {tokens} tokens a block)"),
            None => format!("{more}{first} ({format}, without blocks)"),
        }
    }

    /// Counts what could not be read; none where all could.
    pub(super) fn skipped_told(&self) -> Option<String> {
        let first = self.first_skipped.as_ref()?;
        Some(format!("{}; the first: {first}", counted(self.skipped_rows, "row")))
    }
}

/// Figures of a recorded trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TraceReport {
    /// 1; also tells such a file from others.
    pub ringfall_trace: u32,
    /// The trace, and the size of its blocks.
    #[serde(flatten)]
    pub head: TraceHead,
    /// Time from the earliest request to the latest, s. In the format `sessions`, where times count
    /// from the beginning of each session, that of the longest one.
    pub span_s: f64,
    /// Tokens of the prompts, a number for each request, as the trace has them: 0 where there are
    /// none, of which a run serves 1.
    pub input_tokens: TallyCounts,
    /// Tokens of the answers, a number for each request, as the trace has them: 0 where there are
    /// none, of which a run serves 1.
    pub output_tokens: TallyCounts,
    /// Requests, a number for each session or conversation, those of subagents among them; null
    /// where the format has no sessions.
    pub sessions: Option<TallyCounts>,
    /// Number of input tokens that the cache of the recorded deployment found; null where the trace
    /// does not tell.
    pub found_tokens_recorded: Option<u64>,
    /// The same as a share of all input tokens.
    pub hit_rate_recorded: Option<f64>,
    /// Number of distinct blocks in all prompts; equal tokens after different ones are distinct.
    /// Null where no blocks are named.
    pub distinct_blocks: Option<u64>,
    /// Number of input tokens that a cache finds that never evicts; null where no blocks are named.
    pub found_tokens_unbounded: Option<u64>,
    /// The same as a share of all input tokens.
    pub hit_rate_unbounded: Option<f64>,
    /// LRU caches of ascending sizes: powers of two up to the first that holds the working set, and
    /// those that were asked for. Requests come in the order of the trace, sessions one after the
    /// other. Each looks up its blocks before it stores them; a block is found if it and all before
    /// it in the prompt are in the cache; of a prompt, its head stays longest. Only prompts are
    /// stored, for traces do not name the blocks of answers. Empty where no blocks are named.
    pub curve: Vec<CachePoint>,
}

/// Numbers that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TallyCounts {
    /// Count of the numbers.
    pub count: u64,
    /// Sum of the numbers.
    pub sum: u64,
    /// Mean of the numbers.
    pub mean: f64,
    /// Median: the smallest number that half of them do not exceed.
    pub p50: u64,
    /// The smallest number that 95 % of them do not exceed.
    pub p95: u64,
    /// Largest of the numbers.
    pub max: u64,
}

/// A cache of one size over the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct CachePoint {
    /// Size of the cache, bytes.
    pub cache_bytes: u64,
    /// Number of whole blocks that it holds.
    pub cache_blocks: u64,
    /// Number of input tokens that it finds; counted, not interpolated.
    pub found_tokens: u64,
    /// The same as a share of all input tokens.
    pub hit_rate: f64,
    /// Whether this size was asked for.
    pub is_asked: bool,
}

impl TallyCounts {
    fn of(tally: &Tally) -> TallyCounts {
        TallyCounts {
            count: tally.numbers,
            sum: tally.sum,
            mean: tally.sum as f64 / tally.numbers.max(1) as f64,
            p50: tally.quantile(0.5),
            p95: tally.quantile(0.95),
            max: tally.quantile(1.0),
        }
    }

    fn told(&self) -> String {
        let TallyCounts { mean, p50, p95, max, .. } = self;
        format!("mean {mean:.1}, P50 {p50}, P95 {p95}, max {max}")
    }
}

/// Sizes of caches whose hits a report needs, bytes, ascending: the powers of two from 1 MiB to
/// 1 EiB, and those asked for.
pub fn cache_sizes(asked_bytes: &[u64]) -> Vec<u64> {
    let mut sizes: Vec<u64> = (20..=60).map(|power| 1 << power).collect();
    sizes.extend(asked_bytes);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl TraceReport {
    /// The report of a trace that was read, whose hits were counted for [`cache_sizes`] in blocks
    /// of `kv`'s model.
    pub fn new(
        figures: &TraceFigures,
        files: Vec<String>,
        skipped: Skipped,
        kv: &KvSize,
        asked_bytes: &[u64],
    ) -> TraceReport {
        let head = TraceHead::of(figures, files, skipped, kv);
        let (reuse, block_bytes) = (&figures.reuse, head.block_bytes());
        let share = |tokens: u64| tokens as f64 / figures.input_tokens.sum.max(1) as f64;
        let found_tokens_recorded =
            (figures.cached_tokens.numbers > 0).then_some(figures.cached_tokens.sum);
        let found_tokens_unbounded = block_bytes.map(|_| reuse.found_unbounded());
        let point = |cache_bytes: u64| {
            let block_bytes = block_bytes?;
            let cache_blocks = cache_bytes / block_bytes;
            let is_asked = asked_bytes.contains(&cache_bytes);
            let half_blocks = cache_bytes / 2 / block_bytes;
            let is_on_curve = cache_blocks > 0 && half_blocks < reuse.distinct_blocks();
            let found_tokens = reuse.found_with(cache_blocks)?;
            let hit_rate = share(found_tokens);
            let point = CachePoint { cache_bytes, cache_blocks, found_tokens, hit_rate, is_asked };
            (is_on_curve || is_asked).then_some(point)
        };
        TraceReport {
            ringfall_trace: TRACE_VERSION,
            head,
            span_s: figures.span_ns() as f64 / 1e9,
            input_tokens: TallyCounts::of(&figures.input_tokens),
            output_tokens: TallyCounts::of(&figures.output_tokens),
            sessions: figures.sessions().as_ref().map(TallyCounts::of),
            found_tokens_recorded,
            hit_rate_recorded: found_tokens_recorded.map(share),
            distinct_blocks: block_bytes.map(|_| reuse.distinct_blocks()),
            found_tokens_unbounded,
            hit_rate_unbounded: found_tokens_unbounded.map(share),
            curve: cache_sizes(asked_bytes).into_iter().filter_map(point).collect(),
        }
    }

    /// The working set as a sentence.
    fn blocks_told(&self) -> String {
        let TraceHead { model, token_bytes, working_set_bytes, .. } = &self.head;
        match (self.distinct_blocks, working_set_bytes) {
            (Some(blocks), Some(bytes)) => format!(
                "{blocks} distinct ones: {:.1} GiB of KV cache of {model} ({token_bytes} bytes a \
                 token)",
                gib(*bytes)
            ),
            _ => "unknown: traces of this format do not name the blocks of prompts".to_owned(),
        }
    }

    /// Share of the tokens that can be found, as a sentence.
    fn reuse_told(&self) -> String {
        match self.hit_rate_unbounded.map(percent) {
            Some(unbounded) => {
                format!("{unbounded} of the input tokens found by a cache that never evicts")
            }
            None => "unknown: nobody can tell what caches of other sizes would find".to_owned(),
        }
    }

    /// The points of the curve that fit in so many rows: those asked for, and all others, or every
    /// second one from the largest down where not all of them fit.
    fn points(&self, rows: usize) -> Vec<&CachePoint> {
        let (mut points, others): (Vec<&CachePoint>, Vec<&CachePoint>) =
            self.curve.iter().partition(|point| point.is_asked);
        let room = rows.saturating_sub(points.len());
        let step = if others.len() <= room { 1 } else { 2 };
        points.extend(others.into_iter().rev().step_by(step).take(room));
        points.sort_by_key(|point| point.cache_bytes);
        points
    }
}

/// The report on one screen.
pub fn trace_page(report: &TraceReport) -> String {
    let mut page = String::new();
    let mut row = |head: &str, text: String| wrapped(&mut page, &format!("{head:<10}"), &text);
    let TraceReport { head, input_tokens: input, output_tokens: output, .. } = report;
    row("trace", head.told());
    let is_of_sessions = head.format == TraceFormat::Sessions.name();
    let of = if is_of_sessions { "; the longest session takes" } else { " in" };
    row("requests", format!("{}{of} {}", input.count, human_time(report.span_s * 1e3)));
    row("input", format!("{} tokens; a request: {}", input.sum, input.told()));
    row("output", format!("{} tokens; a request: {}", output.sum, output.told()));
    if let Some(requests) = &report.sessions {
        row("sessions", format!("{}; requests of each: {}", requests.count, requests.told()));
    }
    if let Some(hit_rate) = report.hit_rate_recorded {
        let recorded = percent(hit_rate);
        row("recorded", format!("{recorded} of the input tokens found by the deployment's cache"));
    }
    row("blocks", report.blocks_told());
    row("reuse", report.reuse_told());
    if let Some(skipped) = head.skipped_told() {
        row("skipped", skipped);
    }
    if is_of_sessions {
        let order = "one session after the other, as they have no common clock: caches that do not \
                     hold everything find less where sessions take turns";
        row("order", order.to_owned());
    }
    if report.curve.is_empty() {
        return page;
    }
    let unbounded = report.found_tokens_unbounded.unwrap_or(0).max(1) as f64;
    let bar = |point: &CachePoint| {
        let share = point.found_tokens as f64 / unbounded;
        format!(" {}", "#".repeat((share * BAR).round() as usize))
    };
    let rows = LINES_MAX.saturating_sub(page.lines().count() + 1);
    let table = Table::of(report.points(rows))
        .count("cache size", |point| human(point.cache_bytes))
        .count("blocks", |point| point.cache_blocks)
        .number("hit rate", percent, |point| point.hit_rate)
        .text(" of an unbounded cache's", bar);
    page + &table.done().page()
}

/// Text of a share as a percentage with two decimals, as traces' hit rates are published.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use ringfall_workloads::source::Row;

    use super::*;

    /// A Mooncake trace that reads 64 blocks of 512 tokens twice, in the given order.
    fn report(asked_bytes: &[u64]) -> TraceReport {
        let kv = KvSize { model: "m".to_owned(), token_bytes: 2_048, turn_bytes: 0 };
        let blocks = |bytes: u64| bytes / (512 * kv.token_bytes);
        let capacities = cache_sizes(asked_bytes).into_iter().map(blocks).collect();
        let mut figures = TraceFigures::new(TraceFormat::Mooncake, capacities, 1 << 20);
        for at in [0, 1, 3_600] {
            let row = Row {
                timestamp_ns: at * 1_000_000_000,
                session: None,
                context_tokens: 64 * 512 - 12,
                generate_tokens: 7,
                blocks: Some((0..64).collect()),
                ..Row::default()
            };
            figures.add(&row).unwrap();
        }
        let skipped = Skipped { rows: 2, first: Some("t: line 5: why".to_owned()) };
        TraceReport::new(&figures, vec!["t".to_owned()], skipped, &kv, asked_bytes)
    }

    #[test]
    fn a_curve_goes_from_a_block_to_the_working_set_and_has_what_was_asked_for() {
        let report = report(&[3 << 20, 1 << 40]);
        let sizes: Vec<u64> = report.curve.iter().map(|point| point.cache_bytes >> 20).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 8, 16, 32, 64, 1 << 20]);
        let asked = report.curve.iter().filter(|point| point.is_asked).count();
        assert_eq!((asked, report.head.working_set_bytes), (2, Some(64 << 20)));
        let found: Vec<u64> = report.curve.iter().map(|point| point.found_tokens).collect();
        let heads = [1, 2, 3, 4, 8, 16, 32].map(|blocks| 2 * blocks * 512);
        assert_eq!(found[..7], heads);
        assert_eq!(found[7..].to_vec(), [report.found_tokens_unbounded.unwrap(); 2]);
        assert_eq!(report.hit_rate_unbounded, Some(2.0 / 3.0));
    }

    #[test]
    fn a_page_fits_on_a_screen() {
        let page = trace_page(&report(&[3 << 20]));
        assert!(page.lines().count() <= LINES_MAX, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        for part in [
            "t (mooncake, 512 tokens a block)",
            "3 in 3600 s",
            "98268 tokens; a request: mean 32756.0, P50 32756, P95 32756, max 32756",
            "64 distinct ones: 0.1 GiB of KV cache of m (2048 bytes a token)",
            "66.67 % of the input tokens",
            "2 rows; the first: t: line 5: why",
            "3.0 MiB      3   3.13 %  ##\n",
            "64.0 MiB     64  66.67 %  ########################################\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
