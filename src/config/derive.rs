//! Plan that follows from the settings together, without complaints about them. Every function is
//! pure; [`super::check`] reports invalid settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfall_workloads::layout::LayoutPlan;
use ringfall_workloads::model::ModelSpec;

use super::depth::{Depth, SEARCH_WARMUP_S};
use super::names::Names;
use super::traffic::BURST_TRACE;
use super::{
    Arrival, AutoscalerSteps, Cores, Options, PhaseMode, Plan, Rank, Settings, TraceKind, Traffic,
    WorkloadSection,
};

/// Users a shard that the autoscaler begins with when nobody says how many.
const INITIAL_USERS_A_SHARD: u32 = 2;

/// All that a plan is made of.
pub(super) struct Given {
    /// Each setting by itself, as it was asked for.
    pub(super) settings: Settings,
    pub(super) model_spec: ModelSpec,
    pub(super) layout_plan: Option<LayoutPlan>,
    pub(super) workload: WorkloadSection,
    /// The process's place among those of a launcher, if one started it.
    pub(super) rank: Option<Rank>,
    pub(super) demo: bool,
    pub(super) typed: Options,
    pub(super) effective: Options,
}

/// The plan that these make. Where a setting comes to something else than was asked for, `names`
/// has it as worked out from then on.
pub(super) fn derive(given: Given, names: &mut Names<'_>) -> Plan {
    let Given { mut settings, model_spec, layout_plan, workload, mut rank, demo, .. } = given;
    let (typed, effective) = (given.typed, given.effective);
    if let Some(rank) = &mut rank {
        rank.place(&mut settings, names.origin("seed"));
        settings.pin &= rank.cores != Cores::Crowded;
    }
    let traffic = traffic(&settings);
    if let Traffic::Trace { kind: TraceKind::Io(_), .. } = traffic {
        settings.replay_cycles = 1;
    }
    if let Some(arrival) = arrival(&settings, &traffic, names) {
        settings.arrival = arrival;
        names.compute("arrival");
    }
    if is_rate_idle(&settings, &traffic) {
        settings.request_rate_per_s = 0.0;
    }
    if settings.latency_tracing && settings.fio_output.is_none() {
        settings.fio_output = Some(settings.output.with_extension("fio"));
    }
    let (queue_depth, depth_search) = queue_depth(&settings);
    if depth_search.is_some() {
        settings.warmup_s = settings.warmup_s.max(SEARCH_WARMUP_S);
    }
    Plan {
        model_spec,
        layout_plan,
        queue_depth,
        depth_search,
        users: users(&settings, &workload.autoscaler, names),
        gpu_memory_bytes: settings.gpu_memory_bytes_each * u64::from(settings.gpus),
        gpu_indices: gpu_indices(&settings),
        phases: phases(&settings),
        rag_documents: if settings.enable_rag { settings.rag_num_docs } else { 0 },
        traffic,
        rank,
        demo,
        workload,
        cpu_memory_wanted: None,
        told: Vec::new(),
        origins: BTreeMap::new(),
        settings,
        typed,
        effective,
    }
}

/// Where requests come from. A dataset wins over a BurstGPT trace, as in the reference.
fn traffic(settings: &Settings) -> Traffic {
    let trace = |kind, path| Traffic::Trace { kind, path };
    if let Some(path) = settings.replay_trace.clone() {
        return trace(TraceKind::Io(settings.replay_tiers), path);
    }
    let dataset = settings.dataset_path.clone();
    if settings.use_burst_trace && dataset.is_none() {
        let path = settings.burst_trace_path.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(BURST_TRACE));
        return trace(TraceKind::BurstGpt, path);
    }
    if let Some(path) = settings.trace.clone() {
        return trace(TraceKind::Recorded, path);
    }
    match (settings.mooncake_trace.clone(), dataset) {
        (Some(path), _) => trace(TraceKind::Mooncake, path),
        (None, Some(path)) => Traffic::ShareGpt { path },
        (None, None) => Traffic::Drawn,
    }
}

/// When requests arrive, where that is not as was asked for.
fn arrival(settings: &Settings, traffic: &Traffic, names: &Names<'_>) -> Option<Arrival> {
    let is_paced = settings.request_rate_per_s > 0.0;
    match (traffic, settings.arrival) {
        // A paced dataset: its users' requests come at random, at this rate together.
        (Traffic::ShareGpt { .. }, Arrival::Open) if is_paced => Some(Arrival::Poisson),
        (Traffic::ShareGpt { .. }, Arrival::Closed) if is_paced => None,
        // The rate has no effect, and is what is told.
        (Traffic::Drawn, _) if is_rate_idle(settings, traffic) => None,
        // Users that come although nobody was answered yet pile up beyond the limit that is looked
        // for, and the next step would measure what is left of them.
        (Traffic::Drawn | Traffic::ShareGpt { .. }, _)
            if settings.enable_autoscaling && !names.is_given("arrival") =>
        {
            Some(Arrival::Closed)
        }
        _ => None,
    }
}

/// Whether simulated users keep their own pace although a rate is given.
pub(super) fn is_rate_idle(settings: &Settings, traffic: &Traffic) -> bool {
    let is_drawn = matches!(traffic, Traffic::Drawn);
    is_drawn && settings.request_rate_per_s > 0.0 && settings.arrival != Arrival::Poisson
}

/// Simulated users when the run begins: with an autoscaler, as many as it may try.
fn users(settings: &Settings, steps: &AutoscalerSteps, names: &Names<'_>) -> u32 {
    if !settings.enable_autoscaling {
        return settings.num_users;
    }
    let of_shards = INITIAL_USERS_A_SHARD * u32::from(settings.shards);
    let asked = if names.is_given("num_users") { settings.num_users } else { of_shards };
    let least = asked.max(steps.users_min);
    least.min(steps.users_max)
}

fn phases(settings: &Settings) -> PhaseMode {
    match (settings.prefill_only, settings.decode_only) {
        (true, false) => PhaseMode::PrefillOnly,
        (false, true) => PhaseMode::DecodeOnly,
        _ => PhaseMode::Both,
    }
}

/// The numbers of the GPUs to use; none: the first ones.
fn gpu_indices(settings: &Settings) -> Option<Vec<u32>> {
    let list = settings.gpu_devices.trim();
    (list != "auto").then(|| list.split(',').filter_map(|word| word.trim().parse().ok()).collect())
}

/// The depth that rings are made for; where it is searched for, what is taken if that fails.
fn queue_depth(settings: &Settings) -> (u32, Option<u32>) {
    let (shards, io_size) = (i64::from(settings.shards), u64::from(settings.io_size_bytes));
    // Within the bounds of the setting, or below those of a search.
    let narrow = |depth: i64| u32::try_from(depth).unwrap_or(1).max(1);
    let depth = narrow(settings.depth.built_for(shards, io_size));
    (depth, (settings.depth == Depth::Auto).then(|| narrow(Depth::standard(shards))))
}
