//! The group of ranks of one launch: they begin together, end together, and hand rank 0 what it
//! needs of them.
//!
//! Each rank shows a card that says whether it is ready, has ended or has failed, and renews it as
//! long as it lives. Rank 0 looks at all cards, the others only at rank 0's, so that the looks grow
//! with the ranks and not with their square. There is one rule of silence: a rank takes part once
//! its card has changed while somebody looked, and is lost when it stands still for 20 s.
//!
//! Messages travel over a [`Board`]: files in a directory that all ranks see, or MPI. One thread of
//! each rank keeps it; nobody else waits for a file system or a network.

mod board;
mod card;
mod directory;
mod keeper;
mod members;
#[cfg(feature = "mpi")]
mod mpi;
pub mod sent;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfall_core::clock::Nanos;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::warn;

pub use board::{Board, BoardTiming};
use card::State;
use keeper::Keeper;
pub use session::Session;

/// One rank's view of the launch: its own number, how many there are, and who they are.
#[derive(Clone, Debug)]
pub struct Party {
    /// This process's number, from 0.
    pub rank: u32,
    /// Number of ranks; more than `rank`.
    pub size: u32,
    /// Name of this machine, for the others' messages.
    pub host: String,
}

/// Subject of a word. In each topic a rank's newest word counts; older ones are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic(pub &'static str);

/// Message of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The rank that said it.
    pub rank: u32,
    /// Content, as the rank encoded it.
    pub bytes: Vec<u8>,
}

impl Word {
    fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.bytes)
            .map_err(|error| format!("the message of rank {} can't be read: {error}", self.rank))
    }
}

/// A moment at which all ranks do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Since 1970.
    unix: Duration,
    /// Since it was said.
    ahead: Duration,
}

impl Moment {
    fn after(ahead: Duration) -> Moment {
        Moment { unix: unix_now() + ahead, ahead }
    }

    /// Time until then, for a rank that has just heard of it: from now on where words are heard
    /// within moments, else by the clock. Rank 0 has said it, and always goes by the clock.
    fn left(&self, timing: &BoardTiming, rank: u32) -> Duration {
        match timing.is_prompt && rank > 0 {
            true => self.ahead,
            false => self.unix.saturating_sub(unix_now()),
        }
    }
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// This rank's part in the group. When it is dropped before it has ended, the others are told that
/// it failed.
#[derive(Debug)]
pub struct Group {
    party: Party,
    word_bytes_max: usize,
    timing: BoardTiming,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    view: Mutex<View>,
    changed: Condvar,
}

/// State of this rank, and its knowledge of the others.
#[derive(Debug, Default)]
struct View {
    own: State,
    is_leaving: bool,
    /// When all begin, `CLOCK_MONOTONIC`.
    begins: Option<Nanos>,
    /// Why this run can't go on.
    failure: Option<String>,
    /// Whom the meeting waits for, in words.
    awaits: String,
    /// Words still to be shown.
    outbox: BTreeMap<Topic, Vec<u8>>,
    /// Topics that are listened for, with the words heard and not yet taken, by rank.
    inbox: BTreeMap<Topic, BTreeMap<u32, Word>>,
    /// Ranks that are there and may still say something.
    present: Vec<u32>,
    /// Ranks that have left.
    left: Vec<u32>,
    looks: u64,
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        // Nobody leaves it half changed.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank that has ended or failed remains so.
    fn set(&self, own: State) {
        let mut view = self.view();
        if matches!(view.own, State::Preparing | State::Ready) {
            view.own = own;
            self.changed.notify_all();
        }
    }
}

impl Group {
    /// See [`Session::join`]. `meeting`: its number among those of the session, from 1.
    fn join(party: &Party, board: Box<dyn Board>, meeting: u32) -> std::io::Result<Group> {
        let shared = Arc::new(Shared { view: Mutex::default(), changed: Condvar::new() });
        let (timing, word_bytes_max) = (board.timing(), board.word_bytes_max());
        let mut keeper = Keeper::new(party, board, meeting)?;
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ringfall-ranks".to_owned())
            .spawn(move || keeper.keep(&theirs))?;
        let (party, thread) = (party.clone(), Mutex::new(Some(thread)));
        Ok(Group { party, word_bytes_max, timing, shared, thread })
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.party.rank
    }

    /// Number of ranks in the launch.
    pub fn size(&self) -> u32 {
        self.party.size
    }

    /// Largest word that the others can be told, bytes; 0 where all of them see the same files, and
    /// what is large need not be told.
    pub fn word_bytes_max(&self) -> usize {
        self.word_bytes_max
    }

    /// Name of this machine.
    pub fn host(&self) -> &str {
        &self.party.host
    }

    /// A moment that lies so far ahead that all who wait for a word can hear of it before.
    pub fn moment_ahead(&self) -> Moment {
        Moment::after(self.timing.word_lead)
    }

    /// Time until a moment of which this rank has just heard.
    pub fn until(&self, moment: &Moment) -> Duration {
        moment.left(&self.timing, self.rank())
    }

    /// Tells the others that this rank can begin.
    pub fn ready(&self) {
        self.shared.set(State::Ready);
    }

    /// When all begin, `CLOCK_MONOTONIC`, once that is known.
    pub fn begins(&self) -> Option<Nanos> {
        self.shared.view().begins
    }

    /// Why this run can't go on: another rank has ended early, or never came.
    pub fn failure(&self) -> Option<String> {
        self.shared.view().failure.clone()
    }

    /// Whom it waits for, in words; empty where nothing is known yet.
    pub fn awaits(&self) -> String {
        self.shared.view().awaits.clone()
    }

    /// This rank has measured all that it should.
    pub fn end(&self) {
        self.shared.set(State::Ended);
    }

