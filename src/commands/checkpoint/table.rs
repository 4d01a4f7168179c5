//! Result of a checkpoint command, as text on a terminal.

use std::fmt::Write as _;

use ringfall_core::units::{GIB, gib};
use ringfall_host::escape::terminal;
use ringfall_host::{counted, human};
use ringfall_model::stats;
use ringfall_report::show::table::{Table, fixed};

use super::super::wrapped;
use super::result::{CheckpointResult, Restore, Save};

/// Bandwidths that are shown at most: of a longer save, each is the mean of several seconds.
const RATES_SHOWN: usize = 10;
/// Bad blocks that are shown.
const BAD_SHOWN: usize = 5;

pub(super) fn page(result: &CheckpointResult) -> String {
    let mut page = String::new();
    let files = if result.shared_file { "one file" } else { "a file for each rank" };
    let _infallible = writeln!(
        page,
        "checkpoint of {:.2} GiB, {}, {files}: {}\n  {}, {} of {}{}",
        gib(result.total_bytes),
        counted(result.ranks as u64, "rank"),
        terminal(&result.target),
        counted(result.threads.into(), "thread"),
        counted(result.buffers.into(), "chunk"),
        human(result.chunk_bytes),
        shape(result)
    );
    match result.command {
        "compare" => ways(&mut page, result),
        "run" => job(&mut page, result),
        _ => {
            result.saves.iter().for_each(|save| one_save(&mut page, save, result.durable));
            result.restores.iter().for_each(|restore| one_restore(&mut page, restore));
        }
    }
    if result.through_page_cache {
        cached(&mut page, result);
    }
    for warning in &result.warnings {
        wrapped(&mut page, "  note: ", warning);
    }
    if result.retries > 0 {
        let _infallible = writeln!(page, "  retries      {}", counted(result.retries, "request"));
    }
    page
}

/// Writes which caches and syncs stood between the figures and the storage.
fn cached(page: &mut String, result: &CheckpointResult) {
    let written = match result.durable {
        true => "writes count until fsync",
        false => "writes may be in memory still",
    };
    let _infallible = writeln!(
        page,
        "  page cache   --io buffered: {written}, and reads may come from\n               \
         memory, so these are not rates of the storage; give --io direct"
    );
}

fn gib_per_s(bytes_per_s: f64) -> f64 {
    bytes_per_s / GIB as f64
}

/// Text of the highest resident memory.
fn memory(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), human)
}

fn shape(result: &CheckpointResult) -> String {
    match (result.dedupe_ratio, result.compress_ratio) {
        (1.0, 1.0) => String::new(),
        (dedupe, compress) => {
            format!(", content that deduplicates {dedupe} : 1 and compresses {compress} : 1")
        }
    }
}

fn one_save(page: &mut String, save: &Save, durable: bool) {
    if save.bytes == 0 {
        page.push_str("  the checkpoint is there already, whole\n");
        return;
    }
    let durable = if durable { "durable" } else { "written" };
    let memory = memory(save.peak_rss_bytes);
    if save.found_bytes > 0 {
        let _infallible =
            writeln!(page, "  found        {} stored before", human(save.found_bytes));
    }
    let _infallible = writeln!(
        page,
        "  {durable:<12} after {:.2} s, {:.3} GiB/s\n  \
         training     stalls for {:.2} s, until the last content is taken over\n  \
         memory       {memory} at most",
        save.durable_s,
        gib_per_s(save.bytes_per_s),
        save.stall_s
    );
    by_second(page, &save.bytes_by_second);
}

fn one_restore(page: &mut String, restore: &Restore) {
    let _infallible = writeln!(
        page,
        "  restored     in {:.2} s, {:.3} GiB/s\n  \
         verified     {} of 4 KiB, {} bad",
        restore.elapsed_s,
        gib_per_s(restore.bytes_per_s),
        counted(restore.blocks_checked, "block"),
        restore.blocks_bad
    );
    for bad in restore.bad_blocks.iter().take(BAD_SHOWN) {
        let _infallible = writeln!(
            page,
            "    bad: block {} of rank {}, at offset {} of {}",
            bad.block,
            bad.rank,
            bad.offset_bytes,
            terminal(&bad.file)
        );
    }
    by_second(page, &restore.bytes_by_second);
}

fn by_second(page: &mut String, seconds: &[u64]) {
    // The last is not a whole second.
    let whole = &seconds[..seconds.len().saturating_sub(1)];
    if whole.is_empty() {
        return;
    }
    let step = whole.len().div_ceil(RATES_SHOWN);
    // Means: one second in several would hide a stall between, and follow a drive that alternates.
    let mean = |part: &[u64]| gib(part.iter().sum()) / part.len() as f64;
    let rates: Vec<String> = whole.chunks(step).map(|part| format!("{:.2}", mean(part))).collect();
    let every = match step {
        1 => "each second".to_owned(),
        step => format!("every {step} seconds"),
    };
    let _infallible = writeln!(page, "  GiB/s        {every}: {}", rates.join(" "));
}

