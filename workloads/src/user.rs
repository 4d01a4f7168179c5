//! One user: who it is, when it asks next, and what.

use rand::RngExt;

use crate::config::{Arrival, WorkloadConfig, quarter_to};
use crate::contract::{Class, Nanos};
use crate::conversation::Turn;
use crate::dataset::Dataset;
use crate::habits::{Extras, Habits, random_within};
use crate::rng::{Stream, StreamPurpose, stream};
use crate::source::Operation;

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
    /// Pause before the user's next request, without its jitter.
    pub think: Nanos,
}

impl Profile {
    /// Draws traits by a name: a session's or a row's of a trace, or those of a user, whose class
    /// goes by its number instead.
    pub fn draw(config: &WorkloadConfig, seed: u64, user: u64) -> Profile {
        let mut rng = stream(seed, StreamPurpose::Profile, user);
        let persona = rng.random_range(0..config.personas.len());
        let ranges = &config.personas[persona];
        let range = |rng: &mut Stream, [low, high]: [u32; 2]| rng.random_range(low..=high);
        let context_tokens = range(&mut rng, ranges.context_tokens);
        let generation_tokens = range(&mut rng, ranges.generation_tokens);
        let [low, high] = ranges.think_time_s;
        let think = Nanos::from_ns_f64(rng.random_range(low..=high) * 1e9);
        let u: f64 = rng.random();
        let class = if u < config.interactive_share {
            Class::Interactive
        } else if u < config.interactive_share + config.responsive_share {
            Class::Responsive
        } else {
            Class::Batch
        };
        Profile { persona: persona as u8, class, context_tokens, generation_tokens, think }
    }
}

/// Class of user `user`, so that each class has its share among the first users of any number, and
/// at least one among the first three: what a run of few users measures must not hang on the seed.
/// The users' places follow the golden ratio, whose multiples divide the unit interval as evenly as
/// any (Knuth, The Art of Computer Programming, vol. 3, 6.4, Theorem S).
fn class_of(config: &WorkloadConfig, user: u32) -> Class {
    let shares = [config.interactive_share, config.responsive_share];
    let rest = 1.0 - shares[0] - shares[1];
    let order =
        [(rest, Class::Batch), (shares[1], Class::Responsive), (shares[0], Class::Interactive)];
    let first = order.iter().filter(|(share, _)| *share > 0.0).nth(user as usize);
    if let Some((_, class)) = first {
        return *class;
    }
    // 2^64 over the golden ratio.
    let place = u64::from(user).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let place = (place >> 11) as f64 / (1u64 << 53) as f64;
    match place {
        place if place < shares[0] => Class::Interactive,
        place if place < shares[0] + shares[1] => Class::Responsive,
        _ => Class::Batch,
    }
}

/// Demand of a user's request, all of it drawn when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Number of the request among this user's, from 0.
    pub number: u64,
    /// Its retrieval, if it has one.
    pub retrieval: Option<u64>,
    /// Turn of its conversation, from 0.
    pub turn: Turn,
    /// Number of tokens of the request's context.
    pub context_tokens: u32,
    /// Number of tokens of its answer.
    pub generate_tokens: u32,
    /// The system prompt it begins with.
    pub prompt: Option<u32>,
    /// Decode-only: which entry of the population. A trace of blocks: where its blocks are kept.
    pub entry: u32,
    /// It is no request, but this operation on an entry.
    pub operation: Option<Operation>,
}

/// A place in a user's stream of requests.
#[derive(Clone, Debug)]
struct Cursor {
    rng: Stream,
    /// Intended time of the next request.
    next: Nanos,
    requests: u64,
    /// Requests it may still issue.
    left: u64,
    /// Turns the open conversation has had; 0: none is open.
    turns: u32,
    /// Which conversation of the dataset is open.
    conversation: u32,
}

