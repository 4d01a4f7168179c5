//! The kernel's counters as `iostat` printed them beside a run (text or JSON, with or without `-x`
//! and `-t`): which file belongs to which result, its reports, and what they add up to. The code
//! that reads results decides what that means for one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use ringfall_host::open_plain;
use ringfall_model::document::FileProblem;

/// Bytes of text that are read: a day of a machine with twenty drives.
const TEXT_BYTES_MAX: u64 = 512 << 20;
/// Bytes of JSON that are read, of which more is kept.
const JSON_BYTES_MAX: u64 = 32 << 20;
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Reports of one file: twelve days, one a second.
const REPORTS_MAX: usize = 1 << 20;
/// Devices that are told apart, and the length of a name.
const DEVICES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 256;
/// Rates that a device may have, in any unit: a million times what any does.
const RATES: std::ops::RangeInclusive<f64> = 0.0..=1e15;

/// Share of the busiest report's bytes from which on a report counts as a part of the run. Chosen
/// on two runs of the reference on one disk, not derived: at 0.01 other work on that disk made the
/// one 3 s longer (82 s instead of 79), at 0.02 to 0.1 they differed by 1 s at most.
const ACTIVE_SHARE: f64 = 0.05;
const DAY_S: i64 = 86_400;
/// The word that tells its files from results.
const WORD: &str = "iostat";

/// Bytes a second that are read and written.
pub type BytesPerS = [f64; 2];

/// One report: what all devices together moved in a second, in the interval before `time_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Seconds since midnight, if reports have a time.
    pub time_s: Option<i64>,
    /// Rates of all devices of the report together, bytes per second: reads, then writes.
    pub bytes_per_s: BytesPerS,
}

/// Sums of one device over all reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceSum {
    /// The first report's rates: where there are several, the means since the machine's start.
    pub first: BytesPerS,
    /// The rates of all reports, added up.
    pub sum: BytesPerS,
}

/// Sum of the reports that have a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedSum {
    /// Bytes of all devices together: reads, then writes.
    pub bytes: [f64; 2],
    /// From the first to the last interval with more than a twentieth of the busiest one's bytes,
    /// s.
    pub active_s: f64,
}

/// Mean rates of the busiest device, MB/s (10⁶ bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IostatRates {
    /// Rate of reads, MB/s.
    pub read_mb_per_s: f64,
    /// Rate of reads and writes together, MB/s.
    pub total_mb_per_s: f64,
}

/// Content of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// All reports of the file, in their order.
    pub reports: Vec<Report>,
    /// Sums of each device over all reports, by its name.
    pub devices: BTreeMap<String, DeviceSum>,
}

impl Reading {
    /// Reads a file.
    ///
    /// # Errors
    /// A sentence: it can't be read, or is JSON of something else. One without reports is empty.
    pub fn of_file(path: &Path) -> Result<Reading, String> {
        let told = |error: std::io::Error| error.to_string();
        let mut source = BufReader::new(open_plain(path).map_err(told)?);
        let is_json = source.fill_buf().map_err(told)?.trim_ascii_start().starts_with(b"{");
        if !is_json {
            return Reading::of_text(source.take(TEXT_BYTES_MAX)).map_err(told);
        }
        let mut text = Vec::new();
        source.take(JSON_BYTES_MAX + 1).read_to_end(&mut text).map_err(told)?;
        if text.len() as u64 > JSON_BYTES_MAX {
            return Err(format!(
                "it has more than {} MiB, and at most that much of iostat's JSON is read; cut it \
                 to the time of the run",
                JSON_BYTES_MAX >> 20
            ));
        }
        Reading::of_json(&String::from_utf8_lossy(&text))
    }

    /// Adds what a device moved to the newest report, which may be the first of its machine.
    fn add(&mut self, name: &str, moved: BytesPerS, is_first: bool) {
        let Some(report) = self.reports.last_mut() else { return };
        plus(&mut report.bytes_per_s, moved);
        if !self.devices.contains_key(name)
            && (self.devices.len() >= DEVICES_MAX || name.len() > NAME_BYTES_MAX)
        {
            return;
        }
        let device = self.devices.entry(name.to_owned()).or_default();
        plus(&mut device.sum, moved);
        if is_first {
            plus(&mut device.first, moved);
        }
    }

