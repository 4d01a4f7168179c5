//! Values as people type them: sizes and times with their units, seeds, and "auto".

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use ringfall_core::clock::Nanos;
use ringfall_core::model::LatencySpread;
use ringfall_core::units::{GIB, MIB};
use ringfall_workloads::prefill::{GPUS, PrefillGpu};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// A value, or the wish that ringfall work it out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Auto<T> {
    /// `auto`.
    Auto,
    /// The value.
    Given(T),
}

impl<T: Copy> Auto<T> {
    /// The value, if it was given.
    pub fn given(self) -> Option<T> {
        match self {
            Auto::Auto => None,
            Auto::Given(value) => Some(value),
        }
    }
}

impl<T: FromStr> FromStr for Auto<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Auto::Auto);
        }
        let wanted = || format!("neither a number that fits here nor \"auto\": {text:?}");
        text.trim().parse().map(Auto::Given).map_err(|_| wanted())
    }
}

impl<T: Serialize> Serialize for Auto<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Auto::Auto => to.serialize_str("auto"),
            Auto::Given(value) => value.serialize(to),
        }
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Auto<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FromText(PhantomData))
    }
}

/// A number of bytes: `4096`, `128k`, `1MiB`, `2 GiB`. All units are powers of 1,024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

const UNITS: [(&str, u32); 6] = [("", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40), ("p", 50)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not a size such as 4096, 128k or 1MiB: {text:?}");
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let shift = shift_of(&text[digits..]).ok_or_else(wrong)?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(wrong)
    }
}

/// Power of two of a unit of bytes.
fn shift_of(unit: &str) -> Option<u32> {
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, shift)| *shift)
}

/// Number and unit of a text such as `1.5 TiB`; none where it has no unit.
fn with_unit(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    Some((number.trim().parse().ok()?, unit))
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, shift) in UNITS[1..].iter().rev() {
            if self.0 != 0 && self.0.trailing_zeros() >= *shift {
                return write!(f, "{}{}iB", self.0 >> shift, name.to_ascii_uppercase());
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A size in GiB: `6`, `6GiB`, `512MiB`, `1.5TiB`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Gib(pub f64);

/// Reads a size in GiB, the unit of a bare number.
///
/// # Errors
/// It is no such size.
pub fn gib(text: &str) -> Result<f64, String> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let size = with_unit(text).and_then(|(number, unit)| {
        // At most 2^50: exact.
        Some(number * (1_u64 << shift_of(unit)?) as f64 / GIB as f64)
    });
    size.ok_or_else(|| format!("not a size such as 6, 6GiB or 512MiB: {text:?}"))
}

impl FromStr for Gib {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        gib(text).map(Gib)
    }
}

/// A size in whole MiB: `512`, `512MiB`, `1GiB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Mib(pub i64);

impl FromStr for Mib {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.trim().parse() {
            return Ok(Mib(number));
        }
        let Size(bytes) = text.parse()?;
        let whole = i64::try_from(bytes / MIB).ok().filter(|_| bytes % MIB == 0);
        whole.map(Mib).ok_or_else(|| format!("not a whole number of MiB: {text:?}"))
    }
}

/// A time in whole seconds: `90`, `90s`, `1.5m`, `1h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Seconds(pub i64);

/// Reads a time in seconds, the unit of a bare number: `2`, `50us`, `500ms`, `60s`, `5m` or `5min`,
/// `1h`.
///
/// # Errors
/// It is no such time.
pub fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let time = with_unit(text).and_then(|(number, unit)| match unit {
        "us" => Some(number / 1e6),
        "ms" => Some(number / 1e3),
        "s" => Some(number),
        "m" | "min" => Some(number * 60.0),
        "h" => Some(number * 3_600.0),
        _ => None,
    });
    time.ok_or_else(|| format!("not a time such as 90, 90s, 5m or 1h: {text:?}"))
}

