//! Operations beside the users', each on keys of its own, that may be dropped at any moment.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_core::key::{EntryKey, ShardId};
use ringfall_engine::shard::{ReadOutcome, Shard, WriteMode, WriteOutcome};

use ringfall_core::clock::Nanos;
use ringfall_engine::shard::timers::Timers;
use ringfall_running::run::World;

use crate::scenario::{Scenario, time_within};

const KEYS: u128 = 4;
/// Theirs, and nobody else's.
const KEY_SPACE: u128 = 0xee << 120;
/// Between two operations of one.
const PAUSE_MIN: Nanos = Nanos::from_us(10);
const PAUSE_MAX: Nanos = Nanos::from_ms(5);
const STRANGERS_MAX: usize = 8;

pub(super) struct Strangers {
    rng: Xoshiro256PlusPlus,
    come_so_far: u128,
    running: Vec<u64>,
    cancelled: u64,
    stopped: Rc<Cell<bool>>,
    wrong: Rc<RefCell<Option<String>>>,
}

impl Strangers {
    pub(super) fn new(seed: u64) -> Strangers {
        Strangers {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            come_so_far: 0,
            running: Vec::new(),
            cancelled: 0,
            stopped: Rc::default(),
            wrong: Rc::default(),
        }
    }

    /// One more begins.
    pub(super) fn come(&mut self, world: &World, scenario: &Scenario) {
        self.running.retain(|task| world.runtime.is_running(*task));
        if self.running.len() >= STRANGERS_MAX {
            return;
        }
        let shards = scenario.settings.shards;
        let from = self.rng.random_range(0..shards);
        let home = ShardId(self.rng.random_range(0..shards));
        self.come_so_far += 1;
        let stranger = Stranger {
            shard: Rc::clone(world.drivers[usize::from(from)].shard()),
            time: world.time.clone(),
            home,
            first_key: KEY_SPACE + self.come_so_far * KEYS,
            sizes: [None; KEYS as usize],
            rng: Xoshiro256PlusPlus::seed_from_u64(self.rng.random()),
            largest_bytes: scenario.settings.store.capacity_bytes / 8,
            stopped: Rc::clone(&self.stopped),
            wrong: Rc::clone(&self.wrong),
        };
        self.running.push(world.runtime.spawn(Box::pin(stranger.live())));
    }

    pub(super) fn cancel_one(&mut self, world: &World) {
        self.running.retain(|task| world.runtime.is_running(*task));
        if self.running.is_empty() {
            return;
        }
        let task = self.running.swap_remove(self.rng.random_range(0..self.running.len()));
        world.runtime.cancel(task);
        self.cancelled += 1;
    }

    /// None begins another operation.
    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Operations dropped half-way.
    pub(super) fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// Returns the first impossible observation of a stranger, if there was one.
    pub(super) fn check(&self) -> Result<(), String> {
        self.wrong.borrow().clone().map_or(Ok(()), Err)
    }
}

struct Stranger {
    shard: Rc<Shard>,
    time: Timers,
    home: ShardId,
    first_key: u128,
    /// Sizes of its entries that exist: only it writes them, only evictions remove them.
    sizes: [Option<u64>; KEYS as usize],
    rng: Xoshiro256PlusPlus,
    largest_bytes: u64,
    stopped: Rc<Cell<bool>>,
    wrong: Rc<RefCell<Option<String>>>,
}

impl Stranger {
    async fn live(mut self) {
        while !self.stopped.get() {
            let place = self.rng.random_range(0..KEYS as usize);
            let key = EntryKey(self.first_key + place as u128);
            if self.rng.random() {
                self.write(place, key).await;
            } else {
                self.read(place, key).await;
            }
            // A miss takes no time, and a stranger that only misses would never let any pass.
            let pause = time_within(&mut self.rng, PAUSE_MIN..PAUSE_MAX);
            self.time.sleep_until(self.time.now() + pause).await;
        }
    }

    async fn write(&mut self, place: usize, key: EntryKey) {
        let bytes = self.rng.random_range(1..=self.largest_bytes);
        let replaces = self.rng.random();
        let mode = if replaces { WriteMode::Replace } else { WriteMode::IfAbsent };
        match self.shard.write(self.home, key, bytes, mode).await {
            WriteOutcome::Written { .. } => self.sizes[place] = Some(bytes),
            WriteOutcome::AlreadyThere if replaces || self.sizes[place].is_none() => {
                self.see(format!("{key:?} is there already, and nobody wrote it"));
            }
            WriteOutcome::AlreadyThere => {}
            // A tier that has lost drives holds less; one that has lost all of them, nothing.
            WriteOutcome::Refused { limit_bytes }
                if bytes > limit_bytes && self.shard.shared().budgets.losses() > 0 => {}
            WriteOutcome::DroppedWithoutStorage | WriteOutcome::StorageFull => {
                self.see(format!("{bytes} bytes dropped, though there is a storage tier"));
            }
            WriteOutcome::Refused { limit_bytes } => {
                self.see(format!("{bytes} bytes refused, {limit_bytes} allowed"));
            }
            WriteOutcome::Failed(_) => self.sizes[place] = None,
        }
    }

    async fn read(&mut self, place: usize, key: EntryKey) {
        match self.shard.read(self.home, key).await {
            ReadOutcome::Hit { bytes, .. } if self.sizes[place] != Some(bytes) => {
                let written = self.sizes[place];
                self.see(format!("{key:?} was written with {written:?} bytes, read with {bytes}"));
            }
            // Evicted.
            ReadOutcome::Miss => self.sizes[place] = None,
            ReadOutcome::Hit { .. } | ReadOutcome::Failed(_) => {}
        }
    }

    fn see(&self, what: String) {
        self.wrong.borrow_mut().get_or_insert(what);
    }
}
