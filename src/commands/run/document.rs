//! The document of a run, with what only the program's showing half can put in.

use crate::results::document::figure::OfRun;
use crate::results::{Document, RunResult};
use crate::show::fio_job;

/// The document; a traced run is in it as a fio job too, as the reference has it.
pub(super) fn document_of(result: &RunResult) -> Document {
    let mut document = Document::of(result);
    if document.device_latency_tracing.as_ref().is_some() {
        document.fio_workload = OfRun::maybe(fio_job(&document));
    }
    document
}
