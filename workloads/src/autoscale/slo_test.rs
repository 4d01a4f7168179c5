//! Each decision of the search by itself, of steps made by hand.

use super::super::Mode;
use super::super::tests::{settings, step_at};
use super::*;

/// Wishes of the search after each of these steps, given as users and saturation, at a target of
/// 0.5.
fn wishes(users_min: u32, steps: &[(u32, Option<f64>)]) -> (Slo, Vec<Wish>) {
    let mut search = Slo::new(Settings { users_min, users_max: 80, ..target() });
    let wishes = results(steps).iter().map(|result| search.after(result)).collect();
    (search, wishes)
}

fn target() -> Settings {
    Settings { target_saturation: 0.5, ..settings(Mode::Slo, 1) }
}

fn results(steps: &[(u32, Option<f64>)]) -> Vec<StepResult> {
    let result = |&(users, saturation)| StepResult { saturation, ..step_at(users, 1.0) };
    steps.iter().map(result).collect()
}

const WELL: Option<f64> = Some(0.5);
const BAD: Option<f64> = Some(0.51);

const fn step(users: u32) -> Wish {
    Wish::Step { users, patient: false }
}

const fn patient(users: u32) -> Wish {
    Wish::Step { users, patient: true }
}

#[test]
fn the_search_climbs_halves_and_confirms() {
    let steps = [(10, WELL), (20, BAD), (14, WELL), (17, WELL), (18, WELL), (19, BAD), (18, WELL)];
    let (search, wishes) = wishes(1, &steps);
    let wished = [step(20), step(14), step(17), step(18), step(19), patient(18), Wish::Stop];
    assert_eq!(wishes, wished);
    let results = results(&steps);
    let (answer, reason) = search.conclude(&results.iter().collect::<Vec<_>>());
    assert_eq!((answer.users, answer.confirmed), (18, true));
    assert_eq!(answer.broke.unwrap().users, 19, "the fewest that were too many");
    assert_eq!(reason, "requests of 18 users were served in time over a longer window too");
}

/// "1 users were served in time" was said of one.
#[test]
fn one_user_is_named_as_one() {
    let (search, _) = wishes(1, &[(1, WELL), (2, BAD), (1, WELL)]);
    let (_, reason) = search.conclude(&[]);
    assert_eq!(reason, "requests of 1 user were served in time over a longer window too");
}

#[test]
fn a_step_in_which_no_request_ended_was_too_much() {
    assert_eq!(wishes(1, &[(10, None)]).1, [step(5)]);
}

#[test]
fn what_is_not_confirmed_is_not_called_so() {
    let (search, _) = wishes(1, &[(10, WELL)]);
    let (answer, _) = search.conclude(&[]);
    assert_eq!((answer.users, answer.confirmed), (10, false));
}

#[test]
fn the_most_users_are_confirmed_and_named() {
    let (search, wishes) = wishes(1, &[(40, WELL), (80, WELL), (80, WELL)]);
    assert_eq!(wishes, [step(80), patient(80), Wish::Stop]);
    let (_, reason) = search.conclude(&[]);
    assert_eq!(
        reason,
        "the search reached its limit of 80 users, and requests were served in time"
    );
}

#[test]
fn fewer_that_fail_after_more_were_well_are_the_ones_to_confirm() {
    assert_eq!(wishes(1, &[(40, WELL), (20, BAD)]).1, [step(80), patient(20)]);
}

#[test]
fn a_confirmation_that_fails_steps_back_to_the_fewest_users_at_most() {
    let confirmed = |users: u32, users_min: u32| {
        let steps = [(users, WELL), (users + 1, BAD), (users, BAD)];
        let (search, wishes) = wishes(users_min, &steps);
        assert_eq!(wishes[1], patient(users));
        (wishes[2], search.good)
    };
    assert_eq!(confirmed(10, 1), (patient(9), Some(9)));
    assert_eq!(confirmed(10, 9), (patient(9), Some(9)));
    assert_eq!(confirmed(10, 10), (Wish::Stop, None));
    assert_eq!(confirmed(2, 1), (patient(1), Some(1)));
    assert_eq!(confirmed(1, 1), (Wish::Stop, None));
    // No users at all are no answer, whatever the fewest are.
    assert_eq!(confirmed(1, 0), (Wish::Stop, None));
}

/// "6 users were served in time", while none of them was of two of the classes.
#[test]
fn a_class_of_which_the_longer_window_had_no_request_is_not_confirmed() {
    let of = |users, saturation, classes: [bool; 3]| StepResult {
        saturation,
        class_p95_ns: classes.map(|seen| seen.then_some(1)),
        ..step_at(users, 1.0)
    };
    let concluded = |confirming: [bool; 3]| {
        let mut search = Slo::new(target());
        let all = [of(1, WELL, [false, false, true]), of(2, BAD, [false, true, true])];
        let wishes: Vec<Wish> = all.iter().map(|result| search.after(result)).collect();
        assert_eq!(wishes, [step(2), patient(1)]);
        assert_eq!(search.after(&of(1, WELL, confirming)), Wish::Stop);
        search.conclude(&[])
    };
    let (answer, reason) = concluded([false, false, true]);
    assert_eq!((answer.users, answer.confirmed), (1, false));
    assert!(reason.contains("none of them was responsive"), "{reason}");
    // A class that no step has seen is none that anything was promised to.
    assert!(concluded([false, true, true]).0.confirmed);
}
