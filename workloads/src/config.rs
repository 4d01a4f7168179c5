//! Every number of a workload, as plain values, with its default.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{ModelSpec, built_in};

/// Models from this size on get the shorter documents.
const LARGE_HIDDEN_DIM: u64 = 8_192;
const LARGE_LAYERS: u64 = 64;

/// Whether users wait for their answers, or requests arrive at times of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// A user does not wait for its own answer.
    #[default]
    Open,
    /// A user waits for its answer before it thinks again.
    Closed,
    /// Each user asks at random times: together, `request_rate_per_s` arrivals a second.
    Poisson,
}

/// Distribution from which the chunks of a document are picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RagDistribution {
    /// Chunk of rank `r` with weight `1/r`.
    #[default]
    Zipf,
    /// All alike.
    Uniform,
}

/// When documents are ingested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RagIngestion {
    /// Before the load begins: every retrieval finds its document.
    #[default]
    Before,
    /// Beside the load, one chunk after the other, as the reference benchmark does: a request finds
    /// the documents that are whole by then, and old ones go while it runs.
    Beside,
}

/// Retrieval-augmented generation: documents in the cache, chunks of them read by some requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RagConfig {
    /// Probability that a request reads chunks.
    pub probability: f64,
    /// Chunks that it reads.
    pub top_k: u32,
    /// Distribution from which they are picked.
    pub distribution: RagDistribution,
    /// Tokens of a chunk; fewer when one would pass `chunk_bytes_max`.
    pub chunk_tokens: u32,
    /// Largest size of a chunk, bytes; a chunk that would be larger has fewer tokens.
    pub chunk_bytes_max: u64,
    /// Tokens of a document, both ends included.
    pub document_tokens: [u32; 2],
    /// The same for large models: hidden size ≥ 8192, or 64 layers or more.
    pub document_tokens_large: [u32; 2],
    /// Documents kept; past that the oldest goes. 0: all.
    pub max_documents: u32,
}

impl Default for RagConfig {
    fn default() -> Self {
        RagConfig {
            probability: 0.1,
            top_k: 5,
            distribution: RagDistribution::Zipf,
            chunk_tokens: 512,
            chunk_bytes_max: 256 << 20,
            document_tokens: [4_000, 12_000],
            document_tokens_large: [1_024, 4_096],
            max_documents: 0,
        }
    }
}

/// Model of the time that generating a token takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GenerationMode {
    /// Nothing: storage alone.
    None,
    /// 2 ms a token.
    Fast,
    /// 30 ms a token.
    #[default]
    Realistic,
}

/// Number of times that decoding reads the entry of its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecodeReads {
    /// Once for the first token and once for each batch of tokens, as in the reference benchmark.
    #[default]
    Batch,
    /// Once a turn, as serving stacks do: the entry then stays in GPU memory.
    Once,
}

/// Earlier turns of its conversation that a request reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryReads {
    /// All of them, each an entry of its own, as in the reference benchmark.
    #[default]
    All,
    /// The last one, whose entry stands for the context so far, as serving stacks extend it.
    Last,
}

/// Order in which a request reads entries that are a prefix together: the earlier turns of its
/// conversation, or the blocks of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefixReads {
    /// One turn or block after the other. Turns behind a missing one are read as well, and none is
    /// written again, as in the reference benchmark.
    #[default]
    Each,
    /// One after the other, up to the first that is missing; that and those behind it are computed
    /// and written again.
    InOrder,
    /// The same, all reads at once, and all writes.
    AtOnce,
}

/// Which phases a request has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseMode {
    /// Prefill and decode.
    #[default]
    Both,
    /// Prefill only.
    PrefillOnly,
    /// Decode only, of a population written before.
    DecodeOnly,
}

/// A kind of user. Ranges include both ends.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    /// Range from which the longest context of a user is drawn, tokens.
    pub context_tokens: [u32; 2],
    /// Range from which the longest answer of a user is drawn, tokens.
    pub generation_tokens: [u32; 2],
    /// Range from which a user's pause between two requests is drawn, s.
    pub think_time_s: [f64; 2],
}

