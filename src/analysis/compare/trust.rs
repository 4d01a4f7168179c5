//! Which metric says how two storages differ, in the configuration that was run.
//!
//! The published runs (`ringfall analyze` on `tests/data`) are the source: two drives of 14 and
//! about 3 GB/s, 220 configurations that both have run.

use serde::Serialize;

use crate::analysis::configuration::Configuration;
use crate::analysis::metrics::{DECODE_READ, STORAGE_THROUGHPUT, WALL_CLOCK};
use crate::results::document::ResultFile;

/// Share of the bytes read that came from storage below which a metric of all reads says little of
/// it.
const STORAGE_SHARE_MIN: f64 = 0.05;
/// Two windows are equally long within this share.
const SECONDS_TOLERANCE: f64 = 0.01;

/// How far a metric is to be believed; the later the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The one to go by.
    Primary,
    /// It agrees with the primary one, and shows less.
    Secondary,
    /// It misleads here.
    No,
}

/// What is said of one metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// `Metric::key`.
    pub metric: &'static str,
    /// How far it is to be believed.
    pub trust: Trust,
    /// Why.
    pub why: String,
}

/// What matters of a run; `None`: the result doesn't say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// CPU tier, MiB.
    pub cpu_memory_mib: Option<u64>,
    /// Whether generated tokens are waited for.
    pub generation_waits: Option<bool>,
    /// Whether users ask again without waiting for the answer.
    pub arrivals_open: Option<bool>,
    /// Requests that were still queued at the end.
    pub queued_at_end: Option<u64>,
    /// Simulated users.
    pub users: Option<u64>,
    /// Length of the window, s.
    pub seconds: Option<f64>,
    /// Whether the run ended with its requests, not with its time.
    pub ended_by_requests: Option<bool>,
    /// Share of the bytes read that came from the storage tier.
    pub storage_read_share: Option<f64>,
}

impl Situation {
    /// What the result says.
    #[must_use]
    pub fn of(result: &ResultFile) -> Situation {
        let document = &result.document;
        let name = result.path.file_name().unwrap_or_default().to_string_lossy();
        let configuration =
            Configuration::from_result(document).or_else(|| Configuration::from_file_name(&name));
        let (summary, ours) = (&document.summary, &document.ringfall);
        let config = ours.config.as_ref();
        let read = summary.cache_stats.total_read_gb.known().filter(|&read| read > 0.0);
        let from_storage = summary.cache_stats.tier_storage_kv_bytes_read_gb.known();
        Situation {
            cpu_memory_mib: configuration.as_ref().map(|c| c.cpu_memory_mib),
            generation_waits: configuration.as_ref().map(|c| c.generation_mode != "none"),
            users: configuration.as_ref().map(|c| c.users),
            arrivals_open: config.and_then(|c| Some(c.arrival.as_ref()? != "closed")),
            queued_at_end: ours.source.queued_at_end.known(),
            seconds: summary.elapsed_time.known(),
            ended_by_requests: config.map(|c| c.max_requests.is_some()),
            storage_read_share: from_storage.zip(read).map(|(part, whole)| part / whole),
        }
    }

    /// Whether more requests came than were served: as the run's own warning has it.
    fn backlog(&self) -> bool {
        self.arrivals_open == Some(true) && self.queued_at_end > self.users
    }

    fn keeps_up(&self) -> bool {
        self.arrivals_open == Some(true) && !self.backlog()
    }

    fn has_cpu_tier(&self) -> bool {
        self.cpu_memory_mib.is_some_and(|mib| mib > 0)
    }
}

