//! An audit as comma-separated values: a row a rank file.

use std::path::Path;

use csv::{Terminator, WriterBuilder};

use ringfall_foreign::audit::{Audit, GroupReport, LeafReport, RankRow};
use ringfall_host::escape;

const HEADER: [&str; 29] = [
    "run",
    "division",
    "option",
    "trial",
    "rank",
    "file",
    "requests",
    "elapsed_s",
    "slowest_request_s",
    "span_at_least_s",
    "span_at_most_s",
    "read_gib",
    "write_gib",
    "reported_read_gib_per_s",
    "read_at_least_gib_per_s",
    "read_at_most_gib_per_s",
    "reported_write_gib_per_s",
    "write_at_least_gib_per_s",
    "write_at_most_gib_per_s",
    "overstatement_at_least_percent",
    "overstatement_at_most_percent",
    "request_p50_ms",
    "request_p95_ms",
    "fsync_p50_ms",
    "fsync_p95_ms",
    "storage_health",
    "model",
    "users",
    "is_ringfall",
];

/// Writes the table.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_audit_csv(audit: &Audit, path: &Path) -> std::io::Result<()> {
    let mut table = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    table.write_record(HEADER)?;
    for run in &audit.runs {
        for group in &run.groups {
            for rank in &group.ranks {
                table.write_record(row(run, group, rank))?;
            }
        }
    }
    let bytes = table.into_inner().map_err(|error| error.into_error())?;
    ringfall_host::write_output(path, &bytes)
}

fn row(run: &LeafReport, group: &GroupReport, rank: &RankRow) -> [String; HEADER.len()] {
    let text = |text: Option<&str>| text.map(escape::csv).unwrap_or_default();
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let rates = [rank.read, rank.write].map(|rate| {
        [
            number(rate.map(|rate| rate.reported_gib_per_s)),
            number(rate.and_then(|rate| rate.at_least_gib_per_s)),
            number(rate.and_then(|rate| rate.at_most_gib_per_s)),
        ]
    });
    let [[read, read_least, read_most], [write, write_least, write_most]] = rates;
    [
        text(Some(&run.path.to_string_lossy())),
        text(run.division.as_deref()),
        group.option.map(|option| option.to_string()).unwrap_or_default(),
        rank.trial.to_string(),
        rank.rank.to_string(),
        text(Some(&rank.file.to_string_lossy())),
        number(rank.requests),
        number(rank.elapsed_s),
        number(rank.slowest_request_s),
        number(rank.span_at_least_s),
        number(rank.span_at_most_s),
        number(rank.read_gib),
        number(rank.write_gib),
        read,
        read_least,
        read_most,
        write,
        write_least,
        write_most,
        number(rank.overstatement_at_least_percent),
        number(rank.overstatement_at_most_percent),
        number(rank.request_p50_ms),
        number(rank.request_p95_ms),
        number(rank.fsync_p50_ms),
        number(rank.fsync_p95_ms),
        text(rank.storage_health.as_deref()),
        text(group.model.as_deref()),
        text(group.users.as_deref()),
        rank.is_ringfall.to_string(),
    ]
}
