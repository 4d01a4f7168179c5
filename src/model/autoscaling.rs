//! Results of the autoscaler: the reference's two keys, and our own with the whole curve.

use jiff::Timestamp;
use ringfall_config::{Arrival, Named as _};
use ringfall_core::units::GIB;
use ringfall_host::counted;
use ringfall_workloads::autoscale::{
    Act, Answer, CapacityAnswer, Conclusion, Entry, Mode, Part, QosAnswer, StepResult, TimeShares,
    UslFit,
};
use ringfall_workloads::contract::Class;

use crate::figures::figure;
use crate::figures::figure::{Fact, Same, Sum};
use crate::figures::given::row;
use crate::figures::list::Rows;
use crate::figures::merge::figures;
use crate::saturation::Bound;
use crate::{RunResult, saturation};

row! {
/// One step of the autoscaler: a number of users that was held, and what was done next.
pub struct AutoscalingRow of (conclusion, entry, end_s): (&Conclusion, &Entry, f64) {
    /// End of the step's window, in UTC as ISO 8601, such as `2026-01-31T23:59:59.250000+00:00`.
    /// Differs from the reference, which has local time without a zone.
    pub timestamp: String = iso_8601(*end_s),
    /// Mode of the autoscaler: `qos`, `slo` or `capacity`. Differs from the reference, whose mode
    /// `qos` judges by other figures (`saturation_level`) and which has no mode `slo`.
    pub mode: Fact<String> = conclusion.mode.name().to_owned(),
    /// Action taken next: `scale_up`, `scale_down`, `hold` or `stop`. Differs from the reference,
    /// which has no row for `hold`.
    pub action: Fact<String> = act_name(entry.act).to_owned(),
    /// Number of users in this step. Differs from the reference, which has the number of the next
    /// step here.
    pub users: Fact<u32> = entry.result.users,
    /// Saturation of the storage tier: the largest of three figures. One is the P95 of the time
    /// that the device took for an entry divided by its target (for reads or for writes, whichever
    /// is larger, at most 1), times the storage throughput divided by the highest of all steps with
    /// as many users or fewer. Another is the number of entries that waited for the device, or of
    /// requests that waited to be served, divided by the target for both. The third is the number
    /// of requests that arrived divided by the number that ended; it counts where users do not wait
    /// for answers and the number of open requests is shown to grow. Differs from the reference,
    /// whose figure is the P95 since the start divided by 100 ms, halved unless throughput stands
    /// still and latency rises. In mode `slo`, the largest P95 of a QoS class divided by its
    /// target, open requests counted as in `ringfall.autoscaler.curve`; with `--slo` the larger of
    /// the P95 of the loads of contexts divided by its target, and of the share of earlier turns
    /// that were not found divided by the largest share allowed.
    pub saturation_level: Option<f64> = entry.result.saturation,
    /// 95th percentile of the latency of an entry read from storage in this step, ms; null without
    /// reads, and beside a backlog of earlier steps. Differs from the reference, whose figure is of
    /// all reads since the start.
    pub read_latency_p95_ms: Option<f64> =
        own(&entry.result, entry.result.read_ns).map(|three| ms(three[1])),
    /// 95th percentile of the latency of an entry written to storage in this step, ms; null without
    /// writes, and beside a backlog of earlier steps. Differs from the reference, whose figure is
    /// of all writes since the start.
    pub write_latency_p95_ms: Option<f64> =
        own(&entry.result, entry.result.write_ns).map(|three| ms(three[1])),
    /// Tokens generated per second in this step, tokens/s. Differs from the reference, whose figure
    /// is the average since the start.
    pub throughput_tokens_per_sec: Fact<f64> = entry.result.tokens_per_s,
    /// Tokens generated per second in the step with `peak_user_count` users, tokens/s; only in the
    /// last row, in mode `capacity`. Differs from the reference, whose figure is the largest
    /// average since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_throughput_tokens_per_sec: Option<f64> =
        stopped(conclusion, entry).and_then(capacity).map(|answer| answer.peak_tokens_per_s),
    /// Why the search ended; only in the last row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String> =
        stopped(conclusion, entry).map(|conclusion| conclusion.reason.clone()),
}

/// Fit of the Universal Scalability Law, X(N) = λN / (1 + σ(N − 1) + κN(N − 1)).
pub struct UslReport from fit: UslFit {
    /// λ: storage throughput of one user alone, bytes/s.
    pub lambda_bytes_per_s: Fact<f64>,
    /// σ: contention, the share of the work that users do one after another.
    pub sigma: Fact<f64>,
    /// κ: coherency, the cost that each pair of users adds.
    pub kappa: Fact<f64>,
    /// Coefficient of determination (R²) of the fit over the measured points.
    pub r_squared: Fact<f64>,
    /// Number of users at the maximum of the fit; null when it has none.
    pub peak_users: Option<f64>,
}

/// Where the time of the requests went, as sums, s.
pub struct TimeReport of time: TimeShares {
    /// Time from the intended arrival to the start of serving, s.
    pub queue_s: Fact<f64> = seconds(time.queue_ns),
    /// Time in storage steps, including their waits for permits and for room, s.
    pub storage_s: Fact<f64> = seconds(time.storage_ns),
    /// Time spent waiting for generated tokens, s.
    pub generation_s: Fact<f64> = seconds(time.generation_ns),
    /// Time from the intended arrival to the end, s.
    pub total_s: Fact<f64> = seconds(time.total_ns),
}

/// The first step that missed its target, and where the time of its requests went.
pub struct Broke of bound: Bound<'_> {
    /// Number of users at which the target was first missed.
    pub users: Fact<u32> = bound.broke.users,
    /// Mode slo: QoS class that was furthest from its target; null in other modes, and when no
    /// request ended.
    pub class: Option<String> = class(bound),
    /// Figure that decided: `storage throughput` where the latency of entries counted for no more
    /// than with `qos_users`, `storage read latency`, `storage write latency`, `storage queue`,
    /// `request queue`, `request backlog`, or in mode slo the class, or with `--slo` `context load`
    /// or `reuse`; null when no request ended. Versions that did not tell the throughput apart have
    /// a latency in its place.
    pub part: Option<String> = bound.part(),
    /// Saturation with that number of users, as defined for `saturation_level` in
    /// `summary.autoscaling_stats`.
    pub saturation: Option<f64> = bound.broke.saturation,
    /// Where the requests spent most of their time: queue, storage or generation.
    pub largest_part: Fact<String> = bound.broke.largest_part.to_owned(),
    /// Share of the requests' time that `largest_part` took, from 0 to 1.
    pub largest_share: Fact<f64> = bound.broke.largest_share,
}

