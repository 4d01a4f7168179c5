use ringfall_config::{SETTINGS, TraceKind, Traffic};
use ringfall_core::metrics::Histogram;
use ringfall_workloads::contract::{Class, RequestRecord};

use super::*;
use crate::document::evidence::{loads_once, served_of_users};
use crate::facts::{FileCounts, RequestStats};
use crate::full::{Descent, Evicted};
use crate::testing::{MILLISECOND_NS, busy, request, roofline};
use crate::{Code, RunResult, warnings_of};

#[test]
fn the_largest_part_of_the_service_time_decides_and_space_before_all() {
    let rows = [
        (Evidence { space: 0.3, storage: 0.7, ..Evidence::default() }, LimitKind::Space, "30 %"),
        // Once served, they wait for space, however long they queued.
        (
            Evidence { queue: 0.9, space: 0.06, storage: 0.04, ..Evidence::default() },
            LimitKind::Space,
            "60 %",
        ),
        (
            Evidence { generation: 0.8, storage: 0.2, ..Evidence::default() },
            LimitKind::Generation,
            "80 % of their service time for generated tokens",
        ),
        (
            Evidence { recomputation: 0.5, storage: 0.4, ..Evidence::default() },
            LimitKind::Recomputation,
            "50 %",
        ),
        (Evidence { permits: 0.6, storage: 0.4, ..Evidence::default() }, LimitKind::Permits, "60"),
        (Evidence { rest: 0.6, storage: 0.4, ..Evidence::default() }, LimitKind::Processor, "60"),
        (
            Evidence { storage: 1.0, ..Evidence::default() },
            LimitKind::Storage,
            "storage I/O took 100 %",
        ),
    ];
    for (evidence, kind, part) in rows {
        let limit = found(&evidence);
        assert_eq!(limit.kind, kind, "{evidence:?}");
        assert!(limit.told.contains(part) && limit.flag_to_try.is_some(), "{limit:?}");
    }
}

#[test]
fn limits_queue_and_counters_tell_bandwidth_from_latency() {
    let storage = Evidence { storage: 0.9, generation: 0.1, ..Evidence::default() };
    let of = |roofline_share, utilisation, is_queue_full| {
        let limit =
            found(&Evidence { roofline_share, utilisation, is_queue_full, ..storage.clone() });
        (limit.kind, limit.told)
    };
    for (evidence, kind, part) in [
        ((Some(0.85), Some(1.0), false), LimitKind::Bandwidth, "85 % of its limit"),
        ((Some(0.4), Some(1.0), false), LimitKind::Latency, "40 % of its limit"),
        ((Some(0.4), None, true), LimitKind::Bandwidth, "queue full all the time"),
        ((None, Some(0.99), true), LimitKind::Bandwidth, "busy 99 % of the time"),
        // The queue of ranks together, or of another device, is not that of one that idles.
        ((None, Some(0.85), true), LimitKind::Latency, "busy 85 % of the time"),
        ((None, Some(0.5), false), LimitKind::Latency, "busy 50 % of the time"),
        // Something was always in flight: whether more would have gone in is not known.
        ((None, Some(0.99), false), LimitKind::Storage, "busy 99 % of the time"),
        ((None, None, false), LimitKind::Storage, "90 %"),
    ] {
        let (found, told) = of(evidence.0, evidence.1, evidence.2);
        assert_eq!(found, kind, "{evidence:?}: {told}");
        assert!(told.contains(part), "{part}: {told}");
    }
    // A drive that is full has too many users, and one that idles too few.
    for (roofline_share, flag) in [(Some(0.85), FEWER_USERS), (Some(0.4), MORE_USERS)] {
        let limit = found(&Evidence { roofline_share, ..storage.clone() });
        assert_eq!(limit.flag_to_try.as_deref(), Some(flag));
    }
    let memory = found(&Evidence { storage_bytes_share: Some(0.01), ..storage });
    let flag = memory.flag_to_try.as_deref();
    assert_eq!((memory.kind, flag), (LimitKind::Memory, Some("--cpu-mem-gb 0")));
}

