//! Drives that fail while the engine runs: given up by whichever shard notices first, and dropped
//! from the index by each one when it next looks.

use super::Shard;
use super::data_path::{TransferDone, TransferSpec};
use super::measure::VictimCounts;
use crate::drive::DriveId;
use crate::error::IoError;

impl Shard {
    /// Moves an entry. A drive whose I/Os fail one after the other is given up, if the engine is to
    /// go on without it.
    pub(super) async fn transfer(&self, spec: &TransferSpec<'_>) -> Result<TransferDone, IoError> {
        let result = self.path.transfer(spec).await;
        if result.is_err() && self.gives_drives_up {
            for drive in self.path.failed_drives() {
                let _is_news = self.shared.budgets.lose_drive(drive);
            }
            self.heed_losses();
        }
        result
    }

    /// Drops what lay on drives that have been lost. Operations call it before they ask the index,
    /// and so does whoever asks for sums of it; costs a comparison while nothing is lost.
    pub fn heed_losses(&self) {
        let budgets = &self.shared.budgets;
        if budgets.losses() == 0 || budgets.losses() == self.losses_heeded.borrow().len() {
            return;
        }
        for drive in (0..budgets.drives()).map(DriveId::at) {
            if budgets.is_lost(drive) && !self.losses_heeded.borrow().contains(drive) {
                self.losses_heeded.borrow_mut().insert(drive);
                let (entries, bytes) = self.place(|placement| placement.drop_drive(drive));
                let counts = VictimCounts { entries, bytes };
                self.measure.lost(counts, self.clock.now());
            }
        }
    }

    /// I/O errors since the shard began, but for those of drives that have been given up: what was
    /// in flight on such a drive fails as well, and says nothing of the others.
    pub fn error_count(&self) -> u64 {
        let budgets = &self.shared.budgets;
        let lost = (0..budgets.drives()).map(DriveId::at).filter(|&drive| budgets.is_lost(drive));
        self.measure.error_count_ever() - lost.map(|drive| self.path.errors(drive)).sum::<u64>()
    }

    /// Says how much waits for each drive, so that what is written next goes where less does.
    pub(super) fn note_waiting(&self) {
        let drives = self.shared.budgets.drives();
        if drives == 1 {
            return;
        }
        let mut placement = self.placement.borrow_mut();
        for drive in (0..drives).map(DriveId::at) {
            placement.note_waiting(drive, self.path.waiting_bytes(drive));
        }
    }
}
