//! Files and directories below the directory of all as the operations leave them, each known by
//! what it is, whatever its names are: which of them must be there before, and the space that they
//! take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::operation::{Failure, FileAction, RWF_APPEND, RecordedOperation};
use super::strace::NAME_BYTES_MAX;
use crate::error::Error;

/// Number of the directory of all, as a name and as a directory.
pub(super) const ITSELF: u32 = 0;
/// Memory of a name in a directory and of what it leads to, bytes: about 110.
const ENTRY_BYTES: usize = 128;

/// Name in a directory: the number of the directory, and that of the name's text.
type Place = (u32, u32);
/// Place of the directory of all, which is in none.
const TOP: Place = (u32::MAX, u32::MAX);

/// Paths below the directory of all, by number.
pub(super) struct Names {
    pub(super) paths: Vec<Arc<str>>,
    /// Parts of each path, by the numbers of their texts.
    parts: Vec<Arc<[u32]>>,
    texts: Vec<Arc<str>>,
    numbers: BTreeMap<Arc<str>, u32>,
}

impl Names {
    /// Names of which the first is [`ITSELF`].
    pub(super) fn new() -> Names {
        Names {
            paths: vec![".".into()],
            parts: vec![[].into()],
            texts: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, path: &str) -> u32 {
        let parts = path.split('/').map(|text| self.text(text)).collect();
        self.parts.push(parts);
        self.paths.push(path.into());
        // Fewer than bytes of names, as the texts are.
        (self.paths.len() - 1) as u32
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let (text, number): (Arc<str>, u32) = (text.into(), self.texts.len() as u32);
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// Nearest directory above each name that is a name itself, but for that of all.
    pub(super) fn parents(&self) -> Vec<Option<u32>> {
        let parts = |name: u32| &*self.parts[name as usize];
        let mut names: Vec<u32> = (ITSELF + 1..self.paths.len() as u32).collect();
        // A directory stands right before what is below it.
        names.sort_unstable_by_key(|name| parts(*name));
        let (mut parents, mut above) = (vec![None; self.paths.len()], Vec::new());
        for name in names {
            while above.last().is_some_and(|last| !parts(name).starts_with(parts(*last))) {
                above.pop();
            }
            parents[name as usize] = above.last().copied();
            above.push(name);
        }
        parents
    }
}

/// File that the recording finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileBefore {
    /// Path below the directory.
    pub path: Arc<str>,
    /// Bytes of it up to the last that was read before it was written, or written over, and all
    /// where it was emptied or removed, as far as the recording tells its size.
    pub bytes: u64,
}

/// Thing that a name in a directory leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// Nothing: an operation did not find it, and none had before.
    Missing,
    /// Nothing, since an operation removed the name or gave the file another.
    Gone,
    File(u32),
    Directory(u32),
}

struct Directory {
    /// Place before the first operation; none where it can't have been there then.
    place: Option<Place>,
    /// Whether an operation found or made it: else one may have failed for want of it.
    is_found: bool,
}

#[derive(Default)]
struct File {
    /// Place before the first operation; none where it can't have been there then.
    place: Option<Place>,
    is_before: bool,
    /// Whether it turned out to be a directory: the first calls on it told no kind.
    is_directory: bool,
    bytes_before: u64,
    /// Size before the first operation, where the recording tells it.
    size_before: Option<u64>,
    /// Ranges that were written since it was made or emptied.
    written: Ranges,
    /// Bytes that were written behind an end that nobody told.
    appended_bytes: u64,
    /// Whether nothing of what it held before is left.
    is_fresh: bool,
    names: u32,
    /// Number of handles that have it open.
    handles: u32,
}

impl File {
    /// Space that it takes besides that of before the first operation, bytes: no more than was
    /// written where it has holes.
    fn growth_bytes(&self) -> i128 {
        match self.is_fresh {
            true => i128::from(self.written.bytes) - i128::from(self.bytes_before),
            // Some of it may have been written over what was there.
            false => {
                let longer_bytes = self.written.end().saturating_sub(self.bytes_before);
                self.written.bytes.min(longer_bytes).saturating_add(self.appended_bytes).into()
            }
        }
    }

    /// Takes note of a size that was told.
    fn has_size(&mut self, bytes: u64) {
        let grown_bytes = self.written.end().saturating_add(self.appended_bytes);
        let is_told = grown_bytes == 0 || bytes > grown_bytes;
        if self.is_fresh || self.size_before.is_some() || !is_told || self.place.is_none() {
            return;
        }
        let size_bytes = bytes.saturating_sub(self.appended_bytes);
        self.size_before = Some(size_bytes);
        self.is_before |= size_bytes > 0;
        // What was written before its size was told.
        self.write_over(self.written.end());
    }

