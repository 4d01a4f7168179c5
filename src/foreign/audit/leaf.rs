//! The files of one run put together: options, trials, ranks, what was published of them, what was
//! recorded and logged beside them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::command::{Metadata, Recorded};
use super::rank::Rank;
use super::summary::{Published, PublishedOption};
use crate::iostat::{BytesPerS, Reading, TimedSum};

/// Counters of the kernel in a file of iostat's. All devices that it lists are added up, the
/// reading most generous to the result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Iostat {
    pub(super) file: PathBuf,
    pub(super) devices: String,
    /// The highest rates of one report.
    pub(super) peak_bytes_per_s: BytesPerS,
    pub(super) counted: Option<TimedSum>,
}

impl Iostat {
    /// Reads the file at `path`, which is shown as `file`.
    pub(super) fn read(path: &Path, file: PathBuf) -> Result<Iostat, String> {
        let reading = Reading::of_file(path)?;
        if reading.reports.is_empty() {
            return Err("no report of iostat is in it (a line that begins with Device)".to_owned());
        }
        let (peak_bytes_per_s, counted) = (reading.peak_bytes_per_s(), reading.counted());
        let devices = reading.devices.into_keys().collect::<Vec<_>>().join(", ");
        Ok(Iostat { file, devices, peak_bytes_per_s, counted })
    }
}

#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) ranks: BTreeMap<u32, Rank>,
    /// Files of a rank beside the one that was read; the harness takes any one of them.
    pub(super) others: Vec<PathBuf>,
    /// Files of ranks that could not be read.
    pub(super) damaged: Vec<PathBuf>,
    /// `iostat` in the trial's directory or below it.
    pub(super) iostat: Vec<Iostat>,
}

/// Trials of one option, or a single result.
#[derive(Debug)]
pub(super) struct Group {
    /// `option 1`, or a file's name.
    pub(super) label: String,
    /// The harness's option; none for a file that lies in no such directory.
    pub(super) option: Option<u32>,
    pub(super) trials: BTreeMap<u32, Trial>,
}

impl Group {
    pub(super) fn ranks(&self) -> impl Iterator<Item = (u32, &Rank)> {
        self.trials.iter().flat_map(|(trial, files)| files.ranks.values().map(|r| (*trial, r)))
    }

    /// The rank files for which `is` holds, and the share of all that they are; none where it holds
    /// for none.
    pub(super) fn those(&self, is: impl Fn(&Rank) -> bool) -> Option<(Vec<&Rank>, f64)> {
        let those: Vec<&Rank> = self.ranks().map(|(_, rank)| rank).filter(|r| is(r)).collect();
        let share = those.len() as f64 / self.ranks().count() as f64;
        (!those.is_empty()).then_some((those, share))
    }

    /// Key of a figure in the summary of the run.
    pub(super) fn published_key(&self, name: &str) -> String {
        format!("options.{}.{name}", self.option.unwrap_or_default())
    }

    /// The group with a capital at the beginning, unless it is a file.
    pub(super) fn begin(&self) -> String {
        self.option.map_or_else(|| self.label.clone(), |option| format!("Option {option}"))
    }
}

/// One run: a directory of the published layout, or of single results.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// The directory, as it is shown.
    pub(super) path: PathBuf,
    /// Whether all of it was looked at: else nothing is missing from it.
    pub(super) is_whole: bool,
    pub(super) division_by_path: Option<&'static str>,
    pub(super) groups: Vec<Group>,
    pub(super) published: Option<Published>,
    pub(super) metadata: Option<Metadata>,
    /// `iostat` in the run's directory, of all its trials.
    pub(super) iostat: Vec<Iostat>,
}

impl Leaf {
    /// The summary's file, and what it has of a group.
    pub(super) fn published_of(&self, group: &Group) -> Option<(&Path, &PublishedOption)> {
        let published = self.published.as_ref()?;
        Some((published.file.as_path(), published.options.get(&group.option?)?))
    }

    pub(super) fn any_command(&self, option: Option<u32>) -> Option<&Recorded> {
        let commands = &self.metadata.as_ref()?.commands;
        commands.iter().find(|command| Some(command.option) == option)
    }

    /// Ranks that each trial of a group should have: as published, else as started, else as many as
    /// the trial with the most.
    pub(super) fn ranks_expected(&self, group: &Group) -> u64 {
        let published =
            self.published_of(group).and_then(|(_, published)| published.count("rank_count"));
        let recorded = || self.any_command(group.option).and_then(|command| command.ranks);
        let seen = || {
            let most = group.trials.values().map(|trial| {
                // A rank whose number is 5 has five before it.
                trial.ranks.keys().next_back().map_or(0, |last| u64::from(*last) + 1)
            });
            most.max().unwrap_or(0)
        };
        published.or_else(recorded).unwrap_or_else(seen)
    }

    /// Machines that the ranks ran on: as published, else as started.
    pub(super) fn hosts(&self, option: Option<u32>) -> Option<f64> {
        let published = self.published.as_ref().and_then(|published| published.host_count);
        published.or_else(|| Some(self.any_command(option)?.hosts? as f64))
    }

    /// `closed`, `open`: as recorded, else by the directories above it.
    pub(super) fn division(&self) -> Option<String> {
        let recorded = self.metadata.as_ref().and_then(|metadata| metadata.mode.clone());
        recorded.or_else(|| self.division_by_path.map(str::to_owned))
    }
}

/// The division of the published layout, `<division>/<organisation>/results/…`.
pub(super) fn division_by_path(path: &Path) -> Option<&'static str> {
    let names: Vec<_> = path.components().map(Component::as_os_str).collect();
    let mut threes = names.windows(3).rev().filter(|three| three[2] == "results");
    threes.find_map(|three| ["closed", "open"].into_iter().find(|division| three[0] == *division))
}