/// A drive of a limited cgroup, busy 39 % of the time, was found to be slow.
#[test]
fn a_cgroup_that_limits_the_drive_is_named_beside_its_use() {
    let throttled = Some("a cgroup limits reads of vda to 300.0 MiB/s".to_owned());
    let of = |storage, utilisation| {
        let generation = 1.0 - storage;
        let throttled = throttled.clone();
        found(&Evidence { storage, generation, utilisation, throttled, ..Evidence::default() })
    };
    let limit = of(0.9, Some(0.39));
    assert_eq!((limit.kind, limit.flag_to_try), (LimitKind::Storage, None));
    let told = "busy 39 % of the time, and a cgroup limits reads of vda to 300.0 MiB/s";
    assert!(limit.told.ends_with(told), "{}", limit.told);
    assert!(of(0.9, None).told.contains(", and a cgroup limits"));
    // Busy 5 % of the time, beside 30 % in the table of `ringfall quick`.
    let used = Evidence {
        storage: 0.9,
        utilisation: Some(0.05),
        throttled: throttled.clone(),
        throttle_share: Some(0.3),
        ..Evidence::default()
    };
    let told = "used to 30 % of what its cgroup allows, and a cgroup limits reads of vda";
    assert!(found(&used).told.contains(told), "{}", found(&used).told);
    // Space was named, which "shows the capacity rather than the drive".
    let full = Evidence { space: 0.7, throttle_share: Some(1.0), ..used.clone() };
    let limit = found(&full);
    assert_eq!(limit.kind, LimitKind::Bandwidth, "{limit:?}");
    assert!(limit.told.contains("used to 100 % of what its cgroup allows"), "{limit:?}");
    let closer = Evidence { roofline_share: Some(0.4), ..full };
    assert_eq!(found(&closer), limit, "the closer limit counts");
    // It was named where 13 % of it was used, and the depth was not.
    let unused = Evidence { throttle_share: Some(0.13), queue_place_share: Some(0.6), ..used };
    let limit = found(&Evidence { utilisation: Some(0.7), ..unused.clone() });
    assert_eq!(limit.kind, LimitKind::QueueDepth, "{limit:?}");
    assert!(!limit.told.contains("cgroup"), "{limit:?}");
    let generation = Evidence { storage: 0.1, generation: 0.9, ..unused };
    assert_eq!(found(&generation).flag_to_try.as_deref(), Some(MORE_USERS));
    let beside = of(0.2, Some(0.1));
    assert!(beside.told.ends_with("300.0 MiB/s"), "no word of more users: {}", beside.told);
}

/// It promised so many times the users, whose loads had been found to be too slow.
#[test]
fn a_drive_that_idles_beside_generation_has_bandwidth_for_more_users_and_no_number_of_them() {
    let generation = Evidence { generation: 0.9, storage: 0.1, ..Evidence::default() };
    for (roofline_share, utilisation, used) in [
        (None, Some(0.06), "busy 6 % of the time"),
        (Some(0.25), Some(0.9), "used to 25 % of its limit"),
        (None, Some(0.0), "busy 0 % of the time"),
    ] {
        let limit = found(&Evidence { roofline_share, utilisation, ..generation.clone() });
        for part in [used, "another question (`ringfall quick` or --autoscaler-mode slo"] {
            assert!(limit.told.contains(part), "{limit:?}");
        }
        assert!(!limit.told.contains("times as many"), "{limit:?}");
        assert_eq!(limit.flag_to_try.as_deref(), Some(MORE_USERS), "{limit:?}");
    }
    // More than half used, unknown, or beside a CPU tier that serves all.
    let memory = Some(0.01);
    for (storage_bytes_share, utilisation) in
        [(None, Some(0.6)), (None, None), (memory, Some(0.06))]
    {
        let more = Evidence { storage_bytes_share, utilisation, ..generation.clone() };
        let limit = found(&more);
        assert!(!limit.told.contains("more users"), "{limit:?}");
        assert_eq!(limit.flag_to_try.as_deref(), Some("--generation-mode none"));
    }
}

