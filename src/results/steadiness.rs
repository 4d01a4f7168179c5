//! Was the load steady in the window, or did it still rise or fall? What is published says how long
//! a run should take for that; here the run itself is held against a rule.

use serde::{Deserialize, Serialize};

use super::RunResult;
use crate::facts::TimelineSecond;
use crate::precondition::steady::{RoundsSpread, WINDOW};
use ringfall_engine::tier::Tier;
use ringfall_engine::units::GIB;

/// Shortest part that is compared with others, s: in shorter ones the requests that happen to fall
/// into them differ more than the storage does.
const PART_MIN_S: f64 = 2.0;

/// Storage bandwidth over the five fifths of the window, held against the rule of SNIA's Solid
/// State Storage Performance Test Specification (PTS 2.0, "Steady State").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SteadinessReport {
    /// Bandwidth of the storage tier, reads and writes together, in each fifth of the window,
    /// GiB/s.
    pub fifths_gib_per_s: Vec<f64>,
    /// Highest minus lowest of the fifths, as a share of their mean.
    pub range_share: f64,
    /// Rise of the straight line fitted to the fifths, from the first to the last, as a share of
    /// their mean; negative where bandwidth fell.
    pub trend_share: f64,
    /// Whether it was steady: `range_share` at most 0.2, and `trend_share` between -0.1 and 0.1.
    pub steady: bool,
}

impl SteadinessReport {
    /// What it was in a run; none where the window is too short to tell, nothing moved, or the load
    /// was changed on purpose.
    #[must_use]
    pub fn of(result: &RunResult) -> Option<SteadinessReport> {
        let is_whole = !result.interrupted && result.failure.is_none();
        if result.plan.autoscaler.is_some() || !is_whole {
            return None;
        }
        let fifths_gib_per_s = fifths(&result.timeline)?;
        let spread = RoundsSpread::of(&fifths_gib_per_s)?;
        Some(SteadinessReport {
            fifths_gib_per_s,
            range_share: spread.range,
            trend_share: spread.trend,
            steady: spread.is_steady(),
        })
    }

    /// What a reader should know of a load that went one way all along; none of one that did not,
    /// or only went up and down.
    pub(super) fn told(&self) -> Option<String> {
        let spread = RoundsSpread::of(&self.fifths_gib_per_s)?;
        if spread.is_level() || !goes_one_way(&self.fifths_gib_per_s) {
            return None;
        }
        let shown: Vec<_> = self.fifths_gib_per_s.iter().map(|rate| format!("{rate:.3}")).collect();
        let way = if spread.trend > 0.0 { "rose" } else { "fell" };
        Some(format!(
            "storage bandwidth {way} by {:.0} % in the window ({} GiB/s in its fifths): the run \
             had not settled, and a longer one would give other figures",
            spread.trend.abs() * 100.0,
            shown.join(", ")
        ))
    }
}

/// Bandwidth of each fifth of the timeline, GiB/s; none where they would be too short. A second
/// that lies in two fifths counts in both, in proportion.
fn fifths(timeline: &[TimelineSecond]) -> Option<Vec<f64>> {
    let end_s = timeline.last()?.end_s;
    let part_s = end_s / WINDOW as f64;
    if part_s.is_nan() || part_s < PART_MIN_S {
        return None;
    }
    let mut bytes = [0.0; WINDOW];
    for second in timeline.iter().filter(|second| second.seconds > 0.0) {
        let storage = &second.tiers[Tier::Storage.index()];
        let moved = (storage.read.bytes + storage.write.bytes) as f64;
        let start_s = second.end_s - second.seconds;
        for (part, bytes) in bytes.iter_mut().enumerate() {
            let (from_s, to_s) = (part as f64 * part_s, (part + 1) as f64 * part_s);
            let common_s = second.end_s.min(to_s) - start_s.max(from_s);
            *bytes += moved * (common_s.max(0.0) / second.seconds);
        }
    }
    Some(bytes.iter().map(|bytes| bytes / part_s / GIB as f64).collect())
}

/// Whether each fifth is above the one before, or each below: five that are only scattered are in
/// order in 2 of 120 cases.
fn goes_one_way(fifths: &[f64]) -> bool {
    let all = |ordered: fn(&f64, &f64) -> bool| fifths.is_sorted_by(ordered);
    all(|one, next| one < next) || all(|one, next| one > next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AutoscalerMode, AutoscalerPlan};
    use crate::results::tests::nothing;

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
        assert_eq!(level.told(), None);
        let falls: Vec<f64> = (0..20).map(|second| 2.0 - 0.05 * f64::from(second)).collect();
        let falls = SteadinessReport::of(&run(&falls)).unwrap();
        // 3.85, 3.45, 3.05, 2.65 and 2.25 GiB/s: from first to last 1.6 of 3.05.
        assert!(!falls.steady && (falls.trend_share + 1.6 / 3.05).abs() < 1e-6, "{falls:?}");
        let text = falls.told().unwrap();
        for part in ["fell by 52 %", "3.850, 3.450, 3.050, 2.650, 2.250"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn one_that_goes_up_and_down_is_not_steady_and_not_told() {
        let uneven = [[1.0; 4], [2.0; 4], [1.2; 4], [2.2; 4], [1.8; 4]].concat();
        let uneven = SteadinessReport::of(&run(&uneven)).unwrap();
        assert!(!uneven.steady && uneven.trend_share > 0.1, "{uneven:?}");
        assert_eq!(uneven.told(), None);
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
        let (mode, initial_users) = (AutoscalerMode::Capacity, 10);
        scaled.plan.autoscaler =
            Some(AutoscalerPlan { mode, initial_users, target_saturation: 0.8 });
        assert_eq!(SteadinessReport::of(&scaled), None);
        let mut ended = run(&[1.0; 20]);
        ended.interrupted = true;
        assert_eq!(SteadinessReport::of(&ended), None);
    }
}
