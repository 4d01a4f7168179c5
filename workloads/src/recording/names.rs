//! The part of a recording that lies below one directory, and what must be there before it begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::operation::{FileAction, RecordedOperation};
use super::strace::{NAME_BYTES_MAX, Recording, normal};
use crate::error::Error;
use crate::source::Skipped;

/// Directories in which no data of a program lies.
const OF_SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];

/// File that the recording finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileBefore {
    /// Path below the directory.
    pub path: Arc<str>,
    /// Bytes of it that were read before they were written.
    pub bytes: u64,
}

/// Operations below one directory.
#[derive(Debug, Default)]
pub struct Part {
    /// Directory in the recording, a whole path.
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
    /// Number of calls on these files that are not done again, by name of the system call;
    /// `failed`: of any, with an error that another drive need not have.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Number of calls on other files.
    pub elsewhere: u64,
    /// Number of calls without a path that is known, or without an end.
    pub untold: u64,
    /// Lines that could not be read.
    pub skipped: Skipped,
    /// Operations in the order in which they began.
    pub operations: Vec<RecordedOperation>,
    /// Directory of each name; none where that is the directory of all.
    pub(super) parents: Vec<Option<u32>>,
    /// File that each handle has open, whatever its name is later.
    pub(super) files: Vec<u32>,
}

impl Part {
    /// Takes what lies below a directory; without one, below the longest that all files have in
    /// common that were read or written.
    ///
    /// # Errors
    /// The directory is no whole path, none is common to all files, or nothing lies below it.
    pub fn of(recording: Recording, below: Option<&str>) -> Result<Part, Error> {
        let below = match below {
            Some(typed) => normal(typed)
                .ok_or_else(|| Error::new(format!("--below {typed} is no path from the root /")))?,
            None => common(&recording)?,
        };
        let mut names = Names::new();
        let start = format!("{}/", below.trim_end_matches('/'));
        let renamed: Vec<Option<u32>> = recording
            .names
            .iter()
            .map(|name| match name.strip_prefix(&start) {
                _ if **name == *below => Some(ITSELF),
                rest => rest.map(|rest| names.with_parent(rest)),
            })
            .collect();
        let (mut handles, mut kept) = (0, Vec::new());
        for name in &recording.handles {
            kept.push(renamed[*name as usize].is_some().then_some(handles));
            handles += u32::from(renamed[*name as usize].is_some());
        }
        let mut part = Part { untold: recording.untold(), handles, ..Part::default() };
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
        for ((call, name), count) in &recording.left_out {
            if name.is_none_or(|name| renamed[name as usize].is_some()) {
                *part.left_out.entry(call).or_default() += count;
            }
        }
        part.skipped = recording.skipped;
        part.below = below;
        part.find_before(names)?;
        Ok(part)
    }

    /// Finds what must be there before the first operation, and the file of each handle.
    fn find_before(&mut self, names: Names) -> Result<(), Error> {
        let mut before = Before::of(names, self.handles);
        for operation in &mut self.operations {
            before.take(operation);
            if before.moved_bytes > NAME_BYTES_MAX {
                return Err(Error::new(format!(
                    "it has more than {NAME_BYTES_MAX} bytes of names of files below renamed \
                     directories: record a shorter time"
                )));
            }
        }
        let Before { names, states, files, open, directories, space_most_bytes, .. } = before;
        for operation in self.operations.iter_mut().filter(|operation| !operation.is_call) {
            // Of one that was open before, nobody told that it is a directory.
            if let FileAction::Open { name, mode, .. } = &mut operation.action
                && matches!(states[*name as usize], State::Directory(_) | State::Made)
            {
                mode.write = false;
            }
        }
        self.directories_before = directories.into_iter().skip(1).collect();
        self.written_bytes = space_most_bytes;
        let needed = files.into_iter().filter(|file| file.is_before);
        self.files_before = needed
            .filter_map(|file| Some(FileBefore { path: file.path?, bytes: file.bytes_before }))
            .collect();
        self.files = open.into_iter().map(|file| file.unwrap_or(u32::MAX)).collect();
        (self.names, self.parents) = (names.paths, names.parents);
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
    use FileAction::{MakeDirectory, Remove, Rename};
    let RecordedOperation { action, fails, .. } = operation;
    let needs_absence =
        fails || matches!(action, MakeDirectory { .. } | Remove { .. } | Rename { .. });
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

/// Number of the directory of all.
const ITSELF: u32 = 0;

/// Paths below the directory, by number.
#[derive(Default)]
struct Names {
    paths: Vec<Arc<str>>,
    parents: Vec<Option<u32>>,
    numbers: BTreeMap<Arc<str>, u32>,
}

impl Names {
    fn new() -> Names {
        let mut names = Names::default();
        assert_eq!(names.number("."), ITSELF);
        names
    }

    fn number(&mut self, path: &str) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let path: Arc<str> = path.into();
        // Fewer than bytes of names.
        let number = self.paths.len() as u32;
        self.paths.push(Arc::clone(&path));
        self.parents.push(None);
        self.numbers.insert(path, number);
        number
    }

    /// Number of a path, whose directory gets one, too.
    fn with_parent(&mut self, path: &str) -> u32 {
        let number = self.number(path);
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.parents[number as usize] = Some(self.number(directory));
        }
        number
    }
}

