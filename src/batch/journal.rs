//! Files that a batch leaves for the next run of it: its plan, a mark beside each job that has
//! begun and is not done, and the results. All outlives `kill -9` and a loss of power: the plan and
//! a result appear whole, and the mark is there before a job begins.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_core::held::HeldDirectory;
use ringfall_host::files;
use ringfall_model::document::read_bytes;
use rustix::fs::OFlags;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::job::Job;
use super::unusable;

/// Name of the plan in the directory; not `.json`, which would be taken for a result.
const NAME: &str = "batch.journal";
/// Differences that a refusal lists.
const DIFFERENCES_SHOWN: usize = 5;
/// Largest plan that is read, into memory: a hundred times what a large sweep writes.
const BYTES_MAX: u64 = 64 << 20;

/// Plan that a resumed batch must agree with.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) version: String,
    /// The command: `sweep`.
    pub(super) what: String,
    /// The jobs in their order: name and arguments.
    pub(super) jobs: Vec<(String, Vec<String>)>,
}

impl Plan {
    pub(super) fn of(what: &str, jobs: &[Job]) -> Plan {
        Plan {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            what: what.to_owned(),
            jobs: jobs.iter().map(|job| (job.name.clone(), job.arguments.clone())).collect(),
        }
    }

    fn differences(&self, begun: &Plan) -> Vec<String> {
        let mut found = Vec::new();
        if self.what != begun.what {
            found.push(format!("it was begun by `ringfall {}`", begun.what));
        }
        if self.version != begun.version {
            found.push(format!(
                "it was begun by version {}, and this is {}",
                begun.version, self.version
            ));
        }
        let by_name =
            |plan: &Plan| -> BTreeMap<String, Vec<String>> { plan.jobs.iter().cloned().collect() };
        let (now, before) = (by_name(self), by_name(begun));
        // Most often all jobs differ in the same: said once, with the first.
        let mut changes: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for (name, arguments) in &self.jobs {
            match before.get(name) {
                None => found.push(format!("{name} is new")),
                Some(old) if old != arguments => {
                    changes.entry(change(old, arguments)).or_insert((name, 0)).1 += 1;
                }
                Some(_) => {}
            }
        }
        found.extend(changes.into_iter().map(|(change, (first, jobs))| match jobs {
            1 => format!("{first} {change}"),
            jobs => format!("{first} and {} more {change}", jobs - 1),
        }));
        let gone = begun.jobs.iter().filter(|(name, _)| !now.contains_key(name));
        found.extend(gone.map(|(name, _)| format!("{name} is gone")));
        if found.is_empty() && self.jobs != begun.jobs {
            found.push("the jobs are in another order".to_owned());
        }
        found
    }
}

/// Difference between two lists of arguments: ``had `--duration=1`, and now has `--duration=2` ``.
fn change(old: &[String], new: &[String]) -> String {
    let only = |these: &[String], those: &[String]| {
        let only = these.iter().filter(|one| !those.contains(one)).map(String::as_str);
        only.collect::<Vec<_>>().join(" ")
    };
    match (only(old, new), only(new, old)) {
        (gone, new) if gone.is_empty() && new.is_empty() => {
            "had its arguments in another order, or in another number".to_owned()
        }
        (gone, new) if new.is_empty() => format!("no longer has `{gone}`"),
        (gone, new) if gone.is_empty() => format!("now also has `{new}`"),
        (gone, new) => format!("had `{gone}`, and now has `{new}`"),
    }
}

/// Keeps the plan in the directory, unless it is there already; whether it is, so that the batch is
/// continued.
///
/// # Errors
/// Another plan is there, or it can't be read or written.
pub(super) fn keep(directory: &Path, plan: &Plan) -> Result<bool> {
    let path = directory.join(NAME);
    let path = path.display();
    let unusable = |error| unusable(&format!("the journal {path} can't be used"), error);
    let held = HeldDirectory::open(directory).map_err(unusable)?;
    let file = match held.open_own(NAME, OFlags::empty()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let line = format!("{}\n", serde_json::to_string(plan)?);
            files::replace_in(&held, NAME, &|out| out.write_all(line.as_bytes()))
                .and_then(|()| held.sync())
                .map_err(unusable)?;
            return Ok(false);
        }
        opened => opened.map_err(unusable)?,
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(unusable)?;
    let strange = |why: &dyn std::fmt::Display| {
        InputError::new(format!(
            "{path}: this is no journal of a batch ({why}); give another directory, or remove the \
             file to begin anew"
        ))
    };
    let begun = text.lines().next().ok_or_else(|| strange(&"it is empty"))?;
    let begun: Plan = serde_json::from_str(begun).map_err(|error| strange(&error))?;
    let differences = plan.differences(&begun);
    if differences.is_empty() {
        return Ok(true);
    }
    let shown = &differences[..differences.len().min(DIFFERENCES_SHOWN)];
    let more = differences.len() - shown.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(InputError::new(format!(
        "{path} holds another batch, which this one can't continue: {}{more}. Give the same \
         command to continue it, or another directory to begin anew",
        shown.join("; ")
    ))
    .into())
}

/// Name of the file that stands beside a result which does not count: its job has begun, and has
/// not ended with status 0.
pub(super) fn mark(name: &str) -> String {
    format!(".{name}.unfinished")
}

/// Whether a job is done: its result is there, and counts.
pub(super) fn is_done(directory: &Path, job: &Job) -> bool {
    let (parent, name) = job.place();
    let is_marked = directory.join(parent).join(mark(name)).symlink_metadata().is_ok();
    !is_marked && has_result(&job.output(directory))
}

/// Whether a result is there and can be read.
pub(super) fn has_result(output: &Path) -> bool {
    read_bytes(output).is_ok_and(|bytes| serde_json::from_slice::<IgnoredAny>(&bytes).is_ok())
}
