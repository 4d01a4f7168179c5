//! Gates and the storage pool under several threads (tests only).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::thread;

use super::gate::{NOBODY, Published, SharedGate};
use super::pool::{SegmentLease, StoragePool};
use crate::drive::DriveId;
use crate::key::ShardId;

#[test]
fn the_most_urgent_shard_gets_the_permit_and_ties_go_to_the_lowest() {
    let gate = SharedGate::new(1, 4);
    assert!(gate.try_acquire());
    assert!(!gate.try_acquire());
    for (shard, urgency) in [(3, 7), (2, 5), (1, 5)] {
        assert_eq!(gate.publish(ShardId(shard), urgency), Published::Waiting);
    }
    assert_eq!(gate.release(), Some(ShardId(1)));
    assert_eq!(gate.release(), Some(ShardId(2)));
    assert_eq!(gate.publish(ShardId(3), NOBODY), Published::Waiting);
    assert!(!gate.is_free());
    assert_eq!(gate.release(), None);
    assert!(gate.is_free());
    assert_eq!(gate.publish(ShardId(0), 9), Published::Acquired);
    assert_eq!(gate.release(), None, "the word of whoever acquired is withdrawn");
}

/// Each thread is a shard with one waiter at a time. A permit lost would leave a thread waiting for
/// ever: the bound on its looks turns that into a failure.
#[test]
fn no_permit_is_lost_or_doubled_between_threads() {
    const SHARDS: u16 = 4;
    const PERMITS: u32 = 2;
    const ROUNDS: u64 = 5_000;
    let gate = SharedGate::new(PERMITS, SHARDS);
    let mail: Vec<AtomicU64> = (0..SHARDS).map(|_| AtomicU64::new(0)).collect();
    let holders = AtomicI64::new(0);
    let overfull = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let send = |shard: Option<ShardId>| {
        if let Some(shard) = shard {
            mail[shard.index()].fetch_add(1, SeqCst);
        }
    };
    let receive = |shard: ShardId| {
        let word = &mail[shard.index()];
        word.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
    };
    thread::scope(|scope| {
        for shard in (0..SHARDS).map(ShardId) {
            let (gate, holders, overfull, send, receive, done) =
                (&gate, &holders, &overfull, &send, &receive, &done);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut got =
                        gate.try_acquire() || gate.publish(shard, round) == Published::Acquired;
                    let mut looks = 0u64;
                    while !got {
                        got = receive(shard);
                        looks += 1;
                        assert!(looks < 50_000_000, "a permit was lost");
                        thread::yield_now();
                    }
                    if holders.fetch_add(1, SeqCst) >= i64::from(PERMITS) {
                        overfull.store(true, SeqCst);
                    }
                    holders.fetch_sub(1, SeqCst);
                    send(gate.release());
                    // A second permit may have come for the word that was claimed meanwhile.
                    while receive(shard) {
                        send(gate.release());
                    }
                }
                assert_eq!(gate.publish(shard, NOBODY), Published::Waiting);
                // A permit may still come for a word claimed before: it is passed on, not kept.
                done.fetch_add(1, SeqCst);
                while done.load(SeqCst) < u64::from(SHARDS) {
                    while receive(shard) {
                        send(gate.release());
                    }
                    thread::yield_now();
                }
            });
        }
    });
    for shard in (0..SHARDS).map(ShardId) {
        while receive(shard) {
            send(gate.release());
        }
    }
    assert!(!overfull.load(SeqCst), "more holders than permits");
    let mut left = 0;
    while gate.try_acquire() {
        left += 1;
    }
    assert_eq!(left, PERMITS);
}

