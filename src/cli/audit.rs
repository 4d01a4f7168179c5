//! Arguments of `audit`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of the command `audit`.
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    /// Results of the reference benchmark or of ringfall: a tree in the published layout, a
    /// directory of results, or single JSON files; logs and iostat beside them are read too
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Specified read bandwidth of one host's storage, in MB/s (10^6 bytes); reported rates are
    /// compared with it, times the number of hosts
    #[arg(long, value_name = "MB/S", value_parser = megabytes)]
    pub drive_read_mb_s: Option<f64>,
    /// Specified write bandwidth of one host's storage, in MB/s (10^6 bytes)
    #[arg(long, value_name = "MB/S", value_parser = megabytes)]
    pub drive_write_mb_s: Option<f64>,
    /// Print every run, finding and note with all inputs, not only the most serious findings
    #[arg(long)]
    pub all_findings: bool,
    /// Write the whole audit as JSON to this file; `-` prints it instead of the page
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the audit as an HTML page that opens offline
    #[arg(long, value_name = "FILE")]
    pub html_output: Option<PathBuf>,
    /// Write a row of CSV for each rank file: bytes, times, bounds on rates and overstatement
    #[arg(long, value_name = "FILE")]
    pub csv_output: Option<PathBuf>,
    /// Exit with status 1 when there is a finding; notes do not count
    #[arg(long)]
    pub fail_on_findings: bool,
}

/// Most that is believed of one host's storage, MB/s.
const MEGABYTES_MAX: f64 = 1e9;

fn megabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= MEGABYTES_MAX => Ok(value),
        _ => Err(format!(
            "{text:?} is not a bandwidth; give MB/s above 0 and up to {MEGABYTES_MAX}, such as \
             14000"
        )),
    }
}
