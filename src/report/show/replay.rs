//! An engine's recorded calls on files beside those that a replay made.

use ringfall_host::counted;
use ringfall_model::facts::{ReplayLatency, ReplayedOperations};
use serde::Serialize;

use super::GIB;
use super::prose::wrapped;
use super::table::{Table, digits};

/// Version of the form of [`ReplayReport`].
pub const REPLAY_VERSION: u32 = 1;
/// Share of the time in calls, recorded or here, from which on a kind is named in the verdict.
const NAMED_SHARE: f64 = 0.05;

/// A recording of an engine's calls that was replayed on a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ReplayReport {
    /// 1; also tells such a file from others.
    pub ringfall_layout_replay: u32,
    /// Version of ringfall that replayed.
    pub version: &'static str,
    /// Directory on the drive.
    pub place: String,
    /// Name and model of the drive; null where there is none below the directory.
    pub drive: Option<String>,
    /// Type of the file system.
    pub file_system: Option<String>,
    /// File with the recording.
    pub recording: String,
    /// Directory of the recording whose files were replayed.
    pub below: String,
    /// Number of threads that replayed: of the recording, as many as were at work at a time.
    pub lanes: u64,
    /// Number of files that the recording found, and that were made before.
    pub files_before: u64,
    /// Size of these, GiB, as far as they were read.
    pub gib_before: f64,
    /// Factor by which gaps between calls were shorter; null where there were none.
    pub speed: Option<f64>,
    /// Minimum latency that each operation was made to take; null where there was none.
    pub injected: Option<InjectedLatency>,
    /// Time from the first recorded call to the end of the last, s.
    pub recorded_s: f64,
    /// The same of the replay, s.
    pub replayed_s: f64,
    /// Operations that ended as they had in the recording, by kind.
    pub operations: Vec<ReplayedOperations>,
    /// Number of operations that ended otherwise, which are in no other figure.
    pub differing: u64,
    /// Sentence about one of these; null where there are none.
    pub first_differing: Option<String>,
    /// Calls on these files that were not replayed.
    pub not_replayed: Vec<NotReplayed>,
    /// Number of recorded calls on other files.
    pub elsewhere: u64,
    /// Number of recorded calls without a known path, or without an end.
    pub untold: u64,
    /// Number of lines of the recording that could not be read.
    pub unread_lines: u64,
    /// Place of the first of these, and the reason; null where there are none.
    pub first_unread: Option<String>,
    /// Sentences that a reader of the figures must know.
    pub notes: Vec<String>,
}

/// Minimum latencies of the operations of a replay, drawn with these quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct InjectedLatency {
    /// Median of the latencies, us.
    pub p50_us: f64,
    /// 99th percentile, us; all latencies are alike where it is the median.
    pub p99_us: f64,
}

/// Recorded calls of one name that were not replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NotReplayed {
    /// Name of the system call; `failed`: of any, with an error that another drive need not have.
    pub call: &'static str,
    /// Number of calls of that name in the recording.
    pub count: u64,
}

/// Ratio of the times in calls; none where there was none in the recording.
fn ratio<'a>(operations: impl Iterator<Item = &'a ReplayedOperations> + Clone) -> Option<f64> {
    let sum = |of: fn(&ReplayedOperations) -> &ReplayLatency| {
        operations.clone().map(|one| of(one).total_s).sum::<f64>()
    };
    let (recorded, replayed) = (sum(|one| &one.recorded), sum(|one| &one.replayed));
    (recorded > 0.0).then_some(replayed / recorded)
}

