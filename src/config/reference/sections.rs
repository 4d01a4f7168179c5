//! The sections and keys of the reference benchmark's `config.yaml`, as its reader takes them, and
//! what becomes of each here: every key may be left out, and none but these may be there.

use std::collections::BTreeMap;

use ringfall_workloads::config::{Persona, RagConfig, RagDistribution};
use ringfall_workloads::model::Dtype;
use serde::Deserialize;

use crate::{
    AutoscalerSteps, Eviction, GpuLimits, Limits, QosTargets, SaturationTargets, WorkloadSection,
};

/// Characters in a token where a dataset's tokens are estimated: the same here, and not varied.
const CHARS_A_TOKEN: u32 = 4;

/// A section of the reference's file.
pub(super) trait Section {
    /// Section of ours that it changes.
    type Ours;

    /// Names of all keys that it may have.
    const KEYS: &'static [&'static str];

    /// Changes `to` by what is given; returns the names of what has no effect.
    fn apply(self, to: &mut Self::Ours) -> Vec<&'static str>;
}

/// Declares sections: each key is a field, and what a file leaves out is none. Of a key that is
/// given,
///
/// - `set [.path]` writes it there in our section, by way of a function if one is named;
/// - `into [.path]` applies it, itself a section, to what is there;
/// - `persona "name"` applies it to the persona of that name;
/// - `idle "name"` reports that it has no effect, or only where a function of its value says so.
///
/// Keys with none of these are looked at beside this table.
macro_rules! sections {
    ($($name:ident for $ours:ty {
        $($key:ident: $type:ty $(=> $verb:ident $what:tt $($by:expr)?)?;)+
    })+) => {$(
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $name {
            $(pub $key: Option<$type>,)+
        }

        impl Section for $name {
            type Ours = $ours;

            const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];

            fn apply(self, to: &mut $ours) -> Vec<&'static str> {
                let idle: &[Vec<&'static str>] =
                    &[$($(sections!(@$verb self.$key, to, $what $($by)?),)?)+];
                idle.concat()
            }
        }
    )+};

    (@set $given:expr, $to:ident, [$($path:tt)+] $($by:expr)?) => {{
        if let Some(given) = $given$(.map($by))? {
            $to $($path)+ = given;
        }
        Vec::new()
    }};
    (@into $given:expr, $to:ident, []) => {
        $given.map(|given| given.apply($to)).unwrap_or_default()
    };
    (@into $given:expr, $to:ident, [$($path:tt)+]) => {
        $given.map(|given| given.apply(&mut $to $($path)+)).unwrap_or_default()
    };
    (@persona $given:expr, $to:ident, $name:literal) => {{
        let both = $given.zip($to.personas.get_mut($name));
        both.map(|(given, persona)| given.apply(persona)).unwrap_or_default()
    }};
    (@idle $given:expr, $to:ident, $name:literal) => {
        $given.map(|_| $name).into_iter().collect()
    };
    (@idle $given:expr, $to:ident, $name:literal $is_idle:expr) => {
        $given.filter($is_idle).map(|_| $name).into_iter().collect()
    };
}

