//! Files on a simulated drive: their scripts are done by as many workers, in as many lines, as by a
//! crew's threads, and take the time in which the drive reads, writes and flushes.
//!
//! All other steps take no time: no description of a drive has figures of them. There is no page
//! cache, and no file is ever there before it is written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec::IntoIter;

use super::lines::{FileLine, Lines};
use super::outcome::{FileOutcome, StepKind};
use super::script::{FileScript, FileStep};
use crate::buffer::Ticket;
use crate::clock::{Clock, Nanos};
use crate::device::{
    Device, DeviceFuture, DeviceSlots, ObjectName, ObjectPart, SimDrive, Way, Ways,
};
use crate::placement::Extent;
use crate::ring::{IoKind, IoRequest, SlotToken, Slots};
use crate::units::BLOCK_BYTES;

/// Rule by which parts of entries are moved: given a read or a write, the part and its bytes, the
/// line in which it waits, and the scripts.
pub type FileRule = dyn Fn(IoKind, ObjectPart, u64) -> (FileLine, Vec<FileScript>);

/// I/O of a shard on a part of an entry, and what is left to do for it.
struct Job {
    kind: IoKind,
    line: FileLine,
    steps: IntoIter<FileStep>,
    shard: usize,
    slots: Rc<DeviceSlots>,
    token: SlotToken,
    length_bytes: u32,
}

/// Workers that do one job at a time each.
struct Crew {
    lines: Lines<Job>,
    idle: u64,
}

/// Jobs that wait for a worker or for the one before them, and their waits so far.
#[derive(Default)]
struct Waits {
    jobs: u64,
    since: Nanos,
    total: Nanos,
}

impl Waits {
    fn until(&self, now: Nanos) -> Nanos {
        self.total + (now - self.since) * self.jobs
    }

    /// From now on so many wait.
    fn change(&mut self, now: Nanos, jobs: u64) {
        *self = Waits { jobs, since: now, total: self.until(now) };
    }
}

/// Files on one drive, which all shards of a simulation share.
pub struct SimFiles {
    drive: Rc<SimDrive>,
    clock: Clock,
    rule: Box<FileRule>,
    stores: RefCell<Crew>,
    /// None where those that store load, too.
    loads: Option<RefCell<Crew>>,
    waits: RefCell<Waits>,
    /// Number of transfers begun.
    transfers: Cell<u64>,
    outcome: RefCell<FileOutcome>,
}

impl SimFiles {
    /// Files on a drive without a medium, moved by so many workers that store and, where these are
    /// others, that load.
    #[must_use]
    pub fn new(
        drive: Rc<SimDrive>,
        clock: Clock,
        (stores, loads): (u64, Option<u64>),
        rule: Box<FileRule>,
    ) -> Rc<SimFiles> {
        let crew = |idle| RefCell::new(Crew { lines: Lines::default(), idle });
        Rc::new(SimFiles {
            drive,
            clock,
            rule,
            stores: crew(stores),
            loads: loads.map(crew),
            waits: RefCell::default(),
            transfers: Cell::new(0),
            outcome: RefCell::default(),
        })
    }

    /// The files as one shard sees them.
    #[must_use]
    pub fn attach(self: &Rc<Self>, shard: usize) -> SimFileDevice {
        let (files, slots, ways) = (Rc::clone(self), Slots::new(), RefCell::default());
        SimFileDevice { files, slots, ways, shard }
    }

    /// Figures of the steps that take time. Requests are not counted.
    #[must_use]
    pub fn outcome(&self) -> FileOutcome {
        self.outcome.borrow().clone()
    }

    /// Time that jobs waited for workers so far, of all jobs together.
    #[must_use]
    pub fn waited(&self) -> Nanos {
        self.waits.borrow().until(self.clock.now())
    }

    fn crew(&self, kind: IoKind) -> &RefCell<Crew> {
        match (kind, &self.loads) {
            (IoKind::Read, Some(loads)) => loads,
            _ => &self.stores,
        }
    }

