//! Limits of storage as text on a terminal, and names of what they are limits of.

use ringfall_model::facts::{Best, Limit, Measured, Roofline};
use ringfall_workloads::model::built_in;

use super::GIB;
use super::prose::prose;
use super::table::{Table, digits, fixed, latency};
use ringfall_host::human_time as time;

const WIDTH: usize = 96;
/// Context whose load the limits are told in: of the default model, and of a usual length.
const KV_MODEL: &str = "llama3.1-8b";
const KV_TOKENS: u64 = 4096;
/// Writes faster than reads by this much are not what flash does: a cache takes them.
const WRITES_FASTER: f64 = 1.2;

/// The roofline as text for a terminal.
pub fn roofline_text(roofline: &Roofline) -> String {
    let mut rows: Vec<(String, &Measured)> = Vec::new();
    for Limit { read_percent, bandwidth, iops, in_small_pages, .. } in &roofline.limits {
        let name = direction(*read_percent);
        for (what, found) in [("bandwidth", Some(bandwidth)), ("IOPS", iops.as_ref())] {
            let Some(Best { best, knee, .. }) = found else { continue };
            rows.push((format!("{name}, {what}"), best));
            if (knee.io_bytes, knee.depth) != (best.io_bytes, best.depth) {
                rows.push(("    at the knee".to_owned(), knee));
            }
            if let Some(small) = in_small_pages.as_ref().filter(|_| what == "bandwidth") {
                rows.push(("    in 4 KiB pages".to_owned(), small));
            }
        }
    }
    let table = Table::of(&rows)
        .text("", |(name, _)| name.as_str())
        .number("GiB/s", fixed(3), |(_, of)| of.bytes_per_s / GIB)
        .count("IOPS", |(_, of)| of.iops)
        .count("I/O", |(_, of)| io_size(of.io_bytes))
        .count("depth", |(_, of)| of.depth)
        .count("P50", |(_, of)| latency(of.latency_p50_us))
        .count("P99", |(_, of)| latency(of.latency_p99_us))
        .text("", |(_, of)| if of.steady { "" } else { " not steady" })
        .widths(&[19, 8, 9, 8, 6, 9, 9]);
    let mut page = table.done().page();
    drive_rows(&mut page, roofline);
    kv_line(roofline, &mut page);
    for sentence in trust(roofline) {
        wrapped(&mut page, "  trust        ", &sentence);
    }
    let limit = roofline.time_limit_s;
    let limit = limit.map_or(String::new(), |limit| format!(" of the {limit} s of --time-limit"));
    ranks_line(roofline, &mut page);
    page.push_str(&format!("  search       {:.1} s{limit}\n", roofline.seconds));
    for sentence in roofline.left_undone() {
        wrapped(&mut page, "  time limit   ", &sentence);
    }
    for limit in &roofline.limits {
        if let Some(fastest) = limit.bandwidth.outrun() {
            let text = format!(
                "{} {:.3} GiB/s in a probe of {:.1} s, {:.3} over the {:.1} s {}: the speed of \
                 this device varies; try when nothing else uses it, with --size-gb {}GiB",
                direction(limit.read_percent),
                fastest.bytes_per_s / GIB,
                fastest.seconds,
                limit.bandwidth.best.bytes_per_s / GIB,
                limit.bandwidth.best.seconds,
                limit.bandwidth.best.ended(),
                digits(4.0 * roofline.range_bytes as f64 / GIB, 3)
            );
            wrapped(&mut page, "  note: ", &text);
        }
    }
    for warning in &roofline.warnings {
        wrapped(&mut page, "  note: ", warning);
    }
    page
}

/// Writes what the read bandwidth means for loads of a context, where it was measured.
fn kv_line(roofline: &Roofline, page: &mut String) {
    let token_bytes = built_in(KV_MODEL).and_then(|spec| spec.bytes_per_token().ok());
    let Some((bytes_per_s, token_bytes)) = roofline.bandwidth(100).zip(token_bytes) else { return };
    let context_bytes = (token_bytes * KV_TOKENS) as f64;
    let text = format!(
        "{KV_MODEL}, {KV_TOKENS} tokens = {:.1} GiB: one load takes at least {} alone; the drive \
         gives {} such loads a second, to all users together",
        context_bytes / GIB,
        time(context_bytes / bytes_per_s * 1e3),
        digits(bytes_per_s / context_bytes, 2)
    );
    wrapped(page, "  for KV       ", &text);
}

/// Sentences on what the limits are worth beside those of other programs, and of other drives.
fn trust(roofline: &Roofline) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut small = roofline.limits.iter().filter_map(|limit| {
        Some(limit.in_small_pages.as_ref()?.bytes_per_s / limit.bandwidth.best.bytes_per_s)
    });
    let pages = roofline.huge_pages.map(|is_huge| match (is_huge, small.next()) {
        (true, Some(share)) => format!(
            "I/O buffers are in huge pages; fio's by default and those of most engines are in \
             pages of 4 KiB, with which the best reads had {:.0} % of their bandwidth",
            share * 100.0
        ),
        (true, None) => {
            "I/O buffers are in huge pages; those of most programs, fio's by default among them, \
             are in pages of 4 KiB, with which the same drive may do far less"
                .to_owned()
        }
        (false, _) => {
            "I/O buffers are in pages of 4 KiB, as those of most programs: with huge pages the \
             drive may do far more"
                .to_owned()
        }
    });
    sentences.extend(pages);
    if let Some((reads, writes)) = roofline.bandwidth(100).zip(roofline.bandwidth(0))
        && writes > WRITES_FASTER * reads
    {
        sentences.push(format!(
            "writes are {:.1} times as fast as reads: a cache below, such as that of a virtual \
             machine's host, seems to take them",
            writes / reads
        ));
    }
    sentences
}

