//! The machine and this process on it: what the hardware and the kernel say of themselves, and the
//! process's streams, signals, files and exit status. Every figure that can't be read is `None`,
//! never 0.

#![forbid(unsafe_code)]

mod ata_log;
mod blockstat;
mod cost;
mod cpus;
mod device;
mod direct;
mod drive_log;
pub mod escape;
pub mod exit;
pub mod files;
pub mod interrupt;
mod interrupts;
mod kernel;
mod launcher;
mod machine;
mod numa;
pub mod outlet;
mod overdue;
mod pipe;
pub mod remedy;
mod room;
mod root;
#[cfg(any(test, feature = "testing"))]
mod scratch;
mod screen;
pub mod stderr;
pub mod survey;

pub use blockstat::{BlockCounters, BlockDelta};
pub use cost::{Cost, CostSnapshot, peak_rss_bytes, reset_peak_rss};
pub use cpus::{allowed_cpus, unbound_cpu_count};
pub use device::{ChainLink, DeviceFacts, device_numbers, lowest_devices, shared_port};
pub use direct::{free_bytes, takes_direct_io};
pub use drive_log::{ControllerFacts, DATA_UNIT_BYTES, DriveLook, HealthLog, LogKind, MediaLog};
pub use interrupts::interrupted_cores;
pub use launcher::{Launcher, host_name};
pub use machine::{Machine, MountFacts};
pub use numa::{ShardBytes, Topology};
pub use overdue::Overdue;
pub use pipe::{
    InputFile, is_strange_pipe, open_plain, open_to_read, read_text, try_output, write_output,
    write_output_unsynced,
};
pub use room::{
    ARENAS_ADDRESSES, MemoryRoom, Room, counted, heed_address_space, human, human_apart, human_time,
};
#[cfg(any(test, feature = "testing"))]
pub use scratch::Scratch;
pub use screen::{ProgressLine, is_stream_watched, terminal_columns};
