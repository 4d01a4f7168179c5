//! One script under way: which operation comes next, and what its answer leads to. Only decides;
//! the operations are made by whoever asks, with a buffer of theirs.
//!
//! | answer | what follows |
//! |---|---|
//! | `EINTR` | the same operation again |
//! | fewer bytes than asked for | the rest is asked for |
//! | no bytes at all | the script has failed: the object is short |
//! | `ENOENT` of a look or a removal | the object is absent, and the script goes on |
//! | `EEXIST` of a directory, or of one on the way to it | it is there |
//! | any other errno | the script has failed |
//!
//! A script that has failed closes its file and removes the file that it has made, unless that has
//! got another name since, or may hold what others wrote (opened without `O_EXCL` and `O_TRUNC`).

use std::sync::Arc;

use rustix::fs::OFlags;

use super::content::Marks;
use super::outcome::{FaultCause, FileOutcome, StepKind};
use super::script::{FileScript, FileStep, OpenHow};
use crate::clock::Nanos;
use crate::ring::{IoKind, PathOp};

/// Stage of making the directories on a path; the length is that of a part of the path.
#[derive(Clone, Copy)]
enum Way {
    /// Looks whether the directory at that part is there.
    Look(usize),
    /// Makes it: what is before it is there.
    Make(usize),
}

/// Consequence of an answer that is no fault.
enum Then {
    /// The step needs another operation.
    More,
    /// The next step follows.
    StepEnds,
    /// No step is left to be done.
    ScriptEnds,
}

/// A script under way.
pub(super) struct Course {
    /// Seed of the marks that what is written gets; none where it is written as it is.
    marks_seed: Option<u64>,
    script: FileScript,
    /// Index of the step that is being done.
    step: usize,
    /// When its first operation was asked for.
    began: Option<Nanos>,
    moved_bytes: u64,
    way: Option<Way>,
    /// File that was opened last.
    file: Option<Arc<str>>,
    /// Marks of its blocks.
    marks: Option<Marks>,
    is_open: bool,
    /// File that the script has made and not renamed.
    made: Option<Arc<str>>,
    failure: Option<FaultCause>,
}

impl Course {
    pub(super) fn new(marks_seed: Option<u64>, script: FileScript) -> Course {
        Course {
            marks_seed,
            script,
            step: 0,
            began: None,
            moved_bytes: 0,
            way: None,
            file: None,
            marks: None,
            is_open: false,
            made: None,
            failure: None,
        }
    }

    /// Why a step of it has failed, if one has.
    pub(super) fn failure(&self) -> Option<FaultCause> {
        self.failure
    }

    /// The next operation; none when the script is over. What is to be written is in the buffer
    /// then.
    pub(super) fn next(&self, buffer: &mut [u8]) -> Option<PathOp> {
        if self.failure.is_some() {
            let made = || self.made.clone().map(|path| PathOp::Unlink { path });
            return self.is_open.then_some(PathOp::Close).or_else(made);
        }
        Some(match self.script.steps.get(self.step)? {
            FileStep::Stat { path, .. } => PathOp::Stat { path: Arc::clone(path) },
            FileStep::MakeDirectories { path } => match self.way.unwrap_or(Way::Look(path.len())) {
                Way::Look(length) => PathOp::Stat { path: path[..length].into() },
                Way::Make(length) => PathOp::MakeDirectory { path: path[..length].into() },
            },
            FileStep::Open { path, how, direct } => {
                PathOp::Open { path: Arc::clone(path), flags: open_flags(*how, *direct) }
            }
            FileStep::Write { offset_bytes, bytes } => {
                if let Some(marks) = self.marks.filter(|_| self.moved_bytes == 0) {
                    marks.write(&mut buffer[..*bytes as usize], *offset_bytes);
                }
                self.movement(IoKind::Write, *offset_bytes, *bytes)
            }
            FileStep::Read { offset_bytes, bytes } => {
                self.movement(IoKind::Read, *offset_bytes, *bytes)
            }
            FileStep::Sync => PathOp::Sync,
            FileStep::DontNeed => PathOp::DontNeed,
            FileStep::Close => PathOp::Close,
            FileStep::Rename { from, to } => {
                PathOp::Rename { from: Arc::clone(from), to: Arc::clone(to) }
            }
            FileStep::Remove { path } => PathOp::Unlink { path: Arc::clone(path) },
        })
    }

    /// The rest of an I/O.
    fn movement(&self, kind: IoKind, offset_bytes: u64, bytes: u64) -> PathOp {
        PathOp::Move {
            kind,
            offset_bytes: offset_bytes + self.moved_bytes,
            buffer_offset: self.moved_bytes as usize,
            // At most the load's largest, which is below 2 GiB.
            length_bytes: (bytes - self.moved_bytes) as u32,
        }
    }

    /// Takes note that the operation is made now.
    pub(super) fn begins(&mut self, now: Nanos) {
        self.began.get_or_insert(now);
    }

    /// Takes the answer to the operation: bytes moved, 0, or a negative errno.
    pub(super) fn done(&mut self, result: i32, now: Nanos, outcome: &mut FileOutcome) {
        let answer = usize::try_from(result).map_err(|_negative| result.saturating_neg());
        if self.failure.is_some() {
            return self.cleaned_up(answer, outcome);
        }
        let Some(step) = self.script.steps.get(self.step).cloned() else { return };
        match self.follow(&step, answer, outcome) {
            Ok(Then::More) => {}
            Ok(then) => {
                let began = self.began.take().unwrap_or(now);
                outcome.count_step(step.kind(), now.saturating_sub(began).as_ns());
                (self.moved_bytes, self.way) = (0, None);
                self.step = match then {
                    Then::ScriptEnds => self.script.steps.len(),
                    _ => self.step + 1,
                };
            }
            Err(cause) => self.fail(&step, cause, outcome),
        }
    }

