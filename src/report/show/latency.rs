//! The terminal's table of latencies, and that with the requests that had not finished.

use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_host::human_time as time;
use ringfall_model::document::{QuantileMs, RequestsOfClass, RequestsReport};
use ringfall_model::stats::tail;
use ringfall_model::{RunResult, is_without_drive};

use super::gpu;
use super::table::Table;
use super::terminal::Summary;

/// A kind of latency, and its name.
pub(super) type LatencyRow<'a> = (String, &'a Histogram);

/// A latency in short: its name, how many there were, and their P50, P95, P99 and maximum.
type ShortRow = (String, u64, [Option<String>; 4]);

fn short_row(name: &str, of: &Histogram) -> ShortRow {
    let told = |ns: Option<u64>| ns.map(|ns| time(ns as f64 / 1e6));
    let count = of.count();
    let tail = |quantile| tail(count, told(of.quantile_ns(quantile)));
    let times = [told(of.quantile_ns(0.5)), tail(0.95), tail(0.99), told(of.max_ns())];
    (name.to_owned(), count, times)
}

/// All requests: those that had not finished are in the percentiles, and at most nobody knows how
/// long they took.
fn all_requests(result: &RunResult, report: &RequestsReport) -> ShortRow {
    let all = &report.all;
    let told = |known: &Option<QuantileMs>| known.as_ref().map(|known| known.told(time));
    let finished_ns = result.requests.end_to_end_all().max_ns();
    let unfinished_ns = result.requests.unfinished.iter().filter_map(Histogram::max_ns).max();
    let least = if unfinished_ns.is_some() { "≥ " } else { "" };
    let longest = finished_ns.max(unfinished_ns);
    let longest = longest.map(|ns| format!("{least}{}", time(ns as f64 / 1e6)));
    let count = all.finished + all.unfinished;
    let tail = |known: &Option<QuantileMs>| tail(count, told(known));
    let times = [told(&all.p50), tail(&all.p95), tail(&all.p99), longest];
    ("request, all".to_owned(), count, times)
}

fn of_the_tiers(result: &RunResult) -> Vec<LatencyRow<'_>> {
    let engine = &result.engine;
    let [storage, cpu] = [engine.tier(Tier::Storage), engine.tier(Tier::Cpu)];
    let mut rows = vec![
        ("storage read, entry".to_owned(), &storage.read.total),
        ("  of that, device".to_owned(), &storage.read.device),
        ("storage write, entry".to_owned(), &storage.write.total),
        ("  of that, device".to_owned(), &storage.write.device),
        ("single I/O, read".to_owned(), &engine.io_read.latency),
        ("single I/O, write".to_owned(), &engine.io_write.latency),
    ];
    rows.extend(gpu::latency_rows(engine.tier(Tier::Gpu), result.gpu.as_ref()));
    rows.extend([
        ("CPU tier read, entry".to_owned(), &cpu.read.total),
        ("CPU tier write, entry".to_owned(), &cpu.write.total),
        ("load of a context".to_owned(), &result.requests.load),
        ("request, storage I/O".to_owned(), &result.requests.storage_io),
    ]);
    rows
}

impl Summary<'_> {
    /// Writes the table of latencies, but for those of which nothing was recorded. Where there is
    /// no drive, what the tiers took is what the program took to work it out: nobody's latency, and
    /// left out.
    pub(super) fn latencies(&mut self) {
        let result = self.result;
        let all = result.requests.end_to_end_all();
        let mut rows = if is_without_drive(result) { Vec::new() } else { of_the_tiers(result) };
        rows.push(("request, end to end".to_owned(), &all));
        let classes = ["  interactive", "  responsive", "  batch"].map(str::to_owned);
        rows.extend(classes.into_iter().zip(&result.requests.end_to_end));
        let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
        let tail = |of: &Histogram, quantile| tail(of.count(), ms(of.quantile_ns(quantile)));
        let table = Table::of(rows.iter().filter(|(_, of)| of.count() > 0))
            .text("latency", |(name, _)| name.as_str())
            .count("count", |(_, of)| of.count())
            .number("mean", time, |(_, of)| of.mean_ns().map(|ns| ns / 1e6))
            .number("P50", time, |(_, of)| ms(of.quantile_ns(0.5)))
            .number("P95", time, |(_, of)| tail(of, 0.95))
            .number("P99", time, |(_, of)| tail(of, 0.99))
            .number("max", time, |(_, of)| ms(of.max_ns()))
            .widths(&[20, 8, 8, 8, 8, 8, 8]);
        self.table(&table.done());
        self.unfinished();
    }

    /// Writes the table in short: what loading and storing a context took, and what became of
    /// requests.
    pub(super) fn latencies_in_short(&mut self) {
        let result = self.result;
        let (requests, engine) = (&result.requests, &result.engine);
        let mut rows = Vec::new();
        if !is_without_drive(result) {
            let mut stores = Histogram::new();
            engine.tiers.iter().for_each(|tier| stores.merge(&tier.write.total));
            rows.push(short_row("load of a context", &requests.load));
            rows.push(short_row("store of an entry", &stores));
            // Without what its device took of that.
            let gpu = gpu::latency_rows(engine.tier(Tier::Gpu), result.gpu.as_ref());
            rows.extend(gpu.iter().step_by(2).map(|(name, of)| short_row(name, of)));
            rows.push(short_row("KV I/O of a request", &requests.storage_io));
        }
        let report = self.document.ringfall.requests.as_ref();
        rows.extend(report.map(|report| all_requests(result, report)));
        let table = Table::of(rows.iter().filter(|row| row.1 > 0))
            .text("latency", |row| row.0.as_str())
            .count("P50", |row| row.2[0].clone())
            .count("P95", |row| row.2[1].clone())
            .count("P99", |row| row.2[2].clone())
            .count("max", |row| row.2[3].clone())
            .count("count", |row| row.1)
            .widths(&[20, 10, 10, 10, 10, 8]);
        self.table(&table.done());
    }

    /// Writes latencies with the requests taken into account that had not finished; nothing without
    /// any.
    fn unfinished(&mut self) {
        let requests = self.document.ringfall.requests.as_ref();
        let Some(requests) = requests.filter(|requests| requests.all.unfinished > 0) else {
            return;
        };
        let told = |known: &Option<QuantileMs>| known.as_ref().map(|known| known.told(time));
        let tail = |of: &RequestsOfClass, known: &Option<QuantileMs>| {
            tail(of.finished + of.unfinished, told(known))
        };
        let name = |name: &str| match name {
            "all" => "all requests, estimated".to_owned(),
            class => format!("  {class}"),
        };
        let rows = requests.rows().into_iter();
        let table = Table::of(rows.filter(|(_, of)| of.finished + of.unfinished > 0))
            .text("with unfinished", |(class, _)| name(class))
            .count("finished", |(_, of)| of.finished)
            .count("unfin.", |(_, of)| of.unfinished)
            .count("P50", |(_, of)| told(&of.p50))
            .count("P95", |(_, of)| tail(of, &of.p95))
            .count("P99", |(_, of)| tail(of, &of.p99))
            .widths(&[23, 9, 9, 9, 9, 9]);
        self.table(&table.done());
    }
}
