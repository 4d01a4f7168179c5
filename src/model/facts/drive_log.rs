//! A drive's own account of a run: what it said of itself before the load and after the run.

use ringfall_host::{BlockDelta, DATA_UNIT_BYTES, DriveLook, HealthLog, LogKind, MediaLog};

use super::quotient;

/// Fewest bytes written by the host, by the drive's count, of which a write amplification is told:
/// at 100 of its units, what it rounds up is 1 %.
const HOST_WRITE_BYTES_MIN: u64 = 100 * DATA_UNIT_BYTES;

/// One of the drives below the data files, and what it said of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveAccount {
    /// Name of the drive under `/sys/block`.
    pub device: String,
    /// Its answers, or why there are none.
    pub answer: Result<DriveAnswer, String>,
}

/// Answers of a drive before the load and after the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriveAnswer {
    /// Answer when the storage was open, before any load.
    pub before: DriveLook,
    /// Answer when the last I/O had ended.
    pub after: DriveLook,
    /// Time between the two answers, s.
    pub seconds: f64,
    /// The kernel's counters of the drive over the same time; none where it doesn't count.
    pub kernel: Option<BlockDelta>,
    /// Size of the drive's block device, bytes.
    pub size_bytes: Option<u64>,
}

impl DriveAnswer {
    /// Increase of a counter of the health log; none where the drive does not tell it, or where it
    /// fell, as by a reset.
    pub fn grown(&self, count: fn(&HealthLog) -> Option<u128>) -> Option<u64> {
        increase(count(&self.before.health)?, count(&self.after.health)?)
    }

    /// Increase of a counter of the media; none of a drive that does not count there.
    pub fn media_grown(&self, count: fn(&MediaLog) -> u128) -> Option<u64> {
        let (before, after) = (self.before.media.as_ref()?, self.after.media.as_ref()?);
        increase(count(before), count(after))
    }

    /// Bytes that the host read, by the drive's count.
    pub fn host_read_bytes(&self) -> Option<u64> {
        self.host_bytes(|log| log.read_bytes)
    }

    /// Bytes that the host wrote, by the drive's count.
    pub fn host_write_bytes(&self) -> Option<u64> {
        self.host_bytes(|log| log.written_bytes)
    }

    fn host_bytes(&self, bytes: fn(&HealthLog) -> Option<u128>) -> Option<u64> {
        let counts = bytes(&self.after.health) > Some(0);
        self.grown(bytes).filter(|_| counts)
    }

    /// Bytes written to the media for each byte that the host wrote; none where the drive does not
    /// tell both, or the host wrote less than 100 of its units.
    pub fn write_amplification(&self) -> Option<f64> {
        let host_bytes = self.host_write_bytes().filter(|bytes| *bytes >= HOST_WRITE_BYTES_MIN)?;
        quotient(self.media_grown(|log| log.written_bytes)?, host_bytes)
    }

    /// Why there is no write amplification, without a full stop; none where there is one.
    pub fn amplification_not_told(&self) -> Option<&'static str> {
        if self.write_amplification().is_some() {
            return None;
        }
        let media_bytes = self.media_grown(|log| log.written_bytes);
        Some(match (self.after.kind, media_bytes, self.host_write_bytes()) {
            (LogKind::Ata, ..) => {
                "a SATA drive's statistics do not count what is written to its media"
            }
            (_, None, _) => "the drive does not count what it writes to its media (OCP's log C0h)",
            (.., None) => "the drive does not count what the host writes",
            _ => "the host wrote less than 51.2 MB",
        })
    }

    /// Times that the drive slowed down against heat: the larger of its two counts of that, of
    /// which many a drive keeps only one.
    pub fn throttles(&self) -> u64 {
        let transitions =
            [self.grown(|log| log.light_throttles), self.grown(|log| log.heavy_throttles)];
        let transitions: u64 = transitions.into_iter().flatten().sum();
        let events = self.media_grown(|log| log.throttle_events.into());
        transitions.max(events.unwrap_or(0))
    }

    /// Capacity of the whole drive, which may have more namespaces than the one in use, bytes.
    pub fn capacity_bytes(&self) -> Option<u64> {
        self.after.controller.capacity_bytes.or(self.size_bytes)
    }
}

