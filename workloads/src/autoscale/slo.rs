//! The search for the most users whose every class keeps its promise.

use super::late::{LATE_MAX, LateShare};
use super::step::StepResult;
use super::{LEFT, Part, QosAnswer, QosBreak, Settings, Wish, between, counted};
use crate::contract::Class;

/// The answer is known to this share.
const TOLERANCE: f64 = 0.05;
/// A short step that is beyond the target by no more than this factor is taken again, once for each
/// number of users: a few late requests make it so, which the queue of the step before may have
/// delayed, and it would be the end of the climb.
const MARGINAL: f64 = 1.25;

/// A step, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Point {
    users: u32,
    patient: bool,
    is_good: bool,
    is_marginal: bool,
}

#[derive(Debug)]
pub(super) struct Slo {
    settings: Settings,
    /// The last step of each number of users.
    points: Vec<Point>,
    /// Whether any step saw requests of each class.
    seen: [bool; 3],
    is_over: bool,
}

impl Slo {
    pub(super) fn new(settings: Settings) -> Slo {
        Slo { settings, points: Vec::new(), seen: [false; 3], is_over: false }
    }

    fn is_good(&self, result: &StepResult) -> bool {
        result.saturation.is_some_and(|saturation| saturation <= self.settings.target_saturation)
    }

    /// Whether the target was missed by so little that a second look may find it met.
    fn is_marginal(&self, result: &StepResult) -> bool {
        let most = self.settings.target_saturation * MARGINAL;
        !self.is_good(result) && result.saturation.is_some_and(|saturation| saturation <= most)
    }

    pub(super) fn after(&mut self, result: &StepResult) -> Wish {
        let classes = result.class_p95_ns.iter().zip(result.class_open);
        for (seen, (p95_ns, open)) in self.seen.iter_mut().zip(classes) {
            *seen |= self.settings.rule.is_none() && (p95_ns.is_some() || open > 0);
        }
        let (users, patient) = (result.users, result.patient);
        let is_first = self.points.iter().all(|point| point.users != users);
        self.points.retain(|point| point.users != users);
        let (is_good, is_marginal) = (self.is_good(result), self.is_marginal(result));
        self.points.push(Point { users, patient, is_good, is_marginal });
        let wish = match is_first && !patient && is_marginal {
            true => Wish::Step { users, patient: false },
            false => self.next(),
        };
        self.is_over = wish == Wish::Stop;
        wish
    }

    /// Short steps lead up to a limit, and longer ones decide: with the most users that were well,
    /// and with the fewest that were too many, if by little. Once one of these has failed, no short
    /// one is relied on: each saw less than it took to fail.
    fn next(&self) -> Wish {
        let patient = self.has_failed_patiently();
        let good = self.good(patient);
        let users = match (good, self.bad()) {
            (Some(good), None) if good.users < self.settings.users_max => {
                Some(self.settings.more(good.users))
            }
            (Some(good), Some(bad)) => between(good.users, bad.users, TOLERANCE),
            (None, Some(bad)) => self.settings.fewer(bad.users),
            (_, None) => None,
        };
        match (users, good) {
            (Some(users), _) => Wish::Step { users, patient },
            (None, Some(good)) if !good.patient => Wish::Step { users: good.users, patient: true },
            (None, Some(_)) => {
                let short = self.bad().filter(|bad| bad.is_marginal && !bad.patient);
                short.map_or(Wish::Stop, |bad| Wish::Step { users: bad.users, patient: true })
            }
            (None, None) => Wish::Stop,
        }
    }

    fn has_failed_patiently(&self) -> bool {
        self.points.iter().any(|point| point.patient && !point.is_good)
    }

    /// Fewest users known to be too many.
    fn bad(&self) -> Option<Point> {
        self.points.iter().filter(|point| !point.is_good).min_by_key(|point| point.users).copied()
    }

    /// Most users below those that were well; `patient`: in a longer step.
    fn good(&self, patient: bool) -> Option<Point> {
        let bad = self.bad().map_or(u32::MAX, |bad| bad.users);
        let is_good =
            |point: &&Point| point.is_good && point.users < bad && (point.patient || !patient);
        self.points.iter().filter(is_good).max_by_key(|point| point.users).copied()
    }

