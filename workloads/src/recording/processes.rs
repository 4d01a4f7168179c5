//! Processes of a recording: which threads share descriptors, and which open file each descriptor
//! leads to.

use std::collections::BTreeMap;

/// Threads that may be in the calls that begin others, the latest ones.
const CLONING_MAX: usize = 1024;
/// Processes among which that of an unknown thread is searched, the latest ones.
const SEARCHED_MAX: usize = 256;

/// Descriptors and working directory of a process.
#[derive(Clone, Debug, Default)]
struct Process {
    /// Open file by descriptor.
    files: BTreeMap<u32, u32>,
    /// Name of the directory from which paths begin, where it is known.
    working_directory: Option<u32>,
    threads: u32,
    /// Whether no call told where it comes from.
    is_guess: bool,
}

/// Thread that begins another.
struct Cloning {
    parent: u32,
    shares: bool,
}

/// Processes and their threads.
#[derive(Default)]
pub(super) struct Processes {
    /// Process, and index in the order of appearance, of each thread that is alive.
    threads: BTreeMap<u32, Thread>,
    processes: Vec<Process>,
    cloning: Vec<Cloning>,
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
    /// Number of threads so far.
    pub(super) fn threads(&self) -> usize {
        self.threads_seen as usize
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
        // A child may be seen before the call that began it returns.
        match self.cloning.pop() {
            Some(Cloning { parent, shares }) if parent != thread => {
                self.born(parent, thread, shares);
            }
            _ => {
                self.processes.push(Process { threads: 1, is_guess: true, ..Process::default() });
                self.add_thread(thread, self.processes.len() - 1);
            }
        }
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

    /// Takes note that a thread is about to begin another, which shares its descriptors or not.
    pub(super) fn begins_clone(&mut self, parent: u32, shares: bool) {
        // A parent that is known can't be taken for a child.
        self.thread(parent);
        // One that failed leaves its note behind.
        self.cloning.retain(|known| known.parent != parent);
        if self.cloning.len() == CLONING_MAX {
            self.cloning.remove(0);
        }
        self.cloning.push(Cloning { parent, shares });
    }

    /// Takes note that the call ended, with the number of the thread that it began.
    pub(super) fn ends_clone(&mut self, parent: u32, child: Option<u32>, shares: bool) {
        self.cloning.retain(|known| known.parent != parent);
        if let Some(child) = child
            && !self.threads.contains_key(&child)
        {
            self.born(parent, child, shares);
        }
    }

    fn born(&mut self, parent: u32, child: u32, shares: bool) {
        let process = self.thread(parent).process;
        if shares {
            self.processes[process].threads += 1;
            return self.add_thread(child, process);
        }
        let copy = Process { threads: 1, ..self.processes[process].clone() };
        self.descriptors += copy.files.len();
        for handle in copy.files.values() {
            self.references[*handle as usize] += 1;
        }
        self.processes.push(copy);
        self.add_thread(child, self.processes.len() - 1);
    }

    /// Ends a thread; the files that its process alone had open are given back, if it was the last
    /// of it.
    pub(super) fn exit(&mut self, thread: u32) -> Vec<u32> {
        let Some(Thread { process, .. }) = self.threads.remove(&thread) else {
            return Vec::new();
        };
        self.cloning.retain(|known| known.parent != thread);
        let process = &mut self.processes[process];
        process.threads -= 1;
        if process.threads > 0 {
            return Vec::new();
        }
        let files = std::mem::take(process).files;
        files.into_values().filter(|handle| self.is_last(*handle)).collect()
    }

    /// Takes a reference from an open file; whether it was the last.
    fn is_last(&mut self, handle: u32) -> bool {
        let references = &mut self.references[handle as usize];
        *references -= 1;
        *references == 0
    }

    /// A new open file.
    pub(super) fn new_file(&mut self) -> u32 {
        self.references.push(0);
        // As many as there are operations at most.
        (self.references.len() - 1) as u32
    }

    /// Has a descriptor lead to an open file; the one that it led to before is given back where
    /// nothing else leads to it.
    pub(super) fn set(&mut self, thread: u32, descriptor: u32, handle: u32) -> Option<u32> {
        self.references[handle as usize] += 1;
        self.descriptors += 1;
        let before = self.process(thread).files.insert(descriptor, handle);
        before.filter(|before| self.is_last(*before))
    }

    /// Takes a descriptor away; its open file is given back where nothing else leads to it.
    pub(super) fn close(&mut self, thread: u32, descriptor: u32) -> Option<u32> {
        let handle = self.process(thread).files.remove(&descriptor)?;
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
        if let Some(handle) = process.files.get(&descriptor) {
            return Some(*handle);
        }
        if !process.is_guess || process.threads > 1 || !process.files.is_empty() {
            return None;
        }
        let holds = |process: &Process| {
            process.files.get(&descriptor).is_some_and(|handle| has_path(*handle))
        };
        let recent = self.processes.len().saturating_sub(SEARCHED_MAX)..self.processes.len();
        let found = recent.rev().find(|index| holds(&self.processes[*index]))?;
        let known = self.threads.get_mut(&thread)?;
        self.processes[known.process].threads = 0;
        known.process = found;
        self.processes[found].threads += 1;
        self.processes[found].files.get(&descriptor).copied()
    }

    /// Name of the directory from which a thread's paths begin; none where it is not known.
    pub(super) fn working_directory(&mut self, thread: u32) -> &mut Option<u32> {
        &mut self.process(thread).working_directory
    }
}
