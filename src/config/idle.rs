//! Settings that have no effect as the others stand: why, as what comes after "has no effect".

use super::{AutoscalerMode, Facts, GpuBackend, Settings};

pub(super) fn retrieval(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (!settings.enable_rag).then_some("without --enable-rag")
}

pub(super) fn autoscaler(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (!settings.enable_autoscaling).then_some("without --enable-autoscaling")
}

pub(super) fn trace(settings: &Settings, _: &Facts) -> Option<&'static str> {
    // A dataset wins over --use-burst-trace.
    let is_burst = settings.use_burst_trace && settings.dataset_path.is_none();
    let is_trace = is_burst || settings.mooncake_trace.is_some() || settings.replay_trace.is_some();
    (!is_trace).then_some("without a trace: --mooncake-trace, --use-burst-trace or --replay-trace")
}

pub(super) fn replay(settings: &Settings, _: &Facts) -> Option<&'static str> {
    settings.replay_trace.is_none().then_some("without --replay-trace")
}

pub(super) fn dataset(settings: &Settings, _: &Facts) -> Option<&'static str> {
    settings.dataset_path.is_none().then_some("without --dataset-path")
}

// A described machine has GPUs and drives of its own.
pub(super) fn gpu(settings: &Settings, facts: &Facts) -> Option<&'static str> {
    (settings.gpu_memory_bytes_each == 0 && !facts.is_simulated)
        .then_some("without a GPU tier: give --gpu-mem-gb")
}

/// Reason for settings of the storage path, which are harmless without storage: a suite gives them
/// to all of its runs, and a file to all that read it.
pub(super) fn storage(settings: &Settings, _: &Facts) -> Option<&'static str> {
    settings.is_without_storage.then_some("with --disable-storage")
}

/// Reason for the size, threads and end of preconditioning; the reference takes the first two
/// without it too.
pub(super) fn precondition(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (!settings.is_preconditioned).then_some("without --precondition")
}

pub(super) fn upper_tier(settings: &Settings, facts: &Facts) -> Option<&'static str> {
    let upper_bytes = settings.gpu_memory_bytes_each.max(settings.cpu_memory_bytes);
    (upper_bytes == 0 && !facts.is_simulated)
        .then_some("without a tier above storage: give --cpu-mem-gb or --gpu-mem-gb")
}

pub(super) fn unpinned(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (!settings.pin).then_some("with --pin=false")
}

pub(super) fn several_drives(settings: &Settings, facts: &Facts) -> Option<&'static str> {
    (settings.cache_dirs.len() < 2 && !facts.is_simulated).then_some("with one drive")
}

pub(super) fn logical(settings: &Settings, _: &Facts) -> Option<&'static str> {
    settings.io_trace_log.is_none().then_some("without --io-trace-log")
}

pub(super) fn launch(_: &Settings, facts: &Facts) -> Option<&'static str> {
    facts.rank.is_none().then_some("for a process that has no other ranks")
}

pub(super) fn pace_of_a_trace(settings: &Settings, facts: &Facts) -> Option<&'static str> {
    let is_paced = settings.request_rate_per_s > 0.0;
    trace(settings, facts).or(is_paced.then_some("with --request-rate, which sets the pace"))
}

pub(super) fn saturation(settings: &Settings, facts: &Facts) -> Option<&'static str> {
    let is_capacity = settings.autoscaler_mode == AutoscalerMode::Capacity;
    autoscaler(settings, facts)
        .or(is_capacity.then_some("with --autoscaler-mode capacity, which has no target"))
}

pub(super) fn real_gpus(settings: &Settings, facts: &Facts) -> Option<&'static str> {
    let is_real = matches!(settings.gpu_backend, GpuBackend::Auto | GpuBackend::Cuda);
    gpu(settings, facts).or((!is_real).then_some("without real GPUs (--gpu-backend cuda)"))
}
