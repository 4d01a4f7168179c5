//! Counters that need nothing but to be counted: each is declared here with its name and what it
//! counts, and added to where that happens. Merging and publishing them follow from the list.

/// Counters that are declared in a list.
pub trait Counters: Default {
    /// Their names, and what each counts, in a sentence.
    const NAMES: &'static [(&'static str, &'static str)];

    /// Values of the counters, in that order.
    fn values(&self) -> Vec<u64>;
}

/// Declares a struct of counters. A counter's comment is its description wherever it is published.
macro_rules! counters {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl $crate::metrics::Counters for $name {
            const NAMES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($doc),+))),+];

            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),+]
            }
        }

        impl $name {
            /// Adds what was counted elsewhere.
            pub fn merge(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }

            #[cfg(test)]
            pub(super) fn each_mut(&mut self) -> Vec<&mut u64> {
                vec![$(&mut self.$field),+]
            }
        }
    };
}

pub(super) use counters;

counters! {
    /// Counters of a shard in a measurement window besides reads, writes, moves and their times.
    pub struct Counts {
        /// Number of times that an entry was not kept in a tier that had promised it room, because
        /// none of the free pieces was one that its shard could use.
        passed_over_entries,
        /// Number of entries that were not stored because storage was full and nothing leaves it.
        unstored_entries,
        /// Number of entries dropped because a drive that held a part of them failed.
        lost_entries,
        /// Bytes of the entries that were dropped because a drive that held a part of them failed.
        lost_bytes,
    }
}
