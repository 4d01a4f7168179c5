//! Which metrics are to be gone by, in the situations that were published and in others.

use ringfall_config::Arrival;
use ringfall_workloads::contract::Class;

use super::*;

fn run(cpu_gib: u64) -> Situation {
    Situation {
        cpu_memory_mib: Some(cpu_gib * 1024),
        max_concurrent_allocs: Some(4),
        generation_waits: Some(false),
        arrivals_open: Some(false),
        queued_at_end: Some(0),
        users: Some(50),
        serving_slots: Some(50),
        served: Some(1_000),
        seconds: Some(60.0),
        ended_by_requests: Some(false),
        storage_read_share: Some(0.5),
        ..Situation::default()
    }
}

fn trust(situations: &[Situation], metric: &str) -> Trust {
    let all = advise(situations);
    all.iter().find(|advice| advice.metric == metric).map(|advice| advice.trust).unwrap()
}

#[test]
fn the_published_recommendations() {
    let zero = [run(0), run(0)];
    assert_eq!(trust(&zero, DECODE_READ), Trust::Primary);
    assert_eq!(trust(&zero, WALL_CLOCK), Trust::Primary);
    assert_eq!(trust(&zero, STORAGE_THROUGHPUT), Trust::No);
    for bound in [2, 16] {
        let bounded = Situation { max_concurrent_allocs: Some(bound), ..run(0) };
        assert_eq!(trust(&[bounded], STORAGE_THROUGHPUT), Trust::No, "{bound}");
    }
    let four = [run(4), run(4)];
    assert_eq!(trust(&four, STORAGE_THROUGHPUT), Trust::Primary);
    assert_eq!(trust(&four, DECODE_READ), Trust::Secondary);
    assert_eq!(trust(&four, WALL_CLOCK), Trust::Secondary);
    assert_eq!(advise(&four)[0].metric, STORAGE_THROUGHPUT);
}

/// In the published runs the faster drive won 35 of 35 configurations with any number of
/// allocations at once, and 34 of 76 with two or four.
#[test]
fn storage_throughput_misleads_without_a_cpu_tier_only_where_allocations_are_bounded() {
    let stress = ringfall_config::Preset::by_name("llama3.1-8b-stress").unwrap();
    let of = |allocs| Configuration {
        cpu_memory_mib: 0,
        model: stress.model.to_owned(),
        users: stress.users.into(),
        max_concurrent_allocs: allocs,
        generation_mode: "none".to_owned(),
    };
    let advice = |allocs| {
        let all = advise(&[Situation::of_configuration(&of(allocs))]);
        all.into_iter().find(|advice| advice.metric == STORAGE_THROUGHPUT).unwrap()
    };
    let unbounded = advice(stress.max_concurrent_allocs.into());
    assert_eq!(unbounded.trust, Trust::Secondary);
    assert!(unbounded.told().contains("2.60×"), "{}", unbounded.told());
    let bounded = advice(4);
    assert_eq!(bounded.trust, Trust::No);
    assert!(bounded.told().contains("1.07× with 4"), "{}", bounded.told());
}

#[test]
fn a_bound_on_allocations_counts_only_where_writes_waited_for_it() {
    let bounded = |p99_ms| Situation {
        max_concurrent_allocs: Some(16),
        allocation_wait_p99_ms: p99_ms,
        ..run(0)
    };
    for (p99_ms, want) in [(Some(0.0), Trust::Secondary), (Some(2.0), Trust::No), (None, Trust::No)]
    {
        assert_eq!(trust(&[bounded(p99_ms)], STORAGE_THROUGHPUT), want, "{p99_ms:?}");
    }
    let mut result = crate::testing::busy();
    (0..100).for_each(|_| result.allocation_wait.record(7_000_000));
    let situation = Situation::of_document(&Document::of(&result));
    assert!(situation.allocation_wait_p99_ms.is_some_and(|ms| (6.9..7.1).contains(&ms)));
}

