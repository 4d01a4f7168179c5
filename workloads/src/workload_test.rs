//! The whole machine against a fake engine that answers every step after a fixed time.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::config::GenerationMode;
use crate::contract::{Purpose, RequestEnd, RequestRecord, StepTimes};
use crate::dataset::{Dataset, TurnTokens};
use crate::source::{BurstGpt, Mooncake, Open, Pace, Stream, StreamSettings};

/// A user's request as seen from outside.
type Seen = (Class, Vec<(Purpose, Key, u64)>);

/// The user that ingestion is seen as; a chunk of 0 bytes was let go.
const INGESTION: u64 = u64::MAX;

fn chunk(key: Key, bytes: u64) -> Seen {
    (Class::Batch, vec![(Purpose::Rag, key, bytes)])
}

/// Runs `shards` machines to the end of their requests (or to `until`), each step taking
/// `step_ns`; the requests by user, in the order served.
fn run(
    config: &WorkloadConfig,
    source: &Source,
    rows: &[SourceRequest],
    (shards, step_ns): (u32, u64),
    until: Nanos,
) -> (BTreeMap<u64, Vec<Seen>>, WorkloadStats) {
    let mut seen: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    let mut stats = WorkloadStats::default();
    for shard in 0..shards {
        let config = Arc::new(config.clone());
        let mut workload = Workload::new(config, source.clone(), 11, shard, shards).unwrap();
        let rows = rows.iter().filter(|row| row.user % u64::from(shards) == u64::from(shard));
        run_shard(&mut workload, rows, (step_ns, until), &mut seen);
        stats.merge(&workload.stats());
    }
    (seen, stats)
}

/// Gives the machine the rows that it has room for.
fn supply<'a>(workload: &mut Workload, rows: &mut impl Iterator<Item = &'a SourceRequest>) {
    while workload.wants_rows() {
        match rows.next() {
            Some(row) => workload.supply(row.clone()),
            None => workload.supply_end(),
        }
    }
}

/// Runs one machine to the end of its requests, or to `until`.
fn run_shard<'a>(
    workload: &mut Workload,
    mut rows: impl Iterator<Item = &'a SourceRequest>,
    (step_ns, until): (u64, Nanos),
    seen: &mut BTreeMap<u64, Vec<Seen>>,
) {
    workload.start(Nanos::ZERO);
    let step = Nanos::from_ns(step_ns);
    let mut due: BinaryHeap<Reverse<(Nanos, RequestId)>> = BinaryHeap::new();
    let mut answers: BTreeMap<RequestId, Outcome> = BTreeMap::new();
    let mut trails: BTreeMap<RequestId, Vec<(Purpose, Key, u64)>> = BTreeMap::new();
    let (mut now, mut actions) = (Nanos::ZERO, Vec::new());
    // When the chunk that is being written is.
    let mut ingested: Option<Nanos> = None;
    loop {
        supply(workload, &mut rows);
        let wake = workload.next_wake();
        let answer = due.peek().map(|Reverse((at, _))| *at);
        let Some(next) = [wake, answer, ingested].into_iter().flatten().min() else { break };
        if next > until {
            break;
        }
        now = now.max(next);
        if answer == Some(next) {
            let Some(Reverse((_, request))) = due.pop() else { unreachable!() };
            let outcome = answers.remove(&request).unwrap();
            let done = Event::StepDone {
                request,
                outcome,
                times: StepTimes { io_ns: step_ns, ..StepTimes::default() },
            };
            workload.on_event(now, done, &mut actions);
        } else if ingested.take_if(|at| *at == next).is_some() {
            let event = Event::Ingested { outcome: Outcome::Written };
            workload.on_event(now, event, &mut actions);
        } else {
            workload.on_event(now, Event::Tick, &mut actions);
        }
        while workload.queue_head().is_some() {
            workload.on_event(now, Event::SlotGranted, &mut actions);
        }
        assert_eq!(workload.queue_len(), 0);
        let mut answer_at = |at, request, outcome| {
            answers.insert(request, outcome);
            due.push(Reverse((at, request)));
        };
        for action in std::mem::take(&mut actions) {
            match action {
                Action::Read { request, key, purpose, times, .. } => {
                    trails.entry(request).or_default().push((purpose, key, u64::from(times)));
                    answer_at(now + step, request, Outcome::Hit);
                }
                Action::Write { request, key, purpose, bytes, .. } => {
                    trails.entry(request).or_default().push((purpose, key, bytes));
                    answer_at(now + step, request, Outcome::Written);
                }
                Action::ReadPrefix { .. } | Action::WriteAll { .. } => panic!("one at a time"),
                Action::Ingest { key, bytes } => {
                    assert!(ingested.replace(now + step).is_none(), "one chunk at a time");
                    seen.entry(INGESTION).or_default().push(chunk(key, bytes));
                }
                Action::Forget { key } => {
                    seen.entry(INGESTION).or_default().push(chunk(key, 0));
                }
                Action::Wait { request, until } => answer_at(until, request, Outcome::Waited),
                Action::Done { request, record } => {
                    assert!(record.arrived <= record.started && record.started <= record.finished);
                    let trail = (record.class, trails.remove(&request).unwrap_or_default());
                    seen.entry(record.user).or_default().push(trail);
                }
            }
        }
    }
    assert!(until < Nanos::MAX || workload.is_exhausted());
}

