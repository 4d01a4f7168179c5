//! Speed of computing a context, from a GPU's peak: what a miss costs where nobody has measured it.

use crate::model::ModelSpec;

/// A GPU by its name, with its dense peak in bfloat16, FLOP/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrefillGpu {
    /// Name in lower case, as it is typed.
    pub name: &'static str,
    /// Peak of dense matrix products, FLOP/s.
    pub peak_flops: f64,
}

/// The GPUs that are known. Peaks are those of the makers' data sheets, without sparsity, of the
/// SXM or OAM variant where there are several.
pub const GPUS: [PrefillGpu; 6] = [
    PrefillGpu { name: "a100", peak_flops: 312e12 },
    PrefillGpu { name: "b200", peak_flops: 2_250e12 },
    PrefillGpu { name: "h100", peak_flops: 989e12 },
    PrefillGpu { name: "h200", peak_flops: 989e12 },
    PrefillGpu { name: "l40s", peak_flops: 362e12 },
    PrefillGpu { name: "mi300x", peak_flops: 1_307e12 },
];

/// Share of the peak that prefill reaches, assumed: between the 0.43 of training Llama 3
/// (arXiv:2407.21783, table 4) and the 0.76 of prefill with PaLM 540B (arXiv:2211.05102).
pub const PEAK_SHARE: f64 = 0.5;

impl PrefillGpu {
    /// Prefill speed of a model on so many of these, tokens/s: `PEAK_SHARE` of their peaks, at two
    /// operations a token and active parameter (arXiv:2001.08361, section 2.1). Attention over the
    /// context is left out, so that long contexts take longer. None where the model's parameters
    /// are unknown.
    #[must_use]
    pub fn prefill_tokens_per_s(&self, model: &ModelSpec, gpus: u64) -> Option<f64> {
        let parameters = model.active_parameters.filter(|&parameters| parameters > 0)?;
        Some(self.peak_flops * gpus as f64 * PEAK_SHARE / (2.0 * parameters as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::built_in;

    #[test]
    fn a_token_costs_two_operations_a_parameter() {
        let h100 = GPUS.iter().find(|gpu| gpu.name == "h100").unwrap();
        let speed = |model: &str, gpus| {
            h100.prefill_tokens_per_s(&built_in(model).unwrap(), gpus).unwrap().round()
        };
        assert_eq!(speed("llama3.1-8b", 1), 30_791.0);
        assert_eq!(speed("llama3.1-70b-instruct", 8), 28_017.0);
        let unknown = ModelSpec { active_parameters: None, ..built_in("llama3.1-8b").unwrap() };
        assert_eq!(h100.prefill_tokens_per_s(&unknown, 1), None);
    }
}
