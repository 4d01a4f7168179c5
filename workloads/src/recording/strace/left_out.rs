//! Calls that are counted and not done again.

use super::super::call::{Answer, Call, descriptor};
use super::super::operation::FileAction;
use super::{Named, Strace, argument, decoded};

/// Calls on files that are counted and not done again.
const NOT_REPLAYED: &str = "\
    chmod chown chroot copy_file_range fadvise64 fallocate fchmod fchmodat fchown fchownat \
    fgetxattr flock fsetxattr ftruncate getdents64 getxattr io_submit io_uring_enter ioctl \
    lchown lgetxattr lsetxattr mknod mknodat mmap msync readahead renameat2 sendfile setxattr \
    splice statfs symlink symlinkat sync sync_file_range syncfs truncate utimensat";
/// Those that tell of no file, or change what paths mean, and are counted wherever they are.
const OF_NO_FILE: [&str; 5] = ["chroot", "io_submit", "io_uring_enter", "msync", "sync"];
/// Those that change a file's size.
const RESIZING: [&str; 3] = ["fallocate", "ftruncate", "truncate"];
/// Those that copy data.
const COPIES: [&str; 3] = ["copy_file_range", "sendfile", "splice"];
/// Longest piece in which what a call copied is written, bytes.
const PIECE_BYTES: usize = 1 << 20;

impl Strace {
    /// A call that copies data between files, which is not done again: what it put into a file is
    /// written all the same, as others may read it. Each end is a descriptor with its offset.
    pub(super) fn copies(
        &mut self,
        call: &Call<'_>,
        [from, to]: [(usize, Option<usize>); 2],
    ) -> Result<(), String> {
        self.leaves_out(call, call.name)?;
        let Answer::Value { value: moved, .. } = call.answer else { return Ok(()) };
        self.end_of_copy(call, from, moved)?;
        let Some((handle, offset)) = self.end_of_copy(call, to, moved)? else { return Ok(()) };
        let bytes = u32::try_from(moved).ok().filter(|moved| *moved < 1 << 31);
        let bytes = bytes.ok_or("no call moves as many bytes")?;
        let thread = self.processes.index_of(call.thread);
        for place in (0..bytes).step_by(PIECE_BYTES) {
            let offset = offset.saturating_add(place.into());
            let bytes = (bytes - place).min(PIECE_BYTES as u32);
            self.add(thread, call.begin_ns, FileAction::Write { handle, offset, bytes, flags: 0 });
        }
        Ok(())
    }

    /// File of one end of a copy and the place there, if it is a file.
    fn end_of_copy(
        &mut self,
        call: &Call<'_>,
        (end, offset): (usize, Option<usize>),
        moved: u64,
    ) -> Result<Option<(u32, u64)>, String> {
        let Some(handle) = self.handle(call, end, true)? else { return Ok(None) };
        let told = offset.map(|place| argument(call, place)).transpose()?;
        let offset = match told.filter(|told| *told != "NULL") {
            Some(told) => {
                let begin = told.trim_start_matches('[').split(']').next().unwrap_or_default();
                begin.parse().map_err(|_| "it has no offset")?
            }
            None => self.moves_position(handle, moved)?,
        };
        Ok(Some((handle, offset)))
    }

    /// Counts a call on files, or one that moves data without naming any, which is not done again.
    pub(super) fn leaves_out(&mut self, call: &Call<'_>, name: &str) -> Result<(), String> {
        let known = NOT_REPLAYED.split(' ').find(|known| *known == name);
        let Some(known) = known else { return Ok(()) };
        // The first is no path of a file, or others are none.
        let places = match name {
            "symlink" | "symlinkat" => 1..usize::MAX,
            _ if name.contains("xattr") => 0..1,
            _ => 0..usize::MAX,
        };
        if OF_NO_FILE.contains(&name) {
            self.count_left_out(known, [None; 2], 0);
            return Ok(());
        }
        let (mut names, mut is_told) = ([None; 2], false);
        let arguments = call.arguments.iter().enumerate();
        for (place, argument) in arguments.filter(|(place, _)| places.contains(place)) {
            let before = place.checked_sub(1);
            let file = match descriptor(argument) {
                Some((_, Some(path))) if path.starts_with('/') => {
                    Some(self.number(&decoded(path)?)?)
                }
                _ if argument.starts_with('"') => {
                    let is_directory = |place: &usize| {
                        let before = call.arguments[*place];
                        before.starts_with("AT_FDCWD") || descriptor(before).is_some()
                    };
                    match self.named(call, before.filter(is_directory), place)? {
                        Named::Path(name) => Some(name),
                        Named::Open(_) | Named::Unresolved => None,
                    }
                }
                _ => continue,
            };
            is_told |= file.is_some();
            if let Some(free) = names.iter_mut().find(|name| name.is_none()) {
                *free = file;
            }
        }
        let bytes = match call.answer {
            Answer::Value { value, .. } if COPIES.contains(&name) => value,
            _ => 0,
        };
        if is_told {
            self.count_left_out(known, names, bytes);
        }
        if RESIZING.contains(&name) {
            self.resized.extend(names[0]);
        }
        Ok(())
    }
}