/// Names a request: the entry that it wrote, or the first block that it read.
fn first_write((_, trail): &Seen) -> Option<Key> {
    let names = |step: &&(Purpose, Key, u64)| matches!(step.0, Purpose::Prefill | Purpose::Block);
    trail.iter().find(names).map(|step| step.1)
}

/// Every source, with its rows if it has any.
fn sources() -> Vec<(&'static str, WorkloadConfig, Source, Vec<SourceRequest>)> {
    let config = WorkloadConfig {
        num_users: 23,
        max_requests: 400,
        rag_documents: 5,
        ..WorkloadConfig::default()
    };
    let mut dataset = Dataset::default();
    for conversation in 1..20u32 {
        let turn = |n| TurnTokens { context_tokens: conversation * 50 + n, generate_tokens: n + 1 };
        dataset.push(&(0..conversation % 5 + 1).map(turn).collect::<Vec<_>>());
    }
    let burst = include_str!("../../tests/data/burst_sessions.csv");
    let mooncake = include_str!("../../tests/data/mooncake_part.jsonl");
    let rows = |open: Open| {
        let settings = StreamSettings {
            pace: Pace::Recorded { speedup: 20.0 },
            cycles: 2,
            requests_max: 400,
            users: 23,
            seed: 11,
        };
        let mut stream = Stream::new(open, 1, settings);
        std::iter::from_fn(|| stream.next_request().unwrap()).collect::<Vec<_>>()
    };
    let poisson =
        WorkloadConfig { arrival: Arrival::Poisson, request_rate_per_s: 40.0, ..config.clone() };
    let closed = WorkloadConfig { arrival: Arrival::Closed, ..config.clone() };
    let dataset = Source::Dataset(Arc::new(dataset));
    vec![
        ("open", config.clone(), Source::Synthetic, vec![]),
        ("closed", closed.clone(), Source::Synthetic, vec![]),
        ("poisson", poisson.clone(), Source::Synthetic, vec![]),
        ("dataset", closed, dataset.clone(), vec![]),
        ("dataset, paced", poisson, dataset, vec![]),
        (
            "sessions",
            config.clone(),
            Source::Rows { block_tokens: 0 },
            rows(Box::new(move |_| Ok(Box::new(BurstGpt::new(burst.as_bytes())?)))),
        ),
        (
            "blocks",
            config,
            Source::Rows { block_tokens: 512 },
            rows(Box::new(move |_| Ok(Box::new(Mooncake::new(mooncake.as_bytes()))))),
        ),
    ]
}

