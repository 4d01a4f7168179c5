use ringfall_workloads::config::{Persona, RagDistribution};
use ringfall_workloads::model::built_in;

use super::*;
use crate::tests::{facts, typed};
use crate::{ConfigFile, Facts, Plan, advice, render, resolve};

/// Every section, with figures that none has by default.
const VARIED: &str = "
user_templates:
  chatbot: {context_range: [10, 20], generation_range: [3, 4], think_time_range: [1, 2.5]}
  coding: {context_range: [30, 40]}
generation_timing: {none: 0.0, fast: 0.0035, realistic: 0.05}
qos_profiles:
  interactive: {target_latency_p95_ms: 60, priority: 3}
  batch: {target_latency_p9999_ms: 20000, priority: 1}
qos_distribution: {interactive_probability: 0.2, responsive_threshold: 0.7}
eviction: {target_usage_ratio: 0.7, max_evictions_min: 3}
gpu_backend: {memory_fraction: 0.5, max_eviction_attempts: 9, free_memory_threshold: 0.25}
prefix_cache: {min_prefix_length: 60, system_prompt_hit_probability: 0.4}
rag:
  chunk_size_tokens: 256
  top_k_chunks: 3
  max_chunk_bytes: 1048576
  request_probability: 0.3
  retrieval_distribution: random
  max_documents: 7
  large_model_doc_tokens_min: 100
  large_model_doc_tokens_max: 200
  small_model_doc_tokens_min: 300
  small_model_doc_tokens_max: 400
conversation: {max_conversations: 9, max_turns_per_conv: 8, end_conversation_probability: 0.5}
autoscaler: {min_users: 2, max_users: 50, scale_up_factor: 1.5, scale_down_factor: 0.25}
decode: {batch_size: 16}
sharegpt: {max_context_tokens: 1000, max_generation_tokens: 500, chars_per_token_estimate: 4}
saturation_detection: {read_latency_p95_threshold_ms: 70.5, queue_depth_threshold: 12}
validation_limits: {max_users: 70, max_duration_seconds: 90, max_cpu_memory_gb: 2}
model_configs:
  llama3.1-8b: {name: Eight, num_layers: 16}
  latent: {num_layers: 2, hidden_dim: 64, num_heads: 4, attention_type: mla, kv_lora_rank: 8,
    qk_rope_head_dim: 4, dtype: bfloat16}
";

fn read(text: &str) -> Result<ConfigFile, String> {
    ConfigFile::parse("theirs.yaml".into(), text.into()).map_err(|error| error.to_string())
}

fn planned(line: &str, text: &str) -> Result<Plan, String> {
    let facts = Facts { cores: 2, memory_available_bytes: None, ..facts() };
    resolve(&typed(line), Some(&read(text)?), &facts).map_err(|error| error.to_string())
}

#[test]
fn every_figure_with_an_equal_here_becomes_it() {
    let plan = planned("--users 5", VARIED).unwrap();
    let workload = &plan.workload;
    let chatbot = &workload.personas["chatbot"];
    assert_eq!((chatbot.context_tokens, chatbot.generation_tokens), ([10, 20], [3, 4]));
    assert_eq!(chatbot.think_time_s, [1.0, 2.5]);
    let built_in_persona = |name: &str| WorkloadSection::default().personas[name];
    let coding = Persona { context_tokens: [30, 40], ..built_in_persona("coding") };
    assert_eq!(workload.personas["coding"], coding, "what is left out stays");
    assert_eq!(workload.personas["document"], built_in_persona("document"));
    assert_eq!((workload.generation_fast_ms, workload.generation_realistic_ms), (3.5, 50.0));
    assert_eq!((workload.interactive_share, workload.responsive_share), (0.2, 0.5));
    assert_eq!(workload.prefix_probability, 0.4);
    let rag = &workload.rag;
    assert_eq!((rag.chunk_tokens, rag.top_k, rag.chunk_bytes_max), (256, 3, 1 << 20));
    assert_eq!((rag.probability, rag.distribution), (0.3, RagDistribution::Uniform));
    assert_eq!(rag.max_documents, 7);
    let eviction = plan.workload.eviction.watermarks();
    assert_eq!((eviction.evict_target_permille, eviction.skip_permille), (700, 950));
    assert_eq!((rag.document_tokens_large, rag.document_tokens), ([100, 200], [300, 400]));
    assert_eq!((workload.conversations_live_max, workload.conversation_turns_max), (9, 8));
    assert_eq!((workload.conversation_end_probability, workload.decode_batch_tokens), (0.5, 16));
    let dataset = (workload.dataset_context_tokens_max, workload.dataset_generate_tokens_max);
    assert_eq!(dataset, (1_000, 500));
    let targets = &workload.qos_targets_ms;
    assert_eq!((targets.interactive, targets.batch[3]), ([60, 100, 150, 200], 20_000));
    let steps = &workload.autoscaler;
    assert_eq!((steps.users_min, steps.users_max), (2, 50));
    assert_eq!((steps.scale_up_factor, steps.scale_down_factor), (1.5, 0.25));
    let saturation = workload.saturation_targets;
    assert_eq!((saturation.read_p95_ms, saturation.write_p95_ms), (70.5, 500.0));
    assert_eq!(saturation.queue_depth, 12);
    let gpu = workload.gpu;
    assert_eq!((gpu.memory_fraction, gpu.reserve_fraction), (0.5, 0.25));
    let limits = &workload.limits;
    assert_eq!((limits.users_max, limits.duration_s_max, limits.cpu_mem_gb_max), (70, 90, 2.0));
}

