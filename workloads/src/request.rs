//! A request as a machine: `next(outcome of the last step) → read | write | wait | done`.

use crate::config::{PhaseMode, WorkloadConfig};
use crate::contract::{Class, Key, Nanos, Outcome, Purpose, RequestEnd, RequestRecord, Scope};
use crate::key;
use crate::rag;
use crate::source::{BLOCK_TOKENS, Operation};
use crate::stats::WorkloadStats;
use crate::user::Demand;

/// An earlier turn to read: which request of the user wrote it.
pub(crate) type HistoryTurn = u64;

/// The next thing a request wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Read an entry so often.
    Read(Key, Scope, Purpose, u32),
    /// Write an entry of so many bytes.
    Write(Key, Scope, Purpose, u64),
    /// Let so much time pass.
    Wait(Nanos),
    /// Over.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Begin,
    /// Doing a trace's operation.
    Operation,
    PrefixRead,
    PrefixWrite,
    History(u32),
    Prefill,
    /// Reading this chunk of the retrieval, in its order.
    Retrieve(u32),
    BlockRead(u32),
    BlockWrite(u32),
    Decode,
    Rewrite {
        reads_left: u32,
    },
    DecodeAgain,
    Generate,
    End,
}

/// A request being served.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) user: u64,
    /// What it is reported under.
    pub(crate) class: Class,
    /// What its steps are carried out as.
    pub(crate) urgency: Class,
    pub(crate) arrived: Nanos,
    pub(crate) started: Nanos,
    demand: Demand,
    phase: Phase,
    past: Past,
    /// Document and chunks, once retrieval has begun.
    retrieved: (u32, Vec<u32>),
    storage_io_ns: u64,
    prefill_ns: u64,
    decode_ns: u64,
    generation_ns: u64,
    end: RequestEnd,
}

/// What a request finds when it begins to be served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// Earlier turns of its conversation, oldest first.
    pub(crate) history: Vec<HistoryTurn>,
    /// Length of the system prompt that it begins with.
    pub(crate) prompt_tokens: u32,
    /// Decode-only: the user whose entry is read.
    pub(crate) owner: u64,
    /// A trace's prefix blocks, and the cycle that they belong to.
    pub(crate) blocks: Option<(u32, Box<[u64]>)>,
    /// Of the run; documents follow from it.
    pub(crate) seed: u64,
}

impl Request {
    pub(crate) fn new(
        user: u64,
        (class, urgency): (Class, Class),
        (arrived, started): (Nanos, Nanos),
        demand: Demand,
        past: Past,
    ) -> Request {
        Request {
            user,
            class,
            urgency,
            arrived,
            started,
            demand,
            phase: Phase::Begin,
            past,
            retrieved: (0, Vec::new()),
            storage_io_ns: 0,
            prefill_ns: 0,
            decode_ns: 0,
            generation_ns: 0,
            end: RequestEnd::Served,
        }
    }

    fn own_key(&self, config: &WorkloadConfig) -> Key {
        match config.phases {
            PhaseMode::DecodeOnly => key::population(self.past.owner, self.demand.entry),
            _ => key::turn(self.user, self.demand.number),
        }
    }

    fn own_bytes(&self, config: &WorkloadConfig) -> u64 {
        match config.phases {
            PhaseMode::DecodeOnly => config.entry_bytes(config.decode_only_entry_tokens),
            // The prompt's tokens need no prefill of their own.
            _ => config.entry_bytes(
                self.demand.context_tokens.saturating_sub(self.past.prompt_tokens).max(1),
            ),
        }
    }

    /// Reads of the turn's entry: one for the first token, one for each batch after it.
    fn decode_reads(&self, config: &WorkloadConfig) -> u32 {
        1 + self.demand.generate_tokens.div_ceil(config.decode_batch_tokens).max(1)
    }

    fn is_prefill_only(&self, config: &WorkloadConfig) -> bool {
        config.phases == PhaseMode::PrefillOnly
            || self.demand.context_tokens >= config.prefill_only_context_tokens
    }

    /// Takes in how the last step ended (`io_ns` of I/O) and says what comes next. The first call
    /// of a request passes no outcome.
    pub(crate) fn next(
        &mut self,
        config: &WorkloadConfig,
        outcome: Option<(Outcome, u64)>,
        stats: &mut WorkloadStats,
    ) -> Step {
        if let Some((outcome, io_ns)) = outcome
            && let Some(step) = self.settle(config, outcome, io_ns, stats)
        {
            return step;
        }
        self.advance(config)
    }

