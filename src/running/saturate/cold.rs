//! Whether the reads of a search came from the device: the kernel's counters before and after it.

use ringfall_host::{BlockCounters, BlockDelta, Machine};
use ringfall_model::cold::{ColdReads, ColdVerdict, reached_bytes};

/// Reading of the kernel's counters of a disk, and of every device below the data on it.
pub(crate) struct Counted {
    disk: BlockCounters,
    chain: Vec<Option<BlockCounters>>,
}

impl Counted {
    /// Reads them; none where there is no disk, or where the I/Os are NVMe commands that the kernel
    /// does not count.
    pub(crate) fn now(machine: &Machine, are_commands: bool) -> Option<Counted> {
        let numbers = &machine.device.as_ref()?.numbers;
        if are_commands && !BlockCounters::have_passthrough(numbers) {
            return None;
        }
        let chain = BlockCounters::of_links(&machine.device_chain);
        Some(Counted { disk: BlockCounters::read(numbers)?, chain })
    }

    /// Requests that the disk of the machine completed between this reading and a later one.
    pub(crate) fn disk(&self, later: &Counted, machine: &Machine) -> Option<BlockDelta> {
        let disk = &machine.device.as_ref()?.name;
        Some(BlockDelta::between(disk, self.disk, later.disk))
    }

    /// Sentence about `read_bytes` of reads between this reading and a later one, where a cache
    /// served some of them.
    pub(crate) fn warning(
        &self,
        later: &Counted,
        machine: &Machine,
        read_bytes: u64,
    ) -> Option<String> {
        let disk = self.disk(later, machine)?;
        let links = &machine.device_chain;
        let chain = BlockDelta::of_links(links, &self.chain, &later.chain);
        let reached = reached_bytes(links, &chain, &disk);
        let cold = ColdReads::of(read_bytes, Some(reached), machine, false)?;
        (cold.verdict == ColdVerdict::Cached).then_some(cold.told)
    }
}

#[cfg(test)]
mod tests {
    use ringfall_host::{ChainLink, DeviceFacts};

    use super::*;

    /// The page cache's speed was given as the limit of the drive, without a word.
    #[test]
    fn reads_below_a_loop_device_that_the_page_cache_served_are_told() {
        let link = |name: &str, kind: &str, above: Option<&str>| ChainLink {
            name: name.to_owned(),
            numbers: String::new(),
            kind: kind.to_owned(),
            above: above.map(str::to_owned),
        };
        let machine = Machine {
            device: Some(DeviceFacts { name: "loop0".to_owned(), ..DeviceFacts::default() }),
            device_chain: vec![link("loop0", "loop", None), link("sda", "disk", Some("loop0"))],
            ..Machine::default()
        };
        let counted = |of_loop: u64, of_disk: u64| {
            let read = |read_bytes| BlockCounters { read_bytes, ..BlockCounters::default() };
            Counted { disk: read(of_loop), chain: vec![Some(read(of_loop)), Some(read(of_disk))] }
        };
        let before = counted(50, 7);
        let told = |of_disk: u64, read_bytes| {
            before.warning(&counted(1_050, 7 + of_disk), &machine, read_bytes)
        };
        let cached = told(3, 1_000).unwrap();
        let words = "the kernel counted only 0.3 % of the bytes read: the file behind loop0 is in \
                     the page cache";
        assert!(cached.starts_with(words), "{cached}");
        assert_eq!(told(1_000, 1_000), None);
        assert_eq!(told(9_000, 1_000), None, "others read too, which proves nothing");
        assert_eq!(told(3, 0), None, "a search that only wrote");
        assert!(Counted::now(&Machine::default(), false).is_none());
    }
}
