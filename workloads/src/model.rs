//! LLM models as far as a KV cache cares: bytes a token.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Element type of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 4 bytes.
    Float32,
    /// 2 bytes.
    Float16,
    /// 2 bytes.
    Bfloat16,
    /// 1 byte.
    Int8,
    /// 1 byte.
    Fp8,
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Dtype::Float32 => 4,
            Dtype::Float16 | Dtype::Bfloat16 => 2,
            Dtype::Int8 | Dtype::Fp8 => 1,
        }
    }
}

/// Multi-head latent attention (DeepSeek-V3): K and V are one latent vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mla {
    /// Rank of the compressed latent.
    pub kv_lora_rank: u64,
    /// Dimension of the decoupled rotary key.
    pub qk_rope_head_dim: u64,
}

/// Dimensions of a model, from which the KV bytes of a token follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Number of transformer layers, each of which caches keys and values.
    pub num_layers: u64,
    /// Width of the model's hidden state.
    pub hidden_dim: u64,
    /// Number of attention heads for queries.
    pub num_heads: u64,
    /// Key/value heads; unused with MLA.
    #[serde(default)]
    pub kv_heads: u64,
    /// Head dimension; none: hidden / heads.
    #[serde(default)]
    pub kv_dim_per_head: Option<u64>,
    /// Type of the cached elements, which decides their size.
    pub dtype: Dtype,
    /// MLA in place of MHA/GQA.
    #[serde(default)]
    pub mla: Option<Mla>,
    /// Number of parameters that a token passes through: of a mixture of experts, the active ones.
    /// None: unknown, and no prefill speed follows from the model.
    #[serde(default)]
    pub active_parameters: Option<u64>,
}

impl ModelSpec {
    /// KV bytes of one token, all layers, before tensor parallelism.
    ///
    /// # Errors
    /// A dimension of 0, heads that do not divide the hidden dimension, an absurd product.
    pub fn bytes_per_token(&self) -> Result<u64, Error> {
        let elements = match self.mla {
            Some(mla) => mla.kv_lora_rank.checked_add(mla.qk_rope_head_dim),
            None => {
                let head_dim = match self.kv_dim_per_head {
                    Some(dim) => dim,
                    None if self.num_heads > 0
                        && self.hidden_dim.is_multiple_of(self.num_heads) =>
                    {
                        self.hidden_dim / self.num_heads
                    }
                    None => {
                        return Err(Error::new(format!(
                            "num_heads {} does not divide hidden_dim {}: give kv_dim_per_head",
                            self.num_heads, self.hidden_dim
                        )));
                    }
                };
                self.kv_heads.checked_mul(head_dim).and_then(|n| n.checked_mul(2))
            }
        };
        elements
            .and_then(|n| n.checked_mul(self.num_layers))
            .and_then(|n| n.checked_mul(self.dtype.bytes()))
            // 1 GiB a token is far beyond any model, and keeps every later product in range.
            .filter(|&bytes| bytes > 0 && bytes <= 1 << 30)
            .ok_or_else(|| Error::new("a model needs between 1 byte and 1 GiB of KV a token"))
    }
}

const fn gqa(layers: u64, hidden: u64, heads: u64, kv_heads: u64, dim: Option<u64>) -> ModelSpec {
    ModelSpec {
        active_parameters: None,
        num_layers: layers,
        hidden_dim: hidden,
        num_heads: heads,
        kv_heads,
        kv_dim_per_head: dim,
        dtype: Dtype::Float16,
        mla: None,
    }
}

const fn with_parameters(model: ModelSpec, active_millions: u64) -> ModelSpec {
    ModelSpec { active_parameters: Some(active_millions * 1_000_000), ..model }
}

/// The built-in models, by key: sizes from their published `config.json`, parameters from their
/// model cards and reports. `tiny-1b` is the reference benchmark's, and no published model.
pub const MODELS: [(&str, ModelSpec); 9] = [
    ("tiny-1b", with_parameters(gqa(12, 1024, 8, 4, None), 1_000)),
    ("mistral-7b", with_parameters(gqa(32, 4096, 32, 8, None), 7_240)),
    ("llama2-7b", with_parameters(gqa(32, 4096, 32, 32, None), 6_740)),
    ("llama3.1-8b", with_parameters(gqa(32, 4096, 32, 8, None), 8_030)),
    ("llama3.1-70b-instruct", with_parameters(gqa(80, 8192, 64, 8, None), 70_600)),
    (
        "deepseek-v3",
        ModelSpec {
            active_parameters: Some(37_000_000_000),
            num_layers: 61,
            hidden_dim: 7168,
            num_heads: 128,
            kv_heads: 0,
            kv_dim_per_head: None,
            dtype: Dtype::Float16,
            mla: Some(Mla { kv_lora_rank: 512, qk_rope_head_dim: 64 }),
        },
    ),
    ("qwen3-32b", with_parameters(gqa(64, 5120, 64, 8, Some(128)), 32_800)),
    ("gpt-oss-120b", with_parameters(gqa(36, 2880, 64, 8, Some(64)), 5_100)),
    ("gpt-oss-20b", with_parameters(gqa(24, 2880, 64, 8, Some(64)), 3_600)),
];

/// A built-in model by its key.
pub fn built_in(key: &str) -> Option<ModelSpec> {
    MODELS.iter().find(|(name, _)| *name == key).map(|(_, spec)| spec.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_a_token_are_those_of_the_specification() {
        let expected =
            [24_576, 131_072, 524_288, 131_072, 327_680, 70_272, 262_144, 73_728, 49_152];
        for ((name, spec), bytes) in MODELS.iter().zip(expected) {
            assert_eq!(spec.bytes_per_token().unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(gqa(0, 4096, 32, 8, None).bytes_per_token().is_err());
        assert!(gqa(32, 4096, 0, 8, None).bytes_per_token().is_err());
        assert!(gqa(u64::MAX, 4096, 32, u64::MAX, None).bytes_per_token().is_err());
    }
}
