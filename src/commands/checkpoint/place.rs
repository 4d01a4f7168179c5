//! Where a checkpoint is: in a directory or in an object store.

use std::path::Path;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_config::object_store::Place;
use ringfall_running::checkpoint::FileTarget;
#[cfg(feature = "objects")]
use ringfall_running::checkpoint::ObjectTarget;

use super::failed;
use crate::cli::StreamArgs;

pub(super) enum AnyTarget {
    /// A directory.
    File(FileTarget),
    /// A prefix in an object store.
    #[cfg(feature = "objects")]
    Objects(ObjectTarget),
}

/// Does the same with either kind of target.
macro_rules! with_target {
    ($any:expr, $target:ident => $body:expr) => {
        match $any {
            AnyTarget::File($target) => $body,
            #[cfg(feature = "objects")]
            AnyTarget::Objects($target) => $body,
        }
    };
}
pub(super) use with_target;

fn place(typed: &Path) -> Result<Place> {
    Ok(match typed.to_str() {
        // A path may be any bytes, a URL may not.
        None => Place::Path(typed.to_path_buf()),
        Some(typed) => Place::parse(typed).map_err(InputError::new)?,
    })
}

impl AnyTarget {
    /// Opens it; a directory is made if it is not there, unless `is_read`.
    pub(super) fn open(stream: &StreamArgs, is_read: bool) -> Result<AnyTarget> {
        let place = place(&stream.target)?;
        check_flags(stream, std::slice::from_ref(&place))?;
        AnyTarget::at(stream, place, is_read)
    }

    /// Opens it, and another one that is used in turn with it.
    pub(super) fn open_two(
        stream: &StreamArgs,
        beside: Option<&Path>,
    ) -> Result<(AnyTarget, Option<AnyTarget>)> {
        let typed = std::iter::once(&*stream.target).chain(beside);
        let places = typed.map(place).collect::<Result<Vec<Place>>>()?;
        check_flags(stream, &places)?;
        if let [target, beside] = &places[..]
            && is_same(target, beside)
        {
            refuse!(
                "--beside names the place that is compared already, {}: give it another directory \
                 or another prefix",
                stream.target.display()
            );
        }
        let mut places = places.into_iter();
        let mut open = || places.next().map(|place| AnyTarget::at(stream, place, false));
        let target = open().expect("the target's place is the first")?;
        Ok((target, open().transpose()?))
    }

    fn at(stream: &StreamArgs, place: Place, is_read: bool) -> Result<AnyTarget> {
        match place {
            Place::Path(path) => {
                let opened = FileTarget::open(&path, stream.io, !is_read);
                Ok(AnyTarget::File(opened.map_err(failed)?))
            }
            #[cfg(feature = "objects")]
            Place::Objects(url) => {
                let opened = ObjectTarget::open(&url, &stream.objects.options);
                Ok(AnyTarget::Objects(opened.map_err(failed)?))
            }
            #[cfg(not(feature = "objects"))]
            Place::Objects(_) => refuse!("{}", ringfall_config::Part::Objects.refusal()),
        }
    }
}

/// Whether two places are one, by whatever names.
fn is_same(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Path(one), Place::Path(other)) => {
            // What is not there yet has no other name than what was typed, made absolute.
            let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
            let real = |path: &Path| real(path).unwrap_or_else(|_| path.to_path_buf());
            real(one) == real(other)
        }
        (Place::Objects(one), Place::Objects(other)) => one == other,
        _ => false,
    }
}

/// Flags for object stores want one.
fn check_flags(stream: &StreamArgs, places: &[Place]) -> Result<()> {
    let is_path = |place: &Place| matches!(place, Place::Path(_));
    match (stream.objects.first_given(), places.first()) {
        (Some(flag), Some(Place::Path(path))) if places.iter().all(is_path) => {
            refuse!("{flag} is for object stores, and {} is a path", path.display())
        }
        _ => Ok(()),
    }
}
