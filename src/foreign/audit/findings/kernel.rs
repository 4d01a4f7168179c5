//! Results held against what others say of the same drive: the kernel's counters and the drive's
//! specification.

use std::path::Path;

use super::super::finding::{AuditSettings, Finding, Input, Kind, Level};
use super::super::leaf::{Group, Iostat, Leaf};
use super::super::rank::{Rank, value};
use super::super::rates::{Direction, Rate, of_group, of_trial};
use super::{about, percent, shown};

const GIB: f64 = 1_073_741_824.0;
/// Bytes of the unit in which drives are specified.
const MB: f64 = 1e6;
const NOT_COUNTED: &str = "share of the result's bytes that the kernel did not count";
/// Share by which a result may be above the kernel's count: intervals are cut at whole seconds.
const TOLERANCE: f64 = 0.02;

/// More than the specification that was given.
pub(super) fn above_the_drive(
    leaf: &Leaf,
    group: &Group,
    settings: &AuditSettings,
) -> Vec<Finding> {
    let given = [settings.drive_read_mb_per_s, settings.drive_write_mb_per_s];
    let hosts = leaf.hosts(group.option).unwrap_or(1.0);
    let mut found = Vec::new();
    for direction in Direction::ALL {
        let Some(given_mb_per_s) = given[direction.index()] else { continue };
        let Some(rate) = of_group(group, direction) else { continue };
        let spec_gib_per_s = given_mb_per_s * MB / GIB * hosts;
        if rate.reported_gib_per_s <= spec_gib_per_s {
            continue;
        }
        let is_more = |real: Option<f64>| real.is_some_and(|real| real > spec_gib_per_s);
        let over = rate.reported_gib_per_s / spec_gib_per_s - 1.0;
        let mut finding = about(leaf, Some(group), Kind::AboveTheDrive, Level::Finding);
        finding.sentence = format!(
            "{} reports {} GiB/s of {} from {}, {} more than the {} GiB/s that was given for \
             their storage ({given_mb_per_s} MB/s a host). {}",
            group.begin(),
            shown(rate.reported_gib_per_s),
            direction.plural(),
            match hosts {
                1.0 => "one host".to_owned(),
                hosts => format!("{hosts} hosts"),
            },
            percent(over),
            shown(spec_gib_per_s),
            if is_more(rate.at_least_gib_per_s) {
                "That stays so over the time that really passed: a part did not come from there."
            } else if is_more(rate.at_most_gib_per_s) {
                "Over the time that really passed it may or may not be more."
            } else {
                "Over the time that really passed it is not."
            }
        );
        finding.formula = "reported rate ÷ (given MB/s × 10^6 ÷ 2^30 × hosts) − 1".to_owned();
        for (_, rank) in group.ranks() {
            let figure = (direction.gib_per_s(rank), "GiB/s");
            finding.inputs.extend(Input::known(&rank.file, &[figure]));
        }
        let flag = ["--drive-read-mb-s", "--drive-write-mb-s"][direction.index()];
        finding.inputs.push(Input::number(Path::new(""), flag, given_mb_per_s, "MB/s"));
        finding.inputs.push(Input::number(&leaf.path, "hosts", hosts, ""));
        finding.weigh(over, "reported rate over the specification, less one");
        found.push(finding);
    }
    found
}

/// Trials with iostat in their own directory, and results of ours, which hold the kernel's counts.
pub(super) fn of_trials(leaf: &Leaf, group: &Group) -> Vec<Finding> {
    let mut found = Vec::new();
    for (trial, files) in &group.trials {
        let hosts = leaf.hosts(group.option).unwrap_or(1.0);
        let ranks: Vec<&Rank> = files.ranks.values().collect();
        let name = match group.option {
            Some(_) => format!("{}, trial {trial}", group.begin()),
            None => group.begin(),
        };
        // Counters of fewer hosts than ran can't hold all that was moved.
        if !files.iostat.is_empty() && files.iostat.len() as f64 >= hosts && !ranks.is_empty() {
            let rates = Direction::ALL.map(|direction| of_trial(files, direction));
            let held = Held { leaf, group: Some(group), name: &name, ranks: &ranks, rates };
            found.extend(held.against(&files.iostat));
        }
        found.extend(ranks.iter().filter_map(|rank| of_ours(leaf, group, rank)));
    }
    found
}

