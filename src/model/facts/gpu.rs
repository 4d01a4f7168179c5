//! Outcome of a request for a GPU tier.

use ringfall_core::facts::{DriverUse, GpuDevice, GpuFacts, GpuKind};

/// Backend of the GPU tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GpuBacking {
    /// GPUs, or host memory that emulates them.
    Real(GpuKind),
    /// A GPU that is only described, in a run on a simulated clock.
    Simulated,
}

impl GpuBacking {
    /// Name of the backend in reports and in the JSON results.
    pub const fn name(self) -> &'static str {
        match self {
            GpuBacking::Real(kind) => kind.name(),
            GpuBacking::Simulated => "simulated",
        }
    }

    /// Whether what is measured is a GPU's.
    pub fn is_gpu(self) -> bool {
        self == GpuBacking::Real(GpuKind::Cuda)
    }
}

/// Path of bytes between GPU memory and storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuTransferOutcome {
    /// Whether they go past host memory, by GPUDirect Storage; else through I/O buffers.
    pub is_direct: bool,
    /// Why they don't, although they might have: a sentence without its full stop.
    pub why_not_direct: Option<String>,
    /// Whether that is worth a warning: it was asked for, or is installed and does not work.
    pub warns: bool,
}

impl GpuTransferOutcome {
    /// Name of the way in reports and in the JSON results.
    pub const fn name(&self) -> &'static str {
        if self.is_direct { "gds" } else { "pinned" }
    }
}

/// A GPU tier that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuOutcome {
    /// Capacity asked for, all GPUs together, bytes.
    pub asked_bytes: u64,
    /// Capacity of the tier, bytes.
    pub given_bytes: u64,
    /// Backend of the tier; none where there was no tier.
    pub backing: Option<GpuBacking>,
    /// Version of the driver's interface.
    pub driver: Option<String>,
    /// GPUs whose memory made up the tier, in the order of their parts; empty where there was none.
    pub devices: Vec<GpuDevice>,
    /// Why there was no tier, or a smaller one, and what would help: a sentence without its full
    /// stop.
    pub why_not: Option<String>,
    /// Path of bytes between the tier and storage; `None` where there is no tier with bytes, or no
    /// drive.
    pub transfer: Option<GpuTransferOutcome>,
    /// Memory that was taken on each device, bytes.
    pub taken_bytes: u64,
    /// Memory in use on each device at the end, by the driver; empty where it reports none.
    pub driver_use: Vec<Option<DriverUse>>,
}

impl GpuOutcome {
    /// A tier that was left out.
    pub fn left_out(asked_bytes: u64, why: String) -> GpuOutcome {
        GpuOutcome { asked_bytes, why_not: Some(why), ..GpuOutcome::default() }
    }

    /// A tier of that size on these devices.
    pub fn of(asked_bytes: u64, given_bytes: u64, facts: &GpuFacts) -> GpuOutcome {
        GpuOutcome {
            asked_bytes,
            given_bytes,
            backing: Some(GpuBacking::Real(facts.kind)),
            driver: facts.driver.clone(),
            devices: facts.devices.clone(),
            ..GpuOutcome::default()
        }
    }

    /// A tier of a simulated run.
    #[must_use]
    pub fn simulated(bytes: u64) -> GpuOutcome {
        GpuOutcome {
            asked_bytes: bytes,
            given_bytes: bytes,
            backing: Some(GpuBacking::Simulated),
            ..GpuOutcome::default()
        }
    }
}
