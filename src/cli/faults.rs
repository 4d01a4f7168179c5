//! Arguments of `faults`.

use clap::Args;

/// Arguments of `faults`.
#[derive(Clone, Debug, Args)]
pub struct FaultsArgs {
    /// A seed, or the first of several and their end
    #[arg(long, value_name = "FIRST..END", default_value = "0..1000")]
    pub seeds: String,
    /// Systems at once; default: one a core
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
}
