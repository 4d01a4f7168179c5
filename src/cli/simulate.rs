//! Arguments of `simulate`.

use std::path::PathBuf;

use clap::Args;

use super::RunArgs;

/// Arguments of `simulate`.
#[derive(Clone, Debug, Default, Args)]
pub struct SimulateArgs {
    /// Drives, described in YAML (config/devices/ has some; `ringfall saturate --device-output`
    /// writes one); several with commas
    #[arg(long, value_name = "FILE", value_delimiter = ',', required = true)]
    pub device: Vec<PathBuf>,
    /// Numbers of users to try, with commas: a table instead of one result
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub what_if_users: Vec<i64>,
    /// Models to try, with commas: a table instead of one result
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub what_if_models: Vec<String>,
    /// As for `run`.
    #[command(flatten)]
    pub run: RunArgs,
}
