//! Files made whole, and never through a link that another user made. Where the file system can, a
//! file has no name before it is whole, so that nothing is left of one that never is; elsewhere its
//! name can't be guessed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::TryRng as _;
use rand::rngs::SysRng;
use ringfall_core::held::{HeldDirectory, LINKS_MAX, Stranger, kind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::interrupt::{self, Leftover};

/// Place of a file that the user named: its directory, held open, and its name in it, which is no
/// symbolic link.
#[derive(Debug)]
pub struct Spot {
    directory: HeldDirectory,
    name: OsString,
    /// Something that a descriptor of a process is and that has no name of its own, below `/proc`.
    is_descriptor: bool,
}

impl Spot {
    /// Finds it, and makes the directories that are missing.
    ///
    /// # Errors
    /// As [`Spot::of`].
    pub fn make(path: &Path) -> Result<Spot> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            HeldDirectory::make(parent)?;
        }
        Spot::of(path)
    }

    /// Finds it. A link under the file's own name is followed if this user or root made it.
    ///
    /// # Errors
    /// Errors of the system; a [`Stranger`] when the link is another user's.
    pub fn of(path: &Path) -> Result<Spot> {
        let mut path = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            let name = path.file_name().ok_or_else(|| Error::other("it is not a file's name"))?;
            let name = name.to_os_string();
            let directory = HeldDirectory::open(path.parent().unwrap_or(Path::new("")))?;
            let Some(to) = directory.own_link(&name)? else {
                return Ok(Spot { directory, name, is_descriptor: false });
            };
            let is_of_process = rustix::fs::fstatfs(&directory)?.f_type == PROC_SUPER_MAGIC;
            if is_of_process && std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
                return Ok(Spot { directory, name, is_descriptor: true });
            }
            path = directory.path().join(to);
        }
        Err(Errno::LOOP.into())
    }

    /// Whether a plain file is there, or nothing.
    pub fn is_for_file(&self) -> Result<bool> {
        let found = self.directory.stat_of(&self.name)?;
        Ok(!self.is_descriptor && found.is_none_or(|stat| kind(&stat) == FileType::RegularFile))
    }

    /// Whether it is a socket, which can't be opened.
    pub fn is_socket(&self) -> bool {
        let found = rustix::fs::statat(&self.directory, &self.name, AtFlags::empty());
        found.is_ok_and(|stat| kind(&stat) == FileType::Socket)
    }

    /// Begins a file in its directory.
    pub fn begin(&self) -> Result<Draft<'_>> {
        Draft::begin(&self.directory)
    }

    /// Name that the file has in its directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Writes that many bytes to a file that is gone again at once.
    pub fn try_to_hold(&self, bytes: usize) -> Result<()> {
        if let Some(stat) = self.directory.stat_of(&self.name)?
            && kind(&stat) == FileType::Directory
        {
            return Err(Stranger::Directory.into());
        }
        Draft::begin(&self.directory)?.file().write_all(&vec![0; bytes])
    }

    /// Opens what is there and is no plain file, to write. Never waits.
    pub fn open_other(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        // The kernel's own links of a process's descriptors are nobody's to replace.
        let flags = if self.is_descriptor { flags } else { flags | OFlags::NOFOLLOW };
        Ok(rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())?.into())
    }

    /// Writes a file in place of what is there, whole or not at all, without making it durable: one
    /// that is written anew every second needs no sync, which would disturb the drive each time.
    pub fn replace_unsynced(&self, bytes: &[u8]) -> Result<()> {
        let draft = self.begin()?;
        draft.file().write_all(bytes)?;
        draft.take_mode(&self.name)?;
        draft.put(&self.name)
    }

    /// Writes a file in place of what is there, whole and durable or not at all.
    ///
    /// # Errors
    /// Errors of the system, or `write`.
    pub fn replace(&self, write: &dyn Fn(&mut dyn Write) -> Result<()>) -> Result<()> {
        replace_in(&self.directory, &self.name, write)
    }
}

