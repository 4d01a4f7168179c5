//! Three tiers over GPU memory that is emulated and goes wrong: what the shard keeps, and what it
//! survives.

#![allow(unsafe_code, reason = "a way past the buffers that hands on its caller's promise")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod support;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfall_doubles::{ByHand, GpuFlaw, GpuFlawPlan};
use ringfall_engine::clock::{Clock, Nanos};
use ringfall_engine::device::{CacheDir, DataFile, Preallocate};
use ringfall_engine::engine::Engine;
use ringfall_engine::error::{ErrorKind, SetupError};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::{EntryKey, mix64};
use ringfall_engine::load::{LoadError, VramEnds, VramPlan, VramWay, measure_vram};
use ringfall_engine::placement::Watermarks;
use ringfall_engine::shard::{ReadOutcome, WriteMode, WriteOutcome};
use ringfall_engine::tier::Tier;
use ringfall_engine::tier::gpu::emulated::EmulatedMemory;
use ringfall_engine::tier::gpu::{Bell, DirectIo, DirectQueue, DirectStorage, GpuSpace, Piece};
use ringfall_engine::units::{BLOCK_BYTES, MIB};
use support::{Bed, BedConfig, ENTRY};

/// Three tiers: 4 entries, 4 entries, 16 entries of 1 MiB.
fn three_tiers() -> BedConfig {
    BedConfig {
        gpu_bytes: 4 * MIB,
        cpu_bytes: 4 * MIB,
        storage_blocks: 4096,
        ..BedConfig::default()
    }
}

fn tier_of(bed: &Bed, key: u128) -> Option<Tier> {
    match bed.read(0, key) {
        ReadOutcome::Hit { tier, .. } => Some(tier),
        ReadOutcome::Miss => None,
        ReadOutcome::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn entries_cascade_from_the_gpu_to_host_memory_to_storage_and_keep_their_content() {
    let bed = Bed::new(three_tiers());
    for key in 0..12 {
        let WriteOutcome::Written { tier, .. } = bed.write(0, key, ENTRY - 100) else {
            panic!("{key}")
        };
        assert_eq!(tier, Tier::Gpu, "new entries go to the fastest tier");
    }
    let tiers: Vec<Tier> = (0..12).map(|key| tier_of(&bed, key).unwrap()).collect();
    assert!(tiers.is_sorted_by(|a, b| a >= b), "the older, the slower: {tiers:?}");
    for tier in Tier::ALL {
        assert!(tiers.contains(&tier), "{tier:?}: {tiers:?}");
    }
    let metrics = bed.shards[0].measure().snapshot();
    assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0));
    assert_eq!(metrics.verify.blocks_checked, 12 * 256, "in each tier, all of it");
    let [gpu, cpu, storage] = [0, 1, 2].map(|tier| metrics.evictions[tier].entries);
    assert!(gpu > cpu && cpu > 0 && storage == 0, "{gpu} {cpu} {storage}");
    let [gpu, cpu, storage] = [0, 1, 2].map(|tier| metrics.tiers[tier].write.total.count());
    assert_eq!((gpu, cpu, storage), (12, 0, 0), "moves are not writes");
    assert_eq!(metrics.counts.passed_over_entries, 0);
    bed.assert_at_rest();
}

#[test]
fn without_a_cpu_tier_victims_go_from_the_gpu_to_storage() {
    for (io_blocks, bytes) in [(4, 700_000), (256, 3 * MIB + 5)] {
        let config = BedConfig {
            cpu_bytes: 0,
            gpu_bytes: 8 * MIB,
            storage_blocks: 8192,
            io_blocks,
            ..three_tiers()
        };
        let bed = Bed::new(config);
        for key in 0..16 {
            assert!(matches!(bed.write(0, key, bytes), WriteOutcome::Written { .. }));
        }
        let tiers: Vec<_> = (0..16).filter_map(|key| tier_of(&bed, key)).collect();
        assert!(tiers.contains(&Tier::Gpu) && tiers.contains(&Tier::Storage), "{tiers:?}");
        assert!(!tiers.contains(&Tier::Cpu));
        let metrics = bed.shards[0].measure().snapshot();
        let past = metrics.evictions_gpu_to_storage.entries;
        assert!(past > 0 && metrics.evicted_entries(Tier::Gpu) == past, "{past}");
        assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0));
        bed.assert_at_rest();
    }
}

