//! The result of a run, from what it came to and what was sampled beside it.

use ringfall_config::Plan;
use ringfall_core::clock::{SECOND, monotonic_now};
use ringfall_core::key::Tier;
use ringfall_host::{BlockDelta, Cost, Launcher, Machine};
use ringfall_model::facts::{GpuBacking, TimelineDirection, TimelineSecond, TimelineTier, Window};
use ringfall_model::{RunResult, warnings_of};
use ringfall_running::run::{Cleanup, Ending, RunOutcome};

use super::document::begun_unix_s;
use super::shortages;
use super::teller::Teller;

/// The result, and what is to be deleted once it is kept.
pub(super) fn result_of(teller: &Teller<'_>, outcome: RunOutcome) -> (RunResult, Option<Cleanup>) {
    let (plan, read, ended) = (teller.plan, &teller.read, monotonic_now());
    let (before, after) = (teller.before.as_ref(), teller.after.as_ref());
    let kernel = before.zip(after).and_then(|(before, after)| {
        Some(BlockDelta::between(&teller.disk_names()?, before.0?, after.0?))
    });
    let cost = before.zip(after).and_then(|(before, after)| Some(before.1?.until(&after.1?)));
    let seconds = (outcome.window.1 - outcome.window.0).as_secs_f64();
    let tiers = shortages::tiers(plan, teller.storage_bytes, &outcome);
    let shortages = shortages::of(&teller.shortages, &outcome);
    let timeline = timeline_of(plan, &outcome);
    let drives = teller.drive_outcomes(&outcome);
    let mut result = RunResult {
        plan: plan.clone(),
        command_line: teller.begin.command_line.clone(),
        machine: Machine { gpu: gpus_of(teller), ..teller.machine.clone() },
        launcher: Launcher::look(),
        window: Window {
            start_unix_s: begun_unix_s(outcome.window.0),
            seconds,
            warmup_seconds: plan.warmup_s as f64,
            drain_seconds: after.map_or(0.0, |after| (ended - after.2).as_secs_f64()),
        },
        interrupted: outcome.ending == Ending::Interrupted,
        failure: match outcome.ending {
            Ending::Failed(sentence) => Some(sentence),
            Ending::Complete | Ending::Interrupted => None,
        },
        engine: *outcome.metrics,
        requests: outcome.totals.requests,
        cache: outcome.totals.cache,
        tiers,
        shortages,
        gpu: teller.gpu.clone(),
        timeline,
        allocation_wait: outcome.totals.allocation_wait,
        workload: outcome.workload,
        autoscale: outcome.autoscale,
        queue_depth: outcome.queue_depth,
        source: read.source.clone(),
        feed: outcome.feed,
        validation: read.validation.clone(),
        space: outcome.space,
        facts: teller.facts.clone(),
        shortfalls: outcome.shortfalls,
        errors: outcome.errors,
        population_failed: outcome.population_failed,
        watchdog: outcome.watchdog,
        drives,
        kernel,
        kernel_chain: teller.chain_deltas(),
        kernel_seconds: teller.kernel_seconds(),
        block_trace: teller.block_trace.clone(),
        simulation: None,
        precondition: teller.prepared.precondition.clone(),
        objects: outcome.objects,
        roofline: teller.prepared.roofline.clone().or_else(|| read.roofline.clone()),
        cost: cost.unwrap_or_else(|| Cost {
            peak_rss_bytes: ringfall_host::peak_rss_bytes(),
            ..Cost::default()
        }),
        warnings: Vec::new(),
    };
    result.warnings = warnings_of(&result);
    (result, outcome.cleanup)
}

/// The GPUs that the run used.
fn gpus_of(teller: &Teller<'_>) -> Option<String> {
    let gpu = teller.gpu.as_ref().filter(|gpu| gpu.backing.is_some_and(GpuBacking::is_gpu))?;
    let names: Vec<&str> = gpu.devices.iter().map(|device| device.name.as_str()).collect();
    Some(names.join(", "))
}

fn timeline_of(plan: &Plan, outcome: &RunOutcome) -> Vec<TimelineSecond> {
    let mut end_s = 0.0;
    let users_of = |index: usize| outcome.users.get(index).or(outcome.users.last()).copied();
    let rows = outcome.timeline.seconds().iter().enumerate().map(|(index, second)| {
        let seconds = second.length_ns as f64 / SECOND.as_ns_f64();
        end_s += seconds;
        let direction = |tier: Tier, index: usize| {
            let figures = &second.tiers[tier.index()][index];
            let us = |place: usize| figures.quantiles_ns.map(|quantiles| quantiles[place] / 1_000);
            TimelineDirection {
                bytes: figures.bytes,
                operations: figures.operations,
                latency_p50_us: us(0),
                latency_p95_us: us(1),
                latency_p99_us: us(2),
            }
        };
        TimelineSecond {
            end_s,
            seconds,
            tiers: Tier::ALL
                .map(|tier| TimelineTier { read: direction(tier, 0), write: direction(tier, 1) }),
            io: second.io,
            gauges: second.gauges,
            users: users_of(index).unwrap_or(plan.users),
            requests_completed: second.requests.completed,
            generated_tokens: second.requests.tokens,
            hits: second.requests.hits,
            misses: second.requests.misses,
            errors: second.errors,
        }
    });
    rows.collect()
}
