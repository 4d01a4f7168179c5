//! The drive's limits as an answer has them, and how far its speed varied while they were measured.

use anyhow::{Context as _, Result};
use ringfall_core::units::GIB;
use ringfall_host::survey::DeviceRates;
use ringfall_host::{Machine, lowest_devices};
use ringfall_model::facts::Roofline;
use ringfall_model::reached_throttles;
use ringfall_report::quick::QuickLimits;

/// Percentage of reads in the mix that is measured beside reads and writes alone.
pub(super) const MIXED_READ_PERCENT: u32 = 50;

/// The limits that an answer has.
///
/// # Errors
/// The search found none of one kind.
pub(super) fn limits_of(roofline: &Roofline) -> Result<QuickLimits> {
    let of = |percent: u32, what: &str| {
        let rate = roofline.bandwidth(percent);
        rate.map(|rate| rate / GIB as f64).with_context(|| format!("no limit of {what} was found"))
    };
    Ok(QuickLimits {
        read_gib_per_s: of(100, "reads")?,
        write_gib_per_s: of(0, "writes")?,
        mixed_gib_per_s: Some(of(MIXED_READ_PERCENT, "reads and writes together")?),
    })
}

/// Sentence on the limits of cgroups that were measured in place of the drive's; none where these
/// are far below them.
pub(super) fn throttled(machine: &Machine, roofline: &Roofline) -> Option<String> {
    let bytes = [100, 0].map(|percent| roofline.bandwidth(percent).unwrap_or(0.0));
    let drives = lowest_devices(&machine.device_chain);
    reached_throttles(machine, |name| {
        // Each drive of a volume has its part.
        let is_drive = drives.iter().any(|link| link.name == name);
        let parts = if is_drive { drives.len() as f64 } else { 1.0 };
        Some(DeviceRates { bytes: bytes.map(|bytes| bytes / parts), ios: None })
    })
}

/// Bandwidth of a probe that the longer measurement of a limit does not bear out.
pub(super) struct Varied {
    /// Kind of I/O, in the plural.
    what: &'static str,
    probe_gib_per_s: f64,
    limit_gib_per_s: f64,
}

impl Varied {
    /// The one that is farthest from its limit; none where the drive's speed was steady.
    pub(super) fn of(roofline: &Roofline) -> Option<Varied> {
        let varied = roofline.limits.iter().filter_map(|limit| {
            let what = match limit.read_percent {
                100 => "reads",
                0 => "writes",
                _ => "reads and writes at once",
            };
            let probe = limit.bandwidth.outrun()?;
            Some(Varied {
                what,
                probe_gib_per_s: probe.bytes_per_s / GIB as f64,
                limit_gib_per_s: limit.bandwidth.best.bytes_per_s / GIB as f64,
            })
        });
        varied.max_by(|one, other| one.deviation().total_cmp(&other.deviation()))
    }

    /// Deviation of the probe from the limit, as a share of that.
    pub(super) fn deviation(&self) -> f64 {
        (self.probe_gib_per_s / self.limit_gib_per_s - 1.0).abs()
    }

    pub(super) fn told(&self) -> String {
        format!(
            "the drive's speed varied while its limits were measured: {} had {:.2} GiB/s in a \
             short probe and {:.2} GiB/s in the longer one",
            self.what, self.probe_gib_per_s, self.limit_gib_per_s
        )
    }
}

#[cfg(test)]
mod tests {
    use ringfall_host::survey::Throttle;
    use ringfall_host::{ChainLink, DeviceFacts};
    use ringfall_model::testing::{link, roofline};

    use super::*;

    /// Limits of 18.6 GiB/s were told to be those of the figures, of a drive of 2.
    #[test]
    fn a_limit_of_a_cgroup_is_told_where_it_was_measured() {
        let throttle = |limit: &str| Throttle {
            numbers: "254:0".to_owned(),
            file: "io.max".to_owned(),
            limit: limit.to_owned(),
            is_changed: false,
        };
        let (name, numbers) = ("vda".to_owned(), "254:0".to_owned());
        let mut machine = Machine {
            device: Some(DeviceFacts { name, numbers, ..DeviceFacts::default() }),
            device_chain: vec![link("vda", "disk", None)],
            throttles: vec![throttle("rbps=1048576000"), throttle("wbps=20000000000")],
            ..Machine::default()
        };
        let told = |machine: &Machine, read| throttled(machine, &roofline(read, 1e9));
        let words = "a cgroup limits reads of vda to 1000.0 MiB/s: the figures are of that limit \
                     rather than of the drive";
        assert_eq!(told(&machine, 1.04e9).as_deref(), Some(words));
        assert_eq!(told(&machine, 0.8e9), None);
        // As for a run, it is reached from 80 % on.
        assert!(told(&machine, 0.85e9).is_some());
        machine.throttles = vec![throttle("riops=9")];
        assert!(told(&machine, 1e9).unwrap().contains("may be of that limit"));
        // A volume of two such drives reads twice as much.
        machine.throttles = vec![throttle("rbps=1048576000")];
        let numbers = "254:16".to_owned();
        machine.device_chain.push(ChainLink { numbers, ..link("vdb", "disk", None) });
        assert_eq!(told(&machine, 1.04e9), None);
        assert!(told(&machine, 2.08e9).is_some());
    }
}