    /// Takes note of a write of what was there, as far as it was: to its end where nobody told its
    /// size.
    fn write_over(&mut self, end: u64) {
        if self.is_before && !self.is_fresh {
            let end = end.min(self.size_before.unwrap_or(u64::MAX));
            self.bytes_before = self.bytes_before.max(end);
        }
    }

    /// Drops what it holds, which takes the longer the more that is.
    fn empty(&mut self) {
        if self.is_before && !self.is_fresh {
            self.bytes_before = self.bytes_before.max(self.size_before.unwrap_or(0));
        }
        (self.written, self.appended_bytes) = (Ranges::default(), 0);
        self.is_fresh = true;
    }
}

#[derive(Default)]
struct Ranges {
    /// End of each by its beginning.
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    fn add(&mut self, begin: u64, end: u64) {
        let (mut begin, mut end) = (begin, end);
        // Those that it touches become one with it, the last of them first.
        while let Some((&other, &other_end)) = self.ends.range(..=end).next_back()
            && other_end >= begin
        {
            self.ends.remove(&other);
            self.bytes -= other_end - other;
            (begin, end) = (begin.min(other), end.max(other_end));
        }
        self.ends.insert(begin, end);
        self.bytes += end - begin;
    }

    fn cover(&self, begin: u64, end: u64) -> bool {
        self.ends.range(..=begin).next_back().is_some_and(|(_, &other_end)| other_end >= end)
    }

    fn end(&self) -> u64 {
        self.ends.last_key_value().map_or(0, |(_, end)| *end)
    }
}

#[derive(Clone, Copy, Default)]
struct Opened {
    /// None for a directory.
    file: Option<u32>,
    appends: bool,
}

/// Names, files and directories as the operations so far leave them.
pub(super) struct Tree {
    pub(super) names: Names,
    entries: BTreeMap<Place, Entry>,
    directories: Vec<Directory>,
    files: Vec<File>,
    opened: Vec<Opened>,
    /// Space that the files take besides that of before the first operation, now and at most.
    growth_bytes: i128,
    growth_most_bytes: i128,
}

impl Tree {
    pub(super) fn new(names: Names, handles: u32) -> Tree {
        Tree {
            names,
            entries: BTreeMap::from([(TOP, Entry::Directory(ITSELF))]),
            directories: vec![Directory { place: None, is_found: true }],
            files: Vec::new(),
            opened: vec![Opened::default(); handles as usize],
            growth_bytes: 0,
            growth_most_bytes: 0,
        }
    }

    /// Takes the next operation, and finds out whether it makes the file that it opens.
    ///
    /// # Errors
    /// There are more names than memory is meant for.
    pub(super) fn take(&mut self, operation: &mut RecordedOperation) -> Result<(), Error> {
        match operation.failure {
            Some(failure) => self.take_failed(operation.action, failure),
            None => self.take_done(operation),
        }
        match self.entries.len() * ENTRY_BYTES > NAME_BYTES_MAX {
            true => Err(too_many_names()),
            false => Ok(()),
        }
    }

    fn take_done(&mut self, operation: &mut RecordedOperation) {
        let moved_bytes = u64::from(operation.moved_bytes);
        match operation.action {
            FileAction::Open { name, handle, mode } => {
                let place = self.place(name);
                let is_new = match self.entry(place) {
                    None => mode.create,
                    Some(Entry::Missing | Entry::Gone) => true,
                    Some(Entry::File(_) | Entry::Directory(_)) => false,
                };
                operation.makes = is_new || mode.exclusive;
                if mode.directory {
                    self.directory(place);
                }
                let file = self.file(place, is_new);
                self.change(file, |file| {
                    if mode.truncate || mode.exclusive {
                        file.empty();
                    }
                    file.handles += u32::from(handle.is_some());
                });
                if let Some(handle) = handle {
                    self.opened[handle as usize] = Opened { file, appends: mode.append };
                }
            }
            FileAction::Read { handle, offset, .. } => {
                let end = offset.saturating_add(moved_bytes);
                self.change(self.opened[handle as usize].file, |file| {
                    // What was not written was there before: a file is seldom read where it has
                    // holes.
                    let end = end.saturating_sub(file.appended_bytes);
                    let is_written = end == 0 || file.written.cover(offset.min(end), end);
                    if moved_bytes > 0 && !file.is_fresh && !is_written {
                        file.is_before = true;
                        file.bytes_before = file.bytes_before.max(end);
                    }
                });
            }
            FileAction::Write { handle, offset, flags, .. } => {
                let Opened { file, appends } = self.opened[handle as usize];
                let appends = appends || flags & RWF_APPEND != 0;
                self.change(file, |file| {
                    if appends && !file.is_fresh {
                        file.appended_bytes = file.appended_bytes.saturating_add(moved_bytes);
                        return;
                    }
                    let begin = if appends { file.written.end() } else { offset };
                    let end = begin.saturating_add(moved_bytes);
                    file.written.add(begin, end);
                    file.write_over(end);
                });
            }
            FileAction::Close { handle } => {
                self.change(self.opened[handle as usize].file, |file| {
                    file.handles = file.handles.saturating_sub(1);
                });
            }
            FileAction::Look { name, directory: true, .. } => {
                let place = self.place(name);
                self.directory(place);
            }
            FileAction::Look { name, bytes, .. } => {
                let place = self.place(name);
                let file = self.file(place, false);
                self.change(file, |file| bytes.into_iter().for_each(|bytes| file.has_size(bytes)));
            }
            FileAction::LookAtOpen { handle, bytes } => {
                let file = self.opened[handle as usize].file;
                self.change(file, |file| bytes.into_iter().for_each(|bytes| file.has_size(bytes)));
            }
            FileAction::SetFlags { handle, append, .. } => {
                self.opened[handle as usize].appends = append;
            }
            FileAction::MakeDirectory { name } => {
                let place = self.place(name);
                self.add_directory(place, None, true);
            }
            FileAction::Rename { from, to, .. } => self.rename(from, to),
            FileAction::Link { from, to } => {
                let (from, to) = (self.place(from), self.place(to));
                if let Some(file) = self.file(from, false) {
                    self.files[file as usize].names += 1;
                    self.entries.insert(to, Entry::File(file));
                }
            }
            FileAction::Remove { name, directory } => {
                let place = self.place(name);
                if directory {
                    self.directory(place);
                } else {
                    self.file(place, false);
                }
                self.unlink(place);
                self.entries.insert(place, Entry::Gone);
            }
            FileAction::Sync { .. } => {}
        }
    }

