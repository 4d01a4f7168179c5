//! The names of all warnings: declared once, by what raises them. A test of each kind of source
//! raises every one of its codes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The codes, with their names in results, in a list for each source.
macro_rules! codes {
    ($(
        $(#[$list_doc:meta])*
        $list:ident { $($(#[$doc:meta])* $name:ident = $text:literal,)* }
    )*) => {
        /// Stable name of a warning, for scripts.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($($(#[$doc])* $name,)*)*
            /// One that another version of the program raises and this one does not know.
            Other(String),
        }

        impl Code {
            $($(#[$list_doc])* pub const $list: &'static [Code] = &[$(Code::$name),*];)*

            /// The name, as it stands in results.
            pub fn name(&self) -> &str {
                match self {
                    $($(Code::$name => $text,)*)*
                    Code::Other(name) => name,
                }
            }

            /// The code of that name.
            pub fn named(name: String) -> Code {
                match name.as_str() {
                    $($($text => Code::$name,)*)*
                    _ => Code::Other(name),
                }
            }
        }
    };
}

codes! {
    /// Those that a run's own figures raise.
    OF_RUN {
        /// The kernel's byte counts are not the engine's.
        KernelDisagrees = "kernel_disagrees",
        /// A cache served part of the reads.
        ReadsCached = "reads_cached",
        /// No counter shows whether the reads reached a device.
        ReadsUnseen = "reads_unseen",
        /// The device's queue was full all the time.
        DeepQueue = "deep_queue",
        /// Storage bandwidth rose or fell all through the window, or the storage changed its speed.
        NotSteady = "not_steady",
        /// The block layer was to be traced, and was not.
        NotTraced = "not_traced",
        /// The trace of the block layer lost events.
        TraceLost = "trace_lost",
        /// Many bytes went to blocks that had never been written.
        FirstTouch = "first_touch",
        /// A drive failed in the window, or before it.
        DriveFailed = "drive_failed",
        /// A drive is much slower than the others.
        DriveSlow = "drive_slow",
        /// A drive slowed down against heat.
        DriveHot = "drive_hot",
        /// A drive warns of its own condition.
        DriveWarns = "drive_warns",
        /// A drive met errors of its media that it could not correct.
        DriveMediaErrors = "drive_media_errors",
        /// A cgroup of the process limits the I/O of a drive.
        DriveThrottled = "drive_throttled",
        /// A cgroup of the process kept it from its CPU time for much of it.
        CpuThrottled = "cpu_throttled",
        /// Percentiles of the requests that finished mislead: too many did not.
        Unfinished = "unfinished",
        /// Requests that had not finished were counted by a sample of the users.
        UnfinishedSampled = "unfinished_sampled",
        /// Requests arrived faster than they were served.
        Backlog = "backlog",
        /// Rows of a trace or a dataset could not be read.
        SkippedRows = "skipped_rows",
        /// Rows of a trace are out of order.
        DisorderedRows = "disordered_rows",
        /// A trace was replaced or written to while it was read.
        TraceChanged = "trace_changed",
        /// Rows of the validation trace could not be used.
        SkippedValidationRows = "skipped_validation_rows",
        /// The autoscaler's search did not come to its end.
        Autoscaler = "autoscaler",
        /// The autoscaler found no number of users.
        AutoscalerNone = "autoscaler_none",
        /// Users did not wait for answers while their number was searched for.
        OpenAutoscaling = "open_autoscaling",
        /// There was no GPU tier, although one was asked for.
        GpuLeftOut = "gpu_left_out",
        /// The GPU tier was smaller than asked for.
        GpuSmaller = "gpu_smaller",
        /// Bytes went between GPU memory and storage through host memory.
        GpuNotDirect = "gpu_not_direct",
        /// Host memory stood in for GPUs.
        GpuEmulated = "gpu_emulated",
        /// Entries found no room in a GPU tier that had free space.
        GpuPassedOver = "gpu_passed_over",
        /// A tier got less space than it was to have.
        TierLowered = "tier_lowered",
        /// Requests or entries were too large for the last tier.
        Refused = "refused",
        /// Entries were not stored: storage was full, and nothing leaves it.
        StorageFull = "storage_full",
        /// Files of an engine's layout could not be removed.
        FilesLeft = "files_left",
        /// Requests waited for room in a tier for much of their time.
        SpaceShort = "space_short",
        /// Requests waited for tiers to grow for much of their time.
        TiersGrew = "tiers_grew",
        /// Requests of a trace overlapped that did not in it, and entries were dropped.
        TraceOverlaps = "trace_overlaps",
        /// Most looks for an entry missed it, which cost no time.
        MissesFree = "misses_free",
        /// Entries could not be written before the run.
        Population = "population",
        /// Entries that were written before the run were evicted before they were read.
        PopulationEvicted = "population_evicted",
        /// The limits are those of another device.
        RooflineDevice = "roofline_device",
        /// The limits came with warnings of their own.
        RooflineDoubtful = "roofline_doubtful",
        /// The run went beyond the device's limits.
        RooflineExceeded = "roofline_exceeded",
        /// The run, or a shard, stood still for much of the window.
        StoodStill = "stood_still",
        /// A shard stalled for a moment.
        Stalls = "stalls",
        /// The engine got less from the kernel than it asked for.
        Engine = "engine",
        /// Reads and writes were slowed down on purpose.
        LatencyInjected = "latency_injected",
        /// The storage tier was in memory.
        MemoryBacked = "memory_backed",
        /// No drive moved a byte: the run was simulated, or is a logical trace.
        Simulated = "simulated",
        /// No request finished.
        NothingCompleted = "nothing_completed",
    }
    /// Those that the ranks of a launch raise when their results are merged.
    OF_RANKS {
        /// Ranks of the launch have no result here.
        RanksMissing = "ranks_missing",
        /// Ranks ended early.
        RanksFailed = "ranks_failed",
        /// The ranks did not measure at the same time.
        WindowsApart = "windows_apart",
        /// Ranks moved much less than the others.
        Stragglers = "stragglers",
        /// The ranks did not have one queue depth.
        DepthsDiffer = "depths_differ",
    }
    /// Those that the description of a simulated drive raises, or what it leaves out.
    OF_SIMULATION {
        /// The description says that its figures are not to be relied on.
        DeviceDoubtful = "device_doubtful",
        /// Opening, renaming and removing files of an engine's layout took no time.
        FileCallsFree = "file_calls_free",
    }
    /// Those that reading a result back raises.
    OF_READING {
        /// The result says two things of one figure.
        ContradictsItself = "contradicts_itself",
    }
    /// Those that the trials of a run raise.
    OF_TRIALS {
        /// The trials lie too far apart.
        TrialsSpread = "trials_spread",
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Code::named)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_code_has_a_name_of_its_own_and_is_found_by_it() {
        let all =
            [Code::OF_RUN, Code::OF_RANKS, Code::OF_SIMULATION, Code::OF_READING, Code::OF_TRIALS]
                .concat();
        let names: BTreeSet<&str> = all.iter().map(Code::name).collect();
        assert_eq!(names.len(), all.len());
        for code in &all {
            assert_eq!(Code::named(code.name().to_owned()), *code);
        }
        let read: Code = serde_json::from_str("\"of_the_future\"").unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"of_the_future\"");
        assert!(!all.contains(&read));
    }
}
