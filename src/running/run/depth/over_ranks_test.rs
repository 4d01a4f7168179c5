use std::path::Path;

use ringfall_core::clock::SECOND;
use ringfall_host::Scratch;
use ringfall_model::facts::tried_depths;

use super::*;
use crate::group::tests::{eventually, join};

const RANKS: u32 = 3;
const QUEUES: u32 = 2;
/// One drive for all ranks: so many I/Os a second of so many bytes, none faster than its latency.
const PER_S_MAX: f64 = 24_000.0;
const LATENCY_US: f64 = 1_000.0;
const IO_BYTES: u64 = 1_000_000;
const WARMUP: (Nanos, Nanos) = (SECOND, Nanos::from_secs(51));

fn groups(common: &Path) -> Vec<Arc<Group>> {
    (0..RANKS).map(|rank| Arc::new(join(common, rank, RANKS))).collect()
}

fn tuning(group: &Arc<Group>) -> Tuning {
    let tuner = Tuner::new([64, 512, 32], QUEUES, WARMUP);
    Tuning::with_ranks(tuner, Arc::clone(group), QUEUES, WARMUP)
}

/// I/Os of one rank in `length` when all had that depth.
fn interval(depth: u32, length: Nanos) -> IoInterval {
    let in_flight = f64::from(depth * QUEUES * RANKS);
    let per_s = (in_flight * 1e6 / LATENCY_US).min(PER_S_MAX);
    let mut interval = IoInterval { length, ..IoInterval::default() };
    let ios = (per_s * length.as_secs_f64() / f64::from(RANKS)) as u64;
    (0..ios).for_each(|_| interval.latency.record((in_flight / per_s * 1e9) as u64));
    interval.bytes = ios * IO_BYTES;
    interval
}

#[test]
fn ranks_choose_one_depth_by_what_they_do_together() {
    let common = Scratch::new("depth-one");
    let groups = groups(&common);
    let mut ranks: Vec<Tuning> = groups.iter().map(tuning).collect();
    let (mut now, mut began, mut depth) = (SECOND, SECOND, 0);
    while ranks[0].figures().is_none() {
        let (first, others) = ranks.split_at_mut(1);
        // While answers are on their way no time passes, as little does.
        let order = eventually(|| {
            others.iter_mut().for_each(|rank| assert_eq!(rank.next(now, 1), None));
            first[0].next(now, 1).or_else(|| {
                let due = first[0].due();
                now = if due < WARMUP.1 - Nanos::from_secs(2) { now.max(due) } else { now };
                None
            })
        });
        for rank in others.iter_mut() {
            assert_eq!(eventually(|| rank.next(now, 1)), order);
        }
        match order {
            TunerOrder::Depth(tried) => depth = tried,
            TunerOrder::Begin => began = now,
            TunerOrder::End => {
                ranks.iter_mut().for_each(|rank| rank.add(&interval(depth, now - began)));
            }
        }
    }
    let found = ranks[0].figures().unwrap().clone();
    // 24 in flight of 1 ms each are 4 in each of 6 queues.
    assert_eq!((found.chosen, found.reason), (4, DepthReason::Knee), "{found:?}");
    assert_eq!((found.ranks, found.queues), (Some(RANKS), RANKS * QUEUES));
    let tried = tried_depths(&found.steps);
    let here = tried.iter().find(|tried| tried.depth == 4).unwrap();
    let all = PER_S_MAX * IO_BYTES as f64;
    assert!((here.bytes_per_s / all - 1.0).abs() < 0.01, "{here:?}");
    for rank in &mut ranks {
        assert_eq!(rank.figures(), Some(&found));
        assert_eq!(rank.next(now, 1), None);
    }
}

#[test]
fn a_rank_that_hears_nothing_says_so_and_keeps_its_depth() {
    let common = Scratch::new("depth-nothing");
    let groups = groups(&common);
    let mut rank = tuning(&groups[1]);
    assert_eq!(rank.next(WARMUP.1 - SECOND, 1), None);
    assert_eq!(rank.next(WARMUP.1, 1), Some(TunerOrder::Depth(64)));
    let found = rank.figures().unwrap();
    assert_eq!((found.chosen, found.reason), (64, DepthReason::NoAnswer));
    assert!(found.told().contains("a rank did not answer"), "{}", found.told());
}

#[test]
fn an_interval_that_a_rank_heard_of_too_late_is_measured_again() {
    let common = Scratch::new("depth-late");
    let groups = groups(&common);
    let (mut lead, mut late) = (tuning(&groups[0]), tuning(&groups[1]));
    let mut now = WARMUP.0;
    let first = lead.next(now, 1).unwrap();
    for order in [TunerOrder::Begin, TunerOrder::End] {
        now = lead.due();
        assert_eq!(lead.next(now, 1), Some(order));
    }
    lead.add(&interval(64, SECOND));
    // Of all that was said it hears the last word.
    let heard = eventually(|| late.next(WARMUP.0, 1));
    assert_eq!(heard, first);
    late.next(WARMUP.0, 1);
    let again = eventually(|| lead.next(now, 1));
    assert_eq!(again, first, "the same depth once more");
    assert_eq!(lead.figures(), None);
    now = lead.due();
    assert_eq!(lead.next(now, 1), Some(TunerOrder::Begin));
}