/// It was told to go by decode bytes read, of which there were none.
#[test]
fn a_run_of_prefills_is_told_by_what_it_wrote() {
    let only = Situation { is_prefill_only: true, ..run(0) };
    let all = advise(&[only.clone(), only.clone()]);
    let primary = all.iter().filter(|advice| advice.trust == Trust::Primary);
    let primary: Vec<&str> = primary.map(|advice| advice.metric).collect();
    assert_eq!(primary, [WRITE_BANDWIDTH, PREFILL_WRITTEN, WALL_CLOCK]);
    assert!(all.iter().all(|advice| advice.published.is_none()), "{all:?}");
    for metric in READS {
        assert_eq!(trust(std::slice::from_ref(&only), metric), Trust::No, "{metric}");
    }
    let four = Situation { is_prefill_only: true, ..run(4) };
    assert_eq!(trust(&[four], WRITE_BANDWIDTH), Trust::Secondary);
    let longer = Situation { seconds: Some(70.0), ..only.clone() };
    assert_eq!(trust(&[only.clone(), longer], PREFILL_WRITTEN), Trust::No);
    let waits = Situation { generation_waits: Some(true), ..only.clone() };
    assert_eq!(advise(&[waits])[0].metric, "storage_write_device_p95_ms");
    // Beside a run that reads too, writes are not what is compared.
    assert!(advise(&[only, run(0)]).iter().all(|advice| advice.metric != WRITE_BANDWIDTH));
    let idle = Situation { has_no_reads: true, ..run(0) };
    for metric in READS {
        assert_eq!(trust(std::slice::from_ref(&idle), metric), Trust::No, "{metric}");
    }
    let mut result = crate::testing::busy();
    let of = |result: &crate::RunResult| Situation::of_document(&Document::of(result));
    assert!(!of(&result).is_prefill_only && !of(&result).has_no_reads);
    result.plan.phases = PhaseMode::PrefillOnly;
    assert!(of(&result).is_prefill_only);
    assert!(of(&crate::testing::nothing()).has_no_reads);
}

#[test]
fn waiting_for_tokens_leaves_the_drive_s_own_time() {
    let waits = [run(0), Situation { generation_waits: Some(true), ..run(0) }];
    for metric in [DECODE_READ, WALL_CLOCK, STORAGE_THROUGHPUT, REQUEST_P95] {
        assert_eq!(trust(&waits, metric), Trust::No, "{metric}");
    }
    let both = [waits[1].clone(), waits[1].clone()];
    assert_eq!(trust(&both, "storage_read_device_p95_ms"), Trust::Primary);
}

/// Five times the tokens per second were no conclusion, as the faster side waited for tokens.
#[test]
fn a_run_that_waits_for_storage_is_slower_by_it_than_one_that_waits_for_tokens() {
    let of = |storage: f64, tokens: f64, tokens_per_s: f64| Situation {
        storage_wait_share: Some(storage),
        generation_wait_share: Some(tokens),
        generation_waits: Some(tokens > GENERATION_SHARE_MIN),
        tokens_per_s: Some(tokens_per_s),
        ..run(0)
    };
    let (fast, slow) = (of(0.2, 0.8, 500.0), of(0.7, 0.1, 100.0));
    for both in [[fast.clone(), slow.clone()], [slow.clone(), fast.clone()]] {
        for metric in [DECODE_READ, WALL_CLOCK] {
            let all = advise(&both);
            let advice = all.iter().find(|advice| advice.metric == metric).unwrap();
            assert_eq!((advice.trust, advice.published), (Trust::Primary, None), "{metric}");
            assert!(advice.why.contains("slower by at least this"), "{advice:?}");
        }
        assert_eq!(trust(&both, REQUEST_P95), Trust::Secondary);
    }
    // Not where the one that waits for storage is the faster one, which its storage does not
    // explain, nor beside one that waits for something else.
    let faster = Situation { tokens_per_s: Some(501.0), ..slow.clone() };
    let queued = of(0.05, 0.1, 100.0);
    let unknown = Situation { storage_wait_share: None, ..slow.clone() };
    for other in [&faster, &queued, &unknown, &fast] {
        for both in [[&fast, other], [other, &fast]] {
            let both = both.map(Situation::clone);
            assert_eq!(trust(&both, WALL_CLOCK), Trust::No, "{other:?}");
        }
    }
    // Rates of what arrives are no rates of storage.
    let open = |one: &Situation| Situation { arrivals_open: Some(true), ..one.clone() };
    assert_eq!(trust(&[open(&fast), open(&slow)], WALL_CLOCK), Trust::No);
    let behind = Situation { queued_at_end: Some(51), ..open(&slow) };
    assert_eq!(trust(&[open(&fast), behind], WALL_CLOCK), Trust::Primary);
    let tier = |one: &Situation| Situation { cpu_memory_mib: Some(4096), ..one.clone() };
    assert_eq!(trust(&[tier(&fast), tier(&slow)], WALL_CLOCK), Trust::Secondary);
}

