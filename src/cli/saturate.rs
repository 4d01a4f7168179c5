//! Arguments of `saturate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use ringfall_config::object_store::ObjectOptions;
use ringfall_config::values::{Size, gib, seconds, whole_seconds};
use ringfall_config::{GpuBackend, Places, Ranks, Word};

use super::{ObjectArgs, mib};

/// Kind of target that `saturate` measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum SaturateTarget {
    /// A drive, several drives or an object store.
    #[default]
    Storage,
    /// The ways between GPU memory, host memory and a drive.
    Vram,
}

/// Values separated by commas. Where the flag is given twice, the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed<T>(pub Vec<T>);

impl<T: FromStr<Err: std::fmt::Display>> FromStr for Listed<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Listed<T>, String> {
        let values = text.split(',').map(|value| value.trim().parse());
        values.collect::<Result<_, _>>().map(Listed).map_err(|error: T::Err| error.to_string())
    }
}

/// Arguments of the command `saturate`.
#[derive(Clone, Debug, Args)]
pub struct SaturateArgs {
    /// Directory on the drive, or a block device, as with --cache-dir; or an object store:
    /// s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX, with nothing below the
    /// prefix
    #[arg(value_name = "DIR|URL")]
    pub target: Option<String>,
    /// Kind of target to measure
    ///
    /// vram: copies between host and GPU memory alone; reads from a drive into GPU memory and
    /// writes from there, through page-locked buffers and, where a trial shows that it works, past
    /// host memory by GPUDirect Storage; and how fast the GPU makes and compares content. It uses
    /// the first GPU, and as much of its memory as --io-buffer-mb.
    #[arg(long = "target", value_name = "WHAT", value_enum, default_value = "storage")]
    pub what: SaturateTarget,
    /// Backend of --target vram: cuda, an NVIDIA GPU; emulated, host memory in place of a GPU's,
    /// whose figures say nothing about a GPU; auto is cuda here [default: auto]
    #[arg(long, value_name = "BACKEND", value_enum, hide_possible_values = true)]
    pub gpu_backend: Option<Word<GpuBackend>>,
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
    #[arg(long, value_name = "GIB", default_value_t = 4.0, value_parser = gib)]
    pub size_gb: f64,
    /// Percentages of reads among the I/Os, separated by commas: 100 is only reads, 0 only writes;
    /// 100,0 when not given, and with --device-output 50 too, which tells whether both share a
    /// limit
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub read_percent: Option<Vec<u32>>,
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
    #[arg(value_parser = mib::<u64>(0..=i64::MAX))]
    pub io_buffer_mb: u64,
    /// Number of threads, each pinned to its own core; one per core when not given
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// Let a kernel thread pick up submissions (SQPOLL)
    #[arg(long, conflicts_with = "iopoll")]
    pub sqpoll: bool,
    /// Poll the device for completions (IOPOLL); the device needs poll queues. With
    /// --nvme-passthrough, Linux 6.6 or newer is needed
    #[arg(long)]
    pub iopoll: bool,
    /// Send NVMe commands to the drives (io_uring passthrough) instead of reads and writes
    ///
    /// Skips the kernel's block layer. Every drive in --cache-dir must be a whole NVMe namespace,
    /// named by its block device (/dev/nvme0n1) or its character device (/dev/ng0n1), and is
    /// written over; the program must be allowed to send commands (root). A namespace that is
    /// reached by NVMe multipath, zoned or formatted with metadata is refused.
    #[arg(long)]
    pub nvme_passthrough: bool,
    /// End the search after this many seconds, 1 to 86400, with what has been found by then; when
    /// not given, it ends when the limits are found. With --target vram it is shared out among the
    /// measurements, and must leave each of them 0.1 s
    #[arg(long, value_name = "SECONDS", value_parser = whole_seconds::<u32>)]
    pub time_limit: Option<u32>,
    /// Search for the largest bandwidth only, not for the most I/Os per second
    #[arg(long)]
    pub no_iops: bool,
    /// Random seed for offsets and content; always a number, so that another search can be compared
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
    /// Behavior when a launcher (mpirun, srun) has started several processes
    ///
    /// auto: all of them load the storage with the same point at the same time, each in a directory
    /// rank_N of its own below --cache-dir, and rank 0 adds up what they reach. They meet in the
    /// directory of --output, which each of them must see, or by MPI in a program that was built
    /// with it; `directory` and `mpi` choose one of the two. --depth-max, --io-buffer-mb and
    /// --size-gb are those of each rank.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub ranks: Word<Ranks>,
    /// Print the JSON on standard output, and everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no table
    #[arg(long)]
    pub quiet: bool,
    /// Sweep of an object store: last, as whatever follows stands under its heading.
    #[command(flatten)]
    pub sweep: ObjectSweepArgs,
    /// Connection to the object store.
    #[command(flatten)]
    pub objects: ObjectArgs,
}

