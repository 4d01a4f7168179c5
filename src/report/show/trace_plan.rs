//! A plan of caches for a recorded trace: what a drive below DRAM finds, moves and saves for each
//! of its sizes, and from how many tokens on reading them beats computing them again.

use ringfall_config::{DeviceFile, Named as _};
use ringfall_core::model::{DeviceModel, DirectionModel};
use ringfall_core::units::{MIB, gib};
use ringfall_host::{human, human_time};
use ringfall_workloads::prefill::PrefillCost;
use ringfall_workloads::source::{Skipped, TraceFormat};
use ringfall_workloads::tiers::{MovedBlocks, PairCounts, TierPair, WritePolicy};
use ringfall_workloads::trace::TraceFigures;
use serde::Serialize;

use super::GIB;
use super::prose::wrapped;
use super::table::{Table, digits};
use super::trace::{TraceHead, cache_sizes, percent};
use crate::suite::KvSize;

/// Layout of the file.
const TRACE_PLAN_VERSION: u32 = 1;
/// Lines of the page.
const LINES_MAX: usize = 40;
/// Share of an unlimited SSD's gain that is enough: the rest takes many times the space.
const GAIN_SHARE: f64 = 0.95;
/// The smallest SSD of the usual sizes holds one block in so many of the working set.
const SMALLEST_SHARE: u64 = 256;
/// Most sizes of the SSD in a plan: for each of them, every minute of the trace has its counts.
pub const SSD_SIZES_MAX: usize = 64;
/// Length of the window in which traffic is at its peak, s.
const MINUTE_S: f64 = 60.0;
/// Length of a day, s.
const DAY_S: f64 = 86_400.0;
/// Days of the five years for which drives are warranted.
const WARRANTY_DAYS: f64 = 5.0 * 365.0;

/// Hits and traffic of DRAM with an SSD below it, for pairs of their sizes over a whole trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TracePlan {
    /// 1; also tells such a file from others.
    pub ringfall_trace_plan: u32,
    /// The trace, and the size of its blocks.
    #[serde(flatten)]
    pub head: TraceHead,
    /// Number of requests that were read.
    pub requests: u64,
    /// Number of input tokens of all requests.
    pub input_tokens: u64,
    /// Time from the earliest request to the latest at `speed`, s; null in the format `sessions`,
    /// where each session has a clock of its own.
    pub span_s: Option<f64>,
    /// Speed at which the trace is served, 1 being its own.
    pub speed: f64,
    /// Rule by which blocks get to the SSD: `demote`, when they fall out of DRAM, each block being
    /// in one tier at a time; `through`, when they are stored in DRAM, unless they are on the SSD.
    pub write_policy: &'static str,
    /// Speed at which a GPU computes input tokens, attention over the context left out, tokens/s;
    /// null where it was not given.
    pub prefill_tokens_per_s: Option<f64>,
    /// Length of the context whose attention takes as long to compute as all else, tokens: a
    /// context of n tokens takes 1 + n ÷ this times as long as without attention. Null where the
    /// speed was given as a number, or the model's dimensions don't tell: attention is left out.
    pub attention_tokens: Option<f64>,
    /// Bandwidth at which reading a token takes as long as computing it, attention left out, GiB/s;
    /// null where the prefill speed is unknown.
    pub break_even_gib_per_s: Option<f64>,
    /// Speed of the drive; null where it was not given.
    pub drive: Option<PlanDrive>,
    /// Reading from the drive beside computing; null unless both speeds are known.
    pub crossover: Option<Crossover>,
    /// Pairs of sizes, by that of DRAM, then by that of the SSD. Both tiers are LRU and begin
    /// empty; a prompt's blocks are found up to the first that is in neither tier, and stored from
    /// the last to the first. A partial block takes the space and the traffic of a whole one.
    pub points: Vec<PlanPoint>,
}

/// Speed of a drive as far as a plan needs it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PlanDrive {
    /// Name of the drive in its description.
    pub name: String,
    /// Bandwidth of reads of 1 MiB, as many as the drive works on at once, of all such drives
    /// together, GiB/s.
    pub read_gib_per_s: f64,
    /// Bandwidth of writes of 1 MiB, of all such drives together, GiB/s; null where it was not
    /// given.
    pub write_gib_per_s: Option<f64>,
    /// Whether reads and writes have a limit each; null where it was not given.
    pub is_duplex: Option<bool>,
    /// Bandwidth of both together where they have a limit each, GiB/s; null without such a limit.
    pub both_gib_per_s: Option<f64>,
    /// Median latency of a read besides the time of its bytes, µs.
    pub read_latency_us: f64,
}

