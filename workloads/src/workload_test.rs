//! The whole machine against a fake engine that answers every step after a fixed time.

use std::collections::BTreeMap;

use super::*;
use crate::contract::Purpose;

/// What a user's request looked like from outside.
type Seen = (Class, Vec<(Purpose, Key, u64)>);

/// Runs `shards` machines to the end of their requests (or to `until`), each step taking
/// `step_ns`; the requests by user, in the order served.
fn run(
    config: &WorkloadConfig,
    shards: u32,
    step_ns: u64,
    until: Nanos,
) -> (BTreeMap<u32, Vec<Seen>>, WorkloadStats) {
    let mut seen: BTreeMap<u32, Vec<Seen>> = BTreeMap::new();
    let mut stats = WorkloadStats::default();
    for shard in 0..shards {
        let config = Arc::new(config.clone());
        let mut workload = Workload::new(config, 11, shard, shards).unwrap();
        workload.start(0);
        let mut due: BinaryHeap<Reverse<(Nanos, RequestId)>> = BinaryHeap::new();
        let mut answers: BTreeMap<RequestId, Outcome> = BTreeMap::new();
        let mut trails: BTreeMap<RequestId, Vec<(Purpose, Key, u64)>> = BTreeMap::new();
        let (mut now, mut actions) = (0, Vec::new());
        loop {
            let wake = workload.next_wake();
            let answer = due.peek().map(|Reverse((at, _))| *at);
            let Some(next) = [wake, answer].into_iter().flatten().min() else { break };
            if next > until {
                break;
            }
            now = now.max(next);
            if answer == Some(next) {
                let Some(Reverse((_, request))) = due.pop() else { unreachable!() };
                let outcome = answers.remove(&request).unwrap();
                let event = Event::StepDone { request, outcome, io_ns: step_ns };
                workload.on_event(now, event, &mut actions);
            } else {
                workload.on_event(now, Event::Tick, &mut actions);
            }
            while workload.queue_head().is_some() {
                workload.on_event(now, Event::SlotGranted, &mut actions);
            }
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Read { request, key, purpose, times, .. } => {
                        trails.entry(request).or_default().push((purpose, key, u64::from(times)));
                        answers.insert(request, Outcome::Hit);
                        due.push(Reverse((now + step_ns, request)));
                    }
                    Action::Write { request, key, purpose, bytes, .. } => {
                        trails.entry(request).or_default().push((purpose, key, bytes));
                        answers.insert(request, Outcome::Written);
                        due.push(Reverse((now + step_ns, request)));
                    }
                    Action::Wait { request, until } => {
                        answers.insert(request, Outcome::Waited);
                        due.push(Reverse((until, request)));
                    }
                    Action::Done { request, record } => {
                        let trail = trails.remove(&request).unwrap_or_default();
                        assert!(record.arrived <= record.started);
                        assert!(record.started <= record.finished);
                        seen.entry(record.user).or_default().push((record.class, trail));
                    }
                }
            }
        }
        stats.merge(&workload.stats());
    }
    (seen, stats)
}

/// Names a request: the entry that it wrote.
fn prefill_key((_, trail): &Seen) -> Option<Key> {
    trail.iter().find(|step| step.0 == Purpose::Prefill).map(|step| step.1)
}

#[test]
fn a_users_requests_are_the_same_at_any_shard_count_and_speed() {
    for arrival in [Arrival::Open, Arrival::Closed] {
        let config = WorkloadConfig {
            num_users: 23,
            max_requests: 400,
            arrival,
            ..WorkloadConfig::default()
        };
        let (expected, _) = run(&config, 1, 1_000_000, Nanos::MAX);
        assert_eq!(expected.values().map(Vec::len).sum::<usize>(), 400);
        for (shards, step_ns) in [(2, 1_000_000), (4, 1), (4, 300_000_000)] {
            let (mut other, _) = run(&config, shards, step_ns, Nanos::MAX);
            // Slow answers let open requests of one user end out of order, never differ.
            let mut expected = expected.clone();
            for requests in expected.values_mut().chain(other.values_mut()) {
                requests.sort_by_key(prefill_key);
            }
            for (user, requests) in &expected {
                assert_eq!(Some(requests), other.get(user), "{arrival:?}, {shards} shards");
            }
            assert_eq!(expected.len(), other.len());
        }
    }
}

#[test]
fn closed_users_wait_for_their_answers_and_open_ones_do_not() {
    let slow_ns = 5_000_000_000;
    let config = WorkloadConfig { num_users: 10, ..WorkloadConfig::default() };
    let (_, open) = run(&config, 1, slow_ns, 60_000_000_000);
    let closed = WorkloadConfig { arrival: Arrival::Closed, ..config };
    let (_, closed) = run(&closed, 1, slow_ns, 60_000_000_000);
    assert!(open.arrived > 5 * closed.arrived, "{} {}", open.arrived, closed.arrived);
}

#[test]
fn users_can_be_added_and_sent_home_while_it_runs() {
    let config = Arc::new(WorkloadConfig { num_users: 10, ..WorkloadConfig::default() });
    let mut shards: Vec<Workload> =
        (0..3).map(|shard| Workload::new(Arc::clone(&config), 1, shard, 3).unwrap()).collect();
    for (total, now) in [(10, 0), (25, 1_000), (4, 2_000), (31, 3_000)] {
        for workload in &mut shards {
            workload.set_users(total, now);
        }
        let active = shards.iter().flat_map(|w| &w.users).filter(|user| user.active).count();
        assert_eq!(active, total as usize);
    }
}

#[test]
fn the_population_is_written_once_by_somebody() {
    let config = Arc::new(WorkloadConfig {
        num_users: 7,
        phases: PhaseMode::DecodeOnly,
        ..WorkloadConfig::default()
    });
    let mut keys: Vec<Key> = (0..3)
        .flat_map(|shard| {
            let workload = Workload::new(Arc::clone(&config), 1, shard, 3).unwrap();
            workload.population().map(|item| item.key).collect::<Vec<_>>()
        })
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 70);
}

#[test]
fn a_hundred_thousand_users_are_cheap_to_hold() {
    let config = Arc::new(WorkloadConfig { num_users: 100_000, ..WorkloadConfig::default() });
    let mut workload = Workload::new(config, 1, 0, 1).unwrap();
    workload.start(0);
    let mut actions = Vec::new();
    workload.on_event(300_000_000, Event::Tick, &mut actions);
    assert!(workload.queue_len() > 10_000);
    workload.stop();
    assert_eq!((workload.queue_len(), workload.next_wake()), (0, None));
    assert_eq!(workload.stats().dropped, workload.stats().arrived);
}