/// Knowledge of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Absent,
    File(u32),
    /// There before the first operation, under a path of that index.
    Directory(u32),
    /// Directory that an operation made.
    Made,
}

/// A file, whatever its name is.
struct File {
    /// Path before the first operation, if it is there then; none where it can't have been.
    path: Option<Arc<str>>,
    is_before: bool,
    bytes_before: u64,
    /// Ranges that were written since it was made or cut.
    written: Ranges,
    /// Highest end of a write since then.
    end: u64,
    /// Sum of the bytes written since then.
    written_bytes: u64,
    /// Whether nothing of what it held before is left.
    is_fresh: bool,
}

impl File {
    /// Space that it takes besides what must be there before, bytes: no more than was written where
    /// it has holes, nor than its length where a part was written twice.
    fn space_bytes(&self) -> u64 {
        self.written_bytes.min(self.end.saturating_sub(self.bytes_before))
    }
}

/// Disjoint ranges of bytes: the end of each by its beginning.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, begin: u64, end: u64) {
        let (mut begin, mut end) = (begin, end);
        // Those that it touches become one with it, the last of them first.
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back()
            && other_end >= begin
        {
            self.0.remove(&other);
            (begin, end) = (begin.min(other), end.max(other_end));
        }
        self.0.insert(begin, end);
    }

    /// Whether all of that range is in them.
    fn cover(&self, begin: u64, end: u64) -> bool {
        self.0.range(..=begin).next_back().is_some_and(|(_, &other_end)| other_end >= end)
    }
}

/// Names and files as the operations leave them.
struct Before {
    names: Names,
    states: Vec<State>,
    files: Vec<File>,
    /// File of each handle that is open.
    open: Vec<Option<u32>>,
    /// Paths before the first operation of directories that are there then, first that of all.
    directories: Vec<Arc<str>>,
    /// Files by their paths before the first operation.
    by_path: BTreeMap<Arc<str>, u32>,
    /// Memory of such paths that are no names, bytes.
    moved_bytes: usize,
    /// Space that the files take now, and at most so far.
    space_bytes: u64,
    space_most_bytes: u64,
}

impl Before {
    fn of(names: Names, handles: u32) -> Before {
        let mut states = vec![State::Unknown; names.paths.len()];
        states[ITSELF as usize] = State::Directory(0);
        Before {
            states,
            files: Vec::new(),
            open: vec![None; handles as usize],
            directories: vec![Arc::clone(&names.paths[ITSELF as usize])],
            by_path: BTreeMap::new(),
            moved_bytes: 0,
            space_bytes: 0,
            space_most_bytes: 0,
            names,
        }
    }

    fn take(&mut self, operation: &mut RecordedOperation) {
        match operation.action {
            _ if operation.fails => self.take_failed(operation.action),
            FileAction::Open { name, handle, mode } => {
                self.needs_directory(name);
                let is_new = match self.states[name as usize] {
                    State::Unknown => mode.create,
                    State::Absent => true,
                    State::File(_) | State::Directory(_) | State::Made => false,
                };
                operation.makes = is_new || mode.exclusive;
                if mode.directory {
                    self.is_directory(name);
                }
                let file = self.file(name, is_new && !mode.directory);
                if mode.truncate || mode.exclusive {
                    self.change(file, |file| {
                        (file.end, file.written_bytes) = (0, 0);
                        file.written = Ranges::default();
                        file.is_fresh = true;
                    });
                }
                if let Some(handle) = handle {
                    self.open[handle as usize] = file;
                }
            }
            FileAction::Read { handle, offset, .. } => {
                let end = offset.saturating_add(operation.moved_bytes.into());
                self.change(self.open[handle as usize], |file| {
                    // What was not written was there before: a file is seldom read where it has
                    // holes.
                    let is_written = file.written.cover(offset, end);
                    if operation.moved_bytes > 0 && !file.is_fresh && !is_written {
                        file.is_before = true;
                        file.bytes_before = file.bytes_before.max(end);
                    }
                });
            }
            FileAction::Write { handle, offset, .. } => {
                let bytes = operation.moved_bytes.into();
                let end = offset.saturating_add(bytes);
                self.change(self.open[handle as usize], |file| {
                    file.written.add(offset, end);
                    file.end = file.end.max(end);
                    file.written_bytes = file.written_bytes.saturating_add(bytes);
                });
            }
            FileAction::Look { name, directory: true } => self.is_directory(name),
            FileAction::Look { name, .. } => {
                self.needs_directory(name);
                self.file(name, false);
            }
            FileAction::MakeDirectory { name } => {
                self.needs_directory(name);
                self.states[name as usize] = State::Made;
            }
            // The kernel does nothing.
            FileAction::Rename { from, to } if from == to => {
                self.needs_directory(from);
                self.file(from, false);
            }
            FileAction::Rename { from, to } => {
                self.needs_directory(from);
                self.needs_directory(to);
                self.file(from, false);
                self.removes(to);
                self.states[to as usize] = self.states[from as usize];
                self.states[from as usize] = State::Absent;
            }
            FileAction::Remove { name, directory } => {
                self.needs_directory(name);
                match directory {
                    true => self.is_directory(name),
                    false => drop(self.file(name, false)),
                }
                self.removes(name);
                self.states[name as usize] = State::Absent;
            }
            FileAction::Sync { .. } | FileAction::LookAtOpen { .. } | FileAction::Close { .. } => {}
        }
    }

