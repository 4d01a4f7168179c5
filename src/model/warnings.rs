//! Warnings to read before trusting the numbers: as data, each with the flag to try.

use std::collections::BTreeSet;

use ringfall_config::{Arrival, Preallocate, TraceKind, Traffic};
use ringfall_core::clock::Nanos;
use ringfall_core::facts::GpuKind;
use ringfall_core::key::Tier;
use ringfall_core::model::LatencySpread;
use ringfall_core::units::gib;
use ringfall_host::{Machine, counted, human};
use ringfall_workloads::autoscale::{Answer, Entry};
use ringfall_workloads::contract::Class;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::cold::{ColdReads, ColdVerdict};
use crate::facts::{
    GpuBacking, RequestStats, Roofline, class_index, metrics_by_drive, slow_drives,
};
use crate::full::{CpuQuota, Evicted, room_waits_follow};
use crate::health::SAMPLES_MIN;
use crate::{RunResult, deep_queue, saturation, steadiness};

/// Something to know before trusting the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Warning {
    /// Stable name of the warning, for scripts.
    pub code: Code,
    /// Observation, with its value.
    pub text: String,
    /// Flag that may help, with its value or after the direction of the change (`more
    /// --num-users`); null when none does.
    pub flag_to_try: Option<String>,
}

/// Largest difference between our byte count and the kernel's.
const KERNEL_TOLERANCE: f64 = 0.01;
/// Share of the writes that were a block's first before it is worth a word.
const FIRST_TOUCH_SHARE: f64 = 0.05;

/// Share of the device's limits above which they can't be its limits; below it is what two
/// measurements of one device differ by.
const ROOFLINE_SHARE_MAX: f64 = 1.05;

/// Share by which the P95 of all requests may part from that of those that finished before it is
/// worth a word, and share of requests that may be unfinished where that P95 has no upper bound.
const UNFINISHED_TOLERANCE: f64 = 0.1;

/// Share of looks for an entry that should find it: with fewer, most are served by misses.
const HIT_RATE_MIN: f64 = 0.5;

/// Share of the window for which a shard may stand still before the figures are not to be used.
const STANDSTILL_SHARE: f64 = 0.05;
/// A gap that a busy machine makes now and then is none, s.
const STANDSTILL_MIN_S: f64 = 0.5;

/// Name that the removal of a layout's file has among its operations.
const FILE_REMOVAL: &str = "unlink";

fn warning(code: Code, text: String, flag_to_try: Option<&str>) -> Warning {
    Warning { code, text, flag_to_try: flag_to_try.map(str::to_owned) }
}

/// Collects the warnings about a run's numbers.
pub fn warnings_of(result: &RunResult) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(simulation) = &result.simulation {
        warnings.push(warning(Code::Simulated, simulation.told(), None));
    }
    if let Some(LatencySpread { median, p99 }) = result.plan.injected {
        let told = |time: Nanos| format!("{} ms", time.as_ns_f64() / 1e6);
        let least = match p99 == median {
            true => told(median),
            false => format!("{} (P50) and {} (P99)", told(median), told(p99)),
        };
        let text = format!(
            "the drive was slowed down: --inject-latency had each read and write take at least \
             {least}, which all figures include"
        );
        warnings.push(warning(Code::LatencyInjected, text, None));
    }
    of_the_device(result, &mut warnings);
    of_the_requests(result, &mut warnings);
    of_the_unfinished(result, &mut warnings);
    of_the_gpu(result, &mut warnings);
    of_the_space(result, &mut warnings);
    of_the_waits_for_space(result, &mut warnings);
    of_the_pace(result, &mut warnings);
    of_the_cpu_quota(result, &mut warnings);
    of_the_misses(result, &mut warnings);
    of_the_machine(result, &mut warnings);
    // A run that failed says why, and what would help there.
    if result.requests.completed() == 0 && result.failure.is_none() {
        let stood_still = warnings.iter().any(|one| one.code == Code::StoodStill);
        let (why, flag) = match result.interrupted {
            true => (" before a signal ended the run", None),
            false if stood_still => ("", Some("longer --duration")),
            false => (": entries may be too large for the time given", Some("longer --duration")),
        };
        let text = format!("no request finished{why}");
        warnings.push(warning(Code::NothingCompleted, text, flag));
    }
    warnings
}