/// Reads a time in whole seconds, as [`seconds`] does.
///
/// # Errors
/// It is no such time, or one that the type can't hold.
pub fn whole_seconds<T: TryFrom<i64>>(text: &str) -> Result<T, String> {
    let whole = match text.trim().parse() {
        Ok(whole) => Some(whole),
        Err(_) => {
            let time_s = seconds(text)?;
            // 0.7 h is not quite 2,520 s in floats; below 2^53 no whole number is lost.
            let is_whole = (time_s - time_s.round()).abs() < 1e-6 && time_s.abs() < 1e15;
            is_whole.then_some(time_s.round() as i64)
        }
    };
    let fitting = whole.and_then(|whole: i64| T::try_from(whole).ok());
    fitting.ok_or_else(|| format!("not a whole number of seconds: {text:?}"))
}

/// Reads latencies of a slower store: a time up to 60 s, or a median and 99th percentile.
///
/// # Errors
/// A sentence that says how to give them.
pub fn latencies(text: &str) -> Result<LatencySpread, String> {
    let time = |text: &str| {
        let time_s = seconds(text).ok().filter(|time_s| (0.0..=60.0).contains(time_s))?;
        Some(Nanos::from_ns_f64(time_s * 1e9))
    };
    let (median, p99) = match text.split_once(',') {
        None => (Some(text), Some(text)),
        Some((median, p99)) => (median.strip_prefix("p50="), p99.strip_prefix("p99=")),
    };
    let found = median.and_then(time).zip(p99.and_then(time));
    let found = found.filter(|(median, p99)| median <= p99);
    found
        .map(|(median, p99)| LatencySpread { median, p99 })
        .ok_or_else(|| "give a time up to 60s, such as 5ms, or p50=1ms,p99=20ms".to_owned())
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        whole_seconds(text).map(Seconds)
    }
}

/// A seed: a number of 64 bits, or `random`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seed {
    /// One that is drawn when the run begins.
    Random,
    /// The number.
    Given(u64),
}

impl Seed {
    /// The number that was given; `drawn` where one is to be drawn.
    pub fn number_or(self, drawn: u64) -> u64 {
        match self {
            Seed::Random => drawn,
            Seed::Given(number) => number,
        }
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            // `auto` was the word for it, and stands in configurations.
            "random" | "auto" => Ok(Seed::Random),
            number => number
                .parse()
                .map(Seed::Given)
                .map_err(|_| format!("neither a whole number of 64 bits nor \"random\": {text:?}")),
        }
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Seed::Random => to.serialize_str("random"),
            Seed::Given(seed) => to.serialize_u64(*seed),
        }
    }
}

/// A prefill speed: tokens per second, or the GPU that it follows from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PrefillSpeed {
    /// That of the model on this GPU.
    On(PrefillGpu),
    /// Tokens per second.
    Given(f64),
}

impl FromStr for PrefillSpeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let typed = text.trim();
        if let Some(gpu) = GPUS.iter().find(|gpu| typed.eq_ignore_ascii_case(gpu.name)) {
            return Ok(PrefillSpeed::On(*gpu));
        }
        typed.parse().map(PrefillSpeed::Given).map_err(|_| {
            let names = GPUS.map(|gpu| gpu.name).join(", ");
            format!("neither a number nor a GPU that is known ({names}): {text:?}")
        })
    }
}

impl Serialize for PrefillSpeed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            PrefillSpeed::On(gpu) => to.serialize_str(gpu.name),
            PrefillSpeed::Given(speed) => to.serialize_f64(*speed),
        }
    }
}

/// Has files read these as the command line does.
macro_rules! read_as_typed {
    ($($name:ident),+) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::values::FromText(std::marker::PhantomData))
            }
        }
    )+};
}

pub(super) use read_as_typed;

read_as_typed!(Size, Gib, Mib, Seconds, Seed, PrefillSpeed);

