//! Requests to drives, as blkparse, the kernel's tracepoints (perf script, trace-cmd) and
//! `tools/block-requests.bt` tell them, as operations on one file.
//!
//! A request lasts from its issue to the drive until its completion, and follows all that had ended
//! when it began. The file holds what the requests touch of the drives, in the order of the drives'
//! addresses and without what lies between: it takes no more space than that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::BufRead;
use std::sync::Arc;

use super::call::seconds;
use super::names::Part;
use super::operation::{FileAction, OpenMode, RWF_DSYNC, RecordedOperation};
use super::strace::OPERATIONS_MAX;
use super::tree::FileBefore;
use crate::error::Error;
use crate::source::Skipped;
use crate::source::lines::{Line, Lines, Unusable, too_long, unread};

/// Most issues and completions, two of each request, which take about 50 bytes each.
const EVENTS_MAX: usize = 2 * OPERATIONS_MAX;
/// Unit of addresses and lengths, whatever the drive's block, bytes.
const SECTOR_BYTES: u64 = 512;
/// Unit of what is kept of a drive, bytes: that of `O_DIRECT` on most drives.
const BLOCK_BYTES: u64 = 4096;
/// Name of the file.
const FILE: &str = "requests";
/// Lines of tracepoints, with blkparse's letters for the steps.
const TRACEPOINTS: [(&str, &str); 3] =
    [("block_rq_issue: ", "D"), ("block_rq_requeue: ", "R"), ("block_rq_complete: ", "C")];
/// Next step where a recording has no request.
const WANTED: &str = "record the drive itself with `tools/block-requests.bt`, or with blktrace, \
                      whose output blkparse prints";

/// Major and minor number of a drive.
type Drive = (u32, u32);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Issue,
    Requeue,
    Complete { failed: bool },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write { durable: bool },
    Other(&'static str),
}

/// Step of a request.
#[derive(Clone, Copy)]
struct Event {
    time_ns: u64,
    drive: Drive,
    step: Step,
    kind: Kind,
    /// Place on the drive, bytes.
    begin: u64,
    bytes: u32,
}

/// Request that was completed; its event is its issue.
struct Request {
    issue: Event,
    took_ns: u64,
}

/// Part of a drive that requests touch, in whole blocks, and its place in the file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Touched {
    drive: Drive,
    begin: u64,
    end: u64,
    place: u64,
}

/// Whether any of these lines tells of a drive's requests.
pub(super) fn are_requests(lines: &[u8]) -> bool {
    let mut lines = lines.split(|byte| *byte == b'\n');
    lines.any(|line| std::str::from_utf8(line).is_ok_and(|line| event(line).is_some()))
}

/// Reads the requests to one drive, `MAJOR,MINOR`, or to all of them.
pub(super) fn read(reader: impl BufRead, only: Option<&str>) -> Result<Part, Error> {
    let (mut events, skipped) = events(reader)?;
    let mut part = Part { follows_all: true, handles: 1, skipped, ..Part::default() };
    let all = names(events.iter().map(|event| event.drive));
    if let Some(typed) = only {
        let is_elsewhere = |event: &Event| Some(event.drive) != drive(typed);
        let issued = events.iter().filter(|event| event.step == Step::Issue);
        part.elsewhere = issued.filter(|event| is_elsewhere(event)).count() as u64;
        events.retain(|event| !is_elsewhere(event));
    }
    // The lines of several processors need not be in order.
    events.sort_by_key(|event| event.time_ns);
    let requests = completed(&mut part, &events);
    if requests.is_empty() {
        return Err(Error::new(match only {
            Some(typed) if !all.is_empty() => format!(
                "it has no read or write of drive {typed} that was issued and completed; it is of \
                 drives {all}: give another with --below"
            ),
            _ => format!("no read or write in it was issued and completed: {WANTED}"),
        }));
    }
    part.below = names(requests.iter().map(|request| request.issue.drive));
    lay_out(&mut part, &requests);
    Ok(part)
}

/// Numbers of drives, each once.
fn names(drives: impl Iterator<Item = Drive>) -> String {
    let drives: BTreeSet<Drive> = drives.collect();
    let names = drives.iter().map(|(major, minor)| format!("{major},{minor}"));
    names.collect::<Vec<_>>().join(" ")
}

