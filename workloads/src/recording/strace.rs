//! Output of strace as operations on files with their whole paths.

mod left_out;
mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::Arc;

use super::ahead::Ahead;
use super::call::{Answer, Call, Halves, Told, descriptor, string, unescaped, working_directory};
use super::operation::{
    Failure, FileAction, LeftOutCalls, OpenMode, RWF_APPEND, RWF_DSYNC, RecordedOperation,
};
use super::processes::Processes;
use crate::error::Error;
use crate::source::Skipped;
use crate::source::lines::{Line, Lines, Unusable, too_long, unread};
use links::{Directories, Links};

/// Most operations of a recording, which take about 80 bytes each, and as much again in order.
pub(super) const OPERATIONS_MAX: usize = 4 << 20;
/// Most memory for names, bytes.
pub(super) const NAME_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// Memory of a name, besides its text, up to the order of the operations, bytes.
const NAME_BYTES: usize = 320;
/// Memory of a count of calls that are left out, bytes.
const LEFT_OUT_BYTES: usize = 128;
/// Most memory for calls that are under way, bytes.
const HALVES_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 64 << 20 };
/// Most threads in all, which take about 120 bytes each.
const THREADS_MAX: usize = if cfg!(test) { 1 << 16 } else { 1 << 20 };
/// Most descriptors in all, which take about 20 bytes each.
const DESCRIPTORS_MAX: usize = if cfg!(test) { 1 << 16 } else { 16 << 20 };
/// Longest path of Linux, bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Next step where a file holds nothing of use.
const WANTED: &str = "record with `strace -f -ttt -T -y -o FILE PROGRAM`, or requests to a drive \
                      with `tools/block-requests.bt`";
/// Reason why calls that failed are counted as left out.
const FAILED: &str = "failed";

/// Calls that need no drive: what they take is strace's time.
const SHORT_CALLS: [&str; 9] =
    ["brk", "dup", "dup2", "fcntl", "fstat", "lseek", "mprotect", "rt_sigaction", "rt_sigprocmask"];
/// Number of them from which on they tell what strace takes.
const SHORT_CALLS_MIN: u64 = 100;
/// Time that strace takes as a multiple of theirs: reads of 1.5 us by 16 and by 32 threads took 1.5
/// times as long for each stop as short calls did while one thread was at work.
const STRACE_TIMES: u64 = 2;
/// Time that strace adds to a call where nothing tells it, ns: it stops the thread twice, at some
/// 10 us each.
const STRACE_NS: u64 = 100_000;

/// Operations of a recording, in the order of its lines.
#[derive(Default)]
pub struct Recording {
    pub(super) operations: Vec<RecordedOperation>,
    /// Paths from the root, by number.
    pub(super) names: Vec<Arc<str>>,
    pub(super) handles: Vec<u32>,
    /// Calls that are not done again, by name of the call and of the files, if there are any.
    pub(super) left_out: BTreeMap<(&'static str, [Option<u32>; 2]), LeftOutCalls>,
    /// Directories that symbolic links in paths lead to, by the links.
    pub(super) directories: Directories,
    /// Number of calls that name no whole path.
    pub(super) unresolved: u64,
    /// Calls that had begun when the recording ended.
    pub(super) unended: u64,
    pub(super) skipped: Skipped,
    /// Number of short calls beside which strace handled no other, and the sum of their times, ns.
    short_calls: (u64, u64),
}

impl Recording {
    /// Reads what strace wrote with `-f -ttt -T -y`, from its first line to its last.
    ///
    /// # Errors
    /// It can't be read, holds no call, or more than memory is meant for.
    pub fn read(reader: impl BufRead) -> Result<Recording, Error> {
        let mut lines = Ahead::new(Lines::new(reader), begins_thread);
        let (mut halves, mut strace) = (Halves::default(), Strace::default());
        let (mut unusable, mut calls) = (Unusable::default(), 0u64);
        while let Some((number, line)) = lines.next()? {
            unusable.pass(number, &line)?;
            let read = match line {
                Line::TooLong => Err(too_long()),
                Line::Whole(line) => {
                    strace.line(&mut halves, line).map_err(|why| unread(line, &why))
                }
            };
            match read {
                Ok(is_call) if is_call => {
                    calls += 1;
                    unusable = Unusable::default();
                }
                Ok(_) => {}
                Err(why) => strace.found.skipped.count(number, || why),
            }
            if halves.is_relative() {
                return Err(Error::new(format!(
                    "its times begin at 0: run strace without -r; {WANTED}"
                )));
            }
            if let Some((parent, shares)) = strace.begun.take()
                && let Some(child) = lines.answer(parent, number)?
            {
                strace.processes.begins(parent, child, shares);
            }
            let memory = [
                (strace.found.operations.len(), OPERATIONS_MAX, "operations on files"),
                (strace.name_bytes, NAME_BYTES_MAX, "bytes of names of files"),
                (halves.bytes(), HALVES_BYTES_MAX, "bytes of calls that are under way"),
                (strace.processes.threads(), THREADS_MAX, "threads"),
                (strace.processes.descriptors(), DESCRIPTORS_MAX, "descriptors of open files"),
            ];
            if let Some((_, most, what)) = memory.iter().find(|(found, most, _)| found > most) {
                return Err(Error::new(format!(
                    "the lines up to {number} have more than {most} {what}: record a shorter time"
                )));
            }
        }
        strace.follow_links().map_err(Error::new)?;
        let mut found = strace.found;
        found.unended = halves.unended();
        match calls {
            0 => Err(found.skipped.nothing_left(WANTED)),
            _ => Ok(found),
        }
    }

