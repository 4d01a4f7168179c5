//! View that a rank has of those that it watches. Pure: it is given the cards seen, and the time.

use std::ops::Range;

use ringfall_core::clock::{Nanos, SECOND};

use super::card::{Card, StartSignal, State};

/// Longest time for which a card may stand still. The rank of one that changed before is lost then;
/// a failure that was found there is of this launch, as its rank would have come by now.
const SILENCE_MAX: Nanos = Nanos::from_secs(20);

#[derive(Clone, Debug)]
struct Member {
    rank: u32,
    /// Its card, and when that last changed.
    seen: Option<(Card, Nanos)>,
    /// It takes part: the card has changed while it was watched.
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
    /// Meeting of this rank: cards of an earlier one are none of it.
    meeting: u32,
}

impl Members {
    /// Watches those ranks in that meeting.
    pub fn new(watched: Range<u32>, meeting: u32) -> Members {
        let member =
            |rank| Member { rank, seen: None, is_alive: false, has_left: false, is_lost: false };
        Members { members: watched.map(member).collect(), meeting }
    }

    fn those(&self, are: impl Fn(&Member) -> bool) -> Vec<u32> {
        self.members.iter().filter(|one| are(one)).map(|one| one.rank).collect()
    }

    /// The ranks that are still to be looked at.
    pub fn watched(&self) -> Vec<u32> {
        self.those(|one| !one.has_left)
    }

    /// The ranks that are there and may still say something.
    pub fn present(&self) -> Vec<u32> {
        self.those(|one| one.is_alive && !one.has_left && !one.is_lost)
    }

    /// The ranks that have left.
    pub fn left(&self) -> Vec<u32> {
        self.those(|one| one.has_left)
    }

    /// The ranks that are gone without a word.
    pub fn lost(&self) -> Vec<u32> {
        self.those(|one| one.is_lost)
    }

    /// Ranks that are not ready.
    pub fn awaited(&self) -> Vec<u32> {
        self.those(|one| one.card().is_none_or(|card| card.state != State::Ready))
    }

    /// Ranks of which no sign of life was seen.
    pub fn missing(&self) -> Vec<u32> {
        self.those(|one| !one.is_alive)
    }

    /// Ranks that take part, each with the nonce that tells its words from those of an earlier run.
    pub fn nonces(&self) -> Vec<(u32, u64)> {
        self.members.iter().filter_map(|one| Some((one.rank, one.card()?.nonce))).collect()
    }

    /// Begin of the run with that nonce, if one of the ranks has said it.
    pub fn start_of(&self, nonce: u64) -> Option<&StartSignal> {
        let mut starts = self.members.iter().filter_map(|one| one.seen.as_ref()?.0.start.as_ref());
        starts.find(|start| start.nonces.contains(&nonce))
    }

    /// Takes in the card of a rank; none where it has none, or can't be read now.
    ///
    /// # Errors
    /// It has ended early: the sentence says how that is known.
    pub fn see(&mut self, rank: u32, card: Option<Card>, now: Nanos) -> Result<(), String> {
        let meeting = self.meeting;
        let member = self.members.iter_mut().find(|one| one.rank == rank);
        member.map_or(Ok(()), |member| member.see(card, now, meeting))
    }
}

impl Member {
    /// Its card, if it takes part.
    fn card(&self) -> Option<&Card> {
        self.seen.as_ref().filter(|_| self.is_alive).map(|(card, _)| card)
    }

    fn see(&mut self, card: Option<Card>, now: Nanos, meeting: u32) -> Result<(), String> {
        if self.is_alive && card.as_ref().is_some_and(|card| card.meeting > meeting) {
            // It has ended, and the next run of the same launch begins.
            self.has_left = true;
            return Ok(());
        }
        if let Some(card) = card.filter(|card| card.meeting == meeting) {
            let nonce = self.seen.as_ref().map(|(seen, _)| seen.nonce);
            let is_same = nonce == Some(card.nonce);
            if self.seen.as_ref().is_none_or(|(seen, _)| *seen != card) {
                self.is_alive = is_same;
                self.seen = Some((card, now));
            }
        }
        let Some((card, since)) = &self.seen else { return Ok(()) };
        let silence = now.saturating_sub(*since);
        let is_silent = silence > SILENCE_MAX;
        self.is_alive |= is_silent && matches!(card.state, State::Failed(_));
        if !self.is_alive {
            return Ok(());
        }
        self.has_left = card.has_left;
        self.is_lost = is_silent && !card.has_left;
        match &card.state {
            State::Failed(why) => Err(why.clone()),
            // The result of a rank that has ended is not lost with it.
            State::Preparing | State::Ready if self.is_lost => Err(format!(
                "rank {} on {} has shown no sign of life for {} s: it was killed, or its machine \
                 can't be reached",
                self.rank,
                card.host,
                silence / SECOND
            )),
            _ => Ok(()),
        }
    }
}
