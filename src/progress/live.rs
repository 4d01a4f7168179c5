//! Five lines about a run, for a terminal that has room for them: they stand where they are while
//! their figures change.

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;
use ringfall_host::{counted, human, human_time};
use ringfall_model::facts::TimelineTier;
use ringfall_running::run::{Phase, Progress, SecondFigures, Timeline};

use super::{line_of_phase, reported, time_left, users};

/// Seconds that a sparkline shows.
const SPARK_SECONDS: usize = 60;
/// Newest seconds whose latencies are shown together: those that the timeline keeps open.
const LATENCY_SECONDS: usize = 5;
/// Columns of both bandwidths without their sparklines: `write 123.45 GiB/s ` twice.
const BANDWIDTH_COLUMNS: usize = 38;
/// Columns of a bar at the most, and the fewest that show anything.
const BAR_COLUMNS_MAX: usize = 40;
const BAR_COLUMNS_MIN: usize = 8;
/// Time from which minutes are told, seconds.
const MINUTES_FROM_S: u64 = 120;
/// Smallest share of the waits that is told.
const SHARE_MIN: f64 = 0.01;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Five lines that say how far a run has come, and how it goes, laid out for `width` columns; what
/// is longer is to be cut.
pub fn live_text(progress: &Progress<'_>, width: usize) -> Vec<String> {
    vec![
        phase(progress, width),
        bandwidths(progress.timeline, width),
        latencies(progress.timeline),
        requests(progress),
        waits(progress),
    ]
}

/// Phase, a bar, and the time left.
fn phase(progress: &Progress<'_>, width: usize) -> String {
    let phase = progress.phase;
    let elapsed_s = progress.elapsed.as_secs_f64();
    let (done, all) = (progress.status.populated, progress.status.population);
    match phase {
        Phase::Populate if all > 0 => {
            let left = time_left(elapsed_s, done, all);
            let end = format!(", {done} of {all} entries{left}");
            bar(phase, done as f64 / all as f64, &end, width)
        }
        Phase::WarmUp | Phase::Measure if progress.left < Nanos::MAX => {
            let length_s = elapsed_s + progress.left.as_secs_f64();
            let share = if length_s > 0.0 { elapsed_s / length_s } else { 1.0 };
            let end = format!(", {} left", time_text(progress.left.div_ceil(SECOND)));
            bar(phase, share, &end, width)
        }
        Phase::WarmUp | Phase::Measure => phase.to_string(),
        Phase::Populate
        | Phase::Gather
        | Phase::Drain
        | Phase::Open
        | Phase::Precondition
        | Phase::Assemble
        | Phase::Report => line_of_phase(progress),
    }
}

/// `measuring  ████░░░░  50 %, 30 s left`: the bar takes the room that the rest leaves.
fn bar(phase: Phase, share: f64, end: &str, width: usize) -> String {
    let share = share.clamp(0.0, 1.0);
    let (begin, end) = (format!("{:<10} ", phase.doing()), format!("{:>3.0} %{end}", share * 1e2));
    let taken = begin.chars().count() + 1 + end.chars().count();
    let columns = width.saturating_sub(taken).min(BAR_COLUMNS_MAX);
    if columns < BAR_COLUMNS_MIN {
        return format!("{begin}{end}");
    }
    let full = (share * columns as f64).round() as usize;
    format!("{begin}{}{} {end}", "█".repeat(full), "░".repeat(columns - full))
}