    /// Lines that could not be read, and why the first could not.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Number of calls of which it can't be told which file they were on, as their path is
    /// relative, and of those that had not ended.
    pub fn untold(&self) -> u64 {
        self.unresolved + self.unended
    }

    /// Time that strace adds to a call on average while it handles no other thread's, at most, ns.
    pub fn strace_ns(&self) -> u64 {
        let (count, sum_ns) = self.short_calls;
        match count {
            // None took time by strace's clock.
            SHORT_CALLS_MIN.. if sum_ns > 0 => sum_ns.saturating_mul(STRACE_TIMES).div_ceil(count),
            _ => STRACE_NS,
        }
    }
}

/// A recording that is being read.
#[derive(Default)]
struct Strace {
    found: Recording,
    processes: Processes,
    numbers: BTreeMap<Arc<str>, u32>,
    name_bytes: usize,
    /// Place of the next read or write of each handle, bytes.
    positions: Vec<u64>,
    /// Threads that are in a call of close, and the open file that it closes, if nothing else leads
    /// there.
    closing: BTreeMap<u32, Option<u32>>,
    /// Thread that begins another in this line, and whether they share their descriptors.
    begun: Option<(u32, bool)>,
    /// Open files that were made without a name.
    unnamed: BTreeSet<u32>,
    /// Names of files whose size was changed by calls that are not done again.
    resized: BTreeSet<u32>,
    links: Links,
}

/// Name that the arguments of a call lead to.
enum Named {
    Path(u32),
    /// The open file itself; none where it is no file.
    Open(Option<u32>),
    /// A path that is relative to nobody knows which directory.
    Unresolved,
}

impl Strace {
    /// Reads a line; whether it is the end of a call.
    fn line(&mut self, halves: &mut Halves, line: &[u8]) -> Result<bool, String> {
        let text = std::str::from_utf8(line).map_err(|_| "it is no text")?;
        self.take(&halves.read(text)?)
    }

