//! A request as a machine: `next(outcome of the last step) → read | write | wait | done`.

use std::ops::Range;

use crate::config::{DecodeReads, HistoryReads, PhaseMode, PrefixReads, WorkloadConfig};
use crate::contract::{
    Class, Key, Nanos, Outcome, Purpose, RequestEnd, RequestRecord, Scope, StepTimes,
};
use crate::conversation::PastTurn;
use crate::key;
use crate::rag;
use crate::source::Operation;
use crate::stats::WorkloadStats;
use crate::user::Demand;

/// The next thing a request wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestStep {
    /// Read an entry so often.
    Read(Key, Scope, Purpose, u32),
    /// Read the entries of a prefix before the first that is not there.
    ReadPrefix(Box<[Key]>, Scope, Purpose),
    /// Write an entry of so many bytes.
    Write(Key, Scope, Purpose, u64),
    /// Write entries of so many bytes.
    WriteAll(Box<[(Key, u64)]>, Scope, Purpose),
    /// Let so much time pass.
    Wait(Nanos),
    /// Compute again what was not found, which takes so long alone.
    Compute(Nanos),
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
    /// Reading the earlier turns from this one on.
    HistoryPrefix(u32),
    /// Writing again those that were missing.
    HistoryWrite,
    Prefill,
    /// Reading this chunk of the retrieval, in its order.
    Retrieve(u32),
    /// Reading this block, or the blocks from it on.
    BlockRead(u32),
    /// Writing the last of the blocks before this one.
    BlockWrite(u32),
    Decode,
    Rewrite {
        reads_left: u32,
    },
    DecodeAgain,
    Generate,
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) user: u64,
    pub(crate) class: Class,
    pub(crate) arrived: Nanos,
    pub(crate) started: Nanos,
    demand: Demand,
    phase: Phase,
    past: Past,
    /// Document and chunks, once retrieval has begun.
    retrieved: (u32, Vec<u32>),
    storage_io_ns: u64,
    room_ns: u64,
    permit_ns: u64,
    load_ns: u64,
    /// Whether it found anything of what was there before it.
    has_loaded: bool,
    prefill_ns: u64,
    decode_ns: u64,
    recompute_ns: u64,
    generation_ns: u64,
    /// Tokens looked for in vain, and not recomputed yet.
    missed_tokens: u64,
    /// Whether its own entry is in the store, or is to be written.
    is_stored: bool,
    /// Step that waits for their recomputation.
    held_back: Option<RequestStep>,
    end: RequestEnd,
}

#[derive(Clone, Debug)]
pub(crate) struct PromptBlocks {
    /// Cycle of the trace that they belong to.
    pub(crate) cycle: u32,
    pub(crate) ids: Box<[u64]>,
    /// Tokens that each stands for, the last one for those that are left; above 0.
    pub(crate) tokens: u32,
}

/// State that a request finds when it begins to be served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// Earlier turns of its conversation, oldest first; after them, where the workload looks for
    /// those too, the later ones that are queued.
    pub(crate) history: Vec<PastTurn>,
    /// Length of the system prompt that it begins with.
    pub(crate) prompt_tokens: u32,
    /// Decode-only: the user whose entry is read.
    pub(crate) owner: u64,
    /// A trace's prefix blocks.
    pub(crate) blocks: Option<PromptBlocks>,
    /// Random seed of the run; documents follow from it.
    pub(crate) seed: u64,
    /// Documents that can be retrieved.
    pub(crate) documents: Range<u32>,
}

impl Request {
    pub(crate) fn new(
        user: u64,
        class: Class,
        (arrived, started): (Nanos, Nanos),
        demand: Demand,
        past: Past,
    ) -> Request {
        Request {
            user,
            class,
            arrived,
            started,
            demand,
            phase: Phase::Begin,
            past,
            retrieved: (0, Vec::new()),
            storage_io_ns: 0,
            room_ns: 0,
            permit_ns: 0,
            load_ns: 0,
            has_loaded: false,
            prefill_ns: 0,
            decode_ns: 0,
            recompute_ns: 0,
            generation_ns: 0,
            missed_tokens: 0,
            is_stored: true,
            held_back: None,
            end: RequestEnd::Served,
        }
    }

