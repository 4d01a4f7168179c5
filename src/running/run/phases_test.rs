//! The phases, shown sights that are functions of the time.

use std::convert::Infallible;

use super::*;
use crate::run::conduct::{Shards, conduct};

const PLAN: PhasePlan = PhasePlan {
    start_delay: Nanos::ZERO,
    gathers: false,
    warmup: Nanos::from_secs(2),
    duration: Nanos::from_secs(10),
    ends_when_exhausted: false,
    errors_max: 5,
    silence_max: Nanos::from_secs(30),
};

/// Shards whose sights are a function of the time; what happened is kept.
struct Scripted<F> {
    now: Nanos,
    sight: F,
    told: Vec<(Nanos, Order)>,
}

impl<F: FnMut(Phase, Nanos) -> Sight> Shards for Scripted<F> {
    type Broken = Infallible;

    fn sight(&mut self, phase: Phase) -> Result<Sight, Infallible> {
        Ok(Sight { now: self.now, ..(self.sight)(phase, self.now) })
    }

    fn obey(&mut self, order: Order) -> Result<(), Infallible> {
        self.told.push((self.now, order));
        Ok(())
    }

    fn pass_time(&mut self, _: Phase, until: Nanos) -> Result<(), Infallible> {
        self.now = until.min(self.now + SECOND / 2);
        Ok(())
    }
}

fn run(
    plan: PhasePlan,
    sight: impl FnMut(Phase, Nanos) -> Sight,
) -> (PhaseMachine, Vec<(Nanos, Order)>, Nanos) {
    let mut shards = Scripted { now: SECOND, sight, told: Vec::new() };
    let Ok(phases) = conduct(plan, &mut shards);
    let told = shards.told;
    let opening = [Order::Open, Order::Precondition, Order::Assemble];
    let begun: Vec<&Order> = told.iter().map(|(_, order)| order).take(3).collect();
    assert!(begun.iter().zip(&opening).all(|(told, order)| *told == order), "{begun:?}");
    let (ending, window) = (phases.ending(), phases.window);
    assert_eq!(told.last().map(|(_, order)| order), Some(&Order::Report { ending, window }));
    (phases, told, shards.now)
}

/// Those of the load, without what comes before and after it.
fn of_the_load(told: &[(Nanos, Order)]) -> &[(Nanos, Order)] {
    &told[3..told.len() - 1]
}

/// Endings under which partial results were saved, and when.
fn kept(told: &[(Nanos, Order)]) -> Vec<(Nanos, Ending)> {
    let kept = told.iter().filter_map(|(at, order)| match order {
        Order::Keep { ending } => Some((*at, ending.clone())),
        _ => None,
    });
    kept.collect()
}

/// A second signal ends the process at once.
#[test]
fn what_was_measured_is_handed_over_as_soon_as_a_run_ends_early() {
    let (_, told, _) = run(PLAN, well);
    assert_eq!(kept(&told), []);
    let (_, told, _) = run(PLAN, |phase, now| Sight {
        errors: if now > 5 * SECOND { 100 } else { 0 },
        ..well(phase, now)
    });
    let failed = Ending::Failed("stopped after 100 I/O errors".to_owned());
    assert_eq!(kept(&told), [(5 * SECOND + SECOND / 2, failed)]);
    let stop = told.iter().position(|(_, order)| matches!(order, Order::Stop { .. })).unwrap();
    assert!(matches!(told[stop + 1].1, Order::Keep { .. }), "{told:?}");
}

