//! Tiers that grow while shards write, in any order of events (tests only).

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::sim_test::{Grown, Outcome, Sim, Supply};
use super::*;
use crate::clock::Nanos;
use crate::key::{Tier, mix64};
use crate::units::{BLOCK_BYTES, MIB};

const SEGMENT_BLOCKS: u64 = 16;

fn config(shards: u16, cpu_bytes: u64, storage_blocks: u64) -> BudgetConfig {
    BudgetConfig {
        shards,
        gpu_bytes: 0,
        cpu_bytes,
        storage_blocks,
        segment_blocks: SEGMENT_BLOCKS,
        slot_blocks: 1,
        watermarks: Watermarks::default(),
    }
}

const NOTHING_YET: Grown = Grown { cpu_bytes: 0, storage_blocks: 0 };

/// Whatever is wanted, as long as the tier is below its bounds in bytes.
fn bounded(cpu_bytes: u64, storage_bytes: u64) -> Supply {
    Box::new(move |growth: Growth| {
        let bound = if growth.tier == Tier::Storage { storage_bytes } else { cpu_bytes };
        let left = bound.saturating_sub(growth.step.have_bytes);
        let unit = growth.step.unit_bytes;
        match growth.step.want_bytes.min(left / unit * unit) {
            0 => Err("others have it".to_owned()),
            bytes => Ok(bytes),
        }
    })
}

fn run(sim: &mut Sim, seed: u64) {
    let mut state = seed;
    let mut steps = 0u64;
    loop {
        state = mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        if !sim.step(state) {
            break;
        }
        sim.check();
        steps += 1;
        assert!(steps < 1_000_000, "seed {seed}: it never ends");
    }
}

#[test]
fn a_pool_hands_out_only_what_has_space_and_the_short_segment_last() {
    let mut sim = Sim::growing(&config(1, 0, 5 * SEGMENT_BLOCKS + 3), NOTHING_YET, bounded(0, MIB));
    for key in 0..4 {
        sim.write(0, key, SEGMENT_BLOCKS * BLOCK_BYTES);
        run(&mut sim, 1);
    }
    assert_eq!(sim.shared.capacity_bytes(Tier::Storage), (5 * SEGMENT_BLOCKS + 3) * BLOCK_BYTES);
    sim.write(0, 4, (SEGMENT_BLOCKS + 3) * BLOCK_BYTES);
    run(&mut sim, 1);
    assert_eq!(sim.outcomes, [Outcome::In(Tier::Storage); 5]);
    assert_eq!(sim.shards[0].len(), 5, "nothing was evicted");
    assert_eq!(sim.shared.unleased_blocks(), 0);
    sim.check_overlap();
}

/// The third step fails: what there is by then is what the tier holds, the oldest entries leave.
#[test]
fn a_step_that_fails_lowers_the_limit_and_eviction_goes_on_inside_it() {
    let steps = Rc::new(Cell::new(0));
    let count = Rc::clone(&steps);
    let supply: Supply = Box::new(move |growth| {
        count.set(count.get() + 1);
        if count.get() < 3 { Ok(growth.step.want_bytes) } else { Err("no space left".to_owned()) }
    });
    let blocks = 64 * SEGMENT_BLOCKS;
    let mut sim = Sim::growing(&config(1, 0, blocks), NOTHING_YET, supply);
    // A 16th of 64 segments is 4 of them: two steps make 8.
    for key in 0..12 {
        sim.write(0, key, SEGMENT_BLOCKS * BLOCK_BYTES);
        run(&mut sim, 7);
        sim.check_overlap();
    }
    let held = 8 * SEGMENT_BLOCKS * BLOCK_BYTES;
    assert_eq!(sim.outcomes, [Outcome::In(Tier::Storage); 12]);
    let [shortage] = &sim.shared.shortages()[..] else { panic!("one shortage") };
    let Shortage { tier, wanted_bytes, given_bytes, why, .. } = shortage;
    assert_eq!((*tier, *given_bytes), (Tier::Storage, held));
    assert_eq!((*wanted_bytes, why.as_str()), (blocks * BLOCK_BYTES, "no space left"));
    assert_eq!(sim.shared.capacity_bytes(Tier::Storage), held);
    assert_eq!((sim.shards[0].len(), steps.get()), (8, 3), "nobody asks again at once");
    assert_eq!(sim.shards[0].counts(Tier::Storage).evicted_entries, 4);
    sim.write(0, 99, held + 1);
    run(&mut sim, 7);
    assert_eq!(sim.outcomes.last(), Some(&Outcome::Refused));
}

