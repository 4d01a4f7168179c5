//! The page around the charts: figures, tables, notes.

use std::collections::BTreeSet;

use ringfall_host::{Machine, human_time};
use ringfall_model::Document;
use ringfall_model::document::{
    DiskCounters, DriveLogReport, DriveReport, EvictionReport, KernelCounters, QuantileMs,
    RequestsOfClass, RequestsReport, SecondReport,
};
use serde_json::Value;

use super::markup::Html;
use super::{Named, block, depth, gpu, head, or_dash, parts, ranks, shown, verdict};
use crate::show::table::{Cell, Mark, Table, TableOf, UNKNOWN, fixed, percent};

/// A setting, of which merged results may differ.
pub(super) fn known(setting: Option<impl std::fmt::Display>) -> String {
    setting.map_or("different".to_owned(), |setting| setting.to_string())
}

pub(super) fn page(results: &[Named]) -> String {
    let title = match results {
        [one] => format!(
            "ringfall: {}",
            known(one.document.ringfall.config.as_ref().and_then(|c| c.model.as_deref()))
        ),
        several => format!("ringfall: {} results", several.len()),
    };
    let mut html = Html::new(&title, &title);
    head::section(&mut html, results);
    let text = "What finished in each second of the measurement window.";
    section(&mut html, "Over time", text, &parts::timelines(results));
    verdict::metrics(&mut html, results);
    ranks::section(&mut html, results);
    verdict::served(&mut html, results);
    verdict::health(&mut html, results);
    section(
        &mut html,
        "Latency",
        "By percentile; the further right, the rarer. Both axes are logarithmic.",
        &parts::latencies(results),
    );
    requests(&mut html, results);
    section(
        &mut html,
        "Latency over time",
        "Single I/Os: each column is a moment, each row half an octave of latency; the stronger \
         the colour, the larger its share of that moment's I/Os.",
        &parts::heat_maps(results),
    );
    section(
        &mut html,
        "Block layer",
        "What the kernel saw below ringfall, after its own splitting and merging, counted in the \
         kernel (bpftrace): from before the shards began until the window's end.",
        &block::block_layer(results),
    );
    depth::section(&mut html, results);
    tiers(&mut html, results);
    device(&mut html, results);
    configuration(&mut html, results);
    html.end(
        "Made by ringfall. GiB and GiB/s throughout; bytes count when their I/O completes inside \
         the window; percentiles are those of merged HDR histograms.",
    )
}

fn section(html: &mut Html, title: &str, text: &str, charts: &str) {
    if !charts.is_empty() {
        html.heading(title);
        html.paragraph(text);
        html.charts(charts);
    }
}

/// A table with a column for each result, and a row for what is told of each.
pub(super) struct Beside<'a> {
    /// The results, a column each.
    pub results: &'a [Named],
    /// Name of each row, and its cells.
    pub rows: Vec<(String, Vec<String>)>,
}

