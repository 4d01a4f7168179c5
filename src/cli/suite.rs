//! Arguments of `suite`.

use std::path::PathBuf;

use clap::Args;

use super::{number, time};
use ringfall_config::values;
use ringfall_report::suite::{Asked, WORKLOADS, Workload};

/// Longest run of a suite, s: a day.
const SECONDS_MAX: i64 = 86_400;
const USERS_MAX: u64 = 100_000;
const DOCUMENTS_MAX: u64 = 1_000_000;
/// Documents to retrieve from when their number is not given.
const DOCUMENTS: u32 = 10;

/// Arguments of the command `suite`.
#[derive(Clone, Debug, Args)]
pub struct SuiteArgs {
    /// Workloads to run, separated by commas: all, or names from the list below
    #[arg(short = 'w', long, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    pub workloads: Vec<String>,
    /// Model whose KV cache is simulated
    #[arg(short = 'm', long, value_name = "NAME", default_value = "llama3.1-8b")]
    pub model: String,
    /// Directory for the data; when not given, /mnt/nvme or /mnt/ssd where a file system is mounted
    /// there, and the system's temporary directory otherwise
    #[arg(short = 'c', long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Length of the runs that compare tiers, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 120)]
    #[arg(value_parser = time::<u32>(1..=SECONDS_MAX))]
    pub tier_seconds: u32,
    /// Length of storage-saturation, in seconds
    #[arg(short = 's', long, value_name = "SECONDS", default_value_t = 180)]
    #[arg(value_parser = time::<u32>(1..=SECONDS_MAX))]
    pub saturation_seconds: u32,
    /// Length of production, in seconds
    #[arg(short = 'r', long, value_name = "SECONDS", default_value_t = 180)]
    #[arg(value_parser = time::<u32>(1..=SECONDS_MAX))]
    pub production_seconds: u32,
    /// Time limit for autoscale and for capacity-autoscale, in seconds
    #[arg(short = 'a', long, value_name = "SECONDS", default_value_t = 300)]
    #[arg(value_parser = time::<u32>(1..=SECONDS_MAX))]
    pub autoscale_seconds: u32,
    /// Number of users in workloads with a moderate load (default: 50)
    #[arg(short = 'u', long, value_name = "N", value_parser = number::<u32>(1, USERS_MAX))]
    pub users: Option<u32>,
    /// Number of users in workloads with a high load (default: 10 for each GiB of memory, 50 to
    /// 300)
    #[arg(short = 'U', long, value_name = "N", value_parser = number::<u32>(1, USERS_MAX))]
    pub users_high: Option<u32>,
    /// Let some requests read chunks of documents, except in capacity-autoscale and
    /// mlperf_submission
    #[arg(short = 'R', long)]
    pub rag: bool,
    /// Number of documents to ingest with --rag (default: 10)
    #[arg(short = 'D', long, value_name = "N", value_parser = number::<u32>(1, DOCUMENTS_MAX))]
    #[arg(requires = "rag")]
    pub rag_documents: Option<u32>,
    /// Size of the storage tier in GiB, in runs that have one; 95 % of the free space when not
    /// given
    #[arg(long, value_name = "GIB", value_parser = gib)]
    pub storage_capacity_gb: Option<f64>,
    /// Take the space without asking, also on the system's own disk
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Directory for the results, logs and tables; results/suite-TIME when not given. A suite that
    /// was begun there is continued
    #[arg(short = 'o', long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Continue the suite that was begun in this directory, with the settings that it was begun
    /// with
    #[arg(long, value_name = "DIR", conflicts_with_all = RESUME_CONFLICTS)]
    pub resume: Option<PathBuf>,
    /// Directory of another suite whose results serve as the baseline for ratios
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Print the table as JSON on standard output, and everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Print the plan with all flags, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print no plan, no progress and no table
    #[arg(long)]
    pub quiet: bool,
    /// Flags of `ringfall run` for all runs, after `--`; they take precedence over the workloads'.
    /// With --gpu-backend emulated, host memory stands in for a GPU
    #[arg(last = true, value_name = "FLAGS")]
    pub more_flags: Vec<String>,
}

const RESUME_CONFLICTS: [&str; 15] = [
    "workloads",
    "model",
    "cache_dir",
    "tier_seconds",
    "saturation_seconds",
    "production_seconds",
    "autoscale_seconds",
    "users",
    "users_high",
    "rag",
    "rag_documents",
    "storage_capacity_gb",
    "output_dir",
    "dry_run",
    "more_flags",
];

/// Above 0; `run` knows the rest of the bounds.
fn gib(text: &str) -> Result<f64, String> {
    match values::gib(text) {
        Ok(gib) if gib > 0.0 && gib.is_finite() => Ok(gib),
        _ => Err(format!("{text:?} is not a size; give GiB above 0, such as 100")),
    }
}

impl SuiteArgs {
    /// Settings asked of the workloads.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked {
            model: self.model.clone(),
            tier_s: self.tier_seconds,
            saturation_s: self.saturation_seconds,
            production_s: self.production_seconds,
            autoscale_s: self.autoscale_seconds,
            users: self.users,
            users_high: self.users_high,
            storage_gib: self.storage_capacity_gb,
            rag_documents: self.rag.then(|| self.rag_documents.unwrap_or(DOCUMENTS)),
        }
    }

    /// The workloads that are named, each once, in the order of the list.
    ///
    /// # Errors
    /// A name that none has.
    pub fn chosen(&self) -> Result<Vec<Workload>, String> {
        let mut chosen = Vec::new();
        for name in self.workloads.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            if name.eq_ignore_ascii_case("all") {
                chosen.extend(WORKLOADS.iter().map(|row| row.0).filter(|one| one.is_in_all()));
                continue;
            }
            let names = WORKLOADS.map(|row| row.1);
            chosen.push(Workload::by_name(name).ok_or_else(|| {
                let near = ringfall_config::nearest::nearest(name, names)
                    .map_or(String::new(), |near| format!("did you mean {near}? "));
                format!("-w {name:?} is not a workload; {near}known: all, {}", names.join(", "))
            })?);
        }
        let mut all: Vec<Workload> = WORKLOADS.iter().map(|row| row.0).collect();
        all.retain(|workload| chosen.contains(workload));
        if all.is_empty() {
            return Err("-w names no workload: give all, or some of the list in the help".into());
        }
        Ok(all)
    }

    /// The list of workloads, for the help.
    pub fn list() -> String {
        let rows = WORKLOADS.iter().map(|row| format!("  {:<21} {}", row.1, row.3));
        format!("Workloads:\n{}", rows.collect::<Vec<_>>().join("\n"))
    }
}
