//! The GPU tier of a run: what stands behind it, or why there is none.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ringfall_core::facts::buffers_a_shard;
use ringfall_core::units::gib;
use ringfall_engine::tier::gpu::cuda::{CudaMemory, Gds};
use ringfall_engine::tier::gpu::emulated::EmulatedMemory;
use ringfall_engine::tier::gpu::{DirectStorage, GpuMemory, GpuSpace, NoDirect};

use ringfall_config::{DeviceFile, GpuBackend, GpuLimits, GpuTransfer, Origin, Plan};
use ringfall_host::Overdue;
use ringfall_model::facts::{GpuOutcome, GpuTransferOutcome};
use ringfall_running::run::DirectOpener;

/// Taken of each GPU for a moment, to find out how much of it is free.
const TRIED_BYTES: u64 = 64 << 20;
/// Longest trial of GPUDirect Storage: opening its driver takes seconds on machines with many GPUs.
const DIRECT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct OpenGpu {
    /// Its memory; none where there is no tier, or where entries have no bytes.
    pub memory: Option<Arc<dyn GpuMemory>>,
    /// Opens its way to the data files past host memory, where that is to be tried.
    pub direct: Option<DirectOpener>,
    /// Report on the requested tier; none where none was requested.
    pub outcome: Option<GpuOutcome>,
}

/// Opens the tier, and says in the plan how large it is.
pub(super) fn open(plan: &mut Plan) -> Result<OpenGpu> {
    let asked_bytes = plan.gpu_memory_bytes;
    if asked_bytes == 0 {
        return Ok(OpenGpu::default());
    }
    let opened = match plan.gpu_backend {
        GpuBackend::None => Err("--gpu-backend none leaves it out".to_owned()),
        GpuBackend::Emulated => Ok((Gpu::emulated(plan.gpus, device_bytes(plan))?, None)),
        GpuBackend::Auto | GpuBackend::Cuda => hold_to_limits(plan).and_then(|why_smaller| {
            let indices = plan.gpu_indices.as_deref();
            Ok((Gpu::cuda(indices, plan.gpus, device_bytes(plan))?, why_smaller))
        }),
    };
    match opened {
        Ok((Gpu { memory, open_direct }, why_smaller)) => {
            // Whether a run does not begin without the way past host memory.
            let is_required = plan.strict && plan.gpu_transfer == GpuTransfer::Gds;
            let direct = tries_direct(plan).then(|| DirectOpener::new(is_required, open_direct));
            let outcome = GpuOutcome {
                why_not: why_smaller,
                transfer: (!plan.is_without_storage).then(|| way_without_files(plan)),
                taken_bytes: memory.bytes() / u64::from(plan.gpus.max(1)),
                ..GpuOutcome::of(asked_bytes, plan.gpu_memory_bytes, memory.facts())
            };
            Ok(OpenGpu { memory: Some(memory), direct, outcome: Some(outcome) })
        }
        Err(why) => {
            let is_only_tier = plan.is_without_storage && plan.cpu_memory_bytes == 0;
            let must_have = plan.gpu_backend == GpuBackend::Cuda
                || (plan.strict && plan.gpu_backend != GpuBackend::None);
            if must_have || is_only_tier {
                refuse!("--gpu-mem-gb {}: {why}", plan.typed.gpu_mem_gb.unwrap_or_default().0);
            }
            plan.gpu_memory_bytes = 0;
            let outcome = Some(GpuOutcome::left_out(asked_bytes, why));
            Ok(OpenGpu { outcome, ..OpenGpu::default() })
        }
    }
}

/// Opens the way past host memory to files, of which so many bytes may be written over.
type OpenDirect =
    Box<dyn Fn(Vec<OwnedFd>, u64) -> Result<Arc<dyn DirectStorage>, NoDirect> + Send + Sync>;

/// Memory that was taken on GPUs, and what opens its way to files past host memory.
pub(in crate::commands) struct Gpu {
    pub(in crate::commands) memory: Arc<dyn GpuMemory>,
    pub(in crate::commands) open_direct: OpenDirect,
}

impl Gpu {
    /// Takes host memory in the place of so many GPUs'.
    pub(in crate::commands) fn emulated(gpus: u32, device_bytes: u64) -> Result<Gpu> {
        let memory = EmulatedMemory::new(gpus, device_bytes)?;
        let emulated = Arc::clone(&memory);
        let open_direct: OpenDirect = Box::new(move |files, _| Ok(emulated.direct(files)));
        Ok(Gpu { memory, open_direct })
    }

    /// Takes so much memory on each of the GPUs with these indices, or of so many.
    ///
    /// # Errors
    /// The driver gives none; the text says what else there is.
    pub(in crate::commands) fn cuda(
        indices: Option<&[u32]>,
        gpus: u32,
        device_bytes: u64,
    ) -> Result<Gpu, String> {
        let memory = taken(indices, gpus, device_bytes)?;
        let cuda = Arc::clone(&memory);
        let open_direct: OpenDirect = Box::new(move |files, probe_bytes| {
            Ok(Arc::new(Gds::open(&cuda, files, probe_bytes, DIRECT_LIMIT)?))
        });
        Ok(Gpu { memory, open_direct })
    }
}