#[test]
fn open_arrivals_show_rate_or_latency_never_both() {
    let keeps_up = Situation { arrivals_open: Some(true), ..run(0) };
    assert_eq!(trust(std::slice::from_ref(&keeps_up), WALL_CLOCK), Trust::No);
    assert_eq!(trust(std::slice::from_ref(&keeps_up), REQUEST_P95), Trust::Secondary);
    let behind = Situation { queued_at_end: Some(51), ..keeps_up.clone() };
    assert_eq!(trust(std::slice::from_ref(&behind), WALL_CLOCK), Trust::Primary);
    assert_eq!(trust(std::slice::from_ref(&behind), REQUEST_P95), Trust::No);
    // The rate of the other is what was asked for, and this one's is lower.
    let mixed = [keeps_up.clone(), behind.clone()];
    assert_eq!(trust(&mixed, WALL_CLOCK), Trust::Primary);
    assert_eq!(trust(&mixed, REQUEST_P95), Trust::No);
    let cached = Situation { cpu_memory_mib: Some(4096), ..behind };
    assert_eq!(trust(&[cached], STORAGE_THROUGHPUT), Trust::Secondary);
}

/// A drive that was busy all the time "kept up" with 100 requests, of which 99 were being served.
#[test]
fn requests_that_do_not_finish_are_a_backlog_without_any_queue() {
    let of = |unfinished: u64| {
        let mut result = crate::testing::busy();
        result.plan.arrival = Arrival::Open;
        result.workload.queued_at_end = 0;
        let age_ns = 1_000_000_000;
        (0..unfinished).for_each(|_| {
            result.requests.record_unfinished(Class::Interactive, age_ns);
        });
        Situation::of_document(&Document::of(&result))
    };
    assert!(of(0).keeps_up() && !of(0).backlog());
    let behind = of(1_000_000);
    assert!(behind.unfinished_share.is_some_and(|share| share > 0.9), "{behind:?}");
    assert!(behind.backlog() && !behind.keeps_up(), "{behind:?}");
}

/// A Mooncake trace says nothing of a decode phase: "go by decode bytes read 0.000 GiB".
#[test]
fn decode_bytes_are_no_metric_where_nothing_is_read_in_a_decode_phase() {
    let without = Situation { has_no_decode_reads: true, ..run(0) };
    assert_eq!(trust(std::slice::from_ref(&without), DECODE_READ), Trust::No);
    assert_eq!(trust(&[without], WALL_CLOCK), Trust::Primary);
}

