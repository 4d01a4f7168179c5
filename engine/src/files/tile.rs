//! Requests under way, and the tiles that they consist of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::course::Course;
use super::load::{FilePass, Shared};
use super::outcome::FileOutcome;
use super::script::FileScript;
use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;
use crate::ring::PathOp;

/// A request under way, seen by whoever does its tiles.
struct Flight {
    began: Nanos,
    tiles: AtomicUsize,
    has_failed: AtomicBool,
    was_stopped: AtomicBool,
}

/// A tile, before or while somebody does it.
pub(super) struct Tile<'a> {
    shared: &'a Shared<'a>,
    flight: Arc<Flight>,
    scripts: std::vec::IntoIter<FileScript>,
    course: Option<Course>,
}

impl<'a> Tile<'a> {
    /// The next operation; none when the tile is done.
    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Option<PathOp> {
        loop {
            if let Some(course) = &mut self.course {
                if let Some(op) = course.next(buffer) {
                    return Some(op);
                }
                let has_failed = course.failure().is_some();
                self.flight.has_failed.fetch_or(has_failed, Ordering::Relaxed);
            }
            let script = self.scripts.next()?;
            if self.shared.is_over() {
                self.flight.was_stopped.store(true, Ordering::Relaxed);
                self.course = None;
                return None;
            }
            self.course = Some(Course::new(Some(self.shared.load.seed), script));
        }
    }

    /// Takes note that the operation is made now.
    pub(super) fn begins(&mut self, now: Nanos) {
        if let Some(course) = &mut self.course {
            course.begins(now);
        }
    }

    /// Takes the answer to the operation: bytes moved, 0, or a negative errno.
    pub(super) fn done(&mut self, result: i32, now: Nanos, outcome: &mut FileOutcome) {
        if let Some(course) = &mut self.course {
            course.done(result, now, outcome);
        }
        if outcome.refuses_direct {
            self.shared.gives_up.store(true, Ordering::Relaxed);
        }
    }

    /// Takes note that the drive does not answer.
    pub(super) fn give_up(&mut self, outcome: &mut FileOutcome) {
        if let Some(course) = &mut self.course {
            course.give_up(outcome);
        }
        self.flight.has_failed.store(true, Ordering::Relaxed);
    }

    /// Ends the tile; whether its request is over with it, which is counted then.
    pub(super) fn end(self, now: Nanos, outcome: &mut FileOutcome) -> bool {
        let flight = self.flight;
        // What the other tiles said of the request is seen by the last of them.
        if flight.tiles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return false;
        }
        if flight.has_failed.load(Ordering::Relaxed) {
            self.shared.has_failed.store(true, Ordering::Relaxed);
            outcome.requests_failed += 1;
        } else if flight.was_stopped.load(Ordering::Relaxed) {
            outcome.requests_stopped += 1;
        } else {
            outcome.requests.record(now.saturating_sub(flight.began).as_ns());
        }
        true
    }
}

/// Source of the requests of a pass.
pub(super) struct Feed<'a> {
    shared: &'a Shared<'a>,
    pass: FilePass<'a>,
    is_exhausted: bool,
    refusal: Option<SetupError>,
}

impl<'a> Feed<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, pass: FilePass<'a>) -> Feed<'a> {
        Feed { shared, pass, is_exhausted: false, refusal: None }
    }

    /// The tiles of the next request, which begins now; none when the pass is over, or the request
    /// makes no sense.
    pub(super) fn take(&mut self) -> Option<impl Iterator<Item = Tile<'a>> + use<'a>> {
        if self.is_exhausted || self.shared.is_over() {
            return None;
        }
        let request = self.pass.next();
        self.is_exhausted = request.is_none();
        let request = request?;
        if let Err(refusal) = request.check(self.shared.load.largest_bytes) {
            (self.refusal, self.is_exhausted) = (Some(refusal), true);
            return None;
        }
        let flight = Arc::new(Flight {
            began: monotonic_now(),
            tiles: AtomicUsize::new(request.tiles.len()),
            has_failed: AtomicBool::new(false),
            was_stopped: AtomicBool::new(false),
        });
        let shared = self.shared;
        Some(request.tiles.into_iter().map(move |tile| Tile {
            shared,
            flight: Arc::clone(&flight),
            scripts: tile.scripts.into_iter(),
            course: None,
        }))
    }

    /// Whether all requests made sense.
    pub(super) fn check(self) -> Result<(), SetupError> {
        self.refusal.map_or(Ok(()), Err)
    }
}
