//! One thread of a load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::{Access, LoadError, LoadFigures, LoadPlan, Shared, io_failure, result_of};
use crate::clock::{Nanos, monotonic_now};
use crate::device::DataFile;
use crate::fill::{ContentName, fill};
use crate::key::{EntryKey, mix64};
use crate::ring::{Dialect, IoKind, LaneIo, LaneRing};
use crate::units::BLOCK_BYTES;

/// Has the others see that a thread has ended, also when it ends by a panic.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Worker {
    file: Arc<DataFile>,
    shared: Arc<Shared>,
    plan: LoadPlan,
    cpu: Option<usize>,
    lanes: u32,
    /// Number of I/Os that the range has room for.
    ios: u64,
    drawn: u64,
    seed: u64,
}

impl Worker {
    pub(super) fn new(
        plan: &LoadPlan,
        index: usize,
        count: usize,
        file: Arc<DataFile>,
        shared: Arc<Shared>,
    ) -> Worker {
        // The first threads have the odd lanes.
        let (even, odd) = (plan.depth / count as u32, plan.depth % count as u32);
        Worker {
            file,
            shared,
            plan: plan.clone(),
            cpu: plan.cpus.get(index).copied().flatten(),
            lanes: even + u32::from((index as u32) < odd),
            ios: plan.range_bytes / u64::from(plan.io_bytes),
            drawn: 0,
            seed: mix64(plan.seed ^ mix64(index as u64 + 1)),
        }
    }

    /// Runs until told to stop, the bytes are moved, or an I/O fails.
    pub(super) fn run(mut self, ready: &SyncSender<()>) -> Result<LoadFigures, LoadError> {
        let shared = Arc::clone(&self.shared);
        let _leaving = Leaving(&shared);
        let result = self.load(ready);
        if result.is_err() {
            // One that can't go on must not leave the others alone with the figures.
            shared.stop.store(true, Ordering::Relaxed);
        }
        result
    }

    fn load(&mut self, ready: &SyncSender<()>) -> Result<LoadFigures, LoadError> {
        if let Some(cpu) = self.cpu {
            let mut set = CpuSet::new();
            set.set(cpu);
            // A core that was taken away meanwhile costs speed, not truth.
            let _pinned = sched_setaffinity(None, &set);
        }
        let (bytes, polling) = (self.plan.io_bytes as usize, self.plan.polling);
        match self.file.command_target() {
            None => {
                let make = match self.plan.small_pages {
                    true => LaneRing::in_small_pages,
                    false => LaneRing::new,
                };
                let ring = make(self.file.raw_fd(), self.lanes, bytes, polling)?;
                self.keep_busy(ring, ready)
            }
            Some(target) => {
                let ring = LaneRing::commanding(target, self.lanes, bytes, polling)?;
                self.keep_busy(ring, ready)
            }
        }
    }

