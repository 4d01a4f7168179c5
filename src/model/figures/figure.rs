//! Types of the document's figures: values that may be unknown, each in a type that determines how
//! they merge.
//!
//! In JSON each of them is its bare value, and null (or not there at all) where it is unknown: a
//! figure that a result lacks is never taken for zero. The parameter says what the schema promises
//! of a run: `Sum<u64>` is always a number there, `Sum<Option<u64>>` may be null. `Same`, `First`,
//! `Added` and `OfRun` may be null in any document, since merging may make them so.
//!
//! A [`Fact`] is a value in a row of a list, or a part that is kept or dropped as a whole. It has
//! no rule, and a struct of `figures!` can't have one as a field.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::given::Given;
use super::merge::{Inputs, Merge};
use crate::facts::Adds;

/// Value of a figure; determines whether a run may leave it null.
pub trait Shape: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned {
    /// The value, when there is one.
    type Value: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned;
}

/// Types that are a figure's value as they are.
macro_rules! shapes {
    ($($name:ty),* $(,)?) => {
        $(impl $crate::figures::figure::Shape for $name {
            type Value = $name;
        })*
    };
}
pub(crate) use shapes;

shapes!(i32, u32, u64, usize, f64, bool, String);
shapes!([f64; 3], [Option<f64>; 3]);

impl<T: Shape<Value = T>> Shape for Option<T> {
    type Value = T;
}

impl<T: Shape> Shape for Vec<T> {
    type Value = Vec<T>;
}

/// Values that add up.
pub trait Number: Copy + PartialOrd {
    /// The sum; integers stop at their largest value.
    fn plus(self, other: Self) -> Self;
    /// As a double, rounded to the nearest.
    fn as_f64(self) -> f64;
}

macro_rules! integers {
    ($($name:ty),*) => {
        $(impl Number for $name {
            fn plus(self, other: $name) -> $name {
                self.saturating_add(other)
            }
            fn as_f64(self) -> f64 {
                self as f64
            }
        })*
    };
}
integers!(u32, u64, usize);

impl Number for f64 {
    fn plus(self, other: f64) -> f64 {
        self + other
    }
    fn as_f64(self) -> f64 {
        self
    }
}

/// A figure type: its name, and what its schema is.
macro_rules! figure {
    ($(#[$doc:meta])* $name:ident, $schema:ty) => {
        $(#[$doc])*
        // As an `Option`: one that is not there is unknown.
        #[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(transparent, bound = "")]
        pub struct $name<T: Shape>(Option<T::Value>);

        impl<T: Shape> $name<T> {
            /// The figure of that value.
            pub const fn of(value: T::Value) -> Self {
                $name(Some(value))
            }

            /// The figure of a value that may be unknown.
            pub const fn maybe(value: Option<T::Value>) -> Self {
                $name(value)
            }

            /// The value, if it is known.
            pub const fn as_ref(&self) -> Option<&T::Value> {
                self.0.as_ref()
            }

            /// Whether it is not known.
            pub const fn is_unknown(&self) -> bool {
                self.0.is_none()
            }

            /// The figure with its value changed; one that is unknown stays so.
            #[must_use]
            pub fn map(self, change: impl FnOnce(T::Value) -> T::Value) -> Self {
                $name(self.0.map(change))
            }
        }

        impl<T: Shape<Value: Copy>> $name<T> {
            /// The value, if it is known.
            pub const fn known(&self) -> Option<T::Value> {
                self.0
            }
        }

        impl<T: Shape<Value: Number>> $name<T> {
            /// The value as a double, if it is known.
            pub fn number(&self) -> Option<f64> {
                self.0.map(Number::as_f64)
            }
        }

        impl<T: Shape, V: Into<Option<T::Value>>> Given<V> for $name<T> {
            fn given(value: V) -> Self {
                $name(value.into())
            }
        }

        impl<T: Shape> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        /// As people read it; a dash where it is unknown.
        impl<T: Shape<Value: fmt::Display>> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match &self.0 {
                    Some(value) => value.fmt(f),
                    None => f.write_str("–"),
                }
            }
        }

        impl<T: Shape> Default for $name<T> {
            fn default() -> Self {
                $name(None)
            }
        }

        #[cfg(any(test, feature = "testing"))]
        super::described::schema_as!(
            { T: Shape<Value: schemars::JsonSchema> + schemars::JsonSchema } $name<T> => $schema
        );
    };
}