/// Warns where the kernel's counters disagree with the engine's or are missing.
fn of_the_device(result: &RunResult, warnings: &mut Vec<Warning>) {
    let engine = &result.engine;
    if let Some(kernel) = &result.kernel {
        // The kernel counts what failed too, of which the engine knows how many there were.
        let failed_bytes = engine.error_count() * u64::from(result.plan.io_size_bytes);
        let ours = engine.io_read.bytes + engine.io_write.bytes + failed_bytes;
        let theirs = kernel.read_bytes + kernel.write_bytes;
        if let Some(ratio) = crate::facts::quotient(theirs, ours)
            && ratio > 1.0 + KERNEL_TOLERANCE
            && !is_shared(result)
        {
            let text = format!(
                "the kernel counted {:.1} % of the bytes that ringfall {} on {}: something \
                 else uses the device, or the run was short",
                ratio * 100.0,
                if failed_bytes > 0 { "moved or tried to move" } else { "moved" },
                kernel.device
            );
            warnings.push(warning(Code::KernelDisagrees, text, None));
        }
        if let Some(ratio) = crate::facts::quotient(kernel.write_bytes, engine.io_write.bytes)
            && ratio < 1.0 - KERNEL_TOLERANCE
        {
            let text = format!(
                "the kernel counted only {:.1} % of the bytes that ringfall wrote to {}: the rest \
                 had not reached it when the window closed, or went to another device",
                ratio * 100.0,
                kernel.device
            );
            warnings.push(warning(Code::KernelDisagrees, text, None));
        }
    }
    of_the_reads(result, warnings);
    of_the_drives(result, warnings);
    of_the_drive_logs(result, warnings);
    if let Some(text) = deep_queue::told(result) {
        warnings.push(warning(Code::DeepQueue, text, Some(deep_queue::flag_to_try(result))));
    }
    if let Some(text) = steadiness::told(result) {
        warnings.push(warning(Code::NotSteady, text, steadiness::flag_to_try(result)));
    }
    if let Some(Err(why)) = &result.block_trace {
        let text = format!("the block layer was not traced: {why}");
        warnings.push(warning(Code::NotTraced, text, None));
    }
    if let Some(Ok(trace)) = &result.block_trace
        && trace.lost_events > 0
    {
        let text = format!(
            "the block trace lost {}: its counts are too low",
            counted(trace.lost_events, "event")
        );
        warnings.push(warning(Code::TraceLost, text, None));
    }
    if let Some(share) = crate::facts::quotient(engine.first_touch_bytes, engine.io_write.bytes)
        && share > FIRST_TOUCH_SHARE
        && result.plan.preallocate != Preallocate::Write
    {
        let text = format!(
            "{:.0} % of the bytes went to blocks that had never been written, which is slower on \
             most file systems",
            share * 100.0
        );
        warnings.push(warning(Code::FirstTouch, text, Some("--preallocate write")));
    }
}

/// Reads that no device served, or that can't be followed to one.
fn of_the_reads(result: &RunResult, warnings: &mut Vec<Warning>) {
    let Some(cold) = ColdReads::of_run(result) else { return };
    match cold.verdict {
        ColdVerdict::Cached => {
            let flag = match result.is_through_page_cache() {
                true => "--layout-option direct=yes",
                false => "another --cache-dir",
            };
            warnings.push(warning(Code::ReadsCached, cold.told, Some(flag)));
        }
        // That the data is in memory has a warning of its own; and a command goes to the drive.
        ColdVerdict::Unseen if result.machine.memory().is_none() && !result.is_of_commands() => {
            warnings.push(warning(Code::ReadsUnseen, cold.told, None));
        }
        ColdVerdict::Unseen | ColdVerdict::Reached | ColdVerdict::Shared => {}
    }
}