impl ReplayReport {
    /// Sentence about the time that calls took here.
    #[must_use]
    pub fn verdict(&self) -> String {
        let Some(all) = ratio(self.operations.iter()) else {
            return "no recorded call that took time was replayed".to_owned();
        };
        let sum = |of: fn(&ReplayedOperations) -> f64| self.operations.iter().map(of).sum::<f64>();
        let recorded_s = sum(|one| one.recorded.total_s);
        let replayed_s = sum(|one| one.replayed.total_s);
        let share = |one: &ReplayedOperations| {
            (one.recorded.total_s / recorded_s).max(one.replayed.total_s / replayed_s)
        };
        let mut named: Vec<&ReplayedOperations> =
            self.operations.iter().filter(|one| share(one) >= NAMED_SHARE).collect();
        named.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let told = named.into_iter().map(|one| match ratio(std::iter::once(one)) {
            Some(ratio) => format!("{} {}", one.name, digits(ratio, 3)),
            None => format!("{} (0 s in the recording)", one.name),
        });
        let told: Vec<String> = told.collect();
        let all = digits(all, 3);
        let here = if self.injected.is_some() { "here, slowed down" } else { "here" };
        format!("the recorded calls take {all} times as long {here}: {}", told.join(", "))
    }

    fn not_replayed(&self) -> Vec<String> {
        let calls = self.not_replayed.iter().map(|left| format!("{} {}", left.count, left.call));
        let calls: Vec<String> = calls.collect();
        let mut told = Vec::new();
        if !calls.is_empty() {
            told.push(format!("calls on these files that can't be replayed: {}", calls.join(", ")));
        }
        if self.untold > 0 {
            let calls = counted(self.untold, "call");
            told.push(format!("left out, without a known path or an end: {calls}"));
        }
        if let Some(first) = &self.first_unread {
            let lines = counted(self.unread_lines, "line");
            told.push(format!("{lines} of the recording can't be read, first {first}"));
        }
        told.extend(self.differed());
        told
    }

    /// Sentence about the operations that ended otherwise; none where there are none.
    #[must_use]
    pub fn differed(&self) -> Option<String> {
        let first = self.first_differing.as_ref()?;
        let operations = counted(self.differing, "operation");
        Some(format!(
            "{operations} ended otherwise than in the recording, counted in no figure: {first}"
        ))
    }
}

/// A replay as a verdict, a table of operations, and notes.
#[must_use]
pub fn replay_page(report: &ReplayReport) -> String {
    let mut page = String::new();
    let mut head = |head: &str, text: &str| wrapped(&mut page, &format!("{head:<11}"), text);
    head("verdict", &report.verdict());
    let s = |seconds: f64| digits(seconds, 3);
    let gaps = match report.speed {
        None => "without gaps between calls".to_owned(),
        Some(1.0) => "with the gaps between calls".to_owned(),
        Some(speed) => format!("with the gaps between calls divided by {speed}"),
    };
    let (recorded, here) = (s(report.recorded_s), s(report.replayed_s));
    head("duration", &format!("{here} s, {gaps}; {recorded} s in the recording"));
    if let Some(InjectedLatency { p50_us, p99_us }) = report.injected {
        let [p50, p99] = [p50_us, p99_us].map(|us| digits(us / 1e3, 3));
        let told = format!("a minimum latency of each call, P50 {p50} ms and P99 {p99} ms");
        head("injected", &format!("{told}; the figures below include it"));
    }
    let on = [report.file_system.as_deref(), report.drive.as_deref()];
    let on: Vec<&str> = on.into_iter().flatten().collect();
    head("place", &format!("{} ({})", report.place, on.join(" on ")));
    let ReplayReport { recording, below, lanes, elsewhere, files_before, .. } = report;
    let gib = digits(report.gib_before, 3);
    head(
        "recording",
        &format!(
            "{recording}: calls below {below}, {} at a time; left out: {} on other files; there \
             before: {} of {gib} GiB",
            counted(*lanes, "thread"),
            counted(*elsewhere, "call"),
            counted(*files_before, "file")
        ),
    );
    page.push('\n');
    page.push_str(&operations_table(&report.operations));
    page.push('\n');
    let legend = "was: in the recording, with the time that strace adds to each call; is: here; \
                  P50 and P99 in ms, sums in s; ratio: of the sums";
    wrapped(&mut page, "  ", legend);
    for note in report.not_replayed().iter().chain(&report.notes) {
        wrapped(&mut page, "  note: ", note);
    }
    page
}