    fn count_waiting(&self, change: impl FnOnce(u64) -> u64) {
        let waits = &mut *self.waits.borrow_mut();
        waits.change(self.clock.now(), change(waits.jobs));
    }

    /// Has the job done.
    fn ask(self: &Rc<Self>, job: Job) {
        let (kind, line) = (job.kind, job.line);
        self.count_waiting(|jobs| jobs + 1);
        let begun = {
            let crew = &mut *self.crew(kind).borrow_mut();
            crew.lines.add(line, job);
            // A worker is idle only where no line waits for one.
            let begun = if crew.idle > 0 { crew.lines.next() } else { None };
            crew.idle -= u64::from(begun.is_some());
            begun
        };
        if let Some(job) = begun {
            self.begin(job);
        }
    }

    fn begin(self: &Rc<Self>, job: Job) {
        self.count_waiting(|jobs| jobs - 1);
        job.slots.begin_at(job.token, self.clock.now());
        self.go_on(job);
    }

    /// Does the next step that takes time; the job ends where there is none.
    fn go_on(self: &Rc<Self>, mut job: Job) {
        let next = job.steps.by_ref().find_map(|step| Some((step.kind(), io_of(&step)?)));
        let Some((step, (kind, bytes))) = next else { return self.end(job) };
        // At most an I/O of the shard and a header, which is below 2 GiB.
        let length_bytes = bytes as u32;
        let request = IoRequest { kind, offset_bytes: 0, length_bytes, buffer_offset: 0 };
        // What the drive holds when a simulation is abandoned would hold the drive.
        let (files, begun, shard) = (Rc::downgrade(self), self.clock.now(), job.shard);
        let ended = move |_bytes: &mut dyn FnMut(&mut [u8]) -> i32| {
            if let Some(files) = files.upgrade() {
                files.count(step, bytes, begun);
                files.go_on(job);
            }
        };
        self.drive.submit_for(shard, request, Box::new(ended));
    }

    fn count(&self, step: StepKind, bytes: u64, begun: Nanos) {
        let outcome = &mut *self.outcome.borrow_mut();
        outcome.count_step(step, (self.clock.now() - begun).as_ns());
        match step {
            StepKind::Write => outcome.written_bytes += bytes,
            StepKind::Read => outcome.read_bytes += bytes,
            _ => {}
        }
    }

    /// Answers the shard; the worker goes on with the job behind in the line, else with another's.
    fn end(self: &Rc<Self>, job: Job) {
        // At most 64 MiB.
        job.slots.complete(job.token, job.length_bytes as i32, self.clock.now());
        let next = {
            let crew = &mut *self.crew(job.kind).borrow_mut();
            let next = crew.lines.behind(job.line).or_else(|| crew.lines.next());
            crew.idle += u64::from(next.is_none());
            next
        };
        if let Some(next) = next {
            self.begin(next);
        }
    }
}

/// I/O that a step asks of the drive, and its bytes; none where it takes no time.
fn io_of(step: &FileStep) -> Option<(IoKind, u64)> {
    match step {
        FileStep::Write { bytes, .. } => Some((IoKind::Write, *bytes)),
        FileStep::Read { bytes, .. } => Some((IoKind::Read, *bytes)),
        FileStep::Sync => Some((IoKind::Flush, 0)),
        _ => None,
    }
}

/// One shard's view of [`SimFiles`]: each I/O is on a file of its own.
pub struct SimFileDevice {
    files: Rc<SimFiles>,
    slots: Rc<DeviceSlots>,
    ways: RefCell<Ways>,
    shard: usize,
}