/// Time to read tokens' KV cache from the drive beside the time to compute it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Crossover {
    /// Time to read a token from the drive at its bandwidth, µs; each prefix takes its latency
    /// besides.
    pub read_us_per_token: f64,
    /// Time to compute a token, µs, without attention over the context before it, which grows with
    /// that context.
    pub compute_us_per_token: f64,
    /// Number of tokens of the shortest prefix that is read faster than computed; null where none
    /// is.
    pub from_tokens: Option<u64>,
}

/// A size of DRAM and one of the SSD over the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PlanPoint {
    /// Size of DRAM for blocks, bytes.
    pub dram_bytes: u64,
    /// Size of the SSD, bytes.
    pub ssd_bytes: u64,
    /// Number of input tokens that DRAM of this size finds without the SSD.
    pub dram_tokens: u64,
    /// The same as a share of all input tokens.
    pub dram_hit_rate: f64,
    /// Number of input tokens that are found besides, on the SSD or in DRAM behind blocks on it.
    pub ssd_tokens: u64,
    /// The same as a share of all input tokens.
    pub ssd_hit_rate: f64,
    /// Share of the input tokens that neither tier finds.
    pub miss_rate: f64,
    /// Number of requests that read from the SSD.
    pub ssd_requests: u64,
    /// Bytes read from the SSD over the trace.
    pub read_bytes: u64,
    /// Bytes written to the SSD over the trace.
    pub written_bytes: u64,
    /// Rates of that traffic; null where the trace has no common clock, or takes no time.
    pub rates: Option<PlanRates>,
    /// GPU time that the SSD saves over the trace, s: that of computing `ssd_tokens`, with
    /// attention over what is before them unless `attention_tokens` is null, less that of reading
    /// `read_bytes` and a latency for each of `ssd_requests`, during which the GPU waits. Negative
    /// where reading takes longer; null unless both speeds are known.
    pub saved_gpu_s: Option<f64>,
    /// Gain as a share of that with an unlimited SSD: of `saved_gpu_s`, or of `ssd_tokens` where
    /// that is null. Null where an unlimited SSD gains nothing.
    pub gain_share: Option<f64>,
}

/// Traffic of an SSD by time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PlanRates {
    /// Mean rate of reads over the trace, GiB/s.
    pub read_gib_per_s: f64,
    /// Rate of reads in the busiest minute, GiB/s; the mean, if the trace is shorter.
    pub read_gib_per_s_busiest: f64,
    /// Mean rate of writes over the trace, GiB/s.
    pub write_gib_per_s: f64,
    /// Rate of writes in the busiest minute, GiB/s; the mean, if the trace is shorter.
    pub write_gib_per_s_busiest: f64,
    /// Number of times that a day at the mean rate of writes fills the SSD (DWPD).
    pub drive_writes_per_day: f64,
    /// Terabytes (10¹² bytes) written in five years of such days (TBW).
    pub tb_written_5_years: f64,
    /// GPU time saved in an hour, s; null unless both speeds are known.
    pub saved_gpu_s_per_hour: Option<f64>,
}

/// Question that a plan answers.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanQuestion {
    /// Sizes of DRAM, bytes.
    pub drams_bytes: Vec<u64>,
    /// Sizes of the SSD, bytes; none: the usual ones, powers of two up to the working set.
    pub ssds_bytes: Vec<u64>,
    /// Rule by which blocks get to the SSD.
    pub policy: WritePolicy,
    /// Speed at which the trace is served, 1 being its own; above 0.
    pub speed: f64,
    /// Time of computing contexts, where it is known.
    pub prefill: Option<PrefillCost>,
    /// Drive, where it is known.
    pub drive: Option<PlanDrive>,
}

impl PlanDrive {
    /// The speed of a described drive, or of several alike.
    pub fn described(device: &DeviceFile) -> PlanDrive {
        let DeviceModel { read, write, parallel_ios, .. } = &device.model;
        // The program cuts an entry in I/Os of 1 MiB.
        let rate = |direction: &DirectionModel| {
            // Engines keep deep queues.
            let deep = direction.deep.map_or(direction.bytes_per_s, |deep| deep.bytes_per_s);
            let io_s =
                (MIB as f64 / deep.min(direction.bytes_per_s)).max(1.0 / direction.ios_per_s);
            // A place is taken for the latency, too.
            let place_s = match parallel_ios {
                0 => 0.0,
                places => (io_s + direction.latency.as_secs_f64()) / f64::from(*places),
            };
            MIB as f64 / io_s.max(place_s) * f64::from(device.drives) / GIB
        };
        let both_bytes_per_s = device.model.both_bytes_per_s;
        PlanDrive {
            name: device.name.clone(),
            read_gib_per_s: rate(read),
            write_gib_per_s: Some(rate(write)),
            is_duplex: Some(device.model.is_duplex),
            both_gib_per_s: both_bytes_per_s.map(|rate| rate * f64::from(device.drives) / GIB),
            read_latency_us: read.latency.as_ns_f64() / 1e3,
        }
    }

