//! Which metric says how two storages differ, in the configuration that was run: for one run, for
//! the trials of one, and for a comparison.
//!
//! The published runs (`ringfall compare` on `tests/data`) are the source: two drives of 14 and
//! about 3 GB/s, 220 configurations that both have run. Ratios are quoted as they were published;
//! where the published rows give another one, both are said.

use serde::Serialize;

use ringfall_config::{Named as _, PhaseMode};
use ringfall_core::named;
use ringfall_core::units::MIB;

use super::Document;
use super::cold::ColdVerdict;
use super::configuration::Configuration;
use super::document::{RequestsOfClass, ResultFile};
use super::facts::quotient;
use super::metrics::{
    DECODE_READ, Metric, PREFILL_WRITTEN, REQUEST_P95, STORAGE_THROUGHPUT, WALL_CLOCK,
    WRITE_BANDWIDTH,
};
use super::stats;

/// Share of the requests' time in waits that storage throughput leaves out from which on it says
/// little about the drive.
const REST_SHARE_MAX: f64 = 0.2;

/// P99 of the waits for a permit below which the bound on allocations held nobody up, ms: a tenth
/// of the shortest time that a write of an entry takes.
const ALLOCATION_WAIT_MIN_MS: f64 = 0.1;

/// Share of the bytes read that came from storage below which a metric of all reads says little of
/// it.
const STORAGE_SHARE_MIN: f64 = 0.05;
/// Share of the requests' time in waits for generated tokens above which it is mostly those.
const GENERATION_SHARE_MIN: f64 = 0.5;
/// Share of the requests that had not finished above which the storage did not keep up with them,
/// even if none of them was queued.
const BACKLOG_SHARE_MIN: f64 = 0.5;
/// Two windows are equally long within this share.
const SECONDS_TOLERANCE: f64 = 0.01;

named! {
/// Degree of trust in a metric, in descending order.
#[derive(PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The one to go by.
    Primary = "go by",
    /// It agrees with the primary one, and shows less.
    Secondary = "also",
    /// It misleads here.
    No = "not by",
}
}

/// Advice about one metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Advice {
    /// Key of the metric, as in `Metric::key`.
    pub metric: &'static str,
    /// Degree of trust in the metric.
    pub trust: Trust,
    /// Why the metric is to be believed so far and no further, as a sentence.
    pub why: String,
    /// Result that was published for the metric in such a configuration; null: none was published.
    pub published: Option<&'static str>,
}

impl Advice {
    /// The reason, and what was published.
    pub fn told(&self) -> String {
        match self.published {
            Some(published) => format!("{} (published: {published})", self.why),
            None => self.why.clone(),
        }
    }
}

/// Facts about a run that decide which metrics to trust; `None`: the result doesn't say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// CPU tier, and GPU tier where there is one, MiB.
    pub cpu_memory_mib: Option<u64>,
    /// Prefill writes at once; 0: any number.
    pub max_concurrent_allocs: Option<u64>,
    /// P99 of the waits for a permit of `max_concurrent_allocs`, ms.
    pub allocation_wait_p99_ms: Option<f64>,
    /// Whether generated tokens are what is mostly waited for: by the time that was measured, or
    /// else by the mode.
    pub generation_waits: Option<bool>,
    /// Whether the operations of a logical trace were replayed, which generate no tokens.
    pub is_replay: bool,
    /// Whether requests had a prefill phase alone, which writes entries and reads none of its own.
    pub is_prefill_only: bool,
    /// Whether nothing was read in a decode phase, of which some traces say nothing.
    pub has_no_decode_reads: bool,
    /// Whether nothing was read from any tier.
    pub has_no_reads: bool,
    /// Whether users ask again without waiting for the answer.
    pub arrivals_open: Option<bool>,
    /// Requests that were still queued at the end.
    pub queued_at_end: Option<u64>,
    /// Whether a run that it is compared with had a backlog.
    pub is_beside_backlog: bool,
    /// Share of the requests that had not finished at the end.
    pub unfinished_share: Option<f64>,
    /// Number of simulated users; null when the result does not say.
    pub users: Option<u64>,
    /// Requests that may be served at once.
    pub serving_slots: Option<u64>,
    /// Requests that were served in the window.
    pub served: Option<u64>,
    /// Length of the window, s.
    pub seconds: Option<f64>,
    /// Whether the run ended with its requests, not with its time.
    pub ended_by_requests: Option<bool>,
    /// Share of the bytes read that came from the storage tier.
    pub storage_read_share: Option<f64>,
    /// Memory that held the data in place of a drive, such as `tmpfs` or `zram0`.
    pub memory: Option<String>,
    /// Share of the bytes read that reached the device, where a cache served the others.
    pub cached_reads_share: Option<f64>,
    /// Whether an object store held the data.
    pub is_object_store: bool,
    /// Name of the simulated drive of a run in which no drive moved a byte.
    pub simulated: Option<String>,
    /// Share of the requests' time that went to waits for room, for permits and for the processor.
    pub rest_share: Option<f64>,
    /// Share of the requests' time that went to storage.
    pub storage_wait_share: Option<f64>,
    /// Share of the requests' time that went to waits for generated tokens.
    pub generation_wait_share: Option<f64>,
    /// Tokens generated by the requests that finished, tokens/s.
    pub tokens_per_s: Option<f64>,
    /// Whether it is compared with others of which some waited mostly for tokens and the others,
    /// which generated fewer of them, for storage.
    pub is_told_apart: bool,
}

