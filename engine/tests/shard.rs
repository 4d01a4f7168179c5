//! The shard over devices in memory: what it keeps, and what it survives.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ringfall_doubles::{Fault, FaultPlan, MemoryDevice};
use ringfall_engine::clock::{Clock, MICROSECOND, Nanos};
use ringfall_engine::device::Device;
use ringfall_engine::engine::{Engine, LocalEngine, LocalParts};
use ringfall_engine::error::ErrorKind;
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::{EntryKey, ShardId, mix64};
use ringfall_engine::shard::{
    Content, Durability, OperationTimes, ReadOutcome, Shard, WriteMode, WriteOutcome,
};
use ringfall_engine::tier::Tier;
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::{BLOCK_BYTES, MIB};
use support::{Bed, BedConfig, ENTRY};

fn is_hit_in(outcome: &ReadOutcome, expected: Tier) -> bool {
    matches!(outcome, ReadOutcome::Hit { tier, .. } if *tier == expected)
}

#[test]
fn what_is_written_is_read_back_and_the_oldest_leaves_when_storage_is_full() {
    let bed = Bed::new(BedConfig::default());
    // 1024 blocks hold four entries of 1 MiB.
    for key in 0..6 {
        assert!(matches!(bed.write(0, key, ENTRY), WriteOutcome::Written { .. }));
    }
    for key in 0..2 {
        assert_eq!(bed.read(0, key), ReadOutcome::Miss);
    }
    for key in 2..6 {
        assert!(is_hit_in(&bed.read(0, key), Tier::Storage));
    }
    let metrics = bed.shards[0].measure().snapshot();
    assert_eq!(metrics.io_write.bytes, 6 * ENTRY);
    assert_eq!(metrics.io_read.bytes, 4 * ENTRY);
    assert_eq!(metrics.verify.blocks_checked, 4 * 256);
    assert_eq!(metrics.evictions[Tier::Storage.index()].entries, 2);
    bed.assert_at_rest();
}

