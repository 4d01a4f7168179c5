//! Latency of single I/Os over time, as a heat map: a column a second (or several), a row a half
//! octave, the darker the more of that time's I/Os.

use std::fmt::Write as _;

use ringfall_host::escape;
use ringfall_model::document::SecondReport;

use super::axis::Axis;
use super::chart::{across, frame, up};
use super::shown;

/// Columns at most: more are narrower than a line.
const COLUMNS_MAX: usize = 240;

/// Begin of a bucket, ms.
fn begin_ms(bucket: u32) -> f64 {
    2f64.powf(f64::from(bucket) / 2.0) / 1e3
}

/// The map of one direction; nothing when nothing was moved in it.
pub(super) fn map(
    title: &str,
    seconds: &[SecondReport],
    pick: fn(&SecondReport) -> &Vec<(u32, u32)>,
) -> String {
    // A row that does not say when it was is nowhere on the map.
    let seconds: Vec<(f64, &SecondReport)> =
        seconds.iter().filter_map(|second| Some((second.end_s.known()?, second))).collect();
    let buckets = || seconds.iter().flat_map(|(_, second)| pick(second).iter().map(|pair| pair.0));
    let (Some(lowest), Some(highest)) = (buckets().min(), buckets().max()) else {
        return String::new();
    };
    let end_s = seconds.last().map_or(1.0, |(end_s, _)| *end_s);
    let x = Axis::linear_to("s", end_s);
    let y = Axis::log("ms", begin_ms(lowest), begin_ms(highest.saturating_add(1)));
    let mut html = format!("<figure><figcaption>{}</figcaption>", escape::html(title));
    let about = format!("{title}: share of the I/Os of each moment by latency");
    frame(&mut html, &about, &x, &y);
    let together = seconds.len().div_ceil(COLUMNS_MAX).max(1);
    let mut begin_s = 0.0;
    for group in seconds.chunks(together) {
        let end_s = group.last().map_or(begin_s, |(end_s, _)| *end_s);
        let mut counts = std::collections::BTreeMap::new();
        for &(bucket, count) in group.iter().flat_map(|(_, second)| pick(second)) {
            *counts.entry(bucket).or_insert(0u64) += u64::from(count);
        }
        let all: u64 = counts.values().sum();
        let (left, right) = (across(&x, begin_s), across(&x, end_s));
        for (bucket, count) in counts {
            let share = count as f64 / all.max(1) as f64;
            let (top, bottom) =
                (up(&y, begin_ms(bucket.saturating_add(1))), up(&y, begin_ms(bucket)));
            // The square root lets rare ones be seen.
            let _infallible = write!(
                html,
                "<rect class=\"heat\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\" fill-opacity=\"{:.2}\"><title>{} s: {} ms and more: {} I/Os, {} \
                 %</title></rect>",
                (right - left).max(1.0),
                (bottom - top).max(1.0),
                share.sqrt().max(0.06),
                shown(end_s),
                shown(begin_ms(bucket)),
                count,
                shown(share * 100.0)
            );
        }
        begin_s = end_s;
    }
    html.push_str("</svg></figure>");
    html
}
