//! Arguments of `checkpoint`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfall_config::Word;
use ringfall_config::values;
use ringfall_core::fill::VerifyMode;
use ringfall_running::checkpoint::{Io, Optimizer, Precision, SaveMode, Way};

use super::{ContentArgs, ObjectArgs, mib, number, time};

/// Arguments of the command `checkpoint`.
#[derive(Clone, Debug, Args)]
pub struct CheckpointArgs {
    /// The subcommand, with its own arguments.
    #[command(subcommand)]
    pub command: CheckpointCommand,
}

/// Subcommands of `checkpoint`, in the order of the help.
#[derive(Clone, Debug, Subcommand)]
pub enum CheckpointCommand {
    /// Write a checkpoint as a stream, in an amount of memory that does not grow with its size
    ///
    /// Chunks of content are stored while the next ones are generated; four chunks of 32 MiB take
    /// 128 MiB of memory. A file gets its final name once all of it has been stored, and the
    /// checkpoint is complete once checkpoint.json exists.
    Write(Box<CheckpointWriteArgs>),
    /// Read a checkpoint back and compare every block with what was written
    Read(Box<CheckpointReadArgs>),
    /// Compute, save and restore in turn, as a training job does
    Run(Box<CheckpointRunArgs>),
    /// Write the same checkpoint in each of several ways, and compare their times and memory
    Compare(Box<CheckpointCompareArgs>),
}

/// Where a checkpoint is, and how it is moved.
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// Directory of the checkpoint, which nothing else should use; or a place in an object store:
    /// s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// Connection to an object store.
    #[command(flatten)]
    pub objects: ObjectArgs,
    /// Size of a chunk in MiB, 1 to 1024; when not given, 32, or less where little memory is left
    #[arg(long, value_name = "MIB", value_parser = mib::<u64>(1..=1024))]
    pub chunk_mib: Option<u64>,
    /// Number of chunks in memory, 1 to 4096
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number::<u32>(1, 4096))]
    pub buffers: u32,
    /// Number of threads that generate and move chunks, 1 to 256; when not given, 2, or fewer where
    /// there are fewer cores or --buffers
    #[arg(long, value_name = "N", value_parser = number::<u32>(1, 256))]
    pub threads: Option<u32>,
    /// Mode in which files are opened: bypassing the page cache (O_DIRECT), or through it; it has
    /// no effect on an object store
    #[arg(long, value_name = "HOW", default_value = "direct")]
    pub io: Io,
    /// Write the result to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON on standard output, and everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no table
    #[arg(long)]
    pub quiet: bool,
}

/// Content of a checkpoint.
#[derive(Clone, Debug, Args)]
pub struct JobArgs {
    /// Size of the whole checkpoint, in GiB, divided evenly among the ranks; 1 when neither this
    /// nor a model is given
    #[arg(long, value_name = "GIB", value_parser = size_gib)]
    #[arg(conflicts_with_all = ["model", "parameters"])]
    pub size_gib: Option<f64>,
    /// Model whose training is checkpointed, such as llama3.1-8b; `list` shows all
    #[arg(long, value_name = "NAME", conflicts_with = "parameters")]
    pub model: Option<String>,
    /// Number of parameters of a model that has no name here, such as 7e9
    #[arg(long, value_name = "N", value_parser = parameters)]
    pub parameters: Option<u64>,
    /// Number of ranks that save, 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, 65_536))]
    pub ranks: u32,
    /// Number of ranks among which tensor parallelism divides the model
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, 65_536))]
    pub tensor_parallel: u32,
    /// Number of ranks among which pipeline parallelism divides the model
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, 65_536))]
    pub pipeline_parallel: u32,
    /// ZeRO stage, which says what data-parallel ranks divide among themselves: 0, nothing, and one
    /// of them saves everything; 1 and 2, the optimizer state; 3, the weights as well
    #[arg(long, value_name = "STAGE", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// Format of the weights: 2 bytes per parameter, or 4
    #[arg(long, value_name = "FORMAT", default_value = "bf16")]
    pub precision: Precision,
    /// State that is saved besides the weights: Adam's, 12 bytes per parameter (8 with fp32
    /// weights), or none
    #[arg(long, value_name = "NAME", default_value = "adam")]
    pub optimizer: Optimizer,
    /// Put the shards of all ranks in one file instead of one file for each rank
    #[arg(long)]
    pub shared_file: bool,
    /// Number of files that are written at the same time, 1 to 4096
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number::<u32>(1, 4096))]
    pub files_at_once: u32,
    /// Give files their names as soon as they are written, without making them durable first
    #[arg(long)]
    pub no_fsync: bool,
    /// Random seed of the content; always a number, as the same content is compared with later
    #[arg(long, value_name = "U64", default_value_t = 1)]
    pub seed: u64,
    /// Reducibility of the content.
    #[command(flatten)]
    pub content: ContentArgs,
}

