//! `ringfall.rank`: which of several processes of a launcher this was.

use serde::{Deserialize, Serialize};

use ringfall_config::{Cores, Rank};

/// One process among those that a launcher started together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RankReport {
    /// Rank of this process, from 0.
    pub rank: u32,
    /// Number of ranks in the launch; null if the launcher did not say.
    pub size: Option<u32>,
    /// Rank of this process among those on its host, from 0; null if the launcher did not say.
    pub local_rank: Option<u32>,
    /// Number of ranks on this host; null if the launcher did not say.
    pub local_size: Option<u32>,
    /// Name of the host that this rank ran on.
    pub host: String,
    /// Identifier that the launcher gave this launch (such as a Slurm job ID); null if none.
    pub launch: Option<String>,
    /// Numbers of the cores that only this rank used on its host; null if the host's cores were
    /// not divided among its ranks.
    pub own_cores: Option<Vec<usize>>,
    /// Whether the host had fewer cores than ranks, in which case each rank has one shard, which is
    /// not pinned.
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
