//! The limits of a device, as found by a search or read from a file.

use ringfall_core::units::gib;
use serde::{Deserialize, Serialize};

use ringfall_host::Machine;

/// Layout of the file.
pub const ROOFLINE_VERSION: u32 = 1;
/// Bytes a second that a device can have: a block an hour to a petabyte.
const RATES: std::ops::RangeInclusive<f64> = 1.0..=1e15;
/// Largest ratio between a short probe and the steady measurement that counts as a repetition.
const REPEATS_WITHIN: f64 = 1.1;
/// The same between the steady measurement and the probe of its point: more than the rounds of one
/// steady measurement may differ.
const EXCEEDS_WITHIN: f64 = 1.25;
/// A median latency below this share of the mean ...
const BURST_MEDIAN: f64 = 0.6;
/// ... and a 99th percentile above so many means are bursts.
const BURST_PAUSE: f64 = 10.0;
/// Share of a shallower probe below which a deeper one is not taken as it is: a deeper queue does
/// not slow a sound drive so much, and a stall does.
pub const SUNK_SHARE: f64 = 0.5;

/// The limits of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Roofline {
    /// 1; also tells such a file from others.
    pub ringfall_roofline: u32,
    /// Version of the program that measured.
    pub version: String,
    /// When it was measured, seconds since 1970.
    pub unix_s: f64,
    /// Machine on which the limits were measured.
    pub machine: Machine,
    /// Size of the range of the file or device that I/Os went to, bytes; all of it had been
    /// written.
    pub range_bytes: u64,
    /// Number of threads, each with a ring of its own.
    pub threads: u32,
    /// `none`, `submission` (SQPOLL) or `completion` (IOPOLL).
    pub polling: String,
    /// Whether reads and writes were NVMe commands (io_uring passthrough).
    #[serde(default)]
    pub nvme_passthrough: bool,
    /// Whether all I/O buffers were in huge pages; null where the kernel does not say (before Linux
    /// 6.1), and in files of versions that did not keep it.
    #[serde(default)]
    pub huge_pages: Option<bool>,
    /// When a point counted as steady.
    pub steady_rule: String,
    /// Duration of the whole search, s, including the time to write the range.
    pub seconds: f64,
    /// Time limit of the search, s; null for as long as it needs.
    #[serde(default)]
    pub time_limit_s: Option<u32>,
    /// Bytes of the range asked for that the time limit left unwritten, and so unused; they are not
    /// in `range_bytes`.
    #[serde(default)]
    pub range_left_bytes: u64,
    /// Sentences that a reader of the limits must know.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Limits of reads, of writes and of mixes; for several drives, those of all at the same time.
    pub limits: Vec<Limit>,
    /// Bandwidth of several drives at the same time, beside that of each alone; empty for one
    /// drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Together>,
    /// The limits of each of several drives alone; empty for one drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Roofline>,
    /// Ranks that measured together, by number; empty where one process did alone. Every figure is
    /// then that of all ranks together, and `machine` is that of rank 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankOfLimits>,
}

/// One of several ranks that measured together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RankOfLimits {
    /// Number of the rank, from 0.
    pub rank: u32,
    /// Name of its machine.
    pub host: String,
}

/// The limits of one direction or mix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Limit {
    /// Part of the I/Os that read, percent: 100 for reads, 0 for writes.
    pub read_percent: u32,
    /// Largest bandwidth that was found.
    pub bandwidth: Best,
    /// Largest rate of I/Os of the smallest size; null where it was not looked for.
    pub iops: Option<Best>,
    /// Reads of the best point of `bandwidth`, measured briefly with buffers in pages of 4 KiB, as
    /// fio and most engines have them; null where buffers were in such pages anyway or the kernel
    /// does not say, for writes and mixes, for NVMe commands, for ranks and for several drives
    /// together, where the time limit left no time, and in files of versions that did not measure
    /// it.
    #[serde(default)]
    pub in_small_pages: Option<Measured>,
    /// Bandwidth of I/Os of a run's size with as many in flight as a run has, the shallowest first:
    /// what a run is to expect. Empty where it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usual: Vec<Usual>,
}

/// Mean bandwidth over short windows between which other loads were measured, so that it is not
/// that of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Usual {
    /// Bytes in flight, all threads together.
    pub in_flight_bytes: u64,
    /// Bytes a second, on average.
    pub bytes_per_s: f64,
    /// Bytes a second of the slowest window.
    pub bytes_per_s_min: f64,
    /// Bytes a second of the fastest window.
    pub bytes_per_s_max: f64,
}

