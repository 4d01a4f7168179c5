//! Reader of the kernel's counters as `iostat` printed them beside a run: text or JSON, with or
//! without `-x` and `-t`. The code that reads results decides what they mean for one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use ringfall_host::open_plain;

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

    fn push(&mut self, report: Report) {
        if self.reports.len() < REPORTS_MAX {
            self.reports.push(report);
        }
    }

    /// Adds what a device moved to the newest report.
    fn add(&mut self, name: &str, moved: BytesPerS) {
        let is_first = self.reports.len() == 1;
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
                    reading.push(Report { time_s: time_s.take(), ..Report::default() });
                }
            } else if let Some(columns) = rows {
                let cells: Vec<&str> = line.split_whitespace().collect();
                if let Some(moved) = row(&cells, columns) {
                    reading.add(cells[0], moved);
                }
            } else if let Some(time) = time_of_day(&line) {
                time_s = Some(time);
            }
        }
    }

    fn of_json(text: &str) -> Result<Reading, String> {
        let page = serde_json::from_str::<Page>(text).or_else(|error| {
            // One that was killed has not closed its last brackets: what is added is what
            // `-o JSON` ends with.
            let text = text.trim_end().trim_end_matches(',');
            let mut closed = ["]}]}}", "]}]}]}}"]
                .iter()
                .filter_map(|end| serde_json::from_str::<Page>(&format!("{text}{end}")).ok());
            closed.next().ok_or(error)
        });
        let page = page.map_err(|error| format!("it is not JSON from iostat ({error})"))?;
        Ok(page.sysstat.hosts.0)
    }
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

/// A list that is added up while it is read, and never kept.
trait Fold: Default {
    type Item: for<'de> Deserialize<'de>;

    fn add_item(&mut self, item: Self::Item);
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
                    sum.add_item(item);
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
    hosts: Folded<Reading>,
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
struct Disks(Vec<(String, BytesPerS)>);

impl Fold for Disks {
    type Item = BTreeMap<String, Value>;

    fn add_item(&mut self, disk: BTreeMap<String, Value>) {
        let rate = |key: &str| disk.get(key)?.as_f64().filter(|rate| RATES.contains(rate));
        let both = COLUMNS.iter().find_map(|(read, write, unit_bytes)| {
            Some([rate(read)? * unit_bytes, rate(write)? * unit_bytes])
        });
        if let (Some(both), Some(Value::String(name))) = (both, disk.get("disk_device")) {
            self.0.push((name.clone(), both));
        }
    }
}

/// The reports of a host.
#[derive(Default)]
struct Intervals(Reading);

impl Fold for Intervals {
    type Item = Statistics;

    fn add_item(&mut self, statistics: Statistics) {
        if self.0.reports.len() >= REPORTS_MAX {
            return;
        }
        let time_s = statistics.timestamp.as_deref().and_then(time_of_day);
        self.0.push(Report { time_s, ..Report::default() });
        for (name, moved) in statistics.disk.0.0 {
            self.0.add(&name, moved);
        }
    }
}

impl Fold for Reading {
    type Item = Host;

    fn add_item(&mut self, host: Host) {
        let Intervals(found) = host.statistics.0;
        found.reports.into_iter().for_each(|report| self.push(report));
        for (name, device) in found.devices {
            if self.devices.len() < DEVICES_MAX || self.devices.contains_key(&name) {
                let sum = self.devices.entry(name).or_default();
                plus(&mut sum.sum, device.sum);
                plus(&mut sum.first, device.first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        let path = std::env::temp_dir().join(format!("ringfall-lfs-{}.log", std::process::id()));
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
        std::fs::write(&path, pointer).unwrap();
        let why = Reading::of_file(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
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
}
