//! Values as people type them: sizes, and "auto".

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

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
        let unit = text[digits..].trim().to_ascii_lowercase();
        let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
        let &(_, shift) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(wrong)
    }
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

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FromText(PhantomData))
    }
}

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
            let _ = text.parse::<Auto<f64>>();
        }
    }
}
