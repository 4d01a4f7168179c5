//! The part of a recording that lies below one directory, or on drives, and what must be there
//! before it begins.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use super::blocks;
use super::operation::{FileAction, LeftOutCalls, RecordedOperation};
use super::strace::{Recording, normal};
use super::tree::{FileBefore, ITSELF, Names, Tree};
use crate::error::Error;
use crate::source::Skipped;

/// Directories in which no data of a program lies.
const OF_SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Operations below one directory, or requests to drives as operations on one file.
#[derive(Debug, Default)]
pub struct Part {
    /// Directory in the recording, a whole path; or the numbers of the drives, `MAJOR,MINOR`.
    pub below: String,
    /// Paths below it by number.
    pub names: Vec<Arc<str>>,
    /// Number of open files.
    pub handles: u32,
    /// Files that must be there before, those without a byte too.
    pub files_before: Vec<FileBefore>,
    /// Directories that must be there before, without those above them.
    pub directories_before: Vec<Arc<str>>,
    /// Most space that what is written takes at a time, besides what must be there before, bytes.
    pub written_bytes: u64,
    /// Number of calls on these files that are not done again, by name of the system call, or of
    /// such requests: `discard`, `flush`, `other`; `failed`: of any, with an error that another
    /// drive need not have.
    pub left_out: BTreeMap<&'static str, LeftOutCalls>,
    /// Number of calls on other files, or of requests to other drives.
    pub elsewhere: u64,
    /// Number of calls without a path that is known, or without an end; of requests, without a
    /// beginning or an end.
    pub untold: u64,
    /// Time that strace adds to a call on average while it handles no other thread's, at most, ns.
    pub strace_ns: u64,
    /// Lines that could not be read.
    pub skipped: Skipped,
    /// Operations in the order in which they began.
    pub operations: Vec<RecordedOperation>,
    /// Whether the operations are requests to drives, each of which follows all that had ended when
    /// it began.
    pub follows_all: bool,
    /// Nearest directory above each name that has a name here, but for the directory of all.
    pub(super) parents: Vec<Option<u32>>,
    /// File that each handle has open, whatever its name is later; none for a directory.
    pub(super) files: Vec<Option<u32>>,
}

impl Part {
    /// Reads a recording: calls on files below a directory, or requests to a drive of those
    /// numbers, `MAJOR,MINOR`. It is of requests where any of its first lines tells of one.
    ///
    /// # Errors
    /// It can't be read, holds nothing of the kind, or more than memory is meant for.
    pub fn read(mut reader: impl BufRead, below: Option<&str>) -> Result<Part, Error> {
        let first = reader.fill_buf();
        let first = first.map_err(|error| Error::new(format!("reading it failed: {error}")))?;
        match blocks::are_requests(first) {
            true => blocks::read(reader, below),
            false => Part::of(Recording::read(reader)?, below),
        }
    }

    /// Takes what lies below a directory; without one, below the longest that all files have in
    /// common that were read or written.
    ///
    /// # Errors
    /// The directory is no whole path, none is common to all files, or nothing lies below it.
    pub fn of(recording: Recording, below: Option<&str>) -> Result<Part, Error> {
        let below = match below {
            Some(typed) => {
                let path = normal(typed).ok_or_else(|| {
                    Error::new(format!("--below {typed} is no path from the root /"))
                })?;
                recording.behind_links(path)
            }
            None => common(&recording)?,
        };
        let mut names = Names::new();
        let start = format!("{}/", below.trim_end_matches('/'));
        let renamed: Vec<Option<u32>> = recording
            .names
            .iter()
            .map(|name| match name.strip_prefix(&start) {
                _ if **name == *below => Some(ITSELF),
                rest => rest.map(|rest| names.add(rest)),
            })
            .collect();
        let (mut handles, mut kept) = (0, Vec::new());
        for name in &recording.handles {
            kept.push(renamed[*name as usize].is_some().then_some(handles));
            handles += u32::from(renamed[*name as usize].is_some());
        }
        let (untold, strace_ns) = (recording.untold(), recording.strace_ns());
        let mut part = Part { untold, strace_ns, handles, ..Part::default() };
        for operation in recording.operations {
            match moved_below(operation, &renamed, &kept) {
                Some(operation) => part.operations.push(operation),
                None => part.elsewhere += u64::from(operation.is_call),
            }
        }
        if !part.operations.iter().any(|operation| operation.is_call) {
            return Err(Error::new(format!(
                "it has no call on a file below {below}: give another directory with --below"
            )));
        }
        part.operations.sort_by_key(|operation| operation.begin_ns);
        for ((call, names), left_out) in &recording.left_out {
            let mut names = names.iter().flatten().peekable();
            let names_none = names.peek().is_none();
            if names_none || names.any(|name| renamed[*name as usize].is_some()) {
                part.left_out.entry(call).or_default().add(left_out);
            }
        }
        part.skipped = recording.skipped;
        part.below = below;
        part.find_before(names)?;
        Ok(part)
    }

