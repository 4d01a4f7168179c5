//! A device's limits as a drive for `ringfall simulate`.

use std::fmt::Write as _;

use ringfall_core::units::{MIB, gib};

use ringfall_config::compact_utc;
use ringfall_host::escape::yaml;
use ringfall_model::facts::{Best, Bursts, Limit, Measured, Roofline, Usual};

/// From this much more than what taking turns would give on, reads and writes are taken to have a
/// limit each.
const DUPLEX_GAIN: f64 = 1.05;
/// From this share on of what the slower direction leaves a mix, nothing else is taken to limit it.
const APART_SHARE: f64 = 0.9;

/// The drive in the form of `config/devices/`.
///
/// # Errors
/// A direction was not measured: which.
pub fn device_yaml(roofline: &Roofline) -> Result<String, String> {
    let limit = |percent: u32, name: &str| {
        let found = roofline.limits.iter().find(|limit| limit.read_percent == percent);
        found.ok_or_else(|| format!("{name} were not measured: leave out --read-percent"))
    };
    let (read, write) = (limit(100, "reads")?, limit(0, "writes")?);
    let device = roofline.machine.device.as_ref();
    let name = device.map_or("store", |device| device.model.as_deref().unwrap_or(&device.name));
    let mut text = format!(
        "# Written by `ringfall saturate`.\nname: {}\nsource: >-\n  Measured by ringfall {} on \
         {:.2} GiB with {} threads, {}.\n",
        yaml(name),
        roofline.version,
        gib(roofline.range_bytes),
        roofline.threads,
        // Never before 1970.
        compact_utc(roofline.unix_s.max(0.0) as u64)
    );
    let varied = [read, write].map(|limit| limit.bandwidth.outrun().zip(Some(&limit.bandwidth)));
    if let Some((probe, Best { best, .. })) = varied.into_iter().flatten().next() {
        let _infallible = writeln!(
            text,
            "doubt: >-\n  The speed of this drive varied while it was measured: a probe had {:.1} \
             MB/s, and the\n  best point {:.1} for longer, so don't expect much of predictions \
             from these numbers.",
            probe.bytes_per_s / 1e6,
            best.bytes_per_s / 1e6
        );
    }
    let mut direction = |name: &str, limit: &Limit| {
        let Latency { median_us, p99_us } = Latency::of(limit);
        let iops_from = match limit.iops {
            Some(_) => "",
            None => "  # iops: not measured, 4 KiB blocks at full bandwidth",
        };
        let _infallible = writeln!(
            text,
            "{name}: {{mb_per_s: {:.1}, iops: {:.0}, latency_us: {median_us:.1}, \
             latency_p99_us: {p99_us:.1}{}{}}}{iops_from}",
            shallow_rate(limit) / 1e6,
            iops(limit).max(1.0),
            deep(limit).map_or_else(String::new, |deep| deep.to_string()),
            burst_rate(limit),
        );
    };
    direction("read", read);
    direction("write", write);
    let mixed = Mixed::of(roofline, read, write);
    let bursts = [read, write].into_iter().find_map(|limit| limit.bandwidth.bursts());
    let burst_ms = bursts.map_or(0.0, |bursts| bursts.period_us / 1e3);
    let _infallible = write!(
        text,
        "{mixed}\
         burst_ms: {burst_ms:.0}              # how far apart the bursts begin that it works \
         in; 0: evenly\n\
         flush_us: 0              # not measured\n\
         parallel_ios: 0          # as many as are asked for\n"
    );
    Ok(text)
}

/// Bandwidth with few I/Os in flight, bytes a second: the usual one, where it was measured.
fn shallow_rate(limit: &Limit) -> f64 {
    match (limit.usual.first(), limit.usual.last()) {
        (Some(shallow), Some(_)) if deep(limit).is_some() => shallow.bytes_per_s,
        (Some(shallow), Some(deep)) => deep.bytes_per_s.max(shallow.bytes_per_s),
        _ => limit.bandwidth.best.bytes_per_s,
    }
}

/// Bandwidth with as many I/Os in flight as a run has at most, bytes a second.
fn deep_rate(limit: &Limit) -> f64 {
    match deep(limit) {
        Some(deep) => deep.usual.bytes_per_s,
        None => shallow_rate(limit),
    }
}

/// The key of a queue that is slower the deeper it is.
struct Deep {
    from_bytes: u64,
    usual: Usual,
}

/// The usual bandwidth of a deep queue where it is clearly less than that of a shallow one; more
/// is what the latency of an I/O makes of it.
fn deep(limit: &Limit) -> Option<Deep> {
    let (shallow, deep) = limit.usual.first().zip(limit.usual.last())?;
    let is_slower = deep.bytes_per_s < DEEP_SHARE * shallow.bytes_per_s;
    is_slower.then_some(Deep { from_bytes: shallow.in_flight_bytes, usual: *deep })
}

