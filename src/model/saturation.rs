//! Explains the limit on the number of users that the autoscaler found: the component, its value,
//! its target, and the remedy.

use ringfall_config::{SaturationTargets, TARGET_MS_MAX, WAITING_MAX};
use ringfall_host::counted;
use ringfall_workloads::autoscale::{Answer, Conclusion, Part, QosBreak, StepResult};
use ringfall_workloads::contract::Class;

use super::RunResult;
use super::autoscaling::{outlasts_window, qos};

/// Decimals of a saturation: as many as a target is given with.
const DECIMALS: f64 = 100.0;
/// Ways to less work for the storage, or to a storage that does more.
const LESS_FOR_STORAGE: &str = "a larger --cpu-mem-gb, a smaller --model or a faster drive";

/// Target that was missed first, and the number of users.
pub(crate) struct Bound<'a> {
    /// Smallest number of users that was too many.
    pub broke: &'a QosBreak,
    step: Option<&'a StepResult>,
    /// Whether its requests' latencies are those of a backlog, of earlier steps or its own.
    has_backlog: bool,
    targets: SaturationTargets,
    class_targets_ms: [u64; 3],
    target_saturation: f64,
}

/// A part's name as it stands in results.
pub(crate) fn name(part: Part) -> String {
    match part {
        Part::Class(class) => Class::NAMES[class].to_owned(),
        Part::StorageRead => "storage read latency".to_owned(),
        Part::StorageWrite => "storage write latency".to_owned(),
        Part::StorageQueue => "storage queue".to_owned(),
        Part::RequestQueue => "request queue".to_owned(),
        Part::RequestBacklog => "request backlog".to_owned(),
    }
}

