//! Settings of a run that other commands take too: the same names, bounds, defaults and words.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error};

use super::options::SETTINGS;
use super::{Options, Setting, Settings};

/// A group of settings of a run that other commands take too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Settings for reaching an object store, which `checkpoint` and `saturate` take too.
    Objects,
    /// Settings of the content, which `checkpoint` and `datagen` take too.
    Content,
}

/// Settings of a group as the command line gives them.
pub struct Taken {
    /// The settings of the group, checked; what was not given has its default. All others are as
    /// they happen to be.
    pub settings: Settings,
    /// Keys of those that were given.
    pub given: Vec<&'static str>,
}

impl Shared {
    /// Its settings, in the order of the help.
    pub fn settings(self) -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(move |setting| match self {
            Shared::Objects => setting.section == "Objects",
            Shared::Content => ["dedupe_ratio", "compress_ratio"].contains(&setting.key),
        })
    }

    /// A command that takes them.
    #[must_use]
    pub fn add_to(self, command: Command) -> Command {
        command.args(self.settings().map(|setting| {
            // What is said of other settings of a run is not said of this command.
            let arg = setting.arg_told_by(setting.paragraphs().filter(|text| !text.contains("--")));
            match self {
                Shared::Objects => arg.help_heading(setting.section),
                Shared::Content => arg,
            }
        }))
    }

    /// Takes them from what was typed.
    ///
    /// # Errors
    /// A value is out of bounds: each said with its flag.
    pub fn take(self, matches: &mut ArgMatches) -> Result<Taken, Error> {
        let is_its_own = |key: &str| self.settings().any(|setting| setting.key == key);
        let typed = Options::of_matches(matches, &is_its_own);
        let given = typed.given();
        let mut sentences = Vec::new();
        let checked = Settings::of(&typed.over(Options::defaults()), &mut |key, what| {
            // Of the others some are worked out for a run alone.
            if is_its_own(key) {
                sentences.push(format!("--{} {what}", key.replace('_', "-")));
            }
        });
        match checked {
            Some(settings) if sentences.is_empty() => Ok(Taken { settings, given }),
            _ => Err(Error::raw(ErrorKind::ValueValidation, sentences.join("; "))),
        }
    }
}
