//! Threads that do scripts for whoever asks, each with bytes that are given: plain system calls,
//! one at a time on a thread, until the crew is ended.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::calls::call;
use super::course::Course;
use super::lines::{FileLine, Lines};
use super::outcome::{FaultCause, FileOutcome};
use super::script::{FileScript, FileStep};
use crate::buffer::{Chunk, ChunkPool};
use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;
use crate::held::HeldDirectory;
use crate::key::mix64;
use crate::model::LatencySpread;
use crate::ring::PathOp;
use crate::units::BLOCK_BYTES;

/// Callback with the time at which a thread began with a job, and its bytes, or why it failed.
/// Called on any thread.
pub type FileDone = Box<dyn FnOnce(Nanos, Result<Vec<u8>, FaultCause>) + Send>;

/// Scripts on one object, with its bytes.
pub struct FileJob {
    /// Done in their order until one fails. Each write is of the first bytes, each read to them.
    pub scripts: Vec<FileScript>,
    /// Bytes that are written, or memory for those that are read, as long as the longest step.
    pub bytes: Vec<u8>,
    /// Jobs of one line are done one after the other, as they came.
    pub line: FileLine,
    /// Called once the last script has ended.
    pub done: FileDone,
}

#[derive(Default)]
struct Queue {
    lines: Lines<FileJob>,
    is_over: bool,
}

struct Shared {
    directory: Arc<HeldDirectory>,
    queue: Mutex<Queue>,
    /// Rung when a job is ready, and when it is over.
    bell: Condvar,
}

struct Worker {
    shared: Arc<Shared>,
    outcome: Arc<Mutex<FileOutcome>>,
    /// Aligned memory for I/O past the page cache.
    aligned: Option<Chunk>,
    /// Least latencies of its reads and writes.
    slowed: Option<LatencySpread>,
    /// Seed of the next of them.
    draw: u64,
}

/// Threads for jobs on files below one directory. They end with it, when no job is left.
pub struct FileCrew {
    shared: Arc<Shared>,
    outcomes: Vec<Arc<Mutex<FileOutcome>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // Figures and queues: a panic elsewhere ends the run anyway.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileCrew {
    /// Starts so many threads. `direct_bytes` is the longest I/O that passes the page cache by; 0
    /// where none does. Each read and write takes at least a latency drawn from `slowed`, by its
    /// seed, the thread and the order of its I/Os.
    pub fn start(
        directory: Arc<HeldDirectory>,
        threads: usize,
        direct_bytes: u64,
        slowed: Option<(LatencySpread, u64)>,
    ) -> Result<FileCrew, SetupError> {
        let chunk_bytes = direct_bytes.next_multiple_of(BLOCK_BYTES) as usize;
        let pool = (chunk_bytes > 0).then(|| ChunkPool::new(chunk_bytes, threads as u32));
        let pool = pool.transpose()?;
        let shared = Shared { directory, queue: Mutex::default(), bell: Condvar::new() };
        let shared = Arc::new(shared);
        let mut crew =
            FileCrew { shared, outcomes: Vec::with_capacity(threads), threads: Mutex::default() };
        for index in 0..threads {
            let (shared, outcome) = (Arc::clone(&crew.shared), Arc::default());
            crew.outcomes.push(Arc::clone(&outcome));
            let aligned = pool.as_ref().and_then(ChunkPool::take);
            let (slowed, draw) = slowed.map_or((None, 0), |(latencies, seed)| {
                (Some(latencies), mix64(seed ^ (index as u64) << 48))
            });
            let worker = Worker { shared, outcome, aligned, slowed, draw };
            let thread = std::thread::Builder::new()
                .name(format!("ringfall-io-{index}"))
                .spawn(move || worker.work())
                .map_err(|error| SetupError::NoThread { reason: error.to_string() })?;
            held(&crew.threads).push(thread);
        }
        Ok(crew)
    }

