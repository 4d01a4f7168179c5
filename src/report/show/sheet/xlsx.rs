//! The workbook: the reference's sheets, then the timeline and the latencies with charts, and a
//! list of the columns.

use std::path::Path;

use ringfall_model::Document;
use ringfall_model::document::{LatencyMs, LatencyMsMax, QosClass, QosMetrics, SecondReport};
use ringfall_model::figures::figure::{Derived, OfRun};
use rust_xlsxwriter::{Chart, ChartType, Workbook, XlsxError};

use super::columns::{Row, rows_of};
use super::meaning::meanings;
use super::{Named, summary};
use crate::show::compare::{comparison_table, of_two};
use crate::show::table::{Table, add_sheet, write_workbook};
use crate::show::{gib_rate, rate};

pub(super) fn write(results: &[Named], path: &Path) -> std::io::Result<()> {
    write_workbook(path, |book| {
        add_sheet(book, "Summary", &summary(results))?;
        if let [one] = results {
            let document = &one.document;
            let [parameters, metrics, our_parameters, our_metrics] = rows_of(document);
            let parameters = [parameters, our_parameters].concat();
            let metrics = [metrics, our_metrics].concat();
            add_sheet(book, "Run Parameters", &pairs("Parameter", &parameters))?;
            add_sheet(book, "Performance Metrics", &pairs("Metric", &metrics))?;
            add_sheet(book, "QoS Metrics", &qos(document))?;
            add_timeline(book, &document.ringfall.timeline)?;
            add_latency(book, document)?;
        }
        if let [baseline, candidate] = results {
            add_comparison(book, baseline, candidate)?;
        }
        add_sheet(book, "Columns", &columns())?;
        Ok(())
    })
}

/// Adds the conclusion and cautions of two results, and their ratios where they say anything.
fn add_comparison(
    book: &mut Workbook,
    baseline: &Named,
    candidate: &Named,
) -> Result<(), XlsxError> {
    let compared = of_two(baseline, candidate);
    let mut lines =
        vec![("Baseline", baseline.name.clone()), ("Candidate", candidate.name.clone())];
    match &compared {
        Ok(comparison) => {
            lines.push(("Conclusion", comparison.conclusion.clone()));
            let cautions = comparison.cautions.iter().cloned();
            lines.extend(cautions.map(|caution| ("Caution", caution)));
        }
        Err(problem) => lines.push(("Not compared", problem.to_string())),
    }
    let table = Table::of(&lines)
        .text("Comparison", |(name, _)| *name)
        .text("Text", |(_, text)| text.as_str());
    add_sheet(book, "Comparison", &table.done())?;
    match compared {
        Ok(comparison) if comparison.is_comparable => {
            add_sheet(book, "Ratios", &comparison_table(&comparison, true)).map(drop)
        }
        _ => Ok(()),
    }
}

pub(super) fn write_suite(table: &Table, path: &Path) -> std::io::Result<()> {
    write_workbook(path, |book| add_sheet(book, "Suite", table).map(drop))
}

/// Every column of the Summary with the key that it is read from, and what that means.
fn columns() -> Table {
    Table::of(&meanings())
        .text("Column", |(row, _)| row.name.as_str())
        .text("Key in the JSON result", |(row, _)| row.key.as_str())
        .text("Meaning", |(_, meaning)| meaning.as_str())
        .done()
}

/// Names and values of one result, a row each.
fn pairs(first: &str, rows: &[Row]) -> Table {
    Table::of(rows)
        .text(first, |row| row.name.as_str())
        .text("Value", |row| row.cell.clone())
        .done()
}

fn qos(document: &Document) -> Table {
    let classes = document.summary.qos_metrics.as_ref().into_iter().flat_map(QosMetrics::all);
    let measured = classes.filter_map(|(class, metrics)| match metrics {
        QosClass::Measured { total_requests, latency_ms, sla, .. } => {
            Some((class, *total_requests, latency_ms, sla.as_ref()))
        }
        QosClass::Nothing { .. } => None,
    });
    Table::of(measured)
        .text("QoS Level", |(class, ..)| class)
        .text("Total Requests", |(_, requests, ..)| requests)
        .text("Latency P95 (ms)", |(.., latency, _)| latency.percentiles.p95.known())
        .text("Latency P99 (ms)", |(.., latency, _)| latency.percentiles.p99.known())
        .text("SLA Met", |(.., sla)| sla.map(|sla| sla.met))
        .text("SLA Compliance", |(.., sla)| sla.map(|sla| sla.compliance))
        .done()
}

