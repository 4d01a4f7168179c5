//! Simulates whole systems whose drives and GPUs fail in ways that a seed decides, and checks that
//! every fault is noticed and nothing is lost:
//! `cargo run --release -p ringfall-faults -- --seeds 0..10000`.

mod check;
mod fate;
mod flaws;
mod promises;
mod scenario;
mod stranger;
mod system;
mod way;

use std::fmt::Write as _;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use ringfall_core::units::gib;
use ringfall_doubles::GpuFlawCounts;
use ringfall_running::run::Ending;

use system::FaultRun;

/// Number of failures that are described one by one.
const FAILURES_SHOWN: usize = 20;

/// Tests ringfall itself: simulates whole systems whose drives fail in ways that a seed decides.
#[derive(Debug, Parser)]
struct Args {
    /// One seed, or a range of seeds, which includes FIRST but not END
    #[arg(long, value_name = "FIRST..END", default_value = "0..1000", value_parser = range)]
    seeds: Range<u64>,
    /// Number of systems to simulate at the same time, 1 to 1024; one per core when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

#[derive(Default)]
struct Sums {
    runs: u64,
    requests: u64,
    cancelled: u64,
    failing: u64,
    short: u64,
    empty: u64,
    damaged: u64,
    wrong_blocks: u64,
    gpu: GpuFlawCounts,
    gpus_lost: u64,
    drives_lost: u64,
    incidents: u64,
    steps: u64,
    /// Read and written past host memory.
    direct_bytes: [u64; 2],
    complete: u64,
    interrupted: u64,
    failed: u64,
    /// Runs whose results were handed over before they had ended.
    kept: u64,
    failures: Vec<(u64, String)>,
}

impl Sums {
    fn add(&mut self, seed: u64, result: Result<FaultRun, String>) {
        self.runs += 1;
        match result {
            Ok(run) => {
                self.requests += run.requests;
                self.cancelled += run.cancelled;
                self.failing += run.flaws.failures();
                self.short += run.flaws.short.iter().sum::<u64>();
                self.empty += run.flaws.empty.iter().sum::<u64>();
                self.damaged += run.flaws.damaged_ios;
                self.wrong_blocks += run.flaws.wrong_blocks;
                self.gpu.failed += run.gpu_flaws.failed;
                self.gpu.wrong_blocks += run.gpu_flaws.wrong_blocks;
                self.gpu.late += run.gpu_flaws.late;
                self.gpus_lost += u64::from(run.is_gpu_lost);
                self.drives_lost += run.lost_drives;
                self.incidents += run.incidents.len() as u64;
                self.steps += run.steps;
                for (sum, bytes) in self.direct_bytes.iter_mut().zip(run.direct_bytes) {
                    *sum += bytes;
                }
                match run.ending {
                    Ending::Complete => self.complete += 1,
                    Ending::Interrupted => self.interrupted += 1,
                    Ending::Failed(_) => self.failed += 1,
                }
                self.kept += u64::from(run.is_kept);
            }
            Err(what) => self.failures.push((seed, what)),
        }
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let (first, end) = (args.seeds.start, args.seeds.end);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, |threads| threads as usize);
    let began = Instant::now();
    let next = AtomicU64::new(first);
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| -> std::io::Result<()> {
        for _ in 0..threads {
            let worker = || {
                loop {
                    let after = |seed| (seed < end).then(|| seed + 1);
                    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
                    let Ok(seed) = taken else { return };
                    let result = system::run(seed);
                    sums.lock().unwrap_or_else(PoisonError::into_inner).add(seed, result);
                }
            };
            let builder = std::thread::Builder::new().name("ringfall-faults".to_owned());
            if let Err(error) = builder.spawn_scoped(scope, worker) {
                // The others need not go on.
                next.store(end, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    })
    .context("cannot start that many threads: give fewer --threads")?;
    let mut sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    sums.failures.sort();
    print!("{}", page_of(&sums, began.elapsed().as_secs_f64()));
    Ok(if sums.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the summary that is printed at the end.
fn page_of(sums: &Sums, seconds: f64) -> String {
    let mut page = String::new();
    let _infallible = writeln!(
        page,
        "{} systems in {:.1} s: {} requests, {} operations abandoned halfway, {} steps\n\
         drives: {} I/Os failed, {} were cut short, {} moved nothing, {} were damaged or \
         misdirected; {} wrong blocks read; {} drives lost\n\
         GPUs: {} jobs failed, {} were late, {} returned wrong bytes; {} GPUs lost; {:.2} GiB read \
         and {:.2} GiB written directly between GPU memory and storage\n\
         runs: {} completed, {} were interrupted, {} failed, in {} incidents; {} reported their \
         results early",
        sums.runs,
        seconds,
        sums.requests,
        sums.cancelled,
        sums.steps,
        sums.failing,
        sums.short,
        sums.empty,
        sums.damaged,
        sums.wrong_blocks,
        sums.drives_lost,
        sums.gpu.failed,
        sums.gpu.late,
        sums.gpu.wrong_blocks,
        sums.gpus_lost,
        gib(sums.direct_bytes[0]),
        gib(sums.direct_bytes[1]),
        sums.complete,
        sums.interrupted,
        sums.failed,
        sums.incidents,
        sums.kept
    );
    for (seed, what) in sums.failures.iter().take(FAILURES_SHOWN) {
        let _infallible = writeln!(
            page,
            "seed {seed}: {what}\n  again: cargo run --release -p ringfall-faults -- --seeds {seed}"
        );
    }
    if sums.failures.is_empty() {
        page.push_str("every fault was noticed, and nothing was lost\n");
    } else {
        let _infallible = writeln!(
            page,
            "{} systems did not hold; the sums above leave them out",
            sums.failures.len()
        );
    }
    page
}

/// Parses `N` or `FIRST..END`.
fn range(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((first, end)) => number(first).zip(number(end)),
        None => number(text).and_then(|seed| Some((seed, seed.checked_add(1)?))),
    };
    let range = range.map(|(first, end)| first..end).filter(|range| !range.is_empty());
    range.ok_or_else(|| "give one seed, or a range without its end (0..1000)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!(range("7").unwrap(), 7..8);
        assert_eq!(range("0..10").unwrap(), 0..10);
        for wrong in ["", "x", "3..3", "5..2", "-1", "1...2", &u64::MAX.to_string()] {
            range(wrong).unwrap_err();
        }
    }
}
