//! What `iostat -x` counted beside a run, from its text or its JSON (`-o JSON`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::results::document::{FileProblem, read_bytes};

/// Bytes of iostat's kB and MB, which are KiB and MiB.
const UNITS: [(&str, f64); 2] = [("kB/s", 1024.0), ("MB/s", 1_048_576.0)];
/// What a device may have moved, in either unit: a million times what any does.
const RATES: std::ops::RangeInclusive<f64> = 0.0..=1e15;
/// The word that tells its files from results.
const WORD: &str = "iostat";

/// Mean rates of the busiest device, MB/s (10⁶ bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IostatRates {
    /// Read.
    pub read_mb_per_s: f64,
    /// Read and written.
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
    let bytes = read_bytes(path).map_err(|what| FileProblem::new(path, what))?;
    let text = String::from_utf8_lossy(&bytes);
    let reports = match text.trim_start().starts_with('{') {
        true => of_json(&text),
        false => of_text(&text),
    };
    rates(&reports).ok_or_else(|| {
        let what = "it holds no report of `iostat -x` with the bytes that a device read and wrote \
                    (rkB/s and wkB/s, or rMB/s and wMB/s); give its output, or take the file away";
        FileProblem::new(path, what)
    })
}

/// One report: bytes a second that each device read and wrote.
type Report = BTreeMap<String, [f64; 2]>;

fn of_text(text: &str) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    let mut columns: Option<[(usize, f64); 2]> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else {
            // A report ends at an empty line.
            columns = None;
            continue;
        };
        if first.trim_end_matches(':') == "Device" {
            let find = |direction: &str| {
                let place = |(unit, bytes): &(&str, f64)| {
                    let title = format!("{direction}{unit}");
                    Some((words.iter().position(|word| *word == title)?, *bytes))
                };
                UNITS.iter().find_map(place)
            };
            columns = find("r").zip(find("w")).map(|(read, written)| [read, written]);
            reports.extend(columns.map(|_| Report::new()));
            continue;
        }
        let Some((columns, report)) = columns.zip(reports.last_mut()) else { continue };
        let value = |(place, bytes): (usize, f64)| {
            // Some languages write a comma before the decimals.
            let number: f64 = words.get(place)?.replace(',', ".").parse().ok()?;
            RATES.contains(&number).then_some(number * bytes)
        };
        if let Some((read, written)) = value(columns[0]).zip(value(columns[1])) {
            report.insert((*first).to_owned(), [read, written]);
        }
    }
    reports
}

fn of_json(text: &str) -> Vec<Report> {
    // One that was killed has not closed its last brackets: what follows is what `-o JSON` ends
    // with.
    let whole = || serde_json::from_str(text).ok();
    let cut = || {
        let text = text.trim_end().trim_end_matches(',');
        ["]}]}}", "]}]}]}}"]
            .iter()
            .find_map(|end| serde_json::from_str::<Value>(&format!("{text}{end}")).ok())
    };
    let Some(document): Option<Value> = whole().or_else(cut) else { return Vec::new() };
    let hosts = document.pointer("/sysstat/hosts").and_then(Value::as_array);
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned();
    let reports = hosts.into_iter().flatten().filter_map(|host| list(host, "statistics")).flatten();
    let report = |report: Value| {
        let disks = list(&report, "disk").into_iter().flatten().filter_map(|disk| {
            let of = |direction: &str| {
                let value = |(unit, bytes): &(&str, f64)| {
                    let number = disk.get(format!("{direction}{unit}"))?.as_f64()?;
                    RATES.contains(&number).then_some(number * bytes)
                };
                UNITS.iter().find_map(value)
            };
            Some((disk.get("disk_device")?.as_str()?.to_owned(), [of("r")?, of("w")?]))
        });
        disks.collect()
    };
    reports.map(report).collect()
}

/// Means of the device that moved most. The first of several reports is that since the machine's
/// start, and is left out.
fn rates(reports: &[Report]) -> Option<IostatRates> {
    let reports = if reports.len() > 1 { &reports[1..] } else { reports };
    let mut sums: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for (device, [read, written]) in reports.iter().flatten() {
        let sum = sums.entry(device).or_default();
        *sum = [sum[0] + read, sum[1] + written];
    }
    let busiest = sums.values().max_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1])))?;
    let mean = |sum: f64| sum / reports.len() as f64 / 1e6;
    Some(IostatRates {
        read_mb_per_s: mean(busiest[0]),
        total_mb_per_s: mean(busiest[0] + busiest[1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Linux 6.1.0 (host) \t01/09/2026 \t_x86_64_\t(64 CPU)\n\n\
        avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           \
        1,00    0,00    1,00    0,00    0,00   98,00\n\n\
        Device            r/s     rMB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wMB/s\n\
        nvme4n1          9.00      999.00     0.00   0.00    0.5   128.0     9.00    999.00\n\n\
        Device            r/s     rMB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wMB/s\n\
        nvme4n1          9.00      100.00     0.00   0.00    0.5   128.0     9.00     50.00\n\
        nvme0n1          9.00        1.00     0.00   0.00    0.5   128.0     9.00      2.00\n\n\
        Device            r/s     rMB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wMB/s\n\
        nvme4n1          9.00      300,00     0.00   0.00    0.5   128.0     9.00     50.00\n\
        nvme0n1          9.00        1.00     0.00   0.00    0.5   12";

    #[test]
    fn the_mean_of_the_busiest_device_is_read_from_text_and_from_json() {
        let rates = rates(&of_text(TEXT)).unwrap();
        assert!((rates.read_mb_per_s - 200.0 * 1.048_576).abs() < 1e-9, "{rates:?}");
        assert!((rates.total_mb_per_s - 250.0 * 1.048_576).abs() < 1e-9, "{rates:?}");

        let disk = |read: u32| {
            format!(
                "{{\"disk\": [{{\"disk_device\": \"vda\", \"r/s\": 1.0, \"rkB/s\": {read}.0, \
                 \"wkB/s\": 1000.0}}]}}"
            )
        };
        let head = "{\"sysstat\": {\"hosts\": [{\"nodename\": \"h\", \"statistics\": [";
        let open = format!("{head}{},{},{}", disk(9), disk(2000), disk(4000));
        for text in [format!("{open}]}}]}}}}"), format!("{open},\n")] {
            let rates = super::rates(&of_json(&text)).unwrap();
            assert!((rates.read_mb_per_s - 3.072).abs() < 1e-9, "{rates:?}");
            assert!((rates.total_mb_per_s - 4.096).abs() < 1e-9, "{rates:?}");
        }
        for nothing in ["", "{}", "{\"sysstat\": 3}", "Device tps kB_read/s\nvda 1 2\n", "text"] {
            let reports =
                if nothing.starts_with('{') { of_json(nothing) } else { of_text(nothing) };
            assert_eq!(super::rates(&reports), None, "{nothing}");
        }
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
