//! One shard's users and requests as one machine: time and events in, actions out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;

use crate::config::{Arrival, PhaseMode, PrefixReads, WorkloadConfig};
use crate::contract::{
    Action, Class, Event, Key, Nanos, Outcome, Purpose, RequestId, Scope, StepTimes,
};
use crate::conversation::{Conversations, PastTurn, Turn};
use crate::depth::Depths;
use crate::error::Error;
use crate::habits::{Extras, Habits};
use crate::ingest::{Ingest, Library};
use crate::key;
use crate::prefill::PrefillQueue;
use crate::queue::{Queue, Queued};
use crate::rag;
use crate::request::{Past, PromptBlocks, Request, RequestStep, own_tokens};
use crate::rng::{StreamPurpose, stream};
use crate::row_buffer::RowBuffer;
use crate::sample::{self, Sample};
use crate::sightings::Sightings;
use crate::source::ReplayObject;
use crate::source::{Source, SourceRequest};
use crate::stats::WorkloadStats;
use crate::user::{Demand, Profile, User};

/// Arrivals of users drawn before the driver is given a look at the rest of its work: under a
/// millisecond of work.
const ARRIVALS_AT_ONCE: usize = 4096;

/// Something to write before measuring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PopulationItem {
    /// Key of the entry to write.
    pub key: Key,
    /// Whether it belongs to one user or to all, which decides the shard that keeps it.
    pub scope: Scope,
    /// Size of the entry, bytes.
    pub bytes: u64,
}

/// Parts of the workload that all shards of a run share.
#[derive(Debug, Default)]
pub struct SharedParts {
    library: Library,
    prefill: PrefillQueue,
    sightings: Sightings,
}

/// Users `k` with `k % shards == shard`, their conversations, queue and requests; or the rows of a
/// trace whose user is this shard's.
///
/// The driver serves: it grants slots ([`Event::SlotGranted`]) as long as [`Workload::queue_head`]
/// shows a request, carries out actions, and regards [`Action::Done`] as a slot given back. Of a
/// trace it gives rows as long as [`Workload::wants_rows`].
#[derive(Debug)]
pub struct Workload {
    config: Arc<WorkloadConfig>,
    source: Source,
    /// Those of as many users as there are now.
    habits: Habits,
    seed: u64,
    shard: u32,
    shards: u32,
    /// By `user / shards`.
    users: Vec<User>,
    /// All shards' together, now.
    users_in_all: u32,
    /// Intended arrivals, soonest first.
    arrivals: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// At most one request of each user: those behind it are counted, not kept.
    queue: Queue,
    /// Requests that have arrived and are not being served, as far as they were counted.
    queued: u64,
    /// Growth of the queue since the last count; none where each arrival is counted when it comes.
    depths: Option<Depths>,
    /// Whether what has arrived is counted by a sample of the users, where they are many.
    samples_users: bool,
    rows: RowBuffer,
    requests: Vec<Option<Request>>,
    free_requests: Vec<u32>,
    conversations: Conversations,
    prompt_tokens: Vec<u32>,
    stats: WorkloadStats,
    /// Documents that can be retrieved, when they are ingested beside the load.
    shared: Arc<SharedParts>,
    /// Ingestion of these documents: one for all shards, on the first.
    ingest: Option<Ingest>,
    stopped: bool,
}

/// Memory of a user who waits, however many of its requests do: a million of them fit in 300 MB.
const _: () =
    assert!(size_of::<User>() + size_of::<Queued>() + size_of::<Reverse<(Nanos, u32)>>() <= 300);