/// `--generation-mode none` was to be tried by those who asked how long loads take beside it.
#[test]
fn a_run_that_loads_once_a_turn_is_not_asked_to_leave_its_workload() {
    let mut document = Document::of(&enough());
    assert!(!loads_once(&document));
    let mut config = document.ringfall.config.as_ref().unwrap().clone();
    config.settings.insert("decode_reads".to_owned(), "once".into());
    config.settings.insert("generation_mode".to_owned(), "realistic".into());
    document.ringfall.config = crate::document::Agreed::of(config);
    assert!(loads_once(&document));
    let throttled = Some("a cgroup limits reads of vda to 300.0 MiB/s".to_owned());
    for (utilisation, throttled, flag) in [
        (Some(0.3), throttled, Some(MORE_USERS)),
        (Some(0.3), None, Some(MORE_USERS)),
        (Some(0.8), None, None),
        (None, None, None),
    ] {
        let evidence = Evidence { generation: 0.79, storage: 0.21, ..Evidence::default() };
        let limit = found(&Evidence { utilisation, throttled, loads_once: true, ..evidence });
        assert_eq!(limit.flag_to_try.as_deref(), flag, "{limit:?}");
        assert!(limit.told.contains("79 % of their service time for generated"), "{limit:?}");
    }
}

/// Space and permits were named of runs that only a faster drive would have made faster.
#[test]
fn a_drive_that_is_full_limits_whatever_else_is_waited_for() {
    let full = Evidence { roofline_share: Some(0.9), ..Evidence::default() };
    for waits in [
        Evidence { space: 0.74, storage: 0.25, ..full.clone() },
        Evidence { permits: 0.6, storage: 0.4, ..full.clone() },
        Evidence { generation: 0.6, storage: 0.4, ..full },
    ] {
        let limit = found(&waits);
        assert_eq!(limit.kind, LimitKind::Bandwidth, "{limit:?}");
    }
    // Busy all the time, and nobody knows whether it was full.
    let busy = |space| {
        let utilisation = Some(0.997);
        found(&Evidence { space, storage: 0.35, utilisation, ..Evidence::default() })
    };
    let limit = busy(0.4);
    assert_eq!(limit.kind, LimitKind::Storage, "{limit:?}");
    assert!(!limit.told.contains("75 %"), "waits for space are no I/O: {limit:?}");
    assert_eq!(busy(0.6).kind, LimitKind::Space);
    for free in [
        Evidence::default(),
        Evidence { utilisation: Some(0.9), ..Evidence::default() },
        Evidence { roofline_share: Some(0.4), utilisation: Some(1.0), ..Evidence::default() },
    ] {
        let limit = found(&Evidence { space: 0.4, storage: 0.35, ..free.clone() });
        assert_eq!(limit.kind, LimitKind::Space, "{free:?}");
    }
}

/// More space was proposed to runs that only more of the drive, or of its queue, made faster.
#[test]
fn who_waits_for_room_that_the_drive_makes_waits_for_the_drive() {
    let of = |room_ms, write_ms| {
        let descent = Some(Descent { room_ms, write_ms });
        found(&Evidence {
            space: 0.7,
            storage: 0.2,
            utilisation: Some(0.6),
            evicted: Evicted { cpu: 9, storage: 9, descent, ..Evicted::default() },
            ..Evidence::default()
        })
    };
    // Entries on their way down found the tier below full.
    let limit = of(80.0, 20.0);
    assert_eq!(limit.kind, LimitKind::Space, "{limit:?}");
    assert_eq!(limit.flag_to_try.as_deref(), Some(LARGER_STORAGE), "{limit:?}");
    // They were written slowly.
    let slow = of(20.0, 80.0);
    assert_eq!(slow.kind, LimitKind::Latency, "{slow:?}");
    let told = "storage I/O took 20 % of the requests' service time, and waiting for it to \
                make room 70 %, and the drive was busy 60 % of the time";
    assert_eq!(slow.told, told);
}

/// Space was named of requests that took a thousandth of the users' time.
#[test]
fn what_next_to_no_time_is_spent_on_holds_nobody_up() {
    let of = |served_of_users| {
        found(&Evidence { space: 0.45, served_of_users, ..Evidence::default() }).kind
    };
    assert_eq!(of(Some(0.001)), LimitKind::Users);
    assert_eq!((of(Some(0.5)), of(None)), (LimitKind::Space, LimitKind::Space));
}

