//! The table that grows: a row for each run that has ended.

use ringfall_host::escape::terminal;
use ringfall_model::document::ResultFile;

use super::jobs::{Described, SweepRun};
use crate::batch::{Ended, Outcome, duration_text};
use crate::commands::metric_figure;

/// Figures of a row: metric, and what its column is called.
const FIGURES: [(&str, &str); 4] = [
    ("wall_clock_throughput_tokens_per_s", "tokens/s"),
    ("storage_read_bandwidth_gib_per_s", "read GiB/s"),
    ("storage_write_bandwidth_gib_per_s", "write GiB/s"),
    ("storage_read_device_p95_ms", "read P95 ms"),
];
/// Width of a column of figures.
const FIGURE_COLUMNS: usize = 11;
/// The part of a failure's reason that a row has room for.
const WHY_CHARS: usize = 60;

/// The columns before the figures: their heads and widths.
pub(super) struct Table {
    heads: Vec<(String, usize)>,
    labels: Vec<String>,
    has_trials: bool,
}

impl Table {
    pub(super) fn new(runs: &[SweepRun], devices: &[Described]) -> Table {
        let has_trials = runs.iter().any(|run| run.trial > 1);
        let labels: Vec<String> = match devices.len() {
            0 | 1 => Vec::new(),
            _ => devices.iter().map(|device| device.label.clone()).collect(),
        };
        let mut table = Table { heads: Vec::new(), labels, has_trials };
        let mut heads: Vec<String> = Vec::new();
        if let Some(run) = runs.first() {
            heads.extend(run.point.iter().map(|(key, _)| key.replace('_', "-")));
        }
        heads.extend((!table.labels.is_empty()).then(|| "drive".to_owned()));
        heads.extend(has_trials.then(|| "trial".to_owned()));
        let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
        for run in runs {
            for (width, cell) in widths.iter_mut().zip(table.lead(run)) {
                *width = (*width).max(cell.chars().count());
            }
        }
        table.heads = heads.into_iter().zip(widths).collect();
        table
    }

    /// The line above the rows.
    pub(super) fn head(&self) -> String {
        let lead = self.heads.iter().map(|(head, _)| head.clone()).collect();
        let figures = FIGURES.iter().map(|(_, head)| format!("{head:>FIGURE_COLUMNS$}"));
        let figures: Vec<String> = figures.collect();
        format!("{}  {}  {:>8}", self.aligned(lead), figures.join("  "), "took")
    }

    /// The row of a run, and whether its result could be read.
    pub(super) fn row(&self, run: &SweepRun, ended: &Ended<'_>) -> String {
        let lead = self.aligned(self.lead(run));
        match ended.outcome {
            Outcome::Failed(why) => {
                let why: String = why.chars().take(WHY_CHARS).collect();
                format!("{lead}  failed: {why}")
            }
            Outcome::Done => match ResultFile::read(&ended.output) {
                Ok(ResultFile { document, .. }) => {
                    let value = |(key, _): &(&str, &str)| {
                        format!("{:>FIGURE_COLUMNS$}", metric_figure(&document, key))
                    };
                    let values: Vec<String> = FIGURES.iter().map(value).collect();
                    let took = ended.took_s.map_or("–".to_owned(), duration_text);
                    format!("{lead}  {}  {took:>8}", values.join("  "))
                }
                Err(problem) => format!("{lead}  its result can't be read: {problem}"),
            },
        }
    }

    fn lead(&self, run: &SweepRun) -> Vec<String> {
        let mut cells: Vec<String> = run.point.iter().map(|(_, value)| terminal(value)).collect();
        let label = run.device.and_then(|place| self.labels.get(place));
        cells.extend(label.map(|label| terminal(label)));
        cells.extend(self.has_trials.then(|| run.trial.to_string()));
        cells
    }

    fn aligned(&self, cells: Vec<String>) -> String {
        let cells = cells.into_iter().zip(&self.heads);
        let cells: Vec<String> =
            cells.map(|(cell, (_, width))| format!("{cell:<width$}", width = *width)).collect();
        cells.join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_begins_no_line_and_keeps_its_column() {
        let label = "a\n\u{1b}[2J".to_owned();
        let shown = terminal(&label);
        let table = Table { heads: Vec::new(), labels: vec![label], has_trials: false };
        let job = crate::batch::Job::new("one", ["run"], 1.0);
        let value = "x\ny".to_owned();
        let run = SweepRun { point: vec![("model", value)], device: Some(0), trial: 1, job };
        assert_eq!(table.lead(&run), [terminal("x\ny"), shown]);
        assert!(table.lead(&run).iter().all(|cell| !cell.contains(char::is_control)));
    }
}
