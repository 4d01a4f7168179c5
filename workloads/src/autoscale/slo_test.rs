//! Each decision of the search by itself, of steps made by hand.

use super::super::Mode;
use super::super::tests::{settings, step_at};
use super::*;

/// Wishes of the search after each of these steps, given as users and saturation, at a target of
/// 0.5. A step is a longer one where the search wished for that.
fn wishes(users_min: u32, steps: &[(u32, Option<f64>)]) -> (Slo, Vec<Wish>, Vec<StepResult>) {
    let mut search = Slo::new(Settings { users_min, users_max: 80, ..target() });
    let (mut wishes, mut results) = (Vec::new(), Vec::new());
    for &(users, saturation) in steps {
        let patient = matches!(wishes.last(), Some(Wish::Step { patient: true, .. }));
        let result = StepResult { saturation, patient, ..step_at(users, 1.0) };
        wishes.push(search.after(&result));
        results.push(result);
    }
    (search, wishes, results)
}

fn target() -> Settings {
    Settings { target_saturation: 0.5, ..settings(Mode::Slo, 1) }
}

/// Conclusion of the search from these steps.
fn concluded(search: &Slo, results: &[StepResult]) -> (QosAnswer, String) {
    search.conclude(&results.iter().collect::<Vec<_>>())
}

const WELL: Option<f64> = Some(0.5);
const BAD: Option<f64> = Some(0.7);
/// Within a quarter of the target, 0.5.
const MARGINALLY_BAD: Option<f64> = Some(0.6);

const fn step(users: u32) -> Wish {
    Wish::Step { users, patient: false }
}

const fn patient(users: u32) -> Wish {
    Wish::Step { users, patient: true }
}

#[test]
fn the_search_climbs_halves_and_confirms() {
    let steps = [(10, WELL), (20, BAD), (14, WELL), (17, WELL), (18, WELL), (19, BAD), (18, WELL)];
    let (search, wishes, results) = wishes(1, &steps);
    let wished = [step(20), step(14), step(17), step(18), step(19), patient(18), Wish::Stop];
    assert_eq!(wishes, wished);
    let (answer, reason) = concluded(&search, &results);
    assert_eq!((answer.users, answer.confirmed), (18, true));
    assert_eq!(answer.broke.unwrap().users, 19, "the fewest that were too many");
    assert_eq!(reason, "requests of 18 users were served in time over a longer window too");
}

/// "6 users: 1525 ms against 1500 ms" ended a search after half a minute, where ten minutes had
/// 1437 ms.
#[test]
fn users_who_miss_the_target_by_little_are_confirmed_as_too_many() {
    let late = |low, high| [Some(LateShare { requests: 400, low, high }), None, None];
    let last = |low, high| {
        let steps = [(5, WELL), (6, MARGINALLY_BAD), (6, MARGINALLY_BAD), (5, WELL)];
        let (mut search, wishes, mut results) = wishes(1, &steps);
        assert_eq!(wishes[2..], [patient(5), patient(6)]);
        let saturation = MARGINALLY_BAD;
        let worst = Some(Part::Load);
        let bad = StepResult { saturation, worst, late: late(low, high), ..step_at(6, 1.0) };
        results.push(StepResult { patient: true, ..bad });
        assert_eq!(search.after(results.last().unwrap()), Wish::Stop);
        concluded(&search, &results)
    };
    let (answer, reason) = last(0.06, 0.09);
    assert_eq!((answer.users, answer.confirmed), (5, true), "{reason}");
    let (answer, reason) = last(0.03, 0.09);
    assert_eq!((answer.users, answer.confirmed), (5, false));
    assert!(reason.contains("not confirmed: 6 users may be, too: their latency"), "{reason}");
}

/// "1 users were served in time" was said of one.
#[test]
fn one_user_is_named_as_one() {
    let (search, _, results) = wishes(1, &[(1, WELL), (2, BAD), (1, WELL)]);
    let (_, reason) = concluded(&search, &results);
    assert_eq!(reason, "requests of 1 user were served in time over a longer window too");
}

#[test]
fn a_step_in_which_no_request_ended_was_too_much() {
    assert_eq!(wishes(1, &[(10, None)]).1, [step(5)]);
}

