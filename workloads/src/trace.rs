//! Figures of a recorded trace, counted a request at a time, in the order in which it is read.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::reuse::{BLOCK_BYTES, BLOCKS_MAX, PrefixReuse};
use crate::source::{Row, TraceFormat};

/// Numbers counted by their value, so that their quantiles are exact.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// Count of the numbers so far.
    pub numbers: u64,
    /// Sum of the numbers.
    pub sum: u64,
    counts: BTreeMap<u64, u64>,
}

impl Tally {
    /// Counts one more number.
    pub fn add(&mut self, number: u64) {
        self.numbers += 1;
        self.sum = self.sum.saturating_add(number);
        *self.counts.entry(number).or_default() += 1;
    }

    /// The smallest number that this share of them, from 0 to 1, does not exceed; 0 where there is
    /// none.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.numbers as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        });
        reached.or(self.counts.last_key_value()).map_or(0, |(number, _)| *number)
    }
}

/// Figures of a trace so far.
#[derive(Debug)]
pub struct TraceFigures {
    /// Format of the trace, by which its blocks have their size, if it names any.
    pub format: TraceFormat,
    /// Tokens of the prompts, a number for each request.
    pub input_tokens: Tally,
    /// Tokens of the answers, a number for each request.
    pub output_tokens: Tally,
    /// Tokens of the prompts that the recorded deployment's cache found, a number for each request
    /// of which that is told.
    pub cached_tokens: Tally,
    /// Hits of caches that hold blocks of prompts; none where the format does not name blocks.
    pub reuse: PrefixReuse,
    sessions: BTreeMap<u64, u64>,
    first_ns: u64,
    last_ns: u64,
    blocks_max: u64,
}

impl TraceFigures {
    /// Figures of no request. Hits are counted for caches of so many blocks; to remember distinct
    /// blocks may take `memory_bytes_max`.
    pub fn new(format: TraceFormat, capacities: Vec<u64>, memory_bytes_max: u64) -> TraceFigures {
        TraceFigures {
            format,
            input_tokens: Tally::default(),
            output_tokens: Tally::default(),
            cached_tokens: Tally::default(),
            // Without blocks nothing is looked for, whatever their size.
            reuse: PrefixReuse::new(format.block_tokens().unwrap_or(1), capacities),
            sessions: BTreeMap::new(),
            first_ns: u64::MAX,
            last_ns: 0,
            blocks_max: (memory_bytes_max / BLOCK_BYTES).min(BLOCKS_MAX),
        }
    }

    /// Counts the next request.
    ///
    /// # Errors
    /// The trace has more distinct blocks than the memory can remember.
    pub fn add(&mut self, row: &Row) -> Result<(), Error> {
        self.input_tokens.add(row.context_tokens.into());
        self.output_tokens.add(row.generate_tokens.into());
        if let Some(cached) = row.cached_tokens {
            self.cached_tokens.add(cached.into());
        }
        self.first_ns = self.first_ns.min(row.timestamp_ns);
        self.last_ns = self.last_ns.max(row.timestamp_ns);
        if let Some(session) = row.session {
            *self.sessions.entry(session).or_default() += 1;
        }
        if let Some(tiers) = &mut self.reuse.tiers {
            tiers.begin(row.timestamp_ns);
        }
        self.reuse.request(row.blocks.as_deref().unwrap_or_default(), row.context_tokens.into());
        if self.reuse.distinct_blocks() <= self.blocks_max {
            return Ok(());
        }
        Err(Error::new(format!(
            "its first {} requests name more than {} blocks, which is what {} MiB of memory can \
             remember; give a part of it",
            self.input_tokens.numbers,
            self.blocks_max,
            (self.blocks_max * BLOCK_BYTES) >> 20
        )))
    }

    /// Time from the earliest request to the latest, ns. In sessions, each of which has a clock of
    /// its own, the latest time of all.
    pub fn span_ns(&self) -> u64 {
        let is_common = self.format != TraceFormat::Sessions;
        self.last_ns.saturating_sub(if is_common { self.first_ns } else { 0 })
    }

    /// Requests of each session, a number each; none where the trace has no sessions.
    pub fn sessions(&self) -> Option<Tally> {
        let mut tally = Tally::default();
        self.sessions.values().for_each(|requests| tally.add(*requests));
        (tally.numbers > 0).then_some(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_ns: u64, session: Option<u64>, tokens: u32, blocks: &[u64]) -> Row {
        Row {
            timestamp_ns: at_ns,
            session,
            context_tokens: tokens,
            generate_tokens: 1,
            blocks: Some(blocks.into()),
            ..Row::default()
        }
    }

    #[test]
    fn quantiles_are_numbers_that_were_counted() {
        let mut tally = Tally::default();
        assert_eq!(tally.quantile(0.5), 0);
        (1..=20).rev().for_each(|number| tally.add(number));
        let quantiles = [0.0, 0.05, 0.5, 0.95, 0.96, 1.0].map(|share| tally.quantile(share));
        assert_eq!(quantiles, [1, 1, 10, 19, 20, 20]);
        assert_eq!((tally.numbers, tally.sum), (20, 210));
    }

    #[test]
    fn times_and_sessions_are_counted_as_the_format_has_them() {
        let rows =
            [row(5, Some(1), 20, &[1, 2]), row(9, Some(2), 20, &[1]), row(7, Some(1), 4, &[1, 2])];
        let counted = |format| {
            let mut figures = TraceFigures::new(format, vec![1], 1 << 20);
            rows.iter().for_each(|row| figures.add(row).unwrap());
            figures
        };
        let figures = counted(TraceFormat::Qwen);
        assert_eq!((figures.input_tokens.numbers, figures.span_ns()), (3, 4));
        assert_eq!(figures.reuse.found_unbounded(), 16 + 4);
        let sessions = figures.sessions().unwrap();
        assert_eq!((sessions.numbers, sessions.quantile(1.0)), (2, 2));
        assert_eq!(counted(TraceFormat::Sessions).span_ns(), 9);
    }

    #[test]
    fn more_blocks_than_memory_are_refused_by_their_number() {
        let mut figures = TraceFigures::new(TraceFormat::Mooncake, Vec::new(), 2 * BLOCK_BYTES);
        figures.add(&row(0, None, 1, &[1, 2])).unwrap();
        assert_eq!(figures.sessions(), None);
        let error = figures.add(&row(0, None, 1, &[3])).unwrap_err().to_string();
        assert!(error.contains("first 2 requests name more than 2 blocks"), "{error}");
    }
}
