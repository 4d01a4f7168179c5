//! A drive described in YAML, for `ringfall simulate`: every complaint names the key and the line.

use std::path::Path;

use ringfall_core::clock::Nanos;
use ringfall_core::drive::DRIVES_MAX;
use ringfall_core::model::{DeepQueue, DeviceModel, DirectionModel, WriteCacheModel};
use ringfall_core::units::{GIB, MIB};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::InputError;
use super::file::read_small;
use super::yaml::explain;

/// MB here are 10⁶ bytes, as on data sheets.
const MB: f64 = 1e6;
/// Copy speed of one core when the file doesn't say: about the speed of one core of a current
/// server copying between buffers that are in no cache.
const MEMORY_MB_PER_S_DEFAULT: f64 = 8_000.0;
/// Latency of an operation on host memory besides the copying.
pub const MEMORY_LATENCY: Nanos = Nanos::from_us(1);

/// Bandwidth of a GPU's link when the file doesn't say: 85 % of what PCIe 5.0 x16 carries in one
/// direction, 64 GB/s by its specification.
const GPU_LINK_MB_PER_S_DEFAULT: f64 = 55_000.0;
/// Bandwidth of a GPU's own memory when the file doesn't say: an H100's is given as 2,000 to 3,350
/// GB/s in its data sheet.
const GPU_MEMORY_MB_PER_S_DEFAULT: f64 = 2_000_000.0;
/// Fixed latency of a job on a GPU when the file doesn't say: a launch and its completion take some
/// microseconds each.
const GPU_LATENCY_US_DEFAULT: f64 = 10.0;

/// A described GPU. All GPUs of a run are alike, and share one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuModel {
    /// Its memory, bytes; none: as the run asks.
    pub capacity_bytes: Option<u64>,
    /// Bytes a second between host and GPU memory.
    pub link_bytes_per_s: f64,
    /// Bytes a second that it makes or checks in its own memory.
    pub memory_bytes_per_s: f64,
    /// Fixed latency of an operation; > 0.
    pub latency: Nanos,
}

/// A described system: its drive, and what its memory does.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFile {
    /// As the file calls it.
    pub name: String,
    /// Where the numbers are from.
    pub source: String,
    /// Why its numbers are not to be relied on, as a sentence; none: nothing is known against them.
    pub doubt: Option<String>,
    /// Performance model of the drive: latency, bandwidth, parallelism and cache.
    pub model: DeviceModel,
    /// Number of such drives.
    pub drives: u16,
    /// Bytes that one core copies a second.
    pub memory_bytes_per_s: f64,
    /// Memory and speed of each GPU of the described system.
    pub gpu: GpuModel,
}