#[test]
fn the_waterfall_demotes_by_copying_and_the_content_survives_it() {
    let config = BedConfig { cpu_bytes: 4 * MIB, storage_blocks: 4096, ..BedConfig::default() };
    let bed = Bed::new(config);
    for key in 0..12 {
        assert!(matches!(bed.write(0, key, ENTRY - 100), WriteOutcome::Written { .. }));
    }
    let in_cpu = bed.shards[0].counts(Tier::Cpu);
    assert!(in_cpu.bytes <= 4 * MIB && in_cpu.entries >= 3, "{in_cpu:?}");
    let (mut cpu, mut storage) = (0, 0);
    for key in 0..12 {
        match bed.read(0, key) {
            ReadOutcome::Hit { tier: Tier::Cpu, bytes, .. } => {
                assert_eq!(bytes, ENTRY - 100);
                cpu += 1;
            }
            ReadOutcome::Hit { tier: Tier::Storage, .. } => storage += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((cpu, storage), (in_cpu.entries, 12 - in_cpu.entries));
    let metrics = bed.shards[0].measure().snapshot();
    assert_eq!(metrics.verify.blocks_bad, 0);
    assert_eq!(metrics.evictions[Tier::Cpu.index()].entries, storage);
    bed.assert_at_rest();
}

/// The CPU tier was said to be too small where its entries waited for the tier below.
#[test]
fn an_entry_that_moves_down_waits_for_room_before_it_is_written() {
    let waited_ns = |storage_blocks| {
        let bed =
            Bed::new(BedConfig { cpu_bytes: 4 * MIB, storage_blocks, ..BedConfig::default() });
        for key in 0..4 {
            assert!(matches!(bed.write(0, key, ENTRY), WriteOutcome::Written { .. }));
        }
        // What is still being written can't leave: all at once would find no room above storage.
        for key in 4..12 {
            let shard = Rc::clone(&bed.shards[0]);
            bed.runtime.spawn(Box::pin(async move {
                let (home, key) = (shard.id(), EntryKey(key));
                let outcome = shard.write(home, key, ENTRY, WriteMode::Replace).await;
                assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
            }));
        }
        bed.settle();
        let metrics = bed.shards[0].measure().snapshot();
        let row = &metrics.evictions[Tier::Cpu.index()];
        assert!(row.entries > 0);
        assert_eq!((row.room.count(), row.write.count()), (row.entries, row.entries));
        row.room.sum_ns()
    };
    // Storage of 1 MiB holds one entry, which can't be deleted while it is written.
    let (ample_ns, scarce_ns) = (waited_ns(4096), waited_ns(256));
    assert!(scarce_ns > 10 * ample_ns.max(1), "{scarce_ns} {ample_ns}");
}

#[test]
fn several_gib_scale_runs_in_small_keep_their_content_under_concurrency() {
    for shards in [1, 2, 4] {
        let bed = Bed::new(BedConfig {
            shards,
            cpu_bytes: 3 * MIB,
            storage_blocks: 2048,
            segment_blocks: 32,
            queue_depth: 8,
            ..BedConfig::default()
        });
        for task in 0..40u64 {
            let shard = Rc::clone(&bed.shards[task as usize % usize::from(shards)]);
            bed.runtime.spawn(Box::pin(async move {
                for round in 0..12u64 {
                    let random = mix64(task << 20 | round);
                    let key = EntryKey(u128::from(random % 64));
                    let home = key.home_shard(shards);
                    if random >> 40 & 1 == 0 {
                        let bytes = 4096 + (random >> 8) % (MIB / 2);
                        let mode = if random >> 41 & 1 == 0 {
                            WriteMode::Replace
                        } else {
                            WriteMode::IfAbsent
                        };
                        let outcome = shard.write(home, key, bytes, mode).await;
                        assert!(!matches!(outcome, WriteOutcome::Failed(_)), "{outcome:?}");
                    } else {
                        let outcome = shard.read(home, key).await;
                        assert!(!matches!(outcome, ReadOutcome::Failed(_)), "{outcome:?}");
                    }
                }
            }));
        }
        bed.settle();
        bed.assert_at_rest();
        for shard in &bed.shards {
            let metrics = shard.measure().snapshot();
            assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0));
            assert!(metrics.verify.blocks_checked > 0);
        }
    }
}

#[test]
fn the_same_requests_keep_the_same_entries_in_the_cpu_tier_at_any_shard_count() {
    let kept: Vec<Vec<u128>> = [1u16, 2, 4]
        .into_iter()
        .map(|shards| {
            // An entry is a quarter of the tier: cut in four budgets it would hold none.
            let bed = Bed::new(BedConfig {
                shards,
                cpu_bytes: 4 * MIB,
                storage_blocks: 16_384,
                ..BedConfig::default()
            });
            let mut in_cpu = Vec::new();
            for key in 0..50u128 {
                bed.write(key as usize % usize::from(shards), key, MIB);
                // Reads keep some entries young.
                if key % 3 == 0 {
                    bed.read((key as usize / 2) % usize::from(shards), key / 2);
                }
            }
            bed.assert_at_rest();
            for key in 0..50u128 {
                let outcome = bed.read(key as usize % usize::from(shards), key);
                if is_hit_in(&outcome, Tier::Cpu) {
                    in_cpu.push(key);
                }
            }
            in_cpu
        })
        .collect();
    assert!(kept[0].len() >= 3, "{kept:?}");
    assert!(kept.iter().all(|keys| *keys == kept[0]), "{kept:?}");
}

