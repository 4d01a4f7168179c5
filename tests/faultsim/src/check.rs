//! Checks that must hold after a run, whatever the drive did.

use ringfall_core::drive::IoKind;
use ringfall_core::error::{ErrorKind, Operation};
use ringfall_core::key::Tier;
use ringfall_core::metrics::{ErrorRecord, Metrics};
use ringfall_core::units::BLOCK_BYTES;
use ringfall_doubles::GpuFlawCounts;
use ringfall_engine::tier::cpu::CHUNK_BYTES;
use ringfall_engine::tier::gpu;
use ringfall_running::driver::Driver;
use ringfall_running::run::World;
use ringfall_workloads::WorkloadStats;

use crate::flaws::FlawCounts;
use crate::scenario::Scenario;

/// State of the shards when they were stopped.
#[derive(Default)]
pub(super) struct AtStop {
    serving: u32,
}

impl AtStop {
    /// One more is about to be stopped.
    pub(super) fn add(&mut self, driver: &Driver) {
        self.serving += driver.serving();
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, left: T, right: T) -> Result<(), String> {
    match left == right {
        true => Ok(()),
        false => Err(format!("{what}: {left:?}, not {right:?}")),
    }
}

/// Every request that is being served has a step that will end. To be asked when nothing can happen
/// without time passing.
pub(super) fn nobody_is_forgotten(world: &World) -> Result<(), String> {
    for driver in &world.drivers {
        let id = driver.shard().id().0;
        let serving = driver.serving() as usize;
        same(&format!("shard {id}: requests with a step"), driver.steps_under_way(), serving)?;
    }
    Ok(())
}

/// All that had begun has ended by itself.
pub(super) fn nothing_waits(world: &World) -> Result<(), String> {
    same("tasks that wait for ever", world.runtime.task_count(), 0)
}

/// No chunk of the CPU tier is taken but for its entries.
fn chunks_are_entries(world: &World, entry_bytes: u64) -> Result<(), String> {
    let cpu = &world.engine.shared().cpu;
    let chunks_used = cpu.chunks() - cpu.free_chunks();
    if chunks_used as u64 > entry_bytes / CHUNK_BYTES as u64 {
        return Err(format!("{chunks_used} chunks are taken for {} bytes", entry_bytes));
    }
    Ok(())
}

/// Nothing is held by anybody, and every sum is right.
pub(super) fn at_rest(world: &World, scenario: &Scenario, at_stop: &AtStop) -> Result<(), String> {
    same("tasks that never end", world.runtime.task_count(), 0)?;
    let settings = &scenario.settings;
    let (mut committed, mut used, mut leased) = ([0; 2], [0; 2], 0);
    let (mut resident, mut gone, mut gpu_entries) = (0, 0, 0);
    let mut tier_bytes = [0; 3];
    for driver in &world.drivers {
        let shard = driver.shard();
        let id = shard.id().0;
        same(&format!("shard {id}: I/Os in flight"), shard.in_flight(), 0)?;
        same(&format!("shard {id}: buffers held"), shard.tickets(), 0)?;
        same(&format!("shard {id}: entries being moved"), shard.moves(), 0)?;
        same(&format!("shard {id}: operations"), driver.operations(), 0)?;
        shard.heed_losses();
        let sums = shard.check_sums();
        for tier in 0..2 {
            committed[tier] += sums.committed_bytes[tier];
            used[tier] += sums.used_bytes[tier];
        }
        leased += sums.leased_blocks;
        same(&format!("shard {id}: questions and arrivals"), shard.pending(), 0)?;
        same(&format!("shard {id}: GPU jobs in flight"), shard.gpu_in_flight(), 0)?;
        gpu_entries += shard.counts(Tier::Gpu).entries;
        for tier in Tier::ALL {
            let counts = shard.counts(tier);
            tier_bytes[tier.index()] += counts.bytes;
            resident += counts.entries;
            gone += counts.removed_entries + counts.lost_entries;
        }
    }
    let metrics = metrics_of(world);
    let written: u64 = metrics.tiers.iter().map(|tier| tier.write.total.count()).sum();
    let deleted = metrics.evictions[Tier::Storage.index()].entries;
    same(
        "entries written and those there, deleted, replaced or lost",
        resident + deleted + gone,
        written,
    )?;
    chunks_are_entries(world, tier_bytes[1])?;
    gpu_memory_is_entries(world, tier_bytes[0], gpu_entries)?;
    let budgets = &world.engine.shared().budgets;
    for tier in [Tier::Gpu, Tier::Cpu] {
        let at = tier.index();
        same(&format!("{tier:?}: doors"), budgets.door(tier).available(), 1)?;
        same(&format!("{tier:?}: bytes committed"), budgets.committed_bytes(tier), committed[at])?;
        same(&format!("{tier:?}: bytes used"), budgets.used_bytes(tier), used[at])?;
        same(&format!("{tier:?}: committed is used, at rest"), committed[at], used[at])?;
        same(&format!("{tier:?}: bytes of entries"), tier_bytes[at], used[at])?;
        if used[at] > budgets.capacity_bytes(tier) {
            return Err(format!("{tier:?} holds {} bytes, more than it has", used[at]));
        }
    }
    storage_is_whole(world, settings.store.capacity_bytes, leased, tier_bytes[2])?;
    for tier in Tier::ALL {
        same(&format!("{tier:?}: batons"), budgets.baton(tier).available(), 1)?;
    }
    // A request under way when the run stops goes no further and keeps its slot.
    let slots = i64::from(scenario.requests_max) - i64::from(at_stop.serving);
    same("serving slots", world.engine.shared().requests.available(), slots)?;
    if settings.max_concurrent_allocs > 0 {
        let permits = i64::from(settings.max_concurrent_allocs);
        same("allocation permits", world.engine.shared().allocations.available(), permits)?;
    }
    requests(world, at_stop)
}

/// Every block of storage is leased or free, and entries take no more than there is.
fn storage_is_whole(
    world: &World,
    capacity_bytes: u64,
    leased: u64,
    entry_bytes: u64,
) -> Result<(), String> {
    let budgets = &world.engine.shared().budgets;
    let blocks = capacity_bytes / BLOCK_BYTES;
    // A lost drive keeps its blocks, and is none of the capacity any more.
    let all = budgets.grown_bytes(Tier::Storage) / BLOCK_BYTES;
    same("storage blocks", leased + budgets.unleased_blocks(), all)?;
    let whole_bytes = budgets.capacity_bytes(Tier::Storage);
    if all > blocks || whole_bytes > all * BLOCK_BYTES || entry_bytes > whole_bytes {
        return Err(format!("storage holds {} bytes of {blocks} blocks", entry_bytes));
    }
    Ok(())
}

fn metrics_of(world: &World) -> Metrics {
    let mut metrics = Metrics::default();
    for driver in &world.drivers {
        metrics.merge(&driver.shard().measure().snapshot());
    }
    metrics
}

/// Bytes read and written past host memory, as the engine counted them.
pub(super) fn direct_bytes(world: &World) -> [u64; 2] {
    let moves = metrics_of(world).gpu_moves;
    [moves.direct_read_bytes, moves.direct_write_bytes]
}

/// Every request that arrived is done, was dropped, or was being served.
fn requests(world: &World, at_stop: &AtStop) -> Result<(), String> {
    let mut stats = WorkloadStats::default();
    let mut ended = 0;
    for driver in &world.drivers {
        stats.merge(&driver.with_workload(|workload| workload.stats()));
        let (totals, of_driver) = (driver.totals(), driver.ended_ever());
        let requests = &totals.requests;
        let in_window = requests.completed() + requests.failed + requests.refused;
        if in_window > of_driver {
            return Err(format!("{in_window} requests ended in the window, {of_driver} in all"));
        }
        ended += of_driver;
    }
    let known = ended + stats.dropped + u64::from(at_stop.serving);
    same("requests that ended, were dropped or being served", known, stats.arrived)
}

/// Checks that the engine counted exactly what the drive did.
pub(super) fn report_tells_what_happened(
    world: &World,
    scenario: &Scenario,
    flaws: &FlawCounts,
    gpu: &GpuFlawCounts,
) -> Result<(), String> {
    let metrics = metrics_of(world);
    let errors = |of: &dyn Fn(&ErrorRecord) -> bool| -> u64 {
        metrics.errors.iter().filter(|error| of(error)).map(|error| error.count).sum()
    };
    // What happens to writes that an operation left behind when it was dropped, nobody counts, nor
    // what it left behind on GPU memory: of that the drive does not know who waits for it.
    let counted = |what: &str, kind: IoKind, counted: u64, done: u64| match scenario.cancels {
        true if (kind != IoKind::Read || scenario.is_direct) && counted <= done => Ok(()),
        _ => same(&format!("{kind:?}: {what}"), counted, done),
    };
    counted("bytes", IoKind::Read, metrics.io_read.bytes, flaws.read_bytes)?;
    counted("bytes", IoKind::Write, metrics.io_write.bytes, flaws.written_bytes)?;
    gpu_tells_what_happened(&metrics, scenario, gpu)?;
    let (noticed, most) = (metrics.verify.blocks_bad, flaws.wrong_blocks + gpu.wrong_blocks);
    // An operation that was dropped does not hear what its GPU jobs found, and of a job that
    // failed nobody learns what it would have found.
    // What came past host memory is compared when all of its I/O has come, which may fail yet.
    let fails_in_part = flaws.failures() + flaws.empty[0] > 0;
    let may_hide = gpu.failed > 0
        || (scenario.cancels && (gpu.wrong_blocks > 0 || scenario.is_direct))
        || (scenario.is_direct && fails_in_part);
    if noticed > most || !may_hide {
        same("wrong blocks noticed", noticed, most)?;
    }
    let corrupt = errors(&|error| error.kind == ErrorKind::Corrupt);
    same("wrong blocks told", corrupt > 0, noticed > 0)?;
    for (direction, kind) in [IoKind::Read, IoKind::Write].into_iter().enumerate() {
        let operation = Operation::of(kind);
        let truncated = |error: &ErrorRecord| {
            error.kind == ErrorKind::Truncated && error.operation == operation
        };
        counted("I/Os of nothing", kind, errors(&truncated), flaws.empty[direction])?;
    }
    let short = flaws.short.iter().sum();
    counted("short I/Os", IoKind::Write, metrics.short_transfers, short)?;
    for (kind, errno, count) in &flaws.failed {
        let told =
            |error: &ErrorRecord| error.errno == *errno && error.operation == Operation::of(*kind);
        counted(&format!("failed with errno {errno}"), *kind, errors(&told), *count)?;
    }
    let failed = errors(&|error| error.errno != 0);
    counted("failed in all", IoKind::Write, failed, flaws.failures())?;
    if scenario.is_flawless() && gpu.failed + gpu.wrong_blocks == 0 {
        same("errors of a drive without flaws", metrics.error_count(), 0)?;
    }
    Ok(())
}

/// Checks that the engine counted the GPU jobs that its devices failed: all of them, except those
/// of operations that were dropped.
fn gpu_tells_what_happened(
    metrics: &Metrics,
    scenario: &Scenario,
    gpu: &GpuFlawCounts,
) -> Result<(), String> {
    let is_it = |row: &&ErrorRecord| row.first.tier == Tier::Gpu && row.kind != ErrorKind::Corrupt;
    let told: u64 = metrics.errors.iter().filter(is_it).map(|row| row.count).sum();
    if told > gpu.failed || (told < gpu.failed && !scenario.cancels) {
        return Err(format!("GPU jobs failed: {told} told, {} happened", gpu.failed));
    }
    Ok(())
}

/// The GPU tier's memory is taken for its entries, and by each shard for what it reads.
fn gpu_memory_is_entries(world: &World, entry_bytes: u64, entries: u64) -> Result<(), String> {
    let Some(gpu) = &world.engine.shared().gpu else { return Ok(()) };
    let shards = world.drivers.iter().map(|driver| driver.shard());
    let idle: u64 = shards.map(|shard| shard.gpu_idle_bytes()).sum();
    let free = gpu.space.free_chunks() as u64 * gpu::CHUNK_BYTES;
    let taken = gpu.memory.bytes() - free - idle;
    let landing: u64 = world.drivers.iter().map(|driver| driver.shard().gpu_landing_bytes()).sum();
    // Entries are rounded up to whole blocks.
    let most = entry_bytes + entries * BLOCK_BYTES + landing;
    if taken > most || taken < entry_bytes + landing {
        return Err(format!("{taken} bytes of GPU memory are taken for {entry_bytes} of entries"));
    }
    Ok(())
}
