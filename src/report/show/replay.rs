//! An engine's recorded calls on files, or requests to a drive, beside those that a replay made.

use ringfall_host::counted;
use ringfall_model::facts::{CallsInFlight, ReplayedOperations};
use serde::Serialize;

use super::GIB;
use super::prose::wrapped;
use super::table::{Table, digits, percent};

/// Version of the form of [`ReplayReport`].
pub const REPLAY_VERSION: u32 = 1;
/// Share of the time in calls, recorded or here, from which on a kind is named in the verdict.
const NAMED_SHARE: f64 = 0.05;
/// Share of the recorded time that may be strace's, up to which a ratio is given.
const STRACE_SHARE: f64 = 0.1;
/// Number of calls of a kind from which on their ratio is given.
const COMPARED_MIN: u64 = 20;
/// Share of the calls that ended otherwise, above which there is no verdict.
const DIFFERING_SHARE: f64 = 0.05;
/// Share of the bytes that were copied and not replayed, from which on the verdict has it.
const COPIED_SHARE: f64 = 0.001;
/// Factor between the calls in flight, recorded and here, above which latencies are not compared.
const IN_FLIGHT_TIMES: f64 = 1.5;

/// A recording of an engine's calls, or of requests to a drive, that was replayed on a drive.
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
    /// Kind of the recorded operations: `call` on files, or `request` to a drive.
    pub operation: &'static str,
    /// Directory of the recording whose files were replayed; of requests, the numbers of the drives
    /// (`MAJOR,MINOR`).
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
    /// Calls in flight, as they were recorded.
    pub recorded_in_flight: CallsInFlight,
    /// The same of the replay.
    pub in_flight: CallsInFlight,
    /// Operations that ended as they had in the recording, by kind.
    pub operations: Vec<ReplayedOperations>,
    /// Number of operations that ended otherwise, which are in no other figure.
    pub differing: u64,
    /// Sentence about the first of these; null where there are none.
    pub first_differing: Option<String>,
    /// Calls on these files, or requests, that were not replayed.
    pub not_replayed: Vec<NotReplayed>,
    /// Number of recorded calls on other files, or of requests to other drives.
    pub elsewhere: u64,
    /// Number of recorded calls without a known path, or without an end; of requests, without a
    /// beginning or an end.
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

/// Recorded calls or requests of one name that were not replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NotReplayed {
    /// Name of the system call; `failed`: of any, with an error that another drive need not have;
    /// `linked`: of any on a symbolic link itself, or behind one that led to several directories.
    /// Kind of requests: `discard`, `flush`, `failed` or `other`.
    pub call: &'static str,
    /// Number of calls of that name in the recording.
    pub count: u64,
    /// Bytes that they copied; 0 of calls that copy none, or of which strace tells no number.
    pub bytes: u64,
}

/// Whether strace took so little of the recorded time that it can be compared.
fn is_timed(one: &ReplayedOperations) -> bool {
    let recorded_s = one.recorded.total_s;
    recorded_s > 0.0 && one.strace_s <= STRACE_SHARE * recorded_s
}

/// Whether the recorded times can be compared, and are not those of a few calls.
fn is_comparable(one: &ReplayedOperations) -> bool {
    one.count >= COMPARED_MIN && is_timed(one)
}

/// Ratio of the times in calls; none where it can't be told.
fn ratio(one: &ReplayedOperations) -> Option<f64> {
    is_comparable(one).then(|| one.replayed.total_s / one.recorded.total_s)
}