#[test]
fn writers_at_once_keep_the_cpu_tier_as_full_at_any_shard_count_to_within_an_entry() {
    for shards in [1u16, 2, 4] {
        let bed = Bed::new(BedConfig {
            shards,
            cpu_bytes: 40 * MIB,
            storage_blocks: 32_768,
            ..BedConfig::default()
        });
        for key in 0..100u128 {
            let shard = Rc::clone(&bed.shards[key as usize % usize::from(shards)]);
            bed.runtime.spawn(Box::pin(async move {
                let (home, mode) = (shard.id(), WriteMode::Replace);
                shard.write(home, EntryKey(key), MIB, mode).await;
            }));
            if key % 8 == 7 {
                bed.settle();
            }
        }
        bed.settle();
        bed.assert_at_rest();
        let bytes: u64 = bed.shards.iter().map(|shard| shard.counts(Tier::Cpu).bytes).sum();
        // Between the target an eviction leaves (80 %) and full.
        assert!((31 * MIB..=40 * MIB).contains(&bytes), "{shards} shards: {bytes}");
    }
}

#[test]
fn one_shard_may_fill_all_of_storage_and_gives_way_to_the_other() {
    let bed = Bed::new(BedConfig { shards: 2, ..BedConfig::default() });
    // Shard 0 alone fills all of the storage.
    for key in 0..4 {
        assert!(matches!(bed.write(0, key, ENTRY), WriteOutcome::Written { .. }));
    }
    assert_eq!(bed.shards[0].counts(Tier::Storage).entries, 4);
    // Now shard 1 needs room: shard 0 holds the oldest entries.
    for key in 10..13 {
        assert!(matches!(bed.write(1, key, ENTRY), WriteOutcome::Written { .. }));
    }
    assert_eq!(bed.shards[1].counts(Tier::Storage).entries, 3);
    assert_eq!(bed.read(0, 0), ReadOutcome::Miss);
    assert!(is_hit_in(&bed.read(0, 3), Tier::Storage));
    bed.assert_at_rest();
}

#[test]
fn an_entry_larger_than_everything_is_refused_and_counted() {
    let bed = Bed::new(BedConfig::default());
    let outcome = bed.write(0, 1, 5 * MIB);
    assert_eq!(outcome, WriteOutcome::Refused { limit_bytes: 4 * MIB });
    assert_eq!(bed.shards[0].measure().snapshot().refused_entries, 1);
    bed.assert_at_rest();
}

#[test]
fn a_damaged_block_is_reported_with_its_place() {
    let bed = Bed::new(BedConfig::default());
    bed.write(0, 7, ENTRY);
    bed.devices[0].inner().flip_bit(5 * BLOCK_BYTES + 99);
    let ReadOutcome::Failed(error) = bed.read(0, 7) else { panic!("damage went unnoticed") };
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert_eq!((error.offset_bytes, error.length_bytes), (5 * BLOCK_BYTES, BLOCK_BYTES));
    assert_eq!(bed.shards[0].measure().snapshot().verify.blocks_bad, 1);
    bed.assert_at_rest();
}

#[test]
fn a_misdirected_read_and_a_truncated_file_are_reported() {
    let bed = Bed::new(BedConfig::default());
    bed.write(0, 7, ENTRY);
    bed.devices[0].set_plan(FaultPlan::Nth(bed.devices[0].submitted() + 1, Fault::Misdirected));
    let ReadOutcome::Failed(error) = bed.read(0, 7) else { panic!("went unnoticed") };
    assert_eq!(error.kind, ErrorKind::Corrupt);
    bed.devices[0].set_plan(FaultPlan::Never);
    bed.devices[0].inner().truncate(100);
    let ReadOutcome::Failed(error) = bed.read(0, 7) else { panic!("went unnoticed") };
    assert_eq!(error.kind, ErrorKind::Truncated);
    bed.assert_at_rest();
}

/// Such reads keep no lists of I/Os (`single_read.rs`), unless something goes wrong.