/// Steps of requests in the order of the lines.
fn events(reader: impl BufRead) -> Result<(Vec<Event>, Skipped), Error> {
    let (mut lines, mut unusable) = (Lines::new(reader), Unusable::default());
    let (mut events, mut skipped) = (Vec::new(), Skipped::default());
    let mut are_sums = false;
    while let Some((number, line)) = lines.next()? {
        unusable.pass(number, &line)?;
        let Line::Whole(line) = line else {
            skipped.count(number, too_long);
            continue;
        };
        let text = std::str::from_utf8(line).ok();
        match text.and_then(event) {
            Some(event) => {
                events.extend(event);
                (unusable, are_sums) = (Unusable::default(), false);
            }
            None if text.is_some_and(is_of_other_tracepoint) => {}
            None if line.trim_ascii().is_empty() || line.starts_with(b"#") => {}
            // Sums with which blkparse ends; another recording may follow them.
            None if are_sums || text.is_some_and(begins_sums) => are_sums = true,
            None if text
                .is_some_and(|text| text.contains("[LOST ") || text.contains(" DROPPED]")) =>
            {
                skipped.count(number, || unread(line, "events that came before it were lost"));
            }
            None => skipped.count(number, || unread(line, "it tells of no request to a drive")),
        }
        if events.len() > EVENTS_MAX {
            return Err(Error::new(format!(
                "the lines up to {number} have more than {EVENTS_MAX} issues and completions: \
                 record a shorter time"
            )));
        }
    }
    Ok((events, skipped))
}

/// Step that a line tells: none inside where it is none of those that are wanted, none at all where
/// the line tells nothing of a drive. It is one of blkparse, or of a tracepoint:
///
/// ```text
/// DRIVE CPU SEQUENCE TIME PID ACTION RWBS SECTOR + SECTORS [WHAT]
/// … TIME: block_rq_issue: DRIVE RWBS BYTES () SECTOR + SECTORS … [WHAT]
/// ```
fn event(line: &str) -> Option<Option<Event>> {
    let traced = TRACEPOINTS.iter().find_map(|(name, action)| {
        let (head, rest) = line.split_once(name)?;
        let head = head.strip_suffix("block:").unwrap_or(head).trim_end().strip_suffix(':')?;
        Some((head.rsplit(' ').next()?, *action, rest))
    });
    let mut words = traced.map_or(line, |(_, _, rest)| rest).split_ascii_whitespace();
    let drive = drive(words.next()?)?;
    let (time, action) = match traced {
        Some((time, action, _)) => (time, action),
        None => {
            let _processor: u32 = words.next()?.parse().ok()?;
            let _sequence: u64 = words.next()?.parse().ok()?;
            let time = words.next()?;
            let _process: i64 = words.next()?.parse().ok()?;
            (time, words.next()?)
        }
    };
    let time_ns = seconds(time)?;
    let step = match action {
        "D" => Step::Issue,
        "R" => Step::Requeue,
        "C" => Step::Complete { failed: !line.trim_end().ends_with("[0]") },
        _ => return Some(None),
    };
    let rwbs = words.next()?;
    // A flush before a write is a request of its own.
    let after_flush = rwbs.strip_prefix('F').unwrap_or(rwbs);
    let kind = match after_flush.as_bytes().first() {
        Some(b'R') => Kind::Read,
        Some(b'W') => Kind::Write { durable: after_flush.contains('F') },
        Some(b'D') => Kind::Other("discard"),
        _ if rwbs.starts_with('F') => Kind::Other("flush"),
        _ => Kind::Other("other"),
    };
    let (mut begin, mut bytes) = (0, 0);
    if !matches!(kind, Kind::Other(_)) {
        let words: Vec<&str> = words.collect();
        let Some(plus) = words.iter().position(|word| *word == "+") else {
            return matches!(step, Step::Complete { .. }).then_some(None);
        };
        let sector: u64 = words.get(plus.checked_sub(1)?)?.parse().ok()?;
        let sectors: u32 = words.get(plus + 1)?.parse().ok()?;
        begin = sector.checked_mul(SECTOR_BYTES).filter(|begin| *begin <= i64::MAX as u64)?;
        bytes =
            sectors.checked_mul(SECTOR_BYTES as u32).filter(|bytes| *bytes <= i32::MAX as u32)?;
        // It ends a write that was a flush alone; blkparse tells no sectors of it.
        if bytes == 0 {
            return Some(None);
        }
    }
    Some(Some(Event { time_ns, drive, step, kind, begin, bytes }))
}

/// Whether a line begins the sums of blkparse: `CPU0 (8,0):` or `Total (8,0):`.
fn begins_sums(line: &str) -> bool {
    let of =
        line.strip_prefix("CPU").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    of.or(line.strip_prefix("Total")).is_some_and(|rest| rest.starts_with(" ("))
}