/// Writes a file in place of what has that name there, whole and durable or not at all.
///
/// # Errors
/// Errors of the system, or `write`.
pub fn replace_in(
    directory: &HeldDirectory,
    name: impl AsRef<OsStr>,
    write: &dyn Fn(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let draft = Draft::begin(directory)?;
    write(&mut &draft.file)?;
    draft.publish(name)
}

/// Begins a new file that grows under its name, in place of what is there; directories that are
/// missing are made. What is no plain file (a device) is opened.
///
/// # Errors
/// Errors of the system; a [`Stranger`] when it is another user's link.
pub fn begin(path: &Path) -> Result<File> {
    let spot = Spot::make(path)?;
    match spot.is_for_file()? {
        true => begin_in(&spot.directory, &spot.name),
        false => spot.open_other(),
    }
}

/// Begins a new file that grows under its name, in place of what has it there.
pub fn begin_in(directory: &HeldDirectory, name: impl AsRef<OsStr>) -> Result<File> {
    let name = name.as_ref();
    directory.remove_if_there(name)?;
    directory.create(name, OFlags::empty())
}

/// A file that is being written in a directory, and is gone when it is dropped.
pub struct Draft<'a> {
    directory: &'a HeldDirectory,
    file: File,
    /// Where there are no files without one.
    name: Option<Arc<TemporaryName>>,
}

