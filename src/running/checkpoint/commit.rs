//! One checkpoint as a whole: what may be begun where, what is gone on with, and the moment at
//! which it counts. It counts when `checkpoint.json` is there; until then
//! `checkpoint-unfinished.json` says what it is to become.

use ringfall_core::units::gib;
use ringfall_host::{counted, human};

use super::layout::{Layout, Manifest};
use super::restore::missing;
use super::save::{FileWork, Saved, Stream, StreamError, missing_bytes, save};
use super::target::{Presence, Target, TargetError};

/// Beside a checkpoint that is whole.
const FINISHED: &str = "checkpoint.json";
/// Beside one that is being written.
const UNFINISHED: &str = "checkpoint-unfinished.json";
/// Longest manifest, bytes: that of 65,536 ranks has a tenth of it.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// Files of an unfinished checkpoint that an error names, at most.
const NAMED_MAX: usize = 16;

/// Handling of a checkpoint that already exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Nothing may be there.
    Fresh,
    /// An unfinished checkpoint is gone on with; without one it begins.
    Resume,
    /// A checkpoint, finished or not, is removed first.
    Overwrite,
}

/// A checkpoint to be written.
pub struct Commit<'a, T: Target> {
    /// Target of the checkpoint, and all that moving chunks there takes.
    pub on: &'a Stream<'a, T>,
    /// Description of the checkpoint: its job, files and chunks.
    pub manifest: &'a Manifest,
    /// Before each name; empty, or ends in `/`.
    pub prefix: &'a str,
}