#[test]
fn the_same_requests_keep_the_same_entries_in_every_tier_at_any_shard_count() {
    for promotes in [false, true] {
        let kept: Vec<Vec<Option<Tier>>> = [1u16, 2, 4]
            .into_iter()
            .map(|shards| {
                let bed = Bed::new(BedConfig { shards, promotes, ..three_tiers() });
                for key in 0..40u128 {
                    bed.write(key as usize % usize::from(shards), key, ENTRY);
                    // Reads keep some entries young.
                    if key % 3 == 0 {
                        bed.read((key as usize / 2) % usize::from(shards), key / 2);
                    }
                }
                bed.assert_at_rest();
                let place = |key: u128| {
                    let shard = &bed.shards[key as usize % usize::from(shards)];
                    shard.tier_of(EntryKey(key))
                };
                (0..40).map(place).collect()
            })
            .collect();
        for tier in Tier::ALL {
            assert!(kept[0].contains(&Some(tier)), "{tier:?}: {kept:?}");
        }
        assert!(kept.iter().all(|tiers| *tiers == kept[0]), "{promotes}: {kept:?}");
    }
}

#[test]
fn a_hit_moves_an_entry_to_the_fastest_tier_without_reading_it_twice() {
    let bed = Bed::new(BedConfig { promotes: true, ..three_tiers() });
    for key in 0..12 {
        bed.write(0, key, ENTRY);
    }
    assert_eq!(tier_of(&bed, 0), Some(Tier::Storage), "where it was");
    assert_eq!(tier_of(&bed, 0), Some(Tier::Gpu), "where it is since");
    let metrics = bed.shards[0].measure().snapshot();
    let promoted = metrics.promotions[Tier::Storage.index()][Tier::Gpu.index()];
    assert_eq!((promoted.entries, promoted.bytes), (1, ENTRY));
    assert_eq!(metrics.io_read.bytes, ENTRY, "read once");
    let from_host = (0..12).find(|key| bed.shards[0].tier_of(EntryKey(*key)) == Some(Tier::Cpu));
    let from_host = from_host.unwrap();
    assert_eq!(tier_of(&bed, from_host), Some(Tier::Cpu));
    assert_eq!(tier_of(&bed, from_host), Some(Tier::Gpu));
    let metrics = bed.shards[0].measure().snapshot();
    assert_eq!(metrics.promotions[Tier::Cpu.index()][Tier::Gpu.index()].entries, 1);
    assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0));
    bed.assert_at_rest();

    // Without a GPU tier it goes to host memory.
    let config = BedConfig { gpu_bytes: 0, promotes: true, ..three_tiers() };
    let bed = Bed::new(config);
    for key in 0..12 {
        bed.write(0, key, ENTRY);
    }
    assert_eq!(tier_of(&bed, 0), Some(Tier::Storage));
    assert_eq!(tier_of(&bed, 0), Some(Tier::Cpu));
    bed.assert_at_rest();
}

/// Reads, writes and rewrites of many keys at once, some of which move up.
fn mixed_load(bed: &Bed, shards: u16, tasks: u64) {
    for task in 0..tasks {
        let shard = Rc::clone(&bed.shards[task as usize % usize::from(shards)]);
        bed.runtime.spawn(Box::pin(async move {
            for round in 0..36u64 {
                let random = mix64(task << 20 | round);
                let key = EntryKey(u128::from(random % 48));
                let home = key.home_shard(shards);
                if random >> 40 & 1 == 0 {
                    let bytes = 4096 + (random >> 8) % (MIB / 2);
                    shard.write(home, key, bytes, WriteMode::Replace).await;
                } else {
                    shard.read(home, key).await;
                }
            }
        }));
    }
}

#[test]
fn content_survives_all_tiers_under_concurrency_with_jobs_that_end_late() {
    for (shards, promotes) in [(1, false), (2, true), (4, true)] {
        let bed = Bed::new(BedConfig {
            shards,
            promotes,
            gpu_bytes: 3 * MIB,
            cpu_bytes: 3 * MIB,
            storage_blocks: 1024,
            segment_blocks: 32,
            queue_depth: 8,
            ..BedConfig::default()
        });
        bed.gpu.set_plan(GpuFlawPlan::Every(3, GpuFlaw::Late(7)));
        mixed_load(&bed, shards, 32);
        bed.settle();
        bed.assert_at_rest();
        assert!(bed.gpu.counts().late > 20, "{:?}", bed.gpu.counts());
        let mut by_tier = [0; 3];
        for shard in &bed.shards {
            let metrics = shard.measure().snapshot();
            assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0));
            for (sum, tier) in by_tier.iter_mut().zip(&metrics.tiers) {
                *sum += tier.read.total.count();
            }
        }
        assert!(by_tier.iter().all(|&reads| reads > 0), "{by_tier:?}");
    }
}