    /// Takes note of what an operation's failure tells of its name.
    fn take_failed(&mut self, action: FileAction) {
        match action {
            FileAction::MakeDirectory { name } => self.is_directory(name),
            FileAction::Open { name, mode, .. } if mode.exclusive => {
                self.needs_directory(name);
                self.file(name, false);
            }
            FileAction::Open { name, .. }
            | FileAction::Look { name, .. }
            | FileAction::Remove { name, .. }
            | FileAction::Rename { from: name, .. } => {
                let state = &mut self.states[name as usize];
                if *state == State::Unknown {
                    *state = State::Absent;
                }
            }
            _ => {}
        }
    }

    /// Changes what is known of a file, and counts the space that it takes then.
    fn change(&mut self, file: Option<u32>, change: impl FnOnce(&mut File)) {
        let Some(file) = file.map(|file| &mut self.files[file as usize]) else { return };
        let others_bytes = self.space_bytes.saturating_sub(file.space_bytes());
        change(file);
        self.space_bytes = others_bytes.saturating_add(file.space_bytes());
        self.space_most_bytes = self.space_most_bytes.max(self.space_bytes);
    }

    /// Counts the space of a name's file as free.
    fn removes(&mut self, name: u32) {
        if let State::File(file) = self.states[name as usize] {
            self.change(Some(file), |file| file.written_bytes = 0);
        }
    }

    /// File of a name; of one that was not seen before, whether it is `new` must be told.
    fn file(&mut self, name: u32, is_new: bool) -> Option<u32> {
        let state = self.states[name as usize];
        match state {
            State::Directory(_) | State::Made => return None,
            State::File(file) => return Some(file),
            State::Unknown | State::Absent => {}
        }
        // One that was absent is made, by a call that may not be in the recording.
        let path = if state == State::Unknown { self.path_before(name) } else { None };
        // Its directory may have had another name.
        let seen = path.as_ref().and_then(|path| self.by_path.get(path)).copied();
        let file = seen.unwrap_or(self.files.len() as u32);
        self.states[name as usize] = State::File(file);
        if seen.is_none() {
            self.by_path.extend(path.clone().map(|path| (path, file)));
            let (is_fresh, is_before) = (path.is_none(), path.is_some() && !is_new);
            self.files.push(File {
                path,
                is_before,
                bytes_before: 0,
                written: Ranges::default(),
                end: 0,
                written_bytes: 0,
                is_fresh,
            });
        }
        Some(file)
    }

    /// Path before the first operation of what has a name now, if it is there then; none below a
    /// directory that the recording made: what is there came with another's name, or by a call
    /// that is left out.
    fn path_before(&mut self, name: u32) -> Option<Arc<str>> {
        let path = Arc::clone(&self.names.paths[name as usize]);
        let above = std::iter::successors(path.rsplit_once('/'), |(path, _)| path.rsplit_once('/'));
        let state = |path| Some(self.states[*self.names.numbers.get(path)? as usize]);
        for (directory, _) in above {
            match state(directory) {
                Some(State::Made) => return None,
                Some(State::Directory(index)) => {
                    let before = &self.directories[index as usize];
                    if **before == *directory {
                        break;
                    }
                    let moved = format!("{before}{}", &path[directory.len()..]);
                    self.moved_bytes += moved.len();
                    return Some(moved.into());
                }
                _ => {}
            }
        }
        Some(path)
    }

    /// Takes note that a directory of a name is found, but for one whose making is not recorded.
    fn is_directory(&mut self, name: u32) {
        self.needs_directory(name);
        if self.states[name as usize] != State::Absent {
            self.has_directory(name);
        }
    }

    /// Takes note that the directory of a name is there, before all where nothing made it.
    fn needs_directory(&mut self, name: u32) {
        if let Some(parent) = self.names.parents[name as usize] {
            self.has_directory(parent);
        }
    }

    fn has_directory(&mut self, name: u32) {
        let path = match self.states[name as usize] {
            State::Directory(_) | State::Made => return,
            // A call on it before told no kind.
            State::File(file) => {
                let file = &mut self.files[file as usize];
                file.is_before = false;
                file.path.clone().or_else(|| self.path_before(name))
            }
            State::Unknown | State::Absent => self.path_before(name),
        };
        self.states[name as usize] = match path {
            Some(path) => {
                self.directories.push(path);
                State::Directory(self.directories.len() as u32 - 1)
            }
            None => State::Made,
        };
    }
}
