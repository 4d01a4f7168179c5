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

/// An open target.
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

/// Parses a path or URL.
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
        check_flags(stream, &[place(&stream.target)?])?;
        AnyTarget::open_at(stream, &stream.target, is_read)
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
        let target = AnyTarget::open_at(stream, &stream.target, false)?;
        let beside = beside.map(|beside| AnyTarget::open_at(stream, beside, false)).transpose()?;
        Ok((target, beside))
    }

    fn open_at(stream: &StreamArgs, typed: &Path, is_read: bool) -> Result<AnyTarget> {
        let path = match place(typed)? {
            Place::Path(path) => path,
            Place::Objects(url) => return open_objects(stream, &url),
        };
        let opened = FileTarget::open(&path, stream.io, !is_read);
        Ok(AnyTarget::File(opened.map_err(failed)?))
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
    let path = places.iter().find_map(|place| match place {
        Place::Path(path) => Some(path),
        Place::Objects(_) => None,
    });
    let has_store = places.iter().any(|place| matches!(place, Place::Objects(_)));
    match (stream.objects.first_given(), path) {
        (Some(flag), Some(path)) if !has_store => {
            let what = format!("{flag} is for object stores, and {} is a path", path.display());
            Err(InputError::new(what).into())
        }
        _ => Ok(()),
    }
}

#[cfg(feature = "objects")]
fn open_objects(
    stream: &StreamArgs,
    url: &ringfall_config::object_store::ObjectUrl,
) -> Result<AnyTarget> {
    let opened = ObjectTarget::open(url, &stream.objects.options);
    Ok(AnyTarget::Objects(opened.map_err(failed)?))
}

#[cfg(not(feature = "objects"))]
fn open_objects(
    _stream: &StreamArgs,
    _url: &ringfall_config::object_store::ObjectUrl,
) -> Result<AnyTarget> {
    Err(InputError::new(ringfall_config::Part::Objects.refusal()).into())
}