/// They "asked for no more" of a drive that was busy most of the time, without a word of that.
#[test]
fn users_who_asked_for_no_more_are_told_with_the_time_in_which_the_drive_was_busy() {
    let little = Evidence { served_of_users: Some(0.03), storage: 0.3, ..Evidence::default() };
    for (roofline_share, utilisation, told) in [
        (Some(0.3), Some(0.86), ", and the drive was busy 86 % of the time"),
        (None, Some(0.2), ", and the drive was busy 20 % of the time"),
        (Some(0.3), None, ", and the drive was used to 30 % of its limit"),
        (None, None, "who asked for no more"),
    ] {
        let limit = found(&Evidence { roofline_share, utilisation, ..little.clone() });
        assert_eq!(limit.kind, LimitKind::Users, "{limit:?}");
        assert!(limit.told.ends_with(told), "{limit:?}");
    }
}

#[test]
fn the_tier_that_was_full_is_named_with_its_flag() {
    let none = Evicted::default();
    for (evicted, flag) in [
        (none, LARGER_STORAGE),
        (Evicted { storage: 9, ..none }, LARGER_STORAGE),
        (Evicted { cpu: 9, storage: 9, ..none }, "a larger --cpu-mem-gb"),
        (Evicted { gpu: 9, storage: 9, ..none }, "a larger --gpu-mem-gb"),
    ] {
        let limit = found(&Evidence { space: 0.5, evicted, ..Evidence::default() });
        assert_eq!((limit.kind, limit.flag_to_try.as_deref()), (LimitKind::Space, Some(flag)));
    }
    // More storage was proposed to requests that waited for the memory of the CPU tier.
    let growing = found(&Evidence { growth: 0.5, space: 0.1, ..Evidence::default() });
    assert_eq!(growing.flag_to_try.as_deref(), Some(LONGER_WARMUP));
    assert!(
        growing.told.ends_with(
            "50 % of their service time while the tiers took memory and space for the first time"
        ),
        "{growing:?}"
    );
    let full = found(&Evidence { growth: 0.3, space: 0.5, ..Evidence::default() });
    assert_eq!(full.flag_to_try.as_deref(), Some(LARGER_STORAGE), "the larger part decides");
}

/// It was inferred from tiers that nothing had left, and lost with the first entry that had.
#[test]
fn waits_for_a_tier_that_grows_are_counted_apart_whatever_left_it() {
    let mut result = enough();
    assert_eq!(RunLimit::of(&Document::of(&result)).flag_to_try.as_deref(), Some(LARGER_CPU_TIER));
    result.engine.waits.room = Histogram::new();
    (0..10).for_each(|_| result.engine.waits.room.record(1_000_000));
    (0..8).for_each(|_| result.engine.waits.growth.record(1_000_000));
    let evidence = Evidence::of(&Document::of(&result));
    assert!((evidence.growth / (evidence.growth + evidence.space) - 0.8).abs() < 0.01);
    let limit = RunLimit::of(&Document::of(&result));
    assert_eq!(limit.flag_to_try.as_deref(), Some(LONGER_WARMUP), "{limit:?}");
}

/// More users were proposed, who waited for the same places.
#[test]
fn queue_places_that_are_waited_for_name_the_depth() {
    let of = |queue_place_share, utilisation| {
        let storage = Evidence { storage: 0.9, queue_place_share, ..Evidence::default() };
        let limit = found(&Evidence { utilisation, ..storage });
        (limit.kind, limit.flag_to_try)
    };
    let depth = (LimitKind::QueueDepth, Some(LARGER_DEPTH.to_owned()));
    assert_eq!(of(Some(0.6), Some(0.7)), depth);
    assert_eq!(of(Some(0.1), Some(0.7)).0, LimitKind::Latency);
    assert_eq!(of(Some(0.6), Some(0.99)).0, LimitKind::Storage, "which may be full");
    let mut result = enough();
    let storage_ns = u64::try_from(result.requests.storage_io.sum_ns()).unwrap();
    let mut moves_ns = 0;
    for row in [&result.engine.evictions[1], &result.engine.evictions_gpu_to_storage] {
        moves_ns += u64::try_from(row.write.sum_ns()).unwrap();
    }
    result.engine.waits.queue_place = Histogram::new();
    result.engine.waits.queue_place.record((storage_ns + moves_ns) / 2);
    let share = Evidence::of(&Document::of(&result)).queue_place_share;
    assert!(share.is_some_and(|share| (share - 0.5).abs() < 0.02), "{share:?}");
}

