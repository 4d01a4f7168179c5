//! Was the load steady in the window? What is published says how long a run should take for that;
//! here the run itself is held against a rule.
//!
//! Not every uneven run is worth a word: the bandwidth of a drive that waits for work is what was
//! asked of it, and users who think and traces with bursts ask unevenly. Two kinds are told. One
//! rises or falls from each fifth to the next, which is no chance. In the other the storage itself
//! was slower in one fifth than in another: it was never idle in the slow one, and its queue did
//! not shrink with its bandwidth. Reads and writes are looked at apart, for their sum changes with
//! the mix: a drive that limits each direction moves less where only one of them is asked for, and
//! one whose writes are slower moves less where more is written. Either is at its best in some
//! direction there, so the slow fifth has to lie below one and the same other fifth in both. A
//! fifth in which storage had nothing to do is left out of that look:
//! it would be the slowest and hide the slow one. By Little's law (in flight = rate × time of an
//! I/O) less load takes the queue down at least as far as the rate, and a slower drive leaves it as
//! long as it was; with few users, who wait for one read while they have no other in flight, it
//! shrinks too, though by far less than the rate. A simulated drive does not change, so it is never
//! told to have become slower.

use ringfall_core::key::Tier;
use ringfall_core::units::GIB;
use serde::{Deserialize, Serialize};

use super::RunResult;
use crate::facts::steady::{RANGE_MAX, RoundsSpread, WINDOW};
use crate::facts::{TimelineSecond, TimelineTier};
use crate::stats;

/// Shortest part that is compared with others, s: in shorter ones the requests that happen to fall
/// into them differ more than the storage does.
const PART_MIN_S: f64 = 2.0;
/// Bandwidth of a fifth, as a share of the fastest fifth's, below which it has collapsed: a third,
/// far below what a drive varies by, so that a shorter queue may be compared too.
const COLLAPSED_SHARE: f64 = 1.0 / 3.0;
/// Factor by which an I/O must take longer in a collapsed fifth, by its rate and queue: a load that
/// asks for less makes it shorter, and looks once a second are too few to tell less than that.
const SLOWED_TIMES: f64 = 3.0;
/// Share of a fifth's bytes up to which a direction says nothing: of a few writes beside the reads,
/// chance decides how many fall into a fifth. So few take little of a drive's time, even where they
/// are much slower.
const MINOR_SHARE: f64 = 0.02;

/// Storage bandwidth over the five fifths of the window, held against the rule of SNIA's Solid
/// State Storage Performance Test Specification (PTS 2.0, "Steady State").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SteadinessReport {
    /// Bandwidth of the storage tier, reads and writes together, in each fifth of the window,
    /// GiB/s.
    pub fifths_gib_per_s: Vec<f64>,
    /// Mean number of I/Os in flight on the storage tier at the ends of the seconds of each fifth;
    /// empty in results of versions that did not keep it.
    #[serde(default)]
    pub fifths_in_flight: Vec<f64>,
    /// Highest minus lowest of the fifths, as a share of their mean.
    pub range_share: f64,
    /// Rise of the straight line fitted to the fifths, from the first to the last, as a share of
    /// their mean; negative where bandwidth fell.
    pub trend_share: f64,
    /// Whether it was steady: `range_share` at most 0.2, and `trend_share` between -0.1 and 0.1.
    pub steady: bool,
}

impl SteadinessReport {
    /// Computes the steadiness of a run; `None` where the window is too short to tell, nothing
    /// moved, the run failed, or the load was changed on purpose. An interrupted run is judged by
    /// the seconds that it measured.
    pub fn of(result: &RunResult) -> Option<SteadinessReport> {
        if result.plan.enable_autoscaling || result.failure.is_some() {
            return None;
        }
        let both = |storage: &TimelineTier| storage.read.bytes + storage.write.bytes;
        let fifths_gib_per_s = fifths_of(result, both)?;
        let spread = RoundsSpread::of(&fifths_gib_per_s)?;
        Some(SteadinessReport {
            fifths_gib_per_s,
            fifths_in_flight: looks(&result.timeline).iter().map(|looks| mean(looks)).collect(),
            range_share: spread.range,
            trend_share: spread.trend,
            steady: spread.is_steady(),
        })
    }
}

