//! Speed at which a simulated drive serves runs as the real one did.

use anyhow::Result;
use ringfall_report::quick::{AVERAGE_LOADS_MIN, QuickTry};

/// Standard error of a run's bandwidth, and of its average load, beside the same run on the same
/// drive, as shares of them: of simulations of one seed on drives that differ by 0.02 % in speed,
/// for 60 and 330 s, with 4 to 16 users of llama3.1-8b, 0.002 to 0.018 and 0.014 to 0.107. Whoever
/// waits a moment longer meets others at the drive from then on.
const BANDWIDTH_ERROR: f64 = 0.01;
const LOAD_ERROR: f64 = 0.06;
/// Change of both together, in standard errors, by a drive e times as quick, roughly.
const CHANGE: f64 = 80.0;
/// Standard errors of all runs together within which a drive is as quick as its limits ...
const ALIKE_TO: f64 = 1.0;
/// ... and within which a speed beyond that is found.
const CLOSE_TO: f64 = 0.5;
/// Largest and, inverted, smallest speed, as a multiple of the limits.
const SPEED_MAX: f64 = 64.0;
/// Largest number of speeds that are simulated.
const SIMULATED_MAX: usize = 12;

/// Evidence that a run simulated is too quick, in standard errors: more bandwidth, and loads that
/// take less time, than it had on the drive. Negative: too slow.
pub(super) fn too_quick(run: &QuickTry) -> f64 {
    let (is, was) = (&run.measured, &run.predicted);
    let longer = |is: f64, was: f64| (was.max(1e-9) / is.max(1e-9)).ln();
    let has_loads = is.loads.min(was.loads) >= AVERAGE_LOADS_MIN;
    let loads = is.load_mean_s.zip(was.load_mean_s).filter(|_| has_loads);
    let by_loads = loads.map_or(0.0, |(is, was)| longer(is, was) / LOAD_ERROR);
    longer(is.gib_per_s, was.gib_per_s) / BANDWIDTH_ERROR - by_loads
}

/// Speed, as a multiple of the limits, at which nothing says that runs simulated are too quick or
/// too slow, or as nearly so as was found. `off` is the evidence at a speed, in standard errors,
/// positive where they are too quick.
///
/// # Errors
/// Those of `off`.
pub(super) fn fitted(mut off: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    // Logarithms of the speed; and the evidence.
    let most = SPEED_MAX.ln();
    let (mut at, mut best, mut step) = (0.0, (0.0, f64::INFINITY), 0.0f64);
    // The quickest that is too slow, and the slowest that is too quick.
    let mut between: [Option<(f64, f64)>; 2] = [None; 2];
    for index in 0..SIMULATED_MAX {
        let off = off(f64::exp(at))?;
        if off.abs() < f64::abs(best.1) {
            best = (at, off);
        }
        if off.abs() <= if index == 0 { ALIKE_TO } else { CLOSE_TO } {
            break;
        }
        between[usize::from(off > 0.0)] = Some((at, off));
        at = match between {
            [Some((slow, under)), Some((quick, over))] => {
                // Now and then halfway: a straight line may near a curve from one side alone.
                let share = if index % 3 == 2 { 0.5 } else { under / (under - over) };
                slow + (quick - slow) * share.clamp(0.1, 0.9)
            }
            _ => {
                step = if index == 0 { -off / CHANGE } else { step * 2.0 };
                (at + step).clamp(-most, most)
            }
        };
    }
    Ok(best.0.exp())
}

#[cfg(test)]
mod tests {
    use ringfall_report::quick::QuickPoint;

    use super::*;

    fn point(gib_per_s: f64, load_mean_s: f64, loads: u64) -> QuickPoint {
        QuickPoint {
            users: 8,
            gib_per_s,
            load_p50_s: None,
            load_p95_s: None,
            load_mean_s: Some(load_mean_s),
            loads,
            kv_io_p95_s: None,
            drive_busy_share: None,
            reuse_share: None,
            earlier_turns: None,
            is_without_pauses: false,
        }
    }

    /// Speed found for a drive that is `speed` times as quick, of which a simulation has such a
    /// bandwidth and average load; and the number of speeds simulated.
    fn found(speed: f64, of: fn(f64) -> (f64, f64)) -> (f64, usize) {
        let (gib_per_s, load_s) = of(speed);
        let measured = point(gib_per_s, load_s, 30);
        let mut count = 0;
        let speed = fitted(|speed| {
            count += 1;
            let (gib_per_s, load_s) = of(speed);
            let predicted = point(gib_per_s, load_s, 30);
            Ok(too_quick(&QuickTry { measured: measured.clone(), predicted }))
        });
        (speed.unwrap(), count)
    }

    #[test]
    fn a_speed_is_found_at_which_bandwidth_and_loads_are_the_same() {
        // At its limit; in use for a third of the time; hardly used, by loads alone.
        let shapes: [fn(f64) -> (f64, f64); 3] = [
            |speed| (speed, 1.0 / (speed * speed)),
            |speed| (0.5 * speed.powf(0.4), 1.0 / speed),
            |speed| (0.1, 0.005 + 0.995 / speed),
        ];
        for of in shapes {
            for speed in [0.05, 0.6, 0.93, 1.07, 1.4, 5.0] {
                let (found, count) = found(speed, of);
                assert!((found / speed - 1.0).abs() < 0.04, "{speed}: {found}");
                assert!(count <= SIMULATED_MAX);
            }
        }
        assert_eq!(found(1.005, |speed| (speed.powf(0.5), 1.0 / speed)), (1.0, 1));
    }

    /// Loads that took 0.98 times as long were within a tenth, so that the limits stood, while the
    /// drive moved 7 % more than was simulated.
    #[test]
    fn bandwidth_tells_more_than_the_few_loads_of_a_run() {
        let off = |gib_per_s, load_mean_s, loads| {
            let predicted = point(1.0, 1.0, 30);
            too_quick(&QuickTry { measured: point(gib_per_s, load_mean_s, loads), predicted })
        };
        assert!(off(1.07, 0.98, 30) < -5.0);
        assert!(off(1.0, 1.07, 30) > 1.0 && off(1.0, 1.07, 30) < 1.2);
        assert!(off(1.02, 1.5, 30) > 4.0, "both count");
        assert!(off(1.02, 1.5, 9) < -1.0, "too few loads");
    }

    #[test]
    fn what_no_speed_explains_has_the_nearest() {
        // A load of which half is not the drive's.
        let (speed, count) =
            found(1.0, |speed| (1.0, if speed == 1.0 { 0.1 } else { 0.5 + 0.5 / speed }));
        assert_eq!((speed, count), (1.0, 1));
        let speed = fitted(|_| Ok(-50.0)).unwrap();
        assert_eq!(speed, 1.0, "none is nearer than the limits");
    }
}
