//! A small system, drawn.

use std::ops::Range;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_core::clock::{MICROSECOND, MILLISECOND, Nanos, SECOND};
use ringfall_core::drive::Durability;
use ringfall_core::facts::buffers_a_shard;
use ringfall_core::model::DeviceModel;
use ringfall_core::placement::{EntryLayout, StorageEviction, Watermarks};
use ringfall_core::units::{BLOCK_BYTES, KIB, MIB};
use ringfall_doubles::{ByHand, FaultyMemory, GpuFlawPlan};
use ringfall_engine::engine::Engine;
use ringfall_engine::tier::gpu::emulated::EmulatedMemory;
use ringfall_engine::tier::gpu::{self, GpuSpace};
use ringfall_running::run::{Assignment, Phase, RunSettings};
use ringfall_running::store::StoreRequest;
use ringfall_workloads::config::{Arrival, GenerationMode, Persona, PhaseMode, RagIngestion};
use ringfall_workloads::model::{Dtype, ModelSpec};
use ringfall_workloads::{Source, WorkloadConfig};

use crate::fate::{Fate, Incident, What};
use crate::flaws::FlawRates;
use crate::way::Way;

/// Tells the draws of a GPU tier's memory from all others of a seed.
const GPU_MEMORY_STREAM: u64 = u64::from_be_bytes(*b"gpu memo");
/// Tells the draws of a GPU tier's way to the drives, and of its loss, from all others of a seed.
const WAY_STREAM: u64 = u64::from_be_bytes(*b"gpu way-");

/// System to run, as drawn from the seed.
pub(super) struct Scenario {
    pub(super) settings: RunSettings,
    /// Capacity of the CPU tier, bytes; 0: there is none.
    pub(super) cpu_bytes: u64,
    /// Capacity of the GPU tier, bytes; 0: there is none.
    pub(super) gpu_bytes: u64,
    /// Requests served at once.
    pub(super) requests_max: u32,
    pub(super) assignment: Assignment,
    pub(super) model: DeviceModel,
    pub(super) rates: FlawRates,
    /// Flaws of the GPU tier, if there is one.
    pub(super) gpu_flaws: GpuFlawPlan,
    /// Whether what moves between its GPU memory and the drives goes past host memory.
    pub(super) is_direct: bool,
    /// Simulated time before its GPU is lost; none where it is not.
    pub(super) gpu_lost_after: Option<Nanos>,
    /// Sizes of the drives, bytes: whole blocks.
    pub(super) drives_bytes: Vec<u64>,
    /// Which of several drives dies, and when.
    pub(super) dies: Option<(usize, Nanos)>,
    /// Whether operations are dropped half-way.
    pub(super) cancels: bool,
    /// Simulated time before it is stopped.
    pub(super) runs_for: Nanos,
    /// Incidents that happen to it from outside.
    pub(super) fate: Fate,
    /// Whether operations that have begun may end before the engine is stopped.
    pub(super) ends_gently: bool,
}

/// A quarter of the seeds have none of a flaw; the others, up to so many of a thousand.
fn rate(rng: &mut Xoshiro256PlusPlus, most: u32) -> u32 {
    if rng.random_range(0..4) == 0 { 0 } else { rng.random_range(0..=most) }
}

/// A third have no CPU tier.
fn cpu_bytes(rng: &mut Xoshiro256PlusPlus, scale: u64) -> u64 {
    match rng.random_range(0..3u32) {
        0 => 0,
        _ => scale * rng.random_range(32..=2_048) * KIB,
    }
}

