//! The result of a run, from what it came to and what was sampled beside it, and its document.

use std::time::{SystemTime, UNIX_EPOCH};

use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_host::{BlockDelta, Cost, Launcher, Machine};
use ringfall_model::facts::{GpuBacking, Window};
use ringfall_model::figures::figure::OfRun;
use ringfall_model::{Document, RunResult, warnings_of};
use ringfall_report::show::fio_job;
use ringfall_running::run::{Cleanup, Ending, RunOutcome};

use super::super::memory::peak_memory_bytes;
use super::shortages;
use super::teller::Teller;

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

/// The result, and what is to be deleted once it is kept.
pub(super) fn result_of(teller: &Teller<'_>, outcome: RunOutcome) -> (RunResult, Option<Cleanup>) {
    let (plan, read, ended) = (teller.plan, &teller.read, monotonic_now());
    let edges = teller.edges();
    let kernel = edges.and_then(|(before, after)| {
        Some(BlockDelta::between(&teller.disk_names()?, before.disks?, after.disks?))
    });
    let cost =
        edges.and_then(|(before, after)| Some(before.cost.as_ref()?.until(after.cost.as_ref()?)));
    let seconds = (outcome.window.1 - outcome.window.0).as_secs_f64();
    let tiers = shortages::tiers(plan, teller.storage_bytes, &outcome);
    let shortages = shortages::of(&teller.shortages, &outcome);
    let drives = teller.drive_outcomes(&outcome);
    let mut figures = outcome.figures;
    for (index, second) in figures.timeline.iter_mut().enumerate() {
        let users = outcome.users.get(index).or(outcome.users.last());
        second.users = users.copied().unwrap_or(plan.users);
    }
    let mut machine = Machine { gpu: gpus_of(teller), ..teller.machine.clone() };
    machine.note_changed_limits();
    let mut result = RunResult {
        plan: plan.clone(),
        command_line: teller.begin.command_line.clone(),
        machine,
        launcher: Launcher::look(),
        window: Window {
            start_unix_s: begun_unix_s(outcome.window.0),
            seconds,
            warmup_seconds: plan.warmup_s as f64,
            drain_seconds: teller
                .after
                .as_ref()
                .map_or(0.0, |after| (ended - after.at).as_secs_f64()),
        },
        interrupted: outcome.ending == Ending::Interrupted,
        failure: match outcome.ending {
            Ending::Failed(sentence) => Some(sentence),
            Ending::Complete | Ending::Interrupted => None,
        },
        figures,
        tiers,
        shortages,
        gpu: teller.gpu.clone(),
        source: read.source.clone(),
        validation: read.validation.clone(),
        facts: teller.facts.clone(),
        drives,
        kernel,
        kernel_chain: teller.chain_deltas(),
        kernel_seconds: teller.kernel_seconds(),
        drive_accounts: teller.drive_logs.accounts(),
        block_trace: teller.block_trace.clone(),
        simulation: None,
        precondition: teller.prepared.precondition.clone(),
        roofline: teller.prepared.roofline.clone().or_else(|| read.roofline.clone()),
        cost: Cost { peak_rss_bytes: peak_memory_bytes(), ..cost.unwrap_or_default() },
        warnings: Vec::new(),
    };
    result.warnings = warnings_of(&result);
    (result, outcome.cleanup)
}

fn gpus_of(teller: &Teller<'_>) -> Option<String> {
    let gpu = teller.gpu.as_ref().filter(|gpu| gpu.backing.is_some_and(GpuBacking::is_gpu))?;
    let names: Vec<&str> = gpu.devices.iter().map(|device| device.name.as_str()).collect();
    Some(names.join(", "))
}