#[test]
fn a_users_requests_are_the_same_at_any_shard_count_and_speed() {
    for (name, config, source, rows) in sources() {
        let (expected, _) = run(&config, &source, &rows, (1, 1_000_000), Nanos::MAX);
        let requests: usize = expected.values().map(Vec::len).sum();
        assert_eq!(requests, if rows.is_empty() { 400 } else { rows.len() }, "{name}");
        for (shards, step_ns) in [(2, 1_000_000), (4, 1), (4, 300_000_000)] {
            let (mut other, _) = run(&config, &source, &rows, (shards, step_ns), Nanos::MAX);
            // Slow answers let open requests of one user end out of order, never differ.
            let mut expected = expected.clone();
            for requests in expected.values_mut().chain(other.values_mut()) {
                requests.sort_by_key(first_write);
            }
            for (user, requests) in &expected {
                assert_eq!(Some(requests), other.get(user), "{name}, {shards} shards");
            }
            assert_eq!(expected.len(), other.len());
        }
    }
}

#[test]
fn sessions_read_their_earlier_turns() {
    let (_, config, source, rows) =
        sources().into_iter().find(|(name, ..)| *name == "sessions").unwrap();
    let (mut seen, _) = run(&config, &source, &rows, (1, 1), Nanos::MAX);
    seen.values_mut().for_each(|requests| requests.sort_by_key(first_write));
    let history = |requests: &Vec<Seen>| {
        let reads = requests
            .iter()
            .map(|(_, trail)| trail.iter().filter(|step| step.0 == Purpose::History).count());
        reads.collect::<Vec<usize>>()
    };
    let longest = seen.values().map(history).max_by_key(Vec::len).unwrap();
    assert!(longest.len() > 2);
    assert_eq!(longest, (0..longest.len()).collect::<Vec<_>>());
}

#[test]
fn closed_users_wait_for_their_answers_and_open_ones_do_not() {
    let slow_ns = 5_000_000_000;
    let config = WorkloadConfig { num_users: 10, ..WorkloadConfig::default() };
    let none = Source::Synthetic;
    let (_, open) = run(&config, &none, &[], (1, slow_ns), Nanos::from_secs(60));
    let closed = WorkloadConfig { arrival: Arrival::Closed, ..config };
    let (_, closed) = run(&closed, &none, &[], (1, slow_ns), Nanos::from_secs(60));
    assert!(open.arrived > 5 * closed.arrived, "{} {}", open.arrived, closed.arrived);
}

/// Ticks until nothing is due any more; how many ticks that took.
fn catch_up(workload: &mut Workload, now: Nanos, actions: &mut Vec<Action>) -> u32 {
    let mut ticks = 0;
    while workload.next_wake().is_some_and(|due| due <= now) {
        workload.on_event(now, Event::Tick, actions);
        ticks += 1;
    }
    ticks
}

#[test]
fn a_backlog_is_counted_but_not_kept() {
    let config = Arc::new(WorkloadConfig { num_users: 10, ..WorkloadConfig::default() });
    let mut workload = Workload::new(config, Source::Synthetic, 1, 0, 1).unwrap();
    workload.start(Nanos::ZERO);
    let mut actions = Vec::new();
    let hour = Nanos::from_secs(3_600);
    // However much is due, whoever drives it is asked again soon.
    let ticks = catch_up(&mut workload, hour, &mut actions);
    let arrived = workload.stats().arrived;
    assert!(arrived > 30_000 && ticks > 7, "{arrived}, {ticks}");
    assert_eq!((workload.queue_len(), workload.queue.len()), (arrived, 10));
    assert!(workload.queue_age(hour) > hour - Nanos::from_secs(3));
    // The most urgent class is worked off first, in the order of arrival over all its users.
    let mut last = (Class::Interactive, Nanos::ZERO);
    for left in (arrived - 1_000..arrived).rev() {
        let head = workload.queue_head().unwrap();
        assert!(head >= last, "{head:?} after {last:?}");
        last = head;
        workload.on_event(hour, Event::SlotGranted, &mut actions);
        assert_eq!(workload.queue_len(), left);
    }
    workload.set_users(0, hour);
    assert_eq!((workload.queue_len(), workload.queue_head()), (0, None));
    assert_eq!(workload.stats().dropped, arrived - 1_000);
}

