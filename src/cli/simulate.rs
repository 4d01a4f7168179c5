//! Arguments of `simulate`.

use std::path::PathBuf;

use clap::Args;
use ringfall_config::values::Gib;

use super::RunArgs;

/// Arguments of the command `simulate`.
#[derive(Clone, Debug, Default, Args)]
pub struct SimulateArgs {
    /// Files that describe drives in YAML, separated by commas; config/devices/ has some, and
    /// `ringfall saturate --device-output` writes one
    #[arg(long, value_name = "FILE", value_delimiter = ',', required = true)]
    pub device: Vec<PathBuf>,
    /// Numbers of users to try, separated by commas; the result is a table
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub what_if_users: Vec<i64>,
    /// Models to try, separated by commas; the result is a table
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub what_if_models: Vec<String>,
    /// Capacities of the GPU tier to try, in GiB per GPU, separated by commas; the result is a
    /// table, which says how many users each of them is worth
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub what_if_gpu_gb: Vec<Gib>,
    /// The settings of the run, as flags give them.
    #[command(flatten)]
    pub run: RunArgs,
}
