//! The thread of a rank that keeps its card, shows its words, and looks at what the others show.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfall_engine::clock::{Nanos, SECOND, monotonic_now};

use super::card::{Card, Machine, Message, Posts as _, State};
use super::members::{Members, Sighting};
use super::{Board, BoardPace, Leaving, Own, Party, Shared, Topic, View, Word};

/// Intervals at which a card is renewed: until the begin, and after it.
const BEAT_WAITING: Nanos = Nanos::from_ms(250);
const BEAT_RUNNING: Nanos = SECOND;
/// Longest wait, once this rank is ready, for one of which nothing was ever seen.
const MISSING_MAX: Nanos = Nanos::from_secs(600);
/// Size of the header of each word: who said it, and which of its words it is.
const ENVELOPE_BYTES: usize = 16;

/// See the module.
pub(super) struct Keeper {
    board: Box<dyn Board>,
    card: Card,
    members: Members,
    size: u32,
    joined_unix_ns: u64,
    ready_at: Option<Nanos>,
    /// When the card was renewed last.
    renewed_at: Option<Nanos>,
    has_warned: bool,
    /// Words said so far.
    said: u64,
    /// The newest word heard, by topic and rank.
    heard: BTreeMap<(Topic, u32), u64>,
}

fn unix_ns() -> u64 {
    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)
}

impl Keeper {
    pub(super) fn new(party: &Party, board: Box<dyn Board>) -> std::io::Result<Keeper> {
        let joined_unix_ns = unix_ns();
        let card = Card::new(party.rank, &party.host, joined_unix_ns);
        let watched = if party.rank == 0 { 1..party.size } else { 0..1 };
        let members = Members::new(watched, card.rank, card.nonce);
        let mut keeper = Keeper {
            board,
            card,
            members,
            size: party.size,
            joined_unix_ns,
            ready_at: None,
            renewed_at: None,
            has_warned: false,
            said: 0,
            heard: BTreeMap::new(),
        };
        if party.rank == 0 {
            keeper.board.reclaim();
        }
        keeper.board.put_card(&keeper.card)?;
        Ok(keeper)
    }

    /// Until this rank has left.
    pub(super) fn keep(&mut self, shared: &Shared) {
        loop {
            let (own, leaving, outbox) = {
                let mut view = shared.view();
                (view.own.clone(), view.leaving, std::mem::take(&mut view.outbox))
            };
            self.show(&own);
            for (topic, bytes) in outbox {
                self.tell(topic, &bytes);
            }
            let news = self.renew().and_then(|()| self.look_around());
            self.listen(shared);
            let mut view = shared.view();
            view.present = self.members.present();
            view.left = self.members.left();
            view.looks += 1;
            match news {
                Ok(News { begins, awaits }) => {
                    view.begins = view.begins.or(begins);
                    view.awaits = awaits;
                }
                Err(failure) if view.failure.is_none() => {
                    view.failure = Some(failure.clone());
                    drop(view);
                    // The others need not wait until this run has ended.
                    self.tell_failure(&failure);
                    view = shared.view();
                }
                Err(_) => {}
            }
            if view.begins.is_some() && matches!(self.card.state, State::Preparing | State::Ready) {
                self.card.state = State::Running;
            }
            shared.changed.notify_all();
            if let Some(leaving) = leaving.filter(|_| view.outbox.is_empty()) {
                drop(view);
                return self.leave(leaving);
            }
            let period = self.board.period(pace(&view));
            if view.outbox.is_empty() && view.own == own && view.leaving == leaving {
                // Woken early it only looks once more.
                drop(shared.changed.wait_timeout(view, period));
            }
        }
    }

    /// Updates this rank's card to its state.
    fn show(&mut self, own: &Own) {
        let state = match own {
            Own::Preparing => return,
            Own::Ready if self.card.state == State::Preparing => {
                self.ready_at = Some(monotonic_now());
                State::Ready
            }
            Own::Ready => return,
            Own::Ended if self.card.state != State::Failed => State::Ended,
            Own::Failed(why) if self.card.state != State::Failed => {
                return self.tell_failure(why);
            }
            Own::Ended | Own::Failed(_) => return,
        };
        if self.card.state != state {
            self.card.state = state;
            self.renewed_at = None;
        }
    }

