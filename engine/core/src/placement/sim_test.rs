//! Several shards' placements in one thread (tests only): requests and messages as plain values, a
//! caller that picks which goes next. This is the loop an asynchronous shard runs, without a clock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::*;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::key::{EntryKey, ShardId, Tier};
use crate::units::BLOCK_BYTES;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    Baton(Tier),
    Door(Tier),
}

#[derive(PartialEq, Eq, Debug)]
enum SimPhase {
    Admit,
    Enter,
    Bytes,
    Blocked,
    WaitRoom,
    WaitDoor(Tier),
}

#[derive(Debug)]
enum Work {
    Write(EntryKey),
    Move(Victim),
    /// Up from the tier and of the version in which the entry was then.
    Rise(EntryView),
}

#[derive(Debug)]
struct Task {
    shard: usize,
    work: Work,
    admit: AdmitState,
    grant: Option<Grant>,
    holds_door: bool,
    phase: SimPhase,
    id: Option<EntryId>,
}

#[derive(Debug)]
enum Message {
    Permit(usize, Gate),
    Ask(ShardId, Ask, usize),
    Answer(usize),
    Wake(Wakeup),
    Grow(usize, Growth),
}

/// Answers a step of growth: bytes had, or why there are none.
pub(super) type Supply = Box<dyn FnMut(Growth) -> Result<u64, String>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    In(Tier),
    Refused,
    Stuck,
}

pub(super) struct Sim {
    pub(super) shared: Arc<SharedBudgets>,
    pub(super) shards: Vec<Placement<u128>>,
    tasks: Vec<Option<Task>>,
    messages: Vec<Message>,
    queues: Vec<Vec<VecDeque<usize>>>,
    pub(super) now: Nanos,
    pub(super) pinned: Vec<(usize, EntryId)>,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) asks: u64,
    pub(super) waits: u64,
    pub(super) withdrawn: u64,
    supply: Supply,
}

fn gate_index(gate: Gate) -> usize {
    match gate {
        Gate::Baton(tier) => tier.index(),
        Gate::Door(tier) => 3 + tier.index(),
    }
}

/// Space that the tiers have at first.
#[derive(Clone, Copy)]
pub(super) struct Grown {
    pub(super) cpu_bytes: u64,
    /// Space of storage on one drive, blocks; rounded down to whole segments.
    pub(super) storage_blocks: u64,
}

/// Budgets whose tiers have so much of their space, and take the rest in steps.
pub(super) fn growing(config: &BudgetConfig, grown: Grown) -> Arc<SharedBudgets> {
    let drive = DriveBudget { blocks: config.storage_blocks, grown_blocks: grown.storage_blocks };
    SharedBudgets::on_drives(config, grown.cpu_bytes, &[drive], EntryLayout::default(), 1)
}

impl Sim {
    pub(super) fn new(config: &BudgetConfig) -> Self {
        let supply: Supply = Box::new(|_| unreachable!("it has all its space"));
        Self::over(config, SharedBudgets::new(config), supply)
    }

    /// With a storage tier on several drives of those sizes, in blocks.
    pub(super) fn on_drives(config: &BudgetConfig, drives: &[u64], layout: EntryLayout) -> Self {
        let whole = |&blocks: &u64| DriveBudget { blocks, grown_blocks: u64::MAX };
        let drives: Vec<DriveBudget> = drives.iter().map(whole).collect();
        let shared = SharedBudgets::on_drives(config, u64::MAX, &drives, layout, 2);
        Self::over(config, shared, Box::new(|_| unreachable!("it has all its space")))
    }

    /// With tiers that take their space in steps, from `supply`.
    pub(super) fn growing(config: &BudgetConfig, grown: Grown, supply: Supply) -> Self {
        Self::over(config, growing(config, grown), supply)
    }

