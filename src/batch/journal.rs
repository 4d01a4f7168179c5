//! The journal: the plan, then a line for each job that has ended. It outlives `kill -9` and a loss
//! of power: it appears whole, each line is synced, and a line that was cut off counts as none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ringfall_config::InputError;
use ringfall_core::held::HeldDirectory;
use ringfall_host::files;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::job::{Job, Outcome};

/// Its name in the directory; not `.json`, which would be taken for a result.
const NAME: &str = "batch.journal";
/// Differences that a refusal lists.
const DIFFERENCES_SHOWN: usize = 5;
/// Largest journal that is read, into memory: a hundred times what a large sweep writes.
const BYTES_MAX: u64 = 64 << 20;

/// The first line: what a resumed batch must agree with.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Version of ringfall.
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

    /// Differences from the plan that was begun, a sentence each.
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

/// A line after the first.
#[derive(Serialize, Deserialize)]
struct Entry {
    job: String,
    #[serde(flatten)]
    outcome: Outcome,
}

/// The journal of a directory, open to add to it.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal, or begins one; and how the jobs ended that it lists.
    ///
    /// # Errors
    /// It holds another plan, or can't be read or written.
    pub(super) fn open(
        directory: &Path,
        plan: &Plan,
    ) -> Result<(Journal, BTreeMap<String, Outcome>)> {
        let path = directory.join(NAME);
        let unusable = || {
            let path = path.display();
            format!("the journal {path} can't be used; give another directory, or delete it")
        };
        let held = HeldDirectory::open(directory).with_context(unusable)?;
        let mut file = match held.open_own(NAME, OFlags::APPEND) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                begin(&held, plan).with_context(unusable)?;
                held.open_own(NAME, OFlags::APPEND)
            }
            opened => opened,
        }
        .with_context(unusable)?;
        let bytes = file.metadata().with_context(unusable)?.len();
        anyhow::ensure!(
            bytes <= BYTES_MAX,
            "the journal {} is {bytes} bytes long, which is more than ringfall writes; give \
             another directory",
            path.display()
        );
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(unusable)?;
        let text = String::from_utf8_lossy(&text);
        let whole_lines = text.rfind('\n').map_or(0, |end| end + 1);
        let ended = read(&text[..whole_lines], &path, plan)?;
        // A line that was cut off would be the beginning of the next.
        if whole_lines < text.len() {
            file.set_len(whole_lines as u64).with_context(unusable)?;
        }
        Ok((Journal { path, file }, ended))
    }

    /// Adds a job that has ended; it is on the disk when this returns.
    ///
    /// # Errors
    /// The line can't be written.
    pub(super) fn add(&mut self, job: &str, outcome: &Outcome) -> Result<()> {
        let entry = Entry { job: job.to_owned(), outcome: outcome.clone() };
        let line = format!("{}\n", serde_json::to_string(&entry)?);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| {
            format!("the journal {} can't be written, so the batch ends here", self.path.display())
        })
    }
}

/// Makes the journal of a plan; it is there as a whole, or not at all.
fn begin(directory: &HeldDirectory, plan: &Plan) -> Result<()> {
    let line = format!("{}\n", serde_json::to_string(plan)?);
    files::replace_in(directory, NAME, &|out| out.write_all(line.as_bytes()))?;
    Ok(directory.sync()?)
}

fn read(text: &str, path: &Path, plan: &Plan) -> Result<BTreeMap<String, Outcome>> {
    let strange = |line: usize, why: &dyn std::fmt::Display| {
        InputError::new(format!(
            "{}, line {line}: this is no journal of a batch ({why}); give another directory, or \
             remove the file to begin anew",
            path.display()
        ))
    };
    let mut lines = text.lines().enumerate();
    let (_, first) = lines.next().ok_or_else(|| strange(1, &"it is empty"))?;
    let begun: Plan = serde_json::from_str(first).map_err(|error| strange(1, &error))?;
    let differences = plan.differences(&begun);
    if !differences.is_empty() {
        let shown = &differences[..differences.len().min(DIFFERENCES_SHOWN)];
        let more = differences.len() - shown.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Err(InputError::new(format!(
            "{} holds another batch, which this one can't continue: {}{more}. Give the same \
             command to continue it, or another directory to begin anew",
            path.display(),
            shown.join("; ")
        ))
        .into());
    }
    let mut ended = BTreeMap::new();
    for (place, line) in lines {
        let entry: Entry =
            serde_json::from_str(line).map_err(|error| strange(place + 1, &error))?;
        ended.insert(entry.job, entry.outcome);
    }
    Ok(ended)
}
