//! A plan, as the run wants it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringfall_config::{Arrival, LayoutLimits, OnDeviceFailure, Origin, Plan, Promotion, Rank};
use ringfall_core::clock::SECOND;
use ringfall_core::drive::Durability;
use ringfall_core::placement::{StorageEviction, Watermarks};
use ringfall_engine::device::is_block_device;
use ringfall_engine::engine::{Engine, EngineBuilder};
use ringfall_engine::tier::cpu::MemoryGauge;
use ringfall_host::{
    DeviceFacts, Room, Topology, device_numbers, free_bytes, interrupted_cores, takes_direct_io,
};
use ringfall_model::facts::EngineLimits;
use ringfall_running::layouts::TierLayout;
use ringfall_running::run::{RunSettings, Start};
use ringfall_running::store::StoreRequest;
use ringfall_workloads::autoscale;
use ringfall_workloads::layout::LayoutPlan;

use super::ranks;

/// Part of the free space that a demonstration run takes at most.
const DEMO_FREE_PERCENT: u64 = 25;
/// Part of the free space that a run with a plain DIR takes at most.
const OWN_FREE_PERCENT: u64 = 90;

/// A plan as the run wants it; without the memory of a GPU tier, which is opened first.
pub fn of(plan: &Plan) -> RunSettings {
    RunSettings {
        engine: engine(plan),
        store: store(plan),
        objects: plan.object_url().map(|url| (url, plan.object_options())),
        layout: layout(plan),
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
        // Results written there take the place of those before, as they do not in a pipe.
        keeps_early: !plan.output.exists() || plan.output.is_file(),
        warmup: plan.warmup_s * SECOND,
        duration: plan.duration_s * SECOND,
        max_concurrent_allocs: plan.max_concurrent_allocs.unwrap_or(0),
        ends_when_exhausted: plan.ends_when_exhausted(),
        autoscale_requests_max: plan.max_requests.filter(|_| plan.enable_autoscaling),
        autoscale: autoscaler(plan),
        loads_enough: None,
    }
}

/// Settings of the engine itself: they are handed to it here, and nowhere else.
fn engine(plan: &Plan) -> EngineBuilder {
    let builder = match plan.injected {
        Some(latencies) => Engine::builder().injected_latency(latencies),
        None => Engine::builder(),
    };
    builder
        .layout(plan.layout)
        .gpu_bytes(plan.gpu_memory_bytes)
        .promote_on_hit(plan.promotion == Promotion::OnHit)
        .cpu_bytes(plan.cpu_memory_bytes)
        .watermarks(watermarks(plan))
        .memory_gauge({
            let is_forced = plan.strict;
            MemoryGauge::new(move || Room::memory_left(is_forced))
        })
        .submission_thread(plan.sqpoll)
        .polled(plan.iopoll)
        .passthrough(plan.nvme_passthrough)
        // An engine's files are synced where the engine does that.
        .durability(match plan.layout_plan {
            Some(_) => Durability::None,
            None => plan.durability,
        })
        .whole_ios(plan.layout_plan.as_ref().is_some_and(LayoutPlan::has_slots))
        .verify(plan.verify)
        .shape(plan.shape())
        .requests_max(Some(plan.max_inflight_requests))
}

/// Rules by which entries leave the tiers; storage in an engine's layout has the engine's.
fn watermarks(plan: &Plan) -> Watermarks {
    let watermarks = plan.workload.eviction.watermarks();
    let Some(layout) = &plan.layout_plan else { return watermarks };
    // At most 100 %.
    let permille = |percent| percent as u16 * 10;
    let storage = match layout.options().eviction() {
        None => StorageEviction::Never,
        Some((from, to)) => {
            StorageEviction::Oldest { from_permille: permille(from), to_permille: permille(to) }
        }
    };
    Watermarks { storage, ..watermarks }
}

/// The engine's layout of the storage tier.
fn layout(plan: &Plan) -> Option<TierLayout> {
    Some(TierLayout {
        plan: plan.layout_plan.clone()?,
        limits: match plan.engine_limits {
            LayoutLimits::Theirs => EngineLimits::Theirs,
            LayoutLimits::Ours => EngineLimits::Ours,
        },
        io_bytes: u64::from(plan.io_size_bytes),
        slowed: plan.injected.map(|latencies| (latencies, plan.seed)),
    })
}

/// A layout whose files are opened without O_DIRECT where the file system takes none.
pub(super) fn as_its_files_open(layout: TierLayout, plan: &Plan) -> TierLayout {
    let temporary = std::env::temp_dir();
    let place = plan.cache_dirs.first().unwrap_or(&temporary);
    let place = std::path::absolute(place).unwrap_or_else(|_| place.clone());
    match takes_direct_io(&place) {
        Some(false) => TierLayout { plan: layout.plan.through_the_page_cache(), ..layout },
        _ => layout,
    }
}

