//! A run in log lines: milestones for everybody who asks for them (`info`), what it is made of and
//! what each phase came to (`debug`), every second of each shard (`trace`). All of them are told by
//! the run's own thread, so that they cost the data path nothing.

use ringfall_core::clock::{MILLISECOND, Nanos};
use ringfall_core::facts::ShardFacts;
use ringfall_core::key::ShardId;
use ringfall_core::units::MIB;

use super::phases::{Order, Phase};
use super::{RunSettings, ShardStatus};
use crate::store::Store;

/// An order is about to be carried out.
pub(super) fn order(order: &Order) {
    match order {
        Order::Open => tracing::info!("opening the store"),
        Order::Precondition => tracing::info!("doing what is to be done before the run"),
        Order::Assemble => tracing::info!("starting the shards"),
        Order::Populate => tracing::info!("writing what must be there before the measurement"),
        Order::Start { .. } => tracing::info!("the load begins"),
        Order::BeginWindow => tracing::info!("the measurement window begins"),
        Order::Stop { .. } => tracing::info!("the window is over: ending what is in flight"),
        Order::Keep { ending } => tracing::info!(?ending, "saving what was measured so far"),
        Order::Report { ending, .. } => tracing::info!(?ending, "collecting what was measured"),
    }
}

/// Everything is open, and nothing has run yet.
pub(super) fn opened(settings: &RunSettings, store: &Store, facts: &[ShardFacts]) {
    for drive in &store.drives {
        let capacity_mib = drive.capacity_bytes() / MIB;
        tracing::info!("opened {}: up to {capacity_mib} MiB", drive.path().display());
    }
    if let Some(first) = facts.first() {
        let alike = facts.iter().filter(|facts| facts.ring == first.ring).count();
        tracing::info!("rings of {alike} of {} shards: {:?}", facts.len(), first.ring);
    }
    for (index, facts) in (0..).zip(facts) {
        let core = settings.core_of(index).map_or("any".to_owned(), |core| core.to_string());
        let pages = if facts.huge_pages { "huge" } else { "ordinary" };
        let buffers_mib = facts.buffer_bytes / MIB;
        tracing::debug!("shard {index}: core {core}, {buffers_mib} MiB of buffers, {pages} pages");
    }
}

pub(super) fn phase_over(phase: Phase, lasted: Nanos, status: &ShardStatus) {
    let ShardStatus { requests, errors, ended, populated, in_flight, .. } = status;
    let completed = requests.completed;
    let lasted_ms = lasted / MILLISECOND;
    tracing::debug!(completed, errors, ended, populated, in_flight, "{phase} took {lasted_ms} ms");
}

/// A shard has said how it is getting on, as it does once a second.
pub(super) fn tick(shard: ShardId, status: &ShardStatus) {
    tracing::trace!(shard = shard.0, ?status, "a second of a shard");
}
