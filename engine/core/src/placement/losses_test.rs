//! Drives that are lost, and what lay on them or was on its way there (tests only).

use std::rc::Rc;
use std::sync::Arc;

use super::decisions_test::{CONFIG, at, granted, shards, write};
use super::*;
use crate::drive::DriveId;
use crate::key::{EntryKey, ShardId, Tier};
use crate::units::{BLOCK_BYTES, MIB};

#[test]
fn a_lost_drive_has_nothing_to_give_and_is_lost_once() {
    let drives = [(100, 50), (60, 60), (20, 20)];
    let budget = |(blocks, grown_blocks)| DriveBudget { blocks, grown_blocks };
    let drives = drives.map(budget);
    let config = BudgetConfig { segment_blocks: 10, ..CONFIG };
    let shared = |layout| SharedBudgets::on_drives(&config, u64::MAX, &drives, layout, 1);
    let stripes = shared(EntryLayout::Stripe);
    assert_eq!((stripes.largest_drive_blocks(), stripes.available_for(30)), (100, 130));
    assert_eq!((stripes.losses(), stripes.is_lost(DriveId(0))), (0, false));
    assert_eq!(stripes.pools.iter().map(|pool| pool.blocks_to_come()).sum::<u64>(), 50);
    assert!(stripes.can_grow(Tier::Storage), "one of them can");
    assert!(stripes.lose_drive(DriveId(0)) && !stripes.lose_drive(DriveId(0)));
    assert_eq!((stripes.losses(), stripes.is_lost(DriveId(0))), (1, true));
    assert!(!stripes.is_lost(DriveId(1)));
    assert_eq!((stripes.largest_drive_blocks(), stripes.available_for(30)), (60, 80));
    assert_eq!(stripes.capacity_bytes(Tier::Storage), 80 * BLOCK_BYTES);
    assert!(!stripes.can_grow(Tier::Storage));
    assert_eq!(stripes.pools[0].blocks_to_come(), 0);
    assert!(stripes.pools[0].try_lease(1).is_none() && stripes.pools[1].try_lease(1).is_some());
    // Whole entries have what one drive has, but those that are larger than any.
    let whole = shared(EntryLayout::Whole);
    assert_eq!((whole.available_for(30), whole.available_for(101)), (60, 130));
}

/// Whole entries of 4 blocks on two drives of 8, and which drive that of a key lies on.
fn two_drives() -> (Arc<SharedBudgets>, Placement<Rc<u8>>) {
    let drives = [DriveBudget { blocks: 8, grown_blocks: 8 }; 2];
    let shared = SharedBudgets::on_drives(&CONFIG, u64::MAX, &drives, EntryLayout::Whole, 1);
    let [first, _] = shards(&shared);
    (shared, first)
}

fn drive_of(placement: &Placement<Rc<u8>>, id: EntryId) -> DriveId {
    DriveId::of_block(placement.extents(id).as_slice()[0].start_block).0
}

#[test]
fn what_lay_on_a_lost_drive_is_counted_and_whoever_waits_for_room_is_woken() {
    let (shared, mut first) = two_drives();
    let ids = [1, 2, 3].map(|key| write(&mut first, key, 4 * BLOCK_BYTES, key as u64));
    let lost = drive_of(&first, ids[0]);
    let there = ids.iter().filter(|&&id| drive_of(&first, id) == lost).count() as u64;
    while first.take_wakeup().is_some() {}
    shared.wait_for_room(ShardId(1));
    shared.lose_drive(lost);
    assert_eq!(first.drop_drive(lost), (there, there * 4 * BLOCK_BYTES));
    assert_eq!(
        (first.counts(Tier::Storage).lost_entries, first.len()),
        (there, 3 - there as usize)
    );
    let reason = WakeReason::Room;
    assert_eq!(first.take_wakeup(), Some(Wakeup { shard: ShardId(1), reason }));
}

#[test]
fn what_was_being_written_to_a_lost_drive_is_gone_when_it_has_been() {
    let (shared, mut first) = two_drives();
    let mut begin = |key| {
        let grant = granted(&mut first, 4 * BLOCK_BYTES);
        first.insert_writing(EntryKey(key), grant, Rc::new(0), at(1))
    };
    let (one, other) = (begin(1), begin(2));
    let lost = drive_of(&first, one);
    assert_ne!(lost, drive_of(&first, other));
    shared.lose_drive(lost);
    assert_eq!(first.drop_drive(lost), (0, 0), "its writer still has it");
    first.write_done(one, at(2));
    first.write_done(other, at(3));
    assert!(first.lookup(EntryKey(1)).is_none() && first.lookup(EntryKey(2)).is_some());
    assert_eq!(first.counts(Tier::Storage).lost_entries, 1);
}

#[test]
fn a_victim_that_arrives_on_a_lost_drive_is_gone() {
    let drives = [DriveBudget { blocks: 8, grown_blocks: 8 }; 2];
    let config = BudgetConfig { cpu_bytes: MIB, ..CONFIG };
    let shared = SharedBudgets::on_drives(&config, u64::MAX, &drives, EntryLayout::Whole, 1);
    let [mut first, _] = shards(&shared);
    let id = write(&mut first, 1, 4 * BLOCK_BYTES, 1);
    let victim = first.begin_evict(Tier::Cpu).unwrap();
    let admission = first.admit(&mut AdmitState::for_victim(&victim).unwrap());
    let Admission::Granted(grant) = admission else { panic!("storage is free") };
    let (drive, _) = DriveId::of_block(grant.extents.as_slice()[0].start_block);
    shared.lose_drive(drive);
    assert_eq!(first.drop_drive(drive), (0, 0), "its mover still has it");
    assert!(first.finish_move(id, grant, Rc::new(1), at(2)));
    assert!(first.lookup(EntryKey(1)).is_none());
    assert_eq!(first.counts(Tier::Storage).lost_entries, 1);
    first.check_sums();
}

#[test]
fn an_entry_is_lost_with_any_of_its_drives_and_once() {
    let drives = [DriveBudget { blocks: 16, grown_blocks: 16 }; 2];
    let shared = SharedBudgets::on_drives(&CONFIG, u64::MAX, &drives, EntryLayout::Stripe, 1);
    let [mut first, _] = shards(&shared);
    let ids = [1, 2].map(|key| write(&mut first, key, 8 * BLOCK_BYTES, 1));
    // Removed already, and still read.
    first.pin(ids[1]);
    assert!(first.remove(EntryKey(2)));
    shared.lose_drive(DriveId(1));
    assert_eq!(first.drop_drive(DriveId(1)), (1, 8 * BLOCK_BYTES));
    first.unpin(ids[1], at(2));
    assert_eq!((first.len(), first.counts(Tier::Storage).lost_entries), (0, 1));
    first.check_sums();
}

#[test]
fn bytes_that_wait_for_a_drive_count_as_its_whole_blocks() {
    let (_, mut first) = two_drives();
    first.note_waiting(DriveId(1), 9 * BLOCK_BYTES + 1);
    assert_eq!(first.waiting_blocks[..], [0, 9]);
}
