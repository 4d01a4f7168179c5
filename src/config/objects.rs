//! A storage tier in an object store: what its settings come to, and what does not go with it.

use std::time::Duration;

use super::resolve::Check;
use super::{Origin, Preallocate, RooflineFrom, SETTINGS, Settings};
use crate::objects::{LEFT_OUT, ObjectOptions, ObjectUrl, Place};

/// What a setting begins with that means something to an object store alone.
const OWN_PREFIX: &str = "object_";

/// What is typed for a text, unless it is left to others.
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

    /// How it is reached.
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

impl Check<'_> {
    /// What does not go with an object store, or means nothing without one.
    pub(super) fn objects(&mut self, settings: &Settings) {
        let Some(url) = settings.object_url() else {
            // A configuration that was printed names every setting, so one of a file may be idle.
            let typed = |key| self.origins.get(key) == Some(&Origin::CommandLine);
            let asked = SETTINGS
                .iter()
                .find(|setting| setting.key.starts_with(OWN_PREFIX) && typed(setting.key));
            if let Some(setting) = asked {
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
        if !cfg!(feature = "objects") {
            self.wrong("cache_dir", format_args!("{url}: {LEFT_OUT}"));
        }
        if settings.cache_dirs.len() > 1 {
            self.wrong("cache_dir", "names an object store beside others: name it alone");
        }
        if settings.storage_capacity_bytes == 0 && !settings.is_without_storage {
            let what = "is needed: an object store has no size of its own";
            self.wrong("storage_capacity_gb", what);
        }
        let asked = [
            ("sqpoll", settings.sqpoll),
            ("precondition", settings.is_preconditioned),
            ("roofline", settings.roofline == Some(RooflineFrom::Fresh)),
            ("enable_latency_tracing", settings.latency_tracing),
            ("fio_output", settings.fio_output.is_some() && !settings.latency_tracing),
            ("destroy_device_contents", settings.destroy_device_contents),
            ("preallocate", settings.preallocate != Preallocate::Grow),
        ];
        for (key, _) in asked.into_iter().filter(|(_, is_asked)| *is_asked) {
            self.wrong(key, format_args!("works with a drive, not with an object store ({url})"));
        }
        if let Err(what) = settings.object_options().check() {
            self.complain(what);
        }
    }
}
