//! A directory held open. Files in it are made, opened, renamed and removed by its descriptor, so
//! that another directory which takes its place is never meant; and none of them is reached through
//! a link. Whoever may write to a directory could put a link there, to have a file elsewhere
//! written over. On the way to a directory that the user named, the links of those are followed who
//! could have led there anyhow ([`HeldDirectory::open`]).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatVfs, StatxAttributes,
    StatxFlags,
};
use rustix::io::Errno;

/// Mode of a new file, less what the umask takes.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// Mode of a new directory, less what the umask takes.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);
/// Flags of a directory that only leads to what is in it: it need not be readable.
const LEADS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Mode of a directory in which everybody may make names and nobody may take another's, `/tmp`'s.
const FOR_EVERYBODY: Mode = Mode::SVTX.union(Mode::WOTH);
/// Links that are followed on one way, as many as the kernel follows (`path_resolution(7)`).
pub const LINKS_MAX: u32 = 40;

/// Something under the name of a file of ours that is none. As text: "it is …".
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stranger {
    /// Symbolic link, wherever it leads.
    #[error("it is a symbolic link")]
    Link,
    /// Symbolic link that neither this user nor root made.
    #[error("it is a symbolic link of another user (uid {uid})")]
    LinkOfOther {
        /// Whose it is.
        uid: u32,
    },
    /// Named pipe: opening it could wait for ever.
    #[error("it is a named pipe")]
    Pipe,
    /// Directory.
    #[error("it is a directory")]
    Directory,
    /// Device or socket.
    #[error("it is not a plain file")]
    NotPlain,
    /// Plain file of another user.
    #[error("it belongs to another user (uid {uid})")]
    OfOther {
        /// Whose it is.
        uid: u32,
    },
    /// Plain file with other names, under which it may be somebody's.
    #[error("it has {names} names (hard links)")]
    HardLinked {
        /// Number of its names.
        names: u64,
    },
}

/// Another user's link on the way to a directory, made where everybody may make one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{} on the way is a symbolic link of another user (uid {uid}), in a directory where everybody \
     may make one",
    name.display()
)]
pub struct OthersLink {
    /// Name of the link in its directory.
    pub name: OsString,
    /// Number of the user who made the link.
    pub uid: u32,
}

/// The file system has room for content, and none for another file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("its file system has no inodes left (df -i) until files there are deleted")]
pub struct NoInodes;

/// File system, or a part of one, that was mounted inside a directory of ours.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} is a mount point, and nothing there is deleted; unmount it first", path.display())]
pub struct MountPoint {
    /// Path of the mount point.
    pub path: PathBuf,
}

/// Errno of an error, 0 where there is none.
pub fn errno_of(error: &Error) -> i32 {
    match error.get_ref() {
        Some(inner) if inner.is::<MountPoint>() => libc::EBUSY,
        _ => error.raw_os_error().unwrap_or(0),
    }
}

impl From<Stranger> for Error {
    fn from(stranger: Stranger) -> Error {
        Error::other(stranger)
    }
}

impl From<OthersLink> for Error {
    fn from(link: OthersLink) -> Error {
        Error::other(link)
    }
}

/// A directory held open; see the top of the file.
#[derive(Debug)]
pub struct HeldDirectory {
    fd: OwnedFd,
    path: PathBuf,
}

impl HeldDirectory {
    /// Opens a directory that the user named. An empty path is the current directory. Links on the
    /// way are followed as the kernel does under `fs.protected_symlinks`, which may be off: where
    /// everybody may make names, only those that this user, root or the directory's owner made.
    ///
    /// # Errors
    /// Errors of the system; [`OthersLink`].
    pub fn open(path: &Path) -> io::Result<HeldDirectory> {
        HeldDirectory::named(path, false)
    }

    /// Opens a directory as [`HeldDirectory::open`] does, and makes what of it is missing.
    ///
    /// # Errors
    /// As [`HeldDirectory::open`].
    pub fn make(path: &Path) -> io::Result<HeldDirectory> {
        HeldDirectory::named(path, true)
    }