    /// Takes the meaning of a line; whether it is the end of a call.
    fn take(&mut self, told: &Told<'_>) -> Result<bool, String> {
        match told {
            Told::Call(call) => {
                self.call(call)?;
                return Ok(true);
            }
            Told::Begins { thread, name, arguments } if begins_thread(name) => {
                self.begun = Some((*thread, shares_files(arguments)));
            }
            // The kernel may give the number to another thread before the call's end is seen.
            Told::Begins { thread, name: "close", arguments } => {
                let (arguments, answer) = (vec![*arguments], Answer::Other);
                let call = Call {
                    thread: *thread,
                    begin_ns: 0,
                    took_ns: 0,
                    lines_between: 0,
                    name: "close",
                    arguments,
                    answer,
                };
                if let Some(last) = self.close(&call)? {
                    self.closing.insert(*thread, last);
                }
            }
            Told::Exit { thread, time_ns } => {
                let index = self.processes.index_of(*thread);
                let closing = self.closing.remove(thread).flatten();
                for handle in self.processes.exit(*thread).into_iter().chain(closing) {
                    self.close_unseen(index, *time_ns, handle);
                }
            }
            Told::Begins { .. } | Told::Nothing => {}
        }
        Ok(false)
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), String> {
        if let Some(told) = call.arguments.first().and_then(|first| working_directory(first)) {
            let path = unescaped(told).ok_or("its directory is no path")?;
            // A directory that can't be reached has no path from the root.
            let name = normal(&path).map(|path| self.number(&path)).transpose()?;
            *self.processes.working_directory(call.thread) = name;
        }
        if call.lines_between == 0 && SHORT_CALLS.contains(&call.name) {
            let (count, sum_ns) = &mut self.found.short_calls;
            (*count, *sum_ns) = (*count + 1, sum_ns.saturating_add(call.took_ns));
        }
        match call.name {
            "open" | "creat" | "openat" | "openat2" => self.opens(call),
            "read" | "readv" | "write" | "writev" => self.moves(call, None),
            "pread64" | "pwrite64" => self.moves(call, Some(3)),
            "preadv" | "preadv2" | "pwritev" | "pwritev2" => self.moves(call, Some(3)),
            "fsync" | "fdatasync" => {
                let data_only = call.name == "fdatasync";
                self.on_open(call, true, |handle| FileAction::Sync { handle, data_only })
            }
            "fstat" => {
                let bytes = file_bytes(call);
                self.on_open(call, false, |handle| FileAction::LookAtOpen { handle, bytes })
            }
            "stat" | "lstat" | "access" => self.looks(call, 0),
            "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" => {
                self.looks(call, 1)
            }
            "mkdir" => self.on_name(call, 0, |name| FileAction::MakeDirectory { name }),
            "mkdirat" => self.on_name(call, 1, |name| FileAction::MakeDirectory { name }),
            "unlink" => self.on_name(call, 0, |name| FileAction::Remove { name, directory: false }),
            "rmdir" => self.on_name(call, 0, |name| FileAction::Remove { name, directory: true }),
            "unlinkat" => {
                let directory = argument(call, 2)?.contains("AT_REMOVEDIR");
                self.on_name(call, 1, |name| FileAction::Remove { name, directory })
            }
            "rename" | "renameat" => {
                self.on_names(call, |from, to| FileAction::Rename { from, to, exclusive: false })
            }
            "renameat2" => match argument(call, 4)? {
                flags @ ("0" | "RENAME_NOREPLACE") => {
                    let exclusive = flags != "0";
                    self.on_names(call, |from, to| FileAction::Rename { from, to, exclusive })
                }
                _ => self.leaves_out(call, "renameat2"),
            },
            "link" | "linkat" => self.on_names(call, |from, to| FileAction::Link { from, to }),
            "lseek" => {
                let Answer::Value { value, .. } = call.answer else { return Ok(()) };
                let Some(handle) = self.handle(call, 0, false)? else { return Ok(()) };
                self.positions[handle as usize] = value;
                if call.arguments[1..] == ["0", "SEEK_END"] {
                    let bytes = Some(value);
                    let thread = self.processes.index_of(call.thread);
                    self.add(thread, call.begin_ns, FileAction::LookAtOpen { handle, bytes });
                }
                Ok(())
            }
            "close" => self.closes(call),
            "dup" | "dup2" | "dup3" | "fcntl" => self.duplicates(call),
            "ioctl" | "close_range" | "execve" | "execveat" | "unshare" => self.descriptors(call),
            "copy_file_range" | "splice" => self.copies(call, [(0, Some(1)), (2, Some(3))]),
            "sendfile" => self.copies(call, [(1, Some(2)), (0, None)]),
            "chdir" | "fchdir" => {
                let Answer::Value { .. } = call.answer else { return Ok(()) };
                let name = match call.name {
                    "fchdir" => self.name_of_open(call, 0)?,
                    _ => match self.named(call, None, 0)? {
                        Named::Path(name) => Some(name),
                        Named::Open(_) | Named::Unresolved => None,
                    },
                };
                *self.processes.working_directory(call.thread) = name;
                Ok(())
            }
            name if begins_thread(name) => {
                let child = match call.answer {
                    Answer::Value { value, .. } => u32::try_from(value).ok().filter(|id| *id > 0),
                    _ => None,
                };
                let shares = call.arguments.iter().any(|argument| shares_files(argument));
                if let Some(child) = child {
                    self.processes.begins(call.thread, child, shares);
                }
                Ok(())
            }
            name => self.leaves_out(call, name),
        }
    }