fn increase(before: u128, after: u128) -> Option<u64> {
    u64::try_from(after.checked_sub(before)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(units: u128, media_bytes: Option<u128>) -> DriveLook {
        let media =
            media_bytes.map(|written_bytes| MediaLog { written_bytes, ..MediaLog::default() });
        let written_bytes = units.checked_mul(u128::from(DATA_UNIT_BYTES));
        let (light_throttles, heavy_throttles) = (Some(0), Some(0));
        let health =
            HealthLog { written_bytes, light_throttles, heavy_throttles, ..HealthLog::default() };
        DriveLook { health, media, ..DriveLook::default() }
    }

    fn answer(before: DriveLook, after: DriveLook) -> DriveAnswer {
        DriveAnswer { before, after, ..DriveAnswer::default() }
    }

    #[test]
    fn write_amplification_is_told_of_enough_bytes_that_the_drive_counted_twice() {
        let far = 1 << 100;
        let enough = answer(look(far, Some(far)), look(far + 100, Some(far + 76_800_000)));
        assert_eq!(enough.host_write_bytes(), Some(51_200_000));
        assert_eq!(enough.write_amplification(), Some(1.5));
        let little = answer(look(far, Some(far)), look(far + 99, Some(far + 76_800_000)));
        assert_eq!(little.host_write_bytes(), Some(50_688_000));
        assert_eq!(little.write_amplification(), None);
        for (before, after) in [(None, None), (Some(1), None), (None, Some(1))] {
            let half = answer(look(far, before), look(far + 100, after));
            assert_eq!(half.write_amplification(), None);
            assert!(half.amplification_not_told().is_some_and(|why| why.contains("C0h")));
        }
        assert_eq!(enough.amplification_not_told(), None);
        let mut other = answer(look(far, None), look(far + 100, None));
        other.after.kind = LogKind::Ata;
        assert!(other.amplification_not_told().is_some_and(|why| why.contains("SATA")));
        let uncounted = answer(look(0, Some(1)), look(0, Some(7)));
        assert!(uncounted.amplification_not_told().is_some_and(|why| why.contains("the host")));
    }

    #[test]
    fn a_counter_that_fell_or_is_not_kept_is_unknown() {
        let fell = answer(look(9, Some(9)), look(3, Some(3)));
        assert_eq!(fell.host_write_bytes(), None);
        assert_eq!(fell.media_grown(|log| log.written_bytes), None);
        assert_eq!(answer(look(0, None), look(0, None)).host_write_bytes(), None);
        assert_eq!(answer(look(0, None), look(u128::MAX, None)).host_write_bytes(), None);
        assert_eq!(answer(look(7, None), look(7, None)).host_write_bytes(), Some(0));
    }

    #[test]
    fn a_slowdown_that_a_drive_counts_twice_is_one() {
        let mut one = answer(look(0, Some(0)), look(0, Some(0)));
        assert_eq!(one.throttles(), 0);
        let health = &mut one.after.health;
        (health.light_throttles, health.heavy_throttles) = (Some(2), Some(1));
        assert_eq!(one.throttles(), 3);
        if let Some(media) = &mut one.after.media {
            media.throttle_events = 3;
        }
        assert_eq!(one.throttles(), 3);
        let health = &mut one.after.health;
        (health.light_throttles, health.heavy_throttles) = (Some(0), Some(0));
        assert_eq!(one.throttles(), 3);
    }

    #[test]
    fn the_capacity_is_that_of_the_drive_before_that_of_its_namespace() {
        let mut one = DriveAnswer { size_bytes: Some(7), ..DriveAnswer::default() };
        assert_eq!(one.capacity_bytes(), Some(7));
        one.after.controller.capacity_bytes = Some(9);
        assert_eq!(one.capacity_bytes(), Some(9));
    }
}
