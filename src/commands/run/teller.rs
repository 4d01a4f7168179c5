//! Messages and samples during a run: the banner, the progress, the machine's counters at the
//! edges of the window.

use std::io::Write as _;

use ringfall_config::Plan;
use ringfall_core::clock::{Nanos, SECOND, monotonic_now};
use ringfall_core::facts::{DriverUse, ShardFacts};
use ringfall_engine::load::LoadError;
use ringfall_engine::shard::Second;
use ringfall_host::outlet::Notices;
use ringfall_host::{
    BlockCounters, BlockDelta, CostSnapshot, DeviceFacts, Machine, Overdue, ProgressLine, Topology,
    device_numbers,
};
use ringfall_model::facts::{
    BlockTraceFigures, DriveOutcome, GpuOutcome, KernelSecond, Roofline, RunFigures, SourceFacts,
    TierShortage,
};
use ringfall_model::{distinct_by, write_json_unsynced};
use ringfall_report::show::{Banner, print_banner};
use ringfall_running::blocktrace::BlockTrace;
use ringfall_running::run::{Observer, Phase, Progress, RunOutcome};
use ringfall_running::store::{Place, Store};
use ringfall_workloads::WorkloadConfig;
use ringfall_workloads::source::ValidationTrace;

use super::drive_logs::DriveLogs;
use super::prepare::{self, Preparation, Prepared};
use super::result::{document_of, result_of};
use super::screen::{progress_line, style};
use super::shortages;
use super::{Answer, Begin};
use crate::commands::text_stream;
use crate::progress::{live_text, progress_text};
use crate::prometheus::Watch;

/// Longest run whose kernel counters are read four times a second: the results stay small.
const FINE_SAMPLING_MAX_S: u64 = 600;

pub(super) struct Edge {
    pub(super) at: Nanos,
    /// Counts of all disks together.
    pub(super) disks: Option<BlockCounters>,
    pub(super) cost: Option<CostSnapshot>,
    /// Counts of every device below the store.
    chain: Vec<Option<BlockCounters>>,
    /// Counts of each drive's disk.
    drives: Vec<Option<BlockCounters>>,
}

/// Facts of the files that were read before the run, for its result.
#[derive(Default)]
pub(super) struct WasRead {
    /// Where the requests come from.
    pub(super) source: SourceFacts,
    pub(super) validation: Option<ValidationTrace>,
    /// A device's limits, and the name of their file.
    pub(super) roofline: Option<(String, Roofline)>,
}

/// Tells the user, and samples what the machine says at the window's edges.
pub(super) struct Teller<'a> {
    pub(super) plan: &'a Plan,
    pub(super) begin: &'a Begin<'a>,
    /// Told when results are written early; none in a simulated run, which has none before its end.
    pub(super) answer: Option<&'a Answer>,
    pub(super) read: WasRead,
    token_bytes: u64,
    progress: ProgressLine,
    /// Publishes the run's figures while it goes on, where that is asked for.
    watch: Option<Watch>,
    /// Beginning of the preallocation.
    giving_space: Option<Nanos>,
    pub(super) prepared: Prepared,
    trace: Option<Result<BlockTrace, String>>,
    pub(super) block_trace: Option<Result<BlockTraceFigures, String>>,
    pub(super) machine: Machine,
    /// The store's drives, as far as they are known when it is open.
    drives: Vec<DriveOutcome>,
    /// The drives' own logs, before the load and after the run.
    pub(super) drive_logs: DriveLogs,
    pub(super) facts: Vec<ShardFacts>,
    pub(super) storage_bytes: u64,
    pub(super) shortages: Vec<TierShortage>,
    pub(super) gpu: Option<GpuOutcome>,
    /// Readings of the kernel's counters, a quarter of a second apart; in a long run a second.
    series: Vec<(Nanos, BlockCounters)>,
    /// Begin of the window, once it is there.
    before: Option<Edge>,
    pub(super) after: Option<Edge>,
    /// Whether the kernel counts this run's I/O: what it does not count is unknown, and not 0.
    is_counted: bool,
}

