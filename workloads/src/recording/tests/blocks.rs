//! Requests to drives, as blkparse and others tell them.

use super::*;
use crate::rng::mix64;

/// Requests of a part, as `read 0 4096 in FLAGS at TIME for TIME`.
fn requests(part: &Part) -> Vec<String> {
    let requests = part.operations.iter().filter(|one| one.is_call);
    let told = requests.map(|one| {
        let (kind, offset, bytes, flags) = match one.action {
            FileAction::Read { offset, bytes, flags, .. } => ("read", offset, bytes, flags),
            FileAction::Write { offset, bytes, flags, .. } => ("write", offset, bytes, flags),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes, one.moved_bytes);
        format!("{kind} {offset} {bytes} {flags} at {} for {}", one.begin_ns, one.took_ns)
    });
    told.collect()
}

fn error(lines: &str, below: Option<&str>) -> String {
    Part::read(lines.as_bytes(), below).unwrap_err().to_string()
}

/// As blkparse's manual and source have them: all actions, and the sums behind them.
const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000003359   697  P   N [kjournald]
  8,0    3        4     0.000004359   697  I   W 223490 + 8 [kjournald]
  8,0    3        0     0.000004900     0  m   N cfq697S / alloced
  8,0    3        5     0.000005000   697  D  WS 223490 + 8 [kjournald]
  8,0    1        1     0.000006000    12  A   R 64 + 8 <- (8,1) 0
  8,0    1        2     0.000007000    12  D   R 64 + 16 [a [+ 7] b]
  8,0    1        3     0.000008000    12  D  FN [kworker/1:1H]
  8,0    3        6     0.000009000     0  C  WS 223490 + 8 [0]
  8,0    1        4     0.000010000     0  C   R 64 + 16 (    3000) [0]
  8,0    1        5     0.000011000    12  D  DS 4096 + 2048 [fstrim]
  8,0    1        6     0.000012000    12  D   N 36 (12 01 00 00 24 00 ..) [udevd]
  8,0    1        7     0.000013000    12  D FWFS 72 + 1 [jbd2/sda1-8]
  8,0    1        8     0.000014000     0  C FWFS 72 + 1 [0]
  8,0    1        9     0.000014500     0  C  WS 0 + 0 [0]
  8,0    1        9     0.000014600     0  C  WS 0 [0]
  8,0    1        9     0.000015000    12  D  RA 80 + 8 [cat]
  8,0    1       10     0.000016000    12  R  RA 80 + 8 [0]
  8,0    1       11     0.000017000    12  D  RA 80 + 8 [cat]
  8,0    1       12     0.000018000     0  C  RA 80 + 8 [65531]
  8,0    1       13     0.000019000     0  C  RA 96 + 8 [0]
  8,0    1       14     0.000020000    12  D  RA 88 + 8 [cat]
CPU1 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB
Total (8,0):
";

#[test]
fn requests_of_blkparse_are_operations_on_what_they_touch() {
    let part = Part::read(BLKPARSE.as_bytes(), None).unwrap();
    // Sectors 64..80 are two blocks, and 223490..223498 lie in two others behind them.
    let expected = [
        "write 9216 4096 0 at 5000 for 4000",
        "read 0 8192 0 at 7000 for 3000",
        "write 4096 512 2 at 13000 for 1000",
    ];
    assert_eq!(requests(&part), expected);
    assert_eq!((&*part.files_before[0].path, part.files_before[0].bytes), ("requests", 16_384));
    assert_eq!(part.below, "8,0");
    let left_out: Vec<_> = part.left_out.iter().map(|(name, left)| (*name, left.count)).collect();
    assert_eq!(left_out, [("discard", 1), ("failed", 1), ("flush", 1), ("other", 1)]);
    assert_eq!((part.untold, part.skipped.rows), (2, 0), "one never began, one never ended");
}