/// One step of the autoscaler's search.
pub struct CurvePoint from step: StepResult {
    /// Number of users in this step.
    pub users: Fact<u32>,
    /// Length of the step's window, s.
    pub window_s: Fact<f64>,
    /// Whether throughput was steady in the window.
    pub steady: Fact<bool>,
    /// Storage throughput, reads and writes together, GiB/s.
    pub gib_per_s: Fact<f64> = step.bytes_per_s / GIB as f64,
    /// Half the width of the 95 % confidence interval of the throughput, as a share of the
    /// throughput.
    pub uncertainty: Fact<f64>,
    /// Tokens generated per second, tokens/s.
    pub tokens_per_s: Fact<f64>,
    /// Requests that finished per second, requests/s.
    pub requests_per_s: Fact<f64>,
    /// Number of requests that earlier steps left and that were still open when the window began,
    /// at least, where users do not wait for answers; 0 where they are too few to change a P95.
    /// With any, latencies are those of this backlog and not of so many users: they are null.
    pub backlog_before: Fact<u64>,
    /// P50, P95 and P99 of the latency of entries read from storage, ms; null without reads, and
    /// beside a backlog of earlier steps.
    pub read_ms: Option<[f64; 3]> = own(step, step.read_ns).map(|three| three.map(ms)),
    /// P50, P95 and P99 of the latency of entries written to storage, ms; null without writes, and
    /// beside a backlog of earlier steps.
    pub write_ms: Option<[f64; 3]> = own(step, step.write_ns).map(|three| three.map(ms)),
    /// P95 of the latency of the requests of each QoS class (interactive, responsive, batch), ms;
    /// null for a class without requests, and for all of them beside a backlog of earlier steps. In
    /// mode slo, requests that were open at the end of the window count with their age then, so
    /// that the figure is a lower bound where there were any; null for a class of which none ended
    /// and none was late.
    pub class_p95_ms: Fact<[Option<f64>; 3]> =
        step.class_p95_ns.map(|p95| own(step, p95).map(ms)),
    /// P95 of the time that the device took to read an entry, ms, beside a backlog of earlier steps
    /// too; null without reads.
    pub read_device_p95_ms: Option<f64> = step.storage.read_device_p95_ns.map(ms),
    /// P95 of the time that the device took to write an entry, demotions included, ms, beside a
    /// backlog of earlier steps too; null without writes.
    pub write_device_p95_ms: Option<f64> = step.storage.write_device_p95_ns.map(ms),
    /// Mean number of entries that waited for the device: for their tier to have room, for a buffer
    /// or for a place in the queue.
    pub entries_waiting: Fact<f64> = step.storage.entries_waiting,
    /// Mean number of requests that waited to be served.
    pub requests_waiting: Fact<f64> = step.storage.requests_waiting,
    /// Saturation in this step, as defined for `saturation_level` in `summary.autoscaling_stats`.
    pub saturation: Option<f64>,
    /// Storage throughput of this step, or of one with fewer users where that was higher, divided
    /// by the highest of all steps, as `saturation` takes it; null in mode slo, and in results of
    /// versions that did not keep it.
    #[serde(default)]
    pub used_share: Option<f64>,
    /// Where the time of the requests went.
    pub time: figure::Part<TimeReport> = TimeReport::of(&step.time),
    /// Number of requests that finished in the step and had loaded what was there before them; null
    /// in results of versions that did not count them.
    #[serde(default)]
    pub loads: Option<u64> = Some(step.loads),
    /// P50 and P95 of the time in which a request loaded what was there before it, ms; null without
    /// loads, and beside a backlog of earlier steps.
    #[serde(default)]
    pub load_ms: Option<[f64; 2]> = own(step, step.load_ns).map(|two| two.map(ms)),
    /// P95 of the time that a request spent on storage I/O, ms; null without requests, and beside a
    /// backlog of earlier steps.
    #[serde(default)]
    pub storage_io_p95_ms: Option<f64> = own(step, step.storage_io_p95_ns).map(ms),
    /// Share of the reads of earlier turns that found them, from 0 to 1; null without such reads.
    #[serde(default)]
    pub reuse_share: Option<f64>,
    /// Share of the step's window in which the drive was busy, from 0 to 1: the simulated drive, or
    /// the device by the kernel's counters; null where these are unknown, and over several ranks.
    #[serde(default)]
    pub drive_busy_share: Option<f64>,
}
}

