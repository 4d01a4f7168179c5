//! Single decisions of the placement, at their borders (tests only).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use super::sim_test::{Grown, growing};
use super::*;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::key::{EntryKey, ShardId, Tier};
use crate::units::{BLOCK_BYTES, MIB};

pub(super) const CONFIG: BudgetConfig = BudgetConfig {
    shards: 2,
    gpu_bytes: 0,
    cpu_bytes: 0,
    storage_blocks: 16,
    segment_blocks: 4,
    slot_blocks: 1,
    watermarks: Watermarks {
        evict_target_permille: 800,
        skip_permille: 950,
        storage: StorageEviction::LRU,
    },
};

pub(super) fn at(ns: u64) -> Nanos {
    Nanos::from_ns(ns)
}

pub(super) fn shards(shared: &Arc<SharedBudgets>) -> [Placement<Rc<u8>>; 2] {
    [0, 1].map(|shard| Placement::new(Arc::clone(shared), ShardId(shard)))
}

pub(super) fn granted<D>(placement: &mut Placement<D>, bytes: u64) -> Grant {
    let Admission::Granted(mut grant) = placement.admit(&mut AdmitState::new(bytes)) else {
        panic!("there is room");
    };
    assert_eq!(placement.enter(&mut grant, false), Enter::Entered);
    grant
}

/// An entry of that key and size, last used at `ns`.
pub(super) fn write(placement: &mut Placement<Rc<u8>>, key: u128, bytes: u64, ns: u64) -> EntryId {
    let grant = granted(placement, bytes);
    let id = placement.insert_writing(EntryKey(key), grant, Rc::new(0), at(ns));
    placement.write_done(id, at(ns));
    id
}

/// Answer to an admission with the tier's baton in hand.
fn with_baton<D>(placement: &mut Placement<D>, tier: Tier, bytes: u64) -> Admission {
    let mut request = AdmitState::new(bytes);
    request.tier = tier;
    request.baton_acquired(tier);
    placement.admit(&mut request)
}

#[track_caller]
fn asks(admission: &Admission) -> (ShardId, u64) {
    let Admission::AskShard { shard, ask } = admission else { panic!("{admission:?}") };
    (*shard, ask.need_bytes / BLOCK_BYTES)
}

#[test]
fn who_comes_later_does_not_slip_in_before_the_holder_of_a_baton() {
    let shared = SharedBudgets::new(&BudgetConfig { cpu_bytes: 1_000, ..CONFIG });
    let [mut first, _] = shards(&shared);
    for (tier, bytes) in [(Tier::Cpu, 100), (Tier::Storage, 2_000)] {
        assert!(shared.baton(tier).try_acquire());
        let admission = first.admit(&mut AdmitState::new(bytes));
        assert!(matches!(admission, Admission::NeedBaton(t) if t == tier), "{admission:?}");
        assert_eq!(shared.baton(tier).release(), None);
        let _ = granted(&mut first, bytes);
    }
}

#[test]
fn room_that_came_while_the_baton_was_awaited_is_taken_although_it_is_above_the_target() {
    let shared = SharedBudgets::new(&BudgetConfig { cpu_bytes: 1_000, ..CONFIG });
    let [mut first, _] = shards(&shared);
    write(&mut first, 1, 700, 1);
    let admission = with_baton(&mut first, Tier::Cpu, 200);
    assert!(matches!(&admission, Admission::Granted(grant) if grant.tier == Tier::Cpu));
    // Once it evicts, it goes on to the target, room or not.
    let mut request = AdmitState::new(200);
    request.tier = Tier::Cpu;
    request.baton_acquired(Tier::Cpu);
    let Admission::Granted(grant) = admission else { unreachable!() };
    assert!(matches!(first.admit(&mut request), Admission::Evict(_)));
    first.cancel(grant);
    let next = first.admit(&mut request);
    assert!(matches!(next, Admission::Granted(_)), "{next:?}");
}