/// Drives that failed, and those that hold the others up.
fn of_the_drives(result: &RunResult, warnings: &mut Vec<Warning>) {
    let failed = result.drives.iter().filter(|drive| drive.failed_s.is_some()).count();
    // They are counted together, and an entry may have had a part on each.
    let place = if failed > 1 { "the drives that failed" } else { "it" };
    for drive in &result.drives {
        if let Some(at) = drive.failed_s {
            let text = format!(
                "drive {} failed {at:.1} s into the measurement: {} entries ({:.2} GiB) that had a \
                 part on {place} were lost; look at dmesg and the drive's SMART log",
                drive.path,
                result.engine.counts.lost_entries,
                gib(result.engine.counts.lost_bytes)
            );
            warnings.push(warning(Code::DriveFailed, text, None));
        }
    }
    if result.drives.len() < 2 {
        return;
    }
    let metrics = metrics_by_drive(&result.engine, result.drives.len());
    for slow in slow_drives(&result.drives, &metrics) {
        let [own, median] =
            [slow.bytes_per_s, slow.median_bytes_per_s].map(|rate| human(rate as u64));
        let text = format!(
            "drive {} is much slower than the others: while it had I/Os in flight it moved \
             {own}/s, and the median drive {median}/s, with no more of them in flight on average",
            slow.path
        );
        warnings.push(warning(Code::DriveSlow, text, None));
    }
}

/// Heat, errors and conditions that drives told in their own logs.
fn of_the_drive_logs(result: &RunResult, warnings: &mut Vec<Warning>) {
    for account in &result.drive_accounts {
        let Ok(answer) = &account.answer else { continue };
        let device = &account.device;
        let throttles = answer.throttles();
        if throttles > 0 {
            let times = match throttles {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let heat = answer.after.health.temperature_c;
            let heat = heat.map_or(String::new(), |heat| format!(" ({heat} °C after the run)"));
            let text = format!(
                "drive {device} slowed down {times} against its heat{heat}, so the figures are not \
                 those of a drive that is kept cool: see to its cooling and run again"
            );
            warnings.push(warning(Code::DriveHot, text, None));
        }
        let conditions = answer.after.health.conditions();
        if !conditions.is_empty() {
            let text = format!(
                "drive {device} warns after the run that {}: its figures may not be those of a \
                 healthy drive; look at its SMART log (nvme smart-log /dev/{device})",
                conditions.join(", and that ")
            );
            warnings.push(warning(Code::DriveWarns, text, None));
        }
        if let Some(errors) = answer.grown(|log| log.media_errors).filter(|errors| *errors > 0) {
            let text = format!(
                "drive {device} counted {} that it could not correct: look at dmesg and replace \
                 the drive",
                counted(errors, "media error")
            );
            warnings.push(warning(Code::DriveMediaErrors, text, None));
        }
    }
}

/// Whether others of the same launch may use the device too.
fn is_shared(result: &RunResult) -> bool {
    result.launcher.as_ref().is_some_and(|launcher| launcher.shares_the_machine())
}

/// The flag that lets fewer requests arrive.
fn flag_for_less(result: &RunResult) -> &'static str {
    match result.plan.traffic {
        _ if result.plan.request_rate_per_s > 0.0 => "lower --request-rate",
        Traffic::Trace { .. } => "lower --trace-speedup",
        // One user each: it is the slots that they wait for.
        _ if result.plan.arrival == Arrival::Closed => "more --max-inflight-requests",
        _ => "--arrival closed",
    }
}

/// Percentiles of the requests that finished, where those that did not would change them: of all
/// such classes in one warning.
fn of_the_unfinished(result: &RunResult, warnings: &mut Vec<Warning>) {
    let mut label = "P95 of all ";
    let of_class = |class| {
        let (counts, p95) = unfinished_of(&result.requests, class)?;
        Some(format!("{counts} ({}{p95})", std::mem::take(&mut label)))
    };
    let classes: Vec<String> = Class::ALL.into_iter().filter_map(of_class).collect();
    if classes.is_empty() {
        return;
    }
    let text = format!("requests had not finished: {}", classes.join(", "));
    let flag = match result.plan.arrival {
        Arrival::Closed => "longer --duration",
        _ => flag_for_less(result),
    };
    warnings.push(warning(Code::Unfinished, text, Some(flag)));
}

