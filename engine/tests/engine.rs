//! The engine on threads, over real files: what it keeps, what it refuses, how it stops.

#[path = "../examples/store.rs"]
#[expect(dead_code, reason = "the test calls what the example's main calls")]
mod store;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ringfall_engine::device::{CacheDir, DataFile, Preallocate};
use ringfall_engine::engine::{Engine, EngineBuilder, EngineError, SettingsError};
use ringfall_engine::error::SetupError;
use ringfall_engine::fill::{Shape, VerifyMode};
use ringfall_engine::key::EntryKey;
use ringfall_engine::shard::{Durability, ReadOutcome, WriteMode, WriteOutcome};
use ringfall_engine::tier::Tier;
use ringfall_engine::tier::cpu::MemoryGauge;
use ringfall_engine::units::{BLOCK_BYTES, KIB, MIB};

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ringfall-engine-{}-{name}", std::process::id()))
}

fn builder(directory: &PathBuf) -> EngineBuilder {
    Engine::builder().directory(directory).storage_bytes(32 * MIB).verify(VerifyMode::Full)
}

#[test]
fn the_example_runs_and_leaves_nothing() {
    let directory = scratch("example");
    store::store(directory.clone()).unwrap();
    assert!(!directory.exists());
}

#[test]
fn entries_of_many_shards_and_both_tiers_are_read_back_and_counted() {
    let directory = scratch("many");
    let engine = builder(&directory).shards(3).cpu_bytes(6 * MIB).start().unwrap();
    assert_eq!(engine.facts().len(), 3);
    let entries = engine.entries();
    let bytes = |key: u128| 100 * KIB + key as u64;
    let writes: Vec<_> = (0..100)
        .map(|key| entries.begin_write(EntryKey(key), bytes(key), WriteMode::Replace).unwrap())
        .collect();
    for write in writes {
        let outcome = write.wait().unwrap();
        assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
    }
    let there = entries.begin_write(EntryKey(3), 1, WriteMode::IfAbsent).unwrap();
    assert_eq!(there.wait().unwrap(), WriteOutcome::AlreadyThere);
    let mut hits = [0; 3];
    for key in 0..100 {
        match entries.read(EntryKey(key)).unwrap() {
            ReadOutcome::Hit { tier, bytes: read, .. } => {
                assert_eq!(read, bytes(key));
                hits[tier.index()] += 1;
            }
            other => panic!("{key}: {other:?}"),
        }
    }
    let statistics = engine.statistics().unwrap();
    assert_eq!(statistics.tiers.map(|tier| tier.entries), hits);
    assert!(hits[Tier::Cpu.index()] > 10 && hits[Tier::Storage.index()] > 10, "{hits:?}");
    assert_eq!(
        statistics.tiers.iter().map(|tier| tier.bytes).sum::<u64>(),
        (0..100).map(bytes).sum()
    );
    assert_eq!(statistics.space.len(), 3);
    let metrics = &statistics.metrics;
    assert_eq!(
        (metrics.verify.blocks_bad, metrics.error_count(), statistics.errors.len()),
        (0, 0, 0)
    );
    let read = metrics.io_read.entry_bytes + metrics.tier(Tier::Cpu).read.entry_bytes;
    assert_eq!(read, (0..100).map(bytes).sum::<u64>(), "each byte was read once");
    engine.stop().unwrap();
    assert!(!directory.exists());
}

#[test]
fn removed_and_too_large_entries_are_not_there() {
    let directory = scratch("gone");
    let engine = builder(&directory).start().unwrap();
    let entries = engine.entries();
    assert_eq!(entries.read(EntryKey(1)).unwrap(), ReadOutcome::Miss);
    assert_eq!(entries.write(EntryKey(1), 0), Err(EngineError::EmptyEntry));
    let refused = WriteOutcome::Refused { limit_bytes: 32 * MIB };
    assert_eq!(entries.write(EntryKey(1), 33 * MIB).unwrap(), refused);
    assert!(matches!(entries.write(EntryKey(1), 5).unwrap(), WriteOutcome::Written { .. }));
    assert!(entries.remove(EntryKey(1)).unwrap());
    assert!(!entries.remove(EntryKey(1)).unwrap());
    assert_eq!(entries.read(EntryKey(1)).unwrap(), ReadOutcome::Miss);
    assert_eq!(engine.statistics().unwrap().metrics.refused_entries, 1);
}

