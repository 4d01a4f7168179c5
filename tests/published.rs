//! Every published command line of the reference benchmark, given to this program unchanged but for
//! the program's name.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ringfall::cli::{self, Cli, Command};
use ringfall_config::{ConfigFile, Facts, Plan, advice, resolve};
use ringfall_host::Room;

use super::support::{Scratch, output};

/// Published command lines, besides those that were found later.
const COMMANDS_MIN: usize = 81;

/// A file as the reference's: each of its sections, with figures of our own.
const CONFIG: &str = "\
# A file in the layout of the reference benchmark's config.yaml.
user_templates:
  chatbot:
    context_range: [400, 3000]
    generation_range: [40, 150]
    think_time_range: [0.2, 0.6]
  coding:
    context_range: [3000, 20000]
    generation_range: [90, 400]
    think_time_range: [0.3, 1.1]
  document:
    context_range: [3000, 12000]
    generation_range: [150, 700]
    think_time_range: [0.4, 1.4]
generation_timing:
  none: 0.0
  fast: 0.003
  realistic: 0.025
qos_profiles:
  interactive:
    target_latency_p95_ms: 50
    target_latency_p99_ms: 100
    target_latency_p999_ms: 150
    target_latency_p9999_ms: 200
    priority: 3
  responsive:
    target_latency_p95_ms: 100
    target_latency_p99_ms: 200
    target_latency_p999_ms: 350
    target_latency_p9999_ms: 500
    priority: 2
  batch:
    target_latency_p95_ms: 1000
    target_latency_p99_ms: 5000
    target_latency_p999_ms: 7500
    target_latency_p9999_ms: 10000
    priority: 1
qos_distribution:
  interactive_probability: 0.25
  responsive_threshold: 0.60
eviction:
  max_recursion_depth: 8
  target_usage_ratio: 0.9
  large_entry_limit_ratio: 0.9
  max_evictions_hard_cap: 4000
  max_evictions_min: 900
gpu_backend:
  memory_fraction: 0.8
  max_eviction_attempts: 90
  free_memory_threshold: 0.2
prefix_cache:
  min_prefix_length: 40
  max_prefix_entries: 900
  system_prompt_hit_probability: 0.25
rag:
  chunk_size_tokens: 500
  top_k_chunks: 4
  max_chunk_bytes: 200000000
  request_probability: 0.15
  retrieval_distribution: \"zipfian\"
  max_documents: 0
  large_model_doc_tokens_min: 1000
  large_model_doc_tokens_max: 4000
  small_model_doc_tokens_min: 3000
  small_model_doc_tokens_max: 10000
conversation:
  max_conversations: 900
  max_turns_per_conv: 40
  end_conversation_probability: 0.25
autoscaler:
  min_users: 2
  max_users: 9000
  scale_up_factor: 1.3
  scale_down_factor: 0.7
  consecutive_samples_required: 3
decode:
  batch_size: 16
sharegpt:
  max_context_tokens: 8000
  max_generation_tokens: 2000
  chars_per_token_estimate: 4
saturation_detection:
  read_latency_p95_threshold_ms: 90
  write_latency_p95_threshold_ms: 45
  queue_depth_threshold: 80
  history_window_size: 8
validation_limits:
  max_users: 90000
  max_duration_seconds: 80000
  max_gpu_memory_gb: 1000
  max_cpu_memory_gb: 16000
model_configs:
  tiny-1b:
    name: \"Tiny\"
    num_layers: 12
    hidden_dim: 1024
    num_heads: 8
    kv_heads: 4
    dtype: \"float16\"
  deepseek-v3:
    name: \"Latent\"
    num_layers: 61
    num_heads: 128
    hidden_dim: 7168
    attention_type: \"mla\"
    kv_lora_rank: 512
    qk_rope_head_dim: 64
    dtype: \"float16\"
  qwen3-32b:
    name: \"Qwen\"
    num_layers: 64
    num_heads: 64
    hidden_dim: 5120
    kv_heads: 8
    kv_dim_per_head: 128
    dtype: \"float16\"