    fn of_text(mut source: impl BufRead) -> std::io::Result<Reading> {
        let mut reading = Reading::default();
        let (mut time_s, mut rows) = (None, None);
        let mut line = Vec::new();
        loop {
            line.clear();
            if source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0
                || reading.reports.len() >= REPORTS_MAX
            {
                return Ok(reading);
            }
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                // A report ends at an empty line.
                rows = None;
            } else if line.starts_with("Device") {
                rows = columns(&line);
                if rows.is_some() {
                    reading.reports.push(Report { time_s: time_s.take(), ..Report::default() });
                }
            } else if let Some(columns) = rows {
                let cells: Vec<&str> = line.split_whitespace().collect();
                if let Some(moved) = row(&cells, columns) {
                    let is_first = reading.reports.len() == 1;
                    reading.add(cells[0], moved, is_first);
                }
            } else if let Some(time) = time_of_day(&line) {
                time_s = Some(time);
            }
        }
    }

    fn of_json(text: &str) -> Result<Reading, String> {
        let page = serde_json::from_str::<Value>(text).or_else(|error| {
            // One that was killed has not closed its last brackets: what is added is what
            // `-o JSON` ends with.
            let text = text.trim_end().trim_end_matches(',');
            let mut closed = ["]}]}}", "]}]}]}}"]
                .iter()
                .filter_map(|end| serde_json::from_str(&format!("{text}{end}")).ok());
            closed.next().ok_or(error)
        });
        let page = page.map_err(|error| format!("it is not JSON from iostat ({error})"))?;
        let hosts = page.pointer("/sysstat/hosts").and_then(Value::as_array);
        let hosts = hosts.ok_or("it is not JSON from iostat (it has no list of hosts)")?;
        let mut reading = Reading::default();
        for host in hosts {
            for (place, report) in listed(host, "statistics").enumerate() {
                if reading.reports.len() >= REPORTS_MAX {
                    return Ok(reading);
                }
                let time_s = report.get("timestamp").and_then(Value::as_str).and_then(time_of_day);
                reading.reports.push(Report { time_s, ..Report::default() });
                for disk in listed(report, "disk") {
                    let name = disk.get("disk_device").and_then(Value::as_str);
                    if let (Some(name), Some(moved)) = (name, moved_by(disk)) {
                        reading.add(name, moved, place == 0);
                    }
                }
            }
        }
        Ok(reading)
    }

    /// The highest rates of one report.
    pub fn peak_bytes_per_s(&self) -> BytesPerS {
        [0, 1].map(|of| self.reports.iter().map(|r| r.bytes_per_s[of]).fold(0.0, f64::max))
    }

    /// Adds the reports up over their times; none where they have no times. The first report has no
    /// beginning: it is taken to be as long as the second, also where it is what iostat prints
    /// first, the mean since boot.
    pub fn counted(&self) -> Option<TimedSum> {
        let reports = &self.reports;
        let times: Vec<i64> = reports.iter().map(|report| report.time_s).collect::<Option<_>>()?;
        let steps: Vec<f64> =
            times.windows(2).map(|two| (two[1] - two[0]).rem_euclid(DAY_S) as f64).collect();
        let first = *steps.first()?;
        let steps = std::iter::once(first).chain(steps);
        let moved: Vec<(f64, [f64; 2])> = steps
            .zip(reports)
            .map(|(step, report)| (step, report.bytes_per_s.map(|rate| rate * step)))
            .collect();
        let busiest = reports.iter().map(|r| r.bytes_per_s.iter().sum::<f64>()).fold(0.0, f64::max);
        let is_active =
            |report: &&Report| report.bytes_per_s.iter().sum::<f64>() > busiest * ACTIVE_SHARE;
        let begin = reports.iter().position(|report| is_active(&report))?;
        let end = reports.iter().rposition(|report| is_active(&report))?;
        let active_s: f64 = moved[begin..=end].iter().map(|(step, _)| step).sum();
        let bytes = [0, 1].map(|of| moved.iter().map(|(_, bytes)| bytes[of]).sum::<f64>());
        let is_known = active_s > 0.0 && bytes.iter().all(|bytes| bytes.is_finite());
        is_known.then_some(TimedSum { bytes, active_s })
    }

    /// Means of the device that moved most; none without a device. The first of several reports is
    /// that since the machine's start, and is left out.
    pub fn rates(&self) -> Option<IostatRates> {
        let is_one_report = self.reports.len() < 2;
        let moved = self.devices.values().map(|device| match is_one_report {
            true => device.sum,
            false => [device.sum[0] - device.first[0], device.sum[1] - device.first[1]],
        });
        let [read, written] = moved.max_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1])))?;
        let reports = self.reports.len() - usize::from(!is_one_report);
        let mean = |sum: f64| sum / reports as f64 / 1e6;
        Some(IostatRates { read_mb_per_s: mean(read), total_mb_per_s: mean(read + written) })
    }
}