impl<'a> Beside<'a> {
    pub(super) fn new(results: &'a [Named]) -> Beside<'a> {
        Beside { results, rows: Vec::new() }
    }

    pub(super) fn row<C: Into<Cell>>(&mut self, name: &str, pick: impl Fn(&'a Document) -> C) {
        let cells = self.results.iter().map(|named| pick(&named.document).into().told(&shown));
        self.rows.push((name.to_owned(), cells.collect()));
    }

    /// The table, its first column under the name `first`.
    pub(super) fn table(&self, first: &str) -> Table {
        self.columns(first).done()
    }

    /// The table with the rows marked in which the results differ.
    fn marked_table(&self, first: &str) -> Table {
        let differs = |cells: &[String]| cells.iter().any(|cell| *cell != cells[0]);
        let mark = |(_, cells): &(String, Vec<String>)| {
            if differs(cells) { Mark::Differs } else { Mark::Plain }
        };
        self.columns(first).marked(mark).done()
    }

    fn columns(&self, first: &str) -> TableOf<&(String, Vec<String>)> {
        let mut table = Table::of(&self.rows).text(first, |(name, _)| name.as_str());
        for (place, named) in self.results.iter().enumerate() {
            let name = if self.results.len() == 1 { "" } else { &*named.name };
            table = table.text(name, |(_, cells)| cells[place].as_str());
        }
        table
    }
}

/// Requests of one class of a result, or of all of its classes.
struct ClassRow<'a> {
    result: &'a Named,
    class: &'static str,
    of: &'a RequestsOfClass,
}

/// Finished and unfinished requests, and the latencies of both together.
fn requests(html: &mut Html, results: &[Named]) {
    let rows = results.iter().flat_map(|result| {
        let report = result.document.ringfall.requests.as_ref();
        let classes = report.into_iter().flat_map(RequestsReport::rows);
        classes.map(move |(class, of)| ClassRow { result, class, of })
    });
    let rows: Vec<ClassRow<'_>> =
        rows.filter(|row| row.of.finished + row.of.unfinished > 0).collect();
    if rows.is_empty() {
        return;
    }
    html.heading("Requests, finished and unfinished");
    html.paragraph(
        "Under overload the requests that finish are the lucky ones. These percentiles take those \
         that had not finished when the window closed into account with their age (Kaplan–Meier); \
         “≥” is a lower bound, where so many had not finished that the percentile may be that of \
         one of those.",
    );
    let latency = |of: &Option<QuantileMs>| of.as_ref().map(|of| of.told(human_time));
    let of_finished = |row: &ClassRow<'_>| {
        row.result.document.summary.share_within_target(row.class).map(percent)
    };
    let mut table = Table::of(&rows);
    if results.len() > 1 {
        table = table.text("result", |row| row.result.name.as_str());
    }
    let table = table
        .text("class", |row| row.class)
        .count("finished", |row| row.of.finished)
        .count("unfinished", |row| row.of.unfinished)
        .count("P50", |row| latency(&row.of.p50))
        .count("P95", |row| latency(&row.of.p95))
        .count("P99", |row| latency(&row.of.p99))
        .count("P99.9", |row| latency(&row.of.p999))
        .count("P95 target", |row| row.of.target_p95_ms.map(|ms| human_time(ms as f64)))
        .count("within it, of all", |row| row.of.within_target_told(percent))
        .count("of those finished", of_finished)
        .done();
    html.table(&table);
}

fn tiers(html: &mut Html, results: &[Named]) {
    html.heading("Tiers");
    let mut table = Beside::new(results);
    gpu::rows(&mut table);
    table.row("CPU tier, GiB held when the window closed", |d| {
        held(
            d,
            |second| second.tiers.cpu.held_bytes.known(),
            d.ringfall.config.as_ref()?.cpu_memory_bytes,
        )
    });
    table.row("CPU tier, GiB read / written", |d| {
        let stats = &d.summary.cache_stats;
        let read = or_dash(stats.tier_cpu_kv_bytes_read_gb.known());
        format!("{read} / {}", or_dash(stats.tier_cpu_kv_bytes_written_gb.known()))
    });
    table.row("storage, GiB held when the window closed", |d| {
        held(
            d,
            |second| second.tiers.storage.held_bytes.known(),
            d.ringfall.config.as_ref()?.storage_capacity_bytes,
        )
    });
    table.row("storage, GiB read / written", |d| {
        let stats = &d.summary.cache_stats;
        let read = or_dash(stats.tier_storage_kv_bytes_read_gb.known());
        let written = or_dash(stats.tier_storage_kv_bytes_written_gb.known());
        match d.is_without_drive() {
            true => format!("{read} / {written} asked for, none moved"),
            false => format!("{read} / {written}"),
        }
    });
    table.row("demoted from CPU to storage", |d| moved(&d.ringfall.evictions.cpu_to_storage));
    table.row("deleted from storage", |d| moved(&d.ringfall.evictions.storage_to_none));
    table.row("blocks verified, bad", |d| {
        let verify = &d.ringfall.verify;
        let told = format!("{}, {}", verify.blocks_checked, verify.blocks_bad);
        (!d.is_without_drive()).then_some(told)
    });
    html.table(&table.table(""));
}