/// Arguments of `checkpoint write`.
#[derive(Clone, Debug, Args)]
pub struct CheckpointWriteArgs {
    /// Where the checkpoint goes, and by how many threads and how much memory.
    #[command(flatten)]
    pub stream: StreamArgs,
    /// The training job whose checkpoint it is.
    #[command(flatten)]
    pub job: JobArgs,
    /// When content is generated
    #[arg(long, value_name = "WAY", default_value = "stream")]
    pub way: Way,
    /// Continue the unfinished checkpoint that is already there: the part that was stored is read,
    /// verified and kept
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Remove the checkpoint that is already there, finished or not, and start over
    #[arg(long)]
    pub overwrite: bool,
}

/// Arguments of `checkpoint read`.
#[derive(Clone, Debug, Args)]
pub struct CheckpointReadArgs {
    /// Where the checkpoint is, and by how many threads and how much memory it is read.
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Share of the data read that is compared with what was written
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub verify: Word<VerifyMode>,
}

/// Arguments of `checkpoint run`.
#[derive(Clone, Debug, Args)]
pub struct CheckpointRunArgs {
    /// Where the checkpoints go, and by how many threads and how much memory.
    #[command(flatten)]
    pub stream: StreamArgs,
    /// The training job whose checkpoints they are.
    #[command(flatten)]
    pub job: JobArgs,
    /// Length of the job, 1 to 86400 s: computing ends then, and no save but the first begins later
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = time::<u32>(1..=86_400))]
    pub duration: u32,
    /// Number of seconds to compute between two saves, 0 to 86400
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub interval: f64,
    /// Length of the pause in training for each save
    #[arg(long, value_name = "HOW", default_value = "sync")]
    pub save_mode: SaveMode,
    /// When content is generated; with --save-mode async, generate-first holds a copy of the whole
    /// checkpoint in memory, from which it is stored beside training
    #[arg(long, value_name = "WAY", default_value = "stream")]
    pub way: Way,
    /// Restore a checkpoint after every Nth save; 0 restores none
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub restore_every: u32,
    /// Number of checkpoints to keep while the job goes on, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, 1000))]
    pub keep: u32,
    /// Share of a restored checkpoint that is compared with what was saved
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub verify: Word<VerifyMode>,
    /// Leave the last checkpoint when the job ends
    #[arg(long)]
    pub leave_last: bool,
    /// Remove checkpoints that an earlier job left behind
    #[arg(long)]
    pub overwrite: bool,
}

/// Arguments of `checkpoint compare`.
#[derive(Clone, Debug, Args)]
pub struct CheckpointCompareArgs {
    /// Where the checkpoints go, and by how many threads and how much memory.
    #[command(flatten)]
    pub stream: StreamArgs,
    /// The training job whose checkpoints they are.
    #[command(flatten)]
    pub job: JobArgs,
    /// Number of times each way is measured, the ways taking turns, 1 to 100; the table shows
    /// medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<u32>(1, 100))]
    pub trials: u32,
    /// Another place to which the checkpoint is streamed, as one more row of the table: a directory
    /// or an object store
    #[arg(long, value_name = "TARGET")]
    pub beside: Option<PathBuf>,
    /// Remove a checkpoint that an earlier comparison left behind
    #[arg(long)]
    pub overwrite: bool,
}

/// Largest checkpoint, GiB: an EiB.
const SIZE_GIB_MAX: f64 = 1_073_741_824.0;
/// Most parameters of a model: 10^15.
const PARAMETERS_MAX: f64 = 1e15;

pub(super) fn within(
    text: &str,
    read: Option<f64>,
    bounds: RangeInclusive<f64>,
    what: &str,
) -> Result<f64, String> {
    read.filter(|value| bounds.contains(value)).ok_or_else(|| {
        format!("{text:?} is not a {what}; give {} to {}", bounds.start(), bounds.end())
    })
}

/// As for `datagen`.
pub(super) fn size_gib(text: &str) -> Result<f64, String> {
    within(text, values::gib(text).ok(), 1e-5..=SIZE_GIB_MAX, "size in GiB")
}

fn parameters(text: &str) -> Result<u64, String> {
    let count = text.trim().parse().ok();
    within(text, count, 1.0..=PARAMETERS_MAX, "number of parameters").map(|count| count as u64)
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, values::seconds(text).ok(), 0.0..=86_400.0, "time in seconds")
}