impl Device for SimFileDevice {
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture {
        let now = self.files.clock.now();
        let (token, future) = self.slots.insert(ticket, now);
        let (way, first_block) = self.ways.borrow().of(request.offset_bytes / BLOCK_BYTES);
        match (request.kind, way.and_then(|way| Some((way, way.entry?)))) {
            // What was written is as durable as the scripts make it.
            (IoKind::Flush, _) => self.slots.complete(token, 0, now),
            // More ways than there can be, or a larger entry.
            (_, None) => self.slots.complete(token, -libc::ENOBUFS, now),
            (kind, Some((way, entry))) => {
                let part = way.part(ObjectName { entry, first_block });
                let length_bytes = request.length_bytes;
                let (line, scripts) = (self.files.rule)(kind, part, length_bytes.into());
                let steps: Vec<_> = scripts.into_iter().flat_map(|script| script.steps).collect();
                let (steps, slots) = (steps.into_iter(), Rc::clone(&self.slots));
                let shard = self.shard;
                self.files.ask(Job { kind, line, steps, shard, slots, token, length_bytes });
            }
        }
        future
    }

    fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    fn name(&self) -> &str {
        "files on a simulated drive"
    }

    fn open_entry(&self, _kind: IoKind, _extents: &[Extent], blocks: u64) -> Option<Extent> {
        let transfer = self.files.transfers.get();
        self.files.transfers.set(transfer + 1);
        // A transfer is all that files here have in common.
        let way = Way { entry: Some(transfer), entry_blocks: blocks, transfer };
        Some(self.ways.borrow_mut().open(way))
    }