    /// Adds an operation for which the recording has no call.
    fn add(&mut self, thread: u32, begin_ns: u64, action: FileAction) {
        self.found.operations.push(RecordedOperation {
            begin_ns,
            took_ns: 0,
            thread,
            action: self.with_size_before(action),
            failure: None,
            makes: false,
            moved_bytes: match action {
                FileAction::Write { bytes, .. } => bytes,
                _ => 0,
            },
            strace_waits: 0,
            is_call: false,
        });
    }

    /// Adds an operation of a call that ended in a way that another drive has, too.
    fn push(&mut self, call: &Call<'_>, action: FileAction, moved: u64) -> Result<(), String> {
        let failure = match call.answer {
            Answer::Value { .. } => None,
            Answer::Failed(errno) => match Failure::of(errno) {
                None => {
                    let mut action = action;
                    let (names, handle) = action.operands();
                    let of_open = handle.map(|handle| self.found.handles[*handle as usize]);
                    let name = names.map(|name| *name).last().or(of_open);
                    self.count_left_out(FAILED, [name, None], 0);
                    return Ok(());
                }
                known => known,
            },
            Answer::Other => return Ok(()),
        };
        let moved_bytes = u32::try_from(moved).ok().filter(|moved| *moved < 1 << 31);
        self.found.operations.push(RecordedOperation {
            begin_ns: call.begin_ns,
            took_ns: call.took_ns,
            thread: self.processes.index_of(call.thread),
            action: self.with_size_before(action),
            failure,
            makes: false,
            moved_bytes: moved_bytes.ok_or("no call moves as many bytes")?,
            // Every other thread can have one stop before it.
            strace_waits: call.lines_between.min(self.processes.alive() as u64 - 1) as u32,
            is_call: true,
        });
        Ok(())
    }

    /// The operation, whose size says nothing of that before where a call has changed it.
    fn with_size_before(&self, action: FileAction) -> FileAction {
        let is_resized = |name: &u32| self.resized.contains(name);
        match action {
            FileAction::Look { name, directory, .. } if is_resized(&name) => {
                FileAction::Look { name, directory, bytes: None }
            }
            FileAction::LookAtOpen { handle, .. }
                if is_resized(&self.found.handles[handle as usize]) =>
            {
                FileAction::LookAtOpen { handle, bytes: None }
            }
            action => action,
        }
    }

    fn count_left_out(&mut self, call: &'static str, names: [Option<u32>; 2], bytes: u64) {
        let counts = &mut self.found.left_out;
        let before = counts.len();
        counts.entry((call, names)).or_default().add(&LeftOutCalls { count: 1, bytes });
        self.name_bytes += (counts.len() - before) * LEFT_OUT_BYTES;
    }

    fn opens(&mut self, call: &Call<'_>) -> Result<(), String> {
        let (directory, path) = match call.name {
            "open" | "creat" => (None, 0),
            _ => (Some(0), 1),
        };
        let flags = match call.name {
            "creat" => "O_WRONLY|O_CREAT|O_TRUNC",
            _ => argument(call, path + 1)?,
        };
        let has = |flag: &str| has_flag(flags, flag);
        let (fd, note) = match call.answer {
            Answer::Value { value, note } => (u32::try_from(value).ok(), note),
            _ => (None, None),
        };
        let is_unnamed = has("O_TMPFILE") && fd.is_some();
        let told = note.and_then(|told| decoded(told).ok());
        let told = told.map(|told| self.number(&told)).transpose()?;
        let given = match self.named(call, directory, path)? {
            Named::Path(name) => Some(name),
            Named::Open(_) | Named::Unresolved => None,
        };
        // One without a name has that of its inode: `#12`, in the directory.
        let Some(name) = given.filter(|_| !is_unnamed).or(told) else {
            self.found.unresolved += 1;
            return Ok(());
        };
        if has("O_PATH") {
            return Ok(());
        }
        let writes = has("O_WRONLY");
        let mode = OpenMode {
            read: !writes,
            write: writes || has("O_RDWR"),
            create: has("O_CREAT") || is_unnamed,
            exclusive: has("O_EXCL") || is_unnamed,
            truncate: has("O_TRUNC"),
            append: has("O_APPEND"),
            direct: has("O_DIRECT"),
            sync: has("O_SYNC"),
            data_sync: has("O_DSYNC"),
            directory: has("O_DIRECTORY"),
        };
        let handle = fd.map(|fd| self.new_handle(call, fd, name, has("O_CLOEXEC")));
        if let Some(told) = told.filter(|_| handle.is_some()) {
            self.links.opened(self.found.operations.len(), name, told);
        }
        self.unnamed.extend(handle.filter(|_| is_unnamed));
        self.push(call, FileAction::Open { name, handle, mode }, 0)
    }