figures! {
/// Results of the autoscaler, under the reference's keys.
pub struct AutoscalingSummary from conclusion: Conclusion {
    /// Number of users at the start of the search. Same definition as the reference's.
    pub initial_users: Same<u32>,
    /// Number of users that the search found, which is not the number at the end of the run
    /// (`users` in the last row of `ringfall.timeline`): in mode `capacity` `peak_user_count`, in
    /// the others `ringfall.autoscaler.qos_users`. Of an unfinished search they are those of the
    /// steps that it made; without a step it is `initial_users`. Differs from the reference, whose
    /// figure is the last number tried.
    pub final_users: Same<u32> = final_users(conclusion),
    /// Number of times that the number of users was changed between steps. Differs from the
    /// reference, which also counts the row with which its search stops.
    pub total_scale_events: Sum<usize> = changes(conclusion),
    /// Smallest number of users that reaches 97 % of the peak throughput, or comes so close to it
    /// that noise explains the rest, as defined for `peak_users` in `ringfall.autoscaler`; only in
    /// mode `capacity`. Differs from the reference, whose figure is the number of users when the
    /// average throughput since the start last rose by more than 1 %.
    #[serde(default, skip_serializing_if = "Same::is_unknown")]
    pub peak_user_count: Same<u32> = capacity(conclusion).map(|answer| answer.peak_users),
    /// Tokens generated per second in the step with `peak_user_count` users, tokens/s; only in mode
    /// `capacity`. Differs from the reference, whose figure is the largest average since the start.
    #[serde(default, skip_serializing_if = "Same::is_unknown")]
    pub peak_throughput_tokens_per_sec: Same<f64> =
        capacity(conclusion).map(|answer| answer.peak_tokens_per_s),
}

/// Results of the autoscaler, with every step of its search. In merged results, each of which made
/// a search of its own, a finding is null unless all of them agree: findings of several searches do
/// not add up.
pub struct AutoscalerReport of (result, conclusion): (&RunResult, &Conclusion) {
    /// Mode of the autoscaler: `qos`, `slo` or `capacity`.
    pub mode: Same<String> = conclusion.mode.name().to_owned(),
    /// Whether the search finished before the run ended and confirms its answer, as
    /// `peak_confirmed` or `qos_confirmed` says.
    pub conclusive: Same<bool> = conclusion.conclusive,
    /// Why the search ended.
    pub reason: Same<String> = conclusion.reason.clone(),
    /// Number of ranks whose users it changed together, by what all of them measured; null when it
    /// decided for one process alone. Every number of users is then that of all ranks.
    pub ranks: Same<u32> = result.plan.group_size(),
    /// Mode capacity: highest storage throughput that can be sustained, GiB/s; where `conclusive`
    /// is false that of the steps that were made, and more users might move more.
    pub peak_gib_per_s: Same<f64> =
        capacity(conclusion).map(|answer| answer.peak_bytes_per_s / GIB as f64),
    /// Mode capacity: smallest number of users that reaches 97 % of the peak throughput, or comes
    /// so close to it that noise explains the rest: its throughput in `curve` is at least 96 % of
    /// the peak where `peak_confirmed` is true, and 92 % elsewhere. Where throughput did not rise
    /// with users, as many or fewer reach it, and `peak_confirmed` is false.
    pub peak_users: Same<u32> = capacity(conclusion).map(|answer| answer.peak_users),
    /// Mode capacity: whether the curve confirms the peak. It does when the search finished, with
    /// several steps, when one with fewer users than `peak_users` moved clearly less than 95 % of
    /// the peak (or a single user who waits for answers reaches it), when a longer step with
    /// `peak_users`, in which each user had eight requests answered on average, is known to 5 % and
    /// finished requests, when one with at most a fifth fewer moved less (or there can be no fewer
    /// users), when no memory stands before storage, and when no step moved more than the peak by
    /// over 3 % and its own uncertainty, short ones left out where there is a longer one with as
    /// many users. `reason` says what is missing.
    pub peak_confirmed: Same<bool> = capacity(conclusion).map(|_| conclusion.conclusive),
    /// Mode capacity: fit of the Universal Scalability Law to the curve; null where it explains too
    /// little of it (R² below 0.8), and where throughput did not rise with users.
    pub usl: Same<UslReport> =
        capacity(conclusion).and_then(|answer| answer.usl.as_ref().map(UslReport::of)),
    /// Mode qos: largest number of users within the target saturation of the storage tier. Mode
    /// slo: largest number of users for which every QoS class was within its target, or with
    /// `--slo` for which its targets were met. 0: not even the smallest number allowed was. Null
    /// where the run ended before the search found a number.
    pub qos_users: Same<u32> = qos(conclusion).map(|answer| answer.users),
    /// Modes qos and slo: whether a longer window confirmed `qos_users`; of 0, one with the
    /// smallest number of users. `reason` says what is missing. In mode qos one with the smallest
    /// number that was too many confirms it as well. Each goes on, for 600 s at most, until the
    /// 90 % confidence interval of its share of the highest throughput lies on one side of what
    /// the target saturation allows, to 5 % of the users, and where users do not wait for answers,
    /// until the 95 % confidence interval of the number of requests that arrived for each that
    /// ended lies above 1 or below 1.05. In mode slo it takes two minutes at least, and goes on,
    /// for ten at most, until the 95 % confidence interval of the share of requests beyond their
    /// target lies, for each class, within the 5 % that a P95 allows.
    pub qos_confirmed: Same<bool> = qos(conclusion).map(|_| conclusion.conclusive),
    /// Modes qos and slo: what first broke its target with more users than `qos_users`.
    pub qos_broke: Same<Broke> = Bound::of(result).map(|bound| Broke::of(&bound)),
    /// Modes qos and slo: why not even the smallest number of users was within the target, and what
    /// would change that; null when some number was.
    pub qos_none_because: Same<String> = saturation::why_none(result),
    /// Every step of the search, in the order taken; of merged results, one search after the other.
    pub curve: Rows<CurvePoint> = curve(result, conclusion),
}
}