impl ReplayReport {
    /// Sentence about the time that calls took here.
    pub fn verdict(&self) -> String {
        let operation = self.operation;
        let count: u64 = self.operations.iter().map(|one| one.count).sum();
        if let Some(first) = &self.first_differing
            && self.differing as f64 > DIFFERING_SHARE * (count + self.differing) as f64
        {
            let all = count + self.differing;
            let differing = self.differing;
            return format!(
                "no verdict: {differing} of {all} operations ended otherwise than in the \
                 recording: {first}"
            );
        }
        let compared: Vec<_> = self.operations.iter().filter(|one| is_comparable(one)).collect();
        if compared.is_empty() {
            let of_strace = match self.is_of_requests() {
                true => "",
                false => " and took so long that strace's own time is a small part of it",
            };
            return format!(
                "no verdict: no kind of recorded {operation}s has {COMPARED_MIN} that were \
                 replayed{of_strace}"
            );
        }
        let sum =
            |of: fn(&ReplayedOperations) -> f64| compared.iter().map(|one| of(one)).sum::<f64>();
        let recorded_s = sum(|one| one.recorded.total_s);
        let replayed_s = sum(|one| one.replayed.total_s);
        let share = |one: &ReplayedOperations| {
            (one.recorded.total_s / recorded_s).max(one.replayed.total_s / replayed_s)
        };
        let mut named = compared.clone();
        named.retain(|one| share(one) >= NAMED_SHARE);
        named.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let told =
            |one: &&ReplayedOperations| Some(format!("{} {}", one.name, digits(ratio(one)?, 3)));
        let told: Vec<String> = named.iter().filter_map(told).collect();
        let compared = match compared.len() == self.operations.len() {
            true => "",
            false => " that can be compared",
        };
        let all = digits(replayed_s / recorded_s, 3);
        let here = if self.injected.is_some() { "here, slowed down" } else { "here" };
        let told = told.join(", ");
        let mut verdict =
            format!("the recorded {operation}s{compared} take {all} times as long {here}: {told}");
        let copied: u64 = self.not_replayed.iter().map(|left| left.bytes).sum();
        let moved: u64 = self.operations.iter().map(|one| one.bytes).sum();
        let share = copied as f64 / (copied + moved).max(1) as f64;
        if share >= COPIED_SHARE {
            let share = percent(share);
            verdict +=
                &format!("; {share} of the bytes were moved by calls that can't be replayed");
        }
        if self.is_in_flight_otherwise() {
            let [here, recorded] = self.means_in_flight();
            verdict += &format!(
                "; with {here} {operation}s in flight in place of {recorded}: see the note"
            );
        }
        verdict
    }

    /// Whether requests to a drive were recorded, in place of calls on files.
    fn is_of_requests(&self) -> bool {
        self.operation == "request"
    }

    /// Whether the calls in flight differ so much that latencies can't be compared.
    fn is_in_flight_otherwise(&self) -> bool {
        let (here, recorded) = (self.in_flight.mean, self.recorded_in_flight.mean);
        here.max(recorded) > IN_FLIGHT_TIMES * here.min(recorded)
    }

    /// Mean calls in flight, here and recorded.
    fn means_in_flight(&self) -> [String; 2] {
        [self.in_flight, self.recorded_in_flight].map(|calls| digits(calls.mean, 2))
    }

    /// Sentences about what can't be compared.
    fn not_compared(&self) -> Vec<String> {
        let mut told = Vec::new();
        let mut no_ratio = |why: &str, is_of: fn(&ReplayedOperations) -> bool| {
            let kinds = self.operations.iter().filter(|one| is_of(one));
            let kinds: Vec<&str> = kinds.map(|one| one.name).collect();
            if !kinds.is_empty() {
                told.push(format!("no ratio of {}: {why}", kinds.join(", ")));
            }
        };
        let strace = "more than a tenth of their time in the recording may be strace's, which \
                      stops each call twice and handles one thread at a time";
        no_ratio(strace, |one| !is_timed(one));
        let operation = self.operation;
        let few = format!("they are fewer than {COMPARED_MIN} {operation}s");
        no_ratio(&few, |one| is_timed(one) && !is_comparable(one));
        if self.is_in_flight_otherwise() {
            let [here, recorded] = self.means_in_flight();
            let slower = match self.speed {
                Some(1.0) => "",
                _ => "; --speed 1 keeps the gaps of the recording",
            };
            told.push(format!(
                "latencies are not comparable: on average {here} {operation}s were in flight \
                 here, and {recorded} in the recording{slower}"
            ));
        }
        told
    }

    fn not_replayed(&self) -> Vec<String> {
        let calls = self.not_replayed.iter().map(|left| match left.bytes {
            0 => format!("{} {}", left.count, left.call),
            bytes => {
                format!("{} {} of {} GiB", left.count, left.call, digits(bytes as f64 / GIB, 3))
            }
        });
        let calls: Vec<String> = calls.collect();
        let mut told = Vec::new();
        let [of_these, lacking] = match self.is_of_requests() {
            true => ["requests", "a beginning or an end"],
            false => ["calls on these files", "a known path or an end"],
        };
        if !calls.is_empty() {
            told.push(format!("{of_these} that can't be replayed: {}", calls.join(", ")));
        }
        if self.untold > 0 {
            let untold = counted(self.untold, self.operation);
            told.push(format!("left out, without {lacking}: {untold}"));
        }
        if let Some(first) = &self.first_unread {
            let lines = counted(self.unread_lines, "line");
            told.push(format!("{lines} of the recording can't be read, first {first}"));
        }
        told.extend(self.differed());
        told
    }

