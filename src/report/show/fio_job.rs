//! A run distilled to a fio job: its sizes, its mix, its depth by Little's law, its pauses.

use std::fmt::Write as _;

use ringfall_host::escape;
use ringfall_model::Document;
use ringfall_model::document::engine::IoDirection;

use super::total;

/// Sizes in a split, at most: more would not be told apart by anybody.
const SIZES_MAX: usize = 6;
const BLOCK_BYTES: u64 = 4096;
/// I/Os in order, at most.
const IN_ORDER_MAX: u64 = 100_000;

/// The job; none when the run did no I/O on a data file, or the result does not say how much.
pub fn fio_job(document: &Document) -> Option<String> {
    let ours = &document.ringfall;
    let io = &ours.io;
    let (reads, writes) = (io.read.count.known()?, io.write.count.known()?);
    let all = total([reads, writes]);
    let seconds = ours.window.seconds.known()?;
    let config = ours.config.as_ref()?;
    if all == 0 || seconds <= 0.0 || !ours.has_data_file() {
        return None;
    }
    let depth = io.read.depth_mean.known()? + io.write.depth_mean.known()?;
    // As many jobs as shards, but none with less than one I/O in flight.
    let jobs = u64::from(config.shards.unwrap_or(u16::MAX)).min(depth.round() as u64).max(1);
    let depth_a_job = (depth / jobs as f64).round().max(1.0);
    // Little's law for a job that waits for its one I/O and then pauses: the mean number in flight
    // is latency over latency and pause.
    let latency_us = depth * seconds * 1e6 / all as f64;
    let in_flight = depth_a_job * jobs as f64;
    let pause_us = (latency_us * (in_flight / depth.max(1e-9) - 1.0)).round();
    let thinks = depth_a_job <= 1.0 && pause_us >= 1.0;
    let rw = match (reads, writes) {
        (_, 0) => "randread",
        (0, _) => "randwrite",
        _ => "randrw",
    };
    let in_order = ios_in_order(document, all);
    let mut job = String::new();
    // Writing to a String can't fail.
    let _infallible = write!(
        job,
        "; Distilled by ringfall {} from a run of {}{}, {:.0} s:\n\
         ; read {:.3} GiB/s, write {:.3} GiB/s, {:.1} I/Os in flight (Little's law).\n\
         ; Run it as: GLIBC_TUNABLES=glibc.malloc.hugetlb=1 FILENAME=/mnt/nvme/fio.dat fio THIS\n\
         ; (buffers in huge pages, as ringfall's: without them the kernel cuts I/Os smaller).\n\
         [ringfall]\nioengine=io_uring\ndirect=1\nfilename=${{FILENAME}}\nsize={}\n\
         iomem_align=2m\nfixedbufs=1\nregisterfiles=1\nrw={rw}:{in_order}\n",
        escape::fio(ours.version.as_ref().map_or("", String::as_str)),
        escape::fio(config.model.as_deref().unwrap_or("several models")),
        config.num_users.map_or(String::new(), |users| format!(", {users} users")),
        seconds,
        io.read.bandwidth_gib_per_s.known()?,
        io.write.bandwidth_gib_per_s.known()?,
        depth,
        size_bytes(document),
    );
    if rw == "randrw" {
        let percent = (reads as f64 * 100.0 / all as f64).round().clamp(1.0, 99.0);
        let _infallible = writeln!(job, "rwmixread={percent}");
    }
    let _infallible = write!(
        job,
        "bssplit={},{}\niodepth={depth_a_job}\nnumjobs={jobs}\n\
         norandommap=1\nrandrepeat=0\nrefill_buffers=1\n",
        split(&io.read),
        split(&io.write),
    );
    // A data sync after so many writes, as entries had.
    if let Some(flushes @ 1..) = io.flush.count.known().filter(|_| writes > 0) {
        let _infallible = writeln!(job, "fdatasync={}", (writes / flushes).max(1));
    }
    if thinks {
        let _infallible = writeln!(job, "thinktime={pause_us}");
    }
    let _infallible = write!(
        job,
        "time_based=1\nruntime={}\ngroup_reporting=1\n",
        (seconds.round() as u64).max(1)
    );
    Some(job)
}

