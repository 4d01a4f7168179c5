//! The raw data path on one file: our ring, our buffers, one plain thread. Prints one JSON line.
//!
//! `cargo bench -p ringfall-engine --bench data_path -- --file F --op randread --block 4096
//! --depth 32 --seconds 5`; ops: read, randread, write. Without --file: a smoke on a small file of
//! its own. `tools/beside-fio` runs it and fio in turn.

#![allow(unsafe_code, reason = "registering the pool's memory")]
#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ringfall_engine::buffer::{Buffer, BufferPool};
use ringfall_engine::clock::{Clock, Nanos, SECOND, monotonic_now};
use ringfall_engine::fill::{ContentName, fill_for_device};
use ringfall_engine::key::{EntryKey, mix64};
use ringfall_engine::ring::{IoFuture, IoKind, IoRequest, Ring, RingConfig, RingSetup};

struct Job {
    file: PathBuf,
    kind: IoKind,
    random: bool,
    block_bytes: u64,
    depth: u32,
    seconds: f64,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut value_of = std::collections::BTreeMap::new();
    while let Some(name) = args.next() {
        // Cargo passes --bench.
        if let Some(name) = name.strip_prefix("--").filter(|&name| name != "bench") {
            value_of.insert(name.to_owned(), args.next().unwrap_or_default());
        }
    }
    let get = |name: &str, default: &str| {
        value_of.get(name).cloned().unwrap_or_else(|| default.to_owned())
    };
    let number = |name: &str, default: &str| get(name, default).parse::<f64>().unwrap();
    let op = get("op", "randread");
    let job = |file: PathBuf, seconds: f64| Job {
        file,
        kind: if op == "write" { IoKind::Write } else { IoKind::Read },
        random: op == "randread",
        block_bytes: number("block", "4096") as u64,
        depth: number("depth", "32") as u32,
        seconds,
    };
    match value_of.get("file") {
        Some(file) => run(&job(PathBuf::from(file), number("seconds", "5"))),
        None => smoke(&job),
    }
}

fn smoke(job: &dyn Fn(PathBuf, f64) -> Job) {
    let name = format!("ringfall-data-path-{}", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, vec![1; 16 << 20]).unwrap();
    run(&job(file.clone(), 0.2));
    std::fs::remove_file(file).unwrap();
}

fn run(job: &Job) {
    let mut options = OpenOptions::new();
    options.read(true).write(job.kind == IoKind::Write).custom_flags(libc::O_DIRECT);
    let file = options.open(&job.file).unwrap();
    let blocks = file.metadata().unwrap().len() / job.block_bytes;
    let pool = BufferPool::new(job.block_bytes as usize, job.depth).unwrap();
    let mut setup =
        RingSetup::new(RingConfig { entries: job.depth, ..RingConfig::default() }).unwrap();
    let (start, bytes) = pool.region();
    // SAFETY: the pool outlives the ring, which is dropped first, at the end of this function.
    unsafe { setup.register_buffers(start, bytes, job.block_bytes as usize).unwrap() };
    setup.register_file(file.as_raw_fd()).unwrap();
    let ring: Ring<Buffer> = Ring::new(setup, file.as_raw_fd(), Clock::Os).unwrap();
    let name = ContentName { seed: 1, key: EntryKey(1), version: 1 };
    let mut next = 0u64;
    let mut submit = |buffer: Option<Buffer>| {
        let mut owned = buffer.unwrap_or_else(|| pool.take().unwrap());
        let block = if job.random { mix64(next) % blocks } else { next % blocks };
        next += 1;
        if job.kind == IoKind::Write {
            // Fresh bytes each time, as the engine writes them; fio refills likewise when asked.
            fill_for_device(owned.bytes_mut(), &name, next * (job.block_bytes / 4096));
        }
        let request = IoRequest {
            kind: job.kind,
            offset_bytes: block * job.block_bytes,
            length_bytes: job.block_bytes as u32,
            buffer_offset: 0,
        };
        ring.push(request, Some(owned))
    };
    let cpu_before = cpu_seconds();
    let began = monotonic_now();
    let end = began + Nanos::from_ns_f64(job.seconds * SECOND.as_ns_f64());
    let mut flying: Vec<IoFuture<Buffer>> = (0..job.depth).map(|_| submit(None)).collect();
    let cx = &mut Context::from_waker(Waker::noop());
    let mut done = 0u64;
    let mut last = began;
    while last < end {
        ring.wait().unwrap();
        for future in &mut flying {
            if let Poll::Ready((completion, owned)) = Pin::new(&mut *future).poll(cx) {
                assert_eq!(completion.result as u64, job.block_bytes);
                done += 1;
                last = completion.completed;
                *future = submit(owned);
                ring.feed();
            }
        }
    }
    let seconds = (last - began).as_secs_f64();
    let gib = (done * job.block_bytes) as f64 / f64::from(1 << 30);
    println!(
        "{{\"gib_per_s\":{:.4},\"iops\":{:.1},\"cpu_s_per_gib\":{:.4},\"seconds\":{seconds:.2}}}",
        gib / seconds,
        done as f64 / seconds,
        (cpu_seconds() - cpu_before) / gib,
    );
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
