//! Values of `--queue-depth`: a number, the usual depth, or the one that the warm-up finds.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ringfall_core::units::MIB;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::kinds::{Kind, Wrong, or_word};
use super::values::read_as_typed;

/// The queue depth as typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// `standard`: enough for most drives.
    Standard,
    /// `auto`: the smallest that is enough, found during the warm-up.
    Auto,
    /// So many I/Os.
    Given(i64),
}

/// `standard`: a shard, and all shards together.
const STANDARD: i64 = 64;
pub(super) const ALL_MAX: i64 = 1_024;
/// Bytes in flight of the largest depth that a search tries, each shard on each drive: more than
/// the bandwidth of any drive times its latency without a queue.
const SEARCH_BYTES: u64 = 64 * MIB;
/// ... and I/Os: small ones are bound by their number and not by their bytes.
const SEARCH_MAX: i64 = 512;
/// Shortest warm-up that a search has time in, s.
pub const SEARCH_WARMUP_S: u64 = 20;

impl Depth {
    /// Depth of `standard` with so many shards ≥ 1.
    pub(super) fn standard(shards: i64) -> i64 {
        STANDARD.min(ALL_MAX / shards).max(1)
    }

    /// The largest depth that a search tries with so many shards ≥ 1, and I/Os of ≥ 1 byte.
    pub(super) fn deepest(shards: i64, io_size_bytes: u64) -> i64 {
        let fitting = i64::try_from(SEARCH_BYTES / io_size_bytes).unwrap_or(SEARCH_MAX);
        fitting.clamp(STANDARD, SEARCH_MAX).min(ALL_MAX / shards).max(1)
    }

    /// Depth that rings and buffers are made for.
    pub(super) fn built_for(self, shards: i64, io_size_bytes: u64) -> i64 {
        match self {
            Depth::Standard => Depth::standard(shards),
            Depth::Auto => Depth::deepest(shards, io_size_bytes),
            Depth::Given(depth) => depth,
        }
    }
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(text: &str) -> Result<Depth, String> {
        match text.trim() {
            word if word.eq_ignore_ascii_case("auto") => Ok(Depth::Auto),
            word if word.eq_ignore_ascii_case("standard") => Ok(Depth::Standard),
            number => number.parse().map(Depth::Given).map_err(|_| {
                format!("neither a whole number nor \"standard\" nor \"auto\": {text:?}")
            }),
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Depth::Standard => f.write_str("standard"),
            Depth::Auto => f.write_str("auto"),
            Depth::Given(depth) => depth.fmt(f),
        }
    }
}

impl Serialize for Depth {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Depth::Given(depth) => depth.serialize(to),
            Depth::Standard | Depth::Auto => to.collect_str(self),
        }
    }
}

read_as_typed!(Depth);

impl Kind for Depth {
    type Typed = Depth;
    /// As typed, where that is a number: one within the bounds.
    type Checked = Depth;
    type Bounds = RangeInclusive<i64>;

    fn check(typed: &Depth, bounds: &Self::Bounds, wrong: Wrong<'_>) -> Depth {
        match typed {
            Depth::Given(depth) => {
                Depth::Given(i64::from(<u32 as Kind>::check(depth, bounds, wrong)))
            }
            Depth::Standard | Depth::Auto => *typed,
        }
    }

    fn range(bounds: &Self::Bounds) -> Option<String> {
        <u32 as Kind>::range(bounds)
    }

    fn is_auto(typed: &Depth) -> bool {
        *typed == Depth::Standard
    }

    fn schema(bounds: &Self::Bounds) -> Value {
        or_word(<u32 as Kind>::schema(bounds), &["auto", "standard"])
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::KIB;

    use super::*;

    #[test]
    fn a_depth_is_a_number_or_one_of_two_words() {
        for (text, depth) in
            [("auto", Depth::Auto), ("Standard", Depth::Standard), (" 7", Depth::Given(7))]
        {
            assert_eq!(text.parse(), Ok(depth));
            assert_eq!(depth.to_string().parse(), Ok(depth));
        }
        for text in ["", "1.5", "deep", "auto 7"] {
            assert!(text.parse::<Depth>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn small_ios_are_tried_deeper_and_many_shards_share() {
        assert_eq!(Depth::deepest(2, MIB), 64);
        assert_eq!(Depth::deepest(2, 4 * KIB), 512);
        assert_eq!(Depth::deepest(16, 4 * KIB), 64);
        assert_eq!(Depth::deepest(1_024, 64 * MIB), 1);
        assert_eq!((Depth::standard(1), Depth::standard(96)), (64, 10));
    }
}
