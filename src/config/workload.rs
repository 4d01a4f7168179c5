//! The `workload` section of a configuration file: what has no flag.

use std::collections::BTreeMap;

use ringfall_workloads::WorkloadConfig;
use ringfall_workloads::config::{Persona, PrefixReads, RagConfig};
use ringfall_workloads::layout::{LayoutOption, LayoutPlan};
use serde::{Deserialize, Serialize};

use super::{
    Arrival, AutoscalerSteps, Eviction, GpuLimits, HealthCriteria, LayoutLimits, Limits, Plan,
    QosTargets, SaturationTargets, Traffic,
};

/// Limits to which the turns of a ShareGPT dataset are cut.
const DATASET_CONTEXT_TOKENS_MAX: u32 = 8_192;
const DATASET_GENERATE_TOKENS_MAX: u32 = 2_048;

/// The built-in personas' names, in the order of `WorkloadConfig::default`.
const PERSONAS: [&str; 3] = ["chatbot", "coding", "document"];

/// Declares the section: the numbers that are [`WorkloadConfig`]'s, and those with defaults of
/// their own.
macro_rules! workload_section {
    ($($of_workload:ident: $type:ty,)+; $($own:ident: $own_type:ty = $default:expr,)+) => {
        /// The numbers behind users, conversations and phases, with fields as in
        /// [`WorkloadConfig`], and what the run is judged and bounded by.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[expect(
            missing_docs,
            reason = "each field is WorkloadConfig's of the same name, or its type says it"
        )]
        pub struct WorkloadSection {
            pub personas: BTreeMap<String, Persona>,
            $(pub $of_workload: $type,)+
            $(pub $own: $own_type,)+
        }

        impl Default for WorkloadSection {
            fn default() -> Self {
                let built_in = WorkloadConfig::default();
                let names = PERSONAS.iter().map(|name| (*name).to_owned());
                WorkloadSection {
                    personas: names.zip(built_in.personas).collect(),
                    $($of_workload: built_in.$of_workload,)+
                    $($own: $default,)+
                }
            }
        }

        impl WorkloadSection {
            /// The workload with these numbers, and without anything that flags say.
            fn numbers(&self) -> WorkloadConfig {
                WorkloadConfig {
                    personas: self.personas.values().copied().collect(),
                    $($of_workload: self.$of_workload,)+
                    ..WorkloadConfig::default()
                }
            }
        }
    };
}

workload_section! {
    interactive_share: f64,
    responsive_share: f64,
    think_jitter: [f64; 2],
    conversation_end_probability: f64,
    conversation_turns_max: u32,
    conversations_live_max: u32,
    history_counts_queued_turns: bool,
    prefix_probability: f64,
    system_prompts: u32,
    system_prompt_tokens: [u32; 2],
    system_prompts_written: bool,
    rag: RagConfig,
    prefill_only_context_tokens: u32,
    decode_batch_tokens: u32,
    generation_fast_ms: f64,
    generation_realistic_ms: f64,
    decode_only_entries_per_user: u32,
    decode_only_entry_tokens: u32,
    ;
    dataset_context_tokens_max: u32 = DATASET_CONTEXT_TOKENS_MAX,
    dataset_generate_tokens_max: u32 = DATASET_GENERATE_TOKENS_MAX,
    eviction: Eviction = Eviction::default(),
    gpu: GpuLimits = GpuLimits::default(),
    health: HealthCriteria = HealthCriteria::default(),
    qos_targets_ms: QosTargets = QosTargets::default(),
    autoscaler: AutoscalerSteps = AutoscalerSteps::default(),
    limits: Limits = Limits::default(),
    saturation_targets: SaturationTargets = SaturationTargets::default(),
}

impl Plan {
    /// Settings of the workload: the section and the flags together.
    pub fn workload_config(&self) -> WorkloadConfig {
        WorkloadConfig {
            model: self.model_spec.clone(),
            tensor_parallel: u64::from(self.tensor_parallel),
            all_token_bytes: self.layout_plan.as_ref().map(LayoutPlan::entry_token_bytes),
            num_users: self.users,
            arrival: match self.traffic {
                // A trace is paced where it is read.
                Traffic::Trace { .. } => Arrival::Open,
                Traffic::Drawn | Traffic::ShareGpt { .. } => self.arrival,
            },
            request_rate_per_s: self.request_rate_per_s,
            multi_turn: !self.disable_multi_turn,
            trace_classes: self.trace_classes,
            prefix_caching: !self.disable_prefix_caching,
            rag_documents: self.rag_documents,
            rag_ingestion: self.rag_ingestion,
            decode_reads: self.decode_reads,
            history_reads: self.history_reads,
            prefix_reads: match &self.layout_plan {
                None => PrefixReads::Each,
                Some(layout) if self.engine_limits == LayoutLimits::Theirs => {
                    match layout.divides_requests() {
                        true => PrefixReads::AtOnce,
                        false => PrefixReads::InOrder,
                    }
                }
                Some(_) => PrefixReads::AtOnce,
            },
            chunk_tokens: self.layout_plan.as_ref().map_or(1, LayoutPlan::whole_tokens),
            writes_selectively: (self.layout_plan.as_ref())
                .is_some_and(|layout| layout.options().is_on(LayoutOption::Selective)),
            prefill_tokens_per_s: self.prefill_tokens_per_s,
            generation_mode: self.generation_mode,
            phases: self.phases,
            // With users that come and go, it is not theirs to divide: the run ends at that number.
            max_requests: match self.enable_autoscaling {
                true => 0,
                false => self.max_requests.unwrap_or(0),
            },
            ..self.workload.numbers()
        }
    }
}
