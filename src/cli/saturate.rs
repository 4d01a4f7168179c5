//! Arguments of `saturate`.

use std::path::PathBuf;

use clap::Args;

use crate::config::values::Size;
use crate::config::{Places, Ranks};

/// Arguments of `saturate`.
#[derive(Clone, Debug, Args)]
pub struct SaturateArgs {
    /// Directory on the drive, or a block device; a new directory under the system's temporary
    /// directory when not given. Several, separated by commas, are measured each alone and all
    /// together
    #[arg(long, value_name = "DIR,...", value_parser = Places::parser())]
    pub cache_dir: Option<Places>,
    /// Allow a block device given as --cache-dir to be overwritten
    #[arg(long)]
    pub destroy_device_contents: bool,
    /// Size of the range that is read and written on each drive, in GiB; it is filled first. 0
    /// takes all free space, or the whole device
    #[arg(long, value_name = "GIB", default_value_t = 4.0)]
    pub size_gb: f64,
    /// Percentages of reads among the I/Os, separated by commas: 100 is only reads, 0 only writes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [100, 0])]
    pub read_percent: Vec<u32>,
    /// Also measure with the mix of reads and writes of this result of `ringfall run`
    #[arg(long, value_name = "RESULT")]
    pub mix_of: Option<PathBuf>,
    /// Size of the smallest I/O
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub io_size_min: Size,
    /// Size of the largest I/O
    #[arg(long, value_name = "SIZE", default_value = "4m")]
    pub io_size_max: Size,
    /// Largest number of I/Os in flight, all threads together
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub depth_max: u32,
    /// Memory for I/O buffers, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub io_buffer_mb: u64,
    /// Number of threads, each pinned to its own core; one per core when not given
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// Let a kernel thread pick up submissions (SQPOLL)
    #[arg(long, conflicts_with = "iopoll")]
    pub sqpoll: bool,
    /// Poll the device for completions (IOPOLL); the device needs poll queues
    #[arg(long)]
    pub iopoll: bool,
    /// End the search after this many seconds, 1 to 86400, with what has been found by then; when
    /// not given, it ends when the limits are found
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u32>,
    /// Search for the largest bandwidth only, not for the most I/Os per second
    #[arg(long)]
    pub no_iops: bool,
    /// Random seed for offsets and content
    #[arg(long, value_name = "U64", default_value_t = 1)]
    pub seed: u64,
    /// File for the limits in JSON, as `ringfall run --roofline` reads it;
    /// results/roofline-TIME.json when not given
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File for the limits as an HTML page that opens offline
    #[arg(long, value_name = "FILE")]
    pub html_output: Option<PathBuf>,
    /// File for a description of the drive in YAML, as `ringfall simulate --device` reads it
    #[arg(long, value_name = "FILE")]
    pub device_output: Option<PathBuf>,
    /// What to do when a launcher (mpirun, srun) has started several processes
    ///
    /// auto: all of them load the storage with the same point at the same time, each in a directory
    /// rank_N of its own below --cache-dir, and rank 0 adds up what they reach. They meet in the
    /// directory of --output, which each of them must see, or by MPI in a program that was built
    /// with it; `directory` and `mpi` choose one of the two. --depth-max, --io-buffer-mb and
    /// --size-gb are those of each rank.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub ranks: Ranks,
    /// Print the JSON on standard output, and everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no table
    #[arg(long)]
    pub quiet: bool,
}
