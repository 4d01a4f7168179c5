//! Each decision of the search by itself, of steps made by hand.

use super::super::Mode;
use super::super::backlog::Backlog;
use super::super::tests::{settings, step_at};
use super::*;

/// Wishes of the search after each of these steps, given as users and bytes/s.
fn wishes(steps: &[(u32, f64)]) -> (Capacity, Vec<Wish>) {
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    let wishes = steps.iter().map(|&(users, rate)| search.after(&step_at(users, rate))).collect();
    (search, wishes)
}

/// The last of them.
fn wish(steps: &[(u32, f64)]) -> Wish {
    *wishes(steps).1.last().unwrap()
}

const fn step(users: u32) -> Wish {
    Wish::Step { users, patient: false }
}

const fn longer(users: u32) -> Wish {
    Wish::Step { users, patient: true }
}

fn longer_at(users: u32, bytes_per_s: f64) -> StepResult {
    StepResult { patient: true, ..step_at(users, bytes_per_s) }
}

fn concluded(search: &Capacity, steps: &[(u32, f64)]) -> (Option<CapacityAnswer>, String) {
    let results: Vec<StepResult> = steps
        .iter()
        .map(|&(users, rate)| StepResult {
            tokens_per_s: rate / 10.0,
            requests_per_s: 1.0,
            ..step_at(users, rate)
        })
        .collect();
    search.conclude(&results.iter().collect::<Vec<_>>())
}

#[test]
fn two_steps_in_a_row_that_do_not_pay_are_a_plateau() {
    let steps = [(10, 100.0), (20, 100.0), (40, 200.0), (80, 200.0), (160, 200.0)];
    let (search, wishes) = wishes(&steps);
    // Between the last that is less, and the first that is as good.
    assert_eq!(wishes, [step(20), step(40), step(80), step(160), step(28)]);
    assert!(concluded(&search, &steps).1.contains("2 doublings in a row brought less than 3 %"));
}

#[test]
fn a_climb_ends_at_the_most_users() {
    let settings = Settings { users_max: 40, ..settings(Mode::Capacity, 1) };
    let mut search = Capacity::new(settings);
    assert_eq!(search.after(&step_at(20, 100.0)), step(40));
    assert_eq!(search.after(&step_at(40, 200.0)), step(28));
    let (_, reason) = concluded(&search, &[(20, 100.0), (40, 200.0)]);
    assert!(reason.starts_with("the search reached its limit of 40 users;"), "{reason}");
}

#[test]
fn a_step_on_the_way_back_that_pays_does_not_begin_another_climb() {
    let climb = [(10, 100.0), (20, 200.0), (40, 200.0), (80, 200.0)];
    assert_eq!(wish(&climb), step(14));
    assert_eq!(wish(&[&climb[..], &[(14, 250.0)]].concat()), step(17));
}

#[test]
fn a_first_step_at_the_peak_is_followed_by_fewer_users() {
    assert_eq!(wish(&[(10, 200.0), (20, 200.0), (40, 200.0)]), step(5));
    assert_eq!(wish(&[(1, 200.0), (2, 200.0), (4, 200.0)]), longer(4));
}

/// A short step was known to 5 % while it moved 43 to 171 % more than a run with as many users: it
/// ended at the first seconds that were even, in which the drive was at its limit.
#[test]
fn longer_steps_decide_about_the_peak_and_its_knee() {
    let (mut search, all) = wishes(&[(1, 100.0), (2, 180.0), (4, 200.0), (8, 201.0)]);
    assert_eq!(all[3], step(16));
    let mut after = |result: StepResult| search.after(&result);
    assert_eq!(after(step_at(16, 200.0)), step(3));
    // The best comes first, which moves less than it seemed to, and so does what is best then.
    assert_eq!(after(step_at(3, 185.0)), longer(8));
    assert_eq!(after(longer_at(8, 196.0)), longer(16));
    assert_eq!(after(longer_at(16, 196.0)), longer(4));
    // The knee was luck, so it lies between 4 and 8.
    assert_eq!(after(longer_at(4, 170.0)), step(6));
    assert_eq!(after(step_at(6, 196.0)), step(5));
    assert_eq!(after(step_at(5, 180.0)), longer(6));
    assert_eq!(after(longer_at(6, 196.0)), Wish::Stop);
    assert_eq!(search.peak(), Some(196.0));
}

#[test]
fn a_summit_is_sought_only_where_throughput_falls_again_beyond_the_best() {
    let climb = |rates: [f64; 4]| {
        let steps: Vec<(u32, f64)> = [10, 20, 40, 80].into_iter().zip(rates).collect();
        wish(&steps)
    };
    // A little less than the best is not less.
    assert_eq!(climb([100.0, 200.0, 199.0, 199.0]), step(14));
    // In the widest gap beside the best; the last of equals.
    assert_eq!(climb([100.0, 200.0, 150.0, 100.0]), step(28));
    assert_eq!(climb([100.0, 200.0, 199.0, 100.0]), step(57));
}