impl<'a> Draft<'a> {
    /// Begins a file that has no name yet, or a hidden one.
    pub fn begin(directory: &'a HeldDirectory) -> Result<Draft<'a>> {
        if let Some(file) = directory.create_unnamed()? {
            return Ok(Draft { directory, file, name: None });
        }
        Draft::with_name(directory)
    }

    fn with_name(directory: &'a HeldDirectory) -> Result<Draft<'a>> {
        let name = unguessable_name()?;
        let file = directory.create(&name, OFlags::empty())?;
        let name = TemporaryName { directory: directory.below(Path::new(""), false)?, name };
        let name = Arc::new(name);
        let weak: std::sync::Weak<TemporaryName> = Arc::downgrade(&name);
        interrupt::leave_nothing_of(weak);
        Ok(Draft { directory, file, name: Some(name) })
    }

    /// The file, to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes it durable and gives it that name, in place of what has it. From a file of this user's
    /// it takes the permissions, too.
    pub fn publish(self, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref();
        self.take_mode(name)?;
        self.file.sync_all()?;
        self.put(name)
    }

    /// Takes the permissions of the file of this user's that has that name, if there is one.
    fn take_mode(&self, name: &OsStr) -> Result<()> {
        if let Some(stat) = self.directory.stat_of(name)?
            && kind(&stat) == FileType::RegularFile
            && stat.st_uid == rustix::process::geteuid().as_raw()
        {
            let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
            rustix::fs::fchmod(&self.file, mode)?;
        }
        Ok(())
    }

    /// Gives it that name, in place of what has it.
    fn put(&self, name: &OsStr) -> Result<()> {
        if let Some(temporary) = &self.name {
            return self.directory.rename(&temporary.name, name);
        }
        match self.directory.name_file(&self.file, name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            named => return named,
        }
        // A link can't take another's place; a name can.
        let temporary = unguessable_name()?;
        self.directory.name_file(&self.file, &temporary)?;
        self.directory.rename(&temporary, name).inspect_err(|_| {
            // The first error is the one to report.
            let _leftover = self.directory.remove(&temporary);
        })
    }

    /// Makes it durable and gives it that name, which nothing may have.
    ///
    /// # Errors
    /// Errors of the system; [`ErrorKind::AlreadyExists`] where anything has that name.
    pub fn publish_new(self, name: impl AsRef<OsStr>) -> Result<()> {
        self.file.sync_all()?;
        let (name, here) = (name.as_ref(), self.directory);
        let Some(temporary) = &self.name else { return here.name_file(&self.file, name) };
        match renameat_with(here, &temporary.name, here, name, RenameFlags::NOREPLACE) {
            // Network file systems know no such flag, but hard links.
            Err(Errno::INVAL) => here.name_file(&self.file, name),
            renamed => Ok(renamed?),
        }
    }
}

/// Name of a draft; removed when nobody holds it any more, unless it has become another.
struct TemporaryName {
    directory: HeldDirectory,
    name: String,
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Leftover for TemporaryName {
    fn remove(&self) {
        // Not there any more when it was given its final name.
        let _gone = self.directory.remove(&self.name);
    }

    fn left(&self) -> Vec<PathBuf> {
        let is_left = self.directory.stat_of(&self.name).is_ok_and(|found| found.is_some());
        if is_left { self.paths() } else { Vec::new() }
    }

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.directory.path().join(&self.name)]
    }
}

/// A name that nobody can have made anything under.
fn unguessable_name() -> Result<String> {
    Ok(format!(".ringfall-{}.tmp", unguessable()?))
}

/// Part of a name that nobody can guess.
///
/// # Errors
/// The system has no random numbers.
pub fn unguessable() -> Result<String> {
    Ok(format!("{:016x}", SysRng.try_next_u64().map_err(Error::other)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::Scratch;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_takes_the_place_of_another_or_does_not_appear() {
        let scratch = Scratch::new("whole");
        let directory = HeldDirectory::open(&scratch).unwrap();
        for make in [Draft::begin, Draft::with_name] {
            for text in ["one", "two"] {
                let draft = make(&directory).unwrap();
                draft.file().write_all(text.as_bytes()).unwrap();
                draft.publish("file").unwrap();
                assert_eq!(std::fs::read_to_string(scratch.join("file")).unwrap(), text);
            }
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(scratch.join("file"), private.clone()).unwrap();
            make(&directory).unwrap().publish("file").unwrap();
            let kept = std::fs::metadata(scratch.join("file")).unwrap().permissions();
            assert_eq!(kept.mode() & 0o777, private.mode());
            let taken = make(&directory).unwrap().publish_new("file").unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
            make(&directory).unwrap().publish_new("fresh").unwrap();
            std::fs::remove_file(scratch.join("fresh")).unwrap();
            drop(make(&directory).unwrap());
            std::fs::create_dir(scratch.join("occupied")).unwrap();
            make(&directory).unwrap().publish("occupied").unwrap_err();
            std::fs::remove_dir(scratch.join("occupied")).unwrap();
            assert_eq!(names(&scratch), ["file"]);
        }
        let spot = Spot::of(&scratch.join("file")).unwrap();
        spot.replace_unsynced(b"three").unwrap();
        assert_eq!(std::fs::read_to_string(scratch.join("file")).unwrap(), "three");
        let kept = std::fs::metadata(scratch.join("file")).unwrap().permissions();
        assert_eq!(kept.mode() & 0o777, 0o600);
        let failed = replace_in(&directory, "file", &|_| Err(Error::other("no")));
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert_eq!(names(&scratch), ["file"]);
    }

    #[test]
    fn the_users_own_link_is_followed_once_and_stays() {
        let scratch = Scratch::new("own-link");
        scratch.directory("there");
        symlink("there/second", scratch.join("first")).unwrap();
        symlink("file", scratch.join("there/second")).unwrap();
        symlink("there/new", scratch.join("dangling")).unwrap();
        for name in ["first", "dangling"] {
            let spot = Spot::of(&scratch.join(name)).unwrap();
            spot.replace(&|out| out.write_all(name.as_bytes())).unwrap();
            assert!(std::fs::symlink_metadata(scratch.join(name)).unwrap().is_symlink());
        }
        for (name, text) in [("file", "first"), ("new", "dangling")] {
            assert_eq!(std::fs::read_to_string(scratch.join("there").join(name)).unwrap(), text);
        }
        symlink("round", scratch.join("round")).unwrap();
        let error = Spot::of(&scratch.join("round")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn a_file_that_grows_is_a_new_one_and_its_other_names_keep_the_old() {
        let scratch = Scratch::new("grows");
        let (file, other) = (scratch.join("file"), scratch.file("other", "theirs"));
        std::fs::hard_link(&other, &file).unwrap();
        begin(&file).unwrap().write_all(b"ours").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ours");
    }

    #[test]
    fn a_descriptor_of_the_process_is_opened_as_what_it_is() {
        let spot = Spot::of(Path::new("/dev/null")).unwrap();
        assert!(!spot.is_for_file().unwrap());
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let spot = Spot::of(Path::new(&path)).unwrap();
        assert!(!spot.is_for_file().unwrap());
        spot.open_other().unwrap().write_all(b"text").unwrap();
        drop((spot, writer));
        assert_eq!(std::io::read_to_string(reader).unwrap(), "text");
    }
}
