//! Why an engine can't start, or can't do what it is asked.

use super::builder::IO_BYTES_MAX;
use crate::drive::{DRIVE_BYTES_MAX, DRIVES_MAX};
use crate::error::{IoError, SetupError};
use crate::fill::{COMPRESS_RATIO_MAX, DEDUPE_RATIO_MAX};
use crate::key::ShardId;
use crate::units::BLOCK_BYTES;

/// A setting that no engine can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// No shards.
    #[error("an engine has at least one shard")]
    Shards,
    /// No place in the queue.
    #[error("the queue depth is at least 1")]
    QueueDepth,
    /// The size of an I/O is no positive multiple of a block, or too large.
    #[error(
        "an I/O of {bytes} bytes is not possible: choose a multiple of {BLOCK_BYTES} up to \
         {IO_BYTES_MAX}"
    )]
    IoBytes {
        /// Requested size, bytes.
        bytes: u64,
    },
    /// Storage does not hold a block.
    #[error("storage of {bytes} bytes holds nothing: choose at least {BLOCK_BYTES}")]
    StorageBytes {
        /// Requested size, bytes.
        bytes: u64,
    },
    /// A drive is larger than its range of addresses.
    #[error("a drive of {bytes} bytes is not possible: choose at most {DRIVE_BYTES_MAX}")]
    DriveBytes {
        /// Requested size, bytes.
        bytes: u64,
    },
    /// More drives than an engine stores on.
    #[error("{drives} drives are not possible: choose at most {DRIVES_MAX}")]
    TooManyDrives {
        /// Requested number of drives.
        drives: usize,
    },
    /// Not every drive has a size.
    #[error("sizes were given for {sizes} drives, and there are {drives}: give one for each")]
    Drives {
        /// Number of sizes given.
        sizes: usize,
        /// Number of drives.
        drives: usize,
    },
    /// The step of leasing is no positive multiple of a block.
    #[error("a segment of {bytes} bytes is not possible: choose a multiple of {BLOCK_BYTES}")]
    SegmentBytes {
        /// Requested size, bytes.
        bytes: u64,
    },
    /// A bound that would let nothing happen, ever.
    #[error("a bound on allocations or requests is at least 1")]
    Permits,
    /// Pinning to no core.
    #[error("the list of cores to pin shards to is empty")]
    Cpus,
    /// Two ways of polling at once.
    #[error("a submission thread and polled completions exclude each other: choose one of them")]
    Polling,
    /// Polled completions of NVMe commands.
    #[error("NVMe passthrough and polled completions exclude each other: choose one of them")]
    PolledCommands,
    /// Content that can't be reduced to that degree.
    #[error(
        "ratios of content are at least 1: up to {DEDUPE_RATIO_MAX} by deduplication and \
         {COMPRESS_RATIO_MAX} by compression"
    )]
    Shape,
    /// Content that can be reduced is made by the host alone.
    #[error("GPU memory does not hold content that can be deduplicated or compressed")]
    ShapeInGpu,
    /// Nowhere to store anything.
    #[error("no directory, device or file was given to store entries in")]
    Place,
}

/// Why an engine can't start, or can't do what it is asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting that no engine can have.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The environment can't run it.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// An I/O failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// An entry holds at least one byte.
    #[error("an entry of 0 bytes can't be written: an entry holds at least one byte")]
    EmptyEntry,
    /// The engine was stopped before it answered.
    #[error("shard {} has stopped and does not answer any more", shard.0)]
    Stopped {
        /// Which shard.
        shard: ShardId,
    },
    /// A shard's thread panicked, or did not open or end in time.
    #[error("shard {} ended early: {reason}", shard.0)]
    Ended {
        /// Which shard.
        shard: ShardId,
        /// Cause, as far as it is known.
        reason: String,
    },
}