impl<'a> Teller<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        workload: &WorkloadConfig,
        begin: &'a Begin<'a>,
        gpu: Option<GpuOutcome>,
        read: WasRead,
    ) -> Teller<'a> {
        Teller {
            plan,
            begin,
            answer: None,
            read,
            token_bytes: workload.entry_bytes(1),
            progress: progress_line(plan),
            watch: None,
            giving_space: None,
            prepared: Prepared::default(),
            trace: None,
            block_trace: None,
            machine: Machine::default(),
            drives: Vec::new(),
            drive_logs: DriveLogs::default(),
            facts: Vec::new(),
            storage_bytes: 0,
            shortages: Vec::new(),
            gpu,
            series: Vec::new(),
            before: None,
            after: None,
            is_counted: true,
        }
    }

    /// Has the run's figures published, if they are to be; says where they are served.
    pub(super) fn be_watched(&mut self, watch: Option<Watch>) {
        if let Some(address) = watch.as_ref().and_then(Watch::address) {
            self.progress.tell(&format!("metrics at http://{address}/metrics"));
        }
        self.watch = watch;
    }

    /// The run is over: publishes its last figures, takes the progress line away, and reads what
    /// was traced beside it.
    pub(super) fn finish(
        &mut self,
        figures: &RunFigures,
        gpu_driver_use: Option<Vec<Option<DriverUse>>>,
    ) {
        if let Some(watch) = &mut self.watch {
            watch.end(figures);
        }
        if let (Some(driver_use), Some(gpu)) = (gpu_driver_use, &mut self.gpu) {
            gpu.driver_use = driver_use;
        }
        self.drive_logs.end();
        self.block_trace = self.trace.take().map(|trace| trace.and_then(BlockTrace::finish));
        self.progress.clear();
    }

    /// Publishes that the run is in a phase in which no shards run yet.
    fn enter(&mut self, phase: Phase) {
        if let Some(watch) = &mut self.watch {
            watch.enter(phase);
        }
    }

    /// Reads the kernel's counters, often enough to lay them over our seconds.
    fn sample(&mut self, now: Nanos) {
        let period = match self.plan.duration_s {
            0..=FINE_SAMPLING_MAX_S => SECOND / 4,
            _ => SECOND,
        };
        let due = self.series.last().is_none_or(|(last, _)| now >= *last + period);
        if due && let Some(counters) = self.counters() {
            self.series.push((now, counters));
        }
    }

    /// Differences between successive readings of the kernel's counters.
    pub(super) fn kernel_seconds(&self) -> Vec<KernelSecond> {
        let Some((begin, _)) = self.series.first().copied() else { return Vec::new() };
        let seconds = Nanos::as_secs_f64;
        let rows = self.series.windows(2).map(|pair| {
            let ((before, from), (after, to)) = (pair[0], pair[1]);
            KernelSecond {
                end_s: seconds(after - begin),
                seconds: seconds(after - before),
                delta: BlockDelta::between("", from, to),
                in_flight: to.in_flight,
            }
        });
        rows.collect()
    }

    /// Reads all counters at an edge of the window, those of a device once: it goes on meanwhile.
    fn edge(&self) -> Edge {
        let links = if self.is_counted { &self.machine.device_chain[..] } else { &[] };
        let chain = BlockCounters::of_links(links);
        let counted = |disk: &DeviceFacts| {
            let at = links.iter().position(|link| link.numbers == disk.numbers)?;
            chain[at]
        };
        let all: Option<Vec<_>> = self.disks().into_iter().map(counted).collect();
        let disks = all.and_then(|all| BlockCounters::together(&all));
        let drives = self.drives.iter().map(|drive| counted(drive.device.as_ref()?)).collect();
        Edge { at: monotonic_now(), disks, cost: CostSnapshot::now(), chain, drives }
    }

    /// The window's two edges; none while it has not ended.
    pub(super) fn edges(&self) -> Option<(&Edge, &Edge)> {
        self.before.as_ref().zip(self.after.as_ref())
    }

    /// Kernel counters over the window, for every device below the store.
    pub(super) fn chain_deltas(&self) -> Vec<BlockDelta> {
        let Some((before, after)) = self.edges() else { return Vec::new() };
        BlockDelta::of_links(&self.machine.device_chain, &before.chain, &after.chain)
    }

    fn counters(&self) -> Option<BlockCounters> {
        if !self.is_counted {
            return None;
        }
        let disks = self.disks();
        let all: Option<Vec<_>> =
            disks.iter().map(|disk| BlockCounters::read(&disk.numbers)).collect();
        BlockCounters::together(&all?)
    }

    fn disks(&self) -> Vec<&DeviceFacts> {
        let disks = self.drives.iter().filter_map(|drive| drive.device.as_ref());
        distinct_by(disks, |one, other| one.numbers == other.numbers)
    }

    pub(super) fn disk_names(&self) -> Option<String> {
        let names: Vec<&str> = self.disks().iter().map(|disk| &disk.name[..]).collect();
        (!names.is_empty()).then(|| names.join("+"))
    }

    pub(super) fn drive_outcomes(&self, outcome: &RunOutcome) -> Vec<DriveOutcome> {
        let topology = Topology::of_machine();
        let drives = self.drives.iter().enumerate().map(|(index, drive)| {
            let node = drive.device.as_ref().and_then(|device| device.numa_node);
            let lost = outcome.lost_drives.iter().find(|(lost, _)| *lost == index);
            let since_start =
                |at: Nanos| (at.as_ns_f64() - outcome.window.0.as_ns_f64()) / SECOND.as_ns_f64();
            let kernel = self.edges().and_then(|(before, after)| {
                let name = &drive.device.as_ref()?.name;
                Some(BlockDelta::between(name, before.drives[index]?, after.drives[index]?))
            });
            DriveOutcome {
                kernel,
                remote_bytes: topology.remote_bytes(&outcome.shard_bytes, index, node),
                failed_s: lost.map(|(_, at)| since_start(*at)),
                ..drive.clone()
            }
        });
        drives.collect()
    }
}