#[test]
fn amounts_need_equal_times_and_memory_hides_the_drive() {
    let longer = Situation { seconds: Some(70.0), ..run(0) };
    assert_eq!(trust(&[run(0), longer], DECODE_READ), Trust::No);
    let counted = Situation { ended_by_requests: Some(true), ..run(0) };
    assert_eq!(trust(&[counted], DECODE_READ), Trust::No);
    let cached = Situation { storage_read_share: Some(0.01), ..run(4) };
    assert_eq!(trust(&[cached], STORAGE_THROUGHPUT), Trust::No);
}

#[test]
fn a_run_names_the_metrics_to_go_by_with_its_own_values() {
    let mut result = crate::testing::busy();
    result.plan.cpu_memory_bytes = 0;
    result.plan.max_concurrent_allocs = Some(16);
    result.plan.generation_mode = ringfall_config::GenerationMode::None;
    result.plan.arrival = ringfall_config::Arrival::Closed;
    let document = Document::of(&result);
    let keys = |document: &Document| -> Vec<(&str, Option<Trust>)> {
        let all = headlines(document).into_iter();
        all.map(|h| (h.metric.key, h.advice.map(|advice| advice.trust))).collect()
    };
    let (primary, no) = (Some(Trust::Primary), Some(Trust::No));
    let want = [(DECODE_READ, primary), (WALL_CLOCK, primary), (STORAGE_THROUGHPUT, no)];
    assert_eq!(keys(&document), want);
    assert_eq!(headlines(&document)[1].value, 0.9, "9 tokens in 10 s");
    // Where tokens are waited for, the drive's own time leads: not where the mode alone says so.
    result.plan.generation_mode = ringfall_config::GenerationMode::Realistic;
    assert_eq!(keys(&Document::of(&result)), want);
    result.requests.generation.record(150_000_000);
    let waits = keys(&Document::of(&result));
    assert_eq!((waits[0], waits.len()), (("storage_read_device_p95_ms", primary), 4));
    assert!(headlines(&Document::default()).is_empty());
}

#[test]
fn a_run_that_served_nothing_kept_up_with_nothing() {
    let idle = Situation { arrivals_open: Some(true), served: Some(0), ..run(0) };
    let all = advise(&[run(0), idle]);
    assert!(all.iter().all(|advice| advice.trust == Trust::No), "{all:?}");
    assert!(all.iter().all(|advice| advice.why.starts_with("no request was served")), "{all:?}");
}

#[test]
fn memory_is_no_drive_to_go_by_and_an_object_store_is_told_as_one() {
    let memory = Situation { memory: Some("zram0".to_owned()), ..run(0) };
    for advice in advise(&[run(0), memory]) {
        assert_eq!(advice.trust, Trust::No);
        assert!(advice.why.contains("in memory (zram0)"), "{advice:?}");
    }
    // Of two runs, one whose reads the page cache served.
    let cached = Situation { cached_reads_share: Some(0.003), ..run(0) };
    for advice in advise(&[run(0), cached]) {
        assert_eq!(advice.trust, Trust::No);
        assert!(advice.why.starts_with("only 0.3 % of the bytes read reached"), "{advice:?}");
    }
    let store = Situation { is_object_store: true, ..run(0) };
    let all = advise(std::slice::from_ref(&store));
    let primary = all.iter().find(|advice| advice.metric == DECODE_READ).unwrap();
    assert_eq!(primary.why, "without a CPU tier every read is the object store's");
    assert!(all.iter().all(|advice| !advice.why.contains("drive")), "{all:?}");
    // Beside a drive it is one of two storages.
    assert!(advise(&[store, run(0)])[0].why.contains("the drive's"));
    let mut result = crate::testing::busy();
    result.machine.device_chain = vec![crate::testing::link("zram0", "disk", None)];
    let situation = Situation::of_document(&Document::of(&result));
    assert_eq!((situation.memory.as_deref(), situation.is_object_store), (Some("zram0"), false));
}

#[test]
fn nothing_is_said_of_the_unknown() {
    assert!(advise(&[run(0), Situation::default()]).is_empty());
    assert!(advise(&[]).is_empty());
}
