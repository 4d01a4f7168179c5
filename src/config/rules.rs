//! Rules between settings, as tables by their keys: what has no effect, what needs a drive or
//! storage, what excludes what. [`super::check`] makes sentences of them.

use super::{AutoscalerMode, Facts, GpuBackend, Settings, Shared};

/// Settings; whether they have no effect as the others stand; and why, as what comes after "has no
/// effect". Of several rows that hold for a setting the first counts.
pub(super) type Idle = (&'static [&'static str], fn(&Settings, &Facts) -> bool, &'static str);

// A described machine has GPUs and drives of its own.
pub(super) const IDLE: &[Idle] = &[
    (&["rag_num_docs", "rag_ingestion"], |s, _| !s.enable_rag, "without --enable-rag"),
    (
        &["autoscaler_mode", "target_saturation"],
        |s, _| !s.enable_autoscaling,
        "without --enable-autoscaling",
    ),
    (
        &["target_saturation"],
        |s, _| s.autoscaler_mode == AutoscalerMode::Capacity,
        "with --autoscaler-mode capacity, which has no target",
    ),
    (&["target_saturation"], |s, _| s.slo.is_some(), "with --slo, whose targets are met or missed"),
    (
        &["trace_speedup", "replay_cycles", "trace_classes"],
        |s, _| !has_trace(s),
        "without a trace: --trace, --mooncake-trace, --use-burst-trace or --replay-trace",
    ),
    (
        &["trace_speedup"],
        |s, _| s.request_rate_per_s > 0.0,
        "with --request-rate, which sets the pace",
    ),
    // As in the reference.
    (
        &["use_burst_trace"],
        |s, _| s.use_burst_trace && s.dataset_path.is_some(),
        "beside --dataset-path: the users repeat the dataset's conversations",
    ),
    (&["replay_tiers"], |s, _| s.replay_trace.is_none(), "without --replay-trace"),
    (
        &["max_conversations", "tokenizer"],
        |s, _| s.dataset_path.is_none(),
        "without --dataset-path",
    ),
    (
        &["gpu_backend", "gpu_devices", "gpu_transfer"],
        |s, facts| s.gpu_memory_bytes_each == 0 && !facts.is_simulated,
        "without a GPU tier: give --gpu-mem-gb",
    ),
    (
        &["gpu_devices"],
        |s, _| !matches!(s.gpu_backend, GpuBackend::Auto | GpuBackend::Cuda),
        "without real GPUs (--gpu-backend cuda)",
    ),
    // Harmless: a suite gives them to all of its runs, and a file to all that read it.
    (&["durability", "preallocate"], |s, _| s.is_without_storage, "with --disable-storage"),
    // The reference takes the first two without it too.
    (
        &["precondition_size_gb", "precondition_threads", "precondition_until"],
        |s, _| !s.is_preconditioned,
        "without --precondition",
    ),
    (
        &["promotion"],
        |s, facts| s.gpu_memory_bytes_each.max(s.cpu_memory_bytes) == 0 && !facts.is_simulated,
        "without a tier above storage: give --cpu-mem-gb or --gpu-mem-gb",
    ),
    (&["numa"], |s, _| !s.pin, "with --pin=false"),
    (
        &["placement", "on_device_failure"],
        |s, facts| s.cache_dirs.len() < 2 && !facts.is_simulated,
        "with one drive",
    ),
    (
        &["layout_option", "engine_limits"],
        |s, _| s.storage_layout.is_none(),
        "without an engine's layout (--layout)",
    ),
    (
        &["durability"],
        |s, _| s.storage_layout.is_some(),
        "with an engine's layout (--layout): whether files are synced is the engine's choice",
    ),
    (&["trace_epoch"], |s, _| s.io_trace_log.is_none(), "without --io-trace-log"),
    (&["merge_ranks"], |_, facts| facts.rank.is_none(), "for a process that has no other ranks"),
];