/// One releases while the other begins to wait, over and over from the same start: afterwards the
/// permit is in hand, in the mail or free with nobody waiting, never free beside a waiter.
#[test]
fn a_release_and_a_wait_at_the_same_moment_meet() {
    const EPISODES: u64 = 30_000;
    let gate = SharedGate::new(1, 2);
    assert!(gate.try_acquire());
    let (started, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let mailed = AtomicBool::new(false);
    let lost = AtomicU64::new(0);
    let wait_for = |word: &AtomicU64, value: u64| {
        // Yielding at once would keep the two apart; never yielding would hang on a busy core.
        for look in 0u64.. {
            if word.load(SeqCst) >= value {
                return;
            }
            match look % 5_000 {
                4_999 => thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    };
    // Slides the two against each other by a few nanoseconds an episode.
    let linger = |turns: u64| (0..turns).for_each(|_| std::hint::spin_loop());
    thread::scope(|scope| {
        scope.spawn(|| {
            for episode in 1..=EPISODES {
                wait_for(&started, episode);
                linger(episode % 7);
                if gate.release() == Some(ShardId(1)) {
                    mailed.store(true, SeqCst);
                }
                ended.store(episode, SeqCst);
            }
        });
        for episode in 1..=EPISODES {
            started.store(episode, SeqCst);
            linger(episode % 13);
            let got = gate.publish(ShardId(1), 7) == Published::Acquired;
            wait_for(&ended, episode);
            let by_mail = mailed.swap(false, SeqCst);
            assert!(!(got && by_mail), "the permit was doubled");
            if !got && !by_mail {
                lost.fetch_add(1, SeqCst);
                assert!(gate.try_acquire(), "the permit is nowhere");
            }
            assert!(!gate.is_free(), "a permit came from nowhere");
            assert_eq!(gate.publish(ShardId(1), NOBODY), Published::Waiting);
        }
    });
    assert_eq!(lost.load(SeqCst), 0);
}

#[test]
fn the_pool_leases_every_block_once_and_the_short_segment_last() {
    let pool = StoragePool::new(10 * 16 + 5, 16, u64::MAX);
    assert_eq!(pool.available_blocks(), 165);
    let lot = pool.try_lease(17).unwrap();
    assert_eq!((lot.full, lot.short), (2, false));
    assert_eq!(pool.try_lease(134), None);
    let lot = pool.try_lease(133).unwrap();
    assert_eq!((lot.full, lot.short), (8, true));
    assert_eq!(pool.available_blocks(), 0);
}

/// It was searched for until the end of time.
#[test]
#[should_panic(expected = "counted as free, and no segment is")]
fn a_segment_that_is_counted_and_not_there_is_told() {
    let pool = StoragePool::new(2 * 16, 16, u64::MAX);
    for _claimed_without_a_lease in 0..3 {
        let _number = pool.claim_number(0, 1);
    }
}

#[test]
fn threads_never_hold_the_same_segment() {
    const SEGMENTS: u64 = 150;
    let pool = StoragePool::new(SEGMENTS * 8, 8, u64::MAX);
    let held: Vec<AtomicBool> = (0..SEGMENTS).map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        for part in 0..4u64 {
            let (pool, held) = (&pool, &held);
            scope.spawn(move || {
                for round in 0..5_000u64 {
                    let Some(lot) = pool.try_lease(8 * (1 + (round + part) % 60)) else {
                        continue;
                    };
                    let numbers: Vec<u64> =
                        (0..lot.full).map(|_| pool.claim_number(part, 4)).collect();
                    for &number in &numbers {
                        assert!(!held[number as usize].swap(true, SeqCst), "{number} twice");
                    }
                    for number in numbers {
                        assert!(held[number as usize].swap(false, SeqCst));
                        pool.put_back(&SegmentLease { drive: DriveId(0), number, blocks: 8 });
                    }
                }
            });
        }
    });
    assert_eq!(pool.available_blocks(), SEGMENTS * 8);
    let lot = pool.try_lease(SEGMENTS * 8).unwrap();
    let numbers: BTreeSet<u64> = (0..lot.full).map(|_| pool.claim_number(0, 4)).collect();
    assert_eq!(numbers.len() as u64, SEGMENTS);
}

#[test]
fn a_pool_that_is_told_of_less_than_it_has_keeps_what_it_has() {
    let pool = StoragePool::new(130, 1, 100);
    assert_eq!(
        (pool.available_blocks(), pool.grown_blocks(), pool.blocks_to_come()),
        (100, 100, 30)
    );
    pool.grow_to(40);
    assert_eq!((pool.available_blocks(), pool.grown_blocks()), (100, 100));
    pool.grow_to(101);
    assert_eq!((pool.available_blocks(), pool.grown_blocks()), (101, 101));
    // Each is there once.
    assert_eq!(pool.try_lease(101).map(|lot| (lot.full, lot.short)), Some((101, false)));
    let numbers: BTreeSet<u64> = (0..101).map(|_| pool.claim_number(0, 1)).collect();
    assert_eq!(numbers, (0..101).collect());
}

#[test]
fn a_shards_segments_lie_in_its_part_of_the_space() {
    let pool = StoragePool::new(4 * 64, 1, u64::MAX);
    assert_eq!(pool.try_lease(4).map(|lot| lot.full), Some(4));
    assert_eq!([0, 1, 2, 3].map(|part| pool.claim_number(part, 4)), [0, 64, 128, 192]);
}
