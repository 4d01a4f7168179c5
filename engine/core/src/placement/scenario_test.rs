//! Named situations of the placement, one test each (tests only).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::sim_test::{Outcome, Sim};
use super::*;
use crate::clock::Nanos;
use crate::key::{EntryKey, ShardId, Tier};
use crate::units::BLOCK_BYTES;

fn config(shards: u16, cpu_bytes: u64, storage_blocks: u64) -> BudgetConfig {
    BudgetConfig {
        shards,
        gpu_bytes: 0,
        cpu_bytes,
        storage_blocks,
        segment_blocks: 4,
        slot_blocks: 1,
        watermarks: Watermarks::default(),
    }
}

fn at(ns: u64) -> Nanos {
    Nanos::from_ns(ns)
}

fn grant<D>(placement: &mut Placement<D>, bytes: u64) -> Grant {
    let Admission::Granted(mut grant) = placement.admit(&mut AdmitState::new(bytes)) else {
        panic!("there is room");
    };
    assert_eq!(placement.enter(&mut grant, false), Enter::Entered);
    grant
}

/// Writes `key` and makes it the victim of its tier.
fn begin_move(placement: &mut Placement<Rc<u8>>, key: u128, data: &Rc<u8>) -> Victim {
    let granted = grant(placement, 100);
    let id = placement.insert_writing(EntryKey(key), granted, Rc::clone(data), at(1));
    placement.write_done(id, at(2));
    placement.begin_evict(Tier::Cpu).unwrap()
}

fn storage_grant<D>(placement: &mut Placement<D>, victim: &Victim) -> Grant {
    let mut request = AdmitState::for_victim(victim).unwrap();
    let Admission::Granted(grant) = placement.admit(&mut request) else {
        panic!("storage is free")
    };
    assert_eq!(grant.tier, Tier::Storage);
    grant
}

fn assert_empty<D>(placement: &Placement<D>) {
    let sums = placement.check_sums();
    assert_eq!((sums.committed_bytes, sums.used_bytes, sums.used_blocks), ([0; 2], [0; 2], 0));
    assert_eq!(placement.shared().committed_bytes(Tier::Cpu), 0);
    assert_eq!(placement.shared().used_bytes(Tier::Cpu), 0);
    assert!(placement.is_empty());
}

#[test]
fn an_entry_removed_while_pinned_keeps_its_space_until_the_last_unpin() {
    let mut placement = Placement::new(SharedBudgets::new(&config(1, 0, 8)), ShardId(0));
    let granted = grant(&mut placement, 8 * BLOCK_BYTES);
    let id = placement.insert_writing(EntryKey(1), granted, (), at(1));
    placement.write_done(id, at(2));
    placement.pin(id);
    placement.pin(id);
    assert!(placement.remove(EntryKey(1)));
    assert!(!placement.remove(EntryKey(1)));
    assert_eq!(placement.lookup(EntryKey(1)), None);
    placement.unpin(id, at(3));
    assert_eq!(placement.check_sums().used_blocks, 8);
    placement.unpin(id, at(4));
    assert_empty(&placement);
}

#[test]
fn a_victim_removed_on_its_way_down_leaves_nothing() {
    let data = Rc::new(0);
    let mut placement = Placement::new(SharedBudgets::new(&config(1, 1000, 8)), ShardId(0));
    let victim = begin_move(&mut placement, 1, &data);
    assert_eq!(victim.to, Some(Tier::Storage));
    let granted = storage_grant(&mut placement, &victim);
    placement.pin(victim.id);
    assert_eq!(placement.lookup(EntryKey(1)).unwrap().state, EntryState::Moving);
    assert!(placement.remove(EntryKey(1)));
    assert!(!placement.finish_move(victim.id, granted, Rc::clone(&data), at(5)));
    assert_eq!(placement.shared().used_bytes(Tier::Cpu), 100, "a reader still has it");
    placement.unpin(victim.id, at(6));
    assert_empty(&placement);
    assert_eq!(Rc::strong_count(&data), 1, "the handle goes with the entry");
}

#[test]
fn a_reader_of_a_victim_keeps_it_off_the_list_below() {
    let data = Rc::new(0);
    let mut placement = Placement::new(SharedBudgets::new(&config(1, 1000, 8)), ShardId(0));
    let victim = begin_move(&mut placement, 1, &data);
    placement.pin(victim.id);
    let granted = storage_grant(&mut placement, &victim);
    assert!(placement.finish_move(victim.id, granted, Rc::clone(&data), at(5)));
    assert_eq!(placement.shared().used_bytes(Tier::Cpu), 0);
    assert_eq!(placement.begin_evict(Tier::Storage), None);
    placement.unpin(victim.id, at(6));
    assert_eq!(placement.begin_evict(Tier::Storage).map(|victim| victim.to), Some(None));
    assert_empty(&placement);
}

