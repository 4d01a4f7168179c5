//! Latencies of requests: a histogram for each kind, and a sample of the raw values.

use ringfall_core::metrics::Histogram;
use ringfall_workloads::contract::{Class, RequestEnd, RequestRecord};

use super::survival::Survival;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Raw values kept at most, each kind: the length that readers of the arrays may count on.
pub const SAMPLES_MAX: usize = 100_000;

/// Seed of the sampling: fixed, so that it can't be one more thing that differs between runs.
const SAMPLING_SEED: u64 = 0x5eed_0f5a_3b1e_5eed;

/// The parts of one request's time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSample {
    /// Intended arrival to end.
    pub end_to_end_ns: u64,
    /// Time the request spent on storage I/O.
    pub storage_io_ns: u64,
    /// Waiting for generated tokens.
    pub generation_ns: u64,
    /// Prefix, history, RAG and prefill.
    pub prefill_ns: u64,
    /// Decode reads and re-writes; 0 when it had none.
    pub decode_ns: u64,
}

/// The finished requests of a shard's window, or of several.
#[derive(Clone, Debug, Default)]
pub struct RequestStats {
    /// Requests that finished without a failed step, by class in the order of `Class::ALL`:
    /// intended arrival to end.
    pub end_to_end: [Histogram; 3],
    /// Time that each of these requests spent on storage I/O, ns.
    pub storage_io: Histogram,
    /// Time that each waited for room in tiers that were full, ns.
    pub room: Histogram,
    /// Time that each waited for permits to allocate, ns.
    pub permit: Histogram,
    /// Time in which each that found something of what was there before it (prompt, earlier turns,
    /// chunks, blocks) read that, ns.
    pub load: Histogram,
    /// Time that each waited for generated tokens, ns.
    pub generation: Histogram,
    /// Time that each spent computing again what it did not find, ns.
    pub recompute: Histogram,
    /// Time of the prefill phase of each that had one, ns.
    pub prefill: Histogram,
    /// Time of the decode phase of each that had one, ns.
    pub decode: Histogram,
    /// From intended arrival to the start of serving.
    pub queued: Histogram,
    /// Requests that had arrived and not ended when the window closed, by class: their age then.
    pub unfinished: [Histogram; 3],
    /// Number of tokens generated for requests that finished in the window.
    pub generated_tokens: u64,
    /// Number of tokens of context of requests that finished in the window.
    pub context_tokens: u64,
    /// Requests with a step whose I/O failed: kept out of everything above.
    pub failed: u64,
    /// Requests whose entry was larger than the whole last tier: kept out of everything above.
    pub refused: u64,
    sampling: Sampling,
}

/// A uniform sample of the requests of a shard, or of several.
#[derive(Clone, Debug)]
struct Sampling {
    kept: Vec<RequestSample>,
    seen: u64,
    rng: Xoshiro256PlusPlus,
}

impl Default for Sampling {
    fn default() -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(SAMPLING_SEED);
        Sampling { kept: Vec::new(), seen: 0, rng }
    }
}

impl Sampling {
    /// Vitter's algorithm R: each of the values seen is kept with the same probability.
    fn record(&mut self, sample: RequestSample) {
        self.seen += 1;
        if self.kept.len() < SAMPLES_MAX {
            self.kept.push(sample);
            return;
        }
        let at = self.rng.random_range(0..self.seen);
        if let Some(slot) = usize::try_from(at).ok().and_then(|at| self.kept.get_mut(at)) {
            *slot = sample;
        }
    }

    /// Each place of the merged sample goes to one side with the probability of drawing a value of
    /// that side, without replacement, from all that both have seen.
    fn merge(&mut self, other: &Sampling) {
        if self.kept.len() + other.kept.len() <= SAMPLES_MAX {
            self.kept.extend_from_slice(&other.kept);
            self.seen += other.seen;
            return;
        }
        let (mut left, mut right) = (std::mem::take(&mut self.kept), other.kept.clone());
        let (mut left_seen, mut right_seen) = (self.seen, other.seen);
        while self.kept.len() < SAMPLES_MAX && left_seen + right_seen > 0 {
            let from_left = self.rng.random_range(0..left_seen + right_seen) < left_seen;
            let (side, seen) =
                if from_left { (&mut left, &mut left_seen) } else { (&mut right, &mut right_seen) };
            *seen -= 1;
            if !side.is_empty() {
                let at = self.rng.random_range(0..side.len());
                self.kept.push(side.swap_remove(at));
            }
        }
        self.seen += other.seen;
    }
}