impl Cursor {
    /// Draws the think time that begins at `from`.
    #[inline(always)]
    fn think(&mut self, habits: &Habits, profile: &Profile, from: Nanos) {
        let gap_ns = match habits.arrival {
            // Each user's arrivals are a Poisson process, hence all users' together are one too
            // (superposition), and no draw depends on the shard count.
            Arrival::Poisson => -libm::log(1.0 - self.rng.random::<f64>()) * habits.mean_gap_ns,
            Arrival::Open | Arrival::Closed => {
                let [low, high] = habits.think_jitter;
                profile.think.as_ns_f64() * self.rng.random_range(low..=high)
            }
        };
        self.next = from.saturating_add(Nanos::from_ns_f64(gap_ns));
    }

    // Always inlined, with all that it draws: in a loop that only counts, nothing is left of it but
    // the steps of its stream.
    #[inline(always)]
    fn ask(&mut self, habits: &Habits, profile: &Profile) -> Demand {
        let (turn, context_tokens, generate_tokens) = match &habits.dataset {
            Some(dataset) => self.repeat(dataset),
            None => self.invent(habits, profile),
        };
        let turn = if habits.multi_turn { turn } else { 0 };
        let extras = Extras::draw(&mut self.rng, &habits.extras);
        let number = self.requests;
        self.requests += 1;
        self.left -= 1;
        let arrived = self.next;
        if habits.arrival == Arrival::Closed {
            self.next = Nanos::MAX;
        } else {
            self.think(habits, profile, arrived);
        }
        Demand {
            number,
            retrieval: extras.retrieval,
            turn: Turn::Number(turn),
            context_tokens,
            generate_tokens,
            prompt: extras.prompt,
            entry: extras.entry,
            operation: None,
        }
    }

    /// Goes on past the requests until `until`, `requests_max` of them at most; passes when they
    /// arrive to `each`, many at a time. Returns how many.
    fn pass(
        &mut self,
        habits: &Habits,
        profile: &Profile,
        (until, requests_max): (Nanos, u64),
        each: &mut dyn FnMut(&[Nanos]),
    ) -> u64 {
        // Alone in this loop, its state stays in registers.
        let mut cursor = self.clone();
        let (mut arrivals, mut passed) = ([Nanos::ZERO; 256], 0);
        loop {
            let left = cursor.left.min(requests_max - passed);
            let places = left.min(arrivals.len() as u64) as usize;
            let mut filled = 0;
            while filled < places && cursor.next <= until {
                arrivals[filled] = cursor.next;
                filled += 1;
                let _not_asked_for = cursor.ask(habits, profile);
            }
            if filled == 0 {
                break;
            }
            each(&arrivals[..filled]);
            passed += filled as u64;
        }
        *self = cursor;
        passed
    }

    /// The next turn of the dataset's conversation, or the first of another one.
    fn repeat(&mut self, dataset: &Dataset) -> (u32, u32, u32) {
        if self.turns == 0 || self.turns >= dataset.turns(self.conversation) {
            self.conversation = self.rng.random_range(0..dataset.len());
            self.turns = 0;
        }
        let turn = self.turns;
        self.turns += 1;
        let tokens = dataset.turn(self.conversation, turn);
        (turn, tokens.context_tokens, tokens.generate_tokens)
    }

    #[inline(always)]
    fn invent(&mut self, habits: &Habits, profile: &Profile) -> (u32, u32, u32) {
        let rng = &mut self.rng;
        let over = self.turns >= habits.conversation_turns_max
            || (self.turns > 0 && rng.sample(habits.conversation_ends));
        let turn = if over || !habits.multi_turn { 0 } else { self.turns };
        self.turns = turn + 1;
        let context_tokens = random_within(rng, quarter_to(profile.context_tokens));
        (turn, context_tokens, random_within(rng, quarter_to(profile.generation_tokens)))
    }
}

/// A user's changing state. 100,000 of these must fit in little memory.
#[derive(Clone, Debug)]
pub struct User {
    /// The next request to arrive.
    ahead: Cursor,
    /// The request after the one in the queue, when more have arrived than that one. A backlog is
    /// no list: its requests are drawn a second time, from the same stream, when their turn comes.
    /// So it costs the same memory however far a run falls behind.
    behind: Cursor,
    profile: Profile,
    /// Requests that have arrived and are not being served yet.
    pending: u64,
    /// Whether it takes part now (the autoscaler may have sent it home).
    pub(crate) active: bool,
}