/// Everything that decides what is read and written.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadConfig {
    /// Model whose KV cache sizes decide the size of each entry.
    pub model: ModelSpec,
    /// GPUs that share a token's KV bytes; entries are one GPU's share.
    pub tensor_parallel: u64,
    /// KV bytes of a token in entries that hold what all GPUs have of it, with copies; none: one
    /// GPU's share.
    pub all_token_bytes: Option<u64>,
    /// Number of simulated users; 1 to [`USERS_MAX`].
    pub num_users: u32,
    /// Kinds of users, drawn uniformly: chatbot, coding, document.
    pub personas: Vec<Persona>,
    /// Share of interactive users.
    pub interactive_share: f64,
    /// Share of responsive users; the rest is batch.
    pub responsive_share: f64,
    /// A think time is multiplied by a draw from this range.
    pub think_jitter: [f64; 2],
    /// Arrival process: decides when a user sends its next request.
    pub arrival: Arrival,
    /// Arrivals a second of all users together, for [`Arrival::Poisson`].
    pub request_rate_per_s: f64,
    /// Whether a user's requests form conversations.
    pub multi_turn: bool,
    /// Probability that a conversation ends before a turn.
    pub conversation_end_probability: f64,
    /// Turns after which a conversation ends.
    pub conversation_turns_max: u32,
    /// Conversations remembered at once, over all users.
    pub conversations_live_max: u32,
    /// Whether a turn of a drawn conversation also looks for the later turns of its conversation
    /// that have arrived and are not being served yet, as in the reference benchmark: none of them
    /// has been written, so each is a miss.
    pub history_counts_queued_turns: bool,
    /// Whether a trace's requests are served by the QoS classes drawn for them. Otherwise they are
    /// served first come, first served: the trace has no classes, and its order is part of it.
    pub trace_classes: bool,
    /// Whether requests may begin with a shared system prompt.
    pub prefix_caching: bool,
    /// Probability that one does.
    pub prefix_probability: f64,
    /// Number of system prompts.
    pub system_prompts: u32,
    /// Tokens of a system prompt, both ends included.
    pub system_prompt_tokens: [u32; 2],
    /// Whether a system prompt that is not in the cache is written, as a cache would do. Otherwise
    /// every read of one is a miss, as in the reference benchmark.
    pub system_prompts_written: bool,
    /// Documents to ingest; 0: no retrieval.
    pub rag_documents: u32,
    /// When they are ingested.
    pub rag_ingestion: RagIngestion,
    /// Settings of reading documents.
    pub rag: RagConfig,
    /// Contexts of this many tokens or more have no decode phase.
    pub prefill_only_context_tokens: u32,
    /// Tokens generated for each read of the turn's entry.
    pub decode_batch_tokens: u32,
    /// Number of times that decoding reads the entry of its turn.
    pub decode_reads: DecodeReads,
    /// Earlier turns that a request reads.
    pub history_reads: HistoryReads,
    /// Order in which it reads them, and the blocks of a trace.
    pub prefix_reads: PrefixReads,
    /// Tokens of a context of which all are stored or none, at least 1: those that are left at its
    /// end are not stored, and are computed again by whoever finds the others. Documents and what
    /// is read by [`PhaseMode::DecodeOnly`] are stored whole.
    pub chunk_tokens: u32,
    /// Whether an entry is stored from its second write on, as by an engine that writes through
    /// what it has seen before. The first is forgotten once about a million others were written.
    pub writes_selectively: bool,
    /// Speed at which tokens that were looked for and not found are computed again, tokens/s, for
    /// one request after another; 0: at once, as in the reference benchmark.
    pub prefill_tokens_per_s: f64,
    /// Model of the generation time.
    pub generation_mode: GenerationMode,
    /// A token in mode fast, ms.
    pub generation_fast_ms: f64,
    /// A token in mode realistic, ms.
    pub generation_realistic_ms: f64,
    /// Which phases a request has.
    pub phases: PhaseMode,
    /// Entries a user, written before a decode-only run.
    pub decode_only_entries_per_user: u32,
    /// Number of tokens of each entry that is written before a decode-only run.
    pub decode_only_entry_tokens: u32,
    /// Requests in all; 0: no limit. Divided evenly over the users.
    pub max_requests: u64,
}