fn store(plan: &Plan) -> StoreRequest {
    StoreRequest {
        places: plan.cache_dirs.clone(),
        destroy_device_contents: plan.destroy_device_contents,
        capacity_bytes: match plan.storage_capacity_bytes {
            0 => ranks::storage_share_bytes(plan),
            bytes => bytes,
        },
        is_strict: plan.strict,
        free_percent_max: free_percent_max(plan),
        shards: plan.shards,
        preallocate: plan.preallocate,
        nvme_passthrough: plan.nvme_passthrough,
        ..StoreRequest::default()
    }
}

/// Part of the free space that a run takes at most of which no size was given, percent.
fn free_percent_max(plan: &Plan) -> Option<u64> {
    let percent = match plan.origins.get("storage_capacity_gb")? {
        Origin::Demo => DEMO_FREE_PERCENT,
        Origin::Own => OWN_FREE_PERCENT,
        _ => return None,
    };
    Some(ranks::share_of_percent(plan, percent))
}

/// The plan with no larger storage tier than it can get, where that is a part of what is free.
pub(super) fn with_free_space(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let free_bytes = match &plan.cache_dirs[..] {
        [place] if !is_block_device(place) => free_bytes(place),
        _ => None,
    };
    if let Some((percent, bytes)) = free_percent_max(&plan).zip(free_bytes) {
        plan.storage_capacity_bytes = plan.storage_capacity_bytes.min(bytes / 100 * percent);
    }
    plan
}

/// The autoscaler's side of a plan; none where users stay.
fn autoscaler(plan: &Plan) -> Option<autoscale::Settings> {
    plan.enable_autoscaling.then(|| autoscale::Settings {
        mode: plan.autoscaler_mode,
        users_wait: plan.arrival == Arrival::Closed,
        has_memory_tier: !plan.is_without_storage
            && plan.cpu_memory_bytes.max(plan.gpu_memory_bytes) > 0,
        initial_users: plan.users,
        users_min: plan.workload.autoscaler.users_min,
        users_max: plan.workload.autoscaler.users_max,
        scale_up_factor: plan.workload.autoscaler.scale_up_factor,
        scale_down_factor: plan.workload.autoscaler.scale_down_factor,
        target_saturation: plan.saturation_max(),
        targets_ns: plan.workload.qos_targets_ms.p95_ns(),
        rule: plan.slo.map(|rule| autoscale::LoadRule {
            // At most an hour.
            load_p95_ns: (rule.load_p95_s * 1e9) as u64,
            reuse_share: rule.reuse_share,
        }),
        storage: plan.workload.saturation_targets.storage(),
    })
}

/// The cores that shards are pinned to; none where they are not.
pub(super) fn pinned_cores(plan: &Plan) -> Option<Vec<usize>> {
    let own = plan.rank.as_ref().and_then(Rank::own_cpus);
    let drives = if plan.numa { plan.cache_dirs.as_slice() } else { &[] };
    plan.pin.then(|| cores_near(drives, own)).flatten()
}

/// Cores that this process may use, and which are its `own` where a rank has its own, dealt to the
/// NUMA nodes of the drives, those first that the drives interrupt; none where the kernel doesn't
/// say or none is left.
pub(in crate::commands) fn cores_near(
    paths: &[PathBuf],
    own: Option<&[usize]>,
) -> Option<Vec<usize>> {
    let mut cores: Vec<usize> =
        core_affinity::get_core_ids()?.into_iter().map(|core| core.id).collect();
    if let Some(own) = own {
        cores.retain(|core| own.contains(core));
    }
    let drives: Vec<Option<String>> = paths.iter().map(|path| drive_of(path)).collect();
    let node_of = |numbers: &Option<String>| DeviceFacts::of(numbers.as_deref()?)?.numa_node;
    let nodes: Vec<Option<u32>> = drives.iter().map(node_of).collect();
    let interrupted: BTreeSet<usize> =
        drives.iter().flatten().flat_map(|numbers| interrupted_cores(numbers)).collect();
    let mut cores = Topology::of_machine().deal(cores, &nodes);
    // Where a drive has fewer queues than there are cores.
    cores.sort_by_key(|core| !interrupted.contains(core));
    Some(cores).filter(|cores| !cores.is_empty())
}

/// The device numbers of the drive below a path. A directory that the run will make is on the drive
/// of what is there already.
fn drive_of(path: &Path) -> Option<String> {
    device_numbers(path.ancestors().find(|path| path.exists())?)
}