/// It was once handed over only by runs that end early: a device that falls silent in the drain may
/// hold the process when its file is deleted.
#[test]
fn what_was_measured_is_handed_over_from_a_drain_that_gets_nowhere() {
    let silent = |phase, now: Nanos| Sight {
        ended: now.min(14 * SECOND).as_ns(),
        is_done: phase != Phase::Drain && well(phase, now).is_done,
        ..well(phase, now)
    };
    let (phases, told, _) = run(PLAN, silent);
    let endings = kept(&told);
    let Ending::Failed(first) = &endings[0].1 else { panic!("{endings:?}") };
    assert!(first.contains("nothing has ended for 5 s"), "{first}");
    assert_eq!((endings[0].0, endings.len()), (19 * SECOND, 2), "{endings:?}");
    assert_eq!(endings[1].1, phases.ending(), "the last word is why it failed");
    // Whoever interrupts the drain is given the same, as an interrupted run's, and at once.
    let (_, told, _) =
        run(PLAN, |phase, now| Sight { is_interrupted: now >= 16 * SECOND, ..silent(phase, now) });
    assert_eq!(kept(&told), [(16 * SECOND, Ending::Interrupted)]);
}

#[test]
fn a_run_that_can_not_begin_reports_at_once() {
    for (phase_of_end, orders) in [(Phase::Open, 1), (Phase::Precondition, 2), (Phase::Assemble, 3)]
    {
        for is_interrupted in [true, false] {
            let sight = |phase, now| Sight {
                is_interrupted: is_interrupted && phase == phase_of_end,
                failure: (phase == phase_of_end).then(|| "it can't be".to_owned()),
                ..well(phase, now)
            };
            let mut shards = Scripted { now: SECOND, sight, told: Vec::new() };
            let Ok(phases) = conduct(PLAN, &mut shards);
            let ending = phases.ending();
            let expected = match is_interrupted {
                true => Ending::Interrupted,
                false => Ending::Failed("it can't be".to_owned()),
            };
            assert_eq!((&ending, shards.now), (&expected, SECOND), "while {phase_of_end}");
            let window = (SECOND, SECOND);
            let last = shards.told.pop().map(|(_, order)| order);
            assert_eq!(last, Some(Order::Report { ending, window }));
            assert_eq!(shards.told.len(), orders, "while {phase_of_end}: {:?}", shards.told);
        }
    }
}

/// Everything goes well; one second of population.
fn well(phase: Phase, now: Nanos) -> Sight {
    Sight {
        is_done: phase != Phase::Populate || now >= 2 * SECOND,
        in_flight: 8,
        ended: now.as_ns(),
        ..Sight::default()
    }
}

#[test]
fn a_run_that_gathers_begins_when_it_is_told_to() {
    let plan = PhasePlan { gathers: true, start_delay: SECOND / 2, ..PLAN };
    // Known from the fifth second on.
    let told = |phase, now| Sight {
        begins: (phase == Phase::Gather && now >= 5 * SECOND).then_some(20 * SECOND),
        ..well(phase, now)
    };
    let (phases, told, _) = run(plan, told);
    let window = (22 * SECOND, 32 * SECOND);
    let told = of_the_load(&told);
    assert_eq!(told[1], (19 * SECOND + SECOND / 2, Order::Start { origin: 20 * SECOND, window }));
    assert_eq!((phases.ending(), phases.window), (Ending::Complete, window));
    // A moment that has passed: as soon as it can.
    let late = |phase, now| Sight { begins: Some(SECOND), ..well(phase, now) };
    let (_, told, _) = run(plan, late);
    let told = of_the_load(&told);
    let Order::Start { origin, .. } = told[1].1 else { panic!("{told:?}") };
    assert_eq!(origin, told[1].0 + SECOND / 2);
}

#[test]
fn whoever_waits_for_others_can_be_ended_and_is_not_silent() {
    let plan = PhasePlan { gathers: true, ..PLAN };
    // Nothing ends for an hour, with I/Os that a look finds in flight.
    let still = |phase, now| Sight { ended: 0, ..well(phase, now) };
    let interrupted =
        |phase, now| Sight { is_interrupted: now >= 3_600 * SECOND, ..still(phase, now) };
    let (phases, _, end) = run(plan, interrupted);
    assert_eq!((phases.ending(), end), (Ending::Interrupted, 3_600 * SECOND));
    let failing = |phase, now| Sight {
        failure: (now >= 9 * SECOND).then(|| "rank 2 was killed".to_owned()),
        ..still(phase, now)
    };
    let (phases, _, end) = run(plan, failing);
    assert_eq!(phases.ending(), Ending::Failed("rank 2 was killed".into()));
    assert_eq!(end, 9 * SECOND);
}