    /// Books the last step. `Some`: it decides the next step by itself.
    fn settle(
        &mut self,
        config: &WorkloadConfig,
        outcome: Outcome,
        io_ns: u64,
        stats: &mut WorkloadStats,
    ) -> Option<Step> {
        self.book(io_ns);
        let ended_early = match outcome {
            Outcome::Failed => Some(RequestEnd::Failed),
            // Without its entry there is nothing to decode: no token of it was served.
            Outcome::Refused => Some(RequestEnd::Refused),
            Outcome::Hit | Outcome::Miss { .. } | Outcome::Written | Outcome::Waited => None,
        };
        if let Some(end) = ended_early {
            stats.refused_requests += u64::from(end == RequestEnd::Refused);
            self.end = end;
            self.phase = Phase::End;
            return Some(Step::Done);
        }
        match (self.phase, outcome) {
            (Phase::PrefixRead, Outcome::Miss { .. }) => {
                let prompt = self.demand.prompt?;
                self.phase = Phase::PrefixWrite;
                let bytes = config.entry_bytes(self.past.prompt_tokens);
                let key = key::system_prompt(prompt);
                Some(Step::Write(key, Scope::Shared, Purpose::Prefix, bytes))
            }
            // A read-only run stays one: the miss is counted, nothing is written again.
            (Phase::Decode, Outcome::Miss { .. }) if config.phases == PhaseMode::DecodeOnly => {
                stats.decode_misses += 1;
                None
            }
            (Phase::Decode, Outcome::Miss { reads_done }) => {
                stats.decode_misses += 1;
                let reads_left = self.decode_reads(config) - reads_done;
                self.phase = Phase::Rewrite { reads_left };
                let (key, bytes) = (self.own_key(config), self.own_bytes(config));
                Some(Step::Write(key, Scope::Own, Purpose::Rewrite, bytes))
            }
            (Phase::Rewrite { reads_left }, _) => {
                stats.decode_rewrites += 1;
                self.phase = Phase::DecodeAgain;
                let key = self.own_key(config);
                Some(Step::Read(key, Scope::Own, Purpose::Decode, reads_left))
            }
            // A chunk that was evicted is a miss, no more.
            (Phase::Retrieve(next), _) => {
                self.phase = Phase::Retrieve(next + 1);
                None
            }
            (Phase::BlockRead(next), Outcome::Miss { .. }) => {
                stats.block_misses += 1;
                self.phase = Phase::BlockWrite(next);
                Some(self.write_block(config, next))
            }
            (Phase::BlockRead(next), _) => {
                stats.block_hits += 1;
                self.phase = Phase::BlockRead(next + 1);
                None
            }
            (Phase::BlockWrite(next), _) if next + 1 < self.blocks() => {
                stats.block_misses += 1;
                self.phase = Phase::BlockWrite(next + 1);
                Some(self.write_block(config, next + 1))
            }
            _ => None,
        }
    }

    /// Counts the I/O time of the last step for the phase that it was of.
    fn book(&mut self, io_ns: u64) {
        self.storage_io_ns += io_ns;
        match self.phase {
            Phase::Decode | Phase::Rewrite { .. } | Phase::DecodeAgain => self.decode_ns += io_ns,
            Phase::Generate => {}
            _ => self.prefill_ns += io_ns,
        }
    }

    fn chunk_key(&self, place: u32) -> Key {
        let (document, chunks) = &self.retrieved;
        key::chunk(*document, chunks[place as usize])
    }

    fn blocks(&self) -> u32 {
        self.past.blocks.as_ref().map_or(0, |(_, blocks)| blocks.len() as u32)
    }

    fn block_key(&self, place: u32) -> Key {
        let (cycle, blocks) = self.past.blocks.as_ref().expect("only a request with blocks asks");
        key::block(*cycle, blocks[place as usize])
    }

    fn write_block(&self, config: &WorkloadConfig, place: u32) -> Step {
        // The last block holds what is left of the context.
        let before = u64::from(place) * u64::from(BLOCK_TOKENS);
        let left = u64::from(self.demand.context_tokens).saturating_sub(before);
        let bytes = config.entry_bytes(left.clamp(1, u64::from(BLOCK_TOKENS)) as u32);
        Step::Write(self.block_key(place), Scope::Shared, Purpose::Block, bytes)
    }

