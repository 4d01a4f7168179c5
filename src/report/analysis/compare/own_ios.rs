//! Single I/Os of two storages, which say something of them where the work differs that the I/Os
//! were for.

use ringfall_core::units::{MIB, gib};
use ringfall_model::Document;
use ringfall_model::document::IoDirection;

use super::Side;

/// I/Os of a direction below which nothing is said of them.
const COUNT_MIN: u64 = 100;
/// Share by which their mean sizes may differ.
const SIZE_TOLERANCE: f64 = 0.01;

/// I/Os of one direction: their means, and what they moved.
struct OwnIos {
    gib_per_s: f64,
    size_mib: f64,
    latency_ms: f64,
    in_flight: f64,
}

impl OwnIos {
    /// I/Os of a direction in the window; none where there were too few.
    fn of(direction: &IoDirection, seconds: f64) -> Option<OwnIos> {
        let bytes = direction.bytes.known()?;
        direction.count.known().filter(|&count| count >= COUNT_MIN)?;
        Some(OwnIos {
            gib_per_s: gib(bytes) / seconds,
            size_mib: direction.size_mean_bytes.known()? / MIB as f64,
            latency_ms: direction.latency_ms.as_ref()?.percentiles.mean.known()?,
            in_flight: direction.depth_mean.known()?,
        })
    }

    fn told(&self) -> String {
        let OwnIos { gib_per_s, latency_ms, in_flight, .. } = self;
        format!("{gib_per_s:.2} GiB/s ({latency_ms:.2} ms each, {in_flight:.1} in flight)")
    }
}

/// Rates and latencies of both sides' I/Os, in each direction in which they were of one size, as a
/// sentence; none where there was no such direction.
pub(super) fn told([baseline, candidate]: [&Side; 2]) -> Option<String> {
    let (first, second) = (baseline.whole.as_ref()?, candidate.whole.as_ref()?);
    let (first_s, second_s) = (seconds(first)?, seconds(second)?);
    let of = |name: &str, pick: fn(&Document) -> &IoDirection| {
        let first = OwnIos::of(pick(first), first_s)?;
        let second = OwnIos::of(pick(second), second_s)?;
        let apart = (first.size_mib / second.size_mib - 1.0).abs();
        (apart <= SIZE_TOLERANCE).then(|| {
            format!(
                "{name} of {:.2} MiB ran at {} on the baseline and at {} on the candidate",
                first.size_mib,
                first.told(),
                second.told()
            )
        })
    };
    let directions = [of("reads", |d| &d.ringfall.io.read), of("writes", |d| &d.ringfall.io.write)];
    let all: Vec<String> = directions.into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("Means of the storages' own I/Os: {}.", all.join("; ")))
}

/// Length of the window, if it has one, s.
fn seconds(document: &Document) -> Option<f64> {
    document.seconds().filter(|&seconds| seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use ringfall_model::testing::{file, nothing, to_json};

    use super::*;

    fn side(count: u64, size_bytes: u64, latency_ms: u64) -> Side {
        let mut result = nothing();
        result.window.seconds = 10.0;
        let io = &mut result.engine.io_read;
        io.bytes = count * size_bytes;
        io.entry_bytes = io.bytes;
        io.sizes[0].bytes = io.bytes;
        (0..count).for_each(|_| io.latency.record(latency_ms * 1_000_000));
        Side::of(vec![file("a.json", to_json(&result))]).unwrap()
    }

    #[test]
    fn reads_of_one_size_say_how_fast_a_storage_is() {
        let told = |first: &Side, second: &Side| super::told([first, second]);
        let (fast, slow) = (side(2_048, MIB, 2), side(512, MIB, 20));
        let text = told(&slow, &fast).unwrap();
        let begin = "Means of the storages' own I/Os: reads of 1.00 MiB ran at 0.05 GiB/s (20.0";
        assert!(text.starts_with(begin), "{text}");
        for part in ["on the baseline and at 0.20 GiB/s (2.0", "in flight) on the candidate."] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Others are no measure, nor is a handful.
        assert_eq!(told(&slow, &side(2_048, 2 * MIB, 2)), None);
        assert_eq!(told(&slow, &side(99, MIB, 2)), None);
    }
}
