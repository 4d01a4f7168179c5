//! Where requests come from, when they arrive, and whether users come and go: settings that forbid
//! each other.

use std::path::PathBuf;

use super::resolve::Check;
use super::words::RagIngestion;
use super::{Arrival, AutoscalerPlan, Origin, PhaseMode, Settings, TraceKind, Traffic};

/// Where the reference looks for a BurstGPT trace when it isn't told: in a clone of the data set's
/// repository, below the working directory.
pub const BURST_TRACE: &str = "BurstGPT/data/BurstGPT_1.csv";
/// Users a shard that the autoscaler begins with when nobody says how many.
const INITIAL_USERS_A_SHARD: u32 = 2;

impl Check<'_> {
    /// Where requests come from: at most one of the sources may be asked for.
    pub(super) fn traffic(&mut self, settings: &Settings) -> Traffic {
        let burst_path = settings.burst_trace_path.clone();
        let dataset = settings.dataset_path.clone();
        let mooncake = settings.mooncake_trace.clone();
        let replay = settings.replay_trace.clone();
        let burst = match (settings.use_burst_trace, burst_path) {
            (true, path) => Some(path.unwrap_or_else(|| PathBuf::from(BURST_TRACE))),
            (false, Some(_)) => {
                let switch = self.name_of("use_burst_trace");
                self.wrong("burst_trace_path", format_args!("has no effect without {switch}"));
                None
            }
            (false, None) => None,
        };
        let both = burst.is_some() && dataset.is_some();
        let burst = burst.filter(|_| !both);
        if both {
            // As in the reference.
            let (trace, dataset) = (self.name_of("use_burst_trace"), self.name_of("dataset_path"));
            self.tell(format!(
                "{trace} has no effect beside {dataset}: the users repeat the dataset's \
                 conversations"
            ));
        }
        let asked = [
            ("use_burst_trace", burst.is_some()),
            ("dataset_path", dataset.is_some()),
            ("mooncake_trace", mooncake.is_some()),
            ("replay_trace", replay.is_some()),
        ];
        let mut asked = asked.into_iter().filter(|&(_, is)| is).map(|(key, _)| key);
        if let (Some(one), Some(other)) = (asked.next(), asked.next()) {
            let other = self.name_of(other);
            self.wrong(one, format_args!("and {other} cannot be combined"));
        }
        let (speedup, cycles) = (settings.trace_speedup, settings.replay_cycles);
        let trace = |kind, path| Traffic::Trace { kind, path, speedup, cycles };
        if let Some(path) = replay {
            self.replay(settings);
            let kind = TraceKind::Io(settings.replay_tiers);
            return Traffic::Trace { kind, path, speedup, cycles: 1 };
        }
        match (burst, mooncake, dataset) {
            (Some(path), _, _) => trace(TraceKind::BurstGpt, path),
            (_, Some(path), _) => {
                self.mooncake(settings);
                trace(TraceKind::Mooncake, path)
            }
            (_, _, Some(path)) => Traffic::ShareGpt {
                path,
                conversations_max: settings.max_conversations,
                tokenizer: settings.tokenizer,
            },
            _ => Traffic::Drawn,
        }
    }

    fn replay(&mut self, settings: &Settings) {
        for (key, is_on) in [
            ("decode_only", settings.decode_only),
            ("prefill_only", settings.prefill_only),
            ("enable_rag", settings.enable_rag),
            ("replay_cycles", settings.replay_cycles > 1),
        ] {
            if is_on {
                let trace = self.name_of("replay_trace");
                let what = format_args!(
                    "cannot be combined with {trace}, which replays recorded \
                                  operations and nothing else"
                );
                self.wrong(key, what);
            }
        }
    }

    fn mooncake(&mut self, settings: &Settings) {
        for (key, is_on) in
            [("decode_only", settings.decode_only), ("enable_rag", settings.enable_rag)]
        {
            if is_on {
                let trace = self.name_of("mooncake_trace");
                self.wrong(
                    key,
                    format_args!(
                        "cannot be combined with {trace}, whose requests consist of \
                                  recorded blocks"
                    ),
                );
            }
        }
    }

    /// When requests arrive.
    pub(super) fn arrival(&mut self, settings: &mut Settings, traffic: &Traffic) {
        let arrival = settings.arrival;
        let rate = settings.request_rate_per_s;
        if arrival == Arrival::Poisson && rate == 0.0 {
            let flag = self.name_of("request_rate");
            self.wrong("arrival", format_args!("poisson needs a rate: give {flag} too"));
        }
        match traffic {
            Traffic::Drawn if rate > 0.0 && arrival != Arrival::Poisson => {
                // As in the reference, whose published commands give both.
                let (flag, arrival) = (self.name_of("request_rate"), self.name_of("arrival"));
                self.tell(format!(
                    "{flag} {rate} has no effect: simulated users keep their own pace; with \
                     {arrival} poisson they send {rate} requests per second together"
                ));
                settings.request_rate_per_s = 0.0;
            }
            // A paced dataset: its users' requests come at random, at this rate together.
            Traffic::ShareGpt { .. } if rate > 0.0 && arrival == Arrival::Open => {
                settings.arrival = Arrival::Poisson;
                self.origins.insert("arrival", Origin::Computed);
            }
            Traffic::ShareGpt { .. } if rate > 0.0 && arrival == Arrival::Closed => {
                let flag = self.name_of("arrival");
                self.wrong(
                    "request_rate",
                    format_args!(
                        "{rate} cannot be combined with {flag} closed, where the answers \
                                  set the pace"
                    ),
                );
            }
            // Users that come although nobody was answered yet pile up beyond the limit that is
            // looked for, and the next step would measure what is left of them.
            Traffic::Drawn | Traffic::ShareGpt { .. }
                if settings.enable_autoscaling && !self.is_given("arrival") =>
            {
                settings.arrival = Arrival::Closed;
                self.origins.insert("arrival", Origin::Computed);
                let arrival = self.name_of("arrival");
                self.tell(format!(
                    "the autoscaler's users wait for their answers ({arrival} closed): give \
                     {arrival} open for users that do not, as in the reference"
                ));
            }
            Traffic::Trace { .. } if arrival == Arrival::Closed => {
                self.wrong(
                    "arrival",
                    "closed cannot be combined with a trace, which has its own \
                            arrival times",
                );
            }
            _ => {}
        }
    }

    /// Documents; 0 without retrieval.
    pub(super) fn rag(&mut self, settings: &Settings, phases: PhaseMode) -> u32 {
        if !settings.enable_rag {
            return 0;
        }
        if phases == PhaseMode::DecodeOnly && settings.rag_ingestion == RagIngestion::Beside {
            let only = self.name_of("decode_only");
            self.wrong(
                "rag_ingestion",
                format_args!(
                    "beside cannot be combined with {only}, which writes nothing: give \
                              before"
                ),
            );
        }
        if settings.rag_num_docs == 0 {
            self.wrong("rag_num_docs", "0 leaves nothing to retrieve: give at least 1");
        }
        settings.rag_num_docs
    }

    /// Whether somebody gave that setting.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.origins.get(key).is_some_and(|origin| *origin >= Origin::File)
    }

    /// Whether and how users come and go.
    pub(super) fn autoscaler(
        &mut self,
        settings: &mut Settings,
        traffic: &Traffic,
    ) -> Option<AutoscalerPlan> {
        if !settings.enable_autoscaling {
            return None;
        }
        if matches!(traffic, Traffic::Trace { .. }) {
            self.wrong(
                "enable_autoscaling",
                format_args!(
                    "cannot be combined with a trace, which itself says who sends a request when, \
                     so that more users would not send more: give {} to vary its load, or leave \
                     the trace out",
                    self.name_of("trace_speedup")
                ),
            );
        }
        if settings.arrival == Arrival::Poisson {
            let flag = self.name_of("request_rate");
            self.wrong(
                "enable_autoscaling",
                format_args!(
                    "cannot be combined with {flag}: more users would not send more \
                              requests"
                ),
            );
        }
        let given = self.is_given("num_users");
        let of_shards = INITIAL_USERS_A_SHARD * u32::from(settings.shards);
        Some(AutoscalerPlan {
            mode: settings.autoscaler_mode,
            initial_users: if given { settings.num_users } else { of_shards },
            target_saturation: settings.target_saturation,
        })
    }
}
