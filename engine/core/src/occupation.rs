//! Busy time, up to any moment, of something that is booked ahead.

use std::collections::VecDeque;

use crate::clock::Nanos;

/// Periods in which something is busy, added in the order they begin. It keeps those that have not
/// ended; one that begins where the last ends becomes a part of it.
#[derive(Clone, Debug, Default)]
pub struct Occupation {
    /// Busy time of the periods that are over.
    over: Nanos,
    ahead: VecDeque<(Nanos, Nanos)>,
}

impl Occupation {
    /// Busy from `start` to `end`; what earlier periods cover of it does not count twice. Periods
    /// that end before `now` are forgotten but for their length.
    pub fn add(&mut self, now: Nanos, start: Nanos, end: Nanos) {
        while let Some((from, to)) = self.ahead.front().filter(|(_, to)| *to <= now) {
            self.over = self.over.saturating_add(*to - *from);
            self.ahead.pop_front();
        }
        let start = self.ahead.back().map_or(start, |last| start.max(last.1));
        match self.ahead.back_mut() {
            _ if end <= start => {}
            Some(last) if last.1 == start => last.1 = end,
            _ => self.ahead.push_back((start, end)),
        }
    }

    /// Busy time until `now`, which is not before that of the last [`Occupation::add`].
    pub fn until(&self, now: Nanos) -> Nanos {
        let ahead = self.ahead.iter();
        let part = ahead.map(|(start, end)| (*end).min(now).saturating_sub(*start)).sum();
        self.over.saturating_add(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_ahead_does_not_count_yet() {
        let mut busy = Occupation::default();
        let ns = Nanos::from_ns;
        let until = |busy: &Occupation, moments: [u64; 3]| {
            moments.map(|moment| busy.until(ns(moment)).as_ns())
        };
        busy.add(ns(0), ns(0), ns(100));
        busy.add(ns(0), ns(100), ns(200));
        busy.add(ns(0), ns(150), ns(160));
        assert_eq!(until(&busy, [0, 50, 500]), [0, 50, 200]);
        assert_eq!(busy.ahead.len(), 1);
        busy.add(ns(300), ns(1_000), ns(1_100));
        busy.add(ns(300), ns(1_050), ns(1_200));
        assert_eq!(until(&busy, [300, 1_001, 2_000]), [200, 201, 400]);
        assert_eq!(busy.ahead.len(), 1);
    }
}
