//! The page around the charts: figures, tables, notes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ringfall_host::{Machine, escape};
use ringfall_model::document::{
    DiskCounters, DriveDirection, DriveReport, EvictionReport, KernelCounters, Ours, QuantileMs,
    RequestsOfClass,
};
use ringfall_model::metrics::{Metric, STORAGE_THROUGHPUT};
use ringfall_model::{Code, Document};
use serde_json::{Map, Value};

use super::{Named, STYLE, block, depth, gpu, parts, ranks, shown, verdict};

/// A setting, of which merged results may differ.
fn known(setting: Option<impl std::fmt::Display>) -> String {
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
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{STYLE}</style></head>\
         <body><main>\n<h1>{}</h1>",
        escape::html(&title),
        escape::html(&title)
    );
    for named in results {
        head(&mut html, named, results.len() > 1);
    }
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
    let text = "What finished in each second of the measurement window.";
    section(&mut html, "Over time", text, &parts::timelines(results));
    section(
        &mut html,
        "Latency over time",
        "Single I/Os: each column is a moment, each row half an octave of latency; the stronger \
         the colour, the larger its share of that moment's I/Os.",
        &parts::heat_maps(results),
    );
    let text = "What the autoscaler measured at each number of users.";
    section(&mut html, "Scaling", text, &parts::scaling(results));
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
    html.push_str(
        "<footer>Made by ringfall. GiB and GiB/s throughout; bytes count when their I/O completes \
         inside the window; percentiles are those of merged HDR histograms.</footer>\
         </main></body></html>\n",
    );
    html
}

fn section(html: &mut String, title: &str, text: &str, charts: &str) {
    if !charts.is_empty() {
        let _infallible =
            writeln!(html, "<h2>{title}</h2><p>{text}</p><div class=\"charts\">{charts}</div>");
    }
}

fn head(html: &mut String, named: &Named, several: bool) {
    let (ours, summary) = (&named.document.ringfall, &named.document.summary);
    let config = ours.config.as_ref();
    if several {
        let _infallible = write!(html, "<h2>{}</h2>", escape::html(&named.name));
    }
    let state = match (ours.window.interrupted.known(), ours.window.failure.as_ref()) {
        (Some(true), _) => ", interrupted".to_owned(),
        (_, Some(failure)) => format!(", failed: {failure}"),
        (_, None) => String::new(),
    };
    let device = ours
        .machine
        .device
        .as_ref()
        .map_or("unknown device", |device| device.model.as_deref().unwrap_or(&device.name));
    let optional = |value: Option<f64>| value.map_or("–".to_owned(), shown);
    let _infallible = write!(
        html,
        "<div class=\"sub\">{} · {} · {} arrivals · {} s{} · {}</div><div class=\"cards\">",
        escape::html(&known(config.and_then(|c| c.model.as_deref()))),
        load_of(ours),
        escape::html(&known(config.and_then(|c| c.arrival.as_deref()))),
        optional(ours.window.seconds.known()),
        escape::html(&state),
        escape::html(device)
    );
    let p95 = |key: &str| optional(named.document.tier_latency_ms(key));
    let request_p95 = named
        .document
        .latency_of(|summary| &summary.end_to_end_latency_ms)
        .and_then(|latency| latency.p95.known());
    let hit_rate = named.document.hit_rate();
    let storage_tokens = Metric::by_key(STORAGE_THROUGHPUT).and_then(|m| m.of(&named.document));
    let cards = [
        (optional(summary.cache_stats.decode_bytes_read_gb.known()), "decode read, GiB"),
        (optional(ours.io.read.bandwidth_gib_per_s.known()), bandwidth_labels(ours)[0]),
        (optional(ours.io.write.bandwidth_gib_per_s.known()), bandwidth_labels(ours)[1]),
        (optional(summary.avg_throughput_tokens_per_sec.known()), "tokens/s"),
        (optional(storage_tokens), "storage tokens/s"),
        (optional(summary.total_tokens.number()), "tokens"),
        (optional(summary.requests_per_second.known()), "requests/s"),
        (p95("storage_read_p95_ms"), "entry read P95, ms"),
        (p95("storage_write_p95_ms"), "entry write P95, ms"),
        (optional(request_p95), "request P95, ms"),
        (optional(hit_rate.map(|rate| rate * 100.0)), "hit rate, %"),
        (optional(ours.cost.cpu_s_per_gib.known()), "CPU-s per GiB"),
    ];
    for (value, label) in cards {
        let _infallible =
            write!(html, "<div class=\"card\"><b>{value}</b><span>{label}</span></div>");
    }
    if let Some(health) = summary.cache_stats.storage_health.as_ref() {
        let class = match &*health.overall_status {
            "PASS" => "good",
            "FAIL" => "bad",
            _ => "",
        };
        let _infallible = write!(
            html,
            "<div class=\"card\"><b class=\"{class}\">{}</b><span>health, passed {} of {}</span>\
             </div>",
            escape::html(&health.overall_status),
            health.passed_count,
            health.total_count
        );
    }
    html.push_str("</div>\n");
    notes(html, named);
}