/// Number of requests of a class that had not finished when the window closed, and its P95 of all;
/// none where that of those that finished is no other.
fn unfinished_of(requests: &RequestStats, class: Class) -> Option<(String, String)> {
    let at = class_index(class);
    let all = requests.latency_of_all(class);
    let p95 = all.quantile(0.95).filter(|_| all.unfinished() > 0)?;
    let survivors_ns = requests.end_to_end[at].quantile_ns(0.95);
    let parts = survivors_ns.zip(p95.estimate_ns).is_none_or(|(survivors, estimate)| {
        survivors.abs_diff(estimate) as f64 > UNFINISHED_TOLERANCE * survivors as f64
    });
    // Survivors and estimate may agree and both be wrong: in a queue that grows the unfinished wait
    // longer than any that finished.
    let of = all.finished() + all.unfinished();
    let share = all.unfinished() as f64 / of as f64;
    if !parts && (p95.at_most_ns.is_some() || share <= UNFINISHED_TOLERANCE) {
        return None;
    }
    let seconds = |ns: u64| format!("{:.2} s", Nanos::from_ns(ns).as_secs_f64());
    let of_all = match p95.number_ns() {
        Some(estimate) => seconds(estimate),
        None => format!("≥ {}", seconds(p95.at_least_ns)),
    };
    Some((format!("{} of {of} {}", all.unfinished(), Class::NAMES[at]), of_all))
}

/// Warns of requests that queued up, and of rows that could not be read.
fn of_the_requests(result: &RunResult, warnings: &mut Vec<Warning>) {
    let backlog = &result.workload;
    if backlog.users_a_sample > 1 {
        let text = format!(
            "the numbers of requests that arrived, were queued, and had not finished are \
             estimates, as are the latencies of all requests: to end soon after the interrupt, \
             the run counted them for one user in {}",
            backlog.users_a_sample
        );
        warnings.push(warning(Code::UnfinishedSampled, text, None));
    }
    if backlog.queued_at_end > u64::from(result.plan.max_inflight_requests) {
        let text = format!(
            "requests arrived faster than they were served: {} were still queued at the end, the \
             oldest for {:.1} s",
            backlog.queued_at_end,
            Nanos::from_ns(backlog.queue_age_at_end_ns).as_secs_f64()
        );
        warnings.push(warning(Code::Backlog, text, Some(flag_for_less(result))));
    }
    let skipped = [Some(&result.source.skipped), result.feed.as_ref().map(|feed| &feed.skipped)];
    for skipped in skipped.into_iter().flatten().filter(|skipped| skipped.rows > 0) {
        let first = skipped.first.as_deref().unwrap_or_default();
        let rows = counted(skipped.rows, "row");
        let text = format!("skipped {rows} that could not be read; {first}");
        warnings.push(warning(Code::SkippedRows, text, None));
    }
    if let Some(rows) = result.feed.as_ref().map(|feed| feed.disordered).filter(|rows| *rows > 0) {
        let text = format!(
            "gave {} of the trace that came out of order the preceding row's time; sort the trace \
             by time to avoid this",
            counted(rows, "row")
        );
        warnings.push(warning(Code::DisorderedRows, text, None));
    }
    if let Some(what) = result.feed.as_ref().and_then(|feed| feed.changed.as_ref()) {
        let text = format!(
            "the trace changed while it was read ({what}), so that the requests may be those of \
             neither: run again with a trace that nothing changes"
        );
        warnings.push(warning(Code::TraceChanged, text, None));
    }
    if let Some(skipped) = result.validation.as_ref().map(|v| &v.skipped)
        && skipped.rows > 0
    {
        let first = skipped.first.as_deref().unwrap_or_default();
        let text =
            format!("left out {} of the validation trace; {first}", counted(skipped.rows, "row"));
        warnings.push(warning(Code::SkippedValidationRows, text, None));
    }
    if let Some(conclusion) = result.autoscale.as_ref().filter(|found| !found.conclusive) {
        let has_moved = |entry: &Entry| entry.result.bytes_per_s > 0.0;
        let is_above =
            !conclusion.entries.iter().any(has_moved) && result.plan.cpu_memory_bytes > 0;
        let is_of_peak = matches!(conclusion.answer, Answer::Capacity(_));
        // More time does not make a flat curve rise.
        let is_flat = matches!(
            &conclusion.answer,
            Answer::Capacity(Some(found)) if found.flat_from.is_some() && conclusion.is_over()
        );
        let needs_time = !conclusion.is_over() || is_of_peak && !is_flat;
        let flag = if is_above {
            Some("--cpu-mem-gb 0")
        } else if is_flat && result.plan.arrival == Arrival::Open {
            Some("--arrival closed")
        } else {
            needs_time.then_some("longer --duration")
        };
        warnings.push(warning(Code::Autoscaler, conclusion.reason.clone(), flag));
    }
    if let Some(why) = saturation::why_none(result) {
        let text = format!("the autoscaler's answer is 0 users: {why}");
        warnings.push(warning(Code::AutoscalerNone, text, None));
    }
    if result.plan.enable_autoscaling && result.plan.arrival == Arrival::Open {
        let slots = result.plan.max_inflight_requests;
        let text = format!(
            "users did not wait for answers (--arrival open): beyond the limit the queue keeps \
             growing; the search served up to {slots} requests at a time, and a run to try its \
             answer needs --max-inflight-requests {slots} too"
        );
        warnings.push(warning(Code::OpenAutoscaling, text, Some("--arrival closed")));
    }
}

