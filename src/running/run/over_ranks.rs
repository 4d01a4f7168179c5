//! The autoscaler over all ranks of a launch: each tells rank 0 what happened in each second, and
//! rank 0 tells all of them how many users there are to be.
//!
//! A decision takes a moment to reach all ranks. Each second of a rank says which decision was in
//! effect throughout it; rank 0 lets the autoscaler see only those seconds in which the newest one
//! was in effect on all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfall_workloads::autoscale::{
    Autoscaler, Conclusion, Decision, Latencies, Sample, Settings,
};
use serde::{Deserialize, Serialize};

use super::scaling::{Judge, LatencySet};
use crate::group::{Group, Topic, share};

/// Topics of each rank's message to rank 0, and of rank 0's to all others.
const SECONDS: Topic = Topic("seconds");
const USERS: Topic = Topic("users");

pub(super) struct OverRanks {
    group: Arc<Group>,
    /// On rank 0.
    judge: Option<Judge>,
    /// Decisions of rank 0, as far as they are known here.
    told: Told,
    /// From which second on each decision is in effect here, the newest last.
    in_effect: Vec<(u64, u32)>,
    /// Seconds that rank 0 may not have taken yet; on rank 0, those of all ranks.
    seconds: BTreeMap<(u64, u32), Second>,
    has_news: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct Second {
    /// The decision that was in effect throughout it; an older one than the newest if that was
    /// carried out meanwhile.
    decision: u32,
    sample: Sample<LatencySet>,
}

/// Message of rank 0 to all others.
#[derive(Serialize, Deserialize)]
struct Told {
    /// Users of all ranks together, and the number of the decision that says so.
    decision: u32,
    users: u32,
    taken: u64,
    /// Whether rank 0 has seen enough.
    is_over: bool,
}

impl OverRanks {
    /// Each number of users in `settings` is that of one rank, except for the fewest.
    pub(super) fn new(
        group: Arc<Group>,
        settings: Settings,
        requests_max: Option<u64>,
    ) -> OverRanks {
        let size = group.size();
        let settings = Settings {
            initial_users: settings.initial_users.saturating_mul(size),
            users_max: settings.users_max.saturating_mul(size),
            ..settings
        };
        let requests_max = requests_max.map(|most| most.saturating_mul(size.into()));
        let judge = || Judge::new(Autoscaler::new(settings), requests_max);
        let judge = (group.rank() == 0).then(judge);
        group.listen(if group.rank() == 0 { SECONDS } else { USERS });
        OverRanks {
            group,
            judge,
            told: Told { decision: 0, users: settings.initial_users, taken: 0, is_over: false },
            in_effect: vec![(0, 0)],
            seconds: BTreeMap::new(),
            has_news: false,
        }
    }

    pub(super) fn users(&self) -> u32 {
        share(self.told.users, self.group.rank(), self.group.size())
    }

    pub(super) fn add(&mut self, index: u64, sample: Sample<LatencySet>) {
        let in_effect = self.in_effect.iter().rev().find(|(from, _)| *from <= index);
        let decision = in_effect.map_or(0, |&(_, decision)| decision);
        self.seconds.insert((index, self.group.rank()), Second { decision, sample });
        self.has_news = true;
    }

    /// Decides about this second of the window.
    pub(super) fn decide(&mut self, second_now: u64) -> Decision {
        match self.group.rank() {
            0 => self.lead(second_now),
            _ => self.follow(second_now),
        }
    }

