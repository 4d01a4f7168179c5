//! The search over described drives: a drive does no more than so many I/Os a second, and none
//! faster than its latency. What the load has to offer is another limit.

use std::cell::Cell;

use ringfall_core::clock::{MICROSECOND, Nanos, SECOND};
use ringfall_engine::shard::IoInterval;
use ringfall_model::facts::{DepthFigures, DepthReason, TriedDepth, tried_depths};

use super::{Tuner, TunerOrder};

/// Model of the drive behind the queues.
#[derive(Clone, Copy)]
struct Drive {
    per_s_max: f64,
    latency_us: f64,
    io_bytes: f64,
    /// I/Os that the load would have in flight, were there places for them.
    offered: f64,
    queues: u32,
    /// Places in each queue.
    buffers: u32,
    /// I/Os in flight from which on it does half as much for each doubling.
    slows_from: f64,
}

const NVME: Drive = Drive {
    per_s_max: 10_000.0,
    latency_us: 1_000.0,
    io_bytes: 1e6,
    offered: 1e9,
    queues: 2,
    buffers: 512,
    slows_from: f64::INFINITY,
};

impl Drive {
    fn in_flight(&self, depth: u32) -> f64 {
        f64::from(depth.min(self.buffers) * self.queues).min(self.offered)
    }

    fn per_s(&self, depth: u32) -> f64 {
        let in_flight = self.in_flight(depth);
        let slowed = (self.slows_from / in_flight).min(1.0);
        (in_flight * 1e6 / self.latency_us).min(self.per_s_max * slowed)
    }

    /// An interval at that depth, `factor` times as fast as described.
    fn interval(&self, depth: u32, length: Nanos, factor: f64) -> IoInterval {
        let per_s = self.per_s(depth) * factor;
        let in_flight = self.in_flight(depth);
        let mut interval = IoInterval { length, ..IoInterval::default() };
        let ios = (per_s * length.as_secs_f64()).round() as u64;
        let latency_ns = in_flight / per_s * 1e9;
        (0..ios).for_each(|_| interval.latency.record(latency_ns as u64));
        interval.bytes = (ios as f64 * self.io_bytes) as u64;
        // Little's law for those that wait for a place.
        let waiting = (self.offered.min(500.0) - in_flight).max(0.0);
        interval.waits = Nanos::from_ns_f64(waiting / per_s * 1e9 * ios as f64);
        interval
    }
}

/// Runs the search through a warm-up of that length; `factor` says how fast the drive is in the
/// n-th interval.
fn search(drive: Drive, deepest: u32, warmup: Nanos, factor: impl Fn(u32) -> f64) -> DepthFigures {
    let mut tuner =
        Tuner::new([deepest, drive.buffers, 64], drive.queues, (SECOND, SECOND + warmup));
    let (mut now, mut depth, mut began, mut intervals) = (SECOND, 0, SECOND, 0);
    loop {
        let told = Cell::new(0);
        while let Some(order) = tuner.next(now, 1) {
            told.set(told.get() + 1);
            assert!(told.get() < 5, "it keeps talking at one moment");
            match order {
                TunerOrder::Depth(tried) => depth = tried,
                TunerOrder::Begin => began = now,
                TunerOrder::End => {
                    tuner.add(&drive.interval(depth, now - began, factor(intervals)));
                    intervals += 1;
                }
            }
        }
        if let Some(figures) = tuner.figures() {
            assert_eq!(depth, figures.chosen, "the shards have what was chosen");
            assert!(now < SECOND + warmup, "it has its answer before the window");
            return figures.clone();
        }
        assert!(tuner.due() > now, "time goes on");
        now = tuner.due();
    }
}

fn steady(_: u32) -> f64 {
    1.0
}

/// Random number in 0..1, the n-th of that seed.
fn random(seed: u32, n: u32) -> f64 {
    let hash = n.wrapping_mul(747_796_405) ^ (seed + 1).wrapping_mul(2_891_336_453);
    let hash = (hash ^ (hash >> 15)).wrapping_mul(277_803_737);
    f64::from(hash >> 16) / 65_536.0
}