/// The best that a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Best {
    /// The best point, measured until it was steady.
    pub best: Measured,
    /// The point with the smallest depth that reached 95 % of the best one.
    pub knee: Measured,
    /// All points that were tried, in order.
    pub probes: Vec<Measured>,
    /// Whether the search came to its own end; false where the time limit ended it, or where
    /// deeper queues were far slower than shallower ones to the end, so that the device may do more
    /// than `best` says.
    #[serde(default = "yes")]
    pub settled: bool,
}

/// Files of versions that knew no time limit hold searches that ended by themselves.
fn yes() -> bool {
    true
}

/// Bandwidth of several drives at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Together {
    /// Part of the I/Os that read, percent: 100 for reads, 0 for writes.
    pub read_percent: u32,
    /// Bandwidth of all drives at the same time, bytes/s.
    pub bytes_per_s: f64,
    /// Bandwidth of each drive while all of them work, bytes/s, in the order of `drives`.
    pub each_bytes_per_s: Vec<f64>,
    /// Sum of the largest bandwidths of the drives, each measured alone, bytes/s.
    pub sum_alone_bytes_per_s: f64,
    /// `bytes_per_s` divided by the mean of the drives' largest bandwidths alone: as many drives as
    /// there are, if nothing holds them back.
    pub times_one: f64,
    /// Share of the time of the cores in use that the measuring threads took, from 0 to 1.
    pub cpu_share: f64,
    /// Bottleneck of the drives when they work at the same time.
    pub bound_by: String,
}

impl Together {
    /// `8 drives: 7.2 × one, bound by …`
    pub fn sentence(&self) -> String {
        let drives = self.each_bytes_per_s.len();
        format!("{drives} drives: {:.1} × one, bound by {}", self.times_one, self.bound_by)
    }
}

/// Measurement of one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Measured {
    /// Size of an I/O, bytes.
    pub io_bytes: u32,
    /// I/Os in flight, over all threads.
    pub depth: u32,
    /// Bandwidth, bytes per second.
    pub bytes_per_s: f64,
    /// Rate of I/Os, I/Os per second.
    pub iops: f64,
    /// Median latency of an I/O, µs.
    pub latency_p50_us: f64,
    /// 99th percentile of the latency of an I/O, µs.
    pub latency_p99_us: f64,
    /// CPU time for each GiB moved, s; a polling kernel thread's is not among it.
    pub cpu_s_per_gib: f64,
    /// Whether it was steady before its time was over.
    pub steady: bool,
    /// Length of the measurement, s.
    pub seconds: f64,
    /// Bytes a second of each rank, by number; empty where one process measured alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks_bytes_per_s: Vec<f64>,
}

/// Bursts in which a device works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Time between their beginnings, µs.
    pub period_us: f64,
    /// Bandwidth within one, bytes a second.
    pub bytes_per_s: f64,
}

impl Bursts {
    fn shown_by(probe: &Measured) -> Option<Bursts> {
        let in_flight_bytes = f64::from(probe.depth) * f64::from(probe.io_bytes);
        let mean_us = in_flight_bytes / probe.bytes_per_s * 1e6;
        let (median_us, pause_us) = (probe.latency_p50_us, probe.latency_p99_us);
        let is_bursting = 0.0 < median_us
            && median_us < BURST_MEDIAN * mean_us
            && pause_us > BURST_PAUSE * mean_us;
        is_bursting.then(|| Bursts {
            // The rest of each period goes in the burst itself.
            period_us: pause_us / (1.0 - median_us / mean_us),
            bytes_per_s: in_flight_bytes / (median_us * 1e-6),
        })
    }
}

impl Measured {
    /// End of the measurement, in words that follow its length.
    pub fn ended(&self) -> &'static str {
        if self.steady { "until steady" } else { "before the time was up" }
    }
}

impl Best {
    /// Short probe that the long measurement of the best point does not bear out: the fastest, if
    /// it was much faster, or that of the best point itself, if it was much slower. The speed of
    /// such a device varies: it has credits for bursts, or others use it.
    pub fn outrun(&self) -> Option<&Measured> {
        let long = &self.best;
        let fastest = fastest(self.probes.iter())?;
        // A probe may hold one burst more than its length has room for.
        let burst_s = self.bursts().map_or(0.0, |bursts| bursts.period_us / 1e6);
        let excess = 1.0 + burst_s / fastest.seconds.max(burst_s).max(1e-9);
        if fastest.bytes_per_s > REPEATS_WITHIN * excess * long.bytes_per_s {
            return Some(fastest);
        }
        let point = |of: &Measured| (of.io_bytes, of.depth);
        let own = self.probes.iter().rfind(|probe| point(probe) == point(long))?;
        (long.bytes_per_s > EXCEEDS_WITHIN * own.bytes_per_s).then_some(own)
    }

