//! `ringfall.rank`: which of several processes of a launcher this was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Cores, Rank};

/// One process among those that a launcher started together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankReport {
    /// Its number among all of them, from 0.
    pub rank: u32,
    /// How many there were; null: the launcher did not say.
    pub size: Option<u32>,
    /// Its number among those on its machine, from 0; null: the launcher did not say.
    pub local_rank: Option<u32>,
    /// How many were on its machine; null: the launcher did not say.
    pub local_size: Option<u32>,
    /// Name of its machine.
    pub host: String,
    /// What tells the launch from others; null: the launcher has no name for it.
    pub launch: Option<String>,
    /// Cores, by number, that no other rank of its machine used; null: it used all that it might.
    pub own_cores: Option<Vec<usize>>,
    /// Whether the machine had fewer cores than ranks, so that this one had one shard that was not
    /// pinned.
    pub crowded: bool,
}

impl RankReport {
    pub(super) fn of(rank: &Rank) -> RankReport {
        let launcher = &rank.launcher;
        RankReport {
            rank: launcher.rank,
            size: launcher.size,
            local_rank: launcher.local_rank,
            local_size: launcher.local_size,
            host: rank.host.clone(),
            launch: launcher.launch.clone(),
            own_cores: rank.own_cpus().map(<[usize]>::to_vec),
            crowded: rank.cores == Cores::Crowded,
        }
    }
}