fn tried(found: &DepthFigures, depth: u32) -> TriedDepth {
    *tried_depths(&found.steps).iter().find(|tried| tried.depth == depth).unwrap()
}

const WARMUP: Nanos = Nanos::from_secs(20);

#[test]
fn it_finds_the_knee_of_a_drive_whose_queue_is_always_full() {
    // 10,000 a second of 1 ms each are 10 in flight: 5 in each queue.
    for (deepest, per_s_max, knee) in
        [(64, 10_000.0, 8), (64, 8_000.0, 4), (512, 10_000.0, 8), (100, 64_000.0, 32), (7, 2e3, 1)]
    {
        let drive = Drive { per_s_max, ..NVME };
        let found = search(drive, deepest, WARMUP, steady);
        assert_eq!((found.chosen, found.reason), (knee, DepthReason::Knee), "{found:?}");
        let (here, there) = (tried(&found, knee), tried(&found, deepest));
        assert!(here.bytes_per_s >= 0.95 * there.bytes_per_s);
        assert!(here.latency_p50_us <= there.latency_p50_us / 2.0 || knee * 2 > deepest);
        assert!(found.told().contains(&format!("depth {deepest}")), "{}", found.told());
    }
}

/// The depth was 1, since that reaches what the deepest queue does.
#[test]
fn a_drive_that_a_deep_queue_slows_down_is_held_against_its_best_depth() {
    let slowed = Drive { per_s_max: 20_000.0, slows_from: 20.0, ..NVME };
    for (deepest, chosen) in [(64, 8), (512, 8), (8, 8), (4, 4)] {
        let found = search(slowed, deepest, WARMUP, steady);
        assert_eq!(found.chosen, chosen, "{found:?}");
    }
    let told = search(slowed, 64, WARMUP, steady).told();
    assert!(told.starts_with("the depth with the most bandwidth: "), "{told}");
}

#[test]
fn a_drive_that_wants_more_than_the_deepest_queue_gets_it() {
    let found = search(Drive { per_s_max: 1e6, ..NVME }, 64, WARMUP, steady);
    assert_eq!((found.chosen, found.reason), (64, DepthReason::StillRises));
    let found = search(NVME, 1, WARMUP, steady);
    assert_eq!((found.chosen, found.reason), (1, DepthReason::StillRises));
    assert!(found.told().contains("--shards"), "{}", found.told());
}

#[test]
fn a_load_that_leaves_gaps_waits_for_no_place() {
    // Nine in flight of 1 ms each: depth 4 in each of two queues would have one wait.
    let found = search(Drive { offered: 9.0, per_s_max: 1e6, ..NVME }, 64, WARMUP, steady);
    assert_eq!(found.chosen, 8, "{found:?}");
}

#[test]
fn noise_hiccups_and_a_load_that_changes_cost_some_depth_and_no_bandwidth() {
    for (seed, spread) in (0..100u32).zip([0.03, 0.1].into_iter().cycle()) {
        let noise = |n: u32| 1.0 + spread * (2.0 * random(seed, n) - 1.0);
        let found = search(NVME, 64, WARMUP, noise);
        let share = NVME.per_s(found.chosen) / NVME.per_s_max;
        assert!(share >= 0.8, "seed {seed}: {share} at depth {}", found.chosen);
        assert!(spread > 0.05 || (4..=32).contains(&found.chosen), "{seed}: {}", found.chosen);
    }
    let hiccup = |n: u32| if n == 2 { 0.4 } else { 1.0 };
    assert_eq!(search(NVME, 64, WARMUP, hiccup).chosen, 8);
    // Two fifths slower at the end of the search than at its beginning.
    let fading = |n: u32| 1.0 / (1.0 + f64::from(n) / 40.0);
    assert_eq!(search(NVME, 64, WARMUP, fading).chosen, 8);
    // A burst makes a depth look good that is not.
    let burst = |n: u32| if n == 4 { 2.0 } else { 1.0 };
    let found = search(NVME, 64, WARMUP, burst);
    assert!(NVME.per_s(found.chosen) >= 0.95 * NVME.per_s_max, "{found:?}");
}

