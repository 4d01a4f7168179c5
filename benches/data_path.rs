//! The path that runs take, on one file: a shard on its executor, entries of one I/O each, as many
//! at once as the queue is deep. Prints one JSON line.
//!
//! `cargo bench -p ringfall-engine --bench data_path -- --file F --op randread --block 4096
//! --depth 32 --seconds 5 --mib 256`; ops: read, randread, write. The file is overwritten. Without
//! --file: a smoke on a small file of its own. `tools/beside-fio` runs it and fio in turn.

#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ringfall_engine::clock::{Nanos, SECOND, monotonic_now};
use ringfall_engine::device::{DataFile, Preallocate};
use ringfall_engine::engine::Engine;
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::{EntryKey, ShardId, mix64};
use ringfall_engine::shard::executor::{Executor, Vitals, spawn_local};
use ringfall_engine::shard::{
    Durability, Links, Message, Notify, ReadOutcome, Shard, ShardSpec, WriteMode, WriteOutcome,
    open_shard,
};

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Read,
    RandomRead,
    Write,
}

#[derive(Clone)]
struct Job {
    file: PathBuf,
    op: Op,
    block_bytes: u64,
    depth: u32,
    seconds: f64,
    mib: u64,
    cpu: Option<usize>,
}

/// Number of I/Os, and what they took.
struct Figures {
    ios: u64,
    seconds: f64,
    cpu_seconds: f64,
    sleeps: i64,
    overdue_max: Nanos,
}

/// One shard has nobody to send to.
struct Alone;

impl Links for Alone {
    fn send(&self, to: ShardId, _message: Message) -> bool {
        unreachable!("a message to {to:?} of one")
    }
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
    let job = Job {
        file: PathBuf::from(get("file", "")),
        op: match get("op", "randread").as_str() {
            "read" => Op::Read,
            "write" => Op::Write,
            _ => Op::RandomRead,
        },
        block_bytes: number("block", "4096") as u64,
        depth: number("depth", "32") as u32,
        seconds: number("seconds", "5"),
        mib: number("mib", "256") as u64,
        cpu: value_of.get("cpu").map(|cpu| cpu.parse().unwrap()),
    };
    if value_of.contains_key("file") {
        run(job);
    } else {
        let name = format!("ringfall-data-path-{}", std::process::id());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        run(Job { file: file.clone(), seconds: 0.2, mib: 16, ..job });
        std::fs::remove_file(file).unwrap();
    }
}

fn run(job: Job) {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_DIRECT);
    let file = options.open(&job.file).unwrap();
    let file = Arc::new(DataFile::new(file, job.file.clone(), Preallocate::Reserve).unwrap());
    let bytes = job.mib << 20;
    file.prepare(bytes / 4096).unwrap();
    let mut specs = Engine::builder()
        .storage_bytes(bytes)
        .drive_bytes(bytes)
        .io_bytes(job.block_bytes)
        .queue_depth(job.depth)
        .verify(VerifyMode::Off)
        .durability(Durability::None)
        .specs(&[file])
        .unwrap();
    let (spec, vitals) = (specs.pop().unwrap(), Arc::<Vitals>::default());
    let (own, watched) = (job.clone(), Arc::clone(&vitals));
    let main = move || async move { measure(own, spec, &watched).await };
    let executor = Executor::spawn("bench", job.cpu, vitals, main).unwrap();
    let figures = executor.join_until(Nanos::MAX).unwrap();
    let gib = (figures.ios * job.block_bytes) as f64 / f64::from(1 << 30);
    println!(
        "{{\"gib_per_s\":{:.4},\"iops\":{:.1},\"cpu_s_per_gib\":{:.4},\"sleeps_per_io\":{:.3},\
         \"overdue_max_us\":{:.1},\"seconds\":{:.2}}}",
        gib / figures.seconds,
        figures.ios as f64 / figures.seconds,
        figures.cpu_seconds / gib,
        figures.sleeps as f64 / figures.ios as f64,
        figures.overdue_max.as_ns() as f64 / 1e3,
        figures.seconds,
    );
}

async fn measure(job: Job, spec: ShardSpec, vitals: &Vitals) -> Figures {
    let (shard, _facts) = open_shard(spec, Box::new(Alone)).unwrap();
    // Room for half of them again, so that a write finds it without evicting much.
    let entries = (job.mib << 20) / job.block_bytes * 3 / 4;
    let everything = Nanos::MAX;
    work(&job, &shard, Rc::new(Cell::new(0)), everything, entries, Op::Write).await;
    vitals.count_within(monotonic_now(), Nanos::MAX);
    shard.measure().open(monotonic_now(), Nanos::MAX);
    let (cpu_before, sleeps_before, began) = (cpu_seconds(), sleeps(), monotonic_now());
    let end = began + Nanos::from_ns_f64(job.seconds * SECOND.as_ns_f64());
    let next = Rc::new(Cell::new(0));
    let done = work(&job, &shard, next, end, entries, job.op).await;
    Figures {
        ios: done,
        seconds: (monotonic_now() - began).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu_before,
        sleeps: sleeps() - sleeps_before,
        overdue_max: vitals.overdue_max(),
    }
}

/// Has as many tasks as the queue is deep read or write entries until `end`, or, where there is
/// none, each entry once; how many that were.
async fn work(
    job: &Job,
    shard: &Rc<Shard>,
    next: Rc<Cell<u64>>,
    end: Nanos,
    entries: u64,
    op: Op,
) -> u64 {
    let (done, running) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(job.depth)));
    let all_done = Rc::new(Notify::default());
    for _ in 0..job.depth {
        let (shard, next, done) = (Rc::clone(shard), Rc::clone(&next), Rc::clone(&done));
        let (running, all_done) = (Rc::clone(&running), Rc::clone(&all_done));
        let bytes = job.block_bytes;
        spawn_local(async move {
            let home = shard.id();
            let mut begun = monotonic_now();
            while begun < end {
                let number = next.replace(next.get() + 1);
                if end == Nanos::MAX && number >= entries {
                    break;
                }
                let key = match op {
                    Op::RandomRead => mix64(number) % entries,
                    Op::Read | Op::Write => number % entries,
                };
                let key = EntryKey(u128::from(key));
                begun = if op == Op::Write {
                    let mode = WriteMode::Replace;
                    match shard.write_from(begun, home, (key, bytes), mode).await {
                        WriteOutcome::Written { times, .. } => times.ended,
                        other => panic!("{other:?}"),
                    }
                } else {
                    match shard.read_from(begun, home, key).await {
                        ReadOutcome::Hit { times, .. } => times.ended,
                        other => panic!("{other:?}"),
                    }
                };
                done.set(done.get() + 1);
            }
            running.set(running.get() - 1);
            all_done.notify_all();
        });
    }
    loop {
        let ended = all_done.notified();
        if running.get() == 0 {
            return done.get();
        }
        ended.await;
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Times that this thread went to sleep (`voluntary_ctxt_switches`).
fn sleeps() -> i64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}
