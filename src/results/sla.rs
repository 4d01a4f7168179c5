//! What each QoS class is promised, and how much of it was kept.

use ringfall_engine::clock::MILLISECOND;
use ringfall_engine::metrics::Histogram;

/// Share of a class's requests within the P95 target for the class to have met it.
pub(crate) const COMPLIANCE: f64 = 0.95;

/// Targets of a class.
pub(crate) struct Sla {
    /// Its name.
    pub class: &'static str,
    /// End-to-end latency at P95, P99, P99.9 and P99.99, ms.
    pub targets_ms: [u64; 4],
}

/// In the order of `Class::ALL`.
pub(crate) const SLA: [Sla; 3] = [
    Sla { class: "interactive", targets_ms: [50, 100, 150, 200] },
    Sla { class: "responsive", targets_ms: [100, 200, 350, 500] },
    Sla { class: "batch", targets_ms: [1_000, 5_000, 7_500, 10_000] },
];

impl Sla {
    /// The P95 target, ns.
    pub fn target_p95_ns(&self) -> u64 {
        self.targets_ms[0] * MILLISECOND
    }

    /// Share of the requests that took no longer than the P95 target; `None` without requests.
    pub fn compliance(&self, end_to_end: &Histogram) -> Option<f64> {
        let within = end_to_end.count_at_most(self.target_p95_ns());
        crate::facts::quotient(within, end_to_end.count())
    }
}