/// Somebody takes the space and gives it back: the tiers grow again by their steps, to the end.
#[test]
fn a_tier_that_was_refused_space_grows_back_when_there_is_some_again() {
    for (tier, config) in [
        (Tier::Storage, config(2, 0, 64 * SEGMENT_BLOCKS + 5)),
        (Tier::Cpu, config(2, 64 * MIB, 64 * SEGMENT_BLOCKS)),
    ] {
        let is_taken = Rc::new(Cell::new(false));
        let (taken, tries) = (Rc::clone(&is_taken), Rc::new(Cell::new(0)));
        let count = Rc::clone(&tries);
        let supply: Supply = Box::new(move |growth| {
            count.set(count.get() + u64::from(taken.get() && growth.tier == tier));
            match taken.get() && growth.tier == tier {
                false => Ok(growth.step.want_bytes),
                true => Err("others have it".to_owned()),
            }
        });
        let mut sim = Sim::growing(&config, NOTHING_YET, supply);
        let whole_bytes = sim.shared.capacity_bytes(tier);
        let mut key = 0;
        let mut write = |sim: &mut Sim, writes: u32| {
            for _ in 0..writes {
                sim.write(key as usize % 2, key, 16 * BLOCK_BYTES * 16);
                key += 1;
                run(sim, 11);
                sim.check_overlap();
            }
        };
        write(&mut sim, 2);
        is_taken.set(true);
        write(&mut sim, 80);
        let held_bytes = sim.shared.capacity_bytes(tier);
        assert!(held_bytes < whole_bytes, "{tier:?}: it was refused");
        let refused_at = sim.now;
        let refusals = tries.get();
        write(&mut sim, 10);
        assert_eq!(tries.get(), refusals, "{tier:?}: not before it is time to");
        sim.now += Nanos::from_secs(6);
        write(&mut sim, 10);
        assert_eq!(tries.get(), refusals + 1, "{tier:?}: tried once, in vain");
        assert_eq!(sim.shared.capacity_bytes(tier), held_bytes);
        is_taken.set(false);
        write(&mut sim, 10);
        assert_eq!(sim.shared.capacity_bytes(tier), held_bytes, "{tier:?}: not yet tried");
        sim.now += Nanos::from_secs(6);
        write(&mut sim, 300);
        assert_eq!(sim.shared.capacity_bytes(tier), whole_bytes, "{tier:?}");
        assert_eq!(sim.shared.grown_bytes(tier), whole_bytes, "{tier:?}: all of it");
        let [shortage] = &sim.shared.shortages()[..] else { panic!("{tier:?}: one shortage") };
        assert_eq!((shortage.tier, shortage.given_bytes), (tier, held_bytes));
        let until = shortage.until.expect("it has ended");
        assert!(shortage.at <= refused_at && until > refused_at + Nanos::from_secs(12));
    }
}

/// More is promised than the memory that comes: what was promised is withdrawn, nobody hangs.
#[test]
fn promises_of_a_cpu_tier_that_got_no_memory_are_withdrawn() {
    let mut sim =
        Sim::growing(&config(2, 100 * MIB, 4096), NOTHING_YET, bounded(10 * MIB, u64::MAX));
    for key in 0..24 {
        sim.write((key % 2) as usize, key, 4 * MIB);
    }
    run(&mut sim, 3);
    assert_eq!(sim.tasks_open(), 0);
    assert_eq!(sim.shared.capacity_bytes(Tier::Cpu), 10 * MIB);
    assert!(sim.withdrawn > 0, "all of the first 24 were promised room in 100 MiB");
    assert!(sim.shared.committed_bytes(Tier::Cpu) <= 10 * MIB);
    assert_eq!(sim.outcomes.len(), 24);
    sim.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any order of events, any bounds: every write ends, sums hold, nothing is given out twice.
    #[test]
    fn growing_shards_never_hang_and_never_share_a_block(
        shards in 1..4u16,
        cpu in prop_oneof![Just(0u64), 1..64u64],
        storage_segments in 8..200u64,
        bounds in (0..64u64, 4..200u64),
        sizes in prop::collection::vec(1..6_000_000u64, 1..40),
        seed in any::<u64>(),
    ) {
        let storage_blocks = storage_segments * SEGMENT_BLOCKS + 5;
        let segment_bytes = SEGMENT_BLOCKS * BLOCK_BYTES;
        let supply = bounded(bounds.0 * MIB, bounds.1 * segment_bytes);
        let mut sim = Sim::growing(&config(shards, cpu * MIB, storage_blocks), NOTHING_YET, supply);
        for (key, bytes) in sizes.iter().enumerate() {
            sim.write(key % usize::from(shards), key as u128, *bytes);
        }
        run(&mut sim, seed);
        prop_assert_eq!(sim.tasks_open(), 0, "somebody waits for ever");
        sim.check();
        sim.check_overlap();
    }

    /// With space for all of it, one shard decides as if it had been there from the start.
    #[test]
    fn a_tier_that_grows_keeps_the_entries_that_a_whole_one_keeps(
        cpu in prop_oneof![Just(0u64), 1..20u64],
        storage_segments in 4..100u64,
        sizes in prop::collection::vec(1..3_000_000u64, 1..40),
    ) {
        let config = config(1, cpu * MIB, storage_segments * SEGMENT_BLOCKS + 5);
        let supply = bounded(u64::MAX, u64::MAX);
        let mut sims = [Sim::new(&config), Sim::growing(&config, NOTHING_YET, supply)];
        for (key, bytes) in sizes.iter().enumerate() {
            for sim in &mut sims {
                sim.write(0, key as u128, *bytes);
                // In one order: steps must not be able to change it.
                sim.run_in_order();
            }
        }
        let [whole, grown] = &sims;
        prop_assert_eq!(&whole.outcomes, &grown.outcomes);
        for key in 0..sizes.len() as u128 {
            let tier = |sim: &Sim| sim.shards[0].lookup(crate::key::EntryKey(key)).map(|v| v.tier);
            prop_assert_eq!(tier(whole), tier(grown), "{}", key);
        }
    }
}
