//! Which cores are near which drive: the machine's NUMA nodes, cores dealt to shards by the drives
//! on each node, and the bytes that crossed from one node to another.

use std::collections::VecDeque;

use crate::kernel::{numa_nodes, parse_list};
use crate::root::Root;

/// The NUMA nodes of a machine and their cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Each node's number and its cores, by number of the node.
    nodes: Vec<(u32, Vec<usize>)>,
}

/// Bytes that one shard moved, and the core where it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardBytes {
    /// The core that the shard was pinned to; none where it was not pinned.
    pub core: Option<usize>,
    /// Bytes read from and written to each drive, by place in the store; a drive that is not there
    /// moved nothing.
    pub drives: Vec<u64>,
}

/// A node with drives, while its cores are dealt.
struct Hand {
    drives: usize,
    dealt: usize,
    cores: VecDeque<usize>,
}

impl Topology {
    /// The nodes of this machine; none where the kernel doesn't say.
    pub fn of_machine() -> Topology {
        Topology::below(&Root::machine())
    }

    fn below(root: &Root) -> Topology {
        let cores = |node: u32| {
            // A node of memory alone has an empty list.
            let list = root.text(format!("/sys/devices/system/node/node{node}/cpulist"));
            list.and_then(|list| parse_list(&list)).unwrap_or_default()
        };
        let nodes = numa_nodes(root).into_iter().map(|node| (node, cores(node)));
        Topology { nodes: nodes.collect() }
    }

    fn node_of(&self, core: usize) -> Option<u32> {
        self.nodes.iter().find(|(_, cores)| cores.contains(&core)).map(|(number, _)| *number)
    }

    /// The cores in the order in which shards are to take them: of any number of shards, each node
    /// has as many as its part of the drives comes to, as long as it has cores. Cores of nodes
    /// without drives come last. O(cores × nodes).
    ///
    /// `drive_nodes` has the node of each drive, none where it is not known. With two nodes that
    /// have three drives and one, the first four cores are three of the one and one of the other.
    pub fn deal(&self, mut cores: Vec<usize>, drive_nodes: &[Option<u32>]) -> Vec<usize> {
        cores.sort_unstable();
        let mut hands: Vec<Hand> = Vec::new();
        for (number, of_node) in &self.nodes {
            let drives = drive_nodes.iter().filter(|node| **node == Some(*number)).count();
            if drives > 0 {
                let (near, others): (Vec<usize>, _) =
                    cores.into_iter().partition(|core| of_node.contains(core));
                cores = others;
                hands.push(Hand { drives, dealt: 0, cores: VecDeque::from(near) });
            }
        }
        let mut order = Vec::new();
        // The highest averages (D'Hondt): every beginning of the order is in proportion.
        while let Some(hand) = (hands.iter_mut().filter(|hand| !hand.cores.is_empty()))
            .reduce(|a, b| if b.outbids(a) { b } else { a })
        {
            order.extend(hand.cores.pop_front());
            hand.dealt += 1;
        }
        order.extend(cores);
        order
    }

    /// Bytes between a drive of that node and shards on cores of other nodes. None where that can't
    /// be told: the machine has one node, the drive's is not known, or a shard that moved bytes was
    /// not pinned.
    pub fn remote_bytes(
        &self,
        shards: &[ShardBytes],
        drive: usize,
        node: Option<u32>,
    ) -> Option<u64> {
        let node = node.filter(|_| self.nodes.len() > 1)?;
        let mut remote = 0;
        for shard in shards {
            let bytes = shard.drives.get(drive).copied().unwrap_or(0);
            if bytes > 0 && self.node_of(shard.core?)? != node {
                remote += bytes;
            }
        }
        Some(remote)
    }
}