/// A GPU tier that was not one.
fn of_the_gpu(result: &RunResult, warnings: &mut Vec<Warning>) {
    let Some(gpu) = &result.gpu else { return };
    if let Some(why) = &gpu.why_not {
        let (asked, given) = (gib(gpu.asked_bytes), gib(gpu.given_bytes));
        if gpu.backing.is_none() {
            let text = format!("the GPU tier of {asked:.1} GiB was left out: {why}");
            warnings.push(warning(Code::GpuLeftOut, text, Some("--gpu-mem-gb 0")));
        } else {
            let text = format!("the GPU tier had {given:.2} GiB instead of {asked:.2}: {why}");
            warnings.push(warning(Code::GpuSmaller, text, Some("smaller --gpu-mem-gb")));
        }
    }
    let transfer = gpu.transfer.as_ref().filter(|transfer| transfer.warns);
    if let Some(why) = transfer.and_then(|transfer| transfer.why_not_direct.as_ref()) {
        let text = format!(
            "bytes went between GPU memory and storage through I/O buffers, not by GPUDirect \
             Storage: {why}"
        );
        warnings.push(warning(Code::GpuNotDirect, text, Some("--gpu-transfer pinned")));
    }
    if gpu.backing == Some(GpuBacking::Real(GpuKind::Emulated)) {
        let text = "the GPU tier was emulated in host memory: its figures say nothing about a GPU"
            .to_owned();
        warnings.push(warning(Code::GpuEmulated, text, Some("--gpu-backend cuda")));
    }
    if result.engine.counts.passed_over_entries > 0 {
        let text = format!(
            "{} found no place in the GPU tier although it had free space: that space belonged to \
             other shards",
            counted(result.engine.counts.passed_over_entries, "entry")
        );
        warnings.push(warning(Code::GpuPassedOver, text, Some("more --gpu-mem-gb")));
    }
}