    fn advance(&mut self, config: &WorkloadConfig) -> Step {
        loop {
            self.phase = match self.phase {
                Phase::Begin if self.demand.operation.is_some() => Phase::Operation,
                Phase::Operation => match self.demand.operation.take() {
                    Some(operation) => return self.operate(operation),
                    None => Phase::End,
                },
                Phase::Begin if config.phases == PhaseMode::DecodeOnly => {
                    return self.decode(config);
                }
                Phase::Begin if self.past.blocks.is_some() => Phase::BlockRead(0),
                Phase::BlockRead(next) if next < self.blocks() => {
                    let key = self.block_key(next);
                    return Step::Read(key, Scope::Shared, Purpose::Block, 1);
                }
                // A trace of blocks says what is in the cache at prefill; decoding is not in it.
                Phase::BlockRead(_) | Phase::BlockWrite(_) => return self.generate(config),
                Phase::Begin => {
                    if let Some(prompt) = self.demand.prompt {
                        self.phase = Phase::PrefixRead;
                        let key = key::system_prompt(prompt);
                        return Step::Read(key, Scope::Shared, Purpose::Prefix, 1);
                    }
                    Phase::History(0)
                }
                Phase::PrefixRead | Phase::PrefixWrite => Phase::History(0),
                Phase::History(next) => {
                    if let Some(&number) = self.past.history.get(next as usize) {
                        self.phase = Phase::History(next + 1);
                        let key = key::turn(self.user, number);
                        return Step::Read(key, Scope::Own, Purpose::History, 1);
                    }
                    self.phase = Phase::Prefill;
                    let (key, bytes) = (self.own_key(config), self.own_bytes(config));
                    return Step::Write(key, Scope::Own, Purpose::Prefill, bytes);
                }
                Phase::Prefill => match self.demand.retrieval {
                    Some(number) => {
                        self.retrieved = rag::retrieve(config, self.past.seed, number);
                        Phase::Retrieve(0)
                    }
                    None => return self.after_prefill(config),
                },
                Phase::Retrieve(next) if (next as usize) < self.retrieved.1.len() => {
                    let key = self.chunk_key(next);
                    return Step::Read(key, Scope::Shared, Purpose::Rag, 1);
                }
                Phase::Retrieve(_) => return self.after_prefill(config),
                Phase::Decode | Phase::DecodeAgain => return self.generate(config),
                Phase::Rewrite { .. } => unreachable!("a re-write is followed by its reads"),
                Phase::Generate | Phase::End => {
                    self.phase = Phase::End;
                    return Step::Done;
                }
            };
        }
    }

    fn operate(&self, operation: Operation) -> Step {
        let key = key::replayed(self.user);
        let Operation { bytes, is_write, is_decode } = operation;
        match (is_write, is_decode) {
            (true, true) => Step::Write(key, Scope::Own, Purpose::Rewrite, bytes),
            (true, false) => Step::Write(key, Scope::Own, Purpose::Prefill, bytes),
            (false, true) => Step::Read(key, Scope::Own, Purpose::Decode, 1),
            (false, false) => Step::Read(key, Scope::Own, Purpose::History, 1),
        }
    }

    fn after_prefill(&mut self, config: &WorkloadConfig) -> Step {
        match self.is_prefill_only(config) {
            true => self.generate(config),
            false => self.decode(config),
        }
    }

    fn decode(&mut self, config: &WorkloadConfig) -> Step {
        self.phase = Phase::Decode;
        Step::Read(self.own_key(config), Scope::Own, Purpose::Decode, self.decode_reads(config))
    }

    fn generate(&mut self, config: &WorkloadConfig) -> Step {
        self.phase = Phase::Generate;
        self.generation_ns = u64::from(self.demand.generate_tokens) * config.token_ns();
        match self.generation_ns {
            0 => {
                self.phase = Phase::End;
                Step::Done
            }
            wait => Step::Wait(wait),
        }
    }

