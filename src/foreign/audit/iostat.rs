//! Kernel counters, as `iostat` printed them beside a run, compared with a result. All devices that
//! it lists are added up, the reading most generous to the result.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::iostat::{Reading, Report};

/// Share of the busiest report's bytes from which on a report counts as a part of the run. Chosen
/// on two runs of the reference on one disk, not derived: at 0.01 other work on that disk made the
/// one 3 s longer (82 s instead of 79), at 0.02 to 0.1 they differed by 1 s at most.
const ACTIVE_SHARE: f64 = 0.05;
const DAY_S: i64 = 86_400;

/// Figures from a file of reports. Pairs are reads and writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Iostat {
    pub(super) file: PathBuf,
    pub(super) devices: BTreeSet<String>,
    pub(super) reports: usize,
    /// The highest rate of one report.
    pub(super) peak_bytes_per_s: [f64; 2],
    /// Sum of the reports that have a time.
    pub(super) counted: Option<CountedByKernel>,
}

/// Sum of the reports that have a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountedByKernel {
    pub(super) bytes: [f64; 2],
    /// From the first to the last interval with more than a twentieth of the busiest one's bytes,
    /// s.
    pub(super) active_s: f64,
}

/// Reads the file at `path`, which is shown as `file`.
///
/// # Errors
/// A sentence: it can't be read, or holds no report.
pub(super) fn read_iostat(path: &Path, file: PathBuf) -> Result<Iostat, String> {
    let Reading { reports, devices } = Reading::of_file(path)?;
    if reports.is_empty() {
        return Err("no report of iostat is in it (a line that begins with Device)".to_owned());
    }
    let peak = |of: usize| reports.iter().map(|r| r.bytes_per_s[of]).fold(0.0, f64::max);
    Ok(Iostat {
        file,
        devices: devices.into_keys().collect(),
        reports: reports.len(),
        peak_bytes_per_s: [peak(0), peak(1)],
        counted: counted(&reports),
    })
}

/// Adds reports up over their times. The first has no beginning: it is taken to be as long as the
/// second, also where it is what iostat prints first, the mean since boot.
fn counted(reports: &[Report]) -> Option<CountedByKernel> {
    let times: Vec<i64> = reports.iter().map(|report| report.time_s).collect::<Option<_>>()?;
    let steps: Vec<f64> =
        times.windows(2).map(|two| (two[1] - two[0]).rem_euclid(DAY_S) as f64).collect();
    let first = *steps.first()?;
    let steps = std::iter::once(first).chain(steps);
    let moved: Vec<(f64, [f64; 2])> = steps
        .zip(reports)
        .map(|(step, report)| (step, report.bytes_per_s.map(|rate| rate * step)))
        .collect();
    let total = |of: usize| moved.iter().map(|(_, bytes)| bytes[of]).sum();
    let busiest = reports.iter().map(|r| r.bytes_per_s.iter().sum::<f64>()).fold(0.0, f64::max);
    let is_active =
        |report: &&Report| report.bytes_per_s.iter().sum::<f64>() > busiest * ACTIVE_SHARE;
    let begin = reports.iter().position(|report| is_active(&report))?;
    let end = reports.iter().rposition(|report| is_active(&report))?;
    let active_s: f64 = moved[begin..=end].iter().map(|(step, _)| step).sum();
    let bytes: [f64; 2] = [total(0), total(1)];
    let is_known = active_s > 0.0 && bytes.iter().all(|bytes| bytes.is_finite());
    is_known.then_some(CountedByKernel { bytes, active_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1_048_576.0;

    fn report(time_s: Option<i64>, rate: f64) -> Report {
        Report { time_s, bytes_per_s: [rate * MB, rate / 2.0 * MB] }
    }

    #[test]
    fn timed_reports_add_up_over_the_time_in_which_something_moved() {
        // Over midnight.
        let times = [86_398, 86_399, 0, 1, 2];
        let rates = [0.0, 100.0, 300.0, 200.0, 0.5];
        let reports: Vec<Report> =
            times.iter().zip(rates).map(|(time, rate)| report(Some(*time), rate)).collect();
        let counted = counted(&reports).unwrap();
        assert_eq!(counted.bytes, [600.5 * MB, 300.25 * MB]);
        assert_eq!(counted.active_s, 3.0);
    }

    #[test]
    fn reports_without_a_time_do_not_add_up() {
        assert_eq!(counted(&[report(None, 1.0), report(None, 2.0)]), None);
        assert_eq!(counted(&[report(Some(1), 1.0)]), None);
        assert_eq!(counted(&[]), None);
    }
}
