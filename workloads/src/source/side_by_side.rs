//! Sessions that take place side by side, of a trace that has them one after the other.

use std::collections::{BTreeMap, VecDeque};

use super::{Row, Rows, Skipped};
use crate::error::Error;

/// Memory for the rows of sessions that have begun. Where it is full, fewer of them take place.
const BYTES_MAX: usize = 256 << 20;

/// The rows of a trace whose sessions take turns: so many take place at once, and where one ends,
/// the next one of the trace begins. Times count from the beginning of the first; the times between
/// the rows of a session are its own. Rows that follow each other with the same session's name are
/// one session.
pub struct SideBySide {
    rows: Box<dyn Rows>,
    sessions_max: usize,
    /// The first row of the session that begins next, where it has been read.
    next: Option<Row>,
    is_read: bool,
    running: BTreeMap<Due, VecDeque<Row>>,
    begun: u64,
    bytes: usize,
    now_ns: u64,
}

/// Time of the next row of a session, and that session's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Due {
    at_ns: u64,
    number: u64,
}

impl SideBySide {
    /// Up to `sessions_max` sessions of these rows at once, at least one; nothing is read yet.
    pub fn new(rows: Box<dyn Rows>, sessions_max: usize) -> SideBySide {
        SideBySide {
            rows,
            sessions_max: sessions_max.max(1),
            next: None,
            is_read: false,
            running: BTreeMap::new(),
            begun: 0,
            bytes: 0,
            now_ns: 0,
        }
    }

    fn read(&mut self) -> Result<Option<Row>, Error> {
        let row = self.rows.next_row()?;
        self.is_read = row.is_none();
        self.bytes += row.as_ref().map_or(0, bytes_of);
        Ok(row)
    }

    /// Reads the next session to its end, and lets it begin now.
    fn begin(&mut self) -> Result<(), Error> {
        let first = match self.next.take() {
            Some(row) => Some(row),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(()) };
        let before = self.bytes;
        let mut rows = vec![first];
        while let Some(row) = self.read()? {
            if row.session != rows[0].session || self.bytes - before > BYTES_MAX {
                self.next = Some(row);
                break;
            }
            rows.push(row);
        }
        // Those of a subagent stand together, and took place beside others.
        rows.sort_by_key(|row| row.timestamp_ns);
        let begin_ns = rows[0].timestamp_ns;
        for row in &mut rows {
            row.timestamp_ns = self.now_ns.saturating_add(row.timestamp_ns - begin_ns);
        }
        self.running.insert(Due { at_ns: self.now_ns, number: self.begun }, rows.into());
        self.begun += 1;
        Ok(())
    }

    fn may_begin(&self) -> bool {
        let is_left = self.next.is_some() || !self.is_read;
        let has_room = self.running.len() < self.sessions_max && self.bytes < BYTES_MAX;
        is_left && (has_room || self.running.is_empty())
    }
}

impl Rows for SideBySide {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        while self.may_begin() {
            self.begin()?;
        }
        let Some((due, mut rows)) = self.running.pop_first() else { return Ok(None) };
        let row = rows.pop_front();
        if let Some(next) = rows.front() {
            self.running.insert(Due { at_ns: next.timestamp_ns, ..due }, rows);
        }
        self.now_ns = due.at_ns;
        self.bytes -= row.as_ref().map_or(0, bytes_of);
        Ok(row)
    }

    fn skipped(&self) -> Skipped {
        self.rows.skipped()
    }
}

fn bytes_of(row: &Row) -> usize {
    size_of::<Row>() + row.blocks.as_deref().map_or(0, size_of_val)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows of a session's number and a time, in this order.
    struct Given(VecDeque<(u64, u64)>);

    impl Rows for Given {
        fn next_row(&mut self) -> Result<Option<Row>, Error> {
            let next = self.0.pop_front();
            Ok(next.map(|(session, timestamp_ns)| Row {
                timestamp_ns,
                session: Some(session),
                ..Row::default()
            }))
        }

        fn skipped(&self) -> Skipped {
            Skipped::default()
        }
    }

    fn beside(rows: &[(u64, u64)], sessions_max: usize) -> Vec<(u64, u64)> {
        let given = Given(rows.iter().copied().collect());
        let mut rows = SideBySide::new(Box::new(given), sessions_max);
        let next = || rows.next_row().unwrap().map(|row| (row.session.unwrap(), row.timestamp_ns));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_session_begins_where_another_ends_and_keeps_its_own_times() {
        // The second has a subagent, whose row took place before the one above it.
        let rows = [(1, 0), (1, 10), (2, 100), (2, 104), (2, 101), (3, 5), (3, 7)];
        let two = [(1, 0), (2, 0), (2, 1), (2, 4), (3, 4), (3, 6), (1, 10)];
        assert_eq!(beside(&rows, 2), two);
        let one = [(1, 0), (1, 10), (2, 10), (2, 11), (2, 14), (3, 14), (3, 16)];
        assert_eq!(beside(&rows, 1), one);
        assert_eq!(beside(&rows, 0), one);
        assert_eq!(beside(&[], 2), []);
    }

    proptest! {
        #[test]
        fn every_row_is_given_once_and_in_the_order_of_time(
            sessions in prop::collection::vec(prop::collection::vec(0_u64..50, 1..6), 0..12),
            sessions_max in 1_usize..15,
        ) {
            let rows: Vec<(u64, u64)> = (0..)
                .zip(&sessions)
                .flat_map(|(number, times)| times.iter().map(move |time| (number, *time)))
                .collect();
            let given = beside(&rows, sessions_max);
            prop_assert!(given.is_sorted_by_key(|(_, time)| *time));
            for (number, times) in (0..).zip(&sessions) {
                let own = given.iter().filter(|(session, _)| *session == number);
                let own: Vec<u64> = own.map(|(_, time)| *time).collect();
                let mut expected = times.clone();
                expected.sort_unstable();
                let gaps = |times: &[u64]| -> Vec<u64> {
                    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
                };
                prop_assert_eq!(gaps(&own), gaps(&expected), "session {}", number);
            }
        }
    }
}
