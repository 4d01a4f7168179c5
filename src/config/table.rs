//! Record generated from each setting's declaration: its flag, its key in a file, its check, and
//! its entry in the list of all settings.

use clap::Arg;
use serde_json::{Value, json};

use super::first_page::FIRST_PAGE;
use super::options::SETTINGS;

/// Weight of a difference in a setting between two results that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// It makes another load: no system is called better.
    Load,
    /// It is part of the system under comparison, or of the way in which its drive is accessed.
    System,
    /// It has a caution of its own, or is a criterion by which a run is judged.
    Apart,
    /// Nothing: where results go, how much is shown, how a draw is repeated.
    Nothing,
}

/// A setting as declared.
pub struct Setting {
    /// Its name in a file; the flag's with `-` for `_`.
    pub key: &'static str,
    /// The name of its checked value, with the unit.
    pub field: &'static str,
    /// The heading that it stands below, in the help and on the page of all defaults.
    pub section: &'static str,
    /// The declaration's comment.
    pub(super) comment: &'static str,
    /// Placeholder for the value in the help.
    pub value_name: &'static str,
    /// Its default, in YAML.
    pub default: &'static str,
    /// Another name, from the reference benchmark.
    pub alias: Option<&'static str>,
    /// Whether a run of which nothing else is asked is still the demonstration: it says nothing
    /// about the workload or its size.
    pub keeps_demo: bool,
    /// Weight of a difference in it between two results.
    pub compared: Compared,
    pub(super) schema: fn() -> Value,
    pub(super) range: fn() -> Option<String>,
    pub(super) choices: fn() -> Vec<(String, String)>,
    pub(super) arg: fn(Arg) -> Arg,
}

impl Setting {
    /// First sentence of the description, without a full stop, bounds or default. Other settings
    /// are named by their flags, here and in the details, as the help shows them.
    pub fn summary(&self) -> String {
        self.paragraphs().next().unwrap_or_default()
    }

    /// Rest of the description, in sentences.
    pub fn details(&self) -> Vec<String> {
        self.paragraphs().skip(1).collect()
    }

    /// All of that as sentences for a reader of a configuration file, with the bounds: other
    /// settings are named by their keys.
    pub fn description(&self) -> String {
        let mut sentences = vec![format!("{}.", self.summary())];
        sentences.extend(self.details());
        sentences.extend(self.range().map(|range| format!("Range: {range}.")));
        keys_for_flags(&sentences.join(" "))
    }

    /// The values it may have, if they are bounded.
    pub fn range(&self) -> Option<String> {
        (self.range)()
    }

    /// The names it may have and what each means, if there is a list of them.
    pub fn choices(&self) -> Vec<(String, String)> {
        (self.choices)()
    }

    /// As a schema describes it: its type, its bounds or names, its default and what it is.
    pub fn schema(&self) -> Value {
        let mut schema = (self.schema)();
        // Words as they are, all else as JSON has it.
        let default = serde_json::from_str(self.default);
        schema["default"] = default.unwrap_or_else(|_| json!(self.default));
        schema["description"] = json!(self.description());
        schema
    }

    /// As it is typed: `--num-users`.
    pub fn flag(&self) -> String {
        format!("--{}", flag(self.key))
    }

    pub(super) fn paragraphs(&self) -> impl Iterator<Item = String> {
        let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.comment.split("\n\n").map(joined).filter(|text| !text.is_empty())
    }

    /// End of the help text, in the form of clap's own remarks.
    fn remarks(&self) -> String {
        let range = self.range().map(|range| format!(" [range: {range}]")).unwrap_or_default();
        format!("{range}{}", self.default_remark())
    }

    fn default_remark(&self) -> String {
        match self.default {
            // That a switch is off and a file is not written goes without saying.
            "none" | "false" if self.choices().is_empty() => String::new(),
            default => format!(" [default: {default}]"),
        }
    }

    pub(super) fn to_arg(&self) -> Arg {
        let arg = self.arg_told_by(self.paragraphs()).help_heading(self.section);
        match FIRST_PAGE.iter().find(|(key, _)| *key == self.key) {
            // The list of choices, which clap adds, leaves no room for the default.
            Some((_, line)) if !self.choices().is_empty() => arg.help(*line),
            Some((_, line)) => arg.help(format!("{line}{}", self.default_remark())),
            None => arg.hide_short_help(true),
        }
    }

