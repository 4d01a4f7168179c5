//! Resources of a run that had no more to give: the drive, and the tier in which room was waited
//! for.

use ringfall_core::key::Tier;

use crate::RunResult;
use crate::simulation::Binding;

/// Share of the drive's limits from which on its bandwidth is used up: the knee of `saturate`'s
/// search lies at 0.95, and a run's mix of sizes stays below what its best size reaches.
pub(crate) const ROOFLINE_FULL: f64 = 0.8;

/// Whether the drive is known to have had no more to give, by a simulation or by its limits.
pub(crate) fn is_drive_full(result: &RunResult) -> bool {
    match &result.simulation {
        Some(simulation) => {
            matches!(simulation.binds.known(), Some(Binding::Drive | Binding::DriveIops))
        }
        None => result.roofline_share().is_some_and(|share| share >= ROOFLINE_FULL),
    }
}

/// Number of entries that each tier was emptied of to make room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evicted {
    /// From the GPU tier, to either tier below.
    pub gpu: u64,
    /// From the CPU tier to storage.
    pub cpu: u64,
    /// From storage, which drops them.
    pub storage: u64,
}

impl Evicted {
    /// Counts those of a run.
    pub fn of(result: &RunResult) -> Evicted {
        let [gpu, cpu, storage] = Tier::ALL.map(|tier| result.engine.evicted_entries(tier));
        Evicted { gpu, cpu, storage }
    }

    /// The tier in which room was waited for; none where none was emptied. Where entries are
    /// written to the tier below to make room, that takes time; dropping them takes none.
    pub fn tier_waited_for(self) -> Option<Tier> {
        let tiers = [(Tier::Cpu, self.cpu), (Tier::Gpu, self.gpu), (Tier::Storage, self.storage)];
        tiers.into_iter().find(|(_, entries)| *entries > 0).map(|(tier, _)| tier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The storage tier was named of a run that waited for its CPU tier to be written to it.
    #[test]
    fn room_is_waited_for_where_entries_are_written_down() {
        assert_eq!(Evicted::default().tier_waited_for(), None);
        let storage = Evicted { storage: 9, ..Evicted::default() };
        assert_eq!(storage.tier_waited_for(), Some(Tier::Storage));
        assert_eq!(Evicted { cpu: 9, ..storage }.tier_waited_for(), Some(Tier::Cpu));
    }
}
