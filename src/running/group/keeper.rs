//! The thread of a rank that keeps its card, shows its words, and looks at what the others show.

use std::collections::BTreeMap;

use ringfall_core::clock::{Nanos, SECOND, monotonic_now};

use super::board::{Board, BoardTiming};
use super::card::{Card, StartSignal, State};
use super::members::Members;
use super::{Moment, Party, Shared, Topic, Word};

/// Intervals at which a card is renewed: until the begin, and after it.
const BEAT_WAITING: Nanos = Nanos::from_ms(250);
const BEAT_RUNNING: Nanos = SECOND;
/// Silence after which a card that is there already is a leftover: more than two beats of a run.
const TAKEN_AFTER: Nanos = Nanos::from_ms(2_500);
/// Longest wait, once this rank is ready, for one of which nothing was ever seen.
const MISSING_MAX: Nanos = Nanos::from_secs(600);
/// Size of the header of each word: who said it, and which of its words it is.
const ENVELOPE_BYTES: usize = 16;

pub(super) struct Keeper {
    board: Box<dyn Board>,
    party: Party,
    card: Card,
    /// Those that this rank looks at: for rank 0 all others, for the others rank 0.
    members: Members,
    ready_at: Option<Nanos>,
    /// When all begin, once that is known.
    begins: Option<Nanos>,
    /// When the card was renewed last.
    renewed_at: Option<Nanos>,
    has_warned: bool,
    said: u64,
    /// The newest word heard, by topic and rank.
    heard: BTreeMap<(Topic, u32), u64>,
}

impl Keeper {
    pub(super) fn new(
        party: &Party,
        mut board: Box<dyn Board>,
        meeting: u32,
    ) -> std::io::Result<Keeper> {
        if is_taken(&mut *board, party.rank) {
            return Err(std::io::Error::other(told_taken(party.rank, &board.shown())));
        }
        let card = Card::new(&party.host, meeting);
        card.show(&mut *board)?;
        let others = if party.rank == 0 { 1..party.size } else { 0..1 };
        Ok(Keeper {
            board,
            party: party.clone(),
            card,
            members: Members::new(others, meeting),
            ready_at: None,
            begins: None,
            renewed_at: None,
            has_warned: false,
            said: 0,
            heard: BTreeMap::new(),
        })
    }

    /// Until this rank has left.
    pub(super) fn keep(&mut self, shared: &Shared) {
        loop {
            let (own, is_leaving, outbox) = {
                let mut view = shared.view();
                (view.own.clone(), view.is_leaving, std::mem::take(&mut view.outbox))
            };
            self.show(&own);
            for (topic, bytes) in outbox {
                self.tell(topic, &bytes);
            }
            let awaits = self.renew().and_then(|()| self.look_around());
            if let Err(failure) = &awaits {
                // The others need not wait until this run has ended.
                self.fail(failure);
            }
            self.listen(shared);
            let mut view = shared.view();
            view.present = self.members.present();
            view.left = self.members.left();
            view.looks += 1;
            view.begins = self.begins;
            match awaits {
                Ok(awaits) => view.awaits = awaits,
                Err(failure) => drop(view.failure.get_or_insert(failure)),
            }
            shared.changed.notify_all();
            if is_leaving && view.outbox.is_empty() {
                drop(view);
                return self.leave();
            }
            let is_measuring = view.begins.is_some() && view.inbox.is_empty();
            let BoardTiming { period, period_measuring, .. } = self.board.timing();
            if view.outbox.is_empty() && view.own == own && view.is_leaving == is_leaving {
                // Woken early it only looks once more.
                let period = if is_measuring { period_measuring } else { period };
                drop(shared.changed.wait_timeout(view, period));
            }
        }
    }

    /// Updates this rank's card to its state.
    fn show(&mut self, own: &State) {
        match own {
            State::Failed(why) => {
                let Party { rank, host, .. } = &self.party;
                self.fail(&format!("rank {rank} on {host} ended early: {why}"));
            }
            State::Ready => {
                self.ready_at.get_or_insert_with(monotonic_now);
                self.change_to(State::Ready);
            }
            own => self.change_to(own.clone()),
        }
    }

    /// A rank that has failed remains so: its first reason counts.
    fn change_to(&mut self, state: State) {
        if self.card.state != state && !matches!(self.card.state, State::Failed(_)) {
            self.card.state = state;
            self.renewed_at = None;
        }
    }

    /// The run can't go on: the card says why at once.
    fn fail(&mut self, why: &str) {
        self.change_to(State::Failed(why.to_owned()));
        if self.renewed_at.is_none()
            && let Err(error) = self.put_card()
        {
            self.warn("the other ranks can't be told that this one ended", &error);
        }
    }

