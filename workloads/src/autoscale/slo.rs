//! The search for the most users whose every class keeps its promise.

use super::step::StepResult;
use super::{QosAnswer, QosBreak, Settings, Wish, between, counted};
use crate::contract::Class;

/// The answer is known to this share.
const TOLERANCE: f64 = 0.05;
/// After a confirmation that failed, this share of the users is tried.
const STEP_BACK: f64 = 0.9;

#[derive(Debug)]
pub(super) struct Slo {
    settings: Settings,
    /// Most users known to be well.
    good: Option<u32>,
    /// Fewest users known to be too many.
    bad: Option<u32>,
    confirming: bool,
    confirmed: bool,
    /// Whether any step judged requests of each class.
    seen: [bool; 3],
    /// Classes among these of which the longer window had no request.
    unseen: Vec<usize>,
}

impl Slo {
    pub(super) fn new(settings: Settings) -> Slo {
        Slo {
            settings,
            good: None,
            bad: None,
            confirming: false,
            confirmed: false,
            seen: [false; 3],
            unseen: Vec::new(),
        }
    }

    fn is_good(&self, result: &StepResult) -> bool {
        result.saturation.is_some_and(|saturation| saturation <= self.settings.target_saturation)
    }

    pub(super) fn after(&mut self, result: &StepResult) -> Wish {
        let users = result.users;
        for (seen, p95_ns) in self.seen.iter_mut().zip(result.class_p95_ns) {
            *seen |= p95_ns.is_some();
        }
        if self.is_good(result) {
            if self.confirming {
                let is_unseen =
                    |class: &usize| self.seen[*class] && result.class_p95_ns[*class].is_none();
                self.unseen = (0..3).filter(is_unseen).collect();
                self.confirmed = result.settled && self.unseen.is_empty();
                return Wish::Stop;
            }
            self.good = Some(self.good.map_or(users, |good| good.max(users)));
        } else {
            self.bad = Some(self.bad.map_or(users, |bad| bad.min(users)));
            if self.confirming {
                // The shorter window had been lucky.
                let next = (f64::from(users) * STEP_BACK) as u32;
                let next = Some(next).filter(|next| *next >= self.settings.users_min.max(1));
                self.good = next;
                return match next {
                    None => Wish::Stop,
                    Some(users) => Wish::Step { users, patient: true },
                };
            }
        }
        match (self.good, self.bad) {
            (Some(good), None) if good >= self.settings.users_max => self.confirm(good),
            (Some(good), None) => Wish::Step { users: self.settings.more(good), patient: false },
            (Some(good), Some(bad)) => match between(good, bad, TOLERANCE) {
                Some(users) => Wish::Step { users, patient: false },
                None => self.confirm(good.min(bad)),
            },
            (None, bad) => match bad.and_then(|bad| self.settings.fewer(bad)) {
                Some(users) => Wish::Step { users, patient: false },
                None => Wish::Stop,
            },
        }
    }

    fn confirm(&mut self, users: u32) -> Wish {
        self.confirming = true;
        Wish::Step { users, patient: true }
    }

    pub(super) fn conclude(&self, results: &[&StepResult]) -> (QosAnswer, String) {
        let first_bad =
            results.iter().filter(|result| !self.is_good(result)).min_by_key(|r| r.users);
        let broke = first_bad.map(|result| QosBreak::at(result));
        let users = self.good.unwrap_or(0);
        let reason = match (users, self.confirmed) {
            (0, _) => "not even the fewest users were served in time".to_owned(),
            (users, false) if !self.unseen.is_empty() => {
                let names: Vec<_> = self.unseen.iter().map(|&class| Class::NAMES[class]).collect();
                format!(
                    "requests of {} were served in time, but none of them was {}: of so few users, \
                     not every class has one",
                    counted(users),
                    names.join(" or ")
                )
            }
            (users, true) if users >= self.settings.users_max => {
                let users = counted(users);
                format!("the search reached its limit of {users}, and requests were served in time")
            }
            (users, _) => {
                format!(
                    "requests of {} were served in time over a longer window too",
                    counted(users)
                )
            }
        };
        (QosAnswer { users, confirmed: self.confirmed, broke }, reason)
    }
}

#[cfg(test)]
#[path = "slo_test.rs"]
mod tests;