impl AutoscalerReport {
    /// Words to follow the answer: that it is not confirmed, if so.
    pub fn doubt(&self) -> &'static str {
        let all = [&self.conclusive, &self.peak_confirmed, &self.qos_confirmed];
        match all.into_iter().any(|is_so| is_so.known() == Some(false)) {
            true => ", not confirmed",
            false => "",
        }
    }

    /// The last step of each number of users, by which the search judged it; fewest users first.
    pub fn decisive_steps(&self) -> Vec<&CurvePoint> {
        let mut steps: Vec<&CurvePoint> = self.curve.iter().rev().collect();
        steps.sort_by_key(|step| step.users.known());
        steps.dedup_by_key(|step| step.users.known());
        steps
    }

    /// Answer of the search, in a clause: its peak, or the number of users within the target.
    pub fn answer(&self) -> String {
        let doubt = self.doubt();
        let users = |users: u32| counted(users.into(), "user");
        match (self.peak_gib_per_s.known(), self.peak_users.known(), self.qos_users.known()) {
            (Some(rate), Some(peak), _) => {
                format!("peak {rate:.2} GiB/s with {}{doubt}", users(peak))
            }
            (_, _, Some(found)) => format!("{}{doubt}", users(found)),
            _ => "no answer".to_owned(),
        }
    }
}

