//! What the kernel counted, as `iostat` printed it beside a run: text or JSON, with `-t` or
//! without. All devices that it lists are added up, the reading most generous to the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Bytes of text that are read: a day of a machine with twenty drives.
const TEXT_BYTES_MAX: u64 = 512 << 20;
/// Bytes of JSON that are read, of which more is kept.
const JSON_BYTES_MAX: u64 = 32 << 20;
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Reports of one file: twelve days, one a second.
const REPORTS_MAX: usize = 1 << 20;
/// Devices of which the names are kept, and the length of one.
const DEVICES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 256;
/// Share of the busiest report's bytes from which on a report counts as a part of the run. Chosen
/// on two runs of the reference on one disk, not derived: at 0.01 other work on that disk made the
/// one 3 s longer (82 s instead of 79), at 0.02 to 0.1 they differed by 1 s at most.
const ACTIVE_SHARE: f64 = 0.05;
const DAY_S: i64 = 86_400;

/// One report: what all devices together moved in a second, bytes, in the interval before `time_s`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Report {
    /// Seconds since midnight, if reports have a time.
    time_s: Option<i64>,
    bytes_per_s: [f64; 2],
}

/// What a file of reports comes to. Pairs are reads and writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Iostat {
    pub(super) file: PathBuf,
    pub(super) devices: BTreeSet<String>,
    pub(super) reports: usize,
    /// The highest rate of one report.
    pub(super) peak_bytes_per_s: [f64; 2],
    /// What reports with a time add up to.
    pub(super) counted: Option<CountedByKernel>,
}

/// What reports with a time add up to.
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
    let told = |error: std::io::Error| error.to_string();
    let mut source = BufReader::new(File::open(path).map_err(told)?);
    let is_json = source.fill_buf().map_err(told)?.trim_ascii_start().starts_with(b"{");
    let Reports { all: reports, devices } = if is_json {
        let length = std::fs::metadata(path).map_err(told)?.len();
        if length > JSON_BYTES_MAX {
            return Err(format!(
                "it has {} MiB, and at most {} MiB of iostat's JSON are read; cut it to the time \
                 of the run",
                length >> 20,
                JSON_BYTES_MAX >> 20
            ));
        }
        json(source.take(JSON_BYTES_MAX))?
    } else {
        text(source.take(TEXT_BYTES_MAX)).map_err(told)?
    };
    if reports.is_empty() {
        return Err("no report of iostat is in it (a line that begins with Device)".to_owned());
    }
    let peak = |of: usize| reports.iter().map(|r| r.bytes_per_s[of]).fold(0.0, f64::max);
    Ok(Iostat {
        file,
        devices,
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

/// What a file holds.
#[derive(Default)]
struct Reports {
    all: Vec<Report>,
    devices: BTreeSet<String>,
}

impl Reports {
    fn push(&mut self, report: Report) {
        if self.all.len() < REPORTS_MAX {
            self.all.push(report);
        }
    }
}

fn insert(devices: &mut BTreeSet<String>, name: &str) {
    if devices.len() < DEVICES_MAX && name.len() <= NAME_BYTES_MAX && !devices.contains(name) {
        devices.insert(name.to_owned());
    }
}

fn text(mut source: impl BufRead) -> std::io::Result<Reports> {
    let mut reports = Reports::default();
    let (mut time_s, mut rows) = (None, None);
    let mut line = Vec::new();
    loop {
        line.clear();
        if source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0
            || reports.all.len() >= REPORTS_MAX
        {
            return Ok(reports);
        }
        let line = String::from_utf8_lossy(&line);
        if line.trim().is_empty() {
            rows = None;
        } else if line.starts_with("Device") {
            rows = columns(&line);
            if rows.is_some() {
                reports.push(Report { time_s: time_s.take(), ..Report::default() });
            }
        } else if let (Some(columns), Some(report)) = (rows, reports.all.last_mut()) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            if let Some(moved) = row(&cells, columns) {
                insert(&mut reports.devices, cells[0]);
                report.bytes_per_s[0] += moved[0];
                report.bytes_per_s[1] += moved[1];
            }
        } else if let Some(time) = time_of_day(&line) {
            time_s = Some(time);
        }
    }
}

fn row(cells: &[&str], columns: Columns) -> Option<[f64; 2]> {
    let rate = |place: usize| -> Option<f64> {
        // Some languages write a comma.
        let rate: f64 = cells.get(place)?.replace(',', ".").parse().ok()?;
        (0.0..=1e12).contains(&rate).then_some(rate * columns.unit_bytes)
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

/// A list that is added up while it is read, and never kept.
trait Fold: Default {
    type Item: for<'de> Deserialize<'de>;

    fn add(&mut self, item: Self::Item);
}

struct Folded<T>(T);

impl<T: Fold> Default for Folded<T> {
    fn default() -> Folded<T> {
        Folded(T::default())
    }
}

impl<'de, T: Fold> Deserialize<'de> for Folded<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Folded<T>, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Fold> Visitor<'de> for List<T> {
            type Value = Folded<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Folded<T>, A::Error> {
                let mut sum = T::default();
                while let Some(item) = list.next_element()? {
                    sum.add(item);
                }
                Ok(Folded(sum))
            }
        }
        from.deserialize_seq(List(PhantomData))
    }
}