#[test]
fn a_run_goes_through_its_phases_in_order_and_on_time() {
    let (phases, told, end) = run(PLAN, well);
    let window = (4 * SECOND, 14 * SECOND);
    let expected = [
        (SECOND, Order::Populate),
        (2 * SECOND, Order::Start { origin: 2 * SECOND, window }),
        (4 * SECOND, Order::BeginWindow),
        (14 * SECOND, Order::Stop { window_end: 14 * SECOND }),
    ];
    assert_eq!(of_the_load(&told), expected);
    assert_eq!((phases.ending(), phases.window, end), (Ending::Complete, window, window.1));
}

#[test]
fn an_interrupt_ends_any_phase_and_the_window_is_what_was_measured() {
    for (at, length) in [(1, 0), (3, 0), (7, 3)] {
        let (phases, told, end) = run(PLAN, |phase, now| Sight {
            is_interrupted: phase >= Phase::Populate && now >= at * SECOND,
            ..well(phase, now)
        });
        assert_eq!(phases.ending(), Ending::Interrupted, "at {at} s");
        let (from, to) = phases.window;
        assert_eq!((to - from, end), (length * SECOND, at * SECOND), "at {at} s");
        let told = of_the_load(&told);
        assert_eq!(told.len(), 5, "every shard is told to start, to stop and to hand over");
    }
}

#[test]
fn errors_end_any_phase_but_the_last() {
    for at in [1, 3, 7] {
        let (phases, _, end) = run(PLAN, |phase, now| Sight {
            errors: if phase >= Phase::Populate && now >= at * SECOND { 5 } else { 4 },
            ..well(phase, now)
        });
        assert_eq!(phases.ending(), Ending::Failed("stopped after 5 I/O errors".into()));
        assert_eq!(end, at * SECOND);
    }
}

#[test]
fn a_device_that_falls_silent_ends_any_phase() {
    // The window is 4 s to 104 s.
    let plan = PhasePlan { duration: 100 * SECOND, ..PLAN };
    for at in [1, 3, 7, 104] {
        let (phases, _, end) = run(plan, |phase, now| Sight {
            ended: now.min(at * SECOND).as_ns(),
            is_done: match phase {
                Phase::Populate => now.min(at * SECOND) >= 2 * SECOND,
                phase => phase != Phase::Drain,
            },
            ..well(phase, now)
        });
        let Ending::Failed(why) = phases.ending() else { panic!("at {at} s it went on") };
        assert!(why.contains("no I/O has ended for 30 s, with 8 in flight"), "{why}");
        // It is first waited for, then given a last chance to end what is in flight.
        let last_chance = if at == 104 { 0 } else { 10 };
        let bound = (at + 30 + last_chance) * SECOND;
        assert_eq!(end / SECOND, bound / SECOND, "silent from {at} s on");
    }
}

#[test]
fn a_shard_that_gets_no_core_is_no_silent_device() {
    let plan = PhasePlan { duration: 400 * SECOND, ..PLAN };
    for is_unheard in [true, false] {
        // From 10 s to 310 s no shard says anything new.
        let (phases, _, end) = run(plan, |phase, now| Sight {
            is_unheard: is_unheard && (10 * SECOND..310 * SECOND).contains(&now),
            ended: if (10 * SECOND..310 * SECOND).contains(&now) { 7 } else { now.as_ns() },
            ..well(phase, now)
        });
        match is_unheard {
            true => assert_eq!((phases.ending(), end), (Ending::Complete, 404 * SECOND)),
            false => assert!(matches!(phases.ending(), Ending::Failed(_)), "at {end:?}"),
        }
    }
    // A run that has failed waits no longer for it.
    let (phases, _, end) = run(plan, |phase, now| Sight {
        errors: if now >= 9 * SECOND { 5 } else { 0 },
        is_unheard: true,
        is_done: phase != Phase::Drain && well(phase, now).is_done,
        ended: 7,
        ..well(phase, now)
    });
    assert_eq!(phases.ending(), Ending::Failed("stopped after 5 I/O errors".into()));
    assert!(end <= 25 * SECOND, "it ended at {} s", end / SECOND);
}

