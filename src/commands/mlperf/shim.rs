//! `ringfall mlperf shim`.

use anyhow::{Context as _, Result};
use ringfall_config::InputError;
use ringfall_foreign::mlperf::NOT_CLOSED;
use ringfall_foreign::mlperf::shim::{ShimError, write};
use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;

use crate::cli::ShimArgs;
use crate::commands::{TEXT_WIDTH, print};

/// Writes the shim and says how the harness is given it.
pub(super) fn run(args: &ShimArgs) -> Result<Exit> {
    let ringfall = match &args.ringfall {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .context("the path of this program is not known: give --ringfall")?,
    };
    let delays = [("--start-delay", args.start_delay), ("--end-delay", args.end_delay)];
    let flags = delays
        .iter()
        .filter_map(|(flag, delay)| Some([(*flag).to_owned(), delay.as_ref()?.to_string()]));
    let flags: Vec<String> = flags.flatten().collect();
    let written = write(&args.directory, &ringfall, &flags).map_err(|error| match error {
        ShimError::Io { .. } => anyhow::Error::from(error).context("the shim can't be written"),
        _ => InputError::new(error.to_string()).into(),
    })?;
    let kept = match written.config_kept {
        true => "config.yaml was there already and is kept; every rank reads it.\n",
        false => "config.yaml holds settings for every rank; it sets none yet.\n",
    };
    print(&format!(
        "{kept}\
         Give the harness this, and a cache directory on the storage to be tested:\n\n  \
         mlpstorage open kvcache run --kvcache-bin-path {} \\\n    \
         --gpu-mem-gb 0 --cpu-mem-gb 0 --generation-mode none --num-users 200 \\\n    \
         --duration 300 --cache-dir DIR ...\n\n\
         {}\n",
        terminal_path(&written.program),
        textwrap::fill(&format!("{ABOUT_OPEN} {NOT_CLOSED}"), TEXT_WIDTH)
    ))
}

const ABOUT_OPEN: &str = "In the OPEN division the harness passes its own defaults (tiny-1b, 100 \
                          users, 60 s, 16 GB of GPU and 32 GB of CPU memory) to all three options \
                          unless they are given. `ringfall mlperf run` does the sequence as the \
                          rules have it, without the harness.";