    /// Shows that this rank lives.
    fn renew(&mut self) -> Result<(), String> {
        let now = monotonic_now();
        let beat = if self.members.has_begun() { BEAT_RUNNING } else { BEAT_WAITING };
        if self.renewed_at.is_some_and(|at| now < at + beat) {
            return Ok(());
        }
        self.renewed_at = Some(now);
        if let Ok(Some(there)) = self.board.card(self.card.rank)
            && there.nonce != self.card.nonce
        {
            return Err(format!(
                "another run is rank {} in {} as well: give each launch a directory of its own \
                 with --output",
                self.card.rank,
                self.board.shown()
            ));
        }
        let has_begun = !matches!(self.card.state, State::Preparing | State::Ready);
        match self.put_card() {
            Err(error) if !has_begun => {
                Err(format!("the ranks can't meet in {}: {error}", self.board.shown()))
            }
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                let directory = self.board.shown();
                let told = "the other ranks can't be shown that this one is alive";
                tracing::warn!(directory, %error, "{told}");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn put_card(&mut self) -> std::io::Result<()> {
        self.card.beat += 1;
        self.card.written_unix_ns = unix_ns();
        self.board.put_card(&self.card)
    }

    fn look_around(&mut self) -> Result<News, String> {
        let now = monotonic_now();
        // Before the first rank's card, which says only that it has ended too.
        if self.card.rank > 0
            && let Ok(Some(stop)) = self.board.stop()
            && stop.nonces.contains(&self.card.nonce)
        {
            // Of the others only who is still there matters now.
            drop(self.watch(now));
            return Err(stop.why);
        }
        self.watch(now)?;
        if self.card.rank == 0 { self.lead(now) } else { self.follow(now) }
    }

    /// Looks at all cards; the first that says so is why the run can't go on.
    fn watch(&mut self, now: Nanos) -> Result<(), String> {
        let here = Machine::this();
        let mut failure = Ok(());
        for rank in self.members.watched() {
            // What can't be read now may be read later; the silence is bounded.
            let sighting = match self.board.card(rank) {
                Ok(card) => Sighting::of(card, &here, self.joined_unix_ns),
                Err(_) => Sighting::Unreadable,
            };
            failure = failure.and(self.members.see(rank, sighting, now));
        }
        for rank in self.members.lost() {
            self.board.forget(rank);
        }
        failure
    }

    /// The first rank: has all begin when all are ready.
    fn lead(&mut self, now: Nanos) -> Result<News, String> {
        if self.members.has_begun() {
            return Ok(News::default());
        }
        let awaited = self.members.awaited();
        let Some(ready_at) = self.ready_at else { return Ok(News::default()) };
        if awaited.is_empty() {
            let lead = self.board.lead();
            // One moment by both clocks.
            let start_in_ns = lead.as_ns();
            let start_unix_ns = unix_ns() + start_in_ns;
            let begins = Some(monotonic_now() + lead);
            let nonces = self.members.nonces();
            let why = String::new();
            let message = Message { nonces, start_unix_ns, start_in_ns, why };
            self.board.put_start(&message).map_err(|error| {
                format!("the ranks can't meet in {}: {error}", self.board.shown())
            })?;
            self.members.begin();
            return Ok(News { begins, awaits: String::new() });
        }
        let missing = self.members.missing();
        if now.saturating_sub(ready_at) > MISSING_MAX && !missing.is_empty() {
            return Err(self.told_missing(&ranks(&missing)));
        }
        Ok(News { begins: None, awaits: told_awaited(&awaited, &missing) })
    }

    /// The others: begin and end when the first says so.
    fn follow(&mut self, now: Nanos) -> Result<News, String> {
        if self.members.has_begun() {
            return Ok(News::default());
        }
        if let Ok(Some(start)) = self.board.start()
            && start.nonces.contains(&self.card.nonce)
        {
            // One clock for both is better than the moment at which a word is heard.
            let has_rank_0_s_clock = self.members.shares_a_clock(0, &Machine::this());
            let ahead_ns = match self.board.is_prompt() && !has_rank_0_s_clock {
                true => start.start_in_ns,
                false => start.start_unix_ns.saturating_sub(unix_ns()),
            };
            let begins = Some(monotonic_now().saturating_add(Nanos::from_ns(ahead_ns)));
            self.members.begin();
            return Ok(News { begins, awaits: String::new() });
        }
        let Some(ready_at) = self.ready_at else { return Ok(News::default()) };
        let missing = self.members.missing();
        if now.saturating_sub(ready_at) > MISSING_MAX && !missing.is_empty() {
            return Err(self.told_missing("rank 0"));
        }
        let awaits = match missing.is_empty() {
            true => "waiting for rank 0, which says when all begin".to_owned(),
            false => "waiting for rank 0, which is not there yet".to_owned(),
        };
        Ok(News { begins: None, awaits })
    }

    fn told_missing(&self, who: &str) -> String {
        format!(
            "{who} did not come to {} within {} s: start all ranks with the same --output \
             directory, which each of them must see, or give all of them --start-at",
            self.board.shown(),
            MISSING_MAX / SECOND
        )
    }

    /// Shows a word of this rank.
    fn tell(&mut self, topic: Topic, bytes: &[u8]) {
        self.said += 1;
        let mut word = Vec::with_capacity(ENVELOPE_BYTES + bytes.len());
        word.extend_from_slice(&self.card.nonce.to_le_bytes());
        word.extend_from_slice(&self.said.to_le_bytes());
        word.extend_from_slice(bytes);
        if let Err(error) = self.board.put(topic.0, &word) {
            let (directory, what) = (self.board.shown(), topic.0);
            tracing::warn!(directory, what, %error, "the other ranks can't be told");
        }
    }

    /// Takes in what was said of the topics that somebody listens for.
    fn listen(&mut self, shared: &Shared) {
        let topics: Vec<Topic> = shared.view().inbox.keys().copied().collect();
        for topic in topics {
            let from = if self.card.rank == 0 { 1..self.size } else { 0..1 };
            for rank in from {
                if let Some(word) = self.word(topic, rank) {
                    let mut view = shared.view();
                    let words = view.inbox.entry(topic).or_default();
                    words.retain(|older| older.rank != rank);
                    words.push(word);
                }
            }
        }
    }

    /// The word of a rank, if it is new, and one of this run.
    fn word(&mut self, topic: Topic, rank: u32) -> Option<Word> {
        let nonce = self.members.nonce_of(rank)?;
        let mut bytes = self.board.get(rank, topic.0).ok()??;
        let (said_by, rest) = bytes.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        let is_new = self.heard.get(&(topic, rank)).is_none_or(|&last| number > last);
        if u64::from_le_bytes(*said_by) != nonce || !is_new {
            return None;
        }
        self.heard.insert((topic, rank), number);
        Some(Word { rank, bytes: bytes.split_off(ENVELOPE_BYTES) })
    }

    /// Nothing of it stays, except where it has failed and the others may not know.
    fn leave(&mut self, leaving: Leaving) {
        let gone = match leaving {
            Leaving::Settled => self.board.clear(&self.members.lost()),
            Leaving::Unsettled if self.card.state == State::Ended => self.board.clear(&[]),
            Leaving::Unsettled => {
                self.card.has_left = true;
                // The last one out takes everything away: nobody is left who has to learn of it.
                self.put_card().and_then(|()| self.board.clear_up())
            }
        };
        if let Err(error) = gone {
            let directory = self.board.shown();
            let told = "the files by which the ranks found each other could not be deleted: delete \
                        them by hand";
            tracing::warn!(directory, %error, "{told}");
        }
    }

    /// It has ended early: its card says why, and the first rank has all others end.
    fn tell_failure(&mut self, why: &str) {
        // What another rank is the cause of says so already: whoever reads this card is to hear of
        // that one, not of this one too.
        let why = match why.starts_with("rank ") {
            true => why.to_owned(),
            false => format!("rank {} on {} ended early: {why}", self.card.rank, self.card.host),
        };
        if self.card.state != State::Ended {
            self.card.state = State::Failed;
            self.card.why.clone_from(&why);
        }
        let why = self.members.culprit().map_or(why, str::to_owned);
        let message =
            Message { nonces: self.members.nonces(), start_unix_ns: 0, start_in_ns: 0, why };
        let told = match self.card.rank {
            0 => self.board.put_stop(&message),
            _ => Ok(()),
        };
        if let Err(error) = told.and(self.put_card()) {
            let directory = self.board.shown();
            tracing::warn!(directory, %error, "the other ranks can't be told that this one ended");
        }
    }
}

/// Pace at which words must be heard.
fn pace(view: &View) -> BoardPace {
    match (view.inbox.is_empty(), view.begins) {
        (false, _) => BoardPace::Talking,
        (true, Some(_)) => BoardPace::Running,
        (true, None) => BoardPace::Waiting,
    }
}

/// Changes found by a look at the board.
#[derive(Default)]
struct News {
    begins: Option<Nanos>,
    awaits: String,
}

/// `rank 2`, or `ranks 2, 3 and 7 more`.
pub(super) fn ranks(of: &[u32]) -> String {
    const NAMED: usize = 8;
    let named: Vec<String> = of.iter().take(NAMED).map(u32::to_string).collect();
    match of.len() {
        1 => format!("rank {}", named[0]),
        count if count > NAMED => {
            format!("ranks {} and {} more", named.join(", "), count - NAMED)
        }
        _ => format!("ranks {}", named.join(", ")),
    }
}

pub(super) fn told_awaited(awaited: &[u32], missing: &[u32]) -> String {
    let preparing: Vec<u32> =
        awaited.iter().filter(|rank| !missing.contains(rank)).copied().collect();
    let mut parts = Vec::new();
    if !missing.is_empty() {
        let verb = if missing.len() == 1 { "is" } else { "are" };
        parts.push(format!("{}, which {verb} not there yet", ranks(missing)));
    }
    if !preparing.is_empty() {
        let verb = if preparing.len() == 1 { "is" } else { "are" };
        parts.push(format!("{}, which {verb} still preparing", ranks(&preparing)));
    }
    format!("waiting for {}", parts.join("; and for "))
}
