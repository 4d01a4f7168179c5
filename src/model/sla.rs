//! Targets of each QoS class, and the share of requests that met them.

use ringfall_core::clock::MILLISECOND;
use ringfall_core::metrics::Histogram;

use ringfall_config::QosTargets;

/// Share of a class's requests within the P95 target for the class to have met it.
pub const COMPLIANCE: f64 = 0.95;

/// Targets of a class.
#[derive(Clone, Copy, Debug)]
pub struct Sla {
    /// End-to-end latency at P95, P99, P99.9 and P99.99, ms.
    pub targets_ms: [u64; 4],
}

impl Sla {
    /// Targets of each class, in the order of `Class::ALL`.
    pub fn of(targets: &QosTargets) -> [Sla; 3] {
        let targets_ms = targets.all_ms();
        targets_ms.map(|targets_ms| Sla { targets_ms })
    }

    /// The P95 target, ns.
    pub fn target_p95_ns(&self) -> u64 {
        self.targets_ms[0].saturating_mul(MILLISECOND.as_ns())
    }

    /// Share of the requests that took no longer than the P95 target; `None` without requests.
    pub fn compliance(&self, end_to_end: &Histogram) -> Option<f64> {
        let within = end_to_end.count_at_most(self.target_p95_ns());
        crate::facts::quotient(within, end_to_end.count())
    }
}