/// Warns of tiers that were reduced and of entries that found no room.
fn of_the_space(result: &RunResult, warnings: &mut Vec<Warning>) {
    for shortage in &result.shortages {
        let flag = match shortage.tier {
            Tier::Gpu => "smaller --gpu-mem-gb",
            Tier::Cpu => "smaller --cpu-mem-gb",
            Tier::Storage => "smaller --storage-capacity-gb",
        };
        warnings.push(warning(Code::TierLowered, shortage.to_string(), Some(flag)));
    }
    let engine = &result.engine;
    let requests = &result.requests;
    if requests.refused > 0 {
        let text = format!(
            "{} ({:.1} % of those that ended) could not be served for lack of room: a KV entry was \
             larger than the last tier ({:.2} GiB). Such requests count in no throughput and no \
             latency, so this run can't be compared with one that has room for them",
            counted(requests.refused, "request"),
            requests.refused_share() * 100.0,
            gib(last_tier_bytes(result)),
        );
        warnings.push(warning(Code::Refused, text, Some(flag_for_room(result))));
    } else if engine.refused_entries > 0 && !result.plan.is_without_storage {
        let text = format!(
            "{} could not be stored, being larger than the last tier ({:.2} GiB)",
            counted(engine.refused_entries, "entry"),
            gib(last_tier_bytes(result)),
        );
        warnings.push(warning(Code::Refused, text, Some(flag_for_room(result))));
    }
    if engine.counts.unstored_entries > 0
        && let Some(layout) = &result.plan.layout_plan
    {
        let text = format!(
            "{} could not be stored: the storage tier ({:.2} GiB) was full, and {} removes nothing \
             by itself, so that what was stored first stays",
            counted(engine.counts.unstored_entries, "entry"),
            gib(last_tier_bytes(result)),
            layout.layout().name()
        );
        let flag = Some("--layout-option evict=lru");
        warnings.push(warning(Code::StorageFull, text, flag));
    }
    let failures = result.files.iter().flat_map(|files| &files.failures);
    for failed in failures.filter(|failed| failed.name == FILE_REMOVAL) {
        let text = format!(
            "{} of the layout could not be removed: {}, first {}; their space counts as free",
            counted(failed.count, "file"),
            failed.cause,
            failed.first_file
        );
        warnings.push(warning(Code::FilesLeft, text, None));
    }
    if result.population_failed > 0 {
        let text = format!(
            "{} could not be written before the run: larger than the whole storage tier, or the \
             I/O failed",
            counted(result.population_failed, "entry")
        );
        warnings.push(warning(Code::Population, text, Some(flag_for_room(result))));
    }
    let room: u64 = result.tiers.iter().map(|tier| tier.capacity_bytes).sum();
    if let Some((_, bytes)) = result.source.populated.filter(|(_, bytes)| *bytes > room) {
        let text = format!(
            "the trace reads {:.2} GiB of entries before it writes them, and all tiers together \
             hold {:.2} GiB: the oldest were evicted before they were read",
            gib(bytes),
            gib(room)
        );
        warnings.push(warning(Code::PopulationEvicted, text, Some(flag_for_room(result))));
    }
}

/// The flag that gives entries more room.
fn flag_for_room(result: &RunResult) -> &'static str {
    match result.plan.is_without_storage {
        true => "more --cpu-mem-gb",
        false if result.lacks_room() => "a --cache-dir with more room",
        false => "more --storage-capacity-gb",
    }
}

/// Remedy of tiers that grow in the window.
pub(crate) const LONGER_WARMUP: &str = "a longer --warmup";

/// Warns of a trace without its gaps in front of a cache that did not hold all of it.
fn of_the_pace(result: &RunResult, warnings: &mut Vec<Warning>) {
    let plan = &result.plan;
    let is_of_requests = match &plan.traffic {
        // It has operations, each after those on its entry.
        Traffic::Trace { kind, .. } => !matches!(kind, TraceKind::Io(_)),
        _ => false,
    };
    let has_no_gaps = plan.trace_speedup <= 0.0 && plan.request_rate_per_s <= 0.0;
    let dropped = Evicted::of(result).storage;
    if !(is_of_requests && has_no_gaps && dropped > 0) {
        return;
    }
    let text = format!(
        "the trace was replayed without its gaps, and storage dropped {}: requests that overlap \
         find entries which would have been dropped by their turn, several times as many in a \
         small cache as an LRU cache in the order of the trace, so that hit rates are not those of \
         a cache of this size",
        counted(dropped, "entry")
    );
    warnings.push(warning(Code::TraceOverlaps, text, Some("--trace-speedup 1")));
}

/// Requests that were served by missing what they looked for.
fn of_the_misses(result: &RunResult, warnings: &mut Vec<Warning>) {
    let looks = result.looks();
    // There the reference's misses are asked for, whatever the cache holds.
    let workload = &result.plan.workload;
    let are_wanted = workload.history_counts_queued_turns || !workload.system_prompts_written;
    let are_free = result.plan.prefill_tokens_per_s <= 0.0;
    let Some(hit_rate) = looks.hit_rate().filter(|&rate| rate < HIT_RATE_MIN) else { return };
    if looks.found + looks.missed < SAMPLES_MIN || are_wanted || !are_free {
        return;
    }
    let text = format!(
        "only {:.1} % of {} found their entry, and a miss costs no time here: the fewer entries \
         the cache holds, the higher tokens/s and requests/s and the lower the latencies, so \
         compare them only with results of the same hit rate (`ringfall.cache.look_hit_rate`). \
         Looks are for earlier turns, shared prefixes and populated entries; \
         --prefill-tokens-per-s models recomputation",
        hit_rate * 100.0,
        counted(looks.found + looks.missed, "look"),
    );
    warnings.push(warning(Code::MissesFree, text, Some(flag_for_room(result))));
}

