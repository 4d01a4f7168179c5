//! Ranks of one launch that begin together: they meet in a directory that all of them see, and the
//! first tells the others when to begin, or to end.
//!
//! Each rank keeps a card in the directory and renews it as long as it lives. Rank 0 reads all
//! cards, the others read only its card and its two messages, so that the reads grow with the ranks
//! and not with their square. What a dead launch has left there is never taken for alive: a card
//! counts when it changes while somebody looks, and a message only for the ranks that it names.

mod card;
mod members;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfall_engine::clock::{Nanos, SECOND, monotonic_now};

use card::{Board, Card, Machine, Message, State};
use members::{Members, Sighting};

/// From the first rank's word to the begin: time for it to reach all others.
const LEAD: Nanos = 2 * SECOND;
/// How often a card is renewed until the begin, and then.
const PERIOD_WAITING: Duration = Duration::from_millis(250);
const PERIOD_RUNNING: Duration = Duration::from_secs(1);
/// Longest wait, once this rank is ready, for one of which nothing was ever seen.
const MISSING_MAX: Nanos = 600 * SECOND;

/// Who meets where.
#[derive(Clone, Debug)]
pub struct Party {
    /// The directory that all ranks see.
    pub directory: PathBuf,
    /// What tells this launch from others, if the launcher says it.
    pub launch: Option<String>,
    /// This process's number, from 0.
    pub rank: u32,
    /// How many there are; more than `rank`.
    pub size: u32,
    /// Name of this machine, for the others' messages.
    pub host: String,
}

/// This rank's part in the meeting. When it is dropped before [`Rendezvous::leave`], the others are
/// told that it failed.
#[derive(Debug)]
pub struct Rendezvous {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    view: Mutex<View>,
    changed: Condvar,
}

/// What this rank says, and what it has learnt.
#[derive(Debug)]
struct View {
    own: Own,
    /// When all begin, `CLOCK_MONOTONIC`.
    begins: Option<Nanos>,
    /// Why this run can't go on.
    failure: Option<String>,
    /// Whom the meeting waits for, in words.
    awaits: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Own {
    Preparing,
    Ready,
    Left,
    Failed(String),
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        // Nobody leaves it half changed.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, own: Own) {
        let mut view = self.view();
        if matches!(view.own, Own::Preparing | Own::Ready) {
            view.own = own;
            self.changed.notify_all();
        }
    }
}

impl Rendezvous {
    /// Joins the others, who see from now on that this rank lives.
    ///
    /// # Errors
    /// The directory can't be written, or no thread can be started.
    pub fn join(party: &Party) -> std::io::Result<Rendezvous> {
        let own = View { own: Own::Preparing, begins: None, failure: None, awaits: String::new() };
        let shared = Arc::new(Shared { view: Mutex::new(own), changed: Condvar::new() });
        let mut keeper = Keeper::new(party)?;
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ringfall-ranks".to_owned())
            .spawn(move || keeper.keep(&theirs))?;
        Ok(Rendezvous { shared, thread: Some(thread) })
    }

    /// Tells the others that this rank can begin.
    pub fn ready(&self) {
        let mut view = self.shared.view();
        if view.own == Own::Preparing {
            view.own = Own::Ready;
            self.shared.changed.notify_all();
        }
    }

    /// When all begin, `CLOCK_MONOTONIC`, once that is known.
    #[must_use]
    pub fn begins(&self) -> Option<Nanos> {
        self.shared.view().begins
    }

    /// Why this run can't go on: another rank has ended early, or never came.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.view().failure.clone()
    }

    /// Whom it waits for, in words; empty where nothing is known yet.
    #[must_use]
    pub fn awaits(&self) -> String {
        self.shared.view().awaits.clone()
    }

    /// This rank has measured all that it should.
    pub fn leave(&self) {
        self.shared.set(Own::Left);
    }

    /// This rank has ended early, and the others should too.
    pub fn fail(&self, why: &str) {
        self.shared.set(Own::Failed(why.to_owned()));
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        self.fail("it could not begin");
        if let Some(thread) = self.thread.take() {
            // A keeper that panicked has said so on standard error.
            let _ended = thread.join();
        }
    }
}

/// Keeps this rank's card, and looks at what the others have put there.
struct Keeper {
    board: Board,
    card: Card,
    members: Members,
    joined_unix_ns: u64,
    ready_at: Option<Nanos>,
    has_warned: bool,
}

fn unix_ns() -> u64 {
    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)
}

impl Keeper {
    fn new(party: &Party) -> std::io::Result<Keeper> {
        let board = Board::new(&party.directory, party.launch.as_deref(), party.size);
        let joined_unix_ns = unix_ns();
        let card = Card::new(party.rank, &party.host, joined_unix_ns);
        board.put_card(&card)?;
        let watched = if party.rank == 0 { 1..party.size } else { 0..1 };
        let members = Members::new(watched, card.rank, card.nonce);
        Ok(Keeper { board, card, members, joined_unix_ns, ready_at: None, has_warned: false })
    }