#[test]
fn a_drain_that_makes_progress_may_take_its_time() {
    let (phases, _, end) = run(PLAN, |phase, now| Sight {
        is_done: if phase == Phase::Drain { now >= 300 * SECOND } else { now >= 2 * SECOND },
        ended: now / (29 * SECOND),
        ..well(phase, now)
    });
    assert_eq!((phases.ending(), end), (Ending::Complete, 300 * SECOND));
}

#[test]
fn operations_that_wait_for_each_other_end_the_run_and_blame_no_device() {
    let plan = PhasePlan { duration: 3_600 * SECOND, ..PLAN };
    let stuck = |phase, now| Sight { in_flight: 0, operations: 3, ended: 1, ..well(phase, now) };
    let (phases, _, end) = run(plan, stuck);
    let Ending::Failed(why) = phases.ending() else { panic!("{:?}", phases.ending()) };
    assert!(why.contains("3 operations under way and no I/O in flight"), "{why}");
    assert!(end < plan.silence_max + 60 * SECOND, "it ended at {} s", end / SECOND);
}

#[test]
fn users_that_think_are_not_a_silent_device() {
    let plan = PhasePlan { duration: 3_600 * SECOND, ..PLAN };
    let (phases, ..) = run(plan, |phase, now| Sight { in_flight: 0, ended: 1, ..well(phase, now) });
    assert_eq!(phases.ending(), Ending::Complete);
}

#[test]
fn time_in_which_the_process_was_stopped_is_no_silence() {
    let mut phases = PhaseMachine::new(PLAN);
    let mut now = SECOND;
    for _ in 0..20 {
        let is_done = phases.phase() < Phase::Populate;
        let next = phases.next(&Sight { now, is_done, ..Sight::default() });
        assert!(!matches!(next, NextStep::Tell(Order::Start { .. })), "it gave up");
        now += 3_600 * SECOND;
    }
    assert_eq!(phases.phase(), Phase::Populate);
}

#[test]
fn a_shard_lost_while_draining_makes_the_run_a_failed_one() {
    let (phases, ..) = run(PLAN, |phase, now| Sight {
        failure: (phase == Phase::Drain).then(|| "shard 1 is gone".to_owned()),
        ..well(phase, now)
    });
    assert_eq!(phases.ending(), Ending::Failed("shard 1 is gone".into()));
}

#[test]
fn a_run_ends_with_its_requests_or_its_answer_when_it_may() {
    let exhausted = |phase, now| Sight { is_exhausted: now >= 6 * SECOND, ..well(phase, now) };
    let (_, _, end) = run(PhasePlan { ends_when_exhausted: true, ..PLAN }, exhausted);
    assert_eq!(end, 6 * SECOND);
    let (_, _, end) = run(PLAN, exhausted);
    assert_eq!(end, 14 * SECOND);
    let plan = PhasePlan { ends_when_exhausted: true, ..PLAN };
    let (phases, _, end) =
        run(plan, |phase, now| Sight { is_exhausted: now >= 3 * SECOND, ..well(phase, now) });
    assert_eq!((phases.ending(), end), (Ending::Failed(SERVED_TOO_EARLY.into()), 3 * SECOND));
    let plan = PhasePlan { warmup: Nanos::ZERO, start_delay: SECOND, ..plan };
    let (phases, _, end) = run(plan, |phase, now| Sight { is_exhausted: true, ..well(phase, now) });
    assert_eq!((phases.ending(), end), (Ending::Complete, 3 * SECOND));
    let (phases, _, end) =
        run(PLAN, |phase, now| Sight { has_answer: now >= 5 * SECOND, ..well(phase, now) });
    assert_eq!((phases.ending(), end), (Ending::Complete, 5 * SECOND));
}

