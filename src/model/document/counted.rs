//! Counters that were declared where they are counted: their names, descriptions and sums are in
//! the document without another line about any of them.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use ringfall_core::metrics::Counters;
use serde::{Deserialize, Serialize};

use super::figure::{Sum, or_default};
use super::merge::{Inputs, Merge};
use crate::figures::given::Given;

/// Counters by their names; of a result that lacks one it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent, bound(deserialize = ""))]
pub struct Counted<T> {
    #[serde(deserialize_with = "or_default")]
    counters: BTreeMap<String, Sum<u64>>,
    #[serde(skip)]
    of: PhantomData<T>,
}

impl<T: Counters> Given<&T> for Counted<T> {
    fn given(counters: &T) -> Self {
        let names = T::NAMES.iter().map(|(name, _)| (*name).to_owned());
        Counted::holding(names.zip(counters.values().into_iter().map(Sum::of)).collect())
    }
}

impl<T> Counted<T> {
    const fn holding(counters: BTreeMap<String, Sum<u64>>) -> Counted<T> {
        Counted { counters, of: PhantomData }
    }
}

impl<T: Counters> Merge for Counted<T> {
    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let all: Vec<_> = all.iter().map(|one| &one.counters).collect();
        Counted::holding(BTreeMap::merged(&all, inputs))
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        for (name, _) in T::NAMES {
            Sum::<u64>::rules(&format!("{path}/{name}"), into);
        }
    }
}
