//! Memory that only keeps time: for entries that have sizes and no bytes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::timers::Timers;
use crate::clock::{Nanos, SECOND};
use crate::device::Occupation;

/// The memories of a simulated shard.
pub struct Hollow {
    /// Host memory, which its thread copies.
    pub host: HollowMemory,
    /// Link between host memory and the GPUs', shared by all shards.
    pub gpu_link: Rc<HollowMemory>,
    /// GPU memory, in which the GPUs make and check content; shared by all shards.
    pub gpu_memory: Rc<HollowMemory>,
}

/// Memory that copies one piece after the other, as a thread does.
pub struct HollowMemory {
    time: Timers,
    bytes_per_s: f64,
    /// Time of an operation besides its bytes' share: without it a run of nothing but hits would
    /// never reach its end.
    latency: Nanos,
    free_at: Cell<Nanos>,
    busy: Rc<RefCell<Occupation>>,
}

impl HollowMemory {
    /// Memory of which a thread copies `bytes_per_s` > 0; each operation takes `latency`
    /// besides.
    pub fn new(time: Timers, bytes_per_s: f64, latency: Nanos) -> HollowMemory {
        HollowMemory { time, bytes_per_s, latency, free_at: Cell::default(), busy: Rc::default() }
    }

    /// Shows how long it was busy.
    pub fn busy(&self) -> Rc<RefCell<Occupation>> {
        Rc::clone(&self.busy)
    }

    pub(super) async fn copy(&self, bytes: u64) {
        let copying = Nanos::from_ns_f64(bytes as f64 / self.bytes_per_s * SECOND.as_ns_f64());
        let now = self.time.now();
        let begin = self.free_at.get().max(now);
        let end = begin.saturating_add(copying).saturating_add(self.latency);
        self.free_at.set(end);
        self.busy.borrow_mut().add(now, begin, end);
        self.time.sleep_until(end).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MICROSECOND;
    use crate::shard::local::LocalRuntime;

    #[test]
    fn one_piece_is_copied_after_the_other() {
        let (runtime, time) = (LocalRuntime::default(), Timers::starting_at(MICROSECOND));
        let memory = Rc::new(HollowMemory::new(time.clone(), 1e9, Nanos::from_ns(100)));
        for _ in 0..3 {
            let memory = Rc::clone(&memory);
            runtime.spawn(Box::pin(async move { memory.copy(5_000).await }));
        }
        runtime.run_ready();
        assert_eq!(memory.busy().borrow().until(2 * MICROSECOND), MICROSECOND);
        while let Some(next) = time.next_deadline() {
            time.advance_to(next);
            runtime.run_ready();
        }
        let busy = 3 * Nanos::from_ns(5_100);
        assert_eq!(time.now(), MICROSECOND + busy);
        assert_eq!(memory.busy().borrow().until(time.now()), busy);
        assert_eq!(runtime.task_count(), 0);
    }
}