/// Entries through all tiers and up again.
fn scenario(bed: &Bed) {
    for key in [1, 2, 3, 1, 4, 5, 6, 7, 8] {
        bed.write(0, key, 600 * 1024);
    }
    for key in 1..=8 {
        bed.read(0, key);
    }
}

#[test]
fn failing_the_nth_job_for_every_n_ends_in_a_typed_error_and_a_consistent_index() {
    for promotes in [false, true] {
        let config = || BedConfig {
            gpu_bytes: 2 * MIB,
            cpu_bytes: 2 * MIB,
            storage_blocks: 512,
            segment_blocks: 16,
            io_blocks: 16,
            promotes,
            ..BedConfig::default()
        };
        let counting = Bed::new(config());
        scenario(&counting);
        let jobs = counting.gpu.counts().jobs;
        assert!(jobs > 20, "{jobs}");
        for (flaw, kind) in [
            (GpuFlaw::Refused, ErrorKind::Resources),
            (GpuFlaw::Failed, ErrorKind::Media),
            (GpuFlaw::WrongBytes, ErrorKind::Corrupt),
        ] {
            let mut seen = 0;
            for nth in 0..jobs {
                let bed = Bed::new(config());
                bed.gpu.set_plan(GpuFlawPlan::Nth(nth, flaw));
                scenario(&bed);
                let metrics = bed.shards[0].measure().snapshot();
                assert!(metrics.error_count() <= 1, "{flaw:?} of job {nth}: {:?}", metrics.errors);
                for row in &metrics.errors {
                    assert_eq!((row.kind, row.first.tier), (kind, Tier::Gpu), "job {nth}");
                }
                seen += metrics.error_count();
                let wrong = bed.gpu.counts().wrong_blocks;
                assert_eq!(metrics.verify.blocks_bad, wrong, "{flaw:?} of job {nth}");
                bed.assert_at_rest();
            }
            match flaw {
                // Of comparisons alone.
                // Where hits move up, what was read last is what is there: nothing is compared.
                GpuFlaw::WrongBytes => assert!(promotes || seen > 0),
                _ => assert_eq!(seen, jobs, "{flaw:?}"),
            }
        }
    }
}

#[test]
fn a_lost_device_fails_what_is_on_it_and_leaves_the_rest() {
    let bed = Bed::new(three_tiers());
    for key in 0..12 {
        bed.write(0, key, ENTRY);
    }
    bed.gpu.set_plan(GpuFlawPlan::Nth(bed.gpu.counts().jobs, GpuFlaw::Lost));
    let on_gpu = (0..12).filter(|key| bed.shards[0].tier_of(EntryKey(*key)) == Some(Tier::Gpu));
    for key in on_gpu {
        let ReadOutcome::Failed(error) = bed.read(0, key) else { panic!("{key}") };
        assert_eq!((error.kind, error.tier), (ErrorKind::Gone, Tier::Gpu));
        assert!(error.to_string().contains("the device is lost"), "{error}");
    }
    bed.assert_at_rest();
}