fn add_timeline(book: &mut Workbook, rows: &[SecondReport]) -> Result<(), XlsxError> {
    let ms = |us: OfRun<u64>| us.number().map(|us| us / 1e3);
    let table = Table::of(rows)
        .text("Second", |second| second.end_s.known())
        .text("Storage Read (GiB/s)", |s| gib_rate(s.tiers.storage.read.bytes, s))
        .text("Storage Write (GiB/s)", |s| gib_rate(s.tiers.storage.write.bytes, s))
        .text("CPU Read (GiB/s)", |s| gib_rate(s.tiers.cpu.read.bytes, s))
        .text("CPU Write (GiB/s)", |s| gib_rate(s.tiers.cpu.write.bytes, s))
        .text("Tokens/s", |second| rate(second.generated_tokens, 1.0, second))
        .text("Requests", |second| second.requests_completed.known())
        .text("Users", |second| second.users.known())
        .text("I/Os in Flight", |second| second.queue_depth.known())
        .text("Storage Read P95 (ms)", |second| ms(second.tiers.storage.read.latency_p95_us))
        .text("Storage Write P95 (ms)", |second| ms(second.tiers.storage.write.latency_p95_us))
        .text("Hit Rate", |second| second.hit_rate.known())
        .text("Errors", |second| second.errors.known());
    let sheet = add_sheet(book, "Timeline", &table.done())?;
    let Ok(last @ 1..) = u32::try_from(rows.len()) else { return Ok(()) };
    for (place, title, columns) in [
        (1, "Storage bandwidth, GiB/s", [1, 2]),
        (18, "Tokens/s and users", [5, 7]),
        (35, "P95 of storage operations, ms", [9, 10]),
    ] {
        let mut chart = Chart::new(ChartType::ScatterStraight);
        chart.title().set_name(title);
        chart.x_axis().set_name("s");
        for column in columns {
            chart
                .add_series()
                .set_categories(("Timeline", 1, 0, last, 0))
                .set_values(("Timeline", 1, column, last, column))
                .set_name(("Timeline", 0, column));
        }
        sheet.insert_chart(place, 14, &chart)?;
    }
    Ok(())
}

/// Name of a set of latencies, its mean and percentiles, and its count and maximum.
type Set<'a> = (String, &'a LatencyMs, Option<(Derived<u64>, Derived<f64>)>);

fn set(name: String, latency: &LatencyMsMax) -> Set<'_> {
    let LatencyMsMax { percentiles, max, count } = latency;
    (name, percentiles, Some((*count, *max)))
}

fn sets(document: &Document) -> Vec<Set<'_>> {
    let ours = &document.ringfall;
    let waits = &ours.waits;
    let own: [(&str, &Derived<Option<LatencyMsMax>>); 9] = [
        ("Single I/O, read", &ours.io.read.latency_ms),
        ("Single I/O, write", &ours.io.write.latency_ms),
        ("Data sync", &ours.io.flush.latency_ms),
        ("Waiting for room in a tier", &waits.room_ms),
        ("Waiting for a tier to grow", &waits.growth_ms),
        ("Waiting for a buffer", &waits.buffer_ms),
        ("Waiting for a queue place", &waits.queue_place_ms),
        ("Waiting for an allocation permit", &waits.allocation_permit_ms),
        ("Request waiting to be served", &waits.request_queue_ms),
    ];
    let own = own.into_iter();
    let mut sets: Vec<Set<'_>> =
        own.filter_map(|(name, latency)| Some(set(name.to_owned(), latency.as_ref()?))).collect();
    let classes = document.summary.qos_metrics.as_ref().into_iter().flat_map(QosMetrics::all);
    for (class, metrics) in classes {
        if let QosClass::Measured { latency_ms, .. } = metrics {
            sets.push(set(format!("Request, end to end, {class}"), latency_ms));
        }
    }
    let all = document.latency_of(|summary| &summary.end_to_end_latency_ms);
    sets.extend(all.map(|latency| ("Request, end to end, all".to_owned(), latency, None)));
    sets
}

fn add_latency(book: &mut Workbook, document: &Document) -> Result<(), XlsxError> {
    let sets = sets(document);
    let table = Table::of(&sets)
        .text("Latency (ms)", |(name, ..)| name.as_str())
        .text("Count", |(.., rest)| rest.and_then(|(count, _)| count.known()))
        .text("Mean", |(_, latency, _)| latency.mean.known())
        .text("P50", |(_, latency, _)| latency.p50.known())
        .text("P95", |(_, latency, _)| latency.p95.known())
        .text("P99", |(_, latency, _)| latency.p99.known())
        .text("P99.9", |(_, latency, _)| latency.p999.known())
        .text("P99.99", |(_, latency, _)| latency.p9999.known())
        .text("Max", |(.., rest)| rest.and_then(|(_, max)| max.known()));
    let sheet = add_sheet(book, "Latency", &table.done())?;
    let Ok(last @ 1..) = u32::try_from(sets.len()) else { return Ok(()) };
    let mut chart = Chart::new(ChartType::Line);
    chart.title().set_name("Latency by percentile, ms");
    chart.y_axis().set_log_base(10);
    for line in 1..=last {
        chart
            .add_series()
            .set_categories(("Latency", 0, 3, 0, 7))
            .set_values(("Latency", line, 3, line, 7))
            .set_name(("Latency", line, 0));
    }
    sheet.insert_chart(last + 2, 0, &chart)?;
    Ok(())
}