/// A larger queue depth was proposed, of which a layout's four threads take no more.
#[test]
fn places_that_are_waited_for_in_a_layout_name_its_threads() {
    for (limits, kind, flag) in [
        ("theirs", LimitKind::LayoutThreads, MORE_THREADS),
        ("ours", LimitKind::QueueDepth, LARGER_DEPTH),
    ] {
        let mut result = enough();
        result.files = Some(FileCounts { limits: limits.to_owned(), ..FileCounts::default() });
        let document = Evidence::of(&Document::of(&result));
        let waits = Evidence { storage: 0.9, queue_place_share: Some(0.6), ..Evidence::default() };
        let has_layout_threads = document.has_layout_threads;
        let limit = found(&Evidence { has_layout_threads, utilisation: Some(0.13), ..waits });
        assert_eq!((limit.kind, limit.flag_to_try.as_deref()), (kind, Some(flag)), "{limit:?}");
    }
}

/// The processor was named for throttled periods, in which next to no time was lost.
#[test]
fn a_cpu_quota_that_took_most_of_the_requests_time_is_the_limit() {
    let of = |held_share: f64, generation_ns| {
        let mut result = enough();
        result.requests = RequestStats::default();
        let record = RequestRecord { generation_ns, ..request(Class::Batch, 200) };
        (0..REQUESTS_MIN).for_each(|_| result.requests.record(&record));
        result.window.seconds = 6.0;
        result.cost.cpu_quota_cores = Some(0.1);
        (result.cost.cpu_quota_periods, result.cost.cpu_throttled_periods) = (Some(60), Some(57));
        let shards = f64::from(result.plan.shards);
        result.cost.cpu_throttled_s = Some(held_share * 6.0 * shards);
        let codes = warnings_of(&result).into_iter().map(|warning| warning.code);
        let is_warned = codes.collect::<Vec<_>>().contains(&Code::CpuThrottled);
        (RunLimit::of(&Document::of(&result)), is_warned)
    };
    let (limit, is_warned) = of(0.8, 0);
    assert_eq!((limit.kind, &limit.flag_to_try), (LimitKind::Processor, &None));
    let told = "the cgroup of this run is allowed 0.10 of a core, and was throttled in 57 of 60 \
                periods (";
    assert!(limit.told.starts_with(told) && is_warned, "{limit:?}");
    let (limit, is_warned) = of(0.8, 194 * MILLISECOND_NS);
    assert_eq!((limit.kind, is_warned), (LimitKind::Generation, true), "{limit:?}");
    // Another process of the cgroup used the quota up, each time at the end of its period.
    let (limit, is_warned) = of(0.03, 0);
    assert!(limit.told.contains("the processor is short") && !is_warned, "{limit:?}");
}

/// Four slots of a hundred users kept a full drive busy, and more users were proposed.
#[test]
fn users_asked_for_more_where_the_drive_is_busy_or_requests_queue() {
    let little = Evidence { served_of_users: Some(0.03), storage: 0.3, ..Evidence::default() };
    assert_eq!(found(&little).kind, LimitKind::Users);
    for asked in [
        Evidence { queue: 0.7, ..little.clone() },
        Evidence { utilisation: Some(0.98), ..little.clone() },
        Evidence { roofline_share: Some(0.85), ..little.clone() },
    ] {
        let limit = found(&asked);
        assert!(limit.kind != LimitKind::Users, "{asked:?}: {limit:?}");
        assert!(limit.flag_to_try.as_deref() != Some(MORE_USERS), "{asked:?}: {limit:?}");
    }
    let users = Some((Binding::Users, "no resource holds requests up".to_owned()));
    let paced = Evidence { simulated: users, utilisation: Some(0.85), ..little };
    let limit = found(&paced);
    assert_eq!((limit.kind, limit.flag_to_try), (LimitKind::Users, None));
}

