//! Resources of this machine: memory, cores, open files. Every bound on a count from a file or a
//! flag is checked against them, and only here.

use ringfall_core::arenas::bound_arenas;
use ringfall_core::units::GIB;
use rustix::process::{Resource, getrlimit};

use crate::kernel::{cgroups, kib_of};
use crate::root::Root;

/// Part of the memory to give that no run may ask for: a twentieth. The kernel's own figure is an
/// estimate (proc(5), MemAvailable), and where nothing is left processes are killed.
const MEMORY_REST: u64 = 20;

/// Part of the machine's memory, and of a cgroup's limit, that a CPU tier leaves to others.
const LEFT_SHARE: u64 = 10;
/// ... of the machine's at least this, bytes: a run with 1.2 GiB left was killed when another
/// program took memory.
const LEFT_BYTES_MIN: u64 = 2 * GIB;

/// Source of the limit where addresses are limited, and not memory.
const ADDRESS_SPACE: &str = "the limit of address space, ulimit -v";

/// Resources found when the program begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Memory that this process may still take, bytes; none where nothing says so.
    pub memory: Option<MemoryRoom>,
    /// Cores that this process may use, ≥ 1: affinity and CPU quotas are counted.
    pub cores: u32,
    /// Files that this process may have open (`ulimit -n`); none: any number.
    pub open_files_max: Option<u64>,
}

/// Memory, and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Bytes that can still be taken.
    pub bytes: u64,
    /// Most of them that a CPU tier takes without being forced to, bytes: what leaves the machine,
    /// and each cgroup, its share.
    pub shared_bytes: u64,
    /// Source of the limit: `MemAvailable`, a cgroup's limit, `ulimit -v`.
    pub source: String,
}

impl Room {
    /// Looks at this machine.
    pub fn look() -> Room {
        let memory = tightest([machine_memory(), cgroup_memory(&Root::machine()), address_space()]);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Room {
            memory,
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            open_files_max: getrlimit(Resource::Nofile).current,
        }
    }

    /// A machine of which nothing is known but its cores: nothing is refused for its sake.
    pub fn unknown(cores: u32) -> Room {
        Room { memory: None, cores, open_files_max: None }
    }

    /// Memory that the CPU tier of a run under way may still take, bytes, less what is left to
    /// others, or alone where the tier is forced; none where nothing says so. Its addresses are
    /// taken when it begins, so their limit is not asked.
    pub fn memory_left(is_forced: bool) -> Option<u64> {
        let memory = tightest([machine_memory(), cgroup_memory(&Root::machine())])?;
        Some(if is_forced { memory.asked_bytes_max() } else { memory.tier_bytes_max() })
    }

    /// Bytes of memory that can still be taken, where that is known.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.bytes)
    }

    /// The memory that is there, when `bytes` are more than it can give.
    pub fn lacks(&self, bytes: u64) -> Option<&MemoryRoom> {
        self.memory.as_ref().filter(|memory| bytes > memory.asked_bytes_max())
    }
}

impl MemoryRoom {
    /// Whether it is the limit of addresses, of which threads take more than of memory.
    pub fn is_address_space(&self) -> bool {
        self.source == ADDRESS_SPACE
    }

    /// Allots a CPU tier all but `left` of these bytes.
    fn leaving(left: u64, bytes: u64, source: String) -> MemoryRoom {
        MemoryRoom { bytes, shared_bytes: bytes.saturating_sub(left), source }
    }

    /// Most that a run may ask for, bytes.
    pub fn asked_bytes_max(&self) -> u64 {
        self.bytes - self.bytes / MEMORY_REST
    }

    /// Most that a run may take together with a CPU tier that nobody forces, bytes.
    pub fn tier_bytes_max(&self) -> u64 {
        self.shared_bytes.min(self.asked_bytes_max())
    }
}

impl std::fmt::Display for MemoryRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", human(self.bytes), self.source)
    }
}

/// Units of sizes, bytes, the largest first.
const UNITS: [(&str, u64); 4] =
    [("PiB", GIB << 20), ("TiB", GIB << 10), ("GiB", GIB), ("MiB", GIB >> 10)];

/// Bytes as people read them: `22.3 GiB`, `512.0 MiB`.
pub fn human(bytes: u64) -> String {
    let fits = UNITS.iter().find(|(_, size)| bytes >= *size);
    match fits {
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / *size as f64),
        None => format!("{} KiB", bytes.div_ceil(1024)),
    }
}