    fn new_handle(
        &mut self,
        call: &Call<'_>,
        descriptor: u32,
        name: u32,
        closes_on_exec: bool,
    ) -> u32 {
        let handle = self.processes.new_file();
        self.positions.push(0);
        self.found.handles.push(name);
        // The one before was closed by a call that the recording does not have.
        let closed = self.processes.set(call.thread, descriptor, handle, closes_on_exec);
        self.close_by(call, closed);
        handle
    }

    /// Open file that an argument leads to. One that was open before the recording began is opened
    /// now, if it `may_open`; none for what is no file.
    fn handle(
        &mut self,
        call: &Call<'_>,
        place: usize,
        may_open: bool,
    ) -> Result<Option<u32>, String> {
        let (fd, note) = descriptor(argument(call, place)?).ok_or("it has no descriptor")?;
        let told = match note {
            Some(path) if path.starts_with('/') => Some(decoded(path)?),
            Some(_) => return Ok(None),
            None => None,
        };
        let Recording { handles, names, .. } = &self.found;
        let has_path = |handle: u32| {
            let name = handles[handle as usize] as usize;
            told.as_deref().is_some_and(|told| told == &*names[name])
        };
        if let Some(handle) = self.processes.file(call.thread, fd, has_path) {
            return Ok(Some(handle));
        }
        let Some(path) = told.filter(|_| may_open) else { return Ok(None) };
        let name = self.number(&path)?;
        // Another program that has it all the same is told of by its path.
        let handle = self.new_handle(call, fd, name, true);
        let mode = OpenMode { read: true, write: true, ..OpenMode::default() };
        let thread = self.processes.index_of(call.thread);
        self.add(thread, call.begin_ns, FileAction::Open { name, handle: Some(handle), mode });
        Ok(Some(handle))
    }

    fn on_open(
        &mut self,
        call: &Call<'_>,
        may_open: bool,
        action: impl FnOnce(u32) -> FileAction,
    ) -> Result<(), String> {
        match self.handle(call, 0, may_open)? {
            Some(handle) => self.push(call, action(handle), 0),
            None => Ok(()),
        }
    }

    /// A read or write, at the file's position where no argument says where.
    fn moves(&mut self, call: &Call<'_>, offset: Option<usize>) -> Result<(), String> {
        let Some(handle) = self.handle(call, 0, true)? else { return Ok(()) };
        let moved = match call.answer {
            Answer::Value { value, .. } => value,
            _ => 0,
        };
        // preadv2 and pwritev2: -1 is the file's position.
        let told = offset.map(|place| argument(call, place)).transpose()?;
        let offset = match told.filter(|told| *told != "-1") {
            Some(told) => told.parse().map_err(|_| "it has no offset")?,
            None => self.moves_position(handle, moved)?,
        };
        // A buffer has room for what was moved: no more is asked for than up to the end of a block.
        let asked = match call.name.contains('v') {
            // O_DIRECT takes whole blocks alone, also where the file ends.
            true => vector_bytes(argument(call, 1)?).max(moved),
            false => argument(call, 2)?.parse().map_err(|_| "it has no length")?,
        };
        if moved > asked {
            return Err("it moved more than it was asked for".to_owned());
        }
        let block_bytes = moved.max(1).checked_next_multiple_of(4096).ok_or("it has no length")?;
        let bytes = match call.name.contains("read") {
            true => asked.min(block_bytes),
            // A write that ended early is one of what it wrote.
            false => moved,
        };
        let bytes = u32::try_from(bytes).map_err(|_| "no call moves as many bytes")?;
        let flags = match call.name.ends_with("v2") {
            true => move_flags(argument(call, 4)?)?,
            false => 0,
        };
        let action = match call.name.contains("read") {
            true => FileAction::Read { handle, offset, bytes, flags },
            false => FileAction::Write { handle, offset, bytes, flags },
        };
        match (bytes, call.answer) {
            (0, Answer::Value { .. }) => Ok(()),
            _ => self.push(call, action, moved),
        }
    }