    fn rename(&mut self, from: u32, to: u32) {
        let (from, to) = (self.place(from), self.place(to));
        // Of whatever kind it is.
        self.file(from, false);
        let moved = self.entries[&from];
        // The kernel does nothing between two names of one file.
        if self.entries.get(&to) != Some(&moved) {
            self.unlink(to);
            self.entries.insert(to, moved);
            self.entries.insert(from, Entry::Gone);
        }
    }

    /// Takes note of what an operation's failure tells of its name.
    fn take_failed(&mut self, action: FileAction, failure: Failure) {
        match (failure, action) {
            (Failure::Exists, FileAction::MakeDirectory { name })
            | (Failure::IsDirectory, FileAction::Open { name, .. })
            | (Failure::IsDirectory, FileAction::Remove { name, .. }) => {
                let place = self.place(name);
                if self.entry(place).is_none() {
                    self.directory(place);
                }
            }
            (
                Failure::Exists,
                FileAction::Open { name, .. }
                | FileAction::Rename { to: name, .. }
                | FileAction::Link { to: name, .. },
            ) => {
                let place = self.place(name);
                self.file(place, false);
            }
            (
                Failure::NotFound,
                FileAction::Open { name, .. }
                | FileAction::Look { name, .. }
                | FileAction::Remove { name, .. }
                | FileAction::Rename { from: name, .. }
                | FileAction::Link { from: name, .. },
            ) => self.miss(name),
            _ => {}
        }
    }

    /// Takes note that a name was not found, as far as a directory can hold it.
    fn miss(&mut self, name: u32) {
        let parts = Arc::clone(&self.names.parts[name as usize]);
        let Some((text, above)) = parts.split_last() else { return };
        let mut directory = ITSELF;
        for text in above {
            let place = (directory, *text);
            directory = match self.entries.get(&place) {
                Some(Entry::Directory(directory)) => *directory,
                Some(_) => return,
                None => self.add_directory(place, self.before(place), false),
            };
        }
        let place = (directory, *text);
        if self.entry(place).is_none() {
            self.entries.insert(place, Entry::Missing);
        }
    }

    /// Place of a name whose directory is there.
    fn place(&mut self, name: u32) -> Place {
        let parts = Arc::clone(&self.names.parts[name as usize]);
        let Some((text, above)) = parts.split_last() else { return TOP };
        let inside = |directory, text: &u32| self.directory((directory, *text));
        (above.iter().fold(ITSELF, inside), *text)
    }

    /// Entry of a place; none where nothing is known of it.
    fn entry(&self, place: Place) -> Option<Entry> {
        self.entries.get(&place).copied().filter(|entry| match entry {
            Entry::Directory(directory) => self.directories[*directory as usize].is_found,
            _ => true,
        })
    }

    /// The place as one before the first operation; none in a directory that was not there then:
    /// what is in it came with another's name, or by a call that is left out.
    fn before(&self, place: Place) -> Option<Place> {
        let (directory, _) = place;
        let is_before = self.directories[directory as usize].place.is_some();
        (directory == ITSELF || is_before).then_some(place)
    }

