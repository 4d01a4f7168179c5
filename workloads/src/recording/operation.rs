//! Operations of a recording.

/// Flag of `pwritev2` with which the data of a write is made durable.
pub(super) const RWF_DSYNC: u32 = 0x2;
/// Flag of `pwritev2` with which a write goes to the end of the file.
pub(super) const RWF_APPEND: u32 = 0x10;

/// Way in which a file was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// Whether it was opened to be read.
    pub read: bool,
    /// Whether it was opened to be written.
    pub write: bool,
    /// Whether it was made where it was missing (`O_CREAT`).
    pub create: bool,
    /// Whether it had to be missing (`O_EXCL`).
    pub exclusive: bool,
    /// Whether what it held was dropped (`O_TRUNC`).
    pub truncate: bool,
    /// Whether every write went to its end (`O_APPEND`).
    pub append: bool,
    /// Whether the page cache was passed by (`O_DIRECT`).
    pub direct: bool,
    /// Whether every write was made durable (`O_SYNC`).
    pub sync: bool,
    /// Whether the data of every write was made durable (`O_DSYNC`).
    pub data_sync: bool,
    /// Whether it had to be a directory (`O_DIRECTORY`).
    pub directory: bool,
}

/// Operation on files. A name is its number in [`Part::names`](super::Part::names); a handle is an
/// open file, whatever descriptors lead to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAction {
    /// Opens a file or a directory; of one that failed, the handle is none.
    Open {
        /// Name that is opened.
        name: u32,
        /// Open file that it becomes.
        handle: Option<u32>,
        /// Purpose and flags.
        mode: OpenMode,
    },
    /// Reads in one call.
    Read {
        /// Open file, by its number.
        handle: u32,
        /// Place in the file, bytes.
        offset: u64,
        /// Number of bytes that are asked for, below 2 GiB.
        bytes: u32,
        /// Flags of `preadv2` (`RWF_NOWAIT` …); 0 of other calls.
        flags: u32,
    },
    /// Writes in one call.
    Write {
        /// Open file, by its number.
        handle: u32,
        /// Place in the file, bytes.
        offset: u64,
        /// Number of bytes, below 2 GiB.
        bytes: u32,
        /// Flags of `pwritev2` (`RWF_DSYNC` …); 0 of other calls.
        flags: u32,
    },
    /// Changes the flags of an open file (`F_SETFL`).
    SetFlags {
        /// Open file, by its number.
        handle: u32,
        /// Whether every write goes to its end from now on.
        append: bool,
        /// Whether the page cache is passed by from now on.
        direct: bool,
    },
    /// Makes a file durable.
    Sync {
        /// Open file, by its number.
        handle: u32,
        /// Whether it is `fdatasync`.
        data_only: bool,
    },
    /// Asks for a name's properties.
    Look {
        /// Name of a file or directory.
        name: u32,
        /// Whether a directory was found.
        directory: bool,
        /// Size of a file, where the recording tells it, bytes.
        bytes: Option<u64>,
    },
    /// Asks for an open file's properties.
    LookAtOpen {
        /// Open file, by its number.
        handle: u32,
        /// Size of the file, where the recording tells it, bytes.
        bytes: Option<u64>,
    },
    /// Makes a directory.
    MakeDirectory {
        /// Name that the directory gets.
        name: u32,
    },
    /// Gives a file another name.
    Rename {
        /// Name that it has.
        from: u32,
        /// Name that it gets.
        to: u32,
        /// Whether nothing may have that name (`RENAME_NOREPLACE`).
        exclusive: bool,
    },
    /// Gives a file one more name.
    Link {
        /// Name that it has.
        from: u32,
        /// Name that it gets, too.
        to: u32,
    },
    /// Removes a name.
    Remove {
        /// Name of a file or directory.
        name: u32,
        /// Whether it is a directory's.
        directory: bool,
    },
    /// Closes a file.
    Close {
        /// Open file, by its number.
        handle: u32,
    },
}

impl FileAction {
    /// Numbers of the names and of the open file that it is on.
    pub(super) fn operands(&mut self) -> (impl Iterator<Item = &mut u32>, Option<&mut u32>) {
        let (name, second, handle) = match self {
            FileAction::Open { name, handle, .. } => (Some(name), None, handle.as_mut()),
            FileAction::Rename { from, to, .. } | FileAction::Link { from, to } => {
                (Some(from), Some(to), None)
            }
            FileAction::Look { name, .. }
            | FileAction::MakeDirectory { name }
            | FileAction::Remove { name, .. } => (Some(name), None, None),
            FileAction::Read { handle, .. }
            | FileAction::Write { handle, .. }
            | FileAction::Sync { handle, .. }
            | FileAction::SetFlags { handle, .. }
            | FileAction::LookAtOpen { handle, .. }
            | FileAction::Close { handle } => (None, None, Some(handle)),
        };
        (name.into_iter().chain(second), handle)
    }
}

/// Error of a call that it has on any drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// `ENOENT`: the name, or a directory above it, is missing.
    NotFound,
    /// `EEXIST`: something has the name already.
    Exists,
    /// `ENOTDIR`: the name, or one above it, is none of a directory.
    NotDirectory,
    /// `EISDIR`: the name is a directory's.
    IsDirectory,
    /// `ENOTEMPTY`: there is something in the directory.
    NotEmpty,
}

impl Failure {
    /// Error of that name; none for those that another drive need not have.
    pub(super) fn of(errno: &str) -> Option<Failure> {
        match errno {
            "ENOENT" => Some(Failure::NotFound),
            "EEXIST" => Some(Failure::Exists),
            "ENOTDIR" => Some(Failure::NotDirectory),
            "EISDIR" => Some(Failure::IsDirectory),
            "ENOTEMPTY" => Some(Failure::NotEmpty),
            _ => None,
        }
    }
}

/// Operation as it was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedOperation {
    /// When it began, ns since 1970.
    pub begin_ns: u64,
    /// Duration of the call, ns.
    pub took_ns: u64,
    /// Number of the thread, in the order in which threads were seen.
    pub thread: u32,
    /// Operation with its operands.
    pub action: FileAction,
    /// Error with which the call failed in the recording, if it did.
    pub failure: Option<Failure>,
    /// Whether it opened a file that was not there.
    pub makes: bool,
    /// Number of bytes that were moved.
    pub moved_bytes: u32,
    /// Number of stops of other threads that strace may have handled before its end.
    pub strace_waits: u32,
    /// Whether it is a call of the recording: not the opening of a file that was open before, nor
    /// the closing of one by the end of its process.
    pub is_call: bool,
}

impl RecordedOperation {
    /// When it ended, ns since 1970.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns.saturating_add(self.took_ns)
    }
}

/// Operation of another lane that must have ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct After {
    /// Index of the lane.
    pub lane: u32,
    /// Index of the operation in that lane.
    pub place: u32,
}

/// Operation in its lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneOperation {
    /// Operation as it was recorded.
    pub operation: RecordedOperation,
    /// Time from the end of the last that it followed, in its own lane or another, ns.
    pub gap_ns: u64,
    /// Operations of other lanes that it followed.
    pub after: Box<[After]>,
}

/// Calls that are not done again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftOutCalls {
    /// Number of calls of one name.
    pub count: u64,
    /// Bytes that they copied.
    pub bytes: u64,
}

impl LeftOutCalls {
    pub(super) fn add(&mut self, other: &LeftOutCalls) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}
