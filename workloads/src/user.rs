//! One user: who it is, when it asks next, and what.

use rand::RngExt;

use crate::config::{Arrival, PhaseMode, WorkloadConfig};
use crate::contract::{Class, Nanos};
use crate::rng::{Stream, StreamPurpose, stream};

/// A user's fixed traits, drawn once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Profile {
    /// Index of the persona.
    pub persona: u8,
    /// Urgency of all its requests.
    pub class: Class,
    /// Upper end of its contexts, tokens.
    pub context_tokens: u32,
    /// Upper end of its answers, tokens.
    pub generation_tokens: u32,
    /// Think time, ns.
    pub think_ns: Nanos,
}

impl Profile {
    /// Draws user `user`'s traits.
    #[must_use]
    pub fn draw(config: &WorkloadConfig, seed: u64, user: u32) -> Profile {
        let mut rng = stream(seed, StreamPurpose::Profile, u64::from(user));
        let persona = rng.random_range(0..config.personas.len());
        let ranges = &config.personas[persona];
        let range = |rng: &mut Stream, [low, high]: [u32; 2]| rng.random_range(low..=high);
        let context_tokens = range(&mut rng, ranges.context_tokens);
        let generation_tokens = range(&mut rng, ranges.generation_tokens);
        let [low, high] = ranges.think_time_s;
        let think_ns = (rng.random_range(low..=high) * 1e9) as Nanos;
        let u: f64 = rng.random();
        let class = if u < config.interactive_share {
            Class::Interactive
        } else if u < config.interactive_share + config.responsive_share {
            Class::Responsive
        } else {
            Class::Batch
        };
        Profile { persona: persona as u8, class, context_tokens, generation_tokens, think_ns }
    }
}

/// What a user asks for, all of it drawn when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Number of the request among this user's, from 0.
    pub number: u64,
    /// Turn of its conversation, from 0.
    pub turn: u32,
    /// Context, tokens.
    pub context_tokens: u32,
    /// Answer, tokens.
    pub generate_tokens: u32,
    /// The system prompt it begins with.
    pub prompt: Option<u32>,
    /// Decode-only: which entry of the population.
    pub entry: u32,
}

/// A user's changing state. 100,000 of these must fit in little memory.
#[derive(Clone, Debug)]
pub struct User {
    rng: Stream,
    /// Intended time of the next request.
    next: Nanos,
    requests: u64,
    /// Requests it may still issue.
    left: u64,
    /// Turns the open conversation has had; 0: none is open.
    turns: u32,
    profile: Profile,
    /// Whether it takes part now (the autoscaler may have sent it home).
    pub(crate) active: bool,
}

const _: () = assert!(size_of::<User>() <= 112);

impl User {
    /// User `user` of a run that begins at `start`.
    #[must_use]
    pub fn new(config: &WorkloadConfig, seed: u64, user: u32, start: Nanos) -> User {
        let mut fresh = User {
            rng: stream(seed, StreamPurpose::Requests, u64::from(user)),
            next: start,
            requests: 0,
            left: allowance(config, user),
            turns: 0,
            profile: Profile::draw(config, seed, user),
            active: true,
        };
        fresh.think(config, start);
        fresh
    }

    /// Its traits.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Intended time of its next request; none when it has no more.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Nanos> {
        (self.active && self.left > 0).then_some(self.next)
    }

    /// Draws the think time that begins at `from`.
    pub(crate) fn think(&mut self, config: &WorkloadConfig, from: Nanos) {
        let [low, high] = config.think_jitter;
        let factor = self.rng.random_range(low..=high);
        self.next = from.saturating_add((self.profile.think_ns as f64 * factor) as Nanos);
    }

    /// Draws the request that is due. An open user's next one is scheduled at once; a closed
    /// user's when it has its answer.
    pub(crate) fn ask(&mut self, config: &WorkloadConfig) -> Demand {
        let rng = &mut self.rng;
        let over = self.turns >= config.conversation_turns_max
            || (self.turns > 0 && rng.random_bool(config.conversation_end_probability));
        let turn = if over || !config.multi_turn { 0 } else { self.turns };
        self.turns = turn + 1;
        let upper = |tokens: u32| (tokens / 4).max(1)..=tokens;
        let context_tokens = rng.random_range(upper(self.profile.context_tokens));
        let generate_tokens = rng.random_range(upper(self.profile.generation_tokens));
        // Drawn whether used or not: a switch must not change the rest of the stream.
        let with_prompt = rng.random_bool(config.prefix_probability);
        let prompt = rng.random_range(0..config.system_prompts);
        let entry = rng.random_range(0..config.decode_only_entries_per_user);
        let prompt = (with_prompt && config.prefix_caching).then_some(prompt);
        let prompt = prompt.filter(|_| config.phases != PhaseMode::DecodeOnly);
        let number = self.requests;
        self.requests += 1;
        self.left -= 1;
        let arrived = self.next;
        if config.arrival == Arrival::Open {
            self.think(config, arrived);
        } else {
            self.next = Nanos::MAX;
        }
        Demand { number, turn, context_tokens, generate_tokens, prompt, entry }
    }
}