/// A run whose iostat lies beside all of its trials.
pub(super) fn of_run(leaf: &Leaf) -> Vec<Finding> {
    let hosts = leaf.hosts(leaf.groups.first().and_then(|group| group.option)).unwrap_or(1.0);
    let ranks: Vec<&Rank> = leaf.groups.iter().flat_map(|g| g.ranks().map(|(_, r)| r)).collect();
    if leaf.iostat.is_empty() || (leaf.iostat.len() as f64) < hosts || ranks.is_empty() {
        return Vec::new();
    }
    // Rates of trials that followed each other do not add up; the fastest must be possible.
    let fastest = |direction| {
        let rates = leaf.groups.iter().flat_map(|group| group.trials.values());
        let rates = rates.filter_map(|trial| of_trial(trial, direction));
        rates.max_by(|a, b| a.reported_gib_per_s.total_cmp(&b.reported_gib_per_s))
    };
    let rates = Direction::ALL.map(fastest);
    let single =
        leaf.groups.first().filter(|group| leaf.groups.len() == 1 && group.trials.len() == 1);
    let name = single.map_or_else(|| "The run".to_owned(), Group::begin);
    Held { leaf, group: single, name: &name, ranks: &ranks, rates }.against(&leaf.iostat)
}

/// Results that are held against counters of the same time.
struct Held<'a> {
    leaf: &'a Leaf,
    group: Option<&'a Group>,
    name: &'a str,
    ranks: &'a [&'a Rank],
    rates: [Option<Rate>; 2],
}

