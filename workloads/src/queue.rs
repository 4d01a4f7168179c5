//! The QoS queue: highest priority first, then earliest arrival.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::contract::{Class, Nanos};
use crate::user::Demand;

/// A request that waits to be served: at most 100 bytes, however far a run falls behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    /// Class that it is reported under.
    pub(crate) class: Class,
    /// Class that it is served as.
    pub(crate) urgency: Class,
    pub(crate) arrived: Nanos,
    pub(crate) user: u64,
    pub(crate) demand: Demand,
}

const _: () = assert!(size_of::<Queued>() <= 100);

impl Queued {
    /// Smaller is served first; number (a trace's rows are numbered in its order) and user break
    /// ties, so that the order is total.
    fn rank(&self) -> (Class, Nanos, u64, u64) {
        (self.urgency, self.arrived, self.demand.number, self.user)
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest: reversed.
        other.rank().cmp(&self.rank())
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// O(log n) in and out.
pub(crate) type Queue = BinaryHeap<Queued>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Turn;

    #[test]
    fn serves_by_class_then_by_arrival() {
        let demand = Demand {
            number: 0,
            retrieval: None,
            turn: Turn::Alone,
            context_tokens: 1,
            generate_tokens: 1,
            prompt: None,
            entry: 0,
            operation: None,
        };
        let mut queue = Queue::new();
        for (class, ns) in [
            (Class::Batch, 1),
            (Class::Interactive, 9),
            (Class::Responsive, 2),
            (Class::Interactive, 3),
        ] {
            let arrived = Nanos::from_ns(ns);
            queue.push(Queued { class: Class::Batch, urgency: class, arrived, user: 0, demand });
        }
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|q| (q.urgency, q.arrived.as_ns())).collect();
        let expected = [
            (Class::Interactive, 3),
            (Class::Interactive, 9),
            (Class::Responsive, 2),
            (Class::Batch, 1),
        ];
        assert_eq!(order, expected);
    }
}
