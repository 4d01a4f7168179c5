//! Card that each rank shows of itself; rank 0's says when all begin.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{Error, Result};

use serde::{Deserialize, Serialize};

use super::Moment;
use super::board::Board;

/// Name under which a rank shows its card.
const CARD: &str = "card";

/// State of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Opening and populating.
    #[default]
    Preparing,
    /// It could begin, or has begun.
    Ready,
    /// It has measured all that it should, and is still there to hand over its result.
    Ended,
    /// It has ended early, and why; it may still be there to hand over its result.
    Failed(String),
}

/// Description that a rank gives of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Drawn when it began: no other run has it.
    pub nonce: u64,
    /// Number of times that the rank has met the others in this place, this time included: trials
    /// meet in the same place, and the cards of one may still be there when the next begins.
    #[serde(default)]
    pub meeting: u32,
    /// Counts up as long as it lives.
    pub beat: u64,
    /// State of the rank.
    pub state: State,
    /// It is not there any more, although its card is.
    pub has_left: bool,
    /// Name of its machine.
    pub host: String,
    /// Begin of all ranks; only on rank 0's, once all are ready.
    pub start: Option<StartSignal>,
}

/// Begin of all ranks, as rank 0 says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSignal {
    /// The ranks that are meant, by the nonces of their cards.
    pub nonces: Vec<u64>,
    /// Moment at which they begin.
    pub moment: Moment,
}

impl Card {
    /// Creates the card of a rank that begins.
    pub fn new(host: &str, meeting: u32) -> Card {
        // Seeded by the kernel's random numbers.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        Card { nonce: hasher.finish(), meeting, host: host.to_owned(), ..Card::default() }
    }

    /// Reads the card of a rank; none where it shows none.
    pub fn read(board: &mut (impl Board + ?Sized), rank: u32) -> Result<Option<Card>> {
        let bytes = board.get(rank, CARD)?;
        bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(Error::from)).transpose()
    }

    /// Shows it as this rank's.
    pub fn show(&self, board: &mut (impl Board + ?Sized)) -> Result<()> {
        board.put(CARD, &serde_json::to_vec(self)?)
    }
}