    fn looks(&mut self, call: &Call<'_>, path: usize) -> Result<(), String> {
        let directory = call.arguments.iter().any(|told| told.contains("mode=S_IFDIR"));
        let bytes = file_bytes(call);
        self.on_name(call, path, |name| FileAction::Look { name, directory, bytes })
    }

    fn on_name(
        &mut self,
        call: &Call<'_>,
        path: usize,
        action: impl FnOnce(u32) -> FileAction,
    ) -> Result<(), String> {
        match self.named(call, (path == 1).then_some(0), path)? {
            Named::Path(name) => self.push(call, action(name), 0),
            Named::Open(Some(handle)) => {
                let bytes = file_bytes(call);
                self.push(call, FileAction::LookAtOpen { handle, bytes }, 0)
            }
            Named::Open(None) => Ok(()),
            Named::Unresolved => {
                self.found.unresolved += 1;
                Ok(())
            }
        }
    }

    fn on_names(
        &mut self,
        call: &Call<'_>,
        action: impl FnOnce(u32, u32) -> FileAction,
    ) -> Result<(), String> {
        let names = match call.name {
            "rename" | "link" => (self.named(call, None, 0)?, self.named(call, None, 1)?),
            _ => (self.named(call, Some(0), 1)?, self.named(call, Some(2), 3)?),
        };
        let names = match names {
            (Named::Open(Some(handle)), to) => {
                (Named::Path(self.found.handles[handle as usize]), to)
            }
            names => names,
        };
        match names {
            (Named::Path(from), Named::Path(to)) => self.push(call, action(from, to), 0),
            _ => {
                self.found.unresolved += 1;
                Ok(())
            }
        }
    }

    fn closes(&mut self, call: &Call<'_>) -> Result<(), String> {
        let closed = match self.closing.remove(&call.thread) {
            Some(last) => Some(last),
            None => self.close(call)?,
        };
        let Some(handle) = closed.flatten() else { return Ok(()) };
        let thread = self.processes.index_of(call.thread);
        self.remove_unnamed(thread, call.begin_ns, handle);
        self.push(call, FileAction::Close { handle }, 0)
    }

    /// Takes away the descriptor that a call closes, if it leads to a file: the open file, if
    /// nothing else leads to it.
    fn close(&mut self, call: &Call<'_>) -> Result<Option<Option<u32>>, String> {
        if argument(call, 0)?.starts_with('-') {
            return Ok(None);
        }
        let Some(_known) = self.handle(call, 0, false)? else { return Ok(None) };
        let (fd, _) = descriptor(argument(call, 0)?).ok_or("it has no descriptor")?;
        Ok(Some(self.processes.close(call.thread, fd)))
    }

    fn duplicates(&mut self, call: &Call<'_>) -> Result<(), String> {
        let Answer::Value { value, .. } = call.answer else { return Ok(()) };
        let flag = call.arguments.last().copied().unwrap_or_default();
        let closes_on_exec = match call.name {
            "fcntl" => match argument(call, 1)? {
                "F_SETFD" => return self.set_closes_on_exec(call, flag == "FD_CLOEXEC"),
                "F_DUPFD" => false,
                "F_DUPFD_CLOEXEC" => true,
                "F_SETFL" => return self.set_flags(call, flag),
                _ => return Ok(()),
            },
            _ => flag == "O_CLOEXEC",
        };
        let to = u32::try_from(value).map_err(|_| "it has no descriptor")?;
        let from = self.handle(call, 0, false)?;
        let (fd, _) = descriptor(argument(call, 0)?).ok_or("it has no descriptor")?;
        let replaced = match from {
            // dup2 of a descriptor to itself does nothing.
            Some(_) if fd == to => None,
            Some(handle) => self.processes.set(call.thread, to, handle, closes_on_exec),
            None => self.processes.close(call.thread, to),
        };
        self.close_by(call, replaced);
        Ok(())
    }