/// How many requests user `user` may issue: an equal share of `max_requests`, the first users one
/// more, so that which requests run does not depend on timing or shards.
fn allowance(config: &WorkloadConfig, user: u32) -> u64 {
    match config.max_requests {
        0 => u64::MAX,
        all => {
            let users = u64::from(config.num_users);
            all / users + u64::from(u64::from(user) < all % users)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personas_ranges_and_classes_follow_the_specification() {
        let config = WorkloadConfig::default();
        let profiles: Vec<Profile> =
            (0..30_000).map(|user| Profile::draw(&config, 7, user)).collect();
        for persona in 0..3u8 {
            let of = profiles.iter().filter(|p| p.persona == persona).count();
            // Binomial(30000, 1/3): sigma = 81.6; five sigma.
            assert!(of.abs_diff(10_000) < 408, "persona {persona}: {of}");
        }
        for (class, share) in
            [(Class::Interactive, 0.15f64), (Class::Responsive, 0.35), (Class::Batch, 0.5)]
        {
            let of = profiles.iter().filter(|p| p.class == class).count() as f64;
            let sigma = (30_000.0 * share * (1.0 - share)).sqrt();
            assert!((of - 30_000.0 * share).abs() < 5.0 * sigma, "{class:?}: {of}");
        }
        for profile in &profiles {
            let ranges = &config.personas[usize::from(profile.persona)];
            let [low, high] = ranges.context_tokens;
            assert!((low..=high).contains(&profile.context_tokens));
            let [low, high] = ranges.generation_tokens;
            assert!((low..=high).contains(&profile.generation_tokens));
        }
        let lowest = profiles.iter().filter(|p| p.persona == 0).map(|p| p.generation_tokens).min();
        let highest = profiles.iter().filter(|p| p.persona == 0).map(|p| p.generation_tokens).max();
        assert_eq!((lowest, highest), (Some(50), Some(200)), "both ends are drawn");
    }

    #[test]
    fn conversations_end_with_the_configured_probability_and_at_the_turn_limit() {
        let config = WorkloadConfig { conversation_turns_max: 5, ..WorkloadConfig::default() };
        let (mut lengths, mut length) = (Vec::new(), 0u32);
        let mut user = User::new(&config, 3, 0, 0);
        for _ in 0..60_000 {
            let demand = user.ask(&config);
            if demand.turn == 0 && length > 0 {
                lengths.push(length);
                length = 0;
            }
            assert_eq!(demand.turn, length);
            length += 1;
        }
        assert_eq!(lengths.iter().max(), Some(&5));
        let count = lengths.len() as f64;
        for turns in 1..5i32 {
            let share = lengths.iter().filter(|&&l| l == turns as u32).count() as f64 / count;
            let expected = 0.8f64.powi(turns - 1) * 0.2;
            let sigma = (expected * (1.0 - expected) / count).sqrt();
            assert!((share - expected).abs() < 5.0 * sigma, "{turns}: {share} {expected}");
        }
    }

    #[test]
    fn a_switch_does_not_change_the_rest_of_the_stream() {
        let with = WorkloadConfig::default();
        let without = WorkloadConfig { prefix_caching: false, ..WorkloadConfig::default() };
        let (mut a, mut b) = (User::new(&with, 9, 4, 0), User::new(&without, 9, 4, 0));
        let mut prompts = 0;
        for _ in 0..5_000 {
            let (mut one, other) = (a.ask(&with), b.ask(&without));
            prompts += u32::from(one.prompt.take().is_some());
            assert_eq!(one, other);
        }
        // Binomial(5000, 0.2): sigma = 28.3; five sigma.
        assert!(prompts.abs_diff(1_000) < 142, "{prompts}");
    }

    #[test]
    fn the_allowance_adds_up() {
        let config =
            WorkloadConfig { num_users: 7, max_requests: 100, ..WorkloadConfig::default() };
        assert_eq!((0..7).map(|user| allowance(&config, user)).sum::<u64>(), 100);
    }
}