    pub(super) fn over(config: &BudgetConfig, shared: Arc<SharedBudgets>, supply: Supply) -> Self {
        Sim {
            shards: (0..config.shards)
                .map(|n| Placement::new(Arc::clone(&shared), ShardId(n)))
                .collect(),
            queues: (0..config.shards).map(|_| vec![VecDeque::new(); 5]).collect(),
            shared,
            tasks: Vec::new(),
            messages: Vec::new(),
            now: Nanos::ZERO,
            pinned: Vec::new(),
            outcomes: Vec::new(),
            asks: 0,
            waits: 0,
            withdrawn: 0,
            supply,
        }
    }

    fn gate(&self, gate: Gate) -> &SharedGate {
        match gate {
            Gate::Baton(tier) => self.shared.baton(tier),
            Gate::Door(tier) => self.shared.door(tier),
        }
    }

    pub(super) fn write(&mut self, shard: usize, key: u128, bytes: u64) {
        self.spawn(shard, Work::Write(EntryKey(key)), AdmitState::new(bytes));
    }

    fn spawn(&mut self, shard: usize, work: Work, admit: AdmitState) {
        let task = Task {
            shard,
            work,
            admit,
            grant: None,
            holds_door: false,
            phase: SimPhase::Admit,
            id: None,
        };
        self.tasks.push(Some(task));
    }

    /// Moves an entry up, as a hit on it would.
    pub(super) fn rise(&mut self, shard: usize, key: u128) {
        let view = self.shards[shard].lookup(EntryKey(key));
        let resident = view.filter(|view| view.state == EntryState::Resident);
        if let Some(view) = resident
            && let Some(admit) = AdmitState::for_promotion(view.bytes, view.tier)
        {
            self.spawn(shard, Work::Rise(view), admit);
        }
    }

    /// Room is there: the entry may have moved meanwhile, or gone.
    fn finish_rise(&mut self, shard: usize, view: &EntryView, grant: Grant) {
        let placement = &mut self.shards[shard];
        let now_there = placement.lookup(view.key);
        let same = |now: &EntryView| (now.version, now.tier) == (view.version, view.tier);
        let Some(now_there) = now_there.filter(same) else { return placement.cancel(grant) };
        placement.pin(now_there.id);
        let _moved = placement.finish_promotion(now_there.id, view.tier, grant, view.key.0);
        placement.unpin(now_there.id, self.now);
    }

    fn demote(&mut self, shard: usize, victim: Victim) {
        if let Some(admit) = AdmitState::for_victim(&victim) {
            self.spawn(shard, Work::Move(victim), admit);
        }
    }

    pub(super) fn pin(&mut self, shard: usize, key: u128) {
        if let Some(view) = self.shards[shard].lookup(EntryKey(key)) {
            self.shards[shard].pin(view.id);
            self.pinned.push((shard, view.id));
        }
    }

    pub(super) fn unpin(&mut self, nth: usize) {
        let (shard, id) = self.pinned.swap_remove(nth);
        self.now += Nanos::from_ns(1);
        self.shards[shard].unpin(id, self.now);
        self.collect_wakeups(shard);
    }

    pub(super) fn remove(&mut self, shard: usize, key: u128) -> bool {
        let removed = self.shards[shard].remove(EntryKey(key));
        self.collect_wakeups(shard);
        removed
    }

    /// The drive is lost, and every shard drops what it had there.
    pub(super) fn lose(&mut self, drive: DriveId) {
        assert!(self.shared.lose_drive(drive), "it is lost once");
        for shard in 0..self.shards.len() {
            let before = self.shards[shard].len();
            let (entries, _bytes) = self.shards[shard].drop_drive(drive);
            assert_eq!(self.shards[shard].len() as u64 + entries, before as u64);
            self.collect_wakeups(shard);
        }
    }

    fn collect_wakeups(&mut self, shard: usize) {
        while let Some(wakeup) = self.shards[shard].take_wakeup() {
            self.messages.push(Message::Wake(wakeup));
        }
    }

