//! Parts of the program that a build may leave out, by the features of its manifest.

use crate::InputError;

/// A part of the program that not every build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Ranks that meet by messages of MPI.
    Mpi,
    /// Object stores as targets.
    Objects,
    /// The vocabulary that counts a dataset's tokens.
    Tokenizer,
    /// Workbooks (.xlsx), written and read.
    Workbooks,
}

impl Part {
    /// Whether this program has it.
    pub const fn is_built(self) -> bool {
        match self {
            Part::Mpi => cfg!(feature = "mpi"),
            Part::Objects => cfg!(feature = "objects"),
            Part::Tokenizer => cfg!(feature = "tokenizer"),
            Part::Workbooks => cfg!(feature = "xlsx"),
        }
    }

    /// Refusal by a program that does not have it, with the remedy.
    pub const fn refusal(self) -> &'static str {
        match self {
            Part::Mpi => {
                "this ringfall was built without MPI: build it with `cargo build --release \
                 --features mpi`, or give --ranks directory"
            }
            Part::Objects => {
                "this ringfall was built without object stores: build it with `cargo build \
                 --release --features objects`"
            }
            Part::Tokenizer => {
                "this ringfall was built without the vocabulary of cl100k: build it with `cargo \
                 build --release --features tokenizer`, or give --tokenizer estimate"
            }
            Part::Workbooks => {
                "this ringfall was built without workbooks: build it with `cargo build --release \
                 --features xlsx`, or give a .csv file"
            }
        }
    }

    /// Refuses what needs it in a program that does not have it.
    ///
    /// # Errors
    /// The program was built without it.
    pub fn require(self) -> Result<(), InputError> {
        if self.is_built() { Ok(()) } else { Err(InputError::new(self.refusal())) }
    }
}