/// Labels of the bandwidths, marked where the storage changed its speed.
fn bandwidth_labels(ours: &Ours) -> [&'static str; 2] {
    match ours.warnings.iter().any(|warning| warning.code == Code::NotSteady) {
        true => ["storage read, GiB/s (unsteady)", "storage write, GiB/s (unsteady)"],
        false => ["storage read, GiB/s", "storage write, GiB/s"],
    }
}

/// Text of the number of users; for ranks, the number of each.
fn load_of(ours: &Ours) -> String {
    let users = match ours.config.as_ref().and_then(|config| config.num_users) {
        Some(1) => "1 user".to_owned(),
        users => format!("{} users", known(users)),
    };
    let ranks = ours.merged.as_ref().map_or(&[][..], |merged| &merged.ranks);
    match ranks.len() {
        0 => users,
        1 => format!("1 rank, {users}"),
        count => format!("{count} ranks, {users} each"),
    }
}

/// Errors and warnings of a result.
fn notes(html: &mut String, named: &Named) {
    let ours = &named.document.ringfall;
    let errors = ours.errors.first_ever.iter().map(|error| format!("error: {error}"));
    let warnings = ours.warnings.iter().map(|warning| match &warning.flag_to_try {
        Some(flag) => format!("{} (try {flag})", warning.text),
        None => warning.text.clone(),
    });
    let notes: Vec<String> = errors.chain(warnings).collect();
    if !notes.is_empty() {
        html.push_str("<ul class=\"notes\">");
        for note in notes {
            let _infallible = write!(html, "<li>{}</li>", escape::html(&note));
        }
        html.push_str("</ul>\n");
    }
}