    fn keep_busy<D: Dialect>(
        &mut self,
        mut ring: LaneRing<D>,
        ready: &SyncSender<()>,
    ) -> Result<LoadFigures, LoadError> {
        if self.plan.read_percent < 100 {
            for lane in 0..self.lanes {
                let name =
                    ContentName { seed: self.seed, key: EntryKey(u128::from(lane)), version: 0 };
                fill(ring.buffer(lane), &name, 0);
            }
        }
        let mut figures = LoadFigures {
            registered_buffers: ring.has_registered_buffers(),
            huge_buffers: ring.huge_buffers(),
            ..LoadFigures::default()
        };
        let mut lanes = vec![(IoKind::Read, 0, Nanos::ZERO); self.lanes as usize];
        // All threads begin when the last is ready; nobody listening means giving up.
        if ready.send(()).is_err() {
            return Ok(figures);
        }
        for lane in 0..self.lanes {
            self.next(&mut ring, lane, &mut lanes, monotonic_now());
        }
        let mut cpu_at_start = None;
        while ring.in_flight() > 0 {
            ring.submit_and_wait()
                .map_err(|error| self.failure(IoKind::Read, 0, result_of(&error)))?;
            let now = monotonic_now();
            let start_ns = self.shared.window_start_ns.load(Ordering::Relaxed);
            let end_ns = self.shared.window_end_ns.load(Ordering::Relaxed);
            let counted = (start_ns..end_ns).contains(&now.as_ns());
            if counted && cpu_at_start.is_none() {
                cpu_at_start = Some(thread_cpu_ns());
            }
            if counted {
                figures.cpu_ns = thread_cpu_ns() - cpu_at_start.unwrap_or(0);
            }
            let (mut ios, mut bytes) = (0, 0);
            // No more than are in flight: those pushed here may have ended before the next look.
            for _ in 0..self.lanes {
                let Some((lane, result)) = ring.next_completion() else { break };
                let (kind, offset_bytes, submitted) = lanes[lane as usize];
                if result != self.plan.io_bytes as i32 {
                    return Err(self.failure(kind, offset_bytes, result));
                }
                ios += 1;
                bytes += u64::from(self.plan.io_bytes);
                if kind == IoKind::Read {
                    figures.all_read_bytes += u64::from(self.plan.io_bytes);
                }
                if counted {
                    let direction = match kind {
                        IoKind::Read => &mut figures.read,
                        IoKind::Write | IoKind::Flush => &mut figures.write,
                    };
                    direction.count(self.plan.io_bytes, (now - submitted).as_ns());
                }
                self.next(&mut ring, lane, &mut lanes, now);
            }
            self.shared.ios.fetch_add(ios, Ordering::Relaxed);
            self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(figures)
    }

    /// Puts the lane's next I/O in the queue, unless the load is over.
    fn next<D: Dialect>(
        &mut self,
        ring: &mut LaneRing<D>,
        lane: u32,
        lanes: &mut [(IoKind, u64, Nanos)],
        now: Nanos,
    ) {
        if self.shared.stop.load(Ordering::Relaxed) || !self.take_bytes() {
            return;
        }
        let (kind, offset_bytes) = self.draw();
        if kind == IoKind::Write {
            // A drive that finds equal blocks must find none.
            let stamp = mix64(self.seed ^ self.drawn);
            for (block, bytes) in
                ring.buffer(lane).chunks_exact_mut(BLOCK_BYTES as usize).enumerate()
            {
                bytes[..8].copy_from_slice(&(stamp.wrapping_add(block as u64)).to_le_bytes());
            }
        }
        lanes[lane as usize] = (kind, offset_bytes, now);
        ring.push(LaneIo { lane, kind, offset_bytes, length_bytes: self.plan.io_bytes });
    }

    fn take_bytes(&self) -> bool {
        let take = u64::from(self.plan.io_bytes);
        let left = &self.shared.left;
        if left.load(Ordering::Relaxed) == u64::MAX {
            return true;
        }
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(take))
            .is_ok()
    }

    fn draw(&mut self) -> (IoKind, u64) {
        self.drawn += 1;
        let kind_draw = mix64(self.seed.wrapping_add(self.drawn)) >> 32;
        let kind = match (kind_draw * 100) >> 32 < u64::from(self.plan.read_percent) {
            true => IoKind::Read,
            false => IoKind::Write,
        };
        let place = match self.plan.access {
            // One cursor for all: with a part for each, a thread that is ahead would begin its part
            // again while the others' still have gaps.
            Access::Sequential => self.shared.cursor.fetch_add(1, Ordering::Relaxed) % self.ios,
            Access::Random => {
                let draw = mix64(self.seed.wrapping_sub(self.drawn));
                ((u128::from(draw) * u128::from(self.ios)) >> 64) as u64
            }
        };
        (kind, place * u64::from(self.plan.io_bytes))
    }

    fn failure(&self, kind: IoKind, offset_bytes: u64, result: i32) -> LoadError {
        io_failure(&self.file, kind, offset_bytes, self.plan.io_bytes, result)
    }
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos::from_secs(time.tv_sec.unsigned_abs()).as_ns() + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;

    /// Regression: those who waited for the load to be over waited for ever.
    #[test]
    fn a_thread_that_panics_leaves_the_load_over() {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            window_start_ns: AtomicU64::new(0),
            window_end_ns: AtomicU64::new(0),
            ios: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            left: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            running: AtomicU64::new(1),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let _leaving = Leaving(&own);
            std::panic::resume_unwind(Box::new("as a failed assertion would"));
        });
        assert!(thread.join().is_err());
        assert_eq!(shared.running.load(Ordering::Relaxed), 0);
        assert!(shared.stop.load(Ordering::Relaxed));
    }
}
