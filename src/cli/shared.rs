//! Settings of a run that other commands take too: as they are declared, with the same help.

use std::ops::RangeInclusive;

use clap::builder::RangedU64ValueParser;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use ringfall_core::fill::Shape;

use ringfall_config::object_store::ObjectOptions;
use ringfall_config::values::{Mib, whole_seconds};
use ringfall_config::{Shared, Taken};

/// The flag of the setting with that key.
pub fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// Parser of whole numbers within these bounds.
pub(super) fn number<T: TryFrom<u64>>(least: u64, most: u64) -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(least..=most)
}

/// Parser of times in whole seconds within these bounds.
pub(super) fn time<T: TryFrom<i64> + 'static>(
    bounds: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    bounded::<T>(whole_seconds, bounds)
}

/// Parser of sizes in whole MiB within these bounds.
pub(super) fn mib<T: TryFrom<i64> + 'static>(
    bounds: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    bounded::<T>(|text: &str| text.parse().map(|Mib(size_mib)| size_mib), bounds)
}

fn bounded<T: TryFrom<i64> + 'static>(
    read: fn(&str) -> Result<i64, String>,
    bounds: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let value = read(text)?;
        let fitting = Some(value).filter(|value| bounds.contains(value));
        let fitting = fitting.and_then(|value| T::try_from(value).ok());
        fitting.ok_or_else(|| format!("{value} is not in {}..={}", bounds.start(), bounds.end()))
    }
}

/// Connection to an object store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectArgs {
    /// Options that the flags make. [`ObjectOptions::check`] validates them.
    pub options: ObjectOptions,
    given: Vec<&'static str>,
}

impl ObjectArgs {
    /// A flag that was given; none where none was.
    pub fn first_given(&self) -> Option<String> {
        self.given.first().map(|key| flag(key))
    }

    /// Whether the setting of that key was given.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.contains(&key)
    }
}

/// Degree to which storage can reduce the content.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContentArgs {
    /// Degree to which storage can reduce it.
    pub shape: Shape,
}

impl From<Taken> for ObjectArgs {
    fn from(taken: Taken) -> ObjectArgs {
        ObjectArgs { options: taken.settings.object_options(), given: taken.given }
    }
}

impl From<Taken> for ContentArgs {
    fn from(taken: Taken) -> ContentArgs {
        ContentArgs { shape: taken.settings.shape() }
    }
}

/// Has clap read a group.
macro_rules! group {
    ($($name:ident: $group:expr;)+) => {$(
        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                $group.add_to(command)
            }

            fn augment_args_for_update(command: Command) -> Command {
                $group.add_to(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                $group.take(&mut matches.clone()).map($name::from)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = $name::from_arg_matches(matches)?;
                Ok(())
            }
        }
    )+};
}

group! {
    ObjectArgs: Shared::Objects;
    ContentArgs: Shared::Content;
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        objects: ObjectArgs,
        #[command(flatten)]
        content: ContentArgs,
    }

    #[test]
    fn what_is_given_counts_and_each_flag_is_known_as_given() {
        let none = Alone::parse_from(["x"]).objects;
        assert_eq!(none.first_given(), None);
        assert_eq!(none.options, ObjectOptions::default());
        for setting in Shared::Objects.settings() {
            let value = match (setting.choices().first(), setting.range()) {
                (Some((name, _)), _) => name.clone(),
                (None, Some(_)) => "1".to_owned(),
                (None, None) => "true".to_owned(),
            };
            let given = Alone::parse_from(["x".to_owned(), format!("{}={value}", setting.flag())]);
            assert_eq!(given.objects.first_given(), Some(setting.flag()));
            assert!(given.objects.is_given(setting.key));
        }
    }

    #[test]
    fn bounds_and_defaults_are_those_of_a_run() {
        let shape = Alone::parse_from(["x", "--dedupe-ratio", "3"]).content.shape;
        assert_eq!(shape, Shape { dedupe_ratio: 3.0, compress_ratio: 1.0 });
        let wrong = Alone::try_parse_from(["x", "--object-retries=101", "--compress-ratio=0.5"]);
        let told = wrong.unwrap_err().to_string();
        assert!(told.contains("--object-retries 101 is out of bounds: 0 to 100"), "{told}");
    }

    #[test]
    fn the_help_names_no_flag_that_the_command_lacks() {
        let mut command = Alone::command();
        let known: Vec<String> =
            command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
        let help = command.render_long_help().to_string();
        assert!(help.contains("[range: 1 to 1024] [default: 64]"), "{help}");
        for flag in help.split("--").skip(1) {
            let end = flag.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let name = &flag[..end.unwrap_or(flag.len())];
            assert!(known.iter().any(|flag| flag == name) || name == "help", "--{name}: {help}");
        }
    }
}