sections! {
    Sections for WorkloadSection {
        autoscaler: Autoscaler => into [.autoscaler];
        conversation: Conversation => into [];
        decode: Decode => into [];
        eviction: EvictionSection => into [.eviction];
        generation_timing: GenerationTiming => into [];
        gpu_backend: GpuBackend => into [.gpu];
        model_configs: BTreeMap<String, ModelConfig>;
        prefix_cache: PrefixCache => into [];
        qos_distribution: QosDistribution => into [];
        qos_profiles: QosProfiles => into [.qos_targets_ms];
        rag: Rag => into [.rag];
        saturation_detection: SaturationDetection => into [.saturation_targets];
        sharegpt: ShareGpt => into [];
        user_templates: UserTemplates => into [];
        validation_limits: ValidationLimits => into [.limits];
    }
    Autoscaler for AutoscalerSteps {
        min_users: u32 => set [.users_min];
        max_users: u32 => set [.users_max];
        scale_up_factor: f64 => set [.scale_up_factor];
        scale_down_factor: f64 => set [.scale_down_factor];
        consecutive_samples_required: u32 => idle
            "autoscaler.consecutive_samples_required (a step lasts until it is steady)";
    }
    Conversation for WorkloadSection {
        max_conversations: u32 => set [.conversations_live_max];
        max_turns_per_conv: u32 => set [.conversation_turns_max];
        end_conversation_probability: f64 => set [.conversation_end_probability];
    }
    Decode for WorkloadSection {
        batch_size: u32 => set [.decode_batch_tokens];
    }
    EvictionSection for Eviction {
        target_usage_ratio: f64 => set [.target_usage_ratio];
        large_entry_limit_ratio: f64 => set [.large_entry_limit_ratio];
        max_recursion_depth: u64 => idle
            "eviction.max_* (an eviction goes on until there is room)";
        max_evictions_hard_cap: u64 => idle
            "eviction.max_* (an eviction goes on until there is room)";
        max_evictions_min: u64 => idle
            "eviction.max_* (an eviction goes on until there is room)";
    }
    GenerationTiming for WorkloadSection {
        none: f64 => idle "generation_timing.none" |seconds| *seconds != 0.0;
        fast: f64 => set [.generation_fast_ms] milliseconds;
        realistic: f64 => set [.generation_realistic_ms] milliseconds;
    }
    GpuBackend for GpuLimits {
        memory_fraction: f64 => set [.memory_fraction];
        max_eviction_attempts: u64 => idle
            "gpu_backend.max_eviction_attempts (an eviction goes on until there is room)";
        free_memory_threshold: f64 => set [.reserve_fraction];
    }
    PrefixCache for WorkloadSection {
        min_prefix_length: u64 => idle "prefix_cache.min_prefix_length";
        max_prefix_entries: u64 => idle "prefix_cache.max_prefix_entries";
        system_prompt_hit_probability: f64 => set [.prefix_probability];
    }
    QosDistribution for WorkloadSection {
        interactive_probability: f64 => set [.interactive_share];
        responsive_threshold: f64;
    }
    QosProfiles for QosTargets {
        interactive: QosProfile => into [.interactive];
        responsive: QosProfile => into [.responsive];
        batch: QosProfile => into [.batch];
    }
    QosProfile for [u64; 4] {
        target_latency_p95_ms: u64 => set [[0]];
        target_latency_p99_ms: u64 => set [[1]];
        target_latency_p999_ms: u64 => set [[2]];
        target_latency_p9999_ms: u64 => set [[3]];
        priority: i64;
    }
    Rag for RagConfig {
        chunk_size_tokens: u32 => set [.chunk_tokens];
        top_k_chunks: u32 => set [.top_k];
        max_chunk_bytes: u64 => set [.chunk_bytes_max];
        request_probability: f64 => set [.probability];
        retrieval_distribution: Retrieval => set [.distribution] RagDistribution::from;
        max_documents: u32 => set [.max_documents];
        large_model_doc_tokens_min: u32 => set [.document_tokens_large[0]];
        large_model_doc_tokens_max: u32 => set [.document_tokens_large[1]];
        small_model_doc_tokens_min: u32 => set [.document_tokens[0]];
        small_model_doc_tokens_max: u32 => set [.document_tokens[1]];
    }
    SaturationDetection for SaturationTargets {
        read_latency_p95_threshold_ms: f64 => set [.read_p95_ms];
        write_latency_p95_threshold_ms: f64 => set [.write_p95_ms];
        queue_depth_threshold: u64 => set [.queue_depth];
        history_window_size: u64 => idle
            "saturation_detection.history_window_size (a step lasts until its P95 is known)";
    }
    ShareGpt for WorkloadSection {
        max_context_tokens: u32 => set [.dataset_context_tokens_max];
        max_generation_tokens: u32 => set [.dataset_generate_tokens_max];
        chars_per_token_estimate: u32 => idle
            "sharegpt.chars_per_token_estimate" |chars| *chars != CHARS_A_TOKEN;
    }
    UserTemplates for WorkloadSection {
        chatbot: UserTemplate => persona "chatbot";
        coding: UserTemplate => persona "coding";
        document: UserTemplate => persona "document";
    }
    UserTemplate for Persona {
        context_range: [u32; 2] => set [.context_tokens];
        generation_range: [u32; 2] => set [.generation_tokens];
        think_time_range: [f64; 2] => set [.think_time_s];
    }
    ValidationLimits for Limits {
        max_users: u32 => set [.users_max];
        max_duration_seconds: u64 => set [.duration_s_max];
        max_gpu_memory_gb: f64 => set [.gpu_mem_gb_max];
        max_cpu_memory_gb: f64 => set [.cpu_mem_gb_max];
    }
}

/// A model's figures; those left out are the built-in model's of that name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ModelConfig {
    pub name: Option<String>,
    pub num_layers: Option<u64>,
    pub hidden_dim: Option<u64>,
    pub num_heads: Option<u64>,
    pub kv_heads: Option<u64>,
    pub kv_dim_per_head: Option<u64>,
    pub dtype: Option<Dtype>,
    pub attention_type: Option<Attention>,
    pub kv_lora_rank: Option<u64>,
    pub qk_rope_head_dim: Option<u64>,
}

/// Layout of keys and values in a model's attention; only the last needs a rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Attention {
    Mha,
    Gqa,
    Mla,
}

/// Distribution by which chunks are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Retrieval {
    Zipfian,
    #[serde(alias = "random")]
    Uniform,
}

impl From<Retrieval> for RagDistribution {
    fn from(retrieval: Retrieval) -> RagDistribution {
        match retrieval {
            Retrieval::Zipfian => RagDistribution::Zipf,
            Retrieval::Uniform => RagDistribution::Uniform,
        }
    }
}

fn milliseconds(seconds: f64) -> f64 {
    without_rounding(seconds * 1e3)
}

/// A sum or product of decimal figures as a person would write it: 0.35, not 0.35000000000000003.
pub(super) fn without_rounding(value: f64) -> f64 {
    const DIGITS: f64 = 1e12;
    let rounded = (value * DIGITS).round() / DIGITS;
    if rounded.is_finite() { rounded } else { value }
}
