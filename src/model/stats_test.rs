use super::*;

#[test]
fn the_textbook_values() {
    let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    assert_eq!(mean(&values), Some(5.0));
    assert!((standard_deviation(&values).unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    assert!((coefficient_of_variation(&values).unwrap() - 0.427_618).abs() < 1e-6);
    assert_eq!(median(&values), Some(4.5));
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(range(&values), Some((2.0, 9.0)));
    // numpy.quantile([1, 2, 3, 4], 0.9)
    assert!((quantile(&[4.0, 1.0, 3.0, 2.0], 0.9).unwrap() - 3.7).abs() < 1e-12);
    assert_eq!(quantile(&values, 1.0), Some(9.0));
    assert_eq!(quantile(&values, 0.0), Some(2.0));
}

#[test]
fn what_can_t_be_said_is_not_said() {
    assert_eq!(mean(&[]), None);
    assert_eq!(median(&[]), None);
    assert_eq!(range(&[]), None);
    assert_eq!(standard_deviation(&[1.0]), None);
    assert_eq!(coefficient_of_variation(&[1.0]), None);
    assert_eq!(coefficient_of_variation(&[0.0, 0.0]), None);
}

/// Uniform draws from a fixed seed.
fn uniform(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count).map(|_| rng.random::<f64>()).collect()
}

#[test]
fn a_median_s_interval_is_that_of_the_binomial() {
    let of = |count: u32| median_interval(&(1..=count).map(f64::from).collect::<Vec<_>>());
    // Five values lie on one side of the median with a chance of 1 in 16.
    assert_eq!((of(0), of(5)), (None, None));
    assert_eq!(of(6), Some(Interval { low: 1.0, high: 6.0 }));
    assert_eq!(of(9), Some(Interval { low: 2.0, high: 8.0 }));
    assert_eq!(of(100), Some(Interval { low: 40.0, high: 61.0 }));
}

#[test]
fn a_quantile_lies_between_values_of_two_ranks_or_beyond_all_of_them() {
    // R: qbinom(c(0.025, 0.975), 100, 0.95), and one more above.
    assert_eq!(quantile_ranks(100, 0.95), [Some(90), Some(100)]);
    assert_eq!(quantile_ranks(100, 0.5), [Some(40), Some(61)]);
    // As in the next test: 0.95^71 > 0.025 > 0.95^72.
    assert_eq!(quantile_ranks(71, 0.95)[1], None);
    assert_eq!(quantile_ranks(72, 0.95)[1], Some(72));
    assert_eq!((quantile_ranks(0, 0.95), quantile_ranks(3, 0.5)), ([None; 2], [None; 2]));
    assert!(quantile_ranks(u64::MAX, 0.95)[0].is_some());
}

#[test]
fn a_quantile_s_interval_is_that_of_the_binomial() {
    // n = 100, median: the exact interval is the 40th to the 61st of the sorted values.
    let draws = quantile_draws(100, 0.5, 1).unwrap();
    let (low, high) = (quantile(&draws, 0.025).unwrap(), quantile(&draws, 0.975).unwrap());
    assert!((low - 0.40).abs() < 0.015 && (high - 0.60).abs() < 0.015, "{low} {high}");
    assert_eq!(quantile_draws(100, 0.5, 1), quantile_draws(100, 0.5, 1), "seeded");
    // Too few to bound it: 0.95^71 > 0.025 > 0.95^72.
    assert!(quantile_draws(71, 0.95, 1).is_none() && quantile_draws(72, 0.95, 1).is_some());
    assert!(quantile_draws(0, 0.5, 1).is_none());
    let narrow = quantile_draws(100_000_000, 0.99, 1).unwrap();
    assert!(narrow.iter().all(|share| (share - 0.99).abs() < 1e-4));
}

/// The promise of an interval: of many experiments nineteen in twenty have it around the truth.
#[test]
fn intervals_cover_the_truth_as_often_as_they_say() {
    let mut covered = [0; 3];
    const EXPERIMENTS: u64 = 120;
    for seed in 0..EXPERIMENTS {
        let (a, b) = (uniform(200, 2 * seed), uniform(200, 2 * seed + 1));
        // P80 of uniform values.
        let draws = |values: &[f64], salt| -> Vec<f64> {
            let shares = quantile_draws(200, 0.8, seed + salt).unwrap();
            // Sorted once: to sort them again for each share takes a tenth of the time.
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            shares.into_iter().map(|share| quantile(&sorted, share).unwrap()).collect()
        };
        let interval = ratio_interval(&draws(&a, 0), &draws(&b, 1_000)).unwrap();
        covered[0] += u64::from(interval.contains(1.0));
        // Rates of a series in which each row is half its neighbour's.
        let series = |values: &[f64]| -> Vec<Slice> {
            values.windows(2).map(|w| Slice { amount: 1.0 + w[0] + w[1], seconds: 1.0 }).collect()
        };
        let (ra, rb) = (rate_draws(&series(&a), seed), rate_draws(&series(&b), seed + 1_000));
        let interval = ratio_interval(&ra.unwrap(), &rb.unwrap()).unwrap();
        covered[1] += u64::from(interval.contains(1.0));
        // Four trials against five, lognormal with the same mean of logarithms.
        let trials = |values: &[f64], n: usize| -> Vec<f64> {
            let normal = |chunk: &[f64]| (chunk.iter().sum::<f64>() - 6.0) * 0.2;
            values.chunks(12).take(n).map(|chunk| normal(chunk).exp()).collect()
        };
        let interval = trials_interval(&trials(&a, 4), &trials(&b, 5)).unwrap();
        covered[2] += u64::from(interval.contains(1.0));
    }
    for (at, covered) in covered.into_iter().enumerate() {
        let share = covered as f64 / EXPERIMENTS as f64;
        assert!((0.88..=0.995).contains(&share), "method {at}: {share}");
    }
}

#[test]
fn a_real_difference_is_outside_the_interval() {
    let series = |values: &[f64], times: f64| -> Vec<Slice> {
        values.iter().map(|v| Slice { amount: times * (1.0 + v), seconds: 1.0 }).collect()
    };
    let (a, b) = (uniform(60, 1), uniform(60, 2));
    let (slow, fast) = (rate_draws(&series(&a, 1.0), 3), rate_draws(&series(&b, 2.0), 4));
    let interval = ratio_interval(&fast.unwrap(), &slow.unwrap()).unwrap();
    assert!(interval.low > 1.7 && interval.high < 2.3 && interval.contains(2.0), "{interval:?}");
    assert!(rate_draws(&series(&a[..9], 1.0), 3).is_none());
    assert!(rate_draws(&[Slice { amount: 1.0, seconds: 0.0 }; 20], 3).is_none());
    assert_eq!(ratio_interval(&[1.0], &[0.0]), None);
}

#[test]
fn welch_s_interval_is_that_of_the_textbook() {
    // Checked by numeric integration of the t density; in R: exp(t.test(log(c(10, 11, 12)),
    // log(c(5, 5.5, 5.2)))$conf.int)
    let interval = trials_interval(&[10.0, 11.0, 12.0], &[5.0, 5.5, 5.2]).unwrap();
    assert!((interval.low - 1.7376).abs() < 1e-3, "{interval:?}");
    assert!((interval.high - 2.5325).abs() < 1e-3, "{interval:?}");
    assert_eq!(
        trials_interval(&[2.0, 2.0], &[1.0, 1.0]).map(|i| (i.low, i.high)),
        Some((2.0, 2.0))
    );
    assert_eq!(trials_interval(&[2.0], &[1.0, 1.0]), None);
    assert_eq!(trials_interval(&[2.0, 0.0], &[1.0, 1.0]), None);
    assert!((geometric_mean(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
    assert_eq!(geometric_mean(&[]), None);
}

#[test]
fn sixteen_s_squared_over_d_squared() {
    assert_eq!(trials_needed(0.1, 0.1), 16);
    assert_eq!(trials_needed(0.05, 0.1), 4);
    assert_eq!(trials_needed(0.5, 0.1), 400);
    assert_eq!(trials_needed(0.0, 0.1), 2);
    assert_eq!(trials_needed(f64::MAX, 0.1), u64::MAX);
}

/// The examples of Wilson's interval and of method 10 in Newcombe's papers (Statistics in Medicine
/// 17, 1998), which give 0.2553 to 0.3662, 0.0524, 0.1705 and 0.0582 as the lower ends.
#[test]
fn a_share_is_above_another_where_newcombe_s_interval_leaves_out_0() {
    let of = |part: u64, of: u64| Proportion { part, of };
    let wilson = of(81, 263).interval().unwrap();
    assert!((wilson.low - 0.2553).abs() < 1e-4 && (wilson.high - 0.3662).abs() < 1e-4);
    for (high, low) in [(of(56, 70), of(48, 80)), (of(9, 10), of(3, 10)), (of(6, 7), of(2, 7))] {
        assert!(high.is_above(low) && !low.is_above(high), "{high:?} {low:?}");
    }
    assert!(of(15, 15).is_above(of(11, 15)) && !of(15, 15).is_above(of(12, 15)));
    assert!(!of(5, 5).is_above(of(5, 5)) && !of(1, 1).is_above(of(0, 0)));
    assert_eq!(of(0, 0).interval(), None);
}

#[test]
fn a_further_value_lies_in_the_interval_of_those_before_it() {
    assert_eq!((further_interval(&[1.0]), further_interval(&[1.0, 0.0])), (None, None));
    let Interval { low, high } = further_interval(&[2.0; 3]).unwrap();
    assert!((low - 2.0).abs() < 1e-12 && (high - 2.0).abs() < 1e-12);
    // Of 9 values the t distribution with 8 degrees of freedom: 2.306.
    let values: Vec<f64> = (0..9).map(|of| f64::from(of - 4).exp()).collect();
    let reach = 2.306 * 7.5f64.sqrt() * (10.0f64 / 9.0).sqrt();
    let Interval { low, high } = further_interval(&values).unwrap();
    assert!((low.ln() + reach).abs() < 1e-2 && (high.ln() - reach).abs() < 1e-2, "{low} {high}");
}
