//! The drive's limits as an answer has them, and how far its speed varied while they were measured.

use anyhow::{Context as _, Result};
use ringfall_core::units::GIB;
use ringfall_model::facts::Roofline;
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