/// Wait that most of the requests' time went to, with its share of the time, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LongestWait {
    /// Generated tokens: more than half of the time.
    Tokens(f64),
    /// Storage: more of the time than generated tokens, which did not take half of it.
    Storage(f64),
}

impl Situation {
    /// Reads the situation from the result, or from its file's name.
    pub fn of(result: &ResultFile) -> Situation {
        let name = result.path.file_name().unwrap_or_default().to_string_lossy();
        let by_name = || Configuration::from_name(&name);
        Situation::of_run(&result.document, by_name)
    }

    /// Reads the situation from the document alone.
    pub fn of_document(document: &Document) -> Situation {
        Situation::of_run(document, || None)
    }

    /// A run of that configuration of which nothing else is known.
    pub fn of_configuration(configuration: &Configuration) -> Situation {
        Situation {
            cpu_memory_mib: Some(configuration.cpu_memory_mib),
            max_concurrent_allocs: Some(configuration.max_concurrent_allocs),
            generation_waits: Some(configuration.generation_mode != "none"),
            users: Some(configuration.users),
            ..Situation::default()
        }
    }

    fn of_run(document: &Document, otherwise: impl FnOnce() -> Option<Configuration>) -> Situation {
        let configuration = Configuration::from_result(document).or_else(otherwise);
        let (summary, ours) = (&document.summary, &document.ringfall);
        let config = ours.config.as_ref();
        let all_read = summary.cache_stats.total_read_gb.known();
        let read = all_read.filter(|&read| read > 0.0);
        let from_storage = summary.cache_stats.tier_storage_kv_bytes_read_gb.known();
        let gpu_mib = match &ours.gpu {
            None => Some(0),
            Some(gpu) => gpu.capacity_bytes.known().map(|bytes| bytes.div_ceil(MIB)),
        };
        let is_replay = ours.source.operations.known().is_some();
        let permit = ours.waits.allocation_permit_ms.as_ref();
        let cached = ours.device.cold_reads.as_ref();
        let cached = cached.filter(|cold| cold.verdict == ColdVerdict::Cached);
        let phases = config.and_then(|c| c.phases.as_deref());
        let situation = Situation {
            is_replay,
            is_prefill_only: phases == Some(PhaseMode::PrefillOnly.name()),
            has_no_reads: all_read == Some(0.0),
            has_no_decode_reads: summary.cache_stats.decode_bytes_read_gb.known() == Some(0.0),
            allocation_wait_p99_ms: permit.and_then(|waits| waits.percentiles.p99.known()),
            rest_share: ours.served.time.waits_share(),
            storage_wait_share: ours.served.time.storage_share.known(),
            generation_wait_share: ours.served.time.generation_share.known(),
            tokens_per_s: summary.avg_throughput_tokens_per_sec.known(),
            arrivals_open: config.and_then(|c| Some(c.arrival.as_ref()? != "closed")),
            queued_at_end: ours.source.queued_at_end.known(),
            unfinished_share: unfinished_share(document),
            serving_slots: config.and_then(|c| c.max_inflight_requests).map(u64::from),
            served: summary.total_requests.known(),
            seconds: summary.elapsed_time.known(),
            ended_by_requests: config.map(|c| c.max_requests.is_some()),
            memory: ours.machine.memory().map(str::to_owned),
            cached_reads_share: cached.and_then(|cold| cold.reached_share),
            is_object_store: !ours.objects.is_unknown(),
            simulated: ours.simulation.as_ref().map(|run| run.device_name().to_owned()),
            storage_read_share: from_storage.zip(read).map(|(part, whole)| part / whole),
            ..configuration
                .zip(gpu_mib)
                .map(|(configuration, gpu_mib)| {
                    let cpu_memory_mib = configuration.cpu_memory_mib.saturating_add(gpu_mib);
                    Situation::of_configuration(&Configuration { cpu_memory_mib, ..configuration })
                })
                .unwrap_or_default()
        };
        let share = ours.served.time.generation_share.known();
        let generation_waits = share
            .map(|share| share > GENERATION_SHARE_MIN)
            .or(situation.generation_waits)
            // Whatever the mode is that the run was given.
            .map(|waits| waits && !is_replay);
        Situation { generation_waits, ..situation }
    }