#[test]
fn what_is_not_confirmed_is_not_called_so() {
    let (search, _, results) = wishes(1, &[(10, WELL)]);
    let (answer, reason) = concluded(&search, &results);
    assert_eq!((answer.users, answer.confirmed), (10, false));
    assert!(reason.ends_with("10 users were not measured over a longer window"), "{reason}");
}

#[test]
fn the_most_users_are_confirmed_and_named() {
    let (search, wishes, results) = wishes(1, &[(40, WELL), (80, WELL), (80, WELL)]);
    assert_eq!(wishes, [step(80), patient(80), Wish::Stop]);
    let (_, reason) = concluded(&search, &results);
    assert_eq!(
        reason,
        "the search reached its limit of 80 users, and requests were served in time"
    );
}

/// The answer was 0.9 of a number that had failed, which no step had measured.
#[test]
fn after_a_confirmation_that_fails_longer_steps_search_below_it() {
    let steps = [(20, WELL), (40, BAD), (28, BAD), (24, WELL), (26, WELL), (27, BAD), (26, BAD)];
    let (search, found, results) = wishes(1, &steps);
    assert_eq!(found[4..], [step(27), patient(26), patient(13)]);
    assert_eq!(concluded(&search, &results).0.users, 24, "what a shorter step has measured");
    let more = [(13, WELL), (18, BAD), (15, BAD), (14, WELL)];
    let steps = [&steps[..], &more[..]].concat();
    let (search, found, results) = wishes(1, &steps);
    assert_eq!(found[7..], [patient(18), patient(15), patient(14), Wish::Stop]);
    let (answer, _) = concluded(&search, &results);
    assert_eq!((answer.users, answer.confirmed), (14, true));
    // As long as the run may go on, the most users are not known.
    let (search, _, results) = wishes(1, &steps[..9]);
    let (answer, _) = concluded(&search, &results);
    assert_eq!((answer.users, answer.confirmed), (13, false));
}

#[test]
fn a_confirmation_that_fails_is_followed_by_the_fewest_users_at_most() {
    let confirmed = |users: u32, users_min: u32| {
        let steps = [(users, WELL), (users + 1, BAD), (users, BAD)];
        let (search, wishes, results) = wishes(users_min, &steps);
        assert_eq!(wishes[1], patient(users));
        (wishes[2], concluded(&search, &results).0.users)
    };
    assert_eq!(confirmed(10, 1), (patient(5), 0));
    assert_eq!(confirmed(10, 9), (patient(9), 0));
    assert_eq!(confirmed(10, 10), (Wish::Stop, 0));
    assert_eq!(confirmed(2, 1), (patient(1), 0));
    assert_eq!(confirmed(1, 1), (Wish::Stop, 0));
    // No users at all are no answer, whatever the fewest are.
    assert_eq!(confirmed(1, 0), (Wish::Stop, 0));
}

/// Conclusion of a search that found the users of this longer step.
fn confirming(result: StepResult) -> (QosAnswer, String) {
    let users = result.users;
    let of = |users, saturation, classes: [bool; 3]| StepResult {
        saturation,
        class_p95_ns: classes.map(|seen| seen.then_some(1)),
        ..step_at(users, 1.0)
    };
    let mut search = Slo::new(target());
    let mut results =
        vec![of(users, WELL, [false, false, true]), of(users + 1, BAD, [false, true, true])];
    let wishes: Vec<Wish> = results.iter().map(|result| search.after(result)).collect();
    assert_eq!(wishes[1], patient(users));
    results.push(StepResult { saturation: WELL, patient: true, ..result });
    assert_eq!(search.after(&results[2]), Wish::Stop);
    concluded(&search, &results)
}

