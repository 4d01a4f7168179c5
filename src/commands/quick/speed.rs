//! Speed at which a simulated drive loads contexts as quickly as the real one did.

use anyhow::Result;

/// Ratio of simulated to measured loads, or inverted, up to which a drive is as quick as its
/// limits: these are of more I/Os than the few loads of a run.
const ALIKE_TO: f64 = 1.1;
/// The same up to which a speed beyond that is found.
const CLOSE_TO: f64 = 1.02;
/// Largest and, inverted, smallest speed, as a multiple of the limits.
const SPEED_MAX: f64 = 64.0;
/// Largest number of speeds that are simulated.
const SIMULATED_MAX: usize = 12;

/// Speed, as a multiple of the limits, at which loads that took `measured_s` in all on the drive
/// take as long by simulation, or as nearly so as was found. `simulated` has their time at a speed,
/// s; none where it has too few of them: at the limits, which are the speed then, or as the drive
/// is too slow.
///
/// # Errors
/// Those of `simulated`.
pub(super) fn fitted(
    measured_s: f64,
    mut simulated: impl FnMut(f64) -> Result<Option<f64>>,
) -> Result<f64> {
    // Logarithms: of the speed, and of the ratio of simulated to measured times at it.
    let most = SPEED_MAX.ln();
    let (mut at, mut best) = (0.0, (0.0, f64::INFINITY));
    // The quickest that is too slow, and the slowest that is too quick.
    let mut between: [Option<(f64, f64)>; 2] = [None; 2];
    for index in 0..SIMULATED_MAX {
        let off = match simulated(f64::exp(at))? {
            Some(simulated_s) => (simulated_s / measured_s).max(1e-9).ln(),
            None if index == 0 => return Ok(1.0),
            None => most,
        };
        if off.abs() < f64::abs(best.1) {
            best = (at, off);
        }
        let close_to = if index == 0 { ALIKE_TO } else { CLOSE_TO };
        if off.abs() <= close_to.ln() {
            break;
        }
        between[usize::from(off < 0.0)] = Some((at, off));
        at = match between {
            [Some((slow, over)), Some((quick, under))] => {
                // Now and then halfway: a straight line may near a curve from one side alone.
                let share = if index % 3 == 2 { 0.5 } else { over / (over - under) };
                slow + (quick - slow) * share.clamp(0.1, 0.9)
            }
            // As if all of a load were the drive's time.
            _ => (at + off).clamp(-most, most),
        };
    }
    Ok(best.0.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speed found for loads of such times, and the number of speeds simulated.
    fn found(measured_s: f64, of: fn(f64) -> Option<f64>) -> (f64, usize) {
        let mut count = 0;
        let speed = fitted(measured_s, |speed| {
            count += 1;
            Ok(of(speed))
        });
        (speed.unwrap(), count)
    }

    #[test]
    fn a_speed_is_found_at_which_loads_take_as_long() {
        for measured_s in [0.03, 0.7, 1.2, 1.4, 5.0] {
            // Alone on the drive; beside others; besides a time that is not the drive's.
            let shapes: [fn(f64) -> Option<f64>; 3] = [
                |speed| Some(1.0 / speed),
                |speed| Some(0.3 / (speed - 0.7).max(0.001)),
                |speed| Some(0.005 + 0.995 / speed),
            ];
            for of in shapes {
                let (speed, count) = found(measured_s, of);
                let simulated_s = of(speed).unwrap();
                assert!((simulated_s / measured_s - 1.0).abs() < 0.021, "{measured_s} {speed}");
                assert!(count <= SIMULATED_MAX);
            }
        }
        assert_eq!(found(1.09, |speed| Some(1.0 / speed)), (1.0, 1));
        assert_eq!(found(0.92, |speed| Some(1.0 / speed)), (1.0, 1));
    }

    #[test]
    fn loads_that_no_speed_explains_have_the_nearest() {
        assert_eq!(found(2.0, |_| None), (1.0, 1));
        let (speed, count) = found(0.1, |speed| Some(0.5 + 0.5 / speed));
        assert!(speed > 8.0 && speed <= SPEED_MAX * 1.001 && count <= SIMULATED_MAX, "{speed}");
        // A drive so slow that none ends.
        let (speed, _) = found(5.0, |speed| (speed > 0.25).then(|| 1.0 / speed));
        assert!((0.25..0.6).contains(&speed), "{speed}");
    }
}
