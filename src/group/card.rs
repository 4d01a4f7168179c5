//! Files by which ranks begin and end together: a card each, and the first one's messages.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Error, ErrorKind, Result};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::board::Board;

/// State of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Opening and populating.
    Preparing,
    /// It could begin.
    Ready,
    /// It knows when to begin, or has begun.
    Running,
    /// It has measured all that it should, and is still there to hand over its result.
    Ended,
    /// It has ended early, and may still be there to hand over its result.
    Failed,
}

/// Scope in which a process's number is comparable with ours: the same boot, the same numbering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    boot: String,
    numbering: String,
}

impl Machine {
    /// Where this process is.
    pub fn this() -> Machine {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let numbering = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Machine { boot, numbering: numbering.to_string_lossy().into_owned() }
    }

    /// Whether the two are one kernel's, which has one clock.
    pub fn shares_a_clock(&self, other: &Machine) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }

    fn is_known(&self) -> bool {
        !self.boot.is_empty() && !self.numbering.is_empty()
    }
}

/// Description that a rank gives of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Number of the rank, from 0.
    pub rank: u32,
    /// Drawn when it began: no other run has it.
    pub nonce: u64,
    /// Counts up as long as it lives.
    pub beat: u64,
    /// State of the rank.
    pub state: State,
    /// Why it ended early, in a sentence that names the rank that is the cause.
    pub why: String,
    /// It is not there any more, although its card is.
    pub has_left: bool,
    /// Name of its machine.
    pub host: String,
    /// Number of its process, and where that number holds.
    pub pid: u32,
    pub machine: Machine,
    /// When this was written, by its own clock, ns since 1970.
    pub written_unix_ns: u64,
}

impl Card {
    /// Creates the card of a rank that begins.
    pub fn new(rank: u32, host: &str, now_unix_ns: u64) -> Card {
        // Seeded by the kernel's random numbers.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(now_unix_ns);
        hasher.write_u32(std::process::id());
        Card {
            rank,
            nonce: hasher.finish(),
            beat: 0,
            state: State::Preparing,
            why: String::new(),
            has_left: false,
            host: host.to_owned(),
            pid: std::process::id(),
            machine: Machine::this(),
            written_unix_ns: now_unix_ns,
        }
    }

    /// Whether its process is known to have ended: it was on this machine, and is there no more.
    pub fn is_gone(&self, here: &Machine) -> bool {
        here.is_known() && self.machine == *here && !is_alive(self.pid)
    }
}

/// Whether a process runs; one that has ended and that nobody has waited for does not.
fn is_alive(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name, in brackets, may hold anything.
        Ok(stat) => {
            let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start());
            !state.starts_with(['Z', 'X'])
        }
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Message of the first rank to the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// To whom, by the nonces of their cards.
    pub nonces: Vec<u64>,
    /// When all begin, ns since 1970; 0 in a message that ends them.
    pub start_unix_ns: u64,
    /// When all begin, ns after the message was written; 0 in a message that ends them.
    pub start_in_ns: u64,
    /// Why all ranks are to end; empty in a message that starts them.
    pub why: String,
}

/// Names of what is shown.
const CARD: &str = "card";
const START: &str = "start";
const STOP: &str = "stop";

/// A board's posts that the ranks meet by, as what they mean.
pub trait Posts {
    /// The card of a rank; none where it has none.
    fn card(&mut self, rank: u32) -> Result<Option<Card>>;
    /// The message that says when to begin.
    fn start(&mut self) -> Result<Option<Message>>;
    /// The message that says to end.
    fn stop(&mut self) -> Result<Option<Message>>;
    /// Shows this rank's card.
    fn put_card(&mut self, card: &Card) -> Result<()>;
    /// Says when to begin.
    fn put_start(&mut self, message: &Message) -> Result<()>;
    /// Says to end.
    fn put_stop(&mut self, message: &Message) -> Result<()>;
}

impl<B: Board + ?Sized> Posts for B {
    fn card(&mut self, rank: u32) -> Result<Option<Card>> {
        read(self, rank, CARD)
    }

    fn start(&mut self) -> Result<Option<Message>> {
        read(self, 0, START)
    }

    fn stop(&mut self) -> Result<Option<Message>> {
        read(self, 0, STOP)
    }

    fn put_card(&mut self, card: &Card) -> Result<()> {
        self.put(CARD, &serde_json::to_vec(card)?)
    }

    fn put_start(&mut self, message: &Message) -> Result<()> {
        self.put(START, &serde_json::to_vec(message)?)
    }

    fn put_stop(&mut self, message: &Message) -> Result<()> {
        self.put(STOP, &serde_json::to_vec(message)?)
    }
}

fn read<T: DeserializeOwned>(
    board: &mut (impl Board + ?Sized),
    rank: u32,
    name: &str,
) -> Result<Option<T>> {
    let bytes = board.get(rank, name)?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(Error::from)).transpose()
}