    /// Shows that this rank lives.
    fn renew(&mut self) -> Result<(), String> {
        let now = monotonic_now();
        let beat = if self.begins.is_some() { BEAT_RUNNING } else { BEAT_WAITING };
        if self.renewed_at.is_some_and(|at| now < at + beat) {
            return Ok(());
        }
        if let Ok(Some(there)) = Card::read(&mut *self.board, self.party.rank)
            && there.nonce != self.card.nonce
        {
            return Err(told_taken(self.party.rank, &self.board.shown()));
        }
        match self.put_card() {
            Err(error) if self.begins.is_none() => Err(self.told_no_meeting(&error)),
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                self.warn("the other ranks can't be shown that this one is alive", &error);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn warn(&self, what: &str, error: &std::io::Error) {
        tracing::warn!(directory = self.board.shown(), %error, "{what}");
    }

    fn told_no_meeting(&self, error: &std::io::Error) -> String {
        format!("the ranks can't meet in {}: {error}", self.board.shown())
    }

    fn put_card(&mut self) -> std::io::Result<()> {
        self.renewed_at = Some(monotonic_now());
        self.card.beat += 1;
        self.card.show(&mut *self.board)
    }

    /// Looks at the cards of the others; the first that says so is why the run can't go on. Returns
    /// whom the meeting waits for, in words.
    fn look_around(&mut self) -> Result<String, String> {
        let now = monotonic_now();
        let mut failure = Ok(());
        for rank in self.members.watched() {
            // What can't be read now may be read later; the silence is bounded.
            let card = Card::read(&mut *self.board, rank).unwrap_or(None);
            failure = failure.and(self.members.see(rank, card, now));
        }
        for rank in self.members.lost() {
            self.board.forget(rank);
        }
        failure?;
        let Some(ready_at) = self.ready_at.filter(|_| self.begins.is_none()) else {
            return Ok(String::new());
        };
        if let Some(moment) = self.start()? {
            let ahead_ns = moment.left(&self.board.timing(), self.party.rank).as_nanos();
            let ahead = Nanos::from_ns(u64::try_from(ahead_ns).unwrap_or(u64::MAX));
            self.begins = Some(monotonic_now().saturating_add(ahead));
            return Ok(String::new());
        }
        let missing = self.members.missing();
        if now.saturating_sub(ready_at) > MISSING_MAX && !missing.is_empty() {
            return Err(format!(
                "{} did not come to {} within {} s: start all ranks with the same --output \
                 directory, which each of them must see, or give all of them --start-at",
                ranks(&missing),
                self.board.shown(),
                MISSING_MAX / SECOND
            ));
        }
        Ok(match self.party.rank > 0 && missing.is_empty() {
            true => "waiting for rank 0, which says when all begin".to_owned(),
            false => told_awaited(&self.members.awaited(), &missing),
        })
    }

    /// When all begin: rank 0 says so once all are ready.
    fn start(&mut self) -> Result<Option<Moment>, String> {
        if self.party.rank > 0 {
            return Ok(self.members.start_of(self.card.nonce).map(|start| start.moment));
        }
        if !self.members.awaited().is_empty() {
            return Ok(None);
        }
        let moment = Moment::after(self.board.timing().lead);
        let nonces = self.members.nonces().into_iter().map(|(_, nonce)| nonce).collect();
        self.card.start = Some(StartSignal { nonces, moment });
        self.put_card().map_err(|error| self.told_no_meeting(&error))?;
        Ok(Some(moment))
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
            for (rank, nonce) in self.members.nonces() {
                if let Some(word) = self.word(topic, rank, nonce) {
                    shared.view().inbox.entry(topic).or_default().insert(rank, word);
                }
            }
        }
    }

    /// The word of a rank, if it is new, and one of this run.
    fn word(&mut self, topic: Topic, rank: u32, nonce: u64) -> Option<Word> {
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

    /// Its card says so; the last one out takes everything away. A rank that is gone without a word
    /// has left as well.
    fn leave(&mut self) {
        self.card.has_left = true;
        let gone = self.put_card().and_then(|()| {
            let lost = self.members.lost();
            let mut has_left = |rank| {
                let card = Card::read(&mut *self.board, rank);
                lost.contains(&rank) || card.is_ok_and(|card| card.is_some_and(|one| one.has_left))
            };
            if (0..self.party.size).all(&mut has_left) { self.board.clear() } else { Ok(()) }
        });
        if let Err(error) = gone {
            let told = "the files by which the ranks found each other could not be deleted: delete \
                        them by hand";
            self.warn(told, &error);
        }
    }
}

/// Whether another run lives that is the same rank: its card changes. The newcomer is the one to
/// give way; where files are no way to meet, there are no cards of others.
fn is_taken(board: &mut dyn Board, rank: u32) -> bool {
    let look = |board: &mut dyn Board| {
        let card = Card::read(board, rank).ok().flatten();
        card.filter(|card| !card.has_left)
    };
    let Some(first) = look(board).filter(|_| board.word_bytes_max() == 0) else { return false };
    let until = monotonic_now() + TAKEN_AFTER;
    while monotonic_now() < until {
        std::thread::sleep(BEAT_WAITING.as_duration());
        match look(board) {
            Some(card) if card == first => {}
            now => return now.is_some(),
        }
    }
    false
}

fn told_taken(rank: u32, place: &str) -> String {
    format!(
        "another run is rank {rank} in {place} as well: give each launch a directory of its own \
         with --output"
    )
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
    let is_there = |rank: &&u32| !missing.contains(rank);
    let preparing: Vec<u32> = awaited.iter().filter(is_there).copied().collect();
    let of_some = [(missing, "not there yet"), (preparing.as_slice(), "still preparing")];
    let told = of_some.into_iter().filter(|(of, _)| !of.is_empty()).map(|(of, what)| {
        let verb = if of.len() == 1 { "is" } else { "are" };
        format!("{}, which {verb} {what}", ranks(of))
    });
    format!("waiting for {}", told.collect::<Vec<_>>().join("; and for "))
}
