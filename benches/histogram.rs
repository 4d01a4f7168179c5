//! Cost of recording one latency, and of merging two shards' histograms.
//!
//! `cargo bench -p ringfall-engine --bench histogram`; `cargo test --benches` runs it once, small.

use std::hint::black_box;

use ringfall_engine::clock::monotonic_now;
use ringfall_engine::key::mix64;
use ringfall_engine::metrics::Histogram;

/// Latencies from 2^10 to 2^24 ns (1 µs to 17 ms), every magnitude as likely as the others.
fn latencies_ns(count: usize) -> Vec<u64> {
    (0..count as u64)
        .map(|i| {
            let bits = mix64(i);
            (1024 | (bits & 1023)) << ((bits >> 32) % 14)
        })
        .collect()
}

/// Median over rounds of the mean time of a call, ns.
fn median_ns(rounds: usize, calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let mut times_ns: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = monotonic_now();
            for number in 0..calls {
                call(number);
            }
            (monotonic_now() - start).as_ns_f64() / calls as f64
        })
        .collect();
    times_ns.sort_unstable_by(f64::total_cmp);
    times_ns[times_ns.len() / 2]
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let rounds = if measuring { 101 } else { 1 };
    let latencies_ns = latencies_ns(1 << 16);
    let mut histogram = Histogram::new();
    let record = median_ns(rounds, latencies_ns.len(), |n| histogram.record(latencies_ns[n]));
    assert_eq!(black_box(&histogram).count(), (rounds * latencies_ns.len()) as u64);
    println!("record: {record:.2} ns");
    let mut merged = Histogram::new();
    let merge = median_ns(rounds, 100, |_| merged.merge(black_box(&histogram)));
    assert_eq!(merged.count(), histogram.count() * (rounds * 100) as u64);
    println!("merge: {merge:.0} ns");
    let new = median_ns(rounds, 100, |_| drop(black_box(Histogram::new())));
    println!("new: {new:.0} ns");
}