#[test]
fn a_shard_asks_for_what_it_lacks_beyond_its_own_free_blocks() {
    let shared = SharedBudgets::new(&CONFIG);
    let [mut first, mut second] = shards(&shared);
    write(&mut second, 1, 12 * BLOCK_BYTES, 1);
    write(&mut first, 2, 2 * BLOCK_BYTES, 2);
    // Two of its four blocks are free.
    let admission = with_baton(&mut first, Tier::Storage, 5 * BLOCK_BYTES);
    assert_eq!(asks(&admission), (ShardId(1), 3));
}

/// Two drives, all leased to the second shard but what the first holds for an entry of a block.
fn full_drives(layout: EntryLayout) -> [Placement<Rc<u8>>; 2] {
    let drives = [DriveBudget { blocks: 8, grown_blocks: 8 }; 2];
    let shared = SharedBudgets::on_drives(&CONFIG, u64::MAX, &drives, layout, 1);
    let [mut first, mut second] = shards(&shared);
    write(&mut first, 1, BLOCK_BYTES, 5);
    let left = shared.unleased_blocks() * BLOCK_BYTES;
    assert_eq!(left, 12 * BLOCK_BYTES);
    write(&mut second, 2, 8 * BLOCK_BYTES, 1);
    write(&mut second, 3, 4 * BLOCK_BYTES, 2);
    [first, second]
}

#[test]
fn a_whole_entry_needs_all_of_its_blocks_on_one_drive() {
    let [mut first, _] = full_drives(EntryLayout::Whole);
    let admission = with_baton(&mut first, Tier::Storage, 6 * BLOCK_BYTES);
    assert_eq!(asks(&admission), (ShardId(1), 6));
    // One that is larger than any drive lies on several, as stripes do.
    let admission = with_baton(&mut first, Tier::Storage, 9 * BLOCK_BYTES);
    assert_eq!(asks(&admission), (ShardId(1), 6));
    let [mut first, _] = full_drives(EntryLayout::Stripe);
    let admission = with_baton(&mut first, Tier::Storage, 6 * BLOCK_BYTES);
    assert_eq!(asks(&admission), (ShardId(1), 3));
    // What is free on a lost drive is no help.
    let lost = (0..2).map(DriveId).find(|&drive| first.spaces.on(drive.index()).free_blocks() > 0);
    first.shared().lose_drive(lost.unwrap());
    let admission = with_baton(&mut first, Tier::Storage, 6 * BLOCK_BYTES);
    assert_eq!(asks(&admission), (ShardId(1), 6));
}

#[test]
fn an_asked_shard_looks_first_whether_the_need_still_stands() {
    let shared = SharedBudgets::new(&BudgetConfig { cpu_bytes: 1_000, ..CONFIG });
    let [mut first, mut second] = shards(&shared);
    write(&mut first, 1, 500, 1);
    // 500 and 300 are the target.
    let nothing = first.evict_for_other(Ask { tier: Tier::Cpu, need_bytes: 300, excess_blocks: 0 });
    assert!(matches!(nothing, ForOther::Nothing), "{nothing:?}");
    let one = first.evict_for_other(Ask { tier: Tier::Cpu, need_bytes: 301, excess_blocks: 0 });
    assert!(matches!(one, ForOther::Demote(victim) if victim.bytes == 500), "{one:?}");
    // On storage: nobody holds as many blocks as are asked for.
    write(&mut second, 2, 4_000, 2);
    let free = shared.unleased_blocks() * BLOCK_BYTES;
    let nothing =
        second.evict_for_other(Ask { tier: Tier::Storage, need_bytes: free, excess_blocks: 0 });
    assert!(matches!(nothing, ForOther::Nothing), "{nothing:?}");
    assert_eq!(second.len(), 1);
}

#[track_caller]
fn freed(answer: ForOther) -> (u64, Vec<u64>) {
    let ForOther::Freed { deleted_entries, segments } = answer else { panic!("{answer:?}") };
    (deleted_entries, segments.iter().map(|lease| lease.blocks).collect())
}