#[test]
fn each_errno_is_typed_counted_and_leaves_nothing_behind() {
    let kinds = [
        (libc::EIO, ErrorKind::Media),
        (libc::ENOSPC, ErrorKind::NoSpace),
        (libc::EROFS, ErrorKind::Permission),
        (libc::ENODEV, ErrorKind::Gone),
        (libc::EINVAL, ErrorKind::Unsupported),
        (libc::ENOMEM, ErrorKind::Resources),
        (libc::ETIMEDOUT, ErrorKind::Timeout),
        (libc::ECANCELED, ErrorKind::Cancelled),
        (libc::EXDEV, ErrorKind::Other),
    ];
    for (errno, kind) in kinds {
        let bed = Bed::new(BedConfig::default());
        bed.devices[0].set_plan(FaultPlan::Nth(2, Fault::Errno(errno)));
        let WriteOutcome::Failed(error) = bed.write(0, 1, ENTRY) else { panic!("{errno}") };
        assert_eq!((error.kind, error.errno), (kind, errno));
        assert_eq!(bed.read(0, 1), ReadOutcome::Miss, "a failed write leaves no entry");
        assert_eq!(bed.shards[0].measure().snapshot().errors[0].count, 1);
        bed.assert_at_rest();
    }
}

/// A small scenario: writes, a demotion, an eviction, a rewrite, reads.
fn scenario(bed: &Bed) {
    for key in [1, 2, 3, 1, 4, 5, 6] {
        bed.write(0, key, 600 * 1024);
    }
    for key in 1..=6 {
        bed.read(0, key);
    }
}

#[test]
fn failing_the_nth_io_for_every_n_ends_in_a_typed_error_and_a_consistent_index() {
    let config = || BedConfig {
        cpu_bytes: 2 * MIB,
        storage_blocks: 512,
        segment_blocks: 16,
        io_blocks: 16,
        ..BedConfig::default()
    };
    let counting = Bed::new(config());
    scenario(&counting);
    counting.assert_at_rest();
    let ios = counting.devices[0].submitted();
    assert!(ios > 40, "{ios}");
    let all = counting.shards[0].measure().snapshot();
    let (reads, flushes) = (all.io_read.latency.count(), all.io_flush.latency.count());
    assert!(reads > 10 && flushes > 0, "{reads} reads, {flushes} flushes");
    for (fault, kind, expected) in [
        (Fault::Errno(libc::EIO), ErrorKind::Media, ios),
        // A flush that moves nothing is a good flush.
        (Fault::Nothing, ErrorKind::Truncated, ios - flushes),
        // Seen when it is read, once: entries are cut in the same I/Os when they are read as when
        // they were written, and the scenario reads what is left of them once. The rest is evicted
        // unread.
        (Fault::Corrupt, ErrorKind::Corrupt, reads),
    ] {
        let mut seen = 0;
        for nth in 0..ios {
            let bed = Bed::new(config());
            bed.devices[0].set_plan(FaultPlan::Nth(nth, fault));
            scenario(&bed);
            let metrics = bed.shards[0].measure().snapshot();
            assert!(metrics.error_count() <= 1, "{fault:?} of I/O {nth}: {:?}", metrics.errors);
            assert!(metrics.errors.iter().all(|row| row.kind == kind), "{fault:?} of I/O {nth}");
            seen += metrics.error_count();
            bed.assert_at_rest();
        }
        assert_eq!(seen, expected, "{fault:?}: failures seen in {ios} runs");
    }
}

#[test]
fn operations_dropped_at_any_step_leak_nothing_and_harm_nobody() {
    for dropped_after in 0..160 {
        let bed = Bed::new(BedConfig {
            cpu_bytes: 2 * MIB,
            storage_blocks: 512,
            segment_blocks: 16,
            ..BedConfig::default()
        });
        bed.write(0, 100, 500 * 1024);
        let tasks: Vec<u64> = (0..6u128)
            .map(|key| {
                let shard = Rc::clone(&bed.shards[0]);
                bed.runtime.spawn(Box::pin(async move {
                    let home = shard.id();
                    let bytes = 700 * 1024;
                    shard.write(home, EntryKey(key), bytes, WriteMode::Replace).await;
                    shard.read(home, EntryKey(key)).await;
                    shard.read(home, EntryKey(100)).await;
                }))
            })
            .collect();
        for _ in 0..dropped_after {
            bed.step();
        }
        for task in tasks.iter().step_by(2) {
            bed.runtime.cancel(*task);
        }
        bed.settle();
        bed.assert_at_rest();
        // The survivors, and whoever gets the freed blocks, are undisturbed.
        for key in 200..204 {
            bed.write(0, key, 300 * 1024);
            assert!(matches!(bed.read(0, key), ReadOutcome::Hit { .. }));
        }
        let metrics = bed.shards[0].measure().snapshot();
        assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0), "{dropped_after}");
        bed.assert_at_rest();
    }
}