impl Scenario {
    pub(super) fn draw(rng: &mut Xoshiro256PlusPlus) -> Scenario {
        let (shards, users) = (rng.random_range(1..=4u16), rng.random_range(1..=12u32));
        let Drawn { mut settings, scale, cpu_bytes, requests_max } = settings(rng, shards);
        let bandwidth = rng.random_range(2.0e6..2.0e7);
        let mut model = DeviceModel::with_bandwidth(bandwidth, bandwidth / 2.0);
        model.flush = time_within(rng, Nanos::ZERO..MILLISECOND);
        let tail = rng.random_range(0..500u64) * MICROSECOND;
        model.read.latency_p99 = model.read.latency + tail;
        let (drives_bytes, layout, dies) = drives(settings.seed, settings.store.capacity_bytes);
        let is_flawless = rng.random_range(0..10) == 0;
        let rates = rates(rng, is_flawless);
        let mut config = workload(rng, users);
        let populates_for =
            (rng.random_range(0..8) == 0).then(|| time_within(rng, Nanos::ZERO..200 * MILLISECOND));
        let gpu_flaws = gpu_flaws(rng, is_flawless);
        let gpu_bytes = gpu_bytes(rng, scale);
        let promotes = rng.random_range(0..3) == 0;
        settings.engine =
            settings.engine.layout(layout).gpu_bytes(gpu_bytes).promote_on_hit(promotes);
        let (rates, gpu_flaws) = one_kind_of_damage(rates, gpu_flaws, gpu_bytes > 0);
        let (cancels, runs_for) = (rng.random(), time_within(rng, 10 * MILLISECOND..4 * SECOND));
        let mut fate = Fate::draw(settings.seed, shards, drives_bytes.len(), runs_for);
        // One that is stopped in the middle of its population is one that is interrupted then.
        fate.incidents.extend(populates_for.map(|after| Incident {
            phase: Phase::Populate,
            after,
            what: What::Interrupt { again_after: None },
        }));
        let (is_direct, gpu_lost_after) = way(settings.seed, gpu_bytes, is_flawless, runs_for);
        let source = match fate.rows {
            None => Source::Synthetic,
            Some(_) => {
                config.phases = PhaseMode::Both;
                Source::Rows { block_tokens: 512 }
            }
        };
        Scenario {
            settings,
            cpu_bytes,
            gpu_bytes,
            requests_max,
            assignment: Assignment { config: Arc::new(config), source, rows: None },
            model,
            rates,
            gpu_flaws,
            is_direct,
            gpu_lost_after,
            drives_bytes,
            dies,
            cancels,
            runs_for,
            fate,
            ends_gently: rng.random(),
        }
    }

    /// Whether nothing is to go wrong with its drives.
    pub(super) fn is_flawless(&self) -> bool {
        let has_dying = self.fate.has(|what| matches!(what, What::DriveDies(_)));
        self.rates == FlawRates::default() && self.dies.is_none() && !has_dying
    }

    /// Opens the GPU tier, if it has one, and its way to the drives, if it has that.
    pub(super) fn open_gpu(&mut self) -> Result<(Option<Arc<FaultyMemory>>, Option<Way>), String> {
        if self.gpu_bytes == 0 {
            return Ok((None, None));
        }
        let settings = &mut self.settings;
        let landing_bytes = landing_bytes(settings, self.drives_bytes.len(), self.is_direct);
        let memory = gpu_memory_bytes(self.gpu_bytes, landing_bytes, settings);
        let memory = EmulatedMemory::new(1, memory).map_err(|error| error.to_string())?;
        let by_hand = self.is_direct.then(|| ByHand::new(&memory));
        let memory = FaultyMemory::new(memory, self.gpu_flaws);
        let mut engine = std::mem::take(&mut settings.engine).gpu_memory(memory.clone());
        if let Some(by_hand) = &by_hand {
            engine = engine.gpu_direct(Arc::clone(by_hand) as _);
        }
        settings.engine = engine;
        Ok((Some(memory), by_hand.map(Way::new)))
    }
}

/// Whether a system with a GPU tier has a way past host memory, half of them do, and when its GPU
/// is lost, of which an eighth are. Drawn apart, as drives are.
fn way(seed: u64, gpu_bytes: u64, is_flawless: bool, runs_for: Nanos) -> (bool, Option<Nanos>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ WAY_STREAM);
    let is_direct = rng.random::<bool>() && gpu_bytes > 0;
    let is_lost = rng.random_range(0..8) == 0 && gpu_bytes > 0 && !is_flawless;
    (is_direct, is_lost.then(|| time_within(&mut rng, Nanos::ZERO..runs_for)))
}

/// GPU memory in which each shard lands what it reads.
fn landing_bytes(settings: &RunSettings, drives: usize, is_direct: bool) -> u64 {
    let (io_bytes, drives) = (settings.io_size_bytes, drives as u64);
    let (buffer_bytes, depth) = (settings.io_buffer_bytes / drives, settings.queue_depth);
    let buffers =
        drives * u64::from(buffers_a_shard(buffer_bytes, settings.shards, io_bytes, depth));
    GpuSpace::landing_bytes(io_bytes) + if is_direct { buffers * io_bytes } else { 0 }
}

