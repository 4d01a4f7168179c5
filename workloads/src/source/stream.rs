//! Rows of one file or several, once or over and over, as requests with a time.

use rand::RngExt;

use super::{Rows, Skipped};
use crate::contract::Nanos;
use crate::conversation::Turn;
use crate::digest::Digest;
use crate::error::Error;
use crate::key::PART_MAX;
use crate::rng::{Stream as Random, StreamPurpose, mix64, stream};

/// When the rows' requests arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// As recorded, gaps divided by this, > 0.
    Recorded {
        /// 2: twice as fast.
        speedup: f64,
    },
    /// One after the other, as soon as they can be served.
    NoGaps,
    /// So many a second.
    Rate {
        /// > 0.
        per_s: f64,
        /// At random times, or evenly.
        poisson: bool,
    },
}

/// Settings of a trace's replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamSettings {
    /// Source of the arrival times: the trace's own times, a rate, or nothing.
    pub pace: Pace,
    /// Number of times to replay the whole trace; 0 repeats it until nobody asks any more.
    pub cycles: u32,
    /// Requests in all; 0: no limit.
    pub requests_max: u64,
    /// Users that requests without a session belong to.
    pub users: u32,
    /// Random seed; everything that is not in the trace follows from it.
    pub seed: u64,
}

/// A request of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceRequest {
    /// Intended arrival; none: as soon as it can be served.
    pub arrival: Option<Nanos>,
    /// Whose it is: a user, a session, or the request by itself. Below 2^60.
    pub user: u64,
    /// Its number in the stream, from 0.
    pub sequence: u64,
    /// Place in a conversation.
    pub turn: Turn,
    /// Number of tokens of the request's context, at least 1; 0 of an operation.
    pub context_tokens: u32,
    /// Number of tokens of its answer, at least 1; 0 of an operation.
    pub generate_tokens: u32,
    /// Its prefix blocks, if the trace names them.
    pub blocks: Option<Box<[u64]>>,
    /// It is no request, but this operation on the entry of that `user`.
    pub operation: Option<super::Operation>,
    /// Which repetition of the trace it belongs to.
    pub cycle: u32,
}

/// Opens the `n`-th file again.
pub type Open = Box<dyn FnMut(usize) -> Result<Box<dyn Rows>, Error> + Send>;

/// A trace, as an endless or finite stream of requests.
pub struct Stream {
    open: Open,
    files: usize,
    settings: StreamSettings,
    current: Option<Box<dyn Rows>>,
    next_file: usize,
    cycle: u32,
    sequence: u64,
    rows_of_cycle: u64,
    /// Timestamp of the row before, in the same file.
    last_timestamp_ns: Option<u64>,
    /// Time of the stream, ns. A float: divided gaps must not lose their fractions.
    now_ns: f64,
    random: Random,
    skipped: Skipped,
    disordered: u64,
    digest: Digest,
}

impl Stream {
    /// A stream over `files` files, of which nothing is read yet.
    pub fn new(open: Open, files: usize, settings: StreamSettings) -> Stream {
        Stream {
            open,
            files,
            settings,
            current: None,
            next_file: 0,
            cycle: 0,
            sequence: 0,
            rows_of_cycle: 0,
            last_timestamp_ns: None,
            now_ns: 0.0,
            random: stream(settings.seed, StreamPurpose::Pace, 0),
            skipped: Skipped::default(),
            disordered: 0,
            digest: Digest::default(),
        }
    }

