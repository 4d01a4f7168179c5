//! What settings ask of storage, and what of it is not there as the others stand.

use super::{Depth, RooflineFrom, Settings};
use crate::objects::ObjectUrl;

/// What is asked for and not there.
pub(super) enum Lack {
    /// There is no storage tier.
    Storage,
    /// It is in an object store, not on a drive.
    Drive(ObjectUrl),
}

/// What a setting asks for in vain when it differs from its default; none where it has it.
pub(super) type Needs = fn(&Settings) -> Option<Lack>;

pub(super) fn storage(settings: &Settings) -> Option<Lack> {
    settings.is_without_storage.then_some(Lack::Storage)
}

/// A tier that is left out has a drive as good as any other.
pub(super) fn no_object_store(settings: &Settings) -> Option<Lack> {
    settings.object_url().map(Lack::Drive)
}

pub(super) fn drive(settings: &Settings) -> Option<Lack> {
    storage(settings).or_else(|| no_object_store(settings))
}

/// Limits of an object store may come from a file.
pub(super) fn limits(settings: &Settings) -> Option<Lack> {
    match settings.roofline {
        Some(RooflineFrom::Fresh) => drive(settings),
        _ => storage(settings),
    }
}

/// A depth that is given has no effect without storage, and does no harm.
pub(super) fn searched_depth(settings: &Settings) -> Option<Lack> {
    storage(settings).filter(|_| settings.depth == Depth::Auto)
}