#[test]
fn models_are_mapped_and_take_what_they_lack_from_the_built_in_one() {
    let eight = planned("--users 5 --model llama3.1-8b", VARIED).unwrap().model_spec;
    assert_eq!(eight.num_layers, 16);
    assert_eq!(eight.bytes_per_token().unwrap(), 131_072 / 2);
    let latent = planned("--users 5 --model latent", VARIED).unwrap().model_spec;
    assert_eq!(latent.bytes_per_token().unwrap(), 2 * (8 + 4) * 2);
    let deepseek = "model_configs:\n  deepseek-v3: {dtype: int8}\n";
    let deepseek = planned("--users 5 --model deepseek-v3", deepseek).unwrap().model_spec;
    let whole = built_in("deepseek-v3").unwrap().bytes_per_token().unwrap();
    assert_eq!(deepseek.bytes_per_token().unwrap(), whole / 2);
    let error = read("model_configs:\n  own: {num_layers: 2}\n").unwrap_err();
    assert!(error.contains("model_configs.own has no"), "{error}");
}

#[test]
fn what_has_no_effect_is_told_in_one_line_and_nothing_else_is() {
    let told = advice(&planned("--users 5", VARIED).unwrap());
    assert_eq!(told.len(), 1, "{told:?}");
    let parts =
        ["theirs.yaml", "eviction.max_*", "gpu_backend.max_", "prefix_cache.min_prefix_length"];
    for part in parts {
        assert!(told[0].contains(part), "{part}: {told:?}");
    }
    for part in [
        "fraction",
        "threshold",
        "chars_per_token",
        "max_prefix",
        "priority",
        "generation_timing",
        "rag",
        "sla",
    ] {
        assert!(!told[0].contains("saturation"), "{told:?}");
        assert!(!told[0].contains(part), "{part}: {told:?}");
    }
    for (text, part) in [
        ("sharegpt: {chars_per_token_estimate: 3}", "chars_per_token_estimate"),
        ("generation_timing: {none: 0.1}", "generation_timing.none"),
        ("autoscaler: {consecutive_samples_required: 2}", "consecutive_samples_required"),
        ("qos_profiles: {batch: {priority: 3}}", "priority"),
        ("saturation_detection: {history_window_size: 5}", "history_window_size"),
    ] {
        let told = read(text).unwrap().told;
        assert!(told.len() == 1 && told[0].contains(part), "{text}: {told:?}");
    }
    let all_of_effect = "qos_profiles: {batch: {target_latency_p99_ms: 5001, priority: 0}}\n\
                         saturation_detection: {write_latency_p95_threshold_ms: 50}";
    assert_eq!(read(all_of_effect).unwrap().told, [""; 0]);
}

#[test]
fn a_slip_in_such_a_file_is_named_with_its_line() {
    for (text, line, part) in [
        ("rag:\n  top_k_chunk: 3\n", 2, "did you mean \"top_k_chunks\"?"),
        ("decode: {batch_size: 3}\nnum_urchins: 3\n", 2, "reference benchmark's layout"),
        ("decode: {batch_size: 3}\nnum_users: many\n", 2, "not a whole number"),
        ("decode: {batch_size: 3}\nevict: {}\n", 2, "did you mean \"eviction\"?"),
        ("decode:\n  batch_size: many\n", 2, "not a whole number"),
        ("rag:\n  retrieval_distribution: normal\n", 2, "normal"),
        ("model_configs:\n  m: {num_layer: 3}\n", 2, "did you mean \"num_layers\"?"),
        ("decode: {batch_size: 3}\ndecode: {batch_size: 4}\n", 2, "duplicate"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(&format!("theirs.yaml, line {line}")), "{error}");
        assert!(error.contains(part), "{error}");
    }
    let error = planned("--users 71", VARIED).unwrap_err();
    assert!(error.contains("--num-users 71 is more"), "{error}");
}

#[test]
fn the_printed_configuration_holds_what_such_a_file_says() {
    let before = planned("--users 5 --model latent", VARIED).unwrap();
    let after = planned("", &render(&before)).unwrap();
    assert_eq!(before.workload, after.workload);
    assert_eq!((before.model_spec, before.users), (after.model_spec, after.users));
    assert_eq!(after.told, [""; 0]);
}

/// `workload:` beside the reference's sections was refused, and half of its settings have no flag.
#[test]
fn settings_of_ours_stand_beside_the_reference_s_sections_and_win_over_them() {
    let ours = "num_users: 20
workload:
  history_counts_queued_turns: true
  system_prompts_written: false
  eviction: {large_entry_limit_ratio: 0.6}
gpu_backend: emulated
";
    for text in [format!("{VARIED}{ours}"), format!("---\n# mine\n{ours}{VARIED}")] {
        let plan = planned("", &text).unwrap();
        assert_eq!((plan.users, plan.gpu_backend), (20, crate::GpuBackend::Emulated));
        let workload = &plan.workload;
        assert!(workload.history_counts_queued_turns && !workload.system_prompts_written);
        let eviction = workload.eviction;
        assert_eq!((eviction.large_entry_limit_ratio, eviction.target_usage_ratio), (0.6, 0.7));
        assert_eq!(workload.rag.top_k, 3, "the reference's stay");
        assert_eq!(planned("--num-users 7", &text).unwrap().users, 7);
    }
    let wrong = planned("", &format!("{VARIED}workload:\n  history_counts_queud_turns: true\n"));
    let wrong = wrong.map(|_| ()).unwrap_err();
    assert!(wrong.contains("did you mean \"history_counts_queued_turns\"?"), "{wrong}");
    let line = VARIED.lines().count() + 2;
    assert!(wrong.contains(&format!("theirs.yaml, line {line}")), "{wrong}");
}
