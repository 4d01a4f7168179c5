//! The reference benchmark's `config.yaml`, read as `--config`: known by its sections, mapped to
//! settings of ours where one has the same meaning. The rest is told in one line, so that no figure
//! seems to count that doesn't. Settings of ours may stand beside its sections, and win over them.

mod models;
mod sections;

use ringfall_workloads::config::{Persona, RagDistribution};
use serde_json::Value;

use self::models::models;
use self::sections::{QosProfile, Rag, Retrieval, SECTIONS, Sections, UserTemplate};
use super::yaml::{explain, key_of};
use super::{InputError, Options, WorkloadSection};

/// Characters in a token where a dataset's tokens are estimated: the same here, and not varied.
const CHARS_A_TOKEN: u32 = 4;

/// The section that makes a text a file of the reference's, if one does: settings of ringfall may
/// have the name of one, but have a value where a section has keys.
pub(super) fn section_of(text: &str) -> Option<&'static str> {
    text.lines().filter(|line| is_top(line)).find_map(section_begun)
}

fn is_top(line: &str) -> bool {
    !line.starts_with([' ', '\t', '#'])
}

/// The section that a line at the top begins.
fn section_begun(line: &str) -> Option<&'static str> {
    let value = line.split_once(':').map_or("", |(_, value)| value.trim_start());
    let has_keys = value.is_empty() || value.starts_with(['#', '{']);
    let key = key_of(line).filter(|_| has_keys)?;
    SECTIONS.into_iter().find(|section| *section == key)
}

/// The reference's sections, and our settings beside them: each with empty lines in the place of
/// the other's, so that lines keep their numbers.
fn parted(text: &str) -> (String, String) {
    let (mut theirs, mut ours) = (String::new(), String::new());
    let mut is_ours = false;
    for line in text.lines() {
        if let (true, Some(key)) = (is_top(line), key_of(line)) {
            is_ours = section_begun(line).is_none() && Options::KEYS.contains(&key);
        }
        let (to, other) = if is_ours { (&mut ours, &mut theirs) } else { (&mut theirs, &mut ours) };
        to.push_str(line);
        to.push('\n');
        other.push('\n');
    }
    (theirs, ours)
}

/// Merges two values, `upper` over `lower`, key by key where both have keys.
fn laid_over(upper: Value, lower: Value) -> Value {
    match (upper, lower) {
        (Value::Object(upper), Value::Object(mut lower)) => {
            for (key, value) in upper {
                let below = lower.remove(&key).unwrap_or(Value::Null);
                lower.insert(key, laid_over(value, below));
            }
            Value::Object(lower)
        }
        (upper, _) => upper,
    }
}

/// Reads such a text: its settings, and what is to be told about it.
///
/// # Errors
/// The text is no such file, or describes a model without one of its figures.
pub(super) fn parse(
    name: &str,
    text: &str,
    section: &str,
) -> Result<(Options, Vec<String>), InputError> {
    let (theirs, ours) = parted(text);
    let all = format!(
        "the section {section:?} makes this a file in the reference benchmark's layout, which has \
         no such key, and ringfall has no such setting (`ringfall config --defaults` lists all)"
    );
    let wrong = |error: &serde_saphyr::Error| InputError::new(explain(name, text, error, &all));
    let sections: Sections = serde_saphyr::from_str(&theirs).map_err(|error| wrong(&error))?;
    let own: Options = match ours.trim() {
        "" => Options::default(),
        _ => serde_saphyr::from_str(&ours).map_err(|error| wrong(&error))?,
    };
    let mut models =
        models(&sections).map_err(|what| InputError::new(format!("{name}: {what}")))?;
    models.extend(own.models.clone().unwrap_or_default());
    let told = told(name, &without_effect(&sections));
    let mut workload = workload(&sections);
    if own.workload.is_some() {
        let unmerged =
            |what: &dyn std::fmt::Display| InputError::new(format!("{name}: workload: {what}"));
        let given: Value = serde_saphyr::from_str(&ours).map_err(|error| wrong(&error))?;
        let below = serde_json::to_value(&workload).map_err(|error| unmerged(&error))?;
        let both = laid_over(given["workload"].clone(), below);
        workload = serde_json::from_value(both).map_err(|error| unmerged(&error))?;
    }
    let options = Options {
        models: Some(models).filter(|models| !models.is_empty()),
        workload: Some(workload),
        ..own
    };
    Ok((options, told))
}

