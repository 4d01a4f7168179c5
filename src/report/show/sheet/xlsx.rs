//! The workbook: the reference's sheets, then the timeline and the latencies with charts, and a
//! list of the columns.

use std::path::Path;

use ringfall_host::escape;
use ringfall_model::Document;
use ringfall_model::document::{LatencyMs, LatencyMsMax, QosClass, QosMetrics};
use ringfall_model::figures::figure::{Derived, OfRun, Sum};
use rust_xlsxwriter::{Chart, ChartType, Format, Workbook, Worksheet, XlsxError};

use super::columns::{Cell, Columns, Row};
use super::meaning::{Meaning, meanings};
use super::{Named, Rows};

/// Longest column that is made as wide as its text.
const COLUMN_CHARS_MAX: usize = 48;

pub(super) fn write(results: &[Named], path: &Path) -> std::io::Result<()> {
    let bytes = workbook(results).map_err(std::io::Error::other)?;
    ringfall_host::write_output(path, &bytes)
}

fn workbook(results: &[Named]) -> Result<Vec<u8>, XlsxError> {
    let mut book = Workbook::new();
    let heading = Format::new().set_bold();
    summary(book.add_worksheet(), &heading, &Rows::of(results))?;
    if let [one] = results {
        let document = &one.document;
        let Columns { parameters, metrics, our_parameters, our_metrics } = Columns::of(document);
        let parameters = [parameters, our_parameters].concat();
        let metrics = [metrics, our_metrics].concat();
        pairs(book.add_worksheet(), &heading, "Run Parameters", "Parameter", &parameters)?;
        pairs(book.add_worksheet(), &heading, "Performance Metrics", "Metric", &metrics)?;
        qos(book.add_worksheet(), &heading, document)?;
        timeline(book.add_worksheet(), &heading, document)?;
        latency(book.add_worksheet(), &heading, document)?;
    }
    columns(book.add_worksheet(), &heading)?;
    book.save_to_buffer()
}

/// A row for each result.
fn summary(sheet: &mut Worksheet, heading: &Format, rows: &Rows) -> Result<(), XlsxError> {
    sheet.set_name("Summary")?;
    for (column, name) in (0..).zip(&rows.names) {
        sheet.write_with_format(0, column, name.as_str(), heading)?;
        sheet.set_column_width(column, name.chars().count().min(COLUMN_CHARS_MAX) as f64 + 2.0)?;
    }
    for (row, cells) in (1..).zip(&rows.cells) {
        for (column, cell) in (0..).zip(cells) {
            put(sheet, row, column, cell)?;
        }
    }
    sheet.set_freeze_panes(1, 1)?;
    Ok(())
}

/// Every column of the Summary with the key that it is read from, and what that means.
fn columns(sheet: &mut Worksheet, heading: &Format) -> Result<(), XlsxError> {
    sheet.set_name("Columns")?;
    titles(sheet, heading, &["Column", "Key in the JSON result", "Meaning"])?;
    for (row, Meaning { column, key, meaning }) in (1..).zip(meanings()) {
        sheet.write(row, 0, column.as_str())?;
        sheet.write(row, 1, key.as_str())?;
        sheet.write(row, 2, meaning.as_str())?;
    }
    sheet.set_column_width(0, 40)?.set_column_width(1, 48)?.set_column_width(2, 120)?;
    Ok(())
}

/// Names and values of one result, a row each.
fn pairs(
    sheet: &mut Worksheet,
    heading: &Format,
    title: &str,
    first: &str,
    rows: &[Row],
) -> Result<(), XlsxError> {
    sheet.set_name(title)?;
    titles(sheet, heading, &[first, "Value"])?;
    for (row, Row { name, cell, .. }) in (1..).zip(rows) {
        sheet.write(row, 0, name.as_str())?;
        put(sheet, row, 1, cell)?;
    }
    sheet.set_column_width(0, 40)?.set_column_width(1, 24)?;
    Ok(())
}

pub(super) fn put(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    cell: &Cell,
) -> Result<(), XlsxError> {
    match cell {
        Cell::Text(text) => sheet.write_string(row, column, escape::xlsx(text))?,
        Cell::Number(number) => sheet.write(row, column, *number)?,
        Cell::Flag(flag) => sheet.write(row, column, *flag)?,
        Cell::Nothing => return Ok(()),
    };
    Ok(())
}

fn titles(sheet: &mut Worksheet, heading: &Format, names: &[&str]) -> Result<(), XlsxError> {
    for (column, name) in (0..).zip(names) {
        sheet.write_with_format(0, column, *name, heading)?;
        sheet.set_column_width(column, name.chars().count() as f64 + 2.0)?;
    }
    sheet.set_freeze_panes(1, 0)?;
    Ok(())
}

fn qos(sheet: &mut Worksheet, heading: &Format, document: &Document) -> Result<(), XlsxError> {
    sheet.set_name("QoS Metrics")?;
    let names = [
        "QoS Level",
        "Total Requests",
        "Latency P95 (ms)",
        "Latency P99 (ms)",
        "SLA Met",
        "SLA Compliance",
    ];
    titles(sheet, heading, &names)?;
    let mut row = 0;
    let classes = document.summary.qos_metrics.as_ref().into_iter().flat_map(QosMetrics::all);
    for (class, metrics) in classes {
        let QosClass::Measured { total_requests, latency_ms, sla, .. } = metrics else { continue };
        row += 1;
        sheet.write(row, 0, class)?;
        sheet.write(row, 1, *total_requests as f64)?;
        put(sheet, row, 2, &latency_ms.percentiles.p95.known().into())?;
        put(sheet, row, 3, &latency_ms.percentiles.p99.known().into())?;
        put(sheet, row, 4, &sla.as_ref().map(|sla| sla.met).into())?;
        put(sheet, row, 5, &sla.as_ref().map(|sla| sla.compliance).into())?;
    }
    Ok(())
}

