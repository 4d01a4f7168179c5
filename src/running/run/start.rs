//! When the load of a real run begins: as soon as it is ready, at a time of the wall clock, or when
//! all ranks of a launch are ready.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfall_core::clock::{Nanos, SECOND, monotonic_now};

use super::Ending;
use super::phases::Phase;
use crate::group::Group;

/// When the load begins.
#[derive(Clone, Debug, Default)]
pub enum Start {
    /// As soon as the run is ready.
    #[default]
    WhenReady,
    /// At that time, s since 1970.
    AtUnix(u64),
    /// When all ranks are ready.
    Together(Arc<Group>),
}

impl Start {
    /// Whether there is anything to wait for.
    pub fn gathers(&self) -> bool {
        !matches!(self, Start::WhenReady)
    }

    /// The run has ended: the other ranks need not wait, or should end too.
    pub(super) fn ended(&self, ending: &Ending) {
        let Start::Together(ranks) = self else { return };
        match ending {
            Ending::Complete => ranks.end(),
            Ending::Interrupted => ranks.fail("it was interrupted"),
            Ending::Failed(why) => ranks.fail(why),
        }
    }
}

pub(super) struct Awaited {
    start: Start,
    /// When the load begins, once that is known.
    pub(super) begins: Option<Nanos>,
    /// Why it can't be met any more.
    failure: Option<String>,
    is_announced: bool,
}

impl Awaited {
    pub(super) fn new(start: Start) -> Awaited {
        Awaited { start, begins: None, failure: None, is_announced: false }
    }

    /// Tells, in the phase for that, that this run is ready, and looks when the load begins.
    pub(super) fn look(&mut self, phase: Phase) {
        if phase == Phase::Gather && !self.is_announced {
            self.is_announced = true;
            self.announce();
        }
        if let (None, Start::Together(ranks)) = (self.begins, &self.start) {
            self.begins = ranks.begins();
        }
    }

    fn announce(&mut self) {
        match &self.start {
            Start::WhenReady => self.begins = Some(monotonic_now()),
            Start::Together(ranks) => ranks.ready(),
            Start::AtUnix(start_s) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now = Nanos::from_ns(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
                let start = SECOND.saturating_mul(*start_s);
                match start.checked_sub(now) {
                    Some(ahead) => self.begins = Some(monotonic_now().saturating_add(ahead)),
                    None => {
                        self.failure = Some(format!(
                            "the run was ready {} s after the time of --start-at: give a later \
                             one, or one of --preallocate reserve, fewer users and fewer documents",
                            (now - start).div_ceil(SECOND)
                        ));
                    }
                }
            }
        }
    }

    /// Why the run can't go on.
    pub(super) fn failure(&self) -> Option<String> {
        match &self.start {
            Start::Together(ranks) => ranks.failure(),
            Start::WhenReady | Start::AtUnix(_) => self.failure.clone(),
        }
    }

    /// Description of the wait for the other ranks; empty if there is none.
    pub(super) fn awaits(&self) -> String {
        match (&self.start, self.begins) {
            (Start::Together(ranks), None) => ranks.awaits(),
            _ => String::new(),
        }
    }
}
