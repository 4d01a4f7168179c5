//! Settings that have no effect as the others stand: why, as what comes after "has no effect".

use super::{Facts, Settings};

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

pub(super) fn gpu(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (settings.gpu_memory_bytes_each == 0).then_some("without a GPU tier: give --gpu-mem-gb")
}

/// Of its size and threads, which the reference takes without it too.
pub(super) fn precondition(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (!settings.is_preconditioned).then_some("without --precondition")
}

pub(super) fn upper_tier(settings: &Settings, _: &Facts) -> Option<&'static str> {
    let upper_bytes = settings.gpu_memory_bytes_each.max(settings.cpu_memory_bytes);
    (upper_bytes == 0).then_some("without a tier above storage: give --cpu-mem-gb or --gpu-mem-gb")
}

pub(super) fn several_drives(settings: &Settings, _: &Facts) -> Option<&'static str> {
    (settings.cache_dirs.len() < 2).then_some("with one drive")
}

pub(super) fn logical(settings: &Settings, _: &Facts) -> Option<&'static str> {
    settings.io_trace_log.is_none().then_some("without --io-trace-log")
}

pub(super) fn launch(_: &Settings, facts: &Facts) -> Option<&'static str> {
    facts.rank.is_none().then_some("for a process that has no other ranks")
}
