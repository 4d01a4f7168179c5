//! The storage tier of a run as an engine keeps it: each I/O of an entry is a file with the
//! engine's name, or a slot in one, stored and loaded by the engine's calls on as many threads.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfall_core::clock::{Clock, Nanos};
use ringfall_core::error::SetupError;
use ringfall_core::held::HeldDirectory;
use ringfall_core::model::LatencySpread;
use ringfall_core::units::BLOCK_BYTES;
use ringfall_engine::device::{ObjectDone, ObjectIo, ObjectName, ObjectPart, SimDrive};
use ringfall_engine::files::{
    FaultCause, FileCrew, FileFault, FileJob, FileLine, FileOutcome, FileScript, FileStep,
    SimFiles, StepKind,
};
use ringfall_engine::ring::IoKind;
use ringfall_model::facts::{EngineLimits, FileCounts, FileFailures, FileOperations};
use ringfall_workloads::layout::{EngineLayout, EntryPart, LayoutOption, LayoutPlan, LayoutWork};
use rustix::io::Errno;

use super::steps::script;

/// Layout of a run's storage tier.
#[derive(Clone, Debug)]
pub struct TierLayout {
    /// The layout for the run's model.
    pub plan: LayoutPlan,
    /// Whose limits hold: the engine's threads, or many objects in flight.
    pub limits: EngineLimits,
    /// Size of an I/O of the run, and of a file or slot but for its header, bytes.
    pub io_bytes: u64,
    /// Least latencies of reads and writes, and the seed by which they are drawn; none: the drive's
    /// own are all.
    pub slowed: Option<(LatencySpread, u64)>,
}

impl TierLayout {
    /// Number of workers that store, and of those that load where these are others.
    fn workers(&self) -> (u64, Option<u64>) {
        let TierLayout { plan, limits, .. } = self;
        match limits {
            EngineLimits::Theirs => {
                let loads = (!plan.shares_threads()).then(|| plan.entry_threads(LayoutWork::Load));
                (plan.entry_threads(LayoutWork::Store), loads)
            }
            EngineLimits::Ours => (plan.ours_in_flight(), None),
        }
    }

    /// Line in which a part waits for its turn, and the scripts that move it, where there are slots
    /// to and from this one.
    fn scripts(
        &self,
        work: LayoutWork,
        part: ObjectPart,
        bytes: u64,
        slot: u64,
    ) -> (FileLine, Vec<FileScript>) {
        let TierLayout { plan, limits, io_bytes, .. } = self;
        let io_blocks = io_bytes / BLOCK_BYTES;
        let (index, parts) =
            (part.name.first_block / io_blocks, part.entry_blocks.div_ceil(io_blocks));
        let turn = match limits {
            EngineLimits::Theirs => plan.turn_of(work, index, parts),
            EngineLimits::Ours => index..index + 1,
        };
        let of_entry = EntryPart { entry: part.name.entry, index, bytes, slot };
        let scripts = match work {
            LayoutWork::Store => vec![plan.store_part(of_entry)],
            LayoutWork::Load => plan.load_part(of_entry, &turn),
        };
        let line = FileLine { request: part.transfer, number: turn.start };
        (line, scripts.into_iter().map(script).collect())
    }

    /// Its files on a simulated drive.
    #[must_use]
    pub fn simulated(&self, drive: Rc<SimDrive>, clock: Clock) -> Rc<SimFiles> {
        let layout = self.clone();
        let rule = move |kind, part, bytes| {
            let work = match kind {
                IoKind::Read => LayoutWork::Load,
                _ => LayoutWork::Store,
            };
            // A simulated drive takes as long for each.
            layout.scripts(work, part, bytes, 0)
        };
        SimFiles::new(drive, clock, self.workers(), Box::new(rule))
    }

    /// Counts of operations on its files, by kind.
    pub fn counts(&self, outcome: &FileOutcome) -> FileCounts {
        let TierLayout { plan, limits, io_bytes, .. } = self;
        FileCounts {
            layout: plan.layout().name().to_owned(),
            changed_options: plan.options().changed(),
            limits: limits.name().to_owned(),
            file_bytes: *io_bytes,
            written_bytes: outcome.written_bytes,
            read_bytes: outcome.read_bytes,
            operations: operations(outcome),
            failures: outcome.faults.iter().map(failures).collect(),
        }
    }
}

