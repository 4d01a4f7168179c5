//! The ranks that run a sequence together: which run it is, what of it is still to do, and when all
//! are through with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use ringfall_config::{InputError, Rank};
use ringfall_core::held::HeldDirectory;
use ringfall_foreign::mlperf::tree::state_directory;
use ringfall_host::Launcher;
use ringfall_host::interrupt::Interrupt;
use ringfall_running::group::{Group, Silence, Topic};

use crate::batch::Job;
use crate::commands::run::Launch;

/// Rank 0 tells the others the run's directory.
const RUN: Topic = Topic("mlperf-run");
/// The others tell rank 0 that they are through.
const THROUGH: Topic = Topic("mlperf-through");
/// Remedy where they can't meet.
const GIVE_RESULTS: &str = "give --results-dir a directory that all of them may write to";
/// Longest wait for ranks that are still there and not through: they end their trials together.
const STRAGGLERS_MAX: Duration = Duration::from_secs(600);

/// This process, and those that run with it.
#[derive(Debug)]
pub(super) struct Team {
    /// None: it is alone.
    group: Option<Arc<Group>>,
    interrupt: Interrupt,
}

impl Team {
    /// Meets the other ranks of the launch in `results`, if a launcher has started several. The
    /// runs' own directories differ where each rank names the system after its own host.
    pub(super) fn gather(
        results: &Path,
        rank: Option<&Rank>,
        interrupt: &Interrupt,
    ) -> Result<Team> {
        let interrupt = interrupt.clone();
        let Some(rank) = rank else {
            if Launcher::look().is_none_or(|launcher| launcher.size == Some(1)) {
                return Ok(Team { group: None, interrupt });
            }
            let what = "the launcher that started this rank does not say how many there are; \
                        start it by mpirun or srun, or start `ringfall mlperf run` alone";
            return Err(InputError::new(what).into());
        };
        HeldDirectory::make(results).with_context(|| {
            format!("the ranks can't meet in {}: {GIVE_RESULTS}", results.display())
        })?;
        let launch = Launch::of(rank, GIVE_RESULTS)?;
        let group = launch.as_ref().map(Launch::join).transpose()?;
        group.iter().for_each(|group| group.ready());
        Ok(Team { group, interrupt })
    }

    /// This process's number, from 0.
    pub(super) fn rank(&self) -> u32 {
        self.group.as_ref().map_or(0, |group| group.rank())
    }

    pub(super) fn size(&self) -> u32 {
        self.group.as_ref().map_or(1, |group| group.size())
    }

    /// Whether this is the one that decides, adds up and shows.
    pub(super) fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// Flags that a trial needs for its ranks to meet as these have.
    pub(super) fn flags(&self) -> &'static [&'static str] {
        match self.group {
            None => &[],
            // A library of MPI can be begun only once in what a launcher has started.
            Some(_) => &["--ranks", "directory"],
        }
    }

    /// The run's directory, as rank 0 has chosen it. Of a run that is continued, each rank begins
    /// with the same trials: those that not all have done are to be done again by all.
    pub(super) fn agree_on(
        &self,
        choose: impl FnOnce() -> Result<PathBuf>,
        jobs: impl Fn(&Path) -> Vec<Job>,
    ) -> Result<PathBuf> {
        let Some(group) = &self.group else { return choose() };
        if !self.leads() {
            let heard = group.hear_first(RUN, &|| self.interrupt.is_set());
            return heard.map_err(|silence| match silence {
                Silence::Failed(why) => anyhow!("the sequence can't begin: {why}"),
                Silence::Over => anyhow!("interrupted before the sequence began"),
            });
        }
        let chosen = choose().and_then(|run| {
            forget_partly_done(&run, &jobs(&run), self.size())?;
            Ok(run)
        });
        let run = chosen.inspect_err(|error| group.fail(&format!("{error:#}")))?;
        group.say(RUN, &run);
        Ok(run)
    }

    /// Whether this rank should end early: a signal came, or another rank is gone.
    pub(super) fn is_over(&self) -> bool {
        self.interrupt.is_set() || self.failure().is_some()
    }

    /// Reason why another rank is gone, if one is.
    pub(super) fn failure(&self) -> Option<String> {
        self.group.as_ref()?.failure()
    }

    pub(super) fn end_early(&self) {
        if let Some(group) = &self.group {
            group.fail("its sequence was interrupted");
        }
    }

    /// Waits until all ranks have done their trials: rank 0 for the others.
    pub(super) fn wait_for_all(&self) {
        let Some(group) = &self.group else { return };
        if self.leads() {
            // What a rank that is gone has not written is missing in the summary.
            let _all = group.gather_from_those_left(THROUGH, STRAGGLERS_MAX);
        } else {
            group.say_bytes(THROUGH, Vec::new());
        }
        group.leave();
    }
}

/// Has a trial that not every rank has done be done again by all: ranks measure together. A batch
/// runs a job anew whose result is gone.
fn forget_partly_done(run: &Path, jobs: &[Job], ranks: u32) -> Result<()> {
    for job in jobs {
        let results = (0..ranks).map(|rank| job.output(&state_directory(run, rank)));
        let results: Vec<PathBuf> = results.collect();
        if results.iter().all(|path| path.exists()) {
            continue;
        }
        for path in results {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let what = format!("{} can't be removed", path.display());
                    return Err(error).context(what);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn a_trial_that_a_rank_lacks_is_done_again_by_all() {
        let run = Scratch::new("team");
        let results = [(0, "a"), (1, "a"), (0, "b"), (1, "c")];
        let file = |(rank, name): (u32, &str)| state_directory(&run, rank).join(name);
        for (rank, name) in results {
            std::fs::create_dir_all(state_directory(&run, rank)).unwrap();
            std::fs::write(file((rank, name)).with_extension("json"), "{}").unwrap();
        }
        let jobs = ["a", "b", "c", "d"].map(|name| Job::new(name, ["mlperf"], 1.0));
        forget_partly_done(&run, &jobs, 2).unwrap();
        let left = results.map(|one| file(one).with_extension("json").exists());
        assert_eq!(left, [true, true, false, false]);
    }
}