#[test]
fn a_fall_that_noise_explains_is_no_fall() {
    let after = |uncertainty: f64| {
        let mut search = Capacity::new(settings(Mode::Capacity, 1));
        let mut wish = Wish::Stop;
        for (users, rate) in [(10, 100.0), (20, 200.0), (40, 193.0), (80, 193.0)] {
            wish = search.after(&StepResult { uncertainty, ..step_at(users, rate) });
        }
        wish
    };
    assert_eq!(after(0.0), step(28));
    // 193 is less than 0.97 of 200, and more than 0.97 less √2 · 0.01 of it: the knee is all that
    // is left.
    assert_eq!(after(0.01), step(14));
}

#[test]
fn the_knee_lies_between_the_last_that_is_less_and_the_first_that_is_as_good() {
    let steps = [(10, 100.0), (20, 200.0), (20, 150.0), (40, 150.0), (80, 200.0)];
    let (search, _) = wishes(&steps);
    assert_eq!(search.knee_bracket(), (Some(10), Some(20)));
    let (answer, _) = concluded(&search, &steps);
    let answer = answer.unwrap();
    assert_eq!((answer.peak_users, answer.peak_bytes_per_s), (20, 200.0));
    assert_eq!((answer.peak_tokens_per_s, answer.knee_bytes_per_s), (20.0, 200.0));
}

#[test]
fn the_peak_is_the_mean_over_time_of_all_that_reach_99_percent_of_the_best() {
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    for (users, rate, window_s) in [(10, 197.9, 5.0), (20, 198.0, 0.25), (40, 200.0, 0.75)] {
        let _ = search.after(&StepResult { window_s, ..step_at(users, rate) });
    }
    assert_eq!(search.peak(), Some(199.5));
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    assert!(concluded(&search, &[]).0.is_none());
    let _ = search.after(&StepResult { window_s: 0.25, ..step_at(10, 7.0) });
    assert_eq!(search.peak(), Some(7.0));
    // The best of a plateau is so by chance; what fell from it is no part of that.
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    for (users, rate) in [(5, 96.0), (10, 100.0), (20, 98.0), (40, 97.2), (80, 96.0)] {
        let _ = search.after(&step_at(users, rate));
    }
    assert!((search.peak().unwrap() - 98.4).abs() < 1e-9, "{:?}", search.peak());
}

/// Steps that were hardly known counted as good as the best, and took the peak down to a mean with
/// them that its own curve denied.
#[test]
fn steps_that_are_hardly_known_are_no_part_of_the_peak_nor_its_knee() {
    let curve = [
        (1, 0.82, 0.61),
        (2, 1.01, 0.47),
        (4, 1.63, 0.11),
        (8, 1.84, 0.008),
        (16, 1.84, 0.01),
        (32, 1.84, 0.01),
        (6, 1.84, 0.05),
    ];
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    let steps = curve.map(|(users, bytes_per_s, uncertainty)| StepResult {
        uncertainty,
        requests_per_s: 1.0,
        ..step_at(users, bytes_per_s)
    });
    let wishes: Vec<Wish> = steps.iter().map(|result| search.after(result)).collect();
    // From 4 users, of which nothing is known, to 8 and then to 6.
    assert_eq!(wishes[3..], [step(16), step(32), step(6), step(5)]);
    let (answer, reason) = search.conclude(&steps.iter().collect::<Vec<_>>());
    let answer = answer.unwrap();
    assert!((answer.peak_bytes_per_s - 1.84).abs() < 1e-9, "{answer:?}");
    assert_eq!((answer.peak_users, answer.confirmed), (6, false), "{reason}");
}

/// The highest figure was the best, however uncertain, so that nothing after it paid.
#[test]
fn the_best_is_sought_among_what_is_known() {
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    let lucky = StepResult { uncertainty: 0.6, ..step_at(1, 300.0) };
    for result in [lucky.clone(), step_at(2, 100.0), step_at(4, 200.0), step_at(8, 200.0)] {
        let _ = search.after(&result);
    }
    assert_eq!((search.peak(), search.not_paying), (Some(200.0), 1));
    // Where nothing is known there is still a figure.
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    let _ = search.after(&lucky);
    assert_eq!(search.peak(), Some(300.0));
}