/// Share of a shallow queue's bandwidth below which a deep one has one of its own.
const DEEP_SHARE: f64 = 0.97;

impl std::fmt::Display for Deep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let (from, to) = (mib(self.from_bytes), mib(self.usual.in_flight_bytes));
        let mb_per_s = self.usual.bytes_per_s / 1e6;
        write!(f, ", deep: {{from_mib: {from:.2}, to_mib: {to:.2}, mb_per_s: {mb_per_s:.1}}}")
    }
}

/// Most I/Os a second: what was found, or what 4 KiB blocks at full bandwidth would be, which no
/// device exceeds.
fn iops(limit: &Limit) -> f64 {
    limit.iops.as_ref().map_or(limit.bandwidth.best.bytes_per_s / 4096.0, |best| best.best.iops)
}

/// Latency of an I/O besides the time that it occupies the drive.
struct Latency {
    median_us: f64,
    p99_us: f64,
}

impl Latency {
    /// The larger of what large and small I/Os leave over at the smallest depth that was tried: a
    /// bandwidth that a single large I/O fills hides the latency that each small one has.
    fn of(limit: &Limit) -> Latency {
        let small = limit.iops.as_ref().and_then(shallowest);
        let probes = small.into_iter().chain(shallowest(&limit.bandwidth));
        let largest = probes
            .map(|probe| Latency::left_over(limit, probe))
            .max_by(|one, other| one.median_us.total_cmp(&other.median_us));
        largest.unwrap_or(Latency { median_us: 0.0, p99_us: 0.0 })
    }

    /// The latency that is left over in a probe. The tail is no longer than the mean allows: a
    /// device that works in bursts has slow I/Os beside fast ones at no cost to the rate.
    fn left_over(limit: &Limit, probe: &Measured) -> Latency {
        let occupied_us =
            1e6 * (f64::from(probe.io_bytes) / shallow_rate(limit)).max(1.0 / iops(limit));
        // In a full queue the others' turns are waited for too.
        let depth = f64::from(probe.depth.max(1));
        let waited_us = occupied_us * depth;
        // Little's law.
        let mean_us = depth * f64::from(probe.io_bytes) / probe.bytes_per_s * 1e6 - waited_us;
        let median_us = (probe.latency_p50_us - waited_us).min(mean_us / MEAN_OF_MEDIAN).max(0.0);
        let tail_us = (mean_us - MEAN_OF_MEDIAN * median_us) / MEAN_OF_TAIL;
        let p99_us = (probe.latency_p99_us - waited_us).min(median_us + tail_us);
        Latency { median_us, p99_us: p99_us.max(median_us) }
    }
}

/// The probe with the smallest depth.
fn shallowest(found: &Best) -> Option<&Measured> {
    let shallow = found.probes.iter().min_by_key(|probe| (probe.depth, probe.io_bytes));
    shallow.filter(|probe| probe.bytes_per_s > 0.0)
}

/// The mean of the model's latencies is so much of the median (half of them lie evenly between 0.8
/// of it and itself) ...
const MEAN_OF_MEDIAN: f64 = 0.95;
/// ... and so much of what the 99th percentile is above it (the other half lie on a straight line
/// through it).
const MEAN_OF_TAIL: f64 = 0.5 * 0.5 * 0.5 / 0.49;

/// The key of the bandwidth within a burst; empty where the device does not work in such.
fn burst_rate(limit: &Limit) -> String {
    let told = |bursts: Bursts| format!(", burst_mb_per_s: {:.1}", bursts.bytes_per_s / 1e6);
    limit.bandwidth.bursts().map(told).unwrap_or_default()
}

/// Ways in which reads and writes at once get along.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mixed {
    /// They were not measured together.
    Unknown,
    /// They share a limit, and turning round costs this share of an I/O's time.
    Turns { penalty: f64 },
    /// They have a limit each, which add up.
    Apart,
    /// They have a limit each, and one together, bytes a second.
    Both { bytes_per_s: f64 },
}

