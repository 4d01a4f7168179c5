//! Arguments of `saturate`.

use std::path::PathBuf;

use clap::Args;

use crate::config::values::Size;

/// Arguments of `saturate`.
#[derive(Clone, Debug, Args)]
pub struct SaturateArgs {
    /// Directory on the drive, or a block device; default: a fresh directory under the system's
    /// temp
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Let a block device given as --cache-dir be written over
    #[arg(long)]
    pub destroy_device_contents: bool,
    /// Bytes that I/Os go to, GiB; they are written first. 0: all that is free, or the whole device
    #[arg(long, value_name = "GIB", default_value_t = 4.0)]
    pub size_gb: f64,
    /// Percent of the I/Os that read, several with commas: 100 for reads, 0 for writes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [100, 0])]
    pub read_percent: Vec<u32>,
    /// Measure the mix of this result of `run` too
    #[arg(long, value_name = "RESULT")]
    pub mix_of: Option<PathBuf>,
    /// Smallest I/O
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub io_size_min: Size,
    /// Largest I/O
    #[arg(long, value_name = "SIZE", default_value = "4m")]
    pub io_size_max: Size,
    /// I/Os in flight at most, over all threads
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub depth_max: u32,
    /// Memory for I/O buffers, MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub io_buffer_mb: u64,
    /// Threads, each pinned to a core; default: one a core
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// Have a kernel thread take submissions (SQPOLL)
    #[arg(long, conflicts_with = "iopoll")]
    pub sqpoll: bool,
    /// Poll the device for completions (IOPOLL); needs poll queues
    #[arg(long)]
    pub iopoll: bool,
    /// End the search after so many seconds, 1 to 86400, with what was found by then; default: when
    /// the limits are found
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u32>,
    /// Look for bandwidth only
    #[arg(long)]
    pub no_iops: bool,
    /// Of offsets and content
    #[arg(long, value_name = "U64", default_value_t = 1)]
    pub seed: u64,
    /// The limits as JSON, for `ringfall run --roofline`; default: results/roofline-TIME.json
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The limits as a page that opens offline
    #[arg(long, value_name = "FILE")]
    pub html_output: Option<PathBuf>,
    /// The drive described for `ringfall simulate`, in YAML
    #[arg(long, value_name = "FILE")]
    pub device_output: Option<PathBuf>,
    /// The JSON on standard output too; the rest then goes to standard error
    #[arg(long)]
    pub json: bool,
    /// No progress, no table
    #[arg(long)]
    pub quiet: bool,
}
