//! One shard's users and requests as one machine: time and events in, actions out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rand::RngExt;

use crate::Error;
use crate::config::{Arrival, PhaseMode, WorkloadConfig};
use crate::contract::{Action, Class, Event, Key, Nanos, Outcome, RequestId, Scope};
use crate::conversation::Conversations;
use crate::key;
use crate::queue::{Queue, Queued};
use crate::request::{Request, Step};
use crate::rng::{StreamPurpose, stream};
use crate::stats::WorkloadStats;
use crate::user::User;

/// Something to write before measuring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PopulationItem {
    /// What.
    pub key: Key,
    /// Where it lives.
    pub scope: Scope,
    /// Its size.
    pub bytes: u64,
}

/// Users `k` with `k % shards == shard`, their conversations, queue and requests.
///
/// The driver serves: it grants slots ([`Event::SlotGranted`]) as long as [`Workload::queue_head`]
/// shows a request, carries out actions, and regards [`Action::Done`] as a slot given back.
#[derive(Debug)]
pub struct Workload {
    config: Arc<WorkloadConfig>,
    seed: u64,
    shard: u32,
    shards: u32,
    /// By `user / shards`.
    users: Vec<User>,
    /// Intended arrivals, soonest first.
    arrivals: BinaryHeap<Reverse<(Nanos, u32)>>,
    queue: Queue,
    requests: Vec<Option<Request>>,
    free_requests: Vec<u32>,
    conversations: Conversations,
    prompt_tokens: Vec<u32>,
    stats: WorkloadStats,
    stopped: bool,
}

impl Workload {
    /// The users of shard `shard` of `shards`, not begun.
    ///
    /// # Errors
    /// A setting that makes no sense, by name.
    pub fn new(
        config: Arc<WorkloadConfig>,
        seed: u64,
        shard: u32,
        shards: u32,
    ) -> Result<Workload, Error> {
        config.validate()?;
        if shard >= shards {
            return Err(Error::new(format!("there is no shard {shard} of {shards}")));
        }
        let mut prompts = stream(seed, StreamPurpose::Prompts, 0);
        let [low, high] = config.system_prompt_tokens;
        let prompt_tokens =
            (0..config.system_prompts).map(|_| prompts.random_range(low..=high)).collect();
        // Each shard remembers its users' share of the conversations.
        let limit = config.conversations_live_max.div_ceil(shards) as usize;
        Ok(Workload {
            config,
            seed,
            shard,
            shards,
            users: Vec::new(),
            arrivals: BinaryHeap::new(),
            queue: Queue::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            conversations: Conversations::new(limit),
            prompt_tokens,
            stats: WorkloadStats::default(),
            stopped: false,
        })
    }

    /// Lets the users in at `now`; each begins by thinking.
    pub fn start(&mut self, now: Nanos) {
        self.set_users(self.config.num_users, now);
    }

    /// Changes how many users there are, over all shards. New ones begin by thinking, those sent
    /// home finish what they have asked for and come back where they left off.
    pub fn set_users(&mut self, total_users: u32, now: Nanos) {
        let mine = (u64::from(total_users) + u64::from(self.shards - 1 - self.shard))
            / u64::from(self.shards);
        for place in 0..self.users.len().max(mine as usize) {
            let user = place as u32 * self.shards + self.shard;
            if place >= self.users.len() {
                self.users.push(User::new(&self.config, self.seed, user, now));
                self.schedule(user);
                continue;
            }
            let known = &mut self.users[place];
            let active = place < mine as usize;
            if active && !known.active {
                known.active = true;
                known.think(&self.config, now);
                self.schedule(user);
            }
            self.users[place].active = active;
        }
    }