fn last_tier_bytes(result: &RunResult) -> u64 {
    result.tiers.iter().rev().map(|tier| tier.capacity_bytes).find(|&bytes| bytes > 0).unwrap_or(0)
}

/// Share of the requests' time from which waiting for space is told: what is left of it is still
/// most of the figures.
pub(crate) const SPACE_SHARE_TOLD: f64 = 0.25;

/// Users that a run had at the most: a search begins with few.
fn most_users(result: &RunResult) -> u32 {
    let steps = result.autoscale.iter().flat_map(|conclusion| &conclusion.entries);
    steps.map(|step| step.result.users).chain([result.plan.users]).max().unwrap_or(0)
}

/// Warns where requests waited for room in a tier for much of their time.
fn of_the_waits_for_space(result: &RunResult, warnings: &mut Vec<Warning>) {
    let requests = &result.requests;
    let total_ns = requests.end_to_end_all().sum_ns();
    let room = requests.room.sum_ns() as f64 / total_ns.max(1) as f64;
    let waits = &result.engine.waits;
    let grown = waits.growth.sum_ns() as f64 / waits.room.sum_ns().max(1) as f64;
    let (growth, share) = (room * grown.min(1.0), room * (1.0 - grown).max(0.0));
    if growth >= SPACE_SHARE_TOLD {
        let text = format!(
            "requests waited {:.0} % of their time while the tiers took memory and space for the \
             first time, so the figures tell how fast they grew rather than how fast the storage \
             is",
            growth * 100.0
        );
        warnings.push(warning(Code::TiersGrew, text, Some(LONGER_WARMUP)));
    }
    if share < SPACE_SHARE_TOLD || room_waits_follow(result) {
        return;
    }
    let (tier, flag) = match Evicted::of(result).tier_waited_for() {
        Some(Tier::Gpu) => (Some(("GPU tier", Tier::Gpu)), "more --gpu-mem-gb"),
        Some(Tier::Cpu) => (Some(("CPU tier", Tier::Cpu)), "more --cpu-mem-gb"),
        Some(Tier::Storage) => {
            (Some(("storage tier", Tier::Storage)), "more --storage-capacity-gb")
        }
        None => (None, flag_for_room(result)),
    };
    let held: u64 = result.tiers.iter().map(|tier| tier.capacity_bytes).sum();
    let place = match tier {
        Some((name, tier)) => {
            let bytes = result.tiers[tier.index()].capacity_bytes;
            format!("in the {name}, whose {:.1} GiB are too little", gib(bytes))
        }
        None => format!("in tiers of {:.1} GiB together, which are too little", gib(held)),
    };
    let text = format!(
        "requests waited {:.0} % of their time for space {place} for {}, so the figures tell how \
         fast space came free rather than how fast the storage is; with fewer users they would not",
        share * 100.0,
        counted(most_users(result).into(), "user"),
    );
    warnings.push(warning(Code::SpaceShort, text, Some(flag)));
}

/// Warns where a cgroup kept the run from its CPU time for much of it.
fn of_the_cpu_quota(result: &RunResult, warnings: &mut Vec<Warning>) {
    let is_real = result.simulation.is_none();
    let quota = CpuQuota::of(result).filter(|quota| is_real && quota.is_told());
    warnings.extend(quota.map(|quota| {
        let text = format!(
            "{}, so the figures tell how much CPU time it has as well as how fast the storage is; \
             raise its quota (cpu.max, or cpu.cfs_quota_us in version 1 of cgroups)",
            quota.told()
        );
        warning(Code::CpuThrottled, text, None)
    }));
}