#[test]
fn without_storage_what_fits_nowhere_is_dropped_and_counted() {
    let file = Arc::new(DataFile::of_no_blocks().unwrap());
    let builder = Engine::builder().file(file).without_storage().cpu_bytes(4 * MIB).shards(2);
    let engine = builder.start().unwrap();
    let entries = engine.entries();
    let written: u64 = 40;
    for key in 0..written {
        let outcome = entries.write(EntryKey(u128::from(key)), 300_000).unwrap();
        assert!(matches!(outcome, WriteOutcome::Written { tier: Tier::Cpu, .. }), "{outcome:?}");
    }
    let too_large = entries.write(EntryKey(99), 5 * MIB).unwrap();
    assert_eq!(too_large, WriteOutcome::DroppedWithoutStorage);
    let hits = (0..written).filter(|key| match entries.read(EntryKey(u128::from(*key))).unwrap() {
        ReadOutcome::Hit { tier, .. } => tier == Tier::Cpu,
        outcome => {
            assert_eq!(outcome, ReadOutcome::Miss);
            false
        }
    });
    let held = hits.count() as u64;
    assert!((1..written).contains(&held), "{held} of {written}");
    let statistics = engine.statistics().unwrap();
    let metrics = &statistics.metrics;
    assert_eq!(metrics.refused_entries, written - held + 1, "each that is gone is counted");
    assert_eq!(statistics.tiers[Tier::Storage.index()].entries, 0);
    assert_eq!((metrics.io_write.bytes, metrics.io_read.bytes, metrics.error_count()), (0, 0, 0));
    engine.stop().unwrap();
}

#[test]
fn entries_are_flushed_when_asked_for_or_each() {
    let directory = scratch("flush");
    for (durability, writes, flushes) in [(Durability::None, 0, 2), (Durability::Flush, 1, 3)] {
        let engine = builder(&directory).shards(2).durability(durability).start().unwrap();
        let entries = engine.entries();
        let flushed = || engine.statistics().unwrap().metrics.io_flush.latency.count();
        entries.write(EntryKey(1), 70_000).unwrap();
        assert_eq!(flushed(), writes, "{durability:?}");
        entries.flush().unwrap();
        assert_eq!(flushed(), flushes, "{durability:?}: one more for each shard");
        engine.stop().unwrap();
    }
}

#[test]
fn stopping_ends_what_has_begun_and_refuses_the_rest() {
    let directory = scratch("stop");
    let engine = builder(&directory).shards(2).queue_depth(2).start().unwrap();
    let entries = engine.entries();
    let begun: Vec<_> = (0..64)
        .map(|key| {
            let (key, mode) = (EntryKey(key), WriteMode::Replace);
            entries.begin_write(key, 600 * KIB, mode).unwrap()
        })
        .collect();
    engine.stop().unwrap();
    for write in begun {
        let outcome = write.wait().unwrap();
        assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
    }
    assert!(matches!(entries.read(EntryKey(1)), Err(EngineError::Stopped { .. })));
    assert!(matches!(entries.flush(), Err(EngineError::Stopped { .. })));
    assert!(!directory.exists());
}

#[test]
fn the_depth_of_the_queue_changes_while_entries_are_written() {
    let directory = scratch("depth");
    let engine = builder(&directory).shards(2).queue_depth(8).io_bytes(4 * KIB).start().unwrap();
    let entries = engine.entries();
    // The first is less than the least, the last more than the rings were made for.
    for (depth, in_flight_max) in [(0, 2), (3, 6), (1_000, 16)] {
        engine.set_queue_depth(depth).unwrap();
        let begun: Vec<_> = (0..32)
            .map(|key| {
                let (key, mode) = (EntryKey(key), WriteMode::Replace);
                entries.begin_write(key, 600 * KIB, mode).unwrap()
            })
            .collect();
        for write in begun {
            // A flush of each shard runs beside the writes.
            let in_flight = engine.statistics().unwrap().in_flight;
            assert!(in_flight <= in_flight_max + 2, "{in_flight} in flight at depth {depth}");
            assert!(matches!(write.wait().unwrap(), WriteOutcome::Written { .. }));
        }
    }
    engine.stop().unwrap();
}