/// It was called a defect of ours.
#[test]
fn a_tier_that_never_grows_is_told_as_that() {
    let sight = |phase, now: Nanos| Sight {
        ended: now.min(5 * SECOND).as_ns(),
        in_flight: 0,
        operations: 3,
        is_taking_space: true,
        ..well(phase, now)
    };
    let plan = PhasePlan { duration: 100 * SECOND, ..PLAN };
    let Ending::Failed(why) = run(plan, sight).0.ending() else { panic!("it went on") };
    assert!(why.contains("wait for a tier to grow"), "{why}");
}

#[test]
fn who_interrupts_waits_ten_seconds_for_a_silent_device() {
    let plan = PhasePlan { silence_max: 120 * SECOND, ..PLAN };
    for interrupted_at in [6, 15] {
        let (phases, _, end) = run(plan, |phase, now| Sight {
            ended: now.min(5 * SECOND).as_ns(),
            is_interrupted: now >= interrupted_at * SECOND,
            is_done: phase != Phase::Drain && now >= 2 * SECOND,
            ..well(phase, now)
        });
        assert_eq!(phases.ending(), Ending::Interrupted);
        let bound = (interrupted_at.max(14) + 12) * SECOND;
        assert!(end <= bound, "interrupted at {interrupted_at} s: it ended at {end:?}");
    }
}

/// One machine, told its sights one by one.
fn machine(plan: PhasePlan, phase: Phase) -> PhaseMachine {
    let mut phases = PhaseMachine::new(plan);
    let mut now = SECOND;
    while phases.phase() < phase {
        let next = phases.next(&Sight { now, is_done: true, ..Sight::default() });
        if let NextStep::Wait { until } = next {
            now = until;
        }
    }
    phases
}

#[test]
fn what_an_order_asked_for_is_waited_for() {
    let waits = NextStep::Wait { until: Nanos::MAX };
    for phase in [Phase::Open, Phase::Precondition, Phase::Assemble, Phase::Populate] {
        let mut phases = machine(PLAN, phase);
        let told = phases.next(&Sight { now: SECOND, ..Sight::default() });
        // The first is told as soon as there is a machine, the others when the one before is done.
        assert_eq!(told == NextStep::Tell(Order::Open), phase == Phase::Open, "{phase:?}");
        for _ in 0..3 {
            assert_eq!(phases.next(&Sight { now: SECOND, ..Sight::default() }), waits, "{phase:?}");
        }
    }
    let mut phases = machine(PLAN, Phase::Report);
    let not_done = Sight { now: 20 * SECOND, ..Sight::default() };
    assert_eq!(phases.next(&not_done), waits);
    assert_eq!(phases.next(&Sight { is_done: true, ..not_done.clone() }), NextStep::End);
    assert_eq!(phases.next(&not_done), NextStep::End, "what is over stays over");
    assert_eq!(phases.phase(), Phase::Report);
}

#[test]
fn what_takes_its_time_before_the_load_is_not_silent() {
    for slow in [Phase::Open, Phase::Precondition, Phase::Assemble] {
        let (phases, _, end) = run(PLAN, |phase, now| Sight {
            is_done: if phase == slow { now >= 600 * SECOND } else { now >= 602 * SECOND },
            ended: if phase <= slow { 0 } else { now.as_ns() },
            ..well(phase, now)
        });
        assert_eq!((phases.ending(), end >= 612 * SECOND), (Ending::Complete, true), "{slow:?}");
    }
}