    /// Its flag, explained by those of its paragraphs.
    pub(super) fn arg_told_by(&self, paragraphs: impl Iterator<Item = String>) -> Arg {
        let arg = Arg::new(self.key).long(flag(self.key)).value_name(self.value_name);
        let (summary, remarks) = (self.summary(), self.remarks());
        let mut paragraphs: Vec<String> = paragraphs.collect();
        paragraphs.extend(Some(remarks.trim_start().to_owned()).filter(|text| !text.is_empty()));
        let arg = arg.help(format!("{summary}{remarks}")).long_help(paragraphs.join("\n\n"));
        let arg = match self.alias {
            Some(alias) => arg.visible_alias(flag(alias)),
            None => arg,
        };
        (self.arg)(arg)
    }
}

/// Writes each flag of a setting in a text as its key: `--num-users` as `num_users`. A key of one
/// word is quoted, so that it can't be read as a word of the sentence.
pub(super) fn keys_for_flags(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("--") {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let (name, left) = after.split_at(after.find(|c| !is_part(c)).unwrap_or(after.len()));
        told.push_str(before);
        match SETTINGS.iter().find(|setting| flag(setting.key) == name) {
            Some(setting) if setting.key.contains('_') => told.push_str(setting.key),
            Some(setting) => told.push_str(&format!("`{}`", setting.key)),
            None => told.push_str(&format!("--{name}")),
        }
        rest = left;
    }
    told + rest
}

fn flag(key: &str) -> String {
    key.replace('_', "-")
}

