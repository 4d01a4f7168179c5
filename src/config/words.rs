//! Choices that the engine, the workloads or another room make between values of their own: what
//! each value is called on the command line, in YAML and in JSON, and what it means. They need no
//! second type here, and those who define them need not know how they are typed.

use std::marker::PhantomData;
use std::str::FromStr;

use clap::builder::{EnumValueParser, PossibleValue};
use clap::{Arg, ValueEnum};
pub use ringfall_core::drive::{Durability, Preallocate};
pub use ringfall_core::fill::VerifyMode;
pub use ringfall_core::placement::EntryLayout;
pub use ringfall_workloads::autoscale::Mode as AutoscalerMode;
pub use ringfall_workloads::config::{
    Arrival, DecodeReads, GenerationMode, HistoryReads, PhaseMode, RagIngestion,
};
pub use ringfall_workloads::layout::EngineLayout;
pub use ringfall_workloads::source::ReplayedRows;
pub use ringfall_workloads::source::tokenizer::Tokenizer;
pub use ringfall_workloads::tiers::WritePolicy;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::kinds::{Kind, Wrong};
use super::values::FromText;

/// A type whose values have names, which people type and read.
pub trait Named: Copy + PartialEq + Send + Sync + 'static {
    /// All values, in the order of the help.
    const WORDS: &'static [Word<Self>];
    /// Other spellings that are understood, each with the name that it stands for.
    const ALIASES: &'static [(&'static str, &'static str)];

    /// As it is typed and reported.
    fn name(self) -> &'static str;

    /// Meaning of the name, in a sentence or two.
    fn meaning(self) -> &'static str;
}

/// A value as typed, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word<T>(pub T);

/// Gives names to the values of a type that is defined elsewhere; each value's comment is its help,
/// and other spellings that are understood stand after a `|`.
macro_rules! named {
    ($($name:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $text:literal $(| $alias:literal)*),+ $(,)?
    })+) => {$(
        impl $crate::Named for $name {
            const WORDS: &'static [$crate::Word<$name>] = &[$($crate::Word($name::$variant)),+];
            const ALIASES: &'static [(&'static str, &'static str)] = &[$($(($alias, $text),)*)+];

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            fn meaning(self) -> &'static str {
                match self { $($name::$variant => concat!($($doc),+)),+ }
            }
        }
    )+};
}

/// Defines an enum whose values have such names.
macro_rules! choice {
    (
        $(#[$of_all:meta])*
        $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $text:literal $(| $alias:literal)*),+ $(,)?
        }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant),+
        }

        $crate::words::named! {
            $name { $($(#[doc = $doc])+ $variant = $text $(| $alias)*),+ }
        }
    };
}

pub(super) use {choice, named};

named! {
    GenerationMode {
        /// Tokens take no time.
        None = "none",
        /// A token takes 2 ms.
        Fast = "fast",
        /// A token takes 30 ms.
        Realistic = "realistic",
    }
    DecodeReads {
        /// Once for the first token and once for each batch of tokens.
        Batch = "batch",
        /// Once.
        Once = "once",
    }
    HistoryReads {
        /// All of them.
        All = "all",
        /// The last one alone.
        Last = "last",
    }
    Arrival {
        /// After a think time, even if the last answer is still missing (open loop): requests queue
        /// up.
        Open = "open",
        /// After the last answer and a think time (closed loop).
        Closed = "closed",
        /// At random times (a Poisson process), --request-rate requests per second in total.
        Poisson = "poisson",
    }
    PhaseMode {
        /// Prefill, then decode.
        Both = "both",
        /// No decode reads.
        PrefillOnly = "prefill-only",
        /// Only reads, of entries written before.
        DecodeOnly = "decode-only",
    }
    AutoscalerMode {
        /// The largest number of users up to a saturation of the storage tier: its latency and
        /// throughput, and what waits for it.
        Qos = "qos",
        /// The largest number of users for which every QoS class is within its latency target, from
        /// the request to its last token.
        Slo = "slo",
        /// The number of users at which throughput peaks.
        Capacity = "capacity",
    }
    EntryLayout {
        /// A part of each entry on each drive, so that it moves at the speed of all of them.
        Stripe = "stripe",
        /// Each entry on one drive, so that a failed drive loses only the entries stored on it.
        Whole = "whole",
    }
    Tokenizer {
        /// Exactly, with the vocabulary of GPT-4.
        Cl100k = "cl100k",
        /// As one token for every four characters.
        Estimate = "estimate",
    }
    Durability {
        /// When its data has been synced.
        Flush = "flush",
        /// When the device has accepted it.
        None = "none",
    }
    VerifyMode {
        /// Nothing is compared.
        Off = "off",
        /// The first 16 bytes of each 4 KiB block are compared.
        Sample = "sample",
        /// Every byte is compared.
        Full = "full",
    }
    Preallocate {
        /// Space is reserved in steps as the run needs it, and others may use the rest.
        Grow = "grow",
        /// All space is reserved before the run (fallocate); the first write to each block is still
        /// slower.
        Reserve = "reserve",
        /// Every block is written once before the run.
        Write = "write",
    }
    RagIngestion {
        /// Before the measurement, so that every retrieval finds its document.
        Before = "before",
        /// While the load runs, one chunk after the other, as in the reference benchmark: a request
        /// retrieves from the documents that are complete by then, and when there are more than
        /// workload.rag.max_documents the oldest is deleted.
        Beside = "beside",
    }
    ReplayedRows {
        /// Those that reached storage, including evictions to it.
        Storage = "storage",
        /// Those that were asked for, whatever tier served them.
        Asked = "all",
    }
    WritePolicy {
        /// A block is written when it falls out of DRAM, and leaves the SSD when it is found.
        Demote = "demote",
        /// A block is written when it is stored in DRAM, and stays on the SSD when it is found.
        Through = "through",
    }
}

/// A layout of the storage tier: an engine's, or ringfall's own.
impl Named for Option<EngineLayout> {
    const WORDS: &'static [Word<Self>] = &{
        let mut words = [Word(None); EngineLayout::ALL.len() + 1];
        let mut index = 0;
        while index < EngineLayout::ALL.len() {
            words[index + 1] = Word(Some(EngineLayout::ALL[index]));
            index += 1;
        }
        words
    };
    const ALIASES: &'static [(&'static str, &'static str)] = &[];

    fn name(self) -> &'static str {
        self.map_or("native", EngineLayout::name)
    }

    fn meaning(self) -> &'static str {
        self.map_or("In one data file on each drive, or on the device itself", EngineLayout::unit)
    }
}