/// Serves all that is queued at `now`, one request after the other, from a cache that holds what
/// was written before: by user, what each request looked for as history, in order, and how many of
/// those reads were hits and misses.
fn serve_all(workload: &mut Workload, now: Nanos) -> (BTreeMap<u64, Vec<Vec<Key>>>, [u64; 2]) {
    let (mut served, mut written) = (BTreeMap::<u64, Vec<Vec<Key>>>::new(), BTreeSet::new());
    let (mut counts, mut actions) = ([0, 0], Vec::new());
    while workload.queue_head().is_some() {
        workload.on_event(now, Event::SlotGranted, &mut actions);
        let mut looked_for = Vec::new();
        while let Some(action) = actions.pop() {
            let (request, outcome) = match action {
                Action::Read { request, key, purpose, .. } => {
                    let is_there = written.contains(&key);
                    if purpose == Purpose::History {
                        looked_for.push(key);
                        counts[usize::from(!is_there)] += 1;
                    }
                    let miss = Outcome::Miss { reads_done: 0 };
                    (request, if is_there { Outcome::Hit } else { miss })
                }
                Action::Write { request, key, .. } => {
                    written.insert(key);
                    (request, Outcome::Written)
                }
                Action::Wait { request, .. } => (request, Outcome::Waited),
                Action::Done { record, .. } => {
                    let requests = served.entry(record.user).or_default();
                    requests.push(std::mem::take(&mut looked_for));
                    continue;
                }
                other => panic!("{other:?} is no step of a request"),
            };
            let done = Event::StepDone { request, outcome, times: StepTimes::default() };
            workload.on_event(now, done, &mut actions);
        }
    }
    (served, counts)
}

#[test]
fn turns_that_are_queued_are_looked_for_only_when_asked_and_are_all_missed() {
    let minute = Nanos::from_secs(60);
    let of = |history_counts_queued_turns: bool| {
        let config = WorkloadConfig {
            num_users: 5,
            history_counts_queued_turns,
            ..WorkloadConfig::default()
        };
        let mut workload =
            Workload::new(Arc::new(config.clone()), Source::Synthetic, 11, 0, 1).unwrap();
        workload.start(Nanos::ZERO);
        catch_up(&mut workload, minute, &mut Vec::new());
        let (served, counts) = serve_all(&mut workload, minute);
        for (&user, requests) in &served {
            // The user's turns again, one after the other.
            let habits = &Habits::of(&config, &Source::Synthetic, 5);
            let mut model = User::new(&config, habits, 11, user as u32, Nanos::ZERO);
            let turns: Vec<u32> = (0..requests.len())
                .map(|_| {
                    let demand = model.arrive(habits).unwrap();
                    assert!(model.served(habits).is_none());
                    let Turn::Number(turn) = demand.turn else { panic!("{demand:?}") };
                    turn
                })
                .collect();
            for (number, looked_for) in requests.iter().enumerate() {
                let turn = turns[number] as usize;
                let after = turns[number + 1..].iter().take_while(|later| **later > 0).count();
                let queued = if history_counts_queued_turns && turn > 0 { after } else { 0 };
                let others = (number - turn..number).chain(number + 1..=number + queued);
                let keys: Vec<Key> = others.map(|other| key::turn(user, other as u64)).collect();
                assert_eq!(looked_for, &keys, "user {user}, request {number}, turn {turn}");
            }
        }
        assert_eq!(served.values().map(Vec::len).sum::<usize>() as u64, workload.stats().arrived);
        counts
    };
    let ([hits, none], [same, misses]) = (of(false), of(true));
    assert_eq!((same, none), (hits, 0), "the I/O is the same");
    // A turn looks for as many turns after it as before it, but the first of a conversation for
    // none: of n turns n(n-1)/2 against (n-1)(n-2)/2.
    assert!(hits > 500 && (hits / 2..hits).contains(&misses), "{hits}, {misses}");
}