/// Files of a run's storage tier, below a directory that is the run's own. Cheap to clone.
#[derive(Clone)]
pub struct TierFiles(Arc<Files>);

struct Files {
    layout: TierLayout,
    name: String,
    stores: FileCrew,
    /// None where those that store load, too.
    loads: Option<FileCrew>,
    /// Those of each file that has any.
    slots: Vec<Mutex<Slots>>,
}

/// Slots of a file, which objects take and give back.
#[derive(Default)]
struct Slots {
    taken: HashMap<ObjectName, u64>,
    /// Slots that were given back. The last one is taken first, as in LMCache.
    free: Vec<u64>,
}

impl Slots {
    /// The object's slot, from now on if it has none.
    fn take(&mut self, object: ObjectName) -> u64 {
        let unused = self.taken.len() as u64;
        *self.taken.entry(object).or_insert_with(|| self.free.pop().unwrap_or(unused))
    }

    fn give_back(&mut self, object: ObjectName) {
        self.free.extend(self.taken.remove(&object));
    }
}

impl std::fmt::Debug for TierFiles {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TierFiles").field("layout", &self.0.layout).finish()
    }
}

impl TierFiles {
    /// Starts the threads that move files.
    pub fn start(
        layout: &TierLayout,
        inside: &Arc<HeldDirectory>,
    ) -> Result<TierFiles, SetupError> {
        let is_direct = layout.plan.options().value(LayoutOption::Direct) == Some(1);
        let direct_bytes = if is_direct { layout.io_bytes } else { 0 };
        let name = inside.path().display().to_string();
        let start = |threads| {
            FileCrew::start(Arc::clone(inside), threads as usize, direct_bytes, layout.slowed)
        };
        let (stores, loads) = layout.workers();
        let (loads, stores) = (loads.map(start).transpose()?, start(stores)?);
        let slots = (0..layout.plan.slot_files()).map(|_| Mutex::default()).collect();
        Ok(TierFiles(Arc::new(Files { layout: layout.clone(), name, stores, loads, slots })))
    }

    /// Ends the threads, when they have done what they were asked for.
    pub fn end(&self) {
        self.0.stores.end();
        self.0.loads.iter().for_each(FileCrew::end);
    }

    /// Name of the layout.
    pub fn layout(&self) -> EngineLayout {
        self.0.layout.plan.layout()
    }

    /// Counts of the operations on files so far, by kind.
    pub fn counts(&self) -> FileCounts {
        let mut outcome = self.0.stores.outcome();
        self.0.loads.iter().for_each(|loads| outcome.add(&loads.outcome()));
        self.0.layout.counts(&outcome)
    }

