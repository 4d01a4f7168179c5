//! A shard: the keys that hash to it, their index, their tiers, their ring. One thread, no locks.
//!
//! It contains the asynchronous code that carries out the decisions of `placement`. It decides by
//! itself only what no plan of a tier can know: that a lost drive's entries are dropped (`losses`),
//! which reads and writes wait for an earlier write of their key (`arriving`), and that a hit moves
//! up.

mod arriving;
mod data_path;
mod direct;
mod drives;
pub mod executor;
mod gpu_path;
mod hollow;
mod interval;
mod lanes;
pub mod local;
mod losses;
mod measure;
mod message;
mod notify;
mod open;
mod operation;
mod serve;
mod slab;
mod thread;
pub mod timers;
mod turns;
mod waterfall;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

pub use crate::drive::Durability;
pub use crate::facts::{ShardFacts, buffers_a_shard};
pub use crate::metrics::{COARSE_BUCKETS, CoarseLatencies, Gauges};
pub use data_path::Content;
pub use hollow::{Hollow, HollowMemory};
pub use interval::IoInterval;
pub use measure::{Direction, Measure, MoveTimes, Second, SecondDirection, VictimCounts};
pub use message::{
    Answer, AskId, AskOrigin, Asks, GateName, Links, Message, OperationTimes, ReadOutcome,
    WriteMode, WriteOutcome,
};
pub use notify::{Notify, yield_now};
pub use open::{Blueprint, Seat, ShardSpec, open_shard};
pub use thread::{ThreadSample, ThreadState};
pub use turns::TurnPermit;
pub use waterfall::Transition;

use crate::clock::{Clock, Nanos};
use crate::drive::DriveSet;
use crate::error::IoError;
use crate::fill::Shape;
use crate::key::{EntryKey, ShardId, TIER_COUNT, Tier};
use crate::placement::{
    Growth, LocalSums, Placement, SharedBudgets, SharedGate, SpaceFigures, TierCounts,
};
use crate::space::{Ground, GrowthTime};
use crate::tier::cpu::{CpuEntry, CpuPool};
use crate::tier::gpu::{GpuEntry, GpuTier, ShardSpace};
use arriving::ArrivingKeys;
use data_path::{DataPath, DataPathConfig};
use turns::Turns;

/// State that all shards of an engine share: atomics only.
#[derive(Debug)]
pub struct EngineShared {
    /// Budgets of the tiers.
    pub budgets: Arc<SharedBudgets>,
    /// Memory of the GPU tier; none where there is no such tier, or where it has no bytes.
    pub gpu: Option<GpuTier>,
    /// Memory of the CPU tier.
    pub cpu: Arc<CpuPool>,
    /// Where the CPU tier takes more memory.
    pub memory_ground: Ground,
    /// Where each drive of the storage tier takes more space.
    pub storage_grounds: Box<[Ground]>,
    /// Time in which each tier took more space.
    pub growth_times: [GrowthTime; TIER_COUNT],
    /// Writes that may allocate at once.
    pub allocations: SharedGate,
    /// Requests that may be served at once.
    pub requests: Arc<SharedGate>,
}

impl EngineShared {
    /// Shortfalls of all shards together so far, a sentence each: the CPU tier takes memory while
    /// it is used, so that the list may grow.
    pub fn shortfalls(&self) -> Vec<String> {
        let unlocked = self.cpu.why_unlocked().map(|why| {
            format!(
                "part of the CPU tier is not page-locked for the GPU, which makes copies slower \
                 ({why})"
            )
        });
        unlocked.into_iter().collect()
    }

    pub(crate) fn ground(&self, growth: &Growth) -> &Ground {
        match growth.tier {
            Tier::Gpu => &Ground::Whole,
            Tier::Cpu => &self.memory_ground,
            Tier::Storage => &self.storage_grounds[growth.drive.index()],
        }
    }
}

