//! State that a process keeps as long as it lives to meet other ranks: nothing for a directory, the
//! library's state for MPI, which can be begun and ended only once.

use std::cell::Cell;
use std::path::PathBuf;

use super::directory::Directory;
use super::{Board, Group, Party};

/// By what ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// A directory that all of them see.
    Directory {
        /// The directory.
        common: PathBuf,
        /// Name that tells this launch from others, if the launcher gives one.
        launch: Option<String>,
    },
    /// MPI.
    Mpi,
}

/// State that a process keeps for as long as it meets other ranks: for MPI, the library's.
#[derive(Debug)]
pub struct Session {
    meeting: Meeting,
    /// Meetings so far.
    meetings: Cell<u32>,
    #[cfg(feature = "mpi")]
    mpi: Option<super::mpi::Mpi>,
}

impl Session {
    /// Begins.
    ///
    /// # Errors
    /// This program was built without MPI, or the library can't begin.
    pub fn open(meeting: &Meeting, party: &Party) -> Result<Session, String> {
        #[cfg(feature = "mpi")]
        return Ok(Session {
            meeting: meeting.clone(),
            meetings: Cell::default(),
            mpi: match meeting {
                Meeting::Mpi => Some(super::mpi::Mpi::begin(party)?),
                Meeting::Directory { .. } => None,
            },
        });
        #[cfg(not(feature = "mpi"))]
        match meeting {
            Meeting::Mpi => Err(NO_MPI.to_owned()),
            Meeting::Directory { .. } => {
                let _unused = party;
                Ok(Session { meeting: meeting.clone(), meetings: Cell::default() })
            }
        }
    }

    /// Joins the others for one run, who see from now on that this rank lives. Ranks that meet
    /// again do so in the same session: a meeting is told from the one before by its number.
    ///
    /// # Errors
    /// The board can't be written, or no thread can be started.
    pub fn join(&self, party: &Party) -> std::io::Result<Group> {
        self.meetings.set(self.meetings.get() + 1);
        Group::join(party, self.board(party), self.meetings.get())
    }

    /// A board for one run.
    fn board(&self, party: &Party) -> Box<dyn Board> {
        #[cfg(feature = "mpi")]
        if let Some(mpi) = &self.mpi {
            return Box::new(mpi.board());
        }
        let (common, launch) = match &self.meeting {
            Meeting::Directory { common, launch } => (common.clone(), launch.as_deref()),
            Meeting::Mpi => (PathBuf::new(), None),
        };
        Box::new(Directory::new(&common, launch, party.rank, party.size))
    }

    /// Ends. `is_orderly`: all ranks do so; where one is gone, MPI would wait for it for ever.
    pub fn close(self, is_orderly: bool) {
        #[cfg(feature = "mpi")]
        if let Some(mpi) = self.mpi {
            mpi.end(is_orderly);
        }
        let _unused = is_orderly;
    }
}

/// Why there is no MPI.
#[cfg(not(feature = "mpi"))]
const NO_MPI: &str = "this program was built without MPI: build it with `cargo build --release \
                      --features mpi`, or let the ranks meet in a directory: --ranks directory";
