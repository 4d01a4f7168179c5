//! Facts about the world that a configuration depends on, so that working it out stays pure.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rand::TryRng;
use rand::rngs::SysRng;
use ringfall_host::Room;

use super::Rank;

/// The world when the run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory available for a run's tiers, bytes.
    pub memory_available_bytes: Option<u64>,
    /// Resources of this machine, which no run may exceed.
    pub room: Room,
    /// Whether the run is simulated: then tiers take no memory, and shards no threads.
    pub is_simulated: bool,
    /// Place of this process among those of a launcher, if one started it as one of several.
    pub rank: Option<Rank>,
    /// Seconds since 1970, UTC.
    pub unix_s: u64,
    /// The seed, should none be given.
    pub random_seed: u64,
}

impl Facts {
    /// The same for a run that is simulated: it must not depend on where it is computed. One core;
    /// no host memory but what is asked for. What computing it takes is still held against `room`.
    pub fn of_no_machine(&self) -> Facts {
        Facts {
            cores: 1,
            memory_available_bytes: None,
            is_simulated: true,
            rank: None,
            ..self.clone()
        }
    }

    /// Looks at this machine, its clock and its source of random numbers.
    pub fn look() -> Facts {
        let room = Room::look();
        // A clock before 1970 only spoils the name of the results.
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        Facts {
            cores: room.cores,
            memory_available_bytes: room.memory_bytes(),
            room,
            is_simulated: false,
            rank: Rank::look(),
            unix_s,
            // Without the kernel's randomness the clock still tells runs apart.
            random_seed: SysRng.try_next_u64().unwrap_or(unix_s),
        }
    }
}

/// A time as `20250131T235959Z`: sorts, and is no trouble in file names.
pub fn compact_utc(unix_s: u64) -> String {
    // A clock beyond the year 9999 is as wrong as one before 1970.
    let time = i64::try_from(unix_s).ok().and_then(|unix_s| Timestamp::from_second(unix_s).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_164_800, "20240229T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
            (1_738_367_999, "20250131T235959Z"),
            (u64::MAX, "99991230T220000Z"),
        ] {
            assert_eq!(compact_utc(unix_s), text);
        }
    }
}