    /// Ends the script, whose operation the drive does not answer.
    pub(super) fn give_up(&mut self, outcome: &mut FileOutcome) {
        let step = self.script.steps.get(self.step).cloned();
        if let Some(step) = step.filter(|_| self.failure.is_none()) {
            self.fail(&step, FaultCause::Errno(libc::ETIMEDOUT), outcome);
        }
    }

    fn fail(&mut self, step: &FileStep, cause: FaultCause, outcome: &mut FileOutcome) {
        self.failure = Some(cause);
        // A step without a path of its own is the open file's.
        if let Some(path) = step.paths().next().or(self.file.as_ref()) {
            outcome.count_fault(step.kind(), cause, path);
        }
    }

    /// Consequence of an answer, bytes or an errno.
    fn follow(
        &mut self,
        step: &FileStep,
        answer: Result<usize, i32>,
        outcome: &mut FileOutcome,
    ) -> Result<Then, FaultCause> {
        match (step, answer) {
            (FileStep::Close, _) => {
                // close(2): the descriptor is gone whatever the answer is.
                self.is_open = false;
                return answer.map(|_| Then::StepEnds).map_err(FaultCause::Errno);
            }
            (_, Err(libc::EINTR)) => return Ok(Then::More),
            (FileStep::MakeDirectories { path }, _) => return self.go_on(path, answer),
            (FileStep::Stat { ends_if_found: true, .. }, Ok(_)) => return Ok(Then::ScriptEnds),
            (FileStep::Stat { .. } | FileStep::Remove { .. }, Ok(_) | Err(libc::ENOENT)) => {}
            (FileStep::Open { path, how, direct: true }, Err(libc::EINVAL)) => {
                outcome.refuses_direct = true;
                // open(2): a file that was to be made is left behind.
                self.made = Some(Arc::clone(path)).filter(|_| how.begins_anew());
                return Err(FaultCause::Errno(libc::EINVAL));
            }
            (_, Err(errno)) => return Err(FaultCause::Errno(errno)),
            (FileStep::Open { path, how, .. }, Ok(_)) => {
                (self.file, self.is_open) = (Some(Arc::clone(path)), true);
                self.marks = self.marks_seed.map(|seed| Marks::new(seed, path));
                if how.begins_anew() {
                    self.made = Some(Arc::clone(path));
                }
            }
            (FileStep::Write { bytes, .. }, Ok(moved)) => {
                outcome.written_bytes += moved as u64;
                return self.moved(moved, *bytes);
            }
            (FileStep::Read { bytes, .. }, Ok(moved)) => {
                outcome.read_bytes += moved as u64;
                return self.moved(moved, *bytes);
            }
            (FileStep::Rename { from: path, .. }, Ok(_)) => {
                if self.made.as_ref() == Some(path) {
                    self.made = None;
                }
            }
            (FileStep::Sync | FileStep::DontNeed, Ok(_)) => {}
        }
        Ok(Then::StepEnds)
    }

    /// Takes note that so many of an I/O's bytes were moved now.
    fn moved(&mut self, moved: usize, bytes: u64) -> Result<Then, FaultCause> {
        self.moved_bytes += moved as u64;
        match moved {
            0 => Err(FaultCause::Short),
            _ if self.moved_bytes == bytes => Ok(Then::StepEnds),
            _ => Ok(Then::More),
        }
    }

    /// Goes on making the directories on a path, as `create_directories` of C++ does.
    fn go_on(&mut self, path: &str, answer: Result<usize, i32>) -> Result<Then, FaultCause> {
        let next = match (self.way.unwrap_or(Way::Look(path.len())), answer) {
            (Way::Look(length), Err(libc::ENOENT)) => match path[..length].rfind('/') {
                Some(parent) => Way::Look(parent),
                None => Way::Make(length),
            },
            (Way::Look(length), Ok(_)) | (Way::Make(length), Ok(_) | Err(libc::EEXIST)) => {
                if length == path.len() {
                    return Ok(Then::StepEnds);
                }
                let rest = &path[length + 1..];
                Way::Make(length + 1 + rest.find('/').unwrap_or(rest.len()))
            }
            (_, Err(errno)) => return Err(FaultCause::Errno(errno)),
        };
        self.way = Some(next);
        Ok(Then::More)
    }

    /// Takes note that a file was closed or removed after a failure.
    fn cleaned_up(&mut self, answer: Result<usize, i32>, outcome: &mut FileOutcome) {
        let (kind, path) = match self.is_open {
            true => (StepKind::Close, self.file.clone()),
            false => (StepKind::Unlink, self.made.take()),
        };
        self.is_open = false;
        // Somebody else may have removed it.
        let errno = answer.err().filter(|errno| *errno != libc::ENOENT);
        if let Some((errno, path)) = errno.zip(path) {
            outcome.count_fault(kind, FaultCause::Errno(errno), &path);
        }
    }
}

fn open_flags(how: OpenHow, direct: bool) -> OFlags {
    let mut flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, direct);
    if let OpenHow::Create { exclusive, truncate } = how {
        flags |= OFlags::WRONLY | OFlags::CREATE;
        flags.set(OFlags::EXCL, exclusive);
        flags.set(OFlags::TRUNC, truncate);
    }
    flags
}