    pub(super) fn conclude(&self, results: &[&StepResult]) -> (QosAnswer, String) {
        // The last step with so many users is the one that counts.
        let step_with = |users| results.iter().rev().find(|result| result.users == users);
        let bad = self.bad().and_then(|bad| step_with(bad.users));
        let broke = bad.map(|result| QosBreak::at(result));
        let good = self.good(self.has_failed_patiently()).or(self.good(false));
        let Some(Point { users, .. }) = good else {
            let is_decided = |step: &StepResult| step.patient && step.settled && step.steady;
            let confirmed = self.is_over && bad.is_some_and(|step| is_decided(step));
            let mut reason = format!("not even the fewest users were {}", self.served());
            if !confirmed {
                reason.push_str(", which no longer window confirms");
            }
            return (QosAnswer { users: 0, confirmed, broke }, reason);
        };
        let doubt = self.doubt(results, users).or_else(|| self.doubt_of_more(bad?));
        let confirmed = self.is_over && doubt.is_none();
        let (users_told, served) = (counted(users), self.served());
        let reason = match doubt {
            Some(doubt) => {
                format!("requests of {users_told} were {served}, which is not confirmed: {doubt}")
            }
            None if users >= self.settings.users_max => {
                format!("the search reached its limit of {users_told}, and requests were {served}")
            }
            None => {
                format!("requests of {users_told} were {served} over a longer window too")
            }
        };
        (QosAnswer { users, confirmed, broke }, reason)
    }

    /// Words for requests that were within the targets.
    fn served(&self) -> &'static str {
        match self.settings.rule {
            Some(_) => "served within the targets of --slo",
            None => "served in time",
        }
    }

    /// Why no longer step confirms that so many users were served in time; none where one does.
    fn doubt(&self, results: &[&StepResult], users: u32) -> Option<String> {
        let is_longer = |result: &&&StepResult| result.patient && result.users == users;
        let users = counted(users);
        let Some(result) = results.iter().rev().find(is_longer) else {
            return Some(format!("{users} were not measured over a longer window"));
        };
        if !result.settled {
            return Some(format!("{LEFT} {users}"));
        }
        let is_unknown = |class: &usize| self.seen[*class] && result.class_p95_ns[*class].is_none();
        let unknown: Vec<&str> =
            (0..3).filter(is_unknown).map(|class| Class::NAMES[class]).collect();
        if !unknown.is_empty() {
            let classes = unknown.join(" or ");
            // The workload deals its first users one to each class.
            return Some(match (result.users as usize) < Class::ALL.len() {
                true => format!(
                    "with {users} there is none of class {classes}, and nothing shows how that \
                     class is served; from {} users on there is one of each class",
                    Class::ALL.len()
                ),
                false => format!("no request of class {classes} ended in the longer window"),
            });
        }
        if let Some(doubt) = self.undecided(result) {
            return Some(doubt);
        }
        (result.window_s < self.settings.target_ns_max() as f64 / 1e9).then(|| {
            format!(
                "the longer window, of {:.0} s, was shorter than the largest target",
                result.window_s
            )
        })
    }

    /// Words for more users whose latencies miss their targets by so little that a longer step does
    /// not show it; none where it does.
    fn doubt_of_more(&self, bad: &StepResult) -> Option<String> {
        let is_shown = bad.patient && bad.late.iter().flatten().any(LateShare::is_beyond);
        let is_by_latency = bad.worst.is_some_and(|part| part != Part::Reuse);
        (self.is_marginal(bad) && is_by_latency && !is_shown).then(|| {
            format!(
                "{} may be, too: their latency misses the target by less than is known; \
                 --num-users {} without the autoscaler and a long --duration knows it better",
                counted(bad.users),
                bad.users
            )
        })
    }

    /// Words for the first class of which a longer step does not show that its P95 is within the
    /// target; none where it shows that of each.
    fn undecided(&self, result: &StepResult) -> Option<String> {
        let open = |late: &LateShare| !late.is_within();
        let (class, late) =
            (0..3).find_map(|class| Some((class, result.late[class].filter(open)?)))?;
        let (what, room) = match self.settings.rule {
            Some(_) => ("loads of contexts".to_owned(), ""),
            None => (
                format!("requests of class {}", Class::NAMES[class]),
                "a smaller --target-saturation leaves more room, and ",
            ),
        };
        Some(format!(
            "{:.1} to {:.1} % of the {what} take longer than {:.0} ms (95 % confidence, from {} in \
             {:.0} s), where {:.0} % may; {room}--num-users {} without the autoscaler and a long \
             --duration measures more requests",
            late.low * 100.0,
            late.high * 100.0,
            self.settings.limit_ns(class) as f64 / 1e6,
            late.requests,
            result.window_s,
            LATE_MAX * 100.0,
            result.users
        ))
    }
}

#[cfg(test)]
#[path = "slo_test.rs"]
mod tests;
