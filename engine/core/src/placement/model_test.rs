//! The waterfall against the most obvious model of it, step by step (tests only).

use proptest::prelude::*;

use super::sim_test::{Outcome, Sim};
use super::*;
use crate::clock::Nanos;
use crate::key::{EntryKey, Tier};
use crate::units::blocks_for;

#[derive(Clone, Debug)]
struct Item {
    key: u128,
    bytes: u64,
    tier: usize,
    pins: u32,
    used_at: Nanos,
}

/// The rules of the waterfall, by scanning.
pub(super) struct Model {
    /// Bytes, bytes, blocks.
    capacity: [u64; 3],
    items: Vec<Item>,
    now: Nanos,
}

impl Model {
    pub(super) fn new(capacity: [u64; 3]) -> Model {
        Model { capacity, items: Vec::new(), now: Nanos::ZERO }
    }

    fn held(&self, tier: usize) -> u64 {
        let size = |item: &Item| if tier == 2 { blocks_for(item.bytes) } else { item.bytes };
        self.items.iter().filter(|item| item.tier == tier).map(size).sum()
    }

    fn take_oldest(&mut self, tier: usize) -> Option<Item> {
        let free = |item: &&(usize, &Item)| item.1.tier == tier && item.1.pins == 0;
        let items = self.items.iter().enumerate();
        let found = items.collect::<Vec<_>>();
        let oldest = found.iter().filter(free).min_by_key(|(_, item)| item.used_at)?.0;
        Some(self.items.remove(oldest))
    }

    /// The first tier from `from` on and above `stop` that has room, or makes it.
    fn find_above(&mut self, bytes: u64, from: usize, stop: usize) -> Option<usize> {
        for tier in from..stop {
            let capacity = self.capacity[tier];
            if capacity == 0 || bytes > capacity * 95 / 100 {
                continue;
            }
            if self.held(tier) + bytes > capacity {
                let target = (capacity * 80 / 100).max(bytes);
                while self.held(tier) + bytes > target {
                    let Some(victim) = self.take_oldest(tier) else { break };
                    self.put(victim.key, victim.bytes, tier + 1);
                }
            }
            if self.held(tier) + bytes <= capacity {
                return Some(tier);
            }
        }
        None
    }

    fn find_tier(&mut self, bytes: u64, from: usize) -> Outcome {
        if let Some(tier) = self.find_above(bytes, from, 2) {
            return Outcome::In(Tier::ALL[tier]);
        }
        if blocks_for(bytes) > self.capacity[2] {
            return Outcome::Refused;
        }
        while self.held(2) + blocks_for(bytes) > self.capacity[2] {
            if self.take_oldest(2).is_none() {
                return Outcome::Stuck;
            }
        }
        Outcome::In(Tier::Storage)
    }

    /// A hit moves an entry up; not when making room has moved it, nor while others read it from
    /// storage.
    fn rise(&mut self, key: u128) {
        let find = |model: &Model| model.items.iter().position(|item| item.key == key);
        let Some(at) = find(self) else { return };
        let (bytes, from) = (self.items[at].bytes, self.items[at].tier);
        let Some(tier) = self.find_above(bytes, 0, from) else { return };
        let Some(at) = find(self).filter(|&at| self.items[at].tier == from) else { return };
        self.now += Nanos::from_ns(1);
        let now = self.now;
        let item = &mut self.items[at];
        if from < 2 || item.pins == 0 {
            item.tier = tier;
        }
        if item.pins == 0 {
            item.used_at = now;
        }
    }

    fn put(&mut self, key: u128, bytes: u64, from: usize) -> Outcome {
        let outcome = self.find_tier(bytes, from);
        if let Outcome::In(tier) = outcome {
            self.items.retain(|item| item.key != key);
            self.now += Nanos::from_ns(1);
            self.items.push(Item { key, bytes, tier: tier.index(), pins: 0, used_at: self.now });
        }
        outcome
    }
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Write { key: u128, bytes: u64 },
    Rise { key: u128 },
    Pin { key: u128 },
    Unpin { nth: usize },
    Remove { key: u128 },
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        // Up to 60 blocks: some pass over a tier, some over storage.
        6 => (0..40u128, prop_oneof![8 => 1..40_000u64, 1 => 1..250_000u64])
            .prop_map(|(key, bytes)| Op::Write { key, bytes }),
        2 => (0..40u128).prop_map(|key| Op::Rise { key }),
        3 => (0..40u128).prop_map(|key| Op::Pin { key }),
        3 => (0..8usize).prop_map(|nth| Op::Unpin { nth }),
        1 => (0..40u128).prop_map(|key| Op::Remove { key }),
    ]
}

