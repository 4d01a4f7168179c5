//! Where requests come from, when they arrive, and whether users come and go: settings that forbid
//! each other.

use ringfall_host::human;
use ringfall_workloads::contract::Class;

use super::check::Check;
use super::derive::is_rate_idle;
use super::words::RagIngestion;
use super::{Arrival, AutoscalerMode, PhaseMode, Plan, Settings, Traffic};

/// Where the reference looks for a BurstGPT trace when it isn't told: in a clone of the data set's
/// repository, below the working directory.
pub const BURST_TRACE: &str = "BurstGPT/data/BurstGPT_1.csv";

impl Check<'_> {
    /// Refuses settings that a source of requests leaves without effect.
    pub(super) fn traffic(&mut self, settings: &Settings) {
        if !settings.use_burst_trace && settings.burst_trace_path.is_some() {
            let switch = self.name_of("use_burst_trace");
            self.wrong("burst_trace_path", format_args!("has no effect without {switch}"));
        }
        if settings.replay_trace.is_some() && settings.replay_cycles > 1 {
            let trace = self.name_of("replay_trace");
            let what = format!("and {trace} cannot be combined: a logical trace is replayed once");
            self.wrong("replay_cycles", what);
        }
    }

    /// When requests arrive.
    pub(super) fn arrival(&mut self, asked: &Settings, plan: &Plan) {
        let (arrival, rate) = (asked.arrival, asked.request_rate_per_s);
        if arrival == Arrival::Poisson && rate == 0.0 {
            let flag = self.name_of("request_rate");
            self.wrong("arrival", format_args!("poisson needs a rate: give {flag} too"));
        }
        if is_rate_idle(asked, &plan.traffic) {
            // As in the reference, whose published commands give both.
            let (flag, arrival) = (self.name_of("request_rate"), self.name_of("arrival"));
            self.told.push(format!(
                "{flag} {rate} has no effect: simulated users keep their own pace; with {arrival} \
                 poisson they send {rate} requests per second together"
            ));
        }
        match plan.traffic {
            Traffic::ShareGpt { .. } if rate > 0.0 && arrival == Arrival::Closed => {
                let flag = self.name_of("arrival");
                let what = format!(
                    "{rate} cannot be combined with {flag} closed, where the answers set the \
                     pace"
                );
                self.wrong("request_rate", what);
            }
            Traffic::Trace { .. } if arrival == Arrival::Closed => {
                let what =
                    "closed cannot be combined with a trace, which has its own arrival times";
                self.wrong("arrival", what);
            }
            _ => {}
        }
    }

    /// Documents to retrieve from.
    pub(super) fn rag(&mut self, plan: &Plan) {
        if !plan.enable_rag {
            return;
        }
        if plan.phases == PhaseMode::DecodeOnly && plan.rag_ingestion == RagIngestion::Beside {
            let only = self.name_of("decode_only");
            let what =
                format!("beside cannot be combined with {only}, which writes nothing: give before");
            self.wrong("rag_ingestion", what);
        }
        if plan.rag_num_docs == 0 {
            self.wrong("rag_num_docs", "0 leaves nothing to retrieve: give at least 1");
        }
    }

    /// Latency targets that the time to generate an answer leaves no drive a chance to meet.
    fn slo_can_be_met(&mut self, plan: &Plan) {
        let least_ns = plan.workload_config().generation_ns_min();
        let targets = Class::NAMES.iter().zip(plan.workload.qos_targets_ms.p95_ns());
        let missed = targets.into_iter().find(|(_, target_ns)| least_ns > *target_ns);
        let is_drawn = plan.traffic == Traffic::Drawn;
        let is_by_class = is_drawn && plan.slo.is_none();
        if let (Some((class, target_ns)), true, AutoscalerMode::Slo) =
            (missed, is_by_class, plan.autoscaler_mode)
        {
            let ms = |ns: u64| ns / 1_000_000;
            let generation = self.name_of("generation_mode");
            let what = format!(
                "slo can't be met by any drive: the target of class {class} is {} ms to the last \
                 token, and generating an answer takes {} ms at least; give {generation} none, or \
                 larger workload.qos_targets_ms in the file of --config",
                ms(target_ns),
                ms(least_ns)
            );
            self.wrong("autoscaler_mode", what);
        }
    }

    /// Whether users can come and go.
    pub(super) fn autoscaler(&mut self, plan: &Plan) {
        if plan.slo.is_some()
            && (!plan.enable_autoscaling || plan.autoscaler_mode != AutoscalerMode::Slo)
        {
            let (switch, mode) =
                (self.name_of("enable_autoscaling"), self.name_of("autoscaler_mode"));
            self.wrong(
                "slo",
                format_args!("is for {switch} with {mode} slo: give both, or leave it out"),
            );
        }
        if !plan.enable_autoscaling {
            return;
        }
        if matches!(plan.traffic, Traffic::Trace { .. }) {
            let what = format!(
                "cannot be combined with a trace, which itself says who sends a request when, \
                 so that more users would not send more: give {} to vary its load, or leave \
                 the trace out",
                self.name_of("trace_speedup")
            );
            self.wrong("enable_autoscaling", what);
        }
        let (users, shards) = (plan.users, u32::from(plan.shards));
        if plan.phases == PhaseMode::DecodeOnly && users < shards {
            let shards_flag = self.name_of("shards");
            let what = format!(
                "{users} would leave shards of the {shards} without entries, and the users \
                 that the autoscaler adds there would find nothing to read: give {shards}, or \
                 {shards_flag} {users}"
            );
            self.wrong("num_users", what);
        }
        self.slo_can_be_met(plan);
        let memory_bytes = plan.cpu_memory_bytes.saturating_add(plan.gpu_memory_bytes);
        let population_bytes = plan.workload_config().population_estimate().bytes;
        if plan.phases == PhaseMode::DecodeOnly
            && !plan.is_without_storage
            && population_bytes <= memory_bytes
        {
            let (only, cpu) = (self.name_of("decode_only"), self.name_of("cpu_mem_gb"));
            let what = format!(
                "would ask storage for nothing: {only} writes the entries of the users at the \
                 start, {}, which the tiers in memory hold; give {cpu} 0, or more users",
                human(population_bytes)
            );
            self.wrong("enable_autoscaling", what);
        }
        if plan.autoscaler_mode == AutoscalerMode::Qos && plan.is_without_storage {
            self.wrong(
                "disable_storage",
                "leaves nothing to search by: mode qos looks for the users that the storage tier \
                 serves within its targets; give --autoscaler-mode slo or capacity",
            );
        }
        if plan.arrival == Arrival::Poisson {
            let flag = self.name_of("request_rate");
            let what =
                format!("cannot be combined with {flag}: more users would not send more requests");
            self.wrong("enable_autoscaling", what);
        }
    }
}
