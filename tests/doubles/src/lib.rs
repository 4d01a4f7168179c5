//! Stand-ins for drives and GPU memory, most of which go wrong as planned: for the engine's tests
//! and benches and for the simulator of faults. What a run may use is in the engine itself.

#![deny(unsafe_code)]

mod by_hand;
mod device;
mod gpu;
mod memory;

pub use by_hand::{ByHand, HandedIo};
pub use device::{Fault, FaultDevice, FaultPlan};
pub use gpu::{FaultyMemory, GpuFlaw, GpuFlawCounts, GpuFlawPlan};
pub use memory::MemoryDevice;