#[test]
fn nothing_of_a_trace_arrives_before_the_start() {
    for arrival in [None, Some(Nanos::ZERO)] {
        let config = Arc::new(WorkloadConfig::default());
        let mut workload =
            Workload::new(config, Source::Rows { block_tokens: 0 }, 1, 0, 1).unwrap();
        let (user, sequence, cycle, blocks) = (0, 0, 0, None);
        let (context_tokens, generate_tokens, turn) = (1, 1, Turn::Alone);
        workload.supply(SourceRequest {
            operation: None,
            arrival,
            user,
            sequence,
            turn,
            context_tokens,
            generate_tokens,
            blocks,
            cycle,
        });
        let mut actions = Vec::new();
        workload.on_event(Nanos::from_ns(1 << 50), Event::Tick, &mut actions);
        assert_eq!((workload.next_wake(), workload.queue_len()), (None, 0));
        workload.start(Nanos::ZERO);
        workload.on_event(Nanos::from_ns(5), Event::Tick, &mut actions);
        assert_eq!(workload.queue_len(), 1);
    }
}

#[test]
fn a_trace_that_falls_behind_stays_in_its_file() {
    let config = Arc::new(WorkloadConfig::default());
    let mut workload = Workload::new(config, Source::Rows { block_tokens: 512 }, 1, 0, 1).unwrap();
    let mut actions = Vec::new();
    let mut supplied = 0u64;
    workload.start(Nanos::ZERO);
    // Blocks of 1,600 bytes, due long ago, none of them served.
    while workload.wants_rows() {
        workload.supply(SourceRequest {
            operation: None,
            arrival: Some(Nanos::from_ns(supplied)),
            user: supplied,
            sequence: supplied,
            turn: Turn::Alone,
            context_tokens: 200 * 512,
            generate_tokens: 1,
            blocks: Some((0..200).collect()),
            cycle: 0,
        });
        supplied += 1;
        workload.on_event(Nanos::from_ns(1 << 40), Event::Tick, &mut actions);
        assert!(supplied < 100_000);
    }
    assert!((15_000..25_000).contains(&supplied), "{supplied}");
    workload.on_event(Nanos::from_ns(1 << 40), Event::SlotGranted, &mut actions);
    assert!(workload.wants_rows());
}

#[test]
fn users_can_be_added_and_sent_home_while_it_runs() {
    let config = Arc::new(WorkloadConfig { num_users: 10, ..WorkloadConfig::default() });
    let mut shards: Vec<Workload> = (0..3)
        .map(|shard| Workload::new(Arc::clone(&config), Source::Synthetic, 1, shard, 3).unwrap())
        .collect();
    for (total, ns) in [(10, 0), (25, 1_000), (4, 2_000), (31, 3_000)] {
        for workload in &mut shards {
            workload.set_users(total, Nanos::from_ns(ns));
        }
        let active = shards.iter().flat_map(|w| &w.users).filter(|user| user.active).count();
        assert_eq!(active, total as usize);
    }
}