impl Workload {
    /// The users of shard `shard` of `shards`, not begun.
    ///
    /// # Errors
    /// A setting that makes no sense, by name.
    pub fn new(
        config: Arc<WorkloadConfig>,
        source: Source,
        seed: u64,
        shard: u32,
        shards: u32,
    ) -> Result<Workload, Error> {
        config.validate()?;
        if shard >= shards {
            return Err(Error::new(format!("there is no shard {shard} of {shards}")));
        }
        if matches!(&source, Source::Dataset(dataset) if dataset.is_empty()) {
            return Err(Error::new("the dataset has no conversation"));
        }
        let mut prompts = stream(seed, StreamPurpose::Prompts, 0);
        let [low, high] = config.system_prompt_tokens;
        let prompt_tokens =
            (0..config.system_prompts).map(|_| prompts.random_range(low..=high)).collect();
        // Each shard remembers its users' share of the conversations.
        let limit = config.conversations_live_max.div_ceil(shards) as usize;
        let turns_max = config.conversation_turns_max as usize;
        let ingest = (config.ingests_beside() && shard == 0).then(Ingest::default);
        Ok(Workload {
            habits: Habits::of(&config, &source, config.num_users),
            users_in_all: config.num_users,
            config,
            source,
            seed,
            shard,
            shards,
            users: Vec::new(),
            arrivals: BinaryHeap::new(),
            queue: Queue::new(),
            queued: 0,
            depths: None,
            samples_users: false,
            rows: RowBuffer::default(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            conversations: Conversations::new(limit, turns_max),
            prompt_tokens,
            stats: WorkloadStats::default(),
            shared: Arc::default(),
            ingest,
            stopped: false,
        })
    }

    /// With what all shards of the run share: without it, documents ingested beside the load are
    /// found by the first shard alone, and each shard computes on GPUs of its own.
    #[must_use]
    pub fn sharing(self, shared: &Arc<SharedParts>) -> Workload {
        Workload { shared: Arc::clone(shared), ..self }
    }

    /// Counts what arrives behind a user's queued request when somebody wants to know
    /// ([`Workload::count_arrivals`]) rather than when it arrives. All that happens and all figures
    /// are the same; a user who waits costs no time. For a simulated clock: a real one shows by
    /// each arrival how late it is looked at.
    #[must_use]
    pub fn counting_later(self) -> Workload {
        // Whoever does not think at all would never be caught up with.
        let is_countable = !self.source.is_rows() && self.config.shortest_gap_ns() >= 1.0;
        Workload { depths: is_countable.then(|| Depths::beginning_with(0)), ..self }
    }

    /// Somebody waits for the end of the run: what has arrived by then is counted by a sample of
    /// the users where counting all of it would take more than about a second, and
    /// [`WorkloadStats::users_a_sample`] says so. Only [`Workload::unfinished`] and
    /// [`Workload::stop`] may follow. No effect where each arrival is counted when it comes.
    pub fn count_by_sample(&mut self) {
        self.samples_users = self.depths.is_some();
    }

    /// Lets the users in at `now`; each begins by thinking.
    pub fn start(&mut self, now: Nanos) {
        match self.source {
            // The file may have been read ahead; nothing of it arrives before.
            Source::Rows { .. } | Source::Operations(_) => self.rows.start(),
            Source::Synthetic | Source::Dataset(_) => self.set_users(self.config.num_users, now),
        }
    }

    /// Changes how many users there are, over all shards. New ones begin by thinking. Those sent
    /// home finish the step that is under way; the rest of what is being served for them, and what
    /// they have in the queue, is dropped, and counted. They come back where they left off. When
    /// users who do not wait for answers become fewer, all of the queue is dropped: it is what the
    /// larger number asked for.
    pub fn set_users(&mut self, total_users: u32, now: Nanos) {
        self.count_arrivals(now);
        let fewer = total_users < self.users_in_all && self.config.arrival != Arrival::Closed;
        self.users_in_all = total_users;
        let mine = (u64::from(total_users) + u64::from(self.shards - 1 - self.shard))
            / u64::from(self.shards);
        self.habits = Habits::of(&self.config, &self.source, total_users);
        for place in 0..self.users.len().max(mine as usize) {
            let number = place as u32 * self.shards + self.shard;
            if place >= self.users.len() {
                let user = User::new(&self.config, &self.habits, self.seed, number, now);
                self.users.push(user);
                self.schedule(number);
                continue;
            }
            let user = &mut self.users[place];
            let active = place < mine as usize;
            if active && !user.active {
                user.active = true;
                user.think(&self.habits, now);
                self.schedule(number);
            }
            let user = &mut self.users[place];
            user.active = active;
            if !active || fewer {
                let dropped = user.drop_pending();
                self.stats.dropped += dropped;
                self.queued -= dropped;
                if dropped > 0 && active && self.depths.is_some() {
                    self.schedule(number);
                }
            }
        }
        if let Some(depths) = &mut self.depths {
            *depths = Depths::beginning_with(self.queued);
        }
        let (users, shards) = (&self.users, u64::from(self.shards));
        self.queue.retain(|queued| users[(queued.user / shards) as usize].has_pending());
    }

    /// No new requests. What is queued is dropped, and counted.
    pub fn stop(&mut self, now: Nanos) {
        self.count_arrivals(now);
        self.stopped = true;
        self.stats.queued_at_end = self.queued;
        self.stats.queue_age_at_end_ns = self.queue_age(now).as_ns();
        self.stats.dropped += self.queued;
        self.queued = 0;
        for user in &mut self.users {
            user.drop_pending();
        }
        self.queue.clear();
        self.arrivals.clear();
        self.rows.clear();
    }

    /// Whether [`Workload::supply`] has room for a row.
    pub fn wants_rows(&self) -> bool {
        self.source.is_rows() && !self.stopped && self.rows.has_room()
    }

    /// Takes a row of the trace, in the order of the trace.
    pub fn supply(&mut self, row: SourceRequest) {
        if !self.stopped {
            self.rows.push(row);
        }
    }

    /// There are no more rows.
    pub fn supply_end(&mut self) {
        self.rows.end();
    }

    /// Whether nothing will ever arrive any more, nor is queued.
    pub fn is_exhausted(&self) -> bool {
        let rows_over = !self.source.is_rows() || self.rows.is_over();
        rows_over && self.arrivals.is_empty() && self.queued == 0
    }

    /// When [`Event::Tick`] is due.
    pub fn next_wake(&self) -> Option<Nanos> {
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        let row = self.rows.next_due(self.queue.len());
        let ingest = self.ingest.as_ref().filter(|_| !self.stopped);
        let ingest = ingest.filter(|ingest| ingest.is_due(&self.config)).map(|_| Nanos::ZERO);
        arrival.into_iter().chain(row).chain(ingest).min()
    }

    /// Urgency and intended arrival of the request to be served next.
    pub fn queue_head(&self) -> Option<(Class, Nanos)> {
        self.queue.peek().map(|queued| (queued.urgency, queued.arrived))
    }

    /// Counts all requests that have arrived by `now`, where they are counted later. O(users), and
    /// O(1) for each request.
    pub fn count_arrivals(&mut self, now: Nanos) {
        self.count_behind(now, self.users_a_sample(now), &mut |_, _, _| {});
    }

    /// Number of users for whom one stands when what has arrived by `now` is counted: 1 unless it
    /// is to be counted by a sample, and much. O(users).
    fn users_a_sample(&self, now: Nanos) -> u64 {
        if !self.samples_users {
            return 1;
        }
        let waiting = self.users.iter().filter(|user| user.has_pending());
        let draws: f64 = waiting.map(|user| user.draws_expected(&self.habits, now)).sum();
        sample::users_each(draws, self.shards)
    }

    /// Counts them by one user of `users_each`, and passes class and intended arrivals of what it
    /// counts to `visit`, and how many requests each of them stands for.
    fn count_behind(
        &mut self,
        now: Nanos,
        users_each: u64,
        visit: &mut dyn FnMut(Class, &[Nanos], u64),
    ) {
        let Some(depths) = &mut self.depths else { return };
        let (places, mut counted) = (depths.places(), 0);
        let mut sample = Sample::of_one_in(users_each, self.seed);
        let waiting = self.users.iter_mut().filter(|user| user.has_pending());
        for user in waiting.filter(|_| sample.chooses()) {
            let class = user.profile().class;
            counted += users_each
                * user.catch_up(&self.habits, now, &mut |arrivals| {
                    depths.arrive_all(&places, arrivals, users_each);
                    visit(class, arrivals, users_each);
                });
        }
        self.stats.arrived += counted;
        self.queued += counted;
        let longest = depths.longest(self.queued);
        self.stats.queue_depth_max = self.stats.queue_depth_max.max(longest);
        if users_each > 1 {
            self.stats.users_a_sample = users_each;
            // The others can't be told from users who have been counted.
            self.depths = None;
        }
    }

    /// Requests waiting to be served; where arrivals are counted later, as of the last
    /// [`Workload::count_arrivals`].
    pub fn queue_len(&self) -> u64 {
        self.queued
    }

    /// Longest that a request has been waiting to be served. O(users).
    pub fn queue_age(&self, now: Nanos) -> Nanos {
        let oldest = self.queue.iter().map(|queued| queued.arrived).min();
        oldest.map_or(Nanos::ZERO, |arrived| now.saturating_sub(arrived))
    }

    /// Calls `visit` with the class and intended arrivals of all requests that arrived before
    /// `until`, which is not after `now`, and have not ended: being served, queued, behind another
    /// of its user, or due in a trace whose queue is full. Rows that have not been read from a
    /// trace's file are not among them. O(users + requests). `visit` is also told for how many
    /// requests each stands: 1, but where they are counted by a sample.
    pub fn unfinished(
        &mut self,
        now: Nanos,
        until: Nanos,
        visit: &mut dyn FnMut(Class, &[Nanos], u64),
    ) {
        let users_each = self.users_a_sample(now);
        // In order, as a user's are.
        let mut each = |class, arrivals: &[Nanos], times| {
            let before = arrivals.partition_point(|arrived| *arrived < until);
            visit(class, &arrivals[..before], times);
        };
        for request in self.requests.iter().flatten() {
            each(request.class, &[request.arrived], 1);
        }
        for queued in &self.queue {
            each(queued.class, &[queued.arrived], 1);
        }
        let mut sample = Sample::of_one_in(users_each, self.seed);
        let waiting = self.users.iter().filter(|user| user.has_pending());
        for user in waiting.filter(|_| sample.chooses()) {
            let class = user.profile().class;
            user.visit_behind(&self.habits, &mut |arrivals| each(class, arrivals, users_each));
        }
        for (user, arrived) in self.rows.due_before(until) {
            each(self.classes_of_row(user, false).0, &[arrived], 1);
        }
        self.count_behind(now, users_each, &mut each);
    }

    /// Whether a request's entry is not stored when it is written, as it was never written before.
    pub fn passes_over(&self, key: Key, purpose: Purpose) -> bool {
        let is_of_request = !matches!(purpose, Purpose::Rag | Purpose::Populate);
        self.config.writes_selectively && is_of_request && !self.shared.sightings.see(key)
    }

    /// Counters since the run began.
    pub fn stats(&self) -> WorkloadStats {
        WorkloadStats { conversations_forgotten: self.conversations.forgotten, ..self.stats }
    }

    /// Entries of this shard that must be written before measuring.
    pub fn population(&self) -> impl Iterator<Item = PopulationItem> + '_ {
        let (config, seed) = (&*self.config, self.seed);
        let of_users = match config.phases {
            PhaseMode::DecodeOnly => config.decode_only_entries_per_user,
            _ => 0,
        };
        let shards = self.shards as usize;
        let bytes = config.entry_bytes(config.decode_only_entry_tokens);
        let entries = (self.shard..config.num_users).step_by(shards).flat_map(move |user| {
            (0..of_users).map(move |index| PopulationItem {
                key: key::population(u64::from(user), index),
                scope: Scope::Own,
                bytes,
            })
        });
        let documents = match config.ingests_beside() {
            true => 0..0,
            false => rag::documents(config),
        };
        let mine = documents.filter(move |document| document % self.shards == self.shard);
        let chunks = mine.flat_map(move |document| {
            let tokens = rag::chunks(config, seed, document).into_iter();
            tokens.enumerate().map(move |(chunk, tokens)| PopulationItem {
                key: key::chunk(document, chunk as u32),
                scope: Scope::Shared,
                bytes: config.entry_bytes(tokens),
            })
        });
        let objects: &[ReplayObject] = match &self.source {
            Source::Operations(objects) => objects,
            _ => &[],
        };
        let shards = u64::from(self.shards);
        let objects =
            objects.iter().filter(move |object| object.user % shards == u64::from(self.shard));
        let objects = objects.map(|object| PopulationItem {
            key: key::replayed(object.user),
            scope: Scope::Own,
            bytes: object.bytes,
        });
        entries.chain(chunks).chain(objects)
    }

