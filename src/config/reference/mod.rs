//! The reference benchmark's `config.yaml`, read as `--config`: known by its sections, mapped to
//! settings of ours where one has the same meaning. The rest is told in one line, so that no figure
//! seems to count that doesn't. Settings of ours may stand beside its sections, and win over them.

mod models;
mod sections;

use serde_json::Value;

use self::models::models;
use self::sections::{QosProfile, QosProfiles, Section as _, Sections, without_rounding};
use super::yaml::{explain, key_of};
use super::{InputError, Options, WorkloadSection};

/// The section that makes a text a file of the reference's, if one does: settings of ringfall may
/// have the name of one, but have a value where a section has keys.
pub(super) fn section_of(text: &str) -> Option<&'static str> {
    text.lines().filter(|line| is_top(line)).find_map(section_begun)
}

fn is_top(line: &str) -> bool {
    !line.starts_with([' ', '\t', '#'])
}

/// The section that a line at the top begins. The setting `gpu_backend` of our own files has a
/// value in the place of keys.
fn section_begun(line: &str) -> Option<&'static str> {
    let value = line.split_once(':').map_or("", |(_, value)| value.trim_start());
    let has_keys = value.is_empty() || value.starts_with(['#', '{']);
    let key = key_of(line).filter(|_| has_keys)?;
    Sections::KEYS.iter().copied().find(|section| *section == key)
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
    let (mut workload, idle) = workload(sections);
    let told = (!idle.is_empty()).then(|| {
        format!(
            "{name} is in the reference benchmark's layout; of it, these have no effect here: {}",
            idle.join(", ")
        )
    });
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
    Ok((options, told.into_iter().collect()))
}

/// The `workload` section that has the file's figures, and the names of those without effect.
fn workload(sections: Sections) -> (WorkloadSection, Vec<&'static str>) {
    let mut to = WorkloadSection::default();
    let classes = sections.qos_distribution.clone().unwrap_or_default();
    let usual = to.interactive_share + to.responsive_share;
    let threshold = classes.responsive_threshold.unwrap_or(usual);
    let is_in_order = is_in_order(sections.qos_profiles.clone().unwrap_or_default());
    let mut idle = sections.apply(&mut to);
    // Several keys of one name.
    idle.dedup();
    if !is_in_order {
        idle.push("qos_profiles.*.priority (interactive, responsive, batch is the order)");
    }
    // One draw, compared with the first and then with the second: the class between has the rest.
    to.responsive_share = without_rounding((threshold - to.interactive_share).max(0.0));
    (to, idle)
}

/// Whether the classes have the priorities that ours have, the most urgent first.
fn is_in_order(profiles: QosProfiles) -> bool {
    let of = |profile: Option<QosProfile>| profile.and_then(|profile| profile.priority);
    let high = of(profiles.interactive).unwrap_or(3);
    let middle = of(profiles.responsive).unwrap_or(2);
    high > middle && middle > of(profiles.batch).unwrap_or(1)
}

#[cfg(test)]
mod tests;
