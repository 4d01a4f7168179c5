//! The io_uring data path: a ring of our own, driven by whichever thread made it.

mod batch;
mod chunks;
mod command;
mod dialect;
mod doorbell;
mod entrance;
mod lanes;
mod op;
mod paths;
mod patience;
mod poll_queue;
mod probe;
mod raw;
mod reactor;
mod setup;
mod slot;
mod slowdown;
mod trial;

pub use chunks::{ChunkDone, ChunkIo, ChunkRing};
pub use command::{CommandTarget, Commands, command_span_bytes};
pub use dialect::{AskedIo, Dialect, Files};
pub use doorbell::Doorbell;
pub use lanes::{LaneIo, LaneRing, probe_polling};
pub use op::{IoKind, IoRequest};
pub use paths::{PATH_DIRECTORY_MODE, PATH_FILE_MODE, PathOp, PathRing};
pub use patience::SILENCE_MAX;
pub use poll_queue::polled_io_bytes_max;
pub use probe::{RingFeatures, check_allowed, check_polled_commands, kernel_release};
pub use reactor::{Parker, Ring};
pub use setup::{CommandSetup, Polling, RingConfig, RingSetup};
pub use slot::{Completion, CompletionQueue, IoFuture, SlotToken, Slots};
pub use trial::RingTrial;
