//! Figures declared together with where their values come from: the description, the rule of
//! merging and the source of a figure are one entry of a list, and nothing copies them field by
//! field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Fields of a document that a value of this type sets.
pub trait Given<V> {
    /// The field with that value.
    fn given(value: V) -> Self;
}

impl<T> Given<T> for Option<T> {
    fn given(value: T) -> Self {
        Some(value)
    }
}

/// Types that are set by their own values.
macro_rules! plain {
    ($({ $($parameters:tt)* } $name:ty),* $(,)?) => {
        $(impl<$($parameters)*> Given<$name> for $name {
            fn given(value: $name) -> Self {
                value
            }
        })*
    };
}

plain!({} bool, {} i32, {} u32, {} u64, {} f64, {} String, { T } Option<T>);
plain!({} BTreeMap<String, Option<String>>, {} Map<String, Value>);

/// Function `of` of a struct: takes its figures from a source, each by the expression beside it. A
/// field without one is the source's of the same name (`from`), or set later (`of`). The source may
/// be a tuple, with a name for each of its parts. A struct without a source has no such function.
macro_rules! made_of {
    ($name:ident $fields:tt) => {};
    ($name:ident $how:ident $from:tt: $source:ty {
        $($field:ident: $type:ty = $value:tt,)*
    }) => {
        impl $name {
            /// Takes its figures from the source.
            pub(crate) fn of($from: &$source) -> $name {
                $name {
                    $($field: $crate::figures::given::field_of!(
                        $how $from $field $type = $value
                    ),)*
                }
            }
        }
    };
}
pub(crate) use made_of;

/// The value of one field of [`made_of!`].
macro_rules! field_of {
    (of $from:tt $field:ident $type:ty = {}) => {
        Default::default()
    };
    (from $from:tt $field:ident $type:ty = {}) => {
        <$type as $crate::figures::given::Given<_>>::given(Clone::clone(&$from.$field))
    };
    ($how:ident $from:tt $field:ident $type:ty = { $value:expr }) => {
        <$type as $crate::figures::given::Given<_>>::given($value)
    };
}
pub(crate) use field_of;

/// Rows of lists, or parts that are kept or dropped as a whole, with the sources of their values:
/// each is the value of a figure as it is.
macro_rules! row {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $($how:ident $from:tt: $source:ty)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty $(= $value:expr)?,)*
        }
    )*) => {$(
        #[derive(Clone, Debug, Default, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[cfg_attr(any(test, feature = "testing"), derive(::schemars::JsonSchema))]
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        $crate::figures::figure::shapes!($name);

        $crate::figures::given::made_of! {
            $name $($how $from: $source)? { $($field: $type = { $($value)? },)* }
        }
    )*};
}
pub(crate) use row;
