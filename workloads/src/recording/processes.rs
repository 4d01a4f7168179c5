//! Processes of a recording: which threads share descriptors, and which open file each descriptor
//! leads to.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Processes among which that of an unknown thread is searched, the latest ones.
const SEARCHED_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    /// Open file that it leads to.
    handle: u32,
    /// Whether it is closed when the process executes another program.
    closes_on_exec: bool,
}

/// Descriptors and working directory of a process.
#[derive(Clone, Debug, Default)]
struct Process {
    files: BTreeMap<u32, Descriptor>,
    /// Name of the directory from which paths begin, where it is known.
    working_directory: Option<u32>,
    threads: u32,
    /// Whether no call told where it comes from.
    is_guess: bool,
}

#[derive(Default)]
pub(super) struct Processes {
    /// Process, and index in the order of appearance, of each thread that is alive.
    threads: BTreeMap<u32, Thread>,
    processes: Vec<Process>,
    threads_seen: u32,
    descriptors: usize,
    /// Number of descriptors that lead to each open file.
    references: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Thread {
    process: usize,
    index: u32,
}

impl Processes {
    pub(super) fn threads(&self) -> usize {
        self.threads_seen as usize
    }

    /// Number of threads that have not ended.
    pub(super) fn alive(&self) -> usize {
        self.threads.len()
    }

    /// Number of descriptors that were opened, duplicated or copied to a new process so far.
    pub(super) fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Index of a thread in the order of appearance.
    pub(super) fn index_of(&mut self, thread: u32) -> u32 {
        self.thread(thread).index
    }

    fn thread(&mut self, thread: u32) -> Thread {
        if let Some(known) = self.threads.get(&thread) {
            return *known;
        }
        self.processes.push(Process { threads: 1, is_guess: true, ..Process::default() });
        self.add_thread(thread, self.processes.len() - 1);
        self.threads[&thread]
    }

    fn add_thread(&mut self, thread: u32, process: usize) {
        self.threads.insert(thread, Thread { process, index: self.threads_seen });
        self.threads_seen += 1;
    }

    fn process(&mut self, thread: u32) -> &mut Process {
        let process = self.thread(thread).process;
        &mut self.processes[process]
    }

    /// Takes note that a thread began another, which shares its descriptors or has a copy of them.
    pub(super) fn begins(&mut self, parent: u32, child: u32, shares: bool) {
        let mut process = self.thread(parent).process;
        if self.threads.contains_key(&child) {
            return;
        }
        match shares {
            true => self.processes[process].threads += 1,
            false => process = self.copy(process),
        }
        self.add_thread(child, process);
    }

    fn copy(&mut self, process: usize) -> usize {
        let copy = Process { threads: 1, ..self.processes[process].clone() };
        self.descriptors += copy.files.len();
        for descriptor in copy.files.values() {
            self.references[descriptor.handle as usize] += 1;
        }
        self.processes.push(copy);
        self.processes.len() - 1
    }

    /// Gives a thread descriptors of its own, as they are.
    pub(super) fn unshare(&mut self, thread: u32) {
        let Thread { process, index } = self.thread(thread);
        if self.processes[process].threads > 1 {
            self.processes[process].threads -= 1;
            let process = self.copy(process);
            self.threads.insert(thread, Thread { process, index });
        }
    }

    /// Takes note that a thread executes another program; the files that are closed by that are
    /// given back.
    pub(super) fn executes(&mut self, thread: u32) -> Vec<u32> {
        self.unshare(thread);
        self.close_those(thread, |_, descriptor| descriptor.closes_on_exec)
    }

    /// Ends a thread; the files that its process alone had open are given back, if it was the last
    /// of it.
    pub(super) fn exit(&mut self, thread: u32) -> Vec<u32> {
        let Some(Thread { process, .. }) = self.threads.get(&thread).copied() else {
            return Vec::new();
        };
        let is_last = self.processes[process].threads == 1;
        let closed = self.close_those(thread, |_, _| is_last);
        self.processes[process].threads -= 1;
        self.threads.remove(&thread);
        closed
    }

    /// Closes a range of descriptors; the files to which nothing else leads are given back.
    pub(super) fn close_range(&mut self, thread: u32, range: &RangeInclusive<u32>) -> Vec<u32> {
        self.close_those(thread, |descriptor, _| range.contains(&descriptor))
    }

    fn close_those(
        &mut self,
        thread: u32,
        is_closed: impl Fn(u32, &Descriptor) -> bool,
    ) -> Vec<u32> {
        let mut closed = Vec::new();
        self.process(thread).files.retain(|number, descriptor| {
            let closes = is_closed(*number, descriptor);
            if closes {
                closed.push(descriptor.handle);
            }
            !closes
        });
        closed.retain(|handle| self.is_last(*handle));
        closed
    }

    /// Takes note whether descriptors are closed when their process executes another program.
    pub(super) fn set_closes_on_exec(
        &mut self,
        thread: u32,
        range: RangeInclusive<u32>,
        closes_on_exec: bool,
    ) {
        let open = self.process(thread).files.iter_mut();
        for (_, descriptor) in open.filter(|(number, _)| range.contains(number)) {
            descriptor.closes_on_exec = closes_on_exec;
        }
    }

    /// Takes a reference from an open file; whether it was the last.
    fn is_last(&mut self, handle: u32) -> bool {
        let references = &mut self.references[handle as usize];
        *references -= 1;
        *references == 0
    }

    pub(super) fn new_file(&mut self) -> u32 {
        self.references.push(0);
        // As many as there are operations at most.
        (self.references.len() - 1) as u32
    }

    /// Has a descriptor lead to an open file; the one that it led to before is given back where
    /// nothing else leads to it.
    pub(super) fn set(
        &mut self,
        thread: u32,
        descriptor: u32,
        handle: u32,
        closes_on_exec: bool,
    ) -> Option<u32> {
        self.references[handle as usize] += 1;
        self.descriptors += 1;
        let opened = Descriptor { handle, closes_on_exec };
        let before = self.process(thread).files.insert(descriptor, opened)?.handle;
        self.is_last(before).then_some(before)
    }

    /// Takes a descriptor away; its open file is given back where nothing else leads to it.
    pub(super) fn close(&mut self, thread: u32, descriptor: u32) -> Option<u32> {
        let handle = self.process(thread).files.remove(&descriptor)?.handle;
        self.is_last(handle).then_some(handle)
    }

    /// Open file of a descriptor. `has_path` tells whether an open file has the path that strace
    /// tells of the descriptor: a thread whose process is not known may be one of another's.
    pub(super) fn file(
        &mut self,
        thread: u32,
        descriptor: u32,
        has_path: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let process = self.process(thread);
        if let Some(known) = process.files.get(&descriptor) {
            return Some(known.handle);
        }
        if !process.is_guess || process.threads > 1 || !process.files.is_empty() {
            return None;
        }
        let holds = |process: &Process| {
            process.files.get(&descriptor).is_some_and(|known| has_path(known.handle))
        };
        let recent = self.processes.len().saturating_sub(SEARCHED_MAX)..self.processes.len();
        let found = recent.rev().find(|index| holds(&self.processes[*index]))?;
        let known = self.threads.get_mut(&thread)?;
        self.processes[known.process].threads = 0;
        known.process = found;
        self.processes[found].threads += 1;
        self.processes[found].files.get(&descriptor).map(|known| known.handle)
    }

    /// Name of the directory from which a thread's paths begin; none where it is not known.
    pub(super) fn working_directory(&mut self, thread: u32) -> &mut Option<u32> {
        &mut self.process(thread).working_directory
    }
}
