//! Counters of an HDR histogram, with memory only for the octaves in which something was recorded.
//!
//! The layout is HdrHistogram's for our bounds: below 2²⁰ ns counters 512 ns wide, and above it
//! each octave in 1,024. The `hdrhistogram` crate, which reads and writes the format and against
//! which the tests hold this, spends five times as many instructions on recording, seven times a
//! read; and it has one block of 192 KiB, where latencies mostly fall into three octaves of 8 KiB.

use super::histogram::{HIGHEST_NS, LOWEST_NS, SIGNIFICANT_DIGITS};

/// Binary digits of a value below the finest counter: 512 ns is the power of two under `LOWEST_NS`.
const UNIT_BITS: u32 = LOWEST_NS.ilog2();
/// Counters of an octave: half of those that three digits need, the next power of two to 2 · 10³.
const OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = (2 * 10u64.pow(SIGNIFICANT_DIGITS as u32) - 1).ilog2();
/// The first two hold values below 2²⁰ ns, where all counters are as wide.
const OCTAVES: usize = (HIGHEST_NS.ilog2() - UNIT_BITS - OCTAVE_BITS + 2) as usize;

/// Bytes of all counters, when each octave has some.
#[cfg(test)]
pub(super) const BYTES_MAX: usize = OCTAVES * OCTAVE * size_of::<u64>();

#[derive(Clone, Default)]
pub(super) struct Octaves {
    octaves: [Option<Box<[u64; OCTAVE]>>; OCTAVES],
    total: u64,
}

/// Octave of a value, and place in it. The value is at most `HIGHEST_NS`, or shares its counter.
#[inline]
fn place_of(value_ns: u64) -> (usize, usize) {
    // Values of the first two octaves count as if they began at the second's beginning.
    let first = 1 << (UNIT_BITS + OCTAVE_BITS);
    let octave = ((value_ns | first).ilog2() - UNIT_BITS - OCTAVE_BITS) as usize;
    // In units of the octave's counters: below 2,048, and at least 1,024 but in the first octave.
    let counter = (value_ns >> (UNIT_BITS as usize + octave)) as usize;
    (octave + (counter >> OCTAVE_BITS), counter & (OCTAVE - 1))
}

/// Highest value that is counted there.
fn top_of(octave: usize, place: usize) -> u64 {
    let (shift, counter) = match octave {
        0 => (UNIT_BITS as usize, place),
        _ => (UNIT_BITS as usize + octave - 1, place + OCTAVE),
    };
    (((counter + 1) as u64) << shift) - 1
}

/// Counts the first value of an octave. Apart, so that counting the others keeps no registers for
/// an allocation: half of what a count costs.
#[cold]
#[inline(never)]
fn first_of_octave(octave: &mut Option<Box<[u64; OCTAVE]>>, place: usize, times: u64) {
    octave.insert(Box::new([0; OCTAVE]))[place] = times;
}

impl Octaves {
    /// Counts a value, at most `HIGHEST_NS`, so many times; no counter goes past the highest
    /// number. Allocates 8 KiB for the first of an octave.
    #[inline]
    pub(super) fn add(&mut self, value_ns: u64, times: u64) {
        let (octave, place) = place_of(value_ns);
        match &mut self.octaves[octave] {
            Some(counters) => counters[place] = counters[place].saturating_add(times),
            empty @ None => first_of_octave(empty, place, times),
        }
        self.total = self.total.saturating_add(times);
    }

    /// Adds the counters of another.
    pub(super) fn merge(&mut self, other: &Octaves) {
        for (mine, theirs) in self.octaves.iter_mut().zip(&other.octaves) {
            match (mine, theirs) {
                (_, None) => {}
                (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
                (Some(mine), Some(theirs)) => {
                    for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                        *mine = mine.saturating_add(*theirs);
                    }
                }
            }
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// Number of values counted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counters that are not 0: the highest value that each counts, and how many it counted, the
    /// lowest first.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        let octaves = self.octaves.iter().enumerate();
        let octaves = octaves.filter_map(|(n, counters)| Some((n, counters.as_deref()?)));
        octaves.flat_map(|(octave, counters)| {
            let counted = counters.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.map(move |(place, count)| (top_of(octave, place), *count))
        })
    }

    /// Highest value of the counter in which the quantile (0..=1) falls; something was counted.
    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let wanted = ((quantile.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let (mut seen, mut last) = (0u64, 0);
        for (top_ns, count) in self.recorded() {
            (seen, last) = (seen.saturating_add(count), top_ns);
            if seen >= wanted {
                break;
            }
        }
        last
    }

    /// Values counted that are at most so high, to the resolution.
    pub(super) fn count_at_most(&self, limit_ns: u64) -> u64 {
        let limit = place_of(limit_ns.min(HIGHEST_NS));
        let limit_top_ns = top_of(limit.0, limit.1);
        let below = self.recorded().take_while(|(top_ns, _)| *top_ns <= limit_top_ns);
        below.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Highest value of the counter that counts this one.
    pub(super) fn top_ns(value_ns: u64) -> u64 {
        let (octave, place) = place_of(value_ns.min(HIGHEST_NS));
        top_of(octave, place)
    }

    /// Forgets everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.octaves.iter_mut().flatten().for_each(|counters| counters.fill(0));
        self.total = 0;
    }
}

impl Extend<(u64, u64)> for Octaves {
    fn extend<I: IntoIterator<Item = (u64, u64)>>(&mut self, counted: I) {
        counted.into_iter().for_each(|(value_ns, times)| self.add(value_ns, times));
    }
}