    /// Directory of a place, before all where nothing made it.
    fn directory(&mut self, place: Place) -> u32 {
        let before = match self.entries.get(&place).copied() {
            Some(Entry::Directory(directory)) => {
                self.directories[directory as usize].is_found = true;
                return directory;
            }
            Some(Entry::File(file)) => {
                let file = &mut self.files[file as usize];
                file.is_directory = true;
                file.place
            }
            // The same place can't be that of two.
            Some(Entry::Gone) => None,
            Some(Entry::Missing) | None => self.before(place),
        };
        self.add_directory(place, before, true)
    }

    fn add_directory(&mut self, at: Place, place: Option<Place>, is_found: bool) -> u32 {
        let directory = self.directories.len() as u32;
        self.directories.push(Directory { place, is_found });
        self.entries.insert(at, Entry::Directory(directory));
        directory
    }

    /// File of a place, none where that is a directory's; of one that was not seen before, whether
    /// it is `new` must be told.
    fn file(&mut self, at: Place, is_new: bool) -> Option<u32> {
        let entry = self.entry(at);
        let place = match entry {
            Some(Entry::File(file)) => return Some(file),
            Some(Entry::Directory(_)) => return None,
            Some(Entry::Gone) => None,
            Some(Entry::Missing) | None => self.before(at),
        };
        // One that was missing is made, by a call that may not be in the recording.
        let may_be = entry.is_none() && place.is_some();
        let file = self.files.len() as u32;
        self.files.push(File {
            place,
            is_before: may_be && !is_new,
            is_fresh: !may_be,
            names: 1,
            ..File::default()
        });
        self.entries.insert(at, Entry::File(file));
        Some(file)
    }

    /// Takes a name from the file of a place, if there is one.
    fn unlink(&mut self, place: Place) {
        if let Some(Entry::File(file)) = self.entries.get(&place).copied() {
            self.change(Some(file), |file| file.names -= 1);
        }
    }

    /// Changes what is known of a file, and counts the space that it takes then: none when it has
    /// no name and is open nowhere.
    fn change(&mut self, file: Option<u32>, change: impl FnOnce(&mut File)) {
        let Some(file) = file.map(|file| &mut self.files[file as usize]) else { return };
        self.growth_bytes -= file.growth_bytes();
        change(file);
        if file.names == 0 && file.handles == 0 {
            file.empty();
        }
        self.growth_bytes += file.growth_bytes();
        self.growth_most_bytes = self.growth_most_bytes.max(self.growth_bytes);
    }

    /// Most space that what was written took at a time, besides that of before the first operation,
    /// bytes.
    pub(super) fn written_bytes(&self) -> u64 {
        u64::try_from(self.growth_most_bytes).unwrap_or(u64::MAX)
    }

    /// File that each handle has open; none for a directory.
    pub(super) fn files_of_handles(&self) -> Vec<Option<u32>> {
        let is_file = |file: &u32| !self.files[*file as usize].is_directory;
        self.opened.iter().map(|opened| opened.file.filter(is_file)).collect()
    }

    /// Files and directories that must be there before, without those above them.
    ///
    /// # Errors
    /// Their paths take more memory than is meant for names.
    pub(super) fn before_all(&self) -> Result<(Vec<FileBefore>, Vec<Arc<str>>), Error> {
        let mut bytes = 0;
        let mut path = |place: Place| -> Result<Arc<str>, Error> {
            let (mut place, mut texts) = (Some(place), Vec::new());
            while let Some((directory, text)) = place {
                let text = &*self.names.texts[text as usize];
                bytes += text.len() + 1;
                texts.push(text);
                place = self.directories[directory as usize].place;
                if bytes > NAME_BYTES_MAX {
                    return Err(too_many_names());
                }
            }
            texts.reverse();
            Ok(texts.join("/").into())
        };
        let files = self.files.iter().filter(|file| file.is_before && !file.is_directory);
        let files = files.filter_map(|file| Some((file.place?, file.bytes_before)));
        let files = files.map(|(place, bytes)| Ok(FileBefore { path: path(place)?, bytes }));
        let files = files.collect::<Result<_, Error>>()?;
        let found = || self.directories.iter().enumerate().filter(|(_, one)| one.is_found);
        let places = |(index, one): (usize, &Directory)| Some((index as u32, one.place?));
        let above: BTreeSet<u32> =
            found().filter_map(places).map(|(_, (directory, _))| directory).collect();
        let lowest = found().filter_map(places).filter(|(index, _)| !above.contains(index));
        let directories = lowest.map(|(_, place)| path(place)).collect::<Result<_, Error>>()?;
        Ok((files, directories))
    }
}

fn too_many_names() -> Error {
    Error::new(format!(
        "it has more than {NAME_BYTES_MAX} bytes of names of files and directories: record a \
         shorter time"
    ))
}