/// `45 s`, `12 min 05 s`.
fn time_text(seconds: u64) -> String {
    match seconds {
        0..MINUTES_FROM_S => format!("{seconds} s"),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// Bandwidths of the storage tier in the last second, each with its last minute.
fn bandwidths(timeline: &Timeline, width: usize) -> String {
    let seconds = reported(timeline);
    let columns = (width.saturating_sub(BANDWIDTH_COLUMNS) / 2).clamp(1, SPARK_SECONDS);
    let direction = |name: &str, bytes: fn(&TimelineTier) -> u64| {
        let of = |second: &SecondFigures| bytes(&second.row.tiers[Tier::Storage.index()]);
        let last = seconds.last().map(|second| format!("{:.2}", gib(of(second))));
        let spark = sparkline(seconds.iter().map(of), columns);
        format!("{name} {:>6} GiB/s {spark:<columns$}", last.as_deref().unwrap_or("-"))
    };
    let read = direction("read", |tier| tier.read.bytes);
    let write = direction("write", |tier| tier.write.bytes);
    format!("{read} {write}").trim_end().to_owned()
}

/// The last minute of a figure that has one value a second, in at most so many columns, scaled to
/// the largest. Where a column stands for several seconds, it shows their mean; they begin at a
/// multiple of their number, so that a column keeps its height while it moves.
fn sparkline(values: impl ExactSizeIterator<Item = u64>, columns: usize) -> String {
    let each = SPARK_SECONDS.div_ceil(columns.max(1));
    let begin = values.len().saturating_sub(SPARK_SECONDS) / each * each;
    let values: Vec<u64> = values.skip(begin).collect();
    let means = values.chunks(each).map(|some| some.iter().sum::<u64>() as f64 / some.len() as f64);
    let means: Vec<f64> = means.collect();
    let shown = &means[means.len().saturating_sub(SPARK_SECONDS / each)..];
    let largest = shown.iter().copied().fold(0.0, f64::max);
    let top = (LEVELS.len() - 1) as f64;
    let level = |mean: &f64| match largest > 0.0 {
        true => (mean / largest * top).round() as usize,
        false => 0,
    };
    shown.iter().map(|mean| LEVELS[level(mean)]).collect()
}

/// Latencies of entries on the storage tier: of reads, and of writes where there were any.
fn latencies(timeline: &Timeline) -> String {
    let mut sums = [Histogram::new(), Histogram::new()];
    for second in timeline.seconds().iter().rev().take(LATENCY_SECONDS) {
        for (sum, latency) in sums.iter_mut().zip(second.latencies(Tier::Storage)) {
            latency.into_iter().for_each(|latency| sum.merge(latency));
        }
    }
    let quantile = |latency: &Histogram, quantile| {
        let time = latency.quantile_ns(quantile).map(|ns| human_time(ns as f64 / 1e6));
        time.unwrap_or_else(|| "-".to_owned())
    };
    let direction = |name: &str, latency: &Histogram| {
        format!("{name} P50 {} P99 {}", quantile(latency, 0.5), quantile(latency, 0.99))
    };
    let [reads, writes] = &sums;
    let mut told = direction("read", reads);
    if writes.count() > 0 {
        told.push_str(&format!(", {}", direction("write", writes)));
    }
    told + " | last 5 s"
}

/// Users, their requests, and the hit rate so far.
fn requests(progress: &Progress<'_>) -> String {
    let status = &progress.status;
    let users = users(progress);
    let rate = status.requests.reuse.hit_rate();
    let rate = rate.map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 1e2));
    format!(
        "{users}{} running, {} queued | hit rate {rate} | {} completed",
        status.serving, status.queued, status.requests.completed
    )
}

/// Errors, what the run waits for, how full the tiers are, and what its requests have waited for.
fn waits(progress: &Progress<'_>) -> String {
    let errors = progress.status.errors;
    let errors = (errors > 0).then(|| counted(errors, "error"));
    let waiting = progress.waiting.map(|waiting| waiting.to_string());
    let told = [errors, waiting, occupancy(progress), waited(progress)];
    told.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}

/// `CPU 95 % of 4.0 GiB, storage 42 % of 100.0 GiB`: the tiers that there are.
fn occupancy(progress: &Progress<'_>) -> Option<String> {
    let tier = |tier: Tier| {
        let capacity_bytes = progress.budgets.capacity_bytes(tier);
        let held_bytes = progress.status.held[tier.index()].bytes;
        let name = match tier {
            Tier::Gpu => "GPU",
            Tier::Cpu => "CPU",
            Tier::Storage => "storage",
        };
        let share = 1e2 * held_bytes as f64 / capacity_bytes as f64;
        (capacity_bytes > 0).then(|| format!("{name} {share:.0} % of {}", human(capacity_bytes)))
    };
    let tiers: Vec<String> = Tier::ALL.into_iter().filter_map(tier).collect();
    (!tiers.is_empty()).then(|| tiers.join(", "))
}

