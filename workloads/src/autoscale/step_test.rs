//! Settling, end and figures of a step, with samples made by hand.

use super::super::tests::{List, noise, settings};
use super::super::{ContextUse, StorageTargets};
use super::*;

fn list(count: u64) -> List {
    List((1..=count).collect())
}

/// Half a second in which something of everything happened.
fn busy() -> Sample<List> {
    Sample {
        length_ns: 500_000_000,
        storage_bytes: 1_000,
        judged_bytes: 1_000,
        tokens: 30,
        classes: [list(100), list(200), list(4)],
        open: Default::default(),
        read: list(100),
        write: list(200),
        read_device: list(300),
        write_device: list(400),
        storage_waits_ns: 1_000_000_000,
        requests_queued: 6,
        requests_served: 5,
        time: TimeShares { queue_ns: 1, storage_ns: 20, generation_ns: 300, total_ns: 4_000 },
        context: ContextUse {
            load: list(100),
            storage_io: list(10),
            turns_found: 3,
            turns_missed: 1,
        },
        drive_busy_ns: Some(250_000_000),
    }
}

/// Samples that a step took, each of which is made from its number, and what came of it.
fn samples_of(
    step: &mut UserStep<List>,
    settings: &Settings,
    sample: impl Fn(usize) -> Sample<List>,
) -> (usize, StepResult) {
    let ended = (1..100).find_map(|n| Some((n, step.observe(&sample(n), settings)?)));
    ended.expect("a step ends")
}

#[test]
fn each_figure_of_a_step_is_that_of_its_window() {
    let settings = Settings { targets_ns: [0, 400, 1], ..settings(Mode::Capacity, 5) };
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let sample = |n| if n == 1 { Sample { tokens: 9_999, ..busy() } } else { busy() };
    let (samples, found) = samples_of(&mut step, &settings, sample);
    assert_eq!((samples, found.users, found.steady), (7, 5, true));
    assert_eq!((found.window_s, found.end_s), (3.0, 3.5));
    assert_eq!((found.bytes_per_s, found.uncertainty), (2_000.0, 0.0));
    assert_eq!((found.tokens_per_s, found.requests_per_s), (60.0, 608.0));
    assert_eq!(found.read_ns, Some([50, 95, 99]));
    assert_eq!((found.loads, found.load_ns), (600, Some([50, 95])));
    assert_eq!((found.storage_io_p95_ns, found.reuse_share), (Some(10), Some(0.75)));
    assert_eq!(found.drive_busy_share, Some(0.5));
    assert_eq!(found.write_ns, Some([100, 190, 198]));
    assert_eq!(found.class_p95_ns, [Some(95), Some(190), Some(4)]);
    // A target of 0 is one of 1 ns.
    assert_eq!((found.saturation, found.worst), (Some(95.0), Some(Part::Class(0))));
    let time = TimeShares { queue_ns: 6, storage_ns: 120, generation_ns: 1_800, total_ns: 24_000 };
    assert_eq!(found.time, time);
    let load = StorageLoad {
        bytes_per_s: 2_000.0,
        read_device_p95_ns: Some(285),
        write_device_p95_ns: Some(380),
        entries_waiting: 2.0,
        requests_waiting: 6.0,
        backlog: None,
    };
    assert_eq!(found.storage, load);
    // A target of 1 ns is one of 1 ns, too.
    let only_last = |_| Sample { classes: [list(0), list(0), list(4)], ..busy() };
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let (_, found) = samples_of(&mut step, &settings, only_last);
    assert_eq!((found.saturation, found.worst), (Some(4.0), Some(Part::Class(2))));
}

#[test]
fn throughput_is_that_of_the_judged_bytes() {
    let settings = settings(Mode::Capacity, 5);
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let (_, found) = samples_of(&mut step, &settings, |_| Sample { judged_bytes: 7_000, ..busy() });
    assert_eq!((found.bytes_per_s, found.storage.bytes_per_s), (14_000.0, 2_000.0));
}

#[test]
fn a_sample_of_no_length_counts_for_nothing() {
    let settings = settings(Mode::Capacity, 5);
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let sample = |n| Sample { length_ns: if n < 3 { 0 } else { 500_000_000 }, ..busy() };
    assert_eq!(samples_of(&mut step, &settings, sample).0, 9);
}