fn operations_table(operations: &[ReplayedOperations]) -> String {
    let three = |value: f64| digits(value, 3);
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    Table::of(operations)
        .text("operation", |one| one.name)
        .count("count", |one| one.count)
        .number("GiB", three, |one| (one.bytes > 0).then_some(one.bytes as f64 / GIB))
        .number("P50 was", three, move |one| ms(one.recorded.p50_us))
        .number("is", three, move |one| ms(one.replayed.p50_us))
        .number("P99 was", three, move |one| ms(one.recorded.p99_us))
        .number("is", three, move |one| ms(one.replayed.p99_us))
        .number("sum was", three, |one| one.recorded.total_s)
        .number("is", three, |one| one.replayed.total_s)
        .number("ratio", three, |one| ratio(std::iter::once(one)))
        .done()
        .page()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(name: &'static str, was_s: f64, is_s: f64) -> ReplayedOperations {
        let latency =
            |total_s| ReplayLatency { p50_us: Some(1_500.0), p99_us: Some(20_000.0), total_s };
        let (recorded, replayed) = (latency(was_s), latency(is_s));
        ReplayedOperations { name, count: 1_234, bytes: 3 << 29, recorded, replayed }
    }

    #[test]
    fn a_page_begins_with_the_verdict_and_fits_a_screen() {
        let report = ReplayReport {
            ringfall_layout_replay: REPLAY_VERSION,
            version: "0.1.0",
            place: "/mnt/kv".to_owned(),
            drive: Some("nvme0n1".to_owned()),
            file_system: Some("xfs".to_owned()),
            recording: "engine.strace".to_owned(),
            below: "/data/kv".to_owned(),
            lanes: 4,
            files_before: 2,
            gib_before: 1.5,
            speed: Some(2.0),
            injected: None,
            recorded_s: 12.0,
            replayed_s: 9.0,
            operations: vec![
                operations("stat", 0.1, 0.2),
                operations("write", 2.0, 1.0),
                operations("read", 8.0, 4.0),
            ],
            differing: 1,
            first_differing: Some("open of a: gone".to_owned()),
            not_replayed: vec![NotReplayed { call: "mmap", count: 7 }],
            elsewhere: 5,
            untold: 1,
            unread_lines: 3,
            first_unread: Some("line 9: why".to_owned()),
            notes: vec!["a note".to_owned()],
        };
        let page = replay_page(&report);
        let verdict = "the recorded calls take 0.51 times as long here: read 0.50, write 0.50";
        let joined = page.replace("\n           ", " ");
        assert!(joined.starts_with(&format!("verdict    {verdict}\n")), "{page}");
        assert!(page.lines().count() <= 25, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        for part in [
            "gaps between calls divided by 2",
            "12.0 s in the recording",
            "xfs on nvme0n1",
            "2 files of 1.50 GiB",
            "replayed: 7 mmap",
            "3 lines of the recording can't be read, first line 9: why",
            "1 operation ended otherwise",
            "an end: 1 call",
            "5 calls on other files",
            "note: a note",
        ] {
            assert!(page.contains(part) || joined.contains(part), "{part}: {page}");
        }
        // Most of the time here is in what took little of that in the recording.
        let fsync = operations("fsync", 0.09, 21.4);
        let both = vec![operations("write", 2.5, 2.15), fsync, operations("stat", 0.0, 9.0)];
        let slow = ReplayReport { operations: both, ..report.clone() }.verdict();
        let all =
            "take 12.6 times as long here: write 0.86, fsync 238, stat (0 s in the recording)";
        assert!(slow.ends_with(all), "{slow}");
        let injected = Some(InjectedLatency { p50_us: 1_000.0, p99_us: 20_000.0 });
        let slow = replay_page(&ReplayReport { injected, ..report.clone() });
        let slow = slow.replace("\n           ", " ");
        assert!(slow.contains("0.51 times as long here, slowed down: read"), "{slow}");
        assert!(slow.contains("of each call, P50 1.00 ms and P99 20.0 ms"), "{slow}");
        let nothing = ReplayReport { operations: Vec::new(), ..report };
        assert!(nothing.verdict().starts_with("no recorded call"));
    }
}
