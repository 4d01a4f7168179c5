//! Answer of `ringfall quick`: how many users a drive serves, by its limits, a curve simulated from
//! them, and a measured run that confirms it.

mod check;
mod verdict;

pub use check::Check;

use std::collections::BTreeSet;
use std::path::Path;

use ringfall_config::ServedRule;
use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;
use ringfall_host::{Machine, escape, human_time};
use ringfall_model::document::{FileProblem, read_bytes};
use ringfall_model::{Document, RunResult};
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
/// Smallest number of loads by whose average a run is judged beside the same loads simulated.
pub const AVERAGE_LOADS_MIN: u64 = 10;
/// Number of turns from which on the share found is told in percent, and a run is judged by it: of
/// fewer, a single one is more than a percent.
pub const TURNS_MIN: u64 = 100;
/// Ratio of the measured mean load to the predicted one from which on it is told.
const LOADS_APART: f64 = 1.5;

/// Whether so many of the earlier turns are enough, in whole percent: a share of 69.97 % that reads
/// as the target meets it.
#[must_use]
pub fn is_reuse_enough(share: f64, target: f64) -> bool {
    (share * 100.0).round() >= (target * 100.0).round()
}

/// Part of the misses that the rule allows by which two windows of one load differ.
const REUSE_MARGIN: f64 = 0.05;

/// Whether so many users of the table find enough of the earlier turns in the window of a check,
/// too. A single user is judged by the rule itself, as there is nobody to leave out.
#[must_use]
pub fn is_reuse_sure(point: &QuickPoint, target: f64) -> bool {
    let margin = if point.users > 1 { (1.0 - target) * REUSE_MARGIN } else { 0.0 };
    point.reuse_share.is_none_or(|share| is_reuse_enough(share, target + margin))
}