#[test]
fn whatever_fails_on_the_way_gives_everything_back() {
    let data = Rc::new(0);
    let mut placement = Placement::new(SharedBudgets::new(&config(1, 1000, 8)), ShardId(0));
    let Admission::Granted(not_entered) = placement.admit(&mut AdmitState::new(10)) else {
        panic!("there is room")
    };
    placement.cancel(not_entered);
    let entered = grant(&mut placement, 10);
    placement.cancel(entered);
    let granted = grant(&mut placement, 10);
    let id = placement.insert_writing(EntryKey(1), granted, Rc::clone(&data), at(1));
    placement.write_failed(id);
    let victim = begin_move(&mut placement, 2, &data);
    let granted = storage_grant(&mut placement, &victim);
    placement.cancel(granted);
    placement.move_failed(victim.id);
    assert_eq!(placement.counts(Tier::Cpu).lost_entries, 1);
    assert_empty(&placement);
    assert_eq!(Rc::strong_count(&data), 1);
}

#[test]
fn a_rewrite_replaces_the_entry_and_has_another_version() {
    let mut placement = Placement::new(SharedBudgets::new(&config(1, 0, 8)), ShardId(0));
    let mut versions = Vec::new();
    for now in (0..3).map(at) {
        let granted = grant(&mut placement, BLOCK_BYTES);
        let id = placement.insert_writing(EntryKey(1), granted, (), now);
        versions.push(placement.view(id).version);
        placement.write_done(id, now);
    }
    versions.dedup();
    assert_eq!(versions.len(), 3);
    assert_eq!(placement.check_sums().used_blocks, 1);
}

#[test]
fn idle_segments_of_another_shard_come_before_any_entry() {
    let mut sim = Sim::new(&config(2, 0, 8));
    sim.write(1, 9, 8 * BLOCK_BYTES);
    sim.run_in_order();
    assert!(sim.remove(1, 9), "its two segments are idle now");
    sim.write(0, 1, 3 * BLOCK_BYTES);
    sim.run_in_order();
    sim.write(0, 2, 5 * BLOCK_BYTES);
    sim.run_in_order();
    assert_eq!(sim.outcomes, [Outcome::In(Tier::Storage); 3]);
    assert_eq!(sim.shards[0].len(), 2, "nothing was deleted");
    assert_eq!(sim.asks, 2);
    sim.check();
}

#[test]
fn the_shard_with_the_oldest_entry_makes_room() {
    let mut sim = Sim::new(&config(2, 1000, 100));
    for (shard, key) in [(1, 10), (0, 20), (1, 11), (0, 21)] {
        sim.write(shard, key, 250);
        sim.run_in_order();
    }
    sim.write(0, 22, 250);
    sim.run_in_order();
    // 1,250 bytes must become 800 or less: the two oldest leave, one of each shard.
    let tier = |sim: &Sim, shard: usize, key| sim.shards[shard].lookup(EntryKey(key)).unwrap().tier;
    assert_eq!((tier(&sim, 1, 10), tier(&sim, 0, 20)), (Tier::Storage, Tier::Storage));
    for (shard, key) in [(1, 11), (0, 21), (0, 22)] {
        assert_eq!(tier(&sim, shard, key), Tier::Cpu);
    }
    sim.check();
}

#[test]
fn a_read_makes_an_entry_young_for_every_shard() {
    let mut sim = Sim::new(&config(2, 1000, 100));
    for (shard, key) in [(1, 10), (0, 20), (0, 21), (0, 22)] {
        sim.write(shard, key, 250);
        sim.run_in_order();
    }
    sim.pin(1, 10);
    sim.unpin(0);
    sim.write(1, 11, 250);
    sim.run_in_order();
    let tier = |sim: &Sim, shard: usize, key| sim.shards[shard].lookup(EntryKey(key)).unwrap().tier;
    assert_eq!((tier(&sim, 0, 20), tier(&sim, 0, 21)), (Tier::Storage, Tier::Storage));
    assert_eq!((tier(&sim, 1, 10), tier(&sim, 0, 22)), (Tier::Cpu, Tier::Cpu));
}