/// The requests of 115 users that had left were the load of one.
#[test]
fn a_user_that_is_sent_home_finishes_its_step_and_no_more() {
    let config = WorkloadConfig { num_users: 1, arrival: Arrival::Closed, ..Default::default() };
    let mut workload = Workload::new(Arc::new(config), Source::Synthetic, 1, 0, 1).unwrap();
    workload.start(Nanos::ZERO);
    let (now, mut actions) = (workload.next_wake().unwrap(), Vec::new());
    workload.on_event(now, Event::Tick, &mut actions);
    workload.on_event(now, Event::SlotGranted, &mut actions);
    let request = match actions.pop() {
        Some(Action::Read { request, .. } | Action::Write { request, .. }) => request,
        other => panic!("{other:?}"),
    };
    workload.set_users(0, now);
    let (outcome, times) = (Outcome::Written, StepTimes::default());
    workload.on_event(now, Event::StepDone { request, outcome, times }, &mut actions);
    let Some(Action::Done { record, .. }) = actions.pop() else { panic!("{actions:?}") };
    assert_eq!((record.end, workload.stats().dropped), (RequestEnd::Dropped, 1));
    assert_eq!(workload.next_wake(), None);
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
            let workload =
                Workload::new(Arc::clone(&config), Source::Synthetic, 1, shard, 3).unwrap();
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
    let mut workload = Workload::new(config, Source::Synthetic, 1, 0, 1).unwrap();
    workload.start(Nanos::ZERO);
    let (mut actions, soon) = (Vec::new(), Nanos::from_ms(300));
    catch_up(&mut workload, soon, &mut actions);
    assert!(workload.queue_len() > 10_000);
    workload.stop(soon);
    assert_eq!((workload.queue_len(), workload.next_wake()), (0, None));
    assert_eq!(workload.stats().dropped, workload.stats().arrived);
}

/// Everything that is seen of a workload.
#[derive(PartialEq, Default)]
struct Served {
    ended: Vec<RequestRecord>,
    /// Intended arrivals of what had not ended, at each change of the number of users.
    open: Vec<Vec<(Class, Nanos)>>,
    /// Requests that waited then.
    queued: Vec<u64>,
    stats: WorkloadStats,
}

/// Serves three requests at a time for 20 s, each step in 7 ms, while the number of users changes
/// to these.
fn serve_three(mut workload: Workload, users: [u32; 5]) -> Served {
    let step = Nanos::from_ms(7);
    let (mut served, mut now, mut serving) = (Served::default(), Nanos::ZERO, 0);
    let mut due: BinaryHeap<Reverse<(Nanos, RequestId)>> = BinaryHeap::new();
    let (mut outcomes, mut actions) = (BTreeMap::new(), Vec::new());
    workload.start(now);
    for (until_s, users) in [5, 9, 12, 16, 20].into_iter().zip(users) {
        let until = Nanos::from_secs(until_s);
        loop {
            while serving < 3 && workload.queue_head().is_some() {
                workload.on_event(now, Event::SlotGranted, &mut actions);
                serving += 1;
            }
            for action in actions.drain(..) {
                let (request, outcome, at) = match action {
                    Action::Read { request, .. } => (request, Outcome::Hit, now + step),
                    Action::Write { request, .. } => (request, Outcome::Written, now + step),
                    Action::Wait { request, until } => (request, Outcome::Waited, until),
                    Action::Done { record, .. } => {
                        served.ended.push(record);
                        serving -= 1;
                        continue;
                    }
                    other => panic!("{other:?} is no step of a request"),
                };
                outcomes.insert(request, outcome);
                due.push(Reverse((at, request)));
            }
            if serving < 3 && workload.queue_head().is_some() {
                continue;
            }
            let wake = workload.next_wake();
            let answer = due.peek().map(|Reverse((at, _))| *at);
            let next = wake.into_iter().chain(answer).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            now = now.max(next);
            let event = match wake == Some(next) {
                true => Event::Tick,
                false => {
                    let Some(Reverse((_, request))) = due.pop() else { unreachable!() };
                    let (outcome, times) = (outcomes[&request], StepTimes::default());
                    Event::StepDone { request, outcome, times }
                }
            };
            workload.on_event(now, event, &mut actions);
        }
        now = until;
        let mut arrivals = Vec::new();
        let before = until.saturating_sub(Nanos::from_ms(100));
        workload.unfinished(now, before, &mut |class, arrived, times| {
            assert_eq!(times, 1);
            arrivals.extend(arrived.iter().map(|at| (class, *at)));
        });
        arrivals.sort_unstable();
        served.open.push(arrivals);
        workload.count_arrivals(now);
        served.queued.push(workload.queue_len());
        workload.set_users(users, now);
    }
    workload.stop(now);
    assert_eq!((workload.queue_len(), workload.next_wake()), (0, None));
    Served { stats: workload.stats(), ..served }
}