impl Held<'_> {
    fn against(&self, all: &[Iostat]) -> Vec<Finding> {
        let mut found = Vec::new();
        for direction in Direction::ALL {
            found.extend(self.more_than_counted(all, direction));
            found.extend(self.more_than_the_peak(all, direction));
        }
        found.extend(self.rate_by_the_kernel(all));
        found
    }

    fn gib(&self, direction: Direction) -> f64 {
        self.ranks.iter().filter_map(|rank| value(direction.gib(rank))).sum()
    }

    /// Bytes of a direction counted by all files, GiB; `None` where a file has no times.
    fn counted_gib(&self, all: &[Iostat], direction: Direction) -> Option<f64> {
        let bytes = all.iter().map(|file| Some(file.counted?.bytes[direction.index()]));
        Some(bytes.sum::<Option<f64>>()? / GIB)
    }

    fn inputs(&self, all: &[Iostat], direction: Direction, key: &str) -> Vec<Input> {
        let mut inputs = Vec::new();
        for rank in self.ranks {
            inputs.extend(Input::known(&rank.file, &[(direction.gib(rank), "GiB")]));
        }
        for file in all {
            inputs.push(Input::text(&file.file, "devices", &file.devices));
            let (number, unit) = match (key, file.counted) {
                ("counted", Some(counted)) => (counted.bytes[direction.index()] / GIB, "GiB"),
                _ => (file.peak_bytes_per_s[direction.index()] / GIB, "GiB/s"),
            };
            let key = format!("{}, {key} over all devices", direction.plural());
            inputs.push(Input::number(&file.file, key, number, unit));
        }
        inputs
    }

    fn more_than_counted(&self, all: &[Iostat], direction: Direction) -> Option<Finding> {
        let (ours, kernel) = (self.gib(direction), self.counted_gib(all, direction)?);
        if ours <= kernel * (1.0 + TOLERANCE) {
            return None;
        }
        let share = (ours - kernel) / ours;
        let mut finding = self.finding(Kind::MoreThanTheKernelCounted, Level::Finding);
        finding.sentence = format!(
            "{}: its results say {} GiB of {}, and iostat beside it counted {} GiB on all devices \
             that it lists. {} of those bytes reached none of them: they came from memory, or from \
             storage that iostat does not see, such as a network file system.",
            self.name,
            shown(ours),
            direction.plural(),
            shown(kernel),
            percent(share)
        );
        finding.formula =
            "1 − bytes by iostat, over all devices and reports, ÷ bytes by the results".to_owned();
        finding.inputs = self.inputs(all, direction, "counted");
        finding.weigh(share, NOT_COUNTED);
        Some(finding)
    }

    /// Where reports have no time, a rate above the fastest of all.
    fn more_than_the_peak(&self, all: &[Iostat], direction: Direction) -> Option<Finding> {
        if all.iter().all(|file| file.counted.is_some()) {
            return None;
        }
        let reported = self.rates[direction.index()]?.reported_gib_per_s;
        let peaks = all.iter().map(|file| file.peak_bytes_per_s[direction.index()]);
        let peak = peaks.sum::<f64>() / GIB;
        if reported <= peak * (1.0 + TOLERANCE) {
            return None;
        }
        let share = (reported - peak) / reported;
        let mut finding = self.finding(Kind::MoreThanTheKernelCounted, Level::Finding);
        finding.sentence = format!(
            "{}: it reports {} GiB/s of {}, and in no interval did iostat beside it see more than \
             {} GiB/s on all devices that it lists together.",
            self.name,
            shown(reported),
            direction.plural(),
            shown(peak)
        );
        finding.formula =
            "1 − highest rate of a report, summed over files, ÷ reported rate".to_owned();
        finding.inputs = self.inputs(all, direction, "highest rate");
        finding.weigh(share, "share of the reported rate above the kernel's highest");
        Some(finding)
    }

    /// The rate that the kernel's counters give: not a bound, as others may have used the drive.
    fn rate_by_the_kernel(&self, all: &[Iostat]) -> Option<Finding> {
        // Several trials have pauses between them.
        let group = self.group?;
        let reported = self.rates[0].filter(|rate| rate.reported_gib_per_s > 0.0)?;
        let kernel = self.counted_gib(all, Direction::Read).filter(|gib| *gib > 0.0)?;
        let active = all.iter().filter_map(|file| file.counted).map(|counted| counted.active_s);
        let active_s = active.fold(0.0, f64::max);
        let rate = kernel / active_s;
        let over = reported.reported_gib_per_s / rate - 1.0;
        let mut finding = self.finding(Kind::RateByTheKernel, Level::Note);
        finding.sentence = format!(
            "{}: iostat beside it counted {} GiB of reads and {} GiB of writes on all devices that \
             it lists, in the {active_s:.0} s in which they moved anything. That is {} GiB/s of \
             reads; what is reported, {} GiB/s, is {} more.",
            self.name,
            shown(kernel),
            shown(self.counted_gib(all, Direction::Write)?),
            shown(rate),
            shown(reported.reported_gib_per_s),
            percent(over)
        );
        finding.formula =
            "reported rate ÷ (bytes read by iostat ÷ time from the first to the last \
                           interval with more than 5 % of the busiest one's bytes) − 1"
                .to_owned();
        finding.inputs = self.inputs(all, Direction::Read, "counted");
        for file in all {
            if let Some(counted) = file.counted {
                let key = "time in which bytes moved";
                finding.inputs.push(Input::number(&file.file, key, counted.active_s, "s"));
            }
        }
        finding.group = Some(group.label.clone());
        finding.result = Some(over);
        Some(finding)
    }

    fn finding(&self, kind: Kind, level: Level) -> Finding {
        about(self.leaf, self.group, kind, level)
    }
}

/// A result of ours, which holds the kernel's counts of its own window.
fn of_ours(leaf: &Leaf, group: &Group, rank: &Rank) -> Option<Finding> {
    let counted = rank.counted?;
    let counts = counted.engine.into_iter().zip(counted.kernel);
    let (direction, (engine, kernel)) = Direction::ALL
        .into_iter()
        .zip(counts)
        .find(|(_, (engine, kernel))| engine.value > kernel.value * (1.0 + TOLERANCE))?;
    let share = (engine.value - kernel.value) / engine.value;
    let mut finding = about(leaf, Some(group), Kind::MoreThanTheKernelCounted, Level::Finding);
    finding.sentence = format!(
        "{}: its results say {} GiB of {}, and the kernel counted {} GiB on the device over the \
         same window. {} of those bytes did not reach the device.",
        group.begin(),
        shown(engine.value / GIB),
        direction.plural(),
        shown(kernel.value / GIB),
        percent(share)
    );
    finding.formula = "1 − bytes by the kernel ÷ bytes by the engine, over the window".to_owned();
    finding.inputs = vec![Input::of(&rank.file, engine, "B"), Input::of(&rank.file, kernel, "B")];
    finding.weigh(share, NOT_COUNTED);
    Some(finding)
}