#[derive(Deserialize)]
struct Page {
    sysstat: Sysstat,
}

#[derive(Deserialize)]
struct Sysstat {
    hosts: Folded<Reports>,
}

#[derive(Deserialize)]
struct Host {
    #[serde(default)]
    statistics: Folded<Intervals>,
}

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    disk: Folded<Disks>,
}

/// The devices of a report.
#[derive(Default)]
struct Disks {
    bytes_per_s: [f64; 2],
    names: BTreeSet<String>,
}

impl Fold for Disks {
    type Item = BTreeMap<String, Value>;

    fn add(&mut self, disk: BTreeMap<String, Value>) {
        let rate = |key: &str| {
            disk.get(key).and_then(Value::as_f64).filter(|rate| (0.0..=1e12).contains(rate))
        };
        let both = COLUMNS.iter().find_map(|(read, write, unit_bytes)| {
            Some([rate(read)? * unit_bytes, rate(write)? * unit_bytes])
        });
        if let (Some(both), Some(Value::String(name))) = (both, disk.get("disk_device")) {
            insert(&mut self.names, name);
            self.bytes_per_s[0] += both[0];
            self.bytes_per_s[1] += both[1];
        }
    }
}

/// The reports of a host.
#[derive(Default)]
struct Intervals(Reports);

impl Fold for Intervals {
    type Item = Statistics;

    fn add(&mut self, statistics: Statistics) {
        let Disks { bytes_per_s, names } = statistics.disk.0;
        let time_s = statistics.timestamp.as_deref().and_then(time_of_day);
        self.0.push(Report { time_s, bytes_per_s });
        names.iter().for_each(|name| insert(&mut self.0.devices, name));
    }
}

impl Fold for Reports {
    type Item = Host;

    fn add(&mut self, host: Host) {
        let Intervals(found) = host.statistics.0;
        found.all.into_iter().for_each(|report| self.push(report));
        found.devices.iter().for_each(|name| insert(&mut self.devices, name));
    }
}

fn json(source: impl Read) -> Result<Reports, String> {
    let page: Page = serde_json::from_reader(BufReader::new(source))
        .map_err(|error| format!("it is not JSON from iostat ({error})"))?;
    Ok(page.sysstat.hosts.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1_048_576.0;

    #[test]
    fn timed_reports_add_up_over_the_time_in_which_something_moved() {
        let mut page = String::from("Linux 6.1 (h) \t11/22/26 \t_x86_64_\t(2 CPU)\n\n");
        let times = ["11:59:58 PM", "11:59:59 PM", "12:00:00 AM", "12:00:01 AM", "12:00:02 AM"];
        for (time, rate) in times.into_iter().zip([0.0, 100.0, 300.0, 200.0, 0.5]) {
            page.push_str(&format!(
                "\n11/22/26 {time}\navg-cpu:  %user\n    1.0\n\n\
                 Device   r/s  rMB/s  w/s  wMB/s  %util\nvda  1.0  {rate}  1.0  {}  2\n\
                 loop0 0 0,00 0 0 0\n\n",
                rate / 2.0
            ));
        }
        let Reports { all: reports, devices } = text(page.as_bytes()).unwrap();
        assert_eq!((reports.len(), devices.len()), (5, 2));
        let counted = counted(&reports).unwrap();
        assert_eq!(counted.bytes, [600.5 * MB, 300.25 * MB]);
        assert_eq!(counted.active_s, 3.0);
    }

    #[test]
    fn reports_without_a_time_have_a_peak_alone() {
        let page = "Device: rrqm/s r/s rkB/s wkB/s\nsda 0 1 1024 2048\nsdb 0 1 1024 0\n\n\
                    Device: rrqm/s r/s rkB/s wkB/s\nsda 0 1 10 20\n";
        let reports = text(page.as_bytes()).unwrap().all;
        assert_eq!(counted(&reports), None);
        assert_eq!(reports[0].bytes_per_s, [2.0 * MB, 2.0 * MB]);
        assert!(text(&b"Device foo bar\nx 1 2\n"[..]).unwrap().all.is_empty());
    }

    #[test]
    fn json_of_iostat_is_read_too() {
        let page = r#"{"sysstat":{"hosts":[{"nodename":"h","statistics":[
            {"timestamp":"11/22/2026 05:29:07 AM","disk":[
                {"disk_device":"nvme0n1","rkB/s":2048.0,"wkB/s":1024}]},
            {"timestamp":"11/22/2026 05:29:09 AM","disk":[
                {"disk_device":"nvme0n1","rkB/s":2048.0,"wkB/s":0}]}]}]}}"#;
        let Reports { all: reports, devices } = json(page.as_bytes()).unwrap();
        assert!(devices.contains("nvme0n1"));
        let counted = counted(&reports).unwrap();
        assert_eq!((counted.bytes, counted.active_s), ([8.0 * MB, 2.0 * MB], 4.0));
        assert!(json(&b"{\"sysstat\": 3}"[..]).is_err());
    }
}
