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
    let known_mla = known.and_then(|model| model.mla);
    let figure = |key: &str, given: Option<u64>, built_in: Option<u64>| {
        given.or(built_in).ok_or_else(|| {
            format!(
                "model_configs.{name} has no {key}, and no built-in model of that name has one \
                 either: add it"
            )
        })
    };
    let attention = config.attention_type;
    let is_mla = attention.map_or(known_mla.is_some(), |attention| attention == Attention::Mla);
    let mla = || -> Result<Mla, String> {
        let (rank, dim) = (config.kv_lora_rank, config.qk_rope_head_dim);
        let known_dim = known_mla.map(|mla| mla.qk_rope_head_dim);
        Ok(Mla {
            kv_lora_rank: figure("kv_lora_rank", rank, known_mla.map(|mla| mla.kv_lora_rank))?,
            qk_rope_head_dim: figure("qk_rope_head_dim", dim, known_dim)?,
        })
    };
    // Latent attention has no heads of keys and values.
    let without_heads = Some(0).filter(|_| is_mla && known.is_none());
    // The reference writes 0 for "hidden / heads".
    let own_dim = config.kv_dim_per_head.or(known.and_then(|model| model.kv_dim_per_head));
    let dtype = config.dtype.or(known.map(|model| model.dtype));
    let heads = config.kv_heads.or(without_heads);
    let of = |figure: fn(&ModelSpec) -> u64| known.map(figure);
    Ok(ModelSpec {
        num_layers: figure("num_layers", config.num_layers, of(|model| model.num_layers))?,
        hidden_dim: figure("hidden_dim", config.hidden_dim, of(|model| model.hidden_dim))?,
        num_heads: figure("num_heads", config.num_heads, of(|model| model.num_heads))?,
        kv_heads: figure("kv_heads", heads, of(|model| model.kv_heads))?,
        kv_dim_per_head: own_dim.filter(|dim| *dim > 0),
        dtype: dtype.ok_or_else(|| format!("model_configs.{name} has no dtype: add it"))?,
        mla: is_mla.then(mla).transpose()?,
        active_parameters: known.and_then(|model| model.active_parameters),
    })
}
