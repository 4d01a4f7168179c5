//! Rules that all users draw their requests by, in the form in which they are drawn by: a run may
//! draw a thousand million requests.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rand::RngExt;
use rand::distr::Bernoulli;
use rand::distr::uniform::{UniformInt, UniformSampler};

use crate::config::{Arrival, PhaseMode, WorkloadConfig};
use crate::dataset::Dataset;
use crate::rng::Stream;
use crate::source::Source;

/// Inputs that determine all users' requests, besides what each user is.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) arrival: Arrival,
    /// A think time is multiplied by a draw from this range.
    pub(crate) think_jitter: [f64; 2],
    /// Mean time between a user's requests when arrivals are random, ns.
    pub(crate) mean_gap_ns: f64,
    pub(crate) multi_turn: bool,
    /// Whether a conversation ends before a turn.
    pub(crate) conversation_ends: Bernoulli,
    pub(crate) conversation_turns_max: u32,
    /// Conversations to repeat, instead of drawn ones.
    pub(crate) dataset: Option<Arc<Dataset>>,
    pub(crate) extras: ExtraHabits,
}

impl Habits {
    /// The habits of so many users, of settings that were checked.
    pub(crate) fn of(config: &WorkloadConfig, source: &Source, users: u32) -> Habits {
        let rate_per_ns = config.request_rate_per_s / 1e9;
        Habits {
            arrival: config.arrival,
            think_jitter: config.think_jitter,
            mean_gap_ns: f64::from(users.max(1)) / rate_per_ns,
            multi_turn: config.multi_turn,
            conversation_ends: draw_of(config.conversation_end_probability),
            conversation_turns_max: config.conversation_turns_max,
            dataset: match source {
                Source::Dataset(dataset) => Some(Arc::clone(dataset)),
                Source::Synthetic | Source::Rows { .. } | Source::Operations(_) => None,
            },
            extras: ExtraHabits::of(config),
        }
    }
}

/// Rules that what a request has besides its lengths is drawn by.
#[derive(Clone, Debug)]
pub(crate) struct ExtraHabits {
    begins_with_prompt: Bernoulli,
    has_prompts: bool,
    system_prompts: u32,
    entries_per_user: u32,
    retrieves: Bernoulli,
    has_documents: bool,
}

impl ExtraHabits {
    fn of(config: &WorkloadConfig) -> ExtraHabits {
        ExtraHabits {
            begins_with_prompt: draw_of(config.prefix_probability),
            has_prompts: config.prefix_caching && config.phases != PhaseMode::DecodeOnly,
            system_prompts: config.system_prompts,
            entries_per_user: config.decode_only_entries_per_user,
            retrieves: draw_of(config.rag.probability),
            has_documents: config.rag_documents > 0,
        }
    }
}

fn draw_of(probability: f64) -> Bernoulli {
    Bernoulli::new(probability).expect("settings are checked before anything is drawn by them")
}

/// Draws of a request besides its lengths.
pub(crate) struct Extras {
    pub(crate) prompt: Option<u32>,
    pub(crate) retrieval: Option<u64>,
    pub(crate) entry: u32,
}

impl Extras {
    /// Everything is drawn, used or not: a switch must not change the rest of the stream.
    #[inline(always)]
    pub(crate) fn draw(rng: &mut Stream, habits: &ExtraHabits) -> Extras {
        let with_prompt = rng.sample(habits.begins_with_prompt);
        let prompt = random_within(rng, 0..=habits.system_prompts - 1);
        let entry = random_within(rng, 0..=habits.entries_per_user - 1);
        let retrieves = rng.sample(habits.retrieves);
        let retrieval: u64 = rng.random();
        Extras {
            prompt: (with_prompt && habits.has_prompts).then_some(prompt),
            retrieval: (retrieves && habits.has_documents).then_some(retrieval),
            entry,
        }
    }
}

/// A number of the range, as [`RngExt::random_range`] draws it, which is too long for the compiler
/// to make it a part of what draws a request: that took twice the time.
#[inline(always)]
pub(crate) fn random_within(rng: &mut Stream, range: RangeInclusive<u32>) -> u32 {
    let (low, high) = range.into_inner();
    UniformInt::<u32>::sample_single_inclusive(low, high, rng).expect("no checked range is empty")
}