/// Time in milliseconds as people read it, in seconds from one second on: `0.26 ms`, `4.17 s`.
pub fn human_time(ms: f64) -> String {
    let (value, unit) = if ms < 999.5 { (ms, "ms") } else { (ms / 1e3, "s") };
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Two different sizes as people read them, with as many digits as tell them apart: `4.31 GiB` and
/// `4.34 GiB`, where `human` has 4.3 GiB for both. Equal ones are alike.
pub fn human_apart(one: u64, other: u64) -> (String, String) {
    let plain = (human(one), human(other));
    if one == other || plain.0 != plain.1 {
        return plain;
    }
    let unit = UNITS.iter().find(|(_, size)| one.min(other) >= *size);
    let apart = unit.into_iter().flat_map(|(unit, size)| {
        (2..=9).map(move |digits| {
            let told = |bytes: u64| format!("{:.digits$} {unit}", bytes as f64 / *size as f64);
            (told(one), told(other))
        })
    });
    let bytes = (format!("{one} bytes"), format!("{other} bytes"));
    apart.into_iter().find(|(one, other)| one != other).unwrap_or(bytes)
}

/// A number of things in words: `1 block`, `2 blocks`, `0 entries`.
pub fn counted(count: u64, one: &str) -> String {
    match (count, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ => format!("{count} {one}s"),
    }
}

/// The least of them; to share out, what leaves each of them its part.
fn tightest<const N: usize>(rooms: [Option<MemoryRoom>; N]) -> Option<MemoryRoom> {
    let shared_bytes = rooms.iter().flatten().map(|room| room.shared_bytes).min()?;
    let least = rooms.into_iter().flatten().min_by_key(|room| room.bytes)?;
    Some(MemoryRoom { shared_bytes, ..least })
}

fn machine_memory() -> Option<MemoryRoom> {
    memory_of(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn memory_of(meminfo: &str) -> Option<MemoryRoom> {
    let bytes = kib_of(meminfo, "MemAvailable")?;
    let total = kib_of(meminfo, "MemTotal").unwrap_or(bytes);
    let left = (total / LEFT_SHARE).max(LEFT_BYTES_MIN);
    Some(MemoryRoom::leaving(left, bytes, "MemAvailable".to_owned()))
}

/// Most arenas of `malloc` where addresses are limited: one each for two threads that allocate all
/// the time.
const ARENAS_MAX: u8 = 2;
/// Addresses that those arenas take, bytes: 64 MiB each, and as much again to align them.
pub const ARENAS_ADDRESSES: u64 = ARENAS_MAX as u64 * (128 << 20);

/// Keeps `malloc` from reserving most of the address space where it is limited (`ulimit -v`).
pub fn heed_address_space() {
    if getrlimit(Resource::As).current.is_some() {
        bound_arenas(ARENAS_MAX);
    }
}

/// `ulimit -v`: what is not mapped yet of the address space that is allowed.
fn address_space() -> Option<MemoryRoom> {
    let limit = getrlimit(Resource::As).current?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mapped = kib_of(&status, "VmSize")?;
    let source = ADDRESS_SPACE.to_owned();
    Some(MemoryRoom::leaving(0, limit.saturating_sub(mapped), source))
}

/// The tightest limit of the cgroups, from this process's own up to the root.
fn cgroup_memory(root: &Root) -> Option<MemoryRoom> {
    let trees = [(UNIFIED, cgroups(root, None)), (OLD, cgroups(root, Some("memory")))];
    let rooms = trees.iter().flat_map(|(controller, directories)| {
        directories.iter().rev().filter_map(move |directory| controller.room(root, directory))
    });
    rooms.fold(None, |least, room| tightest([least, Some(room)]))
}

/// Files of a cgroup's limits and of its memory in use, and the rows of `memory.stat` that are its
/// page cache, which goes when memory is short.
struct Controller {
    limits: &'static [&'static str],
    used: &'static str,
    cache: [&'static str; 2],
}

const UNIFIED: Controller = Controller {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    cache: ["inactive_file ", "active_file "],
};
/// In version 1 no limit is a number beyond any machine's memory.
const OLD: Controller = Controller {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    cache: ["total_inactive_file ", "total_active_file "],
};

impl Controller {
    /// Memory that one cgroup leaves: its limit, less what is in use and can't be given back.
    fn room(&self, root: &Root, directory: &str) -> Option<MemoryRoom> {
        // `max`, for no limit, is no number.
        let number = |name: &str| root.number(format!("{directory}/{name}"));
        let limits = self.limits.iter().filter_map(|name| Some((name, number(name)?)));
        let (name, limit) = limits.min_by_key(|(_, limit)| *limit)?;
        let stat = root.page(format!("{directory}/memory.stat")).unwrap_or_default();
        let row = |name: &str| {
            let rest = stat.lines().find_map(|line| line.strip_prefix(name));
            rest.and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let cache = self.cache.into_iter().map(row).sum();
        let used = number(self.used).unwrap_or(0).saturating_sub(cache);
        let source = format!("the limit {directory}/{name}");
        Some(MemoryRoom::leaving(limit / LEFT_SHARE, limit.saturating_sub(used), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn the_tightest_cgroup_up_the_tree_counts_without_its_page_cache() {
        let scratch = Scratch::new("room");
        let write = |file: &str, text: &str| scratch.file(file, text);
        let mounts = "35 31 0:32 / /memory rw - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /cgroup rw - cgroup2 cgroup2 rw\n";
        write("proc/self/mountinfo", mounts);
        write("proc/self/cgroup", "0::/pod/run\n");
        write("cgroup/pod/memory.max", "1073741824\n");
        write("cgroup/pod/memory.high", "max\n");
        write("cgroup/pod/memory.current", "700000000\n");
        let stat = "anon 1\ninactive_file 300000000\nactive_file 100000000\n";
        write("cgroup/pod/memory.stat", stat);
        write("cgroup/pod/run/memory.max", "max\n");
        let root = Root::at(&scratch);
        let room = cgroup_memory(&root).unwrap();
        assert_eq!(room.bytes, 1_073_741_824 - 300_000_000);
        assert_eq!(room.shared_bytes, room.bytes - 107_374_182, "a tenth of the limit is left");
        assert_eq!(room.source, "the limit /cgroup/pod/memory.max");
        write("cgroup/pod/run/memory.high", "4096\n");
        assert_eq!(cgroup_memory(&root).unwrap().bytes, 4096);
        write("proc/self/cgroup", "0::/\n");
        assert_eq!(cgroup_memory(&root), None, "no limit above");
        // Version 1 counts as well.
        write("proc/self/cgroup", "5:cpuset,memory:/job\n0::/\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/job/memory.limit_in_bytes", "1073741824\n");
        write("memory/job/memory.usage_in_bytes", "500000000\n");
        let stat = "cache 7\ntotal_inactive_file 100000000\ntotal_active_file 1\n";
        write("memory/job/memory.stat", stat);
        let room = cgroup_memory(&root).unwrap();
        assert_eq!(room.bytes, 1_073_741_824 - 399_999_999);
        assert_eq!(room.shared_bytes, room.bytes - 107_374_182, "a tenth of the limit is left");
        assert_eq!(room.source, "the limit /memory/job/memory.limit_in_bytes");
    }

    #[test]
    fn a_cpu_tier_leaves_the_machine_a_tenth_of_its_memory_and_two_gib_at_least() {
        let of = |total_gib: u64, available_gib: u64| {
            let [total, available] = [total_gib, available_gib].map(|gib| gib << 20);
            memory_of(&format!("MemTotal: {total} kB\nMemAvailable: {available} kB\n")).unwrap()
        };
        assert_eq!(of(200, 150).tier_bytes_max(), 130 * GIB);
        assert_eq!(of(10, 9).tier_bytes_max(), 7 * GIB);
        assert_eq!(of(2, 1).tier_bytes_max(), 0);
        let limit = MemoryRoom::leaving(3 * GIB, 25 * GIB, "the limit".to_owned());
        let both = tightest([Some(of(200, 30)), Some(limit)]).unwrap();
        assert_eq!((both.bytes, both.tier_bytes_max()), (25 * GIB, 10 * GIB), "{both:?}");
    }

    #[test]
    fn one_thing_is_not_told_as_several() {
        let told = [counted(1, "block"), counted(2, "block"), counted(0, "entry")];
        assert_eq!(told, ["1 block", "2 blocks", "0 entries"]);
        assert_eq!([counted(1, "entry"), counted(2, "day")], ["1 entry", "2 days"]);
    }

    #[test]
    fn what_is_asked_for_leaves_a_rest_and_is_told_in_units_that_people_read() {
        let memory = MemoryRoom::leaving(0, 20 * GIB, "MemAvailable".to_owned());
        let room = Room { memory: Some(memory), ..Room::unknown(2) };
        assert_eq!(room.lacks(19 * GIB), None);
        let short = room.lacks(19 * GIB + 1).unwrap();
        assert_eq!(short.to_string(), "20.0 GiB (MemAvailable)");
        assert_eq!(Room::unknown(1).lacks(u64::MAX), None);
        assert_eq!(human(1000 * GIB), "1000.0 GiB");
        assert_eq!((human(GIB / 2), human(3_000)), ("512.0 MiB".into(), "3 KiB".into()));
        let here = Room::look();
        assert!(here.cores >= 1 && here.memory_bytes() > Some(0), "{here:?}");
    }
}