/// Whether a line is of a tracepoint of the block layer that is no step of a request.
fn is_of_other_tracepoint(line: &str) -> bool {
    let is_of_block_layer = line.contains(": block_") || line.contains("block:block_");
    is_of_block_layer && TRACEPOINTS.iter().all(|(name, _)| !line.contains(name))
}

/// Major and minor number of a drive.
fn drive(word: &str) -> Option<Drive> {
    let (major, minor) = word.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Reads and writes that were issued and completed, in the order of their issues; others are
/// counted.
fn completed(part: &mut Part, events: &[Event]) -> Vec<Request> {
    let mut leave_out = |name| part.left_out.entry(name).or_default().count += 1;
    let mut under_way = BTreeMap::<_, VecDeque<Event>>::new();
    let mut found = Vec::new();
    for event in events {
        if let Kind::Other(name) = event.kind {
            if event.step == Step::Issue {
                leave_out(name);
            }
            continue;
        }
        let key = (event.drive, event.begin, event.kind == Kind::Read);
        let like = under_way.entry(key).or_default();
        match event.step {
            Step::Issue => like.push_back(*event),
            Step::Requeue => drop(like.pop_back()),
            Step::Complete { failed } => match like.pop_front() {
                None => part.untold += 1,
                Some(_) if failed => leave_out("failed"),
                Some(issue) => {
                    found.push(Request { issue, took_ns: event.time_ns - issue.time_ns });
                }
            },
        }
        if like.is_empty() {
            under_way.remove(&key);
        }
    }
    part.untold += under_way.values().map(|like| like.len() as u64).sum::<u64>();
    found.sort_by_key(|request| request.issue.time_ns);
    found
}

/// Makes operations on one file of requests, and the file, which is there before.
fn lay_out(part: &mut Part, requests: &[Request]) {
    let touched = touched(requests);
    let bytes = touched.last().map_or(0, |last| last.place + last.end - last.begin);
    let name: Arc<str> = FILE.into();
    part.files_before = vec![FileBefore { path: Arc::clone(&name), bytes }];
    (part.names, part.files, part.parents) = (vec![name], vec![Some(0)], vec![None]);
    let mode = OpenMode { read: true, write: true, direct: true, ..OpenMode::default() };
    let opening = RecordedOperation {
        begin_ns: requests.first().map_or(0, |first| first.issue.time_ns),
        took_ns: 0,
        thread: 0,
        action: FileAction::Open { name: 0, handle: Some(0), mode },
        failure: None,
        makes: false,
        moved_bytes: 0,
        strace_waits: 0,
        is_call: false,
    };
    // Each on a thread of its own: as many lanes as there were requests in flight.
    let operations = requests.iter().zip(1..).map(|(Request { issue, took_ns }, thread)| {
        let Event { drive, begin, bytes, .. } = *issue;
        let after = touched.partition_point(|part| (part.drive, part.begin) <= (drive, begin));
        let around = &touched[after - 1];
        let (handle, offset) = (0, around.place + begin - around.begin);
        let action = match issue.kind {
            Kind::Write { durable } => {
                FileAction::Write { handle, offset, bytes, flags: u32::from(durable) * RWF_DSYNC }
            }
            _ => FileAction::Read { handle, offset, bytes, flags: 0 },
        };
        let (begin_ns, took_ns) = (issue.time_ns, *took_ns);
        let (moved_bytes, is_call) = (bytes, true);
        RecordedOperation { begin_ns, took_ns, thread, action, moved_bytes, is_call, ..opening }
    });
    part.operations = std::iter::once(opening).chain(operations).collect();
}

/// Parts of the drives that requests touch, in the order of their addresses.
fn touched(requests: &[Request]) -> Vec<Touched> {
    let blocks = |Request { issue: Event { drive, begin, bytes, .. }, .. }: &Request| Touched {
        drive: *drive,
        begin: begin - begin % BLOCK_BYTES,
        end: (begin + u64::from(*bytes)).next_multiple_of(BLOCK_BYTES),
        place: 0,
    };
    let mut touched: Vec<Touched> = requests.iter().map(blocks).collect();
    touched.sort_unstable();
    touched.dedup_by(|next, last| {
        let joins = next.drive == last.drive && next.begin <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    let mut place = 0;
    for part in &mut touched {
        part.place = place;
        place += part.end - part.begin;
    }
    touched
}