    /// Bursts in which the device works, as the limiters of clouds and of the kernel let it: then
    /// most I/Os take much less than their share of the time, and some wait for the next burst. The
    /// period is that of the probe with the most bytes in flight of those that show them: a 99th
    /// percentile is that of I/Os that wait only where these are more than one in a hundred. The
    /// speed is the median of these, as one alone varies twofold. None unless two probes show them.
    pub fn bursts(&self) -> Option<Bursts> {
        let in_flight_bytes = |probe: &Measured| u64::from(probe.depth) * u64::from(probe.io_bytes);
        let mut shown: Vec<(u64, Bursts)> = self
            .probes
            .iter()
            .filter_map(|probe| Some((in_flight_bytes(probe), Bursts::shown_by(probe)?)))
            .collect();
        shown.sort_by_key(|(in_flight_bytes, _)| *in_flight_bytes);
        let deepest = shown.last().filter(|_| shown.len() > 1)?.1;
        shown.sort_by(|(_, a), (_, b)| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let (_, Bursts { bytes_per_s, .. }) = shown[shown.len() / 2];
        Some(Bursts { bytes_per_s, ..deepest })
    }

    /// Deepest point of the climb and the best of the shallower ones, if it was far below them, so
    /// that the depth at which the device does most was not found.
    pub fn sunk(&self) -> Option<(&Measured, &Measured)> {
        let io_bytes = self.probes.first()?.io_bytes;
        let climb = || self.probes.iter().filter(move |probe| probe.io_bytes == io_bytes);
        let deepest = climb().map(|probe| probe.depth).max()?;
        let deep = fastest(climb().filter(|probe| probe.depth == deepest))?;
        let shallow = fastest(climb().filter(|probe| probe.depth < deepest))?;
        (deep.bytes_per_s < SUNK_SHARE * shallow.bytes_per_s).then_some((deep, shallow))
    }
}

fn fastest<'a>(loads: impl Iterator<Item = &'a Measured>) -> Option<&'a Measured> {
    loads.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
}

impl Limit {
    /// Results of the searches for this limit, with the name of what each looked for.
    fn searches(&self) -> impl Iterator<Item = (&'static str, &Best)> {
        let iops = self.iops.iter().map(|best| ("IOPS", best));
        std::iter::once(("bandwidth", &self.bandwidth)).chain(iops)
    }

    /// Sentences about the searches that did not settle because something disturbed them.
    pub fn disturbances(&self) -> impl Iterator<Item = String> {
        self.searches().filter_map(|(goal, best)| {
            let (deep, shallow) = best.sunk()?;
            Some(format!(
                "the search for {goal} at {} % reads did not settle: with {} I/Os in flight the \
                 device had {:.0} % of its speed with {}, as if something had disturbed it, and it \
                 may do more than was found; try when nothing else uses it",
                self.read_percent,
                deep.depth,
                deep.bytes_per_s * 100.0 / shallow.bytes_per_s,
                shallow.depth
            ))
        })
    }
}

impl Roofline {
    /// Refuses what no device can have.
    ///
    /// # Errors
    /// Which limit is impossible, or that there is none.
    pub fn check(&self) -> Result<(), String> {
        if self.limits.is_empty() {
            return Err("it has no limits".to_owned());
        }
        for limit in &self.limits {
            if limit.read_percent > 100 {
                return Err(format!("a limit of {} percent reads", limit.read_percent));
            }
            for (_, best) in limit.searches() {
                let rate = best.best.bytes_per_s;
                if !RATES.contains(&rate) {
                    let percent = limit.read_percent;
                    return Err(format!("a limit of {rate:?} bytes a second ({percent} % reads)"));
                }
            }
        }
        Ok(())
    }

    /// Most bytes a second of a direction: 100 percent read, or 0.
    pub fn bandwidth(&self, read_percent: u32) -> Option<f64> {
        let limit = self.limits.iter().find(|limit| limit.read_percent == read_percent)?;
        Some(limit.bandwidth.best.bytes_per_s).filter(|bandwidth| *bandwidth > 0.0)
    }

    /// Parts of the search that the time limit left undone, a sentence each; empty where the search
    /// came to its end.
    pub fn left_undone(&self) -> Vec<String> {
        let mut left = Vec::new();
        if self.range_left_bytes > 0 {
            left.push(format!(
                "{:.2} of {:.2} GiB were not written in time, and no I/O went to them.",
                gib(self.range_left_bytes),
                gib(self.range_left_bytes + self.range_bytes)
            ));
        }
        for limit in &self.limits {
            // Of those that were disturbed a sentence of its own tells.
            for (goal, best) in
                limit.searches().filter(|(_, best)| !best.settled && best.sunk().is_none())
            {
                left.push(format!(
                    "The search for {goal} at {} % reads stopped after {} load{}, and measured the \
                     best for {:.1} s: the device may do more.",
                    limit.read_percent,
                    best.probes.len(),
                    if best.probes.len() == 1 { "" } else { "s" },
                    best.best.seconds
                ));
            }
        }
        left
    }