const _: () = assert!(size_of::<User>() <= 200);

impl User {
    /// User `user` of a run that begins at `start`.
    pub(crate) fn new(
        config: &WorkloadConfig,
        habits: &Habits,
        seed: u64,
        user: u32,
        start: Nanos,
    ) -> User {
        let drawn = Profile::draw(config, seed, u64::from(user));
        let profile = Profile { class: class_of(config, user), ..drawn };
        let mut ahead = Cursor {
            rng: stream(seed, StreamPurpose::Requests, u64::from(user)),
            next: start,
            requests: 0,
            left: allowance(config, user),
            turns: 0,
            conversation: 0,
        };
        ahead.think(habits, &profile, start);
        User { behind: ahead.clone(), ahead, profile, pending: 0, active: true }
    }

    /// Traits of the user that were drawn once: class, lengths and think time.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Intended time of its next request; none when it has no more.
    pub fn next_arrival(&self) -> Option<Nanos> {
        (self.active && self.ahead.left > 0).then_some(self.ahead.next)
    }

    /// Thinks, from `from` on.
    pub(crate) fn think(&mut self, habits: &Habits, from: Nanos) {
        self.ahead.think(habits, &self.profile, from);
    }

    /// Its next request arrives. `Some`: it belongs in the queue; `None`: it waits behind another
    /// of this user that is there. An open user's next arrival is scheduled at once; a closed
    /// user's when it has its answer.
    pub(crate) fn arrive(&mut self, habits: &Habits) -> Option<Demand> {
        let demand = self.ahead.ask(habits, &self.profile);
        self.pending += 1;
        if self.pending > 1 {
            return None;
        }
        self.behind.clone_from(&self.ahead);
        Some(demand)
    }

    /// Its request in the queue is being served: the next one that has arrived, and when it did.
    pub(crate) fn served(&mut self, habits: &Habits) -> Option<(Nanos, Demand)> {
        self.pending -= 1;
        if self.pending == 0 {
            return None;
        }
        let arrived = self.behind.next;
        Some((arrived, self.behind.ask(habits, &self.profile)))
    }

    /// Counts those of its requests that have arrived by `until` and were not counted yet, behind
    /// the one in the queue; passes when they arrived to `each`, many at a time. Returns how many.
    pub(crate) fn catch_up(
        &mut self,
        habits: &Habits,
        until: Nanos,
        each: &mut dyn FnMut(&[Nanos]),
    ) -> u64 {
        let counted = self.ahead.pass(habits, &self.profile, (until, u64::MAX), each);
        self.pending += counted;
        counted
    }

    /// Number of requests to draw, about, to know all that have arrived by `now`: those behind the
    /// one in the queue, and those that were not counted yet.
    pub(crate) fn draws_expected(&self, habits: &Habits, now: Nanos) -> f64 {
        let gap_ns = match habits.arrival {
            Arrival::Poisson => habits.mean_gap_ns,
            Arrival::Open | Arrival::Closed => {
                let [low, high] = habits.think_jitter;
                self.profile.think.as_ns_f64() * f64::midpoint(low, high)
            }
        };
        let uncounted = now.saturating_sub(self.ahead.next).as_ns_f64() / gap_ns.max(1.0);
        self.pending.saturating_sub(1) as f64 + uncounted.min(self.ahead.left as f64)
    }

    /// Passes the intended arrivals of those of its requests that wait behind the one in the queue
    /// to `each`, many at a time.
    pub(crate) fn visit_behind(&self, habits: &Habits, each: &mut dyn FnMut(&[Nanos])) {
        let waiting = self.pending.saturating_sub(1);
        self.behind.clone().pass(habits, &self.profile, (Nanos::MAX, waiting), each);
    }

