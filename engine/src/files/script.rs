//! Scripts of steps on files, and whether they make sense.

use std::sync::Arc;

use super::outcome::StepKind;
use crate::error::SetupError;
use crate::units::BLOCK_BYTES;

/// Way in which a file is opened. Links are never followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenHow {
    /// A file that is there, to be read.
    Read,
    /// A file to be written, which is made where there is none.
    Create {
        /// Whether something that has the name already is an error (`O_EXCL`).
        exclusive: bool,
        /// Whether what the file holds is dropped (`O_TRUNC`).
        truncate: bool,
    },
}

impl OpenHow {
    /// Whether whatever has the name before is not wanted any more.
    pub(super) fn begins_anew(self) -> bool {
        matches!(
            self,
            OpenHow::Create { exclusive: true, .. } | OpenHow::Create { truncate: true, .. }
        )
    }
}

/// One step on files below a directory that is held open. Paths are relative to it: names joined by
/// single slashes, without `.` and `..`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileStep {
    /// Looks whether an object is there.
    Stat {
        /// Path of the object.
        path: Arc<str>,
        /// Whether the script is over, and has gone well, when it is.
        ends_if_found: bool,
    },
    /// Makes a directory, and those on the way to it that are missing.
    MakeDirectories {
        /// Path of the directory.
        path: Arc<str>,
    },
    /// Opens a file, to which the steps until [`FileStep::Close`] refer.
    Open {
        /// Path of the file.
        path: Arc<str>,
        /// Purpose, and what becomes of a file that is there already.
        how: OpenHow,
        /// Whether the page cache is passed by (`O_DIRECT`).
        direct: bool,
    },
    /// Writes the object's content by one call, and by further ones where the kernel stops early.
    Write {
        /// Where in the file, bytes.
        offset_bytes: u64,
        /// Number of bytes, not 0.
        bytes: u64,
    },
    /// Reads in the same way.
    Read {
        /// Where in the file, bytes.
        offset_bytes: u64,
        /// Number of bytes, not 0.
        bytes: u64,
    },
    /// Makes the file durable (`fsync`).
    Sync,
    /// Has the kernel drop the file from its cache (`posix_fadvise`).
    DontNeed,
    /// Closes the open file.
    Close,
    /// Gives a file another name, also in place of what has that name.
    Rename {
        /// Path that the file has.
        from: Arc<str>,
        /// Path that the file gets.
        to: Arc<str>,
    },
    /// Removes a file, which may be absent.
    Remove {
        /// Path of the file.
        path: Arc<str>,
    },
}

impl FileStep {
    /// Kind by which the step is counted.
    pub fn kind(&self) -> StepKind {
        match self {
            FileStep::Stat { .. } => StepKind::Stat,
            FileStep::MakeDirectories { .. } => StepKind::MakeDirectories,
            FileStep::Open { how: OpenHow::Read, .. } => StepKind::Open,
            FileStep::Open { how: OpenHow::Create { .. }, .. } => StepKind::Create,
            FileStep::Write { .. } => StepKind::Write,
            FileStep::Read { .. } => StepKind::Read,
            FileStep::Sync => StepKind::Sync,
            FileStep::DontNeed => StepKind::DontNeed,
            FileStep::Close => StepKind::Close,
            FileStep::Rename { .. } => StepKind::Rename,
            FileStep::Remove { .. } => StepKind::Unlink,
        }
    }

    /// Paths that the step names; none where it refers to the open file.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        let (first, second) = match self {
            FileStep::Stat { path, .. }
            | FileStep::MakeDirectories { path }
            | FileStep::Open { path, .. }
            | FileStep::Remove { path } => (Some(path), None),
            FileStep::Rename { from, to } => (Some(from), Some(to)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// Steps on one object, done in their order until one fails. The object's file is open from an
/// [`FileStep::Open`] to the next [`FileStep::Close`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileScript {
    /// The steps, the first one first.
    pub steps: Vec<FileStep>,
}

/// Scripts that one worker does one after the other, whether they go well or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileTile {
    /// The scripts, the first one first.
    pub scripts: Vec<FileScript>,
}

/// Work that a store is asked for at once: its tiles are done side by side, and it is over when the
/// last of them is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRequest {
    /// The tiles, at least one.
    pub tiles: Vec<FileTile>,
}

impl FileRequest {
    /// Whether all of it makes sense, with I/Os of at most `largest_bytes`.
    pub(super) fn check(&self, largest_bytes: u64) -> Result<(), SetupError> {
        if self.tiles.is_empty() {
            return Err(senseless("a request of a layout asks for nothing".to_owned()));
        }
        let mut scripts = self.tiles.iter().flat_map(|tile| &tile.scripts);
        scripts.try_for_each(|script| script.check(largest_bytes))
    }
}