fn number(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 1_000.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn up(value: f64) -> f64 {
    (value * DECIMALS).ceil() / DECIMALS
}

impl<'a> Bound<'a> {
    /// Extracts the limit from a run whose autoscaler looked for users within a target and found
    /// too many; `None` for other runs.
    pub(crate) fn of(result: &'a RunResult) -> Option<Bound<'a>> {
        let conclusion: &Conclusion = result.autoscale.as_ref()?;
        let Answer::Qos(answer) = &conclusion.answer else { return None };
        let broke = answer.broke.as_ref()?;
        let mut steps = conclusion.entries.iter().rev().map(|entry| &entry.result);
        let step = steps.find(|step| step.users == broke.users);
        let workload = &result.plan.workload;
        Some(Bound {
            broke,
            step,
            has_backlog: step
                .is_some_and(|step| step.backlog_before > 0 || outlasts_window(result, step)),
            targets: workload.saturation_targets,
            class_targets_ms: workload.qos_targets_ms.all_ms().map(|[p95, ..]| p95),
            target_saturation: result.plan.target_saturation,
        })
    }

    /// The share of the highest storage throughput at which the latency counted.
    fn share_used(&self, latency_ms: f64, target_ms: f64) -> f64 {
        let latency = (latency_ms / target_ms).min(1.0);
        let saturation = self.broke.saturation.unwrap_or(0.0);
        if latency > 0.0 { (saturation / latency).min(1.0) } else { 0.0 }
    }

    /// The part's P95, ms, and its target, if it is a latency.
    fn latency(&self, part: Part) -> Option<(f64, f64)> {
        let ms = |ns: u64| ns as f64 / 1e6;
        let step = self.step?;
        Some(match part {
            Part::StorageRead => (ms(step.storage.read_device_p95_ns?), self.targets.read_p95_ms),
            Part::StorageWrite => {
                (ms(step.storage.write_device_p95_ns?), self.targets.write_p95_ms)
            }
            Part::Class(class) => {
                (ms(step.class_p95_ns[class]?), self.class_targets_ms[class] as f64)
            }
            Part::StorageQueue | Part::RequestQueue | Part::RequestBacklog => return None,
        })
    }

    /// Words before the P95 of a class, which is a lower bound where requests had not ended.
    fn at_least(&self, class: usize) -> &'static str {
        let is_open = self.step.is_some_and(|step| step.class_open[class] > 0);
        if is_open { "at least " } else { "" }
    }

    /// Requests of earlier steps that were still open in the step.
    fn backlog_before(&self) -> u64 {
        self.step.map_or(0, |step| step.backlog_before)
    }

    /// Clause that says what broke, with its value and its target, without a full stop.
    pub(crate) fn what(&self) -> String {
        let beside = match self.backlog_before() {
            0 => String::new(),
            left => format!(" beside a backlog of {} of earlier steps", counted(left, "request")),
        };
        let users = format!("{}{beside}", counted(self.broke.users.into(), "user"));
        let Some(part) = self.broke.part else {
            return format!("with {users} no request finished in the step");
        };
        let queue = self.targets.queue_depth;
        let waiting = |pick: fn(&StepResult) -> f64| number(self.step.map_or(0.0, pick));
        let told = match (part, self.latency(part)) {
            (Part::Class(class), Some((p95, target))) => format!(
                "the P95 latency of class {} was {}{} ms against a target of {} ms; {:.0} % of \
                 the finished requests' time went to {}",
                Class::NAMES[class],
                self.at_least(class),
                number(p95),
                number(target),
                self.broke.largest_share * 100.0,
                self.broke.largest_part,
            ),
            (Part::StorageRead | Part::StorageWrite, Some((p95, target))) if p95 >= target => {
                format!(
                    "storage moved {:.0} % of its highest throughput, while the device needed {} \
                     ms (P95) to {} an entry, beyond the target of {} ms",
                    self.share_used(p95, target) * 100.0,
                    number(p95),
                    if part == Part::StorageRead { "read" } else { "write" },
                    number(target),
                )
            }
            (Part::StorageRead | Part::StorageWrite, Some((p95, target))) => format!(
                "the device needed {} ms (P95) to {} an entry against a target of {} ms, at {:.0} \
                 % of the highest storage throughput",
                number(p95),
                if part == Part::StorageRead { "read" } else { "write" },
                number(target),
                self.share_used(p95, target) * 100.0,
            ),
            (Part::StorageQueue, _) => format!(
                "{} entries waited for the device on average against a target of {queue}",
                waiting(|step| step.storage.entries_waiting),
            ),
            (Part::RequestQueue, _) => format!(
                "{} requests waited to be served on average against a target of {queue}",
                waiting(|step| step.storage.requests_waiting),
            ),
            (Part::RequestBacklog, _) => format!(
                "{} requests arrived for each that ended, so that they would pile up without end",
                number(self.broke.saturation.unwrap_or(0.0)),
            ),
            (part, None) => format!("the {} was beyond its target", name(part)),
        };
        let saturation = self.broke.saturation.map_or(String::new(), |saturation| {
            let (found, target) = (number(saturation), number(self.target_saturation));
            format!(" (saturation {found}, target {target})")
        });
        format!("with {users} {told}{saturation}")
    }

    /// Clause that lists ways to fit more users within the target; for an answer of 0.
    pub(crate) fn remedy(&self) -> String {
        let Some(part) = self.broke.part else {
            return "give the run a longer --duration, or the users shorter requests".to_owned();
        };
        let mut ways = Vec::new();
        if let Some(saturation) = self.broke.saturation
            && up(saturation) <= 1.0
        {
            ways.push(format!("--target-saturation {}", up(saturation)));
        }
        let target = self.target_saturation;
        match (part, self.latency(part)) {
            (Part::Class(class), Some((p95, _))) => {
                // Beside a backlog it is not the latency of so many users.
                if !self.has_backlog
                    && let Some(ms) = needed(p95, target, TARGET_MS_MAX)
                {
                    let name = Class::NAMES[class];
                    let at_least = self.at_least(class);
                    ways.push(format!(
                        "a P95 of {at_least}{ms} ms in workload.qos_targets_ms.{name}"
                    ));
                }
                ways.extend(self.instead_of_slo().map(str::to_owned));
            }
            (Part::StorageRead | Part::StorageWrite, Some((p95, of))) => {
                let key = if part == Part::StorageRead { "read_p95_ms" } else { "write_p95_ms" };
                if self.backlog_before() == 0
                    && let Some(ms) = needed(p95 * self.share_used(p95, of), target, TARGET_MS_MAX)
                {
                    ways.push(format!("workload.saturation_targets.{key}: {ms}"));
                }
                ways.push(LESS_FOR_STORAGE.to_owned());
            }
            (Part::StorageQueue, _) => {
                let waiting = self.step.map_or(0.0, |step| step.storage.entries_waiting);
                if let Some(depth) = needed(waiting, target, WAITING_MAX) {
                    ways.push(format!("workload.saturation_targets.queue_depth: {depth}"));
                }
                ways.push(LESS_FOR_STORAGE.to_owned());
            }
            (Part::RequestBacklog, _) => {
                if self.broke.largest_part == "storage" {
                    ways.push(LESS_FOR_STORAGE.to_owned());
                }
                ways.push("--arrival closed".to_owned());
            }
            (Part::RequestQueue, _) => {
                ways.push("a larger --max-inflight-requests".to_owned());
                ways.push("--arrival closed".to_owned());
            }
            (_, None) => {}
        }
        format!("what would help: {}", ways.join("; or "))
    }

    /// Suggests an alternative to a laxer QoS target, by where the time went.
    fn instead_of_slo(&self) -> Option<&'static str> {
        Some(match self.broke.largest_part {
            "generation" => {
                "--autoscaler-mode qos, which judges the storage alone, as most of the time is \
                 generation; or --generation-mode none"
            }
            "queue" => "a larger --max-inflight-requests; or --arrival closed",
            "storage" => LESS_FOR_STORAGE,
            _ => return None,
        })
    }
}

/// The target that a value needs to be within a saturation; none where none that may be set would
/// do.
fn needed(value: f64, saturation: f64, most: u64) -> Option<u64> {
    let needed = (value / saturation).ceil();
    // Up to 2⁵³ the cast is exact, and no target is so large.
    (needed > 0.0 && needed <= most as f64).then_some(needed as u64)
}

/// Explains an answer of 0; `None` for any other, and for none.
pub(crate) fn why_none(result: &RunResult) -> Option<String> {
    let answer = qos(result.autoscale.as_ref()?)?;
    let bound = Bound::of(result).filter(|_| answer.users == 0)?;
    Some(format!("{}; {}", bound.what(), bound.remedy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_may_not_be_set_is_not_suggested() {
        assert_eq!(needed(50.0, 0.5, 1_000), Some(100));
        assert_eq!(needed(500.0, 0.5, 1_000), Some(1_000));
        for value in [501.0, f64::INFINITY, f64::NAN, 1e300, 0.0, -1.0] {
            assert_eq!(needed(value, 0.5, 1_000), None, "{value}");
        }
        assert_eq!(needed(1.0, 0.0, u64::MAX), None, "it was 18446744073709551615");
    }
}
