//! The table that grows: a row for each run that has ended; and that of all of them in their order.

use ringfall_host::escape::terminal;
use ringfall_host::human_time as time;
use ringfall_model::Document;
use ringfall_model::document::ResultFile;
use ringfall_model::facts::Looks;
use ringfall_model::metrics::Metric;
use ringfall_model::stats::tail;
use ringfall_report::show::table::{Cell, Table, TableOf, figure, percent};
use ringfall_report::show::{FLATTERED, FLATTERED_NOTE, is_flattered};
use serde_json::Value;

use super::jobs::{Described, SweepRun};
use super::space::Point;
use crate::batch::{Ended, Outcome};
use crate::commands::wrapped;

/// Rates of a row: metric, and what its column is called.
const RATES: [(&str, &str); 3] = [
    ("wall_clock_throughput_tokens_per_s", "tokens/s"),
    ("storage_read_bandwidth_gib_per_s", "read GiB/s"),
    ("storage_write_bandwidth_gib_per_s", "write GiB/s"),
];
const FIGURE_WIDTHS: [usize; 7] = [8, 10, 11, 7, 8, 8, 11];

/// Columns before the figures, and the widths of all.
pub(super) struct GrowingTable {
    labels: Vec<String>,
    has_trials: bool,
    widths: Vec<usize>,
    /// Runs that are done, in the order in which they ended, each with its place among all.
    done: Vec<(usize, RowFigures)>,
}

/// Figures of a run that is done, by which a person chooses among settings.
#[derive(Default)]
struct RowFigures {
    /// Those of [`RATES`].
    rates: [Option<f64>; 3],
    /// Share of earlier turns that were found.
    reuse_share: Option<f64>,
    /// The model, and reads of earlier turns that found them and that did not; none where a miss
    /// took time.
    free_looks: Option<(String, Looks)>,
    /// P50 and P95 of loading a context, ms; no P95 of few loads.
    load_ms: [Option<f64>; 2],
    /// P95 of all requests, unfinished ones among them; none of few.
    request_p95: Option<String>,
}

impl RowFigures {
    fn of(document: &Document) -> RowFigures {
        let load = document.ringfall.served.context_load_ms.as_ref();
        let requests = document.ringfall.requests.as_ref().map(|requests| &requests.all);
        let request_p95 = requests
            .and_then(|all| tail(all.finished.saturating_add(all.unfinished), all.p95.as_ref()));
        RowFigures {
            rates: RATES.map(|(key, _)| Metric::by_key(key)?.of(document)),
            reuse_share: document.multi_turn_hit_rate(),
            free_looks: free_looks(document),
            load_ms: [
                load.and_then(|load| load.percentiles.p50.known()),
                load.and_then(|load| tail(load.count.known()?, load.percentiles.p95.known())),
            ],
            request_p95: request_p95.map(|p95| p95.told(time)),
        }
    }

    fn free_looks(&self) -> Option<(&str, Looks)> {
        self.free_looks.as_ref().map(|(model, looks)| (&**model, *looks))
    }
}

/// Model and reads of earlier turns, where recomputing those that were not found took no time.
fn free_looks(document: &Document) -> Option<(String, Looks)> {
    let config = document.ringfall.config.as_ref()?;
    let speed = config.settings.get("prefill_tokens_per_s").and_then(Value::as_f64);
    let turns = &document.summary.multi_turn_stats;
    let looks = Looks { found: turns.cache_hits.known()?, missed: turns.cache_misses.known()? };
    (speed == Some(0.0)).then(|| (config.model.clone().unwrap_or_default(), looks))
}

impl GrowingTable {
    pub(super) fn new(runs: &[SweepRun], devices: &[Described]) -> GrowingTable {
        let labels: Vec<String> = match devices.len() {
            0 | 1 => Vec::new(),
            _ => devices.iter().map(|device| device.label.clone()).collect(),
        };
        let has_trials = runs.iter().any(|run| run.trial > 1);
        let (widths, done) = (Vec::new(), Vec::new());
        let mut table = GrowingTable { labels, has_trials, widths, done };
        for run in runs {
            let cells = table.lead(run);
            table.widths.resize(cells.len(), 0);
            for (width, (name, cell)) in table.widths.iter_mut().zip(cells) {
                let widest = name.chars().count().max(terminal(&cell).chars().count());
                *width = widest.saturating_add(1).max(*width);
            }
        }
        table.widths.extend(FIGURE_WIDTHS);
        table
    }