#[test]
fn an_asked_shard_deletes_its_oldest_until_a_segment_is_free() {
    let shared = SharedBudgets::new(&CONFIG);
    let [mut first, mut second] = shards(&shared);
    for key in 0..8 {
        write(&mut second, key, 2 * BLOCK_BYTES, 1 + key as u64);
    }
    let ask = |blocks: u64| Ask {
        tier: Tier::Storage,
        need_bytes: blocks * BLOCK_BYTES,
        excess_blocks: 0,
    };
    assert_eq!(freed(second.evict_for_other(ask(1))), (2, vec![4]));
    // It may have been asked by mistake: another shard's are older now, and nothing is free.
    assert_eq!(freed(first.evict_for_other(ask(1))), (0, vec![]));
    assert_eq!(second.counts(Tier::Storage).evicted_entries, 2);
    assert_eq!(second.counts(Tier::Storage).evicted_bytes, 4 * BLOCK_BYTES);
    // What is free already goes first, and no more of it than is needed.
    for key in 2..6 {
        assert!(second.remove(EntryKey(key)));
    }
    assert_eq!(freed(second.evict_for_other(ask(4))), (0, vec![4]));
    assert_eq!(freed(second.evict_for_other(ask(8))), (0, vec![4]));
    assert_eq!(second.len(), 2);
    assert_eq!(second.counts(Tier::Storage).removed_entries, 4);
}

#[test]
fn for_a_whole_entry_all_free_segments_are_given_up() {
    for (layout, segments) in [(EntryLayout::Whole, 3), (EntryLayout::Stripe, 1)] {
        let [_, mut second] = full_drives(layout);
        second.remove(EntryKey(2));
        second.remove(EntryKey(3));
        let ask = Ask { tier: Tier::Storage, need_bytes: 4 * BLOCK_BYTES, excess_blocks: 0 };
        let (_, found) = freed(second.evict_for_other(ask));
        assert_eq!(found, vec![4; segments], "{layout:?}");
    }
}

#[test]
fn segments_that_come_back_wake_who_waits_for_room() {
    let shared = SharedBudgets::new(&CONFIG);
    let [mut first, mut second] = shards(&shared);
    write(&mut second, 1, 4 * BLOCK_BYTES, 1);
    second.remove(EntryKey(1));
    let _ = second.take_wakeup();
    let ask = Ask { tier: Tier::Storage, need_bytes: 16 * BLOCK_BYTES, excess_blocks: 0 };
    let ForOther::Freed { segments, .. } = second.evict_for_other(ask) else { unreachable!() };
    let _ = second.take_wakeup();
    shared.wait_for_room(ShardId(0));
    first.return_segments(Vec::new());
    assert_eq!(first.take_wakeup(), None, "nothing came back");
    first.return_segments(segments);
    let reason = WakeReason::Room;
    assert_eq!(first.take_wakeup(), Some(Wakeup { shard: ShardId(0), reason }));
}

#[test]
fn a_promise_of_a_tier_that_became_smaller_is_withdrawn_with_and_without_the_door() {
    let config = BudgetConfig { cpu_bytes: 256 * MIB, ..CONFIG };
    let shared = growing(&config, Grown { cpu_bytes: 0, storage_blocks: u64::MAX });
    let [mut first, _] = shards(&shared);
    let Admission::Granted(mut grant) = first.admit(&mut AdmitState::new(MIB)) else {
        panic!("the tier may have room")
    };
    assert_eq!(first.enter(&mut grant, false), Enter::NeedDoor);
    assert!(shared.door(Tier::Cpu).try_acquire());
    assert_eq!(first.enter(&mut grant, true), Enter::Wait);
    let growth = first.take_growth().expect("somebody waits at the door");
    assert!(shared.is_taking_space());
    assert!(!first.may_retry());
    first.end_growth(growth, Err("there is none".to_owned()), at(1));
    assert!(!shared.is_taking_space());
    assert!(first.may_retry());
    for holds_door in [true, false] {
        assert_eq!(first.enter(&mut grant, holds_door), Enter::Withdrawn);
    }
    first.cancel(grant);
    assert_eq!(shared.committed_bytes(Tier::Cpu), 0);
}