impl<T: Target> Commit<'_, T> {
    /// Writes the checkpoint.
    ///
    /// # Errors
    /// Fails if an existing checkpoint forbids it, there is no room, or the target failed: the
    /// error names what is left of the checkpoint, and how to resume it.
    pub fn write(&self, begin: Begin) -> Result<Saved, StreamError> {
        let layout = Layout::new(self.manifest, self.prefix);
        self.write_files(&layout, begin).map_err(|error| match error {
            StreamError::Target(error) if !error.is_input => self.with_left(&layout, error).into(),
            error => error,
        })
    }

    /// An error, with the files that are left of an unfinished checkpoint; without them where they
    /// can't be looked at, or only `write` could go on with them.
    fn with_left(&self, layout: &Layout, error: TargetError) -> TargetError {
        match self.left(layout) {
            Ok(Some(left)) if self.prefix.is_empty() => TargetError {
                remedy: format!(
                    "{}; {left}: --resume with the same flags goes on from there, and --overwrite \
                     begins again",
                    error.remedy
                ),
                ..error
            },
            _ => error,
        }
    }

    /// Files that are left of an unfinished checkpoint, and their length, as a clause; none where
    /// there is no such checkpoint.
    fn left(&self, layout: &Layout) -> Result<Option<String>, TargetError> {
        let target = self.on.target;
        let there = |name| read(target, self.prefix, name);
        if there(FINISHED)?.is_some() || there(UNFINISHED)?.is_none() {
            return Ok(None);
        }
        let (mut names, mut length_bytes) = (vec![self.name(UNFINISHED)], 0);
        for file in &layout.files {
            let name = &file.plan.name;
            let draft = || target.draft_name(name);
            let (name, bytes) = match target.presence(name)? {
                Presence::Absent => continue,
                Presence::Draft { bytes } => (draft(), bytes),
                Presence::Parts { parts } => (draft(), parts.iter().map(|part| part.1).sum()),
                Presence::Published { bytes } => (name.clone(), bytes),
            };
            names.push(name);
            length_bytes += bytes;
        }
        let more = names.len().saturating_sub(NAMED_MAX);
        names.truncate(NAMED_MAX);
        let more = match more {
            0 => String::new(),
            more => format!(" and {}", counted(more as u64, "more file")),
        };
        let (names, place, size) = (names.join(", "), target.name(), human(length_bytes));
        Ok(Some(format!("{names}{more} ({size}) are left in {place}")))
    }

    fn write_files(&self, layout: &Layout, begin: Begin) -> Result<Saved, StreamError> {
        layout.files.iter().try_for_each(|file| self.on.target.check(&file.plan))?;
        let Some(works) = self.prepare(layout, begin)? else {
            let (step, found_bytes) = (self.manifest.step, self.manifest.total_bytes());
            return Ok(Saved { step, found_bytes, ..Saved::default() });
        };
        let to_store = missing_bytes(layout, &works);
        self.check_room(layout, &works)?;
        put(self.on.target, self.prefix, self.manifest, UNFINISHED)?;
        let saved = save(self.on, layout, &works, self.manifest.step)?;
        put(self.on.target, self.prefix, self.manifest, FINISHED)?;
        self.on.target.remove_small(&self.name(UNFINISHED))?;
        Ok(Saved { found_bytes: self.manifest.total_bytes() - to_store, ..saved })
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Prepares the save: returns the files and chunks to store; `None` when all are there.
    fn prepare(&self, layout: &Layout, begin: Begin) -> Result<Option<Vec<FileWork>>, StreamError> {
        let there = |name| read(self.on.target, self.prefix, name);
        // Before anything is removed or gone on with, it must be ours.
        let (finished, unfinished) = (there(FINISHED)?, there(UNFINISHED)?);
        match (begin, finished, unfinished) {
            (Begin::Overwrite, finished, unfinished) => {
                for manifest in [finished, unfinished].into_iter().flatten() {
                    remove(self.on.target, &manifest, self.prefix)?;
                }
            }
            (Begin::Resume, Some(finished), unfinished) => {
                self.same(&finished)?;
                if unfinished.is_some() {
                    // The save that wrote the former ended before it could remove this one.
                    self.on.target.remove_small(&self.name(UNFINISHED))?;
                }
                return Ok(None);
            }
            (Begin::Resume, None, Some(unfinished)) => {
                self.same(&unfinished)?;
                return missing(self.on, layout, self.manifest.step).map(Some);
            }
            (Begin::Fresh, Some(_), _) => {
                return Err(self.refused("holds a checkpoint already", "").into());
            }
            (Begin::Fresh, None, Some(_)) => {
                // Only `write` can go on, and only its checkpoint lies at the top.
                let resume =
                    if self.prefix.is_empty() { "--resume to go on with it, " } else { "" };
                return Err(self.refused("holds an unfinished checkpoint", resume).into());
            }
            (Begin::Fresh | Begin::Resume, None, None) => {}
        }
        for file in &layout.files {
            if self.on.target.presence(&file.plan.name)? != Presence::Absent {
                let what = format!(
                    "{} in {} belongs to no checkpoint that is known there",
                    file.plan.name,
                    self.on.target.name()
                );
                let remedy = "move it away, or give another directory or prefix";
                return Err(TargetError::input(what, remedy).into());
            }
        }
        Ok(Some(FileWork::all(layout)))
    }

    fn refused(&self, what: &str, resume: &str) -> TargetError {
        TargetError::input(
            format!("{}/{} {what}", self.on.target.name(), self.prefix),
            format!("give {resume}--overwrite to begin again, or another directory or prefix"),
        )
    }

    /// Whether what is there is of the checkpoint that is asked for.
    fn same(&self, there: &Manifest) -> Result<(), TargetError> {
        let wanted = self.manifest;
        let different = if there.shard_bytes != wanted.shard_bytes {
            Some(format!(
                "{:.3} GiB (ranks: {}) instead of {:.3} GiB (ranks: {})",
                gib(there.total_bytes()),
                there.shard_bytes.len(),
                gib(wanted.total_bytes()),
                wanted.shard_bytes.len()
            ))
        } else if (there.seed, there.step) != (wanted.seed, wanted.step) {
            Some(format!("seed {} instead of {}", there.seed, wanted.seed))
        } else if there.shared_file != wanted.shared_file {
            Some("the other of one file and one for each rank".to_owned())
        } else if there.chunk_bytes != wanted.chunk_bytes {
            let (there, wanted) = (there.chunk_bytes >> 10, wanted.chunk_bytes >> 10);
            Some(format!("chunks of {there} KiB instead of {wanted} KiB"))
        } else if there != wanted {
            Some("other --dedupe-ratio or --compress-ratio".to_owned())
        } else {
            None
        };
        different.map_or(Ok(()), |different| {
            Err(TargetError::input(
                format!("the checkpoint in {} is another one: {different}", self.on.target.name()),
                "give the flags with which it was begun, or --overwrite, or another directory",
            ))
        })
    }

    fn check_room(&self, layout: &Layout, works: &[FileWork]) -> Result<(), TargetError> {
        // What a draft holds has its space already.
        let wanted = missing_bytes(layout, works.iter().filter(|work| !work.goes_on));
        match self.on.target.room_bytes()? {
            Some(room) if room < wanted => Err(TargetError::new(
                no_room(&self.on.target.name(), room, wanted),
                "free space there, ask for less, or give another directory",
            )),
            _ => Ok(()),
        }
    }
}

/// Sentence for a target that has less room than is wanted, bytes.
fn no_room(target: &str, room: u64, wanted: u64) -> String {
    let (room, lacking) = (human(room), human(wanted - room));
    format!("{target} has room for {room}, {lacking} less than the checkpoint needs")
}

fn put<T: Target>(
    target: &T,
    prefix: &str,
    manifest: &Manifest,
    name: &str,
) -> Result<(), TargetError> {
    let text = serde_json::to_vec_pretty(manifest).expect("plain values become JSON");
    target.put(&format!("{prefix}{name}"), &text)
}

/// A manifest, if it is there.
fn read<T: Target>(target: &T, prefix: &str, name: &str) -> Result<Option<Manifest>, TargetError> {
    let name = format!("{prefix}{name}");
    let Some(text) = target.get(&name, MANIFEST_BYTES_MAX)? else { return Ok(None) };
    let strange = |why: String| {
        TargetError::input(
            format!("{name} in {} describes no checkpoint: {why}", target.name()),
            "give another directory, or move the file away",
        )
    };
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| strange(error.to_string()))?;
    manifest.check().map_err(strange)?;
    Ok(Some(manifest))
}

