//! Arguments of `faults`.

use clap::Args;

/// Arguments of `faults`.
#[derive(Clone, Debug, Args)]
pub struct FaultsArgs {
    /// A seed, or the first of several and their end
    #[arg(long, value_name = "FIRST..END", default_value = "0..1000")]
    pub seeds: String,
    /// Systems at once, 1 to 1024; default: one a core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}
