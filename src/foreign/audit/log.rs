//! The times that a trial's log tells: when each rank's benchmark began, and when its results were
//! saved. Lines are read one by one; what is too long is cut.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use ringfall_host::open_plain;

/// Bytes of a log that are read: days of warnings.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a line that are kept.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Ranks of a trial.
const SAVED_MAX: usize = 100_000;
/// Bytes of a path (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;
/// The reference's words when it has begun, and when it is done.
const BEGUN: &str = "noise buffer";
const SAVED: &str = "Results saved to ";
/// Characters of `2026-07-12 18:21:12`.
const STAMP_LENGTH: usize = 19;

/// Facts read from a log; times in seconds of the clock that wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Log {
    pub(super) file: PathBuf,
    /// The first line of a beginning, and how many there are: one a rank.
    pub(super) begun: Option<i64>,
    pub(super) begun_count: u32,
    /// When each file of results was saved, by the last part of its path and the rank's directory.
    pub(super) saved: BTreeMap<String, i64>,
}

impl Log {
    /// Reads the log at `path`, which is shown as `file`.
    pub(super) fn read(path: &Path, file: PathBuf) -> Result<Log, String> {
        let source = open_plain(path).map(|source| BufReader::new(source.take(LOG_BYTES_MAX)));
        let log = source.and_then(Log::parse).map_err(|error| error.to_string())?;
        Ok(Log { file, ..log })
    }

    fn parse(mut source: impl BufRead) -> std::io::Result<Log> {
        let mut log = Log::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(log);
            }
            log.line(&String::from_utf8_lossy(&line));
        }
    }

    fn line(&mut self, line: &str) {
        if let Some((before, _)) = line.split_once(BEGUN) {
            if let Some(time) = last_time(before) {
                self.begun = Some(self.begun.map_or(time, |first| first.min(time)));
                self.begun_count = self.begun_count.saturating_add(1);
            }
        } else if let Some((before, file)) = line.split_once(SAVED)
            && let Some(time) = last_time(before)
        {
            let file = file.trim();
            if self.saved.len() < SAVED_MAX && file.len() <= PATH_BYTES_MAX {
                self.saved.insert(key(Path::new(file)), time);
            }
        }
    }

    pub(super) fn saved_at(&self, file: &Path) -> Option<i64> {
        self.saved.get(&key(file)).copied()
    }
}

/// A file by its own name and that of its directory, `rank_0/kvcache_results_x.json`: the tree was
/// copied from elsewhere since.
fn key(file: &Path) -> String {
    let name = |path: Option<&Path>| {
        let name = path.and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    format!("{}/{}", name(file.parent()), name(Some(file)))
}

/// The time of `kvcache_results_20260712_182112.json`, s: when the wrapper of the rank was started.
pub(super) fn time_of_name(file: &Path) -> Option<i64> {
    let name = file.file_stem()?.to_str()?;
    seconds(DateTime::strptime("kvcache_results_%Y%m%d_%H%M%S", name).ok()?)
}

fn last_time(text: &str) -> Option<i64> {
    text.as_bytes().windows(STAMP_LENGTH).rev().find_map(parsed)
}

fn parsed(stamp: &[u8]) -> Option<i64> {
    // Most places of a line hold no time, and this tells so faster than the parser.
    let [_, _, _, _, b'-', _, _, b'-', _, _, _, _, _, b':', _, _, b':', _, _] = stamp else {
        return None;
    };
    seconds(std::str::from_utf8(stamp).ok()?.parse().ok()?)
}

/// Seconds since 1970, if local time were UTC: only differences within one log are used.
fn seconds(time: DateTime) -> Option<i64> {
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(parsed(b"2026-07-12T00:00:01"), Some(20_646 * 86_400 + 1));
        let last = parsed(b"2024-02-29 23:59:59").unwrap();
        assert_eq!(parsed(b"2024-03-01 00:00:00"), Some(last + 1));
        assert_eq!(parsed(b"2026-13-01 00:00:00"), None);
        let of_name = |name: &str| time_of_name(Path::new(name));
        let begun = of_name("a/kvcache_results_20260712_000001.json");
        assert_eq!(begun, parsed(b"2026-07-12 00:00:01"));
        assert_eq!(of_name("a/kvcache_results_2026.json"), None);
    }

    #[test]
    fn a_log_tells_when_ranks_began_and_were_saved() {
        let text = "junk\n\
            [1,0]<stderr>:2026-07-12 18:22:43 - kv_cache.cache - INFO - Pre-generating 256MiB \
            noise buffer...\n2026-07-12 18:29:14,120 - kv_cache.cli - INFO - Results saved to \
            /r/option_1/trial_0/rank_0/kvcache_results_20260712_182112.json\nnoise buffer\n";
        let log = Log::parse(text.as_bytes()).unwrap();
        let file = Path::new("/elsewhere/rank_0/kvcache_results_20260712_182112.json");
        assert_eq!(log.saved_at(file).unwrap() - log.begun.unwrap(), 391);
        assert_eq!((log.begun_count, log.saved.len()), (1, 1));
        // The wrapper waits 90 s before it begins.
        assert_eq!(log.begun.unwrap() - time_of_name(file).unwrap(), 91);
        assert_eq!(log.saved_at(Path::new("/elsewhere/rank_1/x.json")), None);
    }

    #[test]
    fn a_pointer_of_git_lfs_is_named() {
        let scratch = Scratch::new("log");
        let path = scratch.file("a.log", "version https://git-lfs.github.com/spec/v1\noid x\n");
        let why = Log::read(&path, path.clone()).err();
        assert!(why.as_ref().is_some_and(|why| why.contains("a Git LFS pointer")), "{why:?}");
    }

    #[test]
    fn a_line_without_an_end_is_read_in_pieces() {
        let text = "x".repeat(100_000) + "\n2026-07-12 18:22:43 noise buffer";
        assert_eq!(Log::parse(text.as_bytes()).unwrap().begun_count, 1);
    }
}
