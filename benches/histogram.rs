//! What recording one latency costs, and merging two shards' histograms.
//!
//! `cargo bench -p ringfall-engine --bench histogram`; `cargo test --benches` runs it once, small.

use std::hint::black_box;

use criterion::Criterion;
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

fn histogram_bench(criterion: &mut Criterion) {
    let latencies_ns = latencies_ns(4096);
    let mut histogram = Histogram::new();
    let mut next = latencies_ns.iter().cycle();
    criterion.bench_function("histogram/record", |b| {
        b.iter(|| histogram.record(black_box(*next.next().unwrap_or(&0))));
    });
    let other = histogram.clone();
    criterion.bench_function("histogram/merge", |b| b.iter(|| histogram.merge(black_box(&other))));
    criterion.bench_function("histogram/new", |b| b.iter(Histogram::new));
}

/// Median over rounds of the mean cost of a record, without the harness's cost per call.
fn print_record_cost(rounds: usize) {
    let latencies_ns = latencies_ns(1 << 16);
    let mut histogram = Histogram::new();
    let mut costs_ns: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = monotonic_now();
            for latency_ns in &latencies_ns {
                histogram.record(*latency_ns);
            }
            (monotonic_now() - start).as_ns_f64() / latencies_ns.len() as f64
        })
        .collect();
    assert_eq!(black_box(&histogram).count(), (rounds * latencies_ns.len()) as u64);
    costs_ns.sort_unstable_by(f64::total_cmp);
    println!("record: {:.2} ns", costs_ns[costs_ns.len() / 2]);
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let mut criterion = Criterion::default().configure_from_args();
    histogram_bench(&mut criterion);
    criterion.final_summary();
    print_record_cost(if measuring { 101 } else { 1 });
}
