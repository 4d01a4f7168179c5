//! Answer of `ringfall quick`: how many users a drive serves, by its limits, a curve simulated from
//! them, and a measured run that confirms it.

mod check;
mod read;
#[cfg(test)]
mod tests;
mod tries;
mod verdict;

pub use check::{Check, CheckFigure};
pub use tries::{missed_from_s, users_between};

use std::collections::BTreeSet;

use ringfall_config::ServedRule;
use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;
use ringfall_host::{Machine, escape, human_time};
use ringfall_model::Document;
use serde::{Deserialize, Serialize};

/// Layout of the file.
pub const QUICK_VERSION: u32 = 1;
/// Deviation of the measured bandwidth from the predicted one, and of a probe from the limit, up to
/// which the curve is confirmed.
pub const CONFIRMED_TO: f64 = 0.15;

/// Longest time that an answer may take, s.
pub const QUICK_TIME_S_MAX: u64 = 600;
/// Shortest run that checks an answer, s.
pub const CHECK_S_MIN: u64 = 300;
/// Smallest number of loads whose P95 is told, and by which a check is judged: the P95 of fewer is
/// their largest.
pub const LOADS_MIN: u64 = 20;
/// Loads that a measured run and its check are to have, some more than are needed to judge it.
pub const LOADS_WANTED: u64 = LOADS_MIN * 5 / 4;
/// Smallest number of loads by whose average a run is judged beside the same loads simulated.
pub const AVERAGE_LOADS_MIN: u64 = 10;
/// Number of turns from which on the share found is told in percent, and a run is judged by it: of
/// fewer, a single one is more than a percent.
pub const TURNS_MIN: u64 = 100;
/// Ratio of the measured mean load to the predicted one from which on, or inverted up to which, the
/// prediction is doubted.
const LOADS_APART: f64 = 1.5;

/// Whether so many of the earlier turns are enough, in whole percent: a share of 69.97 % that reads
/// as the target meets it.
pub fn is_reuse_enough(share: f64, target: f64) -> bool {
    (share * 100.0).round() >= (target * 100.0).round()
}

/// Part of the misses that the rule allows by which two windows of one load differ.
const REUSE_MARGIN: f64 = 0.05;

/// Whether so many users of the table find enough of the earlier turns in the window of a check,
/// too. A single user is judged by the rule itself, as there is nobody to leave out.
pub fn is_reuse_sure(point: &QuickPoint, target: f64) -> bool {
    let margin = if point.users > 1 { (1.0 - target) * REUSE_MARGIN } else { 0.0 };
    point.reuse_share.is_none_or(|share| is_reuse_enough(share, target + margin))
}

/// Whether a load P95 is as short as it has to be, to half a percent of the target, which is less
/// than two measurements of one drive differ by.
pub fn is_load_quick(load_s: f64, target_s: f64) -> bool {
    (load_s / target_s * 100.0).round() <= 100.0
}

/// Figures of one number of users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct QuickPoint {
    /// Number of simulated or real users.
    pub users: u32,
    /// Bandwidth of reads and writes together, GiB/s.
    pub gib_per_s: f64,
    /// P50 of the time in which a request loads what was there before it, s; null without loads.
    pub load_p50_s: Option<f64>,
    /// P95 of the same, s.
    pub load_p95_s: Option<f64>,
    /// Mean of the same, s; null without loads, and in answers that do not have it.
    pub load_mean_s: Option<f64>,
    /// Number of loads that these percentiles are of.
    pub loads: u64,
    /// P95 of all reads and writes of a request together, s; null without requests.
    pub kv_io_p95_s: Option<f64>,
    /// Share of the time in which the drive was busy; null where it was not known.
    pub drive_busy_share: Option<f64>,
    /// Share of earlier turns that were found when they were looked for; null where none was.
    pub reuse_share: Option<f64>,
    /// Number of earlier turns that were looked for; null in answers that do not have it.
    pub earlier_turns: Option<u64>,
    /// Whether users asked again at once, without an answer being generated: so a short run of few
    /// users brings enough loads to be judged by.
    #[serde(default)]
    pub is_without_pauses: bool,
}