    fn collect_growths(&mut self, shard: usize) {
        let now = self.now;
        let due = |p: &mut Placement<u128>| p.take_growth().or_else(|| p.take_retry(now));
        while let Some(growth) = due(&mut self.shards[shard]) {
            self.messages.push(Message::Grow(shard, growth));
        }
    }

    fn runnable(&self) -> Vec<usize> {
        let ready = |task: &Option<Task>| {
            task.as_ref().is_some_and(|task| {
                matches!(task.phase, SimPhase::Admit | SimPhase::Enter | SimPhase::Bytes)
            })
        };
        (0..self.tasks.len()).filter(|&n| ready(&self.tasks[n])).collect()
    }

    pub(super) fn tasks_open(&self) -> usize {
        self.tasks.iter().flatten().count()
    }

    /// Does one thing, which one `choice` says. False when nothing can be done.
    pub(super) fn step(&mut self, choice: u64) -> bool {
        let tasks = self.runnable();
        let things = tasks.len() + self.messages.len();
        if things == 0 {
            return false;
        }
        let pick = (choice % things as u64) as usize;
        match tasks.get(pick) {
            Some(&task) => self.step_task(task),
            None => {
                let message = self.messages.swap_remove(pick - tasks.len());
                self.deliver(message);
            }
        }
        true
    }

    /// Runs until nothing is left to do, the newest task first: a victim moves before the next one
    /// is chosen, as in the model. What waits for room is given up as stuck.
    pub(super) fn run_in_order(&mut self) {
        loop {
            if let Some(message) = self.messages.pop() {
                self.deliver(message);
            } else if let Some(task) = self.newest_waits_for_room() {
                self.end_without_room(task, Outcome::Stuck);
            } else if let Some(&task) = self.runnable().last() {
                self.step_task(task);
            } else {
                break;
            }
        }
        assert_eq!(self.tasks_open(), 0);
        self.tasks.clear();
    }

    fn newest_waits_for_room(&self) -> Option<usize> {
        let newest = self.tasks.iter().rposition(Option::is_some)?;
        let task = self.tasks[newest].as_ref()?;
        (task.phase == SimPhase::WaitRoom).then_some(newest)
    }

    fn step_task(&mut self, n: usize) {
        let mut task = self.tasks[n].take().unwrap();
        let shard = task.shard;
        match task.phase {
            SimPhase::Admit => {
                let admission = self.shards[shard].admit(&mut task.admit);
                self.tasks[n] = Some(task);
                self.after_admit(n, admission);
            }
            SimPhase::Enter => {
                let grant = task.grant.as_mut().unwrap();
                let tier = grant.tier;
                match self.shards[shard].enter(grant, task.holds_door) {
                    Enter::Entered => {
                        task.phase = SimPhase::Bytes;
                        let held = std::mem::take(&mut task.holds_door);
                        if let Work::Write(key) = task.work {
                            self.now += Nanos::from_ns(1);
                            let grant = task.grant.take().unwrap();
                            let placement = &mut self.shards[shard];
                            task.id = Some(placement.insert_writing(key, grant, key.0, self.now));
                        }
                        self.tasks[n] = Some(task);
                        if held {
                            self.release(Gate::Door(tier));
                        }
                    }
                    Enter::NeedDoor => {
                        self.tasks[n] = Some(task);
                        self.acquire(n, Gate::Door(tier));
                    }
                    Enter::Wait => {
                        task.phase = SimPhase::WaitDoor(tier);
                        self.tasks[n] = Some(task);
                    }
                    Enter::Withdrawn => {
                        self.withdrawn += 1;
                        let grant = task.grant.take().unwrap();
                        self.shards[shard].cancel(grant);
                        task.admit.begin_again();
                        task.phase = SimPhase::Admit;
                        let held = std::mem::take(&mut task.holds_door);
                        self.tasks[n] = Some(task);
                        if held {
                            self.release(Gate::Door(tier));
                        }
                    }
                }
            }
            SimPhase::Bytes => self.end_bytes(task),
            SimPhase::Blocked | SimPhase::WaitRoom | SimPhase::WaitDoor(_) => {
                unreachable!("not runnable")
            }
        }
        self.collect_wakeups(shard);
        self.collect_growths(shard);
    }

