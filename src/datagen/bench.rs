//! Benchmark of making content, beside the limits of memory itself: copies of the same size, and a
//! buffer that is made once and handed out again and again.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfall_engine::buffer::ChunkPool;
use ringfall_engine::clock::{Nanos, monotonic_now};
use ringfall_engine::fill::{self, ContentName, VerifyMode};
use ringfall_engine::key::{EntryKey, mix64};
use ringfall_engine::units::{BLOCK_BYTES, MIB};
use serde::Serialize;

use super::DatagenError;

/// A buffer that stays in a core's cache, bytes: half of the second-level cache of servers made
/// since 2021.
const CACHED_BYTES: usize = MIB as usize;
/// The buffer that is made once, bytes: the reference benchmark's, whose entries all come from it.
const REUSED_BYTES: usize = 256 * MIB as usize;

/// Measurements of `datagen bench`, and their length.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    /// Length of a chunk, bytes, a multiple of 4 KiB.
    pub chunk_bytes: usize,
    /// Numbers of threads to measure with, each in turn.
    pub threads: Vec<u32>,
    /// Length of each trial.
    pub duration: Duration,
    /// Trials of each measurement; the median counts.
    pub trials: u32,
}

/// Rate of one way to make content, with one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Name of what was measured, as in the table.
    pub what: &'static str,
    /// Threads that did it at the same time.
    pub threads: u32,
    /// Bytes per second, all threads together: the median of the trials.
    pub bytes_per_s: f64,
    /// Rate of the slowest trial, bytes per second.
    pub bytes_per_s_min: f64,
    /// Rate of the fastest trial, bytes per second.
    pub bytes_per_s_max: f64,
}

impl Rate {
    /// Summarises trials, at least one.
    pub(super) fn of(what: &'static str, threads: u32, mut trials: Vec<f64>) -> Rate {
        trials.sort_by(f64::total_cmp);
        let last = trials.len() - 1;
        Rate {
            what,
            threads,
            bytes_per_s: f64::midpoint(trials[last / 2], trials[last.div_ceil(2)]),
            bytes_per_s_min: trials[0],
            bytes_per_s_max: trials[last],
        }
    }
}

/// Operation that a thread repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    Fill,
    FillCached,
    Verify,
    Copy,
    Reuse,
}

impl Task {
    const ALL: [Task; 5] = [Task::Fill, Task::FillCached, Task::Verify, Task::Copy, Task::Reuse];

    const fn name(self) -> &'static str {
        match self {
            Task::Fill => "fresh content in memory",
            Task::FillCached => "fresh content in the cache",
            Task::Verify => "comparing in memory",
            Task::Copy => "memcpy in memory",
            Task::Reuse => "copies of a reused buffer",
        }
    }
}