/// Searches took depth 1, since the depths that it was held against wrote more at that moment.
#[test]
fn a_mix_of_reads_and_writes_that_drifts_costs_no_bandwidth() {
    // Depth 1 reaches four fifths.
    let drive = Drive { per_s_max: 1_250.0, queues: 1, ..NVME };
    for seed in 0..200 {
        let drift = |n: u32| {
            let share = (0..=n)
                .fold(0.5, |share: f64, n| (share + 0.6 * (random(seed, n) - 0.5)).clamp(0.0, 1.0));
            // A byte written takes one and a half times as long as one read.
            1.0 / (share + 1.5 * (1.0 - share))
        };
        let found = search(drive, 64, WARMUP, drift);
        let told = found.told();
        assert!(found.chosen > 1, "seed {seed}: {told}");
        let figure = format!("{:.0}", tried(&found, found.chosen).bytes_per_s / f64::from(1 << 20));
        assert!(found.reason != DepthReason::Knee || told.contains(&figure), "{figure}: {told}");
    }
}

#[test]
fn where_nothing_is_moved_or_time_is_short_it_says_so() {
    let still = search(Drive { per_s_max: 0.0, ..NVME }, 128, WARMUP, steady);
    assert_eq!((still.chosen, still.reason), (64, DepthReason::TooFewIos));
    assert!(still.told().contains("nothing to judge by"), "{}", still.told());
    let short = search(NVME, 128, Nanos::from_secs(4), steady);
    assert_eq!(short.reason, DepthReason::OutOfTime, "{short:?}");
    assert!((8..=64).contains(&short.chosen));
    // However early it ends.
    for ms in (3_000..9_000).step_by(250) {
        let short = search(Drive { per_s_max: 1e6, ..NVME }, 128, Nanos::from_ms(ms), steady);
        if short.reason == DepthReason::OutOfTime {
            assert!(short.told().contains("the warm-up was over"), "{}", short.told());
            assert_eq!(short.chosen, 128, "the best that was seen: {short:?}");
        }
    }
}

#[test]
fn where_there_are_fewer_buffers_than_places_it_begins_with_those() {
    let wants_more = Drive { per_s_max: 1e6, buffers: 16, ..NVME };
    let found = search(wants_more, 64, WARMUP, steady);
    assert_eq!((found.chosen, found.reason), (16, DepthReason::StillRises));
    assert!(found.steps.iter().all(|step| step.depth <= 16), "{found:?}");
    assert!(found.told().contains("--io-buffer-mb"), "{}", found.told());
    let found = search(Drive { buffers: 16, ..NVME }, 64, WARMUP, steady);
    assert_eq!((found.chosen, found.reason), (8, DepthReason::Knee));
    let one = search(Drive { buffers: 1, ..wants_more }, 64, WARMUP, steady);
    assert!(one.told().contains("--io-buffer-mb"), "{}", one.told());
}

#[test]
fn a_shard_that_never_answers_does_not_hold_up_the_window() {
    let mut tuner = Tuner::new([64, 512, 64], 2, (SECOND, SECOND + WARMUP));
    let mut now = SECOND;
    while tuner.figures().is_none() {
        while tuner.next(now, 2).is_some() {
            // One of two.
            tuner.add(&NVME.interval(64, 100 * MICROSECOND, 1.0));
        }
        assert!(tuner.due() > now || tuner.figures().is_some());
        now = tuner.due().min(SECOND + WARMUP);
    }
    assert_eq!(tuner.figures().unwrap().reason, DepthReason::NoAnswer);
}