    /// Slots of the file that the object lies in; none where it has a file of its own.
    fn slots(&self, object: ObjectName) -> Option<MutexGuard<'_, Slots>> {
        let file = self.0.layout.plan.slot_file(self.index(object));
        // A panic elsewhere ends the run anyway.
        Some(self.0.slots.get(file as usize)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of an object among those of its entry.
    fn index(&self, object: ObjectName) -> u64 {
        object.first_block / (self.0.layout.io_bytes / BLOCK_BYTES)
    }

    /// The object's slot, which a store takes; none where it was never stored.
    fn slot(&self, work: LayoutWork, object: ObjectName) -> Option<u64> {
        match (self.slots(object), work) {
            (None, _) => Some(0),
            (Some(mut slots), LayoutWork::Store) => Some(slots.take(object)),
            (Some(slots), LayoutWork::Load) => slots.taken.get(&object).copied(),
        }
    }

    /// Path of an object's file, from the directory on.
    fn path_inside(&self, object: ObjectName) -> Arc<str> {
        self.0.layout.plan.path_of_part(object.entry, self.index(object))
    }

    /// Has a part's scripts done, in its turn.
    fn ask(&self, work: LayoutWork, part: ObjectPart, bytes: Vec<u8>, done: ObjectDone) {
        let Some(slot) = self.slot(work, part.name) else {
            return done(Nanos::ZERO, Err(Errno::NOENT.raw_os_error()));
        };
        let (line, scripts) = self.0.layout.scripts(work, part, bytes.len() as u64, slot);
        let crew = match (work, &self.0.loads) {
            (LayoutWork::Load, Some(loads)) => loads,
            _ => &self.0.stores,
        };
        crew.ask(FileJob {
            scripts,
            bytes,
            line,
            done: Box::new(move |begun, outcome| {
                let outcome = match (outcome, work) {
                    (Ok(bytes), _) => Ok(bytes),
                    (Err(FaultCause::Errno(errno)), _) => Err(errno),
                    // As a read of a data file that has become shorter.
                    (Err(FaultCause::Short), LayoutWork::Load) => Ok(Vec::new()),
                    (Err(FaultCause::Short), LayoutWork::Store) => Err(Errno::IO.raw_os_error()),
                };
                done(begun, outcome);
            }),
        });
    }
}

fn operations(outcome: &FileOutcome) -> Vec<FileOperations> {
    let figures = |kind: StepKind| {
        let latency = outcome.step(kind);
        let us = |quantile| latency.quantile_ns(quantile).map(|ns| ns as f64 / 1e3);
        (latency.count() > 0).then(|| FileOperations {
            name: kind.name().to_owned(),
            count: latency.count(),
            p50_us: us(0.5),
            p99_us: us(0.99),
        })
    };
    StepKind::ALL.into_iter().filter_map(figures).collect()
}

fn failures(fault: &FileFault) -> FileFailures {
    FileFailures {
        name: fault.step.name().to_owned(),
        cause: fault.cause.to_string(),
        count: fault.count,
        first_file: fault.first_path.to_string(),
    }
}

/// The engine's view of it: it calls back on a thread of the files'.
impl ObjectIo for TierFiles {
    fn put(&self, part: ObjectPart, bytes: Vec<u8>, done: ObjectDone) {
        self.ask(LayoutWork::Store, part, bytes, done);
    }

    fn get(&self, part: ObjectPart, offset_bytes: u64, buffer: Vec<u8>, done: ObjectDone) {
        match offset_bytes {
            0 => self.ask(LayoutWork::Load, part, buffer, done),
            // No I/O here ends in its middle, to be gone on with.
            _ => done(Nanos::ZERO, Err(Errno::INVAL.raw_os_error())),
        }
    }