    fn own_key(&self, config: &WorkloadConfig) -> Key {
        match config.phases {
            PhaseMode::DecodeOnly => key::population(self.past.owner, self.demand.entry),
            _ => key::turn(self.user, self.demand.number),
        }
    }

    /// Tokens of the entry that the turn itself writes.
    fn own_tokens(&self, config: &WorkloadConfig) -> u32 {
        match config.phases {
            PhaseMode::DecodeOnly => config.decode_only_entry_tokens,
            _ => own_tokens(self.demand.context_tokens, self.past.prompt_tokens),
        }
    }

    /// Tokens of the turn's entry that are stored, of the last chunk of its context on.
    fn own_stored_tokens(&self, config: &WorkloadConfig) -> u32 {
        let before = match config.history_reads {
            HistoryReads::All => self.history_tokens(0),
            HistoryReads::Last => 0,
        };
        match config.phases {
            PhaseMode::DecodeOnly => self.own_tokens(config),
            _ => config.stored_tokens(before, self.own_tokens(config)),
        }
    }

    fn own_bytes(&self, config: &WorkloadConfig) -> u64 {
        config.entry_bytes(self.own_stored_tokens(config))
    }

    /// Tokens of the earlier turns from this one on.
    fn history_tokens(&self, first: u32) -> u64 {
        self.past.history[first as usize..].iter().map(|turn| u64::from(turn.tokens)).sum()
    }

    /// Entries of the earlier turns from this one on, with their tokens that are stored, but for
    /// those that fill no chunk. Queued turns have no tokens yet.
    fn history_entries(&self, config: &WorkloadConfig, first: u32) -> Vec<(Key, u32)> {
        let mut before = 0;
        let entry = |turn: &PastTurn| {
            let tokens = config.stored_tokens(before, turn.tokens);
            before += u64::from(turn.tokens);
            (tokens > 0 || turn.tokens == 0).then(|| (key::turn(self.user, turn.number), tokens))
        };
        self.past.history[first as usize..].iter().filter_map(entry).collect()
    }

    /// Reads of the turn's entry: one for the first token, and where it is read again, one for each
    /// batch after it.
    fn decode_reads(&self, config: &WorkloadConfig) -> u32 {
        match config.decode_reads {
            DecodeReads::Once => 1,
            DecodeReads::Batch => {
                1 + self.demand.generate_tokens.div_ceil(config.decode_batch_tokens).max(1)
            }
        }
    }

    fn is_prefill_only(&self, config: &WorkloadConfig) -> bool {
        match config.phases {
            PhaseMode::PrefillOnly => true,
            PhaseMode::DecodeOnly => false,
            PhaseMode::Both => self.demand.context_tokens >= config.prefill_only_context_tokens,
        }
    }

    /// Takes in how the last step ended, and says what comes next. The first call of a request
    /// passes no outcome.
    pub(crate) fn next(
        &mut self,
        config: &WorkloadConfig,
        ended: Option<(Outcome, StepTimes)>,
        stats: &mut WorkloadStats,
    ) -> RequestStep {
        if let Some(step) = self.held_back.take() {
            return step;
        }
        let settled = ended.and_then(|(outcome, times)| self.settle(config, outcome, times, stats));
        let step = settled.unwrap_or_else(|| self.advance(config, stats));
        self.recomputed_first(config, step)
    }

    /// The step, or the recomputation that comes before it: whatever was looked for in vain is
    /// computed before anything but another look.
    fn recomputed_first(&mut self, config: &WorkloadConfig, step: RequestStep) -> RequestStep {
        let is_look = match step {
            RequestStep::Read(_, _, purpose, _) => purpose != Purpose::Decode,
            RequestStep::ReadPrefix(..) => true,
            _ => false,
        };
        if is_look || self.end != RequestEnd::Served {
            return step;
        }
        match config.recompute_ns(std::mem::take(&mut self.missed_tokens)) {
            0 => step,
            alone_ns => {
                self.held_back = Some(step);
                RequestStep::Compute(Nanos::from_ns(alone_ns))
            }
        }
    }

    /// Books the time for which it waits until what it did not find is computed.
    pub(crate) fn compute_for(&mut self, time: Nanos) {
        self.recompute_ns = self.recompute_ns.saturating_add(time.as_ns());
    }

