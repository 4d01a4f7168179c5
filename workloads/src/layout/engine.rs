//! The engines whose layouts are known, and what each does unless it is told otherwise.

use super::options::LayoutOption;
use crate::error::Error;

/// Layout of an engine's KV cache on storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineLayout {
    /// LMCache's `fs_native` adapter.
    Lmcache,
    /// LMCache's `raw_block` slots, here in a file.
    LmcacheRaw,
    /// vLLM's `fs` tier of its offloading connector.
    Vllm,
    /// The file backend of llm-d.
    Llmd,
    /// SGLang HiCache's file backend.
    Hicache,
    /// Buckets of Mooncake Store, filled by SGLang.
    Mooncake,
    /// Blocks of NIXL's kvbench.
    Nixl,
    /// MLPerf Storage's KV cache benchmark.
    Mlperf,
}

impl EngineLayout {
    /// All layouts, in the order of the documentation.
    pub const ALL: [EngineLayout; 8] = [
        EngineLayout::Lmcache,
        EngineLayout::LmcacheRaw,
        EngineLayout::Vllm,
        EngineLayout::Llmd,
        EngineLayout::Hicache,
        EngineLayout::Mooncake,
        EngineLayout::Nixl,
        EngineLayout::Mlperf,
    ];

    /// Word for the layout, as flags and results have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EngineLayout::Lmcache => "lmcache",
            EngineLayout::LmcacheRaw => "lmcache-raw",
            EngineLayout::Vllm => "vllm",
            EngineLayout::Llmd => "llmd",
            EngineLayout::Hicache => "hicache",
            EngineLayout::Mooncake => "mooncake",
            EngineLayout::Nixl => "nixl",
            EngineLayout::Mlperf => "mlperf",
        }
    }

    /// Engine and unit of its storage, a part of a sentence.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            EngineLayout::Lmcache => "LMCache fs_native: a file per chunk and rank, renamed",
            EngineLayout::LmcacheRaw => "LMCache raw_block: a slot per chunk and rank",
            EngineLayout::Vllm => "vLLM fs tier: a file per chunk of all ranks, renamed",
            EngineLayout::Llmd => "llm-d: a file per chunk and rank, renamed",
            EngineLayout::Hicache => "SGLang HiCache: a file per page and rank, renamed",
            EngineLayout::Mooncake => "Mooncake Store: K and V of pages in buckets of 256 MiB",
            EngineLayout::Nixl => "NIXL kvbench: blocks in one file per GPU",
            EngineLayout::Mlperf => "MLPerf Storage: a file per request, fsync",
        }
    }

    /// The layout of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<EngineLayout, Error> {
        let found = EngineLayout::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| {
            let names = EngineLayout::ALL.map(EngineLayout::name).join(", ");
            Error::new(format!("{name:?} is not a known layout: give some of {names}"))
        })
    }

    /// The engine's own value of an option; none where it has no such option.
    #[must_use]
    pub const fn default_of(self, option: LayoutOption) -> Option<u64> {
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