    fn remove(&self, name: ObjectName) {
        if let Some(mut slots) = self.slots(name) {
            // Nothing on the drive changes.
            return slots.give_back(name);
        }
        let path = self.path_inside(name);
        let scripts = vec![FileScript { steps: vec![FileStep::Remove { path }] }];
        // What is left now is counted, and removed at the end.
        let done = Box::new(|_begun, _removed| {});
        let line = FileLine { request: name.entry, number: name.first_block };
        self.0.stores.ask(FileJob { scripts, bytes: Vec::new(), line, done });
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn path(&self, object: ObjectName) -> String {
        let path = format!("{}/{}", self.0.name, self.path_inside(object));
        let slot = self.slots(object).and_then(|slots| slots.taken.get(&object).copied());
        slot.map_or_else(|| path.clone(), |slot| format!("slot {slot} of {path}"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    use ringfall_core::model::DeviceModel;
    use ringfall_engine::device::{CacheDir, Device as _, ObjectOutcome};
    use ringfall_engine::ring::IoRequest;
    use ringfall_host::Scratch;

    use super::super::tests::plan;
    use super::*;

    const IO_BYTES: usize = 16 << 10;

    fn tier_layout(plan: LayoutPlan, limits: EngineLimits) -> TierLayout {
        TierLayout { plan, limits, io_bytes: IO_BYTES as u64, slowed: None }
    }

    /// Answer to a transfer of a part whose bytes are all of that value.
    fn asked(files: &TierFiles, work: LayoutWork, name: ObjectName, value: u8) -> ObjectOutcome {
        let (tell, told) = channel();
        let done = Box::new(move |_begun, outcome| tell.send(outcome).unwrap());
        let part = ObjectPart { name, entry_blocks: 12, transfer: 6 + name.first_block };
        match work {
            LayoutWork::Store => files.put(part, vec![value; IO_BYTES], done),
            LayoutWork::Load => files.get(part, 0, vec![0; IO_BYTES], done),
        }
        told.recv().unwrap()
    }

    /// Layouts with a file for each object.
    fn with_a_file_each() -> impl Iterator<Item = EngineLayout> {
        let has = |layout: &EngineLayout| {
            let plan = plan(*layout);
            !plan.has_slots() && !plan.stores_buckets()
        };
        EngineLayout::ALL.into_iter().filter(has)
    }

    #[test]
    fn parts_of_entries_take_slots_of_one_file_and_give_them_back() {
        for (layout, limits) in [
            (EngineLayout::LmcacheRaw, EngineLimits::Theirs),
            (EngineLayout::Nixl, EngineLimits::Ours),
        ] {
            let scratch = Scratch::new("tier-slots");
            let mut place = CacheDir::open(&scratch.join("place")).unwrap();
            let inside = place.make_directory("0a").unwrap();
            let layout = tier_layout(plan(layout), limits);
            let files = TierFiles::start(&layout, &inside).unwrap();
            let name = |entry, first_block| ObjectName { entry, first_block };
            let store = |name, value| asked(&files, LayoutWork::Store, name, value);
            let load = |name| asked(&files, LayoutWork::Load, name, 0);
            for (first_block, value) in [(0, 1), (4, 2), (8, 3)] {
                assert_eq!(store(name(5, first_block), value), Ok(vec![value; IO_BYTES]));
            }
            files.remove(name(5, 4));
            files.remove(name(5, 0));
            // One that failed, and is removed whether it was stored or not.
            files.remove(name(7, 0));
            for (first_block, value) in [(0, 4), (4, 5), (8, 6)] {
                store(name(6, first_block), value).unwrap();
            }
            let slots = [(6, 0), (6, 4), (5, 8), (6, 8)];
            for (slot, ((entry, first_block), value)) in
                slots.into_iter().zip([4, 5, 3, 6]).enumerate()
            {
                let name = name(entry, first_block);
                assert_eq!(load(name), Ok(vec![value; IO_BYTES]));
                let path = files.path(name);
                assert!(path.starts_with(&format!("slot {slot} of ")), "{path}");
            }
            assert_eq!(load(name(5, 0)), Err(Errno::NOENT.raw_os_error()));
            files.end();
            let counts = files.counts();
            assert!(counts.failures.is_empty(), "{:?}", counts.failures);
            assert!(counts.operations.iter().all(|one| one.name != "unlink"), "{counts:?}");
            assert_eq!(std::fs::read_dir(inside.path()).unwrap().count(), 1);
            place.remove().unwrap();
        }
    }

    /// The last object is smaller, and what is there is what the engine would have.
    #[test]
    fn parts_of_an_entry_are_the_engine_s_files_until_they_are_removed() {
        for layout in with_a_file_each() {
            for limits in [EngineLimits::Theirs, EngineLimits::Ours] {
                let scratch = Scratch::new("tier-files");
                let mut place = CacheDir::open(&scratch.join("place")).unwrap();
                let inside = place.make_directory("0a").unwrap();
                let layout = tier_layout(plan(layout), limits);
                let files = TierFiles::start(&layout, &inside).unwrap();
                let (tell, told) = channel();
                let answer = || {
                    let tell = tell.clone();
                    Box::new(move |_begun, outcome| tell.send(outcome).unwrap())
                };
                let part = |first_block| ObjectPart {
                    name: ObjectName { entry: 5, first_block },
                    entry_blocks: 9,
                    transfer: 6 + first_block,
                };
                let parts = [(0, IO_BYTES, 1), (4, IO_BYTES, 2), (8, 4096, 3)];
                for (first_block, bytes, value) in parts {
                    files.put(part(first_block), vec![value; bytes], answer());
                    assert_eq!(told.recv().unwrap(), Ok(vec![value; bytes]));
                }
                for (first_block, bytes, value) in parts {
                    files.get(part(first_block), 0, vec![0; bytes], answer());
                    assert_eq!(told.recv().unwrap(), Ok(vec![value; bytes]));
                }
                files.get(part(12), 0, vec![0; 4096], answer());
                assert_eq!(told.recv().unwrap(), Err(Errno::NOENT.raw_os_error()));
                // Somebody else has cut a file short; it was not named, and taken for a bad drive.
                let path = files.path(part(8).name);
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1).unwrap();
                files.get(part(8), 0, vec![0; 4096], answer());
                assert_eq!(told.recv().unwrap(), Ok(Vec::new()), "{path}");
                let header_bytes = if layout.plan.chunk_bytes().is_none() { 128 } else { 0 };
                let written = (2 * IO_BYTES + 4096) as u64 + 3 * header_bytes;
                assert_eq!(files.counts().written_bytes, written);
                // A directory in the place of a file is not removed.
                let path = files.path(part(0).name);
                std::fs::remove_file(&path).unwrap();
                std::fs::create_dir(&path).unwrap();
                for (first_block, ..) in parts {
                    files.remove(ObjectName { entry: 5, first_block });
                }
                files.end();
                std::fs::remove_dir(&path).unwrap();
                let failures = files.counts().failures;
                let left = failures.iter().find(|failed| failed.name == "unlink").unwrap();
                assert!(path.ends_with(&left.first_file) && left.count == 1, "{failures:?}");
                let count = |name: &str| {
                    let counts = files.counts().operations;
                    counts.iter().find(|one| one.name == name).map(|one| one.count)
                };
                assert_eq!((count("create"), count("unlink")), (Some(3), Some(2)));
                place.remove().unwrap();
                assert_eq!(std::fs::read_dir(&*scratch).unwrap().count(), 0);
            }
        }
    }

    /// An entry of nine blocks has two whole files and one of a block.
    #[test]
    fn a_simulated_drive_serves_the_ios_of_the_layout_with_its_tail() {
        for layout in with_a_file_each() {
            for limits in [EngineLimits::Theirs, EngineLimits::Ours] {
                let now = Rc::new(Cell::new(Nanos::ZERO));
                let (clock, io) = (Clock::Simulated(Rc::clone(&now)), Nanos::from_us(10));
                let drive = SimDrive::new(DeviceModel::ideal(io), clock.clone(), None);
                let layout = tier_layout(plan(layout), limits);
                let files = layout.simulated(Rc::clone(&drive), clock);
                let device = files.attach(0);
                for kind in [IoKind::Write, IoKind::Read] {
                    let way = device.open_entry(kind, &[], 9).unwrap();
                    let ios = [(0, IO_BYTES), (4, IO_BYTES), (8, 4096)].map(|(block, bytes)| {
                        let offset_bytes = (way.start_block + block) * BLOCK_BYTES;
                        let length_bytes = bytes as u32;
                        let request =
                            IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 };
                        device.submit(request, None)
                    });
                    while let Some(at) = drive.next_completion() {
                        now.set(at);
                        drive.complete_due();
                    }
                    assert_eq!((device.in_flight(), ios.len()), (0, 3));
                }
                let counts = layout.counts(&files.outcome());
                let told: Vec<_> =
                    counts.operations.iter().map(|one| (&*one.name, one.count)).collect();
                let entry_bytes = (2 * IO_BYTES + 4096) as u64;
                let (expected, bytes): (&[_], u64) = match layout.plan.layout() {
                    // A header each, and a sync.
                    EngineLayout::Mlperf => {
                        (&[("write", 6), ("read", 6), ("fsync", 3)], entry_bytes + 3 * 128)
                    }
                    _ => (&[("write", 3), ("read", 3)], entry_bytes),
                };
                assert_eq!(told, expected, "{layout:?}");
                assert_eq!((counts.written_bytes, counts.read_bytes), (bytes, bytes), "{layout:?}");
            }
        }
    }
}