    /// A drive of which nothing but its bandwidth of reads is known, with the latency of
    /// [`DeviceModel::with_bandwidth`].
    pub fn reading(read_gib_per_s: f64) -> PlanDrive {
        let bytes_per_s = read_gib_per_s * GIB;
        let model = DeviceModel::with_bandwidth(bytes_per_s, bytes_per_s);
        PlanDrive {
            name: "the drive".to_owned(),
            read_gib_per_s,
            write_gib_per_s: None,
            is_duplex: None,
            both_gib_per_s: None,
            read_latency_us: model.read.latency.as_ns_f64() / 1e3,
        }
    }

    /// Share of the time for which these bandwidths occupy it at the most, above 1 where it is too
    /// slow; reads and writes add up unless they are known to have a limit each.
    fn busy_share(&self, read_gib_per_s: f64, write_gib_per_s: f64) -> f64 {
        let read = read_gib_per_s / self.read_gib_per_s;
        let write = self.write_gib_per_s.map_or(0.0, |limit| write_gib_per_s / limit);
        let both =
            self.both_gib_per_s.map_or(0.0, |limit| (read_gib_per_s + write_gib_per_s) / limit);
        match self.is_duplex {
            Some(true) => read.max(write).max(both),
            _ => read + write,
        }
    }

    /// Time to read so many bytes for so many requests, one after another, s.
    fn read_s(&self, bytes: u64, requests: u64) -> f64 {
        gib(bytes) / self.read_gib_per_s + requests as f64 * self.read_latency_us / 1e6
    }
}

impl Crossover {
    /// A prefix of n tokens takes n × `token_bytes` ÷ bandwidth + latency to read, and
    /// n × (1 + n ÷ attention's tokens) ÷ speed to compute: the first is shorter from the positive
    /// root of attention × n² + (compute − read) × n − latency on, times of a token, and without
    /// attention from latency ÷ (compute − read) on, where that is positive.
    fn of(drive: &PlanDrive, token_bytes: u64, prefill: PrefillCost) -> Crossover {
        let read_us_per_token = gib(token_bytes) / drive.read_gib_per_s * 1e6;
        let compute_us_per_token = 1e6 / prefill.tokens_per_s;
        let (gain_us, latency_us) =
            (compute_us_per_token - read_us_per_token, drive.read_latency_us);
        let attention_us =
            prefill.attention_tokens.map_or(0.0, |equal| compute_us_per_token / equal);
        let root_us = (gain_us * gain_us + 4.0 * attention_us * latency_us).sqrt();
        let tokens = match gain_us > 0.0 {
            true => 2.0 * latency_us / (gain_us + root_us),
            false => (root_us - gain_us) / (2.0 * attention_us),
        };
        let from_tokens = tokens.is_finite().then(|| (tokens as u64).saturating_add(1));
        Crossover { read_us_per_token, compute_us_per_token, from_tokens }
    }
}

impl PlanQuestion {
    fn ssd_sizes(&self) -> Vec<u64> {
        if self.ssds_bytes.is_empty() { cache_sizes(&[]) } else { self.ssds_bytes.clone() }
    }

    /// Counts of nothing yet, from which a plan in blocks of so many bytes is made.
    pub fn counts(&self, block_bytes: u64) -> PairCounts {
        let blocks = |bytes: &u64| bytes / block_bytes;
        let drams: Vec<u64> = self.drams_bytes.iter().map(blocks).collect();
        let ssds = self.ssd_sizes().iter().map(blocks).chain([u64::MAX]).collect();
        let window_ns = (MINUTE_S * 1e9 * self.speed).round() as u64;
        PairCounts::new(self.policy, window_ns, &drams, ssds)
    }

    /// GPU time that an SSD saves, s; none unless both speeds are known.
    fn saved_gpu_s(&self, pair: &TierPair, block_bytes: u64) -> Option<f64> {
        let (drive, prefill) = (self.drive.as_ref()?, self.prefill?);
        let read_s = drive.read_s(bytes_of(pair.read.blocks, block_bytes), pair.ssd_requests);
        Some(prefill.compute_s(pair.ssd_tokens as f64, pair.ssd_squares as f64) - read_s)
    }

    /// The gain by which sizes are compared.
    fn gain(&self, pair: &TierPair, block_bytes: u64) -> f64 {
        self.saved_gpu_s(pair, block_bytes).unwrap_or(pair.ssd_tokens as f64)
    }
}

fn bytes_of(blocks: u64, block_bytes: u64) -> u64 {
    blocks.saturating_mul(block_bytes)
}

