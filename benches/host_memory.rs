//! The CPU tier beside plain loops over the same memory, in GB/s a core: making an entry beside a
//! loop that stores, reading one beside a loop that loads, and both beside memcpy. And how fast
//! entries leave the tier for a drive that takes no time.
//!
//! `cargo bench -p ringfall-engine --bench host_memory`; under `cargo test` a smoke.

#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::hint::black_box;
use std::rc::Rc;

use ringfall_doubles::MemoryDevice;
use ringfall_engine::clock::{Clock, Nanos, monotonic_now};
use ringfall_engine::engine::{Engine, LocalEngine, LocalParts};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::EntryKey;
use ringfall_engine::placement::Watermarks;
use ringfall_engine::shard::{Content, Durability, ReadOutcome, Shard, WriteMode, WriteOutcome};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::MIB;

/// An entry: tens of seconds of a conversation with a large model.
const ENTRY_BYTES: u64 = 16 * MIB;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    // More than the caches of most processors hold.
    let (bytes, rounds) = if full { (512 * MIB, 9) } else { (32 * MIB, 1) };
    let mut target = vec![1u64; (bytes / 8) as usize];
    let mut copy = vec![1u64; (bytes / 8) as usize];
    let source = vec![2u64; (bytes / 8) as usize];
    let tier = Tier::new(bytes, bytes);
    // Half as large, so that each entry that is written sends another one down.
    let leaving = Tier::new(bytes / 2, bytes);
    let mut key = 0;
    let mut steps: [(&str, &mut dyn FnMut()); 6] = [
        ("store loop", &mut || store(black_box(&mut target))),
        ("load loop", &mut || {
            black_box(load(black_box(&source)));
        }),
        ("memcpy", &mut || black_box(&mut copy).copy_from_slice(black_box(&source))),
        ("make entries", &mut || tier.write(0)),
        ("read entries", &mut || tier.read(0)),
        ("make and demote entries", &mut || {
            leaving.write(key);
            key += 1;
        }),
    ];
    let mut rates = vec![Vec::with_capacity(rounds); steps.len()];
    // In turn, so that a change of the machine's speed meets them all alike.
    for round in 0..=rounds {
        for ((_, step), rates) in steps.iter_mut().zip(&mut rates) {
            let began = monotonic_now();
            step();
            let rate = bytes as f64 / (monotonic_now() - began).as_ns_f64();
            // The first round finds no page in place.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    print(&steps.map(|(name, _)| name), &rates);
}

fn print(names: &[&str], rates: &[Vec<f64>]) {
    let median = |rates: &[f64]| {
        let mut rates = rates.to_vec();
        rates.sort_by(f64::total_cmp);
        (rates[rates.len() / 2], rates[0], rates[rates.len() - 1])
    };
    for (name, rates) in names.iter().zip(rates) {
        let (middle, least, most) = median(rates);
        println!("{name:<24} {middle:>6.2} GB/s ({least:.2}..{most:.2})");
    }
    for (what, of) in [(3, 0), (4, 1)] {
        let ratios: Vec<f64> = rates[what].iter().zip(&rates[of]).map(|(a, b)| a / b).collect();
        let (middle, least, most) = median(&ratios);
        println!("ratio {} / {}: {middle:.2} ({least:.2}..{most:.2})", names[what], names[of]);
    }
}

fn store(words: &mut [u64]) {
    words.fill(black_box(7));
}

fn load(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// A shard with a CPU tier over a drive that takes no time.
struct Tier {
    engine: LocalEngine,
    entries: u64,
}

impl Tier {
    /// Opens a tier of `cpu_bytes`; a round writes or reads `round_bytes`.
    fn new(cpu_bytes: u64, round_bytes: u64) -> Tier {
        let cpu = CpuPool::new(cpu_bytes).unwrap();
        cpu.populate(0, 1).unwrap();
        let engine = Engine::builder()
            .seed(1)
            .cpu_bytes(cpu_bytes)
            .watermarks(Watermarks {
                evict_target_permille: 1000,
                skip_permille: 1000,
                ..Watermarks::default()
            })
            .storage_bytes(4 * round_bytes)
            .io_bytes(MIB)
            .queue_depth(16)
            .verify(VerifyMode::Sample)
            .durability(Durability::None)
            .local(LocalParts {
                clock: Clock::Os,
                cpu,
                device: &mut |_shard| Rc::new(MemoryDevice::null(Clock::Os)),
                content: &Content::default,
            })
            .unwrap();
        engine.shards()[0].measure().open(Nanos::ZERO, Nanos::MAX);
        Tier { engine, entries: round_bytes / ENTRY_BYTES }
    }

    /// Writes a round's entries anew, those of that round.
    fn write(&self, round: u64) {
        let entries = self.entries;
        self.run(move |shard| async move {
            for entry in 0..entries {
                let key = EntryKey(u128::from(round * entries + entry));
                let (home, mode) = (shard.id(), WriteMode::Replace);
                match shard.write(home, key, ENTRY_BYTES, mode).await {
                    WriteOutcome::Written { .. } => {}
                    other => unreachable!("{other:?}"),
                }
            }
        });
    }

    fn read(&self, round: u64) {
        let entries = self.entries;
        self.run(move |shard| async move {
            for entry in 0..entries {
                let key = EntryKey(u128::from(round * entries + entry));
                match shard.read(shard.id(), key).await {
                    ReadOutcome::Hit { .. } => {}
                    other => unreachable!("{other:?}"),
                }
            }
        });
    }

    fn run<T: Future<Output = ()> + 'static>(&self, task: impl FnOnce(Rc<Shard>) -> T) {
        let task = task(Rc::clone(&self.engine.shards()[0]));
        self.engine.runtime().spawn(Box::pin(task));
        self.engine.run_ready();
        assert_eq!(self.engine.runtime().task_count(), 0, "all operations ended");
    }
}
