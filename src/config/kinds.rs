//! Kinds of values that a setting can have: how each is typed, what it may be, and what it comes to
//! once it is checked.

use std::error::Error;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{BoolValueParser, PathBufValueParser};
use clap::{Arg, value_parser};
use ringfall_core::model::LatencySpread;
use ringfall_core::units::{GIB, KIB, MIB};
use ringfall_workloads::prefill::GPUS;
use serde::Serialize;
use serde_json::{Value, json};

use super::RooflineFrom;
use super::values::{Auto, Gib, Mib, PrefillSpeed, Seconds, Seed, Size, latencies};

/// Smallest and largest single I/O, bytes; each is a whole number of blocks of the smallest.
const IO_SIZE_BYTES_MIN: u64 = 4 * KIB;
pub(super) const IO_SIZE_BYTES_MAX: u64 = 64 * MIB;
/// Smallest and largest divisor of a trace's gaps, besides 0.
const FACTORS: RangeInclusive<f64> = 1e-6..=1e9;

/// Takes what is wrong with a value, without the name of its setting.
pub type Wrong<'a> = &'a mut dyn FnMut(String);

/// A kind of value.
pub trait Kind {
    /// As typed: on the command line, in a file, in the results' settings.
    type Typed: FromStr<Err: Into<Box<dyn Error + Send + Sync>>> + Clone + Send + Sync + 'static;
    /// As the run uses it.
    type Checked;
    /// Bounds that a declaration gives after `in`.
    type Bounds;

    /// Has the command line read it. A negative number is read too: its answer is the bounds.
    fn arg(arg: Arg) -> Arg {
        arg.value_parser(|text: &str| text.parse::<Self::Typed>()).allow_negative_numbers(true)
    }
    /// The value as the run uses it. A wrong one is told to `wrong`; what is returned then lets the
    /// other settings be checked.
    fn check(typed: &Self::Typed, bounds: &Self::Bounds, wrong: Wrong<'_>) -> Self::Checked;
    /// The bounds, for the help.
    fn range(_: &Self::Bounds) -> Option<String> {
        None
    }
    /// The names that may be typed and what each means, if there is a list of them.
    fn choices() -> Vec<(String, String)> {
        Vec::new()
    }
    /// JSON schema of the value as results have it, without a unit: its type and bounds.
    fn schema(_: &Self::Bounds) -> Value {
        json!({ "type": "string" })
    }
    /// Whether the program is to work the value out.
    fn is_auto(_: &Self::Typed) -> bool {
        false
    }
}

fn number_schema(name: &str, low: impl Serialize, high: impl Serialize) -> Value {
    json!({ "type": name, "minimum": low, "maximum": high })
}

/// That number, or a word in its place, as a schema has it: bounds are those of numbers, and a
/// pattern is that of words.
pub(super) fn or_word(mut number: Value, words: &[&str]) -> Value {
    number["type"] = json!([number["type"], "string"]);
    number["pattern"] = json!(format!("^({})$", words.join("|")));
    number
}

/// A whole number within bounds, or the nearest bound.
fn within(value: i64, bounds: &RangeInclusive<i64>, wrong: Wrong<'_>) -> i64 {
    let (low, high) = (*bounds.start(), *bounds.end());
    if !bounds.contains(&value) {
        wrong(format!("{value} is out of bounds: {low} to {high}"));
    }
    value.clamp(low, high)
}

fn whole_range(bounds: &RangeInclusive<i64>) -> Option<String> {
    Some(match bounds.end() {
        // Nobody wants to read 19 digits.
        &i64::MAX => format!("{} or more", bounds.start()),
        high => format!("{} to {high}", bounds.start()),
    })
}

/// Whole numbers are typed as `i64`, so that one that is too large or negative is answered with the
/// bounds and not with the name of a type.
macro_rules! whole_kinds {
    ($($type:ty),+) => {$(
        impl Kind for $type {
            type Typed = i64;
            type Checked = $type;
            type Bounds = RangeInclusive<i64>;

            fn check(typed: &i64, bounds: &Self::Bounds, wrong: Wrong<'_>) -> $type {
                let value = within(*typed, bounds, wrong);
                // Only a declaration whose bounds are wider than its type comes to the second.
                <$type>::try_from(value).unwrap_or_else(|_| {
                    wrong(format!("{value} is out of bounds: 0 to {}", <$type>::MAX));
                    <$type>::MAX
                })
            }

            fn range(bounds: &Self::Bounds) -> Option<String> {
                whole_range(bounds)
            }

            fn schema(bounds: &Self::Bounds) -> Value {
                number_schema("integer", bounds.start(), bounds.end())
            }
        }
    )+};
}

whole_kinds!(u16, u32, u64);

/// A whole number of which 0 means that there is no limit.
pub struct Limit<T>(std::marker::PhantomData<T>);

impl<T> Kind for Limit<T>
where
    T: Kind<Typed = i64, Checked = T, Bounds = RangeInclusive<i64>>,
{
    type Typed = i64;
    type Checked = Option<T>;
    type Bounds = RangeInclusive<i64>;

    fn check(typed: &i64, bounds: &Self::Bounds, wrong: Wrong<'_>) -> Option<T> {
        let value = T::check(typed, bounds, wrong);
        (*typed > 0).then_some(value)
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        T::range(bounds)
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        T::schema(bounds)
    }
}

/// A time, typed in whole seconds or with a unit.
pub struct Time<T>(std::marker::PhantomData<T>);

impl<T> Kind for Time<T>
where
    T: Kind<Typed = i64, Bounds = RangeInclusive<i64>>,
{
    type Typed = Seconds;
    type Checked = T::Checked;
    type Bounds = RangeInclusive<i64>;

    fn check(typed: &Seconds, bounds: &Self::Bounds, wrong: Wrong<'_>) -> T::Checked {
        T::check(&typed.0, bounds, wrong)
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        T::range(bounds)
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        T::schema(bounds)
    }
}

impl Kind for Seed {
    type Typed = Seed;
    type Checked = u64;
    type Bounds = ();