impl FileScript {
    fn check(&self, largest_bytes: u64) -> Result<(), SetupError> {
        // Whether the open file passes the page cache by.
        let mut open = None;
        for step in &self.steps {
            if let Some(path) = step.paths().find(|path| !is_path(path)) {
                return Err(senseless(format!("{path:?} is no path below a directory")));
            }
            let name = step.kind().name();
            match step {
                FileStep::Open { path, .. } if open.is_some() => {
                    return Err(senseless(format!("{path} is opened while another file is open")));
                }
                FileStep::Open { direct, .. } => open = Some(*direct),
                FileStep::Write { offset_bytes, bytes }
                | FileStep::Read { offset_bytes, bytes } => {
                    let Some(direct) = open else { return Err(unopened(name)) };
                    check_io(name, *offset_bytes, *bytes, largest_bytes)?;
                    let is_whole =
                        [offset_bytes, bytes].iter().all(|n| n.is_multiple_of(BLOCK_BYTES));
                    if direct && !is_whole {
                        return Err(SetupError::new(
                            format!(
                                "a {name} of {bytes} bytes at offset {offset_bytes} can't go past \
                                 the page cache (O_DIRECT)"
                            ),
                            "round the layout's objects to whole blocks of 4096 bytes, or do \
                             without O_DIRECT",
                        ));
                    }
                }
                FileStep::Sync | FileStep::DontNeed | FileStep::Close if open.is_none() => {
                    return Err(unopened(name));
                }
                FileStep::Close => open = None,
                _ => {}
            }
        }
        match open {
            None => Ok(()),
            Some(_) => Err(senseless("a script ends before it closes its file".to_owned())),
        }
    }
}

fn check_io(name: &str, offset: u64, bytes: u64, largest_bytes: u64) -> Result<(), SetupError> {
    let is_in_range = i64::try_from(offset.saturating_add(bytes)).is_ok();
    match bytes > 0 && bytes <= largest_bytes && is_in_range {
        true => Ok(()),
        false => Err(senseless(format!(
            "a {name} of {bytes} bytes at offset {offset} is outside of 1 to {largest_bytes} bytes \
             or of any file"
        ))),
    }
}

fn unopened(name: &str) -> SetupError {
    senseless(format!("a {name} comes before its file is open"))
}

fn senseless(what: String) -> SetupError {
    SetupError::new(what, "this is a mistake in the layout's scripts: please report it")
}

/// Whether it is names joined by single slashes, which lead nowhere but below.
fn is_path(path: &str) -> bool {
    path.split('/').all(|name| !matches!(name, "" | "." | "..") && !name.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(steps: Vec<FileStep>) -> String {
        let script = FileScript { steps };
        let request = FileRequest { tiles: vec![FileTile { scripts: vec![script] }] };
        request.check(8192).err().map_or_else(String::new, |error| error.to_string())
    }

    fn open(direct: bool) -> FileStep {
        FileStep::Open { path: "a/b".into(), how: OpenHow::Read, direct }
    }

    #[test]
    fn a_script_that_makes_no_sense_is_refused_with_the_reason() {
        let read = |offset_bytes, bytes| FileStep::Read { offset_bytes, bytes };
        assert_eq!(refusal(vec![open(false), read(3, 100), FileStep::Sync, FileStep::Close]), "");
        assert_eq!(refusal(vec![open(true), read(4096, 8192), FileStep::Close]), "");
        for (steps, expected) in [
            (vec![read(0, 1)], "a read comes before its file is open"),
            (vec![FileStep::Close], "a close comes before its file is open"),
            (vec![open(false), FileStep::Close, FileStep::Sync], "fsync comes before"),
            (vec![open(false)], "ends before it closes"),
            (vec![open(false), open(false)], "while another file is open"),
            (vec![open(false), read(0, 8193)], "outside of 1 to 8192 bytes"),
            (vec![open(false), read(0, 0)], "outside of 1 to 8192 bytes"),
            (vec![open(false), read(u64::MAX, 1)], "or of any file"),
            (vec![open(true), read(0, 4097)], "round the layout's objects"),
            (vec![open(true), read(512, 4096)], "round the layout's objects"),
        ] {
            let refusal = refusal(steps);
            assert!(refusal.contains(expected), "{refusal}");
        }
        let empty = FileRequest { tiles: Vec::new() }.check(1).unwrap_err().to_string();
        assert!(empty.contains("asks for nothing"), "{empty}");
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in ["", "/a", "a/", "a//b", ".", "../a", "a/../b", "a\0b"] {
            let rename =
                |from: &str, to: &str| FileStep::Rename { from: from.into(), to: to.into() };
            for step in [rename(path, "a"), rename("a", path)] {
                let refusal = refusal(vec![step]);
                assert!(refusal.contains("is no path below a directory"), "{path:?}: {refusal}");
            }
        }
        assert!(is_path("..a/b.c/...") && is_path("-SEP-@0x01 ü"));
    }
}
