//! The part of a recording that lies below one directory, and what must be there before it begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::operation::{FileAction, RecordedOperation};
use super::strace::{Recording, normal};
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
        part.find_before(names);
        Ok(part)
    }

    /// Finds what must be there before the first operation, and the file of each handle.
    fn find_before(&mut self, names: Names) {
        let mut before = Before::of(names, self.handles);
        self.operations.iter_mut().for_each(|operation| before.take(operation));
        let Before { names, states, files, open, directories } = before;
        for operation in self.operations.iter_mut().filter(|operation| !operation.is_call) {
            // Of one that was open before, nobody told that it is a directory.
            if let FileAction::Open { name, mode, .. } = &mut operation.action
                && matches!(states[*name as usize], State::Directory | State::Made)
            {
                mode.write = false;
            }
        }
        let path = |name: &u32| Arc::clone(&names.paths[*name as usize]);
        self.directories_before = directories.iter().map(path).collect();
        let needed = files.iter().filter(|file| file.is_before);
        self.files_before = needed
            .map(|file| FileBefore { path: path(&file.name), bytes: file.bytes_before })
            .collect();
        self.files = open.into_iter().map(|file| file.unwrap_or(u32::MAX)).collect();
        (self.names, self.parents) = (names.paths, names.parents);
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
    /// There before the first operation.
    Directory,
    /// Directory that an operation made.
    Made,
}

/// A file, whatever its name is.
struct File {
    /// Name under which it was first seen.
    name: u32,
    is_before: bool,
    bytes_before: u64,
    /// End of what was written since it was made or cut.
    written_end: u64,
    /// Whether nothing of what it held before is left.
    is_fresh: bool,
}

/// Names and files as the operations leave them.
struct Before {
    names: Names,
    states: Vec<State>,
    files: Vec<File>,
    /// File of each handle that is open.
    open: Vec<Option<u32>>,
    directories: Vec<u32>,
}

impl Before {
    fn of(names: Names, handles: u32) -> Before {
        let mut states = vec![State::Unknown; names.paths.len()];
        states[ITSELF as usize] = State::Directory;
        let open = vec![None; handles as usize];
        Before { names, states, files: Vec::new(), open, directories: Vec::new() }
    }

    fn take(&mut self, operation: &mut RecordedOperation) {
        match operation.action {
            _ if operation.fails => self.take_failed(operation.action),
            FileAction::Open { name, handle, mode } => {
                self.needs_directory(name);
                let is_new = match self.states[name as usize] {
                    State::Unknown => mode.create,
                    State::Absent => true,
                    State::File(_) | State::Directory | State::Made => false,
                };
                operation.makes = is_new || mode.exclusive;
                if mode.directory {
                    self.is_directory(name);
                }
                let file = self.file(name, is_new && !mode.directory);
                if let Some(file) = file.map(|file| &mut self.files[file as usize])
                    && (mode.truncate || mode.exclusive)
                {
                    (file.is_fresh, file.written_end) = (true, 0);
                }
                if let Some(handle) = handle {
                    self.open[handle as usize] = file;
                }
            }
            FileAction::Read { handle, offset, .. } => {
                let end = offset.saturating_add(operation.moved_bytes.into());
                if let Some(file) = self.of_handle(handle)
                    && operation.moved_bytes > 0
                    && !file.is_fresh
                    && end > file.written_end
                {
                    file.is_before = true;
                    file.bytes_before = file.bytes_before.max(end);
                }
            }
            FileAction::Write { handle, offset, .. } => {
                let end = offset.saturating_add(operation.moved_bytes.into());
                // Beyond a gap, what is before it was not written.
                if let Some(file) = self.of_handle(handle)
                    && offset <= file.written_end
                {
                    file.written_end = file.written_end.max(end);
                }
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
            FileAction::Rename { from, to } => {
                self.needs_directory(from);
                self.needs_directory(to);
                self.file(from, false);
                self.states[to as usize] = self.states[from as usize];
                self.states[from as usize] = State::Absent;
            }
            FileAction::Remove { name, directory } => {
                self.needs_directory(name);
                match directory {
                    true => self.is_directory(name),
                    false => drop(self.file(name, false)),
                }
                self.states[name as usize] = State::Absent;
            }
            FileAction::Sync { .. } | FileAction::LookAtOpen { .. } | FileAction::Close { .. } => {}
        }
    }

    /// Takes note of what an operation's failure tells of its name.
    fn take_failed(&mut self, action: FileAction) {
        match action {
            FileAction::MakeDirectory { name } => self.is_directory(name),
            FileAction::Open { name, mode, .. } if mode.exclusive => drop(self.file(name, false)),
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

    fn of_handle(&mut self, handle: u32) -> Option<&mut File> {
        let file = self.open[handle as usize]?;
        Some(&mut self.files[file as usize])
    }

    /// File of a name; of one that was not seen before, whether it is `new` must be told.
    fn file(&mut self, name: u32, is_new: bool) -> Option<u32> {
        match self.states[name as usize] {
            State::Directory | State::Made => return None,
            State::File(file) => return Some(file),
            State::Unknown | State::Absent => {}
        }
        let parent = self.names.parents[name as usize];
        // What is below a directory that the recording made came there with another's name, or by
        // a call that is left out.
        let is_below_made =
            parent.is_some_and(|parent| self.states[parent as usize] == State::Made);
        let is_unknown = self.states[name as usize] == State::Unknown;
        let is_before = !is_new && is_unknown && !is_below_made;
        // One that was absent is made, by a call that may not be in the recording.
        let is_fresh = self.states[name as usize] == State::Absent;
        let file = self.files.len() as u32;
        self.files.push(File { name, is_before, bytes_before: 0, written_end: 0, is_fresh });
        self.states[name as usize] = State::File(file);
        Some(file)
    }

    fn is_directory(&mut self, name: u32) {
        self.needs_directory(name);
        if self.states[name as usize] == State::Unknown {
            self.states[name as usize] = State::Directory;
            self.directories.push(name);
        }
    }

    /// Takes note that the directory of a name is there, before all where nothing made it.
    fn needs_directory(&mut self, name: u32) {
        let path = Arc::clone(&self.names.paths[name as usize]);
        let Some(parent) = self.names.parents[name as usize] else { return };
        if matches!(self.states[parent as usize], State::Directory | State::Made) {
            return;
        }
        let above = std::iter::successors(Some(&*path), |path| Some(path.rsplit_once('/')?.0));
        let mut numbers = above.filter_map(|path| self.names.numbers.get(path));
        // Nothing below a directory that the recording makes was there before.
        let is_made = numbers.any(|number| self.states[*number as usize] == State::Made);
        if let State::File(file) = self.states[parent as usize] {
            // A call looked at it before that tells no kind.
            self.files[file as usize].is_before = false;
        }
        self.states[parent as usize] = if is_made { State::Made } else { State::Directory };
        if !is_made {
            self.directories.push(parent);
        }
    }
}