#[test]
fn entries_go_through_a_kernel_thread_that_takes_submissions() {
    let directory = scratch("sqpoll");
    let engine = builder(&directory).shards(2).queue_depth(8).io_bytes(4 * KIB);
    let engine = engine.verify(VerifyMode::Full).submission_thread(true).start().unwrap();
    let ring = engine.facts()[0].ring;
    assert!(ring.submission_thread && !ring.defer_taskrun, "{ring:?}");
    let entries = engine.entries();
    let keys = || (0..40).map(EntryKey);
    for round in 0..3u64 {
        let bytes = 100 * KIB + round;
        let write = |key| entries.begin_write(key, bytes, WriteMode::Replace).unwrap();
        for begun in keys().map(write).collect::<Vec<_>>() {
            assert!(matches!(begun.wait().unwrap(), WriteOutcome::Written { .. }));
        }
        for key in keys() {
            let read = entries.read(key).unwrap();
            assert!(matches!(read, ReadOutcome::Hit { bytes: had, .. } if had == bytes));
        }
        // Longer than the thread spins: it sleeps, and must be woken for the next round.
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    let statistics = engine.statistics().unwrap();
    assert_eq!((statistics.errors.len(), statistics.metrics.verify.blocks_bad), (0, 0));
    engine.stop().unwrap();
}

#[test]
fn a_dropped_engine_gives_its_directory_back() {
    let directory = scratch("drop");
    let engine = builder(&directory).start().unwrap();
    let error = builder(&directory).start().err().unwrap();
    assert!(matches!(error, EngineError::Setup(SetupError::StoreInUse { .. })), "{error}");
    engine.entries().write(EntryKey(1), 4096).unwrap();
    drop(engine);
    assert!(!directory.exists());
    builder(&directory).start().unwrap().stop().unwrap();
}

#[test]
fn an_engine_without_a_place_or_a_possible_setting_does_not_start() {
    let nowhere = Engine::builder().storage_bytes(MIB).start().err();
    assert_eq!(nowhere, Some(EngineError::Settings(SettingsError::Place)));
    let directory = scratch("wrong");
    let wrong = builder(&directory).io_bytes(5_000).start().err();
    assert_eq!(wrong, Some(EngineError::Settings(SettingsError::IoBytes { bytes: 5_000 })));
    assert!(!directory.exists(), "settings are checked before anything is made");
}

#[test]
fn a_file_of_the_callers_stays() {
    let directory = scratch("file");
    let mut place = CacheDir::open(&directory).unwrap();
    let (file, path) = place.create_data_file().unwrap();
    let file = DataFile::new(file, path.clone(), Preallocate::Reserve).unwrap();
    file.prepare(8 * MIB / BLOCK_BYTES).unwrap();
    let builder = Engine::builder().file(Arc::new(file)).storage_bytes(8 * MIB);
    let engine = builder.allocations_max(Some(1)).start().unwrap();
    let written = engine.entries().write(EntryKey(1), 4096).unwrap();
    assert!(matches!(written, WriteOutcome::Written { tier: Tier::Storage, .. }));
    engine.stop().unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.iter().any(|&byte| byte != 0), "the entry is in the file");
    place.remove().unwrap();
}

