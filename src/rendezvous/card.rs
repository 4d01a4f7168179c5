//! What ranks put into the directory where they meet: a card each, and the first one's messages.
//! Files appear and change whole.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Opening and populating.
    Preparing,
    /// It could begin.
    Ready,
    /// It knows when to begin, or has begun.
    Running,
    /// It has ended early.
    Failed,
}

/// What makes a process's number comparable with ours: the same boot, the same numbering.
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

    fn is_known(&self) -> bool {
        !self.boot.is_empty() && !self.numbering.is_empty()
    }
}

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its number.
    pub rank: u32,
    /// Drawn when it began: no other run has it.
    pub nonce: u64,
    /// Counts up as long as it lives.
    pub beat: u64,
    /// What it is doing.
    pub state: State,
    /// Why it ended early, in a sentence that names the rank that is the cause.
    pub why: String,
    /// Name of its machine.
    pub host: String,
    /// Number of its process, and where that number holds.
    pub pid: u32,
    pub machine: Machine,
    /// When this was written, by its own clock, ns since 1970.
    pub written_unix_ns: u64,
}

impl Card {
    /// Of a rank that begins.
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

/// What the first rank says to the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// To whom, by the nonces of their cards.
    pub nonces: Vec<u64>,
    /// When all begin, ns since 1970; 0 in a message that ends them.
    pub start_unix_ns: u64,
    /// Why all end.
    pub why: String,
}

/// The directory.
#[derive(Debug)]
pub struct Board {
    directory: PathBuf,
}

impl Board {
    /// Of a launch, in the directory that all its ranks see.
    pub fn new(common: &Path, launch: Option<&str>, size: u32) -> Board {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let plain = |name: &str| -> String {
            name.chars().map(|c| if fits(c) { c } else { '_' }).take(64).collect()
        };
        let name = launch.map_or_else(|| format!("of-{size}"), plain);
        let common = if common.as_os_str().is_empty() { Path::new(".") } else { common };
        Board { directory: common.join(format!(".ringfall-ranks-{name}")) }
    }

    /// The directory, as people read it.
    pub fn shown(&self) -> String {
        self.directory.display().to_string()
    }

    fn card_name(rank: u32) -> String {
        format!("rank_{rank}")
    }

    /// The card of a rank; none where it has none.
    pub fn card(&self, rank: u32) -> Result<Option<Card>> {
        self.read(&Board::card_name(rank))
    }

    /// The message that says when to begin.
    pub fn start(&self) -> Result<Option<Message>> {
        self.read("start")
    }

    /// The message that says to end.
    pub fn stop(&self) -> Result<Option<Message>> {
        self.read("stop")
    }

    /// Shows a card.
    pub fn put_card(&self, card: &Card) -> Result<()> {
        self.write(&Board::card_name(card.rank), card, card.rank)
    }

    /// Says when to begin.
    pub fn put_start(&self, message: &Message) -> Result<()> {
        self.write("start", message, 0)
    }

    /// Says to end.
    pub fn put_stop(&self, message: &Message) -> Result<()> {
        self.write("stop", message, 0)
    }

    /// Takes a rank's files away; the last takes the directory.
    pub fn remove(&self, rank: u32) -> Result<()> {
        let mut names = vec![Board::card_name(rank)];
        if rank == 0 {
            names.extend(["start".to_owned(), "stop".to_owned()]);
        }
        for name in names {
            match std::fs::remove_file(self.directory.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match std::fs::remove_dir(&self.directory) {
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// What is in a file; none where there is none.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        match std::fs::read(self.directory.join(name)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole or not at all. The directory is made anew if another rank has just taken it away.
    fn write<T: Serialize>(&self, name: &str, what: &T, rank: u32) -> Result<()> {
        let draft = self.directory.join(format!("{name}.{rank}.new"));
        let bytes = serde_json::to_vec(what)?;
        let once = || {
            std::fs::create_dir_all(&self.directory)?;
            std::fs::write(&draft, &bytes)?;
            std::fs::rename(&draft, self.directory.join(name))
        };
        match once() {
            Err(error) if error.kind() == ErrorKind::NotFound => once(),
            done => done,
        }
    }
}
