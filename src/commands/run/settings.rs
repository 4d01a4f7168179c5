//! A plan, as the run wants it.

use std::path::{Path, PathBuf};

use ringfall_engine::clock::SECOND;
use ringfall_engine::engine::{Engine, EngineBuilder};
use ringfall_engine::tier::cpu::MemoryGauge;
use ringfall_workloads::autoscale;

use super::ranks;
use crate::config::{OnDeviceFailure, Plan, Promotion, Rank, Traffic};
use crate::host::{DeviceFacts, Room, cores_of_node, device_numbers};
use crate::run::{RunSettings, Start};
use crate::store::StoreRequest;

/// Part of the free space that a demonstration run takes at most.
const DEMO_FREE_PERCENT: u64 = 25;

/// A plan as the run wants it; without the memory of a GPU tier, which is opened first.
pub fn of(plan: &Plan) -> RunSettings {
    RunSettings {
        engine: engine(plan),
        store: store(plan),
        objects: plan.object_url().map(|url| (url, plan.object_options())),
        has_storage: !plan.is_without_storage,
        outlives_drives: plan.on_device_failure == OnDeviceFailure::Continue,
        shards: plan.shards,
        cpus: pinned_cores(plan),
        gpu_direct: None,
        io_size_bytes: u64::from(plan.io_size_bytes),
        queue_depth: plan.queue_depth,
        depth_search: plan.depth_search,
        io_buffer_bytes: plan.io_buffer_bytes,
        seed: plan.seed,
        start: plan.start_at_unix_s.map_or(Start::WhenReady, Start::AtUnix),
        keeps_early: is_plain(&plan.output),
        warmup: plan.warmup_s * SECOND,
        duration: plan.duration_s * SECOND,
        max_concurrent_allocs: plan.max_concurrent_allocs.unwrap_or(0),
        ends_when_exhausted: plan.max_requests.is_some()
            || matches!(plan.traffic, Traffic::Trace { cycles: 1.., .. }),
        autoscale_requests_max: plan.autoscaler.and(plan.max_requests),
        autoscale: autoscaler(plan),
    }
}

/// What only the engine is asked: a setting that it knows is handed to it here, and nowhere else.
fn engine(plan: &Plan) -> EngineBuilder {
    Engine::builder()
        .layout(plan.layout)
        .gpu_bytes(plan.gpu_memory_bytes)
        .promote_on_hit(plan.promotion == Promotion::OnHit)
        .cpu_bytes(plan.cpu_memory_bytes)
        .watermarks(plan.workload.eviction.watermarks())
        .memory_gauge(MemoryGauge::new(Room::memory_left))
        .submission_thread(plan.sqpoll)
        .durability(plan.durability)
        .verify(plan.verify)
        .shape(plan.shape())
        .requests_max(Some(plan.max_inflight_requests))
}

/// Where the data goes.
fn store(plan: &Plan) -> StoreRequest {
    StoreRequest {
        places: plan.cache_dirs.clone(),
        destroy_device_contents: plan.destroy_device_contents,
        capacity_bytes: match plan.storage_capacity_bytes {
            0 => ranks::storage_share_bytes(plan),
            bytes => bytes,
        },
        is_strict: plan.strict,
        free_percent_max: plan.demo.then(|| ranks::demo_percent(plan, DEMO_FREE_PERCENT)),
        shards: plan.shards,
        preallocate: plan.preallocate,
        ..StoreRequest::default()
    }
}

/// The autoscaler's side of a plan; none where users stay.
fn autoscaler(plan: &Plan) -> Option<autoscale::Settings> {
    plan.autoscaler.map(|scale| autoscale::Settings {
        mode: scale.mode,
        initial_users: scale.initial_users,
        users_min: plan.workload.autoscaler.users_min,
        users_max: plan.workload.autoscaler.users_max,
        scale_up_factor: plan.workload.autoscaler.scale_up_factor,
        scale_down_factor: plan.workload.autoscaler.scale_down_factor,
        target_saturation: scale.target_saturation,
        targets_ns: plan.workload.qos_targets_ms.p95_ns(),
        storage: plan.workload.saturation_targets.storage(),
    })
}

/// Whether results written there take the place of those before, as they do not in a pipe.
fn is_plain(output: &std::path::Path) -> bool {
    !output.exists() || output.is_file()
}

/// The cores that shards are pinned to; none where they are not.
pub(super) fn pinned_cores(plan: &Plan) -> Option<Vec<usize>> {
    let mut cores =
        plan.pin.then(|| cores_near(plan.cache_dirs.first().map(PathBuf::as_path))).flatten()?;
    if let Some(own) = plan.rank.as_ref().and_then(Rank::own_cpus) {
        cores.retain(|core| own.contains(core));
    }
    Some(cores).filter(|cores| !cores.is_empty())
}

/// Cores this process may use, those of the drive's NUMA node first; none where the kernel doesn't
/// say.
pub(in crate::commands) fn cores_near(path: Option<&Path>) -> Option<Vec<usize>> {
    let ids = core_affinity::get_core_ids()?;
    let mut ids: Vec<usize> = ids.into_iter().map(|core| core.id).collect();
    // A directory that the run will make is on the drive of what is there already.
    let existing = path.and_then(|path| path.ancestors().find(|path| path.exists()));
    let node = existing.and_then(|path| DeviceFacts::of(&device_numbers(path)?)?.numa_node);
    if let Some(near) = node.and_then(cores_of_node) {
        ids.sort_by_key(|id| (!near.contains(id), *id));
    }
    Some(ids).filter(|ids| !ids.is_empty())
}