    /// Whether more requests came than were served: more wait than can be served at once, or most
    /// of them had not finished, whether they were being served or not.
    fn backlog(&self) -> bool {
        let has_queue = self.queued_at_end > self.serving_slots.or(self.users);
        let is_behind = self.unfinished_share.is_some_and(|share| share > BACKLOG_SHARE_MIN);
        self.arrivals_open == Some(true) && (has_queue || is_behind)
    }

    /// Whether what arrived is what was served. Beside a backlog it may be, and the rates still
    /// tell the two apart: that of the other run is lower.
    fn keeps_up(&self) -> bool {
        self.arrivals_open == Some(true) && !self.backlog() && !self.is_beside_backlog
    }

    /// Longest wait of the requests; none where their time is not known, and where neither tokens
    /// nor storage took most of it.
    pub fn longest_wait(&self) -> Option<LongestWait> {
        let (storage, tokens) = (self.storage_wait_share?, self.generation_wait_share?);
        if tokens > GENERATION_SHARE_MIN {
            return Some(LongestWait::Tokens(tokens));
        }
        (storage > tokens).then_some(LongestWait::Storage(storage))
    }

    /// Whether what is waited for is generated tokens, so that amounts and rates show little of the
    /// storage.
    fn hides_storage(&self) -> bool {
        self.generation_waits == Some(true) && !self.is_told_apart
    }

    /// Whether there was a bound on allocations that no write had to wait for.
    fn has_unfelt_bound(&self) -> bool {
        self.allocation_wait_p99_ms.is_some_and(|ms| ms < ALLOCATION_WAIT_MIN_MS)
    }

    fn has_cpu_tier(&self) -> bool {
        self.cpu_memory_mib.is_some_and(|mib| mib > 0)
    }
}

/// Share of the requests that had not finished when the window closed.
pub fn unfinished_share(document: &Document) -> Option<f64> {
    let RequestsOfClass { finished, unfinished, .. } = document.ringfall.requests.as_ref()?.all;
    quotient(unfinished, finished.saturating_add(unfinished))
}

/// Reason that rates of tokens say nothing of a replay.
const NO_TOKENS: &str = "a replay of operations generates no tokens";

/// Reason that rates tell two storages apart of which the one is fast enough not to be waited for.
const TOLD_APART: &str = "one side's requests waited mostly for generated tokens, and the other's \
                          for storage, which makes it slower by at least this";

/// Outcome of a rule: the degree of trust, the reason, and the published result.
type Said = (Trust, &'static str, Option<&'static str>);

type Rule = fn(&Situation) -> Said;

/// Metrics of reads, which say nothing where none are made.
const READS: [&str; 2] = [DECODE_READ, "storage_read_device_p95_ms"];