#[test]
fn a_step_that_is_never_steady_ends_and_a_patient_one_sees_eight_requests_of_each_user() {
    for (patient, fewest, most) in [(false, 1 + 3, 1 + 12), (true, 1 + 120, 1 + 600)] {
        let settings = settings(Mode::Slo, 5);
        let sample = |ended: u64, judged_bytes: u64| Sample {
            judged_bytes,
            classes: [list(ended), list(0), list(0)],
            ..busy()
        };
        let run = |sample: &dyn Fn(usize) -> Sample<List>| {
            let mut step = UserStep::new(&settings, 5, patient, 0, 0);
            let ended = (1..1_000).find_map(|n| Some((n, step.observe(&sample(n), &settings)?)));
            ended.expect("a step ends")
        };
        let (samples, found) = run(&|_| sample(100, 1_000));
        assert_eq!((samples, found.steady, found.patient), (fewest, true, patient));
        // One a sample: 120 in time show that the P95 is, and forty are eight of each user; twenty
        // are believed in a short step.
        let (samples, _) = run(&|_| sample(1, 1_000));
        assert_eq!(samples, if patient { 1 + 120 } else { 1 + 12 });
        let (samples, found) = run(&|n| sample(0, 1 + n as u64 % 2));
        assert_eq!((samples, found.steady), (most, false));
        // Of rates of 2 and 4 bytes/s, half each, and as many in each part of a patient step.
        assert_eq!(found.bytes_per_s, 3.0);
        let of_samples = 2.20 * (1.0 / (most - 2) as f64).sqrt() / 3.0;
        let uncertainty = if patient { 0.0 } else { of_samples };
        assert!((found.uncertainty - uncertainty).abs() < 1e-12, "{found:?}");
    }
}

/// A search's longer step with so many requests ended a sample: how many samples it took, and
/// whether its throughput is known.
fn longer(ended: u64, bytes: impl Fn(usize) -> u64) -> (usize, bool) {
    let settings = settings(Mode::Capacity, 5);
    let mut step = UserStep::new(&settings, 5, true, 0, 0);
    let sample = |n: usize| Sample {
        judged_bytes: bytes(n),
        classes: [list(ended), list(0), list(0)],
        ..busy()
    };
    let ended = (1..2_000).find_map(|n| Some((n - 1, step.observe(&sample(n), &settings)?)));
    let (samples, found) = ended.expect("a step ends");
    (samples, found.is_known())
}

#[test]
fn a_longer_step_to_a_peak_sees_eight_requests_of_each_user() {
    assert_eq!(longer(1, |_| 1_000), (40, true));
    // A minimum of 30 samples, and a maximum of 1,200.
    assert_eq!(longer(100, |_| 1_000), (30, true));
    assert_eq!(longer(0, |_| 1_000), (1_200, false), "one without answers is not known");
}

/// 64 users who had just come moved 6 % less in their first ten requests each than they did later,
/// and a peak of many users was that of such requests.
#[test]
fn a_longer_step_to_a_peak_passes_over_four_requests_of_each_user() {
    let begins = |ended: u64| {
        let settings = settings(Mode::Capacity, 5);
        let mut step = UserStep::new(&settings, 5, true, 5, 0);
        let sample = || Sample {
            length_ns: 1_000_000_000,
            classes: [list(ended), list(0), list(0)],
            ..busy()
        };
        (1..1_000).find(|_| {
            let _ = step.observe(&sample(), &settings);
            step.patient_samples() > 0
        })
    };
    assert_eq!((begins(100), begins(1), begins(0)), (Some(2), Some(21), Some(601)));
}

/// A swing that lasts for longer than a step's first samples was known to 5 % by them alone.
#[test]
fn a_longer_step_goes_on_while_its_parts_differ() {
    let swing = |period: usize| move |n: usize| if n % period < period / 2 { 500 } else { 1_500 };
    // Each part of 5 samples holds more than one period of 2.
    assert_eq!(longer(100, swing(2)).1, longer(100, swing(2)).0 < 600);
    let (samples, is_known) = longer(100, swing(60));
    assert!(samples > 60, "{samples} {is_known}");
    // Each part of 200 holds two periods of 100, which shows only at the end.
    assert_eq!(longer(100, |n| swing(100)(n + 35)), (1_200, true));
    // Of one that gets ever faster nothing is known.
    assert_eq!(longer(100, |n| n as u64 * n as u64), (1_200, false));
}