/// They were told to have asked for no more, while all of them had waited to the end.
#[test]
fn requests_that_did_not_finish_leave_no_time_in_which_users_asked_for_nothing() {
    let mut result = enough();
    result.plan.users = 200;
    result.window.seconds = 100.0;
    let share = |result: &RunResult| served_of_users(&Document::of(result)).unwrap();
    assert!(share(&result) < SERVED_OF_USERS_MIN, "{}", share(&result));
    for _ in 0..200 {
        result.requests.record_unfinished(Class::Batch, 100_000_000_000);
    }
    assert!(share(&result) > 0.9, "{}", share(&result));
    // The requests of a trace come at its times, whatever --num-users says.
    result.plan.traffic = Traffic::Trace { kind: TraceKind::BurstGpt, path: "trace.csv".into() };
    assert_eq!(served_of_users(&Document::of(&result)), None);
}

#[test]
fn remedies_are_proposed_unless_a_setting_rules_them_out() {
    let result = enough();
    let mut document = Document::of(&result);
    let flag = |flag: &str, document: &Document| flag_in_place(flag.to_owned(), document);
    let declared = SETTINGS.iter().find(|setting| setting.key == "io_size").unwrap();
    assert!(declared.range().unwrap().contains(&format!("to {LARGEST_IO},")));
    let plain = document.ringfall.config.clone();
    for (remedy, key, value) in [
        (LARGER_IOS, "io_size", LARGEST_IO),
        (LARGER_IOS, "layout", "vllm"),
        (MORE_THREADS, "engine_limits", "ours"),
    ] {
        document.ringfall.config = plain.clone();
        assert_eq!(flag(remedy, &document).as_deref(), Some(remedy));
        let mut config = plain.as_ref().unwrap().clone();
        config.settings.insert(key.to_owned(), value.into());
        document.ringfall.config = crate::document::Agreed::of(config);
        assert_eq!(flag(remedy, &document), None, "{key}");
    }
}

#[test]
fn a_simulated_run_knows_its_own_limit() {
    for (binds, kind) in [
        (Binding::Drive, LimitKind::Bandwidth),
        (Binding::Shards, LimitKind::Processor),
        (Binding::DriveParallelism, LimitKind::Parallelism),
        (Binding::DriveLatency, LimitKind::Latency),
        (Binding::QueueDepth, LimitKind::QueueDepth),
        (Binding::IoBuffers, LimitKind::QueueDepth),
        (Binding::LayoutThreads, LimitKind::LayoutThreads),
        (Binding::ServingSlots, LimitKind::ServingSlots),
        (Binding::Permits, LimitKind::Permits),
        (Binding::Memory, LimitKind::Memory),
        (Binding::GpuLink, LimitKind::Memory),
        (Binding::CpuTier, LimitKind::Space),
        (Binding::Recomputation, LimitKind::Recomputation),
        (Binding::Users, LimitKind::Users),
    ] {
        let simulated = Some((binds, "because".to_owned()));
        let limit = found(&Evidence { generation: 1.0, simulated, ..Evidence::default() });
        assert_eq!((limit.kind, &*limit.told), (kind, "because"));
    }
}

/// More users were proposed to a backlog.
#[test]
fn no_more_users_are_proposed_where_requests_queue() {
    for binds in [Binding::DriveLatency, Binding::Generation, Binding::Users] {
        let flag = |queue, has_backlog| {
            let simulated = Some((binds, "because".to_owned()));
            let evidence = Evidence { queue, has_backlog, ..Evidence::default() };
            let utilisation = Some(0.1);
            found(&Evidence { simulated, utilisation, generation: 0.2, ..evidence }).flag_to_try
        };
        assert_eq!(flag(0.0, false).as_deref(), Some(MORE_USERS), "{binds}");
        assert_eq!((flag(0.5, false), flag(0.0, true)), (None, None), "{binds}");
    }
}

