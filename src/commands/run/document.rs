//! The document of a run, with what only the program's showing half can put in.

use std::time::{SystemTime, UNIX_EPOCH};

use ringfall_core::clock::{Nanos, monotonic_now};

use ringfall_model::figures::figure::OfRun;
use ringfall_model::{Document, RunResult};
use ringfall_report::show::fio_job;

/// The document; a traced run is in it as a fio job too, as the reference has it.
pub(super) fn document_of(result: &RunResult) -> Document {
    let mut document = Document::of(result);
    if document.device_latency_tracing.as_ref().is_some() {
        document.fio_workload = OfRun::maybe(fio_job(&document));
    }
    document
}

/// The time of the wall clock, s since 1970, at a moment that has passed.
pub(super) fn begun_unix_s(moment: Nanos) -> f64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |age| age.as_secs_f64());
    wall - monotonic_now().saturating_sub(moment).as_secs_f64()
}
