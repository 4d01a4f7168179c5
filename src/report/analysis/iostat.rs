//! Counters that `iostat` took beside a run of a collection: which file belongs to which result,
//! and the rates of the drive.

use std::path::{Path, PathBuf};

use ringfall_foreign::iostat::Reading;
use ringfall_model::document::FileProblem;

/// The word that tells its files from results.
const WORD: &str = "iostat";

/// Mean rates of the busiest device, MB/s (10⁶ bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IostatRates {
    /// Rate of reads, MB/s.
    pub read_mb_per_s: f64,
    /// Rate of reads and writes together, MB/s.
    pub total_mb_per_s: f64,
}

/// Whether a file's name says that it holds iostat's output, not a result.
#[must_use]
pub fn is_named_so(name: &str) -> bool {
    name.to_ascii_lowercase().contains(WORD)
}

/// The one of the files that lies beside the result by its name: `NAME_iostat.log`, `NAME.iostat`,
/// `iostat_NAME.txt`, or `iostat_DEVICE_BASE.txt` beside `…_BASE.json`, where BASE holds the
/// configuration, as the reference's discovery has it.
#[must_use]
pub fn beside<'a>(result: &Path, files: &'a [PathBuf]) -> Option<&'a PathBuf> {
    let of = result.file_stem()?.to_str()?;
    let is_beside = |file: &&PathBuf| {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return false };
        let stem = [".json", ".txt", ".log", ".out"]
            .iter()
            .find_map(|ending| name.strip_suffix(ending))
            .unwrap_or(name);
        if let Some(before) = stem.strip_suffix(WORD) {
            return before.trim_end_matches(['_', '-', '.']) == of;
        }
        let Some(rest) = stem.strip_prefix(WORD) else { return false };
        let rest = rest.trim_start_matches(['_', '-', '.']);
        let base = rest.split_once('_').map(|(_, base)| base);
        let ends = |base: &str| {
            let before = of.strip_suffix(base);
            base.contains("_cpu") && before.is_some_and(|b| b.is_empty() || b.ends_with('_'))
        };
        rest == of || base == Some(of) || ends(rest) || base.is_some_and(ends)
    };
    files.iter().find(is_beside)
}

/// Reads a file of iostat's.
///
/// # Errors
/// It can't be read, or holds no report with the bytes that a device read and wrote.
pub fn read(path: &Path) -> Result<IostatRates, FileProblem> {
    let reading = Reading::of_file(path).map_err(|what| FileProblem::new(path, what))?;
    rates(&reading).ok_or_else(|| {
        let what = "it holds no report of `iostat -x` with the bytes that a device read and wrote \
                    (rkB/s and wkB/s, or rMB/s and wMB/s); give its output, or take the file away";
        FileProblem::new(path, what)
    })
}

/// Means of the device that moved most. The first of several reports is that since the machine's
/// start, and is left out.
fn rates(reading: &Reading) -> Option<IostatRates> {
    let is_one_report = reading.reports.len() < 2;
    let moved = reading.devices.values().map(|device| match is_one_report {
        true => device.sum,
        false => [device.sum[0] - device.first[0], device.sum[1] - device.first[1]],
    });
    let [read, written] = moved.max_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1])))?;
    let reports = reading.reports.len() - usize::from(!is_one_report);
    let mean = |sum: f64| sum / reports as f64 / 1e6;
    Some(IostatRates { read_mb_per_s: mean(read), total_mb_per_s: mean(read + written) })
}

#[cfg(test)]
mod tests {
    use ringfall_foreign::iostat::{DeviceSum, Report};

    use super::*;

    #[test]
    fn the_rates_are_the_means_of_the_busiest_device_without_the_first_report() {
        let device = |first: f64, sum: f64| DeviceSum { first: [first, 1e6], sum: [sum, 4e6] };
        let mut reading = Reading::default();
        assert_eq!(rates(&reading), None);
        // The first report has the means since the machine's start: here those of another drive.
        reading.devices.insert("old".to_owned(), device(900e6, 910e6));
        reading.devices.insert("busy".to_owned(), device(5e6, 605e6));
        reading.reports = vec![Report::default(); 4];
        let found = rates(&reading).unwrap();
        assert!((found.read_mb_per_s - 200.0).abs() < 1e-9, "{found:?}");
        assert!((found.total_mb_per_s - 201.0).abs() < 1e-9, "{found:?}");
        reading.reports.truncate(1);
        assert!((rates(&reading).unwrap().read_mb_per_s - 910.0).abs() < 1e-9);
    }

    #[test]
    fn files_belong_to_results_by_their_names() {
        let base = "llama2-7b_cpu0GB_qd0_gennone_users5";
        let of = |result: &str, file: &str| {
            let files = [PathBuf::from("d/other_iostat.log"), PathBuf::from(file)];
            beside(Path::new(result), &files) == Some(&files[1])
        };
        assert!(of("d/a.json", "d/a_iostat.log"));
        assert!(of("d/a.json", "d/a.iostat"));
        assert!(of("d/a.json", "d/a.iostat.json"));
        assert!(of("d/a_trial1.json", "d/iostat_a_trial1.txt"));
        let result = format!("d/mlperf_v3_storage_{base}.json");
        assert!(of(&result, &format!("d/iostat_nvme4n1_{base}.txt")));
        assert!(!of("d/xa_trial1.json", "d/iostat_a_trial1.txt"));
        assert!(!of(&result, &format!("d/iostat_nvme4n1_{base}0.txt")));
        assert!(!of("d/a.json", "d/a.log"));
        assert!(is_named_so("a_iostat.json") && !is_named_so("a_stat.json"));
    }
}
