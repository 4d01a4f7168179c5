//! Promises that the phases keep, whatever happens: orders come in their order, the end is reached
//! and says the truth, and what was measured is handed over before it can be lost.

use ringfall_core::clock::Nanos;
use ringfall_running::run::{Ending, Order, Phase};

use crate::fate::{Fate, What};

/// Orders and incidents with their times, as far as the phases are judged by them.
#[derive(Default)]
pub(super) struct Diary {
    orders: Vec<(Nanos, Order)>,
    interruptions: Vec<(Nanos, Phase)>,
    incidents: Vec<(Phase, What)>,
    /// Failures that the run was told of and cannot survive.
    failures: Vec<(Nanos, String)>,
    /// Looks at the shards since the first interruption.
    looks: u64,
    /// Requests of each shard that had ended when they were last handed over.
    kept: Option<Vec<u64>>,
}

/// Place of an order in a run; the one that may come more than once has the same place each time.
fn place(order: &Order) -> usize {
    match order {
        Order::Open => 0,
        Order::Precondition => 1,
        Order::Assemble => 2,
        Order::Populate => 3,
        Order::Start { .. } => 4,
        Order::BeginWindow => 5,
        Order::Stop { .. } => 6,
        Order::Keep { .. } => 7,
        Order::Report { .. } => 8,
    }
}

impl Diary {
    pub(super) fn order(&mut self, at: Nanos, order: &Order) {
        self.orders.push((at, order.clone()));
    }

    pub(super) fn incident(&mut self, phase: Phase, what: What) {
        self.incidents.push((phase, what));
    }

    pub(super) fn failure(&mut self, at: Nanos, sentence: &str) {
        self.failures.push((at, sentence.to_owned()));
    }

    pub(super) fn look(&mut self) {
        self.looks += u64::from(!self.interruptions.is_empty());
    }

    /// Records that the results so far are handed over.
    pub(super) fn keep(&mut self, requests_ended: Vec<u64>) {
        self.kept = Some(requests_ended);
    }

    /// Somebody interrupts the run. The second time ends a real process at once: what was measured
    /// in its window must have been handed over by then.
    pub(super) fn interrupt(&mut self, at: Nanos, phase: Phase) -> Result<(), String> {
        let is_second = !self.interruptions.is_empty() && self.looks > 0;
        self.interruptions.push((at, phase));
        let has_measured = self.stopped_at().is_some() && phase == Phase::Drain;
        match is_second && has_measured && self.kept.is_none() {
            true => Err("a second signal would have lost what was measured".to_owned()),
            false => Ok(()),
        }
    }

    /// Whether somebody has interrupted it.
    pub(super) fn is_interrupted(&self) -> bool {
        !self.interruptions.is_empty()
    }

    /// Incidents that came, by the phase that they came in.
    pub(super) fn incidents(&self) -> &[(Phase, What)] {
        &self.incidents
    }

    /// Whether what was measured was handed over early.
    pub(super) fn has_kept(&self) -> bool {
        self.kept.is_some()
    }

    fn stopped_at(&self) -> Option<Nanos> {
        let is_stop = |(_, order): &&(Nanos, Order)| matches!(order, Order::Stop { .. });
        self.orders.iter().find(is_stop).map(|(at, _)| *at)
    }

    /// Why the run ended, and its window.
    ///
    /// # Errors
    /// It never reported.
    pub(super) fn report(&self) -> Result<(&Ending, (Nanos, Nanos)), String> {
        match self.orders.last() {
            Some((_, Order::Report { ending, window })) => Ok((ending, *window)),
            last => Err(format!("the last order is {last:?}, not to report")),
        }
    }

    /// Everything that must hold once the run is over. `requests_ended`: of each shard.
    pub(super) fn check(
        &self,
        fate: &Fate,
        errors_max: u64,
        errors: u64,
        requests_ended: &[u64],
    ) -> Result<(), String> {
        self.orders_are_in_order()?;
        let (ending, window) = self.report()?;
        if window.0 > window.1 {
            return Err(format!("the window ends before it begins: {window:?}"));
        }
        self.ending_is_true(ending, fate, errors >= errors_max)?;
        self.what_ends_early_is_kept(ending)?;
        let kept = self.kept.iter().flatten().zip(requests_ended);
        match kept.into_iter().find(|(kept, ended)| kept > ended) {
            Some((kept, ended)) => Err(format!("{kept} requests were kept of {ended} that ended")),
            None => Ok(()),
        }
    }

    fn orders_are_in_order(&self) -> Result<(), String> {
        let places: Vec<usize> = self.orders.iter().map(|(_, order)| place(order)).collect();
        let follows = |pair: &[usize]| match (pair[0], pair[1]) {
            // Before it populates, nothing is in flight.
            (0..=2 | 6 | 7, 8) | (7, 7) => true,
            (before, after) => after == before + 1 && before != 7,
        };
        let is_right = places.first() == Some(&0) && places.windows(2).all(follows);
        match is_right {
            true => Ok(()),
            false => Err(format!("orders came in the wrong order: {:?}", self.orders)),
        }
    }

    fn ending_is_true(&self, ending: &Ending, fate: &Fate, is_failing: bool) -> Result<(), String> {
        let stopped_at = self.stopped_at().unwrap_or(Nanos::MAX);
        let before_stop = |at: &Nanos| *at < stopped_at;
        let interrupted = self.interruptions.iter().any(|(at, _)| before_stop(at));
        let failed = self.failures.iter().any(|(at, _)| before_stop(at));
        let is_true = match ending {
            Ending::Complete => !interrupted && !failed,
            Ending::Interrupted => self.is_interrupted(),
            Ending::Failed(why) => {
                self.failures.iter().any(|(_, sentence)| sentence == why)
                    || (why.contains("I/O errors") && is_failing)
                    || (why.contains("has ended for") && fate.has_silence())
                    || (why.contains("before the warm-up was over") && fate.rows.is_some())
            }
        };
        match is_true {
            true => Ok(()),
            false => Err(format!(
                "it ended as {ending:?}, after interruptions {:?}, failures {:?}, incidents {:?}",
                self.interruptions, self.failures, self.incidents
            )),
        }
    }

    /// At once, if the run was stopped because of it; otherwise at the latest before the report.
    fn what_ends_early_is_kept(&self, ending: &Ending) -> Result<(), String> {
        let is_kept = |(_, order): &(Nanos, Order)| match (order, ending) {
            (Order::Keep { ending }, Ending::Failed(_)) => ending == self.ending_of_report(),
            (Order::Keep { .. }, _) => true,
            _ => false,
        };
        let has_measured = self.stopped_at().is_some();
        if !has_measured || *ending == Ending::Complete || self.orders.iter().any(is_kept) {
            return Ok(());
        }
        Err(format!("it ended as {ending:?}, and what was measured was not handed over before"))
    }

    fn ending_of_report(&self) -> &Ending {
        self.report().map_or(&Ending::Complete, |(ending, _)| ending)
    }
}