impl Observer for Teller<'_> {
    fn giving_space(&mut self, done_bytes: u64, all_bytes: u64) {
        let since = *self.giving_space.get_or_insert_with(monotonic_now);
        self.progress
            .show_if_due(|| prepare::space_given(done_bytes, all_bytes, monotonic_now() - since));
    }

    fn prepare(&mut self, store: &Store) -> Result<(), LoadError> {
        self.progress.clear();
        self.enter(Phase::Precondition);
        let (plan, told) = (self.plan, &mut self.progress);
        let (group, interrupt) = (self.begin.group.as_deref(), self.begin.interrupt);
        let preparation = Preparation { plan, store, interrupt, told, group };
        self.prepared = preparation.carry_out()?;
        if self.plan.latency_tracing && !interrupt.is_set() {
            self.trace = Some(prepare::trace(store, &mut self.progress));
        }
        self.enter(Phase::Assemble);
        Ok(())
    }

    fn gpu_direct(&mut self, opened: Result<(), String>) {
        if let Some(gpu) = &mut self.gpu {
            gpu.transfer = Some(super::gpu::way_with_files(self.plan, opened));
        }
    }

    fn opened(&mut self, store: &Store, facts: &[ShardFacts]) {
        self.machine = match store.is_somewhere() {
            true => Machine::look(store.path()),
            false => Machine::look_without_store(),
        };
        let drives = store.drives.iter().filter(|_| store.is_somewhere());
        let drives = drives.map(|drive| DriveOutcome {
            path: drive.path().display().to_string(),
            device: device_numbers(drive.path()).as_deref().and_then(DeviceFacts::of),
            capacity_bytes: drive.capacity_bytes(),
            ..DriveOutcome::default()
        });
        self.drives = drives.collect();
        // What lies below the other drives than the first is sampled as well.
        let is_below = |disk: &DeviceFacts| {
            self.machine.device_chain.iter().any(|link| link.numbers == disk.numbers)
        };
        let others = self.disks().into_iter().filter(|disk| !is_below(disk));
        let others: Vec<_> = others.map(|disk| disk.numbers.clone()).collect();
        self.machine.add_disks(others.iter().map(String::as_str));
        self.is_counted = !self.plan.nvme_passthrough
            || self.disks().iter().all(|disk| BlockCounters::have_passthrough(&disk.numbers));
        self.facts = facts.to_vec();
        self.storage_bytes = store.capacity_bytes();
        self.drive_logs = DriveLogs::begin(&self.machine.device_chain, self.is_counted);
        self.shortages = shortages::at_first(self.plan, store);
        if !self.begin.with_banner {
            return;
        }
        if let Some(notice) = self.drive_logs.notice() {
            self.progress.tell(&notice);
        }
        let mount = self.machine.mount.as_ref();
        let raw = "raw device".to_owned();
        #[cfg(feature = "objects")]
        let in_objects = "object store".to_owned();
        let file_system = match store.drives[0].place {
            Place::Directory(_) | Place::Files(..) => mount.map(|m| &m.file_system),
            Place::Device(_) => Some(&raw),
            #[cfg(feature = "objects")]
            Place::Objects(_) => Some(&in_objects),
            Place::Nowhere => None,
        };
        let disks = self.disk_names();
        let below = [file_system, disks.as_ref()];
        let banner = Banner {
            plan: self.plan,
            directory: store.paths(),
            below: below.into_iter().flatten().cloned().collect::<Vec<_>>().join(" on "),
            storage_bytes: self.storage_bytes,
            buffer_bytes: facts.iter().map(|facts| facts.buffer_bytes).sum(),
            token_bytes: self.token_bytes,
            reclaimed_bytes: store.reclaimed_bytes,
            shortages: &self.shortages,
            gpu: self.gpu.as_ref(),
        };
        let mut page = Vec::new();
        let _infallible = print_banner(&mut page, style(self.plan), &banner);
        // A closed pipe must not end a run whose results go to a file.
        let _told = Notices(text_stream(self.plan.json)).write_all(&page);
    }

    fn window_began(&mut self) {
        self.sample(monotonic_now());
        self.before = Some(self.edge());
    }

    fn window_ended(&mut self) {
        self.after = Some(self.edge());
        if let Some(Ok(trace)) = &mut self.trace {
            trace.end();
        }
    }

    /// In the file in which the whole result will take its place.
    fn kept(&mut self, outcome: RunOutcome) {
        // Its shards still run: nothing is handed out to be deleted.
        let (result, _) = result_of(self, outcome);
        let _overdue = Overdue::new("the results so far to be written".to_owned());
        // The drive may be what the run waits for.
        match write_json_unsynced(&document_of(&result), &self.plan.output) {
            Ok(()) => self.answer.iter().for_each(|answer| answer.note_written()),
            Err(error) => {
                let output = self.plan.output.display();
                tracing::warn!(%output, %error, "the results so far can't be saved");
            }
        }
    }

    fn seconds(&mut self, seconds: &[Second]) {
        if let Some(watch) = &mut self.watch {
            watch.add(seconds);
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if let Some(watch) = &mut self.watch {
            watch.see(progress);
        }
        if progress.phase == Phase::Measure {
            self.sample(monotonic_now());
        }
        self.progress
            .show_block_if_due(|columns| live_text(progress, columns), || progress_text(progress));
    }
}