/// A number that may be left out, with its line.
type Given = Option<Spanned<f64>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    #[serde(default)]
    source: String,
    doubt: Option<String>,
    read: DirectionText,
    write: DirectionText,
    flush_us: Given,
    parallel_ios: Given,
    mixed_penalty: Given,
    #[serde(default)]
    duplex: bool,
    both_mb_per_s: Given,
    burst_ms: Given,
    drives: Given,
    write_cache: Option<CacheText>,
    memory_mb_per_s: Given,
    #[serde(default)]
    gpu: GpuText,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GpuText {
    gib: Given,
    copy_mb_per_s: Given,
    memory_mb_per_s: Given,
    latency_us: Given,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectionText {
    mb_per_s: Spanned<f64>,
    iops: Spanned<f64>,
    latency_us: Spanned<f64>,
    latency_p99_us: Given,
    deep: Option<DeepText>,
    burst_mb_per_s: Given,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeepText {
    from_mib: Spanned<f64>,
    to_mib: Spanned<f64>,
    mb_per_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheText {
    mib: Spanned<f64>,
    mb_per_s: Spanned<f64>,
    #[serde(default)]
    volatile: bool,
}

impl DeviceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, isn't YAML, lacks a key, has an unknown one, or a value that no drive has;
    /// with the line.
    pub fn read(path: &Path) -> Result<DeviceFile, InputError> {
        let name = path.display().to_string();
        let text =
            read_small(path).map_err(|what| InputError::new(format!("--device {name}: {what}")))?;
        DeviceFile::parse(&name, &text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// As [`DeviceFile::read`].
    pub fn parse(file: &str, text: &str) -> Result<DeviceFile, InputError> {
        let all = "config/devices/ has examples with all keys";
        let parsed: Text = serde_saphyr::from_str(text)
            .map_err(|error| InputError::new(explain(file, text, &error, all)))?;
        let mut check = Check { file, wrong: None };
        let read = check.direction(&parsed.read);
        let write = check.direction(&parsed.write);
        let mut of = |key, value: &_, low, high| check.given(key, value, low, high);
        let model = DeviceModel {
            read,
            write,
            flush: time(of("flush_us", &parsed.flush_us, 0.0, US_MAX).unwrap_or(0.0)),
            mixed_penalty: of("mixed_penalty", &parsed.mixed_penalty, 0.0, 100.0).unwrap_or(0.0),
            is_duplex: parsed.duplex,
            both_bytes_per_s: of("both_mb_per_s", &parsed.both_mb_per_s, 0.001, MB_PER_S_MAX)
                .map(|rate| rate * MB),
            burst_period: time(of("burst_ms", &parsed.burst_ms, 0.0, 6e4).unwrap_or(0.0) * 1e3),
            parallel_ios: check.whole("parallel_ios", &parsed.parallel_ios, 0, 65_536).unwrap_or(0),
            write_cache: match &parsed.write_cache {
                Some(cache) => WriteCacheModel {
                    // Within 2^53.
                    bytes: (check.within("mib", &cache.mib, 0.0, 1e9) * MIB as f64) as u64,
                    bytes_per_s: check.within("mb_per_s", &cache.mb_per_s, 0.001, MB_PER_S_MAX)
                        * MB,
                    is_volatile: cache.volatile,
                },
                None => {
                    WriteCacheModel { bytes: 0, bytes_per_s: write.bytes_per_s, is_volatile: false }
                }
            },
        };
        let drives = check.whole("drives", &parsed.drives, 1, DRIVES_MAX as u32).unwrap_or(1);
        let memory = check.given("memory_mb_per_s", &parsed.memory_mb_per_s, 1.0, MB_PER_S_MAX);
        let gpu = check.gpu(&parsed.gpu);
        if let Some(wrong) = check.wrong {
            return Err(InputError::new(wrong));
        }
        if let Some(both) = parsed.both_mb_per_s.filter(|_| !parsed.duplex) {
            let line = both.referenced.line();
            return Err(InputError::new(format!(
                "{file}, line {line}: both_mb_per_s is for drives whose reads and writes have a \
                 limit each: give duplex: true, or leave it out"
            )));
        }
        if let Some(deep) = parsed.write.deep.as_ref().filter(|_| model.write_cache.bytes > 0) {
            let line = deep.from_mib.referenced.line();
            return Err(InputError::new(format!(
                "{file}, line {line}: deep: a write cache has one bandwidth at any depth: leave \
                 out deep of write, or write_cache"
            )));
        }
        model.check().map_err(|what| InputError::new(format!("{file}: {what}")))?;
        // A terminal would obey them.
        let shown = |text: String| text.replace(|c: char| c.is_control(), " ").trim().to_owned();
        Ok(DeviceFile {
            name: shown(parsed.name),
            source: shown(parsed.source),
            doubt: parsed.doubt.map(shown).filter(|doubt| !doubt.is_empty()),
            model,
            drives: drives as u16,
            memory_bytes_per_s: memory.unwrap_or(MEMORY_MB_PER_S_DEFAULT) * MB,
            gpu,
        })
    }
}

/// An hour.
const US_MAX: f64 = 3.6e9;
/// A petabyte a second.
const MB_PER_S_MAX: f64 = 1e9;

fn time(us: f64) -> Nanos {
    // Within bounds: at most an hour.
    Nanos::from_ns_f64(us * 1e3)
}

struct Check<'a> {
    file: &'a str,
    wrong: Option<String>,
}

impl Check<'_> {
    /// Notes the first value out of bounds.
    fn within(&mut self, key: &str, value: &Spanned<f64>, low: f64, high: f64) -> f64 {
        let line = value.referenced.line();
        if !(low..=high).contains(&value.value) {
            let what = format!(
                "{}, line {line}: {key}: {} is out of bounds: {low} to {high}",
                self.file, value.value
            );
            self.wrong.get_or_insert(what);
            return low;
        }
        value.value
    }

    /// The same for a value that may be left out.
    fn given(&mut self, key: &str, value: &Given, low: f64, high: f64) -> Option<f64> {
        value.as_ref().map(|value| self.within(key, value, low, high))
    }

    /// The same for a number of things.
    fn whole(&mut self, key: &str, value: &Given, low: u32, high: u32) -> Option<u32> {
        let value = value.as_ref()?;
        if value.value.fract() != 0.0 {
            let (file, line) = (self.file, value.referenced.line());
            let what = format!("{file}, line {line}: {key}: {} is not a whole number", value.value);
            self.wrong.get_or_insert(what);
        }
        // In bounds, or an error by now.
        Some(self.within(key, value, f64::from(low), f64::from(high)) as u32)
    }

    fn gpu(&mut self, text: &GpuText) -> GpuModel {
        let mut given = |key, value: &_, low, high| self.given(key, value, low, high);
        // Within 2^53.
        let capacity = given("gib", &text.gib, 0.0, 65_536.0).map(|gib| (gib * GIB as f64) as u64);
        let link = given("copy_mb_per_s", &text.copy_mb_per_s, 1.0, MB_PER_S_MAX);
        let memory = given("memory_mb_per_s", &text.memory_mb_per_s, 1.0, MB_PER_S_MAX);
        let latency = given("latency_us", &text.latency_us, 0.001, US_MAX);
        GpuModel {
            capacity_bytes: capacity,
            link_bytes_per_s: link.unwrap_or(GPU_LINK_MB_PER_S_DEFAULT) * MB,
            memory_bytes_per_s: memory.unwrap_or(GPU_MEMORY_MB_PER_S_DEFAULT) * MB,
            latency: time(latency.unwrap_or(GPU_LATENCY_US_DEFAULT)),
        }
    }

    fn direction(&mut self, text: &DirectionText) -> DirectionModel {
        let median = self.within("latency_us", &text.latency_us, 0.0, US_MAX);
        let tail = self.given("latency_p99_us", &text.latency_p99_us, median, US_MAX);
        DirectionModel {
            bytes_per_s: self.within("mb_per_s", &text.mb_per_s, 0.001, MB_PER_S_MAX) * MB,
            ios_per_s: self.within("iops", &text.iops, 1.0, 1e12),
            latency: time(median),
            latency_p99: time(tail.unwrap_or(median)),
            deep: text.deep.as_ref().map(|deep| self.deep(deep)),
            burst_bytes_per_s: self
                .given("burst_mb_per_s", &text.burst_mb_per_s, text.mb_per_s.value, MB_PER_S_MAX)
                .map(|rate| rate * MB),
        }
    }

    fn deep(&mut self, text: &DeepText) -> DeepQueue {
        // Within 2^53.
        let mut bytes = |key, mib| (self.within(key, mib, 0.0, 1e6) * MIB as f64) as u64;
        let from_bytes = bytes("from_mib", &text.from_mib);
        let to_bytes = bytes("to_mib", &text.to_mib);
        if from_bytes >= to_bytes {
            let what = format!(
                "{}, line {}: to_mib: {} is to be more than from_mib, {}",
                self.file,
                text.to_mib.referenced.line(),
                text.to_mib.value,
                text.from_mib.value
            );
            self.wrong.get_or_insert(what);
        }
        DeepQueue {
            from_bytes,
            to_bytes,
            bytes_per_s: self.within("mb_per_s", &text.mb_per_s, 0.001, MB_PER_S_MAX) * MB,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
name: a drive
read: {mb_per_s: 3000, iops: 500000, latency_us: 80, latency_p99_us: 200, burst_mb_per_s: 8000}
write:
  mb_per_s: 1000
  iops: 100000
  latency_us: 20
flush_us: 500
parallel_ios: 128
mixed_penalty: 0.1
write_cache: {mib: 64, mb_per_s: 2000, volatile: true}
memory_mb_per_s: 5000
gpu:
  gib: 80
  copy_mb_per_s: 50000
  latency_us: 8
";

    const WRITE: &str = "write: {mb_per_s: 1000, iops: 9000, latency_us: 20}\n";

    #[test]
    fn a_drive_is_what_its_file_says() {
        let file = DeviceFile::parse("d.yaml", GOOD).unwrap();
        assert_eq!(file.name, "a drive");
        let read = file.model.read;
        assert_eq!((read.bytes_per_s, read.ios_per_s), (3e9, 500_000.0));
        let bursts = [read, file.model.write].map(|direction| direction.burst_bytes_per_s);
        assert_eq!(bursts, [Some(8e9), None]);
        let us = Nanos::from_us;
        assert_eq!((read.latency, read.latency_p99), (us(80), us(200)));
        assert_eq!(file.model.write.latency_p99, us(20));
        assert_eq!((file.model.flush, file.model.parallel_ios), (us(500), 128));
        let cache = WriteCacheModel { bytes: 64 * MIB, bytes_per_s: 2e9, is_volatile: true };
        assert_eq!(file.model.write_cache, cache);
        assert_eq!(file.memory_bytes_per_s, 5e9);
        let gpu = GpuModel {
            capacity_bytes: Some(80 * GIB),
            link_bytes_per_s: 5e10,
            memory_bytes_per_s: 2e12,
            latency: us(8),
        };
        assert_eq!(file.gpu, gpu);
        let short: String = GOOD.lines().take(6).map(|line| format!("{line}\n")).collect();
        let file = DeviceFile::parse("d.yaml", &short).unwrap();
        assert_eq!((file.model.write_cache.bytes, file.model.mixed_penalty), (0, 0.0));
        assert_eq!(file.memory_bytes_per_s, 8e9);
        assert_eq!((file.gpu.capacity_bytes, file.gpu.link_bytes_per_s), (None, 5.5e10));
        assert_eq!((file.model.is_duplex, file.model.both_bytes_per_s), (false, None));
        let both = format!("{short}duplex: true\nboth_mb_per_s: 1500\n");
        let file = DeviceFile::parse("d.yaml", &both).unwrap();
        assert_eq!((file.model.is_duplex, file.model.both_bytes_per_s), (true, Some(1.5e9)));
        let slow = "latency_us: 20, deep: {from_mib: 4, to_mib: 8, mb_per_s: 900}}";
        let deep = format!("name: a drive\nread: {{mb_per_s: 1000, iops: 9000, {slow}\n{WRITE}");
        let file = DeviceFile::parse("d.yaml", &deep).unwrap();
        let expected = DeepQueue { from_bytes: 4 * MIB, to_bytes: 8 * MIB, bytes_per_s: 9e8 };
        assert_eq!((file.model.read.deep, file.model.write.deep), (Some(expected), None));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (from, to, line, word) in [
            ("mb_per_s: 1000", "mb_per_s: 0", 4, "mb_per_s: 0 is out of bounds"),
            ("mb_per_s: 1000", "mb_per_s: .nan", 4, "mb_per_s: NaN is out of bounds"),
            ("iops: 100000", "iops: many", 5, "iops"),
            ("latency_us: 20", "latencies: 20", 6, "did you mean \"latency_us\""),
            ("latency_p99_us: 200", "latency_p99_us: 2", 2, "out of bounds: 80"),
            ("parallel_ios: 128", "parallel_ios: -1", 8, "parallel_ios"),
            (
                "parallel_ios: 128",
                "parallel_ios: 0.5",
                8,
                "parallel_ios: 0.5 is not a whole number",
            ),
            ("flush_us: 500", "flush_us: 1e30", 7, "flush_us"),
            ("flush_us: 500", "both_mb_per_s: 900", 7, "give duplex: true"),
            ("burst_mb_per_s: 8000", "burst_mb_per_s: 2000", 2, "2000 is out of bounds: 3000"),
            ("gib: 80", "gib: -1", 13, "gib: -1 is out of bounds"),
            ("copy_mb_per_s: 50000", "copy: 1", 14, "copy_mb_per_s"),
            ("latency_us: 8\n", "latency_us: 0\n", 15, "latency_us: 0 is out of bounds"),
            ("name: a drive", "name: [a", 1, "d.yaml"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = DeviceFile::parse("d.yaml", &GOOD.replace(from, to)).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(word), "{error}");
            assert!(word == "d.yaml" || error.contains(&format!("line {line}")), "{error}");
        }
        for text in ["", "name: x", "[]", "\u{0}", "name: &a [*a]"] {
            let error = DeviceFile::parse("d.yaml", text).unwrap_err().to_string();
            assert!(error.contains("d.yaml"), "{error}");
        }
    }

    /// Errors about `deep` named the file alone.
    #[test]
    fn what_is_wrong_with_a_deep_queue_is_named_with_its_line() {
        let deep = "  deep:\n    from_mib: 4\n    to_mib: 8\n    mb_per_s: 900\n";
        let with_deep = GOOD.replace("  latency_us: 20\n", &format!("  latency_us: 20\n{deep}"));
        let alone =
            with_deep.replace("write_cache: {mib: 64, mb_per_s: 2000, volatile: true}\n", "");
        assert!(DeviceFile::parse("d.yaml", &alone).is_ok());
        for (text, told) in [
            (
                with_deep.clone(),
                "d.yaml, line 8: deep: a write cache has one bandwidth at any depth: leave out \
                 deep of write, or write_cache",
            ),
            (
                alone.replace("to_mib: 8", "to_mib: 2"),
                "d.yaml, line 9: to_mib: 2 is to be more than from_mib, 4",
            ),
            (
                alone.replace("mb_per_s: 900", "mb_per_s: 0"),
                "d.yaml, line 10: mb_per_s: 0 is out of bounds: 0.001 to 1000000000",
            ),
        ] {
            assert_eq!(DeviceFile::parse("d.yaml", &text).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn the_drives_that_come_with_the_program_are_valid() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/devices");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let file = DeviceFile::read(&entry.unwrap().path()).unwrap();
            assert!(!file.source.is_empty(), "{}: where are its numbers from?", file.name);
            names.push((file.model.read.bytes_per_s, file.name));
        }
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(names.len() >= 2, "{names:?}");
    }
}
