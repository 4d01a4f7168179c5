//! Finding the device's limits with nothing but I/O: plain pinned threads, the engine's rings.
//!
//! This folder decides which load is tried when, for how long, and what the result is. It neither
//! makes a load (`engine/load`) nor shows the answer.

mod cold;
mod device_model;
mod measure;
mod object_limits;
#[cfg(feature = "objects")]
mod objects;
mod ranks;
mod roofline;
mod search;
mod time;
mod together;
mod usual;
mod vram;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfall_config::Until;
use ringfall_engine::device::DataFile;
use ringfall_engine::load::LoadError;
use ringfall_engine::ring::{Polling, check_polled_commands};
use ringfall_host::Machine;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::facts::{
    Best, Limit, Measured, ROOFLINE_VERSION, RankOfLimits, Roofline, steady,
};

use crate::group::Group;
use crate::precondition::{PreconditionPlan, precondition};
pub(crate) use cold::Counted;
pub use device_model::device_yaml;
use measure::{CONFIRM, PROBE};
pub use object_limits::{OBJECT_LIMITS_VERSION, ObjectLimits, ObjectPoint};
#[cfg(feature = "objects")]
pub use objects::{ObjectSweep, ObjectSweepError, ObjectWatcher, sweep};
use ranks::Prepared;
pub use roofline::read_roofline;
use search::{Bounds, Goal, Search, SearchStep};
use time::{Budget, Share};
pub use together::together;
use usual::USUAL_SHARE;
pub use usual::{RUN_DEPTHS, RunDepth, run_depth};
pub use vram::{
    VramLimits, VramPoint, VramSettings, VramWayLimits, vram_bytes, vram_limits, vram_measurements,
};

/// Settings of the search.
#[derive(Clone, Debug)]
pub struct SaturateSettings {
    /// The first so many bytes are used.
    pub range_bytes: u64,
    /// Smallest and largest I/O, bytes.
    pub io_bytes: (u32, u32),
    /// Largest depth over all threads.
    pub depth_max: u32,
    /// Memory for buffers, bytes.
    pub buffer_bytes_max: u64,
    /// A thread for each, on that core.
    pub cpus: Vec<Option<usize>>,
    /// Submission and completion of I/Os: by system calls and interrupts, or by polling.
    pub polling: Polling,
    /// Directions and mixes: percent of the I/Os that read.
    pub read_percents: Vec<u32>,
    /// Whether I/Os a second are looked for too.
    pub iops: bool,
    /// Whether the best reads are tried with buffers in pages of 4 KiB too, by a process alone.
    pub small_pages: bool,
    /// Runs of which the usual bandwidth is measured too, by a process alone; none: it is not.
    pub usual: Option<RunDepth>,
    /// Random seed of the offsets.
    pub seed: u64,
    /// Seconds that it may take, with writing the range; none: as long as it needs.
    pub time_limit_s: Option<u32>,
}

/// Told what is being done.
pub trait Watcher {
    /// A load was measured.
    fn measured(&mut self, read_percent: u32, measured: &Measured, confirmed: bool);
    /// The range is being written.
    fn preparing(&mut self, done_bytes: u64, of_bytes: u64);
    /// A measurement goes on: nothing is new but the time.
    fn waiting(&mut self) {}
}

/// Why no answer was found.
#[derive(Debug, thiserror::Error)]
pub enum SaturateError {
    /// The load failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A signal.
    #[error("interrupted before the limits were found; nothing was written")]
    Interrupted,
    /// Another rank ended early, or what it told can't be understood.
    #[error("{0}; nothing was written")]
    Ranks(String),
}

/// Finds the limits of the device below `file`, by NVMe commands where its namespace is open.
///
/// With a group, those of the storage that its ranks share, each below a file of its own: all of
/// them load it with the same point at the same time, and what they reach is added up. Rank 0
/// searches, and has the answer; none on the others, which do as it says.
///
/// # Errors
/// An I/O failed, somebody interrupted, or another rank ended early.
pub fn find(
    file: &Arc<DataFile>,
    settings: &SaturateSettings,
    machine: Machine,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
    group: Option<&Group>,
) -> Result<Option<Roofline>, SaturateError> {
    let (range_bytes, read_bytes) = (settings.range_bytes, Cell::new(0));
    let huge_pages = Cell::new(Some(true));
    let mut bench = Bench { file, settings, interrupt, range_bytes, read_bytes, huge_pages, group };
    let Some(group) = group else { return search_all(bench, machine, watcher).map(Some) };
    group.listen(ranks::heard_by(group));
    let found = match group.rank() {
        0 => search_all(bench, machine, watcher).map(Some),
        _ => bench.serve(group, watcher).map(|()| None),
    };
    group.ignore(ranks::heard_by(group));
    found
}