/// Whether the way past host memory is tried: when it is asked for, or may be there.
fn tries_direct(plan: &Plan) -> bool {
    let has_drive =
        !plan.is_without_storage && plan.object_url().is_none() && plan.layout_plan.is_none();
    has_drive
        && match plan.gpu_transfer {
            GpuTransfer::Pinned => false,
            GpuTransfer::Gds => true,
            GpuTransfer::Auto => plan.gpu_backend != GpuBackend::Emulated && Gds::is_installed(),
        }
}

/// Transfer report where the path past host memory is not tried, or was not opened yet.
fn way_without_files(plan: &Plan) -> GpuTransferOutcome {
    let why = match plan.gpu_transfer {
        GpuTransfer::Pinned => None,
        _ if plan.object_url().is_some() => Some("the data is in an object store"),
        _ if plan.layout_plan.is_some() => Some("the data is in an engine's files"),
        GpuTransfer::Auto if plan.gpu_backend == GpuBackend::Emulated => None,
        GpuTransfer::Auto | GpuTransfer::Gds => Some("GPUDirect Storage is not installed"),
    };
    GpuTransferOutcome {
        is_direct: false,
        why_not_direct: why.map(str::to_owned),
        warns: plan.gpu_transfer == GpuTransfer::Gds,
    }
}

/// Transfer report after the path past host memory was tried.
pub(super) fn way_with_files(plan: &Plan, opened: Result<(), String>) -> GpuTransferOutcome {
    GpuTransferOutcome {
        is_direct: opened.is_ok(),
        why_not_direct: opened.err(),
        warns: plan.gpu_transfer == GpuTransfer::Gds || Gds::is_installed(),
    }
}

/// GPU memory of a shard in which what is read lands, bytes: as much as its buffers where they are
/// passed by, else an I/O.
fn landing_bytes(plan: &Plan) -> u64 {
    let io_bytes = u64::from(plan.io_size_bytes);
    if !tries_direct(plan) {
        return io_bytes;
    }
    let drives = plan.cache_dirs.len().max(1) as u64;
    let buffers =
        buffers_a_shard(plan.io_buffer_bytes / drives, plan.shards, io_bytes, plan.queue_depth);
    GpuSpace::landing_bytes(io_bytes) + drives * u64::from(buffers) * io_bytes
}

fn device_bytes(plan: &Plan) -> u64 {
    GpuSpace::memory_bytes(plan.gpu_memory_bytes, plan.gpus, plan.shards, landing_bytes(plan))
}

fn taken(indices: Option<&[u32]>, gpus: u32, device_bytes: u64) -> Result<Arc<CudaMemory>, String> {
    let _overdue = Overdue::new("the GPU's driver to open its devices".to_owned());
    CudaMemory::open(indices, gpus, device_bytes)
        .map_err(|why| format!("{why}; --gpu-backend emulated has host memory stand in for a GPU"))
}

/// Makes the tier as small as `workload.gpu` says; what is then said of that.
fn hold_to_limits(plan: &mut Plan) -> Result<Option<String>, String> {
    let limits = plan.workload.gpu;
    if limits == GpuLimits::default() {
        return Ok(None);
    }
    let tried = taken(plan.gpu_indices.as_deref(), plan.gpus, TRIED_BYTES)?;
    let devices = tried.facts().devices.iter();
    let allowed = devices.map(|gpu| limits.bytes_of(gpu.memory_bytes, gpu.free_bytes)).min();
    drop(tried);
    let landing = landing_bytes(plan);
    let capacity_bytes =
        GpuSpace::capacity_within(allowed.unwrap_or(0), plan.gpus, plan.shards, landing);
    if capacity_bytes >= plan.gpu_memory_bytes {
        return Ok(None);
    }
    let why = format!(
        "workload.gpu allows {:.2} GiB on each GPU (memory_fraction {}, reserve_fraction {})",
        gib(allowed.unwrap_or(0)),
        limits.memory_fraction,
        limits.reserve_fraction
    );
    if capacity_bytes == 0 || plan.strict {
        return Err(format!(
            "{why}, which is enough for a tier of {:.2} GiB: ask for less, or raise the limits",
            gib(capacity_bytes)
        ));
    }
    plan.gpu_memory_bytes = capacity_bytes;
    Ok(Some(why))
}

/// The tier of a simulated run: as large as the plan says, or as the described GPU.
pub(super) fn simulated(plan: &mut Plan, device: &DeviceFile) -> OpenGpu {
    let is_given =
        matches!(plan.origins.get("gpu_mem_gb"), Some(Origin::CommandLine | Origin::File));
    if let (false, Some(bytes)) = (is_given, device.gpu.capacity_bytes) {
        plan.gpu_memory_bytes = bytes.saturating_mul(u64::from(plan.gpus));
    }
    let asked_bytes = plan.gpu_memory_bytes;
    let outcome = match (asked_bytes, plan.gpu_backend) {
        (0, _) => None,
        (_, GpuBackend::None) => {
            plan.gpu_memory_bytes = 0;
            let why = "--gpu-backend none leaves it out".to_owned();
            Some(GpuOutcome::left_out(asked_bytes, why))
        }
        _ => Some(GpuOutcome::simulated(asked_bytes)),
    };
    OpenGpu { outcome, ..OpenGpu::default() }
}