/// Draws the rates of the drive's flaws.
fn rates(rng: &mut Xoshiro256PlusPlus, is_flawless: bool) -> FlawRates {
    let rates = FlawRates {
        failing: rate(rng, 20),
        transient: rate(rng, 20),
        short: rate(rng, 50),
        empty: rate(rng, 5),
        late: rate(rng, 10),
        stalling: rate(rng, 2),
        corrupt: rate(rng, 10),
        misdirected: rate(rng, 10),
        is_reordering: rng.random(),
    };
    if is_flawless { FlawRates::default() } else { rates }
}

/// Half of the systems have a GPU tier.
fn gpu_bytes(rng: &mut Xoshiro256PlusPlus, scale: u64) -> u64 {
    let bytes = scale * rng.random_range(32..=2_048) * KIB;
    if rng.random() { bytes } else { 0 }
}

/// Half of the GPU tiers have less memory than they were to have, so that room in them may prove
/// worth nothing: what the shards' first chunks take, and some of the tier's own.
fn gpu_memory_bytes(capacity_bytes: u64, landing_bytes: u64, settings: &RunSettings) -> u64 {
    let shards = settings.shards;
    let whole = GpuSpace::memory_bytes(capacity_bytes, 1, shards, landing_bytes);
    // Drawn apart, as drives are.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(settings.seed ^ GPU_MEMORY_STREAM);
    let landing_chunks = GpuSpace::landing_bytes(settings.io_size_bytes).div_ceil(gpu::CHUNK_BYTES);
    let chunks = u64::from(shards) * landing_chunks + capacity_bytes / 4 / gpu::CHUNK_BYTES;
    match rng.random() {
        true => chunks * gpu::CHUNK_BYTES,
        false => whole,
    }
}

/// Draws the flaws of a GPU tier; none where the whole system is flawless.
fn gpu_flaws(rng: &mut Xoshiro256PlusPlus, is_flawless: bool) -> GpuFlawPlan {
    let mut permille = |most| u16::try_from(rate(rng, most)).unwrap_or(u16::MAX);
    let (refused, failed, wrong, late) = (permille(10), permille(10), permille(20), permille(300));
    match is_flawless {
        true => GpuFlawPlan::Never,
        false => GpuFlawPlan::Random { seed: rng.random(), refused, failed, wrong, late },
    }
}

/// A system damages bytes on its drive or finds wrong ones in GPU memory: a block that is compared
/// with another's name there hides what the drive did to it.
fn one_kind_of_damage(
    rates: FlawRates,
    gpu: GpuFlawPlan,
    has_gpu: bool,
) -> (FlawRates, GpuFlawPlan) {
    match gpu {
        GpuFlawPlan::Random { seed, wrong: 1.., .. } if has_gpu && seed % 16 != 0 => {
            (FlawRates { corrupt: 0, misdirected: 0, ..rates }, gpu)
        }
        GpuFlawPlan::Random { seed, refused, failed, late, .. } => {
            (rates, GpuFlawPlan::Random { seed, refused, failed, wrong: 0, late })
        }
        other => (rates, other),
    }
}

/// Some have entries of several of the CPU tier's chunks.
fn scale(rng: &mut Xoshiro256PlusPlus) -> u64 {
    if rng.random_range(0..8) == 0 { 6 } else { 1 }
}

/// Settings of a system without its drives and its GPU tier.
struct Drawn {
    settings: RunSettings,
    /// Factor by which its tiers are larger than usual.
    scale: u64,
    cpu_bytes: u64,
    requests_max: u32,
}

/// Drawn in this order, by which the system of a seed stays what it is.
fn settings(rng: &mut Xoshiro256PlusPlus, shards: u16) -> Drawn {
    let io_size_bytes = (4 * KIB) << rng.random_range(0..5);
    let queue_depth = rng.random_range(1..=16u32);
    let buffers = rng.random_range(1..=u64::from(queue_depth));
    let scale = scale(rng);
    let storage_bytes = scale * rng.random_range(u64::from(shards).max(2)..=12) * MIB;
    let cpu_bytes = cpu_bytes(rng, scale);
    let watermarks = watermarks(rng);
    let durability = if rng.random() { Durability::Flush } else { Durability::None };
    let seed = rng.random();
    let requests_max = rng.random_range(1..=16);
    let settings = RunSettings {
        engine: Engine::builder()
            .cpu_bytes(cpu_bytes)
            .watermarks(watermarks)
            .durability(durability)
            .requests_max(Some(requests_max)),
        store: StoreRequest { capacity_bytes: storage_bytes, shards, ..StoreRequest::default() },
        has_storage: true,
        shards,
        io_size_bytes,
        queue_depth,
        io_buffer_bytes: buffers * io_size_bytes * u64::from(shards),
        seed,
        max_concurrent_allocs: if rng.random() { rng.random_range(1..=4) } else { 0 },
        ..RunSettings::default()
    };
    Drawn { settings, scale, cpu_bytes, requests_max }
}

