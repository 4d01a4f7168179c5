//! Explains the limit on the number of users that the autoscaler found: the component, its value,
//! its target, and the remedy.

use ringfall_config::{SaturationTargets, ServedRule, TARGET_MS_MAX, WAITING_MAX};
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
    /// The step that the answer rests on; none of an answer of 0.
    within: Option<&'a StepResult>,
    /// Whether its requests' latencies are those of a backlog, of earlier steps or its own.
    has_backlog: bool,
    targets: SaturationTargets,
    class_targets_ms: [u64; 3],
    target_saturation: f64,
    /// Targets of `--slo`.
    rule: Option<ServedRule>,
}

/// A part's name as it stands in results.
fn name(part: Part) -> String {
    match part {
        Part::Class(class) => Class::NAMES[class].to_owned(),
        Part::Load => "context load".to_owned(),
        Part::Reuse => "reuse".to_owned(),
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
        let step = conclusion.step_with(broke.users);
        let workload = &result.plan.workload;
        Some(Bound {
            broke,
            step,
            within: conclusion.step_with(answer.users),
            has_backlog: step
                .is_some_and(|step| step.backlog_before > 0 || outlasts_window(result, step)),
            targets: workload.saturation_targets,
            class_targets_ms: workload.qos_targets_ms.all_ms().map(|[p95, ..]| p95),
            target_saturation: result.plan.saturation_max(),
            rule: result.plan.slo,
        })
    }

    /// The share of the highest storage throughput at which the latency counted.
    fn share_used(&self) -> f64 {
        self.step.and_then(|step| step.used_share).unwrap_or(0.0)
    }

    /// The answer's step and its share of the highest throughput, where that share is what broke:
    /// the latency counted for no more than it did with the answer.
    fn less_used(&self) -> Option<(&StepResult, f64)> {
        let within = self.within?;
        let counted = |step: &StepResult| latency_of_target(step, &self.targets).min(1.0);
        let is_slower = counted(self.step?) > counted(within);
        Some((within, within.used_share?)).filter(|_| !is_slower)
    }

    /// Name of the figure that decided, as it stands in results.
    pub(crate) fn part(&self) -> Option<String> {
        Some(match self.broke.part? {
            Part::StorageRead | Part::StorageWrite if self.less_used().is_some() => {
                "storage throughput".to_owned()
            }
            part => name(part),
        })
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
            Part::Load => (ms(step.load_ns?[1]), self.rule?.load_p95_s * 1e3),
            Part::Reuse | Part::StorageQueue | Part::RequestQueue | Part::RequestBacklog => {
                return None;
            }
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
            (Part::StorageRead | Part::StorageWrite, Some((p95, target))) => {
                self.of_entries(part, p95, target)
            }
            (Part::Load, Some((p95, target))) => format!(
                "the P95 of loading a context was {} ms against a target of {} ms",
                number(p95),
                number(target),
            ),
            (Part::Reuse, _) => {
                let share = self.step.and_then(|step| step.reuse_share).unwrap_or(0.0);
                let target = self.rule.map_or(0.0, |rule| rule.reuse_share);
                format!(
                    "{:.1} % of earlier turns were found against a target of {:.1} %",
                    // Rounded down, so that it does not read like the target.
                    (share * 1e3).floor() / 10.0,
                    target * 100.0
                )
            }
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

    /// Clause that says by which figure an entry's latency and the throughput were too much.
    fn of_entries(&self, part: Part, p95_ms: f64, target_ms: f64) -> String {
        let used = self.share_used() * 100.0;
        match self.less_used() {
            Some((within, less)) => format!(
                "storage moved {used:.1} % of its highest throughput, and {:.1} % with {}",
                less * 100.0,
                counted(within.users.into(), "user"),
            ),
            None => format!(
                "the device needed {} ms (P95) to {} an entry against a target of {} ms, at \
                 {used:.0} % of the highest storage throughput",
                number(p95_ms),
                if part == Part::StorageRead { "read" } else { "write" },
                number(target_ms),
            ),
        }
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
            (Part::StorageRead | Part::StorageWrite, Some((p95, _))) => {
                let key = if part == Part::StorageRead { "read_p95_ms" } else { "write_p95_ms" };
                if self.backlog_before() == 0
                    && let Some(ms) = needed(p95 * self.share_used(), target, TARGET_MS_MAX)
                {
                    ways.push(format!("workload.saturation_targets.{key}: {ms}"));
                }
                ways.push(LESS_FOR_STORAGE.to_owned());
            }
            (Part::Load, _) => {
                ways.push("a larger load-p95 in --slo".to_owned());
                ways.push(LESS_FOR_STORAGE.to_owned());
            }
            (Part::Reuse, _) => {
                ways.push("a smaller reuse in --slo".to_owned());
                ways.push("a larger --storage-capacity-gb".to_owned());
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

/// The larger P95 of the device's time for an entry in a step over its target, of reads or writes.
fn latency_of_target(step: &StepResult, targets: &SaturationTargets) -> f64 {
    let over = |p95_ns: Option<u64>, target_ms: f64| {
        p95_ns.map_or(0.0, |p95_ns| p95_ns as f64 / 1e6 / target_ms)
    };
    let read = over(step.storage.read_device_p95_ns, targets.read_p95_ms);
    read.max(over(step.storage.write_device_p95_ns, targets.write_p95_ms))
}

/// Whether the device took longer than its targets for entries in a step.
pub(crate) fn misses_latency(result: &RunResult, step: &StepResult) -> bool {
    latency_of_target(step, &result.plan.workload.saturation_targets) > 1.0
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
    use ringfall_core::units::GIB;
    use ringfall_workloads::autoscale::{
        Act, Autoscaler, Decision, Entry, Latencies, Mode, QosAnswer, Sample, Settings, TimeShares,
    };

    use super::*;
    use crate::autoscaling::{lines, report};
    use crate::testing::nothing;

    /// Latencies that are all the same.
    #[derive(Clone, Debug, Default)]
    struct Alike {
        count: u64,
        ns: u64,
    }

    impl Latencies for Alike {
        fn add(&mut self, other: &Self) {
            *self = Alike { count: self.count + other.count, ns: self.ns.max(other.ns) };
        }

        fn count(&self) -> u64 {
            self.count
        }

        fn quantile_ns(&self, _: f64) -> Option<u64> {
            (self.count > 0).then_some(self.ns)
        }

        fn count_at_most(&self, limit_ns: u64) -> u64 {
            if self.ns <= limit_ns { self.count } else { 0 }
        }
    }

    /// Result of a search in mode qos on a drive that moves so many bytes/s and needs so many ns
    /// for an entry (P95), by users.
    fn searched(rate: impl Fn(u32) -> u64, p95_ns: impl Fn(u32) -> u64) -> RunResult {
        let mut result = nothing();
        let targets = result.plan.workload.saturation_targets;
        let mut search: Autoscaler<Alike> = Autoscaler::new(Settings {
            mode: Mode::Qos,
            users_wait: true,
            has_memory_tier: false,
            initial_users: 2,
            users_min: 1,
            users_max: 1_000,
            scale_up_factor: 2.0,
            scale_down_factor: 0.5,
            target_saturation: result.plan.target_saturation,
            targets_ns: [u64::MAX; 3],
            rule: None,
            storage: targets.storage(),
        });
        let mut decision = Decision::Hold;
        while decision != Decision::Stop {
            let users = search.users();
            let moved = rate(users);
            let of = |ns| Alike { count: 50, ns };
            decision = search.observe(&Sample {
                length_ns: 1_000_000_000,
                storage_bytes: moved,
                judged_bytes: moved,
                classes: [of(1), of(1), Alike { count: u64::from(users), ns: 1 }],
                read: of(p95_ns(users)),
                read_device: of(p95_ns(users)),
                time: TimeShares { storage_ns: 1, total_ns: 1, ..TimeShares::default() },
                ..Sample::default()
            });
        }
        result.autoscale = Some(search.conclude());
        result
    }

    /// "Broke first: with 6 users ... 860 ms" was said beside an answer of 5 users whose row had
    /// 936 ms, against a target of 200 ms.
    #[test]
    fn a_figure_that_broke_is_worse_than_the_answers() {
        let (mut by_use, mut by_latency) = (0, 0);
        for seed in 0..60 {
            // Above, around or below the target of 200 ms, in any order of the users.
            let base_ms = [40, 150, 900][seed as usize % 3];
            let p95_ns = |users: u32| {
                let hash = (u64::from(users) + 1_000 * seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                base_ms * (1_000_000 + (hash >> 44)) * u64::from(users.min(40) + 20) / 20
            };
            let peak_users = 6 + seed as u32;
            let rate = |users: u32| GIB / 4 * u64::from(users.min(peak_users));
            let result = searched(rate, p95_ns);
            let found = report(&result).unwrap();
            let answer = found.qos_users.known().unwrap();
            let Some(bound) = Bound::of(&result).filter(|_| answer > 0) else { continue };
            let told = bound.what();
            let steps = found.decisive_steps();
            let of = |users| steps.iter().find(|step| step.users.known() == Some(users)).unwrap();
            let [broke, within] = [of(bound.broke.users), of(answer)];
            let capacity = lines(&result).swap_remove(0).1;
            if told.contains("the device needed") {
                by_latency += 1;
                assert!(broke.read_device_p95_ms > within.read_device_p95_ms, "{seed}: {told}");
                let named = number(broke.read_device_p95_ms.unwrap());
                assert!(told.contains(&format!("needed {named} ms")), "{seed}: {told}");
                assert_eq!(bound.part().as_deref(), Some("storage read latency"), "{seed}");
            } else {
                by_use += 1;
                assert!(broke.gib_per_s.known() > within.gib_per_s.known(), "{seed}: {told}");
                assert!(broke.used_share > within.used_share, "{seed}: {told}");
                assert!(told.contains("storage moved"), "{seed}: {told}");
                // It was the latency in JSON.
                let part = found.qos_broke.as_ref().and_then(|broke| broke.part.as_deref());
                assert_eq!(part, Some("storage throughput"), "{seed}");
            }
            // A latency beyond its target is not called within it.
            let is_beyond = within.read_device_p95_ms.unwrap() > 200.0;
            assert_eq!(capacity.contains("by its throughput alone"), is_beyond, "{capacity}");
            let reason = found.reason.to_string();
            assert_eq!(reason.contains("missed the target of 200 ms"), is_beyond, "{reason}");
        }
        assert!(by_use >= 10 && by_latency >= 10, "{by_use}, {by_latency}");
    }

    #[test]
    fn a_rule_that_broke_is_told_with_its_figure_and_target() {
        let step = StepResult {
            users: 8,
            load_ns: Some([20_000_000, 1_250_000_000]),
            reuse_share: Some(0.6999),
            saturation: Some(1.25),
            ..StepResult::default()
        };
        let told = |part| {
            let mut result = nothing();
            result.plan.slo = Some(ServedRule::default());
            let broke = QosBreak {
                users: 8,
                part: Some(part),
                saturation: Some(1.25),
                largest_part: "storage",
                largest_share: 1.0,
            };
            result.autoscale = Some(Conclusion {
                mode: Mode::Slo,
                initial_users: 8,
                conclusive: false,
                reason: String::new(),
                answer: Answer::Qos(QosAnswer { users: 0, confirmed: false, broke: Some(broke) }),
                entries: vec![Entry { result: step.clone(), act: Act::Stop }],
            });
            let bound = Bound::of(&result).unwrap();
            (bound.what(), bound.remedy())
        };
        let (what, remedy) = told(Part::Load);
        let load = "with 8 users the P95 of loading a context was 1250 ms against a target of 1000 \
                    ms (saturation 1.25, target 1.00)";
        assert_eq!(what, load);
        assert!(remedy.contains("a larger load-p95 in --slo"), "{remedy}");
        let (what, remedy) = told(Part::Reuse);
        assert!(what.contains("69.9 % of earlier turns were found against a target of 70.0 %"));
        assert!(remedy.contains("--storage-capacity-gb"), "{remedy}");
    }

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