/// 36 s of drain were seen after a window of 1 s: entries of many GiB were made in the CPU tier,
/// and evicted for, to their ends.
#[test]
fn a_drain_waits_for_no_memory_that_is_still_to_be_copied_or_to_come() {
    const LARGE: u64 = 24 * MIB;
    for (full, what) in [(false, "a write to the CPU tier"), (true, "a write that evicts")] {
        let bed = Bed::new(BedConfig {
            cpu_bytes: 2 * LARGE,
            storage_blocks: 4 * LARGE / BLOCK_BYTES,
            segment_blocks: 64,
            verify: VerifyMode::Off,
            ..BedConfig::default()
        });
        for key in 0..if full { 4 } else { 1 } {
            bed.write(0, key, LARGE / 2);
        }
        let outcomes = Rc::new(RefCell::new(Vec::new()));
        for key in [100, 101] {
            let (shard, outcomes) = (Rc::clone(&bed.shards[0]), Rc::clone(&outcomes));
            bed.runtime.spawn(Box::pin(async move {
                let home = shard.id();
                let write = shard.write(home, EntryKey(key), LARGE, WriteMode::Replace);
                let written = write.await;
                outcomes.borrow_mut().push(format!("{written:?}"));
                let read = shard.read(home, EntryKey(0)).await;
                outcomes.borrow_mut().push(format!("{read:?}"));
            }));
        }
        for _ in 0..8 {
            bed.step();
        }
        let written = |bed: &Bed| bed.shards[0].counts(Tier::Cpu).entries;
        let before = written(&bed);
        bed.shards[0].stop();
        bed.settle();
        let outcomes = outcomes.borrow();
        assert_eq!(outcomes.len(), 4, "{what}: {outcomes:?}");
        let is_ended = |told: &String| told.contains("Cancelled") || told == "Miss";
        assert!(outcomes.iter().all(is_ended), "{what}: {outcomes:?}");
        assert!(written(&bed) <= before, "{what}: nothing came to be");
        assert_eq!(bed.shards[0].measure().snapshot().error_count(), 0, "{what}: on purpose");
        bed.assert_at_rest();
    }
}

/// Counts a shard's looks at its clock, over a device that takes no time.
struct Looks {
    engine: LocalEngine,
    ticks: Rc<Cell<Nanos>>,
}

impl Looks {
    fn new(verify: VerifyMode) -> Looks {
        let ticks = Rc::new(Cell::new(MICROSECOND));
        let clock = Clock::Ticking(Rc::clone(&ticks));
        let device: Rc<dyn Device> = Rc::new(MemoryDevice::new(64, clock.clone()));
        let engine = Engine::builder()
            .seed(1)
            .storage_bytes(64 * BLOCK_BYTES)
            .segment_bytes(64 * BLOCK_BYTES)
            .io_bytes(BLOCK_BYTES)
            .queue_depth(4)
            .verify(verify)
            .durability(Durability::None)
            .local(LocalParts {
                clock,
                cpu: CpuPool::new(0).unwrap(),
                device: &mut |_shard| Rc::clone(&device),
                content: &Content::default,
            })
            .unwrap();
        engine.shards()[0].measure().open(Nanos::ZERO, Nanos::MAX);
        Looks { engine, ticks }
    }

