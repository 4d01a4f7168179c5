//! Credentials and settings of a profile, from the files that AWS's own tools share.
//!
//! Their form: <https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html>. The crate
//! `object_store` reads the environment only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfall_host::read_text;

/// Settings of a profile.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Access key, secret, and the token of temporary credentials.
    pub(super) keys: Option<(String, String, Option<String>)>,
    pub(super) region: Option<String>,
    /// Address of the server.
    pub(super) endpoint: Option<String>,
}

/// Largest file of profiles read: thousands of them.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Ways to get credentials that need another program or service, which is AWS's tools' business.
const FOREIGN: [&str; 4] = ["credential_process", "sso_session", "sso_start_url", "role_arn"];

/// The two files: credentials and configuration.
pub struct ProfileFiles {
    /// File of credentials that AWS's tools share.
    pub credentials: PathBuf,
    /// File of settings that AWS's tools share, such as the region.
    pub config: PathBuf,
}

impl ProfileFiles {
    /// Where the environment says, else below the home directory.
    pub fn of_environment() -> ProfileFiles {
        let home = std::env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from);
        let file = |variable: &str, name: &str| {
            std::env::var_os(variable).map_or_else(|| home.join(".aws").join(name), PathBuf::from)
        };
        ProfileFiles {
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: file("AWS_CONFIG_FILE", "config"),
        }
    }

    /// The profile of that name; none where neither file has it.
    ///
    /// # Errors
    /// A file can't be read, or the profile gets its credentials from another program.
    pub fn read(&self, name: &str) -> Result<Option<Profile>, String> {
        let credentials = section(&text(&self.credentials)?, |header| header == name);
        let config = section(&text(&self.config)?, |header| {
            header == name && name == "default" || header == format!("profile {name}")
        });
        if credentials.is_none() && config.is_none() {
            return Ok(None);
        }
        let (credentials, config) = (credentials.unwrap_or_default(), config.unwrap_or_default());
        let value = |key: &str| credentials.get(key).or_else(|| config.get(key)).cloned();
        let keys = value("aws_access_key_id").zip(value("aws_secret_access_key"));
        if let (None, Some(foreign)) = (&keys, FOREIGN.iter().find(|key| value(key).is_some())) {
            return Err(format!(
                "the profile {name} gets its credentials by {foreign}, which ringfall does not do: \
                 run `eval \"$(aws configure export-credentials --profile {name} --format env)\"` \
                 first"
            ));
        }
        Ok(Some(Profile {
            keys: keys.map(|(key, secret)| (key, secret, value("aws_session_token"))),
            region: value("region"),
            endpoint: value("endpoint_url"),
        }))
    }
}

/// A file's text; nothing where there is no such file.
fn text(path: &Path) -> Result<String, String> {
    match read_text(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{} can't be read: {error}", path.display())),
        Ok(text) => Ok(text),
    }
}

/// The settings below the headers that `is_meant` knows, the last of two counts; none where there
/// is no such header.
fn section(text: &str, is_meant: impl Fn(&str) -> bool) -> Option<BTreeMap<String, String>> {
    let mut settings = None;
    let mut inside = false;
    for line in text.lines() {
        // An indented line belongs to the setting above it.
        if line.starts_with([' ', '\t']) || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default();
            let words: Vec<&str> = header.split_whitespace().collect();
            inside = is_meant(&words.join(" "));
            if inside {
                settings.get_or_insert_with(BTreeMap::new);
            }
        } else if let (true, Some((key, value))) = (inside, line.split_once('=')) {
            let value = value.split(" #").next().unwrap_or_default().trim();
            let all = settings.get_or_insert_with(BTreeMap::new);
            all.insert(key.trim().to_lowercase(), value.to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn both_files_make_a_profile() {
        let scratch = Scratch::new("profile");
        let credentials = scratch.file(
            "credentials",
            "[default]\naws_access_key_id = A\naws_secret_access_key=B=\n; x\n[ lab ]\n\
             aws_access_key_id=C\nAWS_SECRET_ACCESS_KEY = D # mine\naws_session_token=E\n",
        );
        let config = scratch.file(
            "config",
            "[default]\nregion = eu-1\n[profile lab]\ns3 =\n  endpoint_url = http://no\n\
             endpoint_url = http://yes:1\n[profile sso]\nsso_session = corp\n[lab]\nregion = no\n",
        );
        let files = ProfileFiles { credentials, config };
        let default = files.read("default").unwrap().unwrap();
        assert_eq!(default.keys, Some(("A".into(), "B=".into(), None)));
        assert_eq!(default.region.as_deref(), Some("eu-1"));
        let lab = files.read("lab").unwrap().unwrap();
        assert_eq!(lab.keys, Some(("C".into(), "D".into(), Some("E".into()))));
        assert_eq!((lab.region, lab.endpoint.as_deref()), (None, Some("http://yes:1")));
        assert!(files.read("other").unwrap().is_none());
        let told = files.read("sso").map(|_| ()).unwrap_err();
        assert!(told.contains("sso_session") && told.contains("export-credentials"), "{told}");
    }

    #[test]
    fn files_that_are_not_there_hold_nothing() {
        let nowhere = PathBuf::from("/nonexistent/ringfall");
        let files = ProfileFiles { credentials: nowhere.clone(), config: nowhere };
        assert!(files.read("default").unwrap().is_none());
    }
}