/// On a drive that writes at a tenth of its speed, one in seven longer steps that were known to 5 %
/// was further off, most of all those that ended within two minutes.
#[test]
fn few_samples_have_to_show_more_than_many() {
    // Six parts of five say 2.3 %, and those of ten are even.
    assert_eq!(longer(100, |n| if n % 2 == 0 { 900 } else { 1_100 }), (60, true));
}

#[test]
fn the_parts_of_a_step_are_equal_and_its_last_samples_count() {
    let rates: Vec<f64> = (0..13).map(f64::from).collect();
    assert_eq!(blocks(&rates), [1.5, 3.5, 5.5, 7.5, 9.5, 11.5]);
    assert_eq!(blocks(&rates[..6]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

/// After 200 users the requests of most that had left were measured as the load of one.
#[test]
fn a_step_begins_once_no_more_requests_are_served_than_there_are_users() {
    let begins = |users_wait: bool, served: &dyn Fn(usize) -> u64| {
        let settings = Settings { users_wait, ..settings(Mode::Capacity, 5) };
        let mut step = UserStep::new(&settings, 5, false, 0, 0);
        let sample = |n| Sample { requests_served: served(n), ..busy() };
        let (samples, found) = samples_of(&mut step, &settings, sample);
        (samples - PEAK_SAMPLES_MIN, found.settled)
    };
    assert_eq!(begins(true, &|_| 5), (1, true));
    assert_eq!(begins(true, &|n| if n < 20 { 6 } else { 5 }), (20, true));
    // Who does not wait for answers may have several served at once.
    assert_eq!(begins(false, &|_| 6), (1, true));
    let settings = settings(Mode::Capacity, 5);
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let sample = || Sample { requests_served: 6, ..busy() };
    let ended = (1..10_000).find_map(|n| Some((n, step.observe(&sample(), &settings)?)));
    let (samples, found) = ended.unwrap();
    assert_eq!((samples, found.settled, found.is_known()), (7_207, false, false));
}

/// Requests of users that had left were never served beside those of 23 who were more urgent, so
/// that no step with fewer users said anything.
#[test]
fn users_go_home_while_requests_of_those_that_left_are_held_up() {
    let settings = settings(Mode::Capacity, 5);
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    // One of 40 is served in each second in which nobody asks.
    let (mut left, mut changes) = (40, Vec::new());
    for second in 1..200 {
        let users = step.users_now();
        left -= u64::from(users == 0 && left > 0);
        let sample = Sample {
            length_ns: 1_000_000_000,
            requests_served: left + u64::from(users),
            requests_queued: 0,
            classes: [list(1), list(0), list(0)],
            ..busy()
        };
        let found = step.observe(&sample, &settings);
        if step.users_now() != users {
            changes.push((second, step.users_now()));
        }
        if let Some(found) = found {
            assert_eq!((found.users, found.settled, found.end_s), (5, true, 96.0));
            break;
        }
    }
    // Five requests end before the window of six seconds.
    assert_eq!(changes, [(45, 0), (85, 5)]);
}

/// 8 of a drive's 9 users were too many where 16 had left requests that wait: these pushed out of
/// the CPU tier what was read next, so that there were always as many.
#[test]
fn users_who_do_not_wait_come_once_all_requests_of_more_have_ended() {
    let begins = |users_wait: bool| {
        let settings = Settings { users_wait, ..settings(Mode::Qos, 5) };
        let step = UserStep::new(&settings, 5, false, 0, 0);
        let step = step.inheriting(if users_wait { 0 } else { 495 });
        let mut step = step.after_more_users(&settings);
        let mut left = 40;
        let ended = (1..100).find_map(|n| {
            // One ends in each sample in which nobody asks.
            left -= u64::from(step.users_now() == 0 && left > 0);
            let classes = [list(4), list(0), list(0)];
            let sample = Sample { requests_queued: left, requests_served: 0, classes, ..busy() };
            Some((n, step.observe(&sample, &settings)?))
        });
        let (samples, found) = ended.unwrap();
        (samples - WINDOW_SAMPLES_MIN, found.settled, found.backlog_before)
    };
    // Those of each user that come back end first.
    assert_eq!([begins(false), begins(true)], [(42, true, 0), (1, true, 0)]);
}

/// The P95 of one user was that of the requests that more had left.
#[test]
fn requests_of_earlier_steps_are_counted_until_they_have_ended() {
    let settings = Settings { users_wait: false, ..settings(Mode::Qos, 5) };
    let found = |left: u64, open: &dyn Fn(usize) -> u64| {
        let mut step = UserStep::new(&settings, 5, false, 0, 0).inheriting(left);
        // Four end in each.
        let classes = || [list(4), list(0), list(0)];
        let sample = |n| Sample { requests_queued: open(n), classes: classes(), ..busy() };
        let ended = (1..2_000).find_map(|n| Some((n, step.observe(&sample(n), &settings)?)));
        (ended.unwrap().1.backlog_before, step.leaves())
    };
    // Without more users before it, it begins after one sample.
    assert_eq!([found(0, &|_| 9), found(20, &|_| 9)], [(0, 9), (14, 9)], "five are served, too");
    // One beside twelve is felt in a P95.
    assert_eq!([found(5, &|_| 9), found(4, &|_| 9)], [(1, 9), (0, 9)]);
}

/// Samples of a longer step with five users, of whose requests so many end and are open in each.
fn piling_up(open: impl Fn(u64) -> u64) -> (usize, bool, Backlog) {
    let settings = Settings { users_wait: false, ..settings(Mode::Qos, 5) };
    let mut step = UserStep::new(&settings, 5, true, 0, 0);
    let sample = |n| Sample {
        classes: [list(4), list(0), list(0)],
        read_device: list(20),
        write_device: list(0),
        requests_served: open(n),
        time: TimeShares::default(),
        ..busy()
    };
    let ended = (1..2_000).find_map(|n| Some((n, step.observe(&sample(n), &settings)?)));
    let (samples, found) = ended.unwrap();
    (samples as usize - 1, found.steady, found.storage.backlog.unwrap())
}

#[test]
fn a_longer_step_goes_on_until_it_is_known_whether_requests_pile_up() {
    let (samples, is_known, backlog) = piling_up(|n| n);
    assert_eq!((samples, is_known, backlog.ratio), (30, true, 1.25));
    assert!(backlog.grows());
    let (samples, is_known, backlog) = piling_up(|_| 7);
    assert!((samples, is_known) == (30, true) && backlog.is_held());
    let (samples, is_known, backlog) = piling_up(|n| 3 * (n % 7));
    assert!((60..600).contains(&samples) && is_known && backlog.is_held(), "{samples} {backlog:?}");
    let (samples, is_known, backlog) = piling_up(|n| 50 * (n % 7));
    assert_eq!((samples, is_known), (600, false), "{backlog:?}");
}

/// Samples of a longer step that moves 2,000 bytes/s, held against a peak that moved so many.
fn held_against(bytes_per_s: f64, swing: impl Fn(u64) -> f64) -> u64 {
    let settings = Settings { target_saturation: 0.8, ..settings(Mode::Qos, 5) };
    let storage = StorageTargets { read_p95_ns: 1, ..settings.storage };
    let settings = Settings { storage, ..settings };
    let peak = Peak { users: 20, bytes_per_s, uncertainty: 0.0 };
    let mut step = UserStep::new(&settings, 5, true, 0, 0).held_against(Some(peak));
    let moved = |n| (1_000.0 * (1.0 + swing(n))) as u64;
    let sample = |n| Sample { storage_bytes: moved(n), judged_bytes: moved(n), ..busy() };
    (1..2_000).find(|&n| step.observe(&sample(n), &settings).is_some()).unwrap() - 1
}

/// Half a minute decided whether 82 % of the highest throughput is more than 80 %.
#[test]
fn a_longer_step_goes_on_while_its_throughput_is_nearer_to_the_limit_than_it_is_known() {
    // Six parts of five say 2.3 %, and those of ten are even.
    let even = |n: u64| if n.is_multiple_of(2) { 0.1 } else { -0.1 };
    assert_eq!(
        [2_900.0, 2_550.0, 2_450.0, 2_200.0].map(|peak| held_against(peak, even)),
        [30, 60, 60, 30]
    );
    assert_eq!(held_against(2_501.0, |n| noise(n) / 2.0), 600);
}

const SECOND_NS: u64 = 1_000_000_000;

/// Seconds that a step of slo mode settled and measured, and what came of it, where 100 requests of
/// the first class end in each; `open`: the last class's requests, by second.
fn slo_step(
    targets_ns: [u64; 3],
    mut step: UserStep<List>,
    open: impl Fn(u64) -> List,
) -> (u64, f64, StepResult) {
    let settings = Settings { targets_ns, ..settings(Mode::Slo, 5) };
    let ended = (1..2_000).find_map(|n| {
        let sample = Sample {
            length_ns: SECOND_NS,
            classes: [list(100), list(0), list(0)],
            open: [list(0), list(0), open(n)],
            ..busy()
        };
        Some((n, step.observe(&sample, &settings)?))
    });
    let (seconds, found) = ended.expect("a step ends");
    (seconds - found.window_s as u64, found.window_s, found)
}

/// A step with five users in slo mode.
fn slo(targets_ns: [u64; 3], patient: bool) -> UserStep<List> {
    let settings = Settings { targets_ns, ..settings(Mode::Slo, 5) };
    UserStep::new(&settings, 5, patient, 0, 0)
}

/// A class without a P95 was left out of the judgement, however long its requests had been open.
#[test]
fn open_requests_count_with_their_age() {
    let targets_ns = [SECOND_NS; 3];
    let starved = |count: usize| move |n: u64| List(vec![n * SECOND_NS; count]);
    let (_, window_s, found) = slo_step(targets_ns, slo(targets_ns, false), starved(3));
    assert_eq!((window_s, found.steady), (12.0, false), "of three requests one decides");
    assert_eq!(found.class_p95_ns, [Some(95), None, Some(13 * SECOND_NS)]);
    assert_eq!((found.class_open, found.saturation), ([0, 0, 3], Some(13.0)));
    assert_eq!(found.worst, Some(Part::Class(2)));
    // Twenty that are late are known to be, also in a longer step.
    let (_, window_s, found) = slo_step(targets_ns, slo(targets_ns, false), starved(20));
    assert_eq!((window_s, found.steady, found.saturation), (3.0, true, Some(4.0)));
    let (_, window_s, found) = slo_step(targets_ns, slo(targets_ns, true), starved(20));
    assert_eq!((window_s, found.saturation), (30.0, Some(31.0)));
    // There, so are three that nobody answers.
    let (_, window_s, found) = slo_step(targets_ns, slo(targets_ns, true), starved(3));
    assert_eq!((window_s, found.steady, found.saturation), (30.0, true, Some(31.0)));
    // Those that may yet be in time show nothing, and the step goes on.
    let young = |_| List(vec![SECOND_NS / 2; 20]);
    let (_, window_s, found) = slo_step(targets_ns, slo(targets_ns, false), young);
    assert_eq!((window_s, found.steady, found.class_open), (12.0, false, [0, 0, 20]));
    assert_eq!((found.class_p95_ns, found.worst), ([Some(95), None, None], Some(Part::Class(0))));
}

/// A longer step with five users in which so many of 20 requests a second were late: its length, s,
/// whether it decided, and the share of late ones.
fn lateness(late: impl Fn(u64) -> usize) -> (f64, bool, LateShare) {
    let settings = Settings { targets_ns: [SECOND_NS; 3], ..settings(Mode::Slo, 5) };
    let mut step = slo(settings.targets_ns, true);
    let ended = (1..2_000).find_map(|n| {
        let late = late(n);
        let requests = [vec![1; 20 - late], vec![SECOND_NS + 1; late]].concat();
        let sample =
            Sample { length_ns: SECOND_NS, classes: [List(requests), list(0), list(0)], ..busy() };
        step.observe(&sample, &settings)
    });
    let found = ended.expect("a step ends");
    assert_eq!(found.late[1..], [None; 2]);
    (found.window_s, found.steady, found.late[0].unwrap())
}

/// A number of users was confirmed after 30 s, as soon as its P95 happened to be within the target.
#[test]
fn a_longer_step_goes_on_until_its_p95_is_known_to_be_on_one_side_of_the_target() {
    // 5 % are late, one in each second; then 2.5 %, and 10 %, which is a miss whatever follows.
    let (window_s, is_decided, share) = lateness(|_| 1);
    assert_eq!((window_s, is_decided, share.requests), (600.0, false, 12_000));
    assert!(share.low < 0.05 && share.high > 0.05, "{share:?}");
    let (window_s, is_decided, share) = lateness(|n| (n % 2) as usize);
    assert!((window_s, is_decided) == (120.0, true) && share.is_within(), "{share:?}");
    let (window_s, is_decided, share) = lateness(|_| 2);
    assert!((window_s, is_decided) == (30.0, true) && share.is_beyond(), "{share:?}");
    // As many as 2.5 %, but in bunches of a minute.
    let (window_s, _, share) = lateness(|n| usize::from(n / 60 % 2 == 1));
    assert!(window_s > 120.0 && share.is_within(), "{window_s} {share:?}");
}

/// Steps of 3 s saw those requests alone that were answered within 3 s.
#[test]
fn a_step_takes_as_long_as_the_largest_target_and_a_longer_one_five_times_or_two_minutes() {
    let none = |_| List::default();
    for (target_s, short_s, longer_s) in [(1, 3.0, 120.0), (30, 30.0, 150.0), (900, 600.0, 600.0)] {
        let targets_ns = [SECOND_NS, SECOND_NS, target_s * SECOND_NS];
        let window_s = |patient| slo_step(targets_ns, slo(targets_ns, patient), none).1;
        assert_eq!((window_s(false), window_s(true)), (short_s, longer_s), "{target_s} s");
    }
}

#[test]
fn requests_from_before_a_step_end_before_its_window() {
    let targets_ns = [SECOND_NS; 3];
    let older = |ends: u64| {
        move |n: u64| if n < ends { List(vec![(n + 30) * SECOND_NS]) } else { List::default() }
    };
    let settles = |step, ends| slo_step(targets_ns, step, older(ends)).0;
    assert_eq!(settles(slo(targets_ns, false), 20), 20);
    assert_eq!(settles(slo(targets_ns, false), 1_000), 45, "no longer");
    // Of more users a longer queue is left.
    let after_more = || slo(targets_ns, false).after_more_users(&settings(Mode::Slo, 5));
    assert_eq!([settles(after_more(), 300), settles(after_more(), 1_000)], [300, 600]);
}

/// In slo mode their latency was that of the step's own users.
#[test]
fn requests_from_before_a_step_that_have_not_ended_are_its_backlog() {
    let targets_ns = [SECOND_NS; 3];
    let backlog = |users_wait: bool, older: usize| {
        let settings = Settings { users_wait, targets_ns, ..settings(Mode::Slo, 5) };
        let mut step: UserStep<List> = UserStep::new(&settings, 5, false, 0, 0);
        let ended = (1..100).find_map(|n: u64| {
            let open = List([vec![(n + 30) * SECOND_NS; older], vec![SECOND_NS / 2; 50]].concat());
            let classes = [list(100), list(0), list(0)];
            let open = [list(0), list(0), open];
            let sample = Sample { length_ns: SECOND_NS, classes, open, ..busy() };
            step.observe(&sample, &settings)
        });
        ended.unwrap().backlog_before
    };
    assert_eq!([backlog(false, 80), backlog(true, 80)], [80, 0]);
    assert_eq!(backlog(false, 0), 0, "those of its own users");
    assert_eq!(backlog(false, 5), 0, "too few to change a P95");
}

#[test]
fn a_step_without_any_bytes_is_certain_of_it() {
    let settings = settings(Mode::Capacity, 5);
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let idle = |_| Sample { storage_bytes: 0, judged_bytes: 0, ..busy() };
    let (samples, found) = samples_of(&mut step, &settings, idle);
    assert_eq!((samples, found.bytes_per_s, found.uncertainty), (7, 0.0, 0.0));
    // Rates below 1 byte/s have an uncertainty as all others have.
    let mut step = UserStep::new(&settings, 5, false, 0, 0);
    let slow = |n| Sample { length_ns: 10_000_000_000, judged_bytes: 1 + n as u64 % 2, ..busy() };
    assert!(samples_of(&mut step, &settings, slow).1.uncertainty > 0.1);
}

/// In qos mode, where a request of each user must end first.
fn settled_after(seconds: u64, ended: u64, settle_requests: u32) -> usize {
    let settings = settings(Mode::Qos, 5);
    let mut step = UserStep::new(&settings, 5, false, settle_requests, 0);
    let sample = |_| Sample {
        length_ns: seconds * 1_000_000_000,
        classes: [list(ended), list(0), list(0)],
        read_device: list(0),
        write_device: list(0),
        ..busy()
    };
    samples_of(&mut step, &settings, sample).0 - WINDOW_SAMPLES_MIN
}

#[test]
fn the_window_begins_once_a_request_of_each_user_has_ended() {
    assert_eq!(settled_after(1, 4, 10), 3);
    assert_eq!(settled_after(1, 4, 12), 3);
    assert_eq!(settled_after(1, 4, 13), 4);
    assert_eq!(settled_after(1, 1, 1), 1);
    assert_eq!(settled_after(1, 4, 0), 1);
}

#[test]
fn the_window_begins_after_45_s_at_the_latest() {
    assert_eq!(settled_after(15, 0, 1), 3);
    assert_eq!(settled_after(20, 0, 1), 3);
    assert_eq!(settled_after(50, 0, 1), 1);
}

#[test]
fn entries_that_few_were_of_keep_a_qos_step_waiting() {
    let settings = settings(Mode::Qos, 5);
    let samples = |read: u64, write: u64| {
        let mut step = UserStep::new(&settings, 5, false, 0, 0);
        let sample = |_| Sample { read_device: list(read), write_device: list(write), ..busy() };
        samples_of(&mut step, &settings, sample).0
    };
    // None at all will not become more; 4 a sample are 20 after five.
    assert_eq!([samples(0, 0), samples(7, 7)], [4, 4]);
    assert_eq!([samples(4, 0), samples(0, 4), samples(9, 4)], [6, 6, 6]);
    assert_eq!(samples(100, 1), 1 + WINDOW_SAMPLES_MAX);
}

#[test]
fn a_p95_is_believed_of_twenty_values_and_of_none_beside_them() {
    let believed = |counts: [u64; 2]| is_believed(&counts.map(list));
    for counts in [[20, 0], [0, 20], [20, 20]] {
        assert!(believed(counts), "{counts:?}");
    }
    for counts in [[0, 0], [1, 0], [19, 0], [20, 1], [1, 20], [19, 19]] {
        assert!(!believed(counts), "{counts:?}");
    }
}

#[test]
fn the_uncertainty_is_that_of_student() {
    assert_eq!(mean_and_uncertainty(&[]), (0.0, 0.0));
    assert_eq!(mean_and_uncertainty(&[5.0]), (5.0, 0.0));
    let close = |values: &[f64], mean: f64, uncertainty: f64| {
        let found = mean_and_uncertainty(values);
        assert_eq!(found.0, mean);
        assert!((found.1 / uncertainty - 1.0).abs() < 1e-12, "{found:?} {uncertainty}");
    };
    close(&[1.0, 3.0], 2.0, 12.71);
    close(&[1.0, 2.0, 3.0], 2.0, 4.30 / 3f64.sqrt());
    // 13 values have 12 degrees of freedom; more count as many.
    let ramp = |n: u32| (0..n).map(f64::from).collect::<Vec<f64>>();
    close(&ramp(13), 6.0, 2.18 * (13.0 * 14.0 / 12.0 / 13f64).sqrt());
    close(&ramp(21), 10.0, 2.18 * (21.0 * 22.0 / 12.0 / 21f64).sqrt());
}

#[test]
fn a_ramp_is_not_steady_and_noise_around_a_level_is() {
    assert!(is_steady(&[100.0, 101.0, 99.0, 100.5]));
    assert!(!is_steady(&[60.0, 80.0, 100.0]));
    assert!(!is_steady(&[100.0, 103.0, 106.0, 109.0, 112.0, 115.0]));
    assert!(!is_steady(&[100.0, 140.0, 60.0]));
    assert!(is_steady(&[0.0, 0.0, 0.0]));
    // Known well enough, but not the same in both halves.
    let halves = |second: f64| [[100.0; 6], [second; 6]].concat();
    assert!(!is_steady(&halves(102.5)) && is_steady(&halves(101.9)));
}

#[test]
fn the_largest_part_is_named() {
    let time = TimeShares { queue_ns: 10, storage_ns: 70, generation_ns: 20, total_ns: 100 };
    assert_eq!(time.largest(), ("storage", 0.7));
    let time = TimeShares { storage_ns: 1, total_ns: 1, ..TimeShares::default() };
    assert_eq!(time.largest(), ("storage", 1.0));
    assert_eq!(TimeShares::default().largest().1, 0.0);
}