#[test]
fn who_waits_for_room_is_woken_by_an_unpin_on_another_shard() {
    let mut sim = Sim::new(&config(2, 0, 8));
    sim.write(1, 1, 8 * BLOCK_BYTES);
    sim.run_in_order();
    sim.pin(1, 1);
    sim.write(0, 2, BLOCK_BYTES);
    while sim.step(0) {}
    assert_eq!((sim.tasks_open(), sim.waits), (1, 1));
    sim.unpin(0);
    while sim.step(0) {}
    assert_eq!(sim.tasks_open(), 0);
    assert_eq!(sim.shards[1].len(), 0);
    assert_eq!(sim.outcomes, [Outcome::In(Tier::Storage); 2]);
}

/// Entries of a quarter of the CPU tier, the same writes and reads on 1, 2 and 4 shards: the same
/// entries stay, whoever holds them.
#[test]
fn the_shard_count_does_not_change_what_is_kept() {
    let mut kept: Vec<BTreeMap<u128, Tier>> = Vec::new();
    for shards in [1u16, 2, 4] {
        let mut sim = Sim::new(&config(shards, 16_384, 48));
        let mut state = 5u64;
        for _ in 0..400 {
            state = crate::key::mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let key = u128::from(state % 40);
            let shard = (key % u128::from(shards)) as usize;
            if sim.shards[shard].lookup(EntryKey(key)).is_some() {
                sim.pin(shard, key);
                sim.unpin(0);
            } else {
                sim.write(shard, key, 4096);
                sim.run_in_order();
            }
            sim.check();
        }
        let entries = (0..40u128).filter_map(|key| {
            let shard = (key % u128::from(shards)) as usize;
            sim.shards[shard].lookup(EntryKey(key)).map(|view| (key, view.tier))
        });
        kept.push(entries.collect());
    }
    assert!(kept[0].values().filter(|&&tier| tier == Tier::Cpu).count() >= 3);
    assert!(kept[0].len() > 20);
    assert_eq!(kept[0], kept[1]);
    assert_eq!(kept[0], kept[2]);
}

#[test]
fn an_entry_above_storage_is_refused_with_the_limit() {
    let mut placement: Placement<()> =
        Placement::new(SharedBudgets::new(&config(1, 1000, 8)), ShardId(0));
    let admission = placement.admit(&mut AdmitState::new(8 * BLOCK_BYTES + 1));
    assert!(matches!(admission, Admission::Refused { limit_bytes } if limit_bytes == 32_768));
    assert_empty(&placement);
}

/// Who comes later does not slip in before the one that waits at the door.
#[test]
fn physical_space_is_entered_in_turn() {
    let shared = SharedBudgets::new(&config(2, 1000, 8));
    let mut first = Placement::new(Arc::clone(&shared), ShardId(0));
    let mut second: Placement<()> = Placement::new(Arc::clone(&shared), ShardId(1));
    let granted = grant(&mut first, 600);
    let id = first.insert_writing(EntryKey(1), granted, (), at(1));
    first.write_done(id, at(2));
    let victim = first.begin_evict(Tier::Cpu).unwrap();
    let Admission::Granted(mut large) = second.admit(&mut AdmitState::new(700)) else {
        panic!("the ledger has room")
    };
    assert_eq!(second.enter(&mut large, false), Enter::NeedDoor);
    assert!(shared.door(Tier::Cpu).try_acquire());
    assert_eq!(second.enter(&mut large, true), Enter::Wait);
    let Admission::Granted(mut small) = first.admit(&mut AdmitState::new(100)) else {
        panic!("the ledger has room")
    };
    assert_eq!(first.enter(&mut small, false), Enter::NeedDoor);
    let granted = storage_grant(&mut first, &victim);
    assert!(first.finish_move(victim.id, granted, (), at(3)));
    let wakeup = first.take_wakeup();
    let reason = WakeReason::Door(Tier::Cpu);
    assert_eq!(wakeup, Some(Wakeup { shard: ShardId(1), reason }));
    assert_eq!(first.take_wakeup(), None);
    assert_eq!(second.enter(&mut large, true), Enter::Entered);
    assert_eq!(shared.door(Tier::Cpu).release(), None);
    assert_eq!(first.enter(&mut small, false), Enter::Entered);
    first.cancel(small);
    second.cancel(large);
    assert_eq!(shared.used_bytes(Tier::Cpu), 0);
}