impl<T: Named> Word<T> {
    /// Its meaning as clap takes a doc comment: in one line, without its full stop.
    fn help(&self) -> String {
        let meaning = self.0.meaning().split_whitespace().collect::<Vec<_>>().join(" ");
        meaning.trim_end_matches('.').to_owned()
    }
}

impl<T: Named> ValueEnum for Word<T> {
    fn value_variants<'a>() -> &'a [Self] {
        T::WORDS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let aliases = T::ALIASES.iter().filter(|(_, name)| *name == self.0.name());
        let value = PossibleValue::new(self.0.name()).aliases(aliases.map(|(alias, _)| *alias));
        Some(value.help(self.help()))
    }
}

impl<T: Named> Kind for T {
    type Typed = Word<T>;
    type Checked = T;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(EnumValueParser::<Word<T>>::new()).ignore_case(true)
    }

    fn check(typed: &Word<T>, (): &(), _: Wrong<'_>) -> T {
        typed.0
    }

    fn choices() -> Vec<(String, String)> {
        T::WORDS.iter().map(|word| (word.0.name().to_owned(), word.help())).collect()
    }

    fn schema((): &()) -> Value {
        json!({ "type": "string", "enum": T::WORDS })
    }
}

impl<T: Named> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl<T: Named> FromStr for Word<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let alias = T::ALIASES.iter().find(|(alias, _)| *alias == text);
        let name = alias.map_or(text, |(_, name)| name);
        let found = T::WORDS.iter().find(|word| word.0.name() == name).copied();
        found.ok_or_else(|| {
            let known: Vec<&str> = T::WORDS.iter().map(|word| word.0.name()).collect();
            format!("unknown value `{text}`, expected one of `{}`", known.join("`, `"))
        })
    }
}

// As a text: in YAML `off` is a name here, and no switch.
impl<'de, T: Named> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(FromText(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_as_what_it_was_written_for() {
        for word in VerifyMode::WORDS {
            let text = serde_json::to_string(word).unwrap();
            assert_eq!(text, format!("{:?}", word.0.name()));
            assert_eq!(serde_json::from_str::<Word<VerifyMode>>(&text).unwrap(), *word);
        }
        let wrong = serde_json::from_str::<Word<VerifyMode>>("\"some\"").unwrap_err().to_string();
        assert!(wrong.contains("some") && wrong.contains("`sample`"), "{wrong}");
    }
}
