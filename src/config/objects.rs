//! A storage tier in an object store: what its settings come to, and what does not go with it.

use std::time::Duration;

use ringfall_core::fill::Shape;

use super::check::Check;
use super::{Options, Origin, Settings, Shared};
use crate::Part;
use crate::object_store::{ObjectOptions, ObjectUrl, Place};

/// Value that was typed for a text, unless it is `auto`.
fn given(typed: &str) -> Option<String> {
    (typed != "auto").then(|| typed.to_owned())
}

impl Settings {
    /// The object store that `cache_dir` names, if it names one.
    #[must_use]
    pub fn object_url(&self) -> Option<ObjectUrl> {
        self.cache_dirs.iter().find_map(|path| match Place::parse(path.to_str()?) {
            Ok(Place::Objects(url)) => Some(url),
            _ => None,
        })
    }

    /// To which degree storage can reduce the content.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape { dedupe_ratio: self.dedupe_ratio, compress_ratio: self.compress_ratio }
    }

    /// Connection options of the object store.
    #[must_use]
    pub fn object_options(&self) -> ObjectOptions {
        let endpoints = given(&self.object_endpoint).unwrap_or_default();
        let endpoints = endpoints.split(',').map(|endpoint| endpoint.trim().to_owned());
        ObjectOptions {
            endpoints: endpoints.filter(|endpoint| !endpoint.is_empty()).collect(),
            balance: self.object_balance,
            region: given(&self.object_region),
            path_style: self.object_path_style,
            profile: given(&self.object_profile),
            anonymous: self.object_anonymous,
            ca_file: self.object_ca_file.clone(),
            concurrency: self.object_concurrency,
            retries: self.object_retries,
            timeout: Duration::from_secs(u64::from(self.object_timeout_s)),
            connect_timeout: Duration::from_secs(u64::from(self.object_connect_timeout_s)),
            checksum: self.object_checksum,
        }
    }
}

/// Options that the settings come to where nothing is given.
impl Default for ObjectOptions {
    fn default() -> ObjectOptions {
        let settings = Settings::of(&Options::defaults(), &mut |_, _| {});
        settings.expect("every setting has a default").object_options()
    }
}

impl Check<'_> {
    /// Refuses settings that don't go with an object store, or mean nothing without one.
    pub(super) fn objects(&mut self, settings: &Settings) {
        let Some(url) = settings.object_url() else {
            // A configuration that was printed names every setting, so one of a file may be idle.
            let typed = |key| self.origins.get(key) == Some(&Origin::CommandLine);
            if let Some(setting) = Shared::Objects.settings().find(|one| typed(one.key)) {
                let other = self.name_of("cache_dir");
                self.wrong(
                    setting.key,
                    format_args!(
                        "has no effect: {other} names no object store (s3://, az://, gs://)"
                    ),
                );
            }
            return;
        };
        if !Part::Objects.is_built() {
            self.wrong("cache_dir", format_args!("{url}: {}", Part::Objects.refusal()));
        }
        if settings.cache_dirs.len() > 1 {
            self.wrong("cache_dir", "names an object store beside others: name it alone");
        }
        if settings.storage_capacity_bytes == 0 && !settings.is_without_storage {
            let what = "is needed: an object store has no size of its own";
            self.wrong("storage_capacity_gb", what);
        }
        if let Err(what) = settings.object_options().check() {
            self.complain(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{facts, plan_on};

    #[test]
    fn what_is_not_given_is_as_the_library_has_it() {
        assert_eq!(plan_on("", &facts()).object_options(), ObjectOptions::default());
    }
}
