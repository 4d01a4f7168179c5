//! Who asks for what when, in the words of the banner.

use ringfall_config::{Arrival, Named as _, Plan, Traffic};
use ringfall_host::counted;

/// Who asks when, in a few words.
#[must_use]
pub fn who(plan: &Plan) -> String {
    let arrival = match (plan.arrival, plan.request_rate_per_s) {
        (Arrival::Poisson, rate) => format!("{rate} arrivals per second at random"),
        (_, rate) if rate > 0.0 => format!("{rate} arrivals per second"),
        (arrival, _) => format!("{} arrivals", arrival.name()),
    };
    let users = match plan.autoscaler {
        Some(scale) => {
            let users = counted(plan.users.into(), "user");
            format!("{users} at first ({} mode)", scale.mode.name())
        }
        None => counted(plan.users.into(), "user"),
    };
    match &plan.traffic {
        Traffic::Drawn => format!("{users}, {arrival}"),
        Traffic::ShareGpt { path, .. } => {
            format!("{users}, {arrival}, conversations of {}", path.display())
        }
        Traffic::Trace { path, speedup, .. } => {
            let pace = match (plan.request_rate_per_s, *speedup) {
                (rate, _) if rate > 0.0 => arrival,
                (_, 0.0) => "no gaps".to_owned(),
                (_, speedup) => format!("{speedup} times its speed"),
            };
            format!("{} trace {}, {pace}", plan.traffic.name(), path.display())
        }
    }
}
