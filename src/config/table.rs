//! What a declaration of a setting makes: its flag, its key in a file, its check, and its entry in
//! the list of all settings.

use clap::Arg;

use super::{Facts, Options, Settings};

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
    /// What stands for the value in the help.
    pub value_name: &'static str,
    /// Its default, in YAML.
    pub default: &'static str,
    /// Another name, from the reference benchmark.
    pub alias: Option<&'static str>,
    /// Whether a run of which nothing else is asked is still the demonstration: it says nothing
    /// about the workload or its size.
    pub keeps_demo: bool,
    /// Why it has no effect where the drive is simulated.
    pub real_only: Option<&'static str>,
    /// Why it has no effect as the other settings stand; none where it has one.
    pub(super) idle: Idle,
    /// Whether it changes what is measured. Where results go, how much is shown and how a draw is
    /// repeated do not.
    pub measures: bool,
    pub(super) range: fn() -> Option<String>,
    pub(super) choices: fn() -> Vec<(String, String)>,
    pub(super) arg: fn(Arg) -> Arg,
}

/// Why a setting has no effect as the others stand.
pub(super) type Idle = fn(&Settings, &Facts) -> Option<&'static str>;

impl Setting {
    /// Whether these settings have the value that it has when nobody gives one.
    #[must_use]
    pub fn is_default(&self, options: &Options) -> bool {
        let options = serde_json::to_value(options).unwrap_or_default();
        // Words as they are, all else as JSON has it, which is how YAML has it too.
        let value = &options[self.key];
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // 0 and 0.0 are the same number.
        let number = |text: &str| text.parse::<f64>().ok();
        text == self.default || number(&text).is_some_and(|n| number(self.default) == Some(n))
    }

    /// What it is, in one sentence without a full stop, without bounds and default.
    #[must_use]
    pub fn summary(&self) -> String {
        self.paragraphs().next().unwrap_or_default()
    }

    /// What else is to be known, in sentences.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        self.paragraphs().skip(1).collect()
    }

    /// All of that as sentences, with the bounds.
    #[must_use]
    pub fn description(&self) -> String {
        let mut sentences = vec![format!("{}.", self.summary())];
        sentences.extend(self.details());
        sentences.extend(self.range().map(|range| format!("Range: {range}.")));
        sentences.join(" ")
    }

    /// The values it may have, if they are bounded.
    #[must_use]
    pub fn range(&self) -> Option<String> {
        (self.range)()
    }

    /// The names it may have and what each means, if there is a list of them.
    #[must_use]
    pub fn choices(&self) -> Vec<(String, String)> {
        (self.choices)()
    }

    /// As it is typed: `--num-users`.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", flag(self.key))
    }

    fn paragraphs(&self) -> impl Iterator<Item = String> {
        let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.comment.split("\n\n").map(joined).filter(|text| !text.is_empty())
    }

    /// What ends the help, as clap's own remarks do.
    fn remarks(&self) -> String {
        let range = self.range().map(|range| format!(" [range: {range}]")).unwrap_or_default();
        match self.default {
            // That a switch is off and a file is not written goes without saying.
            "none" | "false" => range,
            default => format!("{range} [default: {default}]"),
        }
    }

    pub(super) fn to_arg(&self) -> Arg {
        let arg = Arg::new(self.key).long(flag(self.key)).value_name(self.value_name);
        let (summary, remarks) = (self.summary(), self.remarks());
        let mut paragraphs = vec![summary.clone()];
        paragraphs.extend(self.details());
        paragraphs.extend(Some(remarks.trim_start().to_owned()).filter(|text| !text.is_empty()));
        let arg = arg
            .help(format!("{summary}{remarks}"))
            .long_help(paragraphs.join("\n\n"))
            .help_heading(self.section);
        let arg = match self.alias {
            Some(alias) => arg.visible_alias(flag(alias)),
            None => arg,
        };
        (self.arg)(arg)
    }
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
///     keeps demo, real_only "why", idle why_it_has_no_effect, measures nothing;
/// ```
///
/// of which all after the value's name may be left out, and `as field` where the checked value has
/// no unit to add to its name. What all settings of a section have in common stands once, in its
/// head: `section ("Name", keeps demo, real_only "why") { … }`. It makes
///
/// - `Options`, one layer of settings as typed, which clap and serde read;
/// - `Settings`, all of them checked;
/// - `SETTINGS`, the list that help, pages and messages are made of.
macro_rules! settings {
    ($(
        section $section:tt {$(
            $(#[doc = $doc:literal])+
            $key:ident $(as $field:ident)?: $kind:ty = $default:literal, $value_name:literal
            $(, in $bounds:expr)? $(, alias $alias:literal)? $(, auto $auto:path)?
            $(, keeps $demo:ident)? $(, real_only $why:literal)? $(, idle $idle:path)?
            $(, measures $nothing:ident)?;
        )+}
    )+) => {
        /// Every setting that is also a flag, in the order of the help.
        pub const SETTINGS: &[Setting] = &[$($(
            Setting {
                key: stringify!($key),
                field: settings!(@or (stringify!($key)) $(stringify!($field))?),
                section: settings!(@title $section),
                comment: concat!($($doc, "\n"),+),
                value_name: $value_name,
                default: $default,
                alias: settings!(@or None $(Some($alias))?),
                keeps_demo: settings!(@or (settings!(@demo $section)) $(settings!(@keeps $demo))?),
                real_only: settings!(@or (settings!(@all_real_only $section)) $(Some($why))?),
                idle: settings!(@or (|_, _| None) $($idle)?),
                measures: settings!(@or true $(settings!(@measures $nothing))?),
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

            /// Names that this layer says something about.
            #[must_use]
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

            /// What the command line says.
            fn of_matches(matches: &mut ArgMatches) -> Options {
                Options {
                    $($($key: matches.remove_one(stringify!($key)),)+)+
                    models: None,
                    workload: None,
                }
            }
        }

        settings! {
            @settings [] $($([$key $($field)?] [$($doc)+] $kind = [$($bounds)?];)+)+
        }
    };

    (@or $otherwise:tt) => { $otherwise };
    (@or $otherwise:tt $given:expr) => { $given };
    (@keeps demo) => { true };
    (@measures nothing) => { false };
    // The head of a section: its name, or that and what its settings have in common.
    (@title $title:literal) => { $title };
    (@title ($title:literal, keeps demo, real_only $why:literal)) => { $title };
    (@demo $title:literal) => { false };
    (@demo ($title:literal, keeps $demo:ident, $($rest:tt)+)) => { settings!(@keeps $demo) };
    (@all_real_only $title:literal) => { None };
    (@all_real_only ($title:literal, keeps demo, real_only $why:literal)) => { Some($why) };

    // A field is named like its key where the declaration has no other name for it.
    (@settings [$($done:tt)*] [$key:ident] $docs:tt $kind:ty = $bounds:tt; $($rest:tt)*) => {
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
