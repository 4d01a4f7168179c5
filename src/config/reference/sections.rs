//! The sections and keys of the reference benchmark's `config.yaml`, as its reader takes them:
//! every key may be left out, and none but these may be there.

use std::collections::BTreeMap;

use ringfall_workloads::model::Dtype;
use serde::Deserialize;

/// Declares sections: each key is a field, and what a file leaves out is none.
macro_rules! sections {
    ($($name:ident { $($key:ident: $type:ty),+ $(,)? })+) => {$(
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $name {
            $(pub $key: Option<$type>,)+
        }
    )+};
}

/// Names of all sections, by which such a file is known. The setting `gpu_backend` of our own files
/// has a value in the place of keys.
pub(super) const SECTIONS: [&str; 15] = [
    "autoscaler",
    "conversation",
    "decode",
    "eviction",
    "generation_timing",
    "gpu_backend",
    "model_configs",
    "prefix_cache",
    "qos_distribution",
    "qos_profiles",
    "rag",
    "saturation_detection",
    "sharegpt",
    "user_templates",
    "validation_limits",
];

sections! {
    Sections {
        autoscaler: Autoscaler,
        conversation: Conversation,
        decode: Decode,
        eviction: Eviction,
        generation_timing: GenerationTiming,
        gpu_backend: GpuBackend,
        model_configs: BTreeMap<String, ModelConfig>,
        prefix_cache: PrefixCache,
        qos_distribution: QosDistribution,
        qos_profiles: QosProfiles,
        rag: Rag,
        saturation_detection: SaturationDetection,
        sharegpt: ShareGpt,
        user_templates: UserTemplates,
        validation_limits: ValidationLimits,
    }
    Autoscaler {
        min_users: u32,
        max_users: u32,
        scale_up_factor: f64,
        scale_down_factor: f64,
        consecutive_samples_required: u32,
    }
    Conversation {
        max_conversations: u32,
        max_turns_per_conv: u32,
        end_conversation_probability: f64,
    }
    Decode { batch_size: u32 }
    Eviction {
        max_recursion_depth: u64,
        target_usage_ratio: f64,
        large_entry_limit_ratio: f64,
        max_evictions_hard_cap: u64,
        max_evictions_min: u64,
    }
    GenerationTiming { none: f64, fast: f64, realistic: f64 }
    GpuBackend {
        memory_fraction: f64,
        max_eviction_attempts: u64,
        free_memory_threshold: f64,
    }
    ModelConfig {
        name: String,
        num_layers: u64,
        hidden_dim: u64,
        num_heads: u64,
        kv_heads: u64,
        kv_dim_per_head: u64,
        dtype: Dtype,
        attention_type: Attention,
        kv_lora_rank: u64,
        qk_rope_head_dim: u64,
    }
    PrefixCache {
        min_prefix_length: u64,
        max_prefix_entries: u64,
        system_prompt_hit_probability: f64,
    }
    QosDistribution { interactive_probability: f64, responsive_threshold: f64 }
    QosProfiles { interactive: QosProfile, responsive: QosProfile, batch: QosProfile }
    QosProfile {
        target_latency_p95_ms: u64,
        target_latency_p99_ms: u64,
        target_latency_p999_ms: u64,
        target_latency_p9999_ms: u64,
        priority: i64,
    }
    Rag {
        chunk_size_tokens: u32,
        top_k_chunks: u32,
        max_chunk_bytes: u64,
        request_probability: f64,
        retrieval_distribution: Retrieval,
        max_documents: u32,
        large_model_doc_tokens_min: u32,
        large_model_doc_tokens_max: u32,
        small_model_doc_tokens_min: u32,
        small_model_doc_tokens_max: u32,
    }
    SaturationDetection {
        read_latency_p95_threshold_ms: f64,
        write_latency_p95_threshold_ms: f64,
        queue_depth_threshold: u64,
        history_window_size: u64,
    }
    ShareGpt {
        max_context_tokens: u32,
        max_generation_tokens: u32,
        chars_per_token_estimate: u32,
    }
    UserTemplates { chatbot: UserTemplate, coding: UserTemplate, document: UserTemplate }
    UserTemplate {
        context_range: [u32; 2],
        generation_range: [u32; 2],
        think_time_range: [f64; 2],
    }
    ValidationLimits {
        max_users: u32,
        max_duration_seconds: u64,
        max_gpu_memory_gb: f64,
        max_cpu_memory_gb: f64,
    }
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
