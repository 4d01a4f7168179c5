//! The page's rows on the GPU tier, where any of the results asked for one.

use ringfall_model::Document;
use ringfall_model::document::GpuReport;

use super::or_dash;
use super::page::{Beside, held, moved};
use crate::show::table::UNKNOWN;

/// Adds rows to the table of tiers. What stands in for a GPU is named in each of them.
pub(super) fn rows(table: &mut Beside<'_>) {
    let mut gpus = table.results.iter().map(|named| named.document.ringfall.gpu.as_ref());
    if gpus.all(|gpu| gpu.is_none()) {
        return;
    }
    let mut row = |name: &str, pick: &dyn Fn(&Document, &GpuReport) -> String| {
        table.row(name, |document| Some(pick(document, document.ringfall.gpu.as_ref()?)));
    };
    row("GPU tier, backend", &|_, gpu| told(gpu));
    row("GPU tier, way from storage", &|_, gpu| {
        gpu.transfer.as_ref().map_or(UNKNOWN, |way| way.as_str()).to_owned()
    });
    row("GPU tier, GiB held when the window closed", &|d, gpu| {
        let held =
            held(d, |second| second.tiers.gpu.held_bytes.known(), gpu.capacity_bytes.known());
        held.unwrap_or_else(|| UNKNOWN.to_owned())
    });
    row("GPU tier, GiB read / written", &|d, _| {
        let stats = &d.summary.cache_stats;
        let read = or_dash(stats.tier_gpu_kv_bytes_read_gb.known());
        format!("{read} / {}", or_dash(stats.tier_gpu_kv_bytes_written_gb.known()))
    });
    row("demoted from GPU to CPU", &|d, _| moved(&d.ringfall.evictions.gpu_to_cpu));
    row("demoted from GPU to storage", &|d, _| moved(&d.ringfall.evictions.gpu_to_storage));
}

fn told(gpu: &GpuReport) -> String {
    let names: Vec<String> = gpu.devices.iter().map(|device| device.name.to_string()).collect();
    match (gpu.why_not.as_ref(), gpu.backend.as_ref()) {
        (Some(why), None) => format!("left out: {why}"),
        (Some(why), Some(_)) => format!("{}; smaller than asked for: {why}", names.join(", ")),
        (None, Some(_)) if gpu.is_gpu.known() == Some(true) => names.join(", "),
        (None, Some(backend)) => format!("{backend}: not a GPU's figures"),
        // Of merged results that had different ones, or did not all have one.
        (None, None) => UNKNOWN.to_owned(),
    }
}