#[test]
fn tracepoints_and_blkparse_tell_the_same() {
    let perf = "\
# captured on: a header
fio  1234 [001]    10.000005:       block:block_rq_insert: 259,0 R 4096 () 800 + 8 none,0,0 [fio]
fio  1234 [001]    10.000006:        block:block_rq_issue: 259,0 R 4096 () 800 + 8 none,0,0 [fio]
swapper 0 [001]    10.000106:     block:block_rq_complete: 259,0 R () 800 + 8 none,0,0 [0]
";
    let ftrace = "\
           <...>-1234    [001] d..1.    10.000006: block_rq_issue: 259,0 R 4096 () 800 + 8 [fio]
          <idle>-0       [001] d.h1.    10.000106: block_rq_complete: 259,0 R () 800 + 8 [0]
";
    let ours =
        "259,0 0 0 10.000006000 0 D R 800 + 8 []\n259,0 0 0 10.000106000 0 C R 800 + 8 [0]\n";
    for lines in [perf, ftrace, ours] {
        let part = Part::read(lines.as_bytes(), Some("259,0")).unwrap();
        assert_eq!(requests(&part), ["read 0 4096 0 at 10000006000 for 100000"], "{lines}");
        assert_eq!(part.skipped.rows, 0, "those of other tracepoints are passed over");
    }
}

#[test]
fn requests_to_several_drives_lie_one_behind_the_other() {
    let mut lines = String::new();
    for (drive, sector) in [("8,16", 0), ("8,0", 1u64 << 40), ("8,0", 8)] {
        lines += &format!("{drive} 0 0 1.0 0 D R {sector} + 8 []\n");
        lines += &format!("{drive} 0 0 2.0 0 C R {sector} + 8 [0]\n");
    }
    let part = Part::read(lines.as_bytes(), None).unwrap();
    let offsets = ["read 8192 4096", "read 4096 4096", "read 0 4096"];
    let told = requests(&part);
    assert!(told.iter().zip(offsets).all(|(told, offset)| told.starts_with(offset)), "{told:?}");
    assert_eq!((&*part.below, part.files_before[0].bytes), ("8,0 8,16", 12_288));
    let part = Part::read(lines.as_bytes(), Some("8,16")).unwrap();
    assert_eq!((part.elsewhere, part.operations.len(), &*part.below), (2, 2, "8,16"));
    for other in ["8,1", "/kv"] {
        let words = format!("no read or write of drive {other} that was issued and completed; it");
        let told = error(&lines, Some(other));
        assert!(told.contains(&words) && told.contains("8,0 8,16: give"), "{told}");
    }
}

#[test]
fn garbage_is_counted_and_refused_where_there_is_nothing_else() {
    let good = "8,0 0 0 1.0 0 D R 8 + 8 []\n8,0 0 0 2.0 0 C R 8 + 8 [0]\n";
    let bad = [
        "Attaching 3 probes...",
        "8,0 0 0 1.0 0 D R 8 []",
        "8,0 0 0 1.0 0 D R x + 8 []",
        "8,0 0 0 1.0 0 D R + 8 []",
        "8,0 0 0 1.0 0 D R 8 +",
        "8,0 0 0 1.0 0 D W 8 + 4194304 []",
        "8,0 0 0 1.0 0 D W 18014398509481984 + 8 []",
        "8,0 0 0 1 0 D R 8 + 8 []",
        "8 0 0 1.0 0 D R 8 + 8 []",
        "x: block_rq_issue: 8,0 R 4096 () 800 + 8 [fio]",
        "block_rq_issue: ",
        "1.0: block_rq_issue: 8,0",
    ];
    let lines = format!("{}\n\n{good}", bad.join("\n"));
    let part = Part::read(lines.as_bytes(), None).unwrap();
    assert_eq!((part.skipped.rows, part.operations.len()), (bad.len() as u64, 2));
    let first = part.skipped.first.unwrap();
    assert!(first.starts_with("line 1: it tells of no request to a drive; the line"), "{first}");
    assert!(error(&bad.join("\n"), None).contains("none of its rows can be read"));
    let issued = good.lines().next().unwrap();
    let told = error(issued, None);
    assert!(told.starts_with("no read or write in it was issued and completed: record"), "{told}");
    let far = "8,0 0 0 1.0 0 D R 8 + 8 []\n".repeat(2) + &good.replace("R 8", "R 0");
    assert_eq!(Part::read(far.as_bytes(), None).unwrap().untold, 2);
}