    /// Sentence about the operations that ended otherwise; none where there are none.
    pub fn differed(&self) -> Option<String> {
        let first = self.first_differing.as_ref()?;
        let operations = counted(self.differing, "operation");
        Some(format!(
            "{operations} ended otherwise than in the recording, counted in no figure: {first}"
        ))
    }
}

/// A replay as a verdict, a table of operations, and notes.
pub fn replay_page(report: &ReplayReport) -> String {
    let mut page = String::new();
    let mut head = |head: &str, text: &str| wrapped(&mut page, &format!("{head:<11}"), text);
    head("verdict", &report.verdict());
    let s = |seconds: f64| digits(seconds, 3);
    let operation = report.operation;
    let gaps = match report.speed {
        None => format!("without gaps between {operation}s"),
        Some(1.0) => format!("with the gaps between {operation}s"),
        Some(speed) => format!("with the gaps between {operation}s divided by {speed}"),
    };
    let (recorded, here) = (s(report.recorded_s), s(report.replayed_s));
    head("duration", &format!("{here} s, {gaps}; {recorded} s in the recording"));
    let [mean, recorded_mean] = report.means_in_flight();
    let (most, recorded_most) = (report.in_flight.most, report.recorded_in_flight.most);
    head(
        "in flight",
        &format!(
            "{mean} {operation}s while there was any, {most} at most; {recorded_mean} and \
             {recorded_most} in the recording"
        ),
    );
    if let Some(InjectedLatency { p50_us, p99_us }) = report.injected {
        let [p50, p99] = [p50_us, p99_us].map(|us| digits(us / 1e3, 3));
        let told = format!("a minimum latency of each {operation}, P50 {p50} ms and P99 {p99} ms");
        head("injected", &format!("{told}; the figures below include it"));
    }
    let on = [report.file_system.as_deref(), report.drive.as_deref()];
    let on: Vec<&str> = on.into_iter().flatten().collect();
    head("place", &format!("{} ({})", report.place, on.join(" on ")));
    let ReplayReport { recording, below, lanes, elsewhere, files_before, .. } = report;
    let gib = digits(report.gib_before, 3);
    let (elsewhere, files) = (counted(*elsewhere, operation), counted(*files_before, "file"));
    let told = match report.is_of_requests() {
        true => format!(
            "requests to {below}, {lanes} at a time; left out: {elsewhere} to other drives; \
             touched: {gib} GiB, written before"
        ),
        false => format!(
            "calls below {below}, {} at a time; left out: {elsewhere} on other files; there \
             before: {files} of {gib} GiB",
            counted(*lanes, "thread")
        ),
    };
    head("recording", &format!("{recording}: {told}"));
    page.push('\n');
    page.push_str(&operations_table(&report.operations));
    page.push('\n');
    let was = match report.is_of_requests() {
        true => "from issue to completion; is: here, the whole call",
        false => "with the time that strace adds to each call; is: here",
    };
    let legend =
        format!("was: in the recording, {was}; P50 and P99 in ms, sums in s; ratio: of the sums");
    wrapped(&mut page, "  ", &legend);
    let compared = report.not_compared();
    for note in compared.iter().chain(&report.not_replayed()).chain(&report.notes) {
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
        .number("ratio", three, ratio)
        .done()
        .page()
}

#[cfg(test)]
mod tests {
    use ringfall_model::facts::ReplayLatency;

    use super::*;

    fn operations(name: &'static str, was_s: f64, is_s: f64) -> ReplayedOperations {
        let latency =
            |total_s| ReplayLatency { p50_us: Some(1_500.0), p99_us: Some(20_000.0), total_s };
        let (recorded, replayed) = (latency(was_s), latency(is_s));
        let (count, bytes) = (1_234, 3 << 29);
        ReplayedOperations { name, count, bytes, recorded, replayed, strace_s: was_s / 20.0 }
    }

    fn report() -> ReplayReport {
        ReplayReport {
            ringfall_layout_replay: REPLAY_VERSION,
            version: "0.1.0",
            place: "/mnt/kv".to_owned(),
            drive: Some("nvme0n1".to_owned()),
            file_system: Some("xfs".to_owned()),
            recording: "engine.strace".to_owned(),
            operation: "call",
            below: "/data/kv".to_owned(),
            lanes: 4,
            files_before: 2,
            gib_before: 1.5,
            speed: Some(2.0),
            injected: None,
            recorded_s: 12.0,
            replayed_s: 9.0,
            recorded_in_flight: CallsInFlight { mean: 2.5, most: 4 },
            in_flight: CallsInFlight { mean: 2.0, most: 3 },
            operations: vec![
                operations("stat", 0.1, 0.2),
                operations("write", 2.0, 1.0),
                operations("read", 8.0, 4.0),
            ],
            differing: 1,
            first_differing: Some("open of a: gone".to_owned()),
            not_replayed: vec![NotReplayed { call: "mmap", count: 7, bytes: 0 }],
            elsewhere: 5,
            untold: 1,
            unread_lines: 3,
            first_unread: Some("line 9: why".to_owned()),
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn a_page_begins_with_the_verdict_and_fits_a_screen() {
        let report = report();
        let page = replay_page(&report);
        let verdict = "the recorded calls take 0.51 times as long here: read 0.50, write 0.50";
        let joined = page.replace("\n           ", " ");
        assert!(joined.starts_with(&format!("verdict    {verdict}\n")), "{page}");
        assert!(page.lines().count() <= 25, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        for part in [
            "gaps between calls divided by 2",
            "12.0 s in the recording",
            "2.0 calls while there was any, 3 at most; 2.5 and 4 in the recording",
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
        let all = "that can be compared take 9.09 times as long here: write 0.86, fsync 238";
        assert!(slow.ends_with(all), "{slow}");
        let injected = Some(InjectedLatency { p50_us: 1_000.0, p99_us: 20_000.0 });
        let slow = replay_page(&ReplayReport { injected, ..report.clone() });
        let slow = slow.replace("\n           ", " ");
        assert!(slow.contains("0.51 times as long here, slowed down: read"), "{slow}");
        assert!(slow.contains("of each call, P50 1.00 ms and P99 20.0 ms"), "{slow}");
        let nothing = ReplayReport { operations: Vec::new(), differing: 0, ..report };
        assert!(nothing.verdict().starts_with("no verdict: no kind of recorded calls"));
    }

    /// Each was a ratio without a doubt.
    #[test]
    fn a_ratio_that_can_not_be_defended_is_not_given() {
        let mut report = report();
        let calls = |name: &'static str, strace_s| ReplayedOperations {
            strace_s,
            ..operations(name, 2.0, 1.0)
        };
        // 16 threads under strace: reads of 1.5 us took 240 us.
        report.operations = vec![calls("read", 2.0), calls("fsync", 0.1)];
        let page = |report: &ReplayReport| {
            replay_page(report).replace("\n           ", " ").replace("\n        ", " ")
        };
        let found = page(&report);
        assert!(found.contains("that can be compared take 0.50 times as long here: fsync 0.50\n"));
        assert!(found.contains("note: no ratio of read: more than a tenth"), "{found}");
        let copied = NotReplayed { call: "sendfile", count: 1, bytes: 1 << 30 };
        let copying = ReplayReport { not_replayed: vec![copied], ..report.clone() };
        let found = page(&copying);
        assert!(found.contains("; 25.0 % of the bytes were moved by calls that can't"), "{found}");
        assert!(found.contains("replayed: 1 sendfile of 1.00 GiB"), "{found}");
        let in_flight = CallsInFlight { mean: 7.9, most: 8 };
        let crowded = ReplayReport { in_flight, ..report.clone() };
        let found = page(&crowded);
        assert!(found.contains("; with 7.9 calls in flight in place of 2.5: see"), "{found}");
        assert!(found.contains("note: latencies are not comparable: on average 7.9"), "{found}");
        let failing = ReplayReport { differing: 300, ..report.clone() };
        let verdict = "no verdict: 300 of 2768 operations ended otherwise than in the recording: ";
        assert!(failing.verdict().starts_with(verdict), "{}", failing.verdict());
        // One fsync made the verdict: 18.5 times.
        report.operations[1].count = 19;
        assert!(report.verdict().starts_with("no verdict: no kind of recorded calls has 20"));
        let found = page(&report);
        assert!(found.contains("note: no ratio of fsync: they are fewer than 20"), "{found}");
        report.operations[1].count = 20;
        assert!(report.verdict().ends_with("fsync 0.50"), "{}", report.verdict());
        report.operations.pop();
        assert!(report.verdict().starts_with("no verdict: no kind of recorded calls"));
    }
}
