//! Arguments of `faults`.

use clap::Args;

/// Arguments of the command `faults`.
#[derive(Clone, Debug, Args)]
pub struct FaultsArgs {
    /// One seed, or a range of seeds, which includes FIRST but not END
    #[arg(long, value_name = "FIRST..END", default_value = "0..1000")]
    pub seeds: String,
    /// Number of systems to simulate at the same time, 1 to 1024; one per core when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}