    /// The head of the table, and the row of a run.
    pub(super) fn lines(&mut self, run: &SweepRun, ended: &Ended<'_>) -> [String; 2] {
        let done = match ended.outcome {
            // The last column: a terminal wraps it.
            Outcome::Failed(why) => Err(format!("failed: {why}")),
            Outcome::Done => match ResultFile::read(&ended.output) {
                Ok(ResultFile { document, .. }) => Ok(RowFigures::of(&document)),
                Err(problem) => Err(format!("its result can't be read: {problem}")),
            },
        };
        let known = done.as_ref().ok();
        let [head, row] = self.two_lines(with_figures(self.with_lead(run), |_| known, |_| false));
        match done {
            Ok(figures) => {
                self.done.push((ended.place, figures));
                [head, row]
            }
            Err(why) => {
                let [_, row] = self.two_lines(self.with_lead(run).text("", |_| why.as_str()));
                [head, row]
            }
        }
    }

    /// The runs that are done in the order of `points`, their settings; nothing of a single one.
    pub(super) fn in_order(&self, runs: &[SweepRun], points: &[Point]) -> Vec<String> {
        let mut done: Vec<(&SweepRun, &RowFigures)> =
            self.done.iter().map(|(place, figures)| (&runs[*place], figures)).collect();
        if done.len() < 2 {
            return Vec::new();
        }
        done.sort_by_cached_key(|(run, _)| {
            (points.iter().position(|point| *point == run.point), run.device, run.trial)
        });
        let names = self.lead(done[0].0);
        let all: Vec<&RowFigures> = done.iter().map(|(_, figures)| *figures).collect();
        let is_flattered = |(_, figures): (&SweepRun, &RowFigures)| {
            is_flattered(figures.free_looks(), all.iter().filter_map(|one| one.free_looks()))
        };
        let mut note = String::new();
        if done.iter().any(|row| is_flattered(*row)) {
            wrapped(&mut note, "  note: ", FLATTERED_NOTE);
        }
        let mut table = Table::of(done);
        for (at, (name, _)) in names.iter().enumerate() {
            table =
                table.text(name, |(run, _)| self.lead(run).into_iter().nth(at).map(|lead| lead.1));
        }
        let table = with_figures(table, |(_, figures)| Some(figures), is_flattered).done();
        let head = ["", "In order of the varied values; reuse is of earlier turns:"];
        let note = note.lines().map(str::to_owned);
        head.map(str::to_owned).into_iter().chain(table.lines()).chain(note).collect()
    }

    fn two_lines(&self, table: TableOf<&SweepRun>) -> [String; 2] {
        let mut lines = table.widths(&self.widths).done().lines().into_iter();
        [lines.next().unwrap_or_default(), lines.next().unwrap_or_default()]
    }

    fn with_lead<'a>(&self, run: &'a SweepRun) -> TableOf<&'a SweepRun> {
        let cells = self.lead(run).into_iter();
        cells.fold(Table::of([run]), |table, (name, cell)| table.text(&name, |_| cell.as_str()))
    }

    /// Names and cells of the columns before the figures.
    fn lead(&self, run: &SweepRun) -> Vec<(String, String)> {
        let varied = run.point.iter().map(|(key, value)| (key.replace('_', "-"), value.clone()));
        let mut cells: Vec<(String, String)> = varied.collect();
        let label = run.device.and_then(|place| self.labels.get(place));
        cells.extend(label.map(|label| ("drive".to_owned(), label.clone())));
        cells.extend(self.has_trials.then(|| ("trial".to_owned(), run.trial.to_string())));
        cells
    }
}

/// Adds the columns of figures, the same for a run that has just ended and for all in their order;
/// tokens/s that misses flatter are marked.
fn with_figures<'a, R: Copy>(
    mut table: TableOf<R>,
    of: impl Fn(R) -> Option<&'a RowFigures>,
    is_flattered: impl Fn(R) -> bool,
) -> TableOf<R> {
    for (at, (_, name)) in RATES.iter().enumerate() {
        table = table.number(name, figure, |row| {
            let rate = of(row)?.rates[at]?;
            Some(match at == 0 && is_flattered(row) {
                true => Cell::Text(format!("{}{FLATTERED}", figure(rate))),
                false => Cell::from(rate),
            })
        });
    }
    table
        .number("reuse", percent, |row| of(row)?.reuse_share)
        .count("load P50", |row| of(row)?.load_ms[0].map(time))
        .count("load P95", |row| of(row)?.load_ms[1].map(time))
        .count("request P95", |row| of(row)?.request_p95.clone())
}

#[cfg(test)]
mod tests {
    use ringfall_workloads::contract::Class;

    use super::*;

