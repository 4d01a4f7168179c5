//! The `workload` section of a configuration file: what has no flag.

use std::collections::BTreeMap;

use ringfall_workloads::WorkloadConfig;
use ringfall_workloads::config::{Persona, RagConfig};
use serde::{Deserialize, Serialize};

use super::{
    Arrival, AutoscalerSteps, Eviction, GpuLimits, HealthCriteria, Limits, Plan, QosTargets,
    SaturationTargets, Traffic,
};

/// The numbers behind users, conversations and phases, with fields as in [`WorkloadConfig`], and
/// what the run is judged and bounded by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is WorkloadConfig's of the same name, or its type says it"
)]
pub struct WorkloadSection {
    pub personas: BTreeMap<String, Persona>,
    pub interactive_share: f64,
    pub responsive_share: f64,
    pub think_jitter: [f64; 2],
    pub conversation_end_probability: f64,
    pub conversation_turns_max: u32,
    pub conversations_live_max: u32,
    pub history_counts_queued_turns: bool,
    pub prefix_probability: f64,
    pub system_prompts: u32,
    pub system_prompt_tokens: [u32; 2],
    pub system_prompts_written: bool,
    pub rag: RagConfig,
    pub dataset_context_tokens_max: u32,
    pub dataset_generate_tokens_max: u32,
    pub prefill_only_context_tokens: u32,
    pub decode_batch_tokens: u32,
    pub generation_fast_ms: f64,
    pub generation_realistic_ms: f64,
    pub decode_only_entries_per_user: u32,
    pub decode_only_entry_tokens: u32,
    pub eviction: Eviction,
    pub gpu: GpuLimits,
    pub health: HealthCriteria,
    pub qos_targets_ms: QosTargets,
    pub autoscaler: AutoscalerSteps,
    pub limits: Limits,
    pub saturation_targets: SaturationTargets,
}

/// Limits to which the turns of a ShareGPT dataset are cut.
const DATASET_CONTEXT_TOKENS_MAX: u32 = 8_192;
const DATASET_GENERATE_TOKENS_MAX: u32 = 2_048;

/// The built-in personas' names, in the order of `WorkloadConfig::default`.
const PERSONAS: [&str; 3] = ["chatbot", "coding", "document"];

impl Default for WorkloadSection {
    fn default() -> Self {
        let built_in = WorkloadConfig::default();
        let names = PERSONAS.iter().map(|name| (*name).to_owned());
        WorkloadSection {
            personas: names.zip(built_in.personas).collect(),
            interactive_share: built_in.interactive_share,
            responsive_share: built_in.responsive_share,
            think_jitter: built_in.think_jitter,
            conversation_end_probability: built_in.conversation_end_probability,
            conversation_turns_max: built_in.conversation_turns_max,
            conversations_live_max: built_in.conversations_live_max,
            history_counts_queued_turns: built_in.history_counts_queued_turns,
            prefix_probability: built_in.prefix_probability,
            system_prompts: built_in.system_prompts,
            system_prompt_tokens: built_in.system_prompt_tokens,
            system_prompts_written: built_in.system_prompts_written,
            rag: built_in.rag,
            dataset_context_tokens_max: DATASET_CONTEXT_TOKENS_MAX,
            dataset_generate_tokens_max: DATASET_GENERATE_TOKENS_MAX,
            prefill_only_context_tokens: built_in.prefill_only_context_tokens,
            decode_batch_tokens: built_in.decode_batch_tokens,
            generation_fast_ms: built_in.generation_fast_ms,
            generation_realistic_ms: built_in.generation_realistic_ms,
            decode_only_entries_per_user: built_in.decode_only_entries_per_user,
            decode_only_entry_tokens: built_in.decode_only_entry_tokens,
            eviction: Eviction::default(),
            gpu: GpuLimits::default(),
            health: HealthCriteria::default(),
            qos_targets_ms: QosTargets::default(),
            autoscaler: AutoscalerSteps::default(),
            limits: Limits::default(),
            saturation_targets: SaturationTargets::default(),
        }
    }
}

impl Plan {
    /// Settings of the workload: the section and the flags together.
    #[must_use]
    pub fn workload_config(&self) -> WorkloadConfig {
        let section = self.workload.clone();
        WorkloadConfig {
            model: self.model_spec.clone(),
            tensor_parallel: u64::from(self.tensor_parallel),
            num_users: self.users,
            personas: section.personas.into_values().collect(),
            interactive_share: section.interactive_share,
            responsive_share: section.responsive_share,
            think_jitter: section.think_jitter,
            arrival: match self.traffic {
                // A trace is paced where it is read.
                Traffic::Trace { .. } => Arrival::Open,
                Traffic::Drawn | Traffic::ShareGpt { .. } => self.arrival,
            },
            request_rate_per_s: self.request_rate_per_s,
            multi_turn: !self.disable_multi_turn,
            conversation_end_probability: section.conversation_end_probability,
            conversation_turns_max: section.conversation_turns_max,
            conversations_live_max: section.conversations_live_max,
            history_counts_queued_turns: section.history_counts_queued_turns,
            trace_classes: self.trace_classes,
            prefix_caching: !self.disable_prefix_caching,
            prefix_probability: section.prefix_probability,
            system_prompts: section.system_prompts,
            system_prompt_tokens: section.system_prompt_tokens,
            system_prompts_written: section.system_prompts_written,
            rag_documents: self.rag_documents,
            rag_ingestion: self.rag_ingestion,
            rag: section.rag,
            prefill_only_context_tokens: section.prefill_only_context_tokens,
            decode_batch_tokens: section.decode_batch_tokens,
            generation_mode: self.generation_mode,
            generation_fast_ms: section.generation_fast_ms,
            generation_realistic_ms: section.generation_realistic_ms,
            phases: self.phases,
            decode_only_entries_per_user: section.decode_only_entries_per_user,
            decode_only_entry_tokens: section.decode_only_entry_tokens,
            // With users that come and go, it is not theirs to divide: the run ends at that number.
            max_requests: match self.autoscaler {
                Some(_) => 0,
                None => self.max_requests.unwrap_or(0),
            },
        }
    }
}