impl Default for WorkloadConfig {
    fn default() -> Self {
        let persona = |context_tokens, generation_tokens, think_time_s| Persona {
            context_tokens,
            generation_tokens,
            think_time_s,
        };
        WorkloadConfig {
            model: built_in("llama3.1-8b").expect("a built-in model"),
            tensor_parallel: 1,
            all_token_bytes: None,
            num_users: 100,
            personas: vec![
                persona([512, 4096], [50, 200], [0.1, 0.5]),
                persona([4096, 25_000], [100, 500], [0.2, 1.0]),
                persona([4096, 16_384], [200, 800], [0.3, 1.5]),
            ],
            interactive_share: 0.15,
            responsive_share: 0.35,
            think_jitter: [0.8, 1.2],
            arrival: Arrival::Open,
            request_rate_per_s: 0.0,
            multi_turn: true,
            conversation_end_probability: 0.2,
            conversation_turns_max: 50,
            conversations_live_max: 1000,
            history_counts_queued_turns: false,
            trace_classes: false,
            prefix_caching: true,
            prefix_probability: 0.2,
            system_prompts: 3,
            system_prompt_tokens: [5, 10],
            system_prompts_written: true,
            rag_documents: 0,
            rag_ingestion: RagIngestion::Before,
            rag: RagConfig::default(),
            prefill_only_context_tokens: 10_000,
            decode_batch_tokens: 32,
            decode_reads: DecodeReads::Batch,
            history_reads: HistoryReads::All,
            prefix_reads: PrefixReads::Each,
            chunk_tokens: 1,
            writes_selectively: false,
            prefill_tokens_per_s: 0.0,
            generation_mode: GenerationMode::Realistic,
            generation_fast_ms: 2.0,
            generation_realistic_ms: 30.0,
            phases: PhaseMode::Both,
            decode_only_entries_per_user: 10,
            decode_only_entry_tokens: 2048,
            max_requests: 0,
        }
    }
}

/// Largest number of simulated users, over all shards.
pub const USERS_MAX: u32 = 1_000_000;
/// Most tokens of a context or an answer: far above any model, and keeps products in range.
const TOKENS_MAX: u32 = 100_000_000;
/// Most documents: their chunks' names and sizes are worked out, not kept.
const DOCUMENTS_MAX: u32 = 1_000_000;
/// Most turns of a conversation: each is remembered, and read back by those after it.
const TURNS_MAX: u32 = 1_000_000;
/// Most chunks that a retrieval may pass over to pick its own, about 5 ms of a shard's time
/// (5 ns each): a shard that draws for longer serves nobody.
const RETRIEVAL_STEPS_MAX: u64 = 1_000_000;
/// Most arrivals a second: one a nanosecond.
const RATE_MAX_PER_S: f64 = 1e9;
/// Longest think time: a day, as the longest run.
const THINK_MAX_S: f64 = 86_400.0;

