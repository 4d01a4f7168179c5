//! Needs that settings have of storage, and those that the other settings leave unmet.

use super::{Depth, RooflineFrom, Settings};
use crate::object_store::ObjectUrl;

/// Unmet need of a setting.
pub(super) enum Lack {
    /// There is no storage tier.
    Storage,
    /// It is in an object store, not on a drive.
    Drive(ObjectUrl),
}

/// Need that is unmet when the setting differs from its default; none if it is met.
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
