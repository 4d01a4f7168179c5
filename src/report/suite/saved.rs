//! The plan of a suite as it is kept in its directory: what was asked for, and what came of it on
//! this machine then. A suite that goes on must not calculate anew, as less memory may be free.

use std::path::{Path, PathBuf};

use ringfall_model::document::{FileProblem, read_bytes};
use serde::{Deserialize, Serialize};

use super::workload::{Asked, Invocation, Workload};

/// Name of the file. It holds JSON, but whoever reads all results of a directory (*.json) must not
/// take it for one.
const FILE: &str = "suite.plan";
/// Layout of the file.
const VERSION: u32 = 1;

/// A suite as it is kept on disk, so that an interrupted one can be continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSuite {
    /// 1; also tells such a file from others.
    pub ringfall_suite: u32,
    /// Name of the machine.
    pub host: Option<String>,
    /// Parameters of the workloads.
    pub asked: Asked,
    /// The workloads that were asked for, in their order.
    pub workloads: Vec<Workload>,
    /// The directory for the data, if one was given.
    pub cache_dir: Option<PathBuf>,
    /// Flags for all runs, after those of the workloads.
    pub more_flags: Vec<String>,
    /// The runs of the suite, in their order, with all their flags.
    pub invocations: Vec<Invocation>,
}

impl SavedSuite {
    /// A suite of these.
    pub fn new(
        host: Option<String>,
        asked: Asked,
        workloads: Vec<Workload>,
        (cache_dir, more_flags): (Option<PathBuf>, Vec<String>),
        invocations: Vec<Invocation>,
    ) -> SavedSuite {
        let ringfall_suite = VERSION;
        SavedSuite { ringfall_suite, host, asked, workloads, cache_dir, more_flags, invocations }
    }

    /// Where a suite in that directory has its plan.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    /// The suite of a directory; none when there is no plan in it.
    pub fn read(directory: &Path) -> Result<Option<SavedSuite>, FileProblem> {
        let path = SavedSuite::path(directory);
        if !path.exists() {
            return Ok(None);
        }
        let problem = |what: String| FileProblem::new(&path, what);
        let bytes = read_bytes(&path).map_err(problem)?;
        let saved: SavedSuite = serde_json::from_slice(&bytes)
            .map_err(|error| problem(format!("is not the plan of a suite: {error}")))?;
        match saved.ringfall_suite {
            VERSION => Ok(Some(saved)),
            other => Err(problem(format!(
                "has the layout {other}, and this version knows {VERSION}: give another directory"
            ))),
        }
    }

    /// Differences between the requests for two suites, in the words of the flags; empty when one
    /// can go on with the other.
    pub fn differences(&self, other: &SavedSuite) -> Vec<String> {
        let (own, theirs) = (&self.asked, &other.asked);
        let names = |suite: &SavedSuite| {
            suite.workloads.iter().map(|one| one.name()).collect::<Vec<_>>().join(",")
        };
        let number = |number: Option<u32>| number.map_or("not given".into(), |n| n.to_string());
        let gib = |gib: Option<f64>| gib.map_or("not given".into(), |gib| gib.to_string());
        let path = |suite: &SavedSuite| {
            suite.cache_dir.as_ref().map_or("not given".into(), |path| path.display().to_string())
        };
        let rows = [
            ("-m", own.model.clone(), theirs.model.clone()),
            ("-t", own.tier_s.to_string(), theirs.tier_s.to_string()),
            ("-s", own.saturation_s.to_string(), theirs.saturation_s.to_string()),
            ("-r", own.production_s.to_string(), theirs.production_s.to_string()),
            ("-a", own.autoscale_s.to_string(), theirs.autoscale_s.to_string()),
            ("-u", number(own.users), number(theirs.users)),
            ("-U", number(own.users_high), number(theirs.users_high)),
            ("-D", number(own.rag_documents), number(theirs.rag_documents)),
            ("--storage-capacity-gb", gib(own.storage_gib), gib(theirs.storage_gib)),
            ("-w", names(self), names(other)),
            ("-c", path(self), path(other)),
            ("flags after --", self.more_flags.join(" "), other.more_flags.join(" ")),
        ];
        let differing = rows.into_iter().filter(|(_, own, theirs)| own != theirs);
        differing.map(|(flag, own, theirs)| format!("{flag} ({own} and {theirs})")).collect()
    }
}