    /// The bytes are where they were to go.
    fn end_bytes(&mut self, task: Task) {
        self.now += Nanos::from_ns(1);
        let placement = &mut self.shards[task.shard];
        match task.work {
            Work::Write(_) => {
                let id = task.id.unwrap();
                let tier = placement.view(id).tier;
                placement.write_done(id, self.now);
                self.outcomes.push(Outcome::In(tier));
            }
            Work::Move(victim) => {
                let grant = task.grant.unwrap();
                placement.finish_move(victim.id, grant, victim.key.0, self.now);
            }
            Work::Rise(view) => self.finish_rise(task.shard, &view, task.grant.unwrap()),
        }
    }

    fn after_admit(&mut self, n: usize, admission: Admission) {
        let task = self.tasks[n].as_mut().unwrap();
        match admission {
            Admission::Granted(grant) => {
                task.grant = Some(grant);
                task.phase = SimPhase::Enter;
                self.release_baton(n);
            }
            Admission::Evict(victim) => {
                let shard = task.shard;
                self.demote(shard, victim);
            }
            Admission::AskShard { shard, ask } => {
                assert_ne!(shard.index(), task.shard, "nobody asks itself");
                task.phase = SimPhase::Blocked;
                self.asks += 1;
                self.messages.push(Message::Ask(shard, ask, n));
            }
            Admission::NeedBaton(tier) => self.acquire(n, Gate::Baton(tier)),
            Admission::ReleaseBaton(_) => self.release_baton(n),
            Admission::Refused { limit_bytes } => {
                let limit = self.shared.capacity_bytes(Tier::Storage);
                let is_rise = matches!(task.work, Work::Rise(_));
                assert_eq!(limit_bytes, if is_rise { 0 } else { limit });
                self.end_without_room(n, Outcome::Refused);
            }
            Admission::Full => unreachable!("the oldest leave"),
            Admission::Wait(tier) => {
                assert_eq!(tier, Tier::Storage);
                task.phase = SimPhase::WaitRoom;
                self.waits += 1;
            }
        }
    }

    fn end_without_room(&mut self, n: usize, outcome: Outcome) {
        self.release_baton(n);
        let task = self.tasks[n].take().unwrap();
        match task.work {
            Work::Write(_) => self.outcomes.push(outcome),
            Work::Rise(_) => {}
            Work::Move(victim) => {
                self.shards[task.shard].move_failed(victim.id);
                self.collect_wakeups(task.shard);
            }
        }
    }

    fn release_baton(&mut self, n: usize) {
        if let Some(tier) = self.tasks[n].as_mut().unwrap().admit.take_baton() {
            self.release(Gate::Baton(tier));
        }
    }

    fn release(&mut self, gate: Gate) {
        if let Some(shard) = self.gate(gate).release() {
            self.messages.push(Message::Permit(shard.index(), gate));
        }
    }

    fn acquire(&mut self, n: usize, gate: Gate) {
        if self.gate(gate).try_acquire() {
            return self.give_permit(n, gate);
        }
        let task = self.tasks[n].as_mut().unwrap();
        task.phase = SimPhase::Blocked;
        let shard = task.shard;
        self.queues[shard][gate_index(gate)].push_back(n);
        self.publish(shard, gate);
    }

    fn publish(&mut self, shard: usize, gate: Gate) {
        let best = self.queues[shard][gate_index(gate)].front().map_or(NOBODY, |&n| n as u64);
        let published = self.gate(gate).publish(ShardId(shard as u16), best);
        if published == Published::Acquired {
            self.messages.push(Message::Permit(shard, gate));
        }
    }