    /// Takes an event at `now` and appends what is to be done.
    pub fn on_event(&mut self, now: Nanos, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Tick => {
                self.arrive(now);
                self.ingest_next(actions);
            }
            Event::Ingested { outcome } => {
                self.stats.chunks_failed += u64::from(outcome != Outcome::Written);
                if let Some(ingest) = &mut self.ingest {
                    let ended =
                        ingest.written(&self.config, self.seed, &self.shared.library, actions);
                    self.stats.documents_ingested += u64::from(ended.document);
                    self.stats.documents_evicted += u64::from(ended.evicted);
                }
                self.ingest_next(actions);
            }
            Event::SlotGranted => {
                if self.depths.as_ref().is_some_and(Depths::is_full) {
                    self.count_arrivals(now);
                }
                let Some(queued) = self.queue.pop() else { return };
                let id = self.begin(queued, now);
                self.go_on(id, None, now, actions);
            }
            Event::StepDone { request, outcome, times } => {
                self.go_on(request, Some((outcome, times)), now, actions);
            }
        }
    }

    /// Writes the next chunk, unless one is being written.
    fn ingest_next(&mut self, actions: &mut Vec<Action>) {
        if let Some(ingest) = &mut self.ingest
            && !self.stopped
            && ingest.is_due(&self.config)
        {
            ingest.write_next(&self.config, self.seed, actions);
        }
    }

    /// The documents that a request can retrieve now.
    fn documents(&self) -> Range<u32> {
        match self.config.ingests_beside() {
            true => self.shared.library.documents(),
            false => rag::documents(&self.config),
        }
    }

    /// Place of user `number` among the users of the shard.
    fn place(&self, number: u32) -> usize {
        (number / self.shards) as usize
    }

    fn schedule(&mut self, number: u32) {
        let user = &self.users[self.place(number)];
        let is_counted_later = self.depths.is_some() && user.has_pending();
        if let Some(at) = user.next_arrival()
            && at != Nanos::MAX
            && !self.stopped
            && !is_counted_later
        {
            self.arrivals.push(Reverse((at, number)));
        }
    }

    /// Queues the requests that are due, at most [`ARRIVALS_AT_ONCE`]: users who send more than
    /// can be drawn would otherwise keep the shard from everything else, its end included. What is
    /// left stays due.
    fn arrive(&mut self, now: Nanos) {
        for _ in 0..ARRIVALS_AT_ONCE {
            let Some(&Reverse((arrived, number))) = self.arrivals.peek() else { break };
            if arrived > now {
                break;
            }
            self.arrivals.pop();
            // Sent home since it was scheduled, or scheduled anew: another entry is the true one.
            let place = self.place(number);
            if self.users[place].next_arrival() != Some(arrived) {
                continue;
            }
            self.note_arrival(now - arrived);
            let user = &mut self.users[place];
            let (demand, class) = (user.arrive(&self.habits), user.profile().class);
            if let Some(demand) = demand {
                let user = u64::from(number);
                self.queue.push(Queued { class, urgency: class, arrived, user, demand });
            }
            self.schedule(number);
        }
        while let Some(row) = self.rows.pop_due(now, self.queue.len()) {
            let arrived = row.arrival.unwrap_or(now);
            self.note_arrival(now - arrived);
            let mut draws = stream(self.seed, StreamPurpose::Row, row.sequence);
            let extras = Extras::draw(&mut draws, &self.habits.extras);
            let (class, urgency) = self.classes_of_row(row.user, row.operation.is_some());
            let demand = Demand {
                number: row.sequence,
                retrieval: extras.retrieval.filter(|_| row.operation.is_none()),
                turn: if self.config.multi_turn { row.turn } else { Turn::Alone },
                context_tokens: row.context_tokens,
                generate_tokens: row.generate_tokens,
                prompt: extras.prompt.filter(|_| row.operation.is_none()),
                entry: self.rows.keep_blocks(row.cycle, row.blocks).unwrap_or(extras.entry),
                operation: row.operation,
            };
            self.queue.push(Queued { class, urgency, arrived, user: row.user, demand });
        }
    }

    /// Classes of a trace's row: the one it is reported under and the one it is served as. A trace
    /// has no classes: they are drawn, and served by only when asked for, as they would change the
    /// trace's order.
    fn classes_of_row(&self, user: u64, is_operation: bool) -> (Class, Class) {
        if is_operation {
            return (Class::Interactive, Class::Interactive);
        }
        let class = Profile::draw(&self.config, self.seed, user).class;
        (class, if self.config.trace_classes { class } else { Class::Batch })
    }

    fn note_arrival(&mut self, lag: Nanos) {
        self.stats.arrived += 1;
        self.stats.timer_lag_max_ns = self.stats.timer_lag_max_ns.max(lag.as_ns());
        self.queued += 1;
        match &mut self.depths {
            Some(depths) => depths.arrive(),
            None => self.stats.queue_depth_max = self.stats.queue_depth_max.max(self.queued),
        }
    }

    fn begin(&mut self, queued: Queued, now: Nanos) -> RequestId {
        let Queued { class, arrived, user, demand, .. } = queued;
        self.queued -= 1;
        if let Some(depths) = &mut self.depths {
            depths.take(now);
        }
        let is_row = self.source.is_rows();
        let turns_queued = match is_row {
            true => 0,
            false => self.queue_next_of(user as u32, class, now),
        };
        let reads_only = self.config.phases == PhaseMode::DecodeOnly;
        let blocks = is_row.then(|| self.rows.take_blocks(demand.entry)).flatten();
        let is_operation = demand.operation.is_some();
        let is_alone = reads_only || is_operation || blocks.is_some();
        let prompt_tokens = demand.prompt.map_or(0, |prompt| self.prompt_tokens[prompt as usize]);
        let tokens = own_tokens(demand.context_tokens, prompt_tokens);
        let own = PastTurn { number: demand.number, tokens };
        let mut history = match self.config.multi_turn && !is_alone {
            true => self.conversations.take_turn(user, demand.turn, own),
            false => Vec::new(),
        };
        // A conversation's first turn looks for no other: it has no history.
        if !history.is_empty() {
            // They belong to no context yet, so that missing them costs nothing.
            let queued = |ahead| PastTurn { number: demand.number + ahead, tokens: 0 };
            history.extend((1..=turns_queued).map(queued));
        }
        let past = Past {
            history,
            prompt_tokens,
            owner: self.population_owner(user),
            blocks: blocks.map(|(cycle, ids)| PromptBlocks {
                cycle,
                ids,
                tokens: self.source.block_tokens(),
            }),
            seed: self.seed,
            documents: self.documents(),
        };
        let in_vain = demand.retrieval.is_some() && past.documents.is_empty();
        self.stats.retrievals_without_document += u64::from(in_vain);
        let request = Request::new(user, class, (arrived, now), demand, past);
        let slot = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(None);
            (self.requests.len() - 1) as u32
        });
        self.requests[slot as usize] = Some(request);
        RequestId(slot)
    }

    /// Queues the user's next request in place of the one that is now served. Returns the number of
    /// queued turns of that one's conversation; 0 unless the history counts them.
    fn queue_next_of(&mut self, number: u32, class: Class, now: Nanos) -> u64 {
        let place = self.place(number);
        let next = self.users[place].served(&self.habits);
        let next = next.or_else(|| self.next_uncounted(number, now));
        let Some((arrived, demand)) = next else { return 0 };
        let turns_queued = match self.config.history_counts_queued_turns {
            true => {
                self.count_behind_one(place, now);
                self.users[place].turns_queued(&self.habits, &demand)
            }
            false => 0,
        };
        let user = u64::from(number);
        self.queue.push(Queued { class, urgency: class, arrived, user, demand });
        turns_queued
    }

    /// Next request of a user with none in the queue, if it has arrived by `now`; otherwise it
    /// comes when it is due. None where arrivals are counted when they come.
    fn next_uncounted(&mut self, number: u32, now: Nanos) -> Option<(Nanos, Demand)> {
        let place = self.place(number);
        let (depths, user) = (self.depths.as_mut()?, &mut self.users[place]);
        let Some(arrived) = user.next_arrival().filter(|at| *at <= now) else {
            self.schedule(number);
            return None;
        };
        depths.arrive_at(arrived);
        self.stats.arrived += 1;
        self.queued += 1;
        Some((arrived, user.arrive(&self.habits)?))
    }

    /// Counts the arrivals behind a user's queued request, where they are counted later.
    fn count_behind_one(&mut self, place: usize, now: Nanos) {
        let Some(depths) = &mut self.depths else { return };
        let counted = self.users[place].catch_up(&self.habits, now, &mut |arrivals| {
            arrivals.iter().for_each(|at| depths.arrive_at(*at));
        });
        self.stats.arrived += counted;
        self.queued += counted;
    }

    /// Whose populated entries a user reads: its own, or, when it came after the population was
    /// written (the autoscaler's users do), those of another user of this shard.
    fn population_owner(&self, user: u64) -> u64 {
        let (users, shards) = (u64::from(self.config.num_users), u64::from(self.shards));
        if user < users {
            return user;
        }
        let populated = (users + shards - 1 - u64::from(self.shard)) / shards;
        match populated {
            0 => user,
            _ => (user / shards % populated) * shards + u64::from(self.shard),
        }
    }

    fn go_on(
        &mut self,
        id: RequestId,
        ended: Option<(Outcome, StepTimes)>,
        now: Nanos,
        actions: &mut Vec<Action>,
    ) {
        let slot = &mut self.requests[id.0 as usize];
        let request = slot.as_mut().expect("a step belongs to a request being served");
        let place = (request.user / u64::from(self.shards)) as usize;
        let is_row = self.source.is_rows();
        let step = match !is_row && self.users.get(place).is_some_and(|user| !user.active) {
            // Nobody waits for it any more.
            true => {
                self.stats.dropped += 1;
                request.drop_rest()
            }
            false => request.next(&self.config, ended, &mut self.stats),
        };
        let at_once = self.config.prefix_reads == PrefixReads::AtOnce;
        actions.push(match step {
            RequestStep::Read(key, scope, purpose, times) => {
                Action::Read { request: id, key, scope, purpose, times }
            }
            RequestStep::ReadPrefix(keys, scope, purpose) => {
                Action::ReadPrefix { request: id, keys, scope, purpose, at_once }
            }
            RequestStep::Write(key, scope, purpose, bytes) => {
                Action::Write { request: id, key, scope, purpose, bytes }
            }
            RequestStep::WriteAll(entries, scope, purpose) => {
                Action::WriteAll { request: id, entries, scope, purpose, at_once }
            }
            RequestStep::Wait(wait) => {
                Action::Wait { request: id, until: now.saturating_add(wait) }
            }
            RequestStep::Compute(takes) => {
                let until = self.shared.prefill.computed_at(now, takes);
                request.compute_for(until - now);
                Action::Wait { request: id, until }
            }
            RequestStep::Done => {
                let record = request.record(now);
                *slot = None;
                self.free_requests.push(id.0);
                if self.config.arrival == Arrival::Closed && !self.source.is_rows() {
                    self.think_again(record.user as u32, now);
                }
                Action::Done { request: id, record }
            }
        });
    }

    /// A closed user has its answer.
    fn think_again(&mut self, number: u32, now: Nanos) {
        let place = self.place(number);
        self.users[place].think(&self.habits, now);
        self.schedule(number);
    }
}

#[cfg(test)]
#[path = "workload_test.rs"]
mod tests;
