//! The page of simulated runs side by side.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_host::escape;

use super::axis::Axis;
use super::chart::{Chart, Line};
use super::{STYLE, shown};
use crate::show::{WhatIf, WhatIfRow};

/// Writes the page.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_what_if_html(what_if: &WhatIf, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(what_if).as_bytes())
}

fn page(what_if: &WhatIf) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>What if</title><style>{STYLE}</style></head>\
         <body><main>\n<h1>What if</h1><div class=\"sub\">simulated: {} s each · seed {} · {} GiB \
         of CPU memory</div>\n",
        what_if.seconds,
        what_if.seed,
        shown(what_if.cpu_memory_gib)
    );
    if !what_if.doubts.is_empty() {
        let notes = what_if.doubts.iter().map(|doubt| format!("<li>{}</li>", escape::html(doubt)));
        let _infallible = writeln!(html, "<ul class=\"notes\">{}</ul>", notes.collect::<String>());
    }
    let charts = [
        chart(what_if, "Storage bandwidth by users", "GiB/s", |row| Some(row.storage_gib_per_s)),
        chart(what_if, "Tokens by users", "tokens/s", |row| Some(row.tokens_per_s)),
        chart(what_if, "P95 of responsive requests by users", "s", |row| row.p95_s[1]),
        chart(what_if, "How busy the drive is", "%", |row| Some(row.drive_busy_share * 100.0)),
    ];
    let _infallible = writeln!(html, "<div class=\"charts\">{}</div>", charts.concat());
    table(&mut html, what_if);
    html.push_str("<footer>Made by ringfall.</footer></main></body></html>\n");
    html
}

fn chart(what_if: &WhatIf, title: &str, y: &str, value: fn(&WhatIfRow) -> Option<f64>) -> String {
    let mut lines = Vec::new();
    for (colour, device) in what_if.devices().into_iter().enumerate() {
        let gpus = what_if.gpu_memories();
        let kinds = what_if
            .models()
            .into_iter()
            .flat_map(|model| gpus.iter().map(move |gpu_memory_gib| (model, *gpu_memory_gib)));
        for (place, (model, gpu_memory_gib)) in kinds.enumerate() {
            let rows = what_if.rows.iter().filter(|row| {
                (row.device.as_str(), row.model.as_str(), row.gpu_memory_gib)
                    == (device, model, gpu_memory_gib)
            });
            let mut points: Vec<(f64, f64)> =
                rows.filter_map(|row| Some((f64::from(row.users), value(row)?))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let dots = points.len() == 1;
            let vram = match gpus.len() {
                1 => String::new(),
                _ => format!(", {} GiB of VRAM", shown(gpu_memory_gib)),
            };
            let name = format!("{model}, {device}{vram}");
            lines.push(Line { name, colour, dashed: place > 0, points, dots });
        }
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let few = points().map(|point| point.0).fold(f64::INFINITY, f64::min).clamp(1.0, 1e9);
    let many = points().map(|point| point.0).fold(few * 2.0, f64::max);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let x = ("users", Axis::log(few, many));
    Chart { title, about: title, x, y: (y, Axis::linear(high)), lines }.html()
}

fn table(html: &mut String, what_if: &WhatIf) {
    html.push_str(
        "<h2>All runs</h2><table><tr><th>model</th><th>users</th><th>VRAM, GiB</th><th>drive</th>\
         <th>read GiB/s</th>\
         <th>write GiB/s</th><th>ratio</th><th>tokens/s</th><th>P95 interactive, s</th>\
         <th>responsive</th><th>batch</th><th>drive busy</th><th>bound by</th></tr>",
    );
    for row in &what_if.rows {
        let seconds = |value: Option<f64>| value.map_or("–".to_owned(), shown);
        let _infallible = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{} %</td><td title=\"{}\">{}</td></tr>",
            escape::html(&row.model),
            row.users,
            shown(row.gpu_memory_gib),
            escape::html(&row.device),
            shown(row.read_gib_per_s),
            shown(row.write_gib_per_s),
            seconds(what_if.ratio(row)),
            shown(row.tokens_per_s),
            seconds(row.p95_s[0]),
            seconds(row.p95_s[1]),
            seconds(row.p95_s[2]),
            shown(row.drive_busy_share * 100.0),
            escape::html(&row.because),
            row.binds.name()
        );
    }
    html.push_str("</table>\n");
    for worth in what_if.gpu_memory.iter().flatten() {
        let _infallible = writeln!(
            html,
            "<p>{} GiB of VRAM, {} on {}: {}.</p>",
            shown(worth.gpu_memory_gib),
            escape::html(&worth.model),
            escape::html(&worth.device),
            escape::html(&worth.told())
        );
    }
}
