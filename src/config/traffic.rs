//! Where requests come from, when they arrive, and whether users come and go: settings that forbid
//! each other.

use std::path::PathBuf;

use super::Options;
use super::resolve::Check;
use super::{Arrival, AutoscalerPlan, Origin, Phases, ReplayTiers, TraceKind, Traffic};

/// Most arrivals a second.
const RATE_MAX_PER_S: f64 = 1e9;
const DOCUMENTS_MAX: i64 = 1_000_000;
/// Users a shard that the autoscaler begins with when nobody says how many.
const INITIAL_USERS_A_SHARD: i64 = 2;

impl Check<'_> {
    /// A path that may be left out.
    pub(super) fn optional_path(
        &mut self,
        key: &'static str,
        value: &Option<PathBuf>,
    ) -> Option<PathBuf> {
        let path = value.as_ref().filter(|path| path.as_os_str() != "none")?;
        if path.as_os_str().is_empty() {
            self.wrong(key, "is empty: give a path, or leave it out");
        }
        Some(path.clone())
    }

    /// Where requests come from: at most one of the sources may be asked for.
    pub(super) fn traffic(&mut self, settings: &Options) -> Traffic {
        let burst_path = self.optional_path("burst_trace_path", &settings.burst_trace_path);
        let dataset = self.optional_path("dataset_path", &settings.dataset_path);
        let mooncake = self.optional_path("mooncake_trace", &settings.mooncake_trace);
        let replay = self.optional_path("replay_trace", &settings.replay_trace);
        let burst = match (settings.use_burst_trace == Some(true), burst_path) {
            (true, Some(path)) => Some(path),
            (true, None) => {
                let path = self.name_of("burst_trace_path");
                self.wrong("use_burst_trace", format_args!("needs a trace: give {path}"));
                None
            }
            (false, Some(_)) => {
                let switch = self.name_of("use_burst_trace");
                self.wrong("burst_trace_path", format_args!("has no effect without {switch}"));
                None
            }
            (false, None) => None,
        };
        let asked = [
            ("use_burst_trace", burst.is_some()),
            ("dataset_path", dataset.is_some()),
            ("mooncake_trace", mooncake.is_some()),
            ("replay_trace", replay.is_some()),
        ];
        let mut asked = asked.into_iter().filter(|&(_, is)| is).map(|(key, _)| key);
        if let (Some(one), Some(other)) = (asked.next(), asked.next()) {
            let other = self.name_of(other);
            self.wrong(one, format_args!("and {other} exclude each other"));
        }
        let speedup = settings.trace_speedup.unwrap_or(1.0);
        if speedup != 0.0 && !(1e-6..=1e9).contains(&speedup) {
            self.wrong(
                "trace_speedup",
                format_args!("{speedup:?} is out of bounds: 0, or 0.000001 to 1000000000"),
            );
        }
        let most = i64::from(u32::MAX);
        let cycles = self.whole("replay_cycles", settings.replay_cycles, 0, most) as u32;
        let conversations =
            self.whole("max_conversations", settings.max_conversations, 0, most) as u32;
        let trace = |kind, path| Traffic::Trace { kind, path, speedup, cycles };
        if let (Some(path), Some(tiers)) = (replay, settings.replay_tiers) {
            return self.replay(settings, path, tiers, speedup);
        }
        match (burst, mooncake, dataset) {
            (Some(path), _, _) => trace(TraceKind::BurstGpt, path),
            (_, Some(path), _) => self.mooncake(settings, trace(TraceKind::Mooncake, path)),
            (_, _, Some(path)) => match settings.tokenizer {
                Some(tokenizer) => {
                    Traffic::ShareGpt { path, conversations_max: conversations, tokenizer }
                }
                None => Traffic::Drawn,
            },
            _ => Traffic::Drawn,
        }
    }

    fn replay(
        &mut self,
        settings: &Options,
        path: std::path::PathBuf,
        tiers: ReplayTiers,
        speedup: f64,
    ) -> Traffic {
        for (key, is_on) in [
            ("decode_only", settings.decode_only == Some(true)),
            ("prefill_only", settings.prefill_only == Some(true)),
            ("enable_rag", settings.enable_rag == Some(true)),
            ("replay_cycles", settings.replay_cycles.is_some_and(|cycles| cycles > 1)),
        ] {
            if is_on {
                let trace = self.name_of("replay_trace");
                let what =
                    format_args!("does not go with {trace}: its operations are all there is");
                self.wrong(key, what);
            }
        }
        Traffic::Trace { kind: TraceKind::Io(tiers), path, speedup, cycles: 1 }
    }

    fn mooncake(&mut self, settings: &Options, traffic: Traffic) -> Traffic {
        for (key, is_on) in [
            ("decode_only", settings.decode_only == Some(true)),
            ("enable_rag", settings.enable_rag == Some(true)),
        ] {
            if is_on {
                let trace = self.name_of("mooncake_trace");
                self.wrong(
                    key,
                    format_args!("does not go with {trace}: its requests are their blocks"),
                );
            }
        }
        traffic
    }

    /// When requests arrive, and how many a second.
    pub(super) fn arrival(&mut self, settings: &Options, traffic: &Traffic) -> (Arrival, f64) {
        let mut arrival = settings.arrival.unwrap_or(Arrival::Open);
        let rate = settings.request_rate.unwrap_or(0.0);
        if !(0.0..=RATE_MAX_PER_S).contains(&rate) {
            self.wrong("request_rate", format_args!("{rate} is out of bounds: 0 to 1000000000"));
            return (arrival, 0.0);
        }
        if arrival == Arrival::Poisson && rate == 0.0 {
            let flag = self.name_of("request_rate");
            self.wrong("arrival", format_args!("poisson needs a rate: give {flag} too"));
        }
        match traffic {
            Traffic::Drawn if rate > 0.0 && arrival != Arrival::Poisson => {
                let flag = self.name_of("arrival");
                self.wrong(
                    "request_rate",
                    format_args!("{rate} needs {flag} poisson, or a trace or dataset to pace"),
                );
            }
            // A paced dataset: its users' requests come at random, at this rate together.
            Traffic::ShareGpt { .. } if rate > 0.0 && arrival == Arrival::Open => {
                arrival = Arrival::Poisson;
                self.origins.insert("arrival", Origin::Computed);
            }
            Traffic::ShareGpt { .. } if rate > 0.0 && arrival == Arrival::Closed => {
                let flag = self.name_of("arrival");
                self.wrong(
                    "request_rate",
                    format_args!("{rate} does not go with {flag} closed, where answers pace"),
                );
            }
            Traffic::Trace { .. } if arrival == Arrival::Closed => {
                self.wrong("arrival", "closed does not go with a trace, which has its own times");
            }
            _ => {}
        }
        (arrival, rate)
    }

    /// Documents; 0 without retrieval.
    pub(super) fn rag(&mut self, settings: &Options) -> u32 {
        let documents = self.whole("rag_num_docs", settings.rag_num_docs, 0, DOCUMENTS_MAX);
        if settings.enable_rag != Some(true) {
            return 0;
        }
        if documents == 0 {
            self.wrong("rag_num_docs", "0 leaves nothing to retrieve: give at least 1");
        }
        if self.phases(settings) == Phases::DecodeOnly {
            self.wrong("enable_rag", "does not go with decode_only, whose requests only decode");
        }
        documents as u32
    }

    /// Whether and how users come and go.
    pub(super) fn autoscaler(
        &mut self,
        settings: &Options,
        traffic: &Traffic,
        arrival: Arrival,
        (users, shards): (i64, i64),
    ) -> Option<AutoscalerPlan> {
        let target_saturation = settings.target_saturation.unwrap_or(1.0);
        if !(target_saturation > 0.0 && target_saturation <= 1.0) {
            self.wrong(
                "target_saturation",
                format_args!("{target_saturation} is out of bounds: above 0, to 1"),
            );
        }
        if settings.enable_autoscaling != Some(true) {
            return None;
        }
        if matches!(traffic, Traffic::Trace { .. }) {
            self.wrong(
                "enable_autoscaling",
                "does not go with a trace, which says by itself who asks when",
            );
        }
        if arrival == Arrival::Poisson {
            let flag = self.name_of("request_rate");
            self.wrong(
                "enable_autoscaling",
                format_args!("does not go with {flag}: more users would not ask more"),
            );
        }
        if settings.max_requests.is_some_and(|most| most > 0) {
            self.wrong("max_requests", "does not go with the autoscaler, which ends by itself");
        }
        let given = self.origins.get("num_users").is_some_and(|origin| *origin >= Origin::File);
        let initial = if given { users } else { INITIAL_USERS_A_SHARD * shards };
        Some(AutoscalerPlan {
            mode: settings.autoscaler_mode?,
            // At most 100,000.
            initial_users: initial as u32,
            target_saturation,
        })
    }
}
