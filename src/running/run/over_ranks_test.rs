use std::path::Path;
use std::time::{Duration, Instant};

use ringfall_core::clock::{MILLISECOND, SECOND};
use ringfall_host::Scratch;
use ringfall_workloads::autoscale::{Answer, Mode, StorageTargets};

use super::*;
use crate::group::tests::{eventually, join};

const RANKS: u32 = 3;
/// Bandwidth limit of the modelled system, and demand of one user, bytes/s.
const LIMIT: u64 = 900_000_000;
const USER: u64 = 10_000_000;

fn settings() -> Settings {
    Settings {
        mode: Mode::Capacity,
        users_wait: true,
        has_memory_tier: false,
        initial_users: 2,
        users_min: 1,
        users_max: 10_000,
        scale_up_factor: 2.0,
        scale_down_factor: 0.5,
        target_saturation: 0.8,
        targets_ns: [SECOND.as_ns(); 3],
        rule: None,
        storage: StorageTargets {
            read_p95_ns: SECOND.as_ns(),
            write_p95_ns: SECOND.as_ns(),
            queue_depth: 100,
        },
    }
}

fn groups(common: &Path) -> Vec<Arc<Group>> {
    let join = |rank| Arc::new(join(common, rank, RANKS));
    let groups: Vec<Arc<Group>> = (0..RANKS).map(join).collect();
    groups.iter().for_each(|group| group.ready());
    for group in &groups {
        eventually(|| group.begins());
    }
    groups
}

fn sample(bytes: u64, latency_ns: u64) -> Sample<LatencySet> {
    let mut sample: Sample<LatencySet> =
        Sample { length_ns: SECOND.as_ns(), storage_bytes: bytes, ..Sample::default() };
    sample.judged_bytes = bytes;
    sample.read.0.record(latency_ns);
    // As many requests as a search for the peak waits for.
    (0..100).for_each(|_| sample.classes[1].0.record(latency_ns));
    sample
}

/// Ranks that hear of each decision at another time find what all of them together can do, and have
/// the same number of users in the end.
#[test]
fn ranks_find_together_what_no_one_of_them_sees() {
    let common = Scratch::new("over-ranks");
    let groups = groups(&common);
    let of = |group: &Arc<Group>| OverRanks::new(Arc::clone(group), settings(), None);
    let mut ranks: Vec<OverRanks> = groups.iter().map(of).collect();
    let (mut second, mut users_most, mut is_over) = (0, 0, vec![false; RANKS as usize]);
    let began = Instant::now();
    while !is_over.iter().all(|&is_over| is_over) {
        assert!(began.elapsed() < Duration::from_secs(60), "no end after {second} s");
        // What is asked for, and what is served of it.
        let asked: Vec<u64> = ranks.iter().map(|rank| u64::from(rank.users()) * USER).collect();
        let all: u64 = asked.iter().sum();
        users_most = users_most.max(all / USER);
        for (rank, asked) in ranks.iter_mut().zip(&asked) {
            rank.add(second, sample(asked * LIMIT.min(all) / all, 5 * MILLISECOND.as_ns()));
        }
        second += 1;
        // A tenth of the time that it would take: some hear it in the next second only.
        for _ in 0..10 {
            for (rank, is_over) in ranks.iter_mut().zip(&mut is_over) {
                *is_over |= rank.decide(second) == Decision::Stop;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(ranks.iter().all(|rank| rank.told.decision == ranks[0].told.decision));
    let all: u32 = ranks.iter().map(OverRanks::users).sum();
    assert_eq!(all, ranks[0].told.users);
    assert!(users_most > LIMIT / USER, "the limit was passed");
    assert!(ranks[1].conclude().is_none() && ranks[2].conclude().is_none());
    let found = ranks[0].conclude().unwrap();
    let Answer::Capacity(Some(answer)) = found.answer else { panic!("{found:?}") };
    let error = answer.peak_bytes_per_s / LIMIT as f64 - 1.0;
    assert!(error.abs() < 0.01, "{answer:?}");
    assert!((80..=100).contains(&answer.peak_users), "{answer:?}");
    groups.iter().for_each(|group| group.leave());
}

#[test]
fn a_second_is_the_same_at_its_other_end() {
    let mut sample = sample(77, 3 * MILLISECOND.as_ns());
    sample.write_device.0.record(9 * MILLISECOND.as_ns());
    sample.open[2].0.record(8 * SECOND.as_ns());
    sample.time.queue_ns = 5;
    let second = Second { decision: 4, sample };
    let bytes = serde_json::to_vec(&vec![(8_u64, &second)]).unwrap();
    let back: Vec<(u64, Second)> = serde_json::from_slice(&bytes).unwrap();
    let (index, back) = (back[0].0, &back[0].1);
    assert_eq!((index, back.decision, back.sample.storage_bytes), (8, 4, 77));
    assert_eq!(back.sample.read.0.sum_ns(), second.sample.read.0.sum_ns());
    let median = |second: &Second| second.sample.write_device.quantile_ns(0.5);
    assert_eq!(median(back), median(&second));
    // The open requests of several ranks are judged together.
    let mut sum = back.sample.clone();
    add(&mut sum, &second.sample);
    assert_eq!(sum.open.each_ref().map(Latencies::count), [0, 0, 2]);
    assert_eq!((back.sample.write.count(), back.sample.time), (0, second.sample.time));
}
