//! Figures of a load on files: latencies by kind of step, and faults by step and cause.

use std::fmt;
use std::sync::Arc;

use crate::error::errno_text;
use crate::metrics::Histogram;

ringfall_core::named! {
/// Kind of step, by which steps are counted, in the order of a store's life; it has the name of
/// its system call where it is one.
#[derive(Hash, PartialOrd, Ord)]
pub enum StepKind {
    /// Look whether an object is there.
    Stat = "stat",
    /// Look whether a directory is there, which is made with those missing on the way to it.
    MakeDirectories = "mkdir",
    /// File opened to be read.
    Open = "open",
    /// File opened to be written.
    Create = "create",
    /// Write of an object or of a part of it.
    Write = "write",
    /// Read of an object or of a part of it.
    Read = "read",
    /// File made durable by `fsync`.
    Sync = "fsync",
    /// File dropped from the page cache.
    DontNeed = "fadvise",
    /// File closed after its I/O.
    Close = "close",
    /// File given another name.
    Rename = "rename",
    /// File given one more name.
    Link = "link",
    /// File removed by its name.
    Unlink = "unlink",
}
}

/// Cause of a failed step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum FaultCause {
    /// The positive errno of the system call.
    Errno(i32),
    /// The file ended before all was read, or nothing more of it was written.
    Short,
}

impl fmt::Display for FaultCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCause::Errno(errno) => f.write_str(&errno_text(*errno)),
            FaultCause::Short => f.write_str("fewer bytes were moved than were asked for"),
        }
    }
}

/// Steps of one kind that failed for one cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileFault {
    /// Kind of the steps that failed.
    pub step: StepKind,
    /// Cause of the failures.
    pub cause: FaultCause,
    /// Number of such failures.
    pub count: u64,
    /// Path of the first of them, as a worker saw it.
    pub first_path: Arc<str>,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileFault { step, cause, count, first_path } = self;
        match count {
            1 => write!(f, "{} failed for {first_path}: {cause}", step.name()),
            _ => {
                write!(f, "{} failed {count} times, first for {first_path}: {cause}", step.name())
            }
        }
    }
}

/// Figures of a load on files.
#[derive(Clone, Default, Debug)]
pub struct FileOutcome {
    /// Latencies, ns, of the requests that did all they were asked for: from the moment a request
    /// was there until its last tile had ended.
    pub requests: Histogram,
    /// Requests of which a script failed.
    pub requests_failed: u64,
    /// Requests that were cut short, as the load was stopped.
    pub requests_stopped: u64,
    /// Bytes read, those of failed requests too.
    pub read_bytes: u64,
    /// Bytes written, those of failed requests too.
    pub written_bytes: u64,
    /// Time from the first request until the last had ended, ns.
    pub elapsed_ns: u64,
    /// CPU time of the whole process in that time, ns, with that of the kernel's threads that work
    /// for its ring.
    pub cpu_ns: u64,
    /// Failures, each kind of step and cause once.
    pub faults: Vec<FileFault>,
    /// Latencies of the steps that went well, by kind, ns.
    pub(super) steps: [Histogram; StepKind::ALL.len()],
    /// Whether the file system refused O_DIRECT.
    pub(super) refuses_direct: bool,
}

impl FileOutcome {
    /// Latencies, ns, of the steps of one kind that went well; their number is its count.
    pub fn step(&self, kind: StepKind) -> &Histogram {
        &self.steps[kind as usize]
    }

    /// Number of steps of all kinds that went well.
    pub fn steps(&self) -> u64 {
        self.steps.iter().map(Histogram::count).sum()
    }

    /// Adds the figures of another load, or of another thread's part; times are added too.
    pub fn add(&mut self, other: &FileOutcome) {
        self.requests.merge(&other.requests);
        self.requests_failed += other.requests_failed;
        self.requests_stopped += other.requests_stopped;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.elapsed_ns += other.elapsed_ns;
        self.cpu_ns += other.cpu_ns;
        self.refuses_direct |= other.refuses_direct;
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.merge(theirs);
        }
        for fault in &other.faults {
            self.count_faults(fault.clone());
        }
    }

    pub(super) fn count_step(&mut self, kind: StepKind, latency_ns: u64) {
        self.steps[kind as usize].record(latency_ns);
    }

    pub(super) fn count_fault(&mut self, step: StepKind, cause: FaultCause, path: &Arc<str>) {
        self.count_faults(FileFault { step, cause, count: 1, first_path: Arc::clone(path) });
    }

    fn count_faults(&mut self, fault: FileFault) {
        let is_known =
            |known: &&mut FileFault| known.step == fault.step && known.cause == fault.cause;
        match self.faults.iter_mut().find(is_known) {
            Some(known) => known.count += fault.count,
            None => self.faults.push(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_by_step_and_cause_with_the_first_path() {
        let mut outcome = FileOutcome::default();
        let enoent = FaultCause::Errno(libc::ENOENT);
        for (step, cause, path) in [
            (StepKind::Open, enoent, "a"),
            (StepKind::Open, enoent, "b"),
            (StepKind::Create, enoent, "c"),
            (StepKind::Read, FaultCause::Short, "d"),
        ] {
            outcome.count_fault(step, cause, &path.into());
        }
        let mut sum = outcome.clone();
        sum.add(&outcome);
        let counts = |of: &FileOutcome| of.faults.iter().map(|fault| fault.count).collect();
        let counted: [Vec<u64>; 2] = [&outcome, &sum].map(counts);
        assert_eq!(counted, [[2, 1, 1], [4, 2, 2]]);
        let texts: Vec<String> = outcome.faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts[0],
            "open failed 2 times, first for a: No such file or directory (os error 2)"
        );
        assert_eq!(texts[2], "read failed for d: fewer bytes were moved than were asked for");
    }

    #[test]
    fn kinds_are_in_the_order_of_their_histograms_and_have_names_of_their_own() {
        let mut names = std::collections::BTreeSet::new();
        for (index, kind) in StepKind::ALL.into_iter().enumerate() {
            assert!(kind as usize == index && names.insert(kind.name()), "{kind:?}");
        }
    }
}