    /// Rank 0: takes the seconds that all ranks have told.
    fn lead(&mut self, second_now: u64) -> Decision {
        for (rank, seconds) in self.group.heard::<Vec<(u64, Second)>>(SECONDS) {
            let new = seconds.into_iter().filter(|(index, _)| *index >= self.told.taken);
            self.seconds.extend(new.map(|(index, second)| ((index, rank), second)));
        }
        let mut changed = false;
        while !self.told.is_over && self.has_all(self.told.taken) {
            changed = true;
            let (sample, is_current) = self.take();
            let decided =
                self.judge.as_mut().map_or(Decision::Hold, |one| one.observe(&sample, is_current));
            match decided {
                Decision::Hold => {}
                Decision::Users(users) => {
                    self.carry_out(self.told.decision + 1, users, second_now);
                }
                Decision::Stop => self.told.is_over = true,
            }
        }
        if !changed {
            return Decision::Hold;
        }
        self.group.say(USERS, &self.told);
        self.answer()
    }

    /// Current decision for this process.
    fn answer(&self) -> Decision {
        if self.told.is_over { Decision::Stop } else { Decision::Users(self.users()) }
    }

    fn carry_out(&mut self, decision: u32, users: u32, second_now: u64) {
        (self.told.decision, self.told.users) = (decision, users);
        // The second that goes on is of both.
        self.in_effect.push((second_now + 1, decision));
    }

    /// Whether all ranks have told that second.
    fn has_all(&self, index: u64) -> bool {
        self.seconds.range((index, 0)..=(index, u32::MAX)).count() == self.group.size() as usize
    }

    /// The next second, all ranks together, and whether the newest decision was in effect
    /// throughout it on all of them.
    fn take(&mut self) -> (Sample<LatencySet>, bool) {
        let (mut sum, mut is_current): (Option<Sample<LatencySet>>, bool) = (None, true);
        for rank in 0..self.group.size() {
            let Some(second) = self.seconds.remove(&(self.told.taken, rank)) else { continue };
            is_current &= second.decision == self.told.decision;
            match &mut sum {
                None => sum = Some(second.sample),
                Some(sum) => add(sum, &second.sample),
            }
        }
        self.told.taken += 1;
        (sum.unwrap_or_default(), is_current)
    }

    /// The others: tell rank 0 what it has not taken, and do what it says.
    fn follow(&mut self, second_now: u64) -> Decision {
        let mut decision = Decision::Hold;
        for (_, told) in self.group.heard::<Told>(USERS) {
            self.told.taken = self.told.taken.max(told.taken);
            self.seconds.retain(|(index, _), _| *index >= told.taken);
            self.told.is_over |= told.is_over;
            if told.decision > self.told.decision {
                self.carry_out(told.decision, told.users, second_now);
            }
            decision = self.answer();
        }
        if std::mem::take(&mut self.has_news) {
            let seconds: Vec<(u64, &Second)> =
                self.seconds.iter().map(|(&(index, _), second)| (index, second)).collect();
            self.group.say(SECONDS, &seconds);
        }
        decision
    }

    /// Conclusion of the autoscaler; none where another rank decides.
    pub(super) fn conclude(&self) -> Option<Conclusion> {
        self.judge.as_ref().map(|judge| judge.autoscaler.conclude())
    }
}

/// Adds another rank's second of the same time.
fn add(sum: &mut Sample<LatencySet>, one: &Sample<LatencySet>) {
    sum.length_ns = sum.length_ns.max(one.length_ns);
    sum.storage_bytes += one.storage_bytes;
    sum.judged_bytes += one.judged_bytes;
    sum.tokens += one.tokens;
    for (sum, one) in sum.classes.iter_mut().zip(&one.classes) {
        sum.add(one);
    }
    for (sum, one) in sum.open.iter_mut().zip(&one.open) {
        sum.add(one);
    }
    sum.read.add(&one.read);
    sum.write.add(&one.write);
    sum.read_device.add(&one.read_device);
    sum.write_device.add(&one.write_device);
    sum.storage_waits_ns += one.storage_waits_ns;
    sum.requests_queued += one.requests_queued;
    sum.requests_served += one.requests_served;
    sum.time.add(&one.time);
    sum.context.add(&one.context);
}

#[cfg(test)]
#[path = "over_ranks_test.rs"]
mod tests;
