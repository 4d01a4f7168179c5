//! Merging is addition, nothing is lost at the bounds, and text brings back what was counted.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::histogram::{HIGHEST_NS, LOWEST_NS};
use super::*;
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::error::{ErrorKind, IoError, Operation};
use crate::key::{Tier, mix64};

const QUANTILES: [f64; 10] = [0.0, 0.001, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

fn histogram_of(latencies_ns: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for latency_ns in latencies_ns {
        histogram.record(*latency_ns);
    }
    histogram
}

/// Latencies of every magnitude, the bounds and both sides of them.
fn latency_ns() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0u32..43, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits)),
        1 => prop::sample::select(vec![0, 1, 511, 512, LOWEST_NS, HIGHEST_NS - 1, HIGHEST_NS]),
        1 => HIGHEST_NS..u64::MAX,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn merging_two_parts_is_the_whole(
        events in prop::collection::vec((latency_ns(), any::<bool>()), 0..300)
    ) {
        let part = |side: bool| -> Vec<u64> {
            events.iter().filter(|(_, which)| *which == side).map(|(ns, _)| *ns).collect()
        };
        let all: Vec<u64> = events.iter().map(|(ns, _)| *ns).collect();
        let (mut left, right) = (histogram_of(&part(false)), histogram_of(&part(true)));
        let whole = histogram_of(&all);
        left.merge(&right);
        prop_assert_eq!(left.count(), whole.count());
        prop_assert_eq!(left.sum_ns(), whole.sum_ns());
        prop_assert_eq!(left.mean_ns(), whole.mean_ns());
        prop_assert_eq!(left.max_ns(), whole.max_ns());
        for quantile in QUANTILES {
            prop_assert_eq!(left.quantile_ns(quantile), whole.quantile_ns(quantile));
        }
        prop_assert_eq!(left, whole);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_latencies_to_three_digits(
        mut all in prop::collection::vec(latency_ns(), 1..300)
    ) {
        let histogram = histogram_of(&all);
        all.sort_unstable();
        let each = QUANTILES.map(|quantile| histogram.quantile_ns(quantile).unwrap());
        prop_assert_eq!(histogram.quantiles_ns(&QUANTILES), each);
        // Quarters, whose products with a count are exact.
        for quarters in 1..=4 {
            let rank = (all.len() * quarters).div_ceil(4);
            let exact = all[rank - 1].min(HIGHEST_NS);
            let found = histogram.quantile_ns(quarters as f64 / 4.0).unwrap();
            // The top of the counter that `exact` falls into.
            prop_assert!(found >= exact, "{found} < {exact}");
            let longest = all[all.len() - 1].min(HIGHEST_NS);
            prop_assert!(found <= longest, "{found} is above all that was recorded");
            prop_assert!(found - exact < (exact / 1000).max(512), "{found} far from {exact}");
        }
    }

    /// The crate's own recording is the measure of ours.
    #[test]
    fn counters_are_those_of_hdr_histogram(
        all in prop::collection::vec(latency_ns(), 1..300),
        quantile in 0.0..=1.0,
        limit in latency_ns(),
    ) {
        let ours = histogram_of(&all);
        let mut crates = Histogram::new().to_hdr();
        for latency_ns in &all {
            // 0 shares the counter of 1, and of zeros alone the crate takes none for its highest.
            crates.saturating_record((*latency_ns).clamp(1, HIGHEST_NS));
        }
        prop_assert_eq!(&ours.to_hdr(), &crates);
        let steps = crates.iter_recorded();
        let steps: Vec<_> =
            steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        prop_assert_eq!(ours.buckets().collect::<Vec<_>>(), steps);
        let theirs = crates.value_at_quantile(quantile);
        prop_assert_eq!(ours.quantile_ns(quantile), Some(theirs.min(ours.max_ns().unwrap())));
        prop_assert_eq!(ours.count_at_most(limit), crates.count_between(0, limit));
    }

    #[test]
    fn text_brings_back_what_was_counted(all in prop::collection::vec(latency_ns(), 0..300)) {
        let histogram = histogram_of(&all);
        let text = histogram.to_base64_v2();
        let mut again = Histogram::from_base64_v2(&text, histogram.sum_ns()).unwrap();
        prop_assert_eq!(&again, &histogram);
        if let Some(max_ns) = histogram.max_ns() {
            prop_assert!(again.max_ns().unwrap() >= max_ns);
            // What is in another bucket was not the maximum.
            prop_assert!(!again.set_max_ns((max_ns + 1_000) * 2));
            prop_assert!(again.set_max_ns(max_ns));
            prop_assert_eq!(again.max_ns(), Some(max_ns));
            prop_assert_eq!(again.quantile_ns(1.0), histogram.quantile_ns(1.0));
        }
        // And it can go on: merged with more, it is the histogram that saw both.
        let (mut doubled, mut expected) = (again, histogram.clone());
        doubled.merge(&histogram);
        for latency_ns in &all {
            expected.record(*latency_ns);
        }
        prop_assert_eq!(doubled, expected);
    }

    #[test]
    fn damaged_text_is_an_error_or_a_histogram_but_never_a_panic(
        all in prop::collection::vec(latency_ns(), 0..50),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        // Inside the compression, where no checksum guards.
        let mut plain = Vec::new();
        hdrhistogram::serialization::Serializer::serialize(
            &mut hdrhistogram::serialization::V2Serializer::new(),
            &histogram_of(&all).to_hdr(),
            &mut plain,
        ).unwrap();
        for (at, byte) in damage {
            let at = at.index(plain.len());
            plain[at] = byte;
        }
        if let Ok(histogram) = Histogram::from_base64_v2(&packed(&plain), 0) {
            prop_assert!(histogram.max_ns().is_none_or(|ns| ns >= LOWEST_NS / 2));
        }
    }
}