/// The metrics that are chosen between where runs only write, besides those of all runs.
const JUDGES_OF_WRITES: [(&str, Rule); 3] = [
    (WRITE_BANDWIDTH, write_bandwidth),
    (PREFILL_WRITTEN, prefill_written),
    ("storage_write_device_p95_ms", device_latency),
];

/// The metrics that are chosen between.
const JUDGES: [(&str, Rule); 5] = [
    (DECODE_READ, decode_read),
    (WALL_CLOCK, wall_clock),
    (STORAGE_THROUGHPUT, storage_throughput),
    ("storage_read_device_p95_ms", device_latency),
    (REQUEST_P95, end_to_end),
];

/// Metrics to go by, the most trusted first; empty where a configuration is not known.
pub fn advise(situations: &[Situation]) -> Vec<Advice> {
    let known = |s: &Situation| s.cpu_memory_mib.is_some() && s.generation_waits.is_some();
    if situations.is_empty() || !situations.iter().all(known) {
        return Vec::new();
    }
    let is_beside_backlog = situations.iter().any(Situation::backlog);
    let is_told_apart = are_told_apart(situations);
    let beside = |one: &Situation| Situation { is_beside_backlog, is_told_apart, ..one.clone() };
    let situations: &[Situation] = &situations.iter().map(beside).collect::<Vec<_>>();
    let only_write = situations.iter().all(|situation| situation.is_prefill_only);
    let of_writes = JUDGES_OF_WRITES.iter().filter(|_| only_write);
    let mut all: Vec<Advice> = of_writes
        .chain(&JUDGES)
        .filter_map(|(metric, judge)| {
            let judge = |situation| match why_no_read(situation) {
                Some(why) if READS.contains(metric) => no(why),
                _ => judge(situation),
            };
            // One run that misleads makes the comparison mislead.
            let (trust, why, published) =
                situations.iter().map(judge).max_by_key(|(trust, ..)| *trust)?;
            // The published runs had both phases.
            let published = published.filter(|_| !only_write);
            Some(Advice { metric, trust, why: why.to_owned(), published })
        })
        .collect();
    if let Some(why) = why_none(situations) {
        for advice in &mut all {
            (advice.trust, advice.why, advice.published) = (Trust::No, why.clone(), None);
        }
        return all;
    }
    if situations.iter().any(|situation| situation.simulated.is_some()) {
        // What is compared is what the descriptions say, and nothing was published of any.
        for advice in &mut all {
            advice.why = advice.why.replace("drive", "simulated drive");
            advice.published = None;
        }
    }
    if situations.iter().all(|situation| situation.is_object_store) {
        // The same holds of a store, whatever drives it has.
        for advice in &mut all {
            advice.why = advice.why.replace("drive", "object store");
        }
    }
    if let Some(why) = unequal_lengths(situations) {
        for amount in &mut all {
            if [DECODE_READ, PREFILL_WRITTEN].contains(&amount.metric) {
                (amount.trust, amount.why, amount.published) = (Trust::No, why.clone(), None);
            }
        }
    }
    all.sort_by_key(|advice| advice.trust);
    all
}

/// Whether some runs waited mostly for tokens and all others for storage, each of which generated
/// fewer tokens per second than each of the first. What they lack is then the time at the storage:
/// generated tokens are waited for equally long on both sides.
fn are_told_apart(situations: &[Situation]) -> bool {
    let (mut slowest, mut fastest) = (f64::INFINITY, f64::NEG_INFINITY);
    for situation in situations {
        match (situation.longest_wait(), situation.tokens_per_s) {
            (Some(LongestWait::Tokens(_)), Some(rate)) => slowest = slowest.min(rate),
            (Some(LongestWait::Storage(_)), Some(rate)) => fastest = fastest.max(rate),
            _ => return false,
        }
    }
    slowest.is_finite() && fastest.is_finite() && slowest > fastest
}

