//! The page's section on the ranks of which a result was merged: what each of them moved, and what
//! each machine's kernel counted.

use ringfall_core::units::gib;
use ringfall_model::document::{HostRow, Launch, MergedReport};

use super::markup::Html;
use super::{Named, shown};
use crate::show::ranks_table;
use crate::show::table::Table;

/// A table of ranks and one of machines for each result that was merged of ranks.
pub(super) fn section(html: &mut Html, results: &[Named]) {
    for named in results {
        let Some(merged) = named.document.ringfall.merged.as_ref() else { continue };
        let Some(launch) = merged.launch.as_ref() else { continue };
        let of = if results.len() > 1 { format!(": {}", named.name) } else { String::new() };
        html.heading(&format!("Ranks{of}"));
        html.paragraph(&summary(launch, merged));
        html.table(&ranks_table(merged));
        if !merged.hosts.is_empty() {
            html.table(&of_hosts(&merged.hosts));
        }
    }
}

fn summary(launch: &Launch, merged: &MergedReport) -> String {
    let count = merged.ranks.len();
    let size = launch.size.map_or(count, |size| size as usize);
    let imbalance = match launch.imbalance {
        Some(imbalance) => format!("the busiest rank moved {imbalance:.2} times the mean"),
        None => "no rank moved anything".to_owned(),
    };
    format!(
        "{count} of {size} ranks have a result here. All of them measured at the same time for \
         {:.1} % of the time from the first start to the last end, and {imbalance}. Ranks that \
         moved less than 80 % of what the median rank moved are set in red.",
        launch.overlap_share * 100.0
    )
}

fn of_hosts(hosts: &[HostRow]) -> Table {
    Table::of(hosts)
        .text("host", |row| row.host.as_str())
        .text("device", |row| row.device.as_str())
        .count("ranks", |row| row.ranks)
        .number("read, ringfall, GiB", shown, |row| gib(row.engine_read_bytes))
        .number("read, kernel, GiB", shown, |row| gib(row.kernel_read_bytes))
        .number("written, ringfall, GiB", shown, |row| gib(row.engine_write_bytes))
        .number("written, kernel, GiB", shown, |row| gib(row.kernel_write_bytes))
        .done()
}