/// Against the obvious model: each request follows all that had ended, and no two places of drives
/// are one of the file.
#[test]
fn random_requests_keep_their_places_and_what_they_followed() {
    let mut state = 7;
    let mut next = |most: u64| {
        state = mix64(state + 1) >> 1;
        state % most
    };
    for _ in 0..30 {
        let (mut lines, mut recorded) = (Vec::new(), Vec::new());
        for sector in 0..60 {
            // Each begins at a sector of its own, and may touch those behind it.
            let sector = sector * 3 + next(2) * 301;
            let (sectors, begin, took) = (1 + next(30), next(1_000), 1 + next(4_000));
            let begin = begin * 600 + sector;
            let rwbs = ["R", "WS"][next(2) as usize];
            lines.push((begin, format!("8,0 0 0 0.{begin:09} 0 D {rwbs} {sector} + {sectors} []")));
            let end = begin + took;
            lines.push((end, format!("8,0 0 0 0.{end:09} 0 C {rwbs} {sector} + {sectors} [0]")));
            recorded.push((begin, end, sector * 512, sectors * 512, rwbs == "R"));
        }
        // As two processors write them.
        lines.sort_by_key(|(time, line)| (line.len() % 2, *time));
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        let part = Part::read(lines.join("\n").as_bytes(), None).unwrap();
        let found = Order::of(&part).unwrap();
        // All of them, of the right length and kind, whose places are as far apart as before.
        let calls = part.operations.iter().filter(|one| one.is_call);
        let mut done: Vec<_> = calls
            .map(|one| match one.action {
                FileAction::Read { offset, bytes, .. } => (one, offset, u64::from(bytes), true),
                FileAction::Write { offset, bytes, .. } => (one, offset, u64::from(bytes), false),
                other => panic!("{other:?}"),
            })
            .map(|(one, offset, bytes, read)| (one.begin_ns, one.end_ns(), offset, bytes, read))
            .collect();
        done.sort_by_key(|one| (one.0, one.1, one.3, one.4));
        recorded.sort_by_key(|one| (one.0, one.1, one.3, one.4));
        assert_eq!(done.len(), recorded.len());
        let places = done.iter().zip(&recorded);
        let mut places: Vec<_> = places.map(|(is, was)| (was.2, is.2, is.3)).collect();
        for (is, was) in done.iter().zip(&recorded) {
            assert_eq!((is.0, is.1, is.3, is.4), (was.0, was.1, was.3, was.4));
            assert_eq!(is.2 % 4096, was.2 % 4096);
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            let [(was, is, bytes), (next_was, next_is, _)] = pair else { unreachable!() };
            let apart = next_was - was;
            assert!(if apart <= *bytes { next_is - is == apart } else { *next_is >= is + bytes });
        }
        // Done in any order that the lanes allow, nothing begins before what it followed.
        let mut ended = vec![0; found.lanes.len()];
        let mut over = Vec::new();
        while over.len() < part.operations.len() {
            let has_ended = |after: &After| after.place < ended[after.lane as usize];
            let ready = |lane: &usize| {
                let next = found.lanes[*lane].get(ended[*lane] as usize);
                next.is_some_and(|next| next.after.iter().all(has_ended))
            };
            let ready: Vec<usize> = (0..ended.len()).filter(ready).collect();
            let lane = ready[next(ready.len() as u64) as usize];
            let begun = found.lanes[lane][ended[lane] as usize].operation;
            let before = |one: &&RecordedOperation| one.end_ns() <= begun.begin_ns;
            for followed in part.operations.iter().filter(before).filter(|one| **one != begun) {
                assert!(over.contains(followed), "{begun:?} before {followed:?}");
            }
            over.push(begun);
            ended[lane] += 1;
        }
    }
}

/// A line that begins with `CPU` ended the reading without a word: 50 requests of 1,000.
#[test]
fn what_follows_lost_events_and_sums_is_read() {
    let pair = |sector: u32| {
        let line = |time, action, end| {
            format!("8,0 1 1 {sector}.{time} 12 {action} R {sector} + 8 [{end}]\n")
        };
        line("0", "D", "cat") + &line("5", "C", "0")
    };
    let lines = [
        "CPU 1 is empty\n".to_owned(),
        pair(64),
        "CPU:1 [LOST 400 EVENTS]\n".to_owned(),
        pair(128),
        "CPU1 (8,0):\n Reads Queued:  1, 4KiB\nTotal (8,0):\n Reads Queued:  1, 4KiB\n".to_owned(),
        pair(256),
    ];
    let part = Part::read(lines.concat().as_bytes(), None).unwrap();
    assert_eq!((requests(&part).len(), part.skipped.rows), (3, 2));
    assert!(part.skipped.first.as_ref().unwrap().contains("CPU 1 is empty"), "{:?}", part.skipped);
}