    /// Writes entries of one block and reads them, each as soon as the one before has ended: looks
    /// at the clock of a write and of a read, and the times of the last read.
    fn of_each(&self) -> (u64, u64, OperationTimes, Nanos) {
        let (shard, ticks) = (Rc::clone(&self.engine.shards()[0]), Rc::clone(&self.ticks));
        let figures = Rc::new(Cell::new(None));
        let result = Rc::clone(&figures);
        self.engine.runtime().spawn(Box::pin(async move {
            let (home, mode) = (shard.id(), WriteMode::Replace);
            let mut begun = ticks.get();
            let (mut writes, mut reads) = (0, 0);
            let mut last = (OperationTimes::default(), Nanos::ZERO);
            // Twice as many as there is room for: each of the later ones evicts one.
            for key in (0..128).map(EntryKey) {
                let before = ticks.get();
                let named = (key, BLOCK_BYTES);
                let written = shard.write_from(begun, home, named, mode).await;
                let WriteOutcome::Written { times, .. } = written else { panic!("{written:?}") };
                writes += (ticks.get() - before).as_ns();
                let before = ticks.get();
                let read = shard.read_from(times.ended, home, key).await;
                let ReadOutcome::Hit { times: read, .. } = read else { panic!("{read:?}") };
                reads += (ticks.get() - before).as_ns();
                last = (read, times.ended);
                begun = read.ended;
            }
            result.set(Some((writes / 128, reads / 128, last.0, last.1)));
        }));
        self.engine.run_ready();
        figures.get().unwrap()
    }
}

#[test]
fn operations_of_one_io_look_at_the_clock_once_each_where_one_follows_the_other() {
    let (writes, reads, read, begun) = Looks::new(VerifyMode::Off).of_each();
    assert_eq!((writes, reads), (1, 1), "when the device says that it is done");
    assert_eq!(read.total, read.ended - begun, "from the end of the one before");
    assert_eq!(read.device, Nanos::ZERO);
    let (_, reads, read, begun) = Looks::new(VerifyMode::Full).of_each();
    assert_eq!(reads, 2, "the comparison is a part of the read");
    assert_eq!(read.total, read.ended - begun);
    assert_eq!(read.total, Nanos::from_ns(2));
}

/// Its home shard stamped it anew, so that the time for which that shard was late was nobody's.
#[test]
fn an_entry_of_a_shard_that_is_late_takes_as_long_as_its_asker_waits() {
    const LATE: Nanos = Nanos::from_ms(10);
    let bed = Bed::new(BedConfig { shards: 2, ..BedConfig::default() });
    let (asker, home) = (Rc::clone(&bed.shards[0]), ShardId(1));
    let outcome = Rc::new(RefCell::new(None));
    for is_read in [false, true] {
        bed.engine.set_deaf(home, true);
        let (asker, ended) = (Rc::clone(&asker), Rc::clone(&outcome));
        bed.runtime.spawn(Box::pin(async move {
            let key = EntryKey(7);
            let times = if is_read {
                match asker.read(home, key).await {
                    ReadOutcome::Hit { times, .. } => times,
                    other => panic!("{other:?}"),
                }
            } else {
                match asker.write(home, key, ENTRY, WriteMode::Replace).await {
                    WriteOutcome::Written { times, .. } => times,
                    other => panic!("{other:?}"),
                }
            };
            *ended.borrow_mut() = Some(times);
        }));
        let heard_at = bed.time.get() + LATE;
        while bed.time.get() < heard_at {
            bed.step();
        }
        bed.engine.set_deaf(home, false);
        bed.settle();
        let times: OperationTimes = outcome.take().expect("it has ended");
        assert!(times.total >= LATE, "{times:?}");
        assert!(times.device < LATE && times.room < LATE, "{times:?}");
    }
    let storage =
        |shard: &Rc<Shard>| shard.measure().snapshot().tiers[Tier::Storage.index()].clone();
    for direction in [storage(&asker).read, storage(&asker).write] {
        assert_eq!(direction.host.count(), 1, "the shard that asked counts it");
        assert!(direction.total.max_ns() >= Some(LATE.as_ns()));
    }
    let at_home = storage(&bed.shards[1]);
    assert_eq!(at_home.read.host.count() + at_home.write.host.count(), 0);
    bed.assert_at_rest();
}