/// A table with a column for each result.
pub(super) fn table(
    html: &mut String,
    results: &[Named],
    first: &str,
    rows: &[(String, Vec<String>)],
) {
    let _infallible = write!(html, "<div class=\"wide\"><table><tr><th>{first}</th>");
    for named in results {
        let name = if results.len() == 1 { "" } else { &*named.name };
        let _infallible = write!(html, "<th>{}</th>", escape::html(name));
    }
    html.push_str("</tr>");
    for (name, cells) in rows {
        let differs = cells.iter().collect::<BTreeSet<_>>().len() > 1;
        let class = if differs { " class=\"differs\"" } else { "" };
        let _infallible = write!(html, "<tr{class}><th>{}</th>", escape::html(name));
        for cell in cells {
            let _infallible = write!(html, "<td>{}</td>", escape::html(cell));
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div>\n");
}

/// Finished and unfinished requests, and the latencies of both together.
fn requests(html: &mut String, results: &[Named]) {
    let reports = || results.iter().filter_map(|named| named.document.ringfall.requests.as_ref());
    if reports().all(|report| report.all.finished + report.all.unfinished == 0) {
        return;
    }
    html.push_str(
        "<h2>Requests, finished and unfinished</h2><p>Under overload the requests that finish are \
         the lucky ones. These percentiles, ms, take those that had not finished when the window \
         closed into account with their age (Kaplan–Meier); “≥” is a lower bound, where so many \
         had not finished that the percentile may be that of one of those.</p>",
    );
    let mut rows = Vec::new();
    for class in ["all", "interactive", "responsive", "batch"] {
        let row = |name: &str, pick: &dyn Fn(&RequestsOfClass) -> Option<String>| {
            let cells = results.iter().map(|named| {
                let report = named.document.ringfall.requests.as_ref()?;
                let (_, of_class) = report.rows().into_iter().find(|(name, _)| *name == class)?;
                pick(of_class)
            });
            let cells = cells.map(|cell| cell.unwrap_or("–".to_owned())).collect();
            (format!("{class}: {name}"), cells)
        };
        let told = |known: &Option<QuantileMs>| Some(known.as_ref()?.told(shown));
        rows.push(row("finished / unfinished", &|of| {
            Some(format!("{} / {}", of.finished, of.unfinished))
        }));
        rows.push(row("P50", &|of| told(&of.p50)));
        rows.push(row("P95", &|of| told(&of.p95)));
        rows.push(row("P99", &|of| told(&of.p99)));
        rows.push(row("P99.9", &|of| told(&of.p999)));
        if class == "all" {
            continue;
        }
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        rows.push(row("within the P95 target, of all", &|of| of.within_target_told(percent)));
        let of_finished = results
            .iter()
            .map(|named| named.document.summary.share_within_target(class).map(percent));
        let cells = of_finished.map(|cell| cell.unwrap_or("–".to_owned())).collect();
        rows.push((format!("{class}: within the P95 target, of those finished"), cells));
    }
    table(html, results, "", &rows);
}

fn tiers(html: &mut String, results: &[Named]) {
    html.push_str("<h2>Tiers</h2>");
    let row = |name: &str, pick: &dyn Fn(&Document) -> String| {
        let cells = results.iter().map(|named| pick(&named.document)).collect();
        (name.to_owned(), cells)
    };
    let gib = |value: Option<f64>| value.map_or("–".to_owned(), shown);
    let mut rows = gpu::rows(results);
    rows.extend([
        row("CPU tier, entries at the end", &|d| d.summary.cache_stats.cpu_entries.to_string()),
        row("CPU tier, GiB used of", &|d| {
            let config = d.ringfall.config.as_ref();
            let all = config.and_then(|config| config.cpu_memory_bytes);
            let used = gib(d.summary.cache_stats.cpu_memory_used_gb.known());
            format!("{used} of {}", gib(all.map(ringfall_core::units::gib)))
        }),
        row("CPU tier, GiB read / written", &|d| {
            let stats = &d.summary.cache_stats;
            let read = gib(stats.tier_cpu_kv_bytes_read_gb.known());
            format!("{read} / {}", gib(stats.tier_cpu_kv_bytes_written_gb.known()))
        }),
        row("storage, entries at the end", &|d| d.summary.cache_stats.storage_entries.to_string()),
        row("storage, GiB read / written", &|d| {
            let stats = &d.summary.cache_stats;
            let read = gib(stats.tier_storage_kv_bytes_read_gb.known());
            let written = gib(stats.tier_storage_kv_bytes_written_gb.known());
            match d.is_without_drive() {
                true => format!("{read} / {written} asked for, none moved"),
                false => format!("{read} / {written}"),
            }
        }),
        row("demoted from CPU to storage", &|d| moved(&d.ringfall.evictions.cpu_to_storage)),
        row("deleted from storage", &|d| moved(&d.ringfall.evictions.storage_to_none)),
        row("blocks verified, bad", &|d| {
            let verify = &d.ringfall.verify;
            match d.is_without_drive() {
                true => "–".to_owned(),
                false => format!("{}, {}", verify.blocks_checked, verify.blocks_bad),
            }
        }),
    ]);
    table(html, results, "", &rows);
}

pub(super) fn moved(row: &EvictionReport) -> String {
    let gib = row.bytes.known().map(ringfall_core::units::gib);
    format!("{} entries, {} GiB", row.entries, gib.map_or("–".to_owned(), shown))
}

fn device(html: &mut String, results: &[Named]) {
    html.push_str(
        "<h2>The device's own counters</h2><p>What the kernel counted for the device over the \
         window, beside what ringfall did. Where the kernel counted more, something else used the \
         device as well, such as other ranks of the same launch; where it counted fewer bytes \
         read, a cache served the rest.</p>",
    );
    let _infallible = write!(html, "<div class=\"charts\">{}</div>", parts::device(results));
    let row = |name: &str, pick: &dyn Fn(&Document) -> Option<String>| {
        let cells = results.iter().map(|named| pick(&named.document).unwrap_or("–".to_owned()));
        (name.to_owned(), cells.collect())
    };
    let gib = |bytes: u64| format!("{} GiB", shown(ringfall_core::units::gib(bytes)));
    let moved = |d: &Document, bytes: Option<u64>| bytes.filter(|_| !d.is_without_drive()).map(gib);
    let kernel = |pick: fn(&KernelCounters) -> Option<u64>| {
        move |d: &Document| pick(d.ringfall.device.kernel.as_ref()?).map(gib)
    };
    let rows = [
        row("device", &|d| d.ringfall.device.kernel.as_ref()?.device.as_ref().cloned()),
        row("read, kernel", &kernel(|kernel| kernel.read_bytes.known())),
        row("read, ringfall", &|d| moved(d, d.ringfall.device.engine_read_bytes.known())),
        row("written, kernel", &kernel(|kernel| kernel.write_bytes.known())),
        row("written, ringfall", &|d| moved(d, d.ringfall.device.engine_write_bytes.known())),
        row("ringfall / kernel", &|d| {
            d.ringfall.device.agreement.as_ref()?.total_ratio.map(|ratio| format!("{ratio:.4}"))
        }),
        row("reads that reached the device", &|d| {
            let cold = d.ringfall.device.cold_reads.as_ref()?;
            let share = cold.reached_share.map(|share| format!("{:.1} %: ", share * 100.0));
            Some(format!("{}{}", share.unwrap_or_default(), cold.verdict.text()))
        }),
        row("what that means", &|d| {
            d.ringfall.device.cold_reads.as_ref().map(|cold| cold.told.clone())
        }),
        row("by the second, Pearson r", &|d| {
            d.ringfall.device.correlation.as_ref()?.pearson_r.map(|r| format!("{r:.4}"))
        }),
        row("below it", &|d| {
            let below = d.ringfall.device.chain.iter().skip(1);
            let told = |disk: &DiskCounters| {
                let bytes = disk.read_bytes.known()?.saturating_add(disk.write_bytes.known()?);
                Some(format!("{}: {}", disk.device, gib(bytes)))
            };
            let all: Vec<String> = below.filter_map(told).collect();
            (!all.is_empty()).then(|| all.join(", "))
        }),
        row("share of its limits", &|d| {
            let share = d.ringfall.roofline.as_ref()?.share.known()?;
            Some(format!("{:.1} %", share * 100.0))
        }),
        row("utilisation", &|d| {
            d.ringfall.device.utilisation.known().map(|share| format!("{:.1} %", share * 100.0))
        }),
    ];
    table(html, results, "", &rows);
    drives(html, results);
}

/// Writes the table of several drives.
fn drives(html: &mut String, results: &[Named]) {
    let rows_of = |named: &Named| named.document.ringfall.drives.len();
    let most = results.iter().map(rows_of).max().unwrap_or(0);
    if most < 2 {
        return;
    }
    html.push_str(
        "<h2>Drives</h2><p>What each drive moved, as ringfall counted it, and the latency of a \
         single I/O on it.</p>",
    );
    let us =
        |latency: Option<f64>| latency.map_or("–".to_owned(), |us| format!("{} µs", shown(us)));
    let rate = |one: &DriveDirection| one.gib_per_s.map_or("–".to_owned(), shown);
    let cell = |drive: &DriveReport| {
        let share = drive.share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let remote = drive.remote_share().map_or(String::new(), |share| {
            format!("; {:.1} % of them from or to other NUMA nodes", share * 100.0)
        });
        let failed =
            drive.failed_s.map_or(String::new(), |at| format!("; failed at {} s", shown(at)));
        format!(
            "{}: read {} GiB/s, written {} GiB/s, {share} of all bytes{remote}; P95 {} \
             read, {} write{failed}",
            drive.path,
            rate(&drive.read),
            rate(&drive.write),
            us(drive.read.latency_p95_us),
            us(drive.write.latency_p95_us),
        )
    };
    let row = |index: usize| {
        let cells = results
            .iter()
            .map(|named| named.document.ringfall.drives.get(index).map_or("–".to_owned(), cell));
        (format!("drive {}", index + 1), cells.collect())
    };
    let rows: Vec<(String, Vec<String>)> = (0..most).map(row).collect();
    table(html, results, "", &rows);
}

/// A value of JSON as a person would type it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "–".to_owned(),
        other => other.to_string(),
    }
}