    /// The next request; `None` when there are no more.
    ///
    /// # Errors
    /// A file can't be read, or none has a row that parses.
    pub fn next_request(&mut self) -> Result<Option<SourceRequest>, Error> {
        let limit = self.settings.requests_max;
        if limit > 0 && self.sequence >= limit {
            return Ok(None);
        }
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(rows) = &mut self.current else { return Ok(None) };
            if let Some(row) = rows.next_row()? {
                self.rows_of_cycle += 1;
                row.add_to(&mut self.digest);
                return Ok(Some(self.request(row)));
            }
            if self.cycle == 0 {
                // Later cycles would count the same rows again.
                self.skipped.merge(&rows.skipped());
            }
            self.current = None;
        }
    }

    /// Rows that did not parse, in the first cycle, of the files read to their end.
    pub fn skipped(&self) -> Skipped {
        let mut skipped = self.skipped.clone();
        if let Some(rows) = self.current.as_ref().filter(|_| self.cycle == 0) {
            skipped.merge(&rows.skipped());
        }
        skipped
    }

    /// Rows, of the first cycle, that are earlier than the row before them in a trace whose times
    /// count: they arrive at that row's time.
    pub fn disordered_rows(&self) -> u64 {
        self.disordered
    }

    /// Digest of the rows given so far: without pace and seed.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whole cycles that are over.
    pub fn cycles(&self) -> u32 {
        match self.settings.cycles {
            0 => self.cycle,
            all => self.cycle.min(all),
        }
    }

    /// Whether every cycle was read to its end, rather than as many requests as were wanted.
    pub fn is_over(&self) -> bool {
        self.settings.cycles > 0 && self.cycle >= self.settings.cycles
    }

    /// Opens the next file, or the first one again. `false`: all cycles are over.
    fn open_next(&mut self) -> Result<bool, Error> {
        if self.next_file == self.files {
            if self.rows_of_cycle == 0 {
                return Err(self.skipped.nothing_left("give a trace with at least one whole row"));
            }
            self.next_file = 0;
            self.rows_of_cycle = 0;
            self.cycle += 1;
            if self.settings.cycles > 0 && self.cycle >= self.settings.cycles {
                self.next_file = self.files;
                self.rows_of_cycle = 1;
                return Ok(false);
            }
        }
        self.current = Some((self.open)(self.next_file)?);
        self.next_file += 1;
        self.last_timestamp_ns = None;
        Ok(true)
    }

    fn request(&mut self, row: super::Row) -> SourceRequest {
        let sequence = self.sequence;
        self.sequence += 1;
        let first = sequence == 0;
        // Disordered rows, and another file's own time, follow without a gap.
        let before = self.last_timestamp_ns.replace(row.timestamp_ns).unwrap_or(row.timestamp_ns);
        let recorded_ns = row.timestamp_ns.saturating_sub(before) as f64;
        let is_timed = matches!(self.settings.pace, Pace::Recorded { .. });
        self.disordered += u64::from(is_timed && self.cycle == 0 && row.timestamp_ns < before);
        self.now_ns += match self.settings.pace {
            Pace::Recorded { speedup } => recorded_ns / speedup,
            Pace::NoGaps => 0.0,
            Pace::Rate { per_s, poisson: true } => {
                -libm::log(1.0 - self.random.random::<f64>()) * 1e9 / per_s
            }
            Pace::Rate { .. } if first => 0.0,
            Pace::Rate { per_s, .. } => 1e9 / per_s,
        };
        let user = match (&row.blocks, row.session) {
            (_, Some(key)) if row.operation.is_some() => super::iotrace::user_of_key(key),
            (Some(_), _) => sequence,
            (None, Some(session)) => mix64(session ^ mix64(u64::from(self.cycle))) & PART_MAX,
            (None, None) => {
                mix64(self.settings.seed ^ mix64(sequence)) % u64::from(self.settings.users)
            }
        };
        SourceRequest {
            arrival: match self.settings.pace {
                Pace::NoGaps => None,
                _ => Some(Nanos::from_ns_f64(self.now_ns)),
            },
            user,
            sequence,
            turn: match (row.session, row.cached_tokens) {
                (None, _) => Turn::Alone,
                // Nothing was left of what came before.
                (Some(_), Some(0)) => Turn::Number(0),
                (Some(_), _) => Turn::Next,
            },
            // What was found is what the session's earlier requests brought.
            context_tokens: row
                .context_tokens
                .saturating_sub(row.cached_tokens.unwrap_or(0))
                .max(row.tokens_min()),
            generate_tokens: row.generate_tokens.max(row.tokens_min()),
            blocks: row.blocks,
            operation: row.operation,
            cycle: self.cycle,
        }
    }
}
