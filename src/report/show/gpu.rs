//! Terminal output about the GPU tier: its backend, or why there is none.

use ringfall_config::Plan;
use ringfall_core::key::Tier;
use ringfall_core::metrics::TierMetrics;
use ringfall_core::units::gib;
use ringfall_model::facts::{GpuBacking, GpuOutcome, GpuTransferOutcome};

use super::latency::LatencyRow;
use super::terminal::{Style, wrapped};

/// Where the text of a line of the banner begins.
const INDENT: usize = 12;

/// The banner's lines on the tier that was asked for.
pub(super) fn banner_lines(style: Style, plan: &Plan, gpu: &GpuOutcome) -> String {
    let is_gpu = gpu.backing.is_some_and(GpuBacking::is_gpu);
    let style = if is_gpu { Style::PLAIN } else { style };
    wrapped(style, &format!("{:<INDENT$}", "  gpu"), INDENT, &text(plan, gpu))
}

/// The latencies of the tier, named by what stands behind it: no other figures are a GPU's.
pub(super) fn latency_rows<'a>(
    tier: &'a TierMetrics,
    gpu: Option<&GpuOutcome>,
) -> [LatencyRow<'a>; 4] {
    let name = match gpu.and_then(|gpu| gpu.backing) {
        Some(GpuBacking::Simulated) => "sim. GPU",
        Some(backing) if !backing.is_gpu() => "emulated",
        _ => "GPU tier",
    };
    [
        (format!("{name} read, entry"), &tier.read.total),
        ("  of that, device".to_owned(), &tier.read.device),
        (format!("{name} write, entry"), &tier.write.total),
        ("  of that, device".to_owned(), &tier.write.device),
    ]
}

/// Addition to the GPU tier's name, in the list of tiers, where no GPU backs it.
pub(super) fn backing(tier: Tier, gpu: Option<&GpuOutcome>) -> String {
    let backing = gpu.filter(|_| tier == Tier::Gpu).and_then(|gpu| gpu.backing);
    match backing.filter(|backing| !backing.is_gpu()) {
        Some(backing) => format!(" ({}: no GPU)", backing.name()),
        None => String::new(),
    }
}

fn text(plan: &Plan, gpu: &GpuOutcome) -> String {
    let asked = gib(gpu.asked_bytes);
    let size = match plan.gpus {
        1 => format!("{asked:.1} GiB"),
        gpus => {
            let each = asked / f64::from(gpus);
            format!("{gpus} × {each:.1} GiB ({asked:.1} GiB in all)")
        }
    };
    let parallel = match plan.tensor_parallel {
        1 => String::new(),
        parallel => format!(", tensor parallel {parallel}"),
    };
    let way = match &gpu.transfer {
        Some(transfer) if transfer.is_direct => {
            "; data between it and storage bypasses host memory (gds)".to_owned()
        }
        Some(GpuTransferOutcome { why_not_direct: Some(why), .. }) => {
            format!("; data between it and storage goes through buffers (pinned): {why}")
        }
        _ => String::new(),
    };
    match (gpu.backing, &gpu.why_not) {
        (None, Some(why)) => format!("{size} left out: {why}"),
        (Some(backing), why) if backing.is_gpu() => {
            let names: Vec<&str> = gpu.devices.iter().map(|device| device.name.as_str()).collect();
            let smaller = why.as_ref().map_or_else(String::new, |why| {
                format!("; {:.2} GiB of it taken: {why}", gib(gpu.given_bytes))
            });
            format!("{size}{parallel} on {}{smaller}{way}", names.join(", "))
        }
        (backing, _) => {
            let name = backing.map_or("none", GpuBacking::name);
            format!("{size}{parallel}, {name}: what is measured of it is not a GPU's{way}")
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;
    use ringfall_model::testing::nothing;

    use super::*;
    use crate::show::prose::WIDTH;

    fn told(gpus: u32, parallel: u32, gpu: &GpuOutcome) -> String {
        let mut plan = nothing().plan;
        (plan.gpus, plan.tensor_parallel) = (gpus, parallel);
        let text = banner_lines(Style::PLAIN, &plan, gpu);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        text
    }

    #[test]
    fn the_banner_says_what_stands_behind_the_tier_or_why_there_is_none() {
        let left_out = GpuOutcome::left_out(16 * GIB, "no driver was found".to_owned());
        assert_eq!(told(1, 1, &left_out), "  gpu       16.0 GiB left out: no driver was found\n");
        let text = told(8, 8, &GpuOutcome::simulated(1128 * GIB));
        assert!(text.contains("8 × 141.0 GiB (1128.0 GiB in all), tensor parallel 8"), "{text}");
        assert!(text.contains("simulated") && text.contains("not a GPU's"), "{text}");
    }
}