#[test]
fn operations_dropped_at_any_step_leave_no_job_and_no_memory_behind() {
    for dropped_after in (0..240).step_by(3) {
        let bed = Bed::new(BedConfig {
            gpu_bytes: 2 * MIB,
            cpu_bytes: 2 * MIB,
            storage_blocks: 1024,
            segment_blocks: 16,
            promotes: dropped_after % 2 == 0,
            ..BedConfig::default()
        });
        bed.gpu.set_plan(GpuFlawPlan::Every(2, GpuFlaw::Late(5)));
        let tasks: Vec<u64> = (0..8u128)
            .map(|key| {
                let shard = Rc::clone(&bed.shards[0]);
                bed.runtime.spawn(Box::pin(async move {
                    let home = shard.id();
                    let bytes = 700 * 1024;
                    shard.write(home, EntryKey(key), bytes, WriteMode::Replace).await;
                    shard.read(home, EntryKey(key / 2)).await;
                    shard.read(home, EntryKey(key)).await;
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
        // Whoever gets the freed memory is undisturbed.
        for key in 200..206 {
            bed.write(0, key, 500 * 1024);
            assert!(matches!(bed.read(0, key), ReadOutcome::Hit { .. }));
        }
        let metrics = bed.shards[0].measure().snapshot();
        assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0), "{dropped_after}");
        bed.assert_at_rest();
    }
}

/// One shard's entries leave every second half of its chunks idle, which another shard cannot use:
/// the room that the other one evicts for, with the tier's baton in hand, is worth nothing.
#[test]
fn a_grant_that_proves_worth_nothing_after_an_eviction_is_passed_over() {
    let bed = Bed::new(BedConfig {
        shards: 2,
        gpu_bytes: 26 * MIB,
        cpu_bytes: 64 * MIB,
        watermarks: Watermarks { evict_target_permille: 1_000, ..Watermarks::default() },
        verify: VerifyMode::Off,
        ..three_tiers()
    });
    // The first lies beside where the shard lands what it reads, the others two to a chunk.
    for key in 0..25 {
        bed.write(0, key, ENTRY);
    }
    for key in (0..25).step_by(2) {
        bed.read(0, key);
    }
    // The other shard can have six chunks and half a one: 13 MiB. The tier has as much after it has
    // let go of the oldest: the odd ones and the first.
    let outcome = bed.write(1, 100, 13 * MIB + 1);
    assert!(matches!(outcome, WriteOutcome::Written { tier: Tier::Cpu, .. }), "{outcome:?}");
    let passed: u64 =
        bed.shards.iter().map(|shard| shard.measure().snapshot().counts.passed_over_entries).sum();
    assert_eq!(passed, 1);
    let outcome = bed.write(1, 101, ENTRY);
    assert!(matches!(outcome, WriteOutcome::Written { tier: Tier::Gpu, .. }), "{outcome:?}");
    bed.assert_at_rest();
}

/// On threads and a real file: entries leave GPU memory for the drive and are read back with no I/O
/// buffer between, by as many shards as there are.
#[test]
fn entries_go_past_the_buffers_on_threads_and_keep_their_content() {
    let directory =
        std::env::temp_dir().join(format!("ringfall-engine-{}-direct", std::process::id()));
    for (shards, promotes) in [(1, false), (2, true), (4, false)] {
        let mut cache = CacheDir::open(&directory).unwrap();
        let (file, path) = cache.create_data_file().unwrap();
        let file = DataFile::new(file, path, Preallocate::Reserve).unwrap();
        file.prepare(64 * MIB / BLOCK_BYTES).unwrap();
        let file = Arc::new(file);
        let device_bytes = GpuSpace::memory_bytes(8 * MIB, 1, shards, 4 * MIB);
        let memory = EmulatedMemory::new(1, device_bytes).unwrap();
        let engine = Engine::builder()
            .file(Arc::clone(&file))
            .storage_bytes(64 * MIB)
            .gpu_bytes(8 * MIB)
            .gpu_direct(memory.direct(vec![file.descriptor().unwrap()]))
            .gpu_memory(memory)
            .promote_on_hit(promotes)
            .verify(VerifyMode::Full)
            .shards(shards)
            .queue_depth(16)
            .start()
            .unwrap();
        let entries = engine.entries();
        for key in 0..60 {
            let outcome = entries.write(EntryKey(key), 500_000 + key as u64).unwrap();
            assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
        }
        for key in 0..60 {
            let outcome = entries.read(EntryKey(key)).unwrap();
            assert!(matches!(outcome, ReadOutcome::Hit { .. }), "{key}: {outcome:?}");
        }
        let metrics = engine.statistics().unwrap().metrics;
        assert_eq!((metrics.verify.blocks_bad, metrics.error_count()), (0, 0));
        let moves = metrics.gpu_moves;
        assert_eq!(moves.direct_read_bytes, metrics.io_read.bytes);
        assert_eq!(moves.direct_write_bytes, metrics.io_write.bytes);
        assert!(moves.direct_read_bytes > 10 * MIB, "{moves:?}");
        assert_eq!((moves.buffered_read_bytes, moves.buffered_write_bytes), (0, 0));
        // What was read from storage was compared in GPU memory.
        assert!(metrics.verify.blocks_checked * BLOCK_BYTES >= moves.direct_read_bytes);
        engine.stop().unwrap();
        drop(file);
        cache.remove().unwrap();
    }
}

/// A way past host memory that tells of nothing until it is let.
#[derive(Debug)]
struct Late {
    way: Arc<dyn DirectStorage>,
    tells: Arc<AtomicBool>,
}

struct LateQueue {
    queue: Box<dyn DirectQueue>,
    tells: Arc<AtomicBool>,
}

impl DirectStorage for Late {
    fn open_queue(&self, bell: Bell) -> Result<Box<dyn DirectQueue>, SetupError> {
        let tells = Arc::clone(&self.tells);
        Ok(Box::new(LateQueue { queue: self.way.open_queue(bell)?, tells }))
    }
}

impl DirectQueue for LateQueue {
    unsafe fn submit(&self, token: u64, io: DirectIo, pieces: &[Piece]) {
        // SAFETY: as the caller promises.
        unsafe { self.queue.submit(token, io, pieces) };
    }

    fn reap(&self, ended: &mut dyn FnMut(u64, i32)) {
        if self.tells.load(Ordering::Acquire) {
            self.queue.reap(ended);
        }
    }

    fn finish(&self) {
        self.queue.finish();
    }
}

/// Who looks whether a drive still answers sees them as any others.
#[test]
fn ios_past_the_buffers_are_in_flight_until_they_have_ended() {
    let directory =
        std::env::temp_dir().join(format!("ringfall-engine-{}-late", std::process::id()));
    let mut cache = CacheDir::open(&directory).unwrap();
    let (file, path) = cache.create_data_file().unwrap();
    let file = Arc::new(DataFile::new(file, path, Preallocate::Reserve).unwrap());
    file.prepare(64 * MIB / BLOCK_BYTES).unwrap();
    let device_bytes = GpuSpace::memory_bytes(8 * MIB, 1, 1, 4 * MIB);
    let memory = EmulatedMemory::new(1, device_bytes).unwrap();
    let tells = Arc::new(AtomicBool::new(false));
    let way = memory.direct(vec![file.descriptor().unwrap()]);
    let engine = Engine::builder()
        .file(Arc::clone(&file))
        .storage_bytes(64 * MIB)
        .gpu_bytes(8 * MIB)
        .gpu_direct(Arc::new(Late { way, tells: Arc::clone(&tells) }))
        .gpu_memory(memory)
        .start()
        .unwrap();
    let entries = engine.entries();
    let begin = |key| {
        let mode = WriteMode::Replace;
        entries.begin_write(EntryKey(key), 2 * MIB, mode).unwrap()
    };
    let writes: Vec<_> = (0..12).map(begin).collect();
    let deadline = Clock::Os.now() + Nanos::from_secs(60);
    while engine.statistics().unwrap().in_flight == 0 {
        assert!(Clock::Os.now() < deadline, "none is in flight");
        std::thread::sleep(Duration::from_millis(2));
    }
    tells.store(true, Ordering::Release);
    for write in writes {
        let outcome = write.wait().unwrap();
        assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
    }
    let statistics = engine.statistics().unwrap();
    assert_eq!((statistics.in_flight, statistics.metrics.error_count()), (0, 0));
    engine.stop().unwrap();
    drop(file);
    cache.remove().unwrap();
}

#[test]
fn a_way_that_ends_nothing_is_given_up_and_keeps_its_memory() {
    let path = std::env::temp_dir().join(format!("ringfall-silent-{}", std::process::id()));
    let mut directory = CacheDir::open(&path).unwrap();
    let (file, file_path) = directory.create_data_file().unwrap();
    let file = Arc::new(DataFile::new(file, file_path, Preallocate::Write).unwrap());
    file.prepare(MIB / BLOCK_BYTES).unwrap();
    let memory = EmulatedMemory::new(1, 2 * MIB).unwrap();
    let by_hand = ByHand::new(&memory);
    let (kept, direct) = (Arc::downgrade(&memory), Some(Arc::clone(&by_hand) as _));
    let ends = VramEnds { memory, file: Arc::clone(&file), direct };
    let plan = |silence_max| VramPlan {
        way: VramWay::ReadDirect,
        io_bytes: 64 << 10,
        depth: 2,
        threads: 1,
        range_bytes: MIB,
        ramp: Duration::ZERO,
        window: Duration::from_secs(3_600),
        seed: 7,
        silence_max,
    };
    // By itself, and, sooner, when it is to end early.
    for (silence_max, is_over) in [(60, false), (2_400, true)] {
        let plan = plan(Duration::from_millis(silence_max));
        let gave_up = measure_vram(&ends, &plan, &|| is_over);
        let Err(LoadError::Gpu { what }) = gave_up else { panic!("{gave_up:?}") };
        assert!(what.starts_with("none of 2 I/Os between GPU memory and storage"), "{what}");
    }
    drop(ends);
    assert!(kept.upgrade().is_some(), "what may still be written to is kept");
    assert_eq!(by_hand.take_begun().len(), 4);
    drop(file);
    directory.remove().unwrap();
}