/// A plain encoding in its compressed one, in base64.
fn packed(plain: &[u8]) -> String {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).unwrap();
    let stream = encoder.finish().unwrap();
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(stream.len()).unwrap().to_be_bytes());
    bytes.extend(stream);
    STANDARD.encode(bytes)
}

#[test]
fn latencies_past_the_bounds_are_counted_at_the_bounds_in_order() {
    let mut histogram = histogram_of(&[0, HIGHEST_NS]);
    let at_the_bound = histogram.max_ns();
    // Inside the crate's last counters, past them, and as far as a u64 goes.
    for latency_ns in [4_000 * SECOND.as_ns(), 5_000 * SECOND.as_ns(), u64::MAX] {
        histogram.record(latency_ns);
        assert_eq!(histogram.max_ns(), at_the_bound);
    }
    assert_eq!(histogram.count(), 5);
    assert_eq!(histogram.quantile_ns(1.0), at_the_bound);
    // 3 digits of an hour: within 0.1 %.
    assert!(at_the_bound.unwrap() - HIGHEST_NS < HIGHEST_NS / 1000);
    // Below the lowest, 512 ns are told apart from 0 and nothing finer.
    let median_of = |low| histogram_of(&[low, 9_999]).quantile_ns(0.5);
    assert_eq!(median_of(0), median_of(511));
    assert_ne!(median_of(0), median_of(512));
    // And no quantile is above the maximum.
    assert_eq!(histogram_of(&[0, 0]).quantile_ns(0.99), histogram_of(&[0]).max_ns());
    // The sum is of what happened, not of what the counters can show.
    let sum_ns = u128::from(HIGHEST_NS + 9_000 * SECOND.as_ns()) + u128::from(u64::MAX);
    assert_eq!(histogram.sum_ns(), sum_ns);
}

#[test]
fn no_figure_is_above_the_longest_that_was_recorded() {
    let idle = histogram_of(&[0; 20]);
    assert_eq!((idle.max_ns(), idle.quantile_ns(0.5)), (Some(0), Some(0)));
    // The bucket of 351.472 ms ends at 351.535 ms.
    let mut merged = histogram_of(&[351_472_000]);
    assert_eq!(merged.max_ns(), Some(351_472_000));
    merged.merge(&histogram_of(&[2, 351_480_000]));
    assert_eq!(merged.max_ns(), Some(351_480_000));
    assert_eq!(merged.quantile_ns(0.99), Some(351_480_000));
    merged.clear();
    merged.record(7_000);
    assert_eq!(merged.clone().max_ns(), Some(7_000));
    merged.clear();
    merged.record(0);
    assert_eq!((merged.max_ns(), merged.sum_ns()), (Some(0), 0));
}