    fn set_flags(&mut self, call: &Call<'_>, flags: &str) -> Result<(), String> {
        let Some(handle) = self.handle(call, 0, true)? else { return Ok(()) };
        let (append, direct) = (has_flag(flags, "O_APPEND"), has_flag(flags, "O_DIRECT"));
        let thread = self.processes.index_of(call.thread);
        self.add(thread, call.begin_ns, FileAction::SetFlags { handle, append, direct });
        Ok(())
    }

    fn set_closes_on_exec(&mut self, call: &Call<'_>, closes: bool) -> Result<(), String> {
        let (fd, _) = descriptor(argument(call, 0)?).ok_or("it has no descriptor")?;
        self.processes.set_closes_on_exec(call.thread, fd..=fd, closes);
        Ok(())
    }

    /// A call that changes descriptors, besides those on one of them.
    fn descriptors(&mut self, call: &Call<'_>) -> Result<(), String> {
        let Answer::Value { .. } = call.answer else { return Ok(()) };
        let flags = call.arguments.last().copied().unwrap_or_default();
        let closed = match call.name {
            "ioctl" => match argument(call, 1)? {
                request @ ("FIOCLEX" | "FIONCLEX") => {
                    return self.set_closes_on_exec(call, request == "FIOCLEX");
                }
                _ => return self.leaves_out(call, "ioctl"),
            },
            "close_range" => {
                let end = |place| {
                    argument(call, place)?.parse().map_err(|_| "it has no range".to_owned())
                };
                let range = end(0)?..=end(1)?;
                if flags.contains("CLOSE_RANGE_UNSHARE") {
                    self.processes.unshare(call.thread);
                }
                if flags.contains("CLOSE_RANGE_CLOEXEC") {
                    self.processes.set_closes_on_exec(call.thread, range, true);
                    return Ok(());
                }
                self.processes.close_range(call.thread, &range)
            }
            "unshare" => {
                if shares_files(flags) {
                    self.processes.unshare(call.thread);
                }
                return Ok(());
            }
            _ => self.processes.executes(call.thread),
        };
        closed.into_iter().for_each(|handle| self.close_by(call, Some(handle)));
        Ok(())
    }

    fn close_by(&mut self, call: &Call<'_>, handle: Option<u32>) {
        if let Some(handle) = handle {
            let thread = self.processes.index_of(call.thread);
            self.close_unseen(thread, call.begin_ns, handle);
        }
    }

    fn close_unseen(&mut self, thread: u32, begin_ns: u64, handle: u32) {
        self.remove_unnamed(thread, begin_ns, handle);
        self.add(thread, begin_ns, FileAction::Close { handle });
    }

    /// Removes the name that a replay gives a file that was made without one, before it is closed.
    fn remove_unnamed(&mut self, thread: u32, begin_ns: u64, handle: u32) {
        if self.unnamed.remove(&handle) {
            let name = self.found.handles[handle as usize];
            self.add(thread, begin_ns, FileAction::Remove { name, directory: false });
        }
    }

    /// Place of an open file before so many bytes were moved there.
    fn moves_position(&mut self, handle: u32, moved: u64) -> Result<u64, String> {
        let position = &mut self.positions[handle as usize];
        let end = position.checked_add(moved).ok_or("it is beyond the end of any file")?;
        Ok(std::mem::replace(position, end))
    }

    /// Name that a path's argument is, from the directory of another argument if there is one.
    fn named(
        &mut self,
        call: &Call<'_>,
        directory: Option<usize>,
        path: usize,
    ) -> Result<Named, String> {
        let path = string(argument(call, path)?).ok_or("its path is no string")?;
        // Its argument stands before that of the path.
        let is_told = |place: &usize| !call.arguments[*place].starts_with("AT_FDCWD");
        let Some(place) = directory.filter(is_told).filter(|_| !path.starts_with('/')) else {
            return Ok(match self.absolute(call.thread, &path) {
                Some(path) => Named::Path(self.number(&path)?),
                None => Named::Unresolved,
            });
        };
        if path.is_empty() && call.arguments.iter().any(|flags| flags.contains("AT_EMPTY_PATH")) {
            return Ok(Named::Open(self.handle(call, place, false)?));
        }
        let base = self.name_of_open(call, place)?;
        Ok(match base.and_then(|base| self.below(base, &path)) {
            Some(path) => Named::Path(self.number(&path)?),
            None => Named::Unresolved,
        })
    }