impl RequestStats {
    /// Counts a finished request.
    pub fn record(&mut self, record: &RequestRecord) {
        match record.end {
            RequestEnd::Served => {}
            RequestEnd::Dropped => return,
            RequestEnd::Failed => {
                self.failed += 1;
                return;
            }
            RequestEnd::Refused => {
                self.refused += 1;
                return;
            }
        }
        let sample = RequestSample {
            end_to_end_ns: record.finished.saturating_sub(record.arrived).as_ns(),
            storage_io_ns: record.storage_io_ns,
            generation_ns: record.generation_ns,
            prefill_ns: record.prefill_ns,
            decode_ns: record.decode_ns,
        };
        self.end_to_end[class_index(record.class)].record(sample.end_to_end_ns);
        self.storage_io.record(sample.storage_io_ns);
        self.room.record(record.room_ns);
        self.permit.record(record.permit_ns);
        if let Some(load_ns) = record.load_ns {
            self.load.record(load_ns);
        }
        self.generation.record(sample.generation_ns);
        self.recompute.record(record.recompute_ns);
        if sample.prefill_ns > 0 {
            self.prefill.record(sample.prefill_ns);
        }
        if sample.decode_ns > 0 {
            self.decode.record(sample.decode_ns);
        }
        self.queued.record(record.started.saturating_sub(record.arrived).as_ns());
        self.generated_tokens += u64::from(record.generated_tokens);
        self.context_tokens += u64::from(record.context_tokens);
        self.sampling.record(sample);
    }

    /// Counts a request that had not ended when the window closed, `age_ns` after its intended
    /// arrival.
    pub fn record_unfinished(&mut self, class: Class, age_ns: u64) {
        self.unfinished[class_index(class)].record(age_ns);
    }

    /// Latencies of a class with its unfinished requests taken into account.
    pub fn latency_of_all(&self, class: Class) -> Survival {
        let class = class_index(class);
        Survival::of(&self.end_to_end[class], &self.unfinished[class])
    }

    /// Adds another shard's requests. The sample stays uniform over both.
    pub fn merge(&mut self, other: &RequestStats) {
        for (mine, theirs) in self.end_to_end.iter_mut().zip(&other.end_to_end) {
            mine.merge(theirs);
        }
        self.storage_io.merge(&other.storage_io);
        self.room.merge(&other.room);
        self.permit.merge(&other.permit);
        self.load.merge(&other.load);
        self.generation.merge(&other.generation);
        self.recompute.merge(&other.recompute);
        self.prefill.merge(&other.prefill);
        self.decode.merge(&other.decode);
        self.queued.merge(&other.queued);
        for (mine, theirs) in self.unfinished.iter_mut().zip(&other.unfinished) {
            mine.merge(theirs);
        }
        self.generated_tokens += other.generated_tokens;
        self.context_tokens += other.context_tokens;
        self.failed += other.failed;
        self.refused += other.refused;
        self.sampling.merge(&other.sampling);
    }

    /// Requests that finished without a failed step.
    pub fn completed(&self) -> u64 {
        self.end_to_end.iter().map(Histogram::count).sum()
    }

    /// Mean time from intended arrival to end, ns, by Little's law (the time that all requests
    /// together were there, unfinished ones too, for each that finished); none where none did.
    pub fn mean_time_ns(&self) -> Option<f64> {
        let spent = self.end_to_end.iter().chain(&self.unfinished).map(Histogram::sum_ns);
        let completed = self.completed();
        (completed > 0).then(|| spent.sum::<u128>() as f64 / completed as f64)
    }

    /// Share of the requests that ended whose entry no tier could hold, 0 to 1; 0 when none ended.
    pub fn refused_share(&self) -> f64 {
        let ended = self.completed() + self.failed + self.refused;
        super::quotient(self.refused, ended).unwrap_or(0.0)
    }

    /// All classes' end-to-end latencies.
    pub fn end_to_end_all(&self) -> Histogram {
        let mut all = Histogram::new();
        for class in &self.end_to_end {
            all.merge(class);
        }
        all
    }

    /// The raw values: all of them up to [`SAMPLES_MAX`], a uniform sample beyond.
    pub fn samples(&self) -> &[RequestSample] {
        &self.sampling.kept
    }
}

/// A class's place in per-class arrays.
pub const fn class_index(class: Class) -> usize {
    match class {
        Class::Interactive => 0,
        Class::Responsive => 1,
        Class::Batch => 2,
    }
}
