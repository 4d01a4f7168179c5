//! The table of the ranks that a result was merged of.

use ringfall_core::units::gib;
use ringfall_model::document::MergedReport;

use super::table::{Mark, Medium, Table, figure};

/// Figures of each rank; on a page, ranks that moved far less than the others are marked.
pub fn ranks_table(merged: &MergedReport) -> Table {
    let stragglers = merged.launch.as_ref().map_or(&[][..], |launch| &launch.stragglers);
    Table::of(&merged.ranks)
        .count("rank", |row| row.rank)
        .text("host", |row| row.host.as_str())
        .number("read, GiB", figure, |row| row.read_bytes.map(gib))
        .number("written, GiB", figure, |row| row.write_bytes.map(gib))
        .only(Medium::Page)
        .number("moved, % of the mean", figure, |row| row.share_of_mean.map(|share| share * 100.0))
        .everywhere()
        .number("tokens/s", figure, |row| row.tokens_per_s)
        .only(Medium::Page)
        .count("requests", |row| row.requests_completed)
        .everywhere()
        .number("entry read P95, ms", figure, |row| row.storage_read_p95_ms)
        .only(Medium::Page)
        .number("entry write P95, ms", figure, |row| row.storage_write_p95_ms)
        .count("request P95, ms", |row| row.request_p95.as_ref().map(|p95| p95.told(figure)))
        .text("ended early", |row| row.failure.as_deref().unwrap_or("no"))
        .only(Medium::Terminal)
        .number("of mean", |share| format!("{:.0} %", share * 100.0), |row| row.share_of_mean)
        .marked(|row| if stragglers.contains(&row.rank) { Mark::Bad } else { Mark::Plain })
        .done()
}

#[cfg(test)]
mod tests {
    use ringfall_model::document::{QuantileMs, RankRow};

    use super::*;

    /// A rank that had finished few of its requests had the P95 of those few.
    #[test]
    fn a_p95_that_unfinished_requests_decide_is_a_bound() {
        let decided = QuantileMs { estimate_ms: Some(7.0), at_least_ms: 60.0, at_most_ms: None };
        let ranks = vec![RankRow { request_p95: Some(decided), ..RankRow::default() }];
        let page = ranks_table(&MergedReport { ranks, ..MergedReport::default() }).html();
        assert!(page.contains("≥ 60"), "{page}");
    }
}