fn timeline(sheet: &mut Worksheet, heading: &Format, document: &Document) -> Result<(), XlsxError> {
    sheet.set_name("Timeline")?;
    let names = [
        "Second",
        "Storage Read (GiB/s)",
        "Storage Write (GiB/s)",
        "CPU Read (GiB/s)",
        "CPU Write (GiB/s)",
        "Tokens/s",
        "Requests",
        "Users",
        "I/Os in Flight",
        "Storage Read P95 (ms)",
        "Storage Write P95 (ms)",
        "Hit Rate",
        "Errors",
    ];
    titles(sheet, heading, &names)?;
    let rows = &document.ringfall.timeline;
    for (row, second) in (1..).zip(rows.iter()) {
        let length = second.seconds.known().map(|seconds| seconds.max(1e-9));
        let rate = |amount: Sum<u64>, unit: f64| {
            let rate = amount.number().zip(length).map(|(amount, length)| amount / unit / length);
            Cell::from(rate)
        };
        let gib = |bytes: Sum<u64>| rate(bytes, ringfall_core::units::GIB as f64);
        let ms = |us: OfRun<u64>| Cell::from(us.number().map(|us| us / 1e3));
        let (storage, cpu) = (&second.tiers.storage, &second.tiers.cpu);
        let cells = [
            second.end_s.known().into(),
            gib(storage.read.bytes),
            gib(storage.write.bytes),
            gib(cpu.read.bytes),
            gib(cpu.write.bytes),
            rate(second.generated_tokens, 1.0),
            second.requests_completed.known().into(),
            second.users.known().into(),
            second.queue_depth.known().into(),
            ms(storage.read.latency_p95_us),
            ms(storage.write.latency_p95_us),
            second.hit_rate.known().into(),
            second.errors.known().into(),
        ];
        for (column, cell) in (0..).zip(&cells) {
            put(sheet, row, column, cell)?;
        }
    }
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

fn latency(sheet: &mut Worksheet, heading: &Format, document: &Document) -> Result<(), XlsxError> {
    sheet.set_name("Latency")?;
    let names = ["Latency (ms)", "Count", "Mean", "P50", "P95", "P99", "P99.9", "P99.99", "Max"];
    titles(sheet, heading, &names)?;
    sheet.set_column_width(0, 34)?;
    let ours = &document.ringfall;
    let waits = &ours.waits;
    let rows: [(&str, &Derived<Option<LatencyMsMax>>); 8] = [
        ("Single I/O, read", &ours.io.read.latency_ms),
        ("Single I/O, write", &ours.io.write.latency_ms),
        ("Data sync", &ours.io.flush.latency_ms),
        ("Waiting for room in a tier", &waits.room_ms),
        ("Waiting for a buffer", &waits.buffer_ms),
        ("Waiting for a queue place", &waits.queue_place_ms),
        ("Waiting for an allocation permit", &waits.allocation_permit_ms),
        ("Request waiting to be served", &waits.request_queue_ms),
    ];
    let mut row = 0;
    let mut line = |sheet: &mut Worksheet,
                    name: &str,
                    latency: &LatencyMs,
                    rest: Option<(Derived<u64>, Derived<f64>)>|
     -> Result<(), XlsxError> {
        row += 1;
        sheet.write(row, 0, name)?;
        let percentiles =
            [latency.mean, latency.p50, latency.p95, latency.p99, latency.p999, latency.p9999];
        for (column, value) in (2..).zip(percentiles) {
            put(sheet, row, column, &value.known().into())?;
        }
        if let Some((count, max)) = rest {
            put(sheet, row, 1, &count.known().into())?;
            put(sheet, row, 8, &max.known().into())?;
        }
        Ok(())
    };
    for (name, latency) in rows {
        if let Some(LatencyMsMax { percentiles, max, count }) = latency.as_ref() {
            line(sheet, name, percentiles, Some((*count, *max)))?;
        }
    }
    let classes = document.summary.qos_metrics.as_ref().into_iter().flat_map(QosMetrics::all);
    for (class, metrics) in classes {
        if let QosClass::Measured { latency_ms, .. } = metrics {
            let name = format!("Request, end to end, {class}");
            let LatencyMsMax { percentiles, max, count } = latency_ms;
            line(sheet, &name, percentiles, Some((*count, *max)))?;
        }
    }
    if let Some(latency) = document.latency_of(|summary| &summary.end_to_end_latency_ms) {
        line(sheet, "Request, end to end, all", latency, None)?;
    }
    if row == 0 {
        return Ok(());
    }
    let mut chart = Chart::new(ChartType::Line);
    chart.title().set_name("Latency by percentile, ms");
    chart.y_axis().set_log_base(10);
    for line in 1..=row {
        chart
            .add_series()
            .set_categories(("Latency", 0, 3, 0, 7))
            .set_values(("Latency", line, 3, line, 7))
            .set_name(("Latency", line, 0));
    }
    sheet.insert_chart(row + 2, 0, &chart)?;
    Ok(())
}