/// Whether a load P95 is as short as it has to be, to half a percent of the target, which is less
/// than two measurements of one drive differ by.
#[must_use]
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
    /// Figures of a run.
    #[must_use]
    pub fn of(result: &RunResult) -> QuickPoint {
        let (requests, cache) = (&result.requests, &result.cache);
        let engine = &result.engine;
        let bytes = engine.io_read.bytes.saturating_add(engine.io_write.bytes);
        let seconds = result.window.seconds;
        let point = QuickPoint {
            users: result.plan.users,
            gib_per_s: if seconds > 0.0 { gib(bytes) / seconds } else { 0.0 },
            kv_io_p95_s: quantile_s(&requests.storage_io, 0.95),
            drive_busy_share: result
                .simulation
                .as_ref()
                .and_then(|simulation| simulation.drive_busy_share.known()),
            reuse_share: cache.reuse_share(),
            earlier_turns: Some(cache.multi_turn_hits + cache.multi_turn_misses),
            ..QuickPoint::default()
        };
        point.with_loads(&requests.load)
    }

    /// Figures of a run's result; those that it lacks are 0 or none.
    #[must_use]
    pub fn of_document(document: &Document) -> QuickPoint {
        let ours = &document.ringfall;
        let bytes = |bytes: Option<u64>| bytes.unwrap_or(0);
        let moved_bytes =
            bytes(ours.io.read.bytes.known()).saturating_add(bytes(ours.io.write.bytes.known()));
        let seconds = ours.window.seconds.known().unwrap_or(0.0);
        let histogram = |name: &str| ours.histograms.decoded(name).unwrap_or_default();
        let turns = &document.summary.multi_turn_stats;
        let point = QuickPoint {
            users: ours.config.as_ref().and_then(|config| config.num_users).unwrap_or(0),
            gib_per_s: if seconds > 0.0 { gib(moved_bytes) / seconds } else { 0.0 },
            kv_io_p95_s: quantile_s(&histogram("storage_io"), 0.95),
            reuse_share: ours.cache.multi_turn_hit_rate.known(),
            earlier_turns: turns
                .cache_hits
                .known()
                .zip(turns.cache_misses.known())
                .map(|(found, missed)| found + missed),
            ..QuickPoint::default()
        };
        point.with_loads(&histogram("context_load"))
    }

    fn with_loads(self, load: &Histogram) -> QuickPoint {
        QuickPoint {
            load_p50_s: quantile_s(load, 0.5),
            load_p95_s: quantile_s(load, 0.95),
            load_mean_s: load.mean_ns().map(|ns| ns / 1e9),
            loads: load.count(),
            ..self
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
    /// The same run simulated.
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
    /// The drive's highest bandwidths.
    pub limits: QuickLimits,
    /// Doubt about the limits, as the search for them has told; null without any.
    pub doubt: Option<String>,
    /// Deviation of the search's fastest or slowest probe from the limit, as a share of that; null
    /// where the limits did not vary.
    pub limits_deviation: Option<f64>,
    /// Users that are served by simulation where the speeds of deviating probes replace the limits;
    /// null where no probe deviates by more than 15 %, and in answers that do not have it. The
    /// smaller number is tried on the drive.
    pub users_by_probes: Option<u32>,
    /// Numbers of users in rising order: simulated on a drive of these limits with as much space as
    /// they take, but for `reuse_share`, which is what is found in `space_gib`.
    pub curve: Vec<QuickPoint>,
    /// Users that the drive's speed serves by simulation, given space for them.
    pub served_by_speed: Served,
    /// Users whose turns `space_gib` keeps, by simulation, with the margin of `reuse_share`.
    pub served_by_space: Served,
    /// Runs of more users in `space_gib`, in the order in which they were made: each missed the
    /// rule, and fewer users were tried next. Answers that do not have it had none.
    #[serde(default)]
    pub larger: Vec<QuickTry>,
    /// Last run on the drive, in `space_gib`.
    pub measured: QuickPoint,
    /// The same run simulated.
    pub predicted: QuickPoint,
    /// Bytes that the kernel counted on the drive during the measured run, as a share of those that
    /// ringfall moved; null where it has no counter.
    pub kernel_share: Option<f64>,
    /// Arguments of `ringfall` for the measured run, but for its warm-up, window and output.
    pub run: Vec<String>,
    /// Warnings that concern the drive: of a directory made on the system's own disk, of the
    /// measured run, and of its space where the disk or the drive made it less than by choice.
    pub notes: Vec<String>,
    /// Answer in a sentence, which begins with `no verdict` or `not confirmed` where it can't be
    /// relied on.
    pub verdict: String,
    /// Users that the verdict names, 0 for not even one: fewer than by simulation where a run
    /// missed the rule, null where there is no verdict, and in answers that do not have it.
    pub users: Option<u32>,
}

impl QuickReport {
    /// Reads a report.
    ///
    /// # Errors
    /// The file can't be read, or is none of this version.
    pub fn read(path: &Path) -> Result<QuickReport, FileProblem> {
        let bytes = read_bytes(path).map_err(|what| FileProblem::new(path, what))?;
        let report: QuickReport = serde_json::from_slice(&bytes).map_err(|error| {
            FileProblem::new(path, format!("this is no answer of `ringfall quick`: {error}"))
        })?;
        match report.ringfall_quick {
            // By the rules of this version.
            QUICK_VERSION => Ok(report.judged()),
            other => {
                let what = format!("this answer has version {other}, and {QUICK_VERSION} is known");
                Err(FileProblem::new(path, what))
            }
        }
    }

    /// Whether a file is such a report. A pipe can be read but once, and is taken for none.
    #[must_use]
    pub fn is_in(path: &Path) -> bool {
        #[derive(Deserialize)]
        struct Mark {
            ringfall_quick: Option<u32>,
        }
        let bytes = path.is_file().then(|| read_bytes(path).ok()).flatten();
        let mark = bytes.and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok());
        mark.is_some_and(|mark| mark.ringfall_quick.is_some())
    }

    /// The report with its verdict, and the users that this names.
    #[must_use]
    pub fn judged(self) -> QuickReport {
        QuickReport { verdict: self.judge(), users: self.answer(), ..self }
    }

    /// Users that are served in that space by simulation, by speed and by space.
    #[must_use]
    pub fn served(&self) -> Served {
        let (speed, space) = (self.served_by_speed, self.served_by_space);
        if space.users < speed.users { space } else { speed }
    }

    /// Whether both answers are for one drive of one host; false where either does not say.
    #[must_use]
    pub fn is_of_one_drive(&self, other: &QuickReport) -> bool {
        let (Some(one), Some(two)) = (&self.machine, &other.machine) else { return false };
        is_one_disk(one, two) && self.host.is_some() && self.host == other.host
    }

    /// Limits of cgroups under which the answers were measured, where they differ, each with its
    /// place; none where they are alike. A drive under a limit is another system.
    #[must_use]
    pub fn limited_unlike(&self, other: &QuickReport) -> Option<String> {
        let [own, others] = [self, other]
            .map(|one| one.machine.as_ref().map(limits_of_cgroups).unwrap_or_default());
        if own == others {
            return None;
        }
        let told = |one: &QuickReport| {
            let limits = one.machine.as_ref()?.throttled()?;
            Some(format!("{}: {limits}", one.place))
        };
        let told: Vec<String> = [self, other].into_iter().filter_map(told).collect();
        Some(told.join("; "))
    }

    /// The report with a place that tells it from another: the one that was given, unless the other
    /// has it too, or else the whole path, with the host where that is alike too, or a number.
    #[must_use]
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

    /// Deviation of the measured bandwidth from the predicted one, as a share of that; none where
    /// either moved nothing, and where users did not pause: then it is that of the loads.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let (is, was) = (self.measured.gib_per_s, self.predicted.gib_per_s);
        let is_own = !self.measured.is_without_pauses;
        (is_own && is > 0.0 && was > 0.0).then(|| is / was - 1.0)
    }

    /// Whether the measured run moved the bandwidth of the simulated one.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.deviation().is_some_and(|deviation| deviation.abs() <= CONFIRMED_TO)
    }

    /// Command that measures the answer for as long as it takes to be judged, its result in
    /// `output`.
    #[must_use]
    pub fn check_line(&self, output: &str) -> String {
        let users = self.checked_users();
        self.run_line_of(users, self.space_gib, self.check_minutes(users), output)
    }

    /// Users that the check puts on the drive: those of the verdict, or of the simulation where
    /// there is none, and one where nobody is served.
    #[must_use]
    pub fn checked_users(&self) -> u32 {
        self.answer().unwrap_or(self.served().users).max(1)
    }

    /// Length of a run that checks so many users, min: fewer of them load less often.
    #[must_use]
    pub fn check_minutes(&self, users: u32) -> u64 {
        let own_s = self.check_s.unwrap_or(0) * u64::from(self.checked_users());
        own_s.div_ceil(60 * u64::from(users.max(1))).max(CHECK_S_MIN / 60)
    }

    /// Command that puts so many users in so much space on this drive for so many minutes, with its
    /// progress on the terminal, and writes its result to `output`: `compare` tells what it says.
    #[must_use]
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
    #[must_use]
    pub fn served_rule(&self) -> ServedRule {
        ServedRule { load_p95_s: self.load_p95_s, reuse_share: self.reuse_share }
    }

    /// The rule in words.
    #[must_use]
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
fn others_used(kernel_share: Option<f64>) -> Option<String> {
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
#[must_use]
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

#[cfg(test)]
mod tests {
    use ringfall_host::ChainLink;
    use ringfall_host::survey::Throttle;

    use super::*;
    use crate::show;

    fn served(users: u32) -> Served {
        Served { users, is_largest_tried: false }
    }

    /// A machine with a directory on such a device.
    pub(super) fn machine(directory: &str, device: &str, kind: &str) -> Machine {
        let link = ChainLink {
            name: device.to_owned(),
            numbers: String::new(),
            kind: kind.to_owned(),
            above: None,
        };
        Machine {
            cache_dir: Some(directory.to_owned()),
            device_chain: vec![link],
            ..Machine::default()
        }
    }

    pub(super) fn report(speed: u32, space: u32) -> QuickReport {
        let point = |users: u32| QuickPoint {
            users,
            gib_per_s: f64::from(users) / 2.0,
            load_p50_s: Some(0.1 * f64::from(users)),
            load_mean_s: None,
            load_p95_s: Some(0.25 * f64::from(users)),
            loads: 100,
            kv_io_p95_s: Some(0.5 * f64::from(users)),
            drive_busy_share: Some(0.1),
            reuse_share: Some(1.0 - f64::from(users) / 20.0),
            earlier_turns: Some(100),
            is_without_pauses: false,
        };
        let curve: Vec<QuickPoint> = [1, 2, 4, 8].map(point).into();
        let report = QuickReport {
            ringfall_quick: QUICK_VERSION,
            version: "0".to_owned(),
            place: "/mnt/kv".to_owned(),
            drive: "nvme0n1".to_owned(),
            host: Some("node1".to_owned()),
            machine: Some(machine("/mnt/kv", "nvme0n1", "disk")),
            start_unix_s: 0.0,
            model: "llama3.1-8b".to_owned(),
            seed: 42,
            load_p95_s: 1.0,
            reuse_share: 0.7,
            space_gib: 6.0,
            turn_gib: 0.7,
            entry_gib_max: Some(2.4),
            time_s: Some(60),
            check_s: Some(120),
            check_predicted: Some(curve[2].clone()),
            limits: QuickLimits {
                read_gib_per_s: 3.0,
                write_gib_per_s: 2.0,
                mixed_gib_per_s: Some(2.5),
            },
            doubt: None,
            limits_deviation: None,
            users_by_probes: None,
            measured: curve[2].clone(),
            predicted: curve[2].clone(),
            kernel_share: Some(1.0),
            curve,
            larger: Vec::new(),
            served_by_speed: served(speed),
            served_by_space: served(space),
            run: vec!["run".to_owned(), "/mnt/kv".to_owned()],
            notes: Vec::new(),
            verdict: String::new(),
            users: None,
        };
        report.judged()
    }

    fn page_of(report: &QuickReport) -> String {
        show::quick_page(report, None, Path::new("results/one.json"))
    }

    #[test]
    fn a_run_that_moved_another_bandwidth_than_predicted_confirms_nothing() {
        let mut report = report(4, 4);
        assert!(report.is_confirmed());
        report.measured.gib_per_s *= 0.8;
        assert!(!report.is_confirmed());
        report.measured.gib_per_s = 0.0;
        assert!(!report.is_confirmed() && report.deviation().is_none());
        report.predicted.load_p95_s = Some(0.1);
        report.curve[2].load_p95_s = Some(0.1);
        report.measured = QuickPoint { load_p95_s: Some(0.9), ..report.predicted.clone() };
        assert!(
            report.doubts()[0].contains("9.0 times as long as simulated"),
            "{:?}",
            report.doubts()
        );
        assert!(show::beside_page(&report, &report).contains("9.0 times as long as simulated"));
        assert!(is_reuse_enough(0.6997, 0.7) && !is_reuse_enough(0.694, 0.7));
        assert!(is_load_quick(1.004, 1.0) && !is_load_quick(1.006, 1.0));
    }

    #[test]
    fn an_answer_without_the_newer_keys_is_read() {
        let mut old = serde_json::to_value(report(4, 4)).unwrap();
        let newer =
            ["entry_gib_max", "time_s", "limits_deviation", "kernel_share", "host", "machine"];
        for key in newer.into_iter().chain([
            "check_s",
            "check_predicted",
            "users",
            "users_by_probes",
            "larger",
        ]) {
            assert!(old.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
        let old: QuickReport = serde_json::from_value(old).unwrap();
        assert!(old.judge().starts_with("good for 4 users"), "{}", old.judge());
    }

    /// The verdict said 4 users at most, and the table, the comparison, the JSON and the check 5.
    #[test]
    fn one_number_of_users_is_named_everywhere() {
        let mut missed = report(4, 4);
        missed.run.push(format!("{USERS_FLAG}4"));
        missed.measured.load_p95_s = Some(1.89);
        let missed = missed.judged();
        assert!(
            missed.verdict.starts_with("good for 2 users, load P95 945 ms: on"),
            "{}",
            missed.verdict
        );
        assert_eq!((missed.users, missed.served().users), (Some(2), 4));
        let page = show::quick_page(&missed, None, Path::new("one.json"));
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "/mnt/kv --num-users=2",
            "100 400 ms 1.89 s 10.0 % 80.0 % run, missed",
            "100 400 ms 1.00 s 10.0 % 80.0 % run simulated",
            "80.0 % check simulated",
            "missed: in a run on the drive; <-: the answer.",
            "then ringfall compare one.json one-check.json",
        ] {
            assert!(words.contains(part), "{part}: {page}");
        }
        let row = |page: &str, name: &str| {
            let row = page.lines().find(|line| line.trim_start().starts_with(name));
            row.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let page = show::beside_page(&missed, &report(4, 4));
        assert!(row(&page, "users served").starts_with("users served 2 4"), "{page}");
        let mut unknown = report(4, 4);
        unknown.kernel_share = Some(2.0);
        let page = show::beside_page(&unknown, &missed);
        assert!(row(&page, "users served").starts_with("users served – 2"), "{page}");
        assert_eq!(unknown.judged().users, None);
    }

    /// Five minutes on a slow drive brought 15 loads, and no verdict.
    #[test]
    fn a_check_takes_as_long_as_it_needs_to_be_judged() {
        let mut report = report(4, 4);
        assert!(
            report.check_line("c.json").contains("--duration=5m "),
            "{}",
            report.check_line("c.json")
        );
        report.check_s = Some(500);
        assert!(
            report.check_line("c.json").contains("--duration=9m "),
            "{}",
            report.check_line("c.json")
        );
        assert_eq!(report.check_minutes(2), 17);
        let mut other = report.clone();
        other.check_s = None;
        let page = show::beside_page(&report, &other);
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("--duration=9m").count(), 2, "{page}");
    }

    /// The check was silent for all of its minutes.
    #[test]
    fn a_check_of_minutes_shows_its_progress() {
        let line = report(4, 4).check_line("c.json");
        assert!(line.ends_with("--duration=5m --output=c.json"), "{line}");
    }

    #[test]
    fn a_space_is_printed_in_whole_units() {
        assert_eq!(space_flag(6.0), "--storage-capacity-gb=6GiB");
        assert_eq!(space_flag(3.815_429_687_5), "--storage-capacity-gb=3907MiB");
    }

    #[test]
    fn two_drives_stand_side_by_side_and_what_differs_between_the_runs_is_told() {
        let (first, mut other) = (report(4, 4), report(2, 4));
        other.place = "/mnt/slow".to_owned();
        other.machine = Some(machine("/mnt/slow", "sda", "disk"));
        other.run[1] = other.place.clone();
        other.curve.iter_mut().for_each(|point| {
            point.load_p95_s = point.load_p95_s.map(|load| load * 2.0);
        });
        let page = show::beside_page(&first, &other);
        assert!(page.contains("/mnt/kv") && page.contains("/mnt/slow"), "{page}");
        let users = page.lines().find(|line| line.contains("users served")).unwrap();
        assert!(users.contains("0.50"), "{users}");
        assert!(!page.contains("differ"), "{page}");
        assert!(page.contains("load P95 of 2 users"), "{page}");
        assert!(
            page.contains("/mnt/kv serves 4 users within the rule, and /mnt/slow 2;"),
            "{page}"
        );
        for place in ["/mnt/kv", "/mnt/slow"] {
            let check = format!("ringfall run {place} --num-users=2 --storage-capacity-gb=6GiB");
            assert!(page.contains(&check), "{page}");
        }
        let small = QuickReport { space_gib: 3.8, ..report(2, 8) };
        let page = show::beside_page(&report(4, 8), &small);

        assert!(page.contains("Space differs (6.0 and 3.8 GiB): it bears on turns"), "{page}");
        other.seed = 7;
        let page = show::beside_page(&first, &other);
        assert!(page.trim_start().starts_with("The two differ in their seeds"), "{page}");
        let ratio_of =
            |name: &str| page.lines().find(|line| line.contains(name)).unwrap().contains('×');
        assert!(ratio_of("reads") && !ratio_of("users served"), "{page}");
        let page = show::beside_page(&first, &first);
        assert!(page.contains("Both answers are for one drive (nvme0n1 of node1)"), "{page}");
        // Of the rule alone.
        other = QuickReport { seed: 42, load_p95_s: 3.0, ..other };
        let page = show::beside_page(&first, &other);
        let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("give the second the --slo of the first"), "{page}");
    }

    /// "Serves 0 users", of a drive that no run had ruled 1 or 2 out for.
    #[test]
    fn users_that_no_run_bears_out_are_compared_as_a_range() {
        let (mut first, mut other) = (report(4, 4), report(2, 4));
        let missed = QuickPoint { load_p95_s: Some(9.0), ..first.measured.clone() };
        first.larger.push(QuickTry { measured: missed, predicted: first.predicted.clone() });
        first.predicted = first.curve[1].clone();
        first.measured = QuickPoint { loads: 3, ..first.curve[1].clone() };
        let first = first.judged();
        assert!(first.verdict.starts_with("not confirmed: 0 to 2 users, as"), "{}", first.verdict);
        other.place = "/mnt/slow".to_owned();
        other.machine = Some(machine("/mnt/slow", "sda", "disk"));
        other.curve.iter_mut().for_each(|point| {
            point.load_p95_s = point.load_p95_s.map(|load| load * 2.0);
        });
        other.measured.load_p95_s = Some(1.2);
        let page = show::beside_page(&first, &other);
        let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "/mnt/kv serves 0 to 2 users within the rule, and /mnt/slow",
            "/mnt/slow is about 2.0 to 2.4× slower: load P95 of 1 user by simulation (no run bears",
            "users served –",
        ] {
            assert!(told.contains(part), "{part}: {page}");
        }
    }

    /// "Both answers are for .", measured on two drives from two directories.
    #[test]
    fn answers_for_one_path_are_for_one_drive_only_if_host_and_devices_are_alike() {
        type Change = fn(&mut QuickReport);
        let cases: [(Change, &str); 4] = [
            (|other| other.machine = Some(machine("/b", "sda", "disk")), "/b and /mnt/kv load"),
            (
                |other| other.machine = Some(machine("/mnt/kv", "sda", "disk")),
                "/mnt/kv (2) and /mnt/kv (1) load",
            ),
            (
                |other| other.host = Some("node2".to_owned()),
                "node2:/mnt/kv and node1:/mnt/kv load about",
            ),
            // An older answer does not say.
            (|other| (other.host, other.machine) = (None, None), "/mnt/kv (2) and /mnt/kv (1)"),
        ];
        for (change, names) in cases {
            let (first, mut other) = (report(4, 4), report(4, 4));
            change(&mut other);
            let page = show::beside_page(&other.told_from(&first, 2), &first.told_from(&other, 1));
            let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(told.contains(names) && !told.contains("Both answers"), "{names}: {page}");
        }
        let (first, mut other) = (report(4, 4), report(4, 4));
        other.place = "kv".to_owned();
        assert!(show::beside_page(&first, &other).contains("Both answers are for one drive"));
    }

    /// "They differ by chance or time", of a drive and the same one limited to a part.
    #[test]
    fn a_drive_under_a_limit_of_a_cgroup_is_compared_as_another_system() {
        let limited = |bytes: u64, cgroup: &str| {
            let mut limited = report(2, 4);
            let throttle = Throttle {
                numbers: "259:0".to_owned(),
                file: format!("/sys/fs/cgroup/{cgroup}/io.max"),
                limit: format!("rbps={bytes}"),
            };
            limited.machine.as_mut().unwrap().throttles.push(throttle);
            limited.curve.iter_mut().for_each(|point| {
                point.load_p95_s = point.load_p95_s.map(|load| load * 2.0);
            });
            limited
        };
        let beside = |first: &QuickReport, other: &QuickReport| {
            let page = show::beside_page(&first.told_from(other, 1), &other.told_from(first, 2));
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let free = report(4, 4);
        let page = beside(&free, &limited(300_000_000, "a"));
        for part in [
            "Both answers are for one drive (nvme0n1 of node1) under different limits (/mnt/kv \
             (2): a cgroup limits reads of",
            "to 286.1 MiB/s): the ratios are those of the limits.",
            "/mnt/kv (2) is about 2.0× slower: load P95 of",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("by chance or time"), "{page}");
        let page = beside(&limited(100_000_000, "a"), &limited(300_000_000, "a"));
        assert!(page.contains("to 95.4 MiB/s; /mnt/kv (2): a cgroup limits"), "{page}");
        let page = beside(&limited(300_000_000, "a"), &limited(300_000_000, "b"));
        assert!(page.contains("by chance or time"), "{page}");
    }

    /// "/mnt/slow is about 3.0× slower", under two lines that said "no verdict".
    #[test]
    fn nothing_is_concluded_from_an_answer_that_says_nothing_of_its_drive() {
        let with = |change: fn(&mut QuickReport)| {
            let (first, mut other) = (report(4, 4), report(4, 4));
            other.place = "/mnt/slow".to_owned();
            other.machine = Some(machine("/mnt/slow", "sda", "disk"));
            other.curve.iter_mut().for_each(|point| point.load_p95_s = Some(0.9));
            change(&mut other);
            [show::beside_page(&first, &other), show::beside_page(&other, &first)]
        };
        for page in with(|_| ()) {
            assert!(page.contains("slower:") && !page.contains("No conclusion"), "{page}");
        }
        type Change = fn(&mut QuickReport);
        let varied = |other: &mut QuickReport| other.limits_deviation = Some(1.0);
        for page in with(varied) {
            assert!(page.contains("the load P95s of 4 users are 1.1× apart"), "{page}");
            assert!(!page.contains("slower:"), "{page}");
        }
        let cases: [(Change, &str); 4] = [
            (
                |other| other.machine = Some(machine("/mnt/slow", "tmpfs", "memory")),
                "the data was in memory (tmpfs): no drive was measured",
            ),
            (|other| other.kernel_share = Some(2.0), "others used the drive"),
            (
                |other| {
                    other.served_by_speed = served(8);
                    other.curve[3].load_p95_s = Some(2.0);
                },
                "contradicts itself: 8 users are said to be served, and its curve has a load P95",
            ),
            (|other| other.served_by_space = served(8), "60 % of earlier turns found for them"),
        ];
        for (change, why) in cases {
            for page in with(change) {
                let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
                let begin = "No conclusion can be drawn, since /mnt/slow: ";
                assert!(told.starts_with(begin) && told.contains(why), "{why}: {page}");
                assert!(!told.contains("slower:") && !told.contains("equally"), "{page}");
                let users = page.lines().find(|line| line.contains("users served")).unwrap();
                assert!(!users.contains('×'), "{page}");
            }
        }
    }

    #[test]
    fn a_drive_that_serves_nobody_has_no_ratio_of_users() {
        let (first, none) = (report(4, 4), report(0, 0));
        let page = show::beside_page(&first, &none);
        let users = page.lines().find(|line| line.contains("users served")).unwrap();
        assert!(!users.contains('×'), "{users}");
        assert!(page.contains("load P95 of 1 user "), "{page}");
    }

    #[test]
    fn an_answer_fits_a_screen() {
        let mut report = report(9, 9);
        let point = report.curve[3].clone();
        report.curve.extend((9..30).map(|users| QuickPoint { users, ..point.clone() }));
        report.run = "run /mnt/nvme/kv --model=llama3.1-8b --num-users=9 --seed=42 \
                      --storage-capacity-gb=6GiB --cpu-mem-gb=0 --arrival=closed \
                      --generation-mode=realistic --decode-reads=once --history-reads=last \
                      --preallocate=write --queue-depth=64"
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        report.measured.load_p95_s = Some(1.89);
        report.predicted.load_p95_s = Some(1.35);
        let mut report = report.judged();
        let page = page_of(&report);
        assert!(page.lines().count() <= 30, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        for part in ["<-", "loads load P50", "  limit      4 users missed the rule: on", " found"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let is_told = |page: &str| page.contains("A user's contexts");
        assert!(!is_told(&page) && !page.contains("no pauses"), "{page}");
        report.measured.is_without_pauses = true;
        (report.measured.load_p95_s, report.measured.earlier_turns) = (Some(1.35), Some(24));
        let page_of_few = page_of(&report);
        let words = page_of_few.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("10.0 % 19/24 run, no pauses"), "{page_of_few}");
        assert!(words.contains("no pauses: users ask again at once"), "{page_of_few}");
        report.curve[0].load_p95_s = Some(0.9);
        assert!(is_told(&page_of(&report)));
    }
}