    /// Until this rank has left or failed.
    fn keep(&mut self, shared: &Shared) {
        loop {
            let own = shared.view().own.clone();
            match own {
                Own::Preparing => {}
                Own::Ready if self.card.state == State::Preparing => {
                    self.card.state = State::Ready;
                    self.ready_at = Some(monotonic_now());
                }
                Own::Ready => {}
                Own::Left => return self.take_away(),
                Own::Failed(why) => return self.tell_failure(&why),
            }
            let news = self.renew().and_then(|()| self.look_around());
            let mut view = shared.view();
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
            if view.begins.is_some() && self.card.state != State::Failed {
                self.card.state = State::Running;
            }
            let period = if view.begins.is_some() { PERIOD_RUNNING } else { PERIOD_WAITING };
            if view.own == Own::Preparing || view.own == Own::Ready {
                // Woken early it only looks once more.
                drop(shared.changed.wait_timeout(view, period));
            }
        }
    }

    /// Shows that this rank lives.
    fn renew(&mut self) -> Result<(), String> {
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
        self.card.beat += 1;
        self.card.written_unix_ns = unix_ns();
        match self.board.put_card(&self.card) {
            Err(error) if self.card.state != State::Running => {
                Err(format!("the ranks can't meet in {}: {error}", self.board.shown()))
            }
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                let directory = self.board.shown();
                tracing::warn!(directory, %error, "the other ranks can't see that this one lives");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn look_around(&mut self) -> Result<News, String> {
        let now = monotonic_now();
        // Before the first rank's card, which says only that it has ended too.
        if self.card.rank > 0
            && let Ok(Some(stop)) = self.board.stop()
            && stop.nonces.contains(&self.card.nonce)
        {
            return Err(stop.why);
        }
        let here = Machine::this();
        for rank in self.members.watched() {
            let card = self.board.card(rank).map_err(|error| {
                format!("the ranks can't meet in {}: {error}", self.board.shown())
            });
            // What can't be read now may be read later; the silence is bounded.
            let sighting = match card {
                Ok(card) => Sighting::of(card, &here, self.joined_unix_ns),
                Err(_) => Sighting::Unreadable,
            };
            self.members.see(rank, sighting, now)?;
        }
        if self.card.rank == 0 { self.lead(now) } else { self.follow(now) }
    }

    /// The first rank: has all begin when all are ready.
    fn lead(&mut self, now: Nanos) -> Result<News, String> {
        if self.members.has_begun() {
            return Ok(News::default());
        }
        let awaited = self.members.awaited();
        let Some(ready_at) = self.ready_at else { return Ok(News::default()) };
        if awaited.is_empty() {
            // One moment by both clocks.
            let (start_unix_ns, begins) = (unix_ns() + LEAD, Some(monotonic_now() + LEAD));
            let nonces = self.members.nonces();
            let message = Message { nonces, start_unix_ns, why: String::new() };
            self.board.put_start(&message).map_err(|error| {
                format!("the ranks can't meet in {}: {error}", self.board.shown())
            })?;
            self.members.begin();
            return Ok(News { begins, awaits: String::new() });
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
            let ahead = start.start_unix_ns.saturating_sub(unix_ns());
            let begins = Some(monotonic_now() + ahead);
            self.members.begin();
            return Ok(News { begins, awaits: String::new() });
        }
        let Some(ready_at) = self.ready_at else { return Ok(News::default()) };
        let missing = self.members.missing();
        if now.saturating_sub(ready_at) > MISSING_MAX && !missing.is_empty() {
            return Err(format!(
                "rank 0 did not come to {} within {} s: start all ranks with the same --output \
                 directory, which each of them must see, or give all of them --start-at",
                self.board.shown(),
                MISSING_MAX / SECOND
            ));
        }
        let awaits = match missing.is_empty() {
            true => "waiting for rank 0, which says when all begin".to_owned(),
            false => "waiting for rank 0, which is not there yet".to_owned(),
        };
        Ok(News { begins: None, awaits })
    }

    /// It has measured all: nothing of it stays.
    fn take_away(&self) {
        if let Err(error) = self.board.remove(self.card.rank) {
            let directory = self.board.shown();
            tracing::warn!(directory, %error, "what the ranks met by could not be deleted");
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
        self.card.state = State::Failed;
        self.card.why.clone_from(&why);
        self.card.beat += 1;
        self.card.written_unix_ns = unix_ns();
        let why = self.members.culprit().map_or(why, str::to_owned);
        let message = Message { nonces: self.members.nonces(), start_unix_ns: 0, why };
        let told = match self.card.rank {
            0 => self.board.put_stop(&message),
            _ => Ok(()),
        };
        if let Err(error) = told.and(self.board.put_card(&self.card)) {
            let directory = self.board.shown();
            tracing::warn!(directory, %error, "the other ranks can't be told that this one ended");
        }
    }
}

/// What a look around has come to.
#[derive(Default)]
struct News {
    begins: Option<Nanos>,
    awaits: String,
}

/// `rank 2`, or `ranks 2, 3 and 7 more`.
fn ranks(of: &[u32]) -> String {
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

fn told_awaited(awaited: &[u32], missing: &[u32]) -> String {
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

#[cfg(test)]
#[path = "rendezvous_test.rs"]
mod tests;
