//! Lists of the document, by what becomes of them when results are merged. One that a result lacks
//! is empty.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use super::figure::or_default;
use super::given::Given;
use super::merge::{Inputs, Merge};
use crate::distinct;
use crate::facts::SAMPLES_MAX;

/// A list type.
macro_rules! list {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(transparent, bound(deserialize = "T: Deserialize<'de>"))]
        pub struct $name<T>(#[serde(deserialize_with = "or_default")] pub Vec<T>);

        impl<T> Default for $name<T> {
            fn default() -> Self {
                $name(Vec::new())
            }
        }

        impl<T> Deref for $name<T> {
            type Target = Vec<T>;

            fn deref(&self) -> &Vec<T> {
                &self.0
            }
        }

        impl<T> DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut Vec<T> {
                &mut self.0
            }
        }

        impl<T> FromIterator<T> for $name<T> {
            fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
                $name(items.into_iter().collect())
            }
        }

        impl<T, I: IntoIterator<Item = T>> Given<I> for $name<T> {
            fn given(items: I) -> Self {
                $name(items.into_iter().collect())
            }
        }

        #[cfg(any(test, feature = "testing"))]
        super::described::schema_as!({ T: schemars::JsonSchema } $name<T> => Vec<T>);
    };
}

list!(
    /// One value a request: at most [`SAMPLES_MAX`]; beyond, of each result a share as large as its
    /// share of the requests, evenly picked from a list that is in no order.
    Samples
);
list!(
    /// Rows, one result's after the other's.
    Rows
);
list!(
    /// Rows of a time since the window's start: as if each run had begun when the one before it
    /// ended.
    Timeline
);
list!(
    /// Rows of things with names: those of the same name as one, in the order in which the names
    /// come up.
    ByName
);
list!(
    /// Pairs of bucket and count: the counts of a bucket add up.
    Buckets
);
list!(
    /// Items, the same one once.
    Union
);
list!(
    /// Errors: those of the same kind, operation and number as one.
    ByKind
);

impl<T: Clone> Merge for Samples<T> {
    const RULE: &'static str = "samples";

    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let kept: usize = all.iter().map(|list| list.len()).sum();
        let lists = || all.iter().zip(&inputs.completed);
        let sampled =
            lists().any(|(list, &of)| list.len() >= SAMPLES_MAX && of > list.len() as u64);
        if kept <= SAMPLES_MAX && !sampled {
            return all.iter().flat_map(|list| list.iter().cloned()).collect();
        }
        let requests: u128 = inputs.completed.iter().map(|&count| u128::from(count)).sum();
        let mut picked = Vec::new();
        for (list, &of) in lists() {
            let share = u128::from(of) * SAMPLES_MAX as u128 / requests.max(1);
            let quota = usize::try_from(share).unwrap_or(SAMPLES_MAX).min(list.len());
            picked.extend((0..quota).map(|at| list[at * list.len() / quota].clone()));
        }
        Samples(picked)
    }
}

impl<T: Clone> Merge for Rows<T> {
    const RULE: &'static str = "rows";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        all.iter().flat_map(|list| list.iter().cloned()).collect()
    }
}

/// A row of a [`Timeline`].
pub trait Timed {
    /// Moves its end by that time, s.
    fn delay(&mut self, by_s: f64);
}

/// A row of [`ByName`].
pub trait Named {
    /// Name of the row; `None` where it is unknown: such a row is not merged with any other.
    fn name(&self) -> Option<String>;
}

impl<T: Clone + Named + Merge> Merge for ByName<T> {
    const RULE: &'static str = "by name";

    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let mut rows: Vec<T> = Vec::new();
        for row in all.iter().flat_map(|list| list.iter()) {
            let name = row.name();
            let is_it = |there: &&mut T| name.is_some() && there.name() == name;
            match rows.iter_mut().find(is_it) {
                Some(there) => *there = T::merged(&[&*there, row], inputs),
                None => rows.push(row.clone()),
            }
        }
        ByName(rows)
    }
}

impl Merge for Buckets<(u32, u32)> {
    const RULE: &'static str = "by bucket";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for &(bucket, count) in all.iter().flat_map(|list| list.iter()) {
            let there = counts.entry(bucket).or_default();
            *there = there.saturating_add(count);
        }
        counts.into_iter().collect()
    }
}

impl<T: Clone + Timed> Merge for Timeline<T> {
    const RULE: &'static str = "timeline";

    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let mut rows = Vec::new();
        let mut began_s = 0.0;
        for (list, seconds) in all.iter().zip(&inputs.seconds) {
            for row in list.iter() {
                let mut row = row.clone();
                row.delay(began_s);
                rows.push(row);
            }
            began_s += seconds;
        }
        Timeline(rows)
    }
}

impl<T: Clone + PartialEq> Merge for Union<T> {
    const RULE: &'static str = "union";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        Union(distinct(all.iter().flat_map(|list| list.iter().cloned())))
    }
}
