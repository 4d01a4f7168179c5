//! Capacities that the tiers reached, and shortfalls against the requested ones.

use ringfall_core::clock::Nanos;
use ringfall_core::key::{TIER_COUNT, Tier};

use ringfall_config::Plan;
use ringfall_model::facts::{TierShortage, TierState};
use ringfall_running::run::RunOutcome;
use ringfall_running::store::Store;

/// Shortages known when the run began.
pub(super) fn at_first(plan: &Plan, store: &Store) -> Vec<TierShortage> {
    let cpu = plan.cpu_memory_wanted.as_ref().map(|(wanted_bytes, why)| TierShortage {
        tier: Tier::Cpu,
        wanted_bytes: *wanted_bytes,
        given_bytes: plan.cpu_memory_bytes,
        since_s: None,
        until_s: None,
        why: why.clone(),
    });
    let storage = store.wanted_bytes.map(|wanted_bytes| TierShortage {
        tier: Tier::Storage,
        wanted_bytes,
        given_bytes: store.capacity_bytes(),
        since_s: None,
        until_s: None,
        why: match store.is_file_limited {
            true => "the limit of file sizes (ulimit -f) allows no more".to_owned(),
            false => "its file system has no more free".to_owned(),
        },
    });
    [cpu, storage].into_iter().flatten().collect()
}

/// The same, and what could not be had while the run went on.
pub(super) fn of(at_first: &[TierShortage], outcome: &RunOutcome) -> Vec<TierShortage> {
    let later = outcome.shortages.iter().map(|shortage| {
        let seconds = |at: Nanos| at.as_secs_f64() - outcome.window.0.as_secs_f64();
        TierShortage {
            tier: shortage.tier,
            wanted_bytes: shortage.wanted_bytes,
            given_bytes: shortage.given_bytes,
            since_s: Some(seconds(shortage.at)),
            until_s: shortage.until.map(seconds),
            why: shortage.why.clone(),
        }
    });
    at_first.iter().cloned().chain(later).collect()
}

/// Contents of each tier at the end, with the capacity that it then has.
pub(super) fn tiers(
    plan: &Plan,
    storage_bytes: u64,
    outcome: &RunOutcome,
) -> [TierState; TIER_COUNT] {
    let opened = [plan.gpu_memory_bytes, plan.cpu_memory_bytes, storage_bytes];
    Tier::ALL.map(|tier| {
        // A tier on several drives may have been lowered more than once.
        let lowered = outcome.shortages.iter().filter(|shortage| shortage.tier == tier);
        let lowered = lowered.filter(|shortage| shortage.until.is_none());
        let lowered = lowered.min_by_key(|shortage| shortage.given_bytes);
        TierState {
            entries: outcome.tiers[tier.index()].entries,
            used_bytes: outcome.tiers[tier.index()].bytes,
            capacity_bytes: lowered.map_or(opened[tier.index()], |shortage| shortage.given_bytes),
        }
    })
}