#[test]
fn a_step_is_due_when_less_than_half_of_one_is_idle() {
    // A step is a quarter of 64 MiB at the least, in units of a segment of 1 MiB.
    let config = BudgetConfig { storage_blocks: 16_384, segment_blocks: 256, ..CONFIG };
    let grown = Grown { cpu_bytes: 0, storage_blocks: 1_024 };
    let due = |blocks: u64| {
        let shared = growing(&config, grown);
        let [mut first, _] = shards(&shared);
        let step = first.take_growth();
        assert!(step.is_none(), "nothing is asked for: {step:?}");
        let grant = granted(&mut first, blocks * BLOCK_BYTES);
        let growth = first.take_growth();
        first.cancel(grant);
        growth.map(|growth| growth.step.want_bytes / BLOCK_BYTES)
    };
    // 1,024 blocks less two segments are half of a step of as many; less three are not.
    assert_eq!(due(512), None);
    assert_eq!(due(513), Some(1_024));
}

#[test]
fn a_shortage_lasts_from_the_first_refusal_to_the_step_after_the_last() {
    let config = BudgetConfig { storage_blocks: 16_384, segment_blocks: 256, ..CONFIG };
    let shared = growing(&config, Grown { cpu_bytes: 0, storage_blocks: 1_024 });
    let [mut first, _] = shards(&shared);
    let _kept = granted(&mut first, 600 * BLOCK_BYTES);
    let until = || shared.shortages().iter().map(|shortage| shortage.until).collect::<Vec<_>>();
    let growth = first.take_growth().unwrap();
    first.end_growth(growth, Ok(growth.step.want_bytes), at(1));
    assert_eq!(until(), [], "nothing was refused");
    let _more = granted(&mut first, 1_000 * BLOCK_BYTES);
    let growth = first.take_growth().unwrap();
    first.end_growth(growth, Err("full".to_owned()), at(10));
    assert!(first.take_growth().is_none());
    // Not before five seconds are over, and then once.
    let again = at(10) + Nanos::from_secs(5);
    assert_eq!(first.take_retry(again - at(1)), None);
    let growth = first.take_retry(again).expect("it is time");
    assert_eq!(first.take_retry(again), None);
    first.end_growth(growth, Ok(growth.step.want_bytes), at(20));
    assert_eq!(until(), [Some(at(20))]);
    let growth = first.take_growth();
    assert!(growth.is_none_or(|growth| growth.tier == Tier::Storage));
    // Refused again: it has no end any more; and the end is that of the first step after it.
    let growth = shared_step(&mut first);
    first.end_growth(growth, Err("full".to_owned()), at(30));
    assert_eq!(until(), [None]);
    let growth = first.take_retry(at(30) + Nanos::from_secs(5)).unwrap();
    first.end_growth(growth, Ok(256 * BLOCK_BYTES), at(40));
    let growth = shared_step(&mut first);
    first.end_growth(growth, Ok(256 * BLOCK_BYTES), at(50));
    assert_eq!(until(), [Some(at(40))]);
    assert_eq!(shared.shortages()[0].at, at(10));
}

#[test]
fn an_entry_takes_whole_slots_of_storage() {
    let shared = SharedBudgets::new(&BudgetConfig { slot_blocks: 3, ..CONFIG });
    let [mut first, _] = shards(&shared);
    let blocks = [1, 3, 4].map(|blocks| {
        let grant = granted(&mut first, blocks * BLOCK_BYTES);
        (grant.bytes / BLOCK_BYTES, grant.extents.blocks())
    });
    assert_eq!(blocks, [(1, 3), (3, 3), (4, 6)]);
    // Four blocks are left, one more than a slot.
    let admission = first.admit(&mut AdmitState::new(4 * BLOCK_BYTES));
    assert!(matches!(admission, Admission::NeedBaton(Tier::Storage)), "{admission:?}");
}

/// The next step of storage, whether or not one is due.
fn shared_step(placement: &mut Placement<Rc<u8>>) -> Growth {
    placement.wants_growth[Tier::Storage.index()] = true;
    placement.take_growth().expect("more may come")
}

