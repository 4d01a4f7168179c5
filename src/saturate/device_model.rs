//! A device's limits as a drive for `ringfall simulate`.

use std::fmt::Write as _;

use super::{Limit, Measured, Roofline};

/// From this much more than what taking turns would give on, reads and writes are taken not to share
/// a limit.
const DUPLEX_GAIN: f64 = 1.15;

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
        "# Written by `ringfall saturate`.\nname: {}\nsource: >-\n  Measured by ringfall {} on {} \
         GiB with {} threads, {} s since 1970.\n",
        quoted(name),
        roofline.version,
        roofline.range_bytes >> 30,
        roofline.threads,
        roofline.unix_s.round()
    );
    let mut direction = |name: &str, limit: &Limit| {
        let best = &limit.bandwidth.best;
        let (median_us, p99_us) = latency_us(limit);
        let _infallible = writeln!(
            text,
            "{name}: {{mb_per_s: {:.1}, iops: {:.0}, latency_us: {median_us:.1}, \
             latency_p99_us: {p99_us:.1}}}",
            best.bytes_per_s / 1e6,
            iops(limit).max(1.0),
        );
    };
    direction("read", read);
    direction("write", write);
    let (is_duplex, penalty) = mixed(roofline, read, write);
    let _infallible = write!(
        text,
        "duplex: {is_duplex}             # whether reads and writes have limits of their own\n\
         mixed_penalty: {penalty:.3}     # from a mix measured with --read-percent 100,0,50\n\
         flush_us: 0              # not measured\n\
         parallel_ios: 0          # as many as are asked for\n"
    );
    Ok(text)
}

/// As YAML has it within one line.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", plain.trim().replace('\'', "''"))
}

/// Most I/Os a second: what was found, or at least what blocks at full bandwidth would be.
fn iops(limit: &Limit) -> f64 {
    limit.iops.as_ref().map_or(limit.bandwidth.best.bytes_per_s / 4096.0, |best| best.best.iops)
}

/// What an I/O takes besides the time that it occupies the drive: what was left of it at the smallest
/// depth that was tried.
fn latency_us(limit: &Limit) -> (f64, f64) {
    let probes = limit.bandwidth.probes.iter();
    let shallow = probes.min_by_key(|probe| (probe.depth, probe.io_bytes));
    let Some(probe) = shallow else { return (0.0, 0.0) };
    let occupied_us =
        1e6 * (f64::from(probe.io_bytes) / limit.bandwidth.best.bytes_per_s).max(1.0 / iops(limit));
    // In a full queue the others' turns are waited for too.
    let waited_us = occupied_us * f64::from(probe.depth.max(1));
    let median = (probe.latency_p50_us - waited_us).max(0.0);
    (median, (probe.latency_p99_us - waited_us).max(median))
}

/// Whether the directions share a limit, and what turning round costs.
fn mixed(roofline: &Roofline, read: &Limit, write: &Limit) -> (bool, f64) {
    let mix = roofline.limits.iter().find(|limit| (1..100).contains(&limit.read_percent));
    let Some(mix) = mix else { return (false, 0.0) };
    let rate = |measured: &Measured| measured.bytes_per_s;
    let reads = f64::from(mix.read_percent) / 100.0;
    let turns =
        1.0 / (reads / rate(&read.bandwidth.best) + (1.0 - reads) / rate(&write.bandwidth.best));
    let measured = rate(&mix.bandwidth.best);
    if measured > turns * DUPLEX_GAIN {
        return (true, 0.0);
    }
    // A random mix turns round so often.
    let share = 2.0 * reads * (1.0 - reads);
    (false, ((turns / measured - 1.0) / share).clamp(0.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceFile;
    use crate::saturate::roofline::tests::roofline;

    #[test]
    fn what_was_measured_reads_back_as_a_drive() {
        let mut found = roofline(4e9, 2e9);
        found.limits[0].bandwidth.probes = vec![
            Measured {
                io_bytes: 1 << 20,
                depth: 1,
                latency_p50_us: 400.0,
                latency_p99_us: 700.0,
                ..Measured::default()
            },
            Measured { io_bytes: 1 << 20, depth: 64, latency_p50_us: 9e4, ..Measured::default() },
        ];
        let text = device_yaml(&found).unwrap();
        let file = DeviceFile::parse("d.yaml", &text).unwrap();
        assert_eq!((file.model.read.bytes_per_s, file.model.write.bytes_per_s), (4e9, 2e9));
        // 400 µs, of which 262 are the transfer.
        assert_eq!(file.model.read.latency_ns / 1_000, 137);
        assert_eq!(file.model.read.latency_p99_ns / 1_000, 437);
        assert!(!file.model.is_duplex);
        let mut mixed = roofline(4e9, 2e9);
        mixed.limits.push(Limit { read_percent: 50, ..mixed.limits[0].clone() });
        let both = device_yaml(&mixed).unwrap();
        assert!(DeviceFile::parse("d.yaml", &both).unwrap().model.is_duplex);
        mixed.limits[2].bandwidth.best.bytes_per_s = 2e9;
        let slower = DeviceFile::parse("d.yaml", &device_yaml(&mixed).unwrap()).unwrap().model;
        assert!(!slower.is_duplex && (slower.mixed_penalty - 2.0 / 3.0).abs() < 1e-3);
        mixed.limits.remove(0);
        assert!(device_yaml(&mixed).unwrap_err().contains("reads"));
        assert_eq!(quoted("a'b\n"), "'a''b'");
    }
}