impl QuickPoint {
    /// Figures of a run's result; those that it lacks are 0 or none.
    pub fn of(document: &Document) -> QuickPoint {
        let ours = &document.ringfall;
        let bytes = |bytes: Option<u64>| bytes.unwrap_or(0);
        let moved_bytes =
            bytes(ours.io.read.bytes.known()).saturating_add(bytes(ours.io.write.bytes.known()));
        let seconds = ours.window.seconds.known().unwrap_or(0.0);
        let histogram = |name: &str| ours.histograms.decoded(name).unwrap_or_default();
        let turns = &document.summary.multi_turn_stats;
        let load = histogram("context_load");
        QuickPoint {
            users: ours.config.as_ref().and_then(|config| config.num_users).unwrap_or(0),
            gib_per_s: if seconds > 0.0 { gib(moved_bytes) / seconds } else { 0.0 },
            load_p50_s: quantile_s(&load, 0.5),
            load_p95_s: quantile_s(&load, 0.95),
            load_mean_s: load.mean_ns().map(|ns| ns / 1e9),
            loads: load.count(),
            kv_io_p95_s: quantile_s(&histogram("storage_io"), 0.95),
            drive_busy_share: ours
                .simulation
                .as_ref()
                .and_then(|simulation| simulation.drive_busy_share.known()),
            reuse_share: ours.cache.multi_turn_hit_rate.known(),
            earlier_turns: turns
                .cache_hits
                .known()
                .zip(turns.cache_misses.known())
                .map(|(found, missed)| found.saturating_add(missed)),
            is_without_pauses: false,
        }
    }
}

fn quantile_s(histogram: &Histogram, quantile: f64) -> Option<f64> {
    histogram.quantile_ns(quantile).map(|ns| ns as f64 / 1e9)
}

/// Run on the drive beside the same one simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct QuickTry {
    /// Figures of the run on the drive.
    pub measured: QuickPoint,
    /// The same run simulated, at the speed of the curve.
    pub predicted: QuickPoint,
}

/// The drive's highest bandwidths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct QuickLimits {
    /// Highest bandwidth of reads alone, GiB/s.
    pub read_gib_per_s: f64,
    /// Highest bandwidth of writes alone, GiB/s.
    pub write_gib_per_s: f64,
    /// Highest bandwidth of as many reads as writes, both together, GiB/s; null in answers that do
    /// not have it.
    pub mixed_gib_per_s: Option<f64>,
}

/// Largest number of users that meets a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Served {
    /// That number; 0: not even one user.
    pub users: u32,
    /// Whether more were not tried, so that it may be more.
    pub is_largest_tried: bool,
}

/// Outcome of `ringfall quick`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct QuickReport {
    /// 1; also tells such a file from others.
    pub ringfall_quick: u32,
    /// Version of ringfall that wrote the file.
    pub version: String,
    /// Directory that was measured.
    pub place: String,
    /// Drive below it, as its description says.
    pub drive: String,
    /// Name of the host; null in answers that do not have it.
    pub host: Option<String>,
    /// That machine, and the storage below the directory; null in answers that do not have it.
    pub machine: Option<Machine>,
    /// Start of the measurement, s since 1970-01-01T00:00:00Z.
    pub start_unix_s: f64,
    /// Name of the model.
    pub model: String,
    /// Random seed of all runs.
    pub seed: u64,
    /// Largest P95 of loading a context with which users count as served, s.
    pub load_p95_s: f64,
    /// Smallest share of earlier turns found with which users count as served, 0 to 1. Several
    /// users count by simulation only from a share above it by 5 % of the misses that it allows
    /// (0.715 for 0.7), as two windows of one load differ by as much.
    pub reuse_share: f64,
    /// Space of the measured run, and of the simulated ones that tell reuse, GiB.
    pub space_gib: f64,
    /// Mean size of a user's turn, GiB.
    pub turn_gib: f64,
    /// Size of the largest entry, GiB; null in answers that do not have it.
    pub entry_gib_max: Option<f64>,
    /// Time that the answer was to take, s; null in answers that do not have it.
    pub time_s: Option<u64>,
    /// Time in which a run of the answer has enough loads and finished requests to be judged, by
    /// simulation, s; null in answers that do not have it.
    pub check_s: Option<u64>,
    /// Figures of the check, by simulation of the same run in the same space; null in answers that
    /// do not have it.
    pub check_predicted: Option<QuickPoint>,
    /// The same on drives that are a little quicker or slower, 0.02 to 0.08 %: how far apart the
    /// figures of one load on one drive lie by chance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_repeated: Vec<QuickPoint>,
    /// The drive's highest bandwidths.
    pub limits: QuickLimits,
    /// Doubt about the limits, as the search for them has told; null without any.
    pub doubt: Option<String>,
    /// Deviation of the search's fastest or slowest probe from the limit, as a share of that; null
    /// where the limits did not vary.
    pub limits_deviation: Option<f64>,
    /// Speed of the simulated drive as a multiple of these limits: the one at which loads take as
    /// long as they did in the runs on the drive, 1 where these tell nothing; null in answers that
    /// do not have it, whose verdict stays.
    pub speed: Option<f64>,
    /// Numbers of users in rising order: simulated on a drive of that speed with as much space as
    /// they take, but for `reuse_share`, which is what is found in `space_gib`.
    pub curve: Vec<QuickPoint>,
    /// Users that the drive's speed serves by simulation, given space for them.
    pub served_by_speed: Served,
    /// Users whose turns `space_gib` keeps, by simulation, with the margin of `reuse_share`.
    pub served_by_space: Served,
    /// Runs on the drive before the last one, in `space_gib` and in their order: each showed a
    /// speed at which another number of users is served, which was run next. Answers that do not
    /// have it had none; older ones have it as `larger`.
    #[serde(default, alias = "larger")]
    pub earlier: Vec<QuickTry>,
    /// Last run on the drive, in `space_gib`.
    pub measured: QuickPoint,
    /// The same run simulated, at the speed of the curve.
    pub predicted: QuickPoint,
    /// Bytes that the kernel counted on the drive during the measured run, as a share of those that
    /// ringfall moved; null where it has no counter.
    pub kernel_share: Option<f64>,
    /// Arguments of `ringfall` for the measured run, but for its warm-up, window and output.
    pub run: Vec<String>,
    /// Warnings that concern the drive: of a directory made on the system's own disk, of the last
    /// run of as many users as the answer rests on, and of the space of the runs where the disk or
    /// the drive made it less than by choice.
    pub notes: Vec<String>,
    /// Answer in a sentence, which begins with `no verdict` or `not confirmed` where it can't be
    /// relied on.
    pub verdict: String,
    /// Users that the verdict names, 0 for not even one; null where there is no verdict, and in
    /// answers that do not have it.
    pub users: Option<u32>,
}

