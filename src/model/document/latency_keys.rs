//! The keys under which `summary.cache_stats` has the latencies of the tiers, and what each means:
//! they are as many as tiers, directions, parts and percentiles make, and stand among other keys.

use ringfall_core::key::Tier;

use super::latency::PERCENTILES;

#[derive(Clone, Copy)]
pub(super) struct LatencyKey {
    pub tier: Tier,
    /// Direction in the key, `read` or `write`.
    pub direction: &'static str,
    pub part: Part,
    /// Suffix of the percentile in the key.
    pub percentile: &'static str,
    /// The percentile as a quantile.
    pub quantile: f64,
}

/// Part of an operation's time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Total,
    /// From the first I/O that is submitted to the last that completes.
    Device,
    /// The rest.
    Host,
}

impl Part {
    /// In the names of keys, and in those of histograms.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Part::Total => ("", "total"),
            Part::Device => ("device_", "device"),
            Part::Host => ("host_", "host"),
        }
    }
}

/// All keys. What the tier in host memory spends is all the host's: it has the total alone.
pub(super) fn all() -> impl Iterator<Item = LatencyKey> {
    let parts = [Part::Total, Part::Device, Part::Host];
    Tier::ALL.into_iter().flat_map(move |tier| {
        let parts = parts.into_iter().filter(move |part| *part == Part::Total || tier != Tier::Cpu);
        parts.flat_map(move |part| {
            ["read", "write"].into_iter().flat_map(move |direction| {
                PERCENTILES.map(|(percentile, quantile)| LatencyKey {
                    tier,
                    direction,
                    part,
                    percentile,
                    quantile,
                })
            })
        })
    })
}

impl LatencyKey {
    pub(super) fn name(self) -> String {
        let (tier, part) = (self.tier.name(), self.part.names().0);
        format!("{tier}_{}_{part}{}_ms", self.direction, self.percentile)
    }

    /// Name of the histogram that holds the times.
    pub(super) fn histogram(self) -> String {
        format!("{}_{}_{}", self.tier.name(), self.direction, self.part.names().1)
    }
}

#[cfg(any(test, feature = "testing"))]
impl LatencyKey {
    pub(super) fn description(self) -> String {
        let tier = match self.tier {
            Tier::Gpu => "the GPU tier",
            Tier::Cpu => "the CPU tier",
            Tier::Storage => "the storage tier",
        };
        let is_write = self.direction == "write";
        let operation =
            if is_write { format!("written to {tier}") } else { format!("read from {tier}") };
        let which = match self.percentile {
            "p50" => "Median",
            "p95" => "95th percentile",
            "p99" => "99th percentile",
            "p999" => "99.9th percentile",
            _ => "99.99th percentile",
        };
        let part = match self.part {
            Part::Total => "total time",
            Part::Device => "device's part of the time",
            Part::Host => "host's part of the time",
        };
        format!(
            "{which} of the {part} of an entry {operation}, ms; absent when there was none. {}",
            self.statement(is_write)
        )
    }

    /// Defines the part, and says whether the reference benchmark defines it alike.
    fn statement(self, is_write: bool) -> &'static str {
        match (self.tier, self.part, is_write) {
            (Tier::Storage, Part::Total, _) => {
                "It is the whole operation without waits for an allocation permit and for room. \
                 Same definition as the reference's."
            }
            (Tier::Storage, Part::Device, false) => {
                "It runs from the first I/O submitted to the last one completed. Differs from the \
                 reference, whose device time is that of loading the file with NumPy, through the \
                 page cache and into new memory."
            }
            (Tier::Storage, Part::Host, false) => {
                "It is the rest of the total: waits for buffers and for a place in the device's \
                 queue, and checking the data. Differs from the reference, whose host time is that \
                 of dropping the file's cached pages and of copying the loaded data once more."
            }
            (Tier::Storage, Part::Device, true) => {
                "It runs from the first I/O submitted to the last one completed, the flush \
                 included. Differs from the reference, whose device time is that of `fsync` alone: \
                 what the kernel has written back before is not in it."
            }
            (Tier::Storage, Part::Host, true) => {
                "It is the rest of the total: making the data, and waits for buffers and for a \
                 place in the device's queue. Differs from the reference, whose host time is that \
                 of writing the file into the page cache."
            }
            (Tier::Cpu, ..) => {
                "Differs from the reference, which copies the entry: here a write makes the data \
                 in its place, and a read goes through it."
            }
            (Tier::Gpu, Part::Total, _) => {
                "Differs from the reference, which copies the entry between host and GPU memory: \
                 here the GPU makes the data itself, and reads it itself."
            }
            (Tier::Gpu, Part::Device, _) => {
                "It is the GPU's work. The reference does not report it."
            }
            (Tier::Gpu, Part::Host, _) => {
                "It is the rest of the total. The reference does not report it."
            }
        }
    }
}