fn median<T>(all: &[T], of: impl Fn(&T) -> f64) -> f64 {
    stats::median(&all.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The ways side by side: medians over the trials, memory the highest.
fn ways(page: &mut String, result: &CheckpointResult) {
    let saves = &result.saves;
    // In the first trial each has its first turn, in the order of the table.
    let trials = saves.iter().map(|save| save.step).max().unwrap_or(0);
    let same = |a: &Save, b: &Save| (a.way, &a.target) == (b.way, &b.target);
    let ways = saves.iter().filter(|save| save.step == 1);
    let ways: Vec<Vec<&Save>> =
        ways.map(|way| saves.iter().filter(|save| same(save, way)).collect()).collect();
    let table = Table::of(&ways)
        .text("way", |saves| match saves[0].target == result.target {
            true => saves[0].way.to_owned(),
            false => format!("{}, beside", saves[0].way),
        })
        .number("stall, s", fixed(2), |saves| median(saves, |save| save.stall_s))
        .number("durable, s", fixed(2), |saves| median(saves, |save| save.durable_s))
        .number("GiB/s", fixed(3), |saves| median(saves, |save| gib_per_s(save.bytes_per_s)))
        .count("memory", |saves| memory(saves.iter().filter_map(|save| save.peak_rss_bytes).max()))
        .widths(&[16, 10, 10, 8, 12]);
    page.push_str(&table.done().page());
    let trials = counted(trials.into(), "trial");
    let _infallible = writeln!(page, "  medians of {trials} of each way, in turn");
    if let Some(beside) = &result.beside {
        let _infallible = writeln!(page, "  beside       {}", terminal(beside));
    }
}

fn job(page: &mut String, result: &CheckpointResult) {
    let (saves, restores) = (&result.saves, &result.restores);
    let (rates, no_rates) =
        (saves.iter().map(|save| gib_per_s(save.bytes_per_s)).collect(), Vec::new());
    let bad: u64 = restores.iter().map(|restore| restore.blocks_bad).sum();
    let stalls: Vec<f64> = saves.iter().map(|save| save.stall_s).collect();
    let durable = saves.iter().map(|save| save.durable_s).collect();
    let restored = restores.iter().map(|restore| restore.elapsed_s).collect();
    let rates_back = restores.iter().map(|restore| gib_per_s(restore.bytes_per_s)).collect();
    let rows = [
        ("stall", stalls, no_rates, String::new()),
        ("save", durable, rates, String::new()),
        ("restore", restored, rates_back, bad.to_string()),
    ];
    let rate =
        |rates: &[f64]| stats::median(rates).map_or(String::new(), |median| format!("{median:.3}"));
    let table = Table::of(rows.iter().filter(|(_, times, ..)| !times.is_empty()))
        .text("", |row| row.0)
        .count("count", |row| row.1.len())
        .number("median, s", fixed(2), |row| stats::median(&row.1))
        .number("min, s", fixed(2), |row| row.1.iter().copied().fold(f64::INFINITY, f64::min))
        .number("max, s", fixed(2), |row| row.1.iter().copied().fold(0.0, f64::max))
        .count("GiB/s", |row| rate(&row.2))
        .count("bad", |row| row.3.as_str())
        .widths(&[10, 5, 9, 9, 9, 9, 9]);
    page.push_str(&table.done().page());
    if let Some(training) = &result.training {
        let share = match training.elapsed_s {
            elapsed if elapsed > 0.0 => training.computed_s / elapsed * 100.0,
            _ => 0.0,
        };
        let ending = match (training.interrupted, training.ended_early) {
            (true, _) => "; interrupted",
            (false, true) => "; ended early",
            (false, false) => "",
        };
        let _infallible = writeln!(
            page,
            "  computing    {:.1} of {:.1} s, {share:.1} %, saves {}{ending}",
            training.computed_s, training.elapsed_s, training.save_mode
        );
    }
    let memory = memory(result.peak_rss_bytes);
    let _infallible = writeln!(page, "  memory       {memory} at most");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_in_the_middle() {
        let of = |values: &[f64]| median(values, |value| *value);
        assert!((of(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((of(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(of(&[]).abs() < 1e-12);
    }

    #[test]
    fn a_file_name_begins_no_line_and_commands_no_terminal() {
        let none = super::super::result::Latency { p50: None, p99: None, max: None };
        let bad = ringfall_running::checkpoint::BadBlock {
            file: "a\n  verified     \u{1b}[2J".to_owned(),
            offset_bytes: 0,
            rank: 0,
            block: 0,
        };
        let restore = Restore {
            step: 1,
            began_s: 0.0,
            bytes: 4_096,
            elapsed_s: 1.0,
            bytes_per_s: 4_096.0,
            blocks_checked: 1,
            blocks_bad: 1,
            bad_blocks: vec![bad],
            chunk_latency_ms: none,
            bytes_by_second: Vec::new(),
        };
        let mut page = String::new();
        one_restore(&mut page, &restore);
        assert_eq!(page.lines().count(), 3, "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
    }

    /// One second in two was shown: the high ones alone, and none of a stall.
    #[test]
    fn a_rate_of_several_seconds_is_their_mean() {
        let mut page = String::new();
        let alternating: Vec<u64> = [3 << 30, 1 << 30].into_iter().cycle().take(21).collect();
        by_second(&mut page, &alternating);
        assert_eq!(page.matches(" 2.00").count(), 10, "{page}");
        assert!(page.contains("every 2 seconds: 2.00"), "{page}");
        page.clear();
        let mut stalled = [1 << 30; 12];
        stalled[3] = 0;
        by_second(&mut page, &stalled);
        assert!(page.ends_with("every 2 seconds: 1.00 0.50 1.00 1.00 1.00 1.00\n"), "{page}");
    }

    #[test]
    fn a_long_save_shows_no_more_than_ten_rates() {
        let mut page = String::new();
        by_second(&mut page, &vec![1 << 30; 96]);
        assert!(page.contains("every 10 seconds: 1.00 1.00"), "{page}");
        assert_eq!(page.matches("1.00").count(), 10);
        page.clear();
        by_second(&mut page, &[5]);
        assert_eq!(page, "");
    }
}