impl PlanRates {
    fn of(
        pair: &TierPair,
        block_bytes: u64,
        ssd_bytes: u64,
        span_s: f64,
        speed: f64,
        saved_gpu_s: Option<f64>,
    ) -> PlanRates {
        let mean = |traffic: MovedBlocks| gib(bytes_of(traffic.blocks, block_bytes)) / span_s;
        let busiest = |traffic: MovedBlocks| {
            let bytes = bytes_of(traffic.busiest_blocks, block_bytes);
            let served_s = traffic.busiest_ns as f64 / 1e9 / speed;
            if bytes > 0 { gib(bytes) / served_s } else { 0.0 }
        };
        let written_a_day_bytes = mean(pair.written) * GIB * DAY_S;
        PlanRates {
            read_gib_per_s: mean(pair.read),
            read_gib_per_s_busiest: busiest(pair.read),
            write_gib_per_s: mean(pair.written),
            write_gib_per_s_busiest: busiest(pair.written),
            drive_writes_per_day: written_a_day_bytes / ssd_bytes as f64,
            tb_written_5_years: written_a_day_bytes * WARRANTY_DAYS / 1e12,
            saved_gpu_s_per_hour: saved_gpu_s.map(|saved_s| saved_s / span_s * 3_600.0),
        }
    }
}

impl TracePlan {
    /// The plan of a trace that was read with the counts of `question`, in blocks of `kv`'s model.
    pub fn new(
        figures: &TraceFigures,
        files: Vec<String>,
        skipped: Skipped,
        kv: &KvSize,
        question: PlanQuestion,
    ) -> TracePlan {
        let head = TraceHead::of(figures, files, skipped, kv);
        // Of a trace that names no blocks there is nothing to plan, whatever their size.
        let block_bytes = head.block_bytes().unwrap_or(1);
        let distinct_blocks = figures.reuse.distinct_blocks();
        let input_tokens = figures.input_tokens.sum;
        let has_clock = figures.format != TraceFormat::Sessions;
        let span_s = has_clock.then(|| figures.span_ns() as f64 / 1e9 / question.speed);
        let is_shown = |bytes: &u64| {
            let blocks = bytes / block_bytes;
            let is_usual = blocks > 0
                && blocks / 2 < distinct_blocks
                && blocks.saturating_mul(SMALLEST_SHARE) >= distinct_blocks;
            !question.ssds_bytes.is_empty() || is_usual
        };
        let sizes: Vec<u64> = question.ssd_sizes().into_iter().filter(is_shown).collect();
        let pair = |dram_bytes: u64, ssd_blocks: u64| {
            figures.reuse.tiers.as_ref()?.pair(dram_bytes / block_bytes, ssd_blocks)
        };
        let mut points = Vec::new();
        for &dram_bytes in &question.drams_bytes {
            let Some(unlimited) = pair(dram_bytes, u64::MAX) else { continue };
            let gain_max = question.gain(&unlimited, block_bytes);
            let point = |&ssd_bytes: &u64| {
                let pair = pair(dram_bytes, ssd_bytes / block_bytes)?;
                let saved_gpu_s = question.saved_gpu_s(&pair, block_bytes);
                let rates = span_s.filter(|span_s| *span_s > 0.0).map(|span_s| {
                    let speed = question.speed;
                    PlanRates::of(&pair, block_bytes, ssd_bytes, span_s, speed, saved_gpu_s)
                });
                let share = |tokens: u64| tokens as f64 / input_tokens.max(1) as f64;
                let gain = question.gain(&pair, block_bytes);
                Some(PlanPoint {
                    dram_bytes,
                    ssd_bytes,
                    dram_tokens: pair.dram_tokens,
                    dram_hit_rate: share(pair.dram_tokens),
                    ssd_tokens: pair.ssd_tokens,
                    ssd_hit_rate: share(pair.ssd_tokens),
                    miss_rate: share(input_tokens - pair.dram_tokens - pair.ssd_tokens),
                    ssd_requests: pair.ssd_requests,
                    read_bytes: bytes_of(pair.read.blocks, block_bytes),
                    written_bytes: bytes_of(pair.written.blocks, block_bytes),
                    rates,
                    saved_gpu_s,
                    gain_share: (gain_max > 0.0).then(|| gain / gain_max),
                })
            };
            points.extend(sizes.iter().filter_map(point));
        }
        let PlanQuestion { policy, speed, prefill, drive, .. } = question;
        let prefill_tokens_per_s = prefill.map(|cost| cost.tokens_per_s);
        let crossover = drive.as_ref().zip(prefill);
        TracePlan {
            ringfall_trace_plan: TRACE_PLAN_VERSION,
            head,
            requests: figures.input_tokens.numbers,
            input_tokens,
            span_s,
            speed,
            write_policy: policy.name(),
            prefill_tokens_per_s,
            attention_tokens: prefill.and_then(|cost| cost.attention_tokens),
            break_even_gib_per_s: prefill_tokens_per_s.map(|speed| speed * gib(kv.token_bytes)),
            crossover: crossover.map(|(drive, cost)| Crossover::of(drive, kv.token_bytes, cost)),
            drive,
            points,
        }
    }

