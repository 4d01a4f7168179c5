//! The table that grows: a row for each run that has ended.

use ringfall_host::escape::terminal;
use ringfall_model::document::ResultFile;
use ringfall_model::metrics::Metric;
use ringfall_report::show::table::{Table, TableOf, figure};

use super::jobs::{Described, SweepRun};
use crate::batch::{Ended, Outcome, duration_text};

/// Figures of a row: metric, and what its column is called.
const FIGURES: [(&str, &str); 4] = [
    ("wall_clock_throughput_tokens_per_s", "tokens/s"),
    ("storage_read_bandwidth_gib_per_s", "read GiB/s"),
    ("storage_write_bandwidth_gib_per_s", "write GiB/s"),
    ("storage_read_device_p95_ms", "read P95 ms"),
];
/// Widths of the columns of figures, and of the last.
const FIGURE_WIDTHS: [usize; 5] = [12, 12, 12, 12, 9];
/// The part of a failure's reason that a row has room for.
const WHY_CHARS: usize = 60;

/// Columns before the figures, and the widths of all.
pub(super) struct GrowingTable {
    labels: Vec<String>,
    has_trials: bool,
    widths: Vec<usize>,
}

impl GrowingTable {
    pub(super) fn new(runs: &[SweepRun], devices: &[Described]) -> GrowingTable {
        let labels: Vec<String> = match devices.len() {
            0 | 1 => Vec::new(),
            _ => devices.iter().map(|device| device.label.clone()).collect(),
        };
        let has_trials = runs.iter().any(|run| run.trial > 1);
        let mut table = GrowingTable { labels, has_trials, widths: Vec::new() };
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
    pub(super) fn lines(&self, run: &SweepRun, ended: &Ended<'_>) -> [String; 2] {
        let done = match ended.outcome {
            Outcome::Failed(why) => {
                Err(format!("failed: {}", why.chars().take(WHY_CHARS).collect::<String>()))
            }
            Outcome::Done => match ResultFile::read(&ended.output) {
                Ok(ResultFile { document, .. }) => {
                    let took = ended.took_s.map_or("–".to_owned(), duration_text);
                    Ok((document, took))
                }
                Err(problem) => Err(format!("its result can't be read: {problem}")),
            },
        };
        let known = done.as_ref().ok();
        let mut whole = self.with_lead(run);
        for (key, name) in FIGURES {
            whole = whole.number(name, figure, |_| Metric::by_key(key)?.of(&known?.0));
        }
        let whole = whole.count("took", |_| known.map(|(_, took)| took.as_str()));
        let [head, row] = self.two_lines(whole);
        match &done {
            Ok(_) => [head, row],
            Err(why) => {
                let [_, row] = self.two_lines(self.with_lead(run).text("", |_| why.as_str()));
                [head, row]
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_begins_no_line_and_keeps_its_column() {
        let label = "a\n\u{1b}[2J".to_owned();
        let shown = terminal(&label);
        let job = crate::batch::Job::new("one", ["run"], 1.0);
        let value = "x\ny".to_owned();
        let run = SweepRun { point: vec![("model", value)], device: Some(0), trial: 1, job };
        let table = GrowingTable { labels: vec![label], has_trials: false, widths: vec![8, 12] };
        let [head, row] = table.two_lines(table.with_lead(&run));
        assert_eq!(head, "  model    drive");
        assert_eq!(row, format!("  {:<8} {shown}", terminal("x\ny")));
        assert!(!row.contains(char::is_control), "{row:?}");
    }
}
