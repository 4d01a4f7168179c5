//! View that a rank has of those that it watches. Pure: it is given the cards seen, and the time.

use std::ops::Range;

use ringfall_engine::clock::{Nanos, SECOND};

use super::card::{Card, Machine, State};

/// Longest time without a sign of life: twenty renewals that did not come.
const SILENCE_MAX: Nanos = Nanos::from_secs(20);

/// The ranks of a launch begin within so long of each other: the card of one that failed at once
/// was written so long before another looks at it, at the most.
const START_SPREAD: Nanos = Nanos::from_secs(60);
/// Time that a rank has, in a launch that begins, to put its card in the place of one that failed
/// in the launch before.
const FAILURE_SETTLES: Nanos = Nanos::from_secs(5);

/// Result of a look at a rank's card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// There is none.
    Nothing,
    /// It can't be read now.
    Unreadable,
    /// There is one.
    Card {
        /// The card.
        card: Card,
        /// Its process is known to have ended.
        is_gone: bool,
        /// When it was written, seen from this launch.
        age: Age,
    },
}

impl Sighting {
    /// Classifies a card, seen by a rank of `here` that began then.
    pub fn of(card: Option<Card>, here: &Machine, joined_unix_ns: u64) -> Sighting {
        match card {
            None => Sighting::Nothing,
            Some(card) => Sighting::Card {
                is_gone: card.is_gone(here),
                age: Age::of(card.written_unix_ns, joined_unix_ns),
                card,
            },
        }
    }
}

/// When a card was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Since this rank joined: it is of this launch.
    New,
    /// Shortly before: it is of this launch, or of one that ended just before it.
    Recent,
    /// Long before this launch.
    Old,
}

impl Age {
    fn of(written_unix_ns: u64, joined_unix_ns: u64) -> Age {
        match joined_unix_ns.saturating_sub(written_unix_ns) {
            0 => Age::New,
            before if before <= START_SPREAD.as_ns() => Age::Recent,
            _ => Age::Old,
        }
    }
}

/// One of those that are watched.
#[derive(Clone, Debug)]
struct Member {
    rank: u32,
    /// Its card, and when that last changed.
    seen: Option<(Card, Nanos)>,
    /// The card has changed while it was watched.
    is_alive: bool,
    /// It took part, and has left.
    has_left: bool,
    /// It took part, and is gone without a word.
    is_lost: bool,
}

/// Those that are watched.
#[derive(Clone, Debug)]
pub struct Members {
    members: Vec<Member>,
    own: (u32, u64),
    has_begun: bool,
    /// Who has everybody end, and why.
    culprit: Option<String>,
}

impl Members {
    /// Watches those ranks; `own_rank` has the nonce `own_nonce`.
    pub fn new(watched: Range<u32>, own_rank: u32, own_nonce: u64) -> Members {
        let member =
            |rank| Member { rank, seen: None, is_alive: false, has_left: false, is_lost: false };
        Members {
            members: watched.map(member).collect(),
            own: (own_rank, own_nonce),
            has_begun: false,
            culprit: None,
        }
    }

    /// The ranks that are still to be looked at.
    pub fn watched(&self) -> Vec<u32> {
        self.members.iter().filter(|one| !one.has_left).map(|one| one.rank).collect()
    }

    /// The ranks that are there and may still say something.
    pub fn present(&self) -> Vec<u32> {
        let is_present = |one: &&Member| one.is_alive && !one.has_left && !one.is_lost;
        self.members.iter().filter(is_present).map(|one| one.rank).collect()
    }

    /// The ranks that have left.
    pub fn left(&self) -> Vec<u32> {
        self.members.iter().filter(|one| one.has_left).map(|one| one.rank).collect()
    }

    /// The ranks that are gone without a word.
    pub fn lost(&self) -> Vec<u32> {
        self.members.iter().filter(|one| one.is_lost).map(|one| one.rank).collect()
    }

    /// Nonce that tells the words of a rank that takes part from those of an earlier run; none
    /// where it does not take part.
    pub fn nonce_of(&self, rank: u32) -> Option<u64> {
        let member = self.members.iter().find(|one| one.rank == rank && one.is_alive)?;
        member.seen.as_ref().map(|(card, _)| card.nonce)
    }

