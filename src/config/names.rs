//! Names by which the user knows each setting, and where its value came from.

use std::collections::BTreeMap;

use super::{ConfigFile, Origin};

/// The origins of all values, and the file that some of them are in.
pub(super) struct Names<'a> {
    /// By the keys of the settings.
    pub(super) origins: BTreeMap<&'static str, Origin>,
    /// The file of `--config`, if one was given.
    pub(super) file: Option<&'a ConfigFile>,
}

impl Names<'_> {
    /// Where the value of a setting came from.
    pub(super) fn origin(&self, key: &str) -> Option<Origin> {
        self.origins.get(key).copied()
    }

    /// Notes that a value is worked out, whatever was asked for.
    pub(super) fn compute(&mut self, key: &'static str) {
        self.origins.insert(key, Origin::Computed);
    }

    /// Whether somebody gave that setting.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.origin(key).is_some_and(|origin| origin >= Origin::File)
    }

    /// Whether somebody asked for that setting's value. A printed configuration names every
    /// setting, so one of a file is asked for only if it differs from the default.
    pub(super) fn is_asked(&self, key: &str, is_changed: bool) -> bool {
        match self.origin(key) {
            Some(Origin::CommandLine) => true,
            Some(Origin::File) => is_changed,
            _ => false,
        }
    }

    /// Name by which the user knows a setting: its flag, or its file and line.
    pub(super) fn name_of(&self, key: &str) -> String {
        match (self.origins.get(key), self.file) {
            (Some(Origin::File), Some(file)) => match file.line_of(key) {
                Some(line) => format!("{}, line {line}: {key}", file.name),
                None => format!("{}: {key}", file.name),
            },
            _ => format!("--{}", key.replace('_', "-")),
        }
    }

    /// A setting of the `workload` section and its value, with the file's line where it is found.
    pub(super) fn name_in_workload(&self, key: &str, value: u32) -> String {
        match self.file.and_then(|file| Some((file, file.line_of(key)?))) {
            Some((file, line)) => format!("{}, line {line}: workload.{key} {value}", file.name),
            None => format!("workload.{key} {value}"),
        }
    }
}