#[derive(Clone)]
pub(crate) enum EntryData {
    /// On storage, by its extents; or nowhere, when entries have no bytes.
    Elsewhere,
    /// In host memory.
    Host(Rc<RefCell<CpuEntry>>),
    /// In GPU memory.
    Gpu(Rc<GpuEntry>),
}

/// Callback for entries that change their tier.
pub type TransitionWatcher = Box<dyn Fn(Transition)>;

/// A task for the shard's own thread.
pub type LocalTask = Pin<Box<dyn Future<Output = ()>>>;

/// A shard. Its operations are futures; dropping one at any await leaks and corrupts nothing.
pub struct Shard {
    id: ShardId,
    shards: u16,
    seed: u64,
    shape: Shape,
    clock: Clock,
    path: DataPath,
    measure: Rc<Measure>,
    placement: RefCell<Placement<EntryData>>,
    shared: Arc<EngineShared>,
    /// Its part of the GPU tier's space.
    gpu_space: Option<Rc<ShardSpace>>,
    /// Whether a hit below the fastest tier moves the entry up.
    promotes: bool,
    links: Box<dyn Links>,
    asks: Rc<Asks>,
    turns: Turns,
    /// Something an operation may wait for has changed.
    changed: Notify,
    /// Keys being written whose entry is not in the index yet.
    arriving: ArrivingKeys,
    spawn: Box<dyn Fn(LocalTask)>,
    /// Demotions under way.
    moves: Cell<u32>,
    /// Whether a drive that fails is given up, so that the others go on.
    gives_drives_up: bool,
    /// Lost drives whose entries it has dropped.
    losses_heeded: RefCell<DriveSet>,
    /// Told of every entry that has changed its tier.
    on_transition: RefCell<Option<TransitionWatcher>>,
}

/// Bytes of the CPU tier that are made or read at a time: what was read is in the L2 cache when it
/// is checked.
const STEP_BYTES: usize = 256 << 10;

impl Shard {
    /// Which one it is.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Number of shards in the engine.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// State shared with the other shards.
    pub fn shared(&self) -> &Arc<EngineShared> {
        &self.shared
    }

    /// Counters of the shard, for the whole window and second by second.
    pub fn measure(&self) -> &Rc<Measure> {
        &self.measure
    }

    /// Entries and bytes of a tier on this shard.
    pub fn counts(&self, tier: Tier) -> TierCounts {
        self.placement.borrow().counts(tier)
    }

    /// The tier in which an entry of this shard is; none when it is not there. Not a use of it.
    pub fn tier_of(&self, key: EntryKey) -> Option<Tier> {
        self.placement.borrow().lookup(key).map(|view| view.tier)
    }

    /// The state of its storage space.
    pub fn space(&self) -> SpaceFigures {
        self.placement.borrow().space()
    }

    /// Number of I/Os of this shard that are submitted and not yet completed.
    pub fn in_flight(&self) -> u32 {
        let config = &self.path.config;
        let direct = config.gpu_direct.as_ref().map_or(0, |lane| lane.in_flight());
        config.device.in_flight() + direct
    }

    /// When the oldest I/O in flight on the drives was submitted. O(I/Os in flight).
    pub fn oldest_in_flight(&self) -> Option<Nanos> {
        self.path.config.device.oldest_in_flight()
    }

    /// Keeps at most `depth` I/Os in flight on each drive from now on: at least 1, and no more than
    /// the shard was opened for. Those in flight beyond that end as they would have.
    pub fn set_queue_depth(&self, depth: u32) {
        self.path.config.tickets.iter().for_each(|tickets| tickets.set_limit(depth));
    }

    /// Ends operations under way at their next I/O or their next piece of memory, as cancelled, and
    /// those that wait for room, so that a run of entries of many GiB can end promptly. Later ones
    /// end before their first.
    pub fn stop(&self) {
        self.path.stop();
        self.changed.notify_all();
    }