/// Any YAML scalar, read by the type's `FromStr`.
pub(super) struct FromText<T>(pub(super) PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for FromText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a word")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        value.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("128k", 128 << 10),
            ("128K", 128 << 10),
            ("1MiB", 1 << 20),
            ("1mb", 1 << 20),
            ("2 GiB", 2 << 30),
            ("0", 0),
            ("512b", 512),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "k", "1.5M", "-1", "1x", "1MM", "99999999999P", "1 2", "１"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_without_a_unit_is_in_that_of_its_setting() {
        for (text, size) in [
            ("6", 6.0),
            ("0.5", 0.5),
            ("6GiB", 6.0),
            ("512MiB", 0.5),
            ("512m", 0.5),
            ("1TiB", 1_024.0),
            ("1.5 TB", 1_536.0),
            ("-1g", -1.0),
        ] {
            assert_eq!(text.parse(), Ok(Gib(size)), "{text}");
        }
        for text in ["", "GiB", "6x", "6GiBs", "1e3GiB", "6 6GiB"] {
            assert!(text.parse::<Gib>().unwrap_err().contains("such as 6, 6GiB"), "{text}");
        }
        for (text, size) in [("512", 512), ("512MiB", 512), ("1GiB", 1_024), ("1024k", 1)] {
            assert_eq!(text.parse(), Ok(Mib(size)), "{text}");
        }
        for text in ["1.5", "100k", "x"] {
            assert!(text.parse::<Mib>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_those_of_a_run_are_whole_seconds() {
        for (text, time_s) in [
            ("60", 60),
            ("60s", 60),
            ("60 s", 60),
            ("5m", 300),
            ("5min", 300),
            ("1h", 3_600),
            ("0.7h", 2_520),
            ("2000ms", 2),
            ("-5", -5),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(time_s)), "{text}");
        }
        for text in ["", "s", "1.5", "500ms", "1d", "nan", "inf", "1e300", "1h30m"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
        assert_eq!((seconds("500ms"), seconds("1.5s")), (Ok(0.5), Ok(1.5)));
        assert_eq!(seconds("50us"), Ok(50.0 / 1e6));
        assert!(whole_seconds::<u32>("-1").is_err());
    }

    #[test]
    fn a_seed_is_a_number_or_drawn() {
        assert_eq!("18446744073709551615".parse(), Ok(Seed::Given(u64::MAX)));
        for text in ["random", "Random", "auto"] {
            assert_eq!(text.parse(), Ok(Seed::Random), "{text}");
        }
        assert_eq!((Seed::Random.number_or(7), Seed::Given(3).number_or(7)), (7, 3));
        for text in ["x1", "-1", "1.5", ""] {
            assert!(text.parse::<Seed>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_prefill_speed_is_a_number_or_a_gpus_name() {
        assert_eq!("2.5e3".parse(), Ok(PrefillSpeed::Given(2_500.0)));
        for name in ["h100", " H100 "] {
            let speed: PrefillSpeed = name.parse().unwrap();
            assert!(matches!(speed, PrefillSpeed::On(gpu) if gpu.name == "h100"), "{name}");
        }
        let told = "auto".parse::<PrefillSpeed>().unwrap_err();
        assert!(told.contains("a100, b200, h100"), "{told}");
    }

    #[test]
    fn auto_is_a_word_or_a_number() {
        assert_eq!("auto".parse(), Ok(Auto::<u64>::Auto));
        assert_eq!("18446744073709551615".parse(), Ok(Auto::Given(u64::MAX)));
        assert_eq!("1.5".parse(), Ok(Auto::Given(1.5_f64)));
        assert!("x".parse::<Auto<f64>>().is_err());
    }

    proptest! {
        #[test]
        fn a_size_reads_back_what_it_writes(bytes in any::<u64>(), shift in 0u32..51) {
            let size = Size(bytes >> shift << shift);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = text.parse::<Size>();
            let _ = text.parse::<Auto<Gib>>();
            let _ = text.parse::<Seconds>();
        }
    }
}