#[test]
fn means_are_exact_where_counters_round() {
    // 1.234567891 s and 1.234567893 s share a counter 1 ms wide.
    let histogram = histogram_of(&[1_234_567_891, 1_234_567_893]);
    assert_eq!(histogram.mean_ns(), Some(1_234_567_892.0));
    assert_eq!(histogram.quantile_ns(0.0001), histogram.quantile_ns(1.0));
    assert_eq!(histogram_of(&[7]).mean_ns(), Some(7.0));
    // A sum past 2^64 does not wrap.
    let mut long = Histogram::new();
    for _ in 0..4 {
        long.record(u64::MAX);
    }
    assert_eq!(long.sum_ns(), u128::from(u64::MAX) * 4);
}

#[test]
fn an_empty_histogram_has_no_latencies_and_clearing_makes_one() {
    let mut histogram = histogram_of(&[MILLISECOND, SECOND].map(Nanos::as_ns));
    assert_eq!(histogram.count_at_most((10 * MILLISECOND).as_ns()), 1);
    histogram.clear();
    for histogram in [&histogram, &Histogram::new()] {
        assert_eq!(histogram.count(), 0);
        assert_eq!(histogram.sum_ns(), 0);
        assert_eq!(histogram.mean_ns(), None);
        assert_eq!(histogram.max_ns(), None);
        assert_eq!(histogram.quantile_ns(0.5), None);
        assert_eq!(histogram.count_at_most(u64::MAX), 0);
    }
    assert_eq!(histogram, Histogram::new());
}

#[test]
fn counters_take_as_many_bytes_as_their_documentation_says() {
    assert_eq!(super::octaves::BYTES_MAX, 192 * 1024);
    let whole = Histogram::new().to_hdr().distinct_values() * size_of::<u64>();
    assert_eq!(whole, super::octaves::BYTES_MAX);
}

#[test]
fn text_of_something_else_says_what_is_wrong() {
    let decode = |text: &str| Histogram::from_base64_v2(text, 0).unwrap_err();
    assert!(matches!(decode("not base64!"), HistogramDecodeError::Base64(_)));
    assert!(matches!(decode(""), HistogramDecodeError::Format(_)));
    assert!(matches!(decode("AAAAAAAAAAAAAAAA"), HistogramDecodeError::Format(_)));
    let text = histogram_of(&[MILLISECOND.as_ns()]).to_base64_v2();
    assert!(text.starts_with("HISTFAAA"), "the mark that other tools look for: {text}");
    let cut = STANDARD.encode(&STANDARD.decode(&text).unwrap()[..20]);
    assert!(matches!(decode(&cut), HistogramDecodeError::Format(_)));

    let mut other = Vec::new();
    hdrhistogram::serialization::Serializer::serialize(
        &mut hdrhistogram::serialization::V2DeflateSerializer::new(),
        &hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap(),
        &mut other,
    )
    .unwrap();
    let error = decode(&STANDARD.encode(other));
    let bounds = HistogramDecodeError::Bounds { lowest_ns: 1, highest_ns: 1_000_000, digits: 2 };
    assert_eq!(error, bounds);
    assert!(error.to_string().contains("1..1000000 ns at 2 digits"), "{error}");
}

#[test]
fn text_that_would_inflate_without_end_or_overflow_is_refused() {
    let bomb = Histogram::from_base64_v2(&packed(&vec![0; 64 << 20]), 0);
    let too_long = "more counts than our bounds have".to_string();
    assert_eq!(bomb, Err(HistogramDecodeError::Format(too_long)));

    let text = Histogram::new().to_base64_v2();
    let bytes = STANDARD.decode(text).unwrap();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&bytes[8..]), &mut plain)
        .unwrap();
    plain.truncate(40);
    plain.extend([0xff; 9]);
    plain[4..8].copy_from_slice(&9u32.to_be_bytes());
    let negative = Histogram::from_base64_v2(&packed(&plain), 0);
    assert_eq!(negative, Err(HistogramDecodeError::Format("a count out of range".into())));
}

