//! Target of a URL: a bucket and a prefix in it, or a directory.

use std::fmt;
use std::path::PathBuf;

ringfall_core::named! {
/// Whose protocol is spoken.
pub enum Scheme {
    /// Amazon S3, and whatever speaks it: `s3://`.
    S3 = "s3",
    /// Azure Blob Storage: `az://`.
    Azure = "az",
    /// Google Cloud Storage: `gs://`.
    Google = "gs",
}
}

/// A bucket (a container, in Azure's words) and what all names in it begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectUrl {
    /// Protocol of the store: S3, Azure Blob Storage or Google Cloud Storage.
    pub scheme: Scheme,
    /// Name of the bucket, or of the container in Azure's words.
    pub bucket: String,
    /// Prefix of all names, without a slash at either end; may be empty.
    pub prefix: String,
}

/// A place as it is typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A directory or a device: a path, or `file://` and an absolute one.
    Path(PathBuf),
    /// In an object store.
    Objects(ObjectUrl),
}

/// Longest name of an object, bytes: the limit of S3 and of Google's store; Azure's is 1,024
/// characters.
const KEY_BYTES_MAX: usize = 1_024;
/// Left for what is added to the prefix, bytes.
const NAME_BYTES_MAX: usize = 256;

impl Place {
    /// Reads it.
    ///
    /// # Errors
    /// Returns the problem, and what to type. The text itself is not repeated where it may hold a
    /// password.
    pub fn parse(text: &str) -> Result<Place, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text.split_once(":/") {
                // A slash that was forgotten; a directory of such a name is `./s3:/x`.
                Some((scheme @ ("s3" | "s3a" | "az" | "gs"), rest)) => Err(format!(
                    "{text:?} is neither a URL nor a plain path: write {scheme}://{rest}, or \
                     ./{text} for a directory"
                )),
                _ => Ok(Place::Path(PathBuf::from(text))),
            };
        };
        let scheme = match scheme {
            "s3" | "s3a" => Scheme::S3,
            "az" => Scheme::Azure,
            "gs" => Scheme::Google,
            "file" => return file(rest),
            // A path may hold anything, but hardly this.
            other if !other.is_empty() && other.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return Err(format!(
                    "{other}:// is not known: use s3://, az://, gs:// or file://; the address of a \
                     server is given with --object-endpoint"
                ));
            }
            _ => return Ok(Place::Path(PathBuf::from(text))),
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Place::Objects(ObjectUrl {
            scheme,
            bucket: checked_bucket(scheme, bucket)?,
            prefix: checked_prefix(prefix)?,
        }))
    }
}

fn file(rest: &str) -> Result<Place, String> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    match path.starts_with('/') {
        true => Ok(Place::Path(PathBuf::from(path))),
        false => Err("file:// must be followed by an absolute path: file:///mnt/nvme".to_owned()),
    }
}

fn checked_bucket(scheme: Scheme, bucket: &str) -> Result<String, String> {
    let name = scheme.name();
    if bucket.contains('@') {
        return Err(format!(
            "credentials do not belong in a URL, where others see them: write \
             {name}://BUCKET/PREFIX and give them in the environment or in a profile"
        ));
    }
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '$');
    match bucket {
        "" => Err(format!("the bucket is missing: write {name}://BUCKET/PREFIX")),
        _ if bucket.chars().all(is_known) => Ok(bucket.to_owned()),
        _ => Err(format!(
            "{bucket:?} is not the name of a bucket: write {name}://BUCKET/PREFIX, and give the \
             address of a server with --object-endpoint"
        )),
    }
}

fn checked_prefix(prefix: &str) -> Result<String, String> {
    let prefix = prefix.trim_matches('/');
    if prefix.len() > KEY_BYTES_MAX - NAME_BYTES_MAX {
        let most = KEY_BYTES_MAX - NAME_BYTES_MAX;
        return Err(format!("the prefix has {} bytes: at most {most}", prefix.len()));
    }
    let is_known = |c: char| c.is_ascii_alphanumeric() || "!-_.'()/=+@,:$ ".contains(c);
    if let Some(other) = prefix.chars().find(|&c| !is_known(c)) {
        return Err(format!(
            "the prefix holds {other:?}: use letters, digits and !-_.'()=+@,:$ between slashes"
        ));
    }
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if !prefix.is_empty() && prefix.split('/').any(is_odd) {
        return Err("the prefix has an empty part, `.` or `..` between slashes".to_owned());
    }
    Ok(prefix.to_owned())
}

impl ObjectUrl {
    /// The whole name of an object: what it is called below the prefix.
    pub fn key(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    /// The same place one step further down.
    pub fn below(&self, name: &str) -> ObjectUrl {
        ObjectUrl { prefix: self.key(name), ..self.clone() }
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", self.scheme.name(), self.bucket)?;
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(out, "/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> ObjectUrl {
        match Place::parse(text) {
            Ok(Place::Objects(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_url_names_a_bucket_and_a_prefix() {
        let url = objects("s3://kv-cache/a/b/");
        assert_eq!((url.bucket.as_str(), url.prefix.as_str()), ("kv-cache", "a/b"));
        assert_eq!(url.key("x"), "a/b/x");
        assert_eq!(url.to_string(), "s3://kv-cache/a/b");
        assert_eq!(objects("gs://b").key("x"), "x");
        assert_eq!(objects("az://b/").below("p").to_string(), "az://b/p");
    }

    #[test]
    fn a_path_is_a_path_also_as_a_url() {
        for (text, path) in [
            ("/mnt/a", "/mnt/a"),
            ("file:///mnt/a", "/mnt/a"),
            ("a:b", "a:b"),
            ("./s3:/x", "./s3:/x"),
        ] {
            assert_eq!(Place::parse(text), Ok(Place::Path(path.into())), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("s3:/bucket/x", "s3://bucket/x"),
            ("s3://", "bucket is missing"),
            ("s3:///a", "bucket is missing"),
            ("http://host:9000/bucket", "--object-endpoint"),
            ("s3://host:9000/bucket", "--object-endpoint"),
            ("s3://b/a//c", "empty part"),
            ("s3://b/../c", "`..`"),
            ("s3://b/a?versionId=3", "'?'"),
            ("s3://b/a\n", "'\\n'"),
            ("file://a/b", "absolute"),
        ] {
            let told = Place::parse(text).unwrap_err();
            assert!(told.contains(word), "{text}: {told}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let told = Place::parse("s3://AKIA:hunter2@bucket/x").unwrap_err();
        assert!(told.contains("environment") && !told.contains("hunter2"), "{told}");
    }
}
