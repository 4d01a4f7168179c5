//! An audit as comma-separated values: a row a rank file.

use std::path::Path;

use ringfall_foreign::audit::Audit;

use crate::show::table::Table;

/// Writes an audit as comma-separated values.
pub fn write_audit_csv(audit: &Audit, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, &table(audit).csv()?)
}

fn table(audit: &Audit) -> Table {
    let groups = audit.runs.iter().flat_map(|run| run.groups.iter().map(move |group| (run, group)));
    let ranks = groups.flat_map(|(run, group)| group.ranks.iter().map(move |r| (run, group, r)));
    Table::of(ranks)
        .text("run", |(run, ..)| run.path.display().to_string())
        .text("division", |(run, ..)| run.division.as_deref())
        .text("option", |(_, group, _)| group.option)
        .text("trial", |(.., rank)| rank.trial)
        .text("rank", |(.., rank)| rank.rank)
        .text("file", |(.., rank)| rank.file.display().to_string())
        .text("requests", |(.., rank)| rank.requests)
        .text("elapsed_s", |(.., rank)| rank.elapsed_s)
        .text("slowest_request_s", |(.., rank)| rank.slowest_request_s)
        .text("span_at_least_s", |(.., rank)| rank.span_at_least_s)
        .text("span_at_most_s", |(.., rank)| rank.span_at_most_s)
        .text("read_gib", |(.., rank)| rank.read_gib)
        .text("write_gib", |(.., rank)| rank.write_gib)
        .text("reported_read_gib_per_s", |(.., rank)| Some(rank.read?.reported_gib_per_s))
        .text("read_at_least_gib_per_s", |(.., rank)| rank.read?.at_least_gib_per_s)
        .text("read_at_most_gib_per_s", |(.., rank)| rank.read?.at_most_gib_per_s)
        .text("reported_write_gib_per_s", |(.., rank)| Some(rank.write?.reported_gib_per_s))
        .text("write_at_least_gib_per_s", |(.., rank)| rank.write?.at_least_gib_per_s)
        .text("write_at_most_gib_per_s", |(.., rank)| rank.write?.at_most_gib_per_s)
        .text("overstatement_at_least_percent", |(.., rank)| rank.overstatement_at_least_percent)
        .text("overstatement_at_most_percent", |(.., rank)| rank.overstatement_at_most_percent)
        .text("request_p50_ms", |(.., rank)| rank.request_p50_ms)
        .text("request_p95_ms", |(.., rank)| rank.request_p95_ms)
        .text("fsync_p50_ms", |(.., rank)| rank.fsync_p50_ms)
        .text("fsync_p95_ms", |(.., rank)| rank.fsync_p95_ms)
        .text("storage_health", |(.., rank)| rank.storage_health.as_deref())
        .text("model", |(_, group, _)| group.model.as_deref())
        .text("users", |(_, group, _)| group.users.as_deref())
        .text("is_ringfall", |(.., rank)| rank.is_ringfall)
        .done()
}