/// GiB that a tier held at the end of the last second, as the chart over time has it, and its size.
pub(super) fn held(
    document: &Document,
    held_bytes: fn(&SecondReport) -> Option<u64>,
    capacity_bytes: Option<u64>,
) -> Option<String> {
    let held_bytes = held_bytes(document.ringfall.timeline.last()?);
    let gib = |bytes: Option<u64>| or_dash(bytes.map(ringfall_core::units::gib));
    Some(format!("{} of {}", gib(held_bytes), gib(capacity_bytes)))
}

pub(super) fn moved(row: &EvictionReport) -> String {
    let gib = row.bytes.known().map(ringfall_core::units::gib);
    format!("{} entries, {} GiB", row.entries, or_dash(gib))
}

fn device(html: &mut Html, results: &[Named]) {
    html.heading("The device's own counters");
    html.paragraph(
        "What the kernel counted for the device over the window, beside what ringfall did. Where \
         the kernel counted more, something else used the device as well, such as other ranks of \
         the same launch; where it counted fewer bytes read, a cache served the rest.",
    );
    html.charts(&parts::device(results));
    let gib = |bytes: u64| format!("{} GiB", shown(ringfall_core::units::gib(bytes)));
    let moved = |d: &Document, bytes: Option<u64>| bytes.filter(|_| !d.is_without_drive()).map(gib);
    let kernel = |pick: fn(&KernelCounters) -> Option<u64>| {
        move |d: &Document| pick(d.ringfall.device.kernel.as_ref()?).map(gib)
    };
    let mut table = Beside::new(results);
    table.row("device", |d| d.ringfall.device.kernel.as_ref()?.device.as_ref().cloned());
    table.row("read, kernel", kernel(|kernel| kernel.read_bytes.known()));
    table.row("read, ringfall", |d| moved(d, d.ringfall.device.engine_read_bytes.known()));
    table.row("written, kernel", kernel(|kernel| kernel.write_bytes.known()));
    table.row("written, ringfall", |d| moved(d, d.ringfall.device.engine_write_bytes.known()));
    table.row("ringfall / kernel", |d| {
        d.ringfall.device.agreement.as_ref()?.total_ratio.map(fixed(4))
    });
    table.row("reads that reached the device", |d| {
        let cold = d.ringfall.device.cold_reads.as_ref()?;
        let share = cold.reached_share.map(|share| format!("{}: ", percent(share)));
        Some(format!("{}{}", share.unwrap_or_default(), cold.verdict.name()))
    });
    table.row("what that means", |d| Some(d.ringfall.device.cold_reads.as_ref()?.told.clone()));
    table.row("by the second, Pearson r", |d| {
        d.ringfall.device.correlation.as_ref()?.pearson_r.map(fixed(4))
    });
    table.row("below it", |d| {
        let below = d.ringfall.device.chain.iter().skip(1);
        let told = |disk: &DiskCounters| {
            let bytes = disk.read_bytes.known()?.saturating_add(disk.write_bytes.known()?);
            Some(format!("{}: {}", disk.device, gib(bytes)))
        };
        let all: Vec<String> = below.filter_map(told).collect();
        (!all.is_empty()).then(|| all.join(", "))
    });
    table.row("by the drive's own log", |d| {
        let logs = d.ringfall.device.drive_logs.iter().map(DriveLogReport::told);
        let all: Vec<String> = logs.collect();
        (!all.is_empty()).then(|| all.join(". "))
    });
    table.row("share of its limits", |d| d.ringfall.roofline.as_ref()?.share.known().map(percent));
    table.row("utilisation", |d| d.ringfall.device.utilisation.known().map(percent));
    html.table(&table.table(""));
    drives(html, results);
}