impl UslReport {
    /// Throughput at a number of users by this fit, bytes/s; none where a figure of it is unknown.
    pub fn bytes_per_s(&self, users: f64) -> Option<f64> {
        let pairs = users * (users - 1.0);
        let divisor = 1.0 + self.sigma.known()? * (users - 1.0) + self.kappa.known()? * pairs;
        Some(self.lambda_bytes_per_s.known()? * users / divisor)
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Latencies of a step that are those of its own users; none beside a backlog of earlier steps.
fn own<T>(step: &StepResult, latencies: Option<T>) -> Option<T> {
    latencies.filter(|_| step.backlog_before == 0)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The QoS class that missed its target first, if a class did.
fn class(bound: &Bound<'_>) -> Option<String> {
    match bound.broke.part {
        Some(Part::Class(class)) => Some(Class::NAMES[class].to_owned()),
        _ => None,
    }
}

/// Name of an action in results.
const fn act_name(act: Act) -> &'static str {
    match act {
        Act::ScaleUp => "scale_up",
        Act::ScaleDown => "scale_down",
        Act::Hold => "hold",
        Act::Stop => "stop",
    }
}

/// A time since 1970 as ISO 8601 in UTC, to the microsecond.
fn iso_8601(unix_s: f64) -> String {
    // Rounded to the microsecond; the cast holds what is out of range to the type's ends.
    let time = Timestamp::from_microsecond((unix_s.max(0.0) * 1e6).round() as i64);
    time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// `summary.autoscaling_stats`; empty without an autoscaler.
pub(crate) fn rows(result: &RunResult) -> Vec<AutoscalingRow> {
    let Some(conclusion) = &result.autoscale else { return Vec::new() };
    let mut end_s = result.window.start_unix_s;
    let rows = conclusion.entries.iter().map(|entry| {
        end_s += entry.result.end_s;
        AutoscalingRow::of(&(conclusion, entry, end_s))
    });
    rows.collect()
}

/// `ringfall.autoscaler`; none without one.
pub(crate) fn report(result: &RunResult) -> Option<AutoscalerReport> {
    Some(AutoscalerReport::of(&(result, result.autoscale.as_ref()?)))
}

/// The steps of a search, each with how busy the drive was where the step itself does not know.
fn curve(result: &RunResult, conclusion: &Conclusion) -> Vec<CurvePoint> {
    let mut end_s = 0.0;
    let points = conclusion.entries.iter().map(|entry| {
        end_s += entry.result.end_s;
        let mut point = CurvePoint::of(&entry.result);
        let begin_s = end_s - entry.result.window_s;
        point.drive_busy_share =
            point.drive_busy_share.or_else(|| busy_between(result, begin_s, end_s));
        point
    });
    points.collect()
}

/// Share of a part of the window in which the kernel saw the device busy. None where its counters
/// leave more than a tenth of that time out, and where ranks searched together: rank 0 passes over
/// the seconds in which not all of them had the same users.
fn busy_between(result: &RunResult, begin_s: f64, end_s: f64) -> Option<f64> {
    let (mut seen_s, mut busy_s) = (0.0, 0.0);
    for second in result.kernel_seconds.iter().filter(|second| second.seconds > 0.0) {
        let from_s = (second.end_s - second.seconds).max(begin_s);
        let both_s = (second.end_s.min(end_s) - from_s).max(0.0);
        let share = second.delta.busy_ms as f64 / 1e3 / second.seconds;
        seen_s += both_s;
        busy_s += both_s * share.min(1.0);
    }
    let is_seen = seen_s > 0.0 && seen_s >= 0.9 * (end_s - begin_s);
    (is_seen && result.plan.group_size().is_none()).then(|| busy_s / seen_s)
}

/// The conclusion, for the entry with which the search stopped; none for the others.
fn stopped<'a>(conclusion: &'a Conclusion, entry: &Entry) -> Option<&'a Conclusion> {
    Some(conclusion).filter(|_| entry.act == Act::Stop)
}

fn capacity(conclusion: &Conclusion) -> Option<&CapacityAnswer> {
    match &conclusion.answer {
        Answer::Capacity(answer) => answer.as_ref(),
        Answer::Qos(_) => None,
    }
}

/// The number of users within the target. A search that had not come to its end, and had found no
/// number, has not found either that no number of users will do.
pub(crate) fn qos(conclusion: &Conclusion) -> Option<&QosAnswer> {
    match &conclusion.answer {
        Answer::Qos(answer) => Some(answer).filter(|found| found.users > 0 || conclusion.is_over()),
        Answer::Capacity(_) => None,
    }
}

/// The number of users that was found; else that of the last step, and without one the first.
fn final_users(conclusion: &Conclusion) -> u32 {
    let last = || conclusion.entries.last().map(|entry| entry.result.users);
    let found = capacity(conclusion).map(|answer| answer.peak_users);
    let found = found.or(qos(conclusion).map(|answer| answer.users));
    found.or_else(last).unwrap_or(conclusion.initial_users)
}

/// Number of times that the number of users was changed between steps.
fn changes(conclusion: &Conclusion) -> usize {
    let acts = conclusion.entries.iter().map(|entry| entry.act);
    acts.filter(|act| matches!(act, Act::ScaleUp | Act::ScaleDown)).count()
}

/// The autoscaler's lines of the summary, of label and text.
pub fn lines(result: &RunResult) -> Vec<(&'static str, String)> {
    let (Some(conclusion), Some(report)) = (&result.autoscale, report(result)) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let steps = report.curve.len() as u64;
    // Without a step there is neither an answer nor a doubt about it.
    if steps == 0 {
        return vec![("search", report.reason.to_string())];
    }
    let qos_users = report.qos_users.known();
    let doubt = |confirmed: Option<bool>| match confirmed {
        Some(true) => "",
        _ => ", not confirmed",
    };
    match (report.peak_gib_per_s.known(), report.peak_users.known(), qos_users) {
        (Some(peak), Some(users), _) => {
            let users = counted(users.into(), "user");
            let doubt = doubt(report.peak_confirmed.known());
            let answer = capacity(conclusion);
            let knee = answer.map_or(0.0, |answer| answer.knee_bytes_per_s);
            let is_flat = answer.is_some_and(|answer| answer.flat_from.is_some());
            let fewer = if is_flat { " or fewer" } else { "" };
            // Rounded down, so that not all of a peak is named where a part of it is missing.
            let share = (knee / GIB as f64 / peak * 100.0).floor().min(100.0);
            let of_limit = peak_of_limit(result, peak * GIB as f64).map_or(String::new(), |used| {
                format!(" ({:.0} % of the drive's limit)", used * 100.0)
            });
            let text =
                format!("{peak:.2} GiB/s{of_limit}, {share:.0} % of it with {users}{fewer}{doubt}");
            lines.push(("peak", text));
            if let Some(usl) = report.usl.as_ref()
                && let (Some(sigma), Some(kappa), Some(r2)) =
                    (usl.sigma.known(), usl.kappa.known(), usl.r_squared.known())
            {
                lines.push((
                    "scalability",
                    format!("USL: contention σ {sigma:.4}, coherency κ {kappa:.6}, R² {r2:.3}"),
                ));
            }
        }
        (_, _, Some(users)) => {
            let doubt = doubt(report.qos_confirmed.known());
            let what = within(result, conclusion, users);
            let users = counted(users.into(), "user");
            // Others may ask for more or less.
            let drawn = format!(" (as seed {} draws users and requests)", result.plan.seed);
            lines.push(("capacity", format!("{users} {what}{doubt}{drawn}")));
        }
        _ => {}
    }
    if let Some(bound) = Bound::of(result) {
        lines.push(("broke first", bound.what()));
        if qos_users == Some(0) {
            lines.push(("remedy", bound.remedy()));
        }
    }
    let backlog = report.curve.iter().filter_map(|step| step.backlog_before.known()).max();
    if let Some(most) = backlog.filter(|&most| most > 0) {
        let requests = counted(most, "request");
        lines.push((
            "backlog",
            format!(
                "up to {requests} of earlier steps were still open when others began, whose \
                 latencies are left out: they are not those of so many users"
            ),
        ));
    }
    let entries = &conclusion.entries;
    let outlasting = entries.iter().filter(|entry| outlasts_window(result, &entry.result)).count();
    if outlasting > 0 {
        let of = counted(outlasting as u64, "step");
        lines.push((
            "backlog",
            format!(
                "in {of} the P95 of a class is longer than the window: one in twenty of its \
                 requests or more had waited since before it, and where they pile up a longer \
                 step would show more"
            ),
        ));
    }
    lines.push(("search", format!("{}; {}", counted(steps, "step"), report.reason)));
    lines
}

/// Targets that so many users were within, in words.
fn within(result: &RunResult, conclusion: &Conclusion, users: u32) -> String {
    match (conclusion.mode, conclusion.step_with(users)) {
        (Mode::Slo, _) => match result.plan.slo {
            Some(rule) => format!(
                "within load-p95={} s and reuse={} %",
                rule.load_p95_s,
                (rule.reuse_share * 1e4).round() / 1e2
            ),
            None => "served in time".to_owned(),
        },
        (_, Some(step)) if saturation::misses_latency(result, step) => format!(
            "within the target saturation of the storage tier, by its throughput alone: \
             {:.1} % of the highest, where {:.0} % are allowed",
            step.used_share.unwrap_or(0.0) * 100.0,
            result.plan.target_saturation * 100.0
        ),
        _ => "within the target saturation of the storage tier".to_owned(),
    }
}

/// Share of the drive's limits that a peak comes to, with the reads and writes of all steps; none
/// where the limits are unknown.
fn peak_of_limit(result: &RunResult, peak_bytes_per_s: f64) -> Option<f64> {
    let bytes = (result.engine.io_read.bytes + result.engine.io_write.bytes) as f64;
    let mean_bytes_per_s = Some(bytes / result.window.seconds).filter(|rate| *rate > 0.0)?;
    Some(result.roofline_share()? * peak_bytes_per_s / mean_bytes_per_s)
}

/// Whether requests of users who do not wait for answers took longer (P95) than the step's window,
/// no backlog of other steps being told of: they arrived before the window began, in the same step.
pub(crate) fn outlasts_window(result: &RunResult, step: &StepResult) -> bool {
    let longest_ns = step.class_p95_ns.into_iter().flatten().max();
    let is_longer = longest_ns.is_some_and(|p95_ns| p95_ns as f64 / 1e9 > step.window_s);
    result.plan.arrival != Arrival::Closed && step.backlog_before == 0 && is_longer
}

#[cfg(test)]
mod tests {
    use ringfall_host::BlockDelta;
    use ringfall_workloads::autoscale::{QosBreak, StorageLoad};