    fn named(path: &Path, makes: bool) -> io::Result<HeldDirectory> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let start = if path.is_absolute() { "/" } else { "." };
        let start = rustix::fs::open(start, LEADS, Mode::empty())?;
        let fd = go(start, path, makes, &mut Links::Left(LINKS_MAX))?;
        Ok(HeldDirectory { fd, path: path.to_path_buf() })
    }

    /// Opens a directory by its resolved path, in which no link is followed.
    ///
    /// # Errors
    /// Errors of the system; [`Stranger::Link`] when a part of it has become one.
    pub fn open_resolved(path: &Path) -> io::Result<HeldDirectory> {
        let root = HeldDirectory::open(Path::new("/"))?;
        root.below(path.strip_prefix("/").unwrap_or(path), false)
    }

    /// Opens the directory of that relative name below this one, and makes what of it is missing
    /// if that is wished.
    ///
    /// # Errors
    /// Errors of the system; [`Stranger::Link`] when a part of it is one.
    pub fn below(&self, name: &Path, makes: bool) -> io::Result<HeldDirectory> {
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !name.components().all(is_below) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let here = rustix::fs::openat(&self.fd, ".", LEADS, Mode::empty())?;
        let fd = go(here, name, makes, &mut Links::Refused)?;
        let mut path = self.path.clone();
        path.extend(name.components().filter(|part| *part != Component::CurDir));
        Ok(HeldDirectory { fd, path })
    }

    /// Path by which the directory was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Kind, owner and mode of the directory itself.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// File that has that name here, or none; a link is not followed.
    pub fn stat_of(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        stat_at(&self.fd, name.as_ref())
    }

    /// As [`HeldDirectory::stat_of`], of a file on which nothing is mounted.
    ///
    /// # Errors
    /// Errors of the system; [`MountPoint`].
    pub fn stat_unmounted(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        let name = name.as_ref();
        let found = self.stat_of(name)?;
        match found.is_some() && is_mount_point(&self.fd, name)? {
            true => Err(Error::other(MountPoint { path: self.path.join(name) })),
            false => Ok(found),
        }
    }

    /// Whether that name here is still the open file's.
    #[must_use]
    pub fn names(&self, name: impl AsRef<OsStr>, file: &File) -> bool {
        let (Ok(Some(there)), Ok(own)) = (self.stat_of(name), rustix::fs::fstat(file)) else {
            return false;
        };
        (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
    }

    /// Where a symbolic link of that name leads, if this user or root made it; nothing where there
    /// is none.
    ///
    /// # Errors
    /// Errors of the system; [`Stranger::LinkOfOther`].
    pub fn own_link(&self, name: impl AsRef<OsStr>) -> io::Result<Option<PathBuf>> {
        let name = name.as_ref();
        match self.stat_of(name)? {
            Some(stat) if kind(&stat) == FileType::Symlink => {
                if ![0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid) {
                    return Err(Stranger::LinkOfOther { uid: stat.st_uid }.into());
                }
                let to = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
                Ok(Some(OsString::from_vec(to.into_bytes()).into()))
            }
            _ => Ok(None),
        }
    }

    /// Makes a file, open to read and write. `more` are flags beside those.
    ///
    /// # Errors
    /// Errors of the system; [`ErrorKind::AlreadyExists`] where anything has that name, a link that
    /// leads nowhere too; [`NoInodes`].
    pub fn create(&self, name: impl AsRef<OsStr>, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | more;
        let made = rustix::fs::openat(&self.fd, name.as_ref(), flags, FILE_MODE);
        Ok(made.map_err(|errno| unmade(&self.fd, errno))?.into())
    }

    /// Makes a file without a name, which is gone when it is closed; nothing where the file system
    /// makes none.
    pub fn create_unnamed(&self) -> io::Result<Option<File>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, ".", flags, FILE_MODE) {
            Ok(fd) => Ok(Some(fd.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
            Err(errno) => Err(unmade(&self.fd, errno)),
        }
    }

    /// Gives a file without a name its name.
    ///
    /// # Errors
    /// Errors of the system; [`ErrorKind::AlreadyExists`] where anything has that name.
    pub fn name_file(&self, file: &File, name: impl AsRef<OsStr>) -> io::Result<()> {
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        Ok(rustix::fs::linkat(rustix::fs::CWD, own, &self.fd, name.as_ref(), follow)?)
    }

    /// Opens a plain file of this user's that has no other name, to read and write. Never waits.
    ///
    /// # Errors
    /// Errors of the system; a [`Stranger`] where anything else has that name.
    pub fn open_own(&self, name: impl AsRef<OsStr>, more: OFlags) -> io::Result<File> {
        let name = name.as_ref();
        let file = match self.open_plain(name, OFlags::RDWR | more) {
            // It may be another user's, who allows nobody to write to it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let uid = self.stat_of(name)?.map(|stat| stat.st_uid);
                let other = uid.filter(|uid| *uid != rustix::process::geteuid().as_raw());
                return Err(other.map_or(error, |uid| Stranger::OfOther { uid }.into()));
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Stranger::OfOther { uid: found.uid() }.into());
        }
        match found.nlink() {
            // None: its directory's user has just removed it.
            0 | 1 => Ok(file),
            names => Err(Stranger::HardLinked { names }.into()),
        }
    }

    /// Opens a plain file to read. Never waits. `more` are flags beside those.
    ///
    /// # Errors
    /// Errors of the system; a [`Stranger`] where anything but a plain file has that name.
    pub fn open_to_read(&self, name: impl AsRef<OsStr>, more: OFlags) -> io::Result<File> {
        self.open_plain(name.as_ref(), OFlags::RDONLY | more)
    }

    /// Looked at before it is opened, as a device may act on that, and afterwards, as another may
    /// have taken the name.
    fn open_plain(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        if let Some(stat) = self.stat_of(name)? {
            check_plain(&stat)?;
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty());
        let fd = fd.map_err(|errno| match errno {
            Errno::LOOP => Stranger::Link.into(),
            errno => Error::from(errno),
        })?;
        check_plain(&rustix::fs::fstat(&fd)?)?;
        // An io_uring would fail an I/O that it can't begin at once.
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags.difference(OFlags::NONBLOCK))?;
        Ok(fd.into())
    }

    /// Opens a file that several processes lock, as [`HeldDirectory::open_own`] does, and makes it
    /// where it is missing.
    ///
    /// # Errors
    /// As [`HeldDirectory::open_own`].
    pub fn open_lock(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = name.as_ref();
        loop {
            match self.create(name, OFlags::empty()) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made,
            }
            match self.open_own(name, OFlags::empty()) {
                // Who had it has just ended.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
    }

    /// Gives a file here another name, also in place of what has that name.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from.as_ref(), &self.fd, to.as_ref())?)
    }

    /// Removes what has that name, unless it is a directory; a link is not followed.
    ///
    /// # Errors
    /// Errors of the system; [`MountPoint`].
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name.as_ref(), AtFlags::empty())
    }

    /// Removes what has that name, as [`HeldDirectory::remove`] does, if anything has it.
    pub fn remove_if_there(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match self.remove(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Errors of the system; [`MountPoint`].
    pub fn remove_directory(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name.as_ref(), AtFlags::REMOVEDIR)
    }

    fn unlink(&self, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, flags) {
            Err(Errno::BUSY) => {
                self.stat_unmounted(name)?;
                Err(Errno::BUSY.into())
            }
            unlinked => Ok(unlinked?),
        }
    }

    /// Opens the directory itself to read: to list, lock or sync it.
    pub fn to_read(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?.into())
    }

    /// Names of all that is in it, in no order.
    pub fn names_in(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.to_read()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_os_string());
            }
        }
        Ok(names)
    }

    /// Removes all that is in it; no link is followed, and nothing that is mounted in it touched.
    ///
    /// # Errors
    /// Errors of the system; [`MountPoint`]. What could be removed until then is gone.
    pub fn clear(&self) -> io::Result<()> {
        self.clear_counted(&AtomicU64::new(0))
    }

    /// As [`HeldDirectory::clear`], and counts the files that are gone, for whoever waits. Several
    /// threads may do it at once: what another has removed is gone.
    ///
    /// # Errors
    /// As [`HeldDirectory::clear`].
    pub fn clear_counted(&self, removed: &AtomicU64) -> io::Result<()> {
        let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        for name in self.names_in()? {
            match self.remove_counted(&name, removed) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what has that name, with all that is in it.
    fn remove_counted(&self, name: &OsStr, removed: &AtomicU64) -> io::Result<()> {
        match self.stat_of(name)? {
            Some(stat) if kind(&stat) == FileType::Directory => {
                self.unmounted(name)?.clear_counted(removed)?;
                self.remove_directory(name)
            }
            Some(_) => {
                self.remove(name)?;
                removed.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Opens the directory of that name here, unless something is mounted on it.
    fn unmounted(&self, name: &OsStr) -> io::Result<HeldDirectory> {
        let inside = self.below(Path::new(name), false)?;
        match is_mount_point(&inside, OsStr::new(""))? {
            true => Err(Error::other(MountPoint { path: inside.path })),
            false => Ok(inside),
        }
    }

    /// Space that all that is in it takes, bytes, as far as it can be looked at; no link is
    /// followed, and nothing that is mounted in it counted.
    pub fn space_bytes(&self) -> u64 {
        let of = |name: OsString| {
            let Ok(Some(stat)) = self.stat_unmounted(&name) else { return 0 };
            let inside = match kind(&stat) {
                FileType::Directory => self.unmounted(&name).ok(),
                _ => None,
            };
            space_bytes(&stat) + inside.map_or(0, |directory| directory.space_bytes())
        };
        self.names_in().unwrap_or_default().into_iter().map(of).sum()
    }

    /// Makes the names in it durable, where this user may read it and its file system can.
    pub fn sync(&self) -> io::Result<()> {
        let synced = self.to_read().and_then(|directory| directory.sync_all());
        match synced {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) => {
                Ok(())
            }
            synced => synced,
        }
    }
}

impl AsFd for HeldDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Links on a way from one directory to another.
enum Links {
    /// None is followed.
    Refused,
    /// So many more are, if they may be trusted.
    Left(u32),
}

/// Goes name by name, and makes the directories that are missing if that is wished, but none where
/// a link leads.
fn go(from: OwnedFd, path: &Path, makes: bool, links: &mut Links) -> io::Result<OwnedFd> {
    let mut fd = from;
    for part in path.components() {
        let name = part.as_os_str();
        let open = |more| rustix::fs::openat(&fd, name, LEADS | more, Mode::empty());
        let next = match part {
            Component::CurDir => continue,
            // An absolute path, whatever it is taken from.
            Component::RootDir => open(OFlags::empty()),
            _ => open(OFlags::NOFOLLOW),
        };
        fd = match next {
            Ok(next) => next,
            Err(Errno::NOENT) if makes => match rustix::fs::mkdirat(&fd, name, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => open(OFlags::NOFOLLOW)?,
                Err(errno) => return Err(unmade(&fd, errno)),
            },
            Err(errno) => match stat_at(&fd, name)? {
                Some(stat) if kind(&stat) == FileType::Symlink => follow(&fd, name, &stat, links)?,
                _ => return Err(errno.into()),
            },
        };
    }
    Ok(fd)
}

fn follow(at: &OwnedFd, name: &OsStr, link: &Stat, links: &mut Links) -> io::Result<OwnedFd> {
    *links = match links {
        Links::Refused => return Err(Stranger::Link.into()),
        Links::Left(0) => return Err(Errno::LOOP.into()),
        Links::Left(left) => Links::Left(*left - 1),
    };
    let directory = rustix::fs::fstat(at)?;
    let is_for_everybody = Mode::from_raw_mode(directory.st_mode).contains(FOR_EVERYBODY);
    let trusted = [0, rustix::process::geteuid().as_raw(), directory.st_uid];
    if is_for_everybody && !trusted.contains(&link.st_uid) {
        return Err(OthersLink { name: name.to_os_string(), uid: link.st_uid }.into());
    }
    // The kernel's own links lead to what is open, which the text of a link may not name.
    if rustix::fs::fstatfs(at)?.f_type == PROC_SUPER_MAGIC {
        return Ok(rustix::fs::openat(at, name, LEADS, Mode::empty())?);
    }
    let to = rustix::fs::readlinkat(at, name, Vec::new())?;
    let here = rustix::fs::openat(at, ".", LEADS, Mode::empty())?;
    go(here, Path::new(OsStr::from_bytes(to.as_bytes())), false, links)
}

/// Error of a file or directory that could not be made: a lack of inodes and one of space have the
/// same errno.
fn unmade(at: impl AsFd, errno: Errno) -> Error {
    match rustix::fs::fstatvfs(at) {
        Ok(space) if errno == Errno::NOSPC && lacks_inodes(&space) => {
            Error::new(ErrorKind::StorageFull, NoInodes)
        }
        _ => errno.into(),
    }
}

/// Whether inodes are used up where there is space left. Some file systems (Btrfs) count none.
fn lacks_inodes(space: &StatVfs) -> bool {
    space.f_files > 0 && space.f_favail == 0 && space.f_bavail > 0
}

fn stat_at(directory: impl AsFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Kind of what was looked at.
pub fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Space that what was looked at takes, bytes.
pub fn space_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * 512
}

/// Whether something is mounted on the file of that name in a directory, or, where the name is
/// empty, on the directory itself.
fn is_mount_point(at: impl AsFd, name: &OsStr) -> io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let stat = rustix::fs::statx(at, name, flags, StatxFlags::empty())?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn check_plain(stat: &Stat) -> Result<(), Stranger> {
    match kind(stat) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Stranger::Link),
        FileType::Fifo => Err(Stranger::Pipe),
        FileType::Directory => Err(Stranger::Directory),
        _ => Err(Stranger::NotPlain),
    }
}

/// Files that a process leaves behind which ends at once.
pub trait Leftover: Send + Sync {
    /// Deletes them.
    fn remove(&self);

    /// Those that are still there.
    fn left(&self) -> Vec<PathBuf>;

    /// All of them, without a look at the file system.
    fn paths(&self) -> Vec<PathBuf>;
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A scratch directory, removed on drop.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("ringfall-held-{}", std::process::id()));
            let path = path.with_extension(name);
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path.canonicalize().unwrap())
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _cleanup = std::fs::remove_dir_all(&self.0);
        }
    }

    fn stranger(opened: io::Result<File>) -> Stranger {
        let error = opened.unwrap_err();
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        *inner.unwrap_or_else(|| panic!("{error}"))
    }

    #[test]
    fn what_is_no_file_of_ours_is_told_apart_and_nothing_is_waited_for() {
        let scratch = Scratch::new("strangers");
        std::fs::write(scratch.file("plain"), b"theirs").unwrap();
        symlink("plain", scratch.file("link")).unwrap();
        symlink("nowhere", scratch.file("dangling")).unwrap();
        std::fs::hard_link(scratch.file("plain"), scratch.file("second")).unwrap();
        std::fs::create_dir(scratch.file("directory")).unwrap();
        let pipe = (FileType::Fifo, Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, scratch.file("pipe"), pipe.0, pipe.1, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(scratch.file("socket")).unwrap();
        let held = HeldDirectory::open(&scratch.0).unwrap();
        for (name, expected) in [
            ("link", Stranger::Link),
            ("dangling", Stranger::Link),
            ("plain", Stranger::HardLinked { names: 2 }),
            ("second", Stranger::HardLinked { names: 2 }),
            ("directory", Stranger::Directory),
            ("pipe", Stranger::Pipe),
            ("socket", Stranger::NotPlain),
        ] {
            assert_eq!(stranger(held.open_lock(name)), expected, "{name}");
            let error = held.create(name, OFlags::empty()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}");
        }
        assert_eq!(stranger(held.open_to_read("pipe", OFlags::empty())), Stranger::Pipe);
        assert!(!scratch.file("nowhere").exists());
        assert_eq!(std::fs::read(scratch.file("plain")).unwrap(), b"theirs");
        if rustix::process::geteuid().is_root() {
            let theirs = scratch.file("of-other");
            std::fs::write(&theirs, b"").unwrap();
            std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
            let expected = Stranger::OfOther { uid: 65_534 };
            assert_eq!(stranger(held.open_own("of-other", OFlags::empty())), expected);
        } else {
            // One that may not even be opened.
            let system = HeldDirectory::open(Path::new("/etc")).unwrap();
            let expected = Stranger::OfOther { uid: 0 };
            assert_eq!(stranger(system.open_own("passwd", OFlags::empty())), expected);
        }
    }

    #[test]
    fn inodes_that_are_used_up_are_told_apart_from_space() {
        let scratch = Scratch::new("inodes");
        let space = rustix::fs::statvfs(&scratch.0).unwrap();
        let with = |f_files, f_favail, f_bavail| StatVfs { f_files, f_favail, f_bavail, ..space };
        assert!(lacks_inodes(&with(10, 0, 1)));
        for (f_files, f_favail, f_bavail) in [(10, 0, 0), (10, 1, 1), (0, 0, 1)] {
            assert!(!lacks_inodes(&with(f_files, f_favail, f_bavail)), "{f_files} {f_favail}");
        }
        assert_eq!(
            unmade(File::open(&scratch.0).unwrap(), Errno::IO).raw_os_error(),
            Some(libc::EIO)
        );
    }

    #[test]
    fn a_directory_that_takes_the_place_of_a_held_one_gets_nothing() {
        let scratch = Scratch::new("swapped");
        let (place, moved) = (scratch.file("place"), scratch.file("moved"));
        std::fs::create_dir(&place).unwrap();
        let held = HeldDirectory::open_resolved(&place).unwrap();
        std::fs::rename(&place, &moved).unwrap();
        std::fs::create_dir(&place).unwrap();
        drop(held.create("file", OFlags::empty()).unwrap());
        held.rename("file", "renamed").unwrap();
        assert!(moved.join("renamed").exists() && !place.join("renamed").exists());
        std::fs::write(place.join("renamed"), b"theirs").unwrap();
        held.remove("renamed").unwrap();
        held.remove_if_there("renamed").unwrap();
        assert!(!moved.join("renamed").exists() && place.join("renamed").exists());
    }

    #[test]
    fn links_that_the_user_made_lead_to_what_is_there() {
        let scratch = Scratch::new("own-links");
        let there = scratch.file("a/there");
        HeldDirectory::make(&there).unwrap();
        symlink("a", scratch.file("relative")).unwrap();
        symlink(scratch.file("relative/../relative"), scratch.file("absolute")).unwrap();
        symlink("nowhere", scratch.file("dangling")).unwrap();
        symlink("round", scratch.file("round")).unwrap();
        std::fs::write(scratch.file("file"), b"").unwrap();
        let opened = HeldDirectory::open(&scratch.file("absolute/./there/../there")).unwrap();
        assert_eq!(opened.stat().unwrap().st_ino, std::fs::metadata(&there).unwrap().ino());
        HeldDirectory::make(&scratch.file("absolute/new/one")).unwrap();
        assert!(scratch.file("a/new/one").is_dir());
        for (name, errno) in [
            ("dangling", Errno::NOENT),
            ("dangling/x", Errno::NOENT),
            ("round", Errno::LOOP),
            ("file", Errno::NOTDIR),
            ("file/x", Errno::NOTDIR),
        ] {
            let error = HeldDirectory::make(&scratch.file(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{name}");
        }
        assert!(!scratch.file("nowhere").exists());
        let process = HeldDirectory::open(Path::new("/proc/self/fd")).unwrap();
        let held = format!("/proc/self/fd/{}", opened.fd.as_raw_fd());
        assert!(process.stat_of(held.rsplit('/').next().unwrap()).unwrap().is_some());
        std::fs::remove_dir(&there).unwrap();
        let gone = HeldDirectory::open(Path::new(&held)).unwrap();
        assert_eq!(gone.stat().unwrap().st_ino, opened.stat().unwrap().st_ino);
    }

    #[test]
    fn no_link_is_followed_on_the_way_below() {
        let scratch = Scratch::new("below");
        std::fs::create_dir(scratch.file("elsewhere")).unwrap();
        symlink("elsewhere", scratch.file("one")).unwrap();
        let held = HeldDirectory::open(&scratch.0).unwrap();
        for (name, makes) in [("one", false), ("one/two", true)] {
            let error = held.below(Path::new(name), makes).unwrap_err();
            assert_eq!(error.to_string(), Stranger::Link.to_string());
        }
        let error = HeldDirectory::open_resolved(&scratch.file("one")).unwrap_err();
        assert_eq!(error.to_string(), Stranger::Link.to_string());
        for name in ["../x", "/x", "a/../b"] {
            let error = held.below(Path::new(name), true).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(std::fs::read_dir(scratch.file("elsewhere")).unwrap().count(), 0);
        let made = held.below(Path::new("./a/b"), true).unwrap();
        made.create("file", OFlags::empty()).unwrap().write_all(b"x").unwrap();
        assert_eq!(std::fs::read(scratch.file("a/b/file")).unwrap(), b"x");
        made.sync().unwrap();
    }

    #[test]
    fn a_directory_is_cleared_of_all_that_is_in_it_and_nothing_else() {
        let scratch = Scratch::new("cleared");
        std::fs::write(scratch.file("theirs"), "kept").unwrap();
        let inside = scratch.file("inside");
        let held = HeldDirectory::make(&inside.join("a/b")).unwrap();
        held.create("file", OFlags::empty()).unwrap().write_all(&[1; 9_000]).unwrap();
        symlink(&scratch.0, inside.join("a/link")).unwrap();
        let held = HeldDirectory::open(&inside).unwrap();
        rustix::fs::syncfs(held.to_read().unwrap()).unwrap();
        assert_eq!(held.names_in().unwrap(), ["a"]);
        assert!((9_000..9 << 20).contains(&held.space_bytes()), "{}", held.space_bytes());
        let removed = AtomicU64::new(0);
        held.clear_counted(&removed).unwrap();
        assert!(removed.into_inner() > 0);
        assert!(held.names_in().unwrap().is_empty() && held.space_bytes() == 0);
        assert_eq!(std::fs::read_to_string(scratch.file("theirs")).unwrap(), "kept");
    }

    /// At a second signal one of two threads ended at the first file that the other had removed,
    /// and the lock file that recorded the rest was removed.
    #[test]
    fn several_threads_clear_one_directory() {
        let scratch = Scratch::new("threads");
        for directory in 0..16 {
            let path = scratch.file(&format!("inside/{directory}"));
            std::fs::create_dir_all(&path).unwrap();
            (0..64).for_each(|file| std::fs::write(path.join(file.to_string()), b"").unwrap());
        }
        let held = HeldDirectory::open(&scratch.file("inside")).unwrap();
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| held.clear()));
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        assert!(held.names_in().unwrap().is_empty());
    }

    /// Files that root had mounted among those of a dead run were deleted with them.
    #[test]
    fn what_is_mounted_in_a_directory_is_neither_cleared_nor_counted() {
        let scratch = Scratch::new("mounted");
        let (theirs, point) = (scratch.file("theirs"), scratch.file("inside/a/point"));
        std::fs::create_dir_all(&point).unwrap();
        std::fs::write(scratch.file("inside/file"), b"").unwrap();
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("file"), [1; 1 << 20]).unwrap();
        let held = HeldDirectory::open(&scratch.file("inside")).unwrap();
        let before_bytes = held.space_bytes();
        // On the same file system, whose number tells nothing.
        if let Err(errno) = rustix::mount::mount_bind(&theirs, &point) {
            return eprintln!("skipped: mounting is refused ({errno})");
        }
        let file = scratch.file("inside/file");
        rustix::mount::mount_bind(theirs.join("file"), &file).unwrap();
        let mounted_bytes = held.space_bytes();
        for _ in [&point, &file] {
            let told = held.clear().unwrap_err().to_string();
            let (named, _) = told.split_once(" is a mount point, ").expect(&told);
            rustix::mount::unmount(named, rustix::mount::UnmountFlags::DETACH).expect(named);
        }
        // The directory itself can't be looked at below what is mounted on it.
        assert!(before_bytes - mounted_bytes <= 4096, "{before_bytes} {mounted_bytes}");
        assert_eq!(std::fs::read(theirs.join("file")).unwrap().len(), 1 << 20);
        held.clear().unwrap();
        assert!(held.names_in().unwrap().is_empty());
    }

    #[test]
    fn a_file_without_a_name_gets_one_that_is_free() {
        let scratch = Scratch::new("unnamed");
        let held = HeldDirectory::open(&scratch.0).unwrap();
        let Some(mut file) = held.create_unnamed().unwrap() else {
            return eprintln!("skipped: {} makes no files without a name", scratch.0.display());
        };
        file.write_all(b"x").unwrap();
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
        symlink("nowhere", scratch.file("taken")).unwrap();
        let error = held.name_file(&file, "taken").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        held.name_file(&file, "free").unwrap();
        assert!(held.names("free", &file) && !held.names("taken", &file));
        assert_eq!(std::fs::read(scratch.file("free")).unwrap(), b"x");
    }
}