impl WorkloadConfig {
    /// Shortest time between two requests of a user, ns, where users do not wait for their answers;
    /// the mean of random ones. 0 for users that wait.
    pub(crate) fn shortest_gap_ns(&self) -> f64 {
        let thinks_s = self.personas.iter().map(|persona| persona.think_time_s[0]);
        match self.arrival {
            Arrival::Open => thinks_s.fold(f64::MAX, f64::min) * self.think_jitter[0] * 1e9,
            Arrival::Poisson => f64::from(self.num_users) / self.request_rate_per_s * 1e9,
            Arrival::Closed => 0.0,
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that makes no sense, by name.
    pub fn validate(&self) -> Result<(), Error> {
        self.model.bytes_per_token()?;
        let share = |name: &str, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::new(format!("{name} is {value}, not between 0 and 1"))),
        };
        share("interactive_share", self.interactive_share)?;
        share("responsive_share", self.responsive_share)?;
        share(
            "interactive_share + responsive_share",
            self.interactive_share + self.responsive_share,
        )?;
        share("conversation_end_probability", self.conversation_end_probability)?;
        share("prefix_probability", self.prefix_probability)?;
        let tokens = |name: &str, [low, high]: [u32; 2]| match low {
            1.. if low <= high && high <= TOKENS_MAX => Ok(()),
            _ => Err(Error::new(format!(
                "{name} is [{low}, {high}], not a range within 1..{TOKENS_MAX}"
            ))),
        };
        for persona in &self.personas {
            tokens("context_tokens", persona.context_tokens)?;
            tokens("generation_tokens", persona.generation_tokens)?;
            let [low, high] = persona.think_time_s;
            if !(0.0 <= low && low <= high && high <= THINK_MAX_S) {
                return Err(Error::new(format!("think_time_s is [{low}, {high}], not a range")));
            }
        }
        tokens("system_prompt_tokens", self.system_prompt_tokens)?;
        share("rag.probability", self.rag.probability)?;
        tokens("rag.document_tokens", self.rag.document_tokens)?;
        tokens("rag.document_tokens_large", self.rag.document_tokens_large)?;
        if self.rag_documents > DOCUMENTS_MAX {
            return Err(Error::new(format!(
                "rag_documents is {}, more than {DOCUMENTS_MAX}",
                self.rag_documents
            )));
        }
        if self.conversation_turns_max > TURNS_MAX {
            return Err(Error::new(format!(
                "conversation_turns_max is {}, more than {TURNS_MAX}",
                self.conversation_turns_max
            )));
        }
        let rate = self.request_rate_per_s;
        if self.arrival == Arrival::Poisson && !(rate > 0.0 && rate <= RATE_MAX_PER_S) {
            return Err(Error::new(format!(
                "request_rate_per_s is {rate}; poisson arrivals need one above 0"
            )));
        }
        let [low, high] = self.think_jitter;
        if !(0.0 <= low && low <= high && high <= 100.0) {
            return Err(Error::new(format!("think_jitter is [{low}, {high}], not a range")));
        }
        for (name, ms) in [
            ("generation_fast_ms", self.generation_fast_ms),
            ("generation_realistic_ms", self.generation_realistic_ms),
        ] {
            if !(0.0..=60_000.0).contains(&ms) {
                return Err(Error::new(format!("{name} is {ms}, not within 0..60000")));
            }
        }
        // A thousand seconds a token at the most, which keeps sums of waits in range.
        let speed = self.prefill_tokens_per_s;
        if speed != 0.0 && !(1e-3..=1e9).contains(&speed) {
            return Err(Error::new(format!(
                "prefill_tokens_per_s is {speed}, neither 0 nor within 0.001..1000000000"
            )));
        }
        self.validate_counts()?;
        self.validate_retrieval()
    }

    /// Checks the counts that must be at least one.
    fn validate_counts(&self) -> Result<(), Error> {
        let at_least_one = |name: &str, value: u64| match value {
            0 => Err(Error::new(format!("{name} is 0, at least 1 is needed"))),
            _ => Ok(()),
        };
        at_least_one("personas", self.personas.len() as u64)?;
        at_least_one("tensor_parallel", self.tensor_parallel)?;
        at_least_one("system_prompts", u64::from(self.system_prompts))?;
        at_least_one("conversation_turns_max", u64::from(self.conversation_turns_max))?;
        at_least_one("conversations_live_max", u64::from(self.conversations_live_max))?;
        at_least_one("rag.top_k", u64::from(self.rag.top_k))?;
        at_least_one("rag.chunk_tokens", u64::from(self.rag.chunk_tokens))?;
        at_least_one("rag.chunk_bytes_max", self.rag.chunk_bytes_max)?;
        at_least_one("chunk_tokens", u64::from(self.chunk_tokens))?;
        at_least_one("decode_batch_tokens", u64::from(self.decode_batch_tokens))?;
        at_least_one("decode_only_entries_per_user", u64::from(self.decode_only_entries_per_user))?;
        at_least_one("decode_only_entry_tokens", u64::from(self.decode_only_entry_tokens))?;
        if !(1..=USERS_MAX).contains(&self.num_users) {
            return Err(Error::new(format!("num_users is {}, not 1..{USERS_MAX}", self.num_users)));
        }
        Ok(())
    }