    use super::*;
    use crate::facts::KernelSecond;
    use crate::testing::{read_from, roofline};

    #[test]
    fn a_search_without_a_step_has_neither_an_answer_nor_a_doubt() {
        let mut result = crate::testing::nothing();
        result.autoscale = Some(Conclusion {
            mode: Mode::Qos,
            initial_users: 4,
            conclusive: false,
            reason: "the run ended after 0 steps".to_owned(),
            answer: Answer::Qos(ringfall_workloads::autoscale::QosAnswer {
                users: 0,
                confirmed: false,
                broke: None,
            }),
            entries: Vec::new(),
        });
        assert_eq!(lines(&result), [("search", "the run ended after 0 steps".to_owned())]);
        let report = report(&result).unwrap();
        assert_eq!((report.qos_users.known(), report.qos_confirmed.known()), (None, None));
        let summary = AutoscalingSummary::of(result.autoscale.as_ref().unwrap());
        assert_eq!(summary.final_users.known(), Some(4));
    }

    #[test]
    fn a_peak_of_a_search_that_is_not_conclusive_is_not_confirmed() {
        let step = StepResult { users: 4, bytes_per_s: GIB as f64, ..StepResult::default() };
        let mut result = crate::testing::nothing();
        for conclusive in [false, true] {
            result.autoscale = Some(Conclusion {
                mode: Mode::Capacity,
                initial_users: 4,
                conclusive,
                reason: String::new(),
                answer: Answer::Capacity(Some(CapacityAnswer {
                    peak_bytes_per_s: GIB as f64,
                    peak_users: 4,
                    knee_bytes_per_s: 0.975 * GIB as f64,
                    peak_tokens_per_s: 1.0,
                    flat_from: None,
                    usl: None,
                    confirmed: true,
                })),
                entries: vec![Entry { result: step.clone(), act: Act::Stop }],
            });
            let (label, text) = lines(&result).swap_remove(0);
            let want = if conclusive { "" } else { ", not confirmed" };
            // "Reached with 4 users" was said of a number that moved 3 % less.
            let told = format!("1.00 GiB/s, 97 % of it with 4 users{want}");
            assert_eq!((label, text), ("peak", told));
            assert_eq!(report(&result).unwrap().peak_confirmed.known(), Some(conclusive));
            // One user may be as many as a drive is fast with, and no more than part of its limit.
            let mut held = result.clone();
            held.window.seconds = 10.0;
            held.engine.io_read.bytes = 5 * GIB;
            held.roofline = Some(("limits.json".to_owned(), roofline(1.25 * GIB as f64, 1.0)));
            let (_, text) = lines(&held).swap_remove(0);
            assert!(text.starts_with("1.00 GiB/s (80 % of the drive's limit), 97 %"), "{text}");
            // Not that of the last step.
            let summary = AutoscalingSummary::of(result.autoscale.as_ref().unwrap());
            assert_eq!(summary.final_users.known(), Some(4));
        }
    }