    #[test]
    fn a_label_begins_no_line_and_keeps_its_column() {
        let label = "a\n\u{1b}[2J".to_owned();
        let shown = terminal(&label);
        let job = crate::batch::Job::new("one", ["run"], 1.0);
        let value = "x\ny".to_owned();
        let run = SweepRun { point: vec![("model", value)], device: Some(0), trial: 1, job };
        let (labels, widths) = (vec![label], vec![8, 12]);
        let table = GrowingTable { labels, has_trials: false, widths, done: Vec::new() };
        let [head, row] = table.two_lines(table.with_lead(&run));
        assert_eq!(head, "  model    drive");
        assert_eq!(row, format!("  {:<8} {shown}", terminal("x\ny")));
        assert!(!row.contains(char::is_control), "{row:?}");
    }

    /// The P95 of one to eight loads was the largest, and that of one was the P50 too.
    #[test]
    fn a_row_of_a_batch_has_no_p95_of_few_loads() {
        let mut result = ringfall_model::testing::judged();
        result.requests = Default::default();
        let of = |result: &ringfall_model::RunResult| RowFigures::of(&Document::of(result));
        for _ in 0..9 {
            result.requests.load.record(1_000_000);
            result.requests.record_unfinished(Class::Batch, 1_000_000);
        }
        let few = of(&result);
        assert!(few.load_ms[0].is_some() && few.load_ms[1].is_none(), "{:?}", few.load_ms);
        assert_eq!(few.request_p95, None);
        result.requests.load.record(1_000_000);
        result.requests.record_unfinished(Class::Batch, 1_000_000);
        let enough = of(&result);
        assert!(enough.load_ms[1].is_some() && enough.request_p95.is_some());
    }

    /// It ended after 60 characters, before the remedy.
    #[test]
    fn the_reason_of_a_failure_is_told_whole() {
        let job = crate::batch::Job::new("one", ["run"], 1.0);
        let run = SweepRun { point: Vec::new(), device: None, trial: 1, job: job.clone() };
        let why = format!("exit status 1: {} has no room: free space there", "/mnt".repeat(30));
        let outcome = Outcome::Failed(why.clone());
        let (output, log) = (std::path::PathBuf::new(), std::path::PathBuf::new());
        let ended = Ended { job: &job, place: 0, outcome: &outcome, output, log, took_s: None };
        let mut table = GrowingTable::new(std::slice::from_ref(&run), &[]);
        let [_, row] = table.lines(&run, &ended);
        assert!(row.ends_with(&format!("failed: {why}")), "{row}");
    }

    /// Rows were only there in the random order of the runs.
    #[test]
    fn the_runs_that_are_done_are_set_in_the_order_of_their_values() {
        let point = |users: &str| vec![("num_users", users.to_owned())];
        let points = ["1", "8", "16"].map(point);
        let run = |at: usize| {
            let job = crate::batch::Job::new(format!("run-{at}"), ["run"], 1.0);
            SweepRun { point: points[at].clone(), device: None, trial: 1, job }
        };
        // In the order in which they ran.
        let runs = [2, 0, 1].map(run);
        let mut table = GrowingTable::new(&runs, &[]);
        assert!(table.in_order(&runs, &points).is_empty());
        for (place, reuse_share) in [(0, 0.25), (1, 1.0), (2, 0.5)] {
            let mut figures =
                RowFigures { reuse_share: Some(reuse_share), ..RowFigures::default() };
            figures.load_ms = [Some(210.0), Some(2_670.0)];
            table.done.push((place, figures));
        }
        let lines = table.in_order(&runs, &points);
        let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> = lines.iter().skip(2).map(words).collect();
        assert_eq!(lines[0][..3], ["num-users", "tokens/s", "read"]);
        let users: Vec<&str> = lines[1..].iter().map(|line| line[0].as_str()).collect();
        assert_eq!(users, ["1", "8", "16"]);
        // A row that appears as its run ends has the same columns.
        let [head, _] =
            table.two_lines(with_figures(table.with_lead(&runs[0]), |_| None, |_| false));
        assert_eq!(words(&head), lines[0]);
        let row = "1 – – – 100.0 % 210 ms 2.67 s –";
        assert_eq!(lines[1].join(" "), row);
        let looks = |found| Looks { found, missed: 1000 - found };
        // Of another model less is found of what is larger.
        for (at, model, found) in [(0, "a", 250), (1, "a", 1000), (2, "b", 500)] {
            table.done[at].1.rates[0] = Some(100.0);
            table.done[at].1.free_looks = Some((model.to_owned(), looks(found)));
        }
        let told = table.in_order(&runs, &points).join("\n");
        let marked: Vec<&str> = told.lines().filter(|line| line.contains("100.0†")).collect();
        assert!(marked.len() == 1 && marked[0].trim_start().starts_with("16 "), "{told}");
        assert!(told.contains("note: tokens/s with †"), "{told}");
    }
}
