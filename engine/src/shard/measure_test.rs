//! Counting by a clock that is set.

use super::*;
use crate::clock::MICROSECOND;

const TICK: Nanos = Nanos::from_ns(1);

fn completion(completed: Nanos) -> Completion {
    Completion { result: 4096, submitted: completed - 10 * MICROSECOND, completed }
}

#[test]
fn only_what_completes_inside_the_window_counts_and_seconds_add_up() {
    let measure = Measure::default();
    measure.io(IoKind::Read, None, 4096, 4000, completion(SECOND));
    measure.open(2 * SECOND, 5 * SECOND);
    for at in [SECOND, 2 * SECOND, 4 * SECOND + TICK, 5 * SECOND - TICK, 5 * SECOND] {
        measure.io(IoKind::Read, None, 4096, 4000, completion(at));
    }
    let metrics = measure.snapshot();
    assert_eq!((metrics.io_read.bytes, metrics.io_read.entry_bytes), (3 * 4096, 3 * 4000));
    let seconds = measure.take_seconds(9 * SECOND, Gauges::default());
    let bytes: Vec<u64> = seconds.iter().map(|s| s.tiers[Tier::Storage.index()][0].bytes).collect();
    assert_eq!(bytes, [4096, 0, 2 * 4096]);
    let ios: Vec<u32> = seconds.iter().map(|s| s.io[0].counts().iter().sum()).collect();
    assert_eq!(ios, [1, 0, 2]);
    assert!(measure.take_seconds(9 * SECOND, Gauges::default()).is_empty());
}

#[test]
fn waits_are_added_up_by_the_second_they_are_in() {
    let time = std::rc::Rc::new(std::cell::Cell::default());
    let clock = Clock::Simulated(std::rc::Rc::clone(&time));
    let measure = Measure::default();
    time.set(SECOND / 2);
    let early = measure.wait(&clock);
    measure.open(SECOND, 4 * SECOND);
    time.set(SECOND + SECOND / 4);
    let late = measure.wait(&clock);
    time.set(3 * SECOND - SECOND / 4);
    drop(early);
    drop(late);
    measure.transfer(Direction::Write, 7 * MICROSECOND, 3 * SECOND - TICK);
    let seconds = measure.take_all_seconds(9 * SECOND, Gauges::default());
    let waits: Vec<u64> = seconds.iter().map(|second| second.storage_waits_ns).collect();
    assert_eq!(waits, [1_750_000_000, 1_500_000_000, 0]);
    let moved: Vec<u64> = seconds
        .iter()
        .map(|second| second.storage_device[1].as_ref().map_or(0, |device| device.count()))
        .collect();
    assert_eq!(moved, [0, 1, 0]);
}

/// A run that ends early hands its seconds over at once, and is asked again at its end.
#[test]
fn no_second_is_handed_out_twice() {
    let measure = Measure::default();
    measure.open(Nanos::ZERO, 2 * SECOND + SECOND / 2);
    let seconds = measure.take_all_seconds(2 * SECOND + SECOND / 2, Gauges::default());
    let indices: Vec<u64> = seconds.iter().map(|second| second.index).collect();
    assert_eq!(indices, [0, 1, 2]);
    assert!(measure.take_all_seconds(9 * SECOND, Gauges::default()).is_empty());
    assert!(measure.take_seconds(9 * SECOND, Gauges::default()).is_empty());
}

#[test]
fn the_wait_for_room_is_no_part_of_a_writes_latency() {
    let measure = Measure::default();
    measure.open(Nanos::ZERO, SECOND);
    let [total, device, room] = [900, 200, 600].map(Nanos::from_ns);
    let times = OperationTimes { total, device, room, ended: MICROSECOND };
    measure.operation(Tier::Storage, Direction::Write, 4096, times);
    let metrics = measure.snapshot();
    let write = &metrics.tier(Tier::Storage).write;
    let of = |histogram: &Histogram| histogram.quantile_ns(0.5);
    assert_eq!((of(&write.total), of(&write.device)), (of_one(300), of_one(200)));
    assert_eq!(of(&write.host), of_one(100));
}

#[test]
fn the_window_has_each_operation_once_whether_its_second_is_over_or_not() {
    let measure = Measure::default();
    measure.open(SECOND, 4 * SECOND);
    let all = |measure: &Measure| measure.snapshot().tier(Tier::Storage).read.total.clone();
    let mut expected = Histogram::new();
    for (number, at_ms) in [500, 1_000, 1_500, 1_999, 2_000, 3_700, 3_999, 4_000].iter().enumerate()
    {
        let at = Nanos::from_ms(*at_ms);
        let total = Nanos::from_us(10 * number as u64 + 1);
        let times = OperationTimes { total, device: total, room: Nanos::ZERO, ended: at };
        measure.operation(Tier::Storage, Direction::Read, 4096, times);
        if SECOND <= at && at < 4 * SECOND {
            expected.record(total.as_ns());
        }
        assert!(all(&measure) == expected, "at {at_ms} ms");
    }
    assert_eq!(expected.count(), 6);
    let seconds = measure.take_all_seconds(9 * SECOND, Gauges::default());
    let of_second = |second: &Second| {
        let reads = &second.tiers[Tier::Storage.index()][Direction::Read as usize];
        reads.latency.as_ref().map_or(0, |latency| latency.count())
    };
    assert_eq!(seconds.iter().map(of_second).collect::<Vec<_>>(), [3, 1, 2]);
    assert!(all(&measure) == expected, "after its seconds were taken");
    measure.open(9 * SECOND, 10 * SECOND);
    assert_eq!(all(&measure).count(), 0);
}

#[test]
fn who_did_not_wait_is_among_those_who_did() {
    let measure = Measure::default();
    measure.open(SECOND, 2 * SECOND);
    for (wait_us, for_buffer, at) in
        [(0, false, 1), (7, false, 1), (0, false, 1), (0, true, 1), (0, false, 2), (0, true, 0)]
    {
        measure.ticket_wait(Nanos::from_us(wait_us), for_buffer, at * SECOND);
    }
    let waits = &measure.snapshot().waits;
    assert_eq!((waits.queue_place.count(), waits.buffer.count()), (3, 1));
    assert_eq!(waits.queue_place.sum_ns(), 7_000);
    assert_eq!((waits.buffer.max_ns(), waits.queue_place.max_ns()), (Some(0), Some(7_000)));
    measure.open(2 * SECOND, 3 * SECOND);
    assert_eq!(measure.snapshot().waits.queue_place.count(), 0);
}

fn of_one(value_ns: u64) -> Option<u64> {
    let mut histogram = Histogram::new();
    histogram.record(value_ns);
    histogram.quantile_ns(0.5)
}
