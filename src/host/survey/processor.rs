//! Processors, NUMA nodes and main memory.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::kernel::{in_brackets, kib_of, parse_list, value_of};
use crate::room::MemoryRoom;
use crate::root::{Root, numbered};

/// The processors of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Processor {
    /// Name of the model.
    pub model: Option<String>,
    /// Number of processor sockets in use.
    pub sockets: u32,
    /// Number of cores; with simultaneous multithreading each has several threads.
    pub cores: u32,
    /// Number of threads that are online.
    pub threads: u32,
    /// Number of threads that this process may use, by its affinity.
    pub threads_allowed: Option<u32>,
    /// Highest frequency of a core, MHz.
    pub frequency_max_mhz: Option<u64>,
    /// Frequency governors and the number of threads that each of them steers.
    pub governors: BTreeMap<String, u32>,
    /// Caches of one thread, from the smallest to the largest.
    pub caches: Vec<Cache>,
    /// Vector instructions that ringfall fills and checks blocks with: `avx2`, `avx512f` …
    pub vector_instructions: Vec<String>,
    /// Whether the machine is virtual, by the processor's own account; null where it has none.
    pub is_virtual: Option<bool>,
    /// Maker and product of the machine, or of the hypervisor.
    pub product: Option<String>,
}

/// A cache of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Cache {
    /// Its level, 1 the nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size of the cache, bytes.
    pub bytes: u64,
    /// Number of threads that share it.
    pub threads: u32,
}

/// A NUMA node: cores and memory that are near each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NumaNode {
    /// Number of the node, as the kernel counts.
    pub id: u32,
    /// Threads near it, as the kernel lists them: `0-15,32-47`.
    pub threads: String,
    /// Number of these threads.
    pub thread_count: u32,
    /// Memory of the node, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Free memory of the node, bytes.
    pub memory_free_bytes: Option<u64>,
    /// Distances to all nodes, itself included, 10 the nearest (ACPI SLIT).
    pub distances: Vec<u32>,
}

/// Main memory and swap of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Memory {
    /// Size of it, bytes.
    pub total_bytes: Option<u64>,
    /// Memory that programs can still have by the kernel's estimate, bytes.
    pub available_bytes: Option<u64>,
    /// Memory that this process can still have, bytes: the limits of its cgroups and of its
    /// addresses are counted.
    pub room_bytes: Option<u64>,
    /// Source of that limit.
    pub room_source: Option<String>,
    /// Size of all swap space, bytes.
    pub swap_bytes: Option<u64>,
    /// Whether the kernel makes huge pages of ordinary memory: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Reserved huge pages, one row for each size.
    pub huge_pages: Vec<HugePages>,
}

/// Huge pages of one size that the administrator has set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct HugePages {
    /// Size of one, bytes.
    pub page_bytes: u64,
    /// Number of reserved pages of this size.
    pub count: u64,
    /// Number of those that nobody uses.
    pub free: u64,
}

impl Processor {
    pub(super) fn look(root: &Root) -> Processor {
        let cpuinfo = root.page("/proc/cpuinfo").unwrap_or_default();
        // Arm's names have `Features`, and no name of the model.
        let flags = value_of(&cpuinfo, "flags").or_else(|| value_of(&cpuinfo, "Features"));
        let has = |flag: &str| flags.is_some_and(|all| all.split(' ').any(|one| one == flag));
        let cpus = "/sys/devices/system/cpu";
        let online = root.text(format!("{cpus}/online"));
        let online = online.and_then(|list| parse_list(&list)).unwrap_or_default();
        let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
        let mut governors: BTreeMap<String, u32> = BTreeMap::new();
        for cpu in &online {
            let of = |name: &str| root.text(format!("{cpus}/cpu{cpu}/{name}"));
            if let Some(package) = of("topology/physical_package_id") {
                let core = of("topology/core_id").unwrap_or_else(|| cpu.to_string());
                let die = of("topology/die_id").unwrap_or_default();
                sockets.insert(package.clone());
                cores.insert((package, die, core));
            }
            if let Some(governor) = of("cpufreq/scaling_governor") {
                *governors.entry(governor).or_default() += 1;
            }
        }
        let first = online.first().copied().unwrap_or(0);
        let khz = root.number(format!("{cpus}/cpu{first}/cpufreq/cpuinfo_max_freq"));
        let vector = ["avx2", "avx512f", "avx512bw", "avx512vl", "asimd", "sve"];
        let threads = count(online.len());
        Processor {
            model: value_of(&cpuinfo, "model name").map(str::to_owned),
            sockets: count(sockets.len()).max(1),
            // A machine that tells nothing of its cores has as many as threads.
            cores: if cores.is_empty() { threads } else { count(cores.len()) },
            threads,
            threads_allowed: allowed(root, &online),
            frequency_max_mhz: khz.map(|khz| khz / 1000),
            governors,
            caches: caches(root, &format!("{cpus}/cpu{first}/cache")),
            vector_instructions: vector
                .into_iter()
                .filter(|flag| has(flag))
                .map(str::to_owned)
                .collect(),
            is_virtual: flags.map(|_| has("hypervisor")),
            product: product(root),
        }
    }
}

