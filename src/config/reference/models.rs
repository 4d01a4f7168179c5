//! The reference's descriptions of models as ours: what one leaves out is the built-in model's of
//! the same name.

use std::collections::BTreeMap;

use ringfall_workloads::model::{Mla, ModelSpec, built_in};

use super::sections::{Attention, ModelConfig, Sections};

/// Every model of the file.
///
/// # Errors
/// A figure that neither the file nor a built-in model has.
pub(super) fn models(sections: &Sections) -> Result<BTreeMap<String, ModelSpec>, String> {
    let given = sections.model_configs.iter().flatten();
    given.map(|(name, config)| Ok((name.clone(), model(name, config)?))).collect()
}

fn model(name: &str, config: &ModelConfig) -> Result<ModelSpec, String> {
    let known = built_in(name);
    let known = known.as_ref();
    let figure = |key: &str, given: Option<u64>, known: Option<u64>| {
        given.or(known).ok_or_else(|| {
            format!(
                "model_configs.{name} has no {key}, and no built-in model of that name has one \
                 either: add it"
            )
        })
    };
    let is_mla = match config.attention_type {
        Some(attention) => attention == Attention::Mla,
        None => known.is_some_and(|model| model.mla.is_some()),
    };
    let known_mla = known.and_then(|model| model.mla);
    let mla = if is_mla {
        Some(Mla {
            kv_lora_rank: figure(
                "kv_lora_rank",
                config.kv_lora_rank,
                known_mla.map(|mla| mla.kv_lora_rank),
            )?,
            qk_rope_head_dim: figure(
                "qk_rope_head_dim",
                config.qk_rope_head_dim,
                known_mla.map(|mla| mla.qk_rope_head_dim),
            )?,
        })
    } else {
        None
    };
    let of_known = |field: fn(&ModelSpec) -> u64| known.map(field);
    let kv_heads = of_known(|model| model.kv_heads);
    // Latent attention has no heads of keys and values.
    let kv_heads = if is_mla { kv_heads.or(Some(0)) } else { kv_heads };
    // The reference writes 0 for "hidden / heads".
    let own_dim = config.kv_dim_per_head.or(known.and_then(|model| model.kv_dim_per_head));
    Ok(ModelSpec {
        num_layers: figure("num_layers", config.num_layers, of_known(|model| model.num_layers))?,
        hidden_dim: figure("hidden_dim", config.hidden_dim, of_known(|model| model.hidden_dim))?,
        num_heads: figure("num_heads", config.num_heads, of_known(|model| model.num_heads))?,
        kv_heads: figure("kv_heads", config.kv_heads, kv_heads)?,
        kv_dim_per_head: own_dim.filter(|dim| *dim > 0),
        dtype: config
            .dtype
            .or(known.map(|model| model.dtype))
            .ok_or_else(|| format!("model_configs.{name} has no dtype: add it"))?,
        mla,
    })
}