#[test]
fn requests_counted_later_are_served_and_counted_as_if_counted_at_once() {
    let open = WorkloadConfig {
        num_users: 30,
        generation_mode: GenerationMode::None,
        ..WorkloadConfig::default()
    };
    let few = WorkloadConfig { num_users: 2, ..open.clone() };
    let limited = WorkloadConfig { max_requests: 500, ..open.clone() };
    let queued_turns = WorkloadConfig { history_counts_queued_turns: true, ..open.clone() };
    let (arrival, request_rate_per_s) = (Arrival::Poisson, 90.0);
    let poisson = WorkloadConfig { arrival, request_rate_per_s, ..open.clone() };
    let dataset = sources().into_iter().find(|(name, ..)| *name == "dataset");
    let (_, _, dataset, _) = dataset.unwrap();
    let (drawn, changing, steady) = (Source::Synthetic, [40, 15, 60, 0, 20], [30; 5]);
    for (name, config, source, users) in [
        ("open", open.clone(), drawn.clone(), changing),
        ("few", few, drawn.clone(), [2, 3, 1, 2, 2]),
        ("limited", limited, drawn.clone(), changing),
        ("queued turns", queued_turns, drawn.clone(), changing),
        ("poisson", poisson.clone(), drawn, steady),
        ("dataset", open, dataset.clone(), changing),
        ("dataset, paced", poisson, dataset, steady),
    ] {
        let config = Arc::new(config);
        let made = || Workload::new(Arc::clone(&config), source.clone(), 11, 0, 1).unwrap();
        let later = made().counting_later();
        assert!(later.depths.is_some(), "{name}");
        let (at_once, later) = (serve_three(made(), users), serve_three(later, users));
        assert_eq!(at_once.stats, later.stats, "{name}");
        assert_eq!(at_once.queued, later.queued, "{name}");
        assert!(at_once == later, "{name}");
        assert!(at_once.ended.len() > 20, "{name}: {}", at_once.ended.len());
    }
}

#[test]
fn users_who_wait_are_not_looked_at_until_they_are_counted() {
    let config = Arc::new(WorkloadConfig { num_users: 10_000, ..WorkloadConfig::default() });
    let workload = Workload::new(config, Source::Synthetic, 1, 0, 1).unwrap();
    let mut workload = workload.counting_later();
    workload.start(Nanos::ZERO);
    catch_up(&mut workload, Nanos::from_secs(2), &mut Vec::new());
    assert_eq!((workload.next_wake(), workload.queue_len()), (None, 10_000));
    workload.count_arrivals(Nanos::from_secs(60));
    assert!(workload.queue_len() > 1_000_000, "{}", workload.queue_len());
    assert_eq!((workload.next_wake(), workload.queue.len()), (None, 10_000));
}