    /// Number of its queued requests that go on with the conversation of the one that was served
    /// before `next`: `next` and those behind it, up to the first turn of another conversation.
    /// O(turns of a conversation).
    pub(crate) fn turns_queued(&self, habits: &Habits, next: &Demand) -> u64 {
        let goes_on = |demand: &Demand| matches!(demand.turn, Turn::Number(1..));
        let mut behind = self.behind.clone();
        let later = (1..self.pending).map(|_| behind.ask(habits, &self.profile));
        let queued = std::iter::once(*next).chain(later).take_while(goes_on);
        queued.fold(0, |turns, _| turns + 1)
    }

    /// Whether one of its requests is in the queue.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending > 0
    }

    /// Forgets what has arrived and is not being served; how many that were.
    pub(crate) fn drop_pending(&mut self) -> u64 {
        std::mem::take(&mut self.pending)
    }
}

/// Number of requests that user `user` may issue: an equal share of `max_requests`, one more for
/// the first users, so that which requests run does not depend on timing or shards.
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
    use crate::source::Source;

    /// Settings, what follows from them, and user `user` of a run with that seed.
    fn user_of(config: &WorkloadConfig, seed: u64, user: u32) -> (Habits, User) {
        let habits = Habits::of(config, &Source::Synthetic, config.num_users);
        let user = User::new(config, &habits, seed, user, Nanos::ZERO);
        (habits, user)
    }

    /// The next request, served at once.
    fn ask(user: &mut User, habits: &Habits) -> Demand {
        let demand = user.arrive(habits).unwrap();
        assert!(user.served(habits).is_none());
        demand
    }

    #[test]
    fn a_backlog_gives_back_what_arrived_in_the_order_it_did() {
        for arrival in [Arrival::Open, Arrival::Poisson] {
            let config = WorkloadConfig {
                arrival,
                request_rate_per_s: 50.0,
                rag_documents: 3,
                ..WorkloadConfig::default()
            };
            let (habits, mut prompt) = user_of(&config, 1, 2);
            let mut late = prompt.clone();
            let mut expected = Vec::new();
            for _ in 0..50 {
                let arrived = prompt.next_arrival().unwrap();
                expected.push((arrived, ask(&mut prompt, &habits)));
            }
            let mut seen = Vec::new();
            // Served in bursts, far behind.
            for burst in [20, 1, 29] {
                let mut head = None;
                for _ in 0..burst {
                    let arrived = late.next_arrival().unwrap();
                    head = head.or(late.arrive(&habits).map(|demand| (arrived, demand)));
                }
                while let Some(served) = head {
                    seen.push(served);
                    head = late.served(&habits);
                }
            }
            assert_eq!(seen, expected, "{arrival:?}");
        }
    }

    #[test]
    fn requests_that_are_passed_arrive_when_they_would_if_they_were_asked() {
        let poisson = WorkloadConfig {
            arrival: Arrival::Poisson,
            request_rate_per_s: 50.0,
            ..WorkloadConfig::default()
        };
        let few = WorkloadConfig { max_requests: 40_000, ..WorkloadConfig::default() };
        for (config, many) in [(WorkloadConfig::default(), 1_000), (few, 400), (poisson, 1_000)] {
            let (habits, mut asked) = user_of(&config, 4, 2);
            let mut passed = asked.clone();
            passed.arrive(&habits);
            asked.arrive(&habits);
            asked.served(&habits);
            let mut expected = Vec::new();
            while let Some(at) = asked.next_arrival().filter(|_| expected.len() + 1 < many) {
                expected.push(at);
                ask(&mut asked, &habits);
            }
            let until = *expected.last().unwrap();
            let (mut arrivals, mut behind): (Vec<Nanos>, Vec<Nanos>) = Default::default();
            let counted = passed.catch_up(&habits, until, &mut |more| arrivals.extend(more));
            assert_eq!((counted as usize, &arrivals), (many - 1, &expected));
            assert_eq!(passed.next_arrival(), asked.next_arrival());
            passed.visit_behind(&habits, &mut |more| behind.extend(more));
            assert_eq!(behind, expected);
        }
    }

    #[test]
    fn poisson_arrivals_of_all_users_have_exponential_gaps() {
        let config = WorkloadConfig {
            arrival: Arrival::Poisson,
            num_users: 40,
            request_rate_per_s: 200.0,
            ..WorkloadConfig::default()
        };
        let horizon = Nanos::from_secs(200);
        let mut arrivals: Vec<(Nanos, u32)> = Vec::new();
        for number in 0..config.num_users {
            let (habits, mut user) = user_of(&config, 17, number);
            while let Some(at) = user.next_arrival().filter(|&at| at < horizon) {
                arrivals.push((at, number));
                ask(&mut user, &habits);
            }
        }
        arrivals.sort_unstable();
        // 40,000 expected, Poisson: sigma = 200; five sigma.
        assert!(arrivals.len().abs_diff(40_000) < 1_000, "{}", arrivals.len());
        let mut gaps: Vec<f64> =
            arrivals.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_ns_f64() / 1e9).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        // Kolmogorov-Smirnov against 1 - exp(-200 t); 1.95 / sqrt(n) is its 0.1 % bound.
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, gap)| ((i as f64 + 0.5) / n - (1.0 - (-200.0 * gap).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
        for number in 0..config.num_users {
            let of = arrivals.iter().filter(|&&(_, user)| user == number).count();
            // 1,000 a user, Poisson: sigma = 31.6; five sigma.
            assert!(of.abs_diff(1_000) < 158, "user {number}: {of}");
        }
    }

    #[test]
    fn think_times_stay_within_the_jitter_of_the_profile() {
        let config = WorkloadConfig::default();
        let (mut sum, n) = (0.0, 20_000);
        let (habits, mut user) = user_of(&config, 5, 1);
        let think = user.profile().think.as_ns_f64();
        let mut last = Nanos::ZERO;
        for _ in 0..n {
            let next = user.next_arrival().unwrap();
            let factor = (next - last).as_ns_f64() / think;
            assert!((0.799..=1.201).contains(&factor), "{factor}");
            sum += factor;
            last = next;
            ask(&mut user, &habits);
        }
        // U(0.8, 1.2): sigma = 0.4 / sqrt(12); five sigma of the mean.
        let bound = 5.0 * 0.4 / 12f64.sqrt() / f64::from(n).sqrt();
        assert!((sum / f64::from(n) - 1.0).abs() < bound);
    }

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
    fn every_class_has_its_share_of_the_first_users_of_any_number() {
        let config = WorkloadConfig::default();
        let mut counts = [0u32; 3];
        for users in 1..=2_000u32 {
            counts[class_of(&config, users - 1) as usize] += 1;
            if users >= 3 {
                assert!(counts.iter().all(|&count| count > 0), "{users}: {counts:?}");
            }
            for (count, share) in counts.into_iter().zip([0.15, 0.35, 0.5]) {
                let expected = f64::from(users) * share;
                assert!((f64::from(count) - expected).abs() < 3.0, "{users}: {counts:?}");
            }
        }
        let all = WorkloadConfig { interactive_share: 1.0, responsive_share: 0.0, ..config };
        assert!((0..50).all(|user| class_of(&all, user) == Class::Interactive));
    }

    #[test]
    fn conversations_end_with_the_configured_probability_and_at_the_turn_limit() {
        let config = WorkloadConfig { conversation_turns_max: 5, ..WorkloadConfig::default() };
        let (mut lengths, mut length) = (Vec::new(), 0u32);
        let (habits, mut user) = user_of(&config, 3, 0);
        for _ in 0..60_000 {
            let demand = ask(&mut user, &habits);
            if demand.turn == Turn::Number(0) && length > 0 {
                lengths.push(length);
                length = 0;
            }
            assert_eq!(demand.turn, Turn::Number(length));
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
        let ((with, mut a), (without, mut b)) = (user_of(&with, 9, 4), user_of(&without, 9, 4));
        let mut prompts = 0;
        for _ in 0..5_000 {
            let (mut one, other) = (ask(&mut a, &with), ask(&mut b, &without));
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