/// Reason why no metric is one to go by, whatever the configuration; none where some may be.
fn why_none(situations: &[Situation]) -> Option<String> {
    if situations.iter().any(|situation| situation.served == Some(0)) {
        let which = if situations.len() == 1 { "" } else { " in one of the runs" };
        return Some(format!("no request was served{which}: there is nothing to go by"));
    }
    if let Some(memory) = situations.iter().find_map(|situation| situation.memory.as_ref()) {
        return Some(format!(
            "the data was in memory ({memory}), so this says nothing of any drive"
        ));
    }
    if let Some(share) = situations.iter().find_map(|situation| situation.cached_reads_share) {
        return Some(format!(
            "only {:.1} % of the bytes read reached the device, and a cache served the others: its \
             speed is part of this",
            share * 100.0
        ));
    }
    let device = situations.iter().find_map(|situation| situation.simulated.as_ref())?;
    let is_measured = |situation: &Situation| situation.simulated.is_none();
    situations.iter().any(is_measured).then(|| {
        format!(
            "one of the runs was simulated (device description {device}) and another was measured: \
             a model's figures say nothing about how two drives differ"
        )
    })
}

/// One of the metrics that runs are judged by, of one run.
#[derive(Clone, Debug)]
pub struct Headline {
    /// The metric that the value is of.
    pub metric: &'static Metric,
    /// Value of the metric in the run.
    pub value: f64,
    /// Advice on the metric; `None` where the result does not say what was run.
    pub advice: Option<Advice>,
}

/// Primary metrics of the published analysis, of one run, and others to go by here: the most
/// trusted first. A metric that was not measured is left out; where there was no drive to measure,
/// all of them are.
pub fn headlines(document: &Document) -> Vec<Headline> {
    if document.is_without_drive() || document.is_without_storage() {
        return Vec::new();
    }
    let advice = advise(&[Situation::of_document(document)]);
    let find = |key: &str| advice.iter().find(|advice| advice.metric == key).cloned();
    let headline = |key: &str| {
        let metric = Metric::by_key(key)?;
        Some(Headline { metric, value: metric.of(document)?, advice: find(key) })
    };
    let published: &[&str] = match document.ringfall.source.operations.known() {
        Some(_) => &[DECODE_READ],
        None => &[DECODE_READ, WALL_CLOCK, STORAGE_THROUGHPUT],
    };
    let others = advice.iter().filter(|advice| advice.trust == Trust::Primary);
    let others = others.map(|advice| advice.metric).filter(|key| !published.contains(key));
    let published = published.iter().copied();
    let mut all: Vec<Headline> = published.chain(others).filter_map(headline).collect();
    all.sort_by_key(|headline| headline.advice.as_ref().map(|advice| advice.trust));
    all
}

fn unequal_lengths(situations: &[Situation]) -> Option<String> {
    let lengths: Vec<f64> = situations.iter().filter_map(|s| s.seconds).collect();
    let (min, max) = stats::range(&lengths)?;
    (max - min > SECONDS_TOLERANCE * max).then(|| {
        format!(
            "the runs are not equally long ({min:.1} and {max:.1} s), and an amount grows with \
             time"
        )
    })
}

/// The metric misleads, for that reason; nothing was published of it.
const fn no(why: &'static str) -> Said {
    (Trust::No, why, None)
}

/// Reason why metrics of reads say nothing; none where reads were made and are the subject.
fn why_no_read(s: &Situation) -> Option<&'static str> {
    match (s.is_prefill_only, s.has_no_reads) {
        (true, _) => Some("requests had a prefill phase alone: they write, and hardly read"),
        (false, true) => Some("nothing was read"),
        (false, false) => None,
    }
}

fn write_bandwidth(s: &Situation) -> Said {
    if s.hides_storage() {
        no("requests wait for generated tokens, which bounds what is written")
    } else if s.keeps_up() {
        no("the storage kept up with what arrived: this is the rate of arrival")
    } else if s.has_cpu_tier() {
        (Trust::Secondary, "part of the writes went to a tier above storage", None)
    } else if s.is_told_apart {
        (Trust::Primary, TOLD_APART, None)
    } else {
        (Trust::Primary, "without a CPU tier every write is the drive's", None)
    }
}

fn prefill_written(s: &Situation) -> Said {
    match s.ended_by_requests {
        Some(true) => no("the run ended with its requests: the amount is that of the requests"),
        _ => write_bandwidth(s),
    }
}

