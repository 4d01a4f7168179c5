//! Everything that crosses between this crate and the program that drives it.

pub use crate::time::Nanos;

/// Name of a cache entry, independent of shard count and of thread timing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key(pub u128);

/// Who may touch an entry, hence where it lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// One user's: kept on the user's shard.
    Own,
    /// Everybody's (system prompts, RAG chunks, trace blocks): kept on the shard its key names.
    Shared,
}

/// QoS class, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Priority 3.
    Interactive,
    /// Priority 2.
    Responsive,
    /// Priority 1.
    Batch,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 3] = [Class::Interactive, Class::Responsive, Class::Batch];
    /// Their names, in the same order.
    pub const NAMES: [&str; 3] = ["interactive", "responsive", "batch"];
}

/// Handle of a request in flight; reused after its `Done`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId(pub u32);

/// Purpose of a read or write: it decides which counters it lands in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// A shared system prompt.
    Prefix,
    /// An earlier turn of the conversation; written where it was missing, and its engine stores
    /// again what it computes again.
    History,
    /// The turn's own new entry.
    Prefill,
    /// A RAG chunk.
    Rag,
    /// A prefix block of a trace.
    Block,
    /// Reading the turn's entry while generating.
    Decode,
    /// Writing the turn's entry again after a decode miss.
    Rewrite,
    /// Filling the store before measuring.
    Populate,
}

/// Task for the driver.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Read the whole entry `times` times, one after the other; answer with one
    /// [`Event::StepDone`].
    Read {
        /// Whose step this is.
        request: RequestId,
        /// Key of the entry to read.
        key: Key,
        /// Where it lives.
        scope: Scope,
        /// Purpose of the read.
        purpose: Purpose,
        /// Consecutive reads, ≥ 1. A miss on any of them ends the step.
        times: u32,
    },
    /// Read the entries of a prefix that come before the first that is not there; answer with one
    /// [`Event::StepDone`].
    ReadPrefix {
        /// Whose step this is.
        request: RequestId,
        /// Keys of the entries, in the order of the prefix.
        keys: Box<[Key]>,
        /// Where they live.
        scope: Scope,
        /// Purpose of the read.
        purpose: Purpose,
        /// Whether they are read all at once; else one after the other.
        at_once: bool,
    },
    /// Write the whole entry; answer with one [`Event::StepDone`].
    Write {
        /// Whose step this is.
        request: RequestId,
        /// Key of the entry to write.
        key: Key,
        /// Where it lives.
        scope: Scope,
        /// Purpose of the write. `Prefix`, `History`, `Rag`, `Block` and `Populate` writes are
        /// skipped by the engine when the entry is there already (two requests may miss at once).
        purpose: Purpose,
        /// Size, > 0.
        bytes: u64,
    },
    /// Write whole entries, as by as many [`Action::Write`]; answer with one [`Event::StepDone`].
    WriteAll {
        /// Whose step this is.
        request: RequestId,
        /// Keys of the entries with their sizes, > 0.
        entries: Box<[(Key, u64)]>,
        /// Where they live.
        scope: Scope,
        /// Purpose of the writes.
        purpose: Purpose,
        /// Whether they are written all at once; else one after the other.
        at_once: bool,
    },
    /// Write a document's chunk, which belongs to no request and to no user; answer with
    /// [`Event::Ingested`].
    Ingest {
        /// Key of the entry to write.
        key: Key,
        /// Size, > 0.
        bytes: u64,
    },
    /// Let a shared entry go, if it is there; there is no answer.
    Forget {
        /// Which.
        key: Key,
    },
    /// Answer with [`Event::StepDone`] at this time; nothing is held meanwhile.
    Wait {
        /// Whose step this is.
        request: RequestId,
        /// When, since the run's start.
        until: Nanos,
    },
    /// The request is over; its id may be reused. The serving slot is free again.
    Done {
        /// Which.
        request: RequestId,
        /// Record of the request.
        record: RequestRecord,
    },
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All reads found the entry (from a tier the workload need not know).
    Hit,
    /// The entry was not there (`reads_done` reads had succeeded before).
    Miss {
        /// Successful reads of this step before the miss.
        reads_done: u32,
    },
    /// Written, or there already.
    Written,
    /// Not written: the store is full, and nothing leaves it.
    NotStored,
    /// Larger than the whole last tier.
    Refused,
    /// The wait is over.
    Waited,
    /// An I/O failed; the engine has counted it.
    Failed,
}

/// Parts of the time that a step took; what is left of it went to the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepTimes {
    /// Storage I/O (what `storage_io_latency` sums), ns.
    pub io_ns: u64,
    /// Waits for room in a tier that is full, ns.
    pub room_ns: u64,
    /// Wait for a permit to allocate, ns.
    pub permit_ns: u64,
}

/// Notification from the driver to the machine: time has passed, or a step has ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// Time has reached [`crate::contract::Nanos`] given by the machine's `next_wake`.
    Tick,
    /// A serving slot was granted: start the most urgent queued request.
    SlotGranted,
    /// An [`Action::Ingest`] ended.
    Ingested {
        /// Result of the write.
        outcome: Outcome,
    },
    /// A step ended.
    StepDone {
        /// Whose.
        request: RequestId,
        /// Result of the step.
        outcome: Outcome,
        /// Where its time went.
        times: StepTimes,
    },
}

/// One request that has ended, with where its time went.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RequestRecord {
    /// The user; of a trace, the session or the row.
    pub user: u64,
    /// Priority class under which it was served.
    pub class: Class,
    /// Intended arrival: latency counts from here.
    pub arrived: Nanos,
    /// When serving began: the end of its time in the queue.
    pub started: Nanos,
    /// When its last step ended.
    pub finished: Nanos,
    /// Sum of its steps' I/O times, ns.
    pub storage_io_ns: u64,
    /// Sum of its steps' waits for room in a tier, ns.
    pub room_ns: u64,
    /// Sum of its steps' waits for a permit to allocate, ns.
    pub permit_ns: u64,
    /// Time in reads of what was there before it (prompt, earlier turns, chunks, blocks) with their
    /// waits for room, ns; none where it found nothing of that.
    pub load_ns: Option<u64>,
    /// Time in prefix, history, RAG and prefill steps up to the end of the prefill write, ns.
    pub prefill_ns: u64,
    /// Time in decode reads and re-writes, ns.
    pub decode_ns: u64,
    /// Time until what was looked for and not found was computed again, which waits for that of
    /// others, ns; see [`crate::config::WorkloadConfig::prefill_tokens_per_s`].
    pub recompute_ns: u64,
    /// Time waited for generation, ns.
    pub generation_ns: u64,
    /// Number of tokens of the context it came with.
    pub context_tokens: u32,
    /// Number of tokens generated for it.
    pub generated_tokens: u32,
    /// Whether it succeeded, failed or was refused.
    pub end: RequestEnd,
}

/// Ending of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestEnd {
    /// Its user was sent home: it ended after the step that was under way, and counts nowhere.
    Dropped,
    /// All its steps succeeded; the only end that counts as throughput or latency.
    Served,
    /// An I/O of one of its steps failed.
    Failed,
    /// An entry that it had to write was larger than the whole last tier, so nothing could be
    /// stored of it.
    Refused,
}