    /// A retrieval weighs every chunk of its document, once for each that it picks.
    fn validate_retrieval(&self) -> Result<(), Error> {
        let [_, tokens] = self.rag_document_tokens();
        let (full, top_k) = (self.rag_chunk_tokens(), self.rag.top_k);
        let chunks = u64::from(tokens.div_ceil(full));
        let steps = chunks * u64::from(top_k).min(chunks);
        if self.rag_documents > 0 && steps > RETRIEVAL_STEPS_MAX {
            return Err(Error::new(format!(
                "rag: a document of {tokens} tokens has {chunks} chunks of {full} tokens, and to \
                 pick {top_k} of them takes {steps} steps, more than {RETRIEVAL_STEPS_MAX}; raise \
                 rag.chunk_tokens, or lower rag.document_tokens or rag.top_k"
            )));
        }
        Ok(())
    }

    /// Whether documents are ingested while the load runs. A decode-only run writes nothing: its
    /// documents are there before.
    pub(crate) fn ingests_beside(&self) -> bool {
        self.rag_ingestion == RagIngestion::Beside
            && self.rag_documents > 0
            && self.phases != PhaseMode::DecodeOnly
    }

    /// Fewest and most tokens of a document of the retrieval.
    pub(crate) fn rag_document_tokens(&self) -> [u32; 2] {
        let model = &self.model;
        let large = model.hidden_dim >= LARGE_HIDDEN_DIM || model.num_layers >= LARGE_LAYERS;
        if large { self.rag.document_tokens_large } else { self.rag.document_tokens }
    }

    /// Tokens of a full chunk: as configured, or what fits its largest size.
    pub(crate) fn rag_chunk_tokens(&self) -> u32 {
        let fitting = self.rag.chunk_bytes_max / self.entry_bytes(1);
        u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, self.rag.chunk_tokens)
    }

    /// Bytes of an entry of `tokens`: one GPU's share, or that of all, at least 1.
    ///
    /// # Panics
    /// When the config was not validated.
    pub fn entry_bytes(&self, tokens: u32) -> u64 {
        let per_token = || self.model.bytes_per_token().expect("validated");
        let bytes = match self.all_token_bytes {
            Some(token_bytes) => u64::from(tokens) * token_bytes,
            None => u64::from(tokens) * per_token() / self.tensor_parallel,
        };
        bytes.max(1)
    }

    /// Number of these tokens that are stored where so many of the same context come before them:
    /// those of the chunks that end in them.
    pub(crate) fn stored_tokens(&self, before: u64, tokens: u32) -> u32 {
        let chunk_tokens = u64::from(self.chunk_tokens);
        let whole = |tokens: u64| tokens - tokens % chunk_tokens;
        u32::try_from(whole(before + u64::from(tokens)) - whole(before)).unwrap_or(u32::MAX)
    }

    /// Time in which tokens that were not found are computed again, ns.
    pub(crate) fn recompute_ns(&self, tokens: u64) -> u64 {
        match self.prefill_tokens_per_s {
            0.0 => 0,
            speed => (tokens as f64 / speed * 1e9) as u64,
        }
    }

    /// Time one token takes to generate, ns.
    pub fn token_ns(&self) -> u64 {
        let ms = match self.generation_mode {
            GenerationMode::None => 0.0,
            GenerationMode::Fast => self.generation_fast_ms,
            GenerationMode::Realistic => self.generation_realistic_ms,
        };
        (ms * 1e6) as u64
    }
}

/// Lengths of a user's requests, tokens, whose upper end is `tokens`: the reference benchmark draws
/// them from a quarter of it to all of it.
pub(crate) fn quarter_to(tokens: u32) -> std::ops::RangeInclusive<u32> {
    (tokens / 4).max(1)..=tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_nonsense_is_named() {
        WorkloadConfig::default().validate().unwrap();
        type Breaking = fn(&mut WorkloadConfig);
        let broken: [(&str, Breaking); 7] = [
            ("prefix_probability", |c| c.prefix_probability = f64::NAN),
            ("context_tokens", |c| c.personas[0].context_tokens = [0, 5]),
            ("think_time_s", |c| c.personas[1].think_time_s = [2.0, 1.0]),
            ("personas", |c| c.personas.clear()),
            ("num_users", |c| c.num_users = 0),
            ("tensor_parallel", |c| c.tensor_parallel = 0),
            ("chunk_tokens", |c| c.chunk_tokens = 0),
        ];
        for (name, breaking) in broken {
            let mut config = WorkloadConfig::default();
            breaking(&mut config);
            assert!(config.validate().unwrap_err().to_string().contains(name), "{name}");
        }
    }
}