#[test]
fn the_shard_with_most_free_segments_is_asked_first() {
    let shared = SharedBudgets::new(&BudgetConfig { shards: 4, ..CONFIG });
    for (shard, count) in [(0, 9), (1, 2), (2, 3)] {
        shared.set_free_segments(ShardId(shard), count);
    }
    assert_eq!(shared.richest_shard(ShardId(0)), Some(ShardId(2)));
    assert_eq!(shared.richest_shard(ShardId(3)), Some(ShardId(0)));
    shared.set_free_segments(ShardId(0), 0);
    shared.set_free_segments(ShardId(1), 0);
    assert_eq!(shared.richest_shard(ShardId(2)), None);
}

#[test]
fn the_others_see_at_once_what_a_grant_took_and_what_came_back() {
    let shared = SharedBudgets::new(&CONFIG);
    let [mut first, _] = shards(&shared);
    write(&mut first, 1, 8 * BLOCK_BYTES, 1);
    assert_eq!(shared.richest_shard(ShardId(1)), None);
    first.remove(EntryKey(1));
    assert_eq!(shared.richest_shard(ShardId(1)), Some(ShardId(0)));
    let grant = granted(&mut first, 8 * BLOCK_BYTES);
    assert_eq!(shared.richest_shard(ShardId(1)), None, "nothing is free any more");
    first.cancel(grant);
    assert_eq!(shared.richest_shard(ShardId(1)), Some(ShardId(0)));
    let grant = granted(&mut first, 8 * BLOCK_BYTES);
    let id = first.insert_writing(EntryKey(2), grant, Rc::new(0), at(2));
    assert_eq!(shared.richest_shard(ShardId(1)), None, "it is being written");
    first.write_failed(id);
    assert_eq!(shared.richest_shard(ShardId(1)), Some(ShardId(0)));
}

#[test]
fn memory_that_will_soon_be_used_up_is_asked_for_when_an_entry_enters() {
    let config = BudgetConfig { cpu_bytes: 256 * MIB, ..CONFIG };
    for (mib, is_due) in [(1, false), (62, true)] {
        let grown = Grown { cpu_bytes: 64 * MIB, storage_blocks: u64::MAX };
        let shared = growing(&config, grown);
        let [mut first, _] = shards(&shared);
        let grant = granted(&mut first, mib * MIB);
        let growth = first.take_growth();
        assert_eq!(growth.map(|growth| growth.tier), is_due.then_some(Tier::Cpu), "{mib} MiB");
        first.cancel(grant);
    }
}

#[test]
fn a_victim_passes_over_a_tier_that_is_too_small_for_it() {
    let config = BudgetConfig { gpu_bytes: 10_000, cpu_bytes: 1_000, ..CONFIG };
    let shared = SharedBudgets::new(&config);
    let below = |bytes| shared.next_below(Tier::Gpu, bytes);
    assert_eq!([below(950), below(951)], [Some(Tier::Cpu), Some(Tier::Storage)]);
    assert_eq!(shared.next_below(Tier::Storage, 1), None);
}

#[test]
fn counts_of_shards_add_up() {
    let of = |n: u64| TierCounts {
        entries: n,
        bytes: 10 * n,
        evicted_entries: 100 * n,
        evicted_bytes: 1_000 * n,
        lost_entries: 10_000 * n,
        removed_entries: 100_000 * n,
    };
    let mut sum = of(1);
    sum.add(of(2));
    assert_eq!(sum, of(3));
}

#[test]
fn an_entry_removed_while_it_is_written_or_moved_is_gone_however_that_ends() {
    let shared = SharedBudgets::new(&BudgetConfig { cpu_bytes: 1_000, ..CONFIG });
    let [mut first, _] = shards(&shared);
    for fails in [true, false] {
        let grant = granted(&mut first, 100);
        let id = first.insert_writing(EntryKey(1), grant, Rc::new(0), at(1));
        assert!(first.remove(EntryKey(1)));
        if fails {
            first.write_failed(id)
        } else {
            first.write_done(id, at(2))
        }
        assert!(first.is_empty());
        assert_eq!((first.begin_evict(Tier::Cpu), shared.used_bytes(Tier::Cpu)), (None, 0));
    }
    write(&mut first, 2, 100, 3);
    assert!(!first.is_empty());
    let victim = first.begin_evict(Tier::Cpu).unwrap();
    assert!(first.remove(EntryKey(2)));
    first.move_failed(victim.id);
    assert_eq!((first.counts(Tier::Cpu).lost_entries, shared.used_bytes(Tier::Cpu)), (0, 0));
    assert_eq!(first.counts(Tier::Cpu).removed_entries, 3);
    // All of them were in one place, one after the other.
    assert_eq!(first.table.slots.len(), 1);
}