impl Mixed {
    fn of(roofline: &Roofline, read: &Limit, write: &Limit) -> Mixed {
        let mix = roofline.limits.iter().find(|limit| (1..100).contains(&limit.read_percent));
        let Some(mix) = mix else { return Mixed::Unknown };
        let rate = deep_rate;
        let reads = f64::from(mix.read_percent) / 100.0;
        let turns = 1.0 / (reads / rate(read) + (1.0 - reads) / rate(write));
        let measured = rate(mix);
        // The slower direction holds the mix to this, however much the drive could do.
        let apart = (rate(read) / reads).min(rate(write) / (1.0 - reads));
        if measured > turns * DUPLEX_GAIN {
            let fastest = rate(read).max(rate(write));
            return match measured < apart * APART_SHARE {
                false => Mixed::Apart,
                true if measured > fastest => Mixed::Both { bytes_per_s: measured },
                // A limit together would hold back the faster direction alone.
                true => Mixed::Turns { penalty: 0.0 },
            };
        }
        // A random mix turns round so often.
        let share = 2.0 * reads * (1.0 - reads);
        Mixed::Turns { penalty: ((turns / measured - 1.0) / share).clamp(0.0, 100.0) }
    }
}

impl std::fmt::Display for Mixed {
    /// Lines of the description.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mixed::Unknown => f.write_str(
                "duplex: false            # assumed, as reads and writes were not measured \
                 together: --read-percent 100,0,50\n",
            ),
            Mixed::Turns { penalty } => write!(
                f,
                "duplex: false            # reads and writes share a limit\n\
                 mixed_penalty: {penalty:.3}     # longer by this share after one the other way\n"
            ),
            Mixed::Apart => f.write_str(
                "duplex: true             # reads and writes have a limit each, and these add up\n",
            ),
            Mixed::Both { bytes_per_s } => write!(
                f,
                "duplex: true             # reads and writes have a limit each\n\
                 both_mb_per_s: {:.1}    # and this one together\n",
                bytes_per_s / 1e6
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_config::DeviceFile;
    use ringfall_core::clock::{MICROSECOND, Nanos};
    use ringfall_core::model::DeepQueue;
    use ringfall_model::testing::roofline;

    use super::*;

    #[test]
    fn what_was_measured_reads_back_as_a_drive() {
        let mut found = roofline(4e9, 2e9);
        found.limits[0].bandwidth.probes = vec![
            Measured {
                io_bytes: 1 << 20,
                depth: 1,
                // 418 µs at a time, of which 262 are the transfer.
                bytes_per_s: (1 << 20) as f64 / 418e-6,
                latency_p50_us: 400.0,
                latency_p99_us: 490.0,
                ..Measured::default()
            },
            Measured { io_bytes: 1 << 20, depth: 64, latency_p50_us: 9e4, ..Measured::default() },
        ];
        let text = device_yaml(&found).unwrap();
        let file = DeviceFile::parse("d.yaml", &text).unwrap();
        assert_eq!((file.model.read.bytes_per_s, file.model.write.bytes_per_s), (4e9, 2e9));
        assert_eq!(file.model.read.latency / MICROSECOND, 137);
        assert_eq!(file.model.read.latency_p99 / MICROSECOND, 227);
        assert_eq!((file.model.burst_period, file.doubt), (Nanos::ZERO, None));
        // A probe was faster than the best that held.
        let mut doubtful = found.clone();
        doubtful.limits[0].bandwidth.probes[1].bytes_per_s = 9e9;
        let read_back = DeviceFile::parse("d.yaml", &device_yaml(&doubtful).unwrap()).unwrap();
        assert_eq!(read_back.model.read.bytes_per_s, 4e9);
        let doubt = read_back.doubt.unwrap();
        assert!(doubt.contains("a probe had 9000.0 MB/s, and the best point 4000.0"), "{doubt}");
        // Bursts: the same rate as at any depth, and a few wait for the next one, too few for the
        // 99th percentile where one I/O at a time is in flight.
        let mut bursts = found.clone();
        let probe = |depth: u32, latency_p99_us| Measured {
            io_bytes: 1 << 20,
            depth,
            bytes_per_s: 4e9,
            latency_p50_us: 65.5 * f64::from(depth),
            latency_p99_us,
            seconds: 0.6,
            ..Measured::default()
        };
        let deeper = [2, 4, 8, 64].map(|depth| probe(depth, 75_000.0));
        bursts.limits[0].bandwidth.probes = [&[probe(1, 300.0)], &deeper[..]].concat();
        // The speed was that of the deepest probe with bursts alone.
        bursts.limits[0].bandwidth.probes[3].latency_p50_us *= 1.2;
        // One burst more than the time has room for is no other speed.
        bursts.limits[0].bandwidth.probes[4].bytes_per_s = 4.8e9;
        assert_eq!(bursts.limits[0].bandwidth.outrun(), None);
        let model = DeviceFile::parse("d.yaml", &device_yaml(&bursts).unwrap()).unwrap().model;
        assert_eq!((model.read.latency, model.read.latency_p99), (Nanos::ZERO, Nanos::ZERO));
        assert_eq!(model.burst_period, Nanos::from_ms(107));
        assert_eq!(model.read.burst_bytes_per_s, Some(16_008.8e6));
        assert!(!file.model.is_duplex);
        let mut mixed = roofline(4e9, 2e9);
        mixed.limits.push(Limit { read_percent: 50, ..mixed.limits[0].clone() });
        let both = device_yaml(&mixed).unwrap();
        let model = DeviceFile::parse("d.yaml", &both).unwrap().model;
        // As many writes as there may be; that is no limit of reads.
        assert_eq!((model.is_duplex, model.both_bytes_per_s), (true, None));
        let mut shared = mixed.clone();
        shared.limits[1].bandwidth.best.bytes_per_s = 4e9;
        shared.limits[2].bandwidth.best.bytes_per_s = 5e9;
        let model = DeviceFile::parse("d.yaml", &device_yaml(&shared).unwrap()).unwrap().model;
        assert_eq!((model.is_duplex, model.both_bytes_per_s), (true, Some(5e9)));
        // Little more than by turns is no limit each.
        mixed.limits[2].bandwidth.best.bytes_per_s = 2.85e9;
        let turns = DeviceFile::parse("d.yaml", &device_yaml(&mixed).unwrap()).unwrap().model;
        assert_eq!((turns.is_duplex, turns.mixed_penalty), (false, 0.0));
        mixed.limits[2].bandwidth.best.bytes_per_s = 2e9;
        let slower = DeviceFile::parse("d.yaml", &device_yaml(&mixed).unwrap()).unwrap().model;
        assert!(!slower.is_duplex && (slower.mixed_penalty - 2.0 / 3.0).abs() < 1e-3);
        mixed.limits.remove(0);
        assert!(device_yaml(&mixed).unwrap_err().contains("reads"));
    }

    /// A virtual disk of which one large I/O fills the bandwidth had no latency, though a block of
    /// 4 KiB took 25 µs.
    #[test]
    fn a_drive_has_the_latency_of_its_small_ios_where_large_ones_hide_it() {
        let probe = |io_bytes, mean_us: f64, latency_p50_us, latency_p99_us| Measured {
            io_bytes,
            depth: 1,
            bytes_per_s: f64::from(io_bytes) / (mean_us * 1e-6),
            latency_p50_us,
            latency_p99_us,
            ..Measured::default()
        };
        let mut found = roofline(2.5e9, 2e9);
        found.limits[0].bandwidth.probes = vec![probe(1 << 20, 421.0, 378.0, 580.0)];
        let best = Measured { iops: 1e5, ..Measured::default() };
        let probes = vec![probe(4096, 30.0, 25.0, 46.0)];
        found.limits[0].iops = Some(Best { best, probes, ..Best::default() });
        let text = device_yaml(&found).unwrap();
        let model = DeviceFile::parse("d.yaml", &text).unwrap().model;
        // Of 25 µs, 10 are an I/O's part of 100,000 a second.
        assert_eq!(model.read.latency, Nanos::from_us(15));
        assert_eq!(model.read.latency_p99, Nanos::from_us(36));
        // Large I/Os that take longer besides their transfer have the say.
        found.limits[0].bandwidth.probes = vec![probe(1 << 20, 530.0, 520.0, 600.0)];
        let text = device_yaml(&found).unwrap();
        let model = DeviceFile::parse("d.yaml", &text).unwrap().model;
        assert_eq!(model.read.latency / MICROSECOND, 100);
    }

    #[test]
    fn a_drive_has_its_usual_bandwidth_by_depth() {
        let usual = |mib, bytes_per_s| Usual {
            in_flight_bytes: mib * MIB,
            bytes_per_s,
            ..Usual::default()
        };
        let mut found = roofline(4e9, 2e9);
        found.limits[0].usual = vec![usual(4, 3.5e9), usual(8, 2.8e9)];
        // As fast or faster: one bandwidth, and nothing of its depth.
        found.limits[1].usual = vec![usual(4, 1.6e9), usual(8, 1.7e9)];
        let mix = Limit { read_percent: 50, ..found.limits[0].clone() };
        found.limits.push(Limit { usual: vec![usual(4, 2e9), usual(8, 1.5e9)], ..mix });
        let text = device_yaml(&found).unwrap();
        let model = DeviceFile::parse("d.yaml", &text).unwrap().model;
        let deep = DeepQueue { from_bytes: 4 * MIB, to_bytes: 8 * MIB, bytes_per_s: 2.8e9 };
        assert_eq!((model.read.bytes_per_s, model.read.deep), (3.5e9, Some(deep)));
        assert_eq!((model.write.bytes_per_s, model.write.deep), (1.7e9, None));
        // Taking turns at 2.8 and 1.7 GB/s would be 2.116.
        assert!((model.mixed_penalty - 0.821).abs() < 2e-3, "{}", model.mixed_penalty);
    }
}