fn wrapped(page: &mut String, head: &str, text: &str) {
    prose(page, head, text, WIDTH);
}

/// Writes each rank's share of the best bandwidth, if there are ranks.
fn ranks_line(roofline: &Roofline, page: &mut String) {
    for Limit { read_percent, bandwidth, .. } in &roofline.limits {
        let rates = &bandwidth.best.ranks_bytes_per_s;
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        if rates.len() > 1 {
            page.push_str(&format!(
                "  {:<12} {} ranks together, each {:.3} to {:.3} GiB/s of it\n",
                direction(*read_percent),
                rates.len(),
                least / GIB,
                most / GIB
            ));
        }
    }
}

/// Writes the bandwidth of each of several drives alone and beside the others, and of all together.
fn drive_rows(page: &mut String, roofline: &Roofline) {
    for row in &roofline.together {
        let name = direction(row.read_percent);
        let drives = roofline.drives.iter().zip(&row.each_bytes_per_s);
        let table = Table::of(drives)
            .text(&format!("{name}, GiB/s"), |(drive, _)| {
                format!("  {}", drive.machine.cache_dir.as_deref().unwrap_or("?"))
            })
            .number("alone", fixed(3), |(drive, _)| {
                drive.bandwidth(row.read_percent).unwrap_or(0.0) / GIB
            })
            .number("together", fixed(3), |(_, together)| together / GIB)
            .widths(&[34, 9, 9]);
        page.push_str(&table.done().page());
        wrapped(page, "    ", &row.sentence());
    }
}

/// Name of a mix of reads and writes, in a word or two.
pub fn direction(read_percent: u32) -> String {
    match read_percent {
        100 => "read".to_owned(),
        0 => "write".to_owned(),
        percent => format!("{percent} % read"),
    }
}

/// A size of an I/O as people write it.
pub fn io_size(bytes: u32) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_a_terminal() {
        let measured = Measured {
            io_bytes: 256 << 10,
            depth: 1024,
            bytes_per_s: 140e9,
            iops: 12_345_678.0,
            latency_p50_us: 1_234_567.0,
            latency_p99_us: 1_234_567.0,
            steady: false,
            ..Measured::default()
        };
        let best =
            Best { best: measured.clone(), knee: measured, probes: Vec::new(), settled: false };
        let iops = Some(best.clone());
        let limit = Limit { read_percent: 70, bandwidth: best, iops, ..Limit::default() };
        let roofline = Roofline {
            threads: 1,
            seconds: 1.0,
            time_limit_s: Some(1),
            limits: vec![limit],
            ..Roofline::default()
        };
        let page = roofline_text(&roofline);
        assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
        assert_eq!(page.lines().count(), 8, "{page}");
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("1.0 s of the 1 s of --time-limit"), "{page}");
        assert!(words.contains("The search for IOPS at 70 % reads stopped"), "{page}");
    }

    #[test]
    fn limits_are_told_in_loads_of_a_context_and_with_the_pages_of_their_buffers() {
        let words = |roofline: &Roofline| {
            let page = roofline_text(roofline);
            assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let mut limits = ringfall_model::testing::roofline(4.0 * GIB, 8.0 * GIB);
        let page = words(&limits);
        let load = "llama3.1-8b, 4096 tokens = 0.5 GiB: one load takes at least 125 ms alone; the \
                    drive gives 8.0 such loads a second";
        assert!(page.contains(load), "{page}");
        assert!(page.contains("writes are 2.0 times as fast as reads"), "{page}");
        assert!(!page.contains("I/O buffers") && !page.contains("at the knee"), "{page}");
        limits.huge_pages = Some(true);
        assert!(words(&limits).contains("I/O buffers are in huge pages; those of most programs"));
        // 4.0 GiB/s stood there where fio had 1.2 in the same minutes.
        let small = Measured { bytes_per_s: 1.2 * GIB, ..Measured::default() };
        limits.limits[0].in_small_pages = Some(small);
        let page = words(&limits);
        assert!(page.contains(" in 4 KiB pages 1.200 "), "{page}");
        assert!(page.contains("the best reads had 30 % of their bandwidth"), "{page}");
        limits.limits[0].in_small_pages = None;
        limits.huge_pages = Some(false);
        assert!(words(&limits).contains("I/O buffers are in pages of 4 KiB, as those of most"));
        limits.range_bytes = 4 << 30;
        let fast = Measured { bytes_per_s: 40.0 * GIB, seconds: 0.5, ..Measured::default() };
        limits.limits[0].bandwidth.probes.push(fast);
        assert!(words(&limits).contains("nothing else uses it, with --size-gb 16.0GiB"));
        limits.limits[0].bandwidth.knee.depth = 1;
        limits.limits.truncate(1);
        let page = words(&limits);
        assert!(page.contains("at the knee") && !page.contains("as fast as reads"), "{page}");
    }
}