    /// The P95 of one user was that of the requests which eight had left.
    #[test]
    fn latencies_beside_a_backlog_are_not_those_of_so_few_users() {
        let step = |users: u32, backlog_before: u64| StepResult {
            users,
            window_s: 3.0,
            backlog_before,
            read_ns: Some([1_000_000; 3]),
            write_ns: Some([2_000_000; 3]),
            class_p95_ns: [Some(3_000_000), None, Some(4_000_000)],
            storage: StorageLoad {
                read_device_p95_ns: Some(900_000_000),
                ..StorageLoad::default()
            },
            used_share: Some(1.0),
            ..StepResult::default()
        };
        let broke = || QosBreak {
            users: 1,
            part: Some(Part::StorageRead),
            saturation: Some(1.0),
            largest_part: "storage",
            largest_share: 1.0,
        };
        let mut result = crate::testing::nothing();
        let conclusion = |backlog_before| Conclusion {
            mode: Mode::Qos,
            initial_users: 8,
            conclusive: true,
            reason: String::new(),
            answer: Answer::Qos(QosAnswer { users: 0, confirmed: true, broke: Some(broke()) }),
            entries: vec![
                Entry { result: step(8, 0), act: Act::ScaleDown },
                Entry { result: step(1, backlog_before), act: Act::Stop },
            ],
        };
        result.autoscale = Some(conclusion(312));
        let found = report(&result).unwrap();
        let [of_eight, of_one] = [&found.curve[0], &found.curve[1]];
        assert_eq!(of_one.backlog_before.known(), Some(312));
        assert_eq!((of_one.read_ms, of_one.write_ms), (None, None));
        assert_eq!(of_one.class_p95_ms.known(), Some([None; 3]));
        assert_eq!((of_eight.read_ms, of_eight.write_ms), (Some([1.0; 3]), Some([2.0; 3])));
        assert_eq!(of_eight.class_p95_ms.known(), Some([Some(3.0), None, Some(4.0)]));
        let rows = rows(&result);
        assert_eq!((rows[1].read_latency_p95_ms, rows[1].write_latency_p95_ms), (None, None));
        assert_eq!(rows[0].read_latency_p95_ms, Some(1.0));
        let told = |result: &RunResult, label: &str| {
            lines(result).into_iter().find(|line| line.0 == label).map(|line| line.1)
        };
        let backlog = told(&result, "backlog").unwrap();
        assert!(backlog.starts_with("up to 312 requests of earlier steps"), "{backlog}");
        let broke = told(&result, "broke first").unwrap();
        let begin = "with 1 user beside a backlog of 312 requests of earlier steps the device";
        assert!(broke.starts_with(begin), "{broke}");
        // No target for it follows from what is not its own latency.
        let target = "workload.saturation_targets.read_p95_ms";
        assert!(!told(&result, "remedy").unwrap().contains(target));
        result.autoscale = Some(conclusion(0));
        assert_eq!(told(&result, "backlog"), None);
        assert!(told(&result, "remedy").unwrap().contains(target));
    }