    /// Name of an argument's descriptor: what strace tells of it, or what was opened.
    fn name_of_open(&mut self, call: &Call<'_>, place: usize) -> Result<Option<u32>, String> {
        let (_, note) = descriptor(argument(call, place)?).ok_or("it has no directory")?;
        match note {
            Some(told) => self.number(&decoded(told)?).map(Some),
            None => {
                let open = self.handle(call, place, false)?;
                Ok(open.map(|open| self.found.handles[open as usize]))
            }
        }
    }

    /// Path from the root; none where it is relative to a directory that nobody told.
    fn absolute(&mut self, thread: u32, path: &str) -> Option<String> {
        if let Some(fd) = path.strip_prefix("/proc/self/fd/").and_then(|fd| fd.parse().ok())
            && let Some(handle) = self.processes.file(thread, fd, |_| false)
        {
            let name = self.found.handles[handle as usize];
            return Some(self.found.names[name as usize].to_string());
        }
        if path.starts_with('/') {
            return normal(path);
        }
        let base = (*self.processes.working_directory(thread))?;
        self.below(base, path)
    }

    fn below(&self, base: u32, path: &str) -> Option<String> {
        normal(&format!("{}/{path}", self.found.names[base as usize]))
    }

    fn number(&mut self, path: &str) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(*number);
        }
        if path.len() > PATH_BYTES_MAX || path.contains('\0') {
            return Err("its path is none of Linux".to_owned());
        }
        self.name_bytes += path.len() + NAME_BYTES;
        let number = self.found.names.len() as u32;
        let path: Arc<str> = path.into();
        self.found.names.push(Arc::clone(&path));
        self.numbers.insert(path, number);
        Ok(number)
    }
}

fn argument<'a>(call: &Call<'a>, place: usize) -> Result<&'a str, String> {
    call.arguments.get(place).copied().ok_or_else(|| format!("its call of {} is cut", call.name))
}

fn has_flag(flags: &str, flag: &str) -> bool {
    flags.split(|c: char| !is_word(c)).any(|word| word == flag)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Flags of `preadv2` and `pwritev2`, as the kernel has them.
fn move_flags(told: &str) -> Result<u32, String> {
    let flag = |word: &str| match word.split(' ').next().unwrap_or_default() {
        "RWF_HIPRI" => Some(0x1),
        "RWF_DSYNC" => Some(RWF_DSYNC),
        "RWF_SYNC" => Some(0x4),
        "RWF_NOWAIT" => Some(0x8),
        "RWF_APPEND" => Some(RWF_APPEND),
        // Of those that are younger than strace.
        number => match number.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        },
    };
    let flags = told.split('|').try_fold(0, |flags, word| Some(flags | flag(word)?));
    flags.ok_or_else(|| format!("it has flags that are not known: {told}"))
}

/// Size that a call tells of a regular file, bytes.
fn file_bytes(call: &Call<'_>) -> Option<u64> {
    let told = call.arguments.iter().find(|told| told.contains("mode=S_IFREG"))?;
    let (_, rest) = told.split_once("_size=")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Path that is told of a descriptor.
fn decoded(told: &str) -> Result<String, String> {
    unescaped(told).and_then(|path| normal(&path)).ok_or_else(|| "it has no path".to_owned())
}

/// Sum of the lengths of a vector's buffers.
fn vector_bytes(told: &str) -> u64 {
    let lengths = told.split("iov_len=").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u64>().ok()
    });
    lengths.fold(0, u64::saturating_add)
}

fn begins_thread(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

fn shares_files(arguments: &str) -> bool {
    arguments.contains("CLONE_FILES")
}

/// Path from the root without `.`, `..` and double slashes; none where it is relative.
pub(super) fn normal(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                // The root is above itself.
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}