/// Settings that have no effect where the drive is simulated, and why.
const REAL_ONLY: &[(&[&str], &str)] = &[
    (&["gpu_devices"], "a simulated run has no GPUs to choose from"),
    (&["gpu_transfer"], "a simulated run moves no bytes"),
    (&["cache_dir"], "the file that describes the drive says how many there are"),
    (&["on_device_failure"], "no device is used"),
    (&["destroy_device_contents"], "no device is touched"),
    (&["precondition"], "there is no drive to precondition"),
    (&["numa"], "no core is pinned"),
    (&["sqpoll", "iopoll", "nvme_passthrough"], "no io_uring is used"),
    (&["inject_latency"], "the file that describes the drive has its latencies"),
    (&["dedupe_ratio", "compress_ratio"], "no content is made"),
    (&["trials"], "the same run again gives the same numbers: give another --seed"),
    (&["roofline"], "the drive's limits are in its model"),
    (&["enable_latency_tracing"], "there is no block layer to trace"),
    (&["fio_output"], "there is nothing that fio could repeat"),
    (&["start_at"], "a simulated run has no wall clock"),
    (&["metrics_listen", "metrics_file"], "a simulated run is over before anybody could look"),
];

/// Settings that mean nothing without a storage tier, besides a depth that is searched for.
pub(super) const OF_STORAGE: &[&str] = &[
    "storage_capacity_gb",
    "layout",
    "precondition",
    "sqpoll",
    "iopoll",
    "nvme_passthrough",
    "inject_latency",
    "dedupe_ratio",
    "compress_ratio",
    "roofline",
    "enable_latency_tracing",
    "fio_output",
];

/// Settings that mean nothing where storage is in an object store or an engine's files; the former
/// takes no fresh roofline and no injected latencies either.
pub(super) const OF_DRIVES: &[&str] = &[
    "destroy_device_contents",
    "precondition",
    "sqpoll",
    "iopoll",
    "nvme_passthrough",
    "preallocate",
    "enable_latency_tracing",
    "fio_output",
];

/// Settings that cannot be combined with another one, and why.
pub(super) const CONFLICTS: &[(&[&str], &str, &str)] = &[
    (&["prefill_only"], "decode_only", ""),
    (&["iopoll"], "sqpoll", ""),
    (&["iopoll"], "nvme_passthrough", ""),
    (
        &["dedupe_ratio", "compress_ratio"],
        "gpu_mem_gb",
        ": GPUs make content that cannot be reduced",
    ),
    (
        &[
            "decode_only",
            "prefill_only",
            "enable_rag",
            "use_burst_trace",
            "mooncake_trace",
            "trace",
            "dataset_path",
        ],
        "replay_trace",
        ": recorded operations are replayed, and nothing else",
    ),
    (
        &["decode_only", "enable_rag", "use_burst_trace", "trace", "dataset_path"],
        "mooncake_trace",
        ": its requests consist of recorded blocks",
    ),
    (
        &["decode_only", "enable_rag", "use_burst_trace", "dataset_path"],
        "trace",
        ": its requests are those that were recorded",
    ),
    (
        &["xlsx_output", "html_output"],
        "trials",
        ": each trial keeps its own JSON, from which `ringfall report` makes a page or a workbook",
    ),
];

/// Reason why a setting has no effect where the drive is simulated; none where it has one.
pub(super) fn real_only(key: &str) -> Option<&'static str> {
    if Shared::Objects.settings().any(|setting| setting.key == key) {
        return Some("no object store is reached");
    }
    REAL_ONLY.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, why)| *why)
}

fn has_trace(settings: &Settings) -> bool {
    // A dataset wins over --use-burst-trace.
    let is_burst = settings.use_burst_trace && settings.dataset_path.is_none();
    is_burst
        || [&settings.mooncake_trace, &settings.trace, &settings.replay_trace]
            .iter()
            .any(|path| path.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::SETTINGS;
    use super::*;

    #[test]
    fn every_key_of_a_table_is_a_setting() {
        let idle = IDLE.iter().flat_map(|row| row.0);
        let real_only = REAL_ONLY.iter().flat_map(|row| row.0);
        let conflicts = CONFLICTS.iter().flat_map(|row| row.0.iter().chain([&row.1]));
        let needs = OF_STORAGE.iter().chain(OF_DRIVES);
        for key in idle.chain(real_only).chain(conflicts).chain(needs) {
            assert!(SETTINGS.iter().any(|setting| setting.key == *key), "{key}");
        }
    }
}