/// By this process's affinity.
fn allowed(root: &Root, online: &[usize]) -> Option<u32> {
    let status = root.page("/proc/self/status")?;
    let list = parse_list(value_of(&status, "Cpus_allowed_list")?)?;
    // The mask has bits for cores that the machine could have, too.
    let is_online = |cpu: &&usize| online.is_empty() || online.contains(*cpu);
    Some(count(list.iter().filter(is_online).count()))
}

fn caches(root: &Root, directory: &str) -> Vec<Cache> {
    let names = root.names(directory);
    let mut caches: Vec<Cache> = names
        .iter()
        .filter(|name| numbered(name, "index").is_some())
        .filter_map(|name| {
            let of = |file: &str| root.text(format!("{directory}/{name}/{file}"));
            let shared = parse_list(&of("shared_cpu_list")?)?;
            Some(Cache {
                level: of("level")?.parse().ok()?,
                kind: of("type")?,
                bytes: of("size")?.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)?,
                threads: count(shared.len()),
            })
        })
        .collect();
    caches.sort_by_key(|cache| (cache.level, cache.kind.clone()));
    caches
}

fn product(root: &Root) -> Option<String> {
    let of = |name: &str| root.text(format!("/sys/class/dmi/id/{name}"));
    let parts: Vec<String> = [of("sys_vendor"), of("product_name")].into_iter().flatten().collect();
    let told = Some(parts.join(" ")).filter(|told| !told.is_empty());
    told.or_else(|| root.text("/sys/hypervisor/type"))
}

/// NUMA nodes, by number.
pub(super) fn numa_nodes(root: &Root) -> Vec<NumaNode> {
    let nodes = "/sys/devices/system/node";
    let look = |id: u32| {
        let of = |name: &str| root.text(format!("{nodes}/node{id}/{name}")).unwrap_or_default();
        let (threads, meminfo) = (of("cpulist"), of("meminfo"));
        // Each line begins with the node: `Node 0 MemTotal:  1 kB`.
        let kib = |name: &str| kib_of(&meminfo, &format!("Node {id} {name}"));
        let distances = of("distance");
        NumaNode {
            id,
            thread_count: parse_list(&threads).map_or(0, |list| count(list.len())),
            threads,
            memory_total_bytes: kib("MemTotal"),
            memory_free_bytes: kib("MemFree"),
            distances: distances.split_ascii_whitespace().flat_map(str::parse).collect(),
        }
    };
    crate::kernel::numa_nodes(root).into_iter().map(look).collect()
}

impl Memory {
    pub(super) fn look(root: &Root, room: Option<&MemoryRoom>) -> Memory {
        let meminfo = root.page("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| kib_of(&meminfo, name);
        let huge_pages = root.text("/sys/kernel/mm/transparent_hugepage/enabled");
        let pages = "/sys/kernel/mm/hugepages";
        let huge = |name: String| {
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
            let number = |file: &str| root.number(format!("{pages}/{name}/{file}"));
            let (count, free) = (number("nr_hugepages")?, number("free_hugepages")?);
            Some(HugePages { page_bytes: kib.checked_mul(1024)?, count, free })
        };
        Memory {
            total_bytes: kib("MemTotal"),
            available_bytes: kib("MemAvailable"),
            room_bytes: room.map(|room| room.bytes),
            room_source: room.map(|room| room.source.clone()),
            swap_bytes: kib("SwapTotal"),
            transparent_huge_pages: huge_pages.as_deref().and_then(in_brackets),
            huge_pages: root.names(pages).into_iter().filter_map(huge).collect(),
        }
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