#[test]
fn an_entry_that_moved_has_the_handle_of_where_it_is() {
    let shared = SharedBudgets::new(&BudgetConfig { cpu_bytes: 1_000, ..CONFIG });
    let [mut first, _] = shards(&shared);
    write(&mut first, 1, 100, 1);
    let victim = first.begin_evict(Tier::Cpu).unwrap();
    let mut request = AdmitState::for_victim(&victim).unwrap();
    let Admission::Granted(grant) = first.admit(&mut request) else { unreachable!() };
    let below = Rc::new(7);
    assert!(first.finish_move(victim.id, grant, Rc::clone(&below), at(2)));
    assert!(Rc::ptr_eq(first.data(victim.id), &below));
    first.pin(victim.id);
    let grant = granted(&mut first, 100);
    let above = Rc::new(8);
    assert!(first.finish_promotion(victim.id, Tier::Storage, grant, Rc::clone(&above)));
    assert!(Rc::ptr_eq(first.data(victim.id), &above));
    assert_eq!(Rc::strong_count(&below), 1);
    first.unpin(victim.id, at(3));
}

#[test]
fn an_entry_is_promoted_only_from_where_it_is_and_when_nobody_else_reads_it_from_storage() {
    let config = BudgetConfig { gpu_bytes: 1_000, cpu_bytes: 10_000, ..CONFIG };
    let shared = SharedBudgets::new(&config);
    let [mut first, _] = shards(&shared);
    // Too large for the GPU tier, so it begins in the CPU tier; promotions of 900 bytes fit there.
    let id = write(&mut first, 1, 960, 1);
    assert_eq!(first.view(id).tier, Tier::Cpu);
    let promoted = |first: &mut Placement<Rc<u8>>, from: Tier, to: Tier| {
        let mut request = AdmitState::new(960);
        request.tier = to;
        let Admission::Granted(mut grant) = first.admit(&mut request) else { panic!("room") };
        assert_eq!((grant.tier, first.enter(&mut grant, false)), (to, Enter::Entered));
        first.finish_promotion(id, from, grant, Rc::new(1))
    };
    first.pin(id);
    assert!(!promoted(&mut first, Tier::Storage, Tier::Cpu), "it is not there any more");
    first.unpin(id, at(2));
    let victim = first.begin_evict(Tier::Cpu).unwrap();
    assert!(!promoted(&mut first, Tier::Storage, Tier::Cpu), "it is on its way down");
    let mut request = AdmitState::for_victim(&victim).unwrap();
    let Admission::Granted(grant) = first.admit(&mut request) else { unreachable!() };
    assert!(first.finish_move(id, grant, Rc::new(2), at(3)));
    first.pin(id);
    first.pin(id);
    assert!(!promoted(&mut first, Tier::Storage, Tier::Cpu), "another reads it");
    first.unpin(id, at(4));
    assert!(promoted(&mut first, Tier::Storage, Tier::Cpu));
    assert_eq!((first.view(id).tier, shared.used_bytes(Tier::Cpu)), (Tier::Cpu, 960));
    first.unpin(id, at(5));
}

#[test]
fn an_admission_that_passes_over_a_tier_begins_below_it() {
    let shared = SharedBudgets::new(&BudgetConfig { gpu_bytes: 1_000, cpu_bytes: 1_000, ..CONFIG });
    let [mut first, _] = shards(&shared);
    let mut request = AdmitState::new(100);
    let tiers = [Tier::Gpu, Tier::Gpu, Tier::Cpu, Tier::Storage];
    for (turn, tier) in tiers.into_iter().enumerate() {
        let Admission::Granted(grant) = first.admit(&mut request) else { panic!("{tier:?}") };
        assert_eq!(grant.tier, tier);
        first.cancel(grant);
        match turn {
            0 => request.begin_again(),
            1 => request.pass_over(Tier::Gpu),
            _ => request.pass_over(Tier::Cpu),
        }
    }
}

