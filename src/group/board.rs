//! Carrier of words between ranks: a board on which each rank shows what it has to say.
//!
//! There is one for a directory that all ranks see, and one over MPI. All that ranks do together is
//! made of these few functions, so that it is the same over both.

use std::io::Result;
use std::time::Duration;

use ringfall_engine::clock::Nanos;

/// A board as one rank sees it. Rank 0 sees what all show; the others see what rank 0 shows.
pub trait Board: Send {
    /// Shows `bytes` under `name`, in place of what this rank showed there before.
    ///
    /// # Errors
    /// They can't be shown.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Reads what a rank shows under `name` now; none where it shows nothing.
    ///
    /// # Errors
    /// It can't be read now.
    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>>;

    /// Takes away all that this rank shows, and what `lost` ranks left.
    ///
    /// # Errors
    /// Something of it could not be taken away.
    fn clear(&mut self, lost: &[u32]) -> Result<()>;

    /// Takes away what all ranks showed, once every one of them has come and has left.
    ///
    /// # Errors
    /// Something of it could not be taken away.
    fn clear_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes away what launches have left that ended long ago, where there is such a thing.
    fn reclaim(&mut self) {}

    /// That rank reads nothing any more.
    fn forget(&mut self, _rank: u32) {}

    /// Where it is, as people read it.
    fn shown(&self) -> String;

    /// Largest word that it carries, bytes; 0 where all ranks see the same files.
    fn word_bytes_max(&self) -> usize;

    /// Interval at which to look at it.
    fn period(&self, pace: BoardPace) -> Duration;

    /// From the first rank's word to the begin: time for it to reach all others.
    fn lead(&self) -> Nanos;

    /// Longest time from when a word is said until it is heard by all who wait for it.
    fn word_lead(&self) -> Duration;

    /// Whether what is shown is seen within moments, so that time can be counted from there; else
    /// ranks go by their machines' clocks.
    fn is_prompt(&self) -> bool;
}

/// Activity of the ranks, which decides how often the board is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardPace {
    /// They wait to begin.
    Waiting,
    /// They measure, each for itself.
    Running,
    /// They wait for each other's words.
    Talking,
}