/// `waits: storage I/O 80 %, queue 20 %`: shares of the time that completed requests have waited.
fn waited(progress: &Progress<'_>) -> Option<String> {
    let requests = &progress.status.requests;
    let waits = [
        ("storage I/O", requests.storage_io_ns),
        ("queue", requests.queued_ns),
        ("space", requests.room_ns),
        ("permits", requests.permit_ns),
    ];
    let all_ns = waits.iter().map(|(_, ns)| *ns as f64).sum::<f64>();
    let share = |(name, ns): (&str, u128)| {
        let share = ns as f64 / all_ns;
        // Nothing has waited yet, or not for that.
        (share >= SHARE_MIN).then(|| format!("{name} {:.0} %", share * 1e2))
    };
    let shares: Vec<String> = waits.into_iter().filter_map(share).collect();
    (!shares.is_empty()).then(|| format!("waits: {}", shares.join(", ")))
}

#[cfg(test)]
mod tests {
    use ringfall_core::placement::TierCounts;
    use ringfall_core::units::{GIB, MIB};
    use ringfall_engine::shard::{Second, SecondDirection};
    use ringfall_running::driver::{RequestCounts, ShardStatus};
    use ringfall_running::run::SlowIos;

    use super::*;
    use crate::progress::tests::Begun;

    fn direction(bytes: u64, latencies_ms: &[u64]) -> SecondDirection {
        let mut latency = Histogram::new();
        latencies_ms.iter().for_each(|ms| latency.record(ms * 1_000_000));
        let latency = (latency.count() > 0).then(|| Box::new(latency));
        SecondDirection { bytes, operations: latencies_ms.len() as u64, latency }
    }

    fn second(index: u64, read: SecondDirection, write: SecondDirection) -> Second {
        let mut second = Second { index, ..Second::default() };
        second.tiers[Tier::Storage.index()] = [read, write];
        second
    }

