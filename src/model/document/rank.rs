//! `ringfall.rank`: which of several processes of a launcher this was.

use ringfall_config::{Cores, Rank};

use crate::figures::given::row;

row! {
/// One process among those that a launcher started together.
pub struct RankReport of rank: Rank {
    /// Rank of this process, from 0.
    pub rank: u32 = rank.launcher.rank,
    /// Number of ranks in the launch; null if the launcher did not say.
    pub size: Option<u32> = rank.launcher.size,
    /// Rank of this process among those on its host, from 0; null if the launcher did not say.
    pub local_rank: Option<u32> = rank.launcher.local_rank,
    /// Number of ranks on this host; null if the launcher did not say.
    pub local_size: Option<u32> = rank.launcher.local_size,
    /// Name of the host that this rank ran on.
    pub host: String = rank.host.clone(),
    /// Identifier that the launcher gave this launch (such as a Slurm job ID); null if none.
    pub launch: Option<String> = rank.launcher.launch.clone(),
    /// Numbers of the cores that only this rank used on its host; null if the host's cores were
    /// not divided among its ranks.
    pub own_cores: Option<Vec<usize>> = rank.own_cpus().map(<[usize]>::to_vec),
    /// Whether the host had fewer cores than ranks, in which case each rank has one shard, which is
    /// not pinned.
    pub crowded: bool = rank.cores == Cores::Crowded,
}
}