/// The manifest of the checkpoint that is there.
///
/// # Errors
/// There is none, or none that is whole.
pub fn find<T: Target>(target: &T, prefix: &str) -> Result<Manifest, TargetError> {
    if let Some(manifest) = read(target, prefix, FINISHED)? {
        return Ok(manifest);
    }
    Err(match read(target, prefix, UNFINISHED)? {
        Some(_) => TargetError::input(
            format!("the checkpoint in {} is not finished", target.name()),
            "go on with it by `ringfall checkpoint write --resume` and the flags with which it \
             was begun",
        ),
        None => TargetError::input(
            format!("there is no checkpoint in {}: {FINISHED} is missing", target.name()),
            "give the directory to which `ringfall checkpoint write` has written",
        ),
    })
}

/// Removes a checkpoint, its manifest first: what is left half-way counts no more.
pub fn remove<T: Target>(target: &T, manifest: &Manifest, prefix: &str) -> Result<(), TargetError> {
    // Lets a removal that is interrupted be gone on with; a full disk must not forbid one.
    let _marked = put(target, prefix, manifest, UNFINISHED);
    target.remove_small(&format!("{prefix}{FINISHED}"))?;
    for file in Layout::new(manifest, prefix).files {
        target.remove(&file.plan.name)?;
    }
    target.remove_small(&format!("{prefix}{UNFINISHED}"))
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::{GIB, MIB};
    use ringfall_host::Scratch;

    use super::super::file::{FileTarget, Io};
    use super::super::layout::{FORMAT, FORMAT_VERSION};
    use super::super::meter::Meter;
    use super::super::save::{SaveSettings, StreamSettings, Way};
    use super::*;

    /// Only the file whose write had failed was named, and neither the others nor a way on.
    #[test]
    fn an_error_names_all_that_is_left_and_how_to_go_on() {
        let scratch = Scratch::new("checkpoint-left");
        let path = scratch.join("c");
        let target = FileTarget::open(&path, Io::Buffered, true).unwrap();
        let stream = StreamSettings { threads: 1, buffers: 1, chunk_bytes: MIB };
        let settings = SaveSettings { stream, files_at_once: 1, durable: true, way: Way::Stream };
        let (meter, stop) = (Meter::default(), || false);
        let on = Stream { target: &target, settings: &settings, meter: &meter, stop: &stop };
        let manifest = |ranks: usize| Manifest {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            seed: 1,
            step: 1,
            shard_bytes: vec![MIB; ranks],
            shared_file: false,
            chunk_bytes: MIB,
            dedupe_ratio: 1.0,
            compress_ratio: 1.0,
        };
        let told = |manifest: &Manifest, prefix: &str| {
            let commit = Commit { on: &on, manifest, prefix };
            let error = TargetError::new("can't write x: Read-only file system", "look at dmesg");
            commit.with_left(&Layout::new(manifest, prefix), error).to_string()
        };
        let bare = "can't write x: Read-only file system: look at dmesg";
        let three = manifest(3);
        assert_eq!(told(&three, ""), bare, "nothing is there");
        put(&target, "", &three, UNFINISHED).unwrap();
        scratch.file("c/rank-00000-of-00003.ckpt.part", "12345");
        scratch.file("c/rank-00002-of-00003.ckpt", "12345");
        let all = format!(
            "{bare}; checkpoint-unfinished.json, rank-00000-of-00003.ckpt.part, \
             rank-00002-of-00003.ckpt (1 KiB) are left in {}: --resume with the same flags goes on \
             from there, and --overwrite begins again",
            path.display()
        );
        assert_eq!(told(&three, ""), all);
        // Of many some are named. What is below a prefix, `write` can't go on with.
        let many = manifest(20);
        put(&target, "", &many, UNFINISHED).unwrap();
        put(&target, "compared/", &many, UNFINISHED).unwrap();
        for rank in 0..20 {
            scratch.file(&format!("c/rank-{rank:05}-of-00020.ckpt.part"), "1");
        }
        let some = told(&many, "");
        assert!(some.contains("rank-00014-of-00020.ckpt.part and 5 more files (1 KiB)"), "{some}");
        assert_eq!(told(&many, "compared/"), bare);
        put(&target, "", &many, FINISHED).unwrap();
        assert_eq!(told(&many, ""), bare, "it is whole");
    }

    /// It had `room for 0.10 GiB, 0.00 GiB less than the checkpoint needs`.
    #[test]
    fn a_little_room_that_lacks_is_not_told_as_none() {
        let told = no_room("/d", 100 * MIB, 100 * MIB + 4096);
        assert_eq!(told, "/d has room for 100.0 MiB, 4 KiB less than the checkpoint needs");
        let told = no_room("/d", 2 * GIB, 12 * GIB);
        assert_eq!(told, "/d has room for 2.0 GiB, 10.0 GiB less than the checkpoint needs");
    }
}