/// Measures everything with each number of threads.
///
/// # Errors
/// There is too little memory; it was told to end.
pub fn bench(
    settings: &BenchSettings,
    goes_on: &(dyn Fn(&'static str) -> bool + Sync),
) -> Result<Vec<Rate>, DatagenError> {
    let reused = pool(REUSED_BYTES, 1)?;
    let mut made = reused.take_wait();
    fill::fill(made.bytes_mut(), &NAME, 0);
    let mut rates = Vec::new();
    for &threads in &settings.threads {
        for task in Task::ALL {
            let mut trials = Vec::new();
            for _ in 0..settings.trials {
                if !goes_on(task.name()) {
                    return Err(DatagenError::Interrupted);
                }
                trials.push(trial(settings, task, threads, made.bytes())?);
            }
            rates.push(Rate::of(task.name(), threads, trials));
        }
    }
    Ok(rates)
}

const NAME: ContentName = ContentName { seed: 1, key: EntryKey(1), version: 0 };

fn pool(bytes: usize, count: u32) -> Result<ChunkPool, DatagenError> {
    ChunkPool::new(bytes, count).map_err(|error| {
        DatagenError::Lacks(format!("{}: lower --chunk-mib or --threads", error.what()))
    })
}

/// Bytes per second of all threads in one trial.
fn trial(
    settings: &BenchSettings,
    task: Task,
    threads: u32,
    reused: &[u8],
) -> Result<f64, DatagenError> {
    let buffers = pool(settings.chunk_bytes, threads * 2)?;
    // One more than the threads: this one, which takes the time.
    let barrier = Barrier::new(threads as usize + 1);
    let is_over = AtomicBool::new(false);
    let (bytes, elapsed) = std::thread::scope(|scope| -> Result<(u64, Nanos), DatagenError> {
        let mut workers = Vec::new();
        for number in 0..threads {
            let (mut to, mut from) = (buffers.take_wait(), buffers.take_wait());
            let work = {
                let (barrier, is_over) = (&barrier, &is_over);
                move || {
                    // Every page is there before time is taken.
                    to.bytes_mut().fill(1);
                    fill::fill(from.bytes_mut(), &NAME, 0);
                    barrier.wait();
                    let mut bytes = 0;
                    let mut round = u64::from(number) << 32;
                    while !is_over.load(Ordering::Relaxed) {
                        bytes += do_once(task, to.bytes_mut(), from.bytes(), reused, round);
                        round += 1;
                    }
                    bytes
                }
            };
            let builder = std::thread::Builder::new().name("ringfall-bench".to_owned());
            match builder.spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    is_over.store(true, Ordering::Relaxed);
                    // Those that are there wait for the others: in their place.
                    for _ in workers.len()..threads as usize {
                        scope.spawn(|| barrier.wait());
                    }
                    barrier.wait();
                    let what = format!("no thread can be started ({error})");
                    return Err(DatagenError::Lacks(format!("{what}: give fewer --threads")));
                }
            }
        }
        barrier.wait();
        let began = monotonic_now();
        std::thread::sleep(settings.duration);
        is_over.store(true, Ordering::Relaxed);
        let bytes = workers.into_iter().map(|worker| match worker.join() {
            Ok(bytes) => bytes,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let bytes = bytes.sum();
        // To the end of the last round: all its bytes count.
        Ok((bytes, monotonic_now() - began))
    })?;
    Ok(bytes as f64 / elapsed.as_secs_f64())
}

/// One round; the bytes that it made, copied or compared.
fn do_once(task: Task, to: &mut [u8], from: &[u8], reused: &[u8], round: u64) -> u64 {
    let cached = CACHED_BYTES.min(to.len());
    let first_block = (round & 0xffff_ffff) * (to.len() as u64 / BLOCK_BYTES);
    match task {
        Task::Fill => fill::fill_for_device(to, &NAME, first_block),
        Task::FillCached => {
            for part in 0..to.len() / cached {
                let first = first_block + (part * cached) as u64 / BLOCK_BYTES;
                fill::fill(&mut to[..cached], &NAME, first);
            }
        }
        Task::Verify => {
            let report = fill::verify(VerifyMode::Full, from, &NAME, 0);
            assert_eq!(report.blocks_bad, 0, "what was made a moment ago is as it was made");
        }
        Task::Copy => to.copy_from_slice(from),
        Task::Reuse => {
            let length = to.len().min(reused.len());
            // Where the name's hash says, as the reference's generator does.
            let places = (reused.len() - length) as u64 + 1;
            let start = (mix64(round) % places) as usize;
            to[..length].copy_from_slice(&reused[start..start + length]);
            return std::hint::black_box(length as u64);
        }
    }
    let bytes = match task {
        Task::FillCached => to.len() / cached * cached,
        _ => to.len(),
    };
    // The compiler must not find out that nobody reads it.
    std::hint::black_box(&to[0]);
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_trials_counts() {
        let rate = Rate::of("x", 1, vec![3.0, 1.0, 2.0]);
        assert_eq!((rate.bytes_per_s, rate.bytes_per_s_min, rate.bytes_per_s_max), (2.0, 1.0, 3.0));
        assert!((Rate::of("x", 1, vec![4.0, 1.0, 2.0, 3.0]).bytes_per_s - 2.5).abs() < 1e-12);
        assert!((Rate::of("x", 1, vec![4.0]).bytes_per_s - 4.0).abs() < 1e-12);
    }

    #[test]
    fn each_round_does_what_its_bytes_say() {
        let made = |round| {
            let mut made = vec![0; 8192];
            let reused = vec![7; 16_384];
            assert_eq!(do_once(Task::Fill, &mut made, &[], &reused, round), 8192);
            made
        };
        assert_ne!(made(0), made(1));
        let mut to = vec![0; 8192];
        assert_eq!(do_once(Task::Copy, &mut to, &made(0), &[], 5), 8192);
        assert_eq!(to, made(0));
        assert_eq!(do_once(Task::Reuse, &mut to, &[], &vec![7; 16_384], 5), 8192);
        assert_eq!(to, vec![7; 8192]);
    }
}
