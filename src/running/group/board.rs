//! Carrier of words between ranks: a board on which each rank shows what it has to say.
//!
//! There is one for a directory that all ranks see, and one over MPI. All that ranks do together is
//! made of these few functions, so that it is the same over both.

use std::io::Result;
use std::time::Duration;

/// A board as one rank sees it. Rank 0 sees what all show; the others see what rank 0 shows.
pub trait Board: Send {
    /// Shows `bytes` under `name`, in place of what this rank showed there before.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Reads what a rank shows under `name` now; none where it shows nothing.
    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>>;

    /// Takes away what all ranks showed, where anything of it would stay behind.
    fn clear(&mut self) -> Result<()> {
        Ok(())
    }

    /// Sends nothing to that rank from now on: it is gone.
    fn forget(&mut self, _rank: u32) {}

    /// Where it is, as people read it.
    fn shown(&self) -> String;

    /// Largest word that it carries, bytes; 0 where all ranks see the same files.
    fn word_bytes_max(&self) -> usize;

    /// Time that words take on it.
    fn timing(&self) -> BoardTiming;
}

/// Time that words take on a board, and how often it is read for them.
#[derive(Clone, Copy, Debug)]
pub struct BoardTiming {
    /// Interval between looks at the board while ranks wait for each other.
    pub period: Duration,
    /// The same while each of them measures for itself.
    pub period_measuring: Duration,
    /// From rank 0's word to the begin: time for it to reach all others.
    pub lead: Duration,
    /// Longest time from when a word is said until it is heard by all who wait for it.
    pub word_lead: Duration,
    /// Whether what is shown is seen within moments, so that time can be counted from there; else
    /// ranks go by their machines' clocks.
    pub is_prompt: bool,
}