    /// Whether a rank that is watched goes by the same clock as a process of `here`.
    pub fn shares_a_clock(&self, rank: u32, here: &Machine) -> bool {
        let member = self.members.iter().find(|one| one.rank == rank);
        let card = member.and_then(|one| one.seen.as_ref());
        card.is_some_and(|(card, _)| card.machine.shares_a_clock(here))
    }

    /// Whether all know when to begin.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// All know when to begin.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Ranks that are not ready.
    pub fn awaited(&self) -> Vec<u32> {
        let is_ready = |one: &Member| {
            let state = one.seen.as_ref().map(|(card, _)| card.state);
            one.is_alive && matches!(state, Some(State::Ready | State::Running))
        };
        self.members.iter().filter(|one| !is_ready(one)).map(|one| one.rank).collect()
    }

    /// Ranks of which no sign of life was seen.
    pub fn missing(&self) -> Vec<u32> {
        self.members.iter().filter(|one| !one.is_alive).map(|one| one.rank).collect()
    }

    /// Nonces of all that live and of this rank itself.
    pub fn nonces(&self) -> Vec<u64> {
        let theirs = self.members.iter().filter(|one| one.is_alive);
        let theirs = theirs.filter_map(|one| one.seen.as_ref().map(|(card, _)| card.nonce));
        theirs.chain([self.own.1]).collect()
    }

    /// The rank that has everybody end, and why.
    pub fn culprit(&self) -> Option<&str> {
        self.culprit.as_deref()
    }

    /// Takes in what was seen of a rank.
    ///
    /// # Errors
    /// It has ended early: the sentence says how that is known.
    pub fn see(&mut self, rank: u32, sighting: Sighting, now: Nanos) -> Result<(), String> {
        let has_begun = self.has_begun;
        let Some(member) = self.members.iter_mut().find(|one| one.rank == rank) else {
            return Ok(());
        };
        let told = member.see(sighting, now, has_begun);
        if let Err(sentence) = &told {
            self.culprit.get_or_insert_with(|| sentence.clone());
        }
        told
    }
}

impl Member {
    fn see(&mut self, sighting: Sighting, now: Nanos, has_begun: bool) -> Result<(), String> {
        let (card, is_gone, age) = match sighting {
            Sighting::Unreadable => return self.listen(now, false),
            Sighting::Nothing if self.is_alive && has_begun => {
                self.has_left = true;
                return Ok(());
            }
            Sighting::Nothing => {
                (self.seen, self.is_alive) = (None, false);
                return Ok(());
            }
            Sighting::Card { card, is_gone, age } => (card, is_gone, age),
        };
        match &self.seen {
            Some((seen, _)) if seen.nonce != card.nonce && self.is_alive && has_begun => {
                // It has ended, and the next run of the same launch begins.
                self.has_left = true;
                return Ok(());
            }
            Some((seen, since)) if seen.nonce == card.nonce && seen.beat == card.beat => {
                // Of the launch before, its successor would have replaced it by now.
                let has_settled = now.saturating_sub(*since) >= FAILURE_SETTLES;
                self.is_alive |= card.state == State::Failed && age == Age::Recent && has_settled;
            }
            Some((seen, _)) => {
                self.is_alive = seen.nonce == card.nonce;
                self.seen = Some((card, now));
            }
            None => {
                // One that fails at once renews its card no more.
                self.is_alive = card.state == State::Failed && age == Age::New;
                self.seen = Some((card, now));
            }
        }
        self.listen(now, is_gone)
    }

    /// Whether what lives has fallen silent. What one that has ended measured is not lost with it.
    fn listen(&mut self, now: Nanos, is_gone: bool) -> Result<(), String> {
        let Some((card, since)) = self.seen.as_ref().filter(|_| self.is_alive) else {
            return Ok(());
        };
        let silence = now.saturating_sub(*since);
        let is_silent = silence > SILENCE_MAX;
        let who = format!("rank {} on {}", self.rank, card.host);
        self.has_left |= card.has_left;
        self.is_lost = !self.has_left && (is_gone || is_silent);
        match card.state {
            State::Failed => Err(card.why.clone()),
            State::Ended => Ok(()),
            _ if is_gone => Err(format!("{who} was killed: its process, {}, is gone", card.pid)),
            _ if is_silent => Err(format!(
                "{who} has shown no sign of life for {} s: it was killed, or its machine can't be \
                 reached",
                silence / SECOND
            )),
            _ => Ok(()),
        }
    }
}
