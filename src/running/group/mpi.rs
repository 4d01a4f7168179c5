//! A board over MPI: each thing shown is a message to rank 0, or from rank 0 to each other rank.
//!
//! Nothing here waits: messages go out buffered, and are taken in when somebody looks. MPI's own
//! barriers and collective calls are not used, as most libraries spin in them on the cores that are
//! to be measured, and none of them ends when a rank has died.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};

use super::Party;
use super::board::{Board, BoardTiming};

/// Memory for messages on their way, bytes.
const BUFFER_BYTES: usize = 16 << 20;
/// Largest message: half of that, so that the small ones still find room beside it.
const WORD_BYTES_MAX: usize = BUFFER_BYTES / 2;
/// A message takes moments; shards are told of the begin a quarter of a second ahead.
const TIMING: BoardTiming = BoardTiming {
    period: Duration::from_millis(2),
    period_measuring: Duration::from_millis(20),
    lead: Duration::from_millis(500),
    word_lead: Duration::from_millis(50),
    is_prompt: true,
};

/// Words that each rank shows, as far as they have arrived here.
type Mailbox = Arc<Mutex<BTreeMap<u32, BTreeMap<String, Vec<u8>>>>>;

/// The MPI library, initialized, which a process can begin and end only once.
pub struct Mpi {
    universe: Universe,
    mailbox: Mailbox,
    party: Party,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("party", &self.party).finish_non_exhaustive()
    }
}

impl Mpi {
    /// Begins. Only one thread at a time calls the library: the one that keeps a board.
    ///
    /// # Errors
    /// It can't, or sees other ranks than the launcher's variables say.
    pub fn begin(party: &Party) -> std::result::Result<Mpi, String> {
        let begun = mpi::initialize_with_threading(Threading::Serialized);
        let Some((mut universe, threading)) = begun else {
            return Err("MPI has begun before".to_owned());
        };
        if threading < Threading::Serialized {
            return Err(format!(
                "the MPI library allows calls from the main thread alone ({threading:?}): let the \
                 ranks meet in a directory, with --ranks directory"
            ));
        }
        let world = universe.world();
        let (rank, size) = (world.rank(), world.size());
        if u32::try_from(rank) != Ok(party.rank) || u32::try_from(size) != Ok(party.size) {
            return Err(format!(
                "this is rank {} of {} for the launcher, and rank {rank} of {size} for MPI: start \
                 it with the mpirun of the MPI that it was built with, or let the ranks meet in a \
                 directory, with --ranks directory",
                party.rank, party.size
            ));
        }
        universe.set_buffer_size(BUFFER_BYTES);
        Ok(Mpi { universe, mailbox: Mailbox::default(), party: party.clone() })
    }

    /// A board for one run.
    pub fn board(&self) -> MpiBoard {
        MpiBoard {
            mailbox: Arc::clone(&self.mailbox),
            rank: self.party.rank,
            size: self.party.size,
            forgotten: BTreeSet::new(),
        }
    }

    /// Ends. Where a rank is gone, the library would wait for it for ever: then it is left as it
    /// is, and the launcher sees to it.
    pub fn end(self, is_orderly: bool) {
        match is_orderly {
            true => drop(self.universe),
            false => std::mem::forget(self.universe),
        }
    }
}

/// A board on which ranks show messages to each other over MPI.
pub struct MpiBoard {
    mailbox: Mailbox,
    rank: u32,
    size: u32,
    forgotten: BTreeSet<u32>,
}

impl MpiBoard {
    fn send(&self, message: &[u8]) -> Result<()> {
        if message.len() > WORD_BYTES_MAX {
            let what = format!("{} bytes are more than a message holds", message.len());
            return Err(Error::new(ErrorKind::FileTooLarge, what));
        }
        let to = if self.rank == 0 { 1..self.size } else { 0..1 };
        for rank in to.filter(|rank| !self.forgotten.contains(rank)) {
            let rank = i32::try_from(rank).map_err(Error::other)?;
            SimpleCommunicator::world().process_at_rank(rank).buffered_send(message);
        }
        Ok(())
    }

    fn receive(&self) -> Result<()> {
        let world = SimpleCommunicator::world();
        while let Some(arrived) = world.any_process().immediate_matched_probe() {
            let (bytes, status) = arrived.matched_receive_vec::<u8>();
            let from = u32::try_from(status.source_rank()).map_err(Error::other)?;
            let mut mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((name, rest)) = parsed(&bytes) else {
                let what = format!("a message of rank {from} can't be understood");
                return Err(Error::new(ErrorKind::InvalidData, what));
            };
            mailbox.entry(from).or_default().insert(name.to_owned(), rest.to_vec());
        }
        Ok(())
    }
}

fn parsed(message: &[u8]) -> Option<(&str, &[u8])> {
    let (&name_bytes, rest) = message.split_first()?;
    let (name, rest) = rest.split_at_checked(name_bytes.into())?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

fn message(name: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let name_bytes = u8::try_from(name.len()).map_err(Error::other)?;
    Ok([&[name_bytes], name.as_bytes(), bytes].concat())
}

impl Board for MpiBoard {
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.send(&message(name, bytes)?)
    }

    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>> {
        self.receive()?;
        let mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(mailbox.get(&rank).and_then(|shown| shown.get(name)).cloned())
    }

    fn forget(&mut self, rank: u32) {
        self.forgotten.insert(rank);
    }

    fn shown(&self) -> String {
        "MPI".to_owned()
    }

    fn word_bytes_max(&self) -> usize {
        WORD_BYTES_MAX - 1024
    }

    fn timing(&self) -> BoardTiming {
        TIMING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_apart_as_it_was_put_together() {
        let put = message("card", b"\0x").unwrap();
        assert_eq!(parsed(&put), Some(("card", b"\0x".as_slice())));
        for damaged in [&b""[..], &[9, b'a'], &[1, 0xff]] {
            assert_eq!(parsed(damaged), None);
        }
        assert!(message(&"n".repeat(300), &[]).is_err());
    }
}
