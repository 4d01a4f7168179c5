//! Merging of documents, each field by the rule of its type. The runs are taken to have followed
//! one another: times add up too.

use std::collections::BTreeMap;

/// Facts about the merged documents that a field's rule may need, one item each.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Length of the window, s; 0 where it is unknown.
    pub seconds: Vec<f64>,
    /// Requests completed; 0 where it is unknown.
    pub completed: Vec<u64>,
}

/// Values that can be merged.
pub trait Merge: Sized {
    /// Name of the rule, of a type that has one for all that it holds; the tests ask for it.
    const RULE: &'static str = "";

    /// All as one, in the order of `inputs`.
    #[must_use]
    fn merged(all: &[&Self], inputs: &Inputs) -> Self;

    /// The rule of each field at `path` and below, by its place in the JSON.
    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        into.push((path.to_owned(), Self::RULE));
    }
}

/// A part that is not in every result is in none of them together: beside a null, where nothing of
/// the kind was measured, what the others measured is not the whole.
impl<T: Merge> Merge for Option<T> {
    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let there: Option<Vec<&T>> = all.iter().map(|one| one.as_ref()).collect();
        there.map(|there| T::merged(&there, inputs))
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        T::rules(path, into);
    }
}

/// Under each name what all have there; one that lacks it has it unknown.
impl<T: Merge + Default> Merge for BTreeMap<String, T> {
    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let unknown = T::default();
        let names = all.iter().flat_map(|one| one.keys());
        let mut merged = BTreeMap::new();
        for name in names {
            if !merged.contains_key(name) {
                let parts: Vec<&T> =
                    all.iter().map(|one| one.get(name).unwrap_or(&unknown)).collect();
                merged.insert(name.clone(), T::merged(&parts, inputs));
            }
        }
        merged
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        T::rules(&format!("{path}/*"), into);
    }
}

/// Merges one field of all, by the rule of its type.
///
/// The field is named by a plain function, and the list grows in a plain loop: an iterator of a
/// closure's own type would be compiled for each of the document's hundreds of fields.
pub(crate) fn merged_field<S, T: Merge>(all: &[&S], field: fn(&S) -> &T, inputs: &Inputs) -> T {
    let mut parts = Vec::with_capacity(all.len());
    for one in all {
        parts.push(field(one));
    }
    T::merged(&parts, inputs)
}

/// Structs of figures, and how each merges: field by field. A field whose type has no rule does not
/// compile. With a source after its name a struct has the function `of`
/// ([`made_of!`](crate::figures::given::made_of)).
macro_rules! figures {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $($how:ident $from:tt: $source:ty)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty $(= $value:expr)?,)*
        }
    )*) => {$(
        $crate::figures::given::row! {
            $(#[$meta])*
            $vis struct $name $($how $from: $source)? {
                $($(#[$field_meta])* $field_vis $field: $type $(= $value)?,)*
            }
        }

        impl $name {
            /// Its fields, as they are called in the JSON.
            #[allow(dead_code, reason = "not every part is asked for its names")]
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
        }

        impl $crate::figures::merge::Merge for $name {
            fn merged(
                all: &[&Self],
                inputs: &$crate::figures::merge::Inputs,
            ) -> Self {
                $name {
                    $($field: $crate::figures::merge::merged_field(
                        all,
                        |one| &one.$field,
                        inputs,
                    ),)*
                }
            }

            #[cfg(test)]
            fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
                $(<$type as $crate::figures::merge::Merge>::rules(
                    &format!("{path}/{}", stringify!($field)),
                    into,
                );)*
            }
        }
    )*};
}
pub(crate) use figures;