    fn check(typed: &Seed, (): &(), wrong: Wrong<'_>) -> u64 {
        match typed {
            Seed::Given(seed) => *seed,
            Seed::Random => {
                // It has been drawn by now.
                wrong("random can't be drawn: give a number".to_owned());
                0
            }
        }
    }

    fn range((): &()) -> Option<String> {
        Some(format!("0 to {}", u64::MAX))
    }

    fn is_auto(typed: &Seed) -> bool {
        *typed == Seed::Random
    }

    fn schema((): &()) -> Value {
        or_word(number_schema("integer", 0, u64::MAX), &["random"])
    }
}

impl Kind for PrefillSpeed {
    type Typed = PrefillSpeed;
    type Checked = f64;
    type Bounds = RangeInclusive<f64>;

    fn check(typed: &PrefillSpeed, bounds: &Self::Bounds, wrong: Wrong<'_>) -> f64 {
        match typed {
            PrefillSpeed::Given(speed) => f64::check(speed, bounds, wrong),
            PrefillSpeed::On(gpu) => {
                // Of any other model it has been worked out by now.
                wrong(format!(
                    "{} has no speed here, as the number of the model's parameters is unknown: \
                     give active_parameters of the model, or tokens per second",
                    gpu.name
                ));
                0.0
            }
        }
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        f64::range(bounds)
    }

    fn is_auto(typed: &PrefillSpeed) -> bool {
        matches!(typed, PrefillSpeed::On(_))
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        or_word(f64::schema(bounds), &GPUS.map(|gpu| gpu.name))
    }
}

/// A number as somebody would type it, who would not type 300 digits.
fn as_typed(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-6..1e16 => value.to_string(),
        _ => format!("{value:e}"),
    }
}

impl Kind for f64 {
    type Typed = f64;
    type Checked = f64;
    type Bounds = RangeInclusive<f64>;

    fn check(typed: &f64, bounds: &Self::Bounds, wrong: Wrong<'_>) -> f64 {
        if bounds.contains(typed) {
            return *typed;
        }
        let (low, high) = (bounds.start(), bounds.end());
        wrong(format!("{} is out of bounds: {low} to {high}", as_typed(*typed)));
        *low
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        Some(format!("{} to {}", bounds.start(), bounds.end()))
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        number_schema("number", bounds.start(), bounds.end())
    }
}