/// Words for an error in a text, whatever the crate would have made of it.
#[test]
fn each_check_of_a_text_has_its_own_message() {
    let bytes = STANDARD.decode(histogram_of(&[MILLISECOND.as_ns()]).to_base64_v2()).unwrap();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&bytes[8..]), &mut plain)
        .unwrap();
    let other = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let outside = |at: usize| STANDARD.encode(other(&bytes, at));
    let inside = |at: usize| packed(&other(&plain, at));
    for (text, why) in [
        (STANDARD.encode(&bytes[..7]), "shorter than its header"),
        (outside(0), "another cookie"),
        (outside(3), "another cookie"),
        (outside(4), "a length that is not its length"),
        (outside(7), "a length that is not its length"),
        (packed(&plain[..39]), "counts shorter than their header"),
        (inside(0), "another cookie inside"),
        (inside(3), "another cookie inside"),
        (inside(4), "a length inside that is not its length"),
        (inside(7), "a length inside that is not its length"),
    ] {
        let error = Histogram::from_base64_v2(&text, 0).unwrap_err();
        assert_eq!(error, HistogramDecodeError::Format(why.into()), "{why}");
    }
    // Each number of the bounds, from its first byte to its last.
    let ours = (LOWEST_NS, HIGHEST_NS, 3);
    for (at, bounds) in [
        (12, (ours.0, ours.1, 3 ^ 1 << 24)),
        (15, (ours.0, ours.1, 2)),
        (16, (ours.0 ^ 1 << 56, ours.1, 3)),
        (23, (ours.0 ^ 1, ours.1, 3)),
        (24, (ours.0, ours.1 ^ 1 << 56, 3)),
        (31, (ours.0, ours.1 ^ 1, 3)),
    ] {
        let (lowest_ns, highest_ns, digits) = bounds;
        let error = Histogram::from_base64_v2(&inside(at), 0).unwrap_err();
        assert_eq!(error, HistogramDecodeError::Bounds { lowest_ns, highest_ns, digits }, "{at}");
    }
}

#[test]
fn histograms_are_equal_when_both_their_counts_and_their_sums_are() {
    let one = histogram_of(&[1_000_000_001]);
    assert_eq!(one, histogram_of(&[1_000_000_001]));
    // The same bucket; the same sum.
    assert_ne!(one, histogram_of(&[1_000_000_002]));
    assert_ne!(one, histogram_of(&[1_000_000_000, 1]));
}

#[test]
fn a_latency_recorded_many_times_is_recorded_as_often() {
    for latency_ns in [0, 700, HIGHEST_NS, HIGHEST_NS + 5] {
        let mut at_once = histogram_of(&[600]);
        at_once.record_n(latency_ns, 3);
        assert_eq!(at_once, histogram_of(&[600, latency_ns, latency_ns, latency_ns]));
        assert_eq!(at_once.max_ns(), Some(latency_ns.clamp(600, HIGHEST_NS)));
    }
    let mut several = histogram_of(&[600]);
    several.record_all([700, HIGHEST_NS + 5], 2);
    several.record_all([], 2);
    assert_eq!(several, histogram_of(&[600, 700, 700, HIGHEST_NS + 5, HIGHEST_NS + 5]));
    assert_eq!(several.max_ns(), Some(HIGHEST_NS));
    let mut never = Histogram::new();
    never.record_n(7, 0);
    assert_eq!((never.count(), never.max_ns()), (0, None));
    let mut first = Histogram::new();
    first.record_n(7, 1);
    assert_eq!((first.count(), first.max_ns()), (1, Some(7)));
}

#[test]
fn a_decoded_histogram_takes_no_maximum_but_that_of_its_last_bucket() {
    let decoded = |latencies_ns: &[u64]| {
        let histogram = histogram_of(latencies_ns);
        Histogram::from_base64_v2(&histogram.to_base64_v2(), histogram.sum_ns()).unwrap()
    };
    let mut one = decoded(&[351_472_000]);
    assert!(!one.set_max_ns(351_000_000) && !one.set_max_ns(351_600_000));
    assert!(one.set_max_ns(351_472_000));
    assert_eq!(one.max_ns(), Some(351_472_000));
    // Nothing longer than an hour is told apart from an hour.
    let mut longest = decoded(&[HIGHEST_NS]);
    assert!(!longest.set_max_ns(HIGHEST_NS + 1) && longest.set_max_ns(HIGHEST_NS));
    // One without events has none, and adds none.
    let mut empty = decoded(&[]);
    assert!(!empty.set_max_ns(0));
    empty.merge(&histogram_of(&[0]));
    assert_eq!(empty.max_ns(), Some(0));
    assert_eq!(longest.count_at_most(u64::MAX), 1);
}