/// "6 users were served in time", while none of them was of two of the classes.
#[test]
fn a_class_of_which_the_longer_window_had_no_request_is_not_confirmed() {
    let of = |classes: [bool; 3]| StepResult {
        class_p95_ns: classes.map(|seen| seen.then_some(1)),
        ..step_at(3, 1.0)
    };
    let (answer, reason) = confirming(of([false, false, true]));
    assert_eq!((answer.users, answer.confirmed), (3, false));
    assert!(reason.ends_with("no request of class responsive ended in the longer window"));
    // A class that no step has seen is none that anything was promised to.
    assert!(confirming(of([false, true, true])).0.confirmed);
    // Requests that are open are seen, and show nothing.
    let open = StepResult { class_open: [3, 0, 0], ..of([false, true, true]) };
    let (answer, reason) = confirming(open);
    assert!(!answer.confirmed && reason.contains("class interactive ended"), "{reason}");
}

/// Nothing said why 1 and 2 users can't be confirmed, whose classes are not all there are.
#[test]
fn users_too_few_for_each_class_are_not_confirmed_and_it_is_told_how_many_are_enough() {
    for (users, counted) in [(1, "1 user"), (2, "2 users")] {
        let only_batch = [None, None, Some(1)];
        let (answer, reason) =
            confirming(StepResult { class_p95_ns: only_batch, ..step_at(users, 1.0) });
        assert_eq!((answer.users, answer.confirmed), (users, false));
        let told = format!(
            "with {counted} there is none of class responsive, and nothing shows how that class is \
             served; from 3 users on there is one of each class"
        );
        assert!(reason.ends_with(&told), "{reason}");
    }
}

/// Three of 14 numbers that a short window had confirmed missed a target in a long run.
#[test]
fn a_p95_that_may_lie_on_either_side_of_its_target_is_given_with_its_interval() {
    let within = LateShare { requests: 900, low: 0.01, high: 0.05 };
    let open = LateShare { requests: 1_234, low: 0.041, high: 0.067 };
    let of = |late| StepResult {
        class_p95_ns: [Some(1); 3],
        late: [Some(within), late, None],
        window_s: 600.0,
        ..step_at(3, 1.0)
    };
    assert!(confirming(of(Some(within))).0.confirmed && confirming(of(None)).0.confirmed);
    let (answer, reason) = confirming(of(Some(open)));
    assert_eq!((answer.users, answer.confirmed), (3, false));
    for part in [
        "not confirmed: 4.1 to 6.7 % of the requests of class responsive take longer than 50 ms",
        "(95 % confidence, from 1234 in 600 s), where 5 % may",
        "a smaller --target-saturation",
        "--num-users 3 ",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// A short step that began with the queue of more users ended the climb, however little it missed.
#[test]
fn a_step_that_misses_the_target_by_little_is_taken_again_once() {
    let steps = [(10, WELL), (20, MARGINALLY_BAD), (20, WELL), (40, MARGINALLY_BAD), (40, BAD)];
    let (search, found, results) = wishes(1, &steps);
    assert_eq!(found, [step(20), step(20), step(40), step(40), step(28)]);
    let broke = concluded(&search, &results).0.broke.unwrap();
    assert_eq!((broke.users, broke.saturation), (40, BAD), "not the first look at 20");
    let steps = [(10, WELL), (11, MARGINALLY_BAD), (11, MARGINALLY_BAD), (10, MARGINALLY_BAD)];
    let (_, found, _) = wishes(1, &steps);
    assert_eq!(found, [step(20), step(11), patient(10), patient(5)], "a longer step is final");
    let (_, found, _) = wishes(1, &[(10, BAD)]);
    assert_eq!(found, [step(5)]);
}

/// "not confirmed" stood beside "over a longer window too", and the reason nowhere.
#[test]
fn an_answer_that_is_not_confirmed_is_given_with_the_reason() {
    let known = || StepResult { class_p95_ns: [Some(1); 3], ..step_at(1, 1.0) };
    let (answer, reason) = confirming(StepResult { settled: false, ..known() });
    assert_eq!((answer.users, answer.confirmed), (1, false));
    assert_eq!(
        reason,
        "requests of 1 user were served in time, which is not confirmed: requests of users that \
         had left were still being served beside 1 user"
    );
    // The largest target is 1 s.
    let (answer, reason) = confirming(StepResult { window_s: 0.9, ..known() });
    assert!(!answer.confirmed && reason.contains("shorter than the largest target"), "{reason}");
    assert!(confirming(known()).0.confirmed);
}