    /// Share of the device that a run used, if it read and wrote so many bytes a second: the time
    /// that the device would need at its limits for a second's work. Above 1 where reads and writes
    /// don't share a limit.
    pub fn share(&self, read_bytes_per_s: f64, write_bytes_per_s: f64) -> Option<f64> {
        let limits = [self.bandwidth(100), self.bandwidth(0)];
        share_of_limits([read_bytes_per_s, write_bytes_per_s], limits)
    }
}

/// Time that a device would need for these rates at these limits, of reads and writes, in a second;
/// none where a limit is needed and unknown.
pub(crate) fn share_of_limits(rates: [f64; 2], limits: [Option<f64>; 2]) -> Option<f64> {
    let part = |(rate, limit): (f64, Option<f64>)| match rate {
        0.0 => Some(0.0),
        rate => Some(rate / limit?),
    };
    rates.into_iter().zip(limits).map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::roofline;

    #[test]
    fn the_share_is_the_devices_time() {
        let roofline = roofline(4e9, 2e9);
        assert_eq!(roofline.share(2e9, 1e9), Some(1.0));
        assert_eq!(roofline.share(1e9, 0.0), Some(0.25));
        let readless = Roofline { limits: roofline.limits[1..].to_vec(), ..roofline };
        assert_eq!(readless.share(1e9, 1e9), None);
        assert_eq!(readless.share(0.0, 1e9), Some(0.5));
    }

    #[test]
    fn what_the_time_limit_left_is_said() {
        let mut cut = roofline(4e9, 2e9);
        assert_eq!(cut.left_undone(), Vec::<String>::new());
        cut.limits[1].bandwidth.settled = false;
        (cut.range_bytes, cut.range_left_bytes) = (1 << 30, 3 << 30);
        let left = cut.left_undone();
        assert_eq!(left.len(), 2);
        assert!(left[0].starts_with("3.00 of 4.00 GiB"), "{left:?}");
        assert!(left[1].contains("bandwidth at 0 % reads stopped after 0 loads"), "{left:?}");
    }

    /// A search that ended on a stalled drive was settled, and no word was said.
    #[test]
    fn a_device_whose_speed_varied_is_told() {
        let probe = |depth, bytes_per_s| Measured {
            io_bytes: 1 << 20,
            depth,
            bytes_per_s,
            ..Measured::default()
        };
        let of = |probes: &[(u32, f64)], best: (u32, f64)| {
            let mut found = roofline(4e9, 2e9).limits.remove(1);
            found.bandwidth.probes = probes.iter().map(|of| probe(of.0, of.1)).collect();
            found.bandwidth.best = probe(best.0, best.1);
            let outrun = found.bandwidth.outrun().map(|probe| probe.bytes_per_s);
            (outrun, found.disturbances().collect::<Vec<String>>())
        };
        assert_eq!(of(&[(1, 1.6e9), (2, 1.9e9)], (2, 2.0e9)), (None, vec![]));
        assert_eq!(of(&[(1, 1.6e9), (2, 1.9e9)], (2, 2.8e9)).0, Some(1.9e9), "far above");
        assert_eq!(of(&[(1, 1.6e9), (2, 1.9e9)], (1, 1.6e9)).0, Some(1.9e9), "far below");
        // Repeated, it is what the steady measurement is held against.
        assert_eq!(of(&[(1, 4e9), (2, 0.1e9), (2, 4.1e9)], (2, 4.2e9)), (None, vec![]));
        let told = of(&[(1, 1.6e9), (2, 0.8e9), (4, 0.04e9), (4, 0.08e9)], (1, 1.6e9)).1;
        assert_eq!(told.len(), 1);
        let words = "the search for bandwidth at 0 % reads did not settle: with 4 I/Os in flight \
                     the device had 5 % of its speed with 1,";
        assert!(told[0].starts_with(words), "{told:?}");
        let (steady, cut) = (Measured { steady: true, ..probe(1, 1.0) }, probe(1, 1.0));
        assert_eq!((steady.ended(), cut.ended()), ("until steady", "before the time was up"));
    }

    #[test]
    fn a_file_of_an_older_version_is_settled_and_of_reads_and_writes() {
        let mut old = serde_json::to_value(roofline(4e9, 2e9)).unwrap();
        for limit in old["limits"].as_array_mut().unwrap() {
            limit["bandwidth"].as_object_mut().unwrap().remove("settled").unwrap();
        }
        for key in ["time_limit_s", "range_left_bytes", "nvme_passthrough", "warnings"] {
            old.as_object_mut().unwrap().remove(key).unwrap();
        }
        let read: Roofline = serde_json::from_value(old).unwrap();
        assert_eq!(read, roofline(4e9, 2e9));
    }
}