/// Declares kinds that are typed as a number and whose bounds are always the same.
macro_rules! number_kinds {
    ($($(#[$doc:meta])* $name:ident: $is_right:expr, $range:literal, 0 to $high:expr;)+) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Kind for $name {
            type Typed = f64;
            type Checked = f64;
            type Bounds = ();

            fn check(typed: &f64, (): &(), wrong: Wrong<'_>) -> f64 {
                let is_right: fn(f64) -> bool = $is_right;
                if is_right(*typed) {
                    return *typed;
                }
                wrong(format!("{} is out of bounds: {}", as_typed(*typed), $range));
                1.0
            }

            fn range((): &()) -> Option<String> {
                Some($range.to_owned())
            }

            fn schema((): &()) -> Value {
                number_schema("number", 0, $high)
            }
        }
    )+};
}

number_kinds! {
    /// Divisor of gaps; 0: there are none.
    Factor: |value| value == 0.0 || FACTORS.contains(&value), "0, or 0.000001 to 1000000000",
        0 to FACTORS.end();
    /// A part of a whole.
    Share: |value| (0.0..=1.0).contains(&value), "0 to 1", 0 to 1;
}

/// Memory or space, typed in GiB or with a unit, checked in bytes.
impl Kind for Gib {
    type Typed = Gib;
    type Checked = u64;
    type Bounds = RangeInclusive<u32>;

    fn check(Gib(typed): &Gib, bounds: &Self::Bounds, wrong: Wrong<'_>) -> u64 {
        let (low, high) = (bounds.start(), bounds.end());
        if !(f64::from(*low)..=f64::from(*high)).contains(typed) {
            wrong(format!("{} is out of bounds: {low} to {high} (GiB)", as_typed(*typed)));
            return 0;
        }
        // Within 2^53, where every whole number of bytes is exact; a fraction of a byte is cut.
        let bytes = (typed * GIB as f64) as u64;
        if bytes == 0 && *typed != 0.0 {
            // 0 may mean something else altogether.
            wrong(format!("{} GiB is less than one byte", as_typed(*typed)));
        }
        bytes
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        Some(format!("{} to {} GiB", bounds.start(), bounds.end()))
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        number_schema("number", bounds.start(), bounds.end())
    }
}

/// Memory, typed in whole MiB or with a unit, checked in bytes.
impl Kind for Mib {
    type Typed = Mib;
    type Checked = u64;
    type Bounds = RangeInclusive<i64>;

    fn check(typed: &Mib, bounds: &Self::Bounds, wrong: Wrong<'_>) -> u64 {
        within(typed.0, bounds, wrong).unsigned_abs() * MIB
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        Some(format!("{} to {} MiB", bounds.start(), bounds.end()))
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        number_schema("integer", bounds.start(), bounds.end())
    }
}

/// The size of one I/O: whole blocks of 4 KiB.
pub struct IoSize;

impl Kind for IoSize {
    type Typed = Size;
    type Checked = u32;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(|text: &str| text.parse::<Size>())
    }

    fn check(typed: &Size, (): &(), wrong: Wrong<'_>) -> u32 {
        let Size(bytes) = *typed;
        let whole_blocks = bytes % IO_SIZE_BYTES_MIN == 0;
        if !(IO_SIZE_BYTES_MIN..=IO_SIZE_BYTES_MAX).contains(&bytes) || !whole_blocks {
            wrong(format!("{typed} is out of bounds: 4KiB to 64MiB, a multiple of 4KiB"));
        }
        // At most 64 MiB: fits.
        bytes.clamp(IO_SIZE_BYTES_MIN, IO_SIZE_BYTES_MAX) as u32
    }

    fn range((): &()) -> Option<String> {
        Some("4KiB to 64MiB, a multiple of 4KiB".to_owned())
    }

    fn schema((): &()) -> Value {
        json!({ "type": "string", "pattern": "^[0-9]+([KM]iB)?$" })
    }
}

