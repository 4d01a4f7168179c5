//! How long something that is booked ahead was busy, up to any moment.

use std::collections::VecDeque;

use crate::clock::Nanos;

/// Periods in which something is busy, added in the order they begin. It keeps those that have not
/// ended; one that begins where the last ends becomes a part of it.
#[derive(Clone, Debug, Default)]
pub struct Occupation {
    /// Of the periods that are over, ns.
    over_ns: Nanos,
    ahead: VecDeque<(Nanos, Nanos)>,
}

impl Occupation {
    /// Busy from `start` to `end`; what earlier periods cover of it does not count twice. Periods
    /// that end before `now` are forgotten but for their length.
    pub fn add(&mut self, now: Nanos, start: Nanos, end: Nanos) {
        while let Some((from, to)) = self.ahead.front().filter(|(_, to)| *to <= now) {
            self.over_ns = self.over_ns.saturating_add(to - from);
            self.ahead.pop_front();
        }
        let start = self.ahead.back().map_or(start, |last| start.max(last.1));
        match self.ahead.back_mut() {
            _ if end <= start => {}
            Some(last) if last.1 == start => last.1 = end,
            _ => self.ahead.push_back((start, end)),
        }
    }

    /// Busy until `now`, ns; `now` is not before that of the last [`Occupation::add`].
    #[must_use]
    pub fn until(&self, now: Nanos) -> Nanos {
        let ahead = self.ahead.iter();
        let part = ahead.map(|(start, end)| (*end).min(now).saturating_sub(*start)).sum();
        self.over_ns.saturating_add(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_ahead_does_not_count_yet() {
        let mut busy = Occupation::default();
        busy.add(0, 0, 100);
        busy.add(0, 100, 200);
        busy.add(0, 150, 160);
        assert_eq!((busy.until(0), busy.until(50), busy.until(500)), (0, 50, 200));
        assert_eq!(busy.ahead.len(), 1);
        busy.add(300, 1_000, 1_100);
        busy.add(300, 1_050, 1_200);
        assert_eq!((busy.until(300), busy.until(1_001), busy.until(2_000)), (200, 201, 400));
        assert_eq!(busy.ahead.len(), 1);
    }
}