    /// This rank has ended early, and the others should too.
    pub fn fail(&self, why: &str) {
        self.shared.set(State::Failed(why.to_owned()));
    }

    /// Says something: to rank 0, or from rank 0 to all others. It takes the place of what was said
    /// of that topic before.
    pub fn say(&self, topic: Topic, what: &impl Serialize) {
        match serde_json::to_vec(what) {
            Ok(bytes) => self.say_bytes(topic, bytes),
            Err(error) => self.fail(&format!("the other ranks can't be told: {error}")),
        }
    }

    /// Says something that is encoded already.
    pub fn say_bytes(&self, topic: Topic, bytes: Vec<u8>) {
        self.shared.view().outbox.insert(topic, bytes);
        self.shared.changed.notify_all();
    }

    /// Listens for a topic from now on.
    pub fn listen(&self, topic: Topic) {
        self.shared.view().inbox.entry(topic).or_default();
    }

    /// Takes what was said of a topic since the last call, with the rank that said it: for rank 0
    /// the newest of each other, for the others that of rank 0. What can't be read ends the run.
    pub fn heard<T: DeserializeOwned>(&self, topic: Topic) -> Vec<(u32, T)> {
        let words = take(&mut self.shared.view(), topic);
        let read = words.into_iter().map(|(rank, word)| Ok((rank, word.read()?)));
        read.filter_map(|one: Result<_, String>| one.map_err(|what| self.fail(&what)).ok())
            .collect()
    }

    /// Listens for a topic no more: while anything is listened for, all are looked at often.
    pub fn ignore(&self, topic: Topic) {
        self.shared.view().inbox.remove(&topic);
    }

    /// Longest time from when a word is said until it is heard by all who wait for it.
    pub fn word_lead(&self) -> Duration {
        self.timing.word_lead
    }

    /// Waits until rank 0 has said something of a topic.
    pub fn hear_first<T: DeserializeOwned>(
        &self,
        topic: Topic,
        is_over: &dyn Fn() -> bool,
    ) -> Result<T, Silence> {
        self.word_of(topic, 0, is_over)
    }

    /// Rank 0 waits until all others have said something of a topic; in the order of the ranks.
    pub fn gather<T: DeserializeOwned>(
        &self,
        topic: Topic,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<T>, Silence> {
        (1..self.party.size).map(|rank| self.word_of(topic, rank, is_over)).collect()
    }

    /// Waits for words of those that are still there, whatever has become of the others, for so
    /// long at most: rank 0 for those of all others, the others for that of rank 0.
    #[must_use]
    pub fn gather_from_those_left(&self, topic: Topic, patience: Duration) -> Vec<Word> {
        let began = Instant::now();
        let looks = self.shared.view().looks;
        let mut words: BTreeMap<u32, Word> = BTreeMap::new();
        self.wait_until(|view| {
            words.extend(take(view, topic));
            // Who is there is known once somebody has looked since.
            let is_known = view.looks > looks + 1;
            let is_all = view.present.iter().all(|rank| words.contains_key(rank));
            ((is_known && is_all) || began.elapsed() > patience).then_some(())
        });
        words.into_values().collect()
    }

    fn word_of<T: DeserializeOwned>(
        &self,
        topic: Topic,
        rank: u32,
        is_over: &dyn Fn() -> bool,
    ) -> Result<T, Silence> {
        let word = self.wait_until(|view| {
            if let Some(word) = view.inbox.entry(topic).or_default().remove(&rank) {
                return Some(Ok(word));
            }
            if let Some(why) = &view.failure {
                return Some(Err(Silence::Failed(why.clone())));
            }
            if view.left.contains(&rank) {
                return Some(Err(Silence::Failed(format!("rank {rank} ended without a word"))));
            }
            is_over().then_some(Err(Silence::Over))
        })?;
        word.read().map_err(Silence::Failed)
    }

    /// Waits until `look` has found something.
    fn wait_until<T>(&self, mut look: impl FnMut(&mut View) -> Option<T>) -> T {
        loop {
            let mut view = self.shared.view();
            if let Some(found) = look(&mut view) {
                return found;
            }
            // Woken early it only looks once more.
            drop(self.shared.changed.wait_timeout(view, Duration::from_millis(50)));
        }
    }

    /// Waits until all others have left, for so long at most; whether they have.
    pub fn see_off(&self, patience: Duration) -> bool {
        let began = Instant::now();
        self.wait_until(|view| {
            let are_gone = view.present.is_empty();
            (are_gone || began.elapsed() > patience).then_some(are_gone)
        })
    }

    /// Leaves the others, having ended.
    pub fn leave(&self) {
        self.end();
        self.stop();
    }

    fn stop(&self) {
        // Whoever held it did nothing but take it.
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.shared.view().is_leaving = true;
        self.shared.changed.notify_all();
        if thread.join().is_err() {
            // It has said why on standard error.
            warn!("the thread that keeps in touch with the other ranks ended in a panic");
        }
    }
}

/// The part of one of `size` ranks of what all of them together have `all` of: as even as whole
/// numbers can be.
pub fn share(all: u32, rank: u32, size: u32) -> u32 {
    all / size + u32::from(rank < all % size)
}

/// Why nothing more is to be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Another rank has ended early, or never came.
    Failed(String),
    /// Nobody waits any more.
    Over,
}

fn take(view: &mut View, topic: Topic) -> BTreeMap<u32, Word> {
    std::mem::take(view.inbox.entry(topic).or_default())
}

impl Drop for Group {
    fn drop(&mut self) {
        self.fail("it could not begin");
        self.stop();
    }
}

#[cfg(test)]
#[path = "group_test.rs"]
pub(crate) mod tests;
