//! Depth of a queue over time, where arrivals are counted after the fact: the longest that the
//! queue has been comes out as if each had been counted when it came.

use crate::contract::Nanos;

/// Requests taken from the queue before the arrivals until then are to be counted: 16 MiB. In tests
/// it comes to that.
const TAKEN_MAX: usize = if cfg!(test) { 1 << 6 } else { 1 << 20 };
/// Cells of time by which arrivals are placed, at most: they stay in a core's cache, and few of
/// them have several requests to choose from.
const CELLS_MAX: u64 = 1 << 16;

/// Arrivals and departures since the count began.
///
/// An arrival at the moment at which a request is taken counts as before it.
#[derive(Debug)]
pub(crate) struct Depths {
    /// Depth when the count began.
    begun_with: u64,
    /// Times at which requests were taken, in their order.
    taken: Vec<Nanos>,
    /// Arrivals before each of them and after the one before it, and last those after all.
    arrived: Vec<u64>,
}

/// Index of the times at which requests were taken, for many arrivals. O(1) for each where they are
/// spread evenly.
pub(crate) struct Places {
    begin: Nanos,
    /// Length of a cell: two to this power, ns.
    cell_bits: u32,
    /// The first request taken in each cell or after it.
    cells: Vec<u32>,
}

impl Depths {
    /// A count that begins with this many requests in the queue.
    pub(crate) fn beginning_with(queued: u64) -> Depths {
        Depths { begun_with: queued, taken: Vec::new(), arrived: vec![0] }
    }

    /// Counts an arrival now.
    pub(crate) fn arrive(&mut self) {
        if let Some(arrived) = self.arrived.last_mut() {
            *arrived += 1;
        }
    }

    /// Counts an arrival in the past, not before the count began. O(log of the requests taken).
    pub(crate) fn arrive_at(&mut self, at: Nanos) {
        self.arrived[self.taken.partition_point(|taken| *taken < at)] += 1;
    }

    /// A request is taken from the queue, not before the last one.
    pub(crate) fn take(&mut self, now: Nanos) {
        self.taken.push(now);
        self.arrived.push(0);
    }

    /// Whether so many were taken that the arrivals are to be counted now.
    pub(crate) fn is_full(&self) -> bool {
        self.taken.len() >= TAKEN_MAX
    }

    /// Index for [`Depths::arrive_all`]; good until the next request is taken.
    pub(crate) fn places(&self) -> Places {
        let (Some(&begin), Some(&last)) = (self.taken.first(), self.taken.last()) else {
            return Places { begin: Nanos::ZERO, cell_bits: 0, cells: Vec::new() };
        };
        let span_ns = (last - begin).as_ns();
        let cell_bits = u64::BITS - (span_ns / CELLS_MAX).leading_zeros();
        let mut cells = Vec::new();
        for (place, taken) in self.taken.iter().enumerate() {
            let cell = ((*taken - begin).as_ns() >> cell_bits) as usize;
            if cell >= cells.len() {
                cells.resize(cell + 1, place as u32);
            }
        }
        Places { begin, cell_bits, cells }
    }

    /// Counts arrivals in the past, none of them before the count began, each of them `times`.
    pub(crate) fn arrive_all(&mut self, places: &Places, arrivals: &[Nanos], times: u64) {
        for &at in arrivals {
            let cell = (at.saturating_sub(places.begin).as_ns() >> places.cell_bits) as usize;
            let first = places.cells.get(cell).map_or(self.taken.len(), |first| *first as usize);
            let place = match self.taken.get(first) {
                Some(taken) if *taken < at => {
                    let next = places.cells.get(cell + 1).map(|next| *next as usize);
                    let end = next.unwrap_or(self.taken.len());
                    first + self.taken[first..end].partition_point(|taken| *taken < at)
                }
                // As nearly all.
                _ => first,
            };
            self.arrived[place] += times;
        }
    }

    /// The longest that the queue has been since the count began, which begins anew with `queued`.
    pub(crate) fn longest(&mut self, queued: u64) -> u64 {
        let (mut depth, mut longest) = (self.begun_with, 0);
        for (place, arrived) in self.arrived.iter().enumerate() {
            // All before this place but the requests that were taken, one at each.
            depth += arrived;
            let now = depth - place as u64;
            if *arrived > 0 {
                longest = longest.max(now);
            }
        }
        *self = Depths::beginning_with(queued);
        longest
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::rng::{StreamPurpose, stream};

    /// Longest depth and the last one, of arrivals (true) and departures in their order.
    fn walked(begun_with: u64, events: &[(Nanos, bool)]) -> (u64, u64) {
        let (mut depth, mut longest) = (begun_with, 0);
        for (_, is_arrival) in events {
            match is_arrival {
                true => {
                    depth += 1;
                    longest = longest.max(depth);
                }
                false => depth -= 1,
            }
        }
        (longest, depth)
    }

    #[test]
    fn arrivals_counted_after_the_fact_make_the_queue_as_long_as_it_was() {
        for seed in 0..300 {
            let mut rng = stream(seed, StreamPurpose::Row, 0);
            let (span_ns, count) = (1u64 << rng.random_range(0..50), rng.random_range(0..200));
            let mut depth = rng.random_range(0..5u64);
            let mut depths = Depths::beginning_with(depth);
            // Twice: the second count begins with what the first left.
            for _ in 0..2 {
                let mut times: Vec<Nanos> =
                    (0..count).map(|_| Nanos::from_ns(rng.random_range(0..span_ns))).collect();
                times.sort_unstable();
                let (mut events, mut left) = (Vec::new(), depth);
                for at in times {
                    let is_arrival = left == 0 || rng.random_bool(0.5);
                    left = if is_arrival { left + 1 } else { left - 1 };
                    events.push((at, is_arrival));
                }
                // Arrivals first where they are simultaneous.
                events.sort_by_key(|(at, is_arrival)| (*at, !is_arrival));
                let (longest, end) = walked(depth, &events);
                let departures = events.iter().filter(|event| !event.1);
                departures.for_each(|(at, _)| depths.take(*at));
                let mut arrivals: Vec<Nanos> =
                    events.iter().filter(|event| event.1).map(|event| event.0).collect();
                let alone = arrivals.split_off(arrivals.len() / 2);
                depths.arrive_all(&depths.places(), &arrivals, 1);
                alone.into_iter().for_each(|at| depths.arrive_at(at));
                assert_eq!(depths.longest(end), longest, "seed {seed}");
                depth = end;
            }
        }
    }

    #[test]
    fn an_arrival_now_comes_after_what_was_taken() {
        let mut depths = Depths::beginning_with(1);
        depths.take(Nanos::from_ns(5));
        depths.arrive();
        depths.arrive();
        assert_eq!(depths.longest(2), 2);
        assert!(!depths.is_full());
        (0..TAKEN_MAX).for_each(|_| depths.take(Nanos::ZERO));
        assert!(depths.is_full());
    }
}
