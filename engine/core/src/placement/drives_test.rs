//! Several drives behind one storage tier (tests only): against the obvious model of one, and with
//! drives that are lost while entries come and go.

use proptest::prelude::*;

use super::model_test::{Model, apply, compare, config, op};
use super::sim_test::{Outcome, Sim, Supply};
use super::*;
use crate::drive::DriveId;
use crate::key::{EntryKey, Tier, mix64};
use crate::units::BLOCK_BYTES;

/// Cuts `blocks` at random places; at least one drive, none empty.
fn cut(blocks: u64, at: &[u64]) -> Vec<u64> {
    let mut cuts: Vec<u64> = at.iter().map(|cut| cut % blocks).collect();
    cuts.extend([0, blocks]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn drives_of(sim: &Sim, shard: usize, key: u128) -> Vec<DriveId> {
    let id = sim.shards[shard].lookup(EntryKey(key)).expect("it is there").id;
    let extents = sim.shards[shard].extents(id).as_slice().iter();
    let mut drives: Vec<DriveId> =
        extents.map(|extent| DriveId::of_block(extent.start_block).0).collect();
    drives.dedup();
    drives
}

fn on(drives: &[u64], layout: EntryLayout) -> Sim {
    let config = BudgetConfig {
        shards: 1,
        gpu_bytes: 0,
        cpu_bytes: 0,
        storage_blocks: drives.iter().sum(),
        segment_blocks: 8,
        slot_blocks: 1,
        watermarks: Watermarks::default(),
    };
    Sim::on_drives(&config, drives, layout)
}

fn write(sim: &mut Sim, key: u128, blocks: u64) {
    sim.write(0, key, blocks * BLOCK_BYTES);
    sim.run_in_order();
    sim.check();
    sim.check_overlap();
}

#[test]
fn stripes_lie_on_all_drives_and_whole_entries_on_one() {
    for (layout, count) in [(EntryLayout::Stripe, 3), (EntryLayout::Whole, 1)] {
        let mut sim = on(&[64, 64, 64], layout);
        for key in 0..3 {
            write(&mut sim, key, 30);
            assert_eq!(drives_of(&sim, 0, key).len(), count, "{layout:?}");
        }
    }
    // Three whole ones of the same size: one on each.
    let mut sim = on(&[64, 64, 64], EntryLayout::Whole);
    (0..3).for_each(|key| write(&mut sim, key, 30));
    let mut drives: Vec<_> = (0..3).map(|key| drives_of(&sim, 0, key)[0]).collect();
    drives.sort_unstable();
    assert_eq!(drives, [DriveId(0), DriveId(1), DriveId(2)]);
}

#[test]
fn what_waits_for_a_drive_keeps_new_entries_away_from_it() {
    let mut sim = on(&[64, 64], EntryLayout::Whole);
    sim.shards[0].note_waiting(DriveId(0), 40 * BLOCK_BYTES);
    for key in 0..2 {
        write(&mut sim, key, 10);
        assert_eq!(drives_of(&sim, 0, key), [DriveId(1)]);
    }
    sim.shards[0].note_waiting(DriveId(0), 0);
    write(&mut sim, 2, 10);
    assert_eq!(drives_of(&sim, 0, 2), [DriveId(0)]);
}

#[test]
fn a_lost_drive_takes_its_entries_along_and_the_others_go_on() {
    let mut sim = on(&[64, 64], EntryLayout::Whole);
    (0..4).for_each(|key| write(&mut sim, key, 30));
    let lost: Vec<u128> = (0..4).filter(|&key| drives_of(&sim, 0, key)[0] == DriveId(0)).collect();
    assert_eq!(lost.len(), 2);
    // One of them is being read.
    sim.pin(0, lost[0]);
    sim.lose(DriveId(0));
    sim.check();
    for key in 0..4 {
        assert_eq!(sim.shards[0].lookup(EntryKey(key)).is_none(), lost.contains(&key));
    }
    sim.unpin(0);
    assert_eq!(sim.shared.capacity_bytes(Tier::Storage), 64 * BLOCK_BYTES);
    for key in 10..20 {
        write(&mut sim, key, 30);
        assert_eq!(drives_of(&sim, 0, key), [DriveId(1)]);
    }
    write(&mut sim, 99, 65);
    assert_eq!(sim.outcomes.last(), Some(&Outcome::Refused));
}

/// Drives of so many blocks, of which so many have space already.
fn budgets(sizes: &[(u64, u64)], grows: bool) -> Vec<DriveBudget> {
    let budget = |&(blocks, grown): &(u64, u64)| DriveBudget {
        blocks,
        grown_blocks: if grows { grown.min(blocks) } else { u64::MAX },
    };
    sizes.iter().map(budget).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Striped over drives of any sizes, what is kept is what one drive of their sum would keep.
    #[test]
    fn several_drives_keep_the_entries_of_one_as_large(
        config in config(),
        cuts in prop::collection::vec(any::<u64>(), 0..5),
        waiting in prop::collection::vec(0..1_000_000u64, 6),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let drives = cut(config.storage_blocks, &cuts);
        let mut sim = Sim::on_drives(&config, &drives, EntryLayout::Stripe);
        let capacity = [config.gpu_bytes, config.cpu_bytes, config.storage_blocks];
        let mut model = Model::new(capacity);
        for (index, op) in ops.iter().enumerate() {
            let drive = index % drives.len();
            sim.shards[0].note_waiting(DriveId::at(drive), waiting[index % waiting.len()]);
            apply(&mut sim, &mut model, op)?;
            compare(&sim, &model)?;
            sim.check();
        }
        sim.check_overlap();
    }

    /// Shards, messages, growth and a dying drive in any order: sums hold, nothing overlaps, every
    /// request ends, and nothing is left on the lost drive.
    #[test]
    fn shards_on_drives_of_which_one_dies_never_hang(
        base in config(),
        shards in 1..5u16,
        is_whole in any::<bool>(),
        grows in any::<bool>(),
        sizes in prop::collection::vec((1..80u64, 0..80u64), 1..5),
        dies_at in 0..300usize,
        choices in prop::collection::vec(any::<u64>(), 50..300),
    ) {
        let config = BudgetConfig { shards, ..base };
        let layout = if is_whole { EntryLayout::Whole } else { EntryLayout::Stripe };
        let drives = budgets(&sizes, grows);
        let shared = SharedBudgets::on_drives(&config, u64::MAX, &drives, layout, 3);
        // A third of the steps come to nothing: that drive stays as it is.
        let supply: Supply = Box::new(move |growth: Growth| {
            match mix64(growth.step.have_bytes ^ u64::from(growth.drive.0)) % 3 {
                0 => Err("others have it".to_owned()),
                _ => Ok(growth.step.want_bytes),
            }
        });
        let mut sim = Sim::over(&config, shared, supply);
        let dying = DriveId::at(choices[0] as usize % drives.len());
        let mut writes = 0;
        for (index, &choice) in choices.iter().enumerate() {
            let rest = choice / 16;
            let key = u128::from(rest % 60);
            let shard = (key % u128::from(shards)) as usize;
            match choice % 16 {
                _ if index == dies_at && drives.len() > 1 => sim.lose(dying),
                0..=3 => {
                    sim.write(shard, key, 1 + (rest >> 8) % 60_000);
                    writes += 1;
                }
                4 => sim.pin(shard, key),
                5 if !sim.pinned.is_empty() => sim.unpin(rest as usize % sim.pinned.len()),
                6 => {
                    sim.remove(shard, key);
                }
                7 => {
                    let drive = DriveId::at(rest as usize % drives.len());
                    sim.shards[shard].note_waiting(drive, rest >> 40);
                }
                _ => {
                    sim.step(rest);
                }
            }
            sim.check();
        }
        let mut steps = 0u64;
        loop {
            while sim.step(mix64(steps)) {
                steps += 1;
                prop_assert!(steps < 200_000, "the requests chase each other");
            }
            sim.check();
            sim.check_overlap();
            if sim.pinned.is_empty() {
                break;
            }
            sim.unpin(0);
        }
        prop_assert_eq!(sim.tasks_open(), 0, "a request hangs");
        prop_assert_eq!(sim.outcomes.len(), writes);
        sim.check();
    }
}
