//! Seeds of the fault simulation, and systems whose drives are lost one after the other.

use std::collections::BTreeMap;

use ringfall_core::drive::DriveId;
use ringfall_workloads::contract::{Key, Outcome, Scope};

use super::*;

#[test]
fn a_few_hundred_seeds_lose_nothing() {
    let (mut flaws, mut gpu_flaws, mut cancelled, mut requests, mut lost) =
        (Vec::new(), Vec::new(), 0, 0, 0);
    let (mut endings, mut kept) = ([0; 3], 0);
    let (mut direct, mut gpus_lost) = (Vec::new(), 0);
    let mut incidents: BTreeMap<Phase, u32> = BTreeMap::new();
    for seed in 0..300 {
        match run(seed) {
            Ok(run) => {
                let FlawCounts { damaged_ios, late, stalls, overtaken, .. } = run.flaws;
                let short: u64 = run.flaws.short.iter().sum();
                flaws.push([run.flaws.failures(), short, damaged_ios, late, stalls, overtaken]);
                let gpu = run.gpu_flaws;
                gpu_flaws.push([gpu.failed, gpu.wrong_blocks, gpu.late]);
                direct.push(run.direct_bytes);
                gpus_lost += u32::from(run.is_gpu_lost);
                cancelled += run.cancelled;
                requests += run.requests;
                lost += run.lost_drives;
                kept += u32::from(run.is_kept);
                endings[match run.ending {
                    Ending::Complete => 0,
                    Ending::Interrupted => 1,
                    Ending::Failed(_) => 2,
                }] += 1;
                for phase in run.incidents {
                    *incidents.entry(phase).or_default() += 1;
                }
            }
            Err(what) => panic!(
                "seed {seed}: {what}\n\
                 again: cargo run --release -p ringfall-faults -- --seeds {seed}"
            ),
        }
    }
    for kind in 0..6 {
        let often: u64 = flaws.iter().map(|counts| counts[kind]).sum();
        assert!(often > 50, "kind {kind} of flaw happened {often} times");
    }
    for kind in 0..3 {
        let often: u64 = gpu_flaws.iter().map(|counts| counts[kind]).sum();
        assert!(often > 50, "kind {kind} of the GPU's flaws happened {often} times");
    }
    for way in 0..2 {
        let runs = direct.iter().filter(|bytes| bytes[way] > 0).count();
        assert!(runs > 20, "only {runs} runs moved bytes past host memory, way {way}");
    }
    assert!(gpus_lost > 5, "only {gpus_lost} GPUs were lost");
    assert!(cancelled > 300 && requests > 3_000, "they did next to nothing");
    assert!(lost > 10, "only {lost} drives were given up");
    let (least, number) = (endings.iter().min(), incidents.values().min());
    assert!(least > Some(&30) && kept > 60, "endings {endings:?}, {kept} handed over early");
    assert!(incidents.len() == 8 && number > Some(&2), "{incidents:?}");
}

/// A system without tiers above its drives, of which there are so many; nothing runs in it.
fn world_of(drives: usize) -> (World, Media) {
    let scenarios = (0..).map(|seed| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Scenario::draw(&mut rng)
    });
    let fits = |scenario: &Scenario| {
        let memory_bytes = scenario.cpu_bytes + scenario.gpu_bytes;
        memory_bytes == 0 && scenario.drives_bytes.len() == drives
    };
    build(&scenarios.into_iter().find(fits).unwrap()).unwrap()
}

/// Writes so many entries at once by the first shard's driver.
fn write(world: &mut World, entries: u128) -> Vec<Outcome> {
    let outcomes: Rc<RefCell<Vec<Outcome>>> = Rc::default();
    for key in 0..entries {
        let (driver, outcomes) = (Rc::clone(&world.drivers[0]), Rc::clone(&outcomes));
        world.runtime.spawn(Box::pin(async move {
            let outcome = driver.populate(Key(key), Scope::Own, BLOCK_BYTES).await;
            outcomes.borrow_mut().push(outcome);
        }));
    }
    while world.step_now() || world.advance(Nanos::MAX) {}
    outcomes.take()
}

#[test]
fn a_write_after_the_last_drive_has_failed_is_refused_and_not_counted_as_written() {
    let (mut world, media) = world_of(2);
    media.iter().for_each(|medium| medium.borrow_mut().die());
    let failed = write(&mut world, 100);
    assert!(!failed.contains(&Outcome::Written), "{failed:?}");
    assert_eq!(world.engine.shared().budgets.losses(), 2);
    assert_eq!(write(&mut world, 3), [Outcome::Refused; 3]);
}

#[test]
fn a_lost_drive_takes_only_its_own_errors_out_of_the_count() {
    let (mut world, media) = world_of(2);
    media.iter().for_each(|medium| medium.borrow_mut().die());
    assert_eq!(write(&mut world, 16), [Outcome::Failed; 16]);
    let shard = Rc::clone(world.drivers[0].shard());
    let (budgets, errors) = (&world.engine.shared().budgets, || shard.error_count());
    assert_eq!(budgets.losses(), 0);
    let all = errors();
    assert!(budgets.lose_drive(DriveId::at(1)));
    let healthy = errors();
    assert!(healthy > 0 && healthy < all, "{healthy} of {all} errors");
    assert!(budgets.lose_drive(DriveId::at(0)));
    assert_eq!(errors(), 0);
}

#[test]
fn entries_of_a_drive_that_is_lost_last_of_all_are_not_counted_as_there() {
    // Both drives die in each, the second at times when a shard has nothing to do any more.
    for seed in [567, 1027, 1250, 1757, 1806] {
        assert_eq!(run(seed).unwrap().lost_drives, 2, "{seed}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 77] {
        let (once, again) = (run(seed).unwrap(), run(seed).unwrap());
        assert_eq!((once.steps, once.flaws), (again.steps, again.flaws));
    }
}