    /// Makes what is on storage survive a power cut; shares a flush with writes that end meanwhile.
    pub async fn flush(&self) -> Result<(), IoError> {
        self.path.flush(self.path.all_drives()).await.map(|_ended| ())
    }

    /// Lets go of the device: the last thing, when nothing is in flight.
    pub fn close(&self) {
        self.path.close();
    }

    /// Has `watcher` told of every demotion and promotion from now on, as it ends.
    pub fn watch_transitions(&self, watcher: TransitionWatcher) {
        *self.on_transition.borrow_mut() = Some(watcher);
    }

    /// Jobs in flight on the GPU tier's devices.
    pub fn gpu_in_flight(&self) -> usize {
        self.path.config.gpu.as_ref().map_or(0, |lane| lane.in_flight())
    }

    /// Bytes of GPU memory that lie idle in chunks which this shard has cut.
    pub fn gpu_idle_bytes(&self) -> u64 {
        self.gpu_space.as_ref().map_or(0, |space| space.idle_bytes())
    }

    /// Bytes of GPU memory in which the shard lands what it reads and no entry wants.
    pub fn gpu_landing_bytes(&self) -> u64 {
        let config = &self.path.config;
        let direct = config.gpu_direct.as_ref().map_or(0, |lane| lane.landing_bytes());
        config.gpu_landing.as_ref().map_or(0, |landing| landing.bytes()) + direct
    }

    /// Hands over what is queued and looks for I/Os that have ended. For callers that run the shard
    /// without an executor, whose thread would do so between its tasks.
    pub fn kick(&self) {
        self.path.config.device.kick();
    }

    /// Looks for I/Os past host memory that have ended. For whoever has the shard on a thread of
    /// his own choice, where nobody hears that they have.
    pub fn collect_direct(&self) {
        if let Some(lane) = &self.path.config.gpu_direct {
            lane.reap();
        }
    }

    /// Number of demotions that the shard has begun and not yet finished.
    pub fn moves(&self) -> u32 {
        self.moves.get()
    }

    /// Checks every sum of the index against its entries; what they come to.
    ///
    /// # Panics
    /// When one differs: a bug of ours.
    pub fn check_sums(&self) -> LocalSums {
        self.placement.borrow().check_sums()
    }

    /// Questions to other shards that are open, and keys whose entry is on its way into the index.
    pub fn pending(&self) -> usize {
        self.asks.open_count() + self.arriving.len()
    }

    /// Bytes of transfers under way that are not moved yet, of all drives together; 0 at rest.
    pub fn waiting_bytes(&self) -> u64 {
        self.path.all_drives().iter().map(|drive| self.path.waiting_bytes(drive)).sum()
    }

    /// Tickets out: buffers and queue places in use.
    pub fn tickets(&self) -> u32 {
        self.path.config.tickets.iter().map(|tickets| tickets.in_flight()).sum()
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        (self.spawn)(Box::pin(task));
    }

    /// Changes the placement, and tells who may have been waiting for that.
    fn place<T>(&self, change: impl FnOnce(&mut Placement<EntryData>) -> T) -> T {
        self.try_place(change, |_| true)
    }

    /// The same for a step that may come to nothing: then nobody is told, or two who wait would
    /// wake each other for ever.
    fn try_place<T>(
        &self,
        change: impl FnOnce(&mut Placement<EntryData>) -> T,
        has_changed: impl FnOnce(&T) -> bool,
    ) -> T {
        let output = change(&mut self.placement.borrow_mut());
        loop {
            let Some(wakeup) = self.placement.borrow_mut().take_wakeup() else { break };
            if wakeup.shard != self.id {
                // A shard that has ended waits for nothing.
                let _delivered = self.links.send(wakeup.shard, Message::Room);
            }
        }
        if has_changed(&output) {
            self.changed.notify_all();
        }
        output
    }
}