/// Elements of an object's list; none where it has no such list.
fn listed<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Bytes a second of a device in JSON, whichever unit it has them in.
fn moved_by(disk: &Value) -> Option<BytesPerS> {
    let rate = |key: &str| disk.get(key)?.as_f64().filter(|rate| RATES.contains(rate));
    COLUMNS.iter().find_map(|(read, write, unit_bytes)| {
        Some([rate(read)? * unit_bytes, rate(write)? * unit_bytes])
    })
}

fn plus(sum: &mut BytesPerS, moved: BytesPerS) {
    sum[0] += moved[0];
    sum[1] += moved[1];
}

/// Places of the two rates in a row, and how many bytes one of their unit has.
#[derive(Clone, Copy)]
struct Columns {
    read: usize,
    write: usize,
    unit_bytes: f64,
}

/// Units of the columns' names; sectors have 512 bytes whatever the drive's block is.
const COLUMNS: [(&str, &str, f64); 8] = [
    ("rkB/s", "wkB/s", 1024.0),
    ("rMB/s", "wMB/s", 1_048_576.0),
    ("rsec/s", "wsec/s", 512.0),
    ("kB_read/s", "kB_wrtn/s", 1024.0),
    ("MB_read/s", "MB_wrtn/s", 1_048_576.0),
    ("Blk_read/s", "Blk_wrtn/s", 512.0),
    ("rGB/s", "wGB/s", 1_073_741_824.0),
    ("rB/s", "wB/s", 1.0),
];

fn columns(header: &str) -> Option<Columns> {
    let names: Vec<&str> = header.split_whitespace().collect();
    let place = |wanted: &str| names.iter().position(|name| *name == wanted);
    COLUMNS.iter().find_map(|(read, write, unit_bytes)| {
        Some(Columns { read: place(read)?, write: place(write)?, unit_bytes: *unit_bytes })
    })
}

fn row(cells: &[&str], columns: Columns) -> Option<BytesPerS> {
    let rate = |place: usize| -> Option<f64> {
        // Some languages write a comma.
        let rate: f64 = cells.get(place)?.replace(',', ".").parse().ok()?;
        RATES.contains(&rate).then_some(rate * columns.unit_bytes)
    };
    Some([rate(columns.read)?, rate(columns.write)?])
}

/// The time of `11/22/26 05:29:07`, `… 05:29:07 PM` or `2026-11-22T05:29:07+0000`, s since
/// midnight.
fn time_of_day(line: &str) -> Option<i64> {
    let words: Vec<&str> = line.split([' ', 'T', '\t', '\n', '\r']).collect();
    let (place, word) = words.iter().enumerate().find(|(_, word)| {
        let word = word.as_bytes();
        word.len() >= 8 && word[2] == b':' && word[5] == b':'
    })?;
    let part = |from: usize| -> Option<i64> { word.get(from..from + 2)?.parse().ok() };
    let (mut hour, minute, second) = (part(0)?, part(3)?, part(6)?);
    match words.get(place + 1).map(|next| next.trim()) {
        Some("PM") if hour < 12 => hour += 12,
        Some("AM") if hour == 12 => hour = 0,
        _ => {}
    }
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some(hour * 3600 + minute * 60 + second)
}

/// Whether a file's name says that it holds iostat's output, not a result.
pub fn is_named_so(name: &str) -> bool {
    name.to_ascii_lowercase().contains(WORD)
}

/// The one of the files that lies beside the result by its name: `NAME_iostat.log`, `NAME.iostat`,
/// `iostat_NAME.txt`, or `iostat_DEVICE_BASE.txt` beside `…_BASE.json`, where BASE holds the
/// configuration, as the reference's discovery has it.
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

