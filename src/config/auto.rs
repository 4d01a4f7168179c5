//! Values of settings that are `auto`. Each function sees all layers merged, in which the settings
//! declared before its own are worked out; values out of bounds are still among them.

use std::path::PathBuf;

use ringfall_core::drive::DRIVES_MAX;
use ringfall_core::units::{BLOCK_BYTES, GIB, MIB};
use ringfall_workloads::model::built_in;

use super::depth::Depth;
use super::kinds::IO_SIZE_BYTES_MAX;
use super::options::{QUEUE_DEPTH_MAX, SHARDS_MAX, USERS_MAX};
use super::values::{Auto, Gib, Mib, PrefillSpeed, Seed, Size};
use super::{Facts, Options, compact_utc};

/// `--cpu-mem-gb auto` is at most this.
const CPU_BYTES_MAX: u64 = 32 * GIB;
/// ... and in steps of this, so that it prints short.
pub(super) const CPU_STEP_BYTES: u64 = 64 * MIB;
/// `--max-inflight-requests auto` is at most this.
const INFLIGHT_MAX: i64 = 500;
/// `--io-buffer-mb auto` is at most this, unless one I/O a shard needs more.
const IO_BUFFER_BYTES_MAX: u64 = GIB;

pub(super) fn max_inflight_requests(settings: &Options, _: &Facts) -> Auto<i64> {
    let is_given =
        |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() != "none");
    let is_traced = is_given(&settings.mooncake_trace)
        || is_given(&settings.trace)
        || is_given(&settings.replay_trace)
        || settings.use_burst_trace == Some(true);
    // The autoscaler's users come later, a trace's are in the trace.
    let users_unknown = is_traced || settings.enable_autoscaling == Some(true);
    let users = settings.num_users.unwrap_or(1).clamp(1, USERS_MAX);
    Auto::Given(if users_unknown { INFLIGHT_MAX } else { users.min(INFLIGHT_MAX) })
}

pub(super) fn seed(_: &Options, facts: &Facts) -> Seed {
    Seed::Given(facts.random_seed)
}

/// Works out the speed on a GPU; leaves its name where the model's parameters are unknown.
pub(super) fn prefill_tokens_per_s(settings: &Options, _: &Facts) -> PrefillSpeed {
    let typed = settings.prefill_tokens_per_s.unwrap_or(PrefillSpeed::Given(0.0));
    let PrefillSpeed::On(gpu) = typed else { return typed };
    let name = settings.model.as_deref().unwrap_or_default();
    let own = settings.models.as_ref().and_then(|models| models.get(name)).cloned();
    let gpus = settings.tensor_parallel.unwrap_or(1).max(1).unsigned_abs();
    let speed =
        own.or_else(|| built_in(name)).and_then(|model| gpu.prefill_tokens_per_s(&model, gpus));
    speed.map_or(typed, |speed| PrefillSpeed::Given(speed.round()))
}

pub(super) fn cpu_mem_gb(_: &Options, facts: &Facts) -> Auto<Gib> {
    let half = facts.memory_available_bytes.unwrap_or(0) / 2;
    let bytes = half.min(CPU_BYTES_MAX) / CPU_STEP_BYTES * CPU_STEP_BYTES;
    Auto::Given(Gib(bytes as f64 / GIB as f64))
}

pub(super) fn shards(_: &Options, facts: &Facts) -> Auto<i64> {
    Auto::Given(i64::from(facts.cores).clamp(1, SHARDS_MAX))
}

pub(super) fn queue_depth(settings: &Options, _: &Facts) -> Depth {
    Depth::Given(Depth::standard(shards_of(settings)))
}

pub(super) fn io_buffer_mb(settings: &Options, facts: &Facts) -> Auto<Mib> {
    let Size(io_size_bytes) = settings.io_size.unwrap_or(Size(MIB));
    let depth = settings.queue_depth.unwrap_or(Depth::Standard);
    let depth = depth.built_for(shards_of(settings), io_size_bytes.max(1));
    let depth = depth.clamp(1, QUEUE_DEPTH_MAX);
    // At most 64 MiB × 1,024 shards × 64 drives × 4,096: fits.
    let drives =
        settings.cache_dir.as_ref().map_or(1, |places| places.0.len().clamp(1, DRIVES_MAX));
    let queues = shards_of(settings).unsigned_abs() * drives as u64;
    let least = io_size_bytes.clamp(BLOCK_BYTES, IO_SIZE_BYTES_MAX) * queues;
    let here = facts.rank.as_ref().map_or(1, |rank| u64::from(rank.ranks_here()));
    let needed = (least * depth.unsigned_abs()).min(IO_BUFFER_BYTES_MAX / here).max(least);
    Auto::Given(Mib(i64::try_from(needed.div_ceil(MIB)).unwrap_or(i64::MAX)))
}

pub(super) fn output(_: &Options, facts: &Facts) -> PathBuf {
    format!("results/ringfall-{}.json", compact_utc(facts.unix_s)).into()
}

fn shards_of(settings: &Options) -> i64 {
    settings.shards.and_then(Auto::given).unwrap_or(1).clamp(1, SHARDS_MAX)
}