fn told(name: &str, without_effect: &[String]) -> Vec<String> {
    if without_effect.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "{name} is in the reference benchmark's layout; of it, these have no effect here: {}",
        without_effect.join(", ")
    )]
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

/// The `workload` section that has the file's figures.
fn workload(sections: &Sections) -> WorkloadSection {
    let mut to = WorkloadSection::default();
    let sections = sections.clone();
    let templates = sections.user_templates.unwrap_or_default();
    for (name, template) in [
        ("chatbot", templates.chatbot),
        ("coding", templates.coding),
        ("document", templates.document),
    ] {
        if let (Some(template), Some(persona)) = (template, to.personas.get_mut(name)) {
            vary(persona, template);
        }
    }
    let timing = sections.generation_timing.unwrap_or_default();
    set(&mut to.generation_fast_ms, timing.fast.map(milliseconds));
    set(&mut to.generation_realistic_ms, timing.realistic.map(milliseconds));
    let classes = sections.qos_distribution.unwrap_or_default();
    let interactive = classes.interactive_probability.unwrap_or(to.interactive_share);
    let threshold =
        classes.responsive_threshold.unwrap_or(to.interactive_share + to.responsive_share);
    to.interactive_share = interactive;
    // One draw, compared with the first and then with the second: the class between has the rest.
    to.responsive_share = without_rounding((threshold - interactive).max(0.0));
    let prefixes = sections.prefix_cache.unwrap_or_default();
    set(&mut to.prefix_probability, prefixes.system_prompt_hit_probability);
    let conversation = sections.conversation.unwrap_or_default();
    set(&mut to.conversations_live_max, conversation.max_conversations);
    set(&mut to.conversation_turns_max, conversation.max_turns_per_conv);
    set(&mut to.conversation_end_probability, conversation.end_conversation_probability);
    set(&mut to.decode_batch_tokens, sections.decode.unwrap_or_default().batch_size);
    let dataset = sections.sharegpt.unwrap_or_default();
    set(&mut to.dataset_context_tokens_max, dataset.max_context_tokens);
    set(&mut to.dataset_generate_tokens_max, dataset.max_generation_tokens);
    let eviction = sections.eviction.unwrap_or_default();
    set(&mut to.eviction.target_usage_ratio, eviction.target_usage_ratio);
    set(&mut to.eviction.large_entry_limit_ratio, eviction.large_entry_limit_ratio);
    let gpu = sections.gpu_backend.unwrap_or_default();
    set(&mut to.gpu.memory_fraction, gpu.memory_fraction);
    set(&mut to.gpu.reserve_fraction, gpu.free_memory_threshold);
    retrieval(&mut to, &sections.rag.unwrap_or_default());
    let profiles = sections.qos_profiles.unwrap_or_default();
    let targets = &mut to.qos_targets_ms;
    for (targets, profile) in [
        (&mut targets.interactive, profiles.interactive),
        (&mut targets.responsive, profiles.responsive),
        (&mut targets.batch, profiles.batch),
    ] {
        promise(targets, &profile.unwrap_or_default());
    }
    let scale = sections.autoscaler.unwrap_or_default();
    set(&mut to.autoscaler.users_min, scale.min_users);
    set(&mut to.autoscaler.users_max, scale.max_users);
    set(&mut to.autoscaler.scale_up_factor, scale.scale_up_factor);
    set(&mut to.autoscaler.scale_down_factor, scale.scale_down_factor);
    let saturation = sections.saturation_detection.unwrap_or_default();
    set(&mut to.saturation_targets.read_p95_ms, saturation.read_latency_p95_threshold_ms);
    set(&mut to.saturation_targets.write_p95_ms, saturation.write_latency_p95_threshold_ms);
    set(&mut to.saturation_targets.queue_depth, saturation.queue_depth_threshold);
    let limits = sections.validation_limits.unwrap_or_default();
    set(&mut to.limits.users_max, limits.max_users);
    set(&mut to.limits.duration_s_max, limits.max_duration_seconds);
    set(&mut to.limits.gpu_mem_gb_max, limits.max_gpu_memory_gb);
    set(&mut to.limits.cpu_mem_gb_max, limits.max_cpu_memory_gb);
    to
}

