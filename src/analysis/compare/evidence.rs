//! What a result holds of how sure a metric is.

use crate::results::document::{CLASSES, SecondReport};
use crate::results::metrics::{DECODE_READ, STORAGE_THROUGHPUT, WALL_CLOCK};

/// Where the variation of a metric is to be found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Evidence {
    /// It is a quantile of these histograms together.
    Quantile {
        /// By their names.
        histograms: &'static [&'static str],
        /// 0..=1.
        quantile: f64,
    },
    /// It is, or is proportional to, the sum of this amount of each second.
    PerSecond(fn(&SecondReport) -> Option<u64>),
    /// Nowhere, and why.
    None(&'static str),
}

fn all_read(second: &SecondReport) -> Option<u64> {
    let tiers = &second.tiers;
    let memory = tiers.gpu.read.bytes.known()?.saturating_add(tiers.cpu.read.bytes.known()?);
    Some(memory.saturating_add(storage_read(second)?))
}

fn all_written(second: &SecondReport) -> Option<u64> {
    let tiers = &second.tiers;
    let memory = tiers.gpu.write.bytes.known()?.saturating_add(tiers.cpu.write.bytes.known()?);
    Some(memory.saturating_add(storage_written(second)?))
}

fn storage_read(second: &SecondReport) -> Option<u64> {
    second.tiers.storage.read.bytes.known()
}

fn storage_written(second: &SecondReport) -> Option<u64> {
    second.tiers.storage.write.bytes.known()
}

/// Latencies by the start of their key, and the histograms they come from.
const LATENCIES: [(&str, &[&str]); 4] = [
    ("end_to_end_", &CLASSES),
    ("storage_io_", &["storage_io"]),
    ("storage_read_device_", &["storage_read_device"]),
    ("storage_write_device_", &["storage_write_device"]),
];

/// The evidence for a metric, by its key.
pub(super) fn evidence_of(key: &str) -> Evidence {
    for (start, histograms) in LATENCIES {
        let quantile = match key.strip_prefix(start) {
            Some("p50_ms") => 0.5,
            Some("p95_ms") => 0.95,
            Some("p99_ms") => 0.99,
            Some("mean_ms") => return Evidence::None("a mean of few long times has none"),
            _ => continue,
        };
        return Evidence::Quantile { histograms, quantile };
    }
    match key {
        WALL_CLOCK | "tokens" => Evidence::PerSecond(|second| second.generated_tokens.known()),
        "wall_clock_requests_per_s" | "requests" => {
            Evidence::PerSecond(|second| second.requests_completed.known())
        }
        // What decoding read is nearly all that was read, and not told apart by the second.
        DECODE_READ | "total_read_gb" => Evidence::PerSecond(all_read),
        "prefill_bytes_written_gb" | "total_write_gb" => Evidence::PerSecond(all_written),
        "storage_read_bandwidth_gib_per_s" => Evidence::PerSecond(storage_read),
        "storage_write_bandwidth_gib_per_s" => Evidence::PerSecond(storage_written),
        STORAGE_THROUGHPUT | "storage_requests_per_s" | "storage_io_time_s" => {
            Evidence::None("storage time is not known by the second; give trials")
        }
        _ => Evidence::None("its variation is not recorded; give trials"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::metrics::METRICS;

    #[test]
    fn percentiles_and_rates_of_the_headline_have_evidence() {
        for metric in METRICS.iter().filter(|metric| metric.key.contains("_p")) {
            if metric.key.ends_with("_ms") {
                let evidence = evidence_of(metric.key);
                assert!(matches!(evidence, Evidence::Quantile { .. }), "{}", metric.key);
            }
        }
        for metric in METRICS.iter().filter(|m| m.headline && m.key != STORAGE_THROUGHPUT) {
            assert!(!matches!(evidence_of(metric.key), Evidence::None(_)), "{}", metric.key);
        }
    }
}
