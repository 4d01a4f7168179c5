//! Transfers of a shard: how they are resumed, dropped, and give way to others.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod support;

use std::rc::Rc;

use ringfall_doubles::{Fault, FaultPlan};
use ringfall_engine::error::ErrorKind;
use ringfall_engine::key::EntryKey;
use ringfall_engine::shard::{ReadOutcome, WriteOutcome};
use ringfall_engine::tier::Tier;
use ringfall_engine::units::{BLOCK_BYTES, MIB};
use support::{Bed, BedConfig, ENTRY};

fn is_hit_in(outcome: &ReadOutcome, expected: Tier) -> bool {
    matches!(outcome, ReadOutcome::Hit { tier, .. } if *tier == expected)
}

/// A further turn found nothing to start; and a thread whose tasks run twice hands over what they
/// asked for in a system call of its own, where the one that it sleeps in would have done.
#[test]
fn a_transfer_yields_after_a_slice_and_not_after_its_last() {
    for mib in 1..=3 {
        let config = BedConfig { io_blocks: 256, queue_depth: 8, ..BedConfig::default() };
        let bed = Bed::new(config);
        bed.write(0, 0, mib * MIB);
        let shard = Rc::clone(&bed.shards[0]);
        bed.runtime.spawn(Box::pin(async move {
            shard.read(shard.id(), EntryKey(0)).await;
        }));
        let turns = std::iter::from_fn(|| bed.runtime.run_one().then_some(())).count() as u64;
        assert_eq!((turns, u64::from(bed.shards[0].in_flight())), (mib, mib), "{mib} MiB");
        bed.settle();
        bed.assert_at_rest();
    }
}

#[test]
fn short_transfers_are_resumed_and_transient_errors_retried() {
    for fault in [Fault::Short, Fault::Errno(libc::EAGAIN), Fault::Errno(libc::EINTR)] {
        let bed = Bed::new(BedConfig::default());
        bed.devices[0].set_plan(FaultPlan::Every(3, fault));
        for key in 0..3 {
            let outcome = bed.write(0, key, ENTRY);
            assert!(matches!(outcome, WriteOutcome::Written { .. }), "{fault:?}: {outcome:?}");
            assert!(is_hit_in(&bed.read(0, key), Tier::Storage), "{fault:?}");
        }
        let metrics = bed.shards[0].measure().snapshot();
        assert_eq!(metrics.io_write.bytes, 3 * ENTRY, "{fault:?}: each byte counts once");
        assert_eq!(metrics.io_read.bytes, 3 * ENTRY);
        let seen = if fault == Fault::Short { metrics.short_transfers } else { metrics.retries };
        assert!(seen > 10, "{fault:?}: {seen}");
        bed.assert_at_rest();
    }
}

#[test]
fn a_read_of_one_io_survives_what_longer_ones_do() {
    let bytes = 2 * BLOCK_BYTES - 100;
    for (fault, expected) in [
        (Fault::Short, None),
        (Fault::Errno(libc::EAGAIN), None),
        (Fault::Errno(libc::EINTR), None),
        (Fault::Errno(libc::EIO), Some(ErrorKind::Media)),
        (Fault::Nothing, Some(ErrorKind::Truncated)),
        (Fault::Misdirected, Some(ErrorKind::Corrupt)),
    ] {
        let bed = Bed::new(BedConfig::default());
        bed.write(0, 7, bytes);
        bed.devices[0].set_plan(FaultPlan::Nth(bed.devices[0].submitted(), fault));
        let outcome = bed.read(0, 7);
        let metrics = bed.shards[0].measure().snapshot();
        match (expected, outcome) {
            (None, outcome) => {
                assert!(is_hit_in(&outcome, Tier::Storage), "{fault:?}: {outcome:?}");
                let io = &metrics.io_read;
                assert_eq!((io.bytes, io.entry_bytes), (2 * BLOCK_BYTES, bytes), "{fault:?}");
                let ios = if fault == Fault::Short { 2 } else { 1 };
                assert_eq!(io.latency.count(), ios, "{fault:?}");
                assert_eq!(metrics.short_transfers + metrics.retries, 1, "{fault:?}");
                assert_eq!(metrics.verify.blocks_checked, 2, "{fault:?}");
            }
            (Some(kind), ReadOutcome::Failed(error)) => {
                assert_eq!(error.kind, kind, "{fault:?}");
                assert_eq!(metrics.error_count(), 1, "{fault:?}");
            }
            (Some(_), outcome) => panic!("{fault:?}: {outcome:?}"),
        }
        bed.assert_at_rest();
        assert!(is_hit_in(&bed.read(0, 7), Tier::Storage), "{fault:?}: once only");
        bed.assert_at_rest();
    }
}

#[test]
fn reads_of_one_io_dropped_at_any_step_give_their_places_back() {
    for dropped_after in 0..40 {
        let bed = Bed::new(BedConfig { queue_depth: 2, ..BedConfig::default() });
        for key in 0..6 {
            bed.write(0, key, BLOCK_BYTES);
        }
        let reads = (0..6u128).map(|key| {
            let shard = Rc::clone(&bed.shards[0]);
            bed.runtime.spawn(Box::pin(async move {
                shard.read(shard.id(), EntryKey(key)).await;
            }))
        });
        let reads: Vec<u64> = reads.collect();
        for _ in 0..dropped_after {
            bed.step();
        }
        reads.iter().step_by(2).for_each(|&read| bed.runtime.cancel(read));
        bed.settle();
        bed.assert_at_rest();
        for key in 0..6 {
            assert!(is_hit_in(&bed.read(0, key), Tier::Storage), "{dropped_after}");
        }
        assert_eq!(bed.shards[0].measure().snapshot().error_count(), 0, "{dropped_after}");
        bed.assert_at_rest();
    }
}