/// Entries from both tiers, read back and compared byte by byte; what lies on the drive, demoted
/// entries too, can be reduced as far as was asked for.
#[test]
fn content_that_can_be_reduced_is_as_asked_for_on_the_drive() {
    let directory = scratch("shape");
    let mut place = CacheDir::open(&directory).unwrap();
    let (file, path) = place.create_data_file().unwrap();
    let file = DataFile::new(file, path.clone(), Preallocate::Reserve).unwrap();
    file.prepare(32 * MIB / BLOCK_BYTES).unwrap();
    let engine = Engine::builder()
        .file(Arc::new(file))
        .storage_bytes(32 * MIB)
        .cpu_bytes(6 * MIB)
        .verify(VerifyMode::Full)
        .shape(Shape { dedupe_ratio: 3.0, compress_ratio: 2.0 })
        .start()
        .unwrap();
    for key in 0..8 {
        let written = engine.entries().write(EntryKey(key), 3 * MIB).unwrap();
        assert!(matches!(written, WriteOutcome::Written { .. }), "{written:?}");
    }
    for key in 0..8 {
        assert!(matches!(engine.entries().read(EntryKey(key)).unwrap(), ReadOutcome::Hit { .. }));
    }
    let verify = engine.statistics().unwrap().metrics.verify;
    engine.stop().unwrap();
    assert_eq!((verify.blocks_checked, verify.blocks_bad), (8 * 3 * MIB / BLOCK_BYTES, 0));
    let bytes = std::fs::read(path).unwrap();
    let units = bytes.chunks(64 * KIB as usize).filter(|unit| unit.iter().any(|&byte| byte != 0));
    let (mut all, mut packed, mut distinct) = (0, 0, HashSet::new());
    for unit in units {
        all += unit.len();
        packed += zstd::bulk::compress(unit, 1).unwrap().len();
        distinct.insert(unit);
    }
    let dedupe = (all / (64 * KIB as usize)) as f64 / distinct.len() as f64;
    let compress = all as f64 / packed as f64;
    assert!(all as u64 >= 18 * MIB, "{all}");
    assert!((dedupe / 3.0 - 1.0).abs() < 0.02, "{dedupe}");
    assert!((compress / 2.0 - 1.0).abs() < 0.02, "{compress}");
    place.remove().unwrap();
}

/// The CPU tier gets its first step, 32 of 512 MiB, and no more: what it can't hold goes to the
/// file, which grows as far as is needed. Everything is written and read back.
#[test]
fn a_cpu_tier_that_gets_no_more_memory_spills_into_a_file_that_grows() {
    let directory = scratch("grows");
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let gauge = MemoryGauge::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(0)
    });
    let builder = builder(&directory).shards(2).cpu_bytes(512 * MIB).memory_gauge(gauge);
    let builder = builder.storage_bytes(256 * MIB).preallocate(Preallocate::Grow);
    let engine = builder.start().unwrap();
    let data = directory.join("ringfall.kv");
    let length = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    assert_eq!(length(&data), 16 * MIB, "a 16th of the tier at first");
    let entries = engine.entries();
    let write = |key: u128| {
        let mode = WriteMode::Replace;
        entries.begin_write(EntryKey(key), 3 * MIB + 5, mode).unwrap()
    };
    // All at once: each is promised room in a tier of 512 MiB.
    let writes: Vec<_> = (0..60).map(write).collect();
    for write in writes {
        let outcome = write.wait().unwrap();
        assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
    }
    let mut hits = [0; 3];
    for key in 0..60 {
        match entries.read(EntryKey(key)).unwrap() {
            ReadOutcome::Hit { tier, .. } => hits[tier.index()] += 1,
            other => panic!("{key}: {other:?}"),
        }
    }
    assert!(hits[Tier::Cpu.index()] <= 10 && hits[Tier::Storage.index()] >= 50, "{hits:?}");
    let statistics = engine.statistics().unwrap();
    let [shortage] = &statistics.shortages[..] else { panic!("{:?}", statistics.shortages) };
    assert_eq!((shortage.tier, shortage.wanted_bytes), (Tier::Cpu, 512 * MIB));
    assert_eq!((shortage.given_bytes, looks.load(Ordering::Relaxed)), (32 * MIB, 1));
    assert_eq!(statistics.metrics.verify.blocks_bad, 0);
    let waits = &statistics.metrics.waits;
    assert!(waits.growth.count() > 0, "steps of the file were waited for");
    assert!(waits.growth.sum_ns() <= waits.room.sum_ns(), "as part of the waits for room");
    let grown = length(&data);
    assert!((150 * MIB..=256 * MIB).contains(&grown) && grown.is_multiple_of(MIB), "{grown}");
    engine.stop().unwrap();
    assert!(!directory.exists());
}
