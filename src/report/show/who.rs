//! Who asks for what when, in the words of the banner.

use ringfall_config::{Arrival, Named as _, Plan, Traffic};
use ringfall_host::counted;

/// Who asks when, in a few words.
pub fn who(plan: &Plan) -> String {
    let arrival = match (plan.arrival, plan.request_rate_per_s) {
        (Arrival::Poisson, rate) => format!("{rate} arrivals per second at random"),
        (_, rate) if rate > 0.0 => format!("{rate} arrivals per second"),
        (arrival, _) => format!("{} loop", arrival.name()),
    };
    let mut users = counted(plan.users.into(), "user");
    if plan.enable_autoscaling {
        users.push_str(&format!(" at first ({} mode)", plan.autoscaler_mode.name()));
    }
    match &plan.traffic {
        Traffic::Drawn => format!("{users}, {arrival}"),
        Traffic::ShareGpt { path } => {
            format!("{users}, {arrival}, conversations of {}", path.display())
        }
        Traffic::Trace { path, .. } => {
            let pace = match (plan.request_rate_per_s, plan.trace_speedup) {
                (rate, _) if rate > 0.0 => arrival,
                (_, 0.0) => "no gaps".to_owned(),
                (_, speedup) => format!("{speedup} times its speed"),
            };
            format!("{} trace {}, {pace}", plan.traffic.name(), path.display())
        }
    }
}