fn decode_read(s: &Situation) -> Said {
    if s.has_no_decode_reads {
        no("nothing was read in a decode phase")
    } else if s.ended_by_requests == Some(true) {
        no("the run ended with its requests: the amount is that of the requests")
    } else if s.hides_storage() {
        no("requests wait for generated tokens, which bounds what is read")
    } else if s.keeps_up() {
        no("the storage kept up with what arrived: the amount is what was asked for")
    } else if s.has_cpu_tier() {
        (
            Trust::Secondary,
            "part of the reads came from a tier above storage",
            Some("2.06×, though the mean of the published runs' own ratios is 1.98×"),
        )
    } else if s.is_told_apart {
        (Trust::Primary, TOLD_APART, None)
    } else {
        (Trust::Primary, "without a CPU tier every read is the drive's", Some("2.62×, 100 % wins"))
    }
}

fn wall_clock(s: &Situation) -> Said {
    if s.is_replay {
        no(NO_TOKENS)
    } else if s.hides_storage() {
        no("its time is mostly waiting for generated tokens, which is simulated")
    } else if s.keeps_up() {
        no("the storage kept up with what arrived: this is the rate of arrival")
    } else if s.has_cpu_tier() {
        (
            Trust::Secondary,
            "a tier above storage served part of the time",
            Some("1.79×, though the mean of the published runs' own ratios is 1.92×"),
        )
    } else if s.is_told_apart {
        (Trust::Primary, TOLD_APART, None)
    } else {
        let why = "without a CPU tier its time is the drive's";
        (Trust::Primary, why, Some("2.43×, 100 % wins"))
    }
}

fn storage_throughput(s: &Situation) -> Said {
    if s.is_replay {
        no(NO_TOKENS)
    } else if !s.has_cpu_tier() && s.rest_share.is_some_and(|share| share > REST_SHARE_MAX) {
        no("much of the requests' time went to waits that it leaves out: for room in a tier that \
            is full, for allocation permits or for the processor")
    } else if !s.has_cpu_tier() && s.max_concurrent_allocs == Some(0) {
        (
            Trust::Secondary,
            "without a CPU tier and without a bound on allocations, requests wait for nothing but \
             the drive, and that time is counted",
            Some("2.60×, 100 % wins in 35 configurations"),
        )
    } else if !s.has_cpu_tier() && s.has_unfelt_bound() {
        (
            Trust::Secondary,
            "without a CPU tier, and with a bound on allocations that no write waited for, \
             requests wait for nothing but the drive, and that time is counted",
            None,
        )
    } else if !s.has_cpu_tier() {
        (
            Trust::No,
            "without a CPU tier, and with a bound on allocations (--max-concurrent-allocs), more \
             I/O at once adds up more waiting, which can cancel what a faster drive gains",
            Some("1.06× with a bound of 2 and 1.07× with 4; 45 % wins in 76 configurations"),
        )
    } else if s.storage_read_share.is_some_and(|share| share < STORAGE_SHARE_MIN) {
        no("nearly all was read above storage: it says next to nothing about the drive")
    } else if s.backlog() {
        (
            Trust::Secondary,
            "more arrived than was served: as many requests as may be served at once wait for the \
             drive together, and their waiting is added up",
            None,
        )
    } else {
        (
            Trust::Primary,
            "with a tier above storage the drive is not always the bottleneck, and time spent on \
             storage tells it apart",
            Some("2.23×, 97 % wins"),
        )
    }
}

fn device_latency(s: &Situation) -> Said {
    if s.generation_waits == Some(true) {
        (Trust::Primary, "it is the drive's own time, whatever else a request waited for", None)
    } else if s.keeps_up() {
        (Trust::Primary, "at a given rate of arrival the faster drive answers sooner", None)
    } else {
        let why = "with the queue always full it is mostly queueing: depth over rate";
        (Trust::Secondary, why, None)
    }
}

fn end_to_end(s: &Situation) -> Said {
    if s.backlog() {
        no("more arrived than was served: it grew for as long as the run lasted")
    } else if s.hides_storage() {
        no("it is mostly waiting for generated tokens, which is simulated")
    } else {
        (Trust::Secondary, "it is what users see: storage, queueing and CPU together", None)
    }
}

#[cfg(test)]
#[path = "trust_test.rs"]
mod tests;