    #[test]
    fn a_step_on_a_real_drive_is_as_busy_as_the_kernel_saw_it() {
        let second = |end_s: f64, busy_ms: u64| KernelSecond {
            end_s,
            seconds: 1.0,
            delta: BlockDelta { busy_ms, ..read_from("nvme0n1", 0) },
            in_flight: 0,
        };
        let mut result = crate::testing::nothing();
        result.kernel_seconds = [(1.0, 0), (2.0, 400), (3.0, 600), (4.0, 900)]
            .map(|(end_s, busy_ms)| second(end_s, busy_ms))
            .to_vec();
        let step = |end_s, window_s| Entry {
            result: StepResult { users: 1, end_s, window_s, ..StepResult::default() },
            act: Act::Hold,
        };
        let conclusion = Conclusion {
            mode: Mode::Qos,
            initial_users: 1,
            conclusive: false,
            reason: String::new(),
            answer: Answer::Qos(QosAnswer { users: 0, confirmed: false, broke: None }),
            // A second to settle and two that count; the last one was seen for half of its time.
            entries: vec![step(3.0, 2.0), step(2.0, 2.0)],
        };
        let shares: Vec<Option<f64>> =
            curve(&result, &conclusion).iter().map(|step| step.drive_busy_share).collect();
        assert_eq!(shares, [Some(0.5), None]);
    }

    /// A window of 3 s printed a P95 of 14.7 s without a word, and a target to match was proposed.
    #[test]
    fn latencies_longer_than_their_window_are_told_as_a_backlog_of_their_own_step() {
        let step = StepResult {
            users: 1,
            window_s: 3.0,
            class_p95_ns: [None, None, Some(14_730_000_000)],
            class_open: [0, 0, 36],
            saturation: Some(14.7),
            ..StepResult::default()
        };
        let broke = QosBreak {
            users: 1,
            part: Some(Part::Class(2)),
            saturation: Some(14.7),
            largest_part: "storage",
            largest_share: 1.0,
        };
        let mut result = crate::testing::nothing();
        result.autoscale = Some(Conclusion {
            mode: Mode::Slo,
            initial_users: 1,
            conclusive: false,
            reason: String::new(),
            answer: Answer::Qos(QosAnswer { users: 0, confirmed: false, broke: Some(broke) }),
            entries: vec![Entry { result: step, act: Act::Stop }],
        });
        for (arrival, is_told) in [(Arrival::Open, true), (Arrival::Closed, false)] {
            result.plan.arrival = arrival;
            let lines = lines(&result);
            let of = |label| lines.iter().find(|line| line.0 == label).map(|line| line.1.as_str());
            assert_eq!(of("backlog").is_some(), is_told, "{lines:?}");
            assert!(of("backlog").is_none_or(|told| told.starts_with("in 1 step the P95")));
            let proposes = of("remedy").unwrap().contains("qos_targets_ms.batch");
            assert_eq!(proposes, !is_told, "{lines:?}");
        }
    }

    /// "Not confirmed" of a number of users was left out wherever the report was quoted.
    #[test]
    fn an_answer_is_quoted_with_its_doubt() {
        let found = |conclusive, confirmed| AutoscalerReport {
            conclusive: Same::of(conclusive),
            qos_users: Same::of(7),
            qos_confirmed: Same::of(confirmed),
            ..AutoscalerReport::default()
        };
        assert_eq!(found(true, true).answer(), "7 users");
        assert_eq!(found(true, false).answer(), "7 users, not confirmed");
        assert_eq!(found(false, true).answer(), "7 users, not confirmed");
    }

    #[test]
    fn times_are_iso_8601_to_the_microsecond() {
        assert_eq!(iso_8601(1_738_367_999.25), "2025-01-31T23:59:59.250000+00:00");
        assert_eq!(iso_8601(0.0), "1970-01-01T00:00:00.000000+00:00");
    }
}