    fn give_permit(&mut self, n: usize, gate: Gate) {
        let task = self.tasks[n].as_mut().unwrap();
        match gate {
            Gate::Baton(tier) => {
                task.admit.baton_acquired(tier);
                task.phase = SimPhase::Admit;
            }
            Gate::Door(_) => {
                task.holds_door = true;
                task.phase = SimPhase::Enter;
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Permit(shard, gate) => {
                match self.queues[shard][gate_index(gate)].pop_front() {
                    Some(n) => {
                        self.give_permit(n, gate);
                        self.publish(shard, gate);
                    }
                    None => self.release(gate),
                }
            }
            Message::Ask(shard, ask, n) => {
                let shard = shard.index();
                match self.shards[shard].evict_for_other(ask) {
                    ForOther::Nothing => {}
                    ForOther::Demote(victim) => self.demote(shard, victim),
                    ForOther::Freed { segments, .. } => {
                        self.shards[shard].return_segments(segments);
                    }
                }
                self.collect_wakeups(shard);
                self.messages.push(Message::Answer(n));
            }
            Message::Grow(shard, growth) => {
                let taken = (self.supply)(growth);
                self.now += Nanos::from_ns(1);
                self.shards[shard].end_growth(growth, taken, self.now);
                self.collect_wakeups(shard);
                self.collect_growths(shard);
            }
            Message::Answer(n) => self.tasks[n].as_mut().unwrap().phase = SimPhase::Admit,
            Message::Wake(Wakeup { shard, reason }) => {
                for task in self.tasks.iter_mut().flatten() {
                    if task.shard != shard.index() {
                        continue;
                    }
                    match (&task.phase, reason) {
                        (SimPhase::WaitRoom, WakeReason::Room) => task.phase = SimPhase::Admit,
                        (SimPhase::WaitDoor(at), WakeReason::Door(tier)) if *at == tier => {
                            task.phase = SimPhase::Enter;
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Every sum of every shard, and the engine's ledgers against them.
    pub(super) fn check(&self) {
        let sums: Vec<LocalSums> = self.shards.iter().map(Placement::check_sums).collect();
        for tier in [Tier::Gpu, Tier::Cpu] {
            let at = tier.index();
            let committed: u64 = sums.iter().map(|sum| sum.committed_bytes[at]).sum();
            let used: u64 = sums.iter().map(|sum| sum.used_bytes[at]).sum();
            assert_eq!(committed, self.shared.committed_bytes(tier), "{tier:?} committed");
            assert_eq!(used, self.shared.used_bytes(tier), "{tier:?} used");
            let fits = committed <= self.shared.capacity_bytes(tier);
            // What was promised of a tier that has become smaller is withdrawn when it is claimed.
            assert!(fits || !self.shared.shortages().is_empty(), "{tier:?} committed too much");
            assert!(used <= self.shared.grown_bytes(tier), "{tier:?} used too much");
        }
        let leased: u64 = sums.iter().map(|sum| sum.leased_blocks).sum();
        let grown = self.shared.grown_bytes(Tier::Storage) / BLOCK_BYTES;
        assert_eq!(leased + self.shared.unleased_blocks(), grown, "storage");
    }

    /// The blocks of every entry are its alone, over all shards.
    pub(super) fn check_overlap(&self) {
        let mut all: Vec<Extent> = Vec::new();
        for placement in &self.shards {
            for slot in placement.table.slots.iter().filter(|slot| slot.data.is_some()) {
                all.extend(slot.extents.as_slice());
            }
        }
        assert_disjoint(&mut all);
    }
}

fn assert_disjoint(extents: &mut [Extent]) {
    extents.sort_unstable();
    assert!(extents.windows(2).all(|pair| pair[0].end_block() <= pair[1].start_block));
}
