//! Several invocations of ringfall, one after the other or a few at once, as child processes: the
//! suite, sweeps, the trials of a submission. What must not be here: what the jobs are, and what
//! their results mean.
//!
//! ```text
//! let jobs = vec![Job::new("users50", ["run", "--num-users", "50"], 63.0)];   // expected: 63 s
//! let batch = Batch::new("sweep", directory, jobs);
//! let mut screen = Screen::new(quiet);
//! let report = batch.run(&|| interrupt.is_set(), &mut screen, &mut |ended| rows_of(ended))?;
//! ```
//!
//! - A job is the arguments of one invocation. The batch adds `--output DIRECTORY/NAME.json`; what
//!   the job prints goes to `DIRECTORY/NAME.log`. The executable is the one that is running, also
//!   when its file has been replaced since.
//! - **Resumption.** A job is done when its result is there and can be read, and the mark beside it
//!   is gone: `.NAME.unfinished` stands from a job's begin until it has ended with status 0.
//!   `DIRECTORY/batch.journal` holds the plan. Running the same batch again skips the jobs that are
//!   done, and runs the others, failed ones too. Another plan, or another version of ringfall, is
//!   refused with what differs.
//! - **Ends.** A job that fails is recorded and does not end the rest. The first Ctrl-C is passed
//!   on to the jobs, which end in order, and an error of one, such as data that it left behind, is
//!   told; a second ends everything. Jobs of a batch that was killed are told to end
//!   ([`end_with_parent`]), and the next batch in that directory waits until they have.
//! - **Hanging.** A job without a result after three times what was expected of it and ten minutes
//!   is told to end, killed if it does not, and recorded as failed; not one that preconditions.
//! - **Time.** Jobs say how long they will probably take; the estimate is corrected by how long
//!   those that ended really took.
//! - **The table** grows by the lines that the caller makes of each job that ended; a resumed batch
//!   begins it with those that were done before.

mod child;
mod job;
mod journal;
mod lock;
mod screen;
mod unusable;
mod work;

#[cfg(test)]
mod batch_test;

pub use child::end_with_parent;
pub use job::{Batch, Ended, Job, Outcome};
pub use screen::{Screen, duration_text};
pub(crate) use unusable::unusable;
pub use work::Report;
