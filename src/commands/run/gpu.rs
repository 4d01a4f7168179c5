//! The GPU tier of a run: what stands behind it, or why there is none.

use std::sync::Arc;

use anyhow::Result;
use ringfall_engine::tier::gpu::cuda::CudaMemory;
use ringfall_engine::tier::gpu::emulated::EmulatedMemory;
use ringfall_engine::tier::gpu::{GpuMemory, GpuSpace};
use ringfall_engine::units::gib;

use crate::config::{DeviceFile, GpuBackend, GpuLimits, InputError, Origin, Plan};
use crate::facts::GpuOutcome;
use crate::host::Awaited;

/// Taken of each GPU for a moment, to find out how much of it is free.
const TRIED_BYTES: u64 = 64 << 20;

/// What a run is given of the tier that its plan asks for.
#[derive(Default)]
pub(super) struct OpenGpu {
    /// Its memory; none where there is no tier, or where entries have no bytes.
    pub memory: Option<Arc<dyn GpuMemory>>,
    /// What became of what was asked for; none where nothing was.
    pub outcome: Option<GpuOutcome>,
}

/// Opens the tier, and says in the plan how large it is.
///
/// # Errors
/// It can't be had, and the plan does not do without it.
pub(super) fn open(plan: &mut Plan) -> Result<OpenGpu> {
    let asked_bytes = plan.gpu_memory_bytes;
    if asked_bytes == 0 {
        return Ok(OpenGpu::default());
    }
    let opened = match plan.gpu_backend {
        GpuBackend::None => Err("--gpu-backend none leaves it out".to_owned()),
        GpuBackend::Emulated => Ok((emulated(plan)?, None)),
        GpuBackend::Auto | GpuBackend::Cuda => {
            hold_to_limits(plan).and_then(|why_smaller| Ok((cuda(plan)?, why_smaller)))
        }
    };
    match opened {
        Ok((memory, why_smaller)) => {
            let outcome = GpuOutcome {
                why_not: why_smaller,
                ..GpuOutcome::of(asked_bytes, plan.gpu_memory_bytes, memory.facts())
            };
            Ok(OpenGpu { memory: Some(memory), outcome: Some(outcome) })
        }
        Err(why) => {
            let is_only_tier = plan.is_without_storage && plan.cpu_memory_bytes == 0;
            let must_have = plan.gpu_backend == GpuBackend::Cuda
                || (plan.strict && plan.gpu_backend != GpuBackend::None);
            if must_have || is_only_tier {
                return Err(InputError::new(format!(
                    "--gpu-mem-gb {}: {why}",
                    plan.typed.gpu_mem_gb.unwrap_or_default()
                ))
                .into());
            }
            plan.gpu_memory_bytes = 0;
            Ok(OpenGpu { memory: None, outcome: Some(GpuOutcome::left_out(asked_bytes, why)) })
        }
    }
}

/// Memory to take on each device.
fn device_bytes(plan: &Plan) -> u64 {
    let io_bytes = u64::from(plan.io_size_bytes);
    GpuSpace::memory_bytes(plan.gpu_memory_bytes, plan.gpus, plan.shards, io_bytes)
}

fn emulated(plan: &Plan) -> Result<Arc<dyn GpuMemory>> {
    Ok(EmulatedMemory::new(plan.gpus, device_bytes(plan))?)
}

fn cuda(plan: &Plan) -> Result<Arc<dyn GpuMemory>, String> {
    taken(plan, device_bytes(plan)).map(|memory| memory as Arc<dyn GpuMemory>)
}

/// Takes so much memory on each GPU of the plan.
fn taken(plan: &Plan, device_bytes: u64) -> Result<Arc<CudaMemory>, String> {
    let _awaited = Awaited::new("the GPU's driver to open its devices".to_owned());
    CudaMemory::open(plan.gpu_indices.as_deref(), plan.gpus, device_bytes)
        .map_err(|why| format!("{why}; --gpu-backend emulated has host memory stand in for a GPU"))
}

/// Makes the tier as small as `workload.gpu` says; what is then said of that.
fn hold_to_limits(plan: &mut Plan) -> Result<Option<String>, String> {
    let limits = plan.workload.gpu;
    if limits == GpuLimits::default() {
        return Ok(None);
    }
    let tried = taken(plan, TRIED_BYTES)?;
    let devices = tried.facts().devices.iter();
    let allowed = devices.map(|gpu| limits.bytes_of(gpu.memory_bytes, gpu.free_bytes)).min();
    drop(tried);
    let io_bytes = u64::from(plan.io_size_bytes);
    let capacity_bytes =
        GpuSpace::capacity_within(allowed.unwrap_or(0), plan.gpus, plan.shards, io_bytes);
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
    OpenGpu { memory: None, outcome }
}