fn search_all(
    mut bench: Bench<'_>,
    machine: Machine,
    watcher: &mut dyn Watcher,
) -> Result<Roofline, SaturateError> {
    let (file, settings) = (bench.file, bench.settings);
    let unix_s = unix_now_s();
    let usual = settings.usual.filter(|_| bench.group.is_none());
    let whole = bench.begin(watcher)?;
    let part = if usual.is_some() { 1.0 - USUAL_SHARE } else { 1.0 };
    let probe = if bench.tries_small_pages() { PROBE.longest() } else { Duration::ZERO };
    let for_searches = |limit: Duration| limit.mul_f64(part) - probe.min(limit / 10);
    let budget = Budget { limit: whole.limit.map(for_searches), ..whole };
    let prepared = bench.all_prepared()?;
    let are_commands = file.command_target().is_some();
    let before = Counted::now(&machine, are_commands);
    let mut limits = Vec::new();
    let mut searches_left = settings.read_percents.len() as u32 * if settings.iops { 2 } else { 1 };
    let mut share = || {
        let share = budget.share(Instant::now(), searches_left);
        searches_left -= 1;
        share
    };
    for &read_percent in &settings.read_percents {
        let bandwidth = bench.search(Goal::Bandwidth, read_percent, share(), watcher)?;
        let iops = || bench.search(Goal::Iops, read_percent, share(), watcher);
        let iops = settings.iops.then(iops).transpose()?;
        limits.push(Limit { read_percent, bandwidth, iops, ..Limit::default() });
    }
    let until = whole.limit.map(|limit| whole.began + limit);
    bench.small_pages(&mut limits, until, watcher)?;
    // The short windows of a device that works in bursts have one more of them or one less, and
    // its limiter's rate is that of any load.
    let has_bursts = limits.iter().any(|limit| limit.bandwidth.bursts().is_some());
    if let Some(depth) = usual.filter(|_| !has_bursts) {
        bench.usual(&mut limits, depth, until, watcher)?;
    }
    bench.dismiss();
    let after = Counted::now(&machine, are_commands);
    let read_bytes = bench.read_bytes.get();
    let told = |(before, after): (Counted, Counted)| before.warning(&after, &machine, read_bytes);
    let cold = before.zip(after).and_then(told);
    let disturbed: Vec<String> = limits.iter().flat_map(Limit::disturbances).collect();
    Ok(Roofline {
        ringfall_roofline: ROOFLINE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_s,
        warnings: machine.in_memory().into_iter().chain(cold).chain(disturbed).collect(),
        machine,
        range_bytes: prepared.iter().map(|one| one.range_bytes).sum(),
        threads: prepared.iter().map(|one| one.threads).sum(),
        polling: polling_name(settings.polling).to_owned(),
        nvme_passthrough: are_commands,
        huge_pages: bench.huge_pages.get(),
        steady_rule: steady::RULE.to_owned(),
        seconds: budget.began.elapsed().as_secs_f64(),
        time_limit_s: settings.time_limit_s,
        range_left_bytes: prepared.iter().map(|one| one.range_left_bytes).sum(),
        limits,
        together: Vec::new(),
        drives: Vec::new(),
        ranks: ranks_of(&prepared),
    })
}

/// The ranks, where there are several.
fn ranks_of(prepared: &[Prepared]) -> Vec<RankOfLimits> {
    let several = prepared.iter().filter(|_| prepared.len() > 1);
    several.map(|one| RankOfLimits { rank: one.rank, host: one.host.clone() }).collect()
}

fn unix_now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |age| age.as_secs_f64())
}

fn polling_name(polling: Polling) -> &'static str {
    match polling {
        Polling::None => "none",
        Polling::Submission => "submission",
        Polling::Completion => "completion",
    }
}

struct Bench<'a> {
    file: &'a Arc<DataFile>,
    settings: &'a SaturateSettings,
    interrupt: &'a Interrupt,
    /// Size of the range that was written and is used, bytes.
    range_bytes: u64,
    /// Bytes that the loads of this process have read so far. Those of other ranks are not among
    /// them: where such a rank is on another machine, no counter of this one shows its reads.
    read_bytes: Cell<u64>,
    /// Whether all buffers of this process's loads so far were in huge pages; none where the kernel
    /// does not say.
    huge_pages: Cell<Option<bool>>,
    /// The other ranks, where there are some.
    group: Option<&'a Group>,
}

