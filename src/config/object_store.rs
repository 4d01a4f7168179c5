//! Object stores as settings name them: how requests are to be made, and what the settings come to.

use std::path::PathBuf;
use std::time::Duration;

use ringfall_core::fill::Shape;
use ringfall_core::units::{GIB, MIB};

pub use super::url::{ObjectUrl, Place, Scheme};
use super::words::choice;
use super::{Options, Settings};

/// Smallest and largest part of an upload, bytes, but for the last, which may be smaller: S3's
/// limits (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>).
pub const PART_BYTES: (u64, u64) = (5 * MIB, 5 * GIB);
/// Most parts of an upload, by the same page. Azure allows 50,000.
pub const PARTS_MAX: u64 = 10_000;

/// Most requests in flight.
pub const CONCURRENCY_MAX: u32 = 1_024;
/// Most times that a request is repeated.
pub const RETRIES_MAX: u32 = 100;
/// Longest that an attempt, or making a connection, may be allowed to take, s.
pub const TIMEOUT_S_MAX: u32 = 3_600;

choice! {
    /// Which endpoint the next request goes to.
    Balance {
        /// Each in turn.
        RoundRobin = "round-robin",
        /// The one with the fewest requests in flight.
        LeastInFlight = "least-in-flight",
    }
}

choice! {
    /// Where the bucket's name goes.
    PathStyle {
        /// Into the path where an endpoint is given, into the host name otherwise.
        Auto = "auto",
        /// Into the path.
        On = "on",
        /// Into the host name.
        Off = "off",
    }
}

choice! {
    /// Checksum of the bytes on their way to the store.
    Checksum {
        /// No checksum; only the connection protects the data.
        None = "none",
        /// SHA-256 in the signature.
        Sha256 = "sha256",
        /// CRC-64/NVME in a header.
        Crc64nvme = "crc64nvme",
    }
}

/// Options of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectOptions {
    /// `http://` or `https://` and a host; empty: the store's own, or what the environment says.
    pub endpoints: Vec<String>,
    /// Distribution of the requests over the endpoints.
    pub balance: Balance,
    /// The bucket's region; none: what the environment or the profile says, else us-east-1.
    pub region: Option<String>,
    /// Where the bucket's name goes.
    pub path_style: PathStyle,
    /// Profile of the shared credentials file; none: the environment's credentials come first.
    pub profile: Option<String>,
    /// Send requests without a signature.
    pub anonymous: bool,
    /// Certificates (PEM) that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Requests in flight, 1 to 1,024.
    pub concurrency: u32,
    /// Times that a request is repeated before it counts as failed, 0 to 100.
    pub retries: u32,
    /// Longest that one attempt may take.
    pub timeout: Duration,
    /// Longest that a connection may take to be made.
    pub connect_timeout: Duration,
    /// Checksum of the bytes.
    pub checksum: Checksum,
}

impl ObjectOptions {
    /// Whether all of it can be meant; the settings have checked each number by its bounds.
    ///
    /// # Errors
    /// Each thing that is wrong, with the flag.
    pub fn check(&self) -> Result<(), String> {
        let endpoints = self.endpoints.iter().map(|endpoint| check_endpoint(endpoint));
        let mut wrong: Vec<String> = endpoints.filter_map(Result::err).collect();
        if self.anonymous && self.profile.is_some() {
            let what = "--object-anonymous sends no credentials: leave --object-profile out";
            wrong.push(what.to_owned());
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let how = "--object-endpoint is http:// or https://, a host and perhaps a port, such as \
               http://127.0.0.1:9000";
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    match host.map(|host| host.trim_end_matches('/')) {
        Some(host) if host.contains('@') => {
            Err(format!("{how}; credentials are given in the environment or in a profile"))
        }
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', ' ']) => Ok(()),
        _ => Err(format!("{how}; not {endpoint:?}")),
    }
}

/// Value that was typed for a text, unless it is `auto`.
fn given(typed: &str) -> Option<String> {
    (typed != "auto").then(|| typed.to_owned())
}

impl Settings {
    /// The object store that `cache_dir` names, if it names one.
    pub fn object_url(&self) -> Option<ObjectUrl> {
        self.cache_dirs.iter().find_map(|path| match Place::parse(path.to_str()?) {
            Ok(Place::Objects(url)) => Some(url),
            _ => None,
        })
    }

    /// To which degree storage can reduce the content.
    pub const fn shape(&self) -> Shape {
        Shape { dedupe_ratio: self.dedupe_ratio, compress_ratio: self.compress_ratio }
    }

    /// Connection options of the object store.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{facts, plan_on};

    #[test]
    fn the_defaults_can_be_meant() {
        assert_eq!(ObjectOptions::default().check(), Ok(()));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let options = ObjectOptions {
            endpoints: vec!["127.0.0.1:9000".into(), "http://a:b@host".into()],
            anonymous: true,
            profile: Some("p".into()),
            ..ObjectOptions::default()
        };
        let told = options.check().unwrap_err();
        for word in ["127.0.0.1:9000", "credentials are given", "--object-anonymous"] {
            assert!(told.contains(word), "{word}: {told}");
        }
        assert!(!told.contains("a:b@"), "{told}");
    }

    #[test]
    fn what_is_not_given_is_as_the_library_has_it() {
        assert_eq!(plan_on("", &facts()).object_options(), ObjectOptions::default());
    }
}