/// Warning text about an unsteady run; `None` where it was steady, and where the requested load was
/// uneven.
pub(super) fn told(result: &RunResult) -> Option<String> {
    let report = SteadinessReport::of(result)?;
    let fifths = &report.fifths_gib_per_s;
    let spread = RoundsSpread::of(fifths)?;
    let shown = || fifths.iter().map(|rate| format!("{rate:.3}")).collect::<Vec<_>>().join(", ");
    if !spread.is_level() && goes_one_way(fifths) {
        let way = if spread.trend > 0.0 { "rose" } else { "fell" };
        let (first, last) = (fifths[0], fifths[fifths.len() - 1]);
        return Some(format!(
            "storage bandwidth {way} all through the window, from {first:.3} to {last:.3} GiB/s \
             ({} in its fifths): the run had not settled, or the drive changes its speed, and a \
             longer run would give other figures",
            shown()
        ));
    }
    if result.simulation.is_some() {
        return None;
    }
    let Slowed { slow, fast, range_share } = Slowed::in_run(result, fifths)?;
    let cause = match result.is_through_page_cache() {
        true => {
            "the page cache, through which the layout's files go, took bursts that the drive then \
             wrote, or the storage itself became slower or faster, and no mean describes it; give \
             a longer --warmup, or --layout-option direct=yes for the drive alone"
        }
        false => {
            "the storage itself became slower or faster, and no mean describes it; look for heat, \
             a full write cache, a limit or another user of the drive, and run again"
        }
    };
    Some(format!(
        "storage bandwidth was not steady in the window ({} GiB/s in its fifths): fifths {} and {} \
         lie {:.0} % of the mean apart, where steady is up to {:.0} %, and differ as much in each \
         direction alone, although in the slower one the storage was never seen idle and its queue \
         did not shrink as with less load: {cause}",
        shown(),
        slow.min(fast) + 1,
        slow.max(fast) + 1,
        range_share * 100.0,
        RANGE_MAX * 100.0
    ))
}

/// Flag that may help a run whose unsteadiness is told: a warm-up where the bandwidth went one way,
/// or where the first fifth of a run without one is the odd one.
pub(super) fn flag_to_try(result: &RunResult) -> Option<&'static str> {
    let fifths = SteadinessReport::of(result)?.fifths_gib_per_s;
    let is_at_the_start = || {
        let slowed = Slowed::in_run(result, &fifths);
        result.plan.warmup_s == 0 && slowed.is_some_and(|one| one.slow == 0 || one.fast == 0)
    };
    (goes_one_way(&fifths) || is_at_the_start()).then_some("longer --warmup")
}

/// Bytes that storage moved in a second of the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// End of the second, s after the start of the window.
    pub end_s: f64,
    /// Length of the second, s.
    pub seconds: f64,
    /// Bytes read and written in it, or those of one direction.
    pub bytes: u64,
}

/// Bandwidth of each fifth of a run's window, GiB/s, in the bytes that are picked.
fn fifths_of(result: &RunResult, bytes: fn(&TimelineTier) -> u64) -> Option<Vec<f64>> {
    let moved = |second: &TimelineSecond| Moved {
        end_s: second.end_s,
        seconds: second.seconds,
        bytes: bytes(&second.tiers[Tier::Storage.index()]),
    };
    fifths(&result.timeline.iter().map(moved).collect::<Vec<_>>())
}

