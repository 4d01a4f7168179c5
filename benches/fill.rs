//! How fast content is made and checked in a cache-hot buffer, per implementation, beside memcpy.
//!
//! `cargo bench -p ringfall-engine --bench fill`; `cargo test --benches` runs it once, small.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ringfall_engine::clock::{Nanos, monotonic_now};
use ringfall_engine::fill::{ContentName, Implementation, VerifyMode, fill_with, verify_with};
use ringfall_engine::key::EntryKey;

/// What one I/O moves: fits in L2.
const BUFFER_BYTES: usize = 1 << 20;
const NAME: ContentName = ContentName { seed: 1, key: EntryKey(2), version: 3 };

fn supported() -> impl Iterator<Item = Implementation> {
    Implementation::ALL.into_iter().filter(|path| path.is_supported())
}

fn fill_bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fill_1MiB");
    group.throughput(Throughput::Bytes(BUFFER_BYTES as u64));
    let (source, mut buffer) = (vec![1u8; BUFFER_BYTES], vec![0u8; BUFFER_BYTES]);
    group.bench_function("memcpy", |b| b.iter(|| black_box(&mut buffer).copy_from_slice(&source)));
    for path in supported() {
        group.bench_function(path.name(), |b| {
            b.iter(|| fill_with(path, black_box(&mut buffer), black_box(&NAME), 0));
        });
    }
    group.finish();
}

fn verify_bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("verify_1MiB");
    group.throughput(Throughput::Bytes(BUFFER_BYTES as u64));
    let mut buffer = vec![0u8; BUFFER_BYTES];
    fill_with(Implementation::best(), &mut buffer, &NAME, 0);
    group.bench_function("sample", |b| {
        let path = Implementation::best();
        b.iter(|| verify_with(path, VerifyMode::Sample, black_box(&buffer), &NAME, 0));
    });
    for path in supported() {
        group.bench_function(format!("full/{}", path.name()), |b| {
            b.iter(|| verify_with(path, VerifyMode::Full, black_box(&buffer), &NAME, 0));
        });
    }
    group.finish();
}

/// Median time of one call, from rounds that alternate between the candidates, so that a change of
/// the machine's speed meets them all alike.
fn alternating_medians(calls: &mut [&mut dyn FnMut()], rounds: usize) -> Vec<Nanos> {
    const CALLS_PER_ROUND: u64 = 50;
    let mut times = vec![Vec::with_capacity(rounds); calls.len()];
    for _ in 0..rounds {
        for (call, times) in calls.iter_mut().zip(&mut times) {
            let start = monotonic_now();
            for _ in 0..CALLS_PER_ROUND {
                call();
            }
            times.push((monotonic_now() - start) / CALLS_PER_ROUND);
        }
    }
    let median = |mut times: Vec<Nanos>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    times.into_iter().map(median).collect()
}

/// One line a path: GB/s to fill and to check fully, and the ratio of filling to memcpy.
fn print_ratios(rounds: usize) {
    let source = vec![1u8; BUFFER_BYTES];
    let mut target = vec![0u8; BUFFER_BYTES];
    for path in supported() {
        let mut filled = vec![0u8; BUFFER_BYTES];
        let mut checked = vec![0u8; BUFFER_BYTES];
        fill_with(path, &mut checked, &NAME, 0);
        let medians = alternating_medians(
            &mut [
                &mut || black_box(&mut target).copy_from_slice(black_box(&source)),
                &mut || fill_with(path, black_box(&mut filled), black_box(&NAME), 0),
                &mut || {
                    let checked = black_box(&checked);
                    let report = verify_with(path, VerifyMode::Full, checked, &NAME, 0);
                    assert_eq!(report.blocks_bad, 0);
                },
            ],
            rounds,
        );
        let gb_s = |time: &Nanos| BUFFER_BYTES as f64 / time.as_ns().max(1) as f64;
        let rates: Vec<f64> = medians.iter().map(gb_s).collect();
        println!(
            "ratio {}: fill {:.1} GB/s, verify full {:.1} GB/s, memcpy {:.1} GB/s, \
             fill/memcpy {:.2}",
            path.name(),
            rates[1],
            rates[2],
            rates[0],
            rates[1] / rates[0],
        );
    }
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let mut criterion = Criterion::default().configure_from_args();
    fill_bench(&mut criterion);
    verify_bench(&mut criterion);
    criterion.final_summary();
    print_ratios(if measuring { 101 } else { 1 });
}