fn error(errno: i32, offset_bytes: u64) -> IoError {
    IoError {
        kind: ErrorKind::of_errno(errno),
        operation: Operation::Write,
        tier: Tier::Storage,
        file: "shard-0.kv".into(),
        offset_bytes,
        length_bytes: 4096,
        errno,
    }
}

fn io_happens(io: &mut IoMetrics, next: &mut impl FnMut() -> u64) {
    let IoMetrics { bytes, entry_bytes, latency, sizes } = io;
    for size in sizes {
        size.count += next();
        size.bytes += next();
    }
    *bytes += next();
    *entry_bytes += next();
    latency.record(next());
}

/// Counts one made-up happening everywhere. Taken apart field by field, so that a new field does
/// not compile until it is counted, and then fails until it is merged.
fn happen(metrics: &mut Metrics, random: u64) {
    let Metrics {
        tiers,
        io_read,
        io_write,
        io_flush,
        drives,
        evictions,
        evictions_gpu_to_storage,
        promotions,
        gpu_moves,
        waits: WaitMetrics { room, growth, buffer, queue_place },
        verify: VerifyMetrics { blocks_checked, blocks_bad },
        first_touch_bytes,
        refused_entries,
        counts,
        short_transfers,
        retries,
        errors: _,
    } = metrics;
    let mut draw = random;
    let mut next = || {
        draw = mix64(draw.wrapping_add(1));
        1 + draw % (10 * SECOND.as_ns())
    };
    for TierMetrics { read, write } in tiers {
        for DirectionMetrics { entry_bytes, total, device, host } in [read, write] {
            *entry_bytes += next();
            for histogram in [total, device, host] {
                histogram.record(next());
            }
        }
    }
    drives.resize_with(2, DriveMetrics::default);
    let mut ios = vec![io_read, io_write, io_flush];
    for DriveMetrics { read, write, flush, errors } in drives {
        *errors += next();
        ios.extend([read, write, flush]);
    }
    for io in ios {
        io_happens(io, &mut next);
    }
    for PromotionMetrics { entries, bytes } in promotions.as_flattened_mut() {
        [*entries, *bytes] = [*entries + next(), *bytes + next()];
    }
    gpu_moves.each_mut().into_iter().for_each(|count| *count += next());
    let evictions = evictions.iter_mut().chain([evictions_gpu_to_storage]);
    for EvictionMetrics { bytes, entries, room, read, write } in evictions {
        *bytes += next();
        *entries += next();
        for histogram in [room, read, write] {
            histogram.record(next());
        }
    }
    for histogram in [room, growth, buffer, queue_place] {
        histogram.record(next());
    }
    for count in [blocks_checked, blocks_bad, first_touch_bytes, refused_entries] {
        *count += next();
    }
    for count in counts.each_mut().into_iter().chain([short_transfers, retries]) {
        *count += next();
    }
    let errno = [libc::EIO, libc::ENOSPC, libc::EINVAL][(random % 3) as usize];
    metrics.record_error(&error(errno, random));
}

#[test]
fn merging_shards_adds_every_counter() {
    let (mut whole, mut first, mut second) =
        (Metrics::default(), Metrics::default(), Metrics::default());
    for event in 0..20 {
        happen(&mut whole, event);
        happen(if event < 7 { &mut first } else { &mut second }, event);
    }
    assert_ne!(first, whole);
    first.merge(&second);
    assert_eq!(first, whole);
    let before = first.clone();
    first.merge(&Metrics::default());
    assert_eq!(first, before, "nothing added is nothing changed");
    let mut empty = Metrics::default();
    empty.merge(&before);
    assert_eq!(empty, before);
}