";

/// A machine that has what the commands ask for, so that only what they say can be refused.
fn facts() -> Facts {
    Facts {
        cores: 8,
        memory_available_bytes: Some(256 << 30),
        room: Room::unknown(8),
        is_simulated: false,
        rank: None,
        unix_s: 0,
        random_seed: 1,
    }
}

fn planned(arguments: &str, config: &ConfigFile) -> Result<Plan, String> {
    let words = arguments.split(' ').map(OsString::from);
    let args = std::iter::once("kv-cache".into()).chain(words);
    match cli::parse(args) {
        Ok(Cli { command: Command::Run(args) }) => {
            let args = args.settings();
            if let Some(path) = &args.config {
                assert_eq!(path.to_str(), Some("config.yaml"), "{arguments}");
            }
            let file = args.config.is_some().then_some(config);
            resolve(&args.options, file, &facts()).map_err(|error| error.to_string())
        }
        other => Err(format!("{other:?}")),
    }
}

/// The reasons for which a command is refused.
fn reasons(error: &str) -> String {
    let sentences = error.split("\nerror: ");
    let mut reasons: Vec<&str> = sentences
        .map(|sentence| match sentence {
            _ if sentence.contains("\"tinyllama-1.1b\" is not a known model") => "model",
            other => other,
        })
        .collect();
    reasons.sort_unstable();
    reasons.join("+")
}

#[test]
fn every_published_command_line_is_accepted() {
    let config = ConfigFile::parse("config.yaml".into(), CONFIG.into()).unwrap();
    let table = include_str!("data/published_commands.tsv");
    let (mut counts, mut with_config) = (BTreeMap::new(), 0);
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [expected, source, arguments] = columns[..] else { panic!("{row}") };
        let said = match planned(arguments, &config) {
            Ok(plan) => {
                if arguments.contains("--config") {
                    assert_eq!(plan.workload.decode_batch_tokens, 16, "{source}");
                    assert_eq!(plan.told.len(), 1, "{source}: {:?}", plan.told);
                    with_config += 1;
                }
                "accepted".to_owned()
            }
            Err(error) => reasons(&error),
        };
        assert_eq!(said, expected, "{source}: {arguments}");
        *counts.entry(expected).or_insert(0) += 1;
    }
    assert!(counts.values().sum::<usize>() >= COMMANDS_MIN, "{counts:?}");
    assert!(with_config > 30, "{with_config}");
}

#[test]
fn only_the_sections_without_effect_are_told() {
    let config = ConfigFile::parse("config.yaml".into(), CONFIG.into()).unwrap();
    let plan = planned("--config config.yaml --num-users 5 --cpu-mem-gb 0", &config).unwrap();
    let told = advice(&plan);
    assert_eq!(told.len(), 1, "{told:?}");
    for part in ["eviction", "gpu_backend", "history_window_size", "consecutive_samples_required"] {
        assert!(told[0].contains(part), "{told:?}");
    }
    // Targets and priorities are those that are built in.
    assert!(!told[0].contains("qos_profiles"), "{told:?}");
}

#[test]
fn a_run_with_the_reference_configuration_says_once_what_has_no_effect() {
    let scratch = Scratch::new("published");
    std::fs::write(scratch.file("config.yaml"), CONFIG).unwrap();
    // Of a flag given twice the last counts: this file stands in for the small one.
    let ran = scratch.run(&["--config", "config.yaml", "--max-requests", "4", "--quiet"]);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{errors}");
    assert_eq!(errors.matches("reference benchmark's layout").count(), 1, "{errors}");

    let mut bare = std::process::Command::new(env!("CARGO_BIN_EXE_ringfall"));
    bare.args(["--config", "config.yaml", "--num-users", "0"]).current_dir(&scratch.path);
    let refused = output(bare);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("--num-users 0"), "{errors}");
}