    /// Points of each size of DRAM, in the order of its sizes.
    fn of_each_dram(&self) -> Vec<&[PlanPoint]> {
        self.points.chunk_by(|one, next| one.dram_bytes == next.dram_bytes).collect()
    }

    /// Points for so many rows: of each size of DRAM every one, every second one and so on, from
    /// the largest SSD down.
    fn rows(&self, room: usize) -> Vec<&PlanPoint> {
        let drams = self.of_each_dram();
        let count = |step| drams.iter().map(|points| points.len().div_ceil(step)).sum::<usize>();
        let step = (1..SSD_SIZES_MAX).find(|step| count(*step) <= room).unwrap_or(SSD_SIZES_MAX);
        let mut rows: Vec<&PlanPoint> =
            drams.iter().rev().flat_map(|points| points.iter().rev().step_by(step)).collect();
        rows.reverse();
        rows
    }

    /// Words for the rule of writes.
    fn rule(&self) -> &'static str {
        match self.write_policy {
            "demote" => {
                "a block is written when it falls out of DRAM, and moves back up when it is found \
                 (as in `run --promotion on-hit`)"
            }
            _ => "a block is written when it is stored in DRAM, unless it is on the SSD",
        }
    }

    /// The crossover as a sentence, or the flags that are missing for it.
    fn crossover_told(&self) -> String {
        let TracePlan { drive, prefill_tokens_per_s, break_even_gib_per_s, .. } = self;
        let (Some(speed), Some(break_even)) = (prefill_tokens_per_s, break_even_gib_per_s) else {
            let flag = "unknown: give the speed of computing with --prefill-tokens-per-s (tokens \
                        per second, or a GPU such as h100)";
            let drive_flags = ", and the drive with --device or --read-gib-per-s";
            return format!("{flag}{}", if drive.is_some() { "" } else { drive_flags });
        };
        let mut needs = format!(
            "a drive must read more than {} GiB/s to be faster than computing {speed:.0} tokens/s",
            digits3(*break_even)
        );
        if let Some(tokens) = self.attention_tokens {
            needs += &format!(
                ", and half of that for contexts of {tokens:.0} tokens, since attention over them \
                 takes as long as all else"
            );
        }
        let (Some(drive), Some(crossover)) = (drive, &self.crossover) else {
            return format!("{needs}; give yours with --device or --read-gib-per-s");
        };
        let Crossover { read_us_per_token, compute_us_per_token, from_tokens } = crossover;
        let times = format!(
            "a token takes {} µs to read from {} ({} GiB/s, {} µs of latency), and {} µs to \
             compute",
            digits3(*read_us_per_token),
            drive.name,
            digits3(drive.read_gib_per_s),
            digits3(drive.read_latency_us),
            digits3(*compute_us_per_token),
        );
        match from_tokens {
            None => format!("never: {times}; {needs}"),
            Some(1) => format!("from the first token on: {times}"),
            Some(tokens) => format!("from {tokens} tokens on: {times}"),
        }
    }

    /// The SSD that is enough beside DRAM of the size of these points, and what it must do, as a
    /// sentence.
    fn answer_told(&self, points: &[PlanPoint]) -> String {
        let dram = human(points.first().map_or(0, |point| point.dram_bytes));
        if points.iter().all(|point| point.gain_share.is_none()) {
            return match points.iter().any(|point| point.ssd_tokens > 0) {
                true => format!("no SSD pays off beside {dram} of DRAM: reading takes too long"),
                false => format!("no SSD gains anything beside {dram} of DRAM"),
            };
        }
        let is_enough = |point: &&PlanPoint| point.gain_share >= Some(GAIN_SHARE);
        let Some(point) = points.iter().find(is_enough) else {
            return format!(
                "beside {dram} of DRAM, none of these SSDs gains {:.0} % of what an unlimited one \
                 would: give larger ones with --ssd-size",
                GAIN_SHARE * 100.0
            );
        };
        let mut told = format!(
            "beside {dram} of DRAM, an SSD of {} gains {:.1} % of what an unlimited one would",
            human(point.ssd_bytes),
            point.gain_share.unwrap_or(0.0) * 100.0
        );
        let Some(rates) = &point.rates else { return told };
        let PlanRates { drive_writes_per_day, tb_written_5_years, .. } = *rates;
        let [read, write] = [rates.read_gib_per_s, rates.write_gib_per_s].map(digits3);
        let busiest = [rates.read_gib_per_s_busiest, rates.write_gib_per_s_busiest];
        let [busiest_read, busiest_write] = busiest.map(digits3);
        let [writes, terabytes] = [drive_writes_per_day, tb_written_5_years].map(digits3);
        told += &format!(
            "; it must read {read} GiB/s and write {write} (in the busiest minute {busiest_read} \
             and {busiest_write}), which is {writes} drive writes a day, {terabytes} TB in 5 years"
        );
        if let Some(drive) = &self.drive {
            let share =
                drive.busy_share(rates.read_gib_per_s_busiest, rates.write_gib_per_s_busiest);
            let (what, left_out) = match drive.write_gib_per_s {
                Some(_) => ("that", ""),
                None => (
                    "reading that",
                    ", not counting writes: --device FILE tells how fast it writes",
                ),
            };
            told += &match share {
                ..=1.0 => {
                    format!(
                        "; {what} keeps the drive at most {:.0} % busy{left_out}",
                        share * 100.0
                    )
                }
                _ => format!(
                    "; the drive is too slow for {what} by up to {} times{left_out}",
                    digits3(share)
                ),
            };
        }
        told
    }
}

