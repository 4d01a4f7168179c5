//! Arguments of `discover`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of the command `discover`.
#[derive(Clone, Debug, Default, Args)]
pub struct DiscoverArgs {
    /// Directory to keep data in; short for --cache-dir
    #[arg(value_name = "DIR", conflicts_with = "cache_dir")]
    pub directory: Option<PathBuf>,
    /// Directory to keep data in; when not given, the best place is chosen among the mounted file
    /// systems
    #[arg(short = 'c', long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Model for the recommended flags
    #[arg(short = 'm', long, value_name = "NAME", default_value = "llama3.1-8b")]
    pub model: String,
    /// Print all that was found, and the flags of every workload with the reason for each
    #[arg(long)]
    pub details: bool,
    /// Print everything as JSON, with all devices and the reason for every flag
    #[arg(long)]
    pub json: bool,
}