impl Hand {
    /// Whether the next core is this one's rather than the other's, which has it where they are
    /// even.
    fn outbids(&self, other: &Hand) -> bool {
        self.drives * (other.dealt + 1) > other.drives * (self.dealt + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceFacts, Scratch};

    /// A root whose `/sys` has nodes 0 and 1 of eight cores each, as two sockets with
    /// hyper-threading number them, a node of memory alone, and NVMe drives on given nodes.
    struct Sys(Scratch);

    impl Sys {
        fn new(name: &str, drives: &[u32]) -> Sys {
            let sys = Scratch::new(name);
            let nodes = [
                ("online", "0-2"),
                ("node0/cpulist", "0-3,8-11"),
                ("node1/cpulist", "4-7,12-15"),
                ("node2/cpulist", ""),
            ];
            sys.files("sys/devices/system/node", &nodes);
            for (index, node) in drives.iter().enumerate() {
                let (disk, numbers) =
                    (format!("sys/devices/pci/nvme{index}n1"), format!("259:{index}"));
                sys.files(&disk, &[("dev", &*numbers), ("device/numa_node", &*node.to_string())]);
                sys.link(&format!("sys/dev/block/{numbers}"), &disk);
            }
            Sys(sys)
        }

        fn root(&self) -> Root {
            Root::at(&self.0)
        }

        fn drive_nodes(&self, drives: usize) -> Vec<Option<u32>> {
            let node = |index| DeviceFacts::below(&self.root(), &format!("259:{index}"))?.numa_node;
            (0..drives).map(node).collect()
        }
    }

    /// Number of the first `shards` cores on each of the two nodes.
    fn split(topology: &Topology, order: &[usize], shards: usize) -> [usize; 2] {
        let on = |node| {
            let nodes = order[..shards].iter().map(|core| topology.node_of(*core));
            nodes.filter(|of| *of == Some(node)).count()
        };
        [on(0), on(1)]
    }

    #[test]
    fn shards_are_dealt_to_the_nodes_of_eight_drives_by_their_parts() {
        for (name, drives, parts) in [
            ("even", [0, 0, 0, 0, 1, 1, 1, 1], [4, 4]),
            ("uneven", [0, 0, 1, 1, 1, 1, 1, 1], [2, 6]),
            ("one", [1; 8], [0, 8]),
        ] {
            let sys = Sys::new(name, &drives);
            let topology = Topology::below(&sys.root());
            let nodes = sys.drive_nodes(8);
            assert!(nodes.iter().zip(drives).all(|(node, drive)| *node == Some(drive)));
            let order = topology.deal((0..16).collect(), &nodes);
            assert_eq!(split(&topology, &order, 8), parts, "{name}: {order:?}");
            // More shards than a node has cores: the other's are next, and none is dealt twice.
            assert_eq!(split(&topology, &order, 16), [8, 8], "{name}: {order:?}");
            let mut all = order.clone();
            all.sort_unstable();
            assert_eq!(all, (0..16).collect::<Vec<_>>());
            // Cores that this process may not use are not dealt.
            let few = topology.deal(vec![15, 2, 9], &nodes);
            assert_eq!(few.len(), 3);
            assert_eq!(few[0] == 15, parts[1] > parts[0], "{few:?}");
        }
    }

    #[test]
    fn every_beginning_of_the_order_is_in_proportion() {
        let sys = Sys::new("proportion", &[0, 1, 1, 1]);
        let topology = Topology::below(&sys.root());
        let order = topology.deal((0..16).collect(), &sys.drive_nodes(4));
        assert_eq!(order[..4], [4, 5, 0, 6]);
        for shards in 1..=10 {
            let [few, many] = split(&topology, &order, shards);
            assert!(few.abs_diff(shards / 4) <= 1 && few + many == shards, "{shards}: {few}");
        }
    }

    #[test]
    fn cores_stay_in_their_order_where_no_node_is_known() {
        let sys = Sys::new("unknown", &[]);
        let unknown = [None, None];
        for topology in
            [Topology::below(&sys.root()), Topology::below(&Root::at(&sys.0.join("nowhere")))]
        {
            assert_eq!(topology.deal(vec![3, 1, 12], &unknown), [1, 3, 12]);
        }
    }

    #[test]
    fn bytes_are_remote_where_a_shard_is_not_on_the_node_of_the_drive() {
        let sys = Sys::new("remote", &[]);
        let topology = Topology::below(&sys.root());
        let shard = |core, drives: &[u64]| ShardBytes { core, drives: drives.to_vec() };
        let shards = [shard(Some(0), &[10, 20]), shard(Some(12), &[100, 200]), shard(None, &[])];
        assert_eq!(topology.remote_bytes(&shards, 0, Some(0)), Some(100));
        assert_eq!(topology.remote_bytes(&shards, 1, Some(1)), Some(20));
        assert_eq!(topology.remote_bytes(&shards, 2, Some(1)), Some(0));
        assert_eq!(topology.remote_bytes(&shards, 0, None), None);
        let unpinned = [shard(None, &[1])];
        assert_eq!(topology.remote_bytes(&unpinned, 0, Some(0)), None);
        let single = Topology { nodes: vec![(0, vec![0, 12])] };
        assert_eq!(single.remote_bytes(&shards, 0, Some(0)), None);
    }
}