pub(super) fn config() -> impl Strategy<Value = BudgetConfig> {
    let upper = || prop_oneof![1 => Just(0u64), 4 => 20_000..200_000u64];
    (upper(), upper(), 10..100u64, 1..40u64).prop_map(
        |(gpu_bytes, cpu_bytes, storage_blocks, segment_blocks)| BudgetConfig {
            shards: 1,
            gpu_bytes,
            cpu_bytes,
            storage_blocks,
            segment_blocks,
            slot_blocks: 1,
            watermarks: Watermarks::default(),
        },
    )
}

pub(super) fn apply(sim: &mut Sim, model: &mut Model, op: &Op) -> Result<(), TestCaseError> {
    match *op {
        Op::Write { key, bytes } => {
            // A pinned entry that is replaced lives on unseen; the model leaves that case out.
            if model.items.iter().any(|item| item.key == key && item.pins > 0) {
                return Ok(());
            }
            sim.remove(0, key);
            model.items.retain(|item| item.key != key);
            sim.write(0, key, bytes);
            sim.run_in_order();
            let expected = model.put(key, bytes, 0);
            prop_assert_eq!(sim.outcomes.pop(), Some(expected));
        }
        Op::Rise { key } => {
            sim.rise(0, key);
            sim.run_in_order();
            model.rise(key);
        }
        Op::Pin { key } => {
            sim.pin(0, key);
            if let Some(item) = model.items.iter_mut().find(|item| item.key == key) {
                item.pins += 1;
            }
        }
        Op::Unpin { nth } => {
            if nth < sim.pinned.len() {
                let key = sim.shards[0].view(sim.pinned[nth].1).key;
                sim.unpin(nth);
                model.now += Nanos::from_ns(1);
                let now = model.now;
                let item = model.items.iter_mut().find(|item| EntryKey(item.key) == key).unwrap();
                item.pins -= 1;
                item.used_at = now;
            }
        }
        Op::Remove { key } => {
            if model.items.iter().all(|item| item.key != key || item.pins == 0) {
                let before = model.items.len();
                model.items.retain(|item| item.key != key);
                prop_assert_eq!(sim.remove(0, key), model.items.len() < before);
            }
        }
    }
    Ok(())
}

pub(super) fn compare(sim: &Sim, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(sim.shards[0].len(), model.items.len());
    for item in &model.items {
        let view = sim.shards[0].lookup(EntryKey(item.key));
        let seen = view.map(|view| (view.tier.index(), view.bytes, view.state));
        prop_assert_eq!(seen, Some((item.tier, item.bytes, EntryState::Resident)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn one_shard_is_the_obvious_waterfall(
        config in config(),
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut sim = Sim::new(&config);
        let capacity = [config.gpu_bytes, config.cpu_bytes, config.storage_blocks];
        let mut model = Model::new(capacity);
        for op in &ops {
            apply(&mut sim, &mut model, op)?;
            compare(&sim, &model)?;
            sim.check();
        }
        sim.check_overlap();
    }
}

#[derive(Clone, Debug)]
struct Script {
    config: BudgetConfig,
    choices: Vec<u64>,
}

fn script() -> impl Strategy<Value = Script> {
    let many = (config(), 2..6u16, prop::collection::vec(any::<u64>(), 50..400));
    many.prop_map(|(config, shards, choices)| Script {
        config: BudgetConfig { shards, ..config },
        choices,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Writes, moves, asks, wakeups and permits in any order: sums hold, nothing overlaps, and once
    /// the pins are gone every request ends.
    #[test]
    fn many_shards_keep_the_sums_and_nobody_hangs(script in script()) {
        let mut sim = Sim::new(&script.config);
        let shards = usize::from(script.config.shards);
        let mut writes = 0;
        for &choice in &script.choices {
            let rest = choice / 16;
            let key = u128::from(rest % 60);
            let shard = (key % shards as u128) as usize;
            match choice % 16 {
                0..=3 => {
                    sim.write(shard, key, 1 + (rest >> 8) % 60_000);
                    writes += 1;
                }
                4 => sim.pin(shard, key),
                5 if !sim.pinned.is_empty() => sim.unpin(rest as usize % sim.pinned.len()),
                6 => {
                    sim.remove(shard, key);
                }
                7 => sim.rise(shard, key),
                _ => {
                    sim.step(rest);
                }
            }
            sim.check();
        }
        let mut steps = 0u64;
        loop {
            while sim.step(crate::key::mix64(steps)) {
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