figure!(
    /// Counted or added up: merged results have the sum, and none where one lacks it.
    Sum, T
);
figure!(
    /// Counts that belong together, added up part by part; none where one result lacks them.
    Added, Option<T::Value>
);
figure!(
    /// The largest of those known.
    Max, T
);
figure!(
    /// The smallest of those known.
    Min, T
);
figure!(
    /// Whether it is true of any.
    Any, T
);
figure!(
    /// A share of the time, or another mean over it: merged results have the mean over the time of
    /// all of them, and none where one lacks it.
    OverTime, Option<T::Value>
);
figure!(
    /// The first that is known.
    First, Option<T::Value>
);
figure!(
    /// A value on which all results agree; null where they differ. Never a measurement: two results
    /// that both counted 5 have counted 10.
    Same, Option<T::Value>
);
figure!(
    /// A value of a single run: null in merged results.
    OfRun, Option<T::Value>
);
figure!(
    /// Worked out from other figures of the same document, by `derive`, for a run
    /// as for merged results.
    Derived, T
);
figure!(
    /// A value in a row of a list, or in a part that is not merged figure by figure.
    Fact, T
);

impl<T: Shape<Value: Number>> Merge for Sum<T> {
    const RULE: &'static str = "sum";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let mut known = all.iter().map(|one| one.0);
        let first = known.next().flatten();
        Sum(known.fold(first, |sum, one| Some(sum?.plus(one?))))
    }
}

impl<T: Shape<Value: Adds>> Merge for Added<T> {
    const RULE: &'static str = "added part by part";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let mut known = all.iter().map(|one| one.0.as_ref());
        let first = known.next().flatten().cloned();
        Added(known.fold(first, |sum, one| sum?.plus(one?)))
    }
}

impl<T: Shape<Value: Number>> Merge for Max<T> {
    const RULE: &'static str = "max";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let known = all.iter().filter_map(|one| one.0);
        Max(known.reduce(|most, one| if one > most { one } else { most }))
    }
}

impl<T: Shape<Value: Number>> Merge for Min<T> {
    const RULE: &'static str = "min";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let known = all.iter().filter_map(|one| one.0);
        Min(known.reduce(|least, one| if one < least { one } else { least }))
    }
}

impl<T: Shape<Value = bool>> Merge for Any<T> {
    const RULE: &'static str = "any";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        Any(Some(all.iter().any(|one| one.0 == Some(true))))
    }
}

impl<T: Shape<Value = f64>> Merge for OverTime<T> {
    const RULE: &'static str = "mean over time";

    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        // Of one it is as it was, to the last bit.
        if let [only] = all {
            return OverTime(only.0);
        }
        let whole_s: f64 = inputs.seconds.iter().sum();
        let parts = all.iter().zip(&inputs.seconds).map(|(one, seconds)| Some(one.0? * seconds));
        let sum: Option<f64> = parts.sum();
        let is_whole = all.len() == inputs.seconds.len() && whole_s > 0.0;
        OverTime(sum.filter(|_| is_whole).map(|sum| sum / whole_s))
    }
}

impl<T: Shape> Merge for First<T> {
    const RULE: &'static str = "first";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        First(all.iter().find_map(|one| one.0.clone()))
    }
}

impl<T: Shape> Merge for Same<T> {
    const RULE: &'static str = "same";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        Same(same(all.iter().map(|one| &one.0)).flatten())
    }
}

/// The common value; `None` where they differ or there are none.
pub(crate) fn same<'a, T: Clone + PartialEq + 'a>(all: impl Iterator<Item = &'a T>) -> Option<T> {
    let mut all = all;
    let first = all.next()?;
    all.all(|one| one == first).then(|| first.clone())
}

impl<T: Shape> Merge for OfRun<T> {
    const RULE: &'static str = "of one run";

    fn merged(_: &[&Self], _: &Inputs) -> Self {
        OfRun(None)
    }
}

impl<T: Shape> Merge for Derived<T> {
    const RULE: &'static str = "derived";

    fn merged(_: &[&Self], _: &Inputs) -> Self {
        Derived(None)
    }
}

/// Figures that belong together. Of a part that a document lacks all are unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent, bound(deserialize = "T: Deserialize<'de> + Default"))]
pub struct Part<T>(#[serde(deserialize_with = "or_default")] pub T);

/// The value, or its default where it is null or not there at all.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl<T> Given<T> for Part<T> {
    fn given(value: T) -> Self {
        Part(value)
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Part<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Merge> Merge for Part<T> {
    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        Part(T::merged(&all.iter().map(|one| &one.0).collect::<Vec<_>>(), inputs))
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        T::rules(path, into);
    }
}