impl QuickReport {
    /// The report with its verdict, and the users that this names.
    #[must_use]
    pub fn judged(self) -> QuickReport {
        QuickReport { verdict: self.judge(), users: self.answer(), ..self }
    }

    /// Users that are served in that space by simulation, by speed and by space.
    pub fn served(&self) -> Served {
        let (speed, space) = (self.served_by_speed, self.served_by_space);
        if space.users < speed.users { space } else { speed }
    }

    /// Whether both answers are for one drive of one host; false where either does not say.
    pub fn is_of_one_drive(&self, other: &QuickReport) -> bool {
        let (Some(one), Some(two)) = (&self.machine, &other.machine) else { return false };
        is_one_disk(one, two) && self.host.is_some() && self.host == other.host
    }

    /// Limits of cgroups under which the answers were measured, where they differ, each with its
    /// place; none where they are alike. A drive under a limit is another system.
    pub fn limited_unlike(&self, other: &QuickReport) -> Option<String> {
        let [own, others] = [self, other]
            .map(|one| one.machine.as_ref().map(limits_of_cgroups).unwrap_or_default());
        if own == others {
            return None;
        }
        let told = |one: &QuickReport| {
            let machine = one.machine.as_ref()?;
            let limits = machine.throttled(&machine.throttles)?;
            Some(format!("{}: {limits}", one.place))
        };
        let told: Vec<String> = [self, other].into_iter().filter_map(told).collect();
        Some(told.join("; "))
    }

    /// The report with a place that tells it from another: the one that was given, unless the other
    /// has it too, or else the whole path, with the host where that is alike too, or a number.
    pub fn told_from(&self, other: &QuickReport, number: u32) -> QuickReport {
        let mut names = self.names().into_iter().zip(other.names());
        let apart = names.find_map(|(own, other)| {
            let (own, other) = (own?, other?);
            (own != other).then_some(own)
        });
        let place = apart.unwrap_or_else(|| format!("{} ({number})", self.place));
        let mut told = QuickReport { place, ..self.clone() };
        // From another directory the one that was given may be another.
        let path = self.machine.as_ref().and_then(|machine| machine.cache_dir.clone());
        if self.place == other.place
            && let (Some(given), Some(path)) = (told.run.get_mut(1), path)
        {
            *given = path;
        }
        told
    }

