//! The directories and devices of `--cache-dir`: one, or several separated by commas.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Arg;
use clap::builder::{OsStringValueParser, TypedValueParser};
use ringfall_core::drive::DRIVES_MAX;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::kinds::{Kind, Wrong};
use crate::object_store::Place;

/// Paths as typed. On the command line, and in a file as one text, a comma separates two, and `\,`
/// is a comma in a path; in a list of a file each item is a path as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(pub Vec<PathBuf>);

impl Places {
    /// Reads what is typed after the flag.
    pub fn parser() -> impl TypedValueParser<Value = Places> {
        OsStringValueParser::new().map(|text| Places::split(&text))
    }

    /// The paths, if nothing is wrong with them.
    ///
    /// # Errors
    /// The rest of the message, after the name of the flag.
    pub fn checked(&self) -> Result<Vec<PathBuf>, String> {
        let mut told = Ok(());
        let paths = Places::check(self, &(), &mut |what| told = Err(what));
        told.map(|()| paths)
    }

    fn split(text: &OsStr) -> Places {
        let (mut paths, mut path) = (Vec::new(), Vec::new());
        let mut bytes = text.as_bytes().iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' if bytes.peek() == Some(&b',') => path.extend(bytes.next()),
                b',' => paths.push(std::mem::take(&mut path)),
                byte => path.push(byte),
            }
        }
        paths.push(path);
        Places(paths.into_iter().map(|path| OsString::from_vec(path).into()).collect())
    }
}

impl FromStr for Places {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Places::split(OsStr::new(text)))
    }
}

/// Paths as they would be typed after the flag.
pub fn typed(paths: &[PathBuf]) -> String {
    let escaped = |path: &PathBuf| path.display().to_string().replace(',', "\\,");
    paths.iter().map(escaped).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(&self.0))
    }
}

impl Serialize for Places {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [only] if !only.as_os_str().as_bytes().contains(&b',') => only.serialize(to),
            paths => to.collect_seq(paths),
        }
    }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Places;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a list of paths")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Places, E> {
                Ok(Places::split(OsStr::new(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Places, A::Error> {
                let mut paths = Vec::new();
                while let Some(path) = items.next_element::<PathBuf>()? {
                    paths.push(path);
                }
                Ok(Places(paths))
            }
        }

        from.deserialize_any(Reader)
    }
}

/// One or several paths, none of them twice; `auto`: none was given.
impl Kind for Places {
    type Typed = Places;
    type Checked = Vec<PathBuf>;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(Places::parser())
    }

    fn schema((): &()) -> Value {
        json!({ "type": ["string", "array"], "items": { "type": "string" } })
    }

    fn check(typed: &Places, (): &(), wrong: Wrong<'_>) -> Vec<PathBuf> {
        if Places::is_auto(typed) {
            return Vec::new();
        }
        let paths = &typed.0;
        if paths.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
            let what = match paths.len() {
                0 | 1 => "is empty: give a path, or leave it out",
                _ => "has an empty path: give a path before and after each comma",
            };
            wrong(what.to_owned());
        }
        if paths.len() > DRIVES_MAX {
            wrong(format!("names {} drives: at most {DRIVES_MAX} are possible", paths.len()));
        }
        let meant: Vec<PathBuf> = paths.iter().map(|path| meant(path, &mut *wrong)).collect();
        // `a/./b/` is `a/b`.
        let mut known: BTreeSet<PathBuf> = BTreeSet::new();
        let is_known = |path: &&PathBuf| !known.insert(path.components().collect());
        if let Some(twice) = meant.iter().find(is_known) {
            wrong(format!("names {} twice: name each drive once", twice.display()));
        }
        meant
    }

    fn is_auto(typed: &Places) -> bool {
        matches!(&typed.0[..], [only] if only.as_os_str() == "auto")
    }
}

/// A path, also of a file's URL; that of an object store stays as it is.
fn meant(path: &Path, wrong: Wrong<'_>) -> PathBuf {
    match path.to_str().map(Place::parse) {
        Some(Ok(Place::Path(meant))) => meant,
        Some(Err(what)) => {
            wrong(format!("can't be used: {what}"));
            path.to_owned()
        }
        Some(Ok(Place::Objects(_))) | None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(paths: &[&str]) -> Places {
        Places(paths.iter().map(PathBuf::from).collect())
    }

    fn complaint(paths: &[&str]) -> Option<String> {
        let mut told = None;
        let _checked = Places::check(&places(paths), &(), &mut |what| told = Some(what));
        told
    }

    #[test]
    fn a_comma_separates_and_an_escaped_one_does_not() {
        let split = |text: &str| Places::split(OsStr::new(text));
        assert_eq!(split("/a"), places(&["/a"]));
        assert_eq!(split("/a,/dev/b,c"), places(&["/a", "/dev/b", "c"]));
        assert_eq!(split(r"/a\,b,/c\d"), places(&["/a,b", r"/c\d"]));
        for paths in [&["/a"][..], &["/a,b"], &["/a", "/b"], &["/a,b", "c"]] {
            let places = places(paths);
            assert_eq!(split(&places.to_string()), places);
            let json = serde_json::to_string(&places).unwrap();
            assert_eq!(serde_json::from_str::<Places>(&json).unwrap(), places, "{json}");
        }
        let bytes = OsStr::from_bytes(b"/\xff,/b");
        assert_eq!(Places::split(bytes).0[0].as_os_str().as_bytes(), b"/\xff");
    }

    #[test]
    fn empty_and_repeated_paths_are_wrong() {
        assert_eq!(complaint(&["/a", "/b"]), None);
        assert!(complaint(&[""]).unwrap().contains("is empty"));
        assert!(complaint(&["/a", ""]).unwrap().contains("empty path"));
        assert!(complaint(&["/a", "/a/./"]).unwrap().contains("twice"));
        let many: Vec<String> = (0..=DRIVES_MAX).map(|n| format!("/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(complaint(&many).unwrap().contains("names 65 drives"));
    }
}
