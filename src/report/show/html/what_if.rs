//! The page of simulated runs side by side.

use std::path::Path;

use super::chart::{self, Line};
use super::markup::Html;
use super::shown;
use crate::show::{WhatIf, WhatIfRow};

/// Writes simulated runs side by side as a page.
pub fn write_what_if_html(what_if: &WhatIf, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(what_if).as_bytes())
}

fn page(what_if: &WhatIf) -> String {
    let mut html = Html::new("What if", "What if");
    html.sub(&format!(
        "simulated: {} s each · seed {} · {} GiB of CPU memory",
        what_if.seconds,
        what_if.seed,
        shown(what_if.cpu_memory_gib)
    ));
    html.notes(&what_if.doubts);
    let charts = [
        by_users(what_if, "Storage bandwidth by users", "GiB/s", |row| Some(row.storage_gib_per_s)),
        by_users(what_if, "Tokens by users", "tokens/s", |row| Some(row.tokens_per_s)),
        by_users(what_if, "P95 of reading an entry by users", "s", |row| row.read_p95_s),
        by_users(what_if, "Earlier turns found by users", "%", |row| {
            Some(row.reuse_share? * 100.0)
        }),
        by_users(what_if, "How busy the drive is", "%", |row| Some(row.drive_busy_share * 100.0)),
    ];
    html.charts(&charts.concat());
    html.heading("All runs");
    html.table(&what_if.table());
    for note in what_if.reuse_notes() {
        html.paragraph(&format!("Note: {note}."));
    }
    for worth in what_if.gpu_memory.iter().flatten() {
        html.paragraph(&format!(
            "{} GiB of VRAM, {} on {}: {}.",
            shown(worth.gpu_memory_gib),
            worth.model,
            worth.device,
            worth.told()
        ));
    }
    html.end("Made by ringfall.")
}

fn by_users(
    what_if: &WhatIf,
    title: &str,
    y: &str,
    value: fn(&WhatIfRow) -> Option<f64>,
) -> String {
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
            let vram = match gpus.len() {
                1 => String::new(),
                _ => format!(", {} GiB of VRAM", shown(gpu_memory_gib)),
            };
            let name = format!("{model}, {device}{vram}");
            lines.push(Line::new(name, colour, points).dashed_if(place > 0));
        }
    }
    chart::by_users(title, y, &lines)
}