    /// No new requests. What is queued is dropped, and counted.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.stats.dropped += self.queue.len() as u64;
        self.queue.clear();
        self.arrivals.clear();
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        self.arrivals.peek().map(|Reverse((at, _))| *at)
    }

    /// Class and intended arrival of the request to be served next.
    #[must_use]
    pub fn queue_head(&self) -> Option<(Class, Nanos)> {
        self.queue.peek().map(|queued| (queued.class, queued.arrived))
    }

    /// Requests waiting to be served.
    #[must_use]
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> WorkloadStats {
        WorkloadStats { conversations_forgotten: self.conversations.forgotten, ..self.stats }
    }

    /// What must be written before measuring: this shard's part.
    pub fn population(&self) -> impl Iterator<Item = PopulationItem> + '_ {
        let entries = match self.config.phases {
            PhaseMode::DecodeOnly => self.config.decode_only_entries_per_user,
            _ => 0,
        };
        let bytes = self.config.entry_bytes(self.config.decode_only_entry_tokens);
        (self.shard..self.config.num_users).step_by(self.shards as usize).flat_map(move |user| {
            (0..entries).map(move |index| PopulationItem {
                key: key::population(user, index),
                scope: Scope::Own,
                bytes,
            })
        })
    }

    /// Takes an event at `now` and appends what is to be done.
    pub fn on_event(&mut self, now: Nanos, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Tick => self.arrive(now),
            Event::SlotGranted => {
                let Some(queued) = self.queue.pop() else { return };
                let id = self.begin(queued, now);
                self.go_on(id, None, now, actions);
            }
            Event::StepDone { request, outcome, io_ns } => {
                self.go_on(request, Some((outcome, io_ns)), now, actions);
            }
        }
    }

    fn user(&mut self, user: u32) -> &mut User {
        &mut self.users[(user / self.shards) as usize]
    }

    fn schedule(&mut self, user: u32) {
        if let Some(at) = self.user(user).next_arrival()
            && at != Nanos::MAX
            && !self.stopped
        {
            self.arrivals.push(Reverse((at, user)));
        }
    }

    /// Queues every request that is due.
    fn arrive(&mut self, now: Nanos) {
        while let Some(&Reverse((arrived, user))) = self.arrivals.peek()
            && arrived <= now
        {
            self.arrivals.pop();
            let lag = now - arrived;
            self.stats.timer_lag_max_ns = self.stats.timer_lag_max_ns.max(lag);
            // Sent home since it was scheduled, or scheduled anew: another entry is the true one.
            if self.user(user).next_arrival() != Some(arrived) {
                continue;
            }
            let config = Arc::clone(&self.config);
            let demand = self.user(user).ask(&config);
            let class = self.user(user).profile().class;
            self.stats.arrived += 1;
            self.queue.push(Queued { class, arrived, user, demand });
            self.stats.queue_depth_max = self.stats.queue_depth_max.max(self.queue.len() as u64);
            self.schedule(user);
        }
    }

    fn begin(&mut self, queued: Queued, now: Nanos) -> RequestId {
        let Queued { class, arrived, user, demand } = queued;
        let history = match self.config.multi_turn && self.config.phases != PhaseMode::DecodeOnly {
            true => self.conversations.take_turn(user, demand.turn, demand.number),
            false => Vec::new(),
        };
        let prompt_tokens = demand.prompt.map_or(0, |prompt| self.prompt_tokens[prompt as usize]);
        let request = Request::new(user, class, (arrived, now), demand, history, prompt_tokens);
        let slot = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(None);
            (self.requests.len() - 1) as u32
        });
        self.requests[slot as usize] = Some(request);
        RequestId(slot)
    }

    fn go_on(
        &mut self,
        id: RequestId,
        outcome: Option<(Outcome, u64)>,
        now: Nanos,
        actions: &mut Vec<Action>,
    ) {
        let slot = &mut self.requests[id.0 as usize];
        let request = slot.as_mut().expect("a step belongs to a request being served");
        let class = request.class;
        let step = request.next(&self.config, outcome, &mut self.stats);
        actions.push(match step {
            Step::Read(key, scope, purpose, times) => {
                Action::Read { request: id, key, scope, class, purpose, times }
            }
            Step::Write(key, scope, purpose, bytes) => {
                Action::Write { request: id, key, scope, class, purpose, bytes }
            }
            Step::Wait(wait) => Action::Wait { request: id, until: now.saturating_add(wait) },
            Step::Done => {
                let record = request.record(now);
                let user = request.user;
                *slot = None;
                self.free_requests.push(id.0);
                if self.config.arrival == Arrival::Closed {
                    let config = Arc::clone(&self.config);
                    self.user(user).think(&config, now);
                    self.schedule(user);
                }
                Action::Done { request: id, record }
            }
        });
    }
}

#[cfg(test)]
#[path = "workload_test.rs"]
mod tests;
