//! The tiers an entry can live in, fastest first. One file a tier.

pub mod cpu;

/// A tier of the waterfall, fastest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Tier {
    /// GPU memory.
    Gpu,
    /// Host memory.
    Cpu,
    /// NVMe, through O_DIRECT; always present, always last.
    Storage,
}

/// How many tiers there are.
pub const TIER_COUNT: usize = 3;

impl Tier {
    /// All tiers, fastest first.
    pub const ALL: [Tier; TIER_COUNT] = [Tier::Gpu, Tier::Cpu, Tier::Storage];

    /// As an index into per-tier arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in reports and JSON keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Gpu => "gpu",
            Tier::Cpu => "cpu",
            Tier::Storage => "storage",
        }
    }
}