    #[test]
    fn every_phase_has_five_lines_without_figures_too() {
        let begun = Begun::new();
        for phase in Phase::ALL {
            for left in [Nanos::ZERO, SECOND, Nanos::MAX] {
                for width in [0, 1, 59, 79, 159] {
                    let text = live_text(&Progress { left, ..begun.at(phase) }, width);
                    assert_eq!(text.len(), 5, "{phase:?}: {text:?}");
                    let all = text.concat();
                    assert!(!all.contains("NaN") && !all.contains("inf"), "{phase:?}: {text:?}");
                }
            }
        }
        let text = live_text(&begun.at(Phase::Measure), 79);
        let expected: [&str; 5] = [
            "measuring",
            &format!("read      - GiB/s {:20} write      - GiB/s", ""),
            "read P50 - P99 - | last 5 s",
            "0 running, 0 queued | hit rate - | 0 completed",
            "storage 0 % of 4 KiB",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn a_phase_whose_end_is_known_has_a_bar_and_the_time_left() {
        let begun = Begun::new();
        let first = |progress: &Progress<'_>, width| live_text(progress, width).swap_remove(0);
        let measuring =
            Progress { elapsed: 45 * SECOND, left: 135 * SECOND, ..begun.at(Phase::Measure) };
        let text = first(&measuring, 59);
        assert_eq!(
            text,
            format!("measuring  {}{}  25 %, 2 min 15 s left", "█".repeat(6), "░".repeat(19))
        );
        assert_eq!(first(&measuring, 40), "measuring   25 %, 2 min 15 s left");
        let populating = Progress {
            elapsed: 10 * SECOND,
            status: ShardStatus { populated: 100, population: 300, ..ShardStatus::default() },
            ..begun.at(Phase::Populate)
        };
        let end = " 33 %, 100 of 300 entries, about 20 s left";
        let text = first(&populating, 79);
        assert!(text.starts_with("populating █") && text.ends_with(end), "{text}");
        assert_eq!(text.chars().count(), 79, "{text}");
        let ended = Progress { elapsed: SECOND, left: Nanos::ZERO, ..begun.at(Phase::WarmUp) };
        assert_eq!(first(&ended, 159), format!("warming up {} 100 %, 0 s left", "█".repeat(40)));
        let ending = Progress { is_interrupted: true, ..begun.at(Phase::Drain) };
        assert!(first(&ending, 79).contains("a second signal"));
    }

    #[test]
    fn a_sparkline_is_the_last_minute_scaled_to_its_largest_value() {
        let of = |values: &[u64], columns| sparkline(values.iter().copied(), columns);
        assert_eq!(of(&[], 20), "");
        assert_eq!(of(&[0, 0], 60), "▁▁");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7], 60), "▁▂▃▄▅▆▇█");
        // What was larger a minute ago is forgotten.
        let falling: Vec<u64> = (0..70).map(|second| if second < 10 { 100 } else { 7 }).collect();
        assert_eq!(of(&falling, 60), "█".repeat(60));
        // Means of three seconds, the last of one.
        assert_eq!(of(&[0, 0, 0, 7, 14, 21, 28], 20), "▁▅█");
        for columns in 0..=60 {
            let shown = of(&vec![1; 1_000], columns).chars().count();
            assert!(shown <= columns.max(1), "{shown} of {columns}");
        }
    }

    /// The newest second may not be complete, so that its bandwidth is not shown.
    #[test]
    fn bandwidths_are_of_the_last_whole_second_and_latencies_of_the_last_five() {
        let mut begun = Begun::new();
        begun.timeline.add(vec![
            second(0, direction(GIB / 2, &[900]), direction(0, &[])),
            second(1, direction(GIB, &[4]), direction(0, &[])),
            second(2, direction(GIB, &[4]), direction(0, &[])),
            second(3, direction(3 * GIB, &[4]), direction(256 * MIB, &[16])),
            second(4, direction(2 * GIB, &[4]), direction(512 * MIB, &[16])),
            second(5, direction(9, &[64]), direction(9, &[])),
        ]);
        let text = live_text(&begun.at(Phase::Measure), 79);
        let expected: [&str; 2] = [
            &format!("read   2.00 GiB/s {:20} write   0.50 GiB/s ▁█", "▃█"),
            "read P50 4.00 ms P99 64.0 ms, write P50 16.0 ms P99 16.0 ms | last 5 s",
        ];
        assert_eq!(text[1..3], expected);
        assert!(live_text(&begun.at(Phase::Measure), 159)[1].contains("▂▃▃█▆"));
        for width in [59, 79, 100, 159] {
            let filled: Vec<Second> = (0..90)
                .map(|index| second(index, direction(GIB, &[]), direction(GIB, &[])))
                .collect();
            begun.timeline.add(filled);
            let line = &live_text(&begun.at(Phase::Measure), width)[1];
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }

    #[test]
    fn the_last_lines_say_what_is_done_and_what_is_waited_for() {
        let begun = Begun::new();
        let mut requests = RequestCounts {
            completed: 34,
            storage_io_ns: 800,
            queued_ns: 190,
            permit_ns: 10,
            ..RequestCounts::default()
        };
        (requests.reuse.found, requests.reuse.missed) = (3, 1);
        let mut status = ShardStatus { serving: 5, queued: 3, requests, ..ShardStatus::default() };
        status.held[Tier::Storage.index()] = TierCounts { bytes: 1_024, ..TierCounts::default() };
        let measuring = Progress { users: Some(9), status, ..begun.at(Phase::Measure) };
        let expected = [
            "9 users, 5 running, 3 queued | hit rate 75.0 % | 34 completed",
            "storage 25 % of 4 KiB | waits: storage I/O 80 %, queue 19 %, permits 1 %",
        ];
        assert_eq!(live_text(&measuring, 79)[3..], expected);
        let waiting = Some(SlowIos { on: "drive", ios: 128, oldest: 7 * SECOND });
        let status = ShardStatus { errors: 2, ..ShardStatus::default() };
        let stuck = Progress { waiting, status, ..begun.at(Phase::Measure) };
        assert_eq!(
            live_text(&stuck, 79)[4],
            "2 errors | waiting for the drive: 128 I/Os, the oldest for 7 s | storage 0 % of 4 KiB"
        );
    }
}