/// The plan on one screen.
pub fn trace_plan_page(plan: &TracePlan) -> String {
    let mut page = String::new();
    let mut row = |head: &str, text: String| wrapped(&mut page, &format!("{head:<10}"), &text);
    let TracePlan { head, requests, .. } = plan;
    let TraceHead { model, token_bytes, working_set_bytes, .. } = head;
    let pace = match plan.span_s {
        Some(span_s) if plan.speed == 1.0 => format!(" in {}", human_time(span_s * 1e3)),
        Some(span_s) => format!(" in {} at {}× speed", human_time(span_s * 1e3), plan.speed),
        None => ", sessions one after the other: without a common clock, rates are unknown".into(),
    };
    row("trace", head.told());
    row("requests", format!("{requests}{pace}"));
    let working_set = format!("{:.1} GiB", gib(working_set_bytes.unwrap_or(0)));
    row("blocks", format!("{working_set} of {model}'s KV cache ({token_bytes} bytes a token)"));
    row("writes", plan.rule().to_owned());
    if let Some(skipped) = head.skipped_told() {
        row("skipped", skipped);
    }
    row("pays off", plan.crossover_told());
    let drams = plan.of_each_dram();
    for points in &drams {
        row("answer", plan.answer_told(points));
    }
    let key = "DRAM, SSD: input tokens that DRAM finds alone, and those that the SSD adds; read, \
               write: GiB/s of the SSD, and in its busiest minute; DWPD: drive writes a day; \
               GPU-s/h: GPU time saved in an hour";
    let attention = match plan.prefill_tokens_per_s {
        Some(_) if plan.attention_tokens.is_none() => ", attention's share left out",
        _ => "",
    };
    row("columns", format!("{key}{attention}"));
    let rows = plan.rows(LINES_MAX.saturating_sub(page.lines().count() + 1));
    page + &table_of(&rows, drams.len() > 1).page()
}

fn table_of(rows: &[&PlanPoint], has_drams: bool) -> Table {
    let mut table = Table::of(rows.iter().copied());
    if has_drams {
        table = table.count("DRAM size", |point| human(point.dram_bytes));
    }
    table
        .count("SSD size", |point| human(point.ssd_bytes))
        .number("DRAM", percent, |point| point.dram_hit_rate)
        .number("SSD", percent, |point| point.ssd_hit_rate)
        .number("read", digits3, |point| point.rates.map(|rates| rates.read_gib_per_s))
        .number("busiest", digits3, |point| point.rates.map(|rates| rates.read_gib_per_s_busiest))
        .number("write", digits3, |point| point.rates.map(|rates| rates.write_gib_per_s))
        .number("busiest", digits3, |point| point.rates.map(|rates| rates.write_gib_per_s_busiest))
        .number("DWPD", digits3, |point| point.rates.map(|rates| rates.drive_writes_per_day))
        .number("GPU-s/h", |value| digits(value, 4), |point| point.rates?.saved_gpu_s_per_hour)
        .done()
}

fn digits3(value: f64) -> String {
    digits(value, 3)
}

#[cfg(test)]
mod tests {
    use ringfall_workloads::source::Row;

    use super::*;

    const COST: PrefillCost = PrefillCost { tokens_per_s: 1e4, attention_tokens: None };

    fn question(drams_bytes: &[u64], ssds_bytes: &[u64]) -> PlanQuestion {
        PlanQuestion {
            drams_bytes: drams_bytes.to_vec(),
            ssds_bytes: ssds_bytes.to_vec(),
            policy: WritePolicy::Demote,
            speed: 1.0,
            prefill: Some(COST),
            drive: Some(PlanDrive::reading(0.02)),
        }
    }