fn command_line(document: &Document) -> String {
    document.ringfall.command_line.as_ref().map_or(String::new(), |words| words.join(" "))
}

fn configuration(html: &mut String, results: &[Named]) {
    html.push_str("<h2>Configuration</h2>");
    if results.len() > 1 {
        html.push_str("<p>What differs is bold.</p>");
    }
    let settings = |named: &Named| {
        let config = named.document.ringfall.config.as_ref();
        config.map_or_else(Map::new, |config| config.settings.clone())
    };
    let keys: BTreeSet<String> = results
        .iter()
        .flat_map(|named| settings(named).keys().cloned().collect::<Vec<_>>())
        .collect();
    let rows: Vec<(String, Vec<String>)> = keys
        .into_iter()
        .map(|key| {
            let cell = |named: &Named| plain(settings(named).get(&key).unwrap_or(&Value::Null));
            let cells = results.iter().map(cell).collect();
            (key, cells)
        })
        .collect();
    table(html, results, "setting", &rows);
    html.push_str("<h2>Machine</h2>");
    let mut rows = machine_rows(results);
    rows.push((
        "command line".to_owned(),
        results.iter().map(|named| command_line(&named.document)).collect(),
    ));
    table(html, results, "", &rows);
}

/// Fact about a machine: its label, and the text shown.
type MachineRow = (&'static str, fn(&Machine) -> Option<String>);

/// The rows of the table of machines.
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

fn machine_rows(results: &[Named]) -> Vec<(String, Vec<String>)> {
    let row = |(name, pick): &MachineRow| {
        let cell = |named: &Named| pick(&named.document.ringfall.machine).unwrap_or("–".to_owned());
        ((*name).to_owned(), results.iter().map(cell).collect())
    };
    MACHINE.iter().map(row).collect()
}