/// Reads the rates of a drive from a file of iostat's.
///
/// # Errors
/// It can't be read, or holds no report with the bytes that a device read and wrote.
pub fn read_rates(path: &Path) -> Result<IostatRates, FileProblem> {
    let reading = Reading::of_file(path).map_err(|what| FileProblem::new(path, what))?;
    reading.rates().ok_or_else(|| {
        let what = "it holds no report of `iostat -x` with the bytes that a device read and wrote \
                    (rkB/s and wkB/s, or rMB/s and wMB/s); give its output, or take the file away";
        FileProblem::new(path, what)
    })
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    const MB: f64 = 1_048_576.0;

    #[test]
    fn reports_are_read_with_their_times_and_devices() {
        let mut page = String::from("Linux 6.1 (h) \t11/22/26 \t_x86_64_\t(2 CPU)\n\n");
        for (time, rate) in [("11:59:59 PM", 100.0), ("12:00:01 AM", 300.0)] {
            page.push_str(&format!(
                "\n11/22/26 {time}\navg-cpu:  %user\n    1.0\n\n\
                 Device   r/s  rMB/s  w/s  wMB/s  %util\nvda  1.0  {rate}  1.0  {}  2\n\
                 loop0 0 1,00 0 0 0\n\n",
                rate / 2.0
            ));
        }
        let reading = Reading::of_text(page.as_bytes()).unwrap();
        let report = |time_s, [read, write]: [f64; 2]| Report {
            time_s,
            bytes_per_s: [read * MB, write * MB],
        };
        let expected = [report(Some(86_399), [101.0, 50.0]), report(Some(1), [301.0, 150.0])];
        assert_eq!(reading.reports, expected);
        let vda = DeviceSum { first: [100.0 * MB, 50.0 * MB], sum: [400.0 * MB, 200.0 * MB] };
        assert_eq!(reading.devices["vda"], vda);
        assert_eq!(reading.devices["loop0"].sum, [2.0 * MB, 0.0]);
    }

    #[test]
    fn a_pointer_of_git_lfs_is_named() {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
        let scratch = Scratch::new("iostat");
        let why = Reading::of_file(&scratch.file("iostat.log", pointer)).unwrap_err();
        assert!(why.contains("a Git LFS pointer"), "{why}");
    }

    #[test]
    fn text_of_older_versions_and_of_nothing_is_read() {
        let page = "Device: rrqm/s r/s rkB/s wkB/s\nsda 0 1 1024 2048\nsdb 0 1 1024 0\n\n\
                    Device: rrqm/s r/s rkB/s wkB/s\nsda 0 1 10 20\n";
        let reading = Reading::of_text(page.as_bytes()).unwrap();
        let first = Report { time_s: None, bytes_per_s: [2.0 * MB, 2.0 * MB] };
        assert_eq!((reading.reports[0], reading.reports.len()), (first, 2));
        for nothing in ["", "text", "Device foo bar\nx 1 2\n", "Device tps kB_read/s\nvda 1 2\n"] {
            assert_eq!(Reading::of_text(nothing.as_bytes()).unwrap(), Reading::default());
        }
    }

    #[test]
    fn json_is_read_also_when_iostat_was_killed() {
        let page = r#"{"sysstat":{"hosts":[{"nodename":"h","statistics":[
            {"timestamp":"11/22/2026 05:29:07 AM","disk":[
                {"disk_device":"nvme0n1","rkB/s":2048.0,"wkB/s":1024}]},
            {"timestamp":"11/22/2026 05:29:09 AM","disk":[
                {"disk_device":"nvme0n1","rkB/s":1024.0,"wkB/s":0}]}"#;
        for end in ["]}]}}", ",\n"] {
            let reading = Reading::of_json(&format!("{page}{end}")).unwrap();
            let times: Vec<Option<i64>> = reading.reports.iter().map(|r| r.time_s).collect();
            assert_eq!(times, [Some(19_747), Some(19_749)], "{end:?}");
            assert_eq!(reading.devices["nvme0n1"].sum, [3.0 * MB, MB]);
            assert_eq!(reading.devices["nvme0n1"].first, [2.0 * MB, MB]);
        }
        assert!(Reading::of_json("{\"sysstat\": 3}").unwrap_err().contains("not JSON from iostat"));
    }

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
        let counted = Reading { reports, ..Reading::default() }.counted().unwrap();
        assert_eq!(counted.bytes, [600.5 * MB, 300.25 * MB]);
        assert_eq!(counted.active_s, 3.0);
    }

    #[test]
    fn reports_without_a_time_do_not_add_up() {
        for reports in
            [vec![report(None, 1.0), report(None, 2.0)], vec![report(Some(1), 1.0)], vec![]]
        {
            assert_eq!(Reading { reports, ..Reading::default() }.counted(), None);
        }
    }

    #[test]
    fn the_rates_are_the_means_of_the_busiest_device_without_the_first_report() {
        let device = |first: f64, sum: f64| DeviceSum { first: [first, 1e6], sum: [sum, 4e6] };
        let mut reading = Reading::default();
        assert_eq!(reading.rates(), None);
        // The first report has the means since the machine's start: here those of another drive.
        reading.devices.insert("old".to_owned(), device(900e6, 910e6));
        reading.devices.insert("busy".to_owned(), device(5e6, 605e6));
        reading.reports = vec![Report::default(); 4];
        let found = reading.rates().unwrap();
        assert!((found.read_mb_per_s - 200.0).abs() < 1e-9, "{found:?}");
        assert!((found.total_mb_per_s - 201.0).abs() < 1e-9, "{found:?}");
        reading.reports.truncate(1);
        assert!((reading.rates().unwrap().read_mb_per_s - 910.0).abs() < 1e-9);
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