#[test]
fn shards_are_told_the_beginning_a_quarter_of_a_second_ahead() {
    let plan = PhasePlan { gathers: true, start_delay: SECOND / 2, ..PLAN };
    let next = |begins_ms: u64| {
        let mut phases = machine(plan, Phase::Gather);
        let begins = Some(10 * SECOND + Nanos::from_ms(begins_ms));
        phases.next(&Sight { now: 10 * SECOND, begins, ..Sight::default() })
    };
    let starts = |begins_ms: u64| match next(begins_ms) {
        NextStep::Tell(Order::Start { origin, .. }) => origin - 10 * SECOND,
        other => panic!("{other:?}"),
    };
    assert_eq!(next(5_000), NextStep::Wait { until: 14 * SECOND + Nanos::from_ms(750) });
    assert_eq!(next(751), NextStep::Wait { until: 10 * SECOND + Nanos::from_ms(501) });
    for (begins_ms, starts_ms) in [(750, 750), (600, 600), (500, 500), (100, 500)] {
        assert_eq!(starts(begins_ms), Nanos::from_ms(starts_ms));
    }
}

#[test]
fn a_run_that_is_to_end_gathers_no_more() {
    let plan = PhasePlan { gathers: true, ..PLAN };
    let mut phases = machine(plan, Phase::Populate);
    let next = phases.next(&Sight { now: SECOND, is_interrupted: true, ..Sight::default() });
    assert!(matches!(next, NextStep::Tell(Order::Start { .. })), "{next:?}");
}

#[test]
fn only_a_run_that_ends_with_its_requests_fails_when_they_end_in_the_warm_up() {
    let exhausted = |phase, now| Sight { is_exhausted: true, ..well(phase, now) };
    let (phases, _, end) = run(PLAN, exhausted);
    assert_eq!((phases.ending(), end), (Ending::Complete, 14 * SECOND));
    let plan = PhasePlan { ends_when_exhausted: true, ..PLAN };
    let (phases, ..) = run(plan, |phase, now| Sight {
        is_interrupted: phase == Phase::WarmUp,
        ..exhausted(phase, now)
    });
    assert_eq!(phases.ending(), Ending::Interrupted);
}

/// Before anybody waits for what is in flight.
#[test]
fn a_failed_run_hands_over_what_it_measured_ahead_of_the_drain() {
    let (_, told, _) = run(PLAN, |phase, now| Sight {
        errors: if now >= 6 * SECOND { 5 } else { 0 },
        is_done: if phase == Phase::Drain { now >= 9 * SECOND } else { now >= 2 * SECOND },
        ..well(phase, now)
    });
    let failed = Ending::Failed("stopped after 5 I/O errors".to_owned());
    assert_eq!(kept(&told), [(6 * SECOND, failed)]);
}

#[test]
fn a_drain_that_makes_progress_hands_nothing_over() {
    let (_, told, end) = run(PLAN, |phase, now| Sight {
        is_done: if phase == Phase::Drain { now >= 60 * SECOND } else { now >= 2 * SECOND },
        ended: now / (4 * SECOND),
        ..well(phase, now)
    });
    assert_eq!((kept(&told), end), (vec![], 60 * SECOND));
}

#[test]
fn a_single_io_or_operation_that_does_not_end_is_enough() {
    let plan = PhasePlan { duration: 3_600 * SECOND, ..PLAN };
    for (in_flight, operations) in [(1, 0), (0, 1)] {
        let (phases, ..) = run(plan, |phase, now| Sight {
            in_flight,
            operations,
            ended: now.min(9 * SECOND).as_ns(),
            ..well(phase, now)
        });
        assert!(matches!(phases.ending(), Ending::Failed(_)), "{in_flight} {operations}");
    }
}

#[test]
fn an_interrupt_at_the_end_of_the_window_is_an_interrupt() {
    let (phases, ..) =
        run(PLAN, |phase, now| Sight { is_interrupted: now >= 14 * SECOND, ..well(phase, now) });
    assert_eq!(phases.ending(), Ending::Interrupted);
}

