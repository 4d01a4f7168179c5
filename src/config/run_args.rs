//! Settings as a command line gives them.

use std::path::PathBuf;

use clap::Args;

use crate::{Defaults, InputError, Options, Preset};

/// Arguments of the command `run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// YAML file with settings
    ///
    /// Flags on the command line take precedence over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Settings of a published invocation; `list` shows all presets
    ///
    /// One of them is llama3.1-8b-stress. Flags on the command line take precedence over it.
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// The settings that flags give; those not typed are absent.
    #[command(flatten)]
    pub options: Options,
    /// Whether the place was given as a plain DIR.
    #[arg(skip)]
    pub has_plain_directory: bool,
}

impl RunArgs {
    /// Defaults that hold for what is not given. A published invocation and a file, which may be
    /// the reference's, come with the reference's.
    pub fn defaults(&self) -> Defaults {
        match self.has_plain_directory && self.preset.is_none() && self.config.is_none() {
            true => Defaults::Own,
            false => Defaults::Reference,
        }
    }

    /// Settings from the command line: the flags, and below them the preset.
    ///
    /// # Errors
    /// There is no such preset.
    pub fn typed(&self) -> Result<Options, InputError> {
        let options = self.options.clone();
        match &self.preset {
            Some(name) => Ok(options.over(Preset::by_name(name)?.options())),
            None => Ok(options),
        }
    }
}
