//! The rows of a trace, handed to the shard's workload as it has room for them.

use std::rc::Rc;

use ringfall_engine::shard::executor::hear;
use ringfall_workloads::source::SourceRequest;

use super::Driver;

impl Driver {
    /// Gives the workload its trace's rows as it has room for them, until [`Driver::stop`].
    pub async fn run_feed(self: Rc<Self>, rows: flume::Receiver<SourceRequest>) {
        while !self.stopped.get() {
            let poked = self.poke.notified();
            if !self.wants_rows() {
                poked.await;
                continue;
            }
            let Ok(row) = hear(rows.recv_async()).await else { return self.supply_end() };
            self.workload.borrow_mut().supply(row);
            // As many more as there are without waiting, then one look at the clock.
            while self.wants_rows()
                && let Ok(row) = rows.try_recv()
            {
                self.workload.borrow_mut().supply(row);
            }
            self.poke.notify_all();
        }
    }

    /// Whether its workload has room for rows of a trace.
    pub fn wants_rows(&self) -> bool {
        self.workload.borrow().wants_rows()
    }

    /// Gives its workload a row.
    pub fn supply(&self, row: SourceRequest) {
        self.workload.borrow_mut().supply(row);
        self.poke.notify_all();
    }

    /// Tells its workload that there are no more rows.
    pub fn supply_end(&self) {
        self.workload.borrow_mut().supply_end();
        self.poke.notify_all();
        self.tell_if_exhausted();
    }
}
