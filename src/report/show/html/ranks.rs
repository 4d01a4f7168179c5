//! The page's section on the ranks of which a result was merged: what each of them moved, and what
//! each machine's kernel counted.

use std::fmt::Write as _;

use ringfall_core::units::gib;
use ringfall_host::escape;
use ringfall_model::document::{HostRow, Launch, MergedReport, RankRow};

use super::{Named, shown};

/// A table of ranks and one of machines for each result that was merged of ranks.
pub(super) fn section(html: &mut String, results: &[Named]) {
    for named in results {
        let Some(merged) = named.document.ringfall.merged.as_ref() else { continue };
        let Some(launch) = merged.launch.as_ref() else { continue };
        let of = if results.len() > 1 { format!(": {}", named.name) } else { String::new() };
        let _infallible = write!(
            html,
            "<h2>{}</h2><p>{}</p>",
            escape::html(&format!("Ranks{of}")),
            escape::html(&summary(launch, merged))
        );
        of_ranks(html, &merged.ranks, &launch.stragglers);
        of_hosts(html, &merged.hosts);
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

fn of_ranks(html: &mut String, ranks: &[RankRow], stragglers: &[u32]) {
    let optional = |value: Option<f64>| value.map_or("–".to_owned(), shown);
    html.push_str(
        "<div class=\"wide\"><table><tr><th>rank</th><th>host</th><th>read, GiB</th>\
         <th>written, GiB</th><th>moved, % of the mean</th><th>tokens/s</th><th>requests</th>\
         <th>entry read P95, ms</th><th>entry write P95, ms</th><th>request P95, ms</th>\
         <th>ended early</th></tr>",
    );
    for row in ranks {
        let class = if stragglers.contains(&row.rank) { " class=\"bad\"" } else { "" };
        let _infallible =
            write!(html, "<tr><th>{}</th><td>{}</td>", row.rank, escape::html(&row.host));
        let cells = [
            optional(row.read_bytes.map(gib)),
            optional(row.write_bytes.map(gib)),
            optional(row.share_of_mean.map(|share| share * 100.0)),
            optional(row.tokens_per_s),
            row.requests_completed.map_or("–".to_owned(), |count| count.to_string()),
            optional(row.storage_read_p95_ms),
            optional(row.storage_write_p95_ms),
            optional(row.end_to_end_p95_ms),
        ];
        for cell in cells {
            let _infallible = write!(html, "<td{class}>{cell}</td>");
        }
        let failure = row.failure.as_deref().unwrap_or("no");
        let _infallible = write!(html, "<td>{}</td></tr>", escape::html(failure));
    }
    html.push_str("</table></div>\n");
}

fn of_hosts(html: &mut String, hosts: &[HostRow]) {
    if hosts.is_empty() {
        return;
    }
    html.push_str(
        "<div class=\"wide\"><table><tr><th>host</th><th>device</th><th>ranks</th>\
         <th>read, ringfall, GiB</th><th>read, kernel, GiB</th><th>written, ringfall, GiB</th>\
         <th>written, kernel, GiB</th></tr>",
    );
    for row in hosts {
        let _infallible = write!(
            html,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             </tr>",
            escape::html(&row.host),
            escape::html(&row.device),
            row.ranks,
            shown(gib(row.engine_read_bytes)),
            shown(gib(row.kernel_read_bytes)),
            shown(gib(row.engine_write_bytes)),
            shown(gib(row.kernel_write_bytes))
        );
    }
    html.push_str("</table></div>\n");
}