    /// Plan of a trace whose blocks take 1 MiB each: 0 to 3, 30 s later 10 to 13, and 10 minutes
    /// after the first 0 to 3 again.
    fn plan(question: PlanQuestion) -> TracePlan {
        let kv = KvSize { model: "m".to_owned(), token_bytes: 2_048, turn_bytes: 0 };
        let mut figures = TraceFigures::new(TraceFormat::Mooncake, Vec::new(), 1 << 20);
        figures.reuse.tiers = Some(question.counts(512 * kv.token_bytes));
        for (at_s, first) in [(0, 0), (30, 10), (600, 0)] {
            let row = Row {
                timestamp_ns: at_s * 1_000_000_000,
                session: None,
                context_tokens: 4 * 512,
                generate_tokens: 1,
                blocks: Some((first..first + 4).collect()),
                ..Row::default()
            };
            figures.add(&row).unwrap();
        }
        let skipped = Skipped { rows: 1, first: Some("t: line 4: why".to_owned()) };
        TracePlan::new(&figures, vec!["t".to_owned()], skipped, &kv, question)
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} for {expected}");
    }

    /// DRAM holds two blocks. The first request pushes two down, the others four each. The third
    /// finds its blocks at the places 5 to 8.
    #[test]
    fn rates_and_savings_follow_from_the_blocks_that_are_moved() {
        let plan = plan(question(&[2 << 20], &[4 << 20, 6 << 20, 64 << 20]));
        let counts = |point: &PlanPoint| {
            (point.dram_tokens, point.ssd_tokens, point.read_bytes >> 20, point.written_bytes >> 20)
        };
        let found: Vec<_> = plan.points.iter().map(counts).collect();
        assert_eq!(found, [(0, 1_024, 2, 10), (0, 2_048, 4, 10), (0, 2_048, 4, 10)]);
        let rates = plan.points[1].rates.unwrap();
        assert_near(rates.read_gib_per_s, 4.0 / 1_024.0 / 600.0);
        assert_near(rates.read_gib_per_s_busiest, 4.0 / 1_024.0 / 60.0);
        // The first two requests are in one minute.
        assert_near(rates.write_gib_per_s, 10.0 / 1_024.0 / 600.0);
        assert_near(rates.write_gib_per_s_busiest, 6.0 / 1_024.0 / 60.0);
        assert_near(rates.drive_writes_per_day, 10.0 / 6.0 * 144.0);
        assert_near(rates.tb_written_5_years, 10.0 * 1_048_576.0 * 144.0 * 1_825.0 / 1e12);
        let saved_s = 2_048.0 / 1e4 - 4.0 / 1_024.0 / 0.02 - 80e-6;
        assert_near(plan.points[1].saved_gpu_s.unwrap(), saved_s);
        assert_near(rates.saved_gpu_s_per_hour.unwrap(), 6.0 * saved_s);
        let shares: Vec<bool> =
            plan.points.iter().map(|point| point.gain_share == Some(1.0)).collect();
        assert_eq!(shares, [false, true, true]);
        // At three times the speed it takes 200 s, of which the last 20 belong to the third minute.
        let faster = PlanQuestion { speed: 3.0, ..question(&[2 << 20], &[6 << 20]) };
        let rates = self::plan(faster).points[0].rates.unwrap();
        assert_near(rates.read_gib_per_s_busiest, 4.0 / 1_024.0 / 80.0);
        assert_near(rates.write_gib_per_s_busiest, 6.0 / 1_024.0 / 60.0);
        // At 20 times the speed, the same blocks are moved in a 20th of the time.
        let faster = PlanQuestion { speed: 20.0, ..question(&[2 << 20], &[6 << 20]) };
        let rates = self::plan(faster).points[0].rates.unwrap();
        assert_near(rates.write_gib_per_s, 10.0 / 1_024.0 / 30.0);
        assert_eq!(rates.write_gib_per_s_busiest, rates.write_gib_per_s, "30 s are no minute");
    }

    /// A token takes 100 µs to compute, and 95.37 µs at 0.02 GiB/s to read, behind 80 µs.
    #[test]
    fn the_crossover_is_the_first_prefix_that_is_read_faster() {
        let from = |gib_per_s| Crossover::of(&PlanDrive::reading(gib_per_s), 2_048, COST);
        let tokens = [0.5, 0.02, 0.019].map(|gib_per_s| from(gib_per_s).from_tokens);
        assert_eq!(tokens, [Some(1), Some(18), None]);
        let Crossover { read_us_per_token: read, compute_us_per_token: compute, .. } = from(0.02);
        assert!(18.0 * read + 80.0 < 18.0 * compute);
        assert!(17.0 * read + 80.0 >= 17.0 * compute);
    }

    /// A drive that never paid off reads those contexts faster whose attention takes long enough.
    #[test]
    fn attention_makes_a_drive_pay_off_from_some_length_on() {
        let cost = PrefillCost { attention_tokens: Some(4_096.0), ..COST };
        for gib_per_s in [0.001, 0.01, 0.019, 0.02, 0.5] {
            let drive = PlanDrive::reading(gib_per_s);
            let from = Crossover::of(&drive, 2_048, cost).from_tokens.unwrap();
            let is_faster = |tokens: u64| {
                let n = tokens as f64;
                let bytes = tokens * 2_048;
                drive.read_s(bytes, 1) < cost.compute_s(n, n * n)
            };
            assert!(is_faster(from) && (from == 1 || !is_faster(from - 1)), "{gib_per_s}: {from}");
        }
        // The third request finds 2,048 tokens: attention over them takes half as long as all else.
        let asked = question(&[2 << 20], &[6 << 20]);
        let saved_s = |question| plan(question).points[0].saved_gpu_s.unwrap();
        let longer_s = saved_s(PlanQuestion { prefill: Some(cost), ..asked.clone() });
        assert_near(longer_s - saved_s(asked), 2_048.0 / 1e4 / 2.0);
    }

    /// A drive that works on one I/O of 4 ms at a time was given the bandwidth of its bus, and
    /// reads and writes that share a limit were each held against all of it.
    #[test]
    fn a_drive_is_busy_with_its_places_and_with_both_directions() {
        let device = |more: &str| {
            let direction = "{mb_per_s: 1000, iops: 100000, latency_us: 4000}";
            let text = format!("name: d\nsource: t\nread: {direction}\nwrite: {direction}\n{more}");
            PlanDrive::described(&DeviceFile::parse("d.yaml", &text).unwrap())
        };
        let io_s = MIB as f64 / 1e9;
        assert_near(device("").read_gib_per_s, 1e9 / GIB);
        assert_near(device("parallel_ios: 2").read_gib_per_s, 2.0 / 1_024.0 / (io_s + 4e-3));
        let busy = |more: &str| device(more).busy_share(0.6e9 / GIB, 0.3e9 / GIB);
        assert_near(busy("duplex: false"), 0.9);
        assert_near(busy("duplex: true"), 0.6);
        assert_near(busy("duplex: true\nboth_mb_per_s: 1200"), 0.75);
    }

    #[test]
    fn a_page_answers_in_one_sentence_or_says_what_it_lacks() {
        let asked = question(&[2 << 20], &[4 << 20, 6 << 20]);
        let page = |question: PlanQuestion| {
            let page = trace_plan_page(&plan(question));
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let cases: [(PlanQuestion, &[&str]); 6] = [
            (
                asked.clone(),
                &[
                    "requests 3 in 600 s",
                    "pays off from 18 tokens on: a token takes 95.4 µs to read from the drive \
                     (0.02 GiB/s, 80.0 µs of latency), and 100 µs to compute",
                    "answer beside 2.0 MiB of DRAM, an SSD of 6.0 MiB gains 100.0 % of what",
                    "240 drive writes a day",
                    "reading that keeps the drive at most",
                    "busy, not counting writes: --device FILE tells how fast it writes",
                    "1 row; the first: t: line 4: why",
                ],
            ),
            (
                PlanQuestion { prefill: None, drive: None, ..asked.clone() },
                &["--prefill-tokens-per-s", "--device or --read-gib-per-s", "SSD of 6.0 MiB"],
            ),
            (
                PlanQuestion { drive: None, ..asked.clone() },
                &["must read more than 0.02 GiB/s", "10000 tokens/s; give yours with --device"],
            ),
            (
                PlanQuestion { drive: Some(PlanDrive::reading(0.01)), ..asked.clone() },
                &["pays off never: a token takes 191 µs", "no SSD pays off beside 2.0 MiB"],
            ),
            (
                PlanQuestion { drams_bytes: vec![1 << 30], ..asked.clone() },
                &["no SSD gains anything beside 1.0 GiB of DRAM"],
            ),
            (
                PlanQuestion { ssds_bytes: vec![1 << 20], ..asked },
                &["none of these SSDs gains 95 % of what an unlimited one would"],
            ),
        ];
        for (question, parts) in cases {
            let page = page(question);
            for part in parts {
                assert!(page.contains(part), "{part}: {page}");
            }
        }
    }

    #[test]
    fn a_page_of_the_most_sizes_fits_on_a_screen() {
        let drams = [0, 2 << 20, 1 << 30, 1 << 40];
        let ssds: Vec<u64> = (1..=SSD_SIZES_MAX as u64).map(|size| size << 30).collect();
        let cases: [(&[u64], &[u64]); 3] =
            [(&drams, &ssds), (&drams[1..2], &[]), (&drams[..2], &[])];
        for (drams, ssds) in cases {
            let plan = plan(question(drams, ssds));
            let page = trace_plan_page(&plan);
            assert!(page.lines().count() <= LINES_MAX, "{page}");
            assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
            let last = page.lines().last().unwrap();
            assert!(last.contains(&human(plan.points.last().unwrap().ssd_bytes)), "{page}");
        }
    }
}