    /// Finds what must be there before the first operation, and the file of each handle.
    fn find_before(&mut self, names: Names) -> Result<(), Error> {
        let mut tree = Tree::new(names, self.handles);
        for operation in &mut self.operations {
            tree.take(operation)?;
        }
        self.files = tree.files_of_handles();
        for operation in self.operations.iter_mut().filter(|operation| !operation.is_call) {
            // Of one that was open before, nobody told that it is a directory.
            if let FileAction::Open { handle: Some(handle), mode, .. } = &mut operation.action
                && self.files[*handle as usize].is_none()
            {
                mode.write = false;
            }
        }
        self.written_bytes = tree.written_bytes();
        (self.files_before, self.directories_before) = tree.before_all()?;
        self.parents = tree.names.parents();
        self.names = tree.names.paths;
        Ok(())
    }
}

/// The operation with the numbers of the part; none where it is on a file elsewhere, or makes or
/// removes the directory of all, which is there in a replay.
fn moved_below(
    mut operation: RecordedOperation,
    renamed: &[Option<u32>],
    kept: &[Option<u32>],
) -> Option<RecordedOperation> {
    use FileAction::{Link, MakeDirectory, Remove, Rename};
    let RecordedOperation { action, failure, .. } = operation;
    let needs_absence = failure.is_some()
        || matches!(action, MakeDirectory { .. } | Remove { .. } | Rename { .. } | Link { .. });
    let (names, handle) = operation.action.operands();
    for name in names {
        *name = renamed[*name as usize].filter(|name| *name != ITSELF || !needs_absence)?;
    }
    if let Some(handle) = handle {
        *handle = kept[*handle as usize]?;
    }
    Some(operation)
}

/// The longest directory that all files have in common of which bytes were read or written.
fn common(recording: &Recording) -> Result<String, Error> {
    let (mut of_all, mut of_written): (Option<&str>, Option<&str>) = (None, None);
    for operation in &recording.operations {
        let (handle, is_write) = match operation.action {
            FileAction::Read { handle, .. } => (handle, false),
            FileAction::Write { handle, .. } => (handle, true),
            _ => continue,
        };
        let path = &*recording.names[recording.handles[handle as usize] as usize];
        let is_of_system = OF_SYSTEM
            .iter()
            .any(|system| path.strip_prefix(system).is_some_and(|rest| rest.starts_with('/')));
        if operation.moved_bytes == 0 || is_of_system {
            continue;
        }
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let part = |with: Option<&str>| {
            &directory[..with.map_or(directory.len(), |with| shared(with, directory))]
        };
        of_all = Some(part(of_all));
        if is_write {
            of_written = Some(part(of_written));
        }
    }
    match (of_all, of_written) {
        (None, _) => Err(Error::new("no file in it was read or written with a byte of data")),
        (Some(""), Some(written)) if !written.is_empty() => Err(Error::new(format!(
            "the files that were read and written have no directory in common: give one with \
             --below; all that were written are below {written}"
        ))),
        (Some(""), _) => Err(Error::new(
            "the files that were read and written have no directory in common: give that of the \
             store with --below",
        )),
        (Some(all), _) => Ok(all.to_owned()),
    }
}

/// Length of the directory that two directories have in common.
fn shared(one: &str, other: &str) -> usize {
    let parts = one.split('/').zip(other.split('/'));
    let same = parts.take_while(|(one, other)| one == other).map(|(one, _)| one.len() + 1);
    // The first part of a path from the root is empty, and has no slash before it.
    same.sum::<usize>().saturating_sub(1)
}