impl Bench<'_> {
    /// Writes the range, and tries to read it as asked.
    fn begin(&mut self, watcher: &mut dyn Watcher) -> Result<Budget, SaturateError> {
        let limit = self.settings.time_limit_s.map(|seconds| Duration::from_secs(seconds.into()));
        let budget = Budget { began: Instant::now(), limit };
        self.range_bytes = self.prepare(&budget, watcher)?;
        // Not before something is there to read: the kernel answers for what was never written.
        self.file.probe_polling(self.settings.polling).map_err(LoadError::from)?;
        if self.settings.polling == Polling::Completion {
            let most_bytes = self.settings.io_bytes.1.into();
            self.file.check_polled_size(most_bytes).map_err(LoadError::from)?;
        }
        Ok(budget)
    }

    /// Writes the whole range once: what was never written is not read from the device. Returns how
    /// much of it there was time for, at least the largest I/O.
    fn prepare(&self, budget: &Budget, watcher: &mut dyn Watcher) -> Result<u64, SaturateError> {
        let plan = PreconditionPlan {
            bytes: self.settings.range_bytes,
            range_bytes: self.settings.range_bytes,
            until: Until::Bytes,
            cpus: self.settings.cpus.clone(),
            seed: self.settings.seed,
        };
        if self.settings.polling == Polling::Completion && self.file.command_target().is_some() {
            // Not only when all is written.
            check_polled_commands().map_err(LoadError::from)?;
        }
        let (until, written) = (budget.writing_until(), Cell::new(0));
        let range_bytes_min = u64::from(self.settings.io_bytes.1).min(plan.range_bytes);
        let is_over = || {
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            self.interrupt.is_set() || (is_late && written.get() >= range_bytes_min)
        };
        let report = precondition(self.file, &plan, &is_over, &mut |done, of| {
            written.set(done);
            watcher.preparing(done, of);
        })?;
        if self.interrupt.is_set() {
            return Err(SaturateError::Interrupted);
        }
        // Writes go in order and those in flight are waited for: so much from the start on is
        // there.
        Ok(if report.interrupted { report.bytes.min(plan.range_bytes) } else { plan.range_bytes })
    }

    fn search(
        &self,
        goal: Goal,
        read_percent: u32,
        share: Option<Share>,
        watcher: &mut dyn Watcher,
    ) -> Result<Best, SaturateError> {
        let bounds = Bounds {
            io_bytes: self.settings.io_bytes,
            depth_max: self.settings.depth_max.saturating_mul(self.ranks()),
            in_flight_bytes_max: self.settings.buffer_bytes_max * u64::from(self.ranks()),
            range_bytes: self.range_bytes,
            threads: self.settings.cpus.len() as u32,
        };
        let value = |measured: &Measured| match goal {
            Goal::Bandwidth => measured.bytes_per_s,
            Goal::Iops => measured.iops,
        };
        let by_value = |a: &&Measured, b: &&Measured| value(a).total_cmp(&value(b));
        let mut search = Search::new(goal, bounds);
        let (mut probes, mut confirmed, mut settled) = (Vec::new(), Vec::new(), true);
        loop {
            let step = search.step();
            let (point, pace, list, is_confirmed) = match step {
                SearchStep::Probe(point) => (point, &PROBE, &mut probes, false),
                SearchStep::Confirm(point) => (point, &CONFIRM, &mut confirmed, true),
                SearchStep::Done => break,
            };
            let allows = |share: Share| share.allows(step, Instant::now(), pace.shortest());
            // Without a first load there is no answer: it is measured however late it is.
            if search.has_begun() && !share.is_none_or(allows) {
                settled = false;
                search.cut();
                continue;
            }
            let until = share.map(|share| share.until);
            let (measured, is_whole) = match self.group {
                None => self.measure_alone(point, read_percent, pace, until, watcher),
                Some(group) => {
                    self.measure_together(group, point, read_percent, is_confirmed, until, watcher)
                }
            }?;
            settled &= is_whole;
            watcher.measured(read_percent, &measured, is_confirmed);
            search.observe(value(&measured));
            list.push(measured);
        }
        // Where there was no time to measure the best for longer, its probe is what is known.
        let known = if confirmed.is_empty() { &probes } else { &confirmed };
        let best = known.iter().max_by(by_value).cloned().unwrap_or_default();
        let knee = search.knee();
        let at = |probe: &&Measured| {
            knee.is_some_and(|knee| probe.io_bytes == knee.io_bytes && probe.depth == knee.depth)
        };
        // A probe that was repeated counts as the better of the two.
        let probed = probes.iter().filter(at).max_by(by_value);
        // Where the climb saw nothing but what the best did not come to, the best is its knee.
        let knee = confirmed.iter().find(at).or(probed).unwrap_or(&best).clone();
        let mut best = Best { best, knee, probes, settled };
        best.settled &= best.sunk().is_none();
        Ok(best)
    }
}