#[test]
fn a_peak_that_its_own_curve_does_not_bear_out_is_not_confirmed() {
    let step = |users: u32, bytes_per_s: f64, uncertainty: f64, requests_per_s: f64| StepResult {
        uncertainty,
        requests_per_s,
        window_s: 36.0,
        ..step_at(users, bytes_per_s)
    };
    let longer = |users, bytes_per_s, uncertainty, requests_per_s| StepResult {
        patient: true,
        ..step(users, bytes_per_s, uncertainty, requests_per_s)
    };
    let peak = longer(4, 100.0, 0.0, 1.0);
    let left = StepResult { settled: false, ..peak.clone() };
    for (steps, wanted) in [
        (vec![peak.clone(), step(8, 102.0, 0.0, 1.0)], None),
        (vec![step(2, 60.0, 0.5, 0.0), peak.clone(), step(8, 107.0, 0.05, 1.0)], None),
        // A longer step says more than a short one with as many users.
        (vec![step(8, 120.0, 0.0, 1.0), peak.clone(), longer(8, 100.0, 0.01, 1.0)], None),
        (vec![peak.clone()], Some("a single number of users shows no peak")),
        (vec![peak.clone(), step(8, 120.0, 0.0, 1.0)], Some("8 users moved more")),
        (vec![longer(4, 100.0, 0.2, 1.0), step(8, 100.0, 0.0, 1.0)], Some("--num-users 4")),
        (
            vec![longer(4, 100.0, 0.07, 1.0), step(8, 100.0, 0.0, 1.0)],
            Some("4 users is known only to 7.0 % after 36 s, where a peak takes 5 %"),
        ),
        (
            vec![step(4, 100.0, 0.0, 1.0), step(8, 100.0, 0.0, 1.0)],
            Some("4 users were not measured over"),
        ),
        (vec![left, step(8, 100.0, 0.0, 1.0)], Some("still being served beside 4 users")),
        (vec![longer(4, 100.0, 0.0, 0.0), step(8, 100.0, 0.0, 1.0)], Some("no request of 4 users")),
    ] {
        let doubt = doubt(&steps.iter().collect::<Vec<_>>(), 100.0, 4);
        match wanted {
            None => assert_eq!(doubt, None, "{steps:?}"),
            Some(wanted) => assert!(doubt.as_ref().unwrap().contains(wanted), "{doubt:?}"),
        }
    }
}

#[test]
fn a_search_whose_peak_is_not_confirmed_says_so() {
    let steps = [(1, 200.0)];
    let (search, _) = wishes(&steps);
    let (answer, reason) = concluded(&search, &steps);
    assert!(!answer.unwrap().confirmed);
    assert!(reason.ends_with("not confirmed: a single number of users shows no peak"), "{reason}");
    let steps = [(1, 100.0), (2, 200.0), (4, 200.0), (8, 200.0)];
    let mut search = wishes(&steps).0;
    let mut results: Vec<StepResult> = steps.map(|(users, rate)| step_at(users, rate)).to_vec();
    for users in [8, 2] {
        results.push(StepResult { requests_per_s: 1.0, ..longer_at(users, 200.0) });
        let _ = search.after(&results[results.len() - 1]);
    }
    let (answer, reason) = search.conclude(&results.iter().collect::<Vec<_>>());
    assert!(answer.unwrap().confirmed, "{reason}");
}

#[test]
fn more_is_beyond_three_percent_and_beyond_the_noise_of_both() {
    assert!(is_more((100.0, 0.0), (104.0, 0.0)));
    assert!(!is_more((100.0, 0.0), (102.0, 0.0)));
    assert!(!is_more((100.0, 0.1), (105.0, 0.0)));
    assert!(!is_more((100.0, 0.0), (105.0, 0.1)));
    assert!(is_more((100.0, 0.1), (116.0, 0.1)) && !is_more((100.0, 0.1), (113.0, 0.1)));
    // After nothing, anything is more.
    assert!(is_more((0.0, 0.0), (0.5, 9.0)) && !is_more((0.0, 0.0), (0.0, 0.0)));
    assert!(!is_more((0.5, 0.0), (0.5, 0.0)));
}

#[test]
fn a_climb_that_moves_nothing_goes_on_and_finds_no_peak() {
    let nothing = [(10, 0.0), (20, 0.0), (40, 0.0)];
    let (search, wishes) = wishes(&nothing);
    assert_eq!(wishes, [step(20), step(40), step(80)]);
    let (answer, reason) = concluded(&search, &nothing);
    assert!(answer.is_none() && reason.contains("storage moved nothing"), "{reason}");
    // What moves in the end counts alone.
    let steps = [&nothing[..], &[(80, 100.0), (160, 100.0), (320, 100.0)]].concat();
    let (answer, _) = concluded(&self::wishes(&steps).0, &steps);
    let answer = answer.unwrap();
    assert_eq!((answer.peak_bytes_per_s, answer.peak_users), (100.0, 80));
}