    /// Names of the place, each of which tells more places apart than the one before.
    fn names(&self) -> [Option<String>; 3] {
        let path = self.machine.as_ref().and_then(|machine| machine.cache_dir.clone());
        let on_host = self.host.as_ref().zip(path.as_ref());
        let on_host = on_host.map(|(host, path)| format!("{host}:{path}"));
        [Some(self.place.clone()), path, on_host]
    }

    /// Command that measures the answer for as long as it takes to be judged, its result in
    /// `output`.
    pub fn check_line(&self, output: &str) -> String {
        self.run_line_of(self.checked_users(), self.space_gib, self.check_minutes(), output)
    }

    /// Users that the check puts on the drive: those of the verdict, or of the simulation where
    /// there is none, and one where nobody is served.
    pub fn checked_users(&self) -> u32 {
        self.answer().unwrap_or(self.served().users).max(1)
    }

    /// Length of the check, min.
    pub fn check_minutes(&self) -> u64 {
        self.check_s.unwrap_or(0).max(CHECK_S_MIN).div_ceil(60)
    }

    /// Command that puts so many users in so much space on this drive for so many minutes, with its
    /// progress on the terminal, and writes its result to `output`: `compare` tells what it says.
    pub fn run_line_of(&self, users: u32, space_gib: f64, minutes: u64, output: &str) -> String {
        let is_left_out = |word: &&str| {
            word.starts_with(USERS_FLAG)
                || word.starts_with(SPACE_FLAG)
                || RUN_DEFAULTS.contains(word)
        };
        let words = self.run.iter().map(String::as_str).filter(|word| !is_left_out(word));
        let own = [
            format!("{USERS_FLAG}{users}"),
            space_flag(space_gib),
            format!("--duration={minutes}m"),
            format!("--output={output}"),
        ];
        let words: Vec<_> =
            words.chain(own.iter().map(String::as_str)).map(escape::shell).collect();
        format!("ringfall {}", words.join(" "))
    }

    /// Rule that the report was made by.
    pub fn served_rule(&self) -> ServedRule {
        ServedRule { load_p95_s: self.load_p95_s, reuse_share: self.reuse_share }
    }

    /// The rule in words.
    pub fn rule(&self) -> String {
        format!(
            "load P95 at most {}, {:.0} % of earlier turns found",
            time(self.load_p95_s),
            self.reuse_share * 100.0
        )
    }
}

/// Whether the data of both lies on one disk, where both machines are the same.
fn is_one_disk(one: &Machine, two: &Machine) -> bool {
    let disk = |machine: &Machine| {
        let device = machine.device.as_ref()?;
        Some((device.model.clone(), device.size_bytes))
    };
    match (&one.device_chain[..], &two.device_chain[..]) {
        // No device is known: a network file system, or one of a container.
        ([], []) => one.mount == two.mount && one.cache_dir == two.cache_dir,
        (above, others) => above == others && disk(one) == disk(two),
    }
}

/// Limits of cgroups on the drive of a machine, whatever the cgroups are called.
fn limits_of_cgroups(machine: &Machine) -> BTreeSet<(&str, &str)> {
    let limits = machine.throttles.iter();
    limits.map(|throttle| (&*throttle.numbers, &*throttle.limit)).collect()
}

/// Sentence on others that used the drive, where the kernel counted such a share of the bytes that
/// ringfall moved; none where they moved little, or it is not known.
pub fn others_used(kernel_share: Option<f64>) -> Option<String> {
    let share = kernel_share.filter(|share| share - 1.0 > CONFIRMED_TO)?;
    Some(format!(
        "others used the drive (the kernel counted {:.0} % of what ringfall moved)",
        share * 100.0
    ))
}

/// Flags of the measured run that `ringfall run` with a directory has without them.
pub const RUN_DEFAULTS: [&str; 4] =
    ["--seed=42", "--cpu-mem-gb=0", "--arrival=closed", "--generation-mode=realistic"];
/// Flag of the number of users in the command of the measured run, up to its value.
pub const USERS_FLAG: &str = "--num-users=";
/// Flag of the space in the command of the measured run, up to its value.
pub const SPACE_FLAG: &str = "--storage-capacity-gb=";

/// Flag that gives a run so much space, in whole GiB or else in whole MiB.
pub fn space_flag(space_gib: f64) -> String {
    match space_gib.fract() == 0.0 {
        true => format!("{SPACE_FLAG}{space_gib}GiB"),
        false => format!("{SPACE_FLAG}{:.0}MiB", (space_gib * 1024.0).floor()),
    }
}

/// A time with its unit.
fn time(seconds: f64) -> String {
    human_time(seconds * 1e3)
}