    /// Has the job done.
    pub fn ask(&self, job: FileJob) {
        if held(&self.shared.queue).lines.add(job.line, job) {
            self.shared.bell.notify_one();
        }
    }

    /// Figures of all threads so far. Requests and times are not counted.
    pub fn outcome(&self) -> FileOutcome {
        let mut sum = FileOutcome::default();
        self.outcomes.iter().for_each(|outcome| sum.add(&held(outcome)));
        sum
    }

    /// Ends the threads when they have done what was asked for, and waits for that.
    pub fn end(&self) {
        held(&self.shared.queue).is_over = true;
        self.shared.bell.notify_all();
        for thread in std::mem::take(&mut *held(&self.threads)) {
            // Its panic was told when it came.
            let _panic = thread.join();
        }
    }
}

impl Drop for FileCrew {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// The next job, once there is one; none when it is over.
    fn next(&self) -> Option<FileJob> {
        let mut queue = held(&self.queue);
        loop {
            if let Some(job) = queue.lines.next() {
                return Some(job);
            }
            if queue.is_over {
                return None;
            }
            queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Worker {
    fn work(mut self) {
        while let Some(mut job) = self.shared.next() {
            loop {
                let line = job.line;
                self.do_job(job);
                let next = held(&self.shared.queue).lines.behind(line);
                match next {
                    Some(next) => job = next,
                    None => break,
                }
            }
        }
    }

    fn do_job(&mut self, job: FileJob) {
        let begun = monotonic_now();
        let FileJob { scripts, mut bytes, done, .. } = job;
        let is_direct =
            has_step(&scripts, |step| matches!(step, FileStep::Open { direct: true, .. }));
        let aligned = if is_direct { self.aligned.take() } else { None };
        let failure = match aligned {
            Some(mut chunk) => {
                let buffer = &mut chunk.bytes_mut()[..bytes.len()];
                if has_step(&scripts, |step| matches!(step, FileStep::Write { .. })) {
                    buffer.copy_from_slice(&bytes);
                }
                let failure = self.do_scripts(scripts, buffer);
                bytes.copy_from_slice(buffer);
                self.aligned = Some(chunk);
                failure
            }
            None => self.do_scripts(scripts, &mut bytes),
        };
        done(begun, failure.map_or(Ok(bytes), Err));
    }

    /// Does scripts until one fails: why.
    fn do_scripts(&mut self, scripts: Vec<FileScript>, buffer: &mut [u8]) -> Option<FaultCause> {
        let mut file = None;
        for script in scripts {
            let mut course = Course::new(None, script);
            while let Some(op) = course.next(buffer) {
                let began = monotonic_now();
                course.begins(began);
                let result = call(&self.shared.directory, &mut file, buffer, &op);
                self.slow(&op, began);
                course.done(result, monotonic_now(), &mut held(&self.outcome));
            }
            if course.failure().is_some() {
                return course.failure();
            }
        }
        None
    }

    /// Waits until a read or write has taken as long as is drawn for it.
    fn slow(&mut self, op: &PathOp, began: Nanos) {
        if let (Some(latencies), PathOp::Move { .. }) = (self.slowed, op) {
            self.draw = mix64(self.draw);
            let due = began + latencies.at(self.draw);
            std::thread::sleep(due.saturating_sub(monotonic_now()).as_duration());
        }
    }
}

fn has_step(scripts: &[FileScript], is: impl Fn(&FileStep) -> bool) -> bool {
    scripts.iter().any(|script| script.steps.iter().any(&is))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::script::OpenHow;
    use super::super::{FileStep, StepKind};
    use super::*;

    fn job(steps: Vec<FileStep>, bytes: Vec<u8>, line: u64, done: FileDone) -> FileJob {
        FileJob {
            scripts: vec![FileScript { steps }],
            bytes,
            line: FileLine { request: line, number: 0 },
            done,
        }
    }

    fn open(path: &str, how: OpenHow, direct: bool) -> FileStep {
        FileStep::Open { path: path.into(), how, direct }
    }

    /// Bytes come back as they were given, past the page cache and through it.
    #[test]
    fn given_bytes_are_written_as_they_are_and_read_back() {
        let path = std::env::temp_dir().join(format!("ringfall-crew-{}", std::process::id()));
        let directory = Arc::new(HeldDirectory::make(&path).unwrap());
        let crew = FileCrew::start(directory, 3, 8192, None).unwrap();
        let (tell, told) = channel();
        let ask = |steps, bytes, line| {
            let tell = tell.clone();
            crew.ask(job(steps, bytes, line, Box::new(move |_begun, end| tell.send(end).unwrap())));
        };
        for (name, direct, value) in [("a", false, 1), ("b", true, 2)] {
            let how = OpenHow::Create { exclusive: true, truncate: false };
            let write = FileStep::Write { offset_bytes: 0, bytes: 8192 };
            let steps = vec![open(name, how, direct), write, FileStep::Close];
            ask(steps, vec![value; 8192], 7);
            assert_eq!(told.recv().unwrap(), Ok(vec![value; 8192]));
            assert_eq!(std::fs::read(path.join(name)).unwrap(), vec![value; 8192]);
            let read = FileStep::Read { offset_bytes: 4096, bytes: 4096 };
            let steps = vec![open(name, OpenHow::Read, direct), read, FileStep::Close];
            ask(steps, vec![0; 4096], 7);
            assert_eq!(told.recv().unwrap(), Ok(vec![value; 4096]));
            ask(vec![FileStep::Remove { path: name.into() }; 2], Vec::new(), 7);
            assert_eq!(told.recv().unwrap(), Ok(Vec::new()));
        }
        ask(vec![open("a", OpenHow::Read, false), FileStep::Close], Vec::new(), 7);
        assert_eq!(told.recv().unwrap(), Err(FaultCause::Errno(libc::ENOENT)));
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        assert_eq!(
            (crew.outcome().step(StepKind::Unlink).count(), crew.outcome().steps()),
            (4, 16)
        );
        std::fs::remove_dir(&path).unwrap();
    }

    /// Each appends to the same file, which only the first makes, and begins when those before it
    /// have ended.
    #[test]
    fn jobs_of_a_line_are_done_in_their_order_and_before_the_crew_ends() {
        let path = std::env::temp_dir().join(format!("ringfall-line-{}", std::process::id()));
        let directory = Arc::new(HeldDirectory::make(&path).unwrap());
        let crew = FileCrew::start(directory, 4, 0, None).unwrap();
        let (tell, told) = channel();
        for number in 0..200_u64 {
            let (line, place) = (number % 2, number / 2);
            let how = OpenHow::Create { exclusive: place == 0, truncate: place == 0 };
            let write = FileStep::Write { offset_bytes: place, bytes: 1 };
            let steps = vec![open(&line.to_string(), how, false), write, FileStep::Close];
            let tell = tell.clone();
            let done = move |begun: Nanos, end: Result<Vec<u8>, FaultCause>| {
                tell.send((line, begun, monotonic_now(), end)).unwrap();
            };
            crew.ask(job(steps, vec![place as u8], line, Box::new(done)));
        }
        drop(crew);
        let ends: Vec<_> = told.try_iter().collect();
        for line in 0..2 {
            let of_line: Vec<_> = ends.iter().filter(|(of, ..)| *of == line).collect();
            let places: Vec<u8> =
                of_line.iter().map(|(.., end)| end.as_ref().unwrap()[0]).collect();
            assert!(of_line.windows(2).all(|pair| pair[0].2 <= pair[1].1), "{of_line:?}");
            assert_eq!(places, (0..100).collect::<Vec<u8>>());
            assert_eq!(std::fs::read(path.join(line.to_string())).unwrap(), places);
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