/// An entry is read or written from its first byte to its last: so many I/Os in order, then
/// elsewhere.
fn ios_in_order(document: &Document, all: u64) -> u64 {
    let counts = ["storage_read_total", "storage_write_total"]
        .into_iter()
        .filter_map(|name| document.ringfall.histograms.count(name));
    let entries = total(counts);
    (all / entries.max(1)).clamp(1, IN_ORDER_MAX)
}

/// Size of fio's file: the run's storage capacity, at least enough for a few of the largest I/Os.
fn size_bytes(document: &Document) -> u64 {
    const LEAST: u64 = 256 << 20;
    let capacity = document.ringfall.config.as_ref().and_then(|c| c.storage_capacity_bytes);
    capacity.unwrap_or(LEAST).max(LEAST) / BLOCK_BYTES * BLOCK_BYTES
}

/// fio's `bssplit`: sizes and their percent, which are whole and add up to 100.
fn split(io: &IoDirection) -> String {
    let mut rows: Vec<(u64, u64)> = io
        .sizes
        .values()
        .filter_map(|row| row.bytes.known().zip(row.count.known()))
        .filter(|&(_, count)| count > 0)
        .map(|(bytes, count)| ((bytes / count).div_ceil(BLOCK_BYTES), count))
        .map(|(blocks, count)| (blocks.saturating_mul(BLOCK_BYTES), count))
        .collect();
    rows.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    rows.truncate(SIZES_MAX);
    let all = u128::from(total(rows.iter().map(|&(_, count)| count)).max(1));
    // At most 100, but for sums that no run has.
    let percent = |count: u64| (u128::from(count) * 100 + all / 2) / all;
    rows.retain(|&(_, count)| percent(count) > 0);
    let Some(((largest, _), rest)) = rows.split_first() else { return "4k/100".to_owned() };
    let others: u128 = rest.iter().map(|&(_, count)| percent(count)).sum();
    let mut text = format!("{largest}/{}", 100 - others.min(99));
    for (bytes, count) in rest {
        let _infallible = write!(text, ":{bytes}/{}", percent(*count));
    }
    text
}

#[cfg(test)]
mod tests {
    use ringfall_model::facts::FileCounts;
    use ringfall_model::figures::figure::{Derived, Sum};
    use ringfall_model::testing::{busy, nothing};

    use super::*;

    #[test]
    fn a_run_without_io_has_no_job() {
        assert_eq!(fio_job(&Document::of(&nothing())), None);
    }

    #[test]
    fn a_run_on_the_files_of_a_layout_has_no_job() {
        let mut result = busy();
        assert!(fio_job(&Document::of(&result)).is_some());
        result.files = Some(FileCounts::default());
        assert_eq!(fio_job(&Document::of(&result)), None);
    }

    #[test]
    fn the_job_has_the_runs_mix_and_sizes() {
        let mut result = busy();
        let size = |count, bytes| ringfall_core::metrics::SizeCount { count, bytes };
        result.engine.io_read.sizes[0] = size(0, 0);
        result.engine.io_read.sizes[8] = size(95, 95 << 20);
        result.engine.io_read.sizes[3] = size(5, 5 * 40_000);
        let mut document = Document::of(&result);
        document.ringfall.io.read.count = Sum::of(80);
        document.ringfall.io.write.count = Sum::of(20);
        document.ringfall.io.read.depth_mean = Derived::of(30.0);
        document.ringfall.io.write.depth_mean = Derived::of(10.0);
        let job = fio_job(&document).unwrap();
        assert!(job.contains("rwmixread=80\n"), "{job}");
        assert!(job.contains("bssplit=1048576/95:40960/5,"), "{job}");
        let number = |name: &str| {
            let line = job.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.parse::<u64>().unwrap()
        };
        assert_eq!(number("iodepth=") * number("numjobs="), 40);
        assert!(!job.contains("thinktime"), "{job}");
        document.ringfall.io.read.depth_mean = Derived::of(0.2);
        document.ringfall.io.write.depth_mean = Derived::of(0.05);
        let idle = fio_job(&document).unwrap();
        assert!(idle.contains("iodepth=1\nnumjobs=1\n") && idle.contains("thinktime="), "{idle}");
    }
}