/// Limits that the run went beyond are not those of the device.
fn beyond_the_limits(
    result: &RunResult,
    source: &str,
    roofline: &Roofline,
    warnings: &mut Vec<Warning>,
) {
    let share = result.roofline_share();
    let Some(share) = share.filter(|&share| share > ROOFLINE_SHARE_MAX) else { return };
    let is_cut = roofline.limits.iter().any(|limit| !limit.bandwidth.settled);
    let why = match is_cut {
        true => "their search was ended by its time limit, or disturbed",
        false => "the device was slower when they were measured, or had less to spare",
    };
    let text = format!(
        "this run moved {:.0} % of what the limits in {source} allow, so they are not the limits \
         of this device: {why}; measure them again",
        share * 100.0
    );
    warnings.push(warning(Code::RooflineExceeded, text, Some("--roofline fresh")));
}

/// Warnings that the limits themselves came with, in one.
fn of_the_limits(source: &str, roofline: &Roofline, warnings: &mut Vec<Warning>) {
    let unsteady = roofline.limits.iter().filter(|limit| !limit.bandwidth.best.steady);
    let unsteady = unsteady
        .map(|limit| format!("the bandwidth at {} % reads was not steady", limit.read_percent));
    let doubts: Vec<String> = roofline.warnings.iter().cloned().chain(unsteady).collect();
    if !doubts.is_empty() {
        let text = format!("the limits in {source} are in doubt: {}", doubts.join("; "));
        let flag_to_try = (source != "fresh").then_some("--roofline fresh");
        warnings.push(warning(Code::RooflineDoubtful, text, flag_to_try));
    }
}

/// Where it ran, and whether it could.
fn of_the_machine(result: &RunResult, warnings: &mut Vec<Warning>) {
    if let Some((source, roofline)) = &result.roofline {
        let name = |machine: &Machine| machine.device.as_ref().map(|device| device.name.clone());
        let (there, here) = (name(&roofline.machine), name(&result.machine));
        if there != here {
            let name = |name: Option<String>| name.unwrap_or_else(|| "no block device".to_owned());
            let text = format!(
                "the limits in {source} are those of {}, and this run was on {}",
                name(there),
                name(here)
            );
            warnings.push(warning(Code::RooflineDevice, text, Some("--roofline fresh")));
        }
        of_the_limits(source, roofline, warnings);
        beyond_the_limits(result, source, roofline, warnings);
    }
    of_the_watchdog(result, warnings);
    // Most are every shard's.
    let of_shards = result.facts.iter().flat_map(|facts| &facts.shortfalls);
    let shortfalls: BTreeSet<&String> = of_shards.chain(&result.shortfalls).collect();
    for text in shortfalls {
        warnings.push(warning(Code::Engine, text.clone(), None));
    }
    if let Some(throttle) = result.throttle().filter(|throttle| throttle.is_told()) {
        warnings.push(warning(Code::DriveThrottled, throttle.sentence(), None));
    }
    if let Some(text) = result.machine.in_memory() {
        warnings.push(warning(Code::MemoryBacked, text, Some("another --cache-dir")));
    }
}

/// Shards that gave no sign of life for a while. Of a process that was stopped the watchdog stood
/// still too, and saw no stall.
fn of_the_watchdog(result: &RunResult, warnings: &mut Vec<Warning>) {
    let gap_s = Nanos::from_ns(result.watchdog.overdue_max_ns).as_secs_f64();
    let gap_s = gap_s.min(result.window.seconds);
    let share = gap_s / result.window.seconds;
    if share.is_finite() && share >= STANDSTILL_SHARE && gap_s >= STANDSTILL_MIN_S {
        let text = format!(
            "the run, or one of its shards, stood still for {gap_s:.1} s, {:.0} % of the window: \
             it was stopped or got no core, and its rates and latencies do not describe the \
             storage",
            share * 100.0
        );
        warnings.push(warning(Code::StoodStill, text, Some("fewer --shards")));
    } else if result.watchdog.stalls > 0 {
        let times = match result.watchdog.stalls {
            1 => "once".to_owned(),
            stalls => format!("{stalls} times"),
        };
        let text = format!(
            "a shard stalled for 1 s or more, {times} between its start and its end; the longest \
             stall while the load ran was {gap_s:.1} s"
        );
        warnings.push(warning(Code::Stalls, text, Some("fewer --shards")));
    }
}

#[cfg(test)]
#[path = "warnings_test.rs"]
mod tests;
