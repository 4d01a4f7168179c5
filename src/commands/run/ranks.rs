//! Ranks of one launch: what each may take of a file system that they share.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ringfall_config::{Plan, Rank};
use ringfall_host::Machine;

/// Part of the free space that ranks share where no capacity is asked for, percent: what a run
/// alone takes.
pub(super) const FREE_PERCENT: u64 = 95;
/// File systems that other machines write to as well.
const OF_MANY_MACHINES: [&str; 14] = [
    "9p",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "panfs",
    "smb3",
    "wekafs",
];

/// Capacity of the storage tier where none is asked for, bytes: this rank's part of what is free
/// and of what the ranks before it have taken already. 0 where no other rank shares it, which
/// leaves it to the store.
pub(super) fn storage_share_bytes(plan: &Plan) -> u64 {
    // With several drives the store shares out what is free on each.
    let (Some(rank), [own]) = (&plan.rank, &plan.cache_dirs[..]) else { return 0 };
    share_below(rank, own)
}

/// The part of a rank whose data goes to the directory `own`.
pub(in crate::commands) fn share_below(rank: &Rank, own: &Path) -> u64 {
    let Some(existing) = own.ancestors().find(|path| path.exists()) else { return 0 };
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let sharers = u64::from(sharers(rank, existing));
    if sharers == 1 || own.starts_with("/dev") && !own.starts_with("/dev/shm") {
        return 0;
    }
    let Some(free_bytes) = ringfall_host::free_bytes(existing) else { return 0 };
    let taken_bytes = own.parent().map_or(0, taken_bytes);
    part_bytes(free_bytes, taken_bytes, sharers)
}

/// The part of one of `sharers`, of space of which some have taken theirs already: at least a byte,
/// so that it is never "what is free".
fn part_bytes(free_bytes: u64, taken_bytes: u64, sharers: u64) -> u64 {
    let percent = |bytes: u64| bytes / 100 * FREE_PERCENT;
    let part = percent(free_bytes.saturating_add(taken_bytes)) / sharers;
    part.min(percent(free_bytes)).max(1)
}

/// This rank's part of `percent` of the free space.
pub(super) fn share_of_percent(plan: &Plan, percent: u64) -> u64 {
    let here = plan.rank.as_ref().map_or(1, Rank::ranks_here);
    (percent / u64::from(here)).max(1)
}

/// Ranks that write to the file system of that path.
fn sharers(rank: &Rank, path: &Path) -> u32 {
    let file_system = Machine::look(path).mount.map(|mount| mount.file_system);
    let is_of_many = file_system.is_some_and(|name| OF_MANY_MACHINES.contains(&name.as_str()));
    match is_of_many {
        true => rank.several().unwrap_or(1).max(rank.ranks_here()),
        false => rank.ranks_here(),
    }
}

/// Bytes that the data files in the ranks' directories below `base` have taken.
fn taken_bytes(base: &Path) -> u64 {
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let directories = std::fs::read_dir(base).into_iter().flatten().flatten();
    let ranks = directories.filter(|one| one.file_name().to_string_lossy().starts_with("rank_"));
    let files = ranks.flat_map(|one| std::fs::read_dir(one.path()).into_iter().flatten().flatten());
    let taken = files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file());
    taken.map(|file| file.blocks().saturating_mul(512)).sum()
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn ranks_that_begin_one_after_the_other_get_the_same_part() {
        let (all, mut free) = (1_000_000_u64, 1_000_000);
        for _ in 0..4 {
            let part = part_bytes(free, all - free, 4);
            assert_eq!(part, 237_500);
            free -= part;
        }
        assert_eq!(part_bytes(0, 0, 2), 1);
    }

    #[test]
    fn what_other_ranks_hold_is_counted_in_blocks() {
        let base = Scratch::new("ranks");
        base.directory("rank_1");
        assert_eq!(taken_bytes(&base), 0);
        base.file("other/ringfall.kv", [1; 8192]);
        let file = std::fs::File::open(base.file("rank_1/ringfall.kv", [1; 8192])).unwrap();
        file.sync_all().unwrap();
        let blocks = file.metadata().unwrap().blocks();
        assert_eq!(taken_bytes(&base), blocks * 512);
    }
}
