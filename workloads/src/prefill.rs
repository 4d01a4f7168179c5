//! Speed of computing a context, from a GPU's peak: what a miss costs where nobody has measured it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::contract::Nanos;
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

/// Share of the peak that prefill reaches: between the 0.43 of training Llama 3 (arXiv:2407.21783,
/// table 4) and the 0.76 of prefill with PaLM 540B (arXiv:2211.05102). `tools/gpu-prefill` found
/// 0.46 to 0.59 on an H200 with plain PyTorch, for three models of 7 to 8 billion parameters and
/// contexts of 2,048 to 32,768 tokens, attention counted, and 0.2 to 0.35 for 512 tokens.
pub const PEAK_SHARE: f64 = 0.5;

impl PrefillGpu {
    /// Prefill speed of a model on so many of these, tokens/s: `PEAK_SHARE` of their peaks, at two
    /// operations a token and active parameter (arXiv:2001.08361, section 2.1). Attention over the
    /// context is left out: [`PrefillCost`] has it. None where the model's parameters are unknown.
    pub fn prefill_tokens_per_s(&self, model: &ModelSpec, gpus: u64) -> Option<f64> {
        let parameters = model.active_parameters.filter(|&parameters| parameters > 0)?;
        Some(self.peak_flops * gpus as f64 * PEAK_SHARE / (2.0 * parameters as f64))
    }
}

/// Queue of a model's GPUs, which all shards share: contexts are computed one after another, in the
/// order of asking.
#[derive(Debug, Default)]
pub(crate) struct PrefillQueue {
    /// When all that was asked for so far is computed, ns.
    free_at_ns: AtomicU64,
}

impl PrefillQueue {
    /// When a context is computed that takes so long alone, and is asked for now.
    pub(crate) fn computed_at(&self, now: Nanos, takes: Nanos) -> Nanos {
        let end = |free_at_ns: u64| Nanos::from_ns(free_at_ns).max(now).saturating_add(takes);
        let later = |free_at_ns| Some(end(free_at_ns).as_ns());
        let (Ok(before) | Err(before)) =
            self.free_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        end(before)
    }
}

/// Time that a GPU takes to compute contexts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PrefillCost {
    /// Speed without attention over the context, tokens/s; above 0.
    pub tokens_per_s: f64,
    /// Length of the context whose attention takes as long as all else, tokens, as
    /// [`attention_tokens`] has it. None: attention is left out.
    pub attention_tokens: Option<f64>,
}

impl PrefillCost {
    /// Time to compute the contexts of which these are the lengths' sum and the sum of their
    /// squares, s: attention over a context grows with the square of its length.
    pub fn compute_s(&self, tokens: f64, squares: f64) -> f64 {
        (tokens + self.attention_tokens.map_or(0.0, |equal| squares / equal)) / self.tokens_per_s
    }
}

/// Length of the context whose attention takes as many operations as the model's parameters,
/// tokens. A token's query meets the keys and the values of all tokens before it: 4 operations for
/// each layer and dimension of its heads, so a context of n tokens takes 2 × layers × dimensions ×
/// n² (arXiv:2001.08361, table 1, over half of the pairs), and 2 × parameters × n besides. None
/// where the parameters are unknown, and for latent attention, whose heads have other dimensions.
pub fn attention_tokens(model: &ModelSpec) -> Option<f64> {
    let parameters = model.active_parameters.filter(|&parameters| parameters > 0)?;
    if model.mla.is_some() {
        return None;
    }
    let heads_dim = match model.kv_dim_per_head {
        Some(dim) => dim as f64 * model.num_heads as f64,
        None => model.hidden_dim as f64,
    };
    Some(parameters as f64 / (model.num_layers as f64 * heads_dim)).filter(|n| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::built_in;

    /// Measured by `tools/gpu-prefill` on an H200: with attention, a context of 32,768 tokens takes
    /// within a quarter of the time that is expected; without, two thirds of it.
    /// Each request computed on GPUs of its own: 28 at once where one was meant, so that a cache in
    /// which nothing was found beat one that had it all.
    #[test]
    fn contexts_are_computed_one_after_another() {
        let (queue, ms) = (PrefillQueue::default(), Nanos::from_ms);
        let asked = [(0, 30), (10, 5), (20, 5), (90, 10)];
        let ends = asked.map(|(now, takes)| queue.computed_at(ms(now), ms(takes)));
        assert_eq!(ends, [30, 35, 40, 100].map(ms));
    }

    #[test]
    fn attention_makes_long_contexts_take_longer() {
        let model = built_in("llama3.1-8b").unwrap();
        let h200 = GPUS.iter().find(|gpu| gpu.name == "h200").unwrap();
        let tokens_per_s = h200.prefill_tokens_per_s(&model, 1).unwrap();
        let cost = PrefillCost { tokens_per_s, attention_tokens: attention_tokens(&model) };
        assert_eq!(cost.attention_tokens.unwrap().round(), 61_264.0);
        for (tokens, measured_s) in [(2_048.0, 0.0619), (8_192.0, 0.2603), (32_768.0, 1.3959)] {
            let ratio = cost.compute_s(tokens, tokens * tokens) / measured_s;
            assert!((1.0..1.25).contains(&ratio), "{tokens}: {ratio}");
        }
        let without = PrefillCost { attention_tokens: None, ..cost };
        assert_eq!(without.compute_s(32_768.0, 32_768.0 * 32_768.0), 32_768.0 / tokens_per_s);
        assert_eq!(attention_tokens(&built_in("deepseek-v3").unwrap()), None);
        assert_eq!(attention_tokens(&ModelSpec { active_parameters: None, ..model }), None);
    }

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
