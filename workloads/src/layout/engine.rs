//! The engines whose layouts are known, and what each does unless it is told otherwise.

use super::choices::choices;
use super::options::{LRU, LayoutOption, NEVER, fills};
use crate::error::Error;

choices! {
/// Layout of an engine's KV cache on storage.
pub enum EngineLayout {
    /// LMCache's `fs_native` adapter.
    Lmcache = "lmcache": "LMCache fs_native: a file per chunk and rank, renamed",
    /// LMCache's `raw_block` slots, here in a file.
    LmcacheRaw = "lmcache-raw": "LMCache raw_block: a slot per chunk and rank",
    /// vLLM's `fs` tier of its offloading connector.
    Vllm = "vllm": "vLLM fs tier: a file per chunk of all ranks, renamed",
    /// The file backend of llm-d.
    Llmd = "llmd": "llm-d: a file per chunk and rank, renamed",
    /// SGLang HiCache's file backend.
    Hicache = "hicache": "SGLang HiCache: a file per page and rank, renamed",
    /// Buckets of Mooncake Store, filled by SGLang.
    Mooncake = "mooncake": "Mooncake Store: K and V of pages in buckets of 256 MiB",
    /// Blocks of NIXL's kvbench.
    Nixl = "nixl": "NIXL kvbench: blocks in one file per GPU",
    /// MLPerf Storage's KV cache benchmark.
    Mlperf = "mlperf": "MLPerf Storage: a file per request, fsync",
}
/// Engine and unit of its storage, a part of a sentence.
fn unit;
}

impl EngineLayout {
    /// The layout of that name.
    pub fn parse(name: &str) -> Result<EngineLayout, Error> {
        let found = EngineLayout::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| {
            let names = EngineLayout::ALL.map(EngineLayout::name).join(", ");
            Error::new(format!("{name:?} is not a known layout: give some of {names}"))
        })
    }

    /// Whether each object has a file of its own, which is written under a temporary name.
    #[must_use]
    pub const fn renames_files(self) -> bool {
        matches!(
            self,
            EngineLayout::Lmcache | EngineLayout::Vllm | EngineLayout::Llmd | EngineLayout::Hicache
        )
    }

    /// The engine's own value of an option; none where it has no such option.
    pub const fn default_of(self, option: LayoutOption) -> Option<u64> {
        match (option, self) {
            // LMCache and HiCache do if a capacity is given to them.
            (
                LayoutOption::Evict,
                EngineLayout::Lmcache
                | EngineLayout::LmcacheRaw
                | EngineLayout::Vllm
                | EngineLayout::Hicache,
            ) => return Some(NEVER),
            // The program that llm-d has for that, `pvc_evictor`.
            (LayoutOption::Evict, EngineLayout::Llmd) => return Some(fills(85, 70)),
            (LayoutOption::Evict, EngineLayout::Nixl | EngineLayout::Mlperf) => return Some(LRU),
            // Its `save_unfull_chunk`. llm-d always keeps what is left, others never do.
            (LayoutOption::Tail, EngineLayout::Lmcache | EngineLayout::LmcacheRaw) => {
                return Some(0);
            }
            // Its `write_through_selective`; `write_through` is the default.
            (LayoutOption::Selective, EngineLayout::Hicache) => return Some(0),
            (LayoutOption::Evict | LayoutOption::Tail | LayoutOption::Selective, _) => return None,
            _ => {}
        }
        let values = match self {
            // Prefetches in flight: 8.
            EngineLayout::Lmcache => [Some(256), Some(4), Some(4), Some(8), Some(0), Some(0)],
            EngineLayout::LmcacheRaw => [Some(256), Some(4), Some(2), Some(4), Some(1), Some(0)],
            // 16 threads prefer loads and 16 prefer stores, and all do either. One of them takes
            // all of a request: 32 requests keep them busy.
            EngineLayout::Vllm => [Some(16), Some(32), Some(32), Some(32), Some(1), Some(0)],
            EngineLayout::Llmd => [Some(256), Some(64), Some(64), Some(8), Some(0), Some(0)],
            EngineLayout::Hicache => [Some(64), Some(1), Some(1), Some(1), Some(0), Some(0)],
            EngineLayout::Mooncake => [Some(64), Some(1), Some(1), Some(1), None, Some(0)],
            // Not threads: a queue of 64 descriptors.
            EngineLayout::Nixl => [Some(16), Some(64), Some(64), Some(1), Some(0), Some(0)],
            // A thread for each user, whose number nobody prescribes.
            EngineLayout::Mlperf => [None, Some(4), Some(4), Some(4), None, Some(1)],
        };
        values[option.place()]
    }
}
