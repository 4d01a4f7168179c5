//! Identity of what a run has made, by which a later one knows it again.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags};

/// Identity of a file or directory. A file system gives the inode number of a deleted one to
/// another, which is born later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) inode: u64,
    /// None where the file system keeps no such time (NFS), or an earlier version recorded none.
    pub(super) born: Option<Moment>,
}

/// Time since 1970, as file systems have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Moment {
    pub(super) s: i64,
    pub(super) ns: i64,
}

impl Identity {
    /// Looks at the file of that name in a directory, or at an open file itself, whose name is
    /// empty.
    pub(super) fn of(at: impl AsFd, name: &str) -> io::Result<Identity> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let stat = rustix::fs::statx(at, name, flags, StatxFlags::INO | StatxFlags::BTIME)?;
        let is_told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let born = Moment { s: stat.stx_btime.tv_sec, ns: stat.stx_btime.tv_nsec.into() };
        Ok(Identity { inode: stat.stx_ino, born: is_told.then_some(born) })
    }

    /// Identity that the text of a lock file records behind these keys.
    pub(super) fn recorded_in(text: &str, key: &str, born_key: &str) -> Option<Identity> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let inode = value(key)?.parse().ok()?;
        // A time that can't be read is none that a file has.
        let never = Moment { s: i64::MIN, ns: 0 };
        let born = value(born_key).map(|born| Moment::parse(born).unwrap_or(never));
        Some(Identity { inode, born })
    }

    /// Lines of a lock file that record this behind these keys.
    pub(super) fn record(&self, key: &str, born_key: &str) -> String {
        let Identity { inode, born } = self;
        let born = born.map(|Moment { s, ns }| format!("{born_key}{s}.{ns:09}\n"));
        format!("{key}{inode}\n{}", born.unwrap_or_default())
    }

    /// Whether this, recorded when the lock file was last written, is that of what is found. Where
    /// there are no times of birth, a foreign file may have got the inode number of a lost one: it
    /// is taken for ours only if it `is_like` ours.
    pub(super) fn is_of(self, found: Identity, written: Moment, is_like: bool) -> bool {
        let is_of_that_time = match (self.born, found.born) {
            (Some(own), born) => born == Some(own),
            // An earlier version recorded its file once that was made.
            (None, Some(born)) => born <= written,
            (None, None) => is_like,
        };
        self.inode == found.inode && is_of_that_time
    }
}

impl Moment {
    fn parse(text: &str) -> Option<Moment> {
        let (s, ns) = text.split_once('.')?;
        Some(Moment { s: s.parse().ok()?, ns: ns.parse().ok()? })
    }
}