/// A time, all of the range being as likely.
pub(super) fn time_within(rng: &mut Xoshiro256PlusPlus, range: Range<Nanos>) -> Nanos {
    Nanos::from_ns(rng.random_range(range.start.as_ns()..range.end.as_ns()))
}

/// The drives, which a third of the seeds have several of, and of those every second one that dies.
/// Drawn apart, so that the other seeds are what they have always been.
fn drives(seed: u64, capacity_bytes: u64) -> (Vec<u64>, EntryLayout, Option<(usize, Nanos)>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from_be_bytes(*b"drives--"));
    if rng.random_range(0..3) > 0 {
        return (vec![capacity_bytes], EntryLayout::default(), None);
    }
    let layout = if rng.random() { EntryLayout::Stripe } else { EntryLayout::Whole };
    let weights: Vec<u64> =
        (0..rng.random_range(2..=5u32)).map(|_| rng.random_range(1..=4u64)).collect();
    let blocks = capacity_bytes / BLOCK_BYTES;
    let part = |weight: u64| (blocks * weight / weights.iter().sum::<u64>()).max(1) * BLOCK_BYTES;
    let sizes: Vec<u64> = weights.iter().map(|&weight| part(weight)).collect();
    let dies = rng
        .random::<bool>()
        .then(|| (rng.random_range(0..sizes.len()), time_within(&mut rng, Nanos::ZERO..SECOND)));
    (sizes, layout, dies)
}

/// Shares that an eviction leaves of a tier, and at which an entry skips it.
fn watermarks(rng: &mut Xoshiro256PlusPlus) -> Watermarks {
    Watermarks {
        evict_target_permille: rng.random_range(0..=1_000),
        skip_permille: rng.random_range(500..=1_000),
        storage: StorageEviction::default(),
    }
}

/// Users of a model so small that entries are a few blocks to half a MiB.
fn workload(rng: &mut Xoshiro256PlusPlus, users: u32) -> WorkloadConfig {
    let model = ModelSpec {
        num_layers: 2,
        hidden_dim: 64,
        num_heads: 4,
        kv_heads: 2,
        kv_dim_per_head: Some(16),
        dtype: Dtype::Float16,
        mla: None,
        active_parameters: None,
    };
    let personas = vec![
        Persona {
            context_tokens: [8, 400],
            generation_tokens: [1, 100],
            think_time_s: [0.002, 0.05],
        },
        Persona {
            context_tokens: [200, 2_000],
            generation_tokens: [20, 200],
            think_time_s: [0.01, 0.2],
        },
    ];
    let arrivals = [Arrival::Open, Arrival::Closed, Arrival::Poisson];
    let arrival = arrivals[rng.random_range(0..arrivals.len())];
    let phases = match rng.random_range(0..6) {
        0 => PhaseMode::PrefillOnly,
        1 => PhaseMode::DecodeOnly,
        _ => PhaseMode::Both,
    };
    let is_fast = rng.random();
    let retrieves = rng.random_range(0..3) == 0;
    WorkloadConfig {
        model,
        num_users: users,
        personas,
        arrival,
        request_rate_per_s: if arrival == Arrival::Poisson { 20.0 } else { 0.0 },
        multi_turn: rng.random(),
        prefix_caching: rng.random(),
        prefix_probability: 0.5,
        system_prompt_tokens: [20, 200],
        rag_documents: if retrieves { 3 } else { 0 },
        rag_ingestion: if rng.random() { RagIngestion::Before } else { RagIngestion::Beside },
        rag: ringfall_workloads::config::RagConfig {
            probability: 0.5,
            document_tokens: [400, 1_200],
            max_documents: rng.random_range(0..3),
            ..Default::default()
        },
        prefill_only_context_tokens: 1_800,
        generation_mode: if is_fast { GenerationMode::Fast } else { GenerationMode::None },
        phases,
        decode_only_entries_per_user: 3,
        decode_only_entry_tokens: 300,
        ..WorkloadConfig::default()
    }
}