fn vary(persona: &mut Persona, template: UserTemplate) {
    set(&mut persona.context_tokens, template.context_range);
    set(&mut persona.generation_tokens, template.generation_range);
    set(&mut persona.think_time_s, template.think_time_range);
}

fn retrieval(to: &mut WorkloadSection, rag: &Rag) {
    set(&mut to.rag.chunk_tokens, rag.chunk_size_tokens);
    set(&mut to.rag.top_k, rag.top_k_chunks);
    set(&mut to.rag.chunk_bytes_max, rag.max_chunk_bytes);
    set(&mut to.rag.probability, rag.request_probability);
    let distribution = rag.retrieval_distribution.map(|distribution| match distribution {
        Retrieval::Zipfian => RagDistribution::Zipf,
        Retrieval::Uniform => RagDistribution::Uniform,
    });
    set(&mut to.rag.distribution, distribution);
    set(&mut to.rag.max_documents, rag.max_documents);
    let [least, most] = &mut to.rag.document_tokens_large;
    set(least, rag.large_model_doc_tokens_min);
    set(most, rag.large_model_doc_tokens_max);
    let [least, most] = &mut to.rag.document_tokens;
    set(least, rag.small_model_doc_tokens_min);
    set(most, rag.small_model_doc_tokens_max);
}

fn promise(targets: &mut [u64; 4], profile: &QosProfile) {
    let given = [
        profile.target_latency_p95_ms,
        profile.target_latency_p99_ms,
        profile.target_latency_p999_ms,
        profile.target_latency_p9999_ms,
    ];
    for (target, given) in targets.iter_mut().zip(given) {
        set(target, given);
    }
}

/// Settings that were read and decide nothing, by section where it is a whole one, otherwise by
/// key.
fn without_effect(sections: &Sections) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut name = |is_given: bool, what: &str| {
        if is_given {
            names.push(what.to_owned());
        }
    };
    let given = sections.clone();
    let eviction = given.eviction.unwrap_or_default();
    let attempts =
        [eviction.max_recursion_depth, eviction.max_evictions_hard_cap, eviction.max_evictions_min];
    name(
        attempts.iter().any(Option::is_some),
        "eviction.max_* (an eviction goes on until there is room)",
    );
    let gpu = given.gpu_backend.unwrap_or_default();
    name(
        gpu.max_eviction_attempts.is_some(),
        "gpu_backend.max_eviction_attempts (an eviction goes on until there is room)",
    );
    let saturation = given.saturation_detection.unwrap_or_default();
    name(
        saturation.history_window_size.is_some(),
        "saturation_detection.history_window_size (a step lasts until its P95 is known)",
    );
    let prefixes = given.prefix_cache.unwrap_or_default();
    name(prefixes.min_prefix_length.is_some(), "prefix_cache.min_prefix_length");
    name(prefixes.max_prefix_entries.is_some(), "prefix_cache.max_prefix_entries");
    let scale = given.autoscaler.unwrap_or_default();
    name(
        scale.consecutive_samples_required.is_some(),
        "autoscaler.consecutive_samples_required (a step lasts until it is steady)",
    );
    let timing = given.generation_timing.unwrap_or_default();
    name(timing.none.is_some_and(|seconds| seconds != 0.0), "generation_timing.none");
    let estimate = given.sharegpt.unwrap_or_default().chars_per_token_estimate;
    name(estimate.is_some_and(|chars| chars != CHARS_A_TOKEN), "sharegpt.chars_per_token_estimate");
    let profiles = given.qos_profiles.unwrap_or_default();
    let classes = [profiles.interactive, profiles.responsive, profiles.batch];
    let [high, middle, low] = classes.map(|profile| profile.and_then(|profile| profile.priority));
    let priorities = [high.unwrap_or(3), middle.unwrap_or(2), low.unwrap_or(1)];
    let is_ours = priorities.is_sorted_by(|higher, lower| higher > lower);
    name(!is_ours, "qos_profiles.*.priority (interactive, responsive, batch is the order)");
    names
}

fn milliseconds(seconds: f64) -> f64 {
    without_rounding(seconds * 1e3)
}

/// A sum or product of decimal figures as a person would write it: 0.35, not 0.35000000000000003.
fn without_rounding(value: f64) -> f64 {
    const DIGITS: f64 = 1e12;
    let rounded = (value * DIGITS).round() / DIGITS;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests;