/// A knee that had been even for 30 s was confirmed beside a peak that took ten minutes to know.
#[test]
fn a_longer_step_that_ended_long_before_another_is_taken_again() {
    let of = |users, rate, window_s| StepResult { window_s, ..longer_at(users, rate) };
    let mut search = Capacity::new(settings(Mode::Capacity, 1));
    for (users, rate) in
        [(10, 50.0), (20, 100.0), (40, 101.0), (80, 100.0), (14, 70.0), (17, 100.0)]
    {
        search.after(&step_at(users, rate));
    }
    assert_eq!(search.after(&step_at(16, 80.0)), longer(40));
    assert_eq!(search.after(&of(40, 101.0, 600.0)), longer(17));
    assert_eq!(search.after(&of(17, 100.5, 30.0)), longer(17), "a twentieth of the other's time");
    assert_eq!(search.after(&of(17, 100.5, 300.0)), Wish::Stop);
}

/// A search to its end over steps that move what is given for their users, in longer steps too, of
/// whose requests 1.5 arrive for each that ends where that is so: its answer and its reason.
fn searched(
    settings: Settings,
    first: u32,
    bytes_per_s: impl Fn(u32) -> f64,
    grows: bool,
) -> (CapacityAnswer, String) {
    let mut search = Capacity::new(settings);
    let mut results: Vec<StepResult> = Vec::new();
    let mut wish = step(first);
    while let Wish::Step { users, patient } = wish {
        assert!(results.len() < 60, "it never stopped: {results:?}");
        let mut result = StepResult {
            patient,
            requests_per_s: 1.0,
            uncertainty: 0.01,
            ..step_at(users, bytes_per_s(users))
        };
        let ratio = if grows { 1.5 } else { 1.0 };
        let backlog = Backlog { ratio, uncertainty: 0.1, generating: 0.0 };
        result.storage.backlog = (!settings.users_wait).then_some(backlog);
        wish = search.after(&result);
        results.push(result);
    }
    let (answer, reason) = search.conclude(&results.iter().collect::<Vec<_>>());
    (answer.unwrap(), reason)
}

/// "4 users" to "14 users" were confirmed, by seed, of a curve whose every step was at the peak.
#[test]
fn a_curve_that_is_flat_from_the_fewest_users_shows_no_peak() {
    let open = Settings { users_wait: false, ..settings(Mode::Capacity, 8) };
    let noisy = |users: u32| 100.0 + f64::from(users * 7 % 5) - 2.0;
    for (grows, limit) in [
        (true, "1 user, the fewest tried, moved as much as more did, and their requests pile up"),
        (false, "the rate at which they arrive may be the limit; try --arrival closed"),
    ] {
        let (answer, reason) = searched(open, 8, noisy, grows);
        assert_eq!((answer.flat_from, answer.confirmed), (Some(1), false), "{reason}");
        assert!(answer.usl.is_none(), "{:?}", answer.usl);
        assert!(reason.contains("not confirmed: throughput is flat"), "{reason}");
        assert!(reason.contains(limit), "{reason}");
    }
    // Where throughput rises there is one, also of users who do not wait.
    let rises = |users: u32| 20.0 * f64::from(users.min(5));
    let (answer, reason) = searched(open, 8, rises, false);
    assert_eq!((answer.flat_from, answer.confirmed), (None, true), "{reason}");
    assert_eq!(answer.peak_users, 5);
    // One user who waits is the least load there is; four are not.
    let closed = settings(Mode::Capacity, 8);
    let (answer, reason) = searched(closed, 8, noisy, false);
    assert_eq!((answer.flat_from, answer.confirmed), (None, true), "{reason}");
    let of_four = Settings { users_min: 4, ..closed };
    let (answer, reason) = searched(of_four, 8, noisy, false);
    assert_eq!((answer.flat_from, answer.confirmed), (Some(4), false), "{reason}");
    assert!(reason.ends_with("try a smaller users_min in workload.autoscaler"), "{reason}");
}

#[test]
fn fewer_users_are_tried_until_one_step_lies_clearly_below_the_peak() {
    let climb = [(100, 96.0), (200, 100.0), (400, 100.0), (800, 100.0)];
    let back = [(141, 100.0), (119, 100.0), (109, 100.0), (104, 96.0)];
    let (_, all) = wishes(&[&climb[..], &back].concat());
    assert_eq!(all[3..], [step(141), step(119), step(109), step(104), step(50)]);
    let (_, all) = wishes(&[&climb[..], &back, &[(50, 48.0)]].concat());
    // Of equals the last.
    assert_eq!(all.last(), Some(&longer(109)));
}

#[test]
fn a_fit_that_explains_little_of_the_curve_is_none() {
    let of = |first: f64| {
        let steps = [(1, first), (2, 100.0), (4, 100.0), (8, 100.0)];
        concluded(&wishes(&steps).0, &steps).0.unwrap().usl
    };
    assert!(of(50.0).is_some_and(|fit| fit.r_squared > FIT_MIN));
    assert!(of(10.0).is_none(), "its R² is 0.71");
}
