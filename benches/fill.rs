//! Speed of making and checking content in a cache-hot buffer, per implementation, beside memcpy.
//!
//! `cargo bench -p ringfall-engine --bench fill`; `cargo test --benches` runs it once, small.

use std::hint::black_box;

use ringfall_engine::clock::{Nanos, monotonic_now};
use ringfall_engine::fill::{ContentName, Implementation, VerifyMode, fill_with, verify_with};
use ringfall_engine::key::EntryKey;

/// Bytes of one I/O: they fit in L2.
const BUFFER_BYTES: usize = 1 << 20;
const NAME: ContentName = ContentName { seed: 1, key: EntryKey(2), version: 3 };

fn supported() -> impl Iterator<Item = Implementation> {
    Implementation::ALL.into_iter().filter(|path| path.is_supported())
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

/// Prints the cost of checking a read in the default mode: a sample of its blocks.
fn print_sample(rounds: usize) {
    let path = Implementation::best();
    let mut checked = vec![0u8; BUFFER_BYTES];
    fill_with(path, &mut checked, &NAME, 0);
    let mut check = || {
        let report = verify_with(path, VerifyMode::Sample, black_box(&checked), &NAME, 0);
        assert_eq!(report.blocks_bad, 0);
    };
    let median = alternating_medians(&mut [&mut check], rounds)[0];
    println!("verify sample {}: {:.2} us a MiB", path.name(), median.as_ns_f64() / 1e3);
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let rounds = if measuring { 101 } else { 1 };
    print_ratios(rounds);
    print_sample(rounds);
}