#[test]
fn a_deeper_queue_is_proposed_where_it_was_tried_and_helped() {
    let simulated = Some((Binding::DriveLatency, "because".to_owned()));
    let evidence = Evidence { simulated, has_deeper_queue: true, ..Evidence::default() };
    assert_eq!(found(&evidence).flag_to_try.as_deref(), Some(LARGER_DEPTH));
}

/// It has the words and the flag of a real run.
#[test]
fn generation_is_told_of_a_simulated_run_as_of_any() {
    let simulated = Some((Binding::Generation, "because".to_owned()));
    let evidence = Evidence { generation: 0.9, utilisation: Some(0.1), ..Evidence::default() };
    let limit = found(&Evidence { simulated, ..evidence.clone() });
    assert_eq!(limit, found(&evidence));
}

/// A run of enough requests to tell, which took most of its users' time.
fn enough() -> RunResult {
    let mut result = busy();
    result.window.seconds = 0.01;
    result.requests = RequestStats::default();
    (0..REQUESTS_MIN).for_each(|_| result.requests.record(&request(Class::Batch, 2)));
    result
}

/// It said --num-users where requests come at a rate that was asked for, or at a trace's times.
#[test]
fn the_flag_to_try_is_that_which_decides_how_many_requests_come() {
    let mut result = enough();
    result.requests = RequestStats::default();
    let only_storage =
        RequestRecord { storage_io_ns: 2_000_000, room_ns: 0, ..request(Class::Batch, 2) };
    (0..REQUESTS_MIN).for_each(|_| result.requests.record(&only_storage));
    result.roofline = Some(("limits.json".to_owned(), roofline(1e6, 1e6)));
    let flag = |result: &RunResult| {
        let limit = RunLimit::of(&Document::of(result));
        assert_eq!(limit.kind, LimitKind::Bandwidth, "{limit:?}");
        limit.flag_to_try
    };
    assert_eq!(flag(&result).as_deref(), Some("fewer --num-users"));
    result.plan.request_rate_per_s = 20.0;
    assert_eq!(flag(&result).as_deref(), Some("a lower --request-rate"));
    result.plan.traffic = Traffic::Trace { kind: TraceKind::BurstGpt, path: "trace.csv".into() };
    assert_eq!(flag(&result), None);
}

#[test]
fn a_finding_stands_in_the_document_of_its_run() {
    let document = Document::of(&busy());
    assert_eq!(document.ringfall.limit.as_ref(), None, "three requests tell nothing");
    let document = Document::of(&enough());
    assert_eq!(document.ringfall.limit.as_ref(), Some(&RunLimit::of(&document)));
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["ringfall"]["limit"]["kind"], "space");
    let flag = &json["ringfall"]["limit"]["flag_to_try"];
    assert_eq!(flag, "a larger --cpu-mem-gb", "emptied, and full");
}

#[test]
fn a_run_that_shows_too_little_has_no_finding() {
    let of = |change: fn(&mut RunResult)| {
        let mut result = enough();
        change(&mut result);
        RunLimit::of(&Document::of(&result))
    };
    type Change = fn(&mut RunResult);
    let rows: [(Change, &str); 4] = [
        (|run| run.interrupted = true, "interrupted"),
        (|run| run.failure = Some("no".to_owned()), "failed"),
        (|run| run.tiers = Default::default(), "no drive"),
        (|run| run.requests = RequestStats::default(), "0 requests finished"),
    ];
    for (change, part) in rows {
        let limit = of(change);
        assert_eq!(limit.kind, LimitKind::None, "{limit:?}");
        assert!(limit.told.contains(part), "{part}: {limit:?}");
    }
    // Each of these requests read and wrote for half of its time, and waited for space as long.
    assert_eq!(of(|_| ()).kind, LimitKind::Space);
    let mut result = enough();
    result.roofline = Some(("limits.json".to_owned(), roofline(1e6, 1e6)));
    let evidence = Evidence::of(&Document::of(&result));
    assert!(evidence.roofline_share > Some(1.0) && evidence.storage > 0.2, "{evidence:?}");
}