    fn close_entry(&self, way: Extent) {
        self.ways.borrow_mut().close(way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceModel;

    const FILE_BYTES: u32 = 4 * BLOCK_BYTES as u32;

    /// Two shards on a drive that takes 10 us for each I/O, however many are in flight.
    struct Bench {
        now: Rc<Cell<Nanos>>,
        drive: Rc<SimDrive>,
        files: Rc<SimFiles>,
        shards: [SimFileDevice; 2],
    }

    impl Bench {
        /// Files with a header, synced, each in a line of its own or in one with all of a transfer.
        fn new(threads: (u64, Option<u64>), in_one_line: bool) -> Bench {
            let now = Rc::new(Cell::new(Nanos::ZERO));
            let clock = Clock::Simulated(Rc::clone(&now));
            let io = Nanos::from_us(10);
            let model = DeviceModel { flush: io, ..DeviceModel::ideal(io) };
            let drive = SimDrive::new(model, clock.clone(), None);
            let rule = move |kind, part: ObjectPart, bytes| {
                let number = if in_one_line { 0 } else { part.name.first_block };
                let (offset_bytes, path) = (0, "a".into());
                let steps = match kind {
                    IoKind::Read => vec![FileStep::Read { offset_bytes, bytes }, FileStep::Close],
                    _ => vec![
                        FileStep::MakeDirectories { path },
                        FileStep::Write { offset_bytes, bytes: 128 },
                        FileStep::Write { offset_bytes, bytes },
                        FileStep::Sync,
                        FileStep::Close,
                    ],
                };
                (FileLine { request: part.transfer, number }, vec![FileScript { steps }])
            };
            let files = SimFiles::new(Rc::clone(&drive), clock, threads, Box::new(rule));
            let shards = [0, 1].map(|shard| files.attach(shard));
            Bench { now, drive, files, shards }
        }

        /// Asks for so many files of a new transfer.
        fn ask(&self, shard: usize, kind: IoKind, count: u64) -> Vec<DeviceFuture> {
            let device = &self.shards[shard];
            let way = device.open_entry(kind, &[], count * 4).unwrap();
            let ios = (0..count).map(|number| io(device, kind, way, number)).collect();
            device.close_entry(way);
            ios
        }

        /// Lets all of it end, and says when that was, us.
        fn end_us(&self) -> u64 {
            while let Some(at) = self.drive.next_completion() {
                self.now.set(at);
                self.drive.complete_due();
            }
            assert!(self.shards.iter().all(|shard| shard.in_flight() == 0));
            self.now.get().as_ns() / 1_000
        }
    }

    fn io(device: &SimFileDevice, kind: IoKind, way: Extent, number: u64) -> DeviceFuture {
        let offset_bytes = (way.start_block + number * 4) * BLOCK_BYTES;
        let request = IoRequest { kind, offset_bytes, length_bytes: FILE_BYTES, buffer_offset: 0 };
        device.submit(request, None)
    }

    /// Loads take 10 us each, stores 30.
    #[test]
    fn as_many_files_are_moved_at_a_time_as_there_are_workers() {
        for (threads, ends_us, waited_us) in
            [((1, None), 100, 10 + 20 + 30 + 40 + 70), ((2, None), 50, 10 + 10 + 20 + 20)]
        {
            let bench = Bench::new(threads, false);
            let _loads = [bench.ask(0, IoKind::Read, 3), bench.ask(1, IoKind::Read, 1)];
            let _stores = bench.ask(0, IoKind::Write, 2);
            assert_eq!(bench.end_us(), ends_us, "{threads:?}");
            assert_eq!(bench.files.waited(), Nanos::from_us(waited_us), "{threads:?}");
            let outcome = bench.files.outcome();
            let count = |kind| outcome.step(kind).count();
            assert_eq!((count(StepKind::Read), count(StepKind::Write)), (4, 4));
            assert_eq!((count(StepKind::Sync), outcome.steps()), (2, 10));
            let file_bytes = u64::from(FILE_BYTES);
            assert_eq!(outcome.read_bytes, 4 * file_bytes);
            assert_eq!(outcome.written_bytes, 2 * (file_bytes + 128));
        }
    }

    #[test]
    fn loads_wait_for_no_store_where_they_have_workers_of_their_own() {
        let bench = Bench::new((1, Some(1)), false);
        let _stores = bench.ask(0, IoKind::Write, 1);
        let _loads = bench.ask(0, IoKind::Read, 3);
        assert_eq!(bench.end_us(), 30);
    }

    #[test]
    fn a_line_has_one_worker_however_many_there_are() {
        let bench = Bench::new((8, None), true);
        let _loads = [bench.ask(0, IoKind::Read, 3), bench.ask(1, IoKind::Read, 4)];
        assert_eq!(bench.end_us(), 40);
    }

    #[test]
    fn an_io_counts_from_when_a_worker_began_with_it() {
        let bench = Bench::new((1, None), false);
        let queue = Rc::default();
        for (number, io) in bench.ask(0, IoKind::Read, 2).into_iter().enumerate() {
            io.queue_in(&queue, number as u64);
        }
        bench.end_us();
        for number in 0..2 {
            let (ended, io, _ticket) = queue.pop().unwrap();
            let times = (io.submitted, io.completed);
            let at = |tens: u64| Nanos::from_us(10 * tens);
            assert_eq!((ended, io.result), (number, FILE_BYTES as i32));
            assert_eq!(times, (at(number), at(number + 1)));
        }
    }

    /// A search that a signal ended kept the memory of each simulation under way.
    #[test]
    fn files_of_an_abandoned_simulation_are_freed() {
        let bench = Bench::new((1, None), false);
        let ios = bench.ask(0, IoKind::Read, 2);
        let (files, drive) = (Rc::downgrade(&bench.files), Rc::downgrade(&bench.drive));
        drop((bench, ios));
        assert!(files.upgrade().is_none() && drive.upgrade().is_none());
    }

    #[test]
    fn an_entry_that_no_way_leads_to_is_an_error() {
        let bench = Bench::new((1, None), false);
        let (device, queue) = (&bench.shards[0], Rc::default());
        let too_large = device.open_entry(IoKind::Read, &[], 1 << 24).unwrap();
        io(device, IoKind::Read, too_large, 0).queue_in(&queue, 0);
        assert_eq!(queue.pop().unwrap().1.result, -libc::ENOBUFS);
    }
}