    pub(crate) fn record(&self, finished: Nanos) -> RequestRecord {
        RequestRecord {
            user: self.user,
            class: self.class,
            arrived: self.arrived,
            started: self.started,
            finished,
            storage_io_ns: self.storage_io_ns,
            prefill_ns: self.prefill_ns,
            decode_ns: self.decode_ns,
            generation_ns: self.generation_ns,
            context_tokens: self.demand.context_tokens,
            generated_tokens: self.demand.generate_tokens,
            end: self.end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Turn;

    fn demand(context_tokens: u32, generate_tokens: u32) -> Demand {
        Demand {
            number: 5,
            retrieval: None,
            turn: Turn::Number(2),
            context_tokens,
            generate_tokens,
            prompt: Some(1),
            entry: 0,
            operation: None,
        }
    }

    fn request(demand: Demand, history: Vec<u64>) -> Request {
        let past = Past { history, prompt_tokens: 7, seed: 1, ..Past::default() };
        Request::new(3, (Class::Batch, Class::Batch), (10, 20), demand, past)
    }

    /// Runs a request, answering each step by `answer`; the purposes it went through.
    fn run(
        config: &WorkloadConfig,
        mut request: Request,
        answer: impl Fn(usize, &Step) -> Outcome,
    ) -> (Vec<(Purpose, u64)>, WorkloadStats) {
        let (mut stats, mut trail) = (WorkloadStats::default(), Vec::new());
        let mut step = request.next(config, None, &mut stats);
        while step != Step::Done {
            match step {
                Step::Read(_, _, purpose, times) => trail.push((purpose, u64::from(times))),
                Step::Write(_, _, purpose, bytes) => trail.push((purpose, bytes)),
                Step::Wait(_) | Step::Done => {}
            }
            let outcome = answer(trail.len(), &step);
            step = request.next(config, Some((outcome, 100)), &mut stats);
        }
        (trail, stats)
    }

    fn all_well(_: usize, step: &Step) -> Outcome {
        match step {
            Step::Read(..) => Outcome::Hit,
            Step::Write(..) => Outcome::Written,
            _ => Outcome::Waited,
        }
    }

    #[test]
    fn a_whole_request_goes_through_its_steps_in_order() {
        let config = WorkloadConfig::default();
        let (trail, _) = run(&config, request(demand(1000, 65), vec![3, 4]), all_well);
        let written = (1000 - 7) * 131_072;
        let expected = [
            (Purpose::Prefix, 1),
            (Purpose::History, 1),
            (Purpose::History, 1),
            (Purpose::Prefill, written),
            // 1 + ceil(65 / 32)
            (Purpose::Decode, 4),
        ];
        assert_eq!(trail, expected);
    }

    #[test]
    fn a_missing_prompt_is_written_and_a_missing_turn_counted() {
        let config = WorkloadConfig::default();
        let (trail, _) = run(&config, request(demand(1000, 1), vec![3]), |_, step| match step {
            Step::Read(_, _, Purpose::Prefix | Purpose::History, _) => {
                Outcome::Miss { reads_done: 0 }
            }
            other => all_well(0, other),
        });
        let purposes: Vec<Purpose> = trail.iter().map(|&(purpose, _)| purpose).collect();
        use Purpose::{Decode, History, Prefill, Prefix};
        assert_eq!(purposes, [Prefix, Prefix, History, Prefill, Decode]);
    }

    #[test]
    fn a_retrieval_reads_its_chunks_between_prefill_and_decode_and_only_counts_misses() {
        let mut config = WorkloadConfig { rag_documents: 2, ..WorkloadConfig::default() };
        config.rag.document_tokens = [1_200, 1_200];
        let asked = Demand { retrieval: Some(9), prompt: None, ..demand(1000, 1) };
        let (trail, _) = run(&config, request(asked, vec![]), |_, step| match step {
            Step::Read(_, _, Purpose::Rag, _) => Outcome::Miss { reads_done: 0 },
            other => all_well(0, other),
        });
        let purposes: Vec<Purpose> = trail.iter().map(|&(purpose, _)| purpose).collect();
        use Purpose::{Decode, Prefill, Rag};
        assert_eq!(purposes, [Prefill, Rag, Rag, Rag, Decode]);
    }

    #[test]
    fn leading_blocks_are_read_and_the_rest_written() {
        let config = WorkloadConfig::default();
        let with_blocks = |ids: &[u64]| {
            let past = Past { blocks: Some((0, ids.into())), ..Past::default() };
            Request::new(3, (Class::Batch, Class::Batch), (10, 20), demand(512 * 3 + 7, 5), past)
        };
        let token = 131_072;
        // Blocks 8 and 6 are there, but between them one is not.
        let resident = [key::block(0, 9), key::block(0, 8), key::block(0, 6)];
        let (trail, stats) = run(&config, with_blocks(&[9, 8, 7, 6]), |_, step| match step {
            Step::Read(key, ..) if !resident.contains(key) => Outcome::Miss { reads_done: 0 },
            other => all_well(0, other),
        });
        let sizes: Vec<u64> = trail.iter().map(|&(_, size)| size).collect();
        assert!(trail.iter().all(|&(purpose, _)| purpose == Purpose::Block));
        assert_eq!(sizes, [1, 1, 1, 512 * token, 7 * token], "three reads, two writes");
        assert_eq!((stats.block_hits, stats.block_misses), (2, 2));
        let (trail, stats) = run(&config, with_blocks(&[9, 8, 9, 8]), all_well);
        assert_eq!((trail.len(), stats.block_hits, stats.block_misses), (4, 4, 0));
    }

    #[test]
    fn long_contexts_and_prefill_only_runs_do_not_decode() {
        let only = WorkloadConfig { phases: PhaseMode::PrefillOnly, ..WorkloadConfig::default() };
        for (config, tokens) in [(WorkloadConfig::default(), 10_000), (only, 100)] {
            let (trail, _) = run(&config, request(demand(tokens, 50), vec![]), all_well);
            assert!(trail.iter().all(|&(purpose, _)| purpose != Purpose::Decode));
        }
        let (trail, _) =
            run(&WorkloadConfig::default(), request(demand(9_999, 50), vec![]), all_well);
        assert_eq!(trail.last(), Some(&(Purpose::Decode, 3)));
    }

    #[test]
    fn an_entry_evicted_during_decode_is_one_miss_and_one_re_write() {
        let config = WorkloadConfig::default();
        let missing = |_: usize, step: &Step| match step {
            Step::Read(_, _, Purpose::Decode, 4) => Outcome::Miss { reads_done: 1 },
            other => all_well(0, other),
        };
        let (trail, stats) = run(&config, request(demand(1000, 96), vec![]), missing);
        assert_eq!(trail[2].0, Purpose::Decode);
        assert_eq!(trail[3].0, Purpose::Rewrite);
        assert_eq!(trail[4], (Purpose::Decode, 3));
        assert_eq!((stats.decode_misses, stats.decode_rewrites), (1, 1));
    }

    #[test]
    fn decode_only_reads_one_entry_of_the_population() {
        let config = WorkloadConfig { phases: PhaseMode::DecodeOnly, ..WorkloadConfig::default() };
        let (trail, _) = run(&config, request(demand(20_000, 64), vec![1, 2]), all_well);
        assert_eq!(trail, [(Purpose::Decode, 3)]);
    }

    #[test]
    fn a_read_only_run_writes_nothing_when_an_entry_is_gone() {
        let config = WorkloadConfig { phases: PhaseMode::DecodeOnly, ..WorkloadConfig::default() };
        let gone = |_: usize, _: &Step| Outcome::Miss { reads_done: 1 };
        let (trail, stats) = run(&config, request(demand(20_000, 64), vec![]), gone);
        assert_eq!(trail, [(Purpose::Decode, 3)]);
        assert_eq!((stats.decode_misses, stats.decode_rewrites), (1, 0));
    }

    #[test]
    fn a_request_whose_entry_is_refused_was_not_served() {
        let config = WorkloadConfig::default();
        let mut stats = WorkloadStats::default();
        for (outcome, end, refused) in [
            (Outcome::Refused, RequestEnd::Refused, 1),
            (Outcome::Failed, RequestEnd::Failed, 1),
            (Outcome::Written, RequestEnd::Served, 1),
        ] {
            let mut one = request(Demand { prompt: None, ..demand(10_000, 50) }, vec![]);
            let mut step = one.next(&config, None, &mut stats);
            while step != Step::Done {
                let answer =
                    if matches!(step, Step::Write(..)) { outcome } else { Outcome::Waited };
                step = one.next(&config, Some((answer, 1)), &mut stats);
            }
            assert_eq!((one.record(99).end, stats.refused_requests), (end, refused));
        }
    }

    #[test]
    fn any_outcome_at_any_step_ends_the_request() {
        let outcomes = [
            Outcome::Hit,
            Outcome::Miss { reads_done: 0 },
            Outcome::Written,
            Outcome::Refused,
            Outcome::Waited,
            Outcome::Failed,
        ];
        let config = WorkloadConfig::default();
        for seed in 0..2_000u64 {
            let random = |n: usize| crate::rng::mix64(seed << 8 | n as u64) as usize;
            let (trail, _) =
                run(&config, request(demand(500, 40), vec![1, 2, 3]), |n, step| {
                    match (outcomes[random(n) % outcomes.len()], step) {
                        (Outcome::Hit | Outcome::Miss { .. }, Step::Write(..)) => Outcome::Written,
                        (outcome, _) => outcome,
                    }
                });
            assert!(trail.len() < 12, "{trail:?}");
        }
    }
}