#[test]
fn errors_in_the_drain_count_only_when_nobody_waits_for_its_end() {
    let sight = |is_abandoned: bool, errors: u64, is_interrupted: bool| {
        run(PLAN, move |phase, now| Sight {
            errors: if phase == Phase::Drain { errors } else { 0 },
            is_interrupted: is_interrupted && phase == Phase::Drain,
            is_abandoned: is_abandoned && phase == Phase::Drain,
            is_done: if phase == Phase::Drain { now >= 20 * SECOND } else { now >= 2 * SECOND },
            ..well(phase, now)
        })
    };
    let ending = |is_abandoned, errors, is_interrupted| {
        let (phases, _, end) = sight(is_abandoned, errors, is_interrupted);
        (phases.ending(), end)
    };
    let failed = || Ending::Failed("stopped after 5 I/O errors".to_owned());
    assert_eq!(ending(false, 5, false), (Ending::Complete, 20 * SECOND));
    assert_eq!(ending(true, 5, false), (failed(), 14 * SECOND));
    assert_eq!(ending(true, 0, true), (Ending::Interrupted, 14 * SECOND));
    assert_eq!(ending(true, 0, false), (Ending::Complete, 14 * SECOND));
    // What ended the window is not forgotten.
    let (phases, ..) = run(PLAN, |phase, now| Sight {
        errors: if now >= 6 * SECOND { 5 } else { 0 },
        is_interrupted: phase == Phase::Drain,
        is_abandoned: phase == Phase::Drain,
        is_done: phase != Phase::Drain && now >= 2 * SECOND,
        ..well(phase, now)
    });
    assert_eq!(phases.ending(), failed());
}

#[test]
fn a_run_that_was_interrupted_is_in_a_hurry_to_its_end() {
    for (silence_max, patience) in [(120, 10), (3, 3)] {
        let plan = PhasePlan { silence_max: silence_max * SECOND, ..PLAN };
        let (phases, _, end) = run(plan, |phase, now| Sight {
            ended: now.min(6 * SECOND).as_ns(),
            // One look is enough.
            is_interrupted: phase == Phase::Measure && now >= 6 * SECOND,
            is_done: phase != Phase::Drain && now >= 2 * SECOND,
            ..well(phase, now)
        });
        assert_eq!(phases.ending(), Ending::Interrupted);
        assert_eq!(end / SECOND, 6 + patience);
    }
}

/// Each I/O that ended now and then began the wait anew, so that a run did not end for minutes.
#[test]
fn a_slow_device_does_not_hold_who_interrupts_for_longer_than_ten_seconds() {
    // One I/O in eight seconds, and far more in flight than that ends.
    let slow = |phase, now: Nanos| Sight {
        ended: now / (8 * SECOND),
        is_done: phase != Phase::Drain && well(phase, now).is_done,
        ..well(phase, now)
    };
    for at in [1, 3, 7, 20] {
        let (phases, _, end) = run(PLAN, |phase, now| Sight {
            is_interrupted: phase >= Phase::Populate && now >= at * SECOND,
            ..slow(phase, now)
        });
        assert_eq!(phases.ending(), Ending::Interrupted, "at {at} s");
        assert!(end <= (at + 11) * SECOND, "interrupted at {at} s, it ended at {} s", end / SECOND);
    }
}

/// The status was 0, as if nobody had asked it to end.
#[test]
fn a_run_that_is_interrupted_in_its_drain_was_interrupted() {
    let (phases, told, _) = run(PLAN, |phase, now| Sight {
        is_interrupted: now >= 15 * SECOND,
        is_done: if phase == Phase::Drain { now >= 17 * SECOND } else { now >= 2 * SECOND },
        ..well(phase, now)
    });
    let window = (4 * SECOND, 14 * SECOND);
    assert_eq!((phases.ending(), phases.window), (Ending::Interrupted, window));
    assert_eq!(kept(&told), [(15 * SECOND, Ending::Interrupted)]);
}