#[test]
fn a_step_of_memory_is_due_when_less_than_half_of_one_is_idle() {
    let config = BudgetConfig { cpu_bytes: 256 * MIB, ..CONFIG };
    let grown = Grown { cpu_bytes: 64 * MIB, storage_blocks: u64::MAX };
    let want_bytes = |used_bytes: u64| {
        let shared = growing(&config, grown);
        let [mut first, _] = shards(&shared);
        let grant = granted(&mut first, used_bytes);
        let growth = first.take_growth();
        first.cancel(grant);
        growth.map(|growth| growth.step.want_bytes)
    };
    let step_bytes = want_bytes(64 * MIB).expect("nothing is idle");
    let half_bytes = 64 * MIB - step_bytes / 2;
    assert_eq!((want_bytes(half_bytes), want_bytes(half_bytes + 1)), (None, Some(step_bytes)));
}

#[test]
fn a_step_that_came_to_little_is_followed_by_the_next() {
    let config = BudgetConfig { storage_blocks: 16_384, segment_blocks: 256, ..CONFIG };
    let shared = growing(&config, Grown { cpu_bytes: 0, storage_blocks: 1_024 });
    let [mut first, _] = shards(&shared);
    let _kept = granted(&mut first, 1_000 * BLOCK_BYTES);
    let growth = first.take_growth().unwrap();
    assert_eq!(first.take_growth(), None, "one at a time");
    first.end_growth(growth, Ok(256 * BLOCK_BYTES), at(1));
    assert!(first.take_growth().is_some(), "nobody has to ask for more first");
}

#[test]
fn a_refused_step_is_put_off_while_another_is_looked_for_and_left_on_a_lost_drive() {
    let config = BudgetConfig { storage_blocks: 16_384, segment_blocks: 256, ..CONFIG };
    let shared = growing(&config, Grown { cpu_bytes: 0, storage_blocks: 1_024 });
    let [mut first, _] = shards(&shared);
    let growth = shared_step(&mut first);
    first.end_growth(growth, Err("full".to_owned()), at(1));
    let again = at(1) + Nanos::from_secs(5);
    shared.pools[0].is_growing.store(true, SeqCst);
    assert_eq!(first.take_retry(again), None);
    shared.pools[0].is_growing.store(false, SeqCst);
    let growth = first.take_retry(again).expect("it is due still");
    first.end_growth(growth, Err("full".to_owned()), at(2));
    shared.lose_drive(DriveId(0));
    assert_eq!(first.take_retry(at(2) + Nanos::from_secs(5)), None);
}

#[test]
fn a_segment_that_comes_free_wakes_who_waits_for_room_whatever_is_taken_next() {
    let wakeup = Some(Wakeup { shard: ShardId(1), reason: WakeReason::Room });
    for is_taken in [false, true] {
        let shared = SharedBudgets::new(&CONFIG);
        let [mut first, _] = shards(&shared);
        write(&mut first, 1, 4 * BLOCK_BYTES, 1);
        write(&mut first, 2, BLOCK_BYTES, 1);
        while first.take_wakeup().is_some() {}
        shared.wait_for_room(ShardId(1));
        first.remove(EntryKey(1));
        if is_taken {
            let _grant = granted(&mut first, 4 * BLOCK_BYTES);
        }
        assert_eq!(first.take_wakeup(), wakeup);
    }
}