impl Kind for bool {
    type Typed = bool;
    type Checked = bool;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(BoolValueParser::new())
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true)
    }

    fn check(typed: &bool, (): &(), _: Wrong<'_>) -> bool {
        *typed
    }

    fn schema((): &()) -> Value {
        json!({ "type": "boolean" })
    }
}

impl Kind for String {
    type Typed = String;
    type Checked = String;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(value_parser!(String))
    }

    fn check(typed: &String, (): &(), _: Wrong<'_>) -> String {
        typed.clone()
    }
}

/// A path that was typed; an empty one is wrong.
fn path(typed: &Path, wrong: Wrong<'_>) -> PathBuf {
    if typed.as_os_str().is_empty() {
        wrong("is empty: give a path, or leave it out".to_owned());
    }
    typed.to_owned()
}

/// Declares kinds of paths: what they come to, and whether `auto` has a meaning.
macro_rules! path_kinds {
    ($($name:ty: $checked:ty = $check:expr, auto: $auto:literal;)+) => {$(
        impl Kind for $name {
            type Typed = PathBuf;
            type Checked = $checked;
            type Bounds = ();

            fn arg(arg: Arg) -> Arg {
                arg.value_parser(PathBufValueParser::new())
            }

            fn check(typed: &PathBuf, (): &(), wrong: Wrong<'_>) -> $checked {
                let check: fn(&Path, Wrong<'_>) -> $checked = $check;
                check(typed, wrong)
            }

            fn is_auto(typed: &PathBuf) -> bool {
                $auto && typed.as_os_str() == "auto"
            }
        }
    )+};
}

/// A path; `none`: there is none.
pub struct Optional;

fn optional_path(typed: &Path, wrong: Wrong<'_>) -> Option<PathBuf> {
    (typed.as_os_str() != "none").then(|| path(typed, wrong))
}

path_kinds! {
    Optional: Option<PathBuf> = optional_path, auto: false;
    PathBuf: PathBuf = path, auto: true;
    RooflineFrom: Option<RooflineFrom> = |typed, wrong| {
        optional_path(typed, wrong).map(|path| match path.to_str() {
            Some("fresh") => RooflineFrom::Fresh,
            _ => RooflineFrom::File(path),
        })
    }, auto: false;
}

/// A text that is read as `T`; `none`: there is none.
pub struct OrNone<T>(PhantomData<T>);

impl<T: FromStr<Err = String>> Kind for OrNone<T> {
    type Typed = String;
    type Checked = Option<T>;
    type Bounds = ();

    fn check(typed: &String, (): &(), wrong: Wrong<'_>) -> Option<T> {
        (typed != "none").then(|| typed.parse().map_err(wrong).ok()).flatten()
    }
}

/// Latencies to inject, typed as [`latencies`] reads them; `none` for none.
pub struct InjectedLatencies;

impl Kind for InjectedLatencies {
    type Typed = String;
    type Checked = Option<LatencySpread>;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(value_parser!(String))
    }

    fn check(typed: &String, (): &(), wrong: Wrong<'_>) -> Option<LatencySpread> {
        let read = (typed != "none").then(|| latencies(typed))?;
        read.map_err(|remedy| wrong(format!("{typed}: {remedy}"))).ok()
    }
}

impl<K> Kind for Auto<K>
where
    K: Kind<Typed: Copy + Default>,
{
    type Typed = Auto<K::Typed>;
    type Checked = K::Checked;
    type Bounds = K::Bounds;

    fn check(typed: &Self::Typed, bounds: &Self::Bounds, wrong: Wrong<'_>) -> Self::Checked {
        let given = typed.given().unwrap_or_else(|| {
            // Every setting of this kind names a function that has replaced it by now.
            wrong("auto can't be worked out: give a value".to_owned());
            K::Typed::default()
        });
        K::check(&given, bounds, wrong)
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        K::range(bounds)
    }

    fn is_auto(typed: &Self::Typed) -> bool {
        matches!(typed, Auto::Auto)
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        or_word(K::schema(bounds), &["auto"])
    }
}
