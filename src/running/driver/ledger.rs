//! Ledger of the steps that a driver owes its requests, checked at every change: each request that
//! is being served has one step under way, and each step is answered once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use ringfall_workloads::contract::RequestId;

/// See the module. Every count is of one shard.
#[derive(Default)]
pub(super) struct Ledger {
    serving: Cell<u32>,
    /// Operations of the engine running for the driver.
    operations: Cell<u32>,
    /// Number of them that write documents, which no request waits for.
    ingesting: Cell<u32>,
    /// Requests that ended so far, in the window or not, well or not.
    ended: Cell<u64>,
    /// Requests whose step has not been answered; empty without debug assertions, as a set that
    /// changes with every operation is not free.
    steps: RefCell<BTreeSet<RequestId>>,
}

impl Ledger {
    pub(super) fn serving(&self) -> u32 {
        self.serving.get()
    }

    pub(super) fn operations(&self) -> u32 {
        self.operations.get()
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Operations that a request waits for.
    pub(super) fn awaited(&self) -> u32 {
        self.operations.get() - self.ingesting.get()
    }

    /// A slot was taken: one request more is being served.
    pub(super) fn serve(&self) {
        self.serving.set(self.serving.get() + 1);
    }

    /// A request goes no further, because the driver stops or its user was sent home.
    pub(super) fn abandon(&self) {
        let serving = self.serving.get();
        assert!(serving > 0, "a request ends that was not being served");
        self.serving.set(serving - 1);
    }

    pub(super) fn done(&self, request: RequestId) {
        self.abandon();
        self.ended.set(self.ended.get() + 1);
        debug_assert!(
            !self.steps.borrow().contains(&request),
            "{request:?} is done, and one of its steps has not been answered"
        );
    }

    /// A step of a request begins: a wait, or an operation.
    pub(super) fn step(&self, request: RequestId) {
        debug_assert!(
            self.steps.borrow_mut().insert(request),
            "{request:?} begins a step before the last one was answered"
        );
    }

    /// A step of a request is answered.
    pub(super) fn answer(&self, request: RequestId) {
        debug_assert!(
            self.steps.borrow_mut().remove(&request),
            "a step of {request:?} is answered that was not under way"
        );
    }

    /// An operation that a request waits for begins.
    pub(super) fn begin_operation(&self) {
        self.operations.set(self.operations.get() + 1);
    }

    pub(super) fn end_operation(&self) {
        let operations = self.operations.get();
        assert!(operations > self.ingesting.get(), "an operation ended that had not begun");
        self.operations.set(operations - 1);
    }

    /// The write of a document begins.
    pub(super) fn begin_ingest(&self) {
        self.operations.set(self.operations.get() + 1);
        self.ingesting.set(self.ingesting.get() + 1);
    }

    pub(super) fn end_ingest(&self) {
        let (operations, ingesting) = (self.operations.get(), self.ingesting.get());
        assert!(ingesting > 0, "the write of a document ended that had not begun");
        assert!(operations >= ingesting, "writes of documents are operations");
        self.operations.set(operations - 1);
        self.ingesting.set(ingesting - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Action on a ledger that serves one request and ingests one document.
    type Act = fn(&Ledger);

    #[test]
    fn what_is_counted_twice_is_noticed() {
        let refused = |act: Act| {
            let ledger = Ledger::default();
            ledger.serve();
            ledger.begin_ingest();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&ledger))).is_err()
        };
        assert!(!refused(|ledger| ledger.done(RequestId(1))));
        let cases: &[(&str, Act)] = &[
            ("done twice", |ledger| (0..2).for_each(|_| ledger.done(RequestId(1)))),
            ("abandoned when done", |ledger| {
                ledger.done(RequestId(1));
                ledger.abandon();
            }),
            ("an ingest taken for an operation", Ledger::end_operation),
            ("ingested twice", |ledger| (0..2).for_each(|_| ledger.end_ingest())),
            #[cfg(debug_assertions)]
            ("answered twice", |ledger| {
                ledger.step(RequestId(1));
                (0..2).for_each(|_| ledger.answer(RequestId(1)));
            }),
            #[cfg(debug_assertions)]
            ("two steps at once", |ledger| (0..2).for_each(|_| ledger.step(RequestId(1)))),
            #[cfg(debug_assertions)]
            ("done in the middle of a step", |ledger| {
                ledger.step(RequestId(1));
                ledger.done(RequestId(1));
            }),
        ];
        for (name, act) in cases {
            assert!(refused(*act), "{name}");
        }
    }
}