/// Declares the settings of a run. Each line reads
///
/// ```text
/// /// What it is, in one sentence: the help.
/// ///
/// /// What else is to be known: for the page of all defaults.
/// key as field: Kind = "default", "VALUE_NAME", in BOUNDS, alias "other_key", auto worked_out,
///     keeps demo, compared nothing;
/// ```
///
/// of which all after the value's name may be left out, and `as field` where the checked value has
/// no unit to add to its name. Rules between settings are in [`super::rules`]. It makes
///
/// - `Options`, one layer of settings as typed, which clap and serde read;
/// - `Settings`, all of them checked;
/// - `SETTINGS`, the list that help, pages and messages are made of.
macro_rules! settings {
    ($(
        section $section:literal {$(
            $(#[doc = $doc:literal])+
            $key:ident $(as $field:ident)?: $kind:ty = $default:literal, $value_name:literal
            $(, in $bounds:expr)? $(, alias $alias:literal)? $(, auto $auto:path)?
            $(, keeps $demo:ident)? $(, compared $compared:ident)?;
        )+}
    )+) => {
        /// Every setting that is also a flag, in the order of the help.
        pub const SETTINGS: &[Setting] = &[$($(
            Setting {
                key: stringify!($key),
                field: settings!(@or (stringify!($key)) $(stringify!($field))?),
                section: $section,
                comment: concat!($($doc, "\n"),+),
                value_name: $value_name,
                default: $default,
                alias: settings!(@or None $(Some($alias))?),
                keeps_demo: settings!(@or false $(settings!(@keeps $demo))?),
                compared: settings!(@or (Compared::Load) $(settings!(@compared $compared))?),
                schema: || <$kind as Kind>::schema(&settings!(@or () $($bounds)?)),
                range: || <$kind as Kind>::range(&settings!(@or () $($bounds)?)),
                choices: <$kind as Kind>::choices,
                arg: <$kind as Kind>::arg,
            },
        )+)+];

        /// One layer of settings as typed; `None`: this layer says nothing about it.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Options {
            $($(
                $(#[doc = $doc])+
                #[serde(default)]
                $(#[serde(alias = $alias)])?
                pub $key: Option<<$kind as Kind>::Typed>,
            )+)+
            /// Models by name; YAML only.
            #[serde(default)]
            pub models: Option<BTreeMap<String, ModelSpec>>,
            /// The `workload` section; YAML only.
            #[serde(default)]
            pub workload: Option<WorkloadSection>,
        }

        impl Options {
            /// All names, as in YAML.
            pub const KEYS: &'static [&'static str] =
                &[$($(stringify!($key),)+)+ "models", "workload"];

            /// This layer, and `below` where this one says nothing.
            #[must_use]
            pub fn over(self, below: Options) -> Options {
                Options {
                    $($($key: self.$key.or(below.$key),)+)+
                    models: self.models.or(below.models),
                    workload: self.workload.or(below.workload),
                }
            }

            /// Values in effect where no layer says anything, as declared.
            pub(super) fn defaults() -> Options {
                // One text: read one by one, each type would have the reader compiled once more.
                const DECLARED: &str =
                    concat!($($(stringify!($key), ": ", $default, "\n",)+)+);
                let declared: Options = serde_saphyr::from_str(DECLARED)
                    .expect("the declared defaults, all of which a test reads");
                Options {
                    models: Some(BTreeMap::new()),
                    workload: Some(WorkloadSection::default()),
                    ..declared
                }
            }

            /// Names of the settings with a flag whose value is not the default.
            pub(super) fn changed(&self) -> Vec<&'static str> {
                let defaults = Options::defaults();
                let mut names = Vec::new();
                $($(if self.$key != defaults.$key { names.push(stringify!($key)); })+)+
                names
            }

            /// Names that this layer says something about.
            pub fn given(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $($(if self.$key.is_some() { names.push(stringify!($key)); })+)+
                if self.models.is_some() { names.push("models"); }
                if self.workload.is_some() { names.push("workload"); }
                names
            }

            /// Replaces each `auto` by what it comes to. Those further down may look at those
            /// above. Returns the names that were `auto`.
            pub(super) fn work_out(&mut self, facts: &Facts) -> Vec<&'static str> {
                let mut names = Vec::new();
                $($(
                    if self.$key.as_ref().is_some_and(<$kind as Kind>::is_auto) {
                        names.push(stringify!($key));
                        $(self.$key = Some($auto(self, facts));)?
                    }
                )+)+
                names
            }

            /// Reads from the command line the settings that it `takes`, by their keys.
            pub(super) fn of_matches(
                matches: &mut ArgMatches,
                takes: &dyn Fn(&str) -> bool,
            ) -> Options {
                Options {
                    $($(
                        $key: takes(stringify!($key))
                            .then(|| matches.remove_one(stringify!($key)))
                            .flatten(),
                    )+)+
                    models: None,
                    workload: None,
                }
            }
        }

        settings! {
            @settings [] $($(
                [$key $($field)?] [$($doc)+] $kind = [$($bounds)?];
            )+)+
        }
    };

    (@or $otherwise:tt) => { $otherwise };
    (@or $otherwise:tt $given:expr) => { $given };
    (@keeps demo) => { true };
    (@compared system) => { Compared::System };
    (@compared apart) => { Compared::Apart };
    (@compared nothing) => { Compared::Nothing };
    // A field is named like its key where the declaration has no other name for it.
    (@settings
        [$($done:tt)*] [$key:ident] $docs:tt $kind:ty = $bounds:tt; $($rest:tt)*
    ) => {
        settings! { @settings [$($done)* [$key $key $docs ($kind) $bounds]] $($rest)* }
    };
    (@settings
        [$($done:tt)*] [$key:ident $field:ident] $docs:tt $kind:ty = $bounds:tt; $($rest:tt)*
    ) => {
        settings! { @settings [$($done)* [$key $field $docs ($kind) $bounds]] $($rest)* }
    };
    (@settings [$([
        $key:ident $field:ident [$($doc:literal)+] ($kind:ty) [$($bounds:expr)?]
    ])+]) => {
        /// Every setting by itself, within its bounds; sizes in bytes.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $field: <$kind as Kind>::Checked,)+
        }

        impl Settings {
            /// Checks each value of all layers together. `wrong` is told the key and what is wrong
            /// with its value; none when a layer has no value at all.
            pub(super) fn of(
                options: &Options,
                wrong: &mut dyn FnMut(&'static str, String),
            ) -> Option<Settings> {
                Some(Settings {$(
                    $field: <$kind as Kind>::check(
                        options.$key.as_ref()?,
                        &settings!(@or () $($bounds)?),
                        &mut |what| wrong(stringify!($key), what),
                    ),
                )+})
            }
        }
    };
}

pub(super) use settings;