/// Bandwidth of each fifth of the seconds, GiB/s; none where they would be too short. A second that
/// lies in two fifths counts in both, in proportion.
pub(crate) fn fifths(seconds: &[Moved]) -> Option<Vec<f64>> {
    let end_s = seconds.last()?.end_s;
    let part_s = end_s / WINDOW as f64;
    if part_s.is_nan() || part_s < PART_MIN_S {
        return None;
    }
    let mut bytes = [0.0; WINDOW];
    for second in seconds.iter().filter(|second| second.seconds > 0.0) {
        let start_s = second.end_s - second.seconds;
        for (part, bytes) in bytes.iter_mut().enumerate() {
            let (from_s, to_s) = (part as f64 * part_s, (part + 1) as f64 * part_s);
            let common_s = second.end_s.min(to_s) - start_s.max(from_s);
            *bytes += second.bytes as f64 * (common_s.max(0.0) / second.seconds);
        }
    }
    Some(bytes.iter().map(|bytes| bytes / part_s / GIB as f64).collect())
}

/// Numbers of I/Os in flight at the ends of the seconds of each fifth.
fn looks(timeline: &[TimelineSecond]) -> [Vec<f64>; WINDOW] {
    let mut looks: [Vec<f64>; WINDOW] = Default::default();
    let end_s = timeline.last().map_or(0.0, |second| second.end_s);
    for second in timeline {
        let passed = second.end_s / end_s * WINDOW as f64;
        let part = looks.iter().enumerate().rposition(|(part, _)| passed > part as f64);
        looks[part.unwrap_or(0)].push(f64::from(second.gauges.in_flight));
    }
    looks
}

/// Mean of these; 0 of none.
fn mean(values: &[f64]) -> f64 {
    stats::mean(values).unwrap_or(0.0)
}

/// A fifth in which the storage, and not the load, was slower than in another.
#[derive(Debug, PartialEq)]
struct Slowed {
    /// Index of the slow fifth.
    slow: usize,
    /// Index of the fastest fifth that outdid it.
    fast: usize,
    /// Their difference as a share of the mean of all fifths in which the storage had work.
    range_share: f64,
}

impl Slowed {
    /// That of a run, whose fifths are these.
    fn in_run(result: &RunResult, fifths: &[f64]) -> Option<Slowed> {
        let directions = [
            fifths_of(result, |storage| storage.read.bytes)?,
            fifths_of(result, |storage| storage.write.bytes)?,
        ];
        Slowed::of(fifths, &directions, &looks(&result.timeline))
    }

    /// The slowest fifth that another outdid in each direction that it was asked for, if it was the
    /// storage that made it slower. The queue is as long as before where the drive slows down, and
    /// shrinks at least like bandwidth where less is asked for: the nearer of the two is believed.
    /// Where bandwidth collapsed, an I/O that took much longer is enough, as users who wait leave a
    /// shorter queue. A fifth that was idle for the most part is left out; one with shorter pauses
    /// shows that less was asked for.
    fn of(
        fifths: &[f64],
        directions: &[Vec<f64>; 2],
        looks: &[Vec<f64>; WINDOW],
    ) -> Option<Slowed> {
        let idle = |part: usize| looks[part].iter().filter(|&&in_flight| in_flight <= 0.0).count();
        let mut asked: Vec<usize> =
            (0..fifths.len()).filter(|&part| idle(part) <= looks[part].len() / 2).collect();
        asked.sort_by(|&one, &other| fifths[one].total_cmp(&fifths[other]));
        let range_share = |rates: &[f64], slow: usize, fast: usize| {
            let mean_rate = mean(&asked.iter().map(|&part| rates[part]).collect::<Vec<_>>());
            (rates[fast] - rates[slow]) / mean_rate
        };
        let is_outdone = |slow: usize, fast: usize| {
            let asked_for = |rates: &&Vec<f64>| rates[slow] > MINOR_SHARE * fifths[slow];
            let mut directions = directions.iter().filter(asked_for);
            directions.all(|rates| range_share(rates, slow, fast) > RANGE_MAX)
                && range_share(fifths, slow, fast) > RANGE_MAX
        };
        let (slow, fast) = asked.iter().find_map(|&slow| {
            let fast = asked.iter().rev().find(|&&fast| is_outdone(slow, fast))?;
            Some((slow, *fast))
        })?;
        let rate = |part: usize| fifths[part] / fifths[fast];
        let queue = mean(&looks[slow]) / mean(&looks[fast]);
        let mut collapsed = asked.iter().filter(|&&part| rate(part) < COLLAPSED_SHARE);
        let is_as_long = idle(slow) == 0 && queue >= (1.0 + rate(slow)) / 2.0;
        let is_slower = rate(slow) < COLLAPSED_SHARE
            && collapsed.all(|&part| idle(part) == 0)
            && queue >= SLOWED_TIMES * rate(slow);
        let range_share = range_share(fifths, slow, fast);
        (is_as_long || is_slower).then_some(Slowed { slow, fast, range_share })
    }
}