/// Every request behind was drawn before an interrupted run could end: a minute and more.
#[test]
fn an_end_that_somebody_waits_for_counts_many_arrivals_by_a_sample_of_the_users() {
    let counted = |users: u32, seconds: u64, sampled: bool| {
        let config = Arc::new(WorkloadConfig { num_users: users, ..WorkloadConfig::default() });
        let workload = Workload::new(config, Source::Synthetic, 1, 0, 1).unwrap();
        let mut workload = workload.counting_later();
        workload.start(Nanos::ZERO);
        catch_up(&mut workload, Nanos::from_secs(5), &mut Vec::new());
        if sampled {
            workload.count_by_sample();
        }
        let now = Nanos::from_secs(seconds);
        let (mut of_class, mut visits, mut age_ns) = ([0; 3], 0, 0.0);
        workload.unfinished(now, now, &mut |class, arrivals, times| {
            of_class[class as usize] += times * arrivals.len() as u64;
            visits += arrivals.len();
            let ages = arrivals.iter().map(|at| (now - *at).as_ns_f64() * times as f64);
            age_ns += ages.sum::<f64>();
        });
        workload.stop(now);
        let stats = workload.stats();
        let all = of_class.iter().sum::<u64>();
        assert_eq!((stats.arrived, stats.queued_at_end, stats.dropped), (all, all, all));
        assert_eq!(workload.queue_len(), 0);
        (of_class, visits, age_ns, stats)
    };
    // A few are counted one by one all the same.
    assert_eq!(counted(1_000, 20, true), counted(1_000, 20, false));
    let (all, by_sample) = (counted(10_000, 60, false), counted(10_000, 60, true));
    let users_each = by_sample.3.users_a_sample;
    assert!(users_each > 10 && all.3.users_a_sample == 0, "{users_each}");
    // Those in the queue, and about 65,536 behind them.
    assert!((60_000..90_000).contains(&by_sample.1), "{}", by_sample.1);
    let near = |what: &str, sampled: f64, exact: f64| {
        assert!((sampled / exact - 1.0).abs() < 0.2, "{what}: {sampled} of {exact}");
    };
    for (class, (sampled, exact)) in by_sample.0.iter().zip(all.0).enumerate() {
        near(&format!("class {class}"), *sampled as f64, exact as f64);
    }
    near("ages", by_sample.2, all.2);
    near("depth", by_sample.3.queue_depth_max as f64, all.3.queue_depth_max as f64);
}

#[test]
fn users_who_do_not_think_are_counted_at_once() {
    let config = WorkloadConfig { think_jitter: [0.0, 1.0], ..WorkloadConfig::default() };
    let closed = WorkloadConfig { arrival: Arrival::Closed, ..WorkloadConfig::default() };
    for config in [config, closed] {
        let workload = Workload::new(Arc::new(config), Source::Synthetic, 1, 0, 1).unwrap();
        assert!(workload.counting_later().depths.is_none());
    }
}

#[test]
fn requests_retrieve_only_documents_that_are_whole_while_the_others_come() {
    let mut config = WorkloadConfig {
        num_users: 20,
        max_requests: 2_000,
        rag_documents: 6,
        rag_ingestion: crate::config::RagIngestion::Beside,
        ..WorkloadConfig::default()
    };
    config.rag.probability = 0.5;
    config.rag.max_documents = 2;
    // About 16 chunks a document, one a second: the six are there after a minute and a half.
    let (seen, stats) = run(&config, &Source::Synthetic, &[], (1, 1_000_000_000), Nanos::MAX);
    assert_eq!((stats.documents_ingested, stats.documents_evicted), (6, 4));
    assert!(stats.retrievals_without_document > 0, "before the first is whole");
    let of_ingestion = |bytes: fn(u64) -> bool| {
        let steps = seen[&INGESTION].iter().flat_map(|(_, trail)| trail);
        steps.filter(move |step| bytes(step.2)).map(|step| step.1).collect::<Vec<Key>>()
    };
    let (written, forgotten) = (of_ingestion(|bytes| bytes > 0), of_ingestion(|bytes| bytes == 0));
    assert!(forgotten.iter().all(|key| written.contains(key)));
    let users = seen.iter().filter(|(user, _)| **user != INGESTION);
    let steps = users.flat_map(|(_, requests)| requests.iter().flat_map(|(_, trail)| trail));
    let read: Vec<Key> = steps.filter(|step| step.0 == Purpose::Rag).map(|step| step.1).collect();
    assert!(read.len() > 100 && read.iter().all(|key| written.contains(key)));
    // What the last two documents hold is what is left.
    let last: Vec<Key> = (4..6)
        .flat_map(|document| {
            let chunks = rag::chunks(&config, 11, document).len() as u32;
            (0..chunks).map(move |chunk| key::chunk(document, chunk))
        })
        .collect();
    assert!(last.iter().all(|key| written.contains(key) && !forgotten.contains(key)));
    assert_eq!(written.len(), forgotten.len() + last.len());
}
