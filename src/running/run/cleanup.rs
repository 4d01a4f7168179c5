//! The data of a run that is over, and how long its deletion is waited for.

use std::time::Duration;

use ringfall_core::error::SetupError;
use ringfall_host::Overdue;
use ringfall_host::interrupt::Interrupt;

use super::phases::Ending;
use crate::store::Store;

/// Longest wait for the kernel to delete the data files once somebody interrupts the run.
const INTERRUPTED_REMOVAL_PATIENCE: Duration = Duration::from_secs(8);

/// The data of a run that is over. It is deleted after the results are written: deleting may take
/// minutes, and a signal that ends the process meanwhile must not take the results with it. Files
/// are deleted also when this is dropped; objects stay in their store.
pub struct Cleanup {
    store: Store,
    patience: Duration,
    interrupt: Interrupt,
    /// Whether it is left behind because the kernel lets nobody go who deletes a file before the
    /// I/Os on it have ended, and somebody wants the run to end.
    is_left: bool,
}

impl Cleanup {
    /// Creates the cleanup after a run that ended like that; `is_at_rest`: all I/Os and threads
    /// have ended, so that nothing holds up who deletes the data.
    pub(super) fn new(
        store: Store,
        ending: &Ending,
        interrupt: &Interrupt,
        is_at_rest: bool,
    ) -> Cleanup {
        Cleanup {
            store,
            // Terabytes on a disk or over a network take minutes, and a run that did not end well
            // may have a dead device.
            patience: match ending {
                Ending::Complete => Duration::from_secs(3_600),
                Ending::Failed(_) => Duration::from_secs(120),
                Ending::Interrupted => INTERRUPTED_REMOVAL_PATIENCE,
            },
            interrupt: interrupt.clone(),
            is_left: !is_at_rest && *ending == Ending::Interrupted,
        }
    }

    /// Deletes it.
    ///
    /// # Errors
    /// Data that could not be deleted, or is not deleted yet when the patience has ended: an hour
    /// for a run that came to its end, 2 min for one that has failed, and 8 s once it is
    /// interrupted. Or I/Os on it have not ended, and it is left behind.
    pub fn carry_out(self) -> Result<(), SetupError> {
        if self.is_left && self.store.is_in_files() {
            let what = format!(
                "the data in {} is left behind, as I/Os on it have not ended, and the kernel may \
                 keep this process until they have",
                self.store.paths()
            );
            // Dropped, it would be deleted.
            std::mem::forget(self.store);
            let remedy = "look at the drive; the next run there deletes it, or delete it by hand";
            return Err(SetupError::new(what, remedy));
        }
        let Cleanup { store, patience, interrupt, .. } = self;
        let _overdue = Overdue::new(format!("the data in {} to be deleted", store.paths()));
        let patience = move || match interrupt.is_set() {
            true => patience.min(INTERRUPTED_REMOVAL_PATIENCE),
            false => patience,
        };
        store.remove_within(&patience)
    }
}