/// Whether each fifth is above the one before, or each below: five that are only scattered are in
/// order in 2 of 120 cases.
fn goes_one_way(fifths: &[f64]) -> bool {
    let all = |ordered: fn(&f64, &f64) -> bool| fifths.is_sorted_by(ordered);
    all(|one, next| one < next) || all(|one, next| one > next)
}

#[cfg(test)]
mod tests {
    use ringfall_workloads::layout::{EngineLayout, LayoutOptions, LayoutPlan};

    use super::*;
    use crate::testing::nothing;

    /// A run of seconds in which storage read that many GiB, and wrote as much.
    fn run(gib: &[f64]) -> RunResult {
        let mut result = nothing();
        result.timeline = (1..)
            .zip(gib)
            .map(|(end_s, gib)| {
                let mut second = TimelineSecond { seconds: 1.0, ..TimelineSecond::default() };
                second.end_s = f64::from(end_s);
                let storage = &mut second.tiers[Tier::Storage.index()];
                storage.read.bytes = (gib * GIB as f64) as u64;
                storage.write.bytes = storage.read.bytes;
                second
            })
            .collect();
        result
    }

    #[test]
    fn a_level_load_is_steady_and_one_that_falls_is_told() {
        let level = SteadinessReport::of(&run(&[1.0; 20])).unwrap();
        assert!(level.steady && level.range_share.abs() < 1e-9);
        assert_eq!(level.fifths_gib_per_s, [2.0; 5]);
        assert_eq!(told(&run(&[1.0; 20])), None);
        let falls: Vec<f64> = (0..20).map(|second| 2.0 - 0.05 * f64::from(second)).collect();
        let fallen = run(&falls);
        let falls = SteadinessReport::of(&fallen).unwrap();
        // 3.85, 3.45, 3.05, 2.65 and 2.25 GiB/s: from first to last 1.6 of 3.05.
        assert!(!falls.steady && (falls.trend_share + 1.6 / 3.05).abs() < 1e-6, "{falls:?}");
        let text = told(&fallen).unwrap();
        assert_eq!(flag_to_try(&fallen), Some("longer --warmup"));
        for part in [
            "fell all through the window, from 3.850 to 2.250",
            "3.850, 3.450, 3.050, 2.650, 2.250",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// The same with so many I/Os in flight at the end of each second.
    fn loaded(gib: &[f64], in_flight: &[u32]) -> RunResult {
        let mut result = run(gib);
        for (second, &in_flight) in result.timeline.iter_mut().zip(in_flight) {
            second.gauges.in_flight = in_flight;
        }
        result
    }

    /// A run with a full queue whose fifths read and wrote so many GiB/s.
    fn mixed(fifths: [(f64, f64); 5]) -> RunResult {
        let mut result = loaded(&[0.0; 10], &[64; 10]);
        for (second, (read, write)) in result.timeline.iter_mut().zip(twice(fifths)) {
            let storage = &mut second.tiers[Tier::Storage.index()];
            storage.read.bytes = (read * GIB as f64) as u64;
            storage.write.bytes = (write * GIB as f64) as u64;
        }
        result
    }

    /// Only the sum was looked at: a volume with a limit for each direction was told to have become
    /// slower when less was written.
    #[test]
    fn another_mix_on_a_drive_that_never_changed_is_not_told() {
        let shared = |written: f64| {
            // Reads at 1 GiB/s, writes at a quarter of that, one after the other.
            let seconds = 1.0 / ((1.0 - written) + written / 0.25);
            ((1.0 - written) * seconds, written * seconds)
        };
        for fifths in [
            // As measured with 60 MB/s each way: reads at the limit, ever fewer writes.
            [(0.009, 0.056), (0.056, 0.056), (0.056, 0.041), (0.056, 0.0), (0.056, 0.01)],
            [(0.2, 1.0), (1.0, 1.0), (1.0, 0.4), (0.5, 1.0), (0.1, 1.0)],
            // One limit for both directions.
            [0.5, 0.1, 0.2, 0.8, 0.3].map(shared),
            [0.0, 0.08, 0.0, 0.9, 0.3].map(shared),
            // Each direction disturbs the other.
            [(1.0, 0.0), (0.0, 1.0), (0.3, 0.3), (1.0, 0.0), (0.0, 1.0)],
        ] {
            let result = mixed(fifths);
            assert!(!SteadinessReport::of(&result).unwrap().steady, "{fifths:?}");
            assert_eq!(told(&result), None, "{fifths:?}");
        }
    }

    #[test]
    fn a_drive_that_slows_down_is_told_although_the_mix_changes() {
        for (fifths, slow) in [
            // To a half and to two thirds, with more and with fewer writes than before.
            ([(0.6, 0.4), (0.5, 0.5), (0.55, 0.45), (0.3, 0.2), (0.6, 0.4)], 4),
            ([(0.6, 0.4), (0.4, 0.27), (0.5, 0.5), (0.55, 0.45), (0.6, 0.4)], 2),
            // Nothing is written, or so little that chance decides how much.
            ([(1.0, 0.0), (1.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 0.0)], 3),
            ([(1.0, 0.005), (1.0, 0.005), (0.5, 0.01), (1.0, 0.005), (1.0, 0.005)], 3),
            // Beside a fifth that is slower by its mix alone, and in a standstill.
            ([(1.0, 1.0), (1.0, 1.0), (0.7, 0.6), (1.0, 0.0), (1.0, 1.0)], 3),
            ([(0.6, 0.4), (0.5, 0.5), (0.55, 0.45), (0.6, 0.4), (0.0, 0.0)], 5),
        ] {
            let text = told(&mixed(fifths)).unwrap_or_else(|| panic!("{fifths:?}"));
            let pair = text.split("fifths ").last().unwrap().split(" lie").next().unwrap();
            let slow = slow.to_string();
            assert!(pair.split(" and ").any(|fifth| fifth == slow), "{fifths:?}: {text}");
        }
        // A warm-up leaves out a slow beginning, and nothing later.
        let [slow, usual] = [(0.3, 0.2), (0.6, 0.4)];
        let flag = |fifths| flag_to_try(&mixed(fifths));
        assert_eq!(flag([usual, usual, slow, usual, usual]), None);
        assert_eq!(flag([slow, usual, usual, usual, usual]), Some("longer --warmup"));
    }

    /// Each of five figures for two seconds.
    fn twice<T: Copy>(fifths: [T; 5]) -> Vec<T> {
        fifths.into_iter().flat_map(|one| [one; 2]).collect()
    }

    #[test]
    fn a_drive_that_collapses_in_the_window_is_told_with_its_fifths() {
        let gib = twice([0.775, 0.95, 0.58, 0.0045, 0.0045]);
        let text = told(&loaded(&gib, &twice([60, 64, 62, 64, 64]))).unwrap();
        for part in ["1.550, 1.900, 1.160, 0.009, 0.009", "204 % of the mean", "up to 20 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // One that recovers, and one that goes up and down.
        for gib in [[1.0, 0.2, 1.0, 1.0, 1.0], [1.0, 2.0, 1.2, 2.2, 1.8]] {
            let report = SteadinessReport::of(&loaded(&twice(gib), &[64; 10])).unwrap();
            assert!(!report.steady && report.fifths_in_flight == [64.0; 5], "{report:?}");
            assert!(told(&loaded(&twice(gib), &[64; 10])).is_some(), "{gib:?}");
        }
        // Files that the page cache takes in bursts were told to be a drive that is hot.
        let mut cached = loaded(&gib, &[64; 10]);
        let layout = LayoutOptions::of(EngineLayout::Lmcache);
        let plan = LayoutPlan::new(layout, "tiny-1b", &cached.plan.model_spec, 1, 256);
        cached.plan.layout_plan = Some(plan.unwrap());
        let text = told(&cached).unwrap();
        assert!(text.contains("less load: the page cache") && !text.contains("heat"), "{text}");
    }

    #[test]
    fn a_trend_within_the_range_is_not_told_to_be_a_change_of_the_storage() {
        // The trend of 10 % is broken, and the range of 20 % is not.
        let gib = [2.435, 2.794, 2.794, 2.794, 2.794].map(|both| both / 2.0);
        let result = loaded(&twice(gib), &[64; 10]);
        assert!(!SteadinessReport::of(&result).unwrap().steady);
        assert_eq!(told(&result), None);
    }

    #[test]
    fn a_simulated_drive_is_not_told_to_have_changed() {
        let mut result = loaded(&twice([1.0, 0.2, 1.0, 1.0, 1.0]), &[64; 10]);
        assert!(told(&result).is_some());
        result.simulation = Some(crate::SimulationReport::default());
        assert_eq!(told(&result), None);
        assert!(!SteadinessReport::of(&result).unwrap().steady);
    }

    #[test]
    fn a_drive_that_collapses_under_one_user_is_told_and_a_pause_is_not() {
        let gib = twice([0.43, 0.50, 0.34, 0.019, 0.019]);
        let with = |in_flight: [u32; 10]| told(&loaded(&gib, &in_flight)).is_some();
        assert!(with([18, 19, 18, 19, 18, 19, 5, 6, 5, 5]));
        // Idle once in either of the slow fifths; a queue as short as less load leaves it.
        assert!(!with([18, 19, 18, 19, 18, 19, 5, 6, 5, 0]));
        assert!(!with([18, 19, 18, 19, 18, 19, 0, 6, 5, 5]));
        assert!(!with([60, 64, 60, 64, 60, 64, 3, 2, 3, 2]));
    }

    #[test]
    fn an_uneven_load_is_not_steady_and_not_told() {
        let uneven = [1.0, 2.0, 1.2, 2.2, 1.8];
        for in_flight in [
            // Nothing to do at times; a queue as short as the load; one look of two with none.
            twice([0; 5]),
            twice([5, 10, 6, 11, 9]),
            vec![9, 0, 9, 9, 9, 9, 9, 9, 9, 9],
        ] {
            let result = loaded(&twice(uneven), &in_flight);
            assert!(!SteadinessReport::of(&result).unwrap().steady);
            assert_eq!(told(&result), None, "{in_flight:?}");
        }
        // Even within the rule, however long the queue.
        assert_eq!(told(&loaded(&twice([1.0, 1.05, 0.95, 1.05, 1.0]), &[64; 10])), None);
    }

    #[test]
    fn an_idle_fifth_does_not_hide_a_drive_that_collapsed() {
        // Nothing was asked for in the last fifth or in the first: the fifth with the throttled
        // drive is judged without it, be the queue full or that of one user.
        let last = loaded(&twice([1.0, 0.9, 0.95, 0.01, 0.0]), &twice([60, 64, 62, 64, 0]));
        let text = told(&last).unwrap();
        for part in ["fifths 1 and 4 lie 138 % of the mean", "0.020, 0.000"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let first = loaded(&twice([0.0, 1.0, 0.9, 0.01, 0.95]), &twice([0, 18, 19, 5, 18]));
        assert!(told(&first).unwrap().contains("fifths 2 and 4"));
        // The load went on a little into the fifth in which it ended.
        let mut gib = [1.0; 20];
        gib[12..16].fill(0.01);
        gib[17..].fill(0.0);
        let mut looks = [64; 20];
        looks[17..].fill(0);
        gib[16] = 0.01;
        assert!(told(&loaded(&gib, &looks)).unwrap().contains("fifths 3 and 4"));
    }

    #[test]
    fn a_load_with_idle_fifths_is_not_told_to_be_a_change_of_the_storage() {
        for (gib, in_flight) in [
            // A load that ends, or pauses; one user, whose reads come one at a time.
            ([1.0, 1.0, 1.0, 0.3, 0.0], twice([64, 64, 64, 19, 0])),
            ([1.0, 0.0, 1.0, 0.0, 1.0], twice([64, 0, 64, 0, 64])),
            ([0.5, 0.0, 0.45, 0.1, 0.5], vec![1, 1, 0, 0, 1, 1, 1, 0, 1, 1]),
        ] {
            let result = loaded(&twice(gib), &in_flight);
            assert!(!SteadinessReport::of(&result).unwrap().steady);
            assert_eq!(told(&result), None, "{gib:?}");
        }
        // Pauses in one of the fifths with little bandwidth: users asked for less there.
        let gib = twice([1.0, 0.9, 0.1, 0.0, 0.1]);
        assert_eq!(told(&loaded(&gib, &[18, 19, 18, 19, 6, 6, 0, 0, 6, 0])), None);
        // Two full seconds of ten, and nothing but idleness.
        let gib = twice([1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(told(&loaded(&gib, &[64, 64, 0, 0, 0, 0, 0, 0, 0, 0])), None);
    }

    #[test]
    fn an_interrupted_run_is_not_told_to_have_slowed_by_its_end() {
        let mut ended = loaded(&twice([1.0, 1.0, 1.0, 1.0, 0.5]), &[9, 9, 9, 9, 9, 9, 9, 9, 9, 0]);
        ended.interrupted = true;
        assert_eq!(told(&ended), None);
    }

    #[test]
    fn a_window_that_is_no_multiple_of_five_is_cut_inside_its_seconds() {
        let mut result = run(&[1.0; 12]);
        result.timeline[11].seconds = 0.5;
        result.timeline[11].end_s = 11.5;
        let fifths = SteadinessReport::of(&result).unwrap().fifths_gib_per_s;
        // The last half second has the bytes of a whole one: those of 2.8 s in 2.3.
        let expected = [2.0, 2.0, 2.0, 2.0, 2.0 * 2.8 / 2.3];
        let parts = fifths.iter().zip(expected);
        assert!(parts.clone().all(|(is, should)| (is - should).abs() < 1e-6), "{fifths:?}");
    }

    #[test]
    fn what_is_short_still_or_changed_on_purpose_is_not_judged() {
        assert_eq!(SteadinessReport::of(&run(&[1.0; 9])), None);
        assert_eq!(SteadinessReport::of(&run(&[0.0; 20])), None);
        assert_eq!(SteadinessReport::of(&nothing()), None);
        let mut scaled = run(&[1.0; 20]);
        scaled.plan.enable_autoscaling = true;
        assert_eq!(SteadinessReport::of(&scaled), None);
        let mut failed = run(&[1.0; 20]);
        failed.failure = Some("a shard stood still".to_owned());
        assert_eq!(SteadinessReport::of(&failed), None);
    }

    #[test]
    fn an_interrupted_run_is_judged_by_the_seconds_that_it_measured() {
        for (seconds, is_judged) in [(9, false), (20, true)] {
            let mut ended = run(&vec![1.0; seconds]);
            ended.interrupted = true;
            assert_eq!(SteadinessReport::of(&ended).is_some(), is_judged, "{seconds}");
        }
    }
}