type Rule = fn(&Situation) -> (Trust, &'static str);

/// The metrics that are chosen between.
const JUDGES: [(&str, Rule); 5] = [
    (DECODE_READ, decode_read),
    (WALL_CLOCK, wall_clock),
    (STORAGE_THROUGHPUT, storage_throughput),
    ("storage_read_device_p95_ms", device_latency),
    ("end_to_end_p95_ms", end_to_end),
];

/// What to go by, the most to be trusted first; nothing where a configuration is not known.
#[must_use]
pub fn advise(situations: &[Situation]) -> Vec<Advice> {
    let known = |s: &Situation| s.cpu_memory_mib.is_some() && s.generation_waits.is_some();
    if situations.is_empty() || !situations.iter().all(known) {
        return Vec::new();
    }
    let mut all: Vec<Advice> = JUDGES
        .iter()
        .filter_map(|(metric, judge)| {
            // One run that misleads makes the comparison mislead.
            let (trust, why) = situations.iter().map(judge).max_by_key(|(trust, _)| *trust)?;
            Some(Advice { metric, trust, why: why.to_owned() })
        })
        .collect();
    if let Some(why) = unequal_lengths(situations)
        && let Some(amount) = all.iter_mut().find(|advice| advice.metric == DECODE_READ)
    {
        (amount.trust, amount.why) = (Trust::No, why);
    }
    all.sort_by_key(|advice| advice.trust);
    all
}

fn unequal_lengths(situations: &[Situation]) -> Option<String> {
    let lengths: Vec<f64> = situations.iter().filter_map(|s| s.seconds).collect();
    let (min, max) = crate::analysis::stats::range(&lengths)?;
    (max - min > SECONDS_TOLERANCE * max).then(|| {
        format!(
            "the runs are not equally long ({min:.1} and {max:.1} s), and an amount grows with \
             time"
        )
    })
}

fn decode_read(s: &Situation) -> (Trust, &'static str) {
    if s.ended_by_requests == Some(true) {
        (Trust::No, "the run ended with its requests: the amount is that of the requests")
    } else if s.generation_waits == Some(true) {
        (Trust::No, "requests wait for generated tokens, which bounds what is read")
    } else if s.keeps_up() {
        (Trust::No, "the storage kept up with what arrived: the amount is what was asked for")
    } else if s.has_cpu_tier() {
        (
            Trust::Secondary,
            "part of the reads came from CPU memory (published: 1.98× where storage throughput \
             showed 2.19×)",
        )
    } else {
        (
            Trust::Primary,
            "without a CPU tier every read is the drive's (published: 2.62×, 100 % wins)",
        )
    }
}

fn wall_clock(s: &Situation) -> (Trust, &'static str) {
    if s.generation_waits == Some(true) {
        (Trust::No, "its time is mostly waiting for generated tokens, which is simulated")
    } else if s.keeps_up() {
        (Trust::No, "the storage kept up with what arrived: this is the rate of arrival")
    } else if s.has_cpu_tier() {
        (
            Trust::Secondary,
            "CPU memory served part of the time (published: 1.92× where storage throughput showed \
             2.19×)",
        )
    } else {
        (
            Trust::Primary,
            "without a CPU tier its time is the drive's (published: 2.43×, 100 % wins)",
        )
    }
}

fn storage_throughput(s: &Situation) -> (Trust, &'static str) {
    if !s.has_cpu_tier() {
        (
            Trust::No,
            "without a CPU tier both sides wait for storage all the time: the faster one does more \
             I/O, adds up more waiting, and the two cancel (published: the faster drive won only \
             62 % of the configurations)",
        )
    } else if s.storage_read_share.is_some_and(|share| share < STORAGE_SHARE_MIN) {
        (Trust::No, "nearly all was read from CPU memory: it says next to nothing of the drive")
    } else if s.backlog() {
        (
            Trust::Secondary,
            "more arrived than was served: as many requests as may be served at once wait for the \
             drive together, and their waiting is added up",
        )
    } else {
        (
            Trust::Primary,
            "with a CPU tier the drive is not always the bottleneck, and time spent on storage \
             tells it apart (published: 2.19×, 97 % wins)",
        )
    }
}

fn device_latency(s: &Situation) -> (Trust, &'static str) {
    if s.generation_waits == Some(true) {
        (Trust::Primary, "it is the drive's own time, whatever else a request waited for")
    } else if s.keeps_up() {
        (Trust::Primary, "at a given rate of arrival the faster drive answers sooner")
    } else {
        (Trust::Secondary, "with the queue always full it is mostly queueing: depth over rate")
    }
}

fn end_to_end(s: &Situation) -> (Trust, &'static str) {
    if s.backlog() {
        (Trust::No, "more arrived than was served: it grew for as long as the run lasted")
    } else if s.generation_waits == Some(true) {
        (Trust::No, "it is mostly waiting for generated tokens, which is simulated")
    } else {
        (Trust::Secondary, "it is what users see: storage, queueing and CPU together")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cpu_gib: u64) -> Situation {
        Situation {
            cpu_memory_mib: Some(cpu_gib * 1024),
            generation_waits: Some(false),
            arrivals_open: Some(false),
            queued_at_end: Some(0),
            users: Some(50),
            seconds: Some(60.0),
            ended_by_requests: Some(false),
            storage_read_share: Some(0.5),
        }
    }

    fn trust(situations: &[Situation], metric: &str) -> Trust {
        let all = advise(situations);
        all.iter().find(|advice| advice.metric == metric).map(|advice| advice.trust).unwrap()
    }

    #[test]
    fn the_published_recommendations() {
        let zero = [run(0), run(0)];
        assert_eq!(trust(&zero, DECODE_READ), Trust::Primary);
        assert_eq!(trust(&zero, WALL_CLOCK), Trust::Primary);
        assert_eq!(trust(&zero, STORAGE_THROUGHPUT), Trust::No);
        let four = [run(4), run(4)];
        assert_eq!(trust(&four, STORAGE_THROUGHPUT), Trust::Primary);
        assert_eq!(trust(&four, DECODE_READ), Trust::Secondary);
        assert_eq!(trust(&four, WALL_CLOCK), Trust::Secondary);
        assert_eq!(advise(&four)[0].metric, STORAGE_THROUGHPUT);
    }

    #[test]
    fn waiting_for_tokens_leaves_the_drive_s_own_time() {
        let waits = [run(0), Situation { generation_waits: Some(true), ..run(0) }];
        for metric in [DECODE_READ, WALL_CLOCK, STORAGE_THROUGHPUT, "end_to_end_p95_ms"] {
            assert_eq!(trust(&waits, metric), Trust::No, "{metric}");
        }
        let both = [waits[1].clone(), waits[1].clone()];
        assert_eq!(trust(&both, "storage_read_device_p95_ms"), Trust::Primary);
    }

    #[test]
    fn open_arrivals_show_rate_or_latency_never_both() {
        let keeps_up = Situation { arrivals_open: Some(true), ..run(0) };
        assert_eq!(trust(std::slice::from_ref(&keeps_up), WALL_CLOCK), Trust::No);
        assert_eq!(trust(std::slice::from_ref(&keeps_up), "end_to_end_p95_ms"), Trust::Secondary);
        let behind = Situation { queued_at_end: Some(51), ..keeps_up };
        assert_eq!(trust(std::slice::from_ref(&behind), WALL_CLOCK), Trust::Primary);
        assert_eq!(trust(std::slice::from_ref(&behind), "end_to_end_p95_ms"), Trust::No);
        let cached = Situation { cpu_memory_mib: Some(4096), ..behind };
        assert_eq!(trust(&[cached], STORAGE_THROUGHPUT), Trust::Secondary);
    }

    #[test]
    fn amounts_need_equal_times_and_memory_hides_the_drive() {
        let longer = Situation { seconds: Some(70.0), ..run(0) };
        assert_eq!(trust(&[run(0), longer], DECODE_READ), Trust::No);
        let counted = Situation { ended_by_requests: Some(true), ..run(0) };
        assert_eq!(trust(&[counted], DECODE_READ), Trust::No);
        let cached = Situation { storage_read_share: Some(0.01), ..run(4) };
        assert_eq!(trust(&[cached], STORAGE_THROUGHPUT), Trust::No);
    }

    #[test]
    fn nothing_is_said_of_the_unknown() {
        assert!(advise(&[run(0), Situation::default()]).is_empty());
        assert!(advise(&[]).is_empty());
    }
}