#[test]
fn errors_are_counted_by_kind_operation_and_errno_and_the_first_is_kept() {
    let mut metrics = Metrics::default();
    metrics.record_error(&error(libc::EIO, 4096));
    metrics.record_error(&error(libc::EIO, 8192));
    metrics.record_error(&error(libc::EREMOTEIO, 0));
    metrics.record_error(&IoError { operation: Operation::Read, ..error(libc::EIO, 0) });
    let mut other = Metrics::default();
    other.record_error(&error(libc::EIO, 1 << 30));
    other.record_error(&error(libc::ENOSPC, 0));
    // The same of another tier is another row.
    let of_gpu = IoError { tier: Tier::Gpu, ..error(libc::EIO, 0) };
    metrics.record_error(&of_gpu);
    other.record_error(&of_gpu);
    let of_cpu = IoError { tier: Tier::Cpu, ..error(libc::EIO, 0) };
    other.record_error(&of_cpu);
    metrics.merge(&other);
    let counts: Vec<_> = metrics.errors.iter().map(|row| (row.errno, row.count)).collect();
    let own = [(libc::EIO, 3), (libc::EREMOTEIO, 1), (libc::EIO, 1), (libc::EIO, 2)];
    assert_eq!(counts, [&own[..], &[(libc::ENOSPC, 1), (libc::EIO, 1)]].concat());
    assert_eq!(metrics.error_count(), 9);
    assert_eq!(metrics.errors[0].first.offset_bytes, 4096);
}

#[test]
fn each_tier_has_its_own_counters() {
    let mut metrics = Metrics::default();
    for tier in Tier::ALL {
        metrics.tiers[tier.index()].read.entry_bytes = tier.index() as u64 + 1;
    }
    assert_eq!(Tier::ALL.map(|tier| metrics.tier(tier).read.entry_bytes), [1, 2, 3]);
}

#[test]
fn an_io_is_counted_with_all_its_bytes_and_in_its_octave() {
    let mut io = IoMetrics::default();
    io.add(4_096, 4_000, 700);
    io.add(4_096, 4_096, 900);
    io.add(1 << 20, 1, 5);
    let sums = (io.bytes, io.entry_bytes, io.latency.count(), io.latency.sum_ns());
    assert_eq!(sums, (8_192 + (1 << 20), 8_097, 3, 1_605));
    let mut sizes = [SizeCount::default(); SIZE_CLASSES];
    sizes[0] = SizeCount { count: 2, bytes: 8_192 };
    sizes[8] = SizeCount { count: 1, bytes: 1 << 20 };
    assert_eq!(io.sizes, sizes);
    let classes = [0, 1, 4_096, 8_191, 8_192, 16_383, 16_384, 64 << 20, 128 << 20, 1 << 40];
    assert_eq!(classes.map(size_class), [0, 0, 0, 0, 1, 1, 2, 14, 14, 14]);
}

#[test]
fn what_left_the_gpu_tier_counts_past_the_cpu_tier_too() {
    let mut metrics = Metrics::default();
    for (index, eviction) in metrics.evictions.iter_mut().enumerate() {
        (eviction.entries, eviction.bytes) = (10 + index as u64, 100 + index as u64);
    }
    let past = &mut metrics.evictions_gpu_to_storage;
    (past.entries, past.bytes) = (5, 50);
    assert_eq!(Tier::ALL.map(|tier| metrics.evicted_entries(tier)), [15, 11, 12]);
    assert_eq!(Tier::ALL.map(|tier| metrics.evicted_bytes(tier)), [150, 101, 102]);
}

#[test]
fn what_moved_up_to_a_tier_is_the_sum_over_all_below() {
    let mut metrics = Metrics::default();
    for (from, to, entries) in [(Tier::Storage, Tier::Gpu, 3), (Tier::Cpu, Tier::Gpu, 4)] {
        let bytes = entries * 10;
        metrics.promotions[from.index()][to.index()] = PromotionMetrics { entries, bytes };
    }
    let expected = PromotionMetrics { entries: 7, bytes: 70 };
    assert_eq!(metrics.promoted_to(Tier::Gpu), expected);
    assert_eq!(metrics.promoted_to(Tier::Cpu), PromotionMetrics::default());
}

#[test]
fn a_drive_has_counters_once_it_is_asked_for() {
    let mut metrics = Metrics::default();
    metrics.drive(1).errors = 7;
    assert_eq!(metrics.drives.len(), 2);
    metrics.drive(0).errors = 5;
    let errors: Vec<u64> = metrics.drives.iter().map(|drive| drive.errors).collect();
    assert_eq!(errors, [5, 7]);
}
