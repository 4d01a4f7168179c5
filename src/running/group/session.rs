//! State that a process keeps as long as it lives to meet other ranks: nothing for a directory, the
//! library's state for MPI, which can be begun and ended only once.

use std::cell::Cell;

use ringfall_config::MeetsBy;
#[cfg(not(feature = "mpi"))]
use ringfall_config::Part;

use super::directory::Directory;
use super::{Board, Group, Party};

/// State that a process keeps for as long as it meets other ranks.
#[derive(Debug)]
pub struct Session {
    party: Party,
    place: Place,
    meetings: Cell<u32>,
}

/// Where ranks meet.
#[derive(Debug)]
enum Place {
    Directory(Directory),
    #[cfg(feature = "mpi")]
    Mpi(super::mpi::Mpi),
}

impl Session {
    /// Begins. `launch`: the name that tells this launch from others, if the launcher gives one.
    ///
    /// # Errors
    /// This program was built without MPI, or the library can't begin.
    pub fn open(by: MeetsBy<'_>, launch: Option<&str>, party: Party) -> Result<Session, String> {
        let place = match by {
            MeetsBy::Directory(common) => {
                Place::Directory(Directory::new(common, launch, party.rank, party.size))
            }
            #[cfg(feature = "mpi")]
            MeetsBy::Mpi => Place::Mpi(super::mpi::Mpi::begin(&party)?),
            #[cfg(not(feature = "mpi"))]
            MeetsBy::Mpi => return Err(Part::Mpi.refusal().to_owned()),
        };
        Ok(Session { party, place, meetings: Cell::default() })
    }

    /// Joins the others for one run, who see from now on that this rank lives. Ranks that meet
    /// again do so in the same session: a meeting is told from the one before by its number.
    pub fn join(&self) -> std::io::Result<Group> {
        self.meetings.set(self.meetings.get() + 1);
        let board: Box<dyn Board> = match &self.place {
            Place::Directory(directory) => Box::new(directory.clone()),
            #[cfg(feature = "mpi")]
            Place::Mpi(mpi) => Box::new(mpi.board()),
        };
        Group::join(&self.party, board, self.meetings.get())
    }

    /// Ends. `is_orderly`: all ranks do so; where one is gone, MPI would wait for it for ever.
    pub fn close(self, is_orderly: bool) {
        #[cfg(feature = "mpi")]
        if let Place::Mpi(mpi) = self.place {
            mpi.end(is_orderly);
        }
        let _unused = is_orderly;
    }
}