/// A waiter that found nothing to evict waits for it.
#[test]
fn the_first_entry_that_storage_can_evict_wakes_who_waits_for_room_and_no_later_one() {
    let wakeup = Some(Wakeup { shard: ShardId(1), reason: WakeReason::Room });
    let wakes = |first: &mut Placement<Rc<u8>>, begins: &dyn Fn(&mut Placement<Rc<u8>>)| {
        while first.take_wakeup().is_some() {}
        first.shared().wait_for_room(ShardId(1));
        begins(first);
        let woken = first.take_wakeup();
        let _nobody_waits = first.shared().take_room_waiter();
        woken
    };
    let shared = SharedBudgets::new(&CONFIG);
    let [mut first, _] = shards(&shared);
    let [one, other] = [1, 2].map(|key| {
        let grant = granted(&mut first, BLOCK_BYTES);
        first.insert_writing(EntryKey(key), grant, Rc::new(0), at(1))
    });
    assert_eq!(wakes(&mut first, &|first| first.write_done(one, at(2))), wakeup);
    assert_eq!(wakes(&mut first, &|first| first.write_done(other, at(3))), None);
    assert_eq!(wakes(&mut first, &|first| first.pin(one)), None, "another is the oldest now");
    assert_eq!(wakes(&mut first, &|first| first.pin(other)), None, "none is left");
    let again = |first: &mut Placement<Rc<u8>>| first.unpin(one, at(4));
    assert_eq!(wakes(&mut first, &again), wakeup);
    // What a wake-up is due for already is not forgotten over it.
    first.pin(one);
    let both = |first: &mut Placement<Rc<u8>>| {
        assert!(first.remove(EntryKey(2)));
        first.unpin(other, at(5));
        first.unpin(one, at(6));
    };
    assert_eq!(wakes(&mut first, &both), wakeup);
    let shared = SharedBudgets::new(&BudgetConfig { cpu_bytes: MIB, ..CONFIG });
    let [mut above, _] = shards(&shared);
    let into_memory = |above: &mut Placement<Rc<u8>>| {
        write(above, 1, BLOCK_BYTES, 1);
    };
    assert_eq!(wakes(&mut above, &into_memory), None, "it is of no use to storage");
}

/// Storage in which nothing was removed ended at one entry that left for each that came.
#[test]
fn entries_leave_storage_by_its_rule() {
    let shared = |storage| {
        let watermarks = Watermarks { storage, ..CONFIG.watermarks };
        SharedBudgets::new(&BudgetConfig { watermarks, ..CONFIG })
    };
    // Eight blocks of each of two shards, of 16.
    let full = |shared: &Arc<SharedBudgets>| {
        let [mut first, mut second] = shards(shared);
        for place in 0..4 {
            write(&mut first, place, 2 * BLOCK_BYTES, 10 + place as u64);
            write(&mut second, 10 + place, 2 * BLOCK_BYTES, 20 + place as u64);
        }
        [first, second]
    };
    let never = shared(StorageEviction::Never);
    let [mut first, _second] = full(&never);
    let mut request = AdmitState::new(BLOCK_BYTES);
    assert!(matches!(first.admit(&mut request), Admission::NeedBaton(Tier::Storage)));
    request.baton_acquired(Tier::Storage);
    assert!(matches!(first.admit(&mut request), Admission::Full));
    assert!(never.is_full_for(BLOCK_BYTES) && !never.is_full_for(17 * BLOCK_BYTES));
    first.remove(EntryKey(2));
    assert!(matches!(first.admit(&mut request), Admission::Granted(_)));

    // From 87.5 % of 16 blocks on, down to a half with the new one: nine leave.
    let fills = StorageEviction::Oldest { from_permille: 875, to_permille: 500 };
    let between = shared(fills);
    let [mut first, mut second] = shards(&between);
    for place in 0..7 {
        let shard = if place % 2 == 0 { &mut first } else { &mut second };
        write(shard, place, 2 * BLOCK_BYTES, 10 + place as u64);
    }
    let mut request = AdmitState::new(BLOCK_BYTES);
    assert!(matches!(first.admit(&mut request), Admission::NeedBaton(Tier::Storage)));
    request.baton_acquired(Tier::Storage);
    let (mut own, mut asked) = (0, 0);
    let granted = loop {
        match first.admit(&mut request) {
            Admission::Evict(_) => own += 1,
            Admission::AskShard { shard: ShardId(1), ask } => {
                let ForOther::Freed { deleted_entries, segments } = second.evict_for_other(ask)
                else {
                    panic!("it has the oldest")
                };
                asked += deleted_entries;
                second.return_segments(segments);
            }
            other => break other,
        }
    };
    assert!(matches!(granted, Admission::Granted(_)), "{granted:?}");
    // The oldest four of seven, of two blocks each: seven blocks and the new one are left at most.
    assert_eq!((own, asked), (2, 2));
}