    /// Ends it here, because its user was sent home.
    pub(crate) fn drop_rest(&mut self) -> RequestStep {
        self.end = RequestEnd::Dropped;
        self.phase = Phase::End;
        self.held_back = None;
        RequestStep::Done
    }

    /// Books the last step. `Some`: it decides the next step by itself.
    fn settle(
        &mut self,
        config: &WorkloadConfig,
        outcome: Outcome,
        times: StepTimes,
        stats: &mut WorkloadStats,
    ) -> Option<RequestStep> {
        self.book(outcome, times);
        let ended_early = match outcome {
            Outcome::Failed => Some(RequestEnd::Failed),
            // Without its entry there is nothing to decode: no token of it was served.
            Outcome::Refused => Some(RequestEnd::Refused),
            Outcome::Hit
            | Outcome::Miss { .. }
            | Outcome::Written
            | Outcome::NotStored
            | Outcome::Waited => None,
        };
        if let Some(end) = ended_early {
            stats.refused_requests += u64::from(end == RequestEnd::Refused);
            self.end = end;
            self.phase = Phase::End;
            return Some(RequestStep::Done);
        }
        if config.prefill_tokens_per_s > 0.0 {
            self.missed_tokens += match outcome {
                Outcome::Miss { reads_done } => self.tokens_not_found(config, reads_done),
                Outcome::Hit => self.tokens_dropped(config),
                _ => 0,
            };
        }
        match (self.phase, outcome) {
            (Phase::PrefixRead, Outcome::Miss { .. }) if config.system_prompts_written => {
                let prompt = self.demand.prompt?;
                self.phase = Phase::PrefixWrite;
                let bytes = config.entry_bytes(self.prompt_stored_tokens(config));
                let key = key::system_prompt(prompt);
                Some(RequestStep::Write(key, Scope::Shared, Purpose::Prefix, bytes))
            }
            // Whoever has made it has it still.
            (Phase::Prefill, Outcome::NotStored) => {
                self.is_stored = false;
                None
            }
            (Phase::Rewrite { .. }, Outcome::NotStored) => Some(self.generate(config)),
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
                Some(RequestStep::Write(key, Scope::Own, Purpose::Rewrite, bytes))
            }
            (Phase::Rewrite { reads_left }, _) => {
                stats.decode_rewrites += 1;
                self.phase = Phase::DecodeAgain;
                let key = self.own_key(config);
                Some(RequestStep::Read(key, Scope::Own, Purpose::Decode, reads_left))
            }
            // A chunk that was evicted is a miss, no more.
            (Phase::Retrieve(next), _) => {
                self.phase = Phase::Retrieve(next + 1);
                None
            }
            (Phase::HistoryPrefix(first), Outcome::Miss { reads_done }) => {
                let entries = self.history_entries(config, first).into_iter();
                // Queued turns have not been computed yet.
                let missing = entries.skip(reads_done as usize).filter(|(_, tokens)| *tokens > 0);
                let entries: Box<[_]> =
                    missing.map(|(key, tokens)| (key, config.entry_bytes(tokens))).collect();
                self.phase = Phase::HistoryWrite;
                let is_none = entries.is_empty();
                let write = RequestStep::WriteAll(entries, Scope::Own, Purpose::History);
                (!is_none).then_some(write)
            }
            (Phase::BlockRead(next), Outcome::Miss { reads_done }) => {
                let missing = self.block_after(config, next, reads_done);
                stats.block_hits += u64::from(missing - next);
                Some(self.write_blocks(config, missing, stats))
            }
            (Phase::BlockRead(next), _) => {
                let end = self.blocks_from(config, next).end;
                let missing = self.block_after(config, next, u32::MAX);
                stats.block_hits += u64::from(missing - next);
                if missing < end {
                    return Some(self.write_blocks(config, missing, stats));
                }
                self.missed_tokens += self.tokens_before(end) % u64::from(config.chunk_tokens);
                self.phase = Phase::BlockRead(end);
                None
            }
            // Not looked for: what follows a missing block is missing too.
            (Phase::BlockWrite(next), _) if next < self.blocks() => {
                Some(self.write_blocks(config, next, stats))
            }
            _ => None,
        }
    }

    /// Counts the times of the last step, those of its I/O for the phase that it was of.
    fn book(&mut self, outcome: Outcome, times: StepTimes) {
        let StepTimes { io_ns, room_ns, permit_ns } = times;
        self.storage_io_ns += io_ns;
        self.room_ns += room_ns;
        self.permit_ns += permit_ns;
        match self.phase {
            Phase::Decode | Phase::Rewrite { .. } | Phase::DecodeAgain => self.decode_ns += io_ns,
            Phase::Generate => {}
            _ => self.prefill_ns += io_ns,
        }
        let is_load = matches!(
            self.phase,
            Phase::PrefixRead
                | Phase::History(_)
                | Phase::HistoryPrefix(_)
                | Phase::Retrieve(_)
                | Phase::BlockRead(_)
        );
        if is_load {
            self.load_ns += io_ns + room_ns;
            self.has_loaded |= match outcome {
                Outcome::Hit => true,
                Outcome::Miss { reads_done } => reads_done > 0,
                _ => false,
            };
        }
    }

    /// Tokens that the present phase has looked for in vain, but for those of blocks, which are
    /// counted with their writes; it found so many entries of a prefix before them.
    fn tokens_not_found(&self, config: &WorkloadConfig, found: u32) -> u64 {
        let tokens = match self.phase {
            Phase::PrefixRead => self.past.prompt_tokens,
            // The phase is that of the turn after it.
            Phase::History(next) => self.past.history[next as usize - 1].tokens,
            // Whatever follows a missing turn is of no use.
            Phase::HistoryPrefix(first) => {
                let entries = self.history_entries(config, first).into_iter();
                let found = entries.take(found as usize).map(|(_, tokens)| u64::from(tokens));
                return self.history_tokens(first) - found.sum::<u64>();
            }
            Phase::Retrieve(place) => {
                let (document, chunks) = &self.retrieved;
                let all = rag::chunks(config, self.past.seed, *document);
                all[chunks[place as usize] as usize]
            }
            Phase::Decode | Phase::DecodeAgain => self.own_tokens(config),
            _ => 0,
        };
        tokens.into()
    }

    /// Tokens behind the last chunk of what the present phase has found, which are not stored; but
    /// for those of blocks.
    fn tokens_dropped(&self, config: &WorkloadConfig) -> u64 {
        let tokens = match self.phase {
            Phase::PrefixRead => self.past.prompt_tokens.into(),
            Phase::HistoryPrefix(first) => self.history_tokens(first),
            _ => 0,
        };
        tokens % u64::from(config.chunk_tokens)
    }

    fn prompt_stored_tokens(&self, config: &WorkloadConfig) -> u32 {
        config.stored_tokens(0, self.past.prompt_tokens)
    }

    fn chunk_key(&self, place: u32) -> Key {
        let (document, chunks) = &self.retrieved;
        key::chunk(*document, chunks[place as usize])
    }

    fn blocks(&self) -> u32 {
        self.past.blocks.as_ref().map_or(0, |blocks| blocks.ids.len() as u32)
    }

    fn named_blocks(&self) -> &PromptBlocks {
        self.past.blocks.as_ref().expect("only a request with blocks asks")
    }

    fn block_key(&self, place: u32) -> Key {
        let blocks = self.named_blocks();
        key::block(blocks.cycle, blocks.ids[place as usize])
    }

    /// Tokens of a trace's block; the last holds what is left of the context.
    fn block_tokens(&self, place: u32) -> u32 {
        let left = u64::from(self.demand.context_tokens) - self.tokens_before(place);
        left.clamp(1, self.named_blocks().tokens.into()) as u32
    }

    /// Tokens of the context before this block.
    fn tokens_before(&self, place: u32) -> u64 {
        let before = u64::from(place) * u64::from(self.named_blocks().tokens);
        before.min(self.demand.context_tokens.into())
    }

    /// Places and bytes of the blocks from this one on that a step reads or writes, but for those
    /// in which no chunk ends.
    fn block_entries(&self, config: &WorkloadConfig, first: u32) -> Vec<(u32, u64)> {
        let entry = |place| {
            let tokens = config.stored_tokens(self.tokens_before(place), self.block_tokens(place));
            (tokens > 0).then(|| (place, config.entry_bytes(tokens)))
        };
        self.blocks_from(config, first).filter_map(entry).collect()
    }

    /// The block behind so many entries from this one on.
    fn block_after(&self, config: &WorkloadConfig, first: u32, entries: u32) -> u32 {
        let mut entries = self.block_entries(config, first).into_iter().take(entries as usize);
        entries.next_back().map_or(first, |(place, _)| place + 1)
    }

    /// Blocks from this one on that a step reads or writes.
    fn blocks_from(&self, config: &WorkloadConfig, first: u32) -> Range<u32> {
        match config.prefix_reads {
            PrefixReads::Each => first..first + 1,
            PrefixReads::InOrder | PrefixReads::AtOnce => first..self.blocks(),
        }
    }

    /// Step that writes the next of the missing blocks, which are counted, and computed before.
    fn write_blocks(
        &mut self,
        config: &WorkloadConfig,
        first: u32,
        stats: &mut WorkloadStats,
    ) -> RequestStep {
        let blocks = self.blocks_from(config, first);
        stats.block_misses += u64::from(blocks.end - first);
        let before = self.tokens_before(first);
        self.missed_tokens +=
            self.tokens_before(blocks.end) - before + before % u64::from(config.chunk_tokens);
        self.phase = Phase::BlockWrite(blocks.end);
        let entries = self.block_entries(config, first);
        let entry = |(place, bytes)| (self.block_key(place), bytes);
        let (scope, purpose) = (Scope::Shared, Purpose::Block);
        match entries[..] {
            [] => self.generate(config),
            [one] => {
                let (key, bytes) = entry(one);
                RequestStep::Write(key, scope, purpose, bytes)
            }
            _ => RequestStep::WriteAll(entries.into_iter().map(entry).collect(), scope, purpose),
        }
    }

    fn advance(&mut self, config: &WorkloadConfig, stats: &mut WorkloadStats) -> RequestStep {
        loop {
            self.phase = match self.phase {
                Phase::Begin if self.demand.operation.is_some() => Phase::Operation,
                Phase::Operation => match self.demand.operation.take() {
                    Some(operation) => return self.operate(operation),
                    None => Phase::End,
                },
                Phase::Begin if config.phases == PhaseMode::DecodeOnly => Phase::Prefill,
                Phase::Begin if self.past.blocks.is_some() => Phase::BlockRead(0),
                Phase::BlockRead(next) if next < self.blocks() => {
                    let entries = self.block_entries(config, next);
                    let (scope, purpose) = (Scope::Shared, Purpose::Block);
                    return match entries[..] {
                        [] => self.write_blocks(config, next, stats),
                        [(place, _)] => RequestStep::Read(self.block_key(place), scope, purpose, 1),
                        _ => {
                            let keys = entries.iter().map(|(place, _)| self.block_key(*place));
                            RequestStep::ReadPrefix(keys.collect(), scope, purpose)
                        }
                    };
                }
                // A trace of blocks says what is in the cache at prefill; decoding is not in it.
                Phase::BlockRead(_) | Phase::BlockWrite(_) => {
                    return self.generate(config);
                }
                Phase::Begin => {
                    if let Some(prompt) = self.demand.prompt {
                        if self.prompt_stored_tokens(config) > 0 {
                            self.phase = Phase::PrefixRead;
                            let key = key::system_prompt(prompt);
                            return RequestStep::Read(key, Scope::Shared, Purpose::Prefix, 1);
                        }
                        self.missed_tokens += u64::from(self.past.prompt_tokens);
                    }
                    self.first_history(config)
                }
                Phase::PrefixRead | Phase::PrefixWrite => self.first_history(config),
                Phase::History(next) if (next as usize) < self.past.history.len() => {
                    let (scope, purpose) = (Scope::Own, Purpose::History);
                    if config.prefix_reads == PrefixReads::Each {
                        self.phase = Phase::History(next + 1);
                        let turn = &self.past.history[next as usize];
                        let key = key::turn(self.user, turn.number);
                        return RequestStep::Read(key, scope, purpose, 1);
                    }
                    let entries = self.history_entries(config, next);
                    if !entries.is_empty() {
                        self.phase = Phase::HistoryPrefix(next);
                        let keys = entries.into_iter().map(|(key, _)| key).collect();
                        return RequestStep::ReadPrefix(keys, scope, purpose);
                    }
                    self.missed_tokens += self.history_tokens(next);
                    Phase::HistoryPrefix(next)
                }
                // It fills no chunk.
                Phase::History(_) | Phase::HistoryPrefix(_) | Phase::HistoryWrite
                    if self.own_stored_tokens(config) == 0 =>
                {
                    self.is_stored = false;
                    Phase::Prefill
                }
                Phase::History(_) | Phase::HistoryPrefix(_) | Phase::HistoryWrite => {
                    self.phase = Phase::Prefill;
                    let (key, bytes) = (self.own_key(config), self.own_bytes(config));
                    return RequestStep::Write(key, Scope::Own, Purpose::Prefill, bytes);
                }
                // A decode-only request comes here without a write.
                Phase::Prefill => match self.demand.retrieval {
                    Some(number) if !self.past.documents.is_empty() => {
                        let documents = self.past.documents.clone();
                        self.retrieved = rag::retrieve(config, self.past.seed, number, documents);
                        Phase::Retrieve(0)
                    }
                    _ => return self.after_prefill(config),
                },
                Phase::Retrieve(next) if (next as usize) < self.retrieved.1.len() => {
                    let key = self.chunk_key(next);
                    return RequestStep::Read(key, Scope::Shared, Purpose::Rag, 1);
                }
                Phase::Retrieve(_) => return self.after_prefill(config),
                Phase::Decode | Phase::DecodeAgain => return self.generate(config),
                Phase::Rewrite { .. } => unreachable!("a re-write is followed by its reads"),
                Phase::Generate | Phase::End => {
                    self.phase = Phase::End;
                    return RequestStep::Done;
                }
            };
        }
    }

    /// Phase in which the first of the earlier turns is read that are read at all.
    fn first_history(&self, config: &WorkloadConfig) -> Phase {
        match config.history_reads {
            HistoryReads::All => Phase::History(0),
            HistoryReads::Last => Phase::History(self.past.history.len().saturating_sub(1) as u32),
        }
    }

    fn operate(&self, operation: Operation) -> RequestStep {
        let key = key::replayed(self.user);
        let Operation { bytes, is_write, is_decode } = operation;
        match (is_write, is_decode) {
            (true, true) => RequestStep::Write(key, Scope::Own, Purpose::Rewrite, bytes),
            (true, false) => RequestStep::Write(key, Scope::Own, Purpose::Prefill, bytes),
            (false, true) => RequestStep::Read(key, Scope::Own, Purpose::Decode, 1),
            (false, false) => RequestStep::Read(key, Scope::Own, Purpose::History, 1),
        }
    }

    fn after_prefill(&mut self, config: &WorkloadConfig) -> RequestStep {
        match self.is_prefill_only(config) || !self.is_stored {
            true => self.generate(config),
            false => self.decode(config),
        }
    }

    fn decode(&mut self, config: &WorkloadConfig) -> RequestStep {
        self.phase = Phase::Decode;
        RequestStep::Read(
            self.own_key(config),
            Scope::Own,
            Purpose::Decode,
            self.decode_reads(config),
        )
    }

    fn generate(&mut self, config: &WorkloadConfig) -> RequestStep {
        self.phase = Phase::Generate;
        self.generation_ns = u64::from(self.demand.generate_tokens) * config.token_ns();
        match self.generation_ns {
            0 => {
                self.phase = Phase::End;
                RequestStep::Done
            }
            wait_ns => RequestStep::Wait(Nanos::from_ns(wait_ns)),
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
            room_ns: self.room_ns,
            permit_ns: self.permit_ns,
            load_ns: self.has_loaded.then_some(self.load_ns),
            prefill_ns: self.prefill_ns,
            decode_ns: self.decode_ns,
            recompute_ns: self.recompute_ns,
            generation_ns: self.generation_ns,
            context_tokens: self.demand.context_tokens,
            generated_tokens: self.demand.generate_tokens,
            end: self.end,
        }
    }
}

/// Tokens of the entry that a request writes: those of its prompt need no prefill of their own.
pub(crate) fn own_tokens(context_tokens: u32, prompt_tokens: u32) -> u32 {
    context_tokens.saturating_sub(prompt_tokens).max(1)
}

#[cfg(test)]
#[path = "request_test.rs"]
mod tests;
