//! Where a checkpoint is: in a directory or in an object store.

use anyhow::Result;

use super::{failed, io};
use crate::checkpoint::FileTarget;
#[cfg(feature = "objects")]
use crate::checkpoint::ObjectTarget;
use crate::cli::StreamArgs;
use crate::config::InputError;
#[cfg(feature = "objects")]
use crate::escape::terminal;
use crate::objects::Place;

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

impl AnyTarget {
    /// Opens it; a directory is made if it is not there, unless `is_read`.
    pub(super) fn open(stream: &StreamArgs, is_read: bool) -> Result<AnyTarget> {
        let place = match stream.target.to_str() {
            // A path may be any bytes, a URL may not.
            None => Place::Path(stream.target.clone()),
            Some(typed) => Place::parse(typed).map_err(InputError::new)?,
        };
        let path = match place {
            Place::Path(path) => path,
            Place::Objects(url) => return open_objects(stream, &url),
        };
        if let Some(flag) = stream.objects.first_given() {
            let what = format!("{flag} is for object stores, and {} is a path", path.display());
            return Err(InputError::new(what).into());
        }
        let opened = match is_read {
            true => FileTarget::open_existing(&path, io(stream)),
            false => FileTarget::open(&path, io(stream)),
        };
        Ok(AnyTarget::File(opened.map_err(failed)?))
    }
}

#[cfg(feature = "objects")]
fn open_objects(stream: &StreamArgs, url: &crate::objects::ObjectUrl) -> Result<AnyTarget> {
    use std::time::Duration;

    /// How long the store may take to answer before it is told that it is waited for.
    const AWAITED_MIN: Duration = Duration::from_secs(2);
    let mut is_told = stream.quiet;
    let mut awaited = |waited| {
        if waited >= AWAITED_MIN && !std::mem::replace(&mut is_told, true) {
            crate::stderr::tell(format_args!(
                "waiting for {} to answer…",
                terminal(&url.to_string())
            ));
        }
    };
    let opened = ObjectTarget::open(url, &stream.objects.options, &mut awaited);
    Ok(AnyTarget::Objects(opened.map_err(failed)?))
}

#[cfg(not(feature = "objects"))]
fn open_objects(_stream: &StreamArgs, _url: &crate::objects::ObjectUrl) -> Result<AnyTarget> {
    Err(InputError::new(crate::objects::LEFT_OUT).into())
}