/// Writes the table of several drives.
fn drives(html: &mut Html, results: &[Named]) {
    let rows_of = |named: &Named| named.document.ringfall.drives.len();
    let most = results.iter().map(rows_of).max().unwrap_or(0);
    if most < 2 {
        return;
    }
    html.heading("Drives");
    html.paragraph(
        "What each drive moved, as ringfall counted it, and the latency of a single I/O on it.",
    );
    let us =
        |latency: Option<f64>| latency.map_or(UNKNOWN.to_owned(), |us| format!("{} µs", shown(us)));
    let cell = |drive: &DriveReport| {
        let share = drive.share.map_or(UNKNOWN.to_owned(), percent);
        let remote = drive.remote_share().map_or(String::new(), |share| {
            format!("; {} of them from or to other NUMA nodes", percent(share))
        });
        let failed =
            drive.failed_s.map_or(String::new(), |at| format!("; failed at {} s", shown(at)));
        format!(
            "{}: read {} GiB/s, written {} GiB/s, {share} of all bytes{remote}; P95 {} \
             read, {} write{failed}",
            drive.path,
            or_dash(drive.read.gib_per_s),
            or_dash(drive.write.gib_per_s),
            us(drive.read.latency_p95_us),
            us(drive.write.latency_p95_us),
        )
    };
    let mut table = Beside::new(results);
    for index in 0..most {
        table.row(&format!("drive {}", index + 1), |d| d.ringfall.drives.get(index).map(cell));
    }
    html.table(&table.table(""));
}

/// A value of JSON as a person would type it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => UNKNOWN.to_owned(),
        other => other.to_string(),
    }
}

/// Writes the settings that somebody gave, or that differ; all of them where that is asked for.
fn configuration(html: &mut Html, results: &[Named]) {
    html.heading("Configuration");
    html.paragraph(match results {
        [_] => "Settings that were given, on the command line or in a file.",
        _ => "Settings that were given for any of the results. What differs is bold.",
    });
    let configs = || results.iter().filter_map(|named| named.document.ringfall.config.as_ref());
    let keys: BTreeSet<&String> = configs().flat_map(|config| config.settings.keys()).collect();
    let told = |document: &Document, key: &String| {
        let config = document.ringfall.config.as_ref();
        plain(config.and_then(|config| config.settings.get(key)).unwrap_or(&Value::Null))
    };
    let is_given = |key: &String| {
        configs().any(|config| {
            let origin = config.origins.get(key).and_then(Option::as_deref);
            matches!(origin, Some("command_line" | "file" | "demo"))
        })
    };
    let (mut given, mut all) = (Beside::new(results), Beside::new(results));
    for key in keys {
        all.row(key, |document| told(document, key));
        let cells = results.iter().map(|named| told(&named.document, key));
        if is_given(key) || cells.collect::<BTreeSet<String>>().len() > 1 {
            given.row(key, |document| told(document, key));
        }
    }
    html.table(&given.marked_table("setting"));
    html.begin_details(&format!("All {} settings", all.rows.len()));
    html.table(&all.table("setting"));
    html.end_details();
    html.heading("Machine");
    let mut table = Beside::new(results);
    for (name, pick) in MACHINE {
        table.row(name, |document| pick(&document.ringfall.machine));
    }
    table.row("command line", |document| {
        document.ringfall.command_line.as_ref().map_or(String::new(), |words| words.join(" "))
    });
    html.table(&table.table(""));
}

/// Fact about a machine: its label, and the text shown.
type MachineRow = (&'static str, fn(&Machine) -> Option<String>);

const MACHINE: [MachineRow; 12] = [
    ("cpu model", |machine| machine.cpu_model.clone()),
    ("cores", |machine| told(machine.cores)),
    ("memory total bytes", |machine| told(machine.memory_total_bytes)),
    ("kernel", |machine| machine.kernel.clone()),
    ("numa nodes", |machine| told(machine.numa_nodes)),
    ("cache dir", |machine| machine.cache_dir.clone()),
    ("file system", |machine| Some(machine.mount.as_ref()?.file_system.clone())),
    ("mount options", |machine| Some(machine.mount.as_ref()?.mount_options.clone())),
    ("device", |machine| Some(machine.device.as_ref()?.name.clone())),
    ("device model", |machine| machine.device.as_ref()?.model.clone()),
    ("device scheduler", |machine| machine.device.as_ref()?.scheduler.clone()),
    ("device size bytes", |machine| told(machine.device.as_ref()?.size_bytes)),
];

fn told(value: Option<impl std::fmt::Display>) -> Option<String> {
    value.map(|value| value.to_string())
}