/// Sweep of an object store.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Objects")]
pub struct ObjectSweepArgs {
    /// Sizes of objects, separated by commas, multiples of 4 KiB [default: 64k,1m,8m,32m]
    #[arg(long, value_name = "SIZE,...")]
    pub object_sizes: Option<Listed<Size>>,
    /// Numbers of requests in flight, separated by commas, 1 to 1024 each [default: 1,4,16,64]
    #[arg(long, value_name = "N,...")]
    pub object_in_flight: Option<Listed<u32>>,
    /// Seconds for which each size is measured with each number of requests in flight, PUT and GET
    /// alike, 0.1 to 3600; --time-limit shortens it [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub object_seconds: Option<f64>,
}

impl SaturateArgs {
    /// Whether a flag is given that means something to an object store alone.
    pub fn first_of_objects(&self) -> Option<String> {
        let given = [
            ("--object-sizes", self.sweep.object_sizes.is_some()),
            ("--object-in-flight", self.sweep.object_in_flight.is_some()),
            ("--object-seconds", self.sweep.object_seconds.is_some()),
        ];
        let own = given.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| (*flag).to_owned());
        own.or_else(|| self.objects.first_given())
    }

    /// A flag that is given and means something to a drive alone. Those with a default count as
    /// given when they differ from it.
    pub fn first_of_drives(&self) -> Option<&'static str> {
        let given = [
            ("--cache-dir", self.cache_dir.is_some()),
            ("--destroy-device-contents", self.destroy_device_contents),
            ("--read-percent", self.read_percent.is_some()),
            ("--mix-of", self.mix_of.is_some()),
            ("--io-size-min", self.io_size_min != Size(4 << 10)),
            ("--io-size-max", self.io_size_max != Size(4 << 20)),
            ("--depth-max", self.depth_max != 1_024),
            ("--threads", self.threads.is_some()),
            ("--sqpoll", self.sqpoll),
            ("--iopoll", self.iopoll),
            ("--nvme-passthrough", self.nvme_passthrough),
            ("--no-iops", self.no_iops),
            ("--html-output", self.html_output.is_some()),
            ("--device-output", self.device_output.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
    }

    /// Connection options of the object store, with a place for each of so many requests in flight.
    pub fn object_options(&self, in_flight: u32) -> ObjectOptions {
        ObjectOptions { concurrency: in_flight, ..self.objects.options.clone() }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        saturate: SaturateArgs,
    }

    #[test]
    fn sizes_and_times_may_have_units() {
        let of = |line: &str| Alone::parse_from(line.split(' ')).saturate;
        let typed = of("x --size-gb 512MiB --time-limit 2m --io-buffer-mb 1GiB");
        assert_eq!((typed.size_gb, typed.time_limit, typed.io_buffer_mb), (0.5, Some(120), 1_024));
        let bare = of("x --size-gb 1.5 --time-limit 60 --object-seconds 500ms");
        assert_eq!((bare.size_gb, bare.time_limit, bare.io_buffer_mb), (1.5, Some(60), 256));
        assert_eq!(bare.sweep.object_seconds, Some(0.5));
        for wrong in ["x --time-limit 1d", "x --size-gb big", "x --time-limit 500ms"] {
            assert!(Alone::try_parse_from(wrong.split(' ')).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_of_drives_and_of_object_stores_are_told_apart() {
        let of = |typed: &[&str]| {
            let typed: Vec<&str> = ["x"].iter().chain(typed).copied().collect();
            let args = Alone::parse_from(typed).saturate;
            (args.first_of_drives(), args.first_of_objects())
        };
        assert_eq!(of(&[]), (None, None));
        assert_eq!(of(&["s3://b"]), (None, None));
        assert_eq!(of(&["--depth-max", "1024"]), (None, None));
        assert_eq!(of(&["/mnt/kv"]), (None, None));
        assert_eq!(of(&["--depth-max", "8"]), (Some("--depth-max"), None));
        assert_eq!(of(&["--nvme-passthrough"]), (Some("--nvme-passthrough"), None));
        assert_eq!(of(&["--object-sizes", "1m,2m"]), (None, Some("--object-sizes".to_owned())));
        assert_eq!(of(&["--object-retries", "1"]), (None, Some("--object-retries".to_owned())));
    }
}
